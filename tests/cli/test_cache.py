"""``captious cache`` and ``captious features`` as a user types them."""

import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from captious.cli import cache, features
from captious.errors import InputError
from captious.models import load as loading
from captious.models import store as pruning
from captious.models import store as stores
from captious.models._segments import Segment, Space, as_keys, key_of, write
from captious.models.encoder import Tokens


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


def run(app, *arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def hold(name, fingerprint, rows=3):
    space = Space(name, fingerprint, "texts", (4,))
    keys = as_keys(sorted(key_of(str(row).encode()) for row in range(rows)))
    segment = Segment(keys, np.zeros(rows, np.int32), np.ones((rows, 4), np.float32))
    return write(pruning.cache_root() / space.folder, space, segment)


def test_cache_lists_what_it_holds_and_what_is_damaged():
    hold("clip", "aaaaaaaaaaaa")
    victim = hold("specs", "bbbbbbbbbbbb")
    hold("specs", "bbbbbbbbbbbb", rows=5)
    victim.write_bytes(b"garbage")
    facts = json.loads(run(cache.app, "--json"))
    assert facts["limit"] == 20_000_000_000
    found = {row["encoder"]: row for row in facts["holdings"]}
    assert (found["clip"]["rows"], found["specs"]["rows"], found["specs"]["segments"]) == (3, 5, 2)
    assert list(found["specs"]["damaged"]) == [victim.name]
    shown = CliRunner().invoke(cache.app, []).output
    assert "clip" in shown and "20.0 GB" in shown and "damaged" in shown
    run(cache.app, "prune", "--damaged")
    assert not victim.exists()


def test_an_empty_cache_is_listed():
    assert json.loads(run(cache.app, "--json"))["holdings"] == []
    assert "0 B of 20.0 GB" in " ".join(run(cache.app).split())


def test_prune_by_encoder_size_and_all():
    hold("clip", "aaaaaaaaaaaa")
    hold("specs", "bbbbbbbbbbbb")
    hold("other", "cccccccccccc")
    facts = json.loads(run(cache.app, "prune", "--encoder", "clip", "--json"))
    assert 0 < facts["after"] < facts["before"]
    assert {it.encoder for it in pruning.holdings(pruning.cache_root())} == {"specs", "other"}
    run(cache.app, "prune", "--encoder", "cccccccccccc")
    assert {it.encoder for it in pruning.holdings(pruning.cache_root())} == {"specs"}
    run(cache.app, "prune", "--keep", "1GB")
    assert len(pruning.holdings(pruning.cache_root())) == 1
    run(cache.app, "prune", "--all")
    assert pruning.holdings(pruning.cache_root()) == [] and not list(pruning.cache_root().iterdir())


def test_prune_asks_for_exactly_one_thing():
    hold("clip", "aaaaaaaaaaaa")
    for arguments in ((), ("--all", "--damaged")):
        with pytest.raises(InputError, match="expected one of"):
            run(cache.app, "prune", *arguments)
    with pytest.raises(InputError, match="did you mean 'clip'"):
        run(cache.app, "prune", "--encoder", "klip")
    with pytest.raises(InputError, match="is no size"):
        run(cache.app, "prune", "--keep", "little")


@pytest.fixture
def photos(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "load", lambda weights: Tiny())
    (tmp_path / "photos" / "more").mkdir(parents=True)
    for place, name in enumerate(("a.png", "b.png", "more/c.png")):
        Image.new("RGB", (3, 3), (place % 2, 9, 9)).save(tmp_path / "photos" / name)
    (tmp_path / "photos" / "bad.jpg").write_text("no image")
    return tmp_path / "photos"


def test_features_build_fills_the_cache_and_names_what_it_could_not_read(photos, tmp_path):
    captions = tmp_path / "captions.jsonl"
    rows = [{"id": 1, "caption": "a cat", "references": ["one two three four five"]}, {"id": 2, "caption": "a cat"}]
    captions.write_text("\n".join(map(json.dumps, rows)))
    facts = json.loads(run(features.app, "build", photos, "--encoder", "tiny", "--captions", captions, "--json"))
    assert (facts["images"], facts["distinct_images"]) == (4, 2)  # a and c have the same bytes, bad.jpg has no vector
    assert (facts["captions"], facts["distinct_captions"], facts["truncated"]) == (3, 2, 1)
    assert len(facts["unreadable"]) == 1 and "bad.jpg" in facts["unreadable"][0]
    held = {it.kind: it.rows for it in pruning.holdings(pruning.cache_root()) if it.encoder == "tiny"}
    assert held == {"images": 2, "texts": 2}
    assert "4 images, 2 distinct" in run(features.app, "build", photos, "--encoder", "tiny")


def test_features_build_refuses_a_folder_without_images(photos, tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        run(features.app, "build", tmp_path / "nowhere", "--encoder", "tiny")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no images"):
        run(features.app, "build", tmp_path / "empty", "--encoder", "tiny")


def test_features_build_says_that_there_is_no_cache_to_fill(photos, tmp_path, monkeypatch):
    """Scoring goes on without a cache; a command that only fills it must not look like success."""
    monkeypatch.setenv("CAPTIOUS_CACHE_LIMIT", "0")
    with pytest.raises(InputError, match="the cache is switched off"):
        run(features.app, "build", photos, "--encoder", "tiny")
    monkeypatch.delenv("CAPTIOUS_CACHE_LIMIT")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CAPTIOUS_HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match="cannot be made"):
        run(features.app, "build", photos, "--encoder", "tiny")
