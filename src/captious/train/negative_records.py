"""Records of wrong captions: a description of the changes, as JSON Lines and as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.files import write_atomically
from captious._core.random import make_keys
from captious.edits.changes import mark, summarize
from captious.edits.wrong_words import DELETED, DOUBLED, REPLACED, SHUFFLED
from captious.render import Column, Document, Phrase, Result, Table
from captious.train.negatives import KINDS, WAYS, Negatives

DONE = {REPLACED: "replaced", DELETED: "deleted", DOUBLED: "doubled"}


def make_record(negatives: Negatives, number: int) -> dict[str, Any]:
    """Build the record of a negative: id, caption, kind, negative, changes, and the fallback kind, if any."""
    corpus, caption = negatives.corpus, int(negatives.caption[number])
    kind, actual = negatives.kinds[negatives.kind[number]], KINDS[negatives.actual[number]]
    shown = {
        "id": negatives.ids[number],
        "caption": corpus.texts[caption],
        "kind": kind,
        "negative": negatives.texts[number],
        "done": describe_changes(negatives, number),
    }
    return shown if actual == kind else {**shown, "fallback": actual}


def describe_changes(negatives: Negatives, number: int) -> dict[str, Any]:
    """Return the changes of a negative, such as ``{"replaced": [["dog", "horse"]]}`` or ``{"from": "17", "by":
    "cider"}``.
    """
    source = int(negatives.source[number])
    if source >= 0:
        origin = {"from": negatives.corpus.ids[negatives.corpus.image[source]]}
        way = WAYS[negatives.way[number]]
        return {**origin, "by": way} if way else origin
    changes: dict[str, Any] = {}
    for index in range(negatives.changes[number], negatives.changes[number + 1]):
        done, old = int(negatives.done[index]), negatives.words[negatives.old[index]]
        if done == SHUFFLED:
            changes["shuffled"] = True
        else:
            pair = [old, negatives.words[negatives.new[index]]]
            changes.setdefault(DONE[done], []).append(pair if done == REPLACED else old)
    return changes


def iterate_records(negatives: Negatives) -> Iterator[dict[str, Any]]:
    """Yield the records of all negatives that could be made, in order."""
    return (make_record(negatives, number) for number in np.flatnonzero(negatives.actual >= 0).tolist())


def write_negatives(negatives: Negatives, path: str | Path) -> int:
    """Write all records as JSON Lines, atomically, and return their number."""
    with write_atomically(path) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(entry, ensure_ascii=False) + "\n" for entry in iterate_records(negatives))
    return int((negatives.actual >= 0).sum())


@dataclass(frozen=True, eq=False, repr=False)
class NegativeSample(Result):
    """The number of negatives of each kind, and some examples of each."""

    negatives: Negatives
    size: int = 0
    """Number of negatives shown of each kind."""
    seed: int = 0
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Sample of {len(self.negatives):,} negatives of {len(self.negatives.corpus):,} captions"

    def document(self) -> Document:
        """Build tables of the counts and of some negatives of each kind, with the changed words marked."""
        drawn, corpus, counts, chosen = (
            self.negatives,
            self.negatives.corpus,
            self.negatives.counts(),
            self.draw_examples(),
        )
        rows = []
        for kind, tally in counts.items():
            others = [f"{name}: {count:,}" for name, count in tally.items() if name not in (kind, "none")]
            rows.append((kind, tally[kind], ", ".join(others) or "—", tally.get("none", 0)))
        title = f"{len(corpus.ids):,} images, {len(corpus):,} captions"
        columns = ("kind", Column("made"), Column("fell back to", "text"), Column("not made"))
        tables = [Table("counts", title, columns, rows)]
        for kind, numbers in chosen.items() if self.size else ():
            entries = [
                (drawn.ids[number], *mark_changes(drawn, number), summarize(describe_changes(drawn, number)))
                for number in numbers
            ]
            title = f"{kind}: {len(numbers)} of {sum(counts[kind].values()):,}"
            tables.append(Table(kind, title, ("id", "caption", "negative", "what was done"), entries))
        data: dict[str, Any] = {"captions": len(corpus), "images": len(corpus.ids), "seed": self.seed, "per": drawn.per}
        data["counts"] = counts
        if self.size:
            data["look"] = {
                kind: [make_record(drawn, number) for number in numbers] for kind, numbers in chosen.items()
            }
        return Document("Wrong captions", sections=tables, warnings=self.warnings, data=data, name="negatives")

    def draw_examples(self) -> dict[str, list[int]]:
        """Draw negatives of each kind by the seed, preferring different images."""
        drawn, corpus = self.negatives, self.negatives.corpus
        # The images in a random order; each gives one caption before any gives a second one.
        rank = np.empty(len(corpus.ids), dtype=np.int64)
        rank[np.argsort(make_keys(corpus.ids, self.seed))] = np.arange(len(corpus.ids))
        chosen = {}
        for number, kind in enumerate(drawn.kinds):
            rows = np.flatnonzero((drawn.kind == number) & (drawn.actual >= 0))
            caption = drawn.caption[rows]
            image = corpus.image[caption]
            # The caption's position is rotated by the image's rank, so that not all examples are first captions.
            turn = (corpus.position[caption] - rank[image]) % np.diff(corpus.offsets)[image]
            chosen[kind] = rows[np.lexsort((rows, rank[image], turn))][: self.size].tolist()
        return chosen


def mark_changes(negatives: Negatives, number: int) -> tuple[Phrase, Phrase]:
    """Return a caption with removed words struck out, and its negative with new words marked."""
    caption = negatives.corpus.texts[int(negatives.caption[number])]
    return mark(caption, negatives.texts[number], describe_changes(negatives, number), harmful=True)
