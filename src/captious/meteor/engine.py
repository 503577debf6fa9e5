"""METEOR's counts for many items at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from captious.meteor.align import Candidate, Match, Options, align, matches
from captious.meteor.normalise import clean, normalise
from captious.meteor.score import COLUMNS, MODULES, Parameters, pair_score, value
from captious.meteor.sentences import Batch, Sentence, read_batch
from captious.meteor.tables import Tables

BATCH = 8192
"""Items whose captions are held in memory together."""

_MARGIN = 1e-9  # far above the rounding error of a score, far below any difference that is printed


@dataclass(frozen=True)
class Counts:
    """What METEOR counts on a set of items."""

    table: npt.NDArray[np.float64]
    """One row per item, from the reference with the highest score (the first of equals); see `score.COLUMNS`."""
    best: npt.NDArray[np.int64]
    """The number of that reference."""
    cleaned: int
    """Captions, candidates and references, that held a line break, a tab, a control character or `|||`."""


def count(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    tables: Tables,
    tuning: Parameters,
    modules: Sequence[str] = MODULES,
) -> Counts:
    """Align each candidate with each of its references and keep the counts of the best."""
    table = np.zeros((len(candidates), len(COLUMNS)))
    best = np.zeros(len(candidates), dtype=np.int64)
    cleaned = 0
    for begin in range(0, len(candidates), BATCH):
        part = slice(begin, begin + BATCH)
        with _no_collection():
            table[part], best[part], found = _count(candidates[part], references[part], tables, tuning, modules)
        cleaned += found
    return Counts(table, best, cleaned)


def _count(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    tables: Tables,
    tuning: Parameters,
    modules: Sequence[str],
) -> tuple[list[list[int]], list[int], int]:
    numbers, batch, cleaned = _read(candidates, references, tables, modules)
    ready: dict[str, Candidate] = {}
    rows, best = [], []
    for candidate, group in zip(candidates, references, strict=True):
        if candidate not in ready:
            ready[candidate] = Candidate(batch.sentences[numbers[candidate]], batch)
        row, chosen = _best(ready[candidate], [batch.sentences[numbers[one]] for one in group], tuning)
        rows.append(row)
        best.append(chosen)
    return rows, best, cleaned


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the cyclic garbage collector: nothing here makes cycles, and its rounds double the time."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def _read(
    candidates: Sequence[str], references: Sequence[Sequence[str]], tables: Tables, modules: Sequence[str]
) -> tuple[dict[str, int], Batch, int]:
    """The number of each distinct caption, the captions made ready, and how many of all had to be cleaned."""
    numbers: dict[str, int] = {}
    for captions in (candidates, *references):
        for caption in captions:
            if caption not in numbers:
                numbers[caption] = len(numbers)
    tokens, dirty = [], set()
    for caption in numbers:
        text, changed = clean(caption)
        tokens.append(normalise(text, tables.prefixes))
        if changed:
            dirty.add(caption)
    count = sum(caption in dirty for captions in (candidates, *references) for caption in captions) if dirty else 0
    return numbers, read_batch(tokens, tables, modules), count


def _best(candidate: Candidate, references: Sequence[Sentence], tuning: Parameters) -> tuple[list[int], int]:
    """The counts of the reference with the highest score, and its number.

    References are taken in the order of the highest score they could reach, so that most need no search.
    """
    found = [matches(candidate, reference) for reference in references]
    bounds = [
        highest(candidate.sentence, reference, options, tuning)
        for reference, options in zip(references, found, strict=True)
    ]
    order = sorted(range(len(references)), key=bounds.__getitem__, reverse=True)
    best = [0] * len(COLUMNS)
    lead, chosen = -1.0, 0
    for number in order:
        if bounds[number] < lead - _MARGIN:
            break
        reference = references[number]
        row = count_matches(candidate.sentence, reference, align(found[number]))
        reached = pair_score(row, tuning)
        if reached > lead or (reached == lead and number < chosen):
            lead, chosen, best = reached, number, row
    return best, chosen


def highest(candidate: Sentence, reference: Sentence, options: Options, tuning: Parameters) -> float:
    """A score no alignment made of these matches exceeds: every word matched by its best module, in one chunk."""
    words, other_words = options.covered.bit_count(), options.other_covered.bit_count()
    if not words:
        return 0.0
    whole = words == len(reference.words) and other_words == len(candidate.words)
    return value(
        _reach(options.other_covered, options.other_exact, candidate, tuning),
        _reach(options.covered, options.exact, reference, tuning),
        0.0 if whole else 2 / (words + other_words),
        tuning,
    )


def _reach(covered: int, exact: int, sentence: Sentence, tuning: Parameters) -> float:
    function, delta = sentence.function, tuning.delta
    near = covered & ~exact
    exact_function, near_function = (exact & function).bit_count(), (near & function).bit_count()
    top = max(tuning.weights[1:])
    content = exact.bit_count() - exact_function + top * (near.bit_count() - near_function)
    total, functional = len(sentence.words), function.bit_count()
    reached = delta * content + (1 - delta) * (exact_function + top * near_function)
    return reached / (delta * (total - functional) + (1 - delta) * functional)


def count_matches(candidate: Sentence, reference: Sentence, found: list[Match]) -> list[int]:
    """Count the matches of an alignment, which run from left to right over the reference; see `score.COLUMNS`."""
    words, other_words = len(reference.words), len(candidate.words)
    function, other_function = reference.function, candidate.function
    row = [other_words, words, other_function.bit_count(), function.bit_count(), *[0] * 19]
    matched = other_matched = chunks = 0
    after = other_after = -1
    for start, end, other, other_end, module, bits, _, _ in found:
        length, other_length = end - start, other_end - other
        functional = (function & (1 << end) - (1 << start)).bit_count()
        other_functional = (other_function & bits).bit_count()
        column = 4 + 4 * module
        row[column] += other_length - other_functional
        row[column + 1] += length - functional
        row[column + 2] += other_functional
        row[column + 3] += functional
        matched += length
        other_matched += other_length
        chunks += start != after or other != other_after
        after, other_after = end, other_end
    if chunks == 1 and matched == words and other_matched == other_words:
        chunks = 0
    row[20:] = [chunks, other_matched, matched]
    return row
