"""Items as JSON for the page: captions, scores with percentiles, ratings, and explanations of scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from captious.captions import VIDEO, CaptionSet
from captious.errors import InputError
from captious.io.columns import DURATION_COLUMN, EVENT_COLUMN, REFERENCE_EVENT_COLUMN, REFERENCE_FILE_COLUMN
from captious.options import Resampling
from captious.render.items import format_field, is_shown
from captious.render.sections import convert_sections
from captious.runs.report import make_report
from captious.runs.run_tables import parse_reasons
from captious.runs.stored import find_known_metrics
from captious.studio._video_events import PART, EventMatch, find_events, find_part, match_events
from captious.studio.explore._rater_answers import compute_mean_rating
from captious.studio.explore._views import Explorer, Listed

if TYPE_CHECKING:
    from captious.runs import Report

# Largest number of characters of a further column on a card; the full record is not cut.
FIELD = 200
# Largest number of rows of a table in an explanation.
LISTED = 200

# Columns that cards do not list with the others.
SHOWN_OTHERWISE = ("image", VIDEO, REFERENCE_FILE_COLUMN)
# The row of one item in each run.
Rows = Sequence[Mapping[str, Any] | None]


class Addresses(NamedTuple):
    """URLs of the image, the sound and the video of an item; None if it has none."""

    thumbnail: str | None = None
    image: str | None = None
    sound: str | None = None
    video: str | None = None
    poster: str | None = None
    """A still of the video, where something here decodes it."""
    strip: str | None = None
    """Frames of the video side by side, for browsers that do not play it."""
    has_video: bool = False
    """Whether it has a video, even one that browsers do not play."""


class Records:
    """The items of an explorer as JSON."""

    def __init__(self, explorer: Explorer, media_of: Callable[[int, Rows], Addresses]) -> None:
        """Take a function ``media_of`` that returns the URLs of an item's thumbnail, image and sound."""
        self.explorer, self.table, self._media_of = explorer, explorer.table, media_of
        self._lock = Lock()
        self._reports: dict[int, Report] = {}

    def build_cards(self, items: Sequence[int]) -> list[dict[str, Any]]:
        """Build the records of items for cards."""
        rows = self.table.read_rows(items)
        return [self._build_record(item, own) for item, *own in zip(items, *rows, strict=True)]

    def build_listed_cards(self, items: Sequence[Listed]) -> list[dict[str, Any]]:
        """Build the cards of a view: with the sort value, and which systems' captions pass the filters."""
        records = self.build_cards([one.item for one in items])
        for record, one in zip(records, items, strict=True):
            record["sorted_by"] = _to_finite(one.value)
            for own, passes in zip(record["systems"], one.passes, strict=True):
                own["passes"] = passes
        return records

    def build_full_record(self, item: int) -> dict[str, Any]:
        """Build the record of an item with all ratings, fields and explainable scores."""
        rows = [row for (row,) in self.table.read_rows([item])]
        record = self._build_record(item, rows)
        record["fields"] = self._get_fields(rows)
        for system, own in enumerate(record["systems"]):
            own["ratings"] = self.list_ratings(system, item)
            own["matches"] = find_matches(record, system)
            own["explained"] = [place for place in self.explainable[system] if own["values"][place] is not None]
        return record

    def score_matches(self, item: int) -> list[list[float | None]]:
        """Return METEOR × 100 of the matches of an item, for each system."""
        (record,) = self.build_cards([item])
        return score_matches([record])[0]

    def get_captions(self, item: int) -> list[list[str]]:
        """Return the captions of an item by all systems."""
        return [get_texts(row, "candidates") for (row,) in self.table.read_rows([item])]

    def _build_record(self, item: int, rows: Rows) -> dict[str, Any]:
        media = self._media_of(item, rows)
        key, described = next(row["id"] for row in rows if row is not None), _find_references(rows)
        return {
            "item": key,
            "id": key,
            "references": described.get("references") or [],
            "fields": {name: text[:FIELD] for name, text in self._get_fields(rows).items()},
            "picture": media.thumbnail,
            "large": media.image,
            "sound": media.sound,
            "video": media.video,
            "poster": media.poster,
            "strip": media.strip,
            "has_video": media.has_video,
            "part": find_part({name: find_first(rows, name) for name in PART}),
            "duration": _to_duration(find_first(rows, DURATION_COLUMN)),
            "events": find_events(described.get(REFERENCE_EVENT_COLUMN))[: len(described.get("references") or ())],
            "systems": [self._build_system(system, item, row) for system, row in enumerate(rows)],
        }

    def _get_fields(self, rows: Rows) -> dict[str, str]:
        values = {name: find_first(rows, name) for name in self.table.fields if name not in SHOWN_OTHERWISE}
        return {name: format_field(value) for name, value in values.items() if is_shown(value) and not _is_track(value)}

    def _build_system(self, system: int, item: int, row: Mapping[str, Any] | None) -> dict[str, Any]:
        table, explorer = self.table, self.explorer
        reasons = parse_reasons(row.get("unscored")) if row else {}
        said = table.ratings.get((item, system), ())
        values = [
            _to_finite(
                compute_mean_rating(said, score.key) if score.kind == "rating" else row.get(score.key) if row else None
            )
            for score in table.scores
        ]
        texts = get_texts(row, "candidates")
        return {
            "texts": texts,
            "words": _count_words(row, texts),
            "events": find_events(row.get(EVENT_COLUMN) if row else None)[: len(texts)],
            "values": values,
            "shares": [
                None if value is None else round(explorer.compute_share_below(system, score, value), 1)
                for score, value in enumerate(values)
            ],
            "reasons": [reasons.get(score.key) for score in table.scores],
            "whys": [],
        }

    def list_ratings(self, system: int, item: int) -> list[dict[str, Any]]:
        """Return the ratings of a caption, one entry per rater."""
        return [
            {"rater": one.rater, "values": dict(one.values), "comment": one.comment, "seconds": one.seconds}
            for one in self.table.ratings.get((item, system), ())
        ]

    @cached_property
    def explainable(self) -> list[list[int]]:
        """The indices of the scores that each system's run can explain."""
        keys = [score.key for score in self.table.scores]
        metrics = [find_known_metrics(run.run) for run in self.table.runs]
        return [[keys.index(key) for key, metric in known.items() if metric.explains] for known in metrics]

    def explain(self, system: int, score: int, item: int) -> list[dict[str, Any]]:
        """Explain the score of a caption, as sections of tables, texts and graphs.

        Uses only the files of the run: no chat model is called, and no image outside of it is opened unless the user
        has named the folder of the images.
        """
        run, one = self.table.runs[system], self.table.scores[score]
        if one.key not in run.signatures:
            raise InputError(f"{run.name} has no {one.label}")
        if score not in self.explainable[system]:
            raise InputError(f"{one.label} does not explain single values")
        key = next(row["id"] for (row,) in self.table.read_rows([item]) if row is not None)
        with self._lock:  # the corpus statistics of a metric are computed once, even with concurrent requests
            if system not in self._reports:
                folder = self.table.pictures.folder
                self._reports[system] = make_report(run.run, images=None if folder is None else folder.path)
            explanation = self._reports[system].explain(key, one.key)[one.key]
        return convert_sections(list(explanation.document().walk()), LISTED)


def find_matches(record: Mapping[str, Any], system: int) -> list[EventMatch]:
    """Return which captions of a system describe which reference of an item, by their times."""
    return match_events(record["systems"][system]["events"], record["events"])


def score_matches(records: Sequence[Mapping[str, Any]]) -> list[list[list[float | None]]]:
    """Return METEOR × 100 of the matches of each record and system; None for all if METEOR is not installed."""
    matches = [[find_matches(record, system) for system in range(len(record["systems"]))] for record in records]
    pairs = [
        (own["texts"][one.candidate], record["references"][one.reference])
        for record, by_system in zip(records, matches, strict=True)
        for own, found in zip(record["systems"], by_system, strict=True)
        for one in found
    ]
    values = iter(_score_by_meteor(pairs))
    return [[[next(values) for _ in found] for found in by_system] for by_system in matches]


def _score_by_meteor(pairs: Sequence[tuple[str, str]]) -> list[float | None]:
    if not pairs:
        return []
    from captious._evaluate import evaluate

    captions = CaptionSet.of(
        {str(number): text for number, (text, _) in enumerate(pairs)},
        {str(number): [reference] for number, (_, reference) in enumerate(pairs)},
    )
    try:
        (measurement,) = evaluate(captions, "meteor", resampling=Resampling(samples=0)).measurements.values()
    except InputError:  # its tables are not installed
        return [None] * len(pairs)
    return [None if not math.isfinite(value) else round(100 * float(value), 2) for value in measurement.values]


def _is_track(value: Any) -> bool:
    """Return True if a value is a list of events, which the event track shows."""
    return any(find_events(value))


def find_first(rows: Rows, name: str) -> Any:
    """Return the value of a column in the first run that has one."""
    return next((row[name] for row in rows if row is not None and row.get(name) is not None), None)


def _find_references(rows: Rows) -> Mapping[str, Any]:
    """Return the row of an item in the first run that has references of it, preferably with their times."""
    described = [row for row in rows if row is not None and row.get("references")]
    return next((row for row in described if row.get(REFERENCE_EVENT_COLUMN)), described[0] if described else {})


def get_texts(row: Mapping[str, Any] | None, name: str) -> list[str]:
    """Return the texts in a column of a row; none if the row is missing."""
    return [text or "" for text in (row.get(name) if row else None) or ()]


def _count_words(row: Mapping[str, Any] | None, texts: Sequence[str]) -> float | None:
    """Return the mean number of words, as the run counted them in its language; older runs have no count."""
    if not texts:
        return None
    counted = _to_finite(row.get("words")) if row else None
    return sum(len(text.split()) for text in texts) / len(texts) if counted is None else counted


def _to_duration(value: Any) -> float | None:
    """Return the seconds of a column `duration`; None if it contains something else."""
    return _to_finite(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _to_finite(value: Any) -> float | None:
    number = float("nan") if value is None else float(value)
    return number if math.isfinite(number) else None
