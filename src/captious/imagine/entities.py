"""Entity recall: raters say which things of a text they see in its picture (Table 5)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from captious.analyses.finding import Figure, Finding, Grid, between, per_cent, plain_name
from captious.analyses.resampling import Resampling, clusters_of, shares
from captious.errors import InputError
from captious.readers.rows import name_of, rows_of
from captious.report.plot import Mark, intervals
from captious.study.resampling import Estimate
from captious.text.sentences import sentences
from captious.text.tagging import tagger_named

QUESTION = "Which of these can you see in the picture?"
_NO_THINGS = "photo picture image photograph view front top side left right middle pair couple group"
NO_THINGS = frozenset(_NO_THINGS.split())
"""Nouns that name no thing in a picture."""
Answers = Mapping[str, bool]


def entities(texts: Sequence[str], tagger: str = "captious") -> list[list[str]]:
    """The nouns of each text, once each, in order.

    >>> entities(["A photo of two dogs on the street and a dog."])
    [['dogs', 'street', 'dog']]
    """
    cut = [(number, one.tokens) for number, text in enumerate(texts) for one in sentences(text)]
    tags = tagger_named(tagger)([list(tokens) for _, tokens in cut])
    found: list[dict[str, None]] = [{} for _ in texts]
    for (number, tokens), marks in zip(cut, tags, strict=True):
        for token, mark in zip(tokens, marks, strict=True):
            if mark.startswith("NN") and token.lower() not in NO_THINGS:
                found[number][token.lower()] = None
    return [list(one) for one in found]


def tasks(gallery: Path, tagger: str = "captious") -> list[dict[str, Any]]:
    """One row per picture of a gallery: what a rater needs, and an empty ``seen`` to fill in."""
    place = gallery / "gallery.json"
    try:
        shown = json.loads(place.read_text(encoding="utf-8"))
        pictures = shown["pictures"]
        texts = list(dict.fromkeys(one["text"] for one in pictures))
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{gallery}: has no gallery.json, expected a folder that captious imagine paint wrote"
        ) from None
    things = dict(zip(texts, entities(texts, tagger), strict=True))
    rows = [
        {
            "task": one["picture"],
            "painter": shown["painter"],
            "text": one["text"],
            "seed": one["seed"],
            "picture": one["picture"],
            "question": QUESTION,
            "entities": things[one["text"]],
            "rater": None,
            "seen": dict.fromkeys(things[one["text"]]),
        }
        for one in pictures
        if things[one["text"]]
    ]
    if not rows:
        raise InputError(f"{gallery}: no text of it names a thing, or no picture was painted")
    return rows


def read_answers(sources: Iterable[str]) -> list[dict[str, Any]]:
    """Filled-in tasks; every entity of a row answered with true or false."""
    found = []
    for source in sources:
        for row in rows_of(source):
            seen = row.fields.get("seen")
            if not isinstance(seen, Mapping) or not seen:
                raise InputError(f"{row.where}: no answers: expected seen, such as {{'dog': true, 'tree': false}}")
            for thing, answer in seen.items():
                if not isinstance(answer, bool):
                    raise InputError(f"{row.where}: {thing!r} is answered {answer!r}, expected true or false")
            found.append({**row.fields, "painter": str(row.fields.get("painter") or name_of(source))})
    if not found:
        raise InputError("no answers: the files hold no rows")
    return found


def recall(answers: Sequence[Mapping[str, Any]], how: Resampling) -> dict[str, tuple[Estimate, int, int]]:
    """By painter the share of entities seen, with an interval over texts; how many answers, and how many raters."""
    painters = list(dict.fromkeys(str(row["painter"]) for row in answers))
    hits, trials = (np.zeros((len(answers), len(painters))) for _ in range(2))
    raters: dict[str, set[str]] = {name: set() for name in painters}
    for place, row in enumerate(answers):
        seen: Answers = row["seen"]
        column = painters.index(str(row["painter"]))
        hits[place, column], trials[place, column] = sum(seen.values()), len(seen)
        raters[painters[column]].add(str(row.get("rater")))
    cluster = clusters_of([str(row.get("text")) for row in answers])
    found = shares(hits, trials, cluster, how).estimates()
    return {
        name: (estimate, int(trials[:, column].sum()), len(raters[name]))
        for column, (name, estimate) in enumerate(zip(painters, found, strict=True))
    }


def recall_finding(name: str, found: Mapping[str, tuple[Estimate, int, int]], how: Resampling) -> Finding:
    """The table of painters, the best first."""
    order = sorted(found.items(), key=lambda one: -one[1][0].value)
    rows = tuple(
        (painter, per_cent(one.value), between(one), f"{number:,}", str(raters))
        for painter, (one, number, raters) in order
    )
    columns = ("painter", "recall %", f"{how.level:.0%} interval", "answers", "raters")
    marks = [Mark(painter, 100 * one.value, 100 * one.low, 100 * one.high) for painter, (one, _, _) in order]
    return Finding(
        f"{plain_name(name)}: entity recall",
        "The share of the things a text names that raters see in its picture; texts are resampled.",
        (Grid("Entity recall", columns, rows),),
        (Figure(intervals({"recall": marks}, "entity recall"), "Entity recall by painter, per cent."),),
        (),
        (f"ci:{how}",),
        {"recall": {painter: asdict(one) for painter, (one, _, _) in order}},
    )
