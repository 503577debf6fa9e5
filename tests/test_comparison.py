import pytest

from captious.captions import CaptionSet
from captious.comparison import align, compare
from captious.errors import InputError
from captious.samples import make


@pytest.fixture(scope="module")
def systems():
    sample = make(items=60)
    return {
        name: CaptionSet.of(
            {scene.id: sample.prediction_of(scene, name).text for scene in sample.scenes()},
            sample.references(),
            name=name,
        )
        for name in ("parrot", "sloppy", "solid", "expert")
    }


def test_the_graded_captioners_are_ranked(systems):
    result = compare(systems, "rouge,cider", shuffles=2000)
    for metric in ("rouge", "cider"):
        values = [report[metric].corpus for report in result.reports.values()]
        assert values == sorted(values)
    best = [row for row in result.differences if row.metric == "cider" and row.system == "expert"]
    assert best[0].better == "expert" and best[0].p_holm < 0.01 and best[0].low > 0


def test_holm_is_over_the_systems_of_a_metric(systems):
    result = compare(systems, "rouge", shuffles=2000, every_pair=True)
    assert len(result.differences) == 6
    assert all(row.p_holm >= row.p for row in result.differences)
    smallest = min(result.differences, key=lambda row: row.p)
    assert smallest.p_holm == pytest.approx(min(1, 6 * smallest.p))


def test_a_system_against_itself(systems):
    twin = {"one": systems["solid"], "two": systems["solid"]}
    for test in ("randomisation", "bootstrap"):
        row = compare(twin, "bleu(n=4)", test=test, shuffles=200).differences[0]
        assert (row.difference, row.p, row.better) == (0, 1, None)


def test_lower_is_better_where_the_metric_says_so():
    many = {"a": ["a b c d", "a b c d"], "b": ["e f g h", "e f g h"]}
    varied = {"a": ["a b c d", "x y z w"], "b": ["e f g h", "p q r s"]}
    keys = [f"{k}{n}" for k in "ab" for n in range(12)]
    dull = CaptionSet.of({key: many[key[0]] for key in keys})
    lively = CaptionSet.of({key: varied[key[0]] for key in keys})
    row = compare({"dull": dull, "lively": lively}, "mbleu", shuffles=2000).differences[0]
    assert row.difference < 0 and row.better == "lively"


def test_systems_are_aligned_by_id_not_by_position(systems):
    backwards = systems["expert"].take(range(59, -1, -1))
    aligned = compare({"solid": systems["solid"], "expert": backwards}, "rouge", shuffles=500)
    straight = compare({"solid": systems["solid"], "expert": systems["expert"]}, "rouge", shuffles=500)
    assert aligned.differences == straight.differences


def test_systems_on_different_items_are_refused_or_cut_to_what_they_share(systems):
    fewer = {"solid": systems["solid"], "expert": systems["expert"].take(range(5, 60))}
    with pytest.raises(InputError, match=r"solid and expert differ in 5 ids \(1001, .*use --missing skip"):
        compare(fewer, "rouge")
    assert len(align(fewer, "skip")["solid"]) == 55


def test_one_system_cannot_be_compared(systems):
    with pytest.raises(InputError, match="1 system given, expected at least two"):
        compare({"solid": systems["solid"]})


def test_what_cannot_be_resampled_is_measured_but_not_tested(systems):
    result = compare(systems, "vocabulary,rouge", shuffles=100)
    assert {row.metric for row in result.differences} == {"rouge"}
    assert result.reports["expert"]["vocabulary"].corpus > result.reports["parrot"]["vocabulary"].corpus
