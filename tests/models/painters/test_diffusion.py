"""Pipelines of diffusers as painters, with tiny random ones."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from captious.errors import InputError
from captious.models import _diffusion as acceleration
from captious.models._diffusion import decode_in_groups, load_diffusion
from captious.models.painters import BLACK, NOT_FINITE, PainterOptions, Prompt, load_painter
from captious.models.pipeline import OomBackoff
from captious.options import Runtime, using

TEXTS = ["a red dog", "two cats on a table", "x"]
WISHES = [Prompt(text, seed) for text in TEXTS for seed in range(2)]


def painted(painter, prompts):
    found = list(painter.paint(prompts))
    places = [place for batch in found for place in batch.indices]
    assert places == list(range(len(prompts)))
    return np.concatenate([batch.pixels for batch in found]), np.concatenate([batch.codes for batch in found])


@pytest.fixture
def painter(pipeline):
    return load_painter(str(pipeline), PainterOptions(steps=3))


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
    pixels, _ = painted(painter, [Prompt("a red dog", 1)])
    assert np.abs(pixels[0].astype(int) - np.asarray(made)).max() <= 1


def test_fingerprint_follows_weights_and_settings_not_the_place(painter, pipeline, tmp_path):
    moved = tmp_path / "elsewhere"
    shutil.copytree(pipeline, moved)
    assert load_painter(str(moved), PainterOptions(steps=3)).fingerprint == painter.fingerprint
    for options in (
        PainterOptions(steps=4),
        PainterOptions(steps=3, guidance=1.0),
        PainterOptions(steps=3, scheduler="DDIMScheduler"),
    ):
        assert load_painter(str(pipeline), options).fingerprint != painter.fingerprint
    import torch
    from diffusers import StableDiffusionPipeline

    other = StableDiffusionPipeline.from_pretrained(pipeline)
    with torch.no_grad():
        other.unet.conv_in.bias += 1e-3
    other.save_pretrained(tmp_path / "other")
    assert load_painter(str(tmp_path / "other"), PainterOptions(steps=3)).fingerprint != painter.fingerprint


def test_what_is_no_picture_has_a_code(painter, monkeypatch):
    class Made:
        images = np.stack([np.zeros((16, 16, 3)), np.full((16, 16, 3), np.nan), np.full((16, 16, 3), 0.5)])
        nsfw_content_detected = None

    monkeypatch.setattr(painter, "pipeline", lambda **call: Made)
    pixels, codes = painted(painter, WISHES[:3])
    assert codes.tolist() == [BLACK, NOT_FINITE, 0] and pixels[2, 0, 0].tolist() == [128] * 3
    Made.images, Made.nsfw_content_detected = np.full((2, 16, 16, 3), 0.5, np.float32), [False, True]
    assert painted(painter, WISHES[:2])[1].tolist() == [0, BLACK]


@pytest.mark.parametrize(("value", "code"), [(float("inf"), NOT_FINITE), (float("nan"), NOT_FINITE), (-1e4, BLACK)])
def test_what_a_decoder_breaks_is_no_picture_though_the_pipeline_clamps(pipeline, value, code):
    import torch

    broken = load_diffusion(str(pipeline), PainterOptions(steps=2))
    with torch.no_grad():
        broken.pipeline.vae.decoder.conv_out.bias.fill_(value)
    assert painted(broken, WISHES[:2])[1].tolist() == [code, code]


def test_another_kind_of_pipeline_with_the_same_parts_is_another_painter(painter, pipeline, tmp_path):
    import json

    place = shutil.copytree(pipeline, tmp_path / "tiny-diffusion")
    index = json.loads((place / "model_index.json").read_text())
    (place / "model_index.json").write_text(json.dumps(index | {"_class_name": "StableDiffusionPAGPipeline"}))
    assert load_painter(str(place), PainterOptions(steps=3)).fingerprint != painter.fingerprint


def test_a_loaded_painter_decodes_in_groups_and_passes_its_settings_on(pipeline, monkeypatch):
    import diffusers

    sizes, plain = [], diffusers.AutoencoderKL.decode

    def noted(self, latents, *others, **options):
        sizes.append(len(latents))
        return plain(self, latents, *others, **options)

    monkeypatch.setattr(diffusers.AutoencoderKL, "decode", noted)
    own = replace(load_diffusion(str(pipeline), PainterOptions(steps=2, guidance=3.0, size=24)), most=64)
    pixels, _ = painted(own, [Prompt("x", seed) for seed in range(10)])
    assert sizes == [8, 2] and pixels.shape[1:] == (24, 24, 3)
    assert own.call == {"num_inference_steps": 2, "guidance_scale": 3.0, "height": 24, "width": 24}


def test_a_cpu_paints_few_at_a_time_so_that_a_kill_loses_little(painter):
    sizes = [len(batch.indices) for batch in painter.paint([Prompt("x", seed) for seed in range(10)])]
    assert sizes == [8, 2]


def test_a_size_that_the_pipeline_refuses_is_one_line(pipeline):
    odd = load_painter(str(pipeline), PainterOptions(steps=2, size=13))
    with pytest.raises(InputError, match=r"refuses .*size=13.* divisible by 8"):
        list(odd.paint(WISHES[:1]))


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
    painter.pace.largest = 10**6


def decoder(decoders, kind):
    import diffusers
    import torch

    module = getattr(diffusers, {"kl": "AutoencoderKL", "vq": "VQModel"}[kind]).from_pretrained(decoders / kind)
    latents = torch.randn((5, module.config.latent_channels, 8, 8), generator=torch.Generator().manual_seed(0))
    return module, latents


@pytest.mark.parametrize(
    ("kind", "options"),
    [("kl", {}), ("kl", {"generator": [None] * 5}), ("vq", {}), ("vq", {"force_not_quantize": True})],
)
def test_decoding_in_groups_is_decoding_one_by_one(decoders, kind, options):
    import torch

    module, latents = decoder(decoders, kind)
    sizes = []

    def counting(part, **given):
        sizes.append((len(part), len(given.get("generator", part))))
        return module.decode(part, **given)

    with torch.no_grad():
        single = torch.cat([module.decode(one[None]).sample for one in latents])
        if kind == "vq" and options:
            single = torch.cat([module.decode(one[None], **options).sample for one in latents])
        grouped = decode_in_groups(counting, 2)
        assert torch.allclose(grouped(latents, **options).sample, single, atol=1e-5)
        assert torch.allclose(grouped(latents, **options, return_dict=False)[0], single, atol=1e-5)
    assert sizes == [(2, 2), (2, 2), (1, 1)] * 2


def test_an_argument_that_depends_on_the_number_is_not_divided():
    given = []
    decode_in_groups(lambda *arguments, **options: given.append((arguments, options)), 2)([1, 2, 3], shape=(3, 8, 8, 4))
    assert given == [(([1, 2, 3],), {"shape": (3, 8, 8, 4)})]


def test_pictures_decoded_in_groups_are_those_decoded_one_by_one(painter, monkeypatch):
    grouped, _ = painted(painter, WISHES)
    vae = painter.pipeline.vae
    monkeypatch.setattr(vae, "decode", decode_in_groups(type(vae).decode.__get__(vae), 1))
    single, _ = painted(painter, WISHES)
    assert np.abs(single.astype(int) - grouped).max() <= 1


def test_a_pipeline_that_casts_its_decoder_up_decodes_in_groups(pipeline, tmp_path, monkeypatch):
    """XL computes in halves but decodes in float32."""
    import diffusers
    import torch
    from transformers import CLIPTextModelWithProjection

    plain = diffusers.StableDiffusionPipeline.from_pretrained(pipeline)
    second = CLIPTextModelWithProjection(plain.text_encoder.config)
    small = {name: value for name, value in plain.unet.config.items() if not name.startswith("_")}
    small |= {"addition_embed_type": "text_time", "addition_time_embed_dim": 8, "cross_attention_dim": 64}
    width = 6 * 8 + second.config.projection_dim
    large = diffusers.UNet2DConditionModel(**small | {"projection_class_embeddings_input_dim": width})
    place = tmp_path / "xl"
    diffusers.StableDiffusionXLPipeline(
        vae=plain.vae, text_encoder=plain.text_encoder, text_encoder_2=second, tokenizer=plain.tokenizer,
        tokenizer_2=plain.tokenizer, unet=large, scheduler=diffusers.EulerDiscreteScheduler(),
    ).save_pretrained(place)  # fmt: skip
    with using(Runtime(device="cpu", precision="fp16")):
        painter = load_painter(str(place), PainterOptions(steps=2))
        vae, types = painter.pipeline.vae, []
        assert vae.dtype == torch.float16 and vae.config.force_upcast
        whole = type(vae).decode

        def noted(self, latents, **options):
            types.append((len(latents), latents.dtype))
            return whole(self, latents, **options)

        monkeypatch.setattr(vae, "decode", decode_in_groups(noted.__get__(vae), 4))
        pixels, codes = painted(painter, WISHES)
    assert types == [(4, torch.float32), (2, torch.float32)] and vae.dtype == torch.float16
    assert pixels.shape == (6, 16, 16, 3) and not codes.any()


def test_a_compiled_painter_fills_up_a_smaller_batch(pipeline, painter, monkeypatch):
    whole, _ = painted(painter, WISHES)
    other = replace(painter, compiled=True, widest=0, pace=OomBackoff(lambda line: None))
    sizes, plain = [], painter.pipeline

    def counted(**call):
        sizes.append(len(call["prompt"]))
        return plain(**call)

    monkeypatch.setattr(other, "pipeline", counted)
    with using(Runtime(batch=4)):
        pixels, codes = painted(other, WISHES)
    assert sizes == [4, 4] and not codes.any()
    assert np.abs(pixels.astype(int) - whole).max() <= 1


def test_a_compiled_pipeline_is_compiled_for_one_shape(pipeline, painter, monkeypatch):
    whole, _ = painted(painter, WISHES)
    graphs = []

    def counting(graph, examples):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(acceleration, "COMPILE", {"backend": counting})
    own = load_diffusion(str(pipeline), PainterOptions(steps=3))
    acceleration.compile_modules(own.pipeline)
    own.compiled = True
    with using(Runtime(batch=4)):
        pixels, _ = painted(own, WISHES)
    assert len(graphs) == 2, "one denoiser and one decoder"
    assert np.abs(pixels.astype(int) - whole).max() <= 1


def test_long_texts_are_counted_as_cut(painter):
    # Sixteen tokens with start and end: fourteen letters fit.
    assert painter.exceeds_limit(["a" * 14, "a" * 15, "dog"]).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (PainterOptions(scheduler="DDIM"), "unknown scheduler 'DDIM'"),
        (PainterOptions(guide="captious-mini"), "has no option guide"),
        (PainterOptions(steps=0), "steps is 0"),
        (PainterOptions(guidance=float("nan")), "guidance is nan, expected a finite number"),
        (PainterOptions(compile=True), "compile is for a GPU"),
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
    with pytest.raises(InputError, match="no such folder, expected one, a hub id"):
        load_painter("./nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"has no model_index\.json"):
        load_painter(str(tmp_path / "empty"))
    with pytest.raises(InputError, match=r"'lab\.toy\.painter:drawn' has no option steps"):
        load_painter("lab.toy.painter:drawn", PainterOptions(steps=3))
    monkeypatch.setenv("CAPTIOUS_PAINTERS", "nowhere:painter, lab.toy.painter:nobody")
    with pytest.raises(InputError, match="No module named 'nowhere'; is its folder on PYTHONPATH"):
        load_painter("nowhere:painter")
    with pytest.raises(InputError, match="has no attribute 'nobody'"):
        load_painter("lab.toy.painter:nobody")


def test_a_safety_checker_is_left_out_unless_it_is_asked_for(pipeline, tmp_path):
    from diffusers import StableDiffusionPipeline
    from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker
    from transformers import CLIPConfig, CLIPImageProcessor

    small = {"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = CLIPConfig(
        text_config=small, vision_config={**small, "image_size": 16, "patch_size": 8}, projection_dim=16
    )
    checker = StableDiffusionSafetyChecker(config)
    checker.concept_embeds_weights.data.fill_(-2.0)  # thresholds below every cosine: all pictures are flagged
    size = {"shortest_edge": 16}, {"height": 16, "width": 16}
    whole = StableDiffusionPipeline.from_pretrained(pipeline, safety_checker=None)
    whole.register_modules(
        safety_checker=checker, feature_extractor=CLIPImageProcessor(size=size[0], crop_size=size[1])
    )
    whole.save_pretrained(tmp_path / "careful")
    codes = {}
    for safety in (False, True):
        painter = load_diffusion(str(tmp_path / "careful"), PainterOptions(steps=2, safety=safety))
        codes[safety] = painted(painter, WISHES[:2])[1]
    assert not codes[False].any() and codes[True].all()
