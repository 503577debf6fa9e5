"""The arena: both orders, verdicts by hand, rates and strengths, the draw, and what the judge was shown."""

import json
import math
import re

import numpy as np
import pytest
from tests.models.chat.stub import StubModel, asked, pictures, response

import captious
from captious._arena import FIRST, LONGER, Arena, count_shares, plan_arena
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.judges.matches import Match, Preference, draw, parse_opinion
from captious.models.chat._endpoint import Unanswered
from captious.models.chat.messages import Failure, Reply
from captious.options import Judging, Reading, Resampling, Runtime
from captious.stats.pairwise import name_rate

pytest.importorskip("aiohttp")
REFERENCES = {str(number): ["a dog runs", "the dog"] for number in range(6)}


@pytest.fixture
def runtime(tmp_path):
    return Runtime(judging=Judging(replies=tmp_path / "replies.db"))


class Referee(StubModel):
    """Answers by itself whether it holds to schemas, and keeps that question apart."""

    schema = False

    async def complete(self, body):
        if asked(body) == "Are you sure?":
            return response('{"sure": true}' if self.schema else "Yes!")
        return await super().complete(body)


def shown(body):
    """The captions of a question, in their order."""
    match = re.search(r'First caption:\n"(.*)"\n\nSecond caption:\n"(.*)"\n', asked(body))
    return match[1], match[2]


def reply(better, reason="why"):
    return json.dumps({"reason": reason, "better": better})


def by_quality(body):
    """Prefers the caption with more of the letter x; a tie where both have as many."""
    first, second = (text.count("x") for text in shown(body))
    return reply("first" if first > second else "second" if second > first else "tie", "more x")


def captions(word, number=6):
    return {str(item): f"{word} {item}" for item in range(number)}


def test_every_pair_is_asked_in_both_orders_and_counted(monkeypatch, runtime):
    model = Referee(by_quality).install(monkeypatch)
    systems = {"good": captions("xx"), "fair": captions("x"), "poor": captions("o")}
    result = captious.arena(systems, "m", resampling=Resampling(20), runtime=runtime, references=REFERENCES)
    assert len(model.bodies) == 6 * 3 * 2 and len(result.matches) == 18
    orders = [shown(body) for body in model.bodies]
    assert len(set(orders)) == 36 and all((second, first) in orders for first, second in orders)
    data = result.data()["systems"]
    assert {name: (one["wins"], one["ties"], one["losses"]) for name, one in data.items()} == {
        "good": (12, 0, 0), "fair": (6, 0, 6), "poor": (0, 0, 12),
    }  # fmt: skip
    assert [data[name]["win_rate"]["value"] for name in systems] == [1, 0.5, 0]
    assert result.document().table().rows[0][1] == "good"
    (first, *_) = result.tournament.tests
    # Six wins of six: p = 2 / 2^6; three tests of the same p, so Holm multiplies by three.
    assert first["p"] == pytest.approx(2 / 64) and first["p_holm"] == pytest.approx(6 / 64)


def test_a_verdict_that_changes_with_the_order_is_a_tie_and_counted(monkeypatch, runtime):
    Referee(lambda body: reply("first")).install(monkeypatch)
    result = captious.arena(
        [captions("one"), captions("two")], "m", resampling=Resampling(20), runtime=runtime, references=REFERENCES
    )
    assert {match.outcome for match in result.matches} == {"tie"} and all(match.changed for match in result.matches)
    shares = result.data()["shares"]
    assert shares["changed with the order"]["value"] == 1 and shares["for the caption shown first"]["value"] == 1
    assert math.isnan(shares["for the longer caption"]["value"])
    assert result.data()["systems"]["system-1"]["elo"]["value"] == pytest.approx(1000)
    assert "cannot tell these captions apart" in result.document().warnings[-1]


@pytest.mark.parametrize(
    ("own", "swapped", "outcome", "changed"),
    [
        ("first", "second", "first", False),
        ("second", "first", "second", False),
        ("tie", "tie", "tie", False),
        ("first", "first", "tie", True),
        ("first", "tie", "tie", True),
        ("tie", "first", "tie", True),
    ],
)
def test_the_outcome_of_two_opinions(own, swapped, outcome, changed):
    match = Match("1", ("a", "b"), ("x", "y"), (Preference(own), Preference(swapped)))
    assert (match.outcome, match.changed) == (outcome, changed)
    assert match.winner == {"first": "a", "second": "b", "tie": None}[outcome]


def test_equal_captions_tie_without_a_question(monkeypatch, runtime):
    model = Referee(by_quality).install(monkeypatch)
    systems = [{"1": "a x", "2": "same  thing"}, {"1": "b", "2": "same thing"}]
    result = captious.arena(
        systems, "m", resampling=Resampling(0), runtime=runtime, references=REFERENCES, missing="skip"
    )
    assert len(model.bodies) == 2 and [match.outcome for match in result.matches] == ["first", "tie"]
    assert result.data()["systems"]["system-1"]["win_rate"]["value"] == pytest.approx(0.75)
    assert count_shares(result.matches[1])[0] == (0.0, 0.0), "what was not asked says nothing of the order"


def test_words_are_tokens_of_the_language(monkeypatch, runtime):
    """「一只小狗。」 has four characters and 「狗」 one; between spaces both are one word."""
    Referee(lambda body: reply("first" if asked(body).index("小狗") < asked(body).index('"狗"') else "second")).install(
        monkeypatch
    )
    reading = Reading(language="zh")
    systems = {"long": {"1": "一只小狗。"}, "short": {"1": "狗"}}
    sets = {name: captious.read(one, reading=reading) for name, one in systems.items()}
    references = {"1": ["一只狗"]}
    result = captious.arena(
        sets, "m", resampling=Resampling(0), runtime=runtime, references=references, baselines={"short": sets["short"]}
    )
    shares, against = result.data()["shares"], result.data()["baselines"]
    assert shares["for the longer caption"]["value"] == 1 and against["long"]["words"] == 4
    assert against["long"]["score"]["value"] == 100


def test_a_reply_that_cannot_be_read_leaves_no_verdict_and_is_counted(monkeypatch, runtime):
    def answer(body):
        if "x 3" in shown(body):
            return "no idea"
        return Unanswered("status 400") if "x 4" in shown(body)[0] else by_quality(body)

    Referee(answer).install(monkeypatch)
    result = captious.arena(
        [captions("x"), captions("o")], "m", resampling=Resampling(20), runtime=runtime, references=REFERENCES
    )
    assert len(result.judged) == 4 and result.data()["unjudged"] == {
        "unreadable reply: no JSON object in 'no idea'": 1,
        "status 400": 1,
    }
    assert "|unjudged:2|" in result.signature and len(result.document().warnings) == 2
    assert result.data()["systems"]["system-1"]["wins"] == 4


def test_no_verdict_at_all_is_an_error(monkeypatch, runtime):
    Referee(lambda body: "no idea").install(monkeypatch)
    with pytest.raises(InputError, match=r"m: no comparison has a verdict: unreadable reply"):
        captious.arena([captions("x"), captions("o")], "m", runtime=runtime, references=REFERENCES)
    with pytest.raises(InputError, match=r"no image and no references; pass images=... or references="):
        captious.arena([captions("x"), captions("o")], "m", runtime=runtime)


def test_the_judge_sees_the_image_and_the_references_where_there_are_some(monkeypatch, runtime, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    for key in ("0", "1"):
        Image.new("RGB", (4, 4), (int(key), 0, 0)).save(tmp_path / f"{key}.png")
    model = Referee(lambda body: "red" if "color" in asked(body) else by_quality(body)).install(monkeypatch)
    systems = [captions("x", 2), captions("o", 2)]
    captious.arena(systems, "m", resampling=Resampling(0), runtime=runtime, images=tmp_path)
    probe, *questions = model.bodies
    assert "color" in asked(probe), "whether the model reads images is asked once"
    assert [len(pictures(body)) for body in questions] == [1] * 4 and len({pictures(one)[0] for one in questions}) == 2
    assert all("attached" in asked(body) and "People" not in asked(body) for body in questions)
    captious.arena(
        systems, "m", resampling=Resampling(0), runtime=runtime, references=REFERENCES, images=tmp_path, missing="skip"
    )
    assert "attached" in asked(model.bodies[-1]) and '- "a dog runs"\n- "the dog' in asked(model.bodies[-1])


def test_a_model_that_refuses_images_judges_by_the_references(monkeypatch, runtime, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    for key in ("0", "1"):
        Image.new("RGB", (4, 4)).save(tmp_path / f"{key}.png")
    model = Referee(lambda body: Unanswered("status 500: no images") if pictures(body) else by_quality(body))
    model.install(monkeypatch)
    systems = [captions("x", 2), captions("o", 2)]
    with pytest.raises(
        InputError, match=r"m: no comparison has a verdict: the model reads no images; pass references="
    ):
        captious.arena(systems, "m", runtime=runtime, images=tmp_path)
    known = {"references": REFERENCES, "images": tmp_path, "missing": "skip"}
    result = captious.arena(systems, "m", resampling=Resampling(0), runtime=runtime, **known)
    assert len(result.judged) == 2 and "|images:refused|" in result.signature
    assert result.document().warnings == ["the model reads no images: it judged only by the references"]


def test_two_systems_have_the_log_odds_of_their_wins_as_elo(monkeypatch, runtime):
    def answer(body):
        return by_quality(body) if "5" not in asked(body).split("First caption:")[1] else reply("tie")

    Referee(answer).install(monkeypatch)
    result = captious.arena(
        {"a": captions("x"), "b": captions("o")}, "m", resampling=Resampling(0), runtime=runtime, references=REFERENCES
    )
    # Five wins and a tie: 5.5 to 0.5, and half a win for either side: odds 6 to 1.
    points = [result.data()["systems"][name]["elo"]["value"] for name in "ab"]
    assert points[0] - points[1] == pytest.approx(400 * math.log10(6)) and sum(points) == pytest.approx(2000)


def test_intervals_come_from_resampled_items():
    matches = tuple(
        Match(
            str(item),
            ("a", "b"),
            ("x x", "y"),
            (Preference("first"), Preference("second")) if item < 30 else (Preference("second"), Preference("first")),
        )
        for item in range(40)
    )
    sets = {name: captious.CaptionSet.of({str(item): "x" for item in range(40)}) for name in "ab"}
    rate = Arena(sets, matches, "", resampling=Resampling(2000)).estimates[name_rate("a")]
    # 30 of 40: the bootstrap's standard error is √(p q / n).
    assert rate.value == 0.75 and rate.error == pytest.approx(math.sqrt(0.75 * 0.25 / 40), rel=0.1)
    assert rate.low < 0.65 < 0.85 < rate.high
    again = Arena(sets, matches[::-1], "", resampling=Resampling(2000)).estimates[name_rate("a")]
    assert (again.low, again.high) == (rate.low, rate.high), "the order of the items moves nothing"
    longer = Arena(sets, matches, "", resampling=Resampling(0)).estimates["for the longer caption"]
    assert longer.value == 0.75


def test_comparisons_are_drawn_evenly_and_by_the_seed():
    sets = {name: captious.CaptionSet.of({str(item): f"{name} {item}" for item in range(50)}) for name in "abcd"}
    drawn = draw(sets, 20, 1)
    numbers = [sum(match.systems == pair for match in drawn) for pair in {match.systems for match in drawn}]
    assert len(drawn) == 20 and sorted(numbers) == [3, 3, 3, 3, 4, 4] and len(set(drawn)) == 20
    assert draw(sets, 20, 1) == drawn != draw(sets, 20, 2)
    assert len(draw(sets, None, 1)) == len(draw(sets, 1000, 1)) == 300


def test_nothing_is_sent_before_a_run_is_asked_for(monkeypatch, runtime):
    model = Referee(by_quality).install(monkeypatch)
    with captious.using(runtime):
        plan = plan_arena([captions("x"), captions("o")], "m", references=REFERENCES, comparisons=4)
    assert plan.total.calls == 8 and not model.bodies
    captious.arena(
        [captions("x"), captions("o")],
        "m",
        resampling=Resampling(0),
        runtime=runtime,
        references=REFERENCES,
        comparisons=4,
    )
    assert len(model.bodies) == 8
    with captious.using(runtime):
        assert plan_arena([captions("x"), captions("o")], "m", references=REFERENCES).total.stored == 8


def test_replies_are_held_to_a_schema_where_the_server_can(monkeypatch, runtime):
    systems = [captions("x"), captions("o")]
    for able in (False, True):
        model = Referee(by_quality).install(monkeypatch)
        model.schema = able
        replies = runtime.judging.replies.with_name(f"{able}.db")
        own = Runtime(judging=Judging(replies=replies))
        result = captious.arena(systems, "m", resampling=Resampling(0), runtime=own, references=REFERENCES)
        assert f"|schema:{'followed' if able else 'ignored'}|" in result.signature
        formats = [body.get("response_format", {}).get("type") for body in model.bodies]
        assert formats == ["json_schema" if able else None] * 12
        with captious.using(own):
            assert plan_arena([captions("x"), captions("o")], "m", references=REFERENCES).total.stored == 12


@pytest.mark.parametrize(
    ("text", "better"),
    [
        ('{"better": "Second caption", "reason": ""}', "second"),
        ('I think {so}: {"reason": "a {b}", "better": "tie"}', "tie"),
        ('{"better": 1}', "first"),
    ],
)
def test_replies_are_read_with_tolerance(text, better):
    assert parse_opinion(Reply(text)).better == better


@pytest.mark.parametrize("text", ['{"better": "the dog"}', "{}", "first", '{"better": null}'])
def test_a_reply_without_a_verdict_is_unreadable(text):
    with pytest.raises(ValueError, match=r"better|no JSON"):
        parse_opinion(Reply(text))


def test_what_cannot_be_compared_is_refused(runtime, tmp_path):
    with pytest.raises(InputError, match="1 system given"):
        captious.arena([captions("x")], "m", runtime=runtime)
    several = {"0": ["a", "b"]}
    with pytest.raises(InputError, match=r"item 0 has 2 captions, expected one"):
        captious.arena([several, several], "m", runtime=runtime)
    with pytest.raises(InputError, match="comparisons 0"):
        captious.arena([captions("x"), captions("y")], "m", runtime=runtime, comparisons=0)
    (tmp_path / "prompt.txt").write_text("{first} {second}")
    with pytest.raises(InputError, match=r"has no \{evidence\}"):
        captious.arena([captions("x"), captions("y")], "m", runtime=runtime, prompt=tmp_path / "prompt.txt")


def test_a_system_without_a_caption_loses_nothing(monkeypatch, runtime):
    Referee(by_quality).install(monkeypatch)
    systems = {"a": {"0": "x", "1": "x"}, "b": {"0": "o", "1": " "}}
    result = captious.arena(
        systems, "m", resampling=Resampling(0), runtime=runtime, references=REFERENCES, missing="skip"
    )
    assert result.matches[1].opinions == (Failure("b has no caption"), Failure("b has no caption"))
    assert result.data()["judged"] == 1


def test_the_report_has_every_verdict_with_its_reasons(monkeypatch, runtime, tmp_path):
    Referee(lambda body: by_quality(body) if "1" in shown(body)[0] else reply("first", "it is <first>")).install(
        monkeypatch
    )
    result = captious.arena(
        [captions("x", 3), captions("o", 3)],
        "m",
        resampling=Resampling(20),
        runtime=runtime,
        references=REFERENCES,
        missing="skip",
    )
    result.save(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "more x" in page and "changed with the order" in page and "it is &lt;first&gt;" in page
    rows = result.to_pandas("verdicts") if pytest.importorskip("pandas") else None
    assert (
        rows["reason"].tolist() == ["it is <first>", "more x", "it is <first>"]
        and rows["better"].tolist()[1] == "system-1"
    )
    saved = json.loads((tmp_path / "out" / "captious-output.json").read_text(encoding="utf-8"))
    assert len(saved["verdicts"]) == 3 and np.isfinite(saved["systems"]["system-1"]["elo"]["value"])


def test_the_command_prints_and_writes(monkeypatch, tmp_path, capsys):
    from captious.cli.app import main

    Referee(by_quality).install(monkeypatch)
    for name, word in (("good", "x"), ("poor", "o")):
        (tmp_path / f"{name}.json").write_text(json.dumps(captions(word)))
    (tmp_path / "refs.json").write_text(json.dumps(REFERENCES))
    arguments = ["arena", tmp_path / "good.json", tmp_path / "poor.json", "-r", tmp_path / "refs.json", "--model", "m"]
    arguments += ["--replies", tmp_path / "replies.db", "--samples", 20]

    def run(*more):
        monkeypatch.setattr("sys.argv", ["captious", *map(str, [*arguments, *more])])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code or 0, capsys.readouterr().out

    code, out = run("--dry-run", "--json")
    assert code == 0 and json.loads(out)["calls"][0]["calls"] == 12
    code, out = run("--json", "-o", tmp_path / "out")
    assert (
        code == 0 and json.loads(out)["systems"]["good"]["wins"] == 6 and (tmp_path / "out" / "verdicts.csv").exists()
    )
    code, out = run("--replay", "--comparisons", 3)
    assert code == 0 and "2 systems, 3 comparisons" in out and "7 replies from the store" in out


def test_a_judge_that_follows_the_order_and_the_length_is_corrected():
    """Every reply names the caption shown first, unless the other has more words: b wins because it is longer."""
    generator = np.random.default_rng(1)
    texts = {"a": {}, "b": {}}
    matches = []
    for number in range(60):
        short, long = (" ".join(["word"] * (size + int(generator.integers(0, 6)))) for size in (5, 8))
        texts["a"][str(number)], texts["b"][str(number)] = short, long
        longer = len(long.split()) > len(short.split()) + 2
        own = Preference("second" if longer else "first")  # a is shown first
        swapped = Preference("first")  # b is shown first
        matches.append(Match(str(number), ("a", "b"), (short, long), (own, swapped)))
    systems = {name: CaptionSet.of(own) for name, own in texts.items()}
    arena = Arena(systems, tuple(matches), "arena")
    found = arena.corrected
    assert found[FIRST].value > 0 and found[LONGER].value > 0
    plain = arena.estimates["elo 'b'"].value - arena.estimates["elo 'a'"].value
    assert found["b"].value - found["a"].value < plain
    assert "Corrected for length and position" in str(arena)
