"""Default numbers of all resampling, written once; without NumPy, so that the command line starts at once."""

SAMPLES, SHUFFLES, SEED, LEVEL = 1000, 10_000, 12345, 0.95
"""Bootstrap resamples, shuffles of a randomisation test, random seed, confidence level."""
