"""From files, tables and dictionaries to a CaptionSet; one file per format, one that joins, one that doctors."""

from captious.io.read import read

__all__ = ["read"]
