"""The Specificity Rate by hand: see `ColorEncoder` in conftest.py for the vectors."""

import json
import math

import numpy as np
import pytest
from lab.toy import make, write

from captious.errors import InputError
from captious.metrics.measurement import Measurement, Signature
from captious.metrics.registry import parse_all
from captious.options import Resampling
from captious.probes.specificity import Details, GrowingCaption, probe_specificity, read_details, split_steps
from captious.render import _charts as charts
from captious.render import html

ONCE = Resampling(samples=0)


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class Fixed:
    """A metric with fixed values."""

    name = label = "fixed"
    higher_is_better = True

    def __init__(self, values):
        self.scores = values

    def __str__(self):
        return "fixed"

    def aggregate(self, rows):
        return rows[..., 0]

    def model_settings(self, state):
        return {}

    def text_settings(self, captions):
        return {}

    def frame_settings(self, captions):
        return {}

    def settings(self, state):
        return {}

    def refuse_empty(self, measured, name):
        pass

    def measure(self, captions):
        return Measurement(
            self, captions.ids, np.array(self.scores)[:, None], Signature.of(self, captions, None, 0, {})
        )


@pytest.fixture
def two():
    """Two captions of different images: one of four units, one of two."""
    chains = (
        GrowingCaption("a", ("1", "2", "3", "4"), ("1x", "2x", "3x")),
        GrowingCaption("b", ("1", "2"), ("1x",)),
    )
    return Details("by hand", chains, {"a": "a.png", "b": "b.png"}, {})


#           1    2    3    4     1x   2x   3x    1    2     1x
VALUES = [0.1, 0.2, 0.2, 0.4, 0.05, 0.3, 0.1, 0.5, 0.4, 0.45]


def test_values_are_laid_out_as_steps(two):
    steps = split_steps(two, np.array(VALUES))
    assert steps.base.tolist() == [0.1, 0.2, 0.2, 0.5]
    assert steps.right.tolist() == [0.2, 0.2, 0.4, 0.4]
    assert steps.wrong.tolist() == [0.05, 0.3, 0.1, 0.45]
    assert steps.chain.tolist() == [0, 0, 0, 1] and steps.units.tolist() == [1, 2, 3, 1]


def test_pooled_counts_every_step_and_ties_are_misses(two):
    (rate,) = probe_specificity(two, [Fixed(VALUES)], resampling=ONCE).rows
    # rises: yes, tie, yes | no; falls: yes, no, yes | yes.
    assert rate.positive.value == 2 / 4 and rate.negative.value == 3 / 4
    assert rate.average.value == (2 / 4 + 3 / 4) / 2
    assert rate.steps == 4 and rate.ties == 1


def test_macro_is_the_mean_of_the_captions(two):
    (rate,) = probe_specificity(two, [Fixed(VALUES)], counting="macro", resampling=ONCE).rows
    assert rate.positive.value == pytest.approx((2 / 3 + 0) / 2) and rate.negative.value == pytest.approx(
        (2 / 3 + 1) / 2
    )


def test_legacy_never_looks_at_the_last_caption_and_skips_short_ones(two):
    (rate,) = probe_specificity(two, [Fixed(VALUES)], counting="legacy", resampling=ONCE).rows
    # Of the first: bases .1 .2 .2, all above 0, so n = 2 increments: .2 > .1 and .2 > .2; negatives .1 > .05, .2 > .3.
    # The second has one base, n = 0: passed over.
    assert rate.positive.value == 1 / 2 and rate.negative.value == 1 / 2


def test_legacy_takes_a_score_of_0_or_less_for_padding(two):
    with pytest.raises(InputError, match="passes over every caption"):
        probe_specificity(two, [Fixed([value - 0.15 for value in VALUES])], counting="legacy", resampling=ONCE)


def test_a_step_without_all_its_scores_is_left_out(two):
    values = list(VALUES)
    values[3] = math.nan  # the last caption of the first chain
    (rate,) = probe_specificity(two, [Fixed(values)], resampling=ONCE).rows
    assert rate.steps == 3 and rate.positive.value == 1 / 3


def test_the_interval_resamples_images(two):
    (rate,) = probe_specificity(two, [Fixed(VALUES)], resampling=Resampling(samples=200)).rows
    # Draws are both images, the first twice or the second twice: pooled 2/4, 4/6 or 0/2.
    assert (rate.positive.low, rate.positive.high) == (0.0, pytest.approx(2 / 3))


@pytest.mark.usefixtures("colors")
def test_units_and_wrong_units(tmp_path, photos):
    rows = [{"id": "red", "units": ["a car", "red", "red"], "wrong_units": ["no", "blue", "a"]}]
    details = read_details(lines(tmp_path / "p.jsonl", rows), photos)
    assert details.chains[0].captions == ("a car", "a car red", "a car red red")
    assert details.chains[0].negatives == ("a car blue", "a car red a")
    (rate,) = probe_specificity(details, parse_all("specs"), resampling=ONCE).rows
    # Right words raise the red part; "blue" adds nothing to a cosine of 0, which is a tie, "a" lowers 1/√5.
    assert rate.positive.value == 1 and rate.negative.value == 1 / 2 and rate.ties == 1


@pytest.mark.usefixtures("colors")
def test_growing_captions_with_negatives_as_in_the_authors_files(tmp_path, photos):
    rows = [{"image": "red.png", "captions": ["a", "a red", "a red red"], "neg_captions": ["a blue", "a red green"]}]
    details = read_details(lines(tmp_path / "p.jsonl", rows), photos)
    assert details.chains == (GrowingCaption("red.png", ("a", "a red", "a red red"), ("a blue", "a red green")),)


def test_captions_are_cut_and_wrong_details_come_from_other_images(tmp_path):
    rows = [
        {"id": 1, "caption": "A dog sits on a mat. There is a ball. The sky is blue."},
        {"id": 2, "caption": "A cat sleeps in a box. A bird sings. There is a lamp."},
        {"id": 3, "caption": "Nothing"},
    ]
    path = lines(tmp_path / "p.jsonl", rows)
    details = read_details(path, seed=7)
    own = {"1": ["dog", "mat", "ball", "sky", "blue"], "2": ["cat", "box", "bird", "lamp"]}
    for chain in details.chains:
        for base, negative in zip(chain.captions, chain.negatives, strict=False):
            assert negative.startswith(base + " ")
            assert not any(word in negative[len(base) :] for word in own[chain.image])
    assert details.dropped == {"fewer than two detail units": 1} and details.drawn == sum(
        len(chain.negatives) for chain in details.chains
    )
    assert read_details(path, seed=7) == details != read_details(path, seed=8)


def test_a_caption_with_its_own_wrong_details(tmp_path):
    rows = [
        {"id": 1, "caption": "A dog sits on a mat. There is a ball. The sky is blue.", "negatives": ["a car", "snow"]}
    ]
    (chain,) = read_details(lines(tmp_path / "p.jsonl", rows)).chains
    assert chain.negatives[0].endswith(" a car") and all(text.endswith(" snow") for text in chain.negatives[1:])


@pytest.mark.usefixtures("colors")
def test_what_stands_behind_the_limit_ties_and_can_be_left_out(tmp_path, photos, colors):
    rows = [{"id": "red", "units": ["a red", "red", "red and more", "red"], "wrong_units": ["x"] * 4}]
    details = read_details(lines(tmp_path / "p.jsonl", rows), photos)
    (rate,) = probe_specificity(details, parse_all("specs(weights=short)"), resampling=ONCE).rows
    assert rate.truncated == 2 and rate.ties == 2  # behind 8 tokens the last unit is not read, right or wrong
    fitting = details.within(colors("short", limit=8))
    assert [len(chain.negatives) for chain in fitting.chains] == [2]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": 1, "units": ["a", "b"], "wrong_units": ["x"] * 5}, "row 1: 2 units and 5 wrong units"),
        ({"id": 1, "captions": ["a", "b"], "negatives": ["x"] * 5}, "row 1: 2 captions and 5 negatives"),
        ({"units": ["a", "b"]}, "row 1: names no image"),
        ({"id": 1, "text_": "a"}, "row 1: has no units, no caption and no captions: found id, text_"),
        ({"id": 1, "units": "a"}, "no caption has two detail units"),
        ({"id": 1, "units": [1, 2]}, "row 1: units is list, expected a list of texts"),
    ],
)
def test_bad_rows_are_named(tmp_path, row, message):
    with pytest.raises(InputError, match=message):
        read_details(lines(tmp_path / "p.jsonl", [row]))


@pytest.mark.usefixtures("colors")
def test_the_demo_set_works_as_it_is_with_any_metric(tmp_path):
    sample = write(make(items=6), tmp_path / "s", size=32)
    details = read_details(sample / "long.jsonl", sample / "images", sample / "references.json")
    result = probe_specificity(details, parse_all("clipscore,rouge"), Resampling(samples=50))
    rates = result.rows
    assert [one.steps for one in rates] == [sum(len(chain.captions) - 1 for chain in details.chains)] * 2
    summary = json.loads(result.to_json())
    assert summary["images"] == 6 and summary["metrics"][1]["metric"] == "rouge"
    text = html.render_page(result.document())
    assert text.count('<svg class="chart"') == 2 and "ROUGE-L SR_neg" in text and "Content-Security-Policy" in text


def test_the_control_shows_every_caption_another_image(two):
    moved = two.with_wrong_images(seed=3)
    assert moved.paths == {"a": "b.png", "b": "a.png"}
    many = Details("many", two.chains, {str(n): f"{n}.png" for n in range(9)}, {}).with_wrong_images()
    assert sorted(many.paths.values()) == [f"{n}.png" for n in range(9)]
    assert all(path != f"{key}.png" for key, path in many.paths.items())
    with pytest.raises(InputError, match="at least 2 images"):
        Details("one", two.chains[:1], {"a": "a.png"}, {}).with_wrong_images()


def test_a_metric_that_never_looks_has_its_rates_against_wrong_images_too(two):
    own, blind = probe_specificity(two, [Fixed(VALUES)], resampling=ONCE, control=True).rows
    assert blind.label == "fixed, wrong image" and blind.metric == "fixed, wrong image"
    assert (blind.positive, blind.negative) == (own.positive, own.negative)


def test_two_metrics_with_one_label_are_told_apart(two):
    """Under one label the second would also take the place of the first in the picture by units."""

    class Other(Fixed):
        def __str__(self):
            return "fixed(other)"

    result = probe_specificity(two, [Fixed(VALUES), Other(VALUES[::-1])], resampling=ONCE)
    assert [one.label for one in result.rows] == ["fixed", "fixed(other)"]
    picture = charts.draw_chart(result.document().sections[2])
    assert picture.count("<polyline") == 4


def test_signatures_say_what_moved_the_texts(tmp_path, two):
    rows = [{"id": name, "caption": f"a {name} dog runs over the grass with a ball."} for name in ("red", "big", "old")]
    cut = read_details(lines(tmp_path / "rows.jsonl", rows), seed=7, grammar="paper")
    assert cut.settings == ("units:paper", "wrong:drawn(seed=7)")
    assert two.settings == ()
    rates = probe_specificity(two, [Fixed(VALUES)], resampling=Resampling(samples=0, seed=5), control=True).rows
    assert [one.signature.endswith("|images:wrong(seed=5)") for one in rates] == [False, True]
