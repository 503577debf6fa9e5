from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.toy.scenes import (
    FIRST_ID,
    GROUND,
    KINDS,
    RELATIONS,
    SETTINGS,
    UPON,
    Thing,
    colors_of,
    from_record,
    record,
    relations,
    scene,
    scenes,
)

INVERSE = {"left of": "right of", "right of": "left of", "above": "below", "next to": "next to", "on": "below"}


@given(seed=st.integers(0, 10**9), item=st.integers(0, 10**9))
def test_an_item_depends_only_on_seed_and_number(seed: int, item: int) -> None:
    (alone,) = scenes(item + 1, seed, start=item)
    assert alone == scene(item, seed)
    assert alone.id == FIRST_ID + item


def test_a_slice_made_alone_equals_the_slice_of_the_whole() -> None:
    assert list(scenes(60, seed=5, start=40)) == list(scenes(60, seed=5))[40:]


@pytest.mark.parametrize("seed", [0, 1])
def test_scenes_keep_the_rules_of_the_catalog(seed: int) -> None:
    for one in scenes(500, seed):
        assert len(one.things) >= 2
        assert len({thing.kind for thing in one.things}) == len(one.things)
        cells = [(thing.column, thing.row) for thing in one.things]
        assert len(set(cells)) == len(cells)
        for thing in one.things:
            kind = KINDS[thing.kind]
            assert one.setting in kind.settings
            assert thing.color in colors_of(kind, one.setting)
            assert 1 <= thing.count <= kind.most
            assert (thing.group != "") == (thing.kind == "person")
            if thing.row == UPON:
                assert kind.rests
                below = next(t for t in one.things if (t.column, t.row) == (thing.column, GROUND))
                assert KINDS[below.kind].supports
                assert below.count == 1


def test_every_kind_setting_and_relation_turns_up() -> None:
    many = list(scenes(1000))
    assert {one.setting for one in many} == set(SETTINGS)
    assert {thing.kind for one in many for thing in one.things} == set(KINDS)
    found = {name for one in many for a in one.things for b in one.things if a is not b for name in relations(a, b)}
    assert found == set(RELATIONS)


def test_relations_invert() -> None:
    for one in scenes(200):
        for a in one.things:
            for b in one.things:
                if a is not b:
                    backward = relations(b, a)
                    for name in relations(a, b):
                        assert name == "below" or INVERSE[name] in backward


def test_a_thing_far_off_is_beside_nothing() -> None:
    left, right = Thing("ball", "red", column=0), Thing("tree", "green", column=2)
    assert relations(left, right) == ("left of",)


def test_every_kind_can_be_seen_in_every_setting_it_occurs_in() -> None:
    for kind in KINDS.values():
        for setting in kind.settings:
            assert colors_of(kind, setting), (kind.name, setting)


def test_records_read_back() -> None:
    for one in scenes(50):
        assert from_record(record(one)) == one
