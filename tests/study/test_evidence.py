"""The evidence on metrics: the file of the package, its rows, and the tables that show it."""

import json
import re
from dataclasses import asdict, replace

import pytest

from captious.errors import InputError
from captious.study.evidence import EvidenceRow, Leaderboard, get_metric_label, leaderboard, load_evidence

ROW = EvidenceRow(
    dataset="d", kind="ratings", domain="photographs", language="English", caption_words=10.0, references=5.0,
    items=100, statistic="tau_c", metric="cider", signature="cider|…", value=0.5, low=0.4, high=0.6, ranks=(1,),
    source="computed", where="a command", recipe="d", date="2026-01-01",
)  # fmt: skip


def write(path, rows):
    path.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows), encoding="utf-8")
    return path


def test_every_row_of_the_package_says_what_its_source_owes():
    rows = load_evidence()
    assert len(rows) > 200
    assert len({(row.dataset, row.kind, row.statistic, row.metric, row.source, row.where) for row in rows}) == len(rows)
    for row in rows:
        assert row.where and row.date and -1 <= row.value <= 1, row
        if row.source == "printed":
            assert row.ranks is None and row.low is None and row.signature == "", row
        else:
            assert row.low <= row.value <= row.high, row
            assert (row.source == "computed") == bool(row.signature), row
        assert not re.search(r"[=|]/", row.signature) and "site-packages" not in row.signature, row


def test_ranks_of_a_data_set_begin_with_the_best():
    for one in leaderboard().datasets.values():
        ranked = sorted((row for row in one if row.ranks is not None), key=lambda row: -row.value)
        numbers = {rank for row in ranked for rank in row.ranks}
        assert numbers == {*range(1, len(numbers) + 1)} and len({row.statistic for row in ranked}) <= 1
        assert not ranked or (1 in ranked[0].ranks and max(numbers) in ranked[-1].ranks)


def test_our_values_are_those_that_papers_print():
    """The README of PAC-S prints three decimals of what captious computes on the same data."""
    rows = load_evidence()
    ours = {(row.dataset, row.statistic, row.metric): row.value for row in rows if row.source == "computed"}
    compared = 0
    for row in rows:
        key = (row.dataset, row.statistic, row.metric)
        if row.source == "printed" and "README of aimagelab/pacscore" in row.where and key in ours:
            assert ours[key] == pytest.approx(row.value, abs=1.1e-4), key
            compared += 1
    assert compared == 20  # five metrics, two taus, two data sets


def test_published_numbers_stand_beside_ours(tmp_path):
    printed = replace(ROW, value=0.51, low=None, high=None, ranks=None, source="printed", where="A 2020, Table 1")
    rows = [
        ROW,
        replace(ROW, metric="rouge", value=0.3, low=0.2, high=0.4, ranks=(2,)),
        replace(ROW, statistic="tau_b", value=0.45, ranks=None),
        printed,
        replace(printed, metric="Polos", value=0.56),
    ]
    board = leaderboard(evidence=write(tmp_path / "e.jsonl", rows))
    (table,) = [section for section in board.document().sections if hasattr(section, "rows")]
    assert [column if isinstance(column, str) else column.name for column in table.columns] == [
        "rank", "metric", "τ-c", "τ-c published", "τ-b", "source",
    ]  # fmt: skip
    cells = [[getattr(cell, "value", cell) for cell in row] for row in table.rows]
    assert cells == [
        ["1", "CIDEr-D", 0.5, 0.51, 0.45, "computed"],
        ["2", "ROUGE-L", 0.3, None, None, "computed"],
        ["–", "Polos", None, 0.56, None, "printed"],
    ]
    assert "published: A 2020, Table 1" in str(board)
    assert json.loads(board.to_json())["rows"][0]["metric"] == "cider"


def test_one_data_set_or_one_metric(tmp_path):
    path = write(tmp_path / "e.jsonl", [ROW, replace(ROW, metric="bleu(n=4)"), replace(ROW, dataset="e")])
    assert {row.dataset for row in leaderboard("d", evidence=path).rows} == {"d"}
    for name in ("bleu", "BLEU-4", "bleu(n=4)"):
        assert [row.metric for row in leaderboard(metric=name, evidence=path).rows] == ["bleu(n=4)"]
    with pytest.raises(InputError, match="dataset='dd', known: d, e"):
        leaderboard("dd", evidence=path)
    with pytest.raises(InputError, match="metric='spice': no evidence, there is some for cider"):
        leaderboard(metric="spice", evidence=path)
    assert repr(Leaderboard((ROW,))) == "<Leaderboard: 1 rows of 1 data sets>"


def test_labels_tell_the_weights():
    assert get_metric_label("clipscore") == "CLIPScore"
    assert get_metric_label("bertscore(weights=org/model)") == "BERTScore (model)"
    assert get_metric_label("fleur(smoothing=none)") == "FLEUR (smoothing=none)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains no evidence"),
        ("{}\n", "row 1: no row of evidence"),
        ("[1]\n", "row 1: no row of evidence"),
        ("{\n", "row 1: no row of evidence"),
        (json.dumps({**asdict(ROW), "value": "high"}) + "\n", "row 1: no row of evidence"),
        (
            json.dumps(asdict(ROW)) + "\n" + json.dumps({**asdict(ROW), "value": float("nan")}) + "\n",
            "row 2: value is nan",
        ),
    ],
)
def test_files_that_are_no_evidence(tmp_path, text, message):
    path = tmp_path / "e.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_evidence(path)


def test_the_best_of_a_selection_is_not_called_first_where_others_are_ahead():
    """CIDEr has the second rank on the first two data sets and shares the first on the third."""
    best = replace(ROW, metric="spice", value=0.6)
    second = replace(ROW, ranks=(2,))
    rows = [best, second, replace(best, dataset="e"), replace(second, dataset="e")]
    rows += [replace(best, dataset="f"), replace(ROW, dataset="f", ranks=(1, 2))]
    board = Leaderboard(tuple(rows))
    assert board.document().answer.startswith(
        "SPICE (spaCy) is in the first rank on 3 of 3 data sets with tests, CIDEr-D on 1."
    )
    assert (
        board.search("cider")
        .document()
        .answer.startswith("CIDEr-D is in the first rank on 1 of 3 data sets with tests. ")
    )
    without = Leaderboard(tuple(row for row in rows if row.dataset != "f"))
    assert without.search("cider").document().answer.startswith("None of these metrics is in the first rank")
    assert [row[2:] for row in board.search("cider").document().sections[0].rows][:2] == [["2", "CIDEr-D"]] * 2
