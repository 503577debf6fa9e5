"""Sessions of raters: with a personal link, or sent by a crowd platform.

A session is a random token in a cookie, of which the database stores a hash: the token of a link, or a new one for
every visit from a platform. In Mechanical Turk's frame, where browsers drop cookies, it is passed in URLs and forms
instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from captious.studio.access import Limit, hash_token, make_form_token, make_token
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
# Maximum length of a platform's id.
LONGEST = 200


def get_study_name(plan: Plan) -> str:
    """Return the name of the study in the URL ``/s/<name>``, for raters without a personal link."""
    return (plan.origin or plan.digest)[:8]


def invite(log: StudyLog, raters: int, address: str) -> list[tuple[str, str]]:
    """Add raters and return their ids and links. The links are not stored: the database has only hashes."""
    tokens = [make_token() for _ in range(raters)]
    added = log.add_raters([hash_token(token) for token in tokens])
    return [(rater.id, f"{address}/r/{token}") for rater, token in zip(added, tokens, strict=True)]


@dataclass(frozen=True)
class RaterSession:
    """A session of a rater."""

    value: str
    """The token."""
    rater: Rater
    secret: str = field(repr=False)
    """The same in every visit of the rater, so that an answer stored in the browser can be sent in the next one."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The platform's parameters."""
    travels: bool = False
    """Whether the session is passed in URLs and forms instead of a cookie."""

    @property
    def csrf(self) -> str:
        """The CSRF token that every form of this rater must send in a hidden field."""
        return make_form_token(self.secret)

    @property
    def owner(self) -> str:
        """The rater's key in the browser's local storage, under which answers wait until they are sent."""
        return hash_token(self.secret)[:12]

    def make_address(self, path: str) -> str:
        """Return the URL of a page for this session."""
        return f"{path}?{urlencode({'session': self.value})}" if self.travels else path

    @property
    def turk(self) -> dict[str, str] | None:
        """The URL and assignment id of the form that submits the work to Mechanical Turk; None for other sources."""
        if not self.parameters.get("assignmentId"):
            return None
        target = self.parameters.get("turkSubmitTo", "")
        host = urlsplit(target).hostname  # from the query, so only known hosts are accepted
        base = f"https://{host if host in TURK_HOSTS else TURK_HOSTS[0]}"
        return {"address": f"{base}/mturk/externalSubmit", "assignment": self.parameters["assignmentId"]}


class RaterSessions:
    """The sessions of one study. Wrong tokens are counted by client address."""

    def __init__(self, plan: Plan, log: StudyLog, hosts: Collection[str] = ()) -> None:
        """Set up the sessions. An entry signed by a platform must name one of `hosts`, the server's public names."""
        self.plan, self.log = plan, log
        self._signed = SignedEntries(plan.file(plan.source.keys), hosts) if plan.source.keys else None
        self.cookie = f"captious_{get_study_name(plan)}"
        self.wrong = Limit(10, seconds=60)
        self._known: set[str] = set()

    def find_session(self, value: str, travels: bool = False) -> RaterSession | None:
        """Return the session of a token, from a platform visit or a personal link; None if it is unknown."""
        hash = hash_token(value)
        if self.plan.source.name in PERSON and (known := self.log.find_visit(hash)) is not None:
            rater, visit = known
            return RaterSession(value, rater, visit.person, visit.parameters, travels)
        rater_of_link = self.log.find_rater_by_token(hash)
        return None if rater_of_link is None else RaterSession(value, rater_of_link, value, travels=travels)

    def check_session(self, value: str, address: str, travels: bool = False) -> RaterSession | None:
        """Return the session of a token; None if the token is wrong.

        Raise `TooManyWrong` after many wrong tokens from this client address. Tokens that were right before are exempt,
        so that a rater is not locked out by others at the same address.
        """
        known = hash_token(value) in self._known
        if not known and self.wrong.wait(address):
            raise TooManyWrong
        session = self.find_session(value, travels)
        if session is None:
            self.wrong.add(address)
        elif len(self._known) < 100_000:
            self._known.add(hash_token(value))
        return session

    def read_parameters(self, query: Mapping[str, str]) -> dict[str, str] | None:
        """Return the platform's parameters in a query; None if they are invalid.

        They are invalid without the id of the person, without a valid signature (if the plan requires one), or if a
        value is too long.
        """
        source = self.plan.source.name
        names = PARAMETERS.get(source, ())
        claims = query if self._signed is None else self._signed.read_parameters(query.get(PARAMETER, "")) or {}
        parameters = {name: claims[name] for name in names if claims.get(name)}
        if source not in PERSON or PERSON[source] not in parameters or max(map(len, parameters.values())) > LONGEST:
            return None
        return parameters

    def begin_session(self, parameters: Mapping[str, str], travels: bool = False) -> RaterSession:
        """Begin a session for a visitor from a platform; a person who is new to the study becomes a rater."""
        rater = self.log.find_rater_by_identity(self.plan.source.name, parameters)
        token = make_token()
        self.log.begin_visit(rater.id, hash_token(token), parameters)
        session = self.find_session(token, travels)
        assert session is not None
        return session


class TooManyWrong(Exception):
    """Too many wrong tokens came from one address."""
