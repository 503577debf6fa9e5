"""Which words a picture depends on: a token is taken out, the text painted again, the pictures compared (Figure 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from captious.analyses.finding import Figure, Finding, Grid, between, per_cent, plain_name
from captious.analyses.resampling import Resampling, shares
from captious.encoders.encoder import Encoder
from captious.errors import InputError
from captious.imagine.painters import Painter
from captious.imagine.pictures import Imagined, imagine
from captious.measurement import Floats
from captious.report.plot import Mark, intervals
from captious.study.resampling import Estimate
from captious.text.sentences import sentences
from captious.text.tagging import tagger_named

UNIVERSAL = {
    **dict.fromkeys(("NN", "NNS"), "NOUN"),
    **dict.fromkeys(("NNP", "NNPS"), "PROPN"),
    **dict.fromkeys(("JJ", "JJR", "JJS"), "ADJ"),
    **dict.fromkeys(("RB", "RBR", "RBS", "WRB"), "ADV"),
    **dict.fromkeys(("VB", "VBD", "VBG", "VBN", "VBP", "VBZ"), "VERB"),
    **dict.fromkeys(("DT", "PDT", "WDT"), "DET"),
    **dict.fromkeys(("PRP", "PRP$", "WP", "WP$", "EX"), "PRON"),
    **dict.fromkeys(("IN", "RP"), "ADP"),
    **dict.fromkeys(("TO", "POS"), "PART"),
    "MD": "AUX",
    "CC": "CCONJ",
    "CD": "NUM",
    "UH": "INTJ",
}
"""Penn tags as Universal ones, which the paper reports; marks and what is unknown are left alone."""
_AUXILIARIES = "am is are was were be been being has have had having do does did 's 're"
AUXILIARIES = frozenset(_AUXILIARIES.split())
Grouping = Callable[[str, str], str]
"""A token and its Penn tag to the name it is counted under; empty to leave it alone."""


class Masked(NamedTuple):
    """A text without one of its tokens."""

    text: int
    """Which text."""
    group: str
    token: str
    rest: str


def universal(token: str, tag: str) -> str:
    """The Universal tag of a token.

    >>> universal("dog", "NN"), universal("is", "VBZ"), universal("runs", "VBZ"), universal(".", ".")
    ('NOUN', 'AUX', 'VERB', '')
    """
    return "AUX" if token.lower() in AUXILIARIES and tag.startswith("VB") else UNIVERSAL.get(tag, "")


def masked(texts: Sequence[str], grouping: Grouping = universal, tagger: str = "captious") -> list[Masked]:
    """Every text without each of its tokens, one at a time.

    >>> [(one.group, one.rest) for one in masked(["A dog runs."])]
    [('DET', 'dog runs.'), ('NOUN', 'A runs.'), ('VERB', 'A dog.')]
    """
    cut = [(number, one) for number, text in enumerate(texts) for one in sentences(text)]
    tags = tagger_named(tagger)([list(one.tokens) for _, one in cut])
    found = []
    for (number, one), marks in zip(cut, tags, strict=True):
        for token, tag, start, stop in zip(one.tokens, marks, one.starts, one.stops, strict=True):
            group = grouping(token, tag)
            before, after = texts[number][:start].rstrip(), texts[number][stop:].lstrip()
            gap = " " if before and after[:1].isalnum() else ""
            if group and (rest := before + gap + after).strip(" .,!?"):
                found.append(Masked(number, group, token, rest))
    return found


class Influence(NamedTuple):
    """What taking out tokens of one group does."""

    group: str
    tokens: int
    frequency: float
    """Of all tokens that were taken out."""
    decrease: Estimate
    """(baseline − masked) / baseline, over the tokens of the group, with an interval over texts."""
    common: tuple[str, ...]
    """The most frequent tokens."""


def influences(
    texts: Sequence[str],
    painter: Painter,
    encoder: Encoder,
    seeds: int = 5,
    grouping: Grouping = universal,
    tagger: str = "captious",
    how: Resampling | None = None,
) -> tuple[list[Influence], Floats, int]:
    """The influence of each group, the largest first; the baseline of each text; texts that could not be painted.

    The baseline is the mean cosine of two pictures of one text from different seeds. What is left of a text is compared
    with the whole text from different seeds too, so that a token that does not matter has the decrease 0.
    """
    if seeds < 2:
        raise InputError(f"--seeds {seeds}: the baseline compares pictures of different seeds, expected at least 2")
    made = masked(texts, grouping, tagger)
    if not made:
        raise InputError("no word to take out: expected texts of more than one word")
    seen = imagine(painter, encoder, [*texts, *(one.rest for one in made)], range(seeds))
    whole = np.array([one.text for one in made])
    base = _across(seen, np.arange(len(texts)), np.arange(len(texts)))
    after = _across(seen, whole, len(texts) + np.arange(len(made)))
    known = ~np.isnan(base[whole]) & ~np.isnan(after)
    if not known.any():
        faults = filter(None, map(seen.fault, range(len(seen.index))))
        raise InputError(f"nothing to compare: {next(faults, 'no text was painted with and without a word')}")
    counts = Counter(one.group for one in made)
    names = list(counts)
    drop, trials = (np.zeros((len(made), len(names))) for _ in range(2))
    for place, one in enumerate(made):
        if known[place]:
            column = names.index(one.group)
            drop[place, column] = base[whole[place]] - after[place]
            trials[place, column] = base[whole[place]]
    estimates = shares(drop, trials, whole, how or Resampling()).estimates()
    found = [
        Influence(name, counts[name], counts[name] / len(made), estimate, _common(made, name))
        for name, estimate in zip(names, estimates, strict=True)
    ]
    return sorted(found, key=lambda one: -np.nan_to_num(one.decrease.value, nan=-np.inf)), base, int((~known).sum())


def influence_finding(
    name: str, found: Sequence[Influence], base: Floats, unpainted: int, signature: str, how: Resampling, most: int = 10
) -> Finding:
    """The table and the two figures, frequency above, decrease below."""
    shown = found[:most]
    about = (
        "Each word is taken out of its text, what is left painted again. The decrease is of the cosine between "
        "pictures of the text and pictures of what is left, relative to pictures of the text alone, seeds always apart."
    )
    rows = tuple(
        (
            one.group,
            ", ".join(one.common),
            f"{one.tokens:,}",
            per_cent(one.frequency),
            per_cent(one.decrease.value),
            between(one.decrease),
        )
        for one in shown
    )
    columns = ("tag", "frequent words", "words", "% of words", "decrease %", f"{how.level:.0%} interval")
    frequency = [Mark(one.group, 100 * one.frequency) for one in shown]
    decrease = [
        Mark(one.group, 100 * one.decrease.value, 100 * one.decrease.low, 100 * one.decrease.high) for one in shown
    ]
    notes = [
        f"baseline: mean cosine {np.nanmean(base):.4f} of pictures of one text, over {(~np.isnan(base)).sum():,} texts"
    ]
    if unpainted:
        notes.append(f"{unpainted:,} texts without a word could not be painted, or the text itself could not")
    return Finding(
        f"{plain_name(name)}: what the pictures depend on",
        about,
        (Grid("Influence of parts of speech", columns, rows, words=2),),
        (
            Figure(intervals({"frequency": frequency}, "frequency"), "How many of all words, per cent."),
            Figure(intervals({"decrease": decrease}, "decrease"), "Relative decrease in similarity, per cent."),
        ),
        tuple(notes),
        (signature, f"ci:{how}"),
        {"influences": [_facts(one) for one in found], "baseline": float(np.nanmean(base)), "unpainted": unpainted},
    )


def _facts(one: Influence) -> dict[str, Any]:
    return {**one._asdict(), "decrease": asdict(one.decrease)}


def _across(seen: Imagined, one: npt.NDArray[np.int64], two: npt.NDArray[np.int64]) -> Floats:
    """Mean cosine of the pictures of two texts over all pairs of different seeds; NaN where one is missing."""
    rows = np.concatenate([seen.rows, np.full((1, seen.rows.shape[1]), np.nan, np.float32)])
    sums = rows[seen.index].astype(np.float64)  # texts × seeds × d; −1 is the row of NaN
    number = sums.shape[1]
    every = np.einsum("ij,ij->i", sums.sum(axis=1)[one], sums.sum(axis=1)[two])
    same = np.einsum("isj,isj->i", sums[one], sums[two])
    result: Floats = (every - same) / (number * (number - 1))
    return result


def _common(made: Sequence[Masked], group: str, number: int = 5) -> tuple[str, ...]:
    counted = Counter(one.token.lower() for one in made if one.group == group)
    return tuple(token for token, _ in counted.most_common(number))
