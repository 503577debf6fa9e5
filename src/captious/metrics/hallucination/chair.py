"""CHAIR: the share of captions, or of mentions, that name objects that are not in the image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from captious._core.types import Floats
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.columns import OBJECT_COLUMN
from captious.metrics.contract import Metric, Need, Shared
from captious.metrics.explanation import Breakdown, Contribution, MarkedText
from captious.metrics.hallucination._marks import build_page_explanations, format_wrong_share, mark_captions
from captious.metrics.hallucination.truth import (
    INSTANCES,
    MAKER,
    ObjectTable,
    Source,
    get_caption_source,
    open_table,
    read_column_objects,
)
from captious.metrics.statistic_rows import Scored, format_ids
from captious.options import LemmaRule
from captious.render import Column, Why
from captious.syntax import parsing
from captious.syntax.objects import Mention, ObjectFinder, Objects, open_vocabulary
from captious.syntax.sentences import split_sentences

Value = Literal["s", "i", "recall", "precision", "f1", "words", "tokens"]
LABELS: Mapping[str, str] = {
    "s": "CHAIR_S", "i": "CHAIR_I", "recall": "CHAIR recall", "precision": "CHAIR precision", "f1": "CHAIR F1",
    "words": "CHAIR words", "tokens": "CHAIR tokens",
}  # fmt: skip
# Counts per caption; objects and right objects are counted once per caption.
STATISTICS = (
    *("captions", "wrong_captions", "mentions", "wrong_mentions", "objects", "right_objects", "truth"),
    *("words", "tokens"),
)
NO_OBJECTS = "no objects"
UNFINISHED = "unfinished"
_WORD = re.compile(r"\S+")
_END_MARKS = (*".!?…", "")
_CLOSING = " \t\n\r'\"”’)]}»*"


class ImageObjects(NamedTuple):
    """The objects of an image, those known only from human captions, and the reason if the objects are unknown."""

    objects: frozenset[str] = frozenset()
    captions_only: frozenset[str] = frozenset()
    reason: str = ""


class ReadCaption(NamedTuple):
    """The part of a caption that is read, its mentions, and whether its last sentence is unfinished."""

    text: str
    objects: Objects
    unfinished: bool


@dataclass(frozen=True, eq=False)
class ChairState:
    """The object finders of captions and references, and the table of objects."""

    captions: ObjectFinder
    truth: ObjectFinder
    """How references are read."""
    table: ObjectTable | None
    columns: Sequence[str] = ()
    """Sources of the table that count."""


@dataclass(frozen=True)
class Chair(Metric):
    """CHAIR: the share of captions (S), and of mentions of objects (I), that name an object that is not in the image.

    The words of a caption are looked up in a list of objects with their synonyms, 80 objects of COCO by default. A
    mention is wrong if its object is not in the truth of the image. With m the mentions of a caption, h the wrong ones,
    D its distinct objects and T the truth, over all captions::

        CHAIR_S = captions with h > 0 / captions        recall    = Σ |D ∩ T| / Σ |T|
        CHAIR_I = Σ h / Σ m                             precision = Σ |D ∩ T| / Σ |D|

    F1 is that of recall and precision. ``words`` is the mean length: a system that says less invents less. CHAIR_I is a
    ratio of sums, so an item without a mention has no CHAIR_I of its own, but still counts in the corpus.

    The truth comes from a column ``objects`` of the items, or by COCO's image id from a table,
    ``chair(objects=objects.parquet)``, which ``captious make objects`` makes from COCO's annotation files: the marked
    instances and the objects that the five human captions name (``truth=both``). ``references=yes`` adds the objects
    that the references of the item name.

    Published numbers follow one of three settings. The default is the original, with the rules of pattern.en that drop
    a final s, so *bus* is lost as *bu*. OPERA's paper has ``lemmas=wordnet,truth_lemmas=singularize``, OPERA's code and
    others ``lemmas=wordnet``; for their exact numbers also ``tagger=nltk``. ``count=distinct`` counts an object once
    per caption. ``last_sentence=drop`` leaves out a last sentence that breaks off; ``max_words`` limits the number of
    words of each caption, to compare systems at equal length. An image without a known truth has no value (public code
    counts all its objects as wrong, or stops). A vocabulary of your own is a file: lines of an object and its synonyms
    with commas between them.

    >>> captions = CaptionSet.of({"1": "a dog and a cup on a table"}, columns={"objects": [["dog", "dining table"]]})
    >>> round(Chair("i").measure(captions).corpus, 4)  # one of three mentions, the cup, is wrong
    0.3333
    """

    value: Value = "s"
    objects: str = ""
    """The table of objects: a file that ``captious make objects`` wrote, or rows of an image and its objects."""
    truth: Source = "both"
    references: bool = False
    """Whether objects that the references name are in the truth too."""
    vocabulary: str = "coco"
    lemmas: LemmaRule = "singularize"
    truth_lemmas: Literal["same", "singularize", "wordnet", "spacy"] = "same"
    """How the human captions, or the references, were read."""
    count: Literal["mentions", "distinct"] = "mentions"
    last_sentence: Literal["keep", "drop"] = "keep"
    max_words: int = 0
    """Words of a caption that are read, split at white space; 0 for all."""
    tagger: Literal["captious", "spacy", "nltk"] = "captious"
    """Tags words for ``lemmas=wordnet``."""
    parser: str = parsing.DEFAULT
    """spaCy's model for ``lemmas=spacy``."""

    name: ClassVar[str] = "chair"
    languages: ClassVar[tuple[str, ...]] = ("en",)
    main: ClassVar[str] = "value"
    always_shown: ClassVar[tuple[str, ...]] = ("value",)
    variants: ClassVar[Mapping[str, tuple[str, ...]]] = {"value": ("words", "recall", "f1", "s", "i")}
    by_chunk: ClassVar[bool] = True
    citation: ClassVar[str] = (
        "Rohrbach, Hendricks, Burns, Darrell, Saenko. Object Hallucination in Image Captioning. EMNLP 2018."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_words < 0:
            raise InputError(f"chair(max_words={self.max_words}): expected at least 1, or 0 for all words")

    @property
    def needs(self) -> tuple[Need, ...]:
        """The objects of the images, unless a table or the references have them; a parser for the lemmas of spaCy."""
        model: tuple[Need, ...] = ("model",) if self.lemmas == "spacy" else ()
        return model if self.objects or self.references else ("objects", *model)

    @property
    def label(self) -> str:
        """CHAIR_S, CHAIR_I, …"""
        return LABELS[self.value]

    @property
    def higher_is_better(self) -> bool:
        """Fewer hallucinations are better."""
        return self.value not in ("s", "i")

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest value: those of a share, or of a length."""
        return (0.0, float("inf")) if self._is_length else (0.0, 1.0)

    @property
    def undefined_reason(self) -> str:
        """The values that are undefined for a caption or an image without objects."""
        if self.value == "recall":
            return "no object of the vocabulary is in the image"
        return "the caption names no object of the vocabulary"

    @property
    def undefined_by_caption(self) -> bool:
        """Whether the caption names no object; recall is undefined where the image has none."""
        return self.value != "recall"

    @property
    def decimals(self) -> int | None:
        """The decimals that a length is shown with; None for a share."""
        return 1 if self._is_length else None

    @property
    def _is_length(self) -> bool:
        return self.value in ("words", "tokens")

    @property
    def _columns(self) -> list[str]:
        """The statistics of the value, numerator first."""
        return {
            "s": ["wrong_captions", "captions"],
            "i": ["wrong_mentions", "mentions"],
            "recall": ["right_objects", "truth"],
            "precision": ["right_objects", "objects"],
            "f1": ["right_objects", "objects", "truth"],
            "words": ["words", "captions"],
            "tokens": ["tokens", "captions"],
        }[self.value]

    def prepare(self, captions: CaptionSet) -> Shared[ChairState]:
        """Load the vocabulary and the table of objects."""
        vocabulary = open_vocabulary(self.vocabulary)
        rule: LemmaRule = self.lemmas if self.truth_lemmas == "same" else self.truth_lemmas
        finder = ObjectFinder(vocabulary, self.lemmas, self.tagger, self.parser)
        table, columns = None, list[str]()
        if self.objects:
            table = open_table(self.objects)
            columns = table.columns(self.truth, rule)
            if get_caption_source(rule) in columns and table.vocabulary != str(vocabulary):
                raise InputError(
                    f"{self.objects}: its captions were read with the vocabulary {table.vocabulary}, expected "
                    f"{vocabulary}; make the table again with that vocabulary: "
                    f"{MAKER} --vocabulary {self.vocabulary}"
                )
        state = ChairState(finder, replace(finder, lemmas=rule), table, columns)
        return Shared(state, " and ".join(self._collect_settings(state).values()))

    def settings(self, state: Shared[ChairState]) -> Mapping[str, str]:
        """Return the fingerprint of the vocabulary, the tagger or parser, and the source of the truth."""
        return self._collect_settings(state.value)

    def _collect_settings(self, state: ChairState) -> dict[str, str]:
        truth = str(state.table) if state.table is not None else "column"
        return {**state.captions.settings, **state.truth.settings, "objects": truth}

    def score_items(self, captions: CaptionSet, state: Shared[ChairState]) -> Scored:
        """Score items. A row is the numerator and denominator of the value, summed over candidates."""
        counts, read, truths = self.examine(captions, state)
        owners = captions.candidates.owners
        rows = np.zeros((len(captions), counts.shape[1]))
        np.add.at(rows, owners, counts)
        reasons = {index: truth.reason for index, truth in enumerate(truths) if truth.reason}
        scored = [index for index in range(len(captions)) if index not in reasons]
        unfinished = [int(owner) for one, owner in zip(read, owners, strict=True) if one.unfinished]
        return Scored(
            rows[:, [STATISTICS.index(name) for name in self._columns]],
            reasons,
            {"truth": int(rows[scored, STATISTICS.index("truth")].sum()), UNFINISHED: len(unfinished)},
            self._warn_of_unfinished(captions, unfinished),
        )

    def _warn_of_unfinished(self, captions: CaptionSet, unfinished: Sequence[int]) -> list[str]:
        if not unfinished or self.last_sentence == "drop" or self.max_words:
            return []
        number = f"{len(unfinished):,} caption{' breaks' if len(unfinished) == 1 else 's break'} off"
        ids = format_ids(captions, unfinished)
        return [f"CHAIR: {number} in the last sentence (ids {ids}); last_sentence=drop leaves such sentences out"]

    def aggregate(self, rows: Floats) -> Floats:
        """Return the ratio of the sums."""
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.value == "f1":
                shares: Floats = 2 * rows[..., 0] / (rows[..., 1] + rows[..., 2])
            else:
                shares = rows[..., 0] / rows[..., 1]
        return shares

    def examine(
        self, captions: CaptionSet, state: Shared[ChairState]
    ) -> tuple[Floats, list[ReadCaption], list[ImageObjects]]:
        """Return the `STATISTICS` of every candidate, the candidates as read, and the truth of every item; computed
        once for all values.
        """
        # All values of CHAIR share one reading of the captions.
        key = ("chair", replace(self, value="s"))
        return captions.once(key, lambda: self._count(captions, state.value))

    def _count(self, captions: CaptionSet, state: ChairState) -> tuple[Floats, list[ReadCaption], list[ImageObjects]]:
        read, truths = self.read(captions, state), self.truths(captions, state)
        counts = np.zeros((len(read), len(STATISTICS)))
        for row, (one, owner) in enumerate(zip(read, captions.candidates.owners.tolist(), strict=True)):
            truth = truths[owner].objects
            categories = [mention.category for mention in one.objects.mentions]
            distinct = set(categories)
            right = len(distinct & truth)
            named: Sequence[str] | set[str] = distinct if self.count == "distinct" else categories
            wrong = sum(category not in truth for category in named)
            words = len(one.text.split())
            counts[row] = (1, wrong > 0, len(named), wrong, len(distinct), right, len(truth), words, one.objects.tokens)
        return counts, read, truths

    def read(self, captions: CaptionSet, state: ChairState) -> list[ReadCaption]:
        """Cut each candidate to the part that counts, and find its objects."""
        candidates = captions.candidates.values
        unfinished = [find_finished_part(text) < len(text) for text in candidates]
        texts = [take_first_words(text, self.max_words) for text in candidates] if self.max_words else list(candidates)
        if self.last_sentence == "drop":
            texts = [text[: find_finished_part(text)] for text in texts]
        objects = state.captions.find(texts)
        return [ReadCaption(*one) for one in zip(texts, objects, unfinished, strict=True)]

    def truths(self, captions: CaptionSet, state: ChairState) -> list[ImageObjects]:
        """Collect the objects in the image of every item."""
        truths = self._read_table(captions, state) if state.table is not None else self._read_column(captions, state)
        if not self.references:
            return truths
        named = iter(state.truth.find(captions.references.values))
        combined = []
        for truth, number in zip(truths, captions.references.counts.tolist(), strict=True):
            said = frozenset(category for _ in range(number) for category in next(named).categories)
            if number and truth.reason in ("", NO_OBJECTS):
                truth = ImageObjects(truth.objects | said, truth.captions_only | (said - truth.objects))
            combined.append(truth)
        return combined

    def _read_column(self, captions: CaptionSet, state: ChairState) -> list[ImageObjects]:
        objects = read_column_objects(captions, state.captions.vocabulary)
        return [ImageObjects(reason=NO_OBJECTS) if one is None else ImageObjects(one) for one in objects]

    def _read_table(self, captions: CaptionSet, state: ChairState) -> list[ImageObjects]:
        table, columns, truths = state.table, state.columns, list[ImageObjects]()
        assert table is not None
        categories = {}
        for id, image in zip(captions.item_ids, captions.images, strict=True):
            row = table.find(id, image)
            if row is None:
                truths.append(ImageObjects(reason=f"image {id} is not in {table.name}"))
                continue
            words = table.objects(row, columns)
            for word in words:
                if word not in categories:
                    categories[word] = state.captions.vocabulary.category(word)
            objects = frozenset(categories[word] for word in words)
            marked = table.objects(row, [INSTANCES]) if INSTANCES in columns else objects
            truths.append(ImageObjects(objects, objects - marked))
        return truths

    def hint(self, reason: str) -> str:
        """Say how to provide the objects of the images."""
        if reason == NO_OBJECTS:
            command = f"make one with: {MAKER}"
            return (
                f"; give a column '{OBJECT_COLUMN}', or chair(objects=objects.parquet), a table by COCO id: {command}"
            )
        if reason.endswith(f"is not in {self.objects.rpartition('/')[2]}"):
            return "; make the table from the files of the split that these images are of, or of all splits"
        return super().hint(reason)

    @property
    def explains_on_page(self) -> bool:
        """The marked caption, for the two values that are called CHAIR."""
        return self.value in ("s", "i")

    def page_explanations(self, captions: CaptionSet, indices: Sequence[int], state: Shared[ChairState]) -> list[Why]:
        """Mark the objects in the captions of each item, and list the objects in the image."""
        chosen = captions.take(indices)
        _, read, truths = self.examine(chosen, state)
        mentions: list[list[Mention]] = [[] for _ in indices]
        for one, owner in zip(read, chosen.candidates.owners.tolist(), strict=True):
            mentions[owner] += one.objects.mentions
        summaries = [truth.reason or _format_summary(own, truth) for own, truth in zip(mentions, truths, strict=True)]
        return build_page_explanations(
            chosen, self._mark_objects(chosen, read, truths), summaries, [*map(_format_truth, truths)]
        )

    def _mark_objects(
        self, captions: CaptionSet, read: Sequence[ReadCaption], truths: Sequence[ImageObjects]
    ) -> list[MarkedText]:
        """Mark the right, wrong and unknown objects of every candidate."""
        owners = captions.candidates.owners.tolist()
        runs = [
            [(mention.start, mention.stop, _get_verdict(mention, truths[owner])) for mention in one.objects.mentions]
            for one, owner in zip(read, owners, strict=True)
        ]
        return mark_captions(captions, runs, [one.text for one in read])

    def break_down(self, item: CaptionSet, state: Shared[ChairState]) -> Breakdown:
        """Break the value down by mentions, by objects of the image, or by captions."""
        counts, read, (truth,) = self.examine(item, state)
        sums = dict(zip(STATISTICS, counts.sum(axis=0).tolist(), strict=True))
        parts = [
            part
            for rank, (one, row) in enumerate(zip(read, counts, strict=True))
            for part in self._yield_parts(rank, one, truth, dict(zip(STATISTICS, row.tolist(), strict=True)), sums)
        ]
        return Breakdown(
            parts,
            unit="caption" if self._is_length else "mention" if self.value in ("s", "i") else "object",
            columns=[
                *([] if self._is_length else [Column("verdict", "text")]),
                *([Column("object", "text")] if self.value in ("s", "i") else []),
            ],
            texts=self._mark_objects(item, read, [truth]),
            formula=f"{self.label} = {self._format_formula(sums)}",
            factors=sums,
            notes=_format_truth(truth),
            ordered=True,
            shown=None,
            summary=_format_summary([mention for one in read for mention in one.objects.mentions], truth),
        )

    def _format_formula(self, sums: Mapping[str, float]) -> str:
        right, objects, truth = (f"{sums[name]:.0f}" for name in ("right_objects", "objects", "truth"))
        return {
            "s": f"captions with a wrong object / captions: {sums['wrong_captions']:.0f} / {sums['captions']:.0f}",
            "i": f"wrong {self.count} / {self.count}: {sums['wrong_mentions']:.0f} / {sums['mentions']:.0f}",
            "recall": f"right objects / objects in the image: {right} / {truth}",
            "precision": f"right objects / objects of the caption: {right} / {objects}",
            "f1": f"2 · right objects / (objects of the caption + in the image): 2 · {right} / ({objects} + {truth})",
        }.get(self.value, f"{self.value} / captions: {sums.get(self.value, 0):.0f} / {sums['captions']:.0f}")

    def _yield_parts(
        self, rank: int, one: ReadCaption, truth: ImageObjects, own: Mapping[str, float], sums: Mapping[str, float]
    ) -> Iterator[Contribution]:
        """Yield the contribution of each mention or object of one candidate, or of its length."""
        if self._is_length:
            yield Contribution(f"{own[self.value]:.0f} {self.value}", own[self.value] / sums["captions"], rank)
            return
        if self.value in ("s", "i"):
            each = 1 / sums["mentions"] if self.value == "i" else 1 / max(own["wrong_mentions"], 1) / sums["captions"]
            mentions = {
                mention.category if self.count == "distinct" else mention: mention for mention in one.objects.mentions
            }
            for mention in mentions.values():
                verdict = _get_verdict(mention, truth)
                details = {"verdict": verdict, "object": mention.category, "sentence": mention.sentence}
                yield Contribution(one.text[mention.start : mention.stop], each * (verdict == "wrong"), rank, details)
            return
        below = {"recall": "truth", "precision": "objects"}.get(self.value)
        each = 1 / sums[below] if below else 2 / (sums["objects"] + sums["truth"])
        named = list(dict.fromkeys(mention.category for mention in one.objects.mentions))
        missed = [name for name in sorted(truth.objects) if name not in named]
        for name in [*named, *(missed if self.value != "precision" else [])]:
            verdict = "missed" if name in missed else "right" if name in truth.objects else "wrong"
            if verdict != "wrong" or self.value != "recall":
                yield Contribution(name, each * (verdict == "right"), rank, {"verdict": verdict, "object": name})


def take_first_words(text: str, number: int) -> str:
    """Return the first `number` words of a text.

    >>> take_first_words("A dog  runs home.", 3)
    'A dog  runs'
    """
    words = [match.end() for _, match in zip(range(number), _WORD.finditer(text), strict=False)]
    return text[: words[-1]] if words else text


def find_finished_part(text: str) -> int:
    """Return the end of the last finished sentence, or of the text if no sentence is finished.

    >>> [text[: find_finished_part(text)] for text in ("A dog. It runs to the", "a dog on grass", 'It says "Stop."')]
    ['A dog.', 'a dog on grass', 'It says "Stop."']
    """
    if text.rstrip(_CLOSING)[-1:] in _END_MARKS:
        return len(text)
    parts = split_sentences(text)
    return parts[-2].stops[-1] if len(parts) > 1 else len(text)


def _get_verdict(mention: Mention, truth: ImageObjects) -> str:
    if truth.reason:
        return "unknown"
    return "right" if mention.category in truth.objects else "wrong"


def _format_summary(mentions: Sequence[Mention], truth: ImageObjects) -> str:
    wrong = [mention.word for mention in mentions if mention.category not in truth.objects]
    return format_wrong_share(wrong, len(mentions), "mention")


def _format_truth(truth: ImageObjects) -> list[str]:
    if truth.reason:
        return []
    lines = [f"in the image: {', '.join(sorted(truth.objects)) or 'nothing of the vocabulary'}"]
    if truth.captions_only:
        lines.append(f"known only from captions: {', '.join(sorted(truth.captions_only))}")
    return lines
