"""Many LSTM recurrences as one: a leading dimension of independent runs, one batched product per word.

Written with its own gradient, because the weight gradient of all words is then one product instead of one per word.
"""

from __future__ import annotations

from typing import Any

from captious.bias import cells
from captious.extras import require

torch = require("torch", "bias")
Function: Any = torch.autograd.Function


class Recurrence(Function):  # type: ignore[misc]
    """Hidden states of LSTMs from their projected inputs.

    ``inputs`` (runs × words × captions × 4·hidden) hold W·x + b for the gates in torch's order (input, forget, cell,
    output) and are overwritten with the gates; nothing else may need them. ``weights`` are runs × hidden × 4·hidden,
    ``present`` (runs × words × captions) says which words are there: an absent word leaves the state as it was.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Any, weights: Any, present: Any) -> Any:
        """Run over the words."""
        runs, steps, captions, _ = inputs.shape
        hidden = inputs.new_empty(runs, steps, captions, weights.shape[1])
        cell = torch.empty_like(hidden)
        gates = inputs.detach()
        for step in range(steps):
            if step:
                gates[:, step].baddbmm_(hidden[:, step - 1], weights)
            cells.forward(gates, cell, hidden, present, step)
        ctx.save_for_backward(weights, present, hidden, cell)
        ctx.gates = gates
        return hidden

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, slope: Any) -> tuple[Any, Any, None]:
        """Run back over the words, then sum the weight gradient over all of them at once."""
        weights, present, hidden, cell = ctx.saved_tensors
        gates, ctx.gates = ctx.gates, None
        slope = slope.contiguous()
        steps = hidden.shape[1]
        back, back_cell = torch.zeros_like(hidden[:, 0]), torch.zeros_like(hidden[:, 0])
        turned = weights.transpose(1, 2)
        for step in reversed(range(steps)):
            cells.backward(gates, cell, slope, present, back, back_cell, step)
            if step:
                back.baddbmm_(gates[:, step], turned)
        if steps == 1:
            return gates, torch.zeros_like(weights), None
        before, after = hidden[:, :-1].flatten(1, 2), gates[:, 1:].flatten(1, 2)
        return gates, torch.bmm(before.transpose(1, 2), after), None
