"""Retrieval and hubness against a matrix of everything with everything, and by hand."""

import dataclasses

import numpy as np
import pytest

from captious.errors import InputError
from captious.io.read import read
from captious.options import Reading, Resampling
from captious.probes import vectors
from captious.probes.hubness import EDGES, Hubness, count_occurrences, estimate_skewness, measure_hubs
from captious.probes.retrieval import Ranks, Retrieval, measure_recalls
from captious.probes.vectors import Embedded, Vectors, encode_captions, iterate_cosines
from captious.render.html import render_page

ONCE = Resampling(samples=0)


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def space(images, texts, owner):
    return Embedded(
        "made#0",
        Vectors(images, np.arange(len(images))),
        Vectors(texts, np.arange(len(texts))),
        np.asarray(owner),
        tuple(map(str, range(len(images)))),
        tuple(f"text {number}" for number in range(len(texts))),
        0,
        {},
    )


@pytest.fixture
def sixty(monkeypatch):
    """Sixty images with one to four captions each, in blocks much smaller than that."""
    monkeypatch.setattr(vectors, "QUERIES", 7)
    monkeypatch.setattr(vectors, "GALLERY", 11)
    generator = np.random.default_rng(0)
    owner = np.repeat(np.arange(60), generator.integers(1, 5, 60))
    images = unit(generator.normal(size=(60, 5)))
    return space(images, unit(images[owner] + 0.9 * generator.normal(size=(len(owner), 5))), owner)


def test_recall_equals_sorting_everything(sixty):
    cosines = sixty.texts.rows.astype(np.float64) @ sixty.images.rows.astype(np.float64).T
    to_image = (cosines > cosines[np.arange(len(sixty.owner)), sixty.owner][:, None]).sum(axis=1)
    to_text = np.array(
        [min((np.delete(row, mine) > row[best]).sum() for best in mine) for row, mine in _own(cosines.T, sixty.owner)]
    )
    for direction, rank in zip(measure_recalls(sixty, ONCE), (to_image, to_text), strict=True):
        assert [estimate.value for estimate in direction.recall] == pytest.approx(
            [(rank < k).mean() for k in (1, 5, 10)]
        )
        assert direction.median_rank == np.median(rank) + 1


def _own(rows, owner):
    return [(row, np.flatnonzero(owner == number)) for number, row in enumerate(rows)]


def test_an_encoder_that_tells_nothing_reaches_chance():
    same = unit(np.ones((20, 3)))
    to_image, to_text = measure_recalls(space(same, unit(np.ones((40, 3))), np.repeat(np.arange(20), 2)), ONCE)
    assert [estimate.value for estimate in to_image.recall] == pytest.approx([1 / 20, 5 / 20, 10 / 20])
    # One of two captions among the first five of forty: 1 − C(38, 5) / C(40, 5).
    assert to_text.recall[1].value == pytest.approx(1 - (35 * 34) / (40 * 39))


def test_ties_are_shared_out():
    placed = Ranks(np.array([0.0, 1.0, 3.0]), np.array([1.0, 3.0, 0.0]), np.ones(3))
    assert placed.hits(1).tolist() == [0.5, 0.0, 0.0]
    assert placed.hits(3).tolist() == [1.0, 0.5, 0.0]
    assert placed.expected.tolist() == [1.5, 3.5, 4.0]


def test_the_interval_resamples_images(sixty):
    direction = measure_recalls(sixty, Resampling(samples=100))[0]
    assert direction.recall[0].low < direction.recall[0].value < direction.recall[0].high


def test_no_product_is_larger_than_a_block(sixty):
    shapes = {block.shape for _, _, block in iterate_cosines(sixty.texts, sixty.images)}
    assert max(rows for rows, _ in shapes) == 7 and max(columns for _, columns in shapes) == 11


def test_k_occurrences_equal_sorting_everything(sixty):
    cosines = sixty.images.rows @ sixty.texts.rows.T
    expected = np.bincount(np.argsort(-cosines, axis=1)[:, :4].ravel(), minlength=len(sixty.owner))
    assert count_occurrences(sixty.images, sixty.texts, 4).tolist() == expected.tolist()
    with pytest.raises(InputError, match="expected fewer than there are; pass a smaller k="):
        count_occurrences(sixty.texts, sixty.images, 60)


def test_skewness_is_the_third_moment():
    scipy = pytest.importorskip("scipy.stats")
    counts = np.random.default_rng(1).poisson(2, 500)
    assert estimate_skewness(counts, np.arange(500), ONCE).value == pytest.approx(scipy.skew(counts), abs=1e-9)
    assert np.isnan(estimate_skewness(np.ones(5, dtype=np.int64), np.arange(5), ONCE).value)


def test_one_caption_that_is_near_to_everything_is_the_hub():
    images = unit(np.eye(8) + 0.6)
    texts = unit(np.concatenate([np.eye(8), np.ones((1, 8))]))
    _, to_text = measure_hubs(space(images, texts, [*range(8), 0]), 1, Resampling(samples=50))
    assert to_text.top[0] == ("text 8", 8) and to_text.skewness.value > 2 and to_text.never == pytest.approx(8 / 9)
    document = Hubness("made", ONCE, [to_text]).document()
    assert document.tables["hubs"].rows[0] == ("made", "image → caption", "text 8", 8)
    assert sum(to_text.spread) == pytest.approx(1) and len(to_text.spread) == len(EDGES) - 1


def pictured(source, images):
    return read(source, images=images, reading=Reading(several=True))


@pytest.mark.usefixtures("colors")
def test_from_files(tmp_path, photos, colors):
    path = tmp_path / "c.json"
    path.write_text('{"red": ["red", "a red car"], "green": ["green", " "], "blue": ["x"], "broken": ["red"]}')
    assert encode_captions(pictured(path, photos), colors(), "A photo of ").encoder.endswith(",prefix='A photo of '")
    embedded = encode_captions(pictured(path, photos), colors())
    assert embedded.ids == ("red", "green", "blue") and embedded.captions == ("red", "a red car", "green", "x")
    assert embedded.dropped == {"image cannot be used": 1, "empty caption": 1}
    to_image, to_text = measure_recalls(embedded, ONCE)
    # "x" is as near to every image: a third of a hit. The blue image is as near to all four captions: a quarter.
    assert to_image.recall[0].value == pytest.approx((3 + 1 / 3) / 4)
    assert to_text.recall[0].value == pytest.approx((2 + 1 / 4) / 3)
    printed = str(Retrieval("c.json", ONCE, [to_image, to_text])).splitlines()
    assert "colors finds the right image first for 83.33 %" in printed[1]
    assert next(line for line in printed if "→ image" in line).split()[:5] == [
        "colors",
        "caption",
        "→",
        "image",
        "83.33",
    ]
    with pytest.raises(InputError, match="no image; pass images="):
        encode_captions(pictured({"1": "a"}, None), colors())


def test_captions_reach_the_page_as_text():
    three = space(unit(np.eye(3)), unit(np.eye(3)), [0, 1, 2])
    three = dataclasses.replace(three, captions=("<script>alert(1)</script>", "b", "c"))
    text = render_page(Hubness("a/<b>.json", ONCE, measure_hubs(three, 1, ONCE), ["<i>note</i>"]).document())
    assert "<script>alert" not in text and "&lt;script&gt;" in text and "<i>" not in text and "&lt;b&gt;.json" in text
