"""Options that several commands of ``captious study`` share."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer


class Variant(str, Enum):
    """Which tau."""

    b = "b"
    c = "c"


class RowsOf(str, Enum):
    """How ratings become rows."""

    each = "each"
    mean = "mean"


Source = Annotated[
    str, typer.Argument(help="A recipe (captious study recipes), a recipe in TOML, or a file with ratings.")
]
Data = Annotated[Path | None, typer.Option("--data", help="Folder with the data of a recipe.")]
References = Annotated[str | None, typer.Option("--references", "-r", help="References by image, for a file.")]
Rating = Annotated[str | None, typer.Option("--rating", help="Column of the rating or ratings.")]
Group = Annotated[str | None, typer.Option("--group", help="Column of the image: its captions are drawn together.")]
System = Annotated[str | None, typer.Option("--system", help="Column of the system that wrote the caption.")]
RaterColumn = Annotated[str | None, typer.Option("--rater", help="Column of the rater, one rating a row.")]
CaptionColumn = Annotated[str | None, typer.Option("--candidate-column", help="Column of the captions.")]
Scale = Annotated[str | None, typer.Option("--scale", help="Lowest and highest rating, such as 1,5.")]
ScoresFile = Annotated[
    list[str] | None, typer.Option("--scores", help="File of a metric computed elsewhere: id and columns of numbers.")
]
MetricsOption = Annotated[str | None, typer.Option("--metrics", "-m", help='Such as "bleu(n=4),rouge,cider".')]
Statistic = Annotated[
    str | None, typer.Option("--statistic", help="Headline: tau_b, tau_c, pearson, spearman, sample_tau, …")
]
TauOption = Annotated[Variant | None, typer.Option("--tau", help="Headline tau, if not the recipe's.")]
RowsOption = Annotated[RowsOf | None, typer.Option("--rows", help="Every rating a row, or the mean of a caption's.")]
Permutations = Annotated[int | None, typer.Option("--permutations", min=1, help="Of the permutation test.")]


def columns(
    rating: str | None, group: str | None, system: str | None, caption: str | None, rater: str | None = None
) -> dict[str, str | None]:
    """Named columns as fields of a `captious.study.recipes.Layout`."""
    return {"rating": rating, "image": group, "system": system, "rater": rater, "caption": caption}


def echo(summary: dict[str, Any]) -> None:
    """Print data as JSON."""
    from captious.render.tables import dumps
    from captious.study.summary import plain

    typer.echo(dumps(plain(summary)))
