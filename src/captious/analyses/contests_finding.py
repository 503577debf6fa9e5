"""Verdicts on word order and minimal pairs as tables and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from captious._version import __version__
from captious.analyses.contests import ALL, Contests, Verdict
from captious.analyses.finding import Figure, Finding, Grid, between, per_cent, plain_name
from captious.analyses.resampling import Resampling
from captious.report.plot import Mark, intervals


def contests_finding(contests: Contests, found: Sequence[Verdict], how: Resampling) -> Finding:
    """Order tests have a column per perturbation; pair files a row per category."""
    ordered = "negative" not in contests.kinds
    grid = _orders(contests, found, how) if ordered else _pairs(contests, found, how)
    groups = {
        one.metric: [
            Mark(f"{one.label} {'' if category == ALL else category}", *(100 * end for end in (e.value, e.low, e.high)))
            for category, kinds in one.accuracy.items()
            for e in (kinds[ALL],)
        ]
        for one in found
    }
    wrong = max(len(contest.wrong) for contest in contests.contests)
    two = any(len(contest.right) > 1 for contest in contests.contests)
    chance = 100 / 3 if two and wrong == 1 else 100 / (1 + wrong)
    what = "word order" if ordered else "minimal pairs"
    notes = [f"{len(contests.contests):,} captions of {len({contest.image for contest in contests.contests}):,} images"]
    notes += [f"left out: {number:,} captions ({reason})" for reason, number in contests.dropped.items()]
    return Finding(
        f"Compositionality, {what}: {plain_name(contests.name)}",
        "How often the right caption has a higher score than every wrong one, in per cent; a tie is a miss.",
        (grid,),
        (Figure(intervals(groups, "Accuracy", chance), "Accuracy with its interval over images."),),
        tuple(notes),
        (f"compositionality({contests.made})|ci:{how}|captious:{__version__}", *(one.signature for one in found)),
        {
            "captious": __version__,
            "name": contests.name,
            "kinds": contests.kinds,
            "metrics": [asdict(one) for one in found],
            "ci": str(how),
        },
    )


def _orders(contests: Contests, found: Sequence[Verdict], how: Resampling) -> Grid:
    columns = ("metric", "all", f"{how.level:.0%} interval", *contests.kinds, "captions")
    rows = tuple(
        (
            one.label,
            per_cent(one.accuracy[ALL][ALL].value),
            between(one.accuracy[ALL][ALL]),
            *(per_cent(one.accuracy[ALL][kind].value) for kind in contests.kinds),
            f"{one.contests:,}",
        )
        for one in found
    )
    return Grid("The caption against its words in another order", columns, rows)


def _pairs(contests: Contests, found: Sequence[Verdict], how: Resampling) -> Grid:
    level, rows = f"{how.level:.0%} interval", []
    both = any(one.text_only for one in found)
    for one in found:
        for category, kinds in one.accuracy.items():
            row = [one.label, category, per_cent(kinds[ALL].value), between(kinds[ALL])]
            text = one.text_only.get(category)
            row += [per_cent(text.value), between(text)] if text is not None else ["—", "—"] if both else []
            rows.append(tuple(row))
        if len(one.accuracy) > 1:
            mean = [one.label, "mean", per_cent(_mean([kinds[ALL].value for kinds in one.accuracy.values()])), "—"]
            texts = [estimate.value for estimate in one.text_only.values()]
            rows.append((*mean, *([per_cent(_mean(texts)), "—"] if both else [])))
    columns = ["metric", "category", "image, ITT" if both else "accuracy", level]
    return Grid(
        "Right against wrong captions", (*columns, *(["text only, TOT", level] if both else [])), tuple(rows), 2
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")
