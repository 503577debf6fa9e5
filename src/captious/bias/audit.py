"""The audit: LIC of every captioner under every classifier, over seeds, as a document."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import numpy as np

from captious._core.files import digest, write_atomically
from captious._core.types import Floats
from captious._version import __version__
from captious.bias._leaks import LEAST, SHARE, Leak, Prediction, find_leaking_words, find_salient_ngrams, select_surest
from captious.bias.corpus import AuditedCaptioner, Classifier, ClassifierTask, MaskedCorpus, read_subjects
from captious.bias.differences import compare_lics
from captious.bias.lic import POINTS, Lic, chance, score_items
from captious.bias.masks import Tokens, as_text
from captious.bias.protocol import Protocol, protocol_for
from captious.engines.tasks import run_tasks
from captious.errors import InputError
from captious.options import Engine, Reading, Runtime, get_runtime, using
from captious.render import (
    Answer,
    Cell,
    Chart,
    Column,
    Document,
    Entry,
    Evidence,
    Figure,
    Group,
    Line,
    Phrase,
    Result,
    Series,
    Span,
    Table,
    Text,
    link,
    open_evidence,
)
from captious.render.answers import NAMES
from captious.render.document import Value
from captious.render.exports import get_records, write_jsonl
from captious.stats import spearman

# Leaking words that the terminal names of a captioner; half as many where there are several.
SHOWN_LEAKS = 8
# Captions of each source that a click on a leaking word shows.
SHOWN_CAPTIONS = 20
# Differences of LIC that the terminal shows; of more it names the significant ones, at most as many.
SHOWN_DIFFERENCES = 10
SIGNIFICANT = 0.05
# A vocabulary that hides a larger share of the human words comes with a warning.
MOSTLY_HIDDEN = 0.5


@dataclass(frozen=True)
class RunStore:
    """Finished runs on disk, so that a stopped audit is resumed and a longer one reuses finished runs.

    Test probabilities are stored by task, in a folder named after the classifier's settings; with None nothing is
    stored.
    """

    folder: Path | None

    def of(self, settings: Mapping[str, Any]) -> RunStore:
        """Return the part for one classifier with these settings."""
        if self.folder is None:
            return self
        key = digest(json.dumps({**settings, "captious": __version__}, sort_keys=True).encode())
        return RunStore(self.folder / f"{str(settings['classifier']).split('(')[0]}-{key}")

    def get(self, task: ClassifierTask) -> Floats | None:
        """Return the stored probabilities of a task; None if there are none or the file is damaged."""
        if self.folder is None:
            return None
        try:
            stored: Floats = np.load(self.folder / f"{task.digest}.npy", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        return stored if stored.shape == (len(task.split.test), task.classes) else None

    def put(self, task: ClassifierTask, probabilities: Floats) -> None:
        """Store a finished task, atomically."""
        if self.folder is None:
            return
        with write_atomically(self.folder / f"{task.digest}.npy") as draft, draft.open("wb") as file:
            np.save(file, probabilities, allow_pickle=False)


@dataclass(frozen=True, eq=False)
class ClassifierRun:
    """A trained classifier's probabilities for its test captions."""

    task: ClassifierTask
    probabilities: Floats

    @property
    def items(self) -> Floats:
        """Score of each test caption."""
        return score_items(self.probabilities, self.task.test_labels)

    @property
    def score(self) -> float:
        """The leakage score in points."""
        return POINTS * float(self.items.mean())

    @property
    def accuracy(self) -> float:
        """Share of the test captions whose class is predicted."""
        return float((self.probabilities.argmax(axis=1) == self.task.test_labels).mean())

    @property
    def by_class(self) -> list[float]:
        """Score in points over the test captions of each class."""
        truth, items = self.task.test_labels, self.items
        return [POINTS * float(items[truth == label].mean()) for label in range(self.task.classes)]


@dataclass(frozen=True, eq=False)
class AuditRow:
    """One captioner under one classifier; runs are seeds × (model, human-0, …)."""

    corpus: MaskedCorpus
    classifier: str
    runs: list[list[ClassifierRun]]

    @property
    def model(self) -> str:
        """The captioner's name."""
        return self.corpus.subject.name

    @cached_property
    def lic(self) -> Lic:
        """The score of the row."""
        protocol, first = self.corpus.protocol, self.runs[0]
        scores = np.array([[run.score for run in seed] for seed in self.runs])
        split = first[0].task.split
        people = np.mean([run.items for run in first[1:]], axis=0)
        # Over images: model and people are tested on the same ones if paired, otherwise on two independent draws.
        if protocol.paired:
            error = (first[0].items - people).std() / math.sqrt(len(people))
        else:
            error = math.hypot(first[0].items.std(), people.std()) / math.sqrt(len(people))
        ratio = len(split.test) / len(split.train)
        return Lic(scores[:, 0], scores[:, 1:], ratio, protocol.ddof, protocol.level, POINTS * float(error))

    def accuracy(self) -> tuple[float, float]:
        """Return the mean accuracy on model and on human captions."""
        shares = np.array([[run.accuracy for run in seed] for seed in self.runs])
        return float(shares[:, 0].mean()), float(shares[:, 1:].mean())

    def predictions(self, human: bool = False) -> list[Prediction]:
        """Collect the predictions for the model's tested captions, or for the human ones."""
        shares: dict[tuple[str, int], list[Floats]] = {}
        captions = {}
        for seed in self.runs:
            for run in seed[1:] if human else seed[:1]:
                for index, probabilities in zip(run.task.split.test.tolist(), run.probabilities, strict=True):
                    key = (run.task.role, index)
                    shares.setdefault(key, []).append(probabilities)
                    captions[key] = run.task.captions[index]
        ids, labels = self.corpus.subject.ids, self.corpus.labels.tolist()
        return [
            Prediction(ids[key[1]], captions[key], labels[key[1]], np.mean(several, axis=0))
            for key, several in sorted(shares.items())
        ]


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Result):
    """LIC of every captioner under every classifier, with the evidence of leakage."""

    protocol: Protocol
    classifiers: Mapping[str, Mapping[str, Any]]
    """Settings by name."""
    corpora: list[MaskedCorpus]
    rows: list[AuditRow]
    stored: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The number of training runs of each classifier that came from the store, and the number of all."""

    def __repr__(self) -> str:
        scores = ", ".join(f"{row.model} {row.classifier} {row.lic.lic:+.1f}" for row in self.rows)
        return f"<Audit LIC {', '.join(self.classes)}: {scores}>"

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the label's classes."""
        return self.corpora[0].classes

    @property
    def chance(self) -> float:
        """Score of a classifier that has learned nothing, in points."""
        return chance(len(self.classes))

    @cached_property
    def leaks(self) -> dict[tuple[str, str], list[Leak]]:
        """Words that still predict a label almost by themselves, by captioner and by source: model or human."""
        leaks = {}
        for corpus in self.corpora:
            name, labels = corpus.subject.name, corpus.labels
            leaks[name, "model"] = find_leaking_words(corpus.model, labels, self.classes)
            leaks[name, "human"] = find_leaking_words(corpus.people, np.tile(labels, len(corpus.humans)), self.classes)
        return leaks

    @property
    def warnings(self) -> list[str]:
        """Notes for the reader of the numbers; a note about several captioners is given once."""
        names: dict[str, list[str]] = {}
        for corpus in self.corpora:
            for note in corpus.subject.notes:
                names.setdefault(note, []).append(corpus.subject.name)
        warnings = [*self.protocol.warnings, *(f"{', '.join(several)}: {note}" for note, several in names.items())]
        masked = ["the mask"] if self.protocol.mask.words else []
        aligned = [] if self.protocol.vocabulary == "none" else [f"the vocabulary ({self.protocol.vocabulary})"]
        for index, (who, causes) in enumerate((("model", masked), ("human", masked + aligned))):
            counts = [f"{corpus.subject.name} {corpus.empty[index]}" for corpus in self.corpora if corpus.empty[index]]
            if counts:
                cause = f" once {' and '.join(causes)} hid their words" if causes else ""
                warnings.append(f"{who} captions that say nothing{cause}, kept as they are: {', '.join(counts)}")
        for corpus in self.corpora:
            if corpus.unknown > MOSTLY_HIDDEN:
                warnings.append(
                    f"{corpus.subject.name}: the vocabulary ({self.protocol.vocabulary}) hides {corpus.unknown:.0%} of "
                    "the human words, which lowers LIC_D: is it the captioner's?"
                )
        return warnings

    @property
    def notes(self) -> list[str]:
        """The number of runs that came from the store."""
        return [
            f"{name}: {stored} of {total} training runs were finished before and come from the store"
            for name, (stored, total) in self.stored.items()
            if stored
        ]

    def signature(self) -> str:
        """Return everything that can change the numbers, in one line."""
        settings, names = self.protocol.settings(), ", ".join(map(str, self.protocol.seeds))
        over = "seeds" if len(self.protocol.seeds) > 1 else "tested images"
        return (
            f"preset:{settings['preset']}|mask:{settings['mask']}({len(settings['masked_words'])} words)|"
            f"vocabulary:{settings['vocabulary']}|tok:{settings['tokenizer']}|splits:{settings['splits']}|"
            f"seeds:{names}|interval over {over}|sd ddof {settings['sd_ddof']}|captious:{__version__}"
        )

    def document(self) -> Document:
        """Build the tables of scores and leaking words; on the page also charts, seeds, salient n-grams and surest
        captions.
        """
        return self._document

    @cached_property
    def _document(self) -> Document:
        words = len(self.protocol.mask.words)
        tables = [self._build_results(), *self._build_evidence(), self._build_leaks(), self._build_seeds()]
        results, ngrams, captions, leaks, seeds = tables
        differences = list(self._build_differences())
        return Document(
            results.title,
            "LIC is how much more a classifier learns about the label from the model's captions (LIC_M) than from "
            "people's (LIC_D), in points: the mean probability of the true class if it is the one predicted, otherwise "
            f"0. {f'The {words} words that name the label were masked.' if words else 'No words were masked.'}",
            [
                results,
                *differences,
                *self._list_differences(differences),
                *self._list_leaking_words(),
                *self._charts(),
                Group("What revealed the label", [ngrams, captions]),
                Group("All leaking words", [leaks]),
                Group("Seeds", [seeds]),
                self._facts(),
                *self._build_leak_panels(),
            ],
            warnings=self.warnings,
            notes=self.notes,
            signatures=[self.signature()],
            answer=self._answer(),
            data={
                "kind": "bias audit",
                "classes": self.classes,
                "chance": round(self.chance, 6),
                "protocol": self.protocol.settings(),
                "classifiers": self.classifiers,
                "captioners": {
                    corpus.subject.name: {
                        "images": len(corpus.subject.ids),
                        "labels": Counter(corpus.subject.labels),
                        "human_words_hidden": round(corpus.unknown, 6),
                    }
                    for corpus in self.corpora
                },
                **{table.key: get_records(table) for table in (*tables, *differences)},
            },
            page=f"Bias audit of {', '.join(corpus.subject.name for corpus in self.corpora)}: LIC for "
            f"{', '.join(self.classes)}",
        )

    def _answer(self) -> Answer:
        """Return the plain answer: whether each captioner reveals the label more than people do."""
        parts: list[str | Figure] = []
        column = self._make_lic_column()
        for row in self.rows[:NAMES]:
            if not row.lic.differs:
                verdict = "is not shown to reveal the label more or less than people do"
            else:
                verdict = f"reveals the label {'more' if row.lic.lic > 0 else 'less'} than people do"
            cell = Cell(row.lic.lic, *row.lic.interval)
            parts += [f"{row.model} {verdict} ({row.classifier}): LIC is ", Figure(cell, column), " points"]
            parts.append("; one seed only. " if len(self.protocol.seeds) == 1 else ". ")
        return [*parts, f"{len(self.rows) - NAMES} more are below."] if len(self.rows) > NAMES else parts

    def _make_lic_column(self) -> Column:
        return Column("LIC", decimals=1, signed=True, level=self.protocol.level, bold=True)

    def write_files(self, folder: Path) -> None:
        """Write the leaking words."""
        write_jsonl(folder / "leaks.jsonl", get_records(self._build_leaks()))

    def _build_results(self) -> Table:
        columns: list[Column | str] = [
            "model",
            "classifier",
            Column("LIC_M ± sd", decimals=1, key="lic_m", latex=r"$\mathrm{LIC}_M$"),
            Column("LIC_D ± sd", decimals=1, key="lic_d", latex=r"$\mathrm{LIC}_D$"),
            self._make_lic_column(),
            Column("p", "p", latex=None),
            _make_percent_column("accuracy, model", 1),
            _make_percent_column("accuracy, people", 1),
        ]
        rows: list[Sequence[Value]] = [
            [
                row.model,
                row.classifier,
                Cell(row.lic.lic_m, sd=row.lic.sd_m),
                Cell(row.lic.lic_d, sd=row.lic.sd_d),
                Cell(row.lic.lic, *row.lic.interval, mark="*" if row.lic.differs else ""),
                row.lic.p_value,
                *row.accuracy(),
            ]
            for row in self.rows
        ]
        title = f"Bias amplification, LIC in points: {', '.join(self.classes)}; chance level {self.chance:.1f}"
        classes = len(self.classes)
        note = (
            "LIC_M: how much a classifier learns about the label from the model's captions; LIC_D: from people's; "
            f"LIC = LIC_M − LIC_D. The chance level, 100/{classes}², is the LIC_M or LIC_D of a classifier that has "
            f"learned nothing: it is right once in {classes}, with probability 1/{classes}. "
            "* marks an interval without 0."
        )
        return Table("results", title, columns, rows, note)

    def _build_differences(self) -> Iterator[Table]:
        """Yield the table of differences between captioners and between classifiers, if there are several and seeds."""
        if len(self.protocol.seeds) < 2:
            return
        by_classifier: dict[str, dict[str, Lic]] = {}
        by_model: dict[str, dict[str, Lic]] = {}
        for row in self.rows:
            by_classifier.setdefault(row.classifier, {})[row.model] = row.lic
            by_model.setdefault(row.model, {})[row.classifier] = row.lic
        rows: list[Sequence[Value]] = [
            [name, one.first, one.second, Cell(one.lic.lic, *one.lic.interval), one.lic.p_value, one.p_holm]
            for name, lics in (*by_classifier.items(), *by_model.items())
            for one in compare_lics(lics)
        ]
        if not rows:
            return
        columns: list[Column | str] = [
            "in common",
            "first",
            "second",
            Column("difference", decimals=1, signed=True, level=self.protocol.level),
            Column("p", "p"),
            Column("p (Holm)", "p", key="p_holm"),
        ]
        note = (
            "LIC of the first less that of the second, paired by seed: two captioners under a classifier, or two "
            "classifiers on a captioner. Holm's correction covers those with the same in common."
            f"{self._format_orders(by_classifier)}"
        )
        yield Table("differences", "Differences of LIC", columns, rows, note, detail=len(rows) > SHOWN_DIFFERENCES)

    def _list_differences(self, tables: Sequence[Table]) -> Iterator[Text]:
        """Yield the significant differences, the largest first, if the table is too long for a terminal."""
        for table in tables:
            if not table.detail:
                continue
            significant = sorted(
                (row for row in table.rows if cast(float, row[-1]) < SIGNIFICANT),
                key=lambda row: -abs(cast(Cell, row[3]).value),
            )
            lines = [
                f"{len(significant):,} of {len(table.rows):,} are significant (Holm-adjusted p < {SIGNIFICANT}); "
                "all are on the page and in the files"
            ]
            for common, first, second, cell, *_ in significant[:SHOWN_DIFFERENCES]:
                difference = cast(Cell, cell)
                interval = f"{difference.low:+.1f} to {difference.high:+.1f}"
                lines.append(f"{common}: {first} less {second} {difference.value:+.1f} ({interval})")
            yield Text(lines, f"{table.title}, in points", bullets=True)

    def _format_orders(self, by_classifier: Mapping[str, Mapping[str, Lic]]) -> str:
        """Return a sentence on how similarly two classifiers order the captioners, if there are three or more."""
        columns = {name: np.array([lic.lic for lic in lics.values()]) for name, lics in by_classifier.items()}
        parts = [
            f"{first} and {second} {spearman(columns[first], columns[second]):.2f}"
            for first, second in combinations(columns, 2)
        ]
        if len(self.corpora) < 3 or not parts:
            return ""
        return f" Spearman's correlation of the captioners' LIC: {', '.join(parts)}."

    def _list_leaking_words(self) -> Iterator[Text]:
        lists = {f"{name}, {who} captions": leaks for (name, who), leaks in self.leaks.items()}
        people = [self.leaks[corpus.subject.name, "human"] for corpus in self.corpora]
        shared = [leak for leak in people[0] if all(leak in leaks for leaks in people[1:])]
        if len(people) > 1 and shared:
            lists = {f"{corpus.subject.name}": self.leaks[corpus.subject.name, "model"] for corpus in self.corpora}
            lists["human captions, for every captioner"] = shared
        shown = SHOWN_LEAKS if len(people) == 1 else SHOWN_LEAKS // 2
        lines = []
        for name, leaks in lists.items():
            parts: list[str | Span] = [f"{name}: "]
            for number, leak in enumerate(leaks[:shown]):
                word = Span(leak.word, href=self._open_leak(leak))
                parts += [", " * (number > 0), word, f" → {leak.label} {leak.share:.0%}"]
            more = f", and {len(leaks) - shown} more" if len(leaks) > shown else ""
            if leaks:
                lines.append(Phrase.of(*parts, more))
        if lines:
            yield Text(lines, "Words that almost reveal the label on their own", bullets=True)

    @cached_property
    def _leaking_words(self) -> list[str]:
        return list(dict.fromkeys(leak.word for leaks in self.leaks.values() for leak in leaks))

    def _open_leak(self, leak: Leak) -> str:
        """Return the address of the captions with a leaking word."""
        return open_evidence(f"word-{self._leaking_words.index(leak.word)}")

    def _build_leak_panels(self) -> Iterator[Evidence]:
        """Yield the captions with each leaking word, as the classifiers read them: of models, then of people."""
        for number, word in enumerate(self._leaking_words):
            entries: list[Entry] = []
            found = 0
            for corpus in self.corpora:
                name = corpus.subject.name
                for who, columns in ((name, [corpus.model]), (f"{name}, people", corpus.humans)):
                    own = [
                        (index, column[index])
                        for index in range(len(corpus.subject.ids))
                        for column in columns
                        if word in column[index]
                    ]
                    found += len(own)
                    entries += [self._build_leak_entry(corpus, who, word, *one) for one in own[:SHOWN_CAPTIONS]]
            note = "Masked words are written as the classifiers read them."
            if found > len(entries):
                note += f" At most {SHOWN_CAPTIONS} captions of each source are shown."
            yield Evidence(f"word-{number}", f"{word}: {found:,} captions", entries, note)

    def _build_leak_entry(self, corpus: MaskedCorpus, who: str, word: str, index: int, caption: Tokens) -> Entry:
        symbol = f"[{self.protocol.mask.token.upper()}]"
        parts: list[str | Span] = []
        for token in caption:
            text = as_text((token,), symbol, "[UNKNOWN]")
            parts += [Span(text, "bad") if token == word else text, " "]
        return Entry(
            corpus.subject.ids[index], [Line(Phrase.of(*parts[:-1]), who)], facts=[corpus.subject.labels[index]]
        )

    def _charts(self) -> Iterator[Chart]:
        lics, names = [row.lic for row in self.rows], [f"{row.model} · {row.classifier}" for row in self.rows]
        lows, highs = zip(*(lic.interval for lic in lics), strict=True)
        yield Chart(
            "intervals",
            [Series("LIC", names, [lic.lic for lic in lics], lows, highs, [not lic.differs for lic in lics])],
            note=f"LIC with its {self.protocol.level:.0%} interval; right of 0 the model leaks more than people do.",
            reference=0.0,
        )
        seeds = [name for name in names for _ in self.protocol.seeds]
        yield Chart(
            "dots",
            [
                Series("model", seeds, [score for lic in lics for score in lic.model.tolist()]),
                Series("people", seeds, [score for lic in lics for score in lic.human.mean(axis=1).tolist()]),
            ],
            note="LIC_M (model) and LIC_D (people) of every seed, and their means.",
            reference=self.chance,
            reference_name="chance",
        )

    def _build_evidence(self) -> tuple[Table, Table]:
        """Build two tables, for each row, model and people, and class: salient n-grams and surest captions."""
        names = ["model", "classifier", "captions of", "label"]
        symbol = f"[{self.protocol.mask.token.upper()}]"
        ngrams: list[Sequence[Value]] = []
        captions: list[Sequence[Value]] = []
        for row in self.rows:
            for who in ("model", "human"):
                tested = row.predictions(human=who == "human")
                salient = find_salient_ngrams(tested, len(self.classes))
                for label, name in enumerate(self.classes):
                    keys = (row.model, row.classifier, who, name)
                    for gram in salient[label]:
                        ngrams.append([*keys, gram.ngram, gram.probability, gram.captions])
                    for one in (*select_surest(tested, label), *select_surest(tested, label, right=False)):
                        text = as_text(one.caption, symbol, "[UNKNOWN]")
                        captions.append([*keys, text, one.id, self.classes[one.predicted], one.confidence])
        return (
            _make_detail_table(
                "ngrams",
                "Salient n-grams",
                [*names, "n-gram", _make_percent_column("probability"), Column("captions")],
                ngrams,
                len(names),
                "N-grams whose test captions get the highest probability of the label.",
            ),
            _make_detail_table(
                "captions",
                "Surest captions",
                [*names, "caption", "id", "predicted", _make_percent_column("probability")],
                captions,
                len(names),
                "Captions whose label was most surely recognized, then those most surely taken for another.",
            ),
        )

    def _build_leaks(self) -> Table:
        columns: list[Column | str] = [
            "model",
            "captions of",
            "word",
            "label",
            _make_percent_column("share"),
            Column("captions"),
        ]
        rows: list[Sequence[Value]] = [
            [*keys, link(leak.word, self._open_leak(leak)), *leak[1:]]
            for keys, leaks in self.leaks.items()
            for leak in leaks
        ]
        note = (
            f"Words of at least {LEAST} captions that belong to one label in {SHARE:.0%} of them, labels made equally "
            "frequent. Should the mask contain them?"
        )
        return _make_detail_table("leaks", "", columns, rows, 2, note)

    def _build_seeds(self) -> Table:
        people = max(row.lic.human.shape[1] for row in self.rows)
        names = ["lic_m", "lic_d", "lic", *(f"human_{index}" for index in range(people))]
        names += ["accuracy_m", *(f"lic_m {name}" for name in self.classes)]
        columns: list[Column | str] = [
            "model",
            "classifier",
            Column("seed"),
            *(Column(name, decimals=1) for name in names),
        ]
        rows: list[Sequence[Value]] = []
        for row in self.rows:
            for run, *humans in row.runs:
                scores = [one.score for one in humans]
                lic_d = sum(scores) / len(scores)
                spread = [run.score, lic_d, run.score - lic_d, *scores, *[math.nan] * (people - len(scores))]
                rows.append([row.model, row.classifier, run.task.seed, *spread, run.accuracy, *run.by_class])
        return _make_detail_table("seeds", "", columns, rows, 2)

    def _facts(self) -> Text:
        lines = []
        for corpus in self.corpora:
            labels = Counter(corpus.subject.labels)
            counts = ", ".join(f"{label} {labels[label]:,}" for label in self.classes)
            lines.append(
                f"{corpus.subject.name}: {labels.total():,} images ({counts}); alignment hid {corpus.unknown:.1%} of "
                "the human words"
            )
        masked = ", ".join(sorted(self.protocol.mask.words)) or "nothing"
        return Text([*lines, f"Masked: {masked}."], "Data", bullets=True, detail=True)


def _make_percent_column(name: str, decimals: int = 0) -> Column:
    return Column(name, decimals=decimals, scale=100, unit="%", latex=None)


def _make_detail_table(
    key: str, title: str, columns: Sequence[Column | str], rows: Sequence[Sequence[Value]], keys: int, note: str = ""
) -> Table:
    """Make a table of the page, with a rule wherever one of the first ``keys`` cells changes."""
    breaks = [index for index in range(1, len(rows)) if rows[index][:keys] != rows[index - 1][:keys]]
    return Table(key, title, columns, rows, note, breaks, detail=True)


def audit(
    subjects: Any,
    protocol: Protocol | None = None,
    classifiers: Sequence[Classifier] | None = None,
    *,
    runtime: Runtime | None = None,
    label: str | None = None,
    references: Any = None,
    labels: Any = None,
    work: str | Path | None = None,
    engine: Engine = Engine(),
) -> Audit:
    """Measure LIC of every captioner with every classifier.

    Parameters
    ----------
    subjects
        Captions with labels by the name of the captioner, a list of them, or those of one: each as ``captious.read``
        takes them. Subjects that are read already too.
    protocol
        What is masked, which human captions, seeds; by default that of the label.
    classifiers
        By default the linear one.
    runtime
        Where and how classifiers are trained.
    label
        The column of the labels, for captions that are not subjects yet.
    references
        Human captions by id, where the captions' own rows have none.
    labels
        Labels by id, where neither the captions nor the references have them.
    work
        Finished runs in this folder are not trained again; without it nothing is stored. Tasks that are
        equal, such as those of human captions that no vocabulary changes, are trained once.
    engine
        Who trains: this process, unless ``engine`` or ``jobs`` asks for several processes or GPUs side by side.
    """
    from captious.bias.classifiers.linear import Linear

    captioners = _read_captioners(subjects, label, references, labels)
    if protocol is None and label is None:
        raise InputError("protocol: None, expected a protocol, or label=... for that of a label")
    protocol = protocol or protocol_for(str(label))
    classifiers = [Linear()] if classifiers is None else classifiers
    _check_design(protocol, classifiers)
    corpora = _mask_corpora(captioners, protocol)
    plans = [[corpus.tasks(seed) for seed in protocol.seeds] for corpus in corpora]
    rows, stored = [], {}
    with using(runtime or get_runtime()):
        for classifier in classifiers:
            # Seed by seed over all captioners, so that whole seeds are finished first.
            tasks = [task for seed in zip(*plans, strict=True) for group in seed for task in group]
            results, stored[classifier.name] = _train_all(
                classifier, tasks, RunStore(Path(work) if work else None), engine
            )
            for corpus, plan in zip(corpora, plans, strict=True):
                runs = [[ClassifierRun(task, results[task.digest]) for task in group] for group in plan]
                rows.append(AuditRow(corpus, classifier.name, runs))
        settings = {classifier.name: classifier.settings() for classifier in classifiers}
    return Audit(protocol, settings, corpora, rows, stored)


def _read_captioners(subjects: Any, label: str | None, references: Any, labels: Any) -> Sequence[AuditedCaptioner]:
    """Return the captioners to audit; read them from their captions if necessary."""
    ready = isinstance(subjects, (list, tuple)) and all(isinstance(subject, AuditedCaptioner) for subject in subjects)
    if not ready:
        if label is None:
            raise InputError("label: None, expected the column of the labels, such as label='gender'")
        subjects = read_subjects(subjects, label, Reading(references), labels=labels)
    if not subjects:
        raise InputError("no captions to audit")
    captioners: Sequence[AuditedCaptioner] = subjects
    return captioners


def _check_design(protocol: Any, classifiers: Any) -> None:
    """Raise InputError if the protocol or the classifiers are of another type, or there are no seeds."""
    if not isinstance(protocol, Protocol):
        raise InputError(f"protocol: {type(protocol).__name__}, expected one such as protocol_for('gender')")
    if not isinstance(classifiers, (list, tuple)) or not all(hasattr(one, "group_tasks") for one in classifiers):
        raise InputError("classifiers: expected a list of them, such as [Linear()]")
    if not protocol.seeds:
        raise InputError("no seeds: expected at least one")


def _mask_corpora(captioners: Sequence[AuditedCaptioner], protocol: Protocol) -> list[MaskedCorpus]:
    """Mask the captions of every captioner; raise InputError if their classes differ."""
    corpora = [MaskedCorpus.of(captioner, protocol) for captioner in captioners]
    different = {corpus.classes for corpus in corpora}
    if len(different) > 1:
        shown = " and ".join(", ".join(classes) for classes in sorted(different))
        raise InputError(f"the captioners' labels differ: {shown}; expected the same classes for all")
    return corpora


@dataclass(frozen=True)
class _Training:
    """A setup of `run_tasks` that trains a classifier on one stack of tasks after the other."""

    classifier: Classifier
    progress: Callable[[float], None]

    def __call__(self) -> Callable[[list[ClassifierTask]], list[Floats]]:
        return self.train

    def train(self, stack: list[ClassifierTask]) -> list[Floats]:
        return self.classifier.train(stack, self.progress)


def _train_all(
    classifier: Classifier, tasks: Sequence[ClassifierTask], store: RunStore, engine: Engine
) -> tuple[dict[str, Floats], tuple[int, int]]:
    """Return the test probabilities by the digest of a task, and the numbers of stored and of all runs."""
    store = store.of(classifier.settings())
    distinct = {task.digest: task for task in tasks}
    results = {key: stored for key, task in distinct.items() if (stored := store.get(task)) is not None}
    before, done = len(results), float(len(results))

    def progress(more: float) -> None:
        nonlocal done
        done += more
        get_runtime().progress(f"{classifier.name}: runs", int(done + 1e-6), len(distinct))

    progress(0)
    stacks = _split_stacks(
        classifier.group_tasks([task for key, task in distinct.items() if key not in results]), engine.jobs
    )
    here = engine.engine == "serial" or (engine.engine is None and engine.jobs < 2)
    engine = replace(engine, engine="serial") if here else engine
    for end in run_tasks(_Training(classifier, progress if here else _ignore_progress), stacks, engine):
        if end.result is None:
            raise InputError(end.error)
        for task, probabilities in zip(stacks[end.index], end.result, strict=True):
            store.put(task, probabilities)
            results[task.digest] = probabilities
        if not here:
            progress(len(stacks[end.index]))
    return results, (before, len(distinct))


def _ignore_progress(more: float) -> None:
    """Ignore progress inside another process, which shows none."""


def _split_stacks(stacks: list[list[ClassifierTask]], parts: int) -> list[list[ClassifierTask]]:
    """Split the longest stacks in halves until there are ``parts`` of them."""
    while len(stacks) < parts and len(longest := max(stacks, key=len, default=[])) > 1:
        half = len(longest) // 2
        place = stacks.index(longest)
        stacks[place : place + 1] = [longest[:half], longest[half:]]
    return stacks
