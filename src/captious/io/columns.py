"""Column names, the same for every command, and the choice of the caption column."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from captious.io.printed import parse_printed_list
from captious.options import Reading

# Columns of the image file; a caption set always calls it `image`.
IMAGE_COLUMNS = ("image", "file_name", "filename", "image_path", "path")
# The reason of an item without an image or video, in messages.
NO_SUCH = "no such image"
NO_VIDEO = "no such video"
# Column of the sound file.
AUDIO_COLUMN = "audio"
# Columns of the video; a caption set always calls it `video`.
VIDEO_COLUMNS = ("video", "video_path", "clip")
# Suffixes of video files: a column of IMAGE_COLUMNS other than `image` with such a file is renamed to `video`.
VIDEO_SUFFIXES = (".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".mpg", ".mpeg", ".ogv", ".gif")
# Suffixes of files with vectors of a video's frames.
VECTOR_SUFFIXES = (".npy", ".npz")
# Suffixes of sound files: a column of IMAGE_COLUMNS with such a file is renamed to `audio`.
AUDIO_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".m4a", ".aac")
# Ids of audio clips. An `audiocap_id` identifies a caption, not a clip, so it comes last.
AUDIO_ID_COLUMNS = ("youtube_id", "audio_id", "sound_id", "audiocap_id")
ID_COLUMNS = (
    *("image_id", "id", "item_id", "item", "key", "uid", "sample_id", "__key__", "cocoid", "img_id"),
    *("video_id", *AUDIO_ID_COLUMNS, *IMAGE_COLUMNS, AUDIO_COLUMN, *VIDEO_COLUMNS[:2], "url"),
)
CAPTION_LIST_COLUMNS = ("candidates", "captions", "predictions")
CANDIDATE_COLUMNS = (
    "candidate",
    "candidates",
    "caption",
    "captions",
    "prediction",
    "predictions",
    "hypothesis",
    "text",
    "caption_predicted",
)
CAPTION_COLUMNS = tuple(name for name in CANDIDATE_COLUMNS if name not in CAPTION_LIST_COLUMNS)
# The last three are from data sets on Hugging Face: Karpathy's splits, NoCaps, TextCaps.
REFERENCE_COLUMNS = ("references", "reference", "refs", "ref", "sentences", "annotations_captions", "caption_str")
STYLE_COLUMN = "style"
# List of the objects in the image, for metrics of hallucination.
OBJECT_COLUMN = "objects"
# Dense captions of videos: [start, end] in seconds of each candidate and of each reference.
EVENT_COLUMN = "events"
REFERENCE_EVENT_COLUMN = "reference_events"
# The number of the file that each reference of a video comes from, from 0.
REFERENCE_FILE_COLUMN = "reference_files"
DURATION_COLUMN = "duration"
# The sentences that a predicted paragraph was joined from.
SENTENCE_COLUMN = "candidate_sentences"
# True for a video without predictions that counts 0.
WITHOUT_PREDICTION_COLUMN = "without_prediction"
UNIT_COLUMNS = ("units",)
WRONG_UNIT_COLUMNS = ("wrong_units", "negative_units")

# Id of a rated caption.
ITEM_COLUMNS = ("id", "item_id", "key")
# Columns with the same value for all rated captions of an image.
GROUP_COLUMNS = ("image", "image_id", "group", "item", *IMAGE_COLUMNS[1:])
RATING_COLUMNS = ("ratings", "rating", "human", "human_score", "score", "scores")
SYSTEM_COLUMNS = ("system", "captioner", "model", "SYS")
# List of the two systems of a pair of captions.
PAIR_SYSTEM_COLUMNS = ("systems",)
RATER_COLUMNS = ("rater", "worker", "annotator")

# Names that can only mean the captions to score.
OWN_COLUMNS = ("candidate", "candidates")
# Names of candidates or references: a list next to a single text is the references.
GENERIC_COLUMNS = ("caption", "captions", "text")
# Inputs of a model.
INPUT_COLUMNS = ("question", "prompt", "instruction", "query", "input", "context", "source", "language")
AMBIGUOUS = "could be the caption"


def choose_columns(
    sample: Sequence[Mapping[str, Any]], reading: Reading, complain: Callable[[str], None], where: str
) -> Reading:
    """Set the columns of the captions and references if several columns of a file qualify.

    A list next to a single text is the references. If two columns could be the caption, the user has to choose.
    """
    names = dict.fromkeys(name for fields in sample for name in fields)
    usual = [name for name in CANDIDATE_COLUMNS if name in names and name != reading.references_column]
    lists = [name for name in usual if name in GENERIC_COLUMNS and _has_lists(sample, name)]
    texts = [name for name in usual if name not in lists]
    referenced = reading.references_column is not None or not names.keys().isdisjoint(REFERENCE_COLUMNS)
    chosen = reading.candidate_column
    if chosen is None:
        own = [name for name in OWN_COLUMNS if name in names]
        choices = own[:1] or texts or lists
        if lists and not texts and not referenced:
            choices = [*lists, *_find_prose(sample, names)]
        if len(choices) > 1:
            options = " or ".join(f"reading=Reading(candidate_column={name!r})" for name in choices[:4])
            named = " and ".join(f"`{name}`" for name in choices[:4])
            complain(f"{where}: {named} {AMBIGUOUS} to score; pass {options}, and references_column=... for the other")
        if len(usual) < 2:
            return reading
        chosen = choices[0]
    lists = [name for name in lists if name != chosen]
    if referenced or reading.references is not None or not lists:
        return reading if reading.candidate_column == chosen else replace(reading, candidate_column=chosen)
    return replace(reading, candidate_column=chosen, references_column=lists[0])


def choose_references_column(
    sample: Sequence[Mapping[str, Any]], reading: Reading, complain: Callable[[str], None], where: str
) -> Reading:
    """Set the references column if a references file has several caption columns; columns of lists are preferred."""
    names = dict.fromkeys(name for fields in sample for name in fields)
    usual = [name for name in CANDIDATE_COLUMNS if name in names]
    if reading.references_column is not None or len(usual) < 2 or not names.keys().isdisjoint(REFERENCE_COLUMNS):
        return reading
    generic = [name for name in usual if name in GENERIC_COLUMNS]
    choices = [name for name in generic if _has_lists(sample, name)] or generic or usual
    if len(choices) > 1:
        options = " or ".join(f"reading=Reading(references_column={name!r})" for name in choices)
        complain(f"{where}: {' and '.join(f'`{name}`' for name in choices)} could be the references; pass {options}")
    return replace(reading, references_column=choices[0])


def _has_lists(sample: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Return True if the first value of a column is a list or a printed list."""
    value = next((fields[name] for fields in sample if fields.get(name) is not None), None)
    if isinstance(value, str):
        return bool(parse_printed_list(value))
    return isinstance(value, (list, tuple)) or hasattr(value, "tolist")  # an array; NumPy is slow to import


def _find_prose(sample: Sequence[Mapping[str, Any]], names: Mapping[str, Any]) -> list[str]:
    """Find other columns whose texts look like captions: several words each, and mostly distinct."""
    known = {*ID_COLUMNS, *CANDIDATE_COLUMNS, *REFERENCE_COLUMNS, *INPUT_COLUMNS, STYLE_COLUMN, *RATER_COLUMNS}
    prose = []
    for name in names:
        values = [] if name in known else [fields.get(name) for fields in sample]
        # Some data sets have each output of a model in a list of its own.
        single = [value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value for value in values]
        texts = [value for value in single if isinstance(value, str) and len(value.split()) > 2]
        if len(texts) > 0.5 * len(values) and len(set(texts)) > 0.5 * len(texts):
            prose.append(name)
    return prose


# Name of a COCO image; its last twelve digits are the number.
COCO_NAME = re.compile(r"(?:.*_)?(\d{12})")


def parse_image_number(name: str) -> str:
    """Return the number of a COCO image, given the number, a file name or a path; any other name unchanged.

    >>> names = ("391895", "val2014/COCO_val2014_000000391895.jpg", "000000391895", "cat.jpg")
    >>> [parse_image_number(name) for name in names]
    ['391895', '391895', '391895', 'cat.jpg']
    """
    stem = Path(name).stem
    match = COCO_NAME.fullmatch(stem)
    digits = match[1] if match else stem
    return digits.lstrip("0") or "0" if digits.isdecimal() else name
