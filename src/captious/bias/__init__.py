"""Leakage for image captioning (LIC): how much more a captioner gives an attribute away than people do.

The function that runs an audit is ``captious.audit``.
"""

from captious.bias.audit import Audit
from captious.bias.classifiers.bert import Bert
from captious.bias.classifiers.linear import Linear
from captious.bias.classifiers.lstm import Lstm
from captious.bias.corpus import Subject, read_subjects
from captious.bias.lic import Lic
from captious.bias.masking import Mask
from captious.bias.protocol import PRESETS, Protocol, preset_named, protocol_for, published_seeds

__all__ = [
    "PRESETS",
    "Audit",
    "Bert",
    "Lic",
    "Linear",
    "Lstm",
    "Mask",
    "Protocol",
    "Subject",
    "preset_named",
    "protocol_for",
    "published_seeds",
    "read_subjects",
]
