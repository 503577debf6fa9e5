"""What OnlyStyle and StyleCIDEr share: a model from a file, and a style for each item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.base import MeanMetric, Need
from captious.style.cng import StyleModel
from captious.text.tables import Ints


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model as a metric's state: shards all have the same one, so merging changes nothing."""

    model: StyleModel

    def merge(self, other: Loaded) -> Loaded:
        """The same model."""
        if self.model.mark != other.model.mark:
            raise InputError(f"cannot merge shards scored by the style models {self.model} and {other.model}")
        return self


@dataclass(frozen=True)
class StyleMetric(MeanMetric):
    """A metric under the style of each item: that of a column, or one style for all items."""

    model: str = ""
    style: str = ""
    column: str = "style"

    shown: ClassVar[tuple[str, ...]] = ("model",)
    needs: ClassVar[tuple[Need, ...]] = ("style",)
    citation: ClassVar[str] = (
        "Li, Harrison. StyleM: stylized metrics for image captioning built with contrastive n-grams. arXiv 2022."
    )

    def prepare(self, captions: CaptionSet) -> Loaded:
        """The model, read from its file."""
        from captious.style.files import opened

        if not self.model:
            raise InputError(
                f"{self.name} needs a style model: {self.name}(model=FILE), made with: captious style fit corpus.jsonl "
                "--out FILE"
            )
        return Loaded(opened(self.model).contrasting())

    def settings(self, state: Loaded) -> dict[str, str]:
        """The model by content, its corpus, its size, and how it cuts text into words."""
        model = state.model
        return {
            "tok": model.tokeniser,
            "model": model.mark,
            "corpus": f"{int(model.captions.sum())}:{model.fingerprint:016x}"[:-8],
            "styles": str(len(model.styles)),
        }

    def unscorable(self, captions: CaptionSet) -> dict[str, npt.NDArray[np.bool_]]:
        """An item without a style has no value."""
        reasons = dict(super().unscorable(captions))
        return {**reasons, "no style": np.array([not name for name in self._names(captions)], dtype=np.bool_)}

    def style_numbers(self, captions: CaptionSet, model: StyleModel) -> Ints:
        """The model's number of each item's style; 0 where an item has none, which leaves it without a value."""
        names, known = self._names(captions), {style: index for index, style in enumerate(model.styles)}
        for key, name in zip(captions.ids, names, strict=True):
            if name and name not in known:
                where = "" if self.style else f"{captions.name}: id {key}"
                model.style_number(name, where)
        return np.array([known.get(name, 0) for name in names], dtype=np.int64)

    def _names(self, captions: CaptionSet) -> list[str]:
        if self.style:
            return [self.style] * len(captions)
        if self.column not in captions.columns:
            return [""] * len(captions)
        return ["" if value is None else str(value) for value in captions.columns[self.column]]

    def remedy(self, reason: str) -> str:
        """A style can come from a column or from a parameter."""
        if reason == "no style":
            return f"; give a column {self.column!r}, name another with column=, or one style for all with style="
        return super().remedy(reason)


def same_words(captions: CaptionSet, state: Any) -> Any:
    """The token table of a set as the model cuts text into words."""
    from captious.style.count import bare

    return captions.table(bare(state.model.tokeniser))
