"""``captious.arena``: a chat model compares the captions of systems two at a time, each pair in both orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from captious._typing import Floats
from captious._version import __version__
from captious.captions import CaptionSet, ImageData
from captious.comparison import align, named_systems
from captious.errors import InputError
from captious.evaluation import first_few, settings_of
from captious.io.read import read
from captious.metrics.judges.judged import PROMPTS, Bench, json_object, listed, read_prompt, shortened
from captious.models.chat.judge import Judge, ask_and_parse, load_judge
from captious.models.chat.messages import Failure, Reply, Request, Turn
from captious.options import Missing, Option, Reading, Resampling, Runtime, check_value, using
from captious.render import (
    Cell,
    Chart,
    Column,
    Document,
    Entry,
    Gallery,
    Line,
    Phrase,
    Picture,
    Result,
    Section,
    Series,
    Span,
    Table,
)
from captious.render.document import Value
from captious.stats.bootstrap import Estimate, estimate
from captious.stats.pairwise import ELO_CENTER, bradley_terry, elo
from captious.stats.resampling import holm, id_order

Outcome = Literal["first", "second", "tie"]
SWAPPED: Mapping[Outcome, Outcome] = {"first": "second", "second": "first", "tie": "tie"}
WORDS: Mapping[str, Outcome] = {
    "first": "first", "second": "second", "tie": "tie", "1": "first", "2": "second", "neither": "tie", "both": "tie",
}  # fmt: skip
"""How a judge may call the better caption."""
FIELDS = ("evidence", "first", "second")
"""What a prompt must have in braces."""
PRIOR = 0.5
"""Wins that each side of a pair of systems has to begin with, so that one that always wins has a finite strength."""
SHOWN = 200
"""Comparisons on the page; the files hold all."""


@dataclass(frozen=True)
class Opinion:
    """What the judge said of two captions in one order."""

    better: Outcome
    """Of the captions as they were shown."""
    reason: str = ""


@dataclass(frozen=True)
class Match:
    """The captions of two systems for one item, and what the judge said of them."""

    id: str
    systems: tuple[str, str]
    captions: tuple[str, str]
    opinions: tuple[Opinion | Failure, ...] = ()
    """With the captions in this order, and in the other; empty where they are equal and nothing was asked."""

    @property
    def verdicts(self) -> list[Outcome]:
        """Both opinions, in terms of ``systems``; empty where one of them is missing."""
        (*own, swapped) = self.opinions or (None,)
        if not isinstance(swapped, Opinion) or not isinstance(own[0], Opinion):
            return []
        return [own[0].better, SWAPPED[swapped.better]]

    @property
    def outcome(self) -> Outcome | None:
        """Which system is better. A verdict that changes with the order is a tie; None where there is none."""
        if not self.opinions:
            return "tie"
        verdicts = self.verdicts
        return None if not verdicts else verdicts[0] if verdicts[0] == verdicts[1] else "tie"

    @property
    def changed(self) -> bool:
        """Whether the verdict changed with the order."""
        return len(set(self.verdicts)) == 2

    @property
    def winner(self) -> str | None:
        """The name of the better system; None for a tie and where there is no verdict."""
        return None if self.outcome in (None, "tie") else self.systems[self.outcome == "second"]

    @property
    def failure(self) -> str:
        """Why there is no verdict."""
        return next((one.reason for one in self.opinions if isinstance(one, Failure)), "")


@dataclass(frozen=True, eq=False, repr=False)
class Arena(Result):
    """All comparisons, and what follows from them: win rates, strengths, and how far the judge can be trusted."""

    systems: Mapping[str, CaptionSet]
    matches: tuple[Match, ...]
    signature: str
    usage: str = ""
    """Calls, tokens, time and cost in one line."""
    resampling: Resampling = Resampling()

    def __repr__(self) -> str:
        return f"<Arena of {', '.join(self.systems)}: {len(self.judged):,} of {len(self.matches):,} comparisons judged>"

    @cached_property
    def judged(self) -> list[Match]:
        """The comparisons that have a verdict."""
        return [match for match in self.matches if match.outcome is not None]

    @cached_property
    def counts(self) -> Floats:
        """How often each system won against each other, without ties."""
        counts = np.zeros((len(self.systems), len(self.systems)))
        for match in self.judged:
            if match.winner is not None:
                won, lost = self._indices(match)[:: 1 if match.outcome == "first" else -1]
                counts[won, lost] += 1
        return counts

    @cached_property
    def ties(self) -> Floats:
        """How often each pair of systems tied."""
        ties = np.zeros_like(self.counts)
        for match in self.judged:
            if match.outcome == "tie":
                one, other = self._indices(match)
                ties[one, other] += 1
                ties[other, one] += 1
        return ties

    def _indices(self, match: Match) -> tuple[int, int]:
        names = list(self.systems)
        return names.index(match.systems[0]), names.index(match.systems[1])

    @cached_property
    def estimates(self) -> dict[str, Estimate]:
        """Win rates, Elo points and shares by name, with intervals over resampled items."""
        number, rows = len(self.systems), self._rows()

        def statistic(weights: Floats) -> dict[str, Floats]:
            sums = weights.T @ rows
            wins = sums[:, : number**2].reshape(-1, number, number)
            games = wins + np.swapaxes(wins, 1, 2)
            with np.errstate(invalid="ignore", divide="ignore"):
                rates, pairs = wins.sum(axis=2) / games.sum(axis=2), wins / games
                shares = sums[:, number**2 :: 2] / sums[:, number**2 + 1 :: 2]
            points = elo(bradley_terry(wins, PRIOR))
            values = {name: rates[:, index] for index, name in enumerate(map(rate_of, self.systems))}
            values |= {name: points[:, index] for index, name in enumerate(map(elo_of, self.systems))}
            values |= {
                rate_of(one, other): pairs[:, first, second]
                for (first, one), (second, other) in combinations(enumerate(self.systems), 2)
            }
            return values | {name: shares[:, index] for index, name in enumerate(SHARES)}

        return estimate(statistic, len(rows), self.resampling)

    def _rows(self) -> Floats:
        """For each item: wins of each system against each other with ties as halves, then hits and trials of shares."""
        ids = list(dict.fromkeys(match.id for match in self.judged))
        order = {ids[index]: place for place, index in enumerate(id_order(ids))}
        number = len(self.systems)
        rows = np.zeros((len(ids), number**2 + 2 * len(SHARES)))
        for match in self.judged:
            row, (one, other) = rows[order[match.id]], self._indices(match)
            won = {"first": 1.0, "second": 0.0, "tie": 0.5}[match.outcome or "tie"]
            row[one * number + other] += won
            row[other * number + one] += 1 - won
            for place, (hits, trials) in enumerate(shares_of(match)):
                row[number**2 + 2 * place : number**2 + 2 * place + 2] += hits, trials
        return rows

    def document(self) -> Document:
        """Systems by strength, every pair, what moved the judge, and the comparisons with its reasons."""
        return Document(
            f"{len(self.systems)} systems, {len(self.judged):,} comparisons",
            f"{', '.join(self.systems)}; each comparison is asked in both orders",
            [self._table(), self._chart(), self._pairs(), self._shares(), self._verdicts(), self._gallery()],
            warnings=self._warnings(),
            notes=[self.usage] if self.usage else [],
            signatures=[self.signature],
            data=self.data(),
        )

    def _level(self) -> float | None:
        return self.resampling.level if self.resampling.samples else None

    def _ranked(self) -> list[str]:
        """Names of the systems, the strongest first."""
        return sorted(self.systems, key=lambda name: -np.nan_to_num(self.estimates[elo_of(name)].value, nan=-np.inf))

    def _table(self) -> Table:
        names = list(self.systems)
        columns: list[Column | str] = ["system", Column("Elo", decimals=0, level=self._level(), bold=True, bar=True)]
        columns += [Column("win rate", decimals=1, scale=100, unit="%", spread="half", higher_is_better=True, bar=True)]
        columns += [Column("wins"), Column("ties"), Column("losses"), Column("win − loss", signed=True)]
        rows: list[Sequence[Value]] = []
        for name in self._ranked():
            index = names.index(name)
            won, lost = int(self.counts[index].sum()), int(self.counts[:, index].sum())
            points, rate = self.estimates[elo_of(name)], self.estimates[rate_of(name)]
            numbers = won, int(self.ties[index].sum()), lost, won - lost
            rows.append((name, Cell.of(points), Cell.of(rate), *numbers))
        half = f" ± is half of the {100 * self.resampling.level:.4g}% interval." if self.resampling.samples else ""
        note = (
            f"Elo: Bradley–Terry strengths, 400 points are odds of 10 to 1, the mean of the systems is {ELO_CENTER:.0f}; "
            f"each pair starts with half a win for either side. A tie is half a win in the win rate.{half}"
        )
        return Table("systems", "Systems", columns, rows, note)

    def _chart(self) -> Section:
        names = self._ranked()
        points = [self.estimates[elo_of(name)] for name in names]
        ends = [[one.low for one in points], [one.high for one in points]] if self.resampling.samples else [(), ()]
        series = Series("Elo", names, [one.value for one in points], *ends)
        return Chart("intervals", [series], "Elo", reference=ELO_CENTER, reference_name="mean", decimals=0)

    def _pairs(self) -> Table:
        rate = Column("win rate", decimals=1, scale=100, unit="%", level=self._level(), bold=True, bar=True)
        columns: list[Column | str] = ["first", "second", rate, Column("wins"), Column("ties"), Column("losses")]
        columns += [Column("p (Holm)", "p", key="p_holm"), "better"]
        rows: list[Sequence[Value]] = []
        for one in self.tests():
            better = Span(one["better"], "strong") if one["better"] else Span("neither", "quiet")
            cell = replace(Cell.of(self.estimates[rate_of(one["first"], one["second"])]), limits=(0.0, 1.0))
            numbers = one["wins"], one["ties"], one["losses"], one["p_holm"]
            rows.append((one["first"], one["second"], cell, *numbers, Phrase((better,))))
        note = (
            "The win rate is that of the first; p: exact sign test on the comparisons without a tie, two-sided. “better” "
            f"names a system where the corrected p is below {1 - self.resampling.level:.4g}"
        )
        return Table("pairs", "Pairs", columns, rows, note)

    def tests(self) -> list[dict[str, Any]]:
        """Every pair of systems: wins of the first, ties, losses, and the sign test with Holm's correction."""
        from scipy.stats import binomtest

        rows: list[dict[str, Any]] = []
        for (index, one), (number, other) in combinations(enumerate(self.systems), 2):
            won, lost, tied = (int(table) for table in (self.counts[index, number], self.counts[number, index], self.ties[index, number]))
            p = float(binomtest(won, won + lost).pvalue) if won + lost else 1.0 if tied else float("nan")
            rows.append({"first": one, "second": other, "wins": won, "ties": tied, "losses": lost, "p": p})
        for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
            winner = row["first"] if row["wins"] > row["losses"] else row["second"]
            row |= {"p_holm": p, "better": winner if p < 1 - self.resampling.level else None}
        return rows

    def _shares(self) -> Table:
        trials = np.sum([[one[1] for one in shares_of(match)] for match in self.judged], axis=0)
        columns = ["share", Column("per cent", decimals=1, scale=100, level=self._level(), bar=True), Column("of"), "what it means"]
        rows = [
            (name, replace(Cell.of(self.estimates[name]), limits=(0.0, 1.0)), int(number), meaning)
            for (name, meaning), number in zip(SHARES.items(), trials, strict=True)
        ]
        return Table("shares", "What moved the judge", columns, rows)

    def _verdicts(self) -> Table:
        columns = ["id", "first", "second", "better", "verdicts", "reason", "reason, swapped", "caption of the first"]
        rows = []
        for match in self.matches:
            reasons = [one.reason for one in match.opinions] or ["", ""]
            facts = match.winner or match.outcome or "none", ", ".join(match.verdicts)
            rows.append((match.id, *match.systems, *facts, *reasons, *match.captions))
        return Table("verdicts", "Comparisons", [*columns, "caption of the second"], rows, detail=True)

    def _gallery(self) -> Gallery:
        total = len(self.matches)
        note = f"the first {SHOWN} of {total:,}; verdicts.csv has all" if total > SHOWN else ""
        return Gallery("Comparisons", list(map(self._entry, self.matches[:SHOWN])), note, replaces="verdicts")

    def _entry(self, match: Match) -> Entry:
        captions = self.systems[match.systems[0]]
        image = captions.images[captions.position(match.id)]
        lines = []
        for name, text in zip(match.systems, match.captions, strict=True):
            tone = "good" if name == match.winner else ""
            lines.append(Line(Phrase((Span(text, tone),)), f"{name}, better" if tone else name))
        for name, one in zip(match.systems, match.opinions, strict=False):
            said = one.reason if isinstance(one, Failure) else f"{_called(one.better, match, name)}: {one.reason}"
            lines.append(Line(Phrase((Span(said, "quiet"),)), f"judge, {name} first"))
        facts = [f"better: {match.winner}" if match.winner else match.outcome or "no verdict"]
        facts += ["changed with the order"] if match.changed else []
        facts += ["equal captions, not asked"] if not match.opinions else []
        shown = isinstance(image, ImageData) or (image and Path(str(image)).is_file())
        picture = Picture(image if isinstance(image, ImageData) else str(image)) if shown else None
        return Entry(match.id, lines, picture, facts, references=captions[match.id].references)

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
        if self.estimates[CHANGED].value > 0.5:
            warnings.append("most verdicts change with the order of the captions: this judge cannot tell these systems apart")
        return warnings

    def data(self) -> dict[str, Any]:
        """Everything as JSON holds it."""
        facts = {"value": "value", "low": "low", "high": "high"}

        def interval(name: str) -> dict[str, float]:
            return {key: getattr(self.estimates[name], part) for key, part in facts.items()}

        return {
            "systems": {
                name: {
                    "elo": interval(elo_of(name)),
                    "win_rate": interval(rate_of(name)),
                    "wins": int(self.counts[index].sum()),
                    "ties": int(self.ties[index].sum()),
                    "losses": int(self.counts[:, index].sum()),
                }
                for index, name in enumerate(self.systems)
            },
            "pairs": [{**one, "win_rate": interval(rate_of(one["first"], one["second"]))} for one in self.tests()],
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


def rate_of(*systems: str) -> str:
    """Under which name the win rate of a system, or of one against another, is kept."""
    return " ".join(("win rate", *map(repr, systems)))


def elo_of(system: str) -> str:
    """Under which name the Elo points of a system are kept."""
    return f"elo {system!r}"


CHANGED, FIRST, LONGER = "changed with the order", "for the caption shown first", "for the longer caption"
SHARES = {
    CHANGED: "0 is best; such a comparison is a tie",
    FIRST: "50 is fair: of all verdicts that name a caption",
    LONGER: "of comparisons with a winner, where lengths differ",
}
"""Shares that say what moved the judge, and how to read them."""


def shares_of(match: Match) -> list[tuple[float, float]]:
    """Hits and trials of a comparison in each of `SHARES`.

    >>> shares_of(Match("1", ("a", "b"), ("a dog", "dog"), (Opinion("first"), Opinion("second"))))
    [(0.0, 1.0), (1.0, 2.0), (1.0, 1.0)]
    """
    shown = [one.better for one in match.opinions if isinstance(one, Opinion) and one.better != "tie"]
    lengths = [len(text.split()) for text in match.captions]
    decided = match.winner is not None and lengths[0] != lengths[1]
    longer = decided and (match.outcome == "first") == (lengths[0] > lengths[1])
    return [
        (float(match.changed), float(bool(match.verdicts))),
        (float(shown.count("first")), float(len(shown))),
        (float(longer), float(decided)),
    ]


def _called(better: Outcome, match: Match, first: str) -> str:
    """What the judge said when the captions of ``first`` came first, with the name of the system."""
    if better == "tie":
        return "tie"
    names = match.systems if first == match.systems[0] else match.systems[::-1]
    return names[better == "second"]


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
    The judge sees the image of an item where there is one, and its references where there are some. Equal captions
    tie without being asked. A comparison of which a reply cannot be read has no verdict, and is counted.

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
    if comparisons is not None:
        check_value("comparisons", comparisons, int, Option("", min=1))
    named = named_systems(systems)
    if len(named) < 2:
        raise InputError(f"{len(named)} system given, expected at least two to compare")
    text = read_prompt(prompt or PROMPTS / "arena.txt", FIELDS)
    reading = Reading(references, images, missing)
    sets = align({name: read(captions, reading=reading) for name, captions in named.items()}, missing)
    _refuse_several(sets)
    with using(runtime):
        bench = Bench(judge if isinstance(judge, Judge) else load_judge(judge), {"arena": text})
        return _held(sets, bench, resampling, comparisons, progress)


def _held(
    sets: Mapping[str, CaptionSet],
    bench: Bench,
    resampling: Resampling,
    comparisons: int | None,
    progress: Callable[[str], None] | None,
) -> Arena:
    matches = draw(sets, comparisons, resampling.seed)
    if progress:
        progress(f"{bench.judge.model}: {len(matches):,} comparisons")
    before = replace(bench.judge.usage)
    matches = ask(sets, matches, bench)
    if all(match.outcome is None for match in matches):
        raise InputError(f"{bench.judge.model}: no comparison has a verdict: {matches[0].failure}")
    usage = bench.judge.usage.since(before).line(bench.judge.judging.prices)
    first = next(iter(sets.values()))
    signature = "|".join(
        [
            "arena",
            f"judge:{bench.judge.identity}",
            f"prompt:{bench.prompt_digest}",
            "parse:json",
            "orders:both",
            f"comparisons:{len(matches)}" + (f"(seed={resampling.seed})" if comparisons else ""),
            f"unjudged:{sum(match.outcome is None for match in matches)}",
            f"items:{len(first)}",
            f"data:{first.fingerprint:016x}"[:13],
            resampling.signature(),
            f"captious:{__version__}",
        ]
    )
    return Arena(sets, tuple(matches), signature, f"{bench.judge.model}: {usage}", resampling)


def draw(sets: Mapping[str, CaptionSet], comparisons: int | None, seed: int) -> list[Match]:
    """The comparisons to make: all, or as many of each pair of systems, drawn at random; in the order of the items."""
    pairs = list(combinations(sets, 2))
    first = next(iter(sets.values()))
    ids = first.ids
    places = [(item, pair) for item in range(len(ids)) for pair in range(len(pairs))]
    if comparisons is not None and comparisons < len(places):
        generator = np.random.default_rng(seed)
        order = np.stack([generator.permutation(len(ids)) for _ in pairs])  # pairs × items
        # Round by round: one item of every pair, so that no pair is ahead by more than one.
        rounds = [(int(order[pair, turn]), pair) for turn in range(len(ids)) for pair in generator.permutation(len(pairs))]
        places = sorted((item, int(pair)) for item, pair in rounds[:comparisons])
    candidates = {name: captions.candidates for name, captions in sets.items()}
    return [
        Match(ids[item], pairs[pair], tuple(" ".join(candidates[name][item]).strip() for name in pairs[pair]))  # type: ignore[arg-type]
        for item, pair in places
    ]


def ask(sets: Mapping[str, CaptionSet], matches: Sequence[Match], bench: Bench) -> list[Match]:
    """The comparisons with what the judge said."""
    asked = {index: one for index, one in enumerate(matches) if one.captions[0] != one.captions[1]}
    requests: list[Request] = []
    failures: dict[int, Failure] = {}
    for index, match in asked.items():
        both = questions(sets[match.systems[0]], match, bench.prompts["arena"])
        if isinstance(both, Failure):
            failures[index] = both
        else:
            requests += both
    replies = iter(ask_and_parse(bench.judge, requests, parse_opinion, what="arena"))
    judged = []
    for index, match in enumerate(matches):
        if index in failures:
            match = replace(match, opinions=(failures[index], failures[index]))
        elif index in asked:
            match = replace(match, opinions=(next(replies), next(replies)))
        judged.append(match)
    return judged


def questions(captions: CaptionSet, match: Match, prompt: str) -> tuple[Request, Request] | Failure:
    """Both orders of a comparison, or why nothing can be asked."""
    for name, text in zip(match.systems, match.captions, strict=True):
        if not text:
            return Failure(f"{name} has no caption")
    index = captions.position(match.id)
    image, references = captions.images[index], captions.references[index]
    evidence = ["The image is attached."] if image is not None else []
    evidence += ["People described it so:", listed(references)] if references else []
    if not evidence:
        return Failure("no image and no references; pass images=... or references=...")
    pictures = () if image is None else (image,)

    def request(first: str, second: str) -> Request:
        text = prompt.format(evidence="\n".join(evidence), first=first, second=second)
        return Request((Turn("user", text, pictures),))

    one, other = match.captions
    return request(one, other), request(other, one)


def parse_opinion(reply: Reply) -> Opinion:
    """The better caption and the reason of a reply.

    >>> parse_opinion(Reply('{"reason": "The second one names the dog.", "better": "second"}')).better
    'second'
    """
    answer = json_object(reply.text)
    word = str(answer.get("better", "")).strip().lower().removesuffix(" caption")
    if word not in WORDS:
        raise ValueError(f"better is {shortened(word)}, expected first, second or tie")
    return Opinion(WORDS[word], str(answer.get("reason") or ""))


def _refuse_several(sets: Mapping[str, CaptionSet]) -> None:
    for name, captions in sets.items():
        several = np.flatnonzero(captions.candidates.counts > 1)
        if len(several):
            index = int(several[0])
            number = int(captions.candidates.counts[index])
            raise InputError(f"{name}: item {captions.ids[index]} has {number} captions, expected one to compare")
