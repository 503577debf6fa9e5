"""Rewards as self-critical training computes them, beside the formula in plain Python and pycocoevalcap's CIDEr-D."""

import pickle
from collections import Counter, defaultdict

import numpy as np
import pytest
from tests.text.test_idf import counted, reference_cider

from captious import InputError
from captious.compat.pyciderevalcap import Cider, CiderD
from captious.text.idf import from_pickle, get_named_path

GTS = {
    1: ["a UNK dog runs <eos>", "a dog 's ball <eos>"],
    2: ["the UNK sat , and sat <eos>", "a cat <eos>"],
    3: ["two red buses <eos>", "red UNK buses <eos>"],
}
RES = [
    {"image_id": 1, "caption": ["a UNK dog 's ball <eos>"]},
    {"image_id": 2, "caption": ["the cat sat , <eos>"]},
    {"image_id": 1, "caption": ["two dogs <eos>"]},  # samples of an image follow each other or not
    {"image_id": 3, "caption": ["two UNK buses <eos>"]},
]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """data/coco-train-words.p, below the folder in which the script runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    content = {"ref_len": 3, "document_frequency": defaultdict(float, counted(GTS))}
    path = tmp_path / "data" / "coco-train-words.p"
    path.write_bytes(pickle.dumps(content))
    return path


def expected(frequencies, items):
    return [reference_cider(one["caption"][0], GTS[one["image_id"]], frequencies, items) for one in RES]


def test_a_pickle_is_found_by_name_by_path_and_as_a_corpus_of_captious(table):
    from_pickle(table, "mine").save(get_named_path("mine"))
    for df in ("coco-train-words", str(table), "data/coco-train-words", "mine"):
        score, scores = CiderD(df=df).compute_score(GTS, RES)
        assert scores.tolist() == pytest.approx(expected(counted(GTS), 3), abs=1e-12)
        assert type(score) is np.float64 and score == pytest.approx(scores.mean()) and score > 0.5


def test_the_corpus_is_the_references_of_each_entry():
    counts = Counter()
    for one in RES:
        counts.update(counted({0: GTS[one["image_id"]]}))
    score, scores = CiderD().compute_score(GTS, RES)
    assert scores.tolist() == pytest.approx(expected(counts, len(RES)), abs=1e-12) and score > 0


def test_it_equals_pycocoevalcap_where_both_score_the_same():
    peer = pytest.importorskip("pycocoevalcap.cider.cider", reason="pycocoevalcap is not installed")
    entries = [RES[0], RES[1], RES[3]]
    _, theirs = peer.Cider().compute_score(GTS, {one["image_id"]: one["caption"] for one in entries})
    assert CiderD().compute_score(GTS, entries)[1].tolist() == pytest.approx(theirs.tolist(), abs=1e-9)


def test_cider_is_that_of_the_paper():
    # "dog" alone against "a dog": of the words one in two, of longer n-grams none. df of both words is 1 of 2 items,
    # so that all weights are log 2, and the cosine at order 1 is 1/√2: CIDEr is 10/4 · 1/√2.
    gts, res = (
        {1: ["a dog"], 2: ["one cat"]},
        [
            {"image_id": 1, "caption": ["dog"]},
            {"image_id": 2, "caption": ["one one cat"]},
        ],
    )
    # "one one cat" against "one cat": (2·1 + 1·1) / (√5 · √2) at order 1; ("one", "cat") of two bigrams, 1/√2.
    second = 10 / 4 * (3 / np.sqrt(10) + 1 / np.sqrt(2))
    assert Cider().compute_score(gts, res)[1].tolist() == pytest.approx([10 / 4 / np.sqrt(2), second], abs=1e-12)
    assert (Cider().method(), CiderD().method()) == ("CIDEr", "CIDEr-D")


def test_the_demo_of_the_cider_repository(capsys):
    """``cidereval.py``: references and candidates as its ``LoadData`` reads them, and both metrics as lists."""
    from captious.compat.pyciderevalcap import CIDErEvalCap as ciderEval
    from captious.compat.pycocoevalcap import CIDErEvalCap as from_both_doors

    assert ciderEval is from_both_doors
    gts = {"1.jpg": [{"caption": "A red dog."}, {"caption": "The dog!"}], "2.jpg": [{"caption": "One cat."}]}
    res = [{"image_id": "1.jpg", "caption": "A red dog"}, {"image_id": "2.jpg", "caption": "Cat."}]
    scores = ciderEval(gts, res, "corpus").evaluate()
    tokens = {"1.jpg": ["a red dog", "the dog"], "2.jpg": ["one cat"]}
    entries = [{"image_id": "1.jpg", "caption": ["a red dog"]}, {"image_id": "2.jpg", "caption": ["cat"]}]
    assert scores == {
        "CIDEr": Cider().compute_score(tokens, entries)[1].tolist(),
        "CIDErD": CiderD().compute_score(tokens, entries)[1].tolist(),
    }
    assert scores["CIDEr"][1] == pytest.approx(10 / 4 / np.sqrt(2))  # one word of two, as above
    printed = capsys.readouterr().out.splitlines()
    assert printed[:4] == ["tokenization...", "tokenized refs", "tokenized cands", "setting up scorers..."]
    assert printed[-1] == f"CIDErD: {np.mean(scores['CIDErD']):0.3f}"
    with pytest.raises(InputError, match=r"res: entry 1: is {'image_id': 1}, expected"):
        ciderEval(gts, [{"image_id": 1}])


@pytest.mark.parametrize(
    ("gts", "res", "message"),
    [
        (GTS, {1: ["a"]}, 'res is a dictionary, expected a list of {"image_id": …, "caption": [text]}'),
        (GTS, [], 'res is empty, expected a list of {"image_id": …, "caption": [text]}'),
        (GTS, [{"caption": ["a"]}], "res: entry 1: is {'caption': ['a']}, expected"),
        (GTS, [{"image_id": 9, "caption": ["a"]}], "res: entry 1: gts does not have its image id 9"),
        (GTS, [{"image_id": 1, "caption": "a"}], "caption of image id 1 is 'a', expected a list of one tokenized text"),
        (GTS, [{"image_id": 1, "caption": ["a", "b"]}], "expected a list of one tokenized text"),
        ({1: []}, [{"image_id": 1, "caption": ["a"]}], "references of image id 1 is [], expected a list of tokenized"),
    ],
)
def test_mistakes_are_one_line(gts, res, message):
    with pytest.raises(InputError) as error:
        CiderD().compute_score(gts, res)
    assert message in str(error.value)


def test_what_a_constructor_cannot_do_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"CiderD\(n=4, sigma=3.0\), expected n=4 and sigma=6.0"):
        CiderD(sigma=3.0)
    with pytest.raises(InputError, match=r"df='coco-train': no data/coco-train\.p, and no idf corpus 'coco-train'"):
        CiderD(df="coco-train")
