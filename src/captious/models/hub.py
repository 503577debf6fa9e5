"""Where weights are (a path, the user's own folder, the hub's cache, the hub), and the models that stay loaded."""

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
# What a model folder in ``transformers``' or sentence-transformers' layout needs.
#
# Old repositories have ``pytorch_model*.bin`` instead of ``model.safetensors``.
MODEL_FILES = (
    *("*.json", "vocab.txt", "merges.txt", "*.model", "model.safetensors", "model-*.safetensors"),
    *("*_Dense/model.safetensors", "*_Dense/pytorch_model.bin"),
)
# What to download by hand for an encoder of images and texts.
HUB_FILES = "config.json, model.safetensors (or pytorch_model.bin), tokenizer.json and preprocessor_config.json"
# What to download by hand for a language model.
TEXT_FILES = "config.json, model.safetensors (or pytorch_model.bin) and tokenizer.json"
# Files of a model's folder and its subfolders; a disk has more.
MOST_FILES = 5000
# Seconds that the hub has to answer a question.
TIMEOUT = 5.0


@dataclass(frozen=True)
class CheckpointFile:
    """A published checkpoint file and who publishes it."""

    file: str
    where: str
    repository: str = ""
    """The repository on the hub; empty where the file is published elsewhere."""


SOURCES = (
    CheckpointFile("spec.pt", "the hub repository Xiaohud/SPECS", "Xiaohud/SPECS"),
    CheckpointFile("openai_b32_longclip.pt", "the hub repository Xiaohud/SPECS"),
    CheckpointFile("longclip-B.pt", "the hub repository BeichenZhang/LongCLIP-B", "BeichenZhang/LongCLIP-B"),
    CheckpointFile("longclip-L.pt", "the hub repository BeichenZhang/LongCLIP-L", "BeichenZhang/LongCLIP-L"),
    CheckpointFile("clip_ViT-B-32.pth", "github.com/aimagelab/pacscore, section Pre-trained Models"),
    CheckpointFile("openClip_ViT-L-14.pth", "github.com/aimagelab/pacscore, section Pre-trained Models"),
    CheckpointFile("ViT-B-32.pt", "github.com/openai/CLIP, file clip/clip.py"),
    CheckpointFile("ViT-B-16.pt", "github.com/openai/CLIP, file clip/clip.py"),
    CheckpointFile("ViT-L-14.pt", "github.com/openai/CLIP, file clip/clip.py"),
)


class Unreachable(InputError):
    """The files are not in the hub's cache, and the hub does not answer."""


def weights_folder() -> Path:
    """Where a user may put checkpoints so that their names alone are enough."""
    return get_data_folder() / "weights"


def local(weights: str) -> Path | None:
    """A path as it is, or a file or folder of that name in the user's folder."""
    published = [source.file for source in SOURCES if source.repository == weights]
    named = (weights_folder() / name for name in (weights, *published))
    path = next((path for path in (expand_home(weights), *named) if path.exists()), None)
    if path is not None:
        refuse_irregular(path)
    return path


def find(weights: str, instead: str = "captious-mini works without a download", files: str = HUB_FILES) -> Path:
    """The file or folder that ``weights`` names, fetched from the hub where it is not on this machine.

    ``instead`` says in the message of an offline machine what works right now, ``files`` what a folder must hold.
    """
    if isinstance(weights, ObjectName):
        raise InputError(f"weights {weights}: is an object, but this model is read from files; expected their folder")
    path = local(weights)
    if path is not None:
        return path
    source = next((source for source in SOURCES if weights in (source.file, source.repository)), None)
    if source is not None and source.repository:
        return _find_file(source.repository, source.file, weights, instead)
    if source is not None:
        raise InputError(
            f"weights {weights!r}: not on this machine; download {source.file} from {source.where}, "
            f"{_where_to_put(source.file)}"
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
            f"{error}; download {file} from huggingface.co/{repository}, {_where_to_put(file)}{_also(instead)}"
        ) from None
    if folder is None:
        raise InputError(f"weights {weights!r}: the hub repository {repository} has no {file}")
    return folder / file


def find_model(repository: str, what: str, instead: str, files: str = HUB_FILES) -> Path:
    """The folder in the hub's cache of a model in ``transformers``' layout; ``what`` opens the messages."""
    try:
        folder = fetch(repository, MODEL_FILES, _has_model, what) or fetch(
            repository, (*MODEL_FILES, "pytorch_model*.bin"), _has_model, what
        )
    except Unreachable as error:
        raise InputError(
            f"{error}; download {files} from huggingface.co/{repository}, put them into "
            f"{weights_folder() / repository}/, or anywhere and give their folder{_also(instead)}"
        ) from None
    if folder is None:
        raise InputError(f"{what}: the hub repository has no config.json with model.safetensors or pytorch_model.bin")
    return folder


def _has_model(folder: Path) -> bool:
    """Whether a folder has a configuration and all its weights."""
    if not (folder / "config.json").is_file():
        return False
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return all((folder / shard).is_file() for shard in json.loads(index.read_bytes())["weight_map"].values())
    return (folder / "model.safetensors").is_file() or any(folder.glob("pytorch_model*.bin"))


def fetch(repository: str, patterns: tuple[str, ...], complete: Callable[[Path], bool], what: str) -> Path | None:
    """The folder in the hub's cache with the files of a repository that match ``patterns``.

    It is fetched only where the cached one is not ``complete``. None where the repository has no such files; ``what``
    opens the messages.
    """
    hub = require("huggingface_hub", "clip")
    errors = require("huggingface_hub.errors", "clip")
    with suppress(errors.LocalEntryNotFoundError, errors.HFValidationError):
        folder = Path(hub.snapshot_download(repository, allow_patterns=list(patterns), local_files_only=True))
        if complete(folder):
            return folder
    try:
        hub.HfApi().model_info(repository, timeout=TIMEOUT)  # a download alone would fall back on what is cached
        folder = Path(hub.snapshot_download(repository, allow_patterns=list(patterns), etag_timeout=TIMEOUT))
    except errors.HFValidationError:
        raise InputError(f"{what}: no such file or folder, expected a local folder or a hub id") from None
    except errors.RepositoryNotFoundError:
        raise InputError(f"{what}: no such file or folder, and the hub shows no repository {repository}") from None
    except Exception:  # of whichever HTTP library the hub's package uses
        raise Unreachable(f"{what}: not on this machine, and the hub cannot be reached") from None
    return folder if complete(folder) else None


def _also(instead: str) -> str:
    return f"; {instead}" if instead else ""


def _where_to_put(file: str) -> str:
    return f"put it at {weights_folder() / file}, or anywhere and give its path as weights"


def file_stats(path: Path | None) -> tuple[object, ...]:
    """Changes when a file, or a file in a folder, is replaced; for keys of :class:`ModelRegistry`."""
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
        """The model of a key, loaded where it is not there; a load that fails leaves nothing behind."""
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
