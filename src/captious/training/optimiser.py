"""What learns, and how: AdamW in two groups, and parts of a model that are held still.

Weight decay acts on matrices only: not on biases, norms, the logit scale, nor the tables of positions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from captious.errors import InputError
from captious.extras import require
from captious.training.settings import Settings

torch = require("torch", "clip")


TOWERS = ("vision_model.", "text_model.")


def precision_of(asked: str, device: str) -> str:
    """``auto`` is bf16 on a GPU and fp32 on a CPU."""
    return asked if asked != "auto" else "bf16" if device == "cuda" else "fp32"


def optimiser(module: Any, settings: Settings, device: str) -> Any:
    """AdamW over what learns, in groups: with and without decay, of towers and of heads with their own rate."""
    named = [(name, one) for name, one in module.named_parameters() if one.requires_grad]
    if not named:
        raise InputError("--lock leaves nothing to learn")
    times = settings.head_lr / settings.lr if settings.head_lr else 1.0
    groups: dict[tuple[float, float], list[Any]] = {}
    for name, one in named:
        factor = 1.0 if name.startswith(TOWERS) else times
        groups.setdefault((factor, 0.0 if _still(name, one) else settings.weight_decay), []).append(one)
    given = [
        {"params": params, "weight_decay": decay, "times": factor}
        for (factor, decay), params in sorted(groups.items(), key=lambda item: (item[0][0], -item[0][1]))
    ]
    return torch.optim.AdamW(given, lr=settings.lr, betas=(0.9, settings.beta2), fused=device == "cuda")


def clipped(trained: list[Any], longest: float) -> Any:
    """The length of the gradient of all parameters; brought down to ``longest``, unless that is 0."""
    if longest:
        return torch.nn.utils.clip_grad_norm_(trained, longest)
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm([one.grad for one in trained])))


def train_mode(module: Any) -> None:
    """Training mode for what learns; a locked tower stays as it is used."""
    module.train()
    for child in module.children():
        parameters = list(child.parameters())
        if parameters and not any(one.requires_grad for one in parameters):
            child.eval()


def held_rows(module: Any, rows: int) -> Callable[[], None]:
    """A function that empties the gradient of the first rows of the text tower's position table."""
    text = getattr(module, "text_model", None)
    embeddings = getattr(getattr(text, "text_model", text), "embeddings", None)
    table = getattr(getattr(embeddings, "position_embedding", None), "weight", None)

    def hold() -> None:
        if rows and table is not None and table.grad is not None:
            table.grad[:rows] = 0

    return hold


def _still(name: str, weights: Any) -> bool:
    return weights.ndim < 2 or "position_embedding" in name
