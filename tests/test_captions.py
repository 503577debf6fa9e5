import numpy as np
import pytest

from captious._core.languages import Scripts
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError, UnknownKey
from captious.text.ngram_tables import TextTable


def two():
    return CaptionSet.of(
        {1: "a dog", "2": ["a cat", "cats"]}, {1: "the dog", "2": ["one cat", "a cat"]}, {"split": "ab"}
    )


def test_items_are_keyed_by_id_whether_int_or_string():
    captions = two()
    assert captions[1] == captions["1"]
    assert captions["2"].candidates == ("a cat", "cats")
    assert captions["2"].candidate == "a cat"
    assert captions["2"].references == ("one cat", "a cat")
    assert captions[1].fields == {"split": "a"}
    assert 2 in captions and "3" not in captions


def test_an_unknown_id_is_named():
    with pytest.raises(InputError, match="no item with id '9'"):
        two()["9"]


def test_the_set_cannot_be_changed():
    with pytest.raises(AttributeError):
        two().ids = ("1",)


def test_take_keeps_order_and_columns():
    reordered = two().take([1, 0])
    assert reordered.ids == ("2", "1")
    assert reordered["1"].references == ("the dog",)
    assert reordered.columns["split"] == ("b", "a")


def test_a_caption_that_is_no_string_is_refused():
    with pytest.raises(InputError, match="candidate caption is of type int"):
        CaptionSet.of({"1": [3]})


def test_references_join_whatever_the_type_of_their_keys():
    assert CaptionSet.of({"1": "a"}, {1: ["b"]})["1"].references == ("b",)


def test_a_column_of_another_length_is_refused():
    with pytest.raises(InputError, match="column 'style' has 1 values for 2 ids"):
        CaptionSet.of({"1": "a", "2": "b"}, columns={"style": ["x"]})


def test_duplicate_ids_are_refused():
    ragged = Ragged.of([["a"], ["b"]])
    with pytest.raises(InputError, match="1 ids occur more than once"):
        CaptionSet(("1", "1"), ragged, ragged)


def test_the_fingerprint_adds_up_over_shards_and_ignores_the_order_of_items():
    captions = two()
    shards = captions.take([0]), captions.take([1])
    assert captions.take([1, 0]).fingerprint == captions.fingerprint
    assert sum(shard.fingerprint for shard in shards) % 2**64 == captions.fingerprint
    other = CaptionSet.of({1: "a dog"}, {1: "another dog"})
    assert other.fingerprint != captions.take([0]).fingerprint


def test_the_fingerprint_is_that_of_the_references_not_of_the_candidates():
    ours, theirs = CaptionSet.of({1: "x"}, {1: "r"}), CaptionSet.of({1: "y"}, {1: "r"})
    assert ours.fingerprint == theirs.fingerprint


def test_one_table_per_tokenizer():
    captions = two()
    assert TextTable.of(captions, "ptb") is TextTable.of(captions, "ptb")
    assert TextTable.of(captions, "ptb") is not TextTable.of(captions, "whitespace")


def test_ragged_counts():
    assert np.array_equal(Ragged.of([[], ["a", "b"], ["c"]]).counts, [0, 2, 1])


def test_a_notebook_shows_the_first_items_and_a_repr_is_short():
    captions = CaptionSet.of({number: f"caption {number}" for number in range(1000)}, name="some/folder/a.json")
    markup = captions._repr_html_()
    assert "a.json: 1,000 items" in markup and "caption 3<" in markup and "caption 4<" not in markup
    assert repr(captions) == "<CaptionSet a.json: 1000 items, 1000 candidates, 0 references>"
    assert "0 items" in CaptionSet.of({})._repr_html_()


def test_positions_count_from_the_end_too():
    captions = CaptionSet.of({"7": "a dog", "8": "a cat"}, {"7": ["dogs"], "8": ["cats"]}, {"style": ["x", "y"]})
    assert captions.item(-1) == captions.item(1) == captions["8"] and captions.item(-1).references == ("cats",)
    for position in (2, -3):
        with pytest.raises(UnknownKey, match=rf"^captions: no item at position {position}, there are 2 items$"):
            captions.item(position)


def test_scripts_are_those_of_candidates_and_references():
    captions = CaptionSet.of({"1": "一只狗 a dog"}, {"1": ["a red dog", "собака 狗"]})
    assert captions.scripts == Scripts.of(["一只狗 a dog", "a red dog", "собака 狗"])
    assert captions.scripts.letters == {"Han": 4, "Latin": 11, "Cyrillic": 6} and captions.scripts.unspaced_runs == 2
