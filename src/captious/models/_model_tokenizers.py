"""Tokenizers of model folders on the ``tokenizers`` library, with exactly the ids of OpenAI's CLIP code.

OpenAI's tokenizer repairs Unicode and reads HTML entities before anything else. The copy in ``transformers`` does not,
which moves the scores of captions with curly quotes.
"""

from __future__ import annotations

import gzip
import html
import json
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.files import digest, load_json, read_regular
from captious._core.types import Ints
from captious.errors import InputError, format_one_line, require
from captious.models._model_folders import write_json
from captious.models.devices import quiet
from captious.models.encoder import Tokens
from captious.models.hub import fetch, get_weights_folder

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


def clean_text(text: str) -> str:
    """Clean a text as OpenAI's tokenizer does.

    >>> clean_text("A  cat &amp;amp; a DOG ")
    'a cat & a dog'
    """
    entities = "&" in text and html.unescape(text) != text
    if entities or not text.isascii() or _CONTROL.search(text):
        text = html.unescape(html.unescape(require("ftfy", "clip").fix_text(text)))
    return " ".join(text.split()).lower()


_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def canonicalize(text: str) -> str:
    """Return a text as the tokenizer of SigLIP 1 reads it: lower case, no ASCII punctuation, single spaces.

    >>> canonicalize("A red,  ball!")
    'a red ball'
    """
    return " ".join(text.lower().translate(_WITHOUT_PUNCTUATION).split())


START, END = "<|startoftext|>", "<|endoftext|>"
MOST_WORDS = 1_000_000
_WORD = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d|[a-z]+|[0-9]|[^\sa-z0-9]+")


@dataclass(frozen=True, eq=False)
class SubwordTokenizer:
    """A ``tokenizers.Tokenizer`` with the special token ids around a text; ``start`` is −1 if there is none."""

    backend: Any
    limit: int
    start: int
    end: int
    pad: int
    clean: bool = False
    """Texts are cleaned as OpenAI's tokenizer does."""
    full: bool = False
    """Every batch is padded to the limit, for models that were trained so and attend to the padding."""
    canonical: bool = False
    """Texts are canonicalized as SigLIP's tokenizer does."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Content of ``tokenizer_config.json``, which `save` writes again."""
    word_ids: dict[str, list[int]] = field(default_factory=dict, repr=False)
    """Cache of token ids by word."""

    def __call__(self, texts: Sequence[str]) -> Tokens:
        """Tokenize a batch of texts, padded to the longest."""
        if self.canonical:
            texts = [canonicalize(text) for text in texts]
        rows = self._tokenize_words([clean_text(text) for text in texts]) if self.clean else self.rows(texts)
        front = [self.start] if self.start >= 0 else []
        return pad(rows, front, self.end, self.pad, self.limit, self.full)

    def rows(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, without start and end, not truncated."""
        # `encode_batch_fast` exists since tokenizers 0.20.
        encode = getattr(self.backend, "encode_batch_fast", self.backend.encode_batch)
        return [encoding.ids for encoding in encode(texts, add_special_tokens=False)]

    def _tokenize_words(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize as CLIP: words are looked up in a cache; the library tokenizes new words and rare scripts."""
        plain = [text.isascii() and "<|" not in text for text in texts]
        pieces = [_WORD.findall(text) if simple else [] for text, simple in zip(texts, plain, strict=True)]
        if len(self.word_ids) > MOST_WORDS:
            self.word_ids.clear()
        new = sorted(set(chain.from_iterable(pieces)) - self.word_ids.keys())
        self.word_ids.update(zip(new, self.rows(new), strict=True))
        others = iter(self.rows([text for text, simple in zip(texts, plain, strict=True) if not simple]))
        return [
            list(chain.from_iterable(map(self.word_ids.__getitem__, words))) if simple else next(others)
            for words, simple in zip(pieces, plain, strict=True)
        ]

    @cached_property
    def text(self) -> str:
        """Tokenizer as text, for fingerprints."""
        frame = [self.limit, self.start, self.end, self.clean, self.full, *(["canonical"] if self.canonical else [])]
        return f"{digest(self._content())} {frame}"

    def _content(self) -> bytes:
        """Return the vocabulary and rules in a form that does not depend on the layout of the file."""
        stored = json.loads(self.backend.to_str())
        parts = {key: stored.get(key) for key in ("model", "normalizer", "pre_tokenizer")}
        return json.dumps(parts, sort_keys=True).encode()

    @property
    def keeps_siglip_case(self) -> bool:
        """Whether capitals of a text are kept although SigLIP 2, whose folders name Gemma's tokenizer, saw none."""
        named = str(self.settings.get("tokenizer_class", "")).startswith("Gemma")
        return self.full and named and not _begins_with_lower_case(self.backend)

    def save(self, folder: Path) -> None:
        """Write the files that :func:`read_tokenizer` and ``transformers`` read."""
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
        write_json(folder / "tokenizer_config.json", written)


@dataclass(frozen=True, eq=False)
class SentencePieceTokenizer(SubwordTokenizer):
    """Tokenizer of a SigLIP 1 folder that has only ``spiece.model``: ``transformers``' own, which canonicalizes."""

    def rows(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, without start and end, not truncated."""
        with quiet():  # it warns about texts over the limit, which are truncated here
            rows: list[list[int]] = self.backend(list(texts), add_special_tokens=False)["input_ids"] if texts else []
        return rows

    def _content(self) -> bytes:
        return read_regular(Path(self.backend.vocab_file))

    def save(self, folder: Path) -> None:
        """Write ``spiece.model`` and the settings."""
        self.backend.save_pretrained(str(folder))


def pad(rows: Sequence[Sequence[int]], front: list[int], end: int, pad: int, limit: int, full: bool = False) -> Tokens:
    """Frame rows of token ids with start and end, truncate them before the end token, and pad them to one array.

    >>> pad([[5], [6, 7, 8]], [1], 2, 0, limit=4)
    Tokens(ids=array([[1, 5, 2, 0], [1, 6, 7, 2]]), lengths=array([3, 5]))
    """
    frame = len(front) + 1
    lengths: Ints = np.fromiter((len(row) + frame for row in rows), np.int64, len(rows))
    truncated = np.minimum(lengths, limit)
    width = limit if full else int(truncated.max(initial=frame))
    ids = np.full((len(rows), width), pad, np.int64)
    ids[:, : len(front)] = front
    # A row is  front | body | end | padding;  `last` is the column of the end token.
    columns = np.arange(width)
    last = truncated[:, None] - 1
    body = list(chain.from_iterable(row[: limit - frame] for row in rows))
    ids[(columns >= len(front)) & (columns < last)] = body
    ids[columns == last] = end
    return Tokens(ids, lengths)


def read_tokenizer(folder: Path, limit: int, own_limit: bool = False) -> SubwordTokenizer:
    """Read the tokenizer of a folder: ``tokenizer.json``, ``vocab.json`` with ``merges.txt``, or ``spiece.model``.

    With ``own_limit`` the limit is at most the ``model_max_length`` of its settings.
    """
    settings = _read_settings(folder)
    if own_limit:
        limit = min(limit, int(settings.get("model_max_length", limit)))
    if (folder / "tokenizer.json").is_file():
        try:
            backend = require("tokenizers", "clip").Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the library raises the bare class
            raise InputError(
                f"{folder / 'tokenizer.json'}: is not a tokenizer ({' '.join(str(error).split())})"
            ) from None
        return _as_siglip(from_backend(backend, limit, settings, str(folder)))
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return from_backend(from_files(folder / "vocab.json", folder / "merges.txt"), limit, settings, str(folder))
    if (folder / "spiece.model").is_file():
        return _from_spiece(folder, limit, settings)
    raise InputError(
        f"{folder}: has no tokenizer, expected tokenizer.json, vocab.json and merges.txt, or spiece.model of a SigLIP, "
        "in the folder"
    )


def _as_siglip(tokenizer: SubwordTokenizer) -> SubwordTokenizer:
    """Add the normalization that ``transformers``' SigLIP classes do in code and some ``tokenizer.json`` omit.

    That of SigLIP 2 puts lower-casing before the normalizer. That of SigLIP 1 canonicalizes.
    """
    kind = str(tokenizer.settings.get("tokenizer_class", "")).removesuffix("Fast")
    if kind == "SiglipTokenizer" and tokenizer.settings.get("do_lower_case", True):
        return replace(tokenizer, canonical=True)
    if kind == "Siglip2Tokenizer" and tokenizer.backend.normalizer is not None:
        put_lower_case_first(tokenizer)
    return tokenizer


def put_lower_case_first(tokenizer: SubwordTokenizer) -> None:
    """Put texts in lower case before the normalizer of a tokenizer; one that does so already stays the same."""
    backend = tokenizer.backend
    if tokenizer.clean or tokenizer.canonical or _begins_with_lower_case(backend):
        return
    normalize = require("tokenizers", "clip").normalizers
    steps = [] if backend.normalizer is None else [backend.normalizer]
    backend.normalizer = normalize.Sequence([normalize.Lowercase(), *steps])


def _begins_with_lower_case(backend: Any) -> bool:
    """Return True if lower case is the first step, as in a folder that was saved by captious or by transformers."""
    if not hasattr(backend, "to_str"):  # that of SentencePiece
        return True
    first = json.loads(backend.to_str())["normalizer"] or {}
    steps = first.get("normalizers") or [first]
    return bool(steps[0].get("type") == "Lowercase")


def _from_spiece(folder: Path, limit: int, settings: dict[str, Any]) -> SentencePieceTokenizer:
    """Read the SentencePiece model of a SigLIP 1, by the tokenizer of ``transformers``."""
    require("sentencepiece", "siglip")
    require("google.protobuf", "siglip")
    kind = settings.get("tokenizer_class", "SiglipTokenizer")
    if kind != "SiglipTokenizer":
        raise InputError(f"{folder}: tokenizer_class is {kind!r} and has no tokenizer.json, expected SiglipTokenizer")
    try:
        with quiet():
            backend = require("transformers", "clip").SiglipTokenizer.from_pretrained(str(folder))
    except Exception as error:  # of SentencePiece's C++ side, among others
        raise InputError(
            f"{folder / 'spiece.model'}: is not a SentencePiece model ({format_one_line(error)})"
        ) from None
    return SentencePieceTokenizer(backend, limit, -1, backend.eos_token_id, backend.pad_token_id, settings=settings)


def from_backend(backend: Any, limit: int, settings: dict[str, Any], where: str) -> SubwordTokenizer:
    """Wrap a tokenizer of the library; start and end tokens are inferred from an empty text, else from ``settings``."""
    padding = (backend.padding or {}).get("pad_id")
    backend.no_truncation()
    backend.no_padding()
    frame = backend.encode("", add_special_tokens=True).ids
    named = {key: backend.token_to_id(_get_token(settings.get(key))) for key in ("bos_token", "eos_token", "pad_token")}
    if len(frame) > 2:
        raise InputError(f"{where}: its tokenizer frames a text with {len(frame)} tokens, expected a start and an end")
    start, end = (
        (frame[0] if len(frame) == 2 else None, frame[-1]) if frame else (named["bos_token"], named["eos_token"])
    )
    if end is None:
        raise InputError(f"{where}: its tokenizer names no end token, expected eos_token in tokenizer_config.json")
    clip = backend.token_to_id(START) == start and backend.token_to_id(END) == end and backend.get_vocab_size() > 40_000
    pad = next(number for number in (named["pad_token"], padding, end) if number is not None)
    return SubwordTokenizer(backend, limit, -1 if start is None else start, end, pad, clip, settings=settings)


def _read_settings(folder: Path) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        path = folder / name
        if path.is_file():
            try:
                settings |= load_json(path)
            except (ValueError, TypeError) as error:
                raise InputError(f"{path}: is not a JSON object ({error})") from None
    return settings


def _get_token(entry: Any) -> str:
    """Return a special token, which is written as a string or as an object."""
    return str(entry.get("content", "")) if isinstance(entry, dict) else str(entry or "")


MERGES = "bpe_simple_vocab_16e6.txt.gz"
# Number of merges that CLIP uses of the list, for a vocabulary of 49,408.
COUNT = 49_152 - 256 - 2
REPOSITORY = "openai/clip-vit-base-patch32"
PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def find_clip_tokenizer(beside: Path, limit: int) -> SubwordTokenizer:
    """Find CLIP's tokenizer: in the folder of a checkpoint, else in the user's folder, else on the hub."""
    for folder in (beside, get_weights_folder()):
        if (folder / "tokenizer.json").is_file() or (folder / "merges.txt").is_file():
            return read_tokenizer(folder, limit)
        if (folder / MERGES).is_file():
            return from_backend(from_list(folder / MERGES), limit, {}, str(folder / MERGES))
    try:
        fetched = fetch(
            REPOSITORY, ("tokenizer.json",), lambda folder: (folder / "tokenizer.json").is_file(), "CLIP's tokenizer"
        )
    except InputError:
        fetched = None
    if fetched is not None:
        return read_tokenizer(fetched, limit)
    raise InputError(
        f"{beside}: CLIP's tokenizer is not on this machine, and the hub cannot be reached; download tokenizer.json "
        f"from the hub repository {REPOSITORY} (or {MERGES} from github.com/openai/CLIP) and put it in "
        f"{get_weights_folder()} or next to the checkpoint"
    )


def from_list(path: Path) -> Any:
    """Build the tokenizer of OpenAI's list of merges, plain or gzipped."""
    try:
        content = read_regular(path)
        lines = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8").split("\n")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not CLIP's list of merges ({error})") from None
    merges = [(left, right) for left, _, right in (line.partition(" ") for line in lines[1 : COUNT + 1])]
    if len(merges) < COUNT:
        raise InputError(f"{path}: has {len(merges)} merges, expected {COUNT}")
    letters = _list_byte_letters()
    words = [*letters, *(letter + "</w>" for letter in letters), *map("".join, merges), START, END]
    return _build_byte_pairs({word: number for number, word in enumerate(words)}, merges)


def from_files(vocabulary: Path, merges: Path) -> Any:
    """Build the tokenizer of ``vocab.json`` and ``merges.txt``."""
    try:
        ids = load_json(vocabulary)
        lines = read_regular(merges).decode().split("\n")
    except (OSError, ValueError) as error:
        raise InputError(f"{vocabulary.parent}: its vocab.json and merges.txt are not a tokenizer ({error})") from None
    pairs = [
        (left, right) for left, _, right in (line.partition(" ") for line in lines) if right and left != "#version:"
    ]
    try:
        return _build_byte_pairs(ids, pairs)
    except InputError as error:
        raise InputError(f"{vocabulary.parent}: its vocab.json and merges.txt are not a tokenizer ({error})") from None


def read_roberta(folder: Path, limit: int) -> SubwordTokenizer:
    """Read the tokenizer of a RoBERTa: ``tokenizer.json``, or byte pairs of ``vocab.json`` and ``merges.txt``."""
    if (folder / "tokenizer.json").is_file():
        return read_tokenizer(folder, limit)
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    if not (vocabulary.is_file() and merges.is_file()):
        raise InputError(f"{folder}: has no tokenizer, expected tokenizer.json, or vocab.json and merges.txt")
    tokenizers = require("tokenizers", "clip")
    try:
        backend = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(str(vocabulary), str(merges)))
        start, end = (backend.token_to_id(token) for token in ("<s>", "</s>"))
        backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.post_processor = tokenizers.processors.RobertaProcessing(("</s>", end), ("<s>", start))
    except Exception as error:  # the library raises the bare class
        reason = format_one_line(error)
        raise InputError(f"{folder}: its vocab.json and merges.txt are not of a RoBERTa ({reason})") from None
    backend.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    return from_backend(backend, limit, _read_settings(folder), str(folder))


def _build_byte_pairs(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> Any:
    tokenizers = require("tokenizers", "clip")
    if START not in vocabulary or END not in vocabulary:
        raise InputError(
            f"a byte-pair vocabulary of {len(vocabulary)} tokens does not have {START} or {END}, which CLIP's has"
        )
    parts = tokenizers.pre_tokenizers
    try:
        model = tokenizers.models.BPE(
            vocabulary, merges, end_of_word_suffix="</w>", unk_token=END, continuing_subword_prefix=""
        )
    except Exception as error:  # the library raises the bare class, such as for a merge of unknown tokens
        raise InputError(f"its merges do not fit its vocabulary: {format_one_line(error)}") from None
    backend = tokenizers.Tokenizer(model)
    normalize = tokenizers.normalizers
    backend.normalizer = normalize.Sequence(
        [normalize.NFC(), normalize.Replace(tokenizers.Regex(r"\s+"), " "), normalize.Lowercase()]
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


def _list_byte_letters() -> list[str]:
    """Return a printable character for every byte, in the order of OpenAI's vocabulary: printable bytes first."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(byte) for byte in printable] + [chr(256 + extra) for extra in range(256 - len(printable))]


def read_wordpiece(folder: Path, limit: int, lower: bool = False) -> SubwordTokenizer:
    """Read the tokenizer of a BERT: words are split at punctuation, then into pieces.

    Case and accents are kept, unless ``lower`` is set and the folder has no ``tokenizer.json``.
    """
    if (folder / "tokenizer.json").is_file():
        return read_tokenizer(folder, limit)
    path = folder / "vocab.txt"
    if not path.is_file():
        raise InputError(f"{folder}: has no vocabulary, expected the vocab.txt of a BERT, or tokenizer.json")
    tokenizers = require("tokenizers", "clip")
    words = read_regular(path).decode().splitlines()
    vocabulary = {word: number for number, word in enumerate(words)}
    lacking = [word for word in ("[CLS]", "[SEP]", "[UNK]", "[PAD]") if word not in vocabulary]
    if lacking:
        raise InputError(f"{path}: has no {', '.join(lacking)}, expected the vocabulary of a BERT")
    backend = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lower, strip_accents=lower)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    backend.post_processor = tokenizers.processors.BertProcessing(
        ("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"])
    )
    return from_backend(backend, limit, {"pad_token": "[PAD]"}, str(folder))
