"""The command line as a user types it."""

import sys

import pytest

from captious.cli.app import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command; gives exit code, standard output and standard error."""

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["captious", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        captured = capsys.readouterr()
        return exit.value.code or 0, captured.out, captured.err

    return command
