"""Length regimes: buckets of captions, each a study of its own."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from lab.toy import make, write

import captious
from captious.errors import InputError
from captious.options import Reading, Resampling
from captious.render import Chart
from captious.render._charts import draw_chart
from captious.study.judgments import open_ratings
from captious.study.load import load_ratings
from captious.study.metric_agreement.lengths import length_regimes
from captious.study.study_options import StudyInput


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    sample = write(make(items=25), tmp_path_factory.mktemp("sample") / "s", images=False)
    return captious.correlate(
        open_ratings(sample / "ratings.jsonl", sample / "references.json"), "rouge,cider", resampling=Resampling(50)
    )


def test_length_buckets_partition_the_captions(study):
    buckets = length_regimes(study, [6, 9]).buckets
    assert sum(bucket.items for bucket in buckets) == study.design.items
    assert sum(bucket.rows for bucket in buckets) == len(study.design.human)
    words = [len(study.ratings.captions[key].candidate.split()) for key in study.ids]
    assert [bucket.items for bucket in buckets] == [
        sum(word < 6 for word in words),
        sum(6 <= word < 9 for word in words),
        sum(word >= 9 for word in words),
    ]
    assert 2 <= len(length_regimes(study).buckets) <= 4


def test_words_are_tokens_of_the_language(tmp_path):
    texts = ["一只小狗。", "狗", "猫", "一只猫在桌上", "鸟在飞", "一条鱼"]
    rows = [
        {"image": str(place), "caption": text, "references": ["一只狗"], "rating": place % 3}
        for place, text in enumerate(texts)
    ]
    (tmp_path / "zh.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    ratings = load_ratings(StudyInput(str(tmp_path / "zh.jsonl")), Reading(language="zh"))[0]
    buckets = length_regimes(captious.correlate(ratings, "rouge", resampling=Resampling(0)), [3]).buckets
    assert [(bucket.low, bucket.high, bucket.items) for bucket in buckets] == [(1, 3, 2), (3, 7, 4)]


def test_rows_that_were_left_out_are_counted_below_the_table(tmp_path):
    rows = [
        {
            "image": str(place),
            "caption": f"a dog{' runs' * place}",
            "references": ["a dog"],
            "rating": place % 3,
            "rater": "r1",
        }
        for place in range(6)
    ]
    (tmp_path / "twice.jsonl").write_text("\n".join(json.dumps(row) for row in [*rows, rows[0]]))
    study = captious.correlate(open_ratings(tmp_path / "twice.jsonl"), "rouge", resampling=Resampling(0))
    assert any(note.startswith("left out: 1 ") for note in length_regimes(study).document().notes)


def test_what_is_no_study_and_what_is_no_length_are_refused(study):
    with pytest.raises(InputError, match=r"^study: str, expected a study, which captious.correlate returns$"):
        length_regimes("ratings.jsonl")
    for edges in (8, ["8"], "8,12"):
        with pytest.raises(InputError, match=r"^edges: .*, expected lengths in words, such as \[8, 12\]$"):
            length_regimes(study, edges)


def test_a_bucket_is_a_study_of_its_captions(study):
    bucket = length_regimes(study, [9]).buckets[1]
    long = [key for key in study.ids if len(study.ratings.captions[key].candidate.split()) >= 9]
    indices = [study.ratings.ids.index(key) for key in long]
    people = {key: study.ratings.values[index].tolist() for key, index in zip(long, indices, strict=True)}
    cider = next(score for score in study.scores if score.key == "cider")
    values = {"cider": dict(zip(study.ids, cider.values, strict=True))}
    alone = captious.correlate(people, values, resampling=Resampling(0))
    assert bucket.estimates["cider"].value == pytest.approx(alone.estimates["cider"]["tau_b"].value)


def test_a_bucket_too_small_has_no_value_but_a_count(study):
    first = length_regimes(study, [4]).buckets[0]
    assert first.items < 3 and np.isnan(first.estimates["cider"].value)


def test_the_chart_is_svg_with_every_metric(study):
    scores = tuple(replace(score, label=f"<{score.label}>") for score in study.scores)
    document = length_regimes(replace(study, scores=scores), [6, 9]).document()
    chart = next(section for section in document.sections if isinstance(section, Chart))
    root = ElementTree.fromstring(draw_chart(chart))
    texts = [element.text for element in root.iter() if element.text]
    assert "<ROUGE-L>" in texts and "<CIDEr-D>" in texts and any("τ-b × 100" in text for text in texts)
