"""The numbers of a selection: as captious computes them for these captions alone, and what is said where it cannot."""

import numpy as np
import pytest
from scipy import stats
from tests.studio.explore.conftest import REFERENCES, SYSTEMS

from captious._compare import compare
from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.options import Resampling
from captious.studio.explore import _view_summary
from captious.studio.explore._view_summary import Summaries
from captious.studio.explore._views import Explorer, parse_view
from captious.studio.explore.explorer_table import open_table

HAPPY = 'style == "happy"'  # items 1 and 3
NARROW = "Intervals of fewer than 50 items are too narrow; a run scored with --interval t has wider ones."


def summary_of(table, **address):
    return Summaries(Explorer(table)).summarize(parse_view(table, address))


def captions_of(system, ids):
    texts = {key: SYSTEMS[system][key] for key in ids}
    return CaptionSet.of(texts, {key: REFERENCES[key] for key in ids})


def test_a_corpus_metric_and_its_interval_are_those_of_the_selected_captions_alone(table):
    found = summary_of(table, sort="bleu(n=1)", where=HAPPY)
    for system, own in zip(("sat", "oscar"), found["systems"], strict=True):
        report = evaluate(captions_of(system, "13"), "bleu(n=1)")
        interval = report.intervals["bleu(n=1)"]
        assert (own["value"], own["low"], own["high"]) == pytest.approx((interval.value, interval.low, interval.high))
        whole = evaluate(captions_of(system, "1234"), "bleu(n=1)", resampling=Resampling(samples=0))
        assert own["all"] == pytest.approx(whole["bleu(n=1)"].corpus)
    assert found["items"] == 2 and [own["captions"] for own in found["systems"]] == [2, 2]
    # BLEU-1 of oscar over both items is no mean of the items' values.
    means = evaluate(captions_of("oscar", "13"), "bleu(n=1)")["bleu(n=1)"].values.mean()
    assert found["systems"][1]["value"] != pytest.approx(means, abs=0.001)


def test_two_systems_are_tested_as_compare_does(table):
    systems = {name: captions_of(name, "13") for name in SYSTEMS}
    (expected,) = compare(systems, "bleu(n=1)").differences
    found = summary_of(table, sort="bleu(n=1)", where=HAPPY)["test"]
    assert found == {"pair": [0, 1], "better": None, "p": pytest.approx(expected.p), "items": 2}
    assert summary_of(table, sort="rouge", where=HAPPY, system="sat")["test"] is None


def test_a_clear_difference_has_a_winner_and_a_low_p(tmp_path):
    from tests.studio.explore.conftest import write_run

    keys = [f"i{number:02}" for number in range(12)]
    references = {key: ["a brown dog runs on the grass"] for key in keys}
    write_run(tmp_path / "right", {key: references[key][0] for key in keys}, references, "rouge", "right")
    write_run(tmp_path / "wrong", dict.fromkeys(keys, "two men"), references, "rouge", "wrong")
    found = summary_of(open_table([tmp_path / "wrong", tmp_path / "right"]), sort="rouge")
    # All 12 differences have one sign: 2 of 4,096 shuffles are as extreme, p is about 2 / 4096.
    assert found["test"]["better"] == 1 and found["test"]["p"] == pytest.approx(2 / 4096, abs=6e-4)


@pytest.mark.parametrize(
    "address",
    [
        {"where": "rouge < 0.9"},
        {"where": "rating > 1"},
        {"min": "0.1"},
        {"x": "rouge", "y": "rating", "lasso": "0,0;1,0;1,5;0,5"},
    ],
)
def test_captions_that_were_selected_by_scores_are_not_tested(table, address):
    found = summary_of(table, sort="rouge", **address)
    assert found["test"] is None and any("selected by their scores" in note for note in found["notes"])


def test_people_stand_beside_the_metric(table):
    sat, oscar = summary_of(table, sort="rouge", q="dog")["systems"]
    # sat: 5 and 2 for item 1, 1 and 2 for item 2; oscar: one rating of 4.
    assert sat["rating"]["value"] == pytest.approx((3.5 + 1.5) / 2) and sat["rating"]["captions"] == 2
    assert (oscar["rating"]["value"], oscar["rating"]["low"], oscar["rating"]["captions"]) == (4.0, None, 1)
    assert "rating" not in summary_of(table, sort="rating")["systems"][0]


def test_agreement_with_people_is_that_of_scipy(tmp_path):
    import json

    from tests.studio.explore.conftest import write_made_up

    from captious.runs.marker import MetricFacts

    rng = np.random.default_rng(4)
    values, ratings = rng.random(40), rng.integers(1, 6, 40)
    rows = [{"id": f"{at:02}", "candidates": ["a b"], "good": float(value)} for at, value in enumerate(values)]
    run = write_made_up(tmp_path / "run", "run", [MetricFacts("good", "Good")], rows)
    path = tmp_path / "ratings.jsonl"
    said = [{"id": f"{at:02}", "rater": "r", "rating": int(one)} for at, one in enumerate(ratings)]
    path.write_text("".join(json.dumps(row) + "\n" for row in said))
    (own,) = summary_of(open_table([run], path))["systems"]
    assert own["rho"]["value"] == pytest.approx(stats.spearmanr(values, ratings).statistic)
    assert own["rho"]["low"] < own["rho"]["value"] < own["rho"]["high"] and own["rho"]["captions"] == 40
    width = stats.t.ppf(0.975, 39) * values.std(ddof=1) / np.sqrt(40)
    assert own["high"] - own["value"] == pytest.approx(width, rel=0.1)  # the bootstrap draws at random


def test_nothing_selected_is_no_number(table):
    found = summary_of(table, sort="rouge", q="zebra")
    assert found["items"] == 0 and found["test"] is None
    assert [own["value"] for own in found["systems"]] == [None, None]
    assert all(own["all"] is not None for own in found["systems"])


def test_a_run_without_statistics_has_means_and_says_so(runs, tmp_path):
    (outside := tmp_path / "elsewhere").mkdir()
    (rows,) = (runs[1] / "rows").iterdir()
    rows.rename(outside / rows.name)
    rows.symlink_to(outside / rows.name)  # a file behind a link that leads out of the run is not read
    found = summary_of(open_table(runs), sort="bleu(n=1)", where=HAPPY)
    assert found["notes"] == [
        NARROW,
        "BLEU-1 is the mean over items: the run of oscar has no statistics for a corpus value.",
    ]
    values = evaluate(captions_of("oscar", "13"), "bleu(n=1)")["bleu(n=1)"].values
    assert found["systems"][1]["value"] == pytest.approx(values.mean())


def test_many_captions_are_sampled_and_fewer_resamples_drawn_and_both_are_said(table, monkeypatch):
    monkeypatch.setattr(_view_summary, "MOST", 2)
    monkeypatch.setattr(_view_summary, "DRAWS", 10)
    found = summary_of(table, sort="rouge")
    assert found["items"] == 4 and found["test"]["items"] == 2  # items 1 and 3
    assert found["notes"] == [
        "The numbers are of one caption in 2, for there are more than 2.",
        "The intervals are from 200 resamples.",
        NARROW,
    ]
    # Of sat both are their own references.
    assert found["systems"][0]["value"] == pytest.approx(1.0) and found["systems"][0]["captions"] == 4


def test_the_order_of_a_file_changes_no_interval(tmp_path):
    from tests.studio.explore.conftest import write_run

    first = write_run(tmp_path / "a", SYSTEMS["oscar"], name="oscar")
    second = write_run(tmp_path / "b", dict(reversed(SYSTEMS["oscar"].items())), name="oscar")
    assert summary_of(open_table([first]), sort="rouge") == summary_of(open_table([second]), sort="rouge")
