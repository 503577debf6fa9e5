"""Negatives on the terminal: a sample to look at, by kind, with the changes marked; and what was made."""

from __future__ import annotations

import numpy as np
from rich.table import Table
from rich.text import Text

from captious.text.tables import Ints
from captious.umic.draws import image_keys
from captious.umic.kinds import DELETED, DOUBLED, REPLACED
from captious.umic.negatives import Negatives
from captious.umic.rows import what_was_done

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
    """A caption and its negative, with the changed words in colour."""
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
    """Colour a word wherever it stands as a whole."""
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
