"""The owner's page: coverage, agreement, time, flags, metrics so far, and what an owner can do about them."""

from __future__ import annotations

import io
import math
import threading
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from captious._version import __version__
from captious.errors import InputError, require
from captious.metrics.contract import Measurement
from captious.metrics.registry import parse_all
from captious.options import Resampling
from captious.render.html import draw
from captious.stats.bootstrap import Estimate
from captious.studio.access import cookie_value, form_token, new_token, same_token, token_hash
from captious.studio.events import Event, answers_of
from captious.studio.export import write_export
from captious.studio.log import Log
from captious.studio.plan import Plan
from captious.studio.running import STATISTICS, USUAL, MetricAgreement, measure_captions, metric_agreement
from captious.studio.standing import Standing, standing_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

SAMPLES = Resampling(samples=200)
"""The bootstrap of a page that is drawn again and again; ``captious studio status`` draws more."""
PAUSE, SHARE = 2.0, 10.0
"""Seconds between two computations at least, and at least so many times what the last one took."""
RATERS, COMMENTS, LINKS = 60, 30, 500
"""Raters and comments that the page shows, and links that it makes at once."""


@dataclass
class Running:
    """The agreement of chosen metrics, computed beside the pages of raters."""

    metrics: tuple[str, ...] = ()
    working: bool = False
    agreement: MetricAgreement | None = None
    error: str = ""
    version: int = 0


class Board:
    """The standing of a study, computed again after something happened, but never so often that raters would notice.

    Methods may be called from several threads.
    """

    def __init__(self, plan: Plan, log: Log, metrics: Sequence[str] | None = None) -> None:
        self.plan, self.log = plan, log
        self.tasks = log.tasks()
        self.running = Running()
        self._events: list[Event] = []
        self._standing: Standing | None = None
        self._next = 0.0
        self._measured: dict[tuple[str, ...], list[Measurement]] = {}
        self._lock, self._metrics_lock = threading.Lock(), threading.Lock()
        referenced = any(task.references and task.choices for task in self.tasks.values())
        self._wanted = tuple(metrics if metrics is not None else USUAL if referenced else ())

    @property
    def can_measure(self) -> bool:
        """Whether metrics can be held against answers of this kind."""
        return self.plan.kind in STATISTICS

    @property
    def version(self) -> str:
        """Changes whenever the page would."""
        standing = self.standing()
        return f"{standing.seq}-{len(standing.raters)}-{self.running.version}"

    def standing(self, fresh: bool = False) -> Standing:
        """The standing as of a moment ago, or with ``fresh`` as of now."""
        with self._lock:
            if self._standing is None or fresh or time.monotonic() >= self._next:
                self._read(fresh)
            assert self._standing is not None
            return self._standing

    def _read(self, fresh: bool) -> None:
        begin = time.monotonic()
        new = list(self.log.events(after=self._events[-1].seq if self._events else 0))
        self._events += new
        if new or fresh or self._standing is None:
            raters = [rater.id for rater in self.log.raters()]
            now = datetime.now(timezone.utc)
            leases = sum(slot.lease is not None and slot.lease > now for slot in self.log.slots())
            self._standing = standing_of(
                self.plan, self.tasks, self._events, raters, open_tasks=leases, resampling=SAMPLES
            )
            if self.can_measure and self._wanted:
                self._compute_metrics()
        self._next = time.monotonic() + max(PAUSE, SHARE * (time.monotonic() - begin))

    def choose(self, written: str) -> None:
        """Show the agreement of these metrics from now on."""
        metrics = tuple(str(metric) for metric in parse_all([written])) if written.strip() else ()
        with self._metrics_lock:
            self._wanted = metrics
            self.running = Running(version=self.running.version + 1)
        self.standing(fresh=True)

    @property
    def chosen(self) -> str:
        """The metrics as they were written."""
        return ", ".join(self._wanted)

    def _compute_metrics(self) -> None:
        """Begin to compute in a thread of its own, unless one is at work."""
        with self._metrics_lock:
            if self.running.working:
                return
            self.running.working = True
            self.running.version += 1
            threading.Thread(target=self._metrics, args=(self._wanted, list(self._events)), daemon=True).start()

    def _metrics(self, metrics: tuple[str, ...], events: Sequence[Event]) -> None:
        agreement, error = None, ""
        try:
            if metrics not in self._measured:
                self._measured[metrics] = measure_captions(self.plan, self.tasks, metrics)
            answers = answers_of(events)
            agreement = metric_agreement(self.plan, self.tasks, answers, self._measured[metrics], SAMPLES)
        except InputError as problem:
            error = str(problem)
        except Exception as problem:  # a metric of somebody else, a model that does not load: the page goes on
            error = f"{type(problem).__name__}: {problem}"
        with self._metrics_lock:
            if metrics == self._wanted:
                self.running = Running(metrics, False, agreement, error, self.running.version + 1)
            else:
                self.running.working = False


class OwnerPages:
    """The routes below ``/owner``. `TokenGate` must stand before them."""

    def __init__(
        self, plan: Plan, log: Log, token: str, address: str, environment: Environment, metrics: Sequence[str] | None
    ) -> None:
        self.plan, self.log = plan, log
        self.board = Board(plan, log, metrics)
        self.address = address.rstrip("/")
        self._csrf = form_token(token)
        self._environment = environment
        self._notice: tuple[str, bool] | None = None

    def routes(self) -> list[Route]:
        """What an app includes."""
        return [
            Route("/owner", self.page),
            Route("/owner/live", self.live),
            Route("/owner/owner.css", self.style),
            Route("/owner/owner.js", self.script),
            Route("/owner/metrics", self.metrics, methods=["POST"]),
            Route("/owner/invite", self.invite, methods=["POST"]),
            Route("/owner/raters/{rater}", self.act, methods=["POST"]),
            Route("/owner/export.zip", self.archive),
            Route("/owner/export/{name}", self.export),
        ]

    # Pages

    def page(self, request: Request) -> Response:
        """The whole page."""
        return self._page(request)

    def _page(self, request: Request, links: Sequence[str] = ()) -> Response:
        notice, failed = self._notice or ("", False)
        self._notice = None
        plan = self.plan
        context = {
            **self._context(request),
            "version": self.board.version,
            "notice": notice,
            "failed": failed,
            "links": links,
            "source": plan.source.name,
            "files": EXPORTS.get(plan.kind, ()),
            "release": __version__,
            "kind": plan.kind,
            "tasks": self.board.standing().coverage.tasks,
            "overlap": plan.overlap,
            "digest": plan.digest[:12],
        }
        return HTMLResponse(self._environment.get_template("owner.html").render(context))

    def live(self, request: Request) -> Response:
        """The part of the page that changes; nothing where the browser has this version."""
        version = self.board.version
        if request.query_params.get("version") == version:
            return Response(status_code=204)
        text = self._environment.get_template("owner-live.html").render(self._context(request))
        return HTMLResponse(text, headers={"x-version": version})

    def _context(self, request: Request) -> dict[str, Any]:
        """What both templates show."""
        standing, running = self.board.standing(), self.board.running
        everybody = "all" in request.query_params
        raters = standing.raters if everybody else standing.raters[:RATERS]
        states = [rater.state for rater in standing.raters]
        agreement = running.agreement
        return {
            "title": self.plan.title,
            "csrf": self._csrf,
            "open_link": self._open_link(),
            "cover": standing.coverage,
            "late": standing.late,
            "headline": standing.headline,
            "questions": standing.questions,
            "time": standing.time,
            "active": sum(rater.tasks > 0 for rater in standing.raters if rater.state != "excluded"),
            "finished": states.count("finished"),
            "flagged": len(standing.flagged),
            "excluded": states.count("excluded"),
            "waiting": states.count("invited"),
            "warnings": standing.warnings,
            "charts": Markup("".join(draw(chart) for chart in standing.charts())),
            "agreement_table": Markup(draw(standing.agreement_table())),
            "can_measure": self.board.can_measure,
            "chosen": self.board.chosen,
            "running": running,
            "metrics_chart": Markup(draw(agreement.chart())) if agreement and not agreement.reason else "",
            "raters": raters,
            "hidden_raters": len(standing.raters) - len(raters),
            "comments": standing.comments[::-1][:COMMENTS],
            "hidden_comments": max(0, len(standing.comments) - COMMENTS),
            "now": datetime.now(timezone.utc).strftime("%H:%M:%S"),
            "seq": standing.seq,
            "percent": lambda share: "–" if math.isnan(share) else f"{100 * share:.0f} %",
            "seconds": _seconds,
            "number": lambda value: "" if math.isnan(value) else f"{value:.2f}".replace("-", "−"),
            "interval": _interval,
        }

    def _open_link(self) -> str:
        source = self.plan.source.name
        if source == "links":
            return ""
        return f"{self.address}/s/{quote(study_name(self.plan))}{PARAMETERS.get(source, '')}"

    def style(self, request: Request) -> Response:
        """The report's style and that of this page."""
        return Response(_asset("captious.render", "page", "page.css") + _own("owner.css"), media_type="text/css")

    def script(self, request: Request) -> Response:
        """The script that keeps the page up to date."""
        return Response(_own("owner.js"), media_type="text/javascript")

    # What an owner does

    async def act(self, request: Request) -> Response:
        """Exclude or reinstate a rater, or release what the rater has open."""
        form = await self._form(request)
        rater, action, reason = request.path_params["rater"], form.get("action", ""), form.get("reason", "").strip()
        acts = {"exclude": self.log.exclude, "reinstate": self.log.reinstate, "release": self.log.release}
        if action not in acts or not reason:
            return self._back("Say a reason: it is kept in the log.", failed=True)
        try:
            await run_in_threadpool(acts[action], rater, reason[:500])
        except InputError as error:
            return self._back(str(error), failed=True)
        await run_in_threadpool(self.board.standing, True)
        return self._back(f"{rater} is {action.rstrip('e')}ed: {reason[:500]}")

    async def metrics(self, request: Request) -> Response:
        """Choose the metrics of the running result."""
        form = await self._form(request)
        try:
            await run_in_threadpool(self.board.choose, form.get("metrics", ""))
        except InputError as error:
            return self._back(str(error), failed=True, part="metrics")
        return self._back("", part="metrics")

    async def invite(self, request: Request) -> Response:
        """Make personal links; they are shown once, since only their hashes are stored."""
        form = await self._form(request)
        written = form.get("number", "")
        if not written.isascii() or not written.isdigit() or not 1 <= int(written) <= LINKS:
            return self._back(f"Expected a number of links from 1 to {LINKS}.", failed=True, part="invite")
        tokens = [new_token() for _ in range(int(written))]
        await run_in_threadpool(self.log.add_raters, [token_hash(token) for token in tokens])
        await run_in_threadpool(self.board.standing, True)
        return await run_in_threadpool(self._page, request, [f"{self.address}/r/{token}" for token in tokens])

    async def _form(self, request: Request) -> dict[str, str]:
        form = await request.form()
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        if not same_token(fields.get("csrf", ""), self._csrf):
            raise HTTPException(403, "The form is not of this page. Reload it and try again.")
        return fields

    def _back(self, notice: str, failed: bool = False, part: str = "") -> Response:
        self._notice = (notice, failed) if notice else None
        return RedirectResponse(f"/owner#{part}" if part else "/owner", 303)

    # Export

    def archive(self, request: Request) -> Response:
        """All files of the export."""
        content = io.BytesIO()
        with TemporaryDirectory() as folder, zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in self._exported(Path(folder)):
                archive.write(path, path.name)
        return _download(content.getvalue(), f"{self.plan.path.stem}-export.zip", "application/zip")

    def export(self, request: Request) -> Response:
        """One file of the export, by its name."""
        with TemporaryDirectory() as folder:
            paths = {path.name: path for path in self._exported(Path(folder))}
            path = paths.get(request.path_params["name"])
            if path is None:
                raise HTTPException(404, "There is no such file in the export.")
            return _download(path.read_bytes(), path.name, "application/octet-stream")
