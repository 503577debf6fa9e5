"""Loading of any encoder by name, folder or file, once per process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from captious._core.files import expand_home
from captious.errors import InputError
from captious.models.encoder import Encoder, Weights, find_given_encoder, load_installed_encoder
from captious.models.hub import ModelRegistry, find, find_local, get_file_stats
from captious.options import Runtime, get_runtime

if TYPE_CHECKING:
    from captious.models._preprocess import Order
    from captious.models.checkpoints import LoraRule
    from captious.models.clip import TorchEncoder


MINI = ("captious-mini", "captious-mini-specs")
# File that marks the folder of a dual encoder.
DUAL_MARKER = "captious-encoder.json"
ACTIVATIONS = ("gelu", "quick_gelu")

_LOADED: ModelRegistry[Encoder] = ModelRegistry(limit=4)


def load(
    weights: Weights,
    activation: str | None = None,
    order: str | None = None,
    lora: LoraRule | None = None,
    case: Literal["lower"] | None = None,
) -> Encoder:
    """Load the encoder of ``weights`` with the device and precision of the current runtime.

    An encoder object is returned unchanged. A name is ``captious-mini``, one that an installed package provides, a hub
    id, a folder in ``transformers``' layout, or a checkpoint file of OpenAI's CLIP, PAC-S, LongCLIP or SPECS.
    ``activation`` (``gelu`` for files trained by OpenCLIP on LAION) replaces ``quick_gelu``. ``order`` replaces a
    CLIP's order of image preparation, which is the references' ``crop-first`` unless its folder specifies another.
    Models of other families keep the preparation they were trained with. ``lora`` says which LoRA tensors of a
    checkpoint file are added to its weights: ``no-mlp`` for PAC-S++, ``all`` for DAC. ``case="lower"`` puts texts in
    lower case, for folders of SigLIP 2 whose tokenizer keeps capitals.
    """
    options = FileOptions(activation, lora, case)
    given = find_given_encoder(weights)
    if given is not None:
        options.refuse(given.name)
        return cast(Encoder, given)
    weights = cast(str, weights)
    encoder = _load_once(weights, options, None)
    return encoder if order is None or not _has_other_order(encoder, order) else _load_once(weights, options, order)


@dataclass(frozen=True)
class FileOptions:
    """Options that only a checkpoint file takes, because a model folder specifies them itself, and that of a folder."""

    activation: str | None = None
    lora: LoraRule | None = None
    case: Literal["lower"] | None = None

    def refuse_case(self, where: str) -> None:
        """Raise InputError if ``case`` is set: ``where`` is not a model folder, whose tokenizer may keep capitals."""
        if self.case is not None:
            raise InputError(f"{where}: case={self.case} is for model folders, such as those of SigLIP 2")

    def refuse(self, where: str, is_folder: bool = False) -> None:
        """Raise InputError if an option is set: ``where`` is not a checkpoint file."""
        if not is_folder:
            self.refuse_case(where)
        if self.activation is not None:
            raise InputError(
                f"{where}: activation={self.activation} is for checkpoint files; a model folder says its own"
            )
        if self.lora is not None:
            raise InputError(f"{where}: is not a checkpoint file with LoRA tensors, such as those of PAC-S++ and DAC")


def _load_once(weights: str, options: FileOptions, order: str | None) -> Encoder:
    runtime = get_runtime()
    key = (weights, get_file_stats(find_local(weights)), runtime.device, runtime.precision, options, order)
    return _LOADED.get(key, lambda: _load(weights, runtime, options, order))


def _has_other_order(encoder: Encoder, order: str) -> bool:
    """Return True if an encoder must be loaded again for this order: a CLIP that was loaded with another one."""
    config = getattr(getattr(encoder, "module", None), "config", None)
    preparation = getattr(encoder, "preparation", None)
    return getattr(config, "model_type", "") == "clip" and getattr(preparation, "order", order) != order


def load_trainable(weights: str, device: str = "auto", activation: str | None = None) -> TorchEncoder:
    """Load a fresh copy in fp32 whose weights may be changed; never the cached one of :func:`load`."""
    from captious.models.clip import TorchEncoder, load_folder

    runtime = Runtime(device=device, precision="fp32")
    if weights in MINI:
        from captious.models.mini import get_mini_folder

        return load_folder(get_mini_folder(weights), weights, runtime)
    encoder = _load(weights, runtime, FileOptions(activation), None)
    if not isinstance(encoder, TorchEncoder):
        raise InputError(
            f"weights {weights!r}: is not a model that torch can train, expected a CLIP folder or checkpoint"
        )
    return encoder


def _load(weights: str, runtime: Runtime, options: FileOptions, order: str | None) -> Encoder:
    if options.activation not in (None, *ACTIVATIONS):
        raise InputError(f"activation {options.activation!r}: expected one of {', '.join(ACTIVATIONS)}")
    if weights in MINI:
        options.refuse(weights)
        from captious.models.mini import load_mini

        return load_mini(weights, runtime)
    installed = load_installed_encoder(weights, runtime)
    if installed is not None:
        options.refuse(weights)
        return cast(Encoder, installed)
    from captious.models.devices import resolve_device

    resolve_device(runtime.device)  # raises for an unknown device now, not after a download of many minutes
    path = find(weights)
    name = weights if not expand_home(weights).exists() else path.resolve().name
    if path.is_file():
        options.refuse_case(str(path))
        return _load_file(path, name, runtime, options, order)
    options.refuse(str(path), is_folder=True)
    if (path / DUAL_MARKER).is_file():
        from captious.models.dual import load_dual

        options.refuse_case(str(path))
        return load_dual(path, name, runtime)
    from captious.models.clip import load_folder

    return load_folder(path, name, runtime, order, options.case)


def _load_file(path: Path, name: str, runtime: Runtime, options: FileOptions, order: str | None) -> TorchEncoder:
    """Load a checkpoint of OpenAI's layout, with the image preparation of OpenAI's code."""
    from captious.models._model_tokenizers import find_clip_tokenizer
    from captious.models._preprocess import ImagePreprocessing
    from captious.models.checkpoints import fold_lora, from_openai, read_checkpoint
    from captious.models.clip import check_end, wrap

    tensors, lora = fold_lora(read_checkpoint(path), options.lora, str(path))
    module = from_openai(tensors, str(path), options.activation or "quick_gelu")
    tokenizer = find_clip_tokenizer(path.parent, module.config.text_config.max_position_embeddings)
    check_end(module, tokenizer, str(path))
    side = module.config.vision_config.image_size
    preparation = ImagePreprocessing(size=side, crop=side, order=cast("Order", order or "crop-first"))
    encoder = wrap(module, tokenizer, preparation, name, runtime.device, runtime.precision)
    return replace(encoder, lora=lora) if lora else encoder
