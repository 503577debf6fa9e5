"""METEOR as a metric like any other."""

import numpy as np
import pytest

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.meteor.meteor import Meteor


@pytest.fixture
def meteor(make_source):
    folder = str(make_source())
    return lambda **parameters: Meteor(resources=folder, **parameters)


@pytest.fixture
def captions():
    return CaptionSet.of(
        {"1": "A photo of a dog.", "2": "men sat", "3": "a bird", "4": ""},
        {
            "1": ["A picture of a puppy!", "a photo of a dog"],
            "2": ["a cat", "a man sat"],
            "3": ["the dog"],
            "4": ["it"],
        },
    )


def test_values_are_by_id_and_the_corpus_from_sums(meteor, captions):
    measured = meteor().measure(captions)
    # Item 2: sat exactly and men/man by synonym (.8), in one chunk: P = (1 + .8)/2; the reference has 2 content words
    # and the function word a: R = 1.8*.75 / (2*.75 + .25); frag = 1/2.
    precision, recall = 0.9, 1.8 * 0.75 / 1.75
    second = 1 / (0.15 / precision + 0.85 / recall) * (1 - 0.6 * 0.5**0.2)
    assert measured.items == pytest.approx({"1": 1.0, "2": second, "3": 0.0, "4": 0.0}, abs=1e-12)
    # Corpus: candidate lengths 5+2+2+0 with 3+0+1+0 function words; references 5+3+2+1 with 3+1+1+0; matched whole: 2
    # content and 3 function words, and item 2; 1 chunk in all, for item 1 counts none.
    precision = (0.75 * (2 + 1.8) + 0.25 * 3) / (0.75 * 5 + 0.25 * 4)
    recall = (0.75 * (2 + 1.8) + 0.25 * 3) / (0.75 * 6 + 0.25 * 5)
    assert measured.corpus == pytest.approx(
        1 / (0.15 / precision + 0.85 / recall) * (1 - 0.6 * (1 / 7) ** 0.2), abs=1e-12
    )


def test_shards_merge_exactly(meteor, captions):
    whole = meteor().measure(captions)
    merged = meteor().measure(captions.take([0, 2])).merge(meteor().measure(captions.take([1, 3])))
    assert merged.items == whole.items
    assert merged.corpus == whole.corpus


def test_several_candidates_sum_their_counts(meteor):
    both = CaptionSet.of({"1": ["a dog", "a cat"]}, {"1": ["the dog"]})
    apart = CaptionSet.of({"1": "a dog", "2": "a cat"}, {"1": ["the dog"], "2": ["the dog"]})
    assert meteor().measure(both).corpus == meteor().measure(apart).corpus


def test_an_item_without_references_has_no_value(meteor):
    measured = meteor().measure(CaptionSet.of({"1": "a dog", "2": "a dog"}, {"1": ["a dog"]}))
    assert measured.items["1"] == 1.0
    assert np.isnan(measured.items["2"])
    assert measured.reasons == {"2": "no references"}
    assert measured.corpus == 1.0


def test_the_signature_names_what_moves_the_number(meteor, captions):
    def settings(**parameters):
        return dict(meteor(**parameters).measure(captions).signature.settings)

    default = settings()
    assert default["version"] == "1.5"
    assert default["lang"] == "en"
    assert default["modules"] == "exact+stem+synonym+paraphrase"
    assert default["weights"] == "1.0/0.6/0.8/0.6"
    assert default["abgd"] == "0.85/0.2/0.6/0.75"
    fewer = settings(modules="exact+stem+synonym", task="li")
    assert fewer["weights"] == "1.0/0.5/0.5"
    assert fewer["abgd"] == "0.75/1.4/0.7/0.5"
    assert fewer["tables"] != default["tables"]


def test_without_paraphrases_the_metric_runs_when_asked(make_source, captions):
    folder = str(make_source("bare", paraphrases=False))
    fewer = Meteor(resources=folder, modules="exact+stem+synonym")
    assert fewer.measure(captions).items["2"] > 0
    with pytest.raises(InputError, match=r"paraphrase-en\.gz"):
        Meteor(resources=folder).measure(captions)


def test_the_same_tables_without_paraphrases_have_the_same_hash(make_source, captions):
    metrics = [
        Meteor(resources=str(make_source(name, paraphrases=full)), modules="exact+stem")
        for name, full in (("full", True), ("bare", False))
    ]
    first, second = (metric.measure(captions).signature.settings["tables"] for metric in metrics)
    assert first == second


def test_modules_are_kept_in_order_and_checked():
    assert str(Meteor(modules="synonym+exact")) == "meteor(modules=exact+synonym)"
    assert str(Meteor(modules="paraphrase+exact+stem+synonym")) == "meteor"
    with pytest.raises(InputError, match=r"no module 'synonyms'.*did you mean 'synonym'"):
        Meteor(modules="exact+synonyms")
    with pytest.raises(InputError, match="exact cannot be left out"):
        Meteor(modules="stem")


def test_captions_with_line_breaks_are_counted_and_do_not_shift_others(meteor):
    dirty = CaptionSet.of({"1": "a dog\nran", "2": "a cat"}, {"1": ["a dog\tran"], "2": ["a cat"]})
    measured = meteor().measure(dirty)
    assert measured.items == {"1": 1.0, "2": 1.0} and "in 2 of the captions" in measured.warnings[0]


def test_captions_that_had_to_be_cleaned_are_counted_beside_the_number(meteor):
    from captious._evaluate import evaluate

    captions = CaptionSet.of({"1": "a\ndog", "2": "a cat ||| a dog", "3": "a dog"}, {k: ["a dog"] for k in "123"})
    warnings = evaluate(captions, [meteor()]).warnings
    assert "METEOR: read as spaces in 2 of the captions: line breaks, tabs, control characters or '|||'" in warnings
