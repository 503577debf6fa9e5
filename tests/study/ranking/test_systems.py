"""Which system people prefer: means, win rates and strengths by hand, by scipy, and their intervals by simulation."""

import json
import random
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from lab.coverage import People, coverage

from captious.errors import InputError
from captious.options import Resampling
from captious.stats.bootstrap import draw_crossed
from captious.stats.pairwise import ELO_SCALE, PRIOR
from captious.study import Ratings, systems

SCORES = {"a": (5, 4, 4, 3), "b": (3, 4, 2, 3), "c": (1, 2, 3, 2)}


def rated(scores=SCORES, raters=("ann", "bob", "cleo", "dan")):
    """Every rater rates every caption, and is more severe than the one before."""
    return [
        {
            "image": f"im{image}",
            "system": name,
            "caption": f"{name} {image}",
            "rater": rater,
            "rating": value - place / 4,
        }
        for name, values in scores.items()
        for image, value in enumerate(values)
        for place, rater in enumerate(raters)
    ]


def preferred(generator, images=40, raters=6, ties=0.2):
    """Pairs of three systems of different strength, judged by some raters; some answers are ties."""
    strength = {"a": 0.8, "b": 0.0, "c": -0.5}
    rows = []
    for image in range(images):
        for one, other in combinations(strength, 2):
            chance = 1 / (1 + np.exp(strength[other] - strength[one]))
            for rater in generator.sample(range(raters), 2):
                won = generator.random() < chance
                answer = None if generator.random() < ties else 0 if won else 1
                row = {"image": f"im{image}", "captions": [f"{one} {image}", f"{other} {image}"]}
                rows.append({**row, "systems": [one, other], "preferred": answer, "rater": f"r{rater}"})
    return rows


def test_means_and_differences_by_hand():
    (standing,) = systems(rated(), resampling=Resampling(50)).standings
    # Raters take off 0, 1/4, 1/2, 3/4, so 3/8 on average: 4 − .375, 3 − .375, 2 − .375.
    assert [(one.system, one.mean.value) for one in standing.systems] == [("a", 3.625), ("b", 2.625), ("c", 1.625)]
    assert [(one.first, one.second, one.difference.value) for one in standing.contests] == [
        ("a", "b", 1.0), ("a", "c", 2.0), ("b", "c", 1.0),
    ]  # fmt: skip
    assert {(one.ratings, one.captions, one.images) for one in standing.systems} == {(16, 4, 4)}


def test_the_tests_of_more_than_ten_systems_are_on_the_page_and_in_files_only():
    for number, detail in ((10, False), (11, True)):
        scores = {f"s{place}": (place % 5, 1, 2) for place in range(number)}
        ranking = systems(rated(scores), resampling=Resampling(samples=0), permutations=20)
        table = ranking.document().tables["people_tests"]
        assert table.detail is detail and len(table.rows) == number * (number - 1) // 2


def test_severity_of_raters_widens_means_and_not_differences():
    ratings = [row for row in rated({"a": (3,) * 8, "b": (2,) * 8}) if row]
    (standing,) = systems(ratings, resampling=Resampling(200)).standings
    assert standing.systems[0].mean.error > 0.1
    assert standing.contests[0].difference.error == pytest.approx(0, abs=1e-12)


def test_swapping_within_images_gives_the_exact_p_value():
    rows = [row for row in rated({"a": (5, 4, 4, 3, 5), "b": (3, 2, 2, 1, 1)}, raters=("ann",)) if row]
    ranking = systems(rows, resampling=Resampling(50), permutations=100_000)
    # a wins on all five images: of 2^5 ways to swap, two are as extreme.
    assert ranking.standings[0].contests[0].p == pytest.approx(2 / 32, abs=0.003)
    assert ranking.over == "images" and "one rater" in ranking.warnings[0]
    assert "test:permutation(100000,images" in ranking.signature


def test_win_rates_of_a_simulated_study_by_hand():
    rows = preferred(random.Random(3))
    ranking = systems(rows, resampling=Resampling(20))
    for row in ranking.tournament.data()["pairs"]:
        met = [one for one in rows if {*one["systems"]} == {row["first"], row["second"]}]
        wins = sum(one["preferred"] is not None and one["systems"][one["preferred"]] == row["first"] for one in met)
        ties = sum(one["preferred"] is None for one in met)
        assert (row["wins"], row["ties"], row["losses"]) == (wins, ties, len(met) - wins - ties)
        assert row["win_rate"]["value"] == pytest.approx((wins + ties / 2) / len(met), abs=1e-12)
    for name, one in ranking.tournament.data()["systems"].items():
        games = [row for row in rows if name in row["systems"]]
        points = [0.5 if row["preferred"] is None else float(row["systems"][row["preferred"]] == name) for row in games]
        assert one["win_rate"]["value"] == pytest.approx(sum(points) / len(games), abs=1e-12)


def test_strengths_are_those_of_an_independent_fit():
    from scipy.optimize import minimize

    rows = preferred(random.Random(4))
    ranking = systems(rows, resampling=Resampling(0))
    names = ranking.order

    def loss(theta):
        strength = dict(zip(names, theta, strict=True))
        total = 0.0
        for one, other in combinations(names, 2):  # half a win for either side to begin with
            gap = strength[one] - strength[other]
            total += PRIOR * (np.logaddexp(0, -gap) + np.logaddexp(0, gap))
        for row in rows:
            gap = strength[row["systems"][0]] - strength[row["systems"][1]]
            share = 0.5 if row["preferred"] is None else 1 - row["preferred"]
            total += share * np.logaddexp(0, -gap) + (1 - share) * np.logaddexp(0, gap)
        return total

    fitted = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-10}).x
    points = [ranking.tournament.estimates[f"elo {name!r}"].value for name in names]
    assert points == pytest.approx((1000 + ELO_SCALE * (fitted - fitted.mean())).tolist(), abs=1e-3)


def test_whichever_side_a_caption_stood_on_its_system_is_the_same():
    rows = preferred(random.Random(5))
    turned = [
        {**row, "captions": row["captions"][::-1], "systems": row["systems"][::-1]}
        | {"preferred": None if row["preferred"] is None else 1 - row["preferred"]}
        if number % 3 == 0
        else row
        for number, row in enumerate(rows)
    ]
    random.Random(0).shuffle(turned)
    one, other = (systems(some, resampling=Resampling(100)) for some in (rows, turned))
    assert one.data()["pairs"] == other.data()["pairs"], "neither sides nor the order of rows move a number"


def test_rankings_have_mean_ranks_and_win_rates(tmp_path):
    recipe = (
        'rows = "each"\n[[layouts]]\nratings = "rankings.jsonl"\nimage = "item"\nrater = "rater"\nrating = "rank"\n'
    )
    (tmp_path / "rankings.toml").write_text(recipe + 'system = "system"\n')
    ranks = {"r1": (3, 2, 1), "r2": (3, 1, 2), "r3": (2, 2, 1)}
    rows = [
        {"id": f"{item}/{name}", "item": item, "system": name, "caption": name, "rank": rank, "rater": rater}
        for item in "xy"
        for rater, order in ranks.items()
        for name, rank in zip("abc", order, strict=True)
    ]
    path = tmp_path / "rankings.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ranking = systems(path, resampling=Resampling(20))
    assert [one.mean.value for one in ranking.standings[0].systems] == pytest.approx([8 / 3, 5 / 3, 4 / 3])
    # a beats b twice and ties once for each item; it always beats c. b beats c twice of three.
    rates = {name: one["win_rate"]["value"] for name, one in ranking.tournament.data()["systems"].items()}
    assert rates == pytest.approx({"a": 5.5 / 6, "b": 2.5 / 6, "c": 1 / 6})
    assert ranking.tournament.data()["pairs"][0]["ties"] == 2


def test_draws_over_images_and_raters_have_the_variance_of_both():
    generator = np.random.default_rng(1)
    image, rater = (side.ravel() for side in np.meshgrid(np.arange(50), np.arange(20), indexing="ij"))
    values = generator.normal(0, 1, 50)[image] + generator.normal(0, 2, 20)[rater]
    rows = np.stack([values, np.ones(1000)], axis=1)
    means = lambda sums: {"mean": sums[:, 0] / sums[:, 1]}  # noqa: E731
    resampling = Resampling(4000)
    one, other, both = (
        draw_crossed(means, rows, ways, resampling)["mean"].std() for ways in ([image], [rater], [image, rater])
    )
    by_image, by_rater = values.reshape(50, 20).mean(axis=1), values.reshape(50, 20).mean(axis=0)
    assert one == pytest.approx(by_image.std() / 50**0.5, rel=0.05)
    assert other == pytest.approx(by_rater.std() / 20**0.5, rel=0.05)
    # Unbiased variances add up; Student's t with the degrees of both is a little wider than the normal.
    total = (by_image.var(ddof=1) / 50 + by_rater.var(ddof=1) / 20) ** 0.5
    assert total < both < 1.1 * total


def test_intervals_hold_the_true_means_of_raters_of_different_severity():
    shares = coverage(People(), images=40, raters=10, overlap=3, studies=30, samples=200)
    assert 0.88 <= shares["mean"] <= 1 and shares["equal systems told apart"] <= 0.1
    assert shares["mean, images alone drawn"] < 0.88, "without raters the interval is of these raters alone"


def test_power_is_that_of_the_normal_test():
    ranking = systems(rated(), resampling=Resampling(200), difference=0.5)
    power = ranking.power
    assert power.error == max(one.difference.error for one in ranking.standings[0].contests)
    # z(.975) + z(.8), and z(1 − .05 / 6) + z(.8) for three pairs
    assert power.detectable == pytest.approx((1.959964 + 0.841621) * power.error)
    assert power.detectable_holm == pytest.approx((2.393980 + 0.841621) * power.error)
    assert f"difference of {power.detectable:.2f}" in ranking.power_statement()
    assert f"One of 0.50 would have been found with probability {power.power:.2f}" in ranking.power_statement()


def test_no_win_rate_is_above_all():
    ranking = systems(preferred(random.Random(1), images=3, ties=0), over="images", resampling=Resampling(50))
    huge = replace(ranking, power=replace(ranking.power, detectable=0.6, detectable_holm=0.7))
    assert huge.power_statement().startswith("Not even a win rate of 100.0 % between two systems would have been")
    assert "117" not in huge.power_statement() and "120.0" not in huge.power_statement()


def test_raters_without_names_are_not_drawn():
    values = {f"{image}/{name}": [3, 4, 5] for image in range(5) for name in "ab"}
    ratings = Ratings.of(values, [key[0] for key in values], [key[-1] for key in values])
    ranking = systems(ratings, resampling=Resampling(20))
    assert ranking.over == "images" and "raters:" not in ranking.signature
    assert systems(ratings, over="images+raters", resampling=Resampling(20)).over == "images+raters"


def test_systems_with_different_images_are_a_warning():
    rows = [row for row in rated() if (row["system"], row["image"]) != ("b", "im0")]
    assert "different images (a 4, b 3, c 4)" in systems(rows, resampling=Resampling(20)).warnings[0]


def test_zeros_and_ones_are_shares():
    rows = rated({"a": (1, 1, 1, 0), "b": (0, 1, 0, 0)}, raters=("ann",))
    ranking = systems(rows, resampling=Resampling(20))
    assert ranking.standings[0].share and "75.0%" in str(ranking) and "points between two systems" in str(ranking)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"id": 1, "rating": 2}, {"id": 2, "rating": 3}], {}, "no systems, expected a column with the system"),
        (rated({"a": (1, 2)}), {}, r"one system only \(a\)"),
        ([{"image": 1, "captions": ["x", "y"], "preferred": 1}], {}, "the two systems of every pair, as a list"),
        (rated(), {"over": "raters"}, "over='raters', expected images or images"),
        (rated(raters=("ann",)), {"over": "images+raters"}, "one rater only"),
        (rated(), {"difference": -1.0}, "expected a number above 0"),
    ],
)
def test_what_cannot_be_ranked_is_refused_in_a_line(rows, options, message):
    with pytest.raises(InputError, match=message):
        systems(rows, **options)
