"""Saved views: names for addresses, in one small file beside the first run, written whole."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Lock

from captious._core.files import load_json, write_atomically
from captious.errors import InputError
from captious.io.storage import is_remote

MOST, NAME, ADDRESS = 200, 80, 8000
"""Views of a file, and letters of a name and of an address."""


def get_sibling_path(run: str, name: str = "") -> Path:
    """The folder beside a run, or a file of this name there; for a run on an object store, in the working folder."""
    return (Path.cwd() if is_remote(run) else Path(run).resolve().parent) / name


def get_views_path(run: str) -> Path:
    """The file of the views of a run: beside its folder, so that a run which is written anew keeps them."""
    folder = run.rstrip("/").rpartition("/")[2] if is_remote(run) else Path(run).resolve().name
    return get_sibling_path(run, f"{folder}.views.json")


class SavedViews:
    """Addresses by name."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, Lock()

    def read_all(self) -> dict[str, str]:
        """The views in the order they were saved."""
        try:
            views = load_json(self.path)
        except FileNotFoundError:
            return {}
        except (ValueError, OSError):
            raise InputError(f"{self.path}: is not a JSON file of saved views; move it away or fix it") from None
        if not isinstance(views, dict):
            raise InputError(f"{self.path}: expected names with addresses")
        return {str(name): str(address) for name, address in views.items()}

    def save(self, name: str, address: str) -> dict[str, str]:
        """Keep an address under a name, in place of what had it; an empty address forgets the name."""
        name = " ".join(name.split())
        if not 0 < len(name) <= NAME or not name.isprintable():
            raise InputError(f"name: expected 1 to {NAME} letters")
        if len(address) > ADDRESS:
            raise InputError(f"address: {len(address)} letters, expected at most {ADDRESS}")
        with self._lock:
            views = self.read_all()
            views.pop(name, None)
            if address:
                views[name] = address
            if len(views) > MOST:
                raise InputError(f"{self.path}: has {MOST} views already; delete one first")
            with write_atomically(self.path) as draft:
                draft.write_text(json.dumps(views, ensure_ascii=False, indent=2) + "\n", encoding="utf-8", newline="\n")
        return views
