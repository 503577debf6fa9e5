"""The style commands as a user types them, on the styled captions of the demo set."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from lab.toy import make, write

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(make(items=25), tmp_path_factory.mktemp("sample") / "s", images=False)


@pytest.fixture
def fitted(run: Run, sample: Path, tmp_path: Path) -> Path:
    target = tmp_path / "demo.style"
    code, out, _ = run("style", "fit", sample / "styles.jsonl", "--out", target)
    assert code == 0
    assert "100 captions in 4 styles" in out and "model:" in out
    return target


def test_fit_refuses_to_replace_and_a_single_style(run: Run, fitted: Path, sample: Path, tmp_path: Path) -> None:
    code, _, err = run("style", "fit", sample / "styles.jsonl", "--out", fitted)
    assert code == 2 and "already exists; pass --overwrite" in err
    single = tmp_path / "one.jsonl"
    single.write_text('{"mood": "calm", "text": "x"}\n')
    named = ("--style-column", "mood", "--candidate-column", "text")
    code, _, err = run("style", "fit", single, "--out", tmp_path / "o.style", *named)
    assert code == 2 and "contains one style ('calm')" in err
    assert not (tmp_path / "o.style").exists()


def test_fit_names_the_model_after_its_corpus(run: Run, sample: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("style", "fit", sample / "styles.jsonl")
    assert code == 0 and "styles.style: 100 captions in 4 styles" in out and Path("styles.style").is_file()
    code, _, err = run("style", "fit", "-")
    assert code == 2 and "pass --out" in err


def test_words_as_table_json_and_page(run: Run, fitted: Path, tmp_path: Path) -> None:
    code, out, err = run("style", "words", fitted, "-s", "romantic", "--top", 5, "--out", tmp_path / "words")
    assert code == 0 and "written" in err
    assert "romantic" in out and "CNG" in out
    page = (tmp_path / "words" / "report.html").read_text()
    assert "romantic" in page and "<figure" in page and (tmp_path / "words" / "words.csv").exists()
    _, out, _ = run("style", "words", fitted, "--n", 1, "--top", 3, "--json")
    found = json.loads(out)["styles"]
    assert set(found) == {"plain", "romantic", "humorous", "gloomy"}
    assert {word["n"] for word in found["gloomy"]} == {1}


def test_the_name_of_a_style_is_enough(run: Run, fitted: Path) -> None:
    _, by_option, _ = run("style", "words", fitted, "--style", "romantic", "--json")
    code, by_name, _ = run("style", "words", fitted, "romantic", "--json")
    assert code == 0 and by_name == by_option
    # With --style, the same word is an n-gram.
    _, out, _ = run("style", "words", fitted, "romantic", "--style", "gloomy", "--json")
    assert out not in (by_option, by_name)


def test_explain(run: Run, fitted: Path, tmp_path: Path) -> None:
    text = "plot twist: a dog tells a silly joke to a zebra"
    code, out, _ = run("style", "explain", fitted, text, "--out", tmp_path / "why")
    assert code == 0
    assert "why humorous" in out and "no style has: zebra" in out
    assert "silly" in (tmp_path / "why" / "report.html").read_text()
    _, out, _ = run("style", "explain", fitted, text, "--style", "gloomy", "--json")
    found = json.loads(out)
    assert found["style"] == "gloomy" and found["why"]["value"] == found["styles"]["gloomy"]
    assert sum(part["adds"] for part in found["why"]["parts"]) == pytest.approx(found["styles"]["gloomy"])
    code, out, _ = run("style", "explain", fitted, "zebra yak")
    assert "no style is closest, for 4 tie: gloomy, humorous, plain, romantic; gloomy is explained" in out
    assert not out.startswith("gloomy:")
    code, _, err = run("style", "explain", fitted, "...")
    assert code == 2 and "has no words" in err


def test_scores_and_correlate(run: Run, fitted: Path, tmp_path: Path) -> None:
    _, out, _ = run("style", "words", fitted, "silly", "zebra", "-s", "humorous", "--json")
    scores = json.loads(out)["scores"]
    assert scores["silly"]["humorous"] > 0 and scores["zebra"]["humorous"] is None
    assert "unseen" in run("style", "words", fitted, "silly", "zebra")[1]
    rankings = tmp_path / "r.csv"
    rankings.write_text("style,caption,rank\ngloomy,hopeless sorrow,2\ngloomy,a silly joke,1\n")
    _, out, _ = run("style", "correlate", fitted, rankings, "--json")
    assert json.loads(out)["styles"][0]["spearman"] == pytest.approx(1.0)
    assert "Spearman" in run("style", "correlate", fitted, rankings)[1]


def test_check_prints_table_one(run: Run, fitted: Path, sample: Path) -> None:
    corpus = sample / "styles.jsonl"
    code, out, err = run("style", "check", fitted, corpus)
    assert code == 0 and "OnlyStyle (equation 9)" in out and "StyleCIDEr (equation 10)" in out and "in-sample" in out
    assert "the model was fitted on these very captions" in err
    code, out, err = run("style", "check", fitted, corpus, "--folds", 5)
    assert code == 0 and "held out, 5 folds" in out and not err
    found = json.loads(run("style", "check", fitted, corpus, "--json")[1])
    assert found["captions"] == 100 and 0 < found["stylecider"] <= 1
    _, out, _ = run("style", "check", fitted, corpus, "--sample", 10, "--json")
    assert json.loads(out)["captions"] == 10


def test_words_beside_other_weights(run: Run, fitted: Path) -> None:
    code, out, _ = run("style", "words", fitted, "a", "silly", "--contrast", "tfidf,delta")
    assert code == 0 and "Delta tf-idf" in out and "CNG of “a” is the same in all styles" in out
    _, out, _ = run("style", "words", fitted, "silly", "--contrast", "delta", "--json")
    assert json.loads(out)["contrast"]["delta"]["silly"]["humorous"] > 0
    code, _, err = run("style", "words", fitted, "--contrast", "tfidf")
    assert code == 2 and "--contrast needs n-grams" in err


def test_where_a_sentence_occurs(run: Run, sample: Path) -> None:
    first = json.loads((sample / "styles.jsonl").read_text(encoding="utf-8").splitlines()[0])
    code, out, _ = run("style", "where", sample / "styles.jsonl", first["caption"], "--style", first["style"])
    assert code == 0 and f"is a whole caption of {first['style']}" in out and "rank 1 of 4" in out
    _, out, _ = run("style", "where", sample / "styles.jsonl", "a", "--json")
    assert json.loads(out)["part"] and not json.loads(out)["whole"]
    code, _, err = run("style", "where", sample / "styles.jsonl", "...")
    assert code == 2 and "has no words" in err


def test_a_trained_classifier_is_tested_on_the_same_folds(run: Run, fitted: Path, sample: Path) -> None:
    corpus = sample / "styles.jsonl"
    code, out, _ = run("style", "check", fitted, corpus, "--folds", 5, "--classifier", "linear", "--json")
    found = json.loads(out)
    assert code == 0 and found["rivals"][0]["name"] == "linear" and len(found["rivals"][0]["first"]) == 1
    assert found["random"]["own_mean"] > found["random"]["random_mean"]
    code, _, err = run("style", "check", fitted, corpus, "--classifier", "linear")
    assert code == 2 and "tested on held-out captions: pass --folds" in err
    code, _, err = run("style", "check", fitted, corpus, "--classifier", "linear", "--folds", 5, "--sample", 9)
    assert code == 2 and "leave --sample" in err
    code, _, err = run("style", "check", fitted, corpus, "--classifier", "liner", "--folds", 5)
    assert code == 2 and "did you mean 'linear'" in err


def test_score_uses_the_model(run: Run, fitted: Path, tmp_path: Path) -> None:
    preds = tmp_path / "p.jsonl"
    row = {"id": 1, "style": "gloomy", "caption": "alas, a dog weeps for a cat", "references": ["alas, a dog mourns"]}
    preds.write_text(json.dumps(row) + "\n")
    metrics = f"onlystyle(model={fitted}),stylecider(model={fitted})"
    code, out, _ = run("score", preds, "--metrics", metrics, "--json")
    assert code == 0
    _, ranked, _ = run("style", "explain", fitted, row["caption"], "--json")
    values = {entry["metric"].split("(")[0]: entry["value"] for entry in json.loads(out)["metrics"]}
    assert values["onlystyle"] == pytest.approx(json.loads(ranked)["styles"]["gloomy"], abs=1e-12)
    assert 0 < values["stylecider"] < 1
    preds.write_text(json.dumps({**row, "style": "glomy"}) + "\n")
    code, _, err = run("score", preds, "--metrics", metrics)
    assert code == 2 and err.count("\n") == 1
    assert "p.jsonl: id 1: the style model demo has no style 'glomy'" in err and "did you mean 'gloomy'?" in err


def test_two_styles_of_an_image_are_two_items(run: Run, fitted: Path, tmp_path: Path) -> None:
    rows = [{"id": 7, "style": style, "caption": "alas, a dog"} for style in ("gloomy", "humorous")]
    preds = tmp_path / "p.jsonl"
    preds.write_text("".join(json.dumps(row) + "\n" for row in rows))
    metric = f"onlystyle({fitted})"
    code, _, err = run("score", preds, "-m", metric)
    assert code == 2 and "pass --several where" in err and "--id-column id,style where each style is an item" in err
    code, out, err = run("score", preds, "-m", metric, "--id-column", "id,style", "--worst", 2)
    assert code == 0, err
    assert "7:gloomy" in out and "7:humorous" in out and "first reference" not in out
