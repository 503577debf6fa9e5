"""Parquet read from Python objects, without Arrow's threads."""

import io
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import captious
from captious.io.arrow import open_parquet

SOURCES = Path(captious.__file__).parent
READS = ["read", "read_row_group", "read_row_groups", "iter_batches"]


@pytest.fixture
def file():
    content = io.BytesIO()
    pq.write_table(pa.table({"id": ["1", "2"]}), content)
    content.seek(0)
    return content


@pytest.mark.parametrize("name", READS)
def test_no_read_uses_threads(name, file, monkeypatch):
    asked = []
    monkeypatch.setattr(pq.ParquetFile, name, lambda self, *args, use_threads=True: asked.append(use_threads))
    getattr(open_parquet(file), name)()
    assert asked == [False]


def test_nothing_is_read_ahead_by_threads(file, monkeypatch):
    asked = []
    real = pq.ParquetFile.__init__
    monkeypatch.setattr(pq.ParquetFile, "__init__", lambda self, *a, **k: asked.append(k) or real(self, *a, **k))
    assert open_parquet(file).read().num_rows == 2
    assert [options["pre_buffer"] for options in asked] == [False]


def test_every_reading_method_of_pyarrow_that_has_threads_is_listed():
    import inspect

    threaded = {
        name
        for name, method in inspect.getmembers(pq.ParquetFile, inspect.isfunction)
        if "use_threads" in inspect.signature(method).parameters
    }
    assert threaded == set(READS)


def test_parquet_is_opened_in_one_place():
    """Parquet that is opened elsewhere is read with threads, which can abort the process when it ends."""
    opening = re.compile(r"\bParquet(File|Dataset)\(|\b(pq|parquet)\.read_\w+\(|\bread_feather\(")
    found = [path for path in SOURCES.rglob("*.py") if opening.search(path.read_text("utf-8"))]
    assert found == [SOURCES / "io" / "arrow.py"]
