"""What every metric owes its users, checked on all of them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from lab.toy import make

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.evaluation import evaluate, evaluate_shards
from captious.metrics.contract import Metric
from captious.metrics.registry import METRICS, metric_class, parse

FILE_BACKED = {
    "onlystyle",
    "stylecider",
    "meteor",
    "bertscore",
    "clipscore",
    "refclipscore",
    "pacscore",
    "refpacscore",
    "longclip",
    "specs",
    "routed",
    "umic",
    "imagine",
}
"""Metrics that need a file of the user's or images; their own tests hold them to the same promises."""
PLAIN = [name for name in METRICS if name not in FILE_BACKED]


@pytest.fixture(scope="module")
def captions():
    sample = make(items=24)
    names = ("expert", "sloppy", "parrot")
    candidates = {scene.id: [sample.prediction_of(scene, name).text for name in names] for scene in sample.scenes()}
    return CaptionSet.of(candidates, sample.references())


@pytest.mark.parametrize("name", PLAIN)
def test_shards_merge_exactly(captions, name):
    metric = metric_class(name)()
    shards = [captions.take(range(7)), captions.take(range(7, 8)), captions.take(range(8, 24))]
    state = None
    for shard in shards:
        part = metric.prepare(shard)
        state = part if state is None else state.merge(part)
    merged = metric.measure(shards[0], state)
    for shard in shards[1:]:
        merged = merged.merge(metric.measure(shard, state))
    whole = metric.measure(captions)
    assert merged.ids == whole.ids
    assert np.allclose(merged.values, whole.values, rtol=0, atol=1e-12, equal_nan=True)
    assert merged.corpus == pytest.approx(whole.corpus, abs=1e-12)
    assert str(merged.signature) == str(whole.signature)


@pytest.mark.parametrize("name", PLAIN)
def test_values_are_within_the_stated_range_and_do_not_depend_on_order(captions, name):
    metric = metric_class(name)()
    measured = metric.measure(captions)
    low, high = metric.range
    assert (measured.values >= low - 1e-12).all() and (measured.values <= high + 1e-9).all()
    order = np.random.default_rng(0).permutation(len(captions)).tolist()
    shuffled = metric.measure(captions.take(order))
    for key, value in measured.items.items():
        assert shuffled.items[key] == pytest.approx(value, abs=1e-12)
    assert shuffled.corpus == pytest.approx(measured.corpus, abs=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_the_card_facts_are_there(name):
    metric = metric_class(name)
    assert metric.name == name
    assert (metric.__doc__ or "").strip() and ">>>" in metric.__doc__
    assert metric.range[0] < metric.range[1]
    assert issubclass(metric, Metric)


@pytest.mark.parametrize(
    "text",
    [
        "bleu(n=2)",
        "cider(idf=coco)",
        "cider(variant=plain)",
        "rouge",
        "div(n=3,strict=yes)",
        'cider(idf="a b, (c).idf")',
    ],
)
def test_a_metric_prints_as_it_is_written_and_reads_back(text):
    assert str(parse(text)) == text
    assert parse(str(parse(text))) == parse(text)


def test_metrics_are_values():
    assert parse("bleu") == parse("bleu(n=4)") and hash(parse("bleu")) == hash(parse("BLEU( n = 4 )"))
    with pytest.raises(AttributeError):
        parse("bleu").n = 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("blue", "unknown metric 'blue', known: bleu, .*did you mean 'bleu'"),
        ("bleu(m=4)", "bleu has no parameter 'm', legal ones: n, tokenizer"),
        ("bleu(n=four)", r"bleu\(n=four\): expected a whole number"),
        ("cider(variant=D)", r"cider\(variant=D\): expected one of d, plain"),
        ("div(strict=maybe)", "expected yes or no"),
        ("bleu(n=4", "cannot read the metric"),
        ("bleu(4)", "cannot read the parameters"),
        ("bleu(n=1,n=2)", "sets n twice"),
        ("", "cannot read the metric"),
    ],
)
def test_a_misspelt_metric_is_explained(text, message):
    with pytest.raises(InputError, match=message):
        parse(text)


def test_merging_what_was_made_differently_is_refused(captions):
    a, b = captions.take(range(12)), captions.take(range(12, 24))
    cider = parse("cider")
    with pytest.raises(InputError, match="cannot merge measurements of different making"):
        cider.measure(a).merge(cider.measure(b))  # each has its own idf
    with pytest.raises(InputError, match="share 12 ids"):
        parse("bleu").measure(a).merge(parse("bleu").measure(a))


def test_an_item_without_references_has_no_value_and_a_reason():
    captions = CaptionSet.of({"1": "a cat", "2": "a dog"}, {"1": ["a cat"]})
    measured = parse("rouge").measure(captions)
    assert measured.items["1"] == 1 and math.isnan(measured.items["2"])
    assert measured.reasons == {"2": "no references"}
    assert measured.corpus == 1


def test_no_references_at_all_is_refused_with_the_remedy():
    with pytest.raises(InputError, match="no references; give a file of references with --references"):
        evaluate(CaptionSet.of({"1": "a cat"}), "bleu")


def test_a_shard_in_which_nothing_can_be_scored_still_merges():
    captions = CaptionSet.of({"1": "a cat", "2": "a dog"}, {"1": ["a cat"]})
    for name in ("bleu", "rouge", "cider", "rouge_n"):
        metric = parse(name)
        whole = metric.measure(captions)
        shards = [captions.take([0]), captions.take([1])]
        state = metric.prepare(captions)
        merged = metric.measure(shards[0], state).merge(metric.measure(shards[1], state))
        assert merged.reasons == whole.reasons == {"2": "no references"}
        assert merged.corpus == pytest.approx(whole.corpus, abs=1e-12)
    assert evaluate_shards(shards, "rouge")["rouge"].corpus == 1
    with pytest.raises(InputError, match="no shard holds an item"):
        evaluate_shards([], "rouge")


def test_counts_of_merged_signatures_add_up():
    a = CaptionSet.of({"1": "a"}, {"1": ["a"]})
    merged = (
        parse("rouge")
        .measure(replace(a, skipped=2))
        .merge(parse("rouge").measure(replace(CaptionSet.of({"2": "b"}, {"2": ["b", "c"]}), skipped=3)))
    )
    assert "|items:2|refs:1-2|" in str(merged.signature) and "|skipped:5|" in str(merged.signature)


def test_orders_far_beyond_any_caption_are_empty():
    assert parse("distinct(n=3000)").measure(CaptionSet.of({"1": "a cat"})).corpus == 0


def test_the_signature_says_what_moves_the_number():
    captions = CaptionSet.of({"1": "a", "2": "b"}, {"1": ["a"], "2": ["b", "c"]})
    text = str(parse("cider").measure(captions).signature)
    fingerprint = f"{captions.fingerprint:016x}"
    assert text.startswith("cider|tok:ptb.1|variant:d|idf:refs:2:")
    assert f"|items:2|refs:1-2|data:{fingerprint[:8]}|captious:" in text
