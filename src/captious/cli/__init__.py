"""The command line: thin modules, one per command or group; no other package imports it."""
