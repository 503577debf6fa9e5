"""``report.log``: reports in Weights & Biases, MLflow, TensorBoard, trackio, or a function of your own.

A tracker is a function of one `TrackedReport`. No tracker is imported unless the user's run is one of its own, and no
run is ever started.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.files import write_atomically
from captious.captions import ImageData
from captious.errors import InputError
from captious.io.images import open_image
from captious.render.document import Gallery, Picture, Table

if TYPE_CHECKING:
    from PIL.Image import Image

    from captious.runs.report import Report

# Longer side in pixels of an image in a tracker's table.
LARGEST_SIDE = 256
# The axis that Hugging Face's trainers define in Weights & Biases, whose own steps must increase.
STEP = "train/global_step"


@dataclass(frozen=True)
class TrackedReport:
    """The content of a report that is sent to a tracker."""

    step: int | None
    prefix: str
    """The prefix of names, such as ``captious``."""
    scalars: Mapping[str, float]
    """Corpus values and the ends of their intervals, by name; undefined values are left out."""
    signatures: Mapping[str, str]
    """The signature of each metric by its name."""
    columns: Sequence[str]
    """Columns of the table of the worst captions."""
    rows: Sequence[Sequence[Any]]
    images: Sequence[Image | None]
    """The image of each row, or None."""
    table: str
    """The table as Markdown."""
    page: str
    """The report as one HTML page, or an empty string."""

    def name(self, what: str) -> str:
        """Return the full name of an entry, such as ``captious/worst``."""
        return f"{self.prefix}/{what}"

    def file(self, stem: str, ending: str) -> str:
        """Return the name of a file of this step, such as ``captious/report-000500.html``."""
        return self.name(f"{stem}{'' if self.step is None else f'-{self.step:06d}'}.{ending}")

    @property
    def listed_signatures(self) -> str:
        """The signatures as Markdown."""
        return "\n\n".join(f"`{signature}`" for signature in self.signatures.values())

    def cells(self, image: Callable[[Image], Any]) -> tuple[list[str], list[list[Any]]]:
        """Return columns and rows of the table, with images converted by ``image`` to the tracker's type."""
        if not any(self.images):
            return list(self.columns), [list(row) for row in self.rows]
        shown = [None if one is None else image(one) for one in self.images]
        return [*self.columns, "image"], [[*row, one] for row, one in zip(self.rows, shown, strict=True)]


Tracker = Callable[[TrackedReport], None]


def make_tracked_report(
    report: Report, step: int | None, prefix: str, worst: int, metric: str | None, page: bool
) -> TrackedReport:
    """Return the content of a report for trackers."""
    from captious.render import html

    if step is not None and (isinstance(step, bool) or not isinstance(step, (int, np.integer)) or step < 0):
        raise InputError(f"step={step!r}, expected a whole number of at least 0")
    listed = report.worst(worst, metric)
    table, gallery = listed.sections
    assert isinstance(table, Table) and isinstance(gallery, Gallery)
    return TrackedReport(
        None if step is None else int(step),
        prefix,
        report.scalars(prefix),
        {f"{prefix}/{name}": report.signature(key) for key, name in report.short_names.items()},
        [column.name for column in table.heads],
        table.rows,
        [_make_thumbnail(entry.picture) for entry in gallery.entries],
        listed.to_markdown(),
        html.render_page(report.document()) if page else "",
    )


def _make_thumbnail(picture: Picture | None) -> Image | None:
    """Return a small copy of an image, or None if the file cannot be opened."""
    if picture is None or not isinstance(picture.source, (str, ImageData)):
        return None
    try:
        image = open_image(picture.source).convert("RGB")
    except InputError:
        return None
    image.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    return image


def find_tracker(run: Any) -> Tracker:
    """Return the function that sends a report to a run: found by its library, by the name of one, or the run itself."""
    if hasattr(run, "add_scalar") and hasattr(run, "add_text"):
        return lambda report: _log_to_tensorboard(run, report)
    library = run if isinstance(run, str) else _find_library(run)
    if library in _LIBRARIES:
        return _LIBRARIES[library](run)
    if callable(run) and not isinstance(run, type):
        return run  # type: ignore[no-any-return]
    shown = repr(run) if isinstance(run, str) else type(run).__name__
    known = ", ".join(map(repr, _LIBRARIES))
    raise InputError(f"run: {shown[:60]}, expected a run or module of {known}, a SummaryWriter, or a function")


def _find_library(run: Any) -> str:
    """Return the top-level package of a module, or of the type of an object."""
    name = getattr(run, "__name__", "") if type(run).__name__ == "module" else type(run).__module__
    return str(name).partition(".")[0]


def _import_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(f"run={name!r}: {name} is not installed, expected pip install {name} and a run") from None


def _find_active(run: Any, library: str, current: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return the module of a tracker, and the run: the active one if only the library was named."""
    module = _import_module(library)
    named = isinstance(run, str) or type(run).__name__ == "module"
    active = current(module) if named else run
    if active is None:
        raise InputError(f"run={library!r}: no run of {library} is active, and none is started; start one before")
    return module, active


def _make_wandb_tracker(run: Any) -> Tracker:
    module, active = _find_active(run, "wandb", lambda library: library.run)

    def send(report: TrackedReport) -> None:
        active.config.update(dict(report.signatures), allow_val_change=True)
        at = {} if report.step is None else {STEP: report.step}
        active.log({**_make_media(module, report, data_is_not_path=True), **report.scalars, **at})

    return send


def _make_trackio_tracker(run: Any) -> Tracker:
    module, active = _find_active(run, "trackio", lambda library: library.context_vars.current_run.get())

    def send(report: TrackedReport) -> None:
        signatures = {report.name("signatures"): module.Markdown(report.listed_signatures)}
        active.log({**_make_media(module, report), **signatures, **report.scalars}, step=report.step)

    return send


def _make_media(module: Any, report: TrackedReport, **html: Any) -> dict[str, Any]:
    """Return the table and the page in the classes of Weights & Biases or trackio; ``html`` are options of pages."""
    media: dict[str, Any] = {}
    if report.rows:
        columns, rows = report.cells(module.Image)
        media[report.name("worst")] = module.Table(columns=columns, data=rows)
    if report.page:
        media[report.name("report")] = module.Html(report.page, **html)
    return media


def _make_mlflow_tracker(run: Any) -> Tracker:
    module, active = _find_active(run, "mlflow", lambda library: library.active_run())
    run_id = active.info.run_id

    def send(report: TrackedReport) -> None:
        module.log_metrics(dict(report.scalars), step=report.step, run_id=run_id)
        module.log_dict(dict(report.signatures), report.file("signatures", "json"), run_id=run_id)
        if report.rows:
            columns, rows = report.cells(module.Image)
            data = {column: [row[index] for row in rows] for index, column in enumerate(columns)}
            module.log_table(data, report.file("worst", "json"), run_id=run_id)
        if report.page:
            module.log_text(report.page, report.file("report", "html"), run_id=run_id)

    return send


def _log_to_tensorboard(writer: Any, report: TrackedReport) -> None:
    """Log scalars, the table as text, and its images; the page is written as a file next to the events."""
    for name, value in report.scalars.items():
        writer.add_scalar(name, value, report.step)
    writer.add_text(report.name("signatures"), report.listed_signatures, report.step)
    if report.rows:
        writer.add_text(report.name("worst"), report.table, report.step)
    for number, image in enumerate(report.images, start=1):
        if image is not None:
            writer.add_image(report.name(f"worst/{number}"), np.asarray(image), report.step, dataformats="HWC")
    if report.page:
        path = Path(os.fspath(writer.log_dir)) / report.file("report", "html")
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_atomically(path) as draft:
            draft.write_text(report.page, encoding="utf-8", errors="replace")


_LIBRARIES: dict[str, Callable[[Any], Tracker]] = {
    "wandb": _make_wandb_tracker,
    "mlflow": _make_mlflow_tracker,
    "trackio": _make_trackio_tracker,
}
