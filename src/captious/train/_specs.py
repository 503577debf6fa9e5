"""Specificity (SPECS): an additional right detail must raise the score, a wrong one must lower it.

The captions: a base up to unit k, a positive up to unit k + 1, a negative up to k followed by a wrong unit.

The published data are made as follows: the negative unit is the one with the same index k (or the last) of a random row
of the whole data with another image, and its words are shuffled 90 % of the time; the chain of a row ends if a text
exceeds the encoder's limit; rows without any pair are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal

import numpy as np

from captious._core.random import draw_for_rows
from captious._core.types import Bools, Ints
from captious.errors import InputError, require
from captious.train import distributed
from captious.train._contrast import ContrastiveObjective, EncoderMethod, contrast
from captious.train._data import Example, TokenFrame, TokenLists, number_images, tokenize_texts
from captious.train._objective import Objective, TrainingBatch, Validation
from captious.train._schedule import Rows
from captious.train._towers import Towers, build_towers
from captious.train._validation import SpecificityValidation

torch = require("torch", "clip")

Tensor = Any
Source = Literal["dataset", "epoch", "batch", "given"]
Units = Literal["logit", "cosine"]
# Published upper bound of the margin, in logit units: about .015 of cosine.
MOST_MARGIN = 1.5
# Number of captions used to check that tokens of a text are the tokens of its units.
CHECKED = 1000
_PICK, _COIN, _WORDS, _STEP = 11, 12, 13, 14
_MOST_WORDS = 1 << 16


@dataclass(frozen=True)
class NegativeUnits:
    """The source of negative units.

    ``dataset``: any row, drawn once, as published. ``epoch``: any row, drawn each epoch. ``batch``: another row of the
    batch, as in the paper's text. ``given``: the row's own ``wrong_units``, never shuffled. ``by_row`` shuffles the
    units of the first share of the rows, as the published code does, instead of random ones.
    """

    source: Source = "dataset"
    shuffle: float = 0.9
    by_row: bool = False
    seed: int = 42


@dataclass(frozen=True, eq=False)
class Chains:
    """The units of all examples, flat: those of example i are ``first[i]`` to ``first[i + 1] − 1``."""

    texts: Sequence[str]
    wrong: Sequence[str]
    tokens: TokenLists
    first: Ints
    images: Ints
    usable: Ints
    """The number of usable k of each example: both texts fit the limit."""
    negatives: NegativeUnits
    frame: TokenFrame
    encoder: Any
    additive: bool
    """Whether the tokens of joined units are the joined tokens, so texts need not be tokenized again."""

    def __len__(self) -> int:
        return len(self.images)

    @property
    def counts(self) -> Ints:
        """The number of units of each example."""
        return np.diff(self.first)

    def steps(self, rows: Rows, epoch: int) -> Ints:
        """Draw the k of each row in this epoch, uniformly from the usable ones."""
        drawn = draw_for_rows(rows, self.negatives.seed, epoch, _STEP)
        return (drawn * self.usable[rows]).astype(np.int64)

    def make_triplets(self, rows: Rows, steps: Ints, epoch: int = 0) -> list[tuple[Ints, Ints, Ints]]:
        """Return base, positive and negative tokens of each row at its step."""
        wrong = self._draw_wrong_texts(rows, steps, epoch)
        if not self.additive:
            return self._tokenize_joined(rows, steps, wrong)
        units = tokenize_texts(self.encoder, wrong)
        triplets = []
        for number, (row, step) in enumerate(zip(rows.tolist(), steps.tolist(), strict=True)):
            start = int(self.first[row])
            base = self.tokens.span(start, start + step + 1)
            positive = self.tokens.span(start, start + step + 2)
            around = self.frame.around
            triplets.append((around(base), around(positive), around(base, units[number])))
        return triplets

    def _tokenize_joined(self, rows: Rows, steps: Ints, wrong: Sequence[str]) -> list[tuple[Ints, Ints, Ints]]:
        texts = []
        for row, step, wrong_unit in zip(rows.tolist(), steps.tolist(), wrong, strict=True):
            start = int(self.first[row])
            base = " ".join(self.texts[start : start + step + 1])
            texts += [base, " ".join(self.texts[start : start + step + 2]), f"{base} {wrong_unit}"]
        tokens = tokenize_texts(self.encoder, texts)
        framed = [self.frame.around(tokens[number]) for number in range(len(texts))]
        return [(framed[at], framed[at + 1], framed[at + 2]) for at in range(0, len(framed), 3)]

    def _draw_wrong_texts(self, rows: Rows, steps: Ints, epoch: int) -> list[str]:
        units = self.first[rows] + steps
        if self.negatives.source == "given":
            return [self.wrong[unit_index + 1] for unit_index in units.tolist()]
        salt = epoch + 1 if self.negatives.source != "dataset" else 0
        if self.negatives.source == "batch":
            others = rows[_draw_others(self.images[rows], np.arange(len(rows)), rows, self.negatives.seed, salt)]
        else:
            others = _draw_others(self.images, rows, units, self.negatives.seed, salt)
        chosen = self.first[others] + np.minimum(steps, self.counts[others] - 1)
        if self.negatives.by_row:
            shuffled = rows < self.negatives.shuffle * len(self)
        else:
            shuffled = draw_for_rows(units, self.negatives.seed, salt, _COIN) < self.negatives.shuffle
        words = [self.texts[index].split() for index in chosen.tolist()]
        return _shuffle_words(words, shuffled, units, self.negatives.seed, salt)

    def subset(self, rows: Rows) -> Chains:
        """Return the chains of these examples only, also as the source of negatives."""
        spans = [range(self.first[row], self.first[row + 1]) for row in rows]
        units = list(chain.from_iterable(spans))
        texts = [self.texts[unit] for unit in units]
        wrong = [self.wrong[unit] for unit in units] if self.wrong else []
        return _build_chains(texts, wrong, self.counts[rows], self.images[rows], self.negatives, self.encoder)


def build_chains(
    examples: Sequence[Example], images: Ints, negatives: NegativeUnits, encoder: Any
) -> tuple[Chains, Rows]:
    """Build the chains of examples with units; return them and the examples kept, those with at least one pair."""
    if negatives.source == "given" and not all(example.wrong_units for example in examples):
        missing = next(example for example in examples if not example.wrong_units)
        raise InputError(f"{missing.where}: has no wrong_units, which negatives='given' needs in every row")
    rows = np.arange(len(examples))
    result = _build_chains(
        [unit for example in examples for unit in example.units],
        [unit for example in examples for unit in example.wrong_units] if negatives.source == "given" else [],
        np.array([len(example.units) for example in examples]),
        images,
        negatives,
        encoder,
    )
    # Dropping an example changes the negatives of others, so repeat until all remaining ones are usable.
    while (result.usable == 0).any():
        keep = np.flatnonzero(result.usable > 0)
        if not len(keep):
            raise InputError("no caption has two detail units that fit the encoder's limit: nothing to learn from")
        rows, result = rows[keep], result.subset(keep)
    return result, rows


def _build_chains(
    texts: list[str], wrong: list[str], counts: Ints, images: Ints, negatives: NegativeUnits, encoder: Any
) -> Chains:
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    if negatives.source != "given" and len(np.unique(images)) < 2:
        raise InputError("all rows have one image: negative units come from other images")
    tokens, frame = tokenize_texts(encoder, texts), TokenFrame.of(encoder)
    result = Chains(
        texts, wrong, tokens, first, images, np.zeros(len(images), np.int64), negatives, frame, encoder,
        additive=_is_additive(texts, tokens, first, encoder),
    )  # fmt: skip
    result.usable[:] = _count_usable(result)
    return result


def _count_usable(chains: Chains) -> Ints:
    """Count the leading k of each example whose positive and negative text fit the limit."""
    counts, room = chains.counts, chains.frame.limit - chains.frame.size
    total = np.concatenate([[0], np.cumsum(chains.tokens.lengths)])
    row = np.repeat(np.arange(len(chains)), counts)
    unit_index = np.arange(len(row))
    step = unit_index - chains.first[row]
    last = unit_index == chains.first[row + 1] - 1
    base = total[unit_index + 1] - total[chains.first[row]]
    positive = np.where(last, room + 1, total[np.minimum(unit_index + 2, len(row))] - total[chains.first[row]])
    negative = base
    if chains.negatives.source == "given":
        negative = base + np.roll(tokenize_texts(chains.encoder, chains.wrong).lengths, -1)
    elif chains.negatives.source == "dataset" and len(row):
        others = _draw_others(chains.images, row, unit_index, chains.negatives.seed, 0)
        negative = base + chains.tokens.lengths[chains.first[others] + np.minimum(step, counts[others] - 1)]
    fits = ~last & (positive <= room) & (negative <= room)
    stopped = np.where(fits, counts[row], step)
    usable: Ints = counts.copy()
    np.minimum.at(usable, row, stopped)
    return usable


def _draw_others(images: Ints, rows: Ints, indices: Ints, seed: int, salt: int) -> Ints:
    """Draw another row for each row, uniformly from those with another image, seeded by the row's index."""
    others: Ints = rows.copy()
    for again in range(1000):
        same = np.flatnonzero(images[others] == images[rows])
        if not len(same):
            return others
        others[same] = (draw_for_rows(indices[same], seed, salt, _PICK, again) * len(images)).astype(np.int64)
    raise InputError("nearly all rows have the same image: negative units come from other images")


def _shuffle_words(units: list[list[str]], chosen: Bools, indices: Ints, seed: int, salt: int) -> list[str]:
    """Join the words of units; those of the chosen units are shuffled, seeded by the unit's index."""
    sizes = np.array([len(words) for words in units])
    owner = np.repeat(np.arange(len(units)), sizes)
    word = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    keys = np.where(chosen[owner], draw_for_rows(indices[owner] * _MOST_WORDS + word, seed, salt, _WORDS), word)
    order = word[np.lexsort((keys, owner))].tolist()
    texts, start = [], 0
    for words in units:
        texts.append(" ".join([words[number] for number in order[start : start + len(words)]]))
        start += len(words)
    return texts


def _is_additive(texts: Sequence[str], tokens: TokenLists, first: Ints, encoder: Any) -> bool:
    """Return True if the tokens of whole captions are the concatenated tokens of their units."""
    rows = range(min(CHECKED, len(first) - 1))
    joined = tokenize_texts(encoder, [" ".join(texts[first[row] : first[row + 1]]) for row in rows])
    room = encoder.limit - TokenFrame.of(encoder).size
    return all(np.array_equal(joined[row], tokens.span(first[row], first[row + 1])[:room]) for row in rows)


@dataclass
class Margin:
    """The margin ε of the two hinge losses.

    ``code``: one ε for both, carried from step to step as in the published code. The positive hinge uses the ε left by
    the previous step's negative gap; then ε becomes the clamped mean of s_pos − s_base, which the negative hinge uses;
    then the clamped mean of s_base − s_neg, for the next step. It starts at 0. ``paper``: each hinge uses the clamped
    mean gap of its own pair in this batch. A number: a fixed margin.
    """

    kind: str = "code"
    value: Tensor = field(default_factory=lambda: torch.zeros(()))

    @classmethod
    def named(cls, text: str) -> Margin:
        """Parse ``code``, ``paper``, or a number."""
        if text in ("code", "paper"):
            return cls(text)
        try:
            return cls("fixed", torch.tensor(float(text)))
        except ValueError:
            raise InputError(f"margin {text!r}, expected code, paper, or a number in the unit of the hinges") from None

    def compute_hinges(
        self, base: Tensor, positive: Tensor, negative: Tensor, gather: bool = False, most: Any = MOST_MARGIN
    ) -> tuple[Tensor, Tensor]:
        """Return the positive and the negative loss of a batch of similarities; update the margin.

        ``most`` is the largest margin, in the unit of the similarities.
        """
        margin = self.value.to(base.device)
        if self.kind == "fixed":
            return _compute_hinge(positive - base, margin), _compute_hinge(base - negative, margin)
        if self.kind == "paper":
            self.value = _compute_gap(positive - base, gather, most)
            return _compute_hinge(positive - base, self.value), _compute_hinge(
                base - negative, _compute_gap(base - negative, gather, most)
            )
        positive_loss = _compute_hinge(positive - base, margin)
        self.value = _compute_gap(positive - base, gather, most)
        negative_loss = _compute_hinge(base - negative, self.value)
        self.value = _compute_gap(base - negative, gather, most)
        return positive_loss, negative_loss


def _compute_hinge(gap: Tensor, margin: Tensor) -> Tensor:
    return torch.relu(margin - gap).mean()


def _compute_gap(gap: Tensor, gather: bool, most: Any) -> Tensor:
    return distributed.compute_mean(gap.detach().mean(), gather).clamp(min=0).clamp(max=most)


@dataclass
class SpecsObjective(ContrastiveObjective):
    """The SPECS objective: weights · (contrast of the full caption, positive hinge, negative hinge).

    As in the published code the contrast is text to image only, among the images of this process; ``both`` adds the
    other direction, ``gather`` uses the images (and the margin's mean) of all processes.

    The hinges compare cosines times exp(logit scale), as the published code does, or with ``units="cosine"`` plain
    cosines, as the paper writes them; the largest margin is then 1.5 / exp(logit scale). With a margin of the batch
    this divides both hinges, and so their weight against the contrast, by exp(logit scale), about 100.
    """

    towers: Towers
    full: TokenLists
    chains: Chains
    weights: tuple[float, float, float] = (1.0, 8.0, 0.8)
    margin: Margin = field(default_factory=Margin)
    both: bool = False
    gather: bool = False
    units: Units = "logit"
    texts_per_image = 4

    def __len__(self) -> int:
        return len(self.chains)

    def batch(self, rows: Rows, epoch: int, count: int = 1) -> TrainingBatch:
        """Prepare images, each with its full, positive, base and negative caption."""
        parts = np.split(rows, count)
        triplets = [
            one for part in parts for one in self.chains.make_triplets(part, self.chains.steps(part, epoch), epoch)
        ]
        texts = [
            (self.towers.frame.around(self.full[row]), positive, base, negative)
            for row, (base, positive, negative) in zip(rows.tolist(), triplets, strict=True)
        ]
        return TrainingBatch(
            self.towers.make_image_batch(self.chains.images[rows], epoch),
            self.towers.make_text_batch(texts),
            joined=count,
        )

    def losses(self, images: Tensor, texts: Tensor) -> dict[str, Tensor]:
        """Compute the contrast, the two hinges, the margin, and the specificity rates within the batch."""
        scale = self.towers.scale
        cosines = (texts[:, 1:] * images[:, None]).sum(-1)
        logits = self.units == "logit"
        positive, base, negative = (scale * cosines if logits else cosines).unbind(1)
        most = MOST_MARGIN if logits else MOST_MARGIN / scale.detach()
        entropy = contrast(images, texts[:, 0], scale, both=self.both, gather=self.gather)
        first, second = self.margin.compute_hinges(base, positive, negative, self.gather, most)
        alpha, beta, gamma = self.weights
        return {
            "loss": alpha * entropy + beta * first + gamma * second,
            "contrast": entropy,
            "positive": first,
            "negative": second,
            "margin": self.margin.value,
            "sr_pos": (positive > base).float().mean(),
            "sr_neg": (base > negative).float().mean(),
        }

    def state(self) -> dict[str, Any]:
        """Return the current margin."""
        return {"margin": self.margin.value.detach().clone()}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the margin."""
        self.margin.value = state["margin"].to(self.towers.encoder.device)


class SpecsMethod(EncoderMethod):
    """The training of ``captious train specs``."""

    def objective(self, examples: Sequence[Example], model: Any) -> Objective:
        """Make the objective from captions of which at least two detail units fit."""
        options, settings = self.job.options, self.job.settings
        negatives = NegativeUnits(options.negatives, options.shuffle, options.shuffle_rows, settings.seed)
        with_units, usable, rows = self._build_chains(examples, negatives, model)
        if len(rows) < len(with_units):
            left = len(with_units) - len(rows)
            self.notes.append(f"{left} of {len(with_units)} captions have no two detail units that fit: left out")
        if options.negatives != "given" and any(example.wrong_units for example in with_units):
            self.notes.append("the data have wrong_units; negatives='given' would use them")
        learnt = [with_units[row] for row in rows]
        towers, images = self.towers(learnt, model)
        full = self.report_cut_texts(tokenize_texts(model, [example.captions[0] for example in learnt]), model)
        return SpecsObjective(
            towers,
            full,
            replace(usable, images=images),
            options.loss_weights,
            Margin.named(options.margin),
            options.contrast == "both",
            settings.gather,
            options.units,
        )

    def validation(self, checks: Sequence[Example], model: Any) -> Validation:
        """Make the validation by Specificity Rate."""
        source: Source = "given" if self.job.options.negatives == "given" else "dataset"
        negatives = NegativeUnits(source, shuffle=0, seed=self.job.settings.seed)
        with_units, usable, rows = self._build_chains(checks, negatives, model)
        towers, images, _ = build_towers([with_units[row] for row in rows], model, self.job)
        return SpecificityValidation(towers, replace(usable, images=images))

    def _build_chains(
        self, examples: Sequence[Example], negatives: NegativeUnits, encoder: Any
    ) -> tuple[list[Example], Chains, Rows]:
        with_units = add_units(examples, self.job.options.grammar)
        return with_units, *build_chains(with_units, number_images(with_units)[1], negatives, encoder)


def add_units(examples: Sequence[Example], grammar: str = "code") -> list[Example]:
    """Return the examples with detail units: their own, or those parsed from their long caption."""
    bare = [number for number, example in enumerate(examples) if not example.units]
    with_units = list(examples)
    if bare:
        from captious.syntax.units import units

        segments = units([examples[number].captions[0] for number in bare], grammar=grammar)
        for number, parts in zip(bare, segments, strict=True):
            with_units[number] = replace(examples[number], units=tuple(parts))
    return with_units
