"""What a training of UMIC writes down about itself: its choices, how far it came, and what must stay the same."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from captious._version import __version__
from captious.errors import InputError
from captious.files import digest, whole_file
from captious.training.data import Example
from captious.training.outputs import MARKER
from captious.training.schedule import Plan
from captious.training.settings import FREE, Settings, as_record
from captious.training.umic_parts import Job


def identity(job: Job, settings: Settings, examples: dict[str, Example], plan: Plan) -> dict[str, Any]:
    """What must be the same for a training to go on."""
    kept = {key: value for key, value in as_record(settings).items() if key not in FREE}
    data = [f"{key}\t{one.image.name}\t{one.captions}".encode() for key, one in examples.items()]
    return {"objective": "umic", **kept, **choices(job), "steps": plan.steps, "data": digest(*data)}


def choices(job: Job) -> dict[str, Any]:
    """What a user chose besides the settings of the loop."""
    names = ("backbone", "encoder", "margin", "draws", "warmup", "sizes", "prefix", "hold_out", "early_stop")
    return {**{name: getattr(job, name) for name in names}, "kinds": list(job.kinds)}


def shown(job: Job, settings: Settings) -> dict[str, Any]:
    """What stands above the curves."""
    told = {**as_record(settings), **choices(job)}
    return {key: value for key, value in told.items() if value not in (0, [], {}, "", "auto")}


def write(job: Job, settings: Settings, plan: Plan, same: dict[str, Any], done: int, finished: bool) -> None:
    """The record in the folder of the model."""
    record = {
        "captious": __version__,
        "objective": "umic",
        "data": job.data,
        "settings": as_record(settings),
        "choices": choices(job),
        "plan": asdict(plan),
        "identity": same,
        "steps": done,
        "of": plan.steps,
        "finished": finished,
    }
    with whole_file(job.out / MARKER) as draft:
        draft.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def ended(out: Path, same: dict[str, Any]) -> int | None:
    """The steps of a training that came to its end, None for one that did not; one of other choices is refused."""
    try:
        record = json.loads((out / MARKER).read_text(encoding="utf-8"))
        if not record.get("finished"):
            return None
        was, steps = record["identity"], int(record["steps"])
    except (OSError, ValueError, KeyError, AttributeError):
        return None
    for key, value in json.loads(json.dumps(same)).items():
        if was.get(key) != value:
            raise InputError(f"{out}: ended already, with {key} {was.get(key)!r}, now it is {value!r}")
    return steps
