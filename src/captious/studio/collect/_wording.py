"""Texts of the rating pages in the language of a study: a table for each language, or the owner's own.

A table is a TOML file of names and texts in the folder ``pages/words``; English has every name, and a name in braces,
such as ``{number}``, is filled in by the page. An owner's table may be partial: missing names fall back to the table of
the language, then to English.
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

FOLDER = Path(__file__).parents[1] / "pages" / "words"
# Languages whose script runs from right to left.
RIGHT_TO_LEFT = frozenset(["ar", "arc", "ckb", "dv", "fa", "he", "ks", "nqo", "ps", "sd", "syr", "ug", "ur", "yi"])
_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")


def list_languages() -> list[str]:
    """Return the languages that have a table.

    >>> list_languages()
    ['ar', 'de', 'en', 'es', 'fr', 'ja', 'zh']
    """
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


@dataclass(frozen=True)
class Wording:
    """All texts of the pages of one study, by name."""

    language: str
    texts: Mapping[str, str]
    borrowed: tuple[str, ...] = ()
    """Names whose text is English, because neither the owner's table nor that of the language has them."""

    @classmethod
    def of(cls, language: str, own: Mapping[str, str]) -> Wording:
        """Make the texts of a language, overridden by the owner's own."""
        english = _read_table("en")
        shipped = _read_table(get_base_language(language)) if get_base_language(language) in list_languages() else {}
        texts = {**english, **shipped, **own}
        return cls(language, texts, tuple(name for name in english if name not in shipped and name not in own))

    @property
    def direction(self) -> str:
        """``rtl`` for a script that runs from right to left, else ``ltr``.

        >>> Wording.of("ar-EG", {}).direction, Wording.of("de", {}).direction
        ('rtl', 'ltr')
        """
        return "rtl" if get_base_language(self.language) in RIGHT_TO_LEFT else "ltr"

    def __call__(self, name: str, /, **values: Any) -> str:
        """Return a text with its values filled in.

        >>> Wording.of("de", {})("task_of", number=3, total=40)
        'Aufgabe 3 von 40'
        """
        return self.texts[name].format(**values)

    def format_number(self, count: int) -> str:
        """Format an integer: with commas in English, without separators elsewhere, where they may mean a decimal.

        >>> Wording.of("en", {}).format_number(2000), Wording.of("de", {}).format_number(2000)
        ('2,000', '2000')
        """
        return f"{count:,}" if get_base_language(self.language) == "en" else str(count)

    def translate_english(self, sentence: str) -> str:
        """Translate an English sentence of the server; return it unchanged if no table has it.

        >>> Wording.of("de", {}).translate_english("Agree to take part first.")
        'Stimmen Sie zuerst der Teilnahme zu.'
        """
        return self.texts.get(_index_english().get(sentence, ""), sentence)


@cache
def _index_english() -> dict[str, str]:
    return {text: name for name, text in _read_table("en").items()}


def get_base_language(language: str) -> str:
    """Return the language of a tag without its region.

    >>> get_base_language("zh-Hant-TW")
    'zh'
    """
    return language.partition("-")[0].lower()


@cache
def _read_table(language: str) -> dict[str, str]:
    path = FOLDER / f"{language}.toml"
    return check_words(parse_toml(path.read_text(encoding="utf-8"), str(path), "table of words"), str(path))


def read_words(path: Path) -> dict[str, str]:
    """Read the owner's table of texts from a TOML or JSON file."""
    text = read_text(path, "table of words")
    if path.suffix.lower() != ".json":
        return check_words(parse_toml(text, str(path), "table of words"), str(path))
    try:
        table = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path}: not a table of words in JSON ({str(error)[:80]})") from None
    if not isinstance(table, dict):
        raise InputError(f"{path}: {format_value(table)}, expected an object of names and texts")
    return check_words(table, str(path))


def check_words(table: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return the table; raise `InputError` for an unknown name, or placeholders that differ from the English text."""
    english = parse_toml((FOLDER / "en.toml").read_text(encoding="utf-8"), "en.toml", "table of words")
    for name, text in table.items():
        if name not in english:
            raise InputError(f"{where}: unknown name {name[:60]!r} of a text{format_suggestion(name, english)}")
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{where}: {name} = {format_value(text)}, expected a text, such as {english[name]!r}")
        if find_placeholders(text) != find_placeholders(english[name]):
            names = ", ".join(f"{{{one}}}" for one in sorted(find_placeholders(english[name]))) or "no names in braces"
            raise InputError(f"{where}: {name} = {format_value(text)}, expected {names} in it, as in {english[name]!r}")
    return dict(table)


def find_placeholders(text: str) -> frozenset[str]:
    """Return the names in braces of a text; ``{`` if the braces are malformed, which matches no text.

    >>> sorted(find_placeholders("Task {number} of {total}"))
    ['number', 'total']
    """
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        return frozenset({"{"})
    plain = all(not spec and not conversion for _, name, spec, conversion in parts if name is not None)
    return frozenset(name for _, name, _, _ in parts if name is not None) if plain else frozenset({"{"})


def check_language(language: str, own: object, where: str) -> None:
    """Raise `InputError` for a language without a table, unless the owner has one."""
    if not _TAG.fullmatch(language):
        raise InputError(f'{where}: language = {format_value(language)}, expected a tag such as "de" or "pt-BR"')
    if get_base_language(language) not in list_languages() and not own:
        known = ", ".join(list_languages())
        raise InputError(
            f"{where}: language = {language!r}, expected one of {known}; or words, a table of your own for another"
        )


def list_number_words(language: str) -> list[str]:
    """Return the words for one, two, three and so on.

    >>> list_number_words("de")[1:3]
    ['zwei', 'drei']
    """
    return Wording.of(language, {}).texts["number_words"].split()
