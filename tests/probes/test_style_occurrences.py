"""Where a sentence occurs in a styled corpus, and the rank of a style."""

from __future__ import annotations

import pytest

from captious.errors import InputError
from captious.probes.style_check import StyledCorpus
from captious.probes.style_occurrences import find_sentence

# As in the paper's discussion: a caption of several styles that is only part of one in Happy.
CORPUS = [
    ("Warm", "What a beautiful day!"),
    ("Cheerful", "what a beautiful day"),
    ("Cheerful", "What a beautiful day"),
    ("Happy", "what a beautiful day for a walk"),
    ("Happy", "i love rugby"),
    ("Gloomy", "a beautiful day? what for"),
    ("Gloomy", "what a"),
    ("Gloomy", "beautiful day"),
]


def read(rows: list[tuple[str, str]]) -> StyledCorpus:
    styles, texts = zip(*rows, strict=True)
    return StyledCorpus("moods", styles, texts, tuple(map(str, range(len(rows)))))


def test_whole_captions_and_parts_are_counted_by_style() -> None:
    result = find_sentence(read(CORPUS), "What a beautiful day", "Happy")
    counts = {row.style: (row.whole, row.part) for row in result.styles}
    # The words of the last two captions follow each other only across the captions.
    assert counts == {"Warm": (1, 0), "Cheerful": (2, 0), "Happy": (0, 1), "Gloomy": (0, 0)}
    assert find_sentence(read(CORPUS), "i love rugby").whole == ["Happy"]
    answer = result.document().answer
    assert answer.startswith("It is a whole caption of ") and "and part of a longer one of Happy." in answer
    assert f"Happy is rank {next(row.rank for row in result.styles if row.style == 'Happy')} of 4" in answer


def test_the_rank_is_by_onlystyle() -> None:
    rugby = find_sentence(read(CORPUS), "i love rugby", "Happy").styles
    assert rugby[0].style == "Happy" and rugby[0].rank == 1
    # No other style has a word of it: all score the same, and share rank 2.
    assert {row.rank for row in rugby[1:]} == {2}
    assert rugby[0].score > rugby[1].score


def test_a_sentence_of_other_words_occurs_nowhere() -> None:
    result = find_sentence(read(CORPUS), "zebras what a beautiful day")
    assert not result.whole and not result.part
    assert result.document().answer == "It is a caption of no style, and part of a longer one of none."


def test_styles_beyond_the_top_are_counted() -> None:
    rows = [(f"s{number}", f"w{number} v") for number in range(6)]
    document = find_sentence(read(rows), "w3", top=2).document()
    assert document.table("styles").rows[0][0] == "s3"
    assert "4 more styles do not have it" in document.table("styles").note


def test_empty_captions_are_reported() -> None:
    assert find_sentence(read(CORPUS), "a day").document().warnings == []
    document = find_sentence(read([*CORPUS, ("Happy", " "), ("Warm", "")]), "a day").document()
    assert document.warnings == ["2 empty captions: no sentence occurs in them"]


def test_bad_sentences_and_styles() -> None:
    with pytest.raises(InputError, match=r"sentence '\?!' has no words"):
        find_sentence(read(CORPUS), "?!")
    with pytest.raises(InputError, match=r"moods: the style model moods has no style 'Hapy'.*did you mean 'Happy'"):
        find_sentence(read(CORPUS), "a day", "Hapy")
