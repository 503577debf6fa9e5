"""Charts for a notebook: the document's numbers in Vega-Lite, checked against its schema by Altair itself."""

import sys

import numpy as np
import pytest

from captious.errors import InputError, MissingExtra
from captious.render import Cell, Chart, Column, Document, Series, Table
from captious.render._charts import svg

alt = pytest.importorskip("altair")


def values(chart):
    """The rows of data in a chart, and the chart as Vega-Lite; Altair validates it."""
    spec = chart.to_dict()
    return [dict(row) for row in spec["data"]["values"]], spec


def test_a_table_gives_values_with_their_intervals(samples):
    rows, _ = values(samples.Sample().plot())
    assert [row["row"] for row in rows] == ["BLEU-4", "CIDEr"]  # SPICE has no value
    assert (rows[0]["value"], rows[0]["low"], rows[0]["high"]) == (0.31415926, 0.30, 0.33)
    assert rows[0]["text"] == "0.3142 [0.3000, 0.3300]"
    assert rows[0]["panel"] != rows[1]["panel"]  # a value up to 1 and one up to 10 share no axis


def test_every_kind_of_chart_and_the_items_can_be_drawn(samples):
    sample = samples.everything()
    names = "scores systems intervals dots bars lines scatter histogram ngrams wide items"
    for name in names.split():
        assert isinstance(sample.plot(name), alt.TopLevelMixin)
        sample.plot(name).to_dict()


def test_a_histogram_has_the_edges_of_its_bins():
    document = Document("d", sections=[Chart("histogram", [Series("s", [0.0, 0.5, 1.0], [3, 1])], "h")])
    rows, _ = values(document.plot("histogram"))
    assert [(row["low"], row["high"], row["y"]) for row in rows] == [(0.0, 0.5, 3), (0.5, 1.0, 1)]


def test_several_columns_have_a_panel_each_and_the_marks_are_explained():
    columns = ["system", Column("BLEU", spread="half"), Column("CIDEr", scale=100, spread="half")]
    rows = [("a", Cell(0.1, 0.0, 0.2), Cell(1, 0.9, 1.1)), ("b", Cell(0.2, 0.1, 0.3, mark="†"), Cell(2, 1.9, 2.1))]
    table = Table("systems", "Systems", columns, rows, "± is half of the interval. † differs from a; more")
    points, spec = values(Document("d", sections=[table]).plot())
    assert [(point["panel"], point["row"]) for point in points] == [
        ("BLEU", "a"), ("BLEU", "b"), ("CIDEr", "a"), ("CIDEr", "b"),
    ]  # fmt: skip
    assert points[2]["value"] == 100 and points[1]["mark"] == "†"
    assert spec["title"]["subtitle"] == ["† differs from a"]


def test_rows_of_one_first_name_share_a_panel_where_it_decides_the_scale():
    cells = [Cell(0.1, limits=(-1, 1)), Cell(0.2, limits=(-1, 1)), Cell(3.0, limits=(-5, 5)), Cell(4.0, limits=(-5, 5))]
    names = [("BLEU", "b − a"), ("BLEU", "c − a"), ("CIDEr", "b − a"), ("CIDEr", "c − a")]
    columns = ["metric", "systems", Column("difference", signed=True, bar=True)]
    rows = [(*name, cell) for name, cell in zip(names, cells, strict=True)]
    points, _ = values(Document("d", sections=[Table("t", "t", columns, rows)]).plot())
    assert [(point["panel"], point["row"]) for point in points] == names


def test_the_distribution_of_one_system_is_a_histogram_and_of_several_quantiles(samples):
    column = np.array([0.0, 1.0, 2.0, 3.0, np.nan])
    content = {"ids": list("abcde"), "texts": [[("x",)] * 5], "references": (), "reasons": (), "fields": {}}
    content["metrics"] = samples.items().metrics[:1]
    one = samples.items(**content, systems=["s"], values=[[column]])
    rows, _ = values(samples.Sample([one]).plot("items"))
    assert sum(row["items"] for row in rows) == 4 and (rows[0]["low"], rows[-1]["high"]) == (0.0, 3.0)
    two = samples.items(**{**content, "texts": [[("x",)] * 5] * 2}, systems=["s", "t"], values=[[column], [column + 1]])
    rows, _ = values(samples.Sample([two]).plot("items"))
    assert [(row["system"], row["p25"], row["p50"]) for row in rows] == [("s", 0.75, 1.5), ("t", 1.75, 2.5)]


def test_the_mean_of_dots_is_over_the_dots_of_a_row(samples):
    _, mean = samples.everything().plot("dots").to_dict()["layer"]
    assert mean["encoding"]["x"]["aggregate"] == "mean"
    # Any other encoding of the value would split the mean into single dots.
    assert {name: part.get("field") for name, part in mean["encoding"].items()} == {
        "color": "series",
        "x": "y",
        "y": "x",
    }


def test_the_line_of_a_scatter_and_the_name_of_a_reference_are_those_of_the_description():
    x, y = [0.0] * 50 + [1.0] * 50, [2.0] * 50 + [4.0] * 50
    chart = Chart("scatter", [Series("s", x, y)], "h", reference=3.0, reference_name="chance")
    dots, line, rule, name = Document("d", sections=[chart]).plot("scatter").to_dict()["layer"]
    assert dots["mark"]["type"] == "circle" and rule["mark"]["type"] == "rule"
    assert line["data"]["values"] == [{"x": 0.0, "y": 2.0}, {"x": 1.0, "y": 4.0}]
    assert (name["mark"]["text"], name["encoding"]["y"]["datum"]) == ("chance", 3.0)


def test_bounds_are_dashed_lines_on_the_page_and_in_the_description():
    series = Series("s", ["a"], [0.0], [-0.05], [0.05])
    chart = Chart("dots", [series], "h", reference=0.0, bounds=(-0.1, 0.1))
    layers = Document("d", sections=[chart]).plot("dots").to_dict()["layer"]
    rules = [one["encoding"]["x"].get("datum") for one in layers if one["mark"]["type"] == "rule"]
    assert [one for one in rules if one is not None] == [-0.1, 0.1, 0.0]
    assert svg(chart).count('class="reference"') == 3


def test_a_wrong_name_says_what_there_is(samples):
    with pytest.raises(InputError, match="no plot 'score', expected one of scores; did you mean 'scores'"):
        samples.Sample().plot("score")
    with pytest.raises(InputError, match="contains nothing to plot"):
        Document("empty").plot()


def test_a_chart_can_be_changed_and_saved(samples, tmp_path):
    chart = samples.Sample().plot().properties(title="mine")
    chart.save(tmp_path / "chart.html")
    assert "mine" in (tmp_path / "chart.html").read_text() and "0.31415926" in (tmp_path / "chart.html").read_text()


def test_without_altair_the_extra_is_named(samples, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingExtra, match=r"needs altair.*captious\[plot\]"):
        samples.Sample().plot()
