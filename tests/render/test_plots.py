"""Plots of results: matplotlib draws the charts that the page draws, with the same numbers, order and colors."""

import subprocess
import sys
from typing import get_args

import numpy as np
import pytest

from captious.errors import InputError, MissingExtra
from captious.render import Cell, Chart, Column, Document, Series, Table
from captious.render import _charts as svg_writer
from captious.render._plots import find_plot
from captious.render.document import ChartKind
from captious.render.notebook import COLORS

matplotlib = pytest.importorskip("matplotlib")
import matplotlib.pyplot as plt
from matplotlib.colors import to_hex

from captious.render import _matplotlib as figure_writer


@pytest.fixture(autouse=True)
def without_windows():
    matplotlib.use("agg")
    yield
    plt.close("all")


def plotted(document, name=None):
    """What is plotted, as a list of its values: panel, row, value, low, high."""
    return [
        (chart.title, x, series.y[index], *(part[index] for part in (series.low, series.high) if len(part)))
        for chart in find_plot(document, name).charts
        for series in chart.series
        for index, x in enumerate(series.x)
    ]


def dots(axes):
    """The dots of axes: place and color of each, without the legend's."""
    return [
        (float(x), round(float(y), 3), to_hex(line.get_color()))
        for line in axes.lines
        if line.get_marker() == "o"
        for x, y in zip(*line.get_data(), strict=True)
    ]


def rows(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_both_writers_draw_every_kind_of_chart():
    assert set(svg_writer._DRAWINGS) == set(figure_writer._DRAWINGS) == set(get_args(ChartKind))


def test_a_table_gives_values_with_their_intervals_in_panels_of_one_scale(samples):
    first, second = samples.Sample().plot().axes  # a value up to 1 and one up to 10 share no axis
    assert (rows(first), rows(second)) == (["BLEU-4"], ["CIDEr"])  # SPICE has no value
    assert dots(first) == [(0.31415926, 0.0, COLORS[0])]
    assert [0.30, 0.33] in [list(line.get_xdata()) for line in first.lines]
    assert texts(first) == ["0.3142  [0.3000, 0.3300]"]


def test_every_kind_of_chart_and_the_items_are_drawn_and_saved(samples, tmp_path):
    sample = samples.everything()
    names = "scores systems intervals dots bars lines scatter histogram ngrams wide items"
    for name in names.split():
        sample.plot(name).savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    for suffix, start in (("pdf", b"%PDF"), ("svg", b"<?xml")):
        sample.plot().savefig(tmp_path / f"chart.{suffix}")
        assert (tmp_path / f"chart.{suffix}").read_bytes().startswith(start)


@pytest.mark.parametrize("kind", get_args(ChartKind))
def test_nothing_to_draw_is_drawn_as_an_empty_chart(kind, tmp_path):
    x = {"scatter": (0.0,), "histogram": (0.0, 1.0)}.get(kind, ("a",))
    for series in ([], [Series("s", x, (float("nan"),))]):
        Document("d", sections=[Chart(kind, series)]).plot().savefig(tmp_path / "chart.png")


def test_the_forest_has_the_order_colors_rings_and_numbers_of_the_page():
    """Two series: the colors are the first two, the first value is at the top, and a ring is not filled."""
    one = Series("one", ("a", "b"), (1.0, 2.0), (0.5, 1.5), (1.5, 2.5), hollow=(False, True))
    chart = Chart("intervals", [one, Series("two", ("c",), (3.0,))], "h", reference=0.0, reference_name="chance")
    (axes,) = Document("d", sections=[chart]).plot().axes
    assert rows(axes) == ["a", "b", "c"] and axes.get_ylim() == (2.5, -0.5)
    assert dots(axes) == [(1.0, 0, COLORS[0]), (2.0, 1, COLORS[0]), (3.0, 2, COLORS[1])]
    fills = [to_hex(line.get_markerfacecolor()) for line in axes.lines if line.get_marker() == "o"]
    assert fills == [COLORS[0], "#ffffff", COLORS[1]]
    assert texts(axes) == ["1.0  [0.5, 1.5]", "2.0  [1.5, 2.5]", "3.0", "chance"]
    page = svg_writer.draw_chart(chart)
    assert all(text in page for text in texts(axes))
    # The page names its colors by number; a notebook replaces them by the same list that a plot uses.
    assert [page.count(f'fill="var(--s{index})"') for index in (0, 1, 2)] == [1, 1, 0] and 'class="hollow"' in page


def test_a_histogram_reaches_from_edge_to_edge_of_its_bins():
    chart = Chart("histogram", [Series("s", [0.0, 0.5, 1.0], [3, 1])], "h")
    (axes,) = Document("d", sections=[chart]).plot("histogram").axes
    assert [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in axes.patches] == [(0, 0.5, 3), (0.5, 0.5, 1)]


def test_several_columns_have_a_panel_each_and_the_marks_are_explained():
    columns = ["system", Column("BLEU", spread="half"), Column("CIDEr", scale=100, spread="half")]
    cells = [("a", Cell(0.1, 0.0, 0.2), Cell(1, 0.9, 1.1)), ("b", Cell(0.2, 0.1, 0.3, mark="†"), Cell(2, 1.9, 2.1))]
    table = Table("systems", "Systems", columns, cells, "± is half of the interval. † differs from a; more")
    document = Document("d", sections=[table])
    assert [(panel, row, value) for panel, row, value, *_ in plotted(document)] == [
        ("BLEU", "a", 0.1), ("BLEU", "b", 0.2), ("CIDEr", "a", 100), ("CIDEr", "b", 200),
    ]  # fmt: skip
    figure = document.plot()
    bleu, cider = figure.axes
    assert (bleu.get_title("left"), cider.get_title("left")) == ("BLEU", "CIDEr")
    assert [color for *_, color in dots(bleu)] == [COLORS[0], COLORS[1]] and texts(bleu) == ["†"]
    assert figure.get_suptitle() == "Systems" and figure.get_supxlabel() == "† differs from a"


def test_rows_of_one_first_name_share_a_panel_where_it_decides_the_scale():
    cells = [Cell(0.1, limits=(-1, 1)), Cell(0.2, limits=(-1, 1)), Cell(3.0, limits=(-5, 5)), Cell(4.0, limits=(-5, 5))]
    names = [("BLEU", "b − a"), ("BLEU", "c − a"), ("CIDEr", "b − a"), ("CIDEr", "c − a")]
    columns = ["metric", "systems", Column("difference", signed=True, bar=True)]
    document = Document("d", sections=[Table("t", "t", columns, [(*n, c) for n, c in zip(names, cells, strict=True)])])
    assert [tuple(point[:2]) for point in plotted(document)] == names
    assert all(chart.reference == 0.0 for chart in find_plot(document).charts)


def test_the_distribution_of_one_system_is_a_histogram_and_of_several_quantiles(samples):
    column = np.array([0.0, 1.0, 2.0, 3.0, np.nan])
    content = {"ids": list("abcde"), "texts": [[("x",)] * 5], "references": (), "reasons": (), "fields": {}}
    content["metrics"] = samples.items().metrics[:1]
    one = samples.items(**content, systems=["s"], values=[[column]])
    (chart,) = find_plot(samples.Sample([one]).document(), "items").charts
    (series,) = chart.series
    assert sum(series.y) == 4 and (series.x[0], series.x[-1]) == (0.0, 3.0)
    two = samples.items(**{**content, "texts": [[("x",)] * 5] * 2}, systems=["s", "t"], values=[[column], [column + 1]])
    # Quartiles of 0, 1, 2, 3: 0.75, 1.5, 2.25.
    assert [point[1:] for point in plotted(samples.Sample([two]).document(), "items")] == [
        ("s", 1.5, 0.75, 2.25), ("t", 2.5, 1.75, 3.25),
    ]  # fmt: skip


def test_the_mean_of_dots_is_over_the_dots_of_a_row(samples):
    (axes,) = samples.everything().plot("dots").axes
    means = [float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() != "o"]
    assert means == [2.0, 3.0]  # of 1, 2, 3 and of 2, 3, 4


def test_the_line_of_a_scatter_and_the_name_of_a_reference_are_those_of_the_page():
    x, y = [0.0] * 50 + [1.0] * 50, [2.0] * 50 + [4.0] * 50
    chart = Chart("scatter", [Series("s", x, y)], "h", reference=3.0, reference_name="chance")
    (axes,) = Document("d", sections=[chart]).plot("scatter").axes
    (cloud,), (line, rule) = axes.collections, axes.lines
    assert len(cloud.get_offsets()) == 100 and np.array_equal(line.get_xydata(), [[0, 2], [1, 4]])
    assert list(rule.get_ydata()) == [3.0, 3.0] and texts(axes) == ["chance"]


def test_bounds_are_dashed_lines_on_the_page_and_in_the_plot():
    series = Series("s", ["a"], [0.0], [-0.05], [0.05])
    chart = Chart("dots", [series], "h", reference=0.0, bounds=(-0.1, 0.1))
    (axes,) = Document("d", sections=[chart]).plot("dots").axes
    assert [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "--"] == [-0.1, 0.1, 0.0]
    assert svg_writer.draw_chart(chart).count('class="reference"') == 3


def test_a_plot_is_drawn_into_axes_of_the_user(samples):
    sample = samples.Sample()  # two panels
    figure, axes = plt.subplots(2)
    assert sample.plot(ax=axes) is figure and [rows(one) for one in axes] == [["BLEU-4"], ["CIDEr"]]
    figure, one = plt.subplots()
    assert sample.plot(ax=one) is figure
    assert [rows(child) for child in one.child_axes] == [["BLEU-4"], ["CIDEr"]]
    figure, one = plt.subplots()
    samples.everything().plot("histogram", ax=one)
    assert len(one.patches) == 2 and one.get_title("left") == "Histogram"
    with pytest.raises(InputError, match="3 axes for a plot of 2 panels, expected one or 2"):
        sample.plot(ax=plt.subplots(3)[1])


def test_numbers_beside_rows_stay_inside_axes_of_the_user(samples):
    """Otherwise they are written over the next axes of the user's figure."""
    figure, (one, other) = plt.subplots(1, 2, figsize=(11, 4))
    sample = samples.Sample()
    sample.plot(ax=one)
    figure.canvas.draw()
    written = [text.get_window_extent() for child in one.child_axes for text in child.texts]
    assert written and max(box.x1 for box in written) <= one.get_window_extent().x1 < other.get_window_extent().x0


def test_names_are_never_read_as_tex(tmp_path):
    chart = Chart("lines", [Series("$x^", ("$a_", "b$"), (1, 2)), Series("$y^", ("$a_", "b$"), (2, 1))], "$t^", "$n_")
    Document("d", sections=[chart]).plot().savefig(tmp_path / "chart.png")  # matplotlib refuses broken TeX


def test_a_wrong_name_says_what_there_is(samples):
    with pytest.raises(InputError, match="no plot 'score', expected one of scores; did you mean 'scores'"):
        samples.Sample().plot("score")
    with pytest.raises(InputError, match="contains nothing to plot"):
        Document("empty").plot()


def test_without_matplotlib_the_extra_is_named(samples, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtra, match=r"needs matplotlib.*captious\[plot\]"):
        samples.Sample().plot()


def test_a_report_is_plotted_and_saved_without_network_and_without_a_screen(tmp_path):
    """In a process of its own, in which every connection fails."""
    code = (
        "import socket, sys\n"
        "def refuse(*arguments, **options): raise OSError('there is no network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "import captious\n"
        "report = captious.evaluate(captious.demo().systems['expert'], 'rouge')\n"
        "report.plot().savefig(sys.argv[1])\n"
        "assert 'http' not in report._repr_html_()\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "report.pdf")], check=True)
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
