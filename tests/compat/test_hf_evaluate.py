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
    return {str(one.metric): one.corpus for one in captious.evaluate(captions, specs, Resampling(samples=0))}


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
    combined = evaluate.combine([load("bleu(n=4)"), load("rouge"), peer])
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


def test_it_describes_itself():
    module = load("bleu(n=4), cider")
    assert module.name == "captious" and module.module_type == "metric"
    assert "BLEU-4, CIDEr-D" in module.description
    assert "Papineni" in module.citation and "Vedantam" in module.citation
    assert "predictions" in module.compute.__doc__
