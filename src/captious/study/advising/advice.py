"""Advice on metrics: what evidence says about captions like these, and what is unknown, as a document."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, TypeAlias

from captious.metrics.cider import SIGMA
from captious.metrics.contract import Metric
from captious.options import LEVEL
from captious.render import Column, Document, Result, Section, Table, Text
from captious.render.answers import join_names
from captious.render.document import Value
from captious.stats.ranks import Ranks, format_ranks, rank_note, shared_ranks
from captious.study._statistic_columns import get_label, get_scaled_label
from captious.study.advising._profile import CaptionProfile
from captious.study.evidence import BASELINES, UNPUBLISHED, EvidenceRow, Kind, find_headline, find_shipped

Purpose: TypeAlias = Literal["ratings", "pairs", "systems", "checkpoints"]
Domain: TypeAlias = Literal["photographs", "video", "audio", "generated images", "drawn scenes"]
# The kinds of evidence for each purpose, the one that answers the question first.
KINDS: Mapping[str, tuple[Kind, ...]] = {
    "ratings": ("ratings", "pairs", "systems"),
    "pairs": ("pairs", "ratings", "systems"),
    "systems": ("systems", "ratings", "pairs"),
    "checkpoints": ("systems", "ratings", "pairs"),
}


# CIDEr-D scores captions of this many words near 0; the difference in words of the example that shows it.
LONG, FAR = 61, 20
# Advice if no metric is proven.
ASK = (
    "captious studio new collects ratings; captious study estimate gets people's verdict from few of them (captious "
    "study plan says how few), and captious study run says whether a judge or a metric agrees with them."
)


@dataclass(frozen=True)
class EvidenceSet:
    """The evidence of one data set and kind."""

    name: str
    kind: Kind
    rows: tuple[EvidenceRow, ...]

    @cached_property
    def headline(self) -> str:
        """The statistic that ranks the metrics."""
        return find_headline(self.rows)

    @cached_property
    def ranked(self) -> Mapping[str, EvidenceRow]:
        """The headline of each metric that was computed, the best first; those without a test come last."""
        rows = [row for row in self.rows if row.statistic == self.headline and row.source != "printed"]
        return {row.metric: row for row in sorted(rows, key=lambda row: (row.ranks is None, -row.value))}

    @cached_property
    def printed(self) -> Mapping[str, EvidenceRow]:
        """The headline of each metric that is printed and was not computed, the best first."""
        rows = [row for row in self.rows if row.statistic == self.headline and row.source == "printed"]
        return {row.metric: row for row in sorted(rows, key=lambda row: -row.value) if row.metric not in self.ranked}

    @property
    def simulated(self) -> bool:
        """Whether the raters are simulated: then it says nothing about people."""
        return "simulated" in self.name

    def order(self, metrics: Sequence[str]) -> str:
        """Write the metrics in their order: = the same ranks, ≥ a rank in common, > none; untested ones have no sign.

        >>> common = dict(kind="ratings", domain="", language="", caption_words=9, references=5, items=9, signature="")
        >>> common |= dict(low=None, high=None, source="computed", where="", recipe="", date="", statistic="tau_b")
        >>> ranks = (("cider", (1,), 0.5), ("meteor", (2,), 0.4), ("rouge", (2, 3), 0.3), ("bleu", (3,), 0.2))
        >>> rows = [EvidenceRow("d", metric=m, ranks=r, value=v, **common) for m, r, v in ranks]
        >>> EvidenceSet("d", "ratings", tuple(rows)).order(["meteor", "cider", "rouge", "bleu"])
        'CIDEr-D > METEOR ≥ ROUGE-L ≥ BLEU-4'
        """
        rows, ranks, text = self._select(metrics), self.rank(metrics), ""
        for before, row in zip([None, *rows], rows, strict=False):
            sign = "" if before is None else _sign(ranks.get(before.metric), ranks.get(row.metric))
            text += sign + row.label
        return text

    def rank(self, metrics: Sequence[str]) -> dict[str, Ranks]:
        """Return the ranks of some metrics among each other: they begin at 1 and have no gap.

        >>> common = dict(kind="ratings", domain="", language="", caption_words=9, references=5, items=9, signature="")
        >>> common |= dict(low=None, high=None, source="computed", where="", recipe="", date="", statistic="tau_b")
        >>> ranks = (("cider", (1,), 0.5), ("meteor", (2,), 0.4), ("rouge", (2, 3), 0.3), ("bleu", (3,), 0.2))
        >>> rows = [EvidenceRow("d", metric=m, ranks=r, value=v, **common) for m, r, v in ranks]
        >>> EvidenceSet("d", "ratings", tuple(rows)).rank(["meteor", "rouge", "bleu"])
        {'meteor': (1,), 'rouge': (1, 2), 'bleu': (2,)}
        """
        rows = {row.metric: row.ranks for row in self._select(metrics) if row.ranks is not None}
        apart = [pair for pair in combinations(rows, 2) if not _share_rank(rows[pair[0]], rows[pair[1]])]
        return shared_ranks(list(rows), apart)

    def _select(self, metrics: Sequence[str]) -> list[EvidenceRow]:
        return [row for metric, row in self.ranked.items() if metric in metrics]


@dataclass(frozen=True)
class MetricAdvice:
    """One metric of the evidence, and what it takes to use it."""

    metric: str
    label: str
    ranks: Mapping[str, Ranks | None]
    """The ranks by data set."""
    values: Mapping[str, float]
    needs: tuple[str, ...]
    missing: tuple[str, ...]
    """The inputs of the metric that the captions do not have."""
    seconds: float | None = None
    """The time for all items here, from some of them; None if it was not run."""
    calls: int | None = None
    """Questions to a chat model and the tokens of questions and answers, by a dry run."""
    tokens: int | None = None
    cost: float | None = None
    """The cost in the currency of the prices; None without prices."""
    over_budget: bool = False

    @property
    def effort(self) -> str:
        """The cost of the metric, in words."""
        if self.calls is not None:
            price = "" if self.cost is None else f", {self.cost:,.2f} USD"
            budget = ", over the budget" if self.over_budget else ""
            return f"{self.calls:,} calls of {self.tokens:,} tokens{price}{budget}"
        if self.seconds is not None:
            return "< 0.1 s" if self.seconds < 0.1 else f"{self.seconds:.1f} s"
        return "not timed"


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Result):
    """Which metrics to trust for some captions, as far as evidence says it."""

    profile: CaptionProfile
    purpose: Purpose
    near: tuple[EvidenceSet, ...]
    """The evidence on captions like these, the nearest first."""
    usable: tuple[MetricAdvice, ...]
    """Metrics that can be run on these captions, in the order of the nearest evidence."""
    others: tuple[MetricAdvice, ...]
    """Metrics with evidence that need more than these captions have."""
    untested: tuple[str, ...]
    items_needed: tuple[str, ...]
    stress: tuple[str, ...] = ()
    """Stress edits that matter for the question, and fail."""
    neighbors: tuple[Advice, ...] = ()
    """If nothing was tested on captions of this length: the advice for shorter and longer ones."""

    def __repr__(self) -> str:
        best = ", ".join(one.label for one in self.best) or "no evidence"
        return f"<Advice for {self.purpose}: {best}>"

    @property
    def deciding(self) -> EvidenceSet | None:
        """The nearest evidence that ranks metrics by ratings of people; None if there is none."""
        ranked = (one for one in self.near if any(row.ranks is not None for row in one.ranked.values()))
        return next((one for one in ranked if not one.simulated), None)

    @property
    def best(self) -> tuple[MetricAdvice, ...]:
        """The metrics of the best rank that can be run and paid, and that agree with people better than word counts."""
        if self.deciding is None:
            return ()
        first = self.deciding.name
        best = max(self._proven, key=lambda one: one.values[first], default=None)
        return tuple(one for one in self._proven if best and _share_rank(one.ranks[first], best.ranks[first]))

    @property
    def _proven(self) -> list[MetricAdvice]:
        """The metrics that can be run and paid, and that are significantly better than counting words."""
        if self.deciding is None:
            return []
        first = self.deciding.name
        floor = self.deciding.ranked.get("words")
        metrics = [one for one in self.usable if one.metric not in BASELINES and one.ranks.get(first) is not None]
        if floor is not None:
            metrics = [one for one in metrics if one.values[first] > floor.value]
            metrics = [one for one in metrics if not _share_rank(one.ranks[first], floor.ranks)]
        return [one for one in metrics if not one.over_budget]

    @property
    def reported(self) -> tuple[MetricAdvice, ...]:
        """The metrics to report: the best one, and the best one that needs no model, which anyone can compute again."""
        if not self.best or self.deciding is None:
            return ()
        first = self.deciding.name
        ordered = sorted(self._proven, key=lambda one: -one.values[first])
        light = next((one for one in ordered if {*one.needs} <= {"references"}), None)
        return (ordered[0], light) if light and light is not ordered[0] else (ordered[0],)

    @property
    def recommendation(self) -> str:
        """The advice, as a sentence without a subject."""
        if self.reported:
            return f"report {join_names([one.label for one in self.reported])}"
        return "no metric here is proven; ask people, or use a judge and audit it"

    def list_reasons(self) -> list[str]:
        """Return what the recommendation rests on, and what to avoid, in plain sentences."""
        sentences = [self._explain_best()] if self.reported else self._explain_missing_recommendation()
        if self.profile.words is not None and self.profile.words >= LONG:
            sentences.append(
                f"Not CIDEr-D: a caption {FAR} words longer than its reference keeps "
                f"{100 * math.exp(-(FAR**2) / (2 * SIGMA**2)):.1f} % of its score, so long captions are erased."
            )
        return sentences

    def _explain_best(self) -> str:
        deciding = self.deciding
        assert deciding is not None
        best, *others = self.reported
        value = f"{get_scaled_label(deciding.headline)} is {100 * best.values[deciding.name]:.1f}"
        if deciding.kind == "pairs":
            value = f"it prefers the right one in {100 * best.values[deciding.name]:.1f} % of the pairs"
        equal = [one.label for one in self.best if one is not best and one not in others]
        same = f"; no test distinguishes it from {join_names(equal)}" if equal else ""
        light = "" if not others else f" {others[0].label} is the best that needs no model."
        if others and others[0] in self.best:
            light = f" {others[0].label} needs no model, and no test distinguishes the two."
        wanted = KINDS[self.purpose][0]
        only = "" if deciding.kind == wanted else f" That is evidence on {deciding.kind}, not on {wanted}."
        start = f"On {deciding.name} ({_describe_facts(deciding)}), {best.label} agrees best with people"
        top = next(iter(deciding.ranked.values()))
        # The metric that is first on these data may need more than the captions have.
        unusable = next((one for one in self.others if one.metric == top.metric), None)
        if unusable is not None and not _share_rank(top.ranks, best.ranks[deciding.name]):
            start = start.replace("agrees best with people", "is the best that you can run")
            light += f" {unusable.label} agrees better with people, but needs {_format_missing(unusable.missing)}."
        return f"{start} ({value}{same}).{light}{only}"

    def _explain_missing_recommendation(self) -> list[str]:
        """Return why no metric is recommended: nothing beats counting words, more is needed, or nobody has tested."""
        if self.deciding is not None:
            floor = self.deciding.ranked.get("words")
            what = "agrees with people better than counting words" if floor else "was tested"
            sentences = [
                f"On {self.deciding.name} ({_describe_facts(self.deciding)}), no metric that you can run {what}."
            ]
        elif any(one.simulated for one in self.near):
            sentences = ["The only ranks on such captions come from simulated raters."]
        elif self.near:
            sentences = ["There are printed numbers on such captions, but no tests."]
        else:
            sentences = ["There is no evidence on captions of this length, language and kind."]
            sentences += [one._describe_as_neighbor() for one in self.neighbors]
        return [*sentences, *self._describe_more()]

    def _describe_as_neighbor(self) -> str:
        """Return the advice in a short sentence, for captions of another length."""
        advice = self.recommendation if self.reported else "no metric is proven there either"
        return f"{self.profile.situation}: {advice}."

    def _describe_more(self) -> list[str]:
        """Return which metric would be proven with inputs that the captions do not have."""
        deciding = self.deciding
        if deciding is None:
            return []
        floor = deciding.ranked.get("words")
        more = [
            one for one in self.others if one.ranks.get(deciding.name) and {*one.missing} <= {"image", "references"}
        ]
        more = [one for one in more if floor is None or one.values[deciding.name] > floor.value]
        best: dict[str, MetricAdvice] = {}
        for one in sorted(more, key=lambda one: -one.values[deciding.name]):
            best.setdefault(_format_missing(one.missing), one)
        listed = [f"with {needs}, {one.label}" for needs, one in best.items()]
        return [f"With more inputs there is one: {'; '.join(listed)}."] if listed else []

    def document(self) -> Document:
        """Build the document: the captions, the order of the metrics with what is equal, what was never tested, what is
        needed.
        """
        sections: list[Section] = [Text([self.profile.sentence, *self._list_orders()])]
        sections += self._build_usable_tables()
        if self.others:
            sections.append(self._build_other_table())
        if printed := self._build_printed_table():
            sections.append(printed)
        if self.untested:
            sections.append(Text(self.untested, "Never tested", bullets=True))
        if self.stress:
            sections.append(Text(self.stress, "Stress edits that fail", bullets=True))
        if self.items_needed:
            sections.append(Text(self.items_needed, "How many items", bullets=True))
        sections.append(Text(self._next_steps(), "Next", bullets=True))
        return Document(
            f"Which metric for {self.purpose}",
            "From evidence on published data; nothing is assumed beyond it.",
            sections,
            data=self._data(),
            name="advice",
            answer=self._answer(),
        )

    def _answer(self) -> str:
        """Return the plain answer: what to report for such captions, why, and whom to ask if nothing is proven."""
        sentences = [f"{self.profile.situation}: {self.recommendation}.", *self.list_reasons()]
        return " ".join([*sentences, *([] if self.reported else [ASK])])

    def _list_orders(self) -> list[str]:
        """Describe the nearest evidence, and the order of the metrics on it."""
        if not self.near:
            return []
        lines = []
        for one in self.near:
            metrics = [advised.metric for advised in self.usable if advised.metric in one.ranked]
            order = one.order(metrics)
            if {*metrics} - {*BASELINES}:
                lines.append(f"{one.name} ({_describe_facts(one)}): {order}")
        if not lines:
            return ["The evidence on captions like these is on metrics that need more than you have."]
        lines.append("=: the same rank; ≥: they share a rank, no test distinguishes them; >: they share none")
        return [*lines, *self._list_better_elsewhere()]

    def _list_better_elsewhere(self) -> list[str]:
        """List metrics that the deciding data do not have, and that are ahead of the best ones on other data."""
        if self.deciding is None or not self.best:
            return []
        first = self.deciding.name
        untested = [one for one in self.usable if first not in one.values and one.metric not in BASELINES]
        lines = []
        for near in self._measured:
            best = [one for one in self.best if one.ranks.get(near.name) is not None]
            ahead = [one.label for one in untested if best and all(_is_ahead(one, other, near.name) for other in best)]
            if ahead:
                names = ", ".join(one.label for one in best)
                lines.append(f"not tested on {first}, but ahead of {names} on {near.name}: {', '.join(ahead)}")
        return lines

    def _build_usable_tables(self) -> list[Section]:
        """Build the tables of what each metric costs, with its rank on the nearest data; then its ranks on the other
        data.
        """
        if not self.usable:
            return []
        nearest, *others = self._measured
        shown = [one.metric for one in self.usable]
        ranks = {
            near.name: {metric: format_ranks(own) for metric, own in near.rank(shown).items()}
            for near in self._measured
        }
        columns: list[Column | str] = ["metric", Column("rank", "text"), _make_value_column(nearest), "needs", "takes"]
        rows: list[list[Value]] = [
            [
                one.label,
                ranks[nearest.name].get(one.metric, "–"),
                one.values.get(nearest.name),
                ", ".join(one.needs) or "nothing",
                one.effort,
            ]
            for one in self.usable
        ]
        note = rank_note("metrics", LEVEL, "permutation test on those data")
        if any(one.metric in BASELINES for one in self.usable):
            note += f"; {' and '.join(BASELINES.values())}: a baseline, not a metric"
        tables: list[Section] = [Table("metrics", f"Metrics in the order of {nearest.name}", columns, rows, note)]
        if others:
            heads: list[Column | str] = ["metric"]
            heads += [Column(f"{one.name} {get_label(one.headline)}", "text", key=one.name) for one in others]
            cells: list[list[Value]] = [
                [one.label, *(_format_ranked_value(one, near, ranks[near.name]) for near in others)]
                for one in self.usable
            ]
            tables.append(Table("further", "The same metrics on other data: rank and value", heads, cells))
        return tables

    @property
    def _measured(self) -> list[EvidenceSet]:
        """The evidence with metrics that were computed, not only printed in a paper; the nearest first."""
        return [near for near in self.near if near.ranked]

    def _build_other_table(self) -> Table:
        """Build the table of what each metric needs and the captions do not have, with its rank on the nearest data."""
        rows: list[list[Value]] = []
        for one in self.others:
            near = next(near for near in self._measured if near.name in one.values)
            value = f"{get_label(near.headline)} {100 * one.values[near.name]:.1f}"
            rows.append([one.label, near.name, _format_rank(one, near), value, ", ".join(one.missing)])
        columns: list[Column | str] = ["metric", "data", Column("rank", "text"), Column("value", "text"), "missing"]
        return Table("more", "With more than you have", columns, rows)

    def _build_printed_table(self) -> Table | None:
        """Build the table of published numbers on such captions for metrics that were not computed."""
        rows: list[list[Value]] = []
        sources: dict[str, dict[str, None]] = {}
        for one in self.near:
            for metric, row in one.printed.items():
                missing = ", ".join(list_missing_inputs(find_shipped(metric), self.profile))
                rows.append([row.label, one.name, get_label(row.statistic), row.value, missing or "nothing"])
                sources.setdefault(row.where, {})[one.name] = None
        if not rows:
            return None
        columns: list[Column | str] = [
            "metric",
            "data",
            "statistic",
            Column("printed", scale=100, decimals=1),
            "missing",
        ]
        places = [f"{', '.join(names)}: {where}" for where, names in sources.items()]
        note = "printed numbers have no interval and no rank, and this is no order; " + "; ".join(places)
        return Table("printed", "Printed in papers", columns, rows, note)

    def _next_steps(self) -> list[str]:
        """List the commands to type next."""
        steps = []
        if self.best:
            names = ",".join(one.metric for one in self.best)
            verb = "compare" if len(self.profile.systems) > 1 else "score"
            steps.append(f'captious {verb} … --metrics "{names}"')
        if not self.best or self.untested:
            steps.append(
                "judgments of your own settle it: captious studio new collects them, and captious study run says which "
                "metric agrees with your raters"
            )
        return [*steps, "captious study leaderboard prints all evidence"]

    def _data(self) -> dict[str, Any]:
        return {
            "purpose": self.purpose,
            "captions": asdict(self.profile),
            "evidence": [
                {"dataset": one.name, "kind": one.kind, "statistic": one.headline, "order": one.order(list(one.ranked))}
                for one in self.near
            ],
            "best": [one.metric for one in self.best],
            "metrics": [asdict(one) for one in self.usable],
            "need_more": [asdict(one) for one in self.others],
            "untested": self.untested,
            "stress": self.stress,
            "items": self.items_needed,
        }


def _make_value_column(one: EvidenceSet) -> Column:
    return Column(get_label(one.headline), scale=100, decimals=1)


def _share_rank(one: Ranks | None, other: Ranks | None) -> bool:
    return bool({*(one or ())} & {*(other or ())})


def _sign(before: Ranks | None, after: Ranks | None) -> str:
    """Return the sign between two metrics that follow each other in the order of a data set."""
    if before is None or after is None:
        return "; "
    return " = " if before == after else " ≥ " if _share_rank(before, after) else " > "


def _is_ahead(one: MetricAdvice, other: MetricAdvice, dataset: str) -> bool:
    """Return True if a metric is significantly better than another on some data."""
    ranks = [metric.ranks.get(dataset) for metric in (one, other)]
    return None not in ranks and not _share_rank(*ranks) and one.values[dataset] > other.values[dataset]


def _format_rank(metric: MetricAdvice, one: EvidenceSet) -> str:
    ranks = metric.ranks.get(one.name)
    return "–" if ranks is None else format_ranks(ranks)


def _format_ranked_value(metric: MetricAdvice, one: EvidenceSet, ranks: Mapping[str, str]) -> str:
    """Format the rank and the value of a metric in a cell; a dash if it was not tested."""
    if one.name not in metric.values:
        return "–"
    return f"{ranks.get(metric.metric, '–')}: {100 * metric.values[one.name]:.1f}"


def _describe_facts(one: EvidenceSet) -> str:
    """Describe the size of the evidence: captions, their mean length, and their references."""
    row = one.rows[0]
    what = "captions" if one.kind == "ratings" else one.kind
    number = row.references
    references = "" if number is None else f", {f'{number:.0f}' if number else 'no'} reference{'s' * (number != 1)}"
    return f"{row.items:,} {what} of {row.caption_words:.0f} words{references}"


def _format_missing(needs: Sequence[str]) -> str:
    """Return what is missing as an object of a sentence, such as references and images."""
    words = {"not shipped with captious": "a program that captious does not have", "image": "images"}
    return " and ".join(words.get(need, need) for need in needs)


def list_missing_inputs(metric: Metric | None, profile: CaptionProfile) -> tuple[str, ...]:
    """List what a metric needs and the captions do not have; for None, a metric that captious does not have, say so."""
    if metric is None:
        return ("not shipped with captious",)
    if metric.name == "spice_original":
        return ("the original's output",)
    if (weights := str(getattr(metric, "weights", ""))) in UNPUBLISHED:
        return (UNPUBLISHED[weights],)
    has = {"references": profile.references > 0, "image": profile.images}
    # The profile does not describe these; everything else that metrics need, such as a model, can be installed.
    unknown = {"several candidates", "style", "objects"}
    return tuple(need for need in metric.needs if not has.get(need, need not in unknown))
