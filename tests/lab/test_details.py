from __future__ import annotations

from lab.toy import make
from lab.toy.captions import Fact, Unit, all_facts, long_caption, salient_facts, units
from lab.toy.scenes import scenes, stream


def _units() -> list[tuple[frozenset[Fact], frozenset[Fact], Unit]]:
    return [
        (all_facts(scene), salient_facts(scene), unit)
        for scene in scenes(300)
        for unit in units(scene, stream(0, scene.id, "details"))
    ]


def test_units_are_true_and_wrong_units_are_not() -> None:
    for truth, _, unit in _units():
        assert set(unit.facts) <= truth
        assert not set(unit.wrong_facts) <= truth


def test_a_wrong_unit_differs_by_exactly_the_claimed_change() -> None:
    for _, _, unit in _units():
        aspect, was, now = unit.change
        assert was != now
        assert unit.text.count(was) == 1, unit
        assert unit.wrong_text == unit.text.replace(was, now)
        if aspect == "object":
            renamed = {fact._replace(kind=unit.wrong_facts[0].kind) for fact in unit.facts if fact.aspect != "group"}
            assert renamed == set(unit.wrong_facts)
        else:
            (gone,), (come,) = set(unit.facts) - set(unit.wrong_facts), set(unit.wrong_facts) - set(unit.facts)
            assert gone.aspect == come.aspect == aspect
            assert (gone.kind, gone.other) == (come.kind, come.other)


def test_every_kind_of_change_occurs() -> None:
    changed = {unit.change.aspect for _, _, unit in _units()}
    assert changed == {"setting", "object", "count", "color", "size", "relation"}


def test_units_together_tell_all_but_relations_to_the_first_thing() -> None:
    for scene in scenes(100):
        told = {fact for unit in units(scene, stream(0, scene.id, "details")) for fact in unit.facts}
        assert {fact for fact in salient_facts(scene) if fact.aspect != "relation"} <= told


def test_long_caption_is_its_units_and_ends_in_a_full_stop() -> None:
    sample = make(20)
    for scene in sample.scenes():
        row = sample.detailed(scene)
        assert row["caption"] == " ".join(row["units"]) == long_caption(units(scene, stream(0, scene.id, "details")))
        assert row["caption"].endswith(".")
        assert len(row["units"]) == len(row["wrong_units"]) == len(row["changes"])
