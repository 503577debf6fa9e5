"""Hooks of mkdocs: adds the generated pages, and lists them in the navigation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from captious import __version__
from captious.metrics.registry import METRICS
from lab.evidence.pages import leaderboard_page
from lab.site.api_pages import api_pages
from lab.site.cards import CITE, list_papers, metric_page
from lab.site.cli_pages import cli_pages
from lab.site.notebooks import notebook_pages

# Pages of the site that are files at the root of the repository.
ROOT_PAGES = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}


def on_config(config: Any) -> Any:
    """Put the version into the header, and the pages of a folder into the navigation that names it.

    ``- Metrics: reference/metrics/`` names a folder.
    """
    config.site_name = f"captious {__version__}"
    docs = Path(config.docs_dir)
    paths = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")} | set(_generated(docs))
    config.nav = _filled({"": config.nav}, paths)[""]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    for path, text in _generated(Path(config.docs_dir)).items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **context: Any) -> str:
    """Links to a notebook lead to its page; pages of metrics get formula and paper, the page on citing all papers."""
    folder, _, name = page.file.src_uri.removesuffix(".md").rpartition("/")
    if folder == "reference/metrics" and name in METRICS:
        markdown = metric_page(name, markdown)
    markdown = markdown.replace(CITE, list_papers()) if page.file.src_uri == "cite.md" else markdown
    return re.sub(r"\]\(([^)]+)\.ipynb\)", r"](\1.md)", markdown)


def on_post_page(output: str, **context: Any) -> str:
    """The theme's script would request the stars of the repository from GitHub on every page; this stops it."""
    return output.replace(' data-md-component="source"', "")


def _generated(docs: Path) -> dict[str, str]:
    return api_pages() | cli_pages() | notebook_pages(docs) | leaderboard_page() | _root_pages(docs.parent)


def _root_pages(root: Path) -> dict[str, str]:
    """Files of the repository as pages, with links that lead on from the site."""
    texts = {page: (root / name).read_text(encoding="utf-8") for page, name in ROOT_PAGES.items()}
    return {page: re.sub(r"\]\(docs/", "](", text) for page, text in texts.items()}


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
