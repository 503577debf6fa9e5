"""OnlyStyle against people's rankings of captions by closeness to a style: Table 4 of Li and Harrison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from captious.errors import InputError
from captious.io.formats import get_name, read_rows
from captious.io.rows import Row
from captious.metrics.style.model import StyleModel
from captious.metrics.style.onlystyle import ModelNgrams, score_own_styles
from captious.render import Answer, Column, Document, Figure, Result, Section, Table
from captious.render.document import Value
from captious.stats.correlation import pearson, spearman

# The rank of each caption.
Ranks = dict[str, float]


class RankedSet(NamedTuple):
    """Captions ranked together: people's most common ranking (higher is closer to the style), and both correlations."""

    set: str
    captions: tuple[str, ...]
    ranking: tuple[float, ...]
    raters: tuple[str, ...]
    scores: tuple[float, ...]
    pearson: float
    spearman: float


@dataclass(frozen=True)
class StyleCorrelation:
    """One style: the means of its sets' correlations; sets without one are left out of them."""

    style: str
    sets: tuple[RankedSet, ...]
    raters: int
    pearson: float
    spearman: float

    @property
    def captions(self) -> int:
        """Ranked captions of all sets."""
        return sum(len(one.captions) for one in self.sets)


@dataclass(frozen=True, eq=False, repr=False)
class StyleAgreement(Result):
    """OnlyStyle against people's rankings, style by style."""

    model: StyleModel
    styles: tuple[StyleCorrelation, ...]

    def __repr__(self) -> str:
        return f"<StyleAgreement of {', '.join(row.style for row in self.styles)}>"

    def document(self) -> Document:
        """Build a row per style, as in the paper's Table 4; if a style has several sets, they follow one by one."""
        title = "OnlyStyle against people's rankings"
        several = any(len(row.sets) > 1 for row in self.styles)
        correlations = [Column("Pearson", decimals=3), Column("Spearman", decimals=3)]
        rows: list[Sequence[Value]] = [
            (row.style, *([len(row.sets)] * several), row.captions, row.raters, row.pearson, row.spearman)
            for row in self.styles
        ]
        sets = [Column("sets")] * several
        columns: list[Column | str] = ["style", *sets, Column("captions"), Column("raters"), *correlations]
        sections: list[Section] = [Table("styles", title, columns, rows, self._format_note() if several else "")]
        if several:
            each: list[Sequence[Value]] = [
                (row.style, one.set, len(one.captions), len(one.raters), one.pearson, one.spearman)
                for row in self.styles
                for one in row.sets
            ]
            columns = ["style", "set", Column("captions"), Column("raters"), *correlations]
            sections.append(Table("sets", "Each set", columns, each, detail=True))
        return Document(
            title,
            sections=sections,
            signatures=[self.model.signature],
            data={
                "styles": [
                    {
                        "style": row.style,
                        "sets": [one._asdict() for one in row.sets],
                        "captions": row.captions,
                        "raters": row.raters,
                        "pearson": row.pearson,
                        "spearman": row.spearman,
                    }
                    for row in self.styles
                ]
            },
            answer=self._answer(correlations[1]),
        )

    def _answer(self, column: Column) -> Answer:
        """Return the plain answer: how alike OnlyStyle and people rank the captions of the styles."""
        known = [row for row in self.styles if not np.isnan(row.spearman)]
        if not known:
            return "No correlation can be computed: the ranks or the scores are all equal."
        low, high = (choose(known, key=lambda row: row.spearman) for choose in (min, max))
        if low is high:
            return [
                f"OnlyStyle and people rank the {low.style} captions with a Spearman correlation of ",
                Figure(low.spearman, column),
                f" ({low.captions:,} captions; no interval).",
            ]
        return [
            "OnlyStyle and people rank captions with Spearman correlations from ",
            Figure(low.spearman, column),
            f" ({low.style}) to ",
            Figure(high.spearman, column),
            f" ({high.style}), over {len(known)} styles.",
        ]

    def _format_note(self) -> str:
        note = "The correlations of a style are the means of those of its sets."
        constant = sum(np.isnan(one.pearson) for row in self.styles for one in row.sets)
        return f"{note} Left out: {constant:,} whose ranks or scores are all equal." if constant else note


def correlate(model: StyleModel, source: Any) -> StyleAgreement:
    """Compute correlations per style of rows: style, caption, rank; rater and set if there are several.

    As in the paper, rank 1 is the worst association, and the human ranking of a set is the one that most raters gave;
    of equally common ones the one given first. Ranks of different sets cannot be compared, so a style has the mean of
    its sets' correlations.
    """
    rankings: dict[tuple[str, str], dict[str, Ranks]] = {}
    for row in read_rows(source):
        _check_row(row)
        style, caption, rank = str(row.fields["style"]), str(row.fields["caption"]), _parse_rank(row)
        model.find_style(style, row.where)
        key = (style, "" if row.fields.get("set") is None else str(row.fields["set"]))
        ranks = rankings.setdefault(key, {}).setdefault(str(row.fields.get("rater", "")), {})
        if caption in ranks:
            raise InputError(
                f"{row.where}: caption {caption!r} is ranked twice; name the raters in a column 'rater', and the sets "
                "of a style in a column 'set'"
            )
        ranks[caption] = rank
    if not rankings:
        raise InputError(f"{get_name(source)}: contains no rankings")
    sets: dict[str, list[RankedSet]] = {}
    for (style, name), raters in rankings.items():
        sets.setdefault(style, []).append(_correlate_set(model, get_name(source), style, name, raters))
    return StyleAgreement(model, tuple(_average_sets(style, several) for style, several in sets.items()))


def _check_row(row: Row) -> None:
    for column in ("style", "caption", "rank"):
        if column not in row.fields:
            columns = ", ".join(map(str, row.fields)) or "none"
            raise InputError(f"{row.where}: no {column}: found columns {columns}, expected style, caption, rank")
        if row.fields[column] is None:
            raise InputError(f"{row.where}: {column} is None, expected a text or a number")
    for column in ("style", "caption", "rank", "set"):
        if isinstance(row.fields.get(column), (list, dict, bool)):
            raise InputError(f"{row.where}: {column} is {row.fields[column]!r}, expected a text or a number")
    if not str(row.fields["caption"]).strip():
        raise InputError(f"{row.where}: caption is empty, expected words to rank")


def _parse_rank(row: Row) -> float:
    try:
        rank = float(row.fields["rank"])
        if not np.isfinite(rank):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{row.where}: rank is {row.fields['rank']!r}, expected a number") from None
    return rank


def _correlate_set(model: StyleModel, source: str, style: str, name: str, raters: dict[str, Ranks]) -> RankedSet:
    captions = tuple(dict.fromkeys(caption for ranks in raters.values() for caption in ranks))
    for rater, ranks in raters.items():
        if missing := [caption for caption in captions if caption not in ranks]:
            where = f"{style!r}, set {name!r}" if name else repr(style)
            raise InputError(f"{source}: rater {rater!r} gives {missing[0]!r} no rank for {where}, others do")
    votes = Counter(tuple(ranks[caption] for caption in captions) for ranks in raters.values())
    ranking, _ = votes.most_common(1)[0]
    scores = score_own_styles(ModelNgrams.of(model, captions), np.full(len(captions), model.find_style(style)))
    people = np.array(ranking)
    correlations = pearson(people, scores), spearman(people, scores)
    return RankedSet(name, captions, ranking, tuple(raters), tuple(scores.tolist()), *correlations)


def _average_sets(style: str, sets: list[RankedSet]) -> StyleCorrelation:
    raters = {rater for one in sets for rater in one.raters}
    defined = [one for one in sets if not np.isnan(one.pearson)]
    means = (
        float(np.mean([getattr(one, name) for one in defined])) if defined else float("nan")
        for name in ("pearson", "spearman")
    )
    return StyleCorrelation(style, tuple(sets), len(raters), *means)
