import math

import numpy as np
import pytest
from lab.toy import make

import captious
from captious.captions import CaptionSet
from captious.evaluation import evaluate, evaluate_shards


@pytest.fixture(scope="module")
def captions():
    sample = make(items=30)
    candidates = {scene.id: sample.prediction_of(scene, "solid").text for scene in sample.scenes()}
    return CaptionSet.of(candidates, sample.references())


def test_the_example_of_the_readme(captions):
    report = captious.evaluate(captions, ["bleu", "rouge", "cider(idf=refs)"])
    assert [measurement.metric.label for measurement in report] == [
        "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr-D",
    ]  # fmt: skip
    assert report["cider"].corpus == pytest.approx(np.mean(list(report["cider"].items.values())))
    assert report["cider"].items[captions.ids[3]] == report["CIDEr-D"].values[3]
    assert str(report["cider"].signature).startswith("cider|tok:ptb.1")
    assert report["bleu"] is report["bleu(n=4)"] is report["BLEU-4"]
    frame = report.to_pandas()
    assert frame.index.name == "id" and list(frame.columns)[-1] == "cider"
    assert frame.loc[captions.ids[0], "rouge"] == report["rouge"].values[0]


def test_a_metric_that_was_not_measured_is_named(captions):
    with pytest.raises(KeyError, match="'div' was not measured, only rouge"):
        evaluate(captions, "rouge")["div"]


def test_intervals_hold_the_value_and_their_seed_is_in_the_signature(captions):
    report = evaluate(captions, "bleu,cider", samples=300, seed=9)
    for key, measurement in report.measurements.items():
        assert report.intervals[key].low < measurement.corpus < report.intervals[key].high
        assert "ci:bootstrap(300,seed=9,95%)" in report.signature(key)


def test_without_samples_there_are_no_intervals(captions):
    report = evaluate(captions, "rouge", samples=0)
    assert report.intervals == {} and "ci:" not in report.signature("rouge")


def test_shards_are_scored_as_one_set(captions):
    shards = [captions.take(range(10)), captions.take(range(10, 30))]
    measurements, intervals = evaluate_shards(shards, "bleu,cider,vocabulary")
    whole = evaluate(captions, "bleu,cider,vocabulary")
    for key, measurement in whole.measurements.items():
        assert measurements[key].corpus == pytest.approx(measurement.corpus, abs=1e-12)
        assert str(measurements[key].signature) == str(measurement.signature)
    assert intervals["cider"].low == pytest.approx(whole.intervals["cider"].low, abs=1e-9)


def test_progress_names_each_step(captions):
    seen = []
    evaluate(captions, "rouge,cider", progress=seen.append)
    assert seen == ["ROUGE-L", "CIDEr-D", "intervals"]


def test_numbers_that_mislead_are_said():
    one = CaptionSet.of({"1": "a cat"}, {"1": ["a cat sits", "the cat"]})
    assert any("CIDEr with an idf of one item is 0" in warning for warning in evaluate(one, "cider").warnings)
    assert not evaluate(one, "rouge").warnings


def test_swapped_ids_are_smelt(captions):
    order = [*range(1, len(captions)), 0]
    shifted = CaptionSet.of(
        {key: captions.candidates[other][0] for key, other in zip(captions.ids, order, strict=True)},
        {key: captions.references[index] for index, key in enumerate(captions.ids)},
    )
    assert any("do the ids belong together?" in warning for warning in evaluate(shifted, "rouge").warnings)
    assert not any("do the ids belong together?" in warning for warning in evaluate(captions, "rouge").warnings)


def test_unscored_items_are_said():
    captions = CaptionSet.of({"1": ["a", "b"], "2": "c"}, {"1": ["a"], "2": ["c"]})
    report = evaluate(captions, "lsa")
    assert math.isnan(report["lsa"].items["2"])
    assert any(
        "LSA diversity: items without a value: 1 × one candidate, needs several" in text for text in report.warnings
    )
