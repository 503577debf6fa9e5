"""Leakage for image captioning (LIC): how much more a captioner reveals an attribute than people do.

The function that runs an audit is ``captious.audit``.
"""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
