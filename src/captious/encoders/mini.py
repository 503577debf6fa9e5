"""captious-mini: a small CLIP that comes with the package and knows drawn scenes, and how a new one is begun."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captious.encoders.encoder import Encoder
from captious.encoders.numpy_clip import load_numpy
from captious.encoders.preparation import Preparation
from captious.encoders.runtime import Runtime, current
from captious.encoders.tensors import read_tensors, write_tensors
from captious.encoders.words import FILE, WordTokeniser
from captious.errors import InputError
from captious.extras import require

if TYPE_CHECKING:
    from captious.encoders.torch_encoder import TorchEncoder

NAMES = ("captious-mini", "captious-mini-specs")
PREFIX = "A photo depicts"
"""What CLIPScore puts before a caption: its words are always in the vocabulary."""

SIDE, PATCH, LIMIT = 96, 12, 248
EMBEDDING = 128
IMAGE_WIDTH, TEXT_WIDTH, LAYERS, HEAD = 160, 128, 4, 32
WIDER = 3
"""The small network of a layer is so many times as wide as the layer."""


def folder_of(name: str) -> Path:
    """Where the weights of a mini lie in the package."""
    if name not in NAMES:
        raise InputError(f"unknown small encoder {name!r}: expected one of {', '.join(NAMES)}")
    return Path(__file__).parent / "weights" / name


def load_mini(name: str, runtime: Runtime | None = None) -> Encoder:
    """The encoder in NumPy, so without torch; on torch where the runtime asks for a GPU or for half precision."""
    runtime = runtime or current()
    folder = folder_of(name)
    if runtime.device in ("auto", "cpu") and runtime.precision in ("auto", "fp32"):
        return load_numpy(folder, name)
    from captious.encoders.folders import load_folder

    return load_folder(folder, name, runtime)


def new_mini(texts: Iterable[str], name: str = "captious-mini", device: str = "auto", seed: int = 0) -> TorchEncoder:
    """A mini with random weights that knows the words of ``texts``, to be trained.

    Equal texts and seed give equal weights, whatever the device.
    """
    import tempfile

    from captious.encoders.tokenisers import tokeniser_of
    from captious.encoders.torch_encoder import wrap

    words = WordTokeniser.built((PREFIX, *texts), LIMIT)
    with tempfile.TemporaryDirectory() as folder:
        words.save(folder)
        tokeniser = tokeniser_of(Path(folder), LIMIT)
    return wrap(_module(words, seed), tokeniser, preparation(), name, device, "fp32")


def preparation() -> Preparation:
    """Pictures are resized and cropped as for CLIP, only smaller; drawn colours are saturated, so they spread more."""
    return Preparation(size=SIDE, crop=SIDE, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))


def halve(source: str | Path, target: str | Path) -> None:
    """Copy what a trained folder needs to be loaded, the weights in float16: the form in which a mini is shipped."""
    source, target = Path(source), Path(target)
    target.mkdir(parents=True, exist_ok=True)
    write_tensors(target / "model.safetensors", read_tensors(source / "model.safetensors"), half=True)
    for name in ("config.json", "preprocessor_config.json"):
        (target / name).write_bytes((source / name).read_bytes())
    tokeniser = WordTokeniser.load(source)
    (target / FILE).write_text(tokeniser.text(), encoding="utf-8")


def _module(words: WordTokeniser, seed: int) -> Any:
    torch = require("torch", "clip")
    transformers = require("transformers", "clip")
    towers = [
        {
            "hidden_size": width,
            "intermediate_size": WIDER * width,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": width // HEAD,
            "projection_dim": EMBEDDING,
        }
        for width in (TEXT_WIDTH, IMAGE_WIDTH)
    ]
    ends = {"bos_token_id": words.start, "eos_token_id": words.end, "pad_token_id": words.pad}
    config = transformers.CLIPConfig(
        text_config={**towers[0], **ends, "vocab_size": words.end + 1, "max_position_embeddings": LIMIT},
        vision_config={**towers[1], "image_size": SIDE, "patch_size": PATCH},
        projection_dim=EMBEDDING,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.CLIPModel(config)
