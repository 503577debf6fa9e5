"""Reader of WebDataset tars: members with the same key (the path up to the first dot of the file name) form a sample.

Headers are parsed here instead of by ``tarfile``, so that unwanted images are not read, and because ``tarfile`` stops
at the first damage without reporting the members before it.
"""

from __future__ import annotations

import io
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import IO, Any, NamedTuple

from captious.captions import VIDEO, FileImage, FileParts, FileVideo, VideoData
from captious.errors import InputError
from captious.io.columns import CANDIDATE_COLUMNS, IMAGE_COLUMNS
from captious.io.json_layouts import parse_json_row
from captious.io.rows import Row, decode_text
from captious.options import Reading

# Suffixes of caption files, in order of preference.
CAPTION_ENDINGS = ("txt", "caption", "cap")
IMAGE_ENDINGS = ("jpg", "jpeg", "png", "webp", "gif", "bmp")
# Suffixes of videos, and of vectors of their frames.
VIDEO_ENDINGS = ("mp4", "webm", "mkv", "mov", "m4v", "avi", "npy", "npz")
# Several images of a sample, such as `000.0.jpg` and `000.1.jpg`: the frames of a video, if frames are asked for.
_NUMBERED_IMAGE = re.compile(rf"(\d+)\.({'|'.join(IMAGE_ENDINGS)})")
FIELDS_ENDING = "json"
# Column of a sample's key; a JSON field of that name takes precedence.
KEY = "__key__"

TRUNCATED, DAMAGED, AFTER_END = "truncated tar", "damaged tar", "content after the end of a tar"
NO_CAPTION, NO_CAPTION_FILE = "no candidate caption", "no caption file, where other samples have one"
NO_UTF8, NO_JSON = "caption is not UTF-8", "JSON cannot be read"
NULL = "caption contains a null character"
WRONG_VECTORS = "vectors of frames cannot be used"
NUMBERED = "numbered images, not read"
TWICE, WRONG_SIZE = "member occurs twice", "member has another size than its header says"
BLOCK = 512

# Callback for faults, called with the reason and an example.
Report = Callable[[str, str], None]


class TarMember(NamedTuple):
    """A file in a tar."""

    name: str
    start: int
    size: int


class _Damage(ValueError):
    """An invalid header of a member."""


def read_tar(file: IO[bytes], name: str, reading: Reading, images: bool, report: Report) -> Iterator[Row]:
    """Yield a row per sample with a caption: its key, its caption, the fields of its JSON, its image and its video.

    ``images`` says whether images and videos are wanted.
    """
    return (row for _, row in read_samples(file, name, reading, images, report))


def read_samples(
    file: IO[bytes], name: str, reading: Reading, images: bool, report: Report
) -> Iterator[tuple[str, Row]]:
    """Yield the rows with the keys of their members, which a JSON field may override in the row.

    Images and videos are read from the file on access; the file is closed with the last of them.
    """
    source = FileParts(file) if images else None
    samples = _collect_samples(file, name, images, reading.frames is not None, report)
    own_files = reading.candidate_column is None and any(map(_has_caption_file, samples.values()))
    for key in list(samples):
        where, parts = f"{name}: key {key!r}", samples.pop(key)
        try:
            fields = _get_fields(key, parts, where, reading, source, report)
            if own_files and not _has_caption_file(parts) and not fields.keys().isdisjoint(CANDIDATE_COLUMNS):
                expected = ", ".join(f".{ending}" for ending in CAPTION_ENDINGS)
                raise _Unusable(
                    NO_CAPTION_FILE,
                    f"{where}: has no caption file ({expected}) where other samples have one; name the column of the "
                    "JSON with reading=Reading(candidate_column=...) to take the captions of all samples from it",
                )
            yield key, Row(where, fields)
        except _Unusable as fault:
            report(fault.reason, str(fault))


class _Unusable(InputError):
    """A sample that cannot be used, with the reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


# Members of a sample by suffix: content of texts, location of images, None for unwanted members.
Parts = dict[str, bytes | TarMember | None]


def _has_caption_file(parts: Parts) -> bool:
    return not parts.keys().isdisjoint(CAPTION_ENDINGS)


def _collect_samples(file: IO[bytes], name: str, images: bool, has_rule: bool, report: Report) -> dict[str, Parts]:
    """Return the members by key, in the order of the keys; of two with the same name the first is used.

    Without a rule for frames (``has_rule``), numbered images are reported.
    """
    texts, media = {*CAPTION_ENDINGS, FIELDS_ENDING}, (*IMAGE_ENDINGS, *VIDEO_ENDINGS) if images else ()
    samples: dict[str, Parts] = {}
    for member in iterate_members(file, name, report):
        key, ending = split_key(member.name)
        if not ending:
            continue
        parts = samples.setdefault(key, {})
        if ending in parts:
            report(TWICE, f"{name}: member {member.name!r} occurs twice; the first is used")
            continue
        parts[ending] = None
        if images and not has_rule and _NUMBERED_IMAGE.fullmatch(ending):
            has_rule = True  # reported once
            report(
                NUMBERED,
                f"{name}: member {member.name!r} is a numbered image; such images are the frames of videos if "
                "frames=... is given, such as frames='uniform:10'",
            )
        if ending in texts or ending in media or (images and _NUMBERED_IMAGE.fullmatch(ending)):
            file.seek(member.start if ending in texts else member.start + member.size)
            parts[ending] = file.read(member.size) if ending in texts else member
            if file.read(-member.size % BLOCK).strip(b"\0"):
                report(WRONG_SIZE, f"{name}: member {member.name!r} goes on after its {member.size:,} bytes")
                del parts[ending]
    return {key: parts for key, parts in samples.items() if parts}


def split_key(name: str) -> tuple[str, str]:
    """Split a member's name into the key and the lower-case suffix; the suffix is empty if it belongs to no sample.

    >>> split_key("train/000.7.seg.PNG"), split_key("./000.txt"), split_key("a.b/000"), split_key("a/._000.jpg")
    (('train/000', '7.seg.png'), ('000', 'txt'), ('a.b/000', ''), ('a/', ''))
    """
    folder, slash, file = name.removeprefix("./").rpartition("/")
    stem, _, ending = file.partition(".")
    return f"{folder}{slash}{stem}", ending.lower() if stem else ""


def _get_fields(
    key: str, parts: Parts, where: str, reading: Reading, source: FileParts | None, report: Report
) -> dict[str, Any]:
    """Return the columns of a sample; ``source`` is the file of the images if they are wanted.

    A caption file takes precedence over captions in the JSON. A member whose suffix is the name of the candidate or
    reference column becomes that column.
    """
    columns = (reading.candidate_column, reading.references_column)
    texts = {ending: _read_text(parts, ending, where) for ending in CAPTION_ENDINGS if ending in parts}
    fields = _parse_json_fields(parts, where, report if texts else None)
    fields = {column: value for column, value in fields.items() if column not in IMAGE_COLUMNS}
    unnamed = [ending for ending in texts if ending not in columns]
    if reading.candidate_column is None and unnamed:
        fields = {column: value for column, value in fields.items() if column not in CANDIDATE_COLUMNS}
        fields["caption"] = texts[unnamed[0]]
    fields |= {ending: text for ending, text in texts.items() if ending in columns}
    if not fields:
        endings = ", ".join(f".{ending}" for ending in parts)
        expected = ", ".join(f".{ending}" for ending in (*CAPTION_ENDINGS, FIELDS_ENDING))
        raise _Unusable(NO_CAPTION, f"{where}: no candidate caption: found {endings}, expected one of {expected}")
    fields.setdefault(KEY, key)
    if source is not None:
        fields["image"] = _find_image(parts, where, source)
        video = _find_video(parts, where, source, reading)
        if video is not None or reading.frames is not None:
            fields[VIDEO] = video
    return fields


def _read_text(parts: Parts, ending: str, where: str) -> str:
    """Return a caption without surrounding white space. Null characters mean padding of the tar, or UTF-16."""
    if b"\0" in (content := _get_content(parts, ending)) and not content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise _Unusable(NULL, f"{where}: {NULL}, expected text; is it UTF-16, or the size of the member wrong?")
    try:
        return decode_text(content, f"{where}: .{ending}").strip()
    except InputError as error:
        raise _Unusable(NO_UTF8, str(error)) from None


def _parse_json_fields(parts: Parts, where: str, report: Report | None) -> dict[str, Any]:
    """Return the fields of a sample's JSON. Invalid JSON is reported; without ``report`` the sample is unusable."""
    if FIELDS_ENDING not in parts:
        return {}
    try:
        return parse_json_row(_get_content(parts, FIELDS_ENDING), f"{where}: .{FIELDS_ENDING}").fields
    except InputError as error:
        if report is None:
            raise _Unusable(NO_JSON, str(error)) from None
        report(NO_JSON, str(error))
        return {}


def _get_content(parts: Parts, ending: str) -> bytes:
    content = parts[ending]
    return content if isinstance(content, bytes) else b""


def _find_image(parts: Parts, where: str, source: FileParts) -> FileImage | None:
    """Return the first image of a sample, in the order of `IMAGE_ENDINGS`."""
    for ending in IMAGE_ENDINGS:
        member = parts.get(ending)
        if isinstance(member, TarMember):
            return FileImage(source, member.start, member.size, f"{where}: .{ending}")
    return None


def _find_video(parts: Parts, where: str, source: FileParts, reading: Reading) -> VideoData | None:
    """Return the video of a sample: a file, vectors of its frames, or numbered images if a frame rule is given."""
    for ending in VIDEO_ENDINGS:
        member = parts.get(ending)
        if isinstance(member, TarMember):
            name = f"{where}: .{ending}"
            if ending in ("npy", "npz"):
                return _read_vectors(source.read(member.start, member.size), name)
            return FileVideo(source, member.start, member.size, name)
    numbered = [(match, member) for ending, member in parts.items() if (match := _NUMBERED_IMAGE.fullmatch(ending))]
    if reading.frames is None or not numbered:
        return None
    frames = [
        FileImage(source, member.start, member.size, f"{where}: .{match[0]}")
        for match, member in sorted(numbered, key=lambda one: (int(one[0][1]), one[0][0]))
        if isinstance(member, TarMember)
    ]
    return VideoData(frames, where)


def _read_vectors(content: bytes, name: str) -> VideoData:
    """Return the vectors of a member; each shard has others, so that signatures have no digest of them."""
    from captious.io.videos import parse_vectors

    try:
        arrays = list(parse_vectors(content, name).values())
    except InputError as error:
        raise _Unusable(WRONG_VECTORS, str(error)) from None
    if len(arrays) != 1:
        raise _Unusable(WRONG_VECTORS, f"{name}: contains {len(arrays)} arrays, expected one")
    return VideoData(arrays[0], name, digest="")


_REGULAR = (b"0", b"\0", b"7")
_PAX = re.compile(rb"(\d{1,9}) ([^=\n]+)=")


def iterate_members(file: IO[bytes], name: str, report: Report) -> Iterator[TarMember]:
    """Yield the regular files of a tar. Damage is reported and ends the tar; without a valid first header it is
    refused.
    """
    end = file.seek(0, io.SEEK_END)
    position, long_name, records = 0, b"", dict[bytes, bytes]()
    before: TarMember | None = None  # yielded only after the next header confirms its size
    while position < end:
        file.seek(position)
        header = file.read(BLOCK)
        if len(header) == BLOCK and not header.strip(b"\0"):
            if any(chunk.strip(b"\0") for chunk in iter(partial(file.read, 1 << 20), b"")):
                report(AFTER_END, f"{name}: goes on after its end at byte {position:,}; are several tars in one file?")
            if before is not None:
                yield before
            return
        if position and len(header) < BLOCK:
            break
        try:
            kind, size = _parse_header(header, records)
        except _Damage as damage:
            if not position:
                raise InputError(f"{name}: is not a tar file ({damage})") from None
            report(DAMAGED, f"{name}: {damage} at byte {position:,} of {end:,}; what comes before is used")
            if before is not None and before.size % BLOCK:  # without padding, nothing confirmed the size
                yield before
            return
        if before is not None:
            yield before
            before = None
        start, position = position + BLOCK, position + BLOCK + -(-size // BLOCK) * BLOCK
        if start + size > end:
            break
        file.seek(start)  # the consumer of the generator may have moved the position
        if kind == b"L":
            long_name = file.read(size)
        elif kind == b"x":
            records = _parse_pax_records(file.read(size))
        elif kind not in b"Kg":
            if kind in _REGULAR:
                before = TarMember(_decode_name(header, long_name, records), start, size)
            long_name, records = b"", {}
    if before is not None:
        yield before
    report(TRUNCATED, f"{name}: is cut short after {end:,} bytes; the members before are used")


def _parse_header(header: bytes, records: Mapping[bytes, bytes]) -> tuple[bytes, int]:
    if len(header) < BLOCK:
        raise _Damage(f"{len(header)} bytes, expected a header of {BLOCK}")
    if _parse_number(header[148:156]) != sum(header[:148]) + sum(header[156:]) + 8 * ord(" "):
        raise _Damage("no header with a valid checksum")
    size = records.get(b"size")
    return header[156:157], _parse_number(header[124:136]) if size is None else _parse_decimal(size)


def _parse_number(digits: bytes) -> int:
    """Parse a number of a header: octal digits, or big-endian bytes after 0x80."""
    if digits[0] == 0x80:
        return int.from_bytes(digits[1:], "big")
    octal = digits.partition(b"\0")[0].strip() or b"0"
    if octal.translate(None, b"01234567"):
        raise _Damage("a header with a number that is none")
    return int(octal, 8)


def _parse_decimal(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > 18:
        raise _Damage("a header with a size that is none")
    return int(digits)


def _parse_pax_records(content: bytes) -> dict[bytes, bytes]:
    """Parse the extended header of the next member: records such as ``17 path=a/b.txt``."""
    records, position = {}, 0
    while match := _PAX.match(content, position):
        end = position + int(match[1])
        if not match.end() < end <= len(content):
            break
        records[match[2]] = content[match.end() : end - 1]
        position = end
    return records


def _decode_name(header: bytes, long_name: bytes, records: Mapping[bytes, bytes]) -> str:
    name = records.get(b"path") or long_name.rstrip(b"\0")
    if not name:
        name, prefix = header[:100].partition(b"\0")[0], header[345:500].partition(b"\0")[0]
        if prefix and header[257:263] == b"ustar\0":
            name = prefix + b"/" + name
    return name.decode("utf-8", "surrogateescape")
