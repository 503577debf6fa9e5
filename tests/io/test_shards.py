"""Which files a source means, and what is read of one shard of each kind."""

import gzip
import io
import json
import uuid
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from captious.errors import InputError
from captious.io import shards
from captious.io.formats import read_rows
from captious.io.read import read
from captious.io.shards import Shard, expand, is_sharded, read_shard
from captious.options import Reading

ROWS = [
    {"id": "7", "caption": "a dog", "references": ["the dog", "dogs"]},
    {"id": "8", "caption": "a cat", "references": ["one cat"]},
]


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * 3)


def names(source, **options):
    return [shard.name for shard in expand(source, **options)]


class TestExpand:
    def test_ranges_are_padded_and_hold_both_bounds(self, tmp_path):
        touch(tmp_path, *(f"{number:03d}.tar" for number in range(8, 12)))
        shards = expand(f"{tmp_path}/{{008..011}}.tar")
        assert [shard.name for shard in shards] == ["008", "009", "010", "011"]
        assert shards[0] == Shard("008", f"{tmp_path}/008.tar", 3)
        assert names(f"{tmp_path}/{{008..011..2}}.tar") == ["008", "010"]
        assert names(f"{tmp_path}/{{011..009}}.tar") == ["009", "010", "011"]

    def test_lists_nest_and_combine(self, tmp_path):
        touch(tmp_path, "train/0.tar", "train/1.tar", "val/0.tar", "val/1.tar", "x.tar")
        assert names(f"{tmp_path}/{{{{train,val}}/{{0..1}},x}}.tar") == ["train-0", "train-1", "val-0", "val-1", "x"]

    def test_globs_sort_as_people_count(self, tmp_path):
        touch(tmp_path, "shard-10.jsonl", "shard-2.jsonl", "shard-2b.jsonl", ".hidden.jsonl", "deep/er/shard-1.jsonl")
        assert names(f"{tmp_path}/*.jsonl") == ["shard-2", "shard-2b", "shard-10"]
        assert names(f"{tmp_path}/shard-?.jsonl") == ["shard-2"]
        assert names(f"{tmp_path}/shard-[0-1]*.jsonl") == ["shard-10"]
        assert names(f"{tmp_path}/**/*.jsonl") == ["shard-1", "shard-2", "shard-2b", "shard-10"]

    def test_a_folder_means_the_shards_in_it(self, tmp_path):
        touch(tmp_path, "1.parquet", "0.parquet", "README.md", "_SUCCESS", "below/2.parquet")
        assert names(tmp_path) == ["0", "1"]

    def test_a_list_is_the_same_in_every_order(self, tmp_path):
        touch(tmp_path, "a/0.csv", "b/1.csv", "b/2.csv")
        sources = [f"{tmp_path}/b/*.csv", tmp_path / "a"]
        assert expand(sources) == expand(sources[::-1])
        assert names(sources) == ["0", "1", "2"]

    def test_names_are_unique_and_safe(self, tmp_path):
        touch(tmp_path, "a/0.tar", "b/0.tar", "c d/ü.tar", "e/Ü.tar")
        found = names(f"{tmp_path}/**/*.tar")
        assert found == ["a-0", "b-0", "c_d-ü", "e-Ü"]

    def test_names_of_one_folder_that_differ_in_the_ending_alone(self, tmp_path):
        touch(tmp_path, "0.jsonl", "0.jsonl.gz", "0.ndjson")
        found = names(f"{tmp_path}/*")
        assert len(set(found)) == 3 and all("0" in name for name in found)

    def test_an_existing_file_is_no_pattern(self, tmp_path):
        touch(tmp_path, "{0..9}[1].tar")
        assert names(f"{tmp_path}/{{0..9}}[1].tar") == ["0..9_1"]
        assert is_sharded(f"{tmp_path}/{{0..9}}[1].tar")

    def test_addresses_with_a_scheme(self):
        folder = f"memory://{uuid.uuid4().hex}"
        for name in ("a/00.tar", "a/01.tar", "b/00.tar"):
            fsspec.filesystem("memory").pipe_file(f"{folder}/{name}", b"1234")
        assert expand(f"{folder}/a/{{00..01}}.tar") == (
            Shard("00", f"{folder}/a/00.tar", 4),
            Shard("01", f"{folder}/a/01.tar", 4),
        )
        assert [shard.address for shard in expand(f"{folder}/**/*.tar")] == [
            f"{folder}/a/00.tar",
            f"{folder}/a/01.tar",
            f"{folder}/b/00.tar",
        ]
        assert names(f"{folder}/b") == names(f"{folder}/b/00.tar") == ["00"]
        with pytest.raises(InputError, match=r"1 of its 3 files is missing, the first is memory://.*/a/02\.tar"):
            expand(f"{folder}/a/{{00..02}}.tar")
        with pytest.raises(InputError, match=r"/c: contains no file that ends in"):
            expand(f"{folder}/c")
        with pytest.raises(InputError, match=r"/c\.tar: no such file"):
            expand(f"{folder}/c.tar")

    def test_addresses_of_a_web_server(self, tmp_path):
        """Its listing does not say how large files are."""
        pytest.importorskip("aiohttp")
        touch(tmp_path, "0.jsonl", "1.jsonl")

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=str(tmp_path))

            def log_message(self, *arguments):
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = Thread(target=server.serve_forever)
            thread.start()
            try:
                folder = f"http://127.0.0.1:{server.server_port}"
                expected = tuple(Shard(name, f"{folder}/{name}.jsonl", 3) for name in "01")
                assert expand(f"{folder}/{{0..1}}.jsonl") == expand(f"{folder}/*.jsonl") == expected
                with pytest.raises(InputError, match=r"1 of its 3 files is missing, the first is .*/2\.jsonl"):
                    expand(f"{folder}/{{0..2}}.jsonl")
                with pytest.raises(InputError, match=r"/2\.jsonl: no such file"):
                    expand(f"{folder}/2.jsonl")
            finally:
                server.shutdown()
                thread.join()

    def test_a_file_by_its_scheme_needs_no_fsspec(self, tmp_path, monkeypatch):
        touch(tmp_path, "0.tar")
        monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
        assert expand(f"file://{tmp_path}/*.tar") == (Shard("0", f"{tmp_path}/0.tar", 3),)

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("{0..4}.tar", r"3 of its 5 files are missing, the first is .*/2\.tar"),
            ("x{0..4}.tar", r"none of its 5 files is there; it expands to .*/x0\.tar, …, .*/x4\.tar"),
            ("*.parquet", r"\*\.parquet: matches no file"),
            ("{deep,missing}/*.tar", r"missing/\*\.tar: matches no file, which .* expands to"),
            ("*.md", r"matches 1 files such as .*README\.md, none of which ends in \.json"),
            ("README.md", r"README\.md: ends in \.md, expected one of"),
            ("nothing", r"nothing: no such file, and no folder of shards"),
            ("empty", r"empty: contains no file that ends in .*; pass a pattern such as .*empty/\*\*/\*\.parquet"),
            ("{0..99999999}.tar", "expands to more than 1,000,000 files"),
            ("{0..999999}{0..9}.tar", "expands to more than 1,000,000 files"),
            ("{" * 60 + "}" * 60, "has more than 50 braces"),
            ("a\0b*.tar", "matches no file|null"),
            ("{0..9..0}.tar", "is not a range of numbers"),
            (
                "*.[tj]*",
                r"files of several formats \(2 tar and 1 json\), expected one; pass a pattern such as '\*\.tar'",
            ),
        ],
    )
    def test_one_line_says_what_is_wrong(self, tmp_path, source, message):
        touch(tmp_path, "0.tar", "1.tar", "0_stats.json", "README.md", "deep/0.tar")
        (tmp_path / "empty").mkdir()
        with pytest.raises(InputError, match=message) as caught:
            expand(f"{tmp_path}/{source}")
        assert "\n" not in str(caught.value)

    def test_the_same_file_twice_is_refused(self, tmp_path):
        touch(tmp_path, "0.tar")
        (tmp_path / "link.tar").symlink_to(tmp_path / "0.tar")
        with pytest.raises(InputError, match=r"0\.tar: is named more than once, expected every shard once"):
            expand([f"{tmp_path}/0.tar", f"{tmp_path}/{{0..0}}.tar"])
        with pytest.raises(InputError, match=r"link\.tar: is named more than once, also as .*0\.tar"):
            expand(f"{tmp_path}/*.tar")

    @pytest.mark.parametrize("source", [[], 7, [None]])
    def test_what_is_no_source_is_refused(self, source):
        with pytest.raises(InputError, match="expected a path, a pattern, an address or a list of these"):
            expand(source)

    def test_a_format_may_be_said_where_names_do_not(self, tmp_path):
        touch(tmp_path, "part-0", "part-1")
        assert names(f"{tmp_path}/part-*", format="jsonl") == ["part-0", "part-1"]


@given(source=st.text(alphabet="{},.*?[]0123a/:\0~\ud800", max_size=30))
@settings(max_examples=200, deadline=None)
@example(source="{" * 1000)
@example(source="**a")
@example(source="[")
def test_any_text_means_shards_or_gets_one_line(source, tmp_path_factory):
    folder = f"{tmp_path_factory.getbasetemp()}/none/"
    try:
        is_sharded(folder + source)
        expand(folder + source)
    except InputError as error:
        assert "\n" not in str(error)


def test_what_means_shards_and_what_one_file(tmp_path):
    touch(tmp_path, "one.json", "one.tar", "a[1].json", "folder/0.parquet", "run/captious-run.json", "text/a.md")
    sharded = ["*.json", "{a,b}.json", "one.tar", "folder", "missing-{0..9}.tar"]
    single = ["one.json", "a[1].json", "run", "text", "missing.json"]
    assert [is_sharded(f"{tmp_path}/{name}") for name in sharded] == [True] * len(sharded)
    assert [is_sharded(f"{tmp_path}/{name}") for name in single] == [False] * len(single)
    assert is_sharded("s3://bucket/0.parquet")
    assert not is_sharded("-") and not is_sharded("x" * 5000) and not is_sharded(["a dog"])


def shard_of(path):
    return Shard(path.name.partition(".")[0], str(path), path.stat().st_size)


def write(folder, ending, rows=ROWS):
    path = folder / f"0{ending}"
    if ending == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif ending == ".csv":
        cells = [[row["id"], row["caption"], json.dumps(row["references"]).replace('"', '""')] for row in rows]
        path.write_text("id,caption,references\n" + "".join('{},{},"{}"\n'.format(*row) for row in cells))
    elif ending == ".tsv":
        body = "".join(f"{row['id']}\t{row['caption']}\t{json.dumps(row['references'])}\n" for row in rows)
        path.write_text("id\tcaption\treferences\n" + body)
    else:
        content = json.dumps(rows).encode() if ".json" in ending and "jsonl" not in ending else lines(rows)
        path.write_bytes(gzip.compress(content) if ending.endswith(".gz") else content)
    return path


class TestTables:
    @pytest.mark.parametrize(
        "ending", [".parquet", ".jsonl", ".jsonl.gz", ".ndjson", ".json", ".json.gz", ".csv", ".tsv"]
    )
    def test_every_format_gives_what_read_gives(self, tmp_path, ending):
        path = write(tmp_path, ending)
        content, whole = read_shard(shard_of(path)), read(path)
        assert content.captions.ids == whole.ids == ("7", "8")
        assert list(content.captions.candidates) == list(whole.candidates) == [("a dog",), ("a cat",)]
        assert list(content.captions.references) == list(whole.references) == [("the dog", "dogs"), ("one cat",)]
        assert not content.faults and not content.examples

    def test_columns_are_chosen_as_elsewhere(self, tmp_path):
        path = tmp_path / "0.jsonl"
        path.write_bytes(lines([{"url": "u1", "blip": "a dog", "alt": "dog photo", "width": 3}]))
        reading = Reading(id_column="url", candidate_column="blip", references_column="alt")
        captions = read_shard(shard_of(path), reading).captions
        assert (captions.ids, captions.candidates[0], captions.references[0]) == (("u1",), ("a dog",), ("dog photo",))
        assert captions.columns == {"width": (3,)}

    def test_remote_shards(self):
        address = f"memory://{uuid.uuid4().hex}/0.jsonl"
        fsspec.filesystem("memory").pipe_file(address, lines(ROWS))
        (shard,) = expand(address)
        assert read_shard(shard).captions.ids == ("7", "8")
        with pytest.raises(InputError, match=r"has 1 bytes, had .* when the shards were listed"):
            fsspec.filesystem("memory").pipe_file(address, b"{")
            read_shard(shard)

    def test_rows_that_cannot_be_used_are_counted_by_reason(self, tmp_path):
        path = tmp_path / "0.jsonl"
        broken = [{"id": "a", "caption": None}, {"id": "b", "caption": 4}, {"id": 1.5, "caption": "x"}, {"id": "c"}]
        content = lines(ROWS + broken) + b'{"id": "d", "cap\n' + b'{"id": "e", "caption": "\xff"}\n' + b'["list"]\n'
        path.write_bytes(content + b'{"id": "f", "caption": "a \\ud83dcat", "references": ["cats"]}\n')
        result = read_shard(shard_of(path))
        assert result.captions.ids == ("7", "8", "f") and result.captions["f"].candidates == ("a cat",)
        assert result.faults == {
            "caption is null": 1,
            "caption is a number": 1,
            "id is …": 1,
            "no candidate caption": 1,
            "a line that is not a JSON object": 3,
            "half a character, removed": 1,
        }
        assert result.examples["caption is null"] == f"{path}: row 3: caption is null (None), expected a string"

    def test_what_comes_before_the_damage_of_a_compressed_file_is_read(self, tmp_path):
        path = tmp_path / "0.jsonl.gz"
        rows = [{"id": str(number), "caption": uuid.uuid4().hex} for number in range(1000)]
        path.write_bytes(gzip.compress(lines(rows))[:-4000])
        result = read_shard(shard_of(path))
        assert 0 < len(result.captions) < 1000
        assert result.faults["damaged gzip"] == 1 and "cut short" in result.examples["damaged gzip"]

    def test_an_id_twice_is_refused_unless_several_are_meant(self, tmp_path):
        path = tmp_path / "0.jsonl"
        path.write_bytes(lines([{"id": "a", "caption": "one"}, {"id": "a", "caption": "two"}]))
        with pytest.raises(
            InputError, match=r"row 2: id 'a' occurs more than once .*pass reading=Reading\(several=True\)"
        ):
            read_shard(shard_of(path))
        assert read_shard(shard_of(path), Reading(several=True)).captions.candidates[0] == ("one", "two")

    def test_a_cut_anywhere_in_a_gzip_of_two_members_is_reported(self, tmp_path):
        first, second = ([{"id": f"{half}{index}", "caption": "a dog"} for index in range(3)] for half in "ab")
        members = [gzip.compress(lines(rows) + b"\n") for rows in (first, second)]
        content, path = b"".join(members), tmp_path / "0.jsonl.gz"
        for length in range(1, len(content)):
            path.write_bytes(content[:length])
            try:
                result = read_shard(Shard("0", str(path), length))
            except InputError:
                continue
            # A file that ends where a member does is whole.
            assert ("damaged gzip" in result.faults) == (length != len(members[0])), length

    @pytest.mark.parametrize("ending", [".jsonl", ".parquet", ".json", ".csv", ".jsonl.gz"])
    def test_an_empty_file_is_a_shard_without_an_item(self, tmp_path, ending):
        path = tmp_path / f"0{ending}"
        path.write_bytes(gzip.compress(b"") if ending.endswith(".gz") else b"")
        result = read_shard(shard_of(path))
        assert len(result.captions) == 0 and result.faults == {"a shard without an item": 1}

    def test_a_table_without_rows_is_a_shard_without_an_item(self, tmp_path):
        pq.write_table(
            pa.table({"id": pa.array([], pa.string()), "caption": pa.array([], pa.string())}), tmp_path / "0.parquet"
        )
        (tmp_path / "1.csv").write_text("id,caption\n")
        (tmp_path / "2.json").write_text("[]")
        for path in sorted(tmp_path.iterdir()):
            assert len(read_shard(shard_of(path)).captions) == 0

    def test_a_shard_that_is_of_no_use_is_refused_by_its_name(self, tmp_path):
        path = tmp_path / "0.jsonl"
        path.write_bytes(lines([{"id": "a", "text_en": "a dog"}] * 2))
        with pytest.raises(
            InputError, match=r"0\.jsonl: row 1: no candidate caption: found columns id, text_en, .*nothing"
        ):
            read_shard(shard_of(path))
        path = tmp_path / "0.parquet"
        path.write_bytes(b"PAR1 no")
        with pytest.raises(InputError, match=r"0\.parquet: not a whole Parquet file"):
            read_shard(shard_of(path))
        with pytest.raises(InputError, match=r"gone\.jsonl: no such file"):
            read_shard(Shard("gone", f"{tmp_path}/gone.jsonl", 1))

    def test_images_of_a_table_are_not_read_unless_they_are_wanted(self, tmp_path):
        rows = [{"id": "7", "caption": "a dog", "image": {"bytes": b"JPEG", "path": None}}]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "0.parquet")
        shard = shard_of(tmp_path / "0.parquet")
        assert read_shard(shard).captions.images[0].value == b"JPEG"
        assert read_shard(shard, images=False).captions.columns == {}


class TestReferences:
    @pytest.fixture
    def shard(self, tmp_path):
        (tmp_path / "0.jsonl").write_bytes(lines([{"id": "7", "caption": "a dog"}, {"id": "9", "caption": "a fox"}]))
        return shard_of(tmp_path / "0.jsonl")

    def references(self, tmp_path, ids):
        path = tmp_path / f"references-{'-'.join(ids)}.json"
        path.write_text(json.dumps({key: [f"reference of {key}"] for key in ids}))
        return str(path)

    def test_a_file_has_those_of_all_shards(self, shard, tmp_path):
        reading = Reading(references=self.references(tmp_path, "6789"))
        captions = read_shard(shard, reading).captions
        assert list(captions.references) == [("reference of 7",), ("reference of 9",)]

    def test_a_file_is_read_once_and_again_when_it_changed(self, shard, tmp_path, monkeypatch):
        files = []
        monkeypatch.setattr(
            shards, "read_rows", lambda path, **options: files.append(path) or read_rows(path, **options)
        )
        path = self.references(tmp_path, "79")
        for _ in range(3):
            assert read_shard(shard, Reading(references=path)).captions.references[0] == ("reference of 7",)
        Path(path).write_text(json.dumps({"7": ["another reference"], "9": ["x"]}), encoding="utf-8")
        assert read_shard(shard, Reading(references=path)).captions.references[0] == ("another reference",)
        assert files == [path, path]

    def test_a_file_on_an_object_store(self, shard):
        address = f"memory://{uuid.uuid4().hex}/references.json"
        fsspec.filesystem("memory").pipe_file(address, json.dumps({"7": ["dogs"], "9": ["foxes"]}).encode())
        captions = read_shard(shard, Reading(references=address)).captions
        assert list(captions.references) == [("dogs",), ("foxes",)]

    def test_a_file_that_is_not_there(self, shard, tmp_path):
        with pytest.raises(InputError, match=r"none\.json: no such file"):
            read_shard(shard, Reading(references=str(tmp_path / "none.json")))

    def test_ids_without_references(self, shard, tmp_path):
        path = self.references(tmp_path, "78")
        with pytest.raises(
            InputError, match=r"0\.jsonl: 1 id \(9\) without references in .*pass reading=Reading\(missing='skip'\)"
        ):
            read_shard(shard, Reading(references=path))
        result = read_shard(shard, Reading(references=path, missing="skip"))
        assert result.captions.ids == ("7",) and result.captions.skipped == 1
        assert result.faults == {"no references": 1}
        assert result.examples == {"no references": f"{shard.address}: id '9' has no references"}

    def test_a_shard_none_of_whose_ids_has_references_is_empty(self, shard, tmp_path):
        result = read_shard(shard, Reading(references=self.references(tmp_path, "12"), missing="skip"))
        assert result.captions.ids == () and result.faults == {"no references": 2}

    def test_objects_are_refused(self, shard):
        with pytest.raises(InputError, match="references: dict, expected the path of a file"):
            read_shard(shard, Reading(references={"7": ["a dog"]}))


PARQUET = io.BytesIO()
pq.write_table(pa.Table.from_pylist(ROWS), PARQUET)
WHOLE = {
    ".jsonl": lines(ROWS),
    ".jsonl.gz": gzip.compress(lines(ROWS)),
    ".json": json.dumps(ROWS).encode(),
    ".csv": b"id,caption\n7,a dog\n8,a cat\n",
    ".tsv": b"id\tcaption\n7\ta dog\n8\ta cat\n",
    ".parquet": PARQUET.getvalue(),
}


@pytest.mark.parametrize("ending", WHOLE)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_cut_or_changed_table_ends_well(tmp_path_factory, ending, data):
    content = bytearray(WHOLE[ending][: data.draw(st.integers(0, len(WHOLE[ending])))])
    for _ in range(data.draw(st.integers(0, 3))):
        start = data.draw(st.integers(0, len(content)))
        noise = data.draw(st.binary(min_size=1, max_size=8))
        content[start : start + len(noise)] = noise
    path = tmp_path_factory.mktemp("table") / f"0{ending}"
    path.write_bytes(content)
    try:
        result = read_shard(shard_of(path))
    except InputError as error:
        assert "\n" not in str(error) and str(path) in str(error)
    else:
        assert len(result.captions) or result.faults


def test_text_of_a_table_that_is_not_utf8(tmp_path):
    def text(*values):
        return pa.StringArray.from_buffers(len(values), *pa.array(values).buffers()[1:])

    references = pa.ListArray.from_arrays([0, 1, 3, 4], text(b"dogs", b"\xff", b"cats", b"foxes"))
    table = pa.table({"id": ["7", "8", "9"], "caption": text(b"a dog", b"a cat", b"caf\xe9"), "references": references})
    pq.write_table(table, tmp_path / "0.parquet")
    result = read_shard(shard_of(tmp_path / "0.parquet"))
    assert list(result.captions.references) == [("dogs",), ("cats",)]
    assert result.faults == {"caption is bytes": 1, "reference is bytes": 1}
    with pytest.raises(InputError, match=r"0\.parquet: row 2: reference is bytes \(b'\\xff'\), expected a string"):
        read(tmp_path / "0.parquet")


# The columns of a table beside ids and captions.
FURTHER = {"url": ["u", "v"], "width": [3, None], "references": [["the dog", "dogs"], ["one cat"]]}


@pytest.mark.parametrize("image", [{}, {"file_name": ["1.png", "2.png"]}, {"file_name": ["1.wav", "2.png"]}])
@pytest.mark.parametrize("captions", [["a dog", "a cat"], ["a dog", "[1 2]"], ["a dog", None]])
def test_a_table_is_read_by_columns_as_it_is_by_rows(tmp_path, image, captions):
    """A block with a row that needs a closer look is read row by row, as JSON Lines are where they differ."""
    columns = {"key": ["7", "8"], "caption": captions, **FURTHER, **image}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    (tmp_path / "b.jsonl").write_bytes(lines([rows[0], {"caption": "no id"}, rows[1]]))
    table, others = (read_shard(expand(tmp_path / name)[0]) for name in ("a.parquet", "b.jsonl"))
    assert table.captions.ids == others.captions.ids and list(table.captions) == list(others.captions)
    assert dict(others.faults).pop("no id") == 1
    assert dict(table.faults) == {reason: number for reason, number in others.faults.items() if reason != "no id"}


def test_only_the_columns_of_ids_and_captions_are_read_where_no_other_is_wanted(tmp_path, monkeypatch):
    pq.write_table(pa.table({"key": ["7", "8"], "caption": ["a dog", "a cat"], **FURTHER}), tmp_path / "a.parquet")
    read_columns, read_file = [], pq.ParquetFile.read
    monkeypatch.setattr(
        pq.ParquetFile, "read", lambda file, names, **options: read_columns.append(names) or read_file(file, names)
    )
    (shard,) = expand(tmp_path / "a.parquet")
    whole, texts = read_shard(shard).captions, read_shard(shard, further=False).captions
    assert read_columns == [["key", "caption", "url", "width", "references"], ["key", "caption", "references"]]
    assert [item.references for item in texts] == [item.references for item in whole]
    assert set(whole.columns) == {"key", "url", "width"} and "url" not in texts.columns
    named = Reading(id_column="url, key", candidate_column="url")
    read_shard(shard, named, further=False)
    assert read_columns.pop() == ["key", "url", "references"]
    with pytest.raises(InputError, match="found columns key, caption, url, width, references, expected 'text'"):
        read_shard(shard, Reading(candidate_column="text"), further=False)
