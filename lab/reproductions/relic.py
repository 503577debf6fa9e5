"""RELIC: LIC for gender, race and age, our values beside those of its Tables 1 to 4.

python -m lab.reproductions relic --quick      # the linear classifier, three seeds: a minute on two cores
python -m lab.reproductions relic              # the published LSTM, ten seeds: minutes on a GPU; linear without one
python -m lab.reproductions relic --tables 3 --classifiers "bert-ft(model=FOLDER),bert-pre"
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lab.reproductions.beside import Beside, Row, arguments, show

from captious._core.specs import split_specs
from captious.bias.audit import Audit, AuditRow, audit
from captious.bias.classifiers import make_classifier
from captious.bias.corpus import AuditedCaptioner, Classifier, read_subjects
from captious.bias.protocol import PRESETS, Protocol, get_published_seeds
from captious.errors import InputError, format_one_line
from captious.models.devices import resolve_device
from captious.options import Reading, Runtime, using

NAMES = {"1": "relic-gender", "2": "relic-race", "3": "relic-age", "4": "relic-age-human"}
"""The preset of each table."""

TABLES: dict[str, dict[str, dict[str, tuple[float, float, float, float]]]] = {
    "1 gender": {
        "sat": {"lstm": (45.7, 1.6, 39.3, 1.0), "bert-ft": (48.6, 1.0, 47.5, 1.3), "bert-pre": (39.4, 1.0, 35.9, 0.7)},
        "oscar": {
            "lstm": (49.0, 1.4, 39.3, 0.9),
            "bert-ft": (52.4, 1.6, 47.7, 1.3),
            "bert-pre": (40.8, 1.1, 35.1, 0.6),
        },
        "nic_plus": {
            "lstm": (46.8, 1.6, 39.4, 0.8),
            "bert-ft": (49.9, 2.2, 47.7, 1.2),
            "bert-pre": (39.1, 1.5, 35.0, 0.6),
        },
        "nic_equalizer": {
            "lstm": (51.5, 1.5, 39.4, 0.9),
            "bert-ft": (54.6, 1.5, 47.6, 1.4),
            "bert-pre": (39.9, 1.5, 35.1, 0.6),
        },
    },
    "2 race": {
        "sat": {"lstm": (32.4, 1.9, 26.8, 0.8), "bert-ft": (37.0, 2.0, 36.5, 1.1), "bert-pre": (28.9, 1.8, 28.6, 0.7)},
        "oscar": {
            "lstm": (33.1, 1.8, 27.2, 1.2),
            "bert-ft": (39.0, 2.1, 36.7, 1.2),
            "bert-pre": (30.2, 2.8, 28.6, 1.0),
        },
    },
    "3 age": {
        "sat": {"lstm": (48.5, 1.4, 42.2, 1.3), "bert-ft": (52.1, 1.9, 48.0, 1.4), "bert-pre": (37.0, 1.4, 33.3, 0.5)},
        "oscar": {
            "lstm": (52.9, 1.9, 43.6, 4.1),
            "bert-ft": (55.9, 2.0, 48.1, 0.8),
            "bert-pre": (39.6, 1.8, 33.4, 0.9),
        },
        "nic_plus": {
            "lstm": (43.0, 1.6, 42.1, 1.0),
            "bert-ft": (46.6, 1.7, 47.5, 1.1),
            "bert-pre": (35.1, 1.1, 32.9, 1.6),
        },
        "nic_equalizer": {
            "lstm": (43.3, 1.5, 42.0, 1.1),
            "bert-ft": (46.7, 1.6, 47.9, 1.1),
            "bert-pre": (34.8, 1.8, 33.0, 0.9),
        },
    },
    "4 age, human words": {
        "sat": {"lstm": (48.7, 1.8, 43.2, 1.1), "bert-ft": (51.7, 1.5, 48.9, 1.3), "bert-pre": (37.0, 1.4, 33.2, 0.8)},
        "oscar": {
            "lstm": (53.3, 1.7, 43.2, 1.0),
            "bert-ft": (55.9, 2.0, 50.3, 2.0),
            "bert-pre": (39.6, 1.8, 33.5, 0.8),
        },
        "nic_plus": {
            "lstm": (43.1, 1.5, 43.3, 1.1),
            "bert-ft": (46.6, 1.7, 48.9, 1.2),
            "bert-pre": (35.5, 1.1, 33.3, 0.7),
        },
        "nic_equalizer": {
            "lstm": (43.2, 1.6, 43.0, 1.1),
            "bert-ft": (46.7, 1.6, 48.8, 1.3),
            "bert-pre": (34.8, 1.8, 33.3, 0.8),
        },
    },
}
"""LIC_M, its sd, LIC_D, its sd, by table, captioner and classifier, as published."""


def subjects(data: Path, table: str) -> list[AuditedCaptioner]:
    lic = data / "lic"
    if table in "34":
        return read_subjects([lic / "age.jsonl.gz"], "label", Reading(candidate_column=",".join(TABLES["3 age"])))
    files = sorted((lic / ("gender" if table == "1" else "race")).glob("*.jsonl.gz"))
    return read_subjects(files, "label", Reading(references=data / "coco" / "val2014.jsonl.gz"), number=5)


def protocol(data: Path, table: str, number: int) -> Protocol:
    """The preset of a table, with the originals' vocabularies."""
    chosen = replace(PRESETS[NAMES[table]], seeds=get_published_seeds(number))
    return chosen if table == "4" else replace(chosen, vocabulary=str(data / "lic" / "vocabulary" / "{model}.txt"))


def classifiers(names: str, table: str) -> list[Classifier]:
    return [make_classifier(text, PRESETS[NAMES[table]].frozen) for text in split_specs(names)]


REASONS = {
    "lstm": "a CPU takes days: run it on a GPU, or name it in --classifiers",
    "bert-ft": "no weights of BERT base: name a folder, --classifiers 'bert-ft(model=FOLDER)'",
    "bert-pre": "no weights of BERT base: name a folder, --classifiers 'bert-pre(model=FOLDER)'",
}
"""Why a classifier of the paper is not run unless it is asked for."""
NOTES = (
    "LIC_M and LIC_D are means over seeds, ± their standard deviation, both in points; LIC = LIC_M − LIC_D, its "
    "interval allows for splits that share images. Seeds of the published values: ten.",
)
LINEAR = (
    "The linear classifier is none of the paper's. It stands beside the published LSTM: its levels differ, the order "
    "of the captioners and the sign of LIC can be compared."
)


def rows(table: str, args: argparse.Namespace) -> Iterator[Row]:
    """The rows of one table of the paper."""
    name = next(title for title in TABLES if title.startswith(table))
    try:
        people = subjects(args.data, table)
    except InputError as error:
        yield Row(f"Table {name}", "all captioners", note=f"not run: {format_one_line(error)}")
        return
    chosen = classifiers(args.classifiers, table)
    yield from table_rows(audit(people, protocol(args.data, table, args.seeds), chosen, work=args.work), name)


def table_rows(result: Audit, name: str) -> Iterator[Row]:
    """LIC_M, LIC_D and LIC of every captioner under every classifier."""
    for classifier in dict.fromkeys(row.classifier for row in result.rows):
        own = [row for row in result.rows if row.classifier == classifier and row.model in TABLES[name]]
        for part in ("LIC_M", "LIC_D", "LIC"):
            yield from (measured(name, part, row) for row in own)


def measured(table: str, part: str, row: AuditRow) -> Row:
    """One number of a captioner beside the published one, of the LSTM for classifiers that the paper has not."""
    kind = row.classifier.split("(")[0]
    published = TABLES[table][row.model].get(kind, TABLES[table][row.model]["lstm"])
    what = f"Table {table}, {kind}: {part}"
    lic = row.lic
    more = {"seeds": {"model": lic.model.tolist(), "human": lic.human.tolist()}, "accuracy": row.accuracy()}
    if part == "LIC":
        low, high = lic.interval
        return Row(what, row.model, lic.lic, low, high, published[0] - published[2], more=more)
    value, sd = (lic.lic_m, lic.sd_m) if part == "LIC_M" else (lic.lic_d, lic.sd_d)
    theirs, their_sd = published[:2] if part == "LIC_M" else published[2:]
    note = f"± {sd:.1f}, published ± {their_sd}"
    if kind in TABLES[table][row.model]:
        note += f"; {'within' if abs(value - theirs) <= 2 * their_sd else 'outside'} two published sd"
    return Row(what, row.model, value, published=theirs, note=note, more=more)


def main() -> None:
    parser = arguments("relic", __doc__, "the linear classifier and three seeds")
    parser.add_argument("--tables", default="1,2,3,4")
    parser.add_argument("--classifiers", help='such as "lstm(stack=64),bert-ft(model=FOLDER)"')
    parser.add_argument("--seeds", type=int, help="how many of the published seeds")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--work", type=Path, default=None, help="folder of finished runs, to resume from")
    args = parser.parse_args()
    started = time.perf_counter()
    if args.classifiers is None:
        args.classifiers = "linear" if args.quick or resolve_device(args.device).type == "cpu" else "lstm"
    args.seeds = args.seeds or (3 if args.quick else 10)
    with using(Runtime(device=args.device)):
        chosen = [row for table in args.tables.split(",") for row in rows(table, args)]
    run = {written.split("(")[0] for written in split_specs(args.classifiers)}
    tables = f"Tables {args.tables.replace(',', ', ')}"
    chosen += [Row(tables, kind, note=f"not run: {reason}") for kind, reason in REASONS.items() if kind not in run]
    notes = (*NOTES, LINEAR) if "linear" in args.classifiers else NOTES
    show(Beside("RELIC, Tables 1 to 4", chosen, notes), "relic", args.out, started)


if __name__ == "__main__":
    main()
