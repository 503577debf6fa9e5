"""Payments: raters with their ids on a panel, their work, and a suggested action for each.

Nothing here pays or rejects anybody: owners read the table and act on the panel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from captious.render import Column, Table
from captious.render.document import Value
from captious.render.exports import write_csv
from captious.studio.collect.study_plan import Plan
from captious.studio.owner.raters import RaterProgress, State

Action = Literal["approve", "look", "ask to return", "wait"]
# The full table, and the ids of participants to approve, one per line.
FILE, APPROVE = "payments.csv", "approve.txt"


@dataclass(frozen=True)
class Payment:
    """One rater who came, with the suggested action."""

    rater: str
    person: str
    """The id on the panel; the name of a rater with a link, if the owner gave one."""
    others: Mapping[str, str]
    """The other parameters of the last visit, such as the id of the submission."""
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
    panel = plan.panel
    payments = []
    for rater in sorted(raters, key=lambda one: (len(one.id), one.id)):
        if rater.state in ("invited", "withdrawn"):
            continue
        known = identities.get(rater.id, {})
        action, reason = _suggest_action(rater, plan)
        payments.append(
            Payment(
                rater.id,
                known.get(panel.parameter if panel else "name", ""),
                {name: known.get(name, "") for name in (panel.others if panel else ())},
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
    columns.append("participant")
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
    """Write the table, and the ids to approve if a panel sent the raters; return the number of rows of each file."""
    nobody = Payment("", "", dict.fromkeys(plan.panel.others if plan.panel else (), ""), *_NOTHING)
    rows = [_make_row(one) for one in payments]
    write_csv({name: [row[name] for row in rows] for name in _make_row(nobody)}, folder / FILE)
    counts = {FILE: len(rows)}
    if plan.panel is not None:
        approved = [one.person for one in payments if one.action == "approve" and one.person]
        (folder / APPROVE).write_text("".join(f"{person}\n" for person in approved), "utf-8", newline="\n")
        counts[APPROVE] = len(approved)
    return counts


def list_payment_files(plan: Plan) -> list[str]:
    """Return the names of the files that `write_payments` writes for a study."""
    return [FILE, APPROVE] if plan.panel is not None else [FILE]


# The rest of a row, for the columns of a table without rows.
_NOTHING: tuple[Any, ...] = ("working", 0, 0.0, 0, 0, "wait", "", None)


def _make_row(one: Payment) -> dict[str, Any]:
    return {
        "rater": one.rater,
        "participant": one.person,
        **one.others,
        "status": one.status,
        "tasks": one.tasks,
        "minutes": round(one.minutes, 2),
        "checks_passed": one.passed,
        "checks_failed": one.failed,
        "pay": None if one.pay is None else round(one.pay, 2),
        "suggested": one.action,
        "reason": one.reason,
    }
