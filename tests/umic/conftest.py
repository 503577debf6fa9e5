"""A corpus whose tags are plain to see, and a tagger that knows them; tiny models of every backbone."""

import importlib.util
from pathlib import Path

import pytest

from captious.train.negatives import Corpus

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
    return Corpus.of(
        {
            "1": ["A red dog runs in the park.", "a dog runs with the ball"],
            "2": ["A big cat sleeps on the boat.", "the cat sleeps"],
            "3": ["a small horse jumps", "the red horse jumps in a park"],
            "4": ["two dogs and a man", "A man with two dogs"],
            "5": ["two cats on a boat", "two small cats"],
            "6": ["the man runs with a red ball", "a man jumps"],
        }
    )


@pytest.fixture(scope="session")
def tiny():
    """The makers of ``models.py``."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    torch.set_num_threads(1)
    spec = importlib.util.spec_from_file_location("tiny_models", Path(__file__).with_name("models.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def on_cpu():
    """Encoders and backbones run on the CPU, in small batches."""
    from captious.options import Runtime, using

    with using(Runtime(device="cpu", batch=4)):
        yield
