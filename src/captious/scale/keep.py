"""``captious.keep``: which items of scored shards pass a filter, why the others do not, and their ids or shards."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from captious._files import refuse_existing, whole_file
from captious._typing import Bools, Floats
from captious.errors import InputError
from captious.io.storage import Storage, is_remote, split_address
from captious.metrics.contract import Metric
from captious.metrics.registry import parse_all
from captious.options import Engine, Option, check_value, current
from captious.render import Cell, Chart, Column, Document, Group, Result, Section, Series, Table
from captious.runs.folder import Run, open_run
from captious.runs.report import disambiguate_labels
from captious.scale import expression
from captious.scale.expression import Filter, Quantile, number_of, parse_filter
from captious.scale.quantiles import exact_quantiles

if TYPE_CHECKING:
    import pyarrow as pa

Write = Literal["ids", "shards"]
FILES = (".parquet", ".jsonl", ".txt")
"""What ids are written as."""
SHARES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Of the items; the thresholds that keep them help to choose one."""
LISTED = 50
"""Shards that the page lists."""
PERCENT = Column("share", decimals=1, scale=100.0, unit=" %")
NAN = float("nan")
UNDEFINED = "the expression has no value, as after a division by 0"


@dataclass(frozen=True)
class ClauseCount:
    """One of the conditions that all must hold, and what became of the items."""

    text: str
    holds: int
    """Items that pass it, whatever the others say."""
    fails: int
    unknown: int
    """Items without a value that it needs."""
    dropped: int
    """Items that pass all clauses before it and not this one."""
    alone: int
    """Items that pass all other clauses and not this one."""

    def __add__(self, other: ClauseCount) -> ClauseCount:
        numbers = ("holds", "fails", "unknown", "dropped", "alone")
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in numbers})


@dataclass(frozen=True)
class ShardCount:
    """A shard, and how many of its items pass."""

    shard: str
    items: int
    passing: int


@dataclass(frozen=True, eq=False, repr=False)
class Selection(Result):
    """The items that pass a filter, counted; those that do not, by clause and by reason."""

    name: str
    """Of the folder."""
    filter: str
    clauses: tuple[ClauseCount, ...]
    shards: tuple[ShardCount, ...]
    reasons: Mapping[str, int]
    """Items dropped because a value is missing, by its reason."""
    thresholds: Mapping[str, float]
    """The values of the quantiles in the filter, by their text."""
    shares: Mapping[str, Mapping[float, float]]
    """By what tables call each metric of the filter: the threshold that keeps a share of the scored items."""
    higher_is_better: Mapping[str, bool]
    out: str = ""
    """What was written, if anything."""

    def __repr__(self) -> str:
        return f"<Selection {self.filter!r}: {self.title}>"

    @property
    def items(self) -> int:
        """All items of the shards."""
        return sum(shard.items for shard in self.shards)

    @property
    def passing(self) -> int:
        """Items that pass every clause."""
        return sum(shard.passing for shard in self.shards)

    @property
    def title(self) -> str:
        """How many of how many pass."""
        return f"{self.passing:,} of {self.items:,} items pass ({_percent(self.passing, self.items)})"

    def document(self) -> Document:
        """The clauses, the reasons, thresholds to choose from, and the shards."""
        shares = sorted(shard.passing / shard.items for shard in self.shards if shard.items)
        notes = [f"{text}: the threshold is {value:.6g}" for text, value in self.thresholds.items()]
        if len(shares) > 1:
            middle = shares[len(shares) // 2]
            lowest, highest, median = (_percent(share, 1) for share in (shares[0], shares[-1], middle))
            notes.append(f"Per shard {lowest} to {highest} of the items pass, {median} in the middle.")
        sections: list[Section] = [self._clause_table(), *self._chart(), *self._reason_table(), *self._share_table()]
        sections.append(Group("Shards", [self._shard_table()]))
        return Document(self.title, self.filter, sections, notes=notes, data=self.data(), name="selection")

    def _clause_table(self) -> Table:
        unscored, several = any(one.unknown for one in self.clauses), len(self.clauses) > 1
        columns: list[Column | str] = ["clause", replace(PERCENT, name="passes", key="share", bold=True, bar=True)]
        columns += [Column("fails"), *([Column("unscored")] if unscored else [])]
        columns += [Column("drops"), Column("left"), Column("only here", key="alone")] if several else []
        rows: list[Sequence[Any]] = []
        left = self.items
        for one in self.clauses:
            left -= one.dropped
            share = Cell(one.holds / self.items if self.items else NAN, limits=(0.0, 1.0))
            row = [one.text, share, one.fails, *([one.unknown] if unscored else [])]
            rows.append([*row, *([one.dropped, left, one.alone] if several else [])])
        note = (
            "passes and fails: by this clause alone; drops: what passed the clauses above it and not this one; only"
            " here: what would pass without this clause"
        )
        return Table("clauses", "Clauses", columns, rows, note if several else "")

    def _chart(self) -> list[Chart]:
        if len(self.clauses) < 2:
            return []
        left = np.cumsum([self.items, *(-one.dropped for one in self.clauses)]).tolist()
        names = ["all items", *(one.text for one in self.clauses)]
        labels = [f"{number:,} · {_percent(number, self.items)}" for number in left]
        return [Chart("bars", [Series("items", names, left, labels=labels)], "Left after each clause", x="items")]

    def _reason_table(self) -> list[Table]:
        rows = [(reason, number, number / self.items) for reason, number in self.reasons.items()]
        columns = ("reason", Column("items"), replace(PERCENT, name="of all", key="share"))
        note = "Items that fail no clause before the one whose value they lack"
        return [Table("unscored", "Dropped without a value", columns, rows, note)] if rows else []

    def _share_table(self) -> list[Table]:
        shares = [Column(f"keeps {share:.0%}", key=f"keeps_{share:g}") for share in SHARES]
        columns: list[Column | str] = ["metric", *shares]
        rows: list[Sequence[Any]] = [
            (f"{name} {'≥' if self.higher_is_better[name] else '≤'}", *thresholds.values())
            for name, thresholds in self.shares.items()
        ]
        note = "The threshold that keeps a share of the items with a value"
        return [Table("thresholds", "Thresholds", columns, rows, note)] if rows else []

    def _shard_table(self) -> Table:
        columns = ("shard", Column("items"), Column("passing"), PERCENT)
        order = sorted(self.shards, key=lambda one: one.passing / one.items if one.items else 2.0)
        rows = [(one.shard, one.items, one.passing, one.passing / one.items if one.items else NAN) for one in order]
        rest = len(rows) - LISTED
        note = f"The smallest shares first. {rest:,} more shards are in the JSON" if rest > 0 else ""
        return Table("shards", "Shards", columns, rows[:LISTED], note, detail=True)

    def data(self) -> dict[str, Any]:
        """The counts, as JSON holds them."""
        return {
            "name": self.name,
            "filter": self.filter,
            "items": self.items,
            "passing": self.passing,
            "clauses": list(self.clauses),
            "reasons": self.reasons,
            "thresholds": self.thresholds,
            "shares": {name: {f"{share:g}": one for share, one in row.items()} for name, row in self.shares.items()},
            "shards": list(self.shards),
            "out": self.out or None,
        }


def keep(
    folder: str | os.PathLike[str],
    expression: str,
    out: str | os.PathLike[str] | None = None,
    *,
    write: Write = "ids",
    engine: Engine = Engine(),
    overwrite: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Selection:
    """Say which items of scored shards pass a filter, and write their ids, or the shards with these items alone.

    Parameters
    ----------
    folder
        What ``score_shards`` wrote.
    expression
        Such as ``clipscore > 0.28 and words > 4``, ``top(clipscore, 0.3)``, or ``0.2 < cider < 2 or "dog" in caption``.
        An item without a value that the filter needs does not pass.
    out
        A file of ids that ends in ``.parquet``, ``.jsonl`` or ``.txt``; of shards, a folder. Without it nothing is
        written.
    write
        ``ids``, or ``shards``: the shards that were scored, with the rows or samples that pass, unchanged.
    engine
        Who writes shards.
    overwrite
        Replace what is there already.
    progress
        Called with the name of each step as it begins.
    """
    check_value("write", write, Write, Option(""))
    scores = open_run(folder)
    metrics = parse_all(scores.metrics)
    filter = parse_filter(expression, metrics)
    if out is not None and write == "ids":
        _refuse_file(out, overwrite)
    if write == "shards" and out is None:
        raise InputError("write='shards' needs out=..., the folder to write them to")
    items = {name: scores.marker.parts[name] for name in scores.names}
    step = progress or (lambda name: None)
    step("thresholds")
    full = [shard for shard, number in items.items() if number]
    labels = disambiguate_labels({str(metric): metric.label for metric in metrics})
    selector = Selector(scores, filter, items, labels, *_thresholds(scores, full, filter, metrics, labels))
    if out is None or write == "ids":
        with _ids_writer(out, filter) as writer:
            return replace(selector.select(writer, step), out=str(out or ""))
    from captious.scale.rewriting import rewrite_shards

    selection = selector.select(None, step)
    rewrite_shards(scores, filter, selector.thresholds, os.fspath(out), engine, overwrite, step)
    return replace(selection, out=os.fspath(out))


@dataclass(frozen=True)
class Selector:
    """A filter with everything that must be known of all items, on a folder."""

    folder: Run
    filter: Filter
    items: Mapping[str, int]
    """Of each shard."""
    labels: Mapping[str, str]
    """What tables call each metric."""
    thresholds: Mapping[str, float]
    shares: Mapping[str, Mapping[float, float]]
    higher_is_better: Mapping[str, bool]

    def select(self, write: Callable[[str, pa.Table], None] | None, step: Callable[[str], None]) -> Selection:
        """Count what passes, shard by shard, and hand it to ``write``."""
        step("filter")
        clauses = [ClauseCount(clause.text, 0, 0, 0, 0, 0) for clause in self.filter.clauses]
        reasons: Counter[tuple[str, str]] = Counter()
        shards = []
        for number, (name, items) in enumerate(self.items.items(), start=1):
            passing = 0
            if items:  # the file of an empty shard has no columns of metrics
                table = shard_table(self.folder, name, self.filter.columns)
                outcome = Outcome.of(self.filter, table, self.thresholds)
                clauses = [one + other for one, other in zip(clauses, outcome.clauses, strict=True)]
                reasons.update(outcome.reasons)
                passing = int(outcome.passes.sum())
                if write:
                    write(name, table.filter(outcome.mask))
            shards.append(ShardCount(name, items, passing))
            current().progress("shards", number, len(self.items))
        return Selection(
            self.folder.address,
            self.filter.text,
            tuple(clauses),
            tuple(shards),
            {f"{self.labels[name]}: {why}" if name else why: number for (name, why), number in reasons.most_common()},
            self.thresholds,
            self.shares,
            self.higher_is_better,
        )


def shard_table(folder: Run, shard: str, columns: Sequence[str]) -> pa.Table:
    """The columns of a shard that a filter needs."""
    metrics = [name for name in columns if name not in expression.COLUMNS]
    further = ["candidates"] if set(columns) & {"words", "characters", "candidates", "caption"} else []
    return folder.table(shard, list(dict.fromkeys(["id", *metrics, *further, "unscored"])))


def columns_of(table: pa.Table, names: Sequence[str]) -> dict[str, Any]:
    """Columns as a filter takes them."""
    return {name: _column(table, name) for name in names}


def _column(table: pa.Table, name: str) -> Any:
    import pyarrow.compute as pc

    if name not in expression.COLUMNS:
        return np.asarray(table[name].to_numpy(), dtype=np.float64)
    if name == "id":
        return table["id"].combine_chunks()
    candidates = table["candidates"].combine_chunks()
    if name == "caption":
        return pc.binary_join(candidates, "\n")
    if name == "candidates":
        return np.asarray(pc.list_value_length(candidates).to_numpy(zero_copy_only=False), dtype=np.float64)
    # The mean over the candidates of an item, as metrics average them.
    texts = candidates.flatten()
    lengths = pc.count_substring_regex(texts, r"\S+") if name == "words" else pc.utf8_length(texts)
    owners = pc.list_parent_indices(candidates).to_numpy(zero_copy_only=False)
    total = np.bincount(owners, weights=lengths.to_numpy(zero_copy_only=False), minlength=len(candidates))
    number = np.bincount(owners, minlength=len(candidates))
    return np.where(number > 0, total / np.maximum(number, 1), 0.0)


@dataclass(frozen=True, eq=False)
class Outcome:
    """A filter on one shard."""

    passes: Bools
    clauses: tuple[ClauseCount, ...]
    reasons: Mapping[tuple[str, str], int]
    """Items dropped because a value is missing, by the column that lacks it and why."""

    @property
    def mask(self) -> pa.Array:
        """The items that pass, as Arrow filters a table."""
        import pyarrow as pa

        return pa.array(self.passes)

    @classmethod
    def of(cls, filter: Filter, table: pa.Table, thresholds: Mapping[str, float]) -> Outcome:
        """What becomes of every item of a shard, and the reason where a value is missing."""
        items = len(table)
        values = {**columns_of(table, filter.columns), **thresholds}
        truths = [clause.truth(values, items) for clause in filter.clauses]
        failures = np.sum([~truth.holds for truth in truths], axis=0)
        left = np.ones(items, bool)
        clauses, reasons = [], Counter[tuple[str, str]]()
        for clause, truth in zip(filter.clauses, truths, strict=True):
            unknown, dropped = truth.unknown, left & ~truth.holds
            alone = int((~truth.holds & (failures == 1)).sum())
            holds, fails, lacking, drops = (int(one.sum()) for one in (truth.holds, truth.fails, unknown, dropped))
            clauses.append(ClauseCount(clause.text, holds, fails, lacking, drops, alone))
            reasons.update(_reasons(table, dropped & unknown, clause.columns))
            left = left & truth.holds
        return cls(left, tuple(clauses), reasons)


def _reasons(table: pa.Table, missing: Bools, columns: Sequence[str]) -> Counter[tuple[str, str]]:
    """Which of these columns items lack, and why."""
    import pyarrow as pa

    reasons: Counter[tuple[str, str]] = Counter()
    if missing.any():
        for entry in table["unscored"].filter(pa.array(missing)).value_counts().to_pylist():
            by_metric = json.loads(entry["values"]) if entry["values"] else {}
            lacking = next(((name, by_metric[name]) for name in columns if name in by_metric), ("", UNDEFINED))
            reasons[lacking] += entry["counts"]
    return reasons


def _thresholds(
    folder: Run, shards: Sequence[str], filter: Filter, metrics: Sequence[Metric], labels: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, dict[float, float]], dict[str, bool]]:
    """The quantiles of the filter, and thresholds to choose from for each of its metrics: exact, over all shards."""
    higher = {labels[str(metric)]: metric.higher_is_better for metric in metrics}
    named = [name for name in filter.columns if name in labels]
    choices = [
        Quantile("", expression.Column(name), share, highest=higher[labels[name]]) for name in named for share in SHARES
    ]
    wanted = [*filter.quantiles, *choices]
    columns = tuple(dict.fromkeys(name for one in wanted for name in expression.columns_of(one)))

    def read() -> Iterator[list[Floats]]:
        for shard in shards:
            table = shard_table(folder, shard, columns)
            values = columns_of(table, columns)
            yield [number_of(one.operand, values, len(table)) for one in wanted]

    results = exact_quantiles(read, [one.rank for one in wanted]) if wanted else []
    thresholds = {one.text: value for one, value in zip(filter.quantiles, results, strict=False)}
    chosen = iter(results[len(filter.quantiles) :])
    shares = {labels[name]: {share: next(chosen) for share in SHARES} for name in named}
    return thresholds, shares, {labels[name]: higher[labels[name]] for name in named}


def _refuse_file(out: str | os.PathLike[str], overwrite: bool) -> None:
    """Say at once that ids cannot be written there."""
    suffix = Path(os.fspath(out)).suffix.lower()
    if suffix not in FILES:
        raise InputError(
            f"{os.fspath(out)}: expected a file of ids that ends in {', '.join(FILES)}; or write='shards' for a folder"
        )
    if not is_remote(os.fspath(out)):
        refuse_existing(Path(out), overwrite)


@contextmanager
def _ids_writer(out: str | os.PathLike[str] | None, filter: Filter) -> Iterator[Callable[[str, pa.Table], None] | None]:
    """What to call with the items of each shard that pass; the file appears whole at the end."""
    if out is None:
        yield None
        return
    text = os.fspath(out)
    if is_remote(text):
        folder, name = split_address(text)
        with tempfile.TemporaryDirectory(prefix="captious-") as place:
            draft = Path(place) / name
            with _opened(draft, filter) as write:
                yield write
            Storage.at(folder).write(name, draft.read_bytes())
        return
    with whole_file(text) as draft, _opened(draft, filter, Path(text).suffix.lower()) as write:
        yield write


@contextmanager
def _opened(path: Path, filter: Filter, suffix: str = "") -> Iterator[Callable[[str, pa.Table], None]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    suffix = suffix or path.suffix.lower()
    numbers = [name for name in filter.columns if name not in expression.TEXTS]
    fields = [("id", pa.string()), ("shard", pa.string()), *((name, pa.float64()) for name in numbers)]
    schema = pa.schema(fields)

    def rows(shard: str, table: pa.Table) -> pa.Table:
        columns = [table["id"], pa.array([shard] * len(table), pa.string())]
        values = [pa.array(_column(table, name), pa.float64(), from_pandas=True) for name in numbers]
        return pa.table([*columns, *values], schema=schema)

    if suffix == ".parquet":
        with pq.ParquetWriter(path, schema, compression="zstd") as parquet:
            yield lambda shard, table: parquet.write_table(rows(shard, table))
        return
    with path.open("w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:

        def write(shard: str, table: pa.Table) -> None:
            if suffix == ".txt":
                for key in table["id"].to_pylist():
                    if "\n" in key or "\r" in key:
                        raise InputError(f"{shard}: id {key!r} has a line break; write the ids to a .jsonl file")
                    file.write(f"{key}\n")
            else:
                for row in rows(shard, table).to_pylist():
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")

        yield write


def _percent(part: float, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"
