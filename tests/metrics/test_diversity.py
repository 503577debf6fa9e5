"""div-n, diversity, distinct-n, mBLEU, Self-CIDEr, LSA, vocabulary and novelty."""

import json
import math

import numpy as np
import pytest

import captious
from captious import Resampling
from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.bleu import Bleu
from captious.metrics.cider import Cider
from captious.metrics.diversity import (
    DistinctN,
    Diversity,
    DivN,
    Lsa,
    MBleu,
    Novelty,
    RepDiversity,
    Repetition,
    SelfCider,
    VocabSize,
)
from captious.runs.folder import Run
from captious.text.idf import DocumentFrequency

TEXTS = CaptionSet.of({"repeats": "a b a b a", "short": "a", "empty": ""})


def test_div_counts_distinct_over_all_with_the_documented_edges():
    # bigrams ab ba ab ba: 2 of 4; one token has no bigram to repeat: 1; no token: 0
    assert DivN(n=2).measure(TEXTS).items == {"repeats": 0.5, "short": 1.0, "empty": 0.0}


def test_strict_div_has_no_value_where_there_is_no_ngram():
    measured = DivN(n=2, strict=True).measure(TEXTS)
    assert measured.items["repeats"] == 0.5
    assert math.isnan(measured.items["short"]) and math.isnan(measured.items["empty"])
    assert measured.reasons == {"short": "fewer than 2 tokens", "empty": "fewer than 2 tokens"}
    assert measured.corpus == 0.5


def test_div_of_several_candidates_counts_them_together():
    captions = CaptionSet.of({"1": ["a b", "a b", "a c"]})
    assert DivN(n=2).measure(captions).corpus == pytest.approx(2 / 3)


def test_diversity_is_the_product():
    # div-2 2/4, div-3 (aba bab aba) 2/3, div-4 (abab baba) 1
    assert RepDiversity().measure(TEXTS).items["repeats"] == pytest.approx(0.5 * 2 / 3)


def test_repetition_of_sentences_as_they_were_written():
    # Add the salt | Add the egg | add the egg: 9 words, of which 5 differ; 6 bigrams, of which 4 differ
    captions = CaptionSet.of({"1": ["Add the salt.", "Add, the egg", "add the egg"], "2": ["a"], "3": [""]})
    values = Repetition(n=2).measure(captions).items
    # "Add the" twice and "the egg" twice; nothing crosses a sentence, and a text without bigrams repeats nothing
    assert values == {"1": pytest.approx(2 / 6), "2": 0, "3": 0}
    assert Repetition(n=1).measure(captions).items["1"] == pytest.approx(1 - 5 / 9)
    assert Repetition(n=2).higher_is_better is False
    # 1 − div-n of the same tokens
    assert DivN(n=2, tokenizer="mart").measure(captions).items["1"] == pytest.approx(1 - 2 / 6)


def test_diversity_of_mart_divides_by_words():
    captions = CaptionSet.of({"1": ["Add the salt.", "Add, the egg", "add the egg"]})
    assert Diversity(n=2).measure(captions).corpus == pytest.approx(4 / 9)
    assert Diversity(n=1).measure(captions).corpus == pytest.approx(5 / 9)


def test_sentences_of_a_paragraph_count_and_videos_without_predictions_do_not():
    references = {key: {"sentences": ["x"], "timestamps": [[0, 9]]} for key in "vw"}
    predictions = {"v": [{"sentence": text, "timestamp": [0, 9]} for text in ("a b", "a b")]}
    for events in ("video", "paragraph"):
        captions = captious.read(
            predictions, references=references, reading=captious.Reading(events=events, missing="zero")
        )
        measured = Repetition(n=2).measure(captions)
        # "a b" twice; as one text "a b a b" would have 3 bigrams
        assert measured.items["v"] == measured.corpus == pytest.approx(1 / 2) and "w" in measured.reasons


def test_distinct_counts_per_token():
    # bigrams ab ba: 2 distinct, 5 tokens
    assert DistinctN(n=2).measure(TEXTS).items == {"repeats": 2 / 5, "short": 0.0, "empty": 0.0}
    # over the corpus: 2 distinct bigrams, 6 tokens
    assert DistinctN(n=2, over="corpus").measure(TEXTS).corpus == pytest.approx(2 / 6)


CANDIDATES = ["a red dog runs fast", "a red dog sleeps", "two cats sit on a red mat"]
SEVERAL = CaptionSet.of(
    {"1": CANDIDATES, "2": ["a b c", "d e"]}, {"1": ["a red dog runs", "a dog"], "2": ["a b", "d e f"]}
)


def test_mbleu_is_the_mean_bleu_of_each_candidate_against_the_others():
    for n in (1, 2, 4):
        each = [
            Bleu(n=n)
            .measure(CaptionSet.of({"1": text}, {"1": [other for other in CANDIDATES if other != text]}))
            .corpus
            for text in CANDIDATES
        ]
        assert MBleu(n=n).measure(SEVERAL).items["1"] == pytest.approx(np.mean(each), abs=1e-12)


def test_mbleu_with_repeated_candidates():
    captions = CaptionSet.of({"1": ["a a b", "a b", "a b"]})
    # "a a b" against "a b", "a b": a clipped to 1, b 1: 2/3; "a b" against the others: 2/2, closest length 2
    assert MBleu(n=1).measure(captions).corpus == pytest.approx((2 / 3 + 1 + 1) / 3)


def test_selfcider_by_its_definition():
    """K from CIDEr-D of each pair (i <= j, mirrored), its singular values, and the formula."""
    state = Cider().prepare(SEVERAL)
    kernel = np.zeros((3, 3))
    for i in range(3):
        for j in range(i, 3):
            pair = CaptionSet.of({"1": CANDIDATES[i]}, {"1": [CANDIDATES[j]]})
            kernel[i, j] = kernel[j, i] = Cider().measure(pair, state).corpus
    roots = np.sqrt(np.linalg.svd(kernel, compute_uv=False))
    expected = -math.log(roots.max() / roots.sum()) / math.log(3)
    assert SelfCider().measure(SEVERAL).items["1"] == pytest.approx(expected, abs=1e-9)


def test_selfcider_uses_the_idf_corpus_it_is_given(tmp_path):
    other = CaptionSet.of(dict.fromkeys("abcd", ""), {"a": ["red red"], "b": ["a red"], "c": ["red mat"], "d": ["x"]})
    DocumentFrequency.of(other).save(tmp_path / "o.idf")
    given = SelfCider(idf=str(tmp_path / "o.idf")).measure(SEVERAL)
    assert given.items["1"] != pytest.approx(SelfCider().measure(SEVERAL).items["1"], abs=1e-6)
    assert given.items["1"] == pytest.approx(SelfCider().measure(SEVERAL, DocumentFrequency.of(other)).items["1"])


def test_lsa_by_its_definition():
    # words by captions of item 2: three and two words, nothing shared: singular values sqrt 3 and sqrt 2
    share = math.sqrt(3) / (math.sqrt(3) + math.sqrt(2))
    assert Lsa().measure(SEVERAL).items["2"] == pytest.approx(-math.log(share) / math.log(2), abs=1e-12)


def test_an_item_with_one_candidate_has_no_value_and_a_reason():
    captions = CaptionSet.of({"1": ["a", "b"], "2": "c"}, {"1": ["a"], "2": ["c"]})
    for metric in (MBleu(), SelfCider(), Lsa()):
        measured = metric.measure(captions)
        assert math.isnan(measured.items["2"])
        assert measured.reasons == {"2": "one candidate, needs several"}
        assert not math.isnan(measured.corpus)
        assert "unscored:1" in str(measured.signature)


def test_candidates_without_words_have_no_value_and_a_reason():
    captions = CaptionSet.of({"1": ["", ""], "2": ["a b", "c d"]}, {"1": ["a"], "2": ["c"]})
    assert Lsa().measure(captions).reasons == {"1": "no candidate has a token"}
    assert SelfCider().measure(captions).reasons == {"1": "no candidate has an n-gram with weight"}


def test_a_set_with_single_candidates_only_is_refused_with_the_remedy():
    with pytest.raises(InputError, match="give several candidates per item"):
        evaluate(CaptionSet.of({"1": "a"}), MBleu())


def test_vocabulary_unites_items():
    measured = VocabSize().measure(CaptionSet.of({"1": "a cat", "2": "a dog runs"}))
    assert measured.items == {"1": 2.0, "2": 3.0}
    assert measured.corpus == 4


def test_an_item_without_candidates_has_no_vocabulary_rather_than_an_empty_one():
    measured = VocabSize().measure(CaptionSet.of({"1": "a cat", "2": []}))
    assert math.isnan(measured.items["2"]) and measured.reasons == {"2": "no candidate caption"}


def test_novelty_against_a_file_of_training_captions(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(json.dumps({"id": i, "caption": text}) for i, text in enumerate(["A cat.", "a dog"])))
    captions = CaptionSet.of({"1": "a cat", "2": "a bird"})
    assert Novelty(against=str(path)).measure(captions).items == {"1": 0.0, "2": 1.0}
    with pytest.raises(InputError, match="no references"):
        evaluate(captions, Novelty())


def test_words_are_those_of_runs_and_filters(tmp_path):
    """The metric, the column that a run stores and the name in a filter are one count: 3 words, and (1 + 4) / 2."""
    texts = {"1": "a  red dog", "2": ["cat", "the cat's bed ."], "3": ""}
    report = captious.evaluate(texts, "words", resampling=Resampling(0))
    assert report["words"].values.tolist() == [3, 2.5, 0]
    assert report["words"].corpus == (3 + 1 + 4 + 0) / 4, "a mean over captions"
    report.save(tmp_path / "run")
    run = Run.at(str(tmp_path / "run"))
    assert run.table(run.names[0])["words"].to_pylist() == [3, 2.5, 0]
    assert captious.keep(tmp_path / "run", "words >= 2.5").passing == 2
    assert captious.evaluate({"1": "一只狗。"}, "words", resampling=Resampling(0), language="zh")["words"].corpus == 3


def test_words_are_not_among_all():
    assert "words" not in captious.evaluate({"1": "a dog"}, "all", resampling=Resampling(0)).measurements
