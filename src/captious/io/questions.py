"""Questions about items, in the layouts of published benchmarks.

Files of all layouts are read into one form: CaptionQA and CAPEval (a list of questions in each row), CapMAS (texts that
contain the options, and letters), VDC (``{video: [questions]}``), TIFA (a question in each row), DSG (a question in
each row, with its parents), DREAM-1K (events). The columns of a row show which layout it has.
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
from captious.io._harnesses import find_harness, translate_row
from captious.io.formats import read_rows
from captious.io.join import describe_value, get_row_id
from captious.io.printed import parse_text_list
from captious.io.rows import Row

QuestionRole = Literal["questions", "answers"]
QUESTION_COLUMN = "questions"
ANSWER_COLUMN = "answers"
EVENT_COLUMN = "events"
QUESTION_IDS = ("question_id", "proposition_id", "qid")
CATEGORIES = ("category", "element_type", "channel", "category_broad")
PARENTS = ("parents", "dependency", "dependency_id")
# Columns with the answer that a model gave, the first that a row has.
GIVEN = ("given", "multiple_choice_vqa")
# The letter of an option that is written in the text of its question.
_INSIDE = re.compile(r"(?:^|(?<=[\s,;]))\(?([A-Z])[.):]\s+")


@dataclass(frozen=True)
class ItemQuestion:
    """A question about one item."""

    id: str
    """The id that the file gives the question, or its number among those of the item."""
    text: str
    choices: tuple[str, ...] = ()
    answer: str = ""
    """The right answer; if there are choices, the text of one."""
    categories: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    """Ids of the questions that must be answered yes before this one makes sense."""
    given: str | None = None
    """The answer that a model gave, if the file has it."""

    @property
    def right(self) -> str | None:
        """The choice that is the right answer; None if no choice is."""
        answer = normalize_answer(self.answer)
        return next((choice for choice in self.choices if normalize_answer(choice) == answer), None)


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
        """Return the key and the questions of an item, looked up by its id or the name of its image; None if there are
        none.
        """
        item_id = id.rpartition("#")[0]  # if it is the id of one candidate, as in `CaptionSet.candidates_alone`
        file = Path(image) if isinstance(image, str) else None
        names = [id, item_id, *([file.name, file.stem] if file else [])]
        return next(((name, self.questions[name]) for name in names if name in self.questions), None)


class _Records(NamedTuple):
    """The unparsed questions of a row."""

    key: str
    where: str
    records: Sequence[Mapping[str, Any]]


def normalize_answer(text: str) -> str:
    """Normalize an answer for comparison: lower case, without surrounding spaces and full stops.

    >>> normalize_answer(" Yes. ") == normalize_answer("yes")
    True
    """
    return text.strip().rstrip(".").strip().casefold()


def open_questions(path: str, role: QuestionRole = "questions") -> QuestionTable:
    """Read the questions of a file, or of a folder with a JSON file per item, as in CapMAS.

    In a file of answers the column ``answer`` contains a model's answer, unless another column does.
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
    return _load_questions(path, digest(*contents), role)


@lru_cache(maxsize=8)
def _load_questions(path: str, fingerprint: str, role: QuestionRole) -> QuestionTable:
    # The fingerprint is part of the key of the cache, so a file that has changed is read again.
    folder = Path(path)
    rows: Iterable[Row] = read_rows(path, harnesses=False) if not folder.is_dir() else _read_folder(folder)
    table = build_table(rows, folder.name, role)
    return replace(table, fingerprint=fingerprint)


def _read_folder(folder: Path) -> Iterator[Row]:
    """Yield a row for each JSON file in a folder; the file's stem is the id."""
    for file in sorted(folder.glob("*.json")):
        try:
            record = json.loads(read_regular(file))
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{file}: not JSON that can be read ({str(error)[:80]})") from None
        if not isinstance(record, dict):
            raise InputError(f"{file}: is {describe_value(record)}, expected an object with questions")
        yield Row(str(file), {"id": file.stem, **{key: value for key, value in record.items() if key != "id"}})


def build_table(rows: Iterable[Row], name: str, role: QuestionRole = "questions") -> QuestionTable:
    """Build the table of the questions in rows."""
    expanded = list(_expand_details(rows))
    image_models = {row.fields.get("t2i_model") for row in expanded}
    by_item: dict[str, list[ItemQuestion]] = {}
    unread: dict[str, None] = {}
    for row in expanded:
        for key, where, records in _parse_row(row, role, several_models=len(image_models) > 1):
            own = by_item.setdefault(key, [])
            for record in records:
                question, readable = _parse_question(record, where, len(own) + 1, role)
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


def _expand_details(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows; split TIFA's own output, ``{"question_details": {id: {question: record}}, …}``, by item."""
    rows = list(rows)
    results = [row for row in rows if row.keyed and row.fields.get("id") == "question_details"]
    if not results:
        yield from rows
    for row in results:
        for key, questions in row.fields.items():
            if key != "id" and isinstance(questions, Mapping):
                yield Row(f"{row.where}: id {key!r}", {"id": key, QUESTION_COLUMN: list(questions.values())})


def _parse_row(row: Row, role: QuestionRole, several_models: bool) -> Iterator[_Records]:
    """Yield the questions of one row according to the layout of its columns.

    If a file has images of ``several_models``, the same prompt has an item for each of them.
    """
    fields, where = row.fields, row.where
    if find_harness(fields) == "dream-1k":
        row = Row(where, translate_row("dream-1k", fields, where))
        fields = row.fields
    if QUESTION_COLUMN in fields or EVENT_COLUMN in fields:
        yield _Records(_get_item_id(row), where, _parse_list(fields, where, role))
    elif "question_natural_language" in fields:  # DSG's questions
        named = {"question": fields["question_natural_language"], "answer": "yes", "choices": ["yes", "no"]}
        yield _Records(_get_item_id(row), where, [{**fields, **named}])
    elif "question" in fields and "dependency_id" in fields:  # DSG's results, with the answers of a model
        key = f"{_get_item_id(row)}_{fields['t2i_model']}" if several_models else _get_item_id(row)
        named = {"given": fields.get("answer"), "answer": "yes", "choices": ["yes", "no"]}
        yield _Records(key, where, [{**fields, **named}])
    elif "question" in fields or (role == "answers" and "answer" in fields):
        yield _Records(_get_item_id(row), where, [fields])
    elif len(fields) == 1 and _are_questions(next(iter(fields.values()))):
        ((key, records),) = fields.items()
        yield _Records(str(key), where, records)
    else:
        columns = ", ".join(map(str, list(fields)[:8])) or "none"
        raise InputError(f"{where}: found columns {columns}, expected {role}: a column question, questions or events")


def _get_item_id(row: Row) -> str:
    complaints: list[str] = []
    key = get_row_id(row, None, complaints.append)
    if key is None:
        raise InputError(complaints[0])
    return key


def _are_questions(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, Mapping) and "question" in one for one in value)


def _parse_list(fields: Mapping[str, Any], where: str, role: QuestionRole) -> Sequence[Mapping[str, Any]]:
    """Return the questions of an item in one list: objects, or texts with a parallel list of answers."""
    if QUESTION_COLUMN not in fields:
        return [{"question": event} for event in parse_text_list(fields[EVENT_COLUMN], where, EVENT_COLUMN) or []]
    value = fields[QUESTION_COLUMN]
    value = value.tolist() if hasattr(value, "tolist") else value
    if _are_questions(value):
        return list(value)
    texts = parse_text_list(value, where, QUESTION_COLUMN) or []
    answers = fields.get(ANSWER_COLUMN)
    if answers is None:
        return [{"question": text} for text in texts]
    if not isinstance(answers, (list, tuple)) or len(answers) != len(texts):
        found = len(answers) if isinstance(answers, (list, tuple)) else describe_value(answers)
        raise InputError(f"{where}: {found} answers for {len(texts)} questions, expected one each")
    pairs = zip(texts, answers, strict=True)
    if role == "answers":
        return [{"question": text, "given": answer} for text, answer in pairs]
    return [
        _split_options(text, str(answer), f"{where}: question {number}")
        for number, (text, answer) in enumerate(pairs, 1)
    ]


def _split_options(text: str, letter: str, where: str) -> dict[str, Any]:
    """Split a text into the question and its options; the answer is a letter.

    >>> _split_options("Which color? A. red B. blue", "B", "row 1")
    {'question': 'Which color?', 'choices': ['red', 'blue'], 'answer': 'blue'}
    """
    starts = list(_INSIDE.finditer(text))
    # Options begin at the last A: the question before them may contain a letter with a full stop, too.
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


def _parse_question(
    record: Mapping[str, Any], where: str, number: int, role: QuestionRole
) -> tuple[ItemQuestion, bool]:
    """Return a question, and whether its parents could be parsed."""
    id = next((str(record[name]) for name in QUESTION_IDS if record.get(name) not in (None, "")), str(number))
    text = record.get("question", "")
    choices = parse_text_list(record.get("choices"), f"{where}: question {id}", "choices") or []
    # In a file of answers the text may be missing: ids say which questions the answers belong to.
    if not isinstance(text, str) or (not text.strip() and (role == "questions" or choices)):
        raise InputError(f"{where}: question {id} is {describe_value(text)}, expected a text")
    answer, given = record.get("answer"), next((record[name] for name in GIVEN if record.get(name) is not None), None)
    if role == "answers" and given is None:
        if choices and answer is not None:
            raise InputError(
                f"{where}: question {id} has choices and the right answer, expected the answer of a model in a column "
                f"{' or '.join(GIVEN)}"
            )
        answer, given = None, answer  # in a file of answers this column is the answer of a model, not the right one
    parents = _parse_parents(next((record[name] for name in PARENTS if record.get(name) is not None), None))
    return ItemQuestion(
        id=id,
        text=" ".join(text.split()),
        choices=tuple(choices),
        answer="" if answer is None else str(answer).strip(),
        categories=_get_categories(record),
        parents=parents or (),
        given=None if given is None else str(given).strip(),
    ), parents is not None


def _get_categories(record: Mapping[str, Any]) -> tuple[str, ...]:
    value = next((record[name] for name in CATEGORIES if record.get(name) not in (None, "")), ())
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else (str(value),)


def _parse_parents(value: Any) -> tuple[str, ...] | None:
    """Return the ids of parents from a list or comma-separated numbers, where 0 means none; None if unreadable.

    >>> _parse_parents("1,2"), _parse_parents("0"), _parse_parents([]), _parse_parents("1 and 2")
    (('1', '2'), (), (), None)
    """
    if value is None or value == "":
        return ()
    if isinstance(value, (list, tuple)):
        parts = [_parse_parents(one) for one in value]
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


def find_loops(questions: Sequence[ItemQuestion]) -> list[str]:
    """Return the ids of questions that are among their own ancestors.

    >>> first, second = ItemQuestion("1", "?", parents=("2",)), ItemQuestion("2", "?", parents=("1",))
    >>> find_loops([first, second, ItemQuestion("3", "?")])
    ['1', '2']
    """
    parents = {question.id: question.parents for question in questions}
    in_loops = []
    for question in questions:
        ancestors, stack = set[str](), list(question.parents)
        while stack:
            parent = stack.pop()
            if parent not in ancestors:
                ancestors.add(parent)
                stack += parents.get(parent, ())
        if question.id in ancestors:
            in_loops.append(question.id)
    return in_loops
