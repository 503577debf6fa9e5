"""Pages of raters: from the link to the completion code.

Every page is a form that works without scripts: it is posted, and the response is a redirect to the next page. A script
that asks for JSON is told whether the answer is saved.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from captious.errors import InputError
from captious.models.clip_stills import make_poster, make_strip
from captious.studio._video_events import Part, find_part
from captious.studio.access import (
    Limit,
    Rules,
    find_image_file,
    find_media_path,
    find_sound_file,
    find_video_file,
    get_client_address,
    hash_token,
    is_same_token,
    make_token,
)
from captious.studio.collect._clips import describe_clip
from captious.studio.collect._events import Page, Purpose
from captious.studio.collect._panels import Outcome
from captious.studio.collect._rendering import COMMENT, PageRenderer, RendererInForce
from captious.studio.collect._survey import Moment, list_questions, read_survey
from captious.studio.collect._wording import Wording
from captious.studio.collect.kinds import Gap, Incomplete, kind_of
from captious.studio.collect.log import StudyLog
from captious.studio.collect.rating_tasks import Task
from captious.studio.collect.sessions import (
    RaterSession,
    RaterSessions,
    TooManyWrong,
    get_study_name,
)
from captious.studio.collect.study_plan import Plan

Form = Mapping[str, str]
# Visitors per minute and address who may begin: in an open study (a classroom shares an address), and from a panel
# (each is at home).
VISITORS, SENT = 60, 12

logger = logging.getLogger("captious.studio")


class RaterPages:
    """Routes of raters. Database work runs in threads, so that a slow request blocks no other."""

    def __init__(self, plan: Plan, log: StudyLog, rules: Rules, renderer: RendererInForce, answers: Limit) -> None:
        self.log, self.rules, self.answers = log, rules, answers
        self._renderer = renderer
        self.kind = kind_of(plan)
        self.sessions = RaterSessions(plan, log, rules.hosts if rules.origin else ())
        self.visitors = Limit(VISITORS if plan.is_open else SENT, seconds=60)

    @property
    def plan(self) -> Plan:
        """The plan in force. Reading a rater's history has updated it."""
        return self.log.plan()

    @property
    def say(self) -> Wording:
        """The texts of the pages."""
        return self.plan.wording

    @property
    def renderer(self) -> PageRenderer:
        """The renderer of the plan in force."""
        return self._renderer()

    def routes(self) -> list[BaseRoute]:
        """Return all routes."""
        return [
            Route("/", self.show_front),
            Route("/health", self.report_health),
            Route("/static/{name}", self.send_static),
            Route("/r/{token}", self.open_link),
            Route("/s/{study}", self.open_study_link),
            Route("/s/{study}", self._make_form_endpoint(self.begin_open_study), methods=["POST"]),
            Route("/consent", self.show_consent),
            Route("/consent", self._make_form_endpoint(self.record_consent), methods=["POST"]),
            Route("/questions", self.show_questions),
            Route("/questions", self._make_form_endpoint(self.record_survey), methods=["POST"]),
            Route("/screened", self.show_screened),
            Route("/feedback/{page}", self.show_feedback),
            Route("/task", self.show_task),
            Route("/task", self._make_form_endpoint(self.record_answer), methods=["POST"]),
            Route("/task/{page}", self.show_earlier_page),
            Route("/image/{page}/{number:int}", self.send_image),
            Route("/sound/{page}", self.send_sound),
            Route("/video/{page}", self.send_video),
            Route("/poster/{page}", self.send_poster),
            Route("/strip/{page}", self.send_strip),
            Route("/example/{number:int}", self.send_example),
            Route("/done", self.show_done),
            Route("/full", self.show_full),
        ]

    def _make_form_endpoint(
        self, work: Callable[[Request, Form], Response]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that parses a form and calls `work` in a thread."""

        async def endpoint(request: Request) -> Response:
            body = await request.body()
            try:
                pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=2000)
            except ValueError:
                raise HTTPException(400, self.say("form_unreadable")) from None
            return await run_in_threadpool(work, request, dict(pairs))

        return endpoint

    # Entry

    def show_front(self, request: Request) -> Response:
        """Redirect from ``/`` to an open study; otherwise ask for the personal link."""
        if self.plan.is_open:
            return RedirectResponse(f"/s/{get_study_name(self.plan)}", 303)
        return self._show_message(self.say("welcome"), self.say("open_your_link"))

    def report_health(self, request: Request) -> Response:
        """Return status 200 if the database can be read, for monitoring."""
        self.log.find_rater_by_token("")
        return JSONResponse({"status": "ok"})

    def send_static(self, request: Request) -> Response:
        """Send styles, scripts or the icon, which contain nothing of the study."""
        name = request.path_params["name"]
        if name not in self.renderer.static_files:
            raise HTTPException(404)
        content, kind = self.renderer.static_files[name]
        return Response(content, headers={"content-type": kind, "cache-control": "public, max-age=31536000, immutable"})

    def open_link(self, request: Request) -> Response:
        """Open a personal link: move its token into a cookie, and redirect to a URL without it."""
        token = request.path_params["token"]
        return self._begin_session(self._find_session(request, token))

    def open_study_link(self, request: Request) -> Response:
        """Open the link that all raters share, to which panels add the participant's id."""
        self._check_study(request)
        if self.plan.panel is None:
            return self._show_start(request)
        query = dict(request.query_params)
        parameters = self.sessions.read_parameters(query)
        if parameters is None:
            text = "open_from_signed" if self.plan.panel.keys else "open_from"
            raise HTTPException(403, self.say(text, platform=self.plan.panel.title))
        session = self.sessions.find_session(request.cookies.get(self.sessions.cookie, ""))
        if session is not None and session.parameters == parameters:  # a reload
            return self._begin_session(session)
        self._count_visitor(request)
        return self._begin_session(self.sessions.begin_session(parameters))

    def begin_open_study(self, request: Request, form: Form) -> Response:
        """Make a rater of a visitor who starts an open study. A GET makes none: link previews visit too."""
        self._check_study(request)
        if not self.plan.is_open:
            raise HTTPException(405)
        self._count_visitor(request)
        token = make_token()
        self.log.add_raters([hash_token(token)])
        return self._begin_session(self._find_session(request, token))

    def _count_visitor(self, request: Request) -> None:
        """Count a visitor by address; raise 429 if too many came from it."""
        address = get_client_address(request.scope)
        if self.visitors.wait(address):
            raise HTTPException(429, self.say("many_began"), {"retry-after": "60"})
        self.visitors.add(address)

    def _check_study(self, request: Request) -> None:
        if self.plan.has_personal_links or request.path_params["study"] != get_study_name(self.plan):
            raise HTTPException(404)

    def _show_start(self, request: Request) -> Response:
        token = request.cookies.get(self.sessions.cookie)
        if token and self.sessions.find_session(token):
            return RedirectResponse("/task", 303)
        values = {"instructions": self.plan.instructions, "action": request.url.path}
        return HTMLResponse(self.renderer.render("start.html", heading=self.say("welcome"), **values))

    def _begin_session(self, session: RaterSession) -> Response:
        self.log.record(session.rater.id, "joined", f"{session.rater.id}.joined")
        response = RedirectResponse("/task", 303)
        response.headers["set-cookie"] = self.rules.cookie(self.sessions.cookie, session.value)
        return response

    def _find_session(self, request: Request, value: str = "") -> RaterSession:
        """Return the session of a request: of its cookie, or of `value` from the URL."""
        cookie = request.cookies.get(self.sessions.cookie, "")
        try:
            session = self.sessions.check_session(value or cookie, get_client_address(request.scope))
        except TooManyWrong:
            raise HTTPException(429, self.say("many_wrong_links"), {"retry-after": "60"}) from None
        if session is None:
            headers = {"set-cookie": self.rules.cookie(self.sessions.cookie, "")} if cookie else {}
            raise HTTPException(403, self.say("link_again"), headers)
        return session

    def _find_form_session(self, request: Request, form: Form) -> RaterSession:
        """Return the session of a posted form; raise 403 if its hidden token does not match."""
        session = self._find_session(request)
        if not is_same_token(form.get("csrf", ""), session.csrf):
            raise HTTPException(403, self.say("form_of_another"))
        return session

    # Consent

    def show_consent(self, request: Request) -> Response:
        """Show the consent form before the first task."""
        session = self._find_session(request)
        if not self._must_consent(session):
            return RedirectResponse("/task", 303)
        values = {"consent": self.plan.consent, "csrf": session.csrf}
        return HTMLResponse(self.renderer.render("consent.html", heading=self.say("before_you_begin"), **values))

    def record_consent(self, request: Request, form: Form) -> Response:
        """Store whether a rater agreed."""
        session = self._find_form_session(request, form)
        rater = session.rater.id
        if form.get("agree") == "yes":
            self.log.record(rater, "consented", f"{rater}.consented")
            return RedirectResponse("/task", 303)
        self.log.record(rater, "declined", f"{rater}.declined")
        text = self.say("declined")
        if self.plan.panel is not None:
            text += " " + self.say("declined_platform")
        return self._show_message(self.say("thank_you"), text, ("/consent", self.say("read_again")))

    def _must_consent(self, session: RaterSession) -> bool:
        return bool(self.plan.consent.strip()) and not session.rater.consented

    # Questions about the rater

    def show_questions(self, request: Request) -> Response:
        """Show the questions before the first task, or after the last one."""
        session = self._find_session(request)
        if self._must_consent(session):
            return RedirectResponse("/consent", 303)
        when = self._find_survey_moment(session)
        return RedirectResponse("/task", 303) if when is None else self._show_survey(session, when, {})

    def _find_survey_moment(self, session: RaterSession) -> Moment | None:
        """Return which questions the rater has to answer now; None if there are none."""
        if self._must_answer(session, "before"):
            return "before"
        rater = session.rater
        ended = not rater.finished and self._must_answer(session, "after") and self._list_answers(rater.id)
        if ended and not self.log.next_page(rater.id) and self.log.explain_no_page(rater.id) == "finished":
            return "after"
        return None

    def _must_answer(self, session: RaterSession, when: Moment) -> bool:
        return bool(list_questions(self.plan, when)) and when not in session.rater.surveyed

    def _show_survey(self, session: RaterSession, when: Moment, form: Form, gaps: Sequence[Gap] = ()) -> Response:
        text = self.renderer.render(
            "questions.html",
            heading=self.say(f"questions_{when}"),
            questions=list_questions(self.plan, when),
            form=form,
            gaps=gaps,
            csrf=session.csrf,
            most=COMMENT,
        )
        return HTMLResponse(text, 422 if gaps else 200)

    def record_survey(self, request: Request, form: Form) -> Response:
        """Store the answers to the questions. They are answered once, so that nobody can try which answers let in."""
        session = self._find_form_session(request, form)
        when = None if self._must_consent(session) else self._find_survey_moment(session)
        if when is None:
            return RedirectResponse("/task", 303)
        try:
            answers, screened = read_survey(self.plan, when, form)
        except Incomplete as error:
            return self._show_survey(session, when, form, error.gaps)
        body = {"when": when, "answers": answers, **({"screened": screened} if screened else {})}
        self.log.record(session.rater.id, "surveyed", f"{session.rater.id}.surveyed.{when}", body=body)
        return RedirectResponse("/task" if when == "before" else "/done", 303)

    def show_screened(self, request: Request) -> Response:
        """Show the last page of a rater who was screened out, with its own code."""
        session = self._find_session(request)
        if not session.rater.screened:
            return RedirectResponse("/task", 303)
        return self._show_end(session, self.say("thank_you"), self.say("screened"), "screened")

    def _find_required_page(self, session: RaterSession) -> str:
        """Return the page that a rater must see before any task; empty if there is none."""
        if self._must_consent(session):
            return "/consent"
        if session.rater.screened:
            return "/screened"
        return "/questions" if self._must_answer(session, "before") else ""

    # Practice

    def show_feedback(self, request: Request) -> Response:
        """Show the expected answer of a practice task next to the given one, with the explanation."""
        session = self._find_session(request)
        page = self.log.find_page(session.rater.id, request.path_params["page"])
        if page is None or page.purpose != "practice" or page.answer is None:
            return RedirectResponse("/task", 303)
        choices = {choice.id: choice.text for choice in page.task.choices}
        text = self.renderer.render(
            "feedback.html",
            heading=self.say("right" if self.kind.passes(self.plan, page.task, page.answer) else "not_expected"),
            page=page,
            compared=self.kind.grade_answer(self.plan, page.task, page.order, page.answer),
            captions=[choices[choice] for choice in page.order if choice in choices],
            letters=self.plan.kind == "pairs",
            image=f"/image/{page.name}/0" if page.task.image else "",
            sound=f"/sound/{page.name}" if page.task.audio else "",
            clip=describe_clip(page.task, page.name),
            go_on="/task",
            again=f"/task/{page.name}",
        )
        return HTMLResponse(text)

    def _list_answers(self, rater: str) -> list[tuple[str, Purpose]]:
        """Return task and purpose of the pages that a rater has answered or has open, without practice."""
        return [(task, purpose) for task, purpose in self.log.history(rater) if purpose != "practice"]

    # Tasks

    def show_task(self, request: Request) -> Response:
        """Show the open page of the rater, or the next one; redirect to the end if there is none."""
        session = self._find_session(request)
        if session.rater.excluded:
            return self._show_excluded()
        first, paused = self._find_required_page(session), self.log.now.history.paused is not None
        if first == "/screened" or (first and not paused):
            return RedirectResponse(first, 303)
        page = self.log.next_page(session.rater.id)
        if page is not None:
            return self._render_page(session, page)
        why = self.log.explain_no_page(session.rater.id)
        if why == "paused":
            return self._show_paused(session)
        if why == "wait":
            return self._show_wait(session)
        return RedirectResponse("/full" if why == "full" else "/done", 303)

    def show_earlier_page(self, request: Request) -> Response:
        """Show a page that the rater had before, with its answer."""
        session = self._find_session(request)
        page = self.log.find_page(session.rater.id, request.path_params["page"])
        if page is None:
            raise HTTPException(404)
        return self._render_page(session, page)

    def record_answer(self, request: Request, form: Form) -> Response:
        """Store an answer; the response says that it is saved only after it is stored."""
        session = self._find_form_session(request, form)
        if first := self._find_required_page(session):
            raise HTTPException(403, self.say("agree_first" if first == "/consent" else "questions_first"))
        rater = session.rater.id
        page = self.log.find_page(rater, form.get("page", ""))
        if page is None:
            raise HTTPException(404)
        if wait := self.answers.wait(rater):
            raise HTTPException(429, self.say("too_fast"), {"retry-after": str(math.ceil(wait))})
        comment = form.get("comment", "").replace("\r\n", "\n").strip()
        too_long = self.say(
            "comment_too_long", count=self.say.format_number(len(comment)), most=self.say.format_number(COMMENT)
        )
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
        after = f"/feedback/{page.name}" if page.purpose == "practice" else "/task"
        if wants_json(request):
            return JSONResponse({"saved": True, "seq": recorded.seq, "next": after})
        return RedirectResponse(after, 303)

    def _render_page(
        self, session: RaterSession, page: Page, form: Form | None = None, gaps: Sequence[Gap] = (), status: int = 200
    ) -> Response:
        stored = {"comment": page.comment}
        stored |= {} if page.answer is None else self.kind.form(self.plan, page.task, page.order, page.answer)
        text = self.renderer.render_task(
            page,
            stored if form is None else form,
            gaps,
            key=secrets.token_hex(16) if form is None else form.get("key", ""),
            csrf=session.csrf,
            owner=session.owner,
            image=f"/image/{page.name}/0" if page.task.image else "",
            sound=f"/sound/{page.name}" if page.task.audio else "",
            clip=describe_clip(page.task, page.name),
            back=f"/task/{page.previous}" if page.previous else "",
            forward="/task" if page.answer is not None else "",
            status=self.say("saved_before") if page.answer is not None else "",
        )
        return HTMLResponse(text, status)

    def _report_gaps(
        self, request: Request, session: RaterSession, page: Page, form: Form, gaps: Sequence[Gap]
    ) -> Response:
        if wants_json(request):
            named = [{"field": gap.field, "message": gap.message} for gap in gaps]
            return JSONResponse({"saved": False, "gaps": named}, 422)
        return self._render_page(session, page, form, gaps, 422)

    def send_image(self, request: Request) -> Response:
        """Send the image of a page that the rater has opened."""
        session = self._find_session(request)
        page = self.log.find_page(session.rater.id, request.path_params["page"])
        if page is None or page.task.image is None or request.path_params["number"] != 0:
            raise HTTPException(404)
        return make_image_response(self.plan, page.task.image, f"task {page.task.id}")

    def send_sound(self, request: Request) -> Response:
        """Send the sound of a page that the rater has opened."""
        session = self._find_session(request)
        page = self.log.find_page(session.rater.id, request.path_params["page"])
        if page is None or page.task.audio is None:
            raise HTTPException(404)
        return make_sound_response(self.plan, page.task.audio, f"task {page.task.id}")

    def _find_video_task(self, request: Request) -> Task:
        """Return the task of a page that the rater has opened; raise 404 if it has no video."""
        session = self._find_session(request)
        page = self.log.find_page(session.rater.id, request.path_params["page"])
        if page is None or page.task.video is None:
            raise HTTPException(404)
        return page.task

    def send_video(self, request: Request) -> Response:
        """Send the video of a page that the rater has opened, or the range of bytes that a player requests."""
        return make_video_response(self.plan, self._find_video_task(request))

    def send_poster(self, request: Request) -> Response:
        """Send the middle frame of the video of a page."""
        return make_still_response(self.plan, self._find_video_task(request), make_poster)

    def send_strip(self, request: Request) -> Response:
        """Send frames of the video of a page, for browsers that do not play it."""
        return make_still_response(self.plan, self._find_video_task(request), make_strip)

    def send_example(self, request: Request) -> Response:
        """Send an image of the study's texts, by number. It needs no session, as the texts need none."""
        number, examples = request.path_params["number"], self.renderer.examples
        if number >= len(examples):
            raise HTTPException(404)
        return make_image_response(self.plan, examples[number], f"example {number}")

    # The end

    def show_done(self, request: Request) -> Response:
        """Show thanks and the completion code to a rater who has nothing left to do."""
        session = self._find_session(request)
        if session.rater.excluded:
            return self._show_excluded()
        if session.rater.screened:
            return RedirectResponse("/screened", 303)
        if not session.rater.finished:
            if self.log.next_page(session.rater.id) or self.log.explain_no_page(session.rater.id) != "finished":
                return RedirectResponse("/task", 303)
            if self._find_survey_moment(session) is not None:
                return RedirectResponse("/questions", 303)
            self.log.record(session.rater.id, "finished", f"{session.rater.id}.finished")
        history = self._list_answers(session.rater.id)
        last = self.log.find_task_page(session.rater.id, *history[-1]) if history else None
        back = f"/task/{last.name}" if last else ""
        return self._show_end(session, self.say("thank_you"), self.say("all_done"), "completed", len(history), back)

    def show_full(self, request: Request) -> Response:
        """Show that nothing is left to do, with a separate code, so that late raters are paid too."""
        session = self._find_session(request)
        if self.log.explain_no_page(session.rater.id) != "full":
            return RedirectResponse("/task", 303)
        self._record_full(session, 0)
        return self._show_end(session, self.say("study_full"), self.say("nothing_left"), "full")

    def _record_full(self, session: RaterSession, answers: int) -> None:
        """Record that a rater was told that nothing is left, so that the rater does not count as active."""
        rater = session.rater.id
        self.log.record(rater, "full", f"{rater}.full.{answers}", body={"answers": answers})

    def _show_excluded(self) -> Response:
        """Show an excluded rater that the work has ended, without the completion code."""
        own = self.plan.excluded_text
        text = own or self.say("excluded")
        if not own and self.plan.panel is not None:
            text += " " + self.say("declined_platform")
        return self._show_message(self.say("part_ended"), text)

    def _show_paused(self, session: RaterSession) -> Response:
        """Show that the study is paused, and that nothing is lost."""
        text = self.log.now.history.message or self.say("come_back")
        return self._show_message(self.say("study_paused"), text, ("/task", self.say("try_again")))

    def _show_wait(self, session: RaterSession) -> Response:
        """Show that all remaining tasks are leased to others. Raters who are paid by a code get it without waiting."""
        answers = len(self._list_answers(session.rater.id))
        outcome: Outcome = "completed" if answers else "full"
        words = self.say("others_working")
        if any(self.plan.find_end(outcome, session.parameters)):
            words += " " + self.say("wait_or_end")
            self._record_full(session, answers)
        return self._show_end(session, self.say("nothing_now"), words, outcome, answers, again="/task")

    def _show_end(
        self,
        session: RaterSession,
        heading: str,
        message: str,
        outcome: Outcome,
        answers: int = 0,
        back: str = "",
        again: str = "",
    ) -> Response:
        code, link = self.plan.find_end(outcome, session.parameters)
        text = self.renderer.render(
            "done.html",
            heading=heading,
            message=message,
            answers=answers,
            code=code,
            link=link,
            platform=self.plan.entrance,
            back=back,
            again=again,
            owner=session.owner,
        )
        return HTMLResponse(text)

    def _show_message(self, heading: str, message: str, link: tuple[str, str] | None = None) -> Response:
        """Show a page with a heading and a message."""
        return HTMLResponse(self.renderer.render("message.html", heading=heading, message=message, link=link))


def wants_json(request: Request) -> bool:
    """Return True if the request comes from a script that reads JSON."""
    return "application/json" in request.headers.get("accept", "")


def _parse_seconds(text: str) -> float | None:
    """Return the seconds that the page measured; None if there are none, or if they are impossible."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return round(seconds, 1) if 0 <= seconds <= 86_400 else None


def make_image_response(plan: Plan, name: str, what: str) -> Response:
    """Return an image of the study's folder; raise 404 and log the reason if there is none."""
    images = plan.file(plan.images) if plan.images else None
    if images is None:
        raise HTTPException(404)
    try:
        path, kind = find_image_file(images, name)
        # Read here, in one thread: a FileResponse would switch threads five times.
        content = path.read_bytes()
    except (InputError, OSError) as error:
        logger.error("%s: %s", what, error)
        raise HTTPException(404) from None
    return Response(content, headers={"content-type": kind, "cache-control": "private, max-age=86400"})


def make_sound_response(plan: Plan, name: str, what: str) -> Response:
    """Return a sound of the study's folder, all or the range that a player asks for; raise 404 if there is none."""
    return _make_player_response(plan, plan.audio, name, what, find_sound_file)


def make_video_response(plan: Plan, task: Task) -> Response:
    """Return the video of a task, all or the range that a player asks for; raise 404 if there is none."""
    return _make_player_response(plan, plan.videos, task.video or "", f"task {task.id}", find_video_file)


def _make_player_response(
    plan: Plan, name: str | None, file: str, what: str, find_file: Callable[[Path, str], tuple[Path, str]]
) -> Response:
    if name is None:
        raise HTTPException(404)
    try:
        path, kind = find_file(plan.file(name), file)
    except InputError as error:
        logger.error("%s: %s", what, error)
        raise HTTPException(404) from None
    return FileResponse(path, media_type=kind, headers={"cache-control": "private, max-age=86400"})


def make_still_response(plan: Plan, task: Task, make: Callable[[Path, Part | None], bytes | None]) -> Response:
    """Return a JPEG that ``make`` makes of the video of a task; raise 404 if it makes none."""
    if plan.videos is None:
        raise HTTPException(404)
    try:
        content = make(find_media_path(plan.file(plan.videos), task.video or ""), find_part(task.fields))
    except InputError as error:
        logger.error("task %s: %s", task.id, error)
        content = None
    if content is None:
        raise HTTPException(404)
    return Response(content, headers={"content-type": "image/jpeg", "cache-control": "private, max-age=86400"})
