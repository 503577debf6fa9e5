"""Cost of one score: parameters, and floating-point operations as torch counts them (2 × multiply-adds).

ViT-B/32 with 77 tokens takes 8.82 GFLOPs for the image and 5.96 for the text. Table 2 of SPECS prints only their
sum, 1.48e-2 TFLOPs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from captious.errors import InputError, require
from captious.models.encoder import Encoder


@dataclass(frozen=True)
class Cost:
    """Parameters of an encoder, and the floating-point operations of one score."""

    parameters: int
    image_flops: float
    text_flops: float
    """The operations for one text as long as the token limit."""

    @property
    def flops(self) -> float:
        """Operations of one image and one text."""
        return self.image_flops + self.text_flops


def cost(encoder: Encoder) -> Cost:
    """Count parameters and operations of an encoder while it encodes one image and one text."""
    torch = require("torch", "clip")
    from captious.models.clip import TorchEncoder
    from captious.models.devices import get_torch_dtype
    from captious.models.mini import NumpyClip

    model: Any = encoder
    if isinstance(encoder, NumpyClip):
        # Count on the same model in torch. The meta device has shapes but no weights, which are enough to count.
        transformers = require("transformers", "clip")
        meta = torch.device("meta")
        with meta:
            module = transformers.CLIPModel(transformers.CLIPConfig.from_dict(encoder.config)).eval()
        facts = (encoder.name, encoder.fingerprint, encoder.precision, encoder.dimension, encoder.limit)
        model = TorchEncoder(*facts, module, cast(Any, encoder.tokenizer), encoder.preparation, meta, causal=True)
    elif not isinstance(encoder, TorchEncoder):
        raise InputError(f"{encoder.name}: its cost cannot be counted, expected an encoder that runs on torch or NumPy")
    side = model.preparation.crop
    pixels = torch.zeros(1, 3, side, side, dtype=get_torch_dtype(model.precision), device=model.device)
    ids = torch.zeros(1, model.limit, dtype=torch.long, device=model.device)
    return Cost(
        parameters=sum(tensor.numel() for tensor in model.module.parameters()),
        image_flops=_count_flops(lambda: model.image_tensor(pixels)),
        text_flops=_count_flops(lambda: model.text_tensor(ids)),
    )


def _count_flops(run: Callable[[], Any]) -> float:
    attention = require("torch.nn.attention", "clip")
    counter = require("torch.utils.flop_counter", "clip").FlopCounterMode(display=False)
    # The counter counts the matrix products of plain attention, but not those inside every fused kernel.
    with attention.sdpa_kernel(attention.SDPBackend.MATH), require("torch", "clip").inference_mode(), counter:
        run()
    return float(counter.get_total_flops())
