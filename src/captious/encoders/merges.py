"""CLIP's byte-pair tokeniser from its list of merges, wherever that list is found on this machine."""

from __future__ import annotations

import gzip
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from captious.encoders.tokenisers import END, START, Tokeniser, framed
from captious.errors import InputError
from captious.extras import require
from captious.files import data_folder

MERGES = "bpe_simple_vocab_16e6.txt.gz"
COUNT = 49_152 - 256 - 2
"""Merges that CLIP uses of the list: what fills a vocabulary of 49,408."""
CARRIERS = ("open_clip", "clip", "longclip")
"""Packages that bring the list."""
PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def clip_tokeniser(beside: Path, limit: int) -> Tokeniser:
    """CLIP's tokeniser: from files beside a checkpoint, else the user's folder, a package, or the hub's cache."""
    from captious.encoders.tokenisers import tokeniser_of

    for folder in (beside, data_folder() / "weights"):
        if (folder / "tokenizer.json").is_file() or (folder / "merges.txt").is_file():
            return tokeniser_of(folder, limit)
        if (folder / MERGES).is_file():
            return framed(from_list(folder / MERGES), limit, {}, str(folder / MERGES))
    for package in CARRIERS:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            if (Path(place) / MERGES).is_file():
                return framed(from_list(Path(place) / MERGES), limit, {}, str(Path(place) / MERGES))
    cached = _in_hub_cache()
    if cached is not None:
        return tokeniser_of(cached, limit)
    raise InputError(
        f"{beside}: CLIP's tokeniser is not on this machine; download tokenizer.json from the hub repository "
        f"openai/clip-vit-base-patch32 (or {MERGES} from github.com/openai/CLIP) and put it in "
        f"{data_folder() / 'weights'} or beside the checkpoint"
    )


def from_list(path: Path) -> Any:
    """The tokeniser of OpenAI's list of merges, plain or gzipped."""
    try:
        content = path.read_bytes()
        lines = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8").split("\n")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not CLIP's list of merges ({error})") from None
    merges = [(left, right) for left, _, right in (line.partition(" ") for line in lines[1 : COUNT + 1])]
    if len(merges) < COUNT:
        raise InputError(f"{path}: has {len(merges)} merges, expected {COUNT}")
    letters = _bytes_as_letters()
    words = [*letters, *(letter + "</w>" for letter in letters), *map("".join, merges), START, END]
    return _byte_pairs({word: number for number, word in enumerate(words)}, merges)


def from_files(vocabulary: Path, merges: Path) -> Any:
    """The tokeniser of ``vocab.json`` and ``merges.txt``."""
    try:
        known = json.loads(vocabulary.read_text(encoding="utf-8"))
        lines = merges.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise InputError(f"{vocabulary.parent}: its vocab.json and merges.txt are not a tokeniser ({error})") from None
    pairs = [
        (left, right) for left, _, right in (line.partition(" ") for line in lines) if right and left != "#version:"
    ]
    return _byte_pairs(known, pairs)


def _byte_pairs(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> Any:
    tokenizers = require("tokenizers", "clip")
    if START not in vocabulary or END not in vocabulary:
        raise InputError(f"a byte-pair vocabulary of {len(vocabulary)} tokens lacks {START} or {END}, which CLIP's has")
    parts = tokenizers.pre_tokenizers
    backend = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocabulary, merges, end_of_word_suffix="</w>", unk_token=END, continuing_subword_prefix=""
        )
    )
    normalise = tokenizers.normalizers
    backend.normalizer = normalise.Sequence(
        [normalise.NFC(), normalise.Replace(tokenizers.Regex(r"\s+"), " "), normalise.Lowercase()]
    )
    split = parts.Split(tokenizers.Regex(PATTERN), behavior="removed", invert=True)
    backend.pre_tokenizer = parts.Sequence([split, parts.ByteLevel(add_prefix_space=False, use_regex=False)])
    backend.post_processor = tokenizers.processors.RobertaProcessing(
        (END, vocabulary[END]), (START, vocabulary[START]), trim_offsets=False, add_prefix_space=False
    )
    backend.decoder = tokenizers.decoders.ByteLevel()
    added = [tokenizers.AddedToken(word, normalized=word == START, special=True) for word in (START, END)]
    backend.add_special_tokens(added)
    return backend


def _bytes_as_letters() -> list[str]:
    """A printable letter for every byte, in the order of OpenAI's vocabulary: printable bytes first."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(byte) for byte in printable] + [chr(256 + place) for place in range(256 - len(printable))]


def _in_hub_cache() -> Path | None:
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    for repository in ("openai/clip-vit-base-patch32", "openai/clip-vit-base-patch16", "openai/clip-vit-large-patch14"):
        found = try_to_load_from_cache(repository, "tokenizer.json")
        if isinstance(found, str):
            return Path(found).parent
    return None
