"""The LSTM cell of ``_stack.py`` as Triton kernels, one pass over memory each way.

Triton comes with the GPU builds of torch; without it ``AVAILABLE`` is false and nothing else is defined.
"""

from __future__ import annotations

from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True

if AVAILABLE:

    @triton.jit
    def _tanh(x):  # type: ignore[no-untyped-def]
        return 2.0 * tl.sigmoid(2.0 * x) - 1.0

    @triton.jit(do_not_specialize=["step", "steps"])  # type: ignore[untyped-decorator]
    def _forward(gates, cell, hidden, present, step, steps, captions, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        row = tl.program_id(0).to(tl.int64)
        place = (row // captions * steps + step) * captions + row % captions
        column = tl.arange(0, BLOCK)
        real = column < size
        gate = gates + place * 4 * size + column
        let_in = tl.sigmoid(tl.load(gate, mask=real))
        forget = tl.sigmoid(tl.load(gate + size, mask=real))
        new = _tanh(tl.load(gate + 2 * size, mask=real))
        out = tl.sigmoid(tl.load(gate + 3 * size, mask=real))
        earlier = (place - captions) * size + column
        before = tl.load(cell + earlier, mask=real & (column * 0 + step > 0), other=0.0)
        said = tl.load(hidden + earlier, mask=real & (column * 0 + step > 0), other=0.0)
        there = tl.load(present + place) != 0
        made = forget * before + let_in * new
        now = place * size + column
        tl.store(cell + now, tl.where(there, made, before), mask=real)
        tl.store(hidden + now, tl.where(there, out * _tanh(made), said), mask=real)
        tl.store(gate, let_in, mask=real)
        tl.store(gate + size, forget, mask=real)
        tl.store(gate + 2 * size, new, mask=real)
        tl.store(gate + 3 * size, out, mask=real)

    @triton.jit(do_not_specialize=["step", "steps"])  # type: ignore[untyped-decorator]
    def _backward(gates, cell, slope, present, back, back_cell, step, steps, captions, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        row = tl.program_id(0).to(tl.int64)
        place = (row // captions * steps + step) * captions + row % captions
        column = tl.arange(0, BLOCK)
        real = column < size
        gate = gates + place * 4 * size + column
        let_in = tl.load(gate, mask=real)
        forget = tl.load(gate + size, mask=real)
        new = tl.load(gate + 2 * size, mask=real)
        out = tl.load(gate + 3 * size, mask=real)
        now = place * size + column
        before = tl.load(cell + now - captions * size, mask=real & (column * 0 + step > 0), other=0.0)
        shown = _tanh(tl.load(cell + now, mask=real))
        carried = row * size + column
        sent = tl.load(back + carried, mask=real) + tl.load(slope + now, mask=real)
        kept = tl.load(back_cell + carried, mask=real)
        there = tl.load(present + place) != 0
        through = kept + sent * out * (1.0 - shown * shown)
        tl.store(gate, tl.where(there, through * new * let_in * (1.0 - let_in), 0.0), mask=real)
        tl.store(gate + size, tl.where(there, through * before * forget * (1.0 - forget), 0.0), mask=real)
        tl.store(gate + 2 * size, tl.where(there, through * let_in * (1.0 - new * new), 0.0), mask=real)
        tl.store(gate + 3 * size, tl.where(there, sent * shown * out * (1.0 - out), 0.0), mask=real)
        tl.store(back + carried, tl.where(there, 0.0, sent), mask=real)
        tl.store(back_cell + carried, tl.where(there, through * forget, kept), mask=real)

    def forward(gates: Any, cell: Any, hidden: Any, present: Any, step: int) -> None:
        """As ``_stack.forward``."""
        runs, steps, captions, size = hidden.shape
        block = triton.next_power_of_2(size)
        _forward[(runs * captions,)](gates, cell, hidden, present, step, steps, captions, size, BLOCK=block)

    def backward(gates: Any, cell: Any, slope: Any, present: Any, back: Any, back_cell: Any, step: int) -> None:
        """As ``_stack.backward``."""
        runs, steps, captions, size = cell.shape
        grid, block = (runs * captions,), triton.next_power_of_2(size)
        _backward[grid](gates, cell, slope, present, back, back_cell, step, steps, captions, size, BLOCK=block)
