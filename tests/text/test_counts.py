"""Counts by key: sorted, merged, written to files and memory-mapped."""

import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.text.counts import COUNT, CountsKind, KeyCounts, LazyCounts, merge_counts
from captious.text.idf import DocumentFrequency
from captious.text.ngram_tables import TextTable

KIND = CountsKind("captious-test", 1, "table of counts", "captious test")


def random_counts(seed, size):
    generator = np.random.default_rng(seed)
    return KeyCounts.of(generator.integers(0, 5000, size, dtype=np.uint64), generator.integers(1, 9, size))


def as_dict(counts):
    return dict(zip(counts.keys.tolist(), counts.counts.tolist(), strict=True))


def added_up(parts):
    sums = {}
    for part in parts:
        for key, count in as_dict(part).items():
            sums[key] = sums.get(key, 0) + count
    return dict(sorted(sums.items()))


@pytest.mark.parametrize("block", [1, 3000, 1 << 22])
@pytest.mark.parametrize("sizes", [(), (0,), (0, 0), (4000,), (3000, 0, 1, 2500, 6000)])
def test_files_merge_block_by_block_into_the_sums(tmp_path, sizes, block):
    parts = [random_counts(number, size) for number, size in enumerate(sizes)]
    for number, part in enumerate(parts):
        KIND.write_counts(tmp_path / str(number), {}, [part])
    blocks = list(merge_counts([KIND.open_counts(tmp_path / str(number)) for number in range(len(parts))], block))
    keys = np.concatenate([np.zeros(0, np.uint64), *(one.keys for one in blocks)])
    assert (np.diff(keys.astype(np.int64)) > 0).all(), "keys ascend from block to block"
    assert added_up(blocks) == added_up(parts)


def test_merging_holds_about_a_block(tmp_path):
    for number in range(4):
        KIND.write_counts(tmp_path / str(number), {}, [random_counts(number, 20_000)])
    files = [KIND.open_counts(tmp_path / str(number)) for number in range(4)]
    assert sum(file.entries for file in files) > 15_000
    assert all(len(one) <= 6000 for one in merge_counts(files, 4096))


def test_a_file_gives_back_what_was_written_without_reading_it_all(tmp_path):
    counts = random_counts(0, 9000)
    KIND.write_counts(tmp_path / "a", {"name": "é" * 100, "number": 2**70}, [counts[:10], counts[10:]])
    file = KIND.open_counts(tmp_path / "a")
    assert file.header == {"name": "é" * 100, "number": 2**70}
    mapped = file.map_counts()
    assert as_dict(mapped) == as_dict(counts)
    assert all(isinstance(array.base, np.memmap) and not array.flags.writeable for array in mapped.arrays)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("indexed", [0, 1 << 22])
@pytest.mark.parametrize("bits", [0, 47, 51], ids=["one bucket", "three buckets", "all buckets"])
def test_a_count_is_looked_up_by_key(monkeypatch, indexed, bits):
    monkeypatch.setattr("captious.text.counts.INDEXED", indexed)
    small = random_counts(0, 2000)
    counts = KeyCounts((small.keys << np.uint64(bits), small.counts))
    keys = np.random.default_rng(1).integers(0, 6000, 5000, dtype=np.uint64) << np.uint64(bits)
    keys = np.concatenate([keys, keys + np.uint64(1), keys - np.uint64(1)])
    expected = as_dict(counts)
    assert counts.lookup(keys).tolist() == [expected.get(key, 0) for key in keys.tolist()]
    assert KeyCounts().lookup(keys).tolist() == [0] * len(keys)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:-10], "table of counts cut short"),
        (lambda content: content + b"x", "table of counts cut short"),
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), r"damaged table of counts \(checksum differs\)"),
        (lambda content: content.replace(b'"items": 3', b'"items": 4'), "damaged .* of the header differs"),
        (lambda content: content.replace(b'-test": 1', b'-test": 2'), "counts of format 2, expected 1; make it again"),
        (lambda content: b"", "is no table of counts"),
        (lambda content: b"\0" * 100_000, "is no table of counts"),
        (lambda content: b"[1]\n", "is no table of counts"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused(tmp_path, damage, message):
    path = tmp_path / "a"
    KIND.write_counts(path, {"items": 3}, [random_counts(0, 50)])
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=message) as error:
        KIND.open_counts(path)
    assert "\n" not in str(error.value) and str(error.value).startswith(str(path))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot be read .*; make it with: captious test"):
        KIND.open_counts(tmp_path / "nothing")


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    def blocks():
        yield random_counts(0, 50)
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        KIND.write_counts(tmp_path / "a", {}, blocks())
    assert list(tmp_path.iterdir()) == []


def test_keys_are_those_of_the_words_in_every_table():
    one = TextTable.of(CaptionSet.of({"1": "a red dog runs", "2": "the red dog"}))
    other = TextTable.of(CaptionSet.of({"1": "zebras see a red dog runs away"}))
    for n in range(1, 5):
        keys = [
            {table.ngram(n, gram): int(key) for gram, key in enumerate(table.hash_ngrams(n))} for table in (one, other)
        ]
        common = set(keys[0]) & set(keys[1])
        assert len(common) == {1: 4, 2: 3, 3: 2, 4: 1}[n]
        assert all(keys[0][text] == keys[1][text] for text in common)
    every = np.concatenate([table.hash_ngrams(n) for table in (one, other) for n in range(1, 5)])
    texts = [
        table.ngram(n, gram) for table in (one, other) for n in range(1, 5) for gram in range(table.ngrams(n).size)
    ]
    assert len(set(every.tolist())) == len(set(texts))
    assert "a red dog runs" in texts
    assert int(one.hash_captions(np.array([0]))[0]) == int(one.hash_ngrams(4)[0])


def test_a_state_that_was_saved_or_pickled_does_not_hold_the_table_of_its_shard(tmp_path):
    for use in (lambda state: state.save(tmp_path / "a"), pickle.dumps, lambda state: state.merge(state)):
        captions = CaptionSet.of({"1": "a dog"}, {"1": ["a dog"]})
        state = DocumentFrequency.of(captions)
        table = weakref.ref(TextTable.of(captions))
        use(state)
        del captions
        gc.collect()
        assert table() is None and len(state.counts) == 3  # a, dog, a dog


def test_counts_that_several_threads_need_first_are_the_same_in_each():
    started, go_on = Event(), Event()

    def count():
        if not started.is_set():  # the first thread is the slow one
            started.set()
            go_on.wait(60)
        return KeyCounts.of(np.array([9, 4], np.uint64), np.array([2, 1], COUNT))

    counts = LazyCounts(count)
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(lambda: counts.keys)
        assert started.wait(60)
        assert counts.keys.tolist() == [4, 9]
        go_on.set()
        assert late.result().tolist() == [4, 9]
    assert counts.lookup(np.array([4, 9], np.uint64)).tolist() == [1, 2]
    assert as_dict(pickle.loads(pickle.dumps(counts))) == {4: 1, 9: 2}
