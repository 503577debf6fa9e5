"""OnlyStyle: the mean contrastive score of a caption's n-grams under a style; and the base class of style metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from captious._core.types import Floats, Ints
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.contract import MeanMetric, Need, Shared
from captious.metrics.explanation import Breakdown, Contribution, MarkedText
from captious.metrics.statistic_rows import Scored, give_reason
from captious.metrics.style.fitting import build_sorted_table, strip_version
from captious.metrics.style.model import ORDERS, AnyInts, StyleModel
from captious.metrics.style.model_files import load_once
from captious.render import Column
from captious.text.ngram_tables import NgramTable, TextTable, run_indices


@dataclass(frozen=True)
class StyleMetric(MeanMetric):
    """A metric under the style of each item, which comes from a column or is the same for all items."""

    model: str = ""
    style: str = ""
    column: str = "style"

    title: ClassVar[str]
    main: ClassVar[str] = "model"
    always_shown: ClassVar[tuple[str, ...]] = ("model",)
    needs: ClassVar[tuple[Need, ...]] = ("style",)
    citation: ClassVar[str] = (
        "Li, Harrison. StyleM: stylized metrics for image captioning built with contrastive n-grams. arXiv 2022."
    )

    @property
    def label(self) -> str:
        """The metric's title, with the style where one is named for all items."""
        return f"{self.title} ({self.style})" if self.style else self.title

    def prepare(self, captions: CaptionSet) -> Shared[StyleModel]:
        """Load the model from its file."""
        if not self.model:
            raise InputError(
                f"{self.name} needs a style model: {self.name}(model=FILE), made with: captious style fit corpus.jsonl "
                "--out FILE"
            )
        model = load_once(self.model).require_contrast()
        return Shared(model, f"the style model {model}")

    def settings(self, state: Shared[StyleModel]) -> Mapping[str, str]:
        """Return the fingerprint of the model, its corpus, its size, and its tokenizer."""
        model = state.value
        return {
            "tok": model.tokenizer,
            "model": model.mark,
            "corpus": f"{int(model.captions.sum())}:{model.fingerprint:016x}"[:-8],
            "styles": str(len(model.styles)),
        }

    def average_rows(self, captions: CaptionSet, table: TextTable, values: Floats) -> Scored:
        """Build rows of a mean from the values of all captions; an item without a style has no value."""
        without = np.array([not name for name in self._get_style_names(captions)], dtype=np.bool_)
        clause = captions.scripts.explain_unsplit_clauses(table.tokenizer.name, "")
        warnings = [f"{clause} to captious style fit, for a model that knows words"] if clause else []
        return Scored(table.mean_rows(values[table.candidates]), give_reason(without, "no style"), warnings=warnings)

    def find_styles(self, captions: CaptionSet, model: StyleModel) -> Ints:
        """Find the model's number of each item's style; 0 for an item without one, which gets no value."""
        names, numbers = self._get_style_names(captions), {style: index for index, style in enumerate(model.styles)}
        for key, name in zip(captions.ids, names, strict=True):
            if name and name not in numbers:
                model.find_style(name, "" if self.style else f"{captions.name}: id {key}")
        return np.array([numbers.get(name, 0) for name in names], dtype=np.int64)

    def _get_style_names(self, captions: CaptionSet) -> list[str]:
        if self.style:
            return [self.style] * len(captions)
        if self.column not in captions.columns:
            return [""] * len(captions)
        return ["" if value is None else str(value) for value in captions.columns[self.column]]

    def hint(self, reason: str) -> str:
        """Say that a style can come from a column or from a parameter."""
        if reason == "no style":
            return f"; give a column {self.column!r}, name another with column=, or one style for all with style="
        return super().hint(reason)


def tokenize_captions(captions: CaptionSet, model: StyleModel) -> TextTable:
    """Tokenize a set with the tokenizer of the model."""
    return TextTable.of(captions, strip_version(model.tokenizer))


class OnlyReading(NamedTuple):
    """The interpretation of equations 5 and 6 where the paper leaves a choice; the defaults follow it literally."""

    grams: Literal["set", "multiset"] = "set"
    """Whether an n-gram that a caption repeats counts once or as often as it stands there."""
    unseen: Literal["zero", "skip"] = "zero"
    """An n-gram that no style has: score 0 and still counted, or left out of the mean."""
    short: Literal["zero", "skip"] = "zero"
    """An order without n-grams: 0 and still counted among the four, or left out of the mean over orders."""


LITERAL = OnlyReading()


@dataclass(frozen=True)
class OnlyStyle(StyleMetric):
    """OnlyStyle: the mean contrastive score (CNG) of a caption's n-grams under a style, averaged over orders 1 to 4.

    With M_n(c) the set of n-grams of caption c, and CNG_p(t) the score of n-gram t for style p (`captious style fit`)::

        OnlyStyle(c, p) = ¼ Σ over n of  mean over t in M_n(c) of CNG_p(t)

    It is between −1/|S| and (|S| − 1)/|S|. The model is a file from ``captious style fit``; the style of an item
    is in the column ``column``, or ``style`` names one for all items. No code of the authors is public, so these
    are readings of the paper: an n-gram that no style has scores 0 and still counts (``unseen=skip`` leaves it out), a
    caption too short for an order gets 0 there (``short=skip`` averages over the orders it has), and an n-gram counts
    once however often it is repeated (``grams=multiset``). A caption without words therefore scores 0.

    >>> import tempfile
    >>> from captious.metrics import fit_style, save_style
    >>> path = tempfile.mkdtemp() + "/tiny.style"
    >>> save_style(fit_style([("gloomy", "a grey day"), ("happy", "a fine day")]), path)
    >>> captions = CaptionSet.of({"1": "fine day"}, columns={"style": ["happy"]})
    >>> round(OnlyStyle(model=path).measure(captions).corpus, 6)  # ¼ · ((½ + 0)/2 + ½ + 0 + 0)
    0.1875
    """

    grams: Literal["set", "multiset"] = "set"
    unseen: Literal["zero", "skip"] = "zero"
    short: Literal["zero", "skip"] = "zero"

    name: ClassVar[str] = "onlystyle"
    title: ClassVar[str] = "OnlyStyle"
    range: ClassVar[tuple[float, float]] = (-0.5, 1.0)
    undefined_reason: ClassVar[str] = "the model knows no n-gram of the caption"

    def score_items(self, captions: CaptionSet, state: Shared[StyleModel]) -> Scored:
        """Score items. A row is the sum of the candidates' values, and their number."""
        table = tokenize_captions(captions, state.value)
        style = self.find_styles(captions, state.value)[table.item]
        values = score_own_styles(ModelNgrams(state.value, table), style, self.reading)
        return self.average_rows(captions, table, values)

    @property
    def reading(self) -> OnlyReading:
        """How the paper's equations are read."""
        return OnlyReading(self.grams, self.unseen, self.short)

    def break_down(self, item: CaptionSet, state: Shared[StyleModel]) -> Breakdown:
        """Break the value down by n-grams with their contrastive scores, and color the words by their parts."""
        model, texts = state.value, item.candidates.values
        style = model.styles[self.find_styles(item, model)[0]]
        parts: list[Contribution] = []
        marked, unseen = list[MarkedText](), list[str]()
        for rank, text in enumerate(texts):
            one = break_down_style(model, text, style, self.reading)
            parts += [part._replace(adds=part.adds / len(texts), candidate=rank) for part in one.parts]
            marked += one.texts
            unseen += [note for note in one.notes if note not in unseen]
        return Breakdown(parts, columns=COLUMNS, texts=marked, formula=one.formula, notes=unseen)


# The columns of the parts of an OnlyStyle.
COLUMNS = (
    Column("n"),
    Column("CNG", signed=True, key="score"),
    Column("styles"),
)


def break_down_style(model: StyleModel, caption: str, style: str, reading: OnlyReading = LITERAL) -> Breakdown:
    """Break OnlyStyle of a caption under a style down by n-grams.

    What an n-gram adds is split evenly over its occurrences and its words to color the caption.

    >>> from captious.metrics.style.fitting import fit
    >>> breakdown = break_down_style(fit([("gloomy", "a grey day"), ("happy", "a fine day")]), "Fine day", "happy")
    >>> [(part.name, part.adds) for part in breakdown.parts], breakdown.texts[0].weights
    ([('day', 0.0), ('fine', 0.0625), ('fine day', 0.125)], [0.125, 0.0625])
    """
    ngrams, number = ModelNgrams.of(model, [caption]), model.find_style(style)
    table, words = ngrams.table, ngrams.table.words(0)
    parts, weights = [], np.zeros(len(words))
    sizes = [int(size[0]) for size in ngrams.sizes(weigh_rows(ngrams, reading))]
    orders = sum(size > 0 for size in sizes) if reading.short == "skip" else ORDERS
    for rows, size in zip(ngrams.orders, sizes, strict=True):
        cng = model.score_ngrams(rows.n, rows.located, np.full(len(rows.located), number))
        styles = np.append(model.orders[rows.n - 1].occurrences, 0)[rows.located]
        for gram in range(rows.grams.size):
            starts = np.flatnonzero(rows.grams.at == gram).tolist()
            amount = len(starts) if reading.grams == "multiset" else 1
            adds = float(cng[gram]) * amount / (size * orders) if size else 0.0
            details = {"n": rows.n, "score": float(cng[gram]), "styles": int(styles[gram])}
            parts.append(Contribution(table.ngram(rows.n, gram), adds, details=details))
            for start in starts:
                weights[start : start + rows.n] += adds / len(starts) / rows.n
    unseen = [part.name for part in parts if part.details["n"] == 1 and not part.details["styles"]]
    counted = "they score 0 and still count" if reading.unseen == "zero" else "they are left out"
    return Breakdown(
        parts,
        columns=COLUMNS,
        texts=[MarkedText(f"as {style}", words, weights=weights.tolist())],
        formula=f"OnlyStyle = mean over {orders} orders of the mean CNG of their n-grams; styles: how many have it",
        notes=[f"no style has: {', '.join(unseen)}; {counted}"] if unseen else [],
    )


class StyledNgrams(NamedTuple):
    """The n-grams of one order in all captions: rows (n-gram, caption, count), sorted by n-gram."""

    n: int
    grams: NgramTable
    located: Ints
    """The index of each n-gram of the captions in the model; -1 if the model does not have it."""
    base: Floats
    """The part of each n-gram's score that all styles share."""
    first: Ints
    """N-gram ``g`` has the rows ``first[g]`` up to ``first[g + 1]``."""
    entries: Ints
    """Entries of the model whose n-gram occurs in the captions, in the order of styles."""
    style_starts: Ints
    """Style ``p`` has ``entries[style_starts[p]:style_starts[p + 1]]``."""
    entry_gram: Ints
    """The index of the n-gram of each of ``entries`` in the captions."""


@dataclass(frozen=True, eq=False)
class ModelNgrams:
    """The n-grams of captions, each with its number in a style model."""

    model: StyleModel
    table: TextTable

    @classmethod
    def of(cls, model: StyleModel, texts: Sequence[str]) -> ModelNgrams:
        """Collect the n-grams of plain texts."""
        return cls(model, build_sorted_table(texts, model.tokenizer))

    @property
    def captions(self) -> int:
        """The number of captions."""
        return len(self.table.lengths)

    @cached_property
    def located(self) -> list[Ints]:
        """The indices in the model of the n-grams of the captions, per order; -1 where the model has no such n-gram."""
        return self.model.locate(self.table)

    @cached_property
    def orders(self) -> tuple[StyledNgrams, ...]:
        """The rows of each order."""
        return tuple(self._build_rows(n) for n in range(1, ORDERS + 1))

    def _build_rows(self, n: int) -> StyledNgrams:
        grams, located = self.table.ngrams(n), self.located[n - 1]
        scores, order = self.model.scores[n - 1], self.model.orders[n - 1]
        inverse = np.full(len(order.last) + 1, -1, dtype=np.int64)
        inverse[located] = np.arange(grams.size)
        # Unseen n-grams have located == -1 and wrote into this last element: reset it.
        inverse[-1] = -1
        entry_gram = inverse[scores.gram]
        entries = np.flatnonzero(entry_gram >= 0)
        entries = entries[np.argsort(order.style[entries], kind="stable")]
        return StyledNgrams(
            n=n,
            grams=grams,
            located=located,
            base=scores.base[located],
            first=np.searchsorted(grams.gram, np.arange(grams.size + 1)),
            entries=entries,
            style_starts=np.searchsorted(order.style[entries], np.arange(len(self.model.styles) + 1)),
            entry_gram=entry_gram[entries],
        )

    def weights(self, rows: StyledNgrams, style: int) -> tuple[Floats, Ints]:
        """Return the CNG under a style of each n-gram of the captions, and the indices of those that occur in the
        style.
        """
        part = slice(rows.style_starts[style], rows.style_starts[style + 1])
        weights = -rows.base
        weights[rows.entry_gram[part]] += self.model.scores[rows.n - 1].share[rows.entries[part]]
        return weights, rows.entry_gram[part]

    def sizes(self, weights: Sequence[AnyInts]) -> list[Floats]:
        """Sum the weights of each caption's rows, per order."""
        pairs = zip(self.orders, weights, strict=True)
        return [sum_by_key(rows.grams.caption, amount, self.captions) for rows, amount in pairs]


def expand_runs(starts: AnyInts, chosen: AnyInts) -> tuple[Ints, Ints]:
    """Return all positions of the chosen runs, and the length of each run.

    >>> [part.tolist() for part in expand_runs(np.array([0, 2, 3, 6]), np.array([0, 2]))]
    [[0, 1, 3, 4, 5], [2, 3]]
    """
    lengths = starts[chosen + 1] - starts[chosen]
    return run_indices(starts[chosen], lengths), lengths


def sum_by_key(keys: AnyInts, weights: npt.NDArray[Any], size: int) -> Floats:
    """Sum weights by key, as floats even if there are no weights at all, unlike `np.bincount`."""
    return np.bincount(keys, weights, size).astype(np.float64, copy=False)


def weigh_rows(ngrams: ModelNgrams, reading: OnlyReading) -> list[AnyInts]:
    """Return the weight of each row in the mean of its caption, per order."""
    weights: list[AnyInts] = []
    for rows in ngrams.orders:
        grams = rows.grams
        amount = grams.count if reading.grams == "multiset" else np.ones(len(grams.count), dtype=np.int32)
        weights.append(amount * (rows.located[grams.gram] >= 0) if reading.unseen == "skip" else amount)
    return weights


def score_own_styles(ngrams: ModelNgrams, style: AnyInts, reading: OnlyReading = LITERAL) -> Floats:
    """Compute OnlyStyle of each caption under its own style; NaN if there is nothing to average."""
    weights, sums = weigh_rows(ngrams, reading), []
    for rows, amount in zip(ngrams.orders, weights, strict=True):
        grams = rows.grams
        scores = ngrams.model.score_ngrams(rows.n, rows.located[grams.gram], style[grams.caption])
        sums.append(sum_by_key(grams.caption, scores * amount, ngrams.captions))
    return _mean_over_orders(ngrams, sums, ngrams.sizes(weights), reading)


def score_all_styles(ngrams: ModelNgrams, reading: OnlyReading = LITERAL) -> Floats:
    """Compute OnlyStyle of each caption (rows) under each style of the model (columns).

    >>> from captious.metrics.style.fitting import fit
    >>> ngrams = ModelNgrams.of(fit([("gloomy", "a grey day"), ("happy", "a fine day")]), ["fine day"])
    >>> score_all_styles(ngrams).tolist()  # happy: ¼ · ((½ + 0)/2 + ½ + 0 + 0)
    [[-0.1875, 0.1875]]
    """
    return np.stack(list(iterate_styles(ngrams, reading)), axis=1)


def iterate_styles(ngrams: ModelNgrams, reading: OnlyReading = LITERAL) -> Iterator[Floats]:
    """Yield OnlyStyle of all captions under one style after the other."""
    weights = weigh_rows(ngrams, reading)
    sizes = ngrams.sizes(weights)
    shared = [
        sum_by_key(rows.grams.caption, rows.base[rows.grams.gram] * amount, ngrams.captions)
        for rows, amount in zip(ngrams.orders, weights, strict=True)
    ]
    for style in range(len(ngrams.model.styles)):
        sums = []
        for rows, amount, base in zip(ngrams.orders, weights, shared, strict=True):
            # The score of an n-gram that the style does not have is -base, so only the others are added.
            part = slice(rows.style_starts[style], rows.style_starts[style + 1])
            at, lengths = expand_runs(rows.first, rows.entry_gram[part])
            share = np.repeat(ngrams.model.scores[rows.n - 1].share[rows.entries[part]], lengths)
            sums.append(sum_by_key(rows.grams.caption[at], share * amount[at], ngrams.captions) - base)
        yield _mean_over_orders(ngrams, sums, sizes, reading)


def _mean_over_orders(
    ngrams: ModelNgrams, sums: Sequence[Floats], sizes: Sequence[Floats], reading: OnlyReading
) -> Floats:
    """Average each order's mean, given its sum and its number of n-grams, over orders."""
    total = np.zeros(ngrams.captions)
    for order, size in zip(sums, sizes, strict=True):
        total += np.divide(order, size, out=np.zeros_like(order), where=size > 0)
    defined = np.sum([size > 0 for size in sizes], axis=0)
    if reading.short == "skip":
        return np.where(defined == 0, np.nan, total / np.maximum(defined, 1))
    return np.where((defined == 0) & (ngrams.table.lengths > 0), np.nan, total / ORDERS)
