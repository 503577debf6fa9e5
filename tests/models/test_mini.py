"""captious-mini: the shipped weights know drawn scenes, and NumPy and torch agree on them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from lab.toy import make
from lab.toy.drawing import draw
from PIL import Image

from captious.errors import InputError
from captious.models.cost import cost
from captious.models.loading import MINI, load, load_trainable
from captious.models.mini import LIMIT, SIDE, NumpyClip, export_half, get_mini_folder, load_mini, make_mini
from captious.options import Runtime

SAMPLE = make(items=40, seed=2)  # trained on: seed 1000; shown in the documentation: seed 1


@pytest.fixture(autouse=True)
def _one_thread():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def scenes():
    return list(SAMPLE.scenes())


@pytest.fixture(scope="module")
def pixels(scenes):
    return np.stack([load_mini("captious-mini").prepare(draw(scene)) for scene in scenes])


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def cosines(encoder, pixels, texts):
    return unit(encoder.text_features(encoder.tokenize(texts).ids)) @ unit(encoder.image_features(pixels)).T


def test_a_long_caption_finds_its_scene(scenes, pixels):
    near = cosines(load_mini("captious-mini"), pixels, [SAMPLE.detailed(scene)["caption"] for scene in scenes])
    assert (near.argmax(axis=1) == np.arange(40)).mean() > 0.9  # a guess finds 1 in 40
    assert (near.argmax(axis=0) == np.arange(40)).mean() > 0.9


@pytest.mark.parametrize("name", MINI)
def test_better_captioners_come_closer_to_the_picture(scenes, pixels, name):
    encoder = load_mini(name)
    means = [
        np.diag(cosines(encoder, pixels, [SAMPLE.prediction_of(scene, captioner).text for scene in scenes])).mean()
        for captioner in ("parrot", "sloppy", "solid", "expert")
    ]
    assert means == sorted(means)


def rates(encoder, scenes, pixels):
    """How often the next right unit raises the cosine, and how often a wrong one lowers it."""
    images, rises, falls = unit(encoder.image_features(pixels)), [], []
    for image, scene in zip(images, scenes, strict=True):
        told = SAMPLE.detailed(scene)
        grown = [" ".join(told["units"][: number + 1]) for number in range(len(told["units"]))]
        wrong = [f"{base} {unit}" for base, unit in zip(grown, told["wrong_units"][1:], strict=False)]
        right = unit(encoder.text_features(encoder.tokenize(grown).ids)) @ image
        rises += (right[1:] > right[:-1]).tolist()
        falls += (unit(encoder.text_features(encoder.tokenize(wrong).ids)) @ image < right[:-1]).tolist()
    return np.mean(rises), np.mean(falls)


def test_specificity_training_made_it_more_specific(scenes, pixels):
    before = rates(load_mini("captious-mini"), scenes[:15], pixels[:15])
    after = rates(load_mini("captious-mini-specs"), scenes[:15], pixels[:15])
    assert after[0] > before[0] and after[1] > before[1]
    assert min(after) > 0.7


@pytest.mark.parametrize("name", MINI)
def test_torch_gives_the_same_features(pixels, name):
    ours, theirs = load_mini(name), load_trainable(name, "cpu")
    ids = ours.tokenize(["A photo depicts a red ball.", "two cats to the left of a zebra"]).ids
    assert np.array_equal(ids, theirs.tokenize(["A photo depicts a red ball.", "two cats to the left of a zebra"]).ids)
    assert np.abs(ours.text_features(ids) - theirs.text_features(ids)).max() < 1e-4
    assert np.abs(ours.image_features(pixels[:3]) - theirs.image_features(pixels[:3])).max() < 1e-4
    assert (ours.limit, ours.dimension, cost(ours)) == (theirs.limit, theirs.dimension, cost(theirs))


def test_numpy_unless_asked_otherwise():
    assert isinstance(load("captious-mini"), NumpyClip)
    assert load("captious-mini") is load("captious-mini")
    half = load_mini("captious-mini", Runtime(device="cpu", precision="bf16"))
    assert not isinstance(half, NumpyClip) and half.precision == "bf16"


@pytest.mark.parametrize("name", MINI)
def test_shipped_files_are_small_and_say_what_they_are_for(name):
    folder = get_mini_folder(name)
    assert (folder / "model.safetensors").stat().st_size < 4_000_000
    assert "drawn scenes" in (folder / "README.md").read_text(encoding="utf-8")
    assert json.loads((folder / "config.json").read_text())["vision_config"]["image_size"] == SIDE


def test_unknown_name():
    with pytest.raises(InputError, match="unknown small encoder 'captious-maxi'"):
        load_mini("captious-maxi")


def test_a_new_one_can_be_trained_saved_halved_and_loaded(tmp_path):
    torch = pytest.importorskip("torch")
    made = make_mini(["a red ball", "two cats"], device="cpu", seed=3)
    again = make_mini(["a red ball", "two cats"], device="cpu", seed=3)
    other = make_mini(["a red ball", "two cats"], device="cpu", seed=4)
    assert made.fingerprint == again.fingerprint != other.fingerprint
    assert made.limit == LIMIT and made.causal
    # PREFIX brings "photo" and "depicts": every word is known, so no id is 1
    assert 1 not in made.tokenize(["A photo depicts two red cats"]).ids
    pixels = np.stack([made.prepare(Image.new("RGB", (120, 100), color)) for color in ("red", "blue")])
    loss = made.image_tensor(made.pixels_to_tensor(pixels)).sum()
    loss.backward()
    assert all(torch.isfinite(one.grad).all() for one in made.module.vision_model.parameters())
    made.save(tmp_path / "whole")
    export_half(tmp_path / "whole", tmp_path / "half")
    whole, half = load(str(tmp_path / "whole")), load(str(tmp_path / "half"))
    ids = whole.tokenize(["a red ball"]).ids
    assert np.allclose(whole.text_features(ids), half.text_features(ids), atol=1e-2)
    assert (tmp_path / "half" / "model.safetensors").stat().st_size * 1.9 < (
        tmp_path / "whole" / "model.safetensors"
    ).stat().st_size
