"""The dual encoder of two pretrained towers: what it saves, how it splits, and whom it agrees with."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from captious.errors import InputError
from captious.models.cost import cost
from captious.models.dual import DualEncoder, DualHeads, DualModule, load_dual, new_dual, pool_image, pool_text
from captious.models.loading import load, load_trainable

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "dog", "cat", "runs", "sleeps", "red")
TEXTS = ["a dog runs", "a red cat", "a cat sleeps a dog runs"]


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """A DINOv2 and a BERT with random weights, in folders as one downloads them."""
    place = tmp_path_factory.mktemp("parts")
    torch.manual_seed(3)
    config = transformers.Dinov2Config(
        hidden_size=32, num_attention_heads=2, num_hidden_layers=2, image_size=28, patch_size=7
    )
    transformers.Dinov2Model(config).save_pretrained(place / "vision")
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_attention_heads=2,
        num_hidden_layers=2,
        intermediate_size=32,
        max_position_embeddings=12,
    )
    transformers.BertModel(config).save_pretrained(place / "text")
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: n for n, word in enumerate(WORDS)}, "[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    inner.save(str(place / "text" / "tokenizer.json"))
    (place / "text" / "tokenizer_config.json").write_text('{"pad_token": "[PAD]"}')
    return place


@pytest.fixture(scope="module")
def encoder(parts, tmp_path_factory):
    """Residual heads whose perceptrons have left zero."""
    made = new_dual(str(parts / "vision"), str(parts / "text"), DualHeads(dimension=8, hidden=16), device="cpu")
    torch.manual_seed(4)
    with torch.no_grad():
        for head in (made.module.image_head, made.module.text_head):
            head.outer.weight.normal_(std=0.2)
    place = tmp_path_factory.mktemp("trained") / "first"
    made.save(place)
    return load_dual(place)


@pytest.fixture(scope="module")
def pixels():
    return np.random.default_rng(0).integers(0, 256, (3, 28, 28, 3), dtype=np.uint8)


def features(encoder, pixels):
    ids = encoder.tokenize(TEXTS).ids
    return encoder.image_features(pixels), encoder.text_features(ids)


def test_it_is_loaded_again_as_it_was(encoder, pixels, tmp_path):
    encoder.save(tmp_path / "saved")
    again = load_dual(tmp_path / "saved")
    for one, other in zip(features(encoder, pixels), features(again, pixels), strict=True):
        np.testing.assert_array_equal(one, other)
    assert again.fingerprint == encoder.fingerprint
    assert (again.name, again.dimension, again.limit) == ("saved", 8, 12)
    again.save(tmp_path / "twice")
    assert load_dual(tmp_path / "twice").fingerprint == encoder.fingerprint


def test_every_loader_knows_the_folder(encoder, tmp_path):
    encoder.save(tmp_path / "saved")
    assert load(str(tmp_path / "saved")).fingerprint == encoder.fingerprint
    free = load_trainable(str(tmp_path / "saved"), "cpu")
    assert isinstance(free, DualEncoder)
    assert (free.fingerprint, free.precision) == (encoder.fingerprint, "fp32")


def test_the_frozen_part_and_the_head_are_the_whole(encoder, pixels):
    ids = torch.from_numpy(encoder.tokenize(TEXTS).ids)
    ready = encoder.pixels_to_tensor(pixels)
    with torch.no_grad():
        torch.testing.assert_close(encoder.image_head(encoder.frozen_images(ready)), encoder.image_tensor(ready))
        torch.testing.assert_close(encoder.text_head(encoder.frozen_texts(ids)), encoder.text_tensor(ids))


def test_layers_held_still_and_the_others_are_the_whole(parts, pixels):
    encoder = new_dual(str(parts / "vision"), str(parts / "text"), DualHeads(dimension=8), device="cpu")
    ready = encoder.pixels_to_tensor(pixels)
    with torch.no_grad():
        whole = encoder.image_tensor(ready)
        encoder.freeze_image_layers(1)
        states = encoder.frozen_images(ready)
        assert states.shape == (3, 17, 32)
        torch.testing.assert_close(encoder.image_head(states), whole)
    learns = {name for name, one in encoder.module.vision_model.named_parameters() if one.requires_grad}
    assert learns and all(name.startswith(("encoder.layer.1.", "layernorm.")) for name in learns)
    with pytest.raises(InputError, match="lock='image:2': the image tower has 2 layers"):
        encoder.freeze_image_layers(2)


def test_a_text_does_not_see_the_padding_of_its_batch(encoder):
    alone = encoder.text_features(encoder.tokenize(TEXTS[:1]).ids)
    together = encoder.text_features(encoder.tokenize(TEXTS).ids)
    np.testing.assert_allclose(alone[0], together[0], atol=1e-6)


def test_linear_heads_on_poolers_are_the_dual_encoder_of_transformers(parts, pixels):
    towers = [transformers.AutoModel.from_pretrained(parts / name).eval() for name in ("vision", "text")]
    theirs = transformers.VisionTextDualEncoderModel(vision_model=towers[0], text_model=towers[1]).eval()
    shape = DualHeads("pooler", "pooler", "linear", theirs.config.projection_dim)
    ours = DualModule(*towers, shape).eval()
    ours.image_head.load_state_dict(theirs.visual_projection.state_dict())
    ours.text_head.load_state_dict(theirs.text_projection.state_dict())
    values = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 128 - 1
    ids = torch.tensor([[2, 4, 5, 3, 0], [2, 4, 9, 6, 3]])
    seen = (ids != 0).long()
    with torch.no_grad():
        image = theirs.get_image_features(pixel_values=values)
        text = theirs.get_text_features(input_ids=ids, attention_mask=seen)
        torch.testing.assert_close(
            ours.get_image_features(values), getattr(image, "pooler_output", image), atol=1e-5, rtol=0
        )
        torch.testing.assert_close(
            ours.get_text_features(ids, seen), getattr(text, "pooler_output", text), atol=1e-5, rtol=0
        )


def test_pooling_by_hand():
    states = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 8.0]]])
    found = type("Output", (), {"last_hidden_state": states})()
    assert pool_image(found, "cls+mean").tolist() == [[1, 2, 4, 6]]
    assert pool_image(found, "mean").tolist() == [[4, 6]]
    assert pool_text(found, torch.tensor([[1, 1, 0]]), "mean").tolist() == [[2, 3]]
    assert pool_text(found, torch.tensor([[1, 1, 0]]), "cls").tolist() == [[1, 2]]
    with pytest.raises(InputError, match="no pooler"):
        pool_image(found, "pooler")


def test_a_new_head_is_linear_in_the_normalized_vector(parts):
    """The perceptron starts at zero, so doubling what comes out of the norm doubles the features."""
    head = new_dual(str(parts / "vision"), str(parts / "text"), device="cpu").module.image_head
    vector = torch.randn(2, 64)
    with torch.no_grad():
        torch.testing.assert_close(head(vector), head.straight(head.norm(vector)))


def test_the_seed_decides_the_heads_and_the_pooling_enters_the_fingerprint(parts):
    def made(**given):
        return new_dual(str(parts / "vision"), str(parts / "text"), device="cpu", **given).fingerprint

    assert made(seed=1) == made(seed=1) != made(seed=2)
    assert made(shape=DualHeads("cls", heads="linear")) != made(shape=DualHeads("mean", heads="linear"))
    assert made(shape=DualHeads(dropout=0.1)) == made(shape=DualHeads(dropout=0.5))


def test_the_cost_is_counted_by_hand(parts):
    encoder = new_dual(str(parts / "vision"), str(parts / "text"), DualHeads(heads="linear", dimension=8), device="cpu")
    # 16 patches and a class token: 2 layers of 4·32² projections, 2·17·32 attention and 2·32·128 MLP a token,
    # patches of 3·7·7 numbers, and a head from cls+mean (64) to 8.
    image = 2 * (2 * 17 * (4 * 32**2 + 2 * 17 * 32 + 2 * 32 * 128) + 16 * 3 * 49 * 32 + 64 * 8)
    text = 2 * (2 * 12 * (4 * 16**2 + 2 * 12 * 16 + 2 * 16 * 32) + 16 * 8)
    counted = cost(encoder)
    assert (counted.image_flops, counted.text_flops) == (image, text)
    assert counted.parameters == sum(one.numel() for one in encoder.module.parameters())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"image_pooling": "max"}, "image pooling 'max': expected cls\\+mean, cls, mean, pooler"),
        ({"heads": "residul"}, "heads 'residul': expected residual, linear"),
        ({"dropout": 1.0}, "dropout 1: expected 0 or more"),
        ({"dimension": 0}, "dimension 0"),
    ],
)
def test_a_shape_that_cannot_be(given, says):
    with pytest.raises(InputError, match=says):
        DualHeads(**given)


def test_damaged_folders_are_named(encoder, tmp_path):
    with pytest.raises(InputError, match=r"has no captious-encoder\.json"):
        encoder.save(tmp_path / "bare")
        (tmp_path / "bare" / "captious-encoder.json").unlink()
        load_dual(tmp_path / "bare")
    encoder.save(tmp_path / "other")
    record = json.loads((tmp_path / "other" / "captious-encoder.json").read_text())
    (tmp_path / "other" / "captious-encoder.json").write_text(json.dumps({**record, "hidden": 17}))
    with pytest.raises(InputError, match=r"heads.safetensors: is not of the shape .* image_head.inner.bias"):
        load_dual(tmp_path / "other")
    (tmp_path / "other" / "captious-encoder.json").write_text('{"kind": "triple"}')
    with pytest.raises(InputError, match="kind 'triple', expected 'dual'"):
        load_dual(tmp_path / "other")
    encoder.save(tmp_path / "cut")
    (tmp_path / "cut" / "heads.safetensors").write_bytes(b"no")
    with pytest.raises(InputError, match=r"heads\.safetensors: cannot be read"):
        load_dual(tmp_path / "cut")
    encoder.save(tmp_path / "gone")
    (tmp_path / "gone" / "vision" / "model.safetensors").unlink()
    with pytest.raises(InputError, match="vision: cannot be loaded by transformers"):
        load_dual(tmp_path / "gone")
    with pytest.raises(InputError, match=r"has no config\.json"):
        new_dual(str(tmp_path), str(tmp_path))
