"""The explorer on many items: seconds to open, to sort, filter, search and page, and the memory of the server.

    PYTHONPATH=. .venv/bin/python lab/benchmarks/explore.py --items 200000
    PYTHONPATH=. .venv/bin/python lab/benchmarks/explore.py --items 10000000 --systems 1 --rounds 20

Writes synthetic runs with images and ratings into a temporary folder, starts ``captious view`` in a process of its own,
and asks it over HTTP as the page does. The table has the median and the 95th percentile of many requests: "first" is
the first time that an order or a filter is asked for, "again" when it was asked for before. "cpu" is the processor time
that the server took for the first, of all its threads: the figure to read where other programs share the machine.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

WORDS = ["a", "the", "red", "big", "dog", "cat", "man", "woman", "runs", "sits", "on", "in", "near", "green", "grass"]
WORDS += ["table", "chair", "two", "three", "ball", "bus", "train"]
METRICS = ("bleu(n=4)", "rouge", "cider", "clipscore")
# Items of a part, as of a shard.
PART = 20_000
# Different captions, from which items draw theirs.
POOL = 200_000


def write_run(folder: Path, system: str, items: int, images: list[str], seed: int) -> None:
    """A run as ``captious score --out`` writes it from shards, with made-up captions and scores."""
    import pyarrow as pa

    from captious.runs.folder import ROW_GROUP, Run, write_parquet
    from captious.runs.marker import Marker, MetricFacts

    rng = np.random.default_rng(seed)
    candidates, references = _sentences(9, seed), _sentences(10, 0)
    parts: dict[str, int] = {}
    facts = [MetricFacts(key, key, signature=f"{key}|made up") for key in METRICS]
    run = Run(str(folder), Marker(system, tuple(facts), unit="shard", items=items))
    for first in range(0, items, PART):
        number, name = min(PART, items - first), f"{first // PART:05d}"
        ids, same = range(first, first + number), np.random.default_rng(first)
        columns = {
            "id": [f"{one:08d}" for one in ids],
            "candidates": _lists(candidates.take(pa.array(rng.integers(0, POOL, number))), 1),
            "references": _lists(references.take(pa.array(same.integers(0, POOL, 5 * number))), 5),
            "image": [images[one % len(images)] for one in ids],
            "style": np.array(["plain", "happy", "sad"])[same.integers(0, 3, number)],
            **{metric: rng.beta(2, 5, number) for metric in METRICS},
            "unscored": pa.nulls(number, pa.string()),
        }
        run.storage.write(run.items_name(name), write_parquet(pa.table(columns), ROW_GROUP))
        parts[name] = number
    replace(run, marker=replace(run.marker, parts=parts)).write_marker()


def _sentences(length: int, seed: int) -> Any:
    import pyarrow as pa

    words = np.array(WORDS)[np.random.default_rng(seed).integers(0, len(WORDS), (POOL, length))]
    return pa.array([" ".join(own) for own in words])


def _lists(texts: Any, number: int) -> Any:
    """Lists of so many texts each."""
    import pyarrow as pa

    return pa.ListArray.from_arrays(pa.array(np.arange(0, len(texts) + 1, number), pa.int32()), texts)


def write_ratings(path: Path, items: int) -> None:
    """Three ratings of a tenth of the captions of the first system, and of 20,000 at most."""
    rng = np.random.default_rng(5)
    with path.open("w", encoding="utf-8") as file:
        for number in range(0, items, max(10, items // 20_000)):
            for rater, rating in enumerate(rng.integers(1, 6, 3).tolist(), 1):
                row = {"id": f"{number:08d}/sat", "system": "sat", "rater": f"r{rater}", "rating": rating}
                file.write(json.dumps(row) + "\n")


def write_images(folder: Path, number: int) -> list[str]:
    """Photographs of noise, 640 × 480; gives their names."""
    from PIL import Image

    folder.mkdir()
    rng, paths = np.random.default_rng(1), []
    for index in range(number):
        path = folder / f"{index}.jpg"
        small = Image.fromarray(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8))
        small.resize((640, 480)).save(path, quality=85)
        paths.append(path.name)
    return paths


@contextmanager
def served(*arguments: str) -> Iterator[tuple[str, int, float]]:
    """A server in a process of its own: its link, its process, and the seconds until it answered."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "captious", "view", "--no-browser", *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        link = re.search(r"http://\S+", process.stdout.readline())
        if link is None:
            raise SystemExit("captious view did not start")
        yield link[0], process.pid, begin
    finally:
        process.terminate()
        process.wait(10)


def processor_time(pid: int) -> float:
    """Milliseconds that all threads of a process have run, those included that have ended."""
    clock = (~pid << 3) | 2  # clock_getcpuclockid of Linux
    return 1000 * time.clock_gettime(clock)


def memory(pid: int) -> str:
    """Resident memory of a process, now and at most."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    parts = [line.split() for line in lines if line.endswith("kB")]
    sizes = {name: int(size) // 1024 for name, size, _ in parts}
    return f"{sizes['VmRSS:']} MB, {sizes['VmHWM:']} MB at most"


def requests(items: int, systems: int, number: int) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """What the page asks for, by what the user does; each list has as many different requests as there are rounds."""
    rounds = range(number)
    between = ("worst", "best", "gap", "between") if systems > 1 else ("worst", "best", "longest", "given")
    orders = [
        {"sort": metric, "order": order, **whose}
        for metric in METRICS
        for order in between
        for whose in ({}, {"system": "sat"})
    ]
    disagreeing = [{"order": "disagree", "x": x, "y": y} for x in METRICS for y in METRICS if x != y]
    words = [f"{first} {second}" for first in WORDS[:5] for second in WORDS[4:8]]
    return {
        "sort": [("list", one) for one in orders[:number]],
        "two metrics disagree": [("list", one) for one in disagreeing[:number]],
        "raters disagree": [("list", {"order": "raters"})] * number,
        "filter by scores": [
            ("list", {"where": f'cider < 0.{n + 10} and system == "sat" and style == "happy"'}) for n in rounds
        ],
        "filter by caption": [("list", {"where": f'caption has "{words[n]}" and rouge > 0.1'}) for n in rounds],
        "search captions and references": [("list", {"q": f"{words[n].replace(' ', '')[:6]}x{n}"}) for n in rounds],
        "next page": [("list", {"first": 50 * n}) for n in rounds],
        "a page in the middle": [("list", {"first": items // 2 + 50 * n}) for n in rounds],
        "last page": [("list", {"first": 10**8, "order": "best"})] * number,
        "lasso": [
            ("list", {"x": "cider", "y": "rating", "lasso": f"0,1;0.{n + 10},1;0.{n + 10},4;0,4"}) for n in rounds
        ],
        "one item in full": [("item", {"id": f"{997 * n % items:08d}"}) for n in rounds],
        "histogram": [("distribution", {"score": METRICS[n % 4], "low": 0, "high": 1, "bins": 40}) for n in rounds],
        "scatter": [("points", {"x": METRICS[n % 3], "y": "rating"}) for n in rounds],
        "score by length": [("lengths", {"score": METRICS[n % 4]}) for n in range(4)],
        "agreement of metrics": [("agreement", {})] * 2,
        "scatter of a selection": [("points", {"x": METRICS[n % 3], "y": "rating", "q": WORDS[n]}) for n in rounds],
        "numbers of a selection": [("summary", {"sort": METRICS[n % 4], "q": WORDS[n]}) for n in rounds],
    }


def main() -> None:
    """Write the runs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--systems", type=int, default=2, choices=(1, 2))
    parser.add_argument("--images", type=int, default=500, help="different images")
    parser.add_argument("--rounds", type=int, default=20, help="different requests of a kind")
    parser.add_argument("--only", nargs="+", default=[""], help="kinds of requests, by the beginning of their names")
    parser.add_argument("--folder", type=Path, help="where the runs are written, and stay for the next time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        systems = ("sat", "oscar")[: options.systems]
        if not (folder / "ratings.jsonl").exists():
            folder.mkdir(parents=True, exist_ok=True)
            images = write_images(folder / "images", options.images)
            for seed, system in enumerate(systems, 1):
                write_run(folder / system, system, options.items, images, seed)
            write_ratings(folder / "ratings.jsonl", options.items)
        kinds = {
            what: asked
            for what, asked in requests(options.items, len(systems), options.rounds).items()
            if what.startswith(tuple(options.only))
        }
        measure(folder, systems, options.items, options.images, kinds)


def measure(
    folder: Path, systems: tuple[str, ...], items: int, images: int, kinds: dict[str, list[tuple[str, dict[str, Any]]]]
) -> None:
    """Ask a server of the runs in a folder, and print the table."""
    import httpx

    runs = [str(folder / system) for system in systems]
    size = sum(path.stat().st_size for run in runs for path in Path(run).glob("items/*.parquet"))
    files = ("--ratings", str(folder / "ratings.jsonl"), "--images", str(folder / "images"))
    with served(*runs, *files) as (link, pid, begin), httpx.Client(timeout=600) as client:
        address = link.partition("?")[0]
        client.get(link, follow_redirects=True).raise_for_status()
        print(f"{items:,} items, {len(systems)} systems, {len(METRICS)} metrics and ratings, {size / 1e6:,.0f} MB")
        seconds, processor = time.perf_counter() - begin, processor_time(pid) / 1000
        print(f"open: {seconds:.2f} s to the page, {processor:.2f} s of processor time; {memory(pid)}\n")
        print(f"{'milliseconds':32}{'first':>9}{'p95':>9}{'again':>9}{'p95':>9}{'cpu':>9}{'p95':>9}")
        for what, asked in kinds.items():
            (first, busy), (again, _) = (_times(client, address, asked, pid) for _ in range(2))
            print(f"{what:32}{_cells([first, again, busy])}", flush=True)
        pictures = [f"{address}thumbnail/{number}" for number in range(min(images, items))]
        print(f"{'thumbnail':32}{_cells([[_milliseconds(client, one) for one in pictures] for _ in range(2)])}")
        print(f"\nmemory at the end: {memory(pid)}")


def _cells(rows: list[list[float]]) -> str:
    return "".join(f"{median(row):9.0f}{np.quantile(row, 0.95):9.0f}" for row in rows)


def _times(
    client: Any, address: str, asked: list[tuple[str, dict[str, Any]]], pid: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of each request, and the processor time that the server took for it."""
    times, busy = [], []
    for route, words in asked:
        before = processor_time(pid)
        times.append(_milliseconds(client, f"{address}api/{route}", {"number": 50, **words}))
        busy.append(processor_time(pid) - before)
    return times, busy


def _milliseconds(client: Any, address: str, words: dict[str, Any] | None = None) -> float:
    """Milliseconds of one request with its whole answer."""
    begin = time.perf_counter()
    client.get(address, params=words).raise_for_status()
    return 1000 * (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
