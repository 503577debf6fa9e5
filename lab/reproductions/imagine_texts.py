"""ImaginE on translations and summaries with people's ratings: the columns of its Tables 1 and 2.

    python -m lab.reproductions imagine-texts --data shared/data            # column Original: minutes, no models
    python -m lab.reproductions imagine-texts --painter FOLDER --weights MODEL   # with pictures, by any painter

The paper's system outputs and ratings were not released. These are public data of the same kind: MLQE-PE (one Fairseq
system, as the paper's WMT'19) and WMT 2021 for translation, Newsroom (one reference of one sentence, as Gigaword) and
SummEval for summaries. As in the paper there is one reference per text, the rating is the mean of the aspects, and the
statistic is Pearson's correlation over examples × 100. ROUGE-1 and ROUGE-2 are precision.

The toy painter draws captions of its own grammar and next to nothing of the news: its rows are marked, and show only
that the columns can be computed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from lab.reproductions.beside import Beside, Row, arguments, show
from lab.toy.painter import NAME

from captious.captions import Ragged
from captious.metrics.imagine import KINDS
from captious.models import allow_painter
from captious.options import Resampling, Runtime, using
from captious.study import Ratings, combine_metrics, correlate, open_recipe
from captious.study.metric_agreement.combine import collect_others
from captious.study.recipes import as_recipe
from captious.study.scores import measure

TRANSLATION = {
    "bleu(n=1)": (13.74, 14.71, 16.40),
    "bleu(n=4)": (9.10, 9.15, 11.84),
    "meteor": (13.47, 14.77, 16.80),
    "rouge": (11.40, 11.58, 14.34),
    "cider": (11.82, 11.86, 12.05),
}
SUMMARY = {
    "rouge_n(n=1,value=precision)": (13.66, 16.77, 13.45),
    "rouge_n(n=2,value=precision)": (9.74, 15.71, 11.19),
    "rouge": (13.14, 16.35, 13.17),
}
LABELS = {"bleu(n=1)": "BLEU-1", "bleu(n=4)": "BLEU-4", "meteor": "METEOR", "rouge": "ROUGE-L", "cider": "CIDEr-D"}
LABELS |= {key: f"ROUGE-{key.split('n=')[1][0]} precision" for key in SUMMARY if key.startswith("rouge_n")}


@dataclass(frozen=True)
class Task:
    """A data set, and the published columns of the table that it stands for."""

    folder: str
    what: str
    published: Mapping[str, tuple[float, float, float]]
    """Original, + IE-image, + IE-text&image."""


TASKS = {
    "mlqe-et-en": Task("wmt", "Table 1 (WMT'19 de-en): MLQE-PE et-en", TRANSLATION),
    "wmt21-zh-en": Task("wmt", "Table 1 (WMT'19 de-en): WMT 2021 zh-en", TRANSLATION),
    "newsroom": Task("summarization", "Table 2 (DUC2004): Newsroom", SUMMARY),
    "summeval": Task("summarization", "Table 2 (DUC2004): SummEval, relevance", SUMMARY),
}
TOY = "toy painter"
# A correlation needs three texts.
FEWEST = 3


def keep_first_reference(ratings: Ratings) -> Ratings:
    """Return the ratings with the first reference of each text only."""
    assert ratings.captions is not None
    references = ratings.captions.references
    first = Ragged.of([references[item][:1] for item in range(len(ratings.captions))])
    return replace(ratings, captions=replace(ratings.captions, references=first))


def draw_items(ratings: Ratings, items: int, seed: int = 0) -> Ratings:
    """Return a random sample of the ratings, for painters that take long."""
    if not 0 < items < len(ratings.ids):
        return ratings
    chosen = np.sort(np.random.default_rng(seed).permutation(len(ratings.ids))[:items])
    return ratings.take(chosen)


def original(name: str, task: Task, ratings: Ratings, resampling: Resampling) -> Iterator[Row]:
    """The column *Original*: each metric by itself."""
    study = correlate(ratings, measure(ratings, list(task.published)), recipe=as_recipe(name), resampling=resampling)
    for key, published in task.published.items():
        estimate = study.estimates[study.key(key)]["pearson"]
        yield Row.of(f"{task.what}, {len(ratings.ids):,} texts", LABELS[key], estimate, published[0])


def added(name: str, task: Task, ratings: Ratings, painter: str, weights: str, seeds: int) -> Iterator[Row]:
    """The columns with pictures: the metric plus each variant, ± over seeds, on the texts that have pictures."""
    recipe, toy = as_recipe(name), painter == NAME
    written = [f"imagine(kind={kind},painter={painter},weights={weights})" for kind in KINDS]
    others = collect_others(ratings, written, seeds, recipe=recipe)
    base = measure(ratings, list(task.published))
    drawn = int(min((~np.isnan(score.values)).sum() for score in others))
    if drawn < FEWEST:
        note = f"not run: {drawn} of {len(ratings.ids):,} texts have pictures of {painter}"
        yield Row(f"{task.what}, with pictures", "all metrics", note=note)
        return
    result = combine_metrics(ratings, base, others, recipe=recipe, folds=0, resampling=Resampling(samples=0))
    for one in result.added:
        kind = next(kind for kind in reversed(KINDS) if f"kind={kind}," in f"{one.other},")
        published = task.published[one.metric][1 + KINDS.index(kind)]
        label = f"{LABELS[one.metric]} + IE-{kind}" + (f" ({TOY})" if toy else "")
        note = f"± {100 * one.spread:.1f}; before {100 * one.before:.1f}; {drawn:,} texts have pictures"
        yield Row(f"{task.what}, with pictures", label, 100 * one.after, published=published, note=note)


def main() -> None:
    """Print the table."""
    parser = arguments("imagine-texts", __doc__, "the two smallest data sets, no intervals")
    parser.add_argument("--painter", help=f"a painter, as in a metric's name; {NAME} is the toy")
    parser.add_argument("--weights", default="captious-mini", help="encoder of texts and pictures")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--items", type=int, default=0, help="paint a random sample of so many texts")
    args = parser.parse_args()
    started = time.perf_counter()
    allow_painter(NAME)
    rows: list[Row] = []
    with using(Runtime(device="cpu") if args.painter in (None, NAME) else Runtime()):
        for name, task in TASKS.items():
            folder = Path(args.data) / task.folder
            if args.quick and name not in ("mlqe-et-en", "newsroom"):
                continue
            if not folder.is_dir():
                rows.append(Row(task.what, "all metrics", note=f"not run: no folder {folder.name}"))
                continue
            judged = open_recipe(name, folder)
            assert isinstance(judged, Ratings)
            ratings = keep_first_reference(judged)
            rows += original(name, task, ratings, Resampling(samples=0) if args.quick else Resampling())
            if args.painter is not None:
                some = draw_items(ratings, args.items)
                rows += added(name, task, some, args.painter, args.weights, args.seeds)
    notes = [
        "Published: the paper's own texts and ratings, which were not released; ours: other texts, other raters. The "
        "ratings here are far less noisy. What can be compared is what adding pictures does.",
    ]
    if args.painter == NAME:
        notes.append(
            f"{TOY}: draws scenes of its own grammar; what it draws of these texts says nothing about ImaginE."
        )
    show(Beside("ImaginE, Tables 1 and 2, on public ratings", rows, notes), "imagine-texts", args.out, started)


if __name__ == "__main__":
    main()
