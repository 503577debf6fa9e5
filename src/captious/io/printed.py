"""Lists of texts inside one cell, in JSON or Python syntax; nothing is executed."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from captious.errors import InputError

_STRING = r"""u?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_STRINGS = rf"\s*{_STRING}(?:\s*,\s*{_STRING})*\s*,?\s*"
_PRINTED_LIST = re.compile(rf"\s*(?:\[{_STRINGS}\]|\(\s*{_STRING}\s*,(?:{_STRINGS})?\))\s*", re.DOTALL)
_LOOKS_PRINTED = re.compile(
    r"""\s*(?:array\()?(?:\[\s*(?:array\()?[\[(]*[bfru]?["'].*["'].*[\])]|\([bfru]?["'].*["'],.*\))\s*""", re.DOTALL
)


def parse_printed_list(text: str) -> list[str] | None:
    r"""Parse a list or tuple of strings printed by Python; return None for any other text.

    ``['a dog' 'a cat']``, as NumPy prints an array, gives None, because Python would concatenate the texts.

    >>> parse_printed_list("['a dog', \"a dog's ball\"]"), parse_printed_list("['a dog' 'a cat']")
    (['a dog', "a dog's ball"], None)
    >>> parse_printed_list("[sic] a dog") is None
    True
    """
    if text.lstrip()[:1] not in ("[", "(") or not _PRINTED_LIST.fullmatch(text):
        return None
    try:
        return list(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError):  # an escape that is none, or a line break inside quotation marks
        return None


def parse_text_list(value: Any, where: str, what: str) -> list[str] | None:
    """Return the texts of a field with a list, or with a list in JSON or Python syntax; None if the field is empty.

    >>> [parse_text_list(value, "row 3", "objects") for value in ('["dog", "cat"]', [], "")]
    [['dog', 'cat'], [], None]
    """
    texts = value.tolist() if hasattr(value, "tolist") else value
    if texts is None or texts == "" or texts != texts:  # an empty cell of a table is NaN
        return None
    if isinstance(texts, str):
        try:
            texts = json.loads(texts)
        except (ValueError, RecursionError):
            texts = parse_printed_list(texts)
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) and text.strip() for text in texts):
        shown = " ".join(str(value).split())
        raise InputError(f"{where}: {what} are {shown[:60]!r}, expected a list of texts")
    return list(texts)


def looks_printed(text: str) -> bool:
    """Return True if a text looks like a printed list or array.

    >>> [looks_printed(text) for text in ("['a dog' 'a cat']", "['a dog', nan]", "[a dog's ball]", "a ['dog']")]
    [True, True, False, False]
    """
    return text.lstrip().startswith(("[", "(", "array(")) and _LOOKS_PRINTED.fullmatch(text) is not None
