"""Many bi-LSTMs trained as one stack of tensors, whose first dimension is the run.

Every product is a batched one and Adam is elementwise, so runs do not touch each other. Initial weights and dropout are
functions of a run's own key, and a run gives the same numbers alone and in any company.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from captious._random import SIGNED_GAMMA, mix
from captious._typing import Floats
from captious.bias.classifiers._encoding import encode, epoch_batches, stacked_words
from captious.bias.corpus import ClassifierTask, Progress
from captious.errors import require
from captious.models.devices import resolve_device, tf32_products
from captious.options import current

if TYPE_CHECKING:
    from captious.bias.classifiers.lstm import Lstm

torch = require("torch", "bias")

DIRECTIONS = 2
TESTED_AT_ONCE = 128
FIRST_STEP = 1000
"""Streams of random numbers below this are of initial weights, the others of dropout."""
CLOSED = -1e4
"""The number added to the input gate of an absent word. Read backwards, absent words come first: the state stays 0 up
to the first word. Read forwards they come last, and nothing reads them.
"""
_ROW = 1 << 20
"""Longer than any caption: positions do not depend on how far a batch is padded."""


def train(config: Lstm, tasks: Sequence[ClassifierTask], progress: Progress) -> list[Floats]:
    """Train the tasks side by side; the class probabilities of each one's test captions."""
    with tf32_products():
        stack = Stack(config, tasks)
        stack.train(progress)
        return stack.test()


class Stack:
    """Weights of E runs, their captions, and what trains and tests them."""

    def __init__(self, config: Lstm, tasks: Sequence[ClassifierTask]) -> None:
        self.config, self.tasks, self.runs = config, tasks, len(tasks)
        self.device = resolve_device(current().device)
        self.dtype = getattr(torch, config.dtype)
        encoded = encode(tasks, config.words)
        self.binary = tasks[0].classes == 2
        self.size = max(one.size for one in encoded)
        self.keys = keys([task.entropy for task in tasks], self.device)
        drawn = initial_weights(config, self.keys, self.size, 1 if self.binary else tasks[0].classes)
        self.weights = {name: value.to(self.dtype).requires_grad_() for name, value in drawn.items()}
        self.train_words, self.train_lengths = stacked_words([one.train for one in encoded])
        self.test_words, self.test_lengths = stacked_words([one.test for one in encoded])
        self.offsets = torch.arange(self.runs, device=self.device).view(-1, 1, 1) * self.size

    def train(self, progress: Progress) -> None:
        """The given number of epochs; there is no validation, no schedule and no choice of checkpoint."""
        config = self.config
        words = torch.from_numpy(self.train_words).to(self.device)
        lengths = torch.from_numpy(self.train_lengths).to(self.device)
        truth = torch.from_numpy(np.stack([task.train_labels for task in self.tasks])).to(self.device)
        orders = [np.random.default_rng([*task.entropy, 1]) for task in self.tasks]
        optimizer = torch.optim.Adam(self.weights.values(), lr=config.rate, fused=self.device.type == "cuda" or None)
        done = 0
        for epoch in range(config.epochs):
            batches = epoch_batches(self.train_lengths, orders, epoch, config.batch)
            longest = np.take_along_axis(self.train_lengths[None], np.maximum(batches, 0), axis=2).max(axis=(1, 2))
            on_device = torch.from_numpy(batches).to(self.device)
            for number, steps in enumerate(longest.tolist()):
                chosen = on_device[number]
                picked = chosen.clamp(min=0)
                rows = torch.gather(words, 1, picked.unsqueeze(-1).expand(-1, -1, words.shape[2]))[..., :steps]
                logits = self.logits(rows, lengths.gather(1, picked), done)
                loss = self._loss(logits, truth.gather(1, picked), chosen >= 0)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                done += 1
                progress(self.runs / (config.epochs * len(batches)))

    def _loss(self, logits: Any, truth: Any, real: Any) -> Any:
        """The sum over runs of each one's mean over its batch."""
        if self.binary:
            pull = truth.to(logits.dtype)
            each = torch.nn.functional.binary_cross_entropy_with_logits(logits[..., 0], pull, reduction="none")
        else:
            each = -torch.log_softmax(logits, dim=-1).gather(2, truth.unsqueeze(-1))[..., 0]
        return ((each * real).sum(dim=1) / real.sum(dim=1)).sum()

    def logits(self, words: Any, lengths: Any, step: int | None = None) -> Any:
        """Runs × captions × outputs for words of runs × captions × words; with a step, under its dropout."""
        weights, share = self.weights, 0.0 if step is None else self.config.dropout
        when = FIRST_STEP + (step or 0) * (self.config.layers + 1)
        absent = torch.arange(words.shape[2], device=self.device).view(1, -1, 1) >= lengths.unsqueeze(1)
        closed = torch.cat([absent, absent.flip(1)]).unsqueeze(-1) * CLOSED
        numbers = words.transpose(1, 2) + self.offsets
        states = torch.nn.functional.embedding(numbers, weights["embedding"].flatten(0, 1))
        for layer in range(self.config.layers):
            states = dropout(states, share, streams(self.keys, when + layer))
            inputs = torch.cat([states, states.flip(1)])
            bias = weights[f"bias_in_{layer}"] + weights[f"bias_back_{layer}"]
            gates = torch.baddbmm(bias, inputs.flatten(1, 2), weights[f"in_{layer}"]).view(*inputs.shape[:3], -1)
            gates[..., : self.config.hidden] += closed
            forth, back = recurrence(gates, weights[f"back_{layer}"]).split(self.runs)
            states = torch.cat([forth, back.flip(1)], dim=-1)
        ends = torch.take_along_dim(forth, (lengths - 1).view(self.runs, 1, -1, 1), dim=1)
        last = torch.cat([ends[:, 0], back[:, -1]], dim=-1)
        last = dropout(last, share, streams(self.keys, when + self.config.layers))
        return torch.baddbmm(weights["out_bias"], last, weights["out"])

    def test(self) -> list[Floats]:
        """Class probabilities of the test captions, the longest read together."""
        order = np.argsort(self.test_lengths, axis=1, kind="stable")
        probabilities = np.empty((*order.shape, 2 if self.binary else self.tasks[0].classes))
        with torch.no_grad():
            for first in range(0, order.shape[1], TESTED_AT_ONCE):
                chosen = order[:, first : first + TESTED_AT_ONCE]
                lengths = np.take_along_axis(self.test_lengths, chosen, axis=1)
                rows = np.take_along_axis(self.test_words, chosen[..., None], axis=1)[..., : int(lengths.max())]
                logits = self.logits(torch.from_numpy(rows).to(self.device), torch.from_numpy(lengths).to(self.device))
                shown = logits.double().cpu().numpy()
                if self.binary:
                    shown = np.concatenate([np.zeros_like(shown), shown], axis=-1)
                np.put_along_axis(probabilities, chosen[..., None], softmax(shown, axis=-1), axis=1)
        return list(probabilities)


def initial_weights(config: Lstm, key: Any, size: int, outputs: int) -> dict[str, Any]:
    """Initial weights from torch's own distributions; padding and the unseen word are 0 in the embedding.

    Embedding and output are runs × …; recurrent layers are directions·runs × in × out, to be used in one product.
    """
    table = normal(streams(key, 0), size, config.embedding)
    table[:, :2] = 0
    weights = {"embedding": table}
    stream = 0

    def draw(width: float, *shape: int) -> Any:
        nonlocal stream
        stream += 1
        return (2 * uniform(streams(key, stream), *shape) - 1) / math.sqrt(width)

    def both(*shape: int) -> Any:
        return torch.cat([draw(config.hidden, *shape) for _ in range(DIRECTIONS)])

    for layer in range(config.layers):
        weights[f"in_{layer}"] = both(DIRECTIONS * config.hidden if layer else config.embedding, 4 * config.hidden)
        weights[f"back_{layer}"] = both(config.hidden, 4 * config.hidden)
        weights[f"bias_in_{layer}"] = both(1, 4 * config.hidden)
        weights[f"bias_back_{layer}"] = both(1, 4 * config.hidden)
    weights["out"] = draw(DIRECTIONS * config.hidden, DIRECTIONS * config.hidden, outputs)
    weights["out_bias"] = draw(DIRECTIONS * config.hidden, 1, outputs)
    return weights


def keys(entropies: Sequence[Sequence[int]], device: Any) -> Any:
    """One 64-bit key per run, from its entropy."""
    numbers = [np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] for entropy in entropies]
    return torch.from_numpy(np.array(numbers, dtype=np.uint64).view(np.int64)).to(device)


def streams(key: Any, number: int) -> Any:
    """One key per run for each stream of numbers that it draws."""
    return mix(key + torch.full_like(key, number) * SIGNED_GAMMA)


def uniform(key: Any, *shape: int) -> Any:
    """Runs × shape numbers in (0, 1), of 24 bits each."""
    counter = torch.arange(math.prod(shape), device=key.device) * SIGNED_GAMMA
    bits = (mix(key[:, None] + counter) >> 40) & ((1 << 24) - 1)
    return ((bits.float() + 0.5) / (1 << 24)).view(len(key), *shape)


def normal(key: Any, rows: int, columns: int) -> Any:
    """Runs × rows × columns standard normal numbers, by Box and Muller; row r does not depend on how many rows."""
    radius = torch.sqrt(-2 * torch.log(uniform(streams(key, 1), rows, columns)))
    return radius * torch.cos(2 * math.pi * uniform(streams(key, 2), rows, columns))


def dropout(x: Any, share: float, key: Any) -> Any:
    """Zero a ``share`` of the entries of x (runs × words × captions × features, or without words), scale up the rest.

    Each 64-bit draw decides on four entries with 16 bits each.
    """
    if share == 0:
        return x
    runs, captions, features = x.shape[0], x.shape[-2], x.shape[-1]
    steps = x.shape[1] if x.dim() == 4 else 1
    groups = -(-features // 4)
    word = torch.arange(steps, device=x.device).view(1, steps, 1, 1)
    caption = torch.arange(captions, device=x.device).view(1, 1, captions, 1)
    group = torch.arange(groups, device=x.device)
    counter = ((caption * _ROW + word) * groups + group) * SIGNED_GAMMA
    lanes = mix(key.view(runs, 1, 1, 1) + counter).view(torch.int16)[..., :features].reshape(x.shape)
    mask = (lanes >= round(share * 65536) - 32768).to(x.dtype)
    return x * mask.mul_(1 / (1 - share))


def recurrence(inputs: Any, weights: Any) -> Any:
    """Hidden states of LSTMs (runs × words × captions × hidden) from their projected inputs.

    ``inputs`` (runs × words × captions × 4·hidden) hold W·x + b for the gates in torch's order (input, forget, cell,
    output), ``weights`` are runs × hidden × 4·hidden.
    """
    runs, _, captions, width = inputs.shape
    hidden = inputs.new_zeros(runs, captions, width // 4)
    memory, states = hidden.flatten(0, 1), []
    for gates in inputs.unbind(1):
        hidden, memory = cell(gates.flatten(0, 1), torch.bmm(hidden, weights).flatten(0, 1), memory)
        hidden = hidden.view(runs, captions, -1)
        states.append(hidden)
    return torch.stack(states, dim=1)


def cell(inputs: Any, recurrent: Any, memory: Any) -> tuple[Any, Any]:
    """Hidden state and memory after a word, from the two parts of the gates; on a GPU by torch's own fused kernel."""
    if inputs.is_cuda:
        hidden, memory, _ = torch.ops.aten._thnn_fused_lstm_cell(inputs, recurrent, memory)
        return hidden, memory
    enter, forget, new, out = (inputs + recurrent).chunk(4, dim=-1)
    memory = forget.sigmoid() * memory + enter.sigmoid() * new.tanh()
    return out.sigmoid() * memory.tanh(), memory
