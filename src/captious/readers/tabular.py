"""Parquet files, and Arrow or pandas tables held in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from captious.errors import InputError
from captious.readers.rows import Row


def parquet_rows(content: bytes, name: str) -> Iterator[Row]:
    """Rows of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(pa.BufferReader(content))
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{name}: not a whole Parquet file ({str(error).splitlines()[0]})") from None
    return table_rows(table, name)


def table_rows(table: Any, name: str) -> Iterator[Row]:
    """Rows of an Arrow table, or of anything that converts to one, such as a pandas frame."""
    import pyarrow as pa

    if not isinstance(table, (pa.Table, pa.RecordBatch)):
        try:
            table = pa.table(table) if hasattr(table, "__arrow_c_stream__") else pa.Table.from_pandas(table)
        except (TypeError, ValueError, AttributeError):
            raise InputError(
                f"cannot read captions from {name}, expected a path, '-', a dict, a pandas frame or an Arrow table"
            ) from None
    columns = table.column_names
    number = 0
    for batch in table.to_batches(max_chunksize=65536) if isinstance(table, pa.Table) else [table]:
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            number += 1
            yield Row(f"{name}: row {number}", dict(zip(columns, values, strict=True)))
