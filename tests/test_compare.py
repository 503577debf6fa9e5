import math

import numpy as np
import pytest
from lab.toy import make

from captious._compare import align_systems, compare
from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io import formats
from captious.metrics.rouge import Rouge
from captious.options import Resampling
from captious.render._plots import find_plot


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
    result = compare(systems, "rouge,cider", permutations=2000)
    for metric in ("rouge", "cider"):
        values = [report[metric].corpus for report in result.reports.values()]
        assert values == sorted(values)
    best = [row for row in result.differences if row.metric == "cider" and row.system == "expert"]
    assert best[0].better == "expert" and best[0].p_holm < 0.01 and best[0].low > 0


def test_holm_is_over_the_systems_of_a_metric(systems):
    result = compare(systems, "rouge", permutations=2000, every_pair=True)
    assert len(result.differences) == 6
    assert all(row.p_holm >= row.p for row in result.differences)
    smallest = min(result.differences, key=lambda row: row.p)
    assert smallest.p_holm == pytest.approx(min(1, 6 * smallest.p))


def test_a_system_against_itself(systems):
    twin = {"one": systems["solid"], "two": systems["solid"]}
    for test in ("randomization", "bootstrap"):
        row = compare(twin, "bleu(n=4)", test=test, permutations=200).differences[0]
        assert (row.difference, row.p, row.better) == (0, 1, None)


def test_lower_is_better_where_the_metric_says_so():
    many = {"a": ["a b c d", "a b c d"], "b": ["e f g h", "e f g h"]}
    varied = {"a": ["a b c d", "x y z w"], "b": ["e f g h", "p q r s"]}
    keys = [f"{k}{n}" for k in "ab" for n in range(12)]
    dull = CaptionSet.of({key: many[key[0]] for key in keys})
    lively = CaptionSet.of({key: varied[key[0]] for key in keys})
    row = compare({"dull": dull, "lively": lively}, "mbleu", permutations=2000).differences[0]
    assert row.difference < 0 and row.better == "lively"


def test_systems_are_aligned_by_id_not_by_position(systems):
    backwards = systems["expert"].take(range(59, -1, -1))
    aligned = compare({"solid": systems["solid"], "expert": backwards}, "rouge", permutations=500)
    straight = compare({"solid": systems["solid"], "expert": systems["expert"]}, "rouge", permutations=500)
    assert aligned.differences == straight.differences


def test_an_interval_depends_neither_on_the_place_of_a_system_nor_on_the_order_of_its_file(systems):
    """To rounding: CIDEr adds up the n-grams of a caption in the order of the file."""

    def ends(report):
        return np.array([(one.low, one.high, one.error) for one in report.intervals.values()])

    shuffled = systems["expert"].take([(7 * index) % 60 for index in range(60)])
    first = compare({"expert": shuffled, "solid": systems["solid"]}, "cider,bleu(n=4)", permutations=500)
    second = compare({"solid": systems["solid"], "expert": shuffled}, "cider,bleu(n=4)", permutations=500)
    alone = ends(evaluate(systems["expert"], "cider,bleu(n=4)"))
    for report in (evaluate(shuffled, "cider,bleu(n=4)"), first.reports["expert"], second.reports["expert"]):
        assert ends(report) == pytest.approx(alone, abs=1e-12)
    for one, other in zip(first.differences, second.differences, strict=True):
        assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-12)
        assert one.p == other.p


def test_systems_on_different_items_are_refused_or_cut_to_what_they_share(systems):
    fewer = {"solid": systems["solid"], "expert": systems["expert"].take(range(5, 60))}
    with pytest.raises(InputError, match=r"solid and expert differ in 5 ids \(1001, .*pass missing='skip'"):
        compare(fewer, "rouge")
    assert len(align_systems(fewer, "skip")["solid"]) == 55


def test_one_system_cannot_be_compared(systems):
    with pytest.raises(InputError, match="1 system given, expected at least two"):
        compare({"solid": systems["solid"]})


def test_the_winner_is_named_by_the_adjusted_p():
    """Two systems against the first: p = .03 alone would win, adjusted over two tests (.06) it does not."""
    ids = [str(number) for number in range(6)]
    base = CaptionSet.of(dict.fromkeys(ids, "x"), {key: ["a b"] for key in ids})
    # All six items better in one direction: 2 of 2^6 sign patterns are as extreme, p tends to 1/32.
    better = CaptionSet.of(dict.fromkeys(ids, "a b"), {key: ["a b"] for key in ids})
    rows = compare({"base": base, "one": better, "two": better}, "rouge", permutations=20_000).differences
    assert all(row.p == pytest.approx(1 / 32, abs=0.005) and row.better is None for row in rows)
    assert compare({"base": base, "one": better}, "rouge", permutations=20_000).differences[0].better == "one"


def test_the_winner_is_decided_at_the_level_asked_for():
    """p tends to 2 / 2^7 = 1/64 = .016: a winner at 95 %, none at 99 %; the report says which level it was."""
    ids = [str(number) for number in range(7)]
    base = CaptionSet.of(dict.fromkeys(ids, "x"), {key: ["a b"] for key in ids})
    better = CaptionSet.of(dict.fromkeys(ids, "a b"), {key: ["a b"] for key in ids})
    winners = {}
    for level in (0.95, 0.99):
        result = compare(
            {"base": base, "one": better}, "rouge", permutations=20_000, resampling=Resampling(level=level)
        )
        winners[level] = result.differences[0].better
        assert rf"Holm-adjusted p \textless{{}} {round(1 - level, 2)}." in result.to_latex()
    assert winners == {0.95: "one", 0.99: None}


def test_systems_are_tested_on_the_items_both_have_a_value_for():
    words = ["a b", "c d"]
    keys = [str(number) for number in range(12)]
    whole = CaptionSet.of(dict.fromkeys(keys, words))
    partly = CaptionSet.of({key: words if number else ["", ""] for number, key in enumerate(keys)})
    result = compare({"whole": whole, "partly": partly}, "lsa", permutations=200)
    assert (result.differences[0].difference, result.differences[0].p, result.differences[0].items) == (0, 1, 11)
    assert result.warnings == ("lsa: whole and partly are tested on the 11 items both have",)


@pytest.mark.parametrize("test", ["randomization", "bootstrap"])
def test_where_nothing_is_shared_there_is_no_p_value_and_no_winner(test):
    first = CaptionSet.of({"1": ["a b", "c"], "2": ["", ""]})
    second = CaptionSet.of({"1": ["", ""], "2": ["a b", "c"]})
    result = compare({"first": first, "second": second}, "lsa", test=test, permutations=100)
    assert "second − first           —  —         —  neither" in str(result) and "█" not in str(result)
    row = result.differences[0]
    assert math.isnan(row.p) and math.isnan(row.p_holm) and row.better is None and row.items == 0


def test_items_left_out_by_aligning_stand_in_the_signature(systems):
    fewer = {"solid": systems["solid"], "expert": systems["expert"].take(range(5, 60))}
    result = compare(fewer, "rouge", missing="skip", permutations=50)
    assert "|skipped:5|" in result.reports["solid"].signature("rouge")


def test_other_references_are_warned_of():
    one = CaptionSet.of({"1": "a", "2": "b"}, {"1": ["a"], "2": ["b"]})
    two = CaptionSet.of({"1": "a", "2": "b"}, {"1": ["a c"], "2": ["b"]})
    assert "different references" in compare({"one": one, "two": two}, "rouge", permutations=50).warnings[0]


def test_what_cannot_be_resampled_is_measured_but_not_tested(systems):
    result = compare(systems, "vocab_size,rouge", permutations=100)
    assert {row.metric for row in result.differences} == {"rouge"}
    assert result.reports["expert"]["vocab_size"].corpus > result.reports["parrot"]["vocab_size"].corpus


def test_items_are_one_row_per_system_and_item(systems, tmp_path):
    result = compare(systems, "rouge", permutations=100)
    table = result.to_arrow("items")
    assert table.column_names == ["system", "id", "candidate", "references", "rouge"] and len(table) == 240
    row = table.slice(60, 1).to_pylist()[0]  # the first item of the second system
    first = systems["sloppy"].item(0)
    assert (row["system"], row["id"], row["candidate"]) == ("sloppy", first.id, first.candidate)
    assert row["rouge"] == result.reports["sloppy"]["rouge"].values[0]
    result.to_csv(tmp_path / "systems.csv")
    assert (tmp_path / "systems.csv").read_text().startswith("system,rouge,rouge_low,rouge_high\nparrot,")


def test_a_system_without_a_value_has_its_reason_in_the_rows_of_items():
    whole = CaptionSet.of({"1": "a cat", "2": "a dog"}, {"1": ["a cat"], "2": ["a dog"]})
    holed = CaptionSet.of({"1": "a cat", "2": "a dog"}, {"1": ["a cat"], "2": []})
    frame = compare({"a": whole, "b": holed}, "rouge", permutations=10).to_pandas("items")
    assert frame["unscored"].isna().tolist() == [True, True, True, False]
    assert frame["unscored"].tolist()[-1] == "rouge: no references"


def test_a_comparison_draws_systems_and_tests(systems):
    result = compare(systems, "rouge,cider", permutations=100)
    rouge, cider = find_plot(result.document()).charts
    assert (rouge.title, cider.title) == ("ROUGE-L", "CIDEr-D")
    assert [series.name for series in rouge.series] == [series.name for series in cider.series] == [*systems]
    expert = rouge.series[3]
    assert expert.names == ("†",) and expert.low == (result.reports["expert"].intervals["rouge"].low,)
    tests = [series for chart in find_plot(result.document(), "differences").charts for series in chart.series]
    assert [test.y for test in tests] == [(row.difference,) for row in result.differences]
    assert {test.name for test in tests} == {"sloppy − parrot", "solid − parrot", "expert − parrot"}


@pytest.mark.parametrize("chunk", [7, 1000])
def test_systems_scored_together_have_the_values_of_each_alone(systems, monkeypatch, chunk):
    """Bit for bit: the order in which sums run does not depend on the other systems."""
    monkeypatch.setattr("captious.metrics.chunks.CHUNK", chunk)
    metrics = "bleu,rouge,rouge_n(n=2),cider,cider(variant=plain),vocab_size"
    together = compare(systems, metrics)
    for name, captions in systems.items():
        alone = evaluate(captions, metrics)
        assert together.reports[name].data() == alone.data() and together.reports[name].warnings == alone.warnings
        for key, measurement in alone.measurements.items():
            assert together.reports[name].measurements[key].values.tolist() == measurement.values.tolist()
            assert str(together.reports[name].measurements[key].signature) == str(measurement.signature)


def test_equal_candidates_of_an_item_are_scored_once(monkeypatch):
    """Item 1 has one caption by three systems, item 2 two of them; the values are those of each system alone."""
    texts = {"a": ("a dog", "a cat"), "b": ("a dog", "a bird sings"), "c": ("a dog", "a cat")}
    references = {"1": ["the dog", "a dog runs"], "2": ["a black cat"]}
    alone = {name: evaluate(dict(zip("12", own, strict=True)), references=references) for name, own in texts.items()}
    scored, score = [], Rouge.score_candidates
    monkeypatch.setattr(Rouge, "score_candidates", lambda *given: scored.append(given[1]) or score(*given))
    together = compare({name: dict(zip("12", own, strict=True)) for name, own in texts.items()}, references=references)
    assert [one.candidates.values for one in scored] == [("a dog", "a cat", "a bird sings")]
    for name, report in alone.items():
        for key, measurement in report.measurements.items():
            assert together.reports[name].measurements[key].values.tolist() == measurement.values.tolist()


def test_pairs_tested_together_have_the_values_of_each_alone(systems, monkeypatch):
    together = compare(systems, "bleu,cider", every_pair=True)
    monkeypatch.setattr("captious._compare.TOGETHER", 1)
    assert compare(systems, "bleu,cider", every_pair=True).data() == together.data()


def test_a_file_of_references_is_read_once(tmp_path, monkeypatch):
    path = tmp_path / "refs.json"
    path.write_text('{"1": ["a dog"], "2": ["a cat"]}')
    reads, original = [], formats._read_content
    monkeypatch.setattr(formats, "_read_content", lambda source, *rest: reads.append(str(source)) or original(source))
    compare({name: {"1": "a dog", "2": f"a {name}"} for name in ("one", "two", "three")}, "rouge", references=path)
    assert reads == [str(path)]
