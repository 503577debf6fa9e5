"""What a study is made from, as options. Nothing heavy is imported here: the command line reads it at every start."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from captious.errors import InputError
from captious.options import Argument, Option, Options


@dataclass(frozen=True)
class StudyInput(Options):
    """Ratings, the columns of their file, and the metrics to compare with them."""

    title = "Ratings and metrics"

    source: Annotated[str, Argument("A recipe (captious study recipes), a recipe in TOML, or a file with ratings.")]
    data: Annotated[
        str | Path | None,
        Option("Folder with the data of a recipe; by default that of the TOML file.", type=Path, metavar="FOLDER"),
    ] = None
    rating: Annotated[
        tuple[str, ...], Option("Column of the rating or ratings; several, one for each rater.", metavar="NAMES")
    ] = ()
    group: Annotated[
        str | None, Option("Column of the image: its captions are drawn together.", metavar="NAME", rare=True)
    ] = None
    system: Annotated[str | None, Option("Column of the system that wrote the caption.", metavar="NAME")] = None
    rater: Annotated[
        str | None, Option("Column of the rater, if each row is one rating.", metavar="NAME", rare=True)
    ] = None
    scale: Annotated[tuple[float, float] | None, Option("Lowest and highest rating, such as 1,5.", rare=True)] = None
    rows: Annotated[
        Literal["each", "mean"] | None, Option("One row per rating, or per caption with the mean rating.", rare=True)
    ] = None
    ties: Annotated[
        Literal["drop", "half", "match"] | None,
        Option("Pairs that people tied: left out, half right, or matched by as many ties of the metric.", rare=True),
    ] = None
    metrics: Annotated[
        tuple[str, ...],
        Option('Metrics, such as "bleu(n=4),cider(idf=refs)", or all.', flags=("-m",), metavar="METRICS"),
    ] = ()
    scores: Annotated[
        tuple[str | Path, ...],
        Option(
            "Run of a system (SYSTEM=RUN names it), or file of numbers by id or IMAGE#k, or by image and caption.",
            metavar="PATH",
        ),
    ] = ()
    scores_id_column: Annotated[
        str | None, Option("Column of the ids in the files of scores, if it differs.", metavar="NAME", rare=True)
    ] = None
    statistic: Annotated[
        str | None, Option("Headline: tau_b, tau_c, pearson, spearman, sample_tau, system_tau, …", metavar="NAME")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale is not None and not -math.inf < self.scale[0] < self.scale[1] < math.inf:
            low, high = self.scale
            raise InputError(f"scale={low:g},{high:g}: expected the lowest and the highest rating, such as 1,5")
