"""``captious.check``: common mistakes in caption files, reported before or with the scores."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from captious._core.languages import AUTO, LANGUAGE_COLUMN, choose_tokenizer, parse_language_code
from captious.captions import CaptionSet, ImageData, Ragged, VideoSource
from captious.errors import InputError
from captious.io.columns import EVENT_COLUMN
from captious.io.formats import get_name
from captious.io.join import SKIP_ONE, format_first, generalize_complaint, join
from captious.io.read import gather, reading_of
from captious.options import Missing, Reading
from captious.render import Document, Phrase, Result, Span, Text
from captious.render.document import Tone

if TYPE_CHECKING:
    from captious.io.questions import QuestionTable

Level = Literal["error", "warning", "note"]
# Items that are compared closely.
SAMPLE = 200
# Texts that are looked at together for one that many repeat.
BLOCK = 10_000
# About this many words fill the 77 tokens of CLIP's text encoder.
CLIP_WORDS = 55

# The number of complaints of one kind that are listed; the rest are counted.
LISTED = 5
# The place of a complaint about a row.
_ROW = re.compile(r".*?: (?:(?:row|line|entry) \d+|id '[^']*'): ")

_TONES: dict[Level, Tone] = {"error": "bad", "warning": "strong", "note": "quiet"}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
_TOKENIZED = re.compile(r"\w (?:[.,!?;]|'s|n't|-lrb-|``)(?: |$)", re.IGNORECASE)


@dataclass(frozen=True)
class Finding:
    """A problem to look at. ``misleads`` marks those that make a score misleading."""

    level: Level
    message: str
    misleads: bool = False


class Findings(tuple[Finding, ...]):
    """The problems found in caption files or in the plan of a study."""

    __slots__ = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that must be corrected first."""
        return tuple(finding for finding in self if finding.level == "error")

    def text(self) -> Text:
        """Format the findings, one per line."""
        lines = [Phrase.of(Span(one.level, _TONES[one.level]), f": {one.message}") for one in self]
        return Text(lines or [Phrase.of(Span("nothing wrong found", "good"))])

    def data(self) -> list[dict[str, str]]:
        """Return the findings for JSON."""
        return [{"level": one.level, "message": one.message} for one in self]


@dataclass(frozen=True, repr=False)
class Check(Result):
    """The findings about one or two sources."""

    name: str
    findings: Findings
    origin: str = ""
    """The columns that were read as captions, references and images."""

    def __repr__(self) -> str:
        return f"<Check {self.name}: {len(self.findings)} findings, {len(self.errors)} errors>"

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that must be corrected before scoring."""
        return self.findings.errors

    def document(self) -> Document:
        """Build the document with the findings, one per line."""
        data = {"name": self.name, "findings": self.findings.data(), "read": self.origin}
        notes = [self.origin] if self.origin else []
        return Document(title=self.name, sections=(self.findings.text(),), notes=notes, data=data, name="check")


def check(
    source: Any,
    *,
    references: Any = None,
    images: Any = None,
    missing: Missing = "error",
    language: str | None = None,
    reading: Reading = Reading(),
    questions: str | Path | None = None,
) -> Check:
    """Find everything that is wrong or odd with captions; the arguments are those of `captious.read`.

    ``questions`` is a file of questions about the items, for metrics such as CaptionQA and DSG.

    >>> print(check({"1": "a dog"}, references={"1": ["a dog runs"], "2": ["a cat"]}).errors[0].message)
    references: 1 id (2) without a candidate in captions; pass reading=Reading(missing='skip') to leave them out
    """
    reading = reading_of(reading, references, images, missing, language)
    complaints: list[str] = []
    candidates, others = gather(source, reading, complaints.append)
    findings, name = list(fold_complaints(complaints)), get_name(source)
    if not candidates.candidates:
        return Check(name, Findings(findings or [Finding("error", f"{name}: contains no captions")]))
    if others is not None and not others.references and not findings:
        empty = f"{get_name(reading.references, 'references')}: contains no captions"
        return Check(name, Findings([Finding("error", empty)]))
    joining: list[str] = []
    captions = join(candidates, others, reading, name, joining.append)
    findings += [Finding("error", message) for message in joining]
    # Joining has reported which ids are missing on one side.
    captions = replace(captions, skipped=0, origin=replace(captions.origin, left_out=0))
    looked_at = (
        _check_changes,
        _check_language,
        _check_languages,
        _check_texts,
        _check_shapes,
        _check_overlaps,
        _check_images,
        _check_videos,
    )
    reported = {message.removesuffix(SKIP_ONE) for message in joining}
    findings += [one for look in looked_at for one in look(captions) if one.message not in reported]
    if questions is not None:
        from captious.io.questions import open_questions

        findings += _check_questions(captions, open_questions(str(questions)))
    return Check(name, Findings(findings), captions.origin_line)


def find_misleading(captions: CaptionSet) -> list[Finding]:
    """Return the findings that make a score misleading."""
    looked_at = (
        _check_changes,
        _check_empty,
        _check_missing_values,
        _check_line_breaks,
        _check_languages,
        _check_shapes,
        _check_overlaps,
    )
    return [finding for look in looked_at for finding in look(captions) if finding.misleads]


def _check_changes(captions: CaptionSet) -> Iterable[Finding]:
    """Report what reading changed or left out."""
    return (Finding("warning", remark, True) for remark in captions.origin.remarks)


def _check_language(captions: CaptionSet) -> Iterable[Finding]:
    """Warn about scripts without spaces if neither the set nor a column names the language."""
    named = captions.columns.get(LANGUAGE_COLUMN, ())
    if named and all(map(parse_language_code, named)):
        return
    tokenizer = choose_tokenizer(AUTO, captions.language, captions.tokenizer)
    if warning := captions.scripts.explain_unsplit_clauses(tokenizer, captions.language):
        yield Finding("warning", warning)


def _check_languages(captions: CaptionSet) -> Iterable[Finding]:
    """Warn about captions in several languages, whose scores are not comparable."""
    codes = sorted(set(map(parse_language_code, captions.columns.get(LANGUAGE_COLUMN, ()))) - {""})
    if len(codes) > 1:
        yield Finding(
            "warning",
            f"the column 'language' has {len(codes)} values ({format_first(codes)}): one number over several languages "
            "means nothing; captious.evaluate_by_language, and captious score, score each language by itself",
            True,
        )


# Messages about empty captions.
_KEPT = {
    "candidate": ": kept; metrics that count words give it a low value, metrics with a model give it none",
    "reference": ": kept; metrics that count words compare with it as a text without words, which lowers most values",
}


def _check_empty(captions: CaptionSet) -> Iterable[Finding]:
    """Warn about empty captions and references, which are scored and lower most values."""
    for part, texts in (("candidate", captions.candidates), ("reference", captions.references)):
        blank = texts.blank
        if blank.any():
            ids = [captions.ids[owner] for owner in texts.owners[blank].tolist()]
            share = f", {len(ids) / len(blank):.0%} of all" if len(ids) >= 0.01 * len(blank) else ""
            yield Finding("warning", f"{format_count(ids, f'empty {part} caption')}{share}{_KEPT[part]}", True)


# What programs write for a missing value where a text is expected.
_NO_VALUES = frozenset(("nan", "NaN", "None", "null", "NULL", "<NA>", "NA", "N/A", "n/a", "#N/A"))


def _check_missing_values(captions: CaptionSet) -> Iterable[Finding]:
    """Warn about captions that are a missing value written as text, which are scored as words."""
    for part, texts in (("candidate", captions.candidates), ("reference", captions.references)):
        if _NO_VALUES.isdisjoint(texts.values):
            continue
        pairs = zip(texts.owners.tolist(), texts.values, strict=True)
        found = [(captions.ids[owner], text) for owner, text in pairs if text in _NO_VALUES]
        count = format_count([key for key, _ in found], f"{part} caption")
        message = f"{count} with only the text {found[0][1]!r}: scored as words; is it a missing value?"
        yield Finding("warning", message, True)


def _check_line_breaks(captions: CaptionSet) -> Iterable[Finding]:
    """Warn about line breaks inside captions, which line-based programs take for the end of a caption."""
    for part, texts in (("candidate", captions.candidates), ("reference", captions.references)):
        if len(texts.broken):
            ids = [captions.ids[owner] for owner in texts.owners[texts.broken].tolist()]
            # pycocoevalcap copes with \n, which some references of COCO have, and not with \r.
            returns = any("\r" in texts.values[index] for index in texts.broken.tolist())
            yield Finding(
                "warning",
                f"{format_count(ids, f'{part} caption')} with a line break inside: read as a space; other programs may "
                "take it for the end of the caption",
                part == "candidate" or returns,
            )


# Level, share of the items that may have it, test of a text, kind of caption, and what is wrong with it.
_ODD_TEXTS: tuple[tuple[Level, float, Callable[[str], Any], str, str], ...] = (
    ("warning", 0, _CONTROL.search, "", " with control characters"),
    ("warning", 0, lambda text: "|||" in text, "", " with '|||': several captions in one string?"),
    ("note", 0.2, _TOKENIZED.search, "", " tokenized already (' .', \" 's\"): ptb copes, 13a differs"),
    (
        "note",
        0,
        lambda text: text.count(" ") >= CLIP_WORDS,
        "",
        f" of over {CLIP_WORDS} words: CLIP's encoder would cut them",
    ),
)


def _check_texts(captions: CaptionSet) -> Iterable[Finding]:
    yield from _check_empty(captions)
    yield from _check_missing_values(captions)
    yield from _check_line_breaks(captions)
    for part, texts in (("candidate", captions.candidates), ("reference", captions.references)):
        for level, share, odd, kind, why in _ODD_TEXTS:
            ids = [captions.ids[owner] for owner, text in zip(texts.owners, texts.values, strict=True) if odd(text)]
            if len(set(ids)) > share * len(captions):
                yield Finding(level, format_count(ids, f"{kind}{part} caption") + why)


def _check_shapes(captions: CaptionSet) -> Iterable[Finding]:
    candidates, references = captions.candidates.counts, captions.references.counts
    if alone := captions.skipped - captions.origin.left_out:
        yield Finding("warning", f"left out for being on one side only: {alone} ids", True)
    if not references.any():
        yield Finding("warning", "no references: only metrics that need none can be scored")
        return
    dense = EVENT_COLUMN in captions.columns  # the candidates of a video are its sentences
    if len(captions) > 1 and (references == 1).all() and (candidates > 1).all() and not dense:
        yield Finding("error", "every item has several candidates and one reference: are the two files swapped?", True)
    elif len(captions) > 1 and (references == 1).all():
        yield Finding("note", "every item has one reference: values are lower than with five, and not comparable")
    several = np.flatnonzero(references > 1).tolist()
    if sum(len(set(captions.references[i])) == 1 for i in several[:SAMPLE]) > 0.5 * len(several[:SAMPLE]):
        alike = [captions.ids[i] for i in several if len(set(captions.references[i])) == 1]
        yield Finding("warning", f"{format_count(alike, 'item')} whose references are all the same text", True)
    most, number = _find_most_common(captions.candidates, 0.1)
    if number:
        share = number / len(captions.candidates.values)
        yield Finding("warning", f"{share:.0%} of the candidates are the same caption: {most[:60]!r}")
    # Systems that are compared share their references.
    most, number = captions.references.once("most common", lambda: _find_most_common(captions.references, 0.5))
    if number:
        share = number / len(captions.references.values)
        message = f"{share:.0%} of the references are the same text, {most[:60]!r}: is it the right column?"
        yield Finding("warning", message, True)


def _find_most_common(texts: Ragged, share: float) -> tuple[str, int]:
    """Return the most common text and its count if it exceeds a share of all texts, else an empty text and 0."""
    values, repeated = texts.values, False
    for first in range(0, len(values), BLOCK):
        # A text that is more than a share of all is so in a block too, where all but one of its copies repeat it.
        block = values[first : first + BLOCK]
        repeated = repeated or len(block) - len(set(block)) + 1 > share * len(block)
    most, number = Counter(values).most_common(1)[0] if repeated else ("", 0)
    return (most, number) if number > max(2, share * len(values)) else ("", 0)


def _check_overlaps(captions: CaptionSet) -> Iterable[Finding]:
    people, bounds = captions.references.values, captions.references.offsets.tolist()
    equal = [
        captions.ids[owner]
        for owner, text in zip(captions.candidates.owners.tolist(), captions.candidates.values, strict=True)
        if text and text in people[bounds[owner] : bounds[owner + 1]]
    ]
    if len(equal) > max(1, 0.05 * len(captions)):
        message = (
            f"{format_count(equal, 'item')} whose candidate is also one of its references: are they left in by mistake?"
        )
        yield Finding("warning", message, True)
    complete = (captions.references.counts > 0) & (captions.candidates.counts > 0)
    sample = np.flatnonzero(complete)[:SAMPLE].tolist()
    if len(sample) < 10:
        return
    is_unsplit = bool(captions.scripts.unsplit)  # no spaces: pairs of characters stand for words
    words = [set(_split_words(captions.candidates[i][:1], is_unsplit)) for i in sample]
    reference_words, common = captions.references.once(
        ("words", *sample, is_unsplit), lambda: _count_words([captions.references[i] for i in sample], is_unsplit)
    )
    rare = [{word for word in caption if common[word] <= 0.1 * len(sample)} for caption in words]
    own = _compute_share(rare, reference_words)
    other = _compute_share(rare, _choose_others(reference_words))
    if any(rare) and own <= 1.5 * other + 0.02:
        unit = "pairs of characters" if is_unsplit else "words"
        message = (
            f"candidates share {own:.0%} of their rarer {unit} with their own references and {other:.0%} with those of "
            "another item: do the ids belong together?"
        )
        yield Finding("warning", message, True)


def _choose_others(words: Sequence[set[str]]) -> list[set[str]]:
    """Return for each item the words of the next one that has other references: rows of several systems share them."""
    others = list(words[1:]) + list(words[:1])
    for index in reversed(range(len(words))):
        if others[index] == words[index]:
            others[index] = others[(index + 1) % len(words)]
    return others


def _count_words(items: Iterable[Sequence[str]], pairs: bool) -> tuple[list[set[str]], Counter[str]]:
    """Return the set of words of each item, and the number of items with each word."""
    words = [set(_split_words(texts, pairs)) for texts in items]
    return words, Counter(chain.from_iterable(words))


def _split_words(texts: Sequence[str], pairs: bool) -> Iterable[str]:
    """Split texts into words, or into character pairs: single characters of an alphabet such as Thai are too common."""
    if not pairs:
        return " ".join(texts).lower().split()
    return (one + other for text in texts for one, other in pairwise("".join(text.split())))


def _compute_share(candidates: Sequence[set[str]], references: Sequence[set[str]]) -> float:
    total = sum(map(len, candidates))
    return sum(len(a & b) for a, b in zip(candidates, references, strict=True)) / total if total else 0.0


def _check_images(captions: CaptionSet) -> Iterable[Finding]:
    images = [(key, image) for key, image in zip(captions.ids, captions.images, strict=True) if image is not None]
    present = [(key, image) for key, image in images if isinstance(image, ImageData) or Path(image).exists()]
    if not present:
        return
    if len(present) < len(images):
        missing = sorted({key for key, _ in images} - {key for key, _ in present})
        yield Finding("warning", f"{format_count(missing, 'image')}: no such file")
    from captious.io.images import UnreadableImage, open_image

    broken: dict[str, list[str]] = {}
    for key, image in present:
        try:
            open_image(image)
        except UnreadableImage as error:
            broken.setdefault(str(error).removeprefix(f"{image}: "), []).append(key)
    for reason, ids in broken.items():
        yield Finding("error", f"{format_count(ids, 'image')}: {reason}")


def _check_videos(captions: CaptionSet) -> Iterable[Finding]:
    """Warn about videos that do not exist, if some do; none is decoded."""
    paths: dict[str, VideoSource] = {}
    for index, key in enumerate(captions.ids):
        try:
            clip = captions.find_clip(index)
        except InputError as error:
            yield Finding("error", str(error))
            continue
        if clip is not None:
            paths[key] = clip.video
    missing = [key for key, video in paths.items() if isinstance(video, str) and not Path(video).exists()]
    if missing and len(missing) < len(paths):
        yield Finding("warning", f"{format_count(missing, 'video')}: no such file or folder")


def _check_questions(captions: CaptionSet, table: QuestionTable) -> Iterable[Finding]:
    """Report problems with the questions about the items."""
    from captious.io.questions import find_loops

    images = captions.columns.get("image", (None,) * len(captions))
    found = {key: table.find(key, image) for key, image in zip(captions.ids, images, strict=True)}
    without = [key for key, own in found.items() if own is None]
    if len(without) == len(captions):
        ids = f"captions have ids such as {captions.ids[0]!r}, questions such as {next(iter(table.questions))!r}"
        yield Finding("error", f"{table.name}: no item has questions: {ids}")
        return
    own = {key: questions for one in found.values() if one for key, questions in [one]}
    number = sum(map(len, own.values()))
    yield Finding("note", f"{table.name}: {number:,} questions about {len(own):,} items")
    if without:
        yield Finding(
            "warning", f"{table.name}: {format_count(without, 'item')} without questions, and without a value"
        )
    outside = [key for key, questions in own.items() for one in questions if one.choices and one.right is None]
    if outside:
        yield Finding("error", f"{table.name}: {format_count(outside, 'question')} whose answer is none of the choices")
    circular = [key for key, questions in own.items() for _ in find_loops(questions)]
    if circular:
        yield Finding("error", f"{table.name}: {format_count(circular, 'question')} that depend on themselves")
    known = {key: {one.id for one in questions} for key, questions in own.items()}
    lost = [key for key, questions in own.items() for one in questions if not known[key].issuperset(one.parents)]
    if lost:
        yield Finding("warning", f"{table.name}: {format_count(lost, 'question')} with a parent that is not there")
    unread = [key for key in table.unread_parents if key in own]
    if unread:
        message = f"{format_count(unread, 'item')} with parents that cannot be read: none of its questions has any"
        yield Finding("warning", f"{table.name}: {message}")


def format_count(ids: Sequence[str], what: str) -> str:
    """Format the number of some things and the first few ids."""
    return f"{len(ids)} {what}{'' if len(ids) == 1 else 's'} (id {format_first(list(dict.fromkeys(ids)))})"


def fold_complaints(complaints: Sequence[str]) -> Iterator[Finding]:
    """Yield the first `LISTED` complaints of each kind, and the number of the others."""
    kinds: dict[str, list[str]] = {}
    for complaint in complaints:
        kinds.setdefault(generalize_complaint(_ROW.sub("", complaint, count=1)), []).append(complaint)
    for kind, alike in kinds.items():
        for complaint in alike[:LISTED]:
            yield Finding("error", complaint)
        if len(alike) > LISTED:
            yield Finding("error", f"… and {len(alike) - LISTED:,} more like: {kind}")
