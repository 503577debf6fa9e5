"""Logs of harnesses and trainers as rows with an id, a caption and its references, recognized by their columns.

lmms-eval, VLMEvalKit and evalscope; the completions of TRL and the rollouts of verl; the data sets that lmms-eval
reads, whose references are called ``answer``; the tables of aac-metrics, which have no ids; and the files of DREAM-1K
and CapArena-Auto as their authors published them. Nothing that stands in a cell is ever executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

from captious.errors import InputError
from captious.io.columns import ID_COLUMNS, IMAGE_COLUMNS, REFERENCE_COLUMNS
from captious.io.rows import described

Harness = Literal[
    "lmms-eval", "vlmevalkit", "evalscope", "trl", "verl", "lmms-lab", "aac-metrics", "dream-1k", "caparena-auto",
]  # fmt: skip
ID_KEYS = ("image_id", "video_id", "id", "question_id")
"""What the tasks of lmms-eval, and people who log an id with their rollouts, call it."""


class HarnessLayout(NamedTuple):
    """How the log of a harness is recognized, and what a row of it says."""

    columns: frozenset[str]
    """All of them are in every row."""
    foreign: frozenset[str]
    """None of them is: such a table is somebody's own."""
    translate: Callable[[Mapping[str, Any], str], dict[str, Any]]
    objects: frozenset[str] = frozenset()
    """Those of ``columns`` that contain an object; in a table of one's own they may contain anything."""


def harness_of(fields: Mapping[str, Any]) -> Harness | None:
    """The harness that wrote a row, by the names of its columns.

    >>> harness_of({"doc_id": 0, "filtered_resps": "a dog", "target": "['a dog']"})
    'lmms-eval'
    """
    names = fields.keys()
    for harness, layout in LAYOUTS.items():
        named = layout.columns <= names and not layout.foreign & names
        if named and all(isinstance(fields[name], Mapping) for name in layout.objects):
            return harness
    return None


def translated(harness: Harness, fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The columns of a row that a harness wrote as ``id``, ``caption`` and ``references``; other plain ones stay.

    Rollouts whose trainer logged no id have none, nor have the rows of aac-metrics.
    """
    layout = LAYOUTS[harness]
    if lacking := sorted(layout.columns - fields.keys()):
        raise InputError(f"{where}: no column {lacking[0]!r}, expected one as {harness} writes it")
    if plain := [name for name in layout.objects if not isinstance(fields[name], Mapping)]:
        raise InputError(
            f"{where}: {plain[0]} is {described(fields[plain[0]])}, expected an object as {harness} has it"
        )
    meant = layout.translate(fields, where)
    kept = {
        name: value
        for name, value in fields.items()
        if name not in layout.columns
        and name not in meant
        and (name in IMAGE_COLUMNS or isinstance(value, (str, int, float, bool)))
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
    references = fields.get("target") if references is None else references
    return meant | ({"references": references} if isinstance(references, list) and references else {})


def _trl(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A completion of TRL: a text, or the messages of a chat, of which the last one of the assistant is the caption."""
    caption = fields["completion"]
    if isinstance(caption, list):
        texts = [one.get("content") for one in caption if isinstance(one, Mapping) and one.get("role") == "assistant"]
        if not texts or not isinstance(texts[-1], str):
            raise InputError(f"{where}: completion has no text of the assistant, expected one as trl writes it")
        caption = texts[-1]
    references = next((fields[name] for name in REFERENCE_COLUMNS if fields.get(name) is not None), None)
    return _logged(fields) | {"caption": caption} | ({} if references is None else {"references": references})


def _verl(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A rollout of verl; its ground truths are the references."""
    gts = fields["gts"]
    return _logged(fields) | {"caption": fields["output"]} | ({} if gts is None else {"references": gts})


def _logged(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The step of a rollout, and the id that the trainer's user logged with it."""
    key = next((fields[name] for name in ID_KEYS if fields.get(name) is not None), None)
    return {"step": fields["step"]} | ({} if key is None else {"id": key})


def _lmms_lab(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A row of a data set of lmms-lab: the references, and the image's file or number as the id of a question."""
    from captious.io.images import image_number

    key = fields["question_id"]
    return {"id": image_number(key) if isinstance(key, str) else key, "references": fields["answer"]}


def _aac_metrics(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A row of aac-metrics; the references stand in columns with numbers, which are read as those of Clotho are."""
    return {"caption_predicted": fields["caption_predicted"], "caption_1": fields["caption_1"]}


def _dream(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A video of tarsier's DREAM-1k.jsonl: the human description is the reference, and its events go with it."""
    text, events = fields["text"].get("response"), fields["extra_info"].get("events")
    if not isinstance(text, str) or not isinstance(events, list):
        raise InputError(f"{where}: no text.response with extra_info.events, expected both as DREAM-1K has them")
    return {"id": fields["idx"], "references": [text], "events": events, "subset": fields.get("dataset")}


def _caparena(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """An image of CapArena-Auto: the caption of the baseline that it is assigned, and the human one as reference."""
    captions, baseline = fields["captions"], fields["ref_model"]
    if baseline not in captions:
        raise InputError(f"{where}: captions has no {baseline!r}, the ref_model, only {', '.join(map(str, captions))}")
    references = {"references": [captions["human"]]} if "human" in captions else {}
    return {"caption": captions[baseline], "ref_model": baseline, **references}


_OWN = frozenset({"id", "caption", "references"})
_CAPTIONED = frozenset({"caption", "candidate", "prediction", "filtered_resps"})
LAYOUTS: dict[Harness, HarnessLayout] = {
    "lmms-eval": HarnessLayout(frozenset({"doc_id", "filtered_resps"}), _OWN, _lmms_eval),
    "vlmevalkit": HarnessLayout(frozenset({"index", "answer", "prediction", "question"}), _OWN, _vlmevalkit),
    "evalscope": HarnessLayout(frozenset({"index", "sample_score"}), _OWN, _evalscope),
    "trl": HarnessLayout(frozenset({"step", "prompt", "completion", "advantage"}), _CAPTIONED, _trl),
    "verl": HarnessLayout(frozenset({"input", "output", "gts", "score", "step"}), _CAPTIONED, _verl),
    "lmms-lab": HarnessLayout(frozenset({"question_id", "answer"}), _CAPTIONED | {"references"}, _lmms_lab),
    "aac-metrics": HarnessLayout(frozenset({"caption_predicted", "caption_1"}), frozenset(ID_COLUMNS), _aac_metrics),
    "dream-1k": HarnessLayout(
        frozenset({"idx", "text", "extra_info"}), _OWN, _dream, objects=frozenset({"text", "extra_info"})
    ),
    "caparena-auto": HarnessLayout(
        frozenset({"captions", "ref_model"}), frozenset({"caption"}), _caparena, objects=frozenset({"captions"})
    ),
}
HARNESSES: tuple[str, ...] = get_args(Harness)
