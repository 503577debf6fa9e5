"""Polos: a RoBERTa, a CLIP and a small network that together rate a caption against its image and a reference.

A model is a folder with the authors' checkpoint (``reprod.ckpt``, or its tensors as ``state_dict.safetensors``) and
``hparams.yaml`` or ``hparams.json``. The RoBERTa's ``config.json`` and tokenizer are in its subfolder ``text_encoder``;
otherwise they come from the hub. CLIP's tokenizer is in ``clip_tokenizer``, or where other checkpoints find it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.files import digest, read_regular
from captious._core.types import Floats, Ints
from captious.errors import InputError, format_one_line, require
from captious.models._model_folders import read_json, refuse_different
from captious.models._model_tokenizers import SubwordTokenizer, find_clip_tokenizer, read_roberta, read_tokenizer
from captious.models._preprocess import ImagePreprocessing
from captious.models.checkpoints import from_openai, read_tensors
from captious.models.clip import TorchEncoder, check_end, wrap
from captious.models.devices import get_torch_dtype, hash_weights, resolve_device, resolve_precision
from captious.models.encoder import Features, Tokens
from captious.models.hub import SUFFIXES, ModelRegistry, find_local, find_model, get_file_stats
from captious.options import Runtime, get_runtime

if TYPE_CHECKING:
    import torch

SIMCSE = "princeton-nlp/sup-simcse-roberta-base"
TEXT_FILES = "config.json and tokenizer.json (or vocab.json and merges.txt)"
FILES = "reprod.ckpt and hparams.yaml of the authors' reprod.zip"
# Width of CLIP's features in the authors' code, whatever the CLIP.
CLIP_WIDTH = 512
# Parts of the input of the network: four of RoBERTa's width, six of CLIP's.
TEXT_PARTS, CLIP_PARTS = 4, 6
# The settings of the published model, which are the ones that captious computes.
SETTINGS = {"layer": "mix", "pool": "cls", "activations": "Tanh", "final_activation": False}
# Added to the variance of a layer.
EPSILON = 1e-12

_LOADED: ModelRegistry[PolosModel] = ModelRegistry(limit=2)


@dataclass(eq=False)
class SentenceTower:
    """RoBERTa with a mixture of its layers: a `captious.models.TextEncoder` of sentence vectors."""

    name: str
    fingerprint: str
    precision: str
    dimension: int
    limit: int
    module: Any = field(repr=False)
    tokenizer: SubwordTokenizer = field(repr=False)
    weights: torch.Tensor = field(repr=False)
    """Factor of each layer, the embeddings first: the softmax of the scalars, times gamma."""

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Tokenize a batch of texts."""
        return self.tokenizer(texts)

    def text_features(self, ids: Ints) -> Features:
        """Return the vector of each text, as if it were in a batch of its own."""
        return self._mix_layers(ids, together=False)

    def batch_features(self, texts: Sequence[str]) -> Features:
        """Return the vector of each text in one batch, whose texts are normalized together."""
        return self._mix_layers(self.tokenize(texts).ids, together=True)

    def _mix_layers(self, ids: Ints, together: bool) -> Features:
        """Normalize each layer, and return the weighted sum of the layers' states of the first token.

        Mean and variance of a layer are over tokens and dimensions: of each text, or of the batch if ``together``.
        """
        torch = require("torch", "clip")
        tokens = torch.from_numpy(np.ascontiguousarray(ids)).to(self.weights.device)
        mask = tokens != self.tokenizer.pad
        axes = (0, 1, 2) if together else (1, 2)
        with torch.inference_mode():
            states = self.module(input_ids=tokens, attention_mask=mask.long(), output_hidden_states=True).hidden_states
            inside = mask[..., None].float()
            count = inside.sum(axes, keepdim=True) * states[0].shape[-1]
            vectors = torch.zeros(len(tokens), states[0].shape[-1], device=tokens.device)
            for weight, layer in zip(self.weights, states, strict=True):
                layer = layer.float()
                mean = (layer * inside).sum(axes, keepdim=True) / count
                variance = (((layer - mean) * inside) ** 2).sum(axes, keepdim=True) / count
                vectors += weight * ((layer - mean) / (variance + EPSILON).sqrt())[:, 0]
        features: Features = vectors.cpu().numpy()
        return features


@dataclass(frozen=True, eq=False)
class PolosModel:
    """The three networks of Polos, made by :func:`load_polos`."""

    name: str
    fingerprint: str
    clip: TorchEncoder
    sentences: SentenceTower
    head: tuple[tuple[torch.Tensor, torch.Tensor], ...] = field(repr=False)
    """Weight and bias of the three linear layers."""

    @property
    def precision(self) -> str:
        """The precision of both encoders."""
        return self.clip.precision

    def rate(
        self,
        caption_vectors: Features,
        reference_vectors: Features,
        images: Features,
        captions: Features,
        references: Features,
    ) -> Floats:
        """Return a score from 0 to 1 for each row.

        The first two arguments are sentence vectors, the others CLIP's vectors.
        """
        torch = require("torch", "clip")
        device = self.sentences.weights.device
        # Sentence vectors of the caption m and the reference s; CLIP's of the image v, caption t and reference u.
        m, s, v, t, u = (
            torch.from_numpy(np.ascontiguousarray(rows, np.float64)).to(device)
            for rows in (caption_vectors, reference_vectors, images, captions, references)
        )
        parts = [s, m, (m - s).abs(), m * s, v, t, (v - t).abs(), v * t, (u - t).abs(), u * t]
        with torch.inference_mode():
            states = torch.cat(parts, dim=1)
            *inner, (weight, bias) = self.head
            for inner_weight, inner_bias in inner:
                states = torch.tanh(torch.nn.functional.linear(states, inner_weight, inner_bias))
            scores = torch.sigmoid(torch.nn.functional.linear(states, weight, bias))[:, 0]
        result: Floats = scores.cpu().numpy()
        return result


def load_polos(weights: str) -> PolosModel:
    """Load the model of a folder with the current runtime, once per process."""
    runtime, folder = get_runtime(), find_local(weights)
    if folder is None:  # the authors publish an archive, which is not on the hub
        raise InputError(f"weights {weights!r}: no such folder, expected one with {FILES}")
    key = (weights, get_file_stats(folder), runtime.device, runtime.precision)
    return _LOADED.get(key, lambda: _load(folder, runtime))


def _load(folder: Path, runtime: Runtime) -> PolosModel:
    if not folder.is_dir():
        raise InputError(f"{folder}: is a file, expected a folder with {FILES}")
    _check_settings(folder)
    path = _find_weights(folder)
    tensors = {key: value.float() for key, value in read_tensors(path).items() if value.is_floating_point()}
    device = resolve_device(runtime.device)
    clip = _load_clip(_select(tensors, "clip.", path), folder, path, runtime)
    sentences = _load_sentences(tensors, folder, path, runtime)
    layers = _read_head(tensors, sentences.dimension, path)
    fingerprint = digest(
        clip.fingerprint.encode(),
        sentences.fingerprint.encode(),
        *(tensor.numpy().tobytes() for layer in layers for tensor in layer),
    )
    # In double precision, so that a score does not depend on how many pairs are rated at a time.
    head = tuple((weight.double().to(device), bias.double().to(device)) for weight, bias in layers)
    return PolosModel(folder.resolve().name, fingerprint, clip, sentences, head)


def _check_settings(folder: Path) -> None:
    """Raise InputError if the hyperparameters are not those of the published model."""
    if (folder / "hparams.json").is_file():
        path = folder / "hparams.json"
        settings: Any = read_json(path)
    else:
        path = folder / "hparams.yaml"
        if not path.is_file():
            raise InputError(f"{folder}: has no hparams.yaml or hparams.json, expected a folder with {FILES}")
        yaml = require("yaml", "clip")
        try:
            settings = yaml.safe_load(read_regular(path))
        except yaml.YAMLError as error:
            raise InputError(f"{path}: cannot be read as plain YAML ({format_one_line(error)})") from None
    settings = settings if isinstance(settings, dict) else {}
    for key, expected in SETTINGS.items():
        if key in settings and settings[key] != expected:
            raise InputError(f"{path}: {key} is {settings[key]!r}, expected {expected!r} as in the published model")


def _find_weights(folder: Path) -> Path:
    files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)
    if len(files) != 1:
        names = ", ".join(path.name for path in files) or "none"
        raise InputError(
            f"{folder}: {len(files)} files of weights ({names}), expected one: reprod.ckpt or state_dict.safetensors"
        )
    return files[0]


def _select(tensors: Mapping[str, Any], prefix: str, path: Path) -> dict[str, Any]:
    """Return the tensors whose names begin with a prefix, without it."""
    part = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
    if not part:
        raise InputError(f"{path}: has no tensors {prefix}*, expected the weights of Polos")
    return part


def _load_clip(tensors: Mapping[str, Any], folder: Path, path: Path, runtime: Runtime) -> TorchEncoder:
    module = from_openai(tensors, f"{path}: clip.*")
    limit = module.config.text_config.max_position_embeddings
    subfolder = folder / "clip_tokenizer"
    tokenizer = read_tokenizer(subfolder, limit) if subfolder.is_dir() else find_clip_tokenizer(folder, limit)
    check_end(module, tokenizer, str(path))
    side = module.config.vision_config.image_size
    # The authors' callers open images as RGB; the rest is OpenAI's preparation.
    preparation = ImagePreprocessing(size=side, crop=side, order="rgb-then-crop")
    return wrap(module, tokenizer, preparation, "polos-clip", runtime.device, runtime.precision)


def _load_sentences(tensors: Mapping[str, Any], folder: Path, path: Path, runtime: Runtime) -> SentenceTower:
    torch, transformers = require("torch", "clip"), require("transformers", "clip")
    texts = folder / "text_encoder"
    if not texts.is_dir():
        texts = find_model(SIMCSE, f"{folder}: has no folder text_encoder", "", TEXT_FILES)
    config = transformers.RobertaConfig.from_dict(read_json(texts / "config.json", TEXT_FILES))
    state = _select(tensors, "encoder.model.", path)
    state = {key: value for key, value in state.items() if not key.startswith("pooler.")}
    with torch.device("meta"):
        expected = transformers.RobertaModel(config, add_pooling_layer=False).state_dict()
    refuse_different(state, expected, f"{path}: encoder.model.* is not the RoBERTa of {texts / 'config.json'}")
    module = transformers.RobertaModel(config, add_pooling_layer=False).float().eval()
    module.load_state_dict(state)
    weights = _read_mixture(tensors, config.num_hidden_layers + 1, path)
    # RoBERTa counts positions from the padding id on, so its table has two rows more than its token limit.
    limit = int(config.max_position_embeddings) - int(config.pad_token_id) - 1
    tokenizer = replace(read_roberta(texts, limit), pad=int(config.pad_token_id))
    device = resolve_device(runtime.device)
    precision = resolve_precision(device, runtime.precision)
    shape = [config.num_attention_heads, config.hidden_act, config.layer_norm_eps, config.pad_token_id]
    fingerprint = digest(
        hash_weights(module),
        weights.numpy().tobytes(),
        json.dumps(shape).encode(),
        tokenizer.text.encode(),
        precision.encode(),
    )
    module = module.to(device, get_torch_dtype(precision))
    name, width = "polos-sentences", int(config.hidden_size)
    return SentenceTower(name, fingerprint, precision, width, limit, module, tokenizer, weights.to(device))


def _read_mixture(tensors: Mapping[str, Any], layers: int, path: Path) -> Any:
    """Return the factors of the layers: the softmax of the scalars, times gamma."""
    torch = require("torch", "clip")
    names = [*(f"scalar_mix.scalar_parameters.{layer}" for layer in range(layers)), "scalar_mix.gamma"]
    wrong = [name for name in names if name not in tensors or tensors[name].numel() != 1]
    if wrong or f"scalar_mix.scalar_parameters.{layers}" in tensors:
        detail = wrong[0] if wrong else f"scalar_mix.scalar_parameters.{layers}"
        raise InputError(f"{path}: scalar_mix does not have one number for each of {layers} layers (see {detail})")
    *scalars, gamma = (tensors[name].reshape(1) for name in names)
    return torch.softmax(torch.cat(scalars), dim=0) * gamma


def _read_head(tensors: Mapping[str, Any], width: int, path: Path) -> list[tuple[Any, Any]]:
    """Return weight and bias of the three linear layers; raise InputError if their shapes do not fit."""
    layers = []
    inputs = TEXT_PARTS * width + CLIP_PARTS * CLIP_WIDTH
    for number in (1, 2, 3):
        name = f"ff.0.ff.linear_{number}"
        weight, bias = tensors.get(f"{name}.weight"), tensors.get(f"{name}.bias")
        if weight is None or bias is None:
            raise InputError(f"{path}: has no {name}.weight and .bias, expected the weights of Polos")
        outputs = 1 if number == 3 else len(bias)
        if tuple(weight.shape) != (outputs, inputs) or tuple(bias.shape) != (outputs,):
            reason = f" = {TEXT_PARTS}·{width} numbers of RoBERTa and {CLIP_PARTS}·{CLIP_WIDTH} of CLIP"
            raise InputError(
                f"{path}: {name}.weight has the shape {tuple(weight.shape)}, expected {outputs} × {inputs}"
                f"{reason if number == 1 else ''}"
            )
        layers.append((weight.contiguous(), bias.contiguous()))
        inputs = outputs
    return layers
