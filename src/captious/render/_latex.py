"""Tables for a paper: booktabs, intervals in brackets, the best value in bold, marks as superscripts."""

from __future__ import annotations

import re

from captious.render._cells import DASH, PrintedColumn, format_columns
from captious.render.document import PERCENT, Document, Table

_TEXT = {"\\": "textbackslash", "~": "textasciitilde", "^": "textasciicircum", "<": "textless", ">": "textgreater"}
_TEXT |= {"|": "textbar", "…": "dots", "†": "dag", "‡": "ddag"}
_MATH = {"τ": r"\tau", "ρ": r"\rho", "α": r"\alpha", "λ": r"\lambda", "σ": r"\sigma", "κ": r"\kappa", "Δ": r"\Delta"}
_MATH |= {"±": r"\pm", "×": r"\times", "≈": r"\approx", "≤": r"\le", "≥": r"\ge", "−": "-", "→": r"\to", "²": "^2"}
_MATH |= {"∞": r"\infty", "≠": r"\ne", "β": r"\beta", "γ": r"\gamma", "δ": r"\delta", "Σ": r"\Sigma", "Π": r"\Pi"}
_MATH |= {"π": r"\pi", "χ": r"\chi", "√": r"\surd", "·": r"\cdot", "½": r"\frac12", "₁": "_1", "₂": "_2"}
_SPECIAL = {character: rf"\{name}{{}}" for character, name in _TEXT.items()}
_SPECIAL |= {character: f"${symbol}$" for character, symbol in _MATH.items()}
_SPECIAL |= {character: "\\" + character for character in "&%$#_{}"}
# After the end of a row, LaTeX takes a star or a bracket for an argument.
_SPECIAL |= {character: f"{{{character}}}" for character in "*[]"}
_SPECIAL |= {"–": "--", DASH: "---"}
_SUPERSCRIPTS = {"†": r"\dagger", "‡": r"\ddagger", "*": "{*}"}


def escape(text: str) -> str:
    r"""Escape a text so that LaTeX prints it as it is, on one line.

    >>> print(escape("50% of a_b"), escape("a^b\\~"))
    50\% of a\_b a\textasciicircum{}b\textbackslash{}\textasciitilde{}
    """
    line = " ".join(text.split())
    return "".join(_SPECIAL.get(character, character) for character in line if character.isprintable())


def format_document(content: Document) -> str:
    """Format every table that is not a detail, below comments with the title, the answer, notes and signatures."""
    lines = (content.title, content.answer_text, *content.notes, *content.signatures)
    comments = [_format_comment(line) for line in lines if line]
    tables = [section for section in content.walk() if isinstance(section, Table) and not section.detail]
    scaled = PERCENT if PERCENT in content.notes else ""
    return "\n".join([*comments, *(format_table(one, content.title, scaled) for one in tables)])


def format_table(content: Table, about: str = "", note: str = "") -> str:
    """Format one table with a caption: its title, what it is ``about``, and the notes."""
    titles = ": ".join(dict.fromkeys(filter(None, (content.title, about))))
    caption = " ".join(escape(line.rstrip(".")) + "." for line in (titles, content.note, note) if line)
    shown = [one for one in format_columns(content, "[{}, {}]") if one.column.latex is not None]
    spec = "".join("r" if one.numeric else "l" for one in shown)
    lines = [r"\begin{table}", r"\centering"]
    lines += [rf"\caption{{{caption}}}"] if caption else []
    lines += [rf"\label{{tab:{re.sub('[^a-z0-9]+', '-', content.key.lower())}}}"]
    lines += [rf"\begin{{tabular}}{{{spec}}}", r"\toprule"]
    lines += [" & ".join(map(_format_heading, shown)) + r" \\", r"\midrule"]
    for row in range(len(content.rows)):
        lines += [r"\addlinespace"] if row in content.breaks else []
        lines.append(" & ".join(_format_cell(one, row) for one in shown) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _format_heading(shown: PrintedColumn) -> str:
    return shown.column.latex if shown.column.latex and not shown.interval else escape(shown.heading)


def _format_cell(shown: PrintedColumn, row: int) -> str:
    text, mark = str(shown.cells[row]), shown.marks[row]
    if not shown.numeric:
        content = escape(text)
    elif text == DASH:
        content = "--"
    elif shown.interval:
        content = text.replace("-", "$-$").replace("%", r"\%")
    else:
        content = escape(text.replace("-", "−"))
    content = rf"\textbf{{{content}}}" if row in shown.best else content
    return content + (f"$^{_SUPERSCRIPTS.get(mark) or '{' + escape(mark) + '}'}$" if mark else "")


def _format_comment(line: str) -> str:
    return "% " + "".join(filter(str.isprintable, " ".join(line.split())))
