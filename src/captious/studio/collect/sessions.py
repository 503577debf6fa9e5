"""Sessions of raters: with a personal link, or sent by a panel.

A session is a random token in a cookie, of which the database stores a hash: the token of a link, or a new one for
every visit from a panel.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from captious.studio.access import Limit, hash_token, make_form_token, make_token
from captious.studio.collect._events import Rater
from captious.studio.collect._signed import PARAMETER, SignedEntries
from captious.studio.collect.log import StudyLog
from captious.studio.collect.study_plan import Plan

# Maximum length of a parameter of a panel.
LONGEST = 200


def get_study_name(plan: Plan) -> str:
    """Return the name of the study in the URL ``/s/<name>``, for raters without a personal link."""
    return (plan.origin or plan.digest)[:8]


def get_shared_link(plan: Plan, address: str) -> str:
    """Return the link that all raters share, as a panel's form takes it; empty if every rater has a personal link."""
    if plan.has_personal_links:
        return ""
    query = f"?{plan.panel.query}" if plan.panel and plan.panel.query else ""
    return f"{address}/s/{get_study_name(plan)}{query}"


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
    """The parameters with which the panel sent the rater."""

    @property
    def csrf(self) -> str:
        """The CSRF token that every form of this rater must send in a hidden field."""
        return make_form_token(self.secret)

    @property
    def owner(self) -> str:
        """The rater's key in the browser's local storage, under which answers wait until they are sent."""
        return hash_token(self.secret)[:12]


class RaterSessions:
    """The sessions of one study. Wrong tokens are counted by client address."""

    def __init__(self, plan: Plan, log: StudyLog, hosts: Collection[str] = ()) -> None:
        """Set up the sessions. A signed entry must name one of `hosts`, the server's public names."""
        self.plan, self.log = plan, log
        self._signed = SignedEntries(plan.file(plan.panel.keys), hosts) if plan.panel and plan.panel.keys else None
        self.cookie = f"captious_{get_study_name(plan)}"
        self.wrong = Limit(10, seconds=60)
        self._known: set[str] = set()

    def find_session(self, value: str) -> RaterSession | None:
        """Return the session of a token, from a panel's visit or a personal link; None if it is unknown."""
        hash = hash_token(value)
        if self.plan.panel is not None and (known := self.log.find_visit(hash)) is not None:
            rater, visit = known
            return RaterSession(value, rater, visit.person, visit.parameters)
        rater_of_link = self.log.find_rater_by_token(hash)
        if rater_of_link is None or rater_of_link.withdrawn:
            return None
        return RaterSession(value, rater_of_link, value)

    def check_session(self, value: str, address: str) -> RaterSession | None:
        """Return the session of a token; None if the token is wrong.

        Raise `TooManyWrong` after many wrong tokens from this client address. Tokens that were right before are exempt,
        so that a rater is not locked out by others at the same address.
        """
        known = hash_token(value) in self._known
        if not known and self.wrong.wait(address):
            raise TooManyWrong
        session = self.find_session(value)
        if session is None:
            self.wrong.add(address)
        elif len(self._known) < 100_000:
            self._known.add(hash_token(value))
        return session

    def read_parameters(self, query: Mapping[str, str]) -> dict[str, str] | None:
        """Return the panel's parameters in a query; None if they are invalid.

        They are invalid without the participant's id, without a valid signature (if the plan requires one), or if a
        value is too long.
        """
        panel = self.plan.panel
        if panel is None:
            return None
        claims = query if self._signed is None else self._signed.read_parameters(query.get(PARAMETER, "")) or {}
        parameters = {name: claims[name] for name in (panel.parameter, *panel.others) if claims.get(name)}
        if not panel.read_person(parameters) or max(map(len, parameters.values())) > LONGEST:
            return None
        return parameters

    def begin_session(self, parameters: Mapping[str, str]) -> RaterSession:
        """Begin a session for a visitor from a panel; a participant who is new to the study becomes a rater."""
        panel = self.plan.panel
        assert panel is not None
        rater = self.log.find_rater_by_identity(panel.name, panel.read_person(parameters), parameters)
        token = make_token()
        self.log.begin_visit(rater.id, hash_token(token), parameters)
        session = self.find_session(token)
        assert session is not None
        return session


class TooManyWrong(Exception):
    """Too many wrong tokens came from one address."""
