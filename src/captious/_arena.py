"""``captious.arena``: a chat model compares the captions of systems two at a time, each pair in both orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from captious._compare import align, named_systems, system_captions
from captious._evaluate import settings_of
from captious._tournament import Tournament
from captious._typing import Floats
from captious._version import __version__
from captious.captions import CaptionSet, ImageData
from captious.errors import InputError
from captious.io.join import first_few
from captious.io.read import read
from captious.metrics.judges.dry_run import DryRun
from captious.metrics.judges.judged import PROMPTS, JudgeSetup, plan_requests, read_prompt
from captious.metrics.judges.matches import FIELDS, PROMPT, Match, Preference, ask, draw, questions
from captious.models.chat.judge import Judge, load_judge
from captious.models.chat.messages import Failure
from captious.options import Missing, Option, Reading, Resampling, Runtime, check_value, using
from captious.render import (
    Cell,
    Column,
    Document,
    Entry,
    Gallery,
    Line,
    Phrase,
    Picture,
    Result,
    Span,
    Table,
)
from captious.stats.bootstrap import Estimate, estimate
from captious.stats.pairwise import pairwise_values, win_rows
from captious.stats.resampling import cluster_sums, id_order

REPLY_TOKENS = 60
"""Length of a usual reply, for the estimate before a run."""
SHOWN = 200
"""Items on the page whose comparisons are shown; the files hold all."""


@dataclass(frozen=True, eq=False, repr=False)
class Arena(Result):
    """All comparisons, and what follows from them: win rates, strengths, and how far the judge can be trusted."""

    systems: Mapping[str, CaptionSet]
    matches: tuple[Match, ...]
    signature: str
    usage: str = ""
    """Calls, tokens, time and cost in one line."""
    resampling: Resampling = Resampling()
    blind: bool = False
    """Whether there are images that the model refused, so that it saw the references alone."""

    def __repr__(self) -> str:
        return f"<Arena of {', '.join(self.systems)}: {len(self.judged):,} of {len(self.matches):,} comparisons judged>"

    @cached_property
    def judged(self) -> list[Match]:
        """The comparisons that have a verdict."""
        return [match for match in self.matches if match.outcome is not None]

    @cached_property
    def tournament(self) -> Tournament:
        """Win rates, Elo points and sign tests of the comparisons that have a verdict."""
        from scipy.stats import binomtest

        names = list(self.systems)
        number = len(names)
        wins, ties = np.zeros((number, number)), np.zeros((number, number))
        for match in self.judged:
            one, other = self._indices(match)
            if match.outcome == "tie":
                ties[one, other] += 1
                ties[other, one] += 1
            else:
                won, lost = (one, other) if match.outcome == "first" else (other, one)
                wins[won, lost] += 1
        p_values = {}
        for (index, one_name), (place, other_name) in combinations(enumerate(names), 2):
            won, lost = int(wins[index, place]), int(wins[place, index])
            p = float(binomtest(won, won + lost).pvalue) if won + lost else 1.0 if ties[index, place] else float("nan")
            p_values[one_name, other_name] = p
        test = "exact sign test on the comparisons without a tie"
        return Tournament(tuple(names), wins, ties, self.estimates, p_values, test, self.resampling)

    def _indices(self, match: Match) -> tuple[int, int]:
        names = list(self.systems)
        return names.index(match.systems[0]), names.index(match.systems[1])

    @cached_property
    def estimates(self) -> dict[str, Estimate]:
        """Win rates, Elo points and shares by name, with intervals over resampled items."""
        names, rows = list(self.systems), self._rows()
        number = len(names) ** 2

        def statistic(weights: Floats) -> dict[str, Floats]:
            sums = weights.T @ rows
            with np.errstate(invalid="ignore", divide="ignore"):
                shares = sums[:, number::2] / sums[:, number + 1 :: 2]
            return pairwise_values(sums[:, :number], names) | {
                name: shares[:, index] for index, name in enumerate(SHARES)
            }

        return estimate(statistic, len(rows), self.resampling)

    def _rows(self) -> Floats:
        """A row per item: wins of each system over each other with ties as halves, then hits and trials of shares."""
        ids = list(dict.fromkeys(match.id for match in self.judged))
        order = {ids[index]: place for place, index in enumerate(id_order(ids))}
        scores = {"first": 1.0, "second": 0.0, "tie": 0.5}
        score = np.array([scores[match.outcome or "tie"] for match in self.judged])
        group = np.array([order[match.id] for match in self.judged], dtype=np.int64)
        first, second = np.array([self._indices(match) for match in self.judged], dtype=np.int64).reshape(-1, 2).T
        wins = win_rows(first, second, score, group, len(ids), len(self.systems))
        shares = np.array([shares_of(match) for match in self.judged]).reshape(len(self.judged), -1)
        return np.hstack([wins, cluster_sums(shares, group, len(ids))])

    def document(self) -> Document:
        """Systems by strength, every pair, what moved the judge, and the comparisons with its reasons."""
        shown = self.tournament
        return Document(
            f"{len(self.systems)} systems, {len(self.judged):,} comparisons",
            f"{', '.join(self.systems)}; each comparison is asked in both orders",
            [shown.table(), shown.chart(), shown.pairs(), self._shares(), self._verdicts(), self._gallery()],
            warnings=self._warnings(),
            notes=[self.usage] if self.usage else [],
            signatures=[self.signature],
            data=self.data(),
        )

    def _level(self) -> float | None:
        return self.resampling.level if self.resampling.samples else None

    def _shares(self) -> Table:
        trials = np.sum([[one[1] for one in shares_of(match)] for match in self.judged], axis=0)
        share = Column("per cent", decimals=1, scale=100, level=self._level(), bar=True, key="share")
        columns: list[Column | str] = [Column("verdicts", "text"), share, Column("of")]
        rows = [
            (name, replace(Cell.of(self.estimates[name]), limits=(0.0, 1.0)), int(number))
            for name, number in zip(SHARES, trials, strict=True)
        ]
        note = (
            "A verdict that changed with the order is a tie. Of verdicts that name a caption, half should be for the "
            "one shown first. The longer caption: of comparisons with a winner whose captions differ in words"
        )
        return Table("shares", "What moved the judge", columns, rows, note)

    def _verdicts(self) -> Table:
        columns = ["id", "first", "second", "better", "verdicts", "reason", "reason, swapped", "caption of the first"]
        rows = []
        for match in self.matches:
            reasons = [one.reason for one in match.opinions] or ["", ""]
            facts = match.winner or match.outcome or "none", ", ".join(match.verdicts)
            rows.append((match.id, *match.systems, *facts, *reasons, *match.captions))
        return Table("verdicts", "Comparisons", [*columns, "caption of the second"], rows, detail=True)

    def _gallery(self) -> Gallery:
        by_item: dict[str, list[Match]] = {}
        for match in self.matches:
            by_item.setdefault(match.id, []).append(match)
        note = f"the first {SHOWN} of {len(by_item):,} items; verdicts.csv has all" if len(by_item) > SHOWN else ""
        images = next(iter(self.systems.values())).images
        entries = [self._entry(by_item[key], images) for key in list(by_item)[:SHOWN]]
        return Gallery("Comparisons", entries, note, replaces="verdicts")

    def _entry(self, matches: Sequence[Match], images: Sequence[Any]) -> Entry:
        """The captions of one item, and what the judge said of every two of them."""
        captions, key = next(iter(self.systems.values())), matches[0].id
        image = images[captions.position(key)]
        texts = {name: text for match in matches for name, text in zip(match.systems, match.captions, strict=True)}
        lines = [Line(text, name) for name, text in texts.items()]
        lines += [Line(described(match), " – ".join(match.systems)) for match in matches]
        shown = isinstance(image, ImageData) or (image and Path(str(image)).is_file())
        picture = Picture(image if isinstance(image, ImageData) else str(image)) if shown else None
        return Entry(key, lines, picture, references=captions[key].references)

    def _warnings(self) -> list[str]:
        """Comparisons without a verdict, and a judge that follows the order more than the captions."""
        failed: dict[str, list[str]] = {}
        for match in self.matches:
            if match.outcome is None:
                failed.setdefault(match.failure, []).append(match.id)
        warnings = [
            f"{len(ids):,} of {len(self.matches):,} comparisons have no verdict: {reason} (id {first_few(ids)})"
            for reason, ids in sorted(failed.items(), key=lambda entry: -len(entry[1]))
        ]
        if self.blind:
            warnings.append("the model reads no images: it judged by the references alone")
        if self.estimates[CHANGED].value > 0.5:
            warnings.append(
                "most verdicts change with the order of the captions: the judge cannot tell these captions apart"
            )
        return warnings

    def data(self) -> dict[str, Any]:
        """Everything as JSON holds it."""

        def interval(name: str) -> dict[str, float]:
            one = self.estimates[name]
            return {"value": one.value, "low": one.low, "high": one.high}

        return {
            **self.tournament.data(),
            "shares": {name: interval(name) for name in SHARES},
            "comparisons": len(self.matches),
            "judged": len(self.judged),
            "unjudged": dict(Counter(match.failure for match in self.matches if match.outcome is None)),
            "signature": self.signature,
            "usage": self.usage,
            "verdicts": [
                {
                    "id": match.id,
                    "systems": match.systems,
                    "outcome": match.outcome,
                    "winner": match.winner,
                    "verdicts": match.verdicts,
                    "reasons": [one.reason for one in match.opinions],
                }
                for match in self.matches
            ],
        }


CHANGED, FIRST, LONGER = "changed with the order", "for the caption shown first", "for the longer caption"
SHARES = (CHANGED, FIRST, LONGER)
"""Shares that say what moved the judge."""


def shares_of(match: Match) -> list[tuple[float, float]]:
    """Hits and trials of a comparison in each of `SHARES`.

    >>> shares_of(Match("1", ("a", "b"), ("a dog", "dog"), (Preference("first"), Preference("second"))))
    [(0.0, 1.0), (1.0, 2.0), (1.0, 1.0)]
    """
    shown = [one.better for one in match.opinions if isinstance(one, Preference) and one.better != "tie"]
    lengths = [len(text.split()) for text in match.captions]
    decided = match.winner is not None and lengths[0] != lengths[1]
    longer = decided and (match.outcome == "first") == (lengths[0] > lengths[1])
    return [
        (float(match.changed), float(bool(match.verdicts))),
        (float(shown.count("first")), float(len(shown))),
        (float(longer), float(decided)),
    ]


def described(match: Match) -> Phrase:
    """The verdict of a comparison with the judge's reasons; both where they differ.

    >>> opinions = Preference("first", "It is full."), Preference("tie", "Same.")
    >>> str(described(Match("1", ("a", "b"), ("a dog", "dog"), opinions)))
    'tie, changed with the order · a first: a, It is full. · b first: tie, Same.'
    """
    if not match.opinions:
        return Phrase.of(Span("tie", "strong"), Span(" · equal captions, not asked", "quiet"))
    outcome = Span(match.winner or match.outcome or "no verdict", "good" if match.winner else "strong")
    if not match.changed:
        reason = match.failure or next((one.reason for one in match.opinions if one.reason), "")
        return Phrase.of(outcome, Span(f" · {reason}" if reason else "", "quiet"))
    spans = [outcome, Span(", changed with the order", "bad")]
    for name, verdict, one in zip(match.systems, match.verdicts, match.opinions, strict=True):
        better = verdict if verdict == "tie" else match.systems[verdict == "second"]
        spans.append(Span(f" · {name} first: {better}, {one.reason}", "quiet"))
    return Phrase(tuple(spans))


def arena(
    systems: Mapping[str, Any] | Sequence[Any],
    judge: str | Judge,
    resampling: Resampling = Resampling(),
    runtime: Runtime | None = None,
    progress: Callable[[str], None] | None = None,
    *,
    references: Any = None,
    images: Any = None,
    missing: Missing = "error",
    comparisons: int | None = None,
    prompt: str | Path = "",
) -> Arena:
    """Let a chat model compare the captions of every two systems, item by item.

    Both orders are asked: a system wins where both replies name it. A verdict that changes with the order is a tie.
    The judge sees the image of an item where there is one, and its references where there are some. A model that
    refuses images sees the references alone. Equal captions tie without being asked. A comparison of which a reply
    cannot be read has no verdict, and is counted.

    Parameters
    ----------
    systems, runtime, progress, references, images, missing
        As in ``compare``.
    judge
        Name of the model at the endpoint of the runtime's ``judging``, or ``local:FOLDER``.
    resampling
        How the bootstrap over items makes intervals; its seed also draws the comparisons.
    comparisons
        At most so many comparisons, drawn at random, as many of each pair of systems; without it all are made.
    prompt
        File with another prompt, with ``{evidence}``, ``{first}`` and ``{second}``.
    """
    resampling, runtime = settings_of(resampling, runtime, progress)
    with using(runtime):
        entries = _Entries.of(systems, judge, resampling, Reading(references, images, missing), comparisons, prompt)
        if progress:
            progress(f"{entries.setup.judge.model}: {len(entries.matches):,} comparisons")
        return entries.compared(resampling)


def plan_arena(
    systems: Mapping[str, Any] | Sequence[Any],
    judge: str | Judge,
    resampling: Resampling = Resampling(),
    *,
    references: Any = None,
    images: Any = None,
    missing: Missing = "error",
    comparisons: int | None = None,
    prompt: str | Path = "",
) -> DryRun:
    """What `arena` would ask with the same arguments, and what that would cost; nothing is sent."""
    entries = _Entries.of(systems, judge, resampling, Reading(references, images, missing), comparisons, prompt)
    asking = entries.setup.judge
    schema = asking.known_to_have("schema")
    asked = questions(entries.sets, entries.matches, entries.setup, schema=schema).values()
    requests = [request for both in asked if not isinstance(both, Failure) for request in both]
    plans = {(", ".join(entries.sets), f"arena(model={asking.model})"): plan_requests(asking, requests, REPLY_TOKENS)}
    failures = Counter(both.reason for both in asked if isinstance(both, Failure))
    warnings = [f"{number:,} comparisons cannot be made: {reason}" for reason, number in failures.most_common()]
    return DryRun(plans, asking.judging.prices, tuple(warnings))


@dataclass(frozen=True, eq=False)
class _Entries:
    """Who meets whom before which judge."""

    sets: Mapping[str, CaptionSet]
    setup: JudgeSetup
    matches: Sequence[Match]
    drawn: bool

    @classmethod
    def of(
        cls,
        systems: Any,
        judge: str | Judge,
        resampling: Resampling,
        reading: Reading,
        comparisons: int | None,
        prompt: str | Path,
    ) -> _Entries:
        if comparisons is not None:
            check_value("comparisons", comparisons, int, Option("", min=1))
        named = named_systems(systems)
        if len(named) < 2:
            raise InputError(f"{len(named)} system given, expected at least two to compare")
        text = read_prompt(prompt or PROMPTS / f"{PROMPT}.txt", FIELDS)
        sets = align(
            {name: read(system_captions(one), reading=reading) for name, one in named.items()}, reading.missing
        )
        _refuse_several(sets)
        setup = JudgeSetup(judge if isinstance(judge, Judge) else load_judge(judge), {PROMPT: text})
        return cls(sets, setup, draw(sets, comparisons, resampling.seed), comparisons is not None)

    def compared(self, resampling: Resampling) -> Arena:
        """Ask the judge, and give the result. Nothing is asked before this."""
        judge, first = self.setup.judge, next(iter(self.sets.values()))
        before = replace(judge.usage)
        pictures = any(image is not None for image in first.images)
        blind = pictures and not judge.can("images")
        schema = judge.can("schema")
        matches = ask(self.sets, self.matches, self.setup, images=not blind, schema=schema)
        unjudged = [match for match in matches if match.outcome is None]
        if len(unjudged) == len(matches):
            why = "the model reads no images; pass references=..." if blind else matches[0].failure
            raise InputError(f"{judge.model}: no comparison has a verdict: {why}")
        drawn = f"(seed={resampling.seed})" if self.drawn else ""
        parts = [
            *("arena", f"judge:{judge.identity}", f"prompt:{self.setup.prompt_digest}", "parse:json", "orders:both"),
            *([f"images:{'refused' if blind else 'shown'}"] if pictures else []),
            f"schema:{'followed' if schema else 'ignored'}",
            *(f"comparisons:{len(matches)}{drawn}", f"unjudged:{len(unjudged)}", f"items:{len(first)}"),
            *(f"data:{first.fingerprint:016x}"[:13], resampling.signature(), f"captious:{__version__}"),
        ]
        usage = f"{judge.model}: {judge.usage.since(before).line(judge.judging.prices)}"
        return Arena(self.sets, tuple(matches), "|".join(parts), usage, resampling, blind)


def _refuse_several(sets: Mapping[str, CaptionSet]) -> None:
    for name, captions in sets.items():
        several = np.flatnonzero(captions.candidates.counts > 1)
        if len(several):
            index = int(several[0])
            number = int(captions.candidates.counts[index])
            raise InputError(f"{name}: item {captions.ids[index]} has {number} captions, expected one to compare")
