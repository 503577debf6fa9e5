"""Personal links of a study: which were opened, and the withdrawal of those that were not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from captious.errors import InputError
from captious.render import Document, Result, Table, Text
from captious.render.document import Value

if TYPE_CHECKING:
    from captious.studio.collect.log import StudyLog

LinkState = Literal["never opened", "opened", "withdrawn"]
# Name for all links that were never opened.
UNOPENED = "unopened"


@dataclass(frozen=True)
class Invitation:
    """A personal link, by its rater. The link itself is not stored."""

    rater: str
    state: LinkState
    at: datetime | None = None
    """The time at which it was first opened, or withdrawn."""


@dataclass(frozen=True, repr=False)
class Invitations(Result):
    """All personal links of a study."""

    title: str
    links: tuple[Invitation, ...]

    def __repr__(self) -> str:
        return f"<Invitations {self.title!r}: {len(self.links)} links, {len(self.unopened)} never opened>"

    @property
    def unopened(self) -> list[str]:
        """Raters who have never opened their link."""
        return [one.rater for one in self.links if one.state == "never opened"]

    def document(self) -> Document:
        """Return a sentence, and a table of the links."""
        withdrawn = sum(one.state == "withdrawn" for one in self.links)
        answer = f"{len(self.unopened):,} of {len(self.links):,} links were never opened"
        answer += f", and {withdrawn:,} {'is' if withdrawn == 1 else 'are'} withdrawn" if withdrawn else ""
        rows: list[list[Value]] = [
            [one.rater, one.state, f"{one.at:%Y-%m-%d %H:%M} UTC" if one.at else ""] for one in self.links
        ]
        table = Table("links", self.title, ["rater", "link", "when"], rows)
        links = [{"rater": one.rater, "state": one.state, "at": one.at and one.at.isoformat()} for one in self.links]
        data: dict[str, Any] = {"links": links, "unopened": self.unopened}
        return Document(self.title, "", [Text([answer]), table], data=data, name="invitations")


def list_invitations(log: StudyLog) -> Invitations:
    """Return all personal links with their state."""
    links = {rater: Invitation(rater, "never opened") for rater in log.list_rater_ids()}
    for event in log.events():
        if event.kind == "withdrawn":
            links[event.rater] = Invitation(event.rater, "withdrawn", event.at)
        elif event.rater in links and links[event.rater].state == "never opened":
            links[event.rater] = Invitation(event.rater, "opened", event.at)
    return Invitations(log.plan().title, tuple(links.values()))


def withdraw_links(log: StudyLog, raters: Sequence[str], reason: str = "withdrawn by the owner") -> list[str]:
    """Withdraw the links of raters who never opened them, or all of these for ``unopened``; return the raters.

    Nothing is withdrawn if one of the raters is unknown or has opened the link.
    """
    states = {link.rater: link.state for link in list_invitations(log).links}
    unopened = [rater for rater, state in states.items() if state == "never opened"]
    withdrawn = unopened if list(raters) == [UNOPENED] else list(dict.fromkeys(raters))
    for rater in withdrawn:
        if rater not in states:
            raise InputError(f"there is no rater {rater!r}, expected raters such as r3, or {UNOPENED}")
        if states[rater] != "never opened":
            advice = "captious studio exclude removes the answers" if states[rater] == "opened" else "nothing to do"
            raise InputError(f"the link of rater {rater} is {states[rater]}, expected one never opened; {advice}")
    for rater in withdrawn:
        log.withdraw(rater, reason)
    return withdrawn
