"""Write shards of generated captions with references, and with images where the format holds them.

    PYTHONPATH=. .venv/bin/python lab/scale/make_shards.py shards --shards 20 --items 50000 --format parquet
    PYTHONPATH=. .venv/bin/python lab/scale/make_shards.py tars --shards 8 --items 1000 --format tar --source scenes

``scenes`` are drawings of the demo set's generator with captions that fit them: about 500 items a second. ``words`` are
captions of random words in Zipf's proportions, with photographs of noise that differ in a comment alone: about 50,000
items a second without images. The same seed writes the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from captious._core.files import write_atomically

Format = Literal["tar", "parquet", "jsonl", "jsonl.gz"]
Source = Literal["scenes", "words"]
VOCABULARY = 20_000
WORDS = 10
# The chance that a reference repeats a word of its candidate.
KEPT = 0.6
PICTURES = 32


class Sample(NamedTuple):
    id: str
    caption: str
    references: list[str]
    image: bytes | None


def make_shards(
    folder: Path,
    shards: int = 4,
    items: int = 100,
    format: Format = "tar",
    source: Source = "scenes",
    seed: int = 0,
    size: int = 64,
) -> list[Path]:
    """Write ``shards`` files of ``items`` each; images, in tars alone, have ``size`` pixels a side, 0 for none."""
    folder.mkdir(parents=True, exist_ok=True)
    width = max(4, len(str(shards - 1)))
    paths = [folder / f"{number:0{width}d}.{format}" for number in range(shards)]
    make = _scenes if source == "scenes" else _words
    for number, path in enumerate(paths):
        samples = make(number * items, items, seed, size if format == "tar" else 0)
        with write_atomically(path) as draft:
            _WRITERS[format](draft, samples)
    return paths


def _scenes(start: int, items: int, seed: int, size: int) -> Iterator[Sample]:
    from lab.toy import make
    from lab.toy.drawing import draw

    sample = make(items=start + items, seed=seed)
    for number, scene in enumerate(sample.scenes(start), start):
        image = _jpeg(np.asarray(draw(scene, size))) if size else None
        references = sample.references_of(scene)
        yield Sample(f"{number:09d}", sample.prediction_of(scene, "sloppy").text, references, image)


def _words(start: int, items: int, seed: int, size: int) -> Iterator[Sample]:
    rng = np.random.default_rng([seed, start])
    vocabulary = _vocabulary()
    shares = 1 / np.arange(1, VOCABULARY + 1)
    drawn = rng.choice(VOCABULARY, (items, 6, WORDS), p=shares / shares.sum())
    kept = rng.random(drawn.shape) < KEPT
    drawn = np.where(kept, drawn[:, :1], drawn)
    pictures = [_jpeg(_photograph(number, size)) for number in range(PICTURES)] if size else []
    for number, captions in enumerate(vocabulary[drawn].tolist(), start):
        texts = [" ".join(words) for words in captions]
        image = _commented(pictures[number % PICTURES], number) if size else None
        yield Sample(f"{number:09d}", texts[0], texts[1:], image)


def _vocabulary() -> np.ndarray:
    """Words that can be pronounced, the frequent ones short."""
    syllables = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
    words: list[str] = []
    layer = [""]
    while len(words) < VOCABULARY:
        layer = [word + syllable for word in layer for syllable in syllables]
        words += layer
    return np.array(words[:VOCABULARY], dtype=object)


def _photograph(number: int, size: int) -> np.ndarray:
    """Smooth noise, which costs about as much to decode as a photograph."""
    from PIL import Image

    rng = np.random.default_rng(number)
    coarse = Image.fromarray(rng.integers(0, 256, (size // 8 + 1, size // 8 + 1, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((size, size), Image.Resampling.BICUBIC)).astype(np.int16)
    return (smooth + rng.integers(-12, 13, smooth.shape)).clip(0, 255).astype(np.uint8)


def _jpeg(pixels: np.ndarray) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def _commented(jpeg: bytes, number: int) -> bytes:
    """The same picture as other bytes, so that no cache takes it for another item's."""
    comment = str(number).encode()
    return jpeg[:2] + b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment + jpeg[2:]


def _tar(path: Path, samples: Iterator[Sample]) -> None:
    """As img2dataset writes it."""
    with tarfile.open(path, "w") as archive:
        for sample in samples:
            fields = {"key": sample.id, "caption": sample.caption, "references": sample.references}
            parts = [("jpg", sample.image), ("json", json.dumps(fields).encode()), ("txt", sample.caption.encode())]
            for ending, content in parts:
                if content is not None:
                    info = tarfile.TarInfo(f"{sample.id}.{ending}")
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))


def _parquet(path: Path, samples: Iterator[Sample]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    ids, captions, references, _ = zip(*samples, strict=True)
    pq.write_table(pa.table({"id": ids, "caption": captions, "references": references}), path)


def _lines(samples: Iterator[Sample]) -> bytes:
    rows = ({"id": sample.id, "caption": sample.caption, "references": sample.references} for sample in samples)
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


_WRITERS = {
    "tar": _tar,
    "parquet": _parquet,
    "jsonl": lambda path, samples: path.write_bytes(_lines(samples)),
    "jsonl.gz": lambda path, samples: path.write_bytes(gzip.compress(_lines(samples), mtime=0)),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--items", type=int, default=100, help="of each shard")
    parser.add_argument("--format", choices=get_args(Format), default="tar")
    parser.add_argument("--source", choices=get_args(Source), default="words")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=64, help="pixels of a side of the images; 0 for none")
    paths = make_shards(**vars(parser.parse_args(arguments)))
    print(f"{paths[0]} … {paths[-1]}: {sum(path.stat().st_size for path in paths):,} bytes")


if __name__ == "__main__":
    main()
