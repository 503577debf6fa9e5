"""Fixtures that many tests share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data():
    """The folder of shared evaluation data: beside the checkout, or where CAPTIOUS_SHARED_DATA says."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("CAPTIOUS_SHARED_DATA", beside))
    if not folder.is_dir():
        pytest.skip("the shared evaluation data is not here; set CAPTIOUS_SHARED_DATA to its folder")
    return folder


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory, monkeypatch):
    """No test reads or writes the corpora and resources of the person who runs it."""
    monkeypatch.setenv("CAPTIOUS_HOME", str(tmp_path_factory.mktemp("home")))
