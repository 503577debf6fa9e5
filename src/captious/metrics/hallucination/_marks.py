"""Captions with marks for right, wrong and unknown objects: the explanation that all hallucination metrics share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from captious.captions import CaptionSet
from captious.metrics.capture.capture import read_stop_nouns
from captious.metrics.explanation import MarkedText, label_candidates
from captious.render import Text, Why
from captious.syntax.objects import NOT_THINGS
from captious.syntax.tagging import tag_texts

# Start and stop of an object's name in a caption, and its verdict: right, wrong or unknown.
Run = tuple[int, int, str]
NOUNS = ("NN", "NNS")


def mark_captions(captions: CaptionSet, runs: Sequence[Sequence[Run]], read: Sequence[str]) -> list[MarkedText]:
    """Mark the runs of every candidate. Nouns outside all runs are marked unknown: the metric does not know them.

    ``read`` is the part of each candidate that the metric read; the rest is shown as such.
    """
    labels = [label for number in captions.candidates.counts.tolist() for label in label_candidates(number)]
    nouns = find_unseen_nouns(read, runs)
    marked = []
    for label, text, part, own, unseen in zip(labels, captions.candidates.values, read, runs, nouns, strict=True):
        rest: list[Run] = [(len(part), len(text), "not read")] if text[len(part) :].strip() else []
        marked.append(MarkedText.of(label, text, sorted([*own, *unseen, *rest])))
    return marked


def find_unseen_nouns(texts: Sequence[str], runs: Iterable[Sequence[Run]]) -> Iterator[list[Run]]:
    """Yield the nouns of each text outside its runs, as unknown; abstract nouns and nouns right before a run are
    skipped.
    """
    not_things = NOT_THINGS | read_stop_nouns()
    for words, own in zip(tag_texts(texts), runs, strict=True):
        covered = {place for start, stop, _ in own for place in range(start - 1, stop)}
        yield [
            (start, stop, "unknown")
            for sentence, tags in words
            for token, start, stop, tag in zip(*sentence, tags, strict=True)
            if tag in NOUNS and stop not in covered and start not in covered and token.lower() not in not_things
        ]


def build_page_explanations(
    captions: CaptionSet, marked: Sequence[MarkedText], summaries: Sequence[str], lines: Sequence[Sequence[str]]
) -> list[Why]:
    """Build the explanation of each item: its marked candidates, more lines below, and a one-line summary."""
    texts = iter(marked)
    own = [[next(texts).phrase for _ in range(number)] for number in captions.candidates.counts.tolist()]
    return [
        Why(summary, [Text([*phrases, *more])]) for phrases, summary, more in zip(own, summaries, lines, strict=True)
    ]


def format_wrong_share(wrong: Sequence[str], number: int, unit: str) -> str:
    """Format how many of `number` units are wrong, and which.

    >>> format_wrong_share(["cup", "cup"], 7, "mention")
    '2 of 7 mentions wrong: cup'
    """
    names = f": {', '.join(dict.fromkeys(wrong))}" if wrong else ""
    return f"{len(wrong)} of {number} {unit}{'' if number == 1 else 's'} wrong{names}"
