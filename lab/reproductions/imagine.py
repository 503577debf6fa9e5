"""ImaginE: what its tables and figures report, on drawn scenes, beside the published numbers.

    python -m lab.reproductions imagine --quick     # 40 scenes: a minute on two cores, offline
    python -m lab.reproductions imagine             # 200 scenes, some minutes

The paper's data sets are public (DUC2004 and Gigaword by licence); its system outputs, ratings and pictures are not,
so no number can be equal. The toy painter draws captions of its
own grammar, and simulated raters count the facts of that grammar: this shows that the machinery measures what it
should, not how well ImaginE does on real captions. Entity recall also goes the way of a study: pictures, tasks, raters
on the pages of the studio, export, recall.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from lab.reproductions.beside import Beside, Row, arguments, show
from lab.toy import Sample, make, write
from lab.toy.painter import NAME, Drawn, scene_of
from lab.toy.sample import CAPTIONERS
from lab.toy.scenes import KINDS, PERSON_WORDS, SETTINGS, Scene

from captious import CaptionSet
from captious.edits.word_masks import get_universal_tag
from captious.metrics.clip.encoded import compute_reference_cosines
from captious.metrics.imagine import Imagine
from captious.metrics.registry import parse_all
from captious.models import allow_painter
from captious.models.loading import load
from captious.options import Resampling, Runtime, using
from captious.probes.entities import find_entities, read_answers, recall, tasks
from captious.probes.masking import measure_influences
from captious.probes.pictures import paint
from captious.stats.bootstrap import Estimate, compute_observed, draw_bootstrap, estimate
from captious.stats.tests import compute_bootstrap_p
from captious.studio import StudyLog, export_study, new_plan, read_plan, simulate_raters
from captious.study import correlate
from captious.study._design import RatingRows
from captious.study.judgments import Ratings, open_ratings
from captious.study.metric_agreement.combine import add, cross_validate
from captious.study.scores import MetricScores, scores_of

SEEDS, BASES = 5, "bleu(n=4),rouge,cider"
# Texts whose pictures the simulated study shows.
STUDIED = 20
allow_painter(NAME)
VARIANTS = {kind: Imagine(kind=kind, painter=NAME, weights="captious-mini") for kind in ("image", "text&image")}
CONTROL = "captious-mini, texts alone"
COLORS = {color for kind in KINDS.values() for color in kind.colors}
LABELS = {"bleu(n=4)": "BLEU-4", "rouge": "ROUGE-L", "cider": "CIDEr"}
ADDED = {"image": "+ IE-image", "text&image": "+ IE-text&image", CONTROL: f"+ {CONTROL}"}
# Table 1, WMT'19: Pearson × 100 of the metric, with IE-image added, with IE-text&image added.
WMT = {
    "bleu(n=4)": (9.10, 9.15, 11.84),
    "rouge": (11.40, 11.58, 14.34),
    "cider": (11.82, 11.86, 12.05),
}
# Table 7, WMT'19.
ALONE = {"image": 13.8, "text&image": 12.9}
# Table 5, Flickr30k captions.
RECALL = {"dVAE": 88.8, "BigGAN": 41.2, "VQGAN": 87.2, "StableDiffusion": 94.1}
REMOVED = "PROPN and ADJ of DUC2004, as published"
NOT_PUBLIC = "its system outputs, ratings and pictures are not public"
NOTES = (
    "Published: translations (WMT'19, Tables 1 and 7), news (DUC2004, Figure 5), Flickr30k (Table 5); ours: captions "
    "of drawn scenes and simulated raters. The numbers cannot be equal; what can be compared is what adding pictures "
    "does.",
    "± is over the seeds of the pictures, intervals are over scenes or texts. The control adds the same encoder's "
    "cosine of two texts, without any picture; the paper has none. The simulated raters of the studio do not look at "
    "pictures: they say yes to three of four things, and err as their kind does; their row shows that the path works.",
)


def captioners(sample: Sample) -> Iterator[Row]:
    """The four captioners by each variant, ± over seeds, beside their true quality."""
    for kind, metric in VARIANTS.items():
        for name in CAPTIONERS:
            captions = CaptionSet.of(sample.predictions(name), sample.references())
            quality = np.mean([sample.prediction_of(scene, name).verdict.quality for scene in sample.scenes()])
            measurement = metric.measure(captions)
            sd = np.nanmean(metric.seed_values(measurement), axis=0).std(ddof=1)
            note = f"± {100 * sd:.1f}; true quality {100 * quality:.1f}"
            yield Row(f"IE-{kind} × 100 of captioners of known quality", name, 100 * measurement.corpus, note=note)


def agreement(ratings: Ratings) -> Iterator[Row]:
    """Each variant alone (Table 7); metrics before and after adding ImaginE (Table 1); the cross-validated λ."""
    assert ratings.captions is not None
    measurements = [metric.measure(ratings.captions) for metric in (*parse_all(BASES), *VARIANTS.values())]
    scores = [*scores_of(measurements, ratings.ids), _texts_alone(ratings)]
    study = correlate(ratings, scores, resampling=Resampling(samples=0))
    design = study.design
    assert isinstance(design, RatingRows)
    mean = RatingRows(design.mean, np.arange(design.items), design.cluster, design.clusters, design.mean)
    named = {**dict(zip(VARIANTS, study.scores[-3:-1], strict=True)), CONTROL: study.scores[-1]}
    for name, score in named.items():
        pearson = estimate(mean.family("moments", score.oriented), mean.clusters, Resampling())["pearson"]
        note = "the control" if name == CONTROL else _against_control(mean, score, study.scores[-1])
        label = name if name == CONTROL else f"IE-{name}"
        yield Row.of("Table 7, alone, Pearson × 100", label, pearson, ALONE.get(name), note)
    base = [score for score in study.scores if score.key in WMT]
    seeds = [
        list(metric.seed_values(measurement)[ratings.captions.positions(study.ids)].T)
        for metric, measurement in zip(VARIANTS.values(), measurements[-len(VARIANTS) :], strict=True)
    ]
    others = {**dict(zip(VARIANTS, seeds, strict=True)), CONTROL: [study.scores[-1].values]}
    added, chosen = add(mean, base, others), cross_validate(mean, base, others)
    for score in base:
        what = f"Table 1, {LABELS[score.key]}, Pearson × 100"
        pearson = estimate(mean.family("moments", score.oriented), mean.clusters, Resampling())["pearson"]
        yield Row.of(what, LABELS[score.key], pearson, WMT[score.key][0])
        for one in (one for one in added if one.metric == score.key):
            published = WMT[score.key][1 + list(VARIANTS).index(one.other)] if one.other in VARIANTS else None
            gain = f"{100 * one.gain.value:+.1f} ({100 * one.gain.low:+.1f} to {100 * one.gain.high:+.1f})"
            note = f"{_over_seeds(one.spread)}gain {gain}, p = {one.p:.3f}"
            yield Row(what, ADDED[one.other], 100 * one.after, published=published, note=note)
    for one in chosen:
        what = f"{LABELS[one.metric]}, λ by 5-fold cross-validation, held-out Pearson × 100"
        note = f"{_over_seeds(one.spread)}before {100 * one.before:.1f}; λ {one.factor}"
        yield Row(what, ADDED[one.other], 100 * one.after, note=note)


def _over_seeds(spread: float) -> str:
    """Nothing for what has no seeds."""
    return "" if spread != spread else f"± {100 * spread:.1f}; "


def _texts_alone(ratings: Ratings) -> MetricScores:
    """A control that the paper does not have: the same encoder without a picture, the highest cosine of two texts."""
    assert ratings.captions is not None
    values = compute_reference_cosines(ratings.captions, load("captious-mini"), "")
    return MetricScores(CONTROL, CONTROL, values[ratings.captions.positions(ratings.ids)])


def _against_control(mean: RatingRows, score: MetricScores, control: MetricScores) -> str:
    both = [mean.family("moments", one.oriented) for one in (score, control)]
    draws = [part["pearson"] for part in draw_bootstrap(both, mean.clusters, Resampling())]
    values = [compute_observed(one, mean.clusters)["pearson"] for one in both]
    gain = Estimate.of(values[0] - values[1], draws[0] - draws[1])
    p = compute_bootstrap_p(gain.value, draws[0] - draws[1])
    interval = f"{100 * gain.low:+.1f} to {100 * gain.high:+.1f}"
    return f"less the control {100 * gain.value:+.1f} ({interval}), p = {p:.3f}"


def masking(texts: list[str]) -> Iterator[Row]:
    """Figure 5: words taken out of references; colors apart from other adjectives."""

    def grouping(token: str, tag: str) -> str:
        return "ADJ, colors" if token.lower() in COLORS else get_universal_tag(token, tag)

    groups, _, _ = measure_influences(texts, Drawn.of(), load("captious-mini"), SEEDS, Resampling(), grouping=grouping)
    what = "Figure 5, decrease of the similarity without words of a tag, %"
    for group in groups:
        note = f"{group.tokens} words: {', '.join(group.common)}"
        yield Row.of(what, group.group, group.decrease, note=note)
    yield Row(what, REMOVED, published=12.0, note=f"not run: {NOT_PUBLIC}; one number for both, NOUN less")


def entity_recall(texts: list[str]) -> Iterator[Row]:
    """Table 5: a viewer who sees what the drawn scene holds; the same pictures through the studio; the paper's."""
    answers = []
    for text, nouns in zip(texts, find_entities(texts), strict=True):
        for seed in range(SEEDS):
            scene = scene_of(text, seed)
            if scene is not None and nouns:
                visible = _visible(scene)
                answers.append({"painter": "drawn", "text": text, "seen": {noun: noun in visible for noun in nouns}})
    what = "Table 5, entity recall, %"
    yield Row.of(what, "drawn, a viewer who sees the scene", recall(answers).painters["drawn"].recall)
    yield simulated_study(texts[:STUDIED], what)
    for painter, value in RECALL.items():
        yield Row(what, painter, published=value, note="not run: its weights are not at hand")


def simulated_study(texts: list[str], what: str) -> Row:
    """Pictures, tasks, simulated raters on the pages of the studio, export, recall."""
    captions = CaptionSet.of({str(number): text for number, text in enumerate(texts)})
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        paint(captions, VARIANTS["image"], most=len(texts)).save(folder / "gallery")
        rows = tasks(folder / "gallery")
        (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        path = folder / "study.toml"
        text = new_plan(path, template="imagine-entities", tasks=folder / "tasks.jsonl", images=folder / "gallery")
        path.write_text(text, encoding="utf-8")
        log = StudyLog.open(folder / "study.db")
        try:
            raters = 1 + 4 * len(rows) // 40
            simulation = simulate_raters(read_plan(path), log, raters=raters)
            export = export_study(log, folder / "export")
        finally:
            log.close()
        result = recall(read_answers([str(folder / "export" / "answers.jsonl")]))
    (one,) = result.painters.values()
    alpha = f", α {one.agreement.estimate.value:.2f}" if one.agreement is not None else ""
    note = f"{len(rows)} pictures, {len(simulation.bots)} raters, {export.answers} answers"
    return Row.of(what, "drawn, simulated raters in the studio", one.recall, note=note + alpha)


def _visible(scene: Scene) -> set[str]:
    """The nouns that a viewer of a scene would say yes to."""
    words = {word for thing in scene.things for pair in KINDS[thing.kind].words for word in pair}
    words |= {word for thing in scene.things if thing.group for word in PERSON_WORDS[thing.group]}
    return words | {word for phrase in SETTINGS[scene.setting].phrases for word in phrase.split()}


def main() -> None:
    parser = arguments("imagine", __doc__, "40 scenes")
    parser.add_argument("--items", type=int, help="scenes: 200, or 40 with --quick")
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    started = time.perf_counter()
    items = args.items or (40 if args.quick else 200)
    if "CAPTIOUS_HOME" not in os.environ:
        os.environ["CAPTIOUS_HOME"] = tempfile.mkdtemp()
    sample = make(items=items, seed=args.seed)
    texts = [text for scene in sample.scenes() for text in sample.references_of(scene, 2)]
    with tempfile.TemporaryDirectory() as folder:
        path = write(sample, Path(folder) / "s", images=False)
        ratings = open_ratings(path / "ratings.jsonl", path / "references.json")
    with using(Runtime(device="cpu")):
        rows = [*agreement(ratings), *captioners(sample), *masking(texts), *entity_recall(texts)]
    rows += [Row("Tables 2, 3, 4 and 6", "summaries, stories, other painters", note=f"not run: {NOT_PUBLIC}")]
    about = f"{items} scenes of seed {args.seed}, the toy painter, captious-mini, {SEEDS} seeds."
    show(
        Beside("ImaginE, Tables 1, 5, 7 and Figure 5, on drawn scenes", rows, (about, *NOTES)),
        "imagine",
        args.out,
        started,
    )


if __name__ == "__main__":
    main()
