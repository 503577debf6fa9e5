"""The package in this folder has a test of its own, which `tests/test_plugin.py` runs where it is installed."""

collect_ignore = ["rare_words"]
