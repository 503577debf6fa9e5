import numpy as np
import pytest

torch = pytest.importorskip("torch")

from captious.bias.classifiers._stack import apply_dropout, draw_normal, draw_uniform, make_keys

KEYS = make_keys([[1], [2], [3]], "cpu")


def test_dropout_does_not_depend_on_padding_or_on_other_runs():
    ones = torch.ones(9, 5, 3, 7)
    whole = apply_dropout(ones, 0.4, KEYS)
    assert torch.equal(apply_dropout(ones[:4], 0.4, KEYS), whole[:4])
    assert torch.equal(apply_dropout(ones[:, :, 1:2], 0.4, KEYS[1:2]), whole[:, :, 1:2])


def test_dropout_keeps_the_share_and_the_mean():
    result = apply_dropout(torch.ones(20, 50, 3, 101), 0.3, KEYS)
    assert float((result == 0).float().mean()) == pytest.approx(0.3, abs=0.005)
    assert result.unique().tolist() == pytest.approx([0, 1 / 0.7])


def test_runs_draw_independently():
    result = (apply_dropout(torch.ones(20, 50, 3, 100), 0.5, KEYS) > 0).float().movedim(2, 0).flatten(1).numpy()
    assert np.abs(np.corrcoef(result) - np.eye(3)).max() < 0.02


def test_moments():
    numbers, even = draw_normal(KEYS, 1000, 50), draw_uniform(KEYS, 100_000)
    assert [float((numbers**power).mean()) for power in (1, 2, 4)] == pytest.approx([0, 1, 3], abs=0.05)
    assert (float(even.mean()), float(even.var())) == pytest.approx((0.5, 1 / 12), abs=0.003)
    assert torch.equal(draw_normal(KEYS, 10, 50), numbers[:, :10])
