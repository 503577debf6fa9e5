"""COCO's annotation files: which objects are marked in which image."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from captious._core.files import read_regular
from captious.errors import InputError, one_line

_SPACE = re.compile(r"[\s,:]*")


def marked_objects(path: str | Path) -> dict[str, set[str]] | None:
    """The categories that are marked in each image of an instances file; None where the file has no instances.

    Every image of the file is there, also one in which nothing is marked. Crowds count, and no object is too small.
    The annotations are read one by one, because the file of a whole split fills many gigabytes as Python objects.
    """
    images: dict[str, set[int]] = {}
    names: dict[int, str] = {}
    marked = False
    try:
        for key, entry in _entries(read_regular(path).decode("utf-8-sig")):
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
        raise InputError(f"{path}: is not a JSON file of annotations ({one_line(error)})") from None
    except KeyError as error:
        raise InputError(f"{path}: an entry without {error}, expected instances as COCO writes them") from None


def _entries(text: str) -> Iterator[tuple[str, Any]]:
    """The entries of the lists of a JSON object, one by one, each with the key of its list."""
    decode = json.JSONDecoder().raw_decode
    at = _skip(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError("expected an object")
    at = _skip(text, at + 1)
    while text[at : at + 1] != "}":
        key, at = decode(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != "[":
            _, at = decode(text, at)
        else:
            at = _skip(text, at + 1)
            while text[at : at + 1] != "]":
                entry, at = decode(text, at)
                if not isinstance(entry, dict):
                    raise ValueError(f"{key} has {type(entry).__name__}, expected objects")
                yield key, entry
                at = _skip(text, at)
            at += 1
        at = _skip(text, at)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
