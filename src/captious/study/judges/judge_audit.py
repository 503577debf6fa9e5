"""The audit of judges as a result: agreement with people, preferences, and systems in the wrong order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from captious.options import LEVEL
from captious.render import Cell, Chart, Column, Document, Group, Result, Series, Table, Text
from captious.render.answers import count_noun, join_names
from captious.render.document import Section, Value
from captious.stats.bootstrap import Estimate
from captious.stats.calibration import CurveForm, CurvePart
from captious.stats.judging import Decisions, PositionBias, RepeatNoise
from captious.stats.regression import Contrast
from captious.study.judges._judge_noise import describe_noise

ALPHA = 1 - LEVEL
# If there are more judges, the sections about each of them are collapsed on the page.
MAX_OPEN = 3
NOT_A_PROOF = (
    "A residual is not a proof that a judge prefers a system: a noisy judge compresses differences, so good systems "
    "have positive residuals under every such judge."
)


@dataclass(frozen=True)
class SystemResidual:
    """The residual of a system: how much higher people rate its captions than others with the same judge value."""

    system: str
    people: float
    """The mean of people's ratings."""
    residual: Contrast
    p_holm: float


@dataclass(frozen=True)
class Inversion:
    """Two systems that the judge puts in another order than people."""

    judge_prefers: str
    people_prefer: str
    judge: float
    """The difference of the judge's means over all captions."""
    people: float
    """People's difference, by `captious study estimate`."""
    p_holm: float

    @property
    def wrong(self) -> bool:
        """Whether people's difference is significant; otherwise it is not decided who is wrong."""
        return self.p_holm < ALPHA


@dataclass(frozen=True)
class Correction:
    """The mean of a system by the calibrated judge, and as people's ratings correct it."""

    system: str
    calibrated: float
    """The mean of the calibrated judge over all captions."""
    people: Estimate
    """The estimate from people's ratings, over all captions."""


@dataclass(frozen=True)
class SystemOrder:
    """The order of systems by a judge and by people."""

    residuals: tuple[SystemResidual, ...]
    p: float
    """p-value of the hypothesis that all residuals are 0 (F test)."""
    pairs: int
    """Pairs of systems, inverted or not."""
    inversions: tuple[Inversion, ...]
    judge_winner: str
    people_winner: str
    corrections: tuple[Correction, ...] = ()
    form: CurveForm = "line"
    """The form of the curve that converts the judge's values to ratings."""

    @property
    def compresses(self) -> bool:
        """Whether residuals and people's means have the same order, as if the judge were only noisy."""
        by_residual = sorted(self.residuals, key=lambda one: one.residual.value)
        return by_residual == sorted(self.residuals, key=lambda one: one.people)


@dataclass(frozen=True)
class JudgeFindings:
    """The findings about one judge."""

    key: str
    label: str
    slope: Contrast
    """The difference in ratings per standard deviation of the judge."""
    pearson: float
    tau: float
    """Tau-b over ratings, as in ``study run``."""
    curvature: Contrast
    """The coefficient of the squared judge value; 0 if the relation is linear."""
    parts: tuple[CurvePart, ...]
    """Mean ratings by fifths of the judge."""
    length: Contrast | None = None
    """The difference in ratings per ten words at the same judge value; None if lengths are not known."""
    length_parts: tuple[CurvePart, ...] = ()
    """Ratings less what the judge predicts, by fifths of the length."""
    systems: SystemOrder | None = None
    decisions: Decisions | None = None
    """Agreement with people of a judge that says yes or no; None for other judges."""
    turned: bool = False
    """Whether lower values are better. The sign of the judge is reversed in all findings except ``parts``."""

    def list_faults(self) -> list[str]:
        """List the faults of the judge, as predicates that follow its name in a sentence."""
        faults = []
        if self.slope.interval()[0] <= 0:
            faults.append("does not see what people see")
        wrong = sum(pair.wrong for pair in self.systems.inversions) if self.systems is not None else 0
        if wrong:
            faults.append(f"puts {count_noun(wrong, 'pair')} of systems in the wrong order")
        if self.length is not None and self.length.p < ALPHA:
            faults.append(f"{'overrates' if self.length.value < 0 else 'underrates'} long captions")
        return faults


@dataclass(frozen=True)
class SelfPreference:
    """The preference of a judge for its own system, compared with another judge."""

    judge: str
    system: str
    other: str
    difference: Contrast
    """The difference between the two judges' values of the system, in points of people's ratings."""
    p_holm: float


@dataclass(frozen=True, eq=False, repr=False)
class JudgeAudit(Result):
    """Judges or metrics against people: agreement, length, systems, inversions, position, self-preference."""

    name: str
    question: str
    counts: str
    judges: tuple[JudgeFindings, ...]
    signature: str
    people_decisions: Decisions | None = None
    """One person against the others, for judges that say yes or no."""
    position: PositionBias | None = None
    position_note: str = ""
    preferences: tuple[SelfPreference, ...] = ()
    matrix: Mapping[tuple[str, str], Estimate] | None = None
    """Generators × judges, standardized by judge and then by generator."""
    own: Mapping[str, str] | None = None
    """The system of each judge's maker, by the label of the judge."""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    repeats: Mapping[str, RepeatNoise] = field(default_factory=dict)
    """The noise of judges that were asked several times."""

    def __repr__(self) -> str:
        return f"<JudgeAudit {PurePath(self.name).name}: {', '.join(one.label for one in self.judges)}>"

    def document(self) -> Document:
        """Build the page: the answer, all judges in a table, then each judge with its charts."""
        names = ", ".join(one.label for one in self.judges)
        sections: list[Section] = [Text(self._describe_findings()), self._summary()]
        for number, one in enumerate(self.judges, start=1):
            inner = self._judge_sections(one, f"_{number}" if len(self.judges) > 1 else "")
            sections += [Group(one.label, inner)] if len(self.judges) > MAX_OPEN else inner
        if any(one.decisions for one in self.judges):
            sections.append(self._decision_table())
        sections += [*self._position_sections(), *self._preference_sections()]
        return Document(
            f"{PurePath(self.name).name}: can {names} be trusted?",
            "An audit of judges and metrics against people's ratings: length, systems, inversions, position.",
            sections,
            self.warnings,
            [self.counts, *self.notes],
            (self.signature,),
            self.data(),
            "audit",
            answer=self.answer(),
        )

    def answer(self) -> str:
        """Return the faults of each judge, or that none was found, in a sentence or two."""
        faults = {judge.label: judge.list_faults() for judge in self.judges}
        for preference in self.preferences:
            fault = f"prefers its own system, {preference.system}"
            prefers = preference.p_holm < ALPHA and preference.difference.value > 0
            if prefers and fault not in faults[preference.judge]:
                faults[preference.judge].append(fault)
        if self.position is not None and self.position.p < ALPHA and len(faults) == 1:
            position = "first" if self.position.bias > 0 else "second"
            faults[self.judges[0].label].append(f"prefers the caption shown {position}")
        sentences = [f"{name} {join_names(predicates)}" for name, predicates in faults.items() if predicates]
        if clean := [name for name, predicates in faults.items() if not predicates]:
            sentences.append(f"No fault of {join_names(clean)} was found")
        return f"{'. '.join(sentences)} ({self.counts.partition(';')[0]})."

    def _describe_findings(self) -> list[str]:
        lines = [" ".join(describe_judge(one)) for one in self.judges]
        if self.position is not None:
            lines.append(describe_position(self.position))
        lines += [describe_noise(name, one) for name, one in self.repeats.items()]
        return [*lines, *map(describe_preference, self.preferences)]

    def _summary(self) -> Table:
        lengths, systems = any(one.length for one in self.judges), any(one.systems for one in self.judges)
        columns: list[Column | str] = [
            "judge",
            Column("slope", decimals=2, level=LEVEL, bold=True, key="slope"),
            Column("r", decimals=2, key="pearson"),
            Column("τ-b", decimals=2, key="tau_b"),
            Column("p (curve)", "p", key="p_curve"),
        ]
        if lengths:
            columns.append(Column("per 10 words", decimals=3, signed=True, level=LEVEL, key="length"))
            columns.append(Column("p (length)", "p", key="p_length"))
        if systems:
            columns += [Column("wrong pairs", key="wrong"), Column("not decided", key="undecided"), "winner"]
        rows: list[list[Value]] = []
        for one in self.judges:
            row: list[Value] = [one.label, make_cell(one.slope), one.pearson, one.tau, one.curvature.p]
            if lengths:
                row += [make_cell(one.length), one.length.p] if one.length else [None, None]
            if systems:
                row += _summarize_systems(one.systems)
            rows.append(row)
        note = (
            f"slope: points of {self.question} per standard deviation of the judge; p (curve): that the slope is the "
            "same everywhere"
            + ("; per 10 words: how people rate a longer caption at the same judge value" if lengths else "")
            + ("; pairs of systems in another order than people's" if systems else "")
            + ". Errors by leaving out one image at a time."
        )
        return Table("judges", "Judges against people", columns, rows, note)

    def _judge_sections(self, one: JudgeFindings, suffix: str) -> list[Section]:
        curve = Chart(
            "lines",
            [make_series(self.question, one.parts)],
            f"{one.label}: calibration curve",
            "Mean rating by fifths of the judge, with 95% intervals over images.",
            x=one.label,
            y=self.question,
            decimals=2,
        )
        sections: list[Section] = [curve]
        if one.length_parts:
            sections.append(
                Chart(
                    "lines",
                    [make_series("people − judge", one.length_parts)],
                    f"{one.label}: curve over length",
                    "Mean rating less what the judge predicts, by fifths of the length. It falls if the judge "
                    "overrates long captions.",
                    x="words",
                    y="people − judge",
                    reference=0.0,
                    decimals=2,
                )
            )
        if one.systems is not None:
            sections += self._system_sections(one, one.systems, suffix)
        return sections

    def _system_sections(self, one: JudgeFindings, systems: SystemOrder, suffix: str) -> list[Section]:
        intervals = [part.residual.interval() for part in systems.residuals]
        series = Series(
            "residual",
            [part.system for part in systems.residuals],
            [part.residual.value for part in systems.residuals],
            [low for low, _ in intervals],
            [high for _, high in intervals],
        )
        chart = Chart(
            "intervals",
            [series],
            f"{one.label}: residuals by system",
            "How much higher people rate a system's captions than others with the same judge value.",
            reference=0.0,
            decimals=2,
        )
        mean = Column(f"people's {self.question}", decimals=2, key="people")
        residual = Column("residual", decimals=3, signed=True, level=LEVEL, bold=True)
        rows: list[list[Value]] = [
            [part.system, part.people, make_cell(part.residual), part.residual.p, part.p_holm]
            for part in systems.residuals
        ]
        note = f"all residuals together: p {format_p(systems.p)} (F test). {NOT_A_PROOF}"
        residuals = Table(
            f"residuals{suffix}",
            f"{one.label}: systems at the same judge value",
            ["system", mean, residual, Column("p", "p"), Column("p (Holm)", "p", key="p_holm")],
            rows,
            note,
            detail=bool(suffix),
        )
        sections: list[Section] = [residuals, chart]
        if systems.inversions:
            sections.append(
                Table(
                    f"inversions{suffix}",
                    f"{one.label}: pairs of systems in another order than people's",
                    [
                        "judge prefers",
                        "people prefer",
                        Column("judge", decimals=4, signed=True, key="judge_difference"),
                        Column("people", decimals=3, signed=True, key="people_difference"),
                        Column("p (Holm)", "p", key="p_holm"),
                        Column("the judge is", "text", key="verdict", bold=True),
                    ],
                    [
                        [
                            *(pair.judge_prefers, pair.people_prefer, pair.judge, pair.people, pair.p_holm),
                            "wrong" if pair.wrong else "not decided",
                        ]
                        for pair in systems.inversions
                    ],
                    f"of {systems.pairs} pairs; differences: the system that the judge prefers less the other. Wrong: "
                    "people's difference is significant",
                )
            )
        if systems.corrections:
            sections.append(self._correction_table(one, systems, suffix))
        return sections

    def _correction_table(self, one: JudgeFindings, systems: SystemOrder, suffix: str) -> Table:
        rows: list[list[Value]] = [
            [part.system, part.calibrated, Cell.of(part.people), part.people.value - part.calibrated]
            for part in systems.corrections
        ]
        columns: list[Column | str] = [
            "system",
            Column("calibrated judge", decimals=2, key="calibrated"),
            Column("people", decimals=2, level=LEVEL, bold=True),
            Column("change", decimals=2, signed=True),
        ]
        curve = "line" if systems.form == "line" else "monotone curve"
        note = (
            f"calibrated judge: the mean over all captions, in units of ratings by the {curve} that study calibrate "
            "chooses; people: the estimate over all captions; change: what ratings change"
        )
        title = f"{one.label}: what people's ratings change"
        return Table(f"correction{suffix}", title, columns, rows, note, detail=bool(suffix))

    def _decision_table(self) -> Table:
        columns: list[Column | str] = ["", *(Column(name, decimals=3, level=LEVEL) for name in ("kappa", "TPR", "TNR"))]
        decisions = [(judge.label, judge.decisions) for judge in self.judges if judge.decisions]
        decisions += [("one person against the others", self.people_decisions)] if self.people_decisions else []
        rows: list[list[Value]] = [[name, *map(make_cell, rates)] for name, rates in decisions if rates]
        note = (
            "kappa: agreement beyond chance; TPR: share of people's yes that the judge says too; TNR: the same for no. "
            "A judge cannot be expected to be better than one person, the last row."
        )
        return Table("decisions", "Yes or no", columns, rows, note)

    def _position_sections(self) -> list[Section]:
        if self.position is None:
            return [Text([self.position_note], "Position")] if self.position_note else []
        pairs, same, first, second, bias, p = self.position
        row: list[Value] = [pairs, same / max(pairs, 1), first, second, bias, p]
        columns: list[Column | str] = [
            Column("pairs in both orders", key="pairs"),
            Column("same verdict", scale=100, unit="%", decimals=1, key="same"),
            Column("better when first", key="first"),
            Column("better when second", key="second"),
            Column("bias", decimals=3, signed=True),
            Column("p", "p"),
        ]
        note = (
            "bias: half of the difference between a caption's results when it is shown first and second; ½ if the "
            "first always wins. p: binomial test"
        )
        return [Table("position", "Position", columns, [row], note)]

    def _preference_sections(self) -> list[Section]:
        sections: list[Section] = []
        if self.preferences:
            gap = Column("own system higher by", decimals=3, signed=True, level=LEVEL, bold=True, key="difference")
            columns: list[Column | str] = ["judge", "own system", "compared with", gap]
            columns += [Column("p", "p"), Column("p (Holm)", "p", key="p_holm")]
            rows: list[list[Value]] = [
                [one.judge, one.system, one.other, make_cell(one.difference), one.difference.p, one.p_holm]
                for one in self.preferences
            ]
            note = (
                "difference of differences: how much higher a judge puts its own system, compared with people, than "
                "another judge does, in points of ratings"
            )
            sections.append(Table("preferences", "Self-preference", columns, rows, note))
        if self.matrix:
            sections.append(self._matrix_table(self.matrix))
        return sections

    def _matrix_table(self, matrix: Mapping[tuple[str, str], Estimate]) -> Table:
        judges = list(dict.fromkeys(judge for _, judge in matrix))
        systems = list(dict.fromkeys(system for system, _ in matrix))
        own = self.own or {}
        columns: list[Column | str] = ["generator"]
        columns += [Column(judge, decimals=2, signed=True, level=LEVEL, key=judge) for judge in judges]
        rows: list[list[Value]] = [
            [
                system,
                *(Cell.of(matrix[system, judge], "†" if own.get(judge) == system else "") for judge in judges),
            ]
            for system in systems
        ]
        note = (
            "mean values over all captions, standardized by judge and then by generator; intervals over images. "
            "†: the judge's own generator: above 0 it prefers its own"
        )
        return Table("matrix", "Generators × judges", columns, rows, note)

    def data(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {
            "name": self.name,
            "counts": self.counts,
            "judges": [_convert_findings(one) for one in self.judges],
            "people_decisions": _convert_decisions(self.people_decisions),
            "position": None if self.position is None else self.position._asdict(),
            "preferences": [
                {"judge": one.judge, "system": one.system, "other": one.other, "p_holm": one.p_holm}
                | _convert(one.difference)
                for one in self.preferences
            ],
            "matrix": None
            if self.matrix is None
            else [{"generator": system, "judge": judge, "value": one} for (system, judge), one in self.matrix.items()],
            "repeats": {name: one._asdict() for name, one in self.repeats.items()},
            "signature": self.signature,
        }


def _summarize_systems(systems: SystemOrder | None) -> list[Value]:
    if systems is None:
        return [None, None, None]
    wrong = sum(inversion.wrong for inversion in systems.inversions)
    winner = "as people" if systems.judge_winner == systems.people_winner else "other"
    return [wrong, len(systems.inversions) - wrong, winner]


def describe_judge(one: JudgeFindings) -> list[str]:
    """Describe the findings about a judge in sentences."""
    low, high = one.slope.interval()
    lines = [
        f"{one.label} sees some of what people see (r = {one.pearson:.2f}): they rate a caption that it puts one "
        f"standard deviation higher by {one.slope.value:.2f} points higher ({low:.2f} to {high:.2f})."
        if low > 0
        else f"{one.label} does not see what people see: r = {one.pearson:.2f}, and the slope may be 0."
    ]
    if one.length is not None:
        low, high = sorted(abs(end) for end in one.length.interval())
        size = f"people rate a caption 10 words longer by {abs(one.length.value):.2f} ({low:.2f} to {high:.2f})"
        if one.length.p >= ALPHA:
            lines.append(f"No sign that it prefers long or short captions (p {format_p(one.length.p)}).")
        elif one.length.value < 0:
            lines.append(f"It overrates long captions: at the same value {size} lower.")
        else:
            lines.append(f"It underrates long captions: at the same value {size} higher.")
    if one.systems is not None:
        lines += _describe_systems(one.systems)
    return lines


def _describe_systems(systems: SystemOrder) -> list[str]:
    wrong = [pair for pair in systems.inversions if pair.wrong]
    undecided = len(systems.inversions) - len(wrong)
    same = systems.judge_winner == systems.people_winner
    winner = f"its winner, {systems.judge_winner}, is people's too" if same else _describe_other_winner(systems)
    if wrong:
        pairs = ", ".join(f"{pair.judge_prefers} over {pair.people_prefer}" for pair in wrong)
        text = f"It is wrong about {len(wrong)} of {systems.pairs} pairs of systems ({pairs})"
    else:
        text = "It puts no pair of systems in an order that people's ratings contradict"
    text += f"; {undecided} more inverted pair{'s are' if undecided > 1 else ' is'} not decided" if undecided else ""
    lines = [f"{text}; {winner}."]
    if systems.p < ALPHA:
        first = max(systems.residuals, key=lambda part: abs(part.residual.value))
        direction = "higher" if first.residual.value > 0 else "lower"
        lines.append(
            "It compresses the differences of systems: people's ratings differ more than its values say."
            if systems.compresses
            else f"At the same value people rate {first.system} {abs(first.residual.value):.2f} points "
            f"{direction} than other systems; this may be a preference of the judge, or something that it does not see."
        )
    return lines


def _describe_other_winner(systems: SystemOrder) -> str:
    pair = next(
        (
            one
            for one in systems.inversions
            if (one.judge_prefers, one.people_prefer) == (systems.judge_winner, systems.people_winner)
        ),
        None,
    )
    decided = "wrongly" if pair is not None and pair.wrong else "which is not decided"
    return f"its winner is {systems.judge_winner} and people's is {systems.people_winner}, {decided}"


def describe_position(found: PositionBias) -> str:
    """Describe whether the order of two captions influences the judge."""
    share = f"the verdict is the same in both orders for {found.same} of {found.pairs} pairs"
    if found.p >= ALPHA:
        return f"Position: no sign of a bias ({share}; p {format_p(found.p)})."
    preferred = "first" if found.bias > 0 else "second"
    size = f"bias {found.bias:+.2f}, p {format_p(found.p)}"
    return f"Position: the judge prefers the caption shown {preferred} ({size}; {share})."


def describe_preference(found: SelfPreference) -> str:
    """Describe whether a judge prefers its own system."""
    low, high = found.difference.interval()
    gap = f"{abs(found.difference.value):.2f} points {'higher' if found.difference.value > 0 else 'lower'}"
    text = f"{found.judge} puts {found.system}, its own system, {gap} than {found.other} does ({low:.2f} to {high:.2f})"
    if found.p_holm >= ALPHA:
        return f"{text}; whether it prefers its own is not decided."
    return f"{text}: it {'prefers' if found.difference.value > 0 else 'does not prefer'} its own."


def make_cell(one: Contrast) -> Cell:
    """Make the cell of a contrast with its interval."""
    return Cell(one.value, *one.interval())


def make_series(name: str, parts: Sequence[CurvePart]) -> Series:
    """Make a series of means by parts, with intervals."""
    intervals = [part.y.interval() for part in parts]
    lows, highs = [low for low, _ in intervals], [high for _, high in intervals]
    return Series(name, [part.x for part in parts], [part.y.value for part in parts], lows, highs)


def format_p(p: float) -> str:
    """Format a p-value in a sentence.

    >>> format_p(0.0001), format_p(0.21)
    ('< 0.001', '0.21')
    """
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def _convert(one: Contrast) -> dict[str, float]:
    low, high = one.interval()
    return {"value": one.value, "error": one.error, "low": low, "high": high, "p": one.p}


def _convert_decisions(one: Decisions | None) -> dict[str, Any] | None:
    return None if one is None else {name: _convert(value) for name, value in one._asdict().items()}


def _convert_findings(one: JudgeFindings) -> dict[str, Any]:
    def convert_parts(parts: Sequence[CurvePart]) -> list[dict[str, Any]]:
        return [{"x": part.x, "captions": part.rows, **_convert(part.y)} for part in parts]

    systems = one.systems
    return {
        "judge": one.key,
        "label": one.label,
        "turned": one.turned,
        "slope": _convert(one.slope),
        "pearson": one.pearson,
        "tau_b": one.tau,
        "curvature": _convert(one.curvature),
        "fifths": convert_parts(one.parts),
        "length": None if one.length is None else _convert(one.length),
        "length_fifths": convert_parts(one.length_parts),
        "decisions": _convert_decisions(one.decisions),
        "systems": None
        if systems is None
        else {
            "p": systems.p,
            "compresses": systems.compresses,
            "judge_winner": systems.judge_winner,
            "people_winner": systems.people_winner,
            "residuals": [
                {"system": part.system, "people": part.people, "p_holm": part.p_holm, **_convert(part.residual)}
                for part in systems.residuals
            ],
            "inversions": [
                {
                    "judge_prefers": pair.judge_prefers,
                    "people_prefer": pair.people_prefer,
                    "judge": pair.judge,
                    "people": pair.people,
                    "p_holm": pair.p_holm,
                    "wrong": pair.wrong,
                }
                for pair in systems.inversions
            ],
            "curve": systems.form,
            "corrections": systems.corrections,
        },
    }
