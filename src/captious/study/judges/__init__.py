"""Judges under audit: what a judge or metric sees and prefers, and whether it repeats itself."""
