"""Ids that occur in several shards are found whatever their number, and memory is bounded by parts."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runs.shards.scored import scored, write_lines

from captious.runs.shards import scoring as ids
from captious.runs.shards.scoring import find_repeated_ids, hash_column


@given(st.lists(st.text(max_size=8), max_size=30), st.integers(0, 5))
def test_equal_texts_have_equal_hashes_and_others_others(texts, start):
    hashes = hash_column(pa.array(texts, pa.string()))
    assert len(set(hashes.tolist())) == len(set(texts))
    assert hash_column(pa.array(texts, pa.string()).slice(start)).tolist() == hashes[start:].tolist()


def test_hashes_of_many_similar_ids_do_not_collide():
    texts = [f"{number:09d}" for number in range(200_000)] + [str(number) for number in range(200_000)]
    assert len(np.unique(hash_column(pa.array(texts)))) == 400_000


@pytest.mark.parametrize("together", [1 << 23, 2])
def test_repeated_ids_are_counted_and_named(tmp_path, monkeypatch, together):
    monkeypatch.setattr(ids, "TOGETHER", together)  # with 2 the hashes are parted into several files
    rows = {
        name: [{"id": key, "caption": "a dog", "references": ["a dog"]} for key in keys]
        for name, keys in {"a": ["1", "2", "3"], "b": ["4", "2"], "c": ["5", "3", "6"]}.items()
    }
    folder = scored(write_lines(tmp_path / "shards", rows), tmp_path / "scores")
    number, examples = find_repeated_ids(folder)
    assert number == 2
    assert sorted(examples) == ["'2' in a and b", "'3' in a and c"]


def test_distinct_ids_are_no_finding(tmp_path):
    rows = {name: [{"id": f"{name}{key}", "caption": "a", "references": ["a"]} for key in range(9)] for name in "ab"}
    assert find_repeated_ids(scored(write_lines(tmp_path / "shards", rows), tmp_path / "scores")) == (0, [])
