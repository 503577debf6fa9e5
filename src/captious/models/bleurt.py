"""BLEURT checkpoints, which score a reference and a candidate jointly, in classes of ``transformers``.

The checkpoints are those of the PyTorch port. BLEURT-20 and its distilled versions have RemBERT's shape and
SentencePiece; the older ones are BERTs with lower-cased WordPiece. The port's own classes are not needed: with its
names changed, `RemBertForSequenceClassification` and `BertForSequenceClassification` compute the same.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.files import digest, read_regular
from captious._core.types import Floats, Ints
from captious.errors import InputError, format_one_line, require
from captious.models._model_folders import read_json, read_state, refuse_different
from captious.models._model_tokenizers import read_wordpiece
from captious.models.devices import get_torch_dtype, hash_weights, quiet, resolve_device, resolve_precision
from captious.models.encoder import Features
from captious.models.features import find_distinct, gather
from captious.models.hub import ModelRegistry, find, find_local, get_file_stats
from captious.models.pipeline import Fetch, OomBackoff
from captious.models.segments import FeatureSpace, as_keys, hash_text
from captious.models.store import open_store
from captious.options import Runtime, get_runtime

if TYPE_CHECKING:
    import torch

Ids = list[int]
# Token ids of texts, without the special tokens.
Pieces = Callable[[Sequence[str]], list[Ids]]
# Special tokens of a pair: [CLS] reference [SEP] candidate [SEP].
SPECIAL = 3
FILES = "config.json, pytorch_model.bin (or model.safetensors), and spm.model or vocab.txt"
# Settings that change a score, with the port's defaults.
SHAPE = {
    "vocab_size": 30_522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3_072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
}
_LOADED: ModelRegistry[BleurtModel] = ModelRegistry(limit=1)
# Threads take turns: two forward passes at once need twice the memory, and would compute the same pairs twice.
_ONE_AT_A_TIME = threading.RLock()


@dataclass(frozen=True, eq=False)
class BleurtModel:
    """BLEURT model with its tokenizer, made by :func:`load_bleurt`."""

    name: str
    fingerprint: str
    precision: str
    limit: int
    """Token limit of a pair, special tokens included."""
    first: int
    """The id of [CLS]."""
    separator: int
    """The id of [SEP]."""
    pieces: Pieces = field(repr=False)
    module: Any = field(repr=False)

    def logits(self, pairs: Sequence[tuple[Ids, Ids]]) -> Features:
        """Return the score of each pair of token ids, reference first: pairs × 1."""
        torch = require("torch", "clip")
        truncated = [truncate_pair(*pair, self.limit - SPECIAL) for pair in pairs]
        width = max(len(reference) + len(candidate) for reference, candidate in truncated) + SPECIAL
        ids, mask, segments = np.zeros((3, len(truncated), width), np.int64)
        for row, (reference, candidate) in enumerate(truncated):
            middle, end = len(reference) + 2, len(reference) + len(candidate) + SPECIAL
            ids[row, :end] = [self.first, *reference, self.separator, *candidate, self.separator]
            mask[row, :end] = 1
            segments[row, middle:end] = 1
        device = self.module.device
        with torch.inference_mode():
            output = self.module(
                input_ids=torch.from_numpy(ids).to(device),
                attention_mask=torch.from_numpy(mask).to(device),
                token_type_ids=torch.from_numpy(segments).to(device),
            )
        logits: Features = output.logits.float().cpu().numpy()
        return logits


def truncate_pair(reference: Ids, candidate: Ids, budget: int) -> tuple[Ids, Ids]:
    """Truncate both texts to ``budget`` tokens: the longer one loses its last token, on ties the candidate.

    >>> truncate_pair([1, 2, 3, 4], [5, 6, 7, 8], 5)
    ([1, 2, 3], [5, 6])
    >>> truncate_pair([1, 2, 3, 4, 5], [6], 4)
    ([1, 2, 3], [6])
    """
    if len(reference) + len(candidate) <= budget:
        return reference, candidate
    # Each text gets what the other one leaves of the budget, or half of it if that is more.
    candidate_size = max(budget - len(reference), budget // 2)
    reference_size = max(budget - len(candidate), budget - budget // 2)
    return reference[:reference_size], candidate[:candidate_size]


def score_pairs(model: BleurtModel, pairs: Sequence[tuple[str, str]]) -> tuple[Floats, Ints]:
    """Return the score of each (reference, candidate), NaN if it is not finite, and its tokens before truncation.

    Equal pairs are scored once; scores are cached.
    """
    with _ONE_AT_A_TIME:
        return _score_pairs(model, pairs)


def _score_pairs(model: BleurtModel, pairs: Sequence[tuple[str, str]]) -> tuple[Floats, Ints]:
    distinct, pair_of = find_distinct(pairs)
    # The length says where the reference ends, so that ("ab", "c") and ("a", "bc") have different keys.
    contents = [hash_text(f"{len(reference)} {reference}{candidate}") for reference, candidate in distinct]
    store = open_store(FeatureSpace(model.name, model.fingerprint, "pairs", (1,)))
    rows, lengths, index = gather(store, contents)
    missing = np.flatnonzero(index < 0).tolist()
    if missing:
        try:
            for batch, logits, tokens in _score_batches(model, [distinct[number] for number in missing]):
                finite = np.isfinite(logits[:, 0])
                keys = as_keys(contents[missing[number]] for number in batch)
                store.put(keys[finite], logits[finite], tokens[finite].astype(np.int32))
        finally:
            store.flush()
        rows, lengths, index = gather(store, contents)
    store.settle()
    # Pairs that are not stored have index −1, which selects the NaN and the 0 that are appended.
    values = np.append(rows[:, 0].astype(np.float64), np.nan)[index]
    tokens_before = np.append(lengths.astype(np.int64), 0)[index]
    return values[pair_of], tokens_before[pair_of]


def _score_batches(model: BleurtModel, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[list[int], Features, Ints]]:
    """Score batches of pairs of similar length; yield the indices of the pairs, their scores and token counts."""
    runtime = get_runtime()
    texts, index = find_distinct([text for pair in pairs for text in pair])
    ids = model.pieces(texts)
    id_pairs = [(ids[reference], ids[candidate]) for reference, candidate in index.reshape(-1, 2).tolist()]
    tokens = np.array([len(reference) + len(candidate) + SPECIAL for reference, candidate in id_pairs], np.int64)
    # The longest pairs go first: if memory runs out, it does so at the start.
    order = np.argsort(-tokens, kind="stable")
    backoff = OomBackoff(runtime.log)

    # `OomBackoff` expects a function that starts a batch and returns one that fetches its results. Here the results are
    # ready when it returns.
    def start_batch(batch: Ints) -> Fetch:
        logits = model.logits([id_pairs[number] for number in batch.tolist()])
        return lambda: logits

    for start in range(0, len(order), runtime.batch):
        batch = order[start : start + runtime.batch]
        yield batch.tolist(), backoff.start(start_batch, batch)(), tokens[batch]
        runtime.progress("pairs", start + len(batch), len(order))


def load_bleurt(weights: str, activation: str = "gelu", limit: int | None = None) -> BleurtModel:
    """Load the checkpoint of a folder or hub id with the current runtime.

    ``limit`` is the token limit of a pair; by default that of the checkpoint.
    """
    for library in ("torch", "transformers", "huggingface_hub"):
        require(library, "bleurt")  # before shared code requires it and names another extra
    runtime = get_runtime()
    key = (weights, activation, limit, runtime.device, runtime.precision, get_file_stats(find_local(weights)))
    return _LOADED.get(key, lambda: _load(find(weights, "", FILES), weights, activation, limit, runtime))


def _load(folder: Path, weights: str, activation: str, limit: int | None, runtime: Runtime) -> BleurtModel:
    if (folder / "saved_model.pb").is_file():
        raise InputError(
            f"weights {weights!r}: {folder} is a checkpoint of TensorFlow, expected one of the PyTorch port"
        )
    config = read_json(folder / "config.json", "a BLEURT checkpoint of the PyTorch port")
    module, shape = _build_module(folder, config, activation)
    name = Path(weights).name
    positions = shape["max_position_embeddings"]
    limit = limit or _find_limit(folder, name, positions)
    if not SPECIAL < limit <= positions:
        raise InputError(f"limit {limit}: {weights} has {positions} positions, expected {SPECIAL + 1} to {positions}")
    pieces, first, separator, vocabulary = _load_tokenizer(folder, limit)
    device = resolve_device(runtime.device)
    precision = resolve_precision(device, runtime.precision)
    recipe = json.dumps([shape, activation, limit, precision, first, separator], sort_keys=True)
    fingerprint = digest(hash_weights(module), recipe.encode(), vocabulary)
    module = module.to(device, get_torch_dtype(precision)).eval()
    return BleurtModel(name, fingerprint, precision, limit, first, separator, pieces, module)


def _build_module(folder: Path, config: Mapping[str, Any], activation: str) -> tuple[Any, dict[str, Any]]:
    """Build the model with the weights of a folder; return it with its shape."""
    torch, library = require("torch", "clip"), require("transformers", "clip")
    shape = {key: type(value)(config.get(key, value)) for key, value in SHAPE.items()}
    embedding = config.get("embedding_size") or config.get("input_embedding_size")
    files = [folder / name for name in ("model.safetensors", "pytorch_model.bin") if (folder / name).is_file()]
    if not files:
        raise InputError(f"{folder}: has no weights, expected pytorch_model.bin or model.safetensors")
    state = rename_tensors(read_state(files[0]), "rembert" if embedding else "bert")
    if embedding:
        shape["input_embedding_size"] = int(embedding)
        kind, settings = library.RemBertForSequenceClassification, library.RemBertConfig
    else:
        kind, settings = library.BertForSequenceClassification, library.BertConfig
    try:
        with quiet():
            settings_object = settings(**shape, hidden_act=activation, num_labels=1, pad_token_id=0)
            with torch.device("meta"):
                expected = kind(settings_object).state_dict()
    except Exception as error:  # sizes that do not fit together: the library raises many kinds
        raise InputError(f"{folder / 'config.json'}: is not the shape of a BLEURT ({format_one_line(error)})") from None
    refuse_different(state, expected, f"{files[0]}: is not a BLEURT of the shape that config.json says")
    with quiet():  # without drawing random numbers for half a billion weights first
        module = kind.from_pretrained(None, config=settings_object, state_dict=state).float()
    return module, shape


def rename_tensors(state: Mapping[str, torch.Tensor], model: str) -> dict[str, torch.Tensor]:
    """Rename the tensors of the port to the names of ``transformers``; ``model`` is ``bert`` or ``rembert``."""
    names = {
        key: re.sub(r"^bleurt\.", f"{model}.", key).replace("embedding_projection", "embedding_hidden_mapping_in")
        for key in state
        if not key.endswith(("embeddings.position_ids", "embeddings.token_type_ids"))
    }
    return {name: state[key] for key, name in names.items()}


def _find_limit(folder: Path, name: str, positions: int) -> int:
    """Find the token limit of a pair: in the original's settings, the name (bleurt-base-128), or the tokenizer's
    settings; otherwise it is the number of positions.
    """
    number = re.search(r"-(128|512)$", name)
    limits = (
        _read_number(folder / "bleurt_config.json", "max_seq_length"),
        int(number[1]) if number else 0,
        _read_number(folder / "tokenizer_config.json", "model_max_length"),
    )
    return next((limit for limit in limits if 0 < limit <= positions), positions)


def _read_number(path: Path, key: str) -> int:
    return int(read_json(path).get(key) or 0) if path.is_file() else 0


def _load_tokenizer(folder: Path, limit: int) -> tuple[Pieces, int, int, bytes]:
    """Return a function from texts to pieces, the ids of [CLS] and [SEP], and the vocabulary for fingerprints."""
    models = sorted(folder.glob("*.model"))
    if not models:
        if not any((folder / name).is_file() for name in ("vocab.txt", "tokenizer.json")):
            raise InputError(
                f"{folder}: has no vocabulary, expected spm.model (SentencePiece) or vocab.txt (WordPiece)"
            )
        words = read_wordpiece(folder, limit, lower=True)
        return words.rows, words.start, words.end, words.text.encode()
    library = require("sentencepiece", "bleurt")
    try:
        processor = library.SentencePieceProcessor(model_file=str(models[0]))
    except Exception as error:  # the C++ library has its own classes
        raise InputError(f"{models[0]}: is not a SentencePiece model ({format_one_line(error)})") from None
    first, separator = (processor.piece_to_id(piece) for piece in ("[CLS]", "[SEP]"))
    if processor.unk_id() in (first, separator):
        raise InputError(f"{models[0]}: has no pieces [CLS] and [SEP], expected the SentencePiece model of a BLEURT")
    return lambda texts: processor.encode(list(texts)), first, separator, read_regular(models[0])
