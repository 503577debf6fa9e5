"""Saved views: names for addresses, in one small JSON file next to the first run."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Lock

from captious._core.files import load_json, write_atomically
from captious.errors import InputError
from captious.io.storage import is_remote

# Most views of a file, and characters of a name and of an address.
MOST, NAME, ADDRESS = 200, 80, 8000


def get_sibling_path(run: str, name: str = "") -> Path:
    """Return the parent folder of a run, or a file of this name in it; the working folder for a remote run."""
    return (Path.cwd() if is_remote(run) else Path(run).resolve().parent) / name


def get_views_path(run: str) -> Path:
    """Return the file of a run's views: next to its folder, so that overwriting the run keeps them."""
    folder = run.rstrip("/").rpartition("/")[2] if is_remote(run) else Path(run).resolve().name
    return get_sibling_path(run, f"{folder}.views.json")


class SavedViews:
    """Addresses by name, in a JSON file."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, Lock()

    def read_all(self) -> dict[str, str]:
        """Return the views in the order they were saved."""
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
        """Save an address under a name, replacing an earlier one; an empty address deletes the name."""
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
