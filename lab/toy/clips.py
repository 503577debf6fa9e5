"""Short clips of scenes in which a thing moves, for the guide to videos."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lab.toy.drawing import draw
from lab.toy.scenes import Scene, scene

if TYPE_CHECKING:
    from PIL.Image import Image

# Frames per second, and frames of a shot.
RATE, FRAMES = 8, 16
# The shots of each clip: the scene of the demo set, the thing that moves, and how far, in picture widths.
CLIPS: dict[str, tuple[tuple[int, str, tuple[float, float]], ...]] = {
    "cats": ((1001, "cat", (0.1, 0.0)),),
    "bird": ((1002, "bird", (0.3, 0.05)),),
    "two-shots": ((1001, "chair", (0.2, 0.0)), (1005, "kite", (-0.2, 0.1))),
}
ROWS = (
    ("cats", "two orange cats and a red chair in a room"),
    ("bird", "a white cat on the street and a blue bird"),
    ("two-shots", "two orange cats beside a red chair"),
)


def draw_shot(shown: Scene, kind: str, way: tuple[float, float], size: int) -> Iterator[Image]:
    """Yield the frames of a shot: the thing moves there and back half of the way."""
    for number in range(FRAMES):
        part = math.sin(0.75 * math.pi * number / (FRAMES - 1))
        yield draw(shown, size, {kind: (part * way[0], part * way[1])})


def write_clips(folder: Path, size: int = 160) -> None:
    """Write the clips as H.264, and their captions. The bytes differ from one version of FFmpeg to another."""
    import av

    folder.mkdir(parents=True, exist_ok=True)
    for name, shots in CLIPS.items():
        with av.open(str(folder / f"{name}.mp4"), "w", options={"movflags": "faststart"}) as container:
            stream = container.add_stream("libx264", rate=RATE, options={"crf": "30", "preset": "veryslow"})
            stream.width = stream.height = size
            stream.pix_fmt = "yuv420p"
            for id, kind, way in shots:
                for picture in draw_shot(scene(id - 1001), kind, way, size):
                    frame = av.VideoFrame.from_ndarray(np.asarray(picture), format="rgb24")
                    container.mux(stream.encode(frame))
            container.mux(stream.encode())
    rows = [{"id": name, "video": f"{name}.mp4", "caption": caption} for name, caption in ROWS]
    (folder / "clips.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
