"""Values of the original SPICE, read from the output file of its Java program, for comparison."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from captious._core.files import digest, expand_home, read_regular
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.contract import MeanMetric, Metric, Need, Shared
from captious.metrics.spice.graphs import Subset
from captious.metrics.spice.spice import Spice
from captious.metrics.statistic_rows import Scored, item_means

ABSENT = "the original's output has no such id"
EXPECTED = "expected the output of SPICE's Java program: [{image_id, scores: {All: {f, …}, …}}, …]"


@dataclass(frozen=True)
class SpiceOriginal(MeanMetric):
    """SPICE as the original computed it: its F-scores are read from ``file`` and joined by id, in any order.

    Nothing is computed here. It is for people who have the output of the original program, and want it beside
    ``spice``: in one table, with the Pearson correlation of the two, and in the charts of the page. The file is what
    the program writes under ``-out``: a list of images, each with an ``image_id`` and ``scores``. ``subset`` needs the
    program's ``-subset``. An id that is missing from the file has no value, nor does one whose score is null.

    >>> SpiceOriginal(file="spice.json").label
    'SPICE (original)'
    """

    file: str = ""
    subset: Subset = "all"

    name: ClassVar[str] = "spice_original"
    languages: ClassVar[tuple[str, ...]] = ("en",)
    main: ClassVar[str] = "file"
    needs: ClassVar[tuple[Need, ...]] = ()
    undefined_reason: ClassVar[str] = "the original has no value"
    undefined_by_caption: ClassVar[bool] = False
    citation: ClassVar[str] = Spice.citation

    @property
    def installed(self) -> bool:
        """Whether a file is given; ``-m all`` leaves the metric out otherwise."""
        return bool(self.file)

    @property
    def label(self) -> str:
        """SPICE (original), with the subset."""
        return "SPICE (original)" if self.subset == "all" else f"SPICE (original) {self.subset}"

    def compares_with(self, other: Metric) -> bool:
        """Return True if the other metric is SPICE of the same subset; Soft-SPICE is another measure."""
        return isinstance(other, Spice) and other.subset == self.subset and other.matching != "soft"

    def prepare(self, captions: CaptionSet) -> Shared[tuple[Mapping[str, float], str]]:
        """Read the value of each id; the digest of the file is the key that shards must share."""
        if not self.file:
            raise InputError("spice_original: no file, expected spice_original(FILE), the output of the Java program")
        path = expand_home(self.file)
        try:
            content = read_regular(path)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from None
        key = digest(content)
        return Shared((_parse_values(content, path, self.subset.capitalize()), key), key)

    def settings(self, state: Shared[tuple[Mapping[str, float], str]]) -> Mapping[str, str]:
        """Return the digest of the file, so that the signature tells which content was read."""
        return {"file": f"#{state.value[1]}"}

    def score_items(self, captions: CaptionSet, state: Shared[tuple[Mapping[str, float], str]]) -> Scored:
        """Return the row (value, 1) of each item, and the reason for each item whose id the file does not have."""
        values, _ = state.value
        rows = item_means(np.array([values.get(key, math.nan) for key in captions.ids], dtype=np.float64))
        return Scored(rows, {index: ABSENT for index, key in enumerate(captions.ids) if key not in values})

    def hint(self, reason: str) -> str:
        """Return the advice for an id that the file does not have."""
        return f"; {self.file} must be of these captions, with their ids" if reason == ABSENT else super().hint(reason)


def _parse_values(content: bytes, path: Path, subset: str) -> dict[str, float]:
    """Return the F-score of the subset by image id; NaN if it is null."""
    try:
        rows = json.loads(content)
    except (ValueError, RecursionError):
        raise InputError(f"{path}: is not JSON, {EXPECTED}") from None
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path}: contains {_describe_json(rows)}, {EXPECTED}")
    values: dict[str, float] = {}
    for number, row in enumerate(rows, 1):
        where = f"{path}, entry {number}"
        if not isinstance(row, dict) or "image_id" not in row or not isinstance(row.get("scores"), dict):
            raise InputError(f"{where}: {_describe_json(row)}, {EXPECTED}")
        key, scores = str(row["image_id"]), row["scores"]
        if key in values:
            raise InputError(f"{where}: image_id {key} occurs twice, expected each once")
        if subset not in scores:
            hint = "; the program writes subsets with -subset" if subset != "All" else ""
            raise InputError(f"{where}: scores of {', '.join(map(str, scores)) or 'nothing'}, expected {subset}{hint}")
        f = scores[subset].get("f") if isinstance(scores[subset], dict) else scores[subset]
        # f != f is true for NaN, which `json.loads` accepts; it means no value.
        if f is not None and (isinstance(f, bool) or not isinstance(f, (int, float)) or not (0 <= f <= 1 or f != f)):
            raise InputError(f"{where}: f of {subset} is {f!r}, expected a number from 0 to 1, or null")
        values[key] = math.nan if f is None else float(f)
    return values


def _describe_json(value: Any) -> str:
    """Describe a JSON value in a few words."""
    if isinstance(value, dict):
        return f"an object of {', '.join(map(str, list(value)[:5])) or 'nothing'}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return f"{value!r}"[:40]
