"""A training, from its options to its output folder."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from captious._core.files import digest, load_json, write_atomically
from captious._version import __version__
from captious.errors import InputError
from captious.options import Runtime, get_runtime, using
from captious.render import Column, Document, Result, Table, Text
from captious.train import _loop as loop
from captious.train import distributed
from captious.train._contrast import ClipMethod, LongClipMethod
from captious.train._data import Example
from captious.train._loop import MARKER, StopSignal
from captious.train._objective import Job, Method
from captious.train._schedule import EpochPlan
from captious.train._specs import SpecsMethod
from captious.train._umic import UmicMethod
from captious.train.distributed import get_world_size
from captious.train.training_options import (
    FREE,
    OBJECTIVES,
    ClipOptions,
    ObjectiveOptions,
    Settings,
    Training,
    as_record,
    from_record,
)

METHODS: dict[str, type[Method]] = {
    "clip": ClipMethod,
    "longclip": LongClipMethod,
    "specs": SpecsMethod,
    "umic": UmicMethod,
}


@dataclass(frozen=True, repr=False)
class Trained(Result):
    """The result of a training."""

    finished: bool
    steps: int
    of: int
    """Number of steps of the whole training."""
    examples: int
    last: dict[str, Any]
    """The last row of the log with a loss."""
    validations: list[dict[str, Any]]
    folder: Path
    best: Path | None
    """The folder of the model with the best validation."""
    goal: str = ""
    """The validation score that selects the best model."""

    def __repr__(self) -> str:
        return f"Trained({str(self.folder)!r}, {self.steps} of {self.of} steps)"

    def document(self) -> Document:
        """Build a document with steps, loss, and the first and last validation."""
        lines = [f"{self.steps} of {self.of} steps on {self.examples} examples"]
        if self.last:
            speed = f"{self.last['samples_per_second']:,.0f} samples a second"
            lines.append(f"loss {self.last['loss']:.4g}, {speed}")
        lines.append(f"model: {self.folder}/")
        if self.best is not None:
            lines += [f"best in validation: {self.best}/", self._describe_best_step()]
        sections: list[Table | Text] = [Text(lines)]
        if self.validations:
            ends = self.validations[:1] if len(self.validations) == 1 else [self.validations[0], self.validations[-1]]
            rows = [(name, *(row["validation"][name] for row in ends)) for name in ends[0]["validation"]]
            names = [f"{'after' if row['step'] else 'before'} (step {row['step']})" for row in ends]
            columns = [Column("figure", "text"), *(Column(name, decimals=2) for name in names)]
            sections.append(Table("validation", "Validation", columns, rows))
        data = {**vars(self), "folder": str(self.folder), "best": self.best and str(self.best)}
        return Document("Training", sections=sections, data=data, name="training", answer=self._answer())

    def _answer(self) -> str:
        """Return the plain answer: whether training improved the validation score, and where the model is."""
        unfinished = "" if self.steps >= self.of else f"Training stopped after {self.steps:,} of {self.of:,} steps. "
        values = {row["step"]: row["validation"][self.goal] for row in self.validations} if self.goal else {}
        before = values.pop(0, None)
        if not values:
            return (
                f"{unfinished}The model was not validated: nothing says whether it improved. It is in {self.folder}/."
            )
        step, value = max(values.items(), key=lambda item: item[1])
        where = f"The model is in {self.best or self.folder}/."
        if before is None:
            return f"{unfinished}The best model is that of step {step:,}: its {self.goal} is {value:.2f}. {where}"
        if before >= value:
            found = f"{self.goal} was {before:.2f} before training and is {value:.2f} at best, at step {step:,}"
            return f"{unfinished}Training did not help: {found}."
        found = f"{self.goal} rose from {before:.2f} to {value:.2f} at step {step:,}"
        return f"{unfinished}Training helped: {found}, without an interval. {where}"

    def _describe_best_step(self) -> str:
        """Describe the step of the best model, and whether training improved the model at all."""
        values = {row["step"]: row["validation"][self.goal] for row in self.validations}
        before = values.pop(0, -math.inf)
        step, value = max(values.items(), key=lambda item: item[1])
        if before >= value:
            against = f"{self.goal} {value:.2f}, {before:.2f} at step 0"
            return f"it is of step {step} and no better than before training: {against}"
        return f"it is of step {step}: {self.goal} {value:.2f}, before training {before:.2f}"


def train(
    training: Training,
    options: ObjectiveOptions | None = None,
    settings: Settings | None = None,
    runtime: Runtime | None = None,
    stop: StopSignal | None = None,
) -> Trained:
    """Train a model and write its folder. Processes that ``torchrun`` started train one model together.

    Parameters
    ----------
    training
        The data, the model to start from, and the folder to write.
    options
        The objective: `ClipOptions`, `LongClipOptions`, `SpecsOptions` or `UmicOptions`.
    settings
        Epochs, batch size, learning rate and so on. By default those that were published for the objective.
    runtime
        Where the model is trained. ``runtime.progress`` is called with every step, ``runtime.log`` with messages.
    stop
        Set ``stop.asked`` to end the training after the present step.
    """
    if training.data is None:
        training, options, settings = _restore_options(training, options, settings)
    options = options or ClipOptions()
    runtime = runtime or get_runtime()
    with distributed.open_accelerator(runtime.device, runtime.precision) as accelerator:
        loop.prepare(training.out, training.resume, training.overwrite)
        distributed.wait()
        runtime = replace(runtime, device=distributed.get_device(accelerator, runtime.device))
        if distributed.get_rank():
            runtime = replace(runtime, progress=Runtime().progress, log=Runtime().log)  # silent
        job = Job(training, options, options.resolve_settings(settings), runtime)
        with using(replace(runtime, precision="auto")):
            return _train(job, accelerator, stop or loop.StopSignal())


def _train(job: Job, accelerator: Any, stop: StopSignal) -> Trained:
    training, out = job.training, Path(job.training.out)
    if training.resume:  # before loading any data
        loop.check_identity(out, _collect_settings(job))
    method = METHODS[job.options.name](job)
    examples, checks = method.examples()
    model = method.start(examples)
    objective = method.objective(examples, model)
    validation = method.validation(checks, model) if checks else None
    plan = _make_plan(len(objective), job, method.notes)
    warmup = job.options.count_warmup_steps(job.settings, plan.steps)
    settings = replace(job.settings, batch_size=plan.batch, warmup_steps=warmup)
    for note in method.notes:
        job.runtime.log(note)
    trainer = loop.Trainer(
        objective,
        settings,
        plan,
        out,
        accelerator,
        job.runtime,
        validation,
        keep_best=lambda: loop.put_model(model, out / "best"),
        patience=loop.Patience(getattr(job.options, "early_stop", 0)),
        identity=_compute_identity(job, examples, plan),
        stop=stop,
    )
    first = distributed.get_rank() == 0
    before = _read_record(out) if training.resume else {}
    longer = 0 < before.get("of", 0) < plan.steps
    ended = bool(before.get("finished")) and not longer
    if longer:
        loop.check_identity(out, trainer.identity)
        steps = f"lengthened from {before['of']} to {plan.steps} steps"
        job.runtime.log(f"{steps}: from here on the learning rate follows the longer schedule")
    if first and (longer or not training.resume):  # a resumed one has a record already, and may still be refused
        out.mkdir(parents=True, exist_ok=True)
        _write_record(job, settings, plan, before.get("steps", 0), False)
    if first:
        method.keep(model)
    distributed.wait()
    finished = trainer.run(training.resume, ended)
    if ended:
        job.runtime.log("this training ended already; nothing is left to do")
    elif first:
        loop.put_model(model, out)
        _write_record(job, settings, plan, trainer.done, finished)
    distributed.wait()
    rows = loop.read(out)
    return Trained(
        finished,
        trainer.done,
        plan.steps,
        len(objective),
        next((row for row in reversed(rows) if "loss" in row), {}),
        [row for row in rows if "validation" in row],
        out,
        out / "best" if trainer.best is not None else None,
        validation.goal if validation is not None else "",
    )


def _make_plan(examples: int, job: Job, notes: list[str]) -> EpochPlan:
    settings, contrast = job.settings, job.options.name != "umic"
    wanted, most = settings.batch_size or 1, max(examples // get_world_size(), 1)
    if wanted > most and contrast:
        notes.append(f"batches of {wanted} are more than the {examples} examples allow: lowered to {most}")
    batch = min(wanted, most)
    if batch < 2 and contrast:
        raise InputError(
            f"{examples} examples are too few to train on: each is distinguished from the others of its batch"
        )
    plan = EpochPlan(examples, batch, settings.accumulate, settings.epochs or 1, settings.seed, get_world_size())
    if settings.total_steps is not None:
        epochs = math.ceil(settings.total_steps / plan.steps_in_epoch)
        plan = replace(plan, epochs=epochs, total=settings.total_steps)
    if contrast and settings.warmup_steps > plan.steps // 5:
        fifth = f"over a fifth of the {plan.steps} steps: lowered to {plan.steps // 5}"
        notes.append(f"a warm-up of {settings.warmup_steps} steps is {fifth}")
    return plan


def _compute_identity(job: Job, examples: Sequence[Example], plan: EpochPlan) -> dict[str, Any]:
    """Return the values that must be equal for a training to be resumed; epochs and steps may grow."""
    data = [f"{one.id}\t{one.image.name}\t{one.captions}\t{one.units}\t{one.wrong_units}".encode() for one in examples]
    return {**_collect_settings(job), "steps": plan.steps, "data": digest(*data)}


def _collect_settings(job: Job) -> dict[str, Any]:
    """Return the part of the identity that is known before loading any data."""
    settings = {key: value for key, value in as_record(job.settings).items() if key not in FREE}
    return {"objective": job.options.name, **settings, **as_record(job.options), "base": job.training.base}


def _write_record(job: Job, settings: Settings, plan: EpochPlan, done: int, finished: bool) -> None:
    """Write the record of the training into its folder."""
    record = {
        "captious": __version__,
        "objective": job.options.name,
        "data": job.data,
        "training": as_record(job.training),
        "asked": as_record(job.settings),
        "settings": as_record(settings),
        "options": as_record(job.options),
        "examples": plan.examples,
        "processes": plan.processes,
        "steps": done,
        "of": plan.steps,
        "finished": finished,
    }
    with write_atomically(Path(job.training.out) / MARKER) as draft:
        draft.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8", newline="\n")


def _read_record(out: Path) -> dict[str, Any]:
    """Read the progress from the record of a training; empty if unreadable."""
    try:
        record = load_json(out / MARKER)
        return {"of": int(record["of"]), "finished": bool(record["finished"]), "steps": int(record["steps"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _restore_options(
    training: Training, options: ObjectiveOptions | None, settings: Settings | None
) -> tuple[Training, ObjectiveOptions, Settings]:
    """Read the options of a training from its folder to resume it; only the number of epochs may be changed."""
    if not training.resume:
        raise InputError("no data to learn from: name a file of rows, or pass resume=True to resume a training")
    usual = (Settings(), options.published if options is not None else Settings())
    told = settings is not None and replace(settings, epochs=None) not in usual
    if told or (options is not None and options != type(options)()):
        raise InputError("resume=True without data takes every option but epochs=... from the folder; leave others out")
    path = Path(training.out) / MARKER
    try:
        record = load_json(path)
        if options is not None and options.name != record["objective"]:
            raise InputError(f"{training.out}: is a training of {record['objective']}, not of {options.name}")
        same = replace(from_record(Training, record["training"]), out=training.out, resume=True, overwrite=False)
        options = from_record(OBJECTIVES[record["objective"]], record["options"])
        asked = from_record(Settings, record["asked"])
        return same, options, replace(asked, epochs=settings.epochs or asked.epochs) if settings else asked
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: no training to resume; name a file of rows to start one") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: does not say how to resume ({error}); name the rows and its options") from None
