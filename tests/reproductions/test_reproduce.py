"""Published numbers beside computed ones: entries, tolerances, misses, what cannot be run, and the command."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from captious.cli.app import build_app
from captious.errors import InputError
from captious.render import Table
from captious.reproductions import PublishedEntry, PublishedRow, PublishedTable, find_entry, list_entries, reproduce

PERFECT = {"1": "a red bus on the street", "2": "two dogs play on the grass"}
REFERENCES = {key: [text, "something else entirely"] for key, text in PERFECT.items()}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "refs.json").write_text(json.dumps(REFERENCES))
    (tmp_path / "all.json").write_text(json.dumps({"ours": {"captions": PERFECT}}))
    return tmp_path


def make_entry(published, **fields):
    row = PublishedRow("ours", {"BLEU-4": published}, "all.json#ours#captions", **fields)
    table = PublishedTable("Table 1", {"BLEU-4": "bleu(n=4)"}, (row,), references="refs.json")
    return PublishedEntry("toy", "A toy", (table,), source="nowhere")


def run(*arguments):
    return CliRunner().invoke(build_app(), ["reproduce", *map(str, arguments)])


@pytest.mark.parametrize(
    ("published", "verdict"),
    # A caption that equals a reference has BLEU-4 = 1, so 100; one printed decimal allows half a tenth.
    [(100.0, "reproduced"), (99.95, "reproduced"), (99.9, "missed"), (100.1, "missed")],
)
def test_a_number_is_reproduced_if_it_rounds_to_the_printed_digits(folder, published, verdict):
    (cell,) = reproduce(make_entry(published), folder).cells
    assert cell.computed == pytest.approx(100, abs=1e-6) and cell.items == 2
    assert cell.difference == pytest.approx(100 - published, abs=1e-6) and cell.verdict == verdict


def test_tolerances_and_standard_deviations_of_an_entry(folder):
    assert reproduce(make_entry(98.0, within=2.0), folder).exit_code == 0
    assert reproduce(make_entry(98.0, sd={"BLEU-4": 1.0}), folder).exit_code == 0
    assert reproduce(make_entry(97.9, sd={"BLEU-4": 1.0}), folder).exit_code == 1


def test_a_miss_has_its_reason_and_the_answer_comes_first(folder):
    result = reproduce(make_entry(90.0, reasons={"BLEU-4": "a misprint"}), folder)
    assert result.exit_code == 1 and result.cells[0].reason == "a misprint"
    start = "A toy toy: 0 of 1 published numbers are reproduced; 1 is missed, by most ours, BLEU-4 (90.0 published"
    assert " ".join(str(result).split()).startswith(start)


def test_a_row_without_its_file_is_not_run_and_the_others_are(folder):
    entry = make_entry(100.0)
    absent = PublishedRow("theirs", {"BLEU-4": 1.0}, "theirs.json")
    table = entry.tables[0]
    both = PublishedEntry(
        "toy", "A toy", (PublishedTable(table.title, table.columns, (*table.rows, absent), references="refs.json"),)
    )
    result = reproduce(both, folder)
    assert [cell.verdict for cell in result.cells] == ["reproduced", "not run"] and result.exit_code == 0
    assert result.cells[1].reason.startswith("no theirs.json (captions) in ")
    with pytest.raises(InputError, match=r"no number of toy could be run: no theirs\.json \(captions\) in [^;]*$"):
        reproduce(both, folder, only="theirs")
    with pytest.raises(InputError, match=r"; get the files of toy from: nowhere$"):
        reproduce(replace(both, source="nowhere"), folder, only="theirs")


def test_items_without_a_caption_are_counted_beside_those_that_have_one(folder):
    entry = make_entry(100.0)
    (folder / "refs.json").write_text(json.dumps({**REFERENCES, "3": ["a third picture"]}))
    table = replace(entry.tables[0], reading={"missing": "skip"})
    result = reproduce(replace(entry, tables=(table,)), folder)
    assert result.cells[0].left_out == 1 and "2 of 3" in str(result)


def test_tables_that_were_not_run_are_one_line_for_each_reason(folder):
    entry = make_entry(100.0)
    absent = replace(entry.tables[0], title="Table 2", references="none.json")
    other = replace(absent, title="Table 3")
    result = reproduce(replace(entry, tables=(*entry.tables, absent, other)), folder)
    assert "Tables that were not run • Table 2; Table 3: no none.json (references) in " in " ".join(str(result).split())
    # The rows are on the page and in the files, not on the terminal.
    assert [one.detail for one in result.document().sections if isinstance(one, Table)] == [False, True, True]


def test_where_a_printed_number_was_read_is_no_reason_of_a_miss(folder):
    (cell,) = reproduce(make_entry(100.0, origin="a thread"), folder).cells
    assert cell.reason == "" and cell.origin == "a thread"
    assert "reproduced; printed number read in a thread" in " ".join(
        str(reproduce(make_entry(100.0, origin="a thread"), folder)).split()
    )


def test_a_study_takes_metrics_or_columns_of_a_file_of_scores(folder):
    rows = [
        {"id": key, "caption": "x", "references": ["x"], "rating": rating, "image": key}
        for key, rating in zip("abcd", (1, 2, 3, 4), strict=True)
    ]
    (folder / "ratings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "scores.csv").write_text("id,mine,other\na,1,4\nb,2,3\nc,4,2\nd,3,1\n")
    mine = PublishedRow("Mine", {"τ": 0.667}, metric="mine")
    options = {"ratings": "ratings.jsonl", "scores": "scores.csv", "scale": 1.0, "decimals": 3}
    table = PublishedTable("T", {"τ": "tau_b"}, (mine,), "study", **options)
    (cell,) = reproduce(PublishedEntry("s", "S", (table,)), folder).cells
    # one of six pairs is in the wrong order: (5 - 1) / 6
    assert cell.computed == pytest.approx(4 / 6) and cell.verdict == "reproduced"


def test_an_entry_in_toml_and_the_exit_codes(folder):
    text = """
title = "Mine"
[[tables]]
title = "Table 2"
references = "refs.json"
columns = { BLEU-1 = "bleu(n=1)" }
[[tables.rows]]
name = "ours"
file = "all.json#ours#captions"
published = { BLEU-1 = 100.0 }
"""
    (folder / "mine.toml").write_text(text)
    done = run(folder / "mine.toml", "--data", folder, "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["reproduced"] == 1
    (folder / "mine.toml").write_text(text.replace("= 100.0", "= 42.0"))
    done = run(folder / "mine.toml", "--data", folder)
    assert done.exit_code == 1 and "mine: 0 of 1 published numbers are reproduced" in done.stdout
    (folder / "mine.toml").write_text(text.replace("published = { BLEU-1", "published = { BLEU-4"))
    done = CliRunner().invoke(build_app(), ["reproduce", str(folder / "mine.toml"), "--data", str(folder)])
    assert isinstance(done.exception, InputError) and "no column 'BLEU-4', columns: BLEU-1" in str(done.exception)


def test_the_list_and_names_that_are_none():
    done = run()
    assert done.exit_code == 0 and "magic" in done.stdout and "relic" in done.stdout
    with pytest.raises(InputError, match=r"no such entry, .*did you mean 'magic'"):
        find_entry("magik")
    with pytest.raises(InputError, match="no such entry"):
        find_entry("../entries/magic")


def test_every_built_in_entry_says_where_its_files_are():
    entries = list_entries()
    assert all(entry.source and entry.citation and entry.numbers for entry in entries.values())
    # RELIC: 26 rows of captioners, three classifiers, three numbers each; and three numbers of images.
    assert entries["relic"].numbers == 26 * 3 * 3 + 3


def test_relic_has_the_printed_lic_and_not_a_difference():
    rows = {(table.title, row.name): row.published for table in find_entry("relic").tables for row in table.rows}
    equalizer = rows["Table 1: gender, the LSTM", "NIC+Equalizer"]
    assert equalizer == {"LIC_M": 51.5, "LIC_D": 39.4, "LIC": 12.2}  # relic-lic.txt, line 218


def test_relic_reads_the_captions_of_nic_that_its_lstm_script_reads():
    files = {
        (table.title, row.name): (row.metric, row.file) for table in find_entry("relic").tables for row in table.rows
    }
    # LIC_M of ten LSTMs is 44.9 with the captions of the other scripts and 42.8 with these; 42.4 ± 0.8 is printed.
    assert files["Table 1: gender, the LSTM", "NIC"] == ("nic", "gender/nic_th10.jsonl.gz")
    assert files["Table 1: gender, BERT, fine-tuned", "NIC"] == ("nic", "gender/nic.jsonl.gz")


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "folder", "only", "reproduced", "missed"),
    [
        ("magic", "magic", "as its authors", 7, 0),
        ("capeval1k", "umic", "", 1, 0),
        ("tifa160", "tifa160", "", 20, 0),
        ("fleur", "flickr8k", "", 1, 0),
        ("realsumm", "summarization", "", 0, 10),
        ("relic", "lic", "number of images", 2, 1),
        ("pope", "chair", "MiniGPT-4, short", 2, 0),
        ("mdvc", "mdvc_dense", "", 2, 0),
        # BLEU of Greek and French is printed without the brevity penalty.
        ("multicaptioneval", "multilingual", "English tokenizer", 8, 4),
    ],
)
def test_released_outputs(shared_data, name, folder, only, reproduced, missed):
    result = reproduce(name, shared_data / folder, only=only)
    assert (result.count("reproduced"), result.count("missed")) == (reproduced, missed)
    if name == "magic":
        # The README beside the data: 4,982 of the 5,000 images of the Karpathy test split.
        assert {cell.describe_items() for cell in result.cells} == {"4,982 of 5,000"}


@pytest.mark.shared_data
def test_summary_level_of_realsumm(shared_data):
    cells = {
        (cell.row, cell.column): cell.computed for cell in reproduce("realsumm", shared_data / "summarization").cells
    }
    # Computed beside the data with scipy from the same stored scores.
    for row, value in (("ROUGE-1 recall", 0.4970), ("ROUGE-2 recall", 0.4211), ("ROUGE-L recall", 0.4789)):
        assert cells[row, "Spearman"] == pytest.approx(value, abs=6e-5)
    assert cells["BERTScore recall", "Spearman"] == pytest.approx(0.4405, abs=6e-5)
    assert cells["ROUGE-1 recall", "τ-b"] == pytest.approx(0.4064, abs=6e-5)
