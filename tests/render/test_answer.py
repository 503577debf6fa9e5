"""The plain answer: before the tables in every output, with the digits of the tables."""

import json
import re

import pytest

from captious.render import Cell, Column, Document, Figure, Table
from captious.render.answers import count_noun, format_p, join_names

SCORE = Column("value", percent=1, level=0.95)
TABLE = Table("scores", "Scores", ["metric", SCORE], [("CIDEr-D", Cell(1.68468, 1.48271, 1.89978))])
DOCUMENT = Document(
    "solid.json: 60 items",
    "5 references per item",
    [TABLE],
    answer=["CIDEr-D is ", Figure(Cell(1.68468, 1.48271, 1.89978), SCORE), " on <60> items of /home/me/solid.json."],
)
SENTENCE = "CIDEr-D is 1.6847 (95% interval 1.4827 – 1.8998) on <60> items of {}solid.json."


def test_the_answer_comes_before_the_table_in_every_output():
    text = str(DOCUMENT)
    assert " ".join(text.split()).startswith("solid.json: 60 items " + SENTENCE.format("/home/me/"))
    page = DOCUMENT.files()["report.html"]
    shown = SENTENCE.format("").replace("<60>", "&lt;60&gt;")
    assert f'<p id="answer">{shown}</p>' in page
    assert page.index('id="answer"') < page.index('id="about"') < page.index("<table")
    notebook = DOCUMENT._repr_html_()
    assert notebook.index("CIDEr-D is 1.6847") < notebook.index("<table")
    markdown = DOCUMENT.to_markdown()
    assert markdown.index("CIDEr-D is 1.6847 (95% interval 1.4827 – 1.8998)") < markdown.index("| metric")
    latex = DOCUMENT.to_latex()
    assert latex.index("% CIDEr-D is 1.6847") < latex.index(r"\begin{table}")
    data = json.loads(DOCUMENT.to_json())
    assert data["answer"] == SENTENCE.format("/home/me/") and list(data).index("answer") < list(data).index("tables")


def test_a_document_without_an_answer_has_no_place_for_one():
    bare = Document("title", sections=[TABLE])
    assert "answer" not in json.loads(bare.to_json()) and 'id="answer"' not in bare.files()["report.html"]


def test_the_numbers_of_the_answer_are_scaled_with_the_table():
    percent = DOCUMENT.in_percent()
    text = " ".join(str(percent).split())
    assert "CIDEr-D is 168.5 (95% interval 148.3 – 190.0) on" in text
    assert "168.5 148.3 – 190.0" in text  # the row of the table
    count = Figure(Cell(12.0, decimals=0, scale=1.0), SCORE)
    assert str(Document("t", answer=[count]).in_percent().answer_text) == "12"


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (Figure(0.5, Column("")), "0.5000"),
        (Figure(Cell(0.5, 0.4, 0.6), Column("", spread="half")), "0.5000 ± 0.1000"),
        (Figure(Cell(0.5, 0.4, 0.6), Column("", spread="half"), interval=False), "0.5000"),
        (Figure(Cell(0.5, 0.4, 0.6), Column("", signed=True, level=0.9)), "+0.5000 (90% interval +0.4000 – +0.6000)"),
        (Figure(Cell(0.5), Column("", level=0.9)), "0.5000"),
    ],
)
def test_a_number_is_printed_as_its_column_prints_it(figure, text):
    assert str(figure) == text


def test_names_and_nouns():
    assert join_names([]) == "" and join_names(["a", "b"]) == "a and b"
    assert join_names(list("abcdef")) == "a, b, c, d and 2 more"
    assert join_names(list("abcde")) == "a, b, c, d and e"  # "1 more" is no shorter
    assert count_noun(0, "item") == "0 items" and format_p(1.0) == "= 1.000"


def test_the_page_has_one_style_for_it():
    page = DOCUMENT.files()["report.html"]
    assert len(re.findall(r"#answer \{", page)) == 1
