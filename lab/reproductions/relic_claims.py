"""The four claims of RELIC, tested on our runs, and our runs as the tables of docs/results/bias.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from lab.benchmarks.measure import table
from lab.reproductions.beside import Row
from scipy.stats import kendalltau

from captious.bias import Lic, LicDifference, adjust_increases, compare_lics
from captious.stats import spearman

GENDER, RACE, AGE = "1 gender", "2 race", "3 age"
# As the paper writes the captioners.
NAMES = {
    "nic": "NIC",
    "nic_th10": "NIC, the LSTM script's captions",
    "sat": "SAT",
    "fc": "FC",
    "att2in": "Att2in",
    "updn": "UpDn",
    "transformer": "Transformer",
    "oscar": "OSCAR",
    "nic_plus": "NIC+",
    "nic_equalizer": "NIC+Equalizer",
}
OTHER_NIC = "nic_th10"
PUBLISHED_KINDS = ("lstm", "bert-ft", "bert-pre")


class Column(NamedTuple):
    """One table of the paper under one classifier: our LIC of each captioner, and the printed ones."""

    lics: Mapping[str, Lic]
    published: Mapping[str, float]


def read_columns(rows: Iterable[Row]) -> dict[tuple[str, str], Column]:
    """Rebuild the LIC of every captioner from its values by seed, by table and classifier."""
    columns: dict[tuple[str, str], Column] = {}
    for row in rows:
        if not row.what.endswith(": LIC") or row.name == OTHER_NIC or row.ours is None:
            continue
        title, _, kind = row.what.removeprefix("Table ").removesuffix(": LIC").rpartition(", ")
        lics, published = columns.setdefault((title, kind), Column({}, {}))
        seeds = row.more["seeds"]
        lics[row.name] = Lic(np.array(seeds["model"]), np.array(seeds["human"]), row.more["ratio"])  # type: ignore[index]
        # The linear classifier is none of the paper's: its rows stand beside the published LSTM.
        if row.published is not None and kind in PUBLISHED_KINDS:
            published[row.name] = row.published  # type: ignore[index]
    return columns


def check_claims(rows: Iterable[Row]) -> list[Row]:
    """Test the claims as far as the rows allow it; with one seed there is no test."""
    several = [row for row in rows if len(row.more.get("seeds", {}).get("model", ())) > 1]
    columns = read_columns(several)
    return [
        *compare_orders(columns),
        *compare_classifiers(columns),
        *check_increases(columns),
        *compare_attributes(columns),
        *compare_equalizer(columns),
        *compare_captioners(columns),
    ]


def compare_orders(columns: Mapping[tuple[str, str], Column]) -> Iterator[Row]:
    """Claim 1: whether two classifiers order the captioners alike."""
    for (title, first), (other, second) in combinations(columns, 2):
        if title != other or len(columns[title, first].lics) < 3:
            continue
        one, two = columns[title, first], columns[title, second]
        names = [name for name in one.lics if name in two.lics]
        x, y = (np.array([column.lics[name].lic for name in names]) for column in (one, two))
        row = Row(
            f"Claim 1, {title}: Spearman × 100 of the captioners' LIC", f"{first}, {second}", 100 * spearman(x, y)
        )
        note = f"Kendall × 100 {100 * kendalltau(x, y).statistic:.0f}"
        if first in PUBLISHED_KINDS and second in PUBLISHED_KINDS:
            x, y = (np.array([column.published[name] for name in names]) for column in (one, two))
            note += f", published {100 * kendalltau(x, y).statistic:.0f}"
            row = replace(row, published=100 * spearman(x, y))
        yield replace(row, note=note)


def compare_classifiers(columns: Mapping[tuple[str, str], Column]) -> Iterator[Row]:
    """Claim 1: the difference between two classifiers, over the seeds that both have."""
    for (title, first), (other, second) in combinations(columns, 2):
        if title == other:
            one, two = keep_common_seeds(columns[title, first].lics, columns[title, second].lics)
            yield from _make_rows(f"Claim 1, {title}: {first} − {second}", compare_lics(one, two))


def keep_common_seeds(one: Mapping[str, Lic], two: Mapping[str, Lic]) -> tuple[dict[str, Lic], dict[str, Lic]]:
    """Keep the first seeds, which both have: runs take the published ones in their order."""
    number = min(len(lic.model) for lic in (*one.values(), *two.values()))
    short = [
        {name: replace(lic, model=lic.model[:number], human=lic.human[:number]) for name, lic in lics.items()}
        for lics in (one, two)
    ]
    return short[0], short[1]


def check_increases(columns: Mapping[tuple[str, str], Column]) -> Iterator[Row]:
    """Claim 2: LIC above 0, one-sided, Holm over the captioners."""
    for (title, kind), column in columns.items():
        what = f"Claim 2, {title}, {kind}: LIC above 0"
        for name, p in adjust_increases(column.lics).items():
            lic = column.lics[name]
            yield Row(what, name, lic.lic, *lic.interval, column.published.get(name), f"one-sided p (Holm) {p:.2g}")


def compare_attributes(columns: Mapping[tuple[str, str], Column]) -> Iterator[Row]:
    """Claim 3: race against gender, captioner by captioner; age against gender likewise."""
    for kind in dict.fromkeys(kind for _, kind in columns):
        for what, first, second in (("Claim 3", RACE, GENDER), ("Attributes", AGE, GENDER)):
            if (first, kind) not in columns or (second, kind) not in columns:
                continue
            one, two = columns[first, kind], columns[second, kind]
            differences = compare_lics(*keep_common_seeds(one.lics, two.lics))
            for row in _make_rows(f"{what}, {kind}: {first[2:]} − {second[2:]}", differences):
                theirs = f"published {one.published.get(row.name)} and {two.published.get(row.name)}"
                yield replace(row, note=f"{row.note}; {theirs}")


def compare_equalizer(columns: Mapping[tuple[str, str], Column]) -> Iterator[Row]:
    """Claim 4: the Equalizer against its baseline; Holm over tables and classifiers."""
    pair = ("nic_equalizer", "nic_plus")
    both = {f"{title}, {kind}": column for (title, kind), column in columns.items() if column.lics.keys() >= {*pair}}
    lics = ({name: column.lics[captioner] for name, column in both.items()} for captioner in pair)
    for row in _make_rows("Claim 4: Equalizer − NIC+", compare_lics(*lics)):
        theirs = [both[row.name].published.get(captioner) for captioner in pair]
        yield replace(row, note=f"{row.note}; published {theirs[0]} and {theirs[1]}")


def compare_captioners(columns: Mapping[tuple[str, str], Column]) -> Iterator[Row]:
    """Every two captioners of a table; Holm over all of the table and classifier."""
    for (title, kind), column in columns.items():
        found = compare_lics(column.lics)
        for row, one in zip(_make_rows(f"Captioners, {title}, {kind}", found), found, strict=True):
            yield replace(row, name=f"{one.first} − {one.second}")


def _make_rows(what: str, differences: Iterable[LicDifference]) -> Iterator[Row]:
    for one in differences:
        note = f"p {one.lic.p_value:.2g}, Holm {one.p_holm:.2g}"
        yield Row(what, one.first, one.lic.lic, *one.lic.interval, note=note, more={"p_holm": one.p_holm})


def build_page(rows: Iterable[Row]) -> str:
    """Build the tables of the page: each cell has our value / the published one."""
    parts: dict[tuple[str, str], dict[str, dict[str, Row]]] = {}
    for row in rows:
        title, _, rest = row.what.removeprefix("Table ").rpartition(", ")
        kind, _, part = rest.partition(": ")
        parts.setdefault((title, kind), {}).setdefault(row.name, {})[part] = row
    pages = []
    for (title, kind), captioners in parts.items():
        cells = [["captioner", "LIC_M", "LIC_D", "LIC"]]
        cells += [
            [NAMES[name], _format_mean(own["LIC_M"]), _format_mean(own["LIC_D"]), _format_lic(own["LIC"])]
            for name, own in captioners.items()
        ]
        pages.append(f"{title}, {kind}\n\n{table(cells)}")
    return "\n\n".join(pages)


def _format_mean(row: Row) -> str:
    return f"{row.ours:.1f} ± {row.more['sd']:.1f} / {row.published} ± {row.more['published_sd']}"


def _format_lic(row: Row) -> str:
    interval = f"{row.low:.1f} – {row.high:.1f}".replace("-", "−")
    return f"{row.ours:.1f} ({interval}) / {row.published}".replace("-", "−")
