"""Scene graphs of all captions of a set: as a table, as drawings on a page, and as records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from captious._core.files import write_atomically
from captious._core.languages import refuse_other_than_english
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.contract import Shared
from captious.metrics.spice.graphs import SceneGraph, compare_graphs, get_labels, match_tuples
from captious.metrics.spice.spice import Spice, SpiceResources
from captious.render import Document, Graph, Phrase, Result, Span, Statement, Table
from captious.render.document import Tone, Value
from captious.render.exports import write_jsonl
from captious.syntax import parsing

TONES: Mapping[bool | None, Tone] = {True: "good", False: "bad", None: ""}
# Number of captions in the printed table, and on the page; the records have all.
PRINTED, DRAWN = 8, 50


@dataclass(frozen=True, eq=False, repr=False)
class SceneGraphs(Result):
    """A scene graph for each caption; with references, also one graph per item of all its references."""

    captions: CaptionSet
    graphs: Sequence[SceneGraph]
    references: Sequence[SceneGraph] | None
    """The graph of each item's references; None without references."""
    parser: str

    def __repr__(self) -> str:
        return f"<SceneGraphs of {len(self.graphs):,} captions by {self.parser}>"

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """A record for each caption with its id, text and tuples.

        With references it also has the matches, and the tuples of the references.
        """
        records: list[dict[str, Any]] = []
        rows = zip(self.captions.candidates.owners.tolist(), self.captions.candidates.values, self.graphs, strict=True)
        for item, text, graph in rows:
            tuples = graph.tuples()
            record = {"id": self.captions.ids[item], "caption": text, "tuples": [get_labels(one) for one in tuples]}
            if self.references is not None:
                reference_tuples = self.references[item].tuples()
                record["matched"] = match_tuples(tuples, reference_tuples, graph.merge, "any")
                record["reference_tuples"] = [get_labels(one) for one in reference_tuples]
                record["reference_matched"] = match_tuples(reference_tuples, tuples, graph.merge, "any")
            records.append(record)
        return records

    def document(self) -> Document:
        """Return a document of the first captions: a row per object in a table, and a drawing on the page."""
        rows: list[Sequence[Value]] = []
        breaks, drawings = [], []
        owners = self.captions.candidates.owners[:DRAWN].tolist()
        for number, item in enumerate(owners):
            key, text, own = self.captions.ids[item], self.captions.candidates.values[number], self.graphs[number]
            if self.references is None:
                graph = Graph([Statement(get_labels(one)) for one in own.tuples()])
            else:
                graph = compare_graphs(own, self.references[item], "all", "any")
            drawings.append(Graph(graph.statements, graph.missed, f"{key}: {text}", "graphs"))
            if number < PRINTED:
                breaks.append(len(rows))
                rows += _list_rows(key, text, graph)
        total = len(self.graphs)
        notes = ["✓ a reference says it too"] if self.references is not None else []
        notes += [f"the first {PRINTED} captions; a file has all"] if total > PRINTED else []
        columns = ("id", "caption", "object", "attributes", "relations")
        return Document(
            f"Scene graphs of {total:,} caption{'' if total == 1 else 's'}",
            f"the first {DRAWN} are drawn; graphs.jsonl has all" if total > DRAWN else "",
            [Table("graphs", "", columns, rows, "; ".join(notes), breaks), *drawings],
            signatures=[f"parser:{self.parser}"],
            data={"parser": self.parser, "captions": self.records},
        )

    def write_files(self, folder: Path) -> None:
        """Write the records of all captions."""
        write_jsonl(folder / "graphs.jsonl", self.records)

    def save_lines(self, path: str | Path) -> None:
        """Write the records of all captions as JSONL."""
        with write_atomically(path) as draft:
            write_jsonl(draft, self.records)


def build_scene_graphs(
    captions: CaptionSet, parser: str = parsing.DEFAULT, progress: Callable[[str], None] = lambda step: None
) -> SceneGraphs:
    """Build the scene graph of every caption, by SPICE's rules on the parses of a spaCy model.

    If the captions have references, words with a common synset are merged, as in SPICE; otherwise only equal words are.
    """
    if not captions.candidates.values:
        raise InputError(f"{captions.name}: contains no captions")
    refuse_other_than_english(captions.name, "scene graphs are made", captions.candidates.values, captions.language)
    referenced = bool(captions.references.values)
    metric = Spice(synsets=referenced, parser=parser)
    progress("parsing")
    state: Shared[SpiceResources] = metric.prepare(captions)
    graphs, references = metric.graphs(captions, state)
    return SceneGraphs(captions, graphs, references if referenced else None, state.value.parser)


def _list_rows(key: str, caption: str, graph: Graph) -> list[Sequence[Value]]:
    """Return a row for each object, with its attributes and the relations of which it is the subject."""
    attributes: dict[str, list[Span]] = {}
    relations: dict[str, list[Span]] = {}
    objects: dict[str, Span] = {}
    for parts, mark in graph.statements:
        span = Span(" ".join(parts[1:] or parts) + (" ✓" if mark else ""), TONES[mark])
        if len(parts) == 1:
            objects[parts[0]] = span
        else:
            (attributes if len(parts) == 2 else relations).setdefault(parts[0], []).append(span)
    if not objects:
        return [(key, caption, "", "", "")]
    return [
        (
            "" if row else key,
            "" if row else caption,
            Phrase((span,)),
            *(_join_spans(one.get(name, ())) for one in further),
        )
        for row, (name, span) in enumerate(objects.items())
        for further in [(attributes, relations)]
    ]


def _join_spans(spans: Sequence[Span]) -> Phrase:
    return Phrase.of(*(part for number, span in enumerate(spans) for part in (", " if number else "", span)))
