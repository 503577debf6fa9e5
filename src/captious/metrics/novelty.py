"""Novelty: how many candidates nobody wrote before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from captious.captions import CaptionSet
from captious.files import digest
from captious.measurement import Sums
from captious.metrics.base import MeanMetric, Need
from captious.readers.gather import Columns, gather_references
from captious.readers.rows import rows_of


@dataclass(frozen=True)
class KnownCaptions:
    """Captions that are not new, as joined tokens; shards unite."""

    texts: frozenset[str]

    def merge(self, other: KnownCaptions) -> KnownCaptions:
        """What is known to either."""
        return KnownCaptions(self.texts | other.texts)

    def __str__(self) -> str:
        content = "\n".join(sorted(self.texts)).encode()
        return f"{len(self.texts)}:{digest(content)[:8]}"


@dataclass(frozen=True)
class Novelty(MeanMetric):
    """The share of candidates whose tokens are not, as a whole, a caption already known.

    ``against=refs`` knows the references of the set; a path names a file of captions, such as the training captions.

    >>> captions = CaptionSet.of({"1": "A cat.", "2": "a new dog"}, {"1": ["a cat"], "2": ["a dog"]})
    >>> Novelty().measure(captions).corpus
    0.5
    """

    against: str = "refs"
    tokeniser: str = "ptb"

    name: ClassVar[str] = "novelty"
    needs: ClassVar[tuple[Need, ...]] = ()

    def unscorable(self, captions: CaptionSet) -> dict[str, np.ndarray]:
        """Without a file of known captions, references are needed."""
        reasons = dict(super().unscorable(captions))
        if self.against == "refs":
            reasons["no references"] = captions.references.counts == 0
        return reasons

    def prepare(self, captions: CaptionSet) -> KnownCaptions:
        """The captions that are not new."""
        if self.against != "refs":
            found = gather_references(rows_of(self.against), Columns()).references
            known = CaptionSet.of(dict.fromkeys(found, ()), found).table(self.tokeniser)
        else:
            known = captions.table(self.tokeniser)
        return KnownCaptions(frozenset(" ".join(known.words(c)) for c in np.flatnonzero(~known.is_candidate).tolist()))

    def statistics(self, captions: CaptionSet, state: KnownCaptions) -> Sums:
        """How many of the item's candidates are new, and how many there are."""
        table = captions.table(self.tokeniser)
        new = [" ".join(table.words(caption)) not in state.texts for caption in table.candidates.tolist()]
        return Sums(table.mean_rows(np.array(new, dtype=np.float64)))

    def settings(self, state: KnownCaptions) -> dict[str, str]:
        """What is known, by number and content."""
        return {"known": str(state)}
