"""What an audit shows and writes."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from lab.toy.sample import OWN

from captious.bias._leaks import Prediction, find_leaking_words, find_salient_ngrams, select_surest
from captious.bias.audit import Audit, audit
from captious.bias.classifiers.linear import Linear
from captious.bias.masks import Mask
from captious.bias.protocol import Protocol, get_published_seeds
from captious.render import html
from captious.render.terminal import format_text


@pytest.fixture(scope="module")
def result():
    from .conftest import planted_subject

    return audit(
        [planted_subject(0.6, 0.2)], Protocol(Mask.from_name("gender"), seeds=get_published_seeds(3)), [Linear()]
    )


def renamed(result, name):
    """The audit of a captioner of another name."""
    rows = [
        replace(row, corpus=replace(row.corpus, subject=replace(row.corpus.subject, name=name))) for row in result.rows
    ]
    return replace(result, rows=rows, corpora=[row.corpus for row in rows])


def test_the_planted_words_are_found_as_leaks_and_as_salient(result):
    own = {word for words in OWN.values() for word in words}
    leaks = {leak.word for leak in result.leaks["planted", "model"]}
    assert leaks and leaks <= own
    for label, (name, group) in enumerate((("female", "a"), ("male", "b"))):
        assert result.classes[label] == name
        grams = find_salient_ngrams(result.rows[0].predictions(), 2)[label]
        assert any(set(gram.ngram.split()) & set(OWN[group]) for gram in grams[:3])


def test_shares_of_leaks_are_of_equally_frequent_classes():
    # "hat": 10 of 90 captions of class 0, 10 of 10 of class 1: (1/9) against 1, a share of 9/10 for class 1.
    captions = [("hat",)] * 10 + [("cap",)] * 80 + [("hat",)] * 10
    labels = np.array([0] * 90 + [1] * 10)
    leaks = {leak.word: leak for leak in find_leaking_words(captions, labels, ("a", "b"), share=0.89)}
    assert leaks["hat"].label == "b" and leaks["hat"].share == pytest.approx(0.9)
    assert leaks["cap"].share == 1.0


def test_the_weight_of_a_salient_ngram_by_hand():
    # p: ten captions at .5, five at .8 with "x": mean .6, sd √.02; (.8 − .6)·√5/√.02 = √10.
    tested = [Prediction(str(n), ("a",), 0, np.array([0.5, 0.5])) for n in range(10)]
    tested += [Prediction(str(n), ("x",), 1, np.array([0.2, 0.8])) for n in range(5)]
    grams = find_salient_ngrams(tested, 2)[1]
    assert [(one.ngram, one.captions) for one in grams] == [("x", 5)]
    assert grams[0].weight == pytest.approx(10**0.5)
    assert [one.caption for one in select_surest(tested, 1)] == [("x",)]


def test_the_folder_is_whole(result, tmp_path):
    result.save(tmp_path / "audit")
    names = {path.name for path in (tmp_path / "audit").iterdir()}
    assert names >= {"captious-output.json", "leaks.jsonl", "report.html", "report.tex", "seeds.csv", "results.csv"}
    run = json.loads((tmp_path / "audit" / "captious-output.json").read_text())
    rows = list(csv.DictReader((tmp_path / "audit" / "seeds.csv").read_text().splitlines()))
    assert list(rows[0])[:6] == ["model", "classifier", "seed", "lic_m", "lic_d", "lic"] and len(rows) == 3
    assert float(rows[0]["lic_m"]) == run["seeds"][0]["lic_m"] == result.rows[0].lic.model[0]
    leaks = [json.loads(line) for line in (tmp_path / "audit" / "leaks.jsonl").read_text().splitlines()]
    assert {"model", "captions_of", "word", "label", "share", "captions"} == set(leaks[0])


def test_the_page_escapes_names_and_draws_both_charts(result):
    text = html.render_page(renamed(result, "<script>alert(1)</script>").document())
    assert "<script>alert" not in text and "&lt;script&gt;" in text
    assert text.count("<figure") == 2 and "chance" in text


def test_json_states_what_matters(result):
    data = json.loads(result.to_json())
    row = data["results"][0]
    assert data["chance"] == 25.0 and [seed["seed"] for seed in data["seeds"]] == [0, 12, 456]
    assert row["lic_m"] == pytest.approx(np.mean([seed["lic_m"] for seed in data["seeds"]]))
    assert row["lic_low"] < row["lic"] < row["lic_high"] and result.rows[0].lic.differs
    assert data["protocol"]["mask"] == "gender" and len(data["protocol"]["masked_words"]) == 50


def test_the_terminal_explains_the_chance_level_and_small_p(result):
    text = format_text(result.document(), 80)
    assert "chance level 25.0" in text and "100/2²" in text and "right once in 2" in " ".join(text.split())
    assert "LIC_M: how much a classifier learns about the label from the model's captions" in " ".join(text.split())
    assert max(map(len, text.splitlines()[:12])) <= 80
    row = replace(result.rows[0], runs=result.rows[0].runs)
    object.__setattr__(row, "lic", replace(row.lic, model=row.lic.human.mean(axis=1) + 30))
    assert "< 0.001" in format_text(replace(result, rows=[row]).document(), 120)


def test_what_holds_for_several_captioners_is_warned_of_once(result):
    corpora = [
        replace(result.corpora[0], subject=replace(result.corpora[0].subject, name=name, notes=("2 images left out",)))
        for name in ("sat", "oscar")
    ]
    warnings = replace(result, corpora=corpora).warnings
    assert warnings[0] == "sat, oscar: 2 images left out"


def test_captions_without_words_name_what_hid_them(planted):
    from captious.bias.corpus import MaskedCorpus

    subject = planted(0.6, 0.2, items=200)
    subject = replace(subject, captions=("", *subject.captions[1:]))
    warnings = {}
    for mask, vocabulary in (("gender", "model"), ("none", "model"), ("none", "none")):
        protocol = Protocol(Mask.from_name(mask), vocabulary=vocabulary)
        result = Audit(protocol, {}, [MaskedCorpus.of(subject, protocol)], [])
        warnings[mask, vocabulary] = result.warnings[0]
    assert warnings["gender", "model"].startswith("model captions that say nothing once the mask hid their words")
    assert warnings["none", "none"] == "model captions that say nothing, kept as they are: planted 1"
    assert warnings["none", "model"] == warnings["none", "none"]


def test_a_vocabulary_that_hides_most_words_is_warned_of(planted, tmp_path):
    from captious.bias.corpus import MaskedCorpus

    subject = planted(0.6, 0.2, items=200)
    (tmp_path / "few.txt").write_text(subject.humans[0][0].lower().rstrip(".").split()[-1])
    protocol = Protocol(Mask.from_name("none"), vocabulary=str(tmp_path / "few.txt"))
    result = Audit(protocol, {}, [MaskedCorpus.of(subject, protocol)], [])
    assert "of the human words, which lowers LIC_D" in result.warnings[-1]
    assert "human captions that say nothing once the vocabulary (" in " ".join(result.warnings)


def test_leaking_words_of_people_are_printed_once_for_all_captioners(result):
    corpora = [
        replace(result.corpora[0], subject=replace(result.corpora[0].subject, name=name)) for name in ("sat", "oscar")
    ]
    lines = format_text(replace(result, corpora=corpora).document(), 200).splitlines()
    assert sum(line.startswith("• human captions, for every captioner: ") for line in lines) == 1
    assert not any("human captions: " in line for line in lines) and any(line.startswith("• oscar: ") for line in lines)


def test_runs_from_the_store_are_said_to_be(planted, tmp_path):
    subject = planted(0.6, 0.2, items=200)
    texts = []
    for seeds in (1, 2):  # a seed has 6 runs: the model's captions, and those of five people
        protocol = Protocol(Mask.from_name("gender"), seeds=get_published_seeds(seeds))
        texts.append(format_text(audit([subject], protocol, [Linear()], work=tmp_path).document(), 200))
    assert "come from the store" not in texts[0]
    assert "linear: 6 of 12 training runs were finished before and come from the store" in texts[1]


def test_latex_escapes_names(result):
    assert r"nic\_plus & linear & " in renamed(result, "nic_plus").to_latex()
    shown = r"a\textasciicircum{}b\textasciitilde{}\textbackslash{}c & linear & "
    assert shown in renamed(result, r"a^b~\c").to_latex()
