"""What raters filled in: every thing of a task answered with yes or no, once by each rater."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from captious.errors import InputError
from captious.io.formats import Row, name_of, rows_of
from captious.options import Resampling
from captious.probes.finding import Figure, Finding, Grid, between, per_cent, plain_name
from captious.report.plot import Mark, intervals
from captious.stats.agreement import Alpha, krippendorff
from captious.stats.bootstrap import Estimate
from captious.stats.shares import clusters_of, shares
from captious.syntax.sentences import sentences
from captious.syntax.tagging import tagger_named

PICTURE = ("painter", "text", "seed", "picture")


def read_answers(sources: Iterable[str]) -> list[dict[str, Any]]:
    """Filled-in tasks; every entity of a row answered with true or false. Who is not named is called as the file."""
    found, first = [], dict[str, str]()
    for source in sources:
        for row in rows_of(source):
            _check(row)
            who = {key: str(row.fields.get(key) or name_of(source)) for key in ("painter", "rater")}
            answered = {**row.fields, **who}
            task = json.dumps([answered.get(key) for key in ("rater", *PICTURE)], default=str)
            if answered.get("picture") is not None and task in first:
                raise InputError(
                    f"{row.where}: rater {who['rater']!r} answered {answered['picture']} in {first[task]} already"
                )
            first[task] = row.where
            found.append(answered)
    if not found:
        raise InputError("no answers: the files hold no rows")
    return found


def _check(row: Row) -> None:
    """Whether a row answers what it asks, no more and no less."""
    seen, asked = row.fields.get("seen"), row.fields.get("entities")
    if not isinstance(seen, Mapping) or not seen:
        raise InputError(f"{row.where}: no answers: expected seen, such as {{'dog': true, 'tree': false}}")
    for thing, answer in seen.items():
        if not isinstance(answer, bool):
            raise InputError(f"{row.where}: {thing!r} is answered {answer!r}, expected true or false")
    if isinstance(asked, list) and {*map(str, asked)} != {*seen}:
        told = ", ".join(map(repr, asked))
        raise InputError(f"{row.where}: answers for {', '.join(map(repr, seen))}, expected the entities {told}")


QUESTION = "Which of these can you see in the picture?"
_NO_THINGS = "photo picture image photograph view front top side left right middle pair couple group"
NO_THINGS = frozenset(_NO_THINGS.split())
"""Nouns that name no thing in a picture."""


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


@dataclass(frozen=True)
class Recalled:
    """What raters saw in the pictures of one painter."""

    recall: Estimate
    """The share of entities seen, with an interval over texts."""
    answers: int
    raters: int
    agreement: Alpha | None
    """Krippendorff's alpha, nominal, over questions that several raters answered; none where it is not defined."""


def recall(answers: Sequence[Mapping[str, Any]], how: Resampling) -> dict[str, Recalled]:
    """By painter the share of entities seen, and how far raters agree about the same entity of the same picture."""
    painters = list(dict.fromkeys(str(row["painter"]) for row in answers))
    column = np.array([painters.index(str(row["painter"])) for row in answers])
    hits, trials = (np.zeros((len(answers), len(painters))) for _ in range(2))
    hits[np.arange(len(answers)), column] = [sum(row["seen"].values()) for row in answers]
    trials[np.arange(len(answers)), column] = [len(row["seen"]) for row in answers]
    cluster = clusters_of([str(row.get("text")) for row in answers])
    found = {}
    for place, estimate in enumerate(shares(hits, trials, cluster, how).estimates()):
        own = [row for row in answers if str(row["painter"]) == painters[place]]
        raters = {str(row.get("rater")) for row in own}
        number = int(trials[:, place].sum())
        found[painters[place]] = Recalled(estimate, number, len(raters), agreement(own, how))
    return found


def agreement(answers: Sequence[Mapping[str, Any]], how: Resampling) -> Alpha | None:
    """Krippendorff's alpha (nominal) of yes and no; none where no two raters meet, or all answers are the same.

    >>> def row(rater, *seen): return {"text": "x", "rater": rater, "seen": dict(zip("abc", seen))}
    >>> found = agreement([row("me", True, True, False), row("you", True, False, False)], Resampling(samples=0))
    >>> round(found.estimate.value, 6)  # one of three disagrees; 1 − (1/3) / (18/30)
    0.444444
    """
    raters = {name: place for place, name in enumerate(dict.fromkeys(str(row.get("rater")) for row in answers))}
    questions: dict[str, list[float]] = {}
    texts: dict[str, str] = {}
    for row in answers:
        picture = [row.get(key) for key in ("text", "seed", "picture")]
        for thing, answer in row["seen"].items():
            key = json.dumps([*picture, thing], default=str)
            questions.setdefault(key, [np.nan] * len(raters))[raters[str(row.get("rater"))]] = float(answer)
            texts[key] = str(row.get("text"))
    values = np.array(list(questions.values())).reshape(len(questions), len(raters))
    shared = values[(~np.isnan(values)).sum(axis=1) > 1]
    if len(np.unique(shared[~np.isnan(shared)])) < 2:
        return None
    return krippendorff(values, "nominal", how, list(texts.values()))


def recall_finding(name: str, found: Mapping[str, Recalled], how: Resampling) -> Finding:
    """The table of painters, the best first."""
    order = sorted(found.items(), key=lambda one: -one[1].recall.value)
    rows = tuple(
        (painter, per_cent(one.recall.value), between(one.recall), f"{one.answers:,}", str(one.raters), *_agreed(one))
        for painter, one in order
    )
    interval = f"{how.level:.0%} interval"
    columns = ("painter", "recall %", interval, "answers", "raters", "alpha", f"{interval} of alpha", "shared")
    marks = [
        Mark(painter, 100 * one.recall.value, 100 * one.recall.low, 100 * one.recall.high) for painter, one in order
    ]
    return Finding(
        f"{plain_name(name)}: entity recall",
        "The share of the things a text names that raters see in its picture, and Krippendorff's alpha (nominal) over "
        "the questions that several raters answered; texts are resampled.",
        (Grid("Entity recall", columns, rows),),
        (Figure(intervals({"recall": marks}, "entity recall"), "Entity recall by painter, per cent."),),
        (),
        (f"ci:{how.signature('images')}",),
        {
            "recall": {painter: asdict(one.recall) for painter, one in order},
            "agreement": {painter: asdict(one.agreement) if one.agreement else None for painter, one in order},
        },
    )


def _agreed(found: Recalled) -> tuple[str, str, str]:
    """Alpha, its interval, and over how many questions, as they are printed."""
    if found.agreement is None:
        return "not defined", "—", "—"
    one = found.agreement.estimate
    told = "—" if one.low != one.low else f"{one.low:.3f} – {one.high:.3f}"
    return f"{one.value:.3f}", told, f"{found.agreement.units:,}"
