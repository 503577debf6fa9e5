"""Hooks of mkdocs: adds the generated pages, and lists them in the navigation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from lab.site.api_pages import api_pages
from lab.site.cli_pages import cli_pages
from lab.site.notebooks import notebook_pages


def on_config(config: Any) -> Any:
    """Fill the sections of the navigation that name a folder with its pages: ``- Metrics: reference/metrics/``."""
    docs = Path(config.docs_dir)
    paths = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")} | set(_generated(docs))
    config.nav = _filled({"": config.nav}, paths)[""]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    for path, text in _generated(Path(config.docs_dir)).items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **context: Any) -> str:
    """Links to a notebook lead to its page."""
    return re.sub(r"\]\(([^)]+)\.ipynb\)", r"](\1.md)", markdown)


def _generated(docs: Path) -> dict[str, str]:
    return api_pages() | cli_pages() | notebook_pages(docs)


def _filled(entry: Any, paths: set[str]) -> Any:
    if not isinstance(entry, dict):
        return entry
    ((title, value),) = entry.items()
    if isinstance(value, list):
        return {title: [section for inner in value if (section := _filled(inner, paths)) is not None]}
    if value.endswith("/"):
        pages = sorted(path for path in paths if path.startswith(value) and "/" not in path[len(value) :])
        return {title: sorted(pages, key=lambda path: not path.endswith("/index.md"))} if pages else None
    return entry
