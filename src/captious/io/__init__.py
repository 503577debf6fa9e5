"""Files, tables and dictionaries as a CaptionSet (`captious.read`), and what is wrong with them (`captious.check`)."""
