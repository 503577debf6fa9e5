"""Runs of two systems on four items, with ratings: small enough to check every order and filter by hand."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.options import Resampling

REFERENCES = {
    "1": ["a brown dog runs on the grass", "the dog is running"],
    "2": ["a cat sits on a red chair"],
    "3": ["two men play tennis"],
    "4": ["a train stands in a station"],
}
SYSTEMS = {
    "sat": {"1": "a brown dog runs on the grass", "2": "a dog", "3": "two men play tennis", "4": "a bus"},
    "oscar": {"1": "a cat", "2": "a cat sits on a red chair", "3": "two women play", "4": "a train in a station"},
}
STYLES = ("happy", "sad", "happy", None)
RATINGS = [
    {"id": "1/sat", "image": "1.png", "system": "sat", "rater": "r1", "rating": 5, "fluency": 4, "seconds": 3.5},
    {
        "id": "1/sat",
        "image": "1.png",
        "system": "sat",
        "rater": "r2",
        "rating": 2,
        "fluency": None,
        "comment": "<b>no</b>",
    },
    {"id": "2/sat", "image": "2.png", "system": "sat", "rater": "r1", "rating": 1, "fluency": 5},
    {"id": "2/sat", "image": "2.png", "system": "sat", "rater": "r2", "rating": 2, "fluency": 5},
    {"id": "2/oscar", "image": "2.png", "system": "oscar", "rater": "r1", "rating": 4, "fluency": 5},
]


def write_run(folder, captions, references=REFERENCES, metrics="rouge,bleu(n=1)", name="preds", images=None):
    """A run as ``captious score --out`` writes it."""
    columns = {"style": [dict(zip("1234", STYLES, strict=True)).get(key) for key in captions]}
    if images:
        columns["image"] = [str(images / f"{key}.png") for key in captions]
    captions = CaptionSet.of(captions, {key: references[key] for key in captions}, columns, name=f"{name}.json")
    evaluate(captions, metrics, resampling=Resampling(samples=0)).save(folder)
    return folder


def write_made_up(folder, name, metrics, items, parts=1):
    """A run with made-up values: metrics are facts of a marker, items rows of its Parquet files."""
    import pyarrow as pa

    from captious.runs.folder import Run, write_parquet
    from captious.runs.marker import Marker

    table, size = pa.Table.from_pylist(items), -(-len(items) // parts)
    slices = {f"part-{number}": table.slice(number * size, size) for number in range(parts)}
    run = Run(
        str(folder),
        Marker(name, tuple(metrics), items=len(items), parts={key: len(one) for key, one in slices.items()}),
    )
    for key, one in slices.items():
        run.storage.write(run.items_name(key), write_parquet(one, 2))
    run.write_marker()
    return folder


def write_images(folder):
    """An image of another color and size for every item."""
    folder.mkdir()
    for number, key in enumerate(REFERENCES, 1):
        Image.new("RGB", (400 + number, 300), (40 * number, 90, 120)).save(folder / f"{key}.png")
    return folder


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """The folder of the images of the two runs, which no test changes."""
    return write_images(tmp_path_factory.mktemp("explored") / "photos")


@pytest.fixture(scope="session")
def written_runs(images):
    """The folders of the two runs, written once; a test has copies, `runs`."""
    folder = images.parent
    return [write_run(folder / name, captions, name=name, images=images) for name, captions in SYSTEMS.items()]


@pytest.fixture
def runs(tmp_path, written_runs):
    """The folders of the two runs, to be changed by this test as it likes."""
    return [Path(shutil.copytree(run, tmp_path / run.name)) for run in written_runs]


@pytest.fixture
def own_images(tmp_path):
    """A folder of the images that this test changes."""
    return write_images(tmp_path / "photos")


@pytest.fixture
def ratings(tmp_path):
    """A file of ratings as ``captious studio export`` writes it."""
    path = tmp_path / "ratings.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in RATINGS), encoding="utf-8")
    return path


@pytest.fixture(params=["in memory", "on disk"])
def kept(request, monkeypatch):
    """Where a table keeps its items: few are held in memory, of many DuckDB keeps a part in a file."""
    if request.param == "on disk":
        monkeypatch.setattr("captious.studio.explore.explorer_table.HELD", -1)
        monkeypatch.setattr("captious.studio.explore._views.CHUNK", 2)
    return request.param


@pytest.fixture
def table(runs, ratings, images, kept):
    """The runs joined with the ratings."""
    from captious.studio.explore.explorer_table import open_table

    return open_table(runs, ratings, images)
