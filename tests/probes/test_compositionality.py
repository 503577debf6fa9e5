"""Word order tests and minimal pairs: see `ColorEncoder` in conftest.py for the vectors."""

import json

import numpy as np
import pytest

from captious.edits.orders import ARO, perturb, tag_words
from captious.errors import InputError
from captious.metrics.registry import parse, parse_all
from captious.models import EncodedRows
from captious.options import Resampling
from captious.probes.compositionality import (
    CompositionCase,
    _compare_trios,
    compare_texts,
    probe_compositionality,
    read_contests,
)

ONCE = Resampling(samples=0)
WORDS = [
    ("the", "DT"), ("brown", "JJ"), ("dog", "NN"), ("chases", "VBZ"), ("two", "CD"), ("small", "JJ"), ("cats", "NNS"),
    ("slowly", "RB"),
]  # fmt: skip


def test_the_tagger_finds_words_and_tags():
    (tagged,) = tag_words(["The brown dog, it seems, sleeps."])
    assert [word for word, _ in tagged] == ["the", "brown", "dog", "it", "seems", "sleeps"]
    assert dict(tagged)["dog"] == "NN" and dict(tagged)["brown"] == "JJ"


def test_each_perturbation_moves_what_its_name_says():
    plain = [word for word, _ in WORDS]
    for seed in range(20):
        perturbed = {kind: text.split() for kind, text in perturb(WORDS, np.random.default_rng(seed)).items()}
        assert list(perturbed) == list(ARO)
        for words in perturbed.values():
            assert sorted(words) == sorted(plain) and words != plain
        unmoved = [index for index in range(8) if index not in (1, 2, 5, 6)]
        assert [perturbed["nouns-adjectives"][index] for index in unmoved] == [plain[index] for index in unmoved]
        assert {perturbed["nouns-adjectives"][index] for index in (2, 6)} == {"dog", "cats"}
        assert [perturbed["others"][index] for index in (1, 2, 5, 6)] == ["brown", "dog", "small", "cats"]
        for first in (0, 3, 6):
            assert sorted(perturbed["within-trigrams"][first : first + 3]) == sorted(plain[first : first + 3])
        groups = {"the brown dog", "chases two small", "cats slowly"}
        assert all(group in " ".join(perturbed["trigrams"]) for group in groups)


def test_what_has_one_order_only_is_left_out():
    assert perturb([("dog", "NN")], np.random.default_rng(0)) == {}
    assert "nouns-adjectives" not in perturb([("dog", "NN"), ("runs", "VBZ")], np.random.default_rng(0))
    with pytest.raises(InputError, match=r"unknown perturbation 'trigram', expected one of .*did you mean 'trigrams'"):
        perturb(WORDS, np.random.default_rng(0), ["trigram"])


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.usefixtures("colors")
def test_an_encoder_that_ignores_order_ties_and_ties_are_misses(tmp_path, photos):
    path = lines(
        tmp_path / "c.jsonl",
        [{"id": "red", "caption": "A red car stands by a green tree."}, {"id": "blue", "caption": "Sky"}],
    )
    contests = read_contests([path], photos)
    assert contests.kinds == list(ARO) and contests.dropped == {"no other order of its words": 1}
    assert read_contests([path], photos) == contests
    (verdict,) = probe_compositionality(contests, parse_all("specs"), ONCE).rows
    assert verdict.accuracy["all"]["all"].value == 0 and verdict.contests == 1


@pytest.fixture
def pairs(tmp_path):
    rows = [
        {"filename": "red.png", "caption": "a red car", "caption2": "one red car", "negative_caption": "a blue car"},
        {"filename": "red.png", "caption": "a green car", "caption2": "a red car", "negative_caption": "a blue car"},
        {"filename": "green.png", "caption": "green x", "caption2": "green", "negative_caption": "green"},
    ]
    return lines(tmp_path / "swap_att.json", rows)


@pytest.mark.usefixtures("colors")
def test_pairs_with_two_right_captions(pairs, photos):
    contests = read_contests([pairs], photos)
    assert contests.contests[0] == CompositionCase(
        "red.png", ("a red car", "one red car"), (("negative", "a blue car"),), "swap_att"
    )
    result = probe_compositionality(contests, parse_all("specs"), ONCE)
    (verdict,) = result.rows
    # Image: both right ones beat the wrong one in the first; "a green car" ties with it; "green x" loses.
    assert verdict.accuracy["swap_att"]["all"].value == pytest.approx(1 / 3)
    # Text only: 1 against 2/3 and 2/3; then 2/3 against 2/3 ties; then 1/√2 against 1 loses.
    assert compare_texts(contests, parse("specs")).tolist() == [1, 0, 0]
    assert verdict.text_only["swap_att"].value == pytest.approx(1 / 3)
    assert ["SPECS", "swap_att", "33.33", "33.33"] in [line.split() for line in str(result).splitlines()]


@pytest.mark.usefixtures("colors")
def test_several_files_are_categories_with_their_mean(tmp_path, photos):
    first = lines(tmp_path / "swap.jsonl", [{"image": "red", "caption": "red", "negative": "blue"}])
    second = lines(tmp_path / "add.jsonl", [{"image": "red", "caption": "a red", "negatives": ["a blue", "red"]}])
    contests = read_contests([first, second], photos)
    printed = str(probe_compositionality(contests, parse_all("specs"), ONCE)).splitlines()
    assert printed[1].startswith("SPECS prefers the right caption in 0.00 % of add, its worst category: not shown")
    rows = [line.split() for line in printed[2:] if line.startswith("SPECS")]
    assert rows == [["SPECS", "swap", "100.00"], ["SPECS", "add", "0.00"], ["SPECS", "mean", "50.00"]]


def test_sugarcrepe_files_as_they_are(tmp_path):
    document = {"0": {"filename": "000000085329.jpg", "caption": "two dogs", "negative_caption": "two cats"}}
    (tmp_path / "replace_obj.json").write_text(json.dumps(document))
    (contest,) = read_contests([tmp_path / "replace_obj.json"]).contests
    assert contest == CompositionCase("000000085329.jpg", ("two dogs",), (("negative", "two cats"),), "replace_obj")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": 1, "caption": "a b", "negative": "b a"}, {"id": 2, "caption": "a b"}], "some rows have a negative"),
        ([{"id": 1, "negative": "b a"}], "row 1: a negative without a caption"),
        ([{"id": 1}], "row 1: no caption"),
        ([{"id": 1, "caption": "a"}], "contains no caption that can be compared"),
        ([{"id": 1, "caption": 3, "negative": "x"}], "row 1: caption is int, expected a text"),
    ],
)
def test_bad_rows_are_named(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        read_contests([lines(tmp_path / "p.jsonl", rows)])


def test_texts_only_need_no_images(tmp_path):
    rows = [
        {"id": 0, "filename": "1.jpg", "caption": "aab", "caption2": "baa", "negative_caption": "zzz"},
        {"id": 1, "filename": "2.jpg", "caption": "aab", "caption2": "zzz", "negative_caption": "baa"},
        {"id": 2, "filename": "2.jpg", "caption": "abc", "caption2": "cba", "negative_caption": "cab"},
    ]
    path = tmp_path / "swap_obj.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    contests = read_contests([path], text_only=True)
    assert contests.categories == ["swap_obj"] and not contests.paths

    def count_letters(texts):
        counts = np.array([[text.count(letter) for letter in "abcz"] for text in texts], np.float32)
        unit = counts / np.linalg.norm(counts, axis=1, keepdims=True)
        return EncodedRows(unit, np.arange(len(texts)), np.zeros(len(texts), np.int64), {})

    # Letters decide: the first pair is equal, the second is of other letters, the third is a tie, which is a miss.
    assert _compare_trios(contests, count_letters).tolist() == [1, 0, 0]


def test_texts_only_need_a_second_right_caption(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps({"image": "1.jpg", "caption": "a", "negative": "b"}) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="no second right caption"):
        read_contests([path], text_only=True)
