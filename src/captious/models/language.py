"""Texts as one vector per token: the states of a language model of ``transformers`` at one of its layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._files import digest
from captious._typing import Ints
from captious.errors import InputError, require
from captious.models.devices import device_called, number_type, precision_on, quiet, weights_digest
from captious.models.hub import find
from captious.models.registry import ModelRegistry
from captious.options import current

if TYPE_CHECKING:
    import torch


Ids = list[int]
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
"""The layer that agrees best with people, as the authors of BERTScore found, by the last part of a model's name."""
_LOADED: ModelRegistry[Contextual] = ModelRegistry(limit=2)


@dataclass(frozen=True, eq=False)
class Contextual:
    """A model with its tokenizer. Made by :func:`load_contextual`."""

    name: str
    fingerprint: str
    precision: str
    layer: int
    limit: int
    module: Any = field(repr=False)
    tokenizer: Any = field(repr=False)

    @property
    def silent(self) -> frozenset[int]:
        """Tokens that stand at the ends of every text and say nothing."""
        return frozenset({self.tokenizer.cls_token_id, self.tokenizer.sep_token_id} - {None})

    def tokens(self, texts: Sequence[str]) -> tuple[list[Ids], Ints]:
        """Token ids, cut at the limit, and how many there were before."""
        if not texts:
            return [], np.zeros(0, np.int64)
        with quiet():
            found = self.tokenizer([text.strip() for text in texts], truncation=False, padding=False)["input_ids"]
        lengths = np.array([len(ids) for ids in found], np.int64)
        # Cut in the middle of the text: what stands at its ends stays.
        return [ids if len(ids) <= self.limit else [*ids[: self.limit - 1], ids[-1]] for ids in found], lengths

    def states(self, ids: Sequence[Ids]) -> tuple[torch.Tensor, torch.Tensor]:
        """Unit vectors, texts × tokens × numbers, and which tokens are there."""
        torch = require("torch", "clip")
        longest, device = max(map(len, ids)), self.module.device
        table = torch.full((len(ids), longest), self.tokenizer.pad_token_id or 0, dtype=torch.long)
        there = torch.zeros((len(ids), longest), dtype=torch.bool)
        for row, one in enumerate(ids):
            table[row, : len(one)] = torch.tensor(one)
            there[row, : len(one)] = True
        table, there = table.to(device), there.to(device)
        with torch.no_grad():
            found = self.module(input_ids=table, attention_mask=there.long(), output_hidden_states=True)
        states = torch.nn.functional.normalize(found.hidden_states[self.layer].float(), dim=-1)
        return states, there


def load_contextual(weights: str, layer: int | None = None) -> Contextual:
    """The model of a folder or hub id on the device of the runtime, read up to a layer."""
    runtime = current()
    device = device_called(runtime.device)
    precision = precision_on(device, runtime.precision)
    key = (weights, layer, str(device), precision)
    return _LOADED.get(key, lambda: _load(find(weights), weights, layer, device, precision))


def _load(place: Path, weights: str, layer: int | None, device: Any, precision: str) -> Contextual:
    library = require("transformers", "clip")
    try:
        with quiet():
            module = library.AutoModel.from_pretrained(place, dtype=require("torch", "clip").float32)
            # RoBERTa's tokenizer tells a word at the start of a text from one within, unless asked not to.
            tokenizer = library.AutoTokenizer.from_pretrained(place, add_prefix_space=True)
    except (OSError, ValueError, KeyError) as error:
        line = " ".join(str(error).split())[:160]
        raise InputError(f"weights {weights!r}: {place} is no language model with its tokenizer ({line})") from None
    depth = int(module.config.num_hidden_layers)
    chosen = layer if layer is not None else LAYERS.get(Path(weights).name, depth)
    if not 1 <= chosen <= depth:
        raise InputError(f"layer {chosen}: {weights} has {depth} layers, expected 1 to {depth}")
    mark = digest(weights_digest(module), f"layer {chosen}, {precision}".encode())
    limit = min(int(tokenizer.model_max_length), int(module.config.max_position_embeddings))
    if module.config.model_type in ("roberta", "xlm-roberta", "camembert"):  # whose positions start behind the padding
        limit = min(limit, int(module.config.max_position_embeddings) - 2)
    module = module.to(device, number_type(precision)).eval()
    return Contextual(Path(weights).name, mark, precision, chosen, limit, module, tokenizer)
