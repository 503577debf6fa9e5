"""Wide and right-to-left text: in line at 80 columns on the terminal, and with its direction and language on pages."""

import json
import re
import unicodedata

import pytest

import captious
from captious import Resampling
from captious.render import Column, Document, Entry, Gallery, Line, Phrase, Span, Table
from captious.render.html import render_page
from captious.render.terminal import _wrap_text, format_text, print_document

TEXTS = {
    "ja": "草原を走る茶色い犬が二匹いて、隣に赤い自転車がある。雨が降りそうだ。",
    "zh": "一只棕色的狗在草地上奔跑，旁边有一辆红色的自行车。",
    "ko": "갈색 개가 들판에서 달리고 있고 옆에 빨간 자전거가 있다.",
    "ar": "كلبٌ بُنّيٌّ يركض في الحقل وبجانبه دراجة حمراء قبل المطر بقليل.",
    "he": "כלב חום רץ בשדה ולידו אופניים אדומים, רגע לפני הגשם.",
    "th": "สุนัขสีน้ำตาลวิ่งบนสนามหญ้าและมีจักรยานสีแดงอยู่ข้างๆ",
    "hi": "भूरा कुत्ता घास के मैदान में दौड़ रहा है और पास में लाल साइकिल है।",
    "en": "a brown dog runs over the grass beside a red bicycle, just before the rain",
}


def width(line):
    """Columns of a line by Unicode's own tables: wide characters take two, marks and controls none."""
    drawn = [one for one in line if unicodedata.category(one) not in ("Mn", "Me", "Cf")]
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in drawn)


def document(text):
    columns = ["id", Column("CIDEr-D", bold=True), "candidate", "first reference"]
    return Document("worst", sections=[Table("worst", "", columns, [("7", 0.25, text, text), ("8", 0.5, "dog", text)])])


@pytest.mark.parametrize("code", TEXTS)
def test_tables_are_in_line_at_80_columns(code, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    print_document(document(TEXTS[code]))
    lines = capsys.readouterr().out.splitlines()[1:]
    # Devanagari's spacing marks are counted differently by terminals; a frame shows what this one counts.
    widths = {width(line) for line in lines}
    assert widths == ({80} if code != "hi" else widths) and len({line[0] for line in lines}) == 5
    letters = "".join(line for line in lines if line.startswith("│"))
    assert sorted(re.sub(r"[\s│\u200e]", "", letters)) == sorted(
        re.sub(r"\s", "", f"70.250080.5000dog{TEXTS[code] * 3}")
    )


@pytest.mark.parametrize("code", ["ar", "he"])
def test_right_to_left_text_cannot_move_the_next_column(code, capsys, monkeypatch):
    """By Unicode's rules, numbers after Arabic letters join their run, unless a left-to-right mark ends it."""
    monkeypatch.setenv("COLUMNS", "80")
    table = Table("t", "", ["candidate", Column("value")], [(TEXTS[code], 0.25), (Phrase((Span("כלב", "good"),)), 0.5)])
    print_document(Document("t", sections=[table]))
    for line in capsys.readouterr().out.splitlines():
        cells = line.split("│")[1:2]
        for cell in cells:
            strong = [one for one in cell if unicodedata.bidirectional(one) in ("L", "R", "AL")]
            assert not strong or strong[-1] == "\u200e"
    assert "\u200e" not in format_text(document(TEXTS["en"]), 80)


@pytest.mark.parametrize("code", ["ja", "zh", "ko", "th", "ar"])
def test_lines_are_wrapped_by_their_width(code):
    text = f"warning: id 7: {TEXTS[code]}"
    lines = _wrap_text(text, 30).split("\n")
    assert all(width(line) <= 30 or " " not in line.strip() for line in lines)
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", text)
    assert not any(line[0] in "、。，" for line in lines), "a line does not begin with a mark"


def test_pages_give_texts_their_own_direction():
    drawn = render_page(document(TEXTS["ar"]))
    cells = re.findall(r'<td class="([^"]*)"([^>]*)>([^<]*)', drawn)
    assert [text for _, other, text in cells if 'dir="auto"' in other] == [TEXTS["ar"], TEXTS["ar"], "dog", TEXTS["ar"]]
    assert [text for names, _, text in cells if "number" in names] == ["0.2500", "0.5000"]
    entry = Entry("7", [Line(TEXTS["ar"])], references=[TEXTS["he"]])
    drawn = render_page(Document("g", sections=[Gallery("", [entry])]))
    assert f'<p class="candidate" dir="auto">{TEXTS["ar"]}</p>' in drawn
    assert f'<li dir="auto">{TEXTS["he"]}</li>' in drawn


def test_the_page_of_a_report_knows_the_language_and_counts_its_words():
    report = captious.evaluate(
        ["一只狗。"], "rouge", resampling=Resampling(0), references=[["两只狗。"]], language="zh"
    )
    drawn = render_page(report.document())
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*)</script>', drawn)[1])
    assert data["language"] == "zh" and data["lengths"] == [[3.0]]
    assert 'class: "candidate", dir: "auto", lang: language' in drawn


def test_a_browser_marks_letters_of_scripts_without_spaces_and_whole_words_of_others(drawn):
    candidates, references = ["小さな犬が走る", "भूरा कुत्ता"], [["小さな猫が走る"], ["काला कुत्ता"]]
    report = captious.evaluate(candidates, "rouge", resampling=Resampling(0), references=references, language="hi")
    text = drawn(render_page(report.document()))
    text = text.partition('id="item-list"')[2]  # behind the line that explains the marks
    assert re.findall('class="hit">([^<]*)<', text) == [*"小さなが走る", "कुत्ता"], "vowel signs belong to the word"
    assert re.findall('class="miss">([^<]*)<', text) == ["犬", "भूरा"]
    assert '<p class="candidate" dir="auto" lang="hi">' in text and '<li dir="auto" lang="hi">' in text
