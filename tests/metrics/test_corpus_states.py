"""States of corpora are merged, saved and loaded. tests/contract checks that they merge exactly, for every metric."""

import gc
import json
import weakref
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from lab.toy import make

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics import State
from captious.metrics.bertscore import TokenWeights
from captious.metrics.chunks import prepare_shard
from captious.metrics.clip.specs import CosineMoments
from captious.metrics.diversity import KnownCaptions
from captious.metrics.registry import parse
from captious.text.idf import DocumentFrequency
from captious.text.ngram_tables import TextTable

CAPTIONS = CaptionSet.of({"1": "a cat", "2": "a dog"}, {"1": ["a cat"], "2": ["the dog", "a dog"]})
STATES = (DocumentFrequency, KnownCaptions, TokenWeights, CosineMoments)


@pytest.fixture
def files(tmp_path):
    for name in ("cider", "novelty"):
        parse(name).prepare(CAPTIONS).save(tmp_path / name)
    CosineMoments("a", "b", 3, 2**70, -1).save(tmp_path / "moments")
    return tmp_path


def test_a_file_names_its_kind_first_and_holds_no_pickle(files):
    for name, key in (("cider", "captious-idf"), ("novelty", "captious-known"), ("moments", "captious-state")):
        head = (files / name).read_bytes().partition(b"\n")[0]
        assert next(iter(json.loads(head))) == key
    assert vars(CosineMoments.load(files / "moments")) == vars(CosineMoments("a", "b", 3, 2**70, -1))


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "content",
    [
        b"hello",
        b"\x80\x04N.",
        b'{"captious-style": 1}\n',
        b"[" * 50_000,
        b'{"captious-idf": 3}\n',
        b'{"captious-state": 1}',
    ],
)
def test_a_foreign_file_is_refused_in_one_line(tmp_path, state, content):
    path = tmp_path / "state"
    path.write_bytes(content)
    for use in (state.load, lambda path: state.merge_files([path], tmp_path / "out")):
        with pytest.raises(InputError) as error:
            use(path)
        assert str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_states_that_do_not_belong_together_are_refused(files):
    with pytest.raises(InputError, match="novelty: is no idf corpus"):
        DocumentFrequency.merge_files([files / "cider", files / "novelty"], files / "out")
    parse("cider(tokenizer=13a)").prepare(CAPTIONS).save(files / "13a")
    with pytest.raises(InputError, match=r"cannot merge idf corpora tokenized by ptb\.1 and 13a\.1"):
        DocumentFrequency.merge_files([files / "cider", files / "13a"], files / "out")
    with pytest.raises(InputError, match=r"moments: contains the state captious.*CosineMoments, expected .*Words"):
        Words.merge_files([files / "moments"], files / "out")
    for state in STATES:
        with pytest.raises(InputError, match="no file to merge"):
            state.merge_files([], files / "out")
        with pytest.raises(InputError, match="missing: cannot be read"):
            state.load(files / "missing")
    assert not (files / "out").exists()


@dataclass(frozen=True, eq=False)
class Words(State):
    """A state such as a package may have: it writes `merge` alone."""

    words: Counter
    rare: frozenset = frozenset()
    sums: np.ndarray = None
    order: tuple = ()
    name: str = ""
    share: float = 0.0
    nested: dict = None

    def merge(self, other):
        return replace(self, words=self.words + other.words, rare=self.rare | other.rare, sums=self.sums + other.sums)


def test_a_state_with_plain_fields_is_saved_without_a_method_of_its_own(tmp_path):
    sums = np.arange(6.0).reshape(2, 3)
    one = Words(Counter(b=2, a=np.int64(1)), frozenset({"x", "é"}), sums, (1, 2), "n\nm", 0.1, {"k": [1, None]})
    one.release()
    one.save(tmp_path / "one")
    again = Words.load(tmp_path / "one")
    assert np.array_equal(again.sums, sums) and again.sums.dtype == sums.dtype
    rest = {key: value for key, value in vars(again).items() if key != "sums"}
    assert rest == {key: value for key, value in vars(one).items() if key != "sums"}
    assert type(again.words) is Counter and type(again.rare) is frozenset and type(again.order) is tuple
    replace(one, words=Counter(a=5)).save(tmp_path / "two")
    for out, order in (("12", ("one", "two")), ("21", ("two", "one"))):
        Words.merge_files([tmp_path / name for name in order], tmp_path / out)
    assert Words.load(tmp_path / "12").words == Counter(a=6, b=2)
    assert (tmp_path / "12").read_bytes() == (tmp_path / "21").read_bytes()


@pytest.mark.parametrize("cut", [1, 40])
def test_a_damaged_state_is_refused(tmp_path, cut):
    Words(Counter(a=1), sums=np.ones(8)).save(tmp_path / "state")
    content = (tmp_path / "state").read_bytes()
    (tmp_path / "state").write_bytes(content[:-cut])
    with pytest.raises(InputError, match="state of the class Words cut short"):
        Words.load(tmp_path / "state")
    (tmp_path / "state").write_bytes(content[:-1] + b"\x00\x00"[: cut and 1])
    with pytest.raises(InputError, match="damaged state of the class Words"):
        Words.load(tmp_path / "state")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (object(), "object"),
        ({1: "a"}, "dict with keys that are no texts"),
        ([("a",)], "tuple"),
        ({"a", 1}, "set"),
        (np.array(["a"]), "ndarray"),
    ],
)
def test_a_field_that_a_file_cannot_hold_is_named(tmp_path, value, found):
    with pytest.raises(
        InputError, match=f"Words: cannot save the field 'nested', which contains {found}; expected numbers"
    ):
        Words(Counter(), nested=value).save(tmp_path / "state")
    assert not (tmp_path / "state").exists()


class Plain(State):
    def merge(self, other):
        return self


def test_a_state_that_is_no_dataclass_must_save_itself(tmp_path):
    with pytest.raises(InputError, match="Plain is not a dataclass: make it one, or write its methods save and load"):
        Plain().save(tmp_path / "state")


def test_a_metric_says_whether_it_needs_the_whole_corpus():
    for form in ("cider", "selfcider", "novelty", "bertscore(idf=refs)", "specs_routed(scale=matched)"):
        assert parse(form).needs_corpus and parse(form).corpus_state in STATES
    for form in ("cider(idf=coco)", "selfcider(idf=coco)", "novelty(train.json)", "bertscore", "specs_routed", "bleu"):
        assert not parse(form).needs_corpus and parse(form).corpus_state is None


def test_items_of_any_shard_have_the_values_of_the_whole_set_to_the_last_digit(tmp_path):
    sample = make(items=400)
    candidates = {
        scene.id: [sample.prediction_of(scene, one).text for one in ("sloppy", "expert")] for scene in sample.scenes()
    }
    captions = CaptionSet.of(candidates, sample.references())
    shards = [captions.take(range(first, len(captions), 3)) for first in range(3)]
    for metric in map(parse, ("cider", "cider(variant=plain)", "selfcider", "novelty", "lsa")):
        state = None
        if metric.needs_corpus:
            for number, shard in enumerate(shards):
                metric.prepare(shard).save(tmp_path / str(number))
            metric.corpus_state.merge_files([tmp_path / str(number) for number in range(3)], tmp_path / "whole")
            state = metric.corpus_state.load(tmp_path / "whole")
        values = metric.measure(captions).values
        for first, shard in enumerate(shards):
            assert np.array_equal(metric.measure(shard, state).values, values[first::3], equal_nan=True)


def test_the_state_of_a_shard_is_prepared_chunk_by_chunk_and_holds_no_table(monkeypatch, tmp_path):
    references = {str(number): [f"a cat and {number % 7} dogs", "the dog"] for number in range(40)}
    captions = CaptionSet.of(dict.fromkeys(references, "a dog"), references)
    metrics = [parse(name) for name in ("cider", "selfcider(tokenizer=13a)", "novelty")]
    whole = prepare_shard(captions, metrics)
    monkeypatch.setattr("captious.metrics.chunks.CHUNK", 7)
    tables, make_table = [], TextTable.of
    monkeypatch.setattr(TextTable, "of", lambda *given: tables.append(make_table(*given)) or tables[-1])
    states = prepare_shard(replace(captions), metrics)
    watched = [weakref.ref(table) for table in tables]
    sizes = {table.items for table in tables}
    tables.clear()
    gc.collect()
    assert sizes == {7, 5} and not any(table() for table in watched)
    for metric in metrics:
        for name, state in (("whole", whole[metric]), ("chunks", states[metric])):
            state.save(tmp_path / name)
        assert (tmp_path / "whole").read_bytes() == (tmp_path / "chunks").read_bytes()
