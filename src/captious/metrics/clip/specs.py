"""SPECS: a CLIP trained to rise with every right detail and to fall with every wrong one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from captious._typing import Bools, Floats
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.clip.clipscore import PREFIX, ClipScore
from captious.metrics.clip.encoded import (
    EncodedMetric,
    Similarity,
    similarity,
    token_lengths,
    too_long,
    with_images_or_refuse,
)
from captious.metrics.contract import MeanMetric, Need, Sums, summed
from captious.models.encoder import Cost, Encoder, encoder_id

CITATION = (
    "Chen, Salazar, Kementchedjhieva. SPECS: specificity-enhanced CLIPScore for long image caption evaluation. 2025."
)
B32_LONG = Cost(parameters=151_364_865, image_flops=8.818e9, text_flops=20.235e9)
"""LongCLIP from ViT-B/32 with a text of 248 tokens."""


@dataclass(frozen=True)
class Specs(EncodedMetric):
    """SPECS: how well a long caption suits its image, detail by detail, without references.

    With v the vector of the image and c that of the caption (up to 248 tokens, no words before it)::

        SPECS = (cos(v, c) + 1) / 2

    This is the authors' code. Their paper says "cosine clipped at 0", but the released model gives good captions small
    negative cosines (the examples of its README lie between −.14 and −.08), and clipping those would make all of them
    0: ``value=paper`` does it nevertheless, ``value=raw`` is the cosine itself. Ranks are the same under ``raw`` and
    by default. Trained for long captions: below about 60 tokens CLIPScore agrees better with people (``routed``). The
    arithmetic below is counted with the attention products; the paper's table has 2.81e-2.

    >>> Specs().scaled(np.array([-0.1414, 0.5])).tolist()  # the first example of the authors' README: .4293
    [0.4293, 0.75]
    """

    weights: str = "Xiaohud/SPECS"
    value: Literal["shifted", "raw", "paper"] = "shifted"
    prefix: str = ""

    name: ClassVar[str] = "specs"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    citation: ClassVar[str] = CITATION
    cost: ClassVar[Cost | None] = B32_LONG

    def __post_init__(self) -> None:
        object.__setattr__(self, "range", (-1.0, 1.0) if self.value == "raw" else (0.0, 1.0))

    @property
    def label(self) -> str:
        """SPECS."""
        return "SPECS"

    def scaled(self, cosines: Floats) -> Floats:
        """Values from cosines."""
        if self.value == "raw":
            return cosines
        return np.maximum(cosines, 0.0) if self.value == "paper" else (cosines + 1) / 2


@dataclass(frozen=True, eq=False)
class Moments:
    """Both encoders, and the cosines of a whole corpus under each: how many, their sums, and sums of squares."""

    short: Encoder
    long: Encoder
    sums: Floats

    def merge(self, other: Moments) -> Moments:
        """Of two shards."""
        if (self.short.fingerprint, self.long.fingerprint) != (other.short.fingerprint, other.long.fingerprint):
            raise InputError("cannot merge shards scored by different encoders")
        return Moments(self.short, self.long, self.sums + other.sums)

    def matched(self, cosines: Floats) -> Floats:
        """Cosines of the long encoder with mean and spread of the short one's."""
        number = self.sums[:, 0]
        mean = self.sums[:, 1] / number
        spread = np.sqrt(np.maximum(self.sums[:, 2] / number - mean**2, 0.0))
        result: Floats = mean[0] + (cosines - mean[1]) * (spread[0] / spread[1] if spread[1] > 0 else 1.0)
        return result


@dataclass(frozen=True)
class Routed(MeanMetric):
    """Routed: CLIPScore's cosine for captions of fewer than 60 tokens, that of SPECS for longer ones.

    With cos₁ under CLIP, the caption behind "A photo depicts ", and cos₂ under SPECS, without::

        routed = (cos₁ + 1) / 2  for a caption of fewer than ``under`` tokens,  else (cos₂ + 1) / 2

    The paper recommends the switch and does not say how to bring the two on one scale. CLIP gives good captions a
    cosine of about .3, the released SPECS about −.1, so values on the two sides of the limit do not compare by
    themselves; ``scale`` says what is done about it. ``unit`` (the default) is the formula above: one map for both and
    no other item has a say, but a step remains at the limit. ``own`` gives each side its published scale,
    2.5 · max(cos₁, 0) and (cos₂ + 1) / 2. ``matched`` moves and stretches cos₂ to the mean and spread that cos₁ has on
    the same captions of the set, then takes 2.5 · max(cos, 0) of both: comparable across lengths, at the price that
    both encoders read every caption and a value depends on the set, as with CIDEr's idf. Tokens are those of the long
    encoder, start and end included, prefix not. How many captions went each way stands in the signature.

    >>> metric, cosines, long = Routed(), np.array([0.3, -0.1]), np.array([False, True])
    >>> metric.scaled(cosines, long, None).round(4).tolist()  # (.3 + 1) / 2, and (−.1 + 1) / 2
    [0.65, 0.45]
    """

    short: str = "openai/clip-vit-base-patch32"
    long: str = "Xiaohud/SPECS"
    under: int = 60
    scale: Literal["unit", "own", "matched"] = "unit"
    prefix: str = PREFIX

    name: ClassVar[str] = "routed"
    needs: ClassVar[tuple[Need, ...]] = ("image", "model")
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    citation: ClassVar[str] = CITATION
    cost: ClassVar[Cost | None] = B32_LONG

    def __post_init__(self) -> None:
        object.__setattr__(self, "range", (0.0, 1.0) if self.scale == "unit" else (0.0, 2.5))

    @property
    def label(self) -> str:
        """Routed, whichever encoders."""
        return "routed"

    def scaled(self, cosines: Floats, long: Bools, state: Moments | None) -> Floats:
        """Values from the cosines of short and long captions."""
        if self.scale == "own":
            return np.where(long, Specs().scaled(cosines), ClipScore().scaled(cosines))
        if self.scale == "matched" and state is not None:
            return ClipScore().scaled(np.where(long, state.matched(cosines), cosines))
        return (cosines + 1) / 2

    def prepare(self, captions: CaptionSet) -> Moments:
        """Both encoders; with ``scale=matched`` also the moments of their cosines on all captions."""

        def load() -> Moments:
            return Moments(ClipScore(self.short).encoder(), Specs(self.long).encoder(), np.zeros((2, 3)))

        state = with_images_or_refuse(self, captions, load)
        if self.scale != "matched":
            return state
        both = np.stack(
            [
                similarity(captions, state.short, self.prefix).cosine,
                similarity(captions, state.long).cosine,
            ]
        )
        both = both[:, ~np.isnan(both).any(axis=0)]
        sums = np.stack([np.full(2, both.shape[1], dtype=np.float64), both.sum(axis=1), (both**2).sum(axis=1)], axis=1)
        return Moments(state.short, state.long, sums)

    def statistics(self, captions: CaptionSet, state: Moments) -> Sums:
        """Sum of the candidates' values, and their number."""
        short, long = self._parts(captions, state)
        is_long = self._is_long(captions, state)
        return summed(captions, self.scaled(np.where(is_long, long.cosine, short.cosine), is_long, state))

    def settings(self, state: Moments) -> Mapping[str, str]:
        """Both encoders, and with ``scale=matched`` how many captions matched them."""
        named = {"short": encoder_id(state.short), "long": encoder_id(state.long), "precision": state.short.precision}
        return {**named, "matched": f"{int(state.sums[0, 0])}"} if self.scale == "matched" else named

    def counts(self, captions: CaptionSet, state: Moments) -> Mapping[str, int]:
        """How many captions went each way, and how many were cut."""
        scored = [~np.isnan(part.cosine) for part in self._parts(captions, state)]
        long = self._is_long(captions, state)
        return {
            "by_short": int((scored[0] & ~long).sum()),
            "by_long": int((scored[1] & long).sum()),
            "truncated": len(self._cut(captions, state)),
        }

    def remarks(self, captions: CaptionSet) -> list[str]:
        """Captions beyond the long encoder's limit, and a set that mixes two scales."""
        state = self.prepare(captions)
        counts = self.counts(captions, state)
        found = too_long("routed", captions, self._cut(captions, state), state.long.limit)
        if counts["by_short"] and counts["by_long"] and self.scale != "matched":
            found.append(
                f"routed: {counts['by_short']:,} captions are scored by CLIP and {counts['by_long']:,} by SPECS, whose "
                "cosines lie apart; compare within a side, or use routed(scale=matched)"
            )
        return found

    def unscorable(self, captions: CaptionSet) -> Mapping[str, Bools]:
        """As CLIPScore."""
        return ClipScore(self.short).unscorable(captions)

    def faults(self, captions: CaptionSet, state: Moments) -> Mapping[int, str]:
        """Why an image could not be used, by item."""
        short, long = self._parts(captions, state)
        return {**short.faults, **long.faults}

    def remedy(self, reason: str) -> str:
        """As CLIPScore."""
        return ClipScore(self.short).remedy(reason)

    def _is_long(self, captions: CaptionSet, state: Moments) -> Bools:
        found: Bools = token_lengths(captions, state.long) >= self.under
        return found

    def _parts(self, captions: CaptionSet, state: Moments) -> tuple[Similarity, Similarity]:
        """Each encoder on its own captions, or both on all where their scales are matched."""
        long = self._is_long(captions, state)
        short_only, long_only = (None, None) if self.scale == "matched" else (~long, long)
        return (
            similarity(captions, state.short, self.prefix, short_only),
            similarity(captions, state.long, "", long_only),
        )

    def _cut(self, captions: CaptionSet, state: Moments) -> list[int]:
        """Items with captions beyond the limit of the encoder that reads them."""
        long = self._is_long(captions, state)
        cut: list[int] = []
        for part, encoder, own in zip(
            self._parts(captions, state), (state.short, state.long), (~long, long), strict=True
        ):
            cut += part.item[own & (part.lengths > encoder.limit)].tolist()
        return sorted(cut)
