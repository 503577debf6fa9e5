"""One odd caption never stops a file: it is cleaned or left out, counted, and the option that decides is named."""

import csv
import gzip
import json
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.merging import measure_parts

import captious
from captious.errors import InputError
from captious.io.check import check
from captious.io.read import read
from captious.options import Reading

SKIP = Reading(missing="skip")
TEXTS = {str(number): f"a dog number {number} runs" for number in range(20)}
REFERENCES = {key: [f"{text} fast", "a dog"] for key, text in TEXTS.items()}


def refused(source, **options):
    with pytest.raises(InputError) as error:
        read(source, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def warnings_of(check_result):
    return [finding.message for finding in check_result.findings if finding.level == "warning"]


@pytest.mark.parametrize("odd", ["a cat\0 sits", "a cat\x07 sits", "a \ud83dcat sits", "a cat sits\x7f"])
def test_control_characters_and_halves_of_characters_are_removed_and_counted(odd):
    captions = read({**TEXTS, "3": odd}, references=REFERENCES)
    assert captions["3"].candidates == ("a cat sits",) and len(captions) == 20
    assert captions.origin.cleaned == 1
    assert captions.origin.remarks == (
        "captions: control characters and halves of characters were removed from 1 text (id '3')",
    )
    report = captious.evaluate(captions, "rouge")
    assert "|cleaned:1|" in report["rouge"].signature.__str__()
    assert any("removed from 1 text (id '3')" in warning for warning in report.warnings)


@pytest.mark.parametrize("name", ["p.jsonl", "p.json"])
@pytest.mark.parametrize(
    "odd", [None, {}, {"id": "z"}, {"caption": "a dog"}, {"id": "z", "caption": "a\0b"}, {"id": None, "caption": "a"}]
)
def test_a_row_that_cannot_be_used_names_the_option_that_skips_it(tmp_path, name, odd):
    rows = [{"id": key, "caption": text} for key, text in TEXTS.items()]
    rows.insert(7, odd)
    path = tmp_path / name
    path.write_text(json.dumps(rows) if name == "p.json" else "".join(json.dumps(row) + "\n" for row in rows))
    assert f"{path}: {'entry' if name == 'p.json' else 'row'} 8: " in (message := refused(path))
    assert "reading=Reading(missing='skip')" in message
    captions = read(path, reading=SKIP)
    assert captions.ids == tuple(TEXTS) and captions.skipped == 1


@pytest.mark.parametrize(
    ("name", "line", "reason"),
    [
        ("p.jsonl", '{"id": "z", "cap', "not valid JSON"),  # a program that was killed and resumed
        ("p.jsonl", '["z", "a cat"]', "is list"),
        ("p.csv", "z,a cat, and a dog", "has 3 cells"),
        ("p.tsv", "z", "has 1 cells"),
    ],
)
def test_a_line_that_cannot_be_parsed_may_be_skipped(tmp_path, name, line, reason):
    if name == "p.jsonl":
        lines = [json.dumps({"id": key, "caption": text}) for key, text in TEXTS.items()]
    else:
        comma = "," if name == "p.csv" else "\t"
        lines = [comma.join(row) for row in [("id", "caption"), *TEXTS.items()]]
    lines.insert(7, line)
    path = tmp_path / name
    path.write_text("\n".join(lines))
    message = refused(path)
    assert f"{path}: row 8: {reason}" in message and message.endswith(
        "pass reading=Reading(missing='skip') to leave it out"
    )
    assert sum(reason in finding.message for finding in check(path).errors) == 1
    captions = read(path, references=REFERENCES, reading=SKIP)
    assert captions.ids == tuple(TEXTS) and captions.skipped == 1
    assert captions.origin.remarks == (f"{path}: 1 left out: {reason} (row 8)",)
    assert "|skipped:1|" in str(captious.evaluate(captions, "rouge")["rouge"].signature)


def test_white_space_is_no_control_character():
    captions = read({"1": "a\tdog\x0bruns\r\nfast"})
    assert captions["1"].candidates == ("a\tdog\x0bruns\r\nfast",) and not captions.origin.cleaned


@pytest.mark.parametrize("name", ["p.jsonl", "p.json", "p.csv", "p.tsv", "p.txt"])
@pytest.mark.parametrize("written", ["raw", "escaped"])
def test_a_null_character_in_a_file_costs_no_caption(tmp_path, name, written):
    path, rows = tmp_path / name, [{"id": key, "caption": text} for key, text in TEXTS.items()]
    rows[3]["caption"] = "a cat\0 sits"
    if name == "p.jsonl":
        text = "".join(json.dumps(row) + "\n" for row in rows)
    elif name == "p.json":
        text = json.dumps(rows)
    elif name == "p.txt":
        text = "".join(f"{row['caption']}\n" for row in rows)
    else:
        comma = "," if name == "p.csv" else "\t"
        text = f"id{comma}caption\n" + "".join(f"{row['id']}{comma}{row['caption']}\n" for row in rows)
    path.write_bytes((text if written == "escaped" else text.replace("\\u0000", "\0")).encode())
    captions = read(path)
    assert captions["3"].candidates == ("a cat sits",) and len(captions) == 20
    assert captions.origin.cleaned == 1


@pytest.mark.parametrize("nothing", [None, float("nan"), 7, True, [], ["a", None]])
def test_a_caption_that_is_none_is_reported_with_the_option_that_leaves_it_out(nothing):
    rows = [{"id": key, "caption": text} for key, text in TEXTS.items()]
    rows[3]["caption"] = nothing
    assert "pass reading=Reading(missing='skip') to leave it out" in refused(rows, references=REFERENCES)
    captions = read(rows, references=REFERENCES, reading=SKIP)
    kept = 20 if nothing == ["a", None] else 19
    assert len(captions) == kept and captions.skipped == captions.origin.left_out == 20 - kept
    assert any(remark.startswith("captions: 1 left out: caption is ") for remark in captions.origin.remarks)
    report = captious.evaluate(rows, "rouge", references=REFERENCES, missing="skip")
    assert ("|skipped:1|" in str(report["rouge"].signature)) == (kept == 19)
    assert not any("one side only" in warning for warning in report.warnings)


def test_skipping_works_without_references_and_for_ids_and_references():
    rows = [{"id": 1, "caption": "a dog"}, {"id": 2, "caption": None}, {"id": None, "caption": "a cat"}]
    captions = read(rows, reading=SKIP)
    assert captions.ids == ("1",) and captions.skipped == 2
    assert read(["a dog", None, "a cat"], references=[["dogs"], ["x"], ["cats"]], reading=SKIP)["2"].references == (
        "cats",
    )
    captions = read({"1": "a dog", "2": "a cat"}, references={"1": ["dogs", None], "2": [None]}, reading=SKIP)
    assert captions.ids == ("1",) and captions["1"].references == ("dogs",) and captions.skipped == 1


def test_where_nothing_is_left_the_reason_is_said():
    assert refused([{"id": 1, "caption": None}], reading=SKIP) == (
        "captions: contains no captions that can be used: caption is null"
    )


def test_nulls_of_parquet_and_missing_cells_of_pandas_are_left_out(tmp_path):
    import pandas as pd

    pq.write_table(pa.table({"id": ["1", "2"], "caption": ["a dog", None]}), tmp_path / "p.parquet")
    assert read(tmp_path / "p.parquet", reading=SKIP).ids == ("1",)
    frame = pd.DataFrame({"id": ["1", "2"], "caption": ["a dog", float("nan")]})
    assert read(frame, reading=SKIP).ids == ("1",)


def test_a_file_in_utf16_is_named_as_such(tmp_path):
    path = tmp_path / "p.csv"
    path.write_bytes("id,caption\n1,a dog\n".encode("utf-16-le"))
    assert "is it UTF-16, or no text at all? UTF-16 is converted by: iconv -f UTF-16LE" in refused(path)
    assert "contains a null character, expected text; is it UTF-16" in refused({"1": "a\0 \0d\0o\0g\0"})


def test_cells_of_any_length_are_read_and_the_limit_of_the_module_is_left_alone(tmp_path):
    text, before = "word " * 40_000, csv.field_size_limit()
    (tmp_path / "p.csv").write_text(f"id,caption\n1,{text}\n2,a dog\n")
    assert len(read(tmp_path / "p.csv")["1"].candidate) == 200_000
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_of_csv_are_recognized(tmp_path, separator):
    path = tmp_path / "p.csv"
    path.write_text(f'id{separator}caption\n1{separator}"a dog, a cat"\n2{separator}a bird\n')
    assert read(path)["1"].candidates == ("a dog, a cat",)


def test_latin1_is_refused_with_the_way_to_convert_it(tmp_path):
    (tmp_path / "p.csv").write_bytes("id,caption\n1,a café\n".encode("latin-1"))
    assert "iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW" in refused(tmp_path / "p.csv")


@pytest.mark.parametrize("text", ["", " ", "\u200b", "\ufeff\u200d ", "\u2060\u00ad"])
def test_captions_that_nobody_sees_are_empty(text):
    captions = read({**TEXTS, "3": text}, references=REFERENCES)
    assert captions.candidates.blank.tolist() == [key == "3" for key in TEXTS]
    assert any("1 empty candidate caption (id 3)" in one for one in warnings_of(check({**TEXTS, "3": text})))


@pytest.mark.parametrize("empty", ["", [""], ["", "a dog"], "\u200b"])
def test_an_empty_reference_is_said_by_score_too(empty):
    references = {**REFERENCES, "3": empty}
    report = captious.evaluate(TEXTS, "rouge", references=references)
    assert any(one.startswith("1 empty reference caption (id 3)") and "kept" in one for one in report.warnings)


def test_a_missing_value_that_was_written_as_text_is_said_by_score():
    """`DataFrame.astype(str)` writes nan and None into cells."""
    captions = read(
        {**TEXTS, "3": "nan", "5": "None", "6": "a nan bread"}, references={**REFERENCES, "7": ["a dog", "NA"]}
    )
    warnings = captious.evaluate(captions, "rouge").warnings
    assert (
        "2 candidate captions (id 3, 5) with only the text 'nan': scored as words; is it a missing value?" in warnings
    )
    assert "1 reference caption (id 7) with only the text 'NA': scored as words; is it a missing value?" in warnings


def test_line_breaks_are_counted_by_score():
    report = captious.evaluate({**TEXTS, "3": "a dog\r\nruns", "4": "a cat\nsits", "5": "a bird\n"}, "distinct_n")
    assert any(one.startswith("2 candidate captions (id 3, 4) with a line break inside") for one in report.warnings)
    references = {**REFERENCES, "3": ["a dog\nruns"]}  # as some of COCO's are, which every program reads alike
    assert not any("line break" in one for one in captious.evaluate(TEXTS, "rouge", references=references).warnings)
    references = {**REFERENCES, "3": ["a dog\r\nruns"]}
    assert any("line break" in one for one in captious.evaluate(TEXTS, "rouge", references=references).warnings)


def sheet(path, cells):
    """An XLSX file with one column of ids and one of cells, given as XML."""
    rows = ['<row><c t="inlineStr"><is><t>id</t></is></c><c t="inlineStr"><is><t>caption</t></is></c></row>']
    rows += [f"<row><c><v>{number}</v></c>{cell}</row>" for number, cell in enumerate(cells, start=1)]
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        content = f'<worksheet xmlns="{space}"><sheetData>{"".join(rows)}</sheetData></worksheet>'
        archive.writestr("xl/worksheets/sheet1.xml", content)
    return path


GOOD = '<c t="inlineStr"><is><t>a dog</t></is></c>'


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ('<c t="e"><v>#REF!</v></c>', "row 3 (#REF! in caption): caption is null (None), expected a string; pass"),
        ('<c t="b"><v>1</v></c>', "row 3: caption is a boolean (True), expected a string; pass"),
    ],
)
def test_error_cells_and_booleans_of_a_spreadsheet_are_no_captions(tmp_path, cell, message):
    path = sheet(tmp_path / "p.xlsx", [GOOD, cell])
    assert message in refused(path)
    captions = read(path, reading=SKIP)
    assert captions.ids == ("1",) and captions.skipped == 1


def test_a_damaged_spreadsheet_is_one_line(tmp_path):
    path = sheet(tmp_path / "p.xlsx", [GOOD] * 200)
    content = bytearray(path.read_bytes())
    content[60:90] = bytes(30)
    path.write_bytes(content)
    assert "not a whole XLSX file" in refused(path)


def test_a_compressed_file_may_not_become_anything(tmp_path):
    path = tmp_path / "p.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"1": "dog " * 1_000_000}).encode()))  # 4 MB in 4 kB
    limited = Reading(unpack_limit=1)
    message = refused(path, reading=limited)
    assert "more than 1 MiB, expected captions; pass reading=Reading(unpack_limit=4), or unpack it first" in message
    assert len(read(path, reading=Reading(unpack_limit=4))["1"].candidate) == 4_000_000
    assert "unpack to more than 1 MiB" in refused(TEXTS, references=path, reading=limited)


def test_text_that_shrinks_as_text_does_is_never_too_large(tmp_path):
    import random

    draw = random.Random(0)
    text = "".join(draw.choice("abcdefgh ") for _ in range(3_000_000))
    (tmp_path / "p.json.gz").write_bytes(gzip.compress(json.dumps({"1": text}).encode()))
    assert len(read(tmp_path / "p.json.gz", reading=Reading(unpack_limit=1))["1"].candidate) == 3_000_000


def test_parquet_has_the_same_limit_before_it_is_unpacked(tmp_path):
    path = tmp_path / "p.parquet"
    table = pa.table({"id": ["1", "2"], "caption": ["dog " * 500_000, "cat " * 500_000]})
    pq.write_table(table, path, compression="zstd")
    assert "unpack to more than 1 MiB" in refused(path, reading=Reading(unpack_limit=1))
    assert len(read(path)) == 2


def test_several_members_and_padding_of_gzip_are_read(tmp_path):
    rows = [json.dumps({"id": key, "caption": text}).encode() + b"\n" for key, text in TEXTS.items()]
    (tmp_path / "p.jsonl.gz").write_bytes(b"".join(map(gzip.compress, rows)) + bytes(512))
    assert len(read(tmp_path / "p.jsonl.gz")) == 20


def test_counts_of_shards_in_memory_add_up():
    shards = [read({"1": "a dog\0", "2": "a cat"}), read({"3": "a bird\x01"})]
    assert "|cleaned:2|" in str(measure_parts(shards, "distinct_n(n=1)").signature)
