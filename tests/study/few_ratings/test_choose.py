"""`study.choose`, `study.plan` and `study.find_threshold`."""

import json
from itertools import pairwise

import numpy as np
import pytest

from captious.errors import InputError
from captious.study import choose, estimate, find_threshold, plan


def make_captions(images=100, seed=1):
    random = np.random.default_rng(seed)
    return [
        {"id": str(image), "system": name, "metric": random.normal() + image / 50}
        for image in range(images)
        for name in "ab"
    ]


def rate_items(captions, rows, seed=2):
    """Return ratings of the captions of drawn items, which carry how they were drawn."""
    random = np.random.default_rng(seed)
    drawn = {row["id"]: row for row in rows}
    return [
        {"id": one["id"], "system": one["system"], "rating": round(float(np.clip(3 + one["metric"], 1, 5)))}
        | {key: drawn[one["id"]][key] for key in ("probability", "stratum", "batch")}
        | {"noise": float(random.normal())}
        for one in captions
        if one["id"] in drawn
    ]


def test_images_are_drawn_in_strata_with_their_probability():
    captions = make_captions()
    drawn = choose(captions, 20, using="metric")
    assert [(one.images, one.drawn, one.probability) for one in drawn.strata] == [(20, 4, 0.2)] * 5
    assert len(drawn.rows) == 20 and drawn.captions == 40 and {row["batch"] for row in drawn.rows} == {1}
    means = {}
    for row in captions:
        means[row["id"]] = means.get(row["id"], 0) + row["metric"] / 2
    by_stratum = [[means[row["id"]] for row in drawn.rows if row["stratum"] == str(one)] for one in range(1, 6)]
    assert all(max(low) < min(high) for low, high in pairwise(by_stratum))
    assert [row["stratum"] for row in drawn.rows] != sorted(row["stratum"] for row in drawn.rows)
    assert choose(captions[::-1], 20, using="metric").rows == drawn.rows
    assert str(drawn).splitlines()[1].startswith("Rate 20 of 100 images next, drawn in 5 strata of metric: 40 captions")


def test_a_later_batch_follows_and_the_chances_add_up(tmp_path):
    captions = make_captions()
    first = choose(captions, 20, using="metric")
    ratings = rate_items(captions, first.rows)
    second = choose(captions, 30, using="metric", ratings=ratings)
    assert not {row["id"] for row in first.rows} & {row["id"] for row in second.rows}
    assert {row["batch"] for row in second.rows} == {2} and {row["probability"] for row in second.rows} == {0.5}
    whole = choose(captions, 50, using="metric")
    assert {row["id"] for row in whole.rows} == {row["id"] for row in (*first.rows, *second.rows)}
    both = [*ratings, *rate_items(captions, second.rows)]
    assert estimate(both, captions, using="metric").warnings == ()
    second.write(tmp_path / "next.jsonl")
    assert json.loads((tmp_path / "next.jsonl").read_text().splitlines()[0]) == second.rows[0]
    with pytest.raises(InputError, match=r"already exists|exists"):
        second.write(tmp_path / "next.jsonl")


def test_neyman_draws_more_where_ratings_vary_more():
    captions = make_captions()
    first = choose(captions, 50, using="metric")
    ratings = [
        {**row, "rating": row["rating"] if row["stratum"] == "3" else 3} for row in rate_items(captions, first.rows)
    ]
    drawn = choose(captions, 20, using="metric", ratings=ratings, allocation="neyman")
    assert drawn.strata[2].drawn == max(one.drawn for one in drawn.strata) > 4
    with pytest.raises(InputError, match="needs ratings so far"):
        choose(captions, 20, allocation="neyman")


def test_too_many_images_are_refused():
    with pytest.raises(InputError, match="next=101: expected at most the 100 images"):
        choose(make_captions(), 101)
    with pytest.raises(InputError, match="no captions"):
        choose((), 1)


def test_plan_without_a_pilot():
    planned = plan(0.96, 0.1, r=0.6)
    assert (planned.without, planned.using) == (357, 231)
    answer = planned.document().answer_text
    assert "rate 357 captions, or 231 with an auxiliary metric that correlates with ratings at 0.6" in answer
    for wrong in ({"sd": 0, "precision": 1}, {"sd": 1, "precision": 0}, {"sd": 1, "precision": 0.1, "r": 1}):
        with pytest.raises(InputError):
            plan(**wrong)


def make_rated(images=80):
    """A caption is good from a metric of .5 on; below, every fourth is."""
    captions = [{"id": str(image), "metric": (image * 37 % images) / images} for image in range(images)]
    ratings = [
        {"id": row["id"], "rating": 5 if row["metric"] >= 0.5 or int(row["id"]) % 4 == 0 else 2} for row in captions
    ]
    return ratings, captions


def test_threshold_with_precision_and_recall():
    ratings, captions = make_rated()
    found = find_threshold(ratings, captions, metric="metric", good=4)
    half = next(row for row in found.rows if row.threshold == 0.5)
    good = sum(row["rating"] >= 4 for row in ratings)
    assert half.precision.value == 1.0 and half.recall.value == pytest.approx(40 / good) and half.kept == 0.5
    assert found.base.value == pytest.approx(good / 80)
    assert found.best is not None and found.best.precision.low >= 0.9 and found.best.threshold <= 0.5
    assert found.expression == f"metric >= {found.best.threshold:.6g}"
    assert f"Keep '{found.expression}'" in str(found) and str(found).count("recommended") == 1
    hopeless = find_threshold([{**row, "rating": 2 + 3 * (int(row["id"]) % 2)} for row in ratings], captions,
                              metric="metric", good=4)  # fmt: skip
    assert hopeless.expression == "" and "No threshold of metric" in str(hopeless)


def test_a_few_good_captions_do_not_prove_a_threshold():
    """All eight captions from .9 on are good. At most 1 − .05^(1/8) = 31 % of such captions are not."""
    captions = [{"id": str(number), "metric": number / 80} for number in range(80)]
    ratings = [{"id": str(number), "rating": 5 if number >= 72 or number % 2 else 1} for number in range(80)]
    found = find_threshold(ratings, captions, metric="metric", good=4)
    top = next(row for row in found.rows if row.threshold == 0.9)
    assert (top.precision.value, top.precision.high) == (1.0, 1.0)
    assert top.precision.low == pytest.approx(0.05 ** (1 / 8))
    assert found.best is None and "No threshold of metric keeps captions of which at least 90 %" in str(found)
    assert find_threshold(ratings, captions, metric="metric", good=4, at_least=0.68).best.threshold == 0.9


def test_intervals_of_a_threshold_are_wilsons():
    """One caption of each image: 50 of 80 are good. t of 79 degrees is 1.990450; n is 79, as s² divides by n − 1."""
    ratings, captions = make_rated()
    base = find_threshold(ratings, captions, metric="metric", good=4).base
    share, number, t = 50 / 80, 79, 1.9904502
    middle = (share + t**2 / number / 2) / (1 + t**2 / number)
    width = t / (1 + t**2 / number) * (share * (1 - share) / number + t**2 / (4 * number**2)) ** 0.5
    assert base.value == share
    assert (base.low, base.high) == pytest.approx((middle - width, middle + width), abs=1e-7)


def test_threshold_needs_good_and_bad_captions():
    ratings, captions = make_rated()
    with pytest.raises(InputError, match="no rated caption has a mean rating of 6 or more"):
        find_threshold(ratings, captions, metric="metric", good=6)
    with pytest.raises(InputError, match="at_least=2, expected a share"):
        find_threshold(ratings, captions, metric="metric", good=4, at_least=2)


def test_a_threshold_of_a_number_of_which_lower_is_better():
    """People rate captions with a lower perplexity higher; no metric of the registry has the name."""
    ratings, captions = make_rated()
    turned = [{**row, "metric": -row["metric"]} for row in captions]
    one, other = (find_threshold(ratings, rows, metric="metric", good=4) for rows in (captions, turned))
    assert other.expression == f"metric <= {-one.best.threshold:.6g}"
    assert other.best.precision == one.best.precision and other.best.kept == pytest.approx(one.best.kept)
    assert "metric: lower is better, because people rate captions with lower values higher" in other.remarks


def test_a_threshold_refuses_ratings_that_may_be_of_several_systems():
    ratings, captions = make_rated()
    both = [{**row, "system": name} for row in captions for name in "ab"]
    with pytest.raises(InputError, match="is rated without a system, and captions has captions of a and b"):
        find_threshold(ratings, both, metric="metric", good=4)


def test_a_metric_that_falls_and_one_that_rises_do_not_cancel():
    """The strata of a metric and of its negative together are those of the metric."""
    captions = make_captions()
    both = [{**row, "perplexity": 7 - 2 * row["metric"]} for row in captions]
    one, other = choose(captions, 20, using=["metric"]), choose(both, 20, using=["metric", "perplexity"])
    ranked = choose([{**row, "same": 3 * row["metric"]} for row in captions], 20, using=["metric", "same"])
    assert other.rows == ranked.rows
    strata = {row["id"]: row["stratum"] for row in one.rows}
    agree = [row["stratum"] == strata[row["id"]] for row in other.rows if row["id"] in strata]
    assert len(agree) > 12 and np.mean(agree) > 0.8
