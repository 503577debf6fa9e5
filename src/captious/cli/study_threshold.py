"""``captious study threshold``: above which value of a metric captions are good."""

from __future__ import annotations

from typing import Annotated

from captious.cli.params import Omit, Only
from captious.cli.session import Session
from captious.cli.study_estimate import CaptionRuns
from captious.cli.study_inputs import SHOWN, Good, find_recipe
from captious.options import Option
from captious.study.study_options import StudyInput


def threshold(
    study_input: Annotated[StudyInput, Omit("metrics", "scores", "scores_id_column", "statistic", "rows", "ties")],
    runs: CaptionRuns,
    session: Annotated[Session, Only("missing", "id_column", "candidate_column", "level", *SHOWN)],
    metric: Annotated[str, Option("Metric of the threshold.", metavar="METRIC")],
    good: Good,
    at_least: Annotated[float, Option("Share of kept captions that must be good.")] = 0.9,
) -> None:
    """Print precision and recall over thresholds of a metric, and the filter that keeps good captions.

    Example: captious study threshold ratings.jsonl runs/* --metric clipscore --good 4
    """
    from captious.study import find_threshold, load_ratings

    with session.working() as step:
        ratings, _ = load_ratings(find_recipe(study_input, session.reading), session.reading)
        step("threshold")
        result = find_threshold(
            ratings,
            runs,
            metric=metric,
            good=good,
            at_least=at_least,
            level=session.resampling.level,
            missing=session.reading.missing,
        )
    session.deliver(result)
