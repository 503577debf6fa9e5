"""Explanations of single items of a stored run, from the content of its folder.

A run may come from an untrusted source. So no chat model is asked: replies of judges come from the store of replies.
No module that the run names is imported, and no image outside its folder is opened unless the caller names their
folder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from captious.captions import COMPARED, CaptionSet
from captious.errors import InputError, UnknownKey, format_suggestion
from captious.metrics.contract import Metric
from captious.metrics.explanation import Explanation
from captious.metrics.measurement import Signature
from captious.options import get_runtime, using
from captious.runs.folder import Run
from captious.runs.run_tables import IMAGE
from captious.runs.stored_states import CorpusStates

if TYPE_CHECKING:
    from captious.runs.report import Report

# A value that differs by less from the stored one is considered the same.
SAME = 1e-6


@dataclass(frozen=True, eq=False)
class StoredItem:
    """One item of a run, with its part, its captions and its values."""

    report: Report
    run: Run
    part: int
    """The number of its part among those of the report."""
    item: CaptionSet
    values: dict[str, float | None]
    image: str | None
    """The path of its image at scoring, which may be outside the run."""

    @classmethod
    def find(cls, report: Report, run: Run, id: Any) -> StoredItem:
        """Find the item with an id. In parts without this id, only the id column is read."""
        import pyarrow.compute as pc

        first = 0  # index of the part's first item among all items of the report
        all_ids = list[str]()  # for the error message; too many ids are not searched for a similar one
        for part, name in enumerate(run.names):
            ids = run.table(name, ["id"])["id"]
            row = pc.index(ids, str(id)).as_py()
            if row >= 0:
                table = run.table(name).slice(row, 1)
                values = {key: table[key][0].as_py() for key in run.metrics}
                stored = table[IMAGE][0].as_py() if IMAGE in table.column_names else None
                image = stored if isinstance(stored, str) and stored else None
                return cls(report, run, part, report.captions_at([first + row]), values, image)
            first += len(ids)
            all_ids += ids.to_pylist() if len(all_ids) <= COMPARED else []
        hint = format_suggestion(str(id), all_ids) if len(all_ids) <= COMPARED else ""
        example = f"; ids are such as {all_ids[0]!r}" if all_ids else ""
        raise UnknownKey(f"{run.address}: no item with id {str(id)!r}{hint or example}")

    def explain(self, metric: Metric) -> Explanation:
        """Compute the value of the item again and explain it. Raise InputError if the metric's settings differ from the
        run's.
        """
        key, where = str(metric), self.run.address
        summary = self.report.parts[self.part][key]
        if self.image and "image" in metric.needs and self.item.images[0] is None:
            raise InputError(
                f"{where}: the image of {self.item.ids[0]} is outside the run ({self.image}); pass images=..., "
                "the folder with it"
            )
        if "references" in metric.needs and self.run.marker.reading.get("store_references") is False:
            raise InputError(f"{where}: contains no references, which explaining {key} needs; score the captions again")
        runtime = get_runtime()
        # Replay: take replies of judges from the store only, and send no request.
        with using(replace(runtime, judging=replace(runtime.judging, replay=True, dry_run=False))):
            state = self._load_state(metric, summary.corpus)
            explanation = metric.explain(self.item, self.item.ids[0], state)
            current_settings = Signature.of(metric, self.item, state, 0, {}).settings
        # Ignore the setting `list`: the run contains only the items that were selected at reading.
        current, stored = (
            {name: value for name, value in settings.items() if name != "list"}
            for settings in (current_settings, summary.signature.settings)
        )
        if current != stored:
            name = next(key for key in {**current, **stored} if current.get(key) != stored.get(key))
            before, now = (f"{name}:{one[name]}" if name in one else f"no {name}" for one in (stored, current))
            raise InputError(f"{where}: {key} was computed with {before}, now it is {now}")
        value, notes = self.values[key], list(explanation.breakdown.notes)
        if value is not None and not abs(value - explanation.value) < SAME:
            notes.append(f"the run has the value {value:.6f}, computed again it is {explanation.value:.6f}")
        return replace(explanation, breakdown=replace(explanation.breakdown, notes=notes))

    def _load_state(self, metric: Metric, corpus: str) -> Any:
        """Return the state with which the metric scores the item. It is prepared from the item only, unless the metric
        needs the whole corpus: then it is loaded from the run by the fingerprint `corpus`, or, if that is empty,
        prepared from all captions of the run.
        """
        if not metric.needs_corpus:
            return metric.prepare(self.item)
        if corpus:
            return CorpusStates(self.run, metric).open(corpus)
        captions = self.report.captions
        return captions.once(("state", metric), lambda: metric.prepare(captions))
