"""``python -m tests.fuzz --cases 6000 --seed 1``: malformed input of all families, and what came of it, counted."""

import argparse
import faulthandler
import os
import shlex
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path


def main():
    """Run cases and print the counts; exit code 1 where one ended badly."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="Number of the first case, to repeat one.")
    parser.add_argument("--verbose", action="store_true", help="Print every case.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        os.environ["CAPTIOUS_HOME"] = str(Path(root) / "home")
        os.environ["CAPTIOUS_PAINTERS"] = "lab.toy.painter:drawn"
        counts = _all(arguments, Path(root))
    print(f"tried {sum(counts.values()):,} with seed {arguments.seed}")
    from tests.fuzz.running import ACCEPTED, OUTCOMES, REFUSED

    for kind in OUTCOMES:
        print(f"{kind} {counts[kind]:,}")
    raise SystemExit(int(any(counts[kind] for kind in OUTCOMES if kind not in (REFUSED, ACCEPTED))))


def _all(arguments, root):
    from tests.fuzz.running import ACCEPTED, LIMIT, REFUSED, run_case

    counts = Counter()
    for number in range(arguments.first, arguments.first + arguments.cases):
        faulthandler.dump_traceback_later(2 * LIMIT, exit=True)
        start = time.monotonic()
        case, outcome = run_case(arguments.seed, number, root)
        counts[outcome.kind] += 1
        if (tried := sum(counts.values())) % 500 == 0:
            print(f"{tried:,} tried", file=sys.stderr, flush=True)
        if arguments.verbose or outcome.kind not in (REFUSED, ACCEPTED):
            print(f"--- {number} {outcome.kind}: {outcome.why} ({time.monotonic() - start:.1f} s)")
            print(f"    {case.what!r}")
            print(f"    captious {shlex.join(case.arguments)!r}")
            if outcome.error:
                print(f"    {outcome.error.strip()!r}", flush=True)
    faulthandler.cancel_dump_traceback_later()
    return counts


if __name__ == "__main__":
    main()
