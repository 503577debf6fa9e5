"""The code that the documentation shows runs, and its links lead somewhere."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "lab").rglob("*.md"))]
"""Outside the site, whose own links its build checks."""


def test_the_example_metric_keeps_its_promise():
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs/guide/add-a-metric.md").read_text(), re.DOTALL)[1]
    namespace = {"__name__": "example"}
    exec(code, namespace)
    tests = doctest.DocTestFinder().find(namespace["Length"], globs=namespace)
    runner = doctest.DocTestRunner()
    assert sum(runner.run(test).attempted for test in tests) == 1
    assert runner.failures == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
