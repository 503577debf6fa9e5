"""Options that several commands share, so that they mean the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from captious.captions import CaptionSet


class Precisions(str, Enum):
    """Of an encoder's arithmetic."""

    auto = "auto"
    fp32 = "fp32"
    bf16 = "bf16"
    fp16 = "fp16"


class Grammars(str, Enum):
    """Which printing of the grammar cuts captions into detail units."""

    code = "code"
    paper = "paper"


class Missing(str, Enum):
    """What to do with ids that one side lacks."""

    error = "error"
    skip = "skip"


References = Annotated[
    str | None,
    typer.Option("--references", "-r", help="References by id: COCO annotations, JSON, JSONL, CSV, Parquet."),
]
Metrics = Annotated[str, typer.Option("--metrics", "-m", help='Such as "bleu(n=4),cider(idf=refs)".')]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write the whole run into.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a run that is there already.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
AsLatex = Annotated[bool, typer.Option("--latex", help="Print a LaTeX table instead.")]
OnMissing = Annotated[Missing, typer.Option("--missing", help="Ids that one side lacks: stop, or leave them out.")]
Several = Annotated[bool, typer.Option("--several", help="Rows with one id are several candidates of one item.")]
Images = Annotated[Path | None, typer.Option("--images", help="Folder of the images, found by file name or id.")]
Samples = Annotated[int, typer.Option("--samples", min=0, help="Bootstrap resamples; 0 for no intervals.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of all resampling; it stands in the signature.")]
Level = Annotated[float, typer.Option("--level", help="Confidence level of the intervals.")]
IdColumn = Annotated[str | None, typer.Option("--id-column", help="Column of the ids, if not id or image_id.")]
CandidateColumn = Annotated[str | None, typer.Option("--candidate-column", help="Column of the candidates.")]
ReferencesColumn = Annotated[str | None, typer.Option("--references-column", help="Column of the references.")]
Format = Annotated[
    str | None, typer.Option("--format", help="json, jsonl, csv, tsv or parquet, where the name does not say it.")
]

Grammar = Annotated[Grammars, typer.Option("--grammar", help="Of detail units: SPECS's code, or its paper's appendix.")]
Device = Annotated[str, typer.Option("--device", help="Where encoders run: auto, cpu, cuda, cuda:1.")]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Images or texts encoded at a time.")]
Precision = Annotated[Precisions, typer.Option("--precision", help="auto: fp32 on a CPU, fp16 on a GPU.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Encode anew, and keep nothing.")]
Upright = Annotated[bool, typer.Option("--upright", help="Turn images as their EXIF tag says.")]
BATCH, AUTO = 256, Precisions.auto


@contextmanager
def encoding(
    device: str, batch: int, precision: Precisions, no_cache: bool, upright: bool
) -> Iterator[Callable[[str], None]]:
    """Encode the way the options say, with progress on standard error; gives what to call with each step."""
    from captious.options import Runtime, using
    from captious.render.progress import display

    with display() as shown:
        runtime = Runtime(
            device, batch, precision.value, not no_cache, upright=upright, progress=shown.advance, log=shown.log
        )
        with using(runtime):
            yield shown.step


def load(
    source: str,
    references: str | None,
    missing: Missing,
    several: bool,
    images: Path | None,
    columns: tuple[str | None, str | None, str | None] = (None, None, None),
    format: str | None = None,
) -> CaptionSet:
    """Read captions the way the options say."""
    from captious.io.read import read
    from captious.options import Reading

    reading = Reading(
        references,
        images,
        missing.value,
        several,
        format,  # type: ignore[arg-type]
        id_column=columns[0],
        candidate_column=columns[1],
        references_column=columns[2],
    )
    return read(source, reading=reading)
