"""``captious cache`` as a user types it."""

import json

import numpy as np
import pytest
from PIL import Image

from captious.captions import CaptionSet
from captious.models import loading
from captious.models import store as stores
from captious.models.encoder import Tokens
from captious.models.segments import FeatureSpace, Segment, as_keys, hash_content, write_segment


class Tiny:
    """Two-dimensional vectors, enough for a command."""

    name, fingerprint, precision, dimension, limit = "tiny", "cc22bb11aa00", "fp32", 2, 4

    def prepare(self, picture):
        return np.asarray(picture.convert("RGB").resize((1, 1)))

    def tokenize(self, texts):
        return Tokens(np.array([[len(text) + 1] for text in texts]), np.array([len(text.split()) for text in texts]))

    def image_features(self, pixels):
        return pixels.reshape(len(pixels), 3)[:, :2].astype(np.float32) + 1

    def text_features(self, ids):
        return np.concatenate([ids, ids + 1], axis=1).astype(np.float32)


@pytest.fixture(autouse=True)
def fresh():
    stores.close_stores()
    yield
    stores.close_stores()


@pytest.fixture
def show(run):
    """What ``captious cache COMMAND --json`` prints; it must succeed."""

    def facts(*arguments):
        code, out, err = run("cache", *arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    return facts


@pytest.fixture
def refused(run):
    """The one line with which a command is refused."""

    def line(*arguments):
        code, _, err = run("cache", *arguments)
        assert code == 2 and err.count("\n") == 1
        return err

    return line


def hold(name, fingerprint, rows=3):
    space = FeatureSpace(name, fingerprint, "texts", (4,))
    keys = as_keys(sorted(hash_content(str(row).encode()) for row in range(rows)))
    segment = Segment(keys, np.zeros(rows, np.int32), np.ones((rows, 4), np.float32))
    return write_segment(stores.get_cache_root() / space.folder, space, segment)


def encoders():
    return {info.encoder for info in stores.list_stores(stores.get_cache_root())}


def test_show_lists_what_is_kept_and_what_is_damaged(run, show):
    hold("clip", "aaaaaaaaaaaa")
    victim = hold("specs", "bbbbbbbbbbbb")
    hold("specs", "bbbbbbbbbbbb", rows=5)
    victim.write_bytes(b"garbage")
    facts = show("show")
    assert facts["limit"] == 20_000_000_000
    listed = {row["encoder"]: row for row in facts["features"]}
    assert (listed["clip"]["rows"], listed["specs"]["rows"], listed["specs"]["segments"]) == (3, 5, 2)
    assert list(listed["specs"]["damaged"]) == [victim.name]
    _, out, err = run("cache", "show")
    assert "clip" in out and "20.0 GB" in out and "damaged" in err
    run("cache", "prune", "--damaged")
    assert not victim.exists()


def test_an_empty_cache_is_listed(run, show):
    assert show("show")["features"] == show("show")["corpora"] == []
    assert "0 B of 20.0 GB" in " ".join(run("cache", "show")[1].split())


def test_show_lists_idf_corpora_and_tables_and_what_is_wrong_with_them(run, show):
    from captious.metrics.meteor.resources import get_added_file
    from captious.text.idf import DocumentFrequency, get_named_path

    captions = CaptionSet.of({"1": ()}, {"1": ("a cat",)})
    DocumentFrequency.of(captions, name="mine").save(get_named_path("mine"))
    get_named_path("broken").write_bytes(b"nothing")
    get_added_file().write_bytes(b"no tables")
    facts = show("show")
    corpora = {row["name"]: row for row in facts["corpora"]}
    assert "mine" in corpora["mine"]["content"] and "is no" in corpora["broken"]["unusable"]
    assert "captious cache add meteor PATH" in facts["tables"][0]["unusable"]
    _, out, err = run("cache", "show")
    assert "mine" in out and str(get_added_file()) in "".join(err.split("\n"))


def test_prune_by_encoder_size_and_all(run, show):
    hold("clip", "aaaaaaaaaaaa")
    hold("specs", "bbbbbbbbbbbb")
    hold("other", "cccccccccccc")
    facts = show("prune", "--encoder", "clip")
    assert 0 < facts["after"] < facts["before"]
    assert encoders() == {"specs", "other"}
    run("cache", "prune", "--encoder", "cccccccccccc")
    assert encoders() == {"specs"}
    run("cache", "prune", "--keep", "1GB")
    assert encoders() == {"specs"}
    assert "now" in run("cache", "prune", "--all")[1]
    assert not encoders() and not list(stores.get_cache_root().iterdir())


def test_prune_asks_for_exactly_one_thing(refused):
    hold("clip", "aaaaaaaaaaaa")
    for arguments in ((), ("--all", "--damaged")):
        assert "expected one of" in refused("prune", *arguments)
    assert "did you mean 'clip'" in refused("prune", "--encoder", "klip")
    assert "is not a size" in refused("prune", "--keep", "little")


@pytest.fixture
def photos(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "load", lambda weights: Tiny())
    (tmp_path / "photos" / "more").mkdir(parents=True)
    for place, name in enumerate(("a.png", "b.png", "more/c.png")):
        Image.new("RGB", (3, 3), (place % 2, 9, 9)).save(tmp_path / "photos" / name)
    (tmp_path / "photos" / "bad.jpg").write_text("no image")
    return tmp_path / "photos"


def test_fill_encodes_ahead_and_names_what_it_could_not_read(run, show, photos, tmp_path):
    captions = tmp_path / "captions.jsonl"
    rows = [{"id": 1, "caption": "a cat", "references": ["one two three four five"]}, {"id": 2, "caption": "a cat"}]
    captions.write_text("\n".join(map(json.dumps, rows)))
    facts = show("fill", photos, "--encoder", "tiny", "--captions", captions)
    assert (facts["images"], facts["distinct_images"]) == (4, 2)  # a and c have the same bytes, bad.jpg has no vector
    assert (facts["captions"], facts["distinct_captions"], facts["truncated"]) == (3, 2, 1)
    assert len(facts["unreadable"]) == 1 and "bad.jpg" in facts["unreadable"][0]
    rows = {info.kind: info.rows for info in stores.list_stores(stores.get_cache_root()) if info.encoder == "tiny"}
    assert rows == {"images": 2, "texts": 2}
    _, out, err = run("cache", "fill", photos, "--encoder", "tiny")
    assert "4 images, 2 distinct" in " ".join(out.split()) and "bad.jpg" in "".join(err.split("\n"))


def test_fill_refuses_a_folder_without_images(refused, photos, tmp_path):
    assert "no such folder" in refused("fill", tmp_path / "nowhere", "--encoder", "tiny")
    (tmp_path / "empty").mkdir()
    assert "contains no images" in refused("fill", tmp_path / "empty", "--encoder", "tiny")


def test_fill_says_that_there_is_no_cache_to_fill(refused, photos, tmp_path, monkeypatch):
    """Scoring goes on without a cache; a command that only fills it must not look like success."""
    monkeypatch.setenv("CAPTIOUS_CACHE_LIMIT", "0")
    assert "the cache is switched off" in refused("fill", photos, "--encoder", "tiny")
    monkeypatch.delenv("CAPTIOUS_CACHE_LIMIT")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CAPTIOUS_HOME", str(tmp_path / "file"))
    assert "cannot be made" in refused("fill", photos, "--encoder", "tiny")


def test_add_refuses_what_it_does_not_know(refused, tmp_path):
    assert "contains no data of METEOR 1.5" in refused("add", "meteor", tmp_path)
    line = refused("add", "metoer", tmp_path)
    assert line == "captious: no resource 'metoer', known: meteor; did you mean 'meteor'?\n"
