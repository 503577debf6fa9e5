"""Encoder on torch: a ``transformers`` CLIP-family model with its tokenizer and image preparation.

Scoring goes through :meth:`TorchEncoder.image_features` and :meth:`TorchEncoder.text_features` (arrays, no gradients);
training goes through ``image_tensor`` and ``text_tensor`` (tensors, with gradients) on the same model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from captious._core.files import digest
from captious._core.types import Ints
from captious.errors import InputError, require
from captious.models._model_folders import format_differences, load_pretrained, read_json
from captious.models._model_tokenizers import SubwordTokenizer, put_lower_case_first, read_tokenizer
from captious.models._preprocess import ImagePreprocessing, Order
from captious.models.devices import get_torch_dtype, hash_weights, quiet, resolve_device, resolve_precision
from captious.models.encoder import Features, Pixels, Tokens
from captious.options import Runtime

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

    from captious.models.checkpoints import Lora


@dataclass(eq=False)
class TorchEncoder:
    """An :class:`captious.models.encoder.Encoder` in PyTorch, made by :func:`wrap`.

    After training, save and load it again.
    """

    name: str
    fingerprint: str
    precision: str
    dimension: int
    limit: int
    module: Any = field(repr=False)
    """The whole model, a ``torch.nn.Module`` with ``get_image_features`` and ``get_text_features``."""
    tokenizer: SubwordTokenizer = field(repr=False)
    preparation: ImagePreprocessing
    device: torch.device
    causal: bool
    """The text tower looks only backwards: padding cannot be seen, and texts with a common prefix share its states."""
    lora: Lora | None = None
    """How LoRA tensors were added to the weights, if the checkpoint has any."""

    _mean: torch.Tensor = field(init=False, repr=False)
    _std: torch.Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        torch = require("torch", "clip")
        with torch.inference_mode(False):  # training uses them too
            self._mean = torch.tensor(self.preparation.mean, device=self.device).view(1, 3, 1, 1)
            self._std = torch.tensor(self.preparation.std, device=self.device).view(1, 3, 1, 1)

    @property
    def pad(self) -> int:
        """Id of the padding token."""
        return self.tokenizer.pad

    @property
    def start(self) -> int:
        """Id of the start token, −1 if there is none."""
        return self.tokenizer.start

    @property
    def end(self) -> int:
        """Id of the end token."""
        return self.tokenizer.end

    @property
    def logit_scale(self) -> torch.nn.Parameter:
        """Logarithm of the factor on cosines in training."""
        return cast("torch.nn.Parameter", self.module.logit_scale)

    def prepare(self, picture: Image) -> Pixels:
        """Prepare an opened image: height × width × 3 bytes."""
        return self.preparation.prepare(picture)

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Tokenize a batch of texts."""
        return self.tokenizer(texts)

    def image_features(self, pixels: Pixels) -> Features:
        """Return the vectors of a batch of prepared images."""
        with require("torch", "clip").inference_mode():
            return _to_array(self.image_tensor(self.pixels_to_tensor(pixels)))

    def text_features(self, ids: Ints) -> Features:
        """Return the vectors of a batch of tokenized texts."""
        torch = require("torch", "clip")
        with torch.inference_mode():
            return _to_array(self.text_tensor(torch.from_numpy(np.ascontiguousarray(ids)).to(self.device)))

    def token_features(self, ids: Ints) -> Features:
        """Return the vectors of all tokens of a batch of tokenized texts; zeros behind the end token."""
        if not self.causal or getattr(self.module, "text_projection", None) is None:
            raise InputError(
                f"encoder {self.name}: has no vectors of tokens, expected a CLIP model, whose text projection applies "
                "to every token"
            )
        torch = require("torch", "clip")
        with torch.inference_mode():
            return _to_array(self.token_tensor(torch.from_numpy(np.ascontiguousarray(ids)).to(self.device)))

    def name_tokens(self, ids: Ints) -> list[str]:
        """Return the subwords of token ids, a space after the last one of a word."""
        return [self.tokenizer.backend.id_to_token(number).replace("</w>", " ") for number in ids.tolist()]

    def token_tensor(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the vectors of all tokens of CLIP texts, with gradients: texts × tokens × dimension."""
        states = self.module.text_model(input_ids=ids).last_hidden_state
        vectors = self.module.text_projection(states)
        return cast("torch.Tensor", vectors * self.attention_mask(ids)[..., None])

    def pixels_to_tensor(self, pixels: Pixels | torch.Tensor) -> torch.Tensor:
        """Convert bytes, n × height × width × 3, to the input of ``image_tensor``; bytes are copied, the device
        normalizes.
        """
        torch = require("torch", "clip")
        tensor = torch.as_tensor(pixels if _is_writeable(pixels) else np.array(pixels))
        channels_first = tensor.to(self.device, non_blocking=True).permute(0, 3, 1, 2)
        normal = self.normalize(channels_first.float() / 255)
        return normal.to(get_torch_dtype(self.precision)).contiguous()

    def normalize(self, values: torch.Tensor) -> torch.Tensor:
        """Normalize values from 0 to 1, n × 3 × height × width, with the mean and deviation of training."""
        return (values - self._mean) / self._std

    def image_tensor(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the features of normalized pixels, with gradients."""
        return _get_pooled(self.module.get_image_features(pixel_values=pixels))

    def text_tensor(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the features of token ids, with gradients."""
        if self.causal or self.tokenizer.full:
            return _get_pooled(self.module.get_text_features(input_ids=ids))
        return _get_pooled(self.module.get_text_features(input_ids=ids, attention_mask=self.attention_mask(ids)))

    def attention_mask(self, ids: torch.Tensor) -> torch.Tensor:
        """Return 1 for the tokens of a text, its first end token included, 0 for padding."""
        ends = (ids == self.end).long()
        return (ends.cumsum(1) == ends).long()

    def save(self, folder: str | Path) -> None:
        """Write model, tokenizer and preparation in ``transformers``' layout, for ``captious.models.loading.load``.

        The files are written straight into the folder: if a half-written one would matter, pass a draft of
        :func:`captious._core.files.whole_folder`.
        """
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        with quiet():
            self.module.save_pretrained(target)
        self.tokenizer.save(target)
        self.preparation.save(target)


def wrap(
    module: Any,
    tokenizer: SubwordTokenizer,
    preparation: ImagePreprocessing,
    name: str,
    device: str = "cpu",
    precision: str = "auto",
) -> TorchEncoder:
    """Make an encoder of a ``transformers`` model: CLIP, SigLIP or a vision-text dual encoder."""
    on = resolve_device(device)
    precision = resolve_precision(on, precision)
    module = module.float().eval()
    fingerprint = compute_fingerprint(module, preparation.text, tokenizer.text, precision)
    module = module.to(device=on, dtype=get_torch_dtype(precision))
    if on.type == "cuda":
        from captious.models._gpu.forward import speed_up

        speed_up(module)
    kind = module.config.model_type
    dimension = module.config.vision_config.hidden_size if kind == "siglip" else module.config.projection_dim
    return TorchEncoder(
        name=name,
        fingerprint=fingerprint,
        precision=precision,
        dimension=int(dimension),
        limit=tokenizer.limit,
        module=module,
        tokenizer=tokenizer,
        preparation=preparation,
        device=on,
        causal=kind == "clip",
    )


# Settings in the fingerprint; others differ between versions of the library.
ARCHITECTURE = (
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "hidden_act",
    "layer_norm_eps",
    "image_size",
    "patch_size",
    "max_position_embeddings",
    "eos_token_id",
    "vocab_size",
)


def compute_fingerprint(module: Any, *parts: str) -> str:
    """Return twelve digits over a model in fp32 and everything else that changes its features.

    Equal for a checkpoint, the same saved in another layout, and the same loaded again.
    """
    return digest(hash_weights(module), describe_architecture(module).encode(), *(part.encode() for part in parts))


def describe_architecture(module: Any) -> str:
    """Return the shape of a model as one string, equal for a model that was saved and loaded again."""
    config = module.config
    parts = {
        tower: {key: _as_list(getattr(getattr(config, tower, None), key, None)) for key in ARCHITECTURE}
        for tower in ("text_config", "vision_config")
    }
    return json.dumps({"model_type": config.model_type, **parts}, sort_keys=True)


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, (list, tuple)) else value


def _get_pooled(output: Any) -> torch.Tensor:
    """Return the features, which ``transformers`` 5 wraps in an object."""
    return cast("torch.Tensor", getattr(output, "pooler_output", output))


def _is_writeable(pixels: Pixels | torch.Tensor) -> bool:
    """Return False for read-only arrays, about which torch warns."""
    return not isinstance(pixels, np.ndarray) or pixels.flags.writeable


def _to_array(features: torch.Tensor) -> Features:
    return cast(Features, features.float().cpu().numpy())


# The class in `transformers` for a `model_type`.
MODELS = {
    "clip": "CLIPModel",
    "siglip": "SiglipModel",
    "vision-text-dual-encoder": "VisionTextDualEncoderModel",
}
# Suffixes of keys that older versions saved although they are no weights.
NOT_WEIGHTS = ("position_ids", "num_batches_tracked")


def load_folder(
    folder: Path, name: str, runtime: Runtime, order: str | None = None, case: Literal["lower"] | None = None
) -> TorchEncoder:
    """Load the encoder of a folder."""
    kind = read_json(folder / "config.json").get("model_type")
    if kind == "siglip2":
        raise InputError(
            f"{folder / 'config.json'}: model_type is 'siglip2', a NaFlex model; take a FixRes one, such as "
            "google/siglip2-base-patch16-224"
        )
    if kind not in MODELS:
        raise InputError(f"{folder / 'config.json'}: model_type is {kind!r}, expected one of {', '.join(MODELS)}")
    module, report = load_pretrained(folder, MODELS[kind], ignore_mismatched_sizes=True)
    missing = [key for key in report["missing_keys"] if not key.endswith(NOT_WEIGHTS)]
    shaped = [entry[0] if isinstance(entry, (tuple, list)) else entry for entry in report["mismatched_keys"]]
    if missing or shaped:
        raise InputError(
            f"{folder}: its weights are not those of its config.json: {format_differences(missing, [], shaped)}"
        )
    text, vision = module.config.text_config, module.config.vision_config
    # RoBERTa's position table has two rows more than its token limit, so the tokenizer's limit is used.
    tokenizer = read_tokenizer(folder, int(text.max_position_embeddings), own_limit=kind != "clip")
    if kind == "siglip":
        tokenizer = replace(tokenizer, full=True)
    if kind == "clip":
        check_end(module, tokenizer, str(folder))
    if case == "lower":
        put_lower_case_first(tokenizer)
    side = vision.image_size if isinstance(vision.image_size, int) else vision.image_size[0]
    usual: Order = "crop-first" if kind == "clip" else "rgb-first"
    preparation = ImagePreprocessing.read(folder, ImagePreprocessing(size=side, crop=side, order=usual), usual)
    if order is not None and kind == "clip":
        preparation = replace(preparation, order=cast(Order, order))
    return wrap(module, tokenizer, preparation, name, runtime.device, runtime.precision)


def check_end(module: Any, tokenizer: SubwordTokenizer, where: str) -> None:
    """Raise InputError if model and tokenizer differ in the end token, at which a text's feature is read.

    An ``eos_token_id`` of 2 is a mistake in old CLIP configurations, which ``transformers`` reads as "the largest id".
    """
    expected = module.config.text_config.eos_token_id
    largest = tokenizer.backend.get_vocab_size() - 1
    if expected == 2 and tokenizer.end != largest:
        raise InputError(
            f"{where}: eos_token_id is 2, which transformers takes for the largest id of a text, "
            f"but the tokenizer ends texts with {tokenizer.end} of {largest + 1} tokens"
        )
    if expected not in (2, tokenizer.end):
        raise InputError(f"{where}: the model looks for the end token {expected}, the tokenizer writes {tokenizer.end}")
