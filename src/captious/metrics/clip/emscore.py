"""EMScore: each token of a caption finds its nearest frame of the video, and each frame its nearest token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from captious._core.files import digest
from captious._core.types import Floats, Ints
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.clip._token_matching import PARTS, Sequences, match_pairs
from captious.metrics.clip.encoded import (
    EncoderMetric,
    compute_frames,
    count_candidate_tokens,
    pair_items,
    warn_outside_domain,
)
from captious.metrics.contract import MeanMetric, Need, Shared
from captious.metrics.statistic_rows import Scored, find_blank_texts, score_encoded_captions
from captious.models.encoder import Encoder, TextEncoder, Weights, encoder_id
from captious.models.frame_features import FrameVectors
from captious.models.token_rows import TokenRows, get_token_vectors, tokenize_texts
from captious.options import get_runtime
from captious.text.token_frequencies import TokenFrequency, find_frequency

if TYPE_CHECKING:
    from captious.metrics.explanation import Breakdown

Target = Literal["video", "references"]
# Pairs of a caption and a video or reference whose vectors are in memory at a time.
PAIRS = 4096
TARGETS: Mapping[str, tuple[Target, ...]] = {
    "video": ("video",),
    "references": ("references",),
    "both": ("video", "references"),
}
SYMBOLS = {"video": "X,V", "references": "X,X*", "both": "X,V,X*"}


@dataclass(frozen=True)
class EmScore(EncoderMetric, MeanMetric):
    """EMScore: the match of a caption's tokens with the frames of its video, and with the tokens of its references.

    With x the vectors of all tokens of the caption, start and end included, v those of the frames, w the weights of the
    tokens, v̄ the mean of the frames, and x_end the vector of the end token, which is that of the caption::

        P = Σ w_j · max over i of cos(x_j, v_i) / Σ w_j      R = mean over i of max over j of cos(x_j, v_i)
        F = 2PR / (P + R)      full_f = ½ · cos(x_end, v̄) + ½ · F      full_p and full_r with P and R in place of F

    Against references, the tokens of a reference replace the frames, with their own weights in R. Of several references
    the best counts, separately for P, R, F and the coarse part. ``against=both``, the default if items have videos and
    references, is the mean of both values. An image counts as a video of one frame. The caption has no prefix.

    ``idf=refs`` weights tokens by ln((N + 1) / (df + 1)) over the N references of this set, ``candidates`` over its
    captions, and a name or path by a corpus of ``captious make idf --tokens``; the end token gets the mean of all idf
    values. By default all weights are 1, so that a value does not depend on other items. ``special`` says which of the
    start and end token are matched: ``both``, ``end`` or ``none``. ``coarse`` is the weight of the cosine of the whole
    caption and the whole video, ½ above.

    P and R can be negative, and 2PR / (P + R) is then not a mean: F is 0 if either is not above 0, and the signature
    counts such captions (``nonpositive``). ``rules=code`` gives the numbers of the authors' program: the formula is
    unchanged, token 0, which pads texts, is counted for idf, and batches of 64 pairs in input order are padded by
    zeros, so that a maximum over padding is at least 0. The value of an item with several candidates is their mean,
    and that of the corpus the mean over items.

    >>> print(EmScore("captious-mini", against="video"), EmScore(value="full_p", coarse=0.25).label)
    emscore(weights=captious-mini,against=video) EMScore(X,V,X*) full_p
    """

    weights: Weights = "openai/clip-vit-base-patch32"
    against: Literal["video", "references", "both"] | None = None
    value: Literal["full_f", "full_p", "full_r", "fine_f", "fine_p", "fine_r", "coarse"] = "full_f"
    idf: str = "none"
    rules: Literal["paper", "code"] = "paper"
    coarse: float = 0.5
    special: Literal["both", "end", "none"] = "both"
    batch: int = 64

    name: ClassVar[str] = "emscore"
    reads_videos: ClassVar[bool] = True
    # That of a cosine. The formula of rules=code can leave it where P or R is negative.
    range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    undefined_reason: ClassVar[str] = "all weights are 0"
    citation: ClassVar[str] = (
        "Shi, Yang, Xu, Yuan, Li, Hu, Zha. EMScore: evaluating video captioning via coarse-grained and fine-grained "
        "embedding matching. CVPR 2022."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.coarse <= 1:
            raise InputError(f"emscore(coarse={self.coarse:g}): expected a weight from 0 to 1")
        if self.batch < 1:
            raise InputError(f"emscore(batch={self.batch}): expected 1 or more")
        if self.batch != 64 and self.rules == "paper":
            raise InputError(
                f"emscore(batch={self.batch}): only rules=code pads batches; add rules=code, or leave it out"
            )

    @property
    def targets(self) -> tuple[Target, ...]:
        """The inputs that captions are matched with."""
        return TARGETS[self.against or "both"]

    @property
    def needs(self) -> tuple[Need, ...]:
        """A video, references, or both, and a model."""
        references = "references" in self.targets or self.idf == "refs"
        return (*(("image",) if "video" in self.targets else ()), *(("references",) if references else ()), "model")

    @property
    def label(self) -> str:
        """EMScore with what is compared, X the caption, V the video, X* the references; then the value."""
        name = f"EMScore({SYMBOLS[self.against or 'both']})"
        return name if self.value == "full_f" else f"{name} {self.value}"

    @property
    def scores_batches(self) -> bool:
        """Whether a value depends on the neighbors of an item, as the padding of ``rules=code`` does."""
        return self.rules == "code" and self.batch > 1

    @property
    def explains(self) -> bool:
        """Whether `explain` works: not in batches, where the value of an item depends on others."""
        return not self.scores_batches

    @property
    def corpus_state(self) -> type[TokenFrequency] | None:
        """The document frequencies of tokens with ``idf=refs`` and ``idf=candidates``."""
        return TokenFrequency if self.idf in ("refs", "candidates") else None

    def choose_inputs(self, references: bool, images: bool) -> EmScore:
        """Return the metric against what the captions have, if ``against`` is not given."""
        if self.against is not None or references == images:
            return self
        return replace(self, against="references" if references else "video")

    def frame_encoders(self) -> list[Encoder]:
        """Return the encoder of frames of videos, so that metrics share one decoding."""
        return [self.encoder()] if "video" in self.targets else []

    def prepare(self, captions: CaptionSet) -> TokenFrequency | Shared[Encoder]:
        """Count the tokens of the references or candidates, or load the encoder."""
        encoder = self.encoder()
        if self.corpus_state is None:
            return Shared(encoder, encoder_id(encoder))
        texts = captions.references if self.idf == "refs" else captions.candidates
        return count_token_frequency(encoder, [text for text in texts.values if text.strip()])

    def settings(self, state: Any) -> Mapping[str, str]:
        """Return what is compared, and the idf corpus by size and content."""
        corpus = self.find_corpus(state, self.encoder())
        settings = {"against": self.against or "both"}
        return settings if corpus is None else {**settings, "idf": f"{self.idf}:{corpus}"}

    def find_corpus(self, state: Any, encoder: Encoder) -> TokenFrequency | None:
        """Return the document frequencies of tokens; None without idf."""
        if self.idf == "none":
            return None
        model = identify_tokenizer(encoder)
        if not isinstance(state, TokenFrequency):
            return find_frequency(self.idf, model, self.name)
        if state.model != model:
            raise InputError(f"cannot score by {model} with the token weights of {state.model}")
        return state

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        """Return rows with the sum of the candidates' values, and their number."""
        encoder = self.encoder()
        matcher = Matcher(self, captions, encoder, self.find_corpus(state, encoder))
        values = np.zeros(len(captions.candidates.values))
        nonpositive = np.zeros(len(values), np.bool_)
        for target in self.targets:
            parts = matcher.match(target)
            values += self.combine(parts) / len(self.targets)
            nonpositive |= parts[:, 2] == 0
        counts: dict[str, int] = {}
        faults: dict[int, str] = {}
        if "video" in self.targets:
            frames = compute_frames(captions, encoder)
            counts, faults = dict(frames.counts), dict(frames.faults)
        reasons = {**faults, **find_blank_texts(captions, references="references" in self.targets)}
        lengths = count_candidate_tokens(captions, encoder)
        scored = score_encoded_captions(self.label, captions, values, reasons, lengths, encoder.limit)
        if self.value.endswith("_f") and self.rules == "paper":
            items = captions.candidates.owners[nonpositive & ~np.isnan(values)]
            counts = {**counts, "nonpositive": len(np.unique(items))}
        warnings = [*scored.warnings, *warn_outside_domain(self.label, captions, encoder)]
        return replace(scored, counts={**scored.counts, **counts}, warnings=warnings)

    def combine(self, parts: Floats) -> Floats:
        """Return the value from the columns P, R, F and coarse."""
        fine, coarse = self.shares
        column = PARTS.index(self.value[-1] if fine else "coarse")
        values: Floats = (
            parts[:, 3] if not fine else fine * parts[:, column] + (coarse * parts[:, 3] if coarse else 0.0)
        )
        return values

    @property
    def shares(self) -> tuple[float, float]:
        """The weights of the fine and of the coarse part."""
        if self.value == "coarse":
            return 0.0, 1.0
        return (1.0, 0.0) if self.value.startswith("fine") else (1 - self.coarse, self.coarse)

    def break_down(self, item: CaptionSet, state: Any) -> Breakdown:
        """List what each token and each frame or token of a reference adds, and the whole caption."""
        from captious.metrics.clip._emscore_parts import break_down_matches

        if self.scores_batches:
            raise InputError(f"{self} does not explain single values, which depend on the batch; add batch=1")
        encoder = self.encoder()
        return break_down_matches(self, Matcher(self, item, encoder, self.find_corpus(state, encoder)))


@dataclass(frozen=True, eq=False)
class Matcher:
    """The candidates of a set matched with videos or references by the options of a metric."""

    metric: EmScore
    captions: CaptionSet
    encoder: Encoder
    corpus: TokenFrequency | None

    def match(self, target: Target) -> Floats:
        """Return P, R, F and coarse of each candidate, the best of its references; NaN if it cannot be compared."""
        options = (self.metric.idf, str(self.corpus), self.metric.rules, self.metric.special, self.metric.batch)
        key = ("emscore", self.encoder.fingerprint, *options, get_runtime().image_options, target)
        return self.captions.once(key, lambda: self._match(target))

    def _match(self, target: Target) -> Floats:
        left, right = self.list_pairs(target)
        result = np.full((len(self.captions.candidates.values), len(PARTS)), np.nan)
        code = self.metric.rules == "code"
        batch = self.metric.batch if code else 0
        # The batches of the authors' code do not cross blocks.
        block = max(PAIRS // self.metric.batch, 1) * self.metric.batch
        # The largest value over references. `fmax` ignores NaN; the authors' code keeps it, so it starts from −∞.
        keep_largest: Callable[..., Any] = np.maximum.at if code else np.fmax.at
        if code:
            result[left] = -np.inf
        for first in range(0, len(left), block):
            part = slice(first, first + block)
            sides = self.load_sides(target, left[part], right[part])
            keep_largest(result, left[part], match_pairs(*sides, batch, positive=not code))
            get_runtime().progress("pairs", min(first + block, len(left)), len(left))
        return result

    def list_pairs(self, target: Target) -> tuple[Ints, Ints]:
        """Return the candidate of each pair, and its item or reference, in input order."""
        candidates, references = self.captions.candidates, self.captions.references
        left = np.flatnonzero(~candidates.blank)
        if target == "video":
            frames = compute_frames(self.captions, self.encoder)
            items = candidates.owners[left]
            usable = np.diff(frames.offsets)[items] > 0
            return left[usable], items[usable]
        right = np.flatnonzero(~references.blank)
        candidate, reference, _ = pair_items(candidates.owners[left], references.owners[right])
        return left[candidate], right[reference]

    def load_sides(self, target: Target, left: Ints, right: Ints) -> tuple[Sequences, Sequences, tuple[Ints, Ints]]:
        """Return the vectors of both sides of some pairs."""
        captions = self.captions
        texts = [captions.candidates.values[index] for index in left.tolist()]
        if target == "video":
            items, numbers = np.unique(right, return_inverse=True)
            rows = get_token_vectors(self.encoder, texts)
            frames = take_frames(compute_frames(captions, self.encoder), items)
            return self.weigh(rows), frames, (rows.index, numbers)
        texts += [captions.references.values[index] for index in right.tolist()]
        rows = get_token_vectors(self.encoder, texts)
        tokens = self.weigh(rows)
        # Both sides are in the same rows: the candidates first, then the references.
        return tokens, tokens, (rows.index[: len(left)], rows.index[len(left) :])

    def weigh(self, rows: TokenRows) -> Sequences:
        """Return the vectors of tokens with their weights, without the special tokens that are not matched."""
        weights = np.ones(len(rows.ids))
        ends = rows.starts + rows.counts - 1
        if self.corpus is not None:
            weights, weights[ends] = self._weigh_ids(rows.ids), self._weigh_end()
        vectors = rows.flat.astype(np.float64)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        sequences = Sequences(vectors, rows.starts, rows.counts, weights, rows.vectors.astype(np.float64), rows.ids)
        if self.metric.special == "both":
            return sequences
        inside = np.ones(len(weights), np.bool_)
        inside[rows.starts] = False
        if self.metric.special == "none":
            inside[ends] = False
        return sequences.keep(inside)

    def _weigh_ids(self, ids: Ints) -> Floats:
        assert self.corpus is not None
        idf = self.corpus.compute_idf(ids)
        # In the authors' code every text is padded by the token 0, so that it occurs in all of them.
        return np.where(ids == 0, 0.0, idf) if self.metric.rules == "code" else idf

    def _weigh_end(self) -> float:
        """Return the weight of the end token: the mean idf of all tokens of the corpus."""
        assert self.corpus is not None
        ids = self.corpus.counts.keys.astype(np.int64)
        if self.metric.rules == "code":
            ids = np.union1d(ids, [0])
        return float(self._weigh_ids(ids).mean()) if len(ids) else 0.0


def take_frames(frames: FrameVectors, items: Ints) -> Sequences:
    """Return the frames of some items, each of the weight 1, and the mean of each item's frames at unit length."""
    counts = np.diff(frames.offsets)[items]
    starts = np.cumsum(counts) - counts
    flat = np.repeat(frames.offsets[items] - starts, counts) + np.arange(counts.sum())
    rows = frames.rows[frames.index[flat]].astype(np.float64)
    means = np.add.reduceat(rows, starts)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    return Sequences(rows, starts, counts, np.ones(len(rows)), means, frames.numbers[flat])


def count_token_frequency(encoder: TextEncoder, texts: Sequence[str]) -> TokenFrequency:
    """Count the texts in which each token of an encoder occurs."""
    ids, lengths = tokenize_texts(encoder, texts)
    return TokenFrequency.of(identify_tokenizer(encoder), ids, np.minimum(lengths, encoder.limit))


def identify_tokenizer(encoder: TextEncoder) -> str:
    """Return the identity of an encoder's token ids: encoders with the same tokenizer share idf corpora."""
    text = getattr(getattr(encoder, "tokenizer", None), "text", None)
    text = text() if callable(text) else text
    return (
        f"the tokenizer {digest(text.encode())}" if isinstance(text, str) else f"{encoder.name}#{encoder.fingerprint}"
    )
