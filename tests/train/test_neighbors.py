"""Nearest images by vectors and by captions, against brute force."""

from collections import Counter

import numpy as np
import pytest

from captious.captions import CaptionSet
from captious.edits.lexicon import CaptionCorpus
from captious.text.ptb import tokenize
from captious.train import similar_images as neighbors
from captious.train.similar_images import SimilarImages, find_nearest_captions, find_nearest_vectors

WORDS = [
    "a",
    "the",
    "dog",
    "cat",
    "man",
    "woman",
    "red",
    "blue",
    "ball",
    "boat",
    "runs",
    "sits",
    "on",
    "in",
    "with",
    "park",
    "beach",
    "two",
    "small",
    "big",
    "jumps",
]


def brute_vectors(rows, count):
    """Cosines of all pairs, sorted; the lower number first among equals."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosine = (unit @ unit.T).astype(np.float64)
    np.fill_diagonal(cosine, -np.inf)
    order = np.argsort(-cosine, axis=1, kind="stable")[:, :count]
    return order, np.take_along_axis(cosine, order, axis=1)


@pytest.mark.parametrize("block", [3, 16, 64, 2048])
def test_vectors_against_all_pairs_in_blocks_of_any_size(block, monkeypatch):
    monkeypatch.setattr(neighbors, "BLOCK", block)
    rows = np.random.default_rng(block).normal(size=(150, 8)).astype(np.float32)
    found = find_nearest_vectors(rows)
    index, similarity = brute_vectors(rows, 3)
    assert (found.index == index).all()
    assert np.allclose(found.similarity, similarity, atol=1e-6)


def test_of_equal_vectors_the_lower_number_comes_first(monkeypatch):
    monkeypatch.setattr(neighbors, "BLOCK", 4)
    found = find_nearest_vectors(np.tile(np.eye(2), (6, 1)))
    # Even rows are all alike, and so are odd ones.
    assert found.index[0].tolist() == [2, 4, 6] and found.index[8].tolist() == [0, 2, 4]
    assert found.index[5].tolist() == [1, 3, 7]


def test_rows_without_a_vector_have_no_neighbors_and_are_none():
    rows = np.array([[1.0, 0.0], [np.nan, 0.0], [1.0, 0.1], [0.0, 0.0]])
    assert find_nearest_vectors(rows).index.tolist() == [[2, -1, -1], [-1] * 3, [0, -1, -1], [-1] * 3]
    assert find_nearest_vectors(np.zeros((0, 4))).index.shape == (0, 3)


def brute_captions(texts, count):
    """The definition, with dictionaries: mean over orders of the cosine of summed tf-idf counts."""
    images = list(texts)
    total = np.zeros((len(images), len(images)))
    for n in range(1, 5):
        counts = []
        for image in images:
            words = [tokenize(text) for text in texts[image]]
            counts.append(Counter(tuple(w[i : i + n]) for w in words for i in range(len(w) - n + 1)))
        document = Counter(gram for bag in counts for gram in bag)
        bags = [{gram: c * np.log(len(images) / document[gram]) for gram, c in bag.items()} for bag in counts]
        norms = [np.sqrt(sum(w * w for w in bag.values())) for bag in bags]
        for i, one in enumerate(bags):
            for j, other in enumerate(bags):
                if norms[i] > 0 and norms[j] > 0:
                    total[i, j] += sum(w * other.get(g, 0) for g, w in one.items()) / norms[i] / norms[j] / 4
    np.fill_diagonal(total, -1)
    return -np.sort(-total, axis=1)[:, :count], total


@pytest.mark.parametrize(("images", "block"), [(40, 2048), (120, 16), (120, 7), (90, 90)])
def test_captions_against_the_definition(images, block, monkeypatch):
    monkeypatch.setattr(neighbors, "BLOCK", block)
    rng = np.random.default_rng(images + block)
    chances = 1 / np.arange(1, len(WORDS) + 1)
    texts = {
        str(i): [" ".join(rng.choice(WORDS, rng.integers(1, 9), p=chances / chances.sum())) for _ in range(3)]
        for i in range(images)
    }
    found = find_nearest_captions(CaptionSet.of(dict.fromkeys(texts, ()), texts))
    similarity, total = brute_captions(texts, 3)
    assert np.allclose(found.similarity, np.maximum(similarity, 0), atol=1e-6)
    picked = np.take_along_axis(total, np.maximum(found.index, 0), axis=1)
    assert np.allclose(np.where(found.index >= 0, picked, 0), found.similarity, atol=1e-6)
    assert (found.index != np.arange(images)[:, None]).all()


@pytest.mark.parametrize("block", [2, 2048])
def test_of_equal_captions_the_lower_number_comes_first(block, monkeypatch):
    monkeypatch.setattr(neighbors, "BLOCK", block)
    texts = {str(i): [("a red dog", "two cats")[i % 2]] for i in range(9)}
    found = find_nearest_captions(CaptionSet.of(dict.fromkeys(texts, ()), texts))
    assert found.index[0].tolist() == [2, 4, 6] and found.index[8].tolist() == [0, 2, 4]
    assert found.index[5].tolist() == [1, 3, 7]


def test_a_similarity_by_hand():
    # Only "a", "red" and "a red" are shared, by 2 of 3 images: log(3/2) = x. All others are in one: log 3 = y.
    x, y = np.log(1.5), np.log(3)
    texts = {"1": ["a red dog"], "2": ["a red cat"], "3": ["some boat"]}
    found = find_nearest_captions(CaptionSet.of(dict.fromkeys(texts, ()), texts))
    expected = (2 * x * x / (2 * x * x + y * y) + x * x / (x * x + y * y)) / 4
    assert found.index.tolist() == [[1, -1, -1], [0, -1, -1], [-1, -1, -1]]
    assert found.similarity[0, 0] == pytest.approx(expected, abs=1e-7)


def test_one_image_and_captions_without_words_have_no_neighbors():
    assert find_nearest_captions(CaptionSet.of({"1": ()}, {"1": ["a dog"]})).index.tolist() == [[-1, -1, -1]]
    assert (find_nearest_captions(CaptionSet.of({"1": (), "2": ()}, {"1": [""], "2": [""]})).index == -1).all()


def test_hard_negatives_choose_among_three_images():
    corpus = CaptionCorpus.of(
        {str(number): [f"a {word} with a {WORDS[number]}"] for number, word in enumerate(WORDS[2:14])}
    )
    near = SimilarImages.of(corpus, np.random.default_rng(0).normal(size=(12, 5)))
    assert near.captions.index.shape == near.pictures.index.shape == (12, 3)
