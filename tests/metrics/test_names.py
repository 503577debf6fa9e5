"""Metrics by name: labels of tables are read, absent ones are said to be, and ``all`` takes what the data allow."""

import pytest

from captious import CaptionSet, Scorer, compare, evaluate
from captious.errors import InputError
from captious.metrics import registry
from captious.metrics.meteor import resources
from captious.metrics.registry import ABSENT, metric_class, names, parse, parse_all
from captious.options import Resampling

REFERENCES = {"1": ["a dog runs", "the dog"], "2": ["a cat"]}


@pytest.mark.parametrize("name", [name for name in names() if name in registry.METRICS])
def test_the_label_that_tables_print_is_read(name):
    metric = metric_class(name)()
    assert parse(metric.label) == parse(metric.label.lower()) == metric


@pytest.mark.parametrize("name", ["tifa", "TIFA", "FENSE", "Polos", "chrf"])
def test_for_a_metric_that_is_lacking_no_other_is_suggested(name):
    with pytest.raises(InputError, match=f"^captious has no {name.upper()} yet, known: bleu, ") as error:
        parse_all(name)
    assert "did you mean" not in str(error.value)


def test_no_metric_is_both_there_and_absent():
    assert not {*ABSENT} & {*names(), *registry.LABELS}


def names_of(captions):
    return {metric.name for metric in parse_all("all", [captions])}


def test_all_is_what_the_data_allow_without_models_or_downloads(monkeypatch):
    monkeypatch.setattr(resources, "available", lambda named: False)
    free = {"div_n", "rep_diversity", "distinct_n", "vocab_size"}
    compared = {"bleu", "rouge", "rouge_n", "cider", "novelty"}
    assert names_of(CaptionSet.of({"1": "a dog", "2": "a cat"})) == free
    assert names_of(CaptionSet.of({"1": "a dog", "2": "a cat"}, REFERENCES)) == free | compared
    several = CaptionSet.of({"1": ["a dog", "dogs"], "2": ["a cat", "cats"]}, REFERENCES)
    assert names_of(several) == free | compared | {"mbleu", "selfcider", "lsa"}
    monkeypatch.setattr(resources, "available", lambda named: True)
    assert names_of(CaptionSet.of({"1": "a dog"}, REFERENCES)) == free | compared | {"meteor"}


def test_all_in_python(monkeypatch):
    monkeypatch.setattr(resources, "available", lambda named: False)
    report = evaluate({"1": "a dog", "2": "a cat"}, "all", Resampling(0), references=REFERENCES)
    assert {"bleu(n=4)", "cider", "vocab_size"} <= {*report.measurements}
    both = compare(
        {"a": {"1": ["a dog", "dogs"], "2": ["a cat", "x"]}, "b": {"1": "a dog", "2": "a cat"}},
        ["all"],
        Resampling(0),
        references=REFERENCES,
    )
    assert not {"mbleu(n=4)", "lsa"} & {*both.reports["a"].measurements}  # one system has one candidate an item


def test_all_where_captions_come_later(monkeypatch):
    monkeypatch.setattr(resources, "available", lambda named: False)
    scorer = Scorer("all", references=REFERENCES)
    assert {metric.name for metric in scorer.metrics} == {metric.name for metric in parse_all("ALL")}
    assert not {"mbleu", "lsa", "selfcider"} & {metric.name for metric in scorer.metrics}
    assert scorer(["2"], ["a cat"])["BLEU-1"] == pytest.approx(1)
