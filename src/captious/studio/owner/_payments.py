"""Payments: raters with their ids on a platform, their work, and a suggested action for each.

Nothing here pays or rejects anybody: owners read the table and act on the platform.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from captious.render import Column, Table
from captious.render.document import Value
from captious.render.tables import write_csv
from captious.studio.collect._tables import PERSON
from captious.studio.collect.plan import Plan
from captious.studio.owner.raters import RaterProgress, State

Action = Literal["approve", "look", "ask to return", "wait"]
# URL parameter of the platform with the id of the submission.
SUBMISSION = {"prolific": "SESSION_ID", "mturk": "assignmentId"}
# The full table, and the files for the platforms' bulk forms.
FILE, APPROVE, REVIEW = "payments.csv", "prolific-approve.txt", "mturk-review.csv"


@dataclass(frozen=True)
class Payment:
    """One rater who came, with the suggested action."""

    rater: str
    person: str
    """The id on the platform; the name of a rater with a link, where the owner gave one."""
    submission: str
    """The submission (Prolific) or assignment (Mechanical Turk) of the last visit."""
    hit: str
    """The HIT on Mechanical Turk."""
    status: State
    tasks: int
    minutes: float
    """Time on all pages that were answered."""
    passed: int
    failed: int
    """Checks that were passed and failed."""
    action: Action
    reason: str
    pay: float | None
    """Pay for the time, at the hourly rate of the plan."""


def list_payments(
    plan: Plan, raters: Iterable[RaterProgress], identities: Mapping[str, Mapping[str, str]]
) -> list[Payment]:
    """Return a payment for every rater who came, in the order of the raters' numbers."""
    source = plan.source.name
    payments = []
    for rater in sorted(raters, key=lambda one: (len(one.id), one.id)):
        if rater.state == "invited":
            continue
        known = identities.get(rater.id, {})
        action, reason = _suggest_action(rater, plan)
        payments.append(
            Payment(
                rater.id,
                known.get(PERSON.get(source, "name"), ""),
                known.get(SUBMISSION.get(source, ""), ""),
                known.get("hitId", ""),
                rater.state,
                rater.tasks,
                60 * rater.time.hours,
                rater.passed,
                rater.failed,
                action,
                reason,
                None if plan.pay is None else plan.pay * rater.time.hours,
            )
        )
    return payments


def _suggest_action(rater: RaterProgress, plan: Plan) -> tuple[Action, str]:
    """Suggest an action with its reason. Rejection is never suggested: a person must decide that."""
    flags = "; ".join(flag.reason for flag in rater.flags)
    if rater.state == "excluded":
        return "look", f"excluded: {rater.reason}"
    if rater.state == "declined":
        return "ask to return", "did not agree to take part"
    if rater.state == "screened":
        return "look", "was screened out by the questions before the study"
    if rater.state == "came when full":
        return "approve", "came when nothing was left to do"
    if rater.state == "left":
        asked = f"left after {rater.tasks:,} task{'' if rater.tasks == 1 else 's'} of {plan.per_rater:,}"
        return ("look", "; ".join(filter(None, (asked, flags)))) if rater.tasks else ("ask to return", asked)
    if rater.state == "done":
        return ("look", flags) if flags else ("approve", "did all tasks")
    return "wait", "is at work"


def build_payments_table(payments: Sequence[Payment]) -> Table:
    """Build the table of payments."""
    paid = any(one.pay is not None for one in payments)
    columns: list[Column | str] = ["rater", "status", "suggested", "because", Column("tasks")]
    columns += [Column("minutes", decimals=1), "checks passed", *([Column("pay", decimals=2)] if paid else [])]
    columns.append("id on the platform")
    rows: list[list[Value]] = [
        [
            *(one.rater, one.status, one.action, one.reason, one.tasks, one.minutes),
            f"{one.passed} of {one.passed + one.failed}" if one.passed + one.failed else "",
            *([one.pay] if paid else []),
            one.person,
        ]
        for one in payments
    ]
    return Table("payments", "Payments", columns, rows, "a suggestion is a hint for you: it pays or rejects nobody")


def write_payments(plan: Plan, payments: Sequence[Payment], folder: Path) -> dict[str, int]:
    """Write the table, and the file for the bulk form of the platform; return the number of rows of each file."""
    source = plan.source.name
    rows = [_make_row(one, source) for one in payments]
    write_csv({name: [row[name] for row in rows] for name in _make_row(_NOBODY, source)}, folder / FILE)
    counts = {FILE: len(rows)}
    if source == "prolific":
        approved = [one.person for one in payments if one.action == "approve" and one.person]
        (folder / APPROVE).write_text("".join(f"{person}\n" for person in approved), "utf-8", newline="\n")
        counts[APPROVE] = len(approved)
    elif source == "mturk":
        submitted = [one for one in payments if one.submission]
        form = {
            "HITId": [one.hit for one in submitted],
            "AssignmentId": [one.submission for one in submitted],
            "WorkerId": [one.person for one in submitted],
            "Approve": ["X" if one.action == "approve" else "" for one in submitted],
            "Reject": ["" for _ in submitted],
        }
        write_csv(form, folder / REVIEW)
        counts[REVIEW] = len(submitted)
    return counts


def list_payment_files(plan: Plan) -> list[str]:
    """Return the names of the files that `write_payments` writes for a study."""
    return [FILE, *{"prolific": [APPROVE], "mturk": [REVIEW]}.get(plan.source.name, [])]


_NOBODY = Payment("", "", "", "", "working", 0, 0.0, 0, 0, "wait", "", None)


def _make_row(one: Payment, source: str) -> dict[str, Any]:
    names = {"prolific": ("participant_id", "submission_id"), "mturk": ("WorkerId", "AssignmentId")}
    person, submission = names.get(source, ("name", ""))
    return {
        "rater": one.rater,
        person: one.person,
        **({submission: one.submission} if submission else {}),
        **({"HITId": one.hit} if source == "mturk" else {}),
        "status": one.status,
        "tasks": one.tasks,
        "minutes": round(one.minutes, 2),
        "checks_passed": one.passed,
        "checks_failed": one.failed,
        "pay": None if one.pay is None else round(one.pay, 2),
        "suggested": one.action,
        "reason": one.reason,
    }
