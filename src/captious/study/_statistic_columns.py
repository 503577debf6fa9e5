"""Statistics as tables show them: what they are called, what they mean, times 100 with two digits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

from captious.options import Resampling
from captious.render import Answer, Cell, Column, Document, Figure, Series, Table
from captious.render.answers import count_noun
from captious.render.document import Value
from captious.stats.bootstrap import Estimate
from captious.stats.rater_agreement import ALPHA_DECIMALS, Alpha, name_agreement

# Raters in the printed table.
RATERS = 50


class StatisticFormat(NamedTuple):
    """How a statistic is printed."""

    label: str
    meaning: str
    latex: str = ""
    scale: float = 100.0
    higher_is_better: bool = True


STATISTICS = {
    "tau_b": StatisticFormat("τ-b", "Kendall's tau over rows", r"$\tau_b$"),
    "tau_c": StatisticFormat("τ-c", "Kendall's tau over rows", r"$\tau_c$"),
    "pearson": StatisticFormat("Pearson", "over rows"),
    "spearman": StatisticFormat("Spearman", "over rows"),
    "sample_tau": StatisticFormat("sample τ", "tau-b within each image, averaged", r"sample $\tau$"),
    "sample_pearson": StatisticFormat("sample r", "Pearson's r within each image, averaged"),
    "sample_spearman": StatisticFormat("sample ρ", "Spearman's correlation within each image, averaged"),
    "rater_tau_b": StatisticFormat("rater τ-b", "with each rater by itself, averaged over raters"),
    "rater_spearman": StatisticFormat("rater ρ", "with each rater by itself, averaged over raters"),
    "accuracy": StatisticFormat("pair acc.", "caption pairs of one image in people's order"),
    "accuracy_eq": StatisticFormat(
        "acc. eq", "caption pairs of one image in people's order, ties by the best threshold"
    ),
    "system_tau": StatisticFormat("system τ", "tau-b of the systems' means", r"system $\tau$"),
    "system_pearson": StatisticFormat("system r", "Pearson's r of the systems' means"),
    "r2": StatisticFormat("R²", "of ratings on 0..1 predicted by the metric as it is", "$R^2$", 1.0),
    "one_minus_r2": StatisticFormat(
        "1−R²", "squared error over the metric's sum of squares, lower is better", "$1-R^2$", 1.0, False
    ),
    "r2_fitted": StatisticFormat("R² fitted", "after the best straight line", "$R^2$ fitted", 1.0),
    "mean": StatisticFormat("mean", "accuracy over categories, a tie of the metric ½ unless the recipe says otherwise"),
    "strict": StatisticFormat("strict mean", "the same, a tie of the metric wrong"),
    "pooled": StatisticFormat("all", "accuracy over all pairs, as the recipe counts ties"),
    "half": StatisticFormat("ties ½", "the pairs that people decided, a tie of the metric ½, in double precision"),
    "soft": StatisticFormat(
        "soft acc.", "soft pairwise accuracy: is the metric as sure as people which system is better"
    ),
}


def get_label(statistic: str) -> str:
    """Return the label of a statistic in tables; a category of pairs has its own name."""
    return STATISTICS[statistic].label if statistic in STATISTICS else statistic


def get_scaled_label(statistic: str) -> str:
    """Return the label with the factor of the printed values, such as τ-b × 100."""
    return get_label(statistic) + (" × 100" if make_column(statistic).scale == 100 else "")


def estimates_series(name: str, x: Sequence[str], estimates: Iterable[Estimate], statistic: str) -> Series:
    """Estimates with their intervals for a chart, times 100 where tables print them so."""
    scale = make_column(statistic).scale
    points = [(scale * one.value, scale * one.low, scale * one.high) for one in estimates]
    values, low, high = zip(*points, strict=True)
    return Series(name, x, values, low, high)


def make_column(statistic: str, name: str = "", *, best: bool = False, **options: Any) -> Column:
    """Make a column of one statistic; with ``best`` its best value is marked."""
    shown = STATISTICS.get(statistic) or StatisticFormat(statistic, "")
    return Column(
        name or shown.label,
        decimals=2,
        scale=shown.scale,
        higher_is_better=shown.higher_is_better if best else None,
        key=options.pop("key", statistic),
        latex=shown.latex if not name else "",
        **options,
    )


def explain_columns(statistics: Iterable[str]) -> str:
    """Explain the abbreviations of a table's columns in a line.

    >>> explain_columns(["tau_b", "tau_c", "HC"])
    "τ-b, τ-c: Kendall's tau over rows"
    """
    labels: dict[str, list[str]] = {}
    for shown in (STATISTICS[name] for name in statistics if name in STATISTICS):
        labels.setdefault(shown.meaning, []).append(shown.label)
    return "; ".join(f"{', '.join(names)}: {meaning}" for meaning, names in labels.items())


def build_agreement_document(
    name: str,
    resampling: Resampling,
    tables: Sequence[Table],
    data: Mapping[str, Any],
    warnings: Sequence[str] = (),
    left_out: Mapping[str, int] = MappingProxyType({}),
    read: str = "",
    answer: Answer = "",
) -> Document:
    """Build the document of an agreement: tables of alpha, of the human ceiling and of all raters, and their data."""
    interval = resampling.signature("images")
    alpha, ceiling, raters = tables
    signature = "|".join([f"agreement({data['alpha'].measurement}):{name}", *sign_left_out(left_out), f"ci:{interval}"])
    sections = [alpha, ceiling, *raters.cut_after(RATERS, "raters")]
    data = {**data, "ci": interval, "dropped": left_out}
    notes = [*filter(None, [read]), *list_left_out(left_out)]
    return Document(alpha.title, "", sections, warnings, notes, (signature,), data, "agreement", answer)


# Krippendorff's rule of thumb: alphas of reliable ratings, and of ratings that allow tentative conclusions.
RELIABLE, TENTATIVE = 0.8, 0.667


def describe_alpha(alpha: Alpha, unit: str, resampling: Resampling) -> list[str | Figure]:
    """Return whether raters agree well enough, by Krippendorff's rule of thumb, with alpha and its interval."""
    value = alpha.estimate.value
    if value >= RELIABLE:
        start, rule = "Raters agree well", f"from {RELIABLE:g} on, ratings count as reliable"
    elif value >= TENTATIVE:
        start, rule = "Raters agree fairly", f"below {RELIABLE:g}, draw only tentative conclusions"
    else:
        start, rule = "Raters do not agree well enough", f"below {TENTATIVE:g}, ratings count as unreliable"
    figure = Figure(alpha.estimate, _make_alpha_column(resampling))
    size = f"{count_noun(alpha.units, unit)} and {count_noun(alpha.raters, 'rater')}"
    return [f"{start}: Krippendorff's alpha is ", figure, f" for {size}; {rule}."]


def _make_alpha_column(resampling: Resampling) -> Column:
    return Column("alpha", decimals=ALPHA_DECIMALS, level=resampling.level, bold=True)


def list_left_out(left_out: Mapping[str, int]) -> list[str]:
    """Return a line for each reason why rows, ratings or captions were left out, with their number."""
    return [f"left out: {number:,} ({reason})" for reason, number in left_out.items()]


def sign_left_out(left_out: Mapping[str, int]) -> list[str]:
    """Return the part of a signature that says how many rows, ratings or captions were left out; none if all count."""
    number = sum(left_out.values())
    return [f"left_out:{number}"] if number else []


def build_alpha_table(name: str, alpha: Alpha, counts: tuple[str, str], note: str, resampling: Resampling) -> Table:
    """Build the row of alpha with its interval and what it was computed from; ``counts`` names the answers and the
    units.
    """
    columns = [*map(Column, counts), Column("raters"), Column("single")]
    row: list[Value] = [
        f"Krippendorff's alpha ({alpha.measurement})",
        Cell.of(alpha.estimate),
        *(alpha.ratings, alpha.units, alpha.raters, alpha.single),
    ]
    if word := name_agreement(alpha.estimate.value):
        note = f"{note}. Landis and Koch's guideline for kappa calls this agreement {word}"
    return Table(
        "alpha",
        f"{PurePath(name).name}: agreement between raters",
        ["measure", _make_alpha_column(resampling), *columns],
        [row],
        f"{note}. {resampling.sentence('images')}".rstrip(),
    )
