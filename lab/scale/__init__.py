"""Shards of any number and size, for tests, benchmarks and the documentation."""
