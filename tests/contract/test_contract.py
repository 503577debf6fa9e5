"""What every metric owes its users, checked on all of them: none is exempt."""

import math
import re
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from tests.contract.fixtures import COLOR_METRICS, EXAMPLES, FILES, captions, judge, mixer

from captious.errors import InputError
from captious.metrics.chunks import measure_all
from captious.metrics.contract import Metric
from captious.metrics.registry import METRICS, metric_class, names, parse, parse_all
from captious.options import Runtime, using

FORMS = [(name, form) for name, forms in EXAMPLES.items() for form in forms]
every_metric = pytest.mark.parametrize(("name", "form"), FORMS, ids=[form.partition("{")[0] for _, form in FORMS])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Paths of the files that examples name, each written when first asked for."""
    written = {}

    def path(name):
        if name not in written:
            written[name] = FILES[name](tmp_path_factory.mktemp(name))
        return written[name]

    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return captions(tmp_path_factory.mktemp("images"))


@pytest.fixture
def metric(name, form, files, request, monkeypatch):
    if name in COLOR_METRICS:
        request.getfixturevalue("colors")
        mixer(monkeypatch)
    judge(name, monkeypatch)
    with using(Runtime(device="cpu")):
        yield parse(re.sub(r"\{(\w+)\}", lambda match: str(files(match[1])), form))


def test_every_metric_has_an_example():
    assert set(EXAMPLES) == set(METRICS) == {metric_class(name).name for name in METRICS}
    assert set(names()) >= set(METRICS)


@every_metric
def test_shards_merge_exactly(metric, whole):
    shards = [whole.take(range(5)), whole.take(range(5, 6)), whole.take(range(6, len(whole)))]
    state = reduce(lambda one, other: one.merge(other), (metric.prepare(shard) for shard in shards))
    merged = reduce(lambda one, other: one.merge(other), (metric.measure(shard, state) for shard in shards))
    measured = metric.measure(whole)
    assert merged.ids == measured.ids
    assert np.allclose(merged.values, measured.values, rtol=0, atol=1e-12, equal_nan=True)
    assert merged.corpus == pytest.approx(measured.corpus, abs=1e-12)
    assert merged.reasons == measured.reasons
    assert str(merged.signature) == str(measured.signature)


@every_metric
def test_a_shard_scored_by_itself_has_the_values_of_the_whole_set(metric, whole, tmp_path):
    """To the last digit, from states that were saved, merged in any tree and opened again."""
    shards = [whole.take(range(5)), whole.take(range(5, 6)), whole.take(range(6, len(whole)))]
    if not metric.needs_corpus:
        state = metric.prepare(whole.take([]))  # the same for every shard: workers prepare it before they read one
    else:
        for number, shard in enumerate(shards):
            metric.prepare(shard).save(tmp_path / str(number))
        for tree in ("012", "(01)2", "0(12)", "(20)1", "2(10)"):
            parts = [tmp_path / one for one in re.sub(r"\(.*\)", "", tree)]
            if inner := re.search(r"\((.*)\)", tree):
                metric.corpus_state.merge_files([tmp_path / one for one in inner[1]], tmp_path / "inner")
                parts.insert(tree.index("("), tmp_path / "inner")
            metric.corpus_state.merge_files(parts, tmp_path / tree)
            assert (tmp_path / tree).read_bytes() == (tmp_path / "012").read_bytes()
        state = metric.corpus_state.load(tmp_path / "(20)1")
    measured = metric.measure(whole)
    merged = reduce(lambda one, other: one.merge(other), (metric.measure(shard, state) for shard in shards))
    assert str(merged.signature) == str(measured.signature) and merged.reasons == measured.reasons
    assert np.array_equal(merged.values, measured.values, equal_nan=True)


@every_metric
def test_chunks_change_no_digit(metric, whole, monkeypatch):
    (measured,) = measure_all(replace(whole), [metric]).values()
    monkeypatch.setattr("captious.metrics.chunks.CHUNK", 7)
    (chunked,) = measure_all(replace(whole), [metric]).values()
    assert chunked.ids == measured.ids
    assert np.array_equal(chunked.values, measured.values, equal_nan=True) and chunked.corpus == measured.corpus
    assert chunked.reasons == measured.reasons and chunked.warnings == measured.warnings
    assert str(chunked.signature) == str(measured.signature)


@every_metric
def test_the_order_of_items_does_not_matter(metric, whole):
    measured = metric.measure(whole)
    shuffled = metric.measure(whole.take(np.random.default_rng(0).permutation(len(whole)).tolist()))
    for key, value in measured.items.items():
        assert shuffled.items[key] == pytest.approx(value, abs=1e-6, nan_ok=True)
    assert shuffled.corpus == pytest.approx(measured.corpus, abs=1e-6)
    assert shuffled.reasons == measured.reasons and str(shuffled.signature) == str(measured.signature)


@every_metric
def test_values_are_within_the_range(metric, whole):
    measured, (low, high) = metric.measure(whole), metric.range
    values = [value for value in (*measured.values.tolist(), measured.corpus) if not math.isnan(value)]
    assert values and all(low - 1e-6 <= value <= high + 1e-6 for value in values)


@every_metric
def test_an_item_without_a_value_has_nan_and_a_reason(metric, whole):
    measured = metric.measure(whole)
    assert {key for key, value in measured.items.items() if math.isnan(value)} == set(measured.reasons)
    assert all(measured.reasons.values()) and len(measured.reasons) < len(whole)
    assert measured.reasons["no candidates"] == "no candidate caption"
    for need in ("references", "image"):
        assert (measured.reasons.get(f"no {need}") == f"no {need}") == (need in metric.needs)
    lonely = measured.reasons.get("one candidate") == "one candidate, needs several"
    assert lonely == ("several candidates" in metric.needs)
    assert not math.isnan(measured.corpus) and f"|unscored:{len(measured.reasons)}|" in str(measured.signature)


@every_metric
def test_scoring_happens_once(metric, whole, monkeypatch):
    calls = []
    for step in ("prepare", "score_items"):
        original = getattr(type(metric), step)

        def counted(self, *arguments, step=step, original=original):
            calls.append(step)
            return original(self, *arguments)

        monkeypatch.setattr(type(metric), step, counted)
    measured = metric.measure(whole)
    assert calls == ["prepare", "score_items"]
    assert measured.values is not None and measured.corpus == measured.corpus and isinstance(measured.warnings, tuple)
    assert calls == ["prepare", "score_items"], "values, corpus value and warnings are not computed again"


@every_metric
def test_the_written_form_reads_back(metric):
    assert parse(str(metric)) == metric and hash(parse(str(metric))) == hash(metric)
    assert metric in parse_all(str(metric)) and str(metric).startswith(metric.name)


@every_metric
def test_intervals_come_from_the_rows(metric, whole):
    measured = metric.measure(whole)
    if measured.additive:
        weights = np.ones((1, len(whole)))
        again = measured.statistic.aggregate(weights @ measured.statistic.rows)
        assert again[0] == pytest.approx(measured.corpus, abs=1e-9)


@pytest.mark.parametrize("name", METRICS)
def test_the_facts_of_the_card_are_there(name):
    metric = metric_class(name)()
    assert isinstance(metric, Metric) and metric.name == name and metric.label
    assert (metric.__doc__ or "").strip() and ">>>" in metric.__doc__
    assert metric.range[0] < metric.range[1]


@every_metric
def test_the_parts_of_an_explanation_add_up_to_the_value(metric, whole):
    if not metric.explains:
        with pytest.raises(InputError, match="does not explain single values"):
            metric.explain(whole, whole.ids[0])
        return
    measured = metric.measure(whole)
    for key, value in measured.items.items():
        explanation = metric.explain(whole, key)
        assert explanation.value == pytest.approx(value, abs=1e-9, nan_ok=True)
        if key in measured.reasons:
            assert explanation.reason == measured.reasons[key] and not explanation.parts
        else:
            assert sum(part.adds for part in explanation.parts) == pytest.approx(value, abs=1e-9)
