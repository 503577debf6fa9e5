"""Base class of metrics that ask questions about an item: sources of questions, requests, and scores of answers.

A `QuestionMetric` says which options a question has and what an answer is worth. The questions come from a file or from
the column ``questions`` of the captions; the answers from a chat model, which reads the caption or sees the image, or
from a file or column of stored answers, where nothing is asked.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from captious.captions import CaptionSet, Item
from captious.errors import InputError
from captious.io.questions import (
    ANSWER_COLUMN,
    EVENT_COLUMN,
    QUESTION_COLUMN,
    ItemQuestion,
    QuestionTable,
    build_table,
    open_questions,
)
from captious.io.rows import Row
from captious.metrics.contract import Need, Shared
from captious.metrics.explanation import VERDICT, Breakdown, Contribution
from captious.metrics.judges._choices import (
    AnswerOptions,
    ChosenAnswer,
    build_choice_request,
    build_joint_request,
    read_choice,
    read_joint_reply,
    read_partial_reply,
)
from captious.metrics.judges._yes_no import BY_WORDS
from captious.metrics.judges.judged import (
    PROMPTS,
    CallPlan,
    JudgedMetric,
    JudgeSetup,
    JudgeVerdict,
    plan_requests,
    quote,
    read_prompt,
)
from captious.models.chat.judge import ask_and_parse
from captious.models.chat.messages import Failure, Request, Turn
from captious.render import Column, Table

# Value of the parameter `answers` for answers in a column of the captions.
COLUMN = "column"
# Name of the signature's count of questions left out because they have no answer.
SKIPPED = "skipped"
# Name of the signature's count of questions without an answer, scored as wrong.
TAKEN_AS_WRONG = "taken_as_wrong"
NO_QUESTIONS = "no questions"
NO_ANSWERS = "no stored answers"


class QuestionList(NamedTuple):
    """The questions of one item."""

    key: str
    """The name of the item in the file."""
    questions: tuple[ItemQuestion, ...]


class AnswerMark(NamedTuple):
    """The points and verdict of an answer."""

    points: float
    verdict: str
    reason: str = ""
    """A further reason of the mark, such as the parent that was answered no."""


class AskedItem(NamedTuple):
    """An item with its questions and their options."""

    item: Item
    question_list: QuestionList
    options: list[AnswerOptions]


@dataclass(frozen=True)
class QuestionMetric(JudgedMetric):
    """A metric whose value is computed from answers to questions about an item."""

    questions: str = ""
    """File of questions; without it the column ``questions`` has them."""
    answers: str = ""
    """File of stored answers, or ``column``: nothing is asked."""
    category: str = ""
    """The category of the questions that count; without it all do."""
    missing: Literal["nan", "skip", "wrong"] = "nan"
    """What a question without a readable answer does: the caption has no value, or the question is left out, or it
    counts as answered wrong; the signature counts such questions."""

    always_shown: ClassVar[tuple[str, ...]] = ()
    sees: ClassVar[bool] = False
    """Whether the model sees the image; otherwise it reads the caption."""
    pooled: ClassVar[bool] = True
    """Whether the value of a set is over all its questions; otherwise it is the mean over items."""
    one_token: ClassVar[bool] = True
    """Whether the first token of a reply tells the answer, so that probabilities are of use."""
    gold: ClassVar[bool] = True
    """Whether a question needs a right answer."""
    parse_rule: ClassVar[str] = "choice"
    wrong: ClassVar[str] = ""
    """The answer that a question without one is taken to have if ``missing=wrong``."""
    part_unit: ClassVar[str] = "question"
    part_columns: ClassVar[Sequence[Column]] = (
        Column(VERDICT, "text"),
        Column("answer", "text"),
        Column("right answer", "text", key="gold"),
        Column("category", "text"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model and self.answers:
            raise InputError(f"{self.name}: model and answers are both given; with answers nothing is asked")

    @property
    def needs(self) -> tuple[Need, ...]:
        """A model, which may need to see the image; stored answers need nothing."""
        return () if self.answers else ("image", "judge") if self.sees else ("judge",)

    @property
    def counted(self) -> tuple[str, ...]:  # type: ignore[override]
        """The counts of the signature."""
        return BY_WORDS, TAKEN_AS_WRONG if self.missing == "wrong" else SKIPPED

    @property
    def together(self) -> bool:
        """Whether all questions about a caption are asked in one call."""
        return False

    @property
    def strict(self) -> bool:
        """Whether the server must make a reply follow a JSON schema."""
        return False

    @property
    def prompt_file(self) -> tuple[str, tuple[str, ...]]:
        """The name of the prompt, and what it must have in braces."""
        return self.name, self.fields

    @abstractmethod
    def list_options(self, key: str, question: ItemQuestion) -> AnswerOptions:
        """List the answers that a question about an item allows, in the order in which they are shown."""

    @abstractmethod
    def mark(self, question: ItemQuestion, answer: ChosenAnswer) -> AnswerMark:
        """Mark an answer."""

    def mark_all(self, questions: Sequence[ItemQuestion], answers: Sequence[ChosenAnswer]) -> list[AnswerMark]:
        """Mark the answers to an item's questions; the mark of one may depend on another."""
        return [self.mark(*pair) for pair in zip(questions, answers, strict=True)]

    def sum_marks(self, marks: Sequence[AnswerMark]) -> Sequence[float]:
        """Compute the row of statistics of one caption: points and questions, or their ratio and 1."""
        points = sum(mark.points for mark in marks)
        return (points, len(marks)) if self.pooled else (points / len(marks), 1.0)

    def summarize_marks(self, marks: Sequence[AnswerMark]) -> str:
        """Summarize the marks in a few words."""
        right = sum(mark.verdict == "right" for mark in marks)
        return f"{right} of {len(marks)} question{'' if len(marks) == 1 else 's'} right"

    def read_prompts(self) -> dict[str, str]:
        """Read the prompt."""
        name, fields = self.prompt_file
        return {"question": read_prompt(self.prompt or PROMPTS / f"{name}.txt", fields)}

    def prepare(self, captions: CaptionSet) -> Shared[JudgeSetup]:
        """Load the judge, the prompts and the files, and check all questions before any request is sent."""
        tables = dict[str, QuestionTable]()
        if self.questions:
            tables[QUESTION_COLUMN] = open_questions(self.questions, "questions")
        if self.answers not in ("", COLUMN):
            tables[ANSWER_COLUMN] = open_questions(self.answers, "answers")
        if self.answers:
            setup, key = JudgeSetup(None, {}, tables), "answers"
        else:
            shared = super().prepare(captions)
            setup, key = replace(shared.value, tables=tables), shared.key
        self._refuse_unfit_questions(captions, setup)
        return Shared(setup, "|".join([key, *map(str, tables.values())]))

    def _refuse_unfit_questions(self, captions: CaptionSet, setup: JudgeSetup) -> None:
        for item in captions:
            asked = find_item_questions(item, setup.tables, self.answers == COLUMN)
            if isinstance(asked, Failure) or not self.gold:
                continue
            for question in asked.questions:
                where = f"{get_source_name(setup, captions)}: item {asked.key!r}: question {question.id}"
                self.refuse_unfit_question(question, where)
        if self.answers and not self.sees and (captions.candidates.counts > 1).any():
            id = captions.ids[int(np.argmax(captions.candidates.counts > 1))]
            raise InputError(f"{self.name}: item {id!r} has several captions, and stored answers are those of one")

    def refuse_unfit_question(self, question: ItemQuestion, where: str) -> None:
        """Raise InputError if a question has no right answer among its choices."""
        if len(question.choices) < 2:
            raise InputError(f"{where}: has {len(question.choices)} choices, expected at least 2")
        if question.right is None:
            choices = ", ".join(question.choices)
            raise InputError(f"{where}: the answer {question.answer!r} is none of the choices ({choices})")

    def build_requests(self, captions: CaptionSet, setup: JudgeSetup) -> list[Request]:
        """Build one request per question, or one per caption if its questions are asked together."""
        asked = [one for one in self.list_asked_items(captions, setup) if isinstance(one, AskedItem)]
        logprobs = self._has_logprobs(setup, ask=False)
        return [request for one in asked for request in self._build_item_requests(one, setup, logprobs)]

    def list_asked_items(self, captions: CaptionSet, setup: JudgeSetup) -> list[AskedItem | Failure]:
        """List each item with its questions and their options, or a Failure if it has none."""
        items: list[AskedItem | Failure] = []
        for item in captions:
            asked = find_item_questions(item, setup.tables, self.answers == COLUMN)
            if isinstance(asked, Failure) or not asked.questions:
                items.append(asked if isinstance(asked, Failure) else Failure(NO_QUESTIONS))
            else:
                options = [self.list_options(asked.key, question) for question in asked.questions]
                items.append(AskedItem(item, asked, options))
        return items

    def _has_logprobs(self, setup: JudgeSetup, ask: bool) -> bool:
        """Return True if the server sends probabilities and they are of use; without ``ask`` no request is sent."""
        if self.together or self.strict or not self.one_token:
            return False
        return setup.judge.can("logprobs") if ask else setup.judge.has_ability("logprobs")

    def _build_item_requests(self, asked: AskedItem, setup: JudgeSetup, logprobs: bool) -> list[Request]:
        prompt, item = setup.prompts["question"], asked.item
        images = (item.fields["image"],) if self.sees else ()
        caption = {} if self.sees else {"caption": quote(item.candidate)}
        pairs = list(zip(asked.question_list.questions, asked.options, strict=True))
        if self.together:
            shown = [f"{one.text}\n{options.lines}" if self.gold else one.text for one, options in pairs]
            lines = [f"{number}. {text}" for number, text in enumerate(shown, 1)]
            text = prompt.format(questions="\n".join(lines), **caption)
            return [build_joint_request(Turn("user", text, images), asked.options, self.strict)]
        return [
            build_choice_request(
                Turn("user", prompt.format(question=one.text, options=options.lines, **caption).strip(), images),
                options,
                logprobs,
                self.strict,
            )
            for one, options in pairs
        ]

    def plan(self, captions: CaptionSet, setup: JudgeSetup) -> CallPlan:
        """Plan a call for every question, or every caption, and the call that tests whether the server supports
        probabilities or schemas.
        """
        requests = self.build_requests(captions, setup)
        asked = [one for one in self.list_asked_items(captions, setup) if isinstance(one, AskedItem)]
        tokens = 6 if not self.together else 8 * sum(len(one.options) for one in asked) // max(len(asked), 1)
        if requests and self.strict:
            requests += setup.judge.list_probes("schema")
        elif requests and self.one_token and not self.together:
            requests += setup.judge.list_probes("logprobs")
        return plan_requests(setup.judge, requests, tokens)

    def collect_verdicts(self, captions: CaptionSet, setup: JudgeSetup) -> list[JudgeVerdict | Failure]:
        """Collect the answers to the questions about each item, and score them."""
        asked = self.list_asked_items(captions, setup)
        open_items = [one for one in asked if isinstance(one, AskedItem)]
        if self.answers:
            lists = iter([self._find_stored_answers(one, setup) for one in open_items])
        else:
            lists = iter(self.ask_model(open_items, setup))
        return [
            self._score_failure(one)
            if isinstance(one, Failure)
            else self._score_answers(one.question_list.questions, next(lists))
            for one in asked
        ]

    def _score_failure(self, failure: Failure) -> JudgeVerdict | Failure:
        """Return why an item has no value; if unanswered questions are wrong, so is the item without stored answers."""
        if self.missing != "wrong" or failure.reason != NO_ANSWERS:
            return failure
        return self._score_answers([ItemQuestion("1", NO_ANSWERS)], [failure])

    def ask_model(self, asked: Sequence[AskedItem], setup: JudgeSetup) -> list[list[ChosenAnswer | Failure] | Failure]:
        """Ask the model every question of every item."""
        if asked and self.strict:
            setup.judge.can("schema")  # recorded in the signature; the schema is sent in any case
        if self.together:
            requests = [self._build_item_requests(one, setup, False)[0] for one in asked]
            parsers = [partial(read_joint_reply, options=one.options) for one in asked]
            replies = ask_and_parse(setup.judge, requests, parsers, what=self.label)
            return [self._select_readable(*pair) for pair in zip(asked, replies, strict=True)]
        logprobs = bool(asked) and self._has_logprobs(setup, True)
        lists = [self._build_item_requests(one, setup, logprobs) for one in asked]
        parsers_each = [partial(read_choice, options=options) for one in asked for options in one.options]
        each = iter(ask_and_parse(setup.judge, [one for own in lists for one in own], parsers_each, what=self.label))
        return [[next(each) for _ in own] for own in lists]

    def _select_readable(
        self, asked: AskedItem, reply: list[ChosenAnswer] | Failure
    ) -> list[ChosenAnswer | Failure] | Failure:
        """Return the answers of a joint reply; if answers may be missing, those that can be read."""
        if not isinstance(reply, Failure):
            return list(reply)
        if self.missing == "nan":
            return reply
        some = read_partial_reply(reply.reply, asked.options)
        return [some.get(index, reply) for index in range(len(asked.options))]

    def _find_stored_answers(self, asked: AskedItem, setup: JudgeSetup) -> list[ChosenAnswer | Failure] | Failure:
        """Find the stored answers in a file or a column."""
        given = find_stored_answers(asked.item, asked.question_list, setup.tables)
        if isinstance(given, Failure):
            return [given] * len(asked.options) if self.missing == "wrong" else given
        return [
            one if isinstance(one, Failure) else self.read_stored(one, options)
            for one, options in zip(given, asked.options, strict=True)
        ]

    def read_stored(self, text: str, options: AnswerOptions) -> ChosenAnswer | Failure:
        """Read a stored answer in its own words: letters depend on the order in which the options were shown."""
        try:
            return ChosenAnswer(options.without_letters().find_text(text))
        except ValueError as error:
            return Failure(f"unreadable answer: {error}")

    def _score_answers(
        self, questions: Sequence[ItemQuestion], answers: list[ChosenAnswer | Failure] | Failure
    ) -> JudgeVerdict | Failure:
        if isinstance(answers, Failure):
            return answers
        failed = [(question, one) for question, one in zip(questions, answers, strict=True) if isinstance(one, Failure)]
        unanswered = self.missing == "nan" or (self.missing == "skip" and len(failed) == len(answers))
        if failed and unanswered:
            question, failure = failed[0]
            return replace(failure, reason=f"{failure.reason} (question {question.id}: {question.text})")
        pairs = [
            (question, ChosenAnswer(self.wrong, reason=one.reason) if isinstance(one, Failure) else one)
            for question, one in zip(questions, answers, strict=True)
            if self.missing == "wrong" or not isinstance(one, Failure)
        ]
        marks = self.mark_all([question for question, _ in pairs], [one for _, one in pairs])
        chosen = [
            (question, one, mark)
            for (question, one), mark in zip(pairs, marks, strict=True)
            if not self.category or self.category.casefold() in map(str.casefold, question.categories)
        ]
        if not chosen:
            return Failure(f"no questions of the category {self.category!r}")
        counted = [mark for _, _, mark in chosen]
        sums = self.sum_marks(counted)
        return JudgeVerdict(
            float(self.aggregate(np.asarray(sums, dtype=np.float64))),
            parts=[build_part(*three) for three in chosen],
            counted=[*([BY_WORDS] if any(one.by_words for _, one in pairs) else []), *[self.counted[1]] * len(failed)],
            summary=self.summarize_marks(counted),
            sums=sums,
        )

    def build_breakdown(self, verdicts: Sequence[JudgeVerdict]) -> Breakdown:
        """Break the value down by questions. The part of a question is its share of all points, times the value."""
        breakdown, value = super().build_breakdown(verdicts), self.compute_value(verdicts)
        total = sum(part.adds for part in breakdown.parts)
        scale = value / total if total else 0.0
        parts = [part._replace(adds=part.adds * scale) for part in breakdown.parts]
        columns = [one for one in breakdown.columns if any(part.details.get(one.key or one.name) for part in parts)]
        return replace(breakdown, parts=parts, columns=columns, tables=build_category_table(parts))

    def settings(self, state: Shared[JudgeSetup]) -> Mapping[str, str]:
        """Return the judge with its prompt, and the files of questions and answers."""
        tables = {name: str(table) for name, table in state.value.tables.items()}
        return {**super().settings(state), **tables}

    def hint(self, reason: str) -> str:
        """Say what helps if an item has no questions or no answers."""
        if reason == NO_QUESTIONS and self.questions:
            return f"; {self.questions} has none of these ids"
        if reason == NO_QUESTIONS:
            return f"; pass {self.name}(questions=FILE), or a column 'questions'"
        return f"; pass {self.name}(answers=FILE) with their ids" if reason == NO_ANSWERS else super().hint(reason)


@dataclass(frozen=True)
class GroupedQuestions(QuestionMetric):
    """A metric whose questions are asked one by one, or all about a caption in one call."""

    ask: Literal["each", "together"] = "each"
    """Whether each question is a call of its own, or all those about a caption are one."""
    schema: bool = False
    """Whether the server must make a reply follow a JSON schema, which changes what a model says."""

    @property
    def together(self) -> bool:
        """Whether all questions about a caption are asked in one call."""
        return self.ask == "together"

    @property
    def strict(self) -> bool:
        """Whether the server must make a reply follow a JSON schema."""
        return self.schema


def find_item_questions(
    item: Item, tables: Mapping[str, QuestionTable], answered: bool = False
) -> QuestionList | Failure:
    """Find the questions of an item: in a file, in its column, or next to its stored answers.

    ``answered`` says that the column of answers has those of a model, and not the right ones.
    """
    if table := tables.get(QUESTION_COLUMN):
        match = table.find(item.id, item.fields.get("image"))
        return QuestionList(*match) if match else Failure(NO_QUESTIONS)
    columns = [name for name in (QUESTION_COLUMN, EVENT_COLUMN) if item.fields.get(name) is not None]
    if columns:
        fields = {"id": item.id.rpartition("#")[0] or item.id, columns[0]: item.fields[columns[0]]}
        if columns[0] == QUESTION_COLUMN and not answered and item.fields.get(ANSWER_COLUMN) is not None:
            fields[ANSWER_COLUMN] = item.fields[ANSWER_COLUMN]
        ((key, questions),) = build_table([Row(f"item {item.id!r}", fields)], "column").questions.items()
        return QuestionList(key, questions)
    if table := tables.get(ANSWER_COLUMN):
        match = table.find(item.id, item.fields.get("image"))
        return QuestionList(*match) if match else Failure(NO_ANSWERS)
    return Failure(NO_QUESTIONS)


def find_stored_answers(
    item: Item, asked: QuestionList, tables: Mapping[str, QuestionTable]
) -> list[str | Failure] | Failure:
    """Find the stored answers to an item's questions: in a file, by question text or else by id, or in a column."""
    if table := tables.get(ANSWER_COLUMN):
        match = table.find(item.id, item.fields.get("image"))
        if match is None:
            return Failure(NO_ANSWERS)
        by_text = {one.text: one.given for one in match[1] if one.text}
        by_id = {one.id: one.given for one in match[1]}
        given = [by_text.get(one.text) if one.text in by_text else by_id.get(one.id) for one in asked.questions]
        return [Failure(NO_ANSWERS) if one is None else one for one in given]
    column = item.fields.get(ANSWER_COLUMN)
    if not isinstance(column, (list, tuple)):
        return Failure(NO_ANSWERS)
    if len(column) != len(asked.questions):
        return Failure(f"{len(column)} answers for {len(asked.questions)} questions")
    return [Failure(NO_ANSWERS) if one is None else str(one) for one in column]


def get_source_name(setup: JudgeSetup, captions: CaptionSet) -> str:
    """Return the name of the source of the questions, for messages."""
    table = setup.tables.get(QUESTION_COLUMN) or setup.tables.get(ANSWER_COLUMN)
    return table.name if table else captions.name


def build_part(question: ItemQuestion, answer: ChosenAnswer, mark: AnswerMark) -> Contribution:
    """Build the contribution of a question from its answer and mark."""
    return Contribution(
        question.text,
        mark.points,
        details={
            "question_id": question.id,
            VERDICT: mark.verdict,
            "answer": answer.text,
            "gold": question.answer,
            "category": ", ".join(question.categories),
            "reason": mark.reason or answer.reason,
        },
    )


def build_category_table(parts: Sequence[Contribution]) -> list[Table]:
    """Build a table of questions and points by category; an empty list if all are of one category."""
    by_category: dict[str, list[Contribution]] = {}
    for part in parts:
        by_category.setdefault(str(part.details["category"]), []).append(part)
    if len(by_category) < 2:
        return []
    rows = [
        (
            name or "none",
            len(own),
            sum(part.details[VERDICT] == "right" for part in own),
            sum(part.adds for part in own),
        )
        for name, own in by_category.items()
    ]
    columns = ("category", Column("questions"), Column("right"), Column("adds"))
    return [Table("categories", "by category", columns, rows)]
