"""Base, positive and negative captions as published."""

from pathlib import Path

import numpy as np
import pytest

from captious.errors import InputError
from captious.train._data import Example
from captious.train._specs import NegativeUnits, build_chains

UNITS = {
    "a": ("the left is red.", "the right is blue.", "that is all."),
    "b": ("there is a picture", "red and blue."),
    "c": ("the left is white.", "the right is green.", "a red left", "that is not all."),
    "d": ("all",),
}


def examples(names="abcd", **more):
    return [Example(name, Path(name), (" ".join(UNITS[name]),), UNITS[name], where=f"row {name}") for name in names]


def made(encoder, rows=None, **options):
    rows = examples() if rows is None else rows
    images = np.array([ord(str(row.image)[0]) for row in rows])
    return build_chains(rows, images, NegativeUnits(**options), encoder)


def words(encoder, tokens):
    return encoder.tokenizer.backend.decode(tokens[1:-1].tolist()).replace(" .", ".")


def test_prefixes_grow_by_a_unit_and_lone_units_are_dropped(encoder):
    found, rows = made(encoder, shuffle=0.0)
    assert rows.tolist() == [0, 1, 2]
    assert found.usable.tolist() == [2, 1, 3]
    (triplet,) = found.make_triplets(np.array([2]), np.array([1]))
    base, positive, _ = (words(encoder, tokens) for tokens in triplet)
    assert base == "the left is white. the right is green."
    assert positive == "the left is white. the right is green. a red left"


def test_the_negative_is_the_unit_of_the_same_index_of_another_image(encoder):
    found, _ = made(encoder, shuffle=0.0)
    seen = set()
    for seed in range(20):
        found, _ = made(encoder, shuffle=0.0, seed=seed)
        (triplet,) = found.make_triplets(np.array([2]), np.array([2]))
        base, _, negative = (words(encoder, tokens) for tokens in triplet)
        assert negative.startswith(base + " ")
        seen.add(negative[len(base) + 1 :])
    # Index 2 of "a"; "b" has two units, so its last.
    assert seen == {"that is all.", "red and blue."}


def test_negatives_are_drawn_once_or_each_epoch(encoder):
    fixed, _ = made(encoder)
    fresh, _ = made(encoder, source="epoch")
    rows, steps = np.array([0, 1, 2] * 4), np.array([0, 0, 1] * 4)

    def texts(found, epoch):
        return [tokens[2].tolist() for tokens in found.make_triplets(rows, steps, epoch)]

    assert texts(fixed, 0) == texts(fixed, 1)
    assert len({str(texts(fresh, epoch)) for epoch in range(6)}) > 1


def test_batch_negatives_come_from_the_batch(encoder):
    found, _ = made(encoder, source="batch", shuffle=0.0)
    for epoch in range(8):
        first, second = found.make_triplets(np.array([0, 1]), np.array([0, 0]), epoch)
        assert words(encoder, first[2]) == "the left is red. there is a picture"
        assert words(encoder, second[2]) == "there is a picture the left is red."


def test_shuffling_by_coin_and_by_row(encoder):
    many = [
        Example(str(n), Path(chr(97 + n)), ("x",), ("one two three four five six", "seven eight"), where="")
        for n in range(20)
    ]
    plain = "one two three four five six"
    for by_row in (False, True):
        found, _ = made(encoder, many, shuffle=0.5, by_row=by_row)
        texts = found._draw_wrong_texts(np.arange(20), np.zeros(20, np.int64), 0)
        assert all(sorted(text.split()) == sorted(plain.split()) for text in texts)
        mixed = [text != plain for text in texts]
        if by_row:
            assert mixed == [True] * 10 + [False] * 10
        else:
            assert 3 <= sum(mixed) <= 17 and mixed != [True] * 10 + [False] * 10


def test_given_negatives_are_the_wrong_version_of_the_next_unit(encoder):
    row = Example("a", Path("a"), ("x",), UNITS["a"], ("w0", "the right is red.", "that is red."), "row a")
    found, _ = made(encoder, [row], source="given")
    triplets = found.make_triplets(np.array([0, 0]), np.array([0, 1]))
    assert words(encoder, triplets[0][2]) == "the left is red. the right is red."
    assert words(encoder, triplets[1][2]).endswith("the right is blue. that is red.")
    with pytest.raises(InputError, match="row b: has no wrong_units"):
        made(encoder, [row, *examples("b")], source="given")


def test_the_chain_stops_at_the_limit(encoder):
    # 40 tokens with start and end: seven units of five tokens fit beside a next one, the eighth does not.
    long = tuple(f"the left is {color}." for color in ("red", "blue", "green", "white") * 4)
    rows = [Example(name, Path(name), ("x",), long, where="") for name in "ab"]
    found, _ = made(encoder, rows, shuffle=0.0)
    assert found.usable.tolist() == [6, 6]
    base, positive, negative = found.make_triplets(np.array([0]), np.array([5]))[0]
    assert (len(base), len(positive), len(negative)) == (32, 37, 37)


def test_texts_are_tokenized_whole_where_units_do_not_add_up(encoder):
    found, _ = made(encoder, shuffle=0.0)
    assert found.additive
    rows, steps = np.array([0, 2]), np.array([1, 2])
    whole = found._tokenize_joined(rows, steps, found._draw_wrong_texts(rows, steps, 0))
    for one, other in zip(found.make_triplets(rows, steps), whole, strict=True):
        assert all(np.array_equal(*pair) for pair in zip(one, other, strict=True))


def test_one_image_is_too_few(encoder):
    rows = [Example(name, Path("same"), ("x",), UNITS[name], where="") for name in "ac"]
    with pytest.raises(InputError, match="all rows have one image"):
        made(encoder, rows)
