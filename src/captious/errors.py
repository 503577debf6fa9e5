"""Errors that a user can fix, with one-line messages: where, what was found, what was expected."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class InputError(ValueError):
    """An unusable input of the user. The command line prints the message and exits with code 2."""


class UnknownKey(InputError, KeyError):
    """A name or id that does not exist."""

    __str__ = Exception.__str__  # that of KeyError would put the message in quotation marks


class AmbiguousKey(UnknownKey):
    """A name that matches several objects; the message lists them."""


class MissingExtra(InputError, ImportError):
    """A missing optional library; the message names the extra that installs it."""


def format_suggestion(name: str, choices: Iterable[str]) -> str:
    """Return a hint with the most similar choice for a misspelt name, or an empty string.

    >>> format_suggestion("cidr", ["bleu", "cider"])
    "; did you mean 'cider'?"
    """
    matches = get_close_matches(name, list(choices), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def format_choices(name: str, choices: Iterable[str], hint: str | None = None, most: int = 10) -> str:
    """Format the end of a message about an unknown name: the nearest choice or the given hint, then some choices.

    >>> format_choices("cidr", ["bleu", "rouge", "cider"], most=2)
    "; did you mean 'cider'? There are bleu, rouge, and 1 more"
    """
    known = list(choices)
    hint = format_suggestion(name, known) if hint is None else hint
    rest = f", and {len(known) - most} more" if len(known) > most else ""
    listed = f"here are {', '.join(known[:most])}{rest}" if known else "here are none"
    return f"{hint} T{listed}" if hint else f"; t{listed}"


def format_one_line(error: BaseException, most: int = 160) -> str:
    """Return the message of an error on one line, shortened to ``most`` characters."""
    return " ".join(str(error).split())[:most]


def require(module: str, extra: str) -> Any:
    """Import a module that an extra of captious provides."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(f"this needs {module}, which is not installed: pip install 'captious[{extra}]'") from error
