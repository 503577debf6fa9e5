"""Folders in ``transformers``' layout: the families that load, and what is said of those that do not."""

import json

import numpy as np
import pytest

from captious.errors import InputError
from captious.models._preprocess import ImagePreprocessing
from captious.models.clip import wrap
from captious.models.loading import load

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

TEXTS = ["a dog", "a red dog runs a red dog", ""]


def pictures():
    return np.random.default_rng(2).integers(0, 256, (3, 32, 32, 3), np.uint8)


def words(folder, template="[CLS] $A [SEP]"):
    """A tokenizer of a few words that frames a text as the template says."""
    listed = ["[PAD]", "[UNK]", "a", "dog", "red", "runs", "[CLS]", "[SEP]"]
    backend = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: number for number, word in enumerate(listed)}, unk_token="[UNK]")
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    special = [(word, listed.index(word)) for word in ("[CLS]", "[SEP]") if word in template]
    backend.post_processor = tokenizers.processors.TemplateProcessing(single=template, special_tokens=special)
    backend.save(str(folder / "tokenizer.json"))
    settings = {"pad_token": "[PAD]", "model_max_length": 20}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def clip(**text):
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.CLIPConfig(
        text_config={**shape, "vocab_size": 8, "eos_token_id": 7, "max_position_embeddings": 12, **text},
        vision_config={**shape, "image_size": 32, "patch_size": 16},
        projection_dim=8,
    )
    return transformers.CLIPModel(config).eval()


@pytest.fixture
def folder(tmp_path):
    clip().save_pretrained(tmp_path / "model")
    words(tmp_path / "model")
    return tmp_path / "model"


def features_of(found):
    return getattr(found, "pooler_output", found).detach().numpy()


def test_clip_folder_without_a_preparation_file(folder):
    encoder = load(str(folder))
    assert encoder.preparation == ImagePreprocessing(32, 32, order="crop-first")
    assert (encoder.limit, encoder.dimension, encoder.causal, encoder.pad) == (12, 8, True, 0)
    assert encoder.text_features(encoder.tokenize(TEXTS).ids).shape == (3, 8)


def test_a_clip_is_prepared_as_the_references_do_unless_asked_or_written_otherwise(folder):
    """The file of ``transformers`` says nothing of the order; one of captious does."""
    (folder / "preprocessor_config.json").write_text('{"size": {"shortest_edge": 32}, "crop_size": 32}')
    plain = load(str(folder))
    assert plain.preparation == ImagePreprocessing(32, 32, order="crop-first")
    asked = load(str(folder), order="rgb-first")
    assert asked.preparation.order == "rgb-first"
    assert asked.fingerprint != plain.fingerprint
    ImagePreprocessing(32, 32, order="rgb-first").save(folder)
    assert load(str(folder)).preparation.order == "rgb-first"
    with pytest.raises(InputError, match="order='upside-down'"):
        load(str(folder), order="upside-down")


def test_vision_text_dual_encoder(tmp_path):
    """The text tower looks both ways: padding must be masked, here against one text at a time."""
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.VisionTextDualEncoderConfig.from_vision_text_configs(
        transformers.ViTConfig(**shape, image_size=32, patch_size=16),
        transformers.BertConfig(**shape, vocab_size=8, max_position_embeddings=30),
        projection_dim=8,
    )
    model = transformers.VisionTextDualEncoderModel(config).eval()
    model.save_pretrained(tmp_path)
    words(tmp_path)
    encoder = load(str(tmp_path))
    assert (encoder.causal, encoder.limit, encoder.dimension) == (False, 20, 8)
    assert encoder.preparation.order == "rgb-first"
    tokens = encoder.tokenize(TEXTS)
    found = encoder.text_features(tokens.ids)
    for row, ids, length in zip(found, tokens.ids, tokens.lengths, strict=True):
        alone = model.get_text_features(input_ids=torch.from_numpy(ids[None, :length]))
        assert np.abs(features_of(alone)[0] - row).max() < 1e-5
    images = model.get_image_features(pixel_values=encoder.pixels_to_tensor(pictures()))
    assert np.abs(encoder.image_features(pictures()) - features_of(images)).max() < 1e-5


def test_siglip(tmp_path):
    """Every text is padded to the limit, and the padding is seen: so SigLIP was trained."""
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.SiglipConfig(
        text_config={**shape, "vocab_size": 8, "max_position_embeddings": 10},
        vision_config={**shape, "image_size": 32, "patch_size": 16},
    )
    model = transformers.SiglipModel(config).eval()
    model.save_pretrained(tmp_path)
    words(tmp_path, "$A [SEP]")
    encoder = load(str(tmp_path))
    tokens = encoder.tokenize(["a dog"])
    assert tokens.ids.tolist() == [[2, 3, 7] + [0] * 7]
    theirs = model.get_text_features(input_ids=torch.from_numpy(tokens.ids))
    assert np.abs(encoder.text_features(tokens.ids) - features_of(theirs)).max() < 1e-5
    assert encoder.image_features(pictures()).shape == (3, encoder.dimension)


def test_pickled_weights_in_a_folder(tmp_path):
    model = clip()
    model.save_pretrained(tmp_path)
    words(tmp_path)
    expected = load(str(tmp_path)).image_features(pictures())
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    assert np.array_equal(load(str(tmp_path)).image_features(pictures()), expected)


def refused(folder):
    with pytest.raises(InputError) as error:
        load(str(folder))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_missing_weights_are_not_made_up(folder):
    from safetensors.torch import load_file, save_file

    state = load_file(folder / "model.safetensors")
    del state["text_projection.weight"]
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    assert "missing text_projection.weight" in refused(folder)


def test_weights_of_another_shape(folder):
    config = json.loads((folder / "config.json").read_text())
    config["projection_dim"] = 9
    (folder / "config.json").write_text(json.dumps(config))
    message = refused(folder)
    assert "text_projection.weight" in message
    assert "shape" in message


def test_a_model_of_another_kind(tmp_path):
    transformers.BertConfig().save_pretrained(tmp_path)
    assert "model_type is 'bert', expected one of clip" in refused(tmp_path)


def test_no_weights_no_configuration_no_tokenizer(folder):
    (folder / "tokenizer.json").unlink()
    assert "has no tokenizer" in refused(folder)
    (folder / "model.safetensors").unlink()
    assert "cannot be loaded as CLIPModel" in refused(folder)
    (folder / "config.json").write_text("{")
    assert "cannot be read as JSON" in refused(folder)
    (folder / "config.json").unlink()
    assert "has no config.json" in refused(folder)


def test_model_and_tokenizer_must_mean_the_same_end(tmp_path):
    clip(eos_token_id=5).save_pretrained(tmp_path)
    words(tmp_path)
    assert "looks for the end token 5, the tokenizer writes 7" in refused(tmp_path)


def test_the_old_end_of_two_means_the_largest_id(tmp_path):
    """The end token here is 7, the largest of 8, so it is found; with the frame turned round it would not be."""
    clip(eos_token_id=2).save_pretrained(tmp_path)
    words(tmp_path)
    assert load(str(tmp_path)).end == 7
    words(tmp_path, "[SEP] $A [CLS]")
    assert "eos_token_id is 2" in refused(tmp_path)


def test_a_saved_encoder_keeps_its_words(folder, tmp_path):
    encoder = load(str(folder))
    encoder.save(tmp_path / "again")
    again = load(str(tmp_path / "again"))
    assert again.fingerprint == encoder.fingerprint
    assert (again.start, again.end, again.pad) == (encoder.start, encoder.end, encoder.pad)


def test_wrap_of_a_new_model(tmp_path):
    from captious.models._model_tokenizers import read_tokenizer

    words(tmp_path)
    encoder = wrap(clip(), read_tokenizer(tmp_path, 12), ImagePreprocessing(32, 32), "new")
    assert encoder.text_features(encoder.tokenize(TEXTS).ids).shape == (3, 8)
