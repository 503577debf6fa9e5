"""captious beside pycocoevalcap, aac-metrics and torchmetrics on the n-gram metrics; prints ratios of processor time.

torchmetrics computes BLEU and ROUGE-L alone, by its own tokens; captious computes everything in the same time.

python lab/benchmarks/ngram_metrics.py [--quick | --store]     # --store: into ngram_metrics.json, which docs/ quotes
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from measure import in_process, processor_seconds, quickest, table

SCRIPT = str(Path(__file__).with_name("ngram_tools.py"))
STORED = Path(__file__).with_suffix(".json")
# What is stored of a tool's run.
KEPT = ("items", "first_cpu", "best_cpu", "peak_gib")


def main(quick: bool, store: bool) -> None:
    """All tables."""
    sets = {name: against_peers(name) for name in (("karpathy",) if quick else ("karpathy", "val2014"))}
    figures = {"sets": sets, "growth": growth(quick), "import_of_numpy": import_cost()}
    if store:
        STORED.write_text(f"{json.dumps(figures, indent=1)}\n", encoding="utf-8")


def against_peers(name: str) -> dict[str, Any]:
    """Times and ratios on one set; values must agree. Gives what is stored of each tool."""
    modules = {"pycocoevalcap": "pycocoevalcap", "aac-metrics": "aac_metrics", "torchmetrics": "torchmetrics"}
    tools = [tool for tool, module in modules.items() if importlib.util.find_spec(module)]
    repeats = "5" if name == "karpathy" else "2"
    ours = in_process(SCRIPT, "captious", name, repeats)
    rows = [
        [
            "tool",
            "first call, s",
            "ratio",
            f"best of {repeats}, s",
            "ratio",
            "peak GiB",
            "largest difference of a value",
        ]
    ]
    first, best = (f"{ours[which]:.3f}" for which in ("first_cpu", "best_cpu"))
    rows.append(["captious", first, "", best, "", f"{ours['peak_gib']:.2f}", ""])
    stored = {"captious": {key: ours[key] for key in KEPT}}
    for tool in tools:
        peer = in_process(SCRIPT, tool, name, repeats)
        gaps = [abs(value - ours["values"][key]) for key, value in peer["values"].items()]
        ratios = [f"{peer[which] / ours[which]:.0f}" for which in ("first_cpu", "best_cpu")]
        times = [f"{peer[which]:.2f}" for which in ("first_cpu", "best_cpu")]
        stored[tool] = {key: peer[key] for key in KEPT}
        rows.append(
            [
                tool,
                times[0],
                ratios[0],
                times[1],
                ratios[1],
                f"{peer['peak_gib']:.2f}",
                f"{max(gaps):.0e}" if gaps else "",
            ]
        )
    resampling = quickest(3, SCRIPT, "bootstrap", name, "1")  # a report keeps the draws of its first call
    print(f"\n{name}: {ours['items']} items; tokenize + BLEU-1..4 + ROUGE-L + CIDEr-D, captions in memory to values\n")
    print(table(rows))
    share = resampling["first_cpu"] / ours["best_cpu"]
    print(f"\n1,000-sample bootstrap of all six values: {resampling['first_cpu']:.3f} s, {share:.2f} of the scoring")
    return {"tools": stored, "bootstrap_of_scoring": share}


def growth(quick: bool) -> dict[str, Any]:
    """Time per item and peak memory as the set grows."""
    sets = ["karpathy", "20000"] if quick else ["karpathy", "val2014", "200000"]
    rows, stored = [["set", "items", "first call, s", "µs per item", "peak GiB"]], {}
    for name in sets:
        found = quickest(2, SCRIPT, "captious", name, "1")
        first, stored[name] = found["first_cpu"], {key: found[key] for key in KEPT}
        per_item = 1e6 * first / found["items"]
        rows.append([name, str(found["items"]), f"{first:.2f}", f"{per_item:.1f}", f"{found['peak_gib']:.2f}"])
    print("\nGrowth (a number names that many generated items with five references each)\n")
    print(table(rows))
    return stored


def import_cost() -> float:
    """`import captious` as a share of `import numpy`: processor time of whole processes less that of an empty one."""
    best = {
        statement: min(_seconds(statement) for _ in range(7))
        for statement in ("pass", "import numpy", "import captious")
    }
    numpy, captious = best["import numpy"] - best["pass"], best["import captious"] - best["pass"]
    print(f"\nimport captious: {captious * 1e3:.0f} ms, {captious / numpy:.2f} of import numpy ({numpy * 1e3:.0f} ms)")
    return captious / numpy


def _seconds(statement: str) -> float:
    start = processor_seconds()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return processor_seconds() - start


if __name__ == "__main__":
    main("--quick" in sys.argv, "--store" in sys.argv)
