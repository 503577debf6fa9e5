"""The captioners' captions under captious' metrics: does being told the style show, and in which metric?

    python -m lab.captioners.score --data ../shared/data --captions DIRECTORY --out results/

An item is an image, a style and a seed; its reference is the person's caption of the image in that style. A captioner
that is told no style has one caption for both. Intervals and tests resample images: the captions of an image in both
styles and of all seeds stay together. The style models are fitted on the training captions.

With two styles, a caption's OnlyStyle under one is minus that under the other. So a captioner that is told no style
scores exactly 0, and "higher when told" says no more than "above 0". A style model with the factual captions of
Flickr8k as a third style has no such symmetry; OnlyStyle under it is reported too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from captious import CaptionSet, Resampling
from captious._core.types import Floats
from captious.metrics import Measurement, fit_style, parse_all, save_style
from captious.stats.bootstrap import Estimate, bootstrap
from captious.stats.resampling import (
    Statistic,
    bootstrap_weights,
    holm,
    paired_bootstrap,
    paired_randomization,
    swap_masks,
)
from lab.benchmarks.measure import table
from lab.captioners.pack import STYLES, read_captions, read_factual, split_of

# ``two`` is a model of the two styles, ``three`` one that has the factual captions of Flickr8k as a third.
METRICS = {
    "BLEU-1": "bleu(n=1)",
    "BLEU-2": "bleu(n=2)",
    "BLEU-3": "bleu(n=3)",
    "BLEU-4": "bleu(n=4)",
    "METEOR": "meteor",
    "CIDEr": "cider",
    "SPICE": "spice",
    "StyleCIDEr": "stylecider(model={two})",
    "OnlyStyle": "onlystyle(model={two})",
    "OnlyStyle, 3 styles": "onlystyle(model={three})",
}
# CIDEr with the five factual captions as references: how much of the image is described.
FACTUAL = "CIDEr, factual"
# Of the captions of one model in one style; numbers are means over styles and seeds.
DIVERSITY = {
    "vocabulary": "vocab_size",
    "distinct-2": "distinct_n(n=2,over=corpus)",
    "new captions": "novelty(against={known})",
}
CLAIM = ("OnlyStyle", "StyleCIDEr", "CIDEr")
# As the paper writes them.
TITLES = {"updown": "UPDOWN", "multi-updown": "Multi-UPDOWN", "svinvl": "SVinVL"}
# Table 2 of the paper: BLEU-1, BLEU-4, CIDEr, StyleCIDEr, OnlyStyle.
PRINTED = ("BLEU-1", "BLEU-4", "CIDEr", "StyleCIDEr", "OnlyStyle")
PUBLISHED = {
    "UPDOWN": (0.241, 0.034, 0.231, 0.046, 0.126),
    "UPDOWN NoStyle": (0.255, 0.035, 0.249, 0.034, 0.055),
    "Multi-UPDOWN": (0.251, 0.035, 0.275, 0.048, 0.094),
    "Multi-UPDOWN NoStyle": (0.252, 0.037, 0.261, 0.026, 0.049),
    "SVinVL": (0.232, 0.027, 0.248, 0.048, 0.129),
    "SVinVL NoStyle": (0.233, 0.029, 0.249, 0.033, 0.084),
}


class Claim(NamedTuple):
    """A sentence of the paper as comparisons: under a metric, the first captioner is higher than the second."""

    sentence: str
    metrics: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]


TOLD = tuple((name, f"{name} NoStyle") for name in TITLES.values())
# The first two are what the paper is about; the others are what it reads off its Table 2.
CLAIMS = (
    Claim("A captioner that is told the style is higher on OnlyStyle than its twin", ("OnlyStyle",), TOLD),
    Claim("… and on StyleCIDEr", ("StyleCIDEr",), TOLD),
    Claim(
        "UPDOWN NoStyle and SVinVL NoStyle are higher on BLEU and CIDEr than UPDOWN and SVinVL",
        ("BLEU-1", "BLEU-4", "CIDEr"),
        tuple((plain, told) for told, plain in TOLD if told != "Multi-UPDOWN"),
    ),
    Claim(
        "On OnlyStyle SVinVL is the best, and Multi-UPDOWN the worst",
        ("OnlyStyle",),
        (("SVinVL", "UPDOWN"), ("UPDOWN", "Multi-UPDOWN")),
    ),
    Claim("On StyleCIDEr UPDOWN is the worst", ("StyleCIDEr",), (("Multi-UPDOWN", "UPDOWN"), ("SVinVL", "UPDOWN"))),
    Claim(
        "SVinVL is the worst on BLEU and CIDEr",
        ("BLEU-1", "BLEU-4", "CIDEr"),
        (("UPDOWN", "SVinVL"), ("Multi-UPDOWN", "SVinVL")),
    ),
)


class System(NamedTuple):
    """A captioner in one form under one search; its seeds are pooled."""

    architecture: str
    form: str
    search: str


@dataclass(frozen=True)
class Difference:
    """A system minus another on one metric, with its interval over images and its p-values."""

    metric: str
    system: str
    baseline: str
    value: float
    low: float
    high: float
    p: float
    p_holm: float

    def __str__(self) -> str:
        return f"{round(self.value, 3) + 0.0:+.3f} ± {(self.high - self.low) / 2:.3f}" + (
            " †" if self.p_holm < 0.05 else ""
        )


# By image, style and seed.
Captions = Mapping[tuple[str, str, int], str]
# A system and its baseline, by the names of both.
MeasuredPairs = Mapping[tuple[str, str], tuple[Measurement, Measurement]]


def read_systems(folder: Path) -> dict[System, Captions]:
    """Return the captions that train.py wrote; a caption without style counts for both styles."""
    systems: dict[System, dict[tuple[str, str, int], str]] = {}
    path = folder / "captions.jsonl"
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        captions = systems.setdefault(System(row["architecture"], row["form"], row["search"]), {})
        for style in (row["style"],) if row["style"] else STYLES:
            captions[row["id"], style, row["seed"]] = row["caption"]
    expected = [System(*parts) for parts in itertools.product(TITLES, ("style", "none"), ("beam", "greedy"))]
    if missing := [system for system in expected if system not in systems]:
        raise SystemExit(f"{path}: no captions of {label(missing[0])} by {missing[0].search} search")
    # A run that was cut short has captions of more seeds from one captioner than from another.
    seeds = set.intersection(*({key[2] for key in captions} for captions in systems.values()))
    if not seeds:
        raise SystemExit(f"{path}: no seed of which all captioners have captions")
    order = {name: number for number, name in enumerate((*TITLES, "style", "none"))}
    return {
        system: {key: caption for key, caption in captions.items() if key[2] in seeds}
        for system, captions in sorted(
            systems.items(), key=lambda pair: (order[pair[0].architecture], order[pair[0].form])
        )
    }


class Bench:
    """References, style models and draws that all systems share."""

    def __init__(self, data: Path, scratch: Path, metrics: Sequence[str], resampling: Resampling) -> None:
        self.resampling = resampling
        self.styled = read_captions(data)
        self.factual = read_factual(data)
        training = [key for key in self.styled if split_of(key) == "train"]
        styled = [(style, self.styled[key][style]) for key in training for style in STYLES]
        factual = [("factual", caption) for key in training for caption in self.factual[key]]
        paths = {"two": scratch / "two.style", "three": scratch / "three.style", "known": scratch / "known.jsonl"}
        save_style(fit_style(styled), paths["two"])
        save_style(fit_style(styled + factual), paths["three"])
        known = [{"id": str(index), "references": [caption]} for index, (_, caption) in enumerate(styled)]
        paths["known"].write_text("".join(json.dumps(row) + "\n" for row in known), encoding="utf-8")
        self.metrics = {name: METRICS[name].format(**paths) for name in metrics}
        self.diversity_metrics = {name: written.format(**paths) for name, written in DIVERSITY.items()}

    def measure(self, captions: Captions) -> dict[str, Measurement]:
        """Every metric on the captions of a system, each under its style."""
        candidates = {"#".join(map(str, key)): caption for key, caption in captions.items()}
        references = {"#".join(map(str, key)): self.styled[key[0]][key[1]] for key in captions}
        columns = {"style": [style for _, style, _ in captions]}
        measured = _measure(CaptionSet.of(candidates, references, columns), self.metrics)
        factual = {"#".join(map(str, key)): self.factual[key[0]] for key in captions}
        return {**measured, **_measure(CaptionSet.of(candidates, factual), {FACTUAL: "cider"})}

    def diversity(self, captions: Captions) -> dict[str, float]:
        """Means over styles and seeds."""
        values: dict[str, list[float]] = {name: [] for name in self.diversity_metrics}
        for part in sorted({(style, seed) for _, style, seed in captions}):
            own = {key[0]: caption for key, caption in captions.items() if key[1:] == part}
            for name, measurement in _measure(CaptionSet.of(own), self.diversity_metrics).items():
                values[name].append(measurement.corpus)
        return {name: float(np.mean(several)) for name, several in values.items()}

    def people(self, ids: Iterable[str]) -> dict[str, float]:
        """OnlyStyle of the persons' captions of these images."""
        captions = {(key, style): self.styled[key][style] for key in ids for style in STYLES}
        candidates = {"#".join(key): caption for key, caption in captions.items()}
        own = CaptionSet.of(candidates, columns={"style": [style for _, style in captions]})
        without_references = {name: text for name, text in self.metrics.items() if name.startswith("OnlyStyle")}
        return {name: measurement.corpus for name, measurement in _measure(own, without_references).items()}

    def differences(self, pairs: MeasuredPairs, metric: str) -> list[Difference]:
        """System minus baseline, tested by swapping images; Holm's correction covers all pairs."""
        statistics = [(by_image(baseline), by_image(system)) for system, baseline in pairs.values()]
        images, seed = len(statistics[0][0].rows), self.resampling.seed
        intervals = paired_bootstrap(statistics, bootstrap_weights(images, self.resampling.samples, seed))
        p_values = paired_randomization(statistics, swap_masks(images, self.resampling.samples, seed))
        return [
            Difference(metric, system, baseline, after.value - before.value, low, high, p, adjusted)
            for (system, baseline), (before, after), (_, low, high), p, adjusted in zip(
                pairs, statistics, intervals, p_values, holm(p_values), strict=True
            )
        ]


def _measure(captions: CaptionSet, metrics: Mapping[str, str]) -> dict[str, Measurement]:
    parsed = parse_all(list(metrics.values()), [captions])
    return {name: metric.measure(captions) for name, metric in zip(metrics, parsed, strict=True)}


def by_image(measurement: Measurement) -> Statistic:
    """The corpus value as resampling wants it, with one row for each image: the sum over its styles and seeds."""
    rows = np.nan_to_num(np.asarray(measurement.rows, dtype=np.float64))
    images, owner = np.unique([key.split("#")[0] for key in measurement.ids], return_inverse=True)
    sums = np.zeros((len(images), rows.shape[1]))
    np.add.at(sums, owner, rows)
    return Statistic(sums, measurement.metric.aggregate, rows.sum(axis=0), measurement.corpus)


def by_seed(measurement: Measurement) -> list[float]:
    """The corpus value of each seed alone."""
    seeds = np.array([key.split("#")[2] for key in measurement.ids])
    rows = np.nan_to_num(np.asarray(measurement.rows, dtype=np.float64))
    return [float(measurement.metric.aggregate(rows[seeds == seed].sum(axis=0)[None])[0]) for seed in np.unique(seeds)]


def swapped(captions: Captions) -> Captions:
    """Each style gets the caption that was written for the other."""
    other = dict(zip(STYLES, reversed(STYLES), strict=True))
    return {(image, style, seed): captions[image, other[style], seed] for image, style, seed in captions}


def share_above(matched: Floats, other: Floats) -> float:
    """How often the first is higher; ties count half.

    >>> share_above(np.array([1.0, 0.0, 2.0, 0.0]), np.array([0.0, 0.0, 1.0, 1.0]))
    0.625
    """
    return float(np.mean((matched > other) + 0.5 * (matched == other)))


class Results:
    """Everything measured, for one search."""

    def __init__(self, bench: Bench, systems: Mapping[System, Captions], search: str) -> None:
        chosen = {system: captions for system, captions in systems.items() if system.search == search}
        measured = {system: bench.measure(captions) for system, captions in chosen.items()}
        self.search, self.systems = search, list(chosen)
        self.values: dict[System, dict[str, Estimate]] = {
            system: bootstrap({name: by_image(one) for name, one in by_metric.items()}, bench.resampling)
            for system, by_metric in measured.items()
        }
        self.seeds = {
            system: {name: by_seed(one) for name, one in by_metric.items()} for system, by_metric in measured.items()
        }
        self.diversity = {system: bench.diversity(captions) for system, captions in chosen.items()}
        self.people = bench.people(sorted({key[0] for captions in chosen.values() for key in captions}))
        self.metrics = list(next(iter(measured.values())))
        named = {label(system): by_metric for system, by_metric in measured.items()}
        told = [system for system in chosen if system.form == "style"]
        exchanged = {system: bench.measure(swapped(chosen[system])) for system in told}
        self.told: list[Difference] = []
        self.matched: list[Difference] = []
        self.claims: dict[Claim, list[Difference]] = {claim: [] for claim in CLAIMS}
        self.shares: dict[str, dict[str, float]] = {}
        for name in self.metrics:
            ours = {label(system): measured[system][name] for system in told}
            plain = {label(system): measured[system._replace(form="none")][name] for system in told}
            other = {label(system): exchanged[system][name] for system in told}
            self.told += bench.differences({(one, "none"): (ours[one], plain[one]) for one in ours}, name)
            self.matched += bench.differences({(one, "swapped"): (ours[one], other[one]) for one in ours}, name)
            self.shares[name] = {one: share_above(ours[one].values, other[one].values) for one in ours}
            for claim, differences in self.claims.items():
                if name in claim.metrics:
                    pairs = {(one, two): (named[one][name], named[two][name]) for one, two in claim.pairs}
                    differences += bench.differences(pairs, name)

    def verdict(self, quick: bool = False) -> str:
        """Return the paper's claim against the numbers, in one sentence."""
        rows = {name: [row for row in self.told if row.metric == name] for name in CLAIM}
        higher = {name: sum(row.p_holm < 0.05 and row.value > 0 for row in rows[name]) for name in CLAIM}
        lower = {name: sum(row.p_holm < 0.05 and row.value < 0 for row in rows[name]) for name in CLAIM}
        number = len(rows["OnlyStyle"])
        claim = "The claim holds in part"
        if higher["OnlyStyle"] == higher["StyleCIDEr"] == number:
            claim = "The claim holds"
        elif quick:
            claim = "This quick run is too short to decide the claim; run it without --quick"
        elif higher["OnlyStyle"] == higher["StyleCIDEr"] == 0:
            claim = "The claim does not hold"
        share = {name: 100 * np.mean(list(self.shares[name].values())) for name in CLAIM}
        return (
            f"{claim}: of {number} captioners that are told the style, {higher['OnlyStyle']} score higher on "
            f"OnlyStyle and {higher['StyleCIDEr']} on StyleCIDEr than the same captioner that is not, while on CIDEr "
            f"{higher['CIDEr']} score higher and {lower['CIDEr']} lower (paired tests over images, Holm-adjusted "
            f"p < 0.05); a caption scores above the one written for the other style in {share['OnlyStyle']:.0f} % of "
            f"cases on OnlyStyle, {share['StyleCIDEr']:.0f} % on StyleCIDEr and {share['CIDEr']:.0f} % on CIDEr."
        )

    def table_2(self) -> str:
        """Return the paper's Table 2 with our values, the published ones behind them."""
        rows = [["captioner", *PRINTED]]
        for system in self.systems:
            printed = dict(zip(PRINTED, PUBLISHED[label(system)], strict=True))
            values = self.values[system]
            rows.append(
                [label(system), *(f"{half(values[name])} ({printed[name]:.3f})" for name in PRINTED if name in values)]
            )
        return table(rows)

    def check_claims(self, quick: bool = False) -> str:
        """Return the sentences of the paper with our differences, the published ones behind them."""
        rows = [["the paper", "our differences (those of the printed values)", "ours"]]
        for claim, differences in self.claims.items():
            shown = []
            for row in differences:
                column = PRINTED.index(row.metric)
                printed = PUBLISHED[row.system][column] - PUBLISHED[row.baseline][column]
                shown.append(f"{row.metric}, {row.system} − {row.baseline}: {row} ({printed:+.3f})")
            rows.append([claim.sentence, "; ".join(shown), judge(differences, quick)])
        return table(rows)

    def markdown(self) -> str:
        """Return three tables: the systems, what being told changes, and what the other style's caption scores."""
        heads = [label(system) for system in self.systems]
        rows = [["", *heads, "people"]]
        for name in self.metrics:
            cells = [half(self.values[system][name]) for system in self.systems]
            rows.append([name, *cells, f"{self.people[name]:.3f}" if name in self.people else ""])
        for name in DIVERSITY:
            digits = 0 if name == "vocabulary" else 3
            rows.append([name, *(f"{self.diversity[system][name]:,.{digits}f}" for system in self.systems), ""])
        told = list(dict.fromkeys(row.system for row in self.told))
        changes = [["told − not told", *told]]
        seen = [["requested − other style", *told]]
        for name in self.metrics:
            changes.append([name, *(str(row) for row in self.told if row.metric == name)])
            matched = [row for row in self.matched if row.metric == name]
            seen.append([name, *(f"{row} ({100 * self.shares[name][row.system]:.0f} %)" for row in matched)])
        return "\n\n".join(table(each) for each in (rows, changes, seen))

    def data(self) -> dict[str, Any]:
        """All numbers, as JSON holds them."""
        return {
            "search": self.search,
            "verdict": self.verdict(),
            "systems": {
                label(system): {
                    "metrics": {name: asdict(value) for name, value in self.values[system].items()},
                    "seeds": self.seeds[system],
                    "diversity": self.diversity[system],
                }
                for system in self.systems
            },
            "people": self.people,
            "told": [asdict(row) for row in self.told],
            "matched": [asdict(row) for row in self.matched],
            "claims": {claim.sentence: [asdict(row) for row in rows] for claim, rows in self.claims.items()},
            "above": self.shares,
        }


def label(system: System) -> str:
    """Return the paper's name of a captioner."""
    return TITLES[system.architecture] + ("" if system.form == "style" else " NoStyle")


def half(value: Estimate) -> str:
    """Return a value with half of its interval."""
    return f"{round(value.value, 3) + 0.0:.3f} ± {(value.high - value.low) / 2:.3f}"


def judge(differences: Sequence[Difference], quick: bool = False) -> str:
    """Return whether a claim holds, from differences that it says are positive."""
    if not differences:
        return "not measured"
    higher = sum(row.p_holm < 0.05 and row.value > 0 for row in differences)
    lower = sum(row.p_holm < 0.05 and row.value < 0 for row in differences)
    if higher == len(differences):
        return "holds"
    if quick:
        return "too short to decide"
    return f"{higher} of {len(differences)} hold, {lower} are significantly the opposite"


def score(
    data: Path, folder: Path, out: Path, metrics: Sequence[str], resampling: Resampling, quick: bool = False
) -> str:
    """Score a folder of captions, write ``onlystyle.md`` and ``onlystyle.json``, and return the Markdown."""
    systems = read_systems(folder)
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(data, Path(scratch), metrics, resampling)
        beam, greedy = (Results(bench, systems, search) for search in ("beam", "greedy"))
    images = len({key[0] for captions in systems.values() for key in captions})
    seeds = len({key[2] for captions in systems.values() for key in captions})
    note = (
        f"{images:,} test images, {len(STYLES)} styles, seeds: {seeds}. ± is half of the 95 % interval over images. "
        f"† Holm-adjusted p < 0.05, paired randomization over images ({resampling.samples:,} shuffles). Published "
        "values are in parentheses. The last table of each search also has the share of captions that score higher "
        "than the caption for the other style; ties count half."
    )
    parts = [
        "## Table 2: captioners that are told the style",
        beam.verdict(quick),
        note,
        beam.table_2(),
        beam.check_claims(quick),
        *(f"### {name}\n\n{one.markdown()}" for name, one in (("Beam search", beam), ("Greedy search", greedy))),
    ]
    text = "\n\n".join(parts) + "\n"
    out.mkdir(parents=True, exist_ok=True)
    (out / "onlystyle.md").write_text(text, encoding="utf-8")
    (out / "onlystyle.json").write_text(json.dumps([beam.data(), greedy.data()], indent=1) + "\n", encoding="utf-8")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with style/ and flickr8k/")
    parser.add_argument("--captions", type=Path, required=True, help="what lab.captioners.train wrote")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--leave-out", default="", help="metrics to leave out, such as SPICE,METEOR")
    parser.add_argument("--samples", type=int, default=Resampling.samples, help="resamples and shuffles")
    args = parser.parse_args()
    metrics = [name for name in METRICS if name not in args.leave_out.split(",")]
    print(score(args.data, args.captions, args.out, metrics, Resampling(samples=args.samples)))


if __name__ == "__main__":
    main()
