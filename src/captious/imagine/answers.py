"""What raters filled in: every thing of a task answered with yes or no, once by each rater."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from captious.errors import InputError
from captious.readers.rows import Row, name_of, rows_of

PICTURE = ("painter", "text", "seed", "picture")


def read_answers(sources: Iterable[str]) -> list[dict[str, Any]]:
    """Filled-in tasks; every entity of a row answered with true or false. Who is not named is called as the file."""
    found, first = [], dict[str, str]()
    for source in sources:
        for row in rows_of(source):
            _check(row)
            who = {key: str(row.fields.get(key) or name_of(source)) for key in ("painter", "rater")}
            answered = {**row.fields, **who}
            task = json.dumps([answered.get(key) for key in ("rater", *PICTURE)], default=str)
            if answered.get("picture") is not None and task in first:
                raise InputError(
                    f"{row.where}: rater {who['rater']!r} answered {answered['picture']} in {first[task]} already"
                )
            first[task] = row.where
            found.append(answered)
    if not found:
        raise InputError("no answers: the files hold no rows")
    return found


def _check(row: Row) -> None:
    """Whether a row answers what it asks, no more and no less."""
    seen, asked = row.fields.get("seen"), row.fields.get("entities")
    if not isinstance(seen, Mapping) or not seen:
        raise InputError(f"{row.where}: no answers: expected seen, such as {{'dog': true, 'tree': false}}")
    for thing, answer in seen.items():
        if not isinstance(answer, bool):
            raise InputError(f"{row.where}: {thing!r} is answered {answer!r}, expected true or false")
    if isinstance(asked, list) and {*map(str, asked)} != {*seen}:
        told = ", ".join(map(repr, asked))
        raise InputError(f"{row.where}: answers for {', '.join(map(repr, seen))}, expected the entities {told}")
