"""SentenceBERT similarity: the cosine of a caption with its references, each text one vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from captious.captions import CaptionSet
from captious.metrics.clip.encoded import compute_reference_cosines
from captious.metrics.contract import MeanMetric, Need, Shared
from captious.metrics.statistic_rows import Scored, find_blank_texts, score_encoded_captions
from captious.models.encoder import TextEncoder, TextWeights
from captious.models.features import text_features
from captious.models.sentence_models import load_sentences


@dataclass(frozen=True)
class Sbert(MeanMetric):
    """SentenceBERT similarity: the cosine of the caption's sentence vector with that of its nearest reference.

    With c the vector of the caption and r those of the references, under a model of sentence-transformers::

        SBERT = max over r of cos(c, r)

    ``over=mean`` is the mean over the references instead, as in FENSE, of which this is the part without the
    fluency check. ``weights`` is a hub id or a folder: its ``modules.json`` says how token states are pooled; a folder
    without one is averaged. Every distinct text is encoded once and cached. A text longer than the model's limit is
    truncated; the signature counts such captions. Empty references are left out.

    >>> Sbert(over="mean")
    Sbert(weights='sentence-transformers/all-MiniLM-L6-v2', over='mean')
    """

    weights: TextWeights = "sentence-transformers/all-MiniLM-L6-v2"
    over: Literal["max", "mean"] = "max"

    name: ClassVar[str] = "sbert"
    main: ClassVar[str] = "weights"
    label: ClassVar[str] = "SBERT"
    range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    needs: ClassVar[tuple[Need, ...]] = ("references", "model")
    citation: ClassVar[str] = (
        "Reimers, Gurevych. Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks. EMNLP 2019."
    )

    def prepare(self, captions: CaptionSet) -> Shared[TextEncoder]:
        """Load the sentence encoder."""
        encoder = load_sentences(self.weights)
        return Shared(encoder, _get_model_id(encoder))

    def settings(self, state: Shared[TextEncoder]) -> Mapping[str, str]:
        """Return the model by name and content, and its precision."""
        return {"model": _get_model_id(state.value), "precision": state.value.precision}

    def score_items(self, captions: CaptionSet, state: Shared[TextEncoder]) -> Scored:
        """Return rows with the sum of the candidates' values, and their number."""
        encoder = state.value
        values = compute_reference_cosines(captions, encoder, over=self.over)
        lengths = text_features(encoder, captions.candidates.values).lengths
        return score_encoded_captions(
            self.label, captions, values, find_blank_texts(captions, references=True), lengths, encoder.limit
        )


def _get_model_id(encoder: TextEncoder) -> str:
    return f"{encoder.name}#{encoder.fingerprint}"
