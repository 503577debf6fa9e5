"""The items of a report: in memory (`MemoryItems`), or in the folder of a run (`StoredItems`).

A `Report` gets captions, tables and facts from its `ItemSource`, and does not depend on which of the two it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Protocol

from captious._core.files import RUN
from captious._core.values import PlainState
from captious._version import __version__
from captious.captions import CaptionSet
from captious.io.storage import is_remote
from captious.metrics.contract import Metric
from captious.metrics.explanation import Explanation
from captious.metrics.measurement import Measurement
from captious.metrics.statistic_rows import TypeSets
from captious.runs.marker import COLUMNS, Marker, Unit
from captious.runs.run_tables import IMAGE

if TYPE_CHECKING:
    import pyarrow as pa

    from captious.runs.folder import Run
    from captious.runs.report import Report
    from captious.runs.summary import PartSummary

# Number of items that are converted to an Arrow table at a time.
BLOCK = 20_000
# Number of items in a part when a set in memory is written.
PART = 200_000
# Name of the part of a set in memory.
CAPTIONS = "captions"


class ItemSource(Protocol):
    """The interface through which a report gets its items."""

    @property
    def name(self) -> str:
        """The name of the captions; for shards, the folder of their run."""

    @property
    def title(self) -> str:
        """The name of the captions and the number of items."""

    @property
    def size(self) -> int:
        """The number of items."""

    @property
    def skipped(self) -> int:
        """The number of ids that were left out at reading because captions or references were missing."""

    @property
    def origin_line(self) -> str:
        """The columns that were read as captions, references and images; empty for captions in memory."""

    @property
    def unit(self) -> Unit:
        """The unit that is resampled for intervals."""

    @property
    def address(self) -> str:
        """The folder of the run; empty if the items are in memory."""

    @property
    def version(self) -> str:
        """The version of captious that scored the items."""

    @property
    def parts(self) -> tuple[PartSummary, ...]:
        """Summaries of the parts of a run; empty in memory."""

    @property
    def shards(self) -> tuple[PartSummary, ...]:
        """Summaries of the scored shards; empty if a file was scored."""

    @property
    def failed(self) -> Mapping[str, str]:
        """The reason of each shard that could not be scored, by name."""

    @property
    def history(self) -> tuple[str, ...]:
        """Events while shards were scored."""

    @property
    def captions(self) -> CaptionSet:
        """All captions, with the images that may be opened."""

    def take(self, indices: Sequence[int]) -> CaptionSet:
        """Return the captions at these positions."""

    def tables(self, measurements: Mapping[str, Measurement]) -> Iterator[pa.Table]:
        """Yield the items as Arrow tables, part by part."""

    def relation(self, measurements: Mapping[str, Measurement]) -> Sequence[str] | pa.Table:
        """Return the input of a filter: the Parquet files of the items, or a table of them."""

    def make_explainer(self, report: Report, id: Any) -> Callable[[Metric], Explanation]:
        """Return the function that explains the value of an item; raise UnknownKey for an unknown id."""

    def marker(self, **facts: Any) -> Marker:
        """Return the marker of a run with these facts."""

    def write(self, folder: Path, report: Report) -> None:
        """Write the items, their statistics and the marker into a folder."""


@dataclass(frozen=True, eq=False)
class MemoryItems(PlainState):
    """Captions in memory: read from a file, passed as values, or from a run to which metrics were added."""

    captions: CaptionSet
    store_references: bool = True
    """Whether a saved run contains the references of its items."""
    store_rows: bool = True
    """Whether a saved run contains the statistics of its items."""
    before: StoredItems | None = None
    """The run that these items come from, whose parts are kept when they are saved with more metrics."""
    unit: Unit = "item"
    address: str = ""
    version: str = __version__
    parts: tuple[PartSummary, ...] = ()

    @property
    def name(self) -> str:
        """The name of the captions."""
        return self.captions.name

    @property
    def title(self) -> str:
        """The file name and the number of items."""
        return f"{PurePath(self.name).name}: {self.size} items"

    @property
    def size(self) -> int:
        """The number of items."""
        return len(self.captions)

    @property
    def skipped(self) -> int:
        """The number of ids that were left out at reading."""
        return self.captions.skipped

    @property
    def origin_line(self) -> str:
        """The columns that were read as captions, references and images."""
        return self.captions.origin_line or (self.before.origin_line if self.before else "")

    @property
    def shards(self) -> tuple[PartSummary, ...]:
        """Summaries of the shards of the run that these items come from."""
        return self.before.shards if self.before else ()

    @property
    def failed(self) -> Mapping[str, str]:
        """The reason of each shard of that run that could not be scored."""
        return self.before.failed if self.before else {}

    @property
    def history(self) -> tuple[str, ...]:
        """Events while the shards of that run were scored."""
        return self.before.history if self.before else ()

    def take(self, indices: Sequence[int]) -> CaptionSet:
        """Return the captions at these positions."""
        return self.captions.take(indices)

    def tables(self, measurements: Mapping[str, Measurement]) -> Iterator[pa.Table]:
        """Yield the items as Arrow tables."""
        from captious.runs.run_tables import make_items_table

        for first in range(0, max(self.size, 1), BLOCK):
            block = self.captions.part(first, first + BLOCK)
            yield make_items_table(block, slice_all(measurements, block, first, self.size), list(measurements))

    def relation(self, measurements: Mapping[str, Measurement]) -> pa.Table:
        """Return the table of all items."""
        from captious.runs.folder import join_tables

        return join_tables(list(self.tables(measurements)))

    def make_explainer(self, report: Report, id: Any) -> Callable[[Metric], Explanation]:
        """Return the function that explains the value of an item from all captions."""
        self.captions.position(id)
        return lambda metric: metric.explain(self.captions, id)

    def marker(self, **facts: Any) -> Marker:
        """Return the marker of a run with these facts and the reading options."""
        from captious.runs.run_tables import hide_folder

        if self.before is not None:
            return self.before.marker(**facts)
        captions = self.captions
        reading: dict[str, Any] = {"source": hide_folder(self.name)}
        reading |= {COLUMNS: self.origin_line} if self.origin_line else {}
        reading |= {"cleaned": captions.origin.cleaned} if captions.origin.cleaned else {}
        reading |= {"list": captions.selection} if captions.selection else {}
        reading |= {"language": captions.language} if captions.language else {}
        reading |= {"settings": dict(captions.settings)} if captions.settings else {}
        reading |= {"tokenizer": captions.tokenizer} if captions.tokenizer else {}
        reading |= {} if self.store_references else {"store_references": False}
        reading |= {} if self.store_rows else {"store_rows": False}
        return Marker(hide_folder(self.name), **facts, reading=reading)

    def write(self, folder: Path, report: Report) -> None:
        """Write the captions with their values, part by part, and the marker."""
        from captious.runs.folder import Run
        from captious.runs.run_tables import hash_types, hide_machine_paths, make_items_table, make_rows_table
        from captious.runs.summary import summarize_part

        captions, draft = hide_machine_paths(self.captions), Run(str(folder), report.marker({}))
        parts, keys = {}, list(report.measurements)
        for name, first, end in self._iterate_parts():
            part = captions.part(first, end)
            measurements = slice_all(report.measurements, part, first, self.size) if len(part) else {}
            facts = self._get_part_facts(name) or {"skipped": captions.skipped if not first else 0}
            items = make_items_table(part, measurements, keys, self.store_references)
            rows = make_rows_table(measurements) if self.store_rows and measurements else None
            # Worst items and histograms are only needed if the statistics are not stored, or too large to be read.
            spread = rows is None or bool(self.shards)
            summary = summarize_part(name, draft, part, measurements, **facts, spread=spread)
            draft.write_part(summary, items, hash_types(measurements), rows)
            parts[name] = len(part)
        replace(draft, marker=report.marker(parts)).write_marker()

    def extend_run(self, before: StoredItems, measurements: Mapping[str, Measurement]) -> MemoryItems:
        """Return these items as the items of a run to which metrics were added: in its parts, with new summaries."""
        from captious.runs.summary import summarize_part

        items = replace(self, before=before)
        summaries = []
        for name, first, end in items._iterate_parts():
            part = self.captions.part(first, end)
            part_measurements = slice_all(measurements, part, first, self.size) if len(part) else {}
            summaries.append(summarize_part(name, before.run, part, part_measurements, **items._get_part_facts(name)))
        return replace(items, before=replace(before, parts=tuple(summaries)))

    def _iterate_parts(self) -> Iterator[tuple[str, int, int]]:
        """Yield the name, the start and the end of each part."""
        if self.before is None:
            for number, first in enumerate(range(0, max(self.size, 1), PART)):
                yield (CAPTIONS if self.size <= PART else f"{CAPTIONS}-{number:03d}"), first, first + PART
            return
        first = 0
        for part in self.before.parts:
            yield part.name, first, first + part.items
            first += part.items

    def _get_part_facts(self, name: str) -> dict[str, Any]:
        """Return what the earlier run stored about the reading of a part; empty if there is no such part."""
        for part in self.before.parts if self.before else ():
            if part.name == name:
                facts = ("size", "skipped", "columns", "references", "faults", "examples", "warnings", "seconds")
                return {fact: getattr(part, fact) for fact in facts}
        return {}


@dataclass(frozen=True, eq=False)
class StoredItems(PlainState):
    """Items in the folder of a run, on a disk or on an object store; they are read when needed."""

    run: Run
    parts: tuple[PartSummary, ...]
    """Summaries of the parts."""
    images: str | os.PathLike[str] | None = None
    """The folder of the images. Without it only images in the folder of the run itself are opened."""

    @property
    def name(self) -> str:
        """The name of the captions; for shards, the folder of their run."""
        return self.run.address if self.run.marker.shards else self.run.marker.name

    @property
    def title(self) -> str:
        """The name of the captions and the number of items."""
        if self.run.marker.shards:
            return f"{self.size:,} items in {len(self.parts):,} shard{'' if len(self.parts) == 1 else 's'}"
        return f"{PurePath(self.name).name}: {self.size} items"

    @property
    def size(self) -> int:
        """The number of items."""
        return self.run.marker.items

    @property
    def skipped(self) -> int:
        """The number of ids that were left out at reading."""
        return self.run.marker.skipped

    @property
    def origin_line(self) -> str:
        """The columns that were read as captions, references and images, from the marker."""
        return str(self.run.marker.reading.get(COLUMNS, ""))

    @property
    def unit(self) -> Unit:
        """The unit that is resampled for intervals."""
        return self.run.marker.unit

    @property
    def address(self) -> str:
        """The folder of the run."""
        return self.run.address

    @property
    def version(self) -> str:
        """The version of captious that scored the items."""
        return self.run.marker.version

    @property
    def shards(self) -> tuple[PartSummary, ...]:
        """Summaries of the scored shards; empty if a file was scored."""
        return self.parts if self.run.marker.shards else ()

    @property
    def failed(self) -> Mapping[str, str]:
        """The reason of each shard that could not be scored, by name; none of its items is in the run."""
        return self.run.marker.failed

    @property
    def history(self) -> tuple[str, ...]:
        """Events while shards were scored."""
        return self.run.marker.history

    @cached_property
    def captions(self) -> CaptionSet:
        """All captions, read from the folder on first use."""
        return _attach_images(self.run, self.run.captions(), self.images)

    def take(self, indices: Sequence[int]) -> CaptionSet:
        """Return the captions at these positions; only the parts that contain one are read."""
        return _attach_images(self.run, self.run.take(indices), self.images)

    def tables(self, measurements: Mapping[str, Measurement]) -> Iterator[pa.Table]:
        """Yield the items as Arrow tables; those of shards have a column ``shard``."""
        import pyarrow as pa

        for part in self.run.names:
            table = self.run.table(part).replace_schema_metadata()
            if self.run.marker.shards and "shard" not in table.column_names:
                table = table.append_column("shard", pa.array([part] * len(table), pa.string()))
            yield table

    def relation(self, measurements: Mapping[str, Measurement]) -> Sequence[str]:
        """Return the addresses of the Parquet files."""
        return self.run.parts()

    def make_explainer(self, report: Report, id: Any) -> Callable[[Metric], Explanation]:
        """Return the function that explains the value of an item from the content of the folder."""
        from captious.runs._explaining import StoredItem

        return StoredItem.find(report, self.run, id).explain

    def marker(self, **facts: Any) -> Marker:
        """Return the marker of the run with these facts."""
        return replace(self.run.marker, **facts)

    def write(self, folder: Path, report: Report) -> None:
        """Copy the files of the run into another folder."""
        for name in self.run.files():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with self.run.open(name) as file:
                (folder / name).write_bytes(file.read())
        marker = report.marker(self.run.marker.parts)
        (folder / RUN).write_text(marker.to_json(), encoding="utf-8", errors="replace", newline="\n")


def slice_all(
    measurements: Mapping[str, Measurement], captions: CaptionSet, first: int, size: int
) -> dict[str, Measurement]:
    """Return measurements of ``size`` items restricted to these captions, which begin at position ``first``."""
    if len(captions) == size:
        return dict(measurements)
    return {key: _slice(one, captions, first) for key, one in measurements.items()}


def _slice(measurement: Measurement, captions: CaptionSet, first: int) -> Measurement:
    """Restrict a measurement to these captions.

    Warnings, notes and counts are of all items together. Only the first slice keeps them, so that they occur once.
    """
    end, rows = first + len(captions), measurement.rows
    reasons = measurement.reasons
    own_reasons = {id: reasons[id] for id in captions.ids if id in reasons} if reasons else {}
    signature = replace(
        measurement.signature,
        items=len(captions),
        references=captions.reference_range,
        fingerprint=captions.fingerprint,
        unscored=len(own_reasons),
    )
    if first:
        signature = replace(signature, skipped=0, counts=dict.fromkeys(signature.counts, 0))
    part = replace(
        measurement,
        ids=captions.ids,
        rows=TypeSets(rows.types[first:end], rows.tokens[first:end]) if isinstance(rows, TypeSets) else rows[first:end],
        signature=signature,
        reasons=own_reasons,
        warnings=() if first else measurement.warnings,
        notes=() if first else measurement.notes,
    )
    vars(part)["values"] = measurement.values[first:end]  # a cached property: the values need not be computed again
    return part


def _attach_images(run: Run, captions: CaptionSet, images: str | os.PathLike[str] | None) -> CaptionSet:
    """Return the captions with the images that may be opened: those inside the run folder, or those in ``images``."""
    if IMAGE not in captions.columns or not len(captions):
        return captions
    names = [name if isinstance(name, str) and name else None for name in captions.columns[IMAGE]]
    if images is not None:
        from captious.io.images import find_images

        # An absolute path may be from another computer: use only the file name.
        relative = [Path(name).name if name and Path(name).is_absolute() else name for name in names]
        paths: Sequence[str | None] = find_images(Path(images), captions.ids, relative)
    else:
        paths = [_find_inside(run.address, name) for name in names]
    return replace(captions, columns={**captions.columns, IMAGE: tuple(paths)})


def _find_inside(address: str, name: str | None) -> str | None:
    """Return the path of an image if it is a file inside the run folder, else None."""
    if name is None or is_remote(address) or is_remote(name):
        return None
    folder = Path(address).resolve()
    try:
        path = (folder / name).resolve()
        return str(path) if path.is_relative_to(folder) and path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None
