"""METEOR 1.5 on a set of items: the normalizer, the formula, and the counts of each item with its best reference.

The normalizer is that of `-norm` for English: punctuation set apart, quotes and dashes unified, lower-case tokens.
Deviations: none on text without control characters. The original reads one caption per line and fields parted by `|||`,
so a line break or that mark inside a caption shifts every later score; here :func:`clean` turns both into spaces first.

>>> normalize("A black-and-white dog's ball, no. 5 in the U.S. ...", {"No": True})
['a', 'black', 'and', 'white', 'dog', "'s", 'ball', ',', 'no', '.', '5', 'in', 'the', 'us', '...']
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from captious._languages import ENGLISH
from captious._typing import Floats, Ints
from captious.errors import InputError, nearest
from captious.metrics.meteor._align import (
    Candidate,
    IndexedSentence,
    Match,
    MatchOptions,
    SentenceBatch,
    align,
    matches,
    read_batch,
)
from captious.metrics.meteor._tables import Tables

# The alphabet of the original, written with escapes: Latin, Latin-1, Latin Extended-A (almost), Cyrillic, phonetic.
_ALPHA = (
    r"A-Za-z\u0160\u017D\u0161\u017E\u0178\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u017E"
    r"\u0400-\u04FF\u0500-\u0527\uA640-\uA66E\uA67E-\uA697\u1D00-\u1D7F"
)
_ALNUM = "0-9" + _ALPHA
_PUNCTUATION = re.compile(rf"([^{_ALNUM}\s.'`,\-\u2018\u2019])", re.ASCII)
_DOTS = re.compile(r"\.(\.+)")
_DOT_END = re.compile(r"DOTMULTI\.([^.])")
_QUOTE = re.compile(r"[`\u2018\u2019]")
_DOUBLE_QUOTE = re.compile(r"[\u201C\u201D]|''")
_HYPHEN = re.compile(rf"([{_ALNUM}.])-([{_ALNUM}])")
# Each substitution consumes both neighbors, so of two marks one letter apart only the first is seen: `a-b-c` gives
# `a b-c`. The order and the consumption are the original's.
_COMMAS = [
    (re.compile(r"([^0-9]),([^0-9])"), r"\1 , \2"),
    (re.compile(r"([0-9]),([^0-9])"), r"\1 , \2"),
    (re.compile(r"([^0-9]),([0-9])"), r"\1 , \2"),
]
_APOSTROPHES = [
    (re.compile(rf"([^{_ALPHA}])'([^{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(rf"([^{_ALPHA}0-9])'([{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(rf"([{_ALPHA}])'([^{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(rf"([{_ALPHA}])'([{_ALPHA}])"), r"\1 '\2"),
    (re.compile(r"([0-9])'(s)"), r"\1 '\2"),
]
_ELISIONS = [
    (re.compile(rf"([^{_ALPHA}])'([^{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(rf"([^{_ALPHA}])'([{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(rf"([{_ALPHA}])'([^{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(rf"([{_ALPHA}])'([{_ALPHA}])"), r"\1' \2"),
]
_CUTS = {ENGLISH: _APOSTROPHES, "fr": _ELISIONS}
"""Where words are cut at an apostrophe; in other languages it is a token of its own."""
_ALONE = [(re.compile("'"), " ' ")]
_LETTER = re.compile(f"[{_ALPHA}]")
_SPACES = re.compile("[\u2000-\u200a\u202f\u205f\u3000\u00a0]")
_BREAKS = re.compile(r"[ \t\n\r\f]+")
_FORBIDDEN = re.compile("\\|\\|\\||[\u0000-\u001f\u007f-\u009f\u2028\u2029]")


def clean(caption: str) -> tuple[str, bool]:
    r"""The caption without line breaks, tabs, control characters and `|||`, and whether it held any.

    >>> clean("a dog\nruns")
    ('a dog runs', True)
    """
    if caption.isascii() and caption.isprintable() and "|||" not in caption:
        return caption, False
    cleaned, count = _FORBIDDEN.subn(" ", caption)
    return cleaned, count > 0


def normalize(caption: str, prefixes: Mapping[str, bool], language: str = ENGLISH) -> list[str]:
    """Lower-case tokens of a cleaned caption.

    `prefixes` maps an abbreviation that keeps its dot to whether it does so only before a number.
    """
    if caption.isascii() and caption.replace(" ", "").isalnum():
        return caption.lower().split()
    text = _PUNCTUATION.sub(r" \1 ", f" {caption} ")
    if ".." in text:
        text = _DOTS.sub(r" DOTMULTI\1", text)
        while "DOTMULTI." in text:
            text = _DOT_END.sub(r"DOTDOTMULTI \1", text).replace("DOTMULTI.", "DOTDOTMULTI")
    if "," in text:
        for pattern, by in _COMMAS:
            text = pattern.sub(by, text)
    text = _DOUBLE_QUOTE.sub(' " ', _QUOTE.sub("'", text))
    text = _HYPHEN.sub(r"\1 \2", text.replace("\u2013", "-").replace("--", "-"))
    if "'" in text:
        for pattern, by in _CUTS.get(language, _ALONE):
            text = pattern.sub(by, text)
    text = " ".join(_final_dots([token for token in _BREAKS.split(text) if token], prefixes))
    while "DOTDOTMULTI" in text:
        text = text.replace("DOTDOTMULTI", "DOTMULTI.")
    text = _SPACES.sub(" ", text.replace("DOTMULTI", "."))
    return [token for token in _BREAKS.split(text.lower()) if token]


def _final_dots(tokens: list[str], prefixes: Mapping[str, bool]) -> list[str]:
    """Part the full stop from a word, unless it belongs to an abbreviation."""
    parted = []
    for token, following in zip(tokens, [*tokens[1:], ""], strict=False):
        word = token[:-1]
        if len(token) == 1 or not token.endswith("."):
            parted.append(token)
        elif "." in word and _LETTER.search(word):
            parted.append(token.replace(".", ""))
        elif (
            prefixes.get(word) is False
            or "a" <= following[:1] <= "z"
            or (prefixes.get(word) and "0" <= following[:1] <= "9")
        ):
            parted.append(token)
        else:
            parted.append(f"{word} .")
    return parted


MODULES = ("exact", "stem", "synonym", "paraphrase")

COLUMNS = (
    "candidate_length", "reference_length", "candidate_function", "reference_function",
    *(f"{module}_{side}_{kind}"
      for module in MODULES for kind in ("content", "function") for side in ("candidate", "reference")),
    "chunks", "candidate_matches", "reference_matches",
)  # fmt: skip
"""The counts of one pair, in the order in which the original prints them."""


@dataclass(frozen=True)
class Parameters:
    """One tuning of METEOR 1.5."""

    alpha: float
    beta: float
    gamma: float
    delta: float
    weights: tuple[float, float, float, float]
    """The weights of the modules, in the order of :data:`MODULES`."""


TASKS = {
    "rank": Parameters(0.85, 0.20, 0.60, 0.75, (1.0, 0.6, 0.8, 0.6)),
    "adq": Parameters(0.75, 1.40, 0.45, 0.70, (1.0, 1.0, 0.6, 0.8)),
    "hter": Parameters(0.40, 1.50, 0.35, 0.55, (1.0, 0.2, 0.6, 0.8)),
    "li": Parameters(0.75, 1.40, 0.70, 0.50, (1.0, 0.5, 0.5, 0.5)),
}
"""English tunings: to rank systems (the default, and what caption evaluation reports), to predict adequacy, to predict
edits, and the one that does not depend on the language."""


CZECH = "cs"
"""The one language without a stemmer. Paraphrase tables of languages but English are not available."""
RANKING = {
    CZECH: Parameters(0.95, 0.20, 0.60, 0.80, (1.0, 0.0, 0.0, 0.4)),
    "fr": Parameters(0.90, 1.40, 0.60, 0.65, (1.0, 0.2, 0.0, 0.4)),
    "es": Parameters(0.65, 1.30, 0.50, 0.80, (1.0, 0.8, 0.0, 0.6)),
    "de": Parameters(0.95, 1.00, 0.55, 0.55, (1.0, 0.8, 0.0, 0.2)),
    "ru": Parameters(0.75, 1.40, 0.70, 0.50, (1.0, 0.5, 0.0, 0.5)),
}
"""The tunings to rank systems in other languages, as far as the original has a normalizer for them."""


def modules_of(language: str) -> tuple[str, ...]:
    """The modules that can be used in a language.

    >>> modules_of("fr"), modules_of("cs")
    (('exact', 'stem'), ('exact',))
    """
    return MODULES if language == ENGLISH else MODULES[:1] if language == CZECH else MODULES[:2]


def parameters(task: str, language: str = ENGLISH) -> Parameters:
    """The tuning of a task; in languages but English there is one to rank systems, and ``li``."""
    if language != ENGLISH:
        return RANKING[language] if task == "rank" else TASKS["li"]
    if task not in TASKS:
        raise InputError(f"meteor: no task {task!r}; known: {', '.join(TASKS)}{nearest(task, TASKS)}")
    return TASKS[task]


def score(counts: npt.ArrayLike, tuning: Parameters) -> Floats:
    """The score of each row of (summed) counts; the last axis runs over :data:`COLUMNS`.

    Two words, both matched exactly but apart: P = R = 1, frag = 2/2, so 1 - 0.6.

    >>> counts = np.zeros(23); counts[[0, 1, 4, 5, 20, 21, 22]] = 2
    >>> float(score(counts, TASKS["rank"]).round(9))
    0.4
    """
    table = np.asarray(counts, dtype=np.float64)
    delta = tuning.delta
    matched = table[..., 4:20].reshape(*table.shape[:-1], len(MODULES), 2, 2)
    weighted = np.einsum("...mks,m,k->...s", matched, np.array(tuning.weights), np.array([delta, 1 - delta]))
    length = delta * (table[..., 0:2] - table[..., 2:4]) + (1 - delta) * table[..., 2:4]
    chunks, words = table[..., 20], (table[..., 21] + table[..., 22]) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = np.moveaxis(weighted / length, -1, 0)
        mean = 1 / ((1 - tuning.alpha) / precision + tuning.alpha / recall)
        value = mean * (1 - tuning.gamma * (chunks / words) ** tuning.beta)
    return np.asarray(np.maximum(np.nan_to_num(value, nan=0.0), 0.0))


def pair_score(row: Sequence[int], tuning: Parameters) -> float:
    """:func:`score` of one row of whole counts, term by term in the original's order: it decides between references."""
    (one, two, three, four), delta = tuning.weights, tuning.delta
    rest = 1 - delta
    sides = []
    for side in (0, 1):
        content, function = row[4 + side : 20 : 4], row[6 + side : 20 : 4]
        weighted = (
            content[0] * one * delta + content[1] * two * delta + content[2] * three * delta + content[3] * four * delta
            + function[0] * one * rest + function[1] * two * rest + function[2] * three * rest
            + function[3] * four * rest
        )  # fmt: skip
        if not weighted:
            return 0.0
        sides.append(weighted / (delta * (row[side] - row[side + 2]) + rest * row[side + 2]))
    return value(sides[0], sides[1], row[20] / ((row[21] + row[22]) / 2), tuning)


def value(precision: float, recall: float, fragmentation: float, tuning: Parameters) -> float:
    """The score from its three parts, none of the first two 0."""
    mean = 1 / ((1 - tuning.alpha) / precision + tuning.alpha / recall)
    penalty: float = tuning.gamma * fragmentation**tuning.beta
    return max(0.0, mean * (1 - penalty))


BATCH = 8192
"""Items whose captions are held in memory together."""

_MARGIN = 1e-9  # far above the rounding error of a score, far below any difference that is printed


@dataclass(frozen=True)
class Counts:
    """What METEOR counts on a set of items."""

    table: Floats
    """One row per item, from the reference with the highest score (the first of equals); see :data:`COLUMNS`."""
    best: Ints
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
            table[part], best[part], dirty = _count(candidates[part], references[part], tables, tuning, modules)
        cleaned += dirty
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


class Aligned(NamedTuple):
    """A candidate with its best reference, and how their words match."""

    best: int
    """The number of the reference."""
    words: list[str]
    reference: list[str]
    matches: list[Match]
    function: tuple[int, int]
    """Function words as bits, of the reference and of the candidate."""
    row: list[int]
    """The counts of the pair; see :data:`COLUMNS`."""


def aligned(
    candidate: str, references: Sequence[str], tables: Tables, tuning: Parameters, modules: Sequence[str] = MODULES
) -> Aligned:
    """The alignment of one candidate with its best reference."""
    numbers, batch, _ = _read([candidate], [references], tables, modules)
    ours = Candidate(batch.sentences[numbers[candidate]], batch)
    row, best = _best(ours, [batch.sentences[numbers[one]] for one in references], tuning)
    theirs = batch.sentences[numbers[references[best]]]
    words, other = (
        normalize(clean(text)[0], tables.prefixes, tables.language) for text in (candidate, references[best])
    )
    function = (theirs.function, ours.sentence.function)
    return Aligned(best, words, other, align(matches(ours, theirs)), function, row)


def weight(match: Match, function: tuple[int, int], tuning: Parameters) -> tuple[float, float]:
    """What a match adds to the weighted matches of the reference and of the candidate, given their function words."""
    start, end, other, other_end, module, bits, _, _ = match
    sides: list[float] = []
    for length, shared in ((end - start, (1 << end) - (1 << start)), (other_end - other, bits)):
        functional = (function[len(sides)] & shared).bit_count()
        content = length - functional
        sides.append(tuning.weights[module] * (tuning.delta * content + (1 - tuning.delta) * functional))
    return sides[0], sides[1]


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
) -> tuple[dict[str, int], SentenceBatch, int]:
    """The number of each distinct caption, the captions made ready, and how many of all had to be cleaned."""
    numbers: dict[str, int] = {}
    for captions in (candidates, *references):
        for caption in captions:
            if caption not in numbers:
                numbers[caption] = len(numbers)
    tokens, dirty = [], set()
    for caption in numbers:
        text, changed = clean(caption)
        tokens.append(normalize(text, tables.prefixes, tables.language))
        if changed:
            dirty.add(caption)
    count = sum(caption in dirty for captions in (candidates, *references) for caption in captions) if dirty else 0
    return numbers, read_batch(tokens, tables, modules), count


def _best(candidate: Candidate, references: Sequence[IndexedSentence], tuning: Parameters) -> tuple[list[int], int]:
    """The counts of the reference with the highest score, and its number.

    References are taken in the order of the highest score they could reach, so that most need no search.
    """
    options = [matches(candidate, reference) for reference in references]
    bounds = [
        highest(candidate.sentence, reference, option, tuning)
        for reference, option in zip(references, options, strict=True)
    ]
    order = sorted(range(len(references)), key=bounds.__getitem__, reverse=True)
    best = [0] * len(COLUMNS)
    lead, chosen = -1.0, 0
    for number in order:
        if bounds[number] < lead - _MARGIN:
            break
        reference = references[number]
        row = count_matches(candidate.sentence, reference, align(options[number]))
        reached = pair_score(row, tuning)
        if reached > lead or (reached == lead and number < chosen):
            lead, chosen, best = reached, number, row
    return best, chosen


def highest(candidate: IndexedSentence, reference: IndexedSentence, options: MatchOptions, tuning: Parameters) -> float:
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


def _reach(covered: int, exact: int, sentence: IndexedSentence, tuning: Parameters) -> float:
    function, delta = sentence.function, tuning.delta
    near = covered & ~exact
    exact_function, near_function = (exact & function).bit_count(), (near & function).bit_count()
    top = max(tuning.weights[1:])
    content = exact.bit_count() - exact_function + top * (near.bit_count() - near_function)
    total, functional = len(sentence.words), function.bit_count()
    reached = delta * content + (1 - delta) * (exact_function + top * near_function)
    return reached / (delta * (total - functional) + (1 - delta) * functional)


def count_matches(candidate: IndexedSentence, reference: IndexedSentence, alignment: list[Match]) -> list[int]:
    """Count the matches of an alignment, which run from left to right over the reference; see :data:`COLUMNS`."""
    words, other_words = len(reference.words), len(candidate.words)
    function, other_function = reference.function, candidate.function
    row = [other_words, words, other_function.bit_count(), function.bit_count(), *[0] * 19]
    matched = other_matched = chunks = 0
    after = other_after = -1
    for start, end, other, other_end, module, bits, _, _ in alignment:
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
