"""A run folder alone explains its scores: with the state of the run, or with an error that says what has changed."""

import shutil

import pytest

import captious
from captious import CaptionSet, InputError, Resampling
from captious._files import MARKER
from captious.metrics.style.model import fit, save
from captious.runs import read_run
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
    report = captious.evaluate(captions(), metrics, Resampling(20))
    report.save(tmp_path / "run")
    run = read_run(tmp_path / "run")
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
    report = captious.evaluate(captions(), f"cider(idf={tmp_path / 'own.idf'})", Resampling(0))
    report.save(tmp_path / "run")
    value = read_run(tmp_path / "run").explain("1")["cider"].value
    assert value == pytest.approx(report["cider"].items["1"], abs=1e-12) and value > 0
    (tmp_path / "own.idf").unlink()
    DocumentFrequency.of(corpus[1]).save(tmp_path / "own.idf")
    with pytest.raises(
        InputError, match=r"run: cider\(idf=.*own.idf\) was computed with idf:refs:2:\w+, now it is idf:refs:2:\w+$"
    ):
        read_run(tmp_path / "run").explain("1")


def test_unknown_ids_and_metrics_name_what_there_is(tmp_path):
    captious.evaluate(captions(), "rouge,cider", Resampling(0)).save(tmp_path / "run")
    run = read_run(tmp_path / "run")
    with pytest.raises(KeyError, match="no item with id '9'"):
        run.explain("9")
    with pytest.raises(KeyError, match=r"no metric 'cidr'; did you mean 'cider'\? There are rouge, cider"):
        run.explain("1", "cidr")


def test_a_value_that_comes_out_differently_is_said(tmp_path):
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    captious.evaluate(captions(), "rouge", Resampling(0)).save(tmp_path / "run")
    path = tmp_path / "run" / "items" / "captions.parquet"
    items = pq.read_table(path)
    place = items.column_names.index("rouge")
    pq.write_table(items.set_column(place, "rouge", pc.multiply(items["rouge"], 0.5)), path)
    explanation = read_run(tmp_path / "run").explain("1")["rouge"]
    assert explanation.breakdown.notes == ["the run has the value 0.500000, computed again it is 1.000000"]


def test_what_is_no_run_is_refused_in_one_line(tmp_path):
    captious.evaluate(captions(), "rouge", Resampling(0)).save(tmp_path / "run")
    with pytest.raises(InputError, match="nothing: no such folder, expected a folder that captious score wrote"):
        read_run(tmp_path / "nothing")
    with pytest.raises(InputError, match=f"no {MARKER}, expected a folder that captious score wrote"):
        read_run(tmp_path)
    shutil.copytree(tmp_path / "run", tmp_path / "torn")
    (tmp_path / "torn" / "items" / "captions.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"captions\.parquet: is damaged, expected the scores of captious; remove it"):
        read_run(tmp_path / "torn")
    (tmp_path / "run" / "items" / "captions.parquet").unlink()
    with pytest.raises(InputError, match=r"captions\.parquet: is missing, expected a folder that captious score wrote"):
        read_run(tmp_path / "run")
