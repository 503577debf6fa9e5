"""Who is asking: a rater behind a personal link, or one that a crowd platform sends.

A session is a text in a cookie: the token of a link, or the ids of the platform as they came in the address. Those ids
are no secret, so a session of them opens no more than the same address would. In Mechanical Turk's frame, where
browsers drop cookies, the session travels in addresses and forms instead.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from captious.studio.access import Limit, form_token, token_hash
from captious.studio.events import Rater
from captious.studio.log import Log
from captious.studio.people import PERSON
from captious.studio.plan import Plan

TURK_HOSTS = ("www.mturk.com", "workersandbox.mturk.com")
TURK_FORMS = tuple(f"https://{host}" for host in TURK_HOSTS)
TURK_FRAMES = ("https://worker.mturk.com", "https://workersandbox.mturk.com")
TURK_PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
PARAMETERS = {
    "prolific": ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID"),
    "mturk": ("workerId", "assignmentId", "hitId", "turkSubmitTo"),
}
LONGEST = 200
"""Most characters of a platform's id."""


def study_name(plan: Plan) -> str:
    """The study in addresses: ``/s/<name>`` is the door for those who have no link of their own."""
    return plan.digest[:8]


@dataclass(frozen=True)
class Session:
    """A rater who is asking, and how the pages keep knowing it."""

    value: str
    rater: Rater
    parameters: Mapping[str, str]
    """What the platform sent."""
    travels: bool = False
    """Whether the session goes along in addresses and forms."""

    @property
    def _person(self) -> str:
        """The same in every visit of the rater, so that an answer which waits in the browser may leave in the next."""
        names = [name for name in PERSON.values() if name in self.parameters]
        return f"{names[0]} {self.parameters[names[0]]}" if names else self.value

    @property
    def csrf(self) -> str:
        """The hidden field that a form of this rater must have."""
        return form_token(self._person)

    @property
    def owner(self) -> str:
        """A name under which the browser may keep answers that are not sent yet."""
        return token_hash(self._person)[:12]

    def address(self, path: str) -> str:
        """The address of a page for this session."""
        return f"{path}?{urlencode({'session': self.value})}" if self.travels else path

    @property
    def turk(self) -> dict[str, str] | None:
        """Where a task of Mechanical Turk is sent at the end."""
        if not self.parameters.get("assignmentId"):
            return None
        target = self.parameters.get("turkSubmitTo", "")
        host = urlsplit(target).hostname
        base = f"https://{host if host in TURK_HOSTS else TURK_HOSTS[0]}"
        return {"address": f"{base}/mturk/externalSubmit", "assignment": self.parameters["assignmentId"]}


class Sessions:
    """The sessions of one study. Wrong tokens are counted by address."""

    def __init__(self, plan: Plan, log: Log) -> None:
        self.plan, self.log = plan, log
        self.cookie = f"captious_{study_name(plan)}"
        self.wrong = Limit(10, seconds=60)
        self._known: set[str] = set()

    def session_of(self, value: str, travels: bool = False) -> Session | None:
        """The session of a text that a browser sent; None where it opens nothing."""
        if value.startswith("i."):
            parameters = _decode(value)
            source = self.plan.source.name
            if parameters is None or source not in PERSON or not parameters.get(PERSON[source]):
                return None
            rater = self.log.rater_by_identity(source, parameters)
            return Session(value, rater, parameters, travels)
        holder = self.log.rater_by_token(token_hash(value))
        return None if holder is None else Session(value, holder, {}, travels)

    def checked(self, value: str, address: str, travels: bool = False) -> Session | None:
        """The session of a text; None where it is wrong. An address with many wrong ones opens nothing new."""
        known = token_hash(value) in self._known
        if not known and self.wrong.wait(address):
            raise TooManyWrong
        session = self.session_of(value, travels)
        if session is None:
            self.wrong.add(address)
        elif len(self._known) < 100_000:
            self._known.add(token_hash(value))
        return session

    def of_platform(self, query: Mapping[str, str]) -> str | None:
        """The session of a visitor whom a platform sends; None where its parameters are missing."""
        source = self.plan.source.name
        names = PARAMETERS.get(source, ())
        parameters = {name: query[name] for name in names if query.get(name)}
        if source not in PERSON or PERSON[source] not in parameters or max(map(len, parameters.values())) > LONGEST:
            return None
        return _encode(parameters)


class TooManyWrong(Exception):
    """Too many wrong tokens came from one address."""


def _encode(parameters: Mapping[str, str]) -> str:
    """
    >>> _decode(_encode({"PROLIFIC_PID": "5f"}))
    {'PROLIFIC_PID': '5f'}
    """
    data = json.dumps(dict(parameters), sort_keys=True).encode()
    return "i." + base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(value: str) -> dict[str, str] | None:
    data = value.removeprefix("i.")
    try:
        parameters = json.loads(base64.urlsafe_b64decode(data + "=" * (-len(data) % 4)))
    except (ValueError, binascii.Error):
        return None
    if not isinstance(parameters, dict) or not all(isinstance(part, str) for part in parameters.values()):
        return None
    return {str(name): part[:LONGEST] for name, part in parameters.items()}
