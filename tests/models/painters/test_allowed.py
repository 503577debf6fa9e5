"""A painter in Python code is imported only where the user allowed it: the name of a metric runs nothing by itself."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

import captious
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.registry import parse
from captious.models import allow_painter, painters
from captious.models.hub import ModelRegistry
from captious.models.painters import load_painter

CODE = "def painter(options):\n    open({marker!r}, 'w').close()\nopen({marker!r}, 'w').close()\n"


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """A module that leaves a mark when it is imported or called; gives the mark."""
    marker = tmp_path / "was-run"
    (tmp_path / "evil_painter.py").write_text(CODE.format(marker=str(marker)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("CAPTIOUS_PAINTERS")
    monkeypatch.setattr(painters, "_LOADED", ModelRegistry(limit=2))
    yield marker
    sys.modules.pop("evil_painter", None)


@pytest.mark.parametrize("name", ["evil_painter:painter", "os:system", "builtins:exec"])
def test_a_metric_that_names_code_runs_none(evil, name):
    captions = CaptionSet.of({"1": "touch me"}, {"1": ["a dog"]})
    with pytest.raises(InputError, match=r"is Python code, which a metric's name does not run by itself; call"):
        captious.evaluate(captions, metrics=[f"imagine(kind=image,painter={name},weights=captious-mini)"])
    assert not evil.exists() and "evil_painter" not in sys.modules


def test_what_the_user_allows_is_imported_and_processes_inherit_it(evil):
    allow_painter("evil_painter:painter")
    load_painter("evil_painter:painter")
    assert evil.exists()
    allow_painter("other:one")
    assert os.environ["CAPTIOUS_PAINTERS"] == "evil_painter:painter,other:one"
    program = (
        "from captious.models.painters import _is_allowed; print(_is_allowed('other:one'), _is_allowed('os:system'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"
    with pytest.raises(InputError, match="expected module:attribute"):
        allow_painter("no such thing")


def test_an_installed_package_allows_its_own(evil, monkeypatch):
    point = EntryPoint("mine", "evil_painter:painter", "captious.painters")
    monkeypatch.setattr("captious.models.painters.entry_points", lambda group: [point] if "painters" in group else [])
    load_painter("evil_painter:painter")
    assert evil.exists()
    with pytest.raises(InputError, match="does not run by itself"):
        load_painter("os:system")


def test_reading_the_name_of_a_metric_imports_nothing(evil):
    assert parse("imagine(kind=image,painter=evil_painter:painter)").painter == "evil_painter:painter"
    assert not evil.exists()
