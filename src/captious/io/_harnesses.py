"""Logs of evaluation harnesses as rows with an id, a caption and its references: lmms-eval, VLMEvalKit, evalscope.

A harness is recognized by the names of its columns. Nothing that stands in a cell is ever executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

from captious.errors import InputError

Harness = Literal["lmms-eval", "vlmevalkit", "evalscope"]
ID_KEYS = ("image_id", "video_id", "id", "question_id")
"""What the tasks of lmms-eval call the id of an item."""


class HarnessLayout(NamedTuple):
    """How the log of a harness is recognized, and what a row of it says."""

    columns: frozenset[str]
    """All of them are in every row."""
    foreign: frozenset[str]
    """None of them is: such a table is somebody's own."""
    translate: Callable[[Mapping[str, Any], str], dict[str, Any]]


def harness_of(fields: Mapping[str, Any]) -> Harness | None:
    """The harness that wrote a row, by the names of its columns.

    >>> harness_of({"doc_id": 0, "filtered_resps": "a dog", "target": "['a dog']"})
    'lmms-eval'
    """
    names = fields.keys()
    return next(
        (one for one, (columns, foreign, _) in LAYOUTS.items() if columns <= names and not foreign & names), None
    )


def translated(harness: Harness, fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The columns of a row that a harness wrote as ``id``, ``caption`` and ``references``; other plain ones stay."""
    layout = LAYOUTS[harness]
    if lacking := sorted(layout.columns - fields.keys()):
        raise InputError(f"{where}: no column {lacking[0]!r}, expected one as {harness} writes it")
    meant = layout.translate(fields, where)
    kept = {
        name: value
        for name, value in fields.items()
        if name not in layout.columns and name not in meant and isinstance(value, (str, int, float, bool))
    }
    return meant | kept


def _lmms_eval(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A sample of lmms-eval. Its references are in the dictionaries of its metrics, or are printed as the target.

    For some tasks the target is the name of a column that is not there, the word *answer*: it is no reference.
    """
    caption = fields["filtered_resps"]
    while isinstance(caption, list):
        if len(caption) != 1:
            raise InputError(f"{where}: filtered_resps holds {len(caption)} captions, expected one")
        caption = caption[0]
    measured = [value for value in fields.values() if isinstance(value, Mapping) and "answer" in value]
    key = next((one[name] for one in measured for name in ID_KEYS if one.get(name) is not None), fields["doc_id"])
    meant = {"id": key, "caption": caption}
    if measured:
        return meant | {"references": measured[0]["answer"]}
    target = fields.get("target")
    printed = isinstance(target, str) and target.lstrip().startswith(("[", "("))
    return meant | ({"references": target} if printed or isinstance(target, list) else {})


def _vlmevalkit(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A row of VLMEvalKit's tables; its answer is a list of references, in most of them a printed one."""
    return {"id": fields["index"], "caption": fields["prediction"], "references": fields["answer"]}


def _evalscope(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A review of evalscope."""
    sample = fields["sample_score"]
    score = sample.get("score") if isinstance(sample, Mapping) else None
    if not isinstance(score, Mapping) or "prediction" not in score:
        raise InputError(f"{where}: sample_score has no score with a prediction, expected one as evalscope writes it")
    meant = {"id": fields["index"], "caption": score["prediction"]}
    metadata = sample.get("sample_metadata")
    references = metadata.get("references") if isinstance(metadata, Mapping) else None
    return meant | ({} if references is None else {"references": references})


_OWN = frozenset({"id", "caption", "references"})
LAYOUTS: dict[Harness, HarnessLayout] = {
    "lmms-eval": HarnessLayout(frozenset({"doc_id", "filtered_resps"}), _OWN, _lmms_eval),
    "vlmevalkit": HarnessLayout(frozenset({"index", "answer", "prediction", "question"}), _OWN, _vlmevalkit),
    "evalscope": HarnessLayout(frozenset({"index", "sample_score"}), _OWN, _evalscope),
}
HARNESSES: tuple[str, ...] = get_args(Harness)
