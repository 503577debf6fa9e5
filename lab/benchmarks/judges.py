"""Judges against a real server: calls per second beside a plain loop, replies that survive kills, a ceiling.

    PYTHONPATH=. python -m lab.benchmarks.judges          # all three, 10,000 calls each; some minutes
    PYTHONPATH=. python -m lab.benchmarks.judges speed
    python -m lab.benchmarks.before_after --only judges --base ../older-tree    # processor time of the client alone

The server is llama.cpp's with a tiny random model (`tests/models/chat/llama.py`), on this machine. Every call asks for
one token with five probabilities. ``speed`` asks through captious at two concurrencies and through a plain loop around
httpx, in turns; half of the plain calls go before the others and half after, since a busy machine changes its pace.
``kills`` asks in a process that is killed ten times and begun again, and counts what is stored. ``ceiling`` stops a run
by the tokens that it may use, and goes on with more.
"""

from __future__ import annotations

import argparse
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import httpx
from lab.benchmarks.measure import table
from tests.models.chat.llama import serve, write_llama

from captious.errors import InputError
from captious.models.chat.judge import load_judge
from captious.models.chat.messages import Request, Turn
from captious.options import Judging

KILLS = 10


def questions(number: int) -> list[Request]:
    """Different questions of about twenty tokens."""
    return [Request((Turn("user", f"{index} dogs?"),), max_tokens=1, top_logprobs=5) for index in range(number)]


def ask(url: str, store: Path, number: int, concurrency: int) -> float:
    """Seconds that the calls take through captious, stored replies included."""
    judge = load_judge("tiny", Judging(endpoint=url, replies=store, concurrency=concurrency))
    started = time.perf_counter()
    judge.ask(questions(number))
    return time.perf_counter() - started


def plain_loop(url: str, number: int) -> float:
    """Seconds that the same calls take one after the other, with nothing stored."""
    with httpx.Client(timeout=300) as client:
        started = time.perf_counter()
        for request in questions(number):
            client.post(f"{url}/chat/completions", json=request.build_payload("tiny")).raise_for_status()
        return time.perf_counter() - started


def speed(url: str, folder: Path, number: int, peer: int) -> None:
    """Calls per second of each way."""
    ways = {
        "captious, concurrency 1": (peer, lambda: ask(url, folder / "one.db", peer, 1)),
        "captious, concurrency 16": (number, lambda: ask(url, folder / "many.db", number, 16)),
        "captious, all from the store": (number, lambda: ask(url, folder / "many.db", number, 16)),
    }
    plain_loop(url, 20)  # the server warms up
    before = plain_loop(url, peer // 2)
    seconds = {name: run() for name, (_, run) in ways.items()}
    base = peer / (before + plain_loop(url, peer - peer // 2))
    rates = {name: (calls, calls / seconds[name]) for name, (calls, _) in ways.items()}
    rows = [
        [name, f"{calls:,}", f"{rate:,.0f}", f"{rate / base:.2f}"]
        for name, (calls, rate) in {"plain httpx loop, nothing stored": (peer, base), **rates}.items()
    ]
    print(table([["way", "calls", "calls a second", "ratio"], *rows]))


def kills(url: str, folder: Path, number: int) -> None:
    """Kill the asking process again and again; what it counted must be stored, and the last run completes the rest."""
    store, generator = folder / "killed.db", random.Random(0)
    command = [sys.executable, "-m", "lab.benchmarks.judges", "counted", url, str(store), str(number)]
    counted = lost = 0
    for _ in range(KILLS):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        moment = generator.randrange(1, number // (KILLS + 1))
        lines = [line for line, _ in zip(process.stdout, range(moment), strict=False)]
        process.send_signal(signal.SIGKILL)
        lines += [line for line in process.stdout if line.endswith("\n")]
        process.wait()
        counted += len(lines)
        lost += max(0, counted - stored(store))
        counted = stored(store)
    print(f"{KILLS} kills: {counted:,} replies stored, {lost} of the counted ones lost")
    seconds = ask(url, store, number, 16)
    print(f"the last run brought the other {number - counted:,} in {seconds:.1f} s; stored: {stored(store):,}")


def ceiling(url: str, folder: Path, number: int) -> None:
    """Stop a run by its tokens, and go on with twice as many."""
    for tokens in (8 * number, 16 * number, None):
        judge = load_judge("tiny", Judging(endpoint=url, replies=folder / "ceiling.db", most_tokens=tokens))
        before = replace(judge.usage)
        try:
            judge.ask(questions(number))
        except InputError as error:
            print(error)
        usage, total = judge.usage.since(before), stored(folder / "ceiling.db")
        print(f"  {usage.calls:,} calls, {usage.stored:,} from the store; stored now: {total:,}")


def stored(path: Path) -> int:
    """Replies in a store."""
    with sqlite3.connect(path) as connection:
        (number,) = connection.execute("SELECT count(*) FROM reply").fetchone()
    connection.close()
    return int(number)


def counted(url: str, store: str, number: str) -> None:
    """In a process of its own: ask, and print a line for each reply that is counted."""
    judge = load_judge("tiny", Judging(endpoint=url, replies=Path(store), concurrency=16))
    add = judge.usage.add

    def tell(reply: object) -> None:
        add(reply)  # type: ignore[arg-type]
        print("counted", flush=True)

    judge.usage.add = tell  # type: ignore[method-assign]
    judge.ask(questions(int(number)))


def main() -> None:
    """Run what was asked for."""
    if sys.argv[1:2] == ["counted"]:
        counted(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", choices=["speed", "kills", "ceiling", "all"], nargs="?", default="all")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--peer", type=int, default=2_000, help="calls one after the other")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, serve(write_llama(Path(name)), parallel=16) as url:
        if options.run in ("speed", "all"):
            speed(url, Path(name), options.calls, options.peer)
        if options.run in ("kills", "all"):
            kills(url, Path(name), options.calls)
        if options.run in ("ceiling", "all"):
            ceiling(url, Path(name), options.calls)


if __name__ == "__main__":
    main()
