"""Documents on the terminal: results on standard output, everything else on standard error.

A table never cuts or splits a number. If it is too wide, long texts are folded; if that is not enough, its frame is
left out; then it is printed in parts, each with the columns that name the row; on a very narrow terminal, as lines of
name and value.
"""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from captious.options import WORDING
from captious.render._cells import PrintedColumn, format_columns, get_number
from captious.render.document import Cell, Column, Document, Phrase, Span, Table, Text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

# Width if the output is no terminal and COLUMNS is not set.
WIDE = 120
# Smallest width of a folded text, and length of the longest bar.
NARROWEST, BAR = 16, 20
STYLES = {
    "": "", "good": "green", "bad": "dark_orange3", "unsure": "underline", "strong": "bold", "struck": "red strike",
    "quiet": "dim",
}  # fmt: skip
# A tone of lower weight is drawn dim; one above 0.5 in bold.
FAINT = 0.05
_BARS = Column("", "text")
_SETTING = re.compile(r"[a-z]+:\S")
_WIDE = "\u1100-\u115f\u2e80-\u2fff\u3003-\u3007\u3012-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff10-\uff19\uff21-\uff3a"
# A wide letter with the marks after it, or a word; with the white space that follows.
_PIECE = re.compile(rf"[{_WIDE}][^\s\w]*\s*|[^\s{_WIDE}]+\s*|\s+")
# Left-to-right mark: the terminal continues from left to right after right-to-left text.
_LEFT = "\u200e"
# Lines of a table: around every cell, only below the headings, or none.
Lines = Literal["frame", "rule", "none"]


def make_stdout_console() -> Console:
    """Make a console for results."""
    return _make_console(sys.stdout.isatty(), WIDE, stderr=False)


def make_stderr_console() -> Console:
    """Make a console for progress and warnings."""
    return _make_console(sys.stderr.isatty(), 200, stderr=True)


def _make_console(terminal: bool, wide: int, stderr: bool) -> Console:
    from rich.console import Console

    class PipedConsole(Console):
        """A console that lets the command handle a closed pipe; rich itself would exit with 1."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    return PipedConsole(stderr=stderr, width=None if terminal or os.environ.get("COLUMNS", "").isdigit() else wide)


def warn(warnings: Sequence[str]) -> None:
    """Print warnings on stderr."""
    console = make_stderr_console()
    for warning in warnings:
        text = f"warning: {' '.join(WORDING.get()(warning).split())}"
        line = make_rich_text(_wrap_text(text, console.width) if console.is_terminal else text)
        line.stylize("yellow", 0, len("warning:"))
        console.print(line, soft_wrap=True)


def print_error(who: str, message: str) -> None:
    """Print an error on stderr, its beginning in red."""
    console = make_stderr_console()
    line = make_rich_text(_wrap_text(f"{who}: {message}", console.width))
    line.stylize("bold red", 0, len(who) + 1)
    console.print(line, soft_wrap=True)


def print_document(document: Document, console: Console | None = None, *, signatures: bool = False) -> None:
    """Print warnings on standard error, then titles, texts, tables, notes and signatures on the console."""
    warn(document.warnings)
    _draw_document(document, console or make_stdout_console(), signatures=signatures)


def format_text(document: Document, width: int | None = None, *, signatures: bool = False) -> str:
    """Format the document without colors or lines, as wide as the terminal unless ``width`` is given."""
    from rich.console import Console

    file = io.StringIO()
    columns = width or shutil.get_terminal_size().columns
    console = Console(file=file, width=columns, color_system=None, force_terminal=False, force_jupyter=False)
    _draw_document(document, console, plain=True, signatures=signatures)
    lines = [line.rstrip() for line in file.getvalue().split("\n")]
    warnings = [
        _wrap_text(f"warning: {' '.join(escape_controls(warning).split())}", columns) for warning in document.warnings
    ]
    return "\n".join([*lines[:-1], *warnings])


def _draw_document(document: Document, console: Console, plain: bool = False, signatures: bool = False) -> None:
    first = next((section for section in document.sections if isinstance(section, Table)), None)
    if first is None or first.title != document.title:
        console.print(make_rich_text(document.title, "bold"), soft_wrap=True)
    if answer := document.answer_text:
        console.print(make_rich_text(_wrap_text(answer, console.width)), soft_wrap=True)
    for section in document.sections:
        if not isinstance(section, (Text, Table)) or section.detail:
            continue
        if isinstance(section, Text) and not section.paragraphs:
            console.print()  # a heading of what follows
        if section.title:
            console.print(make_rich_text(_wrap_text(section.title, console.width), "bold"), soft_wrap=True)
        if isinstance(section, Table):
            _draw_table(section, console, plain)
        else:
            for paragraph in section.paragraphs:
                bullet = "• " if section.bullets else ""
                if isinstance(paragraph, Phrase):
                    console.print(make_rich_text(bullet).append_text(make_rich_text(paragraph)))
                else:
                    console.print(make_rich_text(_wrap_text(bullet + paragraph, console.width)), soft_wrap=True)
    for line in document.notes:
        console.print(make_rich_text(_wrap_text(line, console.width)), soft_wrap=True)
    lines = document.signatures if signatures else format_signatures(document.signatures, console.width)
    for line in lines:
        console.print(make_rich_text(line, "dim"), soft_wrap=True)


def format_signatures(signatures: Sequence[str], width: int) -> list[str]:
    """Format the parts that most signatures share on one line, then the rest of each; lines break between parts.

    >>> lines = ["bleu(n=4)|tok:ptb.1|smooth:1e-9|ci:100", "rouge|tok:ptb.1|ci:100", "vocab_size|tok:ptb.1"]
    >>> format_signatures(lines, 80)
    ['shared: tok:ptb.1|ci:100', 'bleu(n=4)|smooth:1e-9', 'vocab_size|no ci', 'rouge']
    >>> lines = ["clair(m)|judge:m|parse:json", "dcscore(m)|judge:m|parse:json", "fleur(m)|judge:m|parse:number"]
    >>> format_signatures(lines, 80)
    ['shared: judge:m', 'clair(m)|parse:json', 'dcscore(m)|parse:json', 'fleur(m)|parse:number']
    """
    parts = [signature.split("|") for signature in signatures]
    # A signature that begins with a setting, such as "seed:0", is that of a study, not of a metric.
    studies = ["|".join(part) for part in parts if _SETTING.match(part[0])]
    parts = [part for part in parts if not _SETTING.match(part[0])]
    numbers = Counter(part for _, *settings in parts for part in settings)
    values = Counter(part.partition(":")[0] for part in numbers)  # a setting with two values is not shared
    shared = [
        part
        for part, number in numbers.items()
        if number > max(1, len(parts) / 2) and values[part.partition(":")[0]] == 1
    ]
    lines, bare = [*studies, *([f"shared: {'|'.join(shared)}"] if shared else [])], list[str]()
    for name, *settings in parts:
        keys = {part.partition(":")[0] for part in settings}
        missing = [key for key in (part.partition(":")[0] for part in shared) if key not in keys]
        own = [*(part for part in settings if part not in shared), *(f"no {key}" for key in missing)]
        (lines if own else bare).append("|".join([name, *own]))
    return [short for line in [*lines, ", ".join(bare)] if line for short in _split_signature(line, width)]


def _split_signature(line: str, width: int) -> list[str]:
    """Split a signature between its parts into lines of at most ``width``; lines after the first are indented."""
    lines: list[str] = []
    for part in re.split(r"(?<=\|)|(?<=\),)|(?<=, )", line):
        if lines and len(lines[-1]) + len(part.rstrip()) <= width:
            lines[-1] += part
        else:
            lines.append(f"  {part}" if lines else part)
    return lines


def _wrap_text(text: str, width: int) -> str:
    """Wrap a text to ``width``; a longer word, such as a path, is not broken, so that it can be copied."""
    return "\n".join(
        textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
        if line.isascii()
        else _wrap_wide_line(line, width)
        for line in text.split("\n")
    )


def _wrap_wide_line(line: str, width: int) -> str:
    r"""Wrap a line with wide or combining characters: it may break between two wide ones, but not before a mark.

    >>> _wrap_wide_line("the caption 一只狗在草地上，奔跑。", 20).split("\n")
    ['the caption 一只狗在', '草地上，奔跑。']
    """
    from rich.cells import cell_len

    lines, used = [""], 0
    for piece in _PIECE.findall(" ".join(line.split())):
        if used + cell_len(piece.rstrip()) > width and lines[-1]:
            lines[-1] = lines[-1].rstrip()
            lines, used = [*lines, ""], 0
        lines[-1] += piece
        used += cell_len(piece)
    return "\n".join(lines)


def _draw_table(table: Table, console: Console, plain: bool) -> None:
    """Print one table, in several parts if it is too wide; without a frame if that saves a part."""
    lines: Lines = "none" if plain else "frame"
    room, gap = _get_space(lines, console)
    shown = _add_bars(table, format_columns(table), room, gap)
    labels = table.labels
    if _compute_width(shown, gap) > room:
        # A label column with the same text in every row becomes a line above the table.
        repeated = [one for one in shown[1:labels] if len(one.cells) > 1 and len(set(map(str, one.cells))) == 1]
        for one in repeated:
            console.print(make_rich_text(f"{one.heading}: {one.cells[0]}"), soft_wrap=True)
        shown, labels = [one for one in shown if one not in repeated], labels - len(repeated)
    # A table without a frame has narrower gaps, so it may need fewer parts.
    parts = _split_columns(shown, labels, room, gap)
    if lines == "frame" and len(unframed := _split_columns(shown, labels, *_get_space("rule", console))) < len(parts):
        parts, lines, (room, gap) = unframed, "rule", _get_space("rule", console)
    for number, part in enumerate(parts):
        if number and lines == "rule":
            console.print()
        if _compute_width(part, gap) > room:
            _stack_rows(part, console)
        else:
            console.print(_build_rich_table(part, _compute_widths(part, room, gap), table.breaks, lines))
    if table.note:
        console.print(make_rich_text(table.note, "dim"))


def _get_space(lines: Lines, console: Console) -> tuple[int, int]:
    """Return the width available to the columns with the gaps after them, and the width of a gap."""
    return (console.width - 1, 3) if lines == "frame" else (console.width + 2, 2)


def _stack_rows(part: Sequence[PrintedColumn], console: Console) -> None:
    """Print each row as a block of lines, for terminals too narrow for a name and one number."""
    for row in range(len(part[0].cells)):
        for one in part:
            line = make_rich_text(f"{one.heading}: " if one.heading else "")
            console.print(line.append_text(make_rich_text(_get_marked_cell(one, row))), soft_wrap=True)


def _build_rich_table(
    part: Sequence[PrintedColumn], widths: Sequence[int], breaks: Sequence[int], lines: Lines
) -> RichTable:
    from rich import box
    from rich.padding import Padding
    from rich.table import Table as RichTable

    # Gaps are part of the cells: versions of rich differ in whether a table counts the padding of its last column.
    if lines == "frame":
        rich_table, gap = RichTable(box=box.HEAVY_HEAD), 0
    elif lines == "rule":
        rich_table, gap = RichTable(box=box.SIMPLE_HEAD, padding=0, show_edge=False), 1
    else:
        rich_table, gap = RichTable(box=None, padding=0), 2
    gaps = [gap] * (len(part) - 1) + [0]
    for one, width, space in zip(part, widths, gaps, strict=True):
        rich_table.add_column(
            Padding(make_rich_text(one.heading), (0, space, 0, 0)),
            justify="right" if one.numeric else "left",
            style="bold" if one.column.bold and not one.interval else "",
            overflow="fold",
            width=width + space,
        )
    for row in range(len(part[0].cells)):
        if row in breaks and row:
            rich_table.add_row(*[""] * len(part)) if lines == "none" else rich_table.add_section()
        cells = (make_rich_text(_get_marked_cell(one, row), "bold" if row in one.best else "") for one in part)
        rich_table.add_row(
            *(
                Padding(_mark_direction(cell, width), (0, space, 0, 0))
                for cell, width, space in zip(cells, widths, gaps, strict=True)
            )
        )
    return rich_table


def _mark_direction(cell: RichText, width: int) -> RichText:
    """End each line of right-to-left text with a zero-width mark, so that it does not move the cells after it."""
    from rich.console import Console
    from rich.text import Text as RichText

    if cell.plain.isascii() or not any(unicodedata.bidirectional(one) in ("R", "AL") for one in cell.plain):
        return cell
    lines = cell.wrap(Console(width=width), width, overflow="fold")
    return RichText("\n").join(line.append(_LEFT) for line in lines)


def _get_marked_cell(one: PrintedColumn, row: int) -> str | Phrase:
    cell = one.cells[row]
    return f"{cell}{one.marks[row]}" if one.marks[row] else cell


def _split_columns(shown: Sequence[PrintedColumn], labels: int, room: int, gap: int) -> list[list[PrintedColumn]]:
    """Split the printed columns into groups that fit, each after the columns that name the row."""
    leading = list(shown[:labels])
    parts = [list(leading)]
    for _, group in groupby(shown[labels:], lambda one: one.index):
        unit = list(group)  # a column together with its intervals
        if len(parts[-1]) > len(leading) and _compute_width([*parts[-1], *unit], gap) > room:
            parts.append(list(leading))
        parts[-1] += unit
    return parts


def _measure_column(one: PrintedColumn) -> tuple[int, int]:
    """Return the smallest width that breaks no number or heading word, and the width that needs no folding."""
    from rich.cells import cell_len

    cells = [make_rich_text(_get_marked_cell(one, row)).plain for row in range(len(one.cells))]
    longest = max((cell_len(line) for text in cells for line in text.split("\n")), default=0)
    word = max((cell_len(word) for word in one.heading.split()), default=0)
    least = longest if one.numeric else min(longest, NARROWEST)
    return max(least, word, 1), max(longest, cell_len(one.heading), 1)


def _compute_width(part: Sequence[PrintedColumn], gap: int) -> int:
    return sum(_measure_column(one)[0] + gap for one in part)


def _compute_widths(part: Sequence[PrintedColumn], room: int, gap: int) -> list[int]:
    """Compute the widths of columns: the smallest ones, plus equal shares of the spare width where it is needed."""
    least, most = zip(*map(_measure_column, part), strict=True)
    widths, spare = list(least), room - sum(least) - gap * len(part)
    while spare > 0 and (narrow := [index for index, width in enumerate(widths) if width < most[index]]):
        share = max(1, spare // len(narrow))
        for index in narrow[:spare]:
            added = min(share, most[index] - widths[index])
            widths[index] += added
            spare -= added
    return widths


def _add_bars(table: Table, shown: list[PrintedColumn], room: int, gap: int) -> list[PrintedColumn]:
    """Add a column of bars after each column that has ``bar`` and no intervals, if the width allows it."""
    wide = list(shown)
    for index, column in enumerate(table.heads):
        if not column.bar or column.spread == "half" or any(one.interval and one.index == index for one in shown):
            continue
        cells = [(get_number(row[index]), row[index]) for row in table.rows]
        most = max((abs(value) for value, _ in cells if value == value), default=0.0) or 1.0
        ends = [cell.limits[1] if isinstance(cell, Cell) and cell.limits else most for _, cell in cells]
        shares = [value / end if value == value and end else 0.0 for (value, _), end in zip(cells, ends, strict=True)]
        if not any(shares):
            continue
        bars = list(map(_draw_bar, shares))
        after = next(number for number, one in enumerate(wide) if one.index == index) + 1
        wide.insert(after, PrintedColumn("", -1, _BARS, [*bars], [""] * len(bars)))
    return wide if _compute_width(wide, gap) + BAR <= room else shown


def _draw_bar(share: float) -> Phrase:
    return Phrase((Span("█" * round(BAR * abs(share)), "good" if share >= 0 else "bad"),))


def make_rich_text(text: str | Phrase, style: str = "") -> RichText:
    """Make a rich text from a text or phrase, with control characters escaped."""
    from rich.text import Text as RichText

    if isinstance(text, str):
        return RichText(escape_controls(text), style=style)
    rich_text = RichText(style=style)
    for span in text.spans:
        rich_text.append(escape_controls(span.text), _get_style(span))
    return rich_text


def _get_style(span: Span) -> str:
    if span.tone not in ("good", "bad"):
        return STYLES[span.tone]
    if span.weight < FAINT:
        return "dim"
    return ("bold " if 0.5 < span.weight < 1 else "") + STYLES[span.tone]


def escape_controls(text: str) -> str:
    r"""Replace control characters, which could drive a terminal, by visible symbols.

    >>> escape_controls("a\x1b[31mred\tcar\x9b")
    'a␛[31mred\tcar�'
    """
    if text.isprintable():
        return text
    return "".join(map(_escape_character, text))


def _escape_character(character: str) -> str:
    if character in "\n\t" or (unicodedata.category(character) not in ("Cc", "Cs") and character not in _TURNING):
        return character
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else "�"


# Characters that change the direction of the text after them.
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
