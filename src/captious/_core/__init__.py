"""Foundations that do not depend on captions: files, records, specs, random numbers, hashes, languages."""
