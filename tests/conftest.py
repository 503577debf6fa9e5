"""What several test files share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of shared evaluation data, or a skip that says where it was looked for."""
    folder = Path(os.environ.get("CAPTIOUS_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}; set CAPTIOUS_SHARED_DATA to its folder")
    return folder
