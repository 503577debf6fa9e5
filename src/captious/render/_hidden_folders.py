"""Documents without the folders of the machine that made them: shared files show file names only."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import parse_qsl, quote, urlencode

from captious.render.document import (
    Answer,
    Cell,
    Chart,
    Document,
    Evidence,
    Gallery,
    Group,
    Items,
    Phrase,
    Section,
    Table,
    Text,
    Value,
)

# Folders of an absolute path, but not of a web address, and no slash between words.
_FOLDERS = re.compile(r"(?<![\w./\\~-])(?:[A-Za-z]:[\\/]|/)(?:[^\s\\/,;|()<>\"']+[\\/])+")
# The same in a parameter, such as chair(objects=/home/me/objects.json).
_PARAMETER = re.compile(rf"(?<==){_FOLDERS.pattern}")


def remove_folders(document: Document) -> Document:
    """Return the document with each absolute path shortened to its file name; captions and other data are unchanged."""
    return replace(
        document,
        title=strip_folders(document.title),
        page=strip_folders(document.page),
        about=strip_folders(document.about),
        answer=_strip_answer(document.answer),
        sections=[_strip_section(section) for section in document.sections],
        warnings=[strip_folders(line) for line in document.warnings],
        notes=[strip_folders(line) for line in document.notes],
        signatures=[strip_folders(line) for line in document.signatures],
    )


def _strip_answer(answer: Answer) -> Answer:
    if isinstance(answer, str):
        return strip_folders(answer)
    return [strip_folders(part) if isinstance(part, str) else part for part in answer]


def strip_folders(text: str) -> str:
    r"""Shorten the absolute paths in a text to their file names.

    >>> strip_folders("ratings of /home/me/ratings.csv and/or C:\\data\\a.json, https://x.org/a/b")
    'ratings of ratings.csv and/or a.json, https://x.org/a/b'
    """
    return _FOLDERS.sub("", text)


def _strip_phrase(text: str | Phrase) -> str | Phrase:
    if isinstance(text, str):
        return strip_folders(text)
    return Phrase(
        tuple(span._replace(text=_strip_parameters(span.text), href=_strip_href(span.href)) for span in text.spans)
    )


def _strip_parameters(text: str) -> str:
    return _PARAMETER.sub("", text)


def _strip_href(href: str) -> str:
    """Strip folders from the parameters of an address such as ``#sort=chair%28objects%3D/home/me/objects.json%29``."""
    if not href.startswith("#") or "=" not in href:
        return href
    parts = [(name, _strip_parameters(value)) for name, value in parse_qsl(href[1:], keep_blank_values=True)]
    return f"#{urlencode(parts, quote_via=quote)}"


def _strip_cell(value: Value) -> Value:
    """Strip folders from metric parameters only: a cell may be a caption."""
    if isinstance(value, str):
        return _strip_parameters(value)
    if isinstance(value, Cell):
        return replace(value, href=_strip_href(value.href))
    return _strip_phrase(value) if isinstance(value, Phrase) else value


def _strip_section(section: Section) -> Section:
    match section:
        case Text():
            paragraphs = [_strip_phrase(paragraph) for paragraph in section.paragraphs]
            return replace(section, title=strip_folders(section.title), paragraphs=paragraphs)
        case Table():
            rows = [[_strip_cell(value) for value in row] for row in section.rows]
            columns = [replace(one, href=_strip_href(one.href)) for one in section.heads]
            title, note = strip_folders(section.title), strip_folders(section.note)
            return replace(section, title=title, note=note, columns=columns, rows=rows)
        case Chart() | Gallery() | Evidence():
            return replace(section, title=strip_folders(section.title), note=strip_folders(section.note))
        case Group():
            return replace(
                section, title=strip_folders(section.title), sections=list(map(_strip_section, section.sections))
            )
        case Items():
            metrics = [
                one._replace(key=_strip_parameters(one.key), label=_strip_parameters(one.label))
                for one in section.metrics
            ]
            # Two files of one name in different folders would be one metric.
            distinct = len({one.key for one in metrics}) == len(metrics)
            return replace(section, metrics=metrics) if distinct else section
    return section
