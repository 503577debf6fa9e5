"""Where weights are: a path, the user's own folder, the hub's cache, the hub; and what to say where they are not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from captious._files import data_folder
from captious.errors import InputError, nearest, require
from captious.models.devices import quiet

SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
PATIENCE = 10.0
"""Seconds that the hub has to answer a first question."""
_REACHED: set[str] = set()


@dataclass(frozen=True)
class Source:
    """A published checkpoint file and who publishes it."""

    file: str
    where: str
    repository: str = ""
    """On the hub; empty where it is published elsewhere."""


SOURCES = (
    Source("spec.pt", "the hub repository Xiaohud/SPECS", "Xiaohud/SPECS"),
    Source("openai_b32_longclip.pt", "the hub repository Xiaohud/SPECS"),
    Source("longclip-B.pt", "the hub repository BeichenZhang/LongCLIP-B", "BeichenZhang/LongCLIP-B"),
    Source("longclip-L.pt", "the hub repository BeichenZhang/LongCLIP-L", "BeichenZhang/LongCLIP-L"),
    Source("clip_ViT-B-32.pth", "github.com/aimagelab/pacscore, section Pre-trained Models"),
    Source("openClip_ViT-L-14.pth", "github.com/aimagelab/pacscore, section Pre-trained Models"),
    Source("ViT-B-32.pt", "github.com/openai/CLIP, file clip/clip.py"),
    Source("ViT-B-16.pt", "github.com/openai/CLIP, file clip/clip.py"),
    Source("ViT-L-14.pt", "github.com/openai/CLIP, file clip/clip.py"),
)
SMALL = (
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
)


def weights_folder() -> Path:
    """Where a user may put checkpoints so that their names alone are enough."""
    return data_folder() / "weights"


def find(weights: str) -> Path:
    """The file or folder that ``weights`` names, fetched from the hub where it is nowhere here."""
    here = local(weights)
    if here is not None:
        return here
    known = next((source for source in SOURCES if weights in (source.file, source.repository)), None)
    if known is not None and known.repository:
        return fetched(known.repository, (known.file,), weights)[0]
    if known is not None:
        raise InputError(
            f"weights {weights!r}: not on this machine; download {known.file} from {known.where}, {_put(known.file)}"
        )
    owner, _, rest = weights.partition("/")
    name, _, file = rest.partition("/")
    if file and Path(file).suffix in SUFFIXES and REPOSITORY.fullmatch(f"{owner}/{name}"):
        return fetched(f"{owner}/{name}", (file,), weights)[0]
    if Path(weights).suffix in SUFFIXES or not REPOSITORY.fullmatch(weights):
        hint = nearest(weights, ("captious-mini", "captious-mini-specs", *(source.file for source in SOURCES)))
        raise InputError(
            f"weights {weights!r}: no such file or folder, expected one, a hub id (owner/name) or captious-mini{hint}"
        )
    return hub_folder(weights)


def local(weights: str) -> Path | None:
    """A path as given, or under the user's folder by its name."""
    known = [source.file for source in SOURCES if source.repository == weights]
    named = (weights_folder() / name for name in (weights, *known))
    return next((place for place in (Path(weights).expanduser(), *named) if place.exists()), None)


def hub_folder(repository: str) -> Path:
    """The folder in the hub's cache of a repository in ``transformers``' layout."""
    folder = fetched(repository, ("config.json",), repository)[0].parent
    try:
        fetched(repository, ("model.safetensors",), repository)
    except _NoSuchFile:
        try:
            index = fetched(repository, ("model.safetensors.index.json",), repository)[0]
            shards = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
            fetched(repository, tuple(shards), repository)
        except _NoSuchFile:
            fetched(repository, ("pytorch_model.bin",), repository)
    for name in SMALL:
        try:
            fetched(repository, (name,), repository)
        except _NoSuchFile:
            continue
    return folder


class _NoSuchFile(InputError):
    """The repository is there and the file is not."""


def fetched(repository: str, files: tuple[str, ...], weights: str) -> list[Path]:
    """Files of a hub repository: from the cache without asking anyone, else from the hub."""
    require("huggingface_hub", "clip")
    return [Path(_one(repository, file, weights)) for file in files]


def _one(repository: str, file: str, weights: str) -> str:
    from huggingface_hub import errors, hf_hub_download, try_to_load_from_cache

    try:
        cached = try_to_load_from_cache(repository, file)
        if isinstance(cached, str):
            return cached
        if cached is not None:  # the hub said earlier that there is none
            raise _NoSuchFile(f"weights {weights!r}: the hub repository {repository} has no {file}")
        _reach(repository, file)
        return hf_hub_download(repository, file)
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        raise InputError(
            f"weights {weights!r}: no such file or folder, and the hub shows no repository {repository}"
        ) from None
    except errors.LocalEntryNotFoundError:
        raise InputError(_unreachable(weights, repository, file)) from None
    except errors.EntryNotFoundError:
        raise _NoSuchFile(f"weights {weights!r}: the hub repository {repository} has no {file}") from None
    except (errors.OfflineModeIsEnabled, _Unreached, OSError):
        raise InputError(_unreachable(weights, repository, file)) from None


class _Unreached(Exception):
    """The hub did not answer."""


def _reach(repository: str, file: str) -> None:
    """Ask the hub once, briefly: its own download would try five times over half a minute, and say so each time."""
    from huggingface_hub import errors, get_hf_file_metadata, hf_hub_url

    if repository in _REACHED:
        return
    try:
        get_hf_file_metadata(hf_hub_url(repository, file), timeout=PATIENCE)
    except errors.RepositoryNotFoundError:
        raise
    except (errors.HfHubHTTPError, errors.EntryNotFoundError):
        pass  # it answered; what it says of the file is for the download to report
    except Exception as error:  # of whichever HTTP library the hub's package uses
        raise _Unreached from error
    _REACHED.add(repository)


def _unreachable(weights: str, repository: str, file: str) -> str:
    alone = Path(file).suffix in SUFFIXES
    what = (
        file
        if alone
        else "config.json, model.safetensors (or pytorch_model.bin), tokenizer.json and preprocessor_config.json"
    )
    return (
        f"weights {weights!r}: not on this machine, and the hub cannot be reached; download {what} from "
        f"huggingface.co/{repository}, {_put(file if alone else repository, alone)}"
    )


def _put(name: str, alone: bool = True) -> str:
    put, whose = ("put it at", "its path") if alone else ("put them into", "their folder")
    return f"{put} {weights_folder() / name}{'' if alone else '/'}, or anywhere and give {whose} as weights"


T = TypeVar("T")
EXTRA = "imagine"


def diffusers() -> Any:
    """The library, without its advice."""
    require("torch", EXTRA)
    with quiet():
        library = require("diffusers", EXTRA)
        library.utils.logging.set_verbosity_error()
        library.utils.logging.disable_progress_bar()
    return library


def opened(name: str, index: str, load: Callable[[str, bool], T]) -> T:
    """What ``load`` makes of a folder with the file ``index``, or of a hub id: from the hub's cache, else the hub.

    ``load`` gets the place and whether it must stay offline.
    """
    place = local(name)
    if place is not None:
        if not (place / index).is_file():
            raise InputError(f"painter {name!r}: {place} has no {index}, expected a folder in the layout of diffusers")
        return _loaded(name, lambda: load(str(place), True))
    if name.startswith(".") or not REPOSITORY.fullmatch(name):
        raise InputError(
            f"painter {name!r}: no such folder, expected one, a hub id (owner/name), guided:DECODER or module:attribute"
        )
    try:
        return load(name, True)
    except (OSError, ValueError):  # not in the cache, or not whole
        pass
    try:
        return load(name, False)
    except (OSError, ValueError) as error:
        if f"has no {index}" in str(error) or "does not appear to have a file" in str(error):
            raise InputError(f"painter {name!r}: the hub repository has no {index}") from None
        raise InputError(
            f"painter {name!r}: not on this machine, and the hub cannot be reached or has no such repository; download "
            f"huggingface.co/{name} whole, put it at {weights_folder() / name}/, or anywhere and give its path as "
            "painter"
        ) from None


def class_of(folder: Path) -> str:
    """The class that a folder's config.json names."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return str(found["_class_name"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder}: its config.json does not say of which class the model is ({error})") from None


def _loaded(name: str, load: Callable[[], T]) -> T:
    try:
        return load()
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, TypeError) as error:
        line = " ".join(str(error).split())[:160]
        raise InputError(f"painter {name!r}: cannot be loaded ({line})") from None
