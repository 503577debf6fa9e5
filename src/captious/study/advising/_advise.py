"""``captious.study.advise``: the nearest evidence for some captions, what each metric takes, what nobody has tested."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.types import Floats
from captious.captions import CaptionSet
from captious.errors import InputError, MissingExtra, format_suggestion
from captious.io.read import read
from captious.metrics.contract import Metric
from captious.metrics.judges.dry_run import dry_run
from captious.options import Resampling, get_choices, get_runtime
from captious.stats.tests import count_needed, find_detectable
from captious.study.advising._profile import BANDS, CaptionProfile, describe_captions, get_band
from captious.study.advising.advice import (
    KINDS,
    Advice,
    Domain,
    EvidenceSet,
    MetricAdvice,
    Purpose,
    list_missing_inputs,
)
from captious.study.evidence import (
    BASELINES,
    EvidenceRow,
    Kind,
    StressRow,
    find_shipped,
    get_metric_label,
    load_evidence,
    load_stress,
)
from captious.study.metric_agreement.power import simulate_power

# The groups of stress edits that matter for each purpose: what is trained with a metric learns to game it.
MATTERING: Mapping[str, tuple[str, ...]] = {
    "ratings": ("harm", "damage", "harmless", "pairs"),
    "pairs": ("harm", "damage", "harmless", "pairs"),
    "systems": ("harm", "damage", "gaming"),
    "checkpoints": ("harm", "damage", "gaming"),
}
# Largest number of sets of evidence that the advice rests on.
SHOWN = 4
# Items on which a metric is timed.
TIMED = 50
# The number of items is estimated for this difference between two systems, in standard deviations of an item.
SMALL_EFFECT = 0.2
# The number of rated captions is estimated for this difference between two metrics in tau-b.
USUAL_DIFFERENCE = 0.03


def advise(
    captions: Any,
    references: Any = None,
    images: Any = None,
    *,
    purpose: Purpose | None = None,
    domain: Domain | None = None,
    budget: float | None = None,
    evidence: str | Path | None = None,
    stress: str | Path | None = None,
    resampling: Resampling = Resampling(),
    progress: Callable[[str], None] | None = None,
) -> Advice:
    """Say which metric to trust for some captions, from the nearest evidence, and what nobody has tested.

    Parameters
    ----------
    captions
        Captions, as ``captious.read`` takes them; of several systems ``{system: CaptionSet or Path}``.
    references, images
        As in ``captious.read``.
    purpose
        What the metric is for: ``ratings`` (which captions are good), ``pairs`` (which of two is better), ``systems``,
        or ``checkpoints`` of one system. Without it ``systems`` where there are several, else ``ratings``.
    domain
        What is described; without it, evidence on photographs is taken. The language is that of the captions; where
        none was named, it is guessed from the script.
    budget
        What may be spent on chat models. Their cost needs the prices of tokens, ``Judging(prices=(0.15, 0.60))``.
    evidence, stress
        Files of evidence, and of verdicts of stress cards, in place of the package's.
    resampling
        The level of the tests that the number of items is given for.
    progress
        Called with the name of each step as it begins.
    """
    _check_options(purpose, domain, budget)
    step = progress or (lambda name: None)
    sets = _read_sets(captions, references, images)
    profile = describe_captions(sets, domain)
    purpose = purpose or ("systems" if len(sets) > 1 else "ratings")
    advice = advise_profile(profile, purpose, load_evidence(evidence))
    step("what each metric takes")
    usable = [_add_effort(one, sets, budget) for one in advice.usable]
    step("how many items")
    return replace(
        advice,
        usable=tuple(usable),
        items_needed=tuple(_estimate_items_needed(usable, sets, purpose, resampling)),
        stress=tuple(list_failed_edits([one.metric for one in usable], load_stress(stress), purpose)),
    )


def advise_profile(profile: CaptionProfile, purpose: Purpose, rows: Sequence[EvidenceRow]) -> Advice:
    """Return the advice for captions with a profile from evidence only: nothing is timed or planned."""
    near = find_evidence(rows, profile, purpose)
    usable, others = _list_metrics(near, profile)
    return Advice(
        profile,
        purpose,
        near,
        tuple(usable),
        tuple(others),
        tuple(list_untested(near, profile, purpose)),
        (),
        neighbors=() if near else tuple(_find_neighbors(rows, profile, purpose)),
    )


def _find_neighbors(rows: Sequence[EvidenceRow], profile: CaptionProfile, purpose: Purpose) -> Iterator[Advice]:
    """Yield the advice for shorter and longer captions, the shortest first, if there is evidence on them.

    Without references, images are assumed: they are easier to find than references.
    """
    for low, high in BANDS:
        # A number of words within the band; the last band has no upper end.
        neighbor = replace(profile, words=float(min(high, 2 * low)), images=profile.images or not profile.references)
        if profile.words is not None and neighbor.band != profile.band and find_evidence(rows, neighbor, purpose):
            yield advise_profile(neighbor, purpose, rows)


def _check_options(purpose: Any, domain: Any, budget: Any) -> None:
    """Raise InputError for an unknown purpose or domain, or a budget that is no number of at least 0."""
    for name, value, kind in (("purpose", purpose, Purpose), ("domain", domain, Domain)):
        choices = get_choices(kind)
        if value is not None and value not in choices:
            raise InputError(
                f"{name}={value!r}, expected {' or '.join(choices)}{format_suggestion(str(value), choices)}"
            )
    number = isinstance(budget, (int, float)) and not isinstance(budget, bool)
    if budget is not None and not (number and 0 <= budget < float("inf")):
        raise InputError(f"budget={budget!r}, expected a number of at least 0")


def _read_sets(captions: Any, references: Any, images: Any) -> dict[str, CaptionSet]:
    """Read the captions of each system; several systems must have items in common."""
    several = isinstance(captions, Mapping) and all(isinstance(one, (Path, CaptionSet)) for one in captions.values())
    systems = dict(captions) if several else {"captions": captions}
    sets = {
        name: one if isinstance(one, CaptionSet) else read(one, references=references, images=images)
        for name, one in systems.items()
    }
    if empty := next((one for one in sets.values() if not any(map(str.strip, one.candidates.values))), None):
        raise InputError(f"{empty.name}: contains no caption to advise on")
    if not set.intersection(*({*one.ids} for one in sets.values())):
        raise InputError(f"{', '.join(sets)}: the systems have no item in common")
    return sets


def find_evidence(rows: Sequence[EvidenceRow], profile: CaptionProfile, purpose: Purpose) -> tuple[EvidenceSet, ...]:
    """Find the evidence on captions of this length, language and domain, the nearest first.

    Nearest is evidence with a metric that these captions allow, then of the kind that answers the question, then with
    as many references, then with more items. Of several parts of one data set only the nearest is taken.
    """
    groups: dict[tuple[str, Kind], list[EvidenceRow]] = {}
    for row in rows:
        alike = (row.language, row.domain) == (profile.language, profile.domain)
        if alike and row.caption_words is not None and get_band(row.caption_words) == profile.band:
            groups.setdefault((row.dataset, row.kind), []).append(row)
    sets = [EvidenceSet(name, kind, tuple(members)) for (name, kind), members in groups.items()]

    def distance(one: EvidenceSet) -> tuple[Any, ...]:
        first = one.rows[0]
        references = abs(min(first.references or 0, 5) - min(profile.references, 5))
        has_usable_metric = any(
            not list_missing_inputs(find_shipped(metric), profile) for metric in one.ranked if metric not in BASELINES
        )
        return not has_usable_metric, KINDS[purpose].index(one.kind), bool(references), references, -first.items

    nearest_first = sorted(sets, key=distance)
    # The first of the list is entered last and replaces the others of its recipe.
    of_recipe = {(one.rows[0].recipe or one.name, one.kind): one for one in reversed(nearest_first)}
    return tuple(one for one in nearest_first if one in of_recipe.values())[:SHOWN]


def _list_metrics(
    near: Sequence[EvidenceSet], profile: CaptionProfile
) -> tuple[list[MetricAdvice], list[MetricAdvice]]:
    """List the metrics of the evidence in its order: those that these captions allow, and those that need more."""
    metrics = dict.fromkeys(metric for one in near for metric in one.ranked)
    usable: list[MetricAdvice] = []
    others: list[MetricAdvice] = []
    for metric in metrics:
        rows = {one.name: one.ranked[metric] for one in near if metric in one.ranked}
        shipped = find_shipped(metric)
        missing = () if metric in BASELINES else list_missing_inputs(shipped, profile)
        advice = MetricAdvice(
            metric,
            get_metric_label(metric),
            {name: row.ranks for name, row in rows.items()},
            {name: row.value for name, row in rows.items()},
            () if shipped is None else shipped.needs,
            missing,
        )
        (others if missing else usable).append(advice)
    return usable, others


def _add_effort(one: MetricAdvice, sets: Mapping[str, CaptionSet], budget: float | None) -> MetricAdvice:
    """Return the metric with its cost: calls of a chat model by a dry run, or seconds if it needs no model."""
    metric: Metric | None = find_shipped(one.metric)
    if metric is None:
        return one
    if "judge" in metric.needs:
        return _add_calls(one, metric, sets, budget)
    if "model" in metric.needs:
        return one
    captions = next(iter(sets.values()))
    sample = captions.take(range(min(TIMED, len(captions))))
    started = time.perf_counter()
    try:
        metric.measure(sample.take([0]))  # loads what the metric needs, once
        loaded = time.perf_counter()
        metric.measure(sample)
    except (InputError, MissingExtra):  # data that are not installed: the time is not known
        return one
    seconds_per_item = (time.perf_counter() - loaded) / len(sample)
    items = sum(map(len, sets.values()))
    return replace(one, seconds=loaded - started + seconds_per_item * items)


def _add_calls(one: MetricAdvice, metric: Metric, sets: Mapping[str, CaptionSet], budget: float | None) -> MetricAdvice:
    if getattr(metric, "model", None) == "":
        metric = replace(metric, model="unnamed")  # type: ignore[call-arg]
    plan = dry_run(sets, [metric])
    cost = plan.cost(plan.total) if any(get_runtime().judging.prices) else None
    tokens = plan.total.prompt_tokens + plan.total.reply_tokens
    over_budget = budget is not None and cost is not None and cost > budget
    return replace(one, calls=plan.total.calls, tokens=tokens, cost=cost, over_budget=over_budget)


def list_untested(near: Sequence[EvidenceSet], profile: CaptionProfile, purpose: Purpose) -> list[str]:
    """List what matters for these captions and nobody has tested, in plain sentences."""
    length = f"{profile.characters:.0f} characters" if profile.words is None else f"{profile.words:.0f} words"
    if not near:
        about = "" if profile.assumed else f" about {profile.domain}"
        return [f"no evidence for captions of {length} in {profile.language}{about}"]
    sentences = []
    wanted = KINDS[purpose][0]  # the kind of evidence that answers the question
    ranked = [one for one in near if {*one.ranked} - {*BASELINES}]
    if not ranked:
        return ["no metric was computed on such captions; there are only printed numbers"]
    if all(one.kind != wanted for one in ranked):
        found = " and ".join(dict.fromkeys(one.kind for one in ranked))
        printed = ", but printed numbers" if any(one.kind == wanted for one in near) else ""
        sentences.append(f"no evidence on {wanted} of such captions{printed}; the order is from {found}")
    counts = {min(one.rows[0].references or 0, 5) for one in ranked}
    if min(profile.references, 5) not in counts:
        tested = ", ".join(f"{count:.0f}{'+' * (count == 5)}" for count in sorted(counts))
        sentences.append(f"no evidence with {profile.references:.0f} references; there is some with {tested}")
    return sentences


def list_failed_edits(metrics: Sequence[str], rows: Sequence[StressRow], purpose: Purpose) -> list[str]:
    """List the stress edits that matter for the purpose and that a metric fails, one line per metric."""
    lines = []
    for metric, dataset in dict.fromkeys((row.metric, row.dataset) for row in rows if row.metric in metrics):
        failed: dict[str, list[str]] = {}
        for row in rows:
            if (row.metric, row.dataset, row.verdict) == (metric, dataset, "fails") and row.group in MATTERING[purpose]:
                failed.setdefault(row.group, []).append(row.edit)
        if failed:
            text = "; ".join(f"{group}: {', '.join(edits)}" for group, edits in failed.items())
            lines.append(f"{get_metric_label(metric)} fails on {dataset}: {text}")
    return lines


def _estimate_items_needed(
    usable: Sequence[MetricAdvice], sets: Mapping[str, CaptionSet], purpose: Purpose, resampling: Resampling
) -> list[str]:
    """Estimate how many items show a difference.

    For systems the estimate is from their values of the first metric that was timed, for metrics from a simulation.
    """
    if purpose in ("ratings", "pairs"):
        return _estimate_ratings_needed(resampling.level)
    measured = [one for one in usable if one.seconds is not None and one.metric not in BASELINES]
    if not measured:
        return []
    metric: Metric = find_shipped(measured[0].metric)
    values = {name: metric.measure(captions).items for name, captions in sets.items()}
    names = list(values)
    shared = [key for key in values[names[0]] if all(key in one for one in values.values())]
    numbers = np.array([[values[name][key] for key in shared] for name in names], dtype=np.float64)
    numbers = numbers[:, ~np.isnan(numbers).any(axis=0)]
    if numbers.shape[1] < 3:
        return []
    return (
        _describe_paired(metric.label, names, numbers, resampling)
        if len(names) > 1
        else _describe_single(metric.label, numbers[0])
    )


def _describe_paired(metric: str, names: Sequence[str], numbers: Floats, resampling: Resampling) -> list[str]:
    """Describe which difference between the first two systems these items show, and how many items show a small one."""
    gaps = numbers[1] - numbers[0]
    spread, count = float(gaps.std(ddof=1)), len(gaps)
    if spread == 0:
        return [f"{metric}: {names[0]} and {names[1]} differ by {gaps[0]:.4f} on every item"]
    least_error = spread / count**0.5
    least = find_detectable(least_error, resampling.level)
    lines = [
        f"{metric}: with {count} items a difference of {least:.4f} is found four times in five; "
        f"{names[1]} − {names[0]} is {gaps.mean():+.4f}"
    ]
    if abs(gaps.mean()) < least and gaps.mean():
        more = count_needed(float(gaps.mean()), least_error, count, resampling.level)
        lines.append(f"to show a difference of that size four times in five takes about {more:,} items")
    return lines


def _describe_single(metric: str, numbers: Floats) -> list[str]:
    """Estimate how many items show a small difference from another system, whose values are assumed to correlate at
    0.5.
    """
    spread = float(numbers.std(ddof=1))  # √(2 − 2·0.5) = 1 times that of one system
    if spread == 0:
        return []
    needed = int(np.ceil((find_detectable(1.0, 0.95) / SMALL_EFFECT) ** 2))
    return [
        f"{metric} has a standard deviation of {spread:.4f} over your items; to show a difference of {SMALL_EFFECT:g} "
        f"of it ({SMALL_EFFECT * spread:.4f}) between two systems four times in five takes about {needed} items, if "
        "their values correlate at 0.5"
    ]


@lru_cache(maxsize=8)
def _estimate_ratings_needed(level: float) -> list[str]:
    """Estimate how many captions to rate before a difference between two metrics could be shown on your own data."""
    power = simulate_power(USUAL_DIFFERENCE, 500, resampling=Resampling(samples=100, level=level))
    return [
        f"to find a difference of {100 * USUAL_DIFFERENCE:g} of τ × 100 between two metrics on ratings of your own "
        f"four times in five takes about {power.needed:,} captions, as captious study power assumes: {power.assumed}"
    ]
