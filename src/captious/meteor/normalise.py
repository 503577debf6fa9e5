r"""METEOR's `-norm` normaliser for English: punctuation set apart, quotes and dashes unified, lower-case tokens.

Deviations: none on text without control characters. The original reads one caption per line and fields parted by `|||`,
so a line break or that mark inside a caption shifts every later score; here :func:`clean` turns both into spaces first.

>>> normalise("A black-and-white dog's ball, no. 5 in the U.S. ...", {"No": True})
['a', 'black', 'and', 'white', 'dog', "'s", 'ball', ',', 'no', '.', '5', 'in', 'the', 'us', '...']
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# The alphabet of the original, written with escapes: Latin, Latin-1, Latin Extended-A (almost), Cyrillic, phonetic.
_ALPHA = (
    r"A-Za-z\u0160\u017D\u0161\u017E\u0178\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u017E"
    r"\u0400-\u04FF\u0500-\u0527\uA640-\uA66E\uA67E-\uA697\u1D00-\u1D7F"
)
_ALNUM = "0-9" + _ALPHA
_PUNCTUATION = re.compile(rf"([^{_ALNUM}\s.'`,\-\u2018\u2019])", re.ASCII)
_DOTS = re.compile(r"\.(\.+)")
_DOT_END = re.compile(r"DOTMULTI\.([^.])")
_QUOTE = re.compile(r"[`\u2018\u2019]")
_DOUBLE_QUOTE = re.compile(r"[\u201C\u201D]|''")
_HYPHEN = re.compile(rf"([{_ALNUM}.])-([{_ALNUM}])")
# Each substitution consumes both neighbours, so of two marks one letter apart only the first is seen: `a-b-c` gives
# `a b-c`. The order and the consumption are the original's.
_COMMAS = [
    (re.compile(r"([^0-9]),([^0-9])"), r"\1 , \2"),
    (re.compile(r"([0-9]),([^0-9])"), r"\1 , \2"),
    (re.compile(r"([^0-9]),([0-9])"), r"\1 , \2"),
]
_APOSTROPHES = [
    (re.compile(rf"([^{_ALPHA}])'([^{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(rf"([^{_ALPHA}0-9])'([{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(rf"([{_ALPHA}])'([^{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(rf"([{_ALPHA}])'([{_ALPHA}])"), r"\1 '\2"),
    (re.compile(r"([0-9])'(s)"), r"\1 '\2"),
]
_LETTER = re.compile(f"[{_ALPHA}]")
_SPACES = re.compile("[\u2000-\u200a\u202f\u205f\u3000\u00a0]")
_BREAKS = re.compile(r"[ \t\n\r\f]+")
_FORBIDDEN = re.compile("\\|\\|\\||[\u0000-\u001f\u007f-\u009f\u2028\u2029]")


def clean(caption: str) -> tuple[str, bool]:
    r"""The caption without line breaks, tabs, control characters and `|||`, and whether it held any.

    >>> clean("a dog\nruns")
    ('a dog runs', True)
    """
    if caption.isascii() and caption.isprintable() and "|||" not in caption:
        return caption, False
    cleaned, count = _FORBIDDEN.subn(" ", caption)
    return cleaned, count > 0


def normalise(caption: str, prefixes: Mapping[str, bool]) -> list[str]:
    """Lower-case tokens of a cleaned caption.

    `prefixes` maps an abbreviation that keeps its dot to whether it does so only before a number.
    """
    if caption.isascii() and caption.replace(" ", "").isalnum():
        return caption.lower().split()
    text = _PUNCTUATION.sub(r" \1 ", f" {caption} ")
    if ".." in text:
        text = _DOTS.sub(r" DOTMULTI\1", text)
        while "DOTMULTI." in text:
            text = _DOT_END.sub(r"DOTDOTMULTI \1", text).replace("DOTMULTI.", "DOTDOTMULTI")
    if "," in text:
        for pattern, by in _COMMAS:
            text = pattern.sub(by, text)
    text = _DOUBLE_QUOTE.sub(' " ', _QUOTE.sub("'", text))
    text = _HYPHEN.sub(r"\1 \2", text.replace("\u2013", "-").replace("--", "-"))
    if "'" in text:
        for pattern, by in _APOSTROPHES:
            text = pattern.sub(by, text)
    text = " ".join(_final_dots([token for token in _BREAKS.split(text) if token], prefixes))
    while "DOTDOTMULTI" in text:
        text = text.replace("DOTDOTMULTI", "DOTMULTI.")
    text = _SPACES.sub(" ", text.replace("DOTMULTI", "."))
    return [token for token in _BREAKS.split(text.lower()) if token]


def _final_dots(tokens: list[str], prefixes: Mapping[str, bool]) -> list[str]:
    """Part the full stop from a word, unless it belongs to an abbreviation."""
    parted = []
    for token, following in zip(tokens, [*tokens[1:], ""], strict=False):
        word = token[:-1]
        if len(token) == 1 or not token.endswith("."):
            parted.append(token)
        elif "." in word and _LETTER.search(word):
            parted.append(token.replace(".", ""))
        elif (
            prefixes.get(word) is False
            or "a" <= following[:1] <= "z"
            or (prefixes.get(word) and "0" <= following[:1] <= "9")
        ):
            parted.append(token)
        else:
            parted.append(f"{word} .")
    return parted
