"""Entity recall: do raters see the objects that a text names in its picture? (Table 5 of ImaginE.)

`tasks` makes a row for each picture of a gallery: the nouns of its text, to be answered with yes or no. Raters fill in
``rater`` and ``seen``; `read_answers` reads their files and `recall` scores them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.files import load_json
from captious.errors import InputError
from captious.io.formats import get_name, read_rows
from captious.io.rows import Row
from captious.options import Resampling
from captious.probes.pictures import GALLERY
from captious.probes.probe import Probe, describe_best, draw_forest
from captious.render import Cell, Column, Document, Table
from captious.render.document import Value
from captious.stats.bootstrap import Estimate
from captious.stats.rater_agreement import Alpha, krippendorff
from captious.stats.shares import compute_shares, number_clusters
from captious.syntax.objects import NOT_THINGS
from captious.syntax.tagging import tag_texts

QUESTION = "Which of these can you see in the picture?"
PICTURE = ("painter", "text", "seed", "picture")
Answers = Sequence[Mapping[str, Any]]


def find_entities(texts: Sequence[str], tagger: str = "captious") -> list[list[str]]:
    """Find the nouns of each text, once each, in order.

    >>> find_entities(["A photo of two dogs on the street and a dog."])
    [['dogs', 'street', 'dog']]
    """
    return [
        list(
            dict.fromkeys(
                token.lower()
                for sentence, tags in tagged
                for token, tag in zip(sentence.tokens, tags, strict=True)
                if tag.startswith("NN") and token.lower() not in NOT_THINGS
            )
        )
        for tagged in tag_texts(texts, tagger)
    ]


def tasks(gallery: Path, tagger: str = "captious") -> list[dict[str, Any]]:
    """List one task per picture of a gallery, with an empty ``seen`` for the rater to fill in."""
    try:
        facts = load_json(gallery / GALLERY)
        painter, pictures = facts["painter"], facts["pictures"]
        names, texts = [one["picture"] for one in pictures], [one["text"] for one in pictures]
        if not all(isinstance(one, str) for one in (painter, *names, *texts)):
            raise TypeError
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{gallery}: has no {GALLERY}, or a damaged one, expected a folder that captious make pictures wrote"
        ) from None
    texts = list(dict.fromkeys(texts))
    things = dict(zip(texts, find_entities(texts, tagger), strict=True))
    rows = [
        {
            "task": one["picture"],
            "painter": painter,
            **one,
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
    """Read the tasks that raters filled in.

    Every entity of a row answered with true or false. An unnamed rater is called as the file.
    """
    answers, first = [], dict[str, str]()
    for source in sources:
        for row in read_rows(source):
            _check_row(row)
            names = {key: str(row.fields.get(key) or get_name(source)) for key in ("painter", "rater")}
            answer = {**row.fields, **names}
            task = json.dumps([answer.get(key) for key in ("rater", *PICTURE)], default=str)
            if answer.get("picture") is not None and task in first:
                raise InputError(
                    f"{row.where}: rater {names['rater']!r} answered {answer['picture']} in {first[task]} already"
                )
            first[task] = row.where
            answers.append(answer)
    if not answers:
        raise InputError("no answers: the files contain no rows")
    return answers


def _check_row(row: Row) -> None:
    """Raise InputError unless a row answers exactly the entities that it asks about."""
    seen, asked = row.fields.get("seen"), row.fields.get("entities")
    if not isinstance(seen, Mapping) or not seen:
        raise InputError(f"{row.where}: no answers: expected seen, such as {{'dog': true, 'tree': false}}")
    for column in ("painter", "rater", "text", "picture"):
        if isinstance(row.fields.get(column), (list, dict)):
            raise InputError(f"{row.where}: {column} is {row.fields[column]!r}, expected a text")
    for thing, answer in seen.items():
        if not isinstance(answer, bool):
            raise InputError(f"{row.where}: {thing!r} is answered {answer!r}, expected true or false")
    if isinstance(asked, list) and {*map(str, asked)} != {*seen}:
        expected = ", ".join(map(repr, asked))
        raise InputError(f"{row.where}: answers for {', '.join(map(repr, seen))}, expected the entities {expected}")


@dataclass(frozen=True)
class PainterRecall:
    """The entity recall of one painter."""

    recall: Estimate
    """The share of entities seen, with an interval over texts."""
    answers: int
    raters: int
    agreement: Alpha | None
    """Krippendorff's alpha, nominal, over questions that several raters answered; None if it is not defined."""


@dataclass(frozen=True, repr=False)
class EntityRecall(Probe):
    """Entity recall by painter, the best first, and the agreement of raters."""

    unit = "texts"
    painters: Mapping[str, PainterRecall]

    def document(self) -> Document:
        """Build a row per painter."""
        numbers = (Column("answers"), Column("raters"))
        alpha = (Column("alpha", decimals=3, level=self.resampling.level), Column("shared"))
        rows: list[list[Value]] = []
        for painter, row in self.painters.items():
            agreement = (
                [Cell.of(row.agreement.estimate), row.agreement.units] if row.agreement else ["not defined", None]
            )
            rows.append([painter, Cell.of(row.recall), row.answers, row.raters, *agreement])
        table = Table("recall", "Entity recall", ("painter", self.percent("recall %"), *numbers, *alpha), rows)
        points = {"recall": [(painter, row.recall) for painter, row in self.painters.items()]}
        return Document(
            f"{self.short_name}: entity recall",
            "The share of the things a text names that raters see in its picture, and Krippendorff's alpha (nominal) "
            "over the questions that several raters answered; texts are resampled.",
            (table, draw_forest("Entity recall", points, "Entity recall by painter, percent.")),
            signatures=(f"ci:{self.interval}",),
            data={
                "recall": {painter: row.recall for painter, row in self.painters.items()},
                "agreement": {painter: row.agreement for painter, row in self.painters.items()},
            },
            answer=describe_best(
                "shows",
                "of the things that its texts name, by the raters",
                [(painter, self.share(row.recall)) for painter, row in self.painters.items()],
            ),
        )


def recall(answers: Answers, resampling: Resampling = Resampling(), name: str = "answers") -> EntityRecall:
    """Compute the share of entities seen by painter, and the agreement of raters on the same entity of the same
    picture.
    """
    painter = np.array([str(row["painter"]) for row in answers])
    names = list(dict.fromkeys(painter.tolist()))
    own = painter[:, None] == np.array(names)
    hits = own * np.array([[sum(row["seen"].values())] for row in answers], dtype=np.float64)
    trials = own * np.array([[len(row["seen"])] for row in answers], dtype=np.float64)
    texts = number_clusters([str(row.get("text")) for row in answers])
    rows = {}
    for column, estimate in enumerate(compute_shares(hits, trials, texts, resampling).estimates()):
        selected = list(compress(answers, own[:, column]))
        raters = {str(row.get("rater")) for row in selected}
        number = int(trials[:, column].sum())
        rows[names[column]] = PainterRecall(estimate, number, len(raters), measure_agreement(selected, resampling))
    best_first = sorted(rows.items(), key=lambda pair: -pair[1].recall.value)
    return EntityRecall(name, resampling, dict(best_first))


def measure_agreement(answers: Answers, resampling: Resampling) -> Alpha | None:
    """Compute Krippendorff's alpha (nominal) of yes and no; None if no question has two raters, or all answers are the
    same.

    >>> def row(rater, *seen): return {"text": "x", "rater": rater, "seen": dict(zip("abc", seen))}
    >>> alpha = measure_agreement([row("me", True, True, False), row("you", True, False, False)], Resampling(samples=0))
    >>> round(alpha.estimate.value, 6)  # one of three disagrees; 1 − (1/3) / (18/30)
    0.444444
    """
    raters = {name: column for column, name in enumerate(dict.fromkeys(str(row.get("rater")) for row in answers))}
    questions: dict[str, list[float]] = {}
    texts: dict[str, str] = {}
    for row in answers:
        picture = [row.get(key) for key in ("text", "seed", "picture")]
        for thing, answer in row["seen"].items():
            question = json.dumps([*picture, thing], default=str)
            questions.setdefault(question, [np.nan] * len(raters))[raters[str(row.get("rater"))]] = float(answer)
            texts[question] = str(row.get("text"))
    values = np.array(list(questions.values()))
    shared = values[(~np.isnan(values)).sum(axis=1) > 1]
    if len(np.unique(shared[~np.isnan(shared)])) < 2:
        return None
    return krippendorff(values, "nominal", resampling, list(texts.values()))
