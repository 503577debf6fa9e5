"""Cosines of captions with images and references, and the base classes of the metrics that use them.

Cosines are computed once per set, encoder and prefix, no matter how many metrics need them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from captious._core.types import Bools, Floats, Ints
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError
from captious.metrics.contract import MeanMetric, Metric, Need, Shared
from captious.metrics.explanation import Breakdown, Contribution
from captious.metrics.statistic_rows import Scored, find_blank_texts, score_encoded_captions
from captious.models import loading
from captious.models.checkpoints import PUBLISHED_RANK, Lora, LoraRule
from captious.models.domain import describe_mismatch
from captious.models.encoder import Encoder, TextEncoder, Weights, count_tokens, encoder_id
from captious.models.features import EncodedRows, cosines, image_features, text_features
from captious.options import get_runtime
from captious.render import Column
from captious.syntax.units import unit_spans


@dataclass(frozen=True, eq=False)
class Similarity:
    """Cosines of the candidates of a set with their images."""

    cosine: Floats
    """The cosine of each candidate with its image; NaN if there is none."""
    lengths: Ints
    """Number of tokens of each candidate, with prefix, start and end token; 0 if it was not encoded."""
    faults: dict[int, str]
    """Why the image of an item could not be used, by the item's index."""


def compute_similarity(
    captions: CaptionSet, encoder: Encoder, prefix: str = "", only: Bools | None = None
) -> Similarity:
    """Compute the cosines of all candidates with their images, or of those in the mask ``only``; cached per set."""
    chosen = None if only is None else only.tobytes()
    key = ("similarity", encoder.fingerprint, prefix, get_runtime().image_options, chosen)
    return captions.once(key, lambda: _compute_similarity(captions, encoder, prefix, only))


def compute_reference_cosines(
    captions: CaptionSet, encoder: TextEncoder, prefix: str = "", over: Literal["max", "mean"] = "max"
) -> Floats:
    """Compute the highest or mean cosine of each candidate with its references; NaN if there are none. Cached."""
    key = ("to references", encoder.fingerprint, prefix, over)
    return captions.once(key, lambda: _compute_reference_cosines(captions, encoder, prefix, over))


def count_candidate_tokens(captions: CaptionSet, encoder: Encoder) -> Ints:
    """Count the tokens of each candidate, start and end included, without encoding it."""
    key = ("token lengths", encoder.fingerprint)
    return captions.once(key, lambda: count_tokens(encoder, captions.candidates.values))


def _compute_similarity(captions: CaptionSet, encoder: Encoder, prefix: str, only: Bools | None) -> Similarity:
    pictures, candidates = captions.images, captions.candidates
    owners = candidates.owners
    has_image = np.array([picture is not None for picture in pictures], dtype=np.bool_)
    usable = ~candidates.blank & has_image[owners] & (True if only is None else only)
    encoded = np.flatnonzero(usable)
    cosine, lengths = np.full(len(owners), np.nan), np.zeros(len(owners), dtype=np.int64)
    if not len(encoded):
        return Similarity(cosine, lengths, {})
    items = np.flatnonzero(np.bincount(owners[encoded]))  # sorted; only their images are encoded
    images = image_features(encoder, [picture for item in items.tolist() if (picture := pictures[item]) is not None])
    texts = text_features(encoder, [prefix + candidates.values[index] for index in encoded.tolist()])
    cosine[encoded] = cosines(take(images, np.searchsorted(items, owners[encoded])), texts)
    lengths[encoded] = texts.lengths
    faults = {  # by item, without the path that a fault begins with
        int(items[index]): f"image: {fault.removeprefix(f'{pictures[items[index]]}: ')}"
        for index, fault in images.faults.items()
    }
    return Similarity(cosine, lengths, faults)


def _compute_reference_cosines(captions: CaptionSet, encoder: TextEncoder, prefix: str, over: str) -> Floats:
    candidates, references = captions.candidates, captions.references
    left, right = np.flatnonzero(~candidates.blank), np.flatnonzero(~references.blank)
    candidate, reference, starts = pair_items(candidates.owners[left], references.owners[right])
    candidate_features = text_features(encoder, [prefix + candidates.values[index] for index in left.tolist()])
    reference_features = text_features(encoder, [prefix + references.values[index] for index in right.tolist()])
    values = cosines(take(candidate_features, candidate), take(reference_features, reference))
    result = np.full(len(candidates.values), np.nan)
    number = np.diff(starts)
    paired = np.flatnonzero(number)  # reduceat would give a value to a candidate without references
    if len(paired) and over == "max":
        result[left[paired]] = np.maximum.reduceat(values, starts[paired])
    elif len(paired):
        result[left[paired]] = np.add.reduceat(values, starts[paired]) / number[paired]
    return result


def warn_outside_domain(label: str, captions: CaptionSet, encoder: Encoder) -> list[str]:
    """Return a warning, in a list, if captious-mini is used on anything but drawn scenes; else an empty list."""
    images = [image for image in captions.images if image is not None]
    key = ("domain", encoder.fingerprint)
    reason = captions.once(key, lambda: describe_mismatch(encoder, captions.candidates.values, images))
    return [f"{label}: {reason}"] if reason else []


def pair_items(left: Ints, right: Ints) -> tuple[Ints, Ints, Ints]:
    """Pair each left text, such as a candidate, with all right texts of the same item, such as its references.

    ``left`` and ``right`` are the item of each text, sorted. Returns the index of the left text of each pair, that of
    the right text, and ``starts``: the pairs of left text ``i`` run from ``starts[i]`` up to ``starts[i + 1]``.

    >>> [part.tolist() for part in pair_items(np.array([0, 2]), np.array([0, 0, 1, 2]))]
    [[0, 0, 1], [0, 1, 3], [0, 2, 3]]
    """
    first, end = np.searchsorted(right, left), np.searchsorted(right, left, side="right")
    number = end - first
    starts = np.concatenate(([0], np.cumsum(number)))
    left_of_pair = np.repeat(np.arange(len(left)), number)
    right_of_pair = np.repeat(first - starts[:-1], number) + np.arange(starts[-1])
    return left_of_pair, right_of_pair, starts


def take(encoded: EncodedRows, indices: Ints) -> EncodedRows:
    """Return the inputs at these indices, in this order, without copying their vectors."""
    return EncodedRows(encoded.rows, encoded.index[indices], encoded.lengths[indices], {})


def break_down_units(candidates: Sequence[str], scores: Callable[[int, Sequence[str]], Floats]) -> Breakdown:
    """List what each detail unit adds: the score of the caption up to the unit's end minus that up to its start.

    ``scores(rank, texts)`` returns the score of each text as if it were the caption ``candidates[rank]``.
    """
    parts = []
    for rank, (text, units) in enumerate(zip(candidates, unit_spans(candidates), strict=True)):
        units = units or [(0, len(text))]  # a caption without units is one
        names = [text[first:end].strip() for first, end in units]
        prefixes = [*(text[:end] for _, end in units[:-1]), text]
        values = scores(rank, [*prefixes, *names])
        so_far, alone = np.nan_to_num(values[: len(units)]), values[len(units) :]
        adds = np.diff(so_far, prepend=0.0) / len(candidates)
        for name, added, reached, own in zip(names, adds.tolist(), so_far.tolist(), alone.tolist(), strict=True):
            parts.append(Contribution(name, added, rank, {"so_far": reached, "alone": own}))
    return Breakdown(
        parts,
        unit="unit",
        heading="detail unit",
        columns=[Column("caption so far", key="so_far"), Column("unit alone", key="alone")],
        formula="a unit adds the score of the caption up to its end minus that of the caption before it",
        ordered=True,
        shown=None,
    )


@dataclass(frozen=True)
class EncoderMetric(Metric):
    """A metric that uses an encoder, which every signature names.

    `score_items` gets the encoder as ``state.value``. A metric with a ``corpus_state`` overrides `prepare` to return
    that state; its `score_items` then calls `encoder()`, which loads each encoder only once per process.
    """

    weights: Weights = ""

    main: ClassVar[str] = "weights"

    @property
    def where_to_get(self) -> str:
        """Advice of the error if no weights are named and there is no default."""
        return f"name an encoder, {self.name}(weights=…)"

    @property
    def needs(self) -> tuple[Need, ...]:
        """Images and a model."""
        return ("image", "model")

    def encoder(self) -> Encoder:
        """Load the encoder."""
        return loading.load(self.named_weights)

    @property
    def named_weights(self) -> Weights:
        """The weights. Raises InputError if none are named."""
        if not self.weights:
            raise InputError(f"{self.name} needs weights: {self.where_to_get}")
        return self.weights

    def prepare(self, captions: CaptionSet) -> Any:
        """Load the encoder, and return it as a state that all shards share."""
        encoder = self.encoder()
        return Shared(encoder, encoder_id(encoder))

    def model_settings(self, state: Any) -> Mapping[str, str]:
        """Return the encoder by name and content, its precision, and which of its LoRA tensors were added."""
        encoder: Encoder = state.value if isinstance(state, Shared) and state.value is not None else self.encoder()
        settings = {"encoder": encoder_id(encoder), "precision": encoder.precision}
        lora = _get_lora(encoder)
        return {**settings, "lora": str(lora)} if lora else settings


def _get_lora(encoder: Encoder) -> Lora | None:
    lora = getattr(encoder, "lora", None)  # encoders that are not on torch do not have it
    return lora if isinstance(lora, Lora) else None


def _note_case(label: str, encoder: Encoder) -> list[str]:
    """Return a note, in a list, if capitals are kept for a model that was trained on lower case."""
    if not getattr(getattr(encoder, "tokenizer", None), "keeps_siglip_case", False):
        return []
    return [
        f"{label}: the tokenizer of {encoder.name} keeps capitals, as that of transformers does; SigLIP 2 was trained "
        "on lower case: case=lower"
    ]


def _warn_about_rank(label: str, encoder: Encoder) -> list[str]:
    """Return a warning, in a list, if the rank is not that of the published files, which do not store their factor."""
    lora = _get_lora(encoder)
    if lora is None or lora.rank == PUBLISHED_RANK:
        return []
    return [
        f"{label}: the LoRA tensors of {encoder.name} have rank {lora.rank}, those of the published files "
        f"{PUBLISHED_RANK}; their product was multiplied by 1/{lora.rank}"
    ]


@dataclass(frozen=True)
class EncodedMetric(EncoderMetric, MeanMetric):
    """A metric of the image: values from the cosine of caption and image under an encoder.

    ``weights`` is a hub id, a folder, a checkpoint file, or ``captious-mini``. ``order`` says whether an image is
    cropped or converted to RGB first; by default CLIP models crop first, as the reference implementations do, unless
    the folder of the weights specifies the order. ``activation`` replaces that of a checkpoint (``gelu`` for those of
    OpenCLIP). ``lora=all`` adds the LoRA tensors of a checkpoint, such as DAC's, to its weights. ``case=lower`` puts
    texts in lower case, for folders of SigLIP 2 whose tokenizer keeps capitals.
    """

    order: Literal["crop-first", "rgb-first"] | None = None
    activation: Literal["gelu", "quick_gelu"] | None = None
    lora: Literal["all"] | None = None
    case: Literal["lower"] | None = None

    @property
    def lora_rule(self) -> LoraRule | None:
        """Which LoRA tensors of a checkpoint are added to its weights."""
        return self.lora

    @property
    def prefix(self) -> str:
        """Words that are put before every caption."""
        return ""

    @abstractmethod
    def scale_cosines(self, cosines: Floats) -> Floats:
        """Compute values from cosines."""

    def values(self, similar: Similarity, captions: CaptionSet, encoder: Encoder) -> Floats:
        """Return one value per candidate; a metric overrides this if it needs more than the cosines with images."""
        return self.scale_cosines(similar.cosine)

    def encoder(self) -> Encoder:
        """Load the encoder with these options."""
        return loading.load(
            self.named_weights,
            activation=self.activation,
            order=self.order,
            lora=self.lora_rule,
            case=self.case,
        )

    def score_items(self, captions: CaptionSet, state: Shared[Encoder]) -> Scored:
        """Return one row per item: the sum of its candidates' values, and their number."""
        encoder = state.value
        similar = compute_similarity(captions, encoder, self.prefix)
        values = self.values(similar, captions, encoder)
        reasons = {**similar.faults, **find_blank_texts(captions, references="references" in self.needs)}
        scored = score_encoded_captions(self.label, captions, values, reasons, similar.lengths, encoder.limit)
        about_encoder = [*warn_outside_domain(self.label, captions, encoder), *_warn_about_rank(self.label, encoder)]
        notes = [*scored.notes, *_note_case(self.label, encoder)]
        return replace(scored, warnings=[*scored.warnings, *about_encoder], notes=notes)

    def break_down(self, item: CaptionSet, state: Shared[Encoder]) -> Breakdown:
        """List detail units: each adds the score of the caption up to its end minus that of the caption before it."""

        def score_texts(rank: int, texts: Sequence[str]) -> Floats:
            # All candidates of an item have the same image and references, so the rank does not matter.
            captions = replace(item, candidates=Ragged.of([texts]))
            return self.values(compute_similarity(captions, state.value, self.prefix), captions, state.value)

        return break_down_units(item.candidates.values, score_texts)
