"""Detail units: the paper's examples, every rule by hand, the original's quirks, and IIW sentences read by eye."""

import json

import pytest

from captious.errors import InputError
from captious.syntax.sentences import split_sentences
from captious.syntax.units import CutRules, unit_spans, units

FIGURE_1 = (
    "A British Shorthair cat with plush, bluish-gray fur is lounging on a deep green velvet sofa. "
    "The cat is partially tucked under a multi-colored woven {}"
)
TAGS = {
    **dict.fromkeys(["a", "the"], "DT"),
    **dict.fromkeys(["red", "big"], "JJ"),
    **dict.fromkeys(["cat", "dog", "car", "box", "ball", "park", "left", "hat"], "NN"),
    **dict.fromkeys(["is", "are", "sits", "runs", "chasing", "sitting", "has"], "VBZ"),
    **dict.fromkeys(["on", "in", "with", "of", "under", "at", "behind"], "IN"),
    **dict.fromkeys(["and", "or"], "CC"),
    "to": "TO",
    "'s": "POS",
    "there": "EX",
    "slowly": "RB",
}


def tagged(sentences):
    """A tagger that every reader can follow."""
    return [[TAGS.get(word.lower(), word) for word in words] for words in sentences]


def cut(caption, **options):
    return " | ".join(units(caption, tagger=tagged, **options))


def test_the_cat_of_figure_1_gains_its_fringed_edges():
    jumper, blanket, fringed = (
        units(FIGURE_1.format(end)) for end in ("jumper.", "blanket.", "blanket with fringed edges.")
    )
    assert jumper[:-1] == blanket[:-1] == fringed[:-2]
    assert jumper[-1] == "The cat is partially tucked under a multi-colored woven jumper ."
    assert blanket[-1] == "The cat is partially tucked under a multi-colored woven blanket ."
    assert fringed[-2:] == [blanket[-1][:-2], "with fringed edges ."]


def test_the_statue_is_not_cut_before_its_prepositions():
    """The paper keeps a cut before *in a park*; the published code has *in* on its list and takes that back too."""
    assert units("A front view of a statue on cement in a park.") == ["A front view of a statue on cement in a park ."]
    shorter = CutRules(prepositions=frozenset(["of", "on"]))
    assert units("A front view of a statue on cement in a park.", rules=shorter) == [
        "A front view of a statue on cement",
        "in a park .",
    ]


def test_a_place_belongs_to_what_is_there():
    caption = "To the left of the car there is a box."
    assert units("A red car. " + caption)[1:] == ["To the left of the car there is a box ."]
    assert units(caption) == ["To the left of the car", "there is a box ."]
    assert units(caption, rules=CutRules(first_sentence=True)) == ["To the left of the car there is a box ."]


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("A cat sits with a red ball.", "A cat sits | with a red ball ."),
        ("A cat is chasing a dog.", "A cat is | chasing a dog ."),  # the clause is closed by its first verb
        ("A cat sits on a box.", "A cat sits on a box ."),  # "on" is on the list
        ("A cat sits at a box.", "A cat sits | at a box ."),  # "at" is not
        ("Slowly, a cat runs.", "Slowly , a cat runs ."),  # words outside chunks wait for the next one
        ("A cat and a dog with a hat.", "A cat | and a dog with a hat ."),  # a conjunction takes what follows
        ("A cat runs and slowly a dog.", "A cat runs | and slowly a dog ."),
        ("A cat. The dog sits with a ball.", "A cat . | The dog sits with a ball ."),  # "The dog sits": three words
        ("A cat. The big dog sits with a ball.", "A cat . | The big dog sits | with a ball ."),  # four
        ("The dog sits with a ball.", "The dog sits | with a ball ."),  # not in the first sentence
        ("A cat. Behind a box at a car with a hat.", "A cat . | Behind a box at a car with a hat ."),
        ("A cat. Behind a box is a hat with a ball.", "A cat . | Behind a box is a hat | with a ball ."),
        ("A cat. At a box with a hat.", "A cat . | At a box | with a hat ."),
        ("a cat with a ball", "a cat | with a ball"),
        ("slowly", "slowly"),
        ("", ""),
    ],
)
def test_rules_by_hand(caption, expected):
    assert cut(caption) == expected


def test_each_rule_can_be_left_out():
    caption = "A cat. The dog is at a box on a car. Behind a box at a car."
    assert cut(caption) == "A cat . | The dog is at a box on a car . | Behind a box at a car ."
    assert cut(caption, rules=CutRules(subjects=False)).startswith("A cat . | The dog is | at a box on a car .")
    assert cut(caption, rules=CutRules(attached=False)).startswith("A cat . | The dog is at a box | on a car .")
    assert cut(caption, rules=CutRules(locations=False)).endswith("Behind a box | at a car .")
    assert cut("A cat is chasing a dog.", rules=CutRules(auxiliaries=True)) == "A cat is chasing a dog ."


@pytest.mark.parametrize(
    ("caption", "ours", "legacy"),
    [
        ("A cat at a 3.5 box.", "A cat | at a 3.5 box .", "A cat | at a 3. | 5 box ."),
        ("A cat! The dog sits with a ball!", "A cat ! | The dog sits with a ball !", None),
        ("A cat sits!", "A cat sits !", "A cat sits | !"),
        ('A cat. "The dog sits."', "A cat . | `` The dog sits . ''", "A cat . | `` The dog sits . | ''"),
        ("A cat sits...", "A cat sits ...", "A cat sits . | . | ."),
        ("A cat | a dog.", "A cat | | a dog .", "A cat | a dog ."),
    ],
)
def test_quirks_of_the_original_are_kept_in_legacy_only(caption, ours, legacy):
    assert cut(caption) == ours
    if legacy is not None:
        assert cut(caption, legacy=True) == legacy


def test_a_sentence_behind_an_exclamation_is_no_sentence_in_legacy():
    """No period, no anchor: *The dog sits* is cut off, and the mark stands alone."""
    assert cut("A cat! The dog sits with a ball!", legacy=True) == "A cat | ! | The dog sits | with a ball | !"


def test_a_period_inside_a_number_anchors_rules_in_legacy():
    """Behind ``3.`` the text goes on with ``in``: in legacy that is a sentence that starts with a preposition."""
    assert cut("A cat at 3.in box with a hat at a car.", legacy=True) == "A cat | at 3. | in box with a hat at a car ."


def test_the_papers_grammar_cuts_verbs_less():
    assert cut("A cat is chasing a dog at a car.", grammar="paper") == "A cat is chasing a dog | at a car ."
    assert cut("A cat is chasing a dog at a car.") == "A cat is | chasing a dog | at a car ."
    assert cut("A cat is chasing a dog", grammar="paper") == "A cat is chasing a dog"


def test_surface_units_are_parts_of_the_caption():
    caption = '  A cat,  with a "red"\nball. The dog\'s box!'
    surface = units(caption, tagger=tagged, text="surface")
    assert surface == ["A cat", ',  with a "red"\nball.', "The dog's box!"]
    spans = unit_spans([caption, ""], tagger=tagged)
    assert [caption[start:stop] for start, stop in spans[0]] == surface
    assert spans[1] == []
    assert [" ".join(token for one in split_sentences(unit) for token in one.tokens) for unit in surface] == units(
        caption, tagger=tagged
    )


def test_many_captions_at_once_are_cut_as_each_alone():
    captions = ["A cat sits on a box.", "", FIGURE_1.format("blanket."), "Dogs. The dog is red. In a park a cat sits."]
    for options in ({}, {"legacy": True}, {"grammar": "paper"}, {"text": "surface"}):
        assert units(captions, **options) == [units(caption, **options) for caption in captions]
    assert units([]) == []


def test_impossible_wishes():
    with pytest.raises(InputError, match="no surface"):
        units("A cat.", legacy=True, text="surface")
    with pytest.raises(InputError, match="original's rules"):
        units("A cat.", legacy=True, rules=CutRules(auxiliaries=True))
    with pytest.raises(InputError, match="unknown text 'word'"):
        units("A cat.", text="word")


# Fifty sentences of held-out IIW descriptions, drawn at random: image, sentence, verdict, tokens of each unit. Each
# was read and judged by the paper's definition of a unit. *Over*: some cut leaves a text that no one would write
# (*its mouth is*); *under*: some unit adds several details; *good*: neither. ``docs/results/detail-units.md`` gives
# the shares.
READ_BY_EYE = """
25 5 under 6 10 5
35 0 good 8 8 6 7 5
35 2 under 26 7
35 3 over 6 3 5
45 1 over 4 2 7
45 2 over 2 2 8 3 4
50 1 over 6 7 1 10
50 9 over 3 6 2
50 12 over 8 5 1 3 5
60 1 over 4 5 4 5
60 5 over 5 8
65 0 under 9 5 20 9 6
65 9 over 7 6
80 1 over 5 5 1 3
85 0 over 17 3 7 2 5
85 10 over 3 3 1 9
95 1 good 6 11
95 8 over 4 13
110 3 over 8 6 1 3 2 5 3 7 3 14 1 3 4
130 0 over 5 4 11 5 2 3 3
130 7 over 8 1 2 3 8 2
130 9 over 8 3 13 4 10 1 2 3
140 7 good 12 12
170 2 over 7 6 6 6
180 9 over 10 1 4 12 2
190 5 good 5 3 8 7 13 5
220 5 good 21
230 5 over 9 6 1 3 5
235 0 over 5 7 6 7
245 7 good 5 8
245 8 over 15 5
250 4 good 16 5
255 6 over 7 4 4 8 7 5 4
295 1 over 4 1 4 6 16 4 2
305 9 under 9 22
310 4 over 12 7 4 8
320 0 good 7 3 5 5
320 6 over 3 5
325 1 over 5 12 3 5
330 1 under 32
330 6 over 4 4 2 3 8 10
335 0 good 5 9 6 13
335 5 over 7 7 1 4
335 6 under 13
335 9 good 11 10
355 8 over 4 3
355 11 good 10
360 5 over 6 5
365 3 over 4 9
385 2 over 25 10
"""


@pytest.mark.shared_data
def test_iiw_sentences_read_by_eye(shared_data):
    with (shared_data / "iiw400" / "descriptions.jsonl").open() as lines:
        captions = {row["id"]: row["IIW"] for row in map(json.loads, lines)}
    differ = []
    for line in READ_BY_EYE.strip().splitlines():
        image, number, _, *expected = line.split()
        caption = captions[int(image)]
        starts = split_sentences(caption)[int(number)].starts
        spans = unit_spans([caption])[0]
        counts = [sum(start <= at < stop for at in starts) for start, stop in spans]
        if [count for count in counts if count] != list(map(int, expected)):
            differ.append(line)
    assert not differ


def test_fifty_were_read():
    verdicts = [line.split()[2] for line in READ_BY_EYE.strip().splitlines()]
    assert (len(verdicts), verdicts.count("good"), verdicts.count("over"), verdicts.count("under")) == (50, 11, 33, 6)
