"""Layers of an encoder that a GPU computes with fewer kernels than the ``transformers`` code.

The weights, their names and the function stay the same; only the rounding of the last digit differs. Training, which
needs gradients, goes through the library's own code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from captious.errors import require

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch", "clip")

# The factor of CLIP's QuickGELU, x · sigmoid(1.702 x).
QUICK = 1.702


def speed_up(module: Any) -> None:
    """Replace the forward pass of layers that can be computed faster on a GPU."""
    for part in module.modules():
        compute = _find_fast_forward(part)
        if compute is not None:
            part.forward = partial(_run_forward, part, compute)


def _find_fast_forward(part: Any) -> Callable[[Any, torch.Tensor], torch.Tensor] | None:
    if isinstance(part, torch.nn.Conv2d):
        alone = part.groups == 1 and part.padding in ((0, 0), "valid") and part.dilation == (1, 1)
        return compute_patch_product if alone and part.kernel_size == part.stride else None
    quick = type(getattr(part, "activation_fn", None)).__name__ == "QuickGELUActivation" and hasattr(part, "fc2")
    return compute_quick_gelu_perceptron if quick else None


def _run_forward(part: Any, compute: Callable[[Any, torch.Tensor], torch.Tensor], x: torch.Tensor) -> Any:
    return type(part).forward(part, x) if torch.is_grad_enabled() else compute(part, x)


def compute_patch_product(part: torch.nn.Conv2d, pixels: torch.Tensor) -> torch.Tensor:
    """Compute a convolution over patches that do not overlap as one matrix product.

    cuDNN first converts the pixels to another layout, and takes seven times as long.
    """
    high, wide = part.kernel_size
    count, channels, height, width = pixels.shape
    rows, columns = height // high, width // wide
    cut = pixels[:, :, : rows * high, : columns * wide].reshape(count, channels, rows, high, columns, wide)
    patches = cut.permute(0, 2, 4, 1, 3, 5).reshape(count, rows * columns, -1)
    product = torch.nn.functional.linear(patches, part.weight.flatten(1), part.bias)
    return product.transpose(1, 2).view(count, -1, rows, columns)


def compute_quick_gelu_perceptron(part: Any, hidden: torch.Tensor) -> torch.Tensor:
    """Compute CLIP's perceptron with one kernel for its activation instead of three.

    x · sigmoid(1.702 x) is silu(1.702 x) / 1.702, and the two factors go into the products before and after it.
    """
    into, out = part.fc1, part.fc2
    rows = hidden.flatten(0, -2)
    inner = torch.nn.functional.silu(torch.addmm(into.bias * QUICK, rows, into.weight.T, alpha=QUICK))
    return torch.addmm(out.bias, inner, out.weight.T, alpha=1 / QUICK).view_as(hidden)
