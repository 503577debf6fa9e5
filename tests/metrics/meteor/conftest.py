"""A tiny METEOR folder that tests write themselves, and the original's tables where pycocoevalcap is installed."""

import gzip

import pytest

from captious.metrics.meteor import resources
from captious.metrics.meteor._compiled_tables import MULTIPLIER
from captious.metrics.meteor.resources import MeteorFiles, compile_tables

FUNCTION_WORDS = ["a", "the", "of", "on", "in", "is", ".", ","]
PREFIXES = ["# a comment", "Mr", "vs", "No #NUMERIC_ONLY#"]
SYNSETS = {
    "dog": "1 2", "hound": "1", "cat": "3", "picture": "4 5", "photo": "4", "image": "5", "run": "6", "jog": "6",
    "man": "7", "guy": "7", "big": "8", "large": "8", "sit": "9", "ice_cream": "10",
}  # fmt: skip
EXCEPTIONS = {"man": "men", "run": "ran", "sit": "sat sitting"}
PARAPHRASES = [
    ("a photo of", "a picture of"), ("a picture of", "an image showing"), ("big", "huge"), ("dog", "puppy"),
    ("in front of", "before"), ("man", "a man"), ("on top of", "on"), ("on top of", "above"), ("puppy", "dog"),
    ("puppy", "the dog"), ("run", "is running"), ("the dog", "it"),
]  # fmt: skip


def write_source(folder, paraphrases=True):
    """METEOR's data files, unpacked."""
    for part in ("function", "nonbreaking", "synonym", "data"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    files = {
        "function/english.words": FUNCTION_WORDS,
        "nonbreaking/english.prefixes": PREFIXES,
        "synonym/english.synsets": [line for pair in SYNSETS.items() for line in pair],
        "synonym/english.exceptions": [line for pair in EXCEPTIONS.items() for line in pair],
    }
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if paraphrases:
        lines = [line for source, target in PARAPHRASES for line in ("0.5", source, target)]
        with gzip.open(folder / "data/paraphrase-en.gz", "wt", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
    return folder


def phrase_hash(words):
    """The number of a phrase from the numbers of its words, in Python's whole numbers."""
    value = 0
    for word in words:
        value = ((value ^ word) * MULTIPLIER) % 2**64
    return value


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    """Each test has an empty home and names no source."""
    monkeypatch.setenv("CAPTIOUS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(resources.VARIABLE, raising=False)


@pytest.fixture
def make_source(tmp_path):
    """Writes the tiny data files into a folder of that name."""
    return lambda name="meteor-data", paraphrases=True: write_source(tmp_path / name, paraphrases)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Tables of a dozen words."""
    return compile_tables(MeteorFiles.at(write_source(tmp_path_factory.mktemp("meteor"))))
