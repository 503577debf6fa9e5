"""Contextual token vectors: hidden states of a ``transformers`` language model at one of its layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.files import digest
from captious._core.types import Ints
from captious.errors import InputError, format_one_line, require
from captious.models.devices import get_torch_dtype, hash_weights, quiet, resolve_device, resolve_precision
from captious.models.hub import TEXT_FILES, ModelRegistry, find
from captious.options import get_runtime

if TYPE_CHECKING:
    import torch


Ids = list[int]
# Layers that correlate best with human ratings according to the authors of BERTScore, by the last part of the name.
LAYERS = {
    "roberta-large": 17,
    "roberta-base": 10,
    "distilroberta-base": 5,
    "bert-base-uncased": 9,
    "bert-large-uncased": 18,
    "distilbert-base-uncased": 5,
    "deberta-base-mnli": 9,
    "deberta-large-mnli": 18,
    "deberta-xlarge-mnli": 40,
}
# Model types whose layers after the chosen one can be dropped, because nothing follows the last layer.
ENCODERS = ("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "electra")
_LOADED: ModelRegistry[Contextual] = ModelRegistry(limit=2)


@dataclass(frozen=True, eq=False)
class Contextual:
    """Language model with its tokenizer, made by :func:`load_contextual`."""

    name: str
    fingerprint: str
    precision: str
    layer: int
    limit: int
    module: Any = field(repr=False)
    tokenizer: Any = field(repr=False)

    @property
    def special_token_ids(self) -> frozenset[int]:
        """Ids of the start and end tokens of every text."""
        return frozenset({self.tokenizer.cls_token_id, self.tokenizer.sep_token_id} - {None})

    def tokens(self, texts: Sequence[str]) -> tuple[list[Ids], Ints]:
        """Tokenize texts; return ids truncated at the limit, and the lengths before truncation."""
        if not texts:
            return [], np.zeros(0, np.int64)
        with quiet():
            rows = self.tokenizer([text.strip() for text in texts], truncation=False, padding=False)["input_ids"]
        lengths = np.array([len(ids) for ids in rows], np.int64)
        # The special token at the end stays.
        return [ids if len(ids) <= self.limit else [*ids[: self.limit - 1], ids[-1]] for ids in rows], lengths

    def states(self, ids: Sequence[Ids]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return unit vectors, texts × tokens × dimension, and the mask of tokens that are no padding."""
        torch = require("torch", "clip")
        longest, device = max(map(len, ids)), self.module.device
        table = torch.full((len(ids), longest), self.tokenizer.pad_token_id or 0, dtype=torch.long)
        mask = torch.zeros((len(ids), longest), dtype=torch.bool)
        for row, tokens in enumerate(ids):
            table[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, : len(tokens)] = True
        table, mask = table.to(device), mask.to(device)
        with torch.no_grad():
            output = self.module(input_ids=table, attention_mask=mask.long(), output_hidden_states=True)
        states = torch.nn.functional.normalize(output.hidden_states[self.layer].float(), dim=-1)
        return states, mask


def load_contextual(weights: str, layer: int | None = None) -> Contextual:
    """Load the model of a folder or hub id up to a layer, on the device of the runtime."""
    runtime = get_runtime()
    device = resolve_device(runtime.device)
    precision = resolve_precision(device, runtime.precision)
    key = (weights, layer, str(device), precision)
    return _LOADED.get(
        key, lambda: _load(find(weights, instead="", files=TEXT_FILES), weights, layer, device, precision)
    )


def _load(folder: Path, weights: str, layer: int | None, device: Any, precision: str) -> Contextual:
    library, torch = require("transformers", "clip"), require("torch", "clip")
    try:
        with quiet():
            module = library.AutoModel.from_pretrained(folder, dtype=torch.float32)
            # By default RoBERTa's tokenizer gives a word at the start of a text another id than within it.
            tokenizer = library.AutoTokenizer.from_pretrained(folder, add_prefix_space=True)
    except (OSError, ValueError, KeyError) as error:
        line = format_one_line(error)
        raise InputError(f"weights {weights!r}: {folder} is not a language model with its tokenizer ({line})") from None
    depth = int(module.config.num_hidden_layers)
    chosen = layer if layer is not None else LAYERS.get(Path(weights).name, depth)
    if not 1 <= chosen <= depth:
        raise InputError(f"layer {chosen}: {weights} has {depth} layers, expected 1 to {depth}")
    fingerprint = digest(hash_weights(module), f"layer {chosen}, {precision}".encode())
    limit = min(int(tokenizer.model_max_length), int(module.config.max_position_embeddings))
    if module.config.model_type in (
        "roberta",
        "xlm-roberta",
        "camembert",
    ):  # their positions start after the padding index
        limit = min(limit, int(module.config.max_position_embeddings) - 2)
    if module.config.model_type in ENCODERS:
        stack = next(part for part in module.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == depth)
        del stack[chosen:]
    module = module.to(device, get_torch_dtype(precision)).eval()
    return Contextual(Path(weights).name, fingerprint, precision, chosen, limit, module, tokenizer)
