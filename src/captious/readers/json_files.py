"""JSON: COCO results and annotations, Karpathy's splits, ``{id: caption}``, ``{id: [captions]}``, lists of records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from captious.errors import InputError
from captious.readers import jsonl
from captious.readers.rows import Row, text_of


def rows(content: bytes, name: str) -> Iterator[Row]:
    """Rows of a JSON document, whatever of the known layouts it has."""
    text = text_of(content, name)
    try:
        document = json.loads(text, object_pairs_hook=_object)
    except _DuplicateKey as error:
        raise InputError(f"{name}: id {error} occurs more than once in one JSON object, expected unique ids") from None
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and error.lineno > 1:
            return jsonl.rows(content, name)
        raise InputError(
            f"{name}: line {error.lineno} column {error.colno} (offset {error.pos} of {len(text)}): "
            f"not valid JSON ({error.msg}); is the file cut short?"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not JSON that can be read ({str(error)[:80]})") from None
    if isinstance(document, Mapping) and _has_sentences(document):
        return _sentence_rows(document, name)
    if isinstance(document, Mapping) and isinstance(document.get("annotations"), list):
        return _annotation_rows(document, name)
    if isinstance(document, Mapping):
        return mapping_rows(document, name)
    if isinstance(document, list):
        return record_rows(document, name)
    raise InputError(f"{name}: holds a JSON {type(document).__name__}, expected a list or an object of captions")


def mapping_rows(document: Mapping[Any, Any], name: str) -> Iterator[Row]:
    """Rows of ``{id: caption}``, ``{id: [captions]}``, ``{id: [{"caption": …}]}`` or ``{id: {column: value}}``."""
    for key, value in document.items():
        where = f"{name}: id {key!r}"
        if isinstance(value, Mapping):
            rest = {column: entry for column, entry in value.items() if column not in ("id", "image_id")}
            yield Row(where, {"id": key, **rest})
        elif isinstance(value, list) and value and all(isinstance(entry, Mapping) for entry in value):
            yield Row(where, {"id": key, "caption": [entry.get("caption") for entry in value]})
        else:
            yield Row(where, {"id": key, "caption": value})


def _annotation_rows(document: Mapping[str, Any], name: str) -> Iterator[Row]:
    listed = document.get("images")
    images = [image for image in listed if isinstance(image, Mapping)] if isinstance(listed, list) else []
    files = {str(image.get("id")): image.get("file_name") for image in images}
    for number, annotation in enumerate(document["annotations"], start=1):
        where = f"{name}: annotation {number}"
        if not isinstance(annotation, Mapping):
            raise InputError(f"{where}: is {type(annotation).__name__}, expected an object with image_id and caption")
        fields = {"id": annotation.get("image_id"), "caption": annotation.get("caption")}
        if image := files.get(str(annotation.get("image_id"))):
            fields["image"] = image
        yield Row(where, fields)


def _has_sentences(document: Mapping[str, Any]) -> bool:
    images = document.get("images")
    return isinstance(images, list) and bool(images) and isinstance(images[0], Mapping) and "sentences" in images[0]


def _sentence_rows(document: Mapping[str, Any], name: str) -> Iterator[Row]:
    """Karpathy's splits: images with their sentences."""
    for number, image in enumerate(document["images"], start=1):
        where = f"{name}: image {number}"
        sentences = image.get("sentences") if isinstance(image, Mapping) else None
        if not isinstance(sentences, list) or not all(isinstance(sentence, Mapping) for sentence in sentences):
            raise InputError(f"{where}: has no list of sentences, expected objects with the text as raw")
        key = next((image[column] for column in ("cocoid", "imgid", "filename") if column in image), None)
        fields = {"id": key, "caption": [sentence.get("raw") for sentence in sentences]}
        kept = {"image": image.get("filename"), "split": image.get("split")}
        yield Row(where, fields | {column: value for column, value in kept.items() if value is not None})


def record_rows(document: Sequence[Any], name: str) -> Iterator[Row]:
    """Rows of a list of records, such as COCO results."""
    for number, record in enumerate(document, start=1):
        where = f"{name}: entry {number}"
        if not isinstance(record, Mapping):
            raise InputError(f"{where}: is {type(record).__name__}, expected an object with an id and a caption")
        yield Row(where, dict(record))


class _DuplicateKey(ValueError):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKey(repr(key))
            seen.add(key)
    return result
