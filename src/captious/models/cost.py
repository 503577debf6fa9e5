"""Cost of one score: parameters, and floating-point operations as torch counts them (2 × multiply-adds).

ViT-B/32 with 77 tokens takes 8.82 GFLOPs for the image and 5.96 for the text. Table 2 of SPECS prints only their
sum, 1.48e-2 TFLOPs. The cost of a chat model is computed from its shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, cast

from captious.errors import InputError, format_suggestion, require
from captious.models.encoder import Encoder


@dataclass(frozen=True)
class JudgeShape:
    """The shape of a decoder-only language model with gated perceptrons."""

    layers: int
    width: int
    inner: int
    """Width inside the perceptrons."""
    kv_width: int
    """Width of keys and of values: all heads that have their own, times the width of a head."""
    vocabulary: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise InputError(f"{name} is {value}, expected 1 or more")

    @property
    def block_parameters(self) -> int:
        """Parameters of the layers' matrices: queries and output, keys and values, three of the perceptron."""
        h, k = self.width, self.kv_width
        return self.layers * (2 * h * h + 2 * h * k + 3 * h * self.inner)

    def count_flops(self, tokens: int, *, output: bool = True, attention: bool = False) -> float:
        """Count the operations of reading ``tokens``: 2 × multiply-adds, with the output layer, with attention itself.

        Image towers, image tokens and the tokens that the model writes are not counted.

        >>> shape = JUDGE_SHAPES["llama-2-7b"]
        >>> [round(shape.count_flops(300, output=output) / 1e12, 3) for output in (False, True)]
        [3.886, 3.964]
        """
        if tokens < 1:
            raise InputError(f"tokens is {tokens}, expected 1 or more")
        parameters = self.block_parameters + (self.width * self.vocabulary if output else 0)
        products = 4 * self.layers * tokens**2 * self.width if attention else 0
        return float(2 * tokens * parameters + products)


# Shapes in the configurations that the models were released with; LLaVA-1.5 has 64 rows more than Vicuna.
JUDGE_SHAPES = {
    "llama-2-7b": JudgeShape(32, 4096, 11008, 4096, 32_000),
    "llama-2-13b": JudgeShape(40, 5120, 13824, 5120, 32_000),
    "llava-1.5-7b": JudgeShape(32, 4096, 11008, 4096, 32_064),
    "llava-1.5-13b": JudgeShape(40, 5120, 13824, 5120, 32_064),
    "internlm2.5-7b": JudgeShape(32, 4096, 14336, 1024, 92_553),
}


def get_judge_shape(text: str) -> JudgeShape:
    """Return the shape of a known language model, or of one whose sizes are written out.

    >>> get_judge_shape("layers=1,width=2,inner=3,kv_width=1,vocabulary=5").block_parameters
    30
    """
    if text in JUDGE_SHAPES:
        return JUDGE_SHAPES[text]
    names = [field.name for field in fields(JudgeShape)]
    sizes = ",".join(f"{name}=…" for name in names)
    if "=" not in text:
        hint = format_suggestion(text, JUDGE_SHAPES)
        raise InputError(f"unknown judge {text!r}: expected one of {', '.join(JUDGE_SHAPES)}, or {sizes}{hint}")
    given = dict(part.strip().partition("=")[::2] for part in text.split(","))
    if given.keys() != set(names) or not all(value.isdecimal() for value in given.values()):
        raise InputError(f"judge {text!r}: expected whole numbers, all five of {sizes}")
    return JudgeShape(**{name: int(value) for name, value in given.items()})


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
