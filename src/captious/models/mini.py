"""``captious-mini``: small CLIP models that run on NumPy only, so that a first look needs no torch.

A folder contains a CLIP in ``transformers``' layout with a word-level tokenizer. Features of the NumPy forward pass
agree with ``transformers`` to 1e-5, and token ids with the ``tokenizers`` library.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save
from threadpoolctl import ThreadpoolController

from captious._core.files import digest, load_json, read_regular, write_atomically
from captious._core.types import Floats32, Ints
from captious.errors import InputError, require
from captious.models._model_folders import read_json
from captious.models._model_tokenizers import pad, read_tokenizer
from captious.models._preprocess import ImagePreprocessing
from captious.models.encoder import Encoder, Features, Pixels, Tokens
from captious.models.loading import MINI
from captious.options import Runtime, get_runtime

if TYPE_CHECKING:
    from PIL.Image import Image

    from captious.models.clip import TorchEncoder


PAD, UNKNOWN, START, END = "<pad>", "<unknown>", "<start>", "<end>"
FILE = "tokenizer.json"

_PATTERN = r"\w+(?:'\w+)*|[^\w\s]"
_TOKEN = re.compile(_PATTERN)


def split_words(text: str) -> list[str]:
    """Split a text into lower-case words and single punctuation marks.

    >>> split_words("There's a red ball, I think.")
    ["there's", 'a', 'red', 'ball', ',', 'i', 'think', '.']
    """
    return _TOKEN.findall(text.lower())


@dataclass(frozen=True)
class WordTokenizer:
    """Word-level tokenizer: id 0 pads, 1 is any unknown word, the last two ids start and end a text.

    The end has the highest id, so models that look for it by ``argmax`` find it too.

    >>> tokenizer = WordTokenizer.from_texts(["a dog", "a red ball"], limit=5)
    >>> tokenizer.words
    ('a', 'ball', 'dog', 'red')
    >>> tokenizer.tokenize(["a dog", "a small red ball"])
    Tokens(ids=array([[6, 2, 4, 7, 0],
                      [6, 2, 1, 5, 7]]), lengths=array([4, 6]))
    """

    words: tuple[str, ...]
    limit: int = 248

    @classmethod
    def from_texts(cls, texts: Iterable[str], limit: int = 248, least: int = 1) -> WordTokenizer:
        """Build the tokenizer with every word that occurs at least ``least`` times in the texts."""
        counts = Counter(word for text in texts for word in split_words(text))
        return cls(tuple(sorted(word for word, count in counts.items() if count >= least)), limit)

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """Token ids by token."""
        return {token: number for number, token in enumerate((PAD, UNKNOWN, *self.words, START, END))}

    @property
    def pad(self) -> int:
        """Id of the padding token."""
        return 0

    @property
    def start(self) -> int:
        """Id of the start token."""
        return len(self.words) + 2

    @property
    def end(self) -> int:
        """Id of the end token, the highest of all."""
        return len(self.words) + 3

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Tokenize a batch of texts: truncated at the limit before the end token, padded to the longest."""
        vocabulary = self.vocabulary
        rows = [[vocabulary.get(word, 1) for word in split_words(text)] for text in texts]
        return pad(rows, [self.start], self.end, self.pad, self.limit)

    def text(self) -> str:
        """Return the content of ``tokenizer.json``: equal for equal tokenizers, so it is part of fingerprints."""
        return json.dumps(_build_layout(self), ensure_ascii=False, indent=1) + "\n"

    def save(self, folder: str | Path) -> None:
        """Write ``tokenizer.json`` into a model's folder."""
        with write_atomically(Path(folder) / FILE) as draft:
            draft.write_text(self.text(), encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, folder: str | Path) -> WordTokenizer:
        """Load the tokenizer of a folder."""
        path = Path(folder) / FILE
        try:
            stored = load_json(path)
            ids: dict[str, int] = stored["model"]["vocab"]
            limit = int(stored["truncation"]["max_length"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: not a word tokenizer of captious ({error})") from error
        tokenizer = cls(tuple(sorted(ids, key=lambda token: ids[token])[2:-2]), limit)
        if tokenizer.vocabulary != ids:
            raise InputError(
                f"{path}: expected the ids 0 {PAD}, 1 {UNKNOWN}, the words, {START}, {END}; found another order"
            )
        return tokenizer


def _build_layout(tokenizer: WordTokenizer) -> dict[str, Any]:
    special = {PAD: tokenizer.pad, UNKNOWN: 1, START: tokenizer.start, END: tokenizer.end}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    frame = [{"SpecialToken": {"id": START, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    frame.append({"SpecialToken": {"id": END, "type_id": 0}})
    return {
        "version": "1.0",
        "truncation": {
            "direction": "Right",
            "max_length": tokenizer.limit,
            "strategy": "LongestFirst",
            "stride": 0,
        },
        "padding": {
            "strategy": "BatchLongest",
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": tokenizer.pad,
            "pad_type_id": 0,
            "pad_token": PAD,
        },
        "added_tokens": [{"id": number, "content": token, **flags} for token, number in special.items()],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": _PATTERN}, "behavior": "Removed", "invert": True},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": frame,
            "pair": [*frame, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                token: {"id": token, "ids": [special[token]], "tokens": [token]} for token in (START, END)
            },
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": tokenizer.vocabulary, "unk_token": UNKNOWN},
    }


Arrays = dict[str, Floats32]

_FLOATS = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}


def read_tensors(path: str | Path) -> Arrays:
    """Read the floating-point arrays of a safetensors file as float32; integers (old position ids) are skipped."""
    try:
        tensors = deserialize(read_regular(path))  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise InputError(f"{path}: not a whole safetensors file ({error})") from error
    return {name: _to_float32(**tensor) for name, tensor in tensors if tensor["dtype"] in (*_FLOATS, "BF16")}


def _to_float32(dtype: str, shape: list[int], data: bytes) -> Floats32:
    if dtype == "BF16":  # the upper half of a float32; safetensors.numpy does not know it
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return np.frombuffer(data, _FLOATS[dtype]).astype(np.float32).reshape(shape)


def write_tensors(path: str | Path, arrays: Mapping[str, Floats32], half: bool = False) -> None:
    """Write arrays in float32, or with ``half`` in float16: half the size, three digits."""
    dtype = np.float16 if half else np.float32
    content = save({name: np.asarray(array, dtype, order="C") for name, array in arrays.items()}, {"format": "pt"})
    with write_atomically(path) as draft:
        draft.write_bytes(content)


_TEXT = "text_model.embeddings."
_MOST_THREADS = 8
_LOCK = Lock()
_CHUNK = 16  # rows computed together: their attention maps and hidden states stay in the processor's cache


@dataclass(eq=False)
class NumpyClip:
    """CLIP model in NumPy arrays; an :class:`captious.models.encoder.Encoder`."""

    name: str
    fingerprint: str
    config: dict[str, Any] = field(repr=False)
    arrays: Arrays = field(repr=False)
    tokenizer: WordTokenizer = field(repr=False)
    preparation: ImagePreprocessing
    precision: str = "fp32"

    def __post_init__(self) -> None:
        self.dimension = len(self.arrays["text_projection.weight"])
        self.limit = self.tokenizer.limit

    def prepare(self, picture: Image) -> Pixels:
        """Resize and crop a picture to the size of the model, as RGB."""
        return self.preparation.prepare(picture)

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Tokenize a batch of texts."""
        return self.tokenizer.tokenize(texts)

    def image_features(self, pixels: Pixels) -> Features:
        """Return the vectors of a batch of prepared images."""
        return _encode_in_chunks(self._encode_images, pixels, self.dimension)

    def text_features(self, ids: Ints) -> Features:
        """Return the vectors of a batch of tokenized texts."""
        return _encode_in_chunks(self._encode_texts, ids, self.dimension)

    def token_features(self, ids: Ints) -> Features:
        """Return the vectors of all tokens of a batch of tokenized texts; zeros behind the end token."""
        return _encode_in_chunks(self._encode_tokens, ids, self.dimension)

    @cached_property
    def _vision(self) -> _Tower:
        return _Tower.read(self.arrays, "vision_model.", self.config["vision_config"])

    @cached_property
    def _text(self) -> _Tower:
        return _Tower.read(self.arrays, "text_model.", self.config["text_config"])

    def name_tokens(self, ids: Ints) -> list[str]:
        """Return the words of token ids."""
        names = (PAD, UNKNOWN, *self.tokenizer.words, START, END)
        return [names[number] for number in ids.tolist()]

    def _encode_images(self, pixels: Pixels) -> Features:
        arrays, size = self.arrays, self.config["vision_config"]["patch_size"]
        mean, std = (np.array(three, np.float32) for three in (self.preparation.mean, self.preparation.std))
        values = (pixels.astype(np.float32) / np.float32(255) - mean) / std
        n, height, width, _ = values.shape
        # The convolution over patches as one product: n × rows × columns × (3 · size · size), in the kernel's order.
        patches = values.reshape(n, height // size, size, width // size, size, 3).transpose(0, 1, 3, 5, 2, 4)
        kernel = arrays["vision_model.embeddings.patch_embedding.weight"]
        embedded = patches.reshape(n, -1, kernel[0].size) @ kernel.reshape(len(kernel), -1).T
        first = np.broadcast_to(arrays["vision_model.embeddings.class_embedding"], (n, 1, len(kernel)))
        states = np.concatenate([first, embedded], axis=1)
        states = states + arrays["vision_model.embeddings.position_embedding.weight"]
        tower = self._vision
        states = _normalize(states, *_get_pair(arrays, "vision_model.pre_layrnorm"), tower.epsilon)
        pooled = _normalize(
            tower.run(states, None)[:, 0], *_get_pair(arrays, "vision_model.post_layernorm"), tower.epsilon
        )
        return _multiply(pooled, arrays["visual_projection.weight"].T)

    def _encode_texts(self, ids: Ints) -> Features:
        states, ends = self._run_text_tower(ids)
        return self._project_text(states[np.arange(len(ids)), ends])

    def _encode_tokens(self, ids: Ints) -> Features:
        states, ends = self._run_text_tower(ids)
        vectors = np.zeros((*ids.shape, self.dimension), np.float32)
        vectors[:, : states.shape[1]] = self._project_text(states)
        vectors[np.arange(ids.shape[1]) > ends[:, None]] = 0.0
        return vectors

    def _run_text_tower(self, ids: Ints) -> tuple[Features, Ints]:
        """Return the states of tokens up to the last end token, before the last norm, and the index of each end."""
        arrays, end = self.arrays, self.config["text_config"]["eos_token_id"]
        # As in transformers: old configurations contain a wrong 2, which means the highest id.
        ends = (ids if end == 2 else ids == end).argmax(axis=1)
        ids = ids[:, : int(ends.max(initial=0)) + 1]
        states = arrays[f"{_TEXT}token_embedding.weight"][ids]
        states = states + arrays[f"{_TEXT}position_embedding.weight"][: ids.shape[1]]
        later = np.triu(np.full((ids.shape[1],) * 2, -np.inf, np.float32), 1)
        return self._text.run(states, later), ends

    def _project_text(self, states: Features) -> Features:
        pooled = _normalize(states, *_get_pair(self.arrays, "text_model.final_layer_norm"), self._text.epsilon)
        return _multiply(pooled, self.arrays["text_projection.weight"].T)


def load_numpy(folder: str | Path, name: str | None = None) -> NumpyClip:
    """Load the model of a folder in ``transformers``' layout whose tokenizer is made of words."""
    folder = Path(folder)
    config = read_json(folder / "config.json")
    if config.get("model_type") != "clip":
        raise InputError(f"{folder}: the model type is {config.get('model_type')!r}, expected 'clip'")
    path = folder / "model.safetensors"
    if not path.exists():
        raise InputError(f"{folder}: no model.safetensors next to config.json")
    tokenizer, preparation = WordTokenizer.load(folder), ImagePreprocessing.read(folder)
    files = read_regular(path), read_regular(folder / "config.json")
    parts = (*files, tokenizer.text().encode(), preparation.text.encode(), b"numpy fp32")
    arrays = read_tensors(path)
    tokenizer = replace(tokenizer, limit=min(tokenizer.limit, len(arrays[f"{_TEXT}position_embedding.weight"])))
    return NumpyClip(name or folder.name, digest(*parts), config, arrays, tokenizer, preparation)


@dataclass(frozen=True)
class _Layer:
    """Weights of one transformer block: attention and a perceptron, each after a layer norm, with residuals."""

    norm1: tuple[Floats32, Floats32]
    query_key_value: tuple[Floats32, Floats32]
    out: tuple[Floats32, Floats32]
    norm2: tuple[Floats32, Floats32]
    up: tuple[Floats32, Floats32]
    down: tuple[Floats32, Floats32]


@dataclass(frozen=True)
class _Tower:
    """Transformer of one side, image or text."""

    layers: tuple[_Layer, ...]
    heads: int
    epsilon: float
    activation: Callable[[Floats32], Floats32]

    @classmethod
    def read(cls, arrays: Arrays, prefix: str, config: dict[str, Any]) -> _Tower:
        """Read the tower under a prefix of the arrays' names."""
        activation = config.get("hidden_act", "quick_gelu")
        if activation not in ACTIVATIONS:
            raise InputError(f"hidden_act is {activation!r}: expected one of {', '.join(ACTIVATIONS)}")
        layers = tuple(
            _read_layer(arrays, f"{prefix}encoder.layers.{number}.", config["num_attention_heads"])
            for number in range(config["num_hidden_layers"])
        )
        epsilon = config.get("layer_norm_eps", 1e-5)
        return cls(layers, config["num_attention_heads"], epsilon, ACTIVATIONS[activation])

    def run(self, states: Floats32, mask: Floats32 | None) -> Floats32:
        """Return the hidden states after the last block, n × tokens × width."""
        n, tokens, width = states.shape
        for layer in self.layers:
            mixed = _normalize(states, *layer.norm1, self.epsilon) @ layer.query_key_value[0] + layer.query_key_value[1]
            query, key, value = mixed.reshape(n, tokens, 3, self.heads, -1).transpose(2, 0, 3, 1, 4)
            weights = query @ key.swapaxes(-1, -2)
            if mask is not None:
                weights += mask
            np.exp(weights - weights.max(axis=-1, keepdims=True), out=weights)
            weights /= weights.sum(axis=-1, keepdims=True)
            attended = (weights @ value).transpose(0, 2, 1, 3).reshape(n, tokens, width)
            states = states + (attended @ layer.out[0] + layer.out[1])
            inner = self.activation(_normalize(states, *layer.norm2, self.epsilon) @ layer.up[0] + layer.up[1])
            states = states + (inner @ layer.down[0] + layer.down[1])
        return states


def _read_layer(arrays: Arrays, prefix: str, heads: int) -> _Layer:
    def linear(name: str) -> tuple[Floats32, Floats32]:
        return np.ascontiguousarray(arrays[f"{prefix}{name}.weight"].T), arrays[f"{prefix}{name}.bias"]

    query, key, value = (linear(f"self_attn.{one}_proj") for one in "qkv")
    # Query, key and value become one product; the scale of attention is folded into the query.
    scale = np.float32((len(query[1]) // heads) ** -0.5)
    joined = (
        np.concatenate([query[0] * scale, key[0], value[0]], axis=1),
        np.concatenate([query[1] * scale, key[1], value[1]]),
    )
    norms = _get_pair(arrays, f"{prefix}layer_norm1"), _get_pair(arrays, f"{prefix}layer_norm2")
    return _Layer(norms[0], joined, linear("self_attn.out_proj"), norms[1], linear("mlp.fc1"), linear("mlp.fc2"))


def _get_pair(arrays: Arrays, name: str) -> tuple[Floats32, Floats32]:
    return arrays[f"{name}.weight"], arrays[f"{name}.bias"]


def _multiply(states: Floats32, weight: Floats32) -> Floats32:
    product: Floats32 = states @ weight
    return product


def _normalize(states: Floats32, weight: Floats32, bias: Floats32, epsilon: float) -> Floats32:
    centered = states - states.mean(axis=-1, keepdims=True)
    spread = np.sqrt(
        np.einsum("...i,...i->...", centered, centered)[..., None] / np.float32(states.shape[-1]) + epsilon
    )
    scaled: Floats32 = centered * (weight / spread) + bias
    return scaled


def _quick_gelu(values: Floats32) -> Floats32:
    activated: Floats32 = values / (1 + np.exp(-np.float32(1.702) * values))
    return activated


def _gelu(values: Floats32) -> Floats32:
    from scipy.special import erf

    activated: Floats32 = np.float32(0.5) * values * (1 + erf(values * np.float32(0.5**0.5)))
    return activated


ACTIVATIONS: dict[str, Callable[[Floats32], Floats32]] = {"quick_gelu": _quick_gelu, "gelu": _gelu}


def _encode_in_chunks(encode: Callable[[Any], Features], rows: npt.NDArray[Any], dimension: int) -> Features:
    """Encode with a thread per core, each with one BLAS thread; concurrent calls wait, as each uses every core."""
    chunks = [rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK)]
    if not chunks:
        return np.zeros((0, dimension), np.float32)
    threads = min(_MOST_THREADS, os.cpu_count() or 1, len(chunks))
    with _LOCK, _get_blas().limit(limits=1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(encode, chunks)))


@cache
def _get_blas() -> ThreadpoolController:
    """Return the controller of BLAS threads; creating it takes longer than a batch, so it is cached."""
    return ThreadpoolController()


# CLIPScore's prompt; its words are always in the vocabulary.
PREFIX = "A photo depicts"

SIDE, PATCH, LIMIT = 96, 12, 248
EMBEDDING = 128
IMAGE_WIDTH, TEXT_WIDTH, LAYERS, HEAD = 160, 128, 4, 32
# Width of a layer's perceptron, as a multiple of the layer's width.
WIDER = 3


def get_mini_folder(name: str) -> Path:
    """Return the folder of a mini's weights in the package."""
    if name not in MINI:
        raise InputError(f"unknown small encoder {name!r}: expected one of {', '.join(MINI)}")
    return Path(__file__).parents[1] / "data" / "weights" / name


def load_mini(name: str, runtime: Runtime | None = None) -> Encoder:
    """Load the encoder in NumPy, or on torch if the runtime asks for a GPU or for half precision."""
    runtime = runtime or get_runtime()
    folder = get_mini_folder(name)
    if runtime.device in ("auto", "cpu") and runtime.precision in ("auto", "fp32"):
        return load_numpy(folder, name)
    from captious.models.clip import load_folder

    return load_folder(folder, name, runtime)


def make_mini(texts: Iterable[str], name: str = "captious-mini", device: str = "auto", seed: int = 0) -> TorchEncoder:
    """Make a mini with random weights and the vocabulary of ``texts``, to be trained.

    Equal texts and seed give equal weights, whatever the device.
    """
    import tempfile

    from captious.models.clip import wrap

    words = WordTokenizer.from_texts((PREFIX, *texts), LIMIT)
    with tempfile.TemporaryDirectory() as folder:
        words.save(folder)
        tokenizer = read_tokenizer(Path(folder), LIMIT)
    return wrap(_build_module(words, seed), tokenizer, make_preparation(), name, device, "fp32")


def make_preparation() -> ImagePreprocessing:
    """Return CLIP's resize and crop at a smaller size; drawn colors are saturated, so the deviation is larger."""
    return ImagePreprocessing(size=SIDE, crop=SIDE, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))


def export_half(source: str | Path, target: str | Path) -> None:
    """Copy a trained folder with weights in float16, the form in which a mini is shipped."""
    source, target = Path(source), Path(target)
    target.mkdir(parents=True, exist_ok=True)
    write_tensors(target / "model.safetensors", read_tensors(source / "model.safetensors"), half=True)
    for name in ("config.json", "preprocessor_config.json"):
        (target / name).write_bytes((source / name).read_bytes())
    tokenizer = WordTokenizer.load(source)
    (target / FILE).write_text(tokenizer.text(), encoding="utf-8", newline="\n")


def _build_module(words: WordTokenizer, seed: int) -> Any:
    torch = require("torch", "clip")
    transformers = require("transformers", "clip")
    towers = [
        {
            "hidden_size": width,
            "intermediate_size": WIDER * width,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": width // HEAD,
            "projection_dim": EMBEDDING,
        }
        for width in (TEXT_WIDTH, IMAGE_WIDTH)
    ]
    ends = {"bos_token_id": words.start, "eos_token_id": words.end, "pad_token_id": words.pad}
    config = transformers.CLIPConfig(
        text_config={**towers[0], **ends, "vocab_size": words.end + 1, "max_position_embeddings": LIMIT},
        vision_config={**towers[1], "image_size": SIDE, "patch_size": PATCH},
        projection_dim=EMBEDDING,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.CLIPModel(config)
