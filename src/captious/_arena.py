"""``captious.arena``: a chat model compares the captions of systems two at a time, each pair in both orders."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from captious._compare import align_systems, get_captions, group_by_system, name_systems
from captious._core.types import Floats, Ints
from captious._tournament import Elo, Tournament, estimate_online_elo
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
    build_questions,
    draw,
)
from captious.models.chat.clip_images import describe_frames
from captious.models.chat.judge import Judge, load_judge
from captious.models.chat.messages import Failure
from captious.options import (
    Missing,
    Option,
    Reading,
    Resampling,
    Runtime,
    check_settings,
    check_value,
    get_choices,
    using,
)
from captious.render import (
    Answer,
    Cell,
    Column,
    Document,
    Entry,
    Figure,
    Gallery,
    Line,
    Phrase,
    Picture,
    Result,
    Span,
    Table,
)
from captious.render.document import Value
from captious.stats.bootstrap import Estimate, estimate
from captious.stats.pairwise import (
    ELO_CENTER,
    ELO_SCALE,
    adjust_strengths,
    compute_pairwise_values,
    count_wins,
    name_elo,
)
from captious.stats.ranks import rank_signature
from captious.stats.regression import Contrast
from captious.stats.resampling import sort_ids, sum_clusters
from captious.text.ngram_tables import count_words

# Usual length of a reply in tokens, for the cost estimate before a run.
REPLY_TOKENS = 60
# Items whose comparisons the page shows; the files have all of them.
SHOWN = 200
# Words by which the effect of length is stated.
LONGER_BY = 10


@dataclass(frozen=True, eq=False, repr=False)
class Arena(Result):
    """All comparisons with their win rates, strengths, and measures of the judge's bias."""

    systems: Mapping[str, CaptionSet]
    matches: tuple[Match, ...]
    signature: str
    usage: str = ""
    """Calls, tokens, time and cost in one line."""
    resampling: Resampling = Resampling()
    blind: bool = False
    """True if the model refused the images and saw only the references."""
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
            one, other = self._find_indices(match)
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

    def _find_indices(self, match: Match) -> tuple[int, int]:
        names = list(self.systems)
        return names.index(match.systems[0]), names.index(match.systems[1])

    @cached_property
    def estimates(self) -> dict[str, Estimate]:
        """Win rates, Elo points and shares by name, with intervals over resampled items."""
        names, rows = list(self.systems), self._build_rows()
        number = len(names) ** 2

        scored = number + 2 * len(SHARES)

        def statistic(weights: Floats) -> dict[str, Floats]:
            sums = weights.T @ rows
            with np.errstate(invalid="ignore", divide="ignore"):
                shares = sums[:, number:scored:2] / sums[:, number + 1 : scored : 2]
            return (
                compute_pairwise_values(sums[:, :number], names)
                | {name: shares[:, index] for index, name in enumerate(SHARES)}
                | self._compute_scores(sums[:, scored:])
            )

        estimates = estimate(statistic, len(rows), self.resampling)
        if self.elo == "online":
            estimates |= estimate_online_elo(*self._encode_matches(), names, self.resampling)
        return estimates

    def _compute_scores(self, sums: Floats) -> dict[str, Floats]:
        """Return the score of each challenger against each baseline, and their mean; its own caption counts 0."""
        values: dict[str, Floats] = {}
        baselines = self.opponents.baselines
        with np.errstate(invalid="ignore", divide="ignore"):
            scores = 100 * sums[:, ::2] / sums[:, 1::2]
        for row, challenger in enumerate(self.opponents.challengers):
            own = scores[:, row * len(baselines) : (row + 1) * len(baselines)].copy()
            own[:, [name == challenger for name in baselines]] = 0.0
            values[format_score_name(challenger)] = own.mean(axis=1)
            values |= {format_score_name(challenger, name): own[:, column] for column, name in enumerate(baselines)}
        return values

    def _encode_matches(self) -> tuple[Ints, Ints, Floats]:
        """Return the two systems of each judged comparison, by number, and the score of the first."""
        scores = {"first": 1.0, "second": 0.0, "tie": 0.5}
        score = np.array([scores[match.outcome or "tie"] for match in self.judged])
        first, second = np.array([self._find_indices(match) for match in self.judged], dtype=np.int64).reshape(-1, 2).T
        return first, second, score

    def _build_rows(self) -> Floats:
        """Return a row per item: wins of each system over each other (a tie is a half), then hits and trials of shares.

        Last come, for each challenger and each baseline, wins less losses and the number of comparisons.
        """
        ids = list(dict.fromkeys(match.id for match in self.judged))
        order = {ids[index]: place for place, index in enumerate(sort_ids(ids))}
        group = np.array([order[match.id] for match in self.judged], dtype=np.int64)
        first, second, score = self._encode_matches()
        wins = count_wins(first, second, score, group, len(ids), len(self.systems))
        shares = self._hits_and_trials.reshape(len(self.judged), -1)
        pairs = [(one, other) for one in self.opponents.challengers for other in self.opponents.baselines]
        met = np.array([[match.systems == pair for pair in pairs] for match in self.judged], dtype=np.float64)
        met = met.reshape(len(self.judged), len(pairs))
        against = np.stack([met * (2 * score - 1)[:, None], met], axis=2).reshape(len(self.judged), -1)
        return np.hstack([wins, sum_clusters(np.hstack([shares, against]), group, len(ids))])

    def document(self) -> Document:
        """Return the page: systems by strength, every pair, biases of the judge, and all comparisons."""
        shown = self.tournament
        return Document(
            f"{len(self.systems)} systems, {len(self.judged):,} comparisons",
            f"{', '.join(self.systems)}; {self._format_orders()}",
            [
                *self._make_baseline_table(),
                shown.make_table(),
                shown.draw_chart(),
                *self._make_corrected_table(),
                shown.make_pair_table(),
                self._make_share_table(),
                self._make_verdict_table(),
                self._make_gallery(),
            ],
            warnings=self._list_warnings(),
            notes=[
                *group_by_system({name: [*filter(None, [one.origin_line])] for name, one in self.systems.items()}),
                *filter(None, [self.usage]),
            ],
            signatures=[self.signature],
            data=self.data(),
            answer=self._answer(),
            page=f"Arena of {', '.join(self.systems)}",
        )

    def _answer(self) -> Answer:
        """Return the plain answer: whom the judge prefers, and whether the order of the captions moved it."""
        if not self.judged:
            return "The judge gave no verdict."
        changed = self.estimates[CHANGED]
        parts = self.tournament.answer("The judge prefers")
        if math.isnan(changed.value):
            return parts
        share = Figure(changed, self._make_share_column())
        return [*parts, " It changed its verdict with the order of the two captions in ", share, " of the comparisons."]

    def _format_orders(self) -> str:
        if all(len(match.orders) == 1 for match in self.matches):
            return "each comparison is asked once, in an order that is drawn"
        return "each comparison is asked in both orders"

    def _make_baseline_table(self) -> list[Table]:
        """Return the score of each challenger, the highest first, with the length of its captions."""
        challengers, baselines = self.opponents.challengers, self.opponents.baselines
        if not baselines:
            return []
        score = Column("score", decimals=2, signed=True, level=self._get_level(), bold=True, higher_is_better=True)
        columns: list[Column | str] = ["system", score]
        columns += [Column(f"against {name}", decimals=2, signed=True, key=name) for name in baselines]
        columns.append(Column("words", decimals=1))
        ranked = sorted(
            challengers, key=lambda name: -np.nan_to_num(self.estimates[format_score_name(name)].value, nan=-np.inf)
        )
        rows = [
            [
                name,
                replace(Cell.of(self.estimates[format_score_name(name)]), limits=(-100.0, 100.0)),
                *(
                    self.estimates[format_score_name(name, other)].value if name != other else None
                    for other in baselines
                ),
                self._average_words(name),
            ]
            for name in ranked
        ]
        note = (
            "score: 100 · (wins − losses) / comparisons with each baseline, then the mean over the baselines, in which "
            "a baseline counts 0 against itself; words: mean length of its captions"
        )
        return [Table("baselines", "Against the baselines", columns, rows, note)]

    def _average_words(self, name: str) -> float:
        captions = self.systems[name]
        return sum(count_words(captions.candidates.values, captions.language)) / max(len(captions.candidates.values), 1)

    @cached_property
    def _hits_and_trials(self) -> Floats:
        """The hits and trials of each judged comparison, in each of `SHARES`."""
        language = next(iter(self.systems.values())).language
        pairs = np.array([count_shares(match, language) for match in self.judged], dtype=np.float64)
        return pairs.reshape(len(self.judged), len(SHARES), 2)

    def _get_level(self) -> float | None:
        return self.resampling.level if self.resampling.samples else None

    def _make_share_column(self) -> Column:
        return Column("percent", decimals=1, scale=100, level=self._get_level(), bar=True, key="share")

    def _make_share_table(self) -> Table:
        trials = self._hits_and_trials[:, :, 1].sum(axis=0)
        columns: list[Column | str] = [Column("verdicts", "text"), self._make_share_column(), Column("of")]
        rows = [
            (name, replace(Cell.of(self.estimates[name]), limits=(0.0, 1.0)), int(number))
            for name, number in zip(SHARES, trials, strict=True)
        ]
        note = (
            "A verdict that changed with the order is a tie. Of verdicts that name a caption, half should be for the "
            "one shown first. The longer caption: of comparisons with a winner whose captions differ in words"
        )
        return Table("shares", "What moved the judge", columns, rows, note)

    @cached_property
    def corrected(self) -> dict[str, Contrast] | None:
        """Elo points at equal length and position, then the effects of both; None if no verdict has a winner.

        Every reply is a verdict on the caption shown first; the two replies of a comparison count a half each.
        """
        names, language = list(self.systems), next(iter(self.systems.values())).language
        first, second, score, weight, gap, items = [], [], [], [], [], []
        for match in self.judged:
            lengths = count_words(match.captions, language)
            for opinion, order in zip(match.opinions, match.orders, strict=False):
                if isinstance(opinion, Preference):
                    one, other = (0, 1) if order == "own" else (1, 0)
                    first.append(names.index(match.systems[one]))
                    second.append(names.index(match.systems[other]))
                    score.append({"first": 1.0, "tie": 0.5, "second": 0.0}[opinion.better])
                    weight.append(1 / len(match.orders))
                    gap.append((lengths[one] - lengths[other]) / LONGER_BY)
                    items.append(match.id)
        if not first or len({*items}) < 2 or np.ptp(gap) == 0:
            return None
        covariates = np.stack([np.ones(len(gap)), np.array(gap)], axis=1)
        sides = np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)
        cluster = np.unique(items, return_inverse=True)[1].astype(np.int64)
        found = adjust_strengths(*sides, np.array(score), np.array(weight), covariates, cluster)
        points = {
            name: Contrast(ELO_CENTER + ELO_SCALE * one.value, ELO_SCALE * one.error, one.degrees)
            for name, one in zip(names, found.strengths, strict=False)
        }
        return {**points, FIRST: found.effects[0], LONGER: found.effects[1]}

    def _make_corrected_table(self) -> list[Table]:
        """Return the Elo points corrected for length and position next to the plain ones."""
        found = self.corrected
        if found is None or self.elo == "online" or set(self.systems) - set(found):
            return []
        names = sorted(self.systems, key=lambda name: -found[name].value)
        plain = {name: self.estimates[name_elo(name)].value for name in names}
        level = self.resampling.level
        rows: list[list[Value]] = [
            [name, plain[name], Cell(found[name].value, *found[name].interval(level)), found[name].value - plain[name]]
            for name in names
        ]
        columns: list[Column | str] = [
            "system",
            Column("Elo", decimals=0, key="elo"),
            Column("Elo, corrected", decimals=0, level=level, bold=True, key="corrected"),
            Column("change", decimals=0, signed=True),
        ]
        odds = {name: math.exp(found[name].value) for name in (FIRST, LONGER)}
        stays = "stays" if sorted(names, key=lambda name: -plain[name]) == names else "changes"
        note = (
            f"at equal length and position; the order of systems {stays}. The odds of a caption are × "
            f"{odds[FIRST]:.2f} if it is shown first (p {found[FIRST].p:.2g}), and × "
            f"{odds[LONGER]:.2f} if it has {LONGER_BY} words more "
            f"(p {found[LONGER].p:.2g}). Only people can say whether longer captions are better; captious study audit "
            "compares the judge with their ratings"
        )
        return [Table("corrected", "Corrected for length and position", columns, rows, note)]

    def _make_verdict_table(self) -> Table:
        columns = ["id", "first", "second", "better", "verdicts", "reason", "reason, swapped", "caption of the first"]
        rows = []
        for match in self.matches:
            said = dict(zip(match.orders, (one.reason for one in match.opinions), strict=False))
            facts = match.winner or match.outcome or "none", ", ".join(match.verdicts)
            reasons = said.get("own", ""), said.get("swapped", "")
            rows.append((match.id, *match.systems, *facts, *reasons, *match.captions))
        return Table("verdicts", "Comparisons", [*columns, "caption of the second"], rows, detail=True)

    def _make_gallery(self) -> Gallery:
        by_item: dict[str, list[Match]] = {}
        for match in self.matches:
            by_item.setdefault(match.id, []).append(match)
        note = f"the first {SHOWN} of {len(by_item):,} items; verdicts.csv has all" if len(by_item) > SHOWN else ""
        images = next(iter(self.systems.values())).images
        entries = [self._make_entry(by_item[key], images) for key in list(by_item)[:SHOWN]]
        return Gallery("Comparisons", entries, note, replaces="verdicts")

    def _make_entry(self, matches: Sequence[Match], images: Sequence[Any]) -> Entry:
        """Return the captions of one item, and the judge's verdict on every two of them."""
        captions, key = next(iter(self.systems.values())), matches[0].id
        image = images[captions.position(key)]
        texts = {name: text for match in matches for name, text in zip(match.systems, match.captions, strict=True)}
        lines = [Line(text, name) for name, text in texts.items()]
        lines += [Line(describe_match(match), " – ".join(match.systems)) for match in matches]
        shown = isinstance(image, ImageData) or (image and Path(str(image)).is_file())
        picture = Picture(image if isinstance(image, ImageData) else str(image)) if shown else None
        return Entry(key, lines, picture, references=captions[key].references)

    def _list_warnings(self) -> list[str]:
        """Return warnings on comparisons without a verdict, and on a judge that follows the order."""
        failed: dict[str, list[str]] = {}
        for match in self.matches:
            if match.outcome is None:
                failed.setdefault(match.failure, []).append(match.id)
        warnings = [
            f"{len(ids):,} of {len(self.matches):,} comparisons have no verdict: {reason} (id {format_first(ids)})"
            for reason, ids in sorted(failed.items(), key=lambda entry: -len(entry[1]))
        ]
        if self.blind:
            warnings.append("the model reads no images: it judged only by the references")
        if self.estimates[CHANGED].value > 0.5:
            warnings.append(
                "most verdicts change with the order of the captions: the judge cannot tell these captions apart"
            )
        return warnings

    def _collect_baseline_data(self, interval: Callable[[str], dict[str, float]]) -> dict[str, Any]:
        return {
            name: {
                "score": interval(format_score_name(name)),
                "against": {other: interval(format_score_name(name, other)) for other in self.opponents.baselines},
                "words": self._average_words(name),
            }
            for name in self.opponents.challengers
        }

    def data(self) -> dict[str, Any]:
        """Return all results as JSON values."""

        def interval(name: str) -> dict[str, float]:
            one = self.estimates[name]
            return {"value": one.value, "low": one.low, "high": one.high}

        return {
            **self.tournament.data(),
            **({"baselines": self._collect_baseline_data(interval)} if self.opponents.baselines else {}),
            "shares": {name: interval(name) for name in SHARES},
            "corrected": None
            if self.corrected is None
            else {name: {"value": one.value, "error": one.error} for name, one in self.corrected.items()},
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


def format_score_name(*systems: str) -> str:
    """Return the name of a challenger's score, overall or against one baseline, among the estimates."""
    return " ".join(("score", *map(repr, systems)))


CHANGED, FIRST, LONGER = "changed with the order", "for the caption shown first", "for the longer caption"
# Shares that measure biases of the judge.
SHARES = (CHANGED, FIRST, LONGER)


def count_shares(match: Match, language: str = "") -> list[tuple[float, float]]:
    """Return hits and trials of a comparison in each of `SHARES`; words are counted in the language of the captions.

    >>> count_shares(Match("1", ("a", "b"), ("a dog", "dog"), (Preference("first"), Preference("second"))))
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


def describe_match(match: Match) -> Phrase:
    """Return the verdict of a comparison with the judge's reasons; both reasons if they differ.

    >>> opinions = Preference("first", "It is full."), Preference("tie", "Same.")
    >>> str(describe_match(Match("1", ("a", "b"), ("a dog", "dog"), opinions)))
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

    Both orders are asked: a system wins if both replies name it. A verdict that changes with the order is a tie.
    The judge sees the image and the references of an item, if it has any. A model that refuses images sees only the
    references. Equal captions tie without being asked. A comparison with a reply that cannot be parsed has no
    verdict, and is counted.

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
    resampling, runtime = check_settings(resampling, runtime, progress)
    with using(runtime):
        rules = _Rules(comparisons, prompt, baselines, assign, orders, elo)
        reading = reading_of(reading, references, images, missing, language)
        entries = _Entries.of(systems, judge, resampling, reading, rules)
        if progress:
            progress(f"{entries.setup.judge.model}: {len(entries.matches):,} comparisons")
        return entries.compare(resampling)


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
    """Return the requests that `arena` would make with the same arguments, and their cost; nothing is sent."""
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
    """Options of an arena: which systems are compared, in which order, and how verdicts are counted."""

    comparisons: int | None = None
    prompt: str | Path = ""
    baselines: Mapping[str, Any] | Sequence[Any] | None = None
    assign: str | None = None
    orders: Orders = "both"
    elo: Elo = "bradley-terry"

    def check(self) -> None:
        """Raise InputError for invalid values."""
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
    """The systems to compare, and the judge."""

    sets: Mapping[str, CaptionSet]
    setup: JudgeSetup
    matches: Sequence[Match]
    opponents: Opponents
    rules: _Rules

    @classmethod
    def of(cls, systems: Any, judge: str | Judge, resampling: Resampling, reading: Reading, rules: _Rules) -> _Entries:
        rules.check()
        challengers = name_systems(systems)
        baselines = {} if rules.baselines is None else name_systems(rules.baselines)
        if rules.baselines is not None and not baselines:
            raise InputError("baselines: none, expected at least one system to compare with")
        named = {**challengers, **baselines}
        if len(named) < 2:
            raise InputError(f"{len(named)} system given, expected at least two to compare")
        text = read_prompt(rules.prompt or PROMPTS / f"{PROMPT}.txt", FIELDS)
        everyone = {name: read(get_captions(one), reading=reading) for name, one in named.items()}
        for name in challengers.keys() & baselines.keys():
            own = read(get_captions(challengers[name]), reading=reading)
            if own.ids != everyone[name].ids or list(own.candidates) != list(everyone[name].candidates):
                raise InputError(f"{name}: a system and a baseline of this name differ, expected two names")
        sets = align_systems(everyone, reading.missing)
        _refuse_several(sets)
        opponents = EVERYBODY
        if baselines:
            assigned = None if rules.assign is None else _read_assignment(sets, rules.assign, tuple(baselines))
            opponents = Opponents(tuple(challengers), tuple(baselines), assigned)
        setup = JudgeSetup(judge if isinstance(judge, Judge) else load_judge(judge), {PROMPT: text})
        matches = draw(sets, rules.comparisons, resampling.seed, opponents, rules.orders)
        return cls(sets, setup, matches, opponents, rules)

    def compare(self, resampling: Resampling) -> Arena:
        """Ask the judge, and return the result. Nothing is asked before this."""
        judge, first = self.setup.judge, next(iter(self.sets.values()))
        before = replace(judge.usage)
        pictures = first.has_videos or any(image is not None for image in first.images)
        blind = pictures and not judge.can("images")
        frames = describe_frames(first) if first.has_videos and not blind else {}
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
            *(f"{key}:{value}" for key, value in frames.items()),
            f"schema:{'followed' if schema else 'ignored'}",
            *(f"comparisons:{len(matches)}{drawn}", f"unjudged:{len(unjudged)}", f"items:{len(first)}"),
            *(f"data:{first.fingerprint:016x}"[:13], resampling.signature(), rank_signature(resampling.level)),
            f"captious:{__version__}",
        ]
        usage = f"{judge.model}: {judge.usage.since(before).line(judge.judging.prices)}"
        return Arena(
            self.sets, tuple(matches), "|".join(parts), usage, resampling, blind, self.opponents, self.rules.elo
        )


def _read_assignment(sets: Mapping[str, CaptionSet], column: str, baselines: Sequence[str]) -> tuple[str, ...]:
    """Return the baseline of each item, from the column of the first system that has it."""
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
