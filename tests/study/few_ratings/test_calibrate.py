"""Calibration: numbers of public ratings (spec: computed by prototypes), edge cases, and the file."""

import math

import numpy as np
import pytest

from captious.errors import InputError
from captious.metrics.calibrated import Calibration
from captious.study import RECIPES, Ratings, calibrate, open_recipe
from captious.study.scores import measure, read_scores


@pytest.fixture
def made():
    """Ratings of 120 captions of 60 images by two people, and a metric that goes with them."""
    generator = np.random.default_rng(3)
    quality = generator.normal(size=120)
    people = np.clip(np.round(3 + quality[:, None] + 0.5 * generator.normal(size=(120, 2))), 1, 5)
    ids = [f"{number // 2}/{'ab'[number % 2]}" for number in range(120)]
    ratings = Ratings.of(
        dict(zip(ids, people.tolist(), strict=True)),
        groups=[key.split("/")[0] for key in ids],
        systems=[key.split("/")[1] for key in ids],
        scale=(1, 5),
    )
    metric = quality + 0.3 * generator.normal(size=120)
    return ratings, dict(zip(ids, metric.tolist(), strict=True))


@pytest.mark.shared_data
def test_tifa160_has_the_curves_of_the_prototype(shared_data):
    ratings = open_recipe("tifa160", shared_data / "tifa160")
    scores = read_scores(shared_data / "tifa160" / "items.jsonl.gz", ratings, RECIPES["tifa160"])
    report = calibrate(ratings, scores, metrics=["tifa_mplug-large"])
    one = report.calibration
    assert one.form == "line"
    new = np.array([0.2, 0.5, 0.9])
    assert one.predict(new[:, None]) == pytest.approx(1.62124064 + 2.86116003 * new, abs=1e-8)
    assert one.ceiling == pytest.approx(0.8093, abs=5e-5)
    assert (report.spread, one.errors.rmse) == (pytest.approx(0.9590, abs=1e-4), pytest.approx(0.7751, abs=0.004))
    _, isotonic = report.candidates
    assert isotonic.errors.rmse == pytest.approx(0.7814, abs=0.004)
    all_ten = calibrate(ratings, scores)
    assert all_ten.calibration.errors.r2 == pytest.approx(0.455, abs=0.02)
    assert all_ten.calibration.errors.pearson == pytest.approx(0.675, abs=0.015)
    best = max(candidate.errors.pearson for candidate in all_ten.candidates[1:])
    assert all_ten.calibration.errors.pearson >= best - 0.005
    text_only = calibrate(ratings, [score for score in scores if not score.key.startswith("tifa")])
    assert text_only.calibration.errors.r2 == pytest.approx(0.192, abs=0.02)
    assert text_only.calibration.errors.pearson == pytest.approx(0.438, abs=0.015)
    clip = calibrate(ratings, scores, metrics=["clipscore_vitb32"])
    assert clip.calibration.form == "line"


@pytest.mark.shared_data
def test_isotonic_curves_of_public_ratings(shared_data):
    from captious.stats.calibration import fit_isotonic, fit_line

    ratings = open_recipe("tifa160", shared_data / "tifa160")
    scores = read_scores(shared_data / "tifa160" / "items.jsonl.gz", ratings, RECIPES["tifa160"])
    (mplug,) = [score for score in scores if score.key == "tifa_mplug-large"]
    curve = fit_isotonic(mplug.values, ratings.mean)
    assert len(set(curve.y)) == 15
    assert len(set(mplug.values)) == 44
    assert curve.predict(np.array([0, 0.5, 1])) == pytest.approx([2.47619048, 3.13559322, 4.49446494], abs=1e-8)
    capeval = open_recipe("capeval1k", shared_data / "umic")
    (rouge,) = measure(capeval, "rouge")
    curve = fit_isotonic(rouge.values, capeval.mean, end=0)
    expected = [0.31666667, 0.60747872, 0.82228261]
    assert curve.predict(np.array([0.2, 0.5, 0.8])) == pytest.approx(expected, abs=1e-8)
    expert = open_recipe("flickr8k-expert", shared_data / "flickr8k")
    fleur = read_scores(shared_data / "judges" / "fleur_flickr8k_expert.jsonl", expert, RECIPES["flickr8k-expert"])
    smoothed = next(score for score in fleur if score.key == "smoothed")
    report = calibrate(expert, [smoothed])
    one = report.calibration
    assert one.form == "isotonic" and one.ceiling == pytest.approx(0.8942, abs=5e-5)
    assert one.predict(np.array([[0.1], [0.5], [0.9]])) == pytest.approx([1.39393939, 2.05114638, 3.96969697], abs=1e-8)
    assert one.errors.rmse == pytest.approx(0.4198, abs=0.004)
    line = fit_line(smoothed.values, expert.mean)
    new = np.array([0.1, 0.5, 0.8])
    assert line.predict(new) == pytest.approx(1.09818438 + 2.25600816 * new, abs=1e-8)


@pytest.mark.shared_data
@pytest.mark.usefixtures("compiled_meteor")
def test_capeval1k_chooses_the_forms_of_the_prototype(shared_data):
    ratings = open_recipe("capeval1k", shared_data / "umic")
    forms = {"bleu(n=4)": "isotonic", "rouge": "line", "cider": "isotonic", "meteor": "line"}
    for metric, form in forms.items():
        report = calibrate(ratings, metric)
        assert report.calibration.form == form, metric
        if metric == "rouge":
            new = np.array([0.2, 0.4, 0.7])
            at = report.calibration.predict(new[:, None])
            assert at == pytest.approx(0.31291554 + 0.57101845 * new, abs=1e-8)


@pytest.mark.shared_data
@pytest.mark.usefixtures("compiled_meteor")
def test_msvd_eval_has_its_ceiling_and_forms(shared_data):
    ratings = open_recipe("msvd-eval", shared_data / "msvd_eval")
    report = calibrate(ratings, "cider")
    assert report.calibration.form == "isotonic"
    assert report.calibration.ceiling == pytest.approx(0.9319, abs=5e-5)
    meteor = calibrate(ratings, "meteor")
    assert meteor.calibration.form == "line"
    line, isotonic = meteor.candidates
    assert (line.errors.rmse, isotonic.errors.rmse) == pytest.approx((0.7553, 0.7569), abs=0.01)


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("recipe", "folder", "r2", "pearson"),
    [
        ("capeval1k", "umic", 0.228, 0.478),
        ("msvd-eval", "msvd_eval", 0.414, 0.644),
        ("flickr8k-expert", "flickr8k", 0.689, 0.830),
    ],
)
@pytest.mark.usefixtures("compiled_meteor")
def test_a_ridge_is_as_good_as_the_best_single_metric(recipe, folder, r2, pearson, shared_data):
    """Out of fold, the ridge nested."""
    ratings = open_recipe(recipe, shared_data / folder)
    metrics = "bleu(n=4),rouge,meteor,cider"
    if recipe != "flickr8k-expert":
        pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'captious[spice]'")
        metrics += ",spice"
    scores = measure(ratings, metrics)
    if recipe == "flickr8k-expert":
        fleur = read_scores(shared_data / "judges" / "fleur_flickr8k_expert.jsonl", ratings, RECIPES[recipe])
        scores = [*scores, next(score for score in fleur if score.key == "smoothed")]
    ridge = calibrate(ratings, scores).calibration.errors
    single = max(one.errors.pearson for score in scores for one in calibrate(ratings, [score]).candidates)
    assert ridge.pearson >= single - 0.005
    assert (ridge.r2, ridge.pearson) == (pytest.approx(r2, abs=0.02), pytest.approx(pearson, abs=0.015))


def test_half_of_the_images_tells_what_the_other_half_gets(made):
    ratings, metric = made
    first = np.array([int(group) < 30 for group in ratings.groups])
    fit = calibrate(ratings.take(np.flatnonzero(first)), {"m": metric}).calibration
    other = ratings.take(np.flatnonzero(~first))
    values = np.array([[metric[key]] for key in other.ids])
    inside = np.abs(fit.predict(values) - other.mean) <= fit.half_width
    assert 0.8 < inside.mean() < 0.99
    assert fit.images == 30 and fit.captions == 60 and fit.per_caption == 2


def test_the_order_of_rows_changes_nothing(made):
    ratings, metric = made
    turned = calibrate(ratings.take(np.arange(119, -1, -1)), {"m": metric}).calibration
    plain = calibrate(ratings, {"m": metric}).calibration
    assert turned.ratings_digest == plain.ratings_digest
    assert turned.errors.rmse == pytest.approx(plain.errors.rmse, abs=1e-10)
    assert turned.predict(np.array([[0.3]])) == pytest.approx(plain.predict(np.array([[0.3]])), abs=1e-10)


def test_a_metric_of_which_lower_is_better_is_turned(made):
    from dataclasses import replace

    from captious.study.scores import scores_of

    ratings, metric = made
    (score,) = scores_of({"m": metric}, ratings.ids)
    falling = replace(score, values=np.exp(-4 * score.values), higher_is_better=False)
    rising = replace(score, values=-np.exp(-4 * score.values))
    one, other = calibrate(ratings, [falling]).calibration, calibrate(ratings, [rising]).calibration
    assert one.form == other.form == "isotonic"
    new = np.array([[0.01], [0.5], [3.0], [90.0]])
    assert one.predict(new) == pytest.approx(other.predict(-new), abs=1e-12)
    assert list(one.fit.x) == sorted(one.fit.x)


def test_a_number_of_which_lower_is_better_is_recognized_by_its_ratings(made):
    """Perplexity falls in a curve where people rate higher; no registry knows it."""
    ratings, metric = made
    ppl = {key: float(np.exp(-4 * value)) for key, value in metric.items()}
    one = calibrate(ratings, {"ppl": ppl}).calibration
    other = calibrate(ratings, {"ppl": {key: -value for key, value in ppl.items()}}).calibration
    assert one.form == other.form == "isotonic"
    new = np.array([[0.01], [0.5], [3.0], [90.0]])
    assert one.predict(new) == pytest.approx(other.predict(-new), abs=1e-12)


def test_a_file_has_everything_and_reads_back(made, tmp_path):
    ratings, metric = made
    for columns in ({"m": metric}, {"m": metric, "n": {key: -value for key, value in metric.items()}}):
        one = calibrate(ratings, columns).calibration
        one.save(tmp_path / "file.cal")
        assert Calibration.load(tmp_path / "file.cal") == one
    few = calibrate(ratings.take(np.arange(40)), {"m": metric}).calibration
    few.save(tmp_path / "few.cal")
    assert Calibration.load(tmp_path / "few.cal").half_width == math.inf
    (tmp_path / "file.cal").write_text((tmp_path / "file.cal").read_text().replace('"line"', '"ridge"'))
    (tmp_path / "odd.cal").write_text('{"captious-calibration": 1}')
    (tmp_path / "text.cal").write_text("a dog")
    for name, message in (("odd", "cut short"), ("text", "is no calibration"), ("none", "cannot be read")):
        with pytest.raises(InputError, match=message):
            Calibration.load(tmp_path / f"{name}.cal")


def test_what_cannot_be_calibrated_is_refused(made):
    ratings, metric = made
    with pytest.raises(InputError, match="9 images with ratings and values, expected at least 10"):
        calibrate(ratings.take(np.arange(18)), {"m": metric})
    with pytest.raises(InputError, match="m is 1 for every rated caption; leave it out"):
        calibrate(ratings, {"m": dict.fromkeys(metric, 1.0)})
    with pytest.raises(InputError, match="no metric 'spice'"):
        calibrate(ratings, {"m": metric}, metrics=["spice"])
    with pytest.raises(InputError, match="expected a probability"):
        calibrate(ratings, {"m": metric}, level=1.5)


def test_warnings(made):
    ratings, metric = made
    few = calibrate(ratings.take(np.arange(40)), {"m": metric})
    assert any("20 images are too few for a prediction interval" in line for line in few.warnings)
    partly = {key: (value if number else math.nan) for number, (key, value) in enumerate(metric.items())}
    assert any("1 of 120 rated captions have no value" in line for line in calibrate(ratings, {"m": partly}).warnings)
    noise = dict(zip(metric, np.random.default_rng(0).normal(size=120).tolist(), strict=True))
    assert any("no better than the mean" in line for line in calibrate(ratings, {"m": noise}).warnings)


def test_the_document_answers_first_and_points_to_the_estimate(made):
    ratings, metric = made
    text = " ".join(str(calibrate(ratings, {"m": metric})).split())
    assert text.index("is predicted with an error of") < text.index("Errors out of fold")
    assert "captious study estimate" in text and "90% of captions are rated within ±" in text


def test_an_estimate_refuses_a_metric_that_was_calibrated_with_its_ratings(made, tmp_path, monkeypatch):
    from captious.study import estimate

    monkeypatch.chdir(tmp_path)
    ratings, metric = made
    calibrate(ratings, {"m": metric}).calibration.save("m.cal")
    rows = [
        {"id": key, "image": group, "system": system, "calibrated(file=m.cal)": metric[key]}
        for key, group, system in zip(ratings.ids, ratings.groups, ratings.systems, strict=True)
    ]
    with pytest.raises(InputError, match="was calibrated with these ratings"):
        estimate(ratings, rows)
    assert estimate(ratings.take(np.arange(100)), rows).systems  # other ratings than those of the file
