"""Several captions of an image, and softened targets: the same loss worked out with NumPy."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from captious.train._contrast import ClipContrast, SoftContrast
from captious.train._data import TokenFrame, TokenLists
from captious.train._objective import TrainingBatch

# Three images with two, three and one captions.
FIRST = np.array([0, 2, 5, 6])


class Towers:
    """Images and captions that are tables of vectors."""

    frame = TokenFrame(-1, 0, 0, 4)
    scale = torch.tensor(3.0)
    locked = frozenset()

    def __init__(self, images, texts):
        self._images, self._texts = torch.tensor(images), torch.tensor(texts)
        below = lambda ids: self._texts[ids[:, 0] - 1]  # noqa: E731
        self.encoder = SimpleNamespace(
            module=torch.nn.Linear(1, 1), frozen_texts=below, text_head=None, device=torch.device("cpu")
        )

    def images(self, rows):
        return self._images[rows]

    def texts(self, captions):
        return self._texts[captions.ravel()]


@pytest.fixture
def made():
    rng = np.random.default_rng(0)
    images, texts = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=(6, 4)).astype(np.float32)
    captions = TokenLists(np.arange(1, 7, dtype=np.int32), np.arange(7), np.ones(6, np.int64))
    return images, texts, (Towers(images, texts), captions, FIRST, np.arange(3), 5, False)


def batch(chosen):
    rows = np.arange(3)
    return TrainingBatch(torch.from_numpy(rows), chosen, (rows, chosen))


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def softmax(rows):
    grown = np.exp(rows)
    return grown / grown.sum(1, keepdims=True)


def entropy(logits, target):
    return -(target * np.log(softmax(logits))).sum(1).mean()


def test_one_caption_and_hard_targets_are_the_plain_contrast(made):
    _, _, given = made
    chosen = np.array([[1], [4], [5]])
    soft = SoftContrast(*given, per_image=1).parts(batch(chosen))["loss"]
    plain = ClipContrast(*given).parts(batch(chosen))["loss"]
    torch.testing.assert_close(soft, plain)


def test_the_softened_loss_is_as_worked_out(made):
    images, texts, given = made
    chosen = np.array([[0, 1], [3, 2], [5, 5]])
    loss = SoftContrast(*given, per_image=2, soften=0.25, sharpness=2.0).parts(batch(chosen))["loss"]
    c, t = unit(images), unit(texts)
    judge = unit(np.stack([t[first:last].mean(0) for first, last in pairwise(FIRST)]))
    picked = t[chosen.ravel()]
    hard = np.kron(np.eye(3), np.ones((1, 2)))
    to_text = 0.75 * hard / 2 + 0.25 * softmax(2 * judge @ picked.T)
    to_image = 0.75 * hard.T + 0.25 * softmax(2 * picked @ judge.T)
    wanted = (entropy(3 * c @ picked.T, to_text) + entropy(3 * picked @ c.T, to_image)) / 2
    assert float(loss) == pytest.approx(wanted, abs=1e-5)


def test_captions_of_an_image_differ_and_are_its_own(made):
    _, _, given = made
    objective = SoftContrast(*given, per_image=2)
    drawn = [objective.chosen(np.array([1, 2, 0]), epoch) for epoch in range(40)]
    for rows in drawn:
        assert all(
            FIRST[image] <= caption < FIRST[image + 1]
            for image, row in zip((1, 2, 0), rows, strict=True)
            for caption in row
        )
        assert rows[0, 0] != rows[0, 1] and rows[1].tolist() == [5, 5] and sorted(rows[2]) == [0, 1]
    assert {tuple(sorted(rows[0])) for rows in drawn} == {(2, 3), (2, 4), (3, 4)}
