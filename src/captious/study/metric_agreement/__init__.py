"""Metrics against people: which one agrees with their ratings, and is the difference real."""
