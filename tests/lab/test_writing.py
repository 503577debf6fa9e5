from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from lab.toy import make, write
from lab.toy.sample import CAPTIONERS
from lab.toy.scenes import from_record

from captious.errors import InputError


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_written_twice_is_the_same_to_the_byte(tmp_path: Path) -> None:
    first, second = (contents(write(make(5), tmp_path / name)) for name in ("first", "second"))
    assert first == second
    assert contents(write(make(5, seed=1), tmp_path / "third")) != first


def test_the_files_hold_the_sample(tmp_path: Path) -> None:
    sample = make(12)
    folder = write(sample, tmp_path / "deep" / "demo")
    ids = [scene.id for scene in sample.scenes()]
    assert ids == list(range(1001, 1013))
    written = json.loads((folder / "references.json").read_text())
    assert {int(key): texts for key, texts in written.items()} == sample.references()
    coco = json.loads((folder / "coco_annotations.json").read_text())
    assert [image["id"] for image in coco["images"]] == ids
    by_image: dict[int, list[str]] = {number: [] for number in ids}
    for annotation in coco["annotations"]:
        by_image[annotation["image_id"]].append(annotation["caption"])
    assert by_image == sample.references()
    assert len({annotation["id"] for annotation in coco["annotations"]}) == 60
    for name in CAPTIONERS:
        results = json.loads((folder / "predictions" / f"{name}.json").read_text())
        assert {row["image_id"]: row["caption"] for row in results} == sample.predictions(name)
    assert [from_record(row) for row in lines(folder / "scenes.jsonl")] == list(sample.scenes())
    objects = {row["id"]: row["objects"] for row in lines(folder / "objects.jsonl")}
    assert objects == {one.id: list(dict.fromkeys(thing.kind for thing in one.things)) for one in sample.scenes()}
    assert [row["id"] for row in lines(folder / "long.jsonl")] == ids
    assert len(lines(folder / "styles.jsonl")) == 12 * 4
    assert len(lines(folder / "ratings.jsonl")) == 12 * 4
    # Four of twelve scenes, four captioners, five raters: the same numbers as in ratings.jsonl.
    few = lines(folder / "few-ratings.jsonl")
    assert len(few) == 4 * 4 * 5
    by_caption = defaultdict(list)
    for rating in few:
        by_caption[rating["id"], rating["system"]].append(rating["rating"])
    every = {(row["id"], row["captioner"]): row["ratings"] for row in lines(folder / "ratings.jsonl")}
    assert by_caption == {(id, name): every[id, name] for id in ids[::3] for name in CAPTIONERS}
    assert lines(folder / "bias.jsonl") == [row for one in make(60).scenes() if (row := sample.biased(one))]
    assert {path.name for path in (folder / "images").iterdir()} == {image["file_name"] for image in coco["images"]}


def test_images_can_be_left_out(tmp_path: Path) -> None:
    assert not (write(make(3), tmp_path / "demo", images=False) / "images").exists()


def test_an_existing_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    folder = write(make(3), tmp_path / "demo", images=False)
    before = contents(folder)
    with pytest.raises(InputError, match="already exists"):
        write(make(4), folder)
    assert contents(folder) == before


def test_overwriting_replaces_an_earlier_sample_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    folder = write(make(3), tmp_path / "demo")
    write(make(4), folder, images=False, overwrite=True)
    assert contents(folder) == contents(write(make(4), tmp_path / "fresh", images=False))
    assert {path.name for path in tmp_path.iterdir()} == {"demo", "fresh"}


def test_a_folder_that_is_no_sample_is_never_overwritten(tmp_path: Path) -> None:
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter.txt").write_text("words")
    with pytest.raises(InputError, match="not written by captious"):
        write(make(3), precious, overwrite=True)
    assert (precious / "chapter.txt").read_text() == "words"


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("lab.toy.sample._write_images", fail)
    with pytest.raises(OSError, match="disk full"):
        write(make(3), tmp_path / "demo")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"items": 0}, "items is 0"),
        ({"human_bias": -0.1}, "human_bias is -0.1"),
        ({"bias": float("nan")}, "bias is nan"),
        ({"labels": ("x", "x")}, "two different names"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**arguments)  # type: ignore[arg-type]


def test_importing_the_samples_does_not_import_pillow() -> None:
    program = "import sys, lab.toy; sys.exit('PIL' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_demo_set_of_the_package_is_what_the_toy_world_writes(tmp_path: Path) -> None:
    import numpy as np
    from PIL import Image

    from captious.data import DEMO

    fresh = write(make(), tmp_path / "demo")
    names = sorted(str(path.relative_to(fresh)) for path in fresh.rglob("*") if path.is_file())
    assert names == sorted(str(path.relative_to(DEMO)) for path in DEMO.rglob("*") if path.is_file())
    for name in names:
        if name.endswith(".png"):  # the pixels: how they are compressed depends on the version of zlib
            with Image.open(DEMO / name) as shipped, Image.open(fresh / name) as drawn:
                assert shipped.mode == drawn.mode and np.array_equal(np.asarray(shipped), np.asarray(drawn))
        else:
            assert (DEMO / name).read_bytes() == (fresh / name).read_bytes()


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "lab.toy", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_the_command_writes_a_sample_and_says_what_to_do_with_it(tmp_path: Path) -> None:
    done = command("sample", "--items", 3, "--out", tmp_path / "s", "--no-images")
    assert done.returncode == 0 and f"next: captious score {tmp_path / 's'}/predictions/expert.json" in done.stdout
    assert len(json.loads((tmp_path / "s" / "references.json").read_text())) == 3


def test_a_mistake_names_the_command_that_was_written() -> None:
    done = command("sample", "--scenes", 3)
    assert done.returncode == 2 and done.stderr.startswith("python -m lab.toy sample: no option --scenes")
    assert done.stderr.endswith("See: python -m lab.toy sample -h\n") and command("sample", "-h").returncode == 0
