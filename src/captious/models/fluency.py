"""FENSE's detector of fluency errors: a BERT that predicts the probability that a caption is broken English.

A checkpoint of the authors is one file: the type of the model, the number of classes, and the tensors. Only the last
class, *error*, is used here; the five before it are the kinds of error that were inserted into training captions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.files import digest
from captious._core.types import Floats, Floats32, Ints
from captious.errors import InputError, format_one_line, require
from captious.models._model_folders import read_json, read_state, refuse_different
from captious.models._model_tokenizers import SubwordTokenizer, read_wordpiece
from captious.models.devices import get_torch_dtype, hash_weights, quiet, resolve_device, resolve_precision
from captious.models.features import find_distinct
from captious.models.hub import ModelRegistry, find, find_local, get_file_stats
from captious.models.pipeline import Fetch, OomBackoff
from captious.options import Runtime, get_runtime

# Token limit of training, special tokens included; longer captions are truncated.
LIMIT = 64
# Width of an attention head in every BERT that the authors trained; for others see `config.json`.
HEAD_WIDTH = 64
SUFFIXES = (".ckpt", ".pt", ".pth", ".bin", ".safetensors")
FILES = "the checkpoint (.ckpt) and the vocab.txt of its BERT, bert-base-uncased or prajjwal1/bert-tiny"
_PUNCTUATION = re.compile(r"[^\w\s]")
_LOADED: ModelRegistry[FluencyDetector] = ModelRegistry(limit=1)


@dataclass(frozen=True, eq=False)
class FluencyDetector:
    """Fluency-error classifier with its tokenizer, made by :func:`load_detector`."""

    name: str
    fingerprint: str
    precision: str
    tokenizer: SubwordTokenizer = field(repr=False)
    module: Any = field(repr=False)

    def __str__(self) -> str:
        return f"{self.name}#{self.fingerprint}"

    def probabilities(self, texts: Sequence[str]) -> Floats:
        """Return the probability that each text has a fluency error; equal texts are scored once."""
        distinct, index = find_distinct(list(map(strip_punctuation, texts)))
        tokens = self.tokenizer(distinct)
        lengths = np.minimum(tokens.lengths, LIMIT)
        # The longest texts go first: a batch pads little, and if memory runs out, it does at the start.
        order, values = np.argsort(-lengths, kind="stable"), np.zeros(len(distinct))
        runtime = get_runtime()
        backoff = OomBackoff(runtime.log)

        # `OomBackoff` expects a function that starts a batch and returns one that fetches its results. Here the results
        # are ready when it returns.
        def start_batch(batch: Ints) -> Fetch:
            errors = self._run_batch(tokens.ids[batch, : int(lengths[batch].max())], lengths[batch])
            return lambda: errors

        for start in range(0, len(order), runtime.batch):
            batch = order[start : start + runtime.batch]
            values[batch] = backoff.start(start_batch, batch)()
            runtime.progress("fluency", start + len(batch), len(order))
        return values[index]

    def _run_batch(self, ids: Ints, lengths: Ints) -> Floats32:
        torch = require("torch", "clip")
        mask = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)
        device = self.module["clf"].weight.device
        with torch.inference_mode():
            states = self.module["encoder"](
                input_ids=torch.from_numpy(ids).to(device), attention_mask=torch.from_numpy(mask).to(device)
            )
            logits = self.module["clf"](states.last_hidden_state[:, 0])[:, -1]
            errors: Floats32 = logits.float().sigmoid().cpu().numpy()
        return errors


def strip_punctuation(text: str) -> str:
    """Return a text as the detector reads it: lower case, only words and white space.

    >>> strip_punctuation("A dog's bark, twice.")
    'a dogs bark twice'
    """
    return _PUNCTUATION.sub("", text).lower()


def load_detector(weights: str) -> FluencyDetector:
    """Load the detector of a folder, a checkpoint file or a hub id, with the current runtime."""
    for library in ("torch", "transformers"):
        require(library, "clip")
    runtime = get_runtime()
    key = (weights, runtime.device, runtime.precision, get_file_stats(find_local(weights)))
    return _LOADED.get(key, lambda: _load(find(weights, "", FILES), weights, runtime))


def _load(path: Path, weights: str, runtime: Runtime) -> FluencyDetector:
    folder = path if path.is_dir() else path.parent
    file = _find_checkpoint(folder) if path.is_dir() else path
    state, classes = _read_tensors(file)
    module = _build_module(state, classes, folder, file)
    tokenizer = read_wordpiece(folder, LIMIT, lower=True)
    device = resolve_device(runtime.device)
    precision = resolve_precision(device, runtime.precision)
    fingerprint = digest(hash_weights(module), f"{LIMIT} {precision}".encode(), tokenizer.text.encode())
    return FluencyDetector(
        Path(weights).name, fingerprint, precision, tokenizer, module.to(device, get_torch_dtype(precision)).eval()
    )


def _find_checkpoint(folder: Path) -> Path:
    """Return the only checkpoint file of a folder."""
    files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    if len(files) != 1:
        found = ", ".join(path.name for path in files) or "none"
        raise InputError(f"{folder}: found the checkpoints {found}, expected one; the folder needs {FILES}")
    return files[0]


def _read_tensors(file: Path) -> tuple[dict[str, Any], int]:
    """Read the tensors of a checkpoint and its number of classes."""
    stored: Mapping[str, Any] = read_state(file)
    tensors = stored.get("state_dict", stored)
    # Older versions of transformers store the position ids, newer ones do not load them.
    state = {key: one for key, one in tensors.items() if not key.endswith("embeddings.position_ids")}
    if "clf.weight" not in state or "encoder.embeddings.word_embeddings.weight" not in state:
        raise InputError(
            f"{file}: contains {', '.join(list(state)[:3]) or 'nothing'}, expected a detector of FENSE: a "
            "dictionary with "
            "model_type, num_classes and state_dict, whose tensors are called encoder.… and clf.…"
        )
    return state, int(stored.get("num_classes", len(state["clf.weight"])))


def _build_module(state: Mapping[str, Any], classes: int, folder: Path, file: Path) -> Any:
    """Build the BERT and the linear classifier of its [CLS] state, with the sizes of the tensors, and load them."""
    torch, library = require("torch", "clip"), require("transformers", "clip")
    config = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    vocabulary, width = state["encoder.embeddings.word_embeddings.weight"].shape
    layers = {match[1] for key in state if (match := re.match(r"encoder\.encoder\.layer\.(\d+)\.", key))}
    try:
        with quiet():
            shape = library.BertConfig(
                vocab_size=vocabulary,
                hidden_size=width,
                num_hidden_layers=len(layers),
                num_attention_heads=int(config.get("num_attention_heads", max(width // HEAD_WIDTH, 1))),
                intermediate_size=len(state["encoder.encoder.layer.0.intermediate.dense.weight"]),
                max_position_embeddings=len(state["encoder.embeddings.position_embeddings.weight"]),
            )
            # The pooler is not used, but the module must have the same tensors as the checkpoint.
            pooled = "encoder.pooler.dense.weight" in state
            encoder = library.BertModel(shape, add_pooling_layer=pooled)
    except Exception as error:  # tensors that are missing or do not fit together: many kinds
        raise InputError(f"{file}: is not a BERT ({type(error).__name__}: {format_one_line(error)})") from None
    module = torch.nn.ModuleDict({"encoder": encoder, "clf": torch.nn.Linear(width, classes)})
    refuse_different(state, module.state_dict(), f"{file}: is not a detector of the shape that its tensors say")
    module.load_state_dict(state)
    return module.float()
