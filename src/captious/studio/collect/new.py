"""New studies: a commented TOML file from a template and the names of the files."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from captious.errors import InputError, format_suggestion
from captious.io.join import refuse
from captious.studio.collect._subjects import read_subjects
from captious.studio.collect._wording import list_number_words
from captious.studio.collect.rating_tasks import build_tasks
from captious.studio.collect.study_plan import KindName, parse_plan, read_plan

FOLDER = Path(__file__).parents[1] / "pages" / "templates"
KINDS: tuple[KindName, ...] = ("ratings", "ranking", "pairs", "yesno", "labels")
# Keys with file names, in their order in a study.
FILES = ("captions", "references", "images", "videos", "tasks", "ids")
WIDTH = 120
# Maximum number of captions on a page for templates that show all captions of an item together.
MOST_TOGETHER = 8
# Text of a template for pages with several captions.
TOGETHER = (
    "The captions of an image are shown together, so that differences between them count. Captions that are equally "
    "good get the same score."
)


def list_templates() -> list[str]:
    """Return the protocols that have a template, in addition to the five kinds.

    >>> list_templates()
    ['capeval1k', 'imagine-entities', 'imagine-likert', 'onlystyle-ranking', 'relic-age', 'thumb']
    """
    return sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem not in KINDS)


def new_plan(
    path: str | Path,
    kind: KindName | None = None,
    template: str | None = None,
    *,
    captions: Sequence[str] = (),
    tasks: str | Path | None = None,
    references: str | Path | None = None,
    images: str | Path | None = None,
    videos: str | Path | None = None,
    ids: str | Path | Sequence[str] | None = None,
    without: Sequence[str | Path] = (),
    items: int | None = None,
    missing: Literal["error", "skip"] = "error",
    title: str | None = None,
) -> str:
    """Return the TOML text of a study at ``path``. Its texts name the number of captions of a page.

    The text is valid. Files that are absent or wrong are no mistake here: then the texts name no number.

    Parameters
    ----------
    path
        Where the study will lie. Its files are named relative to this place.
    kind, template
        The kind of task, or the template of a paper's protocol, which has a kind.
    captions
        Files of captions, each a system; ``NAME=FILE`` names it.
    tasks
        File of ready tasks instead of captions.
    references, images, videos
        File of references, folder of images, folder of videos.
    ids
        File with one id per line, or the ids themselves: what the study asks about.
    without
        Files of ids that are left out.
    items
        How many items are drawn.
    missing
        Items without a caption, references or an image: an error, or left out.
    title
        Title of the study, instead of the template's.
    """
    path = Path(path)
    if kind == "yesno" and captions:
        raise InputError("kind='yesno' asks about the things of ready tasks, not about captions; pass tasks=...")
    text = (FOLDER / f"{_find_template(kind, template)}.toml").read_text(encoding="utf-8")
    ids_value = _quote_file(ids, path) if isinstance(ids, (str, Path)) else _format_list("ids", ids or ())
    if videos is not None and images is None:
        text = _SHOWN.sub(r"\1 video", text)
    values = {
        "captions": _format_list("captions", [_resolve_system_file(name, path) for name in captions]),
        "references": _quote_file(references, path),
        "images": _quote_file(images, path),
        "videos": _quote_file(videos, path),
        "tasks": _quote_file(tasks, path),
        "ids": ids_value,
    }
    for name in reversed(FILES):
        text = _set_key(text, name, values[name])
    if videos is not None:
        text = text.replace(f"videos = {values['videos']}\n", f"videos = {values['videos']}\n{_WATCHING}", 1)
    if without:
        text = _set_key(text, "without", _format_list("without", [_make_relative(str(name), path) for name in without]))
    if items is not None:
        text = _set_key(text, "items", str(items))
    if missing == "skip":
        text = _set_key(text, "missing", _quote(missing))
    if title is not None:
        text = _set_key(text, "title", _quote(title))
    plan = parse_plan(_fill_template(text, ()), path)
    try:
        pages = build_tasks(plan, lambda mistake: None)
    except InputError:  # errors of the files are reported by `captious studio check`
        pages = []
    numbers = {*Counter(page.item for page in pages for _ in page.choices).values()}
    if plan.together > 1 and len(numbers) == 1 and max(numbers) <= MOST_TOGETHER:
        return _fill_template(_set_key(text, "together", str(*numbers)), numbers)
    return _fill_template(text, {len(page.choices) for page in pages})


# Follows the line of the videos.
_WATCHING = """# Whether the answers open only when a rater has watched the video to its end.
# must_watch = true
"""
# The image in the texts of a template, but not in its comments about files.
_SHOWN = re.compile(r"\b(the|an) image\b")


def _fill_template(text: str, sizes: Collection[int]) -> str:
    """Fill the placeholders of a template; `sizes` are the numbers of captions of its pages.

    >>> _fill_template("Score {each caption}. {last} is best.", {3})
    'Score each of the three captions. 3 is best.'
    >>> _fill_template("Score {each caption} of {captions}.", {2, 3})
    'Score each of the captions of captions.'
    """
    (size,) = sizes if len(sizes) == 1 else (0,)
    words = list_number_words("en")
    number = words[size - 1] if 0 < size <= len(words) else str(size)
    phrases = {
        "captions": f"{number} captions" if size else "captions",
        "each caption": f"each of the {number} captions" if size else "each of the captions",
        "last": str(size) if size else "the highest number",
        "together": TOGETHER,
    }
    if size == 1:
        phrases |= {"captions": "a caption", "each caption": "the caption", "together": ""}
    for name, phrase in phrases.items():
        text = text.replace(f"{{{name}}}" if phrase else f"{{{name}}}\n\n", phrase)
    return text


def make_rest_plan(path: str | Path, source: Path, items: Collection[str]) -> tuple[str, Path, list[str]]:
    """Return the TOML text of a study like ``source`` about some of its items, the file for their ids, and the ids.

    Gives also the file that must hold their ids, and the ids themselves.
    """
    path = Path(path)
    plan = read_plan(source)
    known = [subject.id for subject in read_subjects(replace(plan, items=None), refuse)]
    ids = [id for id in known if id in items]
    if not ids:
        raise InputError(f"{source}: somebody has judged every item, expected some that nobody has judged")
    if path.parent.resolve() != source.parent.resolve():
        raise InputError(f"{path}: expected a place next to {source}, since both name the same files")
    file = path.with_name(f"{path.stem}-ids.txt")
    text = _set_key(_set_key(plan.text, "ids", _quote(file.name)), "items", None)
    if parse_plan(text, path).ids != file.name:
        raise InputError(f"{source}: the key ids takes several lines, expected one; write ids = {file.name!r} there")
    return text, file, ids


def _find_template(kind: KindName | None, template: str | None) -> str:
    if template is None:
        if kind is None:
            raise InputError(f"no kind=... of task, expected one of {', '.join(KINDS)}; or a template=...")
        return kind
    names = list_templates()
    if template not in names:
        raise InputError(
            f"template={template!r}, expected one of {', '.join(names)}{format_suggestion(template, names)}"
        )
    text = (FOLDER / f"{template}.toml").read_text(encoding="utf-8")
    own = parse_plan(text, FOLDER / f"{template}.toml").kind
    if kind is not None and kind != own:
        raise InputError(f"kind={kind!r} and template={template!r}, which is of kind {own}; expected one of them")
    return template


def _set_key(text: str, key: str, value: str | None) -> str:
    """Set a key of a TOML text to a value; comment it out if the value is None."""
    line = re.compile(rf"^(?:# )?{key} = .*$", re.MULTILINE)
    match = line.search(text)
    if value is None:
        return text if match is None or match[0].startswith("#") else _replace_match(text, match, f"# {match[0]}")
    if match is None:
        match = re.compile(r"^kind = .*$", re.MULTILINE).search(text)
        assert match is not None
        return _replace_match(text, match, f"{match[0]}\n{key} = {value}")
    return _replace_match(text, match, f"{key} = {value}")


def _replace_match(text: str, match: re.Match[str], line: str) -> str:
    return text[: match.start()] + line + text[match.end() :]


def _quote_file(name: str | Path | Sequence[str] | None, path: Path) -> str | None:
    return None if name is None else _quote(_make_relative(str(name), path))


def _resolve_system_file(name: str, path: Path) -> str:
    system, equals, file = name.partition("=")
    if equals and system and not Path(name).exists():
        return f"{system}={_make_relative(file, path)}"
    return _make_relative(name, path)


def _make_relative(name: str, path: Path) -> str:
    """Return a file name relative to the folder of `path`; absolute names and those with ``~`` are unchanged."""
    if Path(name).is_absolute() or name.startswith("~") or not name:
        return name
    return Path(os.path.relpath(name, path.parent)).as_posix()


def _format_list(key: str, names: Sequence[str]) -> str | None:
    if not names:
        return None
    quoted = [_quote(str(name)) for name in names]
    line = f"[{', '.join(quoted)}]"
    if len(key) + 3 + len(line) <= WIDTH:
        return line
    return "[\n" + "".join(f"  {name},\n" for name in quoted) + "]"


def _quote(text: str) -> str:
    """Format a text as a TOML string."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{text!a}: contains half a character, expected valid Unicode") from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
