"""The audit of judges: numbers of public data (spec: computed by prototypes), planted judges, and words."""

import gzip
import json

import numpy as np
import pytest
from lab.planted_judges import Planted, simulate

from captious.errors import InputError
from captious.study import audit, calibrate, open_recipe
from captious.study.scores import measure


@pytest.fixture(scope="module")
def tifa(shared_data):
    with gzip.open(shared_data / "tifa160" / "items.jsonl.gz", "rt") as file:
        items = [json.loads(line) for line in file]
    names = [
        {"id": one["id"], "image": one["text_id"], "system": one["id"][len(one["text_id"]) + 1 :]} for one in items
    ]
    ratings = [{**name, "rating": one["human_scores"]} for name, one in zip(names, items, strict=True)]
    columns = {"mplug": "tifa_mplug-large", "clip": "clipscore_vitb32", "vilt": "tifa_vilt"}
    values = [
        {**name, **{key: one[column] for key, column in columns.items()}}
        for name, one in zip(names, items, strict=True)
    ]
    return ratings, values


@pytest.mark.shared_data
def test_tifa160_has_the_numbers_of_the_prototype(tifa):
    mplug, clip = audit(*tifa, judges=["mplug", "clip"]).judges
    assert (mplug.slope.value, mplug.slope.error) == (
        pytest.approx(0.572284, abs=1e-6),
        pytest.approx(0.036958, abs=1e-6),
    )
    assert mplug.curvature.p == pytest.approx(0.311, abs=5e-4) and clip.curvature.p == pytest.approx(0.00058, abs=5e-6)
    expected = {
        "mplug": (-0.108233, -0.124422, 0.218468, 0.244685, -0.230497),
        "clip": (-0.077006, -0.136881, 0.186815, 0.284438, -0.257365),
    }
    systems = ("mini_dalle", "stable_diffusion_v1_1", "stable_diffusion_v1_5", "stable_diffusion_v2_1", "vq_diffusion")
    for judge in (mplug, clip):
        found = {one.system: one.residual.value for one in judge.systems.residuals}
        assert [found[name] for name in systems] == pytest.approx(expected[judge.key], abs=1e-6)
    assert mplug.systems.p == pytest.approx(4e-15, abs=1e-15) and mplug.systems.compresses
    inversions = {(one.judge_prefers, one.people_prefer): one for one in mplug.systems.inversions}
    wrong = inversions["mini_dalle", "stable_diffusion_v1_5"]
    assert wrong.wrong and wrong.people == pytest.approx(-0.265625) and wrong.p_holm == pytest.approx(0.00143, abs=5e-6)
    assert inversions["vq_diffusion", "stable_diffusion_v1_5"].wrong
    assert not inversions["vq_diffusion", "stable_diffusion_v1_1"].wrong and len(inversions) == 3
    assert mplug.systems.judge_winner == mplug.systems.people_winner == "stable_diffusion_v2_1"


@pytest.mark.shared_data
def test_capeval1k_cider_and_length(shared_data):
    ratings = open_recipe("capeval1k", shared_data / "umic")
    (cider,) = measure(ratings, "cider")
    rows = [
        {"id": key, "image": group, "system": f"block {int(key) // 250}", "rating": rating, "cider": value}
        for key, group, rating, value in zip(ratings.ids, ratings.groups, ratings.mean, cider.values, strict=True)
    ]
    texts = {key: ratings.captions[key].candidate for key in ratings.ids}
    judged = [
        {name: row[name] for name in ("id", "image", "system", "rating")} | {"caption": texts[row["id"]]}
        for row in rows
    ]
    (found,) = audit(judged, [{name: row[name] for name in ("id", "image", "system", "cider")} for row in rows]).judges
    residuals = {one.system: one.residual.value for one in found.systems.residuals}
    assert [residuals[f"block {number}"] for number in range(4)] == pytest.approx(
        [0.007317, -0.082252, 0.049933, 0.025002], abs=1e-6
    )
    assert found.systems.compresses and found.systems.judge_winner == "block 3"
    assert found.systems.people_winner == "block 2"
    (pair,) = [
        one for one in found.systems.inversions if one.judge_prefers == "block 3" and one.people_prefer == "block 2"
    ]
    assert pair.people == pytest.approx(-0.01908, abs=1e-5) and pair.p_holm == pytest.approx(0.205, abs=5e-4)
    assert not pair.wrong
    low, high = found.length.interval()
    assert (found.length.value, low, high) == (
        pytest.approx(0.1016, abs=1e-4),
        pytest.approx(-0.0155, abs=1e-4),
        pytest.approx(0.2187, abs=1e-4),
    )
    assert found.length.p == pytest.approx(0.089, abs=5e-4)


def test_planted_judges_are_found_and_the_honest_one_is_not():
    found = simulate(12, 80, seed=5)
    assert found["long: length"] >= 0.9 and found["first seat: position"] >= 0.9 and found["loyal: own system"] >= 0.6
    assert all(share <= 0.25 for name, share in found.items() if name.startswith("honest"))


@pytest.fixture
def planted():
    rows = Planted(word=0.1).rows(40, np.random.default_rng(1))
    ratings = [{key: row[key] for key in ("id", "image", "system", "rating", "caption")} for row in rows]
    return ratings, [{key: row[key] for key in ("id", "image", "system", "honest", "long", "loyal")} for row in rows]


def test_the_answer_comes_first_in_plain_words(planted):
    text = " ".join(str(audit(*planted, judges="long")).split())
    assert "It overrates long captions: at the same value people rate a caption 10 words longer by" in text
    assert text.index("It overrates long captions") < text.index("Judges against people")
    assert "a bias for the first or second of two cannot be known" in text


def test_the_answer_lists_the_faults(planted):
    ratings, values = planted
    assert audit(ratings, values, judges="honest").answer() == (
        "No fault of honest was found (160 rated captions of 40 images)."
    )
    assert audit(ratings, values, judges="long").answer().startswith("long overrates long captions (160 rated")
    generator = np.random.default_rng(8)
    more = [
        {**row, "noise": generator.normal(), "unfair": row["honest"] + 2 * (row["system"] == "a")} for row in values
    ]
    worse = [
        {**row, "rating": [max(1, one - 1) for one in row["rating"]]} if row["system"] == "a" else row
        for row in ratings
    ]
    found = audit(worse, more, judges=["noise", "unfair", "honest"], own={"unfair": "a"})
    assert found.answer() == (
        "noise does not see what people see and puts 2 pairs of systems in the wrong order. unfair puts 3 pairs of "
        "systems in the wrong order and prefers its own system, a. No fault of honest was found (160 rated captions "
        "of 40 images)."
    )
    # The only interval in points of rating that a sentence states has the size that it states.
    low, high = sorted(-end for end in audit(ratings, values, judges="long").judges[0].length.interval())
    assert f"({low:.2f} to {high:.2f}) lower" in " ".join(str(audit(ratings, values, judges="long")).split())


@pytest.mark.parametrize("sign", [1, -1])
def test_a_judge_of_which_lower_is_better_is_reversed(planted, sign):
    """Perplexity falls where people rate higher; every finding but the judge's own values is that of its negative."""
    ratings, values = planted
    turned = [{**row, "long": 3 - row["long"]} for row in values]
    one, other = audit(ratings, values, judges="long"), audit(ratings, turned, judges="long")
    (mine,), (theirs,) = one.judges, other.judges
    assert theirs.turned and not mine.turned
    for name in ("slope", "length"):
        assert getattr(theirs, name) == pytest.approx(getattr(mine, name), abs=1e-12)
    assert (theirs.pearson, theirs.tau) == pytest.approx((mine.pearson, mine.tau))
    assert theirs.systems.judge_winner == mine.systems.judge_winner and other.answer() == one.answer()
    assert [part.x for part in theirs.parts] == pytest.approx([3 - part.x for part in reversed(mine.parts)])
    assert any(note.startswith("long: lower is better, because people rate") for note in other.notes)


def test_the_order_of_rows_changes_nothing(planted):
    ratings, values = planted
    one, other = audit(ratings, values, judges="long"), audit(ratings[::-1], values[::-1], judges="long")
    assert other.judges[0].length.value == pytest.approx(one.judges[0].length.value, abs=1e-10)
    assert other.judges[0].systems.p == pytest.approx(one.judges[0].systems.p, abs=1e-10)


def test_self_preference_needs_a_second_judge(planted):
    ratings, values = planted
    alone = audit(ratings, values, judges="loyal", own={"loyal": "own"})
    assert alone.preferences == () and any("needs a second judge" in note for note in alone.notes)
    both = audit(ratings, values, judges=["loyal", "honest"], own={"loyal": "own"})
    assert both.preferences[0].difference.value > 0 and both.matrix is None
    three = audit(ratings, values, own={"loyal": "own"})
    cell = three.matrix["own", "loyal"]
    assert cell.low < cell.value < cell.high and cell.value == max(
        three.matrix["own", name].value for name in ("honest", "long", "loyal")
    )
    assert "†" in str(three)
    with pytest.raises(InputError, match="no such system, expected one of a, b, c, own"):
        audit(ratings, values, judges=["loyal", "honest"], own={"loyal": "x"})


def test_a_judge_that_says_yes_or_no_has_kappa_and_a_human_ceiling(planted):
    ratings, values = planted
    binary = [{**row, "yes": float(row["honest"] > 0)} for row in values]
    found = audit(ratings, binary, judges="yes", good=3)
    decisions, people = found.judges[0].decisions, found.people_decisions
    truth = np.array([np.mean(row["rating"]) >= 3 for row in ratings])
    said = np.array([row["yes"] == 1 for row in binary])
    assert decisions.true_yes.value == pytest.approx(said[truth].mean())
    assert decisions.true_no.value == pytest.approx((~said[~truth]).mean())
    assert people.kappa.value > decisions.kappa.value
    assert audit(ratings, binary, judges="yes").judges[0].decisions is None  # ratings of 1 to 5 are not yes or no


def test_position_is_read_from_an_arena(planted, tmp_path):
    verdicts = [
        {"verdicts": both} for both in (["first", "first"], ["first", "second"], ["first", "tie"], [], ["tie", "tie"])
    ]
    (tmp_path / "captious-output.json").write_text(json.dumps({"verdicts": verdicts}))
    found = audit(*planted, judges="honest", arena=tmp_path).position
    assert (found.pairs, found.same, found.first, found.second) == (4, 2, 2, 0)
    (tmp_path / "captious-output.json").write_text("{}")
    with pytest.raises(InputError, match="expected the output of captious arena"):
        audit(*planted, judges="honest", arena=tmp_path)


def test_what_cannot_be_audited_is_refused(planted):
    ratings, values = planted
    with pytest.raises(InputError, match="no metric 'fleur'"):
        audit(ratings, values, judges="fleur")
    with pytest.raises(InputError, match="no values of a judge"):
        audit(ratings, [])
    with pytest.raises(InputError, match="is the same for all rated captions"):
        audit(ratings, [{**row, "flat": 1.0} for row in values], judges="flat")
    with pytest.raises(InputError, match="score has one value for all captions of a system, expected one per caption"):
        audit(ratings, [{**row, "score": float(ord(row["system"][0]))} for row in values], judges="score")
    with pytest.raises(InputError, match="all ratings are 4, so there is nothing to audit with"):
        audit([{**row, "rating": 4} for row in ratings], values)
    pairs = [{"image": "1", "captions": ["a", "b"], "systems": ["x", "y"], "preferred": 0}] * 2
    with pytest.raises(InputError, match="contains pairs"):
        audit(pairs, values)


def test_a_judge_that_counts_words_has_no_preference_for_length_beside_it(planted):
    ratings, values = planted
    texts = {row["id"]: row["caption"] for row in ratings}
    counted = [{**row, "number": 2.0 * len(texts[row["id"]].split())} for row in values]
    (judge,) = audit(ratings, counted, judges="number").judges
    assert judge.length is None and judge.length_parts == ()


def test_some_captions_are_enough(planted):
    ratings, values = planted
    some = audit(ratings[:80], values, judges="honest")
    assert some.counts.startswith("80 rated captions of 20 images; 160 captions in all")
    assert {one.system for one in some.judges[0].systems.corrections} == {"a", "b", "c", "own"}


def test_a_judge_that_was_asked_several_times_has_its_noise_split(planted):
    ratings, values = planted
    generator = np.random.default_rng(6)
    asked = [
        {**row, **{f"j@{number}": row["honest"] + generator.normal(0, 0.5) for number in (1, 2, 3)}} for row in values
    ]
    found = audit(ratings, asked, judges="j@1")
    assert found.repeats["j"].within == pytest.approx(0.25, rel=0.2) and found.repeats["j"].repeats == 3
    assert "Asked again, j changes its score by 0.5" in " ".join(str(found).split())


@pytest.mark.parametrize(("bend", "form"), [(lambda value: value, "line"), (lambda value: value**9, "isotonic")])
def test_the_correction_uses_the_curve_that_calibrate_chooses(bend, form):
    """Ratings rise with the quality; a judge that reports its ninth power needs a curve, not a line."""
    generator = np.random.default_rng(4)
    quality = generator.uniform(1, 5, 200)
    rows = [
        {"id": str(n), "image": str(n // 2), "system": "ab"[n % 2], "rating": value + generator.normal(0, 0.3)}
        for n, value in enumerate(quality)
    ]
    values = [{"id": row["id"], "system": row["system"], "m": bend(q)} for row, q in zip(rows, quality, strict=True)]
    systems = audit(rows, values).judges[0].systems
    assert systems.form == form
    calibration = calibrate(rows, {"m": {value["id"]: value["m"] for value in values}}).calibration
    assert calibration.form == form
    predicted = calibration.predict(np.array([[value["m"]] for value in values]))
    for one in systems.corrections:
        own = np.array([row["system"] == one.system for row in rows])
        assert one.calibrated == pytest.approx(predicted[own].mean(), abs=1e-9)


def test_few_images_are_refused():
    """Three captions and three coefficients fit without an error, whatever the judge is."""
    rows = [{"id": str(number), "rating": 1 + number % 5, "m": (number * 7) % 5 + number / 10} for number in range(9)]
    values = [{"id": row["id"], "m": row["m"]} for row in rows]
    with pytest.raises(InputError, match="9 images with ratings and values of the judges, expected at least 10"):
        audit(rows, values)
