"""Readers of Parquet files, Arrow tables and data frames, column by column."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import IO, Any

from captious.errors import InputError
from captious.io.columns import ID_COLUMNS, IMAGE_COLUMNS, VIDEO_COLUMNS
from captious.io.rows import EXPECTED, Row, RowBlock, describe_value, refuse_repeated, refuse_unpacked
from captious.options import Reading


def read_frame(frame: Any, name: str) -> Iterator[Row]:
    """Yield the rows of a pandas frame; its index contains the ids if no column does."""
    refuse_repeated(list(map(str, frame.columns)), name)
    columns = {str(column): _convert_series(frame.iloc[:, number]) for number, column in enumerate(frame.columns)}
    if isinstance(frame.index.name, str):
        columns.setdefault(frame.index.name, frame.index.tolist())
    names = [column for column in ID_COLUMNS if column in columns]
    if all(column in IMAGE_COLUMNS and not isinstance(next(iter(columns[column]), ""), str) for column in names):
        columns["id"] = frame.index.tolist()
    return _rows_of_columns(columns, name)


def _convert_series(series: Any) -> list[Any]:
    """Return the values of a column with None for missing ones; types unknown to Arrow, such as images, unchanged."""
    import pyarrow as pa

    try:
        values: list[Any] = pa.Array.from_pandas(series).to_pylist()
        return values
    except (pa.ArrowException, TypeError, ValueError):
        return list(series.tolist())


def _rows_of_columns(columns: Mapping[str, Sequence[Any]], name: str) -> Iterator[Row]:
    for number, values in enumerate(zip(*columns.values(), strict=True), start=1):
        yield Row(f"{name}: row {number}", dict(zip(columns, values, strict=True)))


def open_parquet(file: IO[bytes]) -> Any:
    """Open a Parquet file as ``pyarrow.parquet.ParquetFile`` does, with reads that never use Arrow's threads.

    A task of Arrow's thread pools may free a Python buffer after the interpreter has begun to end, and that aborts the
    process (SIGABRT) although all its output was written. Files that pyarrow opens by path have no such buffers.
    """
    import pyarrow.parquet as pq

    # ``use_threads`` decides about the pool that decodes columns, ``pre_buffer`` about the pool that reads ahead.
    opened = pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
    for name in ("read", "read_row_group", "read_row_groups", "iter_batches"):
        setattr(opened, name, partial(getattr(opened, name), use_threads=False))
    return opened


def parse_parquet(content: bytes, name: str, unpack_limit: int) -> Iterator[Row]:
    """Yield the rows of a Parquet file in memory."""
    return chain.from_iterable(read_parquet_blocks(io.BytesIO(content), name, unpack_limit=unpack_limit))


def read_parquet(file: IO[bytes], name: str, images: bool = True) -> Iterator[Row]:
    """Yield the rows of an open Parquet file; without ``images``, columns of image bytes are not read."""
    return chain.from_iterable(read_parquet_blocks(file, name, images))


def read_parquet_blocks(
    file: IO[bytes],
    name: str,
    images: bool = True,
    choose: Callable[[list[str]], list[str]] = list,
    unpack_limit: int = Reading.unpack_limit,
) -> Iterator[RowBlock]:
    """Yield blocks of rows of an open Parquet file. ``choose`` selects from all column names those to read."""
    import pyarrow as pa

    try:
        parquet = open_parquet(file)
        refuse_repeated(parquet.schema_arrow.names, name)
        columns = choose([field.name for field in parquet.schema_arrow if images or not _has_images(field)])
        _refuse_unpacked(parquet.metadata, columns, unpack_limit, name)
        table = parquet.read(columns)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{name}: not a whole Parquet file ({str(error).splitlines()[0]})") from None
    return _split_table(table, name)


def _refuse_unpacked(metadata: Any, columns: Sequence[str], limit: int, name: str) -> None:
    """Raise InputError if columns would unpack to more bytes than the limit, before they are unpacked."""
    packed = unpacked = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema.partition(".")[0] in columns:
                packed += column.total_compressed_size
                unpacked += column.total_uncompressed_size
    refuse_unpacked(unpacked, packed, limit, name)


def _has_images(field: Any) -> bool:
    """Return True if a column contains bytes of images or videos, plain or as Hugging Face data sets store them."""
    kind = str(field.type)
    return field.name in (*IMAGE_COLUMNS, *VIDEO_COLUMNS) and kind.startswith(("binary", "large_binary", "struct"))


def read_table(table: Any, name: str) -> Iterator[Row]:
    """Yield the rows of an Arrow table, or of an object that exports one, such as a polars frame."""
    import pyarrow as pa

    if not isinstance(table, pa.Table):
        try:
            table = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else pa.table(table)
        except (TypeError, ValueError, AttributeError):
            raise InputError(f"{name}: {describe_value(table)}, expected {EXPECTED}") from None
    refuse_repeated(table.column_names, name)
    yield from chain.from_iterable(_split_table(table, name))


def _split_table(table: Any, name: str) -> Iterator[RowBlock]:
    """Yield the rows of an Arrow table in blocks."""
    first = 1
    for batch in table.to_batches(max_chunksize=65536):
        yield RowBlock(name, first, dict(zip(table.column_names, map(_convert_column, batch.columns), strict=True)))
        first += len(batch)


def _convert_column(column: Any) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
        return values
    except UnicodeDecodeError:
        return [_convert_scalar(scalar) for scalar in column]


def _convert_scalar(scalar: Any) -> Any:
    """Convert a value of Arrow; text that is not UTF-8 is returned as bytes, which later checks refuse."""
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return (
            scalar.as_buffer().to_pybytes()
            if hasattr(scalar, "as_buffer")
            else list(map(_convert_scalar, scalar.values))
        )
