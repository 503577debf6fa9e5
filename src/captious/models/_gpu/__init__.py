"""Image preparation and transfers on a GPU, besides the encoder's own layers.

::

    files ── cores decode ──▶ images ── transfers ──▶ preparation (resizing) ──▶ pixels ── forward ──▶ features
    JPEG ── decode=fast ────────────────────────────▶ preparation (nvJPEG) ────▶ pixels ── forward ──▶ features

- ``preparation`` decides what the GPU does for an image: it resizes what cores decoded, and with ``decode=fast`` nvJPEG
  also decodes.
- ``resizing`` computes Pillow's resize as two exact products of matrices, so pixels are equal to the last bit.
- ``transfers`` copies from pinned memory in a stream of its own, while the GPU computes the batch before.
- ``forward`` replaces parts of an encoder that ask for many small kernels by ones that ask for few.

Why it is there: more than half of what a core does for an image is the resize, and a GPU that waits for cores is idle.
Everything works without a GPU too: ``captious.models.pipeline`` calls this package only for a device that passed
`resizing.resizes_as_pillow`. The measurements are in ``docs/results/speed.md``.
"""
