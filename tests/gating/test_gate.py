"""``captious.gate``: verdicts by hand, both directions, what is refused, what the result shows."""

import json
import math
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from lab.benchmarks.gate_shapes import lower_bounds
from lab.toy import make
from scipy import stats

import captious
from captious import CaptionSet, InputError, Resampling
from captious._compare import StatisticPair
from captious.gating import lock_system, plan_gate
from captious.gating.verdict import run_tests
from captious.stats.resampling import Statistic, bootstrap_weights

QUICK = Resampling(samples=300)


@pytest.fixture(scope="module")
def systems():
    sample = make(items=120)
    references = sample.references()
    return {
        name: CaptionSet.of(
            {scene.id: sample.prediction_of(scene, name).text for scene in sample.scenes()}, references, name=name
        )
        for name in ("parrot", "solid", "expert")
    }


def by_words(hits, total=200):
    """Captions of which so many hit their one reference word, and score ROUGE 1, the others 0."""
    references = {str(number): ["dog"] for number in range(total)}
    return CaptionSet.of({str(number): "dog" if number < hits else "cat" for number in range(total)}, references)


def test_identical_captions_pass_without_a_margin(systems):
    result = captious.gate(systems["solid"], systems["solid"], "bleu,rouge,cider", 0, resampling=QUICK)
    assert result.verdict == "pass" and result.exit_code == 0 and result.changed == 0 and not result.lost
    assert [row.difference for row in result.rows] == [0] * 6


def test_percentile_bounds_are_those_of_the_paired_resamples():
    """20 of 200 items fall from 1 to 0: a difference of −.1, and of each resample minus the share of these items."""
    result = captious.gate(by_words(120), by_words(100), "rouge", 0.05, interval="percentile")
    row = result.rows[0]
    assert (row.base, row.new, row.difference) == pytest.approx((0.6, 0.5, -0.1))
    ids = sorted(range(200), key=lambda number: (len(str(number)), str(number)))
    fell = np.array([100 <= number < 120 for number in ids])
    drawn = np.concatenate([-(block @ fell) / 200 for block in bootstrap_weights(200)])
    assert (row.low, row.high) == pytest.approx(tuple(np.percentile(drawn, [5, 95])), abs=1e-12)
    assert row.p_worse == (1 + np.sum(drawn >= -0.05 - 1e-12)) / 1001
    assert row.verdict == "worse" and result.exit_code == 1 and result.changed == 0.1


def test_studentized_bounds_by_hand():
    """Each resample is divided by its own error; the bounds are those, or the wider ones of t for the 20 changed items.

    Gains are −1 for 20 items of 200 and 0 for the others: with d the share that a resample draws of the 20, its gain is
    −d and its error √(d (1 − d) / 199).
    """
    result = captious.gate(by_words(120), by_words(100), "rouge", 0.05)
    row = result.rows[0]
    ids = sorted(range(200), key=lambda number: (len(str(number)), str(number)))
    fell = np.array([100 <= number < 120 for number in ids])
    share = np.concatenate([block @ fell / 200 for block in bootstrap_weights(200)])
    ratios = np.sort((0.1 - share) / np.sqrt(share * (1 - share) / 199))
    error, student = math.sqrt(0.1 * 0.9 / 199), stats.t.ppf(0.95, 19)
    assert row.error == pytest.approx(error) and ratios[950] > student > -ratios[49]  # the losses are skewed
    assert row.low == pytest.approx(-0.1 - ratios[950] * error, abs=1e-12)
    assert row.high == pytest.approx(-0.1 + student * error, abs=1e-12)
    observed = -0.05 / error
    expected = max((1 + np.sum(ratios <= observed)) / 1001, stats.t.cdf(observed, 19))
    assert row.p_worse == pytest.approx(expected, abs=1e-12) and row.verdict == "worse"
    assert "bootstrap(1000,seed=12345,95%,studentized)" in str(result)
    assert result.to_dict()["resampling"]["interval"] == "studentized"


def mean_pair(gains):
    """Two systems of which the second gains so much in each item, by a metric that is a mean."""
    sides = []
    for values in (np.zeros(len(gains)), gains):
        rows = np.stack([values, np.ones(len(gains))], axis=1)
        sides.append(Statistic(rows, lambda sums: sums[:, 0] / sums[:, 1], rows.sum(axis=0), float(values.mean())))
    return {"x": StatisticPair(*sides, len(gains))}


def test_the_simulated_bounds_are_those_of_the_gate():
    """``lab/benchmarks/gate_shapes.py`` simulates what the gate does: the same bound from the same resamples."""
    rng = np.random.default_rng(3)
    gains = np.where(rng.random(60) < 0.2, -rng.exponential(1, 60), 0.0)
    simulated = lower_bounds(gains[:, None], np.concatenate(list(bootstrap_weights(60))))
    for interval in ("studentized", "percentile"):
        test = run_tests(mean_pair(gains), {"x": 0.1}, {"x": True}, Resampling(), interval)["x"]
        assert test.low == pytest.approx(simulated[interval][0], abs=1e-12), interval


def test_a_corpus_metric_is_studentized_too(systems):
    """BLEU-4 is no mean over items: leaving items out gives the error that resamples spread by, within a tenth."""
    ours, theirs = (
        captious.gate(systems["solid"], systems["expert"], "bleu(n=4)", 0.05, interval=interval).rows[0]
        for interval in ("studentized", "percentile")
    )
    assert ours.error == pytest.approx(theirs.error, rel=0.1)
    assert ours.low == pytest.approx(theirs.low, abs=0.5 * ours.error)


def test_a_loss_of_the_margin_passes_in_five_percent():
    """15 % of 100 captions change by normal gains of mean −1/2: 600 gates of such pairs; percentiles pass in 9 %."""
    rng = np.random.default_rng(0)
    passed = dict.fromkeys(("studentized", "percentile"), 0)
    for _ in range(600):
        pair = mean_pair(np.where(rng.random(100) < 0.15, rng.normal(-0.5, 1, 100), 0.0))
        for interval in passed:
            passed[interval] += run_tests(pair, {"x": 0.075}, {"x": True}, Resampling(200), interval)["x"].passes
    assert 0.03 < passed["studentized"] / 600 < 0.085 < passed["percentile"] / 600


def test_bounds_follow_the_interval_that_is_named():
    """`Resampling(interval="t")` still asks for Student's t; an unknown interval is one line."""
    by_t = captious.gate(by_words(120), by_words(100), "rouge", 0.05, resampling=Resampling(interval="t"))
    assert by_t.interval == "t" and "95%,t)" in str(by_t)
    with pytest.raises(InputError, match="interval='bca', expected studentized or percentile or t"):
        captious.gate(by_words(5, 9), by_words(5, 9), "rouge", 0, interval="bca")


@pytest.mark.parametrize(
    ("margin", "verdict", "code"), [(0.2, "pass", 0), (0.1, "undecided", 3), (0.05, "worse", 1), ("40%", "pass", 0)]
)
def test_the_verdict_by_the_margin(margin, verdict, code):
    """A loss of .1 with a standard error of √(.1 · .9 / 200) = .021: bounds at about −.135 and −.065."""
    result = captious.gate(by_words(120), by_words(100), "rouge", margin)
    assert (result.verdict, result.exit_code) == (verdict, code)


def test_undecided_may_warn_or_fail():
    codes = {
        undecided: captious.gate(by_words(120), by_words(100), "rouge", 0.1, undecided=undecided).exit_code
        for undecided in (None, "warn", "fail")
    }
    assert codes == {None: 3, "warn": 0, "fail": 1}
    with pytest.raises(InputError, match="undecided='stop', expected warn or fail"):
        captious.gate(by_words(2), by_words(2), "rouge", 0, undecided="stop")


def test_what_would_decide_is_said():
    """0 = −.1 + margin is 0 at .1; with .09 the distance is .01, and n = 200 · (2.4865 · error / .01)²."""
    row = captious.gate(by_words(120), by_words(100), "rouge", 0.09).rows[0]
    assert row.items_to_decide == math.ceil(200 * (2.486474 * row.error / abs(row.difference + 0.09)) ** 2)
    assert row.equal_passes == pytest.approx(2.486474 * row.error) and row.smallest_margin == -row.low
    text = str(captious.gate(by_words(120), by_words(100), "rouge", 0.09))
    assert f"about {row.items_to_decide:,} items like these" in text and "an equal system passes 80%" in text


def test_fewer_hallucinations_are_no_loss():
    """CHAIR_S is lower for the better system; 40 captions of 200 that invent a cat are a loss of .2."""
    objects = {str(number): ["dog"] for number in range(200)}

    def captions(wrong):
        rows = [
            {"id": key, "caption": "a dog and a cat" if int(key) < wrong else "a dog", "objects": objects[key]}
            for key in objects
        ]
        return captious.read(rows)

    worse = captious.gate(captions(0), captions(40), "chair(value=s)", 0.1)
    row = worse.rows[0]
    assert not row.higher_is_better and (row.base, row.new, row.difference) == pytest.approx((0, 0.2, 0.2))
    assert row.low < 0.2 < row.high and worse.verdict == "worse" and worse.lost[0].new == "a dog and a cat"
    assert "caption of new" in str(worse) and "first reference" not in str(worse)  # there are none
    assert captious.gate(captions(40), captions(0), "chair(value=s)", 0).verdict == "pass"
    assert captious.gate(captions(0), captions(40), "chair(value=s)", 0.3).verdict == "pass"
    whole = captious.gate(captions(40), captions(40), "chair", 0, resampling=QUICK)
    assert "chair(value=words)" not in [row.metric for row in whole.rows]
    assert any("chair(value=words) is a length or a count" in line for line in whole.warnings)
    named = captious.gate(captions(40), captions(40), "chair(value=words)", 0, resampling=QUICK)
    assert [row.metric for row in named.rows] == ["chair(value=words)"]


def test_one_metric_that_is_worse_is_enough_and_all_must_pass(systems):
    """The parrot's captions are long and repeat; against an expert everything falls, with a large margin nothing."""
    worse = captious.gate(systems["expert"], systems["parrot"], "cider,rouge", "cider=0.01,rouge=1", resampling=QUICK)
    assert [row.verdict for row in worse.rows] == ["worse", "pass"] and worse.verdict == "worse"
    assert worse.lost_by == "cider"
    assert captious.gate(systems["expert"], systems["parrot"], "cider,rouge", 10, resampling=QUICK).verdict == "pass"


def test_the_captions_that_lost_most(systems):
    result = captious.gate(systems["expert"], systems["solid"], "rouge", 0.5, resampling=QUICK)
    reports = {name: captious.evaluate(systems[name], "rouge", resampling=Resampling(0))["rouge"] for name in systems}
    losses = {key: reports["expert"].items[key] - reports["solid"].items[key] for key in systems["solid"].ids}
    worst = sorted(losses, key=losses.get, reverse=True)[:10]
    assert {one.id for one in result.lost} == set(worst) and len(result.lost) == 10
    for one in result.lost:
        assert one.base == systems["expert"].item(systems["expert"].position(one.id)).candidate
        assert one.base_value - one.new_value == pytest.approx(losses[one.id])


def test_the_order_of_the_items_changes_no_byte(systems):
    backwards = {name: one.take(range(len(one) - 1, -1, -1)) for name, one in systems.items()}
    first, second = (
        captious.gate(one["expert"], other["solid"], "cider,bleu", "1%", resampling=QUICK)
        for one, other in ((systems, backwards), (backwards, systems))
    )
    assert first.to_json() == second.to_json() and first.to_markdown() == second.to_markdown()
    assert first.to_junit() == second.to_junit()


def test_runs_reports_and_captions_give_the_same_verdict(systems, tmp_path):
    reports = {name: captious.evaluate(systems[name], "cider,rouge", resampling=QUICK) for name in ("expert", "solid")}
    for name, report in reports.items():
        report.save(tmp_path / name)
    captions = captious.gate(systems["expert"], systems["solid"], "cider,rouge", "1%", resampling=QUICK)
    stored = captious.gate(tmp_path / "expert", tmp_path / "solid", margin="1%", resampling=QUICK)
    mixed = captious.gate(tmp_path / "expert", systems["solid"], "cider,rouge", "1%", resampling=QUICK)
    held = captious.gate(reports["expert"], reports["solid"], margin="1%", resampling=QUICK)
    for other in (stored, mixed, held):
        for ours, theirs in zip(captions.rows, other.rows, strict=True):
            assert (theirs.low, theirs.high) == pytest.approx((ours.low, ours.high), abs=1e-12)
        assert other.lost == captions.lost or [one.id for one in other.lost] == [one.id for one in captions.lost]
    assert "expert" in stored.base and stored.unit == "items"


def test_runs_of_shards_resample_shards(systems, tmp_path):
    for name in ("expert", "solid"):
        for shard in range(6):
            part = systems[name].take(range(20 * shard, 20 * shard + 20))
            rows = [{"id": one.id, "caption": one.candidate, "references": one.references} for one in part]
            path = tmp_path / f"{name}-in" / f"{shard}.jsonl"
            path.parent.mkdir(exist_ok=True)
            path.write_text("\n".join(map(json.dumps, rows)))
        captious.score_shards(tmp_path / f"{name}-in", "rouge", out=tmp_path / name, store_rows=False)
    result = captious.gate(tmp_path / "expert", tmp_path / "solid", margin=0.5, resampling=QUICK)
    assert result.unit == "shards" and result.changed is None and len(result.lost) == 10
    assert result.verdict == "pass" and any("the tests compare 6 shards" in line for line in result.warnings)
    assert "bootstrap(300,shards," in str(result)
    with pytest.raises(InputError, match="solid: has no statistics of its items"):
        lock_system(tmp_path / "lock.json", tmp_path / "solid")


def test_a_value_that_only_the_base_has_hides_no_loss():
    """Empty captions have no value by a model; the others are equal, and still the gate does not pass."""
    words = [f"w{number}" for number in range(120)]

    def captions(empty):
        texts = {word: "" if index < empty else word for index, word in enumerate(words)}
        return CaptionSet.of(texts, {word: [word] for word in words})

    def known(text, references):
        return float("nan") if not text else 1.0

    metric = captious.metric_from(known, name="gate_known")
    result = captious.gate(captions(0), captions(3), metric, 0, resampling=QUICK)
    assert result.verdict == "undecided" and "no value for 3 items that base has one for" in result.rows[0].reason
    assert captious.gate(captions(3), captions(0), metric, 0, resampling=QUICK).verdict == "pass"


def test_few_items_are_said():
    few = captious.gate(by_words(10, 20), by_words(10, 20), "rouge", 0, resampling=QUICK)
    assert few.warnings[0].startswith("20 items: below 30, a large loss in a few captions can be missed")
    assert not captious.gate(by_words(60), by_words(60), "rouge", 0, resampling=QUICK).warnings
    changed = captious.gate(by_words(60), by_words(70), "rouge", 0, resampling=QUICK)
    assert changed.warnings[0].startswith("10 changed captions: below 30, ") and "in 23% with 7" in changed.warnings[0]
    by_t = captious.gate(by_words(60), by_words(110), "rouge", 0, resampling=QUICK, interval="t")
    assert by_t.warnings[0].startswith("50 changed captions: below 100, a loss as large as the margin passes in 5 to")
    assert not captious.gate(by_words(60), by_words(110), "rouge", 0, resampling=QUICK).warnings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"margin": None}, "no margin, expected one such as margin=1%"),
        ({"margin": "-1"}, "margin '-1', expected a number such as 0.02, or a share such as 1%, of at least 0"),
        ({"margin": "much"}, "margin 'much', expected a number"),
        ({"margin": "nan"}, "margin 'nan', expected"),
        ({"margin": "bleu=1%"}, "no metric 'bleu'|no margin for rouge"),
        ({"margin": "1%,2%"}, "margin '2%' as well as '1%', expected one for all metrics"),
        ({"margin": "rouge=1%,rouge=2%"}, "rouge has two margins"),
        ({"resampling": Resampling(0)}, "samples=0: a gate needs resamples"),
        ({"resampling": Resampling(level=0.4)}, "level=0.4: a one-sided bound, expected a level above 0.5"),
        ({"metrics": "vocab_size"}, "cannot be resampled"),
    ],
)
def test_what_cannot_be_used_is_one_line(change, message):
    arguments = {"metrics": "rouge", "margin": "1%", "resampling": QUICK} | change
    with pytest.raises(InputError, match=message):
        captious.gate(by_words(5, 9), by_words(5, 9), **arguments)


def test_other_items_or_references_are_refused():
    base, other = by_words(50), by_words(50)
    texts = dict(zip(other.ids, ([*one, "puppy"] for one in other.references), strict=True))
    changed = CaptionSet.of(dict(zip(other.ids, (one[0] for one in other.candidates), strict=True)), texts)
    with pytest.raises(InputError, match=r"rouge: base has references:1, new has references:2; expected the same"):
        captious.gate(base, replace(changed, name="captions"), "rouge", 0, resampling=QUICK)
    with pytest.raises(InputError, match="differ in 1 ids"):
        captious.gate(base, other.take(range(1, 200)), "rouge", 0, resampling=QUICK)
    shared = captious.gate(base, other.take(range(1, 200)), "rouge", 0, resampling=QUICK, missing="skip")
    assert shared.items == 199 and shared.verdict == "pass"


def test_margins_in_a_file(tmp_path):
    path = tmp_path / "gate.toml"
    path.write_text(
        'metrics = "rouge, bleu"\nmargin = "1%"\nundecided = "warn"\n[margins]\nrouge = 0.1\n"BLEU-1" = 0.2\n'
    )
    result = captious.gate(by_words(120), by_words(100), margin=path, resampling=QUICK)
    given = {row.metric: row.given for row in result.rows}
    assert given == {"rouge": "0.1", "bleu(n=1)": "0.2"} | {f"bleu(n={n})": "1%" for n in (2, 3, 4)}
    assert result.undecided == "warn"
    for text, message in {
        "margin = true": "margin = true, expected",
        "margins = 3": r"margins = 3, expected a table \[margins\]",
        "margn = 1": "unknown key margn, known: metrics, margin, undecided, margins; did you mean 'margin'",
        "undecided = 'no'": "undecided = 'no'",
        "margin = ": "not a file of margins in TOML",
    }.items():
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            captious.gate(by_words(5, 9), by_words(5, 9), "rouge", path, resampling=QUICK)


def test_junit_has_a_case_for_each_metric(systems):
    margins = "cider=0.01,rouge=1,bleu(n=1)=0.05"
    result = captious.gate(systems["expert"], systems["solid"], "cider,rouge,bleu(n=1)", margins, resampling=QUICK)
    suite = ElementTree.fromstring(result.to_junit().encode()).find("testsuite")
    cases = {case.get("name"): {child.tag for child in case} for case in suite.iter("testcase")}
    tags = {"worse": "failure", "undecided": "skipped", "pass": "system-out"}
    assert {row.metric: tags[row.verdict] in cases[row.metric] for row in result.rows} == dict.fromkeys(cases, True)
    found = [row.verdict for row in result.rows]
    assert suite.find("properties/property").attrib == {"name": "verdict", "value": result.verdict}
    assert suite.get("tests") == "3" and suite.get("failures") == str(found.count("worse"))
    assert suite.get("skipped") == str(found.count("undecided")) and "worse" in found
    failed = ElementTree.fromstring(replace(result, undecided="fail").to_junit().encode())
    assert len(list(failed.iter("failure"))) == len([one for one in found if one != "pass"])


HOSTILE = "<b>@all</b> | `x` #1 ::error:: ]]> \x00\ud800 &amp; " * 200


def test_hostile_captions_and_ids_stay_text():
    ids = [f"{number}<&\"'|" for number in range(120)]
    references = {key: ["dog"] for key in ids}
    base = CaptionSet.of(dict.fromkeys(ids, "dog"), references)
    new = CaptionSet.of(dict.fromkeys(ids, HOSTILE), references, name="n<&|`@x\x01")
    result = captious.gate(base, new, "rouge", 0.01, resampling=QUICK)
    assert result.verdict == "worse" and len(result.lost) == 10
    text = result.to_markdown()
    assert len(text) <= 65_536 and text.startswith("<!-- captious-gate -->\n### Gate: ")
    assert text.split("\n\n")[1].startswith("Worse: ")
    for outside in ("<b>", "@", "`", "::", "\x00"):
        assert outside not in text
    assert ElementTree.fromstring(result.to_junit().encode("utf-8")) is not None
    json.loads(result.to_json().encode("utf-8", "replace"))
    str(result), result.document()


def test_a_plan_from_the_base_and_from_a_pair():
    """Of 200 items 120 score 1: the error of the mean is √(.6 · .4 / 200) = .0346; with 20 % changed, √.2 of it."""
    plan = plan_gate(by_words(120), metrics="rouge", margin=0.05, changed=0.2)
    row = plan.rows[0]
    assert row.error == pytest.approx(math.sqrt(0.6 * 0.4 / 200 * 0.2), rel=0.1)
    assert row.confirms == pytest.approx(2.486474 * row.error)
    assert row.items == math.ceil(200 * (row.confirms / 0.05) ** 2) and 0.5 < row.chance < 1
    pair = plan_gate(by_words(120), by_words(100), "rouge", changed=0.2)
    assert pair.measured == 0.1
    gate = captious.gate(by_words(120), by_words(100), "rouge", 0)
    assert pair.rows[0].error == pytest.approx(gate.rows[0].error * math.sqrt(2))
    assert "can confirm" in str(plan) and plan.to_dict()["rows"][0]["items"] == row.items
    with pytest.raises(InputError, match="no caption differs"):
        plan_gate(by_words(5, 9), by_words(5, 9), "rouge")
    with pytest.raises(InputError, match="changed"):
        plan_gate(by_words(5, 9), metrics="rouge", changed=0)


def test_a_run_without_references_is_still_known_to_have_the_same(systems, tmp_path):
    """The signature of the run remembers the references that its folder does not hold."""
    report = captious.evaluate(systems["solid"].take(range(119, -1, -1)), "rouge", resampling=QUICK)
    replace(report, source=replace(report.source, store_references=False)).save(tmp_path / "run")
    result = captious.gate(tmp_path / "run", systems["expert"], margin=0.5, resampling=QUICK)
    assert result.verdict == "pass" and result.lost[0].reference
