"""From the options of ``captious train`` to a trained encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from captious.cli.options import Missing
from captious.cli.train.shared import finish

if TYPE_CHECKING:
    from captious.train.run import Choices, Name


def run(name: Name, given: dict[str, Any], choices: Choices) -> None:
    """Train as the options say, with progress on standard error."""
    from captious.train.run import Job, train
    from captious.train.schedule import chosen
    from captious.train.show import progress

    given["lock"] = tuple(part.strip() for part in given["lock"].split(",") if part.strip())
    new, towers = given.get("new"), (given.get("vision"), given.get("text"))
    job = Job(
        name,
        given["data"],
        given["out"],
        chosen(name, new is not None, towers != (None, None), **given),
        images=given["images"],
        base=given["base"],
        new=new,
        towers=towers,
        heads=given.get("heads", "residual"),
        choices=choices,
        validate=given["validate"],
        resume=given["resume"],
        overwrite=given["overwrite"],
        skip_missing=given["missing"] is Missing.skip,
    )
    with progress() as (report, say):
        outcome = train(job, report, say)
    finish(outcome, given["as_json"])
