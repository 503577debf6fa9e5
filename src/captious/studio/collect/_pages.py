"""The pages of raters: the way from the link to the completion code.

Every page is a form that works without scripts: it is posted, and the answer is a redirect to the next page. A script
that asks for JSON is told instead whether the answer is saved.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from captious.errors import InputError
from captious.studio.access import (
    Limit,
    Rules,
    get_client_address,
    find_image_file,
    make_token,
    is_same_token,
    find_sound_file,
    hash_token,
)
from captious.studio.collect._events import Page, Purpose
from captious.studio.collect._rendering import COMMENT, PageRenderer, RendererInForce
from captious.studio.collect._survey import Moment, list_questions, read_survey
from captious.studio.collect._tables import PERSON
from captious.studio.collect._wording import Wording
from captious.studio.collect.kinds import Gap, Incomplete, kind_of
from captious.studio.collect.log import StudyLog
from captious.studio.collect.plan import Plan
from captious.studio.collect.sessions import (
    TURK_PREVIEW,
    RaterSession,
    RaterSessions,
    TooManyWrong,
    study_name,
)

Form = Mapping[str, str]
VISITORS, SENT = 60, 12
"""People who may begin from one address in a minute: of an open study, as in a classroom, and of those whom a platform
sends, each from home."""
PROLIFIC = "https://app.prolific.com/submissions/complete?cc="

logger = logging.getLogger("captious.studio")


class RaterPages:
    """The routes of raters. Work on the database runs in threads, so that one slow request holds up no other."""

    def __init__(self, plan: Plan, log: StudyLog, rules: Rules, renderer: RendererInForce, answers: Limit) -> None:
        self.log, self.rules, self.answers = log, rules, answers
        self._renderer = renderer
        self.kind = kind_of(plan)
        self.sessions = RaterSessions(plan, log, rules.hosts if rules.origin else ())
        self.visitors = Limit(VISITORS if plan.source.name == "open" else SENT, seconds=60)

    @property
    def plan(self) -> Plan:
        """The plan in force; a request of a rater has read it on before a page is made."""
        return self.log.plan()

    @property
    def say(self) -> Wording:
        """The words of the pages."""
        return self.plan.wording

    @property
    def renderer(self) -> PageRenderer:
        """The pages of the plan in force."""
        return self._renderer()

    def routes(self) -> list[BaseRoute]:
        """All of them."""
        return [
            Route("/", self.front),
            Route("/health", self.health),
            Route("/static/{name}", self.static),
            Route("/r/{token}", self.link),
            Route("/s/{study}", self.door),
            Route("/s/{study}", self._posted(self.enter), methods=["POST"]),
            Route("/consent", self.consent),
            Route("/consent", self._posted(self.decide), methods=["POST"]),
            Route("/questions", self.questions),
            Route("/questions", self._posted(self.tell), methods=["POST"]),
            Route("/screened", self.screened),
            Route("/feedback/{page}", self.feedback),
            Route("/task", self.task),
            Route("/task", self._posted(self.answer), methods=["POST"]),
            Route("/task/{page}", self.earlier),
            Route("/image/{page}/{number:int}", self.image),
            Route("/sound/{page}", self.sound),
            Route("/example/{number:int}", self.example),
            Route("/done", self.done),
            Route("/full", self.full),
        ]

    def _posted(self, work: Callable[[Request, Form], Response]) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint that reads a form and then works on it in a thread."""

        async def endpoint(request: Request) -> Response:
            body = await request.body()
            try:
                pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=2000)
            except ValueError:
                raise HTTPException(400, self.say("form_unreadable")) from None
            return await run_in_threadpool(work, request, dict(pairs))

        return endpoint

    # The way in

    def front(self, request: Request) -> Response:
        """The bare address: it says where to go on."""
        if self.plan.source.name == "open":
            return RedirectResponse(f"/s/{study_name(self.plan)}", 303)
        return self._show_message(self.say("welcome"), self.say("open_your_link"))

    def health(self, request: Request) -> Response:
        """Answer whoever watches the server: 200 where the database answers."""
        self.log.rater_by_token("")
        return JSONResponse({"status": "ok"})

    def static(self, request: Request) -> Response:
        """Styles, scripts and the icon; they hold nothing of the study."""
        name = request.path_params["name"]
        if name not in self.renderer.static_files:
            raise HTTPException(404)
        content, kind = self.renderer.static_files[name]
        return Response(content, headers={"content-type": kind, "cache-control": "public, max-age=31536000, immutable"})

    def link(self, request: Request) -> Response:
        """A personal link: the token moves into a cookie, and the address is clean afterwards."""
        token = request.path_params["token"]
        return self._begin_session(self._session(request, token))

    def door(self, request: Request) -> Response:
        """The one link for everybody, which platforms extend by the ids of the person."""
        self._check_study(request)
        source = self.plan.source.name
        if source == "open":
            return self._start(request)
        query = dict(request.query_params)
        if source == "mturk" and query.get("assignmentId", TURK_PREVIEW) == TURK_PREVIEW:
            return self._start(request, preview=True)
        parameters = self.sessions.parameters(query)
        if parameters is None:
            platform = {"prolific": "Prolific", "mturk": "Mechanical Turk"}[source]
            lack = "open_from_signed" if self.plan.source.keys else "open_from"
            raise HTTPException(403, self.say(lack, platform=platform))
        known = self.sessions.session_of(request.cookies.get(self.sessions.cookie, ""))
        if known is not None and known.parameters == parameters:  # a reload
            return self._begin_session(known)
        self._count_visitor(request)
        return self._begin_session(self.sessions.enter(parameters, travels=source == "mturk"))

    def enter(self, request: Request, form: Form) -> Response:
        """Begin an open study: the visitor becomes a rater. A mere visit makes none: previews of links visit too."""
        self._check_study(request)
        if self.plan.source.name != "open":
            raise HTTPException(405)
        self._count_visitor(request)
        token = make_token()
        self.log.add_raters([hash_token(token)])
        return self._begin_session(self._session(request, token))

    def _count_visitor(self, request: Request) -> None:
        """Refuse whoever comes after too many others from the same address."""
        address = get_client_address(request.scope)
        if self.visitors.wait(address):
            raise HTTPException(429, self.say("many_began"), {"retry-after": "60"})
        self.visitors.add(address)

    def _check_study(self, request: Request) -> None:
        if self.plan.source.name == "links" or request.path_params["study"] != study_name(self.plan):
            raise HTTPException(404)

    def _start(self, request: Request, preview: bool = False) -> Response:
        known = request.cookies.get(self.sessions.cookie)
        if known and not preview and self.sessions.session_of(known):
            return RedirectResponse("/task", 303)
        values = {"instructions": self.plan.instructions, "preview": preview, "action": request.url.path}
        return HTMLResponse(self.renderer.render("start.html", heading=self.say("welcome"), **values))

    def _begin_session(self, session: RaterSession) -> Response:
        self.log.record(session.rater.id, "joined", f"{session.rater.id}.joined")
        response = RedirectResponse(session.address("/task"), 303)
        if not session.travels:
            response.headers["set-cookie"] = self.rules.cookie(self.sessions.cookie, session.value)
        return response

    def _session(self, request: Request, value: str | None = None, travels: bool = False) -> RaterSession:
        """The session of a request: of its cookie, or of what the address or the form says in place of one."""
        cookie = request.cookies.get(self.sessions.cookie, "")
        if value is None and not cookie and self.plan.source.name == "mturk":
            value, travels = request.query_params.get("session", ""), True
        try:
            session = self.sessions.checked(value or cookie, get_client_address(request.scope), travels)
        except TooManyWrong:
            raise HTTPException(429, self.say("many_wrong_links"), {"retry-after": "60"}) from None
        if session is None:
            headers = {"set-cookie": self.rules.cookie(self.sessions.cookie, "")} if cookie else {}
            raise HTTPException(403, self.say("link_again"), headers)
        return session

    def _find_form_session(self, request: Request, form: Form) -> RaterSession:
        """The session of a form that was sent; its hidden token must belong to it."""
        session = self._session(request, *((form["session"], True) if form.get("session") else ()))
        if not is_same_token(form.get("csrf", ""), session.csrf):
            raise HTTPException(403, self.say("form_of_another"))
        return session

    # Consent

    def consent(self, request: Request) -> Response:
        """What a rater agrees to before the first task."""
        session = self._session(request)
        if not self._must_consent(session):
            return RedirectResponse(session.address("/task"), 303)
        values = {"consent": self.plan.consent, "csrf": session.csrf, "session": session.value * session.travels}
        return HTMLResponse(self.renderer.render("consent.html", heading=self.say("before_you_begin"), **values))

    def decide(self, request: Request, form: Form) -> Response:
        """Agree, or not."""
        session = self._find_form_session(request, form)
        rater = session.rater.id
        if form.get("agree") == "yes":
            self.log.record(rater, "consented", f"{rater}.consented")
            return RedirectResponse(session.address("/task"), 303)
        self.log.record(rater, "declined", f"{rater}.declined")
        text = self.say("declined")
        if self.plan.source.name in PERSON:
            text += " " + self.say("declined_platform")
        return self._show_message(self.say("thank_you"), text, (session.address("/consent"), self.say("read_again")))

    def _must_consent(self, session: RaterSession) -> bool:
        return bool(self.plan.consent.strip()) and not session.rater.consented

    # Questions about the rater

    def questions(self, request: Request) -> Response:
        """The questions before the first task, or after the last one."""
        session = self._session(request)
        if self._must_consent(session):
            return RedirectResponse(session.address("/consent"), 303)
        when = self._find_survey_moment(session)
        return RedirectResponse(session.address("/task"), 303) if when is None else self._ask(session, when, {})

    def _find_survey_moment(self, session: RaterSession) -> Moment | None:
        """When the questions are asked that the rater has to answer now; None where there are none."""
        if self._must_answer(session, "before"):
            return "before"
        rater = session.rater
        ended = not rater.finished and self._must_answer(session, "after") and self._answers(rater.id)
        if ended and not self.log.next_page(rater.id) and self.log.why_none(rater.id) == "finished":
            return "after"
        return None

    def _must_answer(self, session: RaterSession, when: Moment) -> bool:
        return bool(list_questions(self.plan, when)) and when not in session.rater.surveyed

    def _ask(self, session: RaterSession, when: Moment, form: Form, gaps: Sequence[Gap] = ()) -> Response:
        text = self.renderer.render(
            "questions.html",
            heading=self.say(f"questions_{when}"),
            questions=list_questions(self.plan, when),
            form=form,
            gaps=gaps,
            csrf=session.csrf,
            session=session.value * session.travels,
            most=COMMENT,
        )
        return HTMLResponse(text, 422 if gaps else 200)

    def tell(self, request: Request, form: Form) -> Response:
        """Store what a rater says to the questions. They are answered once: nobody can try which answers let in."""
        session = self._find_form_session(request, form)
        when = None if self._must_consent(session) else self._find_survey_moment(session)
        if when is None:
            return RedirectResponse(session.address("/task"), 303)
        try:
            answers, screened = read_survey(self.plan, when, form)
        except Incomplete as error:
            return self._ask(session, when, form, error.gaps)
        body = {"when": when, "answers": answers, **({"screened": screened} if screened else {})}
        self.log.record(session.rater.id, "surveyed", f"{session.rater.id}.surveyed.{when}", body=body)
        return RedirectResponse(session.address("/task" if when == "before" else "/done"), 303)

    def screened(self, request: Request) -> Response:
        """The end for a rater whom the questions screen out, with a code of its own."""
        session = self._session(request)
        if not session.rater.screened:
            return RedirectResponse(session.address("/task"), 303)
        return self._show_end(session, self.say("thank_you"), self.say("screened"), self.plan.source.screened)

    def _find_required_page(self, session: RaterSession) -> str:
        """The page that a rater must see before any task; empty where there is none."""
        if self._must_consent(session):
            return "/consent"
        if session.rater.screened:
            return "/screened"
        return "/questions" if self._must_answer(session, "before") else ""

    # Practice

    def feedback(self, request: Request) -> Response:
        """What was expected of a task of practice, beside the answer, and why."""
        session = self._session(request)
        page = self.log.page_named(session.rater.id, request.path_params["page"])
        if page is None or page.purpose != "practice" or page.answer is None:
            return RedirectResponse(session.address("/task"), 303)
        choices = {choice.id: choice.text for choice in page.task.choices}
        text = self.renderer.render(
            "feedback.html",
            heading=self.say("right" if self.kind.passes(self.plan, page.task, page.answer) else "not_expected"),
            page=page,
            compared=self.kind.compared(self.plan, page.task, page.order, page.answer),
            captions=[choices[choice] for choice in page.order if choice in choices],
            letters=self.plan.kind == "pairs",
            image=session.address(f"/image/{page.name}/0") if page.task.image else "",
            sound=session.address(f"/sound/{page.name}") if page.task.audio else "",
            go_on=session.address("/task"),
            again=session.address(f"/task/{page.name}"),
        )
        return HTMLResponse(text)

    def _answers(self, rater: str) -> list[tuple[str, Purpose]]:
        """Task and purpose of what a rater has answered or has open, practice aside."""
        return [(task, purpose) for task, purpose in self.log.history(rater) if purpose != "practice"]

    # Tasks

    def task(self, request: Request) -> Response:
        """The page that the rater has open, or the next one; the end where there is none."""
        session = self._session(request)
        if session.rater.excluded:
            return self._show_excluded()
        first, paused = self._find_required_page(session), self.log.now.history.paused is not None
        if first == "/screened" or (first and not paused):
            return RedirectResponse(session.address(first), 303)
        page = self.log.next_page(session.rater.id)
        if page is not None:
            return self._page(session, page)
        why = self.log.why_none(session.rater.id)
        if why == "paused":
            return self._show_paused(session)
        if why == "wait":
            return self._wait(session)
        return RedirectResponse(session.address("/full" if why == "full" else "/done"), 303)

    def earlier(self, request: Request) -> Response:
        """A page that the rater had before, with the answer."""
        session = self._session(request)
        page = self.log.page_named(session.rater.id, request.path_params["page"])
        if page is None:
            raise HTTPException(404)
        return self._page(session, page)

    def answer(self, request: Request, form: Form) -> Response:
        """Store an answer. Nothing is said to be saved before it is."""
        session = self._find_form_session(request, form)
        if first := self._find_required_page(session):
            raise HTTPException(403, self.say("agree_first" if first == "/consent" else "questions_first"))
        rater = session.rater.id
        page = self.log.page_named(rater, form.get("page", ""))
        if page is None:
            raise HTTPException(404)
        if wait := self.answers.wait(rater):
            raise HTTPException(429, self.say("too_fast"), {"retry-after": str(math.ceil(wait))})
        comment = form.get("comment", "").replace("\r\n", "\n").strip()
        too_long = self.say("comment_too_long", count=self.say.number(len(comment)), most=self.say.number(COMMENT))
        try:
            answer = self.kind.read(self.plan, page.task, page.order, form)
            if len(comment) > COMMENT:
                raise Incomplete([Gap("comment", too_long)])
        except Incomplete as error:
            return self._report_gaps(request, session, page, form, error.gaps)
        self.answers.add(rater)
        body: dict[str, Any] = {"answer": answer, "purpose": page.purpose, "order": list(page.order)}
        body |= {"seconds": seconds} if (seconds := _parse_seconds(form.get("seconds", ""))) is not None else {}
        body |= {"comment": comment} if comment else {}
        try:
            recorded = self.log.record(rater, "answered", f"{rater}.{form.get('key', '')}", page.task.id, body)
        except InputError:
            raise HTTPException(400, self.say("form_without_key")) from None
        after = session.address(f"/feedback/{page.name}" if page.purpose == "practice" else "/task")
        if wants_json(request):
            return JSONResponse({"saved": True, "seq": recorded.seq, "next": after})
        return RedirectResponse(after, 303)

    def _page(
        self, session: RaterSession, page: Page, form: Form | None = None, gaps: Sequence[Gap] = (), status: int = 200
    ) -> Response:
        stored = {"comment": page.comment}
        stored |= {} if page.answer is None else self.kind.form(self.plan, page.task, page.order, page.answer)
        text = self.renderer.task(
            page,
            stored if form is None else form,
            gaps,
            key=secrets.token_hex(16) if form is None else form.get("key", ""),
            csrf=session.csrf,
            session=session.value * session.travels,
            owner=session.owner,
            image=session.address(f"/image/{page.name}/0") if page.task.image else "",
            sound=session.address(f"/sound/{page.name}") if page.task.audio else "",
            back=session.address(f"/task/{page.previous}") if page.previous else "",
            forward=session.address("/task") if page.answer is not None else "",
            status=self.say("saved_before") if page.answer is not None else "",
        )
        return HTMLResponse(text, status)

    def _report_gaps(
        self, request: Request, session: RaterSession, page: Page, form: Form, gaps: Sequence[Gap]
    ) -> Response:
        if wants_json(request):
            named = [{"field": gap.field, "message": gap.message} for gap in gaps]
            return JSONResponse({"saved": False, "gaps": named}, 422)
        return self._page(session, page, form, gaps, 422)

    def image(self, request: Request) -> Response:
        """An image of a page that the rater has opened, by page and number."""
        session = self._session(request)
        page = self.log.page_named(session.rater.id, request.path_params["page"])
        if page is None or page.task.image is None or request.path_params["number"] != 0:
            raise HTTPException(404)
        return make_image_response(self.plan, page.task.image, f"task {page.task.id}")

    def sound(self, request: Request) -> Response:
        """The sound of a page that the rater has opened."""
        session = self._session(request)
        page = self.log.page_named(session.rater.id, request.path_params["page"])
        if page is None or page.task.audio is None:
            raise HTTPException(404)
        return make_sound_response(self.plan, page.task.audio, f"task {page.task.id}")

    def example(self, request: Request) -> Response:
        """An image that a text of the study shows, by number; whoever may read the text may see it."""
        number, examples = request.path_params["number"], self.renderer.examples
        if number >= len(examples):
            raise HTTPException(404)
        return make_image_response(self.plan, examples[number], f"example {number}")

    # The end

    def done(self, request: Request) -> Response:
        """Thanks, and the completion code, for a rater who has nothing left to do."""
        session = self._session(request)
        if session.rater.excluded:
            return self._show_excluded()
        if session.rater.screened:
            return RedirectResponse(session.address("/screened"), 303)
        if not session.rater.finished:
            if self.log.next_page(session.rater.id) or self.log.why_none(session.rater.id) != "finished":
                return RedirectResponse(session.address("/task"), 303)
            if self._find_survey_moment(session) is not None:
                return RedirectResponse(session.address("/questions"), 303)
            self.log.record(session.rater.id, "finished", f"{session.rater.id}.finished")
        history = self._answers(session.rater.id)
        last = self.log.page_of(session.rater.id, *history[-1]) if history else None
        back = session.address(f"/task/{last.name}") if last else ""
        return self._show_end(
            session, self.say("thank_you"), self.say("all_done"), self.plan.source.done, len(history), back
        )

    def full(self, request: Request) -> Response:
        """Tell those who come when nothing is left, with a code of its own, so that nobody goes away empty-handed."""
        session = self._session(request)
        if self.log.why_none(session.rater.id) != "full":
            return RedirectResponse(session.address("/task"), 303)
        self._record_full(session, 0)
        return self._show_end(session, self.say("study_full"), self.say("nothing_left"), self.plan.source.full)

    def _record_full(self, session: RaterSession, answers: int) -> None:
        """Keep in the log that a rater was told that nothing is left: such a rater is not at work."""
        rater = session.rater.id
        self.log.record(rater, "full", f"{rater}.full.{answers}", body={"answers": answers})

    def _show_excluded(self) -> Response:
        """Tell an excluded rater that the work has ended, in the owner's words, without the code of finished work."""
        source = self.plan.source
        text = source.excluded or self.say("excluded")
        if not source.excluded and source.name in PERSON:
            text += " " + self.say("declined_platform")
        return self._show_message(self.say("part_ended"), text)

    def _show_paused(self, session: RaterSession) -> Response:
        """Tell raters that the study is paused, and that nothing of theirs is lost."""
        text = self.log.now.history.message or self.say("come_back")
        return self._show_message(self.say("study_paused"), text, (session.address("/task"), self.say("try_again")))

    def _wait(self, session: RaterSession) -> Response:
        """Tell those who come while others have open what is left. Who is paid by a code need not wait for them."""
        answers = len(self._answers(session.rater.id))
        code = self.plan.source.done if answers else self.plan.source.full
        words = self.say("others_working")
        if code:
            words += " " + self.say("wait_or_end")
            self._record_full(session, answers)
        return self._show_end(session, self.say("nothing_now"), words, code, answers, again=session.address("/task"))

    def _show_end(
        self,
        session: RaterSession,
        heading: str,
        message: str,
        code: str | None,
        answers: int = 0,
        back: str = "",
        again: str = "",
    ) -> Response:
        text = self.renderer.render(
            "done.html",
            heading=heading,
            message=message,
            answers=answers,
            code=code,
            link=f"{PROLIFIC}{quote(code)}" if code and self.plan.source.name == "prolific" else "",
            turk=session.turk,
            back=back,
            again=again,
            owner=session.owner,
        )
        return HTMLResponse(text)

    def _show_message(self, heading: str, message: str, link: tuple[str, str] | None = None) -> Response:
        """A page with a few words."""
        return HTMLResponse(self.renderer.render("message.html", heading=heading, message=message, link=link))


def wants_json(request: Request) -> bool:
    """Whether a script asks, which reads JSON."""
    return "application/json" in request.headers.get("accept", "")


def _parse_seconds(text: str) -> float | None:
    """Seconds that the page measured; None where it measured none, or nothing that can be."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return round(seconds, 1) if 0 <= seconds <= 86_400 else None


def make_image_response(plan: Plan, name: str, what: str) -> Response:
    """An image of the study's folder; 404 where there is none, and the log says why."""
    images = plan.file(plan.images) if plan.images else None
    if images is None:
        raise HTTPException(404)
    try:
        path, kind = find_image_file(images, name)
        # Here, in one thread: a response that reads piece by piece changes it five times.
        content = path.read_bytes()
    except (InputError, OSError) as error:
        logger.error("%s: %s", what, error)
        raise HTTPException(404) from None
    return Response(content, headers={"content-type": kind, "cache-control": "private, max-age=86400"})


def make_sound_response(plan: Plan, name: str, what: str) -> Response:
    """A sound of the study's folder, whole or the part that a player asks for; 404 where there is none."""
    sounds = plan.file(plan.audio) if plan.audio else None
    if sounds is None:
        raise HTTPException(404)
    try:
        path, kind = find_sound_file(sounds, name)
    except InputError as error:
        logger.error("%s: %s", what, error)
        raise HTTPException(404) from None
    return FileResponse(path, media_type=kind, headers={"cache-control": "private, max-age=86400"})
