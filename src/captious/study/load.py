"""What a command line names: a recipe with its folder, a recipe in TOML, or a file with ratings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.metrics.registry import DEFAULT
from captious.study.ratings import Preferences, Ratings, open_ratings, open_recipe
from captious.study.recipes import Layout, Recipe
from captious.study.run import measure, recipe_named
from captious.study.scores import Missing, Scores, read_scores


def open_source(
    source: str,
    data: Path | None = None,
    references: str | None = None,
    images: Path | None = None,
    columns: dict[str, str | None] | None = None,
    **changes: Any,
) -> tuple[Ratings | Preferences, Recipe]:
    """The ratings and the protocol. ``columns`` are fields of `Layout`, ``changes`` those of `Recipe`."""
    recipe = recipe_named(source)
    named: dict[str, Any] = {name: value for name, value in (columns or {}).items() if value is not None}
    layout = Layout(source, **named)
    made = recipe or Recipe(source, (layout,), title=f"ratings of {source}")
    made = replace(made, **{name: value for name, value in changes.items() if value is not None})
    if recipe is None:
        return open_ratings(source, references, columns=layout, recipe=made, images=images), made
    if data is None:
        raise InputError(f"{source}: name the folder of its data with --data; get it from: {recipe.source}")
    return open_recipe(made, data, images), made


def scores_for(
    ratings: Ratings | Preferences,
    metrics: str | None,
    files: Sequence[str] | None,
    missing: Missing,
    progress: Callable[[str], None],
) -> list[Scores]:
    """Metrics computed here and those computed elsewhere; the default ones where none is named."""
    found = [score for path in files or () for score in read_scores(path, ratings.ids, ratings.name, missing)]
    if metrics is None and found:
        return found
    return [*measure(ratings, metrics or DEFAULT, progress), *found]


def numbers(text: str, option: str, example: str) -> list[float]:
    """Numbers of an option, such as ``1,5``."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {text}: expected numbers such as {example}") from None


def limits(text: str | None) -> tuple[float, float] | None:
    """The two ends of a scale.

    >>> limits("1,5")
    (1.0, 5.0)
    """
    if text is None:
        return None
    found = numbers(text, "--scale", "1,5")
    if len(found) != 2 or found[0] >= found[1]:
        raise InputError(f"--scale {text}: expected the lowest and the highest rating, such as 1,5")
    return found[0], found[1]
