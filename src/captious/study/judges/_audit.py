"""``captious.study.audit``: a judge or a metric against people: agreement, preferences, systems in the wrong order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.files import OUTPUT, load_json
from captious._core.types import Floats, Ints
from captious._version import __version__
from captious.errors import InputError
from captious.metrics.registry import find_key
from captious.options import LEVEL, Missing, Resampling
from captious.stats.bootstrap import Estimate
from captious.stats.calibration import choose_curve, fit_line, split_curve
from captious.stats.correlation import pearson
from captious.stats.judging import (
    Decisions,
    JudgeRegressions,
    PositionBias,
    RepeatNoise,
    Residuals,
    compare_decisions,
    compare_residuals,
    position_bias,
    split_variance,
    standardize_twice,
)
from captious.stats.kendall import Kendall
from captious.stats.resampling import bootstrap_weights, holm, sum_clusters
from captious.stats.survey import center_by
from captious.study.few_ratings._auxiliary_columns import EstimateSetting, prepare_columns
from captious.study.few_ratings._caption_table import choose_direction, find_direction, read_caption_table
from captious.study.few_ratings._question_estimate import estimate_question
from captious.study.few_ratings._rated_sample import RatedSample, match_ratings
from captious.study.few_ratings.people_verdict import QuestionVerdict
from captious.study.judges._judge_noise import JudgeNoise
from captious.study.judges.judge_audit import (
    Correction,
    Inversion,
    JudgeAudit,
    JudgeFindings,
    SelfPreference,
    SystemOrder,
    SystemResidual,
)
from captious.study.judgments import Ratings, as_ratings
from captious.text.ngram_tables import count_words

# The effect of length is stated for this many more words.
WORDS = 10
# Fewest rated images: with fewer, a regression on two or three numbers may fit them all.
LEAST_IMAGES = 10
# Fewest judges for generators × judges: two standardized values are always +1 and −1.
MATRIX_JUDGES = 3
ONE_BY_ONE = "The judges saw captions one at a time: a bias for the first or second of two cannot be known."


def audit(
    ratings: Any,
    runs: Any,
    *,
    judges: Sequence[str] | str = (),
    own: Mapping[str, str] | None = None,
    good: float | None = None,
    arena: Any = None,
    noise: Any = None,
    system: str | None = None,
    missing: Missing = "error",
    resampling: Resampling = Resampling(),
    progress: Callable[[str], None] | None = None,
) -> JudgeAudit:
    """Audit judges, or metrics, against people's ratings of some captions.

    Parameters
    ----------
    ratings
        Ratings of captions, as ``captious.study.systems`` takes them.
    runs
        All captions with the values of the judges: runs (a list, or by the name of their system), files with a row per
        caption, or such rows in memory.
    judges
        Which values are judges; all metrics of the runs by default.
    own
        The system that belongs to a judge, such as that of the same company: ``{"fleur": "llava"}``. Self-preference
        is tested if there is another judge.
    good
        The rating from which people's answer counts as yes, for judges that say yes or no (1 or 0).
    arena
        The result or the folder of ``captious arena`` by the same judge, for the bias for the first position.
    noise
        The result or the folder of ``captious judge-noise`` by the same judges, for their repeat noise.
    system
        Column of the system in files of captions.
    missing
        As in ``captious.study.estimate``.
    resampling
        The bootstrap over images of the matrix of generators and judges.
    progress
        Called with the name of each step as it begins.

    >>> rows = [{"id": i, "system": "ab"[i % 2], "m": (7 * i) % 5, "rating": (7 * i) % 5 + i % 2} for i in range(40)]
    >>> found = audit(rows, [{key: row[key] for key in ("id", "system", "m")} for row in rows]).judges[0]
    >>> best = found.systems.residuals[0]
    >>> best.system, round(best.residual.value, 6)  # people put b higher by 1: half of it around the mean
    ('b', 0.5)
    """
    judged = _read_ratings(ratings, missing)
    table = read_caption_table(runs, system)
    if table is None:
        raise InputError("no values of a judge: name runs, or a file with a row per caption")
    left_out: Counter[str] = Counter(judged.dropped)
    sample, judged = match_ratings(judged, table, missing, left_out)
    keys = _choose_judges(sample, judges)
    # The rows say which judges are reversed, and are then collected again with the reversed values.
    sample, totals = _reverse_judges(sample, _AuditRows.of(sample, judged, keys))
    rows = _AuditRows.of(sample, judged, keys)
    if own:
        own = {_choose_judges(sample, [judge])[0]: name for judge, name in own.items()}
    labels = {key: sample.table.labels.get(key, key) for key in rows.judges}
    findings, residuals = [], {}
    for key in rows.judges:
        if progress:
            progress(labels[key])
        finding, judge_residuals = _audit_judge(key, rows, sample, judged, good, missing)
        findings.append(_restore_fifths(finding, totals[key]) if key in totals else finding)
        if judge_residuals is not None:
            residuals[key] = judge_residuals
    position = None if arena is None else _read_position(arena)
    no_position = ""
    if position is None:
        no_position = ONE_BY_ONE if arena is None else f"{arena}: no pair was judged in both orders."
    matrix = None
    if len(rows.judges) >= MATRIX_JUDGES and len(sample.systems) > 1:
        matrix = _compute_matrix(rows, sample, resampling)
    images = len(np.unique(rows.image))
    counts = f"{len(rows.rating):,} rated captions of {images:,} images; {len(sample.system):,} captions in all"
    return JudgeAudit(
        judged.name,
        judged.question,
        counts,
        tuple(findings),
        _sign_audit(judged.name, rows, images, resampling if matrix else None),
        _compare_raters(judged, rows, good) if any(one.decisions for one in findings) else None,
        position,
        no_position,
        _compare_preferences(own or {}, residuals, sample, labels),
        matrix,
        {labels[key]: name for key, name in (own or {}).items() if key in labels},
        (*judged.warnings, *table.remarks),
        (
            *(f"{number:,} left out: {reason}" for reason, number in left_out.items() if number),
            *(_note_reversal(key, sample.table.labels.get(key, key)) for key in totals),
            *_list_omissions(rows, has_matrix=matrix is not None, has_own=bool(own)),
        ),
        {**_split_repeats(sample), **({} if noise is None else _read_noise(noise))},
    )


def _read_ratings(ratings: Any, missing: Missing) -> Ratings:
    judged = as_ratings(ratings, missing=missing)
    if not isinstance(judged, Ratings):
        raise InputError(
            f"{judged.name}: contains pairs, expected ratings of single captions; captious arena has pairs"
        )
    return judged


def _note_reversal(key: str, label: str) -> str:
    """Return the note on a judge whose lower values are better."""
    return (
        f"{label}: lower is better"
        + ("" if find_direction(key) else ", because people rate captions with lower values higher")
        + "; its sign is reversed in slopes, correlations and the order of systems"
    )


def _list_omissions(rows: _AuditRows, has_matrix: bool, has_own: bool) -> list[str]:
    """List what the audit leaves out because values or judges are missing."""
    notes = []
    if rows.dropped:
        notes.append(f"{rows.dropped:,} rated captions have no value of a judge and are left out")
    if has_own and not has_matrix:
        notes.append(f"generators × judges needs at least {MATRIX_JUDGES} judges")
    if has_own and len(rows.judges) < 2:
        notes.append("self-preference needs a second judge: the residual of one judge does not show it")
    return notes


def _sign_audit(name: str, rows: _AuditRows, images: int, resampling: Resampling | None) -> str:
    """Return the signature; ``resampling`` is that of the matrix of generators and judges, if there is one."""
    return "|".join(
        [
            f"audit:{name}",
            f"judges:{'+'.join(rows.judges)}",
            f"captions:{len(rows.rating)}",
            f"images:{images}",
            "jackknife:images",
            "holm",
            *([f"matrix:{resampling.signature('images')}"] if resampling else []),
            f"captious:{__version__}",
        ]
    )


@dataclass(frozen=True, eq=False)
class _AuditRows:
    """Rated captions with a value of every judge, one per row."""

    judges: tuple[str, ...]
    rating: Floats
    """The mean rating of each caption."""
    values: Floats
    """Captions × judges."""
    image: Ints
    system: Ints
    words: Floats | None
    """The number of words of each caption; None if it is not known."""
    row: Ints
    """The rated item of each row."""
    dropped: int
    """Rated captions without a value of a judge."""

    @classmethod
    def of(cls, sample: RatedSample, ratings: Ratings, judges: Sequence[str]) -> _AuditRows:
        """Collect the rows of a sample; raise InputError if nothing can be audited with them."""
        values = np.stack([sample.table.values[key] for key in judges], axis=1)[sample.item]
        rating = ratings.mean[sample.row]
        used = ~np.isnan(values).any(axis=1) & ~np.isnan(rating)
        if used.any() and np.ptp(rating[used]) == 0:
            raise InputError(f"{ratings.name}: all ratings are {rating[used][0]:g}, so there is nothing to audit with")
        words = _count_lengths(sample, ratings)
        for key, column in zip(judges, values[used].T, strict=True):
            if used.sum() < 3 or np.ptp(column) == 0:
                raise InputError(
                    f"{ratings.name}: {key} is the same for all rated captions, so there is nothing to audit"
                )
        item = sample.item[used]
        for key, column in zip(judges, values[used].T, strict=True):
            if len(sample.systems) > 1 and np.allclose(center_by(column[:, None], sample.system[item]), 0):
                raise InputError(
                    f"{ratings.name}: {key} has one value for all captions of a system, expected one per caption"
                )
        if (images := len(np.unique(sample.image[item]))) < LEAST_IMAGES:
            raise InputError(
                f"{ratings.name}: {images} images with ratings and values of the judges, expected at least "
                f"{LEAST_IMAGES}: the regressions of fewer have no error"
            )
        return cls(
            tuple(judges),
            rating[used],
            values[used],
            sample.image[item],
            sample.system[item],
            None if words is None else words[used],
            sample.row[used],
            int((~used).sum()),
        )


def _choose_judges(sample: RatedSample, judges: Sequence[str] | str) -> list[str]:
    """Return the keys of the named judges; without names, all columns except the repeated answers of a judge."""
    names = [judges] if isinstance(judges, str) else list(judges)
    labels = {key: sample.table.labels.get(key, key) for key in sample.table.names_of(None)}
    if not labels:
        raise InputError(f"{sample.table.name}: contains no numbers, expected values of a judge or a metric")
    single = [key for key in labels if not _get_repeated_judge(key)]  # fleur@1, fleur@2, … are answers of fleur
    return list(dict.fromkeys(find_key(name, labels, sample.table.name) for name in names)) or single or list(labels)


def _reverse_judges(sample: RatedSample, rows: _AuditRows) -> tuple[RatedSample, dict[str, float]]:
    """Reverse the judges whose lower values are better: the new value is a total − the old value.

    Return the sample, and the total of each reversed judge. `choose_direction` says which judges are reversed.
    """
    values, totals = dict(sample.table.values), {}
    for key, judge in zip(rows.judges, rows.values.T, strict=True):
        if choose_direction(key, judge, rows.rating, rows.image) < 0:
            # Reversed within its range, so that the values of a judge that says yes or no remain 0 and 1.
            totals[key] = float(np.nanmin(values[key]) + np.nanmax(values[key]))
            values[key] = totals[key] - values[key]
    return replace(sample, table=replace(sample.table, values=values)), totals


def _restore_fifths(findings: JudgeFindings, total: float) -> JudgeFindings:
    """Return the findings of a reversed judge with ``parts``, the fifths of its values, at the original values."""
    parts = tuple(part._replace(x=total - part.x) for part in reversed(findings.parts))
    return replace(findings, parts=parts, turned=True)


def _count_lengths(sample: RatedSample, ratings: Ratings) -> Floats | None:
    """Return the words of each matched caption; None if texts are not known or all have the same number of words."""
    table = sample.table
    counts = table.values.get("words")
    if counts is not None and not np.isnan(counts[sample.item]).any():
        words = counts[sample.item]
    elif all(table.texts[item] is not None for item in sample.item):
        words = np.array(count_words([str(table.texts[item]) for item in sample.item]), dtype=np.float64)
    elif ratings.captions is not None:
        captions = ratings.captions
        texts = [captions[ratings.ids[row]].candidate for row in sample.row]
        words = np.array(count_words(texts, captions.language), dtype=np.float64)
    else:
        return None
    return words if np.ptp(words) > 0 else None


def _audit_judge(
    key: str, rows: _AuditRows, sample: RatedSample, ratings: Ratings, good: float | None, missing: Missing
) -> tuple[JudgeFindings, Residuals | None]:
    """Audit one judge; return the findings, and its residuals by system if all systems are rated."""
    judge = rows.values[:, rows.judges.index(key)]
    regressions = JudgeRegressions(rows.rating, judge, rows.image)
    residuals = regressions.residuals(rows.system) if _has_systems(sample, rows) else None
    length, length_parts = None, []
    # If the judge counts words, captions with equal values have equal lengths, so length has no effect of its own.
    if rows.words is not None and abs(pearson(judge, rows.words)) < 1 - 1e-9:
        length = regressions.covariate(rows.words / WORDS)
        unexplained = rows.rating - fit_line(judge, rows.rating).predict(judge)
        length_parts = split_curve(rows.words, unexplained, rows.image)
    item, column = np.nonzero(~np.isnan(ratings.values[rows.row]))
    tau = Kendall.of(judge, ratings.values[rows.row][item, column], item.astype(np.int64), np.arange(len(judge)))
    # A curve needs three different values.
    has_curvature = len(np.unique(judge)) > 2
    curvature = regressions.curvature() if has_curvature else regressions.slope()._replace(value=0.0)
    return JudgeFindings(
        key,
        sample.table.labels.get(key, key),
        regressions.slope(),
        pearson(judge, rows.rating),
        float(tau(np.ones((len(judge), 1)))["tau_b"][0]),  # each caption has the weight 1
        curvature,
        tuple(split_curve(judge, rows.rating, rows.image)),
        length,
        tuple(length_parts),
        None if residuals is None else _compare_orders(key, rows, residuals, sample, ratings, missing),
        _compare_verdicts(judge, rows, good),
    ), residuals


def _has_systems(sample: RatedSample, rows: _AuditRows) -> bool:
    return len(sample.systems) > 1 and len(np.unique(rows.system)) == len(sample.systems)


def _compare_orders(
    key: str, rows: _AuditRows, residuals: Residuals, sample: RatedSample, ratings: Ratings, missing: Missing
) -> SystemOrder:
    """Compare the order of systems by the judge's means over all captions with people's estimate."""
    values = sample.table.values[key]
    has_value = ~np.isnan(values)
    system = sample.system[has_value]
    # The judge's mean of each system, over all captions; people's is an estimate, because they rated only some.
    means = np.bincount(system, values[has_value]) / np.bincount(system)
    verdict = _estimate_people(key, sample, ratings, missing)
    people = {one.system: one for one in verdict.systems}
    contests = {frozenset((one.first, one.second)): one for one in verdict.contests}
    inversions = []
    for one, other in combinations(range(len(sample.systems)), 2):
        if means[other] > means[one]:
            one, other = other, one
        preferred, rejected = sample.systems[one], sample.systems[other]
        gap = people[preferred].mean.value - people[rejected].mean.value
        # An inversion: the judge puts `preferred` higher, and people put it lower.
        if gap < 0 and means[one] > means[other]:
            p = contests[frozenset((preferred, rejected))].p_holm
            inversions.append(Inversion(preferred, rejected, float(means[one] - means[other]), gap, p))
    inversions.sort(key=lambda pair: pair.p_holm)
    judge = rows.values[:, rows.judges.index(key)]
    scale = ratings.scale or (float(np.nanmin(ratings.values)), float(np.nanmax(ratings.values)))
    rises = pearson(judge, rows.rating) >= 0
    # The curve that `study calibrate` would choose.
    choice = choose_curve(judge, rows.rating, rows.image, scale, rises)
    predicted = np.clip(choice.curve.predict(values[has_value]), *scale)
    calibrated = np.bincount(system, predicted) / np.bincount(system)
    order = sorted(range(len(sample.systems)), key=lambda index: -people[sample.systems[index]].mean.value)
    return SystemOrder(
        tuple(
            SystemResidual(
                sample.systems[index],
                people[sample.systems[index]].mean.value,
                residuals.groups[index],
                residuals.p_holm[index],
            )
            for index in order
        ),
        residuals.p,
        len(sample.systems) * (len(sample.systems) - 1) // 2,
        tuple(inversions),
        sample.systems[int(means.argmax())],
        sample.systems[order[0]],
        tuple(
            Correction(sample.systems[index], float(calibrated[index]), people[sample.systems[index]].mean)
            for index in order
        ),
        choice.form,
    )


def _estimate_people(key: str, sample: RatedSample, ratings: Ratings, missing: Missing) -> QuestionVerdict:
    """Estimate people's means over all captions, with the judge as auxiliary metric unless every caption is rated."""
    setting = EstimateSetting("auto", "common", "world", LEVEL, None, missing, 0, None)
    all_rated = len(np.unique(sample.item)) == len(sample.system)
    columns = [] if all_rated else prepare_columns(sample, [key], setting, [])
    return estimate_question(ratings.question, ratings.values, ratings, sample, columns, setting, [], [])


def _compare_verdicts(judge: Floats, rows: _AuditRows, good: float | None) -> Decisions | None:
    """Compare the decisions of a judge that says yes or no with people's; return None for other judges."""
    if not np.isin(judge, (0, 1)).all():
        return None
    if good is None and not ((rows.rating >= 0) & (rows.rating <= 1)).all():
        return None
    return compare_decisions(judge > 0.5, rows.rating >= (0.5 if good is None else good), rows.image)


def _compare_raters(ratings: Ratings, rows: _AuditRows, good: float | None) -> Decisions | None:
    """Compare the decisions of each person with the mean of the others, as a standard for those of a judge."""
    values, threshold = ratings.values[rows.row], 0.5 if good is None else good
    rated = ~np.isnan(values)
    counts, totals = rated.sum(axis=1, keepdims=True), np.nansum(values, axis=1, keepdims=True)
    item, column = np.nonzero(rated & (counts > 1))
    if not len(item):
        return None
    own = values[item, column]
    others = (totals[item, 0] - own) / (counts[item, 0] - 1)
    return compare_decisions(own >= threshold, others >= threshold, rows.image[item])


def _compare_preferences(
    own: Mapping[str, str], residuals: Mapping[str, Residuals], sample: RatedSample, labels: Mapping[str, str]
) -> tuple[SelfPreference, ...]:
    """Compare each judge's residual of its own system with that of every other judge."""
    comparisons = []
    for judge, system in own.items():
        if system not in sample.systems:
            raise InputError(f"{judge}={system}: no such system, expected one of {', '.join(sample.systems)}")
        for other in residuals:
            if other != judge and judge in residuals:
                gap = compare_residuals(residuals[judge], residuals[other], sample.systems.index(system))
                # A lower residual means that the judge puts the system higher, compared with people.
                comparisons.append((labels[judge], system, labels[other], gap._replace(value=-gap.value)))
    adjusted = holm([gap.p for *_, gap in comparisons])
    return tuple(SelfPreference(*comparison, p) for comparison, p in zip(comparisons, adjusted, strict=True))


def _compute_matrix(rows: _AuditRows, sample: RatedSample, resampling: Resampling) -> dict[tuple[str, str], Estimate]:
    """Standardize the judges' means of generators by judge, then by generator, with intervals over images.

    Rows of ``by_image`` are images: systems × judges sums of values, then the number of captions of each system. A
    resample of images is a vector of weights, and its means are quotients of weighted sums.
    """
    values = np.stack([sample.table.values[key] for key in rows.judges], axis=1)
    has_values = ~np.isnan(values).any(axis=1)
    images, image = np.unique(sample.image[has_values], return_inverse=True)
    number, judges = len(sample.systems), len(rows.judges)
    is_system = (sample.system[has_values][:, None] == np.arange(number)).astype(np.float64)
    sums = (is_system[:, :, None] * values[has_values][:, None, :]).reshape(len(image), -1)
    by_image = sum_clusters(np.hstack([sums, is_system]), image.astype(np.int64), len(images))

    def compute(weights: Floats) -> Floats:
        totals = weights @ by_image
        with np.errstate(invalid="ignore", divide="ignore"):
            means = totals[:, : number * judges].reshape(-1, number, judges) / totals[:, number * judges :, None]
        return standardize_twice(means)

    (value,) = compute(np.ones((1, len(images))))
    blocks = bootstrap_weights(len(images), resampling.samples, resampling.seed)
    draws = np.concatenate([compute(block) for block in blocks]) if resampling.samples else None

    def make_estimate(system: int, judge: int) -> Estimate:
        observed = float(value[system, judge])
        if draws is None:
            return Estimate(observed)
        return Estimate.under(observed, draws[:, system, judge], resampling, len(images))

    return {
        (name, sample.table.labels.get(key, key)): make_estimate(system, judge)
        for system, name in enumerate(sample.systems)
        for judge, key in enumerate(rows.judges)
    }


def _get_repeated_judge(key: str) -> str:
    """Return the judge of a column of repeated answers, such as fleur of fleur@2; an empty text for other columns."""
    name, _, number = key.rpartition("@")
    return name if number.isdecimal() else ""


def _split_repeats(sample: RatedSample) -> dict[str, RepeatNoise]:
    """Split the variance of judges that were asked several times: columns name@1, name@2, …"""
    columns: dict[str, list[Floats]] = {}
    for key, values in sample.table.values.items():
        if name := _get_repeated_judge(key):
            columns.setdefault(name, []).append(values)
    return {name: split_variance(np.stack(repeats, axis=1)) for name, repeats in columns.items() if len(repeats) > 1}


def _read_noise(noise: Any) -> dict[str, RepeatNoise]:
    """Return the repeat noise of judges by label, from `judge_noise` or from its folder."""
    if isinstance(noise, JudgeNoise):
        return {one.label: one.noise for one in noise.judges}
    path = Path(noise) / OUTPUT if Path(noise).is_dir() else Path(noise)
    try:
        return {
            str(one["label"]): RepeatNoise(
                float(one["between"]), float(one["within"]), int(one["captions"]), float(one["repeats"])
            )
            for one in load_json(path)["judges"]
            if one["within"] is not None  # too few answers
        }
    except (KeyError, TypeError, ValueError, OSError):
        raise InputError(f"{path}: expected the output of captious judge-noise") from None


def _read_position(arena: Any) -> PositionBias | None:
    """Compute the bias for the first position from an arena, or from its folder; None if no pair has both orders."""
    if isinstance(arena, (str, Path)):
        path = Path(arena) / OUTPUT if Path(arena).is_dir() else Path(arena)
        try:
            verdicts = [one["verdicts"] for one in load_json(path)["verdicts"]]
        except (KeyError, TypeError, OSError):
            raise InputError(f"{path}: expected the output of captious arena") from None
    else:
        verdicts = [match.verdicts for match in arena.matches]
    in_both_orders = [pair for pair in verdicts if len(pair) == 2]
    results = {"first": 1.0, "tie": 0.5, "second": 0.0}
    if not in_both_orders:
        return None
    # "first" names the same caption in both verdicts of a pair. Only the first request shows it first.
    shown_first, shown_second = (np.array([results[pair[order]] for pair in in_both_orders]) for order in (0, 1))
    return position_bias(shown_first, shown_second)
