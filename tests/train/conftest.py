"""A tiny CLIP with a word tokenizer, a tiny data set to train it on, and a corpus with its own tagger."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from captious.edits.lexicon import CaptionCorpus
from captious.models._model_tokenizers import read_tokenizer
from captious.models._preprocess import ImagePreprocessing
from captious.models.clip import wrap
from captious.models.mini import WordTokenizer

COLORS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 60, 220), "white": (240, 240, 240)}
PLACES = ("left", "right")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """The same sums in the same order, and no crowd on a small machine."""
    torch.set_num_threads(1)


def rows(count, seed=0):
    """Two colored halves, and captions of three units that say so."""
    rng = np.random.default_rng(seed)
    names = list(COLORS)
    made = []
    for number in range(count):
        left, right = rng.choice(names, 2, replace=False)
        units = [f"There is a picture {number % 7}.", f"The left is {left}.", f"The right is {right}.", "That is all."]
        made.append(
            {
                "id": number,
                "caption": " ".join(units),
                "captions": [f"{left} and {right}", f"a {left} left and a {right} right"],
                "units": units,
                "wrong_units": [*units[:1], f"The left is {right}.", f"The right is {left}.", "That is not all."],
            }
        )
    return made


def draw(row):
    words = row["captions"][0].split()
    pixels = np.zeros((20, 20, 3), np.uint8)
    pixels[:, :10], pixels[:, 10:] = COLORS[words[0]], COLORS[words[2]]
    return Image.fromarray(pixels)


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """``train.jsonl``, ``short.jsonl``, ``val.jsonl`` and ``images/``."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "images").mkdir()
    made = rows(48)
    for row in made:
        draw(row).save(folder / "images" / f"{row['id']}.png")
    long = [{key: row[key] for key in ("id", "caption", "units", "wrong_units")} for row in made]
    short = [{"id": row["id"], "captions": row["captions"]} for row in made]
    for name, part in (("train", long[:36]), ("val", long[36:]), ("short", short[:36]), ("short-val", short[36:])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    return folder


def small_encoder(folder, limit=40, seed=0, width=32):
    """An encoder of random weights over the words of the data."""
    from transformers import CLIPConfig, CLIPModel

    folder.mkdir(parents=True, exist_ok=True)
    WordTokenizer.from_texts([row["caption"] + " " + " ".join(row["captions"]) for row in rows(48)], limit).save(folder)
    tokenizer = read_tokenizer(folder, limit)
    shape = {"hidden_size": width, "intermediate_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    config = CLIPConfig(
        text_config={
            **shape,
            "vocab_size": tokenizer.backend.get_vocab_size(),
            "max_position_embeddings": limit,
            "eos_token_id": tokenizer.end,
            "bos_token_id": tokenizer.start,
            "pad_token_id": tokenizer.pad,
            "projection_dim": 16,
        },
        vision_config={**shape, "image_size": 16, "patch_size": 8, "projection_dim": 16},
        projection_dim=16,
    )
    torch.manual_seed(seed)
    module = CLIPModel(config)
    # Larger than the library's start, so that features differ visibly.
    for one in module.parameters():
        if one.ndim > 1:
            torch.nn.init.normal_(one, std=0.2)
    return wrap(module, tokenizer, ImagePreprocessing(size=16, crop=16, order="rgb-first"), "small", "cpu", "fp32")


@pytest.fixture(scope="session")
def make_encoder():
    return small_encoder


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """A saved encoder to start trainings from."""
    folder = tmp_path_factory.mktemp("base")
    small_encoder(folder / "tokenizer").save(folder / "model")
    return folder / "model"


@pytest.fixture
def encoder(base):
    from captious.models.loading import load_trainable

    return load_trainable(str(base), "cpu")


TAGS = {
    "dog": "NN", "cat": "NN", "horse": "NN", "ball": "NN", "park": "NN", "man": "NN", "boat": "NN",
    "dogs": "NNS", "cats": "NNS",
    "red": "JJ", "big": "JJ", "small": "JJ",
    "runs": "VBZ", "sleeps": "VBZ", "jumps": "VBZ",
    "a": "DT", "the": "DT", "in": "IN", "with": "IN", "on": "IN", "and": "CC", "two": "CD",
}  # fmt: skip


def by_table(sentences):
    """Tags by table; whatever is not in it is an adverb, and punctuation is itself."""
    return [
        [TAGS.get(word.lower(), "RB") if word[:1].isalnum() else "." for word in sentence] for sentence in sentences
    ]


@pytest.fixture(scope="session")
def tagger():
    return by_table


@pytest.fixture
def pets():
    """Six images, two captions each."""
    return CaptionCorpus.of(
        {
            "1": ["A red dog runs in the park.", "a dog runs with the ball"],
            "2": ["A big cat sleeps on the boat.", "the cat sleeps"],
            "3": ["a small horse jumps", "the red horse jumps in a park"],
            "4": ["two dogs and a man", "A man with two dogs"],
            "5": ["two cats on a boat", "two small cats"],
            "6": ["the man runs with a red ball", "a man jumps"],
        }
    )
