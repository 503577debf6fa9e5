"""Questions about items, in the layouts that their benchmarks publish: who asks what, and which answer is right.

A file of questions is read into one form, whatever its layout: CaptionQA and CAPEval (a list of questions in each row),
CapMAS (texts with options inside, and letters), VDC (``{video: [questions]}``), TIFA (a question in each row), DSG (a
question in each row, with its parents), DREAM-1K (events). The columns of the first row tell the layouts apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from captious._core.files import digest, read_regular
from captious.errors import InputError
from captious.io._harnesses import harness_of, translated
from captious.io.formats import rows_of
from captious.io.join import described, row_id
from captious.io.printed import text_list
from captious.io.rows import Row

QuestionRole = Literal["questions", "answers"]
QUESTION_COLUMN = "questions"
ANSWER_COLUMN = "answers"
EVENT_COLUMN = "events"
QUESTION_IDS = ("question_id", "proposition_id", "qid")
CATEGORIES = ("category", "element_type", "channel", "category_broad")
PARENTS = ("parents", "dependency", "dependency_id")
GIVEN = ("given", "multiple_choice_vqa")
"""Columns with the answer that a model gave."""
_INSIDE = re.compile(r"(?:^|(?<=[\s,;]))\(?([A-Z])[.):]\s+")
"""The letter of an option that stands in the text of its question."""


@dataclass(frozen=True)
class ItemQuestion:
    """A question about one item."""

    id: str
    """The id that the file gives the question, or its number among those of the item."""
    text: str
    choices: tuple[str, ...] = ()
    answer: str = ""
    """The right answer; the text of a choice where there are choices."""
    categories: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    """Ids of the questions that must be answered yes before this one makes sense."""
    given: str | None = None
    """The answer that a model gave, where the file has one."""

    @property
    def right(self) -> str | None:
        """The choice that is the right answer; None where no choice is."""
        own = plain_answer(self.answer)
        return next((choice for choice in self.choices if plain_answer(choice) == own), None)


@dataclass(frozen=True, eq=False)
class QuestionTable:
    """The questions of a file, by the id of their item."""

    name: str
    questions: Mapping[str, tuple[ItemQuestion, ...]]
    fingerprint: str = ""
    unread_parents: tuple[str, ...] = ()
    """Items whose parents cannot be read; their questions have none."""

    def __str__(self) -> str:
        return f"{self.name}#{self.fingerprint}"

    def find(self, id: str, image: Any = None) -> tuple[str, tuple[ItemQuestion, ...]] | None:
        """The id under which the file has an item, and its questions: by its id, or by the name of its image."""
        alone = id.rpartition("#")[0]  # of one candidate by itself, as `CaptionSet.candidates_alone` calls it
        file = Path(image) if isinstance(image, str) else None
        names = [id, alone, *([file.name, file.stem] if file else [])]
        return next(((name, self.questions[name]) for name in names if name in self.questions), None)


class _Records(NamedTuple):
    """The questions of a row, as they are written."""

    key: str
    where: str
    records: Sequence[Mapping[str, Any]]


def plain_answer(text: str) -> str:
    """An answer for comparisons: without case, and without spaces and full stops around it.

    >>> plain_answer(" Yes. ") == plain_answer("yes")
    True
    """
    return text.strip().rstrip(".").strip().casefold()


def open_questions(path: str, role: QuestionRole = "questions") -> QuestionTable:
    """The questions of a file, or of a folder with a JSON file for each item, as CapMAS has it.

    In a file of answers the column ``answer`` is what a model said, unless another column is.
    """
    folder = Path(path)
    try:
        files = sorted(folder.glob("*.json")) if folder.is_dir() else [folder]
        contents = [read_regular(file) for file in files]
    except OSError as error:
        raise InputError(f"{role} {path}: cannot be read ({error.strerror}), expected a file of {role}") from None
    if not files:
        raise InputError(f"{role} {path}: a folder without JSON files, expected a file of {role}")
    if not any(content.strip() for content in contents):
        raise InputError(f"{role} {path}: is empty, expected a file of {role}")
    return _opened(path, digest(*contents), role)


@lru_cache(maxsize=8)
def _opened(path: str, fingerprint: str, role: QuestionRole) -> QuestionTable:
    folder = Path(path)
    rows: Iterable[Row] = rows_of(path, harnesses=False) if not folder.is_dir() else _files(folder)
    table = table_of(rows, folder.name, role)
    return replace(table, fingerprint=fingerprint)


def _files(folder: Path) -> Iterator[Row]:
    """A row for each JSON file of a folder; the name of the file is the id."""
    for file in sorted(folder.glob("*.json")):
        try:
            record = json.loads(read_regular(file))
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{file}: not JSON that can be read ({str(error)[:80]})") from None
        if not isinstance(record, dict):
            raise InputError(f"{file}: is {described(record)}, expected an object with questions")
        yield Row(str(file), {"id": file.stem, **{key: value for key, value in record.items() if key != "id"}})


def table_of(rows: Iterable[Row], name: str, role: QuestionRole = "questions") -> QuestionTable:
    """The questions of rows."""
    written = list(_details(rows))
    models = {row.fields.get("t2i_model") for row in written}
    by_item: dict[str, list[ItemQuestion]] = {}
    unread: dict[str, None] = {}
    for row in written:
        for key, where, records in _records_of(row, role, models=len(models) > 1):
            own = by_item.setdefault(key, [])
            for record in records:
                question, readable = _question(record, where, len(own) + 1, role)
                own.append(question)
                if not readable:
                    unread[key] = None
    if not by_item:
        raise InputError(f"{name}: contains no questions")
    for key, questions in by_item.items():
        _refuse_repeated(questions, key, name)
    tuples = {
        key: tuple(replace(one, parents=()) if key in unread else one for one in questions)
        for key, questions in by_item.items()
    }
    return QuestionTable(name, tuples, unread_parents=tuple(unread))


def _details(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows; those of TIFA's own output, ``{"question_details": {id: {question: record}}, …}``, by item."""
    rows = list(rows)
    results = [row for row in rows if row.keyed and row.fields.get("id") == "question_details"]
    if not results:
        yield from rows
    for row in results:
        for key, questions in row.fields.items():
            if key != "id" and isinstance(questions, Mapping):
                yield Row(f"{row.where}: id {key!r}", {"id": key, QUESTION_COLUMN: list(questions.values())})


def _records_of(row: Row, role: QuestionRole, models: bool) -> Iterator[_Records]:
    """The questions of one row by the layout of its columns."""
    fields, where = row.fields, row.where
    if harness_of(fields) == "dream-1k":
        row = Row(where, translated("dream-1k", fields, where))
        fields = row.fields
    if QUESTION_COLUMN in fields or EVENT_COLUMN in fields:
        yield _Records(_key(row), where, _listed(fields, where, role))
    elif "question_natural_language" in fields:
        named = {"question": fields["question_natural_language"], "answer": "yes", "choices": ["yes", "no"]}
        yield _Records(_key(row), where, [{**fields, **named}])
    elif "question" in fields and "dependency_id" in fields:
        key = f"{_key(row)}_{fields['t2i_model']}" if models else _key(row)
        named = {"given": fields.get("answer"), "answer": "yes", "choices": ["yes", "no"]}
        yield _Records(key, where, [{**fields, **named}])
    elif "question" in fields or (role == "answers" and "answer" in fields):
        yield _Records(_key(row), where, [fields])
    elif len(fields) == 1 and _are_questions(next(iter(fields.values()))):
        ((key, records),) = fields.items()
        yield _Records(str(key), where, records)
    else:
        columns = ", ".join(map(str, list(fields)[:8])) or "none"
        raise InputError(f"{where}: found columns {columns}, expected {role}: a column question, questions or events")


def _key(row: Row) -> str:
    complaints: list[str] = []
    key = row_id(row, None, complaints.append)
    if key is None:
        raise InputError(complaints[0])
    return key


def _are_questions(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, Mapping) and "question" in one for one in value)


def _listed(fields: Mapping[str, Any], where: str, role: QuestionRole) -> Sequence[Mapping[str, Any]]:
    """The questions of an item that stand in one list: as objects, or as texts beside a list of answers."""
    if QUESTION_COLUMN not in fields:
        return [{"question": event} for event in text_list(fields[EVENT_COLUMN], where, EVENT_COLUMN) or []]
    value = fields[QUESTION_COLUMN]
    value = value.tolist() if hasattr(value, "tolist") else value
    if _are_questions(value):
        return list(value)
    texts = text_list(value, where, QUESTION_COLUMN) or []
    answers = fields.get(ANSWER_COLUMN)
    if answers is None:
        return [{"question": text} for text in texts]
    if not isinstance(answers, (list, tuple)) or len(answers) != len(texts):
        found = len(answers) if isinstance(answers, (list, tuple)) else described(answers)
        raise InputError(f"{where}: {found} answers for {len(texts)} questions, expected one each")
    pairs = zip(texts, answers, strict=True)
    if role == "answers":
        return [{"question": text, "given": answer} for text, answer in pairs]
    return [
        _with_options(text, str(answer), f"{where}: question {number}")
        for number, (text, answer) in enumerate(pairs, 1)
    ]


def _with_options(text: str, letter: str, where: str) -> dict[str, Any]:
    """A question whose options stand in its text, and whose answer is a letter.

    >>> _with_options("Which color? A. red B. blue", "B", "row 1")
    {'question': 'Which color?', 'choices': ['red', 'blue'], 'answer': 'blue'}
    """
    starts = list(_INSIDE.finditer(text))
    # The last run of letters from A on: a question may itself hold a letter with a full stop.
    first = next((index for index in reversed(range(len(starts))) if starts[index][1] == "A"), None)
    options = starts[first:] if first is not None else []
    letters = [match[1] for match in options]
    if len(options) < 2 or letters != [chr(65 + number) for number in range(len(options))]:
        raise InputError(f"{where}: has no options A, B, … in {text[:60]!r}, expected them in the text of the question")
    if letter.strip() not in letters:
        raise InputError(f"{where}: the answer is {letter!r}, expected one of {', '.join(letters)}")
    ends = [*(match.start() for match in options[1:]), len(text)]
    choices = [text[match.end() : end].strip().rstrip(",;") for match, end in zip(options, ends, strict=True)]
    answer = choices[letters.index(letter.strip())]
    return {"question": text[: options[0].start()].strip(), "choices": choices, "answer": answer}


def _question(record: Mapping[str, Any], where: str, number: int, role: QuestionRole) -> tuple[ItemQuestion, bool]:
    """A question, and whether its parents could be read."""
    id = next((str(record[name]) for name in QUESTION_IDS if record.get(name) not in (None, "")), str(number))
    text = record.get("question", "")
    choices = text_list(record.get("choices"), f"{where}: question {id}", "choices") or []
    # Answers alone need no text: their ids tell which questions they belong to.
    if not isinstance(text, str) or (not text.strip() and (role == "questions" or choices)):
        raise InputError(f"{where}: question {id} is {described(text)}, expected a text")
    answer, given = record.get("answer"), next((record[name] for name in GIVEN if record.get(name) is not None), None)
    if role == "answers" and given is None:
        if choices and answer is not None:
            raise InputError(
                f"{where}: question {id} has choices and the right answer, expected the answer of a model in a column "
                f"{' or '.join(GIVEN)}"
            )
        answer, given = None, answer
    parents = _parents(next((record[name] for name in PARENTS if record.get(name) is not None), None))
    return ItemQuestion(
        id=id,
        text=" ".join(text.split()),
        choices=tuple(choices),
        answer="" if answer is None else str(answer).strip(),
        categories=_categories(record),
        parents=parents or (),
        given=None if given is None else str(given).strip(),
    ), parents is not None


def _categories(record: Mapping[str, Any]) -> tuple[str, ...]:
    value = next((record[name] for name in CATEGORIES if record.get(name) not in (None, "")), ())
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else (str(value),)


def _parents(value: Any) -> tuple[str, ...] | None:
    """Ids of parents: a list, also of lists, or numbers with commas, of which 0 is none. None if they cannot be read.

    >>> _parents("1,2"), _parents("0"), _parents([["1"], 2.0]), _parents("1 and 2")
    (('1', '2'), (), ('1', '2'), None)
    """
    if value is None or value == "":
        return ()
    if isinstance(value, (list, tuple)):
        parts = [_parents(one) for one in value]
        return None if None in parts else tuple(id for part in parts for id in part or ())
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    ids = [one.strip() for one in str(value).split(",")]
    if not all(re.fullmatch(r"[\w-]+", one) for one in ids):
        return None
    return tuple(one for one in ids if one != "0")


def _refuse_repeated(questions: Sequence[ItemQuestion], key: str, name: str) -> None:
    ids: set[str] = set()
    for one in questions:
        if one.id in ids:
            raise InputError(f"{name}: item {key!r} has two questions with the id {one.id!r}, expected different ids")
        ids.add(one.id)


def loops(questions: Sequence[ItemQuestion]) -> list[str]:
    """Ids of questions that are among their own ancestors.

    >>> loops([ItemQuestion("1", "?", parents=("2",)), ItemQuestion("2", "?", parents=("1",)), ItemQuestion("3", "?")])
    ['1', '2']
    """
    parents = {one.id: one.parents for one in questions}
    found = []
    for one in questions:
        seen, waiting = set[str](), list(one.parents)
        while waiting:
            parent = waiting.pop()
            if parent not in seen:
                seen.add(parent)
                waiting += parents.get(parent, ())
        if one.id in seen:
            found.append(one.id)
    return found
