"""Pipelines of diffusers as painters, with tiny random ones."""

import shutil

import numpy as np
import pytest

from captious.encoders.runtime import Runtime, using
from captious.errors import InputError
from captious.imagine.painters import BLACK, NOT_FINITE, Options, Wish, load_painter

TEXTS = ["a red dog", "two cats on a table", "x"]
WISHES = [Wish(text, seed) for text in TEXTS for seed in range(2)]


def painted(painter, wishes):
    found = list(painter.paint(wishes))
    places = [place for batch in found for place in batch.places]
    assert places == list(range(len(wishes)))
    return np.concatenate([batch.pixels for batch in found]), np.concatenate([batch.codes for batch in found])


@pytest.fixture
def painter(pipeline):
    return load_painter(str(pipeline), Options(steps=3))


def test_the_same_seed_gives_the_same_picture_whatever_the_batch(painter):
    pixels, codes = painted(painter, WISHES)
    assert pixels.shape == (6, 16, 16, 3) and not codes.any()
    for batch in (1, 4):
        with using(Runtime(batch=batch)):
            again, _ = painted(painter, WISHES)
        # One grey level: another batch may add up in another order.
        assert np.abs(again.astype(int) - pixels).max() <= 1
    backwards, _ = painted(painter, WISHES[::-1])
    assert np.abs(backwards[::-1].astype(int) - pixels).max() <= 1
    assert (pixels[0] != pixels[1]).any() and (pixels[0] != pixels[2]).any()


def test_a_generator_of_its_own_on_the_cpu_is_what_the_plain_pipeline_gives(painter, pipeline):
    import torch
    from diffusers import StableDiffusionPipeline

    plain = StableDiffusionPipeline.from_pretrained(pipeline)
    plain.set_progress_bar_config(disable=True)
    made = plain(
        "a red dog", generator=torch.Generator("cpu").manual_seed(1), num_inference_steps=3, guidance_scale=7.5
    ).images[0]
    pixels, _ = painted(painter, [Wish("a red dog", 1)])
    assert np.abs(pixels[0].astype(int) - np.asarray(made)).max() <= 1


def test_fingerprint_follows_weights_and_settings_not_the_place(painter, pipeline, tmp_path):
    moved = tmp_path / "elsewhere"
    shutil.copytree(pipeline, moved)
    assert load_painter(str(moved), Options(steps=3)).fingerprint == painter.fingerprint
    for options in (Options(steps=4), Options(steps=3, guidance=1.0), Options(steps=3, scheduler="DDIMScheduler")):
        assert load_painter(str(pipeline), options).fingerprint != painter.fingerprint
    import torch
    from diffusers import StableDiffusionPipeline

    other = StableDiffusionPipeline.from_pretrained(pipeline)
    with torch.no_grad():
        other.unet.conv_in.bias += 1e-3
    other.save_pretrained(tmp_path / "other")
    assert load_painter(str(tmp_path / "other"), Options(steps=3)).fingerprint != painter.fingerprint


def test_what_is_no_picture_has_a_code(painter, monkeypatch):
    class Made:
        images = np.stack([np.zeros((16, 16, 3)), np.full((16, 16, 3), np.nan), np.full((16, 16, 3), 0.5)])
        nsfw_content_detected = None

    monkeypatch.setattr(painter, "pipeline", lambda **call: Made)
    pixels, codes = painted(painter, WISHES[:3])
    assert codes.tolist() == [BLACK, NOT_FINITE, 0] and pixels[2, 0, 0].tolist() == [128] * 3
    Made.images, Made.nsfw_content_detected = np.full((2, 16, 16, 3), 0.5, np.float32), [False, True]
    assert painted(painter, WISHES[:2])[1].tolist() == [0, BLACK]


def test_out_of_memory_halves_the_batch_and_says_so(painter, monkeypatch):
    plain, sizes, lines = painter.pipeline, [], []

    def tight(**call):
        sizes.append(len(call["prompt"]))
        if len(call["prompt"]) > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        return plain(**call)

    whole, _ = painted(painter, WISHES)
    monkeypatch.setattr(painter, "pipeline", tight)
    with using(Runtime(log=lines.append)):
        pixels, codes = painted(painter, WISHES)
    assert sizes[0] == 6 and max(sizes[2:]) <= 2 and not codes.any()
    assert np.abs(pixels.astype(int) - whole).max() <= 1
    assert lines and lines[0].startswith("painting: out of memory with a batch of 6")
    painter.pace.most = 10**6


def test_long_texts_are_counted_as_cut(painter):
    # Sixteen tokens with start and end: fourteen letters fit.
    assert painter.cut(["a" * 14, "a" * 15, "dog"]).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(scheduler="DDIM"), "unknown scheduler 'DDIM'"),
        (Options(guide="captious-mini"), "has no option guide"),
        (Options(steps=0), "steps is 0"),
        (Options(compile=True), "compile is for a GPU"),
    ],
)
def test_options_that_do_not_fit(pipeline, options, message):
    with pytest.raises(InputError, match=message), using(Runtime(device="cpu")):
        load_painter(str(pipeline), options)


def test_no_weights_and_no_network(monkeypatch, tmp_path):
    import diffusers

    def unreachable(*args, **options):
        raise OSError("We couldn't connect to the hub")

    monkeypatch.setattr(diffusers.DiffusionPipeline, "from_pretrained", unreachable)
    with pytest.raises(InputError, match=r"not on this machine, .* download huggingface.co/owner/name whole") as caught:
        load_painter("owner/name")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="no such folder, expected one, a hub id"):
        load_painter("no such painter")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"has no model_index\.json"):
        load_painter(str(tmp_path / "empty"))
    with pytest.raises(InputError, match="'drawn' has no option steps"):
        load_painter("drawn", Options(steps=3))
