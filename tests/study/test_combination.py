"""Combination studies, length regimes, power, disagreements."""

from dataclasses import replace

import numpy as np
import pytest
from lab.toy import make, write

import captious
from captious.errors import InputError
from captious.options import Resampling
from captious.render import Chart
from captious.render.charts import svg
from captious.study.combine import add
from captious.study.design import Rows
from captious.study.lengths import length_regimes
from captious.study.power import simulate_power
from captious.study.ratings import open_ratings
from captious.study.scores import Scores


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    sample = write(make(items=25), tmp_path_factory.mktemp("sample") / "s", images=False)
    return captious.correlate(
        open_ratings(sample / "ratings.jsonl", sample / "references.json"), "rouge,cider", resampling=Resampling(50)
    )


def made(rng, n=120):
    quality = rng.normal(size=n)
    human = quality + rng.normal(0, 0.5, n)
    return Rows(human, np.arange(n), np.repeat(np.arange(n // 4), 4), n // 4, human), quality


def test_adding_a_metric_before_and_after_over_seeds():
    rng = np.random.default_rng(0)
    rows, quality = made(rng)
    base = Scores("m", "m", quality + rng.normal(size=120))
    seeds = [quality + rng.normal(size=120) for _ in range(5)]
    found = add(rows, [base], {"ie": seeds}, (0.0, 1.0))
    nothing, added = found
    before = np.corrcoef(rows.human, base.values)[0, 1]
    after = [np.corrcoef(rows.human, base.values + seed)[0, 1] for seed in seeds]
    assert nothing.before == nothing.after == pytest.approx(before)
    assert nothing.spread == pytest.approx(0.0, abs=1e-12) and nothing.gain.high == pytest.approx(0.0, abs=1e-12)
    assert added.after == pytest.approx(np.mean(after))
    assert added.spread == pytest.approx(np.std(after, ddof=1))
    assert added.seeds == 5 and 0 < added.gain.low < added.gain.value < added.gain.high
    with pytest.raises(InputError, match="no such statistic"):
        add(rows, [base], {"ie": seeds}, statistic="r")


def test_a_metric_of_a_large_scale_hardly_moves():
    """The paper's tiny ± for CIDEr: something between 0 and 1 is little beside it."""
    rng = np.random.default_rng(1)
    rows, quality = made(rng)
    other = [rng.random(120) for _ in range(5)]
    small = Scores("small", "small", quality + rng.normal(size=120))
    large = Scores("large", "large", 100 * small.values)
    first, second = add(rows, [small, large], {"ie": other}, resampling=Resampling(0))
    assert second.spread < first.spread / 10


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


def test_a_bucket_is_a_study_of_its_captions(study):
    bucket = length_regimes(study, [9]).buckets[1]
    kept = [key for key in study.ids if len(study.ratings.captions[key].candidate.split()) >= 9]
    places = [study.ratings.ids.index(key) for key in kept]
    people = {key: study.ratings.values[place].tolist() for key, place in zip(kept, places, strict=True)}
    cider = next(score for score in study.scores if score.key == "cider")
    values = {"cider": dict(zip(study.ids, cider.values, strict=True))}
    alone = captious.correlate(people, values, resampling=Resampling(0))
    assert bucket.estimates["cider"].value == pytest.approx(alone.estimates["cider"]["tau_b"].value)


def test_a_bucket_too_small_has_no_value_but_a_count(study):
    first = length_regimes(study, [4]).buckets[0]
    assert first.items < 3 and np.isnan(first.estimates["cider"].value)


def test_the_chart_is_svg_with_every_metric(study):
    from xml.etree import ElementTree

    scores = tuple(replace(score, label=f"<{score.label}>") for score in study.scores)
    document = length_regimes(replace(study, scores=scores), [6, 9]).document()
    chart = next(section for section in document.sections if isinstance(section, Chart))
    root = ElementTree.fromstring(svg(chart, standalone=True))
    texts = [element.text for element in root.iter() if element.text]
    assert "<ROUGE-L>" in texts and "<CIDEr-D>" in texts and any("τ-b × 100" in text for text in texts)


@pytest.mark.parametrize("wrong", [{"alike": 2}, {"alike": -0.1}, {"noise": -1}, {"level": 0}, {"level": 1}])
def test_power_refuses_numbers_that_no_study_can_have(wrong):
    with pytest.raises(InputError, match=r"expected alike from 0 to 1 and noise of at least 0|between 0 and 1"):
        level = wrong.pop("level", 0.95)
        simulate_power(0.1, 100, resampling=Resampling(2, level=level), **wrong)


def test_power_grows_with_items_and_its_error_shrinks_as_the_root():
    small, large = (simulate_power(0.03, items, resampling=Resampling(150)) for items in (250, 1000))
    assert small.power < large.power
    assert small.error / large.error == pytest.approx(2.0, rel=0.2)
    assert small.needed == pytest.approx(large.needed, rel=0.4)
    assert large.ratings == 3 * large.needed and large.needed_90 > large.needed
    # At the size for power .8, the difference is 1.96 + 0.84 standard errors.
    assert large.detectable / large.error == pytest.approx(2.8016, abs=1e-3)


@pytest.mark.parametrize(("difference", "items", "message"), [(0.0, 100, "difference of 0"), (0.1, 5, "at least 10")])
def test_power_of_nothing(difference, items, message):
    with pytest.raises(InputError, match=message):
        simulate_power(difference, items)


def test_disagreements_are_the_largest_gaps_in_standing(study):
    worst = study.disagreements(5)["cider"]
    gaps = [abs(row["gap"]) for row in worst]
    assert gaps == sorted(gaps, reverse=True) and len(worst) == 5
    assert all(row["gap"] == pytest.approx(row["metric"] - row["people"]) for row in worst)
