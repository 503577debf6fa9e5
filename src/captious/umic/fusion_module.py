"""A small cross-attention between the states of a frozen encoder: what the caption's tokens find in the patches.

The logit is a straight line through the encoder's own cosine plus a residual that starts at zero, so that before any
training captions are ranked exactly as the encoder ranks them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from captious.errors import InputError
from captious.extras import require

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch", "clip")

functional = torch.nn.functional


@dataclass(frozen=True)
class Shape:
    """Sizes of a fusion; the first five are the encoder's."""

    patches: int
    image_width: int
    text_width: int
    dimension: int
    tokens: int
    width: int = 256
    layers: int = 2
    heads: int = 4
    dropout: float = 0.1

    def __post_init__(self) -> None:
        if min(self.width, self.layers, self.heads) < 1 or self.width % self.heads:
            raise InputError(f"width {self.width}, heads {self.heads}: expected a width that the heads divide")

    def record(self) -> dict[str, Any]:
        """Plain values, to be written as JSON."""
        return asdict(self)


class Attention(torch.nn.Module):
    """Attention of one sequence over another, or itself, after a norm."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm = torch.nn.LayerNorm(width)
        self.query = torch.nn.Linear(width, width)
        self.key_value = torch.nn.Linear(width, 2 * width)
        self.out = torch.nn.Linear(width, width)

    def forward(
        self, states: torch.Tensor, over: torch.Tensor | None, mask: torch.Tensor | None, asking: int | None = None
    ) -> torch.Tensor:
        """States with what they found added; ``over`` is normalised already, None looks at the states themselves.

        Only the first ``asking`` states look, and are returned.
        """
        normal = self.norm(states)
        key, value = self.key_value(normal if over is None else over).chunk(2, dim=-1)
        states, normal = states[:, :asking], normal[:, :asking]
        query, key, value = (
            one.unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in (self.query(normal), key, value)
        )
        dropout = self.dropout if self.training else 0.0
        found = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        mixed: torch.Tensor = self.out(found.transpose(1, 2).flatten(2))
        return states + functional.dropout(mixed, self.dropout, self.training)


class Layer(torch.nn.Module):
    """Tokens look at each other, then at the patches, then think."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = Attention(shape.width, shape.heads, shape.dropout)
        self.patches = Attention(shape.width, shape.heads, shape.dropout)
        self.norm = torch.nn.LayerNorm(shape.width)
        self.up = torch.nn.Linear(shape.width, 4 * shape.width)
        self.down = torch.nn.Linear(4 * shape.width, shape.width)
        self.dropout = torch.nn.Dropout(shape.dropout)

    def forward(
        self, texts: torch.Tensor, mask: torch.Tensor, image: torch.Tensor, asking: int | None = None
    ) -> torch.Tensor:
        """Texts are b × k × tokens × width: the k captions of an image share its keys and values."""
        number, captions = texts.shape[:2]
        states = self.tokens(texts.flatten(0, 1), None, mask, asking)
        states = self.patches(states.unflatten(0, (number, captions)).flatten(1, 2), image, None)
        states = states + self.dropout(self.down(functional.gelu(self.up(self.norm(states)))))
        split: torch.Tensor = states.unflatten(1, (captions, -1))
        return split


class FusionModule(torch.nn.Module):
    """See the module's text."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.config = SimpleNamespace(model_type="captious-fusion")
        width = shape.width
        self.image_norm = torch.nn.LayerNorm(shape.image_width)
        self.image_in = torch.nn.Linear(shape.image_width, width)
        self.text_norm = torch.nn.LayerNorm(shape.text_width)
        self.text_in = torch.nn.Linear(shape.text_width, width)
        self.image_position_embedding = torch.nn.Parameter(torch.randn(shape.patches, width) * 0.02)
        self.text_position_embedding = torch.nn.Parameter(torch.randn(shape.tokens, width) * 0.02)
        self.pool = torch.nn.Parameter(torch.randn(width) * 0.02)
        self.patch_norm = torch.nn.LayerNorm(width)
        self.layers = torch.nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.pair_norm = torch.nn.LayerNorm(2 * shape.dimension)
        self.pair = torch.nn.Linear(2 * shape.dimension, width)
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, 1)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        self.slope = torch.nn.Parameter(torch.tensor(1.0))
        self.shift = torch.nn.Parameter(torch.tensor(0.0))

    def forward(
        self,
        patches: torch.Tensor,
        image: torch.Tensor,
        tokens: torch.Tensor,
        inside: torch.Tensor,
        text: torch.Tensor,
    ) -> torch.Tensor:
        """Logits, b × k, of patch states b × p × w and token states b × k × t × w with the encoder's unit vectors."""
        seen = self.image_in(self.image_norm(patches.float())) + self.image_position_embedding
        read = self.text_in(self.text_norm(tokens.float())) + self.text_position_embedding[: tokens.shape[2]]
        first = self.pool.expand(*read.shape[:2], 1, -1).to(read.dtype)
        states, seen = torch.cat([first, read], dim=2), self.patch_norm(seen)
        mask = functional.pad(inside, (1, 0), value=True).flatten(0, 1)[:, None, None, :]
        *most, last = self.layers
        for layer in most:
            states = layer(states, mask, seen)
        states = last(states, mask, seen, asking=1)  # of the last layer only the pooling token is read
        image = image[:, None].expand_as(text)
        pair = self.pair(self.pair_norm(torch.cat([image * text, (image - text).abs()], dim=-1)))
        residual = self.head(self.norm(states[:, :, 0] + pair))[..., 0].float()
        cosine = (image * text).sum(-1)
        logits: torch.Tensor = self.slope * cosine + self.shift + residual
        return logits

    def calibrate(self, cosines: torch.Tensor) -> None:
        """Put the line so that these cosines give logits of mean 0 and deviation 1.5: sigmoids that differ visibly."""
        with torch.no_grad():
            self.slope.copy_(1.5 / cosines.std().clamp(min=1e-3))
            self.shift.copy_(-self.slope * cosines.mean())
