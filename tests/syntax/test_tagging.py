"""The tagger of the package: hand-tagged captions, a plain decoder as reference, and its file."""

import random

import numpy as np
import pytest

from captious.errors import InputError, MissingExtra
from captious.syntax.tagging import (
    END,
    SHIPPED,
    START,
    Tagger,
    convert_to_penn,
    find_ambiguous,
    find_tagger,
    list_features,
    load_tagger,
    make_form,
    read_tagger,
    tag,
)

BY_HAND = """
A/DT man/NN is/VBZ riding/VBG a/DT brown/JJ horse/NN on/IN the/DT beach/NN ./.
Two/CD dogs/NNS play/VBP with/IN a/DT red/JJ ball/NN in/IN the/DT grass/NN ./.
A/DT plate/NN of/IN food/NN with/IN rice/NN and/CC vegetables/NNS on/IN it/PRP
The/DT woman/NN who/WP wears/VBZ a/DT hat/NN is/VBZ smiling/VBG at/IN the/DT camera/NN ./.
To/TO the/DT left/NN of/IN the/DT car/NN there/EX is/VBZ a/DT box/NN ./.
A/DT young/JJ girl/NN brushes/VBZ her/PRP$ teeth/NNS ./.
The/DT largest/JJS boat/NN is/VBZ painted/VBN white/JJ ./.
Several/JJ people/NNS were/VBD waiting/VBG for/IN the/DT bus/NN ./.
"""


def hand_tagged():
    for line in BY_HAND.strip().splitlines():
        yield zip(*(pair.rsplit("/", 1) for pair in line.split()), strict=True)


def hand_tagged_words():
    return [word for words, _ in hand_tagged() for word in words]


def test_captions_tagged_by_hand():
    for words, tags in hand_tagged():
        assert tag([words]) == [list(tags)]


def plainly(tagger, words):
    """Greedy decoding word by word over named features: no lock step, no sums kept, no arrays of sentences."""
    forms = [START, START, *(make_form(word, number == 0) for number, word in enumerate(words)), END, END]
    size = len(tagger.tags)
    before = last = size
    result = []
    for at in range(2, len(forms) - 2):
        low = words[at - 2].lower()
        best = tagger.only.get(low)
        if best is None:
            scores = [0] * size
            for position, shift in (("own", 0), ("before", -1), ("after", 1), ("two-before", -2), ("two-after", 2)):
                for name in list_features(forms[at + shift])[position]:
                    if name in tagger.rows:
                        row = tagger.weights[tagger.rows[name]]
                        scores = [score + int(weight) for score, weight in zip(scores, row, strict=True)]
            for number in range(size):
                scores[number] += int(tagger.history[before, last, number])
                scores[number] += int(tagger.after_tag[find_ambiguous(low, tagger.ambiguous), last, number])
            best = scores.index(max(scores))
        result.append(tagger.tags[best])
        before, last = last, best
    return result


def test_lock_step_is_plain_greedy_decoding():
    tagger = load_tagger()
    draw = random.Random(3)
    words = [
        "A",
        "the",
        "man",
        "dog",
        "riding",
        "rides",
        "red",
        "left",
        "light",
        "on",
        "to",
        "of",
        "and",
        ",",
        ".",
        "'s",
        "Fox",
        "three-legged",
        "zyx",
        "12",
        "under",
        "stands",
        "up",
    ]
    sentences = [draw.choices(words, k=draw.randint(0, 14)) for _ in range(150)]
    assert tag(sentences) == [plainly(tagger, sentence) for sentence in sentences]


def test_a_sentence_has_the_same_tags_alone_and_among_many():
    sentences = [list(words) for words, _ in hand_tagged()]
    together = read_tagger(SHIPPED).tag(sentences * 900)
    assert together == [read_tagger(SHIPPED).tag([sentence])[0] for sentence in sentences] * 900


def test_nothing_to_tag():
    assert tag([]) == []
    assert tag([[]]) == [[]]
    assert tag([[], ["Dogs"], []])[1] in (["NNS"], ["NNPS"])


def test_forgotten_forms_are_learnt_again(monkeypatch):
    tagger = read_tagger(SHIPPED)
    sentences = [list(words) for words, _ in hand_tagged()]
    expected = tagger.tag(sentences)
    monkeypatch.setattr("captious.syntax.tagging._MOST_FORMS", 5)
    assert [tagger.tag([sentence])[0] for sentence in sentences] == expected


def test_the_file_is_small_and_reads_as_it_was_written(tmp_path):
    assert SHIPPED.stat().st_size < 2_000_000
    tagger = load_tagger()
    tagger.save(tmp_path / "again")
    again = read_tagger(tmp_path / "again")
    assert (again.tags, again.only, again.rows, again.ambiguous) == (
        tagger.tags,
        tagger.only,
        tagger.rows,
        tagger.ambiguous,
    )
    assert all(
        np.array_equal(getattr(again, name), getattr(tagger, name)) for name in ("weights", "history", "after_tag")
    )
    assert (tmp_path / "again").read_bytes() == SHIPPED.read_bytes()


def test_a_damaged_file_is_refused(tmp_path):
    content = bytearray(SHIPPED.read_bytes())
    content[-5] ^= 1
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(InputError, match="damaged part-of-speech tagger"):
        read_tagger(tmp_path / "bad")


def test_sums_of_weights_cannot_overflow():
    tagger = load_tagger()
    most = max(sum(map(len, list_features("\x01Sun-Lit9").values())), 24)
    assert 127 * most + int(np.abs(tagger.history).max()) + 127 < np.iinfo(np.int16).max


def test_tags_of_spacy_are_made_those_of_the_treebank():
    words = ["Close-up", "of", "a", "low-lying", "stem", "(", "pale", "tan", ")", "next", "to", "it"]
    tags = ["NNP", "IN", "DT", "VBG", "NN", "-LRB-", "NNP", "NNPS", "-RRB-", "RB", "IN", "PRP"]
    assert convert_to_penn(words, tags) == ["NNP", "IN", "DT", "JJ", "NN", "(", "NN", "NNS", ")", "RB", "TO", "PRP"]


def test_an_unknown_tagger_is_named():
    with pytest.raises(
        InputError, match="unknown tagger 'spacey', expected captious or spacy or nltk; did you mean 'spacy'"
    ):
        find_tagger("spacey")


def test_spacy_is_asked_for_by_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "spacy", None)
    with pytest.raises(MissingExtra, match=r"captious\[spacy\]"):
        find_tagger("spacy")([["A", "dog"]])


def test_nltk_says_what_to_download(monkeypatch):
    nltk = pytest.importorskip("nltk")
    monkeypatch.setattr(nltk.data, "path", [])
    nltk.tag._get_tagger.cache_clear()  # another test may have loaded it
    with pytest.raises(InputError, match=r"nltk\.downloader averaged_perceptron_tagger_eng"):
        find_tagger("nltk")([["A", "dog"]])
    monkeypatch.setattr(nltk, "pos_tag", lambda words: [(word, "NN") for word in words])
    assert find_tagger("nltk")([("A", "dog"), ()]) == [["NN", "NN"], []]


def test_a_tagger_without_weights_says_the_first_tag():
    tagger = Tagger(
        ("A", "B"),
        {"b": 1},
        {},
        np.empty((0, 2), np.int8),
        np.zeros((3, 3, 2), np.int16),
        np.zeros((1, 3, 2), np.int8),
        {},
    )
    assert tagger.tag([["x", "b"]]) == [["A", "B"]]
