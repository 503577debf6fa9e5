"""Logs of evaluation harnesses and trainers, converted to rows with an id, a caption and references.

They are recognized by their columns: lmms-eval, VLMEvalKit and evalscope; the completions of TRL and the rollouts of
verl; the data sets that lmms-eval reads, whose references are called ``answer``; and the tables of aac-metrics, which
have no ids. The content of cells is never executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

from captious.errors import InputError
from captious.io.columns import ID_COLUMNS, IMAGE_COLUMNS, REFERENCE_COLUMNS
from captious.io.rows import describe_value

Harness = Literal[
    "lmms-eval", "vlmevalkit", "evalscope", "trl", "verl", "lmms-lab", "aac-metrics", "dream-1k", "caparena-auto",
    "personality-captions",
]  # fmt: skip
# What the tasks of lmms-eval, and people who log an id with their rollouts, call it.
ID_KEYS = ("image_id", "video_id", "id", "question_id")


class HarnessLayout(NamedTuple):
    """The columns that identify the log of a harness, and the function that translates its rows."""

    columns: frozenset[str]
    """The columns of every row."""
    foreign: frozenset[str]
    """Columns that no row has: a table with one of them was not written by the harness."""
    translate: Callable[[Mapping[str, Any], str], dict[str, Any]]
    objects: frozenset[str] = frozenset()
    """Those of ``columns`` that contain an object, which distinguishes the log from a user's own table."""


def find_harness(fields: Mapping[str, Any]) -> Harness | None:
    """Return the harness that wrote a row, recognized by its columns, or None.

    >>> find_harness({"doc_id": 0, "filtered_resps": "a dog", "target": "['a dog']"})
    'lmms-eval'
    """
    names = fields.keys()
    for harness, layout in LAYOUTS.items():
        named = layout.columns <= names and not layout.foreign & names
        if named and all(isinstance(fields[name], Mapping) for name in layout.objects):
            return harness
    return None


def translate_row(harness: Harness, fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Convert a row of a harness to the columns ``id``, ``caption`` and ``references``; other plain columns are kept.

    Rollouts have no id if the trainer logged none; rows of aac-metrics never have one.
    """
    layout = LAYOUTS[harness]
    if missing := sorted(layout.columns - fields.keys()):
        raise InputError(f"{where}: no column {missing[0]!r}, expected one as {harness} writes it")
    if plain := [name for name in layout.objects if not isinstance(fields[name], Mapping)]:
        raise InputError(
            f"{where}: {plain[0]} is {describe_value(fields[plain[0]])}, expected an object as {harness} has it"
        )
    translated = layout.translate(fields, where)
    kept = {
        name: value
        for name, value in fields.items()
        if name not in layout.columns
        and name not in translated
        and (name in IMAGE_COLUMNS or isinstance(value, (str, int, float, bool)))
    }
    return translated | kept


def _translate_lmms_eval(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Translate a sample of lmms-eval, whose references are in the dictionaries of its metrics or printed as the
    target.

    Only a list, or a printed one, is taken as references: of some tasks the target is the word *answer*, the name of a
    column that their data do not have.
    """
    caption = fields["filtered_resps"]
    while isinstance(caption, list):
        if len(caption) != 1:
            raise InputError(f"{where}: filtered_resps contains {len(caption)} captions, expected one")
        caption = caption[0]
    dictionaries = [value for value in fields.values() if isinstance(value, Mapping) and "answer" in value]
    key = next((one[name] for one in dictionaries for name in ID_KEYS if one.get(name) is not None), fields["doc_id"])
    row = {"id": key, "caption": caption}
    if dictionaries:
        return row | {"references": dictionaries[0]["answer"]}
    target = fields.get("target")
    printed = isinstance(target, str) and target.lstrip().startswith(("[", "("))
    return row | ({"references": target} if printed or isinstance(target, list) else {})


def _translate_vlmevalkit(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Translate a row of VLMEvalKit; its answer is a list of references, usually a printed one."""
    return {"id": fields["index"], "caption": fields["prediction"], "references": fields["answer"]}


def _translate_evalscope(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Translate a review of evalscope."""
    sample = fields["sample_score"]
    score = sample.get("score") if isinstance(sample, Mapping) else None
    if not isinstance(score, Mapping) or "prediction" not in score:
        raise InputError(f"{where}: sample_score has no score with a prediction, expected one as evalscope writes it")
    row = {"id": fields["index"], "caption": score["prediction"]}
    metadata = sample.get("sample_metadata")
    references = metadata.get("references") if isinstance(metadata, Mapping) else None
    references = fields.get("target") if references is None else references
    return row | ({"references": references} if isinstance(references, list) and references else {})


def _translate_trl(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Translate a completion of TRL: a text, or chat messages, of which the last by the assistant is the caption."""
    caption = fields["completion"]
    if isinstance(caption, list):
        texts = [one.get("content") for one in caption if isinstance(one, Mapping) and one.get("role") == "assistant"]
        if not texts or not isinstance(texts[-1], str):
            raise InputError(f"{where}: completion has no text of the assistant, expected one as trl writes it")
        caption = texts[-1]
    references = next((fields[name] for name in REFERENCE_COLUMNS if fields.get(name) is not None), None)
    return _get_step_and_id(fields) | {"caption": caption} | ({} if references is None else {"references": references})


def _translate_verl(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Translate a rollout of verl; its ground truths are the references."""
    gts = fields["gts"]
    return _get_step_and_id(fields) | {"caption": fields["output"]} | ({} if gts is None else {"references": gts})


def _get_step_and_id(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the step of a rollout, and the id if the user's trainer logged one."""
    key = next((fields[name] for name in ID_KEYS if fields.get(name) is not None), None)
    return {"step": fields["step"]} | ({} if key is None else {"id": key})


def _translate_lmms_lab(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Translate a row of an lmms-lab data set: references, and the image's file or number as the id of a question."""
    from captious.io.columns import parse_image_number

    key = fields["question_id"]
    return {"id": parse_image_number(key) if isinstance(key, str) else key, "references": fields["answer"]}


def _translate_aac_metrics(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Translate a row of aac-metrics; its numbered reference columns are merged later, as for Clotho."""
    return {"caption_predicted": fields["caption_predicted"], "caption_1": fields["caption_1"]}


def _translate_dream(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Translate a video of tarsier's DREAM-1k.jsonl: the human description is the reference; its events are kept."""
    text, events = fields["text"].get("response"), fields["extra_info"].get("events")
    if not isinstance(text, str) or not isinstance(events, list):
        raise InputError(f"{where}: no text.response with extra_info.events, expected both as DREAM-1K has them")
    return {"id": fields["idx"], "references": [text], "events": events, "subset": fields.get("dataset")}


def _translate_caparena(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Translate an image of CapArena-Auto: the caption of its assigned baseline, and the human one as reference."""
    captions, baseline = fields["captions"], fields["ref_model"]
    if baseline not in captions:
        raise InputError(f"{where}: captions has no {baseline!r}, the ref_model, only {', '.join(map(str, captions))}")
    references = {"references": [captions["human"]]} if "human" in captions else {}
    return {"caption": captions[baseline], "ref_model": baseline, **references}


_OWN = frozenset({"id", "caption", "references"})
_CAPTIONED = frozenset({"caption", "candidate", "prediction", "filtered_resps"})


def _translate_personality(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Translate a row of PERSONALITY-CAPTIONS: the comment is the caption, and all comments are the references.

    The two lists of candidates are left out: they are for retrieval, and most of them describe other images.
    """
    more = fields.get("additional_comments")
    if more is not None and not isinstance(more, list):
        raise InputError(f"{where}: additional_comments is {describe_value(more)}, expected a list of texts")
    return {
        "id": fields["image_hash"],
        "caption": fields["comment"],
        "references": [fields["comment"], *(more or [])],
        "style": fields["personality"],
        "image": f"{fields['image_hash']}.jpg",
    }


LAYOUTS: dict[Harness, HarnessLayout] = {
    "personality-captions": HarnessLayout(
        frozenset({"image_hash", "personality", "comment"}), frozenset({"caption", "style"}), _translate_personality
    ),
    "lmms-eval": HarnessLayout(frozenset({"doc_id", "filtered_resps"}), _OWN, _translate_lmms_eval),
    "vlmevalkit": HarnessLayout(frozenset({"index", "answer", "prediction", "question"}), _OWN, _translate_vlmevalkit),
    "evalscope": HarnessLayout(frozenset({"index", "sample_score"}), _OWN, _translate_evalscope),
    "trl": HarnessLayout(frozenset({"step", "prompt", "completion", "advantage"}), _CAPTIONED, _translate_trl),
    "verl": HarnessLayout(frozenset({"input", "output", "gts", "score", "step"}), _CAPTIONED, _translate_verl),
    "lmms-lab": HarnessLayout(frozenset({"question_id", "answer"}), _CAPTIONED | {"references"}, _translate_lmms_lab),
    "aac-metrics": HarnessLayout(
        frozenset({"caption_predicted", "caption_1"}), frozenset(ID_COLUMNS), _translate_aac_metrics
    ),
    "dream-1k": HarnessLayout(
        frozenset({"idx", "text", "extra_info"}), _OWN, _translate_dream, objects=frozenset({"text", "extra_info"})
    ),
    "caparena-auto": HarnessLayout(
        frozenset({"captions", "ref_model"}),
        frozenset({"caption"}),
        _translate_caparena,
        objects=frozenset({"captions"}),
    ),
}
HARNESSES: tuple[str, ...] = get_args(Harness)
