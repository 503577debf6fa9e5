"""The stemmers of METEOR 1.5. The English one is Porter2 as Snowball published it before its 3.0 revision.

The package `snowballstemmer`, which has those of other languages, is not used for English: its rules moved on (3.x
stems `added` to `add` and keeps `evening`), and 11 words of COCO and Flickr8k captions then stem otherwise than in
METEOR. The rules here follow the description of the algorithm at
https://snowballstem.org/algorithms/english/stemmer.html as it stood in 2006-2018.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache

from captious._core.languages import find_language
from captious.errors import require

_IRREGULAR = {
    "skis": "ski", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie",
    "idly": "idl", "gently": "gentl", "ugly": "ugli", "early": "earli", "only": "onli", "singly": "singl",
    "sky": "sky", "news": "news", "howe": "howe", "atlas": "atlas", "cosmos": "cosmos", "bias": "bias",
    "andes": "andes",
}  # fmt: skip
_DONE_AFTER_PLURAL = {"inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"}

# `Y` marks a y that acts as a consonant: at the start of the word or after a vowel.
_CONSONANT_Y = re.compile(r"^y|(?<=[aeiouy])y")
_REGION = re.compile(r"[aeiouy][^aeiouy]")
_VOWEL = re.compile(r"[aeiouy]")
_SHORT_END = re.compile(r"(?:[^aeiouy][aeiouy][^aeiouywxY]|^[aeiouy][^aeiouy])$")
_FINAL_S = re.compile(r"[aeiouy].+s$")
_DOUBLED = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")

# Ending, replacement, and the letters one of which must precede it, tried longest first; all require region R1.
_STEP2 = (
    ("ization", "ize", ""), ("ational", "ate", ""), ("fulness", "ful", ""), ("ousness", "ous", ""),
    ("iveness", "ive", ""), ("tional", "tion", ""), ("biliti", "ble", ""), ("lessli", "less", ""),
    ("entli", "ent", ""), ("ation", "ate", ""), ("alism", "al", ""), ("aliti", "al", ""), ("ousli", "ous", ""),
    ("iviti", "ive", ""), ("fulli", "ful", ""), ("enci", "ence", ""), ("anci", "ance", ""), ("abli", "able", ""),
    ("izer", "ize", ""), ("ator", "ate", ""), ("alli", "al", ""), ("bli", "ble", ""), ("ogi", "og", "l"),
    ("li", "", "cdeghkmnrt"),
)  # fmt: skip
_STEP3 = (
    ("ational", "ate"), ("tional", "tion"), ("alize", "al"), ("icate", "ic"), ("iciti", "ic"), ("ative", ""),
    ("ical", "ic"), ("ness", ""), ("ful", ""),
)  # fmt: skip
_STEP4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "ion",
    "al", "er", "ic",
)  # fmt: skip
_ENDINGS2 = tuple(rule[0] for rule in _STEP2)
_ENDINGS3 = tuple(rule[0] for rule in _STEP3)


def stem(word: str) -> str:
    """Return the Porter2 stem of a lower-case word.

    >>> stem("riding"), stem("evening"), stem("skies"), stem("added")
    ('ride', 'even', 'sky', 'ad')
    """
    if len(word) <= 2:
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    word = word.removeprefix("'")
    if "y" in word:
        word = _CONSONANT_Y.sub("Y", word)
    r1, r2 = _find_regions(word)
    word = _strip_plural(word)
    if word in _DONE_AFTER_PLURAL:
        return word
    word = _strip_past(word, r1)
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in "aeiouy":
        word = word[:-1] + "i"
    word = _strip_derivations(word, r1, r2)
    return _strip_final_letter(word, r1, r2).replace("Y", "y")


def _find_regions(word: str) -> tuple[int, int]:
    """Return where R1 and R2 begin: after the first non-vowel that follows a vowel, and after the next one."""
    if word.startswith(("gener", "arsen")):
        r1 = 5
    elif word.startswith("commun"):
        r1 = 6
    else:
        match = _REGION.search(word)
        r1 = match.end() if match else len(word)
    match = _REGION.search(word, r1)
    return r1, match.end() if match else len(word)


def _strip_plural(word: str) -> str:
    """Apply steps 0 and 1a: possessives and plurals."""
    for ending in ("'s'", "'s", "'"):
        if word.endswith(ending):
            word = word[: -len(ending)]
            break
    if not word.endswith(("s", "ied")):
        return word
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith(("us", "ss")):
        return word
    return word[:-1] if _FINAL_S.search(word) else word


def _strip_past(word: str, r1: int) -> str:
    """Apply step 1b: -eed, -ed, -ing and their adverbs."""
    for ending in ("eedly", "ingly", "edly", "eed", "ing", "ed"):
        if word.endswith(ending):
            break
    else:
        return word
    root = word[: -len(ending)]
    if ending.startswith("eed"):
        return root + "ee" if len(root) >= r1 else word
    if not _VOWEL.search(root):
        return word
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if root.endswith(_DOUBLED):
        return root[:-1]
    if r1 >= len(root) and _SHORT_END.search(root):
        return root + "e"
    return root


def _strip_derivations(word: str, r1: int, r2: int) -> str:
    """Apply steps 2, 3 and 4: derivational endings, in region R1 and then R2."""
    if word.endswith(_ENDINGS2):
        ending, shorter, before = next(rule for rule in _STEP2 if word.endswith(rule[0]))
        root = word[: -len(ending)]
        if len(root) >= r1 and (not before or (root and root[-1] in before)):
            word = root + shorter
    if word.endswith(_ENDINGS3):
        ending, shorter = next(rule for rule in _STEP3 if word.endswith(rule[0]))
        root = word[: -len(ending)]
        if len(root) >= (r2 if ending == "ative" else r1):
            word = root + shorter
    if word.endswith(_STEP4):
        ending = next(ending for ending in _STEP4 if word.endswith(ending))
        root = word[: -len(ending)]
        if len(root) >= r2 and (ending != "ion" or root.endswith(("s", "t"))):
            word = root
    return word


def _strip_final_letter(word: str, r1: int, r2: int) -> str:
    """Apply step 5: a final e or l."""
    if word.endswith("e"):
        at = len(word) - 1
        if at >= r2 or (at >= r1 and not _SHORT_END.search(word[:-1])):
            return word[:-1]
    elif word.endswith("ll") and len(word) > r2:
        return word[:-1]
    return word


# The package with the stemmers of other languages.
STEMMERS = "snowballstemmer"


@cache
def load_snowball(language: str) -> Callable[[str], str]:
    """Load the stemmer of another language from the package snowballstemmer, with a cache of its words."""
    stemmer = require(STEMMERS, "meteor").stemmer(find_language(language).name.lower())
    return lru_cache(maxsize=1 << 18)(stemmer.stemWord)
