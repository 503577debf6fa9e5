"""A BERT with a small head as classifier, fine-tuned or frozen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.files import digest, read_regular
from captious._core.types import Floats
from captious.bias.corpus import ClassifierTask, Progress
from captious.bias.masks import as_text
from captious.errors import InputError, require
from captious.models.devices import resolve_device, use_tf32
from captious.models.hub import TEXT_FILES, ModelRegistry, find_local, find_model
from captious.options import get_runtime

BERT = "bert-base-uncased"


@dataclass(frozen=True)
class Bert:
    """[CLS] of the last layer, BatchNorm, Linear, BatchNorm, LeakyReLU, Linear; AdamW with weight decay.

    Fine-tuned: 5 epochs at 1e-5. Frozen: 20 epochs at 5e-5, as in the original's README; RELIC's scripts froze the
    encoder without setting these (5 epochs, 1e-5), which the preset ``relic`` reproduces. As in the originals, a frozen
    encoder's own dropout stays on while the head is trained; ``frozen_dropout=False`` turns that off.

    Captions are padded to the longest of their batch, not to ``length``: the numbers are the same because attention is
    masked. Runs are trained one after another, each with its own seed.
    """

    model: str = BERT
    frozen: bool = False
    epochs: int = 5
    rate: float = 1e-5
    batch: int = 64
    length: int = 64
    hidden: int = 256
    decay: float = 0.1
    frozen_dropout: bool = True

    @property
    def name(self) -> str:
        """``bert-ft`` or ``bert-pre``, with the model's name if it is not BERT base."""
        kind = "bert-pre" if self.frozen else "bert-ft"
        return kind if self.model == BERT else f"{kind}({Path(self.model).name})"

    @classmethod
    def pre(cls, **changed: Any) -> Bert:
        """Make the frozen classifier."""
        return cls(**{"frozen": True, "epochs": 20, "rate": 5e-5, **changed})

    def settings(self) -> Mapping[str, Any]:
        """Return everything that can change its numbers; a local model is identified by its weights, not its path."""
        versions = {name: require(name, "bias").__version__ for name in ("torch", "transformers")}
        # Precision of matrix products, as `use_tf32` sets it.
        products = "tf32" if resolve_device(get_runtime().device).type == "cuda" else "float32"
        model = _get_identity(self.model)
        return {"classifier": self.name, **asdict(self), "model": model, "products": products, **versions}

    def group_tasks(self, tasks: Sequence[ClassifierTask]) -> list[list[ClassifierTask]]:
        """Put each task into a group of its own, because no two are trained together."""
        return [[task] for task in tasks]

    def train(self, tasks: Sequence[ClassifierTask], progress: Progress) -> list[Floats]:
        """Train each task on a fresh copy of the encoder."""
        return [train(self, task, progress) for task in tasks]


@cache
def _get_identity(model: str) -> str:
    """Return the name of a hub model, or a hash of the weights of a local one."""
    folder = Path(model)
    if not folder.is_dir():
        return model
    weights = sorted((*folder.glob("*.safetensors"), *folder.glob("*.bin")))
    return f"{folder.name}:{digest(*map(read_regular, weights))}"


_LOADED: ModelRegistry[tuple[Any, Any]] = ModelRegistry(limit=2)


def load_bert(model: str) -> tuple[Any, Any]:
    """Load the tokenizer and encoder of a local folder or a hub id, once."""
    return _LOADED.get(model, lambda: _load(model))


def _load(model: str) -> tuple[Any, Any]:
    transformers = require("transformers", "bias")
    instead = "the classifier linear works without a download"
    folder = find_local(model) or find_model(model, f"BERT {model!r}", instead, TEXT_FILES)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        return tokenizer, transformers.AutoModel.from_pretrained(folder).float()
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:160]
        raise InputError(f"BERT {model!r}: cannot be loaded, expected a local folder or a hub id ({reason})") from None


def train(config: Bert, task: ClassifierTask, progress: Progress) -> Floats:
    """Train with the task's own seed on its training captions; return the class probabilities of its test captions."""
    torch = require("torch", "bias")
    device = resolve_device(get_runtime().device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), use_tf32():
        # A nonnegative 63-bit seed from the first two words of the task's entropy.
        torch.manual_seed(int.from_bytes(np.array(task.entropy[:2], dtype="<u4").tobytes(), "little") >> 1)
        return _train(config, task, device, progress)


def _train(config: Bert, task: ClassifierTask, device: Any, progress: Progress) -> Floats:
    torch = require("torch", "bias")
    tokenizer, original = load_bert(config.model)  # shared by all runs, so each trains a copy
    encoder = deepcopy(original).to(device).train()
    head = _build_head(encoder.config.hidden_size, config.hidden, task.classes).to(device).train()
    if config.frozen:
        encoder.requires_grad_(False)
        encoder.train(config.frozen_dropout)
    fused = device.type == "cuda" or None  # None: torch chooses
    optimizer = torch.optim.AdamW(
        _group_parameters(config, encoder, head), lr=config.rate, betas=(0.9, 0.98), eps=1e-6, fused=fused
    )
    train_tokens = _encode(tokenizer, task, task.split.train, config.length, device)
    truth = torch.from_numpy(task.train_labels).to(device)
    generator = np.random.default_rng([*task.entropy, 1])
    for _ in range(config.epochs):
        for chosen in _split_batches(generator.permutation(len(truth)), config.batch):
            indices = torch.from_numpy(chosen).to(device)
            logits = head(_encode_first_token(encoder, train_tokens, chosen, indices))
            loss = torch.nn.functional.cross_entropy(logits, truth[indices])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        progress(1 / config.epochs)
    encoder.eval()
    head.eval()
    test_tokens = _encode(tokenizer, task, task.split.test, config.length, device)
    probabilities = []
    with torch.no_grad():
        for chosen in _split_batches(np.arange(len(task.split.test)), 4 * config.batch):
            logits = head(_encode_first_token(encoder, test_tokens, chosen, torch.from_numpy(chosen).to(device)))
            probabilities.append(torch.softmax(logits.double(), dim=-1).cpu().numpy())
    return np.concatenate(probabilities)


def _build_head(width: int, hidden: int, classes: int) -> Any:
    nn = require("torch", "bias").nn
    return nn.Sequential(
        nn.BatchNorm1d(width),
        nn.Linear(width, hidden),
        nn.BatchNorm1d(hidden),
        nn.LeakyReLU(0.01),
        nn.Linear(hidden, classes),
    )


def _group_parameters(config: Bert, encoder: Any, head: Any) -> list[dict[str, Any]]:
    """Group parameters for weight decay, which excludes biases and layer norms; the unused pooler is left out."""
    named = [*head.named_parameters()]
    if not config.frozen:
        named += [(name, value) for name, value in encoder.named_parameters() if "pooler" not in name]
    groups: dict[bool, list[Any]] = {True: [], False: []}  # by whether weight decay applies
    for name, value in named:
        groups[not (name.endswith("bias") or "LayerNorm.weight" in name)].append(value)
    return [
        {"params": groups[True], "weight_decay": config.decay},
        {"params": groups[False], "weight_decay": 0.0},
    ]


def _encode(tokenizer: Any, task: ClassifierTask, indices: Any, length: int, device: Any) -> tuple[Any, Any, Any]:
    """Encode captions as token ids, attention mask, and lengths (on the CPU)."""
    unknown = tokenizer.unk_token or ""
    texts = [as_text(task.captions[i], tokenizer.mask_token or unknown, unknown) for i in indices.tolist()]
    encoded = tokenizer(texts, truncation=True, max_length=length, padding=True, return_tensors="pt")
    mask = encoded["attention_mask"]
    return encoded["input_ids"].to(device), mask.to(device), mask.sum(dim=1).numpy()


def _encode_first_token(encoder: Any, tokens: tuple[Any, Any, Any], chosen: Any, indices: Any) -> Any:
    """Return the [CLS] vectors of a batch, which is padded only to its longest caption. ``chosen`` and ``indices`` are
    the same caption numbers, on the CPU and on the device.
    """
    ids, mask, lengths = tokens
    longest = int(lengths[chosen].max())
    return encoder(input_ids=ids[indices, :longest], attention_mask=mask[indices, :longest]).last_hidden_state[:, 0]


def _split_batches(order: Any, size: int) -> Iterator[Any]:
    """Split into batches of this size; a last batch of one caption joins the one before: BatchNorm needs two."""
    starts: Sequence[int] = range(0, len(order), size)
    if len(order) % size == 1 and len(starts) > 1:
        starts = starts[:-1]
    for number, first in enumerate(starts):
        yield order[first : first + size] if number + 1 < len(starts) else order[first:]
