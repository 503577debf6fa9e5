"""The laboratory: not in the wheel. The toy world, benchmarks, and scripts that measure the structure."""
