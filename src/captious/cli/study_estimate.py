"""``captious study estimate``: what people would say of all captions, from the ratings of some."""

from __future__ import annotations

from typing import Annotated

from captious.cli.params import Omit, Only
from captious.cli.session import Session
from captious.cli.study_inputs import SHOWN, find_recipe
from captious.options import Argument, get_declarations
from captious.study.study_options import Estimation, StudyInput

AuxiliaryMetrics = Annotated[tuple[str, ...] | None, get_declarations(Estimation)["using"].option]
CaptionRuns = Annotated[
    tuple[str, ...],
    Argument("Runs of all captions, SYSTEM=RUN names one; or files with a row per caption.", metavar="RUNS"),
]


def estimate(
    study_input: Annotated[StudyInput, Omit("metrics", "scores", "scores_id_column", "statistic", "rows", "ties")],
    estimation: Estimation,
    session: Annotated[Session, Only("missing", "id_column", "candidate_column", "seed", "level", *SHOWN)],
    runs: CaptionRuns = (),
) -> None:
    """Estimate what people would say of all captions, from the ratings of some: means, differences, how many more.

    Metrics of all captions make the interval of few ratings narrower. It is valid whether they agree with people or
    not. RUNS are folders of captious score; without any, the rated captions are all there are.

    Example: captious study estimate export/ runs/oscar runs/sat --using spice,clipscore --precision 0.1
    Example: captious study estimate ratings.jsonl oscar=runs/a sat=runs/b --using rouge
    Example: captious study estimate ratings.jsonl captions.csv --using length --share 4
    """
    from captious.study import estimate as estimate_verdict
    from captious.study import load_ratings

    options = {
        name: value for name, value in vars(estimation).items() if name not in ("for_", "probability", "stratum")
    }
    with session.working() as step:
        ratings, _ = load_ratings(
            find_recipe(study_input, session.reading),
            session.reading,
            probability=estimation.probability,
            stratum=estimation.stratum,
        )
        step("estimate")
        result = estimate_verdict(
            ratings,
            runs,
            target=estimation.for_,
            level=session.resampling.level,
            missing=session.reading.missing,
            seed=session.resampling.seed,
            **options,
        )
    session.deliver(result)
