"""Charts: every kind is well-formed, points stand where their numbers say, and text is escaped."""

from xml.etree import ElementTree

import pytest

from captious.render import Chart, Series
from captious.render._charts import NARROW, Axis, draw_chart

NAN = float("nan")


def drawn(chart):
    return ElementTree.fromstring(draw_chart(chart))


def circles(chart):
    return [tag.attrib for tag in drawn(chart).iter("circle")]


def test_every_kind_is_well_formed(samples):
    for chart in samples.charts():
        text = draw_chart(chart)
        ElementTree.fromstring(text)
        assert "nan" not in text.lower().replace("reference", "")


@pytest.mark.parametrize("kind", ["intervals", "dots", "bars", "lines", "scatter", "histogram"])
def test_nothing_to_draw_is_drawn_as_an_empty_chart(kind):
    x = {"scatter": (0.0,), "histogram": (0.0, 1.0)}.get(kind, ("a",))
    for series in ([], [Series("s", x, (NAN,))]):
        drawn = draw_chart(Chart(kind, series))
        assert ElementTree.fromstring(drawn).tag.endswith("svg") and "nan" not in drawn.lower()


def test_an_axis_has_round_ticks_around_its_values():
    axis = Axis([0.13, 0.57], 0, 100)
    assert axis.ticks == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert (axis(0.1), axis(0.35), axis(0.6)) == (0, 50, 100)


def test_a_missing_value_has_no_point_and_a_missing_interval_no_whisker():
    chart = Chart("intervals", [Series("s", "abc", (1.0, 2.0, NAN), (0.5, NAN, NAN), (1.5, NAN, NAN))], decimals=2)
    assert len(circles(chart)) == 2
    assert draw_chart(chart).count('stroke-linecap="round"') == 1
    assert "1.00  [0.50, 1.50]" in draw_chart(chart) and "2.00  [" not in draw_chart(chart)


def test_several_series_share_a_row_with_their_intervals():
    """Two names and two series: four dots at four heights, three intervals, one dot without."""
    one = Series("one", ("a", "b"), (1.0, 2.0), (0.5, 1.5), (1.5, 2.5), hollow=(False, True))
    two = Series("two", ("a", "b"), (1.0, 2.0), (0.5, NAN), (1.5, NAN))
    chart = drawn(Chart("dots", [one, two]))
    dots, lines = list(chart.iter("circle")), [part for part in chart.iter("line") if part.get("stroke-width") == "2"]
    assert (len(dots), len(lines)) == (4, 3)
    assert [dot.get("class") for dot in dots] == [None, "hollow", None, None]
    assert len({dot.get("cy") for dot in dots}) == 4
    assert dots[0][0].text == "one, a: 1.0 [0.5, 1.5]"
    assert [part.text for part in chart.iter("text") if part.get("x") == "8"] == ["a", "b"]


def test_hollow_points_are_rings():
    chart = Chart("intervals", [Series("s", "ab", (1.0, 2.0), hollow=(True, False))])
    assert [point.get("class") for point in circles(chart)] == ["hollow", None]


def test_names_and_labels_are_escaped():
    nasty = "</svg><script>&"
    chart = Chart("scatter", [Series(nasty, (1, 2), (1, 2), labels=(nasty, nasty))], nasty, x=nasty, y=nasty)
    assert "<script>" not in draw_chart(chart)
    assert [tag.text for tag in drawn(chart).iter("title")] == [nasty, nasty]


def test_a_crowded_scatter_draws_a_part_the_same_each_time():
    chart = Chart("scatter", [Series("s", tuple(range(5000)), tuple(range(5000)))])
    assert len(circles(chart)) == 3000
    assert draw_chart(chart) == draw_chart(chart)


def test_bars_of_a_histogram_reach_from_edge_to_edge():
    chart = Chart("histogram", [Series("s", [0.0, 0.25, 0.5, 1.0], [4, 0, 2], labels=["a", "b", "<c>"])])
    first, empty, last = (tag.attrib for tag in drawn(chart).iter("rect"))
    # From 64 to 526 pixels: 462 for the whole axis, a quarter of it 115.5, less one pixel between bars.
    assert (float(first["x"]), float(first["width"])) == (64.0, 114.5)
    assert (float(last["x"]), float(last["width"])) == (295.0, 230.0)
    # From 250 up to 14: four is the highest tick.
    assert (float(first["height"]), float(empty["height"]), float(last["height"])) == (236.0, 0.0, 118.0)
    assert [tag.text for tag in drawn(chart).iter("title")] == ["a", "b", "<c>"]


@pytest.mark.parametrize("kind", ["intervals", "dots", "bars", "lines", "scatter", "histogram"])
def test_a_phone_gets_a_drawing_of_its_own_with_everything_inside(samples, kind):
    """Nothing is placed outside a drawing of 330 units, and the same points are drawn as in the wide one."""
    chart = next(chart for chart in samples.charts() if chart.kind == kind)
    narrow, wide = (ElementTree.fromstring(text) for text in (draw_chart(chart, NARROW), draw_chart(chart)))
    across, height = map(float, narrow.get("viewBox").split()[2:])
    ends = [float(tag.get(name)) for tag in narrow.iter() for name in ("x", "x1", "x2", "cx") if tag.get(name)]
    assert across == 330 and min(ends) >= 0 and max(ends) <= 330
    assert all(float(tag.get("y")) <= height for tag in narrow.iter("text"))
    assert len(list(narrow.iter("circle"))) == len(list(wide.iter("circle")))


def test_on_a_phone_the_name_and_number_of_a_row_stand_above_its_interval():
    chart = Chart("intervals", [Series("s", ("a", "b"), (1.0, 2.0), (0.5, 1.5), (1.5, 2.5))])
    drawn = ElementTree.fromstring(draw_chart(chart, NARROW))
    texts = {tag.text: float(tag.get("y")) for tag in drawn.iter("text")}
    first, second = (float(tag.get("cy")) for tag in drawn.iter("circle"))
    assert texts["a"] == texts["1.0  [0.5, 1.5]"] < first < texts["b"] == texts["2.0  [1.5, 2.5]"] < second
