"""Frames of videos: decoding and caching against a plain PyAV loop, in ratios of processor time; needs PyAV.

``first`` is a first run over clips, divided by what a bare loop takes to decode the same frames plus what encoding the
same frames from PNG files takes. ``second`` is the first run divided by a second one, ``wanted`` the conversion of all
frames divided by that of the wanted ones, ``seeking`` decoding all frames of a long clip divided by seeking, ``memory``
the peak of a worker with a clip of ten times the length, divided by that with the short one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

CLIPS, FRAMES, LONG = 24, 300, 3000
WIDTH, HEIGHT, RATE = 640, 360, 25
RULE = "uniform:10"


def write_clip(path: Path, frames: int, seed: int, size: tuple[int, int] = (WIDTH, HEIGHT)) -> None:
    """Write a clip of moving stripes with a key frame every second."""
    import av

    chance = np.random.default_rng(seed)
    still = chance.integers(0, 255, (size[1] // 8, size[0] // 8, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE, options={"crf": "28", "preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = *size, "yuv420p", RATE
        for number in range(frames):
            picture = np.ascontiguousarray(np.roll(still, 4 * number, axis=1))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


def measure(work: Callable[[], Any], repeats: int = 1) -> float:
    """Return the least processor time of several calls, that of worker processes included."""
    seconds = []
    for _ in range(repeats):
        start = sum(os.times()[:4])
        work()
        seconds.append(sum(os.times()[:4]) - start)
    return min(seconds)


def decode_plainly(paths: Sequence[Path], wanted: Sequence[int], images: Path | None = None) -> None:
    """Decode clips in a bare loop and convert the wanted frames, which are written as PNG files if asked for."""
    import av

    for path in paths:
        with av.open(str(path)) as container:
            for number, frame in enumerate(container.decode(video=0)):
                if number in wanted:
                    picture = frame.to_image()
                    if images is not None:
                        picture.save(images / f"{path.stem}-{number:04d}.png", compress_level=1)


def run_part(part: str, folder: Path) -> float:
    """Return the seconds of one part, in this process."""
    from captious._core.frame_rules import FrameRule
    from captious.captions import Clip
    from captious.models import loading
    from captious.models.features import image_features
    from captious.models.frame_features import TIMELINES, frame_features
    from captious.models.store import open_store

    paths = sorted(folder.glob("clip-*.mp4"))
    if part == "plain":
        wanted = set(FrameRule.parse(RULE).choose(np.arange(FRAMES) / RATE).tolist())
        return measure(lambda: decode_plainly(paths, wanted))  # type: ignore[arg-type]
    encoder = loading.load("captious-mini")
    open_store(TIMELINES)  # imports pyarrow
    if part == "images":
        return measure(lambda: image_features(encoder, sorted((folder / "images").glob("*.png"))))
    return measure(lambda: frame_features(encoder, [Clip(str(path)) for path in paths], FrameRule.parse(RULE)))


def run_apart(part: str, folder: Path, home: str) -> float:
    """Run a part in a process of its own, with its own cache."""
    environment = {**os.environ, "CAPTIOUS_HOME": str(folder / home)}
    command = [sys.executable, "-m", "lab.benchmarks.frames", "part", part, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def compare_runs(folder: Path, repeats: int) -> dict[str, float]:
    """Return the seconds of first and second runs, and of their plain counterparts; the least of several."""
    parts: dict[str, list[float]] = {name: [] for name in ("plain", "images", "first", "second")}
    for _ in range(repeats):
        parts["plain"].append(run_apart("plain", folder, "none"))
        parts["images"].append(run_apart("images", folder, "images-home"))
        parts["first"].append(run_apart("clips", folder, "home"))
        parts["second"].append(run_apart("clips", folder, "home"))
        for home in ("home", "images-home"):
            shutil.rmtree(folder / home, ignore_errors=True)
    return {name: min(seconds) for name, seconds in parts.items()}


def compare_decoding(folder: Path, repeats: int) -> dict[str, float]:
    """Return the seconds of converting all frames or the wanted ones, and of decoding a long clip or seeking in it."""
    from captious.io.clip_files import VideoFile

    short, long = VideoFile(str(folder / "clip-00.mp4")), VideoFile(str(folder / "long.mp4"))
    wanted, far = np.linspace(0, FRAMES - 1, 10).astype(int), np.linspace(0, LONG - 1, 10).astype(int)
    try:
        return {
            "convert_all": measure(lambda: list(short.decode(range(FRAMES))), repeats),
            "convert_wanted": measure(lambda: decode_plainly([folder / "clip-00.mp4"], set(wanted.tolist())), repeats),  # type: ignore[arg-type]
            "decode_long": measure(lambda: decode_plainly([folder / "long.mp4"], ()), repeats),
            "seek_long": measure(lambda: list(long.decode(far.tolist())), repeats),
            "open_long": measure(lambda: VideoFile(str(folder / "long.mp4")).close(), repeats),
        }
    finally:
        short.close()
        long.close()


def measure_memory(path: Path) -> int:
    """Return the peak memory, in kilobytes, of a process that decodes ten frames of a clip."""
    code = (
        "import resource, sys; from captious.io.clip_files import VideoFile;"
        "from captious._core.frame_rules import FrameRule;"
        "file = VideoFile(sys.argv[1]); chosen, _ = file.timeline.select(FrameRule(), None, None, 3000, 'x');"
        "list(file.decode(chosen.tolist())); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    return int(
        subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True).stdout
    )


def main(repeats: int) -> None:
    """Print the seconds and the ratios."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "images").mkdir()
        for number in range(CLIPS):
            write_clip(folder / f"clip-{number:02d}.mp4", FRAMES, number)
        write_clip(folder / "long.mp4", LONG, 99)
        wanted = set(np.linspace(0, FRAMES - 1, 10).astype(int).tolist())
        decode_plainly(sorted(folder.glob("clip-*.mp4")), wanted, folder / "images")  # type: ignore[arg-type]
        seconds = {**compare_runs(folder, repeats), **compare_decoding(folder, repeats)}
        memory = [measure_memory(folder / file) for file in ("clip-00.mp4", "long.mp4")]
    ratios = {
        "first": seconds["first"] / (seconds["plain"] + seconds["images"]),
        "second": seconds["first"] / seconds["second"],
        "wanted": seconds["convert_all"] / seconds["convert_wanted"],
        "seeking": seconds["decode_long"] / seconds["seek_long"],
        "memory": memory[1] / memory[0],
    }
    print(json.dumps({"seconds": seconds, "ratios": ratios, "kilobytes": memory}, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["part"]:
        print(run_part(sys.argv[2], Path(sys.argv[3])))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
