"""Weights by path, by name in the user's folder, by hub id; one line says what to download and where to put it."""

import os
import subprocess
import sys
from fnmatch import fnmatch
from types import SimpleNamespace

import pytest

from captious.errors import InputError
from captious.models.hub import find, get_file_stats, get_weights_folder

hub = pytest.importorskip("huggingface_hub")
pytest.importorskip("huggingface_hub.constants")  # the package gives its modules as attributes only once imported
pytest.importorskip("huggingface_hub.errors")


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """An empty hub cache and no network; the cache's folder."""
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def cached(folder, repository, files):
    """Files as the hub's library keeps them after a download."""
    home = folder / f"models--{repository.replace('/', '--')}"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("c0ffee")
    for name, content in files.items():
        path = home / "snapshots" / "c0ffee" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return home / "snapshots" / "c0ffee"


def refused(weights):
    with pytest.raises(InputError) as error:
        find(weights)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_path_is_itself(tmp_path):
    (tmp_path / "a.pt").write_text("x")
    assert find(str(tmp_path / "a.pt")) == tmp_path / "a.pt"
    assert find(str(tmp_path)) == tmp_path


def test_a_name_in_the_users_folder():
    get_weights_folder().mkdir(parents=True)
    (get_weights_folder() / "pac.pth").write_text("x")
    (get_weights_folder() / "spec.pt").write_text("x")
    assert find("pac.pth") == get_weights_folder() / "pac.pth"
    assert find("Xiaohud/SPECS") == get_weights_folder() / "spec.pt"


def test_a_hub_id_in_the_users_folder():
    (get_weights_folder() / "openai" / "clip").mkdir(parents=True)
    assert find("openai/clip") == get_weights_folder() / "openai" / "clip"


@pytest.mark.parametrize(
    ("weights", "files", "address"),
    [
        (
            "openai/clip-vit-base-patch32",
            ["config.json", "model.safetensors", "tokenizer.json"],
            "openai/clip-vit-base-patch32",
        ),
        ("Xiaohud/SPECS", ["spec.pt"], "huggingface.co/Xiaohud/SPECS"),
        ("spec.pt", ["spec.pt"], "huggingface.co/Xiaohud/SPECS"),
        ("BeichenZhang/LongCLIP-B", ["longclip-B.pt"], "huggingface.co/BeichenZhang/LongCLIP-B"),
        ("Xiaohud/SPECS/openai_b32_longclip.pt", ["openai_b32_longclip.pt"], "huggingface.co/Xiaohud/SPECS"),
        ("clip_ViT-B-32.pth", ["clip_ViT-B-32.pth"], "github.com/aimagelab/pacscore"),
        ("ViT-B-32.pt", ["ViT-B-32.pt"], "github.com/openai/CLIP"),
    ],
)
def test_no_weights_and_no_network(offline, weights, files, address):
    message = refused(weights)
    assert weights in message
    assert address in message
    assert str(get_weights_folder()) in message
    assert all(file in message for file in files)
    assert "download" in message
    if "huggingface.co" in message:
        assert "captious-mini works without a download" in message


def test_no_network_in_a_fresh_process(tmp_path):
    """As a user meets it: the hub told to stay offline by its own variable."""
    code = (
        "from captious.models.loading import load\n"
        "from captious.errors import InputError\n"
        "try:\n    load('openai/clip-vit-base-patch32')\n"
        "except InputError as error:\n    print(error)"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "the hub cannot be reached; download config.json" in done.stdout
    assert done.stdout.count("\n") == 1


def test_a_hub_that_does_not_answer_is_asked_once(tmp_path):
    """Without its variable the hub's library retries five times over half a minute, each time with two lines."""
    code = (
        "from captious.models.hub import find\n"
        "from captious.errors import InputError\n"
        "try:\n    find('some/clip')\n"
        "except InputError as error:\n    print(error)"
    )
    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "the hub cannot be reached" in done.stdout
    assert "retry" not in done.stderr.lower()


@pytest.mark.parametrize("weights", ["nowhere.pt", "models/nowhere.pth", "just-a-name", "a/b/c/d"])
def test_no_such_file(offline, weights):
    message = refused(weights)
    assert f"weights {weights!r}" in message


def test_a_slip_gets_a_hint(offline):
    assert "did you mean 'captious-mini'?" in refused("captious-min")


def test_the_hubs_cache_is_enough(offline):
    there = cached(offline, "some/clip", {"config.json": "{}", "model.safetensors": "x"})
    assert find("some/clip") == there


def test_weights_that_are_missing_from_the_hubs_cache(offline):
    cached(offline, "some/clip", {"config.json": "{}"})
    assert "the hub cannot be reached" in refused("some/clip")


def test_one_file_of_a_repository_in_the_cache(offline):
    there = cached(offline, "some/one", {"deep.pt": "x"})
    assert find("some/one/deep.pt") == there / "deep.pt"


def test_one_shard_that_is_missing_from_the_hubs_cache(offline):
    index = '{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}'
    files = {"config.json": "{}", "model.safetensors.index.json": index, "model-1.safetensors": "x"}
    there = cached(offline, "some/clip", files)
    assert "the hub cannot be reached" in refused("some/clip")
    (there / "model-2.safetensors").write_text("x")
    assert find("some/clip") == there


def test_a_repository_the_hub_does_not_have(monkeypatch, offline):
    def absent(*args, **kwargs):
        raise hub.errors.RepositoryNotFoundError("404", response=SimpleNamespace(headers={}, request=None))

    monkeypatch.setattr(hub.HfApi, "model_info", absent)
    assert "the hub shows no repository some/clip" in refused("some/clip")


@pytest.fixture
def repository(monkeypatch, tmp_path):
    """A repository on a hub that answers: give its files; returns the folder into which they are fetched."""

    def published(*files):
        folder = tmp_path / "fetched"

        def snapshot(repository, allow_patterns, local_files_only=False, etag_timeout=None):
            if local_files_only:
                raise hub.errors.LocalEntryNotFoundError("not cached")
            for file in files:
                if any(fnmatch(file, pattern) for pattern in allow_patterns):
                    folder.mkdir(exist_ok=True)
                    (folder / file).write_text(INDEX if file.endswith("index.json") else "{}")
            return str(folder)

        monkeypatch.setattr(hub.HfApi, "model_info", lambda *args, **kwargs: None)
        monkeypatch.setattr(hub, "snapshot_download", snapshot)
        return folder

    return published


INDEX = '{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}'
SHARDED = (
    "config.json",
    "model.safetensors.index.json",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
)


def test_sharded_weights_and_optional_files(repository):
    """A repository with an index and two shards but no tokenizer: every shard is fetched, the rest forgiven."""
    folder = repository(*SHARDED, "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack")
    assert find("some/clip") == folder
    assert sorted(path.name for path in folder.iterdir()) == sorted(SHARDED)


def test_old_repositories_have_no_safetensors(repository):
    folder = repository("config.json", "vocab.txt", "pytorch_model.bin", "tf_model.h5")
    assert find("some/clip") == folder
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "pytorch_model.bin", "vocab.txt"]


def test_a_repository_without_a_model(repository):
    repository("config.json", "README.md")
    assert "the hub repository has no config.json with model.safetensors" in refused("some/clip")
    assert "the hub repository some/clip has no deep.pt" in refused("some/clip/deep.pt")


def test_a_disk_is_no_folder_of_a_model(tmp_path, monkeypatch):
    """Its files are not listed to the end."""
    monkeypatch.setattr("captious.models.hub.MOST_FILES", 20)
    for number in range(25):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "file").touch()
    with pytest.raises(InputError, match="contains more than 20 files, expected the folder of a model"):
        get_file_stats(tmp_path)
    assert len(get_file_stats(tmp_path / "3")) == 1
