"""Metrics of CLIP on videos: pooling, its parts, and what a signature says.

Golden numbers: `tiny_clips/pooling.json`, made by hand from the vectors of captious-mini and the stored PNG frames.
By hand: see `ColorEncoder` in conftest.py. With the frames red, red and green, "a red dog" without words before it is
(1, 0, 0, 2), its cosines are 1/√5, 1/√5 and 0, and the sum of the frames is (2, 1, 0, 0) with the length √5.
"""

import json
import math

import numpy as np
import pytest
from PIL import Image

from captious._core.frame_rules import FrameRule
from captious._evaluate import evaluate
from captious.captions import CaptionSet, VideoData
from captious.errors import InputError
from captious.metrics.registry import parse
from captious.options import Resampling

POOLS = ("mean", "best", "worst", "vector")


@pytest.fixture
def clips(shared_data):
    pytest.importorskip("av", reason="PyAV is not installed: pip install 'captious[video]'")
    return shared_data / "tiny_clips"


def make_set(videos, captions, frames="uniform:10", **columns):
    ids = [str(number) for number in range(len(captions))]
    made = CaptionSet.of(dict(zip(ids, captions, strict=True)), columns={"video": videos, **columns})
    object.__setattr__(made, "frames", FrameRule.parse(frames))
    return made


@pytest.mark.shared_data
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize(("name", "rule"), [("scenes", "uniform:6"), ("counter", "uniform:4")])
@pytest.mark.parametrize("form", ["clip", "folder"])
def test_the_stored_values(name, rule, pool, form, clips):
    golden = json.loads((clips / "pooling.json").read_text())[name]["captions"]
    video = str(clips / f"{name}.mp4") if form == "clip" else str(clips / "frames" / name)
    captions = make_set([video] * len(golden), [one["text"] for one in golden], rule)
    measured = parse(f"clipscore(captious-mini,pool={pool})").measure(captions)
    tolerance = 1e-3 if form == "clip" else 2e-6
    assert measured.values.tolist() == pytest.approx([one[pool] for one in golden], abs=tolerance)


@pytest.mark.shared_data
def test_mean_is_vector_times_the_length_of_the_mean(clips):
    golden = json.loads((clips / "pooling.json").read_text())["scenes"]
    captions = make_set([str(clips / "frames" / "scenes")], ["two orange cats beside a red chair"])
    mean, vector = (
        parse(f"clipscore(captious-mini,pool={pool})").measure(captions).corpus for pool in ("mean", "vector")
    )
    assert mean == pytest.approx(golden["norm_of_mean"] * vector, abs=1e-6)


@pytest.fixture
def striped(photos):
    """A video of two red frames and a green one."""
    return VideoData([str(photos / f"{color}.png") for color in ("red", "red", "green")], "striped")


@pytest.mark.usefixtures("colors")
@pytest.mark.parametrize(
    ("pool", "cosine"),
    [
        ("mean", 2 / (3 * math.sqrt(5))),
        ("best", 1 / math.sqrt(5)),
        ("worst", 0.0),
        ("vector", 2 / (math.sqrt(5) * math.sqrt(5))),
    ],
)
def test_pooling_by_hand(striped, pool, cosine):
    captions = make_set([striped], ["a red dog"])
    for text, value in [
        ('clipscore(prefix="",pool={})', 2.5 * cosine),
        ('pacscore(weights=pac,prefix="",pool={})', 2 * cosine),
        ("longclip(pool={})", cosine),
        ("specs(pool={})", (cosine + 1) / 2),
        ('specs_routed(prefix="",pool={})', (cosine + 1) / 2),
    ]:
        metric = parse(text.format(pool))
        assert metric.measure(captions).corpus == pytest.approx(value, abs=1e-6)
        explained = metric.explain(captions, "0")
        assert sum(part.adds for part in explained.parts) == pytest.approx(value, abs=1e-6)
        assert [part.name for part in explained.parts] == ["frame 0", "frame 1", "frame 2"]
        assert explained.breakdown.notes == [f"best: frame 0, cosine {1 / math.sqrt(5):.4f}"]


@pytest.mark.usefixtures("colors")
def test_refclipscore_joins_the_pooled_part(striped):
    captions = CaptionSet.of({"0": "a red dog"}, {"0": ["a red cat", "a green cat"]}, {"video": [striped]})
    metric = parse('refclipscore(prefix="")')
    image, text = 2.5 * 2 / (3 * math.sqrt(5)), 1.0  # "a red cat" has the vector of the caption
    assert metric.measure(captions).corpus == pytest.approx(2 * image * text / (image + text), abs=1e-6)
    explained = metric.explain(captions, "0")
    assert sum(part.adds for part in explained.parts) == pytest.approx(explained.value, abs=1e-6)


@pytest.mark.usefixtures("colors")
@pytest.mark.parametrize("pool", POOLS)
def test_a_video_of_one_frame_is_an_image(photos, pool):
    path = str(photos / "red.png")
    video = make_set([VideoData([path])], ["a red dog"])
    image = CaptionSet.of({"0": "a red dog"}, columns={"image": [path]})
    metric = parse(f"clipscore(pool={pool})")
    assert metric.measure(video).corpus == metric.measure(image).corpus


@pytest.mark.usefixtures("colors")
def test_several_candidates_and_sets_of_images_and_videos(striped, photos):
    red = str(photos / "red.png")
    captions = CaptionSet.of(
        {"v": ["a red dog", "a green dog"], "i": "a red dog", "both": "a red dog", "none": "a red dog", "blank": " "},
        columns={"video": [striped, None, striped, None, striped], "image": [None, red, red, None, None]},
    )
    measured = parse('clipscore(prefix="")').measure(captions)
    one, other = 2 / (3 * math.sqrt(5)), 1 / (3 * math.sqrt(5))
    assert measured.items["v"] == pytest.approx(2.5 * (one + other) / 2, abs=1e-6)
    assert measured.items["i"] == pytest.approx(2.5 / math.sqrt(5), abs=1e-6)
    assert measured.items["both"] == pytest.approx(2.5 * one, abs=1e-6)  # the video
    assert measured.reasons == {"none": "no image", "blank": "empty caption"}


@pytest.mark.usefixtures("colors")
def test_signatures(striped, photos):
    def sign(captions, text="clipscore"):
        return str(parse(text).measure(captions).signature)

    image = CaptionSet.of({"0": "a red dog"}, columns={"image": [str(photos / "red.png")]})
    assert "frames" not in sign(image) and "short" not in sign(image)
    assert "|frames:uniform:10|" in sign(make_set([striped], ["a red dog"]))
    assert "|short:1|" in sign(make_set([striped], ["a red dog"]))
    assert "|frames:uniform:2|" in sign(make_set([striped], ["a red dog"], "uniform:2"))
    assert "short" not in sign(make_set([striped], ["a red dog"], "uniform:2"))
    assert sign(make_set([striped], ["a red dog"]), "clipscore(pool=best)").startswith("clipscore(pool=best)|")
    features = make_set([VideoData(np.eye(4)[:2])], ["a red dog"])
    assert "|frames:features#" in sign(features) and "short" not in sign(features)


@pytest.mark.usefixtures("colors")
def test_features_are_frames(striped):
    vectors = VideoData(np.array([[2.0, 0, 0, 0], [5, 0, 0, 0], [0, 1, 0, 0]]))
    metric = parse('clipscore(prefix="")')
    assert metric.measure(make_set([vectors], ["a red dog"])).corpus == pytest.approx(
        metric.measure(make_set([striped], ["a red dog"])).corpus, abs=1e-6
    )


@pytest.mark.shared_data
def test_counts_of_odd_clips(clips):
    videos = [str(clips / name) for name in ("cut.webm", "counter_rotated.mp4", "cut.mp4")]
    measured = parse("clipscore(captious-mini)").measure(make_set(videos, ["a dog"] * 3))
    assert "|short:1|cut:1|rotated:1|unscored:1|" in str(measured.signature)
    assert measured.reasons == {"2": "video: breaks off before its index (moov)"}
    missing = make_set(["no.mp4"], ["a dog"])
    with pytest.raises(InputError, match=r"no such video; none of the videos exists: pass videos=\.\.\."):
        evaluate(missing, "clipscore(captious-mini)", resampling=Resampling(0))


@pytest.mark.usefixtures("colors")
def test_metrics_that_read_no_videos(striped, photos):
    with pytest.raises(InputError, match=r"umic.* reads regions of images; videos are not supported"):
        evaluate(make_set([striped], ["a red dog"]), "umic(weights=mine)", resampling=Resampling(0))
    with pytest.raises(InputError, match=r"polos.* reads images; videos are not supported"):
        held = CaptionSet.of({"0": "a red dog"}, {"0": ["a dog"]}, {"video": [striped]})
        evaluate(held, "polos(weights=mine)", resampling=Resampling(0))


@pytest.mark.shared_data
def test_metrics_of_two_encoders_decode_a_clip_once(clips, monkeypatch):
    from captious.models import frame_features

    opened = []
    decode = frame_features.FileReader._decode_file
    monkeypatch.setattr(
        frame_features.FileReader,
        "_decode_file",
        lambda self, process, video, own: opened.append(str(video)) or decode(self, process, video, own),
    )
    names = ("scenes.mp4", "counter.mp4")
    captions = make_set([str(clips / name) for name in names], ["a dog", "a cat"])
    metrics = "clipscore(captious-mini),longclip(captious-mini-specs),specs(captious-mini-specs,pool=best)"
    evaluate(captions, metrics, resampling=Resampling(0))
    assert sorted(opened) == sorted(str(clips / name) for name in names)


@pytest.mark.usefixtures("colors")
def test_a_rule_of_times_needs_a_clip(striped):
    measured = parse("clipscore").measure(make_set([striped, None], ["a red dog", "a dog"], "fps:1", image=[None, "x"]))
    assert measured.reasons["0"].startswith("video: is given by its frames, which have no times")


@pytest.mark.usefixtures("colors")
def test_matched_cosines_are_those_of_the_pool(striped, photos):
    captions = make_set([striped] * 3, ["a red dog", "a red", "red"])
    metric = parse('specs_routed(prefix="",scale=matched,under=4,pool=best)')
    assert metric.measure(captions).values.tolist() == pytest.approx(
        [2.5 * one for one in (1 / math.sqrt(5), 1 / math.sqrt(2), 1.0)], abs=1e-4
    )


def test_pixels_in_memory(colors):
    image = np.zeros((2, 8, 8, 3), np.uint8)
    image[..., 0] = 255
    captions = make_set([VideoData(image), VideoData([Image.new("RGB", (8, 8), "red")])], ["red", "red"])
    values = parse('clipscore(prefix="")').measure(captions).values
    assert values.tolist() == pytest.approx([2.5, 2.5], abs=1e-6)
