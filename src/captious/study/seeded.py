"""Metrics that depend on a seed, as one column of scores per seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

from captious.errors import InputError
from captious.metrics.registry import parse_all
from captious.study.rated import Preferences, Ratings
from captious.study.scores import Scores, scores_of


def seeded(
    ratings: Ratings | Preferences,
    metrics: str,
    seeds: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[Scores]:
    """Metrics on the captions that were rated; those with seeds once for each, called ``name@1``, ``name@2``, …

    ``seeds`` sets how many, for the metrics that have any.
    """
    if ratings.captions is None:
        raise InputError(f"{ratings.name}: ratings without captions; give a file of what is added instead")
    found: list[Scores] = []
    wanted = parse_all(metrics)
    having = [metric for metric in wanted if any(field.name == "seeds" for field in fields(metric))]
    if seeds is not None and not having:
        raise InputError(f"--seeds {seeds}: none of {', '.join(map(str, wanted))} depends on a seed")
    for metric in wanted:
        chosen = replace(metric, seeds=seeds) if seeds is not None and metric in having else metric  # type: ignore[call-arg]
        if progress:
            progress(chosen.label)
        measured = chosen.measure(ratings.captions)
        chosen.refuse_empty(measured, ratings.name)
        whole = scores_of([measured], ratings.ids, ratings.name)[0]
        whole = replace(whole, remarks=tuple(chosen.remarks(ratings.captions)))
        by_seed = getattr(chosen, "seed_values", None)
        if by_seed is None:
            found.append(whole)
            continue
        columns = by_seed(measured)[ratings.captions.positions(ratings.ids)]
        found += [
            replace(whole, key=f"{whole.key}@{number}", values=columns[:, number - 1])
            for number in range(1, columns.shape[1] + 1)
        ]
    return found
