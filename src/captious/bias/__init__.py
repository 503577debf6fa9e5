"""Leakage for image captioning (LIC): how much more a captioner gives an attribute away than people do."""

from captious.bias.auditing import Audit, audit
from captious.bias.bert import Bert
from captious.bias.lic import Lic
from captious.bias.linear import Linear
from captious.bias.lstm import Lstm
from captious.bias.presets import preset
from captious.bias.protocol import Protocol, seeds
from captious.bias.reading import Subject, read_subjects
from captious.bias.words import Mask

__all__ = [
    "Audit",
    "Bert",
    "Lic",
    "Linear",
    "Lstm",
    "Mask",
    "Protocol",
    "Subject",
    "audit",
    "preset",
    "read_subjects",
    "seeds",
]
