"""Build hook: the README on the package index, where relative links lead nowhere.

The project claims no address. The workflow of a release sets ``CAPTIOUS_REPOSITORY`` and ``CAPTIOUS_REVISION`` to the
repository and the tag in which it runs. Links and pictures of the README then lead to that repository at that tag, and
the metadata names it. Without the variables the README is used as it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE_LINK = re.compile(r"(?P<image>!?)(?P<text>\[[^\]]*\])\((?!\w+:|#)(?P<path>[^)\s]+)\)")


def complete_links(text: str, repository: str, revision: str) -> str:
    """Return Markdown whose relative links and pictures are addresses of files in a repository."""

    def complete(match: re.Match[str]) -> str:
        view = "raw" if match["image"] else "blob"
        return f"{match['image']}{match['text']}({repository.rstrip('/')}/{view}/{revision}/{match['path']})"

    return RELATIVE_LINK.sub(complete, text)


class ReadmeHook(MetadataHookInterface):
    """Sets ``readme`` and ``urls`` of the project."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README with complete links, and the address of the repository if it is known."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository, revision = os.environ.get("CAPTIOUS_REPOSITORY", ""), os.environ.get("CAPTIOUS_REVISION", "HEAD")
        if repository:
            text = complete_links(text, repository, revision)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = {"Repository": repository} if repository else {}
