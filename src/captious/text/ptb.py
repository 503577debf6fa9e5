"""A tokenizer that gives the tokens of the Stanford PTBTokenizer 3.4.1 as coco-caption calls it, without Java."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

from captious.text import _ptb_rules as ptb_rules

PUNCTUATION = frozenset(["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"])
"""Tokens that coco-caption drops. It lists brackets too, in upper case, and so keeps ``-lrb-``: so do we."""

ODD_SPACE = re.compile("[\x0b-\r\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
"""What ``str.split`` takes for a space and this tokenizer may not: a text with one must not be split by it."""

_SIGNS = {
    **dict.fromkeys("\x80¤₠€", "$"),
    "¢": "cents",
    "£": "#",
    "¼": "1/4",
    "½": "1/2",
    "¾": "3/4",
    "⅓": "1/3",
    "⅔": "2/3",
}
_BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}
_QUOTES = {
    **dict.fromkeys("‘\x91‛‹", "`"),
    **dict.fromkeys("’\x92›", "'"),
    **dict.fromkeys("“\x93«", "``"),
    **dict.fromkeys("”\x94»", "''"),
}


def _in_brackets(token: str) -> str:
    return token.replace("(", "-lrb-").replace(")", "-rrb-")


def _unspaced(token: str) -> str:
    return token.replace(" ", "\xa0")


_WRITE: dict[str, Callable[[str], str]] = {
    "asis": str,
    "ends": str,
    "word": lambda token: token.replace("\xad", "") or "-",
    "clitic": lambda token: re.sub("[’\x92]|&apos;", "'", token),
    "tag": _unspaced,
    "spaced": _unspaced,
    "phone": lambda token: _in_brackets(_unspaced(token)),
    "bracketed": _in_brackets,
    "bracket": _BRACKETS.__getitem__,
    "dash": lambda token: "--" if len(token) < 5 else token,
    "entity": lambda token: token.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"),
    "quotes": lambda token: "".join(_QUOTES.get(mark, mark) for mark in token),
    "sign": _SIGNS.__getitem__,
    "drop": lambda token: "",
}
"""How an action of the rules writes a lower-cased token; any other action is the token itself."""


class _Shadow(dict[int, str]):
    """A table for ``str.translate`` from a non-ASCII character to the one that stands for its class in the rules."""

    def __missing__(self, code: int) -> str:
        category = unicodedata.category(chr(code)) if code < 0x10000 else ""
        self[code] = shadow = "ß" if category[:1] == "L" else "٠" if category == "Nd" else "\0"
        if category == "Lu":
            self[code] = shadow = "É"
        return shadow


def _shadow_table() -> _Shadow:
    table = _Shadow((code, chr(code)) for code in range(128))
    for shadow, codes in ptb_rules.CLASSES.items():
        for part in codes.split():
            first, _, last = part.partition("-")
            table.update(dict.fromkeys(range(int(first, 16), int(last or first, 16) + 1), shadow))
    return table


class _Rule(NamedTuple):
    action: str
    pattern: re.Pattern[str]
    lookahead: tuple[str, str] | None


class _RulesAt(dict[str, list[_Rule]]):
    """The rules that may match where a shadow has a character, compiled when it is first met."""

    def __missing__(self, character: str) -> list[_Rule]:
        starts = {"a" if character.isalpha() else "0" if character.isdecimal() else character}
        if character in "\u0301\xad":
            starts = {"a", character}
        elif character in "’&":
            starts = {"'", character}
        self[character] = rules = [
            _Rule(action, re.compile(pattern), ptb_rules.LOOKAHEAD.get(pattern))
            for action, first, pattern in ptb_rules.RULES
            if not first or not starts.isdisjoint(first)
        ]
        return rules


class _Lookahead:
    """Whether the mark of a rule is in the run that starts at a position; positions only grow.

    Every stretch of the text is searched once per rule, so that a long text without a space takes linear time.
    """

    def __init__(self, shadow: str) -> None:
        self.shadow = shadow
        self.runs: dict[tuple[str, str], tuple[int, int]] = {}

    def allows(self, lookahead: tuple[str, str], at: int) -> bool:
        """False only where the rule cannot match at this position."""
        end, mark = self.runs.get(lookahead, (0, -1))
        if at >= end:
            run = re.compile(lookahead[0]).match(self.shadow, at)
            end = run.end() if run else at
        if at > mark:
            match = re.compile(lookahead[1]).search(self.shadow, at)
            mark = match.start() if match else len(self.shadow)
        self.runs[lookahead] = end, mark
        return mark < end


_LONG = 2000
"""Texts longer than this are worth a lookahead; for a caption it costs more than it saves."""
_SHADOW = _shadow_table()
_RULES_AT = _RulesAt()
_FUSED = ptb_rules.FUSED
_PLAIN_WORDS = re.compile(r"(?:[A-Za-z]+(?: +(?![ \t\xa0\u3000])|\Z))+").match
_PLAIN_END = re.compile(r"([A-Za-z]{2,})([.,;:?!])(?= [^.]| ?\Z)").match
_MARKS = frozenset(".,;:?!")
_WITH_PERIOD = frozenset(
    [
        *ptb_rules.PERIOD_KEPT,
        *ptb_rules.PERIOD_KEPT_IF_CAPITALISED,
        *ptb_rules.TITLES,
        *ptb_rules.BEFORE_NUMBER,
    ]
)


def split(text: str, following: str = "") -> list[str]:
    """The tokens of a text, lower-cased, punctuation included.

    The original reads all captions as one stream and looks past the end of a line: the period of ``plan B.`` is a
    token of its own when the next caption starts with *The*. ``following`` is that next caption, for those who need
    the very tokens of such a stream; without it a caption is read on its own.

    >>> split("A dog's ball (red) isn't there.")
    ['a', 'dog', "'s", 'ball', '-lrb-', 'red', '-rrb-', 'is', "n't", 'there', '.']
    >>> split("This is plan B."), split("This is plan B.", "The end.")
    (['this', 'is', 'plan', 'b.'], ['this', 'is', 'plan', 'b', '.'])
    """
    text = text.replace("\n", " ")
    end = len(text)
    shadow = f"{text}\n{following}\n" if following else f"{text}\n"
    if not (text.isprintable() and shadow.isascii()):
        shadow = shadow.translate(_SHADOW)
    tokens: list[str] = []
    ahead = _Lookahead(shadow) if len(shadow) > _LONG else None
    at = 0
    while at < end:
        plain = _PLAIN_WORDS(shadow, at, end)
        if plain:
            words = plain.group().lower().split()
            if _FUSED.keys().isdisjoint(words):
                tokens += words
            else:
                tokens += [part for word in words for part in _FUSED.get(word, (word,))]
            at = plain.end()
        last = _PLAIN_END(shadow, at, end)
        if last:
            word, mark = last[1].lower(), last[2]
            if word not in _FUSED and (mark != "." or word not in _WITH_PERIOD):
                tokens += (word, mark)
                at = last.end()
                continue
        if at < end:
            at = _take(text, shadow, at, tokens, ahead)
    return tokens


def _take(text: str, shadow: str, at: int, tokens: list[str], ahead: _Lookahead | None) -> int:
    """Append the token that starts at a position, if one does, and return where to go on."""
    furthest = at
    for action, pattern, lookahead in _RULES_AT[shadow[at]]:
        if ahead and lookahead and not ahead.allows(lookahead, at):
            continue
        found = pattern.match(shadow, at)
        if found and found.end() > furthest:
            furthest, stop, best = found.end(), found.end(1), action
    if furthest == at:
        return at + 1
    token = text[at:stop].lower()
    token = _WRITE[best](token) if best in _WRITE else best
    if token:
        tokens.append(token)
    # The period of an abbreviation that ends a sentence is read twice: with the abbreviation and on its own.
    return stop - (best == "ends")


def plain_word(text: str) -> str | None:
    """The one token of a plain word, with or without a mark behind it that is always dropped; None for all else.

    >>> plain_word("Dogs,"), plain_word("cannot"), plain_word("no.")
    ('dogs', None, None)
    """
    if text.isalpha():
        body = text
    elif len(text) > 2 and text[-1] in _MARKS and text[:-1].isalpha():
        body = text[:-1]
    else:
        return None
    word = body.lower()
    if not word.isascii() or word in _FUSED or (text[-1] == "." and word in _WITH_PERIOD):
        return None
    return word


def tokenize(text: str, following: str = "") -> list[str]:
    """The tokens of a caption that coco-caption's metrics see: lower-cased, its punctuation list left out.

    >>> tokenize('A man (left) says: "hi!"')
    ['a', 'man', '-lrb-', 'left', '-rrb-', 'says', 'hi']
    """
    if (word := plain_word(text)) is not None:
        return [word]
    return [token for token in split(text, following) if token not in PUNCTUATION]


_REACHES_OUT = re.compile(
    r"\s|<|&.|.&"  # odd spaces, tags, entities
    r"|\d{3}|\d\\?[/⁄]"  # a telephone number or a fraction, which may go on behind a space
    r"|^\.+[^.]"  # the end of a spaced ellipsis
    r"|(?<![A-Za-z])(?:[A-Za-z]|(?i:" + "|".join(ptb_rules.BEFORE_NUMBER) + r"))\.\Z"  # C. The, no. 5
    r"|['’\x92`‘\x91‛][A-Za-z0-9]*\.\Z|[A-Z]\+[A-Z]|www\.|\.(?:com|edu|net|org)"  # the same behind a token: '90sC. The
).search
_ACRONYM = re.compile(r'["(]*(?:[A-Za-z]\.){2,}\Z').match


def is_local(chunk: str) -> bool:
    """Whether the tokens of a chunk between spaces never depend on the chunks around it. No when in doubt.

    The tokens are those of ``tokenize``; a chunk that contains a tab or another odd space is not local.

    >>> [is_local(chunk) for chunk in ("dog's", "end.", "p.m.", "1/2", "no.", "<b")]
    [True, True, True, False, False, False]
    """
    return chunk.isalpha() or not _REACHES_OUT(chunk) or bool(_ACRONYM(chunk))
