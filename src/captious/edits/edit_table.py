"""All edits by name, and a table of edited captions: one row for each edit of a caption, with its changes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from captious._core.files import write_atomically
from captious._core.languages import refuse_other_than_english
from captious._core.records import parse_record, parse_toml, read_text
from captious.captions import CaptionSet, Item
from captious.edits.catalogue import EDITS
from captious.edits.changes import mark, summarize
from captious.edits.edit import GROUPS, Draw, Edit, EditedCaption, EditSubject, Group, TaggedWord
from captious.edits.surroundings import VOCABULARY, Surroundings
from captious.errors import InputError, format_suggestion
from captious.options import SEED
from captious.render import Column, Document, Result, Table
from captious.syntax.tagging import tag_texts

ALL = "all"


class EditedRow(NamedTuple):
    """A caption with its edited text."""

    item: int
    """The index of the item in the set."""
    edit: Edit
    form: str
    """The edit with its dose, such as ``inject(3)``."""
    dose: int
    copy: int
    text: str
    edited: EditedCaption


@dataclass(frozen=True, eq=False, repr=False)
class EditedCaptions(Result):
    """Edited captions, with the number of captions that each edit could not change."""

    surroundings: Surroundings
    edits: tuple[Edit, ...]
    rows: tuple[EditedRow, ...]
    left_out: dict[str, int]
    """Number of captions that an edit could not change, by its written form."""
    seed: int
    look: int = 0
    """Number of edited captions of each edit that the document shows."""

    @property
    def captions(self) -> CaptionSet:
        """The set that was edited."""
        return self.surroundings.captions

    def __repr__(self) -> str:
        return f"<EditedCaptions: {len(self.rows):,} of {len(self.captions):,} captions>"

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each edited caption: id, caption, edit, group, edited text, and changes."""
        return [
            {
                "id": self.captions.ids[row.item],
                "caption": row.text,
                "edit": row.form,
                "group": row.edit.group,
                **({"copy": row.copy} if row.copy else {}),
                "edited": row.edited.text,
                "done": dict(row.edited.done),
            }
            for row in self.rows
        ]

    def save_lines(self, path: str | Path) -> None:
        """Write all records as JSON Lines, atomically."""
        with write_atomically(path) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(json.dumps(entry, ensure_ascii=False) + "\n" for entry in self.records())

    def document(self) -> Document:
        """Build a table of counts, and examples of each edit with the changes marked."""
        made = Counter(row.form for row in self.rows)
        forms = [(edit, form) for edit in self.edits for form, _ in edit.forms]
        counts = [
            (form, edit.group, made[form], self.left_out.get(form, 0), edit.needs if self.left_out.get(form) else "")
            for edit, form in forms
        ]
        columns = ("edit", "group", Column("made"), Column("left out"), Column("because it needs", "text"))
        sections = [Table("counts", f"{len(self.captions):,} captions", columns, counts)]
        examples: list[tuple[Any, ...]] = []
        for _, form in forms if self.look else ():
            for row in [row for row in self.rows if row.form == form][: self.look]:
                before, after = mark(row.text, row.edited.text, row.edited.done, row.edit.group != "harmless")
                examples.append((form, self.captions.ids[row.item], before, after, summarize(row.edited.done)))
        if examples:
            head = ("edit", "id", "caption", "edited", "what was done")
            sections.append(Table("look", "Edited captions", head, examples))
        data = {"captions": len(self.captions), "seed": self.seed, "made": dict(made), "left_out": self.left_out}
        return Document("Edited captions", sections=sections, data=data, name="edits")


def find_edits(names: Sequence[str | Edit | Callable[[Item], str | None]]) -> tuple[Edit, ...]:
    """Find edits by name: of an edit, of a group, ``all``, or of a TOML file with your own edits.

    >>> [edit.name for edit in find_edits(["negate", "damage"])]
    ['negate', 'shuffle', 'cut', 'repeat', 'drop-function-words']
    """
    chosen: dict[str, Edit] = {}
    for name in names:
        if isinstance(name, Edit):
            edits = [name]
        elif callable(name):
            raise InputError(
                f"{getattr(name, '__name__', name)!r}: which way must a metric answer? Write Edit.of(…, group)"
            )
        elif name == ALL:
            edits = list(EDITS.values())
        elif name in GROUPS:
            edits = [edit for edit in EDITS.values() if edit.group == name]
        elif name.endswith(".toml"):
            edits = read_edits(name)
        elif name in EDITS:
            edits = [EDITS[name]]
        else:
            known = [*EDITS, *GROUPS, ALL]
            raise InputError(
                f"unknown edit {name!r}, expected a name, a group or a TOML file{format_suggestion(name, known)}"
            )
        chosen |= {edit.name: edit for edit in edits}
    if not chosen:
        raise InputError("no edits named, expected names, groups, TOML files or all")
    return tuple(chosen.values())


def list_edits() -> Document:
    """List all edits by group, with what each does and what a caption must have for it."""
    rows = [
        (edit.name, edit.group, edit.about, edit.needs, ", ".join(map(str, edit.doses)) or "—")
        for edit in EDITS.values()
    ]
    columns = ("edit", "group", "what it does", "needs", "doses")
    notes = [f"{group}: {about}" for group, about in GROUPS.items()]
    data = {"edits": [dict(zip(columns, row, strict=True)) for row in rows], "groups": GROUPS}
    return Document("Edits", "", [Table("edits", f"{len(rows)} edits", columns, rows)], notes=notes, data=data)


@dataclass(frozen=True)
class WordPair:
    """Words that a user's own edit replaces, and their replacements."""

    old: str
    new: str


@dataclass(frozen=True)
class OwnEdit:
    """A user's own edit, as in a TOML file."""

    name: str
    group: str
    pairs: tuple[WordPair, ...]
    about: str = ""


@dataclass(frozen=True)
class OwnEdits:
    """A file of a user's own edits."""

    edits: tuple[OwnEdit, ...]


def read_edits(path: str | Path) -> list[Edit]:
    """Read edits from a TOML file: tables ``[[edits]]`` of a name, a group, and pairs of words old and new."""
    table = parse_toml(read_text(Path(path), "file of edits"), str(path), "file of edits")
    edits = []
    for number, own in enumerate(parse_record(OwnEdits, table, str(path)).edits, 1):
        if own.group not in GROUPS:
            groups = ", ".join(GROUPS)
            raise InputError(f"{path}: [[edits]] {number}: group = {own.group!r}, expected one of {groups}")
        if own.name in EDITS:
            raise InputError(
                f"{path}: [[edits]] {number}: name = {own.name!r} is an edit of captious, expected another"
            )
        group: Group = own.group
        edits.append(
            Edit(own.name, group, own.about or f"pairs of {Path(path).name}", _make_pair_maker(own.pairs), "its words")
        )
    return edits


def _make_pair_maker(pairs: Sequence[WordPair]) -> Callable[[EditSubject, Draw, int], EditedCaption | None]:
    def make(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
        for pair in pairs:
            pattern = rf"(?<!\w){re.escape(pair.old)}(?!\w)"
            matches = list(re.finditer(pattern, subject.text, re.IGNORECASE))
            if matches:
                match = draw.choice(matches)
                return subject.replace(match.start(), match.end(), pair.new)
        return None

    return make


def edit_captions(
    captions: CaptionSet,
    edits: Sequence[str | Edit] = (ALL,),
    *,
    seed: int = SEED,
    copies: int = 1,
    vocabulary: str = VOCABULARY,
    chosen: Sequence[int] | None = None,
    look: int = 0,
) -> EditedCaptions:
    """Make every possible edit of every caption; if an item has several captions, of its first one.

    ``chosen`` are the indices of the items to edit; frequent words and captions of other images are those of all items.
    An edit depends on the seed, the id, the edit and the copy, not on which other edits or items are requested.

    >>> captions = CaptionSet.of({"7": "a dog runs on grass"}, {"7": ["a dog on a lawn"]})
    >>> [row.edited.text for row in edit_captions(captions, ["cut", "negate"], seed=1).rows]
    ['a dog', 'a dog runs on grass. There is no dog.']
    """
    wanted = find_edits(edits)
    _refuse_unfit(captions, wanted)
    surroundings = Surroundings(captions, vocabulary)
    indices = range(len(captions)) if chosen is None else chosen
    subjects = _build_subjects(surroundings, indices)
    rows: list[EditedRow] = []
    left_out: Counter[str] = Counter()
    for edit in wanted:
        for form, dose in edit.forms:
            for subject in subjects:
                for copy in range(copies):
                    edited = _make_edit(edit, subject, dose, seed, copy)
                    if edited is None:
                        left_out[form] += copy == 0
                    else:
                        rows.append(EditedRow(subject.index, edit, form, dose, copy, subject.text, edited))
    counts = {form: count for form, count in left_out.items() if count}
    return EditedCaptions(surroundings, wanted, tuple(rows), counts, seed, look)


def _refuse_unfit(captions: CaptionSet, edits: Sequence[Edit]) -> None:
    """Raise InputError if no caption can be edited, or if edits are English and the captions are not."""
    if not any(text.strip() for text in captions.candidates.values):
        raise InputError(f"{captions.name}: contains no caption to edit")
    english = next((edit for edit in edits if EDITS.get(edit.name) is edit), None)
    if english is None:
        return
    what, instead = f"the edit {english.name!r} is", "; expected edits of your own, a TOML file or Edit.of(...)"
    refuse_other_than_english(captions.name, what, captions.candidates.values, captions.language, instead)


def _make_edit(edit: Edit, subject: EditSubject, dose: int, seed: int, copy: int) -> EditedCaption | None:
    """Make an edit; return None if it is impossible or does not change the caption."""
    if not subject.text.strip():
        return None
    edited = edit.make(subject, Draw(seed, subject.item.id, edit.name, copy), dose)
    return None if edited is None or edited.text == subject.text else edited


def _build_subjects(surroundings: Surroundings, indices: Sequence[int]) -> list[EditSubject]:
    """Build the subjects at some indices, with tagged words."""
    texts = [surroundings.texts[index] for index in indices]
    subjects = []
    for index, text, tagged in zip(indices, texts, tag_texts(texts), strict=True):
        words = [
            TaggedWord(token, start, stop, tag)
            for sentence, tags in tagged
            for token, start, stop, tag in zip(*sentence, tags, strict=True)
            if any(map(str.isalnum, token))
        ]
        subjects.append(EditSubject(surroundings.captions.item(index), text, words, surroundings, index))
    return subjects
