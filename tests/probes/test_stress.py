"""Stress cards: answers that are known without computing them, numbers by hand, and intervals that cover."""

import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import captious
from captious.captions import CaptionSet
from captious.edits import Edit
from captious.errors import InputError
from captious.metrics.registry import parse
from captious.options import Judging, Resampling, Runtime, using
from captious.probes import plan_stress, stress
from captious.probes._effects import Scores, find_doses, find_effects, find_rates, give_verdict
from captious.probes._stress_test import read_pairs
from captious.stats.bootstrap import Estimate
from captious.text.ptb import tokenize

FAST = Resampling(samples=200)


@pytest.fixture(scope="module")
def solid():
    return captious.demo().systems["solid"]


def counted(caption):
    """The number of words."""
    return float(len(caption.split()))


def constant(caption):
    """The same for every caption."""
    return 1.0


def letters(caption):
    """The number of letters."""
    return float(sum(map(str.isalpha, caption)))


def fewer_objects(caption):
    """Minus the number of objects that an edit injected: each is written as 'and a thing'."""
    return -float(caption.count(" and "))


def test_shuffling_moves_nothing_that_counts_single_words(solid):
    card = stress(solid, ["bleu(n=1)", "distinct_n(n=1)", "vocab_size"], FAST, edits=["shuffle"])
    for row in card.rows:
        (effect,) = row.effects
        assert (effect.sides.value, effect.sides.low, effect.sides.high) == (0.5, 0.5, 0.5)
        assert (effect.size.value, effect.size.low, effect.size.high) == (0.0, 0.0, 0.0)
        assert (effect.n, effect.verdict) == (60, "fails")


def test_shuffling_moves_no_cider_of_single_words(solid):
    """CIDEr with n = 1, by its formula: the cosine of tf-idf weights of words, mean over references, times 10."""
    words = [[Counter(tokenize(one)) for one in references] for references in solid.references]
    seen = Counter(word for item in words for word in set().union(*item))

    def weights(text):
        counts = Counter(tokenize(text))
        return {word: counts[word] * math.log(len(words) / max(1, seen[word])) for word in sorted(counts)}

    def cider1(caption, references):
        own = weights(caption)
        cosines = []
        for other in map(weights, references):
            norms = math.hypot(*own.values()) * math.hypot(*other.values())
            cosines.append(sum(own[word] * other.get(word, 0.0) for word in own) / norms if norms else 0.0)
        return 10 * sum(cosines) / len(cosines)

    metric = captious.metric_from(cider1, "cider_of_words", range=(0, 10))
    shuffled, replaced = stress(solid, [metric], FAST, edits=["shuffle", "replace-object"]).rows[0].effects
    assert (shuffled.sides.value, shuffled.size.value, shuffled.n) == (0.5, 0.0, 60)
    assert replaced.sides.value > 0.5


def test_a_caption_twice_loses_precision_and_gains_no_recall():
    """ROUGE-L of three of six different words: R = 3/6, P = 3/3, and twice P = 3/6; F = 2.44 PR / (R + 1.44 P).

    Recall can gain where the reference has another order: of *b a* it has one word of *a b*, of *b a b a* both.
    """
    words = "dogs run over green grass quickly"
    plain = CaptionSet.of({str(n): "dogs run over" for n in range(20)}, {str(n): [words] for n in range(20)})
    (effect,) = stress(plain, "rouge", FAST, edits=["twice"]).rows[0].effects
    before, after = 2.44 * 0.5 / (0.5 + 1.44), 2.44 * 0.5 * 0.5 / (0.5 + 1.44 * 0.5)
    assert effect.change.value == pytest.approx(after - before)
    assert (effect.sides.value, effect.verdict) == (0.0, "holds")
    turned = captious.evaluate(["b a", "b a b a"], "rouge", references=[["a b"], ["a b"]])["rouge"].values
    assert turned.tolist() == pytest.approx([0.5, 2.44 * 0.5 / (1 + 1.44 * 0.5)])  # P = R = 1/2; P = 1/2, R = 1


def test_case_stops_and_spaces_move_nothing_under_the_treebank_tokenizer(solid):
    card = stress(solid, "bleu,rouge,cider", FAST, edits=["capitals", "stop", "spaces"])
    effects = [effect for row in card.rows for effect in row.effects]
    assert len(effects) == 18
    assert {(one.sides.value, one.size.value, one.verdict) for one in effects} == {(0.5, 0.0, "holds")}


def test_a_metric_that_counts_words_rises_with_every_padding(solid):
    words = captious.metric_from(counted, "words_there", range=(0, 999))
    edits = ["generic", "twice", "flattery", "instruction", "adjectives", "inject", "repeat"]
    row = stress(solid, [words], FAST, edits=edits).rows[0]
    for effect in row.effects:
        rises = effect.sides.value if effect.group == "gaming" else 1 - effect.sides.value
        assert (rises, effect.size.low > 0, effect.verdict) == (1.0, True, "fails")
    assert all(not one.monotone and one.slope.low > 0 and one.falling.value == 0 for one in row.doses)
    assert len(row.offenders) == 5 * len(row.effects)


def test_a_constant_metric_is_one_half_everywhere(solid):
    flat = captious.metric_from(constant, "flat_there")
    row = stress(solid, [flat], FAST).rows[0]
    assert len(row.effects) == 37
    assert {(one.sides.value, one.size.value) for one in row.effects if one.n} == {(0.5, 0.0)}
    assert {one.edit for one in row.effects if not one.n} == {"quotes", "spelling"}
    tried = {(one.group, one.verdict) for one in row.effects if one.images >= 20}
    assert tried == {("harm", "fails"), ("damage", "fails"), ("harmless", "holds"), ("gaming", "holds")}
    assert {one.verdict for one in row.effects if one.images < 20} <= {"undecided"}


def test_minus_the_injected_objects_has_the_slope_minus_one():
    plain = CaptionSet.of({str(number): "a dog on grass" for number in range(30)})
    metric = captious.metric_from(fewer_objects, "fewer_objects_there", range=(-99, 0))
    row = stress(plain, [metric], FAST, edits=["inject"]).rows[0]
    (doses,) = row.doses
    assert (doses.slope.value, doses.slope.low, doses.slope.high) == pytest.approx((-1.0, -1.0, -1.0))
    assert (doses.doses, doses.monotone, doses.falling.value, doses.n) == ((1, 2, 3, 5), True, 1.0, 30)
    assert [one.change.value for one in row.effects] == [-1.0, -2.0, -3.0, -5.0]


def test_document_frequencies_stay_those_of_the_original_captions(solid):
    test = plan_stress(solid, ["inject"], items=20)
    part, cider = test.parts[0], parse("cider")
    frozen = cider.prepare(part.corpus)
    (effect, *_) = stress(solid, [cider], FAST, edits=["inject"], items=20).rows[0].effects
    one = [edited for edited in part.edited if part.edits[edited.column][0] == "inject(1)"]
    alone = [
        cider.measure(replace_caption(part.drawn.take([edited.item]), edited.text), frozen).values[0]
        - cider.measure(part.drawn.take([edited.item]), frozen).values[0]
        for edited in one
    ]
    assert effect.change.value == pytest.approx(np.mean(alone), abs=1e-12)
    assert len(part.drawn) == 20 < len(part.corpus) == 60


def replace_caption(captions, text):
    """The set of one item with another caption."""
    return CaptionSet.of({captions.ids[0]: text}, {captions.ids[0]: captions.references[0]})


def test_the_same_items_are_drawn_whatever_the_order_and_the_metric(solid):
    ids = plan_stress(solid, ["cut"], items=10, seed=5).parts[0].drawn.ids
    turned = solid.take(range(len(solid))[::-1])
    assert len(ids) == 10
    assert set(plan_stress(turned, ["negate"], items=10, seed=5).parts[0].drawn.ids) == set(ids)
    assert set(plan_stress(solid, ["cut"], items=10, seed=6).parts[0].drawn.ids) != set(ids)


def test_a_metric_for_which_lower_is_better_is_turned(solid):
    short = captious.metric_from(counted, "words_too_many", range=(0, 999), higher_is_better=False)
    row = stress(solid, [short], FAST, edits=["twice", "cut"]).rows[0]
    assert row.effect("twice").sides.value == 0.0
    assert row.effect("cut").sides.value == 0.0
    (worst, *_) = row.offenders
    assert (worst.edit, worst.after < worst.before) == ("cut", True)


SCORES = Scores.of(
    np.array([1.0, 2.0, 3.0, 4.0]),
    np.array([[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [3.0, 3.5, np.nan], [2.0, 4.0, 4.0]]),
    np.arange(4),
)
NAMES = [("inject(1)", "harm"), ("synonym", "harmless"), ("twice", "gaming")]


def test_sides_sizes_and_rates_by_hand():
    """Changes: −1, −1, 0, −2; 0, 0, .5, 0; 1, 1, –, 0. The deviation of 1, 2, 3, 4 is √(5/3)."""
    inject, synonym, twice = find_effects(SCORES, NAMES, Resampling(samples=0))
    sd = (5 / 3) ** 0.5
    assert (inject.sides.value, synonym.sides.value, twice.sides.value) == (3.5 / 4, 1.5 / 4, 2.5 / 3)
    assert [one.size.value for one in (inject, synonym, twice)] == pytest.approx([-1 / sd, 0.125 / sd, 2 / 3 / sd])
    assert (inject.n, twice.n, inject.verdict) == (4, 3, "undecided")
    rates = find_rates(SCORES, NAMES, 0, Resampling(samples=0))
    assert [(one.edit, round(one.rate.value, 9)) for one in rates] == [("synonym", 8.0), ("twice", 1.5)]


def test_slopes_by_hand():
    """Doses 0, 1, 3 have the mean 4/3 and Σ(d − d̄)² = 14/3; with changes 0, −1, −5 the slope is −24/14."""
    scores = Scores.of(np.zeros(1), np.array([[-1.0, -5.0]]), np.arange(1))
    once = Resampling(samples=0)
    effects = find_effects(scores, [("repeat(1)", "damage"), ("repeat(3)", "damage")], once)
    doses = find_doses(scores, "repeat", {1: 0, 3: 1}, effects, once)
    # Σ (d − d̄) Δ = (−1/3)(−1) + (5/3)(−5) = −8; −8 / (14/3) = −24/14
    assert doses.slope.value == pytest.approx(-24 / 14)
    assert doses.monotone


def test_a_share_of_items_that_all_fall_with_every_dose_has_the_exact_interval():
    """Of 30 images all fall: the least share of which that has a chance of 2.5 % is .025^(1/30)."""
    base = np.arange(30.0)
    scores = Scores.of(base, base[:, None] - np.array([[1.0, 2.0]]), np.arange(30))
    effects = find_effects(scores, [("repeat(1)", "damage"), ("repeat(2)", "damage")], FAST)
    falling = find_doses(scores, "repeat", {1: 0, 2: 1}, effects, FAST).falling
    assert (falling.value, falling.low, falling.high) == (1.0, pytest.approx(0.025 ** (1 / 30)), 1.0)


def test_an_edit_that_changes_nothing_has_an_infinite_rate():
    scores = Scores.of(np.arange(4.0), np.arange(4.0)[:, None] + np.array([[-1.0, 0.0]]), np.arange(4))
    ((rate,),) = [find_rates(scores, NAMES[:2], 0, Resampling(samples=50))]
    assert (rate.rate.value, rate.rate.high) == (float("inf"), float("inf"))


@pytest.mark.parametrize(
    ("group", "sides", "size", "images", "verdict"),
    [
        ("harm", (0.51, 0.9), (-1, 1), 99, "holds"),
        ("harm", (0.2, 0.5), (-1, 1), 99, "fails"),
        ("damage", (0.5, 0.9), (-1, 1), 99, "undecided"),
        ("pairs", (0.6, 0.9), (-1, 1), 19, "undecided"),  # too few images
        ("gaming", (0.51, 0.9), (-1, 1), 99, "fails"),
        ("gaming", (0.1, 0.5), (-1, 1), 99, "holds"),
        ("gaming", (0.4, 0.6), (-1, 1), 99, "undecided"),
        ("harmless", (0, 1), (-0.09, 0.09), 99, "holds"),
        ("harmless", (0, 1), (-0.2, -0.11), 99, "fails"),
        ("harmless", (0, 1), (-0.11, 0.0), 99, "undecided"),
        ("harm", (float("nan"), float("nan")), (0, 0), 99, "undecided"),  # no resamples
        ("harm", (0.45, 0.55), (-1, 1), 99, "fails"),  # about chance, however many images there are
        ("harm", (0.501, 0.55), (-1, 1), 99, "holds"),
        ("harm", (0.44, 0.51), (-1, 1), 99, "undecided"),
        ("gaming", (0.46, 0.54), (-1, 1), 99, "holds"),
        ("gaming", (0.46, 0.56), (-1, 1), 99, "undecided"),
    ],
)
def test_verdicts(group, sides, size, images, verdict):
    assert give_verdict(group, Estimate(0.5, *sides), Estimate(0.0, *size), images) == verdict


def test_intervals_cover_the_truth():
    """Scores of 60 images, N(0, 1); an edit changes them by N(−.3, 1): sides Φ(.3) = .6179, size −.3."""
    random, covered, runs = np.random.default_rng(3), np.zeros(2), 150
    for run in range(runs):
        base = random.normal(size=60)
        scores = Scores.of(base, (base + random.normal(-0.3, 1, 60))[:, None], np.arange(60))
        (effect,) = find_effects(scores, [("cut", "harm")], Resampling(samples=200, seed=run))
        covered += [effect.sides.low <= 0.6179 <= effect.sides.high, effect.size.low <= -0.3 <= effect.size.high]
    # Percentiles of 60 cover 93 to 95 %; the standard error of 150 runs is 1.8 points.
    assert (covered / runs > 0.89).all() and (covered / runs < 0.995).all()


def write_pairs(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_pairs_that_people_wrote(solid, tmp_path):
    rows = [
        {"image": f"{n}.jpg", "references": ["a dog runs"], "baseline": "a dog runs", "foil": "a cat runs"}
        for n in range(25)
    ]
    same = {"image": "x.jpg", "references": ["a dog"], "baseline": "a dog", "foil": "a dog"}
    file = write_pairs(tmp_path / "mine.jsonl", [*rows, same])
    card = stress(solid, "bleu(n=1),clipscore(captious-mini)", FAST, edits=["cut"], pairs=[file])
    effect = card["bleu(n=1)"].effect("mine")
    assert (effect.group, effect.n, effect.sides.value, effect.verdict) == ("pairs", 25, 1.0, "holds")
    assert card.test.parts[1].left_out == {"mine": 1}
    assert card.test.parts[1].edited[0].done == {"replaced": [["dog", "cat"]]}
    assert [one.edit for one in card.rows[1].effects] == ["cut"]
    assert any("CLIPScore" in note and "no image" in note for note in card.document().notes)
    wrong = write_pairs(tmp_path / "wrong.jsonl", [{"image": "1", "caption": "a dog"}])
    with pytest.raises(InputError, match=r"wrong.jsonl.*found columns image, caption, expected a right caption and a"):
        read_pairs(wrong)
    several = write_pairs(tmp_path / "several.jsonl", [{"image": [], "caption": "a dog", "negative": "a cat"}])
    with pytest.raises(InputError, match=r"several.jsonl.*image is a list, expected the name of one image"):
        read_pairs(several)


def test_pairs_of_one_image_are_drawn_together(tmp_path):
    rows = [{"image": str(n // 5), "caption": f"a dog {n}", "negative": "a cat"} for n in range(50)]
    part = read_pairs(write_pairs(tmp_path / "mine.jsonl", rows))
    assert (len(part.drawn), len(set(part.images))) == (50, 10)


@pytest.mark.shared_data
def test_discoursefoil_gives_the_published_shares(shared_data, tmp_path):
    """The 200 rows that its authors use, ties one half; one has two equal texts. CIDEr-D is tiny for long captions."""
    import gzip

    with gzip.open(shared_data / "discosg" / "discoursefoil.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["fixed"] == "true"]
    part = read_pairs(write_pairs(tmp_path / "discoursefoil.jsonl", rows), items=1000)
    assert (len(rows), len(part.drawn), part.left_out) == (200, 199, {"discoursefoil": 1})
    plain = CaptionSet.of({"1": "a dog runs", "2": "a cat"}, {"1": ["a dog"], "2": ["cats"]})
    file = str(tmp_path / "discoursefoil.jsonl")
    card = stress(plain, "bleu(n=1),bleu(n=4),rouge,cider", FAST, edits=["cut"], pairs=[file], items=1000)
    shares = [row.effect("discoursefoil").sides.value for row in card.rows]
    assert [(199 * share + 0.5) / 2 for share in shares] == pytest.approx([79.0, 88.75, 81.5, 65.75])


def test_the_document_has_a_row_an_edit_and_no_overall_score(solid, tmp_path):
    card = stress(solid, "bleu(n=1),rouge", FAST, edits=["harm", "harmless", "cut"])
    document = card.document()
    keys = {"summary", "sides", "sizes", "doses", "rates", "effects", "edits"}
    assert keys <= document.tables.keys()
    assert len(document.table("effects").rows) == 2 * (12 + 11 + 1)
    assert "overall" not in {column.name for table in document.tables.values() for column in table.heads}
    charts = [section for section in document.walk() if type(section).__name__ == "Chart"]
    assert [(one.kind, len(one.series)) for one in charts] == [("dots", 2)] * 3 + [("lines", 2)]
    assert [one.bounds for one in charts] == [(), (), (-0.1, 0.1), ()]
    records = card.records()
    wanted = ["metric", "signature", "group", "edit", "n", "sides", "size", "low", "high", "verdict"]
    assert [list(one) for one in records] == [wanted] * 48
    assert card.to_dict()["rows"][0]["edit"] == "other-caption"
    card.save(tmp_path / "card")
    page = (tmp_path / "card" / "report.html").read_text()
    assert "Harm: the caption becomes wrong" in page and "Worst offenders" in page
    assert (tmp_path / "card" / "effects.csv").read_text().count("\n") == 49
    assert "inject(1)" in (tmp_path / "card" / "report.tex").read_text()


def test_the_worst_offenders_have_the_change_marked(solid):
    """A metric that counts letters does not see the order of words, and likes any sentence more."""
    metric = captious.metric_from(letters, "letters_there", range=(0, 999))
    card = stress(solid, [metric], FAST, edits=["shuffle", "negate"])
    assert [one.verdict for one in card.rows[0].effects] == ["fails", "fails"]
    offenders = card.document().table("offenders_1").rows
    assert [row[0] for row in offenders] == ["shuffle"] * 5 + ["negate"] * 5
    for edit, _, _, after, done, was, now in offenders:
        if edit == "negate":
            (new,) = [one.text for one in after.spans if one.tone == "bad"]  # what makes a caption wrong is not green
            assert done == f"inserted {new}"
            assert now - was == sum(map(str.isalpha, new))
    changes = [row[6] - row[5] for row in offenders if row[0] == "negate"]
    assert changes == sorted(changes, reverse=True) and changes[0] > 0


def test_an_edit_of_ones_own(solid):
    louder = Edit.of(lambda item: item.candidate + "!", "harmless", "louder")
    (effect,) = stress(solid, "bleu(n=1)", FAST, edits=[louder]).rows[0].effects
    assert (effect.edit, effect.group, effect.n, effect.size.value) == ("louder", "harmless", 60, 0.0)


def test_a_metric_that_cannot_score_the_captions_is_refused(solid):
    alone = CaptionSet.of({"1": "a dog runs"})
    with pytest.raises(InputError, match="cannot score captions: no references"):
        stress(alone, "cider", FAST, edits=["cut"])
    with pytest.raises(InputError, match="contains no caption to edit"):
        stress(CaptionSet.of({"1": " "}), "bleu", FAST)


def test_an_unknown_name_is_refused_and_says_what_there_is(solid):
    card = stress(solid, "bleu(n=1)", FAST, edits=["cut"])
    with pytest.raises(InputError, match=r"no card of 'cider', expected one of bleu\(n=1\)"):
        card["cider"]
    with pytest.raises(InputError, match="no edit 'twice' was tried, expected one of cut"):
        card.rows[0].effect("twice")


def test_a_dry_run_counts_every_text_once(solid, tmp_path):
    """20 captions, of each: itself, *cut* and *twice*."""
    from captious.metrics.judges.dry_run import dry_run

    test = plan_stress(solid, ["cut", "twice"], items=20)
    judging = Judging(endpoint="http://127.0.0.1:9/v1", replies=tmp_path / "replies.db")
    with using(replace(Runtime(), judging=judging)):
        plan = dry_run(test.sets(), ["clair(model=nobody)"])
    distinct = len({(one.references, one.candidates) for one in test.parts[0].texts})
    assert plan.total.calls == distinct == 60
