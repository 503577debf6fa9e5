"""Documents as Markdown: what people wrote stays text, and a comment is never too long."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captious.render import Cell, Column, Document, Group, Phrase, Span, Table, Text
from captious.render._markdown import MOST, format_cell, format_markdown

HOSTILE = [
    "<script>alert(1)</script>",
    "a | b",
    "`rm -rf`",
    "@everyone look",
    "fixes #12",
    "GH-12",
    "::error::stop",
    "[click](javascript:alert(1))",
    "![](http://x.test/i.png)",
    "**bold** _it_ ~~no~~",
    "www.example.test",
    "see example.com",
    "https://example.test/a?b=c",
    "a\nb\r\n# heading",
    "$x$ and $$y$$",
    "&lt;b&gt; &copy;",
    "\\| \\`",
    "dead1234beef5678",
    "\u202eabc\u202c \x1b[31m",
    "--- | ---",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_cell_is_code_of_entities(text):
    shown = format_cell(text)
    inside = re.fullmatch(r"<code>(.*)</code>", shown)
    assert inside, shown
    assert re.fullmatch(r"(?:&#\d+;|[^\W_]| |[^\x00-\x7f])*", inside[1])
    plain = html.unescape(inside[1])
    assert "\x1b" not in plain and "\u202e" not in plain
    if text.isprintable():
        assert plain == " ".join(text.split())


@pytest.mark.parametrize(
    "text", ["a dog, running.", "it's a cat", "un café", "犬が走る", "0.8498", "−0.02", "CIDEr-D", "1036"]
)
def test_a_harmless_cell_stays_as_it_is(text):
    assert format_cell(text) == text


@given(st.text())
def test_no_text_opens_a_cell_an_element_or_a_line(text):
    shown = format_cell(text)
    for outside in ("|", "\n", "\r", "`", "@", "[", "]", "*", "\\", "$"):
        assert outside not in shown
    assert "::" not in shown and not re.search(r"#(?!\d+;)|<(?!/?code>)", shown)


def document(**parts):
    table = Table(
        "t",
        "Title",
        ["name", Column("value", bold=True, level=0.9)],
        [["x", Cell(0.5, 0.4, 0.6)], [Phrase((Span("<i>", "bad"),)), Cell(0.25, mark=" (1%)")]],
        "a note",
    )
    return Document("Verdict: @all", "about", [table, Group("g", [Text(["one", "two"], bullets=True)])], **parts)


def test_tables_texts_and_signatures():
    text = format_markdown(document(warnings=["few"], signatures=["cider|tok:ptb.1"]), "https://example.test/run?id=1")
    lines = text.splitlines()
    assert lines[0] == "### Verdict: <code>&#64;all</code>"
    assert "| name | value | 90% interval |" in lines and "| --- | ---: | ---: |" in lines
    assert "| x | **0.5000** | 0.4000 – 0.6000 |" in lines
    assert "| <code>&#60;i&#62;</code> | **0.2500 (1%)** | — |" in lines
    assert "> **Warning:** few" in lines and "- one\n- two" in text
    assert "<code>cider&#124;tok&#58;ptb&#46;1</code>" in text
    assert "[More](https://example.test/run?id=1)" in lines


@pytest.mark.parametrize("link", ["javascript:alert(1)", "file:///etc/passwd", "http://", "//x", "http://[", ""])
def test_a_link_that_is_not_of_the_web_is_left_out(link):
    assert "More" not in format_markdown(document(), link)


def test_a_link_cannot_end_early():
    assert "[More](https://example.test/aonclick)" in format_markdown(document(), "https://example.test/a) [on](click")


def test_long_texts_are_cut_until_a_comment_takes_them():
    rows = [["<" * 5000, "|" * 5000, "@" * 5000] for _ in range(10)]
    long = Document("t", sections=[Table("a", "A", ["x", "y", "z"], rows), Table("b", "B", ["x", "y", "z"], rows)])
    text = format_markdown(long)
    assert len(text) <= MOST and text.count("\n| ") == 2 + 2 + 20
    short = format_markdown(long, most=500)
    assert len(short) <= 500 and short.startswith("### t")


def test_a_long_word_is_read_once():
    """An expression with a choice at every letter would try all ways to cut the word, and never end."""
    assert format_cell("a" * 300 + "<") == f"<code>{'a' * 300}&#60;</code>"
    assert format_cell("well-known dog's and/or 3,5 a_b") == "well-known dog's and/or 3,5 a_b"
