"""Loading what a study is made from: ratings by a recipe or from a file, and metrics computed here or elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from captious._core.frame_rules import FrameRule
from captious.captions import VIDEO
from captious.errors import InputError
from captious.io.join import set_language
from captious.io.videos import match_videos
from captious.metrics.registry import DEFAULT
from captious.options import Missing, Reading
from captious.runs.folder import has_runs
from captious.study.judgments import Preferences, Ratings, open_judgments, open_recipe
from captious.study.rating_files import find_layout
from captious.study.recipes import Layout, Recipe, find_recipe
from captious.study.scores import MetricScores, collect_reports, match_run_scores, measure, read_scores
from captious.study.study_options import StudyInput


def load_ratings(
    study_input: StudyInput,
    reading: Reading,
    aspects: Sequence[str] = (),
    *,
    probability: str | None = None,
    stratum: str | None = None,
) -> tuple[Ratings | Preferences, Recipe]:
    """Load the ratings, and the protocol that they follow.

    ``aspects`` are columns of further ratings in a file; ``probability`` and ``stratum`` are columns that say how a
    caption was drawn, if they have other names.
    """
    source, data = study_input.source, study_input.data
    recipe = find_recipe(_find_in_folder(source, data))
    if recipe is not None and data is None and (source.endswith(".toml") or Path(source).is_dir()):
        data = Path(source) if Path(source).is_dir() else Path(source).parent
    columns = {
        "id": reading.id_column,
        "rating": study_input.rating or None,
        "image": study_input.group,
        "system": study_input.system,
        "rater": study_input.rater,
        "caption": reading.candidate_column,
    }
    changes: dict[str, Any] = {
        "rows": study_input.rows,
        "scale": study_input.scale,
        "people_ties": study_input.ties,
        "own": study_input.own,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    if recipe is None:
        if data is not None:
            raise InputError(f"{source}: a file of ratings and no recipe; leave out data=...")
        drawing = {"probability": probability, "stratum": stratum}
        layout = Layout(source, aspects=tuple(aspects), language=reading.language, **drawing, **columns)  # type: ignore[arg-type]
        recipe = Recipe(source, (layout,), title=f"ratings of {source}", **changes)
        judgments = open_judgments(
            source, reading.references, columns=layout, recipe=recipe, images=reading.images, missing=reading.missing
        )
        if isinstance(judgments, Preferences):
            recipe = replace(recipe, kind="pairs", title=f"pairs of {source}")
        _refuse_ties(study_input, judgments)
        return _add_videos(_set_language(judgments, reading.language), reading), recipe
    columns |= {"references": reading.references, "aspects": tuple(aspects) or None}
    if len(study_input.rating) == 1 and any(layout.aspects for layout in recipe.layouts):
        del columns["rating"]  # which names one of the recipe's own ratings
    if named := [name for name, value in columns.items() if value is not None]:
        option = {"id": "id_column", "image": "group", "caption": "candidate_column"}.get(named[0], named[0])
        raise InputError(f"{source}: a recipe names its own files and columns; leave out {option}=...")
    if data is None:
        raise InputError(f"{source}: name the folder of its data with data=...; get it from: {recipe.source}")
    if probability or stratum:
        layouts = tuple(replace(one, probability=probability, stratum=stratum) for one in recipe.layouts)
        recipe = replace(recipe, layouts=layouts)
    if reading.language:
        layouts = tuple(replace(layout, language=reading.language) for layout in recipe.layouts)
        recipe = replace(recipe, layouts=layouts)
    recipe = replace(recipe.of_layout(find_layout(recipe, Path(data))[0]), **changes)
    judged = open_recipe(recipe, data, reading.images, reading.missing)
    if isinstance(judged, Ratings) and "rating" not in columns:
        judged = judged.asked(study_input.rating[0])
    _refuse_ties(study_input, judged)
    return _add_videos(_set_language(judged, reading.language), reading), recipe


def _add_videos(judged: Ratings | Preferences, reading: Reading) -> Ratings | Preferences:
    """Return the judgments with the videos of their captions, and the rule for frames."""
    captions = judged.captions
    if captions is None or (reading.videos is None and reading.frames is None):
        return judged
    if reading.videos is not None:
        # The column of the video, or what captions are grouped by.
        names = captions.columns.get(VIDEO) or captions.columns["image"]
        column = match_videos(reading.videos, [str(name) for name in names], names)
        captions = replace(captions, columns={**captions.columns, VIDEO: column})
    if reading.frames is not None:
        captions = replace(captions, frames=FrameRule.parse(reading.frames))
    return replace(judged, captions=captions)


def _set_language(judged: Ratings | Preferences, language: str | None) -> Ratings | Preferences:
    """Return the judgments with the language of their captions, if one is named."""
    if language is None or judged.captions is None:
        return judged
    captions = set_language(judged.captions, language)
    if isinstance(judged, Ratings):
        return replace(judged, captions=captions)
    plan = judged.scoring
    scoring = plan and plan._replace(corpora=tuple(set_language(one, language) for one in plan.corpora))
    return replace(judged, captions=captions, scoring=scoring)


def _refuse_ties(study_input: StudyInput, judged: Ratings | Preferences) -> None:
    if study_input.ties is not None and isinstance(judged, Ratings):
        raise InputError(f"ties={study_input.ties}: {judged.name} has ratings, expected pairs, some of them ties")


def _find_in_folder(source: str, data: str | Path | None) -> str:
    """Find a TOML recipe that is stored with its data and named without its folder."""
    beside = source.endswith(".toml") and data is not None and not Path(source).exists()
    return str(Path(data or "") / source) if beside and (Path(data or "") / source).is_file() else source


def load_scores(
    ratings: Ratings | Preferences,
    recipe: Recipe,
    study_input: StudyInput,
    missing: Missing,
    progress: Callable[[str], None] | None = None,
) -> list[MetricScores]:
    """Load metrics computed here and those computed elsewhere; the default ones if none is named."""
    runs, files = [], []
    for path, times in Counter(map(str, study_input.scores)).items():
        if times > 1:
            raise InputError(f"scores={path}: given {times} times, expected each file or run once")
    for source in study_input.scores:
        name, _, path = ("", "", str(source)) if has_runs(source) else str(source).partition("=")
        if has_runs(path):
            runs.append((name, path))
        else:
            files.append(source)
    elsewhere = match_run_scores(collect_reports(runs), ratings, missing) if runs else []
    elsewhere += [
        score for path in files for score in read_scores(path, ratings, recipe, missing, study_input.scores_id_column)
    ]
    if study_input.scores_id_column is not None and not study_input.scores:
        raise InputError("scores_id_column=... names a column of a file of values; pass scores=...")
    if elsewhere and not study_input.metrics:
        return elsewhere
    return [*measure(ratings, study_input.metrics or DEFAULT, progress), *elsewhere]
