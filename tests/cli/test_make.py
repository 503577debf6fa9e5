"""``captious make units`` as a user types it."""

import json
import pickle

import pytest

CAPTION = "A cat is lying under a blanket with fringed edges."


@pytest.fixture
def units(run):
    return lambda *arguments: run("make", "units", *arguments)


@pytest.fixture
def file(tmp_path):
    rows = [{"id": 7, "caption": CAPTION}, {"id": 8, "caption": ["A dog with a ball.", "A dog"], "split": "test"}]
    path = tmp_path / "captions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_caption_is_printed_with_bars_and_as_a_list(units):
    code, out, err = units(CAPTION)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "A cat is | lying under a blanket | with fringed edges .",
        "  1  A cat is",
        "  2  lying under a blanket",
        "  3  with fringed edges .",
    ]


def test_the_papers_grammar_the_surface_and_legacy(units):
    assert units(CAPTION, "--grammar", "paper")[1].startswith("A cat is lying under a blanket | with fringed edges .\n")
    assert units(CAPTION, "--surface")[1].splitlines()[-1] == "  3  with fringed edges."
    assert units(CAPTION, "--auxiliaries")[1].startswith("A cat is lying under a blanket | with fringed edges .\n")
    assert units("A dog runs!", "--legacy")[1].splitlines()[0] == "A dog runs | !"


def test_tags_and_phrases_can_be_seen(units):
    out = units("A dog runs [fast].", "--tags")[1]
    assert out.splitlines()[0].startswith("A/DT dog/NN runs/VBZ [/")
    assert out.splitlines()[1].startswith("[CLAUSE [NP A dog] [VP runs]]")


def test_json_holds_units_and_options(units):
    content = json.loads(units(CAPTION, "--json", "--tags")[1])
    assert content["units"] == ["A cat is", "lying under a blanket", "with fringed edges ."]
    assert (content["grammar"], content["legacy"], content["text"], content["tagger"]) == (
        "code",
        False,
        "tokens",
        "captious",
    )
    assert content["tagged"][0]["tags"][:3] == ["DT", "NN", "VBZ"]


def test_a_file_keeps_its_rows_and_gains_units(units, file, tmp_path):
    out = tmp_path / "cut.jsonl"
    assert units("--file", file, "--out", out)[0] == 0
    first, second = map(json.loads, out.read_text().splitlines())
    assert first == {
        "id": 7,
        "caption": CAPTION,
        "units": ["A cat is", "lying under a blanket", "with fringed edges ."],
    }
    assert second["units"] == [["A dog", "with a ball ."], ["A dog"]]
    assert second["split"] == "test"
    assert [json.loads(line) for line in units("--file", file)[1].splitlines()] == [first, second]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected either a caption or --file"),
        ((CAPTION, "--file", "x.jsonl"), "expected either a caption or --file"),
        ((CAPTION, "--out", "x.jsonl"), "--out is for --file"),
        ((CAPTION, "--legacy", "--surface"), "no surface"),
        (("--file", "missing.jsonl"), "missing.jsonl: no such file"),
    ],
)
def test_wishes_that_do_not_go_together(units, arguments, message):
    code, out, err = units(*arguments)
    assert (code, out) == (2, "")
    assert message in err and len(err.strip().splitlines()) == 1


def test_bad_rows_are_named(units, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": 1, "sentence": "a dog"}\n')
    assert "bad.jsonl: row 1: no caption: found columns id, sentence, expected" in units("--file", path)[2]
    assert units("--file", path, "--candidate-column", "sentence")[0] == 0
    path.write_text('{"id": 1, "caption": 3}\n')
    assert "row 1: caption is 3, expected a string" in units("--file", path)[2]
    path.write_text('{"id": 1, "caption": " "}\n{"id": 2, "caption": []}\n{"id": 3, "caption": "a dog"}\n')
    assert "warning: 2 empty captions have no units" in units("--file", path)[2]


def test_an_output_is_not_replaced_unasked(units, file, tmp_path):
    out = tmp_path / "cut.jsonl"
    out.write_text("mine")
    code, _, err = units("--file", file, "--out", out)
    assert (code, out.read_text()) == (2, "mine")
    assert "--overwrite" in err
    assert units("--file", file, "--out", out, "--overwrite")[0] == 0
    assert len(out.read_text().splitlines()) == 2


def test_a_file_given_as_a_caption_is_not_cut_into_words(units, file):
    code, out, err = units(file)
    assert (code, out) == (2, "") and f"is a file, not a caption; give it as --file {file}" in err
    assert units("a very long caption " * 500)[0] == 0


def test_a_pickled_idf_table_is_imported_and_captions_are_counted(run, tmp_path):
    table = tmp_path / "coco-val-df.p"
    table.write_bytes(pickle.dumps({("a", "dog"): 2.0, ("a",): 3.0}, protocol=0))
    code, _, err = run("make", "idf", table, "--name", "mine")
    assert code == 2 and "a bare table and --items" in err
    assert "mine:3:" in run("make", "idf", table, "--name", "mine", "--items", 3)[1]
    assert (
        "is a pickle of counts; leave out the names of columns"
        in run("make", "idf", table, "--name", "other", "--items", 3, "--id-column", "x")[2]
    )
    code, _, err = run("make", "idf", table, "--name", "spaces", "--items", 3, "--tokenizer", "whitespace")
    assert code == 0 and "write cider(idf=spaces,tokenizer=whitespace)" in err
    words = tmp_path / "coco-train-words.p"
    words.write_bytes(pickle.dumps({"ref_len": 3, "document_frequency": {("UNK",): 2.0, ("a",): 3.0}}))
    code, _, err = run("make", "idf", words, "--name", "words")
    assert code == 0 and "its tokens are those of whitespace" in err
    captions = tmp_path / "captions.json"
    captions.write_text(json.dumps({"1": ["a dog"], "2": ["a cat"]}))
    assert "(2 items;" in run("make", "idf", captions, "--out", tmp_path / "my.idf")[1]
    assert "leave out --items" in run("make", "idf", captions, "--name", "third", "--items", 2)[2]
