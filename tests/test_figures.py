"""Figures of pages are those of the stored output of a benchmark, and one that two pages give is the same on both."""

import json
import re
from pathlib import Path

import pytest

from captious.study.evidence import load_evidence

ROOT = Path(__file__).resolve().parents[1]


def rows(page, start):
    """The cells of the first table whose header contains ``start``, without header and rule."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|") and start in line)
    table = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return table


def speeds():
    """Seconds and ratio of the best of five, by data set and tool, as the page about speed has them."""
    found, name = {}, ""
    for cells in rows("docs/results/speed.md", "best of five, s"):
        name = cells[0].split(",")[0] or name
        tool = cells[1].split(",")[0]
        if cells[4]:
            found[name, tool] = (float(cells[4]), int(cells[5]) if cells[5] else 1)
    return found


# What ``lab/benchmarks/ngram_metrics.py --store`` measured.
STORED = json.loads((ROOT / "lab/benchmarks/ngram_metrics.json").read_text(encoding="utf-8"))
SETS = {"karpathy": "COCO Karpathy test, 5,000 items", "val2014": "COCO val2014, 40,504 items"}


def cells_of(name, tool):
    """The row of the speed page for a tool on a set: seconds with three digits, whole ratios."""
    own, ours = (STORED["sets"][name]["tools"][one] for one in (tool, "captious"))
    cells = [SETS[name] if tool == "captious" else "", tool]
    for which in ("first_cpu", "best_cpu"):
        cells += [f"{own[which]:#.3g}", "" if tool == "captious" else f"{own[which] / ours[which]:.0f}"]
    return [*cells, f"{own['peak_gib']:.2f}"]


def test_the_speed_page_has_the_stored_output_of_the_benchmark():
    expected = [cells_of(name, tool) for name in SETS for tool in STORED["sets"][name]["tools"]]
    large = STORED["growth"]["200000"]
    largest = ["200,000 generated items, five references each", "captious", f"{large['first_cpu']:#.3g}", "", "", ""]
    shown = [
        [cells[0], cells[1].split(",")[0], *cells[2:]] for cells in rows("docs/results/speed.md", "best of five, s")
    ]
    assert shown == [*expected, [*largest, f"{large['peak_gib']:.2f}"]]
    text = " ".join((ROOT / "docs/results/speed.md").read_text(encoding="utf-8").split())
    assert f"takes {STORED['sets']['karpathy']['bootstrap_of_scoring']:.2f} of the time of scoring" in text
    assert f"takes {STORED['import_of_numpy']:.2f} of the time of `import numpy`" in text


def test_the_readme_has_the_times_of_the_speed_page():
    (cells,) = [
        row for row in rows("README.md", "pycocoevalcap") if row[0].startswith("processor time for 5,000 COCO captions")
    ]
    coco = {tool: figures for (name, tool), figures in speeds().items() if name == "COCO Karpathy test"}
    assert cells[1].startswith(f"[{coco['captious'][0]:.2f} s](")
    for cell, tool in zip(cells[2:5], ("pycocoevalcap", "aac-metrics", "torchmetrics"), strict=True):
        assert cell.split(",")[0] == f"{coco[tool][1]} × as long", tool


def test_the_results_page_has_the_ratios_of_the_speed_page():
    ((_, shown),) = [row for row in rows("docs/results/index.md", "what it shows") if "(speed.md)" in row[0]]
    for tool in ("pycocoevalcap", "aac-metrics"):
        ratios = sorted({ratio for (_, name), (_, ratio) in speeds().items() if name == tool})
        span = " to ".join(map(str, dict.fromkeys((ratios[0], ratios[-1]))))
        assert f"{span} times as fast as {tool}" in shown


@pytest.mark.parametrize("metric", ["CIDEr-D", "METEOR", "BLEU-4", "ROUGE-L", "Krippendorff's alpha"])
def test_the_guide_and_the_results_describe_the_same_simulated_study(metric):
    def figures(page):
        (cells,) = [row for row in rows(page, "without flagged raters") if metric in row[0]]
        return [re.match(r"[\d.]+", cell)[0] for cell in cells[1:]]

    assert figures("docs/guide/studio-owner.md") == figures("docs/results/studio.md")


def evidence():
    """Computed values × 100 by data set, label and statistic, which the leaderboard shows too."""
    return {
        (row.dataset, row.label, row.statistic): 100 * row.value
        for row in load_evidence()
        if row.source == "computed" and row.value is not None
    }


@pytest.mark.parametrize(
    ("page", "start", "dataset", "columns"),
    [
        ("studies.md", "| rank | metric | τ-c |", "flickr8k-expert", {2: "tau_c", 4: "tau_b"}),
        ("studies.md", "published τ-b", "flickr8k-cf", {2: "tau_b", 5: "tau_c"}),
        ("spice.md", "| rank | metric | τ-c |", "flickr8k-expert", {2: "tau_c", 4: "tau_b", 5: "pearson"}),
    ],
)
def test_pages_about_agreement_with_people_have_the_values_of_the_leaderboard(page, start, dataset, columns):
    known, compared = evidence(), 0
    for cells in rows(f"docs/results/{page}", start):
        for place, statistic in columns.items():
            value = known.get((dataset, cells[1], statistic))
            if value is not None:
                compared += 1
                # Half of the last digit that is shown.
                assert float(cells[place]) == pytest.approx(value, abs=0.0051), (cells[1], statistic)
    assert compared >= 8
