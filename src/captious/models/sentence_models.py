"""Sentence vectors: models in the layout of sentence-transformers, loaded by ``transformers`` only.

``modules.json`` of such a folder lists its steps: a Transformer, a Pooling of its token states, and then any of Dense
and Normalize. A plain folder of ``transformers`` is read as that library reads it: its token states are averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from captious._core.files import digest, load_json
from captious._core.types import Ints
from captious.errors import InputError, format_one_line, require
from captious.models._model_folders import load_pretrained, read_json, read_state, refuse_different, refuse_missing
from captious.models.devices import get_torch_dtype, hash_weights, quiet, resolve_device, resolve_precision
from captious.models.encoder import (
    TEXT_MEMBERS,
    Features,
    TextEncoder,
    TextWeights,
    Tokens,
    find_given_encoder,
    load_installed_encoder,
)
from captious.models.features import text_features
from captious.models.hub import ModelRegistry, find, find_local, get_file_stats
from captious.options import Runtime, get_runtime

if TYPE_CHECKING:
    import torch

# Padding in rows of token ids; it is no id of any tokenizer.
PADDING = -1
# Tokens per batch on a CPU, padding included.
TOKENS = 1024
FILES = (
    "modules.json and the files that it names (config.json, model.safetensors, tokenizer.json, 1_Pooling/config.json)"
)
# Files in which versions of sentence-transformers wrote the limit and the case of texts.
LENGTH_FILES = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
# Classes in `transformers` of models whose decoder is not used.
CLASSES = {"t5": "T5EncoderModel", "mt5": "MT5EncoderModel"}
# Pooling modes, in the order of concatenation.
MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid")

Step = Callable[["torch.Tensor"], "torch.Tensor"]
_LOADED: ModelRegistry[TextEncoder] = ModelRegistry(limit=2)


@dataclass(eq=False)
class SentenceEncoder:
    """A :class:`captious.models.encoder.TextEncoder` of sentence-transformers, made by :func:`load_sentences`."""

    name: str
    fingerprint: str
    precision: str
    dimension: int
    limit: int
    device: torch.device
    module: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    poolings: tuple[str, ...] = ("mean",)
    steps: tuple[Step, ...] = ()
    """Steps after the pooling."""
    prompt: str = ""
    """Prefix that the model expects before every text."""
    lower: bool = False

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Tokenize a batch of texts, padded with −1."""
        texts = [self.prompt + text.strip() for text in texts]
        texts = [text.lower() for text in texts] if self.lower else texts
        with quiet():
            rows = self.tokenizer(texts, truncation=False, padding=False)["input_ids"] if texts else []
            lengths: Ints = np.fromiter(map(len, rows), np.int64, len(rows))
            for index in np.flatnonzero(lengths > self.limit).tolist():  # the tokenizer knows which tokens must stay
                rows[index] = self.tokenizer(texts[index], truncation=True, max_length=self.limit)["input_ids"]
        ids = np.full((len(rows), max(map(len, rows), default=1)), PADDING, np.int64)
        for row, tokens in zip(ids, rows, strict=True):
            row[: len(tokens)] = tokens
        return Tokens(ids, lengths)

    def text_features(self, ids: Ints) -> Features:
        """Return the vectors of a batch of tokenized texts.

        Texts of equal length are encoded together, so that little padding is computed: a CPU gains nothing from larger
        batches, and padding takes as long as tokens.
        """
        torch = require("torch", "clip")
        lengths = (ids != PADDING).sum(axis=1)
        order = np.argsort(-lengths, kind="stable")
        vectors = np.empty((len(ids), self.dimension), np.float32)
        start = 0
        with torch.inference_mode():
            while start < len(order):
                longest = max(1, int(lengths[order[start]]))
                rows = order[start : start + max(1, TOKENS // longest)]
                part = torch.from_numpy(np.ascontiguousarray(ids[rows, :longest]))
                vectors[rows] = self.text_tensor(part.to(self.device)).float().cpu().numpy()
                start += len(rows)
        return vectors

    def text_tensor(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the vectors of token ids."""
        mask = ids != PADDING
        tokens = ids.masked_fill(~mask, self.tokenizer.pad_token_id or 0)
        states = self.module(input_ids=tokens, attention_mask=mask.long()).last_hidden_state.float()
        vectors = require("torch", "clip").cat([pool(states, mask, mode) for mode in self.poolings], dim=-1)
        for step in self.steps:
            vectors = step(vectors)
        return vectors  # type: ignore[no-any-return]


def pool(states: torch.Tensor, mask: torch.Tensor, mode: str) -> torch.Tensor:
    """Pool the states of tokens, texts × tokens × width, to one vector per text; padding is at the end."""
    number = mask.sum(1)
    if mode == "cls":
        return states[:, 0]
    if mode == "lasttoken":
        return states[number.new_tensor(range(len(states))), number - 1]
    if mode == "max":
        return states.masked_fill(~mask[..., None], float("-inf")).amax(1)
    weights = mask.to(states.dtype)
    if mode == "weightedmean":
        weights = weights * weights.cumsum(1)
    total = (states * weights[..., None]).sum(1)
    below = weights.sum(1, keepdim=True)
    return total / (below.sqrt() if mode == "mean_sqrt_len_tokens" else below)


def sentence_vectors(texts: Sequence[str], weights: TextWeights) -> Features:
    """Return unit vectors of texts, one row each; cached texts are not encoded again.

    ``weights`` is the argument of :func:`load_sentences`. A vector that is not finite becomes NaN.
    """
    encoder = load_sentences(weights)
    encoded = text_features(encoder, texts)
    vectors = np.full((len(texts), encoder.dimension), np.nan, np.float32)
    finite = encoded.index >= 0
    vectors[finite] = encoded.rows[encoded.index[finite]]
    return vectors


def load_sentences(weights: TextWeights) -> TextEncoder:
    """Load the model of a folder, a hub id or an installed package, with the current runtime.

    An encoder object is returned unchanged.
    """
    own = find_given_encoder(weights, TEXT_MEMBERS)
    if own is not None:
        return cast(TextEncoder, own)
    runtime, name = get_runtime(), cast(str, weights)
    key = (name, runtime.device, runtime.precision, get_file_stats(find_local(name)))
    return _LOADED.get(key, lambda: _find(name, runtime))


def _find(weights: str, runtime: Runtime) -> TextEncoder:
    installed = load_installed_encoder(weights, runtime, TEXT_MEMBERS)
    if installed is not None:
        return cast(TextEncoder, installed)
    return _load(find(weights, instead="", files=FILES), weights, runtime)


def _load(folder: Path, weights: str, runtime: Runtime) -> SentenceEncoder:
    torch = require("torch", "clip")
    modules = _read_modules(folder)
    tower = folder / modules[0][1]
    device = resolve_device(runtime.device)
    precision = resolve_precision(device, runtime.precision)
    kind = read_json(tower / "config.json").get("model_type", "")
    module, report = load_pretrained(tower, CLASSES.get(kind, "AutoModel"))
    refuse_missing(tower, [key for key in report["missing_keys"] if not key.startswith("pooler.")])
    module = module.float()
    tokenizer = _load_tokenizer(tower)
    settings = _read_settings(folder, tower)
    limit, lower = _find_limit(settings, module.config, tokenizer), bool(settings.get("do_lower_case"))
    pooling = read_json(folder / modules[1][1] / "config.json") if len(modules) > 1 else {}
    poolings = _read_poolings(pooling, folder)
    prompt = _read_prompt(folder)
    if prompt and not pooling.get("include_prompt", True):
        raise InputError(f"{folder}: leaves its prompt out of the pooling, which captious does not do")
    dimension = int(module.config.hidden_size) * len(poolings)
    steps: list[Step] = []
    contents = [hash_weights(module), f"{poolings} {limit} {lower} {prompt!r} {precision}".encode()]
    for name, path in modules[2:]:
        if name == "Normalize":
            steps.append(partial(torch.nn.functional.normalize, dim=-1))
        else:
            dense = _load_dense(folder / path, dimension)
            dimension = dense.linear.out_features
            contents.append(hash_weights(dense))
            steps.append(dense.to(device))
        contents.append(name.encode())
    module = module.to(device, get_torch_dtype(precision)).eval()
    return SentenceEncoder(
        name=Path(weights).name,
        fingerprint=digest(*contents),
        precision=precision,
        dimension=dimension,
        limit=limit,
        device=device,
        module=module,
        tokenizer=tokenizer,
        poolings=poolings,
        steps=tuple(steps),
        prompt=prompt,
        lower=lower,
    )


def _read_modules(folder: Path) -> list[tuple[str, str]]:
    """Read the steps of a folder: the class of each, and its subfolder."""
    path = folder / "modules.json"
    if not path.is_file():
        return [("Transformer", "")]
    try:
        modules = [(str(one["type"]).rpartition(".")[2], str(one["path"])) for one in load_json(path)]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: is not a list of modules ({format_one_line(error)})") from None
    modules = [(name, where) for name, where in modules if name != "Dropout"]  # which does nothing after training
    names = [name for name, _ in modules]
    if names[:1] != ["Transformer"] or names[1:2] not in ([], ["Pooling"]) or {*names[2:]} - {"Dense", "Normalize"}:
        raise InputError(
            f"{path}: lists {', '.join(names) or 'nothing'}, expected Transformer, Pooling and then Dense or Normalize"
        )
    return modules


def _load_tokenizer(folder: Path) -> Any:
    library = require("transformers", "clip")
    try:
        with quiet():
            return library.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the library raises many kinds
        raise InputError(
            f"{folder}: its tokenizer cannot be loaded by transformers ({format_one_line(error)})"
        ) from None


def _read_settings(folder: Path, tower: Path) -> dict[str, Any]:
    """Read sentence-transformers' settings of the Transformer step."""
    paths = [place / name for place in dict.fromkeys((tower, folder)) for name in LENGTH_FILES]
    return next((read_json(path) for path in paths if path.is_file()), {})


def _find_limit(settings: Mapping[str, Any], config: Any, tokenizer: Any) -> int:
    """Return the token limit: at most the length in training, and the number of positions."""
    limits = [int(settings.get("max_seq_length") or tokenizer.model_max_length)]
    if positions := getattr(config, "max_position_embeddings", 0):
        padded = config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet")  # positions start behind padding
        limits.append(int(positions) - 2 * padded)
    return min(limits)


def _read_poolings(config: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """Read the pooling modes; older versions wrote one switch for each mode."""
    mode = config.get("pooling_mode")
    if mode is None:
        switches = {f"pooling_mode_{name}": name for name in MODES} | {
            f"pooling_mode_{name}_token{plural}": name for name in MODES[:3] for plural in ("", "s")
        }
        switches["pooling_mode_weightedmean_tokens"] = "weightedmean"
        mode = sorted({switches[key] for key, on in config.items() if on and key in switches}, key=MODES.index)
    modes = (mode,) if isinstance(mode, str) else tuple(mode or ("mean",))
    if unknown := [name for name in modes if name not in MODES]:
        raise InputError(f"{folder}: pooling {unknown[0]!r}, expected {', '.join(MODES)}")
    return modes


def _read_prompt(folder: Path) -> str:
    """Read the prompt that the model puts before every text by default; most have none."""
    path = folder / "config_sentence_transformers.json"
    settings = read_json(path) if path.is_file() else {}
    name = settings.get("default_prompt_name")
    return str((settings.get("prompts") or {}).get(name, "")) if name else ""


def _load_dense(folder: Path, width: int) -> Any:
    """Load a Dense step: a linear map and an activation, with the weights of its folder."""
    nn = require("torch", "clip").nn
    config = read_json(folder / "config.json", "that of a Dense module of sentence-transformers")
    activation = str(config.get("activation_function", "Tanh")).rpartition(".")[2]
    if activation not in ACTIVATIONS:
        raise InputError(f"{folder}: activation {activation!r}, expected {', '.join(ACTIVATIONS)}")
    if config.get("use_residual") or config.get("module_input_name", "sentence_embedding") != "sentence_embedding":
        raise InputError(f"{folder}: a Dense module that is more than a map of the pooled vector")
    inner, outer = int(config.get("in_features", 0)), int(config.get("out_features", 0))
    if inner != width or outer < 1:
        raise InputError(f"{folder}: maps {inner} numbers to {outer}, expected to map {width}")
    linear = nn.Linear(inner, outer, bias=bool(config.get("bias", True)))
    dense = nn.Sequential()
    dense.add_module("linear", linear)
    dense.add_module("activation_function", getattr(nn, activation)())
    files = [folder / name for name in ("model.safetensors", "pytorch_model.bin") if (folder / name).is_file()]
    if not files:
        raise InputError(f"{folder}: has no weights, expected model.safetensors or pytorch_model.bin")
    state = read_state(files[0])
    refuse_different(state, dense.state_dict(), f"{files[0]}: is not of the shape that its config.json says")
    dense.load_state_dict(state)
    return dense.eval()
