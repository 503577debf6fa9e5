"""Plans of stress tests: captions, their edits, and pairs that people wrote, drawn once for all metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from captious.captions import CaptionSet, Ragged
from captious.edits.changes import find_changes
from captious.edits.edit import Edit, Group
from captious.edits.edit_table import ALL, edit_captions, find_edits
from captious.edits.surroundings import VOCABULARY
from captious.errors import InputError
from captious.io.columns import CAPTION_COLUMNS, IMAGE_COLUMNS, REFERENCE_COLUMNS
from captious.io.formats import get_name, read_rows
from captious.io.images import get_image_name
from captious.io.rows import Row
from captious.options import SEED
from captious.probes._probe_files import find_image_paths, get_text, get_texts

# Default number of items drawn.
ITEMS = 200
RIGHT_COLUMNS = ("right", "positive", "baseline", "human_corrected_hall_caption")
WRONG_COLUMNS = ("wrong", "negative", "negative_caption", "foil", "hall_caption")


class EditedText(NamedTuple):
    """An edited caption of a stress test."""

    item: int
    """The index of the item among those that are scored."""
    column: int
    """The index of the edit."""
    text: str
    done: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class StressPart:
    """Original captions and edits of them that a metric scores together."""

    corpus: CaptionSet
    """The whole set: document frequencies and other statistics of metrics are its own, whatever is edited."""
    drawn: CaptionSet
    """The original captions that are edited, one per item."""
    edits: tuple[tuple[str, Group], ...]
    """The written forms of the edits with their groups."""
    edited: tuple[EditedText, ...]
    left_out: Mapping[str, int]
    about: Mapping[str, str]
    """A description of each edit, with the condition that a caption must meet."""
    images: tuple[str, ...]
    """The image of each drawn caption; images are resampled as clusters."""

    @cached_property
    def texts(self) -> CaptionSet:
        """Everything that is scored: the original captions, then the edited ones."""
        rows = [*range(len(self.drawn)), *(one.item for one in self.edited)]
        ids = self.drawn.ids
        names = [*ids, *(f"{ids[one.item]}#{self.edits[one.column][0]}" for one in self.edited)]
        candidates = [*self.drawn.candidates, *((one.text,) for one in self.edited)]
        return CaptionSet(
            tuple(names),
            Ragged.of(candidates),
            Ragged.of([self.drawn.references[row] for row in rows]),
            {name: tuple(values[row] for row in rows) for name, values in self.drawn.columns.items()},
            self.drawn.name,
        )


@dataclass(frozen=True, eq=False)
class StressTest:
    """The captions with their edits, and the pairs of each file."""

    parts: tuple[StressPart, ...]
    seed: int

    @property
    def name(self) -> str:
        """The names of the files."""
        return ", ".join(part.corpus.name for part in self.parts)

    def sets(self) -> dict[str, CaptionSet]:
        """Return the scored sets by name, to plan calls of judges."""
        return {part.corpus.name: part.texts for part in self.parts}


def plan_stress(
    captions: CaptionSet,
    edits: Sequence[str | Edit] = (ALL,),
    *,
    items: int = ITEMS,
    seed: int = SEED,
    pairs: Sequence[Any] = (),
    images: str | Path | None = None,
    vocabulary: str = VOCABULARY,
) -> StressTest:
    """Draw the items, the same for every metric, and edit them; ``pairs`` are files of right and wrong captions.

    ``images`` is the folder of the pairs' images. Of an item with several captions the first is edited.
    """
    wanted = find_edits(edits)
    single = replace(captions, candidates=Ragged.of([own[:1] for own in captions.candidates]))
    chosen = single.draw_items(items, seed)
    edited = edit_captions(single, wanted, seed=seed, vocabulary=vocabulary, chosen=chosen)
    forms = [(form, edit.group) for edit in wanted for form, _ in edit.forms]
    columns = {form: column for column, (form, _) in enumerate(forms)}
    row_of_item = {index: row for row, index in enumerate(chosen)}
    main = StressPart(
        single,
        single.take(chosen),
        tuple(forms),
        tuple(
            EditedText(row_of_item[row.item], columns[row.form], row.edited.text, row.edited.done)
            for row in edited.rows
        ),
        edited.left_out,
        {form: f"{edit.about} (needs {edit.needs})" for edit in wanted for form, _ in edit.forms},
        tuple(edited.surroundings.images[index] for index in chosen),
    )
    files = tuple(read_pairs(source, images, items, seed) for source in pairs)
    return StressTest((main, *files), seed)


def read_pairs(source: Any, images: str | Path | None = None, items: int = ITEMS, seed: int = SEED) -> StressPart:
    """Read a file of pairs: an image, a right caption, a wrong one, and perhaps references.

    The right caption is the column ``right``, ``positive``, ``baseline`` or ``caption``, the wrong one ``wrong``,
    ``negative`` or ``foil``. Where another column is the right caption, ``caption`` is a reference.
    """
    name = get_name(source)
    rows = [(row, *_get_pair(row)) for row in read_rows(source)]
    kept = [
        (row, right, wrong, references)
        for row, right, wrong, references in rows
        if right.strip() and wrong.strip() and right != wrong
    ]
    if not kept:
        raise InputError(f"{name}: contains no pair of a right and a wrong caption that differ")
    pair_images = [_get_image(row) for row, *_ in kept]
    keys = [str(number) for number in range(len(kept))]
    columns = _build_image_column(pair_images, images)
    corpus = CaptionSet.of(
        {key: right for key, (_, right, _, _) in zip(keys, kept, strict=True)},
        {key: references for key, (_, _, _, references) in zip(keys, kept, strict=True)},
        columns,
        name,
    )
    chosen = corpus.draw_items(items, seed)
    form = Path(name).name.partition(".")[0]
    edited = []
    for item, index in enumerate(chosen):
        _, right, wrong, _ = kept[index]
        edited.append(EditedText(item, 0, wrong, find_changes(right, wrong)))
    left_out = {form: len(rows) - len(kept)} if len(rows) > len(kept) else {}
    about = {form: f"pairs of {Path(name).name} (needs two captions that differ)"}
    own = tuple(pair_images[index] for index in chosen)
    return StressPart(corpus, corpus.take(chosen), ((form, "pairs"),), tuple(edited), left_out, about, own)


def _build_image_column(names: Sequence[str], images: str | Path | None) -> dict[str, Sequence[Any]]:
    """Return the paths of a pair file's images, if the folder has them; metrics without images need none."""
    if images is None:
        return {}
    try:
        paths = find_image_paths(names, images)
    except InputError:
        return {}
    return {"image": [paths[name] for name in names]}


def _get_image(row: Row) -> str:
    """Return the name of a row's image; its place in the file, which is unique, if it names none."""
    for column in IMAGE_COLUMNS:
        if isinstance(row.fields.get(column), list):
            raise InputError(f"{row.where}: {column} is a list, expected the name of one image")
    try:
        return get_image_name(row)
    except InputError:
        return row.where


def _get_pair(row: Row) -> tuple[str, str, tuple[str, ...]]:
    """Return the right caption of a row, the wrong one, and the references."""
    right, caption = get_text(row, RIGHT_COLUMNS), get_text(row, CAPTION_COLUMNS)
    wrong, references = get_text(row, WRONG_COLUMNS), get_texts(row, REFERENCE_COLUMNS)
    if wrong is None or (right is None and caption is None):
        columns = ", ".join(map(str, row.fields))
        raise InputError(f"{row.where}: found columns {columns}, expected a right caption and a wrong one")
    if right is None:
        return str(caption), wrong, tuple(references or ())
    return right, wrong, tuple(references or ([caption] if caption else []))
