"""The NumPy forward pass against transformers' own on the same random weights, and the files it reads."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file
from threadpoolctl import threadpool_info, threadpool_limits

from captious.errors import InputError
from captious.models._preprocess import ImagePreprocessing
from captious.models.cost import cost
from captious.models.mini import WordTokenizer, load_numpy, read_tensors, write_tensors

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

WORDS = WordTokenizer(tuple("abcdefgh"), limit=12)
TEXTS = ["a b c", "", "h g f e d c b a a b c d e f", "a"]


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def model(folder, activation="quick_gelu", end=WORDS.end):
    torch.manual_seed(0)
    tower = {"num_hidden_layers": 3, "hidden_act": activation}
    config = transformers.CLIPConfig(
        text_config={
            **tower,
            "hidden_size": 24,
            "intermediate_size": 48,
            "num_attention_heads": 3,
            "vocab_size": WORDS.end + 1,
            "max_position_embeddings": 12,
            "bos_token_id": WORDS.start,
            "eos_token_id": end,
            "pad_token_id": 0,
        },
        vision_config={
            **tower,
            "hidden_size": 32,
            "intermediate_size": 96,
            "num_attention_heads": 4,
            "image_size": 32,
            "patch_size": 8,
        },
        projection_dim=16,
    )
    made = transformers.CLIPModel(config).eval()
    for parameter in made.parameters():  # the library's start is so small that mistakes would hide in it
        torch.nn.init.normal_(parameter, std=0.3)
    made.save_pretrained(folder)
    WORDS.save(folder)
    ImagePreprocessing(size=32, crop=32).save(folder)
    return made


def expected(made, pixels=None, ids=None):
    with torch.no_grad():
        if ids is not None:
            found = made.get_text_features(input_ids=torch.from_numpy(ids))
        else:
            three = ImagePreprocessing()
            values = (pixels / 255 - np.array(three.mean)) / np.array(three.std)
            found = made.get_image_features(pixel_values=torch.tensor(values, dtype=torch.float32).permute(0, 3, 1, 2))
    return getattr(found, "pooler_output", found).numpy()


def off(found, right):
    return np.abs(found - right).max() / np.abs(right).max()


@pytest.mark.parametrize("activation", ["quick_gelu", "gelu"])
@pytest.mark.parametrize("end", [WORDS.end, 2])
def test_features_are_those_of_transformers(tmp_path, activation, end):
    made = model(tmp_path, activation, end)
    encoder = load_numpy(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (40, 32, 32, 3), dtype=np.uint8)
    ids = encoder.tokenize(TEXTS).ids
    assert off(encoder.image_features(pixels), expected(made, pixels=pixels)) < 1e-5
    assert off(encoder.text_features(ids), expected(made, ids=ids)) < 1e-5
    assert encoder.image_features(pixels).dtype == encoder.text_features(ids).dtype == np.float32


def test_padding_and_company_do_not_matter(tmp_path):
    model(tmp_path)
    encoder = load_numpy(tmp_path)
    together = encoder.text_features(encoder.tokenize(TEXTS).ids)
    for text, row in zip(TEXTS, together, strict=True):
        assert np.allclose(encoder.text_features(encoder.tokenize([text]).ids)[0], row, atol=1e-5)


def test_nothing_in_nothing_out(tmp_path):
    model(tmp_path)
    encoder = load_numpy(tmp_path)
    assert encoder.image_features(np.zeros((0, 32, 32, 3), np.uint8)).shape == (0, 16)
    assert encoder.text_features(encoder.tokenize([]).ids).shape == (0, 16)


def test_facts_about_it(tmp_path):
    made = model(tmp_path)
    encoder = load_numpy(tmp_path, "tiny")
    assert (encoder.name, encoder.precision, encoder.dimension, encoder.limit) == ("tiny", "fp32", 16, 12)
    assert encoder.prepare(Image.new("RGB", (50, 40))).shape == (32, 32, 3)
    counted = cost(encoder)
    assert counted.parameters == sum(tensor.numel() for tensor in made.parameters())
    # 3 layers over 17 and 12 tokens: four projections, two products of attention and two of the MLP a token; before
    # them patches of 3·8·8 numbers, after them a projection to 16.
    assert counted.image_flops == 2 * (3 * 17 * (4 * 32**2 + 2 * 17 * 32 + 2 * 32 * 96) + 16 * 192 * 32 + 32 * 16)
    assert counted.text_flops == 2 * (3 * 12 * (4 * 24**2 + 2 * 12 * 24 + 2 * 24 * 48) + 24 * 16)


def test_fingerprint_follows_what_moves_scores(tmp_path):
    model(tmp_path)
    first = load_numpy(tmp_path).fingerprint
    assert len(first) == 12 and load_numpy(tmp_path).fingerprint == first
    ImagePreprocessing(size=32, crop=32, resample="bilinear").save(tmp_path)
    second = load_numpy(tmp_path).fingerprint
    arrays = read_tensors(tmp_path / "model.safetensors")
    arrays["text_projection.weight"] = arrays["text_projection.weight"] * 2
    write_tensors(tmp_path / "model.safetensors", arrays)
    assert len({first, second, load_numpy(tmp_path).fingerprint}) == 3


def test_what_is_no_such_model_is_said_in_one_line(tmp_path):
    with pytest.raises(InputError, match=r"no config\.json"):
        load_numpy(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(InputError, match="model type is 'bert', expected 'clip'"):
        load_numpy(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    with pytest.raises(InputError, match=r"no model\.safetensors"):
        load_numpy(tmp_path)
    model(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["text_config"]["hidden_act"] = "relu"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="hidden_act is 'relu'"):
        load_numpy(tmp_path).text_features(np.array([[WORDS.start, WORDS.end]]))
    content = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(content[:-4])
    with pytest.raises(InputError, match=r"not a whole safetensors file \(.*not fully covered"):
        load_numpy(tmp_path)


ARRAYS = {
    "b": np.arange(6, dtype=np.float32).reshape(2, 3) / 3,
    "a": np.array(2.5, np.float32),
    "empty": np.zeros((0, 2), np.float32),
}


@pytest.mark.parametrize("half", [False, True])
def test_the_library_reads_what_is_written(tmp_path, half):
    write_tensors(tmp_path / "x", ARRAYS, half=half)
    found = load_file(tmp_path / "x")
    for name, array in ARRAYS.items():
        assert np.array_equal(found[name], array.astype(np.float16) if half else array)
        assert np.array_equal(read_tensors(tmp_path / "x")[name], found[name].astype(np.float32))


def test_what_the_library_writes_is_read(tmp_path):
    library = pytest.importorskip("safetensors.torch")
    values = torch.tensor([[1.5, -2.0], [3e-5, 7e8]])
    kinds = {"half": torch.float16, "brain": torch.bfloat16, "single": torch.float32, "double": torch.float64}
    stored = {name: values.clamp(max=6e4).to(kind) for name, kind in kinds.items()}
    library.save_file({**stored, "ids": torch.arange(3)}, tmp_path / "x")
    found = read_tensors(tmp_path / "x")
    assert set(found) == set(kinds)
    for name, tensor in stored.items():
        assert np.array_equal(found[name], tensor.float().numpy())


def test_other_files_are_refused(tmp_path):
    for content in (b"", b"PK\x03\x04" * 30, b"\x02\0\0\0\0\0\0\0{}"[:9]):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(InputError, match="not a whole safetensors file"):
            read_tensors(tmp_path / "x")


def blas_threads():
    """Of NumPy's own BLAS, where its wheel brings one: SciPy's is another, perhaps loaded later."""
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    own = [library for library in libraries if "numpy" in library["filepath"]]
    return {library["num_threads"] for library in own or libraries}


def test_blas_gets_one_thread_inside_a_call_and_its_own_back(tmp_path, monkeypatch):
    model(tmp_path)
    encoder = load_numpy(tmp_path)
    inside = []

    def features(ids):
        inside.append(blas_threads())
        return np.zeros((len(ids), 16), np.float32)

    monkeypatch.setattr(encoder, "_encode_texts", features)
    ids = np.zeros((40, 3), np.int64)
    with threadpool_limits(2, user_api="blas"):
        encoder.text_features(ids)
        assert inside == [{1}] * 3 and blas_threads() == {2}
    before = blas_threads()
    with ThreadPoolExecutor(4) as pool:  # where calls of several threads overlap
        list(pool.map(encoder.text_features, [ids] * 8))
    assert inside == [{1}] * 27 and blas_threads() == before


def test_an_error_comes_out(tmp_path):
    model(tmp_path)
    with pytest.raises(IndexError):
        load_numpy(tmp_path).text_features(np.full((40, 3), 99))
