"""Orders and filters of a view, each worked out by hand on four items."""

import json
import math
from itertools import chain

import numpy as np
import pytest
from tests.studio.explore.conftest import write_made_up

from captious.errors import InputError
from captious.runs.marker import MetricFacts
from captious.stats.correlation import spearman
from captious.studio.explore import _chart_data as charts
from captious.studio.explore._views import Explorer, find_inside, parse_view
from captious.studio.explore.explorer_table import open_table

NAN = float("nan")
METRICS = (MetricFacts("good", "Good"), MetricFacts("error", "Error", higher_is_better=False))
VALUES = {
    "A": {"good": [0.1, 0.9, 0.5, None], "error": [3.0, 1.0, 2.0, 4.0]},
    "B": {"good": [0.8, 0.2, 0.5, 0.4], "error": [1.0, 2.0, 3.0, 4.0]},
}
RATINGS = [("a", "A", 5), ("b", "A", 0), ("b", "A", 2), ("c", "A", 2.5), ("c", "A", 3.5)]
RATINGS += [("a", "B", 2.5), ("a", "B", 5.5), ("b", "B", 2)]


@pytest.fixture
def explorer(tmp_path, kept):
    """Two systems, two metrics, ratings; captions are as long as their values say."""
    texts = ["one", "one two three", "one two", "one two three four"]
    references = [["a Dog"], ["a cat"], [], ["the dog house"]]
    for system, values in VALUES.items():
        rows = [
            {
                "id": key,
                "candidates": [texts[at]],
                "references": references[at],
                **{name: own[at] for name, own in values.items()},
            }
            for at, key in enumerate("abcd")
        ]
        write_made_up(tmp_path / system, system, METRICS, rows)
    ratings = [
        {"id": key, "system": system, "rater": f"r{at}", "rating": value}
        for at, (key, system, value) in enumerate(RATINGS)
    ]
    (tmp_path / "ratings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ratings))
    return Explorer(open_table([tmp_path / system for system in VALUES], tmp_path / "ratings.jsonl"))


def listed(explorer, **address):
    view = parse_view(explorer.table, {"sort": "good", **address})
    items = explorer.list_items(view)
    assert [one.item for one in explorer.read_page(view, 0, 3)] == items[:3]
    assert [one.item for one in explorer.read_page(view, 2, 3)] == items[2:]
    assert [explorer.find_place(view, item) for item in items] == list(range(len(items))) and explorer.get_total(
        view
    ) == len(items)
    assert "".join(chain.from_iterable(explorer.iterate_ids(view))) == "".join("abcd"[item] for item in items)
    return "".join("abcd"[item] for item in items)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ({"order": "worst", "system": "A"}, "acbd"),  # d has no value
        ({"order": "worst"}, "dacb"),  # means 0.45, 0.55, 0.5, 0.4: d a(0.45) c(0.5) b(0.55)
        ({"order": "best"}, "bcad"),
        ({"order": "worst", "sort": "error", "system": "A"}, "dacb"),  # a high error is bad
        ({"order": "gap"}, "abcd"),  # 0.7, 0.7, 0, none
        ({"order": "between", "better": "A", "worse": "B"}, "bcad"),  # 0.7, 0, −0.7, none
        ({"order": "between", "better": "B", "worse": "A"}, "acbd"),
        ({"order": "between", "better": "A", "worse": "B", "sort": "error"}, "bcda"),  # B − A: −2, 1, 1, 0
        # Ranks of A by good: a 0, b 2, c 1; by error, low is good: a 0, b 2, c 1 of three: they agree everywhere.
        ({"order": "disagree", "x": "good", "y": "error", "system": "A"}, "abcd"),
        # Of B: good b 0, d 1, c 2, a 3; error: d 0, c 1, b 2, a 3; differences a 0, b 2, c 1, d 1.
        ({"order": "disagree", "x": "good", "y": "error", "system": "B"}, "bcda"),
        ({"order": "raters"}, "abcd"),  # 3, 2, 1, none
        ({"order": "raters", "system": "A"}, "bcad"),
        ({"order": "shortest"}, "acbd"),
        ({"order": "longest"}, "dbca"),
        ({"order": "given"}, "abcd"),
        # Captions that pass sort: a by A's 0.1, b by B's 0.2, d by B's 0.4; the means over both would begin with d.
        ({"order": "worst", "where": "good < 0.45"}, "abd"),
        # Of the rank differences above A's of a is 0, B's of b is 2 thirds, B's of d 1 third.
        ({"order": "disagree", "x": "good", "y": "error", "where": "good < 0.45"}, "bda"),
    ],
)
def test_orders(explorer, address, expected):
    assert listed(explorer, **address) == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ({"q": "dog"}, "ad"),
        ({"q": "DOG house"}, "d"),
        ({"q": "three"}, "bd"),
        ({"min": "0.8", "max": "0.85"}, "a"),  # of B
        ({"min": "0.8", "max": "0.85", "system": "A"}, ""),
        ({"max": "0.3"}, "ab"),
        ({"unscored": "1"}, "d"),
        ({"where": "good@A > good@B"}, "b"),
        ({"where": "words > 2", "q": "dog"}, "d"),
        # A triangle around (good 0.9, error 1), the point of b in A.
        ({"x": "good", "y": "error", "lasso": "0.85,0.5;1,0.5;0.9,1.5"}, "b"),
    ],
)
def test_filters(explorer, address, expected):
    assert listed(explorer, order="given", **address) == expected


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ({"sort": "nosuch"}, "no metric 'nosuch'.*good.*error.*rating"),
        ({"system": "C"}, "no system 'C', expected A, B"),
        ({"order": "odd"}, "order 'odd', expected worst"),
        ({"min": "x"}, "min='x', expected a number"),
        ({"max": "nan"}, "expected a finite number"),
        ({"lasso": "1,2;3"}, "lasso: expected corners"),
        ({"lasso": "1,2;3,4"}, "2 corners, expected 3 to 200"),
        ({"lasso": ";".join(["1,inf"] * 4)}, "finite"),
        ({"lasso": ";".join(["1,2"] * 300)}, "300 corners"),
        ({"where": "good <"}, "filter, character 7"),
    ],
)
def test_an_address_that_is_wrong_is_refused_in_one_line(explorer, address, message):
    with pytest.raises(InputError, match=message):
        listed(explorer, **address)


def test_what_passes_a_filter_is_kept_for_the_pages_that_follow(explorer, monkeypatch):
    view = parse_view(explorer.table, {"sort": "good", "q": "dog"})
    first = explorer.read_page(view, 0, 1)
    monkeypatch.setattr(Explorer, "_choose", lambda self, view: pytest.fail("filtered again"))
    assert explorer.read_page(parse_view(explorer.table, {"sort": "good", "q": "DOG"}), 0, 1) == first


def test_many_views_do_not_fill_the_memory(explorer):
    from captious.studio.explore._views import KEPT

    for number in range(KEPT + 5):
        listed(explorer, q=f"word{number}")
    assert len(explorer._kept) <= KEPT


def test_rho_is_as_scipy_has_it():
    from scipy import stats

    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 9, 200).astype(float), rng.normal(size=200)
    y[:20] = NAN
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x[20:], y[20:]).statistic, abs=1e-12)
    assert math.isnan(spearman(np.ones(5), np.arange(5.0)))


def test_inside_a_polygon_with_a_notch():
    # A U: the point between its arms is outside.
    corners = [(0, 0), (3, 0), (3, 3), (2, 3), (2, 1), (1, 1), (1, 3), (0, 3)]
    x, y = np.array([0.5, 1.5, 2.5, 1.5, 9.0]), np.array([2.0, 2.0, 2.0, 0.5, 0.5])
    assert find_inside(x, y, corners).tolist() == [True, False, True, True, False]


def test_share_below_counts_smaller_values(explorer):
    # Of A by good: 0.1, 0.5, 0.9.
    assert explorer.compute_share_below(0, 0, 0.1) == 0
    assert explorer.compute_share_below(0, 0, 0.9) == pytest.approx(200 / 3)


def test_distribution_counts_every_value_once(explorer):
    found = charts.count_bins(explorer.table, 0, 0.0, 1.0, 5)
    assert found[0] == {"counts": [1, 0, 1, 0, 1], "mean": pytest.approx(0.5)}
    assert found[1]["counts"] == [0, 1, 2, 0, 1]  # 0.2, then 0.4 and 0.5, then 0.8


def test_charts_follow_the_captions_that_pass(explorer):
    passing = explorer.select_captions(
        parse_view(explorer.table, {"sort": "good", "where": "good < 0.45"})
    )  # a of A, b and d of B
    bars = charts.count_bins(explorer.table, 0, 0.0, 1.0, 5, passing)
    assert bars[0] == {"counts": [1, 0, 0, 0, 0], "mean": pytest.approx(0.1)}
    assert bars[1] == {"counts": [0, 1, 1, 0, 0], "mean": pytest.approx(0.3)}
    dots = charts.build_scatter(explorer, 0, 1, passing)
    assert [[dot[0] for dot in one["dots"]] for one in dots] == [["a"], ["b", "d"]]
    # One caption has no rank correlation; of B good 0.2 and 0.4 go with error 2 and 4.
    assert [one["rho"] for one in dots] == [None, pytest.approx(1.0)]
    assert explorer.compute_agreement(passing)[1][0][1] == pytest.approx(1.0)
    steps = charts.group_by_length(explorer.table, 0, passing)["systems"][1]["steps"]
    assert [(step["bin"], step["center"]) for step in steps] == [(3, 0.2), (4, 0.4)]
    nothing = explorer.select_captions(parse_view(explorer.table, {"q": "zebra"}))
    assert all(one == {"rho": None, "dots": []} for one in charts.build_scatter(explorer, 0, 1, nothing))


def test_points_are_thinned_and_rho_is_over_all(explorer, monkeypatch):
    monkeypatch.setattr(charts, "DOTS", 2)
    found = charts.build_scatter(explorer, 0, 1)
    assert [dot[0] for dot in found[1]["dots"]] == ["a", "d"]
    # Good 0.8 0.2 0.5 0.4 has the ranks 3 0 2 1, error those of 0 1 2 3: differences 3, 1, 0, 2, rho = 1 − 6·14/60.
    assert found[1]["rho"] == pytest.approx(-0.4)


def test_lengths_have_a_mean_for_each_number_of_words(explorer):
    found = charts.group_by_length(explorer.table, 0)
    assert found["domain"] == [0, 5] and found["size"] == 1
    steps = found["systems"][0]["steps"]
    assert [(step["bin"], step["number"], step["center"]) for step in steps] == [(1, 1, 0.1), (2, 1, 0.5), (3, 1, 0.9)]


def test_what_an_address_leaves_out_is_what_the_page_begins_with(explorer):
    view = parse_view(explorer.table, {"better": "B"})
    assert (view.score, view.x, view.y) == (1, 1, 2)  # the last metric, against what people said
    assert (view.better, view.worse) == (1, 1) and parse_view(explorer.table, {}).better == 0


def test_filters_ask_one_caption_not_one_each(explorer):
    # Of a, A has 0.1 and B 0.8. A's dot (0.1, rating 5) is in the lasso, B's (0.8, rating 4) is not.
    lasso = {"x": "good", "y": "rating", "lasso": "0,4.5;0.3,4.5;0.3,5.5;0,5.5"}
    assert listed(explorer, **lasso) == "a" and listed(explorer, **lasso, max="0.3") == "a"
    assert listed(explorer, **lasso, min="0.5") == ""  # only B has such a value, and B is outside the lasso

    def passes(**address):
        return [one.passes for one in explorer.read_page(parse_view(explorer.table, {"sort": "good", **address}), 0, 9)]

    assert passes(**lasso) == [(True, False)]
    assert passes(**lasso, system="A") == [(True, True)]  # a system that is not looked at is not gray
    assert passes() == [(True, True)] * 4


def test_what_sorts_an_item_is_a_number_to_show(explorer):
    def sorted_by(**address):
        listed = explorer.read_page(parse_view(explorer.table, {"sort": "good", **address}), 0, 9)
        return [one.value and round(one.value, 6) for one in sorted(listed)]

    assert sorted_by(order="raters")[:3] == [3.0, 2.0, 1.0]
    assert sorted_by(order="best") == sorted_by(order="worst") == [0.45, 0.55, 0.5, 0.4]
    assert sorted_by(order="between", better="A", worse="B", sort="error") == [
        -2.0,
        1.0,
        1.0,
        0.0,
    ]  # less error is right


def test_the_metric_that_sorts_stands_against_people(explorer):
    views = [
        parse_view(explorer.table, address) for address in ({"sort": "good"}, {"sort": "error"}, {"sort": "rating"})
    ]
    assert [(view.x, view.y) for view in views] == [(0, 2), (1, 2), (1, 2)]
