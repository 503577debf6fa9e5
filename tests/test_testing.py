"""`captious.testing.check_metric` finds each way to break the contract, and says it in one plain line."""

import math
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
import pytest

from captious import CaptionSet
from captious.metrics import Breakdown, Contribution, MeanMetric, Metric, Need, Scored, State, TokenMetric, registry
from captious.testing import CHECKS, ContractError, check_metric, make_sample


@dataclass(frozen=True)
class Sound(MeanMetric):
    """A metric without fault: the share of a caption's letters that are an a."""

    power: float = 1.0

    name: ClassVar[str] = "sound"
    needs: ClassVar[tuple] = ()

    def value(self, text: str) -> float:
        return (text.count("a") / max(len(text), 1)) ** self.power

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        return Scored(np.array([np.mean([self.value(text) for text in item.candidates] or [0.0]) for item in captions]))


@dataclass(frozen=True, eq=False)
class Letters(State):
    """How often each letter occurs."""

    counts: Counter

    def merge(self, other: "Letters") -> "Letters":
        return Letters(self.counts + other.counts)


@dataclass(frozen=True)
class Common(Sound):
    """The share of a caption's first letter among all letters of the corpus."""

    name: ClassVar[str] = "common"
    corpus_state: ClassVar[type] = Letters

    def prepare(self, captions: CaptionSet) -> Letters:
        return Letters(Counter("".join(captions.candidates.values)))

    def score_items(self, captions: CaptionSet, state: Letters) -> Scored:
        total = max(sum(state.counts.values()), 1)
        return Scored(np.array([state.counts["".join(item.candidates)[:1]] / total for item in captions]))


def known(*kinds: type) -> dict[str, type]:
    return {kind.name: kind for kind in kinds}


@pytest.fixture
def faults(monkeypatch):
    """The lines of a metric that does not keep the contract; it is known by its name."""

    def check(metric: Metric | type, captions: Any = None, **options: Any) -> list[str]:
        monkeypatch.setattr(registry, "FUNCTIONS", {metric.name: metric if isinstance(metric, type) else type(metric)})
        with pytest.raises(ContractError) as error:
            check_metric(metric, captions, **options)
        first, *lines = str(error.value).splitlines()
        assert first.endswith(" does not keep the contract of a metric:")
        assert lines == [f"- {fault}" for fault in error.value.faults] and len(set(lines)) == len(lines)
        return list(error.value.faults)

    return check


@pytest.mark.parametrize("kind", [Sound, Common])
def test_a_sound_metric_passes(monkeypatch, kind):
    monkeypatch.setattr(registry, "FUNCTIONS", known(kind))
    check_metric(kind)
    check_metric(kind.name)
    check_metric(kind(power=2.0), make_sample(), tolerance=0.0)
    check_metric(kind(), [{"id": n, "caption": text, "references": ["a"]} for n, text in enumerate(["a", "ab"] * 4)])


def test_metrics_of_captious_pass():
    for metric in ("bleu", "cider", "novelty", "vocab_size"):
        check_metric(metric, tolerance=0.0)
    check_metric("mbleu")


class Unnamed(Sound):
    """A metric."""

    name: ClassVar[str] = "My Metric"


class Undocumented(Sound):
    name: ClassVar[str] = "undocumented"


class Undecorated(Sound):
    """A metric."""

    name: ClassVar[str] = "undecorated"
    weight: float = 1.0


class Declared(Sound):
    """A metric."""

    name: ClassVar[str] = "declared"
    label: ClassVar[str] = ""
    higher_is_better: ClassVar[Any] = "yes"
    range: ClassVar[Any] = (1.0, 0.0)
    decimals: ClassVar[Any] = 1.5
    needs: ClassVar[Any] = ("references", "audio")


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        (Unnamed, ["name is 'My Metric', expected lower-case letters, digits, _ and -"]),
        (Undocumented, ["Undocumented has no docstring, which captious metrics undocumented prints"]),
        (
            Undecorated,
            ["weight looks like a parameter of Undecorated, which is not decorated by @dataclass(frozen=True)"],
        ),
        (
            Declared,
            [
                "label is '', expected a text",
                "higher_is_better is 'yes', expected True or False",
                "range is (1.0, 0.0), expected the lowest and the highest value, such as (0.0, 1.0)",
                "decimals is 1.5, expected a whole number, or None where the value is a score",
                f"needs has 'audio', expected a tuple of these: {', '.join(get_args(Need))}",
            ],
        ),
    ],
)
def test_declarations(faults, kind, lines):
    assert faults(kind) == lines


class Crashing(Sound):
    """A metric that fails."""

    name: ClassVar[str] = "crashing"

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        raise ZeroDivisionError("division by zero")


class Flat(Metric):
    """A metric that is no mean and gives values for rows."""

    name: ClassVar[str] = "flat"
    needs: ClassVar[tuple] = ()

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        return Scored(np.ones(len(captions)))

    def aggregate(self, rows: Any) -> Any:
        return rows


class Unscoring(Sound):
    """A metric that gives no item a value."""

    name: ClassVar[str] = "unscoring"

    def value(self, text: str) -> float:
        return math.nan


class BadSettings(Sound):
    """A metric whose settings are no texts."""

    name: ClassVar[str] = "bad_settings"

    def settings(self, state: Any) -> Any:
        return {"n": 4}


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (Crashing, "it fails where it scores the captions: ZeroDivisionError: division by zero"),
        (Flat, "flat: score_items gave rows of the shape (16,), expected a row of statistics for each of 16 items; "
               "captious.metrics.item_means(values) makes the rows of a mean"),
        (Unscoring, "unscoring cannot score captions: the value is undefined"),
        (BadSettings, "settings has 'n': 4, expected texts on one line without '|'"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_said_alone(faults, kind, line):
    assert faults(kind) == [line]


@dataclass(frozen=True)
class Forgetful(Sound):
    """A metric whose parameter is written in a form that is not read back."""

    power: float = 1.0

    name: ClassVar[str] = "forgetful"

    def __str__(self) -> str:
        return "forgetful"


class Unpicklable(Sound):
    """A metric that cannot be sent to another process."""

    name: ClassVar[str] = "unpicklable"

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle this")


class Random(Sound):
    """A metric that throws dice."""

    name: ClassVar[str] = "random"

    def value(self, text: str) -> float:
        return random.random()


class Infinite(Sound):
    """A metric with a value that is not a number."""

    name: ClassVar[str] = "infinite"
    range: ClassVar[tuple] = (0.0, math.inf)

    def value(self, text: str) -> float:
        return super().value(text) if text.strip() else math.inf


class TooHigh(Sound):
    """A metric that leaves its range."""

    name: ClassVar[str] = "too_high"

    def value(self, text: str) -> float:
        return 2.0


class Positional(Sound):
    """A metric whose value is the position of the item."""

    name: ClassVar[str] = "positional"

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        return Scored(np.arange(len(captions)) / 100)


class Greedy(Sound):
    """A metric that compares with the longest caption of the set without saying so."""

    name: ClassVar[str] = "greedy"

    def prepare(self, captions: CaptionSet) -> int:
        return max(map(len, captions.candidates.values), default=0)

    def score_items(self, captions: CaptionSet, state: int) -> Scored:
        return Scored(np.array([len("".join(item.candidates)) / 500 for item in captions]) * min(state, 1))


class Crowded(Sound):
    """A metric that divides by the number of items of its set."""

    name: ClassVar[str] = "crowded"

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        return Scored(np.full(len(captions), 1 / len(captions)))


class Unready(Sound):
    """A metric that cannot prepare before it has seen an item."""

    name: ClassVar[str] = "unready"

    def prepare(self, captions: CaptionSet) -> str:
        return captions.ids[0]


class Growing(Sound):
    """A metric whose corpus value is no function of the summed rows alone."""

    name: ClassVar[str] = "growing"
    range: ClassVar[tuple] = (0.0, 100.0)
    calls: ClassVar[list] = []

    def aggregate(self, rows: Any) -> Any:
        self.calls.append(len(rows))
        return super().aggregate(rows) + self.calls.count(1)


@pytest.mark.parametrize(
    ("metric", "promise", "line"),
    [
        (Forgetful(2.0), "its written form is read back",
         "its written form forgetful is read back as another metric: Forgetful(power=1.0)"),
        (Unpicklable(), "it is pickled", "it fails where it is pickled: TypeError: cannot pickle this"),
        (Random(), "it scores a second time", "scored a second time, item '0' has "),
        (Infinite(), "a missing value has a reason",
         "item 'blank' has the value inf, expected a number, or NaN and a reason in Scored.reasons"),
        (TooHigh(), "values are within the range", "item '0' has 2.0, outside the declared range from 0 to 1"),
        (Positional(), "the order of items does not matter", "with the items in another order, item '0' has "),
        (Growing(), "the corpus value comes from the rows", "aggregate gives "),
        (Greedy(), "parts have the values of the whole",
         "scored in parts by themselves, item '0' has 0.0 instead of "),
        (Crowded(), "parts have the values of the whole",
         "scored in parts by themselves, item '0' has 0.2 instead of 0.0625, and 14 more items differ; where a value "
         "depends on the other items, declare corpus_state, the class of what prepare returns"),
        (Unready(), "parts have the values of the whole",
         "prepare fails on a set without items, which workers prepare before they read a shard: IndexError: tuple "
         "index out of range"),
    ],
)  # fmt: skip
def test_a_broken_promise_is_one_line(faults, metric, promise, line):
    assert promise in CHECKS
    assert any(fault.startswith(line) for fault in faults(metric)), faults(metric)


class Averaged(Letters):
    """A state that is merged by halves, so that the order of parts matters."""

    def merge(self, other: "Averaged") -> "Averaged":
        sums = self.counts + other.counts
        return Averaged(Counter({letter: number // 2 for letter, number in sums.items()}))


class Averaging(Common):
    """A metric whose state depends on how the corpus is cut."""

    name: ClassVar[str] = "averaging"
    corpus_state: ClassVar[type] = Averaged

    def prepare(self, captions: CaptionSet) -> Averaged:
        return Averaged(super().prepare(captions).counts)


class Unsaved(Letters):
    """A state that writes nothing."""

    def save(self, path: str | Path) -> None:
        pass


class Losing(Common):
    """A metric whose state is lost on its way to the workers."""

    name: ClassVar[str] = "losing"
    corpus_state: ClassVar[type] = Unsaved

    def prepare(self, captions: CaptionSet) -> Unsaved:
        return Unsaved(super().prepare(captions).counts)


@dataclass(frozen=True, eq=False)
class Handle(State):
    """A state with something that no file holds."""

    handle: Any

    def merge(self, other: "Handle") -> "Handle":
        return self


class Handling(Sound):
    """A metric whose state cannot be saved."""

    name: ClassVar[str] = "handling"
    corpus_state: ClassVar[type] = Handle

    def prepare(self, captions: CaptionSet) -> Handle:
        return Handle(object())


class Stateless(Common):
    """A metric that declares what follows from another declaration."""

    name: ClassVar[str] = "stateless"
    corpus_state: ClassVar[Any] = None
    needs_corpus: ClassVar[bool] = True


def test_states_that_do_not_merge_or_save(faults):
    lines = faults(Averaging)
    assert any(line.startswith("prepared and scored in three parts, item '0' has ") for line in lines)
    assert any(line.startswith("scored by states that were saved, merged and loaded, item ") for line in lines)
    assert any("0: cannot be read (No such file or directory)" in line for line in faults(Losing))
    (line,) = faults(Handling)
    assert line.endswith(
        "Handle: cannot save the field 'handle', which contains object; expected numbers, texts, lists, tuples, sets, "
        "mappings with texts as keys, Counters and NumPy arrays of numbers, or methods save and load"
    )
    (line,) = faults(Stateless)
    assert line.startswith(
        "stateless declares needs_corpus=True, which follows from corpus_state: declare that instead"
    )


class Chunked(TokenMetric, Sound):
    """A metric that says it may be chunked, and counts the items of a chunk."""

    tokenizer: ClassVar[str] = "ptb"  # type: ignore[misc]
    name: ClassVar[str] = "chunked"

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        return Scored(np.full(len(captions), 0.5 if len(captions) in (16, 5, 1, 10) else 0.25))


def test_chunks(faults):
    (line, other) = faults(Chunked)
    start = "scored chunk by chunk, as sets of more than 20,000 items are, "
    assert line.startswith(f"{start}item '0' has 0.25 instead of 0.5, and ")
    assert other == f"{start}the corpus value is 0.25 instead of 0.5"


class Explaining(Sound):
    """A metric whose parts do not add up."""

    name: ClassVar[str] = "explaining"

    def break_down(self, item: CaptionSet, state: Any) -> Breakdown:
        return Breakdown([Contribution("letter", 0.75)])


def test_explanations(faults):
    assert faults(Explaining)[0].startswith("the parts that explain item '0' add up to 0.75, and its value is 0.")


def test_a_metric_that_is_not_known_by_its_name(faults, monkeypatch):
    monkeypatch.setattr(registry, "FUNCTIONS", {})
    with pytest.raises(ContractError, match="its written form sound is not read back: unknown metric 'sound'; "):
        check_metric(Sound)
    with pytest.raises(ContractError, match=r"^sound does not keep .*\n- unknown metric 'sound'; "):
        check_metric("sound")


def test_captions_that_are_too_few_are_refused(faults):
    assert faults(Sound(), {"1": "a"}) == ["1 captions, expected at least 6 items to check a metric with"]
