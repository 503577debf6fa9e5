"""Exports of other annotation tools as rows of ratings: Label Studio's JSON, and potato's TSV and JSONL.

Label Studio's JSON has a task per object, with its ``data`` and a list of ``annotations``, each by one person. Its
CSV and JSON-MIN have a row per annotation and need no conversion. Potato has a row per person and item, with a column
``SCHEMA:::LABEL`` for each label of a scale (TSV), or the same nested in ``label_annotations`` (JSONL).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from captious.errors import InputError
from captious.io.columns import RATING_COLUMNS
from captious.io.rows import Row

# Separator of the names of scale and label in potato's columns.
SEPARATOR = ":::"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?$")


def convert_tool_rows(rows: Sequence[Row]) -> Sequence[Row]:
    """Return one row per rating if the rows are an export of Label Studio or potato; otherwise the rows themselves."""
    if not rows:
        return rows
    first = rows[0].fields
    if isinstance(first.get("data"), Mapping) and isinstance(first.get("annotations"), Sequence):
        return [one for row in rows for one in _convert_task(row)]
    if "instance_id" in first and any(isinstance(name, str) and SEPARATOR in name for name in first):
        return [_convert_potato(row, _nest_labels(row.fields)) for row in rows]
    if isinstance(first.get("label_annotations"), Mapping):
        return [_convert_potato(row, row.fields["label_annotations"]) for row in rows]
    return rows


def _convert_task(row: Row) -> Iterator[Row]:
    """Yield a row for each annotation of a task of Label Studio; cancelled ones are left out."""
    data, annotations = row.fields.get("data"), row.fields.get("annotations")
    if not isinstance(data, Mapping) or not isinstance(annotations, Sequence) or isinstance(annotations, str):
        raise InputError(f"{row.where}: expected a task of Label Studio with data and annotations")
    for annotation in annotations:
        if not isinstance(annotation, Mapping) or not isinstance(annotation.get("result"), Sequence):
            raise InputError(f"{row.where}: annotation without result, expected that of Label Studio's JSON export")
        if annotation.get("was_cancelled"):
            continue
        person = annotation.get("completed_by")
        if isinstance(person, Mapping):
            person = person.get("email") or person.get("id")
        answers = {}
        for result in annotation["result"]:
            if isinstance(result, Mapping) and isinstance(result.get("value"), Mapping):
                answers[str(result.get("from_name"))] = _read_value(result["value"])
        fields = {"id": row.fields.get("id"), **data, "rater": None if person is None else str(person)}
        if annotation.get("lead_time") is not None:
            fields["seconds"] = annotation["lead_time"]
        yield Row(row.where, {**fields, **_name_rating(answers, fields)})


def _read_value(value: Mapping[str, Any]) -> Any:
    """Return the answer in a value of Label Studio: stars, a number, a choice, or a text."""
    for name in ("rating", "number", "choices", "text"):
        if name in value:
            answer = value[name]
            single = answer[0] if isinstance(answer, list) and len(answer) == 1 else answer
            return _to_number(single)
    return None


def _nest_labels(fields: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return potato's columns ``SCHEMA:::LABEL`` as labels by scale."""
    scales: dict[str, dict[str, Any]] = {}
    for name, value in fields.items():
        scale, separator, label = str(name).partition(SEPARATOR)
        if separator:
            scales.setdefault(scale, {})[label] = value
    return scales


def _convert_potato(row: Row, scales: Any) -> Row:
    """Return the answers of one person to one item of potato as a row."""
    if not isinstance(scales, Mapping) or not all(isinstance(labels, Mapping) for labels in scales.values()):
        raise InputError(f"{row.where}: label_annotations without scales, expected those of potato")
    answers = {scale: _read_label(labels) for scale, labels in scales.items()}
    nested = ("label_annotations", "span_annotations", "behavioral_data")
    fields = {name: value for name, value in row.fields.items() if SEPARATOR not in name and name not in nested}
    names = {"id": ("instance_id", "id"), "caption": ("displayed_text",), "rater": ("user", "user_id")}
    for name, columns in names.items():
        fields[name] = next((fields.pop(column) for column in columns if column in fields), None)
    return Row(row.where, {**fields, **_name_rating(answers, fields)})


def _read_label(labels: Mapping[str, Any]) -> Any:
    """Return the chosen label of a scale as a number: its value, or the number at the end of its name (``scale_4``)."""
    chosen = {label: value for label, value in labels.items() if value not in (None, "", False, "false", "False")}
    if len(chosen) != 1:
        return None
    ((label, value),) = chosen.items()
    answer = _to_number(value)
    number = _NUMBER.search(str(label))
    return float(number[0]) if number and not isinstance(answer, float) else answer


def _to_number(value: Any) -> Any:
    text = str(value).strip()
    return float(text) if not isinstance(value, bool) and _NUMBER.fullmatch(text) else value


def _name_rating(answers: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers by name; a single numeric one is also named rating, the name that commands expect."""
    numbers = [value for value in answers.values() if isinstance(value, float)]
    unnamed = not any(name in RATING_COLUMNS for name in (*answers, *fields))
    return {**answers, **({"rating": numbers[0]} if unnamed and len(numbers) == 1 == len(answers) else {})}
