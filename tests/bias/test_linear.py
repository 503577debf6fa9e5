import numpy as np
import pytest
from scipy.optimize import minimize

from captious.bias.classifiers._encoding import Captions
from captious.bias.classifiers.linear import Linear
from captious.bias.masks import as_words


def test_agrees_with_a_general_optimizer(make_task):
    """The same penalized likelihood on dense features, minimized by scipy."""
    task = make_task(0, "model", classes=3)
    result = Linear(orders=1, c=0.5, iterations=3000).train([task], lambda more: None)[0]
    read = [as_words(caption, task.token) for caption in task.captions]
    words = sorted({word for position in task.split.train for word in read[position]})
    words = [word for word in words if sum(word in read[position] for position in task.split.train) >= 2]
    table = np.array([[*(float(word in caption) for word in words), 1.0] for caption in read])
    target = np.eye(3)[task.train_labels]

    def loss(flat):
        weights = flat.reshape(-1, 3)
        logits = table[task.split.train] @ weights
        logits -= logits.max(axis=1, keepdims=True)
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        slope = table[task.split.train].T @ (shares - target) + weights / 0.5
        return -np.sum(target * np.log(shares)) + (weights**2).sum() / (2 * 0.5), slope.ravel()

    best = minimize(
        loss, np.zeros(3 * table.shape[1]), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9}
    )
    logits = table[task.split.test] @ best.x.reshape(-1, 3)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result, shares, atol=1e-5)


def test_probabilities_sum_to_one(make_task):
    assert Linear().train([make_task(1, "model")], lambda more: None)[0].sum(axis=1) == pytest.approx(1)


def test_ngrams_are_numbered_as_by_sorted_strings():
    """Against plain Python: the distinct n-grams of each caption, numbered in the order of their strings."""
    rng = np.random.default_rng(0)
    captions = [[f"w{word}" for word in rng.integers(0, 12, rng.integers(0, 7))] for _ in range(50)] + [["w1-x", "!"]]
    for orders in (1, 2, 4):
        lists = [
            sorted({" ".join(words[i : i + n]) for n in range(1, orders + 1) for i in range(len(words) - n + 1)})
            for words in captions
        ]
        grams = Captions.of(captions).ngrams(orders)
        assert grams.vocabulary == sorted({gram for grams in lists for gram in grams})
        assert grams.lengths.tolist() == [len(grams) for grams in lists]
        assert [grams.vocabulary[number] for number in grams.flat] == [gram for grams in lists for gram in grams]
