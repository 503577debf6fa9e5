"""What ``make quick`` runs exists, and what it lacks is skipped with the reason; other errors are not."""

from pathlib import Path

from lab.quick import PATHS, missing
from tests.conftest import LONG

from captious.errors import InputError, MissingExtra

ROOT = Path(__file__).parents[2]


def test_the_files_that_are_named_exist():
    assert [path for path in (*PATHS, *LONG) if not (ROOT / path).exists()] == []


def test_an_extra_that_is_missing_is_named():
    assert missing(MissingExtra("this needs torch")) == "this needs torch"
    assert missing(ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")) == "torch.nn is not installed"
    collecting = RuntimeError("a file cannot be collected")
    collecting.__cause__ = ModuleNotFoundError("No module named 'ray'", name="ray")
    assert missing(collecting) == "ray is not installed"


def test_other_errors_are_errors():
    ours = ModuleNotFoundError("No module named 'captious.metric'", name="captious.metric")
    assert [missing(error) for error in (ours, InputError("no file"), AssertionError(), None)] == ["", "", "", ""]
