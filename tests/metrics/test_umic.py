"""The metric on a trained model: names, reasons, signature, several candidates."""

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.clip.clipscore import ClipScore
from captious.metrics.registry import parse
from captious.metrics.umic import Umic
from captious.models.fusion import make_fusion
from captious.options import Runtime, using

MINI = "captious-mini"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """An untrained fusion over captious-mini: its scores are the sigmoid of its cosine."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("umic")
    with using(Runtime(device="cpu")):
        make_fusion(MINI, width=16).save(folder)
    return folder


@pytest.fixture
def photos(tmp_path):
    for name, color in (("1", (200, 0, 0)), ("2", (0, 0, 200))):
        Image.new("RGB", (40, 30), color).save(tmp_path / f"{name}.png")
    (tmp_path / "3.png").write_bytes(b"no image")
    return tmp_path


@pytest.fixture(autouse=True)
def on_cpu():
    with using(Runtime(device="cpu")):
        yield


def a_set(photos, candidates, images):
    paths = [str(photos / f"{name}.png") if name else None for name in images]
    return CaptionSet.of(candidates, dict.fromkeys(candidates, ()), {"image": paths})


def test_untrained_it_is_the_sigmoid_of_the_encoders_cosine(model, photos):
    captions = a_set(photos, {"a": "a red dog", "b": "two blue houses"}, ["1", "2"])
    found = Umic(weights=str(model)).measure(captions).values
    cosine = ClipScore(weights=MINI, value="raw", prefix="").measure(captions).values
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-cosine)), atol=1e-6)


def test_images_in_memory_are_judged_as_their_files(model, photos):
    captions = a_set(photos, {"a": "a red dog", "b": "two blue houses"}, ["1", "2"])
    shown = CaptionSet.of(
        {"a": "a red dog", "b": "two blue houses"}, columns={"image": [Image.open(path) for path in captions.images]}
    )
    metric = Umic(weights=str(model))
    np.testing.assert_allclose(metric.measure(shown).values, metric.measure(captions).values, atol=1e-6)


def test_an_item_with_several_candidates_has_their_mean(model, photos):
    several = a_set(photos, {"a": ["a red dog", "two blue houses"]}, ["1"])
    single = a_set(photos, {"a": "a red dog", "b": "two blue houses"}, ["1", "1"])
    metric = Umic(weights=str(model))
    assert metric.measure(several).values[0] == pytest.approx(metric.measure(single).values.mean(), abs=1e-9)


def test_items_without_a_value_say_why(model, photos):
    captions = a_set(photos, {"a": "a dog", "b": "a dog", "c": "a dog", "d": "  "}, ["1", "3", None, "2"])
    measured = Umic(weights=str(model)).measure(captions)
    assert np.isfinite(measured.values[0]) and np.isnan(measured.values[1:]).all()
    assert "not an image" in measured.reasons["b"]
    assert measured.reasons["c"] == "no image" and measured.reasons["d"] == "empty caption"


def test_it_is_never_called_plain_umic(model, photos):
    metric = Umic(weights=str(model))
    assert metric.label == "umic-fusion" and str(metric) == f"umic(weights={model})"
    signature = str(metric.measure(a_set(photos, {"a": "a dog"}, ["1"])).signature)
    assert signature.startswith("umic(") and "model:umic-fusion#" in signature and "captious-mini#" in signature


def test_a_caption_beyond_the_limit_is_counted(model, photos):
    captions = a_set(photos, {"a": "a dog " * 200, "b": "a dog"}, ["1", "1"])
    metric = Umic(weights=str(model))
    assert "truncated:1" in str(metric.measure(captions).signature)
    assert "1 caption is longer than the encoder's 248 tokens" in metric.measure(captions).warnings[0]


def test_weights_that_are_none(photos, tmp_path):
    captions = a_set(photos, {"a": "a dog"}, ["1"])
    with pytest.raises(InputError, match="umic needs weights: a folder that captious train umic wrote"):
        Umic().measure(captions)
    with pytest.raises(InputError, match=r"has no captious-umic\.json"):
        Umic(weights=str(tmp_path)).measure(captions)


def test_regions_are_for_the_original_only(model, photos):
    with pytest.raises(InputError, match="umic-fusion, which looks at images itself; regions are for uniter"):
        Umic(weights=str(model), regions=str(photos)).measure(a_set(photos, {"a": "a dog"}, ["1"]))


def test_shards_merge_and_the_printed_name_reads_back(model, photos):
    metric = Umic(weights=str(model))
    whole = a_set(photos, {"a": "a red dog", "b": "two blue houses", "c": "a tree"}, ["1", "2", "1"])
    state = metric.prepare(whole)
    merged = metric.measure(whole.take([0]), state).merge(metric.measure(whole.take([1, 2]), state))
    np.testing.assert_allclose(merged.values, metric.measure(whole).values, atol=1e-6)
    assert str(merged.signature) == str(metric.measure(whole).signature)
    assert parse(str(metric)) == metric
