"""Languages by code, with name, tokenizer and script; detection of the scripts of texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from captious.errors import InputError, format_suggestion

# Input column with the language of each item.
LANGUAGE_COLUMN = "language"
# Default language of metrics, and the tokenizer of languages with spaces.
ENGLISH, WORDS = "en", "ptb"
# Default of metrics: the tokenizer of the captions' language.
AUTO = "auto"


@dataclass(frozen=True)
class Language:
    """A language of captions."""

    name: str
    tokenizer: str = WORDS
    """The default tokenizer for metrics."""
    script: str = ""
    """The script in `SCRIPTS` that every longer text in this language uses."""


def _parse_languages(names: str) -> dict[str, Language]:
    return {code: Language(name) for code, _, name in (pair.partition(":") for pair in names.split())}


# All languages of Crossmodal-3600, and others. For languages not listed, users pass a tokenizer and no language.
LANGUAGES: Mapping[str, Language] = {
    "bo": Language("Tibetan", "char", "Tibetan"),
    "ja": Language("Japanese", "ja-mecab", "kana"),
    "km": Language("Khmer", "char", "Khmer"),
    "ko": Language("Korean", "ko-mecab", "Hangul"),
    "lo": Language("Lao", "char", "Lao"),
    "my": Language("Burmese", "char", "Burmese"),
    "th": Language("Thai", "th-newmm", "Thai"),
    "zh": Language("Chinese", "zh-char", "Han"),
    **_parse_languages(
        "af:Afrikaans ar:Arabic bg:Bulgarian bn:Bengali ca:Catalan cs:Czech da:Danish de:German el:Greek en:English "
        "es:Spanish et:Estonian eu:Basque fa:Persian fi:Finnish fil:Filipino fr:French ga:Irish gl:Galician "
        "gu:Gujarati he:Hebrew hi:Hindi hr:Croatian hu:Hungarian hy:Armenian id:Indonesian is:Icelandic it:Italian "
        "ka:Georgian kk:Kazakh kn:Kannada lt:Lithuanian lv:Latvian mi:Māori mk:Macedonian ml:Malayalam mn:Mongolian "
        "mr:Marathi ms:Malay ne:Nepali nl:Dutch no:Norwegian pa:Punjabi pl:Polish pt:Portuguese quz:Quechua "
        "ro:Romanian ru:Russian si:Sinhala sk:Slovak sl:Slovenian sq:Albanian sr:Serbian sv:Swedish sw:Swahili "
        "ta:Tamil te:Telugu tr:Turkish uk:Ukrainian ur:Urdu vi:Vietnamese"
    ),
}


# Models trained on English only, including the default models of metrics.
ENGLISH_MODELS = frozenset(
    (
        "FacebookAI/roberta-large", "roberta-large", "bert-base-uncased", "google-bert/bert-base-uncased",
        "microsoft/deberta-xlarge-mnli", "sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2",
        "sentence-transformers/all-mpnet-base-v2", "sentence-transformers/paraphrase-TinyBERT-L6-v2",
        "openai/clip-vit-base-patch32", "openai/clip-vit-base-patch16", "openai/clip-vit-large-patch14",
        "BeichenZhang/LongCLIP-B", "Xiaohud/SPECS", "captious-mini", "captious-mini-specs",
    )
)  # fmt: skip


def find_language(code: str) -> Language:
    """Return the language with this code. Raise InputError with a suggestion if there is none.

    >>> find_language("zh").tokenizer
    'zh-char'
    """
    try:
        return LANGUAGES[code]
    except (KeyError, TypeError):
        by_name = {language.name.lower(): known for known, language in LANGUAGES.items()}
        known = by_name.get(str(code).lower()) or str(code).lower().partition("-")[0].partition("_")[0]
        hint = f"; did you mean {known!r}?" if known in LANGUAGES else format_suggestion(str(code), LANGUAGES)
        raise InputError(f"language={code!r}, expected a code such as en, zh, ja, ko, th, ar or fr{hint}") from None


def parse_language_code(value: Any) -> str:
    """Return the language code in a cell, without its region.

    >>> [parse_language_code(value) for value in ("zh-CN", "pt_BR", " EN ", None, float("nan"))]
    ['zh', 'pt', 'en', '', '']
    """
    if value is None or value != value:  # NaN, as pandas writes an empty cell
        return ""
    return str(value).strip().lower().replace("_", "-").partition("-")[0]


def find_only_language(values: Iterable[Any]) -> str:
    """Return the language that all cells of a column name; empty for several, for none, and for English.

    >>> [find_only_language(column) for column in (["de", "de-AT"], ["de", "fr"], ["de", None], ["en"])]
    ['de', '', '', '']
    """
    codes = set(map(parse_language_code, values))
    return next(iter(codes)) if len(codes) == 1 and codes <= LANGUAGES.keys() - {ENGLISH} else ""


def choose_tokenizer(name: str, language: str, chosen: str = "") -> str:
    """Return the tokenizer that a metric uses for captions in a language; an empty code means English.

    ``chosen`` is the one that reading chose for these captions in place of that of the language.

    >>> choose_tokenizer("auto", "zh"), choose_tokenizer("zh-jieba", "zh"), choose_tokenizer("auto", "")
    ('zh-char', 'zh-jieba', 'ptb')
    """
    return chosen or find_language(language or ENGLISH).tokenizer if name == AUTO else name


# Letters of each script by the first and the last code point of their blocks.
_RANGES = {
    "Thai": ((0x0E01, 0x0E4E),),
    "Lao": ((0x0E81, 0x0EDF),),
    "Tibetan": ((0x0F40, 0x0FBC),),
    "Burmese": ((0x1000, 0x109F),),
    "Khmer": ((0x1780, 0x17D3),),
    "kana": ((0x3041, 0x3096), (0x30A1, 0x30FA), (0x31F0, 0x31FF), (0xFF66, 0xFF9D)),
    "Han": ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF)),
    "Hangul": ((0x1100, 0x11FF), (0x3131, 0x318E), (0xAC00, 0xD7A3)),
    "Latin": ((0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x1E00, 0x1EFF), (0xFF21, 0xFF3A), (0xFF41, 0xFF5A)),
    "Greek": ((0x0370, 0x03FF), (0x1F00, 0x1FFF)),
    "Cyrillic": ((0x0400, 0x052F),),
    "Hebrew": ((0x05D0, 0x05EA),),
    "Arabic": ((0x0620, 0x064A), (0x066E, 0x06D3), (0x0750, 0x077F)),
    "Indic": ((0x0900, 0x0DFF),),
}
SCRIPTS = tuple(_RANGES)
# Scripts without spaces between words.
UNSPACED = ("Thai", "Lao", "Tibetan", "Burmese", "Khmer", "kana", "Han")
# Tokenizers for which spaces separate words.
SPACED_TOKENIZERS = ("ptb", "13a", "13a-cased", "intl", "intl-cased", "whitespace", "whitespace-lower", "plain")

_BLOCKS = sorted((first, last, number) for number, blocks in enumerate(_RANGES.values()) for first, last in blocks)
_FIRST, _LAST, _SCRIPT = (np.array(column) for column in zip(*_BLOCKS, strict=True))
_UNSPACED = np.array([script in UNSPACED for script in SCRIPTS])
# Largest number of texts whose letters are counted.
SAMPLE = 20_000
# A script is used from a share of MANY on; fewer than FEW letters decide nothing; CLAUSE letters in a row are a clause.
MANY, FEW, CLAUSE = 0.1, 50, 6


@dataclass(frozen=True)
class Scripts:
    """Letter counts of texts by script."""

    letters: Mapping[str, int]
    unspaced_runs: int = 0
    """Number of runs between spaces that contain letters of a script without spaces."""

    @classmethod
    def of(cls, texts: Sequence[str], step: int | None = None) -> Scripts:
        """Count the letters of every ``step``-th text; by default of at most `SAMPLE` evenly spaced texts.

        >>> Scripts.of(["一只狗 a dog"]).letters
        {'Han': 3, 'Latin': 4}
        """
        joined = "\n".join(texts[:: step or cls.step(len(texts))])
        if joined.isascii():
            lower = np.frombuffer(joined.encode(), dtype=np.uint8) | 32
            letters = int(np.count_nonzero(lower - 97 < 26))  # uint8: characters below 'a' wrap around to large numbers
            return cls({"Latin": letters} if letters else {})
        codes = np.frombuffer(joined.encode("utf-32-le", "replace"), dtype=np.uint32)
        block = np.maximum(np.searchsorted(_FIRST, codes, side="right") - 1, 0)
        inside = (codes >= _FIRST[block]) & (codes <= _LAST[block])
        script = _SCRIPT[block]
        counts = np.bincount(script[inside], minlength=len(SCRIPTS)).tolist()
        # The number of spaces before a letter identifies its run, so the distinct numbers count the runs.
        unspaced = np.flatnonzero(inside & _UNSPACED[script])
        spaces = np.cumsum((codes == 0x20) | (codes == 0x0A) | (codes == 0x3000))
        runs = len(np.unique(spaces[unspaced]))
        return cls({name: number for name, number in zip(SCRIPTS, counts, strict=True) if number}, runs)

    @staticmethod
    def step(texts: int) -> int:
        """Return the step between sampled texts, given their number."""
        return max(-(-texts // SAMPLE), 1)

    def __add__(self, other: Scripts) -> Scripts:
        numbers = {script: self.letters.get(script, 0) + other.letters.get(script, 0) for script in SCRIPTS}
        letters = {script: number for script, number in numbers.items() if number}
        return Scripts(letters, self.unspaced_runs + other.unspaced_runs)

    def share(self, scripts: Iterable[str]) -> float:
        """Return the share of all letters that belong to these scripts."""
        total = sum(self.letters.values())
        return sum(self.letters.get(script, 0) for script in scripts) / total if total else 0.0

    @property
    def unsplit(self) -> str:
        """The language whose tokenizer these texts need because a tokenizer for spaces would take a clause for a word.

        Empty if there are few such letters, or if spaces separate the words already.

        >>> Scripts.of(["一只棕色的狗在草地上奔跑"]).unsplit, Scripts.of(["一只 棕色 的 狗 在 草地 上 奔跑"]).unsplit
        ('zh', '')
        """
        number = sum(self.letters.get(script, 0) for script in UNSPACED)
        if self.share(UNSPACED) <= MANY or number < CLAUSE * self.unspaced_runs:
            return ""
        most = max(UNSPACED, key=lambda script: self.letters.get(script, 0))
        if most == "Han" and self.letters.get("kana", 0) > MANY * self.letters["Han"]:
            most = "kana"
        return next(code for code, language in LANGUAGES.items() if language.script == most)

    def explain_unsplit_clauses(self, tokenizer: str, language: str) -> str:
        """Return a warning if a tokenizer for spaces is used on a script without spaces, else an empty string."""
        code = self.unsplit
        if tokenizer not in SPACED_TOKENIZERS or not code:
            return ""
        better = f"language={code!r}" if code != language else f"tokenizer={LANGUAGES[code].tokenizer}"
        return f"{self.describe_share(UNSPACED)}; {tokenizer} takes a clause for a word: pass {better}"

    @property
    def main(self) -> str:
        """The script of most letters; Latin if there are no letters.

        >>> Scripts.of(["كلب يركض"]).main
        'Arabic'
        """
        return max(self.letters, key=self.letters.__getitem__, default="Latin")

    def describe_share(self, scripts: Iterable[str]) -> str:
        """Format the share of some scripts for a message.

        >>> Scripts.of(["犬が走る"]).describe_share(["Han", "kana"])
        '100 % of the letters are Han and kana'
        """
        present = [script for script in scripts if self.letters.get(script)]
        return f"{100 * self.share(present):.0f} % of the letters are {' and '.join(present)}"


def refuse_other_script(code: str, texts: Sequence[str], where: str) -> None:
    """Raise InputError if long texts contain no letter of their language's script, or if Chinese contains kana.

    >>> refuse_other_script("ja", ["一只棕色的狗在草地上奔跑" * 5], "zh.csv")
    Traceback (most recent call last):
        ...
    captious.errors.InputError: zh.csv: no kana, expected some in Japanese (language='ja'); 100 % of the letters are Han
    """
    script = find_language(code).script
    if not script:
        return
    scripts = Scripts.of(texts)
    if not scripts.letters.get(script) and sum(scripts.letters.values()) >= FEW:
        found = scripts.describe_share([scripts.main])
        name = find_language(code).name
        raise InputError(f"{where}: no {script}, expected some in {name} (language={code!r}); {found}")
    if script == "Han" and scripts.share(["kana"]) > MANY:
        found = scripts.describe_share(["kana"])
        hint = "for Japanese pass language='ja'"
        raise InputError(f"{where}: {found}, expected none in Chinese (language={code!r}); {hint}")


def refuse_other_than_english(
    where: str, what: str, texts: Sequence[str], language: str = "", instead: str = ""
) -> None:
    """Raise InputError if texts are in another language than English or mostly in another script than Latin.

    >>> refuse_other_than_english("zh.csv", "detail units are made", ["一只棕色的狗"])
    Traceback (most recent call last):
        ...
    captious.errors.InputError: zh.csv: detail units are made for English captions, 100 % of the letters are Han
    """
    scripts = Scripts.of(texts)
    named = language not in ("", ENGLISH) and f"they are in {find_language(language).name}"
    written = scripts.main != "Latin" and scripts.describe_share([scripts.main])
    if named or written:
        raise InputError(f"{where}: {what} for English captions, {named or written}{instead}")
