"""The parts of an EMScore: what each token of the caption, each frame and each token of a reference adds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from captious._core.types import Floats, Ints
from captious.metrics.clip._token_matching import PARTS, Sequences, match_pairs
from captious.metrics.clip.encoded import compute_frames
from captious.metrics.explanation import Breakdown, Contribution, MarkedText, label_candidates
from captious.models.encoder import TextEncoder
from captious.render import Column, Table

if TYPE_CHECKING:
    from captious.metrics.clip.emscore import EmScore, Matcher, Target

COLUMNS = (
    Column("nearest", "text", key="nearest"),
    Column("cosine", decimals=3),
    Column("weight", decimals=2),
    Column("as a whole", decimals=4, key="whole"),
)


class Side(NamedTuple):
    """One of the two sequences of a match: what each vector adds by its nearest vector of the other side."""

    names: list[str]
    weights: Floats
    nearest: Ints
    cosines: Floats
    adds: Floats


class TokenMatch(NamedTuple):
    """A candidate matched with its video, or with the best of its references."""

    parts: list[Contribution]
    tokens: Side
    factors: dict[str, float]
    tables: list[Table]


def break_down_matches(metric: EmScore, matcher: Matcher) -> Breakdown:
    """List what each part of each candidate adds; the parts add up to the value of the only item."""
    number = len(matcher.captions.candidates.values)
    share = 1 / (number * len(metric.targets))
    matches = [[_match(metric, matcher, rank, target, share) for target in metric.targets] for rank in range(number)]
    texts = [
        MarkedText(label, own[0].tokens.names, weights=sum(one.tokens.adds for one in own).tolist())  # type: ignore[union-attr]
        for label, own in zip(label_candidates(number), matches, strict=True)
    ]
    fine, coarse = metric.shares
    name = metric.value[-1].upper()
    formula = " + ".join(f"{share:g} · {of}" for share, of in ((coarse, "coarse"), (fine, name)) if share)
    numbers = [", ".join(f"{key} {value:.4f}" for key, value in one.factors.items()) for own in matches for one in own]
    return Breakdown(
        [part for own in matches for one in own for part in one.parts],
        unit="part",
        heading="token or frame",
        columns=COLUMNS,
        texts=texts,
        formula=f"{metric.label} = {formula}; {'; '.join(numbers)}",
        factors=dict(item for one in matches[0] for item in one.factors.items()),
        tables=[table for own in matches for one in own for table in one.tables],
        shown=None,
        ordered=True,
    )


def _match(metric: EmScore, matcher: Matcher, rank: int, target: Target, share: float) -> TokenMatch:
    """Match a candidate with its video or its references; ``share`` is its share of the value."""
    left, right = matcher.list_pairs(target)
    is_own = left == rank
    texts, others, pairs = matcher.load_sides(target, left[is_own], right[is_own])
    values = match_pairs(texts, others, pairs, positive=metric.rules == "paper")
    fine, coarse = metric.shares
    # The best reference of the fine part need not be that of the coarse part.
    best_fine = int(np.nanargmax(values[:, PARTS.index(metric.value[-1])])) if fine else 0
    best_coarse = int(np.nanargmax(values[:, 3]))
    p_factor, r_factor = _share_fine(metric.value[-1], *values[best_fine, :2].tolist()) if fine else (0.0, 0.0)
    text, other = _take(texts, pairs[0][best_fine]), _take(others, pairs[1][best_fine])
    cosines = text.rows @ other.rows.T
    is_video = target == "video"
    names = (
        _name_frames(matcher)
        if is_video
        else [f"{token} (reference {best_fine + 1})" for token in _name_tokens(matcher.encoder, other.ids)]
    )
    tokens = _make_side(text, cosines, share * fine * p_factor, _name_tokens(matcher.encoder, text.ids))
    frames = _make_side(other, cosines.T, share * fine * r_factor, names)
    wholes = np.zeros(len(names))
    if is_video:
        # cos(x_end, v̄) = Σ x_end · v_i / (k · ‖v̄‖)
        mean = other.rows.mean(axis=0)
        wholes = share * coarse * (other.rows @ text.whole[0]) / (len(names) * max(float(np.linalg.norm(mean)), 1e-12))
    parts = [
        *_list_parts(tokens, frames.names, rank, np.zeros(len(tokens.names))),
        *_list_parts(frames, tokens.names, rank, wholes),
    ]
    if coarse and not is_video:
        adds = share * coarse * float(values[best_coarse, 3])
        details = {"nearest": f"reference {best_coarse + 1}", "whole": adds}
        parts.append(Contribution("caption and reference as wholes", adds, rank, details))
    factors = {
        f"{PARTS[column]}({'V' if is_video else 'X*'})": float(np.nanmax(values[:, column])) for column in range(4)
    }
    tables = [_make_table(rank, frames, tokens.names, wholes, other.rows @ text.whole[0])] if is_video else []
    return TokenMatch(parts, tokens, factors, tables)


def _share_fine(kind: str, p: float, r: float) -> tuple[float, float]:
    """Return the factors of P and R with which they add up to P, R or F.

    F is not a sum, but it doubles if P and R double: F = P · dF/dP + R · dF/dR (Euler's theorem).
    """
    if kind in "pr":
        return float(kind == "p"), float(kind == "r")
    if not (p > 0 and r > 0):
        return 0.0, 0.0
    return 2 * r * r / (p + r) ** 2, 2 * p * p / (p + r) ** 2


def _take(side: Sequences, index: int) -> Sequences:
    """Return one sequence."""
    rows = slice(side.starts[index], side.starts[index] + side.counts[index])
    whole = side.whole[index : index + 1]
    counts = side.counts[index : index + 1]
    return Sequences(side.rows[rows], np.zeros(1, np.int64), counts, side.weights[rows], whole, side.ids[rows])


def _make_side(side: Sequences, cosines: Floats, scale: float, names: list[str]) -> Side:
    """Find the nearest vector of the other side for each vector, and what it adds."""
    nearest, best = cosines.argmax(axis=1), cosines.max(axis=1)
    return Side(names, side.weights, nearest, best, scale * side.weights * best / (side.weights.sum() or 1.0))


def _list_parts(side: Side, others: Sequence[str], rank: int, wholes: Floats) -> list[Contribution]:
    """List what each vector of a side adds by its nearest vector, and as a part of the whole."""
    return [
        Contribution(
            name,
            float(adds + whole),
            rank,
            {"nearest": others[nearest], "cosine": float(cosine), "weight": float(weight), "whole": float(whole)},
        )
        for name, weight, nearest, cosine, adds, whole in zip(
            side.names, side.weights, side.nearest, side.cosines, side.adds, wholes, strict=True
        )
    ]


def _make_table(rank: int, frames: Side, tokens: Sequence[str], wholes: Floats, cosines: Floats) -> Table:
    """Make the table of frames: what each adds, its nearest token, and its cosine with the caption as a whole."""
    columns: list[Column | str] = [
        "frame",
        Column("adds", signed=True, bar=True),
        "nearest token",
        Column("cosine", decimals=3),
        Column("cosine of the caption", decimals=3),
    ]
    rows = [
        (name, float(adds + whole), tokens[nearest], float(cosine), float(caption))
        for name, nearest, cosine, adds, whole, caption in zip(
            frames.names, frames.nearest, frames.cosines, frames.adds, wholes, cosines, strict=True
        )
    ]
    return Table(f"frames{rank + 1 if rank else ''}", "what each frame adds", columns, rows)


def _name_frames(matcher: Matcher) -> list[str]:
    """Name the frames of the only item by their numbers in the video and their times."""
    frames = compute_frames(matcher.captions, matcher.encoder)
    return [
        f"frame {number}" if math.isnan(time) else f"frame {number} at {time:.2f} s"
        for number, time in zip(frames.numbers.tolist(), frames.times.tolist(), strict=True)
    ]


def _name_tokens(encoder: TextEncoder, ids: Ints) -> list[str]:
    """Name tokens by their words, or by their ids if the encoder does not know them."""
    name = getattr(encoder, "name_tokens", None)
    return [one.strip() for one in name(ids)] if name else [f"token {number}" for number in ids.tolist()]
