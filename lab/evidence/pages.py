"""The pages of the documentation that are made from evidence: which metric to use, and the leaderboard with filters."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import Path

from captious.stats.ranks import format_ranks
from captious.study._statistic_columns import get_label, make_column
from captious.study.advising._advise import advise_profile
from captious.study.advising._profile import CaptionProfile, get_band
from captious.study.advising.advice import EvidenceSet
from captious.study.evidence import SOURCES, EvidenceRow, StressRow, get_metric_label, load_evidence, load_stress

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide" / "which-metric.md"
MARKS = (
    ("<!-- situations: written by python -m lab.evidence -->\n", "<!-- end of situations -->"),
    ("<!-- evidence: written by python -m lab.evidence -->\n", "<!-- end of evidence -->"),
    ("<!-- stress: written by python -m lab.evidence -->\n", "<!-- end of stress -->"),
)
LEADERBOARD = "results/leaderboard.md"
# Sorts of captions in the table at the top of the guide: what is described, words, references, images.
SITUATIONS = (
    ("photographs", 10, 5, False),
    ("photographs", 10, 0, True),
    ("photographs", 40, 1, False),
    ("photographs", 40, 0, True),
    ("photographs", 180, 1, False),
    ("photographs", 180, 0, True),
    ("video", 30, 10, False),
    ("audio", 10, 5, False),
    ("generated images", 10, 0, True),
)
LENGTHS = ("short", "of 21 to 60 words", "long")


def evidence_sets(rows: Iterable[EvidenceRow]) -> list[EvidenceSet]:
    """The rows by data set and kind."""
    groups: dict[tuple[str, str], list[EvidenceRow]] = {}
    for row in rows:
        groups.setdefault((row.dataset, row.kind), []).append(row)
    return [EvidenceSet(found[0].dataset, found[0].kind, tuple(found)) for found in groups.values()]


def situation(row: EvidenceRow) -> str:
    """Captions of one sort, as a heading: what is described, and how long."""
    assert row.caption_words is not None
    bands = [get_band(words) for words in (1, 30, 100)]
    length = LENGTHS[bands.index(get_band(row.caption_words))]
    what = f"Captions of {row.domain}" if row.domain != "generated images" else "Texts and the images made from them"
    return f"{what}, {length}"


def situation_table(rows: Sequence[EvidenceRow]) -> str:
    """What to do for each sort of captions, as `captious study advise` says it, as Markdown."""
    lines = ["| your captions | what to do | why |\n|---|---|---|\n"]
    for domain, words, references, images in SITUATIONS:
        profile = CaptionProfile(("captions",), 100, words, 6.0 * words, references, images, "English", domain)
        advice = advise_profile(profile, "ratings", rows)
        does = advice.recommendation
        lines.append(
            f"| {profile.situation} | **{does[0].upper()}{does[1:]}.** | {' '.join(advice.list_reasons())} |\n"
        )
    return "".join([*lines, "\n"])


def guide_tables(rows: Sequence[EvidenceRow]) -> str:
    """What the evidence says for each sort of captions, as Markdown."""
    parts: dict[str, list[EvidenceSet]] = {}
    for one in evidence_sets(rows):
        if one.rows[0].caption_words is not None and one.kind != "systems" and one.ranked:
            parts.setdefault(situation(one.rows[0]), []).append(one)
    text = []
    for heading, sets in parts.items():
        text.append(
            f"### {heading}\n\n| data | people gave | references | metrics in their order |\n|---|---|---|---|\n"
        )
        for one in sets:
            row = one.rows[0]
            order = one.order(list(one.ranked)).replace("number of words", "*number of words*")
            text.append(f"| {one.name} | {row.items:,} {one.kind} | {row.references:.0f} | {order} |\n")
        text.append("\n")
    return "".join(text)


def stress_tables(rows: Sequence[StressRow]) -> str:
    """The edits that each metric fails, by group, as Markdown; a table for each set of captions."""
    groups = {"harm": "misses", "damage": "misses as text", "harmless": "is moved by", "gaming": "rises with"}
    heads = " | ".join(f"{words} ({group})" for group, words in groups.items())
    text = []
    for dataset in dict.fromkeys(row.dataset for row in rows):
        text.append(f"### On {dataset}\n\n| metric | {heads} | undecided |\n|---|{'---|' * len(groups)}---|\n")
        own = [row for row in rows if row.dataset == dataset]
        for metric in dict.fromkeys(row.metric for row in own):
            failed = [row for row in own if row.metric == metric and row.verdict == "fails"]
            cells = [", ".join(row.edit for row in failed if row.group == group) or "–" for group in groups]
            of_metric = [row.verdict for row in own if row.metric == metric]
            undecided = f"{of_metric.count('undecided')} of {len(of_metric)}"
            text.append(f"| {get_metric_label(metric)} | {' | '.join(cells)} | {undecided} |\n")
        text.append("\n")
    return "".join(text)


def guide(text: str, rows: Sequence[EvidenceRow] | None = None, stress: Sequence[StressRow] | None = None) -> str:
    """The guide with the tables as they are now."""
    rows = rows or load_evidence()
    tables = (situation_table(rows), guide_tables(rows), stress_tables(stress or load_stress()))
    for (begin, end), table in zip(MARKS, tables, strict=True):
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{table}{end}{after}"
    return text


def leaderboard_page() -> dict[str, str]:
    """The page with all evidence and its filters, by its path."""
    rows = load_evidence()
    selects = {
        "data": list(dict.fromkeys(row.dataset for row in rows)),
        "metric": sorted({row.label for row in rows}, key=str.lower),
        "statistic": list(dict.fromkeys(get_label(row.statistic) for row in rows)),
        "source": [*SOURCES.values()],
    }
    filters = " ".join(
        f'<label>{name} <select data-filter="{index}"><option value="">all</option>'
        + "".join(f"<option>{html.escape(value)}</option>" for value in values)
        + "</select></label>"
        for index, (name, values) in enumerate(selects.items())
    )
    heads = (
        "data",
        "metric",
        "statistic",
        "source",
        "rank",
        "value",
        "95 % interval",
        "items",
        "words",
        "references",
        "where",
    )
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "\n".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in _cells(row))}</tr>" for row in rows)
    return {LEADERBOARD: PAGE.format(filters=filters, head=head, body=body, rows=len(rows), sets=len(selects["data"]))}


def _cells(row: EvidenceRow) -> list[str]:
    scale = make_column(row.statistic).scale
    interval = "" if row.low is None or row.high is None else f"{scale * row.low:.2f} – {scale * row.high:.2f}"
    return [
        row.dataset,
        row.label,
        get_label(row.statistic),
        SOURCES[row.source],
        "" if row.ranks is None else format_ranks(row.ranks),
        f"{scale * row.value:.2f}",
        interval,
        f"{row.items:,}" if row.items else "",
        "" if row.caption_words is None else f"{row.caption_words:.0f}",
        "" if row.references is None else f"{row.references:.0f}",
        row.where,
    ]


PAGE = """---
hide: [toc]
---
# Leaderboard

The table has all {rows} numbers that captious knows about the agreement of metrics with people, on {sets} data sets.
`captious study leaderboard --all` prints them with published numbers beside ours;
[Which metric should I use?](../guide/which-metric.md) says what follows.

- **computed**: by captious on the data, with intervals over images and ranks. Metrics that share a rank do not differ
  significantly on those data; metrics that share none do (permutation test, Holm-adjusted).
- **stored**: values per caption that another program computed, correlated by captious.
- **printed**: a number from a paper or README. It has neither interval nor rank.

Correlations and accuracies are × 100. *number of words* is a baseline, not a metric.

<div class="evidence-filters">{filters} <span data-count></span></div>

<div class="evidence-table">
<table id="evidence">
<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table>
</div>

<script>
(() => {{
  const rows = [...document.querySelectorAll("#evidence tbody tr")];
  const filters = [...document.querySelectorAll("[data-filter]")];
  const count = document.querySelector("[data-count]");
  const show = () => {{
    let shown = 0;
    for (const row of rows) {{
      row.hidden = !filters.every(one => !one.value || row.cells[one.dataset.filter].textContent === one.value);
      shown += !row.hidden;
    }}
    count.textContent = shown + " of " + rows.length + " rows";
  }};
  filters.forEach(one => one.addEventListener("change", show));
  show();
}})();
</script>
"""
