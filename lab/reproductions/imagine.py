"""ImaginE: what its tables and figures report, on drawn scenes, beside the published numbers.

    PYTHONPATH=. python lab/reproductions/imagine.py                # 200 scenes, some minutes on a CPU, offline
    PYTHONPATH=. python lab/reproductions/imagine.py --items 20     # to see that it runs

The paper's texts, ratings and pictures are not public, so no number can be equal. The toy painter draws captions of its
own grammar, and simulated raters count the facts of that grammar: this shows that the machinery measures what it
should, not how well ImaginE does on real captions.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from lab.toy import Sample, make, write
from lab.toy.painter import NAME, Drawn, scene_of
from lab.toy.sample import CAPTIONERS
from lab.toy.scenes import KINDS, PERSON_WORDS, SETTINGS, Scene

from captious import CaptionSet
from captious.metrics.clip.encoded import to_references
from captious.metrics.imagine import Imagine
from captious.metrics.registry import parse_all
from captious.models.loading import load
from captious.options import Resampling, Runtime, using
from captious.probes.entities import entities, recall
from captious.probes.masking import influences, universal
from captious.render import Cell, Column, Document, Section, Table, Text
from captious.render.terminal import print_document
from captious.stats.bootstrap import Estimate, bootstrap_draws, estimate, observed
from captious.stats.tests import bootstrap_p
from captious.study import correlate
from captious.study.combine import add, cross_validate
from captious.study.design import Rows
from captious.study.ratings import Ratings, open_ratings
from captious.study.scores import Scores, scores_of

SEEDS, BASES = 5, "bleu(n=4),rouge,cider"
VARIANTS = {kind: Imagine(kind=kind, painter=NAME, weights="captious-mini") for kind in ("image", "text&image")}
CONTROL = "captious-mini, texts alone"
COLORS = {color for kind in KINDS.values() for color in kind.colors}
WMT = {
    "bleu(n=4)": ("9.10", "9.15", "11.84"),
    "rouge": ("11.40", "11.58", "14.34"),
    "cider": ("11.82", "11.86", "12.05"),
}
"""Table 1, WMT'19: Pearson × 100 of the metric, with IE-image added, with IE-text&image added."""
RECALL = {"dVAE": 88.8, "BigGAN": 41.2, "VQGAN": 87.2, "StableDiffusion": 94.1}
"""Table 5, Flickr30k captions."""
FIGURE_5 = "12 for PROPN and for ADJ, less for NOUN (DUC2004, news)"


def captioners(sample: Sample) -> Table:
    """The four captioners by each variant, mean ± sd over seeds, beside their true quality."""
    rows = []
    for name in CAPTIONERS:
        captions = CaptionSet.of(sample.predictions(name), sample.references())
        quality = np.mean([sample.prediction_of(scene, name).verdict.quality for scene in sample.scenes()])
        cells = []
        for metric in VARIANTS.values():
            measurement = metric.measure(captions)
            by_seed = np.nanmean(metric.seed_values(measurement), axis=0)
            cells.append(Cell(measurement.corpus, sd=float(by_seed.std(ddof=1))))
        rows.append((name, float(quality), *cells))
    columns = ("captioner", *(Column(name, decimals=3) for name in ("true quality", "IE-image", "IE-text&image")))
    return Table("captioners", "Captioners of known quality", columns, rows, "± is over seeds")


def agreement(ratings: Ratings) -> Iterator[Section]:
    """Each metric alone; then before and after adding ImaginE, as in Tables 1 to 3; then the cross-validated λ."""
    assert ratings.captions is not None
    measurements = [metric.measure(ratings.captions) for metric in (*parse_all(BASES), *VARIANTS.values())]
    scores = [*scores_of(measurements, ratings.ids), _texts_alone(ratings)]
    study = correlate(ratings, scores, resampling=Resampling(samples=0))
    design = study.design
    assert isinstance(design, Rows)
    mean = Rows(design.mean, np.arange(design.items), design.cluster, design.clusters, design.mean)
    families = (("moments", "pearson"), ("kendall", "tau_b"), ("within", "sample_tau"))
    rows = [
        (
            score.key,
            *(
                Cell.of(estimate(mean.family(family, score.oriented), mean.clusters, Resampling())[name])
                for family, name in families
            ),
        )
        for score in study.scores
    ]
    columns = ("metric", *(Column(name, decimals=1, scale=100) for name in ("Pearson", "τ-b", "τ-b within a scene")))
    yield Table("agreement", f"Agreement with the mean rating of {mean.items} captions, × 100", columns, rows)
    yield Text([_against_control(mean, score, study.scores[-1]) for score in study.scores if "imagine" in score.key])
    base = [score for score in study.scores if "imagine" not in score.key and score.key != CONTROL]
    seeds = [
        list(metric.seed_values(measurement)[ratings.captions.positions(study.ids)].T)
        for metric, measurement in zip(VARIANTS.values(), measurements[-len(VARIANTS) :], strict=True)
    ]
    others = {**dict(zip(VARIANTS, seeds, strict=True)), CONTROL: [study.scores[-1].values]}
    yield _added(add(mean, base, others))
    chosen = [
        (one.metric, one.other, one.factor, one.before, Cell(one.after, sd=one.spread))
        for one in cross_validate(mean, base, others)
    ]
    columns = (
        "metric",
        "added",
        Column("best λ", decimals=None),
        *(_hundredfold(name) for name in ("before", "after")),
    )
    yield Table("chosen", "λ chosen by 5-fold cross-validation over scenes, held-out Pearson × 100", columns, chosen)


def _added(added: Any) -> Table:
    rows = []
    for one in added:
        published = WMT[one.metric]
        index = 1 + list(VARIANTS).index(one.other) if one.other in VARIANTS else None
        after, gain = Cell(one.after, sd=one.spread), Cell.of(one.gain)
        rows.append(
            (
                one.metric,
                one.other,
                one.before,
                after,
                gain,
                one.p,
                *((published[0], published[index]) if index else ("", "")),
            )
        )
    columns = (
        "metric",
        "added",
        _hundredfold("before"),
        _hundredfold("after"),
        _hundredfold("gain"),
        Column("p", "p"),
        "paper, before",
        "paper, after",
    )
    return Table("added", "Pearson × 100 before and after adding (Table 1, WMT'19)", columns, rows, "± is over seeds")


def _hundredfold(name: str) -> Column:
    return Column(name, decimals=1, scale=100)


def _texts_alone(ratings: Ratings) -> Scores:
    """A control that the paper does not have: the same encoder without a picture, the highest cosine of two texts."""
    assert ratings.captions is not None
    values = to_references(ratings.captions, load("captious-mini"), "")
    return Scores(CONTROL, CONTROL, values[ratings.captions.positions(ratings.ids)])


def _against_control(mean: Rows, score: Scores, control: Scores) -> str:
    both = [mean.family("moments", one.oriented) for one in (score, control)]
    draws = [part["pearson"] for part in bootstrap_draws(both, mean.clusters, Resampling())]
    values = [observed(one, mean.clusters)["pearson"] for one in both]
    gain = Estimate.of(values[0] - values[1], draws[0] - draws[1])
    p = bootstrap_p(gain.value, draws[0] - draws[1])
    interval = f"{100 * gain.low:.1f} – {100 * gain.high:.1f}"
    return f"{score.key} less {CONTROL}, Pearson × 100: {100 * gain.value:+.1f} ({interval}), p = {p:.3f}"


def masking(texts: list[str]) -> Table:
    """Figure 5: words taken out of references; colors apart from other adjectives."""

    def grouping(token: str, tag: str) -> str:
        return "ADJ, colors" if token.lower() in COLORS else universal(token, tag)

    rows, baseline, unpainted = influences(
        texts, Drawn.of(), load("captious-mini"), SEEDS, Resampling(), grouping=grouping
    )
    return Table(
        "masking",
        f"Words taken out of {len(texts)} references (Figure 5)",
        ("tag", "frequent words", Column("words"), Column("decrease, %", decimals=2, scale=100)),
        [(row.group, ", ".join(row.common), row.tokens, Cell.of(row.decrease)) for row in rows],
        f"baseline cosine {np.nanmean(baseline):.4f}; unpainted {unpainted}; the paper: {FIGURE_5}",
    )


def entity_recall(texts: list[str]) -> Table:
    """Table 5: a simulated rater sees what the drawn scene holds."""
    answers = []
    for text, nouns in zip(texts, entities(texts), strict=True):
        for seed in range(SEEDS):
            scene = scene_of(text, seed)
            if scene is not None and nouns:
                visible = _visible(scene)
                answers.append({"painter": "drawn", "text": text, "seen": {noun: noun in visible for noun in nouns}})
    ours = recall(answers).painters["drawn"].recall
    column = Column("entity recall, %", decimals=1)
    rows: list[Any] = [("drawn, simulated rater", Cell(100 * ours.value, 100 * ours.low, 100 * ours.high))]
    rows += [(f"{painter}, paper", value) for painter, value in RECALL.items()]
    return Table("recall", f"Entity recall of {len(texts)} references (Table 5)", ("painter", column), rows)


def _visible(scene: Scene) -> set[str]:
    """The nouns that a viewer of a scene would say yes to."""
    words = {word for thing in scene.things for pair in KINDS[thing.kind].words for word in pair}
    words |= {word for thing in scene.things if thing.group for word in PERSON_WORDS[thing.group]}
    return words | {word for phrase in SETTINGS[scene.setting].phrases for word in phrase.split()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    if "CAPTIOUS_HOME" not in os.environ:
        os.environ["CAPTIOUS_HOME"] = tempfile.mkdtemp()
    sample = make(items=options.items, seed=options.seed)
    texts = [text for scene in sample.scenes() for text in sample.references_of(scene, 2)]
    with tempfile.TemporaryDirectory() as folder:
        path = write(sample, Path(folder) / "s", images=False)
        ratings = open_ratings(path / "ratings.jsonl", path / "references.json")
    title = f"{options.items} scenes of seed {options.seed}, the toy painter, captious-mini, {SEEDS} seeds"
    with using(Runtime(device="cpu", log=print)):
        sections = [captioners(sample), *agreement(ratings), masking(texts), entity_recall(texts)]
    print_document(Document(title, sections=sections))


if __name__ == "__main__":
    main()
