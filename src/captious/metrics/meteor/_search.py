"""The search for the best alignment of two captions: a beam over the words of the reference, from left to right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias

BEAM = 40
_CHUNK = 1 << 40
WORD = 1 << 60
"""What a matched word takes from the cost of a path: more than all its chunks, which cost more than all distances."""
_UNLIMITED = 1 << 100
_cost = itemgetter(0)

Fixed: TypeAlias = tuple[int, int, int]
"""The end in the reference, and start and end in the candidate, of a match that every alignment takes."""

Option: TypeAlias = tuple[int, int, int, int, int, int, int]
"""End in the reference, start and end in the candidate, the candidate's words as bits, what the match adds to the cost
of a path, its distance, and its number. (A plain tuple: tens are made for every pair of captions.)"""

Path: TypeAlias = tuple[int, int, int, int, "Trail | None"]
"""Cost, end of the last match in the candidate (-1 after a gap), next free reference word, candidate words in use, and
the matches taken."""

Trail: TypeAlias = "tuple[int, Trail | None]"

Choices: TypeAlias = Mapping[int, Sequence[Option]]
"""The options by the reference word where they begin, from left to right."""


def search(length: int, fixed: Mapping[int, Fixed], choices: Choices) -> Iterator[int]:
    """The numbers of the options on the best path, given the words of the reference and its fixed matches.

    A path that cannot match as many words as a greedy choice is dropped at once. All paths that are left then cost
    less, so the one that is dropped would never have pushed another out of the beam. Where the beam has lost all paths
    that are as good as the greedy one, the search begins again and drops none.
    """
    paths = _last_paths(length, fixed, choices, _limits(choices)) or _last_paths(length, fixed, choices, {})
    trail = min(paths, key=_cost)[4]
    while trail is not None:
        number, trail = trail
        yield number


def _limits(choices: Choices) -> dict[int, int]:
    """The cost below which a path can still match as many words as the greedy choice, after each reference word."""
    greedy = used = free = 0
    lowest = []
    for at, options in choices.items():
        lowest.append(min(option[4] for option in options))
        if at >= free:
            cost, end, bits = min([(one[4], one[0], one[3]) for one in options if not used & one[3]], default=(0, 0, 0))
            if cost:
                greedy, used, free = greedy + cost, used | bits, end
    limits, rest = {}, sum(lowest)
    for at, cost in zip(choices, lowest, strict=True):
        rest -= cost
        limits[at] = WORD + greedy - rest
    return limits


def _last_paths(length: int, fixed: Mapping[int, Fixed], choices: Choices, limits: Mapping[int, int]) -> list[Path]:
    """The paths that reach the end of the reference."""
    paths: list[Path] = [(0, -1, 0, 0, None)]
    # While all paths end alike, `last` stands for the end of their last match and their own is out of date.
    alike, last, after = True, -1, 0
    for current in range(length):
        if current < after:
            continue
        if current in fixed:
            after, other, other_end = fixed[current]
            if not alike:
                paths = [
                    (cost if end == -1 or end == other else cost + _CHUNK, 0, 0, used, trail)
                    for cost, end, _, used, trail in _best(paths)
                ]
            alike, last = True, other_end
        elif current in choices:
            limit = limits.get(current, _UNLIMITED)
            paths = _step(_best(paths), current, choices[current], last if alike else None, limit)
            alike = False
        else:
            if not alike:
                paths = [
                    path if path[1] == -1 or path[2] > current else (path[0] + _CHUNK, -1, 0, path[3], path[4])
                    for path in _best(paths)
                ]
                # A path in the middle of a phrase, or at its end, has an end of its own.
                alike = all(path[1] == -1 for path in paths)
            last = -1
    paths = _best(paths)
    if not alike:
        paths = [(cost if end == -1 else cost + _CHUNK, 0, 0, 0, trail) for cost, end, _, _, trail in paths]
    return paths


def _best(paths: list[Path]) -> list[Path]:
    paths.sort(key=_cost)
    del paths[BEAM:]
    return paths


def _step(paths: list[Path], current: int, options: Sequence[Option], common: int | None, limit: int) -> list[Path]:
    """All ways to go on at a reference word that cost less than the limit."""
    following: list[Path] = []
    add = following.append
    for path in paths:
        cost, last, free, used, trail = path
        if common is not None:
            last = common
        elif free > current:
            if cost < limit:
                add(path)
            continue
        for end, other, other_end, bits, worth, distance, number in options:
            if used & bits:
                continue
            new = cost + worth if last == -1 or last == other else cost + worth + _CHUNK
            if new < limit:
                add((new, other_end, end, used | bits, (number, trail)))
            cost += distance
        if cost < limit:
            add((cost if last == -1 else cost + _CHUNK, -1, 0, used, trail))
    return following
