"""One door: what is loaded once, what is loaded afresh, and that the small encoder needs no torch."""

import copy
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from captious.errors import InputError
from captious.models._preprocess import ImagePreprocessing
from captious.models.clip import wrap
from captious.models.loading import load, load_trainable
from captious.options import Runtime, using


@pytest.fixture
def folder(clip_folder):
    return clip_folder


def test_loaded_once(folder):
    assert load(str(folder)) is load(str(folder))


def test_loaded_again_where_the_runtime_differs(folder):
    plain = load(str(folder))
    with using(Runtime(precision="bf16")):
        half = load(str(folder))
        assert load(str(folder)) is half
    assert (plain.precision, half.precision) == ("fp32", "bf16")
    assert load(str(folder)) is plain


def test_batch_and_progress_do_not_load_again(folder):
    plain = load(str(folder))
    with using(replace(Runtime(), batch=3, cache=False)):
        assert load(str(folder)) is plain


def test_asking_for_the_order_it_has_loads_nothing_more(folder):
    plain = load(str(folder))
    assert load(str(folder), order="crop-first") is plain
    other = load(str(folder), order="rgb-first")
    assert other is not plain
    assert load(str(folder), order="rgb-first") is other


def test_a_folder_that_changed_is_loaded_again(clip_folder, clip_module, tokenizer, tmp_path):
    torch = pytest.importorskip("torch")
    folder = shutil.copytree(clip_folder, tmp_path / "tiny")
    before = load(str(folder))
    other = copy.deepcopy(clip_module)
    with torch.no_grad():
        other.visual_projection.weight.mul_(2)
    wrap(other, tokenizer, ImagePreprocessing(32, 32), "tiny").save(folder)
    after = load(str(folder))
    pixels = np.zeros((1, 32, 32, 3), np.uint8)
    assert np.allclose(after.image_features(pixels), 2 * before.image_features(pixels), atol=1e-5)
    assert after.fingerprint != before.fingerprint


def test_training_copy_is_never_the_one_that_scores(folder):
    torch = pytest.importorskip("torch")
    scoring, training = load(str(folder)), load_trainable(str(folder), "cpu")
    pixels = np.zeros((1, 32, 32, 3), np.uint8)
    before = scoring.image_features(pixels)
    assert training.fingerprint == scoring.fingerprint
    assert training.precision == "fp32"
    with torch.no_grad():
        training.module.visual_projection.weight.zero_()
    assert np.array_equal(load(str(folder)).image_features(pixels), before)
    assert load_trainable(str(folder), "cpu").module is not training.module


def test_cuda_asked_for_and_absent(folder, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with using(Runtime(device="cuda")), pytest.raises(InputError, match="finds no GPU here"):
        load(str(folder))


def test_activation_is_for_files(folder):
    with pytest.raises(InputError, match=r"activation=gelu is for checkpoint files"):
        load(str(folder), activation="gelu")


def test_the_room_exports_its_public_names():
    pytest.importorskip("torch")
    import captious.models

    assert all(hasattr(captious.models, name) for name in captious.models.__all__)
    assert captious.models.load is load
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        captious.models.lode  # noqa: B018


def test_importing_the_door_brings_no_torch():
    code = "import sys; from captious.models import load; sys.exit(bool({'torch', 'transformers'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_mini_loads_without_torch():
    from captious.models.mini import get_mini_folder

    if not (get_mini_folder("captious-mini") / "model.safetensors").is_file():
        pytest.skip("the weights of captious-mini are not in this checkout")
    code = (
        "import sys; sys.modules['torch'] = sys.modules['transformers'] = None\n"
        "from captious.models.loading import load\n"
        "assert load('captious-mini').text_features(load('captious-mini').tokenize(['a ball']).ids).shape[0] == 1"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_absent_gpu_is_refused_before_anything_is_looked_for():
    """Not after a download: the weights named here are nowhere, and the device is what the error is about."""
    if pytest.importorskip("torch").cuda.is_available():
        pytest.skip("there is a GPU here")
    with using(Runtime(device="cuda")), pytest.raises(InputError, match="torch finds no GPU here"):
        load("nobody/nothing")


@pytest.mark.parametrize(
    ("weights", "activation", "said"),
    [
        ("captious-mini", "gelu", "captious-mini: activation=gelu is for checkpoint files"),
        ("nowhere.pt", "relu", "activation 'relu': expected one of gelu, quick_gelu"),
    ],
)
def test_an_activation_is_never_ignored_nor_left_to_fail_later(weights, activation, said):
    with pytest.raises(InputError, match=said):
        load(weights, activation=activation)
