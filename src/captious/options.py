"""Options as dataclasses: arguments of the Python API, which the command line flattens into its options.

A default, its bounds and its help text are written here and nowhere else. Other packages add dataclasses in the same
way; `captious.cli.params` turns any of them into options.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from captious.errors import InputError, format_suggestion

Missing = Literal["error", "skip", "zero"]
# How events of dense captions become items.
Events = Literal["video", "paragraph", "segment"]
Format = Literal[
    "json", "jsonl", "csv", "tsv", "parquet", "txt", "xlsx", "webdataset",
    "lmms-eval", "vlmevalkit", "evalscope", "trl", "verl", "lmms-lab", "aac-metrics",
]  # fmt: skip
Precision = Literal["auto", "fp32", "bf16", "fp16"]
Decoding = Literal["exact", "fast"]
Executor = Literal["serial", "processes", "ray"]
LemmaRule = Literal["singularize", "wordnet", "spacy"]
# How a gate that cannot decide is counted.
Undecided = Literal["warn", "fail"]


# The largest whole number if an option sets no limit: beyond it arrays change their type, and no run would end.
LARGEST = 2**31 - 1
# Largest number of times that a question is asked again: seeds of servers have 32 bits.
MOST_REPEATS = 2000
# Bootstrap resamples, permutations of a paired test, random seed, confidence level: defined only here.
SAMPLES, PERMUTATIONS, SEED, LEVEL = 1000, 10_000, 12345, 0.95


@dataclass(frozen=True)
class Option:
    """The command-line form and the bounds of a field. A field without an Option is available in Python only."""

    help: str
    flags: tuple[str, ...] = ()
    """Flags besides the one that the name gives, such as ``-r``."""
    aliases: tuple[str, ...] = ()
    """Flags that are accepted and that the help does not show."""
    min: int | float | None = None
    max: int | float | None = None
    metavar: str | None = None
    env: str | None = None
    """Environment variable that gives the default of the command line."""
    type: Any = None
    """The type that the command line reads, if Python accepts more."""
    panel: str | None = None
    """The panel in which the help shows it, if not that of its dataclass."""
    repeated: bool = False
    """Whether it may be given several times, with one text each; commas belong to the text."""
    rare: bool = False
    """Whether nine of ten users never need it: ``--help`` leaves it out, and ``--help-all`` shows it."""
    words: bool = False
    """Whether it takes all words up to the next flag, as a shell writes ``--captions preds/*.jsonl``."""


@dataclass(frozen=True)
class Argument(Option):
    """A positional argument of the command line."""


class Declared(NamedTuple):
    """A field of an option dataclass, or a parameter of a command."""

    kind: Any
    """The type of the field without its metadata."""
    metadata: tuple[Any, ...]

    @property
    def option(self) -> Option | None:
        """The `Option` in the metadata of the field, or None."""
        return next((part for part in self.metadata if isinstance(part, Option)), None)


@cache
def get_declarations(owner: Any) -> dict[str, Declared]:
    """Return the types and metadata of the fields of a class or the parameters of a function, by name.

    >>> get_declarations(Resampling)["seed"].kind
    <class 'int'>
    """
    return {name: _parse_declaration(hint) for name, hint in get_type_hints(owner, include_extras=True).items()}


def _parse_declaration(hint: Any) -> Declared:
    if get_origin(hint) is Annotated:
        return Declared(get_args(hint)[0], hint.__metadata__)
    shared = strip_none(hint)
    if get_origin(shared) is Annotated:  # an annotation that several commands share, where None is allowed
        return Declared(get_args(shared)[0] | None, shared.__metadata__)
    return Declared(hint, ())


class Options:
    """Base of the option dataclasses. It checks values against the bounds and choices that the fields declare."""

    title = "Options"
    """The title of the panel in which the help of a command shows these options."""

    def __post_init__(self) -> None:
        declarations = get_declarations(type(self))  # type: ignore[arg-type]
        for field in fields(self):  # type: ignore[arg-type]
            value, declaration = getattr(self, field.name), declarations[field.name]
            if declaration.option is not None and value is not None:
                check_value(field.name, value, declaration.kind, declaration.option)


def check_value(name: str, value: Any, kind: Any, option: Option) -> None:
    """Raise InputError if a value is not one of the choices, is out of bounds, or is infinite."""
    kind = strip_none(kind)
    if get_origin(kind) in (list, tuple):
        for element in value:
            check_value(name, element, get_args(kind)[0], option)
        return
    choices = get_choices(kind)
    if choices and value not in choices:
        raise InputError(f"{name}={value!r}, expected {' or '.join(choices)}{format_suggestion(str(value), choices)}")
    number = "a whole number" if kind is int else "a number"
    if option.min is not None and not value >= option.min:
        raise InputError(f"{name} {value}, expected {number} of at least {option.min}")
    if kind is float and not math.isfinite(value):
        raise InputError(f"{name} {value}, expected a finite number")
    largest = LARGEST if kind is int and option.max is None else option.max
    if largest is not None and not value <= largest:
        raise InputError(f"{name} {value}, expected {number} of at most {largest}")


def strip_none(kind: Any) -> Any:
    """Return the type ``T`` of an optional ``T | None``; other types unchanged.

    >>> strip_none(int | None), strip_none(str)
    (<class 'int'>, <class 'str'>)
    """
    kinds = [part for part in get_args(kind) if part is not NoneType]
    return kinds[0] if NoneType in get_args(kind) and len(kinds) == 1 else kind


def get_choices(kind: Any) -> tuple[str, ...]:
    """Return the values that a Literal allows; an empty tuple for another type."""
    return get_args(kind) if get_origin(kind) is Literal else ()


@dataclass(frozen=True)
class Reading(Options):
    """Which references, images and videos belong to the captions, and how the files are read."""

    title = "Reading"

    references: Annotated[
        Any,
        Option(
            "References by id; repeat it for several files.", flags=("-r",), type=str, metavar="FILE", repeated=True
        ),
    ] = None
    images: Annotated[Any, Option("Folder of the images, found by file name or id.", type=Path, metavar="FOLDER")] = (
        None
    )
    videos: Annotated[
        Any,
        Option("Folder of the videos, or a file features.npz.", type=Path, metavar="FOLDER", rare=True),
    ] = None
    frames: Annotated[
        str | None, Option("Frames of a video: uniform:10, middle:8, fps:1, key, all.", metavar="RULE", rare=True)
    ] = None
    """Default: ``uniform:10``."""
    missing: Annotated[Missing, Option("Odd ids or rows: stop, skip, or 0.")] = "error"
    events: Annotated[Events | None, Option("Items of dense captions of videos; by default video.", rare=True)] = None
    paragraph_text: Annotated[
        Literal["letters", "written"],
        Option("Tokens of paragraphs: only letters, or usual ones.", rare=True, metavar="KIND"),
    ] = "letters"
    items: Annotated[str | None, Option("Only these: a file of ids, or a known list.", metavar="LIST", rare=True)] = (
        None
    )
    several: Annotated[bool, Option("Rows with one id are candidates of one item.", rare=True)] = False
    format: Annotated[Format | None, Option("Format or harness, if it cannot be recognized.", rare=True)] = None
    id_column: Annotated[str | None, Option("Column of the ids, or several: id,style.", metavar="NAME")] = None
    references_id_column: Annotated[
        str | None, Option("Id column of the references, if it differs.", metavar="NAME", rare=True)
    ] = None
    candidate_column: Annotated[
        str | None, Option("Column of the candidates.", aliases=("--caption-column",), metavar="NAME")
    ] = None
    references_column: Annotated[str | None, Option("Column of the references.", metavar="NAME", rare=True)] = None
    language: Annotated[str | None, Option("Language of the captions, such as zh or ja.", metavar="CODE")] = None
    unpack_limit: Annotated[int, Option("Most that a file unpacks to.", min=1, metavar="MIB", rare=True)] = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.language is not None:
            from captious._core.languages import find_language

            find_language(self.language)
        if self.frames is not None:
            from captious._core.frame_rules import FrameRule

            FrameRule.parse(self.frames)


# How an interval follows from resamples: their percentiles, or Student's t with their standard deviation.
Interval = Literal["percentile", "t"]
# How the bounds of a gate follow from resamples; ``studentized`` is the default, see ``stats.noninferiority``.
Bounds = Literal["studentized", "percentile", "t"]


@dataclass(frozen=True)
class Resampling(Options):
    """How the bootstrap makes intervals."""

    title = "Intervals"

    samples: Annotated[int, Option("Bootstrap resamples; 0 for none.", min=0, max=1_000_000)] = SAMPLES
    seed: Annotated[int, Option("Random seed, kept in the result.", min=0, max=2**63 - 1)] = SEED
    level: Annotated[float, Option("Confidence level.", rare=True)] = LEVEL
    interval: Annotated[Interval, Option("t is wider, for few items.", rare=True)] = "percentile"

    def __post_init__(self) -> None:
        if self.interval not in get_args(Interval):
            raise InputError(f"interval={self.interval!r}, expected one of {', '.join(get_args(Interval))}")
        if not 0 < self.level < 1:
            raise InputError(
                f"confidence level {self.level}, expected a number between 0 and 1, such as level={Resampling.level}"
            )
        super().__post_init__()

    def signature(self, unit: str = "", bounds: Bounds | None = None) -> str:
        """Return how the intervals were computed, with the resampled unit if it is not the item.

        >>> Resampling().signature(), Resampling(200).signature("images")
        ('bootstrap(1000,seed=12345,95%)', 'bootstrap(200,images,seed=12345,95%)')
        """
        unit = f"{unit}," if unit else ""
        method = bounds or self.interval
        ends = "" if method == "percentile" else f",{method}"
        drawn = f"bootstrap({self.samples},{unit}seed={self.seed},{100 * self.level:g}%{ends})"
        return drawn if self.samples else "none"

    def sentence(self, units: str) -> str:
        """Return how the intervals were made, in words; empty without resamples.

        >>> Resampling(interval="t").sentence("images")
        "Intervals are Student's t with the spread of the bootstrap over images."
        """
        ends = {"percentile": "percentiles", "t": "Student's t with the spread"}[self.interval]
        return f"Intervals are {ends} of the bootstrap over {units}." if self.samples else ""


@dataclass(frozen=True)
class Judging(Options):
    """How chat models are called. None of this is part of a metric's name; the model and the prompt are."""

    title = "Chat models"

    endpoint: Annotated[
        str | None,
        Option("Server, such as http://127.0.0.1:8080/v1.", env="OPENAI_BASE_URL", metavar="URL"),
    ] = None
    key_file: Annotated[
        Path | None, Option("The server's key, if not in OPENAI_API_KEY.", metavar="FILE", rare=True)
    ] = None
    concurrency: Annotated[int, Option("Concurrent requests, at most.", min=1, max=1000, rare=True)] = 8
    most_tokens: Annotated[int | None, Option("Stop after this number of tokens.", min=1, max=2**53, rare=True)] = None
    prices: Annotated[tuple[float, float], Option("Prices of a million tokens in and out: 0.15,0.60.", rare=True)] = (
        0.0,
        0.0,
    )
    most_cost: Annotated[float | None, Option("Stop after spending this amount.", min=0, rare=True)] = None
    judge_frames: Annotated[int, Option("Frames of a video in one question.", min=1, max=1000, rare=True)] = 8
    """Chosen by the rule of the run: ``uniform:8`` if that is ``uniform:10``."""
    dry_run: Annotated[bool, Option("Send nothing; print calls, tokens and cost.", rare=True)] = False
    replay: Annotated[bool, Option("Use stored replies only; send nothing.", rare=True)] = False
    replies: Annotated[
        Path | None, Option("File of stored replies, if not the default.", metavar="FILE", rare=True)
    ] = None
    repeat: int = 0
    """0, 1, … to ask the same questions again: each number has its own seed and its own stored replies."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.repeat <= MOST_REPEATS:
            raise InputError(f"repeat={self.repeat}: expected a whole number from 0 to {MOST_REPEATS:,}")
        if min(self.prices) < 0:
            raise InputError(f"prices={self.prices}: expected prices of at least 0, such as 0.15,0.60")
        if self.most_cost is not None and max(self.prices) == 0:
            raise InputError("most_cost=... needs prices=..., such as 0.15,0.60 for a million tokens")


@dataclass(frozen=True)
class Engine(Options):
    """The executor: this process, processes of this machine, or a Ray cluster. It does not change the numbers."""

    title = "Shards and workers"

    engine: Annotated[Executor | None, Option("Executor; by default chosen to suit the data.", rare=True)] = None
    jobs: Annotated[int, Option("Workers; 0: one per core or GPU share.", min=0, rare=True)] = 0
    address: Annotated[str | None, Option("Ray cluster, such as ray://head:10001.", env="RAY_ADDRESS", rare=True)] = (
        None
    )
    gpus: Annotated[float, Option("GPUs of each worker; with 0.25 four share one.", min=0, rare=True)] = 0.0
    store_features: Annotated[bool, Option("Keep the features of shards in the cache.", rare=True)] = False


def _ignore(*arguments: Any) -> None:
    """Ignore the progress report."""


@dataclass(frozen=True)
class Runtime(Options):
    """Where and how models run. It is not part of a metric's name, so it is set around a run with `using`."""

    title = "Models"

    device: Annotated[
        str, Option("Where models run: auto, cpu, cuda or cuda:1.", env="CAPTIOUS_DEVICE", metavar="DEVICE")
    ] = "auto"
    batch: Annotated[int, Option("Images or texts encoded at a time.", min=1, env="CAPTIOUS_BATCH", rare=True)] = 256
    precision: Annotated[Precision, Option("auto: fp32 on a CPU, half precision on a GPU.", rare=True)] = "auto"
    cache: Annotated[bool, Option("Compute everything again and store nothing.", rare=True)] = True
    """Whether features are looked up and stored in the cache."""
    workers: Annotated[int, Option("Image threads, parser processes; 0: all cores.", min=0, rare=True)] = 0
    upright: Annotated[bool, Option("Rotate images as their EXIF tag says.", rare=True)] = False
    """The reference implementations do not turn images."""
    clip_seconds: Annotated[float, Option("Most seconds to decode one video.", min=0.1, rare=True)] = 60.0
    most_frames: Annotated[int, Option("Most frames to take of one video.", min=1, rare=True)] = 3000
    decode: Annotated[Decoding, Option("fast: on the GPU; scores change.", rare=True)] = "exact"
    """``exact`` gives the pixels of the reference implementations."""
    judging: Judging = Judging()
    progress: Callable[[str, int, int], None] = _ignore
    """A function that is called with what is encoded, how many are done, and how many there are."""
    log: Callable[[str], None] = _ignore
    """A function that is called with each message for the user."""

    @property
    def image_options(self) -> tuple[str, ...]:
        """The options that change an image's features, as signatures and the cache name them.

        >>> Runtime(upright=True, decode="fast").image_options
        ('upright', 'fast')
        """
        return ("upright",) * self.upright + ("fast",) * (self.decode == "fast")


_CURRENT: ContextVar[Runtime] = ContextVar("captious_runtime", default=Runtime())


def get_runtime() -> Runtime:
    """Return the current runtime.

    >>> get_runtime().batch
    256
    >>> with using(Runtime(batch=8)):
    ...     get_runtime().batch
    8
    """
    return _CURRENT.get()


@contextmanager
def using(runtime: Runtime) -> Iterator[None]:
    """Use this runtime for models inside the block."""
    token = _CURRENT.set(runtime)
    try:
        yield
    finally:
        _CURRENT.reset(token)


# How a program words arguments in warnings; the command line replaces them with its flags.
WORDING: ContextVar[Callable[[str], str]] = ContextVar("captious_wording", default=str)


@dataclass(frozen=True)
class Output(Options):
    """Where a result goes, and in which form it is printed."""

    title = "Output"

    out: Annotated[str | Path | None, Option("Folder or file to write.", flags=("-o",), type=Path, metavar="PATH")] = (
        None
    )
    overwrite: Annotated[bool, Option("Replace existing output.")] = False
    json: Annotated[bool, Option("Print JSON instead of tables.")] = False
    latex: Annotated[bool, Option("Print a LaTeX table instead.")] = False
    csv: Annotated[bool, Option("Print the first table as CSV instead.")] = False
    percent: Annotated[bool, Option("Print scores × 100; not in JSON and CSV.")] = False
    signatures: Annotated[bool, Option("Print every signature in full.", rare=True)] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        forms = [name for name in ("json", "latex", "csv") if getattr(self, name)]
        if len(forms) > 1:
            raise InputError(f"{forms[0]}=True as well as {forms[1]}=True, expected one form to print")


def check_settings(resampling: Any, runtime: Any, progress: Any = None) -> tuple[Resampling, Runtime]:
    """Check the types of the settings of a run; return them with the runtime filled in."""
    if not isinstance(resampling, Resampling):
        raise InputError(f"resampling: {type(resampling).__name__}, expected one such as Resampling(samples=1000)")
    if not isinstance(runtime, (Runtime, NoneType)):
        raise InputError(f"runtime: {type(runtime).__name__}, expected one such as Runtime(device='cpu')")
    if progress is not None and not callable(progress):
        raise InputError(f"progress: {type(progress).__name__}, expected a function that takes the name of a step")
    return resampling, runtime or get_runtime()
