"""Arithmetic and parameters as the paper's Table 2 counts them."""

import pytest

from captious.errors import InputError
from captious.models._preprocess import ImagePreprocessing
from captious.models.cost import JUDGE_SHAPES, JudgeShape, cost, get_judge_shape


def released(limit, patch=32):
    """ViT-B/32 as OpenAI released it, or with another patch, without its weights."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from captious.models.clip import TorchEncoder

    with torch.device("meta"):
        shape = {"vision_config": {"patch_size": patch}, "text_config": {"max_position_embeddings": limit}}
        module = transformers.CLIPModel(transformers.CLIPConfig(**shape))
    return TorchEncoder(
        "b32", "", "fp32", 512, limit, module.eval(), None, ImagePreprocessing(), torch.device("meta"), True
    )


def test_vit_b_32():
    counted = cost(released(77))
    assert counted.parameters == 151_277_313
    assert counted.image_flops / 1e9 == pytest.approx(8.82, abs=0.005)
    assert counted.text_flops / 1e9 == pytest.approx(5.96, abs=0.005)
    assert counted.flops / 1e12 == pytest.approx(1.48e-2, abs=5e-5)


def test_248_tokens():
    counted = cost(released(248))
    assert counted.flops / 1e12 == pytest.approx(2.91e-2, abs=5e-5)
    assert counted.parameters == 151_277_313 + (248 - 77) * 512


def test_longclip_of_patches_of_16():
    counted = cost(released(248, patch=16))
    assert counted.parameters == 149_708_289
    assert counted.image_flops == pytest.approx(35.127e9, rel=2e-4)
    assert counted.text_flops == pytest.approx(20.235e9, rel=2e-4)


def test_an_encoder_of_another_kind_is_refused(colors):
    pytest.importorskip("torch")
    with pytest.raises(InputError, match="colors: its cost cannot be counted"):
        cost(colors())


def test_a_judge_by_hand():
    """One layer of width 2, inner 3, keys of 1, 5 words: 2·4 + 2·2·1 + 3·2·3 = 30 in the layer, 10 in the output."""
    shape = JudgeShape(1, 2, 3, 1, 5)
    assert shape.count_flops(7, output=False) == 2 * 7 * 30
    assert shape.count_flops(7) == 2 * 7 * (30 + 10)
    assert shape.count_flops(7, attention=True) == 2 * 7 * 40 + 4 * 1 * 7**2 * 2


@pytest.mark.parametrize(
    ("name", "parameters", "tflops"),
    [
        # Layers' matrices of the models' cards: 6.476e9 of LLaMA-2-7B's 6.74e9 parameters; SPECS prints 3.97 and 7.74.
        ("llama-2-7b", 6_476_005_376, 3.97),
        ("llava-1.5-13b", 12_687_769_600, 7.74),
    ],
)
def test_judges_as_published(name, parameters, tflops):
    assert JUDGE_SHAPES[name].block_parameters == parameters
    assert JUDGE_SHAPES[name].count_flops(300) / 1e12 == pytest.approx(tflops, rel=0.005)


def test_an_unknown_judge():
    with pytest.raises(InputError, match=r"unknown judge 'llama-2-7': expected one of .*; did you mean"):
        get_judge_shape("llama-2-7")
    with pytest.raises(InputError, match="kv_width is 0"):
        JudgeShape(1, 2, 3, 0, 5)
