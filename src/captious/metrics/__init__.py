"""The contract of a metric (`base`), the list of them (`registry`), and one file per metric."""
