"""Features equal to those of ``transformers``' own CLIP, with gradients for training, saved and read again."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from captious.errors import InputError
from captious.models._preprocess import ImagePreprocessing
from captious.models.clip import wrap
from captious.models.loading import load

TEXTS = ["A cat on a mat.", "two dogs running across a very green field in the rain", ""]


@pytest.fixture
def encoder(clip_module, tokenizer):
    return wrap(clip_module, tokenizer, ImagePreprocessing(32, 32), "tiny")


def pictures(count=3, side=32):
    return np.random.default_rng(1).integers(0, 256, (count, side, side, 3), np.uint8)


def features_of(found):
    return getattr(found, "pooler_output", found).detach().numpy()


def test_image_features_are_transformers(encoder, clip_module):
    torch = pytest.importorskip("torch")
    mean, std = np.array(encoder.preparation.mean), np.array(encoder.preparation.std)
    normal = ((pictures() / 255 - mean) / std).transpose(0, 3, 1, 2).astype(np.float32)
    theirs = features_of(clip_module.get_image_features(pixel_values=torch.from_numpy(normal)))
    ours = encoder.image_features(pictures())
    assert ours.dtype == np.float32
    assert ours.shape == (3, encoder.dimension)
    assert np.abs(ours - theirs).max() < 1e-5


def test_text_features_are_transformers(encoder, clip_module):
    """Theirs padded to 77 with the attention masked, as their tokenizer gives it."""
    torch = pytest.importorskip("torch")
    ids, lengths = encoder.tokenize(TEXTS)
    wide = np.full((3, 77), encoder.pad)
    wide[:, : ids.shape[1]] = ids
    mask = (np.arange(77) < lengths[:, None]).astype(np.int64)
    theirs = features_of(
        clip_module.get_text_features(input_ids=torch.from_numpy(wide), attention_mask=torch.from_numpy(mask))
    )
    assert np.abs(encoder.text_features(ids) - theirs).max() < 1e-5


def test_padding_does_not_move_a_text(encoder):
    together = encoder.text_features(encoder.tokenize(TEXTS).ids)
    for text, row in zip(TEXTS, together, strict=True):
        assert np.abs(encoder.text_features(encoder.tokenize([text]).ids)[0] - row).max() < 1e-6


def test_read_only_pixels_and_tensors_are_taken(encoder, recwarn):
    torch = pytest.importorskip("torch")
    plain = encoder.image_features(pictures())
    fixed = pictures()
    fixed.flags.writeable = False
    assert np.array_equal(encoder.image_features(fixed), plain)
    assert np.array_equal(encoder.image_features(torch.from_numpy(pictures())), plain)
    assert not [warning for warning in recwarn if "writ" in str(warning.message)]


def test_prepare_is_the_preparation(encoder):
    picture = Image.fromarray(pictures(1, 50)[0])
    assert np.array_equal(encoder.prepare(picture), ImagePreprocessing(32, 32).prepare(picture))


def test_training_has_gradients_even_after_scoring(encoder):
    """Scoring first, in inference mode, must leave nothing behind that autograd refuses."""
    torch = pytest.importorskip("torch")
    encoder.image_features(pictures())
    images = encoder.image_tensor(encoder.pixels_to_tensor(pictures()))
    texts = encoder.text_tensor(torch.from_numpy(encoder.tokenize(TEXTS).ids))
    loss = (encoder.logit_scale.exp() * (images * texts).sum(1)).sum()
    loss.backward()
    module = encoder.module
    for parameter in (module.visual_projection.weight, module.text_projection.weight, encoder.logit_scale):
        assert parameter.grad is not None
        assert parameter.grad.abs().sum() > 0
    module.zero_grad(set_to_none=True)


def test_frame_of_a_text(encoder):
    assert (encoder.start, encoder.end, encoder.pad, encoder.limit, encoder.causal) == (49406, 49407, 49407, 77, True)


@pytest.mark.parametrize(("precision", "within"), [("bf16", 0.02), ("fp16", 0.002)])
def test_half_precision_returns_floats_close_to_full(clip_module, tokenizer, encoder, precision, within):
    import copy

    half = wrap(copy.deepcopy(clip_module), tokenizer, encoder.preparation, "tiny", precision=precision)
    assert half.precision == precision
    assert half.fingerprint != encoder.fingerprint
    ids = encoder.tokenize(TEXTS).ids
    for ours, full in (
        (half.image_features(pictures()), encoder.image_features(pictures())),
        (half.text_features(ids), encoder.text_features(ids)),
    ):
        assert ours.dtype == np.float32
        cosine = (ours * full).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(full, axis=1)
        assert (1 - cosine).max() < within


def test_saved_and_loaded_is_the_same_encoder(encoder, tmp_path):
    encoder.save(tmp_path / "mine")
    again = load(str(tmp_path / "mine"))
    assert again.name == "mine"
    assert again.fingerprint == encoder.fingerprint
    assert np.array_equal(again.image_features(pictures()), encoder.image_features(pictures()))
    ids = encoder.tokenize(TEXTS).ids
    assert np.array_equal(again.tokenize(TEXTS).ids, ids)
    assert np.array_equal(again.text_features(ids), encoder.text_features(ids))


def test_transformers_alone_loads_what_is_saved(encoder, tmp_path):
    transformers = pytest.importorskip("transformers")
    encoder.save(tmp_path)
    theirs = transformers.CLIPModel.from_pretrained(tmp_path).eval()
    found = features_of(theirs.get_image_features(pixel_values=encoder.pixels_to_tensor(pictures())))
    assert np.abs(found - encoder.image_features(pictures())).max() < 1e-6


def test_fingerprint_moves_with_everything_that_moves_features(clip_module, tokenizer, encoder):
    import copy

    torch = pytest.importorskip("torch")
    other = copy.deepcopy(clip_module)
    with torch.no_grad():
        other.text_projection.weight[0, 0] += 1e-3
    activation = copy.deepcopy(clip_module)
    activation.config.text_config.hidden_act = "gelu"
    prints = {
        encoder.fingerprint,
        wrap(other, tokenizer, encoder.preparation, "tiny").fingerprint,
        wrap(activation, tokenizer, encoder.preparation, "tiny").fingerprint,
        wrap(clip_module, replace(tokenizer, limit=60), encoder.preparation, "tiny").fingerprint,
        wrap(clip_module, replace(tokenizer, clean=False), encoder.preparation, "tiny").fingerprint,
        wrap(clip_module, tokenizer, ImagePreprocessing(32, 32, order="rgb-first"), "tiny").fingerprint,
    }
    assert len(prints) == 6
    assert wrap(clip_module, tokenizer, encoder.preparation, "other name").fingerprint == encoder.fingerprint
    assert all(len(one) == 12 for one in prints)


def test_cuda_asked_for_and_absent(clip_module, tokenizer, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="finds no GPU here"):
        wrap(clip_module, tokenizer, ImagePreprocessing(32, 32), "tiny", device="cuda")
