"""``captious.correlate``: a study from ratings and metrics, in whatever form they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from captious._core.types import Ints
from captious.captions import ImageData
from captious.errors import InputError, format_suggestion
from captious.io.join import set_language
from captious.options import SAMPLES, Missing, Resampling, Runtime, get_choices
from captious.render.exports import to_arrow, to_json_value
from captious.runs.filters import match_rows
from captious.study._design import BY_RATER, Pairs, RatingRows, build_design, find_family
from captious.study.judgments import Preferences, Ratings, as_ratings
from captious.study.metric_agreement._contests import TestName
from captious.study.metric_agreement.study import Study
from captious.study.recipes import Recipe, as_recipe
from captious.study.scores import MetricScores, collect_scores

# Permutations for each two metrics: with fewer, Holm's correction could never reach 5 %.
PER_PAIR = 50


def correlate(
    ratings: Any,
    metrics: Any,
    *,
    recipe: Recipe | str | None = None,
    statistic: str | None = None,
    resampling: Resampling = Resampling(),
    test: TestName = "permutation",
    permutations: int | None = None,
    runtime: Runtime | None = None,
    progress: Callable[[str], None] | None = None,
    references: Any = None,
    images: Any = None,
    missing: Missing = "error",
    language: str | None = None,
    where: str | None = None,
) -> Study:
    """Correlate metrics with human ratings, and test which metric agrees better.

    Parameters
    ----------
    ratings
        ``Ratings`` or ``Preferences``, the path of a file with ratings, its rows as a list of dictionaries or as a
        pandas or Arrow table, or ``{id: rating or list of ratings}``.
    metrics
        A report of ``captious.evaluate``; measurements; the folder of a run, or several, each of a system; written
        metrics such as ``"bleu(n=4),cider"`` where the ratings have captions; or ``{name: {id: value}}`` or a frame
        for metrics of other tools. An id is that of the ratings; where they have none, it is IMAGE/SYSTEM or IMAGE#k
        (``Ratings.ids``).
    recipe
        The protocol, or its name: how ratings become rows, which statistic is the headline. By default every rating
        is a row and tau-b the headline.
    statistic
        The headline: ``tau_b``, ``tau_c``, ``pearson``, ``spearman``, ``sample_tau``, ``mean`` (of pairs), …
    resampling
        The bootstrap over images.
    test, permutations
        The test between metrics, ``permutation``, ``bootstrap`` or ``williams``, and the permutations of the first.
    runtime
        Where and how encoders run.
    progress
        Called with the name of each step as it begins.
    references, images
        Of the rated captions, as in ``captious.read``, where ``ratings`` is a file or its rows.
    missing
        Items without a value of a metric, and rows of ratings that cannot be read: ``error``, or ``skip`` to use only
        the others; how many were left out is printed.
    language
        The code of the language of the rated captions, as in ``evaluate``.
    where
        A filter such as ``words > 10 and system != "human"``: only the captions for which it holds, and of pairs those
        of which both captions pass. It may name metrics, ``rating`` (the mean of a caption's), ``raters``, ``system``,
        ``image``, ``caption``, ``words`` and the further columns of the ratings.

    >>> people = {"a": 1, "b": 2, "c": 3, "d": 4}
    >>> study = correlate(people, {"m": {"a": 0.1, "b": 0.3, "c": 0.2, "d": 0.9}}, resampling=Resampling(samples=0))
    >>> round(study.estimates["m"]["tau_b"].value, 6)
    0.666667
    """
    _check_arguments(statistic, resampling, test, permutations, missing, progress)
    protocol = as_recipe(recipe) if recipe is not None else None
    ratings = _set_language(as_ratings(ratings, protocol, references, images, missing), language)
    recipe = protocol or Recipe(ratings.name, ())
    if statistic in BY_RATER:
        recipe = replace(recipe, statistic=statistic)  # type: ignore[arg-type]
    scores = collect_scores(ratings, metrics, missing, progress, runtime)
    if recipe.digits is not None:
        scores = [replace(score, values=np.round(score.values, recipe.digits)) for score in scores]
    if where is not None:
        ratings, scores = _filter_ratings(ratings, scores, where)
    available = np.all([~np.isnan(score.values) for score in scores], axis=0)
    design, used = build_design(ratings, available, recipe)
    scores, constant = _drop_constant(scores, used, ratings.name)
    compared = tuple(replace(score, values=score.values[used]) for score in scores)
    statistic = statistic or _choose_headline(design, recipe)
    find_family(design, statistic)
    _check_test(test, resampling, design, ratings.name)
    pairs = len(scores) * (len(scores) - 1) // 2
    number = permutations if permutations is not None else max(SAMPLES, PER_PAIR * pairs)
    warnings = _list_warnings(ratings, constant, test, number, pairs, 1 - resampling.level)
    warnings += _list_remarks(ratings, design, compared, recipe)
    again = partial(correlate, statistic=statistic, resampling=resampling, test=test, permutations=permutations)
    return Study(
        ratings,
        design,
        compared,
        tuple(ratings.ids[index] for index in used.tolist()),
        statistic,
        resampling,
        test,
        number,
        {score.key: int(np.isnan(score.values).sum()) for score in scores},
        tuple(recipe.protocol(statistic)) if recipe.layouts else (),
        tuple(warnings),
        progress or (lambda step: None),
        _drop_humans(ratings, scores, recipe, again),
        where=where or "",
        digits=recipe.digits,
    )


def _set_language(ratings: Ratings | Preferences, language: str | None) -> Ratings | Preferences:
    """Return the ratings with the language of their captions, if one is named."""
    if language is None or ratings.captions is None:
        return ratings
    changed = replace(ratings, captions=set_language(ratings.captions, language))
    if isinstance(changed, Preferences) and changed.scoring is not None:
        corpora = tuple(set_language(captions, language) for captions in changed.scoring.corpora)
        return replace(changed, scoring=changed.scoring._replace(corpora=corpora))
    return changed


def _choose_headline(design: RatingRows | Pairs, recipe: Recipe) -> str:
    """Choose the statistic that a study is read by, unless another is requested."""
    if isinstance(design, Pairs):
        return "pooled" if "pooled" in design.families else "mean"
    return recipe.statistic


def _list_warnings(
    ratings: Ratings | Preferences, constant: Sequence[str], test: TestName, permutations: int, pairs: int, alpha: float
) -> list[str]:
    """List the warnings of the ratings, the metrics that were left out, and too few permutations for this number of
    pairs.
    """
    warnings = list(ratings.warnings)
    if constant:
        warnings.append(f"left out, the same for every caption: {', '.join(constant)}")
    if test == "permutation" and pairs / (permutations + 1) >= alpha:
        warnings.append(
            f"{permutations} permutations cannot reach {alpha:.2g} after Holm's correction of {pairs} tests"
        )
    return warnings


def _filter_ratings(
    ratings: Ratings | Preferences, scores: Sequence[MetricScores], where: str
) -> tuple[Ratings | Preferences, list[MetricScores]]:
    """Select the captions or pairs that pass a filter; the number left out is noted with the other reasons."""
    passes = match_rows(_build_table(ratings, scores), where, {score.key: score.label for score in scores})
    number = int((~passes).sum())
    if isinstance(ratings, Preferences):
        both = passes.reshape(-1, 2).all(axis=1)
        passes, number = np.repeat(both, 2), int((~both).sum())
    if not passes.any():
        raise InputError(f"{ratings.name}: no caption is left, {where.strip()} is true for none")
    taken = ratings.take(np.flatnonzero(passes))
    reason = {f"not {where.strip()}": number}
    kept = [replace(score, values=score.values[passes]) for score in scores]
    return replace(taken, dropped={**ratings.dropped, **reason}), kept


def _build_table(ratings: Ratings | Preferences, scores: Sequence[MetricScores]) -> Any:
    """Build the table of rated captions that a filter sees."""
    columns: dict[str, Any] = {"id": ratings.ids, **{score.key: to_json_value(score.values) for score in scores}}
    if isinstance(ratings, Ratings):
        columns |= {"rating": to_json_value(ratings.mean), "raters": (~np.isnan(ratings.values)).sum(axis=1)}
        columns |= {"image": ratings.groups, **({"system": ratings.systems} if ratings.systems else {})}
    else:
        columns |= {"image": np.repeat(ratings.groups, 2), "category": np.repeat(ratings.categories, 2)}
    captions = ratings.captions
    if captions is not None:
        places = captions.positions(ratings.ids)
        columns["candidates"] = [list(captions.candidates[place]) for place in places]
        columns["references"] = [list(captions.references[place]) for place in places]
        for name, values in captions.columns.items():
            if not any(isinstance(value, ImageData) for value in values):
                columns[name if name not in columns else f"input.{name}"] = [values[place] for place in places]
    return to_arrow(columns)


def _drop_constant(scores: Sequence[MetricScores], used: Ints, name: str) -> tuple[list[MetricScores], list[str]]:
    """Return the metrics that vary over the items used, and the labels of those left out because they do not.

    A constant metric that the user named is refused; one that came along with others is left out.
    """
    constant = [score for score in scores if np.ptp(score.values[used]) == 0]
    if len(constant) == len(scores) and not any(score.named for score in constant):
        raise InputError(f"{name}: every metric is the same for every caption, so none correlates with people")
    for score in constant:
        if score.named:
            value = score.values[used][0]
            raise InputError(
                f"{score.key} is {value:g} on all {len(used)} items of {name}: a constant correlates with nothing; "
                "leave it out"
            )
    return [score for score in scores if score not in constant], [score.label for score in constant]


def _check_test(test: TestName, resampling: Resampling, design: RatingRows | Pairs, name: str) -> None:
    """Refuse a test between metrics that these ratings do not allow."""
    if test == "bootstrap" and resampling.samples < 1:
        raise InputError("the bootstrap test needs resamples, found samples 0")
    if test == "williams" and (isinstance(design, Pairs) or design.items < 4):
        raise InputError(f"Williams' test needs at least 4 rated items, {name} has {design.items}")


def _drop_humans(
    ratings: Ratings | Preferences, scores: Sequence[MetricScores], recipe: Recipe, again: Callable[..., Study]
) -> Study | None:
    """Run the same study without the captions that people wrote; None if the recipe names no such system."""
    if recipe.humans is None or not isinstance(ratings, Ratings) or recipe.humans not in (ratings.systems or ()):
        return None
    others = np.array([system != recipe.humans for system in ratings.systems or ()])
    return again(
        replace(ratings.take(np.flatnonzero(others)), name=f"{ratings.name} without {recipe.humans}"),
        [replace(score, values=score.values[others]) for score in scores],
        recipe=replace(recipe, humans=None, expected=None),
    )


def _list_remarks(
    ratings: Ratings | Preferences, design: RatingRows | Pairs, scores: Sequence[MetricScores], recipe: Recipe
) -> list[str]:
    """List what a reader should know about the ratings and the metrics."""
    warnings = []
    if isinstance(design, RatingRows) and recipe.expected and len(design.human) != recipe.expected:
        warnings.append(f"{len(design.human):,} rows, the full {recipe.name} has {recipe.expected:,}")
    if isinstance(design, RatingRows) and len(design.systems) == 1:
        warnings.append(f"one system only ({design.systems[0][:40]}): no correlation between systems")
    if ratings.captions is not None and (empty := int(ratings.captions.candidates.blank.sum())):
        warnings.append(f"{empty:,} of {len(ratings.captions):,} rated captions are empty: scored as they are")
    warnings += dict.fromkeys(line for score in scores for line in score.remarks)
    if isinstance(design, RatingRows):
        turned = [score.label for score in scores if not score.higher_is_better]
        warnings += [f"{name}: lower is better, its sign is reversed" for name in turned]
    return warnings


def _check_arguments(
    statistic: Any, resampling: Any, test: Any, permutations: Any, missing: Any, progress: Any
) -> None:
    """Refuse what a type checker would: one line instead of an error from below."""
    if not isinstance(resampling, Resampling):
        raise InputError(f"resampling is of type {type(resampling).__name__}, expected Resampling(samples=1000)")
    for name, value, kind in (("test", test, TestName), ("missing", missing, Missing)):
        if value not in (choices := get_choices(kind)):
            raise InputError(
                f"{name}={value!r}, expected {' or '.join(choices)}{format_suggestion(str(value), choices)}"
            )
    if permutations is not None and (not isinstance(permutations, int) or permutations < 1):
        raise InputError(f"permutations={permutations!r}, expected a whole number of at least 1")
    if statistic is not None and not isinstance(statistic, str):
        raise InputError(f"statistic={statistic!r}, expected a name such as 'tau_b'")
    if progress is not None and not callable(progress):
        raise InputError(f"progress={progress!r}, expected a function that takes the name of a step")
