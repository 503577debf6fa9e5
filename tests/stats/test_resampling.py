"""Intervals and tests against known answers, against sacrebleu, and by simulation."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from lab.toy import make
from sacrebleu import significance
from sacrebleu.metrics import BLEU

import captious
from captious import compare, correlate
from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.bleu import Bleu
from captious.metrics.contract import MeanMetric
from captious.metrics.measurement import Measurement
from captious.metrics.registry import parse
from captious.options import LEVEL, PERMUTATIONS, SAMPLES, SEED, Resampling
from captious.stats.bootstrap import bootstrap
from captious.stats.resampling import (
    Resamples,
    Statistic,
    _sum_moved,
    bootstrap_weights,
    find_percentile_ends,
    holm,
    paired_bootstrap,
    paired_randomization,
    resample_statistics,
    swap_masks,
)


def mean_of(values):
    """A statistic whose value is the mean of the values."""
    return measured(values).statistic


def measured(values):
    """A measurement whose corpus value is the mean of the values."""
    values = np.asarray(values, dtype=float)
    captions = CaptionSet.of(
        {str(index): "x" for index in range(len(values))}, {str(i): ["x"] for i in range(len(values))}
    )
    template = parse("rouge").measure(captions)
    rows = np.stack([values, np.where(np.isnan(values), np.nan, 1.0)], axis=1)
    return Measurement(template.metric, template.ids, rows, template.signature)


def test_default_numbers_of_resampling_are_written_in_one_place():
    """No parameter and no field has such a number of its own as its default."""
    numbers = {"samples": SAMPLES, "shuffles": PERMUTATIONS, "seed": SEED, "level": LEVEL, "confidence": LEVEL}
    repeated = []
    for path in Path(captious.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            pairs = []
            if isinstance(node, ast.arguments):
                pairs = [*zip(node.args[::-1], node.defaults[::-1], strict=False)]
                pairs += zip(node.kwonlyargs, node.kw_defaults, strict=True)
                pairs = [(argument.arg, value) for argument, value in pairs]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                pairs = [(node.target.id, node.value)]
            repeated += [
                f"{path.name}: {name}"
                for name, value in pairs
                if isinstance(value, ast.Constant) and name in numbers and value.value == numbers[name]
            ]
    assert repeated == []


def test_each_resample_draws_as_many_items_as_there_are():
    weights = np.concatenate(list(bootstrap_weights(7, samples=50, seed=1)))
    assert weights.shape == (50, 7)
    assert (weights.sum(axis=1) == 7).all()


def test_resampling_does_not_depend_on_the_size_of_blocks(monkeypatch):
    whole = np.concatenate(list(bootstrap_weights(9, 40, seed=3)))
    masks = np.concatenate(list(swap_masks(9, 40, seed=3)))
    monkeypatch.setattr("captious.stats.resampling.BLOCK", 30)
    monkeypatch.setattr("captious.stats.resampling.DRAWN", 20)
    assert np.array_equal(np.concatenate(list(bootstrap_weights(9, 40, seed=3))), whole)
    assert np.array_equal(np.concatenate(list(swap_masks(9, 40, seed=3))), masks)


def test_weights_count_the_draws_of_numpys_generator():
    draws = np.random.default_rng(3).integers(0, 9, size=(40, 9), dtype=np.int32)
    counts = [[list(row).count(item) for item in range(9)] for row in draws]
    assert np.array_equal(np.concatenate(list(bootstrap_weights(9, 40, seed=3))), counts)


def test_statistics_that_share_columns_are_resampled_as_each_alone():
    rows = np.random.default_rng(0).integers(1, 9, size=(30, 4)).astype(float)
    ratios = [
        Statistic(part, lambda sums: sums[:, 0] / sums[:, 1], part.sum(axis=0), 0.0)
        for part in (rows[:, :2], rows[:, 1:3], rows[:, [0, 3]])
    ]
    together = resample_statistics(ratios, bootstrap_weights(30, 20, seed=1))
    weights = np.concatenate(list(bootstrap_weights(30, 20, seed=1)))
    for values, one in zip(together, ratios, strict=True):
        sums = weights @ one.rows
        assert np.array_equal(values, sums[:, 0] / sums[:, 1])


def test_the_last_digit_of_a_value_does_not_depend_on_how_many_are_resampled():
    values = np.random.default_rng(1).random((9, 100))
    alone = [resample_statistics([mean_of(one)], Resamples(100, 96))[0].tolist() for one in values]
    for number in range(2, 10):
        together = resample_statistics([mean_of(one) for one in values[:number]], Resamples(100, 96))
        assert [one.tolist() for one in together] == alone[:number]


def test_values_in_the_same_resamples_are_computed_once(monkeypatch):
    """Intervals and tests share their draws, which are those of the bootstrap."""
    one, other = mean_of([0.1, 0.5, 0.9, 0.4]), mean_of([0.2, 0.1, 0.3, 0.8])
    expected = resample_statistics([one, other], bootstrap_weights(4, 50, seed=3))
    assert np.allclose(resample_statistics([one], Resamples(4, 50, seed=3)), expected[:1], rtol=1e-15, atol=0)
    drawn = []
    monkeypatch.setattr(
        "captious.stats.resampling.bootstrap_weights", lambda *given: drawn.append(given) or bootstrap_weights(*given)
    )
    assert np.allclose(resample_statistics([one, other], Resamples(4, 50, seed=3)), expected, rtol=1e-15, atol=0)
    assert len(drawn) == 1  # for the other one alone
    assert not np.allclose(resample_statistics([one], Resamples(4, 50, seed=4)), expected[:1])
    resample_statistics([one, other], Resamples(4, 50, seed=3))
    assert len(drawn) == 2


def test_shuffles_of_items_on_which_two_systems_agree_are_counted():
    """The p-value by plain arithmetic, where half of the items have the same values on both sides."""
    generator = np.random.default_rng(5)
    ours, theirs = generator.random(60), generator.random(60)
    ours[::2] = theirs[::2]
    differences = [
        np.where(mask, theirs, ours).mean() - np.where(mask, ours, theirs).mean()
        for mask in np.concatenate(list(swap_masks(60, 300, seed=1)))
    ]
    larger = sum(abs(one) >= abs(ours.mean() - theirs.mean()) for one in differences)
    assert paired_randomization([(mean_of(theirs), mean_of(ours))], swap_masks(60, 300, seed=1)) == [(1 + larger) / 301]


def test_shuffles_move_exact_sums_of_counts_and_of_other_numbers():
    """Counts of several sizes share a product, of which each sum is read: the sums of whole numbers by Python."""
    generator = np.random.default_rng(2)
    sizes = [0, 1, 3, 60, 5000, 500, 2**40, 2**48, 2**53]  # sums of the first six have 59 bits
    counts = [[int(one) for one in generator.integers(-size, size + 1, 70)] for size in sizes]
    fractions = generator.normal(size=(2, 70))
    gap = np.array([counts[4], fractions[0], *counts[:4], fractions[1], *counts[5:]])
    masks = np.concatenate(list(swap_masks(70, 90, seed=1)))
    moved = _sum_moved(gap, swap_masks(70, 90, seed=1))
    for row, own in zip(gap, moved, strict=True):
        expected = [math.fsum(row[mask]) for mask in masks]
        if (row == np.rint(row)).all() and np.abs(row).sum() < 2**53:
            assert own.tolist() == expected
        else:
            assert np.allclose(own, expected, rtol=0, atol=1e-15 * np.abs(row).sum())
    assert _sum_moved(np.array([[-3.0, -4.0], [5.0, 6.0]]), [np.eye(2)]).tolist() == [[-3, -4], [5, 6]]


@pytest.mark.parametrize("number", [1, 2, 3, 40, 999, 1000])
def test_the_ends_of_an_interval_are_numpys_percentiles(number):
    generator = np.random.default_rng(number)
    for level in (0.95, 0.5, 0.9, 0.999, *generator.random(20)):
        draws = generator.normal(size=number).round(int(generator.integers(0, 9)))
        assert find_percentile_ends(draws, level) == tuple(np.percentile(draws, [50 * (1 - level), 50 * (1 + level)]))


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    measured = {"m": mean_of([0.1, 0.5, 0.9, 0.4])}
    assert bootstrap(measured, Resampling(seed=5)) == bootstrap(measured, Resampling(seed=5))
    assert bootstrap(measured, Resampling(seed=5)) != bootstrap(measured, Resampling(seed=6))


def test_the_standard_error_of_a_mean_is_the_textbooks():
    """Bootstrap variance of a mean is exactly s2 / n with s2 the variance of the sample (divisor n)."""
    values = np.random.default_rng(0).normal(size=400)
    interval = bootstrap({"m": mean_of(values)}, Resampling(samples=4000))["m"]
    error = values.std() / math.sqrt(400)
    assert interval.error == pytest.approx(error, rel=0.05)
    assert interval.low == pytest.approx(values.mean() - 1.96 * error, abs=0.15 * error)
    assert interval.high == pytest.approx(values.mean() + 1.96 * error, abs=0.15 * error)


def test_a_resample_of_bleu_is_bleu_of_the_resampled_items():
    """Weighting statistics equals scoring a set in which items are repeated."""
    captions = CaptionSet.of(
        {"1": "a b c", "2": "b c d e", "3": "x"}, {"1": ["a b"], "2": ["b c d", "e"], "3": ["x y"]}
    )
    weights = np.array([[2.0, 0.0, 1.0]])
    value = resample_statistics([Bleu(n=1).measure(captions).statistic], iter([weights]))[0][0]
    repeated = CaptionSet.of({"a": "a b c", "b": "a b c", "c": "x"}, {"a": ["a b"], "b": ["a b"], "c": ["x y"]})
    assert value == pytest.approx(Bleu(n=1).measure(repeated).corpus, abs=1e-12)


def test_unscored_items_add_nothing():
    statistic = mean_of([0.2, 0.4, np.nan])
    assert statistic.total.tolist() == pytest.approx([0.6, 2])
    interval = bootstrap({"m": statistic})["m"]
    assert (interval.low, interval.high) == pytest.approx((0.2, 0.4))


def test_what_cannot_be_resampled_has_no_interval():
    captions = CaptionSet.of({"1": "a b", "2": "b c"}, {"1": ["a"], "2": ["b"]})
    assert set(evaluate(captions, "vocab_size,rouge").intervals) == {"rouge"}
    with pytest.raises(InputError, match="cannot be resampled"):
        parse("vocab_size").measure(captions).statistic  # noqa: B018


def test_a_negative_seed_is_refused():
    with pytest.raises(InputError, match="seed -1, expected"):
        bootstrap({"m": mean_of([1, 2])}, Resampling(seed=-1))


def test_the_level_is_signed_as_it_is():
    captions = CaptionSet.of({"1": "a b", "2": "b c"}, {"1": ["a"], "2": ["b"]})
    report = evaluate(captions, "rouge", resampling=Resampling(level=0.975))
    assert report.signature("rouge").endswith("|ci:bootstrap(1000,seed=12345,97.5%)")


def test_a_level_that_is_no_share_is_refused():
    with pytest.raises(InputError, match="confidence level 95, expected a number between 0 and 1"):
        bootstrap({"m": mean_of([1, 2])}, Resampling(level=95))


def test_holm_by_hand():
    # sorted .005 .01 .03 .04 times 4 3 2 1 = .02 .03 .06 .04, the last raised to .06
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
    assert holm([0.02, float("nan"), 0.01]) == pytest.approx([0.02, float("nan"), 0.02], nan_ok=True)


def test_randomization_by_enumeration():
    """Three items with differences 1, 2, 3: of the 8 sign patterns, |sum| reaches 6 in two, so p tends to 1/4."""
    pair = mean_of([0, 0, 0]), mean_of([1, 2, 3])
    p = paired_randomization([pair], swap_masks(3, 40_000))[0]
    assert p == pytest.approx(0.25, abs=0.01)


def test_two_equal_systems_do_not_differ():
    system = mean_of(np.arange(10))
    assert paired_randomization([(system, system)], swap_masks(10)) == [1.0]
    assert paired_bootstrap([(system, system)], bootstrap_weights(10))[0][0] == 1.0


@pytest.fixture(scope="module")
def systems():
    sample = make(items=120)
    names = ("solid", "sloppy")
    texts = {name: [sample.prediction_of(scene, name).text for scene in sample.scenes()] for name in names}
    return texts, list(sample.references().values())


class SacrebleuBleu(MeanMetric):
    """sacrebleu's BLEU as a score of our kind of statistics, to compare the tests on the same statistics."""

    name = "sacrebleu"

    def score_items(self, captions, state):
        raise NotImplementedError

    def aggregate(self, rows):
        return np.array([BLEU()._compute_score_from_stats([round(x) for x in row]).score for row in rows])


@pytest.fixture(scope="module")
def sacrebleu_pair(systems):
    texts, references = systems
    streams = [list(column) for column in zip(*references, strict=True)]
    pair = []
    for hypotheses in texts.values():
        rows = np.array(BLEU()._extract_corpus_statistics(hypotheses, streams), dtype=float)
        template = measured(np.zeros(len(rows)))
        pair.append(Measurement(SacrebleuBleu(), template.ids, rows, template.signature).statistic)
    return texts, streams, tuple(pair)


def test_randomization_agrees_with_sacrebleu(sacrebleu_pair):
    """The same shuffles (sacrebleu's generator and seed) on the same statistics give the same p-value."""
    texts, streams, pair = sacrebleu_pair
    items, trials = len(streams[0]), 1000
    named = list(texts.items())
    _, results = significance.PairedTest(named, {"BLEU": BLEU()}, streams, "ar", n_samples=trials)()
    stays = np.random.default_rng(12345).integers(2, size=(trials, items), dtype=bool)
    ours = paired_randomization([pair], iter([(~stays).astype(float)]))[0]
    assert ours == pytest.approx(results["BLEU"][1].p_value, abs=1e-12)


def test_bootstrap_agrees_with_sacrebleu_in_its_convention(sacrebleu_pair):
    texts, streams, pair = sacrebleu_pair
    items, trials = len(streams[0]), 500
    _, results = significance.PairedTest(list(texts.items()), {"BLEU": BLEU()}, streams, "bs", n_samples=trials)()
    draws = np.random.default_rng(12345).choice(items, size=(trials, items), replace=True)
    weights = np.stack([np.bincount(row, minlength=items) for row in draws]).astype(float)
    ours = paired_bootstrap([pair], iter([weights]), convention="sacrebleu")[0][0]
    assert ours == pytest.approx(results["BLEU"][1].p_value, abs=1e-12)


def test_the_two_sided_bootstrap_is_about_twice_sacrebleus_for_a_clear_difference():
    generator = np.random.default_rng(4)
    base = generator.normal(size=200)
    pair = mean_of(base), mean_of(base + generator.normal(0.13, 1.0, size=200))
    ours = paired_bootstrap([pair], bootstrap_weights(200, 8000))[0][0]
    theirs = paired_bootstrap([pair], bootstrap_weights(200, 8000), convention="sacrebleu")[0][0]
    assert 1.5 < ours / theirs < 2.5


def test_under_no_difference_the_tests_reject_at_their_level():
    """300 pairs of systems that differ by chance alone: about 5 % of p-values lie below .05 (4 standard errors)."""
    generator = np.random.default_rng(7)
    pairs = []
    for _ in range(300):
        base = generator.normal(size=40)
        pairs.append((mean_of(base), mean_of(base + generator.normal(size=40))))
    tolerance = 4 * math.sqrt(0.05 * 0.95 / 300)
    rejected = np.mean(np.array(paired_randomization(pairs, swap_masks(40, 999))) < 0.05)
    assert abs(rejected - 0.05) < tolerance
    bootstrapped = np.array([p for p, _, _ in paired_bootstrap(pairs, bootstrap_weights(40, 999))])
    assert abs(np.mean(bootstrapped < 0.05) - 0.05) < tolerance + 0.02  # small samples make the bootstrap a little bold


def test_t_intervals_cover_few_items_where_percentiles_are_too_narrow():
    """Samples of 12 from a known distribution: the exact t interval covers its mean 95 times of 100."""
    generator, hits = np.random.default_rng(5), {"percentile": 0, "t": 0}
    for number in range(400):
        rows = np.stack([generator.normal(size=12), np.ones(12)], axis=1)
        mean = Statistic(rows, lambda sums: sums[:, 0] / sums[:, 1], rows.sum(axis=0), float(rows[:, 0].mean()))
        for interval in hits:
            one = bootstrap({"mean": mean}, Resampling(400, seed=number, interval=interval))["mean"]
            hits[interval] += one.low <= 0 <= one.high
    assert 0.87 < hits["percentile"] / 400 < 0.93 < hits["t"] / 400 < 0.97


def test_a_t_interval_is_that_of_the_textbook():
    """s / √n · t, as scipy has it, with s from the data; the bootstrap's standard error is random by about 1 %."""
    data = np.array([3.1, 2.7, 4.4, 3.9, 2.2, 3.3, 4.1, 2.9])
    rows = np.stack([data, np.ones(8)], axis=1)
    mean = Statistic(rows, lambda sums: sums[:, 0] / sums[:, 1], rows.sum(axis=0), float(data.mean()))
    one = bootstrap({"mean": mean}, Resampling(20_000, interval="t"))["mean"]
    low, high = scipy.stats.t.interval(0.95, 7, data.mean(), data.std(ddof=1) / np.sqrt(8))
    assert (one.low, one.high) == (pytest.approx(low, abs=0.02), pytest.approx(high, abs=0.02))
    assert Resampling(interval="t").signature() == "bootstrap(1000,seed=12345,95%,t)"
    with pytest.raises(InputError, match="interval='bca', expected one of percentile, t"):
        Resampling(interval="bca")


def test_a_difference_of_few_items_has_a_t_interval_too():
    generator = np.random.default_rng(3)
    sides = []
    for shift in (0.0, 0.3):
        rows = np.stack([generator.normal(shift, size=12), np.ones(12)], axis=1)
        sides.append(Statistic(rows, lambda sums: sums[:, 0] / sums[:, 1], rows.sum(axis=0), float(rows[:, 0].mean())))
    (_, low, high), (_, wide_low, wide_high) = (
        paired_bootstrap([tuple(sides)], bootstrap_weights(12), interval=interval)[0]
        for interval in ("percentile", "t")
    )
    difference = sides[1].value - sides[0].value
    assert wide_low < low < difference < high < wide_high
    assert wide_high - difference == pytest.approx(difference - wide_low)


def test_reports_comparisons_and_studies_say_that_intervals_of_few_items_are_too_narrow():
    captions = {str(number): ["a red dog", "a cat", "two birds fly"][number % 3] for number in range(60)}
    people = {key: ["a red dog runs"] for key in captions}
    few = {key: captions[key] for key in list(captions)[:49]}
    line = "intervals of fewer than 50 items are too narrow; interval=t makes them wider"

    def notes(candidates, resampling=Resampling(20)):
        return evaluate(candidates, "rouge", resampling=resampling, references=people, missing="skip").document().notes

    assert line in notes(few)
    assert line not in notes(captions) and line not in notes(few, Resampling(20, interval="t"))
    assert line not in notes(few, Resampling(0))
    compared = compare({"a": few, "b": few}, "rouge", resampling=Resampling(20), references=people, missing="skip")
    assert line in compared.document().notes
    ratings = {key: float(int(key) % 5) for key in few}
    study = correlate(ratings, {"m": {key: float(int(key) % 7) for key in few}}, resampling=Resampling(20))
    assert line.replace("items", "images") in study.document().notes


def test_a_mean_that_few_items_move_has_a_note_whatever_the_interval():
    """60 captions, of which 3 repeat a pair of words: two or more values, 57 of them 1."""
    captions = {str(number): "a dog runs" if number >= 3 else "a dog a dog" for number in range(60)}
    for interval in ("percentile", "t"):
        report = evaluate(captions, "rep_diversity", resampling=Resampling(20, interval=interval))
        assert report.document().notes[1:] == [
            "rep_diversity: only 3 of 60 items differ from the rest; below 50 the interval is too narrow"
        ]
    same = evaluate(dict.fromkeys(captions, "a dog runs"), "rep_diversity", resampling=Resampling(20))
    assert same.document().notes[1:] == []
