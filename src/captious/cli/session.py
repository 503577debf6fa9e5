"""Shared options of commands, and the session: it reads captions, shows progress and delivers results.

A command takes the whole session, or the fields that it uses, so that it shows no option which it ignores::

    @command(app)
    def hubness(captions: ..., session: Annotated[Session, Only("images", "out", "overwrite", "json")]) -> None:
        with session.working() as step:
            result = probes.hubness(session.read(captions), session.resampling, progress=step)
        session.deliver(result)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from captious._core.files import FULL
from captious.errors import InputError
from captious.options import (
    Argument,
    Judging,
    Option,
    Options,
    Output,
    Reading,
    Resampling,
    Runtime,
    get_declarations,
    using,
)

if TYPE_CHECKING:
    from captious.captions import CaptionSet
    from captious.render import Document, Result

# Panels of `captious --help`.
EVERYDAY, JUDGE, AUDIT, MODELS = "Everyday", "Judge metrics", "Audit", "Models and data"

# Metrics of commands that are not told any.
USUAL = ("bleu", "rouge", "cider")
Metrics = Annotated[
    tuple[str, ...], Option('Metrics, such as "bleu(n=4),cider(idf=refs)", or all.', flags=("-m",), metavar="METRICS")
]
# Options of chat models, by name; a field without an option is for Python.
JUDGES = tuple(name for name, declared in get_declarations(Judging).items() if declared.option)
Encoder = Annotated[str, Option("Hub id, folder, checkpoint file or captious-mini.", metavar="MODEL")]
Encoders = Annotated[tuple[str, ...], Option("Hub ids, folders, checkpoint files or captious-mini.", metavar="MODELS")]
Prefix = Annotated[str, Option("Text before every caption, such as 'A photo depicts '.", metavar="WORDS")]
Tagger = Annotated[Literal["captious", "spacy", "nltk"], Option("Part-of-speech tagger: ours, spaCy's or NLTK's.")]
Grammar = Annotated[Literal["code", "paper"], Option("Grammar of detail units: that of SPECS's code, or of its paper.")]
Legacy = Annotated[bool, Option("Like the original code, including its quirks.")]
EloPoints = Annotated[
    Literal["bradley-terry", "online"], Option("Elo points: from all comparisons at once, or updated one by one.")
]
Permutations = Annotated[int, Option("Permutations of a paired test.", min=1, max=10_000_000, rare=True)]
Imagination = Annotated[str, Option('ImaginE with its painter, such as "imagine(seeds=2,steps=20)".', metavar="METRIC")]
# --out of a command that must write a file; it takes the place of the session's.
Out = Annotated[Path, get_declarations(Output)["out"].option]
EditNames = Annotated[
    tuple[str, ...], Option("Edits, groups of edits, your own TOML files, or all.", flags=("-e",), metavar="EDITS")
]
ObjectVocabulary = Annotated[str, Option("coco, coco-repaired or a file of objects and synonyms.", metavar="NAME")]
Look = Annotated[int, Option("Print this number of each kind, with changes marked.", min=0)]
Seeds = Annotated[int, Option("Number of random seeds.", min=1)]
Folds = Annotated[int, Option("Folds of the cross-validation; 0 for none.", min=0)]
Items = Annotated[int, Option("Number of items.", min=1)]
Classifiers = Annotated[
    tuple[str, ...],
    Option('linear, lstm, bert-ft, bert-pre, or for example "bert-ft(model=FOLDER)".', flags=("-c",), metavar="NAMES"),
]
Tokenizer = Annotated[str, Option("Tokenizer, such as ptb, 13a, plain or zh-jieba.", metavar="NAME")]
Label = Annotated[str, Option("Column of the label.", flags=("-l",), metavar="NAME")]
Host = Annotated[str, Option("Address to listen on; 0.0.0.0 for all.", metavar="ADDRESS")]
Port = Annotated[int, Option("Port to listen on; 0 for a free one.", min=0, max=65_535)]
Browser = Annotated[bool, Option("Print the link, but do not open a browser.")]
All = Annotated[bool, Option("Print everything.")]
Word = Annotated[str | None, Argument("Only what has this name or contains this word.", metavar="WORD")]
ImageFeatures = Annotated[Path | None, Option("File of image features, instead of the images.", metavar="FILE")]


@dataclass(frozen=True)
class Runs(Options):
    """Runs to look at, and human ratings of their captions."""

    title = "Runs"

    runs: Annotated[
        tuple[str, ...],
        Argument("Folders that captious score or compare wrote; NAME=FOLDER names one.", metavar="RUNS"),
    ]
    ratings: Annotated[
        Path | None, Option("Ratings of these captions, as captious studio export writes them.", metavar="FILE")
    ] = None

    def folders(self) -> dict[str, str] | list[str]:
        """Return the folders by name; a plain list if none is named."""
        from captious.io.formats import name_files

        unnamed = all("=" not in run or Path(run).exists() for run in self.runs)
        return list(self.runs) if unnamed else name_files(self.runs)


def name_files(systems: Sequence[str]) -> dict[str, str]:
    """Return the file of each system by its name; warn if one file is given twice."""
    from captious.io import formats
    from captious.render.terminal import warn

    warn(formats.describe_repeated_files(systems))
    return formats.name_files(systems)


@dataclass(frozen=True)
class SystemFiles(Options):
    """Systems that captioned the same items."""

    title = "Systems"

    systems: Annotated[
        tuple[str, ...],
        Argument("Files of captions, the baseline first; NAME=FILE names a system.", metavar="SYSTEMS"),
    ]

    def files(self) -> dict[str, str]:
        """Return the file of each system by its name."""
        return name_files(self.systems)


@dataclass(frozen=True)
class Listening(Options):
    """Address of a server."""

    title = "Server"

    host: Host = "127.0.0.1"
    port: Port = 0


@dataclass(frozen=True)
class Session(Options):
    """The four groups of options that commands share."""

    reading: Reading = Reading()
    resampling: Resampling = Resampling()
    runtime: Runtime = Runtime()
    output: Output = Output()

    def read(self, source: Any) -> CaptionSet:
        """Read captions with the reading options."""
        from captious.io.read import read

        return read(source, reading=self.reading)

    def read_and_warn(self, source: Any) -> CaptionSet:
        """Read captions, and warn about what reading changed and what misleads.

        For commands whose result has no such warnings; those of `captious.evaluate` are in its report.
        """
        from captious.io.check import find_misleading
        from captious.render.terminal import warn

        captions = self.read(source)
        warn([finding.message for finding in find_misleading(captions)])
        return captions

    @contextmanager
    def working(self) -> Iterator[Callable[[str], None]]:
        """Show progress on standard error and use the session's runtime inside the block.

        Yields a function that shows the name of the current step. Raises InputError, before any work, if the output
        exists and must not be overwritten, or if its address or file type is not supported.
        """
        from captious.io.storage import is_remote
        from captious.render.document import refuse_output
        from captious.render.progress import display

        if self.output.out is not None:
            if is_remote(str(self.output.out)):
                raise InputError(f"{self.output.out}: only scores of shards are written to an address, expected a path")
            refuse_output(self.output.out, self.output.overwrite)
        with (
            display() as shown,
            using(replace(self.runtime, progress=shown.advance, log=shown.log)),
        ):
            yield shown.step

    def deliver_plan(self, captions: Mapping[str, CaptionSet], metrics: Sequence[str]) -> None:
        """Print the requests that chat models would get, instead of a result."""
        from captious.metrics.judges.dry_run import dry_run

        with self.working():
            plan = dry_run(captions, metrics)
        self.deliver(plan)

    def deliver(self, result: Result, sections: int | None = None) -> None:
        """Print the result, or its first sections, and save it if --out is given.

        Its images are read with the session's runtime.
        """
        with using(self.runtime):
            deliver(result, self.output, sections)

    def deliver_runs(self, result: Result) -> None:
        """Print and save a result whose output folder contains runs; `captious view` then finds their images."""
        self.deliver(result)
        if self.output.out is not None and self.reading.images is not None:
            from captious.runs.image_folders import remember_images

            remember_images(self.output.out, self.reading.images)

    def deliver_short(self, document: Document, shown: int, hint: str) -> None:
        """Print the first sections of a document and a hint how to see the others; JSON and files have all of them."""
        from captious.render.terminal import make_stdout_console

        self.deliver(document.cut_after(shown))
        if not (self.output.json or self.output.latex or self.output.csv):
            with ignore_closed_pipes():
                make_stdout_console().print(hint, highlight=False, markup=False)


def open_browser(address: str) -> None:
    """Open an address in the user's browser; without a screen do nothing, so that no text browser starts."""
    import webbrowser

    has_screen = sys.platform in ("win32", "darwin") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if has_screen:
        webbrowser.open(address)


def deliver(result: Result, output: Output, sections: int | None = None) -> None:
    """Save the result if --out is given; print warnings on standard error and the result on standard output.

    With ``sections``, only the first ones of its document are printed; files have all.
    """
    from captious.render.document import is_file
    from captious.render.terminal import warn

    with ignore_closed_pipes():
        try:
            if output.out is not None:
                result.save(output.out, output.overwrite, percent=output.percent)
        finally:  # numbers are printed even if the disk is full, and saved even if the pipe is closed
            shown = result.in_percent() if output.percent else result
            if output.json or output.latex or output.csv:
                warn(result.document().warnings)
                click.echo(_format_result(shown if output.latex else result, output), nl=False)
            else:
                if sections is not None:
                    shown = shown.document().cut_after(sections)
                shown.print(signatures=output.signatures)
        if output.out is not None:
            target = output.out if is_file(output.out) else Path(output.out) / f"{result.document().name}.html"
            click.echo(f"written: {target}", err=True)


@contextmanager
def ignore_closed_pipes() -> Iterator[None]:
    """Ignore a reader that closes the pipe, such as ``head``: the exit code stays that of the command.

    Otherwise click would exit with 1, which means *worse* for `captious gate`, or Python with 120 when it flushes at
    exit. If the disk of a redirected standard output is full, the raised error names standard output.
    """
    try:
        yield
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BrokenPipeError:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BrokenPipeError:
                # Discard the rest of the buffer, now and when the interpreter exits.
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError as error:
        if error.filename is None and error.errno in FULL:  # errors of saved files have a file name
            error.filename = "standard output"
        raise


def _format_result(result: Result, output: Output) -> str:
    """Format the result for another program: JSON, LaTeX or CSV."""
    from captious.render.exports import format_csv

    if output.json:
        return result.to_json()
    return result.to_latex() if output.latex else format_csv(result.document().table())
