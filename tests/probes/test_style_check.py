"""Captions under their own style and others, and against people's rankings."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lab.toy import make

from captious.errors import InputError
from captious.metrics.style.fitting import fit
from captious.metrics.style.model import StyleModel
from captious.options import Reading, Resampling
from captious.probes.rankings import RankedSet, correlate
from captious.probes.style_check import StyledCaptions, StyledCorpus, StyleRival, check, read_styled

CORPUS = [
    ("happy", "a fine day"),
    ("happy", "a fine and sunny day"),
    ("happy", "sunny sunny dog"),
    ("gloomy", "a grey day"),
    ("gloomy", "the grey dog weeps"),
    ("angry", "the day from hell"),
    ("angry", "a dog barks at a dog"),
]


@pytest.fixture
def model() -> StyleModel:
    return fit(CORPUS, name="moods")


def styled(rows: list[tuple[str, str]]) -> StyledCorpus:
    styles, texts = zip(*rows, strict=True)
    return StyledCorpus("rows", styles, texts, tuple(map(str, range(len(rows)))))


@pytest.fixture(scope="module")
def sample() -> StyledCorpus:
    planted = make(40)
    return styled([(row["style"], row["caption"]) for scene in planted.scenes() for row in planted.styled(scene)])


def test_table_one_by_hand() -> None:
    # x stands in one style only, y in the other: both captions win. "z" is alike in both and ties, which fails.
    result = check(None, styled([("p", "x"), ("q", "y"), ("p", "z"), ("q", "z")]))
    assert result.retrieval.wins.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert result.retrieval.ranks.tolist() == [1, 2, 1, 2]
    # No caption shares a weighted word with another: similarity 0 on both sides, and a tie fails.
    assert result.wins.tolist() == [0.0, 0.0, 0.0, 0.0]


def test_the_random_style_is_another_one_and_comes_from_the_seed() -> None:
    # With two styles the random one is the other: OnlyStyle of "x" is 1/8 under p and -1/8 under q (CNG ±1/2, n = 1).
    two = check(None, styled([("p", "x"), ("q", "y"), ("p", "z"), ("q", "z")])).retrieval
    assert two.own.tolist() == [0.125, 0.0, 0.125, 0.0] and two.random.tolist() == [-0.125, 0.0, -0.125, 0.0]
    assert (two.above_random, two.first) == (0.5, 0.5)
    # With three styles of one word each: 1/4 · (1 − 0 + 1 − 0) / 3 under the own style, 1/4 · (0 − 1) / 3 under others.
    many = styled([(style, style * 2) for style in "pqr" for _ in range(20)])
    drawn = [check(None, many, resampling=Resampling(seed=seed)) for seed in (1, 1, 2)]
    assert drawn[0].retrieval.own == pytest.approx(1 / 6) and drawn[0].retrieval.random == pytest.approx(-1 / 12)
    document = drawn[0].document()
    assert document.table("random").rows[0] == pytest.approx((1 / 6, -1 / 12, 1.0, 1.0))
    assert "seed 1" in document.table("random").note


def test_the_random_style_depends_on_the_seed() -> None:
    # The words of q are p's too, those of r are not: under q a caption of p scores higher than under r.
    rows = [("p", "x y"), ("q", "x z"), ("r", "u v")] * 30
    one, same, other = (check(None, styled(rows), resampling=Resampling(seed=seed)).retrieval for seed in (1, 1, 2))
    assert one.random.tolist() == same.random.tolist() != other.random.tolist()


def test_rivals_are_a_table_and_a_sentence() -> None:
    result = check(None, styled([("p", "x"), ("q", "y"), ("p", "x"), ("q", "y")]), folds=2)
    rivals = (StyleRival("lstm", (0.5, 0.75), (0.5, 0.75)), StyleRival("linear", (1.0,), (1.0,)))
    document = replace(result, rivals=rivals).document()
    assert [row[:3] for row in document.table("rivals").rows] == [
        ("OnlyStyle", 1.0, None),
        ("lstm", 0.625, 0.25),
        ("linear", 1.0, None),
    ]
    assert "rivals" not in result.document().tables


def test_mean_similarity_by_hand() -> None:
    # Unigrams: x in p only (2 captions), y in q only, u and v in p once each. F_p = [x 2, u 1, v 1]: ECDF(1) = 2/3.
    # CNG_p: x 1/2, u and v 1/3, y −1/2. "x u" resembles the rest of p ("x v") by x, and q shares nothing: a win.
    wins = check(None, styled([("p", "x u"), ("p", "x v"), ("q", "y")])).wins
    assert wins[:2].tolist() == [1.0, 1.0]
    assert np.isnan(wins[2]), "the only caption of its style has no reference"


def test_repeated_rows_are_not_their_own_references() -> None:
    rows = styled([("p", "x u"), ("p", "x u"), ("p", "x w"), ("q", "y"), ("q", "y x")])
    twice = StyledCorpus("rows", rows.styles, rows.texts, ("1", "1", "2", "3", "4"))
    assert StyledCaptions.of(None, twice).copy_of.tolist() == [0, 0, 2, 3, 4]
    assert StyledCaptions.of(None, rows).copy_of.tolist() == [0, 1, 2, 3, 4]


def test_sampling_is_seeded(sample: StyledCorpus) -> None:
    model = fit(zip(sample.styles, sample.texts, strict=True))
    one, same = (StyledCaptions.of(model, sample, 30, Resampling(seed=7)) for _ in range(2))
    assert one.tested.sum() == 30
    assert np.array_equal(one.tested, same.tested)
    whole = StyledCaptions.of(model, sample)
    assert np.array_equal(whole.retrieval().wins[one.tested], one.retrieval().wins)
    assert np.array_equal(whole.stylecider()[one.tested], one.stylecider())


def test_styles_of_the_sample_are_told_apart(sample: StyledCorpus) -> None:
    model = fit(zip(sample.styles, sample.texts, strict=True))
    planted = make(60, seed=1)
    fresh = styled([(row["style"], row["caption"]) for scene in planted.scenes() for row in planted.styled(scene)])
    assert StyledCaptions.of(model, fresh).retrieval().value > 0.95


def test_a_check_on_the_fitted_captions_says_so(sample: StyledCorpus) -> None:
    model = fit(zip(sample.styles, sample.texts, strict=True))
    assert "fitted on these very captions" in check(model, sample).document().warnings[0]
    assert check(model, sample).tested == "in-sample"
    part = check(model, StyledCorpus("part", sample.styles[4:], sample.texts[4:], sample.ids[4:]))
    assert part.tested == "partly in-sample" and "fitted on most of these captions" in part.document().warnings[0]


def test_captions_that_the_model_has_not_seen_are_held_out(model: StyleModel) -> None:
    result = check(model, styled([("happy", "a dog on a sunny hill"), ("angry", "rain all over the place again")]))
    assert result.tested == "held out" and not result.document().warnings
    assert "held out" in result.document().title


def test_folds_by_hand() -> None:
    # Two folds of one id each: "x" of p and "y" of q are tested under a model of "x" of p and "z" of q.
    rows = StyledCorpus("rows", ("p", "q", "p", "q"), ("x", "y", "x", "z"), ("1", "1", "2", "2"))
    result = check(None, rows, folds=2)
    # The model of the other fold knows x as p's: x wins twice. It has never seen y, or z: they tie, which fails.
    assert result.retrieval.wins.tolist() == [1.0, 0.0, 1.0, 0.0]  # fold by fold, p before q
    assert result.tested == "held out" and "held out, 2 folds" in result.document().title
    assert check(None, rows).retrieval.value == 1.0


def test_folds_need_captions_of_every_style_outside() -> None:
    rows = styled([("p", "x"), ("p", "y"), ("q", "z"), ("p", "w")])
    with pytest.raises(InputError, match="rows: all captions of style 'q' are in one fold: too few for 2 folds"):
        check(None, rows, folds=2)
    with pytest.raises(InputError, match="rows: 9 folds of 4 ids, expected 2 to 4"):
        check(None, rows, folds=9)


def test_a_share_of_styles_is_shown_where_there_are_ten(sample: StyledCorpus) -> None:
    few = check(None, sample).document()
    assert [column.name for column in few.table("ranks").heads] == ["median", "mean reciprocal", "first"]
    many = check(None, styled([(f"s{number}", f"w{number} v{other}") for number in range(10) for other in range(2)]))
    assert many.document().table("ranks").heads[-1].name == "in the top tenth"


def test_bad_corpora(model: StyleModel, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"rows: contains one style \('happy'\)"):
        StyledCaptions.of(model, styled([("happy", "x")]))
    with pytest.raises(InputError, match=r"rows: the style model moods has no style 'hapy'.*did you mean 'happy'"):
        StyledCaptions.of(model, styled([("hapy", "x"), ("angry", "y")]))
    path = tmp_path / "c.jsonl"
    path.write_text('{"sentence": "x", "style": "a"}\n')
    with pytest.raises(InputError, match="row 1: no caption: found columns sentence, style"):
        read_styled(path)
    path.write_text('{"caption": "x", "style": null}\n')
    with pytest.raises(InputError, match="row 1: style is None, expected the name of a style"):
        read_styled(path)
    path.write_text('{"caption": "x", "style": "a", "page": 3}\n')
    assert read_styled(path).ids == ("#0",)
    assert read_styled(path, Reading(id_column="page,style")).ids == ("3:a",)
    with pytest.raises(InputError, match="row 1: no id: found columns caption, style, page, expected 'nr'"):
        read_styled(path, Reading(id_column="nr"))


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows(ranks: dict[str, list[int]], captions: list[str], style: str = "happy") -> list[dict[str, object]]:
    return [
        {"style": style, "caption": caption, "rank": rank, "rater": rater}
        for rater, given in ranks.items()
        for caption, rank in zip(captions, given, strict=True)
    ]


def ranked_set(model: StyleModel, path: Path) -> RankedSet:
    (style,) = correlate(model, path).styles
    (ranked,) = style.sets
    assert (style.style, style.raters, style.pearson, style.spearman) == (
        "happy",
        len(ranked.raters),
        pytest.approx(ranked.pearson, nan_ok=True),
        pytest.approx(ranked.spearman, nan_ok=True),
    )
    return ranked


def test_the_most_common_ranking_stands_for_people(model: StyleModel, tmp_path: Path) -> None:
    captions = ["a fine day", "a day", "the grey dog weeps"]
    votes = {"1": [3, 2, 1], "2": [1, 2, 3], "3": [3, 2, 1]}
    agreement = ranked_set(model, write(tmp_path / "r.jsonl", rows(votes, captions)))
    assert agreement.ranking == (3, 2, 1)
    assert agreement.raters == ("1", "2", "3")
    assert agreement.spearman == pytest.approx(1.0)
    # Pearson by the textbook formula for n = 3: ranks 3, 2, 1 have deviations 1, 0, −1.
    high, middle, low = agreement.scores
    mean = (high + middle + low) / 3
    spread = math.sqrt(sum((score - mean) ** 2 for score in agreement.scores))
    assert agreement.pearson == pytest.approx((high - low) / (math.sqrt(2) * spread))


def test_a_swapped_pair_gives_one_half(model: StyleModel, tmp_path: Path) -> None:
    captions = ["a fine day", "a day", "the grey dog weeps"]
    agreement = ranked_set(model, write(tmp_path / "r.jsonl", rows({"1": [2, 3, 1]}, captions)))
    assert agreement.spearman == pytest.approx(0.5)


def test_constant_scores_have_no_correlation(model: StyleModel, tmp_path: Path) -> None:
    agreement = ranked_set(model, write(tmp_path / "r.jsonl", rows({"1": [1, 2]}, ["zebra", "yak"])))
    assert math.isnan(agreement.pearson) and math.isnan(agreement.spearman)


def test_of_several_sets_a_style_has_the_mean_correlation(model: StyleModel, tmp_path: Path) -> None:
    captions = ["a fine day", "a day", "the grey dog weeps"]
    given = [
        *({**row, "set": "1"} for row in rows({"a": [3, 2, 1], "b": [3, 2, 1]}, captions)),
        *({**row, "set": "2"} for row in rows({"b": [2, 3, 1], "c": [2, 3, 1], "d": [1, 2, 3]}, captions)),
        *({**row, "set": "3"} for row in rows({"a": [1, 2]}, ["zebra", "yak"])),
    ]
    result = correlate(model, write(tmp_path / "r.jsonl", given))
    (style,) = result.styles
    assert [one.ranking for one in style.sets] == [(3, 2, 1), (2, 3, 1), (1, 2)]  # each set has its own majority
    assert (style.raters, style.captions) == (4, 8)
    # Spearman is 1 in the first set and 1/2 in the second (one swap of neighbors); the third is constant, left out.
    assert style.spearman == pytest.approx((1 + 0.5) / 2)
    assert style.pearson == pytest.approx((style.sets[0].pearson + style.sets[1].pearson) / 2)
    document = result.document()
    assert document.table("styles").rows[0][:4] == ("happy", 3, 8, 4)
    assert "Left out: 1 whose" in document.table("styles").note and len(document.table("sets").rows) == 3
    alone = correlate(model, write(tmp_path / "r.jsonl", rows({"a": [3, 2, 1]}, captions))).document()
    assert [str(column.name) for column in alone.table("styles").heads][:3] == ["style", "captions", "raters"]
    assert "sets" not in alone.tables
    unnamed = [{**row, "set": None} for row in given]
    with pytest.raises(InputError, match="ranked twice; name the raters in a column 'rater', and the sets"):
        correlate(model, write(tmp_path / "r.jsonl", unnamed))
    with pytest.raises(InputError, match=r"row 1: set is \['x'\], expected a text"):
        correlate(model, write(tmp_path / "r.jsonl", [{**given[0], "set": ["x"]}]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"style": "hapy"}, "row 2: the style model moods has no style 'hapy'"),
        ({"rank": "best"}, "row 2: rank is 'best', expected a number"),
        ({"caption": "x"}, "row 2: caption 'x' is ranked twice"),
    ],
)
def test_bad_rows(model: StyleModel, tmp_path: Path, change: dict[str, object], message: str) -> None:
    given = rows({"1": [1, 2]}, ["x", "y"])
    given[1] |= change
    with pytest.raises(InputError, match=message):
        correlate(model, write(tmp_path / "r.jsonl", given))


def test_missing_column_and_rank(model: StyleModel, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="row 1: no rank: found columns style, caption"):
        correlate(model, write(tmp_path / "r.jsonl", [{"style": "happy", "caption": "x"}]))
    given = rows({"1": [1, 2], "2": [1, 2]}, ["x", "y"])[:-1]
    with pytest.raises(InputError, match="rater '2' gives 'y' no rank for 'happy'"):
        correlate(model, write(tmp_path / "r.jsonl", given))


@pytest.mark.shared_data
def test_table_one_on_flickrstyle(shared_data: Path) -> None:
    # 0.9992 and 0.850 come from an independent implementation (the quick check); the paper has 0.9994, 0.9032.
    result = check(None, read_styled(shared_data / "style" / "flickrstyle.jsonl"))
    assert result.retrieval.value == pytest.approx(0.9992, abs=5e-5)
    assert result.stylecider == pytest.approx(0.850, abs=5e-4)
