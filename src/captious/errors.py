"""The error that a user can fix: one line that says where, what was found, what was expected."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class InputError(ValueError):
    """Something the user gave cannot be used. The command line prints the message and exits with code 2."""


class UnknownKey(InputError, KeyError):
    """What was asked for by name or id is not there."""

    __str__ = Exception.__str__  # that of KeyError would put the message in quotation marks


class AmbiguousKey(UnknownKey):
    """A name that was asked for means several things; the message names them."""


class MissingExtra(InputError, ImportError):
    """An optional library is absent; the message names the extra that brings it."""


def nearest(name: str, choices: Iterable[str]) -> str:
    """A hint for a misspelt name, or an empty string.

    >>> nearest("cidr", ["bleu", "cider"])
    "; did you mean 'cider'?"
    """
    matches = get_close_matches(name, list(choices), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def choices_for(name: str, choices: Iterable[str], hint: str | None = None, most: int = 10) -> str:
    """The end of a message about an unknown name: the nearest choice, or the hint that is given; then some choices.

    >>> choices_for("cidr", ["bleu", "rouge", "cider"], most=2)
    "; did you mean 'cider'? There are bleu, rouge, and 1 more"
    """
    known = list(choices)
    hint = nearest(name, known) if hint is None else hint
    rest = f", and {len(known) - most} more" if len(known) > most else ""
    listed = f"here are {', '.join(known[:most])}{rest}" if known else "here are none"
    return f"{hint} T{listed}" if hint else f"; t{listed}"


def one_line(error: BaseException, most: int = 160) -> str:
    """The message of an error of some library, on one line and cut short."""
    return " ".join(str(error).split())[:most]


def require(module: str, extra: str) -> Any:
    """Import a module that an extra of captious provides."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(f"this needs {module}, which is not installed: pip install 'captious[{extra}]'") from error
