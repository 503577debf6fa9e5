"""Negatives as rows: what each is, and what was done to make it."""

from __future__ import annotations

from collections.abc import Iterator
from json.encoder import encode_basestring as quoted
from pathlib import Path
from typing import Any

import numpy as np

from captious.files import whole_file
from captious.umic.kinds import DELETED, DOUBLED, REPLACED, SHUFFLED
from captious.umic.negatives import KINDS, Negatives
from captious.umic.sources import WAYS

DONE = {REPLACED: "replaced", DELETED: "deleted", DOUBLED: "doubled"}


def row(negatives: Negatives, number: int) -> dict[str, Any]:
    """One negative: id, caption, kind, negative, what was done, and the kind it fell back to if it did."""
    corpus, caption = negatives.corpus, int(negatives.caption[number])
    kind, made = negatives.kinds[negatives.kind[number]], KINDS[negatives.made[number]]
    shown = {
        "id": corpus.ids[corpus.image[caption]],
        "caption": corpus.texts[caption],
        "kind": kind,
        "negative": negatives.texts[number],
        "done": what_was_done(negatives, number),
    }
    return shown if made == kind else {**shown, "fallback": made}


def what_was_done(negatives: Negatives, number: int) -> dict[str, Any]:
    """Such as ``{"replaced": [["dog", "horse"]]}`` or ``{"from": "17", "by": "cider"}``."""
    source = int(negatives.source[number])
    if source >= 0:
        origin = {"from": negatives.corpus.ids[negatives.corpus.image[source]]}
        way = WAYS[negatives.way[number]]
        return {**origin, "by": way} if way else origin
    found: dict[str, Any] = {}
    for place in range(negatives.changes[number], negatives.changes[number + 1]):
        done, old = int(negatives.done[place]), negatives.words[negatives.old[place]]
        if done == SHUFFLED:
            found["shuffled"] = True
        else:
            pair = [old, negatives.words[negatives.new[place]]]
            found.setdefault(DONE[done], []).append(pair if done == REPLACED else old)
    return found


def rows(negatives: Negatives) -> Iterator[dict[str, Any]]:
    """All that could be made, in order."""
    return (row(negatives, number) for number in np.flatnonzero(negatives.made >= 0).tolist())


def save(negatives: Negatives, path: str | Path) -> int:
    """Write all rows as JSON Lines, whole or not at all; how many they are."""
    with whole_file(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.writelines(lines(negatives))
    return int((negatives.made >= 0).sum())


def lines(negatives: Negatives) -> Iterator[str]:
    """Each row as a line of JSON, equal to that of ``json.dumps``; what many rows share is quoted once."""
    corpus = negatives.corpus
    ids, captions = list(map(quoted, corpus.ids)), list(map(quoted, corpus.texts))
    words = list(map(quoted, negatives.words))
    kinds = [f', "kind": "{kind}", "negative": ' for kind in negatives.kinds]
    ways = [f', "by": "{way}"}}' if way else "}" for way in WAYS]
    image = corpus.image.tolist()
    bounds, done = negatives.changes.tolist(), negatives.done.tolist()
    old, new = negatives.old.tolist(), negatives.new.tolist()
    columns = (negatives.caption, negatives.kind, negatives.made, negatives.source, negatives.way)
    for number, (caption, kind, made, source, way) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        if made < 0:
            continue
        if source >= 0:
            text, did = captions[source], f'{{"from": {ids[image[source]]}{ways[way]}'
        else:
            text = quoted(negatives.texts[number])
            did = _changes(bounds[number], bounds[number + 1], done, old, new, words)
        end = "}\n" if KINDS[made] == negatives.kinds[kind] else f', "fallback": "{KINDS[made]}"}}\n'
        head = f'{{"id": {ids[image[caption]]}, "caption": {captions[caption]}{kinds[kind]}'
        yield f'{head}{text}, "done": {did}{end}'


def _changes(first: int, end: int, done: list[int], old: list[int], new: list[int], words: list[str]) -> str:
    if end == first + 1 and done[first] == SHUFFLED:
        return '{"shuffled": true}'
    found: dict[int, list[str]] = {}
    for place in range(first, end):
        word = words[old[place]]
        found.setdefault(done[place], []).append(f"[{word}, {words[new[place]]}]" if done[place] == REPLACED else word)
    return "{" + ", ".join(f'"{DONE[key]}": [{", ".join(listed)}]' for key, listed in found.items()) + "}"
