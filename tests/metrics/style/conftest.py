from __future__ import annotations

from pathlib import Path

import pytest

from captious.metrics.style.fitting import fit
from captious.metrics.style.model import StyleModel
from captious.metrics.style.model_files import save

CORPUS = [
    ("happy", "a fine day"),
    ("happy", "a fine and sunny day"),
    ("happy", "sunny sunny dog"),
    ("gloomy", "a grey day"),
    ("gloomy", "the grey dog weeps"),
    ("angry", "the day from hell"),
    ("angry", "a dog barks at a dog"),
]


@pytest.fixture
def model() -> StyleModel:
    return fit(CORPUS, name="moods")


@pytest.fixture
def model_file(model: StyleModel, tmp_path: Path) -> str:
    path = tmp_path / "moods.style"
    save(model, path)
    return str(path)
