"""Numbers that others have published, on the data they were published for."""

import json

import numpy as np
import pytest
from scipy.stats import kendalltau

from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.io.read import read
from captious.options import Resampling


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("captions", "expected"),
    [
        # README of jmhessel/clipscore: BLEU-1..4, ROUGE-L, CIDEr of its two example files.
        ("good_captions.json", [0.6667, 0.4899, 0.3469, 0.0000, 0.4280, 0.5637]),
        ("bad_captions.json", [0.4815, 0.2404, 0.1359, 0.0000, 0.3121, 0.2790]),
    ],
)
def test_the_example_of_clipscore(shared_data, captions, expected):
    folder = shared_data / "clipscore_example"
    report = evaluate(read(folder / captions, references=folder / "refs.json"), "bleu,rouge,cider")
    assert [round(measurement.corpus, 4) for measurement in report] == expected


@pytest.fixture(scope="module")
def expert(shared_data):
    """Flickr8k-Expert as one set: 5,664 pairs once those whose caption belongs to the image are dropped."""
    references = {}
    with (shared_data / "flickr8k" / "captions.jsonl").open() as lines:
        for row in map(json.loads, lines):
            references[row["id"]] = row["references"]
    with (shared_data / "flickr8k" / "expert.jsonl").open() as lines:
        rows = [json.loads(line) for line in lines]
    assert len(rows) == 5822
    rows = [row for row in rows if row["caption_of"].split("#")[0] != row["image"]]
    assert len(rows) == 5822 - 158
    candidates = {str(number): row["caption"] for number, row in enumerate(rows)}
    captions = CaptionSet.of(candidates, {str(number): references[row["image"]] for number, row in enumerate(rows)})
    return captions, np.array([row["ratings"] for row in rows])


@pytest.mark.shared_data
def test_flickr8k_expert(expert):
    """Kendall's tau-c over 16,992 ratings as pycocoevalcap 1.2 gives it (and as published: 32.3, 30.8, 32.3, 43.9)."""
    captions, ratings = expert
    report = evaluate(captions, "bleu,rouge,cider", resampling=Resampling(samples=0))
    taus = {
        measurement.metric.label: 100
        * kendalltau(np.repeat(measurement.values, 3), ratings.ravel(), variant="c").statistic
        for measurement in report
    }
    assert ratings.size == 16992
    assert taus["BLEU-1"] == pytest.approx(32.32, abs=0.02)
    assert taus["BLEU-4"] == pytest.approx(30.78, abs=0.02)
    assert taus["ROUGE-L"] == pytest.approx(32.31, abs=0.02)
    assert taus["CIDEr-D"] == pytest.approx(43.88, abs=0.02)
