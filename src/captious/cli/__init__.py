"""The command line: one file per command, thin; nothing below imports it."""
