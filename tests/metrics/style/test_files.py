from __future__ import annotations

from pathlib import Path

import pytest

from captious.errors import InputError
from captious.metrics.style.model import StyleModel
from captious.metrics.style.model_files import load, load_once


def test_round_trip(model: StyleModel, model_file: str) -> None:
    again = load(model_file)
    assert again.mark == model.mark
    assert (again.styles, again.tokenizer, again.fingerprint, again.name) == (
        model.styles,
        model.tokenizer,
        model.fingerprint,
        "moods",
    )
    assert again.captions.tolist() == [2, 2, 3]
    assert again.score("fine", "happy") == model.score("fine", "happy")
    assert load_once(model_file) is load_once(model_file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-20], "style model cut short"),
        (lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:], "checksum differs"),
        (lambda data: data.replace(b'"happy"', b'"hoppy"', 1), "checksum differs"),
        (lambda data: data.replace(b'"captious-style": 2', b'"captious-style": 1', 1), "format 1, expected 2"),
        (lambda data: b"hello\n", "is no style model"),
        (lambda data: b'{"captious-idf": 1}\n', "is no style model"),
        (lambda data: b"", "is no style model"),
    ],
)
def test_damaged_foreign_and_other_versions_are_refused(model_file: str, change, message: str) -> None:
    path = Path(model_file)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=message):
        load(path)


def test_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="captious style fit"):
        load_once(tmp_path / "none.style")
