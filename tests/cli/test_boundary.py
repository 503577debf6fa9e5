"""What reaches a user at the edge of the command line: one line for a mistake, and no warning of a library."""

import logging
import sys
import warnings

import pytest
import typer

from captious.cli import app as boundary


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("score",), "captious score: Missing argument 'predictions'; see: captious score -h"),
        (("scor",), "No such command 'scor'"),
        (("study", "run", "x", "--nosuch"), "captious study run: No such option: --nosuch"),
        (("score", "x", "--samples", "many"), "captious score: Invalid value for '--samples'"),
        (("score", "x", "--samples", "99999999999999999999"), "less than or equal to 1000000"),
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


def test_help_stays_help(run):
    code, out, error = run("study")
    assert "Usage: captious study" in out + error and code == 2


def test_no_warning_of_a_library_reaches_the_user(monkeypatch, capsys):
    """Unless Python itself is told to show warnings."""
    app = typer.Typer()

    @app.command()
    def noisy() -> None:
        warnings.warn("overflow encountered", RuntimeWarning, stacklevel=1)
        logging.getLogger("some.library").warning("retrying in 1 s")
        logging.getLogger("some.library").error("a real error")

    monkeypatch.setattr(sys, "argv", ["captious"])
    monkeypatch.setattr(sys, "warnoptions", [])
    with pytest.raises(SystemExit) as exit:
        boundary.run(app)
    error = capsys.readouterr().err
    assert not exit.value.code and "overflow" not in error and "retrying" not in error
    monkeypatch.setattr(sys, "warnoptions", ["default"])
    with pytest.raises(SystemExit), pytest.warns(RuntimeWarning, match="overflow"):
        boundary.run(app)


def test_what_is_nested_too_deeply_anywhere_is_one_line(monkeypatch, capsys):
    app = typer.Typer()

    @app.command()
    def deep() -> None:
        raise RecursionError

    monkeypatch.setattr(sys, "argv", ["captious"])
    with pytest.raises(SystemExit) as exit:
        boundary.run(app)
    assert exit.value.code == 2 and "nested too deeply" in capsys.readouterr().err
