"""The commands as a user types them: what they print, what they write, and how they fail."""

import json
import re

import pyarrow.parquet as pq
import pytest
from lab.toy import make, write

from captious._core.files import OUTPUT, RUN


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write(make(items=25), tmp_path_factory.mktemp("sample") / "s")


def files(sample, name="solid"):
    return sample / "predictions" / f"{name}.json", "--references", sample / "references.json"


def test_score_prints_a_table_and_a_signature_for_every_number(run, sample):
    code, out, _ = run("score", *files(sample))
    assert code == 0
    for label in ("BLEU-1", "BLEU-4", "ROUGE-L", "CIDEr-D", "95% interval"):
        assert label in out
    assert "shared: tok:ptb.1|items:25|" in out and "\ncider|variant:d|idf:refs:25:" in out
    full = run("score", *files(sample), "--signatures")[1]
    assert "shared:" not in full and "\ncider|tok:ptb.1|variant:d|idf:refs:25:" in full


def test_score_as_json(run, sample):
    code, out, _ = run("score", *files(sample), "--metrics", "bleu(n=4),cider(idf=refs),div_n", "--json")
    assert code == 0
    assert [row["label"] for row in json.loads(out)["metrics"]] == ["BLEU-4", "CIDEr-D", "div-2"]


def test_score_explains_an_item(run, sample, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    options = ("--samples", 0, "--metrics", "bleu(n=4),cider,vocab_size", "--explain", "1003")
    code, out, _ = run("score", *files(sample), *options, "--out", tmp_path / "why")
    assert code == 0 and max(map(len, out.splitlines())) <= 80
    assert "CIDEr-D" in out and "n-gram" in out and "reference" in out and "adds" in out
    assert re.search(r"candidate: .*\[[a-z ]+\]", out) and out.count("\nsum: ") == 2
    assert "vocab_size does not explain single values" in out
    assert ">n-gram</th>" in (tmp_path / "why" / "report.html").read_text()
    explained = json.loads(run("score", *files(sample), *options, "--json")[1])["explanations"]
    assert explained["id"] == "1003" and explained["unexplained"] == ["vocab_size"]
    values = pq.read_table(tmp_path / "why" / "items" / "captions.parquet").to_pylist()[2]
    assert values["id"] == "1003"
    for one in explained["metrics"]:
        assert one["value"] == pytest.approx(values[one["metric"]], abs=1e-12)
        assert sum(part["adds"] for part in one["parts"]) == pytest.approx(one["value"], abs=1e-12)


def test_score_explains_no_item_that_is_not_there(run, sample, tmp_path):
    code, out, err = run("score", *files(sample), "--explain", "10003", "--out", tmp_path / "why")
    assert code == 2 and not out and not (tmp_path / "why").exists()
    assert err.count("\n") == 1 and "solid.json: no item with id '10003'; did you mean '1003'?" in err


def test_score_as_latex_and_the_worst(run, sample):
    assert r"\begin{tabular}" in run("score", *files(sample), "--latex")[1]
    out = run("score", *files(sample, "sloppy"), "--worst", "3")[1]
    assert "worst 3 by CIDEr-D" in out


def test_score_writes_a_run_and_refuses_to_overwrite_it(run, sample, tmp_path):
    target = tmp_path / "run1"
    assert run("score", *files(sample), "--out", target, "--images", sample / "images")[0] == 0
    assert (target / "report.html").exists() and (target / RUN).exists()
    code, _, error = run("score", *files(sample), "--out", target)
    assert code == 2 and "already exists; pass --overwrite" in error
    assert run("score", *files(sample), "--out", target, "--overwrite")[0] == 0


def test_a_failed_score_writes_nothing(run, sample, tmp_path):
    code, out, error = run("score", *files(sample), "--metrics", "ciderr", "--out", tmp_path / "run")
    assert (code, out) == (2, "")
    assert error.startswith("captious: unknown metric 'ciderr'") and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("score", "nowhere.json"), "captious: nowhere.json: no such file"),
        (("score", "a cat sits"), "captious: a cat sits: no such file, expected a file of captions\n"),
        (("score", "{predictions}", "--metrics", "bleu"), "no references; pass --references"),
        (("score", "{predictions}", "-r", "{references}", "--level", "95"), "confidence level 95.0, expected"),
        (("score", "{predictions}", "-r", "{references}", "-m", "cider(idf=nope)"), "no idf corpus 'nope'"),
        (("score", "{predictions}", "-r", "{references}", "--images", "nowhere"), "nowhere: no such folder of images"),
        (("compare", "{predictions}", "-r", "{references}"), "1 system given, expected at least two"),
        (("metrics", "sidder"), "unknown metric 'sidder'"),
        (("make", "idf", "{references}"), "expected either --out FILE or --name NAME"),
    ],
)
def test_mistakes_get_one_line_and_exit_code_2(run, sample, arguments, message):
    values = {"predictions": sample / "predictions" / "solid.json", "references": sample / "references.json"}
    code, out, error = run(*(str(part).format(**values) for part in arguments))
    assert (code, out) == (2, "")
    assert message in error and error.count("\n") == 1


def test_missing_ids_can_be_skipped_and_the_signature_says_so(run, sample, tmp_path):
    references = json.loads((sample / "references.json").read_text())
    first = next(iter(references))
    del references[first]
    (tmp_path / "refs.json").write_text(json.dumps(references))
    predictions = sample / "predictions" / "solid.json"
    code, _, error = run("score", predictions, "-r", tmp_path / "refs.json")
    assert code == 2 and f"1 id ({first}) without references" in error
    code, out, _ = run("score", predictions, "-r", tmp_path / "refs.json", "--missing", "skip")
    assert code == 0 and "|skipped:1|" in out


def test_what_cannot_be_written_is_one_line(run, sample, tmp_path):
    (tmp_path / "file").write_text("x")
    code, out, error = run("score", *files(sample), "-m", "rouge", "--out", tmp_path / "file" / "run")
    assert code == 2 and error.count("\n") == 1 and "cannot be written" in error and not out


def test_compare_cuts_to_the_shared_items_when_told(run, sample, tmp_path):
    rows = json.loads((sample / "predictions" / "solid.json").read_text())
    (tmp_path / "fewer.v2.json").write_text(json.dumps(rows[3:]))
    arguments = ("compare", tmp_path / "fewer.v2.json", sample / "predictions" / "expert.json", "-m", "rouge")
    references = ("-r", sample / "references.json")
    code, _, error = run(*arguments, *references)
    assert code == 2 and "--missing skip" in error
    code, out, _ = run(*arguments, *references, "--missing", "skip")
    assert code == 0 and "22 items" in out and "expert − fewer.v2" in out


def test_compare_takes_names_and_metrics_may_be_repeated(run, sample):
    systems = [f"{name}={sample / 'predictions' / file}.json" for name, file in (("XE", "solid"), ("RL", "expert"))]
    metrics = ("-m", "rouge", "-m", "bleu(n=4),cider")
    code, out, _ = run("compare", *systems, "-r", sample / "references.json", *metrics, "--json", "--permutations", 50)
    assert code == 0 and list(json.loads(out)["systems"]) == ["XE", "RL"]
    assert [row["metric"] for row in json.loads(out)["differences"]] == ["rouge", "bleu(n=4)", "cider"]


def test_compare(run, sample, tmp_path):
    systems = [sample / "predictions" / f"{name}.json" for name in ("parrot", "solid", "expert")]
    code, out, _ = run("compare", *systems, "-r", sample / "references.json", "-m", "cider", "--out", tmp_path / "c")
    assert code == 0
    assert "expert − parrot" in out and "paired randomization(10000,seed=12345)" in out
    assert (tmp_path / "c" / "report.html").exists()
    code, out, _ = run("compare", *systems, "-r", sample / "references.json", "-m", "cider", "--json", "--every-pair")
    assert len(json.loads(out)["differences"]) == 3


def test_check(run, sample, tmp_path):
    code, _, _ = run("check", *files(sample))
    assert code == 0
    path = tmp_path / "p.json"
    path.write_text('{"1": 5}')
    code, out, _ = run("check", path)
    assert code == 2 and "caption is a number (5)" in out
    assert json.loads(run("check", path, "--json")[1])["findings"][0]["level"] == "error"
    path.write_text('{"1": "a dog", "2": null}')
    code, out, _ = run("check", path)
    assert code == 2 and "pass --missing skip to leave it out" in " ".join(out.split())
    code, out, _ = run("check", path, "--missing", "skip")
    assert code == 0 and "1 left out: caption is null (id '2')" in " ".join(out.split())
    code, out, _ = run("check", "a cat sits")
    assert code == 2 and out == "a cat sits\nerror: a cat sits: no such file\n"


def test_metrics(run):
    assert "selfcider" in run("metrics")[1] and "Self-CIDEr" in run("metrics", "--all")[1]
    assert "CVPR 2015" in run("metrics", "cider")[1]
    assert json.loads(run("metrics", "cider", "--json")[1])["facts"]["range"] == "0 to 10"
    assert {row["name"] for row in json.loads(run("metrics", "--json")[1])["metrics"]} >= {"bleu", "cider"}


def test_idf_build_by_name_then_score_with_it(run, sample, tmp_path):
    code, out, _ = run("make", "idf", sample / "references.json", "--name", "drawn")
    assert code == 0 and "drawn:25:" in out
    code, _, error = run("make", "idf", sample / "references.json", "--name", "drawn")
    assert code == 2 and "--overwrite to replace it" in error
    own = json.loads(run("score", *files(sample), "-m", "cider", "--json")[1])["metrics"][0]["value"]
    named = json.loads(run("score", *files(sample), "-m", "cider(idf=drawn)", "--json")[1])["metrics"][0]
    assert named["value"] == pytest.approx(own, abs=1e-12) and "idf:drawn:25:" in named["signature"]
    assert run("make", "idf", sample / "references.json", "--out", tmp_path / "my.idf")[0] == 0
    assert run("score", *files(sample), "-m", f"cider(idf={tmp_path / 'my.idf'})")[0] == 0


def test_demo_ends_in_a_table_and_a_page(run, tmp_path):
    code, out, _ = run("demo", "--out", tmp_path / "demo")
    assert code == 0
    assert all(name in out for name in ("parrot", "sloppy", "solid", "expert"))
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000


def test_version(run):
    assert run("--version")[1].startswith("captious 0.")
    assert run("-V") == run("--version")


def test_scores_in_percent(run, sample):
    value = json.loads(run("score", *files(sample), "-m", "bleu(n=4),vocab_size", "--json", "--percent")[1])["metrics"]
    assert 0 < value[0]["value"] < 1  # data stay as they are
    out = run("score", *files(sample), "-m", "bleu(n=4),vocab_size", "--percent")[1]
    cells = re.findall(r"│ (\S+) +│ +(\S+) │", out)
    assert cells == [("BLEU-4", f"{100 * value[0]['value']:.1f}"), ("vocab_size", f"{value[1]['value']:.0f}")]
    assert "Scores are shown × 100." in out and "\nshown:x100\n" in out
    latex = run("score", *files(sample), "-m", "bleu(n=4)", "--percent", "--latex")[1]
    assert f"BLEU-4 & {100 * value[0]['value']:.1f} & [" in latex and "% Scores are shown × 100." in latex
    printed = [run("score", *files(sample), "-m", "rouge", "--json", *percent)[1] for percent in ((), ("--percent",))]
    assert printed[0] == printed[1]


def test_a_comparison_in_percent(run, sample, tmp_path):
    systems = [sample / "predictions" / f"{name}.json" for name in ("solid", "expert")]
    arguments = ("compare", *systems, "-r", sample / "references.json", "-m", "cider", "--permutations", 50)
    data = json.loads(run(*arguments, "--json")[1])
    code, out, _ = run(*arguments, "--percent", "--out", tmp_path / "c")
    first = data["systems"]["solid"]["metrics"][0]
    assert code == 0 and f"{100 * first['value']:.1f} ± {50 * (first['high'] - first['low']):.1f}" in out
    row = data["differences"][0]
    assert f"{100 * row['difference']:+.2f} │ {100 * row['low']:+.2f} – {100 * row['high']:+.2f}" in out
    written = json.loads((tmp_path / "c" / OUTPUT).read_text())
    assert written["differences"] == data["differences"]
    page = (tmp_path / "c" / "report.html").read_text()
    assert "Scores are shown × 100." in page and f"{100 * first['value']:.1f} ±" in page


def test_csv_on_standard_output_and_in_a_file(run, sample, tmp_path):
    code, out, _ = run("score", *files(sample), "-m", "rouge", "--csv", "--out", tmp_path / "scores.csv", "--percent")
    assert code == 0 and out.splitlines()[0] == "metric,value,value_low,value_high"
    value = json.loads(run("score", *files(sample), "-m", "rouge", "--json")[1])["metrics"][0]
    assert out.splitlines()[1] == f"ROUGE-L,{value['value']!r},{value['low']!r},{value['high']!r}"
    assert (tmp_path / "scores.csv").read_text() == out
    code, _, error = run("score", *files(sample), "-m", "rouge", "--out", tmp_path / "scores.csv")
    assert code == 2 and "scores.csv: already exists; pass --overwrite to replace it" in error
    code, _, error = run("score", *files(sample), "-m", "rouge", "--csv", "--json")
    assert code == 2 and "--json as well as --csv, expected one form" in error


@pytest.mark.parametrize(
    ("suffix", "beginning"),
    [("json", b"{"), ("parquet", b"PAR1"), ("html", b"<!DOCTYPE html>"), ("tex", b"% solid.json"), ("txt", b"solid")],
)
def test_the_suffix_of_out_chooses_one_file(run, sample, tmp_path, suffix, beginning):
    target = tmp_path / f"new/scores.{suffix}"
    code, _, error = run("score", *files(sample), "-m", "rouge", "--out", target)
    assert code == 0 and error.endswith(f"written: {target}\n")
    assert target.read_bytes().startswith(beginning) and list(target.parent.iterdir()) == [target]


def test_a_tilde_after_an_equals_sign_is_the_home(run, sample, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run("score", *files(sample), "-m", "rouge", "--out=~/run")[0] == 0
    assert (tmp_path / "run" / "report.html").exists()


def test_the_same_file_twice_gets_two_names(run, sample, monkeypatch):
    monkeypatch.chdir(sample / "predictions")
    arguments = ("compare", "solid.json", "solid.json", "-r", "../references.json", "-m", "rouge", "--permutations", 9)
    assert list(json.loads(run(*arguments, "--json")[1])["systems"]) == ["solid", "solid-2"]


def test_compare_without_intervals(run, sample):
    systems = [sample / "predictions" / f"{name}.json" for name in ("parrot", "expert")]
    arguments = ("compare", *systems, "-r", sample / "references.json", "-m", "cider", "--permutations", 200)
    tested = json.loads(run(*arguments, "--json")[1])["differences"][0]
    code, out, _ = run(*arguments, "--samples", 0, "--json")
    (row,) = json.loads(out)["differences"]
    assert code == 0 and row == {**tested, "low": None, "high": None}
    assert "interval" not in run(*arguments, "--samples", 0)[1]
    code, _, error = run(*arguments, "--samples", 0, "--test", "bootstrap")
    assert code == 2 and "--samples 0: the bootstrap test needs resamples" in error


def test_references_without_a_flag_are_pointed_to_it(run, sample):
    predictions, _, references = files(sample)
    code, out, error = run("score", predictions, references)
    assert (code, out) == (2, "") and "write -r" in error


def test_what_lowers_a_number_is_said_beside_it(run, tmp_path):
    captions = {str(number): "" if number % 2 else "a dog" for number in range(20)}
    (tmp_path / "p.json").write_text(json.dumps(captions))
    (tmp_path / "r.json").write_text(json.dumps({key: ["a dog runs", "the dog"] for key in captions}))
    code, _, error = run("score", tmp_path / "p.json", "-r", tmp_path / "r.json", "-m", "cider")
    assert code == 0
    assert (
        "warning: 10 empty candidate captions (id 1, 3, 5, 7, 9, …), 50% of all: kept; metrics that count words"
        in error
    )
    assert "warning: CIDEr's idf comes from only 20 items, and fewer items give higher values" in error


def test_an_id_cannot_drive_the_terminal_through_an_error(run, tmp_path):
    (tmp_path / "p.json").write_text(json.dumps({"\x1b[2J": "a dog"}))
    (tmp_path / "r.json").write_text(json.dumps({"2": ["a dog"]}))
    code, _, error = run("score", tmp_path / "p.json", "-r", tmp_path / "r.json")
    assert code == 2 and "\x1b" not in error and "␛[2J" in error
