"""ImaginE: texts compared through images that a text-to-image model generates from them, seed by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from captious._core.types import Bools, Floats, Ints
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError
from captious.metrics.clip.encoded import pair_items
from captious.metrics.contract import MeanMetric, Need, Shared
from captious.metrics.measurement import Measurement
from captious.metrics.statistic_rows import Scored, candidate_means, find_blank_texts, format_ids, give_reason
from captious.models import loading
from captious.models.encoder import Encoder, Features, Weights, encoder_id
from captious.models.features import EncodedRows, text_features
from captious.models.painters import FAULTS, Imagined, Painter, PainterOptions, imagine, load_painter

Kind = Literal["image", "text&image"]
# [l, h] of the rescaling. Appendix A.1 of the paper swaps the two, which its own text shows to be a mistake: cosines of
# texts with pictures are those between .1 and .4.
RANGES: dict[str, tuple[float, float]] = {"image": (0.1, 1.0), "text&image": (0.1, 0.4)}
CHUNK = 4096
# Largest number of pictures per text.
MOST_SEEDS = 10_000
CLIP = "openai/clip-vit-base-patch32"
KINDS: tuple[Kind, ...] = ("image", "text&image")


class Imagination(NamedTuple):
    """The painter and the encoder."""

    painter: Painter
    encoder: Encoder


@dataclass(frozen=True)
class Imagine(MeanMetric):
    """ImaginE: the similarity of the pictures that a text-to-image model paints of a caption and of its reference.

    With t the vectors of the two texts under CLIP and v those of their pictures, painted from the same seed::

        kind=image        F(cos(v1, v2))                          [l, h] = [.1, 1]
        kind=text&image   F((cos(t1, v2) + cos(t2, v1)) / 2)      [l, h] = [.1, .4],   F(s) = (s − l) / (h − l)

    Without a kind both are reported, as the paper advises. An item's value is the mean over ``seeds`` pictures; the
    values of each seed are kept, for the spread and for ``captious study combine``. Stable Diffusion 1.1, CLIP ViT-B/32
    and five seeds are the paper's. Where the paper says nothing: 50 steps, guidance 7.5, no safety checker
    (``safety=yes``), no clipping to [0, 1] (``clip=yes``), the highest of several references (``references=mean``), the
    same seed on both sides (``pairing=different``). ``against=source`` compares with the column ``source`` instead of
    references.

    ``painter`` is a ``diffusers`` pipeline by folder or hub id, ``guided:`` before an image decoder, or
    ``module:attribute`` of Python code that makes a painter, once `captious.models.allow_painter` allows it.
    An item has no value if its caption has no picture for some seed; a reference picture that is missing is left
    out, and counted. Texts that the painter or the encoder truncates are counted too.

    >>> Imagine(kind="image").label
    'IE-image'
    """

    kind: Literal["image", "text&image"] = "image"
    painter: str = "CompVis/stable-diffusion-v1-1"
    seeds: int = 5
    weights: Weights = ""
    references: Literal["max", "mean"] = "max"
    against: Literal["references", "source"] = "references"
    pairing: Literal["same", "different"] = "same"
    clip: bool = False
    steps: int | None = None
    guidance: float | None = None
    scheduler: str | None = None
    size: int | None = None
    guide: str | None = None
    safety: bool = False

    name: ClassVar[str] = "imagine"
    always_shown: ClassVar[tuple[str, ...]] = ("kind",)
    variants: ClassVar[Mapping[str, tuple[str, ...]]] = {"kind": KINDS}
    citation: ClassVar[str] = (
        "Zhu, Wang, Yan, Eckstein, Wang. ImaginE: an imagination-based automatic evaluation metric for natural "
        "language generation. Findings of EACL 2023."
    )
    undefined_reason: ClassVar[str] = "no picture to compare with"
    undefined_by_caption: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.seeds <= MOST_SEEDS:
            raise InputError(f"imagine(seeds={self.seeds}): expected from 1 to {MOST_SEEDS:,}")

    @property
    def needs(self) -> tuple[Need, ...]:
        """References, unless captions are compared with the source."""
        return ("references", "model") if self.against == "references" else ("model",)

    @property
    def range(self) -> tuple[float, float]:
        """The rescaled cosines −1 and 1, or 0 to 1 if values are clipped."""
        if self.clip:
            return (0.0, 1.0)
        low, high = rescale_cosines(np.array([-1.0, 1.0]), self.kind).tolist()
        return (low, high)

    @property
    def label(self) -> str:
        """IE with its kind."""
        return f"IE-{self.kind}"

    def encoder(self) -> Encoder:
        """Load the encoder."""
        return loading.load(self.weights or CLIP)

    def prepare(self, captions: CaptionSet) -> Shared[Imagination]:
        """Load the painter and the encoder."""
        painter, encoder = self.load_painter(), self.encoder()
        key = f"{painter.name}#{painter.fingerprint} with {encoder_id(encoder)}"
        return Shared(Imagination(painter, encoder), key)

    def load_painter(self, compile: bool = False) -> Painter:
        """Load the painter with the metric's settings; ``compile`` compiles it first, for many pictures on a GPU."""
        options = PainterOptions(self.steps, self.guidance, self.scheduler, self.size, self.guide, self.safety, compile)
        return load_painter(self.painter, options)

    def score_items(self, captions: CaptionSet, state: Shared[Imagination]) -> Scored:
        """Return rows with the sum of the candidates' values, their number, and the sum under each seed."""
        painter, encoder = state.value
        reasons, others = {}, captions.references
        if self.against == "source":
            texts = get_sources(captions)
            others = Ragged.of([[text] if text else [] for text in texts])
            reasons = give_reason(np.array([not text for text in texts], np.bool_), "no source text")
        shift = self.seeds if self.pairing == "different" else 0
        seeds = tuple(range(self.seeds)), tuple(range(shift, shift + self.seeds))
        result = compare_pictures(captions, others, painter, encoder, self.kind, seeds, self.references, self.clip)
        return Scored(
            candidate_means(captions, result.values.mean(axis=1), *result.values.T),
            {**result.faults, **reasons, **find_blank_texts(captions, references=self.against == "references")},
            {"truncated": len(result.truncated), "unpainted": result.unpainted},
            self._list_warnings(captions, painter, result),
        )

    def settings(self, state: Shared[Imagination]) -> Mapping[str, str]:
        """Return painter and encoder by name and content, their settings, and the seeds."""
        painter, encoder = state.value
        return {
            "painter": f"{painter.name}#{painter.fingerprint}",
            "settings": painter.settings,
            "seeds": f"0-{self.seeds - 1}",
            "encoder": encoder_id(encoder),
            "precision": encoder.precision,
        }

    def _list_warnings(self, captions: CaptionSet, painter: Painter, result: PictureSimilarity) -> list[str]:
        """Warn about truncated texts and failed pictures, and report how much the value depends on the seed."""
        warnings, label = [], f"{self.label} ({painter.name}#{painter.fingerprint})"
        if result.truncated:
            number = f"{len(result.truncated):,} text{' is' if len(result.truncated) == 1 else 's are'}"
            ids = format_ids(captions, result.truncated)
            warnings.append(f"{label}: {number} longer than painter or encoder read (ids {ids})")
        if result.unpainted:
            warnings.append(f"{label}: {result.unpainted:,} pictures could not be painted")
        scored = result.values[~np.isnan(result.values).any(axis=1)]
        if self.seeds > 1 and len(scored):
            mean, spread = float(scored.mean()), float(scored.mean(axis=0).std(ddof=1))
            warnings.append(f"{label}: over {self.seeds} seeds {mean:.4f} ± {spread:.4f} (standard deviation)")
        return warnings

    def seed_values(self, measurement: Measurement) -> Floats:
        """Return an array of items × seeds: the item's value with one seed; NaN if it has none."""
        rows = np.asarray(measurement.rows)
        with np.errstate(invalid="ignore"):
            values: Floats = rows[:, 2:] / rows[:, 1:2]
        return np.where(np.isnan(measurement.values)[:, None], np.nan, values)


def get_sources(captions: CaptionSet) -> list[str]:
    """Return the source text of each item, empty if it has none."""
    texts = captions.columns.get("source", (None,) * len(captions))
    return [text.strip() if isinstance(text, str) else "" for text in texts]


@dataclass(frozen=True)
class PairSide:
    """The texts of one side of all pairs: their vectors and those of their pictures."""

    texts: EncodedRows
    pictures: Imagined


def rescale_cosines(cosines: Floats, kind: str, clip: bool = False) -> Floats:
    """Compute F(s) = (s − l) / (h − l), which the paper does not clip.

    >>> rescale_cosines(np.array([0.1, 0.55, 1.0]), "image").round(6).tolist()
    [0.0, 0.5, 1.0]
    >>> rescale_cosines(np.array([0.25, 0.7]), "text&image", clip=True).round(6).tolist()
    [0.5, 1.0]
    """
    low, high = RANGES[kind]
    values: Floats = (cosines - low) / (high - low)
    return values.clip(0.0, 1.0) if clip else values


def pair_cosines(kind: str, one: PairSide, two: PairSide, left: Ints, right: Ints) -> Floats:
    """Compute cos(v₁, v₂), or (cos(t₁, v₂) + cos(t₂, v₁)) / 2, as pairs × seeds; NaN if a picture is missing."""
    pictures_left, pictures_right = one.pictures.index[left], two.pictures.index[right]
    if kind == "image":
        return _compute_cosines(one.pictures.rows, pictures_left, two.pictures.rows, pictures_right)
    texts_left, texts_right = (
        np.broadcast_to(side.texts.index[indices][:, None], pictures_left.shape)
        for side, indices in ((one, left), (two, right))
    )
    first = _compute_cosines(one.texts.rows, texts_left, two.pictures.rows, pictures_right)
    second = _compute_cosines(two.texts.rows, texts_right, one.pictures.rows, pictures_left)
    return (first + second) / 2


def _compute_cosines(first: Features, at_first: Ints, second: Features, at_second: Ints) -> Floats:
    """Compute cosines of rows at indices of any shape; NaN if either index is −1."""
    values = np.full(at_first.size, np.nan)
    one, two = at_first.ravel(), at_second.ravel()
    both = np.flatnonzero((one >= 0) & (two >= 0))
    for start in range(0, len(both), CHUNK):
        part = both[start : start + CHUNK]
        values[part] = np.einsum("ij,ij->i", first[one[part]], second[two[part]])
    return values.reshape(at_first.shape)


Seeds = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class PictureSimilarity:
    """Similarities of candidates and other texts through their pictures."""

    values: Floats
    """Candidates × seeds; NaN if there is no picture."""
    faults: dict[int, str]
    """The reason why an item has no value, by its index."""
    truncated: list[int]
    """The item of each text that painter or encoder truncated."""
    unpainted: int
    """The number of pictures that could not be painted."""


def compare_pictures(
    captions: CaptionSet,
    others: Ragged,
    painter: Painter,
    encoder: Encoder,
    kind: str,
    seeds: Seeds,
    several: str = "max",
    clip: bool = False,
) -> PictureSimilarity:
    """Compare candidates with the other texts of their item; of ``several`` take ``max`` or ``mean``, seed by seed."""
    candidates = captions.candidates
    paired = np.bincount(others.owners[~others.blank], minlength=len(captions)) > 0
    left = np.flatnonzero(~candidates.blank & paired[candidates.owners])
    written = np.bincount(candidates.owners[left], minlength=len(captions)) > 0
    right = np.flatnonzero(~others.blank & written[others.owners])
    values = np.full((len(candidates.values), len(seeds[0])), np.nan)
    if not len(left):
        return PictureSimilarity(values, {}, [], 0)
    texts = [candidates.values[index] for index in left.tolist()]
    against = [others.values[index] for index in right.tolist()]
    one = PairSide(text_features(encoder, texts), imagine(painter, encoder, texts, seeds[0]))
    two = PairSide(text_features(encoder, against), imagine(painter, encoder, against, seeds[1]))
    first, second, starts = pair_items(candidates.owners[left], others.owners[right])
    cosines = rescale_cosines(pair_cosines(kind, one, two, first, second), kind, clip)
    values[left] = _reduce_pairs(cosines, starts[:-1], several)
    faults: dict[int, str] = {}
    for index in np.flatnonzero(np.isnan(values[left]).any(axis=1)).tolist():
        reference = two.pictures.fault(int(second[starts[index]])) or FAULTS[2]
        faults[int(candidates.owners[left[index]])] = one.pictures.fault(index) or f"reference: {reference}"
    truncated = [
        *candidates.owners[left[_find_truncated(one, texts, painter, encoder, kind)]].tolist(),
        *others.owners[right[_find_truncated(two, against, painter, encoder, kind)]].tolist(),
    ]
    unpainted = int((one.pictures.codes > 0).sum() + (two.pictures.codes > 0).sum())
    return PictureSimilarity(values, faults, truncated, unpainted)


def _reduce_pairs(values: Floats, starts: Ints, several: str) -> Floats:
    """Reduce the rows of a candidate's pairs to one row; pairs without a value are left out.

    >>> rows = np.array([[1.0, np.nan], [3.0, np.nan], [2.0, 5.0]])
    >>> _reduce_pairs(rows, np.array([0, 2]), "mean").tolist()
    [[2.0, nan], [2.0, 5.0]]
    """
    if several == "max":
        highest: Floats = np.fmax.reduceat(values, starts, axis=0)
        return highest
    defined = ~np.isnan(values)
    total = np.add.reduceat(np.where(defined, values, 0.0), starts, axis=0)
    number = np.add.reduceat(defined.astype(np.float64), starts, axis=0)
    return np.divide(total, number, out=np.full_like(total, np.nan), where=number > 0)


def _find_truncated(side: PairSide, texts: Sequence[str], painter: Painter, encoder: Encoder, kind: str) -> Bools:
    """Return True for each text that the painter truncates, or the encoder if it reads texts at all."""
    beyond: Bools = side.texts.lengths > encoder.limit
    return painter.exceeds_limit(texts) | beyond if kind != "image" else painter.exceeds_limit(texts)
