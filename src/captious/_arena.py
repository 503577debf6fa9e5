"""``captious.arena``: a chat model compares the captions of systems two at a time, each pair in both orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from captious._compare import align, named_systems, system_captions
from captious._core.arguments import accept_positions
from captious._core.types import Floats, Ints
from captious._evaluate import settings_of
from captious._tournament import Elo, Tournament, online_estimates
from captious._version import __version__
from captious.captions import CaptionSet, ImageData
from captious.errors import InputError, format_suggestion
from captious.io.join import format_first
from captious.io.read import read, reading_of
from captious.metrics.judges.dry_run import DryRun
from captious.metrics.judges.judged import PROMPTS, JudgeSetup, plan_requests, read_prompt
from captious.metrics.judges.matches import (
    EVERYBODY,
    FIELDS,
    PROMPT,
    Match,
    Opponents,
    Orders,
    Preference,
    ask,
    draw,
    build_questions,
)
from captious.models.chat.judge import Judge, load_judge
from captious.models.chat.messages import Failure
from captious.options import Missing, Option, Reading, Resampling, Runtime, check_value, get_choices, using
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
from captious.stats.ranks import rank_signature
from captious.stats.resampling import cluster_sums, id_order
from captious.text.tables import count_words

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
    opponents: Opponents = EVERYBODY
    elo: Elo = "bradley-terry"

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
        return Tournament(tuple(names), wins, ties, self.estimates, p_values, test, self.resampling, self.elo)

    def _indices(self, match: Match) -> tuple[int, int]:
        names = list(self.systems)
        return names.index(match.systems[0]), names.index(match.systems[1])

    @cached_property
    def estimates(self) -> dict[str, Estimate]:
        """Win rates, Elo points and shares by name, with intervals over resampled items."""
        names, rows = list(self.systems), self._rows()
        number = len(names) ** 2

        scored = number + 2 * len(SHARES)

        def statistic(weights: Floats) -> dict[str, Floats]:
            sums = weights.T @ rows
            with np.errstate(invalid="ignore", divide="ignore"):
                shares = sums[:, number:scored:2] / sums[:, number + 1 : scored : 2]
            return (
                pairwise_values(sums[:, :number], names)
                | {name: shares[:, index] for index, name in enumerate(SHARES)}
                | self._scores(sums[:, scored:])
            )

        estimates = estimate(statistic, len(rows), self.resampling)
        if self.elo == "online":
            estimates |= online_estimates(*self._played(), names, self.resampling)
        return estimates

    def _scores(self, sums: Floats) -> dict[str, Floats]:
        """The score of each challenger against each baseline, and their mean, in which its own caption counts 0."""
        values: dict[str, Floats] = {}
        baselines = self.opponents.baselines
        with np.errstate(invalid="ignore", divide="ignore"):
            scores = 100 * sums[:, ::2] / sums[:, 1::2]
        for row, challenger in enumerate(self.opponents.challengers):
            own = scores[:, row * len(baselines) : (row + 1) * len(baselines)].copy()
            own[:, [name == challenger for name in baselines]] = 0.0
            values[score_of(challenger)] = own.mean(axis=1)
            values |= {score_of(challenger, name): own[:, column] for column, name in enumerate(baselines)}
        return values

    def _played(self) -> tuple[Ints, Ints, Floats]:
        """The systems of each comparison that has a verdict, by number, and the score of the first."""
        scores = {"first": 1.0, "second": 0.0, "tie": 0.5}
        score = np.array([scores[match.outcome or "tie"] for match in self.judged])
        first, second = np.array([self._indices(match) for match in self.judged], dtype=np.int64).reshape(-1, 2).T
        return first, second, score

    def _rows(self) -> Floats:
        """A row per item: wins of each system over each other with ties as halves, then hits and trials of shares.

        Last come, for each challenger and each baseline, wins less losses and the number of comparisons.
        """
        ids = list(dict.fromkeys(match.id for match in self.judged))
        order = {ids[index]: place for place, index in enumerate(id_order(ids))}
        group = np.array([order[match.id] for match in self.judged], dtype=np.int64)
        first, second, score = self._played()
        wins = win_rows(first, second, score, group, len(ids), len(self.systems))
        shares = self._hits_and_trials.reshape(len(self.judged), -1)
        pairs = [(one, other) for one in self.opponents.challengers for other in self.opponents.baselines]
        met = np.array([[match.systems == pair for pair in pairs] for match in self.judged], dtype=np.float64)
        met = met.reshape(len(self.judged), len(pairs))
        against = np.stack([met * (2 * score - 1)[:, None], met], axis=2).reshape(len(self.judged), -1)
        return np.hstack([wins, cluster_sums(np.hstack([shares, against]), group, len(ids))])

    def document(self) -> Document:
        """Systems by strength, every pair, what moved the judge, and the comparisons with its reasons."""
        shown = self.tournament
        return Document(
            f"{len(self.systems)} systems, {len(self.judged):,} comparisons",
            f"{', '.join(self.systems)}; {self._orders()}",
            [
                *self._against_baselines(),
                *(shown.table(), shown.chart(), shown.pairs(), self._shares(), self._verdicts(), self._gallery()),
            ],
            warnings=self._warnings(),
            notes=[self.usage] if self.usage else [],
            signatures=[self.signature],
            data=self.data(),
        )

    def _orders(self) -> str:
        if all(len(match.orders) == 1 for match in self.matches):
            return "each comparison is asked once, in an order that is drawn"
        return "each comparison is asked in both orders"

    def _against_baselines(self) -> list[Table]:
        """The score of each challenger, the highest first, beside the length of its captions."""
        challengers, baselines = self.opponents.challengers, self.opponents.baselines
        if not baselines:
            return []
        score = Column("score", decimals=2, signed=True, level=self._level(), bold=True, higher_is_better=True)
        columns: list[Column | str] = ["system", score]
        columns += [Column(f"against {name}", decimals=2, signed=True, key=name) for name in baselines]
        columns.append(Column("words", decimals=1))
        ranked = sorted(challengers, key=lambda name: -np.nan_to_num(self.estimates[score_of(name)].value, nan=-np.inf))
        rows = [
            [
                name,
                replace(Cell.of(self.estimates[score_of(name)]), limits=(-100.0, 100.0)),
                *(self.estimates[score_of(name, other)].value if name != other else None for other in baselines),
                self._words(name),
            ]
            for name in ranked
        ]
        note = (
            "score: 100 · (wins − losses) / comparisons with each baseline, then the mean over the baselines, in which "
            "a baseline counts 0 against itself; words: mean length of its captions"
        )
        return [Table("baselines", "Against the baselines", columns, rows, note)]

    def _words(self, name: str) -> float:
        captions = self.systems[name]
        return sum(count_words(captions.candidates.values, captions.language)) / max(len(captions.candidates.values), 1)

    @cached_property
    def _hits_and_trials(self) -> Floats:
        """The hits and trials of each comparison that has a verdict, in each of `SHARES`."""
        language = next(iter(self.systems.values())).language
        pairs = np.array([shares_of(match, language) for match in self.judged], dtype=np.float64)
        return pairs.reshape(len(self.judged), len(SHARES), 2)

    def _level(self) -> float | None:
        return self.resampling.level if self.resampling.samples else None

    def _shares(self) -> Table:
        trials = self._hits_and_trials[:, :, 1].sum(axis=0)
        share = Column("percent", decimals=1, scale=100, level=self._level(), bar=True, key="share")
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
            said = dict(zip(match.orders, (one.reason for one in match.opinions), strict=False))
            facts = match.winner or match.outcome or "none", ", ".join(match.verdicts)
            reasons = said.get("own", ""), said.get("swapped", "")
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
            f"{len(ids):,} of {len(self.matches):,} comparisons have no verdict: {reason} (id {format_first(ids)})"
            for reason, ids in sorted(failed.items(), key=lambda entry: -len(entry[1]))
        ]
        if self.blind:
            warnings.append("the model reads no images: it judged by the references alone")
        if self.estimates[CHANGED].value > 0.5:
            warnings.append(
                "most verdicts change with the order of the captions: the judge cannot tell these captions apart"
            )
        return warnings

    def _baseline_data(self, interval: Callable[[str], dict[str, float]]) -> dict[str, Any]:
        return {
            name: {
                "score": interval(score_of(name)),
                "against": {other: interval(score_of(name, other)) for other in self.opponents.baselines},
                "words": self._words(name),
            }
            for name in self.opponents.challengers
        }

    def data(self) -> dict[str, Any]:
        """Everything as JSON holds it."""

        def interval(name: str) -> dict[str, float]:
            one = self.estimates[name]
            return {"value": one.value, "low": one.low, "high": one.high}

        return {
            **self.tournament.data(),
            **({"baselines": self._baseline_data(interval)} if self.opponents.baselines else {}),
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


def score_of(*systems: str) -> str:
    """The name of a challenger's score, or of that against one baseline, among the estimates."""
    return " ".join(("score", *map(repr, systems)))


CHANGED, FIRST, LONGER = "changed with the order", "for the caption shown first", "for the longer caption"
SHARES = (CHANGED, FIRST, LONGER)
"""Shares that say what moved the judge."""


def shares_of(match: Match, language: str = "") -> list[tuple[float, float]]:
    """Hits and trials of a comparison in each of `SHARES`; the words of captions are those of their language.

    >>> shares_of(Match("1", ("a", "b"), ("a dog", "dog"), (Preference("first"), Preference("second"))))
    [(0.0, 1.0), (1.0, 2.0), (1.0, 1.0)]
    """
    shown = [one.better for one in match.opinions if isinstance(one, Preference) and one.better != "tie"]
    lengths = count_words(match.captions, language)
    decided = match.winner is not None and lengths[0] != lengths[1]
    longer = decided and (match.outcome == "first") == (lengths[0] > lengths[1])
    return [
        (float(match.changed), float(len(match.verdicts) == 2)),
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


@accept_positions("resampling", "runtime", "progress")
def arena(
    systems: Mapping[str, Any] | Sequence[Any],
    judge: str | Judge,
    *,
    resampling: Resampling = Resampling(),
    runtime: Runtime | None = None,
    progress: Callable[[str], None] | None = None,
    references: Any = None,
    images: Any = None,
    missing: Missing = "error",
    language: str | None = None,
    reading: Reading = Reading(),
    comparisons: int | None = None,
    prompt: str | Path = "",
    baselines: Mapping[str, Any] | Sequence[Any] | None = None,
    assign: str | None = None,
    orders: Orders = "both",
    elo: Elo = "bradley-terry",
) -> Arena:
    """Let a chat model compare the captions of every two systems, item by item.

    Both orders are asked: a system wins where both replies name it. A verdict that changes with the order is a tie.
    The judge sees the image of an item where there is one, and its references where there are some. A model that
    refuses images sees the references alone. Equal captions tie without being asked. A comparison of which a reply
    cannot be read has no verdict, and is counted.

    Parameters
    ----------
    systems, runtime, progress, references, images, missing, language, reading
        As in ``compare``.
    judge
        Name of the model at the endpoint of the runtime's ``judging``, or ``local:FOLDER``.
    resampling
        How the bootstrap over items makes intervals; its seed also draws the comparisons.
    comparisons
        The largest number of comparisons, drawn at random, equally for each pair of systems; all by default.
    prompt
        File with another prompt, with ``{evidence}``, ``{first}`` and ``{second}``.
    baselines
        Systems that the others are compared with, as in CapArena-Auto: 100 · (wins − losses) / comparisons with each
        of them, and the mean. The other systems do not meet.
    assign
        Column that names the one baseline of each item; without it an item is compared with every baseline.
    orders
        ``both``, or ``one`` that the seed draws for each comparison, at half of the cost.
    elo
        ``bradley-terry``, or ``online``: points updated comparison by comparison, as in Chatbot Arena.
    """
    resampling, runtime = settings_of(resampling, runtime, progress)
    with using(runtime):
        rules = _Rules(comparisons, prompt, baselines, assign, orders, elo)
        reading = reading_of(reading, references, images, missing, language)
        entries = _Entries.of(systems, judge, resampling, reading, rules)
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
    language: str | None = None,
    reading: Reading = Reading(),
    **rules: Any,
) -> DryRun:
    """What `arena` would ask with the same arguments, and what that would cost; nothing is sent."""
    reading = reading_of(reading, references, images, missing, language)
    entries = _Entries.of(systems, judge, resampling, reading, _Rules(**rules))
    asking = entries.setup.judge
    schema = asking.has_ability("schema")
    asked = build_questions(entries.sets, entries.matches, entries.setup, schema=schema).values()
    requests = [request for both in asked if not isinstance(both, Failure) for request in both]
    plans = {(", ".join(entries.sets), f"arena(model={asking.model})"): plan_requests(asking, requests, REPLY_TOKENS)}
    failures = Counter(both.reason for both in asked if isinstance(both, Failure))
    warnings = [f"{number:,} comparisons cannot be made: {reason}" for reason, number in failures.most_common()]
    return DryRun(plans, asking.judging.prices, tuple(warnings))


class _Rules(NamedTuple):
    """Which systems are compared, in which order, and how verdicts are counted."""

    comparisons: int | None = None
    prompt: str | Path = ""
    baselines: Mapping[str, Any] | Sequence[Any] | None = None
    assign: str | None = None
    orders: Orders = "both"
    elo: Elo = "bradley-terry"

    def check(self) -> None:
        """Refuse values that are none."""
        if self.comparisons is not None:
            check_value("comparisons", self.comparisons, int, Option("", min=1))
        for name, value, kind in (("orders", self.orders, Orders), ("elo", self.elo, Elo)):
            if value not in (choices := get_choices(kind)):
                raise InputError(
                    f"{name}={value!r}, expected {' or '.join(choices)}{format_suggestion(str(value), choices)}"
                )
        if self.assign is not None and self.baselines is None:
            raise InputError("assign=... names the baseline of each item, and there are none; pass baselines=...")


@dataclass(frozen=True, eq=False)
class _Entries:
    """Which systems are compared, and by which judge."""

    sets: Mapping[str, CaptionSet]
    setup: JudgeSetup
    matches: Sequence[Match]
    opponents: Opponents
    rules: _Rules

    @classmethod
    def of(cls, systems: Any, judge: str | Judge, resampling: Resampling, reading: Reading, rules: _Rules) -> _Entries:
        rules.check()
        challengers = named_systems(systems)
        baselines = {} if rules.baselines is None else named_systems(rules.baselines)
        if rules.baselines is not None and not baselines:
            raise InputError("baselines: none, expected at least one system to compare with")
        named = {**challengers, **baselines}
        if len(named) < 2:
            raise InputError(f"{len(named)} system given, expected at least two to compare")
        text = read_prompt(rules.prompt or PROMPTS / f"{PROMPT}.txt", FIELDS)
        everyone = {name: read(system_captions(one), reading=reading) for name, one in named.items()}
        for name in challengers.keys() & baselines.keys():
            own = read(system_captions(challengers[name]), reading=reading)
            if own.ids != everyone[name].ids or list(own.candidates) != list(everyone[name].candidates):
                raise InputError(f"{name}: a system and a baseline of this name differ, expected two names")
        sets = align(everyone, reading.missing)
        _refuse_several(sets)
        opponents = EVERYBODY
        if baselines:
            assigned = None if rules.assign is None else _assigned(sets, rules.assign, tuple(baselines))
            opponents = Opponents(tuple(challengers), tuple(baselines), assigned)
        setup = JudgeSetup(judge if isinstance(judge, Judge) else load_judge(judge), {PROMPT: text})
        matches = draw(sets, rules.comparisons, resampling.seed, opponents, rules.orders)
        return cls(sets, setup, matches, opponents, rules)

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
        seed = f"(seed={resampling.seed})"
        drawn = seed if self.rules.comparisons is not None else ""
        orders = "both" if self.rules.orders == "both" else f"one{seed}"
        baselines = (
            f"baselines:{','.join(self.opponents.baselines)}{f'({self.rules.assign})' if self.rules.assign else ''}"
        )
        parts = [
            *("arena", f"judge:{judge.identity}", f"prompt:{self.setup.prompt_digest}", "parse:json"),
            *(f"orders:{orders}", *([baselines] if self.opponents.baselines else [])),
            *(["elo:online"] if self.rules.elo == "online" else []),
            *([f"images:{'refused' if blind else 'shown'}"] if pictures else []),
            f"schema:{'followed' if schema else 'ignored'}",
            *(f"comparisons:{len(matches)}{drawn}", f"unjudged:{len(unjudged)}", f"items:{len(first)}"),
            *(f"data:{first.fingerprint:016x}"[:13], resampling.signature(), rank_signature(resampling.level)),
            f"captious:{__version__}",
        ]
        usage = f"{judge.model}: {judge.usage.since(before).line(judge.judging.prices)}"
        return Arena(
            self.sets, tuple(matches), "|".join(parts), usage, resampling, blind, self.opponents, self.rules.elo
        )


def _assigned(sets: Mapping[str, CaptionSet], column: str, baselines: Sequence[str]) -> tuple[str, ...]:
    """The baseline of each item, from the column of the first system that has it."""
    for captions in sets.values():
        if column in captions.columns:
            for key, value in zip(captions.ids, captions.columns[column], strict=True):
                if value not in baselines:
                    raise InputError(
                        f"{captions.name}: {column} of item {key} is {str(value)[:40]!r}, expected the name of a "
                        f"baseline: {', '.join(baselines)}"
                    )
            return tuple(map(str, captions.columns[column]))
    raise InputError(f"assign={column!r}: no system has this column, expected the name of a baseline for each item")


def _refuse_several(sets: Mapping[str, CaptionSet]) -> None:
    for name, captions in sets.items():
        several = np.flatnonzero(captions.candidates.counts > 1)
        if len(several):
            index = int(several[0])
            number = int(captions.candidates.counts[index])
            raise InputError(f"{name}: item {captions.ids[index]} has {number} captions, expected one to compare")
