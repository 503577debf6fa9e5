"""Ratings and preferences of captions: the values, and how the records of files become values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple

import numpy as np

from captious._core.files import digest
from captious._core.types import Floats, Ints
from captious.captions import VIDEO, CaptionSet, Ragged
from captious.errors import InputError
from captious.io.formats import get_name
from captious.io.images import add_images
from captious.io.join import format_first
from captious.options import Missing
from captious.stats.rater_agreement import Measurement
from captious.study._benchmarks import READERS
from captious.study.rating_files import (
    SOURCE,
    UNNAMED,
    LeftOut,
    Record,
    find_layout,
    find_reference_file,
    read_number,
    read_records,
)
from captious.study.recipes import Layout, Recipe, as_recipe

# The answer of a rater who prefers neither caption.
TIE = 0.5
COPY = "a copy of an earlier row"
UNDECIDED = "people see no difference"
SECOND = "a second answer of the same rater, the first one counts"


@dataclass(frozen=True, eq=False, repr=False)
class Ratings:
    """Human ratings of captions, with the clusters that are resampled together.

    >>> ratings = Ratings.of({"a": [4, 3], "b": [1, None], "c": [2, 2]}, groups=["x", "x", "y"])
    >>> ratings.values.tolist()
    [[4.0, 3.0], [1.0, nan], [2.0, 2.0]]
    """

    ids: tuple[str, ...]
    values: Floats
    """Items × raters, NaN if a rater did not rate."""
    groups: tuple[str, ...]
    """The image of each item: captions of one image are drawn together."""
    systems: tuple[str, ...] | None = None
    captions: CaptionSet | None = None
    scale: tuple[float, float] | None = None
    name: str = "ratings"
    raters: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    """The number of items that were left out at reading, by reason."""
    origins: tuple[str, ...] = ()
    """The row of the file that each item came from, for messages."""
    warnings: tuple[str, ...] = ()
    """Warnings about rows that were read and cannot be used."""
    question: str = "rating"
    """The name of the ratings, such as *rating*."""
    aspects: Mapping[str, Floats] = field(default_factory=dict)
    """Further ratings of the same items by the same raters, by aspect."""
    measurement: Measurement | None = None
    """Level of measurement, if the recipe names it."""
    drawn: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """How each item was drawn: its ``probability``, ``stratum`` and ``batch``, if the rows have such columns."""
    unjudged: int = 0
    """Answers of named raters without a rating, such as "cannot judge"."""
    read: str = ""
    """The columns and files that were read, in a line; empty for ratings in memory."""
    aspect: str = ""
    """The question that was chosen in place of the usual one."""

    def __repr__(self) -> str:
        return f"<Ratings {PurePath(self.name).name}: {len(self.ids)} items, {self.values.shape[1]} raters>"

    def __post_init__(self) -> None:
        if len({*self.ids}) != len(self.ids):
            raise InputError(f"{self.name}: {len(self.ids) - len({*self.ids})} item ids occur more than once")
        if self.systems is not None and len(self.systems) != len(self.ids):
            raise InputError(f"{self.name}: {len(self.systems)} systems for {len(self.ids)} ids")
        if len(self.groups) != len(self.ids) or self.values.shape[:1] != (len(self.ids),):
            raise InputError(
                f"{self.name}: {len(self.ids)} ids, {len(self.values)} rows of ratings, {len(self.groups)} groups, "
                "expected as many of each"
            )
        if self.scale:
            low, high = self.scale
            outside = np.argwhere((self.values < low) | (self.values > high))
            if len(outside):
                item, rater = outside[0]
                where = self.origins[item] if self.origins else f"{self.name}: item {self.ids[item]!r}"
                raise InputError(
                    f"{where}: rating {self.values[item, rater]:g} is outside the scale {low:g} to {high:g}"
                    + (f" ({len(outside)} such ratings)" if len(outside) > 1 else "")
                    + ("; pass missing='skip' to leave out such ratings" if self.origins else "")
                )

    @classmethod
    def of(
        cls,
        ratings: Mapping[str, float | Sequence[float | None] | None],
        groups: Sequence[str] | None = None,
        systems: Sequence[str] | None = None,
        scale: tuple[float, float] | None = None,
        captions: CaptionSet | None = None,
        name: str = "ratings",
    ) -> Ratings:
        """Make ratings from one rating or one list of ratings by item id; without groups every item is its own."""
        lists = [
            [read_number(entry, f"{name}: item {str(key)!r}", "rating") for entry in _make_list(value)]
            for key, value in ratings.items()
        ]
        ids = tuple(str(key) for key in ratings)
        return cls(
            ids,
            pack_matrix(lists),
            tuple(map(str, groups)) if groups is not None else ids,
            tuple(map(str, systems)) if systems is not None else None,
            captions,
            scale,
            name,
        )

    def __len__(self) -> int:
        return len(self.ids)

    def asked(self, aspect: str) -> Ratings:
        """Put an aspect in place of the rating."""
        if aspect == self.question:
            return self
        if aspect not in self.aspects:
            known = (self.question, *self.aspects)
            raise InputError(f"{self.name}: no rating {aspect!r}, expected one of {', '.join(known)}")
        others = {name: values for name, values in self.aspects.items() if name != aspect}
        aspects = {self.question: self.values, **others}
        read = self.read.replace(f"ratings: `{self.question}`", f"ratings: `{aspect}`")
        return replace(self, values=self.aspects[aspect], question=aspect, aspects=aspects, aspect=aspect, read=read)

    def limit_references(self, most: int) -> Ratings:
        """Keep only the first references of each caption."""
        if self.captions is None:
            raise InputError(f"{self.name}: ratings without captions have no references; leave out most_references=...")
        references = Ragged.of([own[:most] for own in self.captions.references])
        return replace(self, captions=replace(self.captions, references=references))

    def take(self, indices: Ints) -> Ratings:
        """Select the items at these positions; the caption set stays whole."""
        return replace(
            self,
            ids=tuple(self.ids[index] for index in indices),
            values=self.values[indices],
            groups=tuple(self.groups[index] for index in indices),
            systems=None if self.systems is None else tuple(self.systems[index] for index in indices),
            origins=tuple(self.origins[index] for index in indices) if self.origins else (),
            aspects={name: values[indices] for name, values in self.aspects.items()},
            drawn={name: tuple(cells[index] for index in indices) for name, cells in self.drawn.items()},
        )

    @cached_property
    def mean(self) -> Floats:
        """The mean rating of each item; NaN if nobody rated it."""
        rated = ~np.isnan(self.values)
        number = rated.sum(axis=1)
        total = np.where(rated, self.values, 0.0).sum(axis=1)
        return np.where(number > 0, total / np.maximum(number, 1), np.nan)

    @cached_property
    def digest(self) -> str:
        """A digest of ids and ratings; the order of rows and raters does not change it."""
        rows = sorted(
            f"{key}\x1f{sorted(row[~np.isnan(row)].tolist())}" for key, row in zip(self.ids, self.values, strict=True)
        )
        return digest("\x1e".join(rows).encode("utf-8", "surrogatepass"))


class ScoringPlan(NamedTuple):
    """Captions as a protocol scores them: in several sets, and some under several lists of references."""

    corpora: tuple[CaptionSet, ...]
    """Sets that are scored apart, so that each has its own document frequencies: those of all its captions."""
    owners: Mapping[str, str]
    """The id of the judged caption that an item of the sets stands for; the mean of its items counts.

    The captions of a pair that people did not decide have none.
    """


@dataclass(frozen=True, eq=False, repr=False)
class Preferences:
    """Pairs of captions of one image, and which of the two people prefer."""

    ids: tuple[str, ...]
    """The ids of the captions, two to a pair: the first and the second of pair p are at 2p and 2p + 1."""
    preferred: Floats
    """0 or 1 for each pair, ½ where people prefer neither and the recipe keeps such pairs."""
    groups: tuple[str, ...]
    """The image of each pair."""
    categories: tuple[str, ...]
    captions: CaptionSet | None = None
    name: str = "pairs"
    dropped: Mapping[str, int] = field(default_factory=dict)
    answers: Ratings | None = None
    """Every rater's answer for each two captions of an image, whichever side they stood on: 0, 1, or ½ for a tie."""
    systems: tuple[tuple[str, str], ...] | None = None
    """The systems of the two captions of each of ``answers``; None if the rows do not name them."""
    pair_systems: tuple[tuple[str, str], ...] | None = None
    """The systems of the first and the second caption of each pair; None if the rows do not name them."""
    scoring: ScoringPlan | None = None
    """The captions that are scored instead of ``captions``, if the captions of a pair have references of their own."""
    warnings: tuple[str, ...] = ()
    """Warnings about rows that were read and cannot be used."""
    read: str = ""
    """The columns and files that were read, in a line; empty for pairs in memory."""

    def __repr__(self) -> str:
        return f"<Preferences {PurePath(self.name).name}: {len(self.preferred)} pairs>"

    def take(self, indices: Ints) -> Preferences:
        """Select the pairs of the captions at these positions, two captions per pair."""
        pairs = indices[::2] // 2
        return replace(
            self,
            ids=tuple(self.ids[index] for index in indices),
            preferred=self.preferred[pairs],
            groups=tuple(self.groups[pair] for pair in pairs),
            categories=tuple(self.categories[pair] for pair in pairs),
            pair_systems=None if self.pair_systems is None else tuple(self.pair_systems[pair] for pair in pairs),
        )


def _make_list(value: Any) -> Sequence[Any]:
    return list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]


def pack_matrix(lists: Sequence[Sequence[float | None]]) -> Floats:
    """Pack lists of ratings of any lengths into a matrix, NaN if there is none."""
    values = np.full((len(lists), max(map(len, lists), default=0)), np.nan)
    for row, ratings in enumerate(lists):
        values[row, : len(ratings)] = [np.nan if rating is None else rating for rating in ratings]
    return values


def count_unused_answers(judged: Ratings | Preferences) -> dict[str, int]:
    """Return what was left out of the answers, by reason. Pairs that people tied are answers too."""
    return {reason: number for reason, number in judged.dropped.items() if reason != UNDECIDED}


def has_named_raters(ratings: Ratings) -> bool:
    """Return whether the columns of ratings are persons, and not just the first, second, … rating of a caption."""
    names = ratings.raters
    numbered = names == tuple(str(number + 1) for number in range(len(names)))
    return not numbered and not all(name.startswith("rating ") for name in names)


def list_questions(ratings: Ratings) -> dict[str, Floats]:
    """List the rating and the aspects; an aspect that is the rating itself gives it its name."""
    same = [name for name, values in ratings.aspects.items() if np.array_equal(values, ratings.values, equal_nan=True)]
    aspects = {name: values for name, values in ratings.aspects.items() if name not in same}
    return {same[0] if same else ratings.question: ratings.values, **aspects}


def open_recipe(
    recipe: Recipe | str, folder: str | Path, images: str | Path | None = None, missing: Missing = "error"
) -> Ratings | Preferences:
    """Open the data of a recipe, or of the one with this name, from its folder."""
    recipe, folder = as_recipe(recipe), Path(folder)
    left_out = LeftOut()
    layout, references = find_layout(recipe, folder)
    path = folder / layout.ratings
    reader = READERS.get(layout.format)
    if reader is None:
        read = read_records(layout, path, references, recipe.kind, missing, left_out)
        if layout.parts:
            read = _add_parts(read, layout, folder, recipe, missing, left_out)
    else:
        read = list(reader(path, left_out.numbers))
    if images is None and layout.images and (folder / layout.images).is_dir():
        images = folder / layout.images
    judged = gather(recipe.of_layout(layout), read, recipe.name, images, layout.question, missing, left_out)
    return replace(judged, read=left_out.read)


def _add_parts(
    records: Sequence[Record], layout: Layout, folder: Path, recipe: Recipe, missing: Missing, left_out: LeftOut
) -> list[Record]:
    """Add the records of the further files; ids, which start anew in each file, get its name in front."""
    parts = {layout.ratings: records}
    for part in layout.parts:
        path, references = folder / part.ratings, find_reference_file(part, folder)
        parts[part.ratings] = read_records(layout, path, references, recipe.kind, missing, left_out)
    return [
        replace(record, id=None if record.id is None else f"{name.split('.')[0]}:{record.id}")
        for name, read in parts.items()
        for record in read
    ]


def open_ratings(
    source: Any,
    references: Any = None,
    *,
    columns: Layout | None = None,
    recipe: Recipe | None = None,
    images: Any = None,
    missing: Missing = "error",
) -> Ratings:
    """Open any file with rated captions, or their rows in memory."""
    judgments = open_judgments(source, references, columns=columns, recipe=recipe, images=images, missing=missing)
    if isinstance(judgments, Preferences):
        raise InputError(f"{judgments.name}: contains pairs with a preferred caption, expected ratings")
    return judgments


def open_judgments(
    source: Any,
    references: Any = None,
    *,
    columns: Layout | None = None,
    recipe: Recipe | None = None,
    images: Any = None,
    missing: Missing = "error",
) -> Ratings | Preferences:
    """Open ratings or, if rows name the preferred one of two captions, preferences: a file, or its rows in memory.

    One row that cannot be read stops the reading, or with ``missing="skip"`` it is left out and counted.
    """
    name = get_name(source, "ratings")
    layout = columns or Layout(name)
    kind: Literal["pairs"] | None = "pairs" if recipe is not None and recipe.kind == "pairs" else None
    left_out = LeftOut()
    read = read_records(layout, source, references, kind, missing, left_out)
    judged = gather(recipe or Recipe(name, (layout,)), read, name, images, layout.question, missing, left_out)
    return replace(judged, read=left_out.read)


def as_ratings(
    ratings: Any,
    recipe: Recipe | None = None,
    references: Any = None,
    images: Any = None,
    missing: Missing = "error",
) -> Ratings | Preferences:
    """Convert any source to ratings: a path, rows or a table in memory, or ratings by id."""
    if isinstance(ratings, (str, Path, list)) or hasattr(ratings, "columns"):
        return open_judgments(ratings, references, recipe=recipe, images=images, missing=missing)
    if references is not None or images is not None:
        raise InputError("references=... and images=... are for ratings in a file, a frame or records, found others")
    if isinstance(ratings, (Ratings, Preferences)):
        return ratings
    if isinstance(ratings, Mapping) or hasattr(ratings, "to_dict"):  # a dictionary or a pandas series
        return Ratings.of(dict(ratings.items()))
    raise InputError(
        f"ratings are of type {type(ratings).__name__}, expected Ratings, a path, a table, or "
        "{id: rating or list of ratings}"
    )


def gather(
    recipe: Recipe,
    records: Sequence[Record],
    name: str,
    images: Any = None,
    question: str = "rating",
    missing: Missing = "error",
    left_out: LeftOut | None = None,
) -> Ratings | Preferences:
    """Gather ratings or preferences from records; ``question`` names the ratings."""
    if not records:
        raise InputError(f"{name}: contains no ratings")
    left_out = LeftOut() if left_out is None else left_out
    dropped = left_out.numbers
    used = _apply_rules(recipe, _drop_copies(records, dropped), dropped)
    if not used:
        reasons = ", ".join(f"{number} ({reason})" for reason, number in dropped.items())
        raise InputError(f"{name}: no item is left; dropped: {reasons}")
    if len(used[0].captions) == 2:
        return _gather_preferences(used, recipe, name, images, missing, left_out)
    if recipe.scale and missing == "skip":
        used = _drop_outside(used, recipe.scale, dropped)
    merged, second = _merge_ratings(used, missing)
    dropped[SECOND] += len(second)
    raters = tuple(dict.fromkeys(rater for record in merged for rater in record.ratings))
    items = [
        (key, record)
        for key, record in zip(_make_ids(merged), merged, strict=True)
        if any(rating is not None for rating in record.ratings.values())
    ]
    if not items:
        raise InputError(f"{name}: no item has a rating")
    if unrated := len(merged) - len(items):
        dropped["nobody rated it"] = unrated
    ids, rated = zip(*items, strict=True)
    captions = None
    if all(record.captions for record in rated):
        captions = _build_caption_set(
            [(key, record.captions[0], record) for key, record in items], name, images, recipe
        )
    return Ratings(
        ids,
        pack_matrix([[record.ratings.get(rater) for rater in raters] for record in rated]),
        tuple(record.image for record in rated),
        tuple(str(record.system) for record in rated) if all(record.system is not None for record in rated) else None,
        captions,
        recipe.scale,
        name,
        tuple(rater or "rating 1" for rater in raters),
        {reason: number for reason, number in dropped.items() if number},
        tuple(record.where for record in rated),
        (*left_out.warnings, *_warn_missing_system(rated), *_warn_several_languages(rated)),
        question,
        {
            aspect: pack_matrix([[record.aspects[aspect].get(rater) for rater in raters] for record in rated])
            for aspect in rated[0].aspects
        },
        recipe.measurement,
        _collect_drawing(rated),
        sum(rating is None for record in merged for rater, rating in record.ratings.items() if rater != UNNAMED),
    )


def _collect_drawing(records: Sequence[Record]) -> dict[str, tuple[Any, ...]]:
    """Return how each item was drawn, by column; an item whose rows do not have a column has None there."""
    names = dict.fromkeys(name for record in records for name in record.drawn)
    return {name: tuple(record.drawn.get(name) for record in records) for name in names}


def _apply_rules(recipe: Recipe, records: Sequence[Record], dropped: Counter[str]) -> list[Record]:
    """Apply the recipe's rules for equal captions and for candidates that are among the references."""
    if recipe.same == "drop":
        different = [record for record in records if len({clean_text(text).lower() for text in record.captions}) > 1]
        if equal := len(records) - len(different):
            dropped["the captions are equal except for case"] = equal
        records = different
    if recipe.kind == "pairs" and recipe.humans is not None:
        machines = [record for record in records if recipe.humans not in (record.systems or ())]
        if human := len(records) - len(machines):
            dropped[f"a caption is by {recipe.humans}"] = human
        records = machines
    if recipe.own == "keep":
        return list(records)
    simplify = clean_text if recipe.equality == "spaces" else _keep_letters
    if recipe.own in ("unreference", "humans"):
        candidates: dict[str, set[str]] = {record.image: set() for record in records}
        for record in records:
            if recipe.own == "unreference" or record.system == recipe.humans:
                candidates[record.image].update(map(simplify, record.captions))
        return [
            replace(
                record,
                references=tuple(text for text in record.references if simplify(text) not in candidates[record.image]),
            )
            for record in records
        ]
    others = [
        record for record in records if not {*map(simplify, record.captions)} & {*map(simplify, record.references)}
    ]
    if lost := len(records) - len(others):
        dropped["the caption is one of the image's references"] = lost
    return others


def _warn_missing_system(records: Sequence[Record]) -> tuple[str, ...]:
    lacking = [record.where for record in records if record.system is None]
    if not lacking or len(lacking) == len(records):
        return ()
    return (f"{lacking[0]}: no system, as {len(lacking):,} of {len(records):,} captions: systems are not compared",)


def _warn_several_languages(records: Sequence[Record]) -> list[str]:
    codes = sorted({record.language for record in records} - {""})
    if len(codes) < 2:
        return []
    return [
        f"the column 'language' has {len(codes)} values ({format_first(codes)}), and values in two languages do "
        "not compare: pass language=... to read the captions of one"
    ]


def _drop_copies(records: Sequence[Record], dropped: Counter[str]) -> list[Record]:
    """Drop rows that repeat an earlier one.

    A row is a copy if it says the same of the same caption for the same raters. Rows with one rating and no rater are
    never copies: they are the ratings of several people.
    """
    seen: set[tuple[Any, ...]] = set()
    kept = []
    for record in records:
        if record.rater is None and not {*record.ratings} - {UNNAMED}:
            kept.append(record)
            continue
        aspects = tuple((name, *ratings.items()) for name, ratings in record.aspects.items())
        which = (record.id, record.image, record.captions, record.system, record.systems, record.category)
        said = (record.rater, record.preferred, *record.ratings.items(), aspects)
        if (which, said) in seen:
            dropped[COPY] += 1
            continue
        seen.add((which, said))
        kept.append(record)
    return kept


def _drop_outside(records: Sequence[Record], scale: tuple[float, float], dropped: Counter[str]) -> list[Record]:
    """Drop single ratings that the scale does not have."""
    low, high = scale
    reason = f"a rating outside the scale {low:g} to {high:g}"
    kept = []
    for record in records:
        inside = {
            rater: None if rating is not None and not low <= rating <= high else rating
            for rater, rating in record.ratings.items()
        }
        dropped[reason] += sum(inside[rater] != rating for rater, rating in record.ratings.items())
        kept.append(replace(record, ratings=inside))
    return kept


def _merge_ratings(records: Sequence[Record], missing: Missing) -> tuple[list[Record], set[str]]:
    """Merge single ratings of one caption, row by row, into one record; a list of ratings is one already.

    Second answers of a rater are an error, or with ``missing="skip"`` left out: the second set says where they were.
    """
    merged: dict[tuple[Any, ...], dict[str, float | None]] = {}
    aspects: dict[tuple[Any, ...], dict[str, dict[str, float | None]]] = {}
    result: list[Record] = []
    second: set[str] = set()
    for record in records:
        key = (record.id, record.image, record.system, record.systems, record.captions)
        before = merged.get(key)
        if before is None or len(record.ratings) != 1:
            merged[key] = dict(record.ratings)
            aspects[key] = {name: dict(ratings) for name, ratings in record.aspects.items()}
            result.append(replace(record, ratings=merged[key], aspects=aspects[key]))
            continue
        ((rater, value),) = record.ratings.items()
        own = {name: next(iter(ratings.values())) for name, ratings in record.aspects.items()}
        if rater == UNNAMED:
            rater = f"rating {len(before) + 1}"
        if rater in before:
            if missing == "skip":
                second.add(record.where)
                continue
            judged = "judges the same pair" if len(record.captions) == 2 else "rates the same caption"
            raise InputError(
                f"{record.where}: rater {rater!r} {judged} a second time; pass missing='skip' to keep the first answer"
            )
        before[rater] = value
        for name, rating in own.items():
            aspects[key][name][rater] = rating
    return result, second


def _make_ids(records: Sequence[Record]) -> list[str]:
    """Return the rows' own ids if they distinguish items, else id or image with the system, else with a number."""
    plain = [record.id if record.id is not None else record.image for record in records]
    if len({*plain}) == len(plain) and all(record.id is not None for record in records):
        return plain
    with_system = [f"{key}/{record.system}" for key, record in zip(plain, records, strict=True)]
    if all(record.system is not None for record in records) and len({*with_system}) == len(with_system):
        return with_system
    count: Counter[str] = Counter()
    numbered = []
    for key in plain:
        numbered.append(f"{key}#{count[key]}")
        count[key] += 1
    return numbered


def _gather_preferences(
    records: list[Record],
    recipe: Recipe,
    name: str,
    images: str | Path | None,
    missing: Missing,
    left_out: LeftOut,
) -> Preferences:
    dropped = left_out.numbers
    answers, answered, second = _merge_answers(records, name, missing)
    dropped[SECOND] += len(second)
    records = [record for record in records if record.where not in second]
    decided = records
    if recipe.people_ties == "drop":
        dropped[UNDECIDED] += sum(record.preferred is None for record in records)
        decided = [record for record in records if record.preferred is not None]
    keys = [record.id if record.id is not None else str(index) for index, record in enumerate(decided)]
    if len({*keys}) != len(keys):
        keys = [f"{key}#{index}" for index, key in enumerate(keys)]
    texts = [
        (f"{key}/{side}", record.captions[side], record)
        for key, record in zip(keys, decided, strict=True)
        for side in (0, 1)
    ]
    captions = _build_caption_set(texts, name, images, recipe)
    systems = [record.systems for record in decided if record.systems is not None]
    return Preferences(
        captions.ids,
        np.array([TIE if record.preferred is None else record.preferred for record in decided]),
        tuple(record.image for record in decided),
        tuple(record.category or "all" for record in decided),
        captions,
        name,
        {reason: number for reason, number in dropped.items() if number},
        answers,
        answered,
        tuple(systems) if len(systems) == len(decided) else None,
        _plan_scoring(captions.ids, decided, records) if any(record.compared_with for record in decided) else None,
        tuple(left_out.warnings),
    )


def _plan_scoring(ids: Sequence[str], decided: Sequence[Record], records: Sequence[Record]) -> ScoringPlan:
    """Plan what is scored for pairs whose captions have references of their own.

    Pairs that people did not decide are part of the corpora, as in the original, and have no value.
    """
    corpora: dict[tuple[str, int], list[tuple[str, str, tuple[str, ...]]]] = {}
    owners: dict[str, str] = {}
    judged = {id(record): ids[2 * place : 2 * place + 2] for place, record in enumerate(decided)}
    for record in records:
        for side in (0, 1):
            owner = judged[id(record)][side] if id(record) in judged else None
            lists = record.compared_with[side] if record.compared_with else (record.references,)
            for draw, references in enumerate(lists):
                key = f"{owner or f'{record.where}/{side}'}~{draw}"
                if owner is not None:
                    owners[key] = owner
                corpora.setdefault((record.corpus, side), []).append((key, record.captions[side], references))
    sets = [
        CaptionSet.of(
            {key: clean_text(text) for key, text, _ in rows}, {key: [*map(clean_text, texts)] for key, _, texts in rows}
        )
        for rows in corpora.values()
    ]
    return ScoringPlan(tuple(sets), owners)


def _merge_answers(
    records: Sequence[Record], name: str, missing: Missing
) -> tuple[Ratings, tuple[tuple[str, str], ...] | None, set[str]]:
    """Merge answers for the same two captions of an image into one item; if their sides are swapped, so is the answer.

    Then the systems of the two captions, and where second answers were left out.
    """
    judged: list[Record] = []
    sides: set[tuple[str, tuple[str, ...]]] = set()
    for record in records:
        answer = TIE if record.preferred is None else record.preferred
        given = dict(record.ratings) or {UNNAMED if record.rater is None else record.rater: answer}
        captions, systems = tuple(map(clean_text, record.captions)), record.systems
        if (record.image, captions) not in sides and (record.image, captions[::-1]) in sides:
            given = {rater: None if one is None else 1 - one for rater, one in given.items()}
            captions = captions[::-1]
            systems = systems and (systems[1], systems[0])
        sides.add((record.image, captions))
        one = Record(
            record.where, record.image, captions, given, system=record.category, systems=systems, drawn=record.drawn
        )
        judged.append(one)
    merged, second = _merge_ratings(judged, missing)
    raters = tuple(dict.fromkeys(rater for record in merged for rater in record.ratings))
    answers = Ratings(
        tuple(_make_ids(merged)),
        pack_matrix([[record.ratings.get(rater) for rater in raters] for record in merged]),
        tuple(record.image for record in merged),
        name=name,
        raters=tuple(rater or "rating 1" for rater in raters),
        drawn=_collect_drawing(merged),
    )
    both = [record.systems for record in merged if record.systems is not None]
    return answers, tuple(both) if len(both) == len(merged) else None, second


def _keep_letters(text: str) -> str:
    """Return the letters and digits of a text in lower case.

    >>> _keep_letters("A dog 's 2 bones .")
    'adogs2bones'
    """
    return "".join(letter for letter in text.lower() if letter.isalnum())


def _keep_ascii_letters(text: str) -> str:
    """Return the letters a to z of a text in lower case, with a space for anything else between them.

    >>> _keep_ascii_letters("A dog's 2 bones.")
    'a dog s bones'
    """
    return " ".join(re.findall("[a-z]+", text.lower()))


def clean_text(text: str) -> str:
    """Replace runs of white space by single spaces."""
    return " ".join(text.split())


def _build_caption_set(texts: Sequence[tuple[str, str, Record]], name: str, images: Any, recipe: Recipe) -> CaptionSet:
    columns: dict[str, list[Any]] = {"image": [record.image for _, _, record in texts]}
    if any(record.source for _, _, record in texts):
        columns[SOURCE] = [clean_text(record.source) for _, _, record in texts]
    if any(record.video for _, _, record in texts):
        columns[VIDEO] = [record.video for _, _, record in texts]
    clean = clean_text if recipe.text == "as written" else _keep_ascii_letters
    captions = CaptionSet.of(
        {key: clean(text) for key, text, _ in texts},
        {key: [*map(clean, record.references)] for key, _, record in texts},
        columns,
        name,
    )
    return captions if images is None else add_images(captions, images)
