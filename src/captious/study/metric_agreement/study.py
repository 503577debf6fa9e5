"""A study: metrics against people, as a document."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from captious._core.types import Floats, Ints
from captious.captions import ImageData
from captious.render import (
    Answer,
    Cell,
    Chart,
    Column,
    Document,
    Entry,
    Evidence,
    Figure,
    Gallery,
    Group,
    Line,
    Meter,
    Picture,
    Result,
    Section,
    Series,
    Table,
    Text,
    link,
    name_several,
    open_evidence,
)
from captious.render.answers import count_noun, join_names
from captious.render.document import Value
from captious.render.exports import write_jsonl
from captious.runs.report import join_signatures
from captious.stats.bootstrap import warn_few_units
from captious.stats.correlation import spearman
from captious.stats.kendall import Kendall
from captious.stats.pairwise import PRIOR, bradley_terry, count_wins
from captious.stats.ranks import format_ranks, rank_breaks, rank_note
from captious.study._design import BY_RATER, Pairs, RatingRows
from captious.study._statistic_columns import (
    estimates_series,
    explain_columns,
    get_label,
    get_scaled_label,
    list_left_out,
    make_column,
)
from captious.study.judgments import Preferences, Ratings
from captious.study.metric_agreement._analysis import Analysis
from captious.study.ranking._systems import systems
from captious.study.ranking.system_ranking import SystemRanking
from captious.study.scores import MetricScores, list_notes

# Items drawn in a scatter; more would only make the page slower.
DOTS = 3000
# Largest number of items whose dots open with their picture; more pictures would make the page too large.
PICTURES = 300
BETWEEN_SYSTEMS = ("system_tau", "system_pearson")


@dataclass(frozen=True, eq=False, repr=False)
class Study(Analysis, Result):
    """Which metrics agree with people, with intervals, tests and ranks."""

    machines: Study | None = None
    """The same study without the captions that people wrote, if the recipe names their system."""

    def __repr__(self) -> str:
        return f"<Study {PurePath(self.ratings.name).name}: {', '.join(self.labels.values())} by {self.statistic}>"

    @cached_property
    def people(self) -> SystemRanking | None:
        """Which system people prefer, as ``captious.study.systems`` says it; None if systems are not known."""
        ratings = self.ratings
        if isinstance(ratings, Ratings):
            known = ratings.systems is not None and len({*ratings.systems}) > 1
        else:  # the answers of pairs are not filtered
            known = ratings.systems is not None and not self.where
        return systems(ratings, resampling=self.resampling) if known else None

    def document(self) -> Document:
        """Build the document: table of metrics, protocol, tables of systems and tests; forest plot, scatters, and the
        largest disagreements.
        """
        title = f"{PurePath(self.ratings.name).name}: agreement with people"
        sections: list[Section] = [self._build_metrics_table("metrics", title)]
        if self.protocol:
            sections.append(Text(self.protocol))
        if self.machines is not None:
            rows = f"{self.machines.rows:,} of {self.rows:,} rows"
            sections.append(self.machines._build_metrics_table("machines", f"{self.machines.ratings.name}: {rows}"))
        sections += self._build_system_tables()
        if self.machines is not None:
            title = f"Between the other systems, without {self.machines.ratings.name.rsplit(' without ', 1)[1]}"
            sections += [
                replace(table, key="machine_systems", title=title)
                for table in self.machines._build_system_tables(linked=False)[:1]
            ]
        sections.append(self._build_forest())
        if self.contests:
            sections.append(self._build_contests_table())
        if self.people is not None:
            sections += self.people.sections()
        sections += [*self._build_scatters(), *self._build_gallery(), self._build_full_table()]
        sections += [*self._build_metric_panels(), *self._build_item_panels()]
        return Document(
            title,
            "Which metric agrees with people, and which differences between metrics are real.",
            sections,
            self.warnings,
            self._notes(),
            (
                self.signature,
                *((self.machines.signature,) if self.machines is not None else ()),
                *((self.people.signature,) if self.people is not None else ()),
                *join_signatures(score.signature for score in self.scores if score.signature),
            ),
            self._data(),
            "study",
            answer=self._answer(),
            page=f"Agreement with people: {name_several([self.labels[key] for key in reversed(self.order)])} on "
            f"{PurePath(self.ratings.name).name}",
        )

    def _answer(self) -> Answer:
        """Return the plain answer: the metrics that agree best with people, how well, and which ones are worse."""
        best, column = self.order[0], make_column(self.statistic, level=self.resampling.level)
        size = count_noun(
            *((self.design.items, "caption") if isinstance(self.design, RatingRows) else (self.rows, "pair"))
        )
        headline, label = self.estimates[best][self.statistic], self.labels[best]
        if math.isnan(headline.value):
            return f"No metric has a {get_label(self.statistic)} with people on {size}."
        value: list[str | Figure] = [f"{get_scaled_label(self.statistic)} is ", Figure(headline, column), f" on {size}"]
        floor = self._chance
        if floor is not None and headline.low <= floor:
            includes = Figure(floor, replace(column, decimals=0))
            return [
                f"No metric is shown to agree with people: of {label}, the best, ",
                *value,
                ", and ",
                includes,
                " is chance.",
            ]
        if len(self.order) == 1:
            return [f"{label} agrees with people: ", *value, "."]
        equal = [self.labels[key] for key in self.order[1:] if {*self.ranks[best]} & {*self.ranks[key]}]
        worse = len(self.order) - 1 - len(equal)
        if not equal:
            others = {1: "the other metric is", 2: "both other metrics are"}
            rest = others.get(worse, f"all {worse} other metrics are")
            return [f"{label} agrees best with people: ", *value, f"; {rest} significantly worse."]
        rest = f"; {count_noun(worse, 'metric')} {'is' if worse == 1 else 'are'} significantly worse" if worse else ""
        return [
            f"{label} has the highest agreement with people: ",
            *value,
            f". No test distinguishes it from {join_names(equal)}{rest}.",
        ]

    @property
    def _chance(self) -> float | None:
        """The headline of a metric that has nothing to do with people; None if there is no such value."""
        if self.statistic in ("one_minus_r2", "r2", "r2_fitted") or not self.resampling.samples:
            return None
        return 0.5 if isinstance(self.design, Pairs) or self.statistic.startswith("accuracy") else 0.0

    def worst(self, number: int = 10, metric: str | None = None) -> Document:
        """Return the captions on which a metric and people disagree most; a notebook shows them with the images.

        Of ratings: the items whose rank differs most. Of pairs: where the metric most prefers the rejected caption.
        """
        key = self.key(metric) if metric else self.order[0]
        score = next(score for score in self.scores if score.key == key)
        label, captions = self.labels[key], self.ratings.captions
        disagreements = self._disagreements(score, number)
        title = f"{len(disagreements)} largest disagreements of {label} and people"
        rated = isinstance(self.design, RatingRows)
        columns: list[Column | str] = ["id" if rated else "preferred", Column(label, key=key)]
        columns += [Column("mean rating", decimals=2)] if rated else ["rejected", Column(label, key=f"{key}_rejected")]
        columns += ["caption"] if captions is not None and rated else []
        rows: list[list[Value]] = []
        for one in disagreements:
            first = [one["items"][0], one["values"][0]]
            text = [captions[one["items"][0]].candidate] if captions is not None and rated else []
            rows.append([*first, one["human"], *text] if rated else [*first, one["items"][1], one["values"][1]])
        sections: list[Section] = [Table("worst", title, columns, rows)]
        if captions is not None:
            entries = [_build_entry(one, [captions[item] for item in one["items"]], label) for one in disagreements]
            sections.append(Gallery(title, entries, replaces="worst"))
        return Document(title, sections=sections)

    def write_files(self, folder: Path) -> None:
        """Write the values and mean ratings of all items."""
        rows = (
            {"id": key, "scores": {score.key: score.values[index] for score in self.scores}}
            | ({"mean_rating": self.design.mean[index]} if isinstance(self.design, RatingRows) else {})
            for index, key in enumerate(self.ids)
        )
        write_jsonl(folder / "items.jsonl", rows)

    def _shown(self) -> list[str]:
        """List the statistics that the table prints, the headline first, then the other tau."""
        if isinstance(self.design, Pairs):
            return [self.statistic, *(name for name in self.design.families if name != self.statistic)]
        rest = (*BY_RATER, "tau_b", "tau_c", "spearman", "pearson", "sample_tau", "accuracy_eq", "one_minus_r2")
        return [self.statistic, *(name for name in rest if name in self.design.families and name != self.statistic)]

    def _build_metrics_table(self, key: str, title: str) -> Table:
        shown, rated = self._shown(), isinstance(self.design, RatingRows)
        columns: list[Column | str] = [Column("rank", "text"), "metric"]
        columns += [make_column(self.statistic, best=True, level=self.resampling.level, bold=True)]
        beside = 1 + max((shown.index(name) for name in ("tau_b", "tau_c") if name in shown), default=len(shown) - 1)
        columns += [make_column(name, best=True) for name in shown[1:beside]]
        columns.append(Column("ties", scale=100, decimals=1, unit="%"))
        columns += [make_column(name, best=True) for name in shown[beside:]]
        columns += [Column("τ=0: p", "p", key="p_zero")] if rated else []
        lacking = any(self.missing.values())
        columns += [Column("missing")] if lacking else []
        best = {*self.ranks[self.order[0]]}
        marked = {key for key in self.order[1:] if best & {*self.ranks[key]}}
        rows: list[list[Value]] = []
        for metric in self.order:
            estimates = self.estimates[metric]
            rows.append(
                [
                    format_ranks(self.ranks[metric]),
                    link(self.labels[metric], self._open_metric(metric) if key == "metrics" else ""),
                    Cell.of(estimates[self.statistic], "†" if metric in marked else ""),
                    *(estimates[name].value for name in shown[1:beside]),
                    self.ties[metric][0],
                    *(estimates[name].value for name in shown[beside:]),
                    *([self.test_against_zero(metric)["tau"]] if rated else []),
                    *([self.missing[metric]] if lacking else []),
                ]
            )
        notes = [explain_columns(shown), f"ties: {'row ' if rated else ''}pairs that the metric ties"]
        notes += ["τ=0: p: of no association, normal approximation over rows"] if rated else []
        if key != "metrics":
            notes = []  # those of the first table explain both
        notes += ["†: does not differ significantly from the best"] if marked else []
        notes.append(rank_note("metrics", self.resampling.level, f"{self.test} test"))
        note = f"{'; '.join(notes)}." if notes else ""
        if key == "metrics":
            note = f"{note} {self.resampling.sentence('images')}".rstrip()
        return Table(key, title, columns, rows, note, rank_breaks([*self.ranks.values()]))

    def _build_system_tables(self, linked: bool = True) -> list[Table]:
        """Build the tables of the correlations between systems, and of the means that they are of.

        ``linked`` metrics open their disagreements, which are on the page of the whole study only.
        """
        design = self.design
        if isinstance(design, Pairs):
            return self._pair_system_tables(design)
        if not self.soft or design.system is None:
            return []
        level = self.resampling.level
        note = explain_columns([*BETWEEN_SYSTEMS, "soft"])
        if len(design.systems) == 2:
            note += "; two systems have no other correlation than 1 and −1"
        between = Table(
            "systems",
            f"Between the {len(design.systems)} systems",
            [
                "metric",
                *(make_column(name, best=True, level=level) for name in BETWEEN_SYSTEMS),
                make_column("soft", best=True),
            ],
            [
                [
                    link(self.labels[key], self._open_metric(key) if linked else ""),
                    *(Cell.of(self.estimates[key][name]) for name in BETWEEN_SYSTEMS),
                    self.soft[key],
                ]
                for key in self.order
            ],
            note,
        )
        number = np.bincount(design.system)
        sides = (design.mean, *(score.values for score in self.scores))
        means = [np.bincount(design.system, values) / number for values in sides]
        rows: list[list[Any]] = sorted(
            (
                [name, int(number[index]), *(float(side[index]) for side in means)]
                for index, name in enumerate(design.systems)
            ),
            key=lambda row: -row[2],
        )
        columns: list[Column | str] = ["system", Column("captions"), Column("rating", decimals=3)]
        columns += [Column(name, key=key) for key, name in self.labels.items()]
        return [between, Table("means", "Mean rating and mean values of each system", columns, rows)]

    def _pair_system_tables(self, design: Pairs) -> list[Table]:
        known = isinstance(self.ratings, Preferences) and self.ratings.pair_systems
        if not known:
            return []
        by_id = dict(zip(self.ratings.ids, (name for both in known for name in both), strict=True))
        systems = [by_id[key] for key in self.ids]
        table = _build_pair_systems_table(design, systems, self.scores, self.labels, self.order)
        return [] if table is None else [table]

    def _build_contests_table(self) -> Table:
        rated = isinstance(self.design, RatingRows)
        columns: list[Column | str] = ["better", "worse"]
        columns += [
            make_column(self.statistic, "difference", key="difference", level=self.resampling.level, signed=True)
        ]
        columns += [Column("permutation p", "p"), Column("bootstrap p", "p")]
        columns += [Column("Williams p", "p")] if rated else []
        columns.append(Column("Holm p", "p", bold=True))
        rows = [
            [
                self.labels[one.first],
                self.labels[one.second],
                Cell(one.difference, one.low, one.high),
                one.p_permutation,
                one.p_bootstrap,
                *([one.williams.p if one.williams else None] if rated else []),
                one.p_holm,
            ]
            for one in self.contests
        ]
        note = f"Holm p: of the {self.test} test, adjusted over all pairs."
        return Table("contests", "Each two metrics", columns, rows, note, detail=True)

    def _build_full_table(self) -> Group:
        """Build the table of every statistic of every metric, for a file."""
        heads = ("value", "low", "high", "error", "undefined_draws", "metric_ties", "human_ties", "rows", "items")
        columns: list[Column | str] = [
            "rank",
            "metric",
            "label",
            "statistic",
            *(Column(name) for name in (*heads, "missing")),
        ]
        rows: list[list[Value]] = [
            [
                *(format_ranks(self.ranks[key]), key, self.labels[key], name),
                *(e.value, e.low, e.high, e.error, e.undefined, *self.ties[key]),
                *(self.rows, self.design.items, self.missing[key]),
            ]
            for key in self.order
            for name, e in self.estimates[key].items()
        ]
        full = Table("study", "", columns, rows, detail=True)
        return Group("Every statistic", [full])

    def _build_forest(self) -> Chart:
        names = [self.labels[key] for key in self.order]
        estimates = [self.estimates[key][self.statistic] for key in self.order]
        return Chart(
            "intervals",
            [estimates_series(get_label(self.statistic), names, estimates, self.statistic)],
            get_scaled_label(self.statistic),
            "Neighbors of one shade do not differ significantly.",
            bands=[self.ranks[key][0] for key in self.order],
            hrefs={self.labels[key]: self._open_metric(key) for key in self.order},
        )

    @cached_property
    def _entries(self) -> dict[str, list[Entry]]:
        """The captions on which each metric and people disagree most."""
        captions = self.ratings.captions
        if captions is None:
            return {}
        entries = {
            key: [_build_entry(row, [captions[item] for item in row["items"]], self.labels[key]) for row in rows]
            for key, rows in self.disagreements().items()
        }
        return {key: own for key, own in entries.items() if own}

    def _open_metric(self, key: str) -> str:
        """Return the address of a metric's largest disagreements with people; empty without captions."""
        return open_evidence(f"metric-{list(self._entries).index(key)}") if key in self._entries else ""

    def _build_metric_panels(self) -> list[Evidence]:
        return [
            Evidence(f"metric-{number}", f"Where {self.labels[key]} and people disagree most", entries)
            for number, (key, entries) in enumerate(self._entries.items())
        ]

    @cached_property
    def _drawn(self) -> list[int]:
        """The items with a dot in the scatter charts: all, or a seeded part of them."""
        number = self.design.items
        if number <= DOTS:
            return list(range(number))
        return sorted(np.random.default_rng(0).permutation(number)[:DOTS].tolist())

    def _build_item_panels(self) -> list[Evidence]:
        """Return the caption of each dot, with what people and every metric say of it."""
        captions = self.ratings.captions
        if captions is None or not isinstance(self.design, RatingRows):
            return []
        panels = []
        for index in self._drawn:
            item = captions[self.ids[index]]
            facts = [f"mean rating {self.design.mean[index]:.3g}"]
            facts += [f"{score.label} {score.values[index]:.4f}" for score in self.scores]
            picture = _find_picture(item) if len(self._drawn) <= PICTURES else None
            entry = Entry(self.ids[index], [Line(item.candidate)], picture, facts, (), tuple(item.references))
            panels.append(Evidence(f"item-{index}", self.ids[index], [entry]))
        return panels

    def _build_scatters(self) -> list[Section]:
        """Build charts of mean rating and value of every item, or of a seeded part of them."""
        if not isinstance(self.design, RatingRows):
            return []
        number, human, shown = self.design.items, self.design.mean, np.array(self._drawn, dtype=np.int64)
        note = f"{len(shown):,} of {number:,} items" if number > DOTS else ""
        names = [self.ids[index] for index in self._drawn]
        hrefs = [open_evidence(f"item-{index}") for index in self._drawn] if self.ratings.captions is not None else []
        return [
            Chart(
                "scatter",
                [Series(score.label, score.values[shown].tolist(), human[shown].tolist(), labels=names, hrefs=hrefs)],
                f"{score.label} and people",
                note,
                x=score.label,
                y="mean rating",
            )
            for score in self.scores
        ]

    def _build_gallery(self) -> list[Section]:
        """Return the largest disagreements of the best metric; those of the others open from their names."""
        key = next((key for key in self.order if key in self._entries), None)
        if key is None:
            return []
        note = "Click the name of another metric in the tables or charts for its own." if len(self._entries) > 1 else ""
        return [Gallery(f"Where {self.labels[key]} and people disagree most", self._entries[key], note)]

    def _notes(self) -> list[str]:
        """List what the numbers rest on: rows, items, images, ties of the ratings, and what was left out."""
        design = self.design
        if isinstance(design, RatingRows):
            ties = next(iter(self.ties.values()))[1]
            lines = [
                f"{self.rows:,} rows of {design.items:,} captions of {design.clusters:,} images; correlations and "
                f"accuracies × 100; {ties:.1%} of row pairs are tied in the ratings, column “ties” in the metric"
            ]
        else:
            lines = [f"{self.rows:,} pairs of {design.clusters:,} images; accuracies in percent"]
        lines += [self.ratings.read] if self.ratings.read else []
        lines += warn_few_units(design.clusters, self.resampling, "images")
        lines += list_left_out(self.ratings.dropped)
        if lost := len(self.ratings.ids) - design.items:
            lines.append(f"left out: {lost:,} items for which a metric has no value")
        elif not any(self.missing.values()):
            lines.append("missing: none, every metric has a value for every item")
        shown = {*self._shown(), *(BETWEEN_SYSTEMS if self.soft else ())}
        for key, estimates in self.estimates.items():
            for name, estimate in estimates.items():
                if estimate.undefined and name in shown:
                    lines.append(f"{self.labels[key]}: {get_label(name)} undefined in {estimate.undefined} draws")
        if any(math.isnan(value) for value in self.soft.values()):
            lines.append("soft acc.: undefined, two systems captioned no image in common")
        if "sample_tau" in design.families:
            skipped = max(families["within"].skipped for families in self._families.values())
            if skipped:
                lines.append(
                    f"sample τ: up to {skipped:,} images left out where people or the metric see no difference"
                )
        lines += list_notes(self.scores)
        return lines

    def _data(self) -> dict[str, Any]:
        """Return every number with everything that moves it, as JSON."""
        return {
            "name": self.ratings.name,
            "signature": self.signature,
            "protocol": self.protocol,
            "headline": self.statistic,
            "options": {
                "statistic": self.statistic,
                **asdict(self.resampling),
                "permutations": self.permutations,
                "test": self.test,
            },
            "rows": self.rows,
            "items": self.design.items,
            "images": self.design.clusters,
            "dropped": self.ratings.dropped,
            "metrics": [self._metric_data(key) for key in self.order],
            "contests": self.contests,
            "clusters": self.clusters,
            **({"people": self.people.data()} if self.people is not None else {}),
            **({"machines": self.machines._data()} if self.machines is not None else {}),
        }

    def _metric_data(self, key: str) -> dict[str, Any]:
        score = next(score for score in self.scores if score.key == key)
        metric_ties, human_ties = self.ties[key]
        data: dict[str, Any] = {
            "metric": key,
            "label": score.label,
            "ranks": self.ranks[key],
            "statistics": self.estimates[key],
            "metric_ties": metric_ties,
            "human_ties": human_ties,
            "missing": self.missing[key],
            "turned": not score.higher_is_better,
            "signature": score.signature,
        }
        if isinstance(self.design, RatingRows):
            data["p_zero"] = self.test_against_zero(key)
            within = self._families[key].get("within")
            if within is not None:
                data |= {"epsilon": within.epsilon(), "images_without_sample_tau": within.skipped}
            if self.soft:
                data["soft_pairwise_accuracy"] = self.soft[key]
        return data


def _build_entry(row: Mapping[str, Any], items: list[Any], metric: str) -> Entry:
    """Build the entry of a caption, or two, with its picture and what the metric and people say of it."""
    values = [f"{value:.4f}" for value in row["values"]]
    if "human" in row:
        lines = [Line(items[0].candidate)]
        facts = [f"mean rating {row['human']:.3g}", f"{metric} {values[0]}"]
        meters = [
            Meter("people", row["people"], f"above {row['people']:.0%} of items"),
            Meter(metric, row["metric"], f"above {row['metric']:.0%} of items"),
        ]
    else:
        lines = [Line(item.candidate, side) for item, side in zip(items, ("people", metric), strict=True)]
        facts, meters = [row["category"], f"{metric} {values[0]} and {values[1]}"], []
    references = tuple(items[0].references)
    return Entry(", ".join(row["items"]), lines, _find_picture(items[0]), facts, meters, references)


def _find_picture(item: Any) -> Picture | None:
    path = item.fields.get("image")
    shown = isinstance(path, ImageData) or (path and Path(str(path)).is_file())
    return Picture(path if isinstance(path, ImageData) else str(path)) if shown else None


def _build_pair_systems_table(
    pairs: Pairs,
    captions: Sequence[str],
    scores: Sequence[MetricScores],
    labels: Mapping[str, str],
    order: Sequence[str],
) -> Table | None:
    """Build the table of how alike the order of systems is by each metric and by people; None if there are fewer than
    three.

    ``captions`` names the system of each caption, two to a pair.
    """
    names = sorted({*captions})
    if len(names) < 3:
        return None
    system = np.searchsorted(np.array(names), np.array(captions))
    people = _compute_strengths(pairs, system, len(names), _get_people_verdicts(pairs))
    by_metric = {one.key: one for one in scores}
    rows: list[Sequence[Value]] = []
    for key in order:
        values = by_metric[key].oriented
        own = _compute_strengths(pairs, system, len(names), pairs.verdicts(values[pairs.first] - values[pairs.second]))
        rows.append([labels[key], spearman(own, people), _compute_tau_b(own, people)])
    columns: list[Column | str] = ["metric", make_column("spearman", best=True), make_column("system_tau", best=True)]
    note = "Spearman's and Kendall's correlation of Bradley–Terry strengths, by the metric's verdicts and by people's"
    return Table("systems", f"Between the {len(names)} systems", columns, rows, note)


def _get_people_verdicts(pairs: Pairs) -> Floats:
    """Return the verdict of people for the first caption of each pair of the design, which is the preferred one."""
    return np.ones(len(pairs.first)) if pairs.tied is None else np.where(pairs.tied, 0.5, 1.0)


def _compute_strengths(pairs: Pairs, system: Ints, number: int, verdicts: Floats) -> Floats:
    met = np.zeros(len(verdicts), dtype=np.int64)
    wins = count_wins(system[pairs.first], system[pairs.second], verdicts, met, 1, number)
    return bradley_terry(wins.reshape(number, number), PRIOR)


def _compute_tau_b(one: Floats, other: Floats) -> float:
    """Return Kendall's tau-b; NaN if a strength is."""
    if np.isnan(one + other).any():
        return float("nan")
    return float(Kendall.of(one, other)(np.ones((len(one), 1)))["tau_b"][0])
