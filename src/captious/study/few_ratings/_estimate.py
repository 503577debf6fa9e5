"""``captious.study.estimate``: what people would say of all captions, from the ratings of some."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.types import Floats
from captious._version import __version__
from captious.errors import InputError, format_suggestion
from captious.metrics.calibrated import Calibrated
from captious.metrics.registry import parse
from captious.options import LEVEL, SEED, Missing, Reading, get_choices
from captious.stats.auxiliary import Form
from captious.stats.looks import anytime_factor, look_boundaries, look_factor
from captious.stats.ranks import rank_signature
from captious.stats.survey import Slopes, Target
from captious.study._statistic_columns import sign_left_out
from captious.study.few_ratings._auxiliary_columns import AuxiliaryColumn, EstimateSetting, prepare_columns
from captious.study.few_ratings._caption_table import CaptionTable, read_caption_table
from captious.study.few_ratings._question_estimate import estimate_question
from captious.study.few_ratings._rated_sample import RatedSample, match_pairs, match_ratings
from captious.study.few_ratings._sample_warnings import warn_drawing
from captious.study.few_ratings.people_verdict import QuestionVerdict, Verdict
from captious.study.judgments import Preferences, Ratings, as_ratings, count_unused_answers, list_questions
from captious.study.load import load_ratings
from captious.study.recipes import find_recipe_for
from captious.study.study_options import StudyInput


def estimate(
    ratings: Any,
    runs: Any = (),
    *,
    using: Sequence[str] | str | None = None,
    form: Form = "auto",
    slopes: Slopes = "common",
    target: Target = "world",
    share: float | None = None,
    level: float = LEVEL,
    anytime: bool = False,
    planned: int | None = None,
    looked: Sequence[int] = (),
    precision: float | None = None,
    difference: float | None = None,
    probability: str | None = None,
    stratum: str | None = None,
    system: str | None = None,
    missing: Missing = "error",
    seed: int = SEED,
) -> Verdict:
    """Estimate what people would say of all captions of each system, from the ratings of some.

    Ratings are regressed on *auxiliary metrics*, which are known for every caption: a metric that people agree with
    makes the intervals narrower, and one that they do not agree with changes nothing. The interval is valid for any
    metric, on any scale, of either sign. Standard errors come from a jackknife, which leaves out one image at a time
    and, if at least three raters are named, one rater at a time.

    Parameters
    ----------
    ratings
        What ``captious.study.systems`` takes: a file, the folder of ``captious studio export``, rows, or ``Ratings``.
    runs
        All captions with their metrics: runs (a list, or by the name of their system), files with a row per caption,
        or such rows in memory: ``{"id": …, "image": …, "system": …, "spice": 0.3}``. Without any, the rated captions
        are all there are.
    using
        Names of the auxiliary metrics; by default all metrics of the runs. Name them before you look at the ratings:
        choosing the one that fits best makes intervals too narrow. Three or more become one prediction (cross-fitted
        ridge). An empty list uses none.
    form
        ``values`` (clipped at their 1st and 99th percentile), ``ranks``, or ``monotone`` (cross-fitted curve); ``auto``
        takes ranks for very skewed values.
    slopes
        ``common`` to all systems, or each system's ``own``.
    target
        What the interval is for: ``world``, images like these; ``items``, exactly these captions; ``ratings``, what
        these raters would say of these captions.
    share
        Estimate the share of captions that are rated this or more.
    level
        The confidence level.
    anytime, planned, looked
        For results that are looked at repeatedly: intervals that are valid at every look; or, with the ``planned``
        number of rated images and the numbers at the earlier looks, intervals of the current look.
    precision, difference
        Add the number of ratings for means, or differences, ± this.
    probability, stratum
        Columns of the ratings with the chance and the stratum of each caption's drawing, if their names differ.
    system
        Column of the system in files of captions.
    missing
        Rated captions that are not among ``runs``, systems without ratings: ``error``, or ``skip`` to leave them out.
    seed
        Random seed of the folds of a prediction from several metrics. Nothing else is random.

    >>> captions = [{"id": i, "system": "a", "length": x} for i, x in enumerate([1, 2, 3, 4, 5, 9])]
    >>> ratings = [{"id": i, "system": "a", "rating": y} for i, y in enumerate([2, 3, 3, 5])]
    >>> estimate(ratings, captions).answer()  # four ratings are too few for a slope
    'a: people would rate it 3.25 (1.25–5.25).'
    """
    setting = _check_options(form, slopes, target, share, level, anytime, planned, looked, missing, seed)
    _check_half_widths(precision, difference)
    judged = _read_judgments(ratings, probability, stratum, missing)
    table = read_caption_table(runs, system)
    names = _list_names(using, table)
    warnings = [*judged.warnings, *(() if table is None else table.remarks)]
    remarks: list[str] = []
    left_out = Counter(count_unused_answers(judged))
    sample, answers_of, questions = _match_answers(judged, table, share, missing, left_out)
    warnings += warn_drawing(answers_of, table is not None, remarks)
    columns = prepare_columns(sample, names, setting, remarks)
    _refuse_own_calibration([one.name for one in columns], answers_of)
    results = [
        estimate_question(question, values, answers_of, sample, columns, setting, warnings, remarks)
        for question, values in questions.items()
        if not np.isnan(values).all()
    ]
    if not results:
        raise InputError(f"{judged.name}: no ratings")
    warnings += _warn_overrun(sample, planned)
    first = results[0]
    facts = _count_facts(sample, questions, first)
    looks = "looks:anytime" if anytime else f"looks:{','.join(map(str, looked))}/{planned}" if planned else ""
    return Verdict(
        judged.name,
        tuple(results),
        tuple(first.slopes.get("using", ())),
        target,
        level,
        ", ".join(f"{number:,} {key}" for key, number in facts.items()),
        _sign_estimate(judged.name, facts, first, columns, setting, looks, left_out),
        _describe_look(first, anytime, planned, looked),
        precision,
        difference,
        tuple(dict.fromkeys(warnings)),
        tuple(dict.fromkeys(remarks)),
        {reason: number for reason, number in left_out.items() if number},
    )


def _check_half_widths(precision: float | None, difference: float | None) -> None:
    """Raise InputError if a requested half width of an interval is not above 0."""
    for name, value in (("precision", precision), ("difference", difference)):
        if value is not None and not 0 < value < math.inf:
            raise InputError(f"{name}={value!r}, expected a number above 0")


def _list_names(using: Sequence[str] | str | None, table: CaptionTable | None) -> Sequence[str] | None:
    """Return the requested names of auxiliary metrics, None for all of the table, and none without a table."""
    names = [using] if isinstance(using, str) else using
    if table is not None:
        return names
    if names:
        raise InputError(f"using={','.join(names)}: no captions with these numbers; name a run, or a file of numbers")
    return ()


def _read_judgments(
    ratings: Any, probability: str | None, stratum: str | None, missing: Missing
) -> Ratings | Preferences:
    """Read ratings or pairs from a file, a folder, or anything that `as_ratings` takes."""
    if isinstance(ratings, (str, Path)):
        study_input = StudyInput(find_recipe_for(str(ratings)))
        reading = Reading(missing=missing)
        ratings, _ = load_ratings(study_input, reading, probability=probability, stratum=stratum)
    return as_ratings(ratings, missing=missing)


def _match_answers(
    judged: Ratings | Preferences,
    table: CaptionTable | None,
    share: float | None,
    missing: Missing,
    left_out: Counter[str],
) -> tuple[RatedSample, Ratings, dict[str, Floats]]:
    """Match judgments with captions; return the sample, its answers, and their values by question."""
    if isinstance(judged, Ratings):
        sample, answers = match_ratings(judged, table, missing, left_out)
        return sample, answers, list_questions(judged)
    if share is not None:
        raise InputError(f"share={share:g}: {judged.name} has pairs, expected ratings")
    sample, answers = match_pairs(judged, table, left_out)
    return sample, answers, {"win rate": answers.values}


def _warn_overrun(sample: RatedSample, planned: int | None) -> list[str]:
    """Return a warning if more images are rated than the looks were planned for."""
    rated_images = len(np.unique(sample.image[sample.item]))
    if planned is None or rated_images <= planned:
        return []
    return [
        f"{rated_images} images are rated, and {planned} were planned: the error of all looks together is no "
        "longer controlled"
    ]


def _sign_estimate(
    name: str,
    facts: dict[str, int],
    first: QuestionVerdict,
    columns: Sequence[AuxiliaryColumn],
    setting: EstimateSetting,
    looks: str,
    left_out: Counter[str],
) -> str:
    """Return the signature: the counts, the auxiliary metrics in use, and every option that can change a number."""
    used = tuple(first.slopes.get("using", ()))
    metrics = "+".join(f"{column.label}({column.form})" for column in columns if column.label in used) or "none"
    return "|".join(
        [
            f"estimate:{name}",
            *(f"{key.replace(' ', '_')}:{number}" for key, number in facts.items()),
            *([f"share:{setting.share:g}"] if setting.share is not None else []),
            *([f"scale:{first.scale[0]:g}-{first.scale[1]:g}"] if first.scale else []),
            f"using:{metrics}",
            *([f"method:{first.slopes['method']}"] if used else []),
            f"slopes:{setting.slopes}",
            f"for:{setting.target}",
            f"jackknife:{'images+raters' if first.parts and first.parts.raters else 'images'}",
            *([f"seed:{setting.seed}"] if first.slopes.get("method") == "ridge" else []),
            *sign_left_out(left_out),
            *([looks] if looks else []),
            "holm",
            rank_signature(setting.level),
            f"captious:{__version__}",
        ]
    )


def _describe_look(first: QuestionVerdict, anytime: bool, planned: int | None, looked: Sequence[int]) -> str:
    """Describe for which looks at the results the intervals are valid; empty for a single look."""
    if planned:
        images = first.parts.images if first.parts else 0
        return f"look {len(looked) + 1}, after {images} of {planned} planned images"
    return "valid at every look (confidence sequence)" if anytime else ""


def _refuse_own_calibration(names: Sequence[str], ratings: Ratings) -> None:
    """Raise InputError for a metric that was calibrated with these ratings, because its values depend on them."""
    for name in names:
        if not name.startswith("calibrated("):
            continue
        metric = parse(name)
        assert isinstance(metric, Calibrated)
        if Path(metric.file).expanduser().is_file() and metric.calibration.ratings_digest == ratings.digest:
            raise InputError(f"{name} was calibrated with these ratings; use the metrics in it instead: using=...")


def _check_options(
    form: Form,
    slopes: Slopes,
    target: Target,
    share: float | None,
    level: float,
    anytime: bool,
    planned: int | None,
    looked: Sequence[int],
    missing: Missing,
    seed: int,
) -> EstimateSetting:
    """Raise InputError for options that are invalid or exclude each other; return them as one value."""
    for name, value, kind in (("form", form, Form), ("slopes", slopes, Slopes), ("for", target, Target)):
        if value not in (choices := get_choices(kind)):
            raise InputError(
                f"{name}={value!r}, expected {' or '.join(choices)}{format_suggestion(str(value), choices)}"
            )
    if not 0 < level < 1:
        raise InputError(f"confidence level {level}, expected a number between 0 and 1, such as level={LEVEL}")
    if anytime and planned:
        raise InputError("anytime=True as well as planned=..., expected one of them")
    if looked and not planned:
        raise InputError("looked=... needs planned=..., the number of rated images at the end of the study")
    if planned and not all(one < two for one, two in pairwise((0, *looked, planned))):
        numbers = ",".join(map(str, looked))
        raise InputError(f"looked={numbers}: expected increasing numbers of rated images below planned={planned}")
    factor: Callable[[int, float, float], float] | None = None
    if anytime:

        def factor(images: int, degrees: float, level: float) -> float:
            return anytime_factor(images, level)

    elif planned:

        def factor(images: int, degrees: float, level: float) -> float:
            if looked and images <= looked[-1]:
                raise InputError(
                    f"looked={','.join(map(str, looked))}: only {images} images are rated now, expected numbers of "
                    "rated images at earlier looks"
                )
            times = [number / planned for number in (*looked, min(images, planned))]
            return look_factor(look_boundaries(times, level)[-1], degrees)

    return EstimateSetting(form, slopes, target, level, share, missing, seed, factor)


def _count_facts(sample: RatedSample, questions: dict[str, Floats], first: QuestionVerdict) -> dict[str, int]:
    """Count the images, captions and ratings behind the result."""
    rated = len(np.unique(sample.item))
    raters = first.parts.raters if first.parts is not None else 0
    return {
        "images": len(np.unique(sample.image)),
        "rated images": len(np.unique(sample.image[sample.item])),
        "pairs" if sample.pairs else "captions": len(sample.system),
        "rated": rated,
        "ratings": first.ratings,
        **({"raters": raters} if raters else {}),
    }
