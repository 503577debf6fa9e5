"""AudioCaps-Eval, CapArena and LongCap-Arena: the files they read, and their protocols by hand arithmetic."""

import csv
import json

import numpy as np
import pytest

import captious
from captious.errors import InputError
from captious.options import Reading, Resampling
from captious.study import correlate
from captious.study._design import PairRules, Pairs
from captious.study.judgments import open_recipe
from captious.study.load import load_ratings
from captious.study.raters.agreement import rater_agreement
from captious.study.recipes import RECIPES
from captious.study.study_options import StudyInput

QUICK = Resampling(samples=0)
REFERENCES = ["a b c", "a b d", "a e f", "g h i", "a b j"]
CLIP = {
    "audio_id": "one",
    "raw_name": "one.wav",
    "references": REFERENCES,
    "HC": ["a b c", "g h i", "ground_t_1", "ground_t_2", [1, 1, 1, -1]],
    "HI": ["a b d", "x y z", "ground_t_3", "idx7", [1, 1, 1, 1]],
    "HM": ["g h i", "a b c", "ground_t_4", "attn15", [1, 1, 1, 0]],
    "MM_1": ["a b x", "g h x", "rl", "fc", [-1, -1, -1, 0]],
    "MM_2": ["a b x", "a b y", "rl", "fcbeam", [1, 1, 0, 0]],
    "MM_3": ["a b x", "a b y", "rl", "fc15", [1, -1, 0, 0]],
}


@pytest.fixture
def audio(tmp_path):
    def written(*clips):
        (tmp_path / "audiocaps_eval.json").write_text(json.dumps(clips))
        return open_recipe(RECIPES["audiocaps-eval"], tmp_path)

    return written


def test_audiocaps_eval_by_hand(audio):
    """All captions have three words, so BLEU-1 is the share of words that a reference has, and nothing is penalized.

    HC: "a b c" has 2/3 with the others (a b d), "g h i" 0: right. HI: "a b d" 2/3, "x y z" 0: right. HM: both without
    "g h i", which has 0 then, and "a b c" is a reference: wrong. MM_1: "a b x" has 2/3 in every choice of four
    references, "g h x" in four of five, so 8/15 in the mean, and people prefer it: wrong. MM_2: 2/3 twice, a tie: wrong
    as published, ½ in ours. MM_3: two votes against each other, left out.
    """
    pairs = audio(CLIP)
    assert pairs.dropped == {"people see no difference": 1} and pairs.groups == ("one",) * 5
    study = correlate(pairs, ["bleu(n=1)"], recipe=RECIPES["audiocaps-eval"], resampling=QUICK)
    (score,) = study.scores
    thirds = np.array([2, 0, 2, 0, 0, 3, 2, 8 / 5, 2, 2]) / 3
    assert score.values == pytest.approx(thirds, abs=1e-6)
    values = {name: one.value for name, one in study.estimates["bleu(n=1)"].items()}
    assert values == pytest.approx(
        {"pooled": 2 / 5, "mean": (1 + 1 + 0 + 0) / 4, "half": 2.5 / 5, "HC": 1, "HI": 1, "HM": 0, "MM": 0}
    )
    assert study.statistic == "pooled" and "|corpora:4" in score.signature
    shown = str(study.document())
    assert "values are rounded to single precision" in shown and "a tie of the metric counts as wrong" in shown


def test_pairs_of_audiocaps_eval_that_are_null_are_left_out(audio):
    pairs = audio(CLIP, {**CLIP, "audio_id": "two", "MM_1": None, "HC": None})
    assert pairs.dropped == {"the pair is null": 2, "people see no difference": 2} and len(pairs.preferred) == 8
    study = correlate(pairs, ["bleu(n=1)"], recipe=RECIPES["audiocaps-eval"], resampling=QUICK)
    assert "left out: 2 (the pair is null)" in str(study.document()) and "|left_out:4|" in study.signature


def test_what_each_caption_is_compared_with_and_in_which_corpus(audio):
    clip = {key: CLIP[key] for key in ("audio_id", "references", "HC", "HM", "MM_1")}
    short = {"audio_id": "two", "references": ["p q", "r s", "t u"], "HC": ["p q", "r s", "", "", [1]]}
    pairs = audio(clip, short, {**short, "audio_id": "three"})
    first, second, machine, other = pairs.scoring.corpora
    assert [(item.candidate, item.references) for item in first] == [
        ("a b c", ("a b d", "a e f", "g h i", "a b j")),
        ("g h i", ("a b c", "a b d", "a e f", "a b j")),
        ("p q", ("r s", "t u", "r s", "t u")),
        ("p q", ("r s", "t u", "r s", "t u")),
    ]
    assert [(item.candidate, item.references) for item in second][:3] == [
        ("g h i", ("a b c", "a b d", "a e f", "a b j")),
        ("a b c", ("a b c", "a b d", "a e f", "a b j")),
        ("r s", ("p q", "t u", "p q", "t u")),
    ]
    choices = [tuple(text for text in REFERENCES if text != left_out) for left_out in REFERENCES]
    assert [(item.candidate, item.references) for item in machine] == [("a b x", texts) for texts in choices]
    assert [(item.candidate, item.references) for item in other] == [("g h x", texts) for texts in choices]


def test_the_idf_of_cider_is_that_of_each_corpus(audio):
    pairs = audio(CLIP, {**CLIP, "audio_id": "two", "references": ["k l", "l m", "m n", "n o", "o p"]})
    (score,) = correlate(pairs, ["cider"], recipe=RECIPES["audiocaps-eval"], resampling=QUICK).scores
    sizes = [len(corpus) for corpus in pairs.scoring.corpora]
    assert sizes == [6, 6, 30, 30], "two clips, three pairs with people and 3 · 5 of machines, decided or not"
    for corpus in pairs.scoring.corpora:
        alone = captious.metric("cider").measure(corpus).items
        by_caption = {}
        for key, value in alone.items():
            if key in pairs.scoring.owners:
                by_caption.setdefault(pairs.scoring.owners[key], []).append(value)
        for key, values in by_caption.items():
            assert score.values[pairs.ids.index(key)] == pytest.approx(sum(values) / len(values))


def test_pairs_that_people_did_not_decide_are_part_of_the_corpus(audio):
    """The idf of CIDEr-D comes from the references of all pairs; a pair that is left out moves those that are not."""
    other = {**CLIP, "audio_id": "two", "references": ["k l", "l m", "m n", "n o", "o p"]}
    undecided = {facet: [*pair[:4], [1, -1, 0, 0]] for facet, pair in CLIP.items() if facet.startswith(("H", "M"))}
    pairs = audio(CLIP, {**other, **undecided})
    whole = audio(CLIP, other)
    assert len(pairs.ids) == 10 and pairs.dropped == {"people see no difference": 7}
    (some,), (all_,) = (
        correlate(one, ["cider"], recipe=RECIPES["audiocaps-eval"], resampling=QUICK).scores for one in (pairs, whole)
    )
    assert some.values == pytest.approx(all_.values[:10]) and "idf:refs:6:" in some.signature


def test_single_precision_makes_ties_and_both_rules_are_shown():
    values = np.array([1.0, 1.0 - 1e-9, 0.5, 0.4])
    both = np.array([0, 2])
    pairs = Pairs(
        both,
        both + 1,
        np.array([0, 1]),
        2,
        np.zeros(2, np.int64),
        ("all",),
        PairRules("strict", single=True, pooled=True),
    )
    accuracies = pairs.family("accuracy", values)(np.ones((2, 1)))
    assert accuracies["pooled"].tolist() == [0.5] and accuracies["half"].tolist() == [1.0]


def test_four_votes_are_four_raters(audio):
    agreement = rater_agreement(audio(CLIP), resampling=QUICK)
    assert [rater.name for rater in agreement.raters] == ["1", "2", "3", "4"]
    assert [rater.pairs for rater in agreement.raters] == [6, 6, 6, 6]
    assert [rater.ties for rater in agreement.raters] == [0, 0, 2, 4]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": 1}, r"contains an object .*expected a list of clips"),
        ([{"audio_id": "x"}], r"clip 1: is an object .*expected a clip: \{audio_id, references"),
        ([{**CLIP, "HC": ["a", "b"]}], r"clip 1, HC: is a list .*expected two captions, their sources and a list"),
        ([{**CLIP, "HI": ["a", "b", "", "", [2]]}], r"clip 1, HI: is a list .*a list of votes"),
        ([{**CLIP, "HI": ["a", 3, "", "", [1]]}], r"clip 1, HI: caption is a number \(3\), expected a string"),
    ],
)
def test_clips_that_are_none_are_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "audiocaps_eval.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        open_recipe(RECIPES["audiocaps-eval"], tmp_path)


def battle(image, first, second, winner, level="level 1"):
    """A battle whose captions say how many of the reference's four words they have."""
    captions = {
        f"caption{side}": "w " * (4 - number) + "a b c d "[: 2 * number] for side, number in ((1, first), (2, second))
    }
    return {
        "img": image,
        "source1": "m1",
        "source2": "m2",
        "ref": "a b c d",
        "winner": winner,
        "cluster": level,
        **captions,
    }


BATTLES = [
    battle("1.jpg", 4, 1, "m1"),
    battle("2.jpg", 2, 1, "equal", "level 2"),
    battle("3.jpg", 1, 3, "m2", "level 2"),
    battle("4.jpg", 3, 0, "skip", "level 2"),
    battle("6.jpg", 4, 0, "m2"),
    {**battle("5.jpg", 3, 0, "m1"), "source2": "human"},
]


@pytest.fixture
def caparena(tmp_path):
    (tmp_path / "caparena_annots_eval.json").write_text(json.dumps(BATTLES))
    return tmp_path


@pytest.mark.parametrize(
    ("ties", "pooled", "levels"),
    [
        # Differences in words: 3, 1, -2, 3, 4. People tied two, so the cut is at the third smallest, 3: those of 1 and
        # 2 are ties. Verdicts m1, tie, tie, m1, m1 against m1, tie, m2, tie, m2.
        ("match", 2 / 5, {"level 1": 1 / 2, "level 2": 1 / 3}),
        ("half", (1 + 0.5 + 1 + 0.5 + 0) / 5, {"level 1": 1 / 2, "level 2": 2 / 3}),
        ("drop", 2 / 3, {"level 1": 1 / 2, "level 2": 1}),
    ],
)
def test_caparena_by_each_rule_for_ties(caparena, ties, pooled, levels):
    people, recipe = load_ratings(StudyInput("caparena", data=caparena, ties=ties), Reading())
    assert people.dropped["a caption is by human"] == 1
    values = {key: float(captions.count("a") + captions.count("b") + captions.count("c") + captions.count("d"))
              for key, captions in ((item.id, item.candidate) for item in people.captions)}  # fmt: skip
    study = correlate(people, {"letters": values}, recipe=recipe, resampling=QUICK)
    found = {name: one.value for name, one in study.estimates["letters"].items()}
    assert found["pooled"] == pytest.approx(pooled) and found["half"] == pytest.approx(2 / 3)
    assert {name: found[name] for name in levels} == pytest.approx(levels)


def test_the_order_of_systems_by_a_metric_and_by_people(tmp_path):
    """By people m1 > m2 > m3; the metric turns the last two around: one of three pairs of systems is discordant."""
    met = [("m1", "m2", "m1"), ("m2", "m3", "m2"), ("m1", "m3", "m1")]
    rows = [{**battle(f"{one}.jpg", 1, 1, winner), "source1": one, "source2": other} for one, other, winner in met]
    (tmp_path / "caparena_annots_eval.json").write_text(json.dumps(rows))
    people = open_recipe(RECIPES["caparena"], tmp_path)
    values = dict(zip(people.ids, [3, 1, 1, 2, 3, 2], strict=True))
    study = correlate(people, {"metric": values}, recipe=RECIPES["caparena"], resampling=QUICK)
    (table,) = study._build_system_tables()
    # Spearman: 1 - 6 · (0 + 1 + 1) / (3 · 8); Kendall: (2 - 1) / 3.
    assert table.rows[0][1:] == pytest.approx([0.5, 1 / 3]) and table.title == "Between the 3 systems"


def test_caparena_refuses_a_winner_that_did_not_play(tmp_path):
    (tmp_path / "caparena_annots_eval.json").write_text(json.dumps([battle("1.jpg", 4, 1, "m3")]))
    with pytest.raises(InputError, match="winner is 'm3', expected one of m1, m2, equal, skip, bad"):
        open_recipe(RECIPES["caparena"], tmp_path)


def test_matched_ties_are_cut_for_each_metric_by_itself():
    """Of two metrics side by side, as the permutation test has them, each has its own scale and its own ties."""
    first = np.array([0, 2])
    pairs = Pairs(
        first, first + 1, np.array([0, 1]), 2, np.zeros(2, np.int64), ("all",), PairRules(people_ties="match"),
        np.array([True, False]),
    ).repeat_rows()  # fmt: skip
    assert pairs.verdicts(np.array([0.01, 0.02, 10.0, 20.0])).tolist() == [0.5, 1, 0.5, 1]


@pytest.fixture
def longcap(tmp_path):
    rows = [
        ("sa_1.jpg", "a dog", 0.2, 0.9, 0.5),
        ("sa_2.jpg", "a red cat", 0.8, 0.3, 0.6),
        ("sa_3.jpg", "rain", 0.5, 0.1, 1.0),
    ]
    for column, aspect in enumerate(("desc", "rel", "flu"), 2):
        with (tmp_path / f"{aspect}_dci_test.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["file_name", "image", "refs", "cand", "score"])
            for row in rows:
                writer.writerow([row[0], "", "['a dog runs', \"a dog's day\"]", row[1], row[column]])
    return tmp_path


def test_longcap_arena_reads_three_aspects(longcap):
    ratings = open_recipe(RECIPES["longcap-arena"], longcap)
    assert ratings.values.ravel().tolist() == [0.2, 0.8, 0.5] and ratings.question == "descriptiveness"
    assert {name: values.ravel().tolist() for name, values in ratings.aspects.items()} == {
        "relevance": [0.9, 0.3, 0.1],
        "fluency": [0.5, 0.6, 1.0],
    }
    assert ratings.captions.item(0).references == ("a dog runs", "a dog's day") and ratings.groups[0] == "sa_1.jpg"
    fluency, _ = load_ratings(StudyInput("longcap-arena", data=longcap, rating=("fluency",)), Reading())
    assert fluency.values.ravel().tolist() == [0.5, 0.6, 1.0] and fluency.question == "fluency"
    with pytest.raises(InputError, match="no rating 'beauty', expected one of descriptiveness, relevance, fluency"):
        load_ratings(StudyInput("longcap-arena", data=longcap, rating=("beauty",)), Reading())
