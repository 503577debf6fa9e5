"""``captious.metric_from``: a plain function as a metric."""

import copy
import math
import pickle

import pytest

import captious
from captious import CaptionSet, Resampling, evaluate, metric_from
from captious.errors import InputError
from captious.metrics import registry
from captious.metrics.registry import parse, parse_all
from captious.testing import check_metric

CAPTIONS = CaptionSet.of({"1": ["a red dog", "a dog"], "2": "a cat"}, {"1": ["a dog", "one dog"], "2": ["a cat"]})


def shared(caption, references):
    """The share of words that the first reference has."""
    words = set(caption.split())
    return len(words & set(references[0].split())) / len(words) if words else None


def length(caption):
    return len(caption.split())


@pytest.fixture(autouse=True)
def no_functions(monkeypatch):
    monkeypatch.setattr(registry, "FUNCTIONS", {})
    monkeypatch.setattr("captious.metrics.function.FUNCTIONS", registry.FUNCTIONS)


def test_a_function_of_caption_and_references_is_a_metric():
    report = evaluate(CAPTIONS, [metric_from(shared, range=(0, 1)), "rouge"], resampling=Resampling(100))
    measured = report["shared"]
    assert measured.values.tolist() == pytest.approx([(2 / 3 + 1) / 2, 1])
    assert measured.corpus == pytest.approx((2 / 3 + 1 + 1) / 3)  # the mean over captions
    assert report.intervals["shared"].low < measured.corpus and "shared" in str(report)
    assert "|function:tests.metrics.test_function.shared#" in str(measured.signature)


def test_a_function_of_the_caption_alone_needs_no_references():
    metric = metric_from(length, name="spaced_words", label="Words", decimals=1)
    assert metric.needs == () and metric.label == "Words" and str(metric) == "spaced_words"
    assert metric.measure(CaptionSet.of({"1": "a red dog", "2": ""})).values.tolist() == [3, 0]
    for function in (lambda caption, lower=True: 1.0, len):
        assert metric_from(function, "one").needs == ()
    for function in (shared, lambda caption, references=(): 1.0, lambda *args: 1.0):
        assert metric_from(function, "two").needs == ("references",)


def test_no_value_is_nan_with_a_reason():
    captions = CaptionSet.of({"1": "a dog", "2": "", "3": "a cat"}, {"1": ["a dog"], "2": ["a cat"]})
    measured = metric_from(shared).measure(captions)
    assert measured.reasons == {"2": "the function gives no value", "3": "no references"}
    assert measured.corpus == 1 and math.isnan(measured.items["2"])


def test_it_is_known_by_its_name_in_this_process():
    metric = metric_from(shared)
    assert parse("shared") == metric == metric_from(shared) and hash(parse("shared")) == hash(metric)
    assert metric in parse_all("bleu,shared") and "shared" not in registry.names()
    assert metric_from(length, "shared") != metric and parse("shared").needs == ()  # a later one takes the name


def test_it_travels_to_other_processes():
    metric = metric_from(shared, decimals=2)
    content = pickle.dumps(metric)
    assert pickle.loads(content) == copy.deepcopy(metric) == metric
    registry.FUNCTIONS.clear()
    assert pickle.loads(content).decimals == 2 and parse("shared").measure(CAPTIONS).corpus > 0


@pytest.mark.parametrize(
    ("function", "name", "message"),
    [
        (shared, "bleu", "bleu is a metric of captious, expected another name"),
        (shared, "My score", "the name 'My score', expected one of lower-case letters"),
        (lambda caption: 1.0, "", "the name '<lambda>', expected one of lower-case letters"),
        (lambda: 1.0, "none", r"the function takes \(\), expected \(caption, references\) or \(caption\)"),
        ("shared", "text", "metric_from: str, expected a function"),
    ],
)
def test_what_cannot_be_a_metric_is_refused(function, name, message):
    with pytest.raises(InputError, match=message):
        metric_from(function, name)


def test_an_error_of_the_function_names_the_item():
    with pytest.raises(InputError, match=r"^broken: id '1': ZeroDivisionError: division by zero$"):
        evaluate(CAPTIONS, metric_from(lambda caption: 1 / 0, "broken"))
    with pytest.raises(InputError, match=r"^texts: id '1': ValueError: could not convert string to float: 'high'$"):
        evaluate(CAPTIONS, metric_from(lambda caption: "high", "texts"))


def test_it_keeps_the_contract():
    check_metric(captious.metric_from(shared, range=(0, 1)))
    check_metric(captious.metric_from(length))
