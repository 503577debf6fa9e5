import pytest

from captious.bias.masks import LISTS, Mask, read_word_list
from captious.errors import InputError


def test_lists_have_the_published_sizes():
    assert {name: len(set(read_word_list(name))) for name in LISTS} == {"gender": 27 + 23, "race": 11, "age": 33}


def test_a_file_is_a_mask(tmp_path):
    (tmp_path / "mine.txt").write_text("# mine\nBeard\n\nmoustache\n")
    assert Mask.from_name(str(tmp_path / "mine.txt")) == Mask("mask", frozenset({"beard", "moustache"}))


def test_a_line_that_is_not_a_word_is_named_with_its_row(tmp_path):
    (tmp_path / "mine.txt").write_text("beard\nold man\n")
    with pytest.raises(InputError, match=r"mine.txt: row 2: 'old man' is not a word"):
        Mask.from_name(str(tmp_path / "mine.txt"))


def test_a_file_without_words_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("\n# nothing\n")
    with pytest.raises(InputError, match="contains no words"):
        Mask.from_name(str(tmp_path / "mine.txt"))


def test_a_misspelt_list_gets_a_hint():
    with pytest.raises(InputError, match="did you mean 'gender'"):
        Mask.from_name("gendr")


def test_none_masks_nothing():
    assert Mask.from_name("none") == Mask("none", frozenset())
