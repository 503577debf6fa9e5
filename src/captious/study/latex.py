"""The study's table for a paper: booktabs, best in bold, those that cannot be told from it marked."""

from __future__ import annotations

import math

from captious.render.latex import escape
from captious.study.printed import NAMES, value
from captious.study.study import Study
from captious.study.table import shown

_SYMBOLS = {
    "τ-b": r"$\tau_b$",
    "τ-c": r"$\tau_c$",
    "sample τ": r"sample $\tau$",
    "system τ": r"system $\tau$",
    "1−R²": r"$1-R^2$",
    "R²": r"$R^2$",
    "R² fitted": r"$R^2$ fitted",
}


def study_table(study: Study) -> str:
    """One row per metric from best to worst; a dagger marks what is indistinguishable from the best by the headline."""
    names = shown(study)
    found = study.estimates
    best = {name: _best({key: found[key][name].value for key in study.order}, name) for name in names}
    first = {*study.clusters[0]} - {study.order[0]}
    lines = [f"% {line}" for line in (*study.protocol, study.signature, *(score.signature for score in study.scores))]
    lines.append(f"% dagger: not distinguishable from the best, {study.options.test} test, Holm-adjusted")
    lines += [rf"\begin{{tabular}}{{rl{'r' * (len(names) + 1)}}}", r"\toprule"]
    heads = [_symbol(name) for name in names]
    lines.append(
        " & ".join(["", "Metric", heads[0], f"{study.options.level:.0%} interval".replace("%", r"\%"), *heads[1:]])
        + r" \\"
    )
    lines.append(r"\midrule")
    for place, cluster in enumerate(study.clusters, 1):
        for key in cluster:
            label = next(score.label for score in study.scores if score.key == key)
            cells = [_bold(value(found[key][name].value, name), best[name] == key) for name in names]
            cells[0] += r"$^\dagger$" if key in first else ""
            headline = found[key][names[0]]
            ends = (
                f"[{value(headline.low, names[0])}, {value(headline.high, names[0])}]"
                if headline.low == headline.low
                else "--"
            )
            lines.append(" & ".join([str(place), escape(label), cells[0], ends, *cells[1:]]) + r" \\")
        if place < len(study.clusters):
            lines.append(r"\addlinespace")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _best(values: dict[str, float], name: str) -> str | None:
    known = {key: -value if name == "one_minus_r2" else value for key, value in values.items() if not math.isnan(value)}
    return max(known, key=lambda key: known[key]) if known else None


def _symbol(name: str) -> str:
    shown_name = NAMES.get(name, name)
    return _SYMBOLS.get(shown_name, escape(shown_name))


def _bold(text: str, best: bool) -> str:
    text = text.replace("—", "--").replace("-", "$-$", 1) if text.startswith("-") else text.replace("—", "--")
    return rf"\textbf{{{text}}}" if best else text
