"""From counts to scores, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from captious.errors import InputError
from captious.metrics.meteor.engine import COLUMNS, TASKS, Parameters, get_parameters, score, score_pairs


def counts(**values):
    row = np.zeros(len(COLUMNS))
    for name, value in values.items():
        row[COLUMNS.index(name)] = value
    return row


PLAIN = Parameters(alpha=0.5, beta=1.0, gamma=0.5, delta=0.5, weights=(1.0, 0.5, 0.5, 0.5))


def test_the_formula_by_hand():
    # Candidate of 4 words (2 function), reference of 5 (1 function); matched: 1 content word exactly, 1 function word
    # by stem on both sides, in 2 chunks. With rank's weights:
    # P = (1*.75 + .6*.25) / (.75*2 + .25*2) = .9/2, R = .9 / (.75*4 + .25*1) = .9/3.25
    # F = 1 / (.15/.45 + .85*3.25/.9), frag = 2/2
    row = counts(
        candidate_length=4, reference_length=5, candidate_function=2, reference_function=1,
        exact_candidate_content=1, exact_reference_content=1, stem_candidate_function=1, stem_reference_function=1,
        chunks=2, candidate_matches=2, reference_matches=2,
    )  # fmt: skip
    expected = 1 / (0.15 / 0.45 + 0.85 * 3.25 / 0.9) * (1 - 0.6)
    assert float(score(row, TASKS["rank"])) == pytest.approx(expected, abs=1e-15)
    assert score_pairs(row[None], TASKS["rank"]).tolist() == pytest.approx([expected], abs=1e-15)


def test_the_corpus_is_scored_from_sums():
    # One pair of 2 words matched whole (frag 0), one of 2 words without a match: P = R = F = 2/4, no chunks.
    whole = counts(candidate_length=2, reference_length=2, exact_candidate_content=2, exact_reference_content=2,
                   candidate_matches=2, reference_matches=2)  # fmt: skip
    none = counts(candidate_length=2, reference_length=2)
    assert score(np.stack([whole, none]), PLAIN).tolist() == [1.0, 0.0]
    assert float(score(whole + none, PLAIN)) == 0.5


def test_empty_captions_score_zero():
    assert score(np.zeros((2, 3, len(COLUMNS))), TASKS["rank"]).tolist() == [[0.0] * 3] * 2


@given(arrays(np.int64, len(COLUMNS), elements=st.integers(0, 9)), st.sampled_from(sorted(TASKS)))
def test_one_pair_and_many_give_the_same(row, task):
    row[0:2] += row[2:4] + 1
    if row[21] + row[22]:
        value = float(score_pairs(row[None].astype(float), TASKS[task])[0])
        assert value == pytest.approx(float(score(row, TASKS[task])), rel=1e-12)


def test_an_unknown_task_is_named():
    with pytest.raises(InputError, match="no task 'ranks'; known: rank, adq, hter, li; did you mean 'rank'"):
        get_parameters("ranks")
