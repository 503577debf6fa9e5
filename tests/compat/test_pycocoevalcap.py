"""Our scorers beside pycocoevalcap's own: one script, two import lines, the same numbers, types and printed lines."""

import json
import math
import shutil
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import captious
from captious import InputError, Resampling
from captious.compat import pycocoevalcap as ours
from captious.metrics.meteor import resources
from captious.syntax.parsing import DEFAULT, STAND_INS

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


@given(SETS, st.integers(1, 4), st.sampled_from([None, "closest", "shortest", "average"]))
@settings(max_examples=150, deadline=None)
def test_bleu_scorer_gives_the_originals_lists(items, n, option):
    from pycocoevalcap.bleu.bleu_scorer import BleuScorer

    theirs, mine = BleuScorer(n=n), ours.BleuScorer(n=n)
    for scorer in (theirs, mine):
        for caption, references in items.values():
            scorer += (caption, references)
    expected, expected_items = theirs.compute_score(option=option)
    score, scores = mine.compute_score(option=option)
    assert mine.size() == theirs.size() and mine.testlen(option) == theirs._testlen
    assert mine.reflen(option) == pytest.approx(theirs._reflen)
    assert mine.ratio(option) == pytest.approx((theirs._testlen + 1e-15) / (theirs._reflen + 1e-9))
    assert score == pytest.approx(expected, abs=1e-12)
    assert np.allclose(scores, expected_items, rtol=0, atol=1e-12)
    assert mine.compute_score(option=option)[0] == score  # the original returns no pair the second time


def test_bleu_scorer_takes_others_and_new_captions(capsys):
    from pycocoevalcap.bleu.bleu_scorer import BleuScorer

    results, printed = [], []
    for kind in (BleuScorer, ours.BleuScorer):
        scorer, other = kind("a red dog", ["a red dog runs", "the dog"], n=2), kind("a cat", ["two cats"], n=2)
        scorer += other
        first = scorer.compute_score(verbose=1, option="average")
        special = kind("a red dog", ["a red dog runs"], n=2, special_reflen=9).compute_score()
        results.append([first, scorer.rescore(["the dog", "two cats"]), special])
        printed.append(capsys.readouterr().out)
    for theirs, mine in zip(*results, strict=True):
        assert mine[0] == pytest.approx(theirs[0], abs=1e-12) and np.allclose(mine[1], theirs[1], rtol=0, atol=1e-12)
    assert printed[0] == printed[1] and "'reflen': 5.0" in printed[0]
    with pytest.raises(InputError, match="retest: 1 captions, expected 2: one for each item"):
        scorer.retest("a dog")
    with pytest.raises(InputError, match="option='longest', expected closest, shortest, average"):
        scorer.compute_score(option="longest")
    with pytest.raises(InputError, match=r"BleuScorer \+= int, expected \(caption, references\) or a scorer"):
        scorer += 5


@given(SETS)
@settings(max_examples=100, deadline=None)
def test_cider_scorer_gives_the_originals_values_and_frequencies(items):
    from pycocoevalcap.cider.cider_scorer import CiderScorer, precook

    assume(any(text.split() for _, texts in items.values() for text in texts))
    theirs, mine = CiderScorer(), ours.CiderScorer()
    for scorer in (theirs, mine):
        for caption, references in items.values():
            scorer += (caption, references)
    expected, expected_items = theirs.compute_score()
    score, scores = mine.compute_score()
    assert type(score) is type(expected) and score == pytest.approx(expected, abs=1e-9)
    assert np.allclose(scores, expected_items, rtol=0, atol=1e-9)
    mine.compute_doc_freq()
    assert mine.document_frequency == {gram: number for gram, number in theirs.document_frequency.items() if number}
    assert mine.crefs == theirs.crefs and mine.ctest == theirs.ctest and mine.size() == theirs.size()
    for caption, _ in items.values():
        assert ours.precook(caption, 3) == precook(caption, 3)


def test_document_frequencies_without_captions():
    """What scripts that make a pickle of frequencies do: references alone are added."""
    scorer = ours.CiderScorer()
    for references in (["a dog", "a red dog"], ["a cat"]):
        scorer.cook_append(None, references)
    scorer.compute_doc_freq()
    assert scorer.document_frequency[("a",)] == 2 and scorer.document_frequency[("a", "dog")] == 1
    assert scorer.document_frequency[("bus",)] == 0 and len(scorer.crefs) == 2
    with pytest.raises(InputError, match="res: id 0 is None, expected a tokenized text"):
        scorer.compute_score()


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
        ({1: ["a"], 2: ["b"]}, {1: ["a"]}, "res is missing 1 ids of gts, such as 2"),
        ({1: ["a"]}, {1: ["a"], "x": ["b"]}, "gts is missing 1 ids of res, such as 'x'"),
        ({7: ["a"]}, {7: ["a", "b"]}, "res: id 7 has 2 captions, expected a list of one caption"),
        ({7: ["a"]}, {7: "a dog"}, "res: id 7 has 'a dog', expected a list of one caption"),
        ({7: []}, {7: ["a"]}, "gts: id 7 has 0 captions, expected a list of at least one reference"),
        ({7: [None]}, {7: ["a"]}, "gts: id 7 is None, expected a tokenized text"),
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


def test_importing_spice_without_its_extra_is_an_import_error_and_an_input_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    for kind in (ImportError, InputError):
        with pytest.raises(kind, match=r"this needs spacy, which is not installed: pip install 'captious\[spice\]'"):
            from captious.compat.pycocoevalcap import Spice  # noqa: F401
    with pytest.raises(AttributeError):
        ours.Speice  # noqa: B018


@pytest.fixture
def english(meteor_home, monkeypatch):
    """A parser of spaCy and METEOR's synsets."""
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'captious[spice]'")
    if not any(spacy.util.is_package(name) for name in (DEFAULT, *STAND_INS[DEFAULT])):
        pytest.skip("no English model of spaCy is installed")
    monkeypatch.setenv("CAPTIOUS_HOME", str(meteor_home))


def test_spice_has_the_originals_layout_and_the_values_of_captious(english, candidates, references):
    from captious.compat.pycocoevalcap import Spice

    with pytest.warns(UserWarning, match="SPICE is captious's, on spaCy's parses"):
        scorer = Spice()
    res = {key: [text] for key, text in candidates.items()}
    score, scores = scorer.compute_score(references, res)
    specs = ["spice", "spice(color)", "spice(relation)"]
    report = captious.evaluate(candidates, specs, resampling=Resampling(0), references=references)
    assert score == pytest.approx(report["spice"].corpus) and 0 < score < 1
    for key, one in zip(references, scores, strict=True):
        assert list(one) == ["All", "Object", "Attribute", "Relation", "Color", "Cardinality", "Size"]
        assert set(one["All"]) == {"f", "pr", "re", "tp", "fp", "fn", "numImages"}
        values = [one[name]["f"] for name in ("All", "Color", "Relation")]
        assert values == pytest.approx([report[spec].items[key] for spec in specs], nan_ok=True)
    assert scorer.method() == "SPICE"


def test_spice_of_several_captions_is_one_graph(english, files, candidates):
    """``eval_multi`` of self-critical training: several captions of an image, and ``COCOEvalCapSpice`` on all."""
    from captious.compat.pycocoevalcap import COCOEvalCapSpice

    coco = ours.COCO(str(files[0]))
    once = [{"image_id": key, "caption": text} for key, text in candidates.items()]
    values = {}
    for name, predictions in (("once", once), ("twice", once * 2), ("more", [*once, {**once[0], "caption": "a cat"}])):
        results = coco.loadRes(predictions)
        evaluation = COCOEvalCapSpice(coco, results)
        evaluation.params["image_id"] = results.getImgIds()
        evaluation.evaluate()
        assert list(evaluation.eval) == ["SPICE"] and len(evaluation.evalImgs) == len(candidates)
        values[name] = {key: one["SPICE"]["All"] for key, one in evaluation.imgToEval.items()}
    assert values["twice"] == values["once"]  # the same tuples are one
    first = once[0]["image_id"]
    assert values["more"].pop(first)["fp"] == values["once"].pop(first)["fp"] + 1 and values["more"] == values["once"]
    whole = ours.COCOEvalCap(coco, coco.loadRes(once))
    whole.evaluate()
    assert {key: one["SPICE"]["All"] for key, one in whole.imgToEval.items() if key != first} == values["once"]


@pytest.mark.parametrize("record", ["a dog", {"text": "a dog"}, {"caption": 5}])
def test_the_tokenizer_names_the_id_of_a_wrong_record(record):
    with pytest.raises(InputError, match=r'^id 7: contains .*, expected objects such as {"caption": "a dog"}$'):
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

        class Spice:  # the original downloads models for it
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
        assert [line for line in lines if "SPICE" not in line] == [
            line for line in expected_lines if "SPICE" not in line
        ]
        assert [line.partition(":")[0] for line in lines if "SPICE:" in line] == ["SPICE"]
        assert evaluation.params == expected.params
        del expected.eval["SPICE"], evaluation.eval["SPICE"]
        assert list(evaluation.eval) == list(expected.eval)
        assert evaluation.eval == pytest.approx(expected.eval, abs=1e-9)
        assert list(evaluation.imgToEval) == list(expected.imgToEval)
        for key, values in evaluation.imgToEval.items():
            del expected.imgToEval[key]["SPICE"], values["SPICE"]
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
    monkeypatch.setattr(resources, "_find_package", lambda: None)
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


def test_spice_without_a_parser_is_not_a_number_in_the_originals_layout(files, without_meteor, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "spacy", None)
    evaluation = ours.COCOEvalCap(*files)
    evaluation.evaluate()
    assert "SPICE was not computed: this needs spacy" in capsys.readouterr().out
    assert math.isnan(evaluation.eval["SPICE"])
    assert all(math.isnan(values["SPICE"]["All"]["f"]) for values in evaluation.evalImgs)


@pytest.mark.parametrize("parser", [True, False])
def test_language_eval_of_self_critical_training_runs(files, candidates, request, parser, monkeypatch, tmp_path):
    """What its ``language_eval`` does with an evaluation: the values of SPICE's kinds, and everything as JSON."""
    if parser:
        request.getfixturevalue("english")
    else:
        request.getfixturevalue("without_meteor")
        monkeypatch.setitem(sys.modules, "spacy", None)
    coco = ours.COCO(str(files[0]))
    valid = coco.getImgIds()
    predictions = [{"image_id": key, "caption": text} for key, text in candidates.items()] + [
        {"image_id": 5, "caption": "of another split"}
    ]
    kept = [prediction for prediction in predictions if prediction["image_id"] in valid]
    (tmp_path / "cache.json").write_text(json.dumps(kept))
    results = coco.loadRes(str(tmp_path / "cache.json"))
    evaluation = ours.COCOEvalCap(coco, results)
    evaluation.params["image_id"] = results.getImgIds()
    evaluation.evaluate()
    values = dict(evaluation.eval)
    by_image = evaluation.imgToEval
    for kind in next(iter(by_image.values()))["SPICE"]:
        if kind != "All":
            one = np.array([scores["SPICE"][kind]["f"] for scores in by_image.values()])
            values[f"SPICE_{kind}"] = one[one == one].mean()
    for prediction in kept:
        by_image[prediction["image_id"]]["caption"] = prediction["caption"]
    names = ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "METEOR", "ROUGE_L", "CIDEr", "SPICE"]
    assert list(values)[:8] == names and len(by_image) == len(candidates)
    assert ("SPICE_Color" in values) == parser
    assert json.loads(json.dumps({"overall": values, "imgToEval": by_image}))["imgToEval"]["1146"]["caption"]


def test_the_notebook_of_coco_caption(files, without_meteor, candidates, references, capsys):
    """Its last cells: the captions of an image with a low score, by the ids of annotations."""
    coco = ours.COCO(str(files[0]))
    results = coco.loadRes(str(files[1]))
    evaluation = ours.COCOEvalCap(coco, results)
    evaluation.params["image_id"] = results.getImgIds()
    evaluation.evaluate()
    capsys.readouterr()
    low = [one for one in evaluation.evalImgs if one["CIDEr"] < 30]
    image = low[0]["image_id"]
    coco.showAnns(coco.loadAnns(coco.getAnnIds(imgIds=image)))
    results.showAnns(results.loadAnns(results.getAnnIds(imgIds=image)))
    assert capsys.readouterr().out.splitlines() == [*references[image], candidates[image]]
    assert coco.loadImgs(image)[0]["id"] == image and coco.getImgIds(imgIds=[image, 5]) == [image]


def test_annotations_are_found_as_pycocotools_finds_them(files):
    COCO = pytest.importorskip("pycocotools.coco").COCO
    peer, coco = COCO(str(files[0])), ours.COCO(str(files[0]))
    image = peer.getImgIds()[3]
    for ids in ([], image, [image], peer.getImgIds()[:2]):
        assert coco.getAnnIds(imgIds=ids) == peer.getAnnIds(imgIds=ids)
    assert coco.loadAnns(coco.getAnnIds(image)) == peer.loadAnns(peer.getAnnIds(image))
    assert coco.loadAnns(coco.getAnnIds(image)[0]) == peer.loadAnns(peer.getAnnIds(image)[0])
    assert coco.loadImgs([image]) == peer.loadImgs([image]) and coco.getImgIds() == peer.getImgIds()
    assert coco.dataset == peer.dataset and coco.imgToAnns == dict(peer.imgToAnns)


def test_a_dataset_that_is_built_by_hand(candidates, references, without_meteor, capsys):
    """As lmms-eval does it: ``COCO()`` without a file, ``dataset`` set, ``createIndex``, and scorers one by one."""
    dataset, results = {"annotations": [], "images": []}, []
    for key, caption in candidates.items():
        results.append({"image_id": int(key), "caption": caption})
        for text in references[key]:
            dataset["annotations"].append({"image_id": int(key), "caption": text, "id": len(dataset["annotations"])})
        dataset["images"].append({"id": key})
    coco = ours.COCO()
    assert coco.getImgIds() == [] == coco.getAnnIds()
    coco.dataset = dataset
    coco.createIndex()
    evaluation = ours.COCOEvalCap(coco, coco.loadRes(results))
    ids = evaluation.params["image_id"]
    tokenizer = ours.PTBTokenizer()
    gts = tokenizer.tokenize({key: evaluation.coco.imgToAnns[key] for key in ids})
    res = tokenizer.tokenize({key: evaluation.cocoRes.imgToAnns[key] for key in ids})
    evaluation.evaluate()
    assert ours.Cider().compute_score(gts, res)[0] == pytest.approx(evaluation.eval["CIDEr"])


def test_the_numbers_of_nlg_eval(meteor_home, monkeypatch):
    """The sentences and the numbers of the tests of Maluuba/nlg-eval (MIT), which splits at spaces and ends Meteor."""
    monkeypatch.setenv("CAPTIOUS_HOME", str(meteor_home))
    scorers = [
        (ours.Bleu(4), ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4"]),
        (ours.Meteor(), ["METEOR"]),
        (ours.Rouge(), ["ROUGE_L"]),
        (ours.Cider(), ["CIDEr"]),
    ]

    def scores(*items):
        gts = {number: list(refs) for number, (_, *refs) in enumerate(items)}
        res = {number: [hypothesis] for number, (hypothesis, *_) in enumerate(items)}
        values = {}
        for scorer, names in scorers:
            score, _ = scorer.compute_score(gts, res)
            values |= dict(zip(names, score if isinstance(score, list) else [score], strict=True))
        return values

    one = scores(("this is a good test", "this is a test", "this is also a test"))
    expected = {"Bleu_1": 0.799999, "Bleu_2": 0.632455, "Bleu_3": 0.5108729, "Bleu_4": 0.0000903602}
    assert one == pytest.approx(expected | {"METEOR": 0.44434387, "ROUGE_L": 0.9070631, "CIDEr": 0.0}, abs=5e-6)
    two = scores(
        (
            "this is the model generated sentence1 which seems good enough",
            "this is one reference sentence for sentence1",
            "this is one more reference sentence for sentence1",
        ),
        (
            "this is sentence2 which has been generated by your model",
            "this is a reference sentence for sentence2 which was generated by your model",
            "this is the second reference sentence for sentence2",
        ),
    )
    expected = {"Bleu_1": 0.55, "Bleu_2": 0.428174, "Bleu_3": 0.284043, "Bleu_4": 0.201143}
    assert two == pytest.approx(expected | {"METEOR": 0.295797, "ROUGE_L": 0.522104, "CIDEr": 1.242192}, abs=5e-6)
    french = scores(("Le test est en français.", "Test en français.", "Le test en français."))
    expected = {"Bleu_1": 0.799999, "Bleu_2": 0.632455, "Bleu_3": 0.0000051, "Bleu_4": 0.0}
    assert french == pytest.approx(
        expected | {"METEOR": 0.48372379050300296, "ROUGE_L": 0.9070631, "CIDEr": 0.0}, abs=5e-6
    )
    assert ours.Meteor().compute_score({0: ["test"]}, {0: ["test"]}) == (1.0, [1.0])
    assert ours.Meteor().compute_score({0: ["テスト"]}, {0: ["テスト"]}) == (1.0, [1.0])
    scorers[1][0].close()


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
    with pytest.raises(InputError, match="the annotations do not have 1 image ids of the results, such as 5"):
        coco.loadRes([{"image_id": 5, "caption": "a dog"}])
    with pytest.raises(InputError, match="captions: entry 1: has no image_id"):
        ours.COCO([{"caption": "a dog"}])
    with pytest.raises(InputError, match=r"nowhere\.json: no such file"):
        ours.COCO("nowhere.json")


def test_the_numbers_of_aac_metrics():
    """The example in the documentation and the tests of aac-metrics 0.6 (MIT)."""
    candidates = ["a man is speaking", "rain falls"]
    references = [
        ["a man speaks.", "someone speaks.", "a man is speaking while a bird is chirping in the background"],
        ["rain is falling hard on a surface"],
    ]
    report = captious.evaluate(candidates, "bleu(n=1), cider", resampling=Resampling(0), references=references)
    assert report["bleu(n=1)"].corpus == pytest.approx(0.4278, abs=1e-4)
    assert report["cider"].corpus == pytest.approx(0.9614, abs=1e-4)
    assert report["cider"].values.tolist() == pytest.approx([1.3641, 0.5587], abs=1e-4)
