"""Why an item has its score: the parts are those of hand arithmetic, and they add up to what ``evaluate`` gives."""

import json
import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.metrics.meteor.conftest import write_source

import captious
from captious import CaptionSet, InputError, Resampling
from captious.metrics import Explanations, parse
from captious.metrics.style.fitting import fit
from captious.metrics.style.model_files import save
from captious.render import html
from captious.render.terminal import format_text

HARD = {
    "repeated": (["a a a dog dog"], ["a dog a dog", "the dog"]),
    "several": (["a big dog runs", "the cat", "a dog"], ["a huge dog is running", "a dog runs"]),
    "one of several is empty": (["", "a dog in front of the man"], ["a dog before the man"]),
    "empty": ([""], ["a dog"]),
    "both are empty": ([""], ["", "a dog"]),
    "no match": (["zebra crossing"], ["a dog", "the man"]),
    "the same": (["the man sat on top of a picture"], ["the man sat on top of a picture"]),
    "punctuation": (["A dog, a hound!  Two DOGS."], ["two dogs . a hound", "a dog"]),
}
WORDS = ("a", "the", "dog", "hound", "puppy", "man", "big", "huge", "run", "is", "running", "picture", "of", "photo")
texts = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)


def hard(style="happy"):
    candidates, references = ({key: pair[side] for key, pair in HARD.items()} for side in (0, 1))
    return CaptionSet.of(candidates, references, {"style": [style] * len(HARD)})


@pytest.fixture(scope="module")
def meteor(tmp_path_factory):
    return write_source(tmp_path_factory.mktemp("meteor"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("style") / "two.style"
    save(fit([("happy", "a big dog runs"), ("happy", "the man runs"), ("gloomy", "a dog in the photo of a man")]), path)
    return path


def amounts(explanation):
    return {part.name: pytest.approx(part.adds, abs=1e-12) for part in explanation.parts}


def assert_adds_up(metrics, captions):
    report = captious.evaluate(captions, metrics, resampling=Resampling(0))
    for measurement in report:
        for id in captions.ids:
            explanation = measurement.metric.explain(captions, id)
            value = measurement.items[id]
            assert explanation.value == pytest.approx(value, abs=1e-12, nan_ok=True)
            if math.isnan(value):
                assert explanation.reason == measurement.reasons[id] and not explanation.parts
            else:
                assert sum(part.adds for part in explanation.parts) == pytest.approx(value, abs=1e-12), id


FORMS = (
    "bleu,rouge,rouge(best=f),cider,cider(variant=plain),meteor(resources={meteor}),"
    "meteor(task=adq,resources={meteor}),onlystyle(model={model}),onlystyle(model={model},grams=multiset,unseen=skip),"
    "onlystyle(model={model},short=skip)"
)


def test_hard_items_add_up(meteor, model):
    assert_adds_up(FORMS.format(meteor=meteor, model=model), hard())


@pytest.mark.parametrize("value", ["f", "precision", "recall"])
def test_rouge_n_adds_up(value):
    assert_adds_up(
        [f"rouge_n(n={n},value={value},over={over})" for n, over in product((1, 2), ("max", "mean"))], hard()
    )


def test_stylecider_adds_up_under_every_reading(model):
    forms = [
        f"stylecider(model={model},references={references},negative={negative},tf={tf},short={short},scale={scale})"
        for references, negative, tf, short, scale in product(
            ("mean", "max", "pooled"), ("signed", "zero"), ("yes", "no"), ("zero", "skip"), (1, 10)
        )
    ]
    forms += [
        f"stylecider(model={model},tf=yes,clip=yes,length_penalty=yes,references={over})" for over in ("mean", "max")
    ]
    assert_adds_up(forms, hard())


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(texts, min_size=1, max_size=2), st.lists(texts, min_size=1, max_size=3)),
        min_size=2,
        max_size=3,
    )
)
def test_any_captions_add_up(meteor, items):
    captions = CaptionSet.of(
        {str(number): pair[0] for number, pair in enumerate(items)},
        {str(number): pair[1] for number, pair in enumerate(items)},
    )
    assert_adds_up(f"bleu(n=2),bleu(n=4),rouge,cider,meteor(resources={meteor})", captions)


def test_cider_by_hand():
    captions = CaptionSet.of({"1": "a red dog", "2": "a cat"}, {"1": ["a red dog"], "2": ["one cat"]})
    # All n-grams stand in the references of one item of two: idf = ln 2. Item 2 shares "cat" of two words with its
    # reference: cosine 1/2 at order 1, nothing above; 10 · ¼ · ½.
    explanation = parse("cider").explain(captions, "2")
    assert amounts(explanation) == {"cat": 1.25}
    (part,) = explanation.parts
    assert part.details == {
        "n": 1, "count": 1, "idf": pytest.approx(math.log(2)), "weight": pytest.approx(math.log(2)),
        "by_reference": [pytest.approx(1.25)],
    }  # fmt: skip
    # Item 1 equals its reference: orders 1 to 3 have cosine 1, which their 3, 2 and 1 n-grams share: 10 · ¼ each.
    thirds, halves = dict.fromkeys(("a", "red", "dog"), 2.5 / 3), dict.fromkeys(("a red", "red dog"), 1.25)
    assert amounts(parse("cider").explain(captions, "1")) == {**thirds, **halves, "a red dog": 2.5}


def test_the_statistics_are_those_of_the_whole_set():
    captions = CaptionSet.of({"1": "a red dog", "2": "a cat"}, {"1": ["a red dog"], "2": ["one cat"]})
    assert parse("cider").explain(captions, "1").value == pytest.approx(7.5)
    assert parse("cider").explain(captions.take([0]), "1").value == 0  # ln 1


def test_cider_says_what_each_reference_adds():
    captions = CaptionSet.of({"1": "a dog", "2": "b"}, {"1": ["a dog", "dog"], "2": ["b"]})
    explanation = parse("cider(variant=plain)").explain(captions, "1")
    rows = explanation.document().table("references").rows
    assert [row[0] for row in rows] == ["a dog", "dog"]
    assert sum(row[1] for row in rows) == pytest.approx(explanation.value)
    # dog and a have idf ln 2: against "a dog" orders 1 and 2 have cosine 1, against "dog" order 1 has 1/√2.
    assert [row[1] for row in rows] == [pytest.approx(10 / 4 * 2 / 2), pytest.approx(10 / 4 / math.sqrt(2) / 2)]


def test_meteor_by_hand(meteor):
    captions = CaptionSet.of({"1": "the hound", "2": "dog the"}, {"1": ["a man", "the dog"], "2": ["the dog"]})
    metric = parse(f"meteor(resources={meteor})")
    # the is a function word, weight ¼, matched exactly; hound is a synonym of dog, ¾ · 0.8. P = R = F = 0.85; all words
    # of both match in one chunk, which has no penalty.
    explanation = metric.explain(captions, "1")
    assert amounts(explanation) == {"hound": 0.6, "the": 0.25} and explanation.value == pytest.approx(0.85)
    assert {part.name: (part.details["reference"], part.details["module"]) for part in explanation.parts} == {
        "hound": ("dog", "synonym"),
        "the": ("the", "exact"),
    }
    # Both words match exactly, F = 1, in two chunks of two words: the penalty is 0.6 · (2/2)^0.2.
    explanation = metric.explain(captions, "2")
    assert amounts(explanation) == {"dog": 0.75, "the": 0.25, "penalty for 2 chunks": -0.6}
    lines = format_text(explanation.document(), 80)
    assert "candidate: [dog]₂ [the]₁" in lines and "reference 1: [the]₁ [dog]₂" in lines
    assert "sum: 0.7500 + 0.2500 − 0.6000 (penalty for 2 chunks) = 0.4000" in lines


def test_bleu_by_hand():
    captions = CaptionSet.of({"1": "a cat on a mat"}, {"1": ["the cat is on a mat", "a cat sits"]})
    explanation = parse("bleu(n=1)").explain(captions, 1)
    value = 4 / 5 * math.exp(1 - 6 / 5)
    assert explanation.value == pytest.approx(value)
    assert amounts(explanation) == dict.fromkeys(("a", "cat", "on", "mat"), pytest.approx(value / 4))
    assert {part.name: (part.details["matched"], part.details["count"]) for part in explanation.parts}["a"] == (1, 2)
    assert explanation.breakdown.factors["brevity_penalty"] == pytest.approx(math.exp(1 - 6 / 5))
    assert "BLEU-1 = brevity penalty 0.8187 · 4/5" in explanation.breakdown.formula
    # Order 4 has no match: what is left of the value comes from the constant 1e-15.
    explanation = parse("bleu(n=4)").explain(captions, "1")
    assert "no match of order 4" in [part.name for part in explanation.parts]


def test_rouge_by_hand():
    captions = CaptionSet.of({"1": "a b c d"}, {"1": ["a b c x y z", "c d"]})
    # P = 3/4 from the first reference, R = 2/2 from the second: F = 2.44 · P · R / (R + 1.44 · P). Its share through P
    # is R / (R + 1.44 · P) and belongs to a, b and c; the rest to c and d.
    f = 2.44 * 0.75 / (1 + 1.44 * 0.75)
    through_p, through_r = f / 2.08 / 3, f * 1.08 / 2.08 / 2
    explanation = parse("rouge").explain(captions, "1")
    assert amounts(explanation) == {"a": through_p, "b": through_p, "c": through_p + through_r, "d": through_r}
    labels = [text.label for text in explanation.breakdown.texts]
    assert labels == ["candidate", "precision from", "recall from"]


def test_onlystyle_of_several_candidates_is_their_mean(tmp_path):
    save(fit([("gloomy", "a grey day"), ("happy", "a fine day")]), tmp_path / "tiny.style")
    captions = CaptionSet.of({"1": ["fine day", "zebra"]}, columns={"style": ["happy"]})
    # ¼ · ((½ + 0)/2 + ½) for the first, 0 for the second; half of each.
    explanation = parse(f"onlystyle(model={tmp_path / 'tiny.style'})").explain(captions, "1")
    assert amounts(explanation) == {"fine day": 1 / 16, "fine": 1 / 32, "day": 0, "zebra": 0}
    assert [part.candidate for part in explanation.parts] == [0, 0, 0, 1]
    assert explanation.breakdown.notes == ["no style has: zebra; they score 0 and still count"]


def test_a_detail_unit_adds_what_the_caption_gains_by_it(colors, photos):
    captions = CaptionSet.of({"1": "A red dog. A red ball."}, columns={"image": [str(photos / "red.png")]})
    explanation = parse('clipscore(weights=colors,prefix="",value=raw)').explain(captions, "1")
    # Vectors are (red, others): (1, 2) of the first sentence alone, (2, 4) of both; their cosines with (1, 0) are 1/√5.
    first, second = explanation.parts
    assert (first.name, second.name) == ("A red dog.", "A red ball.")
    assert (first.adds, second.adds) == (pytest.approx(1 / math.sqrt(5)), pytest.approx(0, abs=1e-7))
    assert second.details["so_far"] == pytest.approx(1 / math.sqrt(5))
    assert second.details["alone"] == pytest.approx(1 / math.sqrt(5))


def test_an_item_without_a_value_says_why():
    captions = CaptionSet.of({"1": "a dog", "2": "a cat"}, {"2": ["a cat"]})
    explanation = parse("cider").explain(captions, "1")
    assert explanation.reason == "no references" and math.isnan(explanation.value)
    assert str(explanation).startswith("CIDEr-D has no value of 1\nCIDEr-D of 1 has no value: no references.\n")
    assert json.loads(explanation.to_json())["value"] is None


def test_a_metric_that_cannot_explain_says_so():
    report = captious.evaluate(
        {"1": "a dog"}, "rouge,vocab_size", resampling=Resampling(0), references={"1": ["a dog"]}
    )
    with pytest.raises(InputError, match=r"^vocab_size does not explain single values, only rouge$"):
        report.explain("1", "vocab_size")
    explanations = report.explain("1")
    assert explanations.unexplained == ["vocab_size"] and len(explanations) == 1
    assert "vocab_size does not explain single values" in str(explanations)
    with pytest.raises(InputError, match=r"^explanations: no metric 'cider'; there are rouge"):
        explanations["cider"]


def test_bleu_is_bleu_4_among_the_explanations_too():
    captions = {"1": "a red dog runs in the park"}
    report = captious.evaluate(
        captions, "bleu", resampling=Resampling(0), references={"1": ["a red dog runs in a park"]}
    )
    explanations = report.explain("1")
    assert explanations["bleu"].metric == explanations["BLEU-4"].metric == "bleu(n=4)"
    assert explanations["bleu(n=1)"].metric == "bleu(n=1)"


def test_an_unknown_id_names_the_nearest():
    captions = CaptionSet.of({"391895": "a dog", "7": "a cat"}, {"391895": ["a dog"], "7": ["a cat"]})
    with pytest.raises(KeyError, match="no item with id '391896'; did you mean '391895'"):
        parse("rouge").explain(captions, 391896)


def test_of_a_repeated_word_that_counts_once_the_one_in_context_is_marked():
    captions = CaptionSet.of({"1": "a dog a cat a", "2": "a a a"}, {"1": ["a cat"], "2": ["a"]})
    assert parse("bleu(n=2)").explain(captions, "1").breakdown.texts[0].groups == [0, 0, 1, 1, 0]
    assert parse("bleu(n=1)").explain(captions, "1").breakdown.texts[0].groups == [1, 0, 0, 2, 0]
    assert parse("cider").explain(captions, "2").breakdown.texts[0].groups == [1, 0, 0]


def test_matched_words_stand_in_brackets_and_the_sum_in_a_line():
    captions = CaptionSet.of({"1": "the red dog a cat"}, {"1": ["one red dog", "a cat"]})
    lines = str(parse("bleu(n=2)").explain(captions, "1")).splitlines()
    assert lines[1].startswith("BLEU-2 of 1 is 0.6325: 6 n-grams add to it")
    assert "candidate: the [red dog] [a cat]" in map(str.rstrip, lines)
    # 4 of 5 words and 2 of 4 pairs: √(4/5 · 2/4) = 0.6325, half of it for each order
    assert "sum: 0.1581 + 0.1581 + 0.0791 + 0.0791 + 0.1581 (2 more n-grams) = 0.6325" in lines


def test_five_parts_are_all_spelled_out():
    captions = CaptionSet.of({"1": "a b c d e"}, {"1": ["a b c d e"]})
    assert "sum: 0.2000 + 0.2000 + 0.2000 + 0.2000 + 0.2000 = 1.0000" in str(parse("bleu(n=1)").explain(captions, "1"))


def test_an_order_whose_n_grams_a_higher_one_has_is_not_printed_but_in_the_data():
    captions = CaptionSet.of({"1": "the red dog"}, {"1": ["a red dog"]})
    names = (
        "bleu(n=1)",
        "bleu(n=2)",
        "rouge_n(n=1)",
        "rouge_n(n=2)",
        "cider(idf=refs)",
        "cider(variant=plain,idf=refs)",
    )
    explanations = Explanations("1", [parse(name).explain(captions, "1") for name in names])
    document = explanations.document()
    titles = [section.title for section in document.sections if section.title and " of 1" in section.title]
    assert [title.split()[0] for title in titles] == ["BLEU-2", "ROUGE-1", "ROUGE-2", "CIDEr-D", "CIDEr"]
    assert document.notes == [f"BLEU-1 {explanations['bleu(n=1)'].value:.4f}: the same n-grams are in BLEU-2"]
    assert len(explanations.data()["metrics"]) == 6


def test_a_page_and_a_notebook_show_it_whatever_captions_hold(meteor):
    nasty = "<script>alert(1)</script> a dog </td><!-- title -->"
    captions = CaptionSet.of({nasty: [nasty, "a dog"]}, {nasty: [nasty, "a big dog"]})
    report = captious.evaluate(captions, f"bleu(n=4),rouge,cider,meteor(resources={meteor})", resampling=Resampling(0))
    explanations = report.explain(nasty)
    assert isinstance(explanations, Explanations)
    for markup in (html.render_page(explanations.document()), explanations._repr_html_()):
        # The page has scripts of its own; none of the caption's is among them.
        assert "<script>alert" not in markup and "</td><!--" not in markup and "&lt;script" in markup
    data = json.loads(explanations.to_json())
    assert [one["metric"].partition("(")[0] for one in data["metrics"]] == ["bleu", "rouge", "cider", "meteor"]
    for one in data["metrics"]:
        assert sum(part["adds"] for part in one["parts"]) == pytest.approx(one["value"], abs=1e-12)
