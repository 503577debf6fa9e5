"""ImaginE: a text judged by the pictures that it and its references paint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from captious.captions import CaptionSet
from captious.encoders import loading
from captious.encoders.encoder import Encoder
from captious.errors import InputError
from captious.imagine.painters import DRAWN, Options, Painter, load_painter
from captious.imagine.pairs import Judged, judged
from captious.imagine.similarity import Kind, rescaled
from captious.measurement import Floats, Measurement, Sums
from captious.metrics.base import MeanMetric, Metric, Need, summed
from captious.metrics.encoded import NAMED, mark

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
            "encoder": mark(state.encoder),
            "precision": state.encoder.precision,
        }

    def unscorable(self, captions: CaptionSet) -> Mapping[str, npt.NDArray[np.bool_]]:
        """An item needs candidates that say something, and something to compare them with."""
        reasons = {"no candidate caption": captions.candidates.counts == 0, "empty caption": _empty(captions)}
        if self.against == "source":
            return {**reasons, "no source text": np.array([not text for text in sources(captions)], np.bool_)}
        said = np.array([bool(text.strip()) for text in captions.references.values], np.float64)
        owners = np.repeat(np.arange(len(captions)), captions.references.counts)
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


def _empty(captions: CaptionSet) -> npt.NDArray[np.bool_]:
    """Items one of whose candidates says nothing."""
    owners = np.repeat(np.arange(len(captions)), captions.candidates.counts)
    empty = np.zeros(len(captions), np.bool_)
    empty[owners[[not text.strip() for text in captions.candidates.values]]] = True
    return empty
