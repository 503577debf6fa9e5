"""Repeat noise of judges: what is sent, what is stored, and the split of the variance, with a stub of a chat model."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from tests.models.chat.stub import StubServer, asked, response

from captious.captions import CaptionSet
from captious.cli.app import build_app
from captious.errors import InputError
from captious.models.chat.judge import load_judge
from captious.models.chat.messages import Request, Turn
from captious.options import Judging, Resampling, Runtime
from captious.study import audit, judge_noise, plan_judge_noise
from captious.study.judges._judge_noise import NOISE, RELIABILITY, SHARE, estimate_noise

IDS = [str(number) for number in range(12)]
CAPTIONS = CaptionSet.of({id: f"dog {id} runs" for id in IDS}, {id: ["a dog"] for id in IDS})


@pytest.fixture
def server():
    pytest.importorskip("aiohttp", reason="aiohttp is not installed: pip install aiohttp")
    stub = StubServer()
    yield stub
    stub.close()


@pytest.fixture
def runtime(server, tmp_path):
    return Runtime(judging=Judging(endpoint=server.url, replies=tmp_path / "replies.db"))


def find_number(body):
    """The number of the caption in a question."""
    return next(int(id) for id in IDS if f"dog {id} runs" in asked(body))


def answer(shift):
    """A judge that scores caption i with 5 i, and adds ``shift(number of its earlier answers to the caption)``."""
    before = dict.fromkeys(map(int, IDS), 0)

    def behave(number, body, headers):
        caption = find_number(body)
        score = 5 * caption + shift(before[caption])
        before[caption] += 1
        return 200, {}, response(json.dumps({"score": score, "reason": "so"}))

    return behave


def test_every_caption_is_asked_anew_and_a_resumed_run_asks_nothing_again(server, runtime):
    server.behave = answer(lambda repeat: 4 * (repeat % 2))
    found = judge_noise(CAPTIONS, "clair(m)", items=8, repeats=4, runtime=runtime)
    assert len(server.bodies) == 8 * 4
    questions = {(find_number(body), body["seed"]) for body in server.bodies}
    assert len(questions) == 8 * 4 and {seed for _, seed in questions} == {0, 1_000_000, 2_000_000, 3_000_000}
    # Answers of a caption are x, x + .04, x, x + .04: 4 · .02² / 3 around their mean.
    (judge,) = found.judges
    assert judge.noise.within == pytest.approx(4 * 0.02**2 / 3, abs=1e-15) and judge.changed == 8
    again = judge_noise(CAPTIONS, "clair(m)", items=8, repeats=4, runtime=runtime)
    assert len(server.bodies) == 8 * 4
    np.testing.assert_array_equal(again.judges[0].answers, judge.answers)
    judge_noise(CAPTIONS, "clair(m)", items=8, repeats=5, runtime=runtime)  # one more answer each
    assert len(server.bodies) == 8 * 5


def test_scoring_and_the_first_repeat_share_their_replies(server, runtime):
    import captious

    server.behave = answer(lambda repeat: repeat)
    scored = captious.evaluate(CAPTIONS, "clair(m)", runtime=runtime)
    assert len(server.bodies) == 12 and "repeat" not in str(scored["clair(m)"].signature)
    found = judge_noise(CAPTIONS, "clair(m)", repeats=3, runtime=runtime)
    assert len(server.bodies) == 12 * 3
    np.testing.assert_array_equal(found.judges[0].answers[:, 0], scored["clair(m)"].values)
    other = replace(runtime, judging=replace(runtime.judging, repeat=2))
    measured = captious.evaluate(CAPTIONS, "clair(m)", runtime=other)["clair(m)"]
    assert len(server.bodies) == 12 * 3 and "m[repeat 2]" in str(measured.signature).replace("stub,", "")
    np.testing.assert_array_equal(measured.values, found.judges[0].answers[:, 2])


def test_a_deterministic_judge_has_no_noise(server, runtime):
    server.behave = answer(lambda repeat: 0)
    found = judge_noise(CAPTIONS, "clair(m)", repeats=3, runtime=runtime)
    (judge,) = found.judges
    assert len(server.bodies) == 12 * 3 and judge.changed == 0
    assert judge.noise.within == 0 and judge.noise.reliability == 1 and judge.estimates[NOISE].high == 0
    # 5 i / 100 of i = 0 … 11: .0025 · 13
    assert judge.noise.between == pytest.approx(0.0025 * 13)
    sentence = "Asked 3 times, CLAIR gave each of 12 captions the same score every time: it has no repeat noise."
    assert found.document().answer_text == sentence


def test_a_question_about_the_server_is_not_repeated(server, runtime):
    def behave(number, body, headers):
        if "Say one digit" in asked(body):
            return 200, {}, response("7", logprobs=[("7", {"7": 0.0})])
        digit = str(find_number(body) % 10)
        return 200, {}, response(f"0.{digit}", logprobs=[("0.", {"0.": 0.0}), (digit, {digit: 0.0})])

    server.behave = behave
    judge_noise(CAPTIONS, "fleur(m,context=references)", repeats=3, runtime=runtime)
    assert len(server.bodies) == 12 * 3 + 1
    judge = load_judge("m", replace(runtime.judging, repeat=2))
    assert judge.list_probes("logprobs")[0].repeat(2).sample == 0
    assert judge.find_unanswered([Request((Turn("user", "new"),))])[0].keys() != {
        *load_judge("m", runtime.judging).find_unanswered([Request((Turn("user", "new"),))])[0]
    }


def test_a_dry_run_counts_the_requests_that_are_left(server, runtime):
    from captious.options import using

    with using(runtime):
        plan = plan_judge_noise(CAPTIONS, "clair(m)", items=10, repeats=5)
        assert (plan.total.calls, plan.total.stored, len(server.bodies)) == (50, 0, 0)
        server.behave = answer(lambda repeat: repeat)
        judge_noise(CAPTIONS, "clair(m)", items=10, repeats=2)
        plan = plan_judge_noise(CAPTIONS, "clair(m)", items=10, repeats=5)
        assert (plan.total.calls, plan.total.stored) == (30, 20)


def test_the_budget_is_shared_by_all_repeats(server, runtime):
    server.behave = answer(lambda repeat: 0)  # 15 tokens per reply, 12 captions: 180 per repeat
    small = replace(runtime, judging=replace(runtime.judging, most_tokens=300, concurrency=1))
    with pytest.raises(InputError, match="300 tokens used, the limit is 300; 20 replies are stored"):
        judge_noise(CAPTIONS, "clair(m)", repeats=4, runtime=small)
    assert len(server.bodies) == 20


def test_missing_answers_are_counted_with_their_reason(server, runtime):
    def behave(number, body, headers):
        bad = find_number(body) == 3 and body["seed"] >= 1_000_000
        score = "no number" if bad else 5 * find_number(body) + body["seed"] // 1_000_000
        return 200, {}, response(json.dumps({"score": score, "reason": "so"}))

    server.behave = behave
    found = judge_noise(CAPTIONS, "clair(m)", repeats=3, runtime=runtime)
    assert np.isnan(found.judges[0].answers).sum() == 2 and found.judges[0].noise.captions == 12
    warning = next(text for text in found.document().warnings if "missing" in text)
    assert warning.startswith("CLAIR: 2 of 36 answers are missing: unreadable reply") and "(id 3)" in warning
    # Eleven captions with x, x + .01, x + .02: 2 · .01² each, over 36 − 2 − 12 degrees of freedom.
    assert found.judges[0].noise.within == pytest.approx(11 * 2 * 0.01**2 / 22)


def test_estimates_are_those_of_an_analysis_of_variance():
    """Numbers of Shrout and Fleiss (1979), Table 2, of which Table 4 gives ICC(1,1) = .17 and ICC(1,4) = .44."""
    ratings = np.array(
        [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]], dtype=float
    )
    found = estimate_noise(ratings, Resampling(samples=200))
    # Mean squares of Table 3: between targets 11.24, within 6.26; (11.24 − 6.26) / 4 = 1.245
    assert found[NOISE].value == pytest.approx(math.sqrt(6.26), abs=0.001)
    assert found[SHARE].value == pytest.approx(6.26 / 1.245, abs=0.01)
    assert round(found[RELIABILITY].value, 2) == 0.17
    assert found[NOISE].low < found[NOISE].value < found[NOISE].high
    shuffled = estimate_noise(ratings[::-1], Resampling(samples=0))
    assert shuffled[NOISE].value == pytest.approx(found[NOISE].value, abs=1e-12)


def test_the_interval_of_the_noise_covers_it():
    """Noise .1 and captions .4: of 200 samples of 50 captions with 5 answers, about 95 % of intervals contain .1."""
    generator, hits = np.random.default_rng(0), 0
    for _ in range(200):
        answers = generator.normal(0, 0.4, (50, 1)) + generator.normal(0, 0.1, (50, 5))
        found = estimate_noise(answers, Resampling(samples=400))[NOISE]
        hits += found.low <= 0.1 <= found.high
    assert 176 <= hits <= 199


def test_what_cannot_be_asked_is_refused(runtime):
    with pytest.raises(InputError, match="rouge: asks no chat model, so its scores do not change"):
        judge_noise(CAPTIONS, "rouge", runtime=runtime)
    with pytest.raises(InputError, match="repeats 1, expected a whole number of at least 2"):
        judge_noise(CAPTIONS, "clair(m)", repeats=1, runtime=runtime)
    with pytest.raises(InputError, match="1 caption, expected at least two"):
        judge_noise(CAPTIONS.take([0]), "clair(m)", runtime=runtime)
    with pytest.raises(InputError, match="repeat=-1: expected a whole number from 0 to 2,000"):
        Judging(repeat=-1)


def test_the_command_line_and_the_audit_take_the_result(server, tmp_path, capsys):
    server.behave = answer(lambda repeat: 4 * (repeat % 2))
    rows = [{"id": id, "caption": f"dog {id} runs", "references": ["a dog"]} for id in IDS]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    line = [str(tmp_path / "captions.jsonl"), "--metric", "clair(m)", "--endpoint", server.url]
    line += ["--replies", str(tmp_path / "replies.db"), "--repeats", "4", "--samples", "50"]
    build_app().main(["judge-noise", *line, "--out", str(tmp_path / "noise"), "--json"], standalone_mode=False)
    data = json.loads(capsys.readouterr().out)
    assert data["judges"][0]["within"] == pytest.approx(4 * 0.02**2 / 3) and len(server.bodies) == 48
    assert (tmp_path / "noise" / "answers.csv").read_text().startswith("id,clair(model=m)@1,clair(model=m)@2,")
    ratings = [{"id": id, "rating": 1 + int(id) % 5} for id in IDS]
    values = [{"id": id, "clair": 0.05 * int(id)} for id in IDS]
    found = audit(ratings, values, noise=tmp_path / "noise")
    assert found.repeats["CLAIR"].within == pytest.approx(4 * 0.02**2 / 3)
    text = " ".join(str(found).split())
    assert "Asked again, CLAIR changes its score by 0.023 (sd); that is" in text
    (tmp_path / "wrong.json").write_text("{}")
    with pytest.raises(InputError, match=r"wrong\.json: expected the output of captious judge-noise"):
        audit(ratings, values, noise=tmp_path / "wrong.json")


def test_repeated_answers_are_not_judges_of_their_own():
    ratings = [{"id": id, "rating": 1 + int(id) % 5} for id in IDS]
    values = [{"id": id, "m": 0.05 * int(id), "m@1": 0.05 * int(id), "m@2": 0.05 * int(id) + 0.01} for id in IDS]
    found = audit(ratings, values)
    assert [one.key for one in found.judges] == ["m"] and found.repeats["m"].captions == 12
