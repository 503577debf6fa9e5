"""The evidence on metrics that ships with captious: ``python -m lab.evidence`` writes it, and nobody edits it."""
