"""Many bi-LSTMs trained as one stack of tensors.

Every product is batched over runs and Adam is elementwise, so runs are independent. Initial weights and dropout are
functions of a run's own key, so a run gives the same numbers in any stack.

Weights have the run as first dimension; those of recurrent layers have both directions, one after the other::

    weights (in_0, back_0, …)            states
    ┌──────────────────┐ run 0   ┐        word 0  ┌ caption 0 │ run 0: features │ run 1: features │ … ┐
    │   in × 4·hidden  │ run 1   │ forwards       │ caption 1 │ run 0: features │ run 1: features │ … │
    │                  │ …       ┘                └ …                                                 ┘
    ├──────────────────┤ run 0   ┐        word 1  ┌ caption 0 │ run 0: features │ run 1: features │ … ┐
    │                  │ run 1   │ backwards      └ …                                                 ┘
    └──────────────────┘ …       ┘        …

States are words × captions × runs × features: the values of all runs for one word are contiguous, so a time step is one
slice. The rows of one run, over words and captions, are a matrix with a constant stride (`_flatten_rows`), so a product
over all words needs no copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from captious._core.random import SIGNED_GAMMA, mix
from captious._core.types import Floats
from captious.bias.classifiers._encoding import draw_batches, encode, stack_words
from captious.bias.corpus import ClassifierTask, Progress
from captious.errors import require
from captious.models.devices import resolve_device, use_tf32
from captious.options import get_runtime

if TYPE_CHECKING:
    from captious.bias.classifiers.lstm import Lstm

torch = require("torch", "bias")

DIRECTIONS = 2
TESTED_AT_ONCE = 128
# Streams of random numbers below this are for initial weights, the others for dropout.
FIRST_STEP = 1000
# Added to the input gate of padding when captions are read backwards and padding comes first: it closes the gate, so
# the state stays 0 until the first word. When read forwards, padding comes last, and its states are not used.
CLOSED = -1e4
# Longer than any caption, so that the random number of a position does not depend on the padding of its batch.
_ROW = 1 << 20


def train(config: Lstm, tasks: Sequence[ClassifierTask], progress: Progress) -> list[Floats]:
    """Train the tasks as one stack; return the class probabilities of each one's test captions."""
    with use_tf32():
        stack = Stack(config, tasks)
        stack.train(progress)
        return stack.test()


class Stack:
    """The weights and captions of several runs, with training and testing."""

    def __init__(self, config: Lstm, tasks: Sequence[ClassifierTask]) -> None:
        self.config, self.tasks, self.runs = config, tasks, len(tasks)
        self.device = resolve_device(get_runtime().device)
        self.dtype = getattr(torch, config.dtype)
        encoded = encode(tasks, config.words)
        self.binary = tasks[0].classes == 2
        self.size = max(one.size for one in encoded)
        self.keys = make_keys([task.entropy for task in tasks], self.device)
        drawn = draw_weights(config, self.keys, self.size, 1 if self.binary else tasks[0].classes)
        self.weights = {name: value.to(self.dtype).requires_grad_() for name, value in drawn.items()}
        self.train_words, self.train_lengths = stack_words([one.train for one in encoded])
        self.test_words, self.test_lengths = stack_words([one.test for one in encoded])
        self.offsets = torch.arange(self.runs, device=self.device) * self.size

    def train(self, progress: Progress) -> None:
        """Train for the given number of epochs, without validation, schedule or choice of checkpoint."""
        config = self.config
        words = torch.from_numpy(self.train_words).to(self.device)
        lengths = torch.from_numpy(self.train_lengths).to(self.device)
        truth = torch.from_numpy(np.stack([task.train_labels for task in self.tasks])).to(self.device)
        orders = [np.random.default_rng([*task.entropy, 1]) for task in self.tasks]
        optimizer = torch.optim.Adam(self.weights.values(), lr=config.rate, fused=self.device.type == "cuda" or None)
        done = 0
        for epoch in range(config.epochs):
            batches = draw_batches(self.train_lengths, orders, epoch, config.batch)
            in_batch = np.take_along_axis(self.train_lengths[None], np.maximum(batches, 0), axis=2)
            shortest, longest = (chosen(in_batch, axis=(1, 2)).tolist() for chosen in (np.min, np.max))
            on_device = torch.from_numpy(batches).to(self.device)
            for number, (least, steps) in enumerate(zip(shortest, longest, strict=True)):
                chosen = on_device[number]
                indices = chosen.clamp(min=0)
                rows = torch.gather(words, 1, indices.unsqueeze(-1).expand(-1, -1, words.shape[2]))[..., :steps]
                logits = self.compute_logits(rows, lengths.gather(1, indices), least, done)
                loss = self._loss(logits, truth.gather(1, indices), chosen >= 0)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                done += 1
                progress(self.runs / (config.epochs * len(batches)))

    def _loss(self, logits: Any, truth: Any, real: Any) -> Any:
        """Return the sum over runs of each one's mean loss over its batch."""
        if self.binary:
            pull = truth.to(logits.dtype)
            each = torch.nn.functional.binary_cross_entropy_with_logits(logits[..., 0], pull, reduction="none")
        else:
            each = -torch.log_softmax(logits, dim=-1).gather(2, truth.unsqueeze(-1))[..., 0]
        return ((each * real).sum(dim=1) / real.sum(dim=1)).sum()

    def compute_logits(self, words: Any, lengths: Any, shortest: int, step: int | None = None) -> Any:
        """Compute runs × captions × outputs from words of runs × captions × words; with a step, under its dropout.

        ``shortest`` is the least of the lengths.
        """
        weights, share = self.weights, 0.0 if step is None else self.config.dropout
        when = FIRST_STEP + (step or 0) * (self.config.layers + 1)
        lengths = lengths.T
        # Only positions from the shortest caption on can be padding; `closed` starts there.
        absent = torch.arange(shortest, words.shape[2], device=self.device).view(-1, 1, 1) >= lengths
        closed = absent.unsqueeze(-1) * CLOSED
        # One embedding lookup for all runs: word w of run r is row r · size + w of the flattened table.
        numbers = words.permute(2, 1, 0) + self.offsets
        states = torch.nn.functional.embedding(numbers, weights["embedding"].flatten(0, 1))
        for layer in range(self.config.layers):
            states = apply_dropout(states, share, derive_keys(self.keys, when + layer))
            bias = weights[f"bias_in_{layer}"] + weights[f"bias_back_{layer}"]
            states = BothDirections.apply(states, weights[f"in_{layer}"], weights[f"back_{layer}"], bias, closed)
        # The forward state after the last word, and the backward state after the first.
        forth, back = states.chunk(DIRECTIONS, dim=-1)
        ends = torch.take_along_dim(forth, (lengths - 1)[None, ..., None], dim=0)[0]
        last = apply_dropout(
            torch.cat([ends, back[0]], dim=-1), share, derive_keys(self.keys, when + self.config.layers)
        )
        return torch.baddbmm(weights["out_bias"], last.transpose(0, 1), weights["out"])

    def test(self) -> list[Floats]:
        """Return the class probabilities of the test captions, in batches of similar lengths."""
        order = np.argsort(self.test_lengths, axis=1, kind="stable")
        probabilities = np.empty((*order.shape, 2 if self.binary else self.tasks[0].classes))
        with torch.no_grad():
            for first in range(0, order.shape[1], TESTED_AT_ONCE):
                chosen = order[:, first : first + TESTED_AT_ONCE]
                lengths = np.take_along_axis(self.test_lengths, chosen, axis=1)
                rows = np.take_along_axis(self.test_words, chosen[..., None], axis=1)[..., : int(lengths.max())]
                words, counts = (torch.from_numpy(part).to(self.device) for part in (rows, lengths))
                logits = self.compute_logits(words, counts, int(lengths.min()))
                scores = logits.double().cpu().numpy()
                if self.binary:
                    scores = np.concatenate([np.zeros_like(scores), scores], axis=-1)
                np.put_along_axis(probabilities, chosen[..., None], softmax(scores, axis=-1), axis=1)
        return list(probabilities)


def draw_weights(config: Lstm, key: Any, size: int, outputs: int) -> dict[str, Any]:
    """Draw initial weights from torch's own distributions; padding and the unseen word are 0 in the embedding.

    Embedding and output are runs × …; recurrent layers are directions·runs × in × out, for one batched product.
    """
    table = draw_normal(derive_keys(key, 0), size, config.embedding)
    table[:, :2] = 0
    weights = {"embedding": table}
    stream = 0

    def draw(width: float, *shape: int) -> Any:
        nonlocal stream
        stream += 1
        return (2 * draw_uniform(derive_keys(key, stream), *shape) - 1) / math.sqrt(width)

    def draw_both(*shape: int) -> Any:
        return torch.cat([draw(config.hidden, *shape) for _ in range(DIRECTIONS)])

    for layer in range(config.layers):
        weights[f"in_{layer}"] = draw_both(DIRECTIONS * config.hidden if layer else config.embedding, 4 * config.hidden)
        weights[f"back_{layer}"] = draw_both(config.hidden, 4 * config.hidden)
        weights[f"bias_in_{layer}"] = draw_both(1, 4 * config.hidden)
        weights[f"bias_back_{layer}"] = draw_both(1, 4 * config.hidden)
    weights["out"] = draw(DIRECTIONS * config.hidden, DIRECTIONS * config.hidden, outputs)
    weights["out_bias"] = draw(DIRECTIONS * config.hidden, 1, outputs)
    return weights


def make_keys(entropies: Sequence[Sequence[int]], device: Any) -> Any:
    """Make one 64-bit key per run, from its entropy."""
    numbers = [np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] for entropy in entropies]
    return torch.from_numpy(np.array(numbers, dtype=np.uint64).view(np.int64)).to(device)


def derive_keys(key: Any, number: int) -> Any:
    """Derive one key per run for a stream of random numbers."""
    return mix(key + torch.full_like(key, number) * SIGNED_GAMMA)


def draw_uniform(key: Any, *shape: int) -> Any:
    """Draw runs × shape numbers in (0, 1), of 24 bits each."""
    counter = torch.arange(math.prod(shape), device=key.device) * SIGNED_GAMMA
    bits = (mix(key[:, None] + counter) >> 40) & ((1 << 24) - 1)
    return ((bits.float() + 0.5) / (1 << 24)).view(len(key), *shape)


def draw_normal(key: Any, rows: int, columns: int) -> Any:
    """Draw runs × rows × columns standard normal numbers by Box–Muller; row r does not depend on the number of rows."""
    radius = torch.sqrt(-2 * torch.log(draw_uniform(derive_keys(key, 1), rows, columns)))
    return radius * torch.cos(2 * math.pi * draw_uniform(derive_keys(key, 2), rows, columns))


def apply_dropout(x: Any, share: float, key: Any) -> Any:
    """Zero a ``share`` of the entries of x (words × captions × runs × features, or without words), scale up the rest.

    Each 64-bit random number decides on four entries, with 16 bits each.
    """
    if share == 0:
        return x
    steps = x.shape[0] if x.dim() == 4 else 1
    captions, _, features = x.shape[-3:]
    groups = -(-features // 4)
    word = torch.arange(steps, device=x.device).view(steps, 1, 1, 1)
    caption = torch.arange(captions, device=x.device).view(captions, 1, 1)
    counter = ((caption * _ROW + word) * groups + torch.arange(groups, device=x.device)) * SIGNED_GAMMA
    lanes = mix(key.view(-1, 1) + counter).view(torch.int16)[..., :features].reshape(x.shape)
    kept = lanes >= round(share * 65536) - 32768
    scale = 1 / (1 - share)
    if x.is_cuda:  # torch's fused kernel of x · kept · scale, which its dropout uses forward and backward
        return torch.ops.aten.native_dropout_backward(x, kept, scale)
    return x * kept.to(x.dtype).mul_(scale)


class BothDirections(torch.autograd.Function):  # type: ignore[name-defined, misc]
    """A bi-LSTM layer: states of words × captions × runs × features to the hidden states of both directions.

    ``into`` and ``recurrent`` are directions·runs × in × 4·hidden, with the gates in torch's order (input, forget,
    cell, output). The gradient of the recurrent weights is one product over all words; autograd would compute it word
    by word and add up one tensor of the weights' size for each.
    """

    @staticmethod
    def forward(ctx: Any, states: Any, into: Any, recurrent: Any, bias: Any, closed: Any) -> Any:
        words, captions, runs, _ = states.shape
        width = recurrent.shape[1]
        # One tensor for each direction: copying into halves of a common one is six times as slow.
        outputs = states.new_empty(DIRECTIONS, words, captions, runs, width)
        memories, activations = {}, {}
        for direction, (weights, back, offset) in enumerate(_split_directions(into, recurrent, bias)):
            output = outputs[direction]
            gates = states.new_empty(words, captions, runs, 4 * width)
            torch.baddbmm(offset, _flatten_rows(states), weights, out=_flatten_rows(gates))
            if direction:
                gates[words - len(closed) :, ..., :width] += closed
            memory = states.new_zeros(captions * runs, width)
            again = states.new_zeros(captions, runs, 4 * width)
            before = None
            for word in _order_words(words, direction):
                if before is not None:
                    torch.bmm(output[before].transpose(0, 1), back, out=again.transpose(0, 1))
                hidden, memory, activated = compute_cell(gates[word].flatten(0, 1), again.flatten(0, 1), memory)
                output[word] = hidden.view(captions, runs, width)
                memories[direction, word], activations[direction, word] = memory, activated
                before = word
        ctx.save_for_backward(states, into, recurrent, outputs)
        ctx.memories, ctx.activations = memories, activations
        return torch.cat(outputs.unbind(), dim=-1)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        states, into, recurrent, outputs = ctx.saved_tensors
        words, captions, runs, _ = states.shape
        width = recurrent.shape[1]
        of_states = torch.zeros_like(states)
        of_into, of_recurrent = torch.empty_like(into), torch.empty_like(recurrent)
        of_bias = into.new_empty(len(into), 1, 4 * width)
        of_parts = _split_directions(of_into, of_recurrent, of_bias)
        for direction, (weights, back, _) in enumerate(_split_directions(into, recurrent, of_bias)):
            own = _get_half(direction, width)
            gates = states.new_empty(words, captions, runs, 4 * width)
            of_hidden = states.new_zeros(captions, runs, width)
            nothing = of_memory = states.new_zeros(captions * runs, width)
            order = _order_words(words, direction)
            for word, before in zip(order[::-1], [*order[-2::-1], None], strict=True):
                of_hidden += gradient[word, ..., own]
                of_gates, of_memory = compute_cell_gradient(
                    of_hidden.flatten(0, 1),
                    of_memory,
                    nothing if before is None else ctx.memories[direction, before],
                    ctx.memories.pop((direction, word)),
                    ctx.activations.pop((direction, word)),
                )
                gates[word] = of_gates.view(captions, runs, -1)
                if before is not None:
                    torch.bmm(gates[word].transpose(0, 1), back.transpose(1, 2), out=of_hidden.transpose(0, 1))
            of_weights, of_back, of_offset = of_parts[direction]
            # The gates of a word get the output of the word before it, which is the next one when read backwards.
            earlier, later = (slice(1, None), slice(-1)) if direction else (slice(-1), slice(1, None))
            torch.bmm(
                _flatten_rows(outputs[direction, earlier]).transpose(1, 2), _flatten_rows(gates[later]), out=of_back
            )
            torch.bmm(_flatten_rows(states).transpose(1, 2), _flatten_rows(gates), out=of_weights)
            torch.sum(_flatten_rows(gates), dim=1, keepdim=True, out=of_offset)
            _flatten_rows(of_states).baddbmm_(_flatten_rows(gates), weights.transpose(1, 2))
        return of_states, of_into, of_recurrent, of_bias, None


def _flatten_rows(states: Any) -> Any:
    """View words × captions × runs × features as runs × rows × features, without a copy."""
    return states.flatten(0, 1).transpose(0, 1)


def _split_directions(*tensors: Any) -> list[tuple[Any, ...]]:
    """Split each tensor into its forward and backward parts."""
    return list(zip(*(tensor.chunk(DIRECTIONS) for tensor in tensors), strict=True))


def _order_words(words: int, direction: int) -> range:
    return range(words - 1, -1, -1) if direction else range(words)


def _get_half(direction: int, width: int) -> slice:
    return slice(direction * width, (direction + 1) * width)


def compute_cell(inputs: Any, recurrent: Any, memory: Any) -> tuple[Any, Any, Any]:
    """Compute hidden state, memory and activated gates after a word, from the two parts of the gates.

    On a GPU torch's own fused kernel is used.
    """
    if inputs.is_cuda:
        return torch.ops.aten._thnn_fused_lstm_cell(inputs, recurrent, memory)  # type: ignore[no-any-return]
    gates = inputs + recurrent
    enter, forget, new, out = gates.chunk(4, dim=-1)
    for part in (enter, forget, out):
        part.sigmoid_()
    new.tanh_()
    memory = forget * memory + enter * new
    return out * memory.tanh(), memory, gates


def compute_cell_gradient(of_hidden: Any, of_memory: Any, before: Any, after: Any, activated: Any) -> tuple[Any, Any]:
    """Compute the gradients of the gates and of the memory before a word, from those after it."""
    if of_hidden.is_cuda:
        of_gates, of_memory, _ = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(
            of_hidden, of_memory, before, after, activated, False
        )
        return of_gates, of_memory
    enter, forget, new, out = activated.chunk(4, dim=-1)
    activated_memory = after.tanh()
    of_memory = of_memory + of_hidden * out * (1 - activated_memory * activated_memory)
    parts = (
        of_memory * new * enter * (1 - enter),
        of_memory * before * forget * (1 - forget),
        of_memory * enter * (1 - new * new),
        of_hidden * activated_memory * out * (1 - out),
    )
    return torch.cat(parts, dim=-1), of_memory * forget
