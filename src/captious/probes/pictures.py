"""Galleries of painted texts: pictures by seed, next to those of the nearest reference, with their similarity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path, PurePath

import numpy as np

from captious._core.types import Floats
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError
from captious.metrics.imagine import KINDS, RANGES, Imagine, compare_pictures
from captious.metrics.registry import parse
from captious.models.encoder import Encoder, Pixels, encoder_id
from captious.models.painters import FAULTS, Painter, Prompt, list_pictures
from captious.render import Chart, Column, Document, Entry, Gallery, Line, Picture, Result, Series, Table
from captious.render.exports import dumps
from captious.stats.correlation import rank_shares

GALLERY = "gallery.json"
BINS = 20


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
    similarities: Mapping[str, Floats] = field(default_factory=dict)
    """The value of every text of the file with its references, by kind; not only of those shown."""

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
            [
                *self._build_similarities(),
                Gallery("Texts and their pictures", [self._build_entry(one, paths) for one in self.texts]),
            ],
            notes=[f"{len(self.texts):,} texts{left}, {self.unpainted:,} pictures could not be painted"],
            signatures=[self.signature],
            data={
                "texts": len(self.texts),
                "empty": self.empty,
                "unpainted": self.unpainted,
                "similarities": {
                    kind: {"raw": get_raw_cosines(values, kind).tolist(), "rescaled": values.tolist()}
                    for kind, values in self.similarities.items()
                },
            },
            name="index",
        )

    def _build_similarities(self) -> list[Table | Chart]:
        """Build a table of both kinds, raw and rescaled, and a histogram of each: the paper's Figure 6."""
        rows: list[tuple[str, str, int, float, float, float, float]] = []
        charts = []
        for kind, values in self.similarities.items():
            sides = {"raw cosine": get_raw_cosines(values, kind), "rescaled": values}
            for name, side in sides.items():
                scored = side[~np.isnan(side)]
                if not len(scored):
                    continue
                spread = float(scored.std(ddof=1)) if len(scored) > 1 else float("nan")
                ends = float(scored.min()), float(scored.max())
                rows.append((f"IE-{kind}", name, len(scored), float(scored.mean()), spread, *ends))
                counts, edges = np.histogram(scored, BINS)
                title = f"IE-{kind}, {name}"
                charts.append(Chart("histogram", [Series(name, edges.tolist(), counts.tolist())], title, x=name))
        if not rows:
            return []
        numbers = [Column(name, decimals=4) for name in ("mean", "sd", "lowest", "highest")]
        low, high = (", ".join(f"{kind} {RANGES[kind][end]:g}" for kind in KINDS) for end in (0, 1))
        note = f"rescaled: (cosine - l) / (h - l), with l: {low}; h: {high}"
        columns: tuple[Column | str, ...] = ("kind", "value", Column("texts"), *numbers)
        return [Table("similarities", "Similarity of texts and references", columns, rows, note), *charts]

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


def get_raw_cosines(values: Floats, kind: str) -> Floats:
    """Return the cosines that were rescaled to these values.

    >>> get_raw_cosines(np.array([0.0, 0.5, 1.0]), "image").tolist()
    [0.1, 0.55, 1.0]
    """
    low, high = RANGES[kind]
    cosines: Floats = values * (high - low) + low
    return cosines


@dataclass(frozen=True, repr=False)
class PainterComparison(Result):
    """The pictures of the same texts by several painters: a row per text, a picture per painter.

    Saved, the gallery of each painter is in a folder of its own, as `captious probe entities` reads it.
    """

    galleries: Sequence[PictureGallery]

    def __repr__(self) -> str:
        return f"<PainterComparison of {len(self.galleries)} painters>"

    def _list_folders(self) -> list[str]:
        return [f"painter-{number}" for number in range(1, len(self.galleries) + 1)]

    def document(self) -> Document:
        """Build a page with the pictures side by side, seed by seed."""
        first = self.galleries[0]
        names = [gallery.painter.name for gallery in self.galleries]
        paths = [gallery._list_paths() for gallery in self.galleries]
        entries = []
        for one in first.texts:
            lines = [Line(one.text, "text")]
            for seed in first.seeds:
                pictures = []
                for gallery, folder, listed in zip(self.galleries, self._list_folders(), paths, strict=True):
                    pixels, code = gallery.pictures[one.text, seed]
                    href = "" if code else f"{folder}/{listed[one.text, seed]}"
                    title = gallery.painter.name
                    pictures.append(Picture(None, f"{title}: {FAULTS[code]}") if code else Picture(pixels, title, href))
                lines.append(Line("", f"seed {seed}", pictures))
            entries.append(Entry(one.id, lines))
        rows = [
            (one.painter.name, one.painter.settings, len(one.pictures) - one.unpainted, one.unpainted)
            for one in self.galleries
        ]
        columns = ("painter", "settings", Column("pictures"), Column("could not be painted"))
        return Document(
            f"{PurePath(first.name).name}: {len(names)} painters",
            f"{len(first.texts):,} texts by {', '.join(names)}, in this order.",
            [Table("painters", "Painters", columns, rows), Gallery("Texts and their pictures", entries)],
            signatures=[gallery.signature for gallery in self.galleries],
            data={"painters": names, "texts": len(first.texts), "unpainted": [row[-1] for row in rows]},
            name="index",
        )

    def write_files(self, folder: Path) -> None:
        """Write the pictures and ``gallery.json`` of each painter into its folder."""
        for name, gallery in zip(self._list_folders(), self.galleries, strict=True):
            (folder / name).mkdir()
            gallery.write_files(folder / name)


def compare_painters(
    captions: CaptionSet,
    metric: str | Imagine,
    painters: Sequence[str],
    *,
    most: int = 100,
    compile: bool = False,
    progress: Callable[[str], None] | None = None,
) -> PainterComparison:
    """Paint the first texts of a file by several painters, in place of the metric's own."""
    repeated = [name for number, name in enumerate(painters) if name in painters[:number]]
    if repeated or len(painters) < 2:
        raise InputError(f"painters {', '.join(painters)}: expected at least two different ones")
    parsed = parse_imagine(metric)
    pairs = zip(captions.ids, (captions.candidates[item] for item in range(len(captions))), strict=True)
    texts = CaptionSet.of({key: (own or ("",))[0] for key, own in pairs}, name=captions.name)
    galleries = []
    for name in painters:
        if progress:
            progress(f"painter {name}")
        galleries.append(paint(texts, replace(parsed, painter=name), most=most, compile=compile))
    return PainterComparison(galleries)


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
    similarities: dict[str, Floats] = {}
    if encoder is not None:
        single = CaptionSet.of(dict(zip(captions.ids, texts, strict=True)), name=captions.name)
        both = (tuple(seeds), tuple(seeds))
        for kind in KINDS:
            found = compare_pictures(single, captions.references, painter, encoder, kind, both)
            similarities[kind] = found.values.mean(axis=1)
    shown = _choose_texts(captions, texts, painter, encoder, tuple(seeds), human, most, similarities)
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
        similarities,
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
    similarities: Mapping[str, Floats],
) -> list[PaintedText]:
    """Choose the texts to show: the greatest disagreements with people first; with references only, the least similar
    first.
    """
    if encoder is None:
        shown = [PaintedText(key, text) for key, text in zip(captions.ids, texts, strict=True) if text.strip()]
        return shown[:most]

    image, cross = (similarities[kind] for kind in KINDS)
    ratings = human if human is not None else np.full(len(texts), np.nan)
    both = ~np.isnan(ratings) & ~np.isnan(image)
    gap = np.full(len(texts), np.nan)
    gap[both] = rank_shares(image[both]) - rank_shares(ratings[both])
    key = -np.abs(gap) if both.any() else image
    order = [item for item in np.argsort(key, kind="stable").tolist() if texts[item].strip()][:most]
    pairs = [(item, reference) for item in order for reference in captions.references[item] if reference.strip()]
    each = CaptionSet.of({str(number): texts[item] for number, (item, _) in enumerate(pairs)})
    nearest_of = Ragged.of([[text] for _, text in pairs])
    pairwise = compare_pictures(each, nearest_of, painter, encoder, "image", (seeds, seeds)).values.mean(axis=1)
    alike = np.nan_to_num(pairwise, nan=-np.inf)
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
