"""Order, draws and learning rate as functions of numbers alone."""

import numpy as np
import pytest

from captious._core.random import draw_for_rows
from captious.train._schedule import EpochPlan, compute_rate


def test_every_example_once_an_epoch_and_in_another_order():
    plan = EpochPlan(examples=12, batch=3, accumulate=3, epochs=2)
    epochs = [np.concatenate([plan.rows(epoch, number) for number in range(4)]) for epoch in (0, 1)]
    assert all(sorted(order) == list(range(12)) for order in epochs)
    assert (epochs[0] != epochs[1]).any()


def test_two_processes_read_what_one_with_twice_the_batch_reads():
    one, two = EpochPlan(20, 6, 1, 1), EpochPlan(20, 3, 1, 1, processes=2)
    assert one.steps == two.steps == 3
    for number in range(3):
        halves = [two.rows(0, number, process) for process in (0, 1)]
        assert np.concatenate(halves).tolist() == one.rows(0, number).tolist()


def test_the_last_step_of_an_epoch_sums_what_is_left():
    plan = EpochPlan(examples=10, batch=2, accumulate=2, epochs=2)
    assert [plan.batches(step) for step in range(4)] == [[0, 1], [2, 3], [4], [0, 1]]
    assert [plan.epoch(step) for step in range(6)] == [0, 0, 0, 1, 1, 1]


def test_rate_rises_and_falls_to_nothing():
    rates = [compute_rate(step, 100, 10) for step in range(100)]
    assert rates[:10] == [(step + 1) / 10 for step in range(10)]
    assert rates[10] == 1 and rates[55] == pytest.approx(0.5) and rates[-1] < 0.001
    assert compute_rate(0, 5, 0) == 1


def test_draws_are_even_and_independent_of_company():
    rows = np.arange(20_000)
    found = draw_for_rows(rows, 1, 2)
    assert abs(found.mean() - 0.5) < 0.01 and abs(found.var() - 1 / 12) < 0.003
    assert abs(np.corrcoef(found, draw_for_rows(rows, 1, 3))[0, 1]) < 0.03
    assert np.array_equal(draw_for_rows(rows[7:9], 1, 2), found[7:9])
