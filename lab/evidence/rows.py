"""Studies and printed tables as rows of evidence."""

from __future__ import annotations

import datetime
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from captious._core.records import from_json, parse_toml
from captious.study import Preferences, Ratings, Study
from captious.study.evidence import EvidenceRow, Kind
from lab.evidence.datasets import Dataset, public_form

PRINTED = Path(__file__).with_name("printed.toml")
# Statistics of ratings that are stored beside the headline.
BESIDE = ("tau_b", "tau_c", "pearson", "sample_tau")
SYSTEMS = ("system_tau", "system_pearson")
# Images with several captions below which no tau within an image is stored.
FEWEST = 20


def study_rows(
    dataset: Dataset, ratings: Ratings | Preferences, study: Study, stored: Collection[str] = ()
) -> list[EvidenceRow]:
    """The rows of one study: the headline of each metric with its rank, the other statistics without.

    ``stored`` are the metrics whose values another program computed.
    """
    words, references = caption_facts(ratings, study)
    kind: Kind = "pairs" if isinstance(ratings, Preferences) else "ratings"
    command = f"captious study run {dataset.recipe} --data {dataset.folder}" if dataset.folder else "captious.demo()"
    rows = []
    for key in study.order:
        score = next(one for one in study.scores if one.key == key)
        common = EvidenceRow(
            dataset=dataset.name,
            kind=kind,
            domain=dataset.domain,
            language=dataset.language,
            caption_words=words,
            references=references,
            items=study.rows if kind == "pairs" else study.design.items,
            statistic=study.statistic,
            metric=key,
            signature="" if key in stored else public_form(score.signature),
            value=0.0,
            low=None,
            high=None,
            ranks=None,
            source="stored-outputs" if key in stored else "computed",
            where=dataset.origin if key in stored else command,
            recipe=dataset.recipe,
            date=datetime.date.today().isoformat(),
        )
        for name in shown_statistics(study, ratings):
            estimate = study.estimates[key][name]
            number = {"value": round(estimate.value, 5), "low": round(estimate.low, 5), "high": round(estimate.high, 5)}
            if name in SYSTEMS:
                systems = len(getattr(study.design, "systems", ()))
                rows.append(replace(common, statistic=name, kind="systems", items=systems, **number))
            else:
                ranks = study.ranks[key] if name == study.statistic else None
                rows.append(replace(common, statistic=name, ranks=ranks, **number))
    return rows


def shown_statistics(study: Study, ratings: Ratings | Preferences) -> list[str]:
    """The headline, then what papers print beside it: the other tau, Pearson; categories of pairs; systems.

    Tau within an image is left out where few images have several captions.
    """
    families = list(study.design.families)
    if study.statistic == "mean":
        names = [name for name in families if name not in ("mean", "strict")]
        return ["mean", *(names if len(names) > 1 else [])]
    several = sum(count > 1 for count in Counter(ratings.groups).values())
    told = [name for name in (*BESIDE, *SYSTEMS) if name != "sample_tau" or several >= FEWEST]
    beside = [name for name in told if name in families and name != study.statistic]
    return [study.statistic, *beside]


def caption_facts(ratings: Ratings | Preferences, study: Study) -> tuple[float, float]:
    """The median number of words and of references of the captions in a study."""
    assert ratings.captions is not None
    items = [ratings.captions[key] for key in study.ids]
    words = statistics.median(len(item.candidate.split()) for item in items)
    return float(words), float(statistics.median(len(item.references) for item in items))


@dataclass(frozen=True)
class PrintedTable:
    """Numbers of one table of a paper or README. Facts of data that are measured here are taken from there."""

    dataset: str
    where: str
    statistics: tuple[str, ...]
    values: Mapping[str, Any]
    """The numbers of each metric in the order of the statistics; a text leaves one out."""
    scale: float = 100.0
    """What the printed numbers are divided by."""
    kind: str = "ratings"
    domain: str = "photographs"
    language: str = "English"
    caption_words: float | None = None
    references: float | None = None
    items: int = 0
    recipe: str = ""


def printed_rows(measured: Iterable[EvidenceRow], path: Path = PRINTED) -> list[EvidenceRow]:
    """The rows of all printed tables."""
    known = {row.dataset: row for row in reversed(list(measured))}
    rows = []
    for entry in parse_toml(path.read_text(encoding="utf-8"), str(path), "file of printed tables")["tables"]:
        table: PrintedTable = from_json(PrintedTable, entry)
        facts: dict[str, Any] = {
            name: getattr(known.get(table.dataset, table), name)
            for name in ("kind", "domain", "language", "caption_words", "references", "items", "recipe")
        }
        for metric, numbers in table.values.items():
            for statistic, number in zip(table.statistics, numbers, strict=True):
                if isinstance(number, str):
                    continue
                rows.append(
                    EvidenceRow(
                        dataset=table.dataset,
                        statistic=statistic,
                        metric=metric,
                        signature="",
                        value=round(number / table.scale, 5),
                        low=None,
                        high=None,
                        ranks=None,
                        source="printed",
                        where=table.where,
                        date=datetime.date.today().isoformat(),
                        **facts,
                    )
                )
    return rows
