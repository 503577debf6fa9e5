"""Base of the metrics that count tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from captious.captions import CaptionSet
from captious.metrics.contract import Metric
from captious.text.tables import TextTable
from captious.text.tokenizers import tokenizer_named


class TokenMetric(Metric):
    """A metric over the token table of a set. Its tokenizer is a parameter and part of the signature."""

    tokenizer: str

    def table(self, captions: CaptionSet) -> TextTable:
        """The token table of a set."""
        return TextTable.of(captions, self.tokenizer)

    def settings(self, state: Any) -> Mapping[str, str]:
        """The tokenizer with its version."""
        return {"tok": str(tokenizer_named(self.tokenizer))}
