"""The documentation site: pages that are generated from the code when it is built."""
