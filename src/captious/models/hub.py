"""Search for weights (a path, the user's own folder, the hub's cache, the hub), and a registry of loaded models."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Generic, TypeVar

from captious._core.files import expand_home, get_data_folder, refuse_irregular
from captious._core.plugins import ObjectName
from captious.errors import InputError, format_suggestion, require
from captious.models.encoder import note_model

SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
# Files of a model folder in the layout of transformers or sentence-transformers. Old repositories have
# `pytorch_model*.bin` instead of `model.safetensors`.
MODEL_FILES = (
    *("*.json", "vocab.txt", "merges.txt", "*.model", "model.safetensors", "model-*.safetensors"),
    *("*_Dense/model.safetensors", "*_Dense/pytorch_model.bin"),
)
# Files to download by hand for an encoder of images and texts.
HUB_FILES = "config.json, model.safetensors (or pytorch_model.bin), tokenizer.json and preprocessor_config.json"
# Files to download by hand for a language model.
TEXT_FILES = "config.json, model.safetensors (or pytorch_model.bin) and tokenizer.json"
# Largest number of files in a model folder; with more, the path is probably not one.
MOST_FILES = 5000
# Timeout of a request to the hub, in seconds.
TIMEOUT = 5.0


@dataclass(frozen=True)
class CheckpointFile:
    """A published checkpoint file and its source."""

    file: str
    where: str
    repository: str = ""
    """Repository on the hub; empty if the file is published elsewhere."""


SOURCES = (
    CheckpointFile("spec.pt", "the hub repository Xiaohud/SPECS", "Xiaohud/SPECS"),
    CheckpointFile("openai_b32_longclip.pt", "the hub repository Xiaohud/SPECS"),
    CheckpointFile("longclip-B.pt", "the hub repository BeichenZhang/LongCLIP-B", "BeichenZhang/LongCLIP-B"),
    CheckpointFile("longclip-L.pt", "the hub repository BeichenZhang/LongCLIP-L", "BeichenZhang/LongCLIP-L"),
    CheckpointFile("clip_ViT-B-32.pth", "github.com/aimagelab/pacscore, section Pre-trained Models"),
    CheckpointFile("openClip_ViT-L-14.pth", "github.com/aimagelab/pacscore, section Pre-trained Models"),
    CheckpointFile("PAC++_clip_ViT-B-32.pth", "the link in the README of github.com/aimagelab/pacscore"),
    CheckpointFile("PAC++_clip_ViT-L-14.pth", "the link in the README of github.com/aimagelab/pacscore"),
    CheckpointFile("ViT-B-32.pt", "github.com/openai/CLIP, file clip/clip.py"),
    CheckpointFile("ViT-B-16.pt", "github.com/openai/CLIP, file clip/clip.py"),
    CheckpointFile("ViT-L-14.pt", "github.com/openai/CLIP, file clip/clip.py"),
)


class Unreachable(InputError):
    """Raised if the files are not in the hub's cache and the hub does not answer."""


def get_weights_folder() -> Path:
    """Return the folder for the user's own checkpoints, which are found there by name."""
    return get_data_folder() / "weights"


def find_local(weights: str) -> Path | None:
    """Find weights on this machine: a path, or a name in the folder of the user's checkpoints; otherwise None."""
    file_names = [source.file for source in SOURCES if source.repository == weights]
    candidates = (get_weights_folder() / name for name in (weights, *file_names))
    path = next((path for path in (expand_home(weights), *candidates) if path.exists()), None)
    if path is not None:
        refuse_irregular(path)
    return path


def find(weights: str, instead: str = "captious-mini works without a download", files: str = HUB_FILES) -> Path:
    """Find the file or folder of ``weights``; fetch it from the hub if it is not on this machine.

    The message of an offline machine offers ``instead`` as an alternative and lists ``files`` as required.
    """
    if isinstance(weights, ObjectName):
        raise InputError(f"weights {weights}: is an object, but this model is read from files; expected their folder")
    path = find_local(weights)
    if path is not None:
        return path
    source = next((source for source in SOURCES if weights in (source.file, source.repository)), None)
    if source is not None and source.repository:
        return _find_file(source.repository, source.file, weights, instead)
    if source is not None:
        raise InputError(
            f"weights {weights!r}: not on this machine; download {source.file} from {source.where}, "
            f"{_format_destination(source.file)}"
        )
    owner, _, rest = weights.partition("/")
    name, _, file = rest.partition("/")
    if file and Path(file).suffix in SUFFIXES and REPOSITORY.fullmatch(f"{owner}/{name}"):
        return _find_file(f"{owner}/{name}", file, weights, instead)
    if Path(weights).suffix in SUFFIXES or not REPOSITORY.fullmatch(weights):
        hint = format_suggestion(
            weights, ("captious-mini", "captious-mini-specs", *(source.file for source in SOURCES))
        )
        raise InputError(
            f"weights {weights!r}: no such file or folder, expected one, a hub id (owner/name) or captious-mini{hint}"
        )
    return find_model(weights, f"weights {weights!r}", instead, files)


def _find_file(repository: str, file: str, weights: str, instead: str) -> Path:
    try:
        folder = fetch(repository, (file,), lambda folder: (folder / file).is_file(), f"weights {weights!r}")
    except Unreachable as error:
        raise InputError(
            f"{error}; download {file} from huggingface.co/{repository}, "
            f"{_format_destination(file)}{_format_alternative(instead)}"
        ) from None
    if folder is None:
        raise InputError(f"weights {weights!r}: the hub repository {repository} has no {file}")
    return folder / file


def find_model(repository: str, what: str, instead: str, files: str = HUB_FILES) -> Path:
    """Return the folder of a model in the hub's cache, in ``transformers``' layout; messages begin with ``what``."""
    try:
        folder = fetch(repository, MODEL_FILES, _has_model, what) or fetch(
            repository, (*MODEL_FILES, "pytorch_model*.bin"), _has_model, what
        )
    except Unreachable as error:
        raise InputError(
            f"{error}; download {files} from huggingface.co/{repository}, put them into "
            f"{get_weights_folder() / repository}/, or anywhere and give their folder{_format_alternative(instead)}"
        ) from None
    if folder is None:
        raise InputError(f"{what}: the hub repository has no config.json with model.safetensors or pytorch_model.bin")
    return folder


def _has_model(folder: Path) -> bool:
    """Return True if a folder has a configuration and all its weights."""
    if not (folder / "config.json").is_file():
        return False
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return all((folder / shard).is_file() for shard in json.loads(index.read_bytes())["weight_map"].values())
    return (folder / "model.safetensors").is_file() or any(folder.glob("pytorch_model*.bin"))


def fetch(repository: str, patterns: tuple[str, ...], complete: Callable[[Path], bool], what: str) -> Path | None:
    """Return the folder in the hub's cache with the files of a repository that match ``patterns``.

    They are downloaded only if the cached folder is not ``complete``. Return None if it is not complete afterwards:
    the repository does not have such files. Error messages begin with ``what``.
    """
    hub = require("huggingface_hub", "clip")
    errors = require("huggingface_hub.errors", "clip")
    with suppress(errors.LocalEntryNotFoundError, errors.HFValidationError):
        folder = Path(hub.snapshot_download(repository, allow_patterns=list(patterns), local_files_only=True))
        if complete(folder):
            return folder
    try:
        # Ask the hub first: offline, `snapshot_download` would silently return the incomplete folder.
        hub.HfApi().model_info(repository, timeout=TIMEOUT)
        folder = Path(hub.snapshot_download(repository, allow_patterns=list(patterns), etag_timeout=TIMEOUT))
    except errors.HFValidationError:
        raise InputError(f"{what}: no such file or folder, expected a local folder or a hub id") from None
    except errors.RepositoryNotFoundError:
        raise InputError(f"{what}: no such file or folder, and the hub shows no repository {repository}") from None
    except Exception:  # of whichever HTTP library the hub's package uses
        raise Unreachable(f"{what}: not on this machine, and the hub cannot be reached") from None
    return folder if complete(folder) else None


def _format_alternative(instead: str) -> str:
    return f"; {instead}" if instead else ""


def _format_destination(file: str) -> str:
    return f"put it at {get_weights_folder() / file}, or anywhere and give its path as weights"


def get_file_stats(path: Path | None) -> tuple[object, ...]:
    """Return sizes and times of a file or folder, which change if a file is replaced; for `ModelRegistry` keys."""
    if path is None:
        return ()
    files = list(islice(path.rglob("*"), MOST_FILES + 1)) if path.is_dir() else [path]
    if len(files) > MOST_FILES:
        raise InputError(f"{path}: contains more than {MOST_FILES:,} files, expected the folder of a model")
    stats = [(str(file), file.stat()) for file in sorted(files) if file.is_file()]
    return tuple((name, stat.st_size, stat.st_mtime_ns, stat.st_ino) for name, stat in stats)


Model = TypeVar("Model")


class ModelRegistry(Generic[Model]):
    """A registry of at most ``limit`` models by key; the least recently used one is dropped first.

    Threads may share it: each model is loaded once, the others wait for it.

    >>> registry = ModelRegistry[str](limit=2)
    >>> [registry.get(key, lambda key=key: key.upper()) for key in "aba"]
    ['A', 'B', 'A']
    >>> registry.get("c", lambda: "C"), "a" in registry, "b" in registry
    ('C', True, False)
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._models: OrderedDict[Hashable, Model] = OrderedDict()
        self._lock = RLock()

    def get(self, key: Hashable, load: Callable[[], Model]) -> Model:
        """Return the model of a key, loaded if necessary; a failed load leaves no entry."""
        with self._lock:
            if key not in self._models:
                self._models[key] = load()
                while len(self._models) > self.limit:
                    self._models.popitem(last=False)
            self._models.move_to_end(key)
            note_model(self._models[key])
            return self._models[key]

    def __contains__(self, key: Hashable) -> bool:
        return key in self._models

    def __len__(self) -> int:
        return len(self._models)
