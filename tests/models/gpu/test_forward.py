"""The forward passes for a GPU compute what those of ``transformers`` do; here they run on the CPU, in fp32."""

import copy

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from captious.models._gpu.forward import patch_product, speed_up


def clip(**changes):
    """A small CLIP with random weights; its images are 40 pixels wide, in patches of 8."""
    torch.manual_seed(3)
    shape = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2, **changes}
    config = transformers.CLIPConfig(
        text_config={**shape, "vocab_size": 50, "max_position_embeddings": 12, "eos_token_id": 49},
        vision_config={**shape, "image_size": 40, "patch_size": 8},
        projection_dim=16,
    )
    return transformers.CLIPModel(config).eval()


def features(model):
    """Vectors of fixed images and texts."""
    torch.manual_seed(4)
    pixels, ids = torch.randn(3, 3, 40, 40), torch.randint(0, 49, (3, 9))
    ids[:, -1] = 49
    found = model.get_image_features(pixel_values=pixels), model.get_text_features(input_ids=ids)
    return [getattr(one, "pooler_output", one) for one in found]


def test_a_model_gives_the_same_vectors():
    model = clip()
    with torch.inference_mode():
        expected = features(model)
        speed_up(model)
        for ours, theirs in zip(features(model), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def replaced(model):
    return [name for name, part in model.named_modules() if "forward" in vars(part)]


def test_patches_and_perceptrons_of_both_towers_are_replaced():
    model = clip()
    speed_up(model)
    assert len(replaced(model)) == 1 + 2 * 2  # the patches, and two layers of each tower
    gelu = clip(hidden_act="gelu")
    speed_up(gelu)
    assert replaced(gelu) == ["vision_model.embeddings.patch_embedding"]


def test_gradients_come_from_the_code_of_the_library():
    plain, fast = clip(), clip()
    speed_up(fast)
    for model in (plain, fast):
        sum(vector.square().sum() for vector in features(model)).backward()
    for (name, one), two in zip(plain.named_parameters(), fast.parameters(), strict=True):
        assert (one.grad is None) == (two.grad is None), name
        assert one.grad is None or torch.equal(one.grad, two.grad), name


def test_a_copy_of_a_model_has_its_own_weights():
    model = clip()
    speed_up(model)
    other = copy.deepcopy(model)
    with torch.inference_mode():
        before = features(model)[0]
        for weight in other.parameters():
            weight.zero_()
        assert torch.equal(features(model)[0], before) and not features(other)[0].any()


@pytest.mark.parametrize("side", [40, 45])
def test_pixels_beyond_the_last_patch_are_left_out_as_in_a_convolution(side):
    torch.manual_seed(5)
    part, pixels = torch.nn.Conv2d(3, 7, kernel_size=(8, 4), stride=(8, 4)), torch.randn(2, 3, side, side)
    torch.testing.assert_close(patch_product(part, pixels), part(pixels), rtol=1e-5, atol=1e-6)


def test_convolutions_that_read_a_pixel_twice_or_not_at_all_stay():
    for options in (
        {"stride": 4},
        {"stride": 8, "padding": 1},
        {"stride": 8, "dilation": 2},
        {"stride": 8, "groups": 3},
    ):
        part = torch.nn.Conv2d(3, 6, kernel_size=8, **options)
        speed_up(part)
        assert "forward" not in vars(part), options
