"""Packing of captions with a common prefix, so that each shared token is encoded once.

The texts of one sample are nearly the same text::

    full      START a cat lies under a blanket with fringed edges . END
    positive  START a cat lies under a blanket END
    base      START a cat lies END
    negative  START a cat lies beside red a car END

In a causal text tower a token depends only on those before it, so the states of "a cat lies" are the same in all four.
The texts are packed as one tree: the full caption is the trunk; the others are branches that fork where their tokens
begin to differ, often with only an END of their own. A branch's tokens keep the positions of their own text, and attend
to the trunk up to the fork and to their own branch up to themselves. Trees of several samples share a row, so there is
little padding. In the last layer only the END tokens are computed, because only they are used.

This is exact, not an approximation: features and gradients equal those of separate encoding up to rounding. A text that
shares less than half of its tokens with the trunk starts a tree of its own, so the result is right for any tokenizer,
and only the speed-up varies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from captious._core.types import Ints
from captious.errors import require

torch = require("torch", "clip")
sdpa_kernel, _Kernel = torch.nn.attention.sdpa_kernel, torch.nn.attention.SDPBackend

# Attention kernels that accept any mask; cuDNN would compile a plan for every batch shape.
KERNELS = [_Kernel.EFFICIENT_ATTENTION, _Kernel.MATH]
Tensor = Any
# Row lengths are multiples of this, as the kernels require.
STEP = 8


class Branch(NamedTuple):
    """A text of a tree: its number in the sample, its tokens, and how many of them it shares with the trunk."""

    number: int
    tokens: Ints
    fork: int

    @property
    def size(self) -> int:
        """The number of its own tokens."""
        return len(self.tokens) - self.fork


# The trunk is first, with a fork of 0.
Tree = list[Branch]


@dataclass(frozen=True)
class Packed:
    """Trees in rows of equal length. A token attends to those of ``trunk`` before ``reach``, and to its ``branch`` so
    far.
    """

    ids: Tensor
    positions: Tensor
    branch: Tensor
    trunk: Tensor
    reach: Tensor
    ends: Tensor
    """The columns of the END tokens in each row, padded with 0."""
    order: Tensor
    """The index of each text in the flattened ``ends``."""

    def to(self, device: Any) -> Packed:
        """Move the arrays to a device."""
        moved = {name: value.to(device, non_blocking=True) for name, value in vars(self).items()}
        return Packed(**moved)

    def pin(self) -> Packed:
        """Copy the arrays to pinned memory, for asynchronous transfer to a GPU."""
        return Packed(**{name: value.pin_memory() for name, value in vars(self).items()})

    def visible(self) -> Tensor:
        """Return the attention mask: batch × length × length, True if a token (row) attends to another (column)."""
        column = torch.arange(self.ids.shape[1], device=self.ids.device)
        own = (self.branch[:, :, None] == self.branch[:, None, :]) & (column[:, None] >= column[None, :])
        trunk = (self.trunk[:, :, None] == self.branch[:, None, :]) & (self.reach[:, :, None] > column)
        return own | trunk


def build_trees(texts: Sequence[Ints]) -> list[Tree]:
    """Build as few trees as possible from the texts of one sample, the longest first.

    >>> (tree,) = build_trees([np.array([8, 1, 2, 3, 9]), np.array([8, 1, 2, 9]), np.array([8, 1, 4, 9])])
    >>> [branch.tokens[branch.fork :].tolist() for branch in tree]
    [[8, 1, 2, 3, 9], [9], [4, 9]]
    """
    trees: list[Tree] = []
    for number, text in enumerate(texts):
        shared = [_count_common(tree[0].tokens, text) for tree in trees]
        best = shared.index(max(shared)) if shared else 0
        if not shared or 2 * shared[best] < len(text):
            trees.append([Branch(number, text, 0)])
        else:
            trees[best].append(Branch(number, text, shared[best]))
    return trees


def _count_common(one: Ints, other: Ints) -> int:
    """Return the length of the common prefix of two texts."""
    size = min(len(one), len(other))
    differs = one[:size] != other[:size]
    first = int(differs.argmax())
    return first if differs[first] else size


def pack(groups: Sequence[Sequence[Ints]], room: int, pad: int = 0) -> Packed:
    """Pack all texts of a batch, of at least one token each; ``room`` is the row length unless a tree is longer."""
    firsts = np.cumsum([0, *map(len, groups)]).tolist()
    forest = [(tree, first) for texts, first in zip(groups, firsts, strict=False) for tree in build_trees(texts)]
    sizes = [sum(branch.size for branch in tree) for tree, _ in forest]
    rows = _assign_rows(sizes, max(room, *sizes))
    placed: list[PlacedBranch] = []
    own: list[Ints] = []
    ends: list[list[int]] = [[] for _ in rows]
    order = [(0, 0)] * firsts[-1]
    for row, members in enumerate(rows):
        column = count = 0
        for index in members:
            tree, first = forest[index]
            start, trunk = column, count
            for branch in tree:
                placed.append(PlacedBranch(row, start, column, branch.fork, branch.size, count, trunk))
                own.append(branch.tokens[branch.fork :])
                column, count = column + branch.size, count + 1
                # A text that is a prefix of the trunk including END has no own tokens; its END is in the trunk.
                end = column - 1 if branch.size else start + len(branch.tokens) - 1
                order[first + branch.number] = (row, len(ends[row]))
                ends[row].append(end)
    return _to_arrays(placed, np.concatenate(own), ends, order, pad)


class PlacedBranch(NamedTuple):
    """The location of a branch in the rows of a batch."""

    row: int
    start: int
    """The column where its tree starts."""
    column: int
    """The column where its own tokens start."""
    fork: int
    """The number of tokens that it takes from the trunk."""
    size: int
    """The number of its own tokens."""
    number: int
    """The branch's number among those of the row."""
    trunk: int
    """The number of its trunk among the branches of the row."""


def _to_arrays(
    placed: Sequence[PlacedBranch], tokens: Ints, ends: list[list[int]], order: list[tuple[int, int]], pad: int
) -> Packed:
    """Build the arrays of all branches at once; ``tokens`` are their own tokens, concatenated."""
    size = np.array([branch.size for branch in placed])
    within = np.arange(len(tokens)) - np.repeat(np.cumsum(size) - size, size)
    row, start, column, fork, _, number, trunk = (np.repeat(part, size) for part in np.array(placed).T)
    length = -(-int((column + within).max() + 1) // STEP) * STEP
    # One row with the texts "S a b c E", "S a b E" and "S a d E" (S: START, E: END, -: padding):
    #   token     S a b c E | E | d E | - …
    #   position  0 1 2 3 4   3   2 3   0
    #   branch    0 0 0 0 0   1   2 2   < 0
    #   trunk     0 0 0 0 0   0   0 0   < 0
    #   reach     1 2 3 4 5   3   2 2   0    (attends to columns of the trunk before this)
    table = np.zeros((5, len(ends), length), dtype=np.int64)
    table[0] = pad
    # Each padding token is a branch of its own: it attends only to itself, and no other token attends to it.
    table[2] = table[3] = -1 - np.arange(length)
    reach = start + np.where(number == trunk, within + 1, fork)
    table[:, row, column + within] = (tokens, fork + within, number, trunk, reach)
    widest = max(map(len, ends))
    end_columns = np.zeros((len(ends), widest), dtype=np.int64)
    for line, own in zip(end_columns, ends, strict=True):
        line[: len(own)] = own
    flat = np.array([row * widest + column for row, column in order], dtype=np.int64)
    return Packed(*(torch.from_numpy(part) for part in (*table, end_columns, flat)))


def _assign_rows(sizes: Sequence[int], room: int) -> list[list[int]]:
    """Assign trees to rows by best fit: each, the largest first, to the fullest row with enough space."""
    rows: list[list[int]] = []
    left: list[int] = []
    for tree in sorted(range(len(sizes)), key=lambda tree: -sizes[tree]):
        fits = [(space, number) for number, space in enumerate(left) if space >= sizes[tree]]
        if fits:
            _, number = min(fits)
        else:
            number = len(rows)
            rows.append([])
            left.append(room)
        rows[number].append(tree)
        left[number] -= sizes[tree]
    return rows


def encode_packed(model: Any, packed: Packed) -> Tensor:
    """Compute the features of all texts, in the order of the groups, with the layers of a CLIP model."""
    tower = getattr(model.text_model, "text_model", model.text_model)
    hidden = tower.embeddings.token_embedding(packed.ids) + tower.embeddings.position_embedding(packed.positions)
    visible = packed.visible().unsqueeze(1)
    *most, last = tower.encoder.layers
    bias = _make_bias(visible, hidden)
    with sdpa_kernel(KERNELS):
        for layer in most:
            hidden = _apply_layer(layer, hidden, None, bias)
        if packed.ends.shape[1] * 2 < hidden.shape[1]:
            picked = packed.ends[:, None, :, None].expand(-1, 1, -1, visible.shape[-1])
            hidden = _apply_layer(last, hidden, packed.ends, bias.gather(2, picked).contiguous())
        else:
            hidden = _apply_layer(last, hidden, None, bias)
            hidden = hidden.gather(1, packed.ends[:, :, None].expand(-1, -1, hidden.shape[-1]))
    ends = hidden.flatten(0, 1)[packed.order]
    return model.text_projection(tower.final_layer_norm(ends))


def _make_bias(visible: Tensor, hidden: Tensor) -> Tensor:
    """Convert the mask to an additive bias in the precision of the attention."""
    kind = hidden.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
    return torch.zeros(visible.shape, dtype=dtype, device=hidden.device).masked_fill_(~visible, float("-inf"))


def _apply_layer(layer: Any, hidden: Tensor, ends: Tensor | None, bias: Tensor) -> Tensor:
    """Apply one layer, with queries only at the columns ``ends``, or everywhere."""
    attention, normal = layer.self_attn, layer.layer_norm1(hidden)
    queries = normal
    if ends is not None:
        picked = ends[:, :, None].expand(-1, -1, hidden.shape[-1])
        hidden, queries = hidden.gather(1, picked), normal.gather(1, picked)
    heads = attention.num_heads

    def split(states: Tensor) -> Tensor:
        return states.unflatten(-1, (heads, -1)).transpose(1, 2)

    mixed = torch.nn.functional.scaled_dot_product_attention(
        split(attention.q_proj(queries)),
        split(attention.k_proj(normal)),
        split(attention.v_proj(normal)),
        attn_mask=bias,
        dropout_p=attention.dropout if layer.training else 0.0,
        scale=attention.scale,
    )
    hidden = hidden + attention.out_proj(mixed.transpose(1, 2).flatten(2))
    return hidden + layer.mlp(layer.layer_norm2(hidden))
