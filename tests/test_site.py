"""The documentation site builds without a warning, and its generated pages say what the code says."""

import doctest
import json
import re
from pathlib import Path

import pytest
from lab.site.api_pages import api_pages
from lab.site.cards import entries, metric_page
from lab.site.cli_pages import cli_pages
from lab.site.docstrings import markdown
from lab.site.notebooks import notebook_markdown

import captious
from captious import __version__
from captious.metrics.registry import METRICS, get_metric_class

ROOT = Path(__file__).resolve().parents[1]
CARDS = ROOT / "docs/reference/metrics"


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
        "install",
        "gallery",
        "changelog",
        "roadmap",
        "contributing",
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


def test_the_scripts_of_a_page_request_nothing_either(site, chromium):
    requested = []
    tab = chromium.new_page()
    tab.on("request", lambda request: requested.append(request.url))
    tab.goto((site / "guide/bias.html").as_uri(), wait_until="networkidle")
    tab.close()
    assert requested and all(address.startswith(("file:", "data:")) for address in requested)


def test_search_finds_guides_and_the_front_pages(site):
    found = json.loads((site / "search/search_index.json").read_text())["docs"]
    pages = {entry["location"] for entry in found}
    assert {"guide/bias.html", "install.html", "changelog.html", "roadmap.html"} <= pages
    assert any("kappa" in entry["text"].lower() for entry in found)


def test_the_page_of_a_metric_has_its_formula_and_its_paper(site):
    page = (site / "reference/metrics/cider.html").read_text(encoding="utf-8")
    assert "<math" in page and "<mtext>CIDEr-D</mtext>" in page
    assert "https://doi.org/10.1109/CVPR.2015.7299087" in page and "vedantam2015cider" in page


def test_the_header_has_the_version(site):
    page = (site / "guide/bias.html").read_text(encoding="utf-8")
    assert f"captious {__version__}" in page
    # No address of a repository is claimed, so there is none to edit a page at.
    assert "edit/main" not in page


@pytest.mark.parametrize(
    "name", [name for name in METRICS if ">>>" in (CARDS / f"{name}.md").read_text(encoding="utf-8")]
)
def test_the_example_of_a_metric_runs_as_it_stands(name):
    page = metric_page(name, (CARDS / f"{name}.md").read_text(encoding="utf-8"))
    example = re.search(r"```python\n(>>>.*?)```", page, re.S)[1]
    case = doctest.DocTestParser().get_doctest(example, {}, name, None, 0)
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(case).failed == 0


def test_every_metric_with_a_citation_names_its_paper():
    papers, metrics = entries()["papers"], entries()["metrics"]
    assert {name for name in METRICS if get_metric_class(name).citation} == set(metrics)
    assert {one["paper"] for one in metrics.values()} == set(papers)
    assert all({"doi", "eprint", "url"} & set(paper) for paper in papers.values())


def test_the_command_line_reference_has_every_command_and_option():
    pages = cli_pages()
    assert "## captious score\n" in pages["reference/cli/index.md"]
    assert "| `PREDICTIONS` | Candidate captions" in pages["reference/cli/index.md"]
    assert "| `--references, -r FILE` | References by id" in pages["reference/cli/index.md"]
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


@pytest.mark.shared_data
def test_typical_values_are_those_of_people_on_coco(shared_data):
    rows = [
        json.loads(line) for line in (shared_data / "coco/karpathy_test.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    captions = {row["id"]: row["references"][0] for row in rows}
    references = {row["id"]: row["references"][1:] for row in rows}
    report = captious.evaluate(
        captions, "bleu,rouge,cider", resampling=captious.Resampling(samples=0), references=references
    )
    metrics = entries()["metrics"]
    four = ", ".join(f"BLEU-{n} {report[f'bleu(n={n})'].corpus:.3f}" for n in (1, 2, 3, 4))
    assert metrics["bleu"]["coco"] == four
    assert metrics["rouge"]["coco"] == f"{report['rouge'].corpus:.3f}"
    assert metrics["cider"]["coco"] == f"{report['cider'].corpus:.3f}"
