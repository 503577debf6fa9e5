"""A repeated run knows a pipeline's fingerprint without loading it."""

import shutil

import numpy as np
import pytest

from captious._core.files import get_data_folder
from captious.errors import InputError
from captious.models import _diffusion as module
from captious.models import store as stores
from captious.models._diffusion import Diffusion, LazyPipeline, open_pipeline
from captious.models.painters import PainterOptions, Prompt, list_pictures
from captious.options import Runtime, using

WISHES = [Prompt("a red dog", 0), Prompt("two cats", 1)]
STEPS = PainterOptions(steps=2)


@pytest.fixture
def place(pipeline, tmp_path, monkeypatch):
    """A copy of its own, whose files count as old."""
    monkeypatch.setattr(stores, "SETTLED_SECONDS", 0.0)
    return shutil.copytree(pipeline, tmp_path / "tiny")


def forbid(monkeypatch):
    def loaded(*arguments):
        raise AssertionError("nothing is to be loaded")

    monkeypatch.setattr(module, "load_diffusion", loaded)


def test_a_second_run_loads_nothing_where_all_pictures_are_there(place, monkeypatch):
    first = open_pipeline(str(place), STEPS)
    assert isinstance(first, Diffusion)
    painted, _ = list_pictures(first, WISHES)
    texts = ["a" * 14, "a" * 15, "dog"]
    expected = first.exceeds_limit(texts).tolist()
    forbid(monkeypatch)
    second = open_pipeline(str(place), STEPS)
    assert isinstance(second, LazyPipeline)
    for fact in ("name", "fingerprint", "settings", "shape", "cache_pictures"):
        assert getattr(second, fact) == getattr(first, fact)
    assert second.exceeds_limit(texts).tolist() == expected == [False, True, False]
    again, _ = list_pictures(second, WISHES)
    assert np.array_equal(again, painted)
    with pytest.raises(AssertionError, match="nothing is to be loaded"):
        list_pictures(second, [Prompt("another text", 0)])


def test_a_picture_that_is_missing_is_painted_by_the_pipeline(place):
    first = open_pipeline(str(place), STEPS)
    second = open_pipeline(str(place), STEPS)
    one, two = (next(painter.paint(WISHES)).pixels for painter in (first, second))
    assert isinstance(second, LazyPipeline) and np.array_equal(one, two)


def test_a_changed_weight_file_gives_a_new_fingerprint(place):
    from safetensors.numpy import load_file, save_file

    first = open_pipeline(str(place), STEPS)
    weights = next((place / "unet").glob("*.safetensors"))
    tensors = load_file(weights)
    tensors["conv_in.bias"] = tensors["conv_in.bias"] + 1
    save_file(tensors, weights, metadata={"format": "pt"})
    second = open_pipeline(str(place), STEPS)
    assert isinstance(second, Diffusion) and second.fingerprint != first.fingerprint


def test_what_a_fingerprint_follows_is_not_mixed_up(place):
    first = open_pipeline(str(place), STEPS)
    other = open_pipeline(str(place), PainterOptions(steps=3))
    with using(Runtime(device="cpu", precision="bf16")):
        coarse = open_pipeline(str(place), STEPS)
    assert len({first.fingerprint, other.fingerprint, coarse.fingerprint}) == 3
    with using(Runtime(cache=False)):
        assert isinstance(open_pipeline(str(place), STEPS), Diffusion)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"name": "x"}'])
def test_a_damaged_memory_is_loaded_again(place, damage):
    first = open_pipeline(str(place), STEPS)
    (kept,) = (get_data_folder() / "painters").iterdir()
    kept.write_text(damage)
    second = open_pipeline(str(place), STEPS)
    assert isinstance(second, Diffusion) and second.fingerprint == first.fingerprint


def test_what_may_change_unseen_is_not_remembered(place, tmp_path, monkeypatch):
    linked = tmp_path / "linked"
    shutil.copytree(place, linked)
    shutil.move(linked / "unet", tmp_path / "unet")
    (linked / "unet").symlink_to(tmp_path / "unet")
    open_pipeline(str(linked), STEPS)
    monkeypatch.setattr(stores, "SETTLED_SECONDS", 3600.0)
    open_pipeline(str(place), STEPS)
    assert not (get_data_folder() / "painters").exists()


def test_a_folder_that_changed_in_use_is_told(place):
    open_pipeline(str(place), STEPS)
    second = open_pipeline(str(place), STEPS)
    second.fingerprint = "0" * 12
    with pytest.raises(InputError, match="changed while it was in use"):
        list(second.paint(WISHES))
