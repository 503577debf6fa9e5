"""Lists of items: the images that a paper scored, by name, or the ids in a file. They are COCO's image numbers.

===========================  ============================================================================
``pope-2000``                POPE (Li et al., 2023): 2,000 images of val2014
``opera-500``                OPERA (Huang et al., 2024): 500 images of val2014, of LLaVA-1.5
``opera-instructblip-500``   OPERA: the 500 images of InstructBLIP; only 6 are in ``opera-500``
``less-is-more-500``         "Less is more" (Yue et al., 2024): 500 images of val2014
``marine-500``               MARINE (Zhao et al., 2024): 500 images of val2014
===========================  ============================================================================
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from captious.captions import CaptionSet
from captious.errors import InputError, format_suggestion
from captious.io.formats import read_text
from captious.io.images import parse_image_number
from captious.io.join import format_first
from captious.options import Missing

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
