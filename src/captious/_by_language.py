"""``captious.evaluate_by_language``: captions in several languages, each scored by itself with its own tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

from captious._compare import group_by_system
from captious._core.languages import ENGLISH, LANGUAGE_COLUMN, LANGUAGES, find_language, parse_language_code
from captious._core.values import PlainState
from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.join import format_first, set_language
from captious.io.read import read, reading_of
from captious.metrics.contract import Metric
from captious.metrics.registry import DEFAULT, parse_all
from captious.metrics.requests import Specs, check_specs
from captious.options import Missing, Reading, Resampling, Runtime
from captious.render import Answer, Column, Document, Figure, Result, Table, link
from captious.render.answers import NAMES
from captious.runs import Report
from captious.runs.report_sections import find_main_metric, scale_cells


@dataclass(frozen=True, eq=False, repr=False)
class LanguageReports(PlainState, Result):
    """A report for each language. Values of two languages do not compare, so there is no overall value."""

    reports: Mapping[str, Report]
    """The report of each language, by its code."""
    refused: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The reasons why metrics have no value in a language, by its code."""
    linked: bool = False
    """True if the page links to the pages of the languages, which are next to it in a saved folder."""

    def __getitem__(self, code: str) -> Report:
        return self.reports[code]

    def __repr__(self) -> str:
        sizes = ", ".join(f"{code} {report.size:,}" for code, report in self.reports.items())
        return f"<LanguageReports {sizes} items>"

    def document(self) -> Document:
        """Return the page: a row for each language."""
        reports = list(self.reports.values())
        labels = {key: report.label(key) for report in reports for key in report.measurements}
        columns: list[Column | str] = ["language", Column("items", decimals=0)]
        names = {code: LANGUAGES[code].name for code in self.reports}
        rows: list[list[Any]] = [
            [link(names[code], f"{code}/report.html") if self.linked else names[code], report.size]
            for code, report in self.reports.items()
        ]
        for key, label in labels.items():
            columns.append(Column(label, key=key, percent=1, spread="half"))
            for row, report in zip(rows, reports, strict=True):
                row.append(scale_cells([report], key)[0] if key in report.measurements else None)
        level = reports[0].resampling.level
        spread = f"± is half of the {100 * level:.4g}% interval. " if reports[0].intervals else ""
        note = f"{spread}Values of two languages, or of two tokenizers, do not compare."
        named = {names[code]: report for code, report in self.reports.items()}
        refusals = [f"{LANGUAGES[code].name}: {why}" for code, lines in self.refused.items() for why in lines]
        return Document(
            f"{PurePath(reports[0].name).name}: {len(reports)} languages",
            f"{sum(report.size for report in reports):,} items",
            [Table("languages", "Languages", columns, rows, note)],
            warnings=[*refusals, *group_by_system({name: report.warnings for name, report in named.items()})],
            notes=group_by_system({name: report.notes for name, report in named.items()}),
            signatures=group_by_system({name: report.signatures for name, report in named.items()}),
            data={"languages": {code: report.data() for code, report in self.reports.items()}},
            answer=self._answer(columns),
        )

    def _answer(self, columns: Sequence[Column | str]) -> Answer:
        """Return the plain answer: the main metric in each language, and that languages do not compare."""
        key = find_main_metric(next(iter(self.reports.values())))
        column = next((one for one in columns if isinstance(one, Column) and one.key == key), None)
        scored = [(code, report) for code, report in self.reports.items() if key in report.measurements]
        if key is None or column is None or not scored:
            return ""
        parts: list[str | Figure] = [f"{column.name} is "]
        for index, (code, report) in enumerate(scored[:NAMES]):
            parts += [
                "" if not index else ", ",
                Figure(scale_cells([report], key)[0], column),
                f" in {LANGUAGES[code].name}",
            ]
        more = f" ({len(scored) - NAMES} more languages below)" if len(scored) > NAMES else ""
        return [*parts, f"{more}. Values of two languages do not compare."]

    def files(self, percent: bool = False) -> dict[str, str]:
        """Return the files of a saved folder, whose page links to those of the languages."""
        return super(LanguageReports, replace(self, linked=True)).files(percent)

    def write_files(self, folder: Path) -> None:
        """Write the run of each language, with its page, into a folder named by its code."""
        for code, report in self.reports.items():
            report.save(folder / code)


def evaluate_by_language(
    captions: Any,
    metrics: Specs = DEFAULT,
    *,
    resampling: Resampling = Resampling(),
    runtime: Runtime | None = None,
    progress: Callable[[str], None] | None = None,
    references: Any = None,
    images: Any = None,
    missing: Missing = "error",
    reading: Reading = Reading(),
) -> LanguageReports:
    """Score captions in several languages, named by a column ``language``, each language by itself.

    Each has its own tokenizer, document frequencies and report. A metric that does not know a language has no value in
    it, with a warning. The arguments are those of ``captious.evaluate``.

    >>> rows = [
    ...     {"id": 1, "language": "en", "caption": "a dog", "references": ["the dog"]},
    ...     {"id": 2, "language": "zh", "caption": "一只狗", "references": ["一只小狗"]},
    ... ]
    >>> reports = evaluate_by_language(rows, "rouge_n(n=1)", resampling=Resampling(0))
    >>> {code: round(report["rouge_n"].corpus, 4) for code, report in reports.reports.items()}
    {'en': 0.5, 'zh': 0.8571}
    """
    sets = split_languages(read(captions, reading=reading_of(reading, references, images, missing)))
    members = parse_all(check_specs(metrics), sets.values())
    reports, refused = dict[str, Report](), dict[str, list[str]]()
    for code, own in sets.items():
        fitting = list[Metric]()
        for metric in members:
            try:
                metric.refuse_language(code)
                fitting.append(metric)
            except InputError as error:
                refused.setdefault(code, []).append(str(error))
        if fitting:
            if progress:
                progress(LANGUAGES[code].name)
            reports[code] = evaluate(own, fitting, resampling=resampling, runtime=runtime, progress=progress)
    if not reports:
        raise InputError(next(iter(refused.values()))[0])
    return LanguageReports(reports, refused)


def split_languages(captions: CaptionSet) -> dict[str, CaptionSet]:
    """Return the items of each language, in the order of first occurrence.

    A code may have a region, such as ``zh-CN``. An item without a code, or with an unknown one, is refused.
    """
    codes = list(map(parse_language_code, captions.columns.get(LANGUAGE_COLUMN, ())))
    if captions.language and {*codes} != {captions.language}:
        raise InputError(f"{captions.name}: language={captions.language!r} was named for all items, expected none")
    if LANGUAGE_COLUMN not in captions.columns:
        raise InputError(f"{captions.name}: no column {LANGUAGE_COLUMN!r}, expected the code of each item's language")
    indices: dict[str, list[int]] = {}
    for index, code in enumerate(codes):
        indices.setdefault(code, []).append(index)
    for code, own in indices.items():
        number = "1 item" if len(own) == 1 else f"{len(own):,} items"
        where = f"{captions.name}: {number} ({format_first([captions.ids[index] for index in own])})"
        if not code:
            raise InputError(f"{where} without a value in the column {LANGUAGE_COLUMN!r}")
        try:
            find_language(code)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
    try:
        return {code: set_language(captions.take(own), code) for code, own in indices.items()}
    except InputError as error:
        raise InputError(
            f"{error}; the column {LANGUAGE_COLUMN!r} says so, and language=... for all items goes before it"
        ) from None


def has_languages(captions: CaptionSet) -> bool:
    """Return True if a column names languages of items other than English; `split_languages` checks the codes."""
    codes = set(map(parse_language_code, captions.columns.get(LANGUAGE_COLUMN, ())))
    return not captions.language and not codes.isdisjoint(LANGUAGES.keys() - {ENGLISH})
