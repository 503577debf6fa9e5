"""Drawn scenes to train an encoder on: pictures with short and long captions, made by many processes at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from captious._core.files import whole_folder
from captious.errors import InputError
from lab.toy.captions import describe, long_caption, units
from lab.toy.scenes import Scene, pick, scenes, stream

DATA = "train.jsonl"
# CLIPScore's: every second short caption has it, so that an encoder knows captions with it and without.
OPENING = "A photo depicts"
SHORT, LONG = 6, 4
_DRAWN = (96, 128, 160)  # outlines have other widths at other sizes; the encoder should not mind
_SLICE = 200


def write_training(
    folder: str | Path,
    items: int,
    seed: int,
    size: int = 96,
    workers: int = 0,
    overwrite: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> Path:
    """Write ``train.jsonl`` and ``images/`` for ``captious train``; the same whatever the number of processes.

    A row has the long ``caption`` with its ``units`` and ``wrong_units``, and in ``captions`` three more long ones and
    six short ones, half of them after CLIPScore's opening.
    """
    if items < 1:
        raise InputError(f"items is {items}: expected a whole number of at least 1")
    with whole_folder(folder, overwrite, DATA) as draft:
        (draft / "images").mkdir()
        slices = [(draft, seed, start, min(start + _SLICE, items), size) for start in range(0, items, _SLICE)]
        processes = min(workers or os.cpu_count() or 1, len(slices))
        with (
            (draft / DATA).open("w", encoding="utf-8", newline="\n") as file,
            ProcessPoolExecutor(processes) if processes > 1 else nullcontext() as pool,
        ):
            written = map(_write_slice, slices) if pool is None else pool.map(_write_slice, slices)
            for number, lines in enumerate(written, 1):
                file.write(lines)
                progress(min(number * _SLICE, items))
    return Path(folder)


def training_rows(items: int, seed: int, start: int = 0) -> Iterator[tuple[Scene, dict[str, Any]]]:
    """Scenes with their rows of ``train.jsonl``.

    >>> scene, row = next(training_rows(1, seed=7))
    >>> row["caption"] == " ".join(row["units"]), len(row["captions"])
    (True, 9)
    """
    for scene in scenes(items, seed, start):
        yield scene, row_of(scene, seed)


def row_of(scene: Scene, seed: int) -> dict[str, Any]:
    """What is said of a scene, for training."""
    written = [units(scene, stream(seed, scene.id, f"long {number}")) for number in range(LONG)]
    words = stream(seed, scene.id, "short")
    short = [describe(scene, words).text for _ in range(SHORT)]
    opened = [f"{OPENING} {text}" if number % 2 else text for number, text in enumerate(short)]
    return {
        "id": scene.id,
        "caption": long_caption(written[0]),
        "captions": [*(long_caption(made) for made in written[1:]), *opened],
        "units": [unit.text for unit in written[0]],
        "wrong_units": [unit.wrong_text for unit in written[0]],
    }


def _write_slice(job: tuple[Path, int, int, int, int]) -> str:
    """Draw some scenes, and give their rows."""
    from PIL import Image

    from lab.toy.drawing import draw

    folder, seed, start, stop, size = job
    lines = []
    for scene, row in training_rows(stop, seed, start):
        drawn = draw(scene, max(size, pick(stream(seed, scene.id, "size"), _DRAWN)))
        if drawn.width != size:
            drawn = drawn.resize((size, size), Image.Resampling.BICUBIC)
        drawn.save(folder / "images" / f"{scene.id}.png", compress_level=1)
        lines.append(json.dumps(row) + "\n")
    return "".join(lines)
