"""A run folder alone explains its scores: with the state of the run, or with an error that says what has changed."""

import copy
import json
import pickle
import shutil

import pytest
from PIL import Image

import captious
from captious import CaptionSet, InputError, Resampling
from captious._core.files import RUN
from captious.metrics.style.fitting import fit
from captious.metrics.style.model_files import save
from captious.runs import open_run
from captious.text.idf import DocumentFrequency

CANDIDATES = {"1": "a red dog", "2": ["a cat", "one cat"], "3": "", "4": "a fine day"}
REFERENCES = {"1": ["a red dog", "the dog"], "2": ["one cat"], "3": ["a bird"], "4": []}


def captions(**columns):
    return CaptionSet.of(
        CANDIDATES, REFERENCES, {"style": ["happy", "happy", "gloomy", "happy"], **columns}, "preds.json"
    )


def test_a_run_explains_what_the_report_did(tmp_path):
    save(fit([("gloomy", "a grey day"), ("happy", "a fine day")]), tmp_path / "two.style")
    metrics = f"bleu(n=1),bleu(n=4),rouge,cider,vocab_size,onlystyle(model={tmp_path / 'two.style'})"
    report = captious.evaluate(captions(), metrics, resampling=Resampling(20))
    report.save(tmp_path / "run")
    run = open_run(tmp_path / "run")
    assert run.captions.fingerprint == report.captions.fingerprint
    for id in CANDIDATES:
        ours, theirs = run.explain(id), report.explain(id)
        assert ours.to_json() == theirs.to_json()
        assert ours.unexplained == ["vocab_size"]
    assert run.explain(1, "CIDEr-D")["cider"].value == pytest.approx(report["cider"].items["1"], abs=1e-12)
    assert run.explain(1, "bleu")["bleu"].metric == report.explain(1, "bleu")["bleu"].metric == "bleu(n=4)"
    assert repr(run) == repr(report)


def test_what_has_changed_since_is_an_error(tmp_path):
    corpus = [CaptionSet.of({"1": (), "2": ()}, {"1": ["a dog"], "2": [text]}) for text in ("a cat", "a red cat")]
    DocumentFrequency.of(corpus[0]).save(tmp_path / "own.idf")
    report = captious.evaluate(captions(), f"cider(idf={tmp_path / 'own.idf'})", resampling=Resampling(0))
    report.save(tmp_path / "run")
    value = open_run(tmp_path / "run").explain("1")["cider"].value
    assert value == pytest.approx(report["cider"].items["1"], abs=1e-12) and value > 0
    (tmp_path / "own.idf").unlink()
    DocumentFrequency.of(corpus[1]).save(tmp_path / "own.idf")
    with pytest.raises(
        InputError, match=r"run: cider\(idf=.*own.idf\) was computed with idf:refs:2:\w+, now it is idf:refs:2:\w+$"
    ):
        open_run(tmp_path / "run").explain("1")


def test_unknown_ids_and_metrics_name_what_there_is(tmp_path):
    captious.evaluate(captions(), "rouge,cider", resampling=Resampling(0)).save(tmp_path / "run")
    run = open_run(tmp_path / "run")
    with pytest.raises(KeyError, match="no item with id '9'"):
        run.explain("9")
    with pytest.raises(KeyError, match=r"no metric 'cidr'; did you mean 'cider'\? There are rouge, cider"):
        run.explain("1", "cidr")


def test_a_value_that_comes_out_differently_is_said(tmp_path):
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    captious.evaluate(captions(), "rouge", resampling=Resampling(0)).save(tmp_path / "run")
    path = tmp_path / "run" / "items" / "captions.parquet"
    items = pq.read_table(path)
    place = items.column_names.index("rouge")
    pq.write_table(items.set_column(place, "rouge", pc.multiply(items["rouge"], 0.5)), path)
    explanation = open_run(tmp_path / "run").explain("1")["rouge"]
    assert explanation.breakdown.notes == ["the run has the value 0.500000, computed again it is 1.000000"]


def test_what_is_no_run_is_refused_in_one_line(tmp_path):
    captious.evaluate(captions(), "rouge", resampling=Resampling(0)).save(tmp_path / "run")
    with pytest.raises(InputError, match="nothing: no such folder, expected a folder that captious score wrote"):
        open_run(tmp_path / "nothing")
    with pytest.raises(InputError, match=f"no {RUN}, expected a folder that captious score wrote"):
        open_run(tmp_path)
    shutil.copytree(tmp_path / "run", tmp_path / "torn")
    (tmp_path / "torn" / "items" / "captions.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"captions\.parquet: is damaged, expected the scores of captious; remove it"):
        open_run(tmp_path / "torn")
    (tmp_path / "run" / "items" / "captions.parquet").unlink()
    with pytest.raises(InputError, match=r"captions\.parquet: is missing, expected a folder that captious score wrote"):
        open_run(tmp_path / "run")


@pytest.fixture
def demo_runs(tmp_path):
    """The runs of two demo systems, and their reports in memory."""
    systems = {name: captious.demo().systems[name] for name in ("sloppy", "expert")}
    reports = {
        name: captious.evaluate(one, "rouge,cider,vocab_size", resampling=Resampling(50))
        for name, one in systems.items()
    }
    for name, report in reports.items():
        report.save(tmp_path / name)
    return {name: tmp_path / name for name in systems}, reports


def test_saved_runs_are_compared_as_the_captions_are(demo_runs):
    folders, reports = demo_runs
    sets = {name: report.captions for name, report in reports.items()}
    expected = captious.compare(sets, "rouge,cider,vocab_size", resampling=Resampling(50), permutations=200)
    for systems in (folders, {name: open_run(folder) for name, folder in folders.items()}, reports):
        comparison = captious.compare(systems, None, resampling=Resampling(50), permutations=200)
        assert comparison.differences == expected.differences
        assert str(comparison) == str(expected)
    mixed = captious.compare({"sloppy": folders["sloppy"], "expert": sets["expert"]}, None, resampling=Resampling(50))
    assert mixed.differences[0].difference == expected.differences[0].difference


def test_runs_of_other_items_are_compared_on_what_they_share(demo_runs, tmp_path):
    folders, reports = demo_runs
    fewer = reports["expert"].captions.take(range(20, 60))
    captious.evaluate(fewer, "rouge", resampling=Resampling(0)).save(tmp_path / "fewer")
    systems = {"sloppy": folders["sloppy"], "fewer": tmp_path / "fewer"}
    with pytest.raises(InputError, match=r"sloppy and fewer differ in 20 ids .*pass missing='skip'"):
        captious.compare(systems, "rouge")
    comparison = captious.compare(systems, "rouge", resampling=Resampling(50), permutations=200, missing="skip")
    sets = {"sloppy": reports["sloppy"].captions, "fewer": fewer}
    expected = captious.compare(sets, "rouge", resampling=Resampling(50), permutations=200, missing="skip")
    assert comparison.differences == expected.differences
    assert comparison.reports["sloppy"].signature("rouge") == expected.reports["sloppy"].signature("rouge")
    with pytest.raises(InputError, match=r"fewer has no cider, only rouge"):
        captious.compare(systems, "cider")


def test_a_metric_is_added_and_the_others_are_not_computed(demo_runs, run, tmp_path, monkeypatch):
    folders, reports = demo_runs
    rows = [
        {"id": one.id, "caption": one.candidate, "references": one.references} for one in reports["expert"].captions
    ]
    (tmp_path / "expert.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr("captious.metrics.cider.Cider.score_items", lambda *arguments: pytest.fail("computed again"))
    code, out, errors = run(
        "score", tmp_path / "expert.jsonl", "--samples", "50", "--out", folders["expert"], "--add", "bleu(n=4),rouge"
    )
    assert code == 0, errors
    monkeypatch.undo()
    again, before = open_run(folders["expert"]), reports["expert"]
    whole = captious.evaluate(before.captions, "rouge,cider,vocab_size,bleu(n=4)", resampling=Resampling(50))
    assert list(again.measurements) == ["rouge", "cider", "vocab_size", "bleu(n=4)"] and "BLEU-4" in out
    for key in again.measurements:
        assert again[key].corpus == whole[key].corpus and again.signature(key) == whole.signature(key)
        assert again.intervals.get(key) == whole.intervals.get(key)
    (tmp_path / "expert.jsonl").write_text("".join(json.dumps({**row, "caption": "x"}) + "\n" for row in rows))
    code, _, errors = run("score", tmp_path / "expert.jsonl", "--out", folders["expert"], "--add", "rouge_n(n=2)")
    assert code == 2 and "expert.jsonl: has other captions than" in errors
    code, _, errors = run("score", tmp_path / "expert.jsonl", "--out", tmp_path / "new", "--add", "rouge")
    assert code == 2 and "new: no run to add metrics to" in errors and not (tmp_path / "new").exists()


def test_a_run_in_place_of_captions_is_shown_again(demo_runs, run):
    folders, reports = demo_runs
    code, out, _ = run("score", folders["expert"], "--explain", "1002", "--json")
    assert code == 0
    data = json.loads(out)
    assert data["metrics"][0]["value"] == reports["expert"]["rouge"].corpus
    assert [one["metric"] for one in data["explanations"]["metrics"]] == ["rouge", "cider"]
    code, out, _ = run("score", folders["expert"], "--worst", "2")
    assert code == 0 and "worst 2 by vocab_size" in out


def test_references_are_left_out_where_that_is_asked_for(demo_runs, run, tmp_path):
    _, reports = demo_runs
    rows = [
        {"id": one.id, "caption": one.candidate, "references": one.references} for one in reports["expert"].captions
    ]
    (tmp_path / "expert.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, _ = run("score", tmp_path / "expert.jsonl", "-m", "rouge", "--no-references", "--out", tmp_path / "run")
    assert code == 0
    again = open_run(tmp_path / "run")
    assert "references" not in next(again.items()).column_names
    assert again["rouge"].corpus == reports["expert"]["rouge"].corpus and "5 references per item" in str(
        again.document().about
    )
    with pytest.raises(InputError, match="contains no references, which explaining rouge needs"):
        again.explain("1002")


def test_columns_of_the_input_keep_their_names_and_types(tmp_path):
    columns = {"width": [640, 480, None, 3], "clip": [0.1, 0.2, 0.3, None], "lang": ["en", "de", "en", "fr"]}
    taken = {"candidates": [1, 2, 3, 4], "rouge": ["a", "b", "c", "d"]}
    captious.evaluate(captions(**columns, **taken), "rouge", resampling=Resampling(0)).save(tmp_path / "run")
    run = open_run(tmp_path / "run")
    schema = next(run.items()).schema
    assert [str(schema.field(name).type) for name in ("width", "clip", "lang")] == ["int64", "double", "string"]
    assert schema.names[:3] == ["id", "candidates", "references"] and schema.names[-2:] == ["rouge", "unscored"]
    assert {"input.candidates", "input.rouge"} < set(schema.names)
    for name, values in {**columns, **taken}.items():
        assert list(run.captions.columns[name]) == values


def test_results_are_values(demo_runs):
    folders, reports = demo_runs
    report = reports["expert"]
    str(report.explain("1002"))
    size = len(pickle.dumps(captious.demo().systems["expert"]))
    assert len(pickle.dumps(report.captions)) < 1.1 * size  # without token tables and n-grams
    comparison = captious.compare(folders, None, resampling=Resampling(20), permutations=20)
    for one in (report, open_run(folders["expert"]), comparison, report["cider"], report.captions):
        for copied in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
            assert repr(copied) == repr(one)
    again = pickle.loads(pickle.dumps(report))
    assert str(again) == str(report) and again.explain("1002").to_json() == report.explain("1002").to_json()
    assert dict(report) == dict(report.measurements)
    assert report.to_dict()["metrics"][0]["value"] == report["rouge"].corpus


def test_values_of_runs_are_held_against_ratings(demo_runs, tmp_path, run):
    folders, reports = demo_runs
    rows = [
        {"image": id, "system": name, "rating": round(2 * value) + len(id) % 2}
        for name, report in reports.items()
        for id, value in report["rouge"].items.items()
    ]
    path = tmp_path / "ratings.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {
        key: {f"{id}/{name}": value for name, report in reports.items() for id, value in report[key].items.items()}
        for key in ("rouge", "cider")
    }
    expected = captious.correlate(path, values, resampling=Resampling(20), permutations=20)
    for source in (list(folders.values()), folders, {name: open_run(one) for name, one in folders.items()}):
        study = captious.correlate(path, source, resampling=Resampling(20), permutations=20)
        for key in values:
            assert study.estimates[key] == expected.estimates[key]
    scores = [part for folder in folders.values() for part in ("--scores", folder)]
    options = ("--samples", "20", "--permutations", "20", "--json")
    code, out, errors = run("study", "run", path, *scores, *options)
    assert code == 0, errors
    assert [one["metric"] for one in json.loads(out)["metrics"]][:2] == ["rouge", "cider"] or "CIDEr-D" in out


def test_a_run_is_named_as_the_ratings_name_its_system(demo_runs, tmp_path, run):
    folders, reports = demo_runs
    named = dict(zip(("ours", "theirs"), folders, strict=False))
    rows = [
        {"image": id, "system": system, "rating": round(2 * value) + len(id) % 2}
        for system, name in named.items()
        for id, value in reports[name]["rouge"].items.items()
    ]
    path, copied = tmp_path / "ratings.jsonl", tmp_path / "a, b=c"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shutil.copytree(folders[named["ours"]], copied)
    runs = {"ours": copied, "theirs": folders[named["theirs"]]}
    expected = captious.correlate(path, runs, resampling=Resampling(0))
    scores = [part for system, folder in runs.items() for part in ("--scores", f"{system}={folder}")]
    code, out, errors = run("study", "run", path, *scores, "--samples", "0", "--json")
    assert code == 0, errors
    assert json.loads(out)["metrics"] == json.loads(expected.to_json())["metrics"]
    unnamed = [part for folder in runs.values() for part in ("--scores", folder)]
    code, _, errors = run("study", "run", path, *unnamed)
    assert code == 2 and "120 of 120" in errors and errors.count("\n") == 1
    code, _, errors = run("study", "run", path, "--scores", f"ours={tmp_path / 'none'}")
    assert code == 2 and "no such file" in errors and errors.count("\n") == 1


def test_a_run_holds_no_absolute_path(tmp_path, run, monkeypatch):
    """Who gets a run learns nothing of the folders of the machine that made it; images are found again by --images."""
    photos, secret = tmp_path / "secret" / "photos", str(tmp_path / "secret")
    photos.mkdir(parents=True)
    for key in ("1", "2"):
        Image.new("RGB", (16, 16), (200, 30, 30)).save(photos / f"{key}.png")
    rows = [{"id": key, "caption": "a red dog", "references": ["a dog"]} for key in ("1", "2")]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    named = "".join(json.dumps({**row, "image": str(photos / f"{row['id']}.png")}) + "\n" for row in rows)
    (tmp_path / "secret" / "preds.jsonl").write_text(text)
    (tmp_path / "secret" / "named.jsonl").write_text(named)
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "0.jsonl").write_text(named)
    monkeypatch.chdir(tmp_path)
    metrics = ("--samples", 0, "--metrics", "rouge,clipscore(weights=captious-mini)")
    made = {
        "found": (f"{secret}/preds.jsonl", "--images", photos),
        "named": (f"{secret}/named.jsonl",),
        "of-shards": ("shards", "--images", photos, "--references", f"{secret}/preds.jsonl", "--engine", "serial"),
    }
    for name, arguments in made.items():
        code, _, error = run("score", *arguments, *metrics, "--out", name)
        assert code == 0, error
        for file in (tmp_path / name).rglob("*"):
            content = file.read_bytes() if file.is_file() else b""
            assert secret.encode() not in content, file
        images = open_run(name).source.run.captions().columns["image"]
        assert images == ("photos/1.png", "photos/2.png")
        with pytest.raises(InputError, match=r"is outside the run \(photos/1\.png\); pass images=\.\.\."):
            open_run(name).explain("1", "clipscore")
        assert open_run(name, images=photos).explain("1", "clipscore")
    assert json.loads((tmp_path / "named" / "captious-run.json").read_text())["name"] == "named.jsonl"
    code, _, error = run("score", *made["of-shards"], *metrics, "--out", "shards-again")
    again = run("score", *made["of-shards"], *metrics, "--out", "shards-again")
    assert (code, again[0]) == (0, 0), again


def test_a_column_of_many_lists_within_lists_is_stored_as_text(tmp_path):
    """Parquet is written with 50 levels, and then cannot be read."""
    deep = 1
    for _ in range(50):
        deep = [deep]
    captions = CaptionSet.of({"1": "a dog"}, {"1": ["a dog"]}, {"deep": [deep]})
    captious.evaluate(captions, "rouge", resampling=Resampling(0)).save(tmp_path / "run")
    assert json.loads(open_run(tmp_path / "run").captions.columns["deep"][0]) == deep
