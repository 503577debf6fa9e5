"""Ranks that agree with the tests: two things share a rank if and only if they do not differ significantly.

If A differs from C, but B differs from neither, no partition into clusters shows it. Therefore B has two ranks:

    A   1        A and B share rank 1, B and C share rank 2, A and C share none
    B   1–2
    C   2

This is a compact letter display (Piepho 2004) with numbers in place of the letters a, ab and b.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import TypeVar

import numpy as np

Named = TypeVar("Named")
Ranks = tuple[int, ...]


def shared_ranks(order: Sequence[Named], different: Iterable[tuple[Named, Named]]) -> dict[Named, Ranks]:
    """Return the ranks of things in an order, the best first; ``different`` are the pairs that differ significantly.

    A rank is a group in which no two differ. Any two that do not differ share at least one rank. A pair that was not
    tested counts as not different.

    >>> shared_ranks("ABC", [("A", "C")])
    {'A': (1,), 'B': (1, 2), 'C': (2,)}
    """
    position = {name: index for index, name in enumerate(order)}
    apart = np.zeros((len(order), len(order)), dtype=np.bool_)
    for pair in different:
        first, second = (position[name] for name in pair)
        apart[first, second] = apart[second, first] = True
    groups: list[list[int]] = []
    # Each pair that shares no group yet starts one. Everything that differs from no member is added, the best first.
    for first, second in combinations_with_replacement(range(len(order)), 2):
        if not apart[first, second] and not any(first in group and second in group for group in groups):
            group = sorted({first, second})
            for candidate in range(len(order)):
                if candidate not in group and not apart[candidate, group].any():
                    group.append(candidate)
            groups.append(sorted(group))
    groups.sort()
    return {
        name: tuple(rank for rank, group in enumerate(groups, 1) if index in group) for index, name in enumerate(order)
    }


def rank_groups(ranks: Mapping[Named, Ranks]) -> list[tuple[Named, ...]]:
    """Return the things that share each rank, beginning with rank 1.

    >>> rank_groups({"A": (1,), "B": (1, 2), "C": (2,)})
    [('A', 'B'), ('B', 'C')]
    """
    last = max((own[-1] for own in ranks.values()), default=0)
    return [tuple(name for name, own in ranks.items() if rank in own) for rank in range(1, last + 1)]


def rank_breaks(ranks: Sequence[Ranks]) -> list[int]:
    """Return the indices of rows that share no rank with the row above, where a table is divided.

    >>> rank_breaks([(1,), (1, 2), (2,), (3,)])
    [3]
    """
    return [index for index in range(1, len(ranks)) if not {*ranks[index - 1]} & {*ranks[index]}]


def format_ranks(ranks: Ranks) -> str:
    """Return ranks as tables print them.

    >>> [format_ranks(ranks) for ranks in ((1,), (1, 2, 3), (1, 3, 4))]
    ['1', '1–3', '1, 3–4']
    """
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def rank_note(things: str, level: float, test: str = "", looks: bool = False) -> str:
    """Return the sentence below a table of ranks; ``test`` is what the p-values are of.

    Results that are looked at repeatedly have no p-values (``looks``): intervals of differences decide.

    >>> rank_note("systems", 0.95)
    'systems that share a rank do not differ significantly, those that share none do (Holm-adjusted p < 0.05)'
    """
    how = f"{test}, Holm-adjusted p < {1 - level:.4g}".removeprefix(", ")
    if looks:
        how = "the interval of their difference excludes 0"
    return f"{things} that share a rank do not differ significantly, those that share none do ({how})"


def rank_signature(level: float) -> str:
    """Return the rank rule as a part of a signature.

    >>> rank_signature(0.95)
    'ranks:shared,p<0.05'
    """
    return f"ranks:shared,p<{1 - level:.4g}"
