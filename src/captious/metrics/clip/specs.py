"""SPECS: a CLIP trained to score higher with every right detail and lower with every wrong one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from captious._core.types import Bools, Floats
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError
from captious.metrics.clip.clipscore import PREFIX, ClipScore
from captious.metrics.clip.encoded import (
    EncodedMetric,
    Pool,
    break_down_frames,
    break_down_units,
    compute_frame_cosines,
    compute_similarity,
    count_candidate_tokens,
    warn_outside_domain,
)
from captious.metrics.contract import MeanMetric, Need
from captious.metrics.explanation import Breakdown
from captious.metrics.statistic_rows import Scored, candidate_means, find_blank_texts, warn_truncated
from captious.models.encoder import Encoder, Weights, encoder_id
from captious.text.corpus_states import State

CITATION = (
    "Chen, Salazar, Kementchedjhieva. SPECS: specificity-enhanced CLIPScore for long image caption evaluation. 2025."
)


@dataclass(frozen=True)
class Specs(EncodedMetric):
    """SPECS: how well a long caption suits its image, detail by detail, without references.

    With v the vector of the image and c that of the caption (up to 248 tokens, no words before it)::

        SPECS = (cos(v, c) + 1) / 2

    This is the authors' code. Their paper says "cosine clipped at 0", but the released model gives good captions small
    negative cosines (the examples of its README lie between −.14 and −.08), and clipping those would make all of them
    0: ``value=paper`` does it nevertheless, ``value=raw`` is the cosine itself. Ranks are the same under ``raw`` and
    by default. Trained for long captions: below about 60 tokens CLIPScore agrees better with people (``specs_routed``).
    ``pool`` joins the frames of a video as in ``clipscore``.

    >>> Specs().scale_cosines(np.array([-0.1414, 0.5])).tolist()  # the first example of the authors' README: .4293
    [0.4293, 0.75]
    """

    weights: Weights = "Xiaohud/SPECS"
    value: Literal["shifted", "raw", "paper"] = "shifted"
    prefix: str = ""

    name: ClassVar[str] = "specs"
    label: ClassVar[str] = "SPECS"
    citation: ClassVar[str] = CITATION

    @property
    def range(self) -> tuple[float, float]:
        """The range of a cosine, or from 0 to 1."""
        return (-1.0, 1.0) if self.value == "raw" else (0.0, 1.0)

    def scale_cosines(self, cosines: Floats) -> Floats:
        """Compute values from cosines."""
        if self.value == "raw":
            return cosines
        return np.maximum(cosines, 0.0) if self.value == "paper" else (cosines + 1) / 2


# Sums of cosines are integers in units of 1 / UNIT: integer addition is associative, so the sums of shards are the same
# to the last digit in any order.
UNIT = 2.0**40
# Number of cosines whose sum cannot overflow 64 bits: 2^20 · 2^40 < 2^63.
BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class CosineMoments(State):
    """The ids of both encoders, and the moments of a corpus' cosines under each: number, sums, and sums of squares."""

    short: str
    long: str
    number: int = 0
    short_sum: int = 0
    short_squares: int = 0
    long_sum: int = 0
    long_squares: int = 0

    def merge(self, other: CosineMoments) -> CosineMoments:
        """Merge the moments of two shards."""
        if (self.short, self.long) != (other.short, other.long):
            raise InputError("cannot merge shards scored by different encoders")
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in SUMS})

    def match_cosines(self, cosines: Floats) -> Floats:
        """Shift and scale cosines of the long encoder to the mean and standard deviation of the short one's."""
        mean, spread = _compute_mean_and_spread(self.number, self.short_sum, self.short_squares)
        own_mean, own_spread = _compute_mean_and_spread(self.number, self.long_sum, self.long_squares)
        result: Floats = mean + (cosines - own_mean) * (spread / own_spread if own_spread > 0 else 1.0)
        return result


SUMS = ("number", "short_sum", "short_squares", "long_sum", "long_squares")


def _join_counts(short: Mapping[str, int], long: Mapping[str, int], same: bool) -> dict[str, int]:
    """Return the counts of videos that either encoder read; each read all of them if ``same``."""
    return dict(short) if same else {name: short.get(name, 0) + long.get(name, 0) for name in {**short, **long}}


def _compute_mean_and_spread(number: int, total: int, squares: int) -> tuple[float, float]:
    """Return mean and standard deviation from sums in units of 1 / `UNIT`; NaN if there are no values."""
    if not number:
        return math.nan, math.nan
    mean = total / number / UNIT
    return mean, math.sqrt(max(squares / number / UNIT - mean**2, 0.0))


def _sum_units(values: Floats) -> int:
    """Sum values in units of 1 / `UNIT`, each rounded."""
    units = np.rint(values * UNIT).astype(np.int64)
    return sum(int(units[first : first + BLOCK].sum()) for first in range(0, len(units), BLOCK))


@dataclass(frozen=True)
class SpecsRouted(MeanMetric):
    """SPECS, routed: CLIPScore's cosine for captions of fewer than 60 tokens, that of SPECS for longer ones.

    With cos₁ under CLIP, the caption after "A photo depicts ", and cos₂ under SPECS, without::

        value = (cos₁ + 1) / 2  for a caption of fewer than ``under`` tokens,  else (cos₂ + 1) / 2

    The paper recommends the switch, but does not say how to put the two on one scale. CLIP gives good captions a cosine
    of about .3, the released SPECS about −.1, so values on the two sides of the limit cannot be compared directly.
    ``scale`` says what is done about it. ``unit`` (the default) is the formula above: both encoders use it, a score
    does not depend on other items, but scores jump at the length threshold. ``own`` gives each side its published
    scale, 2.5 · max(cos₁, 0) and (cos₂ + 1) / 2. ``matched`` moves and stretches cos₂ to the mean and spread that cos₁
    has on the same captions, then takes 2.5 · max(cos, 0) of both: these values are comparable across lengths, but both
    encoders read every caption, and a value depends on the set, as with CIDEr's idf. Tokens are those of the long
    encoder, start and end included, prefix not. The signature records how many captions went each way. ``pool`` joins
    the frames of a video as in ``clipscore``.

    >>> metric, cosines, long = SpecsRouted(), np.array([0.3, -0.1]), np.array([False, True])
    >>> metric.scale_cosines(cosines, long, None).round(4).tolist()  # (.3 + 1) / 2, and (−.1 + 1) / 2
    [0.65, 0.45]
    """

    short: str = "openai/clip-vit-base-patch32"
    long: str = "Xiaohud/SPECS"
    under: int = 60
    scale: Literal["unit", "own", "matched"] = "unit"
    prefix: str = PREFIX
    pool: Pool = "mean"

    name: ClassVar[str] = "specs_routed"
    label: ClassVar[str] = "SPECS-routed"
    needs: ClassVar[tuple[Need, ...]] = ("image", "model")
    reads_videos: ClassVar[bool] = True
    citation: ClassVar[str] = CITATION

    @property
    def range(self) -> tuple[float, float]:
        """The range of SPECS, or of CLIPScore."""
        return (0.0, 1.0) if self.scale == "unit" else (0.0, 2.5)

    def scale_cosines(self, cosines: Floats, long: Bools, state: CosineMoments | None) -> Floats:
        """Compute values from the cosines of short and long captions."""
        if self.scale == "own":
            return np.where(long, Specs().scale_cosines(cosines), ClipScore().scale_cosines(cosines))
        if self.scale == "matched" and state is not None:
            return ClipScore().scale_cosines(np.where(long, state.match_cosines(cosines), cosines))
        return (cosines + 1) / 2

    @property
    def corpus_state(self) -> type[CosineMoments] | None:
        """The moments of cosines with ``scale=matched``, by which the long encoder is matched to the short one."""
        return CosineMoments if self.scale == "matched" else None

    def load_encoders(self) -> tuple[Encoder, Encoder]:
        """Load the encoder of short captions and the encoder of long ones."""
        return ClipScore(self.short).encoder(), Specs(self.long).encoder()

    def frame_encoders(self) -> list[Encoder]:
        """Return the encoders of frames of videos, so that metrics share one decoding."""
        return list(self.load_encoders())

    def prepare(self, captions: CaptionSet) -> CosineMoments:
        """Return the ids of both encoders; with ``scale=matched`` also the moments of their cosines on all captions."""
        short, long = self.load_encoders()
        ids = encoder_id(short), encoder_id(long)
        if self.scale != "matched":
            return CosineMoments(*ids)
        both = np.stack(
            [
                compute_similarity(captions, short, self.prefix, pool=self.pool).cosine,
                compute_similarity(captions, long, pool=self.pool).cosine,
            ]
        )
        both = both[:, ~np.isnan(both).any(axis=0)]
        sums = (_sum_units(values) for row in both for values in (row, row**2))
        return CosineMoments(*ids, both.shape[1], *sums)

    def score_items(self, captions: CaptionSet, state: CosineMoments) -> Scored:
        """Return rows with the sum of the candidates' values, and their number."""
        encoders = self.load_encoders()
        if (state.short, state.long) != tuple(map(encoder_id, encoders)):
            raise InputError(f"cannot score by other encoders than {state.short} and {state.long}, which were prepared")
        is_long: Bools = count_candidate_tokens(captions, encoders[1]) >= self.under
        short_only, long_only = (None, None) if self.scale == "matched" else (~is_long, is_long)
        short = compute_similarity(captions, encoders[0], self.prefix, short_only, self.pool)
        long = compute_similarity(captions, encoders[1], "", long_only, self.pool)
        cosine = np.where(is_long, long.cosine, short.cosine)
        scored = ~np.isnan(cosine)
        limit = np.where(is_long, encoders[1].limit, encoders[0].limit)
        lengths = np.where(is_long, long.lengths, short.lengths)
        truncated = captions.candidates.owners[lengths > limit].tolist()
        counts = {
            "by_short": int((scored & ~is_long).sum()),
            "by_long": int((scored & is_long).sum()),
            "truncated": len(truncated),
            **_join_counts(short.counts, long.counts, self.scale == "matched"),
        }
        warnings = warn_truncated(self.label, captions, truncated, encoders[1].limit)
        warnings += [line for one in encoders for line in warn_outside_domain(self.label, captions, one)]
        if counts["by_short"] and counts["by_long"] and self.scale != "matched":
            warnings.append(
                f"{self.label}: {counts['by_short']:,} captions are scored by CLIP and {counts['by_long']:,} by SPECS, "
                "whose cosines lie apart; compare within a side, or use specs_routed(scale=matched)"
            )
        return Scored(
            candidate_means(captions, self.scale_cosines(cosine, is_long, state)),
            {**short.faults, **long.faults, **find_blank_texts(captions)},
            counts,
            warnings,
        )

    def break_down(self, item: CaptionSet, state: CosineMoments) -> Breakdown:
        """List detail units under the encoder that scores the whole caption."""
        short, long = self.load_encoders()
        is_long: Bools = count_candidate_tokens(item, long) >= self.under

        if item.has_videos and item.clips[0] is not None:
            encoder, prefix = (long, "") if is_long[0] else (short, self.prefix)
            frames = compute_frame_cosines(item, encoder, prefix)

            def scale(cosine: Floats) -> Floats:
                return self.scale_cosines(cosine, np.full(len(cosine), is_long[0]), state)

            return break_down_frames(frames, scale(frames.pool(self.pool).cosine), scale, self.pool)

        def score_texts(rank: int, texts: Sequence[str]) -> Floats:
            encoder, prefix = (long, "") if is_long[rank] else (short, self.prefix)
            cosine = compute_similarity(replace(item, candidates=Ragged.of([texts])), encoder, prefix).cosine
            return self.scale_cosines(cosine, np.full(len(cosine), is_long[rank]), state)

        return break_down_units(item.candidates.values, score_texts)

    def settings(self, state: CosineMoments) -> Mapping[str, str]:
        """Return both encoders, and with ``scale=matched`` the number of captions behind the moments."""
        named = {"short": state.short, "long": state.long, "precision": self.load_encoders()[0].precision}
        return {**named, "matched": str(state.number)} if self.scale == "matched" else named
