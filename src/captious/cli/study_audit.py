"""``captious study audit``: can a judge or a metric be trusted?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from captious.cli.params import Omit, Only
from captious.cli.session import Session
from captious.cli.study_inputs import SHOWN, Good, RatedRuns, find_recipe
from captious.errors import InputError
from captious.options import Option
from captious.study.study_options import StudyInput

JudgeNames = Annotated[
    tuple[str, ...], Option("Judges or metrics of the runs, by name; all by default.", metavar="METRICS")
]
OwnSystems = Annotated[
    tuple[str, ...],
    Option("JUDGE=SYSTEM of the same maker or model, for self-preference.", metavar="PAIRS"),
]


def audit(
    study_input: Annotated[
        StudyInput, Omit("metrics", "scores", "scores_id_column", "statistic", "rows", "ties", "data", "own")
    ],
    runs: RatedRuns,
    session: Annotated[Session, Only("missing", "id_column", "candidate_column", "samples", "seed", *SHOWN)],
    judge: JudgeNames = (),
    same_maker: OwnSystems = (),
    good: Good | None = None,
    arena: Annotated[
        Path | None, Option("Folder of captious arena by this judge, for the bias of the order.", metavar="FOLDER")
    ] = None,
    judge_noise: Annotated[
        Path | None,
        Option("Folder of captious judge-noise, for what a judge changes when asked again.", metavar="FOLDER"),
    ] = None,
) -> None:
    """Audit judges or metrics against ratings: what they see, length, systems, wrong winners, order, self-preference.

    RUNS have the values of the judges for all captions. People's ratings of some of these captions are enough. A pair
    of systems is called wrong only if people's ratings decide it.

    Example: captious study audit ratings.jsonl oscar=runs/a sat=runs/b --judge fleur
    Example: captious study audit export/ runs/* --judge fleur,clair --same-maker fleur=llava --out audit/
    """
    from captious.study import audit as audit_judges
    from captious.study import load_ratings

    if not runs:
        raise InputError("no RUNS: name the runs, or a file of numbers, that have the values of the judge")
    named = dict(pair.split("=", 1) for pair in same_maker if "=" in pair)
    if len(named) < len(same_maker):
        raise InputError(f"--same-maker {','.join(same_maker)}: expected JUDGE=SYSTEM, such as fleur=llava")
    with session.working() as step:
        ratings, _ = load_ratings(find_recipe(study_input, session.reading), session.reading)
        step("audit")
        result = audit_judges(
            ratings,
            runs,
            judges=judge,
            own=named or None,
            good=good,
            arena=arena,
            noise=judge_noise,
            missing=session.reading.missing,
            resampling=session.resampling,
            progress=step,
        )
    session.deliver(result)
