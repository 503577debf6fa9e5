"""Clips for tests of pages: drawn and encoded here, since no test compares numbers of their pixels."""

from pathlib import Path

import pytest


def write_clip(path, seconds=4.0, rate=10, size=(160, 120), codec=None):
    """Write a clip in which a light bar moves from left to right; the ending says the codec unless it is named."""
    av = pytest.importorskip("av", reason="PyAV is not installed: pip install 'captious[video]'")
    import numpy as np

    width, height = size
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec or {".webm": "libvpx", ".mp4": "libx264"}[Path(path).suffix], rate=rate)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        number = int(seconds * rate)
        for index in range(number):
            pixels = np.full((height, width, 3), (40, 70, 110), dtype=np.uint8)
            at = index * (width - 16) // max(1, number - 1)
            pixels[:, at : at + 16] = (240, 220, 120)
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            for packet in stream.encode(frame):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return path
