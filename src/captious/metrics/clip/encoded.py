"""Cosines of captions with images, frames of videos and references, and the base classes of the metrics that use them.

Cosines are computed once per set, encoder and prefix, no matter how many metrics need them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from captious.models.frame_features import FrameVectors, frame_features
from captious.options import get_runtime
from captious.render import Column
from captious.syntax.units import unit_spans

# How the cosines of a caption with the frames of a video become one number.
Pool = Literal["mean", "best", "worst", "vector"]


@dataclass(frozen=True, eq=False)
class Similarity:
    """Cosines of the candidates of a set with their images."""

    cosine: Floats
    """The cosine of each candidate with its image; NaN if there is none."""
    lengths: Ints
    """Number of tokens of each candidate, with prefix, start and end token; 0 if it was not encoded."""
    faults: dict[int, str]
    """The reason why the image or video of an item could not be used, by the item's index."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts of the signature about frames of videos."""


def compute_similarity(
    captions: CaptionSet, encoder: Encoder, prefix: str = "", only: Bools | None = None, pool: Pool = "mean"
) -> Similarity:
    """Compute the cosines of all candidates with their images, or of those in the mask ``only``; cached per set.

    ``pool`` says how those with the frames of a video are joined.
    """
    chosen = None if only is None else only.tobytes()
    key = ("similarity", encoder.fingerprint, prefix, get_runtime().image_options, chosen)
    if captions.has_videos:
        return captions.once(key, lambda: _compute_frame_cosines(captions, encoder, prefix, only)).pool(pool)
    return captions.once(key, lambda: _compute_similarity(captions, encoder, prefix, only))


@dataclass(frozen=True, eq=False)
class FrameCosines:
    """Cosines of the candidates of a set with each frame of their videos; an image is one frame."""

    cosines: Floats
    """Flat: those of candidate ``i`` run from ``starts[i]`` up to ``starts[i + 1]``, in the order of the frames."""
    starts: Ints
    norms: Floats
    """The length of the sum of the frames' vectors, for each candidate."""
    lengths: Ints
    frames: FrameVectors
    """The frames of each item."""

    def pool(self, pool: Pool) -> Similarity:
        """Return one cosine for each candidate; NaN if it has no frames.

        >>> starts, norms = np.array([0, 2, 2]), np.array([1.6, 1.0])
        >>> none = FrameVectors(np.zeros((0, 2), np.float32), np.array([]), np.array([0]), np.array([]), np.array([]))
        >>> parts = FrameCosines(np.array([0.2, 0.6]), starts, norms, np.array([5, 0]), none)
        >>> [round(float(parts.pool(how).cosine[0]), 6) for how in ("mean", "best", "worst", "vector")]
        [0.4, 0.6, 0.2, 0.5]
        """
        number = np.diff(self.starts)
        has_frames = np.flatnonzero(number)
        first = self.starts[has_frames]
        pooled = np.full(len(number), np.nan)
        if len(has_frames) and pool in ("mean", "vector"):
            divisor = number if pool == "mean" else self.norms
            pooled[has_frames] = np.add.reduceat(self.cosines, first) / divisor[has_frames]
        elif len(has_frames):
            reduce = np.maximum if pool == "best" else np.minimum
            pooled[has_frames] = reduce.reduceat(self.cosines, first)
        return Similarity(pooled, self.lengths, dict(self.frames.faults), self.frames.counts)

    def share(self, candidate: int, pool: Pool) -> Floats:
        """Return the part of each frame of a candidate in its pooled cosine; the parts add up to it."""
        own = self.cosines[self.starts[candidate] : self.starts[candidate + 1]]
        shares: Floats = own / (self.norms[candidate] if pool == "vector" else len(own))
        if pool in ("best", "worst"):
            chosen = int(own.argmax() if pool == "best" else own.argmin())
            shares = np.where(np.arange(len(own)) == chosen, own, 0.0)
        return shares


def compute_frames(captions: CaptionSet, encoder: Encoder, items: Ints | None = None) -> FrameVectors:
    """Return the frames of each item, or of those at the indices ``items`` (sorted); cached per set.

    An item with an image and no video has one frame; one with neither has none. Items that were left out have no
    frames either.
    """
    chosen = None if items is None else items.tobytes()
    key = ("frames", encoder.fingerprint, get_runtime().image_options, captions.frames, chosen)
    return captions.once(key, lambda: _compute_frames(captions, encoder, items))


def compute_frame_cosines(
    captions: CaptionSet, encoder: Encoder, prefix: str = "", only: Bools | None = None
) -> FrameCosines:
    """Compute the cosines of candidates with each frame; not cached."""
    return _compute_frame_cosines(captions, encoder, prefix, only)


def _compute_frames(captions: CaptionSet, encoder: Encoder, items: Ints | None) -> FrameVectors:
    chosen = range(len(captions)) if items is None else items.tolist()
    clips, pictures = captions.clips, captions.images
    with_video = [item for item in chosen if clips[item] is not None]
    with_image = [item for item in chosen if clips[item] is None and pictures[item] is not None]
    sharing = captions.known("frame encoders") or ()
    frames = frame_features(
        encoder, [clip for clip in map(clips.__getitem__, with_video) if clip], captions.frames, sharing
    )
    images = image_features(encoder, [one for one in map(pictures.__getitem__, with_image) if one is not None])
    sizes = np.zeros(len(captions), np.int64)
    sizes[with_video] = np.diff(frames.offsets)
    sizes[with_image] = images.index >= 0
    is_frame = np.repeat(np.isin(np.arange(len(captions)), with_video), sizes)
    index = np.zeros(len(is_frame), np.int64)
    times, numbers = np.full(len(is_frame), np.nan), np.zeros(len(is_frame), np.int64)
    index[is_frame], times[is_frame], numbers[is_frame] = frames.index, frames.times, frames.numbers
    index[~is_frame] = images.index[images.index >= 0] + len(frames.rows)
    faults = {with_video[number]: f"video: {fault}" for number, fault in frames.faults.items()}
    faults |= {
        with_image[number]: f"image: {fault.removeprefix(f'{pictures[with_image[number]]}: ')}"
        for number, fault in images.faults.items()
    }
    return FrameVectors(
        np.concatenate([frames.rows, images.rows]),
        index,
        np.concatenate(([0], np.cumsum(sizes))),
        times,
        numbers,
        faults,
        frames.counts,
    )


def _compute_frame_cosines(captions: CaptionSet, encoder: Encoder, prefix: str, only: Bools | None) -> FrameCosines:
    candidates, owners = captions.candidates, captions.candidates.owners
    usable = ~candidates.blank & (True if only is None else only)
    frames = compute_frames(captions, encoder, np.unique(owners[usable]))
    sizes = np.diff(frames.offsets)
    encoded = np.flatnonzero(usable & (sizes[owners] > 0))
    texts = text_features(encoder, [prefix + candidates.values[index] for index in encoded.tolist()])
    number = np.zeros(len(owners), np.int64)
    number[encoded] = sizes[owners[encoded]]
    starts = np.concatenate(([0], np.cumsum(number)))
    # Frame j of candidate i is at starts[i] + j here, and at offsets[item of i] + j among the frames.
    place = np.repeat(frames.offsets[:-1][owners] - starts[:-1], number) + np.arange(starts[-1])
    text = np.repeat(np.searchsorted(encoded, np.arange(len(owners))), number)
    flat = EncodedRows(frames.rows, frames.index, np.zeros(len(frames.index), np.int64), {})
    values = cosines(take(flat, place), take(texts, text))
    lengths = np.zeros(len(owners), np.int64)
    lengths[encoded] = texts.lengths
    return FrameCosines(values, starts, _measure_sums(frames)[owners], lengths, frames)


def _measure_sums(frames: FrameVectors) -> Floats:
    """Return the length of the sum of the vectors of each item; 1 for a single vector and for none."""
    norms = np.ones(len(frames))
    for item in np.flatnonzero(np.diff(frames.offsets) > 1).tolist():
        norms[item] = np.linalg.norm(frames.of(item).sum(axis=0, dtype=np.float64))
    return np.where(norms > 0, norms, np.inf)


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


def break_down_frames(frames: FrameCosines, values: Floats, scale: Callable[[Floats], Floats], pool: Pool) -> Breakdown:
    """List the frames of an item's video, each with what it adds to the score of its candidates.

    ``values`` are those of the candidates; ``scale`` makes an image part of a pooled cosine.
    """
    parts, best = [], list[str]()
    pooled = frames.pool(pool).cosine
    for rank, value in enumerate(values.tolist()):
        cosines = frames.cosines[frames.starts[rank] : frames.starts[rank + 1]]
        shares = _split_value(frames.share(rank, pool), float(pooled[rank]), scale) * _divide(
            value, scale(pooled)[rank]
        )
        names = [
            _name_frame(*one) for one in zip(frames.frames.numbers.tolist(), frames.frames.times.tolist(), strict=True)
        ]
        for name, time, share, own in zip(
            names, frames.frames.times.tolist(), shares.tolist(), cosines.tolist(), strict=True
        ):
            details = {"time": None if np.isnan(time) else time, "cosine": own}
            parts.append(Contribution(name, share / len(values), rank, details))
        best.append(f"best: {names[int(np.argmax(cosines))]}, cosine {cosines.max():.4f}")
    meaning = {
        "mean": "the mean cosine of the frames",
        "best": "the highest cosine of a frame",
        "worst": "the lowest cosine of a frame",
        "vector": "the cosine with the sum of the frames' vectors",
    }[pool]
    return Breakdown(
        parts,
        unit="frame",
        columns=[Column("cosine", decimals=4)],
        formula=f"the score is made of {meaning}; a frame adds its part of it",
        notes=best,
        ordered=True,
        shown=None,
    )


def _name_frame(number: int, time: float) -> str:
    return f"frame {number}" if np.isnan(time) else f"frame {number} at {time:.2f} s"


def _split_value(shares: Floats, pooled: float, scale: Callable[[Floats], Floats]) -> Floats:
    """Split a scaled cosine by the shares of the frames in the cosine: a scale is a straight line around it."""
    step = 1e-4
    low, value, high = scale(np.array([pooled - step, pooled, pooled + step])).tolist()
    slope = 0.0 if value == low else (high - low) / (2 * step)
    parts: Floats = shares * slope + (value - pooled * slope) / len(shares)
    return parts


def _divide(value: float, part: float) -> float:
    """Return the factor from the image part of a score to the score; 1 if there is no image part."""
    return value / part if part else 1.0


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
    texts in lower case, for folders of SigLIP 2 whose tokenizer keeps capitals. ``pool`` says how the cosines with the
    frames of a video become one: their mean, the highest, the lowest, or that with the sum of the frames' vectors.
    """

    order: Literal["crop-first", "rgb-first"] | None = None
    activation: Literal["gelu", "quick_gelu"] | None = None
    lora: Literal["all"] | None = None
    case: Literal["lower"] | None = None
    pool: Pool = "mean"

    reads_videos: ClassVar[bool] = True

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

    def frame_encoders(self) -> list[Encoder]:
        """Return the encoders of frames of videos, so that metrics share one decoding."""
        return [self.encoder()]

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
        similar = compute_similarity(captions, encoder, self.prefix, pool=self.pool)
        values = self.values(similar, captions, encoder)
        reasons = {**similar.faults, **find_blank_texts(captions, references="references" in self.needs)}
        scored = score_encoded_captions(self.label, captions, values, reasons, similar.lengths, encoder.limit)
        about_encoder = [*warn_outside_domain(self.label, captions, encoder), *_warn_about_rank(self.label, encoder)]
        notes = [*scored.notes, *_note_case(self.label, encoder)]
        counts = {**scored.counts, **similar.counts}
        return replace(scored, counts=counts, warnings=[*scored.warnings, *about_encoder], notes=notes)

    def break_down(self, item: CaptionSet, state: Shared[Encoder]) -> Breakdown:
        """List detail units: each adds the score of the caption up to its end minus that of the caption before it.

        For a video, list its frames.
        """
        if item.has_videos and item.clips[0] is not None:
            frames = compute_frame_cosines(item, state.value, self.prefix)
            values = self.values(frames.pool(self.pool), item, state.value)
            return break_down_frames(frames, values, self.scale_cosines, self.pool)

        def score_texts(rank: int, texts: Sequence[str]) -> Floats:
            # All candidates of an item have the same image and references, so the rank does not matter.
            captions = replace(item, candidates=Ragged.of([texts]))
            return self.values(compute_similarity(captions, state.value, self.prefix), captions, state.value)

        return break_down_units(item.candidates.values, score_texts)
