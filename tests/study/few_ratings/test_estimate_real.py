"""`study.estimate` on published ratings: golden numbers of ../shared/spec/estimate.md section 2, found by a prototype.

An image is rated if int(sha1(id).hexdigest()[:8], 16) % k == 0; every rating is a row, no rater has a name.
"""

import gzip
import hashlib
import json

import pytest

import captious
from captious.study import estimate, open_recipe, systems
from captious.study.recipes import RECIPES

pytestmark = pytest.mark.shared_data
CLOSE = {"abs": 1e-6}


def is_rated(id, k):
    return int(hashlib.sha1(str(id).encode()).hexdigest()[:8], 16) % k == 0


def read(path):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


@pytest.fixture(scope="module")
def tifa(shared_data):
    rows = read(shared_data / "tifa160" / "items.jsonl.gz")
    metrics = ("spice", "bleu", "clipscore_vitb32", "tifa_mplug-large")
    captions = [
        {"id": row["id"], "image": row["text_id"], "system": row["id"].removeprefix(row["text_id"] + "_")}
        | {name: row[name] for name in metrics}
        for row in rows
    ]
    ratings = [
        {key: one[key] for key in ("id", "image", "system")} | {"ratings": row["human_scores"]}
        for one, row in zip(captions, rows, strict=True)
    ]
    return captions, ratings


def few(tifa):
    captions, ratings = tifa
    return [row for row in ratings if is_rated(row["image"], 4)], captions


def by_name(verdict):
    return [one.mean for one in sorted(verdict.systems, key=lambda one: one.system)]


def test_tifa_without_an_auxiliary_metric(tifa):
    verdict = estimate(*few(tifa), using=[])
    means = by_name(verdict)
    assert [one.value for one in means] == pytest.approx([3.705128, 3.589744, 3.884615, 4.179487, 3.602564], **CLOSE)
    assert [one.error for one in means] == pytest.approx([0.184338, 0.153537, 0.172758, 0.142854, 0.166511], **CLOSE)
    assert verdict.counts.startswith("160 images, 39 rated images, 800 captions, 195 rated, 390 ratings")
    contest = next(
        one for one in verdict.contests if {one.first, one.second} == {"mini_dalle", "stable_diffusion_v2_1"}
    )
    assert contest.difference.value == pytest.approx(0.474359, **CLOSE)
    assert contest.difference.error == pytest.approx(0.167288, **CLOSE)
    assert (contest.p, contest.p_holm) == pytest.approx((0.00729, 0.0583), rel=1e-3)


def test_tifa_with_a_judge(tifa):
    verdict = estimate(*few(tifa), using=["tifa_mplug-large"])
    means = by_name(verdict)
    assert [one.value for one in means] == pytest.approx([3.729426, 3.648648, 4.017135, 4.198073, 3.677049], **CLOSE)
    assert [one.error for one in means] == pytest.approx([0.155286, 0.140062, 0.136301, 0.106639, 0.150407], **CLOSE)
    low = [3.415067, 3.365108, 3.741208, 3.982195, 3.372566]
    assert [one.low for one in means] == pytest.approx(low, **CLOSE)
    assert [one.high for one in means] == pytest.approx([4.043785, 3.932188, 4.293063, 4.413952, 3.981533], **CLOSE)
    assert {one.degrees for one in verdict.systems} == {38.0}
    contest = next(
        one for one in verdict.contests if {one.first, one.second} == {"mini_dalle", "stable_diffusion_v2_1"}
    )
    assert (contest.difference.value, contest.difference.error) == pytest.approx((0.468648, 0.161393), **CLOSE)
    assert (contest.p, contest.p_holm) == pytest.approx((0.00611, 0.0489), rel=1e-3)
    # 160 texts and their images have the values of all; every rated one is a third of a fifth.
    for target, errors in (
        ("items", [0.132356, 0.119045, 0.114978, 0.089379, 0.130134]),
        ("ratings", [0.128077, 0.114100, 0.111303, 0.083753, 0.124772]),
    ):
        means = by_name(estimate(*few(tifa), using=["tifa_mplug-large"], target=target))
        assert [one.error for one in means] == pytest.approx(errors, **CLOSE)


def test_tifa_with_two_metrics_and_with_ranks(tifa):
    means = by_name(estimate(*few(tifa), using=["spice", "clipscore_vitb32"]))
    assert [one.value for one in means] == pytest.approx([3.686124, 3.543637, 3.920054, 4.104592, 3.580029], **CLOSE)
    assert [one.error for one in means] == pytest.approx([0.158046, 0.150078, 0.155741, 0.146997, 0.140624], **CLOSE)
    verdict = estimate(*few(tifa), using=["bleu"])
    means = by_name(verdict)
    assert [one.value for one in means] == pytest.approx([3.737192, 3.608904, 3.938945, 4.169671, 3.553388], **CLOSE)
    assert "using:bleu(ranks)" in verdict.signature  # skewness 3.36


def test_everything_rated_agrees_with_study_systems(tifa):
    """SD 2.1: [4.136, 4.389] by the jackknife and t, [4.138, 4.385] by the bootstrap of `study systems`."""
    _, ratings = tifa
    verdict, ranking = estimate(ratings), systems(ratings)
    theirs = {one.system: one.mean for one in ranking.standings[0].systems}
    for one in verdict.systems:
        assert one.mean.value == pytest.approx(theirs[one.system].value, abs=1e-12)
    best = verdict.systems[0]
    assert (best.mean.value, best.mean.low, best.mean.high) == pytest.approx((4.2625, 4.136, 4.389), abs=5e-4)
    assert (theirs[best.system].low, theirs[best.system].high) == pytest.approx((4.138, 4.385), abs=4e-3)


def test_flickr8k_expert_with_fleur(shared_data):
    ratings = open_recipe(RECIPES["flickr8k-expert"], shared_data / "flickr8k")
    fleur = read(shared_data / "judges" / "fleur_flickr8k_expert.jsonl")
    texts = {(row["image"], " ".join(row["caption"].split())): row["smoothed"] for row in fleur}
    captions, rated = [], []
    for id, image, values in zip(ratings.ids, ratings.groups, ratings.values, strict=True):
        text = " ".join(ratings.captions[id].candidate.split())
        captions.append({"id": id, "image": image, "fleur": texts[image, text]})
        if is_rated(image, 10):
            rated.append({"id": id, "image": image, "ratings": values.tolist()})
    assert len(captions) == 5664 and len(rated) == 574
    only = estimate(rated, captions, using=[]).systems[0].mean
    assert (only.value, only.error) == pytest.approx((1.632985, 0.041914), **CLOSE)
    verdict = estimate(rated, captions, using="fleur")
    mean = verdict.systems[0].mean
    assert (mean.value, mean.error) == pytest.approx((1.598197, 0.024342), **CLOSE)
    assert (mean.low, mean.high) == pytest.approx((1.549902, 1.646491), **CLOSE)
    assert verdict.gain.counts_as == pytest.approx(1702, abs=1)


def test_capeval_with_rouge_and_cider(shared_data):
    """Every fifth image, 45 of 250; the idf of CIDEr-D is that of the 1,000 rows."""
    ratings = open_recipe(RECIPES["capeval1k"], shared_data / "umic")
    metrics = {str(one.metric): one.items for one in captious.evaluate(ratings.captions, "rouge,cider")}
    captions, rated = [], []
    for id, image, (value,) in zip(ratings.ids, ratings.groups, ratings.values, strict=True):
        row = {"id": id, "image": image, "system": str(int(id) // 250)}
        captions.append(row | {name: values[id] for name, values in metrics.items()})
        if is_rated(image, 5):
            rated.append(row | {"rating": value})
    assert len({row["image"] for row in rated}) == 45
    for using, values, errors in (
        ([], [0.632871, 0.536760, 0.672684, 0.669816], [0.037183, 0.030640, 0.034240, 0.036793]),
        (["rouge"], [0.627277, 0.531218, 0.676846, 0.667318], [0.034770, 0.031925, 0.033478, 0.036087]),
        (["cider"], [0.619627, 0.523256, 0.672433, 0.667978], None),
    ):
        means = by_name(estimate(rated, captions, using=using))
        assert [one.value for one in means] == pytest.approx(values, **CLOSE)
        if errors:
            assert [one.error for one in means] == pytest.approx(errors, **CLOSE)


def test_iiw_win_rate(shared_data):
    """Aspect Hallucination: the first text against the second; a tie is one half."""
    rows = [
        row
        for row in read(shared_data / "iiw_side_by_side" / "side_by_side.jsonl.gz")
        if row["aspect"] == "Hallucination"
    ]
    assert len(rows) == 200
    captions = [
        {"image": row["image"], "system": system, "words_of_text": len(text.split())}
        for row in rows
        for system, text in zip(("first", "second"), row["captions"], strict=True)
    ]
    pairs = [
        {"image": row["image"], "captions": row["captions"], "systems": ["first", "second"]}
        | {"preferred": row["preferred"]}
        for row in rows
        if is_rated(row["image"], 3)
    ]
    assert len(pairs) == 64
    verdict = estimate(pairs, captions, using=[])
    first = verdict.systems[0]
    assert first.system == "first"
    assert (first.mean.value, first.mean.error) == pytest.approx((0.820312, 0.037545), **CLOSE)
    assert (first.mean.low, first.mean.high) == pytest.approx((0.733958, 0.883101), **CLOSE)
    mean = estimate(pairs, captions, using="words_of_text").systems[0].mean
    assert (mean.value, mean.low, mean.high) == pytest.approx((0.820205, 0.731863, 0.884052), **CLOSE)
    assert [one.mean.value for one in estimate(pairs, captions).systems] == pytest.approx([mean.value, 1 - mean.value])
