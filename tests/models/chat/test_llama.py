"""A real server: llama.cpp with a tiny random model, asked for probabilities, schemas, images and samples."""

from dataclasses import replace

import numpy as np
import pytest
from tests.models.chat.llama import serve, write_llama

from captious.captions import CaptionSet, ImageData
from captious.metrics.judges._yes_no import ask_yes_no
from captious.metrics.judges.captionqa import CANNOT, CaptionQA
from captious.metrics.judges.clair import Clair, parse_score
from captious.metrics.judges.dsg import Dsg
from captious.metrics.judges.vqascore import VqaScore
from captious.models.chat.judge import load_judge
from captious.models.chat.messages import Failure, Request, Turn
from captious.options import Judging, Runtime, using


def question(text="How many dogs?", *images, **options):
    return Request((Turn("user", text, images),), **{"max_tokens": 8, **options})


@pytest.fixture
def judging(llama_server, tmp_path):
    return Judging(endpoint=llama_server, replies=tmp_path / "replies.db")


@pytest.fixture
def judge(judging):
    return load_judge("tiny", judging)


def test_it_does_what_the_probes_ask(judge):
    abilities = ("logprobs", "schema", "images", "n", "seed")
    assert {name: judge.can(name) for name in abilities} == dict.fromkeys(abilities, True)
    assert judge.identity == "tiny[llama.gguf]"


def test_probabilities_come_with_every_token(judge):
    (reply,) = judge.ask([question(top_logprobs=400)])
    assert len(reply.tokens) == reply.reply_tokens == 8 and reply.finish == "length"
    for token in reply.tokens:
        shares = [share for _, share in token.top]
        assert sum(shares) == pytest.approx(1, abs=1e-4)  # the whole vocabulary of 337 tokens
        assert shares == sorted(shares, reverse=True) and token.top[0][0] == token.text  # greedy
    token, offset = reply.find_token(3)
    assert token.text[offset : offset + 1] == reply.text[3].encode()


def test_a_schema_makes_even_a_random_model_answer_in_form(judge):
    score = {"type": "integer", "minimum": 0, "maximum": 100}
    schema = {"type": "object", "properties": {"score": score}, "required": ["score"], "additionalProperties": False}
    replies = judge.ask([question(f"{number} dogs", schema=schema, max_tokens=100) for number in range(8)])
    assert all(0 <= parse_score(reply).value <= 1 for reply in replies)


def test_images_are_seen(judge):
    red, blue = (ImageData(np.full((28, 28, 3), color, np.uint8)) for color in [(255, 0, 0), (0, 0, 255)])
    asked = [question("Which color?", image, top_logprobs=5, max_tokens=1) for image in (red, blue)]
    one, other = (dict(reply.tokens[0].top) for reply in judge.ask(asked[:2]))
    assert max(abs(share - other.get(token, 0)) for token, share in one.items()) > 0.01
    (plain,) = judge.ask([question("Which color?", max_tokens=1)])
    (seen,) = judge.ask(asked[:1])
    assert seen.prompt_tokens > plain.prompt_tokens


def test_samples_differ_and_a_seed_repeats(judging, tmp_path):
    asked = [question(sample=sample, temperature=1.0, max_tokens=20) for sample in range(6)]
    elsewhere = Judging(endpoint=judging.endpoint, replies=tmp_path / "other.db", concurrency=1)
    first = [reply.text for reply in load_judge("tiny", replace(judging, concurrency=1)).ask(asked)]
    again = [reply.text for reply in load_judge("tiny", elsewhere).ask(asked)]
    assert len(set(first)) > 1 and sum(a == b for a, b in zip(first, again, strict=True)) >= 5


def test_a_model_without_eyes_and_a_prompt_without_end_fail_alone(tmp_path):
    with serve(write_llama(tmp_path), parallel=1) as url:
        judge = load_judge("tiny", Judging(endpoint=url, replies=tmp_path / "replies.db"))
        assert not judge.can("images")
        long, short = judge.ask([question("word " * 4000), question()])
    assert isinstance(long, Failure) and long.reason.startswith("status 400: ")
    assert len(short.text) > 0


def test_many_questions_at_a_time_get_their_own_replies(judging):
    asked = [question(f"{number} dogs", top_logprobs=3, max_tokens=2) for number in range(60)]
    judge = load_judge("tiny", judging)
    replies = judge.ask(asked)
    assert judge.usage.calls == 60 and not any(isinstance(reply, Failure) for reply in replies)
    alone = load_judge("tiny", Judging(endpoint=judging.endpoint, replies=judging.replies.with_name("alone.db")))
    for number in (3, 57):
        (reply,) = alone.ask([asked[number]])
        shares = [dict(one.tokens[0].top).get(reply.tokens[0].text) for one in (reply, replies[number])]
        assert shares[0] == pytest.approx(shares[1], abs=1e-3)


def test_smollm2_judges_captions(smollm2_server, tmp_path):
    captions = CaptionSet.of(
        {"same": "a man rides a wave", "other": "a man rides a wave"},
        {"same": ["a surfer on a big wave"], "other": ["two cats asleep on a bed"]},
    )
    with using(Runtime(judging=Judging(endpoint=smollm2_server, replies=tmp_path / "replies.db"))):
        measured = Clair("smollm2", schema=True).measure(captions)
        explanation = Clair("smollm2", schema=True).explain(captions, "same")
    assert not measured.reasons and all(0 <= value <= 1 for value in measured.values)
    assert explanation.parts[0].details["reason"]
    assert "judge:smollm2[SmolLM2-135M-Instruct.Q4_1.gguf]|" in str(measured.signature)
    assert "|schema:followed|" in str(measured.signature) and measured.notes[0].startswith("CLAIR: 3 calls, ")


def test_smollm2_answers_from_captions_and_is_replayed(smollm2_server, tmp_path):
    question = {"question": "Which animal is there?", "choices": ["dog", "cat"], "answer": "dog"}
    captions = CaptionSet.of({"1": "a dog runs", "2": "a cat sits"}, columns={"questions": [[question]] * 2})
    metric, replies = CaptionQA("smollm2", schema=True), tmp_path / "replies.db"
    with using(Runtime(judging=Judging(endpoint=smollm2_server, replies=replies))):
        measured = metric.measure(captions)
    assert not measured.reasons and measured.notes[0].startswith("CaptionQA: 3 calls, ")
    with using(Runtime(judging=Judging(replies=replies, replay=True))):
        again = metric.measure(captions)
        (part,) = metric.explain(captions, "1").parts
    assert again.items == measured.items and again.notes[0] == "CaptionQA: 0 calls, 3 replies from the store"
    assert part.details["answer"] in ("dog", "cat", CANNOT) and part.adds == measured.items["1"]


def test_a_model_with_eyes_answers_about_pictures(judging):
    questions = [{"question": "Is there a dog?"}, {"question": "Is the dog red?", "parents": ["1"]}]
    images = [ImageData(np.full((28, 28, 3), color, np.uint8)) for color in ((255, 0, 0), (0, 0, 255))]
    columns = {"image": images, "questions": [questions] * 2}
    captions = CaptionSet.of({"1": "a red dog", "2": "a red dog"}, columns=columns)
    with using(Runtime(judging=judging)):
        dsg, score = Dsg("tiny").measure(captions), VqaScore("tiny").measure(captions)
    assert not dsg.reasons and set(dsg.values) <= {0.0, 0.5, 1.0} and "logprobs:followed" in str(dsg.signature)
    assert not score.reasons and all(0 <= value < 1 for value in score.values)


def test_yes_is_weighed_against_no_on_every_picture(judge):
    colors = [(255, 0, 0), (0, 0, 255), (0, 255, 0), (128, 128, 128)]
    images = [ImageData(np.full((28, 28, 3), color, np.uint8)) for color in colors]
    lists = ask_yes_no(judge, [["Is it red? Yes or no?", "Is there a dog? Yes or no?"]] * 4, images, "verifying")
    answers = [answer for answers in lists for answer in answers]
    assert len(answers) == 8 and not any(answer.by_words for answer in answers)
    assert all((answer.probability > 0.5) == answer.yes for answer in answers)
    assert len({round(answer.probability, 6) for answer in answers}) > 4  # the pictures and the questions count
