"""Heavy libraries are imported here, when first used, with an error that names the extra to install."""

from __future__ import annotations

import importlib
from typing import Any

from captious.errors import MissingExtra


def require(module: str, extra: str) -> Any:
    """Import a module that an extra of captious provides."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(f"this needs {module}, which is not installed: pip install 'captious[{extra}]'") from error
