"""What tables and pictures call metrics: their labels, as long as those tell them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


def told_apart(labels: Mapping[str, str]) -> dict[str, str]:
    """A name for each written form: its label, or the written form where another metric has the same label.

    >>> told_apart({"clipscore": "CLIPScore", "clipscore(w=1)": "CLIPScore", "cider": "CIDEr"})
    {'clipscore': 'clipscore', 'clipscore(w=1)': 'clipscore(w=1)', 'cider': 'CIDEr'}
    """
    number = Counter(labels.values())
    return {key: label if number[label] == 1 else key for key, label in labels.items()}
