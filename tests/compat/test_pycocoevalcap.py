"""Our scorers beside pycocoevalcap's own: one script, two import lines, the same numbers, types and printed lines."""

import json
import math
import shutil

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from captious import InputError
from captious.compat import pycocoevalcap as ours
from captious.metrics.meteor import resources

pytest.importorskip("pycocoevalcap", reason="pycocoevalcap, the reference implementation, is not installed")
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

needs_java = [
    pytest.mark.java,
    pytest.mark.skipif(shutil.which("java") is None, reason="Java, which the original needs, is not installed"),
]

WORDS = st.lists(st.sampled_from(["a", "dog", "cat", "the", "runs", "red", "Red"]), max_size=9).map(" ".join)
SPACED = st.text(alphabet="ab \t\xa0\u2028\x1e", max_size=9)
CAPTIONS = st.one_of(WORDS, SPACED)
SETS = st.dictionaries(
    st.one_of(st.integers(0, 99), st.text("xyz", max_size=2)),
    st.tuples(CAPTIONS, st.lists(CAPTIONS, min_size=1, max_size=4)),
    min_size=1,
    max_size=7,
)


def both_sides(items):
    return {key: texts for key, (_, texts) in items.items()}, {key: [text] for key, (text, _) in items.items()}


@given(SETS, st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_bleu_gives_the_originals_lists(items, n):
    gts, res = both_sides(items)
    expected, expected_items = Bleu(n).compute_score(gts, res, verbose=0)
    score, scores = ours.Bleu(n).compute_score(gts, res, verbose=0)
    assert type(score) is list and type(scores) is list and all(type(values) is list for values in scores)
    assert score == pytest.approx(expected, abs=1e-12)
    assert np.allclose(scores, expected_items, rtol=0, atol=1e-12)


@given(SETS)
@settings(max_examples=200, deadline=None)
def test_rouge_gives_the_originals_array(items):
    gts, res = both_sides(items)
    expected, expected_items = Rouge().compute_score(gts, res)
    score, scores = ours.Rouge().compute_score(gts, res)
    assert type(score) is type(expected) and type(scores) is type(expected_items)
    assert score == pytest.approx(expected, abs=1e-12)
    assert np.allclose(scores, expected_items, rtol=0, atol=1e-12)


@given(SETS)
@settings(max_examples=150, deadline=None)
def test_cider_gives_the_originals_array(items):
    gts, res = both_sides(items)
    assume(any(text.split() for texts in gts.values() for text in texts))  # else the original stops with an error
    expected, expected_items = Cider().compute_score(gts, res)
    score, scores = ours.Cider().compute_score(gts, res)
    assert type(score) is type(expected) and type(scores) is type(expected_items)
    assert score == pytest.approx(expected, abs=1e-9)
    assert np.allclose(scores, expected_items, rtol=0, atol=1e-9)


def test_bleu_prints_the_originals_lines(capsys):
    gts, res = {1: ["a red dog runs"], 2: ["a cat", "two cats"]}, {2: ["the cat"], 1: ["a red dog"]}
    ours.Bleu(3).compute_score(gts, res)
    printed = capsys.readouterr().out
    Bleu(3).compute_score(gts, res)
    assert printed == capsys.readouterr().out
    assert "'testlen': 5" in printed


def test_one_image_by_calc_score():
    candidate, refs = ["a cat on a mat"], ["the cat is on a mat", "a cat"]
    assert ours.Rouge().calc_score(candidate, refs) == pytest.approx(Rouge().calc_score(candidate, refs), abs=1e-15)
    assert ours.Rouge().beta == Rouge().beta


@pytest.mark.parametrize("name", ["Bleu", "Cider", "Rouge"])
def test_scores_follow_the_order_of_the_references_whatever_that_of_the_candidates(name, candidates, references):
    scorer = getattr(ours, name)()
    gts = ours.PTBTokenizer().tokenize({k: [{"caption": text} for text in v] for k, v in references.items()})
    res = ours.PTBTokenizer().tokenize({k: [{"caption": text}] for k, text in candidates.items()})
    values = np.atleast_2d(scorer.compute_score(gts, res)[1])[-1]
    by_id = dict(zip(gts, values, strict=True))
    turned = {key: res[key] for key in sorted(res)}
    assert np.atleast_2d(scorer.compute_score(gts, turned)[1])[-1].tolist() == values.tolist()
    other_order = {key: gts[key] for key in reversed(gts)}
    again = np.atleast_2d(scorer.compute_score(other_order, turned)[1])[-1]
    assert dict(zip(other_order, again, strict=True)) == pytest.approx(by_id, abs=1e-12)


@pytest.mark.parametrize(
    ("gts", "res", "message"),
    [
        ({1: ["a"], 2: ["b"]}, {1: ["a"]}, "res lacks 1 ids of gts, such as 2"),
        ({1: ["a"]}, {1: ["a"], "x": ["b"]}, "gts lacks 1 ids of res, such as 'x'"),
        ({7: ["a"]}, {7: ["a", "b"]}, "res: id 7 has 2 captions, expected a list of one caption"),
        ({7: ["a"]}, {7: "a dog"}, "res: id 7 has 'a dog', expected a list of one caption"),
        ({7: []}, {7: ["a"]}, "gts: id 7 has 0 captions, expected a list of at least one reference"),
        ({7: [None]}, {7: ["a"]}, "gts: id 7 holds None, expected a tokenized text"),
        (["a"], ["a"], "gts is list, expected {image id: [captions]}"),
        ({}, {}, "gts and res are empty, expected captions by image id"),
    ],
)
@pytest.mark.parametrize("scorer", [ours.Bleu, ours.Cider, ours.Meteor, ours.Rouge])
def test_mistakes_are_named_by_id(scorer, gts, res, message):
    with pytest.raises(InputError) as error:
        scorer().compute_score(gts, res)
    assert str(error.value) == message


def test_what_a_constructor_cannot_do_is_said():
    with pytest.raises(InputError, match=r"Bleu\(n=5\), expected a whole number from 1 to 4"):
        ours.Bleu(5)
    with pytest.raises(InputError, match=r"Cider\(n=4, sigma=3.0\), expected n=4 and sigma=6.0"):
        ours.Cider(sigma=3.0)
    assert [scorer().method() for scorer in (ours.Bleu, ours.Meteor, ours.Rouge, ours.Cider)] == [
        "Bleu", "METEOR", "Rouge", "CIDEr",
    ]  # fmt: skip


def test_importing_spice_says_that_it_is_not_there():
    with pytest.raises(
        InputError, match="no Spice with the values of the original, expected Bleu, Cider, Meteor or Rouge"
    ):
        from captious.compat.pycocoevalcap import Spice  # noqa: F401
    with pytest.raises(AttributeError):
        ours.Speice  # noqa: B018


@pytest.mark.parametrize("record", ["a dog", {"text": "a dog"}, {"caption": 5}])
def test_the_tokenizer_names_the_id_of_a_wrong_record(record):
    with pytest.raises(InputError, match=r'^id 7: holds .*, expected objects such as {"caption": "a dog"}$'):
        ours.PTBTokenizer().tokenize({7: [record]})


class TestWithJava:
    pytestmark = needs_java

    def test_the_tokenizer_gives_the_tokens_of_the_jar(self, candidates, references):
        from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

        captions = {k: [{"caption": text} for text in [candidates[k], *references[k]]] for k in candidates}
        captions[0] = []
        expected = PTBTokenizer().tokenize(captions)
        tokenized = ours.PTBTokenizer().tokenize(captions)
        assert tokenized == expected
        assert list(tokenized) == list(expected)

    def test_a_line_separator_inside_a_caption_shifts_the_originals_captions_and_not_ours(self):
        from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

        captions = {1: [{"caption": "A dog\u2028runs"}], 2: [{"caption": "A cat"}], 3: [{"caption": "A bus"}]}
        assert PTBTokenizer().tokenize(captions) == {1: ["a dog"], 2: ["runs"], 3: ["a cat"]}
        assert ours.PTBTokenizer().tokenize(captions) == {1: ["a dog runs"], 2: ["a cat"], 3: ["a bus"]}

    def test_the_whole_evaluation_gives_the_originals_values(
        self, files, candidates, references, meteor_home, monkeypatch, capsys
    ):
        from pycocoevalcap import eval as original

        class Spice:  # the original downloads models for it, and captious has none
            def compute_score(self, gts, res):
                return 0.0, [0.0] * len(gts)

            def method(self):
                return "SPICE"

        monkeypatch.setattr(original, "Spice", Spice)
        monkeypatch.setenv("CAPTIOUS_HOME", str(meteor_home))
        COCO = pytest.importorskip("pycocotools.coco").COCO
        annotations, results = files
        coco = COCO(str(annotations))
        coco_results = coco.loadRes(str(results))
        expected = original.COCOEvalCap(coco, coco_results)
        evaluation = ours.COCOEvalCap(coco, coco_results)
        capsys.readouterr()
        expected.evaluate()
        expected_lines = capsys.readouterr().out.splitlines()
        evaluation.evaluate()
        lines = capsys.readouterr().out.splitlines()
        assert lines == [line for line in expected_lines if "SPICE" not in line]
        assert evaluation.params == expected.params
        del expected.eval["SPICE"]
        assert list(evaluation.eval) == list(expected.eval)
        assert evaluation.eval == pytest.approx(expected.eval, abs=1e-9)
        assert list(evaluation.imgToEval) == list(expected.imgToEval)
        for key, values in evaluation.imgToEval.items():
            del expected.imgToEval[key]["SPICE"]
            assert values == pytest.approx(expected.imgToEval[key], abs=1e-9)
        assert evaluation.evalImgs == list(evaluation.imgToEval.values())


@pytest.fixture
def files(tmp_path, candidates, references):
    """COCO annotations and results on disk, the results in another order."""
    annotations = [
        {"image_id": k, "id": n, "caption": text} for n, (k, v) in enumerate(references.items()) for text in v
    ]
    for number, annotation in enumerate(annotations):
        annotation["id"] = number
    document = {"images": [{"id": key} for key in references], "annotations": annotations, "info": {}, "licenses": []}
    (tmp_path / "captions_val.json").write_text(json.dumps(document))
    results = [{"image_id": key, "caption": candidates[key]} for key in sorted(candidates)]
    (tmp_path / "results.json").write_text(json.dumps(results))
    return tmp_path / "captions_val.json", tmp_path / "results.json"


@pytest.fixture
def without_meteor(monkeypatch):
    """METEOR's tables are nowhere."""
    monkeypatch.setattr(resources, "find_spec", lambda name: None)
    monkeypatch.delenv(resources.VARIABLE, raising=False)


def test_paths_and_pycocotools_give_the_same_evaluation(files, without_meteor, capsys):
    annotations, results = files
    from_paths = ours.COCOEvalCap(str(annotations), results)
    from_paths.evaluate()
    coco = ours.COCO(annotations)
    from_objects = ours.COCOEvalCap(coco, coco.loadRes(results))
    from_objects.evaluate()
    COCO = pytest.importorskip("pycocotools.coco").COCO
    peer = COCO(str(annotations))
    from_peer = ours.COCOEvalCap(peer, peer.loadRes(str(results)))
    from_peer.evaluate()
    expected = json.dumps(from_peer.imgToEval)
    assert json.dumps(from_paths.imgToEval) == json.dumps(from_objects.imgToEval) == expected
    assert from_paths.params == from_objects.params == from_peer.params


def test_meteor_without_tables_is_not_a_number_and_the_reason_is_printed(files, without_meteor, capsys):
    evaluation = ours.COCOEvalCap(*files)
    evaluation.evaluate()
    printed = capsys.readouterr().out
    assert "METEOR was not computed: METEOR's tables are not on this computer" in printed
    assert math.isnan(evaluation.eval["METEOR"]) and evaluation.eval["CIDEr"] > 0
    assert all(math.isnan(values["METEOR"]) for values in evaluation.evalImgs)


def test_results_of_some_images(files, without_meteor, candidates, capsys):
    annotations, _ = files
    some = [{"image_id": key, "caption": candidates[key]} for key in (462565, 1146, 391895)]
    evaluation = ours.COCOEvalCap(annotations, some)
    with pytest.raises(InputError) as error:
        evaluation.evaluate()
    assert str(error.value) == (
        "cocoRes has no caption of 9 of the 12 images, such as 60623; to score those that have one, "
        "set params['image_id'] = cocoRes.getImgIds()"
    )
    evaluation.params["image_id"] = evaluation.cocoRes.getImgIds()
    evaluation.evaluate()
    assert list(evaluation.imgToEval) == [462565, 1146, 391895]
    assert evaluation.imgToEval[1146]["image_id"] == 1146


def test_ids_are_the_same_as_numbers_and_as_text(files, references, without_meteor, capsys):
    # A dictionary read from JSON has text for keys, COCO's results have numbers.
    evaluation = ours.COCOEvalCap({str(key): texts for key, texts in references.items()}, files[1])
    evaluation.evaluate()
    expected = ours.COCOEvalCap(*files)
    expected.evaluate()
    assert list(evaluation.imgToEval) == [str(key) for key in references]
    assert evaluation.eval == pytest.approx(expected.eval, abs=1e-12, nan_ok=True)
    evaluation.params["image_id"] = evaluation.cocoRes.getImgIds()
    evaluation.evaluate()
    assert list(evaluation.imgToEval) == sorted(references)


def test_what_loadres_refuses(files):
    coco = ours.COCO(files[0])
    with pytest.raises(InputError, match="the annotations lack 1 image ids of the results, such as 5"):
        coco.loadRes([{"image_id": 5, "caption": "a dog"}])
    with pytest.raises(InputError, match="captions: entry 1: has no image_id"):
        ours.COCO([{"caption": "a dog"}])
    with pytest.raises(InputError, match=r"nowhere\.json: no such file"):
        ours.COCO("nowhere.json")
