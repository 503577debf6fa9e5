"""Survey questions about the rater, before the first task and after the last one: from the form to the log."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from captious.studio.collect._events import Event
from captious.studio.collect.kinds import Gap, Incomplete
from captious.studio.collect.study_plan import Plan, SurveyQuestion

Moment = Literal["before", "after"]
# Maximum length of a text.
LONGEST = 2000


def list_questions(plan: Plan, when: Moment) -> list[SurveyQuestion]:
    """Return the questions of a moment, in the order of the plan."""
    return [one for one in plan.questions if one.when == when]


def read_survey(plan: Plan, when: Moment, form: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Parse a form: return the answers by name, and the names of the questions that screen the rater out.

    An optional question without an answer is None. Raises `Incomplete` if an answer is missing or invalid.
    """
    answers: dict[str, Any] = {}
    gaps: list[Gap] = []
    questions = list_questions(plan, when)
    for one in questions:
        answers[one.name], message = _parse_answer(plan, one, form.get(f"question:{one.name}", "").strip())
        gaps += [Gap(f"question:{one.name}", message)] if message else []
    if gaps:
        raise Incomplete(gaps)
    return answers, [one.name for one in questions if one.screens_out(answers[one.name])]


def _parse_answer(plan: Plan, one: SurveyQuestion, text: str) -> tuple[str | float | None, str]:
    """Return an answer, and an error message or an empty text."""
    say = plan.wording
    if not text:
        return None, "" if one.optional else say("question_no_answer", question=one.question)
    if one.kind == "choice":
        return text, "" if text in one.options else say("not_a_choice", value=text[:40])
    if one.kind == "text":
        too_long = say(
            "question_too_long",
            question=one.question,
            count=say.format_number(len(text)),
            most=say.format_number(LONGEST),
        )
        return text.replace("\r\n", "\n"), too_long if len(text) > LONGEST else ""
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        number = math.nan
    if not one.low <= number <= one.high:
        return None, say("question_no_number", question=one.question, low=f"{one.low:g}", high=f"{one.high:g}")
    return int(number) if number.is_integer() else number, ""


def simulate_survey(plan: Plan, when: Moment, rng: np.random.Generator) -> dict[str, str]:
    """Draw the form of a simulated rater: random answers that do not screen it out."""
    form = {}
    for one in list_questions(plan, when):
        options = [option for option in one.options if not one.screens_out(option)]
        near = np.arange(one.low, min(one.high, one.low + 100) + 1e-9)
        numbers = [number for number in near if not one.screens_out(float(number))]
        if one.kind == "number":
            options = [f"{number:g}" for number in numbers] or [f"{one.low:g}"]
        form[f"question:{one.name}"] = str(rng.choice(options)) if options else "simulated"
    return form


def collect_survey_rows(plan: Plan, events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return a row for each rater who answered questions and is not excluded; None for an unanswered question."""
    rows: dict[str, dict[str, Any]] = {}
    excluded: set[str] = set()
    for event in events:
        if event.kind == "excluded":
            excluded.add(event.rater)
        elif event.kind == "reinstated":
            excluded.discard(event.rater)
        elif event.kind == "surveyed":
            blank = {"rater": event.rater, **{one.name: None for one in plan.questions}, "screened": False}
            row = rows.setdefault(event.rater, blank)
            row |= {**event.body["answers"], "screened": row["screened"] or bool(event.body.get("screened"))}
    return [row for rater, row in rows.items() if rater not in excluded]
