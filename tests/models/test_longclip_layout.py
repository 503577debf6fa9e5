"""Positions stretched as the specification's formula says, and two tables merged into one."""

import numpy as np
import pytest

from captious.errors import InputError
from captious.models.checkpoints import merge_positions, stretch


def by_the_formula(old):
    """new[20 + 4i + k] = ((4 − k)/4)·old[20 + i] + (k/4)·old[21 + i]; the last four go on from old[76]."""
    new = np.zeros((248, old.shape[1]))
    new[:20] = old[:20]
    for i in range(56):
        for k in range(4):
            new[20 + 4 * i + k] = ((4 - k) / 4) * old[20 + i] + (k / 4) * old[21 + i]
    for k in range(4):
        new[244 + k] = old[76] + (k / 4) * (old[76] - old[75])
    return new


def test_stretch_is_the_formula():
    old = np.random.default_rng(0).normal(size=(77, 8))
    assert stretch(old).shape == (248, 8)
    assert np.abs(stretch(old) - by_the_formula(old)).max() < 1e-12


def test_other_lengths():
    found = stretch(np.array([[0.0], [1.0], [3.0]]), copied=1, factor=2)
    assert found[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_a_table_too_short():
    with pytest.raises(InputError, match="cannot be stretched"):
        stretch(np.zeros((20, 4)))


def test_two_tables_become_one():
    torch = pytest.importorskip("torch")
    frozen, trained = torch.zeros(248, 3), torch.ones(248, 3)
    merged = merge_positions({"positional_embedding": frozen, "positional_embedding_res": trained, "a": 1}, "x.pt")
    assert set(merged) == {"positional_embedding", "a"}
    assert merged["positional_embedding"][:, 0].tolist() == [0.0] * 20 + [1.0] * 228


def test_two_tables_of_different_length():
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match=r"x\.pt: positional_embedding is \(77, 3\)"):
        merge_positions(
            {"positional_embedding": torch.zeros(77, 3), "positional_embedding_res": torch.ones(248, 3)}, "x.pt"
        )
