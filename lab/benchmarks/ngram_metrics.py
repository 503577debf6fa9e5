"""captious beside pycocoevalcap, aac-metrics and torchmetrics on the n-gram metrics; prints ratios.

torchmetrics computes BLEU and ROUGE-L alone, by its own tokens; captious computes everything in the same time.

python lab/benchmarks/ngram_metrics.py [--quick]
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

from measure import quickest, table

SCRIPT = str(Path(__file__).with_name("ngram_tools.py"))


def main(quick: bool) -> None:
    """All tables."""
    for name in ("karpathy",) if quick else ("karpathy", "val2014"):
        against_peers(name)
    growth(quick)
    import_cost()


def against_peers(name: str) -> None:
    """Times and ratios on one set; values must agree."""
    modules = {"pycocoevalcap": "pycocoevalcap", "aac-metrics": "aac_metrics", "torchmetrics": "torchmetrics"}
    tools = [tool for tool, module in modules.items() if importlib.util.find_spec(module)]
    ours = quickest(3, SCRIPT, "captious", name, "5")
    rows = [["tool", "first call, s", "ratio", "best of five, s", "ratio", "peak GiB", "largest difference of a value"]]
    rows.append(["captious", f"{ours['first']:.3f}", "", f"{ours['best']:.3f}", "", f"{ours['peak_gib']:.2f}", ""])
    for tool in tools:
        peer = quickest(1, SCRIPT, tool, name, "5" if name == "karpathy" else "2")
        gaps = [abs(value - ours["values"][key]) for key, value in peer["values"].items()]
        ratios = [f"{peer[which] / ours[which]:.0f}" for which in ("first", "best")]
        times = [f"{peer[which]:.2f}" for which in ("first", "best")]
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
    resampling = quickest(1, SCRIPT, "bootstrap", name, "3")
    print(f"\n{name}: {ours['items']} items; tokenize + BLEU-1..4 + ROUGE-L + CIDEr-D, captions in memory to values\n")
    print(table(rows))
    share = resampling["best"] / ours["best"]
    print(f"\n1,000-sample bootstrap of all six values: {resampling['best']:.3f} s, {share:.2f} of the scoring")


def growth(quick: bool) -> None:
    """Time per item and peak memory as the set grows."""
    sets = ["karpathy", "20000"] if quick else ["karpathy", "val2014", "200000"]
    rows = [["set", "items", "first call, s", "µs per item", "peak GiB"]]
    for name in sets:
        found = quickest(2, SCRIPT, "captious", name, "1")
        per_item = 1e6 * found["first"] / found["items"]
        rows.append([name, str(found["items"]), f"{found['first']:.2f}", f"{per_item:.1f}", f"{found['peak_gib']:.2f}"])
    print("\nGrowth (a number names that many generated items with five references each)\n")
    print(table(rows))


def import_cost() -> None:
    """`import captious` against `import numpy`, whole processes less an empty one."""
    best = {
        statement: min(_seconds(statement) for _ in range(7))
        for statement in ("pass", "import numpy", "import captious")
    }
    numpy, captious = best["import numpy"] - best["pass"], best["import captious"] - best["pass"]
    print(f"\nimport captious: {captious * 1e3:.0f} ms, {captious / numpy:.2f} of import numpy ({numpy * 1e3:.0f} ms)")


def _seconds(statement: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main("--quick" in sys.argv)
