"""Any ``diffusers`` text-to-image pipeline as a painter: Stable Diffusion 1, 2, XL, turbo, or your own.

Each picture has a generator of its own on the CPU, so it does not depend on what it is painted with nor on the device's
own random numbers. All texts of a seed start from the same noise. Batches over texts and seeds are halved where memory
runs out; how they are computed is in :mod:`captious.imagine.acceleration`.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.encoders.devices import device_called, number_type, precision_on, quiet
from captious.encoders.pace import Pace
from captious.encoders.runtime import current
from captious.errors import InputError, nearest
from captious.imagine.acceleration import settle
from captious.imagine.fingerprints import fingerprint
from captious.imagine.painters import Options, Painted, Wish, as_pixels
from captious.imagine.places import diffusers, opened

STEPS, GUIDANCE = 50, 7.5
TOKENISERS = ("tokenizer", "tokenizer_2", "tokenizer_3")
MOST, FEW = 64, 8
"""Pictures painted at a time on a GPU, and elsewhere, where more cost memory and gain nothing, and a kill would lose
hours; ``--batch`` may ask for fewer, and memory may force fewer."""


@dataclass(eq=False)
class Diffusion:
    """See :class:`captious.imagine.painters.Painter`. Made by :func:`load_diffusion`."""

    name: str
    fingerprint: str
    settings: str
    shape: tuple[int, int, int]
    pipeline: Any = field(repr=False)
    call: dict[str, Any]
    """What every call of the pipeline is given."""
    compiled: bool = False
    most: int = MOST
    kept: bool = True
    widest: int = 0
    """The largest batch so far: a compiled model would be compiled again for another size, so smaller ones are filled
    up with the last wish."""
    pace: Pace = field(default_factory=lambda: Pace(lambda line: None))

    def cut(self, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Those beyond the limit of every tokeniser of the pipeline."""
        return beyond([getattr(self.pipeline, name, None) for name in TOKENISERS], texts)

    def paint(self, wishes: Sequence[Wish]) -> Iterator[Painted]:
        """Paint in batches."""
        runtime = current()
        self.pace.log = lambda line: runtime.log(f"painting: {line}")
        size = min(runtime.batch, self.most)
        for start in range(0, len(wishes), size):
            part = wishes[start : start + size]
            pixels, codes = as_pixels(self.pace.start(self._begin, part)())
            yield Painted(list(range(start, start + len(part))), pixels, codes)

    def _begin(self, wishes: Sequence[Wish]) -> Any:
        import torch

        filled = list(wishes)
        if self.compiled:
            self.widest = min(max(self.widest, len(wishes)), self.pace.most)
            filled += filled[-1:] * (self.widest - len(wishes))
        generators = [torch.Generator("cpu").manual_seed(wish.seed) for wish in filled]
        texts = [wish.text for wish in filled]
        with torch.no_grad(), quiet():
            try:
                made = self.pipeline(prompt=texts, generator=generators, output_type="np", **self.call)
            except ValueError as error:  # such as a size that is no multiple of eight
                line = " ".join(str(error).split())[:160]
                raise InputError(f"painter {self.name!r}: its pipeline refuses {self.settings} ({line})") from None
        values = np.asarray(made.images, np.float32)[: len(wishes)]
        if values.shape[1:] != self.shape:
            raise InputError(f"painter {self.name!r}: gave pictures of shape {values.shape[1:]}, expected {self.shape}")
        flagged = getattr(made, "nsfw_content_detected", None)
        if flagged:  # as the filter itself does; its code is that of a black picture
            values[np.asarray(flagged[: len(wishes)], bool)] = 0.0
        return lambda: values


def beyond(tokenisers: Sequence[Any], texts: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Texts longer than any of the tokenisers reads."""
    known = [part for part in tokenisers if part is not None and part.model_max_length < 10**6]
    if not known or not texts:
        return np.zeros(len(texts), np.bool_)
    reader = max(known, key=lambda part: part.model_max_length)
    with quiet():
        ids = reader(list(texts), truncation=False, padding=False)["input_ids"]
    return np.array([len(row) > reader.model_max_length for row in ids], np.bool_)


def load_diffusion(name: str, options: Options) -> Diffusion:
    """The painter of a folder or hub id."""
    options.refuse(name, "steps", "guidance", "scheduler", "size", "safety", "compile")
    library, runtime = diffusers(), current()
    device = device_called(runtime.device)
    precision = precision_on(device, runtime.precision)

    def load(place: str, offline: bool) -> Any:
        with quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # the name of this argument differs between versions
            return library.DiffusionPipeline.from_pretrained(
                place, torch_dtype=number_type(precision), local_files_only=offline
            )

    pipeline = opened(name, "model_index.json", load)
    legal = inspect.signature(type(pipeline).__call__).parameters
    if "prompt" not in legal or "generator" not in legal or "output_type" not in legal:
        raise InputError(f"painter {name!r}: {type(pipeline).__name__} is no text-to-image pipeline")
    pipeline.set_progress_bar_config(disable=True)
    if not options.safety and getattr(pipeline, "safety_checker", None) is not None:
        pipeline.register_modules(safety_checker=None)
    if options.scheduler is not None:
        pipeline.scheduler = _scheduler(library, options.scheduler, pipeline.scheduler.config)
    side = options.size or _side(pipeline)
    steps, guidance = options.steps or STEPS, GUIDANCE if options.guidance is None else options.guidance
    wanted = {"num_inference_steps": steps, "guidance_scale": guidance, "height": side, "width": side}
    call = {key: value for key, value in wanted.items() if key in legal}
    settings = (
        f"steps={steps},guidance={guidance:g},scheduler={type(pipeline.scheduler).__name__},size={side},"
        f"precision={precision},safety={'yes' if options.safety else 'no'}"
    )
    mark = fingerprint(pipeline.components, f"{settings},{_own(pipeline)}")  # before modules are moved or compiled
    settle(pipeline, device, options.compile)
    most = MOST if device.type == "cuda" else FEW
    return Diffusion(_called(name), mark, settings, (side, side, 3), pipeline, call, options.compile, most=most)


def _own(pipeline: Any) -> str:
    """The kind of pipeline and what is set of itself, such as ``force_zeros_for_empty_prompt``; its parts aside."""
    own = {key: value for key, value in pipeline.config.items() if not isinstance(value, (list, tuple))}
    plain = {key: value for key, value in own.items() if not key.startswith("_")}
    return type(pipeline).__name__ + json.dumps(plain, sort_keys=True, default=str)


def _side(pipeline: Any) -> int:
    """The side of the square that the model was trained for."""
    side = getattr(pipeline, "default_sample_size", None)
    if side is None:
        model = getattr(pipeline, "unet", None) or getattr(pipeline, "transformer", None)
        side = getattr(getattr(model, "config", None), "sample_size", None)
    if not isinstance(side, int):
        return 512
    return side * int(getattr(pipeline, "vae_scale_factor", 1))


def _scheduler(library: Any, name: str, config: Any) -> Any:
    known = [one for one in dir(library) if one.endswith("Scheduler")]
    kind = getattr(library, name, None) if name in known else None
    if kind is None:
        raise InputError(
            f"unknown scheduler {name!r}, expected one of diffusers, such as DDIMScheduler{nearest(name, known)}"
        )
    with quiet():
        return kind.from_config(config)


def _called(name: str) -> str:
    """A folder by its last part, a hub id as it is."""
    from captious.encoders.places import local

    place = local(name)
    return place.resolve().name if place is not None else name
