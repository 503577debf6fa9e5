"""Texts to token ids: any ``tokenizer.json`` through one fast path, cut at the limit with the end token kept.

Texts for CLIP's own byte-pair tokeniser are cleaned first, see :mod:`captious.encoders.cleaning`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.encoders.cleaning import cleaned
from captious.encoders.encoder import Tokens
from captious.errors import InputError
from captious.extras import require
from captious.files import digest

START, END = "<|startoftext|>", "<|endoftext|>"
MOST_WORDS = 1_000_000
_WORD = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d|[a-z]+|[0-9]|[^\sa-z0-9]+")


@dataclass(frozen=True, eq=False)
class Tokeniser:
    """A ``tokenizers.Tokenizer`` with the ids that frame a text. ``start`` is −1 where the model uses none.

    ``full`` pads every batch to the limit, for models that were trained so and see the padding.
    """

    backend: Any
    limit: int
    start: int
    end: int
    pad: int
    clean: bool = False
    full: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    """What ``tokenizer_config.json`` says, to be saved again."""
    known: dict[str, list[int]] = field(default_factory=dict, repr=False)
    """Words met so far."""

    def __call__(self, texts: Sequence[str]) -> Tokens:
        """Token ids of a batch, padded to its longest."""
        rows = self._by_words([cleaned(text) for text in texts]) if self.clean else self._rows(texts)
        front = [self.start] if self.start >= 0 else []
        return padded(rows, front, self.end, self.pad, self.limit, self.full)

    def _rows(self, texts: Sequence[str]) -> list[list[int]]:
        encode = getattr(
            self.backend, "encode_batch_fast", self.backend.encode_batch
        )  # the fast one is of version 0.20
        return [encoding.ids for encoding in encode(texts, add_special_tokens=False)]

    def _by_words(self, texts: Sequence[str]) -> list[list[int]]:
        """CLIP's rows: every word is looked up once, and the library is asked only for new words and rare scripts."""
        plain = [text.isascii() and "<|" not in text for text in texts]
        pieces = [_WORD.findall(text) if simple else [] for text, simple in zip(texts, plain, strict=True)]
        if len(self.known) > MOST_WORDS:
            self.known.clear()
        new = sorted(set(chain.from_iterable(pieces)) - self.known.keys())
        self.known.update(zip(new, self._rows(new), strict=True))
        others = iter(self._rows([text for text, simple in zip(texts, plain, strict=True) if not simple]))
        return [
            list(chain.from_iterable(map(self.known.__getitem__, words))) if simple else next(others)
            for words, simple in zip(pieces, plain, strict=True)
        ]

    @cached_property
    def text(self) -> str:
        """Stands for the tokeniser in fingerprints."""
        frame = [self.limit, self.start, self.end, self.clean, self.full]
        return f"{digest(_canonical(self.backend))} {frame}"

    def save(self, folder: Path) -> None:
        """Write the files from which :func:`tokeniser_of` and ``transformers`` read it again."""
        stored = require("tokenizers", "clip").Tokenizer.from_str(self.backend.to_str())
        stored.enable_truncation(self.limit)
        stored.enable_padding(pad_id=self.pad, pad_token=stored.id_to_token(self.pad))
        stored.save(str(folder / "tokenizer.json"))
        names = {"bos_token": self.start, "eos_token": self.end, "pad_token": self.pad}
        written = {
            "tokenizer_class": "CLIPTokenizer" if self.clean else "PreTrainedTokenizerFast",
            **self.settings,
            **{key: self.backend.id_to_token(number) for key, number in names.items() if number >= 0},
            "model_max_length": self.limit,
        }
        (folder / "tokenizer_config.json").write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")


def padded(
    rows: Sequence[Sequence[int]], front: list[int], end: int, pad: int, limit: int, full: bool = False
) -> Tokens:
    """Rows of ids framed, cut with the end token kept, and laid in one array.

    >>> padded([[5], [6, 7, 8]], [1], 2, 0, limit=4)
    Tokens(ids=array([[1, 5, 2, 0], [1, 6, 7, 2]]), lengths=array([3, 5]))
    """
    frame = len(front) + 1
    lengths: npt.NDArray[np.int64] = np.fromiter((len(row) + frame for row in rows), np.int64, len(rows))
    kept = np.minimum(lengths, limit)
    width = limit if full else int(kept.max(initial=frame))
    ids = np.full((len(rows), width), pad, np.int64)
    ids[:, : len(front)] = front
    places = np.arange(width)
    inner = kept[:, None] - 1
    body = list(chain.from_iterable(row[: limit - frame] for row in rows))
    ids[(places >= len(front)) & (places < inner)] = body
    ids[places == inner] = end
    return Tokens(ids, lengths)


def tokeniser_of(folder: Path, limit: int) -> Tokeniser:
    """The tokeniser of a model folder: ``tokenizer.json``, or ``vocab.json`` with ``merges.txt``."""
    from captious.encoders.merges import from_files

    settings = _settings(folder)
    if (folder / "tokenizer.json").is_file():
        try:
            backend = require("tokenizers", "clip").Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the library raises the bare class
            raise InputError(
                f"{folder / 'tokenizer.json'}: is not a tokeniser ({' '.join(str(error).split())})"
            ) from None
        return framed(backend, limit, settings, str(folder))
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return framed(from_files(folder / "vocab.json", folder / "merges.txt"), limit, settings, str(folder))
    raise InputError(
        f"{folder}: has no tokeniser, expected tokenizer.json, or vocab.json and merges.txt, in the folder"
    )


def framed(backend: Any, limit: int, settings: dict[str, Any], where: str) -> Tokeniser:
    """Learn from a tokeniser itself, and its settings where it is silent, what frames a text."""
    padding = (backend.padding or {}).get("pad_id")
    backend.no_truncation()
    backend.no_padding()
    frame = backend.encode("", add_special_tokens=True).ids
    named = {key: backend.token_to_id(_token(settings.get(key))) for key in ("bos_token", "eos_token", "pad_token")}
    if len(frame) > 2:
        raise InputError(f"{where}: its tokeniser frames a text with {len(frame)} tokens, expected a start and an end")
    start, end = (
        (frame[0] if len(frame) == 2 else None, frame[-1]) if frame else (named["bos_token"], named["eos_token"])
    )
    if end is None:
        raise InputError(f"{where}: its tokeniser names no end token, expected eos_token in tokenizer_config.json")
    clip = backend.token_to_id(START) == start and backend.token_to_id(END) == end and backend.get_vocab_size() > 40_000
    pad = next(number for number in (named["pad_token"], padding, end) if number is not None)
    return Tokeniser(backend, limit, -1 if start is None else start, end, pad, clip, settings=settings)


def _settings(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        path = folder / name
        if path.is_file():
            try:
                found |= json.loads(path.read_text(encoding="utf-8"))
            except (ValueError, TypeError) as error:
                raise InputError(f"{path}: is not a JSON object ({error})") from None
    return found


def _token(entry: Any) -> str:
    """A special token, which is written as a string or as an object."""
    return str(entry.get("content", "")) if isinstance(entry, dict) else str(entry or "")


def _canonical(backend: Any) -> bytes:
    """The vocabulary and rules, however the file was laid out."""
    found = json.loads(backend.to_str())
    kept = {key: found.get(key) for key in ("model", "normalizer", "pre_tokenizer")}
    return json.dumps(kept, sort_keys=True).encode()
