"""Leakage for image captioning (LIC): how much more a captioner reveals an attribute than people do.

The function that runs an audit is ``captious.audit``.
"""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
