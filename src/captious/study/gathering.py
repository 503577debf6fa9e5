"""Records to ratings under a recipe: what is dropped, which references a caption keeps, what an item is called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.readers.images import with_images
from captious.study.layouts import UNNAMED, Record, locate, records
from captious.study.rated import Preferences, Ratings, matrix
from captious.study.recipe import Layout, Recipe


def open_recipe(recipe: Recipe, folder: str | Path, images: str | Path | None = None) -> Ratings | Preferences:
    """The data of a recipe from its folder."""
    folder = Path(folder)
    layout, references = locate(recipe, folder)
    found = records(layout, folder / layout.ratings, references, recipe.kind == "pairs")
    if images is None and layout.images and (folder / layout.images).is_dir():
        images = folder / layout.images
    return gather(recipe, found, recipe.name, images)


def open_ratings(
    source: str | Path,
    references: str | Path | None = None,
    *,
    columns: Layout | None = None,
    recipe: Recipe | None = None,
    images: str | Path | None = None,
) -> Ratings:
    """Any file with rated captions."""
    layout = columns or Layout(str(source))
    recipe = recipe or Recipe(str(source), (layout,))
    gathered = gather(recipe, records(layout, source, references), str(source), images)
    assert isinstance(gathered, Ratings)
    return gathered


def gather(
    recipe: Recipe, found: Sequence[Record], name: str, images: str | Path | None = None
) -> Ratings | Preferences:
    """Ratings or pairs from records."""
    if not found:
        raise InputError(f"{name}: holds no ratings")
    dropped: Counter[str] = Counter()
    kept = [kept for record in found if (kept := _own(recipe, record, dropped)) is not None]
    if not kept:
        raise InputError(f"{name}: no item is left; dropped: {_listed(dropped)}")
    if recipe.kind == "pairs":
        return _pairs(kept, name, dropped, images)
    kept = _merged(kept)
    ids = _ids(kept)
    raters = tuple(dict.fromkeys(rater for record in kept for rater in record.ratings))
    values = matrix([[record.ratings.get(rater) for rater in raters] for record in kept])
    rated = ~np.isnan(values).all(axis=1)
    if not rated.all():
        dropped["nobody rated it"] += int((~rated).sum())
        places = np.flatnonzero(rated).tolist()
        kept, ids, values = [kept[place] for place in places], [ids[place] for place in places], values[rated]
    if not kept:
        raise InputError(f"{name}: no item has a rating")
    captions = None
    if all(record.captions for record in kept):
        captions = _captions([(key, record.captions[0], record) for key, record in zip(ids, kept, strict=True)], name)
    return Ratings(
        tuple(ids),
        values,
        tuple(record.image for record in kept),
        tuple(str(record.system) for record in kept) if all(record.system is not None for record in kept) else None,
        with_images(captions, images) if captions and images is not None else captions,
        recipe.scale,
        name,
        tuple(rater or "rating 1" for rater in raters),
        dict(dropped),
        tuple(record.where for record in kept),
    )


def _own(recipe: Recipe, record: Record, dropped: Counter[str]) -> Record | None:
    candidates = {" ".join(text.split()) for text in record.captions}
    if recipe.own == "keep" or not candidates & {" ".join(text.split()) for text in record.references}:
        return record
    if recipe.own == "drop":
        dropped["the caption is one of the image's references"] += 1
        return None
    rest = tuple(text for text in record.references if " ".join(text.split()) not in candidates)
    return replace(record, references=rest)


def _merged(found: Sequence[Record]) -> list[Record]:
    """Single ratings of one caption, row by row, become one record; a list of ratings is one already."""
    merged: dict[tuple[str | None, str, str | None, tuple[str, ...]], dict[str, float | None]] = {}
    result: list[Record] = []
    for record in found:
        key = (record.id, record.image, record.system, record.captions)
        before = merged.get(key)
        if before is None or len(record.ratings) != 1:
            merged[key] = dict(record.ratings)
            result.append(replace(record, ratings=merged[key]))
            continue
        ((rater, value),) = record.ratings.items()
        if rater == UNNAMED:
            rater = f"rating {len(before) + 1}"
        if rater in before:
            raise InputError(f"{record.where}: rater {rater!r} rates the same caption a second time")
        before[rater] = value
    return result


def _ids(kept: Sequence[Record]) -> list[str]:
    """The rows' own ids where they tell items apart, else id or image with the system, else with a number."""
    plain = [record.id if record.id is not None else record.image for record in kept]
    if len({*plain}) == len(plain) and all(record.id is not None for record in kept):
        return plain
    with_system = [f"{key}/{record.system}" for key, record in zip(plain, kept, strict=True)]
    if all(record.system is not None for record in kept) and len({*with_system}) == len(with_system):
        return with_system
    seen: Counter[str] = Counter()
    numbered = []
    for key in plain:
        numbered.append(f"{key}#{seen[key]}")
        seen[key] += 1
    return numbered


def _pairs(kept: list[Record], name: str, dropped: Counter[str], images: str | Path | None) -> Preferences:
    dropped["people see no difference"] += sum(record.preferred is None for record in kept)
    kept = [record for record in kept if record.preferred is not None]
    keys = [record.id if record.id is not None else str(place) for place, record in enumerate(kept)]
    if len({*keys}) != len(keys):
        keys = [f"{key}#{place}" for place, key in enumerate(keys)]
    texts = [
        (f"{key}/{side}", record.captions[side], record)
        for key, record in zip(keys, kept, strict=True)
        for side in (0, 1)
    ]
    captions = _captions(texts, name)
    return Preferences(
        captions.ids,
        np.array([float(record.preferred or 0) for record in kept]),
        tuple(record.image for record in kept),
        tuple(record.category or "all" for record in kept),
        with_images(captions, images) if images is not None else captions,
        name,
        {reason: number for reason, number in dropped.items() if number},
    )


def _captions(texts: Sequence[tuple[str, str, Record]], name: str) -> CaptionSet:
    return CaptionSet.of(
        {key: " ".join(text.split()) for key, text, _ in texts},
        {key: [" ".join(text.split()) for text in record.references] for key, _, record in texts},
        {"image": [record.image for _, _, record in texts]},
        name,
    )


def _listed(dropped: Counter[str]) -> str:
    return ", ".join(f"{number} ({reason})" for reason, number in dropped.items())
