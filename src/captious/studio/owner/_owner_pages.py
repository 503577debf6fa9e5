"""The owner's page: coverage, agreement, time, flags and metrics so far, with forms to manage the study."""

from __future__ import annotations

import io
import math
import threading
import time
import zipfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qsl, quote

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from captious._version import __version__
from captious.errors import InputError
from captious.metrics.registry import parse_all
from captious.options import Resampling
from captious.render.html import read_asset, render_section
from captious.runs.report import Report
from captious.stats.bootstrap import Estimate
from captious.stats.rater_agreement import ALPHA_DECIMALS
from captious.studio.access import explain_reach, is_same_token, make_form_token
from captious.studio.collect._events import Answered, Event, collect_answers
from captious.studio.collect._rendering import PageRenderer, RendererInForce
from captious.studio.collect.log import StudyLog
from captious.studio.collect.rating_tasks import Task
from captious.studio.collect.sessions import get_shared_link, invite
from captious.studio.collect.study_plan import Plan
from captious.studio.owner._answers import AnswerPages, format_seconds
from captious.studio.owner._looks import ESTIMATED, LookResult, compute_look_result, measure_captions
from captious.studio.owner._metric_agreement import (
    STATISTICS,
    USUAL,
    MetricAgreement,
    MetricValues,
    compute_metric_agreement,
)
from captious.studio.owner._payments import build_payments_table, list_payment_files, list_payments
from captious.studio.owner._results import PeopleResult, compute_people_result, list_charts, list_tables
from captious.studio.owner.export import FILES, PARTICIPANTS, export_study
from captious.studio.owner.history import build_changes_table, is_paused
from captious.studio.owner.study_progress import StudyProgress, compute_progress
from captious.study import Verdict

# The bootstrap of `captious studio status` and `captious study`: the page shows the same digits.
SAMPLES = Resampling()
# Shortest time between two computations: in seconds, and as a multiple of the last one's duration.
PAUSE, SHARE = 2.0, 10.0
# Seconds after which the progress is recomputed without new events, since raters may have left.
AGAIN = 60.0
# Polling interval of the page in seconds.
REFRESH = 4.0
# Largest number of raters and comments on the page, links per form, and characters of a reason.
RATERS, COMMENTS, LINKS, REASON = 60, 30, 500, 500


@dataclass
class LiveMetrics:
    """The agreement of the chosen metrics, computed in a background thread."""

    metrics: tuple[str, ...] = ()
    working: bool = False
    agreement: MetricAgreement | None = None
    error: str = ""
    version: int = 0


@dataclass
class AuxiliaryValues:
    """Metrics of all captions of the study's files, computed in a background thread."""

    reports: Sequence[Report] = ()
    error: str = ""
    working: bool = False


class Dashboard:
    """The progress of a study, recomputed after new events, but rarely enough not to slow down the pages of raters.

    Methods are thread-safe.
    """

    def __init__(self, log: StudyLog, metrics: Sequence[str] | None = None, using: Sequence[str] = ()) -> None:
        self.log = log
        self.using = tuple(using)
        self.auxiliary = AuxiliaryValues()
        self._looks: LookResult | None = None
        self.tasks = log.tasks()
        self.running = LiveMetrics()
        self._events: list[Event] = []
        self._progress: StudyProgress | None = None
        self._people: PeopleResult | None = None
        self._next = self._next_metrics = self._again = 0.0
        self._stale = False
        self._values = MetricValues(())
        self._lock, self._metrics_lock = threading.Lock(), threading.Lock()
        referenced = any(task.references and task.choices for task in self.tasks.values())
        self._wanted = tuple(metrics if metrics is not None else USUAL if referenced else ())
        if self.using:
            self._compute_auxiliary()

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self.log.plan()

    @property
    def can_measure(self) -> bool:
        """Whether metrics can be compared with answers of this kind."""
        return self.plan.kind in STATISTICS

    @property
    def version(self) -> str:
        """A string that changes whenever the page does."""
        progress = self.get_progress()
        left = sum(rater.state == "left" for rater in progress.raters)
        return f"{progress.seq}-{len(progress.raters)}-{left}-{self.running.version}-{int(self.auxiliary.working)}"

    def get_progress(self, fresh: bool = False) -> StudyProgress:
        """Return the progress of a moment ago, or with ``fresh`` of now."""
        with self._lock:
            if self._progress is None or fresh or time.monotonic() >= self._next:
                self._read(fresh)
            assert self._progress is not None
            return self._progress

    @property
    def answers(self) -> list[Answered]:
        """The last answer of every rater to every task, as of the last progress."""
        with self._lock:
            return collect_answers(self._events)

    @property
    def people(self) -> PeopleResult:
        """The human result so far; computed on first access."""
        self.get_progress()
        with self._lock:
            if self._people is None:
                begin = time.monotonic()
                self._people = compute_people_result(self.plan, self.tasks, collect_answers(self._events), SAMPLES)
                self._next = max(self._next, time.monotonic() + SHARE * (time.monotonic() - begin))
            return self._people

    @property
    def looks(self) -> LookResult | None:
        """People's verdict so far; None if neither looks are planned nor auxiliary metrics named."""
        if self.plan.kind not in ESTIMATED or not (self.plan.looks.planned or self.using):
            return None
        self.get_progress()
        with self._lock:
            if self.using and (self.auxiliary.working or self.auxiliary.error):
                return LookResult(reason=self.auxiliary.error or f"Computing {', '.join(self.using)} for all captions…")
            if self._looks is None:
                begin = time.monotonic()
                answers = collect_answers(self._events)
                self._looks = compute_look_result(self.plan, self.tasks, answers, self.auxiliary.reports, self.using)
                self._next = max(self._next, time.monotonic() + SHARE * (time.monotonic() - begin))
            return self._looks

    def _compute_auxiliary(self) -> None:
        """Start a thread that computes the auxiliary metrics of all captions."""
        self.auxiliary = AuxiliaryValues(working=True)
        threading.Thread(target=self._run_auxiliary, daemon=True).start()

    def _run_auxiliary(self) -> None:
        try:
            values = AuxiliaryValues(measure_captions(self.plan, self.using))
        except InputError as problem:
            values = AuxiliaryValues(error=str(problem))
        except Exception as problem:  # a third-party metric or a model that does not load must not break the page
            values = AuxiliaryValues(error=f"{type(problem).__name__}: {problem}")
        with self._lock:
            self.auxiliary, self._looks = values, None

    def _read(self, fresh: bool) -> None:
        begin = time.monotonic()
        new = list(self.log.events(after=self._events[-1].seq if self._events else 0))
        self._events += new
        if any(event.kind == "amended" for event in new):
            self.log.read_updates()
            self.tasks = self.log.tasks()
            self._values = MetricValues(())
            if self.using:
                self._compute_auxiliary()
        if new or fresh or self._progress is None or begin >= self._again:
            self._again = begin + AGAIN
            raters, now = self.log.list_rater_ids(), datetime.now(timezone.utc)
            self._progress = compute_progress(
                self.plan,
                self.tasks,
                self._events,
                raters,
                open_tasks=self.log.count_leases(),
                resampling=SAMPLES,
                now=now,
            )
            self._people = None if new else self._people
            self._looks = None if new else self._looks
            self._stale = self.can_measure
        if self._stale and self._wanted:
            self._compute_metrics()
        self._next = time.monotonic() + max(PAUSE, SHARE * (time.monotonic() - begin))

    def choose(self, written: str) -> None:
        """Select the metrics whose agreement is shown from now on."""
        metrics = tuple(str(metric) for metric in parse_all([written])) if written.strip() else ()
        with self._metrics_lock:
            self._wanted, self._next_metrics = metrics, 0.0
            self.running = LiveMetrics(version=self.running.version + 1)
        self.get_progress(fresh=True)

    @property
    def chosen(self) -> str:
        """The chosen metrics, joined by commas."""
        return ", ".join(self._wanted)

    def _compute_metrics(self) -> None:
        """Start a thread that computes the metrics, unless one is running or ran a moment ago."""
        with self._metrics_lock:
            if self.running.working or time.monotonic() < self._next_metrics:
                return
            self.running.working, self._stale = True, False
            self.running.version += 1
            threading.Thread(target=self._run_metrics, args=(self._wanted, list(self._events)), daemon=True).start()

    def _run_metrics(self, metrics: tuple[str, ...], events: Sequence[Event]) -> None:
        agreement, error, begin = None, "", time.monotonic()
        try:
            values = self._values if metrics == self._values.metrics else MetricValues(metrics)
            self._values = values
            agreement = compute_metric_agreement(self.plan, self.tasks, collect_answers(events), values, SAMPLES)
        except InputError as problem:
            error = str(problem)
        except Exception as problem:  # a third-party metric or a model that does not load must not break the page
            error = f"{type(problem).__name__}: {problem}"
        with self._metrics_lock:
            if metrics == self._wanted:
                self._next_metrics = time.monotonic() + SHARE * (time.monotonic() - begin)
                self.running = LiveMetrics(metrics, False, agreement, error, self.running.version + 1)
            else:
                self.running.working = False


class OwnerPages:
    """The routes below ``/owner``. They must be guarded by `TokenGate`."""

    def __init__(
        self,
        log: StudyLog,
        token: str,
        address: str,
        renderer: RendererInForce,
        metrics: Sequence[str] | None = None,
        using: Sequence[str] = (),
    ) -> None:
        self.log, self._renderer = log, renderer
        self._using = tuple(using)
        self.address = address
        self._csrf = make_form_token(token)
        self._metrics = metrics
        self._dashboard: Dashboard | None = None
        self._building = threading.Lock()
        self._notice: tuple[str, bool] | None = None
        self._opened = AnswerPages(log.plan, renderer, self._get_answers)

    def _get_answers(self) -> tuple[Mapping[str, Task], list[Answered]]:
        self.dashboard.get_progress()
        return self.dashboard.tasks, self.dashboard.answers

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self.log.plan()

    @property
    def renderer(self) -> PageRenderer:
        """The page renderer of the plan in force."""
        return self._renderer()

    def routes(self) -> list[BaseRoute]:
        """Return the routes for the app of a study."""
        return [
            Route("/owner", self.show_page),
            Route("/owner/live", self.send_live_part),
            Route("/owner/owner.css", self.send_style),
            Route("/owner/metrics", self._make_post_endpoint(self.choose), methods=["POST"]),
            Route("/owner/pause", self._make_post_endpoint(self.pause), methods=["POST"]),
            Route("/owner/invite", self._make_post_endpoint(self.invite), methods=["POST"]),
            Route("/owner/raters/{rater}", self._make_post_endpoint(self.change_rater), methods=["POST"]),
            *self._opened.routes(),
            Route("/owner/export.zip", self.send_archive),
            Route("/owner/export/{name}", self.send_file),
        ]

    @property
    def dashboard(self) -> Dashboard:
        """The dashboard, created on first access because it reads all tasks."""
        with self._building:
            if self._dashboard is None:
                self._dashboard = Dashboard(self.log, self._metrics, self._using)
            return self._dashboard

    def _make_post_endpoint(
        self, work: Callable[[Request, Mapping[str, str]], Response]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Make an endpoint that parses a form of this page and handles it in a thread."""

        async def endpoint(request: Request) -> Response:
            body = await request.body()
            try:
                form = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=20))
            except ValueError:
                raise HTTPException(400, "The form cannot be read.") from None
            if not is_same_token(form.get("csrf", ""), self._csrf):
                raise HTTPException(403, "The form is not one of this page. Reload the page and send it again.")
            return await run_in_threadpool(work, request, form)

        return endpoint

    # Pages

    def show_page(self, request: Request, links: Sequence[tuple[str, str]] = ()) -> Response:
        """Show the whole page, with newly created personal links."""
        version = self.dashboard.version
        notice, failed = self._notice or ("", False)
        self._notice = None
        plan = self.plan
        text = self.renderer.render(
            "owner.html",
            **self._build_values(request),
            version=version,
            refresh=REFRESH,
            notice=notice,
            failed=failed,
            links=links,
            csv=quote("rater,link\r\n" + "".join(f"{rater},{link}\r\n" for rater, link in links)),
            files=[
                FILES[plan.kind],
                "raters.csv",
                "events.jsonl",
                "study.toml",
                PARTICIPANTS,
                *self._list_changes_file(),
            ],
            release=__version__,
            overlap=plan.overlap,
            digest=plan.digest[:12],
        )
        return HTMLResponse(text)

    def _list_changes_file(self) -> list[str]:
        return ["changes.jsonl"] if self.dashboard.get_progress().changes else []

    def send_live_part(self, request: Request) -> Response:
        """Send the part of the page that changes; status 204 if the browser has this version."""
        version = self.dashboard.version
        if request.query_params.get("version") == version:
            return Response(status_code=204)
        text = self.renderer.render("owner-live.html", **self._build_values(request))
        return HTMLResponse(text, headers={"x-version": version})

    def _build_values(self, request: Request) -> dict[str, Any]:
        """Return the variables of both templates."""
        progress, running, people = self.dashboard.get_progress(), self.dashboard.running, self.dashboard.people
        raters = progress.raters if "all" in request.query_params else progress.raters[:RATERS]
        states = [rater.state for rater in progress.raters]
        agreement, looks = running.agreement, self.dashboard.looks
        return {
            "kind": self.plan.kind,
            "csrf": self._csrf,
            "open_link": get_shared_link(self.plan, self.address),
            "panel": self.plan.panel,
            "reach": explain_reach(self.address),
            "progress": progress,
            "cover": progress.coverage,
            "active": sum(state in ("working", "done", "left") for state in states),
            "at_work": states.count("working"),
            "finished": states.count("done"),
            "excluded": states.count("excluded"),
            "waiting": states.count("invited"),
            "charts": Markup("".join(map(render_section, progress.build_charts()))),
            "agreement_table": Markup(render_section(progress.build_agreement_table()))
            if len(progress.questions) > 1
            else "",
            "people": people,
            "people_charts": Markup("".join(map(render_section, people.charts))),
            "people_tables": Markup("".join(map(render_section, people.tables))),
            "looks": looks,
            "verdict": _render_verdict(looks.shown if looks else None),
            "hidden_verdict": _render_verdict(looks.hidden if looks else None),
            "can_measure": self.dashboard.can_measure,
            "chosen": self.dashboard.chosen,
            "running": running,
            "metrics_chart": Markup(render_section(agreement.build_chart()))
            if agreement and not agreement.reason
            else "",
            "metrics_table": Markup(render_section(agreement.build_table()))
            if agreement and not agreement.reason
            else "",
            "paused": is_paused(progress.changes),
            "changes_table": Markup(render_section(build_changes_table(progress.changes))) if progress.changes else "",
            "payments_table": self._render_payments(progress),
            "payment_files": list_payment_files(self.plan),
            "raters": raters,
            "has_checks": any(rater.passed + rater.failed for rater in progress.raters),
            "has_repeats": any(rater.repeats.tasks for rater in progress.raters),
            "hidden_raters": len(progress.raters) - len(raters),
            "comments": progress.comments[::-1][:COMMENTS],
            "hidden_comments": max(0, len(progress.comments) - COMMENTS),
            "now": datetime.now(timezone.utc).strftime("%H:%M:%S"),
            "percent": _format_percent,
            "seconds": format_seconds,
            "number": _format_number,
            "alpha": _format_alpha,
            "interval": _format_interval,
        }

    def _render_payments(self, progress: StudyProgress) -> str:
        """Render the table of payments, if a panel sends the raters."""
        if self.plan.panel is None:
            return ""
        return Markup(
            render_section(build_payments_table(list_payments(self.plan, progress.raters, self.log.identities())))
        )

    def send_style(self, request: Request) -> Response:
        """Send the style sheet of the report followed by that of this page."""
        report = read_asset("page.css")
        own = self.renderer.static_files["owner.css"][0].decode()
        return Response(f"{report}\n{own}", media_type="text/css")

    # Actions

    def change_rater(self, request: Request, form: Mapping[str, str]) -> Response:
        """Exclude or reinstate a rater, or release the rater's open tasks."""
        acts = {
            "exclude": (self.log.exclude, "excluded"),
            "reinstate": (self.log.reinstate, "reinstated"),
            "release": (self.log.release, "released from open tasks"),
        }
        rater, reason = request.path_params["rater"], form.get("reason", "").strip()[:REASON]
        if form.get("action") not in acts or not reason:
            return self._redirect("Give a reason: the log records it.", failed=True)
        act, done = acts[form["action"]]
        try:
            act(rater, reason)
        except InputError as error:
            return self._redirect(str(error), failed=True)
        self.dashboard.get_progress(fresh=True)
        return self._redirect(f"{rater} is {done}: {reason}")

    def pause(self, request: Request, form: Mapping[str, str]) -> Response:
        """Pause the study with a message for raters, or resume it."""
        message = form.get("message", "").strip()[:REASON]
        try:
            if form.get("action") == "resume":
                self.log.resume()
            else:
                self.log.pause("paused on the owner's page", message)
        except InputError as error:
            return self._redirect(str(error), failed=True)
        self.dashboard.get_progress(fresh=True)
        return self._redirect("The study continues." if form.get("action") == "resume" else "The study is paused.")

    def choose(self, request: Request, form: Mapping[str, str]) -> Response:
        """Select the metrics whose agreement is shown."""
        try:
            self.dashboard.choose(form.get("metrics", ""))
        except InputError as error:
            return self._redirect(str(error), failed=True)
        return self._redirect("", part="metrics")

    def invite(self, request: Request, form: Mapping[str, str]) -> Response:
        """Create personal links; they are shown only once, because the log stores only their hashes."""
        if not self.plan.has_personal_links:
            return self._redirect("This study has one link for everybody, and no personal ones.", failed=True)
        written = form.get("number", "")
        if not (written.isascii() and written.isdigit() and 1 <= int(written[:9]) <= LINKS):
            return self._redirect(f"Expected a number of links from 1 to {LINKS}.", failed=True)
        links = invite(self.log, int(written), self.address)
        self.dashboard.get_progress(fresh=True)
        return self.show_page(request, links)

    def _redirect(self, notice: str, failed: bool = False, part: str = "") -> Response:
        self._notice = (notice, failed) if notice else None
        return RedirectResponse(f"/owner#{part}" if part else "/owner", 303)

    # Export

    def send_archive(self, request: Request) -> Response:
        """Send a zip file of the export."""
        content = io.BytesIO()
        with TemporaryDirectory() as folder, zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in self._write_export(Path(folder)):
                archive.write(path, path.name)
        return _make_download(content.getvalue(), f"{self.plan.path.stem}-export.zip", "application/zip")

    def send_file(self, request: Request) -> Response:
        """Send one file of the export, by its name."""
        with TemporaryDirectory() as folder:
            name = request.path_params["name"]
            paths = {
                path.name: path for path in self._write_export(Path(folder), name in list_payment_files(self.plan))
            }
            path = paths.get(name)
            if path is None:
                raise HTTPException(404)
            return _make_download(path.read_bytes(), path.name, "application/octet-stream")

    def _write_export(self, folder: Path, payments: bool = False) -> list[Path]:
        export_study(self.log, folder / "export", payments=payments)
        return sorted((folder / "export").iterdir())


def _render_verdict(verdict: Verdict | None) -> dict[str, Any]:
    """Return what the page shows of a verdict: its answer, warnings, charts and tables; nothing for none."""
    if verdict is None:
        return {}
    document = verdict.document()
    return {
        "answer": document.answer,
        "warnings": document.warnings,
        "notes": document.notes,
        "signature": verdict.signature,
        "charts": Markup("".join(map(render_section, list_charts(document.sections)))),
        "tables": Markup("".join(map(render_section, list_tables(document.sections)))),
    }


def _make_download(content: bytes, name: str, kind: str) -> Response:
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in name)
    return Response(content, media_type=kind, headers={"content-disposition": f'attachment; filename="{plain}"'})


def _format_percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.0f} %"


def _format_number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}".replace("-", "−")


def _format_alpha(value: float) -> str:
    return f"{value:.{ALPHA_DECIMALS}f}".replace("-", "−")


def _format_interval(estimate: Estimate) -> str:
    return "" if math.isnan(estimate.low) else f"[{_format_alpha(estimate.low)}, {_format_alpha(estimate.high)}]"
