"""Who is asking: a rater behind a personal link, or one that a crowd platform sends.

A session is a random token in a cookie, of which the database keeps a hash: the token of a link, or a new one for every
visit that a platform sends. In Mechanical Turk's frame, where browsers drop cookies, it travels in addresses and forms
instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from captious.studio.access import Limit, make_form_token, make_token, hash_token
from captious.studio.collect._events import Rater
from captious.studio.collect._signed import PARAMETER, SignedEntries
from captious.studio.collect._tables import PERSON
from captious.studio.collect.log import StudyLog
from captious.studio.collect.plan import Plan

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
    return (plan.origin or plan.digest)[:8]


def invite(log: StudyLog, raters: int, address: str) -> list[tuple[str, str]]:
    """New raters with their links. A link is nowhere else: the database keeps a hash of its token."""
    tokens = [make_token() for _ in range(raters)]
    added = log.add_raters([hash_token(token) for token in tokens])
    return [(rater.id, f"{address}/r/{token}") for rater, token in zip(added, tokens, strict=True)]


@dataclass(frozen=True)
class RaterSession:
    """A rater who is asking, and how the pages keep knowing it."""

    value: str
    rater: Rater
    secret: str = field(repr=False)
    """The same in every visit of the rater, so that an answer which waits in the browser may leave in the next."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What the platform sent."""
    travels: bool = False
    """Whether the session goes along in addresses and forms."""

    @property
    def csrf(self) -> str:
        """The hidden field that a form of this rater must have."""
        return make_form_token(self.secret)

    @property
    def owner(self) -> str:
        """A name under which the browser may keep answers that are not sent yet."""
        return hash_token(self.secret)[:12]

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


class RaterSessions:
    """The sessions of one study. Wrong tokens are counted by address."""

    def __init__(self, plan: Plan, log: StudyLog, hosts: Collection[str] = ()) -> None:
        """``hosts`` are the names under which people reach the server, for entries that the platform signed."""
        self.plan, self.log = plan, log
        self._signed = SignedEntries(plan.file(plan.source.keys), hosts) if plan.source.keys else None
        self.cookie = f"captious_{study_name(plan)}"
        self.wrong = Limit(10, seconds=60)
        self._known: set[str] = set()

    def session_of(self, value: str, travels: bool = False) -> RaterSession | None:
        """The session of a text that a browser sent; None where it opens nothing."""
        hash = hash_token(value)
        if self.plan.source.name in PERSON and (known := self.log.visit(hash)) is not None:
            rater, visit = known
            return RaterSession(value, rater, visit.person, visit.parameters, travels)
        holder = self.log.rater_by_token(hash)
        return None if holder is None else RaterSession(value, holder, value, travels=travels)

    def checked(self, value: str, address: str, travels: bool = False) -> RaterSession | None:
        """The session of a text; None where it is wrong. An address with many wrong ones opens nothing new."""
        known = hash_token(value) in self._known
        if not known and self.wrong.wait(address):
            raise TooManyWrong
        session = self.session_of(value, travels)
        if session is None:
            self.wrong.add(address)
        elif len(self._known) < 100_000:
            self._known.add(hash_token(value))
        return session

    def parameters(self, query: Mapping[str, str]) -> dict[str, str] | None:
        """What a platform says of a visitor in the address; None where the person, or a signature, is missing."""
        source = self.plan.source.name
        names = PARAMETERS.get(source, ())
        said = query if self._signed is None else self._signed.parameters(query.get(PARAMETER, "")) or {}
        parameters = {name: said[name] for name in names if said.get(name)}
        if source not in PERSON or PERSON[source] not in parameters or max(map(len, parameters.values())) > LONGEST:
            return None
        return parameters

    def enter(self, parameters: Mapping[str, str], travels: bool = False) -> RaterSession:
        """A new session of a visitor whom a platform sends; the visitor becomes a rater, or is one already."""
        rater = self.log.rater_by_identity(self.plan.source.name, parameters)
        token = make_token()
        self.log.begin_visit(rater.id, hash_token(token), parameters)
        session = self.session_of(token, travels)
        assert session is not None
        return session


class TooManyWrong(Exception):
    """Too many wrong tokens came from one address."""
