"""Our module as ``evaluate`` uses its own, beside the peers' values.

The package ``evaluate`` brings no metric: its scripts are fetched from the hub, and tests use no network. So the peer
of CIDEr is pycocoevalcap in a script that ``evaluate.load`` loads from a file, and that of BLEU is sacrebleu.
"""

import socket
import threading
from pathlib import Path

import pytest

evaluate = pytest.importorskip("evaluate", reason="evaluate is not installed")

import captious
from captious import CaptionSet, InputError, Resampling
from captious.compat.hf_evaluate import Captious, load

SPECS = "bleu(n=4), rouge, cider"


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Every connection is refused."""

    def refuse(*arguments, **options):
        raise AssertionError("a test of evaluate went to the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Files of evaluate go to a folder of the test."""
    for name in ("HF_METRICS_CACHE", "HF_MODULES_CACHE"):
        monkeypatch.setattr(evaluate.config, name, str(tmp_path / name))


@pytest.fixture
def samples(candidates, references):
    return list(candidates.values()), [references[key] for key in candidates]


def whole(samples, specs=SPECS):
    captions = CaptionSet.of(dict(enumerate(samples[0])), dict(enumerate(samples[1])))
    return {str(one.metric): one.corpus for one in captious.evaluate(captions, specs, resampling=Resampling(samples=0))}


def evaluation_script(load, name, samples):
    """What a script does with a module; a test changes only what ``load`` is."""
    module = load(name)
    for first in range(0, len(samples[0]), 5):
        module.add_batch(predictions=samples[0][first : first + 5], references=samples[1][first : first + 5])
    return module.compute()


def test_cider_equals_pycocoevalcap_in_a_loaded_script(samples):
    pytest.importorskip("pycocoevalcap", reason="pycocoevalcap, the reference implementation, is not installed")
    peer = str(Path(__file__).with_name("coco_cider.py"))
    expected = evaluation_script(evaluate.load, peer, samples)["cider"]
    values = evaluation_script(load, "cider(tokenizer=whitespace)", samples)
    assert values == {"cider(tokenizer=whitespace)": pytest.approx(expected, abs=1e-9)}
    assert expected > 0


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_bleu_equals_sacrebleu(samples, n):
    metrics = pytest.importorskip("sacrebleu.metrics", reason="sacrebleu is not installed")
    peer = metrics.BLEU(lowercase=True, max_ngram_order=n, smooth_method="none")
    expected = peer.corpus_score(samples[0], list(zip(*samples[1], strict=True))).score / 100
    values = evaluation_script(load, f"bleu(n={n}, tokenizer=13a)", samples)
    assert list(values.values()) == pytest.approx([expected], abs=1e-6)


def test_every_way_to_add_gives_the_values_of_the_whole_set(samples):
    expected = pytest.approx(whole(samples), abs=1e-12)
    assert Captious(SPECS).compute(predictions=samples[0], references=samples[1]) == expected
    module = load(SPECS, keep_in_memory=True)
    for prediction, references in zip(*samples, strict=True):
        module.add(prediction=prediction, reference=references)
    assert len(module) == len(samples[0])
    values = module.compute()
    assert values == expected and all(type(value) is float for value in values.values())
    module.add_batch(predictions=["a dog"], references=["a dog"])  # one text is one reference
    assert module.compute()["rouge"] == 1  # and nothing is left of the samples before


def test_combined_with_another_module(samples):
    pytest.importorskip("pycocoevalcap", reason="pycocoevalcap, the reference implementation, is not installed")
    peer = evaluate.load(str(Path(__file__).with_name("coco_cider.py")))
    combined = evaluate.combine([load("bleu(n=4)"), Captious("rouge"), peer])
    values = combined.compute(predictions=samples[0], references=samples[1])
    expected = whole(samples, "bleu(n=4), rouge, cider(tokenizer=whitespace)")
    assert list(values) == ["bleu(n=4)", "rouge", "cider"]
    assert list(values.values()) == pytest.approx(list(expected.values()), abs=1e-9)


def test_two_processes_equal_one(samples, tmp_path):
    values = {}

    def work(rank):
        module = load(SPECS, num_process=2, process_id=rank, cache_dir=str(tmp_path), experiment_id="two", timeout=60)
        module.add_batch(predictions=samples[0][rank::2], references=samples[1][rank::2])
        values[rank] = module.compute()

    workers = [threading.Thread(target=work, args=(rank,)) for rank in (0, 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert values[0] == pytest.approx(whole(samples), abs=1e-9)
    assert values[1] is None


def test_what_a_module_asks_for_follows_from_its_metrics(colors, photos):
    module = load("clipscore(weights=colors)")
    values = module.compute(
        predictions=["a red dog", "blue"], images=[str(photos / "red.png"), str(photos / "blue.png")]
    )
    # As CLIPScore puts "A photo depicts" before a caption: 1 word of 6 and 1 of 4 is the color of the image.
    expected = 2.5 * (1 / 26**0.5 + 1 / 10**0.5) / 2
    assert values == {"clipscore(weights=colors)": pytest.approx(expected, abs=1e-5)}
    with pytest.raises(ValueError, match="inputs are missing: \\['images'\\]"):
        module.compute(predictions=["a red dog"])
    several = load("div_n(n=1)").compute(predictions=[["a red dog", "red"], ["blue", "a blue sky"]])
    assert several == {"div_n(n=1)": pytest.approx(3 / 4)}


def test_mistakes(samples):
    with pytest.raises(InputError, match="unknown metric 'cidr'"):
        load("cidr")
    with pytest.raises(ValueError, match="Mismatch in the number of predictions"):
        load("cider").compute(predictions=samples[0][:2], references=samples[1])
    with pytest.raises(InputError, match="cider cannot score predictions: no references"):
        load("cider").compute(predictions=["a dog"], references=[[]])


@pytest.mark.parametrize("name", ["bleu", "rouge", "sacrebleu", "cider"])
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"predictions": [], "references": []}, "predictions: is empty, expected an entry for each item"),
        ({"predictions": ["a"], "references": []}, "references: is empty, expected an entry for each item"),
        ({"predictions": ["a"]}, "references: none, expected a list with an entry for each item; pass references=..."),
        ({"references": ["a"]}, "predictions: none, expected a list with an entry for each item; pass predictions=..."),
        ({}, "predictions: none was added, expected predictions=... here, or add_batch(...) before"),
    ],
)
def test_what_is_not_there_is_named(name, inputs, message):
    with pytest.raises(InputError) as error:
        load(name).compute(**inputs)
    assert str(error.value) == message


class TestModulesOfTheHub:
    """The examples in their documentation, and the libraries that compute their numbers."""

    def test_the_examples_of_bleu(self):
        predictions = ["hello there general kenobi", "foo bar foobar"]
        references = [["hello there general kenobi", "hello there !"], ["foo bar foobar"]]
        results = load("bleu").compute(predictions=predictions, references=references)
        assert results == {
            "bleu": 1.0,
            "precisions": [1.0, 1.0, 1.0, 1.0],
            "brevity_penalty": 1.0,
            "length_ratio": 1.1666666666666667,
            "translation_length": 7,
            "reference_length": 6,
        }
        single = load("bleu").compute(
            predictions=predictions, references=["hello there general kenobi", "foo bar foobar"]
        )
        assert (single["length_ratio"], single["reference_length"]) == (1.0, 7)
        split = load("bleu").compute(predictions=["a b."], references=["a b ."], tokenizer=str.split, max_order=1)
        assert split["precisions"] == [0.5]  # "b." is no "b"

    def test_the_examples_of_rouge(self):
        same = ["hello there", "general kenobi"]
        ones = {"rouge1": 1.0, "rouge2": 1.0, "rougeL": 1.0, "rougeLsum": 1.0}
        assert load("rouge").compute(predictions=same, references=same) == ones
        texts = {"predictions": ["hello goodbye", "ankh morpork"], "references": ["goodbye", "general kenobi"]}
        each = load("rouge").compute(**texts, use_aggregator=False)
        # One word of two against one of one: F1 = 2 · 1/2 · 1 / (1/2 + 1)
        assert list(each) == list(ones) and each["rouge1"] == [pytest.approx(2 / 3), 0.0]
        whole = load("rouge").compute(**texts, rouge_types=["rouge1"])
        assert whole == {"rouge1": pytest.approx(1 / 3)}
        with pytest.raises(
            InputError, match="rouge_types has 'rouge_1', expected rouge1 to rouge9, rougeL or rougeLsum"
        ):
            load("rouge").compute(**texts, rouge_types=["rouge_1"])

    def test_the_examples_of_sacrebleu(self):
        pytest.importorskip("sacrebleu", reason="sacrebleu is not installed")
        results = load("sacrebleu").compute(
            predictions=["hello there general kenobi", "foo bar foobar"],
            references=[["hello there general kenobi", "hello there !"], ["foo bar foobar", "foo bar foobar"]],
        )
        assert list(results) == ["score", "counts", "totals", "precisions", "bp", "sys_len", "ref_len"]
        assert results["score"] == pytest.approx(100)
        results = load("sacrebleu").compute(
            predictions=["hello there general kenobi", "on our way to ankh morpork"],
            references=[["hello there general kenobi", "hello there !"], ["goodbye ankh morpork", "ankh morpork"]],
        )
        assert round(results["score"], 1) == 39.8
        with pytest.raises(InputError, match="the same number of references for each prediction"):
            load("sacrebleu").compute(predictions=["a", "b"], references=[["a"], ["b", "c"]])

    def test_meteor_is_refused_with_the_reason(self):
        with pytest.raises(
            InputError, match=r"the hub's meteor is NLTK's, captious's is METEOR 1\.5, and their values"
        ):
            load("meteor")

    def test_rouge_equals_rouge_score(self, samples):
        scorers = pytest.importorskip("rouge_score.rouge_scorer", reason="rouge_score is not installed")
        names = ["rouge1", "rouge2", "rouge3", "rougeL", "rougeLsum"]
        predictions = [*samples[0], "The cat.\nIt sits, and sits\n\nThe mat", "", "running runners ran"]
        references = [*samples[1], ["A cat sits\nthe mat the cat", "The mat.\nIt"], ["words", "."], ["runs a runner"]]
        for stemmed in (False, True):
            peer = scorers.RougeScorer(names, use_stemmer=stemmed)
            expected = [peer.score_multi(texts, text) for text, texts in zip(predictions, references, strict=True)]
            values = load("rouge").compute(
                predictions=predictions,
                references=references,
                rouge_types=names,
                use_aggregator=False,
                use_stemmer=stemmed,
            )
            for name in names:
                assert values[name] == pytest.approx([score[name].fmeasure for score in expected], abs=1e-12)
        assert len(set(values["rougeLsum"])) > 5

    def test_bleu_equals_sacrebleus_statistics(self, samples):
        """Without smoothing and with one reference, where the shortest and the closest length are one, both agree."""
        metrics = pytest.importorskip("sacrebleu.metrics", reason="sacrebleu is not installed")
        references = [texts[:1] for texts in samples[1]]
        peer = metrics.BLEU(smooth_method="none").corpus_score(samples[0], [[texts[0] for texts in references]])
        values = load("bleu").compute(predictions=samples[0], references=references)
        assert values["bleu"] == pytest.approx(peer.score / 100, abs=1e-12)
        assert values["precisions"] == pytest.approx([one / 100 for one in peer.precisions], abs=1e-12)
        assert (values["translation_length"], values["reference_length"]) == (peer.sys_len, peer.ref_len)
        # smooth=True adds 1 to the matches and to the possible n-grams of every order, the first too
        smooth = load("bleu").compute(predictions=["a b"], references=["a c"], smooth=True)
        assert smooth["precisions"] == [2 / 3, 1 / 2, 1.0, 1.0]

    def test_they_take_items_one_by_one_and_combine(self, samples):
        module = load("bleu")
        for prediction, references in zip(*samples, strict=True):
            module.add(prediction=prediction, reference=references)
        assert module.compute() == load("bleu").compute(predictions=samples[0], references=samples[1])
        values = evaluate.combine([load("bleu"), load("rouge"), load("cider")]).compute(
            predictions=samples[0], references=samples[1]
        )
        assert {"bleu", "rougeL", "cider"} <= values.keys()


def test_it_describes_itself():
    module = load("bleu(n=4), cider")
    assert module.name == "captious" and module.module_type == "metric"
    assert "BLEU-4, CIDEr-D" in module.description
    assert "Papineni" in module.citation and "Vedantam" in module.citation
    assert "predictions" in module.compute.__doc__
