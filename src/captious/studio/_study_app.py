"""Web app of a study: the pages of raters, the owner's pages behind a token, and the error responses."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from captious.studio.access import App, Guard, Limit, Receive, Rules, Scope, Send, TokenGate
from captious.studio.collect._database import DatabaseAway
from captious.studio.collect._rater_pages import RaterPages, wants_json
from captious.studio.collect._rendering import RendererInForce
from captious.studio.collect._wording import Wording
from captious.studio.collect.log import StudyLog
from captious.studio.collect.sessions import get_study_name
from captious.studio.collect.study_plan import Plan
from captious.studio.owner._owner_pages import OwnerPages

# Names of the texts for status codes that come without a message of their own.
WORDS = {404: "wrong_address", 405: "wrong_use", 500: "server_failed"}

logger = logging.getLogger("captious.studio")


def build_app(
    plan: Plan,
    log: StudyLog,
    rules: Rules,
    address: str,
    owner_token: str,
    answers: Limit | None = None,
    using: Sequence[str] = (),
) -> App:
    """Build the app of a study that has begun. The owner's pages require the owner's token.

    ``answers`` limits the answers of a rater, 5 a second unless another limit is passed. ``using`` are the auxiliary
    metrics of the estimate on the owner's page.
    """
    renderer = RendererInForce(log.plan)
    rules = replace(rules, error_page=lambda status, message: renderer().render_error(status, message))
    pages = RaterPages(plan, log, rules, renderer, answers or Limit(5, seconds=1))
    owner = OwnerPages(log, owner_token, address, renderer, using=using)
    failures = Failures(rules, lambda: log.plan().wording)
    handlers = {
        HTTPException: failures.handle_refusal,
        DatabaseAway: failures.handle_database_away,
        Exception: failures.handle_crash,
    }
    app = Starlette(routes=[*pages.routes(), *owner.routes()], exception_handlers=handlers)
    # All ports of a host share its cookies, so the cookie's name contains that of the study.
    gate = TokenGate(app, owner_token, f"captious_owner_{get_study_name(plan)}", rules, pages.sessions.wrong)

    async def handle_request(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        await (gate if path == "/owner" or path.startswith("/owner/") else app)(scope, receive, send)

    return Guard(handle_request, rules)


class Failures:
    """Exception handlers: HTML for people, JSON for a script. An unavailable database is logged once a minute."""

    def __init__(self, rules: Rules, words: Callable[[], Wording]) -> None:
        self.rules, self._words = rules, words
        self._silent_until = 0.0

    @property
    def say(self) -> Wording:
        """The texts of the pages."""
        return self._words()

    async def handle_refusal(self, request: Request, error: Exception) -> Response:
        """Return the response to an `HTTPException`, raised by a page or by the router."""
        assert isinstance(error, HTTPException)
        status = error.status_code
        return self._make_response(
            request, status, self.say(WORDS[status]) if status in WORDS else error.detail, error.headers
        )

    async def handle_database_away(self, request: Request, error: Exception) -> Response:
        """Return status 503 if the database cannot be reached or written."""
        now = time.monotonic()
        if now >= self._silent_until:
            logger.error("the database cannot be reached: %s", " ".join(str(error).split()))
        self._silent_until = now + 60
        return self._make_response(request, 503, self.say("database_away"), {"retry-after": "5"})

    async def handle_crash(self, request: Request, error: Exception) -> Response:
        """Return status 500 for a bug; the server prints the traceback."""
        return self._make_response(request, 500, self.say(WORDS[500]))

    def _make_response(
        self, request: Request, status: int, message: str, headers: Mapping[str, str] | None = None
    ) -> Response:
        if wants_json(request):
            return JSONResponse({"saved": False, "error": message}, status, headers)
        return HTMLResponse(self.rules.error_page(status, message), status, headers)
