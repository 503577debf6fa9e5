"""Image preparation and transfers on a GPU, besides the encoder's own layers.

::

    files ── cores decode ──▶ images ── transfers ──▶ preparation (resizing) ──▶ pixels ── forward ──▶ features
    JPEG ── decode=fast ────────────────────────────▶ preparation (nvJPEG) ────▶ pixels ── forward ──▶ features

- ``preparation`` resizes images that the CPU decoded; with ``decode=fast`` nvJPEG also decodes.
- ``resizing`` computes Pillow's resize as two exact products of matrices, so pixels are equal to the last bit.
- ``transfers`` copies from pinned memory in a separate stream, while the GPU computes the previous batch.
- ``forward`` replaces layers of an encoder that launch many small kernels by ones that launch few.

Why: the resize is more than half of the CPU's work for an image, and a GPU that waits for the CPU is idle.
Everything works without a GPU too: ``captious.models.pipeline`` calls this package only for a device that passed
`resizing.resizes_as_pillow`. The measurements are in ``docs/results/speed.md``.
"""
