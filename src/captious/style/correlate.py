"""The paper's Table 4: OnlyStyle against people's rankings of captions by style."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, NamedTuple

import numpy as np

from captious.errors import InputError
from captious.measurement import Floats
from captious.readers.rows import name_of, rows_of
from captious.style.cng import StyleModel
from captious.style.only import own_scores
from captious.style.placed import Placed


class Agreement(NamedTuple):
    """One style: its captions, people's most common ranking (higher is closer to the style), and both correlations."""

    style: str
    captions: tuple[str, ...]
    ranking: tuple[float, ...]
    raters: int
    scores: tuple[float, ...]
    pearson: float
    spearman: float


def correlate(model: StyleModel, source: Any) -> list[Agreement]:
    """Correlations per style of rows (style, caption, rank, and rater where there are several).

    As in the paper, rank 1 is the worst association, and the ranking that most raters gave stands for people; of
    equally common ones the one given first.
    """
    rankings: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows_of(source):
        for column in ("style", "caption", "rank"):
            if column not in row.fields:
                found = ", ".join(map(str, row.fields))
                raise InputError(f"{row.where}: no {column}: found columns {found}, expected style, caption, rank")
        style, caption = str(row.fields["style"]), str(row.fields["caption"])
        model.style_number(style, row.where)
        try:
            rank = float(row.fields["rank"])
        except (TypeError, ValueError):
            raise InputError(f"{row.where}: rank is {row.fields['rank']!r}, expected a number") from None
        given = rankings[style][str(row.fields.get("rater", ""))]
        if caption in given:
            raise InputError(f"{row.where}: caption {caption!r} is ranked twice; name the raters in a column 'rater'")
        given[caption] = rank
    return [_agreement(model, name_of(source), style, raters) for style, raters in rankings.items()]


def _agreement(model: StyleModel, name: str, style: str, raters: dict[str, dict[str, float]]) -> Agreement:
    captions = tuple(dict.fromkeys(caption for given in raters.values() for caption in given))
    for rater, given in raters.items():
        if missing := [caption for caption in captions if caption not in given]:
            raise InputError(f"{name}: rater {rater!r} gives {missing[0]!r} no rank for {style!r}, others do")
    votes = Counter(tuple(given[caption] for caption in captions) for given in raters.values())
    ranking, _ = votes.most_common(1)[0]
    scores = own_scores(Placed.of(model, captions), np.full(len(captions), model.style_number(style)))
    people = np.array(ranking)
    return Agreement(
        style,
        captions,
        ranking,
        len(raters),
        tuple(scores.tolist()),
        pearson(people, scores),
        pearson(ranks(people), ranks(scores)),
    )


def pearson(one: Floats, other: Floats) -> float:
    """Pearson's correlation; NaN where either side is constant.

    >>> round(pearson(np.array([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 3.0])), 6)
    0.5
    """
    a, b = one - one.mean(), other - other.mean()
    below = float(np.sqrt((a @ a) * (b @ b)))
    constant = np.ptp(one) == 0 or np.ptp(other) == 0
    return float("nan") if constant or not below else float(a @ b) / below


def ranks(values: Floats) -> Floats:
    """Ranks from 1, equal values sharing the mean of theirs.

    >>> ranks(np.array([5.0, 1.0, 5.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, place, number = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(number)
    result: Floats = ((last - number + 1 + last) / 2)[place]
    return result
