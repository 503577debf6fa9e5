"""BERTScore: greedy matching of token states, each distinct text encoded once."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from captious._core.types import Floats, Ints
from captious.captions import CaptionSet
from captious.errors import InputError, require
from captious.metrics.contract import MeanMetric, Need
from captious.metrics.statistic_rows import Scored, find_blank_texts, score_encoded_captions
from captious.models.language import Contextual, Ids, load_contextual
from captious.models.pipeline import OomBackoff
from captious.options import get_runtime
from captious.text.counts import KeyCounts
from captious.text.token_frequencies import TokenFrequency

# A function from the token ids of a text to the weight of each token.
Weigh = Callable[[Sequence[int]], Floats]
# Number of pairs matched at a time.
PAIRS = 256
VALUES = ("precision", "recall", "f1")
# Number of items whose pairs are in memory at a time.
BLOCK = 128


@dataclass(frozen=True, eq=False)
class TokenWeights(TokenFrequency):
    """The id of the model, and the number of references in which each token occurs."""

    def weights(self, ids: Sequence[int], special: Container[int]) -> Floats:
        """Return the weight of each token: its idf if references were counted, else 1, and 0 for special tokens."""
        if not self.documents:
            return np.array([0.0 if one in special else 1.0 for one in ids])
        return self.compute_idf(np.array(ids))


@dataclass(frozen=True)
class BertScore(MeanMetric):
    """BERTScore: the cosine of each token with its nearest in the other text, in context, averaged.

    With x the token states of the candidate, y those of a reference, at one layer of a language model::

        P = mean over x of max over y of cos(x, y)      R = mean over y of max over x      F1 = 2PR / (P + R)

    The first and the last token of a text can be matched, but they are not averaged. Of several references the highest
    value is taken, separately for P, R and F1, as in the original. ``layer`` is by default the one that the authors
    recommend for the model, or else the last. ``idf=refs`` weights tokens by their idf among the references of this
    set; ``baseline`` b stretches values to (value − b) / (1 − b).

    >>> BertScore(value="recall", idf="refs").label
    'BERTScore recall'
    """

    weights: str = "FacebookAI/roberta-large"
    layer: int | None = None
    value: Literal["f1", "precision", "recall"] = "f1"
    idf: Literal["none", "refs"] = "none"
    baseline: float = 0.0

    name: ClassVar[str] = "bertscore"
    main: ClassVar[str] = "weights"
    needs: ClassVar[tuple[Need, ...]] = ("references", "model")
    undefined_reason: ClassVar[str] = "no token of it counts: all are in every reference"
    citation: ClassVar[str] = "Zhang et al. 2020, BERTScore: Evaluating Text Generation with BERT, ICLR"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.baseline < 1:
            raise InputError(f"baseline {self.baseline:g}: expected less than 1")

    @property
    def range(self) -> tuple[float, float]:
        """The range of a cosine, rescaled by the baseline."""
        return ((-1 - self.baseline) / (1 - self.baseline), 1.0)

    @property
    def label(self) -> str:
        """BERTScore, followed by the value unless it is F1."""
        return "BERTScore" if self.value == "f1" else f"BERTScore {self.value}"

    @property
    def corpus_state(self) -> type[TokenWeights] | None:
        """The idf weights of tokens with ``idf=refs``."""
        return TokenWeights if self.idf == "refs" else None

    def model(self) -> Contextual:
        """Load the language model up to the layer."""
        return load_contextual(self.weights, self.layer)

    def prepare(self, captions: CaptionSet) -> TokenWeights:
        """Return the id of the model and, with ``idf=refs``, the tokens of the references."""
        model = self.model()
        if self.idf == "none":
            return TokenWeights(KeyCounts(), _get_model_id(model))
        ids, _ = model.tokens([text for text in captions.references.values if text.strip()])
        counts = np.array([len(one) for one in ids], np.int64)
        flat = np.array([token for one in ids for token in one], np.int64)
        return TokenWeights.of(_get_model_id(model), flat, counts)

    def settings(self, state: TokenWeights) -> Mapping[str, str]:
        """Return the model by name and content, its layer and precision."""
        model = self.model()
        settings = {"model": _get_model_id(model), "layer": str(model.layer), "precision": model.precision}
        return {**settings, "idf": f"refs:{state.documents}"} if self.idf == "refs" else settings

    def score_items(self, captions: CaptionSet, state: TokenWeights) -> Scored:
        """Return rows with the sum of the candidates' values, and their number."""
        model = self.model()
        if state.model != _get_model_id(model):
            raise InputError(f"cannot score by {_get_model_id(model)} with the token weights of {state.model}")
        key = ("bertscore", state.model, self.idf, state.documents)
        matches, lengths = captions.once(key, lambda: _match_candidates(captions, model, state))
        values = (matches[:, VALUES.index(self.value)] - self.baseline) / (1 - self.baseline)
        reasons = find_blank_texts(captions, references=True)
        return score_encoded_captions(self.label, captions, values, reasons, lengths, model.limit)


def _match_candidates(captions: CaptionSet, model: Contextual, state: TokenWeights) -> tuple[Floats, Ints]:
    """Return precision, recall and F1 of every candidate, each the highest over its references; and token counts."""
    candidates, references = captions.candidates, captions.references
    ids, lengths = model.tokens(candidates.values)
    reference_ids, _ = model.tokens(references.values)
    result = np.full((len(ids), len(VALUES)), np.nan)
    runtime = get_runtime()
    for first in range(0, len(captions), BLOCK):
        last = min(first + BLOCK, len(captions))
        pairs = [
            (one, other)
            for item in range(first, last)
            for one in range(candidates.offsets[item], candidates.offsets[item + 1])
            for other in range(references.offsets[item], references.offsets[item + 1])
            if not candidates.blank[one] and not references.blank[other]
        ]
        if pairs:
            sides = [ids[one] for one, _ in pairs], [reference_ids[other] for _, other in pairs]
            values = match_texts(model, *sides, partial(state.weights, special=model.special_token_ids))
            np.fmax.at(result, [one for one, _ in pairs], values)
        runtime.progress("captions", last, len(captions))
    return result, lengths


def _get_model_id(model: Contextual) -> str:
    return f"{model.name}#{model.fingerprint}"


def match_texts(model: Contextual, candidates: Sequence[Ids], references: Sequence[Ids], weigh: Weigh) -> Floats:
    """Return precision, recall and F1, one row per pair of texts given as token ids; NaN if no token counts."""
    torch = require("torch", "clip")
    texts = list(dict.fromkeys(map(tuple, (*candidates, *references))))
    index = {ids: number for number, ids in enumerate(texts)}
    states = _encode_texts(model, [list(ids) for ids in texts])
    weights = [torch.from_numpy(weigh(ids)).to(states[0]) for ids in texts]
    left, right = ([index[tuple(ids)] for ids in side] for side in (candidates, references))
    result = np.empty((len(left), 3))
    # Pairs of similar lengths are matched together, so that little is padded.
    order = sorted(range(len(left)), key=lambda pair: (len(references[pair]), len(candidates[pair])))
    for start in range(0, len(order), PAIRS):
        block = order[start : start + PAIRS]
        sides = [[side[pair] for pair in block] for side in (left, right)]
        result[block] = _score_block(
            *([values[number] for number in side] for values in (states, weights) for side in sides)
        )
    return result


def _encode_texts(model: Contextual, texts: list[Ids]) -> list[Any]:
    """Encode texts in batches of similar length, and return the hidden states of each."""
    runtime = get_runtime()
    backoff, encoded = OomBackoff(runtime.log), {}

    def encode_batch(numbers: Any) -> Any:
        states, _ = model.states([texts[number] for number in numbers])
        for number, one in zip(numbers, states, strict=True):
            encoded[number] = one[: len(texts[number])].clone()
        # The states stay on the device; OomBackoff expects a function that fetches results.
        return lambda: np.zeros(len(numbers))

    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    for start in range(0, len(order), runtime.batch):
        backoff.start(encode_batch, order[start : start + runtime.batch])()
    return [encoded[number] for number in range(len(texts))]


def _score_block(
    candidates: list[Any], references: list[Any], candidate_weights: list[Any], reference_weights: list[Any]
) -> Floats:
    """Return precision, recall and F1 of pairs of texts, from their hidden states and the weights of their tokens."""
    torch = require("torch", "clip")

    def pad(rows: list[Any]) -> Any:
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    cosines = pad(candidates) @ pad(references).transpose(1, 2)
    masks = [
        pad([torch.ones_like(one, dtype=torch.bool) for one in side]) for side in (candidate_weights, reference_weights)
    ]
    # Padding never is the nearest token (-inf), and padded tokens themselves add 0.
    cosines = cosines.masked_fill(~(masks[0][:, :, None] & masks[1][:, None, :]), float("-inf"))
    parts = []
    for axis, inside, weight in ((2, masks[0], pad(candidate_weights)), (1, masks[1], pad(reference_weights))):
        nearest = cosines.amax(axis).masked_fill(~inside, 0.0)
        parts.append(((nearest * weight).sum(1) / weight.sum(1)).double().cpu().numpy())
    precision, recall = parts
    total = precision + recall
    f1 = np.divide(2 * precision * recall, total, out=np.where(np.isnan(total), np.nan, 0.0), where=total != 0)
    return np.stack([precision, recall, f1], axis=1)
