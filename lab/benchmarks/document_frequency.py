"""Document frequencies at scale: how many n-grams there are, how large the state is, time and memory.

Captions are generated: a caption is a walk in which each word has followers of its own, drawn by a power law. Its
parameters are set so that distinct n-grams of orders 1 to 4 grow as those of COCO do: 1.6 million of 200,000 captions,
exponent .80. Shards of 100,000 captions are counted by two processes, each shard into a file (pass 1). The files of the
first shards, and of all, are merged into one by a process of its own; another opens the result and looks up the n-grams
of a new shard (pass 2). 100 million captions are estimated from that.

python lab/benchmarks/document_frequency.py [--sizes 100000,1000000,10000000] [--folder /tmp/frequencies]
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import in_process, table

from captious._core.types import Ints
from captious.captions import CaptionSet, Ragged
from captious.metrics.chunks import prepare_shard
from captious.metrics.registry import parse
from captious.text.counts import mix
from captious.text.idf import DocumentFrequency
from captious.text.ngram_tables import TextTable

SIZES = "100000,1000000,10000000"
RECKONED = 100_000_000
PROCESSES = 2
SHARD = 100_000
# Words, and how much the first of them are preferred as followers: word u·VOCABULARY with u a power of a uniform.
VOCABULARY, FREQUENT = 300_000, 7.7
# Exponent of the power law by which the first, second, … follower of a word is chosen.
FOLLOWERS = 1.68
# Words of a caption, as in COCO.
WORDS = 10.46
SYLLABLES = ("ba", "co", "di", "fe", "gu", "ka", "lo", "mi", "ne", "pu", "ra", "so", "ti", "ve", "wu", "za")


def words() -> list[str]:
    """The vocabulary: the number of a word in letters, two for each hexadecimal digit."""
    return ["".join(SYLLABLES[int(digit, 16)] for digit in f"{number:x}") for number in range(VOCABULARY)]


def walks(number: int, seed: int) -> tuple[Ints, Ints]:
    """The words of so many captions by their numbers, one caption after the other, and the length of each."""
    generator = np.random.default_rng(seed)
    lengths = np.clip(generator.poisson(WORDS - 4, number) + 4, 4, 40)
    walk = np.zeros((number, int(lengths.max())), dtype=np.int64)
    last = np.zeros(number, dtype=np.uint64)
    for position in range(walk.shape[1]):
        follower = np.minimum((1 - generator.random(number)) ** (-1 / (FOLLOWERS - 1)), 2.0**62).astype(np.uint64)
        uniform = (mix(last, follower) >> np.uint64(11)).astype(np.float64) / 2**53
        walk[:, position] = VOCABULARY * uniform**FREQUENT
        last = walk[:, position].astype(np.uint64) + np.uint64(1)
    return walk[np.arange(walk.shape[1]) < lengths[:, None]], lengths


def shard(number: int, size: int = SHARD) -> CaptionSet:
    """Captions with one reference each."""
    vocabulary, (walk, lengths) = words(), walks(size, number)
    text = iter(map(vocabulary.__getitem__, walk.tolist()))
    references = tuple(" ".join(next(text) for _ in range(length)) for length in lengths.tolist())
    ids = tuple(f"{number}-{index}" for index in range(size))
    return CaptionSet(ids, Ragged((), np.zeros(size + 1, dtype=np.int64)), Ragged(references, np.arange(size + 1)))


def main() -> None:
    """Two tables, or in a process of its own the figures of one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES, help="numbers of captions, multiples of 100,000")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "frequencies")
    parser.add_argument("--step", choices=STEPS)
    parser.add_argument("--shards", type=int, nargs=2, metavar=("FIRST", "END"))
    given = parser.parse_args()
    if given.step:
        print(json.dumps(STEPS[given.step](given.folder, range(*given.shards))))
        return
    given.folder.mkdir(exist_ok=True)
    try:
        report(given.folder, [int(size) // SHARD for size in given.sizes.split(",")])
    finally:
        shutil.rmtree(given.folder)


def report(folder: Path, sizes: Sequence[int]) -> None:
    """Run all steps and print what they took."""

    def run(step: str, first: int, end: int) -> dict[str, Any]:
        # All work is done in children: the peak memory of a process begins with that of the one that started it.
        return in_process(__file__, "--folder", str(folder), "--step", step, "--shards", str(first), str(end))

    print(f"{run('calibrate', 0, 0)['line']}\n", flush=True)
    shards = max(sizes)
    bounds = [shards * part // PROCESSES for part in range(PROCESSES + 1)]
    with ThreadPoolExecutor(PROCESSES) as pool:
        counted = list(pool.map(lambda part: run("count", *bounds[part : part + 2]), range(PROCESSES)))
    wall = max(one["seconds"] for one in counted) / (shards * SHARD)
    work = sum(one["processor"] for one in counted) / (shards * SHARD)
    peak = max(one["peak"] for one in counted)
    print(
        f"pass 1: {work * 1e6:.1f} µs of processor time per caption, {wall * 1e6:.1f} µs elapsed with {PROCESSES} "
        f"processes, generating the captions not counted; peak {peak:.2f} GiB a process\n"
    )
    head = ["captions", "distinct n-grams", "exponent", "on disk", "merging", "peak", "open", "lookup of a shard"]
    rows, before = [head], None
    for number in sizes:
        merged = run("merge", 0, number)
        looked_up = run("look_up", number, number + 1)
        now = number * SHARD, merged["entries"]
        slope = math.log(now[1] / before[1]) / math.log(now[0] / before[0]) if before else math.nan
        rows.append(row(*now, slope, merged["processor"], merged["peak"], looked_up["open"], looked_up["look_up"]))
        if number == shards:
            scale = RECKONED / now[0]
            entries = now[1] * scale**slope
            opened = looked_up["open"] * entries / now[1]
            seconds = merged["processor"] * scale
            rows.append(row(RECKONED, entries, slope, seconds, merged["peak"], opened, math.nan))
        before = now
    rows[-1][0] += " (estimated)"
    print(table(rows))


def row(captions: float, entries: float, slope: float, *figures: float) -> list[str]:
    """A row of the table; what is unknown stays empty."""
    merging, peak, opened, looked_up = figures
    cells = [(entries / 1e6, "{:.2f} M"), (slope, "{:.2f}"), (12 * entries / 1e9, "{:.3f} GB"), (merging, "{:.1f} s")]
    cells += [(peak, "{:.2f} GiB"), (opened, "{:.2f} s"), (looked_up, "{:.2f} s")]
    return [f"{captions:,.0f}", *("" if math.isnan(value) else form.format(value) for value, form in cells)]


def calibrate(folder: Path, numbers: range) -> dict[str, str]:
    """How distinct n-grams of the generated captions grow."""
    sizes = [25_000, 50_000, 100_000, 200_000]
    distinct = [len(DocumentFrequency.of(shard(0, size)).counts) for size in sizes]
    slope = np.polyfit(np.log(sizes), np.log(distinct), 1)[0]
    counts = ", ".join(f"{number:,}" for number in distinct)
    named = ", ".join(f"{size:,}" for size in sizes)
    return {"line": f"{named} captions have {counts} distinct n-grams: exponent {slope:.2f}"}


def count(folder: Path, numbers: range) -> dict[str, float]:
    """Pass 1 of some shards."""
    metric, seconds, processor = parse("cider"), 0.0, 0.0

    def prepare(captions: CaptionSet, number: int) -> None:
        prepare_shard(captions, [metric])[metric].save(folder / f"{number}")

    for number in numbers:
        took = timed(partial(prepare, shard(number), number))
        seconds, processor = seconds + took[0], processor + took[1]
    return {"seconds": seconds, "processor": processor, "peak": peak()}


def merge(folder: Path, numbers: range) -> dict[str, float]:
    """The state of all these shards."""
    paths = [folder / f"{number}" for number in numbers]
    seconds, processor = timed(lambda: DocumentFrequency.merge_files(paths, folder / "whole"))
    figures = {"seconds": seconds, "processor": processor, "peak": peak()}
    return {**figures, "entries": len(DocumentFrequency.load(folder / "whole").counts)}


def look_up(folder: Path, numbers: range) -> dict[str, float]:
    """Pass 2: open the merged state, and look up all n-grams of a shard that it does not know."""
    table = TextTable.of(shard(numbers[0]))
    keys = [table.hash_ngrams(n) for n in range(1, 5)]
    start = time.perf_counter()
    state = DocumentFrequency.load(folder / "whole")
    opened = time.perf_counter() - start
    return {"open": opened, "look_up": timed(lambda: [state.counts.lookup(one) for one in keys])[0]}


STEPS: dict[str, Callable[[Path, range], dict[str, Any]]] = {
    "calibrate": calibrate,
    "count": count,
    "merge": merge,
    "look_up": look_up,
}


def timed(job: Callable[[], Any]) -> tuple[float, float]:
    """Seconds elapsed, and seconds of processor time."""
    start = time.perf_counter(), time.process_time()
    job()
    return time.perf_counter() - start[0], time.process_time() - start[1]


def peak() -> float:
    """The peak memory of this process in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
