"""Advice on which metric to use, from the nearest evidence."""
