"""What the encoder benchmark is made of: pictures, captions, a model with random weights, and the plain loop."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from PIL import Image

WORDS = 49_406
PLAIN_BATCH = 64


def make_picture(task: tuple[int, str]) -> str:
    """A JPEG of about 640 × 480: a smooth scene with some grain, about as large a file as a photograph."""
    seed, path = task
    chance = np.random.default_rng(seed)
    size = (int(chance.integers(600, 680)), int(chance.integers(440, 520)))
    scene = Image.fromarray(chance.integers(0, 256, (24, 32, 3), dtype=np.uint8)).resize(size, Image.Resampling.BICUBIC)
    grain = chance.integers(-14, 15, (size[1], size[0], 1), dtype=np.int16)
    Image.fromarray((np.asarray(scene, np.int16) + grain).clip(0, 255).astype(np.uint8)).save(path, quality=85)
    return path


def captions(items: int) -> list[str]:
    chance = np.random.default_rng(1)
    return [" ".join(f"w{word}" for word in chance.integers(0, 3000, chance.integers(8, 15))) for _ in range(items)]


def tokenizer() -> Any:
    import tokenizers

    from captious.models._model_tokenizers import SubwordTokenizer

    words = {f"w{place}": place for place in range(WORDS)} | {"<start>": WORDS, "<end>": WORDS + 1}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return SubwordTokenizer(backend, 77, WORDS, WORDS + 1, WORDS + 1)


def model(tiny: bool) -> Any:
    """ViT-B/32 with random weights; ``tiny`` for a try on a CPU."""
    import torch
    from transformers import CLIPConfig, CLIPModel

    small = {"num_hidden_layers": 1} if tiny else {}
    torch.manual_seed(0)
    config = CLIPConfig(
        text_config={"eos_token_id": WORDS + 1, "bos_token_id": WORDS, **small},
        vision_config={"patch_size": 32, **small},
        projection_dim=512,
    )
    return CLIPModel(config).eval()


def encoder(device: str, precision: str, tiny: bool) -> Any:
    from captious.models._preprocess import ImagePreprocessing
    from captious.models.clip import wrap

    return wrap(model(tiny), tokenizer(), ImagePreprocessing(size=224, crop=224), "random-vit-b32", device, precision)


def plain(network: Any, tokenize: Any, paths: list[str], texts: list[str], device: str) -> np.ndarray:
    """CLIPScore as one writes it first."""
    import torch

    mean = torch.tensor([0.48145466, 0.4578275, 0.40821073]).view(3, 1, 1)
    std = torch.tensor([0.26862954, 0.26130258, 0.27577711]).view(3, 1, 1)

    def one(path: str) -> Any:
        picture = Image.open(path)
        width, height = picture.size
        scale = 224 / min(width, height)
        picture = picture.resize(
            (max(224, int(width * scale)), max(224, int(height * scale))), Image.Resampling.BICUBIC
        )
        left, top = round((picture.width - 224) / 2), round((picture.height - 224) / 2)
        picture = picture.crop((left, top, left + 224, top + 224)).convert("RGB")
        return (torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255 - mean) / std

    half = device != "cpu"
    images, words = [], []
    with torch.no_grad():
        for start in range(0, len(paths), PLAIN_BATCH):
            pixels = torch.stack([one(path) for path in paths[start : start + PLAIN_BATCH]]).to(device)
            found = network.get_image_features(pixel_values=pixels.half() if half else pixels)
            images.append(getattr(found, "pooler_output", found).cpu().numpy())
        for start in range(0, len(texts), PLAIN_BATCH):
            ids = tokenize(texts[start : start + PLAIN_BATCH]).ids
            ids = np.pad(ids, ((0, 0), (0, 77 - ids.shape[1])), constant_values=WORDS + 1)
            found = network.get_text_features(input_ids=torch.from_numpy(ids).to(device))
            words.append(getattr(found, "pooler_output", found).cpu().numpy())
    a, b = (np.concatenate(parts).astype(np.float32) for parts in (images, words))
    a, b = a / np.linalg.norm(a, axis=1, keepdims=True), b / np.linalg.norm(b, axis=1, keepdims=True)
    return 2.5 * np.clip((a * b).sum(axis=1), 0, None)


@contextmanager
def timed(times: dict[str, float], what: str, work: dict[str, float] | None = None) -> Iterator[None]:
    start, worked = time.perf_counter(), time.process_time()
    yield
    times[what] = time.perf_counter() - start
    print(f"... {what.strip()}: {times[what]:.2f} s", file=sys.stderr, flush=True)
    if work is not None:
        work[what] = time.process_time() - worked
