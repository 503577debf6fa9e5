"""Every format in, one CaptionSet out; and one clear line for everything that is wrong."""

import csv
import gzip
import io
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captious.errors import InputError
from captious.io import formats, json_layouts
from captious.io.join import gather_candidates, gather_references
from captious.io.read import read
from captious.io.rows import Row
from captious.options import Reading

COCO_RESULTS = [{"image_id": 2, "caption": "a cat"}, {"image_id": 1, "caption": "a dog"}]
COCO_ANNOTATIONS = {
    "images": [{"id": 1, "file_name": "one.jpg"}, {"id": 2, "file_name": "two.jpg"}],
    "annotations": [
        {"id": 10, "image_id": 1, "caption": "the dog"},
        {"id": 11, "image_id": 2, "caption": "one cat"},
        {"id": 12, "image_id": 1, "caption": "dogs"},
    ],
}
REFERENCES = {"1": ["the dog", "dogs"], "2": ["one cat"]}


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def lines(rows):
    return "\n".join(json.dumps(row) for row in rows)


CANDIDATE_FILES = {
    "results.json": json.dumps(COCO_RESULTS),
    "mapping.json": json.dumps({"2": "a cat", "1": "a dog"}),
    "lists.json": json.dumps({"2": ["a cat"], "1": ["a dog"]}),
    "coco_dicts.json": json.dumps({"2": [{"caption": "a cat"}], "1": [{"caption": "a dog"}]}),
    "records.json": json.dumps({"2": {"caption": "a cat"}, "1": {"caption": "a dog"}}),
    "rows.jsonl": lines([{"id": 2, "candidate": "a cat"}, {"id": "1", "candidate": "a dog"}]) + "\n\n",
    "rows_really_lines.json": lines([{"id": 2, "caption": "a cat"}, {"id": "1", "caption": "a dog"}]),
    "table.csv": "id,caption\n2,a cat\n1,a dog\n",
    "table.tsv": "image_id\tcaption\n2\ta cat\n1\ta dog\n",
    "bom.csv": "\ufeffid,caption\n2,a cat\n1,a dog\n",
    "unnamed": json.dumps(COCO_RESULTS),
}


@pytest.mark.parametrize("name", CANDIDATE_FILES)
@pytest.mark.parametrize("zipped", [False, True])
def test_candidates_in_every_format(tmp_path, name, zipped):
    content = CANDIDATE_FILES[name].encode()
    path = put(tmp_path, name + ".gz" * zipped, gzip.compress(content) if zipped else content)
    captions = read(path, references=REFERENCES)
    assert captions.ids == ("2", "1")
    assert captions["1"].candidates == ("a dog",) and captions["1"].references == ("the dog", "dogs")


REFERENCE_FILES = {
    "annotations.json": json.dumps(COCO_ANNOTATIONS),
    "mapping.json": json.dumps(REFERENCES),
    "rows.jsonl": lines([{"id": 1, "references": ["the dog", "dogs"]}, {"id": 2, "references": ["one cat"]}]),
    "single.jsonl": lines(
        [{"id": 1, "caption": "the dog"}, {"id": 2, "caption": "one cat"}, {"id": 1, "caption": "dogs"}]
    ),
    "numbered.csv": "id,reference_1,reference_2\n1,the dog,dogs\n2,one cat,\n",
    "long.csv": "id,reference\n1,the dog\n1,dogs\n2,one cat\n",
    "cells.csv": 'id,references\n1,"[""the dog"", ""dogs""]"\n2,"[""one cat""]"\n',
}


@pytest.mark.parametrize("name", REFERENCE_FILES)
def test_references_in_every_format(tmp_path, name):
    captions = read({1: "a dog", 2: "a cat"}, references=put(tmp_path, name, REFERENCE_FILES[name]))
    assert {item.id: list(item.references) for item in captions} == REFERENCES


def test_coco_annotations_bring_the_image_names(tmp_path):
    captions = read({1: "a dog", 2: "a cat"}, references=put(tmp_path, "a.json", json.dumps(COCO_ANNOTATIONS)))
    assert captions.columns["image"] == ("one.jpg", "two.jpg")


def test_one_file_with_everything_keeps_its_other_columns(tmp_path):
    rows = [{"id": 1, "caption": "a dog", "references": ["dogs"], "style": "plain", "rating": 3}]
    captions = read(put(tmp_path, "all.jsonl", lines(rows)))
    assert captions["1"].references == ("dogs",)
    assert captions.columns == {"style": ("plain",), "rating": (3,)}


def test_tables_in_memory_and_parquet(tmp_path):
    table = pa.table({"id": [2, 1], "caption": ["a cat", "a dog"], "references": [["one cat"], ["the dog", "dogs"]]})
    pq.write_table(table, tmp_path / "t.parquet")
    frame = pd.DataFrame(
        {"id": [2, 1], "caption": ["a cat", "a dog"], "references": [["one cat"], ["the dog", "dogs"]]}
    )
    for source in (table, frame, tmp_path / "t.parquet"):
        captions = read(source)
        assert captions.ids == ("2", "1") and captions["1"].references == ("the dog", "dogs")


def test_standard_input(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(json.dumps(COCO_RESULTS).encode()), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", stream)
    assert read("-").ids == ("2", "1")


def test_ids_join_whether_int_float_or_string():
    assert read({"1": "a"}, references=pd.DataFrame({"id": [1.0], "reference": ["b"]}))["1"].references == ("b",)


def test_columns_can_be_named(tmp_path):
    path = put(tmp_path, "t.csv", "pic,text,gold\n1,a dog,the dog\n")
    captions = read(path, reading=Reading(id_column="pic", candidate_column="text", references_column="gold"))
    assert captions["1"].candidate == "a dog" and captions["1"].references == ("the dog",)


def test_several_candidates_by_row_or_by_list(tmp_path):
    path = put(tmp_path, "s.jsonl", lines([{"id": 1, "caption": "a"}, {"id": 1, "caption": "b"}]))
    assert read(path, reading=Reading(several=True))["1"].candidates == ("a", "b")
    assert read({"1": ["a", "b"]})["1"].candidates == ("a", "b")


def test_empty_candidates_are_kept():
    assert read({"1": ""}, references={"1": ["a"]})["1"].candidate == ""


def test_missing_ids_can_be_skipped_and_are_counted():
    captions = read({"1": "a", "2": "b"}, references={"2": ["b"], "3": ["c"]}, reading=Reading(missing="skip"))
    assert captions.ids == ("2",) and captions.skipped == 2


BROKEN = {
    "truncated JSON": (
        "p.json",
        '[{"image_id": 1, "caption": "a',
        r"p\.json: line 1 column 29 \(offset 28 of 30\): not valid JSON",
    ),
    "bad row": (
        "p.jsonl",
        '{"id": 1, "caption": "a"}\n{"id": 2, "cap',
        r"p\.jsonl: row 2: not valid JSON \(.*, column 11\)",
    ),
    "a row that is no object": ("p.jsonl", '{"id": 1, "caption": "a"}\n7', r"row 2: is int, expected an object"),
    "duplicate key": ("p.json", '{"1": "a", "1": "b"}', "'1' occurs more than once in one JSON object"),
    "duplicate name": (
        "p.jsonl",
        '{"id": 1, "caption": "a", "caption": "b"}',
        "row 1: 'caption' occurs more than once in one JSON object",
    ),
    "duplicate id": (
        "p.json",
        json.dumps([{"image_id": 1, "caption": "a"}, {"image_id": 1, "caption": "b"}]),
        r"entry 2: id '1' occurs more than once \(first at .*entry 1\).*several=True",
    ),
    "number for caption": ("p.json", '{"1": 5}', r"id '1': caption is a number \(5\), expected a string"),
    "null caption": ("p.jsonl", '{"id": 1, "caption": null}', "row 1: caption is null"),
    "no id": ("p.jsonl", '{"caption": "a"}', "row 1: no id: found columns caption, expected one of image_id, id"),
    "no caption": (
        "p.jsonl",
        '{"id": 1, "sentence": "a"}',
        "no candidate caption: found columns id, sentence, expected one of",
    ),
    "bad id": ("p.jsonl", '{"id": 1.5, "caption": "a"}', "id is 1.5, expected a string or a whole number"),
    "empty file": ("p.json", "  ", "is empty, expected captions"),
    "scalar JSON": ("p.json", "3", "contains a JSON int, expected a list or an object"),
    "list of strings": ("p.json", '["a", "b"]', "entry 1: is str, expected an object with an id and a caption"),
    "ragged CSV": ("p.csv", "id,caption\n1,a,b\n", r"p\.csv: row 2: has 3 cells, expected 2 \(id, caption\)"),
    "not UTF-8": ("p.csv", b"id,caption\n1,caf\xe9\n", "line 2: byte 0xe9 at offset 16 is not UTF-8"),
    "cut gzip": ("p.json.gz", gzip.compress(b"[]" * 99)[:-5], "damaged gzip file"),
    "not Parquet": ("p.parquet", b"PAR1 nonsense", "not a whole Parquet file"),
    "endless number": ("p.jsonl", '{"id": ' + "9" * 5000 + "}", "row 1: not JSON that can be read"),
    "deep nesting": ("p.json", "[" * 100_000, "not JSON that can be read"),
    "header only a mark": ("p.csv", b"\xef\xbb\xbf", "is empty"),
    "odd images": ("p.json", '{"images": null, "annotations": [{"image_id": [1], "caption": "a"}]}', r"id is \[1\]"),
    "empty references": ("p.jsonl", '{"id": 1, "caption": "a", "references": []}', "list of references is empty"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_wrong_is_said_in_one_line(tmp_path, case):
    name, content, message = BROKEN[case]
    with pytest.raises(InputError, match=message) as caught:
        read(put(tmp_path, name, content))
    assert "\n" not in str(caught.value)


def test_records_tuples_and_numpy_values_are_taken():
    captions = read([{"image_id": np.int64(1), "caption": np.str_("a dog")}], references={"1": ("the dog", "dogs")})
    assert captions["1"].candidate == "a dog" and captions["1"].references == ("the dog", "dogs")


def test_karpathys_splits(tmp_path):
    image = {"cocoid": 7, "filename": "7.jpg", "split": "test", "sentences": [{"raw": "a dog"}, {"raw": "dogs"}]}
    path = put(tmp_path, "dataset_coco.json", json.dumps({"images": [image], "dataset": "coco"}))
    captions = read({7: "one dog"}, references=path)
    assert captions["7"].references == ("a dog", "dogs")
    assert captions.columns == {"image": ("7.jpg",), "split": ("test",)}


def test_image_id_is_the_id_of_coco_records_and_the_outer_key_that_of_a_mapping():
    assert read([{"id": 55, "image_id": 1, "caption": "a"}]).ids == ("1",)
    assert read({"1001": {"id": 7, "caption": "a"}}).ids == ("1001",)


def test_what_the_rows_of_an_item_disagree_on_is_kept_for_each(tmp_path):
    rows = [
        {"id": 1, "caption": "a", "style": "x", "split": "s"},
        {"id": 1, "caption": "b", "style": "y", "split": "s"},
    ]
    captions = read(put(tmp_path, "s.jsonl", lines(rows)), reading=Reading(several=True))
    assert captions.columns == {"style": (["x", "y"],), "split": ("s",)}


def test_references_that_hold_nothing_and_options_that_do_not_exist():
    with pytest.raises(InputError, match="references: contains no captions"):
        read({"1": "a"}, references={})
    with pytest.raises(InputError, match="missing='ignore', expected error or skip"):
        read({"1": "a"}, reading=Reading(missing="ignore"))
    with pytest.raises(InputError, match="both candidates and references from standard input"):
        read("-", references="-")


def test_missing_references_are_counted_and_the_first_five_named():
    candidates = {str(i): "a" for i in range(8)}
    with pytest.raises(
        InputError, match=r"7 ids \(1, 2, 3, 4, 5, …\) without references; pass reading=Reading\(missing='skip'\)"
    ):
        read(candidates, references={"0": ["a"]})
    with pytest.raises(InputError, match=r"1 id \(9\) without a candidate"):
        read({"0": "a"}, references={"0": ["a"], "9": ["b"]})


def test_no_id_in_common():
    with pytest.raises(InputError, match=r"none of its 1 id \(a\) is in references, which has 1 id \(b\)"):
        read({"a": "x"}, references={"b": ["y"]}, reading=Reading(missing="skip"))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.json: no such file"):
        read(tmp_path / "nowhere.json")
    with pytest.raises(InputError, match="is a folder"):
        read(tmp_path)


def test_the_bad_row_of_a_large_file_is_named(tmp_path):
    rows = [json.dumps({"id": i, "caption": "a dog"}) for i in range(100_000)]
    rows[77_776] = json.dumps({"id": 77_776, "caption": ["a", 3]})
    with pytest.raises(InputError, match=r"big\.jsonl: row 77777: caption is a number \(3\)"):
        read(put(tmp_path, "big.jsonl", "\n".join(rows)))


def test_quotation_marks_in_tab_separated_captions(tmp_path):
    plain = put(tmp_path, "a.tsv", 'id\tcaption\n1\t"stop" says the sign\n2\ta 5" nail\n')
    assert [item.candidate for item in read(plain)] == ['"stop" says the sign', 'a 5" nail']
    quoted = put(tmp_path, "b.tsv", 'id\tcaption\n1\t"a tab\there, and ""quotes"""\n')
    assert read(quoted)["1"].candidate == 'a tab\there, and "quotes"'


@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC, csv.QUOTE_MINIMAL])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_quoted_tables_of_pandas_are_read_as_they_were_written(tmp_path, suffix, quoting):
    texts = ['a sign that says "stop"', "a dog", 'a 5" nail', "it's a cat, or two"]
    frame = pd.DataFrame({"id": range(4), "caption": texts, "references": [[text, "x"] for text in texts]})
    frame.to_csv(tmp_path / f"t.{suffix}", sep="\t" if suffix == "tsv" else ",", quoting=quoting, index=False)
    captions = read(tmp_path / f"t.{suffix}")
    assert [item.candidate for item in captions] == texts
    assert [item.references for item in captions] == [(text, "x") for text in texts]


def test_a_column_of_captions_that_are_all_in_quotation_marks_is_quoted(tmp_path):
    assert read(put(tmp_path, "a.tsv", 'id\tcaption\n1\t"a dog"\n2\t"a cat"\n'))["1"].candidate == "a dog"
    assert read(put(tmp_path, "b.tsv", 'id\tcaption\n1\t"a dog"\n2\ta cat\n'))["1"].candidate == '"a dog"'


PRINTED = [["a dog"], ["a dog", "it's a cat"], ['"a" dog', "b, c"], ["back\\slash", "new\nline"], ["é", "日本"]]


@pytest.mark.parametrize("texts", PRINTED)
@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_a_printed_list_is_the_list(tmp_path, texts, kind, suffix):
    """``DataFrame.to_csv`` prints lists; harnesses such as lmms-eval store their targets so, in JSON."""
    frame = pd.DataFrame({"id": [1], "caption": ["a dog"], "references": [str(kind(texts))]})
    if suffix == "jsonl":
        frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    elif suffix == "parquet":
        frame.to_parquet(tmp_path / "t.parquet")
    else:
        frame.to_csv(tmp_path / f"t.{suffix}", sep="\t" if suffix == "tsv" else ",", index=False)
    assert read(tmp_path / f"t.{suffix}")["1"].references == tuple(texts)
    assert read({"1": str(kind(texts))})["1"].candidates == tuple(texts)


@pytest.mark.parametrize(
    "text",
    [
        str(np.array(["a dog", "a cat"])),
        str(np.array(["a dog"] * 30)),
        repr(np.array(["a dog", "a cat"])),
        "['a dog', nan]",
        "[['a dog'], ['a cat']]",
        "['a dog', __import__('os').getpid()]",
        "[f'{1}', 'b']",
    ],
)
def test_a_printed_list_that_is_not_one_of_texts_is_refused(tmp_path, text):
    for source in ([{"id": 1, "caption": "a", "references": text}], [{"id": 1, "caption": "a", "references": [text]}]):
        with pytest.raises(InputError, match=r"entry 1: reference is a printed list \("):
            read(source)
    pd.DataFrame({"id": [1], "caption": [text]}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=r"t\.csv: row 2: caption is a printed list \("):
        read(tmp_path / "t.csv")


@pytest.mark.parametrize(
    "text", ["[a dog's ball]", "(a dog, 'a cat')", "[sic] a 'dog'", "('a dog')", "[]", "['", "a ['b']"]
)
def test_a_caption_in_brackets_is_a_caption(text):
    assert read({"1": text})["1"].candidates == (text,)


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.json", "p.jsonl"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_read_with_its_mark_and_refused_without(tmp_path, name, encoding):
    """PowerShell's ``>`` and Excel's "Unicode text" write UTF-16 with a byte-order mark."""
    content = {"csv": "id,caption\n1,a café\n", "tsv": "id\tcaption\n1\ta café\n"}
    path = put(tmp_path, name, content.get(name[2:], '{"id": 1, "caption": "a café"}\n').encode(encoding))
    if name == "p.json":
        path.write_bytes('{"1": "a café"}'.encode(encoding))
    if encoding == "utf-16":
        assert read(path)["1"].candidate == "a café"
        return
    with pytest.raises(InputError, match=r"byte [01] is null, expected text in UTF-8; is it UTF-16"):
        read(path)


def test_a_column_that_a_table_has_twice_is_refused(tmp_path):
    table = pa.table([["1"], ["a dog"], ["a cat"]], names=["id", "caption", "caption"])
    frame = pd.DataFrame([["1", "a dog", "a cat"]], columns=["id", "caption", "caption"])
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, frame, tmp_path / "t.parquet"):
        with pytest.raises(InputError, match="column 'caption' occurs more than once, expected different names"):
            read(source)


def test_an_id_that_a_parquet_file_has_twice_is_refused(tmp_path):
    pq.write_table(pa.table({"id": [1, 1], "caption": ["a dog", "a cat"]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"row 2: id '1' occurs more than once \(first at .*row 1\)"):
        read(tmp_path / "t.parquet")


def test_candidates_and_references_may_call_their_ids_differently(tmp_path):
    candidates = put(tmp_path, "p.csv", "pic,id,caption\n7,x,a dog\n")
    references = put(tmp_path, "r.csv", "photo,id,caption\n7,y,the dog\n")
    captions = read(candidates, references=references, reading=Reading(id_column="pic", references_id_column="photo"))
    assert captions["7"].references == ("the dog",)


@pytest.mark.parametrize("named", [None, "image_id"])
def test_the_id_column_of_candidates_does_not_bind_annotations(named):
    candidates = [{"pic": 5, "caption": "a dog"}]
    annotations = {
        "images": [{"id": 5, "file_name": "x.jpg"}],
        "annotations": [{"id": 9, "image_id": 5, "caption": "dogs"}],
    }
    reading = Reading(id_column="pic", references_id_column=named)
    assert read(candidates, references=annotations, reading=reading)["5"].references == ("dogs",)
    if named is None:
        assert read(candidates, references={5: ["dogs"]}, reading=reading)["5"].references == ("dogs",)
    # a column that the annotations have is taken
    files = [{"image": "x.jpg", "caption": "a dog"}]
    assert read(files, references=annotations, reading=Reading(id_column="image"))["x.jpg"].references == ("dogs",)


def test_the_set_has_the_paths_of_its_images(photos):
    captions = read({"red": "a", "1": "b"}, references={"red": ["c"], "1": ["d"]}, images=photos)
    assert captions.columns["image"] == (str(photos / "red.png"), str(photos / "1"))
    named = read([{"id": 1, "caption": "a", "image": "elsewhere/green.jpg"}], reading=Reading(images=photos))
    assert named.columns["image"] == (str(photos / "green.png"),)


def test_arguments_win_over_the_reading_and_lists_of_records_are_references():
    reading = Reading(references=[{"id": 1, "caption": "old"}])
    assert read({"1": "a"}, reading=reading)["1"].references == ("old",)
    assert read({"1": "a"}, references={"1": ["new"]}, reading=reading)["1"].references == ("new",)


def test_several_columns_make_an_id(tmp_path):
    rows = [{"photo": 7, "style": style, "caption": style, "references": [style]} for style in ("sad", "gay")]
    captions = read(rows, reading=Reading(id_column="photo,style"))
    assert captions.ids == ("7:sad", "7:gay") and captions.columns["style"] == ("sad", "gay")
    (tmp_path / "7.jpg").touch()
    images = read(rows, images=tmp_path, reading=Reading(id_column="photo,style")).columns["image"]
    assert images == (str(tmp_path / "7.jpg"),) * 2
    with pytest.raises(
        InputError, match="entry 1: no id: found columns photo, style, caption, references, expected 'x'"
    ):
        read(rows, reading=Reading(id_column="photo,x"))
    comma = [{"a,b": 3, "caption": "x"}]
    assert read(comma, reading=Reading(id_column="a,b")).ids == ("3",)


KEYS = st.sampled_from(["1", "2", "3", 4, 5, 5.0, "", None, "\ud800", "x\0"])
TEXTS = st.sampled_from(
    ["a dog", "ein Hündchen", "", "[red] dog", "['a', 'b']", "[1, 2]", "'a' dog", "\ud800", "\0", 3, None]
)
CELLS = TEXTS | st.lists(TEXTS, max_size=3)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {"id": KEYS, "caption": CELLS},
        optional={"references": CELLS, "image": TEXTS, "split": TEXTS, "caption_1": TEXTS},
    ),
    max_size=6,
)


def stop(message):
    """A second handler that refuses: for it, every row is looked at by itself."""
    raise InputError(message)


@pytest.mark.parametrize("gather", [gather_candidates, gather_references])
@given(records=RECORDS, cut=st.booleans())
@settings(max_examples=300, deadline=None)
def test_rows_read_column_by_column_are_those_read_one_by_one(gather, records, cut):
    def rows():
        for number, record in enumerate(records, start=1):
            yield Row(f"x.jsonl: row {number}", record)
        if cut:
            stop("x.jsonl: not valid JSON")

    outcomes = []
    for complain in ({}, {"complain": stop}):
        try:
            gathered = gather(rows(), Reading(), **complain)
            outcomes.append((gathered, [gathered.find_first_row(key) for key in gathered.candidates]))
        except InputError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("gather", [gather_candidates, gather_references])
def test_blocks_of_rows_are_read_as_one(gather, monkeypatch):
    monkeypatch.setattr("captious.io.join.BLOCK", 2)
    records = [{"id": number, "caption": f"dog {number}", "split": "a"} for number in range(5)]
    records[3]["caption"] = ["dog 3"]
    rows = [Row(f"x: row {number}", record) for number, record in enumerate(records)]
    assert gather(rows) == gather(rows, complain=stop)
    with pytest.raises(InputError, match=r"x: row 9: id '1' occurs more than once .first at x: row 1."):
        gather_candidates([*rows, Row("x: row 9", records[1])])


ODD_LINES = [
    '{"id": 1, "caption": "a", "id": 2}',
    '{"id" : 1, "caption": "a", "id": 2}',
    '{"id": 1, "caption": "a"},{"id": 2, "caption": "b"}',
    '{"id": 1, "caption": [{"a": 1}]}',
    '{"id": 1, "caption": ["a"',
    '"b"]}',
    '{"id": 1, "caption": "}',
    '{", "split": 1}',
    '{"id": 1, "caption": "a {b} : c"}',
    '{"id": 1, "caption": "say \\": no"}',
    '{"caption": "é", "id": 1}',
    '{"id": 3}',
    "[1]",
    "",
    " ",
]


@given(st.lists(st.sampled_from([*ODD_LINES, *['{"id": 1, "caption": "a dog"}'] * 20]), min_size=1, max_size=6))
@settings(max_examples=500, deadline=None)
def test_lines_parsed_together_are_those_parsed_one_by_one(lines):
    content, outcomes = "\n".join(lines).encode(), []
    for together in (json_layouts._parse_plain_lines, lambda *given: None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_layouts, "_parse_plain_lines", together)
            patch.setattr(json_layouts, "_PART", 40)
            try:
                outcomes.append(list(formats.parse_rows(content, "x.jsonl")))
            except InputError as error:
                outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_a_part_of_a_file_with_empty_records_alone_is_not_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr("captious.io.json_layouts._PART", 60)  # two parts: rows with captions, and rows without
    row = '{"id": "%d", "caption": "a dog", "references": ["a dog"]}\n'
    path = tmp_path / "cut.jsonl"
    path.write_text(row % 1 + row % 2 + "{}\n{}\n", encoding="utf-8")
    with pytest.raises(InputError, match="row 3: no id"):
        read(path)


def test_the_captions_of_flickr_as_their_authors_wrote_them(tmp_path):
    """Flickr8k.token.txt and Flickr30k's results_20130124.token: image#number, a tab, a caption."""
    text = "1.jpg#0\tA dog runs .\n1.jpg#1\tTwo dogs .\n2.jpg#0\tA cat .\n"
    for name in ("Flickr8k.token.txt", "results_20130124.token", "f.tsv"):
        path = put(tmp_path, name, text)
        assert read({"1.jpg": "a dog", "2.jpg": "a cat"}, references=path)["1.jpg"].references == (
            "A dog runs .",
            "Two dogs .",
        )
        assert read(path, reading=Reading(several=True))["1.jpg"].candidates == ("A dog runs .", "Two dogs .")
    with pytest.raises(InputError, match="line 2: 'no tab', expected image#number, a tab and a caption"):
        read({"1.jpg": "a dog"}, references=put(tmp_path, "f.tsv", "1.jpg#0\tA dog\nno tab\n"))


def test_the_output_of_chair_is_read(tmp_path):
    rows = {"overall_metrics": {"CHAIRs": 0.1}, "sentences": [{"image_id": 7, "caption": "a dog", "metrics": {}}]}
    assert read(put(tmp_path, "chair.json", json.dumps(rows)))["7"].candidates == ("a dog",)


def test_a_missing_column_names_the_option_and_some_columns():
    with pytest.raises(InputError, match=r"c11 and 19 more, expected one of .*reading=Reading\(id_column=\.\.\.\)"):
        read([{f"c{number}": "x" for number in range(31)}])


def test_a_folder_of_runs_says_how_to_name_them(tmp_path):
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "runs" / "first" / "captious-run.json").write_text("{}")
    with pytest.raises(
        InputError, match=r"runs: is a folder, .*; the folder contains runs: name them, such as .*runs/\*$"
    ):
        read(tmp_path / "runs")
