"""The terminal: numbers stay whole at 80 columns, captions cannot drive it, results and warnings are apart."""

import io
import re
import threading

import pytest
from rich.console import Console

from captious.render import Cell, Column, Document, Phrase, Span, Table, Text, progress
from captious.render.terminal import format_signatures, format_text, make_stdout_console, print_document, warn

NUMBER = re.compile(r"\d+\.\d+")


def printed(document, width=80):
    screen = io.StringIO()
    print_document(document, Console(file=screen, width=width))
    return screen.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("draw", [printed, format_text])
def test_wide_tables_are_printed_in_parts_that_fit(samples, width, draw):
    text = draw(Document("Wide", sections=[samples.wide()]), width)
    assert max(map(len, text.splitlines())) <= width
    expected = [f"{row + k / divisor:.5f}" for row in range(3) for k in range(9) for divisor in (7, 8, 6)]
    assert sorted(NUMBER.findall(text)) == sorted(expected)
    assert "…" not in text
    assert text.count("metric 0") == text.count("metric 2") == len(re.findall(r"(?m)^[┃ ]*metric (?!\d)", text)) > 0


def test_long_texts_are_folded_before_a_table_is_split():
    table = Table("t", "t", ["id", "caption", Column("value")], [("7", "a very long caption " * 10, 0.123456)])
    lines = printed(Document("d", sections=[table]), 60).splitlines()
    assert max(map(len, lines)) <= 60
    assert sum("value" in line for line in lines) == 1 and any("0.1235" in line for line in lines)


def test_a_table_loses_its_frame_before_its_columns_are_parted():
    heads = ["metric", "systems", Column("difference"), Column("p"), Column("p (Holm)"), "better"]
    rows = [("CIDEr-D", f"{system} − rl", 0.1234, 0.5, 0.5, "neither") for system in ("xe", "ff")]
    table = Table("t", "t", heads, rows, breaks=[1])
    framed, unframed = printed(Document("t", sections=[table]), 67), printed(Document("t", sections=[table]), 60)
    # 7 + 7 + 10 + 6 + 8 + 7 = 45 characters; a frame adds 6 · 3 + 1, gaps add 5 · 2, and "p (Holm)" folds to 6
    assert framed.count("┃ metric") == 1 and "┃" not in unframed
    lines = unframed.splitlines()
    assert max(map(len, lines)) <= 60 and sum("metric" in line for line in lines) == 1
    assert [line.split()[-1] for line in lines if line.startswith("CIDEr-D")] == ["neither", "neither"]
    assert lines[2] == "─" * len(lines[1]) and not lines[4].strip()


def test_warnings_in_plain_text_are_wrapped():
    text = format_text(Document("d", warnings=["fewer items give higher values"]), 30)
    assert text.splitlines()[1:] == ["warning: fewer items give", "higher values"]


def test_titles_are_wrapped_between_words():
    table = Table("t", "The human ceiling " * 5 + "/a/path", ["a"], [("b",)])
    lines = printed(Document("d", sections=[table]), 40).splitlines()
    assert lines[1] == "The human ceiling The human ceiling The" and lines[3].endswith("/a/path")


def test_a_number_is_never_cut_however_narrow_the_terminal(samples):
    text = printed(Document("Scores", sections=[samples.scores()]), 20)
    assert {"0.3142", "1.0457", "0.3000 – 0.3300", "1,234"} <= set(re.findall(r"[\d.,]+(?: – [\d.]+)?", text))


def test_plain_text_has_no_color_and_says_everything(samples):
    text = str(samples.everything())
    assert "\x1b" not in text and "┃" not in text
    assert text.splitlines()[0] == "captions.json: 4 items"
    assert "SPICE" in text and "4 items" in text and "cider|idf:refs|captious:1" in text
    assert "warning: warning 6" in text and "n-gram" not in text  # a detail


def test_the_width_follows_the_variable(samples, monkeypatch):
    monkeypatch.setenv("COLUMNS", "64")
    assert make_stdout_console().width == 64
    assert max(map(len, str(samples.Sample([samples.wide()])).splitlines())) <= 64
    monkeypatch.delenv("COLUMNS")
    assert make_stdout_console().width == 120


def test_escape_sequences_in_captions_are_shown_not_obeyed(capsys):
    caption = "a \x1b]0;title\x07 \x1b[2J dog \x9b31m \u202e cat \ud800"
    table = Table("t", caption, ["caption"], [(caption,)])
    print_document(Document(caption, sections=[table, Text([Phrase.of(Span(caption, "bad"))])], warnings=[caption]))
    captured = capsys.readouterr()
    for text in (captured.out, captured.err):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800]", text)
        assert "␛[2J" in text


def test_brackets_are_printed_as_they_are(capsys):
    print_document(Document("x[red].json", sections=[Table("t", "t", ["id"], [("[/red] [bold]",)])]))
    warn(["[bold]50%[/bold]"])
    captured = capsys.readouterr()
    assert "x[red].json" in captured.out and "[/red] [bold]" in captured.out
    assert captured.err == "warning: [bold]50%[/bold]\n"


def test_results_and_warnings_are_apart(samples, capsys):
    samples.Sample(warnings=("ids look swapped",)).print()
    captured = capsys.readouterr()
    assert captured.err == "warning: ids look swapped\n" and "0.3142" in captured.out


def test_bars_and_tones():
    table = Table("t", "t", ["n-gram", Column("adds", signed=True, bar=True)], [("a dog", 0.5), ("the", -0.25)])
    screen = io.StringIO()
    print_document(Document("t", sections=[table]), Console(file=screen, width=80, force_terminal=True))
    text = screen.getvalue()
    assert text.count("█") == 30 and "+0.5000" in text and "-0.2500" in text and "\x1b[32m" in text


def test_only_log_lines_reach_a_file(capsys):
    with progress.display() as shown:
        shown.step("CLIPScore")
        shown.advance("images", 1, 2)
        shown.log("out of memory: batches of 128 from here on")
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == "out of memory: batches of 128 from here on\n"


def test_a_terminal_sees_the_step_and_a_bar(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(progress, "make_stderr_console", lambda: Console(file=screen, force_terminal=True, width=100))
    with progress.display() as shown:
        shown.step("CLIPScore")
        shown.advance("images", 0, 8)
        shown.advance("images", 3, 8)
    assert "CLIPScore" in screen.getvalue() and "images" in screen.getvalue() and "3/8" in screen.getvalue()


def test_a_file_gets_a_line_of_progress_now_and_then(monkeypatch):
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    status = progress.Status()
    status.advance("steps", 10, 200)
    now = 40.0
    status.advance("steps", 50, 200)
    assert status.line() == "steps: 50 of 200, 2 min left"  # 40 steps in 40 seconds, 150 to go
    assert status.line() == "steps: 50 of 200"  # no pace is known where nothing was done since
    status.begin("merging")
    now = 220.0
    assert status.line() == "merging: 3 min so far"


def test_without_a_terminal_lines_come_by_themselves(monkeypatch):
    """A judge that takes ten minutes for one step is not silent, though nobody reports anything meanwhile."""
    screen, seen = io.StringIO(), threading.Event()
    console = Console(file=screen, width=100)
    printing = console.print
    monkeypatch.setattr(console, "print", lambda *lines, **options: (printing(*lines, **options), seen.set()))
    monkeypatch.setattr(progress, "make_stderr_console", lambda: console)
    with progress.display(every=0.01) as shown:
        shown.step("CLAIR")
        assert seen.wait(60)
    assert "min so far" in screen.getvalue()


def test_the_spinner_says_what_is_counted_where_no_step_was_named(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(progress, "make_stderr_console", lambda: Console(file=screen, force_terminal=True, width=100))
    with progress.display() as shown:
        shown.advance("lstm: runs", 1, 8)
    assert screen.getvalue().count("lstm: runs") >= 2  # the spinner and the bar


def test_a_long_path_stays_on_one_line():
    path = "/data/" + "very-long-name/" * 10 + "best"
    drawn = format_text(Document("t", sections=[Text([f"the model is in {path} and its log beside it"])]), width=40)
    lines = drawn.split("\n")
    assert path in lines and all(len(line) <= 40 for line in lines if line != path)


SIGNATURES = [
    "bleu(n=1),bleu(n=2)|tok:ptb.1|smooth:1e-9|items:5000|refs:5|data:0123abcd|captious:1|ci:bootstrap(1000,seed=1,95%)",
    "rouge|tok:ptb.1|items:5000|refs:5|data:0123abcd|captious:1|ci:bootstrap(1000,seed=1,95%)",
    "vocab_size|tok:13a|items:5000|refs:5|data:0123abcd|captious:1",
    "clipscore|items:5000|refs:5|data:0123abcd|captious:1|ci:bootstrap(1000,seed=1,95%)",
]


def test_what_signatures_share_is_printed_once_then_what_differs():
    assert format_signatures(SIGNATURES, 100) == [
        "shared: items:5000|refs:5|data:0123abcd|captious:1|ci:bootstrap(1000,seed=1,95%)",
        "bleu(n=1),bleu(n=2)|tok:ptb.1|smooth:1e-9",
        "rouge|tok:ptb.1",
        "vocab_size|tok:13a|no ci",
        "clipscore",
    ]
    assert all(len(line) <= 40 for line in format_signatures(SIGNATURES, 40))
    assert format_signatures(SIGNATURES[2:3], 80) == SIGNATURES[2:3] and format_signatures([], 80) == []


def test_signatures_in_full_where_asked(capsys):
    document = Document("d", signatures=SIGNATURES)
    document.print(signatures=True)
    assert capsys.readouterr().out.splitlines()[1:] == SIGNATURES
    assert format_text(document, 80, signatures=True).splitlines()[1:] == SIGNATURES
    assert len(str(document)) < 0.7 * len(format_text(document, signatures=True))


def test_a_label_that_every_row_repeats_is_said_once_where_the_table_is_too_wide():
    columns = ["metric", "systems", *(Column(f"number {number}") for number in range(4))]
    rows = [(f"metric {row}", "new − baseline", *(row + number / 7 for number in range(4))) for row in range(3)]
    table = Table("t", "t", columns, rows)
    wide, narrow = (printed(Document("d", sections=[table]), width) for width in (120, 60))
    assert wide.count("new − baseline") == 3 and narrow.count("new − baseline") == 1
    assert narrow.count("metric 1") == 1  # so that it fits in one part


def test_a_bar_ends_where_its_cell_says():
    column = Column("value", bar=True)
    cells = [Cell(0.5, limits=(0.0, 1.0)), Cell(5.0, limits=(0.0, 10.0)), Cell(3.0, limits=(0.0, 4.0))]
    text = printed(Document("d", sections=[Table("t", "t", ["metric", column], [("m", cell) for cell in cells])]))
    assert [line.count("█") for line in text.splitlines() if "│" in line] == [10, 10, 15]  # of 20


def test_differences_of_zero_have_no_bars():
    table = Table("t", "t", ["a", Column("adds", bar=True)], [("x", Cell(0.0, limits=(-0.0, 0.0)))])
    lines = printed(Document("t", sections=[table]), 80).splitlines()
    assert lines[2] == "┃ a ┃   adds ┃" and lines[4] == "│ x │ 0.0000 │"


@pytest.mark.parametrize("width", range(40, 120))
def test_plain_text_splits_no_number_at_any_width(width):
    columns = [
        "metric",
        *(Column(f"c{number}", decimals=2) for number in range(9)),
        Column("ties", unit="%", decimals=1),
    ]
    table = Table("t", "t", columns, [("different words", *[12.34] * 9, 12.3)])
    text = format_text(Document("d", sections=[table]), width)
    assert text.count("12.34") == 9 and text.count("12.3%") == 1
    assert max(map(len, text.splitlines())) <= width
