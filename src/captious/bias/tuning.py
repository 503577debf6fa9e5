"""Training one BERT classifier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np

from captious.bias.bert import loaded
from captious.bias.lstm import device_named
from captious.bias.masking import as_text
from captious.bias.tasks import Progress, Task
from captious.extras import require
from captious.measurement import Floats

if TYPE_CHECKING:
    from captious.bias.bert import Bert

torch = require("torch", "bias")
nn: Any = torch.nn


def train(config: Bert, task: Task, progress: Progress) -> Floats:
    """Train on the task's training captions; the class probabilities of its test captions."""
    device = torch.device(device_named(config.device))
    before = torch.backends.cuda.matmul.allow_tf32
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(int.from_bytes(np.array(task.entropy[:2], dtype="<u4").tobytes(), "little") >> 1)
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return _train(config, task, device, progress)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before


def _train(config: Bert, task: Task, device: Any, progress: Progress) -> Floats:
    tokeniser, original = loaded(config.model)
    encoder = deepcopy(original).to(device).train()
    head = _head(encoder.config.hidden_size, config.hidden, task.classes).to(device).train()
    if config.frozen:
        encoder.requires_grad_(False)
        encoder.train(config.frozen_dropout)
    fused = device.type == "cuda" or None
    optimiser = torch.optim.AdamW(
        _groups(config, encoder, head), lr=config.rate, betas=(0.9, 0.98), eps=1e-6, fused=fused
    )
    words = _encoded(tokeniser, task, task.split.train, config.length, device)
    truth = torch.from_numpy(task.train_labels).to(device)
    order = np.random.default_rng([*task.entropy, 1])
    for _ in range(config.epochs):
        for chosen in _batches(order.permutation(len(truth)), config.batch):
            picked = torch.from_numpy(chosen).to(device)
            logits = head(_first_token(encoder, words, chosen, picked))
            loss = nn.functional.cross_entropy(logits, truth[picked])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        progress(1 / config.epochs)
    encoder.eval()
    head.eval()
    tested = _encoded(tokeniser, task, task.split.test, config.length, device)
    found = []
    with torch.no_grad():
        for chosen in _batches(np.arange(len(task.split.test)), 4 * config.batch):
            logits = head(_first_token(encoder, tested, chosen, torch.from_numpy(chosen).to(device)))
            found.append(torch.softmax(logits.double(), dim=-1).cpu().numpy())
    return np.concatenate(found)


def _head(width: int, hidden: int, classes: int) -> Any:
    return nn.Sequential(
        nn.BatchNorm1d(width),
        nn.Linear(width, hidden),
        nn.BatchNorm1d(hidden),
        nn.LeakyReLU(0.01),
        nn.Linear(hidden, classes),
    )


def _groups(config: Bert, encoder: Any, head: Any) -> list[dict[str, Any]]:
    """Weight decay on everything but biases and layer norms; the pooler, which is not used, is left out."""
    named = [(name, value) for name, value in head.named_parameters()]
    if not config.frozen:
        named += [(name, value) for name, value in encoder.named_parameters() if "pooler" not in name]
    plain = [value for name, value in named if name.endswith("bias") or "LayerNorm.weight" in name]
    plain_ids = {id(value) for value in plain}
    decayed = [value for _, value in named if id(value) not in plain_ids]
    return [{"params": decayed, "weight_decay": config.decay}, {"params": plain, "weight_decay": 0.0}]


def _encoded(tokeniser: Any, task: Task, positions: Any, length: int, device: Any) -> tuple[Any, Any, Any]:
    """Token ids, attention mask, and lengths on the CPU."""
    unknown = tokeniser.unk_token or ""
    texts = [as_text(task.captions[i], tokeniser.mask_token or unknown, unknown) for i in positions.tolist()]
    found = tokeniser(texts, truncation=True, max_length=length, padding=True, return_tensors="pt")
    mask = found["attention_mask"]
    return found["input_ids"].to(device), mask.to(device), mask.sum(dim=1).numpy()


def _first_token(encoder: Any, words: tuple[Any, Any, Any], chosen: Any, picked: Any) -> Any:
    ids, mask, lengths = words
    longest = int(lengths[chosen].max())
    states = encoder(input_ids=ids[picked, :longest], attention_mask=mask[picked, :longest]).last_hidden_state
    return states[:, 0]


def _batches(order: Any, size: int) -> Iterator[Any]:
    """Batches of this size; a last one of a single caption joins the one before, for BatchNorm needs two."""
    starts: Sequence[int] = range(0, len(order), size)
    if len(order) % size == 1 and len(starts) > 1:
        starts = starts[:-1]
    for number, first in enumerate(starts):
        yield order[first : first + size] if number + 1 < len(starts) else order[first:]
