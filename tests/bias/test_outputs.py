import json
from dataclasses import replace

import numpy as np
import pytest
from lab.toy.sample import OWN

from captious.bias.audit import audit
from captious.bias.classifiers.linear import Linear
from captious.bias.leaks import leaks
from captious.bias.masking import Mask
from captious.bias.page import page
from captious.bias.protocol import Protocol, seeds
from captious.bias.summary import summarize
from captious.bias.telling import Judged, surest, telling
from captious.bias.writing import latex, save


@pytest.fixture(scope="module")
def summary():
    from .conftest import planted_subject

    subject = planted_subject(0.6, 0.2)
    subject = replace(subject, captions=("<script>alert(1)</script> & co", *subject.captions[1:]))
    return summarize(audit([subject], Protocol(Mask.named("gender"), seeds=seeds(3)), [Linear()]))


def test_the_planted_words_are_found_as_leaks_and_as_telling(summary):
    own = {word for words in OWN.values() for word in words}
    found = {leak["word"] for leak in summary["leaks"]["planted"]["model"]}
    assert found and found <= own
    for label, group in (("female", "a"), ("male", "b")):
        grams = summary["evidence"][0]["model captions"][label]["ngrams"]
        assert any(set(gram["ngram"].split()) & set(OWN[group]) for gram in grams[:3])


def test_shares_of_leaks_are_of_equally_frequent_classes():
    # "hat": 10 of 90 captions of class 0, 10 of 10 of class 1: (1/9) against 1, a share of 9/10 for class 1.
    captions = [("hat",)] * 10 + [("cap",)] * 80 + [("hat",)] * 10
    found = {leak.word: leak for leak in leaks(captions, np.array([0] * 90 + [1] * 10), ("a", "b"), share=0.89)}
    assert found["hat"].label == "b" and found["hat"].share == pytest.approx(0.9)
    assert found["cap"].share == 1.0


def test_telling_weight_by_hand():
    # p: ten captions at .5, five at .8 with "x": mean .6, sd √.02; (.8 − .6)·√5/√.02 = √10.
    said = [Judged(str(n), ("a",), 0, np.array([0.5, 0.5]), 1) for n in range(10)]
    said += [Judged(str(n), ("x",), 1, np.array([0.2, 0.8]), 1) for n in range(5)]
    found = telling(said, 1)
    assert [(one.ngram, one.captions) for one in found] == [("x", 5)]
    assert found[0].weight == pytest.approx(10**0.5)
    assert [one.caption for one in surest(said, 1)] == [("x",)]


def test_the_folder_is_whole(summary, tmp_path):
    save(summary, tmp_path / "audit")
    names = {path.name for path in (tmp_path / "audit").iterdir()}
    assert names == {"captious-run.json", "leaks.jsonl", "report.html", "report.tex", "seeds.csv"}
    kept = json.loads((tmp_path / "audit" / "captious-run.json").read_text())
    rows = (tmp_path / "audit" / "seeds.csv").read_text().splitlines()
    assert len(rows) == 1 + 3
    assert float(rows[1].split(",")[3]) == kept["results"][0]["seeds"][0]["lic_m"]


def test_the_page_escapes_captions_and_needs_nothing_else(summary):
    text = page(summary)
    assert "<script" not in text and "http" not in text.replace("http-equiv", "")
    assert text.count("<svg") == 2 and "chance" in text


def test_summary_is_json_and_states_what_matters(summary):
    json.dumps(summary, allow_nan=False)
    row = summary["results"][0]
    assert summary["chance"] == 25.0 and [seed["seed"] for seed in row["seeds"]] == [0, 12, 456]
    assert row["lic_m"] == pytest.approx(np.mean([seed["lic_m"] for seed in row["seeds"]]))
    assert row["low"] < row["lic"] < row["high"] and row["differs_from_0"]


def test_latex_escapes_names(summary):
    row = {**summary["results"][0], "model": "nic_plus"}
    assert r"nic\_plus & linear & $" in latex({**summary, "results": [row]})
    row["model"] = r"a^b~\c"
    shown = r"a\textasciicircum{}b\textasciitilde{}\textbackslash{}c & linear & $"
    assert shown in latex({**summary, "results": [row]})
