"""``captious.read``: one or two sources, joined by id into a CaptionSet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from captious._core.collector import pause_collector
from captious._core.frame_rules import FrameRule
from captious._core.languages import LANGUAGE_COLUMN, find_only_language
from captious.captions import VIDEO, CaptionSet
from captious.errors import InputError, format_suggestion
from captious.io.columns import parse_image_number
from captious.io.formats import get_name, read_pieces, read_text
from captious.io.join import (
    SKIP_ONE,
    Changes,
    Complain,
    Gathered,
    format_first,
    gather_candidates,
    gather_references,
    join,
    refuse,
    set_language,
)
from captious.io.rows import Piece
from captious.options import Missing, Reading


def read(
    source: Any,
    *,
    references: Any = None,
    images: Any = None,
    missing: Missing = "error",
    language: str | None = None,
    reading: Reading = Reading(),
) -> CaptionSet:
    """Read candidates and references into a CaptionSet.

    Parameters
    ----------
    source
        Candidates, with or without their references. A path (COCO results, ``{id: caption}``, JSONL, CSV, TSV, Parquet,
        any of them gzipped) or ``-`` for standard input. A dict ``{id: caption}`` or ``{id: [captions]}``. A list of
        captions, or of lists of them, with the ids 0, 1, 2, … A list of records. A pandas frame, whose index has the
        ids where no column has; a polars frame, an Arrow table. Items, or a CaptionSet.
    references
        References by id, in any of the same forms; COCO annotations too. A list of captions, or of lists of them, has
        one entry for each caption, in the same order; a list of `Path` is several files. They win over references in
        ``source``; a CaptionSet must have none.
    images
        The folder of the images, found by file name or id; a list with one for each caption, in the same order; or a
        dict by id. An image is a path, a PIL image, an array or a tensor of pixels, or the bytes of a file. They become
        the column ``image``.
    missing
        Ids that are missing from the captions or the references: an error, or left out with ``skip``.
    language
        The code of the captions' language, such as ``zh``.
    reading
        Several candidates of an item, names of columns, format; it may hold the other arguments as well.

    >>> captions = read({1: "a dog"}, references={"1": ["a dog runs"], "2": ["a cat"]}, reading=Reading(missing="skip"))
    >>> captions.ids, captions.skipped
    (('1',), 1)
    >>> read(["a dog", "a cat"], references=[["a dog runs"], ["the cat", "cats"]])["1"].references
    ('the cat', 'cats')
    """
    reading = reading_of(reading, references, images, missing, language)
    refuse_unused(reading)
    captions = _read(source, reading)
    return captions if reading.items is None else select(captions, reading.items, reading.missing)


@pause_collector()
def read_all(sources: Mapping[str, Any], reading: Reading) -> dict[str, CaptionSet]:
    """Read several sources as `read` does; a file of references is read once for all of them."""
    refuse_unused(reading)
    others = None
    if len(sources) > 1 and isinstance(reading.references, (str, PathLike)) and str(reading.references) != "-":
        changes = Changes()
        rows = _read_pieces_until_error(reading.references, refuse, reading, changes, role="references")
        others = gather_references(rows, reading, changes=changes)
    sets = {name: _read(source, reading, others) for name, source in sources.items()}
    if reading.items is None:
        return sets
    return {name: select(captions, reading.items, reading.missing) for name, captions in sets.items()}


@pause_collector()
def _read(source: Any, reading: Reading, others: Gathered | None = None) -> CaptionSet:
    """Read one source; ``others`` are its references if they were read before."""
    if isinstance(source, CaptionSet):
        reading = reading if reading.language else replace(reading, language=source.language or None)
        if reading.references is None:
            captions = source
            if reading.images is not None:
                from captious.io.images import add_images

                captions = add_images(source, reading.images)
            captions = _add_videos(captions, reading)
            same = (reading.language or "") == source.language
            return captions if same else set_language(captions, reading.language)
    candidates, others = gather(source, reading, others=others)
    name = get_name(source)
    if not candidates.candidates:
        reasons = ", ".join(candidates.changes.left_out)
        raise InputError(f"{name}: contains no captions{f' that can be used: {reasons}' if reasons else ''}")
    if others is not None and not others.references:
        raise InputError(f"{get_name(reading.references, 'references')}: contains no captions")
    captions = join(candidates, others, reading, name)
    if not captions.language and (named := find_only_language(captions.columns.get(LANGUAGE_COLUMN, ()))):
        captions = set_language(captions, named)
    earlier = source.skipped if isinstance(source, CaptionSet) else 0
    return replace(captions, skipped=captions.skipped + earlier) if earlier else captions


def _add_videos(captions: CaptionSet, reading: Reading) -> CaptionSet:
    """Return a set with the videos and the frame rule of the options of reading."""
    if reading.frames is not None:
        captions = replace(captions, frames=FrameRule.parse(reading.frames))
    if reading.videos is None:
        return captions
    from captious.io.videos import get_video_names, match_videos

    videos = match_videos(reading.videos, captions.ids, get_video_names(captions.columns, len(captions)))
    return replace(captions, columns={**captions.columns, VIDEO: videos})


def gather(
    source: Any, reading: Reading, complain: Complain = refuse, others: Gathered | None = None
) -> tuple[Gathered, Gathered | None]:
    """Collect the candidates of a source, and its separate references; ``others`` are those read before."""
    if isinstance(source, CaptionSet) and reading.references is not None and len(source.references.values):
        complain(f"{source.name}: a CaptionSet has its references already, expected references=None")
    if get_name(source) == get_name(reading.references, "references") == "standard input":
        raise InputError("both candidates and references from standard input, expected at most one of them")
    changes = Changes()
    rows = _read_pieces_until_error(source, complain, reading, changes, format=reading.format)
    candidates = gather_candidates(rows, reading, complain, changes=changes)
    if reading.references is None or others is not None:
        return candidates, others
    ids = list(candidates.candidates)
    if candidates.aligned is None and changes.lost:  # references follow the order of all captions
        ids = sorted((*ids, *changes.lost), key=int)
    changes = Changes()
    rows = _read_pieces_until_error(reading.references, complain, reading, changes, role="references", ids=ids)
    return candidates, gather_references(rows, reading, complain, changes)


def refuse_unused(reading: Reading) -> None:
    """Raise InputError if an option names a column of references but there is no source of references."""
    if reading.references is None and reading.references_id_column is not None:
        raise InputError(
            "reading=Reading(references_id_column=...) names a column of references, and there are none; pass "
            "references=..."
        )


def _read_pieces_until_error(
    source: Any, complain: Complain, reading: Reading, changes: Changes, **options: Any
) -> Iterator[Piece]:
    """Yield pieces up to the first part that cannot be parsed, then complain."""

    def leave_out(complaint: str, where: str) -> None:
        if reading.missing == "skip":
            changes.leave_out(complaint, where)
            changes.lost.add(where)
        else:
            complain(f"{complaint}{SKIP_ONE}")

    stopped = ""
    try:
        options |= {"cleaned": changes.cleaned, "remarks": changes.remarks, "leave_out": leave_out}
        yield from read_pieces(source, reading=reading, **options)
    except InputError as error:
        stopped = str(error)
    if stopped:
        complain(stopped)


def reading_of(
    reading: Any, references: Any, images: Any, missing: Missing = "error", language: str | None = None
) -> Reading:
    """Return the options of reading, with what is passed on its own in place of theirs."""
    if not isinstance(reading, Reading):
        raise InputError(f"reading: {type(reading).__name__}, expected one such as Reading(id_column='photo')")
    own = {"references": references, "images": images, "language": language}
    own |= {"missing": None if missing == "error" else missing}
    return replace(reading, **{name: value for name, value in own.items() if value is not None})


# Lists of items: the images that a paper scored, by name, or the ids in a file. They are COCO's image numbers.
#
# ===========================  ============================================================================
# `pope-2000`                POPE (Li et al., 2023): 2,000 images of val2014
# `opera-500`                OPERA (Huang et al., 2024): 500 images of val2014, of LLaVA-1.5
# `opera-instructblip-500`   OPERA: the 500 images of InstructBLIP; only 6 are in `opera-500`
# `less-is-more-500`         "Less is more" (Yue et al., 2024): 500 images of val2014
# `marine-500`               MARINE (Zhao et al., 2024): 500 images of val2014
# ===========================  ============================================================================
FOLDER = Path(__file__).parent / "lists"


def list_names() -> list[str]:
    """Return the names of the built-in lists."""
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def read_list(name: str) -> list[str]:
    """Read the ids of a list, given the name of a built-in list or a file with one id per line.

    >>> len(read_list("opera-500")), read_list("pope-2000")[:2]
    (500, ['569', '1374'])
    """
    path = FOLDER / f"{name}.txt" if name in list_names() else Path(name)
    if not path.is_file():
        known = ", ".join(list_names())
        raise InputError(
            f"items {name!r}: no such list or file, expected one of {known}{format_suggestion(name, list_names())}"
        )
    ids = [line.strip() for line in read_text(path).splitlines() if line.strip()]
    if not ids:
        raise InputError(f"{path}: no ids, expected one per line")
    return ids


def select(captions: CaptionSet, name: str, missing: Missing = "error") -> CaptionSet:
    """Select the items of a list by their id, or by the COCO number in the id or the image's file name.

    An id of the list without captions is an error unless ``missing`` is ``skip``.
    """
    ids = read_list(name)
    wanted = {key: number for number, listed in enumerate(ids) for key in (listed, parse_image_number(listed))}
    indices, present = [], set[int]()
    for index, (id, image) in enumerate(zip(captions.ids, captions.images, strict=True)):
        keys = [id, parse_image_number(id), *([parse_image_number(image)] if isinstance(image, str) else [])]
        number = next((wanted[key] for key in keys if key in wanted), None)
        if number is not None:
            indices.append(index)
            present.add(number)
    absent = [listed for number, listed in enumerate(ids) if number not in present]
    if not indices or (absent and missing == "error"):
        raise InputError(
            f"{captions.name}: {len(absent):,} of the {len(ids):,} items of {name} have no captions "
            f"({format_first(absent)}); pass missing='skip' to score the others"
        )
    skipped = captions.skipped + len(absent)
    return replace(captions.take(indices), selection=Path(name).name, skipped=skipped)
