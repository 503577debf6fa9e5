"""Arithmetic and parameters as the paper's Table 2 counts them."""

import pytest

from captious.models.cost import clip_cost, tower_flops


def released(limit):
    """ViT-B/32 as OpenAI released it, without its weights."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    with torch.device("meta"):
        return transformers.CLIPModel(transformers.CLIPConfig(text_config={"max_position_embeddings": limit}))


def test_vit_b_32():
    cost = clip_cost(released(77), 77)
    assert cost.parameters == 151_277_313
    assert cost.image_flops / 1e9 == pytest.approx(8.82, abs=0.005)
    assert cost.text_flops / 1e9 == pytest.approx(5.96, abs=0.005)
    assert cost.flops / 1e12 == pytest.approx(1.48e-2, abs=5e-5)


def test_248_tokens():
    cost = clip_cost(released(248), 248)
    assert cost.flops / 1e12 == pytest.approx(2.91e-2, abs=5e-5)
    assert cost.parameters == 151_277_313 + (248 - 77) * 512


def test_a_tower_by_hand():
    """3 tokens of width 2, inner 5, one layer: 4·3·2·2 + 2·3·3·2 + 2·3·2·5 = 48 + 36 + 60 multiply-adds."""
    assert tower_flops(3, 2, 5, 1) == 2 * 144
