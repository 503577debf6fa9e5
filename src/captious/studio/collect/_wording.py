"""The words of the rating pages in the language of a study: a table for each language, or the owner's own.

A table is a TOML file of names and texts in the folder ``words``; English has every name, and a name in braces, such as
``{number}``, is filled in by the page. An owner's table may have all of the names or some: what it leaves out is in the
language of the study where captious has a table for it, else in English.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from captious._core.records import format_value, parse_toml, read_text
from captious.errors import InputError, format_suggestion

FOLDER = Path(__file__).with_name("words")
RIGHT_TO_LEFT = frozenset(["ar", "arc", "ckb", "dv", "fa", "he", "ks", "nqo", "ps", "sd", "syr", "ug", "ur", "yi"])
"""Languages whose script runs from right to left."""
_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")


def languages() -> list[str]:
    """The languages that have a table.

    >>> languages()
    ['ar', 'de', 'en', 'es', 'fr', 'ja', 'zh']
    """
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


@dataclass(frozen=True)
class Wording:
    """The words of the pages of one study, all names of them."""

    language: str
    texts: Mapping[str, str]
    borrowed: tuple[str, ...] = ()
    """Names whose text is English, because neither the owner's table nor that of the language has them."""

    @classmethod
    def of(cls, language: str, own: Mapping[str, str]) -> Wording:
        """The words of a language, with the owner's own in their place."""
        english = _table("en")
        shipped = _table(base_language(language)) if base_language(language) in languages() else {}
        texts = {**english, **shipped, **own}
        return cls(language, texts, tuple(name for name in english if name not in shipped and name not in own))

    @property
    def direction(self) -> str:
        """``rtl`` for a script that runs from right to left, else ``ltr``.

        >>> Wording.of("ar-EG", {}).direction, Wording.of("de", {}).direction
        ('rtl', 'ltr')
        """
        return "rtl" if base_language(self.language) in RIGHT_TO_LEFT else "ltr"

    def __call__(self, name: str, /, **values: Any) -> str:
        """A text with its values filled in.

        >>> Wording.of("de", {})("task_of", number=3, total=40)
        'Aufgabe 3 von 40'
        """
        return self.texts[name].format(**values)

    def number(self, count: int) -> str:
        """A whole number as people write it: with commas in English, without a mark that means a decimal elsewhere.

        >>> Wording.of("en", {}).number(2000), Wording.of("de", {}).number(2000)
        ('2,000', '2000')
        """
        return f"{count:,}" if base_language(self.language) == "en" else str(count)

    def of_english(self, sentence: str) -> str:
        """The text that stands for an English sentence of the server; the sentence itself where no table has it.

        >>> Wording.of("de", {}).of_english("Agree to take part first.")
        'Stimmen Sie zuerst der Teilnahme zu.'
        """
        return self.texts.get(_names_of_english().get(sentence, ""), sentence)


@cache
def _names_of_english() -> dict[str, str]:
    return {text: name for name, text in _table("en").items()}


def base_language(language: str) -> str:
    """The language of a tag without its region.

    >>> base_language("zh-Hant-TW")
    'zh'
    """
    return language.partition("-")[0].lower()


@cache
def _table(language: str) -> dict[str, str]:
    path = FOLDER / f"{language}.toml"
    return checked_words(parse_toml(path.read_text(encoding="utf-8"), str(path), "table of words"), str(path))


def read_words(path: Path) -> dict[str, str]:
    """The owner's words in a file of TOML or JSON."""
    text = read_text(path, "table of words")
    if path.suffix.lower() != ".json":
        return checked_words(parse_toml(text, str(path), "table of words"), str(path))
    try:
        table = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path}: not a table of words in JSON ({str(error)[:80]})") from None
    if not isinstance(table, dict):
        raise InputError(f"{path}: {format_value(table)}, expected an object of names and texts")
    return checked_words(table, str(path))


def checked_words(table: Mapping[str, Any], where: str) -> dict[str, str]:
    """A table whose names are known, and whose texts have the names in braces that the English ones have."""
    english = parse_toml((FOLDER / "en.toml").read_text(encoding="utf-8"), "en.toml", "table of words")
    for name, text in table.items():
        if name not in english:
            raise InputError(f"{where}: unknown name {name[:60]!r} of a text{format_suggestion(name, english)}")
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{where}: {name} = {format_value(text)}, expected a text, such as {english[name]!r}")
        if placeholders(text) != placeholders(english[name]):
            names = ", ".join(f"{{{one}}}" for one in sorted(placeholders(english[name]))) or "no names in braces"
            raise InputError(f"{where}: {name} = {format_value(text)}, expected {names} in it, as in {english[name]!r}")
    return dict(table)


def placeholders(text: str) -> frozenset[str]:
    """The names in braces of a text; a brace that opens none makes a name that no text has.

    >>> sorted(placeholders("Task {number} of {total}"))
    ['number', 'total']
    """
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        return frozenset({"{"})
    plain = all(not spec and not conversion for _, name, spec, conversion in parts if name is not None)
    return frozenset(name for _, name, _, _ in parts if name is not None) if plain else frozenset({"{"})


def check_language(language: str, own: object, where: str) -> None:
    """Refuse a language that no table has and for which the owner has no words."""
    if not _TAG.fullmatch(language):
        raise InputError(f'{where}: language = {format_value(language)}, expected a tag such as "de" or "pt-BR"')
    if base_language(language) not in languages() and not own:
        known = ", ".join(languages())
        raise InputError(
            f"{where}: language = {language!r}, expected one of {known}; or words, a table of your own for another"
        )


def number_words(language: str) -> list[str]:
    """The words for one, two, three and so on.

    >>> number_words("de")[1:3]
    ['zwei', 'drei']
    """
    return Wording.of(language, {}).texts["number_words"].split()
