"""OnlyStyle: how much a caption sounds like a style, without references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from captious.captions import CaptionSet
from captious.measurement import Sums
from captious.style.metric import Loaded, StyleMetric, same_words
from captious.style.only import OnlyReading, own_scores
from captious.style.placed import Placed


@dataclass(frozen=True)
class OnlyStyle(StyleMetric):
    """OnlyStyle: the mean contrastive score (CNG) of a caption's n-grams under a style, averaged over orders 1 to 4.

    With M_n(c) the set of n-grams of caption c, and CNG_p(t) the score of n-gram t for style p (`captious style fit`)::

        OnlyStyle(c, p) = ¼ Σ over n of  mean over t in M_n(c) of CNG_p(t)

    It lies between −1/|S| and (|S| − 1)/|S|. The model is a file from ``captious style fit``; the style of an item
    stands in the column ``column``, or ``style`` names one for all items. No code of the authors is public, so these
    are readings of the paper: an n-gram that no style has scores 0 and still counts (``unseen=skip`` leaves it out), a
    caption too short for an order gets 0 there (``short=skip`` averages over the orders it has), and an n-gram counts
    once however often it is repeated (``grams=multiset``). A caption without words therefore scores 0.

    >>> import tempfile
    >>> from captious.style.count import fit
    >>> from captious.style.files import save
    >>> path = tempfile.mkdtemp() + "/tiny.style"
    >>> save(fit([("gloomy", "a grey day"), ("happy", "a fine day")]), path)
    >>> captions = CaptionSet.of({"1": "fine day"}, columns={"style": ["happy"]})
    >>> round(OnlyStyle(model=path).measure(captions).corpus, 6)  # ¼ · ((½ + 0)/2 + ½ + 0 + 0)
    0.1875
    """

    grams: Literal["set", "multiset"] = "set"
    unseen: Literal["zero", "skip"] = "zero"
    short: Literal["zero", "skip"] = "zero"

    name: ClassVar[str] = "onlystyle"
    range: ClassVar[tuple[float, float]] = (-0.5, 1.0)
    undefined: ClassVar[str] = "the model knows no n-gram of the caption"

    @property
    def label(self) -> str:
        """OnlyStyle, with the style where one is named for all items."""
        return f"OnlyStyle ({self.style})" if self.style else "OnlyStyle"

    def statistics(self, captions: CaptionSet, state: Loaded) -> Sums:
        """Sum of the candidates' values, and their number."""
        table = same_words(captions, state)
        style = self.style_numbers(captions, state.model)[table.item]
        values = own_scores(Placed(state.model, table), style, OnlyReading(self.grams, self.unseen, self.short))
        return Sums(table.mean_rows(values[table.candidates]))
