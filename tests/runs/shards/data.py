"""Small shards with known content."""

from __future__ import annotations

import io
import json
import random
import tarfile
from pathlib import Path

from captious._demo import demo
from captious.captions import CaptionSet

WORDS = ("a", "the", "red", "small", "dog", "cat", "man", "boat", "runs", "sits", "on", "near", "grass", "water")


def records(items: int, seed: int = 0) -> list[dict]:
    """Captions with two references each; a few are empty."""
    choose = random.Random(seed)

    def sentence() -> str:
        return " ".join(choose.choices(WORDS, k=choose.randint(3, 9)))

    rows = []
    for number in range(items):
        base = sentence()
        caption = "" if number % 17 == 5 else f"{base} {choose.choice(WORDS)}"
        rows.append({"id": f"i{number}", "caption": caption, "references": [base, sentence()]})
    return rows


def write_shards(folder: Path, rows: list[dict], shards: int) -> str:
    """Write JSONL shards; gives the pattern that means them."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        lines = [json.dumps(row) for row in rows[shard::shards]]
        (folder / f"part-{shard}.jsonl").write_text("\n".join(lines) + "\n")
    return str(folder / f"part-{{0..{shards - 1}}}.jsonl")


def write_tars(folder: Path, shards: int) -> tuple[str, CaptionSet]:
    """Write webdataset tars of drawn scenes; gives the pattern, and the captions with their images."""
    captions = demo().systems["sloppy"].take(range(6 * shards))
    folder.mkdir(parents=True, exist_ok=True)
    for index, item in enumerate(captions):
        image = Path(str(captions.images[index]))
        members = {f"{item.id}{image.suffix}": image.read_bytes(), f"{item.id}.txt": item.candidate.encode()}
        with tarfile.open(folder / f"{index % shards:03d}.tar", "a") as tar:
            for name, content in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return str(folder / f"{{000..{shards - 1:03d}}}.tar"), captions
