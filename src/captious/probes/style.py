"""Styled captions as people have them: rows with a caption and a style, in any format that captions come in."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Group
from rich.table import Table
from rich.text import Text

from captious._typing import Bools, Floats, Ints, Ints32
from captious.errors import InputError
from captious.io.columns import CANDIDATE_COLUMNS, ID_COLUMNS, STYLE_COLUMN
from captious.io.formats import Row, name_of, rows_of
from captious.metrics.style.model import ORDERS, StyleModel, fingerprint_of, model_of, sorted_table
from captious.metrics.style.onlystyle import (
    LITERAL,
    OnlyReading,
    Placed,
    Rows,
    added,
    blocks,
    columns,
    own_scores,
    runs,
)
from captious.metrics.style.stylecider import DEFAULT, SIGMA, Reading


class StyleColumns(NamedTuple):
    """Names of the columns to use; None means the first known name that is there."""

    caption: str | None = None
    style: str = STYLE_COLUMN
    id: str | None = None


USUAL = StyleColumns()


@dataclass(frozen=True)
class StyledCorpus:
    """Captions with their styles, and ids where the rows had them."""

    name: str
    styles: tuple[str, ...]
    texts: tuple[str, ...]
    ids: tuple[str, ...]


def stream(sources: Iterable[Any], columns: StyleColumns = USUAL) -> Iterator[tuple[str, str]]:
    """(style, caption) of every row of every source; a caption that is a list counts once for each of its texts."""
    for source in sources:
        for row in rows_of(source):
            style = _style(row, columns.style)
            for text in _texts(row, columns.caption):
                yield style, text


def read_styled(source: Any, columns: StyleColumns = USUAL) -> StyledCorpus:
    """All rows of a source."""
    styles, texts, ids = [], [], []
    for number, row in enumerate(rows_of(source)):
        style = _style(row, columns.style)
        key = next((name for name in (columns.id, *ID_COLUMNS) if name in row.fields), None)
        for text in _texts(row, columns.caption):
            styles.append(style)
            texts.append(text)
            ids.append(str(row.fields[key]) if key else f"#{number}")
    if not texts:
        raise InputError(f"{name_of(source)}: holds no captions")
    return StyledCorpus(name_of(source), tuple(styles), tuple(texts), tuple(ids))


def _texts(row: Row, column: str | None) -> list[str]:
    name = next((name for name in ((column,) if column else CANDIDATE_COLUMNS) if name in row.fields), None)
    if name is None:
        raise InputError(f"{row.where}: no caption: {_columns(row)}, expected {column or ', '.join(CANDIDATE_COLUMNS)}")
    value = row.fields[name]
    texts = value if isinstance(value, list) else [value]
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{row.where}: {name} is {text!r}, expected a string")
    return texts


def _style(row: Row, column: str) -> str:
    if column not in row.fields:
        raise InputError(f"{row.where}: no style: {_columns(row)}, expected {column!r}; name it with --style-column")
    value = row.fields[column]
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise InputError(f"{row.where}: {column} is {value!r}, expected the name of a style")
    return str(value)


def _columns(row: Row) -> str:
    return f"found columns {', '.join(map(str, row.fields)) or 'none'}"


Scored = tuple[Ints, Floats]
"""Captions, and their similarity to the references of each style (columns); NaN where there are no references."""


class _Order(NamedTuple):
    rows: Rows
    amount: Floats
    style: Ints
    """Of each entry (n-gram, style of captions here), the style; entries are sorted."""
    gram: Ints32
    heads: Ints
    """Entry ``e`` has the rows ``heads[e]`` up to ``heads[e + 1]``."""
    first: Ints
    """N-gram ``g`` has the entries ``first[g]`` up to ``first[g + 1]``."""
    known: Ints
    """Of each caption, how many of its n-grams the model knows."""
    shared: Floats
    """Of each caption, the squared length of its vector if none of its n-grams occurred in the style."""


class _View(NamedTuple):
    """An order under the weights of a style: only the n-grams that matter, and their rows."""

    weights: Floats
    chosen: Ints
    at: Ints
    values: Floats
    """Of each row, count times weight."""
    inverse: Floats
    """Of each caption, one over the length of its vector; 0 for a vector without length."""


class Cosines:
    """Captions in the order of their styles, placed in a model; ``copies`` says how often each one's row occurs."""

    def __init__(self, placed: Placed, style: Ints, copies: Ints, reading: Reading) -> None:
        self.placed, self.style, self.copies, self.reading = placed, style, copies, reading
        self.styles = len(placed.model.styles)
        self.bounds = np.searchsorted(style, np.arange(self.styles + 1))
        self.sizes = np.diff(self.bounds)
        self.orders = [self._order(rows) for rows in placed.orders]

    def _order(self, rows: Rows) -> _Order:
        grams, captions = rows.grams, self.placed.captions
        amount = grams.count.astype(np.float64) if self.reading.tf else np.ones(len(grams.count))
        style = self.style[grams.caption]
        new = np.ones(len(style), dtype=np.bool_)
        new[1:] = (grams.gram[1:] != grams.gram[:-1]) | (style[1:] != style[:-1])
        heads = np.flatnonzero(new)
        gram = grams.gram[heads]
        known = added(grams.caption, rows.located[grams.gram] >= 0, captions).astype(np.int64)
        shared = np.zeros(captions)
        if self.reading.negative == "signed":
            shared = added(grams.caption, np.square(amount * rows.base[grams.gram]), captions)
        first = np.searchsorted(gram, np.arange(grams.size + 1))
        return _Order(rows, amount, style[heads], gram, np.append(heads, len(style)), first, known, shared)

    def scores(self, tested: Bools) -> Iterator[Scored]:
        """Captions under test, a style at a time, with their similarities to all styles."""
        if self.reading.weights == "reference":
            columns = np.full((self.placed.captions, self.styles), np.nan)
            for style in np.flatnonzero(self.sizes).tolist():
                columns[:, style] = self._column(style)
            yield np.flatnonzero(tested), columns[tested]
            return
        for style in np.flatnonzero(self.sizes).tolist():
            captions = np.arange(self.bounds[style], self.bounds[style + 1])
            captions = captions[tested[captions]]
            if len(captions):
                yield captions, self._block(style)[captions - self.bounds[style]]

    def view(self, order: _Order, style: int) -> _View:
        """The n-grams that occur in a style of the model or in its captions here."""
        rows = order.rows
        weights, in_style = self.placed.weights(rows, style)
        if self.reading.negative == "zero":
            weights = np.maximum(weights, 0.0)
        matters = np.zeros(rows.grams.size, dtype=np.bool_)
        matters[in_style] = True
        matters[order.gram[order.style == style]] = True
        chosen = np.flatnonzero(matters)
        at, _ = runs(rows.first, chosen)
        gram, caption, amount = rows.grams.gram[at], rows.grams.caption[at], order.amount[at]
        values = amount * weights[gram]
        squares = added(caption, np.square(values), self.placed.captions)
        if self.reading.negative == "signed":
            # A caption without n-grams outside of the chosen ones must not inherit the rounding of a difference.
            inside = added(caption, rows.located[gram] >= 0, self.placed.captions)
            outside = order.shared - added(caption, np.square(amount * rows.base[gram]), self.placed.captions)
            squares += np.where(order.known > inside, outside, 0.0)
        lengths = np.sqrt(squares)
        return _View(weights, chosen, at, values, np.divide(1.0, lengths, np.zeros_like(lengths), where=lengths > 0))

    def _column(self, style: int) -> Floats:
        """Of all captions, the mean similarity to the captions of one style under that style's weights."""
        total = np.zeros(self.placed.captions)
        mine = self.style == style
        for order in self.orders:
            _, _, at, values, inverse = self.view(order, style)
            gram, caption = order.rows.grams.gram[at], order.rows.grams.caption[at]
            units = values * inverse[caption]
            sums = added(gram, units * mine[caption], order.rows.grams.size)
            dots = added(caption, units * sums[gram], self.placed.captions)
            total += self.mean(dots, self.sizes[style], self.copies * mine, inverse)
        return total / ORDERS

    def _block(self, style: int) -> Floats:
        """Of the captions of one style, the similarity to all styles under that style's weights."""
        start, end = int(self.bounds[style]), int(self.bounds[style + 1])
        total = np.zeros((end - start, self.styles))
        for order in self.orders:
            view = self.view(order, style)
            caption = order.rows.grams.caption[view.at]
            units = view.values * view.inverse[caption]
            entry, entries = runs(order.first, view.chosen)
            first = np.concatenate(([0], np.cumsum(entries)))
            lengths = order.heads[entry + 1] - order.heads[entry]
            sums = summed(self.reference_values(view, units), lengths)
            own = np.flatnonzero((caption >= start) & (caption < end))
            place = np.repeat(np.arange(len(view.chosen)), summed(lengths, entries))[own]
            reached, fanout = runs(first, place)
            key = np.repeat(caption[own] - start, fanout).astype(np.int64) * self.styles + order.style[entry[reached]]
            dots = added(key, np.repeat(units[own], fanout) * sums[reached], total.size).reshape(total.shape)
            total += self.similarities(order, view, dots, style)
        return total / ORDERS

    def reference_values(self, view: _View, units: Floats) -> Floats:
        """What is summed over the references of a style: unit vectors."""
        return units

    def similarities(self, order: _Order, view: _View, dots: Floats, style: int) -> Floats:
        """Mean cosines from sums of cosines."""
        start, end = self.bounds[style], self.bounds[style + 1]
        means = dots / np.where(self.sizes > 0, self.sizes, np.nan)
        means[:, style] = self.mean(dots[:, style], end - start, self.copies[start:end], view.inverse[start:end])
        return means

    def mean(self, dots: Floats, size: int, copies: Ints, inverse: Floats) -> Floats:
        """Sums of cosines over their number, without the cosine of 1 that a caption has to its copies."""
        if self.reading.itself == "keep":
            return dots / size
        number = size - copies
        return np.divide(dots - copies * (inverse > 0), number, out=np.full_like(dots, np.nan), where=number > 0)


def summed(values: npt.NDArray[Any], lengths: Ints) -> npt.NDArray[Any]:
    """Sums of consecutive runs, none of them empty."""
    return np.add.reduceat(values, np.cumsum(lengths) - lengths) if len(lengths) else values[:0]


CELLS = 4_000_000
"""Pairs of caption and reference held at once."""


class Pairs(Cosines):
    """All readings that take a mean, a maximum or a sample over single references."""

    def __init__(
        self, placed: Placed, style: Ints, copies: Ints, reading: Reading, copy_of: Ints, seed: int = 0
    ) -> None:
        super().__init__(placed, style, copies, reading)
        self.copy_of, self.random = copy_of, np.random.default_rng(seed)

    def scores(self, tested: Bools) -> Iterator[Scored]:
        """Captions under test, a block at a time, with their similarities to all styles."""
        present = np.flatnonzero(self.sizes).tolist()
        for style in present:
            captions = np.arange(self.bounds[style], self.bounds[style + 1])
            captions = captions[tested[captions]]
            for start, end in blocks(len(captions), max(1, CELLS // self.placed.captions)):
                block = captions[start:end]
                columns = np.full((len(block), self.styles), np.nan)
                whole = self.matrix(block, style, style)
                for other in present:
                    part = slice(self.bounds[other], self.bounds[other + 1])
                    found = whole
                    if self.reading.weights != "style" and other != style:
                        found = self.matrix(block, style if self.reading.weights == "own" else other, other)
                    columns[:, other] = self.reduced(found[:, part], block, np.arange(part.start, part.stop))
                yield block, columns

    def matrix(self, block: Ints, style: int, other: int) -> Floats:
        """Similarities of a block of captions, under the weights of one style, to all captions under another's."""
        total = np.zeros((len(block), self.placed.captions))
        position = np.full(self.placed.captions, -1)
        position[block] = np.arange(len(block))
        for order in self.orders:
            ours, grams = self.view(order, style), order.rows.grams
            theirs = ours if other == style else self.view(order, other)
            own = np.flatnonzero(position[grams.caption] >= 0)
            gram, caption = grams.gram[own], grams.caption[own]
            reached, fanout = runs(order.rows.first, gram)
            count, wanted = np.repeat(order.amount[own], fanout), order.amount[reached]
            product = (np.minimum(count, wanted) if self.reading.clip else count) * wanted
            product *= np.repeat(ours.weights[gram] * theirs.weights[gram] * ours.inverse[caption], fanout)
            product *= theirs.inverse[grams.caption[reached]]
            key = np.repeat(position[caption], fanout) * total.shape[1] + grams.caption[reached]
            total += added(key, product, total.size).reshape(total.shape)
        if self.reading.length_penalty:
            bigrams = np.maximum(self.placed.table.lengths - 1, 0)
            total *= np.exp(-np.square(bigrams[block][:, None] - bigrams[None, :]) / (2 * SIGMA**2))
        return total / ORDERS

    def reduced(self, found: Floats, block: Ints, references: Ints) -> Floats:
        """One value per caption from its similarities to the references of a style."""
        usable = np.ones(found.shape, dtype=np.bool_)
        if self.reading.itself == "drop":
            usable = self.copy_of[block][:, None] != self.copy_of[references][None, :]
        if self.reading.sampled:
            order = np.argsort(np.where(usable, self.random.random(found.shape), 2.0), axis=1)
            drawn = np.zeros_like(usable)
            np.put_along_axis(drawn, order[:, : self.reading.sampled], True, axis=1)
            usable &= drawn
        number = usable.sum(axis=1)
        if self.reading.references == "max":
            best = np.where(usable, found, -np.inf).max(axis=1)
        else:
            best = np.where(usable, found, 0.0).sum(axis=1) / np.maximum(number, 1)
        return np.where(number > 0, best, np.nan)


class Pooled(Cosines):
    """The vector of a style is the sum of its captions' vectors, its length taken after summing."""

    def reference_values(self, view: _View, units: Floats) -> Floats:
        """Vectors as they are, long ones counting for more."""
        return view.values

    def similarities(self, order: _Order, view: _View, dots: Floats, style: int) -> Floats:
        """Products with the joined vectors over their lengths; a caption's own part is taken out first."""
        counts = summed(order.amount, np.diff(order.heads))
        vectors = counts * view.weights[order.gram]
        squares = added(order.style, np.square(vectors), self.styles)
        lengths = np.sqrt(squares)
        result = np.where(lengths > 0, dots / np.where(lengths > 0, lengths, 1.0), 0.0)
        result[:, self.sizes == 0] = np.nan
        if self.reading.itself == "keep":
            return result
        start, end = int(self.bounds[style]), int(self.bounds[style + 1])
        caption = order.rows.grams.caption[view.at]
        own = np.flatnonzero((caption >= start) & (caption < end))
        row = view.at[own]
        entry = np.searchsorted(order.heads, row, side="right") - 1
        copies = self.copies[start:end]
        rest = counts[entry] - copies[caption[own] - start] * order.amount[row]
        change = (np.square(rest) - np.square(counts[entry])) * np.square(view.weights[order.gram[entry]])
        left = squares[style] + added(caption[own] - start, change, end - start)
        left = np.where(left > 1e-12 * squares[style], left, 0.0)
        inverse = view.inverse[start:end]
        remaining = dots[:, style] - copies * np.divide(1.0, inverse, out=np.zeros_like(inverse), where=inverse > 0)
        value = np.divide(remaining, np.sqrt(left), out=np.zeros_like(left), where=left > 0)
        result[:, style] = np.where(end - start - copies > 0, value, np.nan)
        return result


TIE = 1e-13
"""Scores closer than this are equal: rounding must not decide a tie, and a tie fails."""


@dataclass(frozen=True, eq=False)
class Retrieval:
    """Equation 9 and the rank of the true style, caption by caption."""

    wins: Floats
    """Of each caption, the share of other styles under which it scores lower than under its own."""
    ranks: Ints
    """Of each caption, the rank of its own style among all; a tie counts against it."""
    styles: int

    @property
    def value(self) -> float:
        """Table 1's OnlyStyle column."""
        return float(self.wins.mean())

    def within(self, share: float) -> float:
        """How many captions have their own style among this share of the styles, at least one."""
        return float((self.ranks <= max(1, int(share * self.styles))).mean())


@dataclass(frozen=True, eq=False)
class StyleCheck:
    """A styled corpus, its captions in the order of styles, against a model."""

    corpus: StyledCorpus
    order: Ints
    """Where each caption stands in the corpus."""
    style: Ints
    placed: Placed
    tested: Bools
    """Which captions are under test; all of them serve as references."""

    @classmethod
    def of(cls, model: StyleModel | None, corpus: StyledCorpus, sample: int = 0, seed: int = 0) -> StyleCheck:
        """Check all captions, or a random sample of them; without a model, under one fitted to the corpus itself."""
        found = sorted(set(corpus.styles))
        if len(found) < 2:
            raise InputError(f"{corpus.name}: holds one style ({found[0]!r}), expected at least two to tell apart")
        if model is not None:
            for style in found:
                model.style_number(style, corpus.name)
        numbers = {style: index for index, style in enumerate(found if model is None else model.styles)}
        styles = np.array([numbers[style] for style in corpus.styles], dtype=np.int64)
        order = np.argsort(styles, kind="stable")
        table = sorted_table([corpus.texts[i] for i in order.tolist()], model.tokenizer if model else "plain")
        if model is None:
            captions = list(zip(corpus.styles, corpus.texts, strict=True))
            model = model_of(table, styles[order], found, fingerprint_of(captions), corpus.name)
        tested = np.ones(len(order), dtype=np.bool_)
        if 0 < sample < len(order):
            tested[:] = False
            tested[np.random.default_rng(seed).choice(len(order), sample, replace=False)] = True
        return cls(corpus, order, styles[order], Placed(model.contrasting(), table), tested)

    @cached_property
    def copy_of(self) -> Ints:
        """The first row with the same id, style and text as each row."""
        first: dict[tuple[str, str, str], int] = {}
        rows = zip(self.corpus.ids, self.corpus.styles, self.corpus.texts, strict=True)
        found = np.array([first.setdefault(row, index) for index, row in enumerate(rows)], dtype=np.int64)
        return found[self.order]

    def retrieval(self, reading: OnlyReading = LITERAL, progress: Callable[[int], None] | None = None) -> Retrieval:
        """OnlyStyle of every caption under test under every style."""
        style, placed, model = self.style[self.tested], self.placed, self.placed.model
        if not self.tested.all():
            texts = [self.corpus.texts[index] for index in self.order[self.tested].tolist()]
            placed = Placed.of(model, texts)
        own = own_scores(placed, style, reading)
        below = np.zeros(len(own), dtype=np.int64)
        for number, column in enumerate(columns(placed, reading), start=1):
            below += column < own - TIE
            if progress:
                progress(number)
        return Retrieval(below / (len(model.styles) - 1), len(model.styles) - below, len(model.styles))

    def stylecider(
        self, reading: Reading = DEFAULT, seed: int = 0, progress: Callable[[int], None] | None = None
    ) -> Floats:
        """Equation 10 for every caption under test: the share of other styles whose captions it resembles less.

        NaN where a caption's style holds no caption but itself.
        """
        copies = np.bincount(self.copy_of, minlength=len(self.style))[self.copy_of]
        given = (self.placed, self.style, copies, reading.checked())
        if not reading.is_linear:
            cosines: Cosines = Pairs(*given, copy_of=self.copy_of, seed=seed)
        else:
            cosines = (Pooled if reading.references == "pooled" else Cosines)(*given)
        wins = np.full(len(self.style), np.nan)
        done = 0
        for captions, scores in cosines.scores(self.tested):
            own = scores[np.arange(len(captions)), self.style[captions]]
            others = np.isfinite(scores).sum(axis=1) - 1
            below = (scores < own[:, None] - TIE).sum(axis=1)
            wins[captions] = np.where(np.isnan(own), np.nan, below / np.maximum(others, 1))
            done += len(captions)
            if progress:
                progress(done)
        return wins[self.tested]


@dataclass(frozen=True, eq=False)
class TableOne:
    """Both columns of Table 1 and the retrieval ranks."""

    name: str
    retrieval: Retrieval
    stylecider: dict[str, float]
    lonely: int
    """Captions without another caption of their style to compare with."""

    def summary(self) -> dict[str, Any]:
        """Everything as plain data."""
        ranks = self.retrieval.ranks
        return {
            "corpus": self.name,
            "captions": len(ranks),
            "styles": self.retrieval.styles,
            "onlystyle": self.retrieval.value,
            "stylecider": self.stylecider,
            "without_references": self.lonely,
            "rank": {
                "median": float(np.median(ranks)),
                "mean_reciprocal": float((1.0 / ranks).mean()),
                "first": float((ranks == 1).mean()),
                "top_tenth": self.retrieval.within(0.1),
            },
        }

    def view(self) -> Group:
        """For the terminal."""
        found = self.summary()
        title = Text(
            f"{self.name}: {found['captions']:,} captions, {found['styles']} styles; share that satisfies",
            overflow="fold",
        )
        table = Table()
        table.add_column("equation")
        table.add_column("reading")
        table.add_column("value", justify="right", style="bold")
        table.add_row("9: OnlyStyle", "default", f"{self.retrieval.value:.4f}")
        for reading, value in self.stylecider.items():
            table.add_row("10: StyleCIDEr", reading, f"{value:.4f}")
        ranks = Table(title="rank of the true style by OnlyStyle", title_justify="left")
        for column in ("median", "mean reciprocal", "first", "in the top tenth"):
            ranks.add_column(column, justify="right")
        rank = found["rank"]
        shown = (f"{rank[key]:.4f}" for key in ("mean_reciprocal", "first", "top_tenth"))
        ranks.add_row(f"{rank['median']:g}", *shown)
        note = [f"{self.lonely} captions are the only one of their style and count in equation 9 alone"]
        return Group(title, table, ranks, *(note if self.lonely else []))


def table_one(
    check: StyleCheck, readings: Sequence[Reading], seed: int = 0, step: Callable[[str], None] | None = None
) -> TableOne:
    """Table 1 of a corpus under some readings."""
    say = step or (lambda text: None)
    styles = len(check.placed.model.styles)
    retrieval = check.retrieval(progress=lambda done: say(f"OnlyStyle: {done} of {styles} styles"))
    values, lonely = {}, 0
    total = int(check.tested.sum())
    for reading in readings:
        name = str(reading)
        say(f"StyleCIDEr, {name}: {total:,} captions")
        wins = check.stylecider(reading, seed, partial(_tell, say, name, total))
        known = wins[~np.isnan(wins)]
        values[name] = float(known.mean()) if len(known) else float("nan")
        lonely = max(lonely, len(wins) - len(known))
    return TableOne(check.corpus.name, retrieval, values, lonely)


def _tell(say: Callable[[str], None], name: str, total: int, done: int) -> None:
    say(f"StyleCIDEr, {name}: {done:,} of {total:,} captions")


class Agreement(NamedTuple):
    """One style: its captions, people's most common ranking (higher is closer to the style), and both correlations."""

    style: str
    captions: tuple[str, ...]
    ranking: tuple[float, ...]
    raters: int
    scores: tuple[float, ...]
    pearson: float
    spearman: float


def correlate(model: StyleModel, source: Any) -> list[Agreement]:
    """Correlations per style of rows (style, caption, rank, and rater where there are several).

    As in the paper, rank 1 is the worst association, and the ranking that most raters gave stands for people; of
    equally common ones the one given first.
    """
    rankings: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows_of(source):
        for column in ("style", "caption", "rank"):
            if column not in row.fields:
                found = ", ".join(map(str, row.fields))
                raise InputError(f"{row.where}: no {column}: found columns {found}, expected style, caption, rank")
        style, caption = str(row.fields["style"]), str(row.fields["caption"])
        model.style_number(style, row.where)
        try:
            rank = float(row.fields["rank"])
        except (TypeError, ValueError):
            raise InputError(f"{row.where}: rank is {row.fields['rank']!r}, expected a number") from None
        given = rankings[style][str(row.fields.get("rater", ""))]
        if caption in given:
            raise InputError(f"{row.where}: caption {caption!r} is ranked twice; name the raters in a column 'rater'")
        given[caption] = rank
    return [_agreement(model, name_of(source), style, raters) for style, raters in rankings.items()]


def _agreement(model: StyleModel, name: str, style: str, raters: dict[str, dict[str, float]]) -> Agreement:
    captions = tuple(dict.fromkeys(caption for given in raters.values() for caption in given))
    for rater, given in raters.items():
        if missing := [caption for caption in captions if caption not in given]:
            raise InputError(f"{name}: rater {rater!r} gives {missing[0]!r} no rank for {style!r}, others do")
    votes = Counter(tuple(given[caption] for caption in captions) for given in raters.values())
    ranking, _ = votes.most_common(1)[0]
    scores = own_scores(Placed.of(model, captions), np.full(len(captions), model.style_number(style)))
    people = np.array(ranking)
    return Agreement(
        style,
        captions,
        ranking,
        len(raters),
        tuple(scores.tolist()),
        pearson(people, scores),
        pearson(ranks(people), ranks(scores)),
    )


def pearson(one: Floats, other: Floats) -> float:
    """Pearson's correlation; NaN where either side is constant.

    >>> round(pearson(np.array([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 3.0])), 6)
    0.5
    """
    a, b = one - one.mean(), other - other.mean()
    below = float(np.sqrt((a @ a) * (b @ b)))
    constant = np.ptp(one) == 0 or np.ptp(other) == 0
    return float("nan") if constant or not below else float(a @ b) / below


def ranks(values: Floats) -> Floats:
    """Ranks from 1, equal values sharing the mean of theirs.

    >>> ranks(np.array([5.0, 1.0, 5.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, place, number = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(number)
    result: Floats = ((last - number + 1 + last) / 2)[place]
    return result
