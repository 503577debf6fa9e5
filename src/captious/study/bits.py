"""The rows of a Kendall problem in the order of one bit of the human rank, found once for all draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Bit(NamedTuple):
    """One bit of the human rank: rows without it and with it, and for the latter places in the former's running sum."""

    without: Ints
    having: Ints
    below: Ints
    """How many rows without the bit lie below the row's x, over all blocks so far."""
    upto: Ints
    """The same, counting those of equal x."""
    blocks: Ints
    """First row of each block of equal higher bits among those having the bit."""
    first: Ints
    last: Ints
    """Where each block begins and ends in the running sum."""


def bit_order(x: Ints, level: Ints, bit: int) -> Bit | None:
    """The order of one bit; None where no two rows differ in it."""
    order = np.lexsort((x, level >> (bit + 1)))
    block, has = level[order] >> (bit + 1), (level[order] >> bit) & 1 == 1
    places = np.append(0, np.cumsum(~has))
    new_block = np.diff(block, prepend=-1) != 0
    first, last = _edges(new_block)
    group_first, group_last = _edges(new_block | (np.diff(x[order], prepend=-1) != 0))
    mine = block[has]
    if not len(mine) or has.all():
        return None
    starts = np.flatnonzero(np.diff(mine, prepend=-1))
    here = np.flatnonzero(has)[starts]
    return Bit(
        order[~has],
        order[has],
        places[group_first[has]],
        places[group_last[has]],
        starts,
        places[first[here]],
        places[last[here]],
    )


def _edges(new: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """For every row the first row of its run, and the one after its last."""
    starts = np.flatnonzero(new)
    run = np.cumsum(new) - 1
    return starts[run], np.append(starts[1:], len(new))[run]
