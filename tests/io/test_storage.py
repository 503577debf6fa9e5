"""Folders on a disk and in an object store answer alike, write whole objects, and try again."""

import uuid

import fsspec
import pytest

from captious.errors import InputError, MissingExtra
from captious.io import storage as module
from captious.io.storage import Disk, ObjectStore, Storage, split_address


@pytest.fixture(params=["disk", "file", "memory"])
def storage(request, tmp_path):
    address = {
        "disk": str(tmp_path / "out"),
        "file": f"file://{tmp_path}/out",
        "memory": f"memory://{uuid.uuid4().hex}/out",
    }
    return Storage.at(address[request.param])


def test_what_is_written_can_be_listed_and_read(storage):
    assert storage.names("items") == [] and not storage.exists("items/0.parquet")
    storage.write("items/0.parquet", b"zero")
    storage.write("items/1.parquet", b"one")
    storage.write("manifest.json", b"{}")
    assert storage.names() == ["manifest.json"]
    assert storage.sizes("items") == {"0.parquet": 4, "1.parquet": 3}
    assert storage.read("items/0.parquet") == b"zero"
    with storage.open("items/1.parquet") as file:
        file.seek(1)
        assert file.read() == b"ne"
    assert storage.exists("items/0.parquet") and not storage.exists("items")
    assert storage.glob("**/*.parquet") == {"items/0.parquet": 4, "items/1.parquet": 3}
    assert storage.glob("*.parquet") == {}


def test_a_large_file_is_read_from_any_position(storage, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 3)
    storage.write("a", b"0123456789")
    with storage.open_large("a") as file:
        assert file.seek(4) == 4 and file.read(3) == b"456" and file.fileno() >= 0
    with pytest.raises(InputError, match=r"b: no such"):
        storage.open_large("b")


def test_what_is_written_again_replaces_what_was_there_and_can_be_removed(storage):
    storage.write("a", b"first")
    storage.write("a", b"2nd")
    assert (storage.read("a"), storage.size("a")) == (b"2nd", 3)
    storage.remove("a")
    storage.remove("a")
    assert storage.size("a") is None and storage.names() == []
    with pytest.raises(InputError, match=r"a: no such"):
        storage.read("a")


def test_a_storage_can_be_sent_to_a_worker(storage):
    import pickle

    storage.write("a", b"content")
    assert pickle.loads(pickle.dumps(storage)).read("a") == b"content"


def test_nothing_half_written_stays_on_a_disk(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        Disk(str(tmp_path)).write("a", b"a folder is there")
    with pytest.raises(InputError, match=r"/a: cannot be removed \("):
        Disk(str(tmp_path)).remove("a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.fixture
def broken(monkeypatch):
    """Makes the next calls of the object store fail."""
    monkeypatch.setattr(module, "BACKOFF_SECONDS", 0)
    real, left, calls = fsspec.filesystem("memory").cat_file.__func__, [0], []

    def cat_file(self, path, **options):
        calls.append(path)
        if left[0]:
            left[0] -= 1
            raise ConnectionResetError("the line is dead")
        return real(self, path, **options)

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "cat_file", cat_file)
    return left, calls


def test_an_object_store_is_asked_four_times_at_most(broken):
    left, calls = broken
    store = ObjectStore(f"memory://{uuid.uuid4().hex}")
    store.write("a", b"content")
    left[0] = 3
    assert store.read("a") == b"content" and len(calls) == 4
    left[0] = 4
    with pytest.raises(InputError, match=r"/a: cannot be read \(the line is dead\)"):
        store.read("a")
    assert len(calls) == 8


def test_an_object_that_is_not_there_is_asked_for_once(broken):
    with pytest.raises(InputError, match="no such object"):
        ObjectStore(f"memory://{uuid.uuid4().hex}").read("a")
    assert len(broken[1]) == 1


def test_what_is_not_installed_or_unknown_is_said_in_one_line(monkeypatch):
    with pytest.raises(InputError, match="no-such-scheme://bucket: Protocol not known"):
        Storage.at("no-such-scheme://bucket").names()
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(MissingExtra, match=r"captious\[remote\]"):
        Storage.at("s3://bucket").names()


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("memory://a.tar", ("memory://", "a.tar")),
        ("s3://bucket/*/a.tar", ("s3://bucket", "*/a.tar")),
        ("/*.tar", ("/", "*.tar")),
        ("a/b[0-9]/c.tar", ("a", "b[0-9]/c.tar")),
    ],
)
def test_an_address_is_a_folder_and_a_rest(address, parts):
    assert split_address(address) == parts
    assert Storage.at(parts[0]).get_address(parts[1]) == address


def test_a_large_object_is_copied_again_from_its_beginning(monkeypatch):
    monkeypatch.setattr(module, "BACKOFF_SECONDS", 0)
    store = ObjectStore(f"memory://{uuid.uuid4().hex}")
    store.write("a", b"0123456789")
    copy, calls = module.shutil.copyfileobj, []

    def broken(source, target, size):
        calls.append(size)
        if len(calls) == 1:
            target.write(b"half of it, and then")
            raise ConnectionResetError("the line is dead")
        copy(source, target, size)

    monkeypatch.setattr(module.shutil, "copyfileobj", broken)
    with store.open_large("a") as file:
        assert file.read() == b"0123456789" and len(calls) == 2
