"""Readers of JSON and JSON Lines: lists of records, captions by id, COCO annotations, Karpathy splits."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from captious.errors import InputError
from captious.io._dense_layouts import read_dense_document
from captious.io.columns import ID_COLUMNS
from captious.io.rows import (
    LeaveOut,
    Piece,
    Row,
    RowBlock,
    decode_text,
    is_suspicious,
    refuse_row,
    remove_halves,
)

# Number of bytes of JSON Lines parsed together; decoding the whole file would at least double the memory.
_PART = 1 << 20


def read_json_lines(content: bytes, name: str, leave_out: LeaveOut = refuse_row) -> Iterator[Piece]:
    """Yield the rows of a JSON Lines file; blank lines are skipped."""
    first, number = 0, 1
    while first < len(content):
        end = content.find(b"\n", first + _PART) + 1 or len(content)
        part = content[first:end]
        if (block := _parse_plain_lines(part, name, number)) is not None:
            yield block
        else:
            yield from _parse_single_lines(part, content, name, number, leave_out)
        first, number = end, number + part.count(b"\n")


def _parse_plain_lines(part: bytes, name: str, number: int) -> RowBlock | None:
    """Parse complete lines as one list if they are flat records with the same keys, else return None.

    No record repeats a key if the number of keys equals the number of quotation marks before a colon.
    """
    part = part.removesuffix(b"\n")
    lines = part.count(b"\n") + 1
    if part[:1] != b"{" or part.count(b"{") != lines or part.count(b"\n{") != lines - 1:
        return None
    try:
        records = json.loads(f"[{part.decode().replace(chr(10), f',{chr(10)}')}]")
    except (ValueError, RecursionError):
        return None
    block = RowBlock.of_records(records, name, number) if len(records) == lines else None
    if block is None or len(block.columns) * lines != part.count(b'":'):
        return None
    return None if _SPACED_COLON.search(part) and _SPACED_KEY.search(part) else block


_SPACED_COLON, _SPACED_KEY = re.compile(rb":(?<=[ \t\r]:)"), re.compile(rb'"[ \t\r]+:')


def _parse_single_lines(part: bytes, content: bytes, name: str, first: int, leave_out: LeaveOut) -> Iterator[Row]:
    for number, line in enumerate(io.BytesIO(part), start=first):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n")
        except UnicodeDecodeError:
            text = decode_text(content, name)  # raises InputError with the line
        if not text or text.isspace():
            continue
        where = f"{name}: row {number}"
        try:
            row = _parse_record(text, where)
        except InputError as error:
            leave_out(str(error), where)
        else:
            yield row


def parse_json_row(content: bytes, where: str, notice: Callable[[str], object] | None = None) -> Row:
    """Parse one JSON object to a row; ``notice`` is that of `remove_halves`."""
    row = _parse_record(decode_text(content, where), where)
    return remove_halves(row, notice) if is_suspicious(content) else row


def _parse_record(text: str, where: str) -> Row:
    try:
        record = _parse_json(text, where)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        reason = f"not valid JSON ({error.msg}, column {error.colno}), expected an object, found {text[:60]!r}"
        raise InputError(f"{where}: {reason}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON that can be read ({str(error)[:80]})") from None
    if record is None:  # an output that failed: a row without columns, which may be skipped
        return Row(where, {})
    if not isinstance(record, dict):
        raise InputError(f'{where}: is {type(record).__name__}, expected an object such as {{"id": …}}')
    return Row(where, record)


def read_json(content: bytes, name: str, leave_out: LeaveOut = refuse_row) -> Iterator[Piece]:
    """Yield the rows of a JSON document in any of the supported layouts."""
    text = decode_text(content, name)
    try:
        document = _parse_json(text, name)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and error.lineno > 1:
            return read_json_lines(content, name, leave_out)
        raise InputError(
            f"{name}: line {error.lineno} column {error.colno} (offset {error.pos} of {len(text)}): "
            f"not valid JSON ({error.msg}); is the file cut short?"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not JSON that can be read ({str(error)[:80]})") from None
    if isinstance(document, Mapping):
        return read_document(document, name)
    if isinstance(document, list):
        return read_records(document, name)
    raise InputError(f"{name}: contains a JSON {type(document).__name__}, expected a list or an object of captions")


def read_document(document: Mapping[Any, Any], name: str) -> Iterator[Piece]:
    """Yield the rows of a dictionary: Karpathy splits, COCO annotations, or captions by id."""
    if _has_sentences(document):
        return _read_sentences(document, name)
    if isinstance(document.get("annotations"), list):
        return _read_annotations(document, name)
    if (events := read_dense_document(document, name)) is not None:
        return events
    for key in WRAPPERS:
        if _are_records(document.get(key)):
            return read_records(document[key], name)
    return read_mapping(document, name)


# Keys of a list of records in the output of programs; no image id has one of these names.
WRAPPERS = ("results", "predictions", "captions", "outputs", "data", "items", "sentences")


def _are_records(entries: Any) -> bool:
    """Return True if a value is a list of records with ids, not the captions of one image."""
    if not isinstance(entries, list) or not entries or not isinstance(entries[0], Mapping):
        return False
    return not entries[0].keys().isdisjoint(ID_COLUMNS)


def read_mapping(document: Mapping[Any, Any], name: str) -> Iterator[Piece]:
    """Yield rows of ``{id: caption}``, ``{id: [captions]}``, ``{id: [{"caption": …}]}`` or ``{id: {column: value}}``.

    A list of objects with a ``question`` each, as in the files of CaptionQA, becomes the column ``questions``.
    """
    values = list(document.values())
    kinds = set(map(type, values))
    if kinds == {str} or (kinds == {list} and set(map(type, chain.from_iterable(values))) == {str}):
        yield RowBlock(name, 1, {"id": list(document), "caption": values}, keyed=True)
        return
    for key, value in document.items():
        where = f"{name}: id {key!r}"
        if isinstance(value, str):  # tested first, because isinstance(value, Mapping) is slow
            yield Row(where, {"id": key, "caption": value}, keyed=True)
        elif isinstance(value, Mapping):
            rest = {column: entry for column, entry in value.items() if column not in ("id", "image_id")}
            yield Row(where, {"id": key, **rest}, keyed=True)
        elif isinstance(value, list) and value and all(_is_question(entry) for entry in value):
            yield Row(where, {"id": key, "questions": value}, keyed=True)
        elif isinstance(value, list) and value and all(isinstance(entry, Mapping) for entry in value):
            yield Row(where, {"id": key, "caption": [entry.get("caption") for entry in value]}, keyed=True)
        else:
            yield Row(where, {"id": key, "caption": value}, keyed=True)


def _is_question(entry: Any) -> bool:
    return isinstance(entry, Mapping) and "question" in entry and "caption" not in entry


def _read_annotations(document: Mapping[str, Any], name: str) -> Iterator[Row]:
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
        yield Row(where, fields, keyed=True)


def _has_sentences(document: Mapping[str, Any]) -> bool:
    images = document.get("images")
    return isinstance(images, list) and bool(images) and isinstance(images[0], Mapping) and "sentences" in images[0]


def _read_sentences(document: Mapping[str, Any], name: str) -> Iterator[Row]:
    """Yield the images of Karpathy splits with their sentences."""
    for number, image in enumerate(document["images"], start=1):
        where = f"{name}: image {number}"
        sentences = image.get("sentences") if isinstance(image, Mapping) else None
        if not isinstance(sentences, list) or not all(isinstance(sentence, Mapping) for sentence in sentences):
            raise InputError(f"{where}: has no list of sentences, expected objects with the text as raw")
        key = next((image[column] for column in ("cocoid", "imgid", "filename") if column in image), None)
        fields = {"id": key, "caption": [sentence.get("raw") for sentence in sentences]}
        extra = {"image": image.get("filename"), "split": image.get("split")}
        yield Row(where, fields | {column: value for column, value in extra.items() if value is not None}, keyed=True)


def read_records(document: Sequence[Any], name: str) -> Iterator[Piece]:
    """Yield the rows of a list of records, such as COCO results."""
    if (block := RowBlock.of_records(document, name, unit="entry")) is not None:
        yield block
        return
    for number, record in enumerate(document, start=1):
        where = f"{name}: entry {number}"
        if record is None:
            record = {}
        if not isinstance(record, Mapping):
            raise InputError(f"{where}: is {type(record).__name__}, expected an object with an id and a caption")
        yield Row(where, dict(record))


class _Repeated(Exception):
    """A key of a JSON object that occurs more than once in it."""


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise _Repeated(next(key for key, number in Counter(key for key, _ in pairs).items() if number > 1))
    return unique


_DECODER = json.JSONDecoder(object_pairs_hook=_make_object)
# Accepts unescaped control characters, such as tabs, in strings.
_LENIENT = json.JSONDecoder(object_pairs_hook=_make_object, strict=False)


def _parse_json(text: str, name: str) -> Any:
    """Parse JSON. Raise InputError if an object repeats a key."""
    try:
        if text[:1] == "{":
            value, end = _DECODER.raw_decode(text)
            if end == len(text):
                return value
        return _DECODER.decode(text)  # skips surrounding white space, raises on trailing data
    except json.JSONDecodeError as error:
        if not error.msg.startswith("Invalid control character"):
            raise
        return _LENIENT.decode(text)
    except _Repeated as error:
        (key,) = error.args
        raise InputError(
            f"{name}: {key!r} occurs more than once in one JSON object, expected different names or ids"
        ) from None
