"""Shared parts of the commands of ``captious study``: unused options, runs as arguments, and finding a recipe."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from captious.cli.params import Omit
from captious.options import Argument, Option, Reading
from captious.study.study_options import StudyInput

# Options without effect here: ratings are read row by row, the recipe or StudyInput names the columns, and correlations
# are × 100 already.
UNUSED = Omit("several", "format", "references_column", "references_id_column", "percent")
SHOWN = ("out", "overwrite", "json", "latex", "csv", "signatures")
# Fields of StudyInput that a command with runs as arguments does not have.
NOT_WITH_RUNS = Omit("scores", "scores_id_column", "statistic", "rows", "ties")
Good = Annotated[float, Option("Mean rating from which on a caption is good, such as 4.")]
RatedRuns = Annotated[
    tuple[str, ...],
    Argument(
        "Runs of the rated captions (SYSTEM=RUN names one), or files of numbers by id; none: metrics are computed.",
        metavar="RUNS",
    ),
]


def find_recipe(study_input: StudyInput, reading: Reading) -> StudyInput:
    """Return the input with the recipe stored next to its file, unless columns are given."""
    from captious.study.recipes import find_recipe_for

    columns = (study_input.rating, study_input.group, study_input.system, study_input.rater, study_input.scale)
    has_columns = any((*columns, study_input.data, reading.id_column, reading.candidate_column))
    return study_input if has_columns else replace(study_input, source=find_recipe_for(study_input.source))
