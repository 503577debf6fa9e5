"""`study.estimate`: matching of captions, every edge case of its table, and agreement with `study systems`."""

import json

import numpy as np
import pytest
from scipy.stats import t

from captious.errors import InputError
from captious.stats.looks import look_boundaries, look_factor
from captious.study import Ratings, Verdict, estimate, open_ratings, systems
from captious.study.few_ratings.people_verdict import VarianceParts
from captious.study.judgments import open_judgments


def make_study(images=60, rated=30, names=("a", "b"), seed=1, raters=1, slope=1.0):
    """Captions with a metric, of which people rated those of the first images; b is better than a by one half."""
    random = np.random.default_rng(seed)
    captions, ratings = [], []
    for image in range(images):
        for number, name in enumerate(names):
            value = random.normal()
            captions.append({"id": str(image), "system": name, "metric": value, "other": random.normal()})
            for rater in range(raters if image < rated else 0):
                said = 3 + 0.5 * number + slope * value + random.normal(0, 0.5)
                row = {"id": str(image), "system": name, "rating": float(np.clip(round(said), 1, 5))}
                ratings.append(row | ({"rater": f"r{rater}"} if raters > 1 else {}))
    return ratings, captions


def test_the_answer_comes_first():
    ratings, captions = make_study()
    verdict = estimate(open_ratings(ratings), captions, using="metric", precision=0.1, difference=0.2)
    assert isinstance(verdict, Verdict)
    document = verdict.document()
    assert document.answer_text.startswith("b wins: people would rate it ") and ", and a " in document.answer_text
    assert ". Your 60 rated captions count as " in document.answer_text
    third, fourth = document.sections[0].paragraphs
    assert third.startswith("For ± 0.1 of each mean: ") and " with metric" in third
    assert fourth.startswith("For ± 0.2 of each difference: ")
    assert verdict.gain.factor > 1.3 and verdict.gain.low < verdict.gain.factor < verdict.gain.high
    assert [one.system for one in verdict.systems] == ["b", "a"]
    (contest,) = verdict.contests
    assert (contest.first, contest.second, contest.images) == ("b", "a", 30)
    assert contest.difference.low < contest.difference.value < contest.difference.high


def test_no_winner_is_said():
    ratings, captions = make_study(images=20, rated=12, slope=0.1)
    assert estimate(ratings, captions, using=[]).answer().startswith("No winner yet: b is first (people would rate it ")


def test_order_of_rows_changes_nothing():
    ratings, captions = make_study(raters=3)
    random = np.random.default_rng(5)
    for using in (["metric"], ["metric", "other", "third"]):
        for row in captions:
            row["third"] = row["metric"] ** 2
        one = estimate(ratings, captions, using=using)
        shuffled = [list(random.permutation(np.array(rows, dtype=object))) for rows in (ratings, captions)]
        other = estimate(*shuffled, using=using)
        for mine, theirs in zip(one.systems, other.systems, strict=True):
            assert (mine.mean.value, mine.mean.error) == pytest.approx(
                (theirs.mean.value, theirs.mean.error), abs=1e-10
            )
        assert one.signature == other.signature


def test_everything_rated_agrees_with_study_systems():
    ratings, captions = make_study(rated=60)
    verdict, ranking = estimate(ratings, captions, using=[]), systems(ratings)
    theirs = {one.system: one.mean.value for one in ranking.standings[0].systems}
    assert {one.system: one.mean.value for one in verdict.systems} == pytest.approx(theirs, abs=1e-12)
    assert estimate(ratings).systems[0].mean == verdict.systems[0].mean  # without captions, the rated ones are all


def test_captions_count_the_same_however_many_people_rated_them():
    """Of a: (1 + 3) / 2, 4 and 5, so 11 / 3; the mean of all four ratings would be 13 / 4. Both commands say 11 / 3."""
    said = {"a": [(1, 3), (4,), (5,)], "b": [(2,), (2, 2, 5), (1,)]}
    rows = [
        {"id": str(image), "system": name, "rater": f"r{rater}", "rating": rating}
        for name, own in said.items()
        for image, ratings in enumerate(own)
        for rater, rating in enumerate(ratings)
    ]
    mine = {one.system: one.mean.value for one in estimate(rows).systems}
    theirs = {one.system: one.mean.value for one in systems(rows).standings[0].systems}
    assert mine == pytest.approx({"a": 11 / 3, "b": 2.0}) and theirs == pytest.approx(mine, abs=1e-12)


def test_holm_decides_who_wins():
    """Three p-values: the smallest counts three times, the next twice, and none less than the one before."""
    for seed in range(8):
        ratings, captions = make_study(images=40, rated=20, names=("a", "b", "c"), seed=seed)
        verdict = estimate(ratings, captions, using=[])
        smallest, middle, largest = sorted(verdict.contests, key=lambda one: one.p)
        expected = [min(3 * smallest.p, 1.0)]
        expected.append(max(min(2 * middle.p, 1.0), expected[0]))
        expected.append(max(largest.p, expected[1]))
        assert [one.p_holm for one in (smallest, middle, largest)] == pytest.approx(expected, abs=1e-12)
        first = verdict.systems[0].system
        beaten = [one.p_holm < 0.05 for one in verdict.contests if one.first == first]
        assert verdict.answer().startswith(f"{first} wins: ") == all(beaten)
    # By plain p-values this study would have a winner: .028 and .007.
    near = estimate(*make_study(images=40, rated=20, names=("a", "b", "c"), seed=2), using=[])
    assert all(one.p < 0.05 for one in near.contests if one.first == near.systems[0].system)
    assert near.answer().startswith("No winner yet: ")


def test_scale_and_sign_of_a_metric_change_nothing():
    ratings, captions = make_study()
    turned = [{**row, "metric": -0.01 * row["metric"] + 5} for row in captions]
    one, other = (estimate(ratings, rows, using="metric").systems[0].mean for rows in (captions, turned))
    assert (one.value, one.error) == pytest.approx((other.value, other.error), abs=1e-10)


def test_runs_files_and_rows_give_the_same(tmp_path):
    ratings, captions = make_study()
    file = tmp_path / "captions.jsonl"
    file.write_text("\n".join(map(json.dumps, captions)))
    rated = tmp_path / "ratings.jsonl"
    rated.write_text("\n".join(map(json.dumps, ratings)))
    one, other = estimate(ratings, captions, using="metric"), estimate(rated, file, using="metric")
    assert [a.mean for a in one.systems] == [b.mean for b in other.systems]


def test_aspects_are_estimated_each():
    ratings, captions = make_study()
    judged = open_ratings(ratings)
    judged = Ratings(**{**vars(judged), "aspects": {"fluency": judged.values - 1.0}})
    verdict = estimate(judged, captions, using="metric")
    assert [one.question for one in verdict.questions] == ["rating", "fluency"]
    gap = verdict.questions[0].systems[0].mean.value - verdict.questions[1].systems[0].mean.value
    assert gap == pytest.approx(1.0)
    assert {"people", "people_fluency", "contests", "aspect_contests"} <= {*verdict.document().tables}


def test_share_of_good_captions():
    """The share is that of ratings of 4 or more, with Wilson's interval inside 0 and 1."""
    ratings, captions = make_study(rated=60)
    verdict = estimate(ratings, captions, using=[], share=4)
    mine = {one.system: one.mean.value for one in verdict.systems}
    for name in "ab":
        own = [row["rating"] >= 4 for row in ratings if row["system"] == name]
        assert mine[name] == pytest.approx(np.mean(own))
    assert verdict.questions[0].kind == "share" and "of its captions are rated 4 or more" in verdict.answer()
    with pytest.raises(InputError, match="share=9: ratings are 1 to 5"):
        estimate(ratings, captions, share=9)


def test_a_share_that_the_regression_moves_beyond_1_has_an_interval():
    """28 of 30 rated captions are good, and all others have a better metric than these two: 1, but not surely 1."""
    captions = [{"id": str(number), "metric": 0.0 if number < 2 else 1.0 + number % 7} for number in range(300)]
    ratings = [{"id": str(number), "rating": 2 if number < 2 else 5 - number % 2} for number in range(30)]
    for row in captions[:30]:
        row["metric"] -= 3.0
    mean = estimate(ratings, captions, using="metric", share=4).systems[0].mean
    assert (mean.value, mean.high) == pytest.approx((1.0, 1.0)) and 0.5 < mean.low < 0.99


def test_differences_are_cut_to_what_the_scale_allows():
    """Shares differ by at most 100 %, whatever the factor of the looks."""
    ratings, captions = make_study(rated=20)
    apart = [{**row, "rating": 5 - (int(row["id"]) % 9 == 0) if row["system"] == "b" else 2} for row in ratings]
    apart = [{**row, "rating": 5} if row["id"] == "1" else row for row in apart]
    (contest,) = estimate(apart, captions, using=[], share=4, anytime=True).contests
    assert contest.difference.value > 0.8 and contest.difference.high == 1.0


def test_slopes_forms_levels_and_targets():
    ratings, captions = make_study(images=80, rated=40)
    usual = estimate(ratings, captions, using="metric")
    width = usual.systems[0].mean.high - usual.systems[0].mean.low
    assert estimate(ratings, captions, using="metric", slopes="own").questions[0].slopes["slopes"] != []
    assert "using:metric(ranks)" in estimate(ratings, captions, using="metric", form="ranks").signature
    narrow = estimate(ratings, captions, using="metric", level=0.8).systems[0].mean
    assert narrow.high - narrow.low < 0.8 * width
    items = estimate(ratings, captions, using="metric", target="items").systems[0].mean
    fixed = estimate(ratings, captions, using="metric", target="ratings").systems[0].mean
    assert fixed.error < items.error < usual.systems[0].mean.error
    for name in ("form", "slopes"):
        with pytest.raises(InputError, match=f"{name}='x', expected"):
            estimate(ratings, captions, **{name: "x"})


def test_three_metrics_become_one_prediction():
    ratings, captions = make_study(images=80, rated=40)
    for row in captions:
        row["third"] = row["metric"] + row["other"]
    verdict = estimate(ratings, captions)
    assert verdict.questions[0].slopes["method"] == "ridge" and 0 < verdict.questions[0].slopes["factor"] <= 1
    assert "method:ridge" in verdict.signature and verdict.gain.factor > 1.3
    assert estimate(ratings, captions, seed=1).systems[0].mean.value != verdict.systems[0].mean.value


def test_a_monotone_curve_helps_where_a_line_does_not():
    """People's rating is a step of the metric. The curve is cross-fitted, and of either direction."""
    random = np.random.default_rng(3)
    captions = [{"id": str(number), "system": "a", "metric": random.normal() ** 3} for number in range(400)]
    ratings = [{"id": row["id"], "rating": float(2 + 2 * (row["metric"] > 0.5))} for row in captions[:100]]
    for row in ratings:
        row["rating"] = float(np.clip(row["rating"] + random.integers(-1, 2), 1, 5))
    curve, line = (estimate(ratings, captions, using="metric", form=form) for form in ("monotone", "values"))
    assert curve.questions[0].slopes["method"] == "monotone" and "using:metric(monotone)" in curve.signature
    assert 0.8 < curve.questions[0].slopes["factor"] <= 1
    assert curve.gain.factor > 1.2 * line.gain.factor
    turned = [{**row, "metric": -row["metric"]} for row in captions]
    falling = estimate(ratings, turned, using="metric", form="monotone").systems[0].mean
    assert (falling.value, falling.error) == pytest.approx(
        (curve.systems[0].mean.value, curve.systems[0].mean.error), abs=1e-9
    )


def test_a_monotone_curve_of_noise_costs_next_to_nothing():
    """A useless prediction is multiplied by 0, or nearly; taken as it is, it would cost 4 to 20 % of these ratings."""
    for seed in range(5):
        verdict = estimate(*make_study(images=100, rated=25, slope=0.0, seed=seed), using="metric", form="monotone")
        assert 0 <= verdict.questions[0].slopes["factor"] < 0.7 and 0.98 < verdict.gain.factor < 1.05


def test_order_of_rows_changes_nothing_for_curves_and_pairs():
    random = np.random.default_rng(6)
    ratings, captions = make_study()
    pairs = [
        {"image": row["id"], "captions": ["x", "y"], "systems": ["a", "b"], "preferred": int(index % 3 > 0)}
        for index, row in enumerate(captions[:60:2])
    ]
    rows = [{**row, "image": row["id"]} for row in captions]
    for judged, form in ((ratings, "monotone"), (ratings, "ranks"), (pairs, "values")):
        results = []
        for order in (lambda rows: rows, lambda rows: [rows[index] for index in random.permutation(len(rows))]):
            one = order(judged)
            results.append(estimate(open_judgments(one) if judged is pairs else one, order(rows), using="metric",
                                    form=form))  # fmt: skip
        for mine, theirs in zip(results[0].systems, results[1].systems, strict=True):
            assert mine.system == theirs.system
            assert (mine.mean.value, mine.mean.error) == pytest.approx(
                (theirs.mean.value, theirs.mean.error), abs=1e-10
            )


# Edge cases: each row of the table


def test_a_system_without_ratings_is_refused_or_left_out():
    ratings, captions = make_study()
    more = [*captions, {"id": "0", "system": "c", "metric": 1.0, "other": 0.0}]
    with pytest.raises(InputError, match=r"no rating of c, .* the ratings are of a, b: SYSTEM=RUN names"):
        estimate(ratings, more)
    verdict = estimate(ratings, more, missing="skip")
    assert verdict.left_out == {"a caption of a system that nobody rated": 1}


def test_one_rated_image_of_a_system_is_refused():
    ratings, captions = make_study()
    few = [row for row in ratings if row["system"] == "a" or row["id"] == "0"]
    with pytest.raises(InputError, match="b has 1 rated image by 'rating', expected at least 2"):
        estimate(few, captions)


@pytest.mark.parametrize(
    ("rated", "message"),
    [
        (9, "no auxiliary metric is used: 9 rated images, expected at least 10"),
        (4, "fewer than 5 rated images of a system: the interval is rough"),
    ],
)
def test_few_images_use_no_metric(rated, message):
    verdict = estimate(*make_study(rated=rated), using="metric")
    assert message in verdict.remarks and verdict.gain is None and verdict.using == ()


def test_few_captions_for_the_slopes_use_no_metric():
    ratings, captions = make_study(rated=15, names=("a",))
    verdict = estimate(ratings, captions, using="metric")
    assert "no auxiliary metric is used: 15 rated captions, expected at least 20" in verdict.remarks
    ratings, captions = make_study(rated=30, names=("a",))
    verdict = estimate(ratings, captions, using=["metric", "other"])
    assert "no auxiliary metric is used: 30 rated captions, expected at least 40 for 2 slopes" in verdict.remarks


def test_equal_ratings_have_the_interval_of_their_number():
    """Twenty 5s on 1..5: at most 1 − .05^(1/20) of captions differ: [4.444, 5]."""
    ratings, captions = make_study(rated=20)
    equal = [{**row, "rating": 5} if row["system"] == "b" else row for row in ratings]
    judged = open_ratings(equal)
    verdict = estimate(Ratings(**{**vars(judged), "scale": (1.0, 5.0)}), captions, using="metric")
    best = verdict.systems[0]
    assert (best.system, best.mean.value, best.mean.high) == ("b", 5.0, 5.0)
    assert best.mean.low == pytest.approx(5 - 4 * (1 - 0.05 ** (1 / 20)), abs=1e-12)
    assert any(line.startswith("b: all ratings are 5; its interval [4.444, 5.000]") for line in verdict.remarks)
    all_equal = [{**row, "rating": 3} for row in ratings]
    verdict = estimate(all_equal, captions, using="metric")
    assert any("all ratings are 3, so there is no interval" in line for line in verdict.remarks)
    assert verdict.answer().startswith("No winner yet: a is first (people would rate it 3.00), but")
    assert np.isnan([one.mean.low for one in verdict.systems]).all() and "nan" not in str(verdict)


def test_a_constant_metric_is_left_out():
    ratings, captions = make_study()
    verdict = estimate(ratings, [{**row, "metric": 7} for row in captions], using="metric")
    assert "metric is not used: it is the same for all captions" in verdict.remarks


def test_a_metric_that_hardly_varies_among_the_rated_is_left_out():
    ratings, captions = make_study()
    flat = [{**row, "metric": 0.001 * row["metric"] if int(row["id"]) < 30 else row["metric"]} for row in captions]
    verdict = estimate(ratings, flat, using="metric")
    assert "metric is not used: it hardly varies among the rated captions" in verdict.remarks
    assert verdict.using == () and verdict.gain is None


def test_missing_values_have_a_column_of_their_own():
    ratings, captions = make_study()
    gaps = [{**row, "metric": None if int(row["id"]) % 5 == 0 else row["metric"]} for row in captions]
    verdict = estimate(ratings, gaps, using="metric")
    assert "metric is missing for 24 captions: they have a column of their own" in verdict.remarks
    assert verdict.using == ("metric",) and len(verdict.questions[0].slopes["slopes"]) == 2
    many = [{**row, "metric": None if int(row["id"]) % 2 else row["metric"]} for row in captions]
    assert "metric is not used: 50 % of captions have no value" in estimate(ratings, many, using="metric").remarks


def test_a_rated_caption_without_a_row_is_an_error_or_left_out():
    ratings, captions = make_study()
    fewer = [row for row in captions if row["id"] != "3"]
    with pytest.raises(InputError, match=r"2 of 60 rated captions \(3/a, 3/b\) are not among the 118 .*'skip'"):
        estimate(ratings, fewer)
    assert estimate(ratings, fewer, missing="skip").left_out == {"a rated caption that is not among the captions": 2}


def test_many_that_cannot_be_judged_are_warned_about():
    ratings, captions = make_study(raters=2)
    some = [{**row, "rating": None} if index % 10 == 0 else row for index, row in enumerate(ratings)]
    warnings = estimate(some, captions, using=[]).warnings
    assert any('10 % of answers are "cannot judge"' in line for line in warnings)
    assert not any("cannot judge" in line for line in estimate(ratings, captions, using=[]).warnings)


def test_unequal_chances():
    """Ratings 1 2 4 with chances .2 .4 .8: 15 / 8.75; two thirds of the captions count."""
    ratings = [
        {"id": str(index), "rating": value, "probability": chance}
        for index, (value, chance) in enumerate([(1, 0.2), (2, 0.4), (4, 0.8)])
    ]
    verdict = estimate(ratings)
    assert verdict.systems[0].mean.value == pytest.approx(15 / 8.75)
    assert any("3 rated captions count as 2 (Kish)" in line for line in verdict.warnings)
    for chance in (0, 1.5, "often"):
        with pytest.raises(InputError, match=r"probability is .*, expected a number above 0 and at most 1"):
            estimate([*ratings[:2], {**ratings[2], "probability": chance}])


def test_chances_in_a_column_of_another_name(tmp_path):
    """The same three ratings; without the name of the column, all have the same chance: 7 / 3."""
    file = tmp_path / "ratings.jsonl"
    rows = [{"id": str(index), "rating": value, "odds": chance} for index, (value, chance) in
            enumerate([(1, 0.2), (2, 0.4), (4, 0.8)])]  # fmt: skip
    file.write_text("\n".join(map(json.dumps, rows)))
    assert estimate(file, probability="odds").systems[0].mean.value == pytest.approx(15 / 8.75)
    assert estimate(file).systems[0].mean.value == pytest.approx(7 / 3)


def test_the_last_batch_has_the_chance_of_all_batches():
    """Four of eight captions in two batches: the first batch says .25, the second .5, and all count the same."""
    rows = [
        {"id": str(index), "rating": rating, "probability": chance, "stratum": "1", "batch": batch}
        for index, (rating, chance, batch) in enumerate([(1, 0.25, 1), (2, 0.25, 1), (4, 0.5, 2), (5, 0.5, 2)])
    ]
    assert estimate(rows).systems[0].mean.value == pytest.approx(3.0)


def test_captions_picked_by_hand_are_always_warned_about():
    ratings, captions = make_study()
    picked = [{**row, "probability": None} for row in ratings]
    assert any("picked by hand" in line for line in estimate(picked, captions, using="metric").warnings)


def test_chances_that_are_not_known_are_taken_to_be_equal_and_this_is_said():
    ratings, captions = make_study()
    taken = "assumed: all captions had the same chance to be rated"
    assert taken in estimate(ratings, captions, using="metric").remarks
    drawn = [{**row, "probability": 0.5} for row in ratings]
    assert taken not in estimate(drawn, captions, using="metric").remarks


def test_a_sample_that_differs_from_the_rest_is_warned_about():
    ratings, captions = make_study(images=120)
    better = [{**row, "metric": row["metric"] + (2 if int(row["id"]) < 30 else 0)} for row in captions]
    warnings = estimate(ratings, better, using="metric").warnings
    assert any(line.startswith("the rated captions are not a random sample: metric is") for line in warnings)
    assert estimate(ratings, captions, using="metric").warnings == ()


def test_the_test_of_balance_knows_how_many_images_are_not_rated():
    """The mean of the rated against that of all: a t test over images, whose variance is cut by the unrated share."""
    random = np.random.default_rng(1)
    values = random.normal(size=120) + np.where(np.arange(120) < 40, 0.45, 0)
    clipped = np.clip(values, *np.quantile(values, [0.01, 0.99]))  # as the estimate does
    rated = clipped[:40]
    error = rated.std(ddof=1) / 40**0.5 * (1 - 40 / 120) ** 0.5
    p = float(2 * t.sf(abs(rated.mean() - clipped.mean()) / error, 39))
    assert p < 0.01 < 2 * t.sf(abs(rated.mean() - clipped.mean()) / (error / (1 - 40 / 120) ** 0.5), 39)
    captions = [{"id": str(image), "system": "a", "metric": value} for image, value in enumerate(values)]
    ratings = [{"id": str(image), "system": "a", "rating": 1 + image % 5} for image in range(40)]
    (warning,) = estimate(ratings, captions, using="metric").warnings
    assert warning.endswith(f"for all (p {p:.2g}); intervals may be wrong")


def test_strata_of_all_captions_are_used():
    """Strata of 4 and 6 captions: .4 · 1.5 + .6 · 4 = 3, se .4."""
    captions = [{"id": str(index), "stratum": "low" if index < 4 else "top"} for index in range(10)]
    ratings = [{"id": str(index), "rating": value} for index, value in [(0, 1), (1, 2), (4, 4), (5, 5), (6, 3)]]
    mean = estimate(ratings, captions).systems[0].mean
    assert (mean.value, mean.error) == pytest.approx((3.0, 0.4))
    few = [row for row in ratings if row["id"] != "1"]
    verdict = estimate(few, captions)
    assert any("strata with fewer than 2 rated images of a system are merged" in line for line in verdict.remarks)
    assert verdict.systems[0].mean.value == pytest.approx(13 / 4)


def test_systems_with_different_images_print_how_many_they_share():
    ratings, captions = make_study(images=60, rated=60)
    halves = [
        row for row in ratings if (int(row["id"]) < 40) == (row["system"] == "a") or int(row["id"]) in range(30, 40)
    ]
    (contest,) = estimate(halves, captions, using="metric").contests
    assert contest.images == 10


def test_without_names_all_metrics_go_through_the_ridge():
    ratings, captions = make_study()
    more = [{**row, "third": row["other"] ** 2} for row in captions]
    assert estimate(ratings, more).questions[0].slopes["using"] == ["metric", "other", "third"]


def test_a_rater_with_most_of_the_ratings_is_warned_about():
    ratings, captions = make_study(rated=40, raters=5)
    lopsided = [row for row in ratings if row["rater"] == "r0" or int(row["id"]) < 4]
    warnings = estimate(lopsided, captions, using=[]).warnings
    assert any(line.startswith("a few raters have most of the ratings: 5 raters count as") for line in warnings)


def test_an_image_with_most_of_the_ratings_is_warned_about():
    """Image 0 has 40 raters, 19 others have one each: (59²) / (40² + 19) = 2.2 of 20 images."""
    captions = [{"id": str(image), "system": "a", "metric": float(image)} for image in range(40)]
    ratings = [{"id": "0", "system": "a", "rater": f"r{rater}", "rating": 1 + rater % 5} for rater in range(40)]
    ratings += [{"id": str(image), "system": "a", "rater": "r0", "rating": 1 + image % 5} for image in range(1, 20)]
    warnings = estimate(ratings, captions, using=[]).warnings
    assert any(line.startswith("a few images have most of the ratings: 20 images count as 2.2") for line in warnings), (
        warnings
    )


def test_raters_widen_the_interval_from_three_on():
    ratings, captions = make_study(raters=4)
    severe = [{**row, "rating": max(1, row["rating"] - 2 * (row["rater"] == "r0"))} for row in ratings]
    verdict = estimate(severe, captions, using="metric")
    assert "jackknife:images+raters" in verdict.signature and verdict.systems[0].degrees == 3
    unnamed = [{key: value for key, value in row.items() if key != "rater"} for row in severe]
    assert estimate(unnamed, captions, using="metric").systems[0].mean.error < verdict.systems[0].mean.error


def test_pairs_give_win_rates():
    random = np.random.default_rng(2)
    captions, pairs = [], []
    for image in range(80):
        values = dict(zip("abc", random.normal(size=3), strict=True))
        captions += [{"image": str(image), "system": name, "metric": value} for name, value in values.items()]
        for first, second in (("b", "a"), ("a", "c"), ("c", "b")) if image < 40 else ():
            gap = values[first] - values[second] + random.normal() + 0.7 * ((first == "c") - (second == "c"))
            preferred = None if abs(gap) < 0.1 else int(gap < 0)
            pairs.append({"image": str(image), "captions": [first, second], "systems": [first, second]})
            pairs[-1]["preferred"] = preferred
    judged = open_judgments(pairs)
    verdict = estimate(judged, captions, using="metric")
    rates = {one.system: one.mean.value for one in verdict.systems}
    assert verdict.systems[0].system == "c" and sum(rates.values()) == pytest.approx(1.5)
    assert verdict.questions[0].kind == "win rate" and "people prefer it in" in verdict.answer()
    assert all(0 <= one.mean.low < one.mean.value < one.mean.high <= 1 for one in verdict.systems)
    ours = estimate(judged, captions, using=[])
    theirs = systems(judged).tournament
    assert {one.system: one.mean.value for one in ours.systems} == pytest.approx(
        {name: theirs.win_rate(name) for name in "abc"} if hasattr(theirs, "win_rate") else rates_of(pairs)
    )
    fewer = [row for row in captions if row != captions[0]]
    assert estimate(judged, fewer, using="metric").left_out["a pair of which a caption is not in the runs"] == 2
    with pytest.raises(InputError, match="has pairs, expected ratings"):
        estimate(judged, captions, share=4)


def rates_of(pairs):
    """The win rate of each system: the mean over its two opponents."""
    totals = {}
    for row in pairs:
        wins = 0.5 if row["preferred"] is None else 1 - row["preferred"]
        first, second = row["systems"]
        totals.setdefault((first, second), []).append(wins)
        totals.setdefault((second, first), []).append(1 - wins)
    return {
        name: np.mean([np.mean(values) for (first, _), values in totals.items() if first == name]) for name in "abc"
    }


def test_unknown_names_of_metrics():
    ratings, captions = make_study()
    with pytest.raises(InputError, match=r"using=metrc: no such number in captions, found metric, other.*metric"):
        estimate(ratings, captions, using="metrc")
    with pytest.raises(InputError, match="using=metric: no captions with these numbers; name a run"):
        estimate(ratings, using="metric")


def test_looks_are_wider_than_a_single_look():
    ratings, captions = make_study(images=100)
    fixed = estimate(ratings, captions, using="metric").systems[0].mean
    anytime = estimate(ratings, captions, using="metric", anytime=True)
    look = estimate(ratings, captions, using="metric", planned=60, looked=[12])
    for verdict in (anytime, look):
        mean = verdict.systems[0].mean
        assert mean.value == fixed.value and mean.high - mean.low > 1.3 * (fixed.high - fixed.low)
        assert all(np.isnan(one.p) for one in verdict.contests)
    assert "look 2, after 30 of 60 planned images" in look.factor
    beyond = estimate(ratings, captions, using="metric", planned=20)
    assert any("30 images are rated, and 20 were planned" in line for line in beyond.warnings)
    for wrong in ({"anytime": True, "planned": 60}, {"looked": [3]}, {"planned": 60, "looked": [50]}):
        with pytest.raises(InputError):
            estimate(ratings, captions, **wrong)


def test_a_winner_at_a_look_is_one_whose_interval_excludes_0():
    """There are no p-values at looks, and still a winner."""
    ratings, captions = make_study(images=200, rated=120)
    for options in ({"anytime": True}, {"planned": 150, "looked": [60]}):
        verdict = estimate(ratings, captions, using="metric", **options)
        assert verdict.contests[0].difference.low > 0 and verdict.answer().startswith("b wins: ")
        assert "(the interval of their difference excludes 0)" in " ".join(str(verdict).split())


def test_plan_of_more_ratings():
    """Four times the images halve a standard error, nearly: t has more degrees of freedom too."""
    ratings, captions = make_study(images=200, rated=50)
    verdict = estimate(ratings, captions, using="metric")
    plan = verdict.plan(max(one.ratings_only.error for one in verdict.systems))  # 1.98 times narrower
    assert 3.6 * 100 < plan.needed < 4.0 * 100 and plan.needed_using < plan.needed and plan.rated == 100
    assert verdict.plan(10).needed_using <= 100 and "reached" in str(verdict.plan(10))
    assert "(± 20 %)" in str(verdict.plan(0.05))


def test_the_plan_foretells_the_interval_of_a_larger_study():
    """What the means of the metric over all captions leave open does not shrink before all captions are rated."""
    told, found = 0.0, 0.0
    for seed in range(20):
        pilot, larger = (estimate(*make_study(200, rated, ("a",), seed), using="metric") for rated in (40, 160))
        told += pilot.questions[0].parts.means_using[0].forecast(4, 0.2)
        found += larger.systems[0].mean.error ** 2
    assert told == pytest.approx(found, rel=0.1)  # 0.46 of it if all of the variance shrank


def test_the_forecast_is_the_interval_of_a_larger_study():
    told, found = 0.0, 0.0
    for seed in range(20):
        pilot, larger = (estimate(*make_study(200, rated, ("a",), seed), using="metric") for rated in (40, 160))
        told += pilot.forecast(160)
        mean = larger.systems[0].mean
        found += (mean.high - mean.low) / 2
        now = pilot.systems[0].mean
        assert pilot.forecast(40) == pytest.approx((now.high - now.low) / 2)
    assert told == pytest.approx(found, rel=0.05)
    # At the last of five looks t stands at 2.031 in place of 1.960, of 159 degrees of freedom.
    wider = look_factor(look_boundaries([0.2, 0.4, 0.6, 0.8, 1.0])[-1], 159) / t.ppf(0.975, 159)
    assert pilot.forecast(160, look_boundaries([0.2, 0.4, 0.6, 0.8, 1.0])[-1]) == pytest.approx(
        wider * pilot.forecast(160)
    )


def test_a_plan_beyond_all_captions_asks_for_new_images():
    ratings, captions = make_study(images=60, rated=20)
    verdict = estimate(ratings, captions, using="metric")
    width = min(one.mean.high - one.mean.value for one in verdict.systems)
    plan = verdict.plan(width / 2.5)
    assert plan.needed_using > 120 and plan.captions == 120
    assert str(plan).endswith(". Only 80 captions are not rated yet: the others must be of new images.")
    everything = estimate(ratings).plan(0.01)
    assert str(everything).endswith(". All these captions are rated: the others must be of new images.")
    # The interval for exactly these captions cannot use others; by the same raters, it ends when all are rated.
    ratings, captions = make_study(images=60, rated=20, raters=2)
    known = estimate(ratings, captions, using="metric", target="ratings").plan(0.01)
    assert 100 < known.needed_using <= 120 and "new images" not in str(known)
    items = estimate(ratings, captions, using="metric", target="items").plan(0.01)
    assert items.needed_using is None and "all 120 captions are not enough" in str(items)


def test_forecasts_of_variances_by_hand():
    """A quarter of the captions is rated; .05 has a fixed part of .01: .04 / 2 + .01, .04 / 4 + .01, .04 / 8 + .005."""
    world = VarianceParts(0.05, 0.0, 0.01)
    assert [world.forecast(times, 0.25) for times in (1, 2, 4, 8)] == pytest.approx([0.05, 0.03, 0.02, 0.01])
    # .01 is subtracted from .04 because the captions are exactly these; half of .02 is left if half is not rated.
    items = VarianceParts(0.03, 0.0, -0.01)
    assert [items.forecast(times, 0.25) for times in (1, 2, 4)] == pytest.approx([0.03, 0.01, 0.0])


def test_few_raters_limit_what_can_be_reached():
    ratings, captions = make_study(raters=4)
    severe = [{**row, "rating": max(1, row["rating"] - 2 * (row["rater"] == "r0"))} for row in ratings]
    plan = estimate(severe, captions, using="metric").plan(0.1)
    assert plan.raters == 4 and plan.needed_same_raters is None and plan.limit > 0.1
    assert "these 4 raters cannot make the interval narrower than" in str(plan)


def test_save_and_json(tmp_path):
    verdict = estimate(*make_study(), using="metric", precision=0.2)
    verdict.save(tmp_path / "out")
    assert {"estimate.html", "estimate.tex", "people.csv"} <= {path.name for path in (tmp_path / "out").iterdir()}
    data = json.loads(verdict.to_json())
    assert data["answer"].startswith("b wins") and data["plans"][0]["half_width"] == 0.2
    assert len(data["questions"][0]["covariance"]) == 2


# Answers without variance


def make_pairs(number, preferred=0):
    return [
        {"image": f"i{index}", "captions": ["x", "y"], "systems": ["a", "b"], "preferred": preferred}
        for index in range(number)
    ]


@pytest.mark.parametrize(("number", "p"), [(2, 0.5), (3, 0.25), (5, 0.0625), (6, 0.03125), (10, 2 / 1024)])
def test_pairs_that_all_agree_have_the_sign_test(number, p):
    """Two coins fall on the same side every other time: 2 · ½ⁿ. The interval excludes 0 exactly if p is below .05."""
    verdict = estimate(open_judgments(make_pairs(number)))
    (contest,) = verdict.contests
    assert (contest.first, contest.p, contest.p_holm) == ("a", pytest.approx(p), pytest.approx(p))
    assert (contest.difference.low > 0) == (p < 0.05) == verdict.answer().startswith("a wins: ")
    # Clopper and Pearson's interval of n of n: (α / 2)^(1 / n).
    assert contest.difference.low == pytest.approx(0.025 ** (1 / number) - 0.5)
    mean = verdict.systems[0].mean
    assert (mean.value, mean.low, mean.high) == pytest.approx((1.0, 0.05 ** (1 / number), 1.0))
    assert any(f"it is tested by the sign test over {number} images" in line for line in verdict.remarks)


def test_pairs_that_are_all_ties_have_no_winner():
    verdict = estimate(open_judgments(make_pairs(8, None)))
    assert verdict.contests[0].p == 1.0 and verdict.answer().startswith("No winner yet")


@pytest.mark.parametrize(("number", "p"), [(2, 0.5), (4, 0.125), (6, 0.03125)])
def test_a_difference_that_is_the_same_for_all_images_has_the_sign_test(number, p):
    """b is better by 1 on every image, which none changes; the interval on 1..5 is 1 − 5 q to 1 + 3 q."""
    rows = [
        {"id": str(image), "system": name, "rating": 2 + image % 2 + better}
        for image in range(number)
        for name, better in (("a", 0), ("b", 1))
    ]
    judged = Ratings(**{**vars(open_ratings(rows)), "scale": (1.0, 5.0)})
    (contest,) = estimate(judged).contests
    share = 1 - 0.025 ** (1 / number)
    assert contest.p == pytest.approx(p)
    assert (contest.difference.low, contest.difference.high) == pytest.approx((1 - 5 * share, 1 + 3 * share))
    # What these raters say of captions that they all rated is known.
    assert estimate(judged, target="ratings").contests[0].p == 0


def test_a_look_at_pairs_that_all_agree_spends_little():
    """Ten of ten at the first of five looks: .05 is not yet spent, so nobody wins."""
    verdict = estimate(open_judgments(make_pairs(10)), planned=50)
    assert verdict.contests[0].difference.low < 0 and verdict.answer().startswith("No winner yet")
    assert verdict.systems[0].mean.low < estimate(open_judgments(make_pairs(10))).systems[0].mean.low


def test_a_system_with_equal_ratings_is_not_surer_in_a_difference():
    """All 5s of ten images can only be too high: t · error reaches as far down as the two-sided interval, 4 (1 − q)."""
    ratings, captions = make_study(rated=10)
    equal = [{**row, "rating": 5.0} if row["system"] == "b" else row for row in ratings]
    judged = open_ratings(equal)
    judged = Ratings(**{**vars(judged), "scale": (1.0, 5.0)})
    (contest,) = estimate(judged, captions, using=[]).contests
    other = estimate(judged, captions, using=[]).systems[1].mean.error
    own = 4 * (1 - 0.025 ** (1 / 10)) / t.ppf(0.975, 9)
    assert contest.difference.error == pytest.approx(np.hypot(own, other))


def test_raters_count_in_the_difference_from_a_system_with_equal_ratings():
    ratings, captions = make_study(raters=4)
    severe = [{**row, "rating": max(1.0, row["rating"] - 2 * (row["rater"] == "r0"))} for row in ratings]
    equal = [{**row, "rating": 5.0} if row["system"] == "b" else row for row in severe]
    (contest,) = estimate(equal, captions, using=[]).contests
    assert contest.degrees < 6  # of 30 images and 4 raters, by Satterthwaite's formula


def test_captions_with_the_same_mean_rating_have_an_interval():
    """Two people who always say 4 and 5: the mean of every caption is 4.5, and no image changes it."""
    verdict = estimate([{"id": str(image), "ratings": [4, 5] if image % 2 else [5, 4]} for image in range(12)])
    mean = verdict.systems[0].mean
    share = 1 - 0.05 ** (1 / 12)
    assert (mean.value, mean.low, mean.high) == pytest.approx((4.5, 4.5 - 0.5 * share, 4.5 + 0.5 * share))


def test_only_a_known_scale_cuts_an_interval():
    """Ratings 3 4 5: 4 ± 4.30 · 1 / √3. Between the smallest and the largest of three is the mean in 3 of 4 studies."""
    ratings = [{"id": str(number), "rating": number + 3} for number in range(3)]
    width = t.ppf(0.975, 2) / 3**0.5
    mean = estimate(ratings).systems[0].mean
    assert (mean.low, mean.high) == pytest.approx((4 - width, 4 + width))
    scaled = estimate(Ratings(**{**vars(open_ratings(ratings)), "scale": (1.0, 5.0)}))
    mean = scaled.systems[0].mean
    assert (mean.low, mean.high) == pytest.approx((4 - width, 5.0))
    assert "|scale:1-5|" in scaled.signature and "scale" not in estimate(ratings).signature


# Which captions the ratings are of, and metrics that say the same


def test_ratings_without_a_system_are_not_those_of_every_system():
    ratings, captions = make_study(names=("a", "b"))
    unnamed = [{key: value for key, value in row.items() if key != "system"} for row in ratings if row["system"] == "a"]
    with pytest.raises(
        InputError, match=r"0 is rated without a system, and captions has captions of a and b with this"
    ):
        estimate(unnamed, captions, using="metric")
    one = [row for row in captions if row["system"] == "a"]
    assert estimate(unnamed, one, using="metric").systems[0].rated == 30


def test_a_metric_that_says_the_same_as_another_is_left_out():
    ratings, captions = make_study()
    twice = [{**row, "double": 2 * row["metric"] + 1} for row in captions]
    verdict = estimate(ratings, twice, using=["metric", "double"])
    assert "double is not used: it says the same as metric" in verdict.remarks and verdict.using == ("metric",)
    assert verdict.systems[0].mean == estimate(ratings, captions, using="metric").systems[0].mean


def test_two_metrics_that_are_missing_for_the_same_captions():
    """They share the column that marks the missing ones."""
    ratings, captions = make_study()
    gaps = [row | ({"metric": None, "other": None} if index % 10 == 0 else {}) for index, row in enumerate(captions)]
    verdict = estimate(ratings, gaps, using=["metric", "other"])
    assert verdict.using == ("metric", "other") and len(verdict.questions[0].slopes["slopes"]) == 3


def test_a_metric_that_is_the_same_for_one_system_has_no_slope_of_its_own():
    ratings, captions = make_study(images=80, rated=40)
    flat = [{**row, "metric": 1.0} if row["system"] == "a" and int(row["id"]) < 40 else row for row in captions]
    with pytest.raises(InputError, match="using=metric: metric cannot be used for each system"):
        estimate(ratings, flat, using="metric", slopes="own")


def test_captions_picked_by_a_metric_are_warned_about_although_it_is_not_used():
    """Only captions with the highest values are rated: among them the metric hardly varies."""
    _, captions = make_study(images=200, rated=30, names=("a",))
    best = {row["id"] for row in sorted(captions, key=lambda row: -row["metric"])[:30]}
    chosen = [{"id": id, "system": "a", "rating": 1 + int(id) % 5} for id in sorted(best)]
    capped = [{**row, "metric": min(row["metric"], 0.9)} for row in captions]
    verdict = estimate(chosen, capped, using="metric")
    assert "metric is not used: it hardly varies among the rated captions" in verdict.remarks
    assert any(
        line.startswith("the rated captions are not a random sample: metric is 0.89") for line in verdict.warnings
    )


def test_looks_that_cannot_have_been_are_refused_in_words():
    ratings, captions = make_study(rated=30)
    for looked, message in (((30,), "looked=30: only 30 images are rated now"), ((50,), "looked=50: only 30 images")):
        with pytest.raises(InputError, match=message):
            estimate(ratings, captions, using="metric", planned=60, looked=looked)
    for looked in ((20, 10), (0,), (60,), (10, 10)):
        with pytest.raises(InputError, match="expected increasing numbers of rated images below planned=60"):
            estimate(ratings, captions, using="metric", planned=60, looked=looked)


def test_differences_at_a_look_hold_together_for_all_pairs():
    """Three pairs of systems: each has the boundary of the level 1 − .05 / 3."""
    ratings, captions = make_study(images=80, rated=40, names=("a", "b", "c"))
    verdict = estimate(ratings, captions, using=[], planned=100)
    boundary = look_boundaries([0.4], 1 - 0.05 / 3)[-1]
    for one in verdict.contests:
        width = look_factor(boundary, one.degrees) * one.difference.error
        assert one.difference.high - one.difference.value == pytest.approx(min(width, 4 - one.difference.value))
    single = look_factor(look_boundaries([0.4])[-1], verdict.systems[0].degrees)
    mean = verdict.systems[0].mean
    assert mean.value - mean.low == pytest.approx(min(single * mean.error, mean.value - 1))
    assert "hold for all 3 pairs of systems together" in " ".join(str(verdict).split())
