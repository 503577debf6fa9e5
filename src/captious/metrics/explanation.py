"""Explanations of single scores: parts that add up to the value, and the words that they stand for.

`Metric.explain` makes an `Explanation`: the value of the item and a `Breakdown` into n-grams, tuples or matched words,
each with what it adds. The parts always add up to the value. If a metric is not a sum (BLEU's geometric mean, the
F-scores of METEOR and ROUGE), a part adds its amount times the derivative of the score. The score doubles when all
amounts double, so these products add up to it (Euler's theorem on homogeneous functions).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from captious.metrics.registry import find_key
from captious.render import Column, Document, Graph, Phrase, Result, Section, Span, Table, Text
from captious.render.answers import join_names
from captious.render.document import Tone, Value
from captious.render.exports import get_columns as table_columns

# Default number of parts in the table; JSON has all.
SHOWN = 10
# Number of parts that the line of the sum spells out.
SUMMANDS = 4
# Smaller values, such as a BLEU without a match of some order, are printed as 1.2e-05.
TINY = 0.001
ADDS = Column("adds", signed=True, bar=True)
# Name of the column with a judge's verdict on a part.
VERDICT = "verdict"
VERDICTS: Mapping[str, Tone] = {
    "true": "good", "right": "good", "accepted": "good", "false": "bad", "wrong": "bad", "rejected": "bad",
    "unknown": "unsure", "not read": "quiet", "not mentioned": "unsure", "cannot": "unsure",
    "not counted": "unsure", "contradicted": "bad", "entailment": "good", "neutral": "unsure", "contradiction": "bad",
}  # fmt: skip
# The sign behind a marked run of words, by its tone.
MARKS = {"good": "✓", "bad": "✗", "unsure": "?"}
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


class Contribution(NamedTuple):
    """A part of the score, such as an n-gram, and what it adds to the value of the item."""

    name: str
    adds: float
    candidate: int | None = 0
    """Index of the candidate that contains it, among those of the item; None if it belongs to all."""
    details: Mapping[str, Any] = {}
    """Further facts by the keys of the breakdown's columns; those without a column are only in JSON."""


class MarkedText(NamedTuple):
    """A caption as the metric reads it, with the words that count marked."""

    label: str
    words: Sequence[str]
    groups: Sequence[int] = ()
    """The number of the matched run of each word; 0 if it matches nothing."""
    numbered: bool = False
    """Whether the numbers are shown, since a run of another text has the same."""
    weights: Sequence[float] = ()
    """The part of the score of each word, if words have one."""
    verdicts: Mapping[int, str] = {}
    """The verdict on each run: right, wrong, unknown, … The words are then pieces of the text itself."""

    @classmethod
    def of(cls, label: str, text: str, runs: Sequence[tuple[int, int, str]]) -> MarkedText:
        """Mark runs of characters (start, stop, verdict) of a text; runs are in order and do not overlap.

        >>> str(MarkedText.of("candidate", "A dog and a cup.", [(2, 5, "right"), (12, 15, "wrong")]).phrase)
        'candidate: A [dog]✓ and a [cup]✗.'
        """
        words, groups, end = list[str](), list[int](), 0
        for number, (start, stop, _) in enumerate(runs, 1):
            for piece, group in ((text[end:start], 0), (text[start:stop], number)):
                if piece:
                    words.append(piece)
                    groups.append(group)
            end = stop
        if text[end:]:
            words.append(text[end:])
            groups.append(0)
        verdicts = {number: verdict for number, (_, _, verdict) in enumerate(runs, 1)}
        return cls(label, words, groups, verdicts=verdicts or {0: ""})

    @property
    def phrase(self) -> Phrase:
        """The label and the words: matched runs in brackets, or words colored by what they add."""
        spans = [Span(f"{self.label}: ", "quiet")]
        if self.weights:
            most = max(map(abs, self.weights)) or 1.0
            pairs = zip(self.words, self.weights, strict=True)
            spans += [Span(f"{word} ", "good" if part >= 0 else "bad", abs(part) / most) for word, part in pairs]
        elif self.verdicts:
            pieces = zip(self.words, self.groups, strict=True)
            spans += [_mark_verdict(word, self.verdicts.get(group, "")) for word, group in pieces]
        else:
            spans += self._split_runs()
        return Phrase(tuple(spans))

    def _split_runs(self) -> Iterator[Span]:
        groups = self.groups or [0] * len(self.words)
        for group, members in groupby(zip(groups, self.words, strict=True), key=itemgetter(0)):
            text = " ".join(word for _, word in members)
            if group:
                mark = str(group).translate(_SUBSCRIPTS) if self.numbered else ""
                yield Span(f"[{text}]{mark}", "good")
                yield Span(" ")
            else:
                yield Span(f"{text} ")

    def data(self) -> dict[str, Any]:
        """Return the text as a JSON object."""
        verdicts = [self.verdicts.get(group, "") for group in self.groups] if self.verdicts else []
        parts = {"groups": list(self.groups), "weights": list(self.weights), "verdicts": verdicts}
        return {"label": self.label, "words": list(self.words), **{key: part for key, part in parts.items() if part}}


@dataclass(frozen=True, eq=False)
class Breakdown:
    """The parts of a value, which add up to it, and what helps to read them."""

    parts: Sequence[Contribution]
    unit: str = "n-gram"
    """The noun for a part."""
    heading: str = ""
    """The heading of the column of their names; without it the unit."""
    columns: Sequence[Column] = ()
    """The columns of the parts' details, by their keys."""
    texts: Sequence[MarkedText] = ()
    formula: str = ""
    """How the value is computed, with the numbers of the item."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """Numbers of the formula by name, such as precision and brevity penalty."""
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    """Further remarks, such as words that a model does not know."""
    graphs: Sequence[Graph] = ()
    """Drawings that show the parts on the page, in place of their table."""
    shown: int | None = SHOWN
    """Parts that the table shows; None for all."""
    ordered: bool = False
    """Whether the order of the parts has a meaning, such as that of the caption; otherwise the largest is first."""
    penalties: Sequence[Contribution] = ()
    """Parts that are taken off at the end, whatever their size."""
    summary: str = ""
    """A summary in one line, for a page on which details are closed."""


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Result):
    """The explanation of an item's value. ``sum(part.adds for part in explanation.parts)`` is the value."""

    metric: str
    """The written form."""
    label: str
    id: str
    value: float
    """NaN if there is a ``reason``."""
    breakdown: Breakdown
    reason: str = ""
    signature: str = ""

    def __repr__(self) -> str:
        return f"<Explanation {self.title}: {len(self.parts)} parts>"

    @property
    def title(self) -> str:
        """The label, the value and the id."""
        return f"{self.label} {'has no value' if math.isnan(self.value) else _format_value(self.value)} of {self.id}"

    @property
    def parts(self) -> Sequence[Contribution]:
        """The parts of the value, the largest first unless their order has a meaning; then the penalties."""
        parts = self.breakdown.parts
        if not self.breakdown.ordered:
            parts = sorted(parts, key=lambda part: -abs(part.adds))
        return [*parts, *self.breakdown.penalties]

    def document(self) -> Document:
        """Return a document: the captions with the matched words marked, the largest parts, and their sum."""
        return Document(
            self.title,
            sections=self.sections(),
            signatures=[self.signature] if self.signature else [],
            data=self.data(),
            name="explanation",
            answer=self.answer,
        )

    @property
    def answer(self) -> str:
        """The plain answer: the largest parts of the value, and what lowers it most."""
        if self.reason:
            return f"{self.label} of {self.id} has no value: {self.reason}."
        added = sorted((part for part in self.breakdown.parts if part.adds > 0), key=lambda part: -part.adds)
        lost = sorted((part for part in self.parts if part.adds < 0), key=lambda part: part.adds)
        value = f"{self.label} of {self.id} is {_format_value(self.value)}"
        if not added and not lost:
            return f"{value}: nothing adds to it."
        unit, number = self.breakdown.unit, len(added)
        parts = []
        if added:
            names = join_names([f"“{part.name}” ({_format_value(part.adds)})" for part in added[:SUMMANDS]])
            plural = "es" if unit.endswith("ch") else "s"
            parts.append(
                f"{number} {unit}{plural if number != 1 else ''} add{'s' * (number == 1)} to it, most of all {names}"
            )
        if lost:
            parts.append(f"{lost[0].name} lowers it most ({_format_value(lost[0].adds)})")
        return f"{value}: {'; '.join(parts)}."

    def sections(self) -> list[Section]:
        """Return the sections of the document."""
        breakdown = self.breakdown
        if self.reason:
            return [Text([f"no value: {self.reason}", *breakdown.notes])]
        sections: list[Section] = []
        if breakdown.texts:
            sections.append(Text([text.phrase for text in breakdown.texts]))
        if self.parts:
            sections.append(self._build_table())
            sections += [replace(graph, replaces="parts") for graph in breakdown.graphs]
        sections += breakdown.tables
        lines = [self._format_sum(), breakdown.formula, *breakdown.notes]
        return [*sections, Text([line for line in lines if line])]

    def _build_table(self) -> Table:
        breakdown, parts = self.breakdown, self.parts
        several = any(part.candidate for part in parts)
        name = Column(breakdown.heading or breakdown.unit, "text", key="name")
        tiny = self._tiny
        adds = replace(ADDS, decimals=None) if tiny else ADDS
        columns: list[Column | str] = [name, adds, *breakdown.columns]
        rows: list[Sequence[Value]] = []
        most = len(parts) if breakdown.shown is None else breakdown.shown
        for part in [*parts[: len(breakdown.parts)][:most], *breakdown.penalties]:
            details = [
                _color_verdict(column, part.details.get(column.key or column.name)) for column in breakdown.columns
            ]
            amount = float(f"{part.adds:.1e}") if tiny else part.adds
            candidate = None if part.candidate is None else part.candidate + 1
            rows.append((part.name, amount, *details, *([candidate] if several else [])))
        if several:
            columns.append(Column("candidate"))
        return Table("parts", f"What each {breakdown.unit} adds", columns, rows)

    def _format_sum(self) -> str:
        """Format the sum of the parts, with the largest ones spelled out."""
        parts = [part.adds for part in self.parts[: len(self.breakdown.parts)] if part.adds]
        if not parts:
            return f"nothing adds to the score: {self.label} = {self.value:.4f}"
        spelled = len(parts) if len(parts) == SUMMANDS + 1 else SUMMANDS  # "1 more" is no shorter than the number
        first, rest = parts[:spelled], parts[spelled:]
        digits = ".1e" if self._tiny else ".4f"
        terms = [f"{first[0]:{digits}}", *(_format_signed(adds, digits) for adds in first[1:])]
        if rest:
            unit = self.breakdown.unit
            plural = "es" if unit.endswith("ch") else "s"
            terms.append(f"{_format_signed(sum(rest), digits)} ({len(rest)} more {unit}{plural})")
        terms += [f"{_format_signed(part.adds, digits)} ({part.name})" for part in self.breakdown.penalties]
        return f"sum: {' '.join(terms)} = {self.value:{digits}}"

    @property
    def _tiny(self) -> bool:
        """Whether four decimals would show the value as almost 0."""
        return 0 < abs(self.value) < TINY

    def data(self) -> dict[str, Any]:
        """Return everything as a JSON object: all parts, the marked texts, the numbers of the formula."""
        breakdown = self.breakdown
        return {
            "id": self.id,
            "metric": self.metric,
            "label": self.label,
            "value": self.value,
            "reason": self.reason or None,
            "unit": breakdown.unit,
            "parts": [
                {"name": part.name, "adds": part.adds, "candidate": part.candidate, **part.details}
                for part in self.parts
            ],
            "texts": [text.data() for text in breakdown.texts],
            "formula": breakdown.formula,
            "factors": dict(breakdown.factors),
            "tables": {table.key: table_columns(table) for table in breakdown.tables},
            "notes": list(breakdown.notes),
            "signature": self.signature,
        }


def label_candidates(number: int) -> list[str]:
    """Return a label for each candidate of an item.

    >>> label_candidates(1), label_candidates(2)
    (['candidate'], ['candidate 1', 'candidate 2'])
    """
    return ["candidate"] if number == 1 else [f"candidate {rank}" for rank in range(1, number + 1)]


def _color_verdict(column: Column, value: Any) -> Value:
    """Return a cell of the table of parts; a verdict gets its color."""
    tone = VERDICTS.get(value) if column.name == VERDICT else None
    return Phrase((Span(value, tone),)) if tone else value


def _mark_verdict(text: str, verdict: str) -> Span:
    """Put a piece of text in brackets with the mark of its verdict; return it unchanged if there is no mark."""
    tone = VERDICTS.get(verdict, "")
    return Span(f"[{text}]{MARKS[tone]}" if tone in MARKS else text, tone)


def _format_signed(adds: float, digits: str) -> str:
    return f"{'−' if adds < 0 else '+'} {abs(adds):{digits}}"


def _format_value(value: float) -> str:
    return f"{value:.1e}" if 0 < abs(value) < TINY else f"{value:.4f}"


@dataclass(frozen=True, eq=False, repr=False)
class Explanations(Result):
    """Explanations of one item under several metrics; by written form or label: ``explanations["cider"]``."""

    id: str
    explanations: Sequence[Explanation]
    unexplained: Sequence[str] = ()
    """Labels of metrics that do not explain their values."""
    remarks: Sequence[str] = ()
    """The reasons why other metrics are not explained, such as a judge whose replies are not stored here."""

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.explanations)

    def __len__(self) -> int:
        return len(self.explanations)

    def __getitem__(self, key: str) -> Explanation:
        by_metric = {one.metric: one for one in self.explanations}
        return by_metric[find_key(key, {one.metric: one.label for one in self.explanations}, "explanations")]

    def __repr__(self) -> str:
        return f"<Explanations of {self.id}: {', '.join(one.label for one in self.explanations)}>"

    def document(self) -> Document:
        """Return a document: the explanations, which of them another one contains, and the metrics without one."""
        sections: list[Section] = []
        higher = {one.label: self._find_higher_order(one) for one in self.explanations}
        for place, one in enumerate((one for one in self.explanations if not higher[one.label]), 1):
            sections.append(Text([], title=one.title))
            sections += [_rename_section(section, f"-{place}" if place > 1 else "") for section in one.sections()]
        notes = []
        for other in dict.fromkeys(filter(None, higher.values())):
            same = [one for one in self.explanations if higher[one.label] == other]
            labels = ", ".join(f"{one.label} {_format_value(one.value)}" for one in same)
            notes.append(f"{labels}: the same {same[0].breakdown.unit}s are in {other}")
        if self.unexplained:
            verb = "does" if len(self.unexplained) == 1 else "do"
            notes.append(f"{', '.join(self.unexplained)} {verb} not explain single values")
        notes += self.remarks
        return Document(
            f"{self.id}: why these scores",
            sections=sections,
            notes=notes,
            signatures=[one.signature for one in self.explanations if one.signature],
            data=self.data(),
            name="explanation",
            answer=self.answer,
        )

    @property
    def answer(self) -> str:
        """The plain answer: that of CIDEr-D if it is explained, otherwise of the last metric, which has most parts."""
        main = next((one for one in self.explanations if one.metric.startswith("cider")), None)
        chosen = main or next(reversed(self.explanations), None)
        return chosen.answer if chosen else ""

    def _find_higher_order(self, one: Explanation) -> str:
        """Return the label of the last explanation of another order or value that has all parts of this one.

        BLEU-4 has the n-grams of BLEU-1 and CHAIR_I the mentions of CHAIR_S, so both need not be printed. Return "" if
        there is no such explanation.
        """
        names, own = {part.name for part in one.parts}, _strip_variant(one.metric)
        for other in reversed(self.explanations):
            if other is one or one.reason:
                return ""
            if _strip_variant(other.metric) == own and names <= {part.name for part in other.parts}:
                return other.label
        return ""

    def data(self) -> dict[str, Any]:
        """Return the data of every explanation."""
        return {
            "id": self.id,
            "metrics": [one.data() for one in self.explanations],
            "unexplained": list(self.unexplained),
        }


def _strip_variant(metric: str) -> str:
    """Remove the order and the value, in which variants of one metric differ, from a written form.

    >>> _strip_variant("bleu(n=4)") == _strip_variant("bleu(n=2)"), _strip_variant("chair(value=s,lemmas=spacy)")
    (True, 'chair(,lemmas=spacy)')
    """
    return re.sub(r"\b(?:n=\d+|value=\w+)", "", metric)


def _rename_section(section: Section, suffix: str) -> Section:
    """Give the table of a section a unique key, and no title: its headings say enough."""
    if isinstance(section, Table):
        return replace(section, key=f"{section.key}{suffix}", title="")
    return replace(section, replaces=f"{section.replaces}{suffix}") if isinstance(section, Graph) else section
