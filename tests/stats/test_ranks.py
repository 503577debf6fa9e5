"""Ranks: a different rank means a significant difference, also where indistinguishable is not transitive."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from captious.stats.ranks import format_ranks, rank_groups, shared_ranks


def test_a_is_better_than_c_and_b_is_distinguished_from_neither():
    ranks = shared_ranks("ABC", [("A", "C")])
    assert {name: format_ranks(own) for name, own in ranks.items()} == {"A": "1", "B": "1–2", "C": "2"}
    assert rank_groups(ranks) == [("A", "B"), ("B", "C")]


def test_no_difference_is_one_rank_and_all_differences_are_as_many_as_there_are_systems():
    assert shared_ranks("ABC", []) == {"A": (1,), "B": (1,), "C": (1,)}
    assert shared_ranks("ABC", combinations("ABC", 2)) == {"A": (1,), "B": (2,), "C": (3,)}
    assert shared_ranks("", []) == {} and shared_ranks("A", []) == {"A": (1,)}


def test_clusters_that_are_transitive_have_one_rank_each():
    different = [(one, other) for one in "ab" for other in "cd"]
    assert shared_ranks("abcd", different) == {"a": (1,), "b": (1,), "c": (2,), "d": (2,)}


def test_a_pair_may_differ_although_a_wider_gap_does_not():
    """B is below A and differs from it; C is below B and differs from neither: C shares a rank with both."""
    ranks = shared_ranks("ABC", [("A", "B")])
    assert ranks == {"A": (1,), "B": (2,), "C": (1, 2)}
    assert format_ranks((1, 3)) == "1, 3"


@given(st.integers(0, 9).flatmap(lambda number: st.tuples(st.just(number), st.sets(st.integers(0, 80)))))
def test_two_share_a_rank_exactly_where_they_do_not_differ(case):
    number, chosen = case
    pairs = list(combinations(range(number), 2))
    different = {pair for index, pair in enumerate(pairs) if index in chosen}
    ranks = shared_ranks(range(number), different)
    for one, other in pairs:
        assert bool({*ranks[one]} & {*ranks[other]}) == ((one, other) not in different)
    numbers = {rank for own in ranks.values() for rank in own}
    assert numbers == {*range(1, len(numbers) + 1)} and (not number or ranks[0][0] == 1)
