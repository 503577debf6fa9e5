"""The functions of aac-metrics: its documented values, parts and penalties, and itself where it is installed."""

import pickle
import sys

import numpy as np
import pytest

from captious.compat import aac_metrics as ours
from captious.errors import InputError

CANDIDATES = ["a man is speaking", "rain falls"]
REFERENCES = [
    ["a man speaks.", "someone speaks.", "a man is speaking while a bird is chirping in the background"],
    ["rain is falling hard on a surface"],
]


@pytest.fixture(scope="module")
def resources(tmp_path_factory):
    pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'captious[spice]'")
    from tests.contract.fixtures import meteor_data

    return str(meteor_data(tmp_path_factory.mktemp("wordnet")))


def test_the_values_of_its_documentation():
    """BLEU-1 and CIDEr-D of the example in the documentation and tests of aac-metrics 0.6 (MIT)."""
    corpus, sentences = ours.evaluate(CANDIDATES, REFERENCES, metrics=["bleu_1", "rouge_l", "cider_d"])
    assert corpus["bleu_1"] == pytest.approx(0.4278, abs=1e-4) and corpus["cider_d"] == pytest.approx(0.9614, abs=1e-4)
    assert sentences["cider_d"] == pytest.approx([1.3641, 0.5587], abs=1e-4)
    assert list(corpus) == list(sentences) == ["bleu_1", "rouge_l", "cider_d"]


def test_a_function_splits_at_spaces():
    """ "speaks." is another word than "speaks", since nothing is tokenized."""
    corpus, _ = ours.bleu_1(["someone speaks"], [["someone speaks."]])
    assert corpus["bleu_1"] == pytest.approx(1 / 2)


def test_spider_has_its_parts_and_the_penalty_of_each_caption(resources):
    corpus, sentences = ours.spider(CANDIDATES, REFERENCES, resources=resources)
    assert sentences["spider"] == pytest.approx((sentences["cider_d"] + sentences["spice"]) / 2)
    assert corpus["spider"] == pytest.approx(sentences["spider"].mean())
    fluent, each = ours.spider_fl(CANDIDATES, REFERENCES, fluency=[0.95, 0.2], resources=resources)
    assert each["fer"].tolist() == [1, 0] and fluent["fer"] == 0.5
    assert each["spider_fl"] == pytest.approx(np.asarray(each["spider"]) * [0.1, 1])


def test_spider_max_takes_the_candidate_with_the_largest_spider(resources):
    several = [["someone is here", "a man is speaking"], ["rain falls", "a dog"]]
    _, sentences = ours.spider_max(several, REFERENCES, resources=resources)
    each = [ours.spider([texts[rank] for texts in several], REFERENCES, resources=resources)[1] for rank in (0, 1)]
    best = np.argmax([one["spider"] for one in each], axis=0)
    assert best.tolist() == [1, 0]
    for name in ("spider", "cider_d", "spice"):
        expected = [float(each[rank][name][item]) for item, rank in enumerate(best)]
        assert sentences[f"{name}_max"].tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ours.evaluate(CANDIDATES, REFERENCES, metrics="dcase1999"), "metrics='dcase1999'"),
        (lambda: ours.evaluate(CANDIDATES, REFERENCES, metrics=["mace"]), "captious does not have mace; there are"),
        (lambda: ours.evaluate(CANDIDATES, REFERENCES, metrics="all"), "does not have bert_score, mace; there are"),
        (lambda: ours.evaluate(CANDIDATES, REFERENCES, metrics=["cidr"]), "no metric 'cidr'; did you mean 'cider_d'"),
        (lambda: ours.cider_d(CANDIDATES, REFERENCES, sigma=3.0), "cider_d: captious does not have the options sigma"),
        (lambda: ours.evaluate(CANDIDATES, REFERENCES, fluencies=[0, 0]), "evaluate: captious does not .* fluencies"),
        (lambda: ours.bleu_1(CANDIDATES, REFERENCES[:1]), "2 candidates and 1 lists of references, expected as many"),
        (lambda: ours.spider_max([["a"], ["a", "b"]], REFERENCES), "different numbers of candidates"),
    ],
)
def test_what_cannot_be_meant_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_its_own_functions_give_the_same(resources):
    """Where aac-metrics is installed: n-gram metrics on tokens, the choice of SPIDEr-max, and both penalties."""
    theirs = pytest.importorskip("aac_metrics.functional", exc_type=ImportError, reason="aac-metrics is not installed")
    torch = pytest.importorskip("torch")
    fense, spider_fl = (__import__(f"aac_metrics.functional.{name}", fromlist=["x"]) for name in ("fense", "spider_fl"))
    rng = np.random.default_rng(0)
    words = np.array(["a", "the", "dog", "cat", "rain", "falls", "barks", "on", "roof", "hard", "two"])

    def text():
        return " ".join(rng.choice(words, rng.integers(3, 9)))

    references = [[text() for _ in range(3)] for _ in range(12)]
    several = [[text() for _ in range(4)] for _ in range(12)]
    first = [texts[0] for texts in several]
    for name in ("bleu_1", "bleu_4", "rouge_l", "cider_d"):
        corpus, sentences = getattr(ours, name)(first, references)
        expected, each = getattr(theirs, name)(first, references)
        assert corpus[name] == pytest.approx(float(expected[name]), abs=1e-6)
        assert sentences[name] == pytest.approx(each[name].numpy(), abs=1e-6)

    expected, each = theirs.vocab(first, references)
    corpus, sentences = ours.vocab(first, references)
    assert {name: float(value) for name, value in corpus.items()} == pytest.approx(
        {name: float(value) for name, value in expected.items()}
    )
    assert sentences["vocab.cands"].tolist() == each["vocab.cands"].tolist()

    def scorer(candidates, mult_references, return_all_scores=True, **options):
        values, sentences = ours.spider(candidates, mult_references, resources=resources)
        return values, sentences

    chosen, each = theirs.mult_cands.mult_cands_metric(scorer, "spider", several, references, selection="max")
    corpus, sentences = ours.spider_max(several, references, resources=resources)
    for name in ("spider_max", "cider_d_max", "spice_max"):
        assert corpus[name] == pytest.approx(float(chosen[name])) and sentences[name] == pytest.approx(
            each[name].numpy()
        )
    errors = rng.random(12)
    fer = {"fer": torch.from_numpy((errors > 0.9).astype(float))}
    spider = scorer(first, references)
    _, penalized = spider_fl._spider_fl_from_outputs(spider, ({"fer": fer["fer"].mean()}, fer), 0.9)
    own = ours.spider_fl(first, references, fluency=errors.tolist(), resources=resources)[1]
    assert own["spider_fl"] == pytest.approx(penalized["spider_fl"].numpy())
    similar = {"sbert_sim": torch.from_numpy(rng.random(12))}
    _, penalized = fense._fense_from_outputs((({"sbert_sim": similar["sbert_sim"].mean()}), similar), ({}, fer), 0.9)
    assert penalized["fense"].numpy() == pytest.approx(similar["sbert_sim"].numpy() * (1 - 0.9 * (errors > 0.9)))


def test_a_text_in_place_of_a_list_is_refused():
    """Its letters would be taken for references: ROUGE-L of "a dog" to itself was 0.71."""
    for refused in (
        lambda: ours.evaluate(["a dog"], ["a dog"], metrics=["rouge_l"]),
        lambda: ours.rouge_l(["a dog"], ["a dog"]),
    ):
        with pytest.raises(InputError, match="mult_references: the text 'a dog', expected a list of texts"):
            refused()
    with pytest.raises(InputError, match="candidates: one text"):
        ours.evaluate("a dog", [["a dog"]], metrics=["rouge_l"])
    with pytest.raises(InputError, match="candidates: none"):
        ours.rouge_l([], [])


# The examples of its README and of its tests/test_doc_examples.py (MIT), with the import lines changed ----------------


@pytest.fixture
def tables(resources, meteor_home, monkeypatch):
    """What METEOR and SPICE read."""
    monkeypatch.setenv("CAPTIOUS_HOME", str(meteor_home))


def test_example_1_the_default_metrics(tables):
    torch = pytest.importorskip("torch")
    from captious.compat.aac_metrics import evaluate

    corpus_scores, _ = evaluate(CANDIDATES, REFERENCES)
    expected_keys = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "meteor", "cider_d", "spice", "spider"]
    assert set(corpus_scores.keys()) == set(expected_keys)
    assert torch.allclose(corpus_scores["bleu_1"], torch.as_tensor(0.4278, dtype=torch.float64), atol=0.0001)


def test_example_2_dcase2023(tables, tmp_path, monkeypatch):
    """Its detector is not downloaded: without one the line says which metric needs it, and what to give."""
    from captious.compat.aac_metrics import evaluate

    monkeypatch.setenv("FENSE_DATA", str(tmp_path))
    with pytest.raises(InputError) as error:
        evaluate(CANDIDATES, REFERENCES, metrics="dcase2023")
    assert str(error.value) == (
        "spider_fl needs a detector of fluency errors, and there is no "
        f"{tmp_path / 'echecker_clotho_audiocaps_base.ckpt'}: give fluency=, the folder of one or a probability for "
        "each caption, or leave out spider_fl, fense and fer"
    )
    corpus_scores, _ = evaluate(CANDIDATES, REFERENCES, metrics="dcase2023", fluency=[0.95, 0.2])
    expected_keys = ["meteor", "cider_d", "spice", "spider", "spider_fl", "fer"]
    assert set(corpus_scores.keys()).issuperset(expected_keys)


def test_example_3_one_metric():
    torch = pytest.importorskip("torch")
    from captious.compat.aac_metrics import cider_d, preprocess_mono_sents, preprocess_mult_sents

    candidates = preprocess_mono_sents(CANDIDATES)
    mult_references = preprocess_mult_sents(REFERENCES)
    corpus_scores, sents_scores = cider_d(candidates, mult_references)
    dtype = torch.float64
    assert torch.allclose(corpus_scores["cider_d"], torch.as_tensor(0.9614, dtype=dtype), atol=0.0001)
    assert torch.allclose(sents_scores["cider_d"], torch.as_tensor([1.3641, 0.5587], dtype=dtype), atol=0.0001)
    assert corpus_scores["cider_d"].item() == cider_d(candidates, mult_references, return_all_scores=False).item()


def test_example_4_an_object(tables):
    """``Evaluate`` of its README, whose third metric, FENSE, needs models; the objects pickle, as its tests ask."""
    from captious.compat.aac_metrics import CIDErD, Evaluate

    evaluate = pickle.loads(pickle.dumps(Evaluate(metrics=["spider", "vocab"])))
    corpus_scores, _ = evaluate(CANDIDATES, REFERENCES)
    assert corpus_scores["vocab.cands"] == 6 and corpus_scores["spider"] > 0
    metric = CIDErD(return_all_scores=False)
    for candidate, references in zip(CANDIDATES, REFERENCES, strict=True):
        metric.update([candidate], [references])
    assert float(metric.compute()) == pytest.approx(float(ours.cider_d(CANDIDATES, REFERENCES)[0]["cider_d"]))
    assert float(metric(CANDIDATES, REFERENCES)) > 0  # with the two from before, which it forgets now
    with pytest.raises(InputError, match="candidates: none"):
        metric.compute()


def test_vocab_is_the_arithmetic_of_sets():
    # The captions have 6 different words: a, man, is, speaking, rain, falls. The references have 17:
    # a man speaks. someone is speaking while bird chirping in the background (12), rain falling hard on surface (5).
    references = [{"a", "man", "speaks."}, {"someone", "speaks."}]
    references.append({"a", "man", "is", "speaking", "while", "bird", "chirping", "in", "the", "background"})
    rain = {"rain", "is", "falling", "hard", "on", "a", "surface"}
    everything = set.union(*references, rain)
    shared = {"a", "man", "is", "speaking", "rain"}
    corpus, sentences = ours.vocab(CANDIDATES, REFERENCES)
    assert sentences["vocab.cands"].tolist() == [4, 2] and len(everything) == 17
    assert corpus["vocab.cands"] == 6 and corpus["vocab.mrefs_full"] == 17
    precision, recall = len(shared) / 6, len(shared) / 17
    assert float(corpus["vocab.precision"]) == pytest.approx(precision)
    assert float(corpus["vocab.recall"]) == pytest.approx(recall)
    assert float(corpus["vocab.f1"]) == pytest.approx(2 * precision * recall / (precision + recall))
    assert float(corpus["vocab.jaccard"]) == pytest.approx(5 / 18)
    assert float(corpus["vocab.ratio_full"]) == pytest.approx(6 / 17)
    sizes = [len(one | rain) for one in references]  # one reference of the first item, and the only one of the second
    assert min(sizes) <= float(corpus["vocab.mrefs_avg"]) <= max(sizes)
    assert list(ours.vocab(CANDIDATES, None)[0]) == ["vocab.cands"]


def test_without_torch_values_are_numbers(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    corpus, sentences = ours.cider_d(CANDIDATES, REFERENCES)
    assert type(corpus["cider_d"]) is float and type(sentences["cider_d"]) is np.ndarray
    assert "vocab.mrefs_avg" not in ours.vocab(CANDIDATES, REFERENCES)[0]
