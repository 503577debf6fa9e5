"""Dataclasses from TOML and JSON: every value has the type of its field, and a mistake is one line."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from captious._core.records import from_json, parse_record, parse_toml, rule
from captious.errors import InputError


@dataclass(frozen=True)
class Limits:
    low: float = 0.0
    high: float = field(default=1.0, metadata=rule(low=0, high=10))


@dataclass(frozen=True)
class Question:
    text: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Survey:
    title: str = field(metadata=rule("a line of text"))
    kind: Literal["open", "closed"] = "open"
    size: tuple[int, int] | None = None
    files: str | tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    limits: Limits = field(default_factory=Limits)
    path: Path = field(default=Path(), metadata=rule(hidden=True))
    notes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


def survey(text, **given):
    return parse_record(Survey, parse_toml(text, "s.toml", "survey"), "s.toml", **given)


def test_tables_become_dataclasses_and_lists_become_tuples():
    text = 'title = "Dogs"\nsize = [2, 3]\nfiles = ["a", "b"]\n[limits]\nhigh = 2\n[[questions]]\ntext = "Why?"\n'
    expected = Survey("Dogs", "open", (2, 3), ("a", "b"), (Question("Why?"),), Limits(0.0, 2), Path("x"))
    assert survey(text, path=Path("x")) == expected
    assert survey('title = "Dogs"\nfiles = "a"').files == "a"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.toml: no title, expected a line of text"),
        ('title = " "', "s.toml: no title, expected a line of text"),
        ("title = 3", "s.toml: title = 3, expected a line of text"),
        ('title = "x"\npath = "y"', "s.toml: unknown key path, known: title, kind, size, files, questions"),
        ('title = "x"\nkind = "opn"', "s.toml: kind = 'opn', expected one of open, closed; did you mean 'open'?"),
        ('title = "x"\nsize = [1]', "s.toml: size = [1], expected"),
        ('title = "x"\nsize = [true, 2]', "s.toml: size = [True, 2], expected"),
        ('title = "x"\nquestions = 3', "s.toml: questions = 3, expected"),
        ('title = "x"\n[[questions]]\nchoices = ["a"]', "s.toml: [[questions]] 1: no text, expected a text in"),
        ('title = "x"\n[limits]\nhigh = 11', "s.toml: [limits]: high = 11, expected a number from 0 to 10"),
        ('title = "x"\n[limits]\nlow = inf', "s.toml: [limits]: low = inf, expected a number"),
        ("title = ", "s.toml: not a survey in TOML (Invalid value"),
        ("a = " + "[" * 5000, "s.toml: not a survey in TOML"),
    ],
)
def test_a_mistake_is_one_line(text, message):
    with pytest.raises(InputError) as caught:
        survey(text)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_json_gives_back_what_it_was_made_from():
    whole = Survey("Dogs", size=(2, 3), questions=(Question("Why?", ("a", "b")),), notes={"x": (1.5, 2)})
    data = json.loads(json.dumps({**asdict(whole), "path": "."}))
    assert from_json(Survey, data) == whole
    assert from_json(Survey, {**data, "of a later version": 1}) == whole
    assert from_json(Question, ["Why?", ["a"]]) == Question("Why?", ("a",))


@pytest.mark.parametrize(
    "change", [{"title": 3}, {"size": "big"}, {"questions": {"text": "Why?"}}, {"limits": 3}, {"kind": "opn"}]
)
def test_json_of_another_type_is_refused(change):
    with pytest.raises(ValueError, match="expected"):
        from_json(Survey, {"title": "Dogs", **change})
    with pytest.raises(ValueError, match="title is missing, expected a text"):
        from_json(Survey, {})
