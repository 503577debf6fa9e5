"""FENSE: sentence similarity to the references, with a penalty for captions that are no good English."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from captious._core.types import Floats
from captious.captions import CaptionSet
from captious.metrics._fluency_penalty import (
    ABSENT,
    COLUMN,
    HINT,
    PENALTY,
    THRESHOLD,
    compute_penalty_factors,
    describe_source,
    find_missing_probabilities,
    get_error_probabilities,
    get_source_languages,
    refuse_settings,
)
from captious.metrics.clip.encoded import compute_reference_cosines
from captious.metrics.contract import MeanMetric, Need, Shared
from captious.metrics.explanation import Breakdown, Contribution
from captious.metrics.sbert import Sbert
from captious.metrics.statistic_rows import Scored, candidate_means
from captious.models.encoder import TextEncoder, TextWeights
from captious.render import Column


@dataclass(frozen=True)
class Fense(MeanMetric):
    """FENSE: the mean cosine with the references, of which a caption with a fluency error keeps a tenth.

    With c the sentence vector of the caption, r those of the references, and p the probability of a fluency error::

        FENSE = mean over r of cos(c, r) · (1 − 0.9 · [p > 0.9])

    ``weights`` is any model of sentence-transformers, as in ``sbert``. ``fluency`` says where p comes from: the
    authors' detector (a folder with the checkpoint and the vocab.txt of its BERT), the file of a table with an id and
    ``error_probability``, or ``error_probability`` itself, that column of the captions. ``threshold`` and ``penalty``
    are the two 0.9.

    >>> Fense(weights="all-MiniLM-L6-v2", fluency="errors.csv").label
    'FENSE'
    """

    weights: TextWeights = "sentence-transformers/paraphrase-TinyBERT-L6-v2"
    fluency: str = COLUMN
    threshold: float = THRESHOLD
    penalty: float = PENALTY

    name: ClassVar[str] = "fense"
    main: ClassVar[str] = "weights"
    label: ClassVar[str] = "FENSE"
    range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    needs: ClassVar[tuple[Need, ...]] = ("references", "model")
    citation: ClassVar[str] = (
        "Zhou, Zhang, Xu, Xie, Wu, Zhu. Can audio captions be evaluated with image caption metrics? ICASSP 2022."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_settings(self.name, self.threshold, self.penalty)

    @property
    def languages(self) -> tuple[str, ...]:
        """English if a detector reads the captions, else any language."""
        return get_source_languages(self.fluency)

    @property
    def _sbert(self) -> Sbert:
        return Sbert(self.weights, over="mean")

    def prepare(self, captions: CaptionSet) -> Shared[TextEncoder]:
        """Load the sentence encoder."""
        return self._sbert.prepare(captions)

    def settings(self, state: Shared[TextEncoder]) -> Mapping[str, str]:
        """Return the sentence encoder, and the source of the error probabilities."""
        return {**self._sbert.settings(state), "fluency": describe_source(self.fluency)}

    def score_items(self, captions: CaptionSet, state: Shared[TextEncoder]) -> Scored:
        """Return rows with the sum of the candidates' values, and their number."""
        similar = self._sbert.score_items(captions, state)
        probabilities, cosines, factors = self._score_parts(captions, state)
        rows = candidate_means(captions, cosines * factors)
        warnings = [line.replace(self._sbert.label, self.label, 1) for line in similar.warnings]
        reasons = {**find_missing_probabilities(probabilities, captions), **similar.reasons}
        return replace(similar, rows=rows, reasons=reasons, warnings=warnings)

    def _score_parts(self, captions: CaptionSet, state: Shared[TextEncoder]) -> tuple[Floats, Floats, Floats]:
        """Return the probability of an error, the similarity and the penalty factor of each candidate."""
        probabilities = get_error_probabilities(self.fluency, captions)
        cosines = compute_reference_cosines(captions, state.value, over="mean")
        return probabilities, cosines, compute_penalty_factors(probabilities, self.threshold, self.penalty)

    def break_down(self, item: CaptionSet, state: Shared[TextEncoder]) -> Breakdown:
        """List the similarity, and what a fluency error takes off, for each candidate."""
        parts = []
        for rank, (error, cosine, factor) in enumerate(np.stack(self._score_parts(item, state), axis=1).tolist()):
            share = cosine / len(item.candidates.values)
            parts.append(Contribution("similarity", share, rank, {"value": cosine}))
            if factor < 1:
                parts.append(Contribution("fluency error", (factor - 1) * share, rank, {"value": error}))
        return Breakdown(
            parts,
            unit="part",
            columns=[Column("value")],
            formula=f"FENSE = mean cosine with the references · (1 − {self.penalty:g} · [p > {self.threshold:g}])",
            ordered=True,
        )

    def hint(self, reason: str) -> str:
        """Return how to supply probabilities if they are missing."""
        return HINT if reason == ABSENT else super().hint(reason)
