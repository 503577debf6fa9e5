"""Polos: the rating that a network trained on people's judgments gives a caption, its image and its references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from captious._core.types import Floats, Ints
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError
from captious.metrics.clip.clipscore import PREFIX
from captious.metrics.clip.encoded import break_down_units, pair_items
from captious.metrics.contract import MeanMetric, Need, Shared
from captious.metrics.explanation import Breakdown
from captious.metrics.statistic_rows import Scored, find_blank_texts, score_encoded_captions
from captious.models.encoder import Features, encoder_id
from captious.models.features import image_features, text_features
from captious.models.polos import PolosModel, load_polos

# Pairs of caption and reference that the network rates at a time.
PAIRS = 1024


@dataclass(frozen=True)
class Polos(MeanMetric):
    """Polos: the rating, from 0 to 1, of a network trained on people's judgments of captions.

    It reads a caption, its image and a reference: m and s are sentence vectors of caption and reference by RoBERTa
    (SimCSE, a trained mixture of its layers), v, t and u CLIP's vectors of image, caption and reference, both texts
    after the words "A photo depicts ", not brought to unit length::

        Polos = max over references of f(s, m, |m − s|, m · s, v, t, |v − t|, v · t, |u − t|, u · t)

    ``weights`` is a folder with the authors' ``reprod.ckpt`` and ``hparams.yaml`` (``reprod.zip`` of
    keio-smilab24/Polos); of the checkpoint only tensors are read. In the authors' code a score depends on the batch:
    RoBERTa's layers are normalized over all its captions, and every item of a batch keeps only as many references as
    the item with the fewest. By default each caption is a batch of its own, with all its references. ``batch=32`` makes
    batches in the order of the captions, as the published numbers were computed; a warning counts the references that
    were dropped. The corpus value is the mean; an item with several candidates has their mean.

    >>> print(Polos("reprod"), Polos("reprod", batch=32))
    polos(weights=reprod) polos(weights=reprod,batch=32)
    """

    weights: str = ""
    batch: int = 1

    name: ClassVar[str] = "polos"
    label: ClassVar[str] = "Polos"
    main: ClassVar[str] = "weights"
    languages: ClassVar[tuple[str, ...]] = ("en",)
    needs: ClassVar[tuple[Need, ...]] = ("image", "references", "model")
    citation: ClassVar[str] = (
        "Wada, Kaneda, Saito, Sugiura. Polos: multimodal metric learning from human feedback for image captioning. "
        "CVPR 2024."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch < 1:
            raise InputError(f"polos(batch={self.batch}): expected 1 or more")

    @property
    def scores_batches(self) -> bool:
        """Whether a value depends on the neighbors of an item."""
        return self.batch > 1

    @property
    def explains(self) -> bool:
        """Whether `explain` works: not in batches, where the value is not that of the item by itself."""
        return self.batch == 1

    def prepare(self, captions: CaptionSet) -> Shared[PolosModel]:
        """Load the model."""
        if not self.weights:
            raise InputError(
                "polos needs weights: get reprod.zip from the repository keio-smilab24/Polos (its README links it), "
                "unpack it and name the folder: polos(weights=reprod)"
            )
        model = load_polos(self.weights)
        return Shared(model, f"the Polos model {model.fingerprint}")

    def score_items(self, captions: CaptionSet, state: Shared[PolosModel]) -> Scored:
        """Return rows with the sum of the candidates' scores, and their number."""
        inputs = _Inputs.of(captions, state.value)
        if self.batch == 1:
            values, dropped = inputs.rate_separately(), 0
        else:
            values, dropped = inputs.rate_batches(self.batch)
        reasons = {**inputs.faults, **find_blank_texts(captions, references=True)}
        scored = score_encoded_captions(self.label, captions, values, reasons, inputs.lengths, state.value.clip.limit)
        if self.batch == 1:
            return scored
        lost = f"{self.label}: batches of {self.batch} dropped {dropped:,} references, as the authors' code does"
        warnings = [*scored.warnings, f"{lost}; polos without batch uses all"] if dropped else scored.warnings
        return replace(scored, counts={**scored.counts, "dropped": dropped}, warnings=warnings)

    def settings(self, state: Shared[PolosModel]) -> Mapping[str, str]:
        """Return the model and both its encoders by content, the precision, and the size of a batch."""
        model = state.value
        towers = f"{model.sentences.name}#{model.sentences.fingerprint}+{encoder_id(model.clip)}"
        return {
            "model": f"{model.name}#{model.fingerprint}",
            "encoder": towers,
            "precision": model.precision,
            "batch": str(self.batch),
        }

    def break_down(self, item: CaptionSet, state: Shared[PolosModel]) -> Breakdown:
        """List detail units: each adds the score of the caption up to its end minus that of the caption before it."""
        if self.scores_batches:
            raise InputError(f"{self} does not explain single values, which depend on the batch; leave batch out")

        def score_texts(rank: int, texts: Sequence[str]) -> Floats:
            # All candidates of an item have the same image and references, so the rank does not matter.
            return _Inputs.of(replace(item, candidates=Ragged.of([texts])), state.value).rate_separately()

        return break_down_units(item.candidates.values, score_texts)


@dataclass(frozen=True, eq=False)
class _Inputs:
    """The candidates and references of a set that can be rated, with CLIP's vectors."""

    captions: CaptionSet
    model: PolosModel
    rated: Ints
    """Index of each candidate that is rated."""
    references: Ints
    """Index of each reference that is not blank."""
    images: Features
    """CLIP's vector of the image of each rated candidate."""
    texts: Features
    """CLIP's vector of each rated candidate."""
    lengths: Ints
    """Number of CLIP's tokens of each candidate; 0 if it is not rated."""
    faults: dict[int, str]
    """The reason why the image of an item could not be used, by the item's index."""

    @classmethod
    def of(cls, captions: CaptionSet, model: PolosModel) -> _Inputs:
        """Choose what can be rated: a candidate that is not blank, with an image and a reference that is not blank."""
        pictures, candidates, others = captions.images, captions.candidates, captions.references
        references = np.flatnonzero(~others.blank)
        complete = np.bincount(others.owners[references], minlength=len(captions)) > 0
        complete &= np.array([picture is not None for picture in pictures], dtype=np.bool_)
        rated = np.flatnonzero(~candidates.blank & complete[candidates.owners])
        items = np.unique(candidates.owners[rated])
        images = image_features(
            model.clip, [picture for item in items.tolist() if (picture := pictures[item]) is not None], raw=True
        )
        faults = {
            int(items[index]): f"image: {fault.removeprefix(f'{pictures[items[index]]}: ')}"
            for index, fault in images.faults.items()
        }
        row_of = images.index[np.searchsorted(items, candidates.owners[rated])]
        rated, row_of = rated[row_of >= 0], row_of[row_of >= 0]
        texts = text_features(model.clip, [PREFIX + candidates.values[index] for index in rated.tolist()], raw=True)
        lengths = np.zeros(len(candidates.values), np.int64)
        lengths[rated] = texts.lengths
        return cls(captions, model, rated, references, images.rows[row_of], texts.rows[texts.index], lengths, faults)

    def rate_separately(self) -> Floats:
        """Return the score of each candidate as a batch of its own."""
        values = np.full(len(self.captions.candidates.values), np.nan)
        if not len(self.rated):
            return values
        candidate, reference, starts = self._pair()
        captions = text_features(self.model.sentences, self._select_texts(self.rated), raw=True)
        others = self._list_references()
        references = text_features(self.model.sentences, others, raw=True)
        reference_texts = text_features(self.model.clip, [PREFIX + text for text in others], raw=True)
        scores = np.empty(len(candidate))
        for first in range(0, len(candidate), PAIRS):
            part = slice(first, first + PAIRS)
            c, r = candidate[part], reference[part]
            scores[part] = self.model.rate(
                captions.rows[captions.index[c]],
                references.rows[references.index[r]],
                self.images[c],
                self.texts[c],
                reference_texts.rows[reference_texts.index[r]],
            )
        values[self.rated] = np.maximum.reduceat(scores, starts[:-1])
        return values

    def rate_batches(self, size: int) -> tuple[Floats, int]:
        """Return the scores in batches of candidates in their order, and the number of dropped references."""
        values = np.full(len(self.captions.candidates.values), np.nan)
        if not len(self.rated):
            return values, 0
        _, reference, starts = self._pair()
        others = self._list_references()
        reference_texts = text_features(self.model.clip, [PREFIX + text for text in others], raw=True)
        counts, dropped = np.diff(starts), 0
        for first in range(0, len(self.rated), size):
            batch = np.arange(first, min(first + size, len(self.rated)))
            # The authors' loader keeps as many references of every item as the poorest item of the batch has.
            kept = int(counts[batch].min())
            dropped += int((counts[batch] - kept).sum())
            captions = self.model.sentences.batch_features(self._select_texts(self.rated[batch]))
            scores = np.empty((kept, len(batch)))
            for place in range(kept):
                r = reference[starts[batch] + place]
                scores[place] = self.model.rate(
                    captions,
                    self.model.sentences.batch_features([others[index] for index in r.tolist()]),
                    self.images[batch],
                    self.texts[batch],
                    reference_texts.rows[reference_texts.index[r]],
                )
            values[self.rated[batch]] = scores.max(axis=0)
        return values, dropped

    def _pair(self) -> tuple[Ints, Ints, Ints]:
        """Pair each rated candidate with its references, as `pair_items` does."""
        owners = self.captions.candidates.owners[self.rated]
        return pair_items(owners, self.captions.references.owners[self.references])

    def _select_texts(self, indices: Ints) -> list[str]:
        return [self.captions.candidates.values[index] for index in indices.tolist()]

    def _list_references(self) -> list[str]:
        return [self.captions.references.values[index] for index in self.references.tolist()]
