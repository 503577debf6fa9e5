"""A training from files to a folder: the model in ``transformers``' layout, its log, its curves, its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from captious._version import __version__
from captious.encoders.devices import device_called
from captious.errors import InputError
from captious.files import digest, whole_file
from captious.training import curves, log, processes
from captious.training.assembly import Choices, Name, objective, validation
from captious.training.data import Example, read_examples
from captious.training.loop import Report, Trainer
from captious.training.models import starting_model, stretched
from captious.training.outputs import MARKER, prepare, put_model
from captious.training.schedule import Plan
from captious.training.settings import FREE, Settings, as_record
from captious.training.stopping import Stop
from captious.training.towers import lock


@dataclass(frozen=True)
class Job:
    """What a user asked for."""

    objective: Name
    data: str
    out: Path
    settings: Settings
    images: Path | None = None
    base: str | None = None
    new: str | None = None
    towers: tuple[str | None, str | None] = (None, None)
    """A vision and a text model to put new heads on."""
    heads: str = "residual"
    choices: Choices = field(default_factory=Choices)
    validate: str | None = None
    resume: bool = False
    overwrite: bool = False
    skip_missing: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    finished: bool
    steps: int
    of: int
    examples: int
    last: dict[str, Any]
    validations: list[dict[str, Any]]
    folder: Path
    best: Path | None


def train(
    job: Job,
    report: Report = lambda what, done, total: None,
    say: Callable[[str], None] = lambda line: None,
    stop: Stop | None = None,
) -> Outcome:
    """Train, write the folder, and say what came of it."""
    where = processes.device(job.settings.device)
    with processes.together(str(device_called(where))):
        prepare(job.out, job.resume, job.overwrite)
        processes.wait()
        first = processes.rank() == 0
        return _train(job, where, report if first else _nothing, say if first else _nothing, stop or Stop())


def _train(job: Job, where: str, report: Report, say: Callable[[str], None], stop: Stop) -> Outcome:
    merge = job.objective == "clip"
    examples, notes = read_examples(job.data, job.images, job.skip_missing, merge)
    checks = read_examples(job.validate, job.images, job.skip_missing, merge)[0] if job.validate else []
    encoder = starting_model(job.base, job.new, _texts(examples), where, job.settings.seed, job.towers, job.heads)
    if job.objective == "longclip":
        encoder = stretched(encoder)
    if job.choices.scale is not None:
        encoder.logit_scale.data.fill_(job.choices.scale)
    lock(encoder, job.settings.lock)
    goal, more = objective(job.objective, examples, encoder, job.settings, job.choices, report)
    judge = validation(job.objective, checks, encoder, job.settings, job.choices) if checks else None
    plan, remarks = _plan(len(goal), job.settings)
    for note in (*notes, *more, *remarks):
        say(note)
    trainer = Trainer(
        goal,
        job.settings,
        plan,
        job.out,
        report,
        validate=judge,
        goal=judge.goal if judge is not None else "",
        keep_best=lambda: put_model(encoder, job.out / "best"),
        after=lambda: _draw(job),
        identity=_identity(job, examples, plan),
        stop=stop,
        say=say,
    )
    if processes.rank() == 0 and not job.resume:  # a resumed one is marked already, and may yet be refused
        job.out.mkdir(parents=True, exist_ok=True)
        _mark(job, plan, 0, False)
    processes.wait()
    finished = trainer.run(job.resume)
    if processes.rank() == 0:
        put_model(encoder, job.out)
        _draw(job)
        _mark(job, plan, trainer.done, finished)
    processes.wait()
    rows = log.read(job.out)
    return Outcome(
        finished,
        trainer.done,
        plan.steps,
        len(goal),
        next((row for row in reversed(rows) if "loss" in row), {}),
        [row for row in rows if "validation" in row],
        job.out,
        job.out / "best" if trainer.best is not None else None,
    )


def _plan(examples: int, settings: Settings) -> tuple[Plan, list[str]]:
    batch, notes = settings.batch, []
    most = examples // processes.world()
    if batch > most:
        batch = most
        notes.append(f"--batch {settings.batch} is more than the {examples} examples allow: it is {batch}")
    if batch < 2:
        raise InputError(f"{examples} examples are too few to train on: each is told from the others of its batch")
    plan = Plan(examples, batch, settings.accumulate, settings.epochs, settings.seed, processes.world())
    if settings.warmup > plan.steps // 5:
        notes.append(f"--warmup {settings.warmup} is over a fifth of the {plan.steps} steps: it is {plan.steps // 5}")
    return plan, notes


def _identity(job: Job, examples: list[Example], plan: Plan) -> dict[str, Any]:
    """What must be the same for a training to go on."""
    settings = {key: value for key, value in as_record(job.settings).items() if key not in FREE}
    data = [f"{one.id}\t{one.image.name}\t{one.captions}\t{one.units}\t{one.wrong_units}".encode() for one in examples]
    start = {"base": job.base, "new": job.new, "towers": list(job.towers), "heads": job.heads}
    return {
        "objective": job.objective,
        **settings,
        **asdict(job.choices),
        **start,
        "steps": plan.steps,
        "data": digest(*data),
    }


def _texts(examples: list[Example]) -> list[str]:
    """Every text there is, for a tokeniser that is made from them."""
    return [text for one in examples for text in (*one.captions, *one.units, *one.wrong_units)]


def _mark(job: Job, plan: Plan, done: int, finished: bool) -> None:
    record = {
        "captious": __version__,
        "objective": job.objective,
        "data": job.data,
        "base": job.base,
        "new": job.new,
        "towers": list(job.towers),
        "settings": as_record(job.settings),
        "choices": asdict(job.choices),
        "examples": plan.examples,
        "processes": plan.processes,
        "steps": done,
        "of": plan.steps,
        "finished": finished,
    }
    with whole_file(job.out / MARKER) as draft:
        draft.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _draw(job: Job) -> None:
    shown = {key: value for key, value in as_record(replace(job.settings)).items() if value not in (0, [], "auto")}
    curves.write(job.out, f"captious train {job.objective}: {job.out.name}", shown)


def _nothing(*told: Any) -> None:
    """Processes other than the first keep quiet."""
