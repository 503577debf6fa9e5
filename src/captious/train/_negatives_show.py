"""Negatives on the terminal: a sample to look at, by kind, with the changes marked; and what was made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.table import Table
from rich.text import Text

from captious._typing import Floats32, Ints
from captious.errors import InputError
from captious.models.features import read_given
from captious.train.negatives import DELETED, DOUBLED, REPLACED, Corpus, Negatives, image_keys, what_was_done

STYLES = {REPLACED: "bold red", DELETED: "red strike", DOUBLED: "bold yellow"}


def sample(negatives: Negatives, size: int, seed: int = 0) -> dict[str, Ints]:
    """Of each kind some negatives, drawn by the seed: no image twice while there are others."""
    corpus = negatives.corpus
    rank = np.empty(len(corpus.ids), dtype=np.int64)
    rank[np.argsort(image_keys(corpus.ids, seed))] = np.arange(len(corpus.ids))
    found = {}
    for number, kind in enumerate(negatives.kinds):
        rows = np.flatnonzero((negatives.kind == number) & (negatives.made >= 0))
        caption = negatives.caption[rows]
        # A different caption for each image: its number turns with the image's rank.
        place = (corpus.place[caption] - rank[corpus.image[caption]]) % np.diff(corpus.offsets)[corpus.image[caption]]
        found[kind] = rows[np.lexsort((rows, rank[corpus.image[caption]], place))][:size]
    return found


def look(negatives: Negatives, kind: str, rows: Ints) -> Table:
    """Caption and negative side by side: what was taken away struck out, what was put in marked."""
    table = Table(title=Text(f"{kind}: {len(rows)} of {int((negatives.kind == negatives.kinds.index(kind)).sum()):,}"))
    table.title_justify = "left"
    for column in ("id", "caption", "negative", "what was done"):
        table.add_column(column, overflow="fold")
    corpus = negatives.corpus
    for number in rows.tolist():
        caption = int(negatives.caption[number])
        before, after = marked(negatives, number)
        table.add_row(Text(corpus.ids[corpus.image[caption]]), before, after, Text(_said(negatives, number)))
    return table


def marked(negatives: Negatives, number: int) -> tuple[Text, Text]:
    """A caption and its negative, with the changed words in color."""
    before = Text(negatives.corpus.texts[int(negatives.caption[number])])
    after = Text(negatives.texts[number])
    for place in range(negatives.changes[number], negatives.changes[number + 1]):
        done = int(negatives.done[place])
        if done not in STYLES:
            continue
        _mark(before, negatives.words[negatives.old[place]], STYLES[done])
        if done == REPLACED:
            _mark(after, negatives.words[negatives.new[place]], "bold green")
        elif done == DOUBLED:
            _mark(after, negatives.words[negatives.old[place]], STYLES[done])
    return before, after


def summary_table(negatives: Negatives) -> Table:
    """How many of each kind were made, and how many are of another kind because it could not be."""
    table = Table(
        title=f"{len(negatives.corpus.ids):,} images, {len(negatives.corpus):,} captions", title_justify="left"
    )
    for column in ("kind", "made", "fell back to", "not made"):
        table.add_column(column, justify="left" if column in ("kind", "fell back to") else "right")
    for kind, tally in negatives.counts().items():
        others = [f"{name}: {count:,}" for name, count in tally.items() if name not in (kind, "none")]
        table.add_row(kind, f"{tally[kind]:,}", ", ".join(others) or "—", f"{tally.get('none', 0):,}")
    return table


def _mark(text: Text, word: str, style: str) -> None:
    """Color a word wherever it stands as a whole."""
    plain = text.plain
    start = plain.find(word)
    while start >= 0:
        end = start + len(word)
        if not plain[start - 1 : start].isalnum() and not plain[end : end + 1].isalnum():
            text.stylize(style, start, end)
        start = plain.find(word, end)


def _said(negatives: Negatives, number: int) -> str:
    done = what_was_done(negatives, number)
    parts = []
    for name, value in done.items():
        if name == "replaced":
            value = ", ".join(f"{old} → {new}" for old, new in value)
        parts.append(name if value is True else f"{name} {', '.join(value) if isinstance(value, list) else value}")
    return "; ".join(parts)


Rows = Floats32


def read_vectors(corpus: Corpus, path: Path) -> tuple[Rows, dict[str, str]]:
    """Vectors from a file of :mod:`captious.models.features`; NaN and a reason where there is none."""
    ids, rows = read_given(path)
    place = {key: number for number, key in enumerate(ids)}
    index = np.array([place.get(key, -1) for key in corpus.ids], dtype=np.int64)
    if (index < 0).all():
        raise InputError(f"{path}: holds no vector of any image of {corpus.name}, such as {corpus.ids[0]}")
    found = np.full((len(corpus.ids), rows.shape[1]), np.nan, dtype=np.float32)
    found[index >= 0] = rows[index[index >= 0]]
    return found, {
        key: f"not in {path.name}" for key, number in zip(corpus.ids, index.tolist(), strict=True) if number < 0
    }


def encoded(corpus: Corpus, images: Path, encoder: str) -> tuple[Rows, dict[str, str]]:
    """Vectors of image files by an encoder; NaN and why where a file cannot be used."""
    from captious.io.images import find_images
    from captious.models.features import image_features
    from captious.models.load import load

    paths = find_images(images, corpus.ids)
    found = image_features(load(encoder), paths)
    index = np.asarray(found.index)
    rows = np.full((len(corpus.ids), found.rows.shape[1]), np.nan, dtype=np.float32)
    rows[index >= 0] = found.rows[index[index >= 0]]
    return rows, {corpus.ids[number]: why for number, why in found.faults.items()}
