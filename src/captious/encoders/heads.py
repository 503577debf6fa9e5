"""What turns the states of a pretrained tower into a vector of the common space: pooling, then a projection head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from captious.errors import InputError, nearest
from captious.extras import require

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch", "clip")

IMAGE_POOLINGS = ("cls+mean", "cls", "mean", "pooler")
TEXT_POOLINGS = ("mean", "cls", "pooler")
HEADS = ("residual", "linear")


def pooled_width(pooling: str, width: int) -> int:
    """Numbers in a pooled vector of states that have ``width``."""
    return 2 * width if pooling == "cls+mean" else width


def pool_image(found: Any, pooling: str) -> torch.Tensor:
    """One vector per image from a vision model's output: ``cls`` is the first token, ``mean`` the mean of patches.

    ``pooler`` is the vector the model itself offers.
    """
    if pooling == "pooler":
        return _own(found)
    states: torch.Tensor = found.last_hidden_state
    parts = {"cls": lambda: states[:, 0], "mean": lambda: states[:, 1:].mean(1)}
    return torch.cat([parts[part]() for part in pooling.split("+")], dim=-1)


def pool_text(found: Any, seen: torch.Tensor, pooling: str) -> torch.Tensor:
    """One vector per text from a text model's output: the mean of its tokens, the first one, or the model's own."""
    if pooling == "pooler":
        return _own(found)
    states: torch.Tensor = found.last_hidden_state
    if pooling == "cls":
        return states[:, 0]
    weights = seen[..., None].to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1)


def _own(found: Any) -> torch.Tensor:
    if getattr(found, "pooler_output", None) is None:
        raise InputError("pooling 'pooler': this model has no pooler, expected cls or mean")
    vector: torch.Tensor = found.pooler_output
    return vector


class ResidualHead(torch.nn.Module):
    """A linear map of the normalised vector plus a small perceptron that starts at zero."""

    def __init__(self, width: int, dimension: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.straight = torch.nn.Linear(width, dimension, bias=False)
        self.inner = torch.nn.Linear(width, hidden)
        self.outer = torch.nn.Linear(hidden, dimension)
        self.dropout = torch.nn.Dropout(dropout)
        torch.nn.init.zeros_(self.outer.weight)
        torch.nn.init.zeros_(self.outer.bias)

    def forward(self, pooled: torch.Tensor) -> torch.Tensor:
        """Vectors of the common space, not of unit length."""
        normal = self.norm(pooled)
        bent: torch.Tensor = self.outer(self.dropout(torch.nn.functional.gelu(self.inner(normal))))
        straight: torch.Tensor = self.straight(self.dropout(normal))
        return straight + bent


def new_head(kind: str, width: int, dimension: int, hidden: int, dropout: float) -> torch.nn.Module:
    """A head by name: ``linear`` is that of ``transformers``' VisionTextDualEncoderModel."""
    if kind == "linear":
        return torch.nn.Linear(width, dimension, bias=False)
    return ResidualHead(width, dimension, hidden, dropout)


def checked(what: str, given: str, known: tuple[str, ...]) -> str:
    """A name of a pooling or head, or one line that says which there are."""
    if given not in known:
        raise InputError(f"{what} {given!r}: expected {', '.join(known)}{nearest(given, known)}")
    return given
