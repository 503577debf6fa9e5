"""The explorer on 200,000 items of two systems: seconds to open, to sort, filter, search and page, and its memory.

    PYTHONPATH=. .venv/bin/python lab/benchmarks/explore.py --items 200000

Writes two synthetic runs with images and ratings into a temporary folder, starts ``captious view`` in a process of its
own, and asks it over HTTP as the page does. The table has the median and the 95th percentile of many requests:
"first" is the first time that an order or a filter is asked for, "again" when it is known.
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
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

WORDS = ["a", "the", "red", "big", "dog", "cat", "man", "woman", "runs", "sits", "on", "in", "near", "green", "grass"]
WORDS += ["table", "chair", "two", "three", "ball", "bus", "train"]
METRICS = ("bleu(n=4)", "rouge", "cider", "clipscore")
ROUNDS = 20


def write_run(folder: Path, system: str, items: int, images: list[str], seed: int) -> None:
    """A run as ``captious score --out`` writes it, with made-up captions and scores."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    texts = [" ".join(words) for words in np.array(WORDS)[rng.integers(0, len(WORDS), (items, 9))]]
    references = [
        " ".join(words) for words in np.array(WORDS)[np.random.default_rng(0).integers(0, len(WORDS), (5 * items, 10))]
    ]
    columns = {
        "id": [f"{number:08d}" for number in range(items)],
        "candidates": [[text] for text in texts],
        "references": [references[5 * number : 5 * number + 5] for number in range(items)],
        **{metric: rng.beta(2, 5, items) for metric in METRICS},
        "style": np.array(["plain", "happy", "sad"])[rng.integers(0, 3, items)],
        "image": [images[number % len(images)] for number in range(items)],
    }
    made = {"value": None, "level": None, "low": None, "high": None, "error": None, "decimals": 4, "unscored": 0}
    facts = [
        {"metric": key, "label": key, **made, "higher_is_better": True, "range": [0, 1], "signature": f"{key}|made up"}
        for key in METRICS
    ]
    marker = {
        "format": 1, "captious": "0", "name": system, "items": items, "skipped": 0, "unit": "item", "metrics": facts,
        "read": {}, "parts": {"captions": items}, "failed": {}, "warnings": [], "notes": [], "complete": True,
        "resampling": {"samples": 0, "seed": 0, "level": 0.95},
    }  # fmt: skip
    (folder / "items").mkdir(parents=True)
    pq.write_table(pa.table(columns), folder / "items" / "captions.parquet")
    (folder / "captious-run.json").write_text(json.dumps(marker))


def write_ratings(path: Path, items: int) -> None:
    """Three ratings of a tenth of the captions of the first system."""
    rng = np.random.default_rng(5)
    with path.open("w", encoding="utf-8") as file:
        for number in range(0, items, 10):
            for rater, rating in enumerate(rng.integers(1, 6, 3).tolist(), 1):
                row = {"id": f"{number:08d}/sat", "system": "sat", "rater": f"r{rater}", "rating": rating}
                file.write(json.dumps(row) + "\n")


def write_images(folder: Path, number: int) -> list[str]:
    """Photographs of noise, 640 × 480."""
    from PIL import Image

    folder.mkdir()
    rng, paths = np.random.default_rng(1), []
    for index in range(number):
        path = folder / f"{index}.jpg"
        small = Image.fromarray(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8))
        small.resize((640, 480)).save(path, quality=85)
        paths.append(str(path))
    return paths


@contextmanager
def served(*arguments: str) -> Iterator[tuple[str, int, float]]:
    """A server in a process of its own: its link, its process, and the seconds until it answered."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "captious", "view", *arguments], stdout=subprocess.PIPE, text=True
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


def memory(pid: int) -> float:
    """Resident memory of a process in MB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def requests(items: int) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """What the page asks for, by what the user does; each list has as many different requests as there are rounds."""
    rounds = range(ROUNDS)
    orders = [
        {"sort": metric, "order": order, **whose}
        for metric in METRICS
        for order in ("worst", "best", "gap", "between")
        for whose in ({}, {"system": "sat"})
    ]
    disagreeing = [{"order": "disagree", "x": x, "y": y} for x in METRICS for y in METRICS if x != y]
    words = [f"{first} {second}" for first in WORDS[:5] for second in WORDS[4:8]]
    return {
        "sort": [("list", one) for one in orders[:ROUNDS]],
        "two metrics disagree": [("list", one) for one in disagreeing[:ROUNDS]],
        "raters disagree": [("list", {"order": "raters"})] * ROUNDS,
        "filter by scores": [
            ("list", {"where": f'cider < 0.{n + 10} and system == "sat" and style == "happy"'}) for n in rounds
        ],
        "filter by caption": [("list", {"where": f'caption has "{words[n]}" and rouge > 0.1'}) for n in rounds],
        "search captions and references": [("list", {"q": f"{words[n].replace(' ', '')[:6]}x{n}"}) for n in rounds],
        "next page": [("list", {"first": 50 * n}) for n in rounds],
        "last page": [("list", {"first": 10**8, "order": "best"})] * ROUNDS,
        "lasso": [
            ("list", {"x": "cider", "y": "rating", "lasso": f"0,1;0.{n + 10},1;0.{n + 10},4;0,4"}) for n in rounds
        ],
        "one item in full": [("item", {"id": f"{997 * n % items:08d}"}) for n in rounds],
        "histogram": [("distribution", {"score": METRICS[n % 4], "low": 0, "high": 1, "bins": 40}) for n in rounds],
        "scatter": [("points", {"x": METRICS[n % 3], "y": "rating"}) for n in rounds],
        "agreement of metrics": [("agreement", {})] * 2,
    }


def main() -> None:
    """Print the table."""
    import httpx

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--images", type=int, default=500, help="different images")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = write_images(folder / "images", options.images)
        for seed, system in enumerate(("sat", "oscar"), 1):
            write_run(folder / system, system, options.items, images, seed)
        write_ratings(folder / "ratings.jsonl", options.items)
        runs = (str(folder / "sat"), str(folder / "oscar"), "--ratings", str(folder / "ratings.jsonl"))
        with served(*runs) as (link, pid, begin), httpx.Client(timeout=60) as client:
            address = link.partition("?")[0]
            client.get(link, follow_redirects=True).raise_for_status()
            print(f"{options.items:,} items, 2 systems, {len(METRICS)} metrics and ratings")
            print(f"open: {time.perf_counter() - begin:.2f} s from the command to the page; {memory(pid):.0f} MB\n")
            print(f"{'milliseconds':32}{'first':>9}{'p95':>9}{'again':>9}{'p95':>9}")
            for what, asked in requests(options.items).items():
                rows = [_times(client, address, asked) for _ in range(2)]
                cells = "".join(f"{median(row):9.0f}{np.quantile(row, 0.95):9.0f}" for row in rows)
                print(f"{what:32}{cells}")
            pictures = [f"{address}thumbnail/{number}" for number in range(options.images)]
            rows = [[_seconds(client, one) for one in pictures] for _ in range(2)]
            cells = "".join(f"{median(row):9.0f}{np.quantile(row, 0.95):9.0f}" for row in rows)
            print(f"{'thumbnail':32}{cells}")
            print(f"\nmemory at the end: {memory(pid):.0f} MB")


def _times(client: Any, address: str, asked: list[tuple[str, dict[str, Any]]]) -> list[float]:
    return [_seconds(client, f"{address}api/{route}", {"number": 50, **words}) for route, words in asked]


def _seconds(client: Any, address: str, words: dict[str, Any] | None = None) -> float:
    """Milliseconds of one request with its whole answer."""
    begin = time.perf_counter()
    client.get(address, params=words).raise_for_status()
    return 1000 * (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
