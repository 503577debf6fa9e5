"""Benchmarks whose rows are not single judgments: clips of FENSE, battles of CapArena, aspects of LongCap-Arena."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.io.formats import read_rows, read_text
from captious.io.join import check_text, describe_value, refuse
from captious.study.rating_files import Record, References, read_number

# References of a caption in FENSE's protocol; of fewer, the first ones are taken again.
LEAST = 4
# Pairs with a caption that people wrote: of two people, of another clip, of a machine.
HUMAN_PAIRS = ("HC", "HI", "HM")
# Verdicts of CapArena that name neither caption; the authors' numbers take all three for ties.
TIES = ("equal", "skip", "bad")
# The aspects of LongCap-Arena by the beginning of their files.
ASPECTS = {"desc": "descriptiveness", "rel": "relevance", "flu": "fluency"}
CLIP = "a clip: {audio_id, references, HC, HI, HM, MM_1, …}"


def read_audio_pairs(path: Path | str, dropped: Counter[str]) -> Iterator[Record]:
    """Read the pairs of AudioCaps-Eval or Clotho-Eval, each caption with its own references.

    A pair is a list of two captions, their sources and the votes: 1 for the first caption, −1 for the second, 0 for
    neither; the sign of their sum is the preference. A human caption is not a reference of itself. Two machines are
    compared with every choice of all references but one. Pairs that are null, as 62 of AudioCaps-Eval are, were not
    judged: they are left out and counted.
    """
    for index, clip in enumerate(_read_json_list(path), 1):
        where = f"{path}: clip {index}"
        if not isinstance(clip, dict) or not isinstance(clip.get("references"), list):
            raise InputError(f"{where}: is {describe_value(clip)}, expected {CLIP}")
        references = [_check_text(one, where, "reference") for one in clip["references"]]
        key = str(next((clip[name] for name in ("audio_id", "raw_name", "file_name") if clip.get(name)), index))
        for facet in (*HUMAN_PAIRS, *sorted(name for name in clip if name.startswith("MM_"))):
            if facet in clip and clip[facet] is None:
                dropped["the pair is null"] += 1
            elif facet in clip:
                yield _read_audio_pair(clip[facet], facet, key, references, f"{where}, {facet}")


def _read_audio_pair(entry: Any, facet: str, key: str, references: Sequence[str], where: str) -> Record:
    votes = entry[-1] if isinstance(entry, list) and len(entry) > 2 else None
    if not isinstance(votes, list) or not all(type(vote) is int and vote in (-1, 0, 1) for vote in votes):
        raise InputError(
            f"{where}: is {describe_value(entry)}, expected two captions, their sources and a list of votes"
        )
    first, second = (_check_text(text, where, "caption") for text in entry[:2])
    total = sum(votes)
    human = facet in HUMAN_PAIRS
    lists: list[References]
    if human:
        without = first, second if facet == "HC" else first
        lists = [(_repeat_texts(LEAST, [one for one in references if one != own]),) for own in without]
    else:
        choices = tuple(tuple(references[:one]) + tuple(references[one + 1 :]) for one in range(len(references)))
        lists = [choices, choices]
    return Record(
        where,
        key,
        (first, second),
        {str(rater): (1 - vote) / 2 for rater, vote in enumerate(votes, 1)},
        tuple(references),
        id=f"{key}/{facet}",
        category=facet if human else "MM",
        preferred=None if total == 0 else float(total < 0),
        compared_with=(lists[0], lists[1]),
        corpus="human" if human else "machine",
    )


def _repeat_texts(number: int, texts: list[str]) -> tuple[str, ...]:
    """Repeat the first texts until there are ``number`` of them."""
    return tuple(texts[index % len(texts)] for index in range(max(number, len(texts)))) if texts else ()


def read_battles(path: Path | str, dropped: Counter[str]) -> Iterator[Record]:
    """Read the battles of CapArena: two captions of an image, and the source that won, or a word for a tie."""
    for row in read_rows(path, role="ratings"):
        fields = row.fields
        lacking = [
            name for name in ("img", "source1", "source2", "caption1", "caption2", "winner") if name not in fields
        ]
        if lacking:
            raise InputError(f"{row.where}: found columns {', '.join(fields)}, expected {lacking[0]} too")
        sources = str(fields["source1"]), str(fields["source2"])
        winner = str(fields["winner"])
        if winner not in (*sources, *TIES):
            expected = ", ".join((*sources, *TIES))
            raise InputError(f"{row.where}: winner is {winner[:40]!r}, expected one of {expected}")
        captions = tuple(_check_text(fields[name], row.where, name) for name in ("caption1", "caption2"))
        reference = fields.get("ref")
        yield Record(
            row.where,
            str(fields["img"]),
            captions,
            references=(_check_text(reference, row.where, "ref"),) if reference else (),
            category=None if fields.get("cluster") in (None, "") else str(fields["cluster"]),
            preferred=None if winner in TIES else float(winner == sources[1]),
            rater=None if fields.get("judge") in (None, "") else str(fields["judge"]),
            systems=sources,
        )


def read_longcap(path: Path, dropped: Counter[str]) -> Iterator[Record]:
    """Read ratings of LongCap-Arena: descriptiveness, with the other aspects of the same captions if their files exist.

    The files are called ``desc_….csv``, ``rel_….csv`` and ``flu_….csv``.
    """
    aspects = {name: path.with_name(path.name.replace("desc", short, 1)) for short, name in ASPECTS.items()}
    others = {
        name: {_get_longcap_key(one): one for one in map(_read_longcap_row, read_rows(file, role="ratings"))}
        for name, file in aspects.items()
        if file != path and file.is_file()
    }
    for record in map(_read_longcap_row, read_rows(path, role="ratings")):
        further = {name: rows.get(_get_longcap_key(record)) for name, rows in others.items()}
        yield replace(
            record, aspects={name: dict(one.ratings) if one is not None else {} for name, one in further.items()}
        )


def _read_longcap_row(row: Any) -> Record:
    fields: Mapping[str, Any] = row.fields
    lacking = [name for name in ("file_name", "refs", "cand", "score") if name not in fields]
    if lacking:
        raise InputError(f"{row.where}: found columns {', '.join(fields)}, expected {lacking[0]} too")
    references = fields["refs"] if isinstance(fields["refs"], list) else [fields["refs"]]
    return Record(
        row.where,
        str(fields["file_name"]),
        (_check_text(fields["cand"], row.where, "cand"),),
        {"": read_number(fields["score"], row.where, "score")},
        tuple(_check_text(one, row.where, "reference") for one in references),
    )


def _get_longcap_key(record: Record) -> tuple[str, str]:
    return record.image, record.captions[0]


def _read_json_list(path: Path | str) -> list[Any]:
    try:
        data = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON that can be read ({str(error)[:80]})") from None
    if not isinstance(data, list):
        raise InputError(f"{path}: contains {describe_value(data)}, expected a list of clips, each {CLIP}")
    return data


def _check_text(value: Any, where: str, what: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where}: {what} is {describe_value(value)}, expected a string")
    return check_text(value, where, what, refuse) or ""


# The reader of each format; it counts what it leaves out.
READERS: Mapping[str, Callable[[Path, Counter[str]], Iterator[Record]]] = {
    "audio-eval": read_audio_pairs,
    "caparena": read_battles,
    "longcap": read_longcap,
}
