"""RELIC: LIC for gender, race and age, our values beside those of its tables 1 to 4.

    python lab/reproductions/relic.py --data DATA               # tables 1-4, LSTM columns, ten seeds
    python lab/reproductions/relic.py --data DATA --tables 3 --classifiers "bert-ft(model=FOLDER),bert-pre"

DATA is the folder of the shared evaluation data (default: CAPTIOUS_SHARED_DATA). A GPU trains table 3 in minutes,
a CPU in days; ``--classifiers linear --seeds 1`` takes seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from captious._written import split
from captious.bias.audit import Audit, audit
from captious.bias.classifiers import classifier_named
from captious.bias.corpus import Classifier, Subject, read_subjects
from captious.bias.protocol import PRESETS, Protocol, published_seeds
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


def subjects(data: Path, table: str) -> list[Subject]:
    lic = data / "lic"
    if table in "34":
        return read_subjects([lic / "age.jsonl.gz"], "label", Reading(candidate_column=",".join(TABLES["3 age"])))
    files = sorted((lic / ("gender" if table == "1" else "race")).glob("*.jsonl.gz"))
    return read_subjects(files, "label", Reading(references=data / "coco" / "val2014.jsonl.gz"), number=5)


def protocol(data: Path, table: str, number: int) -> Protocol:
    """The preset of a table, with the originals' vocabularies."""
    chosen = replace(PRESETS[NAMES[table]], seeds=published_seeds(number))
    return chosen if table == "4" else replace(chosen, vocabulary=str(data / "lic" / "vocabulary" / "{model}.txt"))


def classifiers(names: str, table: str) -> list[Classifier]:
    return [classifier_named(text, PRESETS[NAMES[table]].frozen) for text in split(names)]


def tables(args: argparse.Namespace) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for table in args.tables.split(","):
        name = next(title for title in TABLES if title.startswith(table))
        people = subjects(args.data, table)
        start = time.perf_counter()
        chosen = protocol(args.data, table, args.seeds)
        found = audit(people, chosen, classifiers(args.classifiers, table), work=args.work)
        results[name] = {"seconds": time.perf_counter() - start, "rows": beside(found, name)}
        print_table(name, results[name])
        keep(args, "tables", results)
    return results


def beside(found: Audit, name: str) -> list[dict[str, Any]]:
    rows = []
    for row in found.rows:
        lic = row.lic
        published = TABLES[name].get(row.model, {}).get(row.classifier.split("(")[0])
        rows.append(
            {
                "model": row.model,
                "classifier": row.classifier,
                "lic_m": lic.lic_m,
                "sd_m": lic.sd_m,
                "lic_d": lic.lic_d,
                "sd_d": lic.sd_d,
                "lic": lic.lic,
                "interval": lic.interval,
                "accuracy": row.accuracy(),
                "seeds": {"model": lic.model.tolist(), "human": lic.human.tolist()},
                "unknown": row.corpus.unknown,
                "published": published,
            }
        )
    return rows


def print_table(name: str, result: dict[str, Any]) -> None:
    print(f"\nRELIC table {name}: {result['seconds']:.1f} s")
    print(f"{'':32}{'LIC_M':>12}{'published':>14}{'LIC_D':>14}{'published':>14}{'LIC':>7}{'publ.':>7}  within 2 sd")
    for row in result["rows"]:
        ours = (row["lic_m"], row["sd_m"], row["lic_d"], row["sd_d"])
        line = f"{row['model']:14}{row['classifier']:18}"
        theirs = row["published"]
        if theirs is None:
            print(f"{line}{ours[0]:7.1f} ± {ours[1]:3.1f}{'':14}{ours[2]:8.1f} ± {ours[3]:3.1f}")
            continue
        near = [abs(ours[i] - theirs[i]) <= 2 * theirs[i + 1] for i in (0, 2)]
        shown = "".join(
            f"{ours[i]:{8 if i else 6}.1f} ± {ours[i + 1]:3.1f}{theirs[i]:8.1f} ± {theirs[i + 1]:3.1f}" for i in (0, 2)
        )
        print(f"{line}{shown}{row['lic']:7.1f}{theirs[0] - theirs[2]:7.1f}  {near[0]!s:5} {near[1]!s:5}", flush=True)


def keep(args: argparse.Namespace, name: str, result: Any) -> None:
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / f"{name}{args.suffix}.json").write_text(json.dumps(result, indent=1))


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("CAPTIOUS_SHARED_DATA", "../shared/data")))
    parser.add_argument("--tables", default="3,4,1,2")
    parser.add_argument("--classifiers", default="lstm", help='such as "lstm(stack=64),bert-ft(model=FOLDER)"')
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--work", type=Path, default=None, help="folder of finished runs, to resume from")
    parser.add_argument("--out", type=Path, default=None, help="folder for the numbers as JSON")
    parser.add_argument("--suffix", default="")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options()
    parser.description = __doc__
    args = parser.parse_args(arguments)
    with using(Runtime(device=args.device)):
        tables(args)


if __name__ == "__main__":
    main()
