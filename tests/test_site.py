"""The documentation site builds without a warning, and its generated pages say what the code says."""

import doctest
import functools
import http.server
import json
import re
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
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
    assert 'id="captious._evaluate.evaluate"' in (site / "reference/api/evaluate.html").read_text()
    assert 'href="evaluate.html#captious._evaluate.evaluate"' in (site / "reference/api/index.html").read_text()


def test_fields_of_options_are_documented_by_their_help_text(site):
    text = re.sub(r"<[^>]*>", "", (site / "reference/api/options.html").read_text())
    assert re.search(r"samples\s*\(int\)\s*–\s*Bootstrap resamples; 0 for none", text)


def test_the_site_asks_nothing_of_the_network(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert 'src="http' not in text and 'rel="stylesheet" href="http' not in text and "fonts.g" not in text, (
            page.name
        )


# Every address outside to which a page links: papers, and the documentation of programs that captious uses.
OUTSIDE = (
    "https://arxiv.org/abs/",
    "https://doi.org/",
    "https://aclanthology.org/",
    "https://www.ecva.net/papers/",
    "https://docs.ray.io",
    "https://filesystem-spec.readthedocs.io",
    "https://github.com/lucadiliello/bleurt-pytorch",
    "https://matplotlib.org",
    "https://pytorch.org/get-started/locally/",
)


class Links(HTMLParser):
    """Addresses that a page links to or loads, and the ids of its elements."""

    def __init__(self, html):
        super().__init__()
        self.addresses, self.ids = [], set()
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and tag != "base":
                self.addresses.append(value)
            elif name in ("id", "name"):
                self.ids.add(value)


def broken_links(pages, root):
    """Links to a file or heading that does not exist, and addresses outside that are not named; without a network."""
    read = {page.resolve(): Links(page.read_text(encoding="utf-8")) for page in pages}
    broken, count = [], 0
    for page, links in read.items():
        for address in links.addresses:
            parts = urlsplit(address)
            if parts.scheme == "data":
                continue
            count += 1
            if parts.scheme or parts.netloc:
                fine = address.startswith(OUTSIDE)
            else:
                target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
                target = target / "index.html" if target.is_dir() and root in target.parents else target
                known = target not in read or not parts.fragment or unquote(parts.fragment) in read[target].ids
                fine = target.exists() and known
            if not fine:
                broken.append(f"{page.name}: {address}")
    return sorted(set(broken)), count


def test_every_link_of_the_site_leads_somewhere(site):
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]  # served at any address
    broken, count = broken_links(pages, site)
    assert broken == [] and count > 5000


def test_every_link_of_the_readme_leads_somewhere():
    """As a browser sees it, in the folder of the repository."""
    from markdown_it import MarkdownIt

    page = ROOT / "README.md"
    html = MarkdownIt("commonmark").enable("table").render(page.read_text(encoding="utf-8"))
    addresses = Links(html).addresses
    assert len(addresses) > 30
    for address in addresses:
        path = unquote(urlsplit(address).path)
        assert address.startswith(OUTSIDE) or (path and (ROOT / path).exists()), address


def test_a_broken_link_is_found(tmp_path):
    """The checker sees a missing file, a missing heading and an address that is not named."""
    (tmp_path / "a.html").write_text('<h1 id="one"></h1><a href="b.html#two"></a><a href="c.html"></a>')
    (tmp_path / "b.html").write_text('<a href="a.html#one"></a><img src="https://captious.example/x.png">')
    broken, count = broken_links(sorted(tmp_path.glob("*.html")), tmp_path)
    assert broken == ["a.html: b.html#two", "a.html: c.html", "b.html: https://captious.example/x.png"] and count == 4


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


def test_search_for_cider_json_finds_the_tutorial(site, chromium):
    """In the search box of the site, served as on a web server."""
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab = chromium.new_page()
        tab.goto(f"http://127.0.0.1:{server.server_port}/index.html", wait_until="networkidle")
        tab.keyboard.press("/")
        tab.keyboard.type("CIDEr JSON")
        first = tab.locator(".md-search-result__link").first
        first.wait_for(state="attached")
        found = first.get_attribute("href")
        tab.close()
        server.shutdown()
    assert "/tutorial.html" in found


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        """Print nothing."""


def test_the_navigation_is_short():
    nav = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), yaml.SafeLoader)["nav"]
    assert len(nav) <= 4

    def longest(entries):
        inner = [
            longest(value)
            for one in entries
            if isinstance(one, dict)
            for value in one.values()
            if isinstance(value, list)
        ]
        return max([len(entries), *inner])

    assert longest(nav) <= 11


@pytest.mark.parametrize("page", ["index", "results/leaderboard", "reference/api/index", "reference/api/compat"])
def test_a_page_is_not_endless(site, chromium, page):
    tab = chromium.new_page(viewport={"width": 1400, "height": 900})
    tab.goto((site / f"{page}.html").as_uri())
    height, width = tab.evaluate("[document.documentElement.scrollHeight, document.documentElement.scrollWidth]")
    tab.close()
    assert height < 8000 and width <= 1400


def test_the_page_of_a_metric_has_its_formula_and_its_paper(site):
    page = (site / "reference/metrics/cider.html").read_text(encoding="utf-8")
    assert "<math" in page and "<mtext>CIDEr-D</mtext>" in page
    assert "https://doi.org/10.1109/CVPR.2015.7299087" in page and "vedantam2015cider" in page


@pytest.mark.parametrize("name", [name for name, added in entries()["metrics"].items() if "formula" in added])
def test_a_formula_is_on_the_page_once(name):
    """Typeset, in place of the lines that a terminal prints."""
    card = (CARDS / f"{name}.md").read_text(encoding="utf-8")
    printed = re.search(r"(?:^    \S.*\n)+", card.partition("```")[0], re.M)
    page = metric_page(name, card)
    assert page.count('<div class="formula">') >= 1
    assert printed is None or (printed[0] not in page and page.index("formula") >= printed.start())


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
    papers, metrics, audits = (entries()[name] for name in ("papers", "metrics", "audits"))
    metrics = {name: one for name, one in metrics.items() if "paper" in one}
    assert {name for name in METRICS if get_metric_class(name).citation} == set(metrics)
    assert {one["paper"] for one in (*metrics.values(), *audits.values())} == set(papers)
    assert all({"doi", "eprint", "url"} & set(paper) for paper in papers.values())


def test_papers_have_the_names_of_all_authors():
    for key, paper in entries()["papers"].items():
        authors = paper["author"].split(" and ")
        assert all(re.fullmatch(r"[^,]+, [^,]+", name) for name in authors), key
        assert authors[0].partition(",")[0].lower().replace("-", "") in key, key
        assert {"title", "year"} <= set(paper) and str(paper["year"]) in key


def test_the_page_on_citing_has_every_paper(site):
    page = (site / "cite.html").read_text(encoding="utf-8")
    assert all(key in page for key in entries()["papers"]) and "<!-- papers" not in page
    assert "Denkowski and Lavie, 2014" in page and 'href="reference/metrics/spider.html"' in page


def test_captious_is_cited_the_same_everywhere():
    """Without an address, which the project does not have."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == __version__ and not {"url", "repository-code", "repository"} & set(cited)
    for name in ("README.md", "docs/cite.md"):
        (entry,) = re.findall(r"```bibtex\n(@software.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
        fields = dict(re.findall(r"(\w+) *= \{+(.*?)\}+,", entry))
        assert fields["title"] == cited["title"] and fields["version"] == __version__ and "url" not in fields
        assert fields["author"] == cited["authors"][0]["name"]


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
    assert "::: captious._evaluate.evaluate\n" in pages["reference/api/evaluate.md"]
    assert "::: captious.metrics.contract.Metric\n" in pages["reference/api/metrics.md"]
    assert "[`Metric`](metrics.md#captious.metrics.contract.Metric)" in pages["reference/api/index.md"]
    documented = [name for page in pages.values() for name in re.findall(r"^::: (\S+)", page, re.MULTILINE)]
    assert len(documented) == len(set(documented)) > 200
    assert ":::" not in pages["reference/api/index.md"] and not any("/_" in page for page in pages)
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
