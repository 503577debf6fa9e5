"""What a metric declares, and the lines that refuse one which declares too little."""

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from captious import CaptionSet, Metric, Resampling, compare, evaluate
from captious.errors import InputError
from captious.metrics import MeanMetric, Scored, State, TokenMetric
from captious.metrics.contract import Explains
from captious.metrics.registry import METRICS, get_metric_class, parse_all

CAPTIONS = CaptionSet.of({"1": "a red dog", "2": "a cat"}, {"1": ["a dog"], "2": ["a cat"]})


@dataclass(frozen=True)
class Length(TokenMetric, MeanMetric):
    """The guide's example: the mean number of tokens, (3 + 2) / 2 = 2.5 of `CAPTIONS`."""

    tokenizer: str = "ptb"

    name: ClassVar[str] = "length"
    needs: ClassVar[tuple] = ()
    range: ClassVar[tuple] = (0.0, float("inf"))

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        table = self.table(captions)
        return Scored(table.mean_rows(table.lengths[table.candidates].astype(np.float64)))


@dataclass(frozen=True)
class OneDecimal(Length):
    name: ClassVar[str] = "one_decimal"
    decimals: ClassVar[int | None] = 1


def printed(result) -> list[str]:
    """The cells of its tables."""
    return [cell for line in str(result).splitlines() for cell in re.split(r" {2,}", line.strip())]


def test_a_value_without_a_limit_has_decimals():
    report = evaluate(CAPTIONS, Length(), resampling=Resampling(50))
    assert "2.5000" in printed(report) and "2.0000 – 3.0000" in printed(report)


def test_declared_decimals_are_printed_and_never_in_per_cent():
    report = evaluate(CAPTIONS, [OneDecimal(), "rouge"], resampling=Resampling(50))
    for shown in (report, report.in_percent()):
        assert "2.5" in printed(shown) and "2.0 – 3.0" in printed(shown)
    assert "91.5" in printed(report.in_percent())
    assert "2.0" in printed(report.worst(1, "one_decimal"))
    assert [one.get("decimals") for one in report.data()["metrics"]] == [1, None]
    longer = replace(CAPTIONS, candidates=CaptionSet.of({"1": "a red dog", "2": "a red cat"}).candidates)
    assert "+0.5" in printed(compare({"a": CAPTIONS, "b": longer}, OneDecimal(), resampling=Resampling(50)))


def test_a_count_is_a_whole_number():
    assert "4" in printed(evaluate(CAPTIONS, "vocab_size").in_percent())
    assert "2" in printed(evaluate(CAPTIONS, "vocab_size").worst(1))


@dataclass(frozen=True, eq=False)
class Words(State):
    counts: Counter

    def merge(self, other: "Words") -> "Words":
        return Words(self.counts + other.counts)


@dataclass(frozen=True)
class Common(MeanMetric):
    name: ClassVar[str] = "common"
    corpus_state: ClassVar[type] = Words

    def prepare(self, captions: CaptionSet) -> Words:
        return Words(Counter(word for text in captions.references.values for word in text.split()))

    def score_items(self, captions: CaptionSet, state: Words) -> Scored:
        return Scored(np.array([max(state.counts[word] for word in item.candidate.split()) / 10 for item in captions]))


class OldStyle(Common):
    name: ClassVar[str] = "old_style"
    corpus_state: ClassVar[None] = None
    needs_corpus: ClassVar[bool] = True


class WrongKind(Common):
    name: ClassVar[str] = "wrong_kind"
    corpus_state: ClassVar[type] = Counter


class Halfway(State):
    pass


class NoMerge(Common):
    name: ClassVar[str] = "no_merge"
    corpus_state: ClassVar[type] = Halfway


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (OldStyle(), "old_style declares needs_corpus=True, which follows from corpus_state: declare that instead"),
        (WrongKind(), "wrong_kind: corpus_state is <class 'collections.Counter'>, expected a subclass of captious"),
        (NoMerge(), "no_merge: the corpus_state Halfway must have: merge"),
    ],
)
def test_a_corpus_metric_without_a_state_is_refused_before_anything_is_read(metric, message):
    with pytest.raises(InputError, match=message):
        evaluate("no-such-file.json", metric)
    with pytest.raises(InputError, match=message):
        parse_all([metric])


class OtherState(Common):
    name: ClassVar[str] = "other_state"

    def prepare(self, captions: CaptionSet) -> Any:
        return Counter()


def test_a_state_of_another_class_than_declared_is_refused():
    with pytest.raises(InputError, match="other_state: prepare returned Counter, expected Words, which is its corpus"):
        evaluate(CAPTIONS, OtherState())


def test_a_state_works_on_a_set_of_many_chunks(monkeypatch):
    whole = evaluate(CAPTIONS, Common())["common"]
    assert whole.values.tolist() == [0.2, 0.2]  # "a" is in both references
    monkeypatch.setattr("captious.metrics.chunks.CHUNK", 1)
    monkeypatch.setattr(Common, "by_chunk", True)
    assert evaluate(replace(CAPTIONS), Common())["common"].values.tolist() == whole.values.tolist()


@dataclass(frozen=True)
class Given(MeanMetric):
    """A metric that returns what a test gives it."""

    name: ClassVar[str] = "given"
    needs: ClassVar[tuple] = ()
    rows: ClassVar[Any] = None

    def score_items(self, captions: CaptionSet, state: Any) -> Any:
        return Scored(self.rows)


@pytest.mark.parametrize("rows", [np.array([0.25, 0.75]), [0.25, 0.75], np.array([[0.25, 1.0], [0.75, 1.0]])])
def test_the_rows_of_a_mean_may_be_values_of_items(monkeypatch, rows):
    monkeypatch.setattr(Given, "rows", rows)
    measured = Given().measure(CAPTIONS)
    assert measured.values.tolist() == [0.25, 0.75] and measured.corpus == 0.5
    assert measured.rows.tolist() == [[0.25, 1.0], [0.75, 1.0]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones(3), r"rows of the shape \(3,\), expected a row of statistics for each of 2 items; .*item_means\("),
        (np.ones((4, 2)), r"rows of the shape \(4, 2\), expected .*; captious\.metrics\.candidate_means\(captions, v"),
        (0.5, r"rows of the shape \(\), expected a row"),
        (["a", "b"], "rows that are no numbers"),
    ],
)  # fmt: skip
def test_rows_of_another_number_than_the_items_are_refused_in_one_line(monkeypatch, rows, message):
    monkeypatch.setattr(Given, "rows", rows)
    captions = CaptionSet.of({"1": ["a", "b", "c"], "2": ["d"]})
    with pytest.raises(InputError, match=f"^given: score_items gave {message}") as error:
        evaluate(captions, Given())
    assert "\n" not in str(error.value)


class Unwrapped(Given):
    def score_items(self, captions: CaptionSet, state: Any) -> Any:
        return np.array([0.5, 0.5])


def test_what_is_not_wrapped_in_scored_is_refused():
    with pytest.raises(InputError, match=r"given: score_items returned ndarray, expected Scored\(rows\)"):
        evaluate(CAPTIONS, Unwrapped())


class Sums(Given):
    """Not a mean: one value per item is no row of its own statistics."""

    _as_rows = Metric._as_rows


def test_only_a_mean_takes_values_for_rows(monkeypatch):
    monkeypatch.setattr(Given, "rows", np.array([0.25, 0.75]))
    with pytest.raises(InputError, match=r"rows of the shape \(2,\), expected a row of statistics"):
        evaluate(CAPTIONS, Sums())


def test_a_metric_explains_by_having_the_method():
    assert not isinstance(Given(), Explains) and not Given().explains
    assert parse_all("rouge")[0].explains


@pytest.mark.parametrize("name", METRICS)
def test_what_a_class_declares_has_a_type_that_every_python_reads(name):
    """Python 3.10 refuses a bare ``ClassVar`` when it resolves the annotations of a metric."""
    bare = [
        (kind.__name__, key)
        for kind in get_metric_class(name).__mro__
        for key, type_ in vars(kind).get("__annotations__", {}).items()
        if type_ in ("ClassVar", ClassVar)
    ]
    assert not bare
