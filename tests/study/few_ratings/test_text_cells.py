"""A text in a column of numbers is a missing value, and is reported: it does not remove the metric."""

import numpy as np
import pytest

from captious import study
from captious.study.few_ratings._caption_table import read_caption_table

ROWS = [{"id": str(number), "system": "ab"[number % 2], "mine": number % 7, "other": number} for number in range(40)]
RATED = [{"id": row["id"], "image": row["id"], "system": row["system"], "rating": 1 + row["mine"] % 5} for row in ROWS]
REMARK = "captions: entry 4: mine is 'n/a', expected a number: 1 row has no value of mine"


@pytest.fixture
def rows():
    return [{**row, "mine": "n/a"} if row["id"] == "3" else row for row in ROWS]


def test_the_other_values_stay(rows):
    table = read_caption_table(rows)
    assert list(table.values) == ["mine", "other"] and table.remarks == (REMARK,)
    assert np.flatnonzero(np.isnan(table.values["mine"])).tolist() == [3]
    assert table.signatures == {"mine": "mine|computed elsewhere|text_cells:1", "other": "other|computed elsewhere"}
    assert read_caption_table(ROWS).remarks == ()


@pytest.mark.parametrize("odd", [True, "1_000", "٣", ["x"]])
def test_what_is_no_number_is_text(odd):
    table = read_caption_table([{**row, "mine": odd} if row["id"] == "3" else row for row in ROWS])
    assert np.isnan(table.values["mine"][3]) and "row has no value of mine" in table.remarks[0]


def test_a_column_of_text_is_no_metric():
    table = read_caption_table([{**row, "note": "good" if row["other"] % 3 else 1} for row in ROWS])
    assert list(table.values) == ["mine", "other"] and table.remarks == ()


def test_every_question_reports_it(rows):
    audited = study.audit(RATED, rows)
    assert REMARK in audited.warnings and [found.key for found in audited.judges] == ["mine", "other"]
    assert REMARK in study.estimate(RATED, rows, using="mine").warnings
    assert REMARK in study.find_threshold(RATED, rows, metric="mine", good=3).warnings
    assert REMARK in study.choose(rows, 2, using="mine").document().warnings
