"""`captious score` as the set grows: seconds, time per item and peak memory, every size in its own process.

Items have one candidate and five references: COCO's captions drawn with replacement, and 7% of the words exchanged for
others of the same corpus, so that new n-grams keep coming as in real text: the distinct ones grow with the captions to
the power of 0.8, as COCO's own do. Without COCO, or with ``--zipf``, words follow Zipf's law and stand in any order.
Time per item is that of the processor, which depends less on what else the machine does.

python lab/benchmarks/growth.py [--sizes 5000,40000,200000] [--zipf] [--out] [--steps] [--folder /tmp/growth]
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from lab.benchmarks.data import SHARED
from lab.benchmarks.measure import in_process, table

SIZES = "5000,40000,200000,1000000"
REFERENCES = 5
# The share of words that are exchanged.
MUTATED = 0.07
SEED = 21
BLOCK = 20_000


def main() -> None:
    """One table over all sizes, or in a process of its own the figures of one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--out", action="store_true", help="write everything about the run, as --out FOLDER does")
    parser.add_argument("--zipf", action="store_true", help="words by Zipf's law in place of COCO's captions")
    parser.add_argument("--steps", action="store_true", help="time by step, measured in a run of its own")
    parser.add_argument("--repeats", type=int, default=1, help="processes per size; the quickest counts")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "growth")
    parser.add_argument("--child", nargs=2, metavar=("FILE", "STEPS"))
    given = parser.parse_args()
    if given.child:
        print(json.dumps(child(given.child[0], given.out, given.child[1] == "1")))
        return
    given.folder.mkdir(exist_ok=True)
    rows, steps, first = [["items", "seconds", "CPU seconds", "CPU µs per item", "of the first", "peak GiB"]], {}, None
    for items in map(int, given.sizes.split(",")):
        path = write(given.folder / f"{items}{'-zipf' if given.zipf else ''}.jsonl", items, given.zipf)
        out = ["--out"] if given.out else []
        runs = [in_process(__file__, *out, "--child", str(path), "0") for _ in range(given.repeats)]
        best = min(runs, key=lambda run: float(run["cpu"]))
        each = best["cpu"] / items
        first = first or each
        rows.append(
            [
                f"{items:,}",
                f"{min(run['seconds'] for run in runs):.1f}",
                f"{best['cpu']:.1f}",
                f"{1e6 * each:.0f}",
                f"{each / first:.2f}",
                f"{max(run['peak_gib'] for run in runs):.2f}",
            ]
        )
        print("  ".join(rows[-1]), file=sys.stderr)
        if given.steps:
            steps[items] = in_process(__file__, *out, "--child", str(path), "1")["steps"]
    print(f"\ncaptious score FILE{' --out FOLDER' if given.out else ''}, without the start of the process\n")
    print(table(rows))
    if steps:
        names = list(dict.fromkeys(name for each in steps.values() for name in each))
        head = ["step", *(f"{items:,}" for items in steps)]
        lines = [
            [name, *(f"{1e6 * each.get(name, 0.0) / items:.1f}" for items, each in steps.items())] for name in names
        ]
        print("\nCPU µs per item by step, without what it calls of the other steps\n")
        print(table([head, *lines]))


def child(path: str, out: bool, by_step: bool) -> dict[str, Any]:
    """Run the command in this process, as its console script does, after a small run that imports everything."""
    import resource

    clock = Clock() if by_step else None
    with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
        small = Path(folder) / "small.jsonl"
        with Path(path).open(encoding="utf-8") as lines:
            small.write_text("".join(islice(lines, 50)), encoding="utf-8")
        score(str(small), Path(folder) / "small" if out else None)
        if clock:
            clock.install()
        start, cpu = time.perf_counter(), time.process_time()
        score(path, Path(folder) / "scores" if out else None)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"seconds": seconds, "cpu": cpu, "peak_gib": peak, "steps": dict(clock.seconds) if clock else {}}


def score(path: str, out: Path | None) -> None:
    """``captious score``, what it prints on standard error."""
    from captious.cli.app import main as captious

    sys.argv, sys.stdout = ["captious", "score", path, *(["--out", str(out)] if out else [])], sys.stderr
    try:
        captious()
    except SystemExit as end:
        if end.code:
            raise
    sys.stdout = sys.__stdout__


class Clock:
    """Seconds spent in each step, without those of the steps that it calls."""

    STEPS = (
        ("read: files to rows, join", "captious.io.read", "read"),
        ("tokenize", "captious.text.ngram_tables", "TextTable._of"),
        ("count n-grams", "captious.text.ngram_tables", "NgramTable.of"),
        ("document frequencies", "captious.text.idf", "DocumentFrequency.of"),
        ("fingerprint", "captious.captions", "CaptionSet.fingerprint"),
        ("BLEU", "captious.metrics.bleu", "Bleu.score"),
        ("ROUGE-L", "captious.metrics.rouge", "Rouge.score"),
        ("CIDEr", "captious.metrics.cider", "Cider.score"),
        ("merge states", "captious.text.idf", "DocumentFrequency.merge"),
        ("document frequencies", "captious.text.idf", "DocumentFrequency.frequencies"),
        ("checks", "captious._evaluate", "findings_that_mislead"),
        ("order of ids", "captious.metrics.measurement", "_order"),
        ("intervals", "captious.runs.report", "bootstrap"),
        ("write items", "captious.runs.report", "Report.write_files"),
        ("page", "captious.render.html", "page"),
        ("print and save", "captious.cli.session", "deliver"),
        ("the rest of evaluate", "captious._evaluate", "evaluate"),
    )

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.inside: list[float] = []

    def install(self) -> None:
        """Put a stopwatch around every step."""
        from functools import cached_property
        from importlib import import_module

        for name, module, path in self.STEPS:
            self.seconds[name] = 0.0
            owner: Any = import_module(module)
            *classes, attribute = path.split(".")
            for one in classes:
                owner = getattr(owner, one)
            function = vars(owner).get(attribute) if classes else getattr(owner, attribute)
            if isinstance(function, classmethod):
                setattr(owner, attribute, classmethod(self.timed(name, function.__func__)))
            elif isinstance(function, cached_property):
                replaced = cached_property(self.timed(name, function.func))
                setattr(owner, attribute, replaced)
                replaced.__set_name__(owner, attribute)
            else:
                if function is None:  # inherited
                    function = getattr(owner, attribute)
                setattr(owner, attribute, self.timed(name, function))

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with its own time added to that of the step."""

        def run(*arguments: Any, **named: Any) -> Any:
            self.inside.append(0.0)
            start = time.process_time()
            try:
                return function(*arguments, **named)
            finally:
                whole = time.process_time() - start
                self.seconds[name] += whole - self.inside.pop()
                if self.inside:
                    self.inside[-1] += whole

        return run


def write(path: Path, items: int, zipf: bool = False) -> Path:
    """The file of so many items, unless it already exists."""
    if path.exists():
        return path
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as file:
        for number, (candidate, references) in enumerate(captions(items, zipf)):
            row = {"id": f"{number:08d}", "caption": candidate, "references": references}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return part.rename(path)


def captions(items: int, zipf: bool = False) -> Iterator[tuple[str, list[str]]]:
    """A candidate and its references for each item."""
    generator = np.random.default_rng(SEED)
    groups = ([] if zipf else _coco()) or _zipf(generator)
    words = np.array([word for group in groups for text in group for word in text.split(" ")], dtype=object)
    for first in range(0, items, BLOCK):
        for source in generator.integers(0, len(groups), min(BLOCK, items - first)).tolist():
            texts = [groups[source][number % len(groups[source])] for number in range(REFERENCES)]
            mutated = _mutated([*texts, texts[0]], words, generator)
            yield mutated[-1], mutated[:-1]


def _mutated(texts: list[str], words: Any, generator: np.random.Generator) -> list[str]:
    """Texts with some words exchanged for others of the corpus, frequent ones more often."""
    pieces = [text.split(" ") for text in texts]
    sizes = np.cumsum([0, *map(len, pieces)])
    flat = [word for piece in pieces for word in piece]
    places = np.flatnonzero(generator.random(len(flat)) < MUTATED).tolist()
    for place, word in zip(places, words[generator.integers(0, len(words), len(places))].tolist(), strict=True):
        flat[place] = word
    return [" ".join(flat[start:end]) for start, end in pairwise(sizes.tolist())]


def _coco() -> list[list[str]]:
    path = SHARED / "coco" / "val2014.jsonl.gz"
    if not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [[text.strip() for text in json.loads(line)["references"]] for line in lines]


def _zipf(generator: np.random.Generator) -> list[list[str]]:
    ranks = np.minimum(generator.zipf(1.3, (BLOCK, REFERENCES, 11)), 30_000)
    letters = str.maketrans("0123456789", "abcdefghij")  # words with digits would be tokenized slowly
    return [[" ".join(str(rank).translate(letters) for rank in text) for text in group] for group in ranks.tolist()]


if __name__ == "__main__":
    main()
