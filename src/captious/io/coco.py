"""COCO annotation files: the annotated object categories of each image."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from captious._core.files import read_regular
from captious.errors import InputError, format_one_line

_SPACE = re.compile(r"[\s,:]*")


def read_marked_objects(path: str | Path) -> dict[str, set[str]] | None:
    """Return the categories annotated in each image of an instances file; None if the file has no instances.

    Images without annotations are included. Crowds count, and no object is too small. The annotations are parsed one by
    one, because the file of a whole split needs many gigabytes as Python objects.
    """
    images: dict[str, set[int]] = {}
    names: dict[int, str] = {}
    marked = False
    try:
        for key, entry in _iterate_entries(read_regular(path).decode("utf-8-sig")):
            if key == "categories":
                names[int(entry["id"])] = str(entry["name"])
            elif key == "images":
                images.setdefault(str(entry["id"]), set())
            elif key == "annotations" and "category_id" in entry:
                images.setdefault(str(entry["image_id"]), set()).add(int(entry["category_id"]))
                marked = True
            elif key == "annotations":
                return None
        if not marked and not names:
            return None
        return {image: {names[number] for number in numbers} for image, numbers in images.items()}
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{path}: is not a JSON file of annotations ({format_one_line(error)})") from None
    except KeyError as error:
        raise InputError(f"{path}: an entry without {error}, expected instances as COCO writes them") from None


def _iterate_entries(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the entries of all lists of a JSON object, each with the key of its list."""
    decode = json.JSONDecoder().raw_decode
    at = _skip_space(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError("expected an object")
    at = _skip_space(text, at + 1)
    while text[at : at + 1] != "}":
        key, at = decode(text, at)
        at = _skip_space(text, at)
        if text[at : at + 1] != "[":
            _, at = decode(text, at)
        else:
            at = _skip_space(text, at + 1)
            while text[at : at + 1] != "]":
                entry, at = decode(text, at)
                if not isinstance(entry, dict):
                    raise ValueError(f"{key} has {type(entry).__name__}, expected objects")
                yield key, entry
                at = _skip_space(text, at)
            at += 1
        at = _skip_space(text, at)


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
