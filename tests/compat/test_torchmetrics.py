"""``CaptionMetric`` as torchmetrics uses its metrics, beside torchmetrics' own where both define the same number."""

import copy
import json
import math
import pickle
import subprocess
import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
import torch
from PIL import Image
from torchmetrics import MetricCollection, MetricTracker
from torchmetrics.text import BLEUScore, ROUGEScore, SacreBLEUScore

import captious
from captious import CaptionSet, InputError, Resampling
from captious.compat.torchmetrics import CaptionMetric

SPECS = "bleu(n=4), rouge, cider, distinct_n(n=2)"


@pytest.fixture
def samples(candidates, references):
    """Captions and their references as lists."""
    return list(candidates.values()), [references[key] for key in candidates]


def whole(samples, specs=SPECS):
    """The values of all samples as ``captious.evaluate`` has them."""
    captions = CaptionSet.of(dict(enumerate(samples[0])), dict(enumerate(samples[1])))
    report = captious.evaluate(captions, specs, resampling=Resampling(samples=0))
    return {str(one.metric): one.corpus for one in report}


def in_batches(metric, samples, size=5):
    for first in range(0, len(samples[0]), size):
        metric.update(*(side[first : first + size] for side in samples))
    return metric


def numbers(values):
    return {name: value.item() for name, value in values.items()}


# Beside torchmetrics' own -------------------------------------------------------------------------------------------


def validation_loop(metric, samples):
    """What a training script does with a metric of torchmetrics; a test changes only what is imported."""
    for first in range(0, len(samples[0]), 4):
        metric.update(samples[0][first : first + 4], samples[1][first : first + 4])
    value = metric.compute()
    metric.reset()
    return value


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_bleu_equals_bleuscore_on_its_own_tokens(samples, n):
    expected = validation_loop(BLEUScore(n_gram=n), samples)
    value = validation_loop(CaptionMetric(f"bleu(n={n}, tokenizer=whitespace)"), samples)
    assert type(value) is type(expected) and value.dtype == expected.dtype and value.shape == expected.shape
    assert value.item() == pytest.approx(expected.item(), abs=1e-6)
    assert expected > 0


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_bleu_equals_sacrebleuscore_on_its_own_tokens(samples, n):
    expected = validation_loop(SacreBLEUScore(n_gram=n, tokenize="13a", lowercase=True), samples)
    value = validation_loop(CaptionMetric(f"bleu(n={n}, tokenizer=13a)"), samples)
    assert value.item() == pytest.approx(expected.item(), abs=1e-6)


@pytest.mark.parametrize(("n", "part", "value"), [(1, "fmeasure", "f"), (2, "fmeasure", "f"), (1, "recall", "recall")])
def test_rouge_n_equals_rougescore(candidates, references, n, part, value):
    # One reference, for with several ROUGEScore takes precision and recall from the reference with the best F.
    samples = list(candidates.values()), [texts[:1] for texts in references.values()]
    expected = validation_loop(ROUGEScore(rouge_keys=f"rouge{n}"), samples)[f"rouge{n}_{part}"]
    measured = validation_loop(CaptionMetric(f"rouge_n(n={n}, value={value}, tokenizer=plain)"), samples)
    assert measured.item() == pytest.approx(expected.item(), abs=1e-6)


def test_rouge_n_over_several_references_equals_the_best_f_of_rougescore(samples):
    expected = validation_loop(ROUGEScore(rouge_keys="rouge1", accumulate="best"), samples)["rouge1_fmeasure"]
    value = validation_loop(CaptionMetric("rouge_n(n=1, tokenizer=plain)"), samples)
    assert value.item() == pytest.approx(expected.item(), abs=1e-6)


def test_what_differs_from_bleuscore_is_what_the_guide_says():
    # Two references equally close in length: BLEUScore takes the first, coco-caption the shorter one.
    pred, target = ["a b c d"], [["a b c d e", "a b c"]]
    value = validation_loop(CaptionMetric("bleu(n=1, tokenizer=whitespace)"), (pred, target))
    assert value.item() == pytest.approx(1.0, abs=1e-6)
    assert validation_loop(BLEUScore(n_gram=1), (pred, target)).item() == pytest.approx(math.exp(1 - 5 / 4), abs=1e-6)
    # Words are lower-cased and punctuation is dropped.
    assert validation_loop(CaptionMetric("bleu(n=1)"), (["A dog."], [["a dog"]])).item() == pytest.approx(1.0, abs=1e-6)
    assert validation_loop(BLEUScore(n_gram=1), (["A dog."], [["a dog"]])).item() == 0


# Its own tests, tests/unittests/text/test_bleu.py and test_sacre_bleu.py (Apache 2.0), on their inputs -------------

GUIDE = "It is a guide to action which ensures that the military always obeys the commands of the party"
BOOK = "he read the book because he was interested in world history"
CAT = "the cat the   cat on the mat "
GUIDES = (
    "It is a guide to action that ensures that the military will forever heed Party commands",
    "It is a guiding principle which makes the military forces always being under the command of the Party",
)
BOOKS = (
    "he was interested in world history because he read the book",
    "It is the practical guide for the army always to heed the directions of the party",
)
CATS = ("the  cat is     on the mat ", "there is a   cat on the mat")
BATCHES = [((GUIDE, BOOK), (GUIDES, BOOKS)), ((BOOK, CAT), (BOOKS, CATS))]
# What SacreBLEUScore's ``tokenize`` and ``lowercase`` are called here.
TOKENIZERS = {
    ("none", False): "whitespace",
    ("none", True): "whitespace-lower",
    ("13a", False): "13a-cased",
    ("13a", True): "13a",
    ("zh", False): "zh-cased",
    ("zh", True): "zh",
    ("intl", False): "intl-cased",
    ("intl", True): "intl",
    ("char", False): "char-cased",
    ("char", True): "char",
}


def compare_with_peer(metric, peer, batches):
    """Both by ``forward`` on every batch, and on all of them at the end."""
    for preds, target in batches:
        assert metric(preds, target).item() == pytest.approx(peer(preds, target).item(), abs=1e-6)
    assert metric.compute().item() == pytest.approx(peer.compute().item(), abs=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_its_tests_of_bleuscore(n):
    compare_with_peer(CaptionMetric(f"bleu(n={n}, tokenizer=whitespace)"), BLEUScore(n_gram=n), BATCHES)


@pytest.mark.parametrize(("tokenize", "lowercase"), TOKENIZERS)
def test_its_tests_of_sacrebleuscore(tokenize, lowercase):
    ours = CaptionMetric(f"bleu(n=4, tokenizer={TOKENIZERS[tokenize, lowercase]})")
    compare_with_peer(ours, SacreBLEUScore(tokenize=tokenize, lowercase=lowercase), BATCHES)


@pytest.mark.parametrize(
    ("tokenize", "package", "preds", "target"),
    [
        ("ja-mecab", "MeCab", "これは美しい花です。", ("これは美しい花です。", "おいしい寿司を食べたい。")),
        ("ko-mecab", "mecab_ko", "이 책은 정말 재미있어요.", ("이 책은 정말 재미있어요.", "고마워요, 너무 도와줘서.")),
    ],
)
def test_its_tests_of_segmenters(tokenize, package, preds, target):
    pytest.importorskip(package, reason=f"{package} is not installed")
    ours = CaptionMetric(f"bleu(n=4, tokenizer={tokenize}-raw)")
    compare_with_peer(ours, SacreBLEUScore(tokenize=tokenize), [([preds], [target])])


def test_its_test_of_nothing():
    """An empty list of words is an empty caption."""
    for preds, target in (([[]], [[[]]]), ([""], [[""]])):
        assert BLEUScore()(preds, target) == CaptionMetric("bleu(n=4, tokenizer=whitespace)")(preds, target) == 0


def test_its_test_of_an_order_without_a_match_differs_as_the_guide_says():
    preds, target = ["My full pytorch-lightning"], [["My full pytorch-lightning test", "Completely Different"]]
    assert BLEUScore()(preds, target) == 0
    # Three words, so no 4-gram: (3/3 · 2/2 · 1/1 · 1e-15/1e-9)^(1/4). Of four and two words the shorter is the length.
    value = CaptionMetric("bleu(n=4, tokenizer=whitespace)")(preds, target)
    assert value.item() == pytest.approx((1e-6) ** (1 / 4), abs=1e-6)


# As torchmetrics uses it --------------------------------------------------------------------------------------------


def test_batches_give_the_values_of_the_whole_set(samples):
    metric = in_batches(CaptionMetric(SPECS), samples)
    assert numbers(metric.compute()) == pytest.approx(whole(samples), abs=1e-6)


def test_one_metric_gives_a_tensor_and_several_a_dictionary(samples):
    assert in_batches(CaptionMetric("cider"), samples).compute().shape == ()
    assert list(in_batches(CaptionMetric("bleu"), samples).compute()) == [f"bleu(n={n})" for n in (1, 2, 3, 4)]


def test_reset_forgets(samples):
    metric = in_batches(CaptionMetric("rouge"), samples)
    metric.reset()
    metric.update(["a dog"], [["a dog"]])
    assert metric.compute() == 1
    metric.reset()
    with pytest.warns(UserWarning, match="was called before the ``update`` method"):
        assert metric.compute().isnan()


def test_forward_gives_the_value_of_the_batch_and_remembers_it(samples):
    metric = CaptionMetric("rouge")
    for first in range(0, len(samples[0]), 4):
        batch = [side[first : first + 4] for side in samples]
        assert metric(*batch).item() == pytest.approx(whole(batch, "rouge")["rouge"], abs=1e-6)
    assert metric.compute().item() == pytest.approx(whole(samples, "rouge")["rouge"], abs=1e-6)


def test_a_repeated_id_counts_once():
    metric = CaptionMetric("rouge")
    metric.update(["a dog", "a cat"], [["a dog"], ["two birds"]], ids=torch.tensor([3, 4]))
    metric.update(["a dog"], [["a dog"]], ids=[3])
    assert metric.compute() == 0.5
    metric.update(["a dog"], [["a dog"]])  # without an id it is a sample of its own
    assert metric.compute().item() == pytest.approx(2 / 3)
    assert metric.captions().ids == ("3", "4", "#3")


def test_merge_state_is_the_union(samples):
    left, right = CaptionMetric(SPECS), CaptionMetric(SPECS)
    left.update(*(side[:5] for side in samples))
    right.update(*(side[5:] for side in samples))
    left.merge_state(right)
    assert numbers(left.compute()) == pytest.approx(whole(samples), abs=1e-6)


def test_it_can_be_pickled_copied_cast_and_saved(samples):
    metric = in_batches(CaptionMetric(SPECS), samples)
    expected = pytest.approx(whole(samples), abs=1e-6)
    for other in (
        pickle.loads(pickle.dumps(metric)),
        copy.deepcopy(metric),
        metric.clone(),
        metric.to("cpu"),
        metric.set_dtype(torch.float16),
    ):
        other._computed = None
        assert numbers(other.compute()) == expected
    saved = in_batches(CaptionMetric("rouge"), samples)
    saved.persistent(True)
    restored = CaptionMetric("rouge")
    restored.persistent(True)
    restored.load_state_dict(saved.state_dict())
    assert len(restored.captions()) == len(samples[0])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is here")
def test_on_a_gpu(samples):
    metric = in_batches(CaptionMetric("cider").to("cuda"), samples)
    assert metric.compute().device.type == metric.samples[0].device.type == "cuda"
    metric = in_batches(CaptionMetric("cider", compute_on_cpu=True).to("cuda"), samples)
    assert metric.samples[0].device.type == "cpu"
    metric.sync(lambda state, group: [state, state], distributed_available=lambda: True)
    assert metric.samples.device.type == "cuda"  # where NCCL can gather it


def test_in_a_collection_beside_metrics_of_torchmetrics(samples):
    collection = MetricCollection(
        {"peer": BLEUScore(), "bleu": CaptionMetric("bleu(n=4, tokenizer=whitespace)"), "all": CaptionMetric(SPECS)}
    )
    for first in range(0, len(samples[0]), 4):
        collection.update(
            *(side[first : first + 4] for side in samples), ids=list(range(first, min(first + 4, len(samples[0]))))
        )
    values = numbers(collection.compute())
    assert values["bleu"] == pytest.approx(values["peer"], abs=1e-6)
    expected = whole(samples)
    assert values["cider"] == pytest.approx(expected["cider"], abs=1e-6)
    assert {tuple(group) for group in collection.compute_groups.values()} == {("peer",), ("all", "bleu")}


def test_the_direction_is_known_to_a_tracker(samples):
    assert CaptionMetric("cider, rouge").higher_is_better is True
    assert CaptionMetric("mbleu(n=4)").higher_is_better is False
    assert CaptionMetric("cider, mbleu(n=4)").higher_is_better is None
    tracker = MetricTracker(CaptionMetric("rouge"))
    for preds in (["a cat"], ["a dog"], ["birds"]):
        tracker.increment()
        tracker.update(preds, [["a dog"]])
    assert tracker.best_metric(return_step=True) == (1.0, 1)


def test_it_prints_its_metrics():
    assert repr(CaptionMetric("bleu(n=4), rouge")) == "CaptionMetric('bleu(n=4), rouge')"
    assert repr(CaptionMetric("rouge", language="zh")) == "CaptionMetric('rouge', language='zh')"
    assert repr(MetricCollection({"a": CaptionMetric("rouge")})).split() == [
        "MetricCollection(", "(a):", "CaptionMetric('rouge')", ")",
    ]  # fmt: skip


def test_plot_draws_as_torchmetrics_does(samples):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'captious[plot]'")
    import matplotlib

    matplotlib.use("Agg")
    metric = in_batches(CaptionMetric("rouge"), samples)
    axes = metric.plot()[1]
    assert axes.lines[0].get_ydata() == [pytest.approx(metric.compute().item())] and axes.get_ylabel() == "rouge"
    assert metric.plot_lower_bound == 0 and metric.plot_upper_bound == 1
    assert metric.plot([metric.compute()] * 3, axes)[1] is axes and len(axes.lines[1].get_ydata()) == 3
    several = in_batches(CaptionMetric("bleu(n=1), cider"), samples)
    assert (several.plot_lower_bound, several.plot_upper_bound) == (0, None)
    legend = several.plot()[1].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["bleu(n=1)", "cider"]
    matplotlib.pyplot.close("all")


def test_plot_without_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        ImportError, match=r"this needs matplotlib, which is not installed: pip install 'captious\[plot"
    ):
        CaptionMetric("rouge").plot()


def test_several_candidates_and_images(colors, photos):
    metric = CaptionMetric("clipscore(weights=colors), div_n(n=1)")
    metric.update([["a red dog", "red"], ["blue", "a blue sky"]], images=[photos / "red.png", str(photos / "blue.png")])
    values = numbers(metric.compute())
    # CLIPScore puts "A photo depicts" before a caption. Of "a red dog" one word of six is red, of "red" one of four, so
    # that the cosines with a red image are 1/√(1² + 5²) and 1/√(1² + 3²); CLIPScore is 2.5 times their mean.
    assert values["clipscore(weights=colors)"] == pytest.approx(2.5 * (1 / 26**0.5 + 1 / 10**0.5) / 2, abs=1e-5)
    assert values["div_n(n=1)"] == pytest.approx(3 / 4)  # a red dog red: three distinct words of four; blue alike


def test_images_are_what_evaluate_takes(colors, photos):
    """Paths, PIL images, arrays, a batch in one tensor: the values of all are those of ``captious.evaluate``."""
    paths = [photos / "red.png", photos / "blue.png"]
    pictures = [Image.open(path) for path in paths]
    arrays = [np.asarray(picture) for picture in pictures]
    batch = torch.stack([torch.from_numpy(array.copy()).permute(2, 0, 1) for array in arrays])
    preds, spec = ["a red dog", "a blue sky"], "clipscore(weights=colors)"
    expected = captious.evaluate(preds, spec, resampling=Resampling(0), images=paths)[spec].values.tolist()
    assert len(set(expected)) == 1 and expected[0] > 0
    cmyk = [picture.convert("CMYK") for picture in pictures]
    files = [path.read_bytes() for path in paths]
    for images in (paths, list(map(str, paths)), pictures, arrays, batch, batch / 255, list(batch), cmyk, files):
        metric = CaptionMetric(spec)
        metric.update(preds[:1], images=images[:1])
        metric.update(preds[1:], images=images[1:], ids=["second"])
        metric = pickle.loads(pickle.dumps(metric))
        assert metric.report(Resampling(0))[spec].values.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("synced", [False, True], ids=["here", "sync on step"])
def test_what_torchmetrics_own_class_test_asks_of_a_text_metric(n, synced):
    """Its steps: compile, pickle, two batches by ``forward``, hash, compute. The peer there is NLTK, as here."""
    bleu_score = pytest.importorskip("nltk.translate.bleu_score", reason="NLTK is not installed")
    batches = [
        (
            ["the dog runs over the green grass", "a man is riding a wave on a board"],
            [["the dog runs over the grass now", "a dog on the green grass"], ["a man riding on a wave on a board"]],
        ),
        (
            ["a plate with a slice of cake and a fork"],
            [["a plate with a slice of cake", "a slice of chocolate cake and a fork"]],
        ),
    ]

    def peer(preds, targets):
        references = [[text.split() for text in texts] for texts in targets]
        return bleu_score.corpus_bleu(references, [text.split() for text in preds], weights=[1 / n] * n)

    metric = CaptionMetric(f"bleu(n={n}, tokenizer=whitespace)", dist_sync_on_step=synced)
    torch.jit.script(metric)
    metric = pickle.loads(pickle.dumps(metric))
    for preds, targets in batches:
        assert metric(preds, targets).item() == pytest.approx(peer(preds, targets), abs=1e-6)
    assert hash(metric)
    whole = [list(chain.from_iterable(sides)) for sides in zip(*batches, strict=True)]
    assert metric.compute().item() == pytest.approx(peer(*whole), abs=1e-6)
    assert peer(*whole) > 0.1


def test_text_of_every_kind_survives_the_state():
    odd = ["a\ndog\u2028", "naïve 🐕", "tab\t\x1e\x85", "\ud800", ""]
    metric = CaptionMetric("rouge")
    metric.update(odd, [[text] for text in odd])
    assert [item.candidate for item in metric.captions()] == odd
    metric.update([], [])
    assert len(metric.captions()) == len(odd)


def test_report_has_intervals_and_items(samples):
    report = in_batches(CaptionMetric("rouge"), samples).report(Resampling(samples=20))
    assert report.intervals["rouge"].low < report["rouge"].corpus < report.intervals["rouge"].high
    assert len(report["rouge"].items) == len(samples[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"preds": ["a"], "target": [["a"], ["b"]]}, "target has 2 entries, expected 1: one for each of preds"),
        ({"preds": ["a", "b"], "target": "a dog"}, "target has 1 entries, expected 2: one for each of preds"),
        ({"preds": ["a"], "target": [["a"]], "ids": [1, 2]}, "ids has 2 entries, expected 1: one for each of preds"),
        ({"preds": [7], "target": [["a"]]}, "preds[0] is 7, expected a text or a list of texts"),
        ({"preds": ["a"], "target": [[["a"]]]}, "target[0] is [['a']], expected a text or a list of texts"),
        (
            {"preds": ["a"], "target": [["a"]], "images": [7]},
            "images: that of 0 is int, expected a path, a PIL image, an array or a tensor",
        ),
        (
            {"preds": ["a"], "target": [["a"]], "images": torch.full((1, 3, 4, 4), -1.5)},
            "images: image of 0 has floats from -1.5 to -1.5, expected floats from 0 to 1; is it normalized for a "
            "model?",
        ),
        (
            {"preds": ["a"], "target": [["a"]], "images": ["1.png", "2.png"]},
            "images: 2 for 1 captions, expected one for each, in their order",
        ),
    ],
)
def test_mistakes_are_one_line(arguments, message):
    with pytest.raises(InputError) as error:
        CaptionMetric("rouge").update(**arguments)
    assert str(error.value) == message


def test_what_no_metric_can_score_says_why():
    metric = CaptionMetric("cider")
    metric.update(["a dog"])
    with pytest.raises(InputError, match="cider cannot score samples: no references"):
        metric.compute()
    with pytest.raises(InputError, match="unknown metric 'cidr'"):
        CaptionMetric("cidr")


def test_two_processes_equal_one(tmp_path, candidates, references):
    rows = [(candidates[key], references[key]) for key in list(candidates)[:11]]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    script = Path(__file__).with_name("two_processes.py")
    processes = [subprocess.Popen([sys.executable, str(script), str(tmp_path), str(rank)]) for rank in range(2)]
    assert [process.wait(300) for process in processes] == [0, 0]
    samples = tuple(zip(*rows, strict=True))
    expected = whole(samples)
    first = json.loads((tmp_path / "rank0.json").read_text())
    second = json.loads((tmp_path / "rank1.json").read_text())
    for results in (first, second):
        assert results["all"] == pytest.approx(expected, abs=1e-6)  # twelve samples were sent, eleven are scored
        assert results["held"] == 6  # what was gathered is given back after compute
        assert results["lonely"] == pytest.approx(expected["rouge"], abs=1e-6)
        assert math.isnan(results["nothing"])
        ten = whole([side[:10] for side in samples], "bleu(n=1), cider")
        assert list(results["collection"].values()) == pytest.approx(list(ten.values()), abs=1e-6)
