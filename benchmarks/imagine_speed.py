"""Painting speed with randomly initialised models of Stable Diffusion 1's shapes, everything in one run.

Compared are: the plain pipeline called once per text and seed in fp32; the plain pipeline in fp16, in batches of the
seeds of a text and as large as ours; and the painter, without and with compilation. Each way is warmed up first, the
slowest paints fewer pictures, and what is compared is pictures a second.
"""

from __future__ import annotations

import json
import string
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from captious.encoders.runtime import Runtime, using
from captious.imagine.diffusion import MOST, load_diffusion
from captious.imagine.painters import Options, Wish
from measure import table

SEEDS = 5
TINY = {"block_out_channels": (32, 32), "norm_num_groups": 8, "layers_per_block": 1}


def saved(folder: Path, tiny: bool) -> Path:
    """A Stable Diffusion 1 (or a toy) with random weights, saved in the layout of diffusers."""
    import diffusers
    import torch
    from transformers import CLIPTextConfig, CLIPTextModel

    torch.manual_seed(0)
    words = _tokeniser(folder / "words", 16 if tiny else 77)
    ends = {"bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id}
    if tiny:
        text = CLIPTextConfig(
            vocab_size=len(words), hidden_size=32, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=16, **ends,
        )  # fmt: skip
        unet = diffusers.UNet2DConditionModel(
            sample_size=8, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=32, attention_head_dim=8, **TINY,
        )  # fmt: skip
        vae = diffusers.AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4,
            sample_size=16, **TINY,
        )  # fmt: skip
    else:
        # CLIP ViT-L/14's text tower, and the defaults of UNet2DConditionModel, which are those of Stable Diffusion 1.
        text = CLIPTextConfig(
            vocab_size=len(words), hidden_size=768, intermediate_size=3072, num_hidden_layers=12,
            num_attention_heads=12, max_position_embeddings=77, **ends,
        )  # fmt: skip
        unet = diffusers.UNet2DConditionModel(sample_size=64, cross_attention_dim=768)
        vae = diffusers.AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
            block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=4, sample_size=512,
        )  # fmt: skip
    scheduler = diffusers.PNDMScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", skip_prk_steps=True, steps_offset=1
    )
    place = folder / "pipeline"
    diffusers.StableDiffusionPipeline(
        vae=vae, text_encoder=CLIPTextModel(text), tokenizer=words, unet=unet, scheduler=scheduler,
        safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    ).save_pretrained(place)  # fmt: skip
    return place


def speed(device: str, tiny: bool, texts: int, steps: int) -> None:
    """Print pictures per second of every way, and the ratios that the issue asks for."""
    import torch

    wishes = [Wish(f"thing {number}", seed) for number in range(texts) for seed in range(SEEDS)]
    gpu = device.startswith("cuda")
    precision = ("fp16", torch.float16) if gpu else ("fp32", torch.float32)
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = saved(Path(folder), tiny)
        few = wishes[: max(2, len(wishes) // 32)]
        found["plain, one at a time, fp32"] = _plain(place, torch.float32, device, 1, few, steps)
        for size in (SEEDS, MOST):
            name = f"plain, batches of {size}, {precision[0]}"
            found[name] = _plain(place, precision[1], device, size, wishes, steps)
        for compiled in (False, True) if gpu else (False,):
            name = f"captious, {precision[0]}{', compiled' if compiled else ''}"
            found[name] = _ours(place, device, wishes, Options(steps=steps, compile=compiled))
    first, best = next(iter(found.values())), max(rate for name, rate in found.items() if "batches" in name)
    rows = [[name, f"{rate:.3f}", f"{rate / first:.2f}", f"{rate / best:.2f}"] for name, rate in found.items()]
    print(f"{len(wishes)} pictures, {steps} steps, {device}, peak {_peak(gpu)}, torch {torch.__version__}")
    print(table([["way", "pictures a second", "× one at a time", "× best plain batch"], *rows]))


def _plain(place: Path, dtype: Any, device: str, size: int, wishes: list[Wish], steps: int) -> float:
    """The pipeline as its own documentation calls it."""
    import torch
    from diffusers import StableDiffusionPipeline

    pipeline = StableDiffusionPipeline.from_pretrained(place, torch_dtype=dtype).to(device)
    pipeline.set_progress_bar_config(disable=True)

    def paint(wanted: list[Wish]) -> None:
        for start in range(0, len(wanted), size):
            part = wanted[start : start + size]
            generators = [torch.Generator("cpu").manual_seed(wish.seed) for wish in part]
            pipeline([wish.text for wish in part], generator=generators, num_inference_steps=steps)

    return _rate(paint, wishes[:size], wishes, device.startswith("cuda"))


def _ours(place: Path, device: str, wishes: list[Wish], options: Options) -> float:
    with using(Runtime(device=device, batch=MOST, cache=False, log=print)):
        painter = load_diffusion(str(place), options)
        return _rate(lambda part: list(painter.paint(part)), wishes[:MOST], wishes, device.startswith("cuda"))


def _rate(paint: Callable[[list[Wish]], Any], first: list[Wish], wishes: list[Wish], gpu: bool) -> float:
    """Pictures a second after a warm-up."""
    import torch

    paint(first)
    if gpu:
        torch.cuda.synchronize()
    start = time.perf_counter()
    paint(wishes)
    if gpu:
        torch.cuda.synchronize()
    return len(wishes) / (time.perf_counter() - start)


def _peak(gpu: bool) -> str:
    import torch

    return f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB" if gpu else "not measured"


def _tokeniser(folder: Path, limit: int) -> Any:
    """CLIP's tokeniser over letters alone: texts are padded to the limit, so the arithmetic is the same."""
    from transformers import CLIPTokenizer

    folder.mkdir(parents=True)
    letters = [letter + end for letter in string.ascii_lowercase + string.digits for end in ("", "</w>")]
    words = [*letters, "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: place for place, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=limit)
