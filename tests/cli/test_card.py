"""The pages in docs/reference/metrics are the cards of the code."""

from pathlib import Path

import pytest

from captious.cli.cards import format_card
from captious.metrics.registry import METRICS, get_metric_class

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics"


@pytest.mark.parametrize("name", METRICS)
def test_the_page_of_each_metric_is_up_to_date(name):
    page = DOCS / f"{name}.md"
    assert page.read_text(encoding="utf-8") == format_card(get_metric_class(name)), (
        f"run: captious metrics {name} --markdown > {page}"
    )


def test_no_page_is_left_over():
    assert {path.stem for path in DOCS.glob("*.md")} == {"index", *METRICS}


def test_the_list_of_metrics_links_every_card():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert [name for name in METRICS if f"[`{name}`]({name}.md)" not in text] == []


def test_a_card_tells_what_the_metric_is():
    text = format_card(get_metric_class("cider"))
    assert text.startswith("# cider\n\nCIDEr-D: tf-idf weighted n-gram similarity")
    assert "| needs | references |" in text and "| range | 0 to 10 |" in text
    assert "| `variant` | `d` | `d`, `plain` |" in text
    assert text.count("```") == 2
