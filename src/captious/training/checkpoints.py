"""The state of a training on disk: one file, replaced whole, from which it goes on exactly as if it had not stopped.

A checkpoint is only ever made between optimiser steps, so no half-summed gradient has to be kept: whatever moment a
process dies at, the steps since the last checkpoint are done again with the same examples and the same numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.extras import require
from captious.files import whole_file
from captious.training import processes

torch = require("torch", "clip")

FOLDER, FILE = "checkpoints", "last.pt"
FORMAT = 1


def save(folder: Path, contents: dict[str, Any]) -> None:
    """Write the checkpoint of a training; with several processes, called by each, and written by the first."""
    generators = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        generators["cuda"] = torch.cuda.get_rng_state()
    own = {"objective": contents.pop("objective"), "generators": generators}
    everyone = processes.everyones(own)
    if processes.rank() == 0:
        with whole_file(folder / FILE) as draft:
            torch.save({"format": FORMAT, "processes": everyone, **contents}, draft)
    processes.wait()


def load(folder: Path) -> dict[str, Any]:
    """Read the checkpoint of a training, with this process's own part of it in place."""
    refuse_absent(folder)
    path = folder / FILE
    try:
        found: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        everyone = found.pop("processes")
        kind = found.pop("format")
    except Exception as error:  # a damaged file makes the unpickler raise almost anything
        raise InputError(f"{path}: is damaged ({' '.join(str(error).split())[:120]})") from None
    if kind != FORMAT:
        raise InputError(f"{path}: is of format {kind}, expected {FORMAT}")
    if len(everyone) != processes.world():
        raise InputError(f"{path}: was made by {len(everyone)} processes, not {processes.world()}; start as many again")
    own = everyone[processes.rank()]
    return {**found, **own}


def refuse_absent(folder: Path) -> None:
    """Say that there is nothing to resume from, and how to start."""
    if not (folder / FILE).is_file():
        start = "leave --resume out" if not folder.parent.exists() else "give --overwrite in place of --resume"
        raise InputError(f"{folder / FILE}: no checkpoint to resume from; {start} to start")


def restore_generators(generators: dict[str, Any]) -> None:
    """Put torch's random numbers (dropout, where a model has any) back to where they were."""
    torch.set_rng_state(generators["cpu"])
    if "cuda" in generators and torch.cuda.is_available():
        torch.cuda.set_rng_state(generators["cuda"])
