"""The notebooks of the documentation run, and show what is stored in them."""

import json
import re

import nbformat
import pytest
from lab.notebooks import PNG, execute, notebooks, texts

NUMBER = re.compile(r"\d+\.\d+")


@pytest.fixture(scope="module", params=notebooks(), ids=lambda path: path.stem)
def path(request):
    return request.param


def test_there_are_two():
    assert [path.stem for path in notebooks()] == ["score-and-compare", "study"]


def test_a_new_run_shows_what_is_stored(path):
    stored, run = nbformat.read(path, as_version=4), execute(path)
    for cell, before, after in zip(
        (cell for cell in run.cells if cell.cell_type == "code"), texts(stored), texts(run), strict=True
    ):
        assert NUMBER.sub("#", after) == NUMBER.sub("#", before), f"{cell.source}\nstore the new output: make notebooks"
        # Another machine may round the last digit otherwise.
        numbers = [[float(number) for number in NUMBER.findall(text)] for text in (after, before)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-3, abs=2e-3), cell.source
    assert any(PNG in output.get("data", {}) for cell in run.cells for output in cell.get("outputs", ()))


def test_it_is_small_and_says_nothing_of_the_machine(path):
    text = path.read_text(encoding="utf-8")
    assert len(text) < 300_000
    assert not re.search(r"/(home|root|tmp|work|usr|Users)/|https?://(?!www\.w3\.org)", text)
    assert set(json.loads(text)["metadata"]) == {"kernelspec", "language_info"}


def test_its_outputs_need_no_script(path):
    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", ()):
            assert output.output_type != "error" and output.get("name") != "stderr"
            for kind, content in output.get("data", {}).items():
                assert kind in ("text/plain", "text/html", "image/svg+xml", "image/png") and "<script" not in content
