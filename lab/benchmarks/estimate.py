"""The whole command `captious study estimate`: 20,000 captions with 12,000 ratings, processor time and peak memory.

    python lab/benchmarks/estimate.py
    python lab/benchmarks/estimate.py --captions 2000 --rated 300 --overlap 1

Four systems captioned 5,000 images. 4,000 captions of 1,000 images were rated by three of 40 people each. Each row is a
fresh process that imports captious, reads both files, estimates and prints. The first row only prints the help.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import table

SYSTEMS, RATERS, METRICS = 4, 40, 5


def write_study(folder: Path, captions: int, rated: int, overlap: int) -> None:
    """Write all captions with five metrics, and the ratings of some."""
    random = np.random.default_rng(0)
    images = captions // SYSTEMS
    quality = random.normal(size=(images, SYSTEMS)) + random.normal(size=(images, 1)) + 0.1 * np.arange(SYSTEMS)
    severity = random.normal(0, 0.4, RATERS)
    with (folder / "captions.jsonl").open("w") as file:
        for image in range(images):
            for system in range(SYSTEMS):
                metrics = quality[image, system] + random.normal(0, 1.5, METRICS)
                row = {"id": f"{image}/{system}", "image": str(image), "system": f"system {system}"}
                file.write(json.dumps(row | {f"m{number}": value for number, value in enumerate(metrics)}) + "\n")
    with (folder / "ratings.jsonl").open("w") as file:
        for image in range(rated // SYSTEMS):
            people = random.permutation(RATERS)[:overlap]
            for system in range(SYSTEMS):
                for person in people:
                    said = 3 + quality[image, system] + severity[person] + random.normal(0, 0.6)
                    row = {"id": f"{image}/{system}", "image": str(image), "system": f"system {system}"}
                    rating = int(np.clip(round(said), 1, 5))
                    file.write(json.dumps(row | {"rater": f"p{person}", "rating": rating}) + "\n")


def run_command(arguments: list[str]) -> tuple[float, float, float, str]:
    """Return seconds, processor seconds, peak memory in MB and the first lines of a command in a fresh process."""
    code = "import sys; from captious.cli.app import main; sys.argv[1:] = sys.argv[2:]; main()"
    start = time.perf_counter()
    # One thread: the processor time of idle threads that wait for work is not the command's.
    process = subprocess.Popen(
        [sys.executable, "-c", code, "captious", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        text=True,
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"captious {' '.join(arguments)} failed")
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, output


def main() -> None:
    """Print a row per command: the best of several processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=int, default=20_000)
    parser.add_argument("--rated", type=int, default=4_000, help="captions that were rated")
    parser.add_argument("--overlap", type=int, default=3, help="ratings of each")
    parser.add_argument("--processes", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_study(folder, options.captions, options.rated, options.overlap)
        files = [str(folder / "ratings.jsonl"), str(folder / "captions.jsonl")]
        commands = {
            "--help": ["study", "estimate", "--help"],
            "no metric": ["study", "estimate", *files[:1]],
            "one metric": ["study", "estimate", *files, "--using", "m0"],
            "two metrics": ["study", "estimate", *files, "--using", "m0,m1"],
            "five metrics (ridge)": ["study", "estimate", *files],
            "one metric, monotone": ["study", "estimate", *files, "--using", "m0", "--form", "monotone"],
            "one metric, --out": [
                "study",
                "estimate",
                *files,
                "--using",
                "m0",
                "--overwrite",
                "--out",
                str(folder / "o"),
            ],
        }
        rows = [["command", "seconds", "processor seconds", "peak MB"]]
        for name, arguments in commands.items():
            runs = [run_command(arguments) for _ in range(options.processes)]
            best = min(runs, key=lambda run: run[1])
            rows.append([name, f"{best[0]:.2f}", f"{best[1]:.2f}", f"{best[2]:.0f}"])
            if name == "one metric":
                print(" ".join(best[3].splitlines()[1:3]), end="\n\n")
    print(f"{options.captions:,} captions, {options.rated * options.overlap:,} ratings\n\n{table(rows)}")


if __name__ == "__main__":
    main()
