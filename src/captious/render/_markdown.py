"""GitHub's Markdown for comments and step summaries, in which user text is always plain text.

Words that a renderer could take for markup, a link, a mention or an issue number become code, with their punctuation as
HTML entities: GitHub neither notifies users nor makes links inside code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from urllib.parse import urlsplit

from captious.render._cells import PrintedColumn, format_columns
from captious.render.document import Document, Group, Section, Table, Text
from captious.render.terminal import escape_controls

# Longest text in characters; GitHub takes 65,536 in a comment, and 1,048,576 bytes in a step summary.
MOST = 60_000
# Longest cell in characters: the first of these that makes the text short enough is used.
LENGTHS = (400, 150, 50, 20)
# Words that no renderer takes for markup.
_HARMLESS = re.compile(r"[^\W_]+(?:(?:[.,'’/_]|-(?!\d))[^\W_]+)*|[+−±–—≤≥=×→-]|[+−-]?\d[\d.,]*%?")
# Parts of a word that may become a link: a host name, or what looks like a commit hash.
_LINKED = re.compile(r"(?i)www\.|\.(?=[a-z]{2,})|\b[0-9a-f]{7,}\b")
_AROUND = "(),;:.!?%“”\"'"


def format_markdown(document: Document, link: str = "", most: int = MOST) -> str:
    """Format a document in at most ``most`` characters: first long cells are cut, then the last sections are dropped.

    ``link`` is the address of more information; it is left out unless it is http or https.
    """
    available = [one for section in document.sections for one in _list_sections(section)]
    text = ""
    for sections, length in product(range(len(available), -1, -1), LENGTHS):
        text = "\n\n".join(_format_parts(document, available[:sections], length, link)) + "\n"
        if len(text) <= most:
            break
    return text


def _list_sections(section: Section) -> list[Table | Text]:
    """Return the tables and texts of a section that are not details."""
    if isinstance(section, Group):
        return [one for inner in section.sections for one in _list_sections(inner)]
    return [section] if isinstance(section, (Table, Text)) and not section.detail else []


def _format_parts(document: Document, sections: Sequence[Table | Text], length: int, link: str) -> list[str]:
    parts = [f"### {_format_prose(document.title, length)}", _format_prose(document.answer_text, length)]
    parts.append(_format_prose(document.about, length))
    parts += [f"> **Warning:** {_format_prose(line, length)}" for line in document.warnings]
    for section in sections:
        parts += [f"**{_format_prose(section.title, length)}**"] if section.title else []
        if isinstance(section, Table):
            parts += [
                _format_table(section, length),
                f"<sub>{_format_prose(section.note)}</sub>" if section.note else "",
            ]
        else:
            bullet = "- " if section.bullets else ""
            parts.append(
                ("\n" if bullet else "\n\n").join(bullet + _format_prose(str(one)) for one in section.paragraphs)
            )
    parts += [_format_prose(line, length) for line in document.notes]
    if document.signatures:
        lines = "\n".join(f"<br>{_format_code(line[: 5 * length])}" for line in document.signatures)
        parts.append(f"<details><summary>Signatures</summary>\n{lines}\n</details>")
    if address := _get_safe_address(link):
        parts.append(f"[More]({address})")
    return [part for part in parts if part]


def _format_table(table: Table, length: int) -> str:
    shown = format_columns(table)
    heads = [format_cell(one.heading, length) for one in shown]
    rows = [heads, ["---:" if one.numeric else "---" for one in shown]]
    rows += [[_format_table_cell(one, row, length) for one in shown] for row in range(len(table.rows))]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _format_table_cell(shown: PrintedColumn, row: int, length: int) -> str:
    mark = shown.marks[row]
    text = (
        format_cell(str(shown.cells[row]), length)
        + " " * mark.startswith(" ")
        + (format_cell(mark, length) if mark else "")
    )
    bold = shown.column.bold and not shown.interval and text.strip()
    return f"**{text}**" if bold else text


def format_cell(text: str, length: int = LENGTHS[0]) -> str:
    """Format a text for a table cell; the whole text becomes code if any part could be taken for markup.

    >>> format_cell("a dog, running"), format_cell("<b> | @all")
    ('a dog, running', '<code>&#60;b&#62; &#124; &#64;all</code>')
    """
    line = _cut_text(" ".join(escape_controls(text).split()), length)
    return line if all(map(_is_harmless, line.split(" "))) else _format_code(line)


def _format_prose(text: str, length: int = 1000) -> str:
    """Format a sentence of ours, which may contain file names and ids: words that are not harmless become code."""
    words = " ".join(escape_controls(text).split()).split(" ")
    return " ".join(word if _is_harmless(word) else _format_code(_cut_text(word, length)) for word in words)


def _is_harmless(word: str) -> bool:
    inner = word.strip(_AROUND)
    if "::" in word or _LINKED.search(inner):
        return False
    return not inner or _HARMLESS.fullmatch(inner) is not None


def _cut_text(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _format_code(text: str) -> str:
    signs = "".join(
        character if character.isalnum() or character == " " or ord(character) > 127 else f"&#{ord(character)};"
        for character in text
    )
    return f"<code>{signs}</code>"


def _get_safe_address(link: str) -> str:
    """Return a web address without characters that could end the link; empty if it is no http(s) address."""
    try:
        parts = urlsplit(link)
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return ""
    return re.sub(r"[^\w:/.?=&%#~+-]", "", link)
