"""captious-mini knows only drawn scenes; asked about anything else it says so."""

import numpy as np
import pytest
from lab.toy import make, write
from PIL import Image

from captious.captions import CaptionSet
from captious.metrics.registry import parse
from captious.models import loading
from captious.models.domain import describe_mismatch, is_drawn
from captious.probes.retrieval import probe_retrieval


@pytest.fixture(scope="module")
def drawings(tmp_path_factory):
    folder = write(make(items=4), tmp_path_factory.mktemp("drawn") / "s", images=True) / "images"
    return sorted(map(str, folder.iterdir()))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Smooth noise: neighbors are alike and hardly ever equal, as in a photograph."""
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number in range(4):
        small = Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8))
        small.resize((120, 90), Image.Resampling.BICUBIC).save(folder / f"{number}.png")
    return sorted(map(str, folder.iterdir()))


def test_drawings_are_told_from_photographs(drawings, photos):
    assert all(is_drawn(Image.open(path)) for path in drawings)
    assert not any(is_drawn(Image.open(path)) for path in photos)


def test_the_reasons(drawings, photos):
    mini = loading.load("captious-mini")
    known, foreign = ["a red ball", "a dog"], ["a skateboarder grinds down the railing"]
    assert describe_mismatch(mini, known, drawings) == ""
    both = describe_mismatch(mini, foreign, photos)
    assert "4 of 4 images that were checked are not drawings and" in both and "of the words are unknown to it" in both
    assert "words" not in describe_mismatch(mini, known, photos)
    assert "images looked at" not in describe_mismatch(mini, foreign, drawings)


@pytest.mark.parametrize("metric", ["clipscore(captious-mini)", "specs(captious-mini-specs)"])
def test_a_metric_on_photographs_warns(metric, drawings, photos):
    for paths, said in ((photos, True), (drawings, False)):
        ids = [str(number) for number in range(len(paths))]
        captions = CaptionSet.of(dict.fromkeys(ids, "a red ball"), columns={"image": paths})
        warnings = parse(metric).measure(captions).warnings
        assert any("knows only drawn scenes" in line for line in warnings) == said


def test_a_probe_on_photographs_says_so(photos):
    ids = [str(number) for number in range(len(photos))]
    captions = CaptionSet.of(dict.fromkeys(ids, "a red ball"), columns={"image": photos})
    assert "knows only drawn scenes" in " ".join(probe_retrieval(captions, ["captious-mini"]).notes)


def test_another_encoder_is_not_asked(photos):
    class Other:
        name = "openai/clip-vit-base-patch32"

    assert describe_mismatch(Other(), ["a skateboarder"], photos) == ""
