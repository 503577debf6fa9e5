"""Objects in the images: by image id, from a column of the items or from a table of annotations.

`build_table` makes the table once from COCO's files (``captious make objects``); `ObjectTable` reads it back. An
image's objects come from two sources, the instances that were marked in it and the objects that its human captions
name. They are kept apart, because CHAIR's numbers depend on which of them count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from captious._core.files import digest, read_regular, write_atomically
from captious.captions import CaptionSet
from captious.errors import InputError, format_one_line
from captious.io.coco import read_marked_objects
from captious.io.columns import OBJECT_COLUMN, parse_image_number
from captious.io.formats import read_rows
from captious.io.images import get_image_name
from captious.io.join import gather_references
from captious.io.printed import parse_text_list
from captious.options import LemmaRule
from captious.syntax.objects import ObjectFinder, Vocabulary, open_vocabulary

MAKER = "captious make objects instances_val2014.json captions_val2014.json --out objects.parquet"
INSTANCES, CAPTIONS = "instances", "captions"
KEY, FORMAT = b"captious-objects", 1
Source = Literal["both", "instances", "captions"]
Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class ObjectTable:
    """The objects of images, by id and source: ``instances``, ``captions_singularize``, …, or only ``objects``."""

    name: str
    rows: Mapping[str, int]
    """The row of each image."""
    sources: Mapping[str, Sequence[Sequence[str]]]
    """The objects of every row, by source."""
    vocabulary: str = ""
    """The vocabulary that the captions were read with; nothing if the file does not say it."""
    fingerprint: str = ""

    def __str__(self) -> str:
        return f"{self.name}#{self.fingerprint}"

    def find(self, id: str, image: Any = None) -> int | None:
        """Find the row of an item by its id or image name, as written or by the COCO number in it; None if there is
        none.
        """
        alone = id.rpartition("#")[0]  # `CaptionSet.split_candidates` appends #number
        names = [id, *([alone] if alone else []), *([image] if isinstance(image, str) else [])]
        keys = (key for name in names for key in (name, parse_image_number(name)))
        return next((self.rows[key] for key in keys if key in self.rows), None)

    def columns(self, truth: Source, lemmas: LemmaRule) -> list[str]:
        """Select the sources that count; the error for a missing one says how to make a table that has it."""
        if set(self.sources) == {OBJECT_COLUMN}:
            if truth != "both":
                raise InputError(
                    f"{self.name}: has one list of objects for each image, not {truth} apart; leave out truth"
                )
            return [OBJECT_COLUMN]
        wanted = [
            *([INSTANCES] if truth != CAPTIONS else []),
            *([get_caption_source(lemmas)] if truth != INSTANCES else []),
        ]
        for source in wanted:
            if source not in self.sources:
                what = "marked instances" if source == INSTANCES else f"objects of captions by {lemmas}"
                raise InputError(
                    f"{self.name}: has no {what}, only {', '.join(self.sources)}; make it again with: {MAKER}, or "
                    f"write truth={INSTANCES if source != INSTANCES else CAPTIONS}"
                )
        return wanted

    def objects(self, row: int, columns: Iterable[str]) -> frozenset[str]:
        """Return the objects of an image in some of the sources."""
        return frozenset().union(*(self.sources[column][row] for column in columns))

    def save(self, path: str | Path) -> None:
        """Write the table as Parquet, atomically."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        lists = {name: pa.array(list(column), pa.list_(pa.string())) for name, column in self.sources.items()}
        table = pa.table({"id": pa.array(list(self.rows), pa.string()), **lists})
        facts = json.dumps({"format": FORMAT, "vocabulary": self.vocabulary})
        with write_atomically(path) as draft:
            table = table.replace_schema_metadata({KEY: facts.encode()})
            pq.write_table(table, draft, compression="zstd", write_page_checksum=True)


def get_caption_source(lemmas: LemmaRule) -> str:
    """Return the name of the source with the objects that human captions name, by these lemmas."""
    return f"{CAPTIONS}_{lemmas}"


def open_table(path: str) -> ObjectTable:
    """Read a table that ``captious make objects`` wrote, or rows of an id or image and its ``objects``."""
    try:
        content = read_regular(path)
    except OSError as error:
        raise InputError(f"objects {path}: cannot be read ({error.strerror}); make the table with: {MAKER}") from None
    return _read_table(path, digest(content), content[:4] == b"PAR1")


@lru_cache(maxsize=2)
def _read_table(path: str, fingerprint: str, parquet: bool) -> ObjectTable:
    name = Path(path).name
    if parquet and (found := _read_own_parquet(path)) is not None:
        columns, facts = found
        rows = {key: row for row, key in enumerate(columns.pop("id"))}
        return ObjectTable(name, rows, columns, str(facts.get("vocabulary", "")), fingerprint)
    lists: dict[str, list[str]] = {}
    for row in read_rows(path):
        if OBJECT_COLUMN not in row.fields:
            raise InputError(
                f"{row.where}: found columns {', '.join(map(str, row.fields)) or 'none'}, expected an image and its "
                f"{OBJECT_COLUMN}, or a table made with: {MAKER}"
            )
        key = parse_image_number(get_image_name(row))
        objects = parse_text_list(row.fields[OBJECT_COLUMN], row.where, OBJECT_COLUMN)
        if objects is None:
            continue
        if lists.setdefault(key, objects) != objects:
            raise InputError(f"{row.where}: image {key!r} had other objects in an earlier row, expected one list each")
    return ObjectTable(
        name, {key: row for row, key in enumerate(lists)}, {OBJECT_COLUMN: list(lists.values())}, "", fingerprint
    )


def _read_own_parquet(path: str) -> tuple[dict[str, list[Any]], dict[str, Any]] | None:
    """Read the columns and the facts of a file that captious made; None for any other Parquet file."""
    import pyarrow as pa

    from captious.io.arrow import open_parquet

    try:
        with Path(path).open("rb") as file:
            table = open_parquet(file).read()
        if KEY not in (table.schema.metadata or {}):
            return None
        columns, facts = table.to_pydict(), dict(json.loads(table.schema.metadata[KEY]))
        if "id" not in columns:
            raise ValueError("it has no column id")
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: is damaged ({format_one_line(error)}); make it again with: {MAKER}") from None
    if facts.get("format") != FORMAT:
        raise InputError(
            f"{path}: a table of objects of another format, expected {FORMAT}; make it again with: {MAKER}"
        )
    return columns, facts


def build_table(
    files: Sequence[str],
    vocabulary: str = "coco",
    lemmas: Sequence[LemmaRule] = ("singularize", "wordnet"),
    tagger: str = "captious",
    progress: Progress = lambda step: None,
) -> ObjectTable:
    """Collect the objects of every image in annotation files: instances as COCO writes them, captions in any format.

    The splits of a year may be given together. Captions are read with the vocabulary under each of the lemmas.
    """
    words = open_vocabulary(vocabulary)
    instances: dict[str, set[str]] = {}
    captions: dict[str, list[str]] = {}
    for file in files:
        progress(f"reading {Path(file).name}")
        marked = read_marked_objects(file)
        if marked is None:
            for key, texts in gather_references(read_rows(file)).references.items():
                captions.setdefault(parse_image_number(key), []).extend(texts)
            continue
        categories = _find_categories(words, {name for names in marked.values() for name in names}, file)
        for key, names in marked.items():
            instances.setdefault(key, set()).update(categories[name] for name in names)
    ids = list(dict.fromkeys([*instances, *captions]))
    if not ids:
        raise InputError(f"{', '.join(files)}: no images, expected instances or captions as COCO writes them")
    sources: dict[str, list[list[str]]] = {}
    order = {category: place for place, category in enumerate(words.categories)}
    if instances:
        sources[INSTANCES] = [sorted(instances.get(key, ()), key=order.__getitem__) for key in ids]
    texts = [text for key in ids for text in captions.get(key, ())]
    for rule in lemmas if captions else ():
        progress(f"objects of {len(texts):,} captions by {rule}")
        objects = iter(ObjectFinder(words, rule, tagger).find(texts))
        categories_by_image = [
            {name for _ in captions.get(key, ()) for name in next(objects).categories} for key in ids
        ]
        sources[get_caption_source(rule)] = [sorted(one, key=order.__getitem__) for one in categories_by_image]
    return ObjectTable("objects", {key: row for row, key in enumerate(ids)}, sources, str(words))


def _find_categories(vocabulary: Vocabulary, names: Iterable[str], where: str) -> dict[str, str]:
    """Map each name of a file to its category."""
    try:
        return {name: vocabulary.category(name) for name in names}
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def read_column_objects(captions: CaptionSet, vocabulary: Vocabulary) -> list[frozenset[str] | None]:
    """Read the objects of each item from its column; None for an item without a value, which differs from an empty
    list.
    """
    truths: list[frozenset[str] | None] = []
    for id, value in zip(captions.ids, captions.columns.get(OBJECT_COLUMN, (None,) * len(captions)), strict=True):
        words = parse_text_list(value, id, OBJECT_COLUMN)
        truths.append(None if words is None else frozenset(_find_categories(vocabulary, words, id).values()))
    return truths
