"""CLIPScore and its kin by hand: see `ColorEncoder` in conftest.py for the vectors."""

import io
import math
import tarfile

import numpy as np
import pytest
from tests.merging import measure_parts

from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.shards import expand, read_shard
from captious.metrics.registry import get_metric_class, parse
from captious.options import Resampling, Runtime, using

pytestmark = pytest.mark.usefixtures("colors")


def shown(photos, candidates, references=None, images=None):
    paths = [str(photos / f"{name}.png") for name in images or candidates]
    return CaptionSet.of(candidates, references, {"image": paths})


def test_clipscore_is_the_clipped_cosine_times_2_5(photos):
    captions = shown(photos, {"red": "red", "green": "a red dog"}, images=["red", "green"])
    measured = parse("clipscore").measure(captions)
    # "A photo depicts red" is (1, 0, 0, 3), its cosine with (1, 0, 0, 0) is 1/√10; green shares nothing.
    assert measured.items["red"] == pytest.approx(2.5 / math.sqrt(10), abs=1e-6)
    assert measured.items["green"] == 0
    assert measured.corpus == pytest.approx(1.25 / math.sqrt(10), abs=1e-6)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('clipscore(prefix="")', 2.5),
        ("clipscore(w=1)", 1 / math.sqrt(10)),
        ("clipscore(weights=turned)", 0.0),
        ("clipscore(weights=turned,value=raw)", -1 / math.sqrt(10)),
        ("pacscore(weights=pac)", 2 / math.sqrt(10)),
        ("longclip", 1.0),
        ("longclip(weights=turned)", -1.0),
        ("longclip(weights=turned,value=clipped)", 0.0),
        ("longclip(value=clipped)", 2.5),
        ("specs", 1.0),
        ("specs(weights=turned)", 0.0),
        ("specs(weights=turned,value=raw)", -1.0),
        ("specs(weights=turned,value=paper)", 0.0),
    ],
)
def test_the_options(photos, text, value):
    measured = parse(text).measure(shown(photos, {"red": "red"}))
    assert measured.corpus == pytest.approx(value, abs=1e-6)
    low, high = measured.metric.range
    assert low - 1e-6 <= measured.corpus <= high + 1e-6


def test_refclipscore_joins_image_and_nearest_reference(photos):
    captions = shown(
        photos,
        {"red": "red", "green": "red", "blue": "blue"},
        {"red": ["green", "red"], "green": ["red"], "blue": ["x"]},
    )
    measured = parse('refclipscore(prefix="")').measure(captions)
    assert measured.items["red"] == pytest.approx(2 * 2.5 * 1 / 3.5)  # image 2.5, nearest reference 1
    assert measured.items["green"] == 0  # the image is not like the caption
    assert measured.items["blue"] == 0  # no reference is
    # Behind the words "A photo depicts ": image 2.5/√10, references 9/10 and 10/10.
    image = 2.5 / math.sqrt(10)
    assert parse("refclipscore").measure(captions).items["red"] == pytest.approx(2 * image / (image + 1), abs=1e-6)


def test_refclipscore_as_the_code_has_no_value_for_0_by_0(photos):
    captions = shown(photos, {"red": "blue"}, {"red": ["green"]})
    assert parse('refclipscore(prefix="")').measure(captions).corpus == 0
    measured = parse('refclipscore(prefix="",clip_text=no)').measure(captions)
    assert math.isnan(measured.items["red"]) and "0 / 0" in measured.reasons["red"]
    with pytest.raises(InputError, match="expected one of clipped"):
        parse("refclipscore(value=raw)")


def test_several_candidates_have_their_mean(photos):
    captions = shown(photos, {"red": ["red", "red red", "green"]})
    assert parse('clipscore(prefix="")').measure(captions).corpus == pytest.approx(5 / 3)


def test_what_cannot_be_scored_has_a_reason(photos):
    captions = CaptionSet.of(
        {"1": "red", "2": "red", "3": " ", "4": "red", "5": ["red", ""]},
        columns={
            "image": [str(photos / "red.png"), str(photos / "broken.png"), str(photos / "red.png"), None, "no.png"]
        },
    )
    measured = parse("longclip").measure(captions)
    assert measured.items["1"] == pytest.approx(1)
    assert measured.reasons["2"].startswith("image: ") and "not an image" in measured.reasons["2"]
    assert measured.reasons["3"] == "empty caption" and measured.reasons["4"] == "no image"
    assert measured.reasons["5"] == "empty caption"
    assert measured.corpus == pytest.approx(1) and "unscored:4" in str(measured.signature)


def test_a_set_without_images_is_refused_with_the_remedy(monkeypatch):
    with pytest.raises(InputError, match="no image; pass images="):
        evaluate(CaptionSet.of({"1": "red"}), "clipscore")
    from captious.models import loading

    def absent(weights, **options):
        raise InputError("no weights")

    monkeypatch.setattr(loading, "load", absent)
    with pytest.raises(InputError, match="no image; pass images="):
        evaluate(CaptionSet.of({"1": "red"}), "clipscore")
    with pytest.raises(InputError, match="no weights"):
        evaluate(CaptionSet.of({"1": "red"}, columns={"image": ["red.png"]}), "clipscore")


def test_pac_s_says_what_to_get(photos):
    with pytest.raises(
        InputError, match=r"clip_ViT-B-32.pth from the repository aimagelab/pacscore.*pacscore\(weights="
    ):
        evaluate(shown(photos, {"red": "red"}), "pacscore")


def test_captions_beyond_the_limit_are_counted_and_listed(photos):
    long = "red " * 9
    captions = shown(photos, {"red": long, "green": long, "blue": "blue"})
    report = evaluate(captions, "longclip(weights=short)", resampling=Resampling(samples=0))
    assert "|items:3|truncated:2|" in report.signature("longclip")
    assert "LongCLIP: 2 captions are longer than the encoder's 8 tokens and were truncated (ids red, green)" in (
        report.warnings
    )
    assert report.document().data["warnings"] == list(report.warnings)


def test_shards_merge_exactly(photos):
    captions = shown(
        photos,
        {"red": "a red dog " * 3, "green": ["green", "red grass"], "blue": "x", "broken": "red"},
        {"red": ["red"], "green": ["green"], "blue": ["blue"], "broken": ["red"]},
    )
    for text in (
        "clipscore(weights=short)",
        "refclipscore(weights=short)",
        "specs_routed(under=5)",
        "specs_routed(under=5,scale=matched)",
    ):
        metric = parse(text)
        whole = metric.measure(captions)
        merged = measure_parts([captions.take([0]), captions.take([1, 2]), captions.take([3])], metric)
        assert np.allclose(merged.values, whole.values, atol=1e-12, equal_nan=True)
        assert str(merged.signature) == str(whole.signature) and merged.reasons == whole.reasons


def test_the_encoder_stands_in_the_signature(photos):
    measured = parse("specs(weights=spec.pt)").measure(shown(photos, {"red": "red"}))
    assert "|encoder:spec.pt#" in str(measured.signature) and "|precision:fp32|" in str(measured.signature)


def test_no_metric_asks_for_what_is_not_there(photos):
    for name in ("clipscore", "longclip", "specs", "specs_routed"):
        assert "references" not in get_metric_class(name)().needs
        assert not math.isnan(parse(name).measure(shown(photos, {"red": "red"})).corpus)


@pytest.mark.usefixtures("colors")
def test_images_that_were_turned_stand_in_the_signature(photos):
    """The same file gives another number then, and the cache keeps the two apart."""
    captions = CaptionSet.of({"1": "red"}, columns={"image": [str(photos / "red.png")]})
    plain = str(parse("clipscore").measure(captions).signature)
    with using(Runtime(upright=True)):
        turned = str(parse("clipscore").measure(captions).signature)
    assert ",upright|" in turned and "upright" not in plain


def test_an_unknown_activation_is_refused_by_name():
    with pytest.raises(InputError, match=r"clipscore\(activation=foo\): expected one of gelu, quick_gelu"):
        parse("clipscore(weights=a.pt,activation=foo)")


def test_images_of_a_tar_have_the_values_of_their_files_and_broken_ones_a_reason(photos, tmp_path):
    colors = {name: (photos / f"{name}.png").read_bytes() for name in ("red", "green")}
    broken = {"cut": colors["red"][:40], "text": b"no image", "empty": b""}
    with tarfile.open(tmp_path / "0.tar", "w") as archive:
        for key, image in {**colors, **broken, "none": None}.items():
            for ending, content in (("png", image), ("txt", b"red")):
                if content is not None:
                    info = tarfile.TarInfo(f"{key}.{ending}")
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
    captions = read_shard(expand(tmp_path / "0.tar")[0]).captions
    measured = parse("clipscore").measure(captions)
    files = parse("clipscore").measure(shown(photos, {"red": "red", "green": "red"}))
    assert [measured.items[key] for key in ("red", "green")] == [files.items[key] for key in ("red", "green")]
    reasons = measured.reasons
    assert reasons.keys() == {"cut", "text", "empty", "none"} and reasons["none"] == "no image"
    assert all(reasons[key].startswith("image: ") for key in broken)
    # Nothing decoded is kept: the column still holds the bytes of the files.
    assert [image and image.value for image in captions.images] == [*colors.values(), *broken.values(), None]
