"""Agreement on pairs of captions: Krippendorff's alpha, the human ceiling, and every rater against the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from captious._core.types import Floats, Ints
from captious.errors import InputError
from captious.options import Resampling
from captious.render import Cell, Column, Document, Figure, Result, Table
from captious.render.document import Value
from captious.stats.bootstrap import NAN, Estimate, WeightedStatistic, compute_observed, estimate
from captious.stats.rater_agreement import Alpha, Measurement, compute_alpha_without, krippendorff
from captious.study._design import Pairs
from captious.study._statistic_columns import build_agreement_document, build_alpha_table, describe_alpha
from captious.study.judgments import TIE, Preferences, Ratings, count_unused_answers


@dataclass(frozen=True)
class PairsRater:
    """One rater's preferences against those of the others on the same pairs."""

    name: str
    pairs: int
    ties: int
    shared: int
    """Pairs that others judged too."""
    same: float
    """Share of the others' answers on these pairs that are the same as the rater's."""
    accuracy: float
    """Accuracy of the rater, scored as if it were a metric: the share of the others' preferences that it predicts. A
    tie of the rater counts ½."""
    alpha_without: float
    """Alpha of the others. If it is above that of all raters, this rater disagrees with the others."""


@dataclass(frozen=True, repr=False)
class PairsAgreement(Result):
    """Agreement of raters on which caption of a pair is better."""

    name: str
    alpha: Alpha
    ceiling: Estimate
    """The accuracy of a rater, scored as if it were a metric; the mean over raters."""
    raters: tuple[PairsRater, ...]
    resampling: Resampling
    warnings: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    """The number of pairs or answers that were left out at reading, by reason."""
    read: str = ""
    """The columns and files that were read."""

    def __repr__(self) -> str:
        return f"PairsAgreement({self.name}: alpha {self.alpha.estimate.value:.4f})"

    def document(self) -> Document:
        """Build the document: alpha, the human ceiling, and a table of raters."""
        level = self.resampling.level
        note = "pairs: judged by two raters or more; single: by one, left out; a tie is an answer too"
        ceiling = Table(
            "ceiling",
            "The human ceiling: one rater in the place of a metric, against the preferences of the others",
            ["statistic", _make_share_column("value", level=level)],
            [["accuracy, a tie of the rater ½", Cell.of(self.ceiling)]],
        )
        alpha = build_alpha_table(self.name, self.alpha, ("answers", "pairs"), note, self.resampling)
        return build_agreement_document(
            self.name,
            self.resampling,
            [alpha, ceiling, self._raters_table()],
            {"alpha": self.alpha, "ceiling": {"accuracy": self.ceiling}, "raters": self.raters},
            self.warnings,
            self.left_out,
            self.read,
            [
                *describe_alpha(self.alpha, "pair", self.resampling),
                " One rater in the place of a metric agrees with ",
                Figure(self.ceiling, ceiling.heads[1]),
                " of the others' preferences.",
            ],
        )

    def _raters_table(self) -> Table:
        columns: list[Column | str] = ["rater", Column("pairs"), Column("ties"), Column("shared")]
        columns += [_make_share_column("same"), _make_share_column("accuracy"), Column("alpha without", decimals=3)]
        rows: list[list[Value]] = [
            [one.name, one.pairs, one.ties, one.shared, one.same, one.accuracy, one.alpha_without]
            for one in self.raters
        ]
        note = (
            "shared: pairs that others judged too; same: share of the others' answers that the rater gave too; "
            "accuracy: in the place of a metric; alpha without: agreement of the others"
        )
        return Table("raters", "Each rater against the others", columns, rows, note)


def _make_share_column(name: str, level: float | None = None) -> Column:
    return Column(name, scale=100, decimals=1, unit="%", level=level)


def pairs_agreement(
    pairs: Preferences, measurement: Measurement = "nominal", resampling: Resampling = Resampling()
) -> PairsAgreement:
    """Compute the agreement of raters over the pairs that several of them judged; a tie is an answer of its own."""
    answers = pairs.answers
    if answers is None or not ((~np.isnan(answers.values)).sum(axis=1) > 1).any():
        raise InputError(
            f"{pairs.name}: no pair was judged by two raters, agreement needs the same two captions of an image judged "
            "twice"
        )
    accuracies = [_build_rater_accuracy(answers, index) for index in range(answers.values.shape[1])]
    defined = [accuracy for accuracy in accuracies if accuracy is not None]

    def mean(weights: Floats) -> dict[str, Floats]:
        return {"mean": np.mean([accuracy(weights)["mean"] for accuracy in defined], axis=0)}

    return PairsAgreement(
        pairs.name,
        krippendorff(answers.values, measurement, resampling, answers.groups, name=pairs.name),
        estimate(mean, len({*answers.groups}), resampling)["mean"] if defined else Estimate(NAN),
        tuple(_diagnose_rater(answers, index, accuracy, measurement) for index, accuracy in enumerate(accuracies)),
        resampling,
        pairs.warnings,
        count_unused_answers(pairs),
        pairs.read,
    )


def _build_rater_accuracy(answers: Ratings, index: int) -> WeightedStatistic | None:
    """Build the accuracy of a rater, scored as if it were a metric; None if nobody else judged the rater's pairs.

    Each preference of another rater on the same pair is a pair of its own.
    """
    own, others = answers.values[:, index], np.delete(answers.values, index, axis=1)
    decided = ~np.isnan(others) & (others != TIE) & ~np.isnan(own)[:, None]
    pair, other = np.nonzero(decided)
    if not len(pair):
        return None
    images, image = np.unique(np.array(answers.groups), return_inverse=True)
    # The captions of pair p are 2p and 2p + 1, and `^ 1` is the other one; answers are 0 and 1.
    preferred: Ints = 2 * pair + others[pair, other].astype(np.int64)
    design = Pairs(
        preferred, preferred ^ 1, image[pair].astype(np.int64), len(images), np.zeros(len(pair), np.int64), ("all",)
    )
    # The rater's "scores" of both captions of each pair: 1 for the preferred one, ½ each for a tie.
    return design.family("mean", np.stack([1 - own, own], axis=1).ravel())


def _diagnose_rater(
    answers: Ratings, index: int, accuracy: WeightedStatistic | None, measurement: Measurement
) -> PairsRater:
    own, others = answers.values[:, index], np.delete(answers.values, index, axis=1)
    both = ~np.isnan(others) & ~np.isnan(own)[:, None]
    return PairsRater(
        answers.raters[index],
        int((~np.isnan(own)).sum()),
        int((own == TIE).sum()),
        int(both.any(axis=1).sum()),
        float((others == own[:, None])[both].mean()) if both.any() else NAN,
        NAN if accuracy is None else compute_observed(accuracy, len({*answers.groups}))["mean"],
        compute_alpha_without(answers.values, index, measurement),
    )
