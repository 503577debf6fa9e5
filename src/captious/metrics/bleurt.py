"""BLEURT: a BERT or RemBERT that was trained to rate a text against a reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

import numpy as np

from captious._core.types import Floats, Ints
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.clip.encoded import pair_items
from captious.metrics.contract import MeanMetric, Need, Shared
from captious.metrics.statistic_rows import Scored, candidate_means, find_blank_texts, format_ids
from captious.models.bleurt import BleurtModel, load_bleurt, score_pairs


@dataclass(frozen=True)
class Bleurt(MeanMetric):
    """BLEURT: the rating that a model trained on human judgments gives a caption against a reference.

    The model reads both texts at once, the reference first; its one output is the score::

        BLEURT = max over references of model([CLS] reference [SEP] caption [SEP])

    The original compares with one reference and says nothing about several; the highest is the default here,
    ``over=mean`` is the mean. BLEURT-20 and its smaller versions (D12, D6, D3) rate about from 0 to 1, the older
    checkpoints (bleurt-base-128 and so on) about from −1 to 1; both can leave that range, and neither compares with the
    other. ``weights`` is a checkpoint of the PyTorch port, a hub id or a folder. A pair with more tokens than ``limit``
    (by default what the checkpoint was trained with: 512, or 128) loses tokens at the end of its longer text, on ties
    of the caption, as in the original. An empty caption is scored too; empty references are left out.
    ``activation=gelu_new`` takes the GELU of Google's code for BERT; the port has the exact one. Every distinct pair is
    scored once and cached. BLEURT-20 and its smaller versions need sentencepiece, of ``captious[bleurt]``.

    >>> print(Bleurt(), Bleurt(weights="lucadiliello/BLEURT-20-D12", over="mean"))
    bleurt bleurt(weights=lucadiliello/BLEURT-20-D12,over=mean)
    """

    weights: str = "lucadiliello/BLEURT-20"
    over: Literal["max", "mean"] = "max"
    limit: int | None = None
    activation: Literal["gelu", "gelu_new"] = "gelu"

    name: ClassVar[str] = "bleurt"
    main: ClassVar[str] = "weights"
    label: ClassVar[str] = "BLEURT"
    range: ClassVar[tuple[float, float]] = (-inf, inf)
    needs: ClassVar[tuple[Need, ...]] = ("references", "model")
    undefined_reason: ClassVar[str] = "the model's score is not finite; try precision fp32"
    undefined_by_caption: ClassVar[bool] = False
    citation: ClassVar[str] = (
        "Sellam, Das, Parikh. BLEURT: Learning Robust Metrics for Text Generation. ACL 2020. For BLEURT-20: Pu, Chung, "
        "Parikh, Gehrmann, Sellam. Learning Compact Metrics for MT. EMNLP 2021."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.limit is not None and self.limit < 4:
            raise InputError(f"bleurt(limit={self.limit}): expected at least 4, of which 3 are special tokens")

    def prepare(self, captions: CaptionSet) -> Shared[BleurtModel]:
        """Load the checkpoint."""
        model = load_bleurt(self.weights, self.activation, self.limit)
        return Shared(model, _get_model_id(model))

    def settings(self, state: Shared[BleurtModel]) -> Mapping[str, str]:
        """Return the checkpoint by name and content, its limit and precision."""
        model = state.value
        return {"model": _get_model_id(model), "limit": str(model.limit), "precision": model.precision}

    def score_items(self, captions: CaptionSet, state: Shared[BleurtModel]) -> Scored:
        """Return rows with the sum of the candidates' values, and their number."""
        model = state.value
        best, mean, longest = captions.once(("bleurt", model.fingerprint), lambda: _score_candidates(captions, model))
        items = captions.candidates.owners[longest > model.limit].tolist()
        warnings = []
        if items:
            number = f"{len(items):,} caption{' has' if len(items) == 1 else 's have'}"
            ids = format_ids(captions, items)
            warnings = [
                f"{self.label}: {number} with a reference more than the model's {model.limit} tokens, and both were "
                f"truncated (ids {ids})"
            ]
        rows = candidate_means(captions, best if self.over == "max" else mean)
        reasons = find_blank_texts(captions, references=True, candidates=False)
        return Scored(rows, reasons, {"truncated": len(items)}, warnings)


def _score_candidates(captions: CaptionSet, model: BleurtModel) -> tuple[Floats, Floats, Ints]:
    """Return the highest and the mean score of each candidate over its references, and its longest pair in tokens."""
    candidates, references = captions.candidates, captions.references
    filled = np.flatnonzero(~references.blank)
    left, right, starts = pair_items(candidates.owners, references.owners[filled])
    texts = [
        (references.values[two], candidates.values[one])
        for one, two in zip(left.tolist(), filled[right].tolist(), strict=True)
    ]
    scores, tokens = score_pairs(model, texts)
    number = np.diff(starts)
    paired = np.flatnonzero(number)
    best, mean = np.full((2, len(number)), np.nan)
    longest = np.zeros(len(number), np.int64)
    if len(paired):
        best[paired] = np.maximum.reduceat(scores, starts[paired])
        mean[paired] = np.add.reduceat(scores, starts[paired]) / number[paired]
        longest[paired] = np.maximum.reduceat(tokens, starts[paired])
    return best, mean, longest


def _get_model_id(model: BleurtModel) -> str:
    return f"{model.name}#{model.fingerprint}"
