"""Captions that share a beginning, encoded together: each shared token once.

The texts of one sample are nearly the same text::

    full      START a cat lies under a blanket with fringed edges . END
    positive  START a cat lies under a blanket END
    base      START a cat lies END
    negative  START a cat lies beside red a car END

A causal text tower reads a token from those before it alone, so the states of "a cat lies" are the same in all four.
They are laid out as one tree: the full caption is the trunk; the others are branches that leave it where their tokens
begin to differ, often with nothing but an END of their own. A branch's tokens keep the positions they have in their
own text, and see the trunk up to the fork and their own branch up to themselves. Trees of several samples share a row,
so little is padding. In the last layer only the END tokens are computed, for only they are read.

This is arithmetic saved, not an approximation: features and gradients equal those of separate encoding up to rounding.
A text that shares less than half of itself with the trunk starts a tree of its own, so whatever the tokenizer does, the
result is right and only the saving shrinks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from captious._typing import Ints
from captious.errors import InputError, require
from captious.train.data import Album, Example, Frame, apply_views, draw_views, load_image_features, numbered_images
from captious.train.objective import Job
from captious.train.schedule import Rows

torch = require("torch", "clip")
sdpa_kernel, _Kernel = torch.nn.attention.sdpa_kernel, torch.nn.attention.SDPBackend

KERNELS = [_Kernel.EFFICIENT_ATTENTION, _Kernel.MATH]
"""Attention kernels that take a mask as it comes; cuDNN's would be planned anew for every shape of a batch."""
Tensor = Any
STEP = 8
"""Rows are as long as a multiple of this, which kernels want."""


class Branch(NamedTuple):
    """A text of a tree: its number in the sample, its tokens, and how many of them it takes from the trunk."""

    number: int
    tokens: Ints
    fork: int

    @property
    def size(self) -> int:
        """Tokens of its own."""
        return len(self.tokens) - self.fork


Tree = list[Branch]
"""The trunk first, which takes nothing from itself."""


@dataclass(frozen=True)
class Packed:
    """Trees in rows of one length. Tokens see those of ``trunk`` before ``reach``, and their own ``branch`` so far."""

    ids: Tensor
    positions: Tensor
    branch: Tensor
    trunk: Tensor
    reach: Tensor
    ends: Tensor
    """Columns of the END tokens of each row, padded with 0."""
    order: Tensor
    """Where in the flattened ``ends`` each text is."""

    def to(self, device: Any) -> Packed:
        """The same on another device."""
        moved = {name: value.to(device, non_blocking=True) for name, value in vars(self).items()}
        return Packed(**moved)

    def pinned(self) -> Packed:
        """The same in memory from which it travels to a GPU while that computes."""
        return Packed(**{name: value.pin_memory() for name, value in vars(self).items()})

    def visible(self) -> Tensor:
        """Which token (row) sees which (column): batch × length × length, true where it does."""
        column = torch.arange(self.ids.shape[1], device=self.ids.device)
        own = (self.branch[:, :, None] == self.branch[:, None, :]) & (column[:, None] >= column[None, :])
        trunk = (self.trunk[:, :, None] == self.branch[:, None, :]) & (self.reach[:, :, None] > column)
        return own | trunk


def trees(texts: Sequence[Ints]) -> list[Tree]:
    """The texts of one sample, the longest first, as few trees.

    >>> (tree,) = trees([np.array([8, 1, 2, 3, 9]), np.array([8, 1, 2, 9]), np.array([8, 1, 4, 9])])
    >>> [branch.tokens[branch.fork :].tolist() for branch in tree]
    [[8, 1, 2, 3, 9], [9], [4, 9]]
    """
    grown: list[Tree] = []
    for number, text in enumerate(texts):
        shared = [_common(tree[0].tokens, text) for tree in grown]
        best = shared.index(max(shared)) if shared else 0
        if not shared or 2 * shared[best] < len(text):
            grown.append([Branch(number, text, 0)])
        else:
            grown[best].append(Branch(number, text, shared[best]))
    return grown


def _common(one: Ints, other: Ints) -> int:
    """How many tokens two texts start with in common."""
    size = min(len(one), len(other))
    differs = one[:size] != other[:size]
    first = int(differs.argmax())
    return first if differs[first] else size


def pack(groups: Sequence[Sequence[Ints]], room: int, pad: int = 0) -> Packed:
    """All texts of a batch, at least one token each; ``room`` is the length of a row, unless a tree needs more."""
    firsts = np.cumsum([0, *map(len, groups)]).tolist()
    forest = [(tree, first) for texts, first in zip(groups, firsts, strict=False) for tree in trees(texts)]
    sizes = [sum(branch.size for branch in tree) for tree, _ in forest]
    rows = _rows(sizes, max(room, *sizes))
    # One line per branch: row, column where its tree starts, where it starts, fork, own tokens, its number and its
    # trunk's in the row.
    lines: list[tuple[int, int, int, int, int, int, int]] = []
    own: list[Ints] = []
    ends: list[list[int]] = [[] for _ in rows]
    order = [(0, 0)] * firsts[-1]
    for row, members in enumerate(rows):
        column = count = 0
        for index in members:
            tree, first = forest[index]
            start, trunk = column, count
            for branch in tree:
                lines.append((row, start, column, branch.fork, branch.size, count, trunk))
                own.append(branch.tokens[branch.fork :])
                column, count = column + branch.size, count + 1
                # A text that repeats the beginning of the trunk, END and all, ends where the trunk has it.
                end = column - 1 if branch.size else start + len(branch.tokens) - 1
                order[first + branch.number] = (row, len(ends[row]))
                ends[row].append(end)
    return _laid_out(np.array(lines), np.concatenate(own), ends, order, pad)


def _laid_out(lines: Ints, tokens: Ints, ends: list[list[int]], order: list[tuple[int, int]], pad: int) -> Packed:
    """Branches to arrays, all at once."""
    size = lines[:, 4]
    within = np.arange(len(tokens)) - np.repeat(np.cumsum(size) - size, size)
    row, start, column, fork, _, number, trunk = (np.repeat(part, size) for part in lines.T)
    length = -(-int((column + within).max() + 1) // STEP) * STEP
    table = np.zeros((5, len(ends), length), dtype=np.int64)
    table[0] = pad
    # A token of padding is a branch of its own: it sees itself, and nobody sees it.
    table[2] = table[3] = -1 - np.arange(length)
    reach = start + np.where(number == trunk, within + 1, fork)
    table[:, row, column + within] = (tokens, fork + within, number, trunk, reach)
    widest = max(map(len, ends))
    columns = np.zeros((len(ends), widest), dtype=np.int64)
    for line, own in zip(columns, ends, strict=True):
        line[: len(own)] = own
    flat = np.array([row * widest + column for row, column in order], dtype=np.int64)
    return Packed(*(torch.from_numpy(part) for part in (*table, columns, flat)))


def _rows(sizes: Sequence[int], room: int) -> list[list[int]]:
    """Trees into rows: each, the largest first, into the fullest row that still has room for it."""
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


def encode(model: Any, packed: Packed) -> Tensor:
    """Features of all texts, in the order of the groups, by the layers of a ``transformers`` CLIP model."""
    tower = getattr(model.text_model, "text_model", model.text_model)
    hidden = tower.embeddings.token_embedding(packed.ids) + tower.embeddings.position_embedding(packed.positions)
    visible = packed.visible().unsqueeze(1)
    *most, last = tower.encoder.layers
    bias = _bias(visible, hidden)
    with sdpa_kernel(KERNELS):
        for layer in most:
            hidden = _layer(layer, hidden, None, bias)
        if packed.ends.shape[1] * 2 < hidden.shape[1]:
            picked = packed.ends[:, None, :, None].expand(-1, 1, -1, visible.shape[-1])
            hidden = _layer(last, hidden, packed.ends, bias.gather(2, picked).contiguous())
        else:
            hidden = _layer(last, hidden, None, bias)
            hidden = hidden.gather(1, packed.ends[:, :, None].expand(-1, -1, hidden.shape[-1]))
    ends = hidden.flatten(0, 1)[packed.order]
    return model.text_projection(tower.final_layer_norm(ends))


def _bias(visible: Tensor, hidden: Tensor) -> Tensor:
    """The mask as something to add, in the precision attention will run in."""
    kind = hidden.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
    return torch.zeros(visible.shape, dtype=dtype, device=hidden.device).masked_fill_(~visible, float("-inf"))


def _layer(layer: Any, hidden: Tensor, ends: Tensor | None, bias: Tensor) -> Tensor:
    """One layer, with queries at the columns ``ends`` only, or everywhere."""
    attention, normal = layer.self_attn, layer.layer_norm1(hidden)
    asking = normal
    if ends is not None:
        picked = ends[:, :, None].expand(-1, -1, hidden.shape[-1])
        hidden, asking = hidden.gather(1, picked), normal.gather(1, picked)
    heads = attention.num_heads

    def split(states: Tensor) -> Tensor:
        return states.unflatten(-1, (heads, -1)).transpose(1, 2)

    mixed = torch.nn.functional.scaled_dot_product_attention(
        split(attention.q_proj(asking)),
        split(attention.k_proj(normal)),
        split(attention.v_proj(normal)),
        attn_mask=bias,
        dropout_p=attention.dropout if layer.training else 0.0,
        scale=attention.scale,
    )
    hidden = hidden + attention.out_proj(mixed.transpose(1, 2).flatten(2))
    return hidden + layer.mlp(layer.layer_norm2(hidden))


SIDES = ("image", "text")


@dataclass(frozen=True)
class TowerImages:
    """Images of a batch on their way to the device; ``pixels`` is None where none is needed any more."""

    rows: Rows
    pixels: Any
    views: Any = None
    """How each image is looked at in this epoch, where that changes."""


@dataclass(frozen=True)
class TowerTexts:
    """Texts of a batch on their way to the device: packed trees, or padded rows with a key for each."""

    packed: Packed | None
    ids: Tensor
    keys: Sequence[bytes]


class Towers:
    """The two towers of an encoder, with what they read from; ``locked`` names sides that do not learn."""

    def __init__(
        self,
        encoder: Any,
        album: Album,
        locked: Sequence[str] = (),
        augment: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.encoder, self.album, self.augment, self.seed = encoder, album, augment, seed
        self.locked, self.frame = frozenset(map(side_of, locked)), Frame.of(encoder)
        self._room = 0
        clip = getattr(encoder.module.config, "model_type", "") == "clip"
        if clip and encoder.causal and "text" not in self.locked:
            self._room = int(encoder.module.config.text_config.hidden_size)
        self._images, self._texts = LockedFeatures(), LockedFeatures()

    @property
    def scale(self) -> Tensor:
        """What cosines are multiplied by."""
        return self.encoder.logit_scale.float().exp()

    def image_batch(self, rows: Rows, epoch: int | None = None) -> TowerImages:
        """Take images from the album, seen anew in each epoch if one is given; called ahead, in another thread."""
        wanted = rows
        if "image" in self.locked:
            wanted = np.array([row for row in rows.tolist() if row not in self._images], dtype=np.int64)
        if not len(wanted):
            return TowerImages(rows, None)
        pixels = torch.from_numpy(self.album.pixels(wanted))
        views = None
        if self.augment and epoch is not None and "image" not in self.locked:
            views = torch.from_numpy(draw_views(rows, self.augment, self.seed, epoch))
        return TowerImages(rows, (wanted, self._ready(pixels)), views)

    def text_batch(self, groups: Sequence[Sequence[Ints]]) -> TowerTexts:
        """Lay out the texts of each sample; called ahead, in another thread."""
        if self._room and len(groups[0]) > 1:
            packed = pack(groups, self._room, self.frame.pad)
            return TowerTexts(packed.pinned() if self.encoder.device.type == "cuda" else packed, None, ())
        texts = [text for group in groups for text in group]
        keys = [text.tobytes() for text in texts] if "text" in self.locked else ()
        return TowerTexts(None, self._ready(torch.from_numpy(self.frame.stacked(texts))), keys)

    def below(self, rows: Rows) -> Tensor:
        """What the locked image tower makes of images, whether it is known already or not."""
        frozen, _ = halves(self.encoder, "image")
        return _still(frozen, self.encoder.pixels_to_tensor(torch.from_numpy(self.album.pixels(rows))))

    def add_text_features(self, texts: Sequence[Ints], features: Tensor) -> None:
        """Features of the locked text tower that were computed before, of framed texts."""
        self._texts.add([text.tobytes() for text in texts], features)

    def add_image_features(self, rows: Sequence[int], features: Tensor) -> None:
        """Features of the locked image tower that were computed before."""
        self._images.add(rows, features.to(self.encoder.device))

    def images(self, batch: TowerImages) -> Tensor:
        """Features of a batch of images."""
        wanted, pixels = batch.pixels if batch.pixels is not None else (np.zeros(0, np.int64), None)
        tensor = self.encoder.pixels_to_tensor(pixels) if pixels is not None else None
        if "image" not in self.locked:
            return self.encoder.image_tensor(tensor if batch.views is None else apply_views(tensor, batch.views))
        below, head = halves(self.encoder, "image")
        if tensor is not None:
            self._images.add(wanted.tolist(), _still(below, tensor))
        return head(self._images.rows(batch.rows.tolist()))

    def texts(self, batch: TowerTexts) -> Tensor:
        """Features of a batch of texts, group by group."""
        if batch.packed is not None:
            return encode(self.encoder.module, batch.packed.to(self.encoder.device))
        if "text" not in self.locked:
            return self.encoder.text_tensor(batch.ids.to(self.encoder.device, non_blocking=True))
        below, head = halves(self.encoder, "text")
        new = [number for number, key in enumerate(batch.keys) if key not in self._texts]
        if new:
            ids = batch.ids[new].to(self.encoder.device)
            self._texts.add([batch.keys[number] for number in new], _still(below, ids))
        return head(self._texts.rows(batch.keys))

    def _ready(self, tensor: Tensor) -> Tensor:
        """Pinned memory travels to a GPU while it computes."""
        return tensor.pin_memory() if self.encoder.device.type == "cuda" else tensor


def towers_of(examples: Sequence[Example], encoder: Any, job: Job) -> tuple[Towers, Ints, str]:
    """The towers with the images of the examples, the image of each example, and a note on how images are read."""
    paths, images = numbered_images(examples)
    features, settings, runtime = job.training.image_features, job.settings, job.runtime
    album = Album(paths, encoder, runtime.workers, keep=False if features else None, report=runtime.progress)
    towers = Towers(encoder, album, settings.lock, augment=settings.augment or 0.0, seed=settings.seed)
    if features:
        return towers, images, load_image_features(towers, features)
    if album.in_memory:
        return towers, images, f"{len(album)} images kept in memory ({album.nbytes / 2**30:.2g} GiB)"
    return towers, images, f"{len(album)} images do not fit into memory: each is opened when its turn comes"


class LockedFeatures:
    """Features of a locked tower by key, kept on the device in blocks."""

    def __init__(self) -> None:
        self._where: dict[Any, int] = {}
        self._table: Tensor | None = None

    def __contains__(self, key: Any) -> bool:
        return key in self._where

    def add(self, keys: Sequence[Any], features: Tensor) -> None:
        """Add features by key; the same key has the same features."""
        rows = [self._where.setdefault(key, len(self._where)) for key in keys]
        size = len(self._where)
        if self._table is None or len(self._table) < size:
            grown = features.new_zeros((max(1024, 2 * size), *features.shape[1:]))
            if self._table is not None:
                grown[: len(self._table)] = self._table
            self._table = grown
        self._table[torch.tensor(rows, device=features.device)] = features

    def rows(self, keys: Sequence[Any]) -> Tensor:
        """Features by key."""
        assert self._table is not None
        return self._table[torch.tensor([self._where[key] for key in keys], device=self._table.device)]


def unit(features: Tensor) -> Tensor:
    """Vectors of unit length, in float32 whatever the precision they came in."""
    return torch.nn.functional.normalize(features.float(), dim=-1)


def _still(below: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Features of the locked part, in full precision: computed once, they may cost."""
    with torch.no_grad(), torch.autocast(inputs.device.type, enabled=False):
        return below(inputs).float()


def halves(encoder: Any, side: str) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """A tower and the head on it, as two functions.

    An encoder may say so itself (``frozen_images`` and ``image_head``, ``frozen_texts`` and ``text_head``); of a CLIP
    model the head is the projection.
    """
    plural = f"{side}s"
    if hasattr(encoder, f"frozen_{plural}"):
        return getattr(encoder, f"frozen_{plural}"), getattr(encoder, f"{side}_head")
    module = encoder.module
    if not hasattr(module, "visual_projection"):
        raise InputError(f"{encoder.name}: its {side} tower has no head to train, so it cannot be locked")
    if side == "image":
        return lambda pixels: module.vision_model(pixel_values=pixels).pooler_output, module.visual_projection
    if encoder.causal:
        return lambda ids: module.text_model(input_ids=ids).pooler_output, module.text_projection
    return (
        lambda ids: module.text_model(input_ids=ids, attention_mask=encoder.attention_mask(ids)).pooler_output,
        module.text_projection,
    )


def side_of(locked: str) -> str:
    """The tower that an entry of ``lock`` names.

    >>> side_of("image:9"), side_of("text")
    ('image', 'text')
    """
    return locked.partition(":")[0]


def lock(encoder: Any, sides: Sequence[str]) -> None:
    """Keep the towers of these sides as they are: no gradients, no dropout."""
    for entry in sides:
        side, layers = side_of(entry), entry.partition(":")[2]
        partly = layers.isdigit() and side == "image" and hasattr(encoder, "freeze_image_layers")
        if side not in SIDES or (layers and not partly):
            raise InputError(f"lock={entry}: expected image, text, or both with a comma")
        tower = getattr(encoder.module, "vision_model" if side == "image" else "text_model", None)
        if tower is None:
            raise InputError(f"{encoder.name}: has no {side} tower that can be locked")
        halves(encoder, side)
        tower.requires_grad_(False)
        tower.eval()
        if layers:
            encoder.freeze_image_layers(int(layers))
