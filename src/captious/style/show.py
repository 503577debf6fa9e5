"""Style on the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from captious.style.cng import StyleModel
from captious.style.correlate import Agreement
from captious.style.explain import Why, unseen_words
from captious.style.page import signed
from captious.style.words import StyleWord

BAR = "█"
FOR, AGAINST = "green", "dark_orange3"


def signature(model: StyleModel) -> str:
    """The model in one line: its content, corpus and tokeniser."""
    return (
        f"model:{model.mark}|corpus:{int(model.captions.sum())}:{model.fingerprint:016x}|"
        f"styles:{len(model.styles)}|tok:{model.tokeniser}"
    )


def why_view(why: Why, ranking: Sequence[tuple[str, float]], top: int) -> Group:
    """Closest styles, the caption coloured by what its words add, and the n-grams that add most."""
    styles = Table(title="closest styles", title_justify="left")
    styles.add_column("style")
    styles.add_column("OnlyStyle", justify="right")
    for style, value in ranking[:top]:
        styles.add_row(Text(style, style="bold" if style == why.style else ""), _signed(value))
    most = max((abs(part) for _, part in why.words), default=0.0) or 1.0
    caption = Text(f"why {why.style} ({why.value:+.4f}): ")
    for word, share in why.words:
        colour = FOR if share >= 0 else AGAINST
        strong = "bold " if abs(share) > 0.5 * most else ""
        caption.append(word, style=f"{strong}{colour}" if abs(share) > 0.05 * most else "dim").append(" ")
    table = Table(title="what each n-gram adds", title_justify="left")
    for column in ("n-gram", "adds", "", "CNG", "styles with it"):
        table.add_column(column, justify="left" if column in ("n-gram", "") else "right")
    widest = max((abs(part.adds) for part in why.contributions), default=0.0) or 1.0
    for part in why.contributions[:top]:
        bar = Text(BAR * round(20 * abs(part.adds) / widest), style=FOR if part.adds >= 0 else AGAINST)
        known = str(part.styles) if part.styles else Text("unseen", style="yellow")
        table.add_row(Text(part.ngram), _signed(part.adds), bar, _signed(part.score), known)
    note = []
    if len(why.contributions) > top:
        rest = sum(part.adds for part in why.contributions[top:])
        note.append(Text(f"{len(why.contributions) - top} more n-grams add {rest:+.4f}", style="dim"))
    if unseen := unseen_words(why):
        note.append(Text(f"no style has: {', '.join(unseen)}; they score 0 and still count", style="yellow"))
    return Group(styles, caption, table, *note)


def words_view(style: str, orders: Sequence[Sequence[StyleWord]]) -> Group:
    """Top n-grams, two orders side by side, each with its score and the number of the style's captions that hold it."""
    shown = [words for words in orders if words]
    heading = Text(f"{style}: n-grams with the highest CNG, and how many of the style's captions they are in")
    return Group(heading, *(_word_table(shown[first : first + 2]) for first in range(0, len(shown), 2)))


def _word_table(shown: Sequence[Sequence[StyleWord]]) -> Table:
    table = Table()
    best = max((word.captions for words in shown for word in words), default=1)
    for words in shown:
        table.add_column(f"{words[0].n}-gram", no_wrap=True)
        table.add_column("CNG", justify="right", no_wrap=True)
        table.add_column("in", justify="right", no_wrap=True)
    for row in range(max(map(len, shown), default=0)):
        cells: list[str | Text] = []
        for words in shown:
            word = words[row] if row < len(words) else None
            bar = BAR * round((30 if len(shown) == 1 else 0) * word.captions / best) if word else ""
            score = Text(f"{bar} {word.score:.4f}".strip(), style=FOR) if word else ""
            cells += [Text(word.ngram), score, str(word.captions)] if word else ["", "", ""]
        table.add_row(*cells)
    return table


def scores_view(rows: Mapping[str, Mapping[str, float | None]]) -> Table:
    """Styles by words, as in the paper's Figure 2."""
    table = Table(title="CNG of words (columns) under styles (rows)", title_justify="left")
    table.add_column("style")
    for ngram in rows:
        table.add_column(ngram, justify="right")
    for style in next(iter(rows.values()), {}):
        values = [rows[ngram][style] for ngram in rows]
        table.add_row(Text(style), *(_signed(value) if value is not None else Text("unseen") for value in values))
    return table


def agreement_view(found: Sequence[Agreement]) -> Table:
    """One row per style, as in the paper's Table 4."""
    table = Table(title="OnlyStyle against people's rankings", title_justify="left")
    for column in ("style", "captions", "raters", "Pearson", "Spearman"):
        table.add_column(column, justify="left" if column == "style" else "right")
    for row in found:
        values = ("—" if math.isnan(value) else f"{value:.3f}" for value in (row.pearson, row.spearman))
        table.add_row(Text(row.style), str(len(row.captions)), str(row.raters), *values)
    return table


def _signed(value: float) -> Text:
    text = signed(value)
    return Text(text, style={"+": FOR, "-": AGAINST}.get(text[0], "dim"))
