"""The bias commands end to end, as a user types them."""

import json

import pytest
from lab.toy import make


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    sample = make(500, bias=0.8, human_bias=0.1)
    rows = [row for scene in sample.scenes() if (row := sample.biased(scene))]
    people = [{"id": row["id"], "references": row["references"], "gender": row["label"]} for row in rows]
    for name, content in (("preds", [{"id": r["id"], "caption": r["caption"]} for r in rows]), ("humans", people)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content))
    return folder


@pytest.fixture
def lic(run, planted):
    files = (planted / "preds.jsonl", "--references", planted / "humans.jsonl", "--seeds", "2")
    return lambda *more: run("bias", "lic", *files, *(() if "--label" in more else ("--label", "gender")), *more)


def test_a_table_and_a_folder(lic, tmp_path):
    code, out, err = lic("--out", tmp_path / "audit")
    assert code == 0, err
    assert "LIC_M ± sd" in out and "chance level 25.0" in out and "preds" in out
    assert (tmp_path / "audit" / "report.html").exists()
    code, _, err = lic("--out", tmp_path / "audit")
    assert code == 2 and "already exists" in err


def test_json_only_on_standard_output(lic):
    found = json.loads(lic("--json")[1])
    assert found["results"][0]["lic"] > 20 and found["protocol"]["mask"] == "gender"


def test_a_preset_changes_the_protocol(lic):
    found = json.loads(lic("--json", "--preset", "relic")[1])
    assert found["protocol"]["preset"] == "relic-gender" and found["protocol"]["tokenizer"] == "treebank"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--label", "color"), "no column 'color' for the labels"),
        (("--mask", "agee"), "no such list or file"),
        (("--classifier", "lstn"), "did you mean 'lstm'"),
        (("--vocabulary", "absent.txt"), "no such file"),
        (("--preset", "hirotta"), "no preset"),
        (("--level", "2"), "confidence level"),
    ],
)
def test_bad_options_get_one_line_and_exit_code_2(lic, arguments, message):
    code, _, err = lic(*arguments)
    assert code == 2 and message in err and len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(["a", "man"]), "is JSON, expected a text file with one word per line"),
        (json.dumps({"a": 0, "man": 1}, indent=1), "is JSON, expected a text file with one word per line"),
        ("word,count\na,12\nman,9\n", "no human caption of preds has one of its 3 words, such as 'a,12'"),
    ],
)
def test_a_vocabulary_that_is_no_list_of_words_is_refused(lic, tmp_path, content, message):
    (tmp_path / "vocab").write_text(content)
    code, out, err = lic("--vocabulary", tmp_path / "vocab")
    assert code == 2 and message in err and not out and len(err.strip().splitlines()) == 1


def test_one_class_and_small_classes(run, planted, tmp_path):
    rows = [json.loads(line) for line in (planted / "humans.jsonl").read_text().splitlines()]
    for changed, message in ((len(rows), "expected at least two classes"), (len(rows) - 4, "has 4 images")):
        people = [{**row, "gender": "a" if number < changed else "b"} for number, row in enumerate(rows)]
        (tmp_path / "humans.jsonl").write_text("".join(json.dumps(row) + "\n" for row in people))
        code, _, err = run("bias", "lic", planted / "preds.jsonl", "-r", tmp_path / "humans.jsonl", "--label", "gender")
        assert code == 2 and message in err


def test_a_mask_of_ones_own(lic, tmp_path):
    (tmp_path / "words.txt").write_text("two words\n")
    code, _, err = lic("--mask", tmp_path / "words.txt")
    assert code == 2 and "row 1: 'two words' is not a word" in err


def test_a_classifier_with_parameters(lic):
    shown = json.loads(lic("--json", "--classifier", "linear(c=0.1)")[1])
    assert shown["classifiers"]["linear"]["c"] == 0.1
    code, _, err = lic("--classifier", "lstm(stac=4)")
    assert code == 2 and "did you mean 'stack'" in err


def test_an_interrupted_audit_says_that_the_same_command_goes_on(lic, monkeypatch):
    from captious.bias.classifiers.linear import Linear

    def interrupted(self, tasks, progress):
        raise KeyboardInterrupt

    monkeypatch.setattr(Linear, "train", interrupted)
    for more, said in (((), True), (("--no-cache",), False)):
        code, out, err = lic(*more)
        assert code == 130 and not out and ("the same command resumes from there" in err) == said


def test_words_and_presets_are_printed(run):
    words = run("bias", "words", "gender")[1].split()
    assert len(words) == 50 and "woman" in words
    shown = run("bias", "presets", "relic-age")[1]
    assert "bert-pre: 5 epochs at 1e-05" in shown and "<unk> becomes three ordinary words" in " ".join(shown.split())
    assert set(json.loads(run("bias", "presets", "--json")[1])) >= {"hirota-gender", "relic-age-human"}
