"""The functions of aac-metrics: its documented values, parts and penalties, and itself where it is installed."""

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
    assert each["spider_fl"] == pytest.approx(each["spider"] * [0.1, 1])


def test_spider_max_takes_the_candidate_with_the_largest_spider(resources):
    several = [["someone is here", "a man is speaking"], ["rain falls", "a dog"]]
    _, sentences = ours.spider_max(several, REFERENCES, resources=resources)
    each = [ours.spider([texts[rank] for texts in several], REFERENCES, resources=resources)[1] for rank in (0, 1)]
    best = np.argmax([one["spider"] for one in each], axis=0)
    assert best.tolist() == [1, 0]
    for name in ("spider", "cider_d", "spice"):
        assert sentences[f"{name}_max"] == pytest.approx([each[rank][name][item] for item, rank in enumerate(best)])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ours.evaluate(CANDIDATES, REFERENCES, metrics="dcase1999"), "metrics='dcase1999'"),
        (lambda: ours.evaluate(CANDIDATES, REFERENCES, metrics=["mace"]), "no metric 'mace'"),
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

    def scorer(candidates, mult_references, return_all_scores=True, **options):
        values, sentences = ours.spider(candidates, mult_references, resources=resources)
        return {k: torch.tensor(v) for k, v in values.items()}, {k: torch.from_numpy(v) for k, v in sentences.items()}

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
