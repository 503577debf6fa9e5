"""Reader of the first sheet of an XLSX file. Formulas are not evaluated, and nothing is executed."""

from __future__ import annotations

import re
import zipfile
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from io import BytesIO
from typing import NamedTuple
from xml.etree import ElementTree

from captious.errors import InputError
from captious.options import Reading

# Limit of spreadsheet programs: a cell with this many characters was probably cut.
LONGEST = 32_767
SHEET, STRINGS = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"
# Exceptions of the libraries for damaged or encrypted archives.
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, EOFError, ElementTree.ParseError),
    *(KeyError, ValueError, IndexError, NotImplementedError, RuntimeError, OSError),
)
_SPACE = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_REFERENCE = re.compile(r"([A-Z]{1,3})\d*")
# XML cannot contain control characters; spreadsheets escape them as _x001F_. Null and surrogates stay escaped.
_ESCAPED = re.compile(r"_x(?!0000|[dD][89a-fA-F])([0-9A-Fa-f]{4})_")


def is_spreadsheet(content: bytes) -> bool:
    """Return True if the content is an XLSX file, not another archive."""
    try:
        return SHEET in zipfile.ZipFile(BytesIO(content)).namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


class ErrorCell(NamedTuple):
    """The error value of a formula, such as ``#REF!``."""

    code: str


Cell = str | float | int | bool | ErrorCell | None


def read_sheet(content: bytes, name: str, limit: int = Reading.unpack_limit) -> Iterator[tuple[int, list[Cell]]]:
    """Yield the number and the cells of each row in the first sheet; parts may unpack to ``limit`` MiB."""
    try:
        archive = zipfile.ZipFile(BytesIO(content))
        strings = _read_strings(_read_part(archive, STRINGS, name, limit)) if STRINGS in archive.namelist() else []
        sheet = _read_part(archive, SHEET, name, limit)
        for number, row in enumerate(_iterate_elements(sheet, "row"), start=1):
            cells: list[Cell] = []
            for cell in row.iter(f"{_SPACE}c"):
                column = _parse_column(cell.get("r", ""), len(cells))
                if not 0 <= column - len(cells) < 16_384:
                    raise InputError(f"{name}: row {number}: its cells are out of order, expected a whole sheet")
                cells += [None] * (column - len(cells))
                cells.append(_convert_cell(cell, strings, f"{name}: row {number}"))
            yield int(row.get("r", number)), cells
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(f"{name}: not a whole XLSX file ({str(error).splitlines()[0][:80]})") from None


def _read_part(archive: zipfile.ZipFile, part: str, name: str, limit: int) -> bytes:
    """Read a part of the archive. Raise InputError if it exceeds ``limit`` MiB or declares XML entities."""
    with archive.open(part) as file:
        content = file.read((limit << 20) + 1)
    if len(content) > limit << 20:
        raise InputError(
            f"{name}: {part} unpacks to more than {limit:,} MiB, expected less; pass "
            f"reading=Reading(unpack_limit={4 * limit}) if it is right"
        )
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content or content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise InputError(f"{name}: {part} declares entities, expected what a spreadsheet program writes")
    return content


def _iterate_elements(content: bytes, tag: str) -> Iterator[ElementTree.Element]:
    """Yield the elements with this tag, and clear each after use to save memory."""
    for _, element in ElementTree.iterparse(BytesIO(content)):
        if element.tag == _SPACE + tag:
            yield element
            element.clear()


def _read_strings(content: bytes) -> list[str]:
    return [_join_runs(entry) for entry in _iterate_elements(content, "si")]


def _join_runs(element: ElementTree.Element) -> str:
    """Return the text of an element without phonetic runs, with escapes such as ``_x001F_`` decoded."""
    # Phonetic guides (rPh) of Japanese cells repeat the text in kana.
    phonetic = {id(one) for run in element.iter(f"{_SPACE}rPh") for one in run.iter(f"{_SPACE}t")}
    text = "".join(one.text or "" for one in element.iter(f"{_SPACE}t") if id(one) not in phonetic)
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def _parse_column(reference: str, following: int) -> int:
    """Return the index of a cell's column (A is 0); without a reference, the next column."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        return following
    index = 0
    for letter in match[1]:
        index = 26 * index + ord(letter) - ord("A") + 1
    return index - 1


def _convert_cell(cell: ElementTree.Element, strings: list[str], where: str) -> Cell:
    kind, value = cell.get("t", "n"), cell.findtext(f"{_SPACE}v")
    if kind == "inlineStr":
        text: str | None = _join_runs(cell)
    elif kind == "s":
        position = int(value or 0)
        if not 0 <= position < len(strings):
            raise InputError(f"{where}: a cell names text {position} of {len(strings)}, expected a whole XLSX file")
        text = strings[position]
    elif kind == "n" and value is not None:
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    elif kind == "b" and value is not None:
        return value.strip() not in ("0", "false")
    elif kind == "e":
        return ErrorCell(value or "an error")
    else:
        text = value
    if text is not None and len(text) >= LONGEST:
        raise InputError(f"{where}: a cell has {LONGEST:,} characters, where spreadsheets cut; save the table as TSV")
    return text
