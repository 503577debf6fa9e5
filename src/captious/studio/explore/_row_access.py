"""Random access to the rows of a run, by reading only the row groups of its Parquet files that contain them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.types import Ints
from captious.errors import InputError
from captious.runs.folder import WROTE, Run, join_tables

if TYPE_CHECKING:
    import pyarrow as pa

# Row groups in the cache.
KEPT = 100
# Rows of a batch: the row group size of DuckDB.
BATCH = 122_880


class RunRows:
    """The items of a run, one row each, in the order of its parts."""

    def __init__(self, run: Run) -> None:
        """Read the footers of the Parquet files, no rows."""
        self.run = run
        # The part of each row group, and its number there.
        self._groups: list[tuple[str, int]] = []
        self._kept: OrderedDict[int, pa.Table] = OrderedDict()
        self._lock = Lock()
        # Approximate size of the rows in memory.
        self.bytes = 0
        sizes, schemas = [0], []
        for part in run.names:
            with run.parquet(run.items_name(part)) as file:
                schemas.append(run.check_schema(part, file).remove_metadata())
                for group in range(file.metadata.num_row_groups):
                    self._groups.append((part, group))
                    sizes.append(file.metadata.row_group(group).num_rows)
                    self.bytes += file.metadata.row_group(group).total_byte_size
        self.schema: pa.Schema = join_tables([schema.empty_table() for schema in schemas]).schema
        self._starts: Ints = np.cumsum(sizes)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def read_batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order, with these columns (``id`` among them) after the row number ``r``."""
        import pyarrow as pa

        start = 0
        for part in self.run.names:
            with self.run.parquet(self.run.items_name(part)) as file:
                names = set(file.schema_arrow.names)
                table = self._align_table(file.read([name for name in columns if name in names]), columns)
            if table["id"].null_count:
                raise InputError(f"{self.run.address}: an item has no id, {WROTE}")
            for batch in table.combine_chunks().to_batches(BATCH):
                numbers = pa.array(np.arange(start, start + len(batch), dtype=np.int32))
                yield pa.RecordBatch.from_arrays([numbers, *batch.columns], ["r", *columns])
                start += len(batch)

    def take(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return the rows with these numbers, in this order."""
        import pyarrow as pa

        result: list[dict[str, Any]] = [{}] * len(rows)
        numbers = np.asarray(rows, dtype=np.int64)
        groups = np.searchsorted(self._starts, numbers, side="right") - 1
        for group in np.unique(groups).tolist():
            places = np.flatnonzero(groups == group)
            table = self._get_group(group).take(pa.array(numbers[places] - self._starts[group]))
            for place, row in zip(places.tolist(), table.to_pylist(), strict=True):
                result[place] = row
        return result

    def read_columns(self, first: int, end: int, columns: Sequence[str]) -> pa.Table:
        """Read some columns of the rows from ``first`` to before ``end``."""
        begin = int(np.searchsorted(self._starts, first, side="right")) - 1
        after = int(np.searchsorted(self._starts, end, side="left"))
        tables = [self._read(group, columns) for group in range(begin, after)]
        return join_tables(tables).slice(first - int(self._starts[begin]), end - first)

    def _get_group(self, group: int) -> pa.Table:
        """Return a row group with all its columns, from a cache of the last used ones."""
        with self._lock:
            table = self._kept.pop(group, None)
        table = self._read(group) if table is None else table
        with self._lock:
            self._kept[group] = table
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return table

    def _read(self, group: int, columns: Sequence[str] | None = None) -> pa.Table:
        part, number = self._groups[group]
        with self.run.parquet(self.run.items_name(part)) as file:
            names = [name for name in file.schema_arrow.names if columns is None or name in columns]
            return self._align_table(file.read_row_group(number, names), columns).combine_chunks()

    def _align_table(self, table: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the table of a part with the columns of all parts, in their order and types."""
        import pyarrow as pa

        names = self.schema.names if columns is None else list(columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        table = table.replace_schema_metadata()
        if table.schema.equals(schema):
            return table
        try:
            return join_tables([schema.empty_table(), table]).select(names).cast(schema)
        except (KeyError, pa.ArrowException) as error:
            raise InputError(f"{self.run.address}: its parts do not fit together ({error})") from None
