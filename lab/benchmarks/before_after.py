"""Where a user waits, before and after: two source trees take turns on the same cases, and their values are compared.

    python -m lab.benchmarks.before_after --base ../older-tree [--only score growth …] [--repeats 5]

Every run is a fresh process with the same script and another `captious`. The tool prints processor time, wall-clock
time and peak memory of the best run of each tree, the ratio, and the largest difference of a value. Processor time is
that of the process and of the processes that it starts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lab.benchmarks import waits
from lab.benchmarks.measure import table

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """One table over all cases, or in a process of its own the figures of one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, default=ROOT, help="root of the tree to compare with")
    parser.add_argument("--only", nargs="*", default=list(waits.CASES), choices=waits.CASES, metavar="CASE")
    parser.add_argument("--repeats", type=int, default=3, help="processes of each tree and case")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "captious-waits")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(waits.CASES[given.child](given.folder)))
        return
    given.folder.mkdir(exist_ok=True)
    head = ["before, s", "after, s", "ratio", "wall before", "wall after", "GiB before", "GiB after", "values"]
    rows = [["wait", *head]]
    best: dict[str, list[tuple[float, float]]] = {}
    for case in given.only:
        runs: dict[Path, list[dict[str, Any]]] = {given.base: [], ROOT: []}
        for _ in range(given.repeats):
            for tree, own in runs.items():
                own.append(run(case, tree.resolve(), given.folder))
        before, after = runs.values()
        for name in after[0]["seconds"]:
            best[name] = [(least(runs, "seconds", name), least(runs, "wall", name)) for runs in (before, after)]
            rows.append(line(name, best[name], before, after))
            print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print(table(rows))
    if len(derived := summary(best)) > 1:
        print("\n" + table(derived))


def run(case: str, tree: Path, folder: Path) -> dict[str, Any]:
    """The figures of a case in a fresh process that imports captious from a tree."""
    paths = os.pathsep.join([str(tree / "src"), str(ROOT)])
    command = [sys.executable, "-m", "lab.benchmarks.before_after", "--child", case, "--folder", str(folder)]
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    # Compiled modules are kept, as in every installed package.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{case} in {tree} failed:\n{done.stderr[-3000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def least(runs: list[dict[str, Any]], what: str, name: str) -> float:
    """The least time of a step; NaN where the tree has no such step."""
    return min((run[what][name] for run in runs if name in run[what]), default=float("nan"))


def line(
    name: str, best: list[tuple[float, float]], before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> list[str]:
    """One row of the table: the best run of each tree."""
    cpu, wall = zip(*best, strict=True)
    peak = [min(run["gib"] for run in runs) for runs in (before, after)]
    old, new = before[0]["values"], after[0]["values"]
    gaps = [abs(old[key] - value) for key, value in new.items() if key in old]
    equal = "equal" if gaps and not any(gaps) else f"≤ {max(gaps):.0e}" if gaps else ""
    texts = [*(f"{one:#.3g}" for one in cpu), f"{cpu[0] / cpu[1]:.2f}", *(f"{one:#.3g}" for one in wall)]
    return [name, *texts, *(f"{one:.2f}" for one in peak), equal]


def summary(best: dict[str, list[tuple[float, float]]]) -> list[list[str]]:
    """Ratios of two waits in the same tree, and what is done in a second."""
    rows = [["in the same tree", "before", "after"]]
    for what, (slow, fast) in waits.RATIOS.items():
        if slow in best and fast in best:
            times = [one[0] / other[0] for one, other in zip(best[slow], best[fast], strict=True)]
            rows.append([f"{what}, times", *(f"{one:.2f}" for one in times)])
    for what, (number, name) in waits.RATES.items():
        for index, clock in enumerate(("a processor second", "a second by the clock")):
            if name in best:
                rows.append([f"{what} in {clock}", *(f"{number / one[index]:,.0f}" for one in best[name])])
    return rows


if __name__ == "__main__":
    main()
