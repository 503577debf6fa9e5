"""One rank rule for studies, systems, comparisons and arenas: sharing no rank is a significant difference."""

from itertools import combinations

import numpy as np

import captious
from captious import Resampling
from captious._tournament import Tournament
from captious.stats.bootstrap import Estimate
from captious.stats.pairwise import name_elo, name_rate

RULE = "share a rank do not differ significantly, those that share none do"


def assert_rule(ranks, p_holm):
    """Two share a rank exactly where the adjusted p is not below 0.05."""
    assert len(p_holm) == len(ranks) * (len(ranks) - 1) // 2
    for (one, other), p in p_holm.items():
        assert bool({*ranks[one]} & {*ranks[other]}) == (not p < 0.05), (one, other, p)


def text_of(result):
    return " ".join(str(result).split())


def columns_of(table):
    return [column if isinstance(column, str) else column.name for column in table.columns]


def test_systems_by_ratings():
    """A is better than C; neither differs from B: the case for which clusters have no answer."""
    # Noise of ± 0.6 in three patterns that are independent: the standard error of a difference is
    # 0.6 · √2 / √40 = 0.134, so that 0.2 between neighbors is 1.5 of it (p = 0.14), and 0.4 is 3.0 (p = 0.005, × 3).
    mean, period = {"A": 3.4, "B": 3.2, "C": 3.0}, {"A": 1, "B": 2, "C": 4}
    rows = [
        {"image": str(image), "system": name, "rating": mean[name] + 0.6 * (-1) ** (image // period[name])}
        for image in range(40)
        for name in mean
    ]
    ranking = captious.study.systems(rows)
    (standing,) = ranking.standings
    ranks = {one.system: one.ranks for one in standing.systems}
    p_holm = {(one.first, one.second): one.p_holm for one in standing.contests}
    assert p_holm["A", "C"] < 0.05 < min(p_holm["A", "B"], p_holm["B", "C"])
    assert ranks == {"A": (1,), "B": (1, 2), "C": (2,)}
    assert_rule(ranks, p_holm)
    assert [row[0] for row in ranking.document().table("people").rows] == ["1", "1–2", "2"]
    assert f"systems that {RULE} (Holm-adjusted p < 0.05)" in text_of(ranking) and "ranks:shared" in ranking.signature


def test_metrics_of_a_study():
    rng = np.random.default_rng(1)
    quality = rng.integers(1, 6, 80).astype(float)
    people = {str(number): value for number, value in enumerate(quality)}
    noise = {"a": 0.5, "b": 1.1, "c": 1.4, "d": 3.0}
    metrics = {name: dict(zip(people, quality + rng.normal(0, size, 80), strict=True)) for name, size in noise.items()}
    study = captious.correlate(people, metrics, resampling=Resampling(200))
    p_holm = {(one.first, one.second): one.p_holm for one in study.contests}
    assert_rule(study.ranks, p_holm)
    assert len({rank for ranks in study.ranks.values() for rank in ranks}) > 1
    assert f"metrics that {RULE} (permutation test" in text_of(study) and "ranks:shared,p<0.05" in study.signature


def test_systems_of_a_comparison():
    references = {str(key): "a brown dog runs on the green grass" for key in range(30)}
    words = references["0"].split()
    rng = np.random.default_rng(2)
    systems = {
        name: {key: " ".join(words[: max(1, int(rng.normal(kept, 1.5)))]) for key in references}
        for name, kept in (("long", 6.0), ("middle", 5.6), ("short", 5.0), ("least", 2.0))
    }
    comparison = captious.compare(systems, "rouge", references=references, every_pair=True)
    p_holm = {(row.baseline, row.system): row.p_holm for row in comparison.differences}
    assert_rule(comparison.ranks["rouge"], p_holm)
    assert comparison.ranks["rouge"]["least"][0] > 1
    assert columns_of(comparison.document().table("ranks")) == ["metric", *systems]
    assert f"systems that {RULE} (paired randomization" in text_of(comparison)
    # Against the first system alone there is no order of the others, so there are no ranks.
    assert captious.compare(systems, "rouge", references=references).ranks == {}


def test_systems_that_met_in_pairs():
    """Wins of 60 comparisons each; p as given: A and C differ, B differs from neither."""
    names = ("A", "B", "C")
    wins = np.array([[0.0, 33, 44], [27, 0, 36], [16, 24, 0]])
    values = {name_elo(name): Estimate(points) for name, points in zip(names, (1050.0, 1005.0, 945.0), strict=True)}
    values |= {name_rate(name): Estimate(0.5) for name in names}
    values |= {name_rate(*pair): Estimate(0.5) for pair in combinations(names, 2)}
    p_values = {("A", "B"): 0.5, ("A", "C"): 0.001, ("B", "C"): 0.15}
    tournament = Tournament(names, wins, np.zeros((3, 3)), values, p_values, "sign test", Resampling(0))
    assert tournament.ranks == {"A": (1,), "B": (1, 2), "C": (2,)}
    assert_rule(tournament.ranks, {(one["first"], one["second"]): one["p_holm"] for one in tournament.tests})
    table = tournament.make_table()
    assert [row[:2] for row in table.rows] == [("1", "A"), ("1–2", "B"), ("2", "C")]
    assert f"Systems that {RULE} (sign test, Holm-adjusted p < 0.05)" in table.note


def test_the_leaderboard_says_what_its_ranks_mean():
    assert f"metrics that {RULE} (permutation test, Holm-adjusted p < 0.05)" in text_of(captious.study.leaderboard())
