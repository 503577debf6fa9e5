"""Style on a page: self-contained HTML for `why` and `words`, and the words as an SVG chart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from rich.console import Group
from rich.table import Table
from rich.text import Text

from captious._version import __version__
from captious.metrics.style.explain import StyleWord, Why, unseen_words
from captious.metrics.style.model import StyleModel
from captious.probes.style import Agreement
from captious.report.frame import frame

FOR, AGAINST = "#0f766e", "#b45309"
"""What speaks for a style and what against: told apart in every kind of color vision, and by sign as well."""

STYLE = """
:root{color-scheme:light dark;--ink:#1c1917;--soft:#78716c;--paper:#fff;--line:#e7e5e4;
--for:15,118,110;--against:180,83,9}
@media(prefers-color-scheme:dark){:root{--ink:#f5f5f4;--soft:#a8a29e;--paper:#1c1917;--line:#44403c;
--for:45,212,191;--against:251,146,60}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:62rem;margin:2rem auto;
padding:0 1rem}h1{font-size:1.35rem;margin:0 0 .3rem}h2{font-size:1rem;margin:1.8rem 0 .5rem}p,td.s{color:var(--soft)}
.caption{font-size:1.5rem;line-height:2.1;color:var(--ink)}.caption span{padding:.15em .3em;border-radius:.25em;
margin-right:.12em}table{border-collapse:collapse;width:100%}th{text-align:left;font-weight:600}
td,th{padding:.2rem .6rem .2rem 0;border-bottom:1px solid var(--line);vertical-align:middle}
td.v,th.v{text-align:right;font-variant-numeric:tabular-nums}td.b{width:38%}.bar{display:block;height:.8rem;
border-radius:2px}.half{display:flex}.half div{width:50%;display:flex}.half .l{justify-content:flex-end}
.for{background:rgb(var(--for))}.against{background:rgb(var(--against))}.grid{display:grid;gap:0 2rem;
grid-template-columns:repeat(auto-fit,minmax(22rem,1fr))}footer{color:var(--soft);font-size:.8rem;margin:2rem 0}
"""


def why_page(why: Why, ranking: Sequence[tuple[str, float]], signature: str) -> str:
    """Why a caption scores as it does under a style."""
    most = max((abs(part) for _, part in why.words), default=0.0) or 1.0
    words = "".join(
        f'<span style="background:rgba(var(--{"for" if part >= 0 else "against"}),{0.75 * abs(part) / most:.2f})" '
        f'title="{part:+.4f}">{escape(word)}</span> '
        for word, part in why.words
    )
    widest = max((abs(part.adds) for part in why.contributions), default=0.0) or 1.0
    rows = "".join(
        f'<tr><td>{escape(part.ngram)}</td><td class="b">{_bar(part.adds / widest)}</td>'
        f'<td class="v">{signed(part.adds)}</td><td class="v">{signed(part.score)}</td>'
        f'<td class="v">{part.styles or "unseen"}</td></tr>'
        for part in why.contributions
    )
    top = max((abs(value) for _, value in ranking), default=0.0) or 1.0
    styles = "".join(
        f'<tr><td>{escape(style)}</td><td class="b">{_bar(value / top)}</td><td class="v">{value:+.4f}</td></tr>'
        for style, value in ranking[:20]
    )
    body = (
        f'<h1>{escape(why.style)}: {why.value:+.4f}</h1><p class="caption">{words}</p>'
        "<p>Each word is colored by its part of the score: green speaks for the style, orange against it.</p>"
        "<h2>N-grams and what each adds</h2><table><tr><th>n-gram</th><th></th><th class=v>adds</th>"
        f"<th class=v>CNG</th><th class=v>styles with it</th></tr>{rows}</table>"
        f"<h2>Closest styles</h2><table>{styles}</table>"
    )
    return _page(f"{why.style}: {why.caption}", body, signature)


def words_page(found: Mapping[str, Sequence[Sequence[StyleWord]]], signature: str) -> str:
    """The top n-grams of styles, order by order; the bar is the number of captions, since top scores hardly differ."""
    parts = []
    for style, orders in found.items():
        parts.append(f'<h1>{escape(style)}</h1><div class="grid">')
        for n, words in enumerate(orders, start=1):
            top = max((word.captions for word in words), default=1)
            rows = "".join(
                f'<tr><td>{escape(word.ngram)}</td><td class="b">{_half(word.captions / top)}</td>'
                f'<td class="v">{word.score:+.4f}</td><td class="v">{word.captions}</td></tr>'
                for word in words
            )
            parts.append(
                f"<section><h2>{n} word{'s' if n > 1 else ''}</h2><table><tr><th>n-gram</th><th></th>"
                f"<th class=v>CNG</th><th class=v>captions</th></tr>{rows}</table></section>"
            )
        parts.append("</div>")
    return _page("words of " + ", ".join(found), "".join(parts), signature)


def words_chart(found: Mapping[str, Sequence[StyleWord]], title: str) -> str:
    """An SVG of the top words of each style side by side: the bar is the number of captions, and CNG stands by it."""
    rows, width, step = max((len(words) for words in found.values()), default=0), 400, 22
    height = 74 + rows * step
    top = max((word.captions for words in found.values() for word in words), default=1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * len(found)}" height="{height}" '
        f'viewBox="0 0 {width * len(found)} {height}" font-family="system-ui, sans-serif" font-size="13">',
        f'<rect width="100%" height="100%" fill="#ffffff"/><text x="16" y="24" font-size="15" font-weight="600" '
        f'fill="#1c1917">{escape(title)}</text>',
    ]
    for column, (style, words) in enumerate(found.items()):
        left = column * width
        parts.append(f'<text x="{left + 16}" y="52" font-weight="600" fill="#1c1917">{escape(style)}</text>')
        for row, word in enumerate(words):
            y, length = 62 + row * step, 150 * word.captions / top
            parts.append(
                f'<text x="{left + 150}" y="{y + 13}" text-anchor="end" fill="#1c1917">{escape(word.ngram)}</text>'
                f'<rect x="{left + 158}" y="{y + 2}" width="{length:.1f}" height="14" rx="2" '
                f'fill="{(FOR, AGAINST)[column % 2]}"/><text x="{left + 164 + length:.1f}" y="{y + 13}" '
                f'fill="#57534e" font-size="11">{word.captions} · {word.score:.3f}</text>'
            )
    return "\n".join([*parts, "</svg>\n"])


def signed(value: float) -> str:
    """Four digits and a sign, which a value that rounds to 0 does not get.

    >>> signed(0.25), signed(-0.00001)
    ('+0.2500', '0.0000')
    """
    return "0.0000" if abs(value) < 0.00005 else f"{value:+.4f}"


def _bar(share: float) -> str:
    inner = f'<i class="bar {"for" if share >= 0 else "against"}" style="width:{100 * abs(share):.1f}%"></i>'
    left, right = (inner, "") if share < 0 else ("", inner)
    return f'<div class="half"><div class="l">{left}</div><div>{right}</div></div>'


def _half(share: float) -> str:
    return f'<i class="bar {"for" if share >= 0 else "against"}" style="width:{100 * abs(share):.1f}%"></i>'


def _page(title: str, body: str, signature: str) -> str:
    return frame(title, body, f"{signature} · captious {__version__}", STYLE)


BAR = "█"
SHOW_FOR, SHOW_AGAINST = "green", "dark_orange3"


def signature(model: StyleModel) -> str:
    """The model in one line: its content, corpus and tokenizer."""
    return (
        f"model:{model.mark}|corpus:{int(model.captions.sum())}:{model.fingerprint:016x}|"
        f"styles:{len(model.styles)}|tok:{model.tokenizer}"
    )


def why_view(why: Why, ranking: Sequence[tuple[str, float]], top: int) -> Group:
    """Closest styles, the caption colored by what its words add, and the n-grams that add most."""
    styles = Table(title="closest styles", title_justify="left")
    styles.add_column("style")
    styles.add_column("OnlyStyle", justify="right")
    for style, value in ranking[:top]:
        styles.add_row(Text(style, style="bold" if style == why.style else ""), _signed(value))
    most = max((abs(part) for _, part in why.words), default=0.0) or 1.0
    caption = Text(f"why {why.style} ({why.value:+.4f}): ")
    for word, share in why.words:
        color = SHOW_FOR if share >= 0 else SHOW_AGAINST
        strong = "bold " if abs(share) > 0.5 * most else ""
        caption.append(word, style=f"{strong}{color}" if abs(share) > 0.05 * most else "dim").append(" ")
    table = Table(title="what each n-gram adds", title_justify="left")
    for column in ("n-gram", "adds", "", "CNG", "styles with it"):
        table.add_column(column, justify="left" if column in ("n-gram", "") else "right")
    widest = max((abs(part.adds) for part in why.contributions), default=0.0) or 1.0
    for part in why.contributions[:top]:
        bar = Text(BAR * round(20 * abs(part.adds) / widest), style=SHOW_FOR if part.adds >= 0 else SHOW_AGAINST)
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
            score = Text(f"{bar} {word.score:.4f}".strip(), style=SHOW_FOR) if word else ""
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
    return Text(text, style={"+": SHOW_FOR, "-": SHOW_AGAINST}.get(text[0], "dim"))
