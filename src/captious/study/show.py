"""Studies, agreement, power, combinations and length regimes as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from captious.render.cells import p_value
from captious.stats.agreement import Alpha
from captious.study.agreement import Ceiling, Rater
from captious.study.combine import Chosen, Combination
from captious.study.lengths import Bucket
from captious.study.power import Power
from captious.study.printed import NAMES, interval, value
from captious.study.recipes import Recipe
from captious.study.study import Study
from captious.study.table import Table

RATERS_SHOWN, WIDTH = 50, 150


def print_study(study: Study, shown: Table) -> None:
    """Protocol, table, notes, signatures."""
    from rich.table import Table as Rich
    from rich.text import Text

    from captious.render.terminal import output

    console = output()
    if not console.is_terminal:
        console.width = WIDTH
    for line in study.protocol:
        console.print(Text(line, style="dim"), soft_wrap=True)
    table = Rich(title=f"{study.ratings.name}: agreement with people", title_justify="left")
    for place, column in enumerate(shown.columns):
        table.add_column(column, justify="left" if place == 1 else "right", style="bold" if place == 2 else "")
    last = ""
    for row in shown.rows:
        if last and row[0] != last:
            table.add_section()
        last = row[0]
        table.add_row(*map(Text, row))
    console.print(table)
    for note in shown.notes:
        console.print(Text(note), soft_wrap=True)
    for line in (study.signature, *(score.signature for score in study.scores)):
        console.print(Text(line, style="dim"), soft_wrap=True)


def agreement_text(found: Alpha, top: Ceiling, each: Sequence[Rater], confidence: float, resampling: str) -> str:
    """Alpha, the human ceiling, and a table of raters."""
    e = found.estimate
    lines = [
        f"Krippendorff's alpha ({found.measurement}): {e.value:.4f}  {confidence:.0%} interval "
        f"{e.low:.4f} – {e.high:.4f}",
        f"{found.ratings:,} ratings of {found.units:,} items by {found.raters} raters; {found.single} items with one "
        f"rating left out; {resampling}",
        "human ceiling, one rater against the others: "
        + ", ".join(
            f"{NAMES[name]} {value(estimate.value, name)} ({interval(estimate, name)})"
            for name, estimate in (("tau_b", top.tau_b), ("tau_c", top.tau_c), ("pearson", top.pearson))
        ),
    ]
    head = ("ratings", "rater", "shared", "mean", "sd", "bias", "r with others", "τ-b × 100", "alpha without")
    rows = [
        (
            f"{one.ratings:,}",
            one.name,
            f"{one.shared:,}",
            *(_digits(part) for part in (one.mean, one.spread, one.bias, one.pearson)),
            value(one.tau_b, "tau_b"),
            _digits(one.alpha_without),
        )
        for one in each[:RATERS_SHOWN]
    ]
    lines.append(str(Table(head, tuple(rows))))
    if len(each) > RATERS_SHOWN:
        lines.append(f"… and {len(each) - RATERS_SHOWN} more raters, in --json")
    return "\n".join(lines)


def power_text(found: Power) -> str:
    """What the planned study would show, and what it would take."""
    return (
        f"{found.items:,} captions, {found.items * found.raters:,} ratings: a difference of {found.difference:g} in "
        f"tau-b is found with power {found.power:.2f} (standard error {found.error:.4f}); "
        f"{found.detectable:.3f} would be found with power 0.80\n"
        f"for power 0.80: {found.needed:,} captions, {found.ratings:,} ratings; "
        f"for 0.90: {found.needed_90:,} captions, {found.needed_90 * found.raters:,} ratings\n"
        f"assumed: {found.assumed}"
    )


def combination_table(rows: Sequence[Combination], level: float) -> Table:
    """Before, after ± over seeds, and the gain with its interval."""
    lines = [
        (
            f"{row.weight:g}",
            f"{row.metric} + {row.other}",
            value(row.before, row.statistic),
            value(row.after, row.statistic) + (f" ± {value(row.spread, row.statistic)}" if row.seeds > 1 else ""),
            value(row.gain.value, row.statistic),
            interval(row.gain, row.statistic),
            p_value(row.p) if row.p == row.p else "—",
            str(row.seeds),
        )
        for row in rows
    ]
    name = NAMES.get(rows[0].statistic, rows[0].statistic)
    head = ("λ", "metrics", f"{name} before", "after", "gain", f"{level:.0%} interval", "p", "seeds")
    return Table(head, tuple(lines))


def chosen_table(rows: Sequence[Chosen]) -> Table:
    """The λ that cross-validation chooses, and what it gives on images that had no part in the choice."""
    lines = [
        (
            f"{row.weight:g}",
            f"{row.metric} + {row.other}",
            value(row.before, row.statistic),
            value(row.after, row.statistic) + (f" ± {value(row.spread, row.statistic)}" if row.seeds > 1 else ""),
            value(row.after - row.before, row.statistic),
            ", ".join(f"{weight:g}" for weight in row.weights),
        )
        for row in rows
    ]
    name = NAMES.get(rows[0].statistic, rows[0].statistic)
    head = ("best λ", "metrics", f"held-out {name} before", "after", "gain", "λ of each fold")
    return Table(head, tuple(lines))


def lengths_table(buckets: Sequence[Bucket], labels: Mapping[str, str], statistic: str, level: float) -> Table:
    """One row per bucket and metric."""
    lines = [
        (
            bucket.label,
            label,
            f"{bucket.items:,}",
            f"{bucket.rows:,}",
            value(bucket.estimates[key].value, statistic),
            interval(bucket.estimates[key], statistic),
        )
        for bucket in buckets
        for key, label in labels.items()
    ]
    head = (buckets[0].unit, "metric", "captions", "rows", NAMES.get(statistic, statistic), f"{level:.0%} interval")
    return Table(head, tuple(lines))


def recipe_text(recipe: Recipe) -> str:
    """The protocol, the files that are looked for, and where to get them."""
    files = "; or ".join(" + ".join([layout.ratings, *layout.references[:1]]) for layout in recipe.layouts)
    lines = [*recipe.protocol(), f"files: {files}", f"source: {recipe.source}", recipe.citation]
    return "\n  ".join([recipe.name, *lines]) + "\n"


def _digits(number: float) -> str:
    return "—" if number != number else f"{number:.3f}"
