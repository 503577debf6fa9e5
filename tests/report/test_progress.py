"""Progress stays out of the way where nobody watches."""

import io

from rich.console import Console

from captious.report import progress


def test_only_log_lines_reach_a_file(capsys):
    with progress.display() as shown:
        shown.step("CLIPScore")
        shown.encoded("images", 1, 2)
        shown.log("out of memory: batches of 128 from here on")
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == "out of memory: batches of 128 from here on\n"


def test_a_terminal_sees_the_step_and_a_bar(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(progress, "messages", lambda: Console(file=screen, force_terminal=True, width=100))
    with progress.display() as shown:
        shown.step("CLIPScore")
        shown.encoded("images", 3, 8)
    assert "CLIPScore" in screen.getvalue() and "images" in screen.getvalue() and "3/8" in screen.getvalue()
