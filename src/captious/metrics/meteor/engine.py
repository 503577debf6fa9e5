"""METEOR 1.5 on a set of items: the normalizer, the formula, and the counts of each item with its best reference.

The normalizer is that of `-norm` for English: punctuation set apart, quotes and dashes unified, lower-case tokens.
Deviations: none on text without control characters. The original reads one caption per line and fields separated by
`|||`, so a line break or that mark inside a caption shifts every later score; here :func:`clean` turns both into spaces
first.

>>> normalize("A black-and-white dog's ball, no. 5 in the U.S. ...", {"No": True})
['a', 'black', 'and', 'white', 'dog', "'s", 'ball', ',', 'no', '.', '5', 'in', 'the', 'us', '...']
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from captious._core.collector import pause_collector
from captious._core.languages import ENGLISH
from captious._core.types import Floats, Ints
from captious.errors import InputError, format_suggestion
from captious.metrics.meteor._align import EXACT, Matches, SentenceBatch, align, find_matches, read_batch
from captious.metrics.meteor._compiled_tables import Tables, expand_ranges

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
# How words are split at an apostrophe; in other languages it is a token of its own.
_CUTS = {ENGLISH: _APOSTROPHES, "fr": _ELISIONS}
_ALONE = [(re.compile("'"), " ' ")]
_LETTER = re.compile(f"[{_ALPHA}]")
_SPACES = re.compile("[\u2000-\u200a\u202f\u205f\u3000\u00a0]")
_BREAKS = re.compile(r"[ \t\n\r\f]+")
_FORBIDDEN = re.compile("\\|\\|\\||[\u0000-\u001f\u007f-\u009f\u2028\u2029]")


def clean(caption: str) -> tuple[str, bool]:
    r"""Replace line breaks, tabs, control characters and `|||` by spaces; return the caption and whether it had any.

    >>> clean("a dog\nruns")
    ('a dog runs', True)
    """
    if caption.isascii() and caption.isprintable() and "|||" not in caption:
        return caption, False
    cleaned, count = _FORBIDDEN.subn(" ", caption)
    return cleaned, count > 0


def normalize(caption: str, prefixes: Mapping[str, bool], language: str = ENGLISH) -> list[str]:
    """Split a cleaned caption into lower-case tokens.

    `prefixes` maps an abbreviation that keeps its dot to whether it does so only before a number.
    """
    if caption.isascii() and caption.replace(" ", "").isalnum():
        return caption.lower().split()
    text = _PUNCTUATION.sub(r" \1 ", f" {caption} ")
    # A run of dots is spelled DOTMULTI until the end, as in the original, so that no other rule sees its dots.
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
    text = " ".join(_split_final_dots([token for token in _BREAKS.split(text) if token], prefixes))
    while "DOTDOTMULTI" in text:
        text = text.replace("DOTDOTMULTI", "DOTMULTI.")
    text = _SPACES.sub(" ", text.replace("DOTMULTI", "."))
    return [token for token in _BREAKS.split(text.lower()) if token]


def _split_final_dots(tokens: list[str], prefixes: Mapping[str, bool]) -> list[str]:
    """Split the full stop from a word, unless it belongs to an abbreviation."""
    parts = []
    for token, following in zip(tokens, [*tokens[1:], ""], strict=False):
        word = token[:-1]
        if len(token) == 1 or not token.endswith("."):
            parts.append(token)
        elif "." in word and _LETTER.search(word):  # U.S. becomes US
            parts.append(token.replace(".", ""))
        elif (
            prefixes.get(word) is False
            or "a" <= following[:1] <= "z"
            or (prefixes.get(word) and "0" <= following[:1] <= "9")
        ):
            parts.append(token)
        else:
            parts.append(f"{word} .")
    return parts


MODULES = ("exact", "stem", "synonym", "paraphrase")

# The counts of one pair, in the order in which the original prints them.
COLUMNS = (
    "candidate_length", "reference_length", "candidate_function", "reference_function",
    *(f"{module}_{side}_{kind}"
      for module in MODULES for kind in ("content", "function") for side in ("candidate", "reference")),
    "chunks", "candidate_matches", "reference_matches",
)  # fmt: skip


@dataclass(frozen=True)
class Parameters:
    """One set of METEOR 1.5's tuned parameters."""

    alpha: float
    beta: float
    gamma: float
    delta: float
    weights: tuple[float, float, float, float]
    """The weights of the modules, in the order of :data:`MODULES`."""


# Parameters for English: to rank systems (the default, which caption evaluation reports), to predict adequacy, to
# predict edits, and those that do not depend on the language.
TASKS = {
    "rank": Parameters(0.85, 0.20, 0.60, 0.75, (1.0, 0.6, 0.8, 0.6)),
    "adq": Parameters(0.75, 1.40, 0.45, 0.70, (1.0, 1.0, 0.6, 0.8)),
    "hter": Parameters(0.40, 1.50, 0.35, 0.55, (1.0, 0.2, 0.6, 0.8)),
    "li": Parameters(0.75, 1.40, 0.70, 0.50, (1.0, 0.5, 0.5, 0.5)),
}


# The one language without a stemmer. Paraphrase tables are available for English only.
CZECH = "cs"
# Parameters to rank systems in the other languages for which the original has a normalizer.
RANKING = {
    CZECH: Parameters(0.95, 0.20, 0.60, 0.80, (1.0, 0.0, 0.0, 0.4)),
    "fr": Parameters(0.90, 1.40, 0.60, 0.65, (1.0, 0.2, 0.0, 0.4)),
    "es": Parameters(0.65, 1.30, 0.50, 0.80, (1.0, 0.8, 0.0, 0.6)),
    "de": Parameters(0.95, 1.00, 0.55, 0.55, (1.0, 0.8, 0.0, 0.2)),
    "ru": Parameters(0.75, 1.40, 0.70, 0.50, (1.0, 0.5, 0.0, 0.5)),
}


def list_modules(language: str) -> tuple[str, ...]:
    """Return the modules that can be used in a language.

    >>> list_modules("fr"), list_modules("cs")
    (('exact', 'stem'), ('exact',))
    """
    return MODULES if language == ENGLISH else MODULES[:1] if language == CZECH else MODULES[:2]


def get_parameters(task: str, language: str = ENGLISH) -> Parameters:
    """Return the parameters of a task; languages other than English have those of ``rank`` and of ``li``."""
    if language != ENGLISH:
        return RANKING[language] if task == "rank" else TASKS["li"]
    if task not in TASKS:
        raise InputError(f"meteor: no task {task!r}; known: {', '.join(TASKS)}{format_suggestion(task, TASKS)}")
    return TASKS[task]


def score(counts: npt.ArrayLike, tuning: Parameters) -> Floats:
    """Compute the score of each row of (summed) counts; the last axis runs over :data:`COLUMNS`.

    Two words, both matched exactly but apart: P = R = 1, frag = 2/2, so 1 - 0.6.

    >>> counts = np.zeros(23); counts[[0, 1, 4, 5, 20, 21, 22]] = 2
    >>> float(score(counts, TASKS["rank"]).round(9))
    0.4
    """
    table = np.asarray(counts, dtype=np.float64)
    delta = tuning.delta
    # 16 columns as module × (content, function) × (candidate, reference).
    matched = table[..., 4:20].reshape(*table.shape[:-1], len(MODULES), 2, 2)
    weighted = np.einsum("...mks,m,k->...s", matched, np.array(tuning.weights), np.array([delta, 1 - delta]))
    length = delta * (table[..., 0:2] - table[..., 2:4]) + (1 - delta) * table[..., 2:4]
    chunks, words = table[..., 20], (table[..., 21] + table[..., 22]) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = np.moveaxis(weighted / length, -1, 0)
        mean = 1 / ((1 - tuning.alpha) / precision + tuning.alpha / recall)
        value = mean * (1 - tuning.gamma * (chunks / words) ** tuning.beta)
    return np.asarray(np.maximum(np.nan_to_num(value, nan=0.0), 0.0))


def score_pairs(rows: Floats, tuning: Parameters) -> Floats:
    """Compute :func:`score` of integer counts, adding terms in the original's order.

    The last digit of a sum can decide which of two references is the best, and so change the counts of an item.
    """
    (one, two, three, four), delta = tuning.weights, tuning.delta
    rest = 1 - delta
    sides = []
    for side in (0, 1):  # candidate, reference
        content, function = rows[:, 4 + side : 20 : 4].T, rows[:, 6 + side : 20 : 4].T
        weighted = (
            content[0] * one * delta + content[1] * two * delta + content[2] * three * delta + content[3] * four * delta
            + function[0] * one * rest + function[1] * two * rest + function[2] * three * rest
            + function[3] * four * rest
        )  # fmt: skip
        lengths = delta * (rows[:, side] - rows[:, side + 2]) + rest * rows[:, side + 2]
        sides.append(np.divide(weighted, lengths, out=np.zeros(len(rows)), where=weighted > 0))
    words = (rows[:, 21] + rows[:, 22]) / 2
    fragmentation = np.divide(rows[:, 20], words, out=np.zeros(len(rows)), where=words > 0)
    return compute_values(sides[0], sides[1], fragmentation, tuning)


def compute_values(precision: Floats, recall: Floats, fragmentation: Floats, tuning: Parameters) -> Floats:
    """Compute the scores from their three parts, 0 if precision or recall is 0."""
    matched = (precision > 0) & (recall > 0)
    with np.errstate(divide="ignore"):
        mean = 1 / ((1 - tuning.alpha) / precision + tuning.alpha / recall)
    # Python's power: that of NumPy differs in the last digit from one processor to another.
    powers = np.array([share**tuning.beta for share in fragmentation.tolist()])
    return np.where(matched, np.maximum(0.0, mean * (1 - tuning.gamma * powers)), 0.0)


# Number of items whose captions are in memory at a time.
BATCH = 8192

_MARGIN = 1e-9  # far above the rounding error of a score, far below any difference that is printed


@dataclass(frozen=True)
class Counts:
    """METEOR's counts on a set of items."""

    table: Floats
    """One row per item, from the reference with the highest score (the first of equals); see :data:`COLUMNS`."""
    best: Ints
    """The number of that reference."""
    cleaned: int
    """Number of captions, candidates and references, with a line break, a tab, a control character or `|||`."""


def count(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    tables: Tables,
    tuning: Parameters,
    modules: Sequence[str] = MODULES,
) -> Counts:
    """Align each candidate with its references, and keep the counts of the best reference."""
    table = np.zeros((len(candidates), len(COLUMNS)))
    best = np.zeros(len(candidates), dtype=np.int64)
    cleaned = 0
    for begin in range(0, len(candidates), BATCH):
        part = slice(begin, begin + BATCH)
        with pause_collector():
            table[part], best[part], dirty = _count_batch(candidates[part], references[part], tables, tuning, modules)
        cleaned += dirty
    return Counts(table, best, cleaned)


def _count_batch(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    tables: Tables,
    tuning: Parameters,
    modules: Sequence[str],
) -> tuple[Floats, Ints, int]:
    numbers, batch, cleaned = _number_captions(candidates, references, tables, modules)
    pairs = ReferencePairs.of(
        batch,
        np.array([numbers[caption] for caption in candidates], np.int64),
        [[numbers[caption] for caption in group] for group in references],
    )
    rows, best = pairs.choose_best(tuning)
    return rows, best, cleaned


@dataclass(frozen=True, eq=False)
class ReferencePairs:
    """Pairs of candidates with each of their references, and all matches of these."""

    batch: SentenceBatch
    sizes: Ints
    """The number of references of each candidate."""
    candidates: Ints
    """The candidate of each pair, as its index in the batch."""
    references: Ints
    found: Matches

    @classmethod
    def of(cls, batch: SentenceBatch, candidates: Ints, references: Sequence[Sequence[int]]) -> ReferencePairs:
        """Pair each candidate of a batch with its references, all given by their indices in the batch."""
        sizes = np.array([len(group) for group in references], np.int64)
        candidate = np.repeat(candidates, sizes)
        reference = np.array([number for group in references for number in group], np.int64)
        return cls(batch, sizes, candidate, reference, find_matches(batch, candidate, reference))

    def choose_best(self, tuning: Parameters) -> tuple[Floats, Ints]:
        """Return the counts of each candidate with the best reference, and the number of that reference.

        In round r every candidate that is still open tries the reference with its r-th highest bound. It is closed when
        that bound is below its best score, so most references need no search.
        """
        first = np.cumsum(self.sizes) - self.sizes
        bounds = self.compute_bounds(tuning)
        order = np.lexsort((-bounds, np.repeat(np.arange(len(self.sizes)), self.sizes)))
        rows, best_score = np.zeros((len(self.sizes), len(COLUMNS))), np.full(len(self.sizes), -1.0)
        best_pair = first.copy()
        open_ones = np.arange(len(self.sizes))
        for rank in range(int(self.sizes.max(initial=0))):
            open_ones = open_ones[self.sizes[open_ones] > rank]
            pairs = order[first[open_ones] + rank]
            can_win = bounds[pairs] >= best_score[open_ones] - _MARGIN
            open_ones, pairs = open_ones[can_win], pairs[can_win]
            counts = self.count(pairs)
            scores = score_pairs(counts, tuning)
            best = best_score[open_ones]
            # Of equal scores the first reference wins, whatever the order in which they are tried.
            wins = (scores > best) | ((scores == best) & (pairs < best_pair[open_ones]))
            winners = open_ones[wins]
            rows[winners], best_score[winners], best_pair[winners] = counts[wins], scores[wins], pairs[wins]
        return rows, best_pair - first

    def compute_bounds(self, tuning: Parameters) -> Floats:
        """Return a score that no alignment of a pair exceeds: every word matched by its best module, in one chunk."""
        found, function, delta = self.found, self.batch.function, tuning.delta
        exact = found.module == EXACT
        # Of each pair: the upper bounds of precision and recall, the number of words that are in any match, and whether
        # all words are.
        reached, words, complete = [], np.zeros(len(self.references)), np.ones(len(self.references), dtype=bool)
        for captions, depth, starts in (
            (self.candidates, found.other_covered, found.other),
            (self.references, found.covered, found.start),
        ):
            spans = self.batch.sentences[captions]
            pair = np.repeat(np.arange(len(captions)), spans.sizes)
            weights = np.where(function[expand_ranges(spans.first, spans.sizes)], 1 - delta, delta)
            # ``depth`` is the number of matches of a word: exact ones weigh 1, others at most their best module.
            gains = np.where(depth > 0, max(tuning.weights[1:]), 0.0)
            gains[starts[exact]] = 1.0
            total, matched = (np.bincount(pair, one, len(captions)) for one in (weights, weights * gains))
            number = np.bincount(pair[depth > 0], minlength=len(captions))
            reached.append(np.divide(matched, total, out=np.zeros(len(captions)), where=matched > 0))
            words += number
            complete &= number == spans.sizes
        # One chunk, and none if every word matches: METEOR has no penalty for identical captions.
        fragmentation = np.where(complete, 0.0, np.divide(2, words, out=words, where=words > 0))
        return compute_values(reached[0], reached[1], fragmentation, tuning)

    def count(self, pairs: Ints) -> Floats:
        """Count the matches of the best alignment of some pairs; see :data:`COLUMNS`."""
        found, functions = self.found, np.append(0, np.cumsum(self.batch.function))
        taken = align(found, pairs)
        pair, start, end, other, other_end = (
            column[taken] for column in (found.pair, found.start, found.end, found.other, found.other_end)
        )
        row_of_pair = np.empty(len(self.references), np.int64)
        row_of_pair[pairs] = np.arange(len(pairs))
        # Four columns per module: content words of candidate and reference, function words of candidate and reference.
        row, column = row_of_pair[pair], 4 + 4 * found.module[taken]
        table = np.zeros((len(pairs), len(COLUMNS)))
        sides = (
            (self.candidates, found.candidates, other, other_end),
            (self.references, found.references, start, end),
        )
        for side, (captions, words, first, last) in enumerate(sides):
            sentences = self.batch.sentences[captions[pairs]]
            table[:, side] = sentences.sizes
            table[:, 2 + side] = functions[sentences.first + sentences.sizes] - functions[sentences.first]
            # Matches index the words of all pairs, ``functions`` those of the batch: each caption once.
            shift = (sentences.first - words.first[pairs])[row]
            functional = functions[last + shift] - functions[first + shift]
            for kind, number in ((0, last - first - functional), (2, functional)):
                cells = row * len(COLUMNS) + column + kind + side
                table += np.bincount(cells, number, table.size).reshape(table.shape)
            table[:, 21 + side] = np.bincount(row, last - first, len(pairs))
        # A chunk begins where a match does not follow the one before it on both sides.
        begins = np.ones(len(taken), dtype=bool)
        begins[1:] = (start[1:] != end[:-1]) | (other[1:] != other_end[:-1]) | (pair[1:] != pair[:-1])
        chunks = np.bincount(row[begins], minlength=len(pairs))
        # As in the original, one chunk of all words of both captions counts as none: there is no penalty.
        complete = (chunks == 1) & (table[:, :2] == table[:, 21:]).all(axis=1)
        table[:, 20] = np.where(complete, 0, chunks)
        return table


class WordMatch(NamedTuple):
    """A match of reference words with candidate words (`other`), by a module."""

    start: int
    end: int
    other: int
    other_end: int
    module: int


class Aligned(NamedTuple):
    """The alignment of a candidate with its best reference."""

    best: int
    """The number of the reference."""
    words: list[str]
    reference: list[str]
    matches: list[WordMatch]
    function: tuple[list[bool], list[bool]]
    """Whether each word is a function word, of the reference and of the candidate."""
    row: Floats
    """The counts of the pair; see :data:`COLUMNS`."""


def align_best(
    candidate: str, references: Sequence[str], tables: Tables, tuning: Parameters, modules: Sequence[str] = MODULES
) -> Aligned:
    """Align one candidate with its best reference."""
    numbers, batch, _ = _number_captions([candidate], [references], tables, modules)
    pairs = ReferencePairs.of(batch, np.array([numbers[candidate]]), [[numbers[one] for one in references]])
    rows, chosen = pairs.choose_best(tuning)
    best, found = int(chosen[0]), pairs.found
    taken = align(found, chosen)
    # Matches count the words of all pairs; less the first word of this pair they index its own two texts.
    start, other = found.references.first[best], found.candidates.first[best]
    columns = (found.start - start, found.end - start, found.other - other, found.other_end - other, found.module)
    texts = (references[best], candidate)
    reference, words = (normalize(clean(text)[0], tables.prefixes, tables.language) for text in texts)
    spans = batch.sentences[np.array([numbers[text] for text in texts])]
    reference_function, candidate_function = (
        batch.function[first : first + size].tolist() for first, size in zip(spans.first, spans.sizes, strict=True)
    )
    alignment = [WordMatch(*row) for row in np.stack(columns, axis=1)[taken].tolist()]
    return Aligned(best, words, reference, alignment, (reference_function, candidate_function), rows[0])


def weigh_match(match: WordMatch, function: tuple[list[bool], list[bool]], tuning: Parameters) -> tuple[float, float]:
    """Return what a match adds to the weighted matches of the reference and of the candidate."""
    reference_function, candidate_function = function
    sides: list[float] = []
    for words in (reference_function[match.start : match.end], candidate_function[match.other : match.other_end]):
        functional = sum(words)
        content = len(words) - functional
        sides.append(tuning.weights[match.module] * (tuning.delta * content + (1 - tuning.delta) * functional))
    return sides[0], sides[1]


def _number_captions(
    candidates: Sequence[str], references: Sequence[Sequence[str]], tables: Tables, modules: Sequence[str]
) -> tuple[dict[str, int], SentenceBatch, int]:
    """Assign numbers to the distinct captions and tokenize them; count how many of all captions had to be cleaned."""
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
