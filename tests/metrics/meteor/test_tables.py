"""Compiled tables: found again, and never trusted when damaged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metrics.meteor.conftest import phrase_hash

from captious._core.hashing import hash_text
from captious.metrics.meteor._compiled_tables import DamagedTables, HashTable, Tables, hash_spans

HASHES = st.integers(0, 2**64 - 1)


@given(keys=st.sets(HASHES, max_size=200), asked=st.lists(HASHES, max_size=20))
def test_every_key_is_found_and_nothing_else(keys, asked):
    index = HashTable.of({key: [key % 100] for key in keys})
    place = {key: row for row, key in enumerate(sorted(keys))}
    questions = [*keys, *asked]
    assert index.find(np.array(questions, dtype=np.uint64)).tolist() == [place.get(key, -1) for key in questions]


@given(st.lists(st.sampled_from(["a", "dog", "ran", "off"]), min_size=1, max_size=9))
def test_spans_hash_as_phrases_do(words):
    numbers = [hash_text(word) for word in words]
    for length, spans in enumerate(hash_spans(np.array(numbers, dtype=np.uint64)), 1):
        expected = [phrase_hash(numbers[at : at + length]) for at in range(len(words) - length + 1)]
        assert spans.tolist() == expected


def test_what_is_written_is_read(tiny, tmp_path):
    tiny.write(tmp_path / "en.tables")
    again = Tables.open(tmp_path / "en.tables")
    assert again.function_words == tiny.function_words
    assert again.prefixes == {"Mr": False, "vs": False, "No": True}
    assert again.sources == tiny.sources
    for name in ("words", "forms", "phrases"):
        for part in ("keys", "starts", "values", "index", "filter"):
            assert np.array_equal(getattr(getattr(again, name), part), getattr(getattr(tiny, name), part)), name


def test_any_changed_byte_is_noticed(tiny, tmp_path):
    path = tmp_path / "en.tables"
    tiny.write(path)
    good = path.read_bytes()
    for at in range(0, len(good), 7):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :])
        try:
            opened = Tables.open(path)
        except DamagedTables:
            continue
        # Only the padding between header and payload means nothing.
        assert good[at] == 0, at
        assert np.array_equal(opened.phrases.values, tiny.phrases.values)


@pytest.mark.parametrize("kept", [0, 10, 40, 500, -1, -64])
def test_a_truncated_file_is_noticed(tiny, tmp_path, kept):
    path = tmp_path / "en.tables"
    tiny.write(path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DamagedTables):
        Tables.open(path)


def test_the_hash_names_only_what_the_modules_use(tiny):
    everything = tiny.hash(("exact", "stem", "synonym", "paraphrase"))
    assert len({everything, tiny.hash(("exact", "stem", "synonym")), tiny.hash(("exact", "stem"))}) == 3
    assert tiny.hash(("exact", "stem")) == tiny.hash(("exact",))
