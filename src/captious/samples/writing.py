"""The sample as a folder of files in the formats people really have, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from captious.files import whole_folder
from captious.samples.captioners import CAPTIONERS
from captious.samples.sample import Sample
from captious.samples.scenes import record


def write(sample: Sample, folder: str | Path, *, images: bool = True, size: int = 160, overwrite: bool = False) -> Path:
    """Write the sample into `folder`; an earlier sample is replaced only with `overwrite`, anything else never."""
    with whole_folder(folder, overwrite, marker="scenes.jsonl") as draft:
        _write_files(sample, draft)
        if images:
            _write_images(sample, draft / "images", size)
    return Path(folder)


def _write_files(sample: Sample, folder: Path) -> None:
    _write_lines(folder / "scenes.jsonl", (record(scene) for scene in sample.scenes()))
    _write_object(
        folder / "references.json", ((str(scene.id), sample.references_of(scene)) for scene in sample.scenes())
    )
    _write_coco(folder / "coco_annotations.json", sample)
    (folder / "predictions").mkdir()
    for name in CAPTIONERS:
        results = (
            {"image_id": scene.id, "caption": sample.prediction_of(scene, name).text} for scene in sample.scenes()
        )
        _write_array(folder / "predictions" / f"{name}.json", results)
    _write_lines(folder / "ratings.jsonl", (row for scene in sample.scenes() for row in sample.rated(scene)))
    _write_lines(folder / "long.jsonl", (sample.detailed(scene) for scene in sample.scenes()))
    _write_lines(folder / "styles.jsonl", (row for scene in sample.scenes() for row in sample.styled(scene)))
    portraits = (sample.biased(scene) for scene in sample.scenes())
    _write_lines(folder / "bias.jsonl", (row for row in portraits if row is not None))


def _write_images(sample: Sample, folder: Path, size: int) -> None:
    from captious.samples.drawing import draw

    folder.mkdir()
    for scene in sample.scenes():
        draw(scene, size).save(folder / f"{scene.id}.png")


def _write_coco(path: Path, sample: Sample) -> None:
    def annotations() -> Iterator[dict[str, Any]]:
        number = 0
        for scene in sample.scenes():
            for text in sample.references_of(scene):
                number += 1
                yield {"id": number, "image_id": scene.id, "caption": text}

    images = ({"id": scene.id, "file_name": f"{scene.id}.png"} for scene in sample.scenes())
    with _opened(path) as file:
        file.write('{"info": {"description": "captious demo set"},\n"images": ')
        file.writelines(_array(images))
        file.write(',\n"annotations": ')
        file.writelines(_array(annotations()))
        file.write("}\n")


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with _opened(path) as file:
        file.writelines(f"{_json(row)}\n" for row in rows)


def _write_array(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with _opened(path) as file:
        file.writelines(_array(rows))
        file.write("\n")


def _write_object(path: Path, pairs: Iterable[tuple[str, Any]]) -> None:
    with _opened(path) as file:
        file.write("{")
        file.writelines(f"{',' if i else ''}\n{_json(key)}: {_json(value)}" for i, (key, value) in enumerate(pairs))
        file.write("\n}\n")


def _array(rows: Iterable[Any]) -> Iterator[str]:
    """The text of a JSON array, row by row, so that a large sample never has to be in memory."""
    yield "["
    for i, row in enumerate(rows):
        yield f"{',' if i else ''}\n{_json(row)}"
    yield "\n]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _opened(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")
