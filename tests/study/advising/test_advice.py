"""Advice: the order of the nearest evidence, what is equal, and what nobody has tested."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import captious
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.options import Judging, Runtime, using
from captious.study import advise
from captious.study.advising._profile import guess_language
from captious.study.advising.advice import ASK
from captious.study.evidence import EvidenceRow

WORDS = ["a", "dog", "runs", "on", "the", "green", "grass", "with", "a", "red", "ball", "and"]


def row(dataset, metric, value, rank, **changes):
    common = {
        "dataset": dataset, "kind": "ratings", "domain": "photographs", "language": "English", "caption_words": 10.0,
        "references": 5.0, "items": 500, "statistic": "tau_c", "metric": metric, "signature": "s", "value": value,
        "low": value - 0.05, "high": value + 0.05, "ranks": rank and (rank,), "source": "computed", "where": "w",
        "recipe": dataset, "date": "2026-01-01",
    }  # fmt: skip
    return EvidenceRow(**{**common, **changes})


@pytest.fixture
def evidence(tmp_path):
    """CIDEr-D is the best metric for short captions, BLEU-1 for long ones; BLEU-4 and ROUGE-L are equal on both."""
    short = {"cider": (0.5, 1), "bleu(n=1)": (0.4, 2), "bleu(n=4)": (0.3, 3), "rouge": (0.29, 3), "words": (0.01, 4)}
    long = {"bleu(n=1)": (0.5, 1), "rouge": (0.3, 2), "bleu(n=4)": (0.29, 2), "cider": (0.1, 3), "words": (0.05, 3)}
    rows = [row("short", metric, *numbers) for metric, numbers in short.items()]
    rows += [row("long", metric, *numbers, caption_words=150.0, references=1.0) for metric, numbers in long.items()]
    rows.append(row("short", "fleur", 0.53, 1, source="stored-outputs", signature=""))
    printed = {"low": None, "high": None, "source": "printed", "signature": "", "where": "A 2020, Table 3"}
    rows.append(row("short", "HICE-S", 0.56, None, **printed))
    path = tmp_path / "evidence.jsonl"
    path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in rows))
    return path


def captions_of(words, items=30, references=5):
    texts = {
        str(item): " ".join([WORDS[(item + place) % len(WORDS)] for place in range(words)]) for item in range(items)
    }
    return CaptionSet.of(
        texts, {key: [text[: 10 + 5 * place] for place in range(references)] for key, text in texts.items()}
    )


def metrics_of(advice):
    return [one.metric for one in advice.usable]


def test_the_order_is_that_of_captions_of_the_same_length(evidence):
    short = advise(captions_of(9), evidence=evidence)
    assert metrics_of(short) == ["cider", "bleu(n=1)", "bleu(n=4)", "rouge", "words"]
    assert [one.metric for one in short.best] == ["cider"]
    long = advise(captions_of(180, references=1), evidence=evidence)
    assert metrics_of(long)[0] == "bleu(n=1)" and [one.metric for one in long.best] == ["bleu(n=1)"]
    assert [one.name for one in short.near] == ["short"] and [one.name for one in long.near] == ["long"]
    assert short.untested == long.untested == ()


def test_metrics_of_one_cluster_are_printed_as_equal(evidence):
    text = str(advise(captions_of(9), evidence=evidence))
    assert "CIDEr-D > BLEU-1 > BLEU-4 = ROUGE-L > number of words" in " ".join(text.split())
    long = str(advise(captions_of(180, references=1), evidence=evidence))
    assert "BLEU-1 > ROUGE-L = BLEU-4 > CIDEr-D = number of words" in " ".join(long.split())


def test_a_length_nobody_tested_gives_the_sentence(evidence):
    advice = advise(captions_of(40), evidence=evidence)
    assert advice.untested == ("no evidence for captions of 40 words in English",)
    assert advice.best == () and advice.usable == () and "captious studio new" in str(advice)


def test_a_language_nobody_tested_gives_the_sentence(evidence):
    texts = {str(item): "犬が草の上を走っている。" for item in range(5)}
    advice = advise(CaptionSet.of(texts, {key: [text] for key, text in texts.items()}), evidence=evidence)
    assert advice.untested == ("no evidence for captions of 12 characters in Japanese",)
    french = advise(replace(captions_of(9), language="fr"), domain="photographs", evidence=evidence)
    assert french.untested == ("no evidence for captions of 9 words in French about photographs",)
    assert advise(captions_of(9), domain="video", evidence=evidence).near == ()


def test_what_the_captions_do_not_have_is_said(evidence):
    advice = advise(captions_of(9, references=0), evidence=evidence)
    assert metrics_of(advice) == ["words"] and advice.best == ()
    missing = {one.metric: one.missing for one in advice.others}
    assert missing["cider"] == ("references",) and missing["fleur"] == ("image",)
    assert "no evidence with 0 references; there is some with 5+" in advice.untested


def test_a_metric_below_the_number_of_words_is_not_recommended(tmp_path):
    rows = [row("d", "words", 0.8, 1), row("d", "cider", 0.4, 2)]
    path = tmp_path / "e.jsonl"
    path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in rows))
    advice = advise(captions_of(9), evidence=path)
    assert advice.best == () and answer_of(advice) == (
        "Short captions (up to 20 words) with references: no metric here is proven; ask people, or use a judge and "
        "audit it. On d (500 captions of 10 words, 5 references), no metric that you can run agrees with people better "
        f"than counting words. {ASK}"
    )


def test_a_metric_that_shares_a_rank_with_the_number_of_words_is_not_proven(tmp_path):
    """ROUGE-L has a higher value than the number of words, but no test distinguishes them."""
    path = tmp_path / "e.jsonl"
    rows = [row("d", "rouge", 0.4, 1), row("d", "words", 0.1, 1)]
    path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in rows))
    assert advise(captions_of(9), evidence=path).reported == ()


def answer_of(advice):
    return advice.document().answer_text


def test_the_answer_names_the_best_metric_and_the_best_without_a_model(tmp_path):
    numbers = {"sbert": (0.6, 1), "cider": (0.5, 2), "rouge": (0.4, 3), "words": (0.1, 4)}
    rows = [row("d", metric, *own) for metric, own in numbers.items()]
    path = tmp_path / "e.jsonl"
    path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in rows))
    advice = advise(captions_of(9), evidence=path)
    assert [one.metric for one in advice.reported] == ["sbert", "cider"]
    assert answer_of(advice) == (
        "Short captions (up to 20 words) with references: report SBERT and CIDEr-D. On d (500 captions of 10 words, 5 "
        "references), SBERT agrees best with people (τ-c × 100 is 60.0). CIDEr-D is the best that needs no model."
    )
    data = json.loads(advice.to_json())
    assert data["answer"] == answer_of(advice) and " ".join(str(advice).split()).index("report SBERT") < 100


def test_long_captions_hear_that_cider_erases_them(evidence):
    """exp(−20² / (2 · 6²)) = 0.0039, CIDEr-D's length penalty with σ = 6 for 20 words."""
    long = answer_of(advise(captions_of(180, references=1), evidence=evidence))
    assert "report BLEU-1." in long
    assert "Not CIDEr-D: a caption 20 words longer than its reference keeps 0.4 % of its score" in long
    assert "Not CIDEr-D" not in answer_of(advise(captions_of(9), evidence=evidence))


def test_captions_of_a_length_nobody_tested_hear_of_shorter_and_longer_ones(evidence):
    answer = answer_of(advise(captions_of(54), evidence=evidence))
    assert answer == (
        "Captions of 21 to 60 words with references: no metric here is proven; ask people, or use a judge and audit "
        "it. There is no evidence on captions of this length, language and kind. Short captions (up to 20 words) with "
        "references: report CIDEr-D. Long captions (more than 60 words) with references: report BLEU-1. " + ASK
    )
    without = answer_of(advise(captions_of(54, references=0), evidence=evidence))
    assert "Short captions (up to 20 words) without references, with images: report FLEUR." in without
    assert "Long captions (more than 60 words) without references, with images: no metric is proven there either" in (
        without
    )


def test_nobody_hears_of_photographs_who_did_not_say_so(evidence):
    def shown(advice):
        return str(replace(advice, stress=()))  # stress cards name the photographs that were edited

    for words, references in ((9, 5), (54, 0), (180, 1)):
        assert "photographs" not in shown(advise(captions_of(words, references=references), evidence=evidence))
    assert "about photographs" in shown(advise(captions_of(9), domain="photographs", evidence=evidence))
    drawn = advise(captions_of(9), domain="drawn scenes")  # the package's own evidence
    assert "photographs" not in shown(drawn) and "about drawn scenes" in shown(drawn)
    assert "The only ranks on such captions come from simulated raters." in answer_of(drawn) and drawn.best == ()


def test_ranks_among_the_shown_metrics_have_no_gap(evidence):
    """FLEUR shares rank 1 with CIDEr-D; on captions without images it is not shown, nor is its rank."""
    gap = evidence.with_name("gap.jsonl")
    rows = [row("g", "fleur", 0.9, 1), row("g", "cider", 0.5, 2), row("g", "rouge", 0.4, None, ranks=(2, 3))]
    rows += [row("g", "bleu(n=4)", 0.3, 3), row("g", "words", 0.1, 5)]
    gap.write_text("".join(json.dumps(asdict(one)) + "\n" for one in rows))
    table = advise(captions_of(9), evidence=gap).document().table("metrics")
    assert [line[1] for line in table.rows] == ["1", "1–2", "2", "3"]
    # ROUGE-L shares its first rank with a metric that is not shown: among the others it has that of BLEU-4 alone.
    rows[1:3] = [row("g", "meteor", 0.5, 2), row("g", "rouge", 0.4, None, ranks=(1, 3))]
    gap = evidence.with_name("shared.jsonl")
    gap.write_text("".join(json.dumps(asdict(one)) + "\n" for one in rows))
    assert "METEOR > ROUGE-L = BLEU-4 > number of words" in " ".join(str(advise(captions_of(9), evidence=gap)).split())


def test_stress_edits_that_matter_for_the_purpose_are_said(tmp_path, evidence):
    edits = [("harm", "negate", "fails"), ("harm", "color", "holds"), ("gaming", "twice", "fails")]
    common = {
        "metric": "cider",
        "signature": "",
        "n": 9,
        "sides": 0.4,
        "size": 0.1,
        "low": 0,
        "high": 1,
        "dataset": "d",
    }
    rows = [{**common, "group": group, "edit": edit, "verdict": verdict} for group, edit, verdict in edits]
    path = tmp_path / "stress.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    assert advise(captions_of(9), evidence=evidence, stress=path).stress == ("CIDEr-D fails on d: harm: negate",)
    rewarded = advise(captions_of(9), purpose="checkpoints", evidence=evidence, stress=path)
    assert rewarded.stress == ("CIDEr-D fails on d: harm: negate; gaming: twice",)
    assert "Stress edits that fail" in str(rewarded)


def test_printed_numbers_are_shown_and_not_ranked(evidence):
    advice = advise(captions_of(9), evidence=evidence)
    table = advice.document().table("printed")
    assert [list(line) for line in table.rows] == [["HICE-S", "short", "τ-c", 0.56, "not shipped with captious"]]
    assert "A 2020, Table 3" in table.note and "HICE-S" not in {one.metric for one in advice.usable}


def test_the_kind_that_answers_the_question_comes_first(tmp_path, evidence):
    path = tmp_path / "more.jsonl"
    pairs = row("foils", "rouge", 0.9, 1, kind="pairs", statistic="mean", items=50)
    path.write_text(evidence.read_text() + json.dumps(asdict(pairs)) + "\n")
    assert [one.name for one in advise(captions_of(9), purpose="pairs", evidence=path).near] == ["foils", "short"]
    assert [one.name for one in advise(captions_of(9), purpose="ratings", evidence=path).near] == ["short", "foils"]
    systems = advise(captions_of(9), purpose="checkpoints", evidence=path)
    assert systems.untested == ("no evidence on systems of such captions; the order is from ratings and pairs",)


def test_a_part_of_a_data_set_is_not_shown_beside_the_whole(tmp_path):
    rows = [row("d", "cider", 0.5, 1), row("d (part)", "rouge", 0.4, 1, recipe="d", items=100)]
    path = tmp_path / "e.jsonl"
    path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in rows))
    assert [one.name for one in advise(captions_of(9), evidence=path).near] == ["d"]


def test_a_metric_that_the_nearest_data_do_not_have_is_named_where_it_is_ahead(tmp_path):
    """Three references: the nearest data have three, and no BLEU-4, which is ahead of CIDEr-D on the data with five."""
    near = {"references": 3.0}
    rows = [row("near", "cider", 0.5, 1, **near), row("near", "rouge", 0.4, 2, **near)]
    rows += [row("far", "bleu(n=4)", 0.6, 1), row("far", "cider", 0.5, 2), row("far", "bleu(n=1)", 0.5, 2)]
    path = tmp_path / "e.jsonl"
    path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in rows))
    advice = advise(captions_of(9, references=3), evidence=path)
    assert [one.metric for one in advice.best] == ["cider"]
    assert "not tested on near, but ahead of CIDEr-D on far: BLEU-4\n" in str(advice)
    tables = advice.document().tables
    assert [list(line)[:3] for line in tables["metrics"].rows][:2] == [["CIDEr-D", "1", 0.5], ["ROUGE-L", "2", 0.4]]
    assert next(list(line) for line in tables["further"].rows) == ["CIDEr-D", "2: 50.0"]


def test_weights_that_nobody_can_download_are_missing(tmp_path):
    rows = [row("d", "cider", 0.4, 2), row("d", "refclipscore(weights=photographs,prefix=)", 0.5, 1)]
    path = tmp_path / "e.jsonl"
    path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in rows))
    captions = captions_of(9)
    captions = replace(captions, columns={"image": ["a.png"] * len(captions)})
    advice = advise(captions, evidence=path)
    assert [one.metric for one in advice.best] == ["cider"]
    assert advice.others[0].missing == ("its weights, trained on photographs of the same collection",)


def test_evidence_without_ranks_has_no_order_of_ranks(tmp_path):
    rows = [row("d", metric, value, None, kind="systems") for metric, value in (("cider", 1.0), ("rouge", 0.7))]
    path = tmp_path / "e.jsonl"
    path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in rows))
    advice = advise(captions_of(9), purpose="systems", evidence=path)
    assert advice.best == () and advice.deciding is None and "CIDEr-D; ROUGE-L" in str(advice)


def test_two_systems_of_few_items_hear_how_many_they_need(evidence):
    first, second = captions_of(9, 40), captions_of(8, 40)
    advice = advise({"a": first, "b": second}, evidence=evidence)
    assert advice.purpose == "systems" and advice.profile.items == 40
    assert "CIDEr-D: with 40 items a difference of" in advice.items_needed[0] and "b − a is" in advice.items_needed[0]
    # By hand from the values: 2.80 standard errors are found four times in five.
    values = [captious.evaluate(one, "cider").measurements["cider"].items for one in (first, second)]
    gaps = [values[1][key] - values[0][key] for key in values[0]]
    mean = sum(gaps) / 40
    error = (sum((gap - mean) ** 2 for gap in gaps) / 39 / 40) ** 0.5
    assert f"a difference of {2.8015852 * error:.4f} is found" in advice.items_needed[0]
    (alone,) = advise(first, purpose="systems", evidence=evidence).items_needed
    assert "takes about 197 items" in alone  # (2.8015852 / 0.2)² = 196.2


def test_what_a_judge_would_cost(evidence, tmp_path):
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    captions = captions_of(9)
    captions = replace(captions, columns={"image": [str(tmp_path / "a.png")] * len(captions)})
    judging = Judging(endpoint="http://127.0.0.1:9/v1", prices=(1000.0, 1000.0))
    with using(Runtime(judging=judging)):
        free = advise(captions, evidence=evidence)
        poor = advise(captions, evidence=evidence, budget=0.01)
    (fleur,) = (one for one in poor.usable if one.metric == "fleur")
    assert [one.metric for one in free.best] == ["fleur", "cider"]
    assert fleur.calls == 12  # twelve different captions of one image
    assert fleur.cost > 0.01 and fleur.over_budget and "over the budget" in str(poor)
    assert [one.metric for one in poor.best] == ["cider"]
    assert not any(one.over_budget for one in free.usable)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"purpose": "rating"}, "purpose='rating', expected ratings or pairs or systems or checkpoints"),
        ({"domain": "video "}, "domain='video ', expected photographs or video"),
        ({"budget": -1}, "budget=-1, expected a number of at least 0"),
    ],
)
def test_arguments_that_cannot_be(options, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        advise(captions_of(9), **options)


def test_captions_without_a_word_are_refused():
    with pytest.raises(InputError, match="contains no caption to advise on"):
        advise(CaptionSet.of({"1": "", "2": " "}))


def test_systems_without_a_common_item_are_refused():
    other = CaptionSet.of({"z": "a cat"}, {"z": ["cats"]})
    with pytest.raises(InputError, match="a, b: the systems have no item in common"):
        advise({"a": captions_of(9), "b": other})
    with pytest.raises(InputError, match="no such file"):
        advise({"a": Path("nowhere.json")})


def test_advice_is_a_document_like_all_others(evidence):
    advice = advise(captions_of(9), evidence=evidence)
    data = json.loads(advice.to_json())
    assert data["best"] == ["cider"] and data["captions"]["words"] == 9
    assert data["evidence"][0]["order"] == "FLEUR = CIDEr-D > BLEU-1 > BLEU-4 = ROUGE-L > number of words"
    assert data["metrics"][0]["seconds"] >= 0
    assert "Which metric for ratings" in advice._repr_html_()
    assert repr(advice) == "<Advice for ratings: CIDEr-D>"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Ein Hund rennt über die Wiese und bellt", "a language in Latin script"),
        ("the dog is on the grass", "English"),
        ("一只狗在草地上奔跑", "Chinese"),
        ("개가 잔디 위를 달린다", "Korean"),
        ("собака бежит по траве", "a language in Cyrillic script"),
        ("ένας σκύλος τρέχει", "Greek"),
        ("123 !!", "an unknown language"),
        ("犬が黄色いボールを追う dog", "Japanese"),
    ],
)
def test_the_language_of_captions(text, language):
    assert guess_language([text]) == language
