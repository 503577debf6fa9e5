"""Finished runs on disk, so that a stopped audit resumes and a longer one reuses what is done."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from captious._version import __version__
from captious.bias.tasks import Task
from captious.files import digest, whole_file
from captious.measurement import Floats


@dataclass(frozen=True)
class Store:
    """Test probabilities by task, in a folder named after the classifier's settings; None keeps nothing."""

    folder: Path | None

    def of(self, settings: Mapping[str, Any]) -> Store:
        """The part for one classifier, exactly as configured."""
        if self.folder is None:
            return self
        key = digest(json.dumps({**settings, "captious": __version__}, sort_keys=True).encode())
        return Store(self.folder / f"{str(settings['classifier']).split('(')[0]}-{key}")

    def get(self, task: Task) -> Floats | None:
        """What was kept of a task; a damaged file counts as absent."""
        if self.folder is None:
            return None
        try:
            kept: Floats = np.load(self.folder / f"{task.digest}.npy", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        return kept if kept.shape == (len(task.split.test), task.classes) else None

    def put(self, task: Task, probabilities: Floats) -> None:
        """Keep a finished task, whole or not at all."""
        if self.folder is None:
            return
        with whole_file(self.folder / f"{task.digest}.npy") as draft, draft.open("wb") as file:
            np.save(file, probabilities, allow_pickle=False)
