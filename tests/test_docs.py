"""The code that the documentation shows runs, and its links lead somewhere."""

import doctest
import importlib
import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from markdown.extensions.toc import slugify

ROOT = Path(__file__).resolve().parents[1]
# Outside the site, whose own links its build checks.
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "lab").rglob("*.md"))]


def test_the_example_metric_keeps_its_promise():
    page = (ROOT / "docs/guide/add-a-metric.md").read_text()
    code = re.search(r"```python\n(\"\"\"How many.*?)```", page, re.DOTALL)[1]
    namespace = {"__name__": "example"}
    exec(code, namespace)
    tests = doctest.DocTestFinder().find(namespace["Length"], globs=namespace)
    runner = doctest.DocTestRunner()
    assert sum(runner.run(test).attempted for test in tests) == 1
    assert runner.failures == 0


def test_the_guide_shows_the_files_of_the_package_that_is_tested():
    page = (ROOT / "docs/guide/metric-packages.md").read_text()
    shown = re.findall(r"```(?:python|toml)\n(.*?)```", page, re.DOTALL)
    names = ("rare_words.py", "pyproject.toml", "test_rare_words.py")
    assert shown == [(ROOT / "tests/plugin/rare_words" / name).read_text() for name in names]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def anchors(page):
    """The ends of addresses that the site gives the headings of a page."""
    return {slugify(heading, "-") for heading in re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)}


FOREIGN = re.compile(r"github\.com/captious|captious\.github\.io|githubusercontent\.com/captious")


def test_links_of_the_readme_are_relative():
    """They work in a clone and on any host, and lead to files and headings that exist."""
    text = re.sub(r"```.*?```", "", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) > 30
    for target in targets:
        assert "://" not in target, target
        name, _, anchor = target.partition("#")
        assert (ROOT / name).exists(), target
        assert not anchor or anchor in anchors(ROOT / name), target


def test_no_page_names_an_address_that_is_not_ours():
    """An account and a site of the project's name belong to somebody else."""
    files = [ROOT / name for name in ("README.md", "pyproject.toml", "mkdocs.yml", "CITATION.cff", "SECURITY.md")]
    for file in [*files, *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.*")]:
        assert not FOREIGN.search(file.read_text(encoding="utf-8")), file


DOCUMENTED = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))


def code_of(page):
    """What a page shows as Python: its fenced blocks, or the cells of a notebook."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code")
    return "\n".join(re.findall(r"```(?:python|pycon)\n(.*?)```", text, re.DOTALL))


def import_public(module):
    """Import a package, a module of ``captious.compat``, which replaces a library, or ``captious.testing``."""
    imported = importlib.import_module(module)
    public = hasattr(imported, "__path__") or module.startswith("captious.compat.") or module == "captious.testing"
    assert public, f"{module} is not public"
    return imported


@pytest.mark.parametrize("page", DOCUMENTED + NOTEBOOKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_the_docs_import_is_public(page):
    for module, names in re.findall(r"from (captious[\w.]*) import ([\w, ]+)", code_of(page)):
        package = import_public(module)
        for name in (part.split(" as ")[0].strip() for part in names.split(",")):
            exported = getattr(package, name)
            assert name in dir(package) and not isinstance(exported, ModuleType), f"{module} does not export {name}"
    for module in re.findall(r"import (captious\.[\w.]+)", code_of(page)):
        import_public(module)
