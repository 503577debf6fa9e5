"""Questions answered from the caption: CAPEval's human captions before a small model, and TIFA160's stored values.

    python -m lab.reproductions questions smollm2 --data capeval300             # 20 captions, 6 questions each
    python -m lab.reproductions questions stored --data tifa160                 # no model

Run it from the root of the repository with PYTHONPATH=. ``smollm2`` starts llama.cpp's server with SmolLM2-135M on a
free port of this computer, kills a run of `captious score` once it has some replies, runs it again to its end, and
replays it with an explanation. The model is far too small for the task; what counts is that everything around it works.
``stored`` makes answers of the shares of right answers that TIFA's authors published for 800 pictures, scores them with
`tifa`, and correlates the values with people's.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from judges import MODEL, model_file, start_server
from lab.benchmarks.measure import table

from captious.reproductions import find_entry

SEED = 7
# Pearson's r and tau-b with the mean of two people, from the authors' notebook, which calls the first Spearman's.
PUBLISHED = {
    row.metric.removeprefix("tifa_"): tuple(row.published.values())
    for row in find_entry("tifa160").tables[0].rows
    if row.metric.startswith("tifa_")
}


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a compressed file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def smollm2(arguments: argparse.Namespace) -> None:
    """A run that is killed, resumed, replayed and explained."""
    rows = random.Random(SEED).sample(read_rows(arguments.data / "questions.jsonl.gz"), arguments.items)
    server = start_server(model_file(), arguments.threads)
    with tempfile.TemporaryDirectory() as name:
        captions, replies = Path(name) / "captions.jsonl", Path(name) / "replies.db"
        with captions.open("w", encoding="utf-8") as file:
            for row in rows:
                text = " ".join(row["caption"].split()[: arguments.words])
                file.write(json.dumps({**row, "caption": text, "questions": row["questions"][: arguments.questions]}))
                file.write("\n")
        command = [sys.executable, "-m", "captious", "score", str(captions), "--replies", str(replies)]
        command += ["--endpoint", f"{server.listening_address}/v1", "--concurrency", "2"]
        command += [
            "--metrics",
            ",".join(f"capeval({MODEL},ask=each,schema=yes,value={one})" for one in ("precision", "f1")),
        ]
        subprocess.run([*command, "--dry-run"], check=True)
        first = subprocess.Popen(command)
        while first.poll() is None and count(replies) < arguments.items:
            time.sleep(0.2)
        first.send_signal(signal.SIGKILL)
        first.wait()
        print(f"\nkilled with {count(replies)} replies in the store; once more:\n", flush=True)
        subprocess.run(command, check=True)
        subprocess.run([*command, "--replay", "--explain", rows[0]["id"]], check=True)


def count(replies: Path) -> int:
    """Replies in a store."""
    if not replies.exists():
        return 0
    try:
        with closing(sqlite3.connect(replies)) as connection:
            return int(connection.execute("SELECT count(*) FROM reply").fetchone()[0])
    except sqlite3.OperationalError:  # the table is not made yet
        return 0


def stored(arguments: argparse.Namespace) -> None:
    """TIFA from answers, beside the published correlations."""
    import captious
    from captious.metrics.registry import parse
    from captious.stats import Kendall

    rows = read_rows(arguments.data / "items.jsonl.gz")
    people = np.array([row["human_avg"] for row in rows])
    lines = [["VQA model", "questions", "TIFA", "Pearson", "published", "tau-b", "published"]]
    for model, (pearson, tau) in PUBLISHED.items():
        shares = [Fraction(row[f"tifa_{model}"]).limit_denominator(60) for row in rows]
        questions = [
            [{"question": f"question {number}", "choices": ["yes", "no"], "answer": "yes"} for number in range(own)]
            for own in (share.denominator for share in shares)
        ]
        answers = [["yes"] * one.numerator + ["no"] * (one.denominator - one.numerator) for one in shares]
        columns = {"questions": questions, "answers": answers}
        captions = captious.CaptionSet.of({row["id"]: row["text"] for row in rows}, columns=columns)
        measured = parse("tifa(answers=column)").measure(captions)
        ours = np.corrcoef(measured.values, people)[0, 1]
        (own,) = Kendall.of(measured.values, people)(np.ones((len(rows), 1)))["tau_b"]
        numbers = [f"{measured.corpus:.4f}", f"{ours:.4f}", f"{pearson:.4f}", f"{own:.4f}", f"{tau:.4f}"]
        lines.append([model, f"{sum(map(len, answers)):,}", *numbers])
    print(table(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True, metavar="STEP")
    asked = steps.add_parser("smollm2", help="20 captions before SmolLM2")
    asked.add_argument("--data", type=Path, required=True, help="the folder with questions.jsonl.gz")
    asked.add_argument("--items", type=int, default=20)
    asked.add_argument("--questions", type=int, default=6, help="questions of each caption")
    asked.add_argument("--words", type=int, default=150, help="words of each caption at most")
    asked.add_argument("--threads", type=int, default=1)
    asked.set_defaults(run=smollm2)
    given = steps.add_parser("stored", help="TIFA160's stored values, no model")
    given.add_argument("--data", type=Path, required=True, help="the folder with items.jsonl.gz")
    given.set_defaults(run=stored)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
