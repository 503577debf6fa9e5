"""Writes the JSON Schemas of what commands print with ``--json``, from outputs of the command lines of the tests.

PYTHONPATH=. python -m lab.schemas     # writes src/captious/data/schemas.json

Run it when a result gets a new key. A schema describes what every output has: objects whose keys are data, such as
names of systems, have a schema of their values; numbers may be null if a value is missing; keys may be added later.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from tests.fuzz.cases import COMMANDS, NOT_RUN, OPTIONS, SLOTS, filled

from captious.cli.app import main as run_captious
from captious.data import DEMO

FILE = Path(__file__).resolve().parents[1] / "src/captious/data/schemas.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Keys of objects whose own keys are data: systems, metrics, statistics, classes.
MAPS = {
    *(
        "systems",
        "statistics",
        "estimates",
        "values",
        "shares",
        "thresholds",
        "reasons",
        "dropped",
        "by_class",
        "facts",
    ),
    *("classifiers", "captioners", "examined", "recall", "environment", "labels", "by_length", "errors", "layouts"),
    *("by_units", "factors", "options", "flags", "agreement", "objects", "styles", "fit", "orders"),
}
# What every result has.
COMMON = {
    "captious": "Version of captious.",
    "environment": "Versions of Python and of the packages that were used.",
    "title": "What the result is, in words.",
    "answer": "What follows from the result, in one or two sentences.",
    "warnings": "What a reader must know before using the numbers; also printed on standard error.",
    "notes": "Further remarks.",
    "signatures": "Everything that can change the numbers; see the guide How to read a signature.",
}
LINES = {"make units"}  # a JSON object on each line
# The command lines of the tests have eight small captions; these have the demo set.
REFERENCES = f"-r {DEMO / 'references.json'}"
EXPERT, SOLID, RATINGS = (
    DEMO / name for name in ("predictions/expert.json", "predictions/solid.json", "ratings.jsonl")
)
DEMO_LINES = {
    "score": f"{EXPERT} {REFERENCES}",
    "compare": f"{SOLID} {EXPERT} {REFERENCES}",
    "gate": f"{SOLID} {EXPERT} {REFERENCES} --metrics cider --margin 5%",
    "check": f"{EXPERT} {REFERENCES}",
    "study run": f"{RATINGS} {REFERENCES} --metrics rouge,cider --samples 100 --permutations 50",
    "study systems": f"{RATINGS} --samples 100",
    "study advise": f"{EXPERT} {REFERENCES}",
    "study power": "--difference 0.05 --items 60",
    "bias lic": f"{DEMO / 'bias.jsonl'} --label label --mask gender --seeds 1",
    "metrics": "",
}


def list_commands() -> dict[str, list[str]]:
    """The correct command lines of the tests, for every command with ``--json``."""
    return {
        name: [line for line in lines if "{weights}" not in line]
        for name, lines in COMMANDS.items()
        if name not in NOT_RUN and any(param.name == "json" for param in OPTIONS[name])
    }


def run_line(name: str, line: str, folder: Path) -> list[Any]:
    """Run a command line with ``--json`` in a folder, and return what it printed."""
    words = line.split()
    slots = {slot: SLOTS[slot].right(folder, slot) for slot in SLOTS if f"{{{slot}}}" in line}
    arguments = [filled(word, {**slots, "out": str(folder / "out")}) for word in words]
    arguments += [] if "--json" in arguments else ["--json"]
    printed, errors = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["captious", *name.split(), *arguments]),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(errors),
        contextlib.suppress(SystemExit),
    ):
        run_captious()
    text = printed.getvalue()
    if not text:
        raise ValueError(f"{name} {line} printed nothing: {errors.getvalue()}")
    return [json.loads(part) for part in (text.splitlines() if name in LINES else [text])]


def infer(values: Sequence[Any], key: str = "") -> dict[str, Any]:
    """Return a schema that all values satisfy."""
    schema: dict[str, Any] = {}
    kinds = {_kind(value) for value in values}
    if kinds <= {"null"}:
        return schema  # nothing is known of other values
    if "integer" in kinds and "number" in kinds:
        kinds.remove("integer")
    # A value may be missing elsewhere, with a reason beside it.
    kinds |= {"null"} if kinds & {"number", "integer"} else set()
    schema["type"] = sorted(kinds) if len(kinds) > 1 else next(iter(kinds))
    if objects := [value for value in values if isinstance(value, dict)]:
        schema |= _infer_object(objects, key)
    if elements := [element for value in values if isinstance(value, list) for element in value]:
        schema["items"] = infer(elements, key)
    return schema


def _infer_object(objects: Sequence[dict[str, Any]], key: str) -> dict[str, Any]:
    fields = {
        name: None for one in objects for name in one if key not in MAPS and re.fullmatch("[a-z][a-z0-9_]*", name)
    }
    data = [value for one in objects for name, value in one.items() if name not in fields]
    schema: dict[str, Any] = {}
    if fields:
        schema["properties"] = {
            name: infer([one[name] for one in objects if name in one], name) for name in sorted(fields)
        }
        schema["required"] = sorted(name for name in fields if all(name in one for one in objects))
    if data:
        schema["additionalProperties"] = infer(data)
    return schema


def _kind(value: Any) -> str:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return "null" if value is None else kinds[type(value)]


def make_schema(name: str, outputs: Sequence[Any]) -> dict[str, Any]:
    """Return the schema of a command, with words about the keys that every result has."""
    schema = infer(outputs)
    for key, words in COMMON.items():
        if key in schema.get("properties", {}):
            schema["properties"][key]["description"] = words
    each = ", one object on each line" if name in LINES else ""
    return {"$schema": DIALECT, "title": f"captious {name} --json{each}", **schema}


def _collect() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, lines in list_commands().items():
        outputs = []
        for line in (*lines, *([DEMO_LINES[name]] if name in DEMO_LINES else [])):
            with tempfile.TemporaryDirectory() as folder, contextlib.suppress(ValueError, TypeError):
                outputs += run_line(name, line, Path(folder))
        yield name, make_schema(name, outputs)


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"CAPTIOUS_HOME": home, "CAPTIOUS_PAINTERS": "lab.toy.painter:drawn"}
        schemas = dict(_collect())
    FILE.write_text(json.dumps(schemas, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
