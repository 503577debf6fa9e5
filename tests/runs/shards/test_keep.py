"""What passes a filter, why the rest does not, and what is written of it."""

import gzip
import json
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runs.shards.scored import scored, write_lines, write_tar

from captious import evaluate, read
from captious.errors import InputError
from captious.options import Engine, Reading, Resampling
from captious.runs.keep_items import keep
from captious.runs.shards.scoring import score_shards

SERIAL = Engine("serial")
# ROUGE-L of n words that all are in a reference of m words: the longer the reference, the lower the recall.
ROWS = {
    "a": [
        {"id": "1", "caption": "a dog", "references": ["a dog"]},
        {"id": "2", "caption": "a red dog runs fast", "references": ["a red dog runs fast"]},
        {"id": "3", "caption": "no word in common", "references": ["two green boats"]},
    ],
    "b": [
        {"id": "4", "caption": "a cat on the mat", "references": ["a cat on the mat"]},
        {"id": "5", "caption": "the mat", "references": ["the mat"]},
    ],
    "c": [{"id": "6", "caption": "something else again here", "references": ["two green boats"]}],
}


@pytest.fixture
def folder(tmp_path):
    return scored(write_lines(tmp_path / "shards", ROWS), tmp_path / "scores", broken={"5": "image is broken"})


def test_every_item_is_counted_where_it_fails_first(folder):
    selection = keep(folder.address, "rouge > 0.5 and words > 2")
    first, second = selection.clauses
    # ROUGE-L is 1 for 1, 2 and 4, 0 for 3 and 6; 5 has no value. words > 2 fails for 1 and 5.
    assert (first.holds, first.fails, first.unknown, first.dropped, first.alone) == (3, 2, 1, 3, 2)
    assert (second.holds, second.fails, second.unknown, second.dropped, second.alone) == (4, 2, 0, 1, 1)
    assert (selection.items, selection.passing) == (6, 2)
    assert [(one.shard, one.items, one.passing) for one in selection.shards] == [("a", 3, 1), ("b", 2, 1), ("c", 1, 0)]
    assert selection.reasons == {"ROUGE-L: image is broken": 1}
    assert selection.items == selection.passing + first.dropped + second.dropped


def test_a_reason_counts_where_its_item_is_dropped(folder):
    # Item 5 fails words > 2 before its missing value matters.
    assert keep(folder.address, "words > 2 and rouge > 0.5").reasons == {}
    assert keep(folder.address, "words > 2 or rouge > 0.5").reasons == {"ROUGE-L: image is broken": 1}
    undefined = keep(folder.address, "words / (words - words) > 1").reasons
    assert list(undefined.values()) == [6]


def test_a_share_is_that_of_all_scored_items(folder):
    # Five items have a value: 1, 1, 0, 1, 0. Two fifths are the two highest, and three values share that height.
    selection = keep(folder.address, "top(rouge, 0.4)")
    assert (selection.thresholds, selection.passing) == ({"top(rouge, 0.4)": 1.0}, 3)
    # The words are 2, 5, 4, 5, 2, 4: half of them are at most 4.
    assert keep(folder.address, "words > quantile(words, 0.5)").passing == 2
    assert selection.shares["ROUGE-L"] == {0.1: 1.0, 0.2: 1.0, 0.3: 1.0, 0.5: 1.0, 0.7: 0.0, 0.9: 0.0}


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("characters <= 7", ["1", "5"]),
        ('"mat" in caption', ["4", "5"]),
        ('caption has "MAT" and rouge is missing', ["5"]),
        ("candidates == 1 and id != '1'", list("23456")),
    ],
)
def test_columns_besides_the_metrics(folder, tmp_path, text, ids):
    keep(folder.address, text, out=tmp_path / "ids.txt")
    assert (tmp_path / "ids.txt").read_text().split() == ids


def test_ids_are_written_in_three_forms(folder, tmp_path):
    for ending in ("parquet", "jsonl", "txt"):
        keep(folder.address, "rouge > 0.5 and words > 2", out=tmp_path / f"kept.{ending}")
    rows = [
        {"id": "2", "shard": "a", "rouge": 1.0, "words": 5.0},
        {"id": "4", "shard": "b", "rouge": 1.0, "words": 5.0},
    ]
    assert pq.read_table(tmp_path / "kept.parquet").to_pylist() == rows
    assert [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()] == rows
    assert (tmp_path / "kept.txt").read_text() == "2\n4\n"


CURATED = [
    {
        "id": "1",
        "caption": "a dog runs",
        "references": ["a dog runs"],
        "image": "x.jpg",
        "width": 640,
        "language": "en",
    },
    {"id": "2", "caption": "a dog", "references": ["a dog runs"], "image": "x.jpg", "width": 200, "language": None},
    {"id": "3", "caption": "a dog runs", "references": ["two cats"], "image": "y.jpg", "width": 900, "language": "de"},
    {"id": "4", "caption": "two cats sit", "references": ["two cats"], "image": "z.jpg", "width": 640, "words": 77},
]


def kept_ids(run, text, tmp_path, **options):
    keep(run, text, out=tmp_path / "ids.txt", overwrite=True, **options)
    return (tmp_path / "ids.txt").read_text().split()


def test_a_run_of_a_file_and_one_of_shards_keep_the_same_ids(tmp_path, monkeypatch):
    pytest.importorskip("fsspec")
    shards = {"a": CURATED[:1], "b": [], "c": CURATED[1:]}
    by_shard = scored(write_lines(tmp_path / "shards", shards), tmp_path / "scores").address
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CURATED))
    evaluate(read(tmp_path / "all.jsonl"), "rouge", resampling=Resampling(0)).save(tmp_path / "run")
    pattern = write_lines(tmp_path / "shards", shards)
    score_shards(pattern, "rouge", out="memory://keep-runs/run", resampling=Resampling(0), engine=SERIAL)
    for text, expected in [
        ("width >= 640 and language is present", ["1", "3"]),
        ('language == "de" or rouge < 1', ["2", "3", "4"]),
        ("words == 2", ["2"]),  # and not 77, which is a column of the input
        ("input.words > 4", ["4"]),
        ("top(width, 0.25)", ["3"]),
        ('caption has "DOG" and not image matches "^x"', ["3"]),
    ]:
        for run in (by_shard, tmp_path / "run", "memory://keep-runs/run"):
            assert kept_ids(run, text, tmp_path) == expected, (run, text)


def test_the_words_of_several_candidates_are_their_mean(tmp_path):
    rows = [
        {"id": "1", "candidates": ["a b", "a b c d"], "references": ["a"]},
        {"id": "2", "candidates": ["a"] * 2, "references": ["a"]},
    ]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    captions = read(tmp_path / "all.jsonl", reading=Reading(several=True))
    evaluate(captions, "vocab_size", resampling=Resampling(0)).save(tmp_path / "run")
    assert kept_ids(tmp_path / "run", "words == 3 and characters == 5 and candidates == 2", tmp_path) == ["1"]


def test_runs_are_joined_by_id(tmp_path):
    recap = scored(write_lines(tmp_path / "one", {"a": CURATED}), tmp_path / "recap").address
    others = [{**row, "caption": "two cats"} for row in CURATED[1:]]
    alt = scored(write_lines(tmp_path / "two", {"b": others}), tmp_path / "alt").address
    runs = {"recap": recap, "alt": alt}
    # ROUGE-L of alt is 0 for 2, 1 for 3 and 4; it has no 1. recap is best for 1, 2; 4 has all of two words in three.
    selection = keep(runs, "recap.rouge > alt.rouge", out=tmp_path / "kept.jsonl")
    (row,) = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert (row["id"], row["rouge@alt"]) == ("2", 0.0) and row["rouge@recap"] > 0.5
    assert selection.reasons == {"alt has no item of this id": 1}
    assert kept_ids(runs, "rouge@alt > rouge and words > 1", tmp_path) == ["3", "4"]
    keep(runs, "words > 0", out=tmp_path / "best.parquet", best="rouge")
    best = pq.read_table(tmp_path / "best.parquet").to_pylist()
    assert [(one["id"], one["run"], one["caption"]) for one in best] == [
        ("1", "recap", "a dog runs"),
        ("2", "recap", "a dog"),
        ("3", "alt", "two cats"),
        ("4", "alt", "two cats"),
    ]
    twice = scored(write_lines(tmp_path / "three", {"a": CURATED, "b": CURATED}), tmp_path / "twice").address
    with pytest.raises(InputError, match=r"twice: id '\d' occurs more than once, so that items cannot be joined"):
        keep({"recap": recap, "twice": twice}, "words > 1")


def test_the_best_caption_of_an_image_no_repeated_ones_and_a_sample(tmp_path):
    run = scored(write_lines(tmp_path / "one", {"a": CURATED[:2], "b": CURATED[2:]}), tmp_path / "run").address
    assert kept_ids(run, "words > 0", tmp_path, best="rouge") == ["1", "3", "4"]
    assert kept_ids(run, "words > 0", tmp_path, best="width") == ["1", "3", "4"]
    assert kept_ids(run, "words > 0", tmp_path, unique="caption") == ["1", "2", "4"]
    assert kept_ids(run, "words > 0", tmp_path, unique="width") == ["1", "2", "3"]
    assert kept_ids(run, "words > 0", tmp_path, unique="language") == [
        "1",
        "2",
        "3",
        "4",
    ]  # what is missing is not equal
    selection = keep(run, "words > 0", best="rouge", unique="caption", sample=1, seed=3)
    assert [(one.step, one.dropped, one.left) for one in selection.steps] == [
        ("best by rouge", 1, 3),
        ("repeated caption", 1, 2),
        ("sample of 1", 1, 1),
    ]
    assert "4 of 4 items pass (100.0 %); 1 are kept" in str(selection)
    keep(run, "words > 0", out=tmp_path / "out", write="shards", engine=SERIAL, unique="caption")
    assert [json.loads(line)["id"] for line in (tmp_path / "out" / "b.jsonl").read_text().splitlines()] == ["4"]
    with pytest.raises(InputError, match=r"unique=captoin: no metric or column 'captoin'; did you mean 'caption'"):
        keep(run, "words > 0", unique="captoin")
    with pytest.raises(InputError, match=r"best=caption: contains no numbers, expected a metric"):
        keep(run, "words > 0", best="caption")


def test_a_sample_depends_on_ids_and_seed_alone(tmp_path):
    rows = [{"id": str(n), "caption": f"a dog {n}", "references": ["a dog"]} for n in range(60)]
    one = scored(write_lines(tmp_path / "one", {"a": rows}), tmp_path / "r1").address
    two = scored(write_lines(tmp_path / "two", {"a": rows[30:], "b": rows[:30]}), tmp_path / "r2").address
    first = kept_ids(one, "words > 0", tmp_path, sample=20, seed=1)
    assert sorted(first) == sorted(kept_ids(two, "words > 0", tmp_path, sample=20, seed=1)) and len(first) == 20
    assert first == sorted(first, key=int) and first != kept_ids(one, "words > 0", tmp_path, sample=20, seed=2)
    assert {*kept_ids(one, "words > 0", tmp_path, sample=5, seed=1)} < {*first}
    assert len(kept_ids(one, "words > 0", tmp_path, sample=500)) == 60


def test_images_are_repeated_where_their_content_is(tmp_path):
    for name, content in {"a.png": b"same", "b.png": b"same", "c.png": b"other"}.items():
        (tmp_path / name).write_bytes(content)
    rows = [
        {"id": name, "caption": "a dog", "references": ["a dog"], "image": str(tmp_path / name)}
        for name in ("a.png", "b.png", "c.png")
    ]
    run = scored(write_lines(tmp_path / "shards", {"a": rows}), tmp_path / "run").address
    assert kept_ids(run, "words > 0", tmp_path, unique="image") == ["a.png", "c.png"]
    (tmp_path / "b.png").unlink()
    with pytest.raises(InputError, match=r"b.png: the image cannot be read \(No such file or directory\)"):
        keep(run, "words > 0", unique="image")


def test_a_run_in_a_folder_with_signs_of_patterns(tmp_path):
    run = scored(write_lines(tmp_path / "shards", {"a": CURATED}), tmp_path / "run[1] it's").address
    assert kept_ids(run, "words > 2", tmp_path) == ["1", "3", "4"]


def test_a_run_of_a_file_has_no_shards_to_write(tmp_path):
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CURATED))
    evaluate(read(tmp_path / "all.jsonl"), "rouge", resampling=Resampling(0)).save(tmp_path / "run")
    with pytest.raises(InputError, match=r"was scored from a file, not from shards; pass write='ids' instead"):
        keep(tmp_path / "run", "words > 1", out=tmp_path / "out", write="shards", engine=SERIAL)


def test_ids_go_to_an_object_store(folder):
    fsspec = pytest.importorskip("fsspec")
    keep(folder.address, "words > 2", out="memory://selection/kept.txt")
    assert fsspec.filesystem("memory").cat("/selection/kept.txt") == b"2\n3\n4\n6\n"


def test_what_is_refused(folder, tmp_path):
    for out, message in [
        ("kept.csv", "kept.csv: expected a file of ids that ends in .parquet, .jsonl, .txt"),
        (tmp_path / "there.txt", "already exists; pass overwrite=True to replace it"),
    ]:
        (tmp_path / "there.txt").touch()
        with pytest.raises(InputError, match=message):
            keep(folder.address, "words > 2", out=out)
    with pytest.raises(InputError, match=r"needs out=..., the folder to write them to"):
        keep(folder.address, "words > 2", write="shards", engine=SERIAL)
    with pytest.raises(InputError, match=r"no captious-run.json, expected a folder that captious score wrote"):
        keep(tmp_path, "words > 2")
    with pytest.raises(InputError, match=r"no metric or column 'cider'"):
        keep(folder.address, "cider > 2", out=tmp_path / "new.txt")
    folder.storage.remove("items/b.parquet")
    with pytest.raises(InputError, match=r"items/b\.parquet: is missing, expected a folder that captious score wrote"):
        keep(folder.address, "words > 2", out=tmp_path / "new.txt")
    assert not (tmp_path / "new.txt").exists()


def test_an_id_with_a_line_break_needs_jsonl(tmp_path):
    rows = {"a": [{"id": "1\n2", "caption": "a dog runs", "references": ["a dog"]}]}
    folder = scored(write_lines(tmp_path / "shards", rows), tmp_path / "scores")
    with pytest.raises(InputError, match=r"has a line break; write the ids to a .jsonl file"):
        keep(folder.address, "words > 2", out=tmp_path / "ids.txt")
    assert not (tmp_path / "ids.txt").exists()


def test_an_empty_shard_passes_nothing(tmp_path):
    folder = scored(write_lines(tmp_path / "shards", {**ROWS, "d": []}), tmp_path / "scores")
    selection = keep(folder.address, "rouge > 0.5", out=tmp_path / "out", write="shards", engine=SERIAL)
    assert [one.passing for one in selection.shards] == [2, 2, 0, 0]
    assert (tmp_path / "out" / "d.jsonl").read_bytes() == b""


def test_the_page_and_json_say_the_same(folder, tmp_path):
    selection = keep(folder.address, "rouge > 0.5 and words > 2")
    data = json.loads(selection.to_json())
    assert data["passing"] == 2 and data["clauses"][0]["dropped"] == 3 and data["shards"][0]["shard"] == "a"
    text = str(selection)
    assert "2 of 6 items pass (33.3 %)" in text and "ROUGE-L: image is broken" in text
    assert "Per shard 0.0 % to 50.0 % of the items pass, 33.3 % in the middle." in text  # 0 of 1, 1 of 3, 1 of 2
    assert selection.to_pandas("clauses")["left"].tolist() == [3, 2]


def test_json_lines_are_kept_as_they_are(tmp_path):
    lines = [
        b'{"id": 1, "caption": "a dog runs on",   "references": ["a dog"], "extra": [1,2]}\r\n',
        b"\n",
        b"no json\n",
        b'{"id": 2, "caption": "a dog", "references": ["a dog"]}\n',
        b'{"caption":"a cat sits there","id":3.0,"references":["a dog"]}',
    ]
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "a.jsonl.gz").write_bytes(gzip.compress(b"".join(lines)))
    folder = scored(str(tmp_path / "shards" / "*"), tmp_path / "scores")
    keep(folder.address, "words > 2", out=tmp_path / "out", write="shards", engine=SERIAL)
    assert gzip.decompress((tmp_path / "out" / "a.jsonl.gz").read_bytes()) == lines[0] + lines[4] + b"\n"


def test_shards_without_an_ending_get_that_of_their_format(tmp_path):
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS["a"])
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "part").write_bytes(lines)
    out = tmp_path / "scores"
    source, jsonl = [str(tmp_path / "shards" / "part")], Reading(format="jsonl")
    score_shards(source, "rouge", out=out, reading=jsonl, resampling=Resampling(0), engine=SERIAL)
    keep(out, "words > 0", out=tmp_path / "out", write="shards", engine=SERIAL)
    assert (tmp_path / "out" / "part.jsonl").read_bytes() == lines


def test_parquet_rows_keep_their_columns_and_schema(tmp_path):
    table = pa.table(
        {
            "image_id": pa.array([7, 8, 9], pa.int32()),
            "caption": ["a dog runs", "a dog", "two cats sit"],
            "references": [["a dog"]] * 3,
            "width": pa.array([1, None, 3], pa.int16()),
        }
    ).replace_schema_metadata({"origin": "web"})
    (tmp_path / "shards").mkdir()
    pq.write_table(table, tmp_path / "shards" / "0.parquet", row_group_size=2, compression="gzip")
    folder = scored(str(tmp_path / "shards" / "*"), tmp_path / "scores")
    keep(folder.address, "words > 2", out=tmp_path / "out", write="shards", engine=SERIAL)
    kept = pq.read_table(tmp_path / "out" / "0.parquet")
    assert kept.equals(table.take([0, 2])) and kept.schema.metadata[b"origin"] == b"web"
    assert pq.ParquetFile(tmp_path / "out" / "0.parquet").metadata.row_group(0).column(0).compression == "GZIP"


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_members_of_tars_are_copied_byte_for_byte(tmp_path, format):
    long = "deep/" * 12 + "x" * 40  # longer than a header holds without an extension
    members = {
        "001.jpg": b"\xff\xd8 picture one",
        "001.txt": b"a red dog runs",
        "001.json": b'{"width": 640}',
        f"{long}.txt": b"two cats sit there",
        f"{long}.png": bytes(range(256)) * 5,
        "003.txt": b"a dog",
    }
    write_tar(tmp_path / "shards" / "0.tar", members, format)
    folder = scored(str(tmp_path / "shards" / "*.tar"), tmp_path / "scores", "vocab_size")
    selection = keep(folder.address, "words > 2", out=tmp_path / "out", write="shards", engine=Engine("serial"))
    assert selection.passing == 2
    with tarfile.open(tmp_path / "out" / "0.tar") as tar:
        assert {one.name: tar.extractfile(one).read() for one in tar} == {
            name: content for name, content in members.items() if not name.startswith("003")
        }
    original, rewritten = ((tmp_path / part / "0.tar").read_bytes() for part in ("shards", "out"))
    assert len(rewritten) % 10_240 == 0
    content = rewritten.rstrip(b"\0")
    assert original.startswith(content[: -len(content) % 512 or None])


def test_a_sample_is_found_by_the_id_of_its_json(tmp_path):
    members = {"001.txt": b"a red dog", "001.json": b'{"__key__": "other"}', "002.txt": b"a red dog"}
    write_tar(tmp_path / "shards" / "0.tar", members)
    folder = scored(str(tmp_path / "shards" / "*.tar"), tmp_path / "scores", "vocab_size")
    keep(folder.address, 'id == "other"', out=tmp_path / "out", write="shards", engine=SERIAL)
    with tarfile.open(tmp_path / "out" / "0.tar") as tar:
        assert tar.getnames() == ["001.txt", "001.json"]


def test_the_same_again_goes_on_where_it_stopped(folder, tmp_path):
    out = tmp_path / "out"
    keep(folder.address, "words > 2", out=out, write="shards", engine=SERIAL)
    contents = {path.name: path.read_bytes() for path in out.iterdir()}
    untouched = out / "a.jsonl"
    untouched.write_bytes(b"as it was")
    (out / "b.jsonl").unlink()
    keep(folder.address, "words > 2", out=out, write="shards", engine=SERIAL)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {**contents, "a.jsonl": b"as it was"}
    with pytest.raises(InputError, match=r"contains shards that were selected by 'words > 2'; pass overwrite=True"):
        keep(folder.address, "words > 3", out=out, write="shards", engine=SERIAL)
    keep(folder.address, "words > 4", out=out, write="shards", engine=SERIAL, overwrite=True)
    assert (out / "a.jsonl").read_text().count("\n") == 1
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(InputError, match=r"exists and was not written by captious"):
        keep(folder.address, "words > 3", out=tmp_path / "mine", write="shards", engine=SERIAL)


def test_a_shard_that_cannot_be_read_any_more_is_named(folder, tmp_path):
    (tmp_path / "shards" / "b.jsonl").unlink()
    with pytest.raises(InputError, match=r"1 of 3 shards failed, such as b: .*no such file; run it again to resume"):
        keep(folder.address, "words > 2", out=tmp_path / "out", write="shards", engine=SERIAL)
    assert (tmp_path / "out" / "a.jsonl").exists()


def test_tables_that_cannot_be_rewritten_are_refused_first(tmp_path):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "a.csv").write_text("id,caption\n1,a dog runs\n")
    folder = scored(str(tmp_path / "shards" / "*.csv"), tmp_path / "scores", "vocab_size")
    with pytest.raises(InputError, match=r"is csv, write='shards' writes .parquet, .jsonl, .tar; pass write='ids'"):
        keep(folder.address, "words > 2", out=tmp_path / "out", write="shards", engine=SERIAL)
    assert not (tmp_path / "out").exists()


def test_processes_write_what_one_process_writes(folder, tmp_path):
    for engine in ("serial", "processes"):
        keep(folder.address, "words > 2", out=tmp_path / engine, write="shards", engine=Engine(engine, jobs=2))
    serial, processes = (
        {path.name: path.read_bytes() for path in (tmp_path / engine).iterdir()} for engine in ("serial", "processes")
    )
    assert serial == processes
