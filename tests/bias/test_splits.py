import pytest

from captious.bias.corpus import draw_split, list_classes
from captious.errors import InputError


@pytest.mark.parametrize(
    ("counts", "train", "test"),
    [((7466, 3314), 5966, 662), ((9873, 1096), 1972, 220), ((4603, 2435), 4382, 488), ((30, 20, 25), 54, 6)],
)
def test_sizes_are_the_published_ones(counts, train, test):
    # gender, race and age of the papers: m − round(m/10) and round(m/10) of each class.
    labels = [label for label, count in enumerate(counts) for _ in range(count)]
    split = draw_split([str(number) for number in range(len(labels))], labels, 0)
    assert (len(split.train), len(split.test)) == (train, test)
    for part in (split.train, split.test):
        drawn = [labels[position] for position in part]
        assert len({drawn.count(label) for label in set(labels)}) == 1
    assert not set(split.train.tolist()) & set(split.test.tolist())


def test_the_split_follows_ids_not_their_order():
    ids, labels = [str(number) for number in range(60)], [number % 2 for number in range(60)]
    forth = draw_split(ids, labels, 3)
    back = draw_split(ids[::-1], labels[::-1], 3)
    assert [ids[position] for position in forth.test] == [ids[::-1][position] for position in back.test]


def test_seeds_and_streams_draw_anew():
    ids, labels = [str(number) for number in range(200)], [number % 2 for number in range(200)]
    draws = {tuple(draw_split(ids, labels, seed, stream).test) for seed in (0, 1) for stream in ("model", "human")}
    assert len(draws) == 4


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"] * 30, "all 30 labels are 'a', expected at least two classes"),
        (["a"] * 30 + ["b"] * 9, "class 'b' has 9 images, expected at least 10"),
    ],
)
def test_labels_that_cannot_be_learned(labels, message):
    with pytest.raises(InputError, match=message):
        list_classes(labels, "preds")
