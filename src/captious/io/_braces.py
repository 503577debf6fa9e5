"""Brace expansion as in shells: ``{000..499}``, ``{0..100..10}``, ``{train,val}``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from captious.errors import InputError

# Largest number of texts that one pattern may expand to.
MOST_MEMBERS = 1_000_000
MOST_BRACES = 50
_RANGE = re.compile(r"(\d+)\.\.(\d+)(?:\.\.(\d+))?")


def expand_braces(pattern: str) -> Iterator[str]:
    """Expand the braces of a pattern: ranges, padded like their bounds, and lists; braces may be nested.

    >>> list(expand_braces("{a,b}{08..10}.tar"))
    ['a08.tar', 'a09.tar', 'a10.tar', 'b08.tar', 'b09.tar', 'b10.tar']
    >>> list(expand_braces("{0..6..3}-{x,{1..2}}")), list(expand_braces("{a}"))
    (['0-x', '0-1', '0-2', '3-x', '3-1', '3-2', '6-x', '6-1', '6-2'], ['{a}'])
    """
    if pattern.count("{") > MOST_BRACES:
        raise InputError(f"{pattern[:60]}…: has more than {MOST_BRACES} braces, expected a simpler pattern")
    parts = _split_pattern(pattern)
    _refuse_many(pattern, prod(map(len, parts)))
    return map("".join, product(*parts))


def _refuse_many(pattern: str, members: int) -> None:
    if members > MOST_MEMBERS:
        raise InputError(f"{pattern}: expands to more than {MOST_MEMBERS:,} files; name fewer, or use *")


def _split_pattern(pattern: str) -> list[Sequence[str]]:
    """Split a pattern into literal texts and brace groups, each as a list of alternatives."""
    parts: list[Sequence[str]] = []
    position = 0
    for start, end in _find_groups(pattern):
        inside = pattern[start + 1 : end]
        if match := _RANGE.fullmatch(inside):
            members = _list_numbers(pattern, *match.groups())
        elif len(choices := _split_choices(inside)) > 1:
            members = []
            for choice in choices:
                members += expand_braces(choice)
                _refuse_many(pattern, len(members))
        else:  # a single word, such as {a}: the braces are part of the name
            members = [f"{{{text}}}" for text in expand_braces(inside)]
        parts += [[pattern[position:start]], members]
        position = end + 1
    return [*parts, [pattern[position:]]]


def _find_groups(pattern: str) -> Iterator[tuple[int, int]]:
    """Yield the first and last position of each outermost pair of braces."""
    depth, start = 0, 0
    for position, character in enumerate(pattern):
        if character == "{":
            start = position if not depth else start
            depth += 1
        elif character == "}" and depth:
            depth -= 1
            if not depth:
                yield start, position


def _split_choices(inside: str) -> list[str]:
    """Split at commas that are not inside braces."""
    choices, depth = [""], 0
    for character in inside:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and not depth:
            choices.append("")
        else:
            choices[-1] += character
    return choices


def _list_numbers(pattern: str, first: str, last: str, step: str | None) -> list[str]:
    """List the numbers of a range; leading zeros in a bound set the width of all."""
    stride = int(step or 1)
    if not stride or len(first) > 18 or len(last) > 18:
        raise InputError(f"{pattern}: is not a range of numbers, expected one such as {{000..499}} or {{0..100..10}}")
    padded = any(bound.startswith("0") and len(bound) > 1 for bound in (first, last))
    width = max(len(first), len(last)) if padded else 0
    low, high = int(first), int(last)
    numbers = range(low, high + 1, stride) if low <= high else range(low, high - 1, -stride)
    _refuse_many(pattern, len(numbers))
    return [f"{number:0{width}d}" for number in numbers]
