"""The plan of a study: what raters are asked, how often, and who they are; the contents of ``study.toml``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

KindName = Literal["ratings", "ranking", "pairs", "yesno", "labels"]
SourceName = Literal["links", "open", "prolific", "mturk"]
Merge = Literal["majority", "unanimous", "relic"]


@dataclass(frozen=True)
class Aspect:
    """One scale on which every caption of a page is rated."""

    name: str
    question: str
    scale: tuple[int, int] = (1, 5)
    ends: tuple[str, ...] = ()
    """Words for the lowest and the highest point."""
    faults: tuple[str, ...] = ()
    """Typical faults, shown to the rater in a foldable list."""


@dataclass(frozen=True)
class LabelOption:
    """One of the labels of a labels study, and the key that chooses it."""

    name: str
    key: str
    text: str = ""
    """What the rater reads; the name where it is empty."""


@dataclass(frozen=True)
class Checks:
    """Tasks whose answer is known, tasks shown twice, and what is flagged. Nothing is ever rejected by itself."""

    gold: str | None = None
    """File of task ids with the expected answer or range."""
    every: int = 12
    """One gold task after so many others."""
    repeat: int = 0
    """Tasks of a rater that are shown to the same rater again."""
    flag_failed: int = 2
    """Gold tasks failed, from which on a rater is flagged."""
    flag_seconds: float = 3.0
    """A median time a task below it is flagged."""


@dataclass(frozen=True)
class Source:
    """Where raters come from, and the codes that end their visit."""

    name: SourceName = "links"
    done: str | None = None
    """Completion code."""
    full: str | None = None
    """Code for those who come when nothing is left to do."""


@dataclass(frozen=True)
class Plan:
    """A study as its TOML file says it. File names are relative to the folder of the file."""

    path: Path
    title: str
    kind: KindName
    captions: tuple[str, ...] = ()
    """Files of captions; a file is a system unless its rows have a column ``system``. ``NAME=FILE`` names it."""
    references: str | None = None
    images: str | None = None
    """Folder of the images."""
    tasks: str | None = None
    """File of ready tasks instead of captions: those of ``captious probe entities``, sets to rank, images to label."""
    show_references: bool = False
    together: int = 1
    """Captions of one image on one page."""
    overlap: int = 3
    """Answers per task, of as many raters."""
    per_rater: int = 40
    """Tasks of one rater, gold and repeated ones not counted."""
    lease: float = 1200.0
    """Seconds that a task is kept for a rater who opened it."""
    instructions: str = ""
    """Plain text: paragraphs, and lines that start with a hyphen."""
    consent: str = ""
    """Plain text of the page before the first task; no page where it is empty."""
    question: str = ""
    """What is asked of a ranking, a pair, a list or a label; an aspect has its own question."""
    aspects: tuple[Aspect, ...] = ()
    overall: str | None = None
    """``mean``, or a formula of aspects such as ``(P + R) / 2 + fluency``; no overall rating where it is None."""
    ties: bool = False
    """Whether a ranking may have ties, or a pair may be called equal."""
    both_bad: bool = False
    """Whether a pair has a separate box for "both are bad"."""
    cannot_judge: bool = False
    """Whether a scale, a thing of a list or a label may be left with "cannot judge"."""
    best: Literal["first", "last"] = "first"
    """Which end of a ranking is the best; exports always give the best the highest rank."""
    options: tuple[LabelOption, ...] = ()
    merge: Merge = "majority"
    votes: int = 1
    """Least number of votes for a merged label."""
    seconds: float = 20.0
    """Expected time a task, for the estimate of minutes and cost."""
    pay: float | None = None
    """Pay an hour, for the estimate of cost."""
    seed: int = 12345
    checks: Checks = field(default_factory=Checks)
    source: Source = field(default_factory=Source)
    text: str = ""
    """The TOML itself; the study keeps a frozen copy."""
    digest: str = ""
    """Of the text; recorded with every event, so that an edited file cannot pass for the one that was shown."""
