"""What reaches a user at the edge of the command line: one line for a mistake, and no warning of a library."""

import itertools
import logging
import re
import sys
import warnings

import pytest

from captious import InputError
from captious.cli import app as boundary
from captious.cli.commands import CommandGroup, command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("score",), "captious score: Missing argument 'PREDICTIONS'; see: captious score -h"),
        (("scor",), "No such command 'scor'"),
        (("study", "run", "x", "--nosuch"), "captious study run: no option --nosuch"),
        (("score", "x", "--samples", "many"), "captious score: Invalid value for '--samples'"),
        (
            ("score", "x", "--samples", "99999999999999999999"),
            "--samples 99999999999999999999, expected a whole number of at most 1000000",
        ),
        (("score", "x", "--worst", "99999999999999999999"), "--worst 99999999999999999999, expected a whole number of"),
        (("study", "power", "--difference", "nan"), "--difference nan, expected a finite number"),
        (("score", "x", "--seed", "1e400"), "Invalid value for '--seed'"),
        (("score", "x", "--candidate-column", ""), "--candidate-column is empty, expected NAME"),
        (("score", "~nobody-here/x.json"), "~nobody-here/x.json: no such file"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run, arguments, message):
    code, out, error = run(*arguments)
    assert code == 2 and not out and error.count("\n") == 1 and message in error


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("--refs", "--references"), ("--ref", "--references"), ("--refrences", "--references"), ("--sead", "--seed")],
)
def test_an_unknown_option_suggests_the_one_that_it_abbreviates_or_resembles(run, typed, meant):
    code, _, error = run("score", "a.json", typed, "x")
    assert code == 2 and error == f"captious score: no option {typed}; did you mean {meant}? See: captious score -h\n"
    assert run("score", "a.json", "--zzz")[2] == "captious score: no option --zzz; see: captious score -h\n"


def test_on_a_terminal_an_error_has_color_and_breaks_between_words(monkeypatch, capsys):
    app = CommandGroup("captious")
    message = "preds.json: none of its 5 ids (1, 2, 3, …) is in references.json, which has 4 ids (one, two, three, …)"

    @command(app)
    def mistaken() -> None:
        raise InputError(message)

    monkeypatch.setattr(sys, "argv", ["captious", "mistaken"])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with pytest.raises(SystemExit):
        boundary.run(app)
    error = capsys.readouterr().err
    assert error.startswith("\x1b[1;31mcaptious:\x1b[0m preds.json")
    lines = re.sub(r"\x1b\[[0-9;]*m", "", error).splitlines()
    assert max(map(len, lines)) <= 40 and " ".join(lines) == f"captious: {message}"


def test_the_help_of_score_fits_a_screen_and_the_full_help_two(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, shown, _ = run("score", "--help")
    lines = shown.splitlines()
    assert code == 0 and len(lines) <= 66 and max(map(len, lines)) <= 80
    assert sum(line.startswith("  --") for line in lines) == 22  # with --help and --help-all
    assert "--references, -r FILE" in shown and "--decode" not in shown
    assert lines[-1] == "40 more options: captious score --help-all"
    code, full, _ = run("score", "--help-all")
    lines = full.splitlines()
    assert code == 0 and len(lines) <= 112 and max(map(len, lines)) <= 80
    for panel in ("Reading", "Intervals", "Models", "Chat models", "Output", "Shards and workers"):
        assert panel in lines
    assert "--decode exact|fast" in full and "more option" not in full
    for text in (shown, full):
        assert "<" not in text and "9223372036854775807" not in text
        assert not any(line != line.rstrip() for line in text.splitlines())


def test_the_full_help_of_captious_has_the_commands_of_groups(run):
    code, shown, _ = run("--help-all")
    assert code == 0 and "\n  score " in shown and "\n  study run " in shown and "\n  cache prune " in shown
    assert "study run" not in run("--help")[1]


@pytest.mark.parametrize("command", [(), ("study",), ("study", "run"), ("studio", "serve"), ("train", "clip")])
def test_every_help_has_panels_in_words_and_no_types(run, command):
    code, shown, _ = run(*command, "--help")
    assert code == 0 and "<bool>" not in shown and "<=" not in shown
    panels = [before for before, line in itertools.pairwise(shown.splitlines()) if line.startswith("  ")]
    titles = [line for line in panels if line and not line.startswith(" ")]
    assert titles and all(re.fullmatch(r"[A-Z][a-z]+( [a-z]+)*", title) for title in titles)


def test_the_help_of_captious_has_every_panel_once(run):
    lines = run("--help")[1].splitlines()
    titles = [line for line in lines if line and not line.startswith((" ", "Usage", "Judge image"))]
    assert titles == ["Everyday", "Judge metrics", "Audit", "Models and data", "Options"]


def test_help_stays_help(run):
    code, out, error = run("study")
    assert "Usage: captious study" in out + error and code == 2


def test_no_warning_of_a_library_reaches_the_user(monkeypatch, capsys):
    """Unless Python itself is told to show warnings."""
    app = CommandGroup("captious")

    @command(app)
    def noisy() -> None:
        warnings.warn("overflow encountered", RuntimeWarning, stacklevel=1)
        logging.getLogger("some.library").warning("retrying in 1 s")
        logging.getLogger("some.library").error("a real error")

    monkeypatch.setattr(sys, "argv", ["captious", "noisy"])
    monkeypatch.setattr(sys, "warnoptions", [])
    with pytest.raises(SystemExit) as exit:
        boundary.run(app)
    error = capsys.readouterr().err
    assert not exit.value.code and "overflow" not in error and "retrying" not in error
    monkeypatch.setattr(sys, "warnoptions", ["default"])
    with pytest.raises(SystemExit), pytest.warns(RuntimeWarning, match="overflow"):
        boundary.run(app)


def test_what_is_nested_too_deeply_anywhere_is_one_line(monkeypatch, capsys):
    app = CommandGroup("captious")

    @command(app)
    def deep() -> None:
        raise RecursionError

    monkeypatch.setattr(sys, "argv", ["captious", "deep"])
    with pytest.raises(SystemExit) as exit:
        boundary.run(app)
    assert exit.value.code == 2 and "nested too deeply" in capsys.readouterr().err
