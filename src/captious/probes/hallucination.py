"""Hallucination: objects that captions invent, by co-occurring objects, position in the caption, and caption length.

Everything comes from what CHAIR reads in the captions (`captious.metrics.hallucination.chair`). Two
systems or more are shown side by side, with paired tests against the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from captious._compare import Difference, compare
from captious._core.types import Floats
from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.hallucination.chair import LABELS, Chair, ImageObjects, ReadCaption, Value
from captious.metrics.registry import parse
from captious.options import Missing, Resampling
from captious.probes.probe import Probe
from captious.render import (
    Answer,
    Cell,
    Chart,
    Column,
    Document,
    Entry,
    Evidence,
    Figure,
    Line,
    Phrase,
    Picture,
    Section,
    Series,
    Span,
    Table,
    link,
    open_evidence,
)
from captious.render.answers import NAMES, format_p
from captious.render.document import Value as Shown
from captious.runs.report import Report
from captious.runs.report_sections import link_system, make_explorer, sort_items
from captious.stats.bootstrap import Estimate, bootstrap
from captious.stats.resampling import Statistic
from captious.stats.shares import compute_shares

# Values in the order of the tables.
VALUES: tuple[Value, ...] = ("s", "i", "recall", "f1", "words")
# Values in the order of scoring: the page sorts items by the last one.
SCORED = cast(tuple[Value, ...], Chair.variants["value"])
CALLED_CHAIR: tuple[Value, ...] = ("s", "i")
# Captions are truncated to these numbers of words for the curve over length, up to the longest captions.
LENGTHS = (16, 32, 64, 96, 128, 192, 256)
# Sentences shown separately; the last row has all later ones.
SENTENCES = 6
# Rows of the tables of objects and of pairs; JSON has all.
LISTED = 20
# Captions of each system that a click on an invented object shows.
SHOWN = 20
QUARTERS = ("1st", "2nd", "3rd", "4th")
# Computed by `python -m lab.reproductions chair` on 202,654 captions.
HUMAN_FLOOR = (
    "Human captions of COCO, each against the instances and the other captions of its image, have CHAIR_S 3.6 and "
    "CHAIR_I 2.6."
)
# A note is shown if captions of one system are longer by more than this share.
LONGER = 0.02
Progress = Callable[[str], None]


class ObjectCount(NamedTuple):
    """An object in the captions of one system."""

    mentions: int
    wrong: int
    """Mentions of it in captions of images that it is not in."""
    images: int
    """Images with a wrong mention of it."""


class InventingCaption(NamedTuple):
    """A caption with an invented object."""

    item: int
    text: str
    wrong: tuple[tuple[int, int], ...]
    """Start and stop of each wrong mention of the object, in characters."""
    objects: frozenset[str]
    """The objects of the image."""


@dataclass(frozen=True, eq=False)
class InventedObjects:
    """The objects that one system invents."""

    objects: Mapping[str, ObjectCount]
    pairs: Mapping[tuple[str, str], int]
    """Images in which the first object is invented and the second one is real."""
    quarters: Sequence[Estimate]
    """The share of wrong mentions by quarter of the caption, in words."""
    sentences: Sequence[Estimate]
    """The same by the sentence of the caption; the last one has all later sentences."""
    sentence_mentions: Sequence[int]
    lengths: Mapping[int, Mapping[str, Estimate]]
    """CHAIR_S and CHAIR_I of the first words of each caption, by their number; 0 means whole captions."""
    by_length: Sequence[tuple[float, Estimate, Estimate]]
    """Quarters of the captions from the shortest to the longest: mean words, CHAIR_S, CHAIR_I."""
    captions: Mapping[str, Sequence[InventingCaption]] = field(default_factory=dict)
    """The first captions that invent each object."""


@dataclass(frozen=True, repr=False)
class Hallucination(Probe):
    """The invented objects of systems, side by side."""

    metric: str
    reports: Mapping[str, Report]
    systems: Mapping[str, InventedObjects]
    differences: Sequence[Difference] = ()
    test: str = ""

    def document(self) -> Document:
        """Build the tables and charts of values, objects, pairs, positions, and the curves over length."""
        curves = [self._draw_quarters(), *(self._draw_first_words(value) for value in CALLED_CHAIR)]
        sections: list[Section] = [
            self._build_value_table(),
            *([self._build_difference_table()] if self.differences else []),
        ]
        sections += [chart for _, chart in curves]
        sections += [self._build_object_table(), self._build_pair_table(), curves[0][0], self._build_sentence_table()]
        sections += [*(table for table, _ in curves[1:]), self._build_length_table(), *self._build_evidence()]
        sections.append(make_explorer(self.reports))
        reports = self.reports.items()
        return replace(
            self.build(
                "Hallucination",
                f"Mentions of objects that are not in the image, by {self.metric}. In percent where there is no unit.",
                sections,
                "hallucination",
                dict.fromkeys(line for _, report in reports for line in report.signatures),
                self._list_notes(),
                answer=self._answer(),
                systems={name: self._collect_data(name) for name in self.systems},
                differences=self.differences,
            ),
            page=f"Invented objects of {', '.join(self.systems)}",
            warnings=list(dict.fromkeys(f"{name}: {line}" for name, report in reports for line in report.warnings)),
        )

    def _answer(self) -> Answer:
        """Return the plain answer: how often each system invents an object, and whether systems differ."""
        column = self._make_value_column("s")
        parts: list[str | Figure] = []
        for name in list(self.systems)[:NAMES]:
            parts += ["; " if parts else "", f"{name} names an object that is not in the image in "]
            parts += [Figure(self._get_cells(name)["s"], replace(column, unit=" %")), " of its captions (CHAIR_S)"]
        values = self._map_values()
        tests = [row for row in self.differences if values[row.metric] == "s"]
        for row in tests[:NAMES]:
            p = f"Holm-adjusted p {format_p(row.p_holm)}"
            if row.better:
                worse = row.baseline if row.better == row.system else row.system
                parts.append(f". {row.better} invents less than {worse}, {p}")
            else:
                parts.append(f". Cannot tell {row.system} from {row.baseline}, {p}")
        return [*parts, "."]

    def _list_notes(self) -> list[str]:
        notes = [HUMAN_FLOOR] if self._original_truth else []
        if len(self.systems) > 1:
            words = {name: report["words"].corpus for name, report in self._group_by_value().items()}
            shortest, longest = min(words, key=words.__getitem__), max(words, key=words.__getitem__)
            if words[longest] > (1 + LONGER) * words[shortest]:
                notes.append(
                    f"{shortest} writes {words[shortest]:.1f} words per caption and {longest} {words[longest]:.1f}. A "
                    "system that says less invents less: compare them at equal length"
                )
        return notes

    @property
    def _original_truth(self) -> bool:
        """Whether captions are read and judged as those of the human floor."""
        chair = next(iter(self._group_by_value().values()))["s"].metric
        known = ("vocabulary", "truth", "count", "last_sentence", "max_words")
        return bool(chair.objects) and all(getattr(chair, name) == getattr(Chair, name) for name in known)

    def _group_by_value(self) -> dict[str, dict[Value, Any]]:
        """Group the measurements of each system by the value of the metric."""
        return {
            name: {one.metric.value: one for one in report if isinstance(one.metric, Chair)}
            for name, report in self.reports.items()
        }

    def _map_values(self) -> dict[str, Value]:
        """Return the value of each metric by its written form."""
        return {str(one.metric): value for value, one in next(iter(self._group_by_value().values())).items()}

    def _get_cells(self, name: str) -> dict[str, Cell]:
        return {value: self.reports[name].cell(str(one.metric)) for value, one in self._group_by_value()[name].items()}

    def _make_value_column(self, value: Value) -> Column:
        return Column(
            LABELS[value].removeprefix("CHAIR "),
            decimals=1,
            scale=1 if value == "words" else 100,
            level=self.resampling.level if self.resampling.samples else None,
            spread="half",
            higher_is_better={"s": False, "i": False, "words": None}.get(value, True),
            bar=value != "words",
            key=LABELS[value].lower().replace(" ", "_"),
            fault=value in CALLED_CHAIR,
            href=sort_items(next(key for key, one in self._map_values().items() if one == value)),
        )

    def _build_value_table(self) -> Table:
        rows: list[list[Shown]] = []
        for name in self.systems:
            cells = self._get_cells(name)
            rows.append([link_system(name), *(replace(cells[value], limits=(0.0, 1.0)) for value in VALUES)])
        columns = [self._make_value_column(value) for value in VALUES]
        return Table(
            "chair", "CHAIR", ("system", *columns), rows, "± is half of the interval over images.", turned=True
        )

    def _build_difference_table(self) -> Table:
        """Build a table of paired tests, with the number of images on which one system is better or worse."""
        rows: list[list[Shown]] = []
        values = self._map_values()
        for row in sorted(self.differences, key=lambda row: VALUES.index(values[row.metric])):
            value = values[row.metric]
            factor = 1 if value == "words" else 100
            better, worse, p = self.count_discordant(row.baseline, row.system) if value == "s" else (None, None, None)
            cell = Cell(factor * row.difference, factor * row.low, factor * row.high)
            label = link(LABELS[value], sort_items(row.metric))
            rows.append([label, f"{row.system} − {row.baseline}", cell, row.p, row.p_holm, better, worse, p])
        columns = (
            "value",
            "systems",
            Column("difference", decimals=1, signed=True, level=self.resampling.level, bar=True),
            Column("p", "p"),
            Column("p (Holm)", "p", key="p_holm"),
            Column("better images", key="better"),
            Column("worse images", key="worse"),
            Column("McNemar p", "p", key="mcnemar_p"),
        )
        note = (
            f"{self.test}. An image is better where the second system has no wrong object and the first has one. "
            "McNemar's test is the exact sign test on these images."
        )
        return Table("differences", "Differences", columns, rows, note)

    def count_discordant(self, baseline: str, system: str) -> tuple[int, int, float]:
        """Count the images on which a system is better than the baseline, and worse, by CHAIR_S; and compute McNemar's
        exact p.
        """
        from scipy.stats import binomtest

        named = self._group_by_value()
        baseline_values, system_values = (named[name]["s"].values for name in (baseline, system))
        better, worse = int(np.sum(system_values < baseline_values)), int(np.sum(system_values > baseline_values))
        return better, worse, float(binomtest(better, better + worse).pvalue) if better + worse else 1.0

    @cached_property
    def _wrong(self) -> Counter[str]:
        """The wrong mentions of each object, over all systems."""
        totals: Counter[str] = Counter()
        for one in self.systems.values():
            totals.update({category: count.wrong for category, count in one.objects.items()})
        return totals

    @cached_property
    def _invented(self) -> list[str]:
        """The objects of the tables that are invented."""
        listed = sorted(self._wrong.items(), key=lambda entry: (-entry[1], entry[0]))[:LISTED]
        names = [category for category, wrong in listed if wrong] + [invented for invented, _ in self._pairs]
        return list(dict.fromkeys(names))

    @cached_property
    def _pairs(self) -> list[tuple[str, str]]:
        totals: Counter[tuple[str, str]] = Counter()
        for one in self.systems.values():
            totals.update(one.pairs)
        return [pair for pair, _ in sorted(totals.items(), key=lambda entry: (-entry[1], entry[0]))[:LISTED]]

    def _link_object(self, category: str) -> Shown:
        """Return the name of an object, linked to the captions that invent it."""
        if category not in self._invented:
            return category
        return link(category, open_evidence(f"object-{self._invented.index(category)}"))

    def _build_evidence(self) -> list[Evidence]:
        """Return the captions that invent each object of the tables, system after system."""
        panels = []
        for number, category in enumerate(self._invented):
            entries = []
            for name, one in self.systems.items():
                entries += [self._build_entry(name, caption) for caption in one.captions.get(category, ())]
            wrong = self._wrong[category]
            title = f"{category}: {wrong:,} wrong mention{'' if wrong == 1 else 's'}"
            note = "The objects of the image are named with its id."
            if any(len(one.captions.get(category, ())) == SHOWN for one in self.systems.values()):
                note += f" The first {SHOWN} captions of each system are shown."
            panels.append(Evidence(f"object-{number}", title, entries, note))
        return panels

    def _build_entry(self, name: str, caption: InventingCaption) -> Entry:
        captions = self.reports[name].captions
        parts: list[str | Span] = []
        last = 0
        for start, stop in caption.wrong:
            parts += [caption.text[last:start], Span(caption.text[start:stop], "bad")]
            last = stop
        line = Line(Phrase.of(*parts, caption.text[last:]), name if len(self.systems) > 1 else "")
        image = captions.images[caption.item] if "image" in captions.columns else None
        facts = [f"in the image: {', '.join(sorted(caption.objects)) or 'no object of the vocabulary'}"]
        picture = Picture(image) if image else None
        return Entry(captions.ids[caption.item], [line], picture, facts, references=captions.references[caption.item])

    def _build_object_table(self) -> Table:
        names = list(self.systems)
        rows: list[list[Shown]] = []
        for category, _ in sorted(self._wrong.items(), key=lambda entry: (-entry[1], entry[0]))[:LISTED]:
            counts = [self.systems[name].objects.get(category, ObjectCount(0, 0, 0)) for name in names]
            cells: list[Shown] = []
            for count in counts:
                rate = count.wrong / count.mentions if count.mentions else None
                cells += [count.wrong, count.mentions, rate, count.images]
            rows.append([self._link_object(category), *cells])
        columns: list[Column | str] = ["object"]
        for name in names:
            before, key = (f"{name}: ", f"{name}_") if len(names) > 1 else ("", "")
            columns += [
                Column(f"{before}wrong", key=f"{key}wrong"),
                Column("mentions", key=f"{key}mentions"),
                Column("rate", decimals=1, scale=100, bar=True, fault=True, key=f"{key}rate"),
                Column("images", key=f"{key}images"),
            ]
        return Table("objects", "Objects that are invented most", columns, rows, "Rate: wrong mentions over mentions.")

    def _build_pair_table(self) -> Table:
        names = list(self.systems)
        rows: list[list[Shown]] = [
            [self._link_object(invented), real, *(self.systems[name].pairs.get((invented, real), 0) for name in names)]
            for invented, real in self._pairs
        ]
        columns: list[Column | str] = ["invented", "in the image"]
        columns += [Column("images" if len(names) == 1 else name) for name in names]
        return Table("pairs", "Invented objects and real ones in the same image", columns, rows, "Number of images.")

    def _draw_quarters(self) -> tuple[Table, Chart]:
        series = {name: one.quarters for name, one in self.systems.items()}
        return _draw_curves(
            "quarters", "Where in the caption", "quarter", QUARTERS, series, self.resampling.level, "wrong mentions, %"
        )

    def _build_sentence_table(self) -> Table:
        columns: list[Column | str] = ["sentence"]
        most = max(len(one.sentences) for one in self.systems.values())
        rows: list[list[Shown]] = [
            [str(number) if number < SENTENCES else f"{number}+"] for number in range(1, most + 1)
        ]
        for name, one in self.systems.items():
            before = f"{name}: " if len(self.systems) > 1 else ""
            columns += [
                Column(f"{before}wrong, %", decimals=1, scale=100, spread="half", bar=True, fault=True),
                Column(f"{before}mentions"),
            ]
            for row, number in zip(rows, range(most), strict=True):
                known = number < len(one.sentences)
                row += [
                    Cell.of(one.sentences[number]) if known else None,
                    one.sentence_mentions[number] if known else 0,
                ]
        return Table("sentences", "By sentence", columns, rows, detail=True)

    def _draw_first_words(self, value: Value) -> tuple[Table, Chart]:
        """Draw the curve over the first words of the captions."""
        numbers = {number for one in self.systems.values() for number in one.lengths if number}
        ticks = [*sorted(numbers), 0]
        series = {
            name: [one.lengths[number][value] if number in one.lengths else Estimate(float("nan")) for number in ticks]
            for name, one in self.systems.items()
        }
        names = [str(number) if number else "all" for number in ticks]
        title, unit = f"{LABELS[value]} of the first words", f"{LABELS[value]}, %"
        return _draw_curves(f"lengths_{value}", title, "words", names, series, self.resampling.level, unit)

    def _build_length_table(self) -> Table:
        """Build a table of captions by their own length."""
        columns: list[Column | str] = ["captions"]
        rows: list[list[Shown]] = [
            [name] for name in ("shortest quarter", "2nd quarter", "3rd quarter", "longest quarter")
        ]
        for name, one in self.systems.items():
            before = f"{name}: " if len(self.systems) > 1 else ""
            columns.append(Column(f"{before}words", decimals=1))
            columns += [
                Column(f"{before}{LABELS[value]}", decimals=1, scale=100, spread="half", bar=True, fault=True)
                for value in CALLED_CHAIR
            ]
            for row, (words, wrong_captions, wrong_mentions) in zip(rows, one.by_length, strict=True):
                row += [words, Cell.of(wrong_captions), Cell.of(wrong_mentions)]
        return Table("by_length", "By the length of captions", columns, rows, "± is half of the interval over images.")

    def _collect_data(self, name: str) -> dict[str, Any]:
        one, measured = self.systems[name], self._group_by_value()[name]
        return {
            "values": {
                value: {"value": measured[value].corpus, **_get_ends(self._get_cells(name)[value])} for value in VALUES
            },
            "objects": {category: count._asdict() for category, count in one.objects.items()},
            "pairs": [{"invented": a, "real": b, "images": images} for (a, b), images in one.pairs.items()],
            "quarters": one.quarters,
            "sentences": one.sentences,
            "lengths": {number or "all": values for number, values in one.lengths.items()},
            "by_length": [{"words": words, "s": s, "i": i} for words, s, i in one.by_length],
        }


def _get_ends(cell: Cell) -> dict[str, float]:
    return {"low": cell.low, "high": cell.high}


def _draw_curves(
    key: str,
    title: str,
    tick: str,
    ticks: Sequence[str],
    series: Mapping[str, Sequence[Estimate]],
    level: float,
    unit: str,
) -> tuple[Table, Chart]:
    """Build a table of shares by step, and a chart with a curve for each system."""
    columns = [
        Column(unit if len(series) == 1 else name, decimals=1, scale=100, level=level, key=name) for name in series
    ]
    rows: list[list[Shown]] = [
        [name, *(Cell.of(values[index]) for values in series.values())] for index, name in enumerate(ticks)
    ]
    lines = [
        Series(
            name,
            list(ticks),
            [100 * one.value for one in values],
            [100 * one.low for one in values],
            [100 * one.high for one in values],
        )
        for name, values in series.items()
    ]
    return Table(key, title, (tick, *columns), rows, unit), Chart("lines", lines, title, unit, x=tick)


def probe_hallucination(
    systems: Mapping[str, CaptionSet],
    metric: str | Chair = "chair",
    resampling: Resampling = Resampling(),
    *,
    missing: Missing = "error",
    progress: Progress | None = None,
) -> Hallucination:
    """Compare the objects that systems invent by CHAIR, with the parameters of the metric; its ``value`` is not used.

    All systems must have captioned the same items, unless ``missing`` is ``skip``: then only the
    items that all of them have count.
    """
    step = progress or (lambda name: None)
    chair = parse(metric) if isinstance(metric, str) else metric
    if not isinstance(chair, Chair):
        raise InputError(f"{metric}: expected chair with its parameters, such as chair(objects=objects.parquet)")
    if not systems:
        raise InputError("no captions, expected at least one system")
    metrics = [replace(chair, value=value) for value in SCORED]
    differences, test = tuple[Difference, ...](), ""
    if len(systems) > 1:
        compared = compare(dict(systems), metrics, resampling=resampling, progress=progress, missing=missing)
        reports, differences, test = compared.reports, compared.differences, compared.test
    else:
        ((name, captions),) = systems.items()
        reports = {name: evaluate(captions, metrics, resampling=resampling, progress=progress)}
    inventions = {}
    for name, report in reports.items():
        step(f"{name}: objects")
        inventions[name] = inspect_captions(report.captions, chair, resampling)
    written = str(chair).replace("value=s,", "").replace("(value=s)", "")
    names = ", ".join(dict.fromkeys(captions.name for captions in systems.values()))
    return Hallucination(names, resampling, written, reports, inventions, differences, test)


def inspect_captions(captions: CaptionSet, chair: Chair, resampling: Resampling) -> InventedObjects:
    """Collect the objects that the captions of one system invent."""
    state = chair.prepare(captions)
    _, read, truths = chair.examine(captions, state)
    owners = captions.candidates.owners.tolist()
    known = [(one, truths[owner], owner) for one, owner in zip(read, owners, strict=True) if not truths[owner].reason]
    quarters, sentences = _measure_positions(known, len(captions), resampling)
    numbers = _count_by_sentence(known)
    most = max((number for number, mentions in enumerate(numbers, 1) if mentions), default=1)
    return InventedObjects(
        objects=_count_objects(known),
        pairs=_count_pairs(known),
        quarters=quarters,
        sentences=sentences[:most],
        sentence_mentions=numbers[:most],
        lengths=_measure_lengths(captions, chair, resampling),
        by_length=_measure_length_quarters(known, len(captions), resampling),
        captions=_find_inventing_captions(known),
    )


# Captions of images with known objects: caption, objects of the image, index of the item.
Known = Sequence[tuple[ReadCaption, ImageObjects, int]]


def _count_objects(known: Known) -> dict[str, ObjectCount]:
    mentions, wrong, images = Counter[str](), Counter[str](), dict[str, set[int]]()
    for one, truth, owner in known:
        for mention in one.objects.mentions:
            mentions[mention.category] += 1
            if mention.category not in truth.objects:
                wrong[mention.category] += 1
                images.setdefault(mention.category, set()).add(owner)
    order = sorted(mentions, key=lambda category: (-wrong[category], category))
    return {
        category: ObjectCount(mentions[category], wrong[category], len(images.get(category, ()))) for category in order
    }


def _find_inventing_captions(known: Known) -> dict[str, list[InventingCaption]]:
    """Return the first captions that invent each object."""
    found: dict[str, list[InventingCaption]] = {}
    for one, truth, owner in known:
        wrong: dict[str, list[tuple[int, int]]] = {}
        for mention in one.objects.mentions:
            if mention.category not in truth.objects:
                wrong.setdefault(mention.category, []).append((mention.start, mention.stop))
        for category, spans in wrong.items():
            if len(own := found.setdefault(category, [])) < SHOWN:
                own.append(InventingCaption(owner, one.text, tuple(spans), truth.objects))
    return found


def _count_pairs(known: Known) -> dict[tuple[str, str], int]:
    pairs: dict[tuple[str, str], set[int]] = {}
    for one, truth, owner in known:
        for category in one.objects.categories - truth.objects:
            for real in truth.objects:
                pairs.setdefault((category, real), set()).add(owner)
    return dict(
        sorted(((pair, len(images)) for pair, images in pairs.items()), key=lambda entry: (-entry[1], entry[0]))
    )


def _measure_positions(known: Known, items: int, resampling: Resampling) -> tuple[list[Estimate], list[Estimate]]:
    """Compute shares of wrong mentions by quarter of the caption and by sentence, with intervals over images."""
    wrong, number = np.zeros((items, 4 + SENTENCES)), np.zeros((items, 4 + SENTENCES))
    for one, truth, owner in known:
        words = max(len(one.text.split()), 1)
        for mention in one.objects.mentions:
            before = len(one.text[: mention.start].split())
            columns = [min(4 * before // words, 3), 4 + min(mention.sentence, SENTENCES - 1)]
            number[owner, columns] += 1
            wrong[owner, columns] += mention.category not in truth.objects
    estimates = compute_shares(wrong, number, np.arange(items), resampling).estimates()
    return estimates[:4], estimates[4:]


def _count_by_sentence(known: Known) -> list[int]:
    numbers = Counter(min(mention.sentence, SENTENCES - 1) for one, _, _ in known for mention in one.objects.mentions)
    return [numbers[sentence] for sentence in range(SENTENCES)]


def _measure_lengths(captions: CaptionSet, chair: Chair, resampling: Resampling) -> dict[int, dict[str, Estimate]]:
    """Compute CHAIR_S and CHAIR_I of the first words; steps longer than nearly all captions are left out."""
    lengths = sorted(len(text.split()) for text in captions.candidates.values)
    longest = lengths[int(0.95 * (len(lengths) - 1))] if lengths else 0
    curve = {}
    for number in [*(number for number in LENGTHS if number < longest), 0]:
        cut = replace(chair, max_words=number or chair.max_words)
        statistics: dict[str, Statistic] = {
            value: replace(cut, value=value).measure(captions).statistic for value in CALLED_CHAIR
        }
        estimates = bootstrap(statistics, resampling)
        curve[number] = {value: estimates.get(value, Estimate(one.value)) for value, one in statistics.items()}
    return curve


def _measure_length_quarters(
    known: Known, items: int, resampling: Resampling
) -> list[tuple[float, Estimate, Estimate]]:
    """Compute CHAIR by quarters of the captions' own length."""
    words = np.array([len(one.text.split()) for one, _, _ in known])
    quarter = np.empty(len(known), dtype=np.int64)
    quarter[np.argsort(words, kind="stable")] = 4 * np.arange(len(known)) // max(len(known), 1)
    hits, trials = np.zeros((items, 8)), np.zeros((items, 8))
    for (one, truth, owner), own in zip(known, quarter.tolist(), strict=True):
        wrong = sum(mention.category not in truth.objects for mention in one.objects.mentions)
        hits[owner, [own, 4 + own]] += wrong > 0, wrong
        trials[owner, [own, 4 + own]] += 1, len(one.objects.mentions)
    estimates = compute_shares(hits, trials, np.arange(items), resampling).estimates()
    return [(_mean(words[quarter == own]), estimates[own], estimates[4 + own]) for own in range(4)]


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")
