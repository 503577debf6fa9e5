"""States of metrics on disk; that they merge exactly is checked for every metric in tests/contract."""

import gc
import json
import weakref
from dataclasses import replace

import numpy as np
import pytest
from lab.toy import make

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.chunks import prepare_shard
from captious.metrics.registry import parse
from captious.metrics.states import MODULES, merge_states, open_state, save_state
from captious.text.tables import TextTable

CAPTIONS = CaptionSet.of({"1": "a cat", "2": "a dog"}, {"1": ["a cat"], "2": ["the dog", "a dog"]})


@pytest.fixture
def files(tmp_path):
    for name in ("cider", "novelty"):
        save_state(parse(name).prepare(CAPTIONS), tmp_path / name)
    return tmp_path


def test_a_file_names_its_kind_first_and_holds_no_pickle(files):
    for name, key in (("cider", "captious-idf"), ("novelty", "captious-known")):
        head = (files / name).read_bytes().partition(b"\n")[0]
        assert next(iter(json.loads(head))) == key and key in MODULES
        assert isinstance(open_state(files / name), type(parse(name).prepare(CAPTIONS)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello", "is no state of a metric"),
        (b"\x80\x04N.", "is no state of a metric"),
        (b'{"captious-style": 1}\n', "is no state of a metric"),
        (b"[" * 50_000, "is no state of a metric"),
        (b'{"captious-idf": 3}\n', "damaged idf corpus"),
    ],
)
def test_a_foreign_file_is_refused_in_one_line(tmp_path, content, message):
    path = tmp_path / "state"
    path.write_bytes(content)
    for use in (open_state, lambda path: merge_states([path], tmp_path / "out")):
        with pytest.raises(InputError, match=message) as error:
            use(path)
        assert str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_states_that_do_not_belong_together_are_refused(files):
    with pytest.raises(
        InputError, match=r"cider \(idf corpus\) and .*novelty \(state of novelty\), expected files of one"
    ):
        merge_states([files / "cider", files / "novelty"], files / "out")
    save_state(parse("cider(tokenizer=13a)").prepare(CAPTIONS), files / "13a")
    with pytest.raises(InputError, match=r"cannot merge idf corpora tokenized by ptb\.1 and 13a\.1"):
        merge_states([files / "cider", files / "13a"], files / "out")
    with pytest.raises(InputError, match="states to merge: none, expected files of one kind"):
        merge_states([], files / "out")
    with pytest.raises(InputError, match="cannot be read"):
        open_state(files / "missing")
    assert not (files / "out").exists()


def test_a_metric_says_whether_it_needs_the_whole_corpus():
    for form in ("cider", "selfcider", "novelty", "bertscore(idf=refs)", "specs_routed(scale=matched)"):
        assert parse(form).needs_corpus
    for form in ("cider(idf=coco)", "selfcider(idf=coco)", "novelty(train.json)", "bertscore", "specs_routed", "bleu"):
        assert not parse(form).needs_corpus
    with pytest.raises(InputError, match="a state of type Shared is the same for every shard"):
        save_state(parse("bleu").prepare(CAPTIONS), "nowhere")


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
                save_state(metric.prepare(shard), tmp_path / str(number))
            merge_states([tmp_path / str(number) for number in range(3)], tmp_path / "whole")
            state = open_state(tmp_path / "whole")
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
            save_state(state, tmp_path / name)
        assert (tmp_path / "whole").read_bytes() == (tmp_path / "chunks").read_bytes()
