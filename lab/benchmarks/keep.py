"""``captious.keep`` on many generated items: processor time and peak memory of thresholds, filter and ids.

    python lab/benchmarks/keep.py [--items 2000000] [--shards 20]

The run is generated: captions of 3 to 15 words, two metrics, 1 % of the items without a value. Every measurement is a
fresh process that imports captious, keeps, and writes the ids to a Parquet file.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measure import in_process, table

FILTERS = ("top(cider, 0.3) and words > 4", "cider > 0.9 and words > 4", 'rouge > 0.2 and "bicycle" in caption')
WORDS = "a the dog cat on with red green street person riding bicycle in front of building"
METRICS = {"rouge": "ROUGE-L", "cider": "CIDEr-D"}


def shards(items: int, number: int) -> Iterator[tuple[str, Any]]:
    """The items of each shard: ids, candidates, their words and characters, the values of `METRICS`, reasons."""
    import pyarrow as pa

    rng, words = np.random.default_rng(0), np.array(WORDS.split(), dtype=object)
    for shard in range(number):
        size = items // number
        lengths = rng.integers(3, 16, size)
        drawn, ends = words[rng.integers(0, len(words), lengths.sum())], np.cumsum(lengths)
        captions = [" ".join(drawn[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
        cider = np.where(rng.random(size) < 0.01, np.nan, rng.gamma(2, 0.4, size))
        yield (
            f"{shard:03d}",
            pa.table(
                {
                    "id": [f"{shard:03d}{item:07d}" for item in range(size)],
                    "candidates": pa.array([[caption] for caption in captions], pa.list_(pa.string())),
                    "words": pa.array(lengths, pa.float64()),
                    "characters": pa.array(list(map(len, captions)), pa.float64()),
                    "rouge": rng.beta(2, 4, size),
                    "cider": pa.array(cider, pa.float64(), from_pandas=True),
                    "unscored": pa.array(np.where(np.isnan(cider), '{"cider": "no value"}', None), pa.string()),
                }
            ),
        )


def generate(folder: Path, items: int, number: int) -> None:
    """A run as captious score writes it."""
    from captious.runs.folder import Run, write_parquet
    from captious.runs.marker import Marker, MetricFacts

    metrics = tuple(MetricFacts(key, label) for key, label in METRICS.items())
    parts = {}
    run = Run(str(folder), Marker("generated", metrics))
    for name, part in shards(items, number):
        run.storage.write(run.items_name(name), write_parquet(part))
        parts[name] = len(part)
    Run(str(folder), Marker("generated", metrics, "shard", items, parts=parts)).write_marker()


def peak_megabytes() -> float:
    """Peak memory of this program; what getrusage says begins with the memory of the process that started it."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000


def measured(folder: str, text: str, out: str) -> dict[str, float]:
    """Keep once in this process."""
    from captious.runs.keep_items import keep

    start, wall = time.process_time(), time.perf_counter()
    passing = keep(folder, text, out=out, overwrite=True).passing
    return {
        "seconds": time.process_time() - start,
        "wall": time.perf_counter() - wall,
        "megabytes": peak_megabytes(),
        "passing": passing,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=2_000_000)
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--once", nargs=3, metavar=("FOLDER", "FILTER", "OUT"), help="measure in this process")
    options = parser.parse_args()
    if options.once:
        print(json.dumps(measured(*options.once)))
        return
    with tempfile.TemporaryDirectory() as place:
        generate(Path(place) / "run", options.items, options.shards)
        rows = [["filter", "items that pass", "processor s", "wall s", "peak MB"]]
        for text in FILTERS:
            line = ("--once", f"{place}/run", text, f"{place}/kept.parquet")
            best = min((in_process(__file__, *line) for _ in range(3)), key=lambda one: one["seconds"])
            numbers = f"{best['seconds']:.2f}", f"{best['wall']:.2f}", f"{best['megabytes']:.0f}"
            rows.append([text, f"{best['passing']:,}", *numbers])
        print(table(rows))


if __name__ == "__main__":
    main()
