"""Signs that a policy games its reward, or collapses: each check of a training is compared with the first two.

============  =============================================================================================
``falls``     the reward has risen, or fallen, and a metric that is not rewarded has fallen by 20 % or more
``distinct``  the share of distinct bigrams over all captions has halved
``equal``     more than a quarter of the captions are also given to another prompt, and twice as many as at the start
``repeats``   more than a fifth of a caption's bigrams are repetitions, and twice as many as at the start
``length``    captions are 1.5 times as long as at the start, or as short
``ranks``     the rank correlation of reward and metric among the captions of a prompt has halved
============  =============================================================================================

A policy that has converged gives equal captions to one prompt, which is no sign: ``distinct`` counts them once. Changes
of means count if a bootstrap over prompts rejects "no change" at 5 %, after Holm's correction if several
metrics are tested; if the prompts are the same each time, each is compared with itself. Two signs at one check are an
alarm. What it means depends on the reward: if it has risen, the policy may be gaming it; if it has fallen too, the
policy is collapsing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal

import numpy as np

from captious._core.languages import Scripts
from captious._core.types import Floats, Ints
from captious.options import Resampling
from captious.stats import Shift, holm, mean_shift, spearman

SignName = Literal["falls", "distinct", "equal", "repeats", "length", "ranks"]
# Number of checks that form the start, and number of the first check that is judged.
START, FIRST = 2, 4
# Number of signs that raise an alarm.
NEEDED = 2
Trend = Literal["rose", "fell", "same"]
# Meaning of an alarm if the reward rose, and if it fell.
MEANINGS: dict[Trend, str] = {"rose": "the policy may be gaming its reward", "fell": "the policy is collapsing"}
ALPHA = 0.05
# Smallest relative fall; shares of equal captions and of repeated bigrams; ratio of lengths; smallest correlation
# that may halve.
FALL, EQUAL, REPEATED, GROWTH, RANKS = 0.2, 0.25, 0.2, 1.5, 0.2


@dataclass(frozen=True)
class StepCheck:
    """The captions of one step: one number per prompt, in the order of first occurrence."""

    step: int
    prompts: tuple[str, ...]
    reward: Floats
    watched: Mapping[str, Floats]
    """Values by written form, higher is better: a metric for which lower is better is negated."""
    ranks: Mapping[str, Floats]
    """Spearman's correlation of reward and metric among the captions of a prompt."""
    words: Floats
    """Words of a caption; in a script without spaces, its characters."""
    repeats: Floats
    """The share of repeated bigrams in a caption."""
    distinct: float
    """The share of distinct bigrams; equal captions of one prompt count once."""
    equal: float
    """The share of captions that another prompt has too."""

    @classmethod
    def of(
        cls,
        step: int,
        prompts: Sequence[str],
        texts: Sequence[str],
        reward: Floats,
        watched: Mapping[str, Floats],
    ) -> StepCheck:
        """Return the check of captions with their prompts, rewards and values."""
        numbers = {prompt: number for number, prompt in enumerate(dict.fromkeys(prompts))}
        owners = np.array([numbers[prompt] for prompt in prompts], dtype=np.int64)
        groups = [np.flatnonzero(owners == number) for number in range(len(numbers))]
        by_character = bool(Scripts.of(texts).unsplit)  # without spaces, characters are counted instead of words
        words = [list("".join(text.split())) if by_character else text.lower().split() for text in texts]
        bigrams = [list(pairwise(one)) for one in words]
        repeats = np.array([1 - len(set(one)) / len(one) if one else np.nan for one in bigrams])
        pairs = list(chain.from_iterable(dict(zip(zip(prompts, texts, strict=True), bigrams, strict=True)).values()))
        prompts_of = Counter(text for _, text in set(zip(prompts, texts, strict=True)))
        return cls(
            step,
            tuple(numbers),
            _average_groups(reward, groups),
            {key: _average_groups(values, groups) for key, values in watched.items()},
            {
                key: np.array([_compute_spearman(reward[one], values[one]) for one in groups])
                for key, values in watched.items()
            },
            _average_groups(np.array([len(one) for one in words], dtype=np.float64), groups),
            _average_groups(repeats, groups),
            len(set(pairs)) / len(pairs) if pairs else 0.0,
            sum(prompts_of[text] > 1 for text in texts) / max(len(texts), 1),
        )


@dataclass(frozen=True)
class Sign:
    """One sign at one check."""

    name: SignName
    text: str
    """The change, in words and numbers."""


@dataclass(frozen=True)
class DriftVerdict:
    """The result of a check compared with the start."""

    step: int
    signs: tuple[Sign, ...]
    reward: Shift | None = None
    """The reward against the start; None at the first checks."""

    @property
    def alarm(self) -> bool:
        """True if there are enough signs for an alarm."""
        return len(self.signs) >= NEEDED

    @property
    def trend(self) -> Trend:
        """The significant change of the reward: rose, fell or same."""
        return "same" if self.reward is None else _find_trend(self.reward)

    @property
    def meaning(self) -> str:
        """The meaning of an alarm, which depends on the trend of the reward."""
        if self.reward is None or self.trend == "same":
            return "the captions are degrading, while the reward has not changed significantly"
        change = f"the reward {self.trend} from {self.reward.before:.3f} to {self.reward.after.value:.3f}"
        return f"{MEANINGS[self.trend]} ({change})"

    @property
    def summary(self) -> str:
        """The changes up to a check without an alarm, in one sentence."""
        if self.reward is None:
            return ""
        numbers = f"from {self.reward.before:.3f} to {self.reward.after.value:.3f}"
        reward = f"the reward {self.trend} {numbers}"
        if self.trend == "same":
            reward = f"the reward has not changed significantly ({numbers})"
        if not self.signs:
            return f"At step {self.step}, {reward}, and nothing that is watched has degraded."
        sign = self.signs[0]
        meaning = ", so the policy may be collapsing" if sign.name == "falls" and self.trend == "fell" else ""
        return f"At step {self.step}, {reward}{meaning}. There is one sign, and an alarm takes {NEEDED}: {sign.text}."


def judge_checks(
    checks: Sequence[StepCheck], labels: Mapping[str, str], held_out: Sequence[str], paired: bool = False
) -> list[DriftVerdict]:
    """Return the verdict on each check in the order of steps."""
    return [judge_last(checks[:number], labels, held_out, paired) for number in range(1, len(checks) + 1)]


def judge_last(
    checks: Sequence[StepCheck], labels: Mapping[str, str], held_out: Sequence[str], paired: bool = False
) -> DriftVerdict:
    """Return the verdict on the last check compared with the start of the training; the first checks have no sign.

    ``held_out`` are the watched metrics whose fall is a sign, and ``labels`` are their names. The checks of a
    probe set are ``paired``: each prompt is compared with itself.
    """
    start, now = checks[:START], checks[-1]
    if len(checks) < FIRST:
        return DriftVerdict(now.step, ())
    resampling = Resampling(interval="t")

    def shift(part: Callable[[StepCheck], Floats]) -> Shift:
        before = [part(check) for check in start]
        if paired and all(check.prompts == now.prompts for check in start):
            return mean_shift(np.mean(before, axis=0), part(now), resampling, paired=True)
        return mean_shift(np.concatenate(before), part(now), resampling)

    keys = [key for key in held_out if key in now.watched]
    reward = shift(lambda check: check.reward)
    signs = [
        _check_falls(reward, {key: shift(_select_watched(key)) for key in keys}, labels),
        _check_distinct(float(np.mean([check.distinct for check in start])), now.distinct),
        _check_equal(float(np.mean([check.equal for check in start])), now.equal),
        _check_repeats(shift(lambda check: check.repeats)),
        _check_length(shift(lambda check: check.words)),
        _check_ranks({key: shift(_select_ranks(key)) for key in keys}, labels),
    ]
    return DriftVerdict(now.step, tuple(sign for sign in signs if sign is not None), reward)


def _select_watched(key: str) -> Callable[[StepCheck], Floats]:
    return lambda check: check.watched[key]


def _select_ranks(key: str) -> Callable[[StepCheck], Floats]:
    return lambda check: check.ranks[key]


def _find_trend(reward: Shift) -> Trend:
    return "rose" if reward.p_up < ALPHA else "fell" if reward.p_down < ALPHA else "same"


def _check_falls(reward: Shift, metrics: Mapping[str, Shift], labels: Mapping[str, str]) -> Sign | None:
    trend = _find_trend(reward)
    if trend == "same":
        return None
    adjusted = holm([one.p_down for one in metrics.values()])
    fallen = [
        f"{labels[key]} fell by {-one.difference.value / abs(one.before):.0%}"
        for (key, one), p in zip(metrics.items(), adjusted, strict=True)
        if p < ALPHA and one.before and -one.difference.value >= FALL * abs(one.before)
    ]
    return Sign("falls", f"the reward {trend} and {', '.join(fallen)}") if fallen else None


def _check_distinct(before: float, after: float) -> Sign | None:
    if after <= before / 2 and before:
        return Sign("distinct", f"distinct bigrams fell from {before:.0%} to {after:.0%}")
    return None


def _check_equal(before: float, after: float) -> Sign | None:
    if after > EQUAL and after > 2 * before:
        return Sign("equal", f"{after:.0%} of the captions are also given to another prompt, {before:.0%} at the start")
    return None


def _check_repeats(shift: Shift) -> Sign | None:
    if shift.p_up < ALPHA and shift.after.value > max(REPEATED, 2 * shift.before):
        return Sign("repeats", f"repeated bigrams in a caption rose from {shift.before:.0%} to {shift.after.value:.0%}")
    return None


def _check_length(shift: Shift) -> Sign | None:
    grown = shift.p_up < ALPHA and shift.ratio >= GROWTH
    shrunk = shift.p_down < ALPHA and shift.ratio <= 1 / GROWTH
    if grown or shrunk:
        what = "grew" if grown else "shrank"
        return Sign("length", f"captions {what} from {shift.before:.1f} to {shift.after.value:.1f} words")
    return None


def _check_ranks(metrics: Mapping[str, Shift], labels: Mapping[str, str]) -> Sign | None:
    adjusted = holm([one.p_down for one in metrics.values()])
    lost = [
        f"{labels[key]} from {one.before:.2f} to {one.after.value:.2f}"
        for (key, one), p in zip(metrics.items(), adjusted, strict=True)
        if p < ALPHA and one.before >= RANKS and one.after.value <= one.before / 2
    ]
    return Sign("ranks", f"the rank correlation with the reward fell: {', '.join(lost)}") if lost else None


def _average_groups(values: Floats, groups: Sequence[Ints]) -> Floats:
    """Return the mean of each group without missing values."""
    parts = [values[group] for group in groups]
    return np.array([part[~np.isnan(part)].mean() if (~np.isnan(part)).any() else np.nan for part in parts])


def _compute_spearman(one: Floats, other: Floats) -> float:
    """Return Spearman's correlation; NaN also for fewer than three pairs."""
    pairs = ~np.isnan(one) & ~np.isnan(other)
    return spearman(one, other) if pairs.sum() >= 3 else float("nan")
