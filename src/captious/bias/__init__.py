"""Leakage for image captioning (LIC): how much more a captioner gives an attribute away than people do."""

from captious.bias.audit import Audit, audit
from captious.bias.classifiers.bert import Bert
from captious.bias.classifiers.linear import Linear
from captious.bias.classifiers.lstm import Lstm
from captious.bias.corpus import Subject, read_subjects
from captious.bias.lic import Lic
from captious.bias.masking import Mask
from captious.bias.protocol import Protocol, preset, seeds

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
