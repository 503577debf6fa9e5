"""Words that name an attribute outright and are masked before leakage is measured: three lists, or a user's own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from captious.errors import InputError, nearest

_MASCULINE = (
    "man men male father gentleman gentlemen boy boys uncle husband actor prince waiter son he his him himself "
    "brother brothers guy guys emperor emperors dude dudes cowboy"
)
_FEMININE = (
    "woman women female lady ladies mother girl girls aunt wife actress princess waitress daughter she her hers "
    "herself sister sisters queen queens pregnant"
)
_RACE = "white caucasian black african asian latino latina latinx hispanic native indigenous"
_AGE = (
    "child children young baby babies kid kids little boy boys girl girls old man men woman women lady ladies "
    "gentleman gentlemen person people guy guys teenager teenagers teen teens adult adults elderly elder"
)

LISTS: dict[str, tuple[str, ...]] = {
    "gender": tuple(f"{_MASCULINE} {_FEMININE}".split()),
    "race": tuple(_RACE.split()),
    "age": tuple(_AGE.split()),
}
"""The lists of Hirota et al. (gender, race) and RELIC, appendix B (age)."""

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Mask:
    """Words to hide and the word that stands for them, such as ``genderword``."""

    name: str
    words: frozenset[str] = frozenset()

    @property
    def token(self) -> str:
        """What the LSTM and the linear classifier see in place of a hidden word."""
        return f"{self.name}word"

    @classmethod
    def named(cls, text: str) -> Mask:
        """The mask of a list's name, of a file with one word a line, of several joined by commas, or ``none``.

        >>> mask = Mask.named("race")
        >>> mask.token, len(mask.words), len(Mask.named("gender").words), len(Mask.named("age,race").words)
        ('raceword', 11, 50, 44)
        """
        parts = [part.strip() for part in text.split(",") if part.strip() and part.strip() != "none"]
        words = frozenset(word for part in parts for word in _listed(part))
        return cls(parts[0] if len(parts) == 1 and parts[0] in LISTS else "mask" if parts else "none", words)

    @classmethod
    def of(cls, words: Iterable[str], name: str = "mask", where: str = "mask") -> Mask:
        """A mask of these words; each must be one word, for captions are masked word by word.

        >>> Mask.of(["old man"])
        Traceback (most recent call last):
        ...
        captious.errors.InputError: mask: 'old man' is not a word, expected letters and digits without spaces
        """
        return cls(name, frozenset(_checked(word, where) for word in words))


def _listed(part: str) -> Iterable[str]:
    if part in LISTS:
        return LISTS[part]
    path = Path(part)
    if not path.is_file():
        hint = nearest(part, LISTS)
        raise InputError(f"mask {part!r}: no such list or file, expected {', '.join(LISTS)}, none or a file{hint}")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({error})") from None
    rows = [(number, line.strip()) for number, line in enumerate(lines, 1)]
    words = [_checked(word, f"{path}: row {number}") for number, word in rows if word and not word.startswith("#")]
    if not words:
        raise InputError(f"{path}: holds no words, expected one word a line")
    return words


def _checked(word: str, where: str) -> str:
    if not _WORD.fullmatch(word):
        raise InputError(f"{where}: {word!r} is not a word, expected letters and digits without spaces")
    return word.lower()
