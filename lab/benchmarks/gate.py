"""How often ``captious.gate`` errs over simulated pairs of runs, and how long it takes on 5,000 items.

    PYTHONPATH=. python lab/benchmarks/gate.py [--pairs 1000] [--items 200,500] [--no-timing]

Two captioners of drawn scenes, expert and solid, are scored once on a large pool. A pair of runs draws items from it.
On a share of the items the captions differ: with probability p the base has the expert's caption and the new system
that of solid, otherwise the other way round. So the true loss is known: at p = 1/2 it is nothing, at p = 2/3 it is the
margin, at p = 1 three margins (of BLEU-4, which is no mean over items, nearly). A false pass is one at p ≥ 2/3, a false
alarm a verdict *worse* at p ≤ 2/3.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from lab.toy import make

from captious._compare import StatisticPair
from captious._core.types import Floats
from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.gating.verdict import gate, run_tests
from captious.metrics.contract import Metric
from captious.options import Resampling
from captious.stats.noninferiority import make_decisions
from captious.stats.resampling import Statistic

METRICS = "cider,rouge,bleu(n=4)"
BETTER, WORSE = "expert", "solid"
CASES = {"equal": 1 / 2, "at the margin": 2 / 3, "three margins": 1.0}
ALL = "all three"


class Pool(NamedTuple):
    """The statistics of the two captioners on every item of the pool, for one metric."""

    metric: Metric
    better: Floats
    worse: Floats

    def true_loss(self, share: float, p: float) -> float:
        """The loss of the new system if the whole pool were drawn."""
        better, worse = self.better.mean(axis=0), self.worse.mean(axis=0)
        sides = [(1 - share) * better + share * (q * better + (1 - q) * worse) for q in (p, 1 - p)]
        base, new = (float(self.metric.aggregate((len(self.better) * rows)[None])[0]) for rows in sides)
        return base - new


def systems(items: int) -> dict[str, CaptionSet]:
    """The captions of the two captioners on drawn scenes."""
    sample = make(items=items)
    references = sample.references()
    return {
        name: CaptionSet.of(
            {scene.id: sample.prediction_of(scene, name).text for scene in sample.scenes()}, references, name=name
        )
        for name in (BETTER, WORSE)
    }


def pools(items: int) -> dict[str, Pool]:
    """Each metric on a pool of scenes."""
    reports = {name: evaluate(captions, METRICS, resampling=Resampling(0)) for name, captions in systems(items).items()}
    return {
        key: Pool(one.metric, np.asarray(one.rows), np.asarray(reports[WORSE].measurements[key].rows))
        for key, one in reports[BETTER].measurements.items()
    }


def drawn_pair(pool: Mapping[str, Pool], items: int, share: float, p: float, rng: np.random.Generator) -> dict:
    """One pair of runs, as the statistics that a gate tests."""
    size = len(next(iter(pool.values())).better)
    chosen, changed, falls = rng.integers(0, size, items), rng.random(items) < share, rng.random(items) < p
    pairs = {}
    for key, one in pool.items():
        better, worse = one.better[chosen], one.worse[chosen]
        sides = [np.where((changed & side)[:, None], worse, better) for side in (~falls, falls)]
        pairs[key] = StatisticPair(*(_statistic(rows, one.metric) for rows in sides), items)
    return pairs


def _statistic(rows: Floats, metric: Metric) -> Statistic:
    total = rows.sum(axis=0)
    return Statistic(rows, metric.aggregate, total, float(metric.aggregate(total[None])[0]))


def verdicts(
    pool: Mapping[str, Pool], items: int, share: float, p: float, pairs: int, samples: int = 1000, seed: int = 0
) -> dict[str, Counter[str]]:
    """How often each verdict was given, by metric and on all of them together."""
    rng, counts = np.random.default_rng(seed), {key: Counter[str]() for key in (*pool, ALL)}
    margins = {key: one.true_loss(share, CASES["at the margin"]) for key, one in pool.items()}
    for _ in range(pairs):
        tests = run_tests(
            drawn_pair(pool, items, share, p, rng), margins, dict.fromkeys(pool, True), Resampling(samples)
        )
        found = [verdict for verdict, _ in make_decisions(list(tests.values()))]
        for key, verdict in zip(pool, found, strict=True):
            counts[key][verdict] += 1
        whole = "worse" if "worse" in found else "pass" if set(found) == {"pass"} else "undecided"
        counts[ALL][whole] += 1
    return counts


def error_rates(sizes: list[int], pairs: int, share: float) -> None:
    """Print how often each verdict was given."""
    pool = pools(4000)
    print(f"{pairs:,} pairs of runs each, {100 * share:.0f}% of the captions changed, 1,000 resamples, level 95%")
    print("| items | true loss | metric | margin | pass | worse | cannot tell |\n|---|---|---|---|---|---|---|")
    for items in sizes:
        for case, p in CASES.items():
            for key, counts in verdicts(pool, items, share, p, pairs).items():
                margin = f"{pool[key].true_loss(share, CASES['at the margin']):.4f}" if key in pool else ""
                rates = " | ".join(f"{100 * counts[one] / pairs:.1f}%" for one in ("pass", "worse", "undecided"))
                print(f"| {items} | {case} | {key} | {margin} | {rates} |", flush=True)


def timing(items: int = 5000) -> None:
    """Print how long a gate takes on files, on runs and against a lock file, with everything that it writes."""
    from captious.cli.app import build_app

    sets = systems(items)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, captions in sets.items():
            rows = [{"id": item.id, "caption": item.candidate, "references": item.references} for item in captions]
            (root / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
            evaluate(captions, METRICS).save(root / name)
        base, new = root / BETTER, root / WORSE
        command = build_app()
        output = ["--junit", str(root / "gate.xml"), "--markdown", str(root / "gate.md")]
        calls = {
            "lock file, written": [f"{root}/lock.json", str(base), "--update"],
            "files": [f"{base}.json", f"{new}.json", "-m", METRICS, "--margin", "1%", *output],
            "run and file": [str(base), f"{new}.json", "--margin", "1%", *output],
            "two runs": [str(base), str(new), "--margin", "1%", *output],
            "lock file and file": [f"{root}/lock.json", f"{new}.json", "--margin", "1%", *output],
        }
        print(f"\n{items:,} items, {METRICS}\n| base and new | seconds |\n|---|---|")
        for what, arguments in calls.items():
            start = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                command(["gate", *arguments], standalone_mode=False)
            print(f"| {what} | {time.perf_counter() - start:.2f} |", flush=True)
        print(f"lock file: {(root / 'lock.json').stat().st_size / 1024:.0f} KB")
        assert gate(base, base, margin=0).passed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--items", default="200,500")
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--no-timing", action="store_true")
    options = parser.parse_args()
    error_rates([int(size) for size in options.items.split(",")], options.pairs, options.share)
    if not options.no_timing:
        timing()
