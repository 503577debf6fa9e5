"""Written forms of metrics, their names, and what measurements say of themselves."""

import math
from dataclasses import replace

import pytest
from lab.toy import make
from tests.merging import measure_parts

from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.registry import parse, parse_all


@pytest.fixture(scope="module")
def captions():
    sample = make(items=24)
    names = ("expert", "sloppy", "parrot")
    candidates = {scene.id: [sample.prediction_of(scene, name).text for name in names] for scene in sample.scenes()}
    return CaptionSet.of(candidates, sample.references())


@pytest.mark.parametrize(
    "text",
    [
        "bleu(n=2)",
        "cider(idf=coco)",
        "cider(variant=plain)",
        "rouge",
        "div_n(n=3,strict=yes)",
        'cider(idf="a b, (c).idf")',
    ],
)
def test_a_metric_prints_as_it_is_written_and_reads_back(text):
    assert str(parse(text)) == text
    assert parse(str(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("CIDEr-D", "cider"),
        ("BLEU-4", "bleu(n=4)"),
        ("bleu2", "bleu(n=2)"),
        ("ROUGE-L", "rouge"),
        ("ROUGE-2", "rouge_n(n=2)"),
        ("mBLEU-3", "mbleu(n=3)"),
        ("div-1", "div_n(n=1)"),
        ("distinct-2(over=corpus)", "distinct_n(n=2,over=corpus)"),
        ("Self-CIDEr", "selfcider"),
        ("PAC-S(some.pth)", "pacscore(weights=some.pth)"),
        ("RefPAC-S++(some.pth)", "refpacscore(weights=some.pth,plus=yes)"),
        ("CLIPScore(captious-mini)", "clipscore(weights=captious-mini)"),
        ("cider(coco)", "cider(idf=coco)"),
        ("onlystyle(a.style,style=happy)", "onlystyle(model=a.style,style=happy)"),
    ],
)
def test_labels_and_main_parameters_are_read_too(text, form):
    assert str(parse(text)) == form


def test_a_form_that_leaves_a_variant_open_stands_for_all():
    assert [str(one) for one in parse_all("bleu(tokenizer=13a)")] == [
        f"bleu(n={n},tokenizer=13a)" for n in (1, 2, 3, 4)
    ]
    assert [str(one) for one in parse_all("bleu(2), bleu(n=3)")] == ["bleu(n=2)", "bleu(n=3)"]
    assert [one.label for one in parse_all("imagine(painter=module:painter)")] == ["IE-image", "IE-text&image"]


def test_metrics_are_values():
    assert parse("bleu") == parse("bleu(n=4)") and hash(parse("bleu")) == hash(parse("BLEU( n = 4 )"))
    with pytest.raises(AttributeError):
        parse("bleu").n = 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("blue", "unknown metric 'blue'; did you mean 'bleu'"),
        ("clipscore(model=captious-mini)", "no parameter 'model', .*; did you mean 'weights'"),
        ("bleu(m=4)", "bleu has no parameter 'm', legal ones: n, tokenizer"),
        ("bleu(n=four)", r"bleu\(n=four\): expected a whole number"),
        ("cider(variant=D)", r"cider\(variant=D\): expected one of d, plain"),
        ("div_n(strict=maybe)", "expected yes or no"),
        ("bleu(n=4", "cannot read the metric"),
        ("bleu(n=4,4)", "cannot read the parameters"),
        ("bleu(4,n=4)", "expected the name of each parameter"),
        ("rouge(f)", "expected the name of each parameter"),
        ("tiger", "captious has no TIGER yet; [^?]*$"),
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
    with pytest.raises(InputError, match="no references; pass references="):
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
    assert measure_parts(shards, "rouge").corpus == 1


def test_counts_of_merged_signatures_add_up():
    a = CaptionSet.of({"1": "a"}, {"1": ["a"]})
    merged = (
        parse("rouge")
        .measure(replace(a, skipped=2))
        .merge(parse("rouge").measure(replace(CaptionSet.of({"2": "b"}, {"2": ["b", "c"]}), skipped=3)))
    )
    assert "|items:2|refs:1-2|" in str(merged.signature) and "|skipped:5|" in str(merged.signature)


def test_orders_far_beyond_any_caption_are_empty():
    assert parse("distinct_n(n=300)").measure(CaptionSet.of({"1": "a cat"})).corpus == 0


def test_the_signature_says_what_moves_the_number():
    captions = CaptionSet.of({"1": "a", "2": "b"}, {"1": ["a"], "2": ["b", "c"]})
    text = str(parse("cider").measure(captions).signature)
    fingerprint = f"{captions.fingerprint:016x}"
    assert text.startswith("cider|tok:ptb.1|variant:d|idf:refs:2:")
    assert f"|items:2|refs:1-2|data:{fingerprint[:8]}|captious:" in text
