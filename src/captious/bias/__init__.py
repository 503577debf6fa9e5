"""Leakage for image captioning (LIC): how much more a captioner gives an attribute away than people do."""
