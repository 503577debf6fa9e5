"""Polos' speed next to CLIPScore's: processor time per caption with networks of the published sizes and random weights.

    python lab/benchmarks/polos.py
    python lab/benchmarks/polos.py --items 64 --references 1 --device cuda

CLIP is a ViT-B/32 in all, RoBERTa of the base size. Images and captions are new in every round, and the metrics run in
turn. CLIPScore reads no references, RefCLIPScore those that Polos reads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from lab.toy import make
from measure import table
from PIL import Image

from captious import CaptionSet
from captious.metrics.contract import Metric
from captious.metrics.registry import parse
from captious.models.mini import WordTokenizer
from captious.options import Runtime, using

TEXT, VISION, EMBEDDING, LAYERS = 512, 768, 512, 12
SETTINGS = {"layer": "mix", "pool": "cls", "activations": "Tanh", "final_activation": False}


def make_clip_tensors(words: int) -> dict[str, torch.Tensor]:
    """Return random tensors of a ViT-B/32 in OpenAI's layout."""
    sizes: dict[str, tuple[int, ...]] = {
        "visual.class_embedding": (VISION,),
        "visual.conv1.weight": (VISION, 3, 32, 32),
        "visual.positional_embedding": (50, VISION),
        "visual.proj": (VISION, EMBEDDING),
        "token_embedding.weight": (words, TEXT),
        "positional_embedding": (77, TEXT),
        "text_projection": (TEXT, EMBEDDING),
        "logit_scale": (),
    }
    norms = {"visual.ln_pre": VISION, "visual.ln_post": VISION, "ln_final": TEXT}
    for tower, width in (("visual.transformer", VISION), ("transformer", TEXT)):
        for layer in range(LAYERS):
            block = f"{tower}.resblocks.{layer}"
            norms |= {f"{block}.ln_1": width, f"{block}.ln_2": width}
            sizes |= {f"{block}.attn.in_proj_weight": (3 * width, width), f"{block}.attn.in_proj_bias": (3 * width,)}
            for name, outputs, inputs in (("attn.out_proj", 1, 1), ("mlp.c_fc", 4, 1), ("mlp.c_proj", 1, 4)):
                sizes[f"{block}.{name}.weight"] = (outputs * width, inputs * width)
                sizes[f"{block}.{name}.bias"] = (outputs * width,)
    sizes |= {f"{norm}.{kind}": (width,) for norm, width in norms.items() for kind in ("weight", "bias")}
    return {name: torch.randn(size) * 0.02 for name, size in sizes.items()}


def write_models(folder: Path, texts: list[str]) -> tuple[Path, Path]:
    """Write a CLIP file and a Polos folder with the same CLIP; their tokenizers know the words of the texts."""
    import transformers
    from safetensors.torch import save_file

    torch.manual_seed(0)
    polos = folder / "polos"
    for part in (polos / "clip_tokenizer", polos / "text_encoder"):
        part.mkdir(parents=True)
    for place in (folder, polos / "clip_tokenizer", polos / "text_encoder"):
        WordTokenizer.from_texts(texts, 77).save(place)
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    clip = make_clip_tensors(len(vocabulary))
    torch.save(clip, folder / "clip.pth")
    ids = dict.fromkeys(("bos_token_id", "eos_token_id"), 0) | {"pad_token_id": 1}
    config = transformers.RobertaConfig(vocab_size=50_265, max_position_embeddings=514, type_vocab_size=1, **ids)
    config.save_pretrained(polos / "text_encoder")
    state = {f"encoder.model.{key}": value for key, value in transformers.RobertaModel(config).state_dict().items()}
    state |= {f"clip.{key}": value for key, value in clip.items()}
    state |= {f"scalar_mix.scalar_parameters.{layer}": torch.zeros(1) for layer in range(13)}
    state["scalar_mix.gamma"] = torch.ones(1)
    for number, (inputs, outputs) in enumerate([(6144, 2304), (2304, 1152), (1152, 1)], 1):
        state[f"ff.0.ff.linear_{number}.weight"] = torch.randn(outputs, inputs) / inputs**0.5
        state[f"ff.0.ff.linear_{number}.bias"] = torch.zeros(outputs)
    save_file({key: value.contiguous() for key, value in state.items()}, polos / "state_dict.safetensors")
    (polos / "hparams.json").write_text(json.dumps(SETTINGS))
    return folder / "clip.pth", polos


def make_captions(folder: Path, said: list[list[str]], round_number: int, name: str) -> CaptionSet:
    """Return captions and images that no earlier measurement has seen, so that nothing is found in the cache."""
    folder.mkdir()
    random = np.random.default_rng([round_number, *map(ord, name)])
    paths = [str(folder / f"{number}.png") for number in range(len(said))]
    for path in paths:
        Image.fromarray(random.integers(0, 256, (224, 224, 3), dtype=np.uint8)).save(path)
    texts = [[f"{text} {name} {round_number}" for text in own] for own in said]
    ids = [str(number) for number in range(len(said))]
    return CaptionSet.of(
        {id: own[0] for id, own in zip(ids, texts, strict=True)},
        {id: own[1:] for id, own in zip(ids, texts, strict=True)},
        {"image": paths},
    )


def measure_seconds(metric: Metric, captions: CaptionSet) -> float:
    """Return the processor seconds of one measurement."""
    start = time.process_time()
    measured = metric.measure(captions)
    assert not measured.reasons
    return time.process_time() - start


def main() -> None:
    """Print a row per metric."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=48)
    parser.add_argument("--references", type=int, default=4, help="of each item, at most 4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, using(Runtime(device=given.device, cache=False)):
        folder, sample = Path(temporary), make(given.items, seed=3)
        said = [list(sample.references_of(scene))[: given.references + 1] for scene in sample.scenes()]
        clip, polos = write_models(folder, [text for texts in said for text in texts])
        forms = {
            "CLIPScore": f"clipscore(weights={clip})",
            "RefCLIPScore": f"refclipscore(weights={clip})",
            "Polos": f"polos({polos})",
            "Polos, batch=32": f"polos({polos},batch=32)",
        }
        seconds: dict[str, list[float]] = {name: [] for name in forms}
        for number in range(given.rounds + 1):
            for name, form in forms.items():
                captions = make_captions(folder / f"{number} {name}", said, number, name)
                used = measure_seconds(parse(form), captions)
                if number:  # the first round loads the models
                    seconds[name].append(used)
    rows = [["metric", "milliseconds per caption", "times CLIPScore"]]
    for name, each in seconds.items():
        ratio = statistics.median(one / other for one, other in zip(each, seconds["CLIPScore"], strict=True))
        rows.append([name, f"{1000 * statistics.median(each) / given.items:.0f}", f"{ratio:.2f}"])
    print(
        f"{given.items} images, {given.references} references each, {torch.get_num_threads()} threads\n\n{table(rows)}"
    )


if __name__ == "__main__":
    main()
