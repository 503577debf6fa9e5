"""ImaginE's similarities of pairs of texts, by seed: pictures with pictures, and texts with the other's pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from captious._typing import Bools, Floats, Ints
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError
from captious.metrics.clip.encoded import NAMED
from captious.metrics.contract import MeanMetric, Measurement, Metric, Need, Sums, summed
from captious.models import load as loading
from captious.models.encoder import Encoder, Features, encoder_id
from captious.models.features import Encoded, text_features
from captious.models.painters import DRAWN, FAULTS, Imagined, Options, Painter, imagine, load_painter

Kind = Literal["image", "text&image"]
RANGES: dict[str, tuple[float, float]] = {"image": (0.1, 1.0), "text&image": (0.1, 0.4)}
"""[l, h] of the rescaling. Appendix A.1 of the paper has them the other way round, which its own text shows to be a
slip: cosines of texts with pictures are those between .1 and .4."""
CHUNK = 4096


@dataclass(frozen=True)
class Side:
    """Texts of one side of all pairs: their vectors and those of their pictures."""

    texts: Encoded
    pictures: Imagined


def rescaled(cosines: Floats, kind: str, clip: bool = False) -> Floats:
    """F(s) = (s − l) / (h − l), which the paper does not clip.

    >>> rescaled(np.array([0.1, 0.55, 1.0]), "image").round(6).tolist()
    [0.0, 0.5, 1.0]
    >>> rescaled(np.array([0.25, 0.7]), "text&image", clip=True).round(6).tolist()
    [0.5, 1.0]
    """
    low, high = RANGES[kind]
    values: Floats = (cosines - low) / (high - low)
    return values.clip(0.0, 1.0) if clip else values


def pair_cosines(kind: str, one: Side, two: Side, left: Ints, right: Ints) -> Floats:
    """Pairs × seeds: cos(v₁, v₂), or (cos(t₁, v₂) + cos(t₂, v₁)) / 2; NaN where a picture or vector is missing."""
    seen_left, seen_right = one.pictures.index[left], two.pictures.index[right]
    if kind == "image":
        return _by_seed(one.pictures.rows, seen_left, two.pictures.rows, seen_right)
    said_left, said_right = (
        np.broadcast_to(side.texts.index[places][:, None], seen_left.shape)
        for side, places in ((one, left), (two, right))
    )
    first = _by_seed(one.texts.rows, said_left, two.pictures.rows, seen_right)
    second = _by_seed(two.texts.rows, said_right, one.pictures.rows, seen_left)
    return (first + second) / 2


def _by_seed(first: Features, at_first: Ints, second: Features, at_second: Ints) -> Floats:
    """Cosines of rows at places, any shape of places; NaN where either place is −1."""
    values = np.full(at_first.size, np.nan)
    one, two = at_first.ravel(), at_second.ravel()
    both = np.flatnonzero((one >= 0) & (two >= 0))
    for start in range(0, len(both), CHUNK):
        part = both[start : start + CHUNK]
        values[part] = np.einsum("ij,ij->i", first[one[part]], second[two[part]])
    return values.reshape(at_first.shape)


Seeds = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Judged:
    """The candidates of a set."""

    item: Ints
    """The item of each candidate."""
    values: Floats
    """Candidates × seeds; NaN where there is no picture."""
    faults: dict[int, str]
    """Why an item has no value."""
    cut: list[int]
    """The item of each text that painter or encoder cut."""
    unpainted: int
    """Pictures that are none."""


def judged(
    captions: CaptionSet,
    others: Ragged,
    painter: Painter,
    encoder: Encoder,
    kind: str,
    seeds: Seeds,
    several: str = "max",
    clip: bool = False,
) -> Judged:
    """Candidates against the other texts of their item; ``several`` others by ``max`` or ``mean``, seed by seed."""
    content = tuple(others.values), others.offsets.tobytes()
    key = (painter.fingerprint, encoder.fingerprint, kind, seeds, several, clip, content)
    return captions.once(key, lambda: _judged(captions, others, painter, encoder, kind, seeds, several, clip))


def _judged(
    captions: CaptionSet,
    others: Ragged,
    painter: Painter,
    encoder: Encoder,
    kind: str,
    seeds: Seeds,
    several: str,
    clip: bool,
) -> Judged:
    item = captions.candidates.owners
    owner = others.owners
    held = np.array([bool(text.strip()) for text in others.values], np.bool_)
    paired = np.bincount(owner[held], minlength=len(captions)) > 0
    written = np.flatnonzero([bool(text.strip()) and paired[one] for text, one in _with(captions, item)])
    kept = np.flatnonzero(held & (np.bincount(item[written], minlength=len(captions)) > 0)[owner])
    values = np.full((len(item), len(seeds[0])), np.nan)
    if not len(written):
        return Judged(item, values, {}, [], 0)
    texts = [captions.candidates.values[place] for place in written.tolist()]
    against = [others.values[place] for place in kept.tolist()]
    one = Side(text_features(encoder, texts), imagine(painter, encoder, texts, seeds[0]))
    two = Side(text_features(encoder, against), imagine(painter, encoder, against, seeds[1]))
    left, right, starts = _pairs(item[written], owner[kept])
    cosines = rescaled(pair_cosines(kind, one, two, left, right), kind, clip)
    values[written] = _joined(cosines, starts, several)
    faults: dict[int, str] = {}
    for place in np.flatnonzero(np.isnan(values[written]).any(axis=1)).tolist():
        why = one.pictures.fault(place)
        first = right[starts[place]]
        faults[int(item[written[place]])] = why or f"reference: {two.pictures.fault(int(first)) or FAULTS[2]}"
    cut = [
        *item[written[_cut(one, texts, painter, encoder, kind)]].tolist(),
        *owner[kept[_cut(two, against, painter, encoder, kind)]].tolist(),
    ]
    return Judged(item, values, faults, cut, int((one.pictures.codes > 0).sum() + (two.pictures.codes > 0).sum()))


def _with(captions: CaptionSet, item: Ints) -> list[tuple[str, int]]:
    return list(zip(captions.candidates.values, item.tolist(), strict=True))


def _pairs(item: Ints, owner: Ints) -> tuple[Ints, Ints, Ints]:
    """Every candidate with every other text of its item, and where the pairs of each candidate begin."""
    first, end = np.searchsorted(owner, item), np.searchsorted(owner, item, side="right")
    number = end - first
    starts = np.cumsum(number) - number
    left = np.repeat(np.arange(len(item)), number)
    right = np.repeat(first - starts, number) + np.arange(int(number.sum()))
    return left, right, starts


def _joined(values: Floats, starts: Ints, several: str) -> Floats:
    """One row per candidate from the rows of its pairs; pairs without a value are left out.

    >>> rows = np.array([[1.0, np.nan], [3.0, np.nan], [2.0, 5.0]])
    >>> _joined(rows, np.array([0, 2]), "mean").tolist()
    [[2.0, nan], [2.0, 5.0]]
    """
    if several == "max":
        highest: Floats = np.fmax.reduceat(values, starts, axis=0)
        return highest
    known = ~np.isnan(values)
    total = np.add.reduceat(np.where(known, values, 0.0), starts, axis=0)
    number = np.add.reduceat(known.astype(np.float64), starts, axis=0)
    return np.divide(total, number, out=np.full_like(total, np.nan), where=number > 0)


def _cut(side: Side, texts: Sequence[str], painter: Painter, encoder: Encoder, kind: str) -> Bools:
    """Texts cut by the painter, or by the encoder where it reads texts at all."""
    beyond: Bools = side.texts.lengths > encoder.limit
    return painter.cut(texts) | beyond if kind != "image" else painter.cut(texts)


CLIP, MINI = "openai/clip-vit-base-patch32", "captious-mini"
KINDS: tuple[Kind, ...] = ("image", "text&image")


@dataclass(frozen=True, eq=False)
class Imagination:
    """Painter and encoder as a metric's state: shards all have the same ones, so merging changes nothing."""

    painter: Painter
    encoder: Encoder

    def merge(self, other: Imagination) -> Imagination:
        """The same ones."""
        if (self.painter.fingerprint, self.encoder.fingerprint) != (
            other.painter.fingerprint,
            other.encoder.fingerprint,
        ):
            raise InputError(f"cannot merge shards imagined by {self.painter.name} and {other.painter.name}")
        return self


@dataclass(frozen=True)
class Imagine(MeanMetric):
    """ImaginE: the likeness of the pictures that a text-to-image model paints of a caption and of its reference.

    With t the vectors of the two texts under CLIP and v those of their pictures, painted from the same seed::

        kind=image        F(cos(v1, v2))                          [l, h] = [.1, 1]
        kind=text&image   F((cos(t1, v2) + cos(t2, v1)) / 2)      [l, h] = [.1, .4],   F(s) = (s − l) / (h − l)

    Without a kind both are reported, as the paper advises. An item's value is the mean over ``seeds`` pictures; the
    values of each seed are kept, for the spread and for ``captious study combine``. Stable Diffusion 1.1, CLIP ViT-B/32
    and five seeds are the paper's. Where it is silent: 50 steps, guidance 7.5, no safety checker (``safety=yes``), no
    clipping to [0, 1] (``clip=yes``), the highest of several references (``references=mean``), the same seed on both
    sides (``pairing=different``). ``against=source`` compares with the column ``source`` instead of references.

    ``painter`` is a ``diffusers`` pipeline by folder or hub id, ``guided:`` before an image decoder, or ``drawn``: it
    draws captions of the sample's grammar offline and is judged by captious-mini unless ``weights`` says otherwise.
    An item has no value where its caption has no picture under some seed; a reference picture that is missing is left
    out, and counted. Texts that painter or encoder cut are counted too.

    >>> Imagine(kind="image", painter="drawn").label
    'IE-image'
    """

    kind: Literal["both", "image", "text&image"] = "both"
    painter: str = "CompVis/stable-diffusion-v1-1"
    seeds: int = 5
    weights: str = ""
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
    needs: ClassVar[tuple[Need, ...]] = ("references", "model")
    citation: ClassVar[str] = (
        "Zhu, Wang, Yan, Eckstein, Wang. ImaginE: an imagination-based automatic evaluation metric for natural "
        "language generation. Findings of EACL 2023."
    )
    undefined: ClassVar[str] = "no picture to compare with"

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise InputError(f"imagine(seeds={self.seeds}): expected at least 1")
        if self.kind != "both" and not self.clip:
            low, high = rescaled(np.array([-1.0, 1.0]), self.kind).tolist()
            object.__setattr__(self, "range", (low, high))

    @property
    def label(self) -> str:
        """IE with its kind."""
        return "ImaginE" if self.kind == "both" else f"IE-{self.kind}"

    def members(self) -> tuple[Metric, ...]:
        """Both kinds where none is chosen."""
        return (self,) if self.kind != "both" else tuple(replace(self, kind=kind) for kind in KINDS)

    def encoder(self) -> Encoder:
        """The encoder of the weights."""
        return loading.load(self.weights or (MINI if self.painter == DRAWN else CLIP))

    def prepare(self, captions: CaptionSet) -> Any:
        """Painter and encoder."""
        if self.kind == "both":
            raise InputError("imagine stands for two metrics: expected kind=image or kind=text&image")
        options = Options(self.steps, self.guidance, self.scheduler, self.size, self.guide, self.safety)
        return Imagination(load_painter(self.painter, options), self.encoder())

    def statistics(self, captions: CaptionSet, state: Imagination) -> Sums:
        """Sum of the candidates' values, their number, and the sum under each seed; NaN where one has no picture."""
        values = self._judged(captions, state).values
        return summed(captions, values.mean(axis=1), *values.T)

    def settings(self, state: Any) -> Mapping[str, str]:
        """Painter and encoder by name and content, their settings, the seeds."""
        painter: Painter = state.painter
        return {
            "painter": f"{painter.name}#{painter.fingerprint}",
            "settings": painter.settings,
            "seeds": f"0-{self.seeds - 1}",
            "encoder": encoder_id(state.encoder),
            "precision": state.encoder.precision,
        }

    def unscorable(self, captions: CaptionSet) -> Mapping[str, Bools]:
        """An item needs candidates that say something, and something to compare them with."""
        reasons = {"no candidate caption": captions.candidates.counts == 0, "empty caption": _empty(captions)}
        if self.against == "source":
            return {**reasons, "no source text": np.array([not text for text in sources(captions)], np.bool_)}
        said = np.array([bool(text.strip()) for text in captions.references.values], np.float64)
        owners = captions.references.owners
        number = np.bincount(owners, weights=said, minlength=len(captions))
        return {
            **reasons,
            "no references": captions.references.counts == 0,
            "all references are empty": number == 0,
        }

    def faults(self, captions: CaptionSet, state: Any) -> Mapping[int, str]:
        """Why there was no picture, by item."""
        return self._judged(captions, state).faults

    def counts(self, captions: CaptionSet, state: Any) -> Mapping[str, int]:
        """Texts that were cut, and pictures that are none."""
        found = self._judged(captions, state)
        return {"truncated": len(found.cut), "unpainted": found.unpainted}

    def remarks(self, captions: CaptionSet) -> list[str]:
        """Texts that were cut, and how much the value depends on the seed."""
        state = self.prepare(captions)
        found, remarks = self._judged(captions, state), []
        told = f"{self.label} ({self.settings(state)['painter']})"
        if found.cut:
            ids = list(dict.fromkeys(captions.ids[item] for item in found.cut))
            named = ", ".join(ids[:NAMED]) + (", …" if len(ids) > NAMED else "")
            number = f"{len(found.cut):,} text{' is' if len(found.cut) == 1 else 's are'}"
            remarks.append(f"{told}: {number} longer than painter or encoder read (ids {named})")
        if found.unpainted:
            remarks.append(f"{told}: {found.unpainted:,} pictures could not be painted")
        known = found.values[~np.isnan(found.values).any(axis=1)]
        if self.seeds > 1 and len(known):
            mean, spread = float(known.mean()), float(known.mean(axis=0).std(ddof=1))
            remarks.append(f"{told}: over {self.seeds} seeds {mean:.4f} ± {spread:.4f} (standard deviation)")
        return remarks

    def remedy(self, reason: str) -> str:
        """Where a source comes from."""
        return "; give a column 'source'" if reason == "no source text" else super().remedy(reason)

    def seed_values(self, measurement: Measurement) -> Floats:
        """Items × seeds: what the item's value would be with one seed; NaN where it has none."""
        rows = measurement.statistics.rows
        with np.errstate(invalid="ignore"):
            values: Floats = rows[:, 2:] / rows[:, 1:2]
        return np.where(np.isnan(measurement.values)[:, None], np.nan, values)

    def _judged(self, captions: CaptionSet, state: Imagination) -> Judged:
        others = captions.references
        if self.against == "source":
            others = type(others).of([[text] if text else [] for text in sources(captions)])
        shift = self.seeds if self.pairing == "different" else 0
        seeds = tuple(range(self.seeds)), tuple(range(shift, shift + self.seeds))
        return judged(captions, others, state.painter, state.encoder, self.kind, seeds, self.references, self.clip)


def sources(captions: CaptionSet) -> list[str]:
    """The source text of each item, empty where it has none."""
    given = captions.columns.get("source", (None,) * len(captions))
    return [text.strip() if isinstance(text, str) else "" for text in given]


def _empty(captions: CaptionSet) -> Bools:
    """Items one of whose candidates says nothing."""
    owners = captions.candidates.owners
    empty = np.zeros(len(captions), np.bool_)
    empty[owners[[not text.strip() for text in captions.candidates.values]]] = True
    return empty
