"""A document with one of everything, and the result that shows it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType

import numpy as np
import pytest

from captious.render import (
    Cell,
    Chart,
    Column,
    Document,
    Entry,
    Gallery,
    Group,
    ItemMetric,
    Items,
    Line,
    Meter,
    Phrase,
    Picture,
    Result,
    Series,
    Span,
    Table,
    Text,
    link,
)

NAN = float("nan")
NASTY = "<script>alert(1)</script></script><!-- title --><b onclick=x>"
IDS = ("good", "fair", "bad", "nasty")
TEXTS = ("a brown dog runs on the grass", "a cat sits on a red chair", "zebra umbrella piano", NASTY)
REFERENCES = (
    ("a brown dog runs on the grass", "the dog is running"),
    ("a cat is sleeping", "the cat on the red chair"),
    ("two men play tennis",),
    ("some <b>code</b> on a screen",),
)


@pytest.fixture
def samples() -> ModuleType:
    """The functions below."""
    return sys.modules[__name__]


def scores() -> Table:
    """Metrics in rows, with intervals."""
    columns = ["metric", Column("value", level=0.95, bold=True, bar=True), Column("unscored")]
    rows = [
        (link("BLEU-4", "#sort=bleu"), Cell(0.31415926, 0.30, 0.33, limits=(0.0, 1.0)), 0),
        (link("CIDEr", "#sort=cider"), Cell(1.0456789, 0.98, 1.11, limits=(0.0, 10.0)), 1234),
        ("SPICE", Cell(NAN), None),
    ]
    return Table("scores", "Scores", columns, rows, "Bars show the value and its interval.")


def systems() -> Table:
    """Systems in rows: best values, marks, ± half widths, standard deviations, p-values."""
    columns = [
        "system",
        Column("CIDEr", higher_is_better=True, spread="half"),
        Column("mBLEU", higher_is_better=False),
        Column("LIC", decimals=1, signed=True),
        Column("p", "p"),
    ]
    rows = [
        ("a^b\\~", Cell(1.02, 1.0, 1.04), 0.5, Cell(-1.25, sd=0.5), 0.2),
        ("[mini] & 50%_#{}$", Cell(1.10, 1.08, 1.12, mark="†"), 0.4, Cell(2.25, sd=0.5), 0.00001),
        ("* τ-b", Cell(NAN, mark=""), NAN, NAN, NAN),
    ]
    return Table("systems", "Systems", columns, rows, "† differs from the first.", breaks=(2,))


def wide() -> Table:
    """More columns than a terminal has room for."""
    columns = ["metric", *(Column(f"statistic {number}", decimals=5, level=0.99) for number in range(9))]
    rows = [(f"metric {row}", *(Cell(row + k / 7, row + k / 8, row + k / 6) for k in range(9))) for row in range(3)]
    return Table("wide", "Wide", columns, rows)


def charts() -> list[Chart]:
    """One chart of each kind."""
    names, rng = ("short", "long caption of an unusual length that is cut", "c"), np.random.default_rng(0)
    x, y = rng.integers(1, 6, 400).astype(float), rng.random(400)
    return [
        Chart(
            "intervals",
            [Series("g", names, (0.1, 0.5, NAN), (0.05, NAN, NAN), (0.2, NAN, NAN), (True, False, False))],
            "Forest",
            "Whiskers: 95% intervals",
            reference=0.0,
            reference_name="no difference",
            decimals=3,
            bands=(1, 1, 2),
        ),
        Chart("dots", [Series("model", ("m",) * 3, (1, 2, 3)), Series("people", ("m",) * 3, (2, 3, 4))], "Seeds"),
        Chart("bars", [Series("", ("dog", "cat"), (3.0, -1.0))], "Words"),
        Chart("lines", [Series(n, ("1", "2", "3"), (1, NAN, 2), (0, 0, 1), (2, 2, 3)) for n in "ab"], "Lines", y="τ"),
        Chart("lines", [Series("loss", (0, 10, 20), (3.0, 2.0, 1.5))], "Loss", x="step"),
        Chart("scatter", [Series("s", x.tolist(), (x + y).tolist(), labels=["<i>"] * 400)], "Scatter", x="mean rating"),
        Chart("histogram", [Series("s", [0.0, 0.5, 1.0], [3, 0], labels=["<b>", "none"])], "Histogram", y="items"),
    ]


def items(**changes: object) -> Items:
    """Four items of two systems and two metrics."""
    values = [[np.array([1.0, 0.5, 0.0, 0.2]), np.array([2.0, 1.0, 0.0, NAN])]] * 2
    content = {
        "ids": IDS,
        "metrics": (ItemMetric("rouge", "ROUGE-L", True, (0, 1)), ItemMetric("cider(idf=refs)", "CIDEr", True)),
        "systems": ("one", "two"),
        "values": values,
        "texts": [[(text,) for text in TEXTS]] * 2,
        "references": REFERENCES,
        "reasons": [[{}, {"nasty": "no references"}]] * 2,
        "fields": {"style": ["plain"] * 4, "none": [None] * 4},
        **changes,
    }
    return Items(**content)


def gallery() -> Gallery:
    """Texts with pictures and meters."""
    pixels = np.full((64, 64, 3), (200, 30, 30), np.uint8)
    line = Line("a red car", "text", (Picture(pixels, "seed 1", "pictures/00000.png"), Picture(None, "not painted")))
    entry = Entry(
        "id <7>", (line,), Picture(pixels), ("gap 31 %",), (Meter("people", 0.8, "mean 4.2"),), ("the red car",)
    )
    return Gallery("Pictures", (entry,), "The least alike first.")


@dataclass(frozen=True, repr=False)
class Sample(Result):
    """A result that shows whatever sections it is made of."""

    sections: list = field(default_factory=lambda: [scores()])
    title: str = "captions.json: 4 items"
    data: dict = field(default_factory=dict)
    warnings: tuple = ()

    def __repr__(self) -> str:
        return f"Sample({len(self.sections)} sections)"

    def document(self) -> Document:
        return Document(
            self.title,
            "Two systems on four items.",
            self.sections,
            warnings=self.warnings,
            notes=("4 items",),
            signatures=("cider|idf:refs|captious:1",),
            data=self.data,
        )


def everything() -> Sample:
    """One of each section."""
    words = Phrase.of("why: ", Span("dog", "good", 0.8), " ", Span("the", "bad", 0.3), " ", Span("cat", "struck"))
    return Sample(
        [
            scores(),
            systems(),
            Text((words, NASTY), "Words"),
            *charts(),
            Group("Evidence", (Table("ngrams", "n-grams", ["n-gram", Column("adds", signed=True, bar=True)],
                                     [("a dog", 0.5), ("the", -0.2)], detail=True),
                               Text(("a leak",), "Leaks", bullets=True))),
            gallery(),
            wide(),
            items(),
        ],
        warnings=tuple(f"warning {number} {NASTY}" for number in range(7)),
    )  # fmt: skip
