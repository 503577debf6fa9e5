"""Advice on metrics: what evidence says about captions like these, and what is unknown, as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from captious.metrics.contract import Metric
from captious.options import LEVEL
from captious.render import Column, Document, Result, Section, Table, Text
from captious.render.document import Value
from captious.stats.ranks import Ranks, format_ranks, rank_note
from captious.study._columns import get_label
from captious.study._profile import CaptionProfile
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

    def order(self, metrics: Sequence[str]) -> str:
        """Write the metrics in their order: = the same ranks, ≥ a rank in common, > none; untested ones have no sign.

        >>> common = dict(kind="ratings", domain="", language="", caption_words=9, references=5, items=9, signature="")
        >>> common |= dict(low=None, high=None, source="computed", where="", recipe="", date="", statistic="tau_b")
        >>> ranks = (("cider", (1,), 0.5), ("meteor", (2,), 0.4), ("rouge", (2,), 0.3), ("bleu", (2, 3), 0.2))
        >>> rows = [EvidenceRow("d", metric=m, ranks=r, value=v, **common) for m, r, v in ranks]
        >>> EvidenceSet("d", "ratings", tuple(rows)).order(["meteor", "cider", "rouge", "bleu"])
        'CIDEr-D > METEOR = ROUGE-L ≥ BLEU-4'
        """
        rows = [row for metric, row in self.ranked.items() if metric in metrics]
        text = ""
        for before, row in zip([None, *rows], rows, strict=False):
            text += ("" if before is None else _sign(before.ranks, row.ranks)) + row.label
        return text


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
    """What the captions do not have of it."""
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
        """What it takes, in words."""
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

    def __repr__(self) -> str:
        best = ", ".join(one.label for one in self.best) or "no evidence"
        return f"<Advice for {self.purpose}: {best}>"

    @property
    def deciding(self) -> EvidenceSet | None:
        """The nearest evidence with ranks; None if no test ranks the metrics."""
        return next((one for one in self.near if any(row.ranks is not None for row in one.ranked.values())), None)

    @property
    def best(self) -> tuple[MetricAdvice, ...]:
        """The metrics of the best rank that can be run and paid, and that agree with people better than word counts."""
        if self.deciding is None:
            return ()
        first = self.deciding.name
        floor = next((one.values[first] for one in self.usable if one.metric == "words" and first in one.values), None)
        metrics = [one for one in self.usable if one.metric not in BASELINES and one.ranks.get(first) is not None]
        above = [one for one in metrics if not one.over_budget and (floor is None or one.values[first] > floor)]
        best = max(above, key=lambda one: one.values[first], default=None)
        return tuple(one for one in above if best is not None and _share_rank(one.ranks[first], best.ranks[first]))

    def document(self) -> Document:
        """Build the document: the captions, the order of the metrics with what is equal, what was never tested, what is
        needed.
        """
        sections: list[Section] = [Text([self.profile.sentence, *self._verdict()])]
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
        )

    def _verdict(self) -> list[str]:
        """Describe the nearest evidence, and the order of the metrics on it."""
        if not self.near:
            return ["There is no evidence on captions like these, so no metric is recommended."]
        lines = []
        for one in self.near:
            metrics = [advised.metric for advised in self.usable if advised.metric in one.ranked]
            order = one.order(metrics)
            if {*metrics} - {*BASELINES}:
                lines.append(f"{one.name} ({_describe_facts(one)}): {order}")
        if not lines:
            return ["The evidence on captions like these is on metrics that need more than you have."]
        lines.append("=: the same rank; ≥: they share a rank, no test distinguishes them; >: they share none")
        lines += self._list_better_elsewhere()
        if not self.best and self.deciding is not None:
            lines.append(
                f"On {self.deciding.name} no metric that you can run agrees with people better than counting words: "
                "none is recommended."
            )
        return lines

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
        columns: list[Column | str] = ["metric", Column("rank", "text"), _make_value_column(nearest), "needs", "takes"]
        rows: list[list[Value]] = [
            [
                one.label,
                _rank(one, nearest),
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
                [one.label, *(_format_ranked_value(one, near) for near in others)] for one in self.usable
            ]
            tables.append(Table("further", "The same metrics on other data: rank and value", heads, cells))
        return tables

    @property
    def _measured(self) -> list[EvidenceSet]:
        """The evidence with numbers of ours, the nearest first."""
        return [near for near in self.near if near.ranked]

    def _build_other_table(self) -> Table:
        """Build the table of what each metric needs and the captions do not have, with its rank on the nearest data."""
        rows: list[list[Value]] = []
        for one in self.others:
            near = next(near for near in self._measured if near.name in one.values)
            value = f"{get_label(near.headline)} {100 * one.values[near.name]:.1f}"
            rows.append([one.label, near.name, _rank(one, near), value, ", ".join(one.missing)])
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
    """Return what stands between two metrics that follow each other in the order of a data set."""
    if before is None or after is None:
        return "; "
    return " = " if before == after else " ≥ " if _share_rank(before, after) else " > "


def _is_ahead(one: MetricAdvice, other: MetricAdvice, dataset: str) -> bool:
    """Return True if a metric is significantly better than another on some data."""
    ranks = [metric.ranks.get(dataset) for metric in (one, other)]
    return None not in ranks and not _share_rank(*ranks) and one.values[dataset] > other.values[dataset]


def _rank(metric: MetricAdvice, one: EvidenceSet) -> str:
    ranks = metric.ranks.get(one.name)
    return "–" if ranks is None else format_ranks(ranks)


def _format_ranked_value(metric: MetricAdvice, one: EvidenceSet) -> str:
    """Format the rank and the value of a metric in a cell; a dash if it was not tested."""
    if one.name not in metric.values:
        return "–"
    return f"{_rank(metric, one)}: {100 * metric.values[one.name]:.1f}"


def _describe_facts(one: EvidenceSet) -> str:
    """Describe how many captions of which length with how many references."""
    row = one.rows[0]
    what = "captions" if one.kind == "ratings" else one.kind
    number = row.references
    references = "" if number is None else f", {f'{number:.0f}' if number else 'no'} reference{'s' * (number != 1)}"
    return f"{row.items:,} {what} of {row.caption_words:.0f} words{references}"


def list_missing_inputs(metric: Metric | None, profile: CaptionProfile) -> tuple[str, ...]:
    """List what a metric needs that the captions do not have; a metric that captious does not have needs itself."""
    if metric is None:
        return ("not shipped with captious",)
    if metric.name == "spice_original":
        return ("the original's output",)
    if (weights := str(getattr(metric, "weights", ""))) in UNPUBLISHED:
        return (UNPUBLISHED[weights],)
    has = {"references": profile.references > 0, "image": profile.images}
    unknown = {"several candidates", "style", "objects"}
    return tuple(need for need in metric.needs if not has.get(need, need not in unknown))
