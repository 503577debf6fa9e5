"""The input of a study as options. Nothing heavy is imported here: the command line reads it at every start."""

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
    own: Annotated[
        Literal["keep", "drop", "unreference", "humans"] | None,
        Option(
            "Captions that are among their image's references: keep or drop them, or take the reference out, for all "
            "captions of the image (unreference) or if people wrote the caption (humans).",
            rare=True,
        ),
    ] = None
    ties: Annotated[
        Literal["drop", "half", "match"] | None,
        Option("Pairs that people tied: left out, half right, or matched by as many ties of the metric.", rare=True),
    ] = None
    metrics: Annotated[
        tuple[str, ...],
        Option(
            'Metrics, such as "bleu(n=4),cider(idf=refs)", or all.',
            flags=("-m",),
            aliases=("--metric",),
            metavar="METRICS",
        ),
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


@dataclass(frozen=True)
class Estimation(Options):
    """How people's verdict on all captions is estimated from the ratings of some."""

    title = "Estimate"

    using: Annotated[
        tuple[str, ...] | None,
        Option(
            "Auxiliary metrics, named before you look at the ratings; by default all of the runs.", metavar="METRICS"
        ),
    ] = None
    precision: Annotated[float | None, Option("Print how many more ratings give each mean ± this, such as 0.1.")] = None
    difference: Annotated[float | None, Option("Print how many more ratings give each difference ± this.")] = None
    share: Annotated[float | None, Option("Estimate the share of captions rated this or more, such as 4.")] = None
    for_: Annotated[
        Literal["world", "items", "ratings"],
        Option("Intervals for images like these, exactly these captions, or what these raters would say of them."),
    ] = "world"
    form: Annotated[
        Literal["auto", "values", "ranks", "monotone"],
        Option("Form of the auxiliary metrics; auto takes ranks for very skewed ones.", rare=True),
    ] = "auto"
    slopes: Annotated[
        Literal["common", "own"], Option("Slopes common to all systems, or each system's own.", rare=True)
    ] = "common"
    anytime: Annotated[bool, Option("Intervals that are valid at every look, 55 % wider.", rare=True)] = False
    planned: Annotated[
        int | None, Option("Rated images at the end of the study, for planned looks.", min=2, rare=True)
    ] = None
    looked: Annotated[
        tuple[int, ...], Option("Rated images at the earlier looks, such as 60,120.", rare=True, metavar="NUMBERS")
    ] = ()
    probability: Annotated[
        str | None, Option("Column of a caption's chance to be rated.", metavar="NAME", rare=True)
    ] = None
    stratum: Annotated[str | None, Option("Column of a caption's stratum.", metavar="NAME", rare=True)] = None
