"""A study: metrics against people, as a document; and `correlate`, which makes one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from captious.captions import ImageData
from captious.errors import InputError, nearest
from captious.evaluation import join_signatures
from captious.metrics.contract import Metric
from captious.options import SAMPLES, Missing, Resampling, Runtime, choices_of, current, using
from captious.render import (
    Cell,
    Chart,
    Column,
    Document,
    Entry,
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
)
from captious.render.document import Value
from captious.render.tables import write_jsonl
from captious.study._analysis import Analysis
from captious.study._columns import INTERVALS, column, estimates_series, label, meanings, scaled_label
from captious.study.contests import TestName
from captious.study.design import Pairs, Rows, build_design, family_of
from captious.study.ratings import Preferences, Ratings, open_ratings
from captious.study.recipes import RECIPES, Recipe
from captious.study.scores import Scores, measure, read_scores, scores_of

PER_PAIR = 50
"""Permutations for each two metrics: with fewer, Holm's correction could never reach 5 %."""
DOTS = 3000
"""Items drawn in a scatter; more would only make the page slower."""
BETWEEN_SYSTEMS = ("system_tau", "system_pearson")


@dataclass(frozen=True, eq=False, repr=False)
class Study(Analysis, Result):
    """Which metrics agree with people, with intervals, tests and rank clusters."""

    machines: Study | None = None
    """The same study without the captions that people wrote, where the recipe names their system."""

    def __repr__(self) -> str:
        return f"<Study {PurePath(self.ratings.name).name}: {', '.join(self.labels.values())} by {self.statistic}>"

    def document(self) -> Document:
        """Protocol, table of metrics, systems, tests; forest plot, scatters, and the largest disagreements."""
        title = f"{PurePath(self.ratings.name).name}: agreement with people"
        sections: list[Section] = [Text(self.protocol)] if self.protocol else []
        sections.append(self._metrics_table("metrics", title))
        if self.machines is not None:
            rows = f"{self.machines.rows:,} of {self.rows:,} rows"
            sections.append(self.machines._metrics_table("machines", f"{self.machines.ratings.name}: {rows}"))
        sections += [*self._system_tables(), self._forest()]
        if self.contests:
            sections.append(self._contests_table())
        sections += [*self._scatters(), *self._galleries(), self._full_table()]
        return Document(
            title,
            "Which metric agrees with people, and which differences between metrics are real.",
            sections,
            self.warnings,
            self._notes(),
            (
                self.signature,
                *((self.machines.signature,) if self.machines is not None else ()),
                *join_signatures(score.signature for score in self.scores if score.signature),
            ),
            self._data(),
            "study",
        )

    def worst(self, number: int = 10, metric: str | None = None) -> Document:
        """Where a metric, the best unless named, and people disagree most; in a notebook with the images.

        Of ratings: the items whose rank differs most. Of pairs: where the metric most prefers the rejected caption.
        """
        key = self.key(metric) if metric else self.order[0]
        score = next(score for score in self.scores if score.key == key)
        label, captions = self.labels[key], self.ratings.captions
        disagreements = self._disagreements(score, number)
        title = f"{len(disagreements)} largest disagreements of {label} and people"
        rated = isinstance(self.design, Rows)
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
            entries = [_entry(one, [captions[item] for item in one["items"]], label) for one in disagreements]
            sections.append(Gallery(title, entries, replaces="worst"))
        return Document(title, sections=sections)

    def write_files(self, folder: Path) -> None:
        """Write the values and mean ratings of all items."""
        rows = (
            {"id": key, "scores": {score.key: score.values[index] for score in self.scores}}
            | ({"mean_rating": self.design.mean[index]} if isinstance(self.design, Rows) else {})
            for index, key in enumerate(self.ids)
        )
        write_jsonl(folder / "items.jsonl", rows)

    def _shown(self) -> list[str]:
        """The statistics that the table prints, the headline first, then the other tau."""
        if isinstance(self.design, Pairs):
            return [self.statistic, *(name for name in self.design.families if name != self.statistic)]
        rest = ("tau_b", "tau_c", "spearman", "pearson", "sample_tau", "accuracy_eq", "one_minus_r2")
        return [self.statistic, *(name for name in rest if name in self.design.families and name != self.statistic)]

    def _metrics_table(self, key: str, title: str) -> Table:
        shown, rated = self._shown(), isinstance(self.design, Rows)
        columns: list[Column | str] = [Column("rank", "text"), "metric"]
        columns += [column(self.statistic, best=True, level=self.resampling.level, bold=True)]
        columns += [column(name, best=True) for name in shown[1:]]
        columns.append(Column("ties", scale=100, decimals=1, unit="%"))
        columns += [Column("τ=0: p", "p", key="p_zero")] if rated else []
        lacking = any(self.missing.values())
        columns += [Column("missing")] if lacking else []
        marked = {*self.clusters[0]} - {self.order[0]}
        rows: list[list[Value]] = []
        for metric in self.order:
            estimates = self.estimates[metric]
            rows.append(
                [
                    str(self.rank(metric)),
                    self.labels[metric],
                    Cell.of(estimates[self.statistic], "†" if metric in marked else ""),
                    *(estimates[name].value for name in shown[1:]),
                    self.ties[metric][0],
                    *([self.zero_tests(metric)["tau"]] if rated else []),
                    *([self.missing[metric]] if lacking else []),
                ]
            )
        ranks = [row[0] for row in rows]
        breaks = [index for index in range(1, len(rows)) if ranks[index] != ranks[index - 1]]
        notes = [meanings(shown), f"ties: {'row ' if rated else ''}pairs that the metric ties"]
        notes += ["τ=0: p: of no association, normal approximation over rows"] if rated else []
        if key != "metrics":
            notes = []  # those of the first table explain both
        notes += [f"†: not distinguishable from the best ({self.test} test, Holm-adjusted)"] if marked else []
        note = f"{'; '.join(notes)}." if notes else ""
        if self.resampling.samples and key == "metrics":
            note += f" {INTERVALS}"
        return Table(key, title, columns, rows, note, breaks)

    def _system_tables(self) -> list[Section]:
        """The correlations between systems, and the means that they are of."""
        design = self.design
        if not self.soft or not isinstance(design, Rows) or design.system is None:
            return []
        level = self.resampling.level
        note = meanings([*BETWEEN_SYSTEMS, "soft"])
        if len(design.systems) == 2:
            note += "; two systems have no other correlation than 1 and −1"
        between = Table(
            "systems",
            f"Between the {len(design.systems)} systems",
            ["metric", *(column(name, best=True, level=level) for name in BETWEEN_SYSTEMS), column("soft", best=True)],
            [
                [self.labels[key], *(Cell.of(self.estimates[key][name]) for name in BETWEEN_SYSTEMS), self.soft[key]]
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

    def _contests_table(self) -> Table:
        rated = isinstance(self.design, Rows)
        columns: list[Column | str] = ["better", "worse"]
        columns += [column(self.statistic, "difference", key="difference", level=self.resampling.level, signed=True)]
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

    def _full_table(self) -> Group:
        """Every statistic of every metric in full, as a file."""
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
                *(str(self.rank(key)), key, self.labels[key], name),
                *(e.value, e.low, e.high, e.error, e.undefined, *self.ties[key]),
                *(self.rows, self.design.items, self.missing[key]),
            ]
            for key in self.order
            for name, e in self.estimates[key].items()
        ]
        full = Table("study", "", columns, rows, detail=True)
        return Group("Every statistic", [full])

    def _forest(self) -> Chart:
        names = [self.labels[key] for key in self.order]
        estimates = [self.estimates[key][self.statistic] for key in self.order]
        return Chart(
            "intervals",
            [estimates_series(label(self.statistic), names, estimates, self.statistic)],
            scaled_label(self.statistic),
            "Neighbors of one shade cannot be told apart.",
            bands=[self.rank(key) for key in self.order],
        )

    def _scatters(self) -> list[Section]:
        """Mean rating and value of every item, or of a seeded part of them."""
        if not isinstance(self.design, Rows):
            return []
        number, human = self.design.items, self.design.mean
        shown = np.arange(number)
        if number > DOTS:
            shown = np.sort(np.random.default_rng(0).permutation(number)[:DOTS])
        note = f"{len(shown):,} of {number:,} items" if number > DOTS else ""
        names = [self.ids[index] for index in shown.tolist()]
        return [
            Chart(
                "scatter",
                [Series(score.label, score.values[shown].tolist(), human[shown].tolist(), labels=names)],
                f"{score.label} and people",
                note,
                x=score.label,
                y="mean rating",
            )
            for score in self.scores
        ]

    def _galleries(self) -> list[Section]:
        captions = self.ratings.captions
        if captions is None:
            return []
        return [
            Gallery(
                f"Where {self.labels[key]} and people disagree most",
                [_entry(row, [captions[item] for item in row["items"]], self.labels[key]) for row in rows],
            )
            for key, rows in self.disagreements().items()
            if rows
        ]

    def _notes(self) -> list[str]:
        """What the numbers rest on: rows, items, images, ties of the ratings, what was left out, the rank clusters."""
        design = self.design
        if isinstance(design, Rows):
            ties = next(iter(self.ties.values()))[1]
            lines = [
                f"{self.rows:,} rows of {design.items:,} captions of {design.clusters:,} images; values × 100; "
                f"{ties:.1%} of row pairs are tied in the ratings, column “ties” in the metric"
            ]
        else:
            lines = [f"{self.rows:,} pairs of {design.clusters:,} images; accuracies in per cent"]
        lines += [f"left out: {number:,} ({reason})" for reason, number in self.ratings.dropped.items()]
        if lost := len(self.ratings.ids) - design.items:
            lines.append(f"left out: {lost:,} items for which a metric has no value")
        elif not any(self.missing.values()):
            lines.append("missing: none, every metric has a value for every item")
        for number, cluster in enumerate(self.clusters, 1):
            if len(cluster) > 1:
                lines.append(f"rank {number}: {', '.join(self.labels[key] for key in cluster)} are indistinguishable")
        shown = {*self._shown(), *(BETWEEN_SYSTEMS if self.soft else ())}
        for key, estimates in self.estimates.items():
            for name, estimate in estimates.items():
                if estimate.undefined and name in shown:
                    lines.append(f"{self.labels[key]}: {label(name)} undefined in {estimate.undefined} draws")
        if any(math.isnan(value) for value in self.soft.values()):
            lines.append("soft acc.: undefined, two systems captioned no image in common")
        if "sample_tau" in design.families:
            skipped = max(families["within"].skipped for families in self._families.values())
            if skipped:
                lines.append(
                    f"sample τ: up to {skipped:,} images left out where people or the metric see no difference"
                )
        return lines

    def _data(self) -> dict[str, Any]:
        """Every number with everything that moves it, as JSON holds it."""
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
            **({"machines": self.machines._data()} if self.machines is not None else {}),
        }

    def _metric_data(self, key: str) -> dict[str, Any]:
        score = next(score for score in self.scores if score.key == key)
        metric_ties, human_ties = self.ties[key]
        data: dict[str, Any] = {
            "metric": key,
            "label": score.label,
            "rank": self.rank(key),
            "statistics": self.estimates[key],
            "metric_ties": metric_ties,
            "human_ties": human_ties,
            "missing": self.missing[key],
            "turned": not score.higher_is_better,
            "signature": score.signature,
        }
        if isinstance(self.design, Rows):
            data["p_zero"] = self.zero_tests(key)
            within = self._families[key].get("within")
            if within is not None:
                data |= {"epsilon": within.epsilon(), "images_without_sample_tau": within.skipped}
            if self.soft:
                data["soft_pairwise_accuracy"] = self.soft[key]
        return data


def _entry(row: Mapping[str, Any], items: list[Any], metric: str) -> Entry:
    """A caption, or two, with its picture and what the metric and people make of it."""
    path = items[0].fields.get("image")
    values = [f"{value:.4g}" for value in row["values"]]
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
    shown = isinstance(path, ImageData) or (path and Path(str(path)).is_file())
    picture = Picture(path if isinstance(path, ImageData) else str(path)) if shown else None
    return Entry(", ".join(row["items"]), lines, picture, facts, meters, tuple(items[0].references))


def correlate(
    ratings: Any,
    measurements: Any,
    *,
    recipe: Recipe | None = None,
    statistic: str | None = None,
    resampling: Resampling = Resampling(),
    test: TestName = "permutation",
    permutations: int | None = None,
    missing: Missing = "error",
    progress: Callable[[str], None] | None = None,
    runtime: Runtime | None = None,
    references: Any = None,
    images: Any = None,
) -> Study:
    """Hold metrics against people.

    Parameters
    ----------
    ratings
        ``Ratings`` or ``Preferences``, the path of a file with ratings, its rows as a list of dictionaries or as a
        pandas or Arrow table, or ``{id: rating or list of ratings}``.
    measurements
        A report of ``captious.evaluate``, measurements, written metrics such as ``"bleu(n=4),cider"`` where the
        ratings have captions, or ``{name: {id: value}}`` or a frame for metrics of other tools. An id is that of the
        ratings; where they have none, it is IMAGE/SYSTEM or IMAGE#k (``Ratings.ids``).
    recipe
        The protocol: how ratings become rows, which tau. By default every rating is a row and tau-b the headline.
    statistic
        The headline: ``tau_b``, ``tau_c``, ``pearson``, ``spearman``, ``sample_tau``, ``mean`` (of pairs), …
    resampling
        The bootstrap over images.
    test, permutations
        The test between metrics, ``permutation``, ``bootstrap`` or ``williams``, and the permutations of the first.
    missing
        Items without a value of a metric: ``error``, or ``skip`` to go on with those that join.
    progress
        Called with the name of each step as it begins.
    runtime
        Where and how encoders run.
    references, images
        Of the rated captions, as in ``captious.read``, where ``ratings`` is a file or its rows.

    >>> people = {"a": 1, "b": 2, "c": 3, "d": 4}
    >>> study = correlate(people, {"m": {"a": 0.1, "b": 0.3, "c": 0.2, "d": 0.9}}, resampling=Resampling(samples=0))
    >>> round(study.estimates["m"]["tau_b"].value, 6)
    0.666667
    """
    _check_arguments(recipe, statistic, resampling, test, permutations, missing, progress)
    if isinstance(ratings, Mapping) or (hasattr(ratings, "to_dict") and not hasattr(ratings, "columns")):
        ratings = Ratings.of(dict(ratings.items()))
    rows = isinstance(ratings, (str, Path, list)) or hasattr(ratings, "columns")
    if not rows and (references is not None or images is not None):
        raise InputError("references=... and images=... are for ratings in a file, a frame or records, found others")
    if rows:
        ratings = open_ratings(ratings, references, recipe=recipe, images=images)
    elif not isinstance(ratings, (Ratings, Preferences)):
        raise InputError(
            f"ratings are of type {type(ratings).__name__}, expected Ratings, a path, a table, or "
            "{id: rating or list of ratings}"
        )
    recipe = recipe or Recipe(ratings.name, ())
    scores = _scores(ratings, measurements, missing, progress, runtime)
    available = np.all([~np.isnan(score.values) for score in scores], axis=0)
    design, used = build_design(ratings, available, recipe)
    left_out = [score.label for score in scores if not score.named and np.ptp(score.values[used]) == 0]
    scores = [score for score in scores if score.label not in left_out]
    if not scores:
        raise InputError(f"{ratings.name}: every metric is the same for every caption, so none correlates with people")
    compared = tuple(replace(score, values=score.values[used]) for score in scores)
    for score in compared:
        if np.ptp(score.values) == 0:
            raise InputError(
                f"{score.key} is {score.values[0]:g} on all {len(used)} items of {ratings.name}: a constant correlates "
                "with nothing; leave it out"
            )
    statistic = statistic or ("mean" if isinstance(design, Pairs) else recipe.statistic)
    family_of(design, statistic)
    if test == "bootstrap" and resampling.samples < 1:
        raise InputError("the bootstrap test needs resamples, found samples 0")
    if test == "williams" and (isinstance(design, Pairs) or design.items < 4):
        raise InputError(f"Williams' test needs at least 4 rated items, {ratings.name} has {design.items}")
    pairs = len(scores) * (len(scores) - 1) // 2
    number = permutations if permutations is not None else max(SAMPLES, PER_PAIR * pairs)
    edge = 1 - resampling.level
    warnings = list(ratings.warnings) if isinstance(ratings, Ratings) else []
    if left_out:
        warnings.append(f"left out, the same for every caption: {', '.join(left_out)}")
    if test == "permutation" and pairs / (number + 1) >= edge:
        warnings.append(f"{number} permutations cannot reach {edge:.2g} after Holm's correction of {pairs} tests")
    if isinstance(design, Rows) and recipe.expected and len(design.human) != recipe.expected:
        warnings.append(f"{len(design.human):,} rows, the full {recipe.name} has {recipe.expected:,}")
    if isinstance(design, Rows) and len(design.systems) == 1:
        warnings.append(f"one system only ({design.systems[0][:40]}): no correlation between systems")
    if ratings.captions is not None and (empty := int(ratings.captions.candidates.blank.sum())):
        warnings.append(f"{empty:,} of {len(ratings.captions):,} rated captions are empty: scored as they are")
    warnings += dict.fromkeys(line for score in compared for line in score.remarks)
    if isinstance(design, Rows):
        turned = [score.label for score in compared if not score.higher_is_better]
        warnings += [f"{name}: lower is better, its sign is turned" for name in turned]
    machines = None
    if recipe.humans is not None and isinstance(ratings, Ratings) and recipe.humans in (ratings.systems or ()):
        others = np.array([system != recipe.humans for system in ratings.systems or ()])
        machines = correlate(
            replace(ratings.take(np.flatnonzero(others)), name=f"{ratings.name} without {recipe.humans}"),
            [replace(score, values=score.values[others]) for score in scores],
            recipe=replace(recipe, humans=None, expected=None),
            statistic=statistic,
            resampling=resampling,
            test=test,
            permutations=permutations,
        )
    return Study(
        ratings,
        design,
        compared,
        tuple(ratings.ids[index] for index in used.tolist()),
        statistic,
        resampling,
        test,
        number,
        {score.key: int(np.isnan(score.values).sum()) for score in scores},
        tuple(recipe.protocol(statistic)) if recipe.layouts else (),
        tuple(warnings),
        progress or (lambda step: None),
        machines,
    )


def _check_arguments(
    recipe: Any, statistic: Any, resampling: Any, test: Any, permutations: Any, missing: Any, progress: Any
) -> None:
    """Refuse what a type checker would: one line instead of an error from below."""
    if recipe is not None and not isinstance(recipe, Recipe):
        hint = f", such as captious.study.RECIPES[{recipe!r}]" if recipe in [*RECIPES] else ""
        raise InputError(f"recipe is of type {type(recipe).__name__}, expected a Recipe{hint}")
    if not isinstance(resampling, Resampling):
        raise InputError(f"resampling is of type {type(resampling).__name__}, expected Resampling(samples=1000)")
    for name, value, kind in (("test", test, TestName), ("missing", missing, Missing)):
        if value not in (choices := choices_of(kind)):
            raise InputError(f"{name}={value!r}, expected {' or '.join(choices)}{nearest(str(value), choices)}")
    if permutations is not None and (not isinstance(permutations, int) or permutations < 1):
        raise InputError(f"permutations={permutations!r}, expected a whole number of at least 1")
    if statistic is not None and not isinstance(statistic, str):
        raise InputError(f"statistic={statistic!r}, expected a name such as 'tau_b'")
    if progress is not None and not callable(progress):
        raise InputError(f"progress={progress!r}, expected a function that takes the name of a step")


def _scores(
    ratings: Ratings | Preferences,
    measurements: Any,
    missing: Missing,
    progress: Callable[[str], None] | None,
    runtime: Runtime | None,
) -> list[Scores]:
    """Metrics on the rated items, in whatever form they are given."""
    listed = list(measurements) if isinstance(measurements, (list, tuple)) else [measurements]
    if listed and all(isinstance(score, Scores) for score in listed):
        for score in listed:
            if len(score.values) != len(ratings.ids):
                raise InputError(f"{score.key} has {len(score.values)} values for {len(ratings.ids)} rated items")
        return listed
    if listed and all(isinstance(metric, (str, Metric)) for metric in listed):
        with using(runtime or current()):
            return measure(ratings, listed, progress)
    if hasattr(measurements, "columns"):
        return read_scores(measurements, ratings, missing=missing)
    return scores_of(measurements, ratings.ids, ratings.name, missing)
