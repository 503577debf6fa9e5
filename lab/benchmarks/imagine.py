"""ImaginE: what it shows on drawn scenes, and how fast pictures are painted and scored.

    python lab/benchmarks/imagine.py drawn                       # the tables of docs/imagine.md, offline, some minutes
    python lab/benchmarks/imagine.py warm                        # 10,000 pairs from a warm cache
    python lab/benchmarks/imagine.py speed                       # on a GPU: Stable Diffusion 1's shapes, random weights
    python lab/benchmarks/imagine.py speed --tiny --device cpu   # the same code on a toy, to see that it runs

`drawn` draws captions of the sample's own grammar, and the simulated raters count the facts of that grammar: so it
shows that the machinery measures what it should, not how well ImaginE does on real captions.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from imagine_speed import PICTURES, speed
from lab.toy import Sample, make, write
from lab.toy.painter import NAME, Drawn
from lab.toy.sample import CAPTIONERS
from lab.toy.scenes import KINDS
from measure import table

from captious import CaptionSet
from captious.metrics.clip.encoded import to_references
from captious.metrics.imagine import Imagine, likeness
from captious.metrics.registry import parse_all
from captious.models._segments import Space, as_keys
from captious.models.encoder import Tokens
from captious.models.features import text_features
from captious.models.loading import load
from captious.models.painters import Wish, wish_key
from captious.models.store import close_stores, open_store
from captious.options import Resampling, Runtime, using
from captious.probes.masking import influences, universal
from captious.stats.bootstrap import Estimate, bootstrap, estimate, observed
from captious.stats.tests import bootstrap_p
from captious.study.combine import Combination, add, cross_validate
from captious.study.design import Rows
from captious.study.ratings import Ratings, open_ratings
from captious.study.scores import Scores, scores_of
from captious.study.study import correlate

SEEDS, BASES = 5, "bleu(n=4),rouge,cider"
KIND = {kind: Imagine(kind=kind, painter=NAME, weights="captious-mini") for kind in ("image", "text&image")}
COLORS = {color for kind in KINDS.values() for color in kind.colors}


def drawn(items: int, seed: int) -> None:
    """Every must-show of drawn scenes."""
    sample = make(items=items, seed=seed)
    print(f"{items} scenes of seed {seed}, painter drawn, encoder captious-mini, {SEEDS} seeds\n")
    _ranked(sample)
    with tempfile.TemporaryDirectory() as folder:
        place = write(sample, Path(folder) / "s", images=False)
        ratings = open_ratings(place / "ratings.jsonl", place / "references.json")
    _agreement(ratings)
    _masked(sample)


def _ranked(sample: Sample) -> None:
    """The four captioners by each variant, mean ± sd over seeds, beside their known quality."""
    rows = []
    for name in CAPTIONERS:
        captions = CaptionSet.of(sample.predictions(name), sample.references())
        quality = np.mean([sample.prediction_of(scene, name).verdict.quality for scene in sample.scenes()])
        cells = [name, f"{quality:.3f}"]
        for metric in KIND.values():
            found = metric.measure(captions)
            by_seed = np.nanmean(metric.seed_values(found), axis=0)
            cells.append(f"{found.corpus:.3f} ± {by_seed.std(ddof=1):.3f}")
        rows.append(cells)
    print(table([["captioner", "known quality", "IE-image", "IE-text&image"], *rows]), "\n")


def _agreement(ratings: Ratings) -> None:
    """Each metric alone with an interval; then before and after adding, with the test and the cross-validated λ."""
    assert ratings.captions is not None
    measured = [metric.measure(ratings.captions) for metric in (*parse_all(BASES), *KIND.values())]
    scores = scores_of(measured, ratings.ids)
    scores.append(_texts_alone(ratings))
    made = correlate(ratings, scores, resampling=Resampling(samples=0))
    assert isinstance(made.design, Rows)
    mean = Rows(
        made.design.mean, np.arange(made.design.items), made.design.cluster, made.design.clusters, made.design.mean
    )
    rows = []
    for score in made.scores:
        cells = [score.key]
        for family, name in (("moments", "pearson"), ("kendall", "tau_b"), ("within", "sample_tau")):
            statistic = mean.family(family, score.oriented)
            one = estimate(statistic, mean.clusters, Resampling())[name]
            cells.append(f"{100 * one.value:.1f} ({100 * one.low:.1f} – {100 * one.high:.1f})")
        rows.append(cells)
    control = mean.family("moments", made.scores[-1].oriented)
    for score in (one for one in made.scores if one.key.startswith("imagine")):
        both = [mean.family("moments", score.oriented), control]
        drawn_, alone = (part["pearson"] for part in bootstrap(both, mean.clusters, Resampling()))
        seen, base = (observed(one, mean.clusters)["pearson"] for one in both)
        one = Estimate.of(seen - base, drawn_ - alone)
        p = bootstrap_p(one.value, drawn_ - alone)
        told = f"{100 * one.value:+.1f} ({100 * one.low:.1f} – {100 * one.high:.1f}), p = {p:.3f}"
        print(f"{score.key} less {CONTROL}, Pearson: {told}")
    print(f"agreement with the mean rating of {mean.items} captions, × 100, 95 % intervals over scenes")
    print(table([["metric", "Pearson", "τ-b", "τ-b within a scene"], *rows]), "\n")
    base = [one for one in made.scores if not one.key.startswith("imagine") and one.key != CONTROL]
    others = {}
    for key, found in zip(KIND, measured[-len(KIND) :], strict=True):
        columns = KIND[key].seed_values(found)[ratings.captions.positions(made.ids)]
        others[f"IE-{key}"] = list(columns.T)
    others["texts alone"] = [next(one.values for one in made.scores if one.key == CONTROL)]
    added, chosen = add(mean, base, others), cross_validate(mean, base, others)
    print(Combination(ratings.name, tuple(added), tuple(chosen), Resampling()), "\n")


CONTROL = "captious-mini, texts alone"


def _texts_alone(ratings: Ratings) -> Scores:
    """The same encoder without a picture: the highest cosine of the caption with a reference."""
    assert ratings.captions is not None
    values = to_references(ratings.captions, load("captious-mini"), "")
    place = {key: number for number, key in enumerate(ratings.captions.ids)}
    return Scores(CONTROL, CONTROL, np.array([values[place[key]] for key in ratings.ids]))


def _masked(sample: Sample) -> None:
    """Part-of-speech masking of references, colors apart from other adjectives."""

    def grouping(token: str, tag: str) -> str:
        return "ADJ, colors" if token.lower() in COLORS else universal(token, tag)

    texts = [text for scene in sample.scenes() for text in sample.references_of(scene, 2)]
    mini = load("captious-mini")
    found, base, unpainted = influences(texts, Drawn.of(), mini, SEEDS, Resampling(), grouping=grouping)
    rows = [
        [
            one.group,
            ", ".join(one.common),
            str(one.tokens),
            f"{100 * one.decrease.value:.2f} ({100 * one.decrease.low:.2f} – {100 * one.decrease.high:.2f})",
        ]
        for one in found
    ]
    print(f"words taken out of {len(texts)} references; baseline cosine {np.nanmean(base):.4f}; unpainted {unpainted}")
    print(table([["tag", "frequent words", "words", "decrease, % of the baseline"], *rows]), "\n")


class _Stored:
    """Painter and encoder of CLIP ViT-B/32's width whose vectors are random and already stored; painting fails."""

    name, fingerprint, settings, shape, kept = "stored", "feedfeedfeed", "size=512", (512, 512, 3), True
    precision, dimension, limit = "fp32", 512, 77

    def cut(self, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
        return np.zeros(len(texts), np.bool_)

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        return Tokens(np.zeros((len(texts), 2), np.int64), np.full(len(texts), 2))

    def text_features(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        return np.random.default_rng(0).normal(size=(len(ids), self.dimension)).astype(np.float32)

    def paint(self, wishes: Sequence[Wish]) -> None:
        raise AssertionError("a warm cache paints nothing")


def warm(pairs: int) -> None:
    """Scoring pairs of different texts from vectors on disk: nothing is painted, encoded or kept in memory."""
    texts = [f"text number {number}" for number in range(2 * pairs)]
    captions = CaptionSet.of(
        dict(enumerate(texts[:pairs])), {place: [text] for place, text in enumerate(texts[pairs:])}
    )
    stored: Any = _Stored()
    store = open_store(Space(stored.name, stored.fingerprint, f"painted-{stored.fingerprint}", (stored.dimension,)))
    rng, seeds = np.random.default_rng(1), tuple(range(SEEDS))
    keys = as_keys(wish_key(Wish(text, seed)) for text in texts for seed in seeds)
    rows = rng.normal(size=(len(keys), stored.dimension)).astype(np.float32)
    store.put(keys, rows / np.linalg.norm(rows, axis=1, keepdims=True))
    store.settle()
    text_features(stored, texts)
    times = []
    for kind in ("image", "text&image"):
        close_stores()
        start = time.perf_counter()
        found = likeness(captions, captions.references, stored, stored, kind, (seeds, seeds))
        times.append([kind, f"{time.perf_counter() - start:.2f} s"])
        assert not np.isnan(found.values).any()
    print(f"{pairs:,} pairs of different texts, {SEEDS} seeds, {stored.dimension} numbers each, {os.cpu_count()} cores")
    print(table([["kind", "time"], *times]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("drawn", "warm", "speed"))
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--ways", default="", help=f"of speed, such as batch,compiled; there are {', '.join(PICTURES)}")
    options = parser.parse_args()
    if "CAPTIOUS_HOME" not in os.environ:
        os.environ["CAPTIOUS_HOME"] = tempfile.mkdtemp()
    if options.what == "speed":
        speed(options.device, options.tiny, options.texts, options.steps, options.ways)
        return
    with using(Runtime(device="cpu", log=print)):
        drawn(options.items, options.seed) if options.what == "drawn" else warm(options.pairs)


if __name__ == "__main__":
    main()
