"""Painting speed with randomly initialized models of Stable Diffusion 1's shapes, everything in one run.

Compared are: the plain pipeline called once per text and seed in fp32; the plain pipeline in fp16, in batches of the
seeds of a text and as large as ours; and the painter, without and with compilation. Each way is warmed up with two
steps of the same shapes, the slower ones paint fewer pictures, and what is compared is pictures a second. Every way is
printed as it is done.
"""

from __future__ import annotations

import gc
import json
import string
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from measure import table

from captious.models._diffusion import MOST, load_diffusion
from captious.models.painters import PainterOptions, Prompt
from captious.options import Runtime, using

SEEDS = 5
# Ways of painting, and how many pictures each paints at most.
PICTURES = {"one": 8, "seeds": 40, "batch": 128, "painter": 128, "compiled": 10**6}
TINY = {"block_out_channels": (32, 32), "norm_num_groups": 8, "layers_per_block": 1}


def saved(folder: Path, tiny: bool) -> Path:
    """A Stable Diffusion 1 (or a toy) with random weights, saved in the layout of diffusers."""
    import diffusers
    import torch
    from transformers import CLIPTextConfig, CLIPTextModel

    torch.manual_seed(0)
    words = _tokenizer(folder / "words", 16 if tiny else 77)
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
    pipeline = diffusers.StableDiffusionPipeline(
        vae=vae, text_encoder=CLIPTextModel(text), tokenizer=words, unet=unet, scheduler=scheduler,
        safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    )  # fmt: skip
    # Half the bytes to write and read; every way loads the same values in its own precision.
    (pipeline if tiny else pipeline.to(torch.float16)).save_pretrained(place)
    return place


def speed(device: str, tiny: bool, texts: int, steps: int, ways: str = "") -> None:
    """Print pictures per second of every way as it is done, then the ratios that the issue asks for."""
    import torch

    prompts = [Prompt(f"thing {number}", seed) for number in range(texts) for seed in range(SEEDS)]
    gpu = device.startswith("cuda")
    chosen = [way for way in ways.split(",") if way] or [way for way in PICTURES if gpu or way != "compiled"]
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        place = saved(Path(folder), tiny)
        _say(f"models of random weights made and saved in {time.perf_counter() - start:.0f} s")
        for way in chosen:
            try:
                name, rate = _measured(way, place, device, steps, prompts[: PICTURES[way]])
            except RuntimeError as error:  # such as too little memory: the other ways are worth knowing
                _say(f"{way} failed: {' '.join(str(error).split())[:200]}")
            else:
                found[name] = rate
    if not found:
        raise SystemExit("no way could be measured")
    first = next(iter(found.values()))
    best = max((rate for name, rate in found.items() if "batches" in name), default=float("nan"))
    rows = [[name, f"{rate:.3f}", f"{rate / first:.2f}", f"{rate / best:.2f}"] for name, rate in found.items()]
    print(f"{steps} steps, {device}, torch {torch.__version__}")
    print(table([["way", "pictures a second", f"× {next(iter(found))}", "× best plain batch"], *rows]))


def _measured(way: str, place: Path, device: str, steps: int, prompts: list[Prompt]) -> tuple[str, float]:
    """The name and rate of one way, which holds no memory afterwards."""
    gpu = device.startswith("cuda")
    _forget(gpu)
    start = time.perf_counter()
    name, paint = _way(way, place, device, steps)
    loading = time.perf_counter() - start
    rate, warm_up = _rate(paint, way, prompts, steps, gpu)
    told = "compiling and warm-up" if way == "compiled" else "warm-up"
    _say(
        f"{name}: {rate:.3f} pictures a second over {len(prompts)}; loading {loading:.0f} s, {told} {warm_up:.0f} s, "
        f"peak {_peak(gpu)}"
    )
    return name, rate


# Wishes and steps.
Paint = Callable[[list[Prompt], int], Any]


def _way(way: str, place: Path, device: str, steps: int) -> tuple[str, Paint]:
    """What a way is called, and the way itself, loaded."""
    import torch

    half = device.startswith("cuda") and way != "one"
    precision = "fp16" if half else "fp32"
    if way in ("one", "seeds", "batch"):
        told = {"one": "one at a time", "seeds": f"batches of {SEEDS}", "batch": f"batches of {MOST}"}[way]
        dtype = torch.float16 if half else torch.float32
        return f"plain, {told}, {precision}", _plain(place, dtype, device, SIZES[way])
    compiled = way == "compiled"
    return f"captious, {precision}{', compiled' * compiled}", _ours(place, device, steps, compiled)


SIZES = {"one": 1, "seeds": SEEDS, "batch": MOST, "painter": MOST, "compiled": MOST}


def _plain(place: Path, dtype: Any, device: str, size: int) -> Paint:
    """The pipeline as its own documentation calls it."""
    import torch
    from diffusers import StableDiffusionPipeline

    pipeline = StableDiffusionPipeline.from_pretrained(place, torch_dtype=dtype).to(device)
    pipeline.set_progress_bar_config(disable=True)

    def paint(wanted: list[Prompt], steps: int) -> None:
        for start in range(0, len(wanted), size):
            part = wanted[start : start + size]
            generators = [torch.Generator("cpu").manual_seed(prompt.seed) for prompt in part]
            pipeline([prompt.text for prompt in part], generator=generators, num_inference_steps=steps)

    return paint


def _ours(place: Path, device: str, steps: int, compiled: bool) -> Paint:
    with using(Runtime(device=device)):
        painter = load_diffusion(str(place), PainterOptions(steps=steps, compile=compiled))

    def paint(wanted: list[Prompt], steps: int) -> None:
        with using(Runtime(device=device, batch=MOST, log=_say)):
            for _ in replace(painter, call={**painter.call, "num_inference_steps": steps}).paint(wanted):
                pass

    return paint


def _rate(paint: Paint, way: str, prompts: list[Prompt], steps: int, gpu: bool) -> tuple[float, float]:
    """Pictures a second, and seconds of a warm-up with every shape that will come: compiling, if there is any."""
    seconds = []
    for wanted, number in ((prompts[: SIZES[way]], 2), (prompts, steps)):
        _wait(gpu)
        start = time.perf_counter()
        paint(wanted, number)
        _wait(gpu)
        seconds.append(time.perf_counter() - start)
    return len(prompts) / seconds[1], seconds[0]


def _wait(gpu: bool) -> None:
    import torch

    if gpu:
        torch.cuda.synchronize()


def _forget(gpu: bool) -> None:
    """Give back what the way before held, and measure the peak anew."""
    import torch

    gc.collect()
    if gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _say(line: str) -> None:
    print(line, flush=True)


def _peak(gpu: bool) -> str:
    import torch

    return f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB" if gpu else "not measured"


def _tokenizer(folder: Path, limit: int) -> Any:
    """CLIP's tokenizer over letters alone: texts are padded to the limit, so the arithmetic is the same."""
    from transformers import CLIPTokenizer

    folder.mkdir(parents=True)
    letters = [letter + end for letter in string.ascii_lowercase + string.digits for end in ("", "</w>")]
    words = [*letters, "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: place for place, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=limit)
