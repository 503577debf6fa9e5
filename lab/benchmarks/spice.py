"""SPICE on COCO: captions per second, parsing included and from the cache.

python lab/benchmarks/spice.py [karpathy | val2014 | a number of generated items]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time

from data import captions
from measure import table

import captious
from captious.metrics.meteor import resources


def main(name: str) -> None:
    """Time of a first run, which parses, and of a second, which reads the tuples from the cache."""
    candidates, references = captions(name)
    distinct = len({*candidates.values(), *(text for texts in references.values() for text in texts)})
    # This first call loads the parser.
    captious.evaluate({"1": "a dog"}, "spice", resampling=captious.Resampling(0), references={"1": ["a dog"]})
    rows = [["run", "seconds", "captions per second"]]
    for run in ("cold", "warm"):
        start = time.perf_counter()
        report = captious.evaluate(candidates, "spice", resampling=captious.Resampling(0), references=references)
        seconds = time.perf_counter() - start
        rows.append([run, f"{seconds:.1f}", f"{distinct / seconds:,.0f}"])
    mean = report["spice"].corpus
    print(f"{name}: {len(candidates)} images, {distinct:,} distinct captions; SPICE (spaCy) {mean:.4f}\n")
    print(table(rows))


if __name__ == "__main__":
    resources.load()  # compiled now, if they are not yet
    os.environ[resources.VARIABLE] = str(resources.compiled_files()[-1])
    with tempfile.TemporaryDirectory() as home:  # an empty cache
        os.environ["CAPTIOUS_HOME"] = home
        main(sys.argv[1] if len(sys.argv) > 1 else "karpathy")
