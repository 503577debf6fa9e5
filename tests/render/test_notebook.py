"""What a notebook's cell shows: the page's tables, bars, charts and cards, with no script and no style sheet."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from captious.render import Cell, Chart, Column, Document, Entry, Gallery, Line, Picture, Series, Table, Text
from captious.render.html import render_page
from captious.render.notebook import COLORS, ROWS, render_notebook


class Reading(HTMLParser):
    """Tags with their attributes, and the text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def styles(text, tag):
    return [attributes.get("style", "") for name, attributes in Reading(text).tags if name == tag]


def test_it_needs_no_script_and_no_style_sheet_and_captions_cannot_become_markup(samples):
    text = render_notebook(samples.everything().document())
    reading = Reading(text)
    assert {"script", "style", "link", "a", "h1", "h2", "b"}.isdisjoint(tag for tag, _ in reading.tags)
    assert [attributes for _, attributes in reading.tags if "id" in attributes or "onclick" in attributes] == []
    assert [attributes["class"] for _, attributes in reading.tags if "class" in attributes] == ["captious"]
    assert "var(--s" not in text and "http" not in text
    assert samples.NASTY in reading.text and "0.3142" in reading.text


def test_details_groups_items_and_clouds_of_dots_stay_on_the_page(samples):
    text = Reading(render_notebook(samples.everything().document())).text
    assert "n-gram" not in text and "a leak" not in text  # in a group
    assert "Scatter" not in text and "Forest" in text
    assert "not painted" not in text  # a gallery that replaces no table


def test_values_with_an_interval_have_a_band_and_a_line_on_the_scale_of_their_cell(samples):
    text = render_notebook(samples.Sample().document())
    bands = [style for style in styles(text, "i") if "right:" in style]
    assert [style.split(";")[-2:] for style in bands] == [["left:30.0%", "right:67.0%"], ["left:9.8%", "right:88.9%"]]
    assert all("position:absolute" in style for style in bands)
    # Between its top and its bottom: a height would push it out of the track.
    assert all(style.rindex("height:auto") > style.find("height:100%") for style in bands)


def test_text_keeps_the_color_of_the_theme(samples):
    text = render_notebook(samples.everything().document())
    assert re.findall(r"[;\"]color:", text) == []
    assert "fill:currentColor" in text


def test_systems_have_their_colors_and_the_best_is_bold():
    columns = ["system", Column("CIDEr", higher_is_better=True, spread="half", bar=True)]
    rows = [("a", Cell(1.0, 0.9, 1.1)), ("b", Cell(2.0, 1.9, 2.1, mark="†"))]
    text = render_notebook(Document("t", sections=[Table("s", "Systems", columns, rows, turned=True)]))
    cells = [style for style in styles(text, "td") if "--bar" in style]
    assert [f"--bar:{color}" in cell for color, cell in zip(COLORS, cells, strict=False)] == [True, True]
    assert ["font-weight:700" in cell for cell in cells] == [False, True]


def test_warnings_are_shown_and_signatures_folded(samples):
    text = render_notebook(samples.everything().document())
    assert "warning 0" in text and "3 more warnings" in text
    folded = text[text.index("<summary", text.index("more warnings")) :]
    assert "<details" in text and "cider|idf:refs|captious:1" in folded


def test_a_long_table_is_cut_and_says_so():
    table = Table("t", "t", ["n", Column("v")], [(str(row), row) for row in range(ROWS + 50)], "A note.")
    text = Reading(render_notebook(Document("d", sections=[table]))).text
    assert "… and 50 more rows. A note." in text and f"{ROWS - 1}" in text and f"{ROWS + 49}" not in text


@pytest.mark.parametrize("write", [render_notebook, render_page])
def test_a_gallery_takes_the_place_of_its_table(write):
    pixels = np.full((8, 8, 3), 200, np.uint8)
    gallery = Gallery("Worst", [Entry("7", [Line("a red car")], Picture(pixels), ["CIDEr 0.1"])], replaces="worst")
    document = Document("t", sections=[Table("worst", "Worst", ["candidate of the table"], [("a red car",)]), gallery])
    text = Reading(write(document)).text
    assert "a red car" in text and "CIDEr 0.1" in text and "candidate of the table" not in text
    assert "data:image/" in write(document)
    assert "candidate of the table" in str(document)


def test_empty_and_odd_documents_are_shown(samples):
    assert "nothing" in render_notebook(Document("nothing"))
    chart = Chart("intervals", [Series("s", [], [])])
    assert "a ? b" in render_notebook(Document("t", sections=[Text(["a \ud800 b"]), chart, Table("t", "t", ["a"], [])]))


def test_a_chart_is_drawn_once(samples):
    """A page has a second drawing for phones, and a style sheet that hides one of them."""
    document = Document("t", sections=[chart for chart in samples.charts() if chart.kind != "scatter"])
    assert render_notebook(document).count("<svg") == len(document.sections) > 3
    assert render_page(document).count('<svg class="chart') == 2 * len(document.sections)
