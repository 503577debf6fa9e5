"""Sentences and Treebank tokens: by hand, and against NLTK's word tokenizer."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captious.syntax.sentences import split_sentences


def cut(caption):
    return [" ".join(sentence.tokens) for sentence in split_sentences(caption)]


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("A dog. A cat.", ["A dog .", "A cat ."]),
        ("a dog . a cat .", ["a dog .", "a cat ."]),
        ("Mr. Fox sits. Dr. Who runs.", ["Mr. Fox sits .", "Dr. Who runs ."]),
        ("The flag of the U.S. The pole is tall.", ["The flag of the U.S .", "The pole is tall ."]),
        ("A U.S. flag.", ["A U.S. flag ."]),
        ("It is 3.5 m high. It is red.", ["It is 3.5 m high .", "It is red ."]),
        ("Bus no. 5 stops.", ["Bus no. 5 stops ."]),
        ('The word "RIOT!" is large. It is red.', ["The word `` RIOT ! '' is large .", "It is red ."]),
        ('It says "STOP." The sign is red.', ["It says `` STOP . ''", "The sign is red ."]),
        ("What is it? A dog!", ["What is it ?", "A dog !"]),
        ("A dog\n\nA cat", ["A dog", "A cat"]),
        ("the core of\n\nthe pedestal", ["the core of the pedestal"]),
        ("A dog... and a cat.", ["A dog ... and a cat ."]),
        ("", []),
        (" \n ", []),
    ],
)
def test_sentences_end_where_they_should(caption, expected):
    assert cut(caption) == expected


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("A dog's ball, isn't it", "A dog 's ball , is n't it"),
        ("the dogs' bowls", "the dogs ' bowls"),
        ("10,000 people at 9:30", "10,000 people at 9:30"),
        ("a (red) [big] car", "a ( red ) [ big ] car"),
        ("black-and-white--striped", "black-and-white -- striped"),
        ("you cannot see", "you can not see"),
        ("50% off & $5", "50 % off & $ 5"),
        ("two panels—a design", "two panels — a design"),
    ],
)
def test_tokens_follow_the_treebank(caption, expected):
    assert cut(caption) == [expected]


@given(st.text(alphabet="ab A.,'\"!?-()—’ \n3", max_size=40))
def test_every_character_but_spaces_belongs_to_one_token_in_order(caption):
    at = 0
    for sentence in split_sentences(caption):
        for token, start, stop in zip(*sentence, strict=True):
            assert start >= at and not caption[at:start].strip()
            assert caption[start:stop] == token or caption[start:stop] == '"'
            at = stop
    assert not caption[at:].strip()


@pytest.mark.shared_data
def test_tokens_are_those_of_nltk(shared_data):
    """A sentence that NLTK's tokenizer cuts otherwise is rare: nine of 71,170 when this was written."""
    reference = pytest.importorskip("nltk.tokenize.destructive").NLTKWordTokenizer()
    with gzip.open(shared_data / "coco" / "val2014.jsonl.gz", "rt") as lines:
        captions = [json.loads(line)["references"][0] for line, _ in zip(lines, range(4000), strict=False)]
    with (shared_data / "iiw400" / "descriptions.jsonl").open() as lines:
        captions += [json.loads(line)["IIW"] for line in lines]
    differ = total = 0
    for caption in captions:
        for sentence in split_sentences(caption):
            total += 1
            differ += list(sentence.tokens) != reference.tokenize(caption[sentence.starts[0] : sentence.stops[-1]])
    assert total > 7000
    assert differ <= 3
