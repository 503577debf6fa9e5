"""The documentation site builds without a warning, and its generated pages say what the code says."""

import json
import re
from pathlib import Path

import pytest
from lab.site.api_pages import api_pages
from lab.site.cli_pages import cli_pages
from lab.site.docstrings import markdown
from lab.site.notebooks import notebook_markdown

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; links that lead nowhere and pages outside the navigation are errors."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder))
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    return folder


def test_the_site_has_every_kind_of_page(site):
    for page in (
        "index",
        "tutorial",
        "guide/images",
        "reference/metrics/cider",
        "reference/cli/study",
        "results/parity",
    ):
        assert (site / f"{page}.html").stat().st_size > 5000
    reference = (site / "reference/api/index.html").read_text()
    assert 'id="captious._evaluate.evaluate"' in reference


def test_fields_of_options_are_documented_by_their_help_text(site):
    text = re.sub(r"<[^>]*>", "", (site / "reference/api/index.html").read_text())
    assert re.search(r"samples\s*\(int\)\s*–\s*Bootstrap resamples; 0 for none", text)


def test_the_site_asks_nothing_of_the_network(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert 'src="http' not in text and 'rel="stylesheet" href="http' not in text and "fonts.g" not in text, (
            page.name
        )


def test_search_finds_a_guide(site):
    locations = {entry["location"] for entry in json.loads((site / "search/search_index.json").read_text())["docs"]}
    assert "guide/bias.html" in locations


def test_the_command_line_reference_has_every_command_and_option():
    pages = cli_pages()
    assert "## captious score\n" in pages["reference/cli/index.md"]
    assert "| `PREDICTIONS` | Candidate captions" in pages["reference/cli/index.md"]
    assert "| `-r, --references FILE` | References by id" in pages["reference/cli/index.md"]
    assert "*(default `12345`; at least 0)*" in pages["reference/cli/index.md"]
    assert (
        "| `SOURCE` | A recipe" in pages["reference/cli/study.md"]
        and "| Ratings and metrics |" in pages["reference/cli/study.md"]
    )
    assert "```text\ncaptious study run" in pages["reference/cli/study.md"]


def test_a_room_has_a_page_and_a_name_one_place():
    pages = api_pages()
    assert "::: captious._evaluate.evaluate\n" in pages["reference/api/index.md"]
    assert "[`Metric`](index.md#captious.metrics.contract.Metric)" in pages["reference/api/metrics.md"]
    assert "::: captious.metrics.contract.Metric\n" not in pages["reference/api/metrics.md"]
    assert "::: captious.testing.check_metric\n" in pages["reference/api/testing.md"]


def test_docstrings_become_markdown():
    assert markdown("Uses :mod:`captious.io`.\n\n>>> 1 + 1\n2") == "Uses `captious.io`.\n\n```pycon\n>>> 1 + 1\n2\n```"
    assert markdown("Such as::\n\n    x = 1") == "Such as:\n\n    x = 1"
    assert markdown("Adds.\n\nParameters\n----------\na, b\n    Numbers.\n").endswith(
        "a\n    Numbers.\nb\n    Numbers.\n"
    )
    parameters = "Adds.\n\nParameters\n----------\na\n    A number.\n\n"
    assert markdown(f"{parameters}>>> 1 + 1\n2") == f"{parameters}Examples\n--------\n>>> 1 + 1\n2"


def test_a_notebook_shows_what_its_cells_printed():
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {
            "cell_type": "code",
            "source": ["print(1)"],
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["\x1b[1m1\x1b[0m\n"]},
                {"output_type": "display_data", "data": {"text/html": ["<b>bold</b>\n\n<i>x</i>"], "text/plain": "x"}},
            ],
        },
    ]
    assert notebook_markdown({"cells": cells}) == (
        "# Title\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n"
        '<div class="output">\n<b>bold</b>\n<i>x</i>\n</div>\n'
    )
