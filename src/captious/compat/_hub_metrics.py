"""BLEU and ROUGE as defined by the modules on the Hugging Face hub.

Neither is what captioning papers report: see ``docs/guide/coming-from-torchmetrics.md`` for the differences.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from captious.errors import InputError, require
from captious.text.tokenizers import tokenize_13a_cased

Tokens = list[str]
Tokenize = Callable[[str], Tokens]
ROUGE_TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")
_ROUGE_N = re.compile(r"rouge([1-9])")
_NO_WORD = re.compile(r"[^a-z0-9]+")


def bleu(
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenizer: Tokenize = tokenize_13a_cased,
    max_order: int = 4,
    smooth: bool = False,
) -> dict[str, Any]:
    """Compute BLEU as on the hub: with the length of the shortest reference, and without smoothing by default.

    >>> bleu(["hello there general kenobi"], [["hello there general kenobi", "hello there !"]])["reference_length"]
    3
    """
    length = reference_length = 0
    matches, possible = Counter[int](), Counter[int]()
    for prediction, texts in zip(predictions, references, strict=True):
        predicted, reference_tokens = tokenizer(prediction), [tokenizer(text) for text in texts]
        length += len(predicted)
        reference_length += min(map(len, reference_tokens))
        for n in range(1, max_order + 1):
            # An n-gram counts at most as often as in the reference that has it most often.
            highest = Counter[tuple[str, ...]]()
            for tokens in reference_tokens:
                highest |= Counter(_list_ngrams(tokens, n))
            matches[n] += (Counter(_list_ngrams(predicted, n)) & highest).total()
            possible[n] += max(len(predicted) - n + 1, 0)
    added = 1 if smooth else 0
    precisions = [(matches[n] + added) / max(possible[n] + added, 1) for n in range(1, max_order + 1)]
    mean = math.exp(sum(map(math.log, precisions)) / max_order) if min(precisions) > 0 else 0.0
    ratio = length / reference_length if reference_length else math.inf if length else 1.0
    penalty = 1.0 if ratio > 1 else math.exp(1 - 1 / ratio) if ratio else 0.0
    return {
        "bleu": mean * penalty,
        "precisions": precisions,
        "brevity_penalty": penalty,
        "length_ratio": ratio,
        "translation_length": length,
        "reference_length": reference_length,
    }


def _list_ngrams(tokens: Tokens, n: int) -> Iterator[tuple[str, ...]]:
    return zip(*(tokens[start:] for start in range(n)), strict=False)


def rouge(
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
    rouge_types: Sequence[str] = ROUGE_TYPES,
    use_aggregator: bool = True,
    use_stemmer: bool = False,
    tokenizer: Tokenize | None = None,
) -> dict[str, Any]:
    """Compute ROUGE as on the hub: F1 with the best reference, averaged over items unless ``use_aggregator=False``.

    >>> rouge(["hello goodbye"], [["goodbye"]], ["rouge1", "rougeL"])
    {'rouge1': 0.6666666666666666, 'rougeL': 0.6666666666666666}
    """
    tokenize = tokenizer or make_rouge_tokenizer(use_stemmer)
    measures = {name: _find_rouge_measure(name) for name in rouge_types}
    values: dict[str, Any] = {name: [] for name in rouge_types}
    for prediction, texts in zip(predictions, references, strict=True):
        for name, measure in measures.items():
            values[name].append(max(measure(text, prediction, tokenize) for text in texts))
    return {name: math.fsum(one) / len(one) for name, one in values.items()} if use_aggregator else values


def make_rouge_tokenizer(stemmed: bool = False) -> Tokenize:
    """Return a tokenizer for lower-case runs of a to z and digits; words of more than three letters may be stemmed."""
    stem = require("nltk.stem.porter", "nltk").PorterStemmer().stem if stemmed else str

    def tokenize(text: str) -> Tokens:
        return [stem(word) if len(word) > 3 else word for word in _NO_WORD.sub(" ", text.lower()).split()]

    return tokenize


def _find_rouge_measure(name: str) -> Callable[[str, str, Tokenize], float]:
    if match := _ROUGE_N.fullmatch(name):
        n = int(match[1])
        return lambda reference, prediction, tokenize: _compute_rouge_n(tokenize(reference), tokenize(prediction), n)
    if name == "rougeL":
        return lambda reference, prediction, tokenize: _compute_rouge_l(tokenize(reference), tokenize(prediction))
    if name == "rougeLsum":
        return _compute_rouge_lsum
    raise InputError(f"rouge_types has {name!r}, expected rouge1 to rouge9, rougeL or rougeLsum")


def _compute_f1(matches: int, predicted: int, reference: int) -> float:
    precision, recall = matches / max(predicted, 1), matches / max(reference, 1)
    return 2 * precision * recall / (precision + recall) if matches else 0.0


def _compute_rouge_n(reference: Tokens, prediction: Tokens, n: int) -> float:
    expected, predicted = Counter(_list_ngrams(reference, n)), Counter(_list_ngrams(prediction, n))
    return _compute_f1((expected & predicted).total(), predicted.total(), expected.total())


def _compute_rouge_l(reference: Tokens, prediction: Tokens) -> float:
    return _compute_f1(len(_find_common_subsequence(reference, prediction)), len(prediction), len(reference))


def _find_common_subsequence(reference: Tokens, prediction: Tokens) -> list[int]:
    """Return the reference indices of a longest common subsequence; of several, the one that ends first."""
    lengths = [[0] * (len(prediction) + 1) for _ in range(len(reference) + 1)]
    for row, word in enumerate(reference):
        for column, other in enumerate(prediction):
            best = max(lengths[row][column + 1], lengths[row + 1][column])
            lengths[row + 1][column + 1] = lengths[row][column] + 1 if word == other else best
    row, column, indices = len(reference), len(prediction), list[int]()
    while row and column:
        if reference[row - 1] == prediction[column - 1]:
            row, column = row - 1, column - 1
            indices.append(row)
        elif lengths[row][column - 1] > lengths[row - 1][column]:
            column -= 1
        else:
            row -= 1
    return indices[::-1]


def _compute_rouge_lsum(reference: str, prediction: str, tokenize: Tokenize) -> float:
    """Compute ROUGE-Lsum, one sentence per line: the matches of a reference sentence are its words in the union of its
    longest common subsequences with all predicted sentences.
    """
    reference_lines, predicted_lines = (
        [tokenize(line) for line in text.split("\n") if line] for text in (reference, prediction)
    )
    reference_words, predicted_words = (
        Counter(word for tokens in sentences for word in tokens) for sentences in (reference_lines, predicted_lines)
    )
    sizes = predicted_words.total(), reference_words.total()
    matches = 0
    for sentence in reference_lines:
        for index in sorted(
            {index for other in predicted_lines for index in _find_common_subsequence(sentence, other)}
        ):
            word = sentence[index]
            # A word counts at most as often as it occurs on both sides, over all lines.
            if reference_words[word] > 0 and predicted_words[word] > 0:
                matches += 1
                reference_words[word] -= 1
                predicted_words[word] -= 1
    return _compute_f1(matches, *sizes)
