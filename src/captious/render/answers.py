"""Wording that plain answers share: lists of names, counted nouns and p-values."""

from __future__ import annotations

from collections.abc import Sequence

from captious.render._cells import format_p_value

# Largest number of names in a list; the others are counted.
NAMES = 4


def join_names(names: Sequence[str], most: int = NAMES) -> str:
    """Join names with commas and a last *and*; of many, the first ones and how many more there are.

    >>> join_names(["BLEU-4"]), join_names(["a", "b", "c"]), join_names(list("abcdef"), most=2)
    ('BLEU-4', 'a, b and c', 'a, b and 4 more')
    """
    listed = list(names)
    if len(listed) > most + 1:
        listed = [*listed[:most], f"{len(listed) - most:,} more"]
    return " and ".join(filter(None, (", ".join(listed[:-1]), *listed[-1:])))


def count_noun(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    >>> count_noun(1, "item"), count_noun(5000, "item"), count_noun(2, "entity", "entities")
    ('1 item', '5,000 items', '2 entities')
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def format_p(p: float) -> str:
    """Return a p-value with its sign, as tables print it.

    >>> format_p(0.0312), format_p(0.00009)
    ('= 0.031', '< 0.001')
    """
    text = format_p_value(p)
    return text if text.startswith("<") else f"= {text}"
