"""Painters over ``diffusers`` text-to-image pipelines: Stable Diffusion 1, 2, XL, turbo, or your own.

A pipeline is loaded only when a picture is missing: its fingerprint is remembered between runs as long as its files do
not change. Pictures are decoded in groups, and the denoiser can be compiled on a GPU.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from captious._core.files import digest, get_data_folder, load_json, write_atomically
from captious._core.types import Bools
from captious.errors import InputError, format_one_line, format_suggestion, require
from captious.models.devices import get_torch_dtype, hash_weights, quiet, resolve_device, resolve_precision
from captious.models.hub import REPOSITORY, Unreachable, fetch, find_local, get_weights_folder
from captious.models.painters import PaintedBatch, Painter, PainterOptions, Prompt, as_pixels
from captious.models.pipeline import OomBackoff
from captious.models.store import get_file_state
from captious.options import get_runtime


def compute_fingerprint(parts: Mapping[str, Any], settings: str) -> str:
    """Return twelve digits over the modules, schedulers and tokenizers of a painter, and its settings."""
    contents = [f"{name}={_hash_part(part)}".encode() for name, part in sorted(parts.items()) if part is not None]
    return digest(settings.encode(), *contents)


def _hash_part(part: Any) -> str:
    if hasattr(part, "state_dict") and hasattr(part, "parameters"):
        return hash_weights(part, dtypes=True).hex() + _describe_config(part)
    if hasattr(part, "get_vocab"):
        return hashlib.blake2b(repr(sorted(part.get_vocab().items())).encode(), digest_size=16).hexdigest()
    return _describe_config(part)


def _describe_config(part: Any) -> str:
    """Return class and configuration as text, without entries that differ between library versions and folders."""
    config = getattr(part, "config", {})
    entries = config.to_dict() if hasattr(config, "to_dict") else dict(config) if isinstance(config, Mapping) else {}
    plain = {key: value for key, value in entries.items() if not key.startswith("_") and "version" not in key}
    return type(part).__name__ + json.dumps(plain, sort_keys=True, default=str)


# Pictures decoded at a time: enough to keep a GPU busy, with little memory compared to the denoiser.
DECODED = 8
DECODERS, DENOISERS = ("vae", "movq", "vqvae"), ("unet", "transformer")
# Options of torch.compile; `max-autotune-no-cudagraphs` takes minutes longer.
COMPILE: dict[str, Any] = {"mode": "default"}
# Arguments of `decode` that do not depend on the number of pictures, or can be split with them.
_DIVISIBLE = {"return_dict", "generator", "force_not_quantize"}


def prepare_pipeline(pipeline: Any, device: Any, compile: bool) -> None:
    """Move the pipeline to the device, in the form that computes fastest there."""
    if compile and device.type != "cuda":
        raise InputError("compile is for a GPU; leave it out")
    pipeline.to(device)
    for module in _get_modules(pipeline, DECODERS):
        module.decode = decode_in_groups(mark_infinite(module.decode))
    if compile:
        compile_modules(pipeline)


def decode_in_groups(decode: Callable[..., Any], size: int = DECODED) -> Callable[..., Any]:
    """Wrap ``decode`` of a diffusers model so that it decodes at most ``size`` pictures at a time."""

    def decode_groups(latents: Any, *others: Any, **options: Any) -> Any:
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

    return decode_groups


def mark_infinite(decode: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``decode`` so that infinite values become NaN: the pipeline would clamp them to white, which scores."""

    def decode_marked(*arguments: Any, **options: Any) -> Any:
        output = decode(*arguments, **options)
        values = output[0] if isinstance(output, tuple) else output.sample
        values.masked_fill_(values.isinf(), float("nan"))
        return output

    return decode_marked


def compile_modules(pipeline: Any) -> None:
    """Compile denoiser and decoder, which do nearly all the work, on their first call."""
    import torch

    for module in _get_modules(pipeline, (*DENOISERS, *DECODERS)):
        module.to(memory_format=torch.channels_last)
    decoders = [getattr(module, "decoder", None) for module in _get_modules(pipeline, DECODERS)]
    for module in (*_get_modules(pipeline, DENOISERS), *decoders):
        if module is not None:
            module.compile(dynamic=False, **COMPILE)


def _get_modules(pipeline: Any, names: tuple[str, ...]) -> list[Any]:
    modules = (getattr(pipeline, name, None) for name in names)
    return [module for module in modules if module is not None]


STEPS, GUIDANCE = 50, 7.5
TOKENIZERS = ("tokenizer", "tokenizer_2", "tokenizer_3")
# Largest batch on a GPU, and on a CPU: there larger batches are no faster, and an interrupted run would lose hours.
MOST, FEW = 64, 8


@dataclass(eq=False)
class Diffusion:
    """A :class:`captious.models.painters.Painter` over a diffusion pipeline, made by :func:`load_diffusion`."""

    name: str
    fingerprint: str
    settings: str
    shape: tuple[int, int, int]
    pipeline: Any = field(repr=False)
    call: dict[str, Any]
    """Arguments of every call of the pipeline."""
    compiled: bool = False
    most: int = MOST
    cache_pictures: bool = True
    widest: int = 0
    """The largest batch so far: a compiled model would be compiled again for another size, so smaller ones are filled
    up with the last prompt."""
    pace: OomBackoff = field(default_factory=lambda: OomBackoff(lambda line: None))

    def exceeds_limit(self, texts: Sequence[str]) -> Bools:
        """Return a mask of the texts that are longer than the limit of every tokenizer of the pipeline."""
        return find_too_long([getattr(self.pipeline, name, None) for name in TOKENIZERS], texts)

    def paint(self, prompts: Sequence[Prompt]) -> Iterator[PaintedBatch]:
        """Paint the prompts in batches."""
        runtime = get_runtime()
        self.pace.log = lambda line: runtime.log(f"painting: {line}")
        size = min(runtime.batch, self.most)
        for start in range(0, len(prompts), size):
            part = prompts[start : start + size]
            pixels, codes = as_pixels(self.pace.start(self._begin, part)())
            yield PaintedBatch(list(range(start, start + len(part))), pixels, codes)

    def _begin(self, prompts: Sequence[Prompt]) -> Any:
        import torch

        filled = list(prompts)
        if self.compiled:
            self.widest = min(max(self.widest, len(prompts)), self.pace.largest)
            filled += filled[-1:] * (self.widest - len(prompts))
        generators = [torch.Generator("cpu").manual_seed(prompt.seed) for prompt in filled]
        texts = [prompt.text for prompt in filled]
        with torch.no_grad(), quiet():
            try:
                output = self.pipeline(prompt=texts, generator=generators, output_type="np", **self.call)
            except ValueError as error:  # such as a size that is no multiple of eight
                line = format_one_line(error)
                raise InputError(f"painter {self.name!r}: its pipeline refuses {self.settings} ({line})") from None
        values = np.asarray(output.images, np.float32)[: len(prompts)]
        if values.shape[1:] != self.shape:
            raise InputError(f"painter {self.name!r}: gave pictures of shape {values.shape[1:]}, expected {self.shape}")
        flagged = getattr(output, "nsfw_content_detected", None)
        if flagged:  # as the filter itself does; its code is that of a black picture
            values[np.asarray(flagged[: len(prompts)], bool)] = 0.0
        return lambda: values


def find_too_long(tokenizers: Sequence[Any], texts: Sequence[str]) -> Bools:
    """Return a mask of the texts that are too long for every tokenizer."""
    limited = [part for part in tokenizers if part is not None and part.model_max_length < 10**6]
    if not limited or not texts:
        return np.zeros(len(texts), np.bool_)
    reader = max(limited, key=lambda part: part.model_max_length)
    with quiet():
        ids = reader(list(texts), truncation=False, padding=False)["input_ids"]
    return np.array([len(row) > reader.model_max_length for row in ids], np.bool_)


T = TypeVar("T")
EXTRA = "imagine"


def import_diffusers() -> Any:
    """Import diffusers with its warnings and progress bars switched off."""
    require("torch", EXTRA)
    with quiet():
        library = require("diffusers", EXTRA)
        library.utils.logging.set_verbosity_error()
        library.utils.logging.disable_progress_bar()
    return library


def open_model(name: str, index: str, load: Callable[[str, bool], T]) -> T:
    """Load a model from a folder with the file ``index``, or by hub id: from the hub's cache, else from the hub.

    ``load`` gets the folder or the id, and whether it must stay offline.
    """
    folder = find_local(name)
    if folder is not None and not (folder / index).is_file():
        raise InputError(f"painter {name!r}: {folder} has no {index}, expected a folder in the layout of diffusers")
    if folder is not None:
        return _load(name, lambda: load(str(folder), True))
    if name.startswith(".") or not REPOSITORY.fullmatch(name):
        raise InputError(
            f"painter {name!r}: no such folder, expected one, a hub id (owner/name), guided:DECODER or module:attribute"
        )
    with suppress(OSError, ValueError):  # not in the cache, or not whole
        return load(name, True)
    try:
        # One request to the hub: diffusers would retry for half a minute, then report a missing file.
        if fetch(name, (index,), lambda folder: (folder / index).is_file(), f"painter {name!r}") is None:
            raise InputError(f"painter {name!r}: the hub repository has no {index}")
    except Unreachable:
        raise InputError(
            f"painter {name!r}: not on this machine, and the hub cannot be reached; download huggingface.co/{name} "
            f"whole, put it at {get_weights_folder() / name}/, or anywhere and give its path as painter"
        ) from None
    return _load(name, lambda: load(name, False))


def _load(name: str, load: Callable[[], T]) -> T:
    try:
        return load()
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, TypeError) as error:
        line = format_one_line(error)
        raise InputError(f"painter {name!r}: cannot be loaded ({line})") from None


def load_diffusion(name: str, options: PainterOptions) -> Diffusion:
    """Load the painter of a folder or hub id."""
    options.refuse(name, "steps", "guidance", "scheduler", "size", "safety", "compile")
    library, runtime = import_diffusers(), get_runtime()
    device = resolve_device(runtime.device)
    precision = resolve_precision(device, runtime.precision)

    def load(path: str, offline: bool) -> Any:
        with quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # the name of this argument differs between versions
            return library.DiffusionPipeline.from_pretrained(
                path, torch_dtype=get_torch_dtype(precision), local_files_only=offline
            )

    pipeline = open_model(name, "model_index.json", load)
    legal = inspect.signature(type(pipeline).__call__).parameters
    if "prompt" not in legal or "generator" not in legal or "output_type" not in legal:
        raise InputError(f"painter {name!r}: {type(pipeline).__name__} is not a text-to-image pipeline")
    pipeline.set_progress_bar_config(disable=True)
    if not options.safety and getattr(pipeline, "safety_checker", None) is not None:
        pipeline.register_modules(safety_checker=None)
    if options.scheduler is not None:
        pipeline.scheduler = _make_scheduler(library, options.scheduler, pipeline.scheduler.config)
    side = options.size or _get_side(pipeline)
    steps, guidance = options.steps or STEPS, GUIDANCE if options.guidance is None else options.guidance
    wanted = {"num_inference_steps": steps, "guidance_scale": guidance, "height": side, "width": side}
    call = {key: value for key, value in wanted.items() if key in legal}
    settings = (
        f"steps={steps},guidance={guidance:g},scheduler={type(pipeline.scheduler).__name__},size={side},"
        f"precision={precision},safety={'yes' if options.safety else 'no'}"
    )
    # The fingerprint comes first: moving or compiling modules would change it.
    mark = compute_fingerprint(pipeline.components, f"{settings},{_describe_pipeline(pipeline)}")
    prepare_pipeline(pipeline, device, options.compile)
    most = MOST if device.type == "cuda" else FEW
    return Diffusion(_get_name(name), mark, settings, (side, side, 3), pipeline, call, options.compile, most=most)


def _describe_pipeline(pipeline: Any) -> str:
    """Return class and settings of the pipeline, such as ``force_zeros_for_empty_prompt``, without its modules."""
    own = {key: value for key, value in pipeline.config.items() if not isinstance(value, (list, tuple))}
    plain = {key: value for key, value in own.items() if not key.startswith("_")}
    return type(pipeline).__name__ + json.dumps(plain, sort_keys=True, default=str)


def _get_side(pipeline: Any) -> int:
    """Return the side of the square that the model was trained for, in pixels."""
    side = getattr(pipeline, "default_sample_size", None)
    if side is None:
        model = getattr(pipeline, "unet", None) or getattr(pipeline, "transformer", None)
        side = getattr(getattr(model, "config", None), "sample_size", None)
    if not isinstance(side, int):
        return 512
    return side * int(getattr(pipeline, "vae_scale_factor", 1))


def _make_scheduler(library: Any, name: str, config: Any) -> Any:
    schedulers = [one for one in dir(library) if one.endswith("Scheduler")]
    if name not in schedulers:
        hint = format_suggestion(name, schedulers)
        raise InputError(f"unknown scheduler {name!r}, expected one of diffusers, such as DDIMScheduler{hint}")
    with quiet():
        return getattr(library, name).from_config(config)


def _get_name(name: str) -> str:
    """Return the last part of a folder's path, or a hub id unchanged."""
    path = find_local(name)
    return path.resolve().name if path is not None else name


# Version of the cached facts; increase it if fingerprints are computed differently.
FORMAT = "2"


@dataclass(eq=False)
class LazyPipeline:
    """A :class:`captious.models.painters.Painter` whose pipeline is loaded when the first picture is wanted."""

    name: str
    fingerprint: str
    settings: str
    shape: tuple[int, int, int]
    folder: Path
    load: Callable[[], Diffusion] = field(repr=False)
    cache_pictures: bool = True

    @cached_property
    def painter(self) -> Diffusion:
        """The loaded pipeline."""
        pipeline = self.load()
        if pipeline.fingerprint != self.fingerprint:
            raise InputError(f"painter {self.name!r}: {self.folder} changed while it was in use; run it again")
        return pipeline

    @cached_property
    def tokenizers(self) -> list[Any]:
        """Tokenizers of the pipeline, loaded without its models."""
        index = load_json(self.folder / "model_index.json")
        named = {part: index[part] for part in TOKENIZERS if index.get(part, [None])[0]}
        if any(library != "transformers" for library, _ in named.values()):
            return [getattr(self.painter.pipeline, part) for part in named]
        library = require("transformers", "imagine")
        with quiet():
            return [getattr(library, kind).from_pretrained(self.folder / part) for part, (_, kind) in named.items()]

    def exceeds_limit(self, texts: Sequence[str]) -> Bools:
        """Return a mask of the texts that the pipeline would truncate; loads only its tokenizers."""
        return find_too_long(self.tokenizers, texts)

    def paint(self, prompts: Sequence[Prompt]) -> Iterator[PaintedBatch]:
        """Load the pipeline and paint the prompts."""
        if prompts:
            yield from self.painter.paint(prompts)


def open_pipeline(name: str, options: PainterOptions) -> Painter:
    """Open the pipeline of a folder or hub id; if the folder has not changed, it is not loaded until needed."""
    folder = find_local(name)
    state = None if folder is None else _hash_folder(folder, options)
    if folder is None or state is None:
        return load_diffusion(name, options)
    path = get_data_folder() / "painters" / f"{state}.json"
    with suppress(OSError, ValueError, TypeError, KeyError):  # absent or damaged: loaded again
        facts: dict[str, Any] = load_json(path)
        facts["shape"] = tuple(facts["shape"])
        return LazyPipeline(**facts, folder=folder, load=lambda: load_diffusion(name, options))
    pipeline = load_diffusion(name, options)
    facts = {key: getattr(pipeline, key) for key in ("name", "fingerprint", "settings", "shape")}
    with suppress(OSError), write_atomically(path) as draft:  # with a full disk the next run loads the pipeline again
        draft.write_text(json.dumps(facts), encoding="utf-8", newline="\n")
    return pipeline


def _hash_folder(folder: Path, options: PainterOptions) -> str | None:
    """Hash everything that changes the fingerprint; return None if a file may still change unnoticed."""
    runtime = get_runtime()
    entries = sorted(folder.rglob("*"))
    if not runtime.cache or any(entry.is_symlink() and entry.is_dir() for entry in entries):  # rglob skips these
        return None
    states = [get_file_state(str(entry)) for entry in entries if not entry.is_dir()]
    settled = [state for state in states if state is not None]
    if not settled or len(settled) < len(states):
        return None
    how = {**asdict(options), "precision": resolve_precision(resolve_device(runtime.device), runtime.precision)}
    return digest(FORMAT.encode(), json.dumps(how, sort_keys=True).encode(), *settled)
