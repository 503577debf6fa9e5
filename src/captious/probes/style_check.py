"""Style checks: each caption is scored under its own style and all others.

This is Table 1 of Li and Harrison on any styled corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from captious._core.types import Bools, Floats, Ints, Ints32
from captious.errors import InputError
from captious.io.columns import CANDIDATE_COLUMNS, ID_COLUMNS, STYLE_COLUMN
from captious.io.formats import get_name, read_rows
from captious.io.join import get_row_id, refuse
from captious.io.rows import Row
from captious.metrics.style.fitting import (
    build_model,
    build_sorted_table,
    count_block,
    find_style_heads,
    hash_captions,
    strip_version,
)
from captious.metrics.style.model import ORDERS, StyleModel
from captious.metrics.style.onlystyle import (
    LITERAL,
    ModelNgrams,
    OnlyReading,
    StyledNgrams,
    expand_runs,
    iterate_styles,
    score_own_styles,
    sum_by_key,
)
from captious.options import Reading, Resampling, get_runtime
from captious.render import Column, Document, Figure, Result, Table
from captious.render.document import Value

# Scores closer than this are equal: rounding must not decide a tie, and a tie fails.
TIE = 1e-13
Progress = Callable[[str], None]


@dataclass(frozen=True)
class StyledCorpus:
    """Captions with their styles, and ids where the rows had them."""

    name: str
    styles: tuple[str, ...]
    texts: tuple[str, ...]
    ids: tuple[str, ...]

    def count_blank(self) -> int:
        """Return the number of captions without a character to see."""
        return sum(not text.strip() for text in self.texts)


def stream(
    sources: Iterable[Any], reading: Reading = Reading(), style_column: str = STYLE_COLUMN
) -> Iterator[tuple[str, str]]:
    """Yield (style, caption) of every row of every source; a list of captions counts once for each of its texts."""
    blank = 0
    for source in sources:
        for style, text, _ in _read_captions(source, reading, style_column):
            blank += not text.strip()
            yield style, text
    if blank:
        get_runtime().log(f"warning: {blank:,} empty captions: they count as captions and teach no words")


def read_styled(source: Any, reading: Reading = Reading(), style_column: str = STYLE_COLUMN) -> StyledCorpus:
    """Read all rows of a source."""
    rows = list(_read_captions(source, reading, style_column))
    if not rows:
        raise InputError(f"{get_name(source)}: contains no captions")
    return StyledCorpus(get_name(source), *zip(*rows, strict=True))


def _read_captions(source: Any, reading: Reading, style_column: str) -> Iterator[tuple[str, str, str]]:
    for number, row in enumerate(read_rows(source, reading.format)):
        style = _get_style(row, style_column)
        key = _get_id(row, reading.id_column) or f"#{number}"
        for text in _get_texts(row, reading.candidate_column):
            yield style, text, key


def _get_id(row: Row, column: str | None) -> str | None:
    """Return the id of a row; only a column that the user names must be there."""
    if column is not None:
        return get_row_id(row, column, refuse)
    name = next((name for name in ID_COLUMNS if name in row.fields), None)
    return str(row.fields[name]) if name else None


def _get_texts(row: Row, column: str | None) -> list[str]:
    name = next((name for name in ((column,) if column else CANDIDATE_COLUMNS) if name in row.fields), None)
    if name is None:
        raise InputError(
            f"{row.where}: no caption: {_format_columns(row)}, expected {column or ', '.join(CANDIDATE_COLUMNS)}"
        )
    value = row.fields[name]
    texts = value if isinstance(value, list) else [value]
    if not texts:
        raise InputError(f"{row.where}: {name} is an empty list, expected a string or a list of strings")
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{row.where}: {name} is {text!r}, expected a string")
    return texts


def _get_style(row: Row, column: str) -> str:
    if column not in row.fields:
        raise InputError(f"{row.where}: no style: {_format_columns(row)}, expected {column!r}; pass style_column=...")
    value = row.fields[column]
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise InputError(f"{row.where}: {column} is {value!r}, expected the name of a style")
    return str(value)


def _format_columns(row: Row) -> str:
    return f"found columns {', '.join(map(str, row.fields)) or 'none'}"


@dataclass(frozen=True, eq=False)
class StyleRanks:
    """Equation 9 and the rank of the true style, caption by caption."""

    wins: Floats
    """The share of other styles under which each caption scores lower than under its own."""
    ranks: Ints
    """The rank of each caption's own style among all styles; a tie counts against it."""
    own: Floats
    """OnlyStyle of each caption under its own style."""
    random: Floats
    """OnlyStyle of each caption under another style, drawn at random."""
    styles: int

    @property
    def value(self) -> float:
        """Table 1's OnlyStyle column."""
        return float(self.wins.mean())

    @property
    def first(self) -> float:
        """The share of captions that score higher under their own style than under each of the others."""
        return float((self.ranks == 1).mean())

    @property
    def above_random(self) -> float:
        """The share of captions that score higher under their own style than under one drawn at random."""
        return float((self.own > self.random + TIE).mean())

    def within(self, share: float) -> float:
        """Return the share of captions whose own style is among this share of the styles, at least one."""
        return float((self.ranks <= max(1, int(share * self.styles))).mean())


@dataclass(frozen=True, eq=False)
class StyledCaptions:
    """The captions of a corpus in the order of their styles, with their n-grams located in a model."""

    corpus: StyledCorpus
    order: Ints
    """Index of each caption in the corpus."""
    style: Ints
    ngrams: ModelNgrams
    tested: Bools
    """Which captions are under test; all of them serve as references."""

    @classmethod
    def of(
        cls, model: StyleModel | None, corpus: StyledCorpus, sample: int = 0, resampling: Resampling = Resampling()
    ) -> StyledCaptions:
        """Select all captions for the test, or a random sample; without a model, fit one to the corpus itself."""
        names = sorted(set(corpus.styles))
        if len(names) < 2:
            raise InputError(f"{corpus.name}: contains one style ({names[0]!r}), expected at least two to distinguish")
        if model is not None:
            for style in names:
                model.find_style(style, corpus.name)
        numbers = {style: index for index, style in enumerate(names if model is None else model.styles)}
        styles = np.array([numbers[style] for style in corpus.styles], dtype=np.int64)
        order = np.argsort(styles, kind="stable")
        table = build_sorted_table([corpus.texts[i] for i in order.tolist()], model.tokenizer if model else "plain")
        if model is None:
            fingerprint = hash_captions(zip(corpus.styles, corpus.texts, strict=True))
            model = build_model(table, styles[order], names, fingerprint, corpus.name)
        tested = np.ones(len(order), dtype=np.bool_)
        if 0 < sample < len(order):
            tested[:] = False
            tested[np.random.default_rng(resampling.seed).choice(len(order), sample, replace=False)] = True
        return cls(corpus, order, styles[order], ModelNgrams(model.require_contrast(), table), tested)

    @property
    def model(self) -> StyleModel:
        """The model in which the n-grams are located."""
        return self.ngrams.model

    @cached_property
    def copy_of(self) -> Ints:
        """The first row with the same id, style and text as each row."""
        first: dict[tuple[str, str, str], int] = {}
        rows = zip(self.corpus.ids, self.corpus.styles, self.corpus.texts, strict=True)
        copies = np.array([first.setdefault(row, index) for index, row in enumerate(rows)], dtype=np.int64)
        return copies[self.order]

    @cached_property
    def copies(self) -> Ints:
        """The number of copies of each row, itself included."""
        return np.bincount(self.copy_of, minlength=len(self.style))[self.copy_of]

    @property
    def known(self) -> float:
        """The share of captions of four words or more whose 4-grams all occur in the model under their style."""
        rows = self.ngrams.orders[-1]
        caption = rows.grams.caption
        unseen = ~self.model.has_ngrams(rows.n, rows.located[rows.grams.gram], self.style[caption])
        longer = np.bincount(caption, minlength=len(self.style)) > 0
        return float((sum_by_key(caption, unseen, len(self.style))[longer] == 0).mean()) if longer.any() else 0.0

    def retrieval(
        self,
        reading: OnlyReading = LITERAL,
        progress: Progress | None = None,
        resampling: Resampling = Resampling(),
    ) -> StyleRanks:
        """Rank the styles of every tested caption by OnlyStyle, and pair it with a random style, as a baseline."""
        style, ngrams, model = self.style[self.tested], self.ngrams, self.model
        if not self.tested.all():
            ngrams = ModelNgrams.of(model, [self.corpus.texts[index] for index in self.order[self.tested].tolist()])
        own = score_own_styles(ngrams, style, reading)
        below, random = np.zeros(len(own), dtype=np.int64), np.zeros(len(own))
        # One of the other styles: a distance from the caption's own, going round.
        distance = np.random.default_rng(resampling.seed).integers(1, len(model.styles), len(own))
        drawn = (style + distance) % len(model.styles)
        for number, column in enumerate(iterate_styles(ngrams, reading)):
            below += column < own - TIE
            random[drawn == number] = column[drawn == number]
            if progress:
                progress(f"OnlyStyle: {number + 1} of {len(model.styles)} styles")
        wins = below / (len(model.styles) - 1)
        return StyleRanks(wins, len(model.styles) - below, own, random, len(model.styles))

    def stylecider(self, progress: Progress | None = None) -> Floats:
        """Compute equation 10 for every tested caption: the share of other styles whose captions it resembles less.

        A caption resembles a style by its mean StyleCIDEr to the style's captions, itself and its copies left out. NaN
        if a caption is the only one of its style.
        """
        wins, done = np.full(len(self.style), np.nan), 0
        for captions, scores in _average_similarities(self):
            wins[captions] = compute_shares_below(scores, self.style[captions])
            done += len(captions)
            if progress:
                progress(f"StyleCIDEr: {done:,} of {int(self.tested.sum()):,} captions")
        return wins[self.tested]


def compute_shares_below(scores: Floats, own: Ints) -> Floats:
    """Return the share of styles (columns) under which each caption scores lower than under its own; ties fail."""
    own_scores = scores[np.arange(len(own)), own]
    others = np.isfinite(scores).sum(axis=1) - 1
    below = (scores < own_scores[:, None] - TIE).sum(axis=1)
    return np.where(np.isnan(own_scores), np.nan, below / np.maximum(others, 1))


class _Order(NamedTuple):
    """The n-grams of one order; an entry is an n-gram with a style that has captions with it."""

    rows: StyledNgrams
    style: Ints
    """The style of each entry."""
    gram: Ints32
    """The n-gram of each entry."""
    heads: Ints
    """Entry ``e`` has the rows ``heads[e]`` up to ``heads[e + 1]``."""
    first: Ints
    """N-gram ``g`` has the entries ``first[g]`` up to ``first[g + 1]``."""
    in_model: Ints
    """The number of n-grams of each caption that the model knows."""
    shared: Floats
    """The squared length of each caption's vector if none of its n-grams occurred in the style."""


def _build_order(rows: StyledNgrams, style: Ints, captions: int) -> _Order:
    grams = rows.grams
    styles = style[grams.caption]
    heads = find_style_heads(grams, styles)
    return _Order(
        rows,
        styles[heads],
        grams.gram[heads],
        np.append(heads, len(styles)),
        np.searchsorted(grams.gram[heads], np.arange(grams.size + 1)),
        sum_by_key(grams.caption, rows.located[grams.gram] >= 0, captions).astype(np.int64),
        sum_by_key(grams.caption, np.square(rows.base[grams.gram]), captions),
    )


def _average_similarities(checked: StyledCaptions) -> Iterator[tuple[Ints, Floats]]:
    """Yield the tested captions of one style at a time, with their mean similarity to the captions of each style
    (columns).

    The mean cosine to the captions of a style comes from the sum of their unit vectors, without looking at pairs.
    """
    ngrams, style, captions = checked.ngrams, checked.style, checked.ngrams.captions
    styles = len(checked.model.styles)
    bounds = np.searchsorted(style, np.arange(styles + 1))
    sizes = np.diff(bounds)
    orders = [_build_order(rows, style, captions) for rows in ngrams.orders]
    for number in np.flatnonzero(sizes).tolist():
        start, end = int(bounds[number]), int(bounds[number + 1])
        copies = checked.copies[start:end]
        total = np.zeros((end - start, styles))
        for order in orders:
            dots, lengths = _sum_cosines(ngrams, order, number, start, end)
            means = dots / np.where(sizes > 0, sizes, np.nan)
            # Leave out the caption and its copies: each has a cosine of 1.
            rest, others = dots[:, number] - copies * (lengths > 0), end - start - copies
            means[:, number] = np.divide(rest, others, out=np.full_like(rest, np.nan), where=others > 0)
            total += means
        chosen = checked.tested[start:end]
        if chosen.any():
            yield np.arange(start, end)[chosen], total[chosen] / ORDERS


def _sum_cosines(ngrams: ModelNgrams, order: _Order, number: int, start: int, end: int) -> tuple[Floats, Floats]:
    """Sum the cosines of one style's captions, under its weights, with those of each style; also return their lengths.

    Only n-grams that occur in the style, in the model or in the captions, can matter.
    """
    rows, captions, styles = order.rows, ngrams.captions, len(ngrams.model.styles)
    weights, in_style = ngrams.weights(rows, number)
    matters = np.zeros(rows.grams.size, dtype=np.bool_)
    matters[in_style] = True
    matters[order.gram[order.style == number]] = True
    chosen = np.flatnonzero(matters)
    at, _ = expand_runs(rows.first, chosen)
    gram, caption = rows.grams.gram[at], rows.grams.caption[at]
    squares = sum_by_key(caption, np.square(weights[gram]), captions)
    # If all n-grams of a caption are chosen, the difference is only rounding and must not enter its length.
    inside = sum_by_key(caption, rows.located[gram] >= 0, captions)
    outside = order.shared - sum_by_key(caption, np.square(rows.base[gram]), captions)
    lengths = np.sqrt(squares + np.where(order.in_model > inside, outside, 0.0))
    units = weights[gram] * np.divide(1.0, lengths, np.zeros_like(lengths), where=lengths > 0)[caption]
    entry, entries = expand_runs(order.first, chosen)
    size = order.heads[entry + 1] - order.heads[entry]
    # Sum of the unit vectors of each style's captions, one number for each entry (n-gram and style).
    sums = _sum_runs(units, size)
    own = np.flatnonzero((caption >= start) & (caption < end))
    index = np.repeat(np.arange(len(chosen)), _sum_runs(size, entries))[own]
    reached, fanout = expand_runs(np.concatenate(([0], np.cumsum(entries))), index)
    key = np.repeat(caption[own] - start, fanout).astype(np.int64) * styles + order.style[entry[reached]]
    dots = sum_by_key(key, np.repeat(units[own], fanout) * sums[reached], (end - start) * styles)
    return dots.reshape(end - start, styles), lengths[start:end]


def _sum_runs(values: npt.NDArray[Any], lengths: Ints) -> npt.NDArray[Any]:
    """Sum consecutive runs, none of them empty."""
    return np.add.reduceat(values, np.cumsum(lengths) - lengths) if len(lengths) else values[:0]


# If the model has seen more than this share of the captions, it was fitted to them, or to most of them.
MOSTLY = 0.5
# Fewest styles for the column of the top tenth.
TENTH = 10


class StyleRival(NamedTuple):
    """A trained classifier of styles, tested on the same held-out captions as OnlyStyle; one value per training seed.

    A classifier that is trained again gives other numbers, the paper's objection to it; counts do not.
    """

    name: str
    first: tuple[float, ...]
    """The share of captions whose own style is the most likely one."""
    wins: tuple[float, ...]
    """The share of other styles that are less likely than the own one, averaged over captions."""


@dataclass(frozen=True, eq=False, repr=False)
class StyleCheck(Result):
    """Both columns of Table 1, and the rank of the true style."""

    captions: StyledCaptions
    retrieval: StyleRanks
    wins: Floats
    """Equation 10, caption by caption; NaN for the only caption of its style."""
    folds: int = 0
    """The number of models, each fitted to the captions outside of the fold that it tests; 0 for one given model."""
    seed: int = 0
    """The random seed of the folds and of the random styles."""
    rivals: tuple[StyleRival, ...] = ()

    def __repr__(self) -> str:
        return f"<StyleCheck {self.captions.corpus.name}: OnlyStyle {self.retrieval.value:.4f}, {self.tested}>"

    @property
    def stylecider(self) -> float:
        """Table 1's StyleCIDEr column."""
        in_model = self.wins[~np.isnan(self.wins)]
        return float(in_model.mean()) if len(in_model) else float("nan")

    @cached_property
    def tested(self) -> Literal["in-sample", "partly in-sample", "held out"]:
        """Whether the model was fitted on the captions that it was tested on."""
        corpus, model = self.captions.corpus, self.captions.model
        if self.folds:
            return "held out"
        if hash_captions(zip(corpus.styles, corpus.texts, strict=True)) == model.fingerprint:
            return "in-sample"
        return "partly in-sample" if self.captions.known > MOSTLY else "held out"

    @property
    def warnings(self) -> list[str]:
        """Warnings that shares of fitted captions are too high, and those of empty ones too low."""
        blank = self.captions.corpus.count_blank()
        warnings = [f"{blank:,} empty captions: no n-gram of any style, so they count as failures"] if blank else []
        if self.tested == "held out":
            return warnings
        known = "these very captions" if self.tested == "in-sample" else "most of these captions"
        advice = "on others the shares are lower; 5 folds measure them on captions held out"
        return [f"the model was fitted on {known}: {advice}", *warnings]

    def document(self) -> Document:
        """Build the tables of both equations, and of the ranks of the true style."""
        corpus, model, ranks = self.captions.corpus, self.captions.model, self.retrieval.ranks
        rank = {
            "median": float(np.median(ranks)),
            "mean_reciprocal": float((1.0 / ranks).mean()),
            "first": self.retrieval.first,
            "top_tenth": self.retrieval.within(0.1),
        }
        lonely = int(np.isnan(self.wins).sum())
        tested = f"{self.tested}, {self.folds} folds" if self.folds else self.tested
        title = f"{corpus.name}: {len(ranks):,} captions, {len(model.styles)} styles, {tested}"
        names = [
            Column("median", decimals=None),
            Column("mean reciprocal"),
            Column("first"),
            Column("in the top tenth"),
        ]
        shown = len(names) if len(model.styles) >= TENTH else len(names) - 1
        sampled = f"|sample:{len(ranks)}" if len(ranks) < len(corpus.texts) else ""
        return Document(
            title,
            sections=[
                Table(
                    "equations",
                    title,
                    ["metric", Column("higher under the own style", key="value", bold=True)],
                    [("OnlyStyle (equation 9)", self.retrieval.value), ("StyleCIDEr (equation 10)", self.stylecider)],
                    "Share of the pairs of a caption and another style in which the caption scores higher under its "
                    "own style; a tie counts as lower.",
                ),
                Table(
                    "ranks",
                    f"Rank of the own style among {len(model.styles)}, by OnlyStyle",
                    names[:shown],
                    [tuple(rank.values())[:shown]],
                ),
                self._compare_random(),
                *self._compare_rivals(),
            ],
            warnings=self.warnings,
            notes=[f"{lonely} captions are the only one of their style and count only in equation 9"] * (lonely > 0),
            signatures=[(f"folds:{self.folds}(seed={self.seed})|" if self.folds else "") + model.signature + sampled],
            answer=self._answer(),
            data=self._collect_data(rank, lonely),
        )

    def _answer(self) -> list[str | Figure]:
        """Return the shares of both equations, and how often classifiers find the style."""
        return [
            "The share of comparisons in which a caption scores higher under its own style than under another is ",
            Figure(self.retrieval.value, Column("value")),
            " by OnlyStyle and ",
            Figure(self.stylecider, Column("value")),
            f" by StyleCIDEr; a coin reaches 0.5. {len(self.retrieval.ranks):,} captions, {self.tested}.",
            *(
                f" A {rival.name} classifier finds the own style of {np.mean(rival.first):.1%} of the captions, "
                f"OnlyStyle of {self.retrieval.first:.1%}."
                for rival in self.rivals
            ),
        ]

    def _collect_data(self, rank: Mapping[str, float], lonely: int) -> dict[str, Any]:
        """Collect the numbers of the JSON."""
        return {
            "corpus": self.captions.corpus.name,
            "captions": len(self.retrieval.ranks),
            "styles": len(self.captions.model.styles),
            "tested": self.tested,
            "folds": self.folds,
            "onlystyle": self.retrieval.value,
            "stylecider": self.stylecider,
            "without_references": lonely,
            "rank": rank,
            "random": {
                "above": self.retrieval.above_random,
                "own_mean": float(self.retrieval.own.mean()),
                "random_mean": float(self.retrieval.random.mean()),
                "seed": self.seed,
            },
            "rivals": [rival._asdict() for rival in self.rivals],
        }

    def _compare_random(self) -> Table:
        """Compare captions under their own style with the same under a random one: the paper's baseline."""
        ranks = self.retrieval
        return Table(
            "random",
            "OnlyStyle under the own style and under a random other one",
            [
                Column("mean, own style", key="own", signed=True),
                Column("mean, random style", key="random", signed=True),
                Column("higher than under the random one", key="above"),
                Column("higher than under all others", key="first"),
            ],
            [(float(ranks.own.mean()), float(ranks.random.mean()), ranks.above_random, ranks.first)],
            f"Shares of captions; each is paired with one random style (seed {self.seed}).",
        )

    def _compare_rivals(self) -> list[Table]:
        """Compare OnlyStyle with trained classifiers, if there are any."""
        if not self.rivals:
            return []
        ours = StyleRival("OnlyStyle", (self.retrieval.first,), (self.retrieval.value,))
        rows: list[Sequence[Value]] = [
            (
                rival.name,
                float(np.mean(rival.first)),
                max(rival.first) - min(rival.first) if len(rival.first) > 1 else None,
                float(np.mean(rival.wins)),
                len(rival.first),
            )
            for rival in (ours, *self.rivals)
        ]
        return [
            Table(
                "rivals",
                "OnlyStyle and trained classifiers on held-out captions",
                [
                    "by",
                    Column("own style first", key="first", bold=True),
                    Column("range over seeds", key="range"),
                    Column("own style above another", key="wins"),
                    Column("trainings", decimals=0),
                ],
                rows,
                "The same folds for all. The range is that of the same classifier trained from different random seeds.",
            )
        ]


def check(
    model: StyleModel | None,
    corpus: StyledCorpus,
    sample: int = 0,
    resampling: Resampling = Resampling(),
    progress: Progress | None = None,
    folds: int = 0,
) -> StyleCheck:
    """Measure how often a caption scores higher under its own style than under another.

    ``sample`` captions are tested, or all; without a model, under one fitted to the corpus itself. With ``folds`` the
    items are dealt at random into that many parts, and the captions of a part are tested under a model fitted to those
    of the others, tokenized as in ``model``; captions of one id stay together.
    """
    captions = StyledCaptions.of(model, corpus, sample, resampling)
    if not folds:
        retrieval = captions.retrieval(LITERAL, progress, resampling)
        return StyleCheck(captions, retrieval, captions.stylecider(progress), seed=resampling.seed)
    parts = [_fit_fold(captions, inside) for inside in split_folds(corpus, folds, resampling.seed)]
    ranks = [part.retrieval(LITERAL, progress, resampling) for part in parts]
    wins, positions, own, random = (
        np.concatenate([getattr(part, name) for part in ranks]) for name in ("wins", "ranks", "own", "random")
    )
    retrieval = StyleRanks(wins, positions, own, random, len(captions.model.styles))
    return StyleCheck(
        captions, retrieval, np.concatenate([part.stylecider(progress) for part in parts]), folds, resampling.seed
    )


def split_folds(corpus: StyledCorpus, folds: int, seed: int) -> Iterator[Bools]:
    """Yield the captions of each fold as a mask; captions of one id are in one fold."""
    ids = sorted(set(corpus.ids))
    if not 2 <= folds <= len(ids):
        raise InputError(f"{corpus.name}: {folds} folds of {len(ids)} ids, expected 2 to {len(ids)}")
    dealt = dict(zip(ids, np.random.default_rng(seed).permutation(len(ids)) % folds, strict=True))
    fold = np.array([dealt[key] for key in corpus.ids])
    for number in range(folds):
        if lost := set(corpus.styles).difference(np.array(corpus.styles, dtype=object)[fold != number].tolist()):
            raise InputError(
                f"{corpus.name}: all captions of style {min(lost)!r} are in one fold: too few for {folds} folds"
            )
        yield fold == number


def _fit_fold(captions: StyledCaptions, inside: Bools) -> StyledCaptions:
    """Fit a model to the captions outside of a fold, to test those inside."""
    corpus, tokenizer = captions.corpus, strip_version(captions.model.tokenizer)
    rows = zip(corpus.styles, corpus.texts, inside.tolist(), strict=True)
    model = count_block([(style, text) for style, text, tested in rows if not tested], tokenizer, corpus.name)
    part = StyledCaptions.of(model, corpus)
    return replace(part, tested=captions.tested & inside[part.order])
