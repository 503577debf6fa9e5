"""Galleries of painted texts: pictures by seed, next to those of the nearest reference, with their similarity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePath

import numpy as np

from captious._core.types import Floats
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError
from captious.metrics.imagine import Imagine, compare_pictures
from captious.metrics.registry import parse
from captious.models.encoder import Encoder, Pixels, encoder_id
from captious.models.painters import FAULTS, Painter, Prompt, list_pictures
from captious.render import Document, Entry, Gallery, Line, Picture, Result
from captious.render.exports import dumps
from captious.stats.correlation import rank_shares

GALLERY = "gallery.json"


@dataclass(frozen=True)
class PaintedText:
    """A text, its nearest reference, and the similarity of their pictures."""

    id: str
    text: str
    reference: str = ""
    image: float = float("nan")
    cross: float = float("nan")
    human: float = float("nan")
    gap: float = float("nan")
    """Rank by the likeness of pictures less rank by people, as shares of all texts."""

    def facts(self) -> list[str]:
        """Format the numbers for readers."""
        numbers = (("IE-image", self.image), ("IE-text&image", self.cross), ("people", self.human))
        facts = [f"{name} {value:.3f}" for name, value in numbers if value == value]
        if self.gap == self.gap:
            side = "pictures like it better" if self.gap > 0 else "people like it better"
            facts.append(f"{side}: {100 * abs(self.gap):.0f} % of the texts between")
        return facts


@dataclass(frozen=True, repr=False)
class PictureGallery(Result):
    """A gallery of painted captions.

    Saved, it has the pictures next to its page, and ``gallery.json`` describes them.
    """

    name: str
    texts: Sequence[PaintedText]
    painter: Painter
    seeds: Sequence[int]
    pictures: dict[tuple[str, int], tuple[Pixels, int]]
    """The pixels by text and seed, and the code in ``FAULTS`` that says why a picture is missing."""
    signature: str
    empty: int = 0
    """Texts that say nothing, left out."""

    def __repr__(self) -> str:
        return f"<PictureGallery of {len(self.texts)} texts of {self.name}>"

    @property
    def unpainted(self) -> int:
        """Pictures that could not be painted."""
        return sum(code > 0 for _, code in self.pictures.values())

    def document(self) -> Document:
        """Build the page of the gallery."""
        rated = any(one.gap == one.gap for one in self.texts)
        order = "where people and pictures disagree most first" if rated else "the least alike first"
        if not any(one.reference for one in self.texts):
            order = "in the order of the file"
        left = f", {self.empty:,} empty ones left out" if self.empty else ""
        paths = self._list_paths()
        return Document(
            f"{PurePath(self.name).name}: imagined",
            f"{len(self.texts):,} texts, {order}.",
            [Gallery("Texts and their pictures", [self._build_entry(one, paths) for one in self.texts])],
            notes=[f"{len(self.texts):,} texts{left}, {self.unpainted:,} pictures could not be painted"],
            signatures=[self.signature],
            data={"texts": len(self.texts), "empty": self.empty, "unpainted": self.unpainted},
            name="index",
        )

    def write_files(self, folder: Path) -> None:
        """Write every picture in its own size, and ``gallery.json``."""
        from PIL import Image

        (folder / "pictures").mkdir()
        paths = self._list_paths()
        for prompt, path in paths.items():
            Image.fromarray(self.pictures[prompt][0]).save(folder / path)
        facts = {
            "painter": self.painter.name,
            "fingerprint": self.painter.fingerprint,
            "settings": self.painter.settings,
            "seeds": list(self.seeds),
            "entries": self.texts,
            "pictures": [{"text": text, "seed": seed, "picture": path} for (text, seed), path in paths.items()],
        }
        (folder / GALLERY).write_text(dumps(facts, indent=1) + "\n", encoding="utf-8", newline="\n")

    def _list_paths(self) -> dict[tuple[str, int], str]:
        numbered = enumerate(self.pictures.items())
        return {prompt: f"pictures/{number:05d}.png" for number, (prompt, (_, code)) in numbered if not code}

    def _build_entry(self, one: PaintedText, paths: Mapping[tuple[str, int], str]) -> Entry:
        def line(text: str, label: str) -> Line:
            pictures = []
            for seed in self.seeds:
                pixels, code = self.pictures[text, seed]
                missing = Picture(None, FAULTS[code])
                pictures.append(missing if code else Picture(pixels, f"seed {seed}", href=paths[text, seed]))
            return Line(text, label, pictures)

        lines = [line(one.text, "text"), *([line(one.reference, "nearest reference")] if one.reference else [])]
        return Entry(one.id, lines, facts=one.facts())


def paint(
    captions: CaptionSet,
    metric: str | Imagine,
    human: Floats | None = None,
    *,
    most: int = 100,
    compile: bool = False,
    progress: Callable[[str], None] | None = None,
) -> PictureGallery:
    """Paint texts as ``metric`` does, next to their nearest reference if there are references.

    With ratings, ``human``, the greatest disagreements come first; with only references, the least similar. ``compile``
    compiles the painter first, which pays for many pictures on a GPU.
    """
    metric = parse_imagine(metric)
    if progress:
        progress("loading the painter")
    painter = metric.load_painter(compile)
    encoder = metric.encoder() if captions.references.counts.any() else None
    if progress:
        progress("painting")
    seeds = range(metric.seeds)
    texts = [(captions.candidates[item] or ("",))[0] for item in range(len(captions))]
    shown = _choose_texts(captions, texts, painter, encoder, tuple(seeds), human, most)
    distinct = dict.fromkeys(text for one in shown for text in (one.text, one.reference) if text)
    prompts = [Prompt(text, seed) for text in distinct for seed in seeds]
    painted = zip(*list_pictures(painter, prompts), strict=True)
    return PictureGallery(
        captions.name,
        shown,
        painter,
        seeds,
        {(prompt.text, prompt.seed): picture for prompt, picture in zip(prompts, painted, strict=True)},
        format_signature(painter, encoder, metric.seeds),
        sum(not text.strip() for text in texts),
    )


def parse_imagine(metric: str | Imagine) -> Imagine:
    """Parse ImaginE from its written form; raise InputError for any other metric."""
    parsed = parse(metric) if isinstance(metric, str) else metric
    if not isinstance(parsed, Imagine):
        raise InputError(f"{parsed}: paints no pictures, expected a metric such as imagine(seeds=5)")
    return parsed


def format_signature(painter: Painter, encoder: Encoder | None, seeds: int) -> str:
    """Format everything that changes a picture or its vector."""
    signature = f"painter:{painter.name}#{painter.fingerprint}|settings:{painter.settings}|seeds:0-{seeds - 1}"
    return signature if encoder is None else f"{signature}|encoder:{encoder_id(encoder)}"


def _choose_texts(
    captions: CaptionSet,
    texts: Sequence[str],
    painter: Painter,
    encoder: Encoder | None,
    seeds: tuple[int, ...],
    human: Floats | None,
    most: int,
) -> list[PaintedText]:
    """Choose the texts to show: the greatest disagreements with people first; with references only, the least similar
    first.
    """
    if encoder is None:
        shown = [PaintedText(key, text) for key, text in zip(captions.ids, texts, strict=True) if text.strip()]
        return shown[:most]

    def compare(candidates: CaptionSet, others: Ragged, kind: str) -> Floats:
        values: Floats = compare_pictures(candidates, others, painter, encoder, kind, (seeds, seeds)).values.mean(
            axis=1
        )
        return values

    single = CaptionSet.of(dict(zip(captions.ids, texts, strict=True)), name=captions.name)
    image, cross = (compare(single, captions.references, kind) for kind in ("image", "text&image"))
    ratings = human if human is not None else np.full(len(texts), np.nan)
    both = ~np.isnan(ratings) & ~np.isnan(image)
    gap = np.full(len(texts), np.nan)
    gap[both] = rank_shares(image[both]) - rank_shares(ratings[both])
    key = -np.abs(gap) if both.any() else image
    order = [item for item in np.argsort(key, kind="stable").tolist() if texts[item].strip()][:most]
    pairs = [(item, reference) for item in order for reference in captions.references[item] if reference.strip()]
    each = CaptionSet.of({str(number): texts[item] for number, (item, _) in enumerate(pairs)})
    alike = np.nan_to_num(compare(each, Ragged.of([[text] for _, text in pairs]), "image"), nan=-np.inf)
    nearest = dict.fromkeys(order, "")
    for item, scored in groupby(zip(pairs, alike.tolist(), strict=True), key=lambda pair: pair[0][0]):
        (_, nearest[item]), _ = max(scored, key=lambda pair: pair[1])
    return [
        PaintedText(
            captions.ids[item],
            texts[item],
            nearest[item],
            *(float(values[item]) for values in (image, cross, ratings, gap)),
        )
        for item in order
    ]
