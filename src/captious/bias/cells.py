"""What an LSTM cell does between two matrix products, in place, for one word of many runs; fused on a GPU."""

from __future__ import annotations

from typing import Any

from captious.bias import kernels
from captious.extras import require

torch = require("torch", "bias")


def forward(gates: Any, cell: Any, hidden: Any, present: Any, step: int) -> None:
    """Activate the gates of a word, and write its cell and hidden state."""
    if gates.is_cuda and kernels.AVAILABLE:
        kernels.forward(gates, cell, hidden, present, step)
        return
    size = hidden.shape[-1]
    now = gates[:, step]
    now[..., : 2 * size].sigmoid_()
    now[..., 2 * size : 3 * size].tanh_()
    now[..., 3 * size :].sigmoid_()
    let_in, forget, new, out = now.split(size, dim=-1)
    there = present[:, step].unsqueeze(-1)
    made = let_in * new
    if step:
        made.addcmul_(forget, cell[:, step - 1])
    shown = out * made.tanh()
    if step:
        torch.where(there, made, cell[:, step - 1], out=cell[:, step])
        torch.where(there, shown, hidden[:, step - 1], out=hidden[:, step])
    else:
        cell[:, 0] = made * there
        hidden[:, 0] = shown * there


def backward(gates: Any, cell: Any, slope: Any, present: Any, back: Any, back_cell: Any, step: int) -> None:
    """Turn the gates of a word into the gradient of their inputs, and carry the gradient of the state one word back.

    ``back`` and ``back_cell`` are the gradients that later words send to this word's hidden and cell state; they become
    those that it sends to the word before, save for the part through the recurrent weights.
    """
    if gates.is_cuda and kernels.AVAILABLE:
        kernels.backward(gates, cell, slope, present, back, back_cell, step)
        return
    size = back.shape[-1]
    let_in, forget, new, out = gates[:, step].split(size, dim=-1)
    there = present[:, step].unsqueeze(-1)
    back += slope[:, step]
    shown = cell[:, step].tanh()
    through = back_cell + back * out * (1 - shown * shown)
    before = cell[:, step - 1] if step else torch.zeros_like(shown)
    slopes = (
        through * new * let_in * (1 - let_in),
        through * before * forget * (1 - forget),
        through * let_in * (1 - new * new),
        back * shown * out * (1 - out),
    )
    back_cell.copy_(torch.where(there, through * forget, back_cell))
    back.masked_fill_(there, 0)
    torch.mul(torch.cat(slopes, dim=-1), there, out=gates[:, step])
