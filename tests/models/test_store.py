"""The store: what is put is found, by others too, whatever happens to the process or to the files."""

import os

import numpy as np
import pyarrow as pa
import pytest

from captious._core.sizes import parse_size
from captious.errors import InputError
from captious.models import segments as _segments
from captious.models import store as stores
from captious.models.segments import (
    MANY,
    DamagedSegment,
    FeatureSpace,
    Segment,
    as_keys,
    compact,
    find_unique_keys,
    hash_content,
    read_segment,
    write_segment,
)
from captious.models.store import Store

SPACE = FeatureSpace("tiny", "0123456789ab", "texts", (4,))


def keys(*names):
    return as_keys(hash_content(str(name).encode()) for name in names)


def row(name):
    """The row a name must have, so that every test knows what is right without asking the store."""
    return np.frombuffer(hash_content(b"row" + str(name).encode()), np.uint8)[:4].astype(np.float32)


def rows(*names):
    return np.stack([row(name) for name in names])


def fill(store, *names):
    store.put(keys(*names), rows(*names), np.array([len(str(name)) for name in names], np.int32))
    store.flush()


def opened(root, space=SPACE, **options):
    store = Store(space, root, **options)
    store.refresh()
    return store


def test_what_is_put_is_found_by_another_store_in_the_order_asked(tmp_path):
    fill(opened(tmp_path), "cat", "dog", "horse")
    found, lengths, here = opened(tmp_path).gather(keys("horse", "cow", "cat"))
    assert here.tolist() == [True, False, True]
    assert lengths.tolist() == [5, 0, 3]
    assert (found[[0, 2]] == rows("horse", "cat")).all()
    assert opened(tmp_path).has_intact_row(hash_content(b"dog")) and not opened(tmp_path).has_intact_row(
        hash_content(b"cow")
    )


def test_rows_of_any_shape_and_type(tmp_path):
    space = FeatureSpace("umic", "0123456789ab", "patches", (3, 5), "float16")
    values = np.arange(30, dtype=np.float16).reshape(2, 3, 5)
    store = opened(tmp_path, space)
    store.put(keys("a", "b"), values)
    store.flush()
    assert (opened(tmp_path, space).gather(keys("b"))[0][0] == values[1]).all()


def test_a_segment_is_plain_arrow_with_sorted_keys(tmp_path):
    store = opened(tmp_path)
    fill(store, *range(50))
    (path,) = (tmp_path / SPACE.folder).iterdir()
    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    stored = table["key"].to_pylist()
    assert stored == sorted(hash_content(str(name).encode()) for name in range(50))
    assert table.schema.field("row").type == pa.list_(pa.field("item", pa.float32()), 4)
    mapped = read_segment(path, SPACE).rows
    assert not mapped.flags.owndata and not mapped.flags.writeable  # the file itself, not a copy of it


def test_unique_keys():
    distinct, first, inverse = find_unique_keys(keys("b", "a", "b", "c", "a"))
    assert len(distinct) == 3
    assert sorted(first.tolist()) == [0, 1, 3]
    assert (distinct[inverse] == keys("b", "a", "b", "c", "a")).all()
    ordered = [tuple(key) for key in distinct.tolist()]
    assert ordered == sorted(ordered)


def test_keys_with_the_same_first_half_are_told_apart(tmp_path):
    twins = as_keys([bytes(8) + b"12345678", bytes(8) + b"abcdefgh"])
    store = opened(tmp_path)
    store.put(twins[:1], rows("x"))
    store.flush()
    assert store.gather(twins)[2].tolist() == [True, False]


def test_rows_are_written_before_the_end_of_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "FLUSH_BYTES", 64)
    store = opened(tmp_path)
    store.put(keys("a"), rows("a"))
    assert not opened(tmp_path).has_intact_row(hash_content(b"a"))
    store.put(keys("b", "c", "d"), rows("b", "c", "d"))
    assert opened(tmp_path).has_intact_row(hash_content(b"a"))


def damage_end(path):
    path.write_bytes(path.read_bytes()[:-100])


def damage_start(path):
    path.write_bytes(b"not arrow at all" * 40)


def damage_keys(path):
    content = bytearray(path.read_bytes())
    at = bytes(content).index(min(hash_content(name) for name in (b"cat", b"dog")))
    content[at + 3] ^= 1
    path.write_bytes(content)


def damage_rows(path):
    content = bytearray(path.read_bytes())
    at = bytes(content).index(row("cat").tobytes())
    content[at + 2] ^= 1
    path.write_bytes(content)


def permute_row(path):
    """The same numbers in another order: a plain sum of them does not notice."""
    content, before, after = path.read_bytes(), row("cat").tobytes(), row("cat")[::-1].tobytes()
    assert before != after and content.count(before) == 1
    path.write_bytes(content.replace(before, after))


def swap_rows(path):
    content, cat, dog = path.read_bytes(), row("cat").tobytes(), row("dog").tobytes()
    first, second = sorted((cat, dog), key=content.index)
    assert first + second in content
    path.write_bytes(content.replace(first + second, second + first))


def empty(path):
    path.write_bytes(b"")


def other_format(path):
    content = path.read_bytes()
    assert content.count(b'"captious-features": 2') >= 1
    path.write_bytes(content.replace(b'"captious-features": 2', b'"captious-features": 9'))


@pytest.mark.parametrize(
    "damage", [damage_end, damage_start, damage_keys, damage_rows, permute_row, swap_rows, empty, other_format]
)
def test_a_damaged_segment_is_skipped_said_and_listed_and_its_rows_can_be_put_again(tmp_path, damage):
    fill(opened(tmp_path), "cat", "dog")
    fill(opened(tmp_path), "cow")
    victim = min((tmp_path / SPACE.folder).iterdir())
    damage(victim)
    lines = []
    store = opened(tmp_path, log=lines.append)
    assert store.gather(keys("cat", "dog", "cow"))[2].tolist() == [False, False, True]
    assert len(lines) == 1 and victim.name in lines[0] and "skipped" in lines[0]
    (info,) = stores.list_stores(tmp_path, check=True)
    assert list(info.damaged) == [victim.name] and info.rows == 1
    fill(store, "cat", "dog")
    found, _, here = opened(tmp_path).gather(keys("cat", "dog", "cow"))
    assert here.all() and (found == rows("cat", "dog", "cow")).all()
    assert stores.remove_damaged(tmp_path) == 1 and not victim.exists()


def test_a_segment_of_another_encoder_is_not_believed(tmp_path):
    other = FeatureSpace("other", "ffffffffffff", "texts", (4,))
    path = write_segment(tmp_path / SPACE.folder, other, Segment(keys("a"), np.zeros(1, np.int32), rows("a")))
    with pytest.raises(DamagedSegment, match="texts of ffffffffffff"):
        read_segment(path, SPACE)
    assert not opened(tmp_path).has_intact_row(hash_content(b"a"))
    assert "does not belong here" in stores.list_stores(tmp_path)[0].damaged[path.name]


def test_small_segments_are_merged_and_nothing_is_lost(tmp_path):
    for name in range(MANY):
        fill(opened(tmp_path), name, "shared")
    reader = opened(tmp_path)
    assert len(reader.segments) == MANY
    assert compact(tmp_path / SPACE.folder, SPACE) == MANY
    assert len(list((tmp_path / SPACE.folder).iterdir())) == 1
    names = [*range(MANY), "shared"]
    for store in (reader, opened(tmp_path)):  # one that mapped the files before they went, and a new one
        found, lengths, here = store.gather(keys(*names))
        assert here.all() and (found == rows(*names)).all() and lengths[-1] == len("shared")
    assert stores.list_stores(tmp_path)[0].rows == MANY + 1
    assert compact(tmp_path / SPACE.folder, SPACE) == 0


def test_merging_leaves_damaged_segments_where_they_are(tmp_path):
    for name in range(MANY):
        fill(opened(tmp_path), name)
    victim = min((tmp_path / SPACE.folder).iterdir())
    damage_end(victim)
    assert compact(tmp_path / SPACE.folder, SPACE) == MANY - 1
    assert victim.exists()


def test_merged_segments_stay_below_the_size_they_may_have(tmp_path, monkeypatch):
    for name in range(MANY):
        fill(opened(tmp_path), name)
    size = min((tmp_path / SPACE.folder).iterdir()).stat().st_size
    monkeypatch.setattr(_segments, "LARGE_BYTES", 4 * size)
    compact(tmp_path / SPACE.folder, SPACE)
    assert len(list((tmp_path / SPACE.folder).iterdir())) == 2
    assert opened(tmp_path).gather(keys(*range(MANY)))[2].all()


def test_the_least_recently_used_go_first(tmp_path, monkeypatch):
    for age, name in enumerate(("old", "middle", "new")):
        fill(opened(tmp_path), name)
        os.utime(max((tmp_path / SPACE.folder).iterdir()), (1000 + age, 1000 + age))
    size = min((tmp_path / SPACE.folder).iterdir()).stat().st_size
    opened(tmp_path).gather(keys("old"))  # used just now
    stores.shrink(tmp_path, 2 * size + 50)
    assert opened(tmp_path).gather(keys("old", "middle", "new"))[2].tolist() == [True, False, True]
    monkeypatch.setenv("CAPTIOUS_CACHE_LIMIT", f"{size + 50}")
    store = opened(tmp_path)
    store.put(keys("newest"), rows("newest"))
    store.settle()
    assert opened(tmp_path).gather(keys("old", "new", "newest"))[2].tolist() == [False, False, True]
    assert store.gather(keys("old"))[2].all()  # what this process has mapped stays with it


def test_drafts_of_killed_processes_go_once_they_are_old(tmp_path):
    fill(opened(tmp_path), "a")
    stale, fresh = (tmp_path / SPACE.folder / f".{name}.arrow.x.part" for name in "ab")
    for draft in (stale, fresh):
        draft.write_bytes(b"half")
    os.utime(stale, (1000, 1000))
    stores.shrink(tmp_path, 10**9)
    assert not stale.exists() and fresh.exists()


@pytest.mark.parametrize("text", ["", "many", "2 XB", "-1", "9" * 400])
def test_a_size_that_is_none(text, monkeypatch):
    with pytest.raises(InputError, match="expected such as"):
        parse_size(text)
    if text:
        monkeypatch.setenv("CAPTIOUS_CACHE_LIMIT", text)
        with pytest.raises(InputError, match="CAPTIOUS_CACHE_LIMIT"):
            stores.get_size_limit()


def test_a_folder_that_cannot_be_written_leaves_rows_in_memory(tmp_path):
    (tmp_path / SPACE.folder).write_text("a file where the folder should be")
    lines = []
    store = opened(tmp_path, log=lines.append)
    fill(store, "a")
    fill(store, "b")
    store.settle()
    assert store.gather(keys("a", "b"))[2].all()
    assert len(lines) == 1 and "going on without it" in lines[0]


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(stores, "MEMORY_BYTES", 3 * 16)
    store = opened(None)
    for name in "abcde":
        fill(store, name)
    store.settle()
    assert store.gather(keys(*"abcde"))[2].tolist() == [False, False, True, True, True]


def test_a_folder_that_cannot_be_made_is_said(tmp_path, monkeypatch):
    """Under /proc making one fails as if it were missing, which is also how one looks that another process pruned."""

    def nowhere(*arguments):
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(stores, "write_segment", nowhere)
    lines = []
    store = opened(tmp_path / "never", log=lines.append)
    fill(store, "a")
    assert store.gather(keys("a"))[2].all()
    assert len(lines) == 1 and "going on without it" in lines[0]
