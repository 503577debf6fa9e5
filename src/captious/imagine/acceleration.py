"""How a ``diffusers`` pipeline computes: decoding in groups everywhere, and compiled on a GPU where that is asked for.

Channels-last pays only where the model is compiled: without, it is slower than diffusers' own layout. Which kernel
computes attention is left to torch, which takes the fastest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from captious.errors import InputError

DECODED = 8
"""Pictures decoded at a time: enough to fill a GPU, and little memory beside what the denoiser needs."""
DECODERS, DENOISERS = ("vae", "movq", "vqvae"), ("unet", "transformer")
COMPILE: dict[str, Any] = {"mode": "default"}
"""How to compile; ``max-autotune-no-cudagraphs`` takes minutes longer."""
_DIVISIBLE = {"return_dict", "generator", "force_not_quantize"}
"""Arguments of ``decode`` that do not depend on how many pictures there are, or that are divided with them."""


def settle(pipeline: Any, device: Any, compile: bool) -> None:
    """To the device, and as it computes fastest there."""
    if compile and device.type != "cuda":
        raise InputError("compile is for a GPU; leave it out")
    pipeline.to(device)
    for module in _parts(pipeline, DECODERS):
        module.decode = in_groups(undisguised(module.decode))
    if compile:
        compile_heavy(pipeline)


def in_groups(decode: Callable[..., Any], size: int = DECODED) -> Callable[..., Any]:
    """``decode`` of a model of diffusers, but for at most ``size`` pictures at a time."""

    def grouped(latents: Any, *others: Any, **options: Any) -> Any:
        import torch

        if len(latents) <= size or others or not options.keys() <= _DIVISIBLE:
            return decode(latents, *others, **options)
        draws, parts = options.pop("generator", None), []
        for at in range(0, len(latents), size):
            own = {} if draws is None else {"generator": draws[at : at + size] if isinstance(draws, list) else draws}
            parts.append(decode(latents[at : at + size], **options, **own))
        if options.get("return_dict", True):
            return type(parts[0])(sample=torch.cat([part.sample for part in parts]))
        return (torch.cat([part[0] for part in parts]),)

    return grouped


def undisguised(decode: Callable[..., Any]) -> Callable[..., Any]:
    """``decode``, but what is infinite is not a number: the pipeline would clamp infinity to white, which scores."""

    def told(*arguments: Any, **options: Any) -> Any:
        made = decode(*arguments, **options)
        values = made[0] if isinstance(made, tuple) else made.sample
        values.masked_fill_(values.isinf(), float("nan"))
        return made

    return told


def compile_heavy(pipeline: Any) -> None:
    """Compile denoiser and decoder, which do nearly all the work, when they are first called."""
    import torch

    for module in _parts(pipeline, (*DENOISERS, *DECODERS)):
        module.to(memory_format=torch.channels_last)
    decoders = [getattr(module, "decoder", None) for module in _parts(pipeline, DECODERS)]
    for module in (*_parts(pipeline, DENOISERS), *decoders):
        if module is not None:
            module.compile(dynamic=False, **COMPILE)


def _parts(pipeline: Any, names: tuple[str, ...]) -> list[Any]:
    found = (getattr(pipeline, name, None) for name in names)
    return [module for module in found if module is not None]
