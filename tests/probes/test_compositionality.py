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


def write_relations(folder):
    """Rows in the layout of ARO's Visual Genome files: the left half of the picture is red, the right half blue."""
    from PIL import Image

    picture = Image.new("RGB", (40, 20), (255, 0, 0))
    picture.paste((0, 0, 255), (20, 0, 40, 20))
    (folder / "images").mkdir()
    picture.save(folder / "images" / "1.png")
    box = {"image_path": "1.png", "bbox_y": 0, "bbox_w": 20, "bbox_h": 20}
    rows = [
        {**box, "bbox_x": 0, "true_caption": "red", "false_caption": "blue", "relation_name": "on"},
        {**box, "bbox_x": 20, "true_caption": "blue", "false_caption": "red", "relation_name": "on"},
        {**box, "bbox_x": 20, "true_caption": "red", "false_caption": "blue", "relation_name": "near"},
    ]
    path = folder / "visual_genome_relation.json"
    path.write_text(json.dumps(rows))
    return path


@pytest.mark.usefixtures("colors")
def test_relations_of_visual_genome_are_cropped_and_averaged_by_relation(tmp_path):
    path = write_relations(tmp_path)
    (tmp_path / "symmetric.txt").write_text("beside\nnear\n")
    contests = read_contests([path], tmp_path / "images", exclude=tmp_path / "symmetric.txt")
    assert [one.category for one in contests.contests] == ["on", "on", "near"]
    assert contests.contests[1].box == (20, 0, 40, 20) and contests.excluded == {"near"}
    result = probe_compositionality(contests, parse_all("specs"), ONCE)
    table = result.document().sections[0]
    # The whole picture is half red and half blue: without the boxes every contest would be a tie, which is a miss.
    shown = [(row[1], getattr(row[2], "value", row[2])) for row in table.rows]
    assert shown == [("on", 1.0), ("near", 0.0), ("mean", 0.5), ("mean without 1 excluded", 1.0)]


def test_rare_pairs_of_attributes_are_left_out_of_the_second_mean(tmp_path):
    row = {"image_path": "1.png", "true_caption": "the red x and the big y", "false_caption": "the big x and the red y"}
    rows = [{**row, "attributes": ["red", "big"]}] * 25 + [{**row, "attributes": ["old", "wet"]}] * 24
    path = tmp_path / "visual_genome_attribution.json"
    path.write_text(json.dumps(rows))
    contests = read_contests([path])
    assert contests.categories == ["red_big", "old_wet"] and contests.excluded == {"old_wet"}


def test_aro_rows_that_are_wrong(tmp_path):
    row = {"image_path": "1.png", "true_caption": "a", "false_caption": "b", "relation_name": "on"}
    box = {"bbox_x": 1, "bbox_y": 1, "bbox_w": 0, "bbox_h": 5}
    with pytest.raises(InputError, match=r"row 1: the box \[1, 1, 0, 5\]"):
        read_contests([lines(tmp_path / "a.jsonl", [{**row, **box}])])
    (tmp_path / "other.txt").write_text("beside\n")
    with pytest.raises(InputError, match="names no category of the pairs, which are on"):
        read_contests([lines(tmp_path / "b.jsonl", [row])], exclude=tmp_path / "other.txt")


@pytest.mark.shared_data
def test_the_layout_of_aro(shared_data):
    for name, category in (("made_up_relation.json", "on"), ("made_up_attribution.json", None)):
        contests = read_contests([shared_data / "aro" / name])
        assert all(one.box and len(one.wrong) == 1 for one in contests.contests)
        assert category is None or contests.contests[0].category == category


def test_long_captions_are_cut_as_in_aro(tmp_path):
    long = " ".join(f"red dog {number}" for number in range(20))
    (contest,) = read_contests([lines(tmp_path / "c.jsonl", [{"id": "1", "references": [long]}])]).contests
    assert contest.right == (" ".join(long.split()[:30]),)
    assert all(len(text.split()) == 30 for _, text in contest.wrong)


@pytest.mark.shared_data
def test_rows_of_sugarcrepe_pp_that_nobody_can_get_right_are_counted(shared_data):
    """The README beside the data names two rows of swap_obj and one of replace_att."""
    contests = read_contests([shared_data / "sugarcrepe_pp" / "swap_obj.jsonl.gz"], text_only=True)
    assert contests.describe_flaws() == ["2 with a wrong caption that equals a right one: a miss for every metric"]
    contests = read_contests([shared_data / "sugarcrepe_pp" / "replace_att.jsonl.gz"], text_only=True)
    assert contests.describe_flaws() == ["1 with two equal right captions"]
    assert read_contests([shared_data / "sugarcrepe_pp" / "swap_att.jsonl.gz"], text_only=True).describe_flaws() == []
