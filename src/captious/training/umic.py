"""Training UMIC from files to a folder: backbone, negatives, validation by kind, on the loop that trains encoders."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from captious.encoders.devices import device_called
from captious.encoders.places import local
from captious.encoders.runtime import Runtime, using
from captious.errors import InputError
from captious.training import curves, log, processes
from captious.training.data import Example, read_examples
from captious.training.loop import Report, Trainer
from captious.training.negatives import held_out, keyed
from captious.training.outputs import prepare, put_model
from captious.training.run import Outcome
from captious.training.schedule import Plan
from captious.training.stopping import Stop
from captious.training.umic_backbones import starting_backbone
from captious.training.umic_parts import Job, assembled
from captious.training.umic_record import ended, identity, shown, write
from captious.umic.negatives import check

UNUSED = ("checkpoints", "best", "log.jsonl", "curves.html", "encoder")
"""What of an encoder's folder is not the encoder."""


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
        told = (report, say) if first else (_nothing, _nothing)
        with using(Runtime(device=where, workers=job.settings.workers, progress=told[0], log=told[1])):
            return _train(job, told[0], told[1], stop or Stop())


def _train(job: Job, report: Report, say: Callable[[str], None], stop: Stop) -> Outcome:
    check(job.kinds)
    examples, checks, notes = _examples(job)
    backbone = starting_backbone(job)
    goal, judge, more = assembled(job, backbone, examples, checks)
    batch = min(job.settings.batch, max(1, len(goal) // processes.world()))
    plan = Plan(len(goal), batch, job.settings.accumulate, job.settings.epochs, job.settings.seed, processes.world())
    settings = replace(job.settings, batch=batch, warmup=round(job.warmup * plan.steps))
    for note in (*notes, *more):
        say(note)
    patience = goal.patience
    same = identity(job, settings, examples, plan)

    def validated() -> dict[str, float]:
        assert judge is not None
        found = judge()
        if patience.see(found[judge.goal]):
            stop.asked = True
        return found

    trainer = Trainer(
        cast(Any, goal),
        settings,
        plan,
        job.out,
        report,
        validate=validated if judge is not None else None,
        goal=judge.goal if judge is not None else "",
        keep_best=lambda: put_model(backbone, job.out / "best"),
        after=lambda: curves.write(job.out, f"captious train umic: {job.out.name}", shown(job, settings)),
        identity=same,
        stop=stop,
        say=say,
    )
    if job.resume and (steps := ended(job.out, same)) is not None:
        say("this training ended already; nothing is left to do")
        return _outcome(job, plan, steps, True, len(goal))
    if processes.rank() == 0:
        job.out.mkdir(parents=True, exist_ok=True)
        _keep_encoder(backbone, job.out)
        if not job.resume:  # a resume that is refused must not touch the record of the first start
            write(job, settings, plan, same, 0, False)
    processes.wait()
    finished = trainer.run(job.resume)
    early = not finished and bool(patience.most) and patience.since >= patience.most
    early = processes.anyone(early, str(backbone.device))  # only the first process validates
    if early:
        say(f"no better validation in the last {patience.since}: stopped after step {trainer.done} of {plan.steps}")
    if processes.rank() == 0:
        put_model(backbone, job.out)
        trainer.after()
        write(job, settings, plan, same, trainer.done, finished or early)
    processes.wait()
    return _outcome(job, plan, trainer.done, finished or early, len(goal))


def _examples(job: Job) -> tuple[dict[str, Example], dict[str, Example], list[str]]:
    found, notes = read_examples(job.data, job.images, job.skip_missing, merge=True)
    examples = keyed(found)
    if job.validate is not None:
        rows, more = read_examples(job.validate, job.images, job.skip_missing, merge=True)
        return examples, keyed(rows), [*notes, *(f"validation: {note}" for note in more)]
    examples, checks = held_out(examples, job.hold_out, job.settings.seed)
    if checks:
        notes.append(f"{len(checks)} images are held out for validation, {len(examples)} are learnt from")
    if job.early_stop and not checks:
        raise InputError("--early-stop needs a validation: give --validate FILE, or more images to hold some out")
    return examples, checks, notes


def _keep_encoder(backbone: Any, out: Path) -> None:
    """Copy an encoder that is a folder here beside the model, which is of no use without it."""
    weights = getattr(backbone, "weights", None)
    place = local(weights) if weights else None
    if place is not None and place.is_dir() and not (out / "encoder").exists():
        shutil.copytree(place, out / "encoder", ignore=shutil.ignore_patterns(*UNUSED))


def _outcome(job: Job, plan: Plan, done: int, finished: bool, examples: int) -> Outcome:
    rows = log.read(job.out)
    last: dict[str, Any] = next((row for row in reversed(rows) if "loss" in row), {})
    best = job.out / "best"
    checks = [row for row in rows if "validation" in row]
    return Outcome(finished, done, plan.steps, examples, last, checks, job.out, best if best.is_dir() else None)


def _nothing(*told: Any) -> None:
    """Processes other than the first keep quiet."""
