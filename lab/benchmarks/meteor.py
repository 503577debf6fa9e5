"""METEOR without Java against pycocoevalcap's Java METEOR, in the same run, on the same tokens.

    python lab/benchmarks/meteor.py [--data ../shared/data] [--repeat 3]

Both sides get captions that are tokenized already (the PTB tokens of captious, joined by spaces), so tokenization is in
neither time. Each time is a fresh process from its start to the last per-item score: for captious the interpreter, the
imports, opening the compiled tables and scoring, pinned to one core with one thread; for Java the Python wrapper, the
JVM, reading the tables and scoring, once free to use all cores and once pinned to the same one. Compiling captious'
tables, which happens once per computer, is timed apart. The best of the repetitions counts. The last ratio is that of
processor times, Java free to use all cores: it holds on a busy machine too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

OURS = """
import json, sys
import numpy as np
from captious.metrics.meteor import resources
from captious.metrics.meteor.engine import count
from captious.metrics.meteor.engine import MODULES, TASKS, score
data = json.load(open(sys.argv[1]))
found = count(data["candidates"], data["references"], resources.load(modules=MODULES), TASKS["rank"])
values = score(found.table, TASKS["rank"])
json.dump({"corpus": float(score(found.table.sum(axis=0), TASKS["rank"])), "items": values.tolist()}, sys.stdout)
"""
JAVA = """
import json, sys
from pycocoevalcap.meteor.meteor import Meteor
data = json.load(open(sys.argv[1]))
references = dict(enumerate(data["references"]))
candidates = {number: [caption] for number, caption in enumerate(data["candidates"])}
corpus, items = Meteor().compute_score(references, candidates)
json.dump({"corpus": corpus, "items": items}, sys.stdout)
"""


def main() -> None:
    default = os.environ.get("CAPTIOUS_SHARED_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", type=Path, default=Path(default))
    options.add_argument("--repeat", type=int, default=3)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = write_sets(chosen.data, Path(folder))
        began = time.perf_counter()
        run(OURS, next(iter(files.values())))
        print(f"first run, compiling the tables if they were not compiled: {time.perf_counter() - began:.1f} s\n")
        head = (
            "set",
            "items",
            "pairs",
            "captious s",
            "Java s",
            "ratio",
            "Java 1 core s",
            "ratio",
            "captious processor s",
            "Java processor s",
            "ratio",
            "max diff",
            "corpus diff",
        )
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        for name, file in files.items():
            print("| " + " | ".join(compare(name, file, chosen.repeat)) + " |", flush=True)


def write_sets(data: Path, folder: Path) -> dict[str, Path]:
    """The two sets, tokenized: COCO's first caption against the rest, and the rated captions of Flickr8k-Expert."""
    from captious.captions import CaptionSet
    from captious.text.ngram_tables import TextTable

    coco = [json.loads(line) for line in (data / "coco/karpathy_test.jsonl").open()]
    rated = [json.loads(line) for line in (data / "flickr8k/expert.jsonl").open()]
    images = [json.loads(line) for line in (data / "flickr8k/captions.jsonl").open()]
    of_image = {image["id"]: image["references"] for image in images}
    groups = {
        "COCO Karpathy test": [(row["references"][0], row["references"][1:]) for row in coco],
        "Flickr8k-Expert": [(row["caption"], of_image[row["image"]]) for row in rated],
    }
    files = {}
    for name, rows in groups.items():
        captions = CaptionSet.of(
            {number: candidate for number, (candidate, _) in enumerate(rows)},
            {number: references for number, (_, references) in enumerate(rows)},
        )
        table = TextTable.of(captions)
        texts = [" ".join(table.words(caption)) for caption in range(len(table.lengths))]
        groups_of = [texts[a:b] for a, b in zip(table.first_caption[:-1], table.first_caption[1:], strict=True)]
        files[name] = folder / f"{len(files)}.json"
        content = {"candidates": [group[0] for group in groups_of], "references": [group[1:] for group in groups_of]}
        files[name].write_text(json.dumps(content))
    return files


def compare(name: str, file: Path, repeat: int) -> list[str]:
    """One row of the table."""
    (ours, processor), mine = best(OURS, file, repeat, one_core=True)
    (java, java_processor), theirs = best(JAVA, file, repeat, one_core=False)
    (java_one, _), _ = best(JAVA, file, repeat, one_core=True)
    data = json.loads(file.read_text(encoding="utf-8"))
    pairs = sum(map(len, data["references"]))
    gap = float(np.abs(np.array(mine["items"]) - np.array(theirs["items"])).max())
    off = abs(mine["corpus"] - theirs["corpus"])
    return [
        name, str(len(data["candidates"])), str(pairs), f"{ours:.2f}", f"{java:.2f}", f"{java / ours:.1f}",
        f"{java_one:.2f}", f"{java_one / ours:.1f}",
        f"{processor:.2f}", f"{java_processor:.2f}", f"{java_processor / processor:.1f}", f"{gap:.1e}", f"{off:.1e}",
    ]  # fmt: skip


def best(code: str, file: Path, repeat: int, one_core: bool) -> tuple[tuple[float, float], dict[str, object]]:
    """The shortest of several runs by the clock and in processor time, and the result."""
    clock, processor, result = [], [], {}
    for _ in range(repeat):
        began, used = time.perf_counter(), processor_time()
        result = run(code, file, one_core)
        clock.append(time.perf_counter() - began)
        processor.append(processor_time() - used)
    return (min(clock), min(processor)), result


def processor_time() -> float:
    """Seconds of processor time of the processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(code: str, file: Path, one_core: bool = False) -> dict[str, object]:
    """Run a snippet in a fresh interpreter; what it starts inherits the one core."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    pin = "import os; hasattr(os, 'sched_setaffinity') and os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})\n"
    done = subprocess.run(
        [sys.executable, "-c", (pin if one_core else "") + code, str(file)],
        env={**os.environ, **threads},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
