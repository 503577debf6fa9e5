"""A figure that two pages give is the same on both."""

import re
from pathlib import Path

import pytest

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


def test_the_ratios_of_the_speed_page_follow_from_its_seconds():
    measured = speeds()
    assert len(measured) >= 6
    for (name, tool), (seconds, ratio) in measured.items():
        assert ratio == pytest.approx(seconds / measured[name, "captious"][0], abs=1), (name, tool)


def test_the_readme_has_the_times_of_the_speed_page():
    (cells,) = [row for row in rows("README.md", "pycocoevalcap") if row[0].startswith("time for 5,000 COCO captions")]
    coco = {tool: figures for (name, tool), figures in speeds().items() if name == "COCO Karpathy test"}
    assert cells[1] == f"{coco['captious'][0]:.2f} s"
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
