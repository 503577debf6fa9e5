"""Asking a server: what is sent, what is tried again, what is stored, what stops a run."""

import asyncio
import gc
import json
import logging
import os
import signal
import sqlite3
import threading
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from tests.models.chat.stub import response

from captious.captions import ImageData
from captious.errors import InputError
from captious.models.chat import _endpoint as endpoint
from captious.models.chat.judge import ask_and_parse, load_judge
from captious.models.chat.messages import Failure, Reply, Request, Turn
from captious.models.chat.replies import ReplyRecord, ReplyStore
from captious.options import Judging, Runtime, using

SECRET = "sk-a-key-that-nobody-may-see"


def question(text="How good?", **options):
    return Request((Turn("user", text),), **options)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Pauses between tries take no time, but their length is recorded."""
    pauses = []
    sleep = asyncio.sleep

    async def record(seconds):
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(endpoint.asyncio, "sleep", record)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return pauses


@pytest.fixture
def judging(server, tmp_path):
    return Judging(endpoint=server.url, replies=tmp_path / "replies.db")


def test_questions_that_begin_alike_follow_each_other(server, judging):
    """A server that keeps what it has read of a prompt reads only the end of the next one."""
    texts = ["image 2: a", "image 1: a", "image 2: b", "image 1: b"]
    replies = load_judge("m", replace(judging, concurrency=1)).ask([question(text) for text in texts])
    assert len(replies) == 4
    sent = [body["messages"][0]["content"] for body in server.bodies]
    assert sent == ["image 1: a", "image 1: b", "image 2: a", "image 2: b"]


def test_a_question_is_sent_once_and_then_read_from_the_store(server, judging):
    judge = load_judge("m", judging)
    first = judge.ask([question(), question("Why?"), question()])
    assert [reply.text for reply in first] == ["ok", "ok", "ok"] and len(server.bodies) == 2
    assert load_judge("m", judging).ask([question()])[0] == first[0] and len(server.bodies) == 2
    body = min(server.bodies, key=lambda body: body["messages"][0]["content"])
    assert body["messages"] == [{"role": "user", "content": "How good?"}]
    assert (body["model"], body["temperature"], body["max_tokens"], body["seed"]) == ("m", 0.0, 1024, 0)
    assert "logprobs" not in body and "response_format" not in body


@pytest.mark.parametrize(
    "other",
    [
        question("Other?"),
        question(temperature=0.5),
        question(max_tokens=5),
        question(sample=1),
        question(top_logprobs=5),
        question(schema={"type": "object"}),
        Request((Turn("system", "How good?"),)),
        Request((Turn("user", "How good?", (ImageData(np.zeros((2, 2, 3), np.uint8)),)),)),
    ],
)
def test_what_moves_a_reply_moves_the_digest(other):
    assert other.digest("m") != question().digest("m") != question().digest("n")
    assert question().digest("m") == question().digest("m")


def test_an_image_is_sent_as_data_and_stored_as_a_digest(server, judging):
    red, blue = (ImageData(np.full((2, 2, 3), color, np.uint8)) for color in [(255, 0, 0), (0, 0, 255)])
    asked = [Request((Turn("user", "Which color?", (image,)),)) for image in (red, blue)]
    load_judge("m", judging).ask(asked)
    urls = [body["messages"][0]["content"][0]["image_url"]["url"] for body in server.bodies]
    assert len(set(urls)) == 2 and all(url.startswith("data:image/png;base64,") for url in urls)
    with sqlite3.connect(judging.replies) as store:
        stored = [json.loads(request) for (request,) in store.execute("SELECT request FROM reply")]
    assert all(one["messages"][0]["content"][0]["image_url"]["url"].startswith("sha256:") for one in stored)


def test_an_image_that_cannot_be_read_fails_alone(server, judging, tmp_path):
    asked = [Request((Turn("user", "Which color?", (str(tmp_path / "no.png"),)),)), question()]
    bad, good = load_judge("m", judging).ask(asked)
    assert "no.png" in bad.reason and good.text == "ok" and len(server.bodies) == 1


@pytest.mark.parametrize("problem", [408, 409, 429, 500, 502, 503, 504, None])
def test_what_may_pass_is_tried_again(server, judging, problem, at_once):
    answers = {1: None if problem is None else (problem, {}, {"error": {"message": "busy"}})}
    server.behave = lambda number, body, headers: answers.get(number, (200, {}, response("8")))
    assert load_judge("m", judging).ask([question()])[0].text == "8"
    assert len(server.bodies) == 2 and 0.5 <= at_once[0] <= 1.0


def test_an_image_that_cannot_be_encoded_fails_alone(server, judging, tmp_path):
    whole = tmp_path / "whole.bmp"
    Image.new("RGB", (20, 20), "red").save(whole)
    cut = tmp_path / "cut.bmp"  # servers do not decode BMP, so it is encoded anew, when its request is sent
    cut.write_bytes(whole.read_bytes()[:300])
    requests = [Request((Turn("user", "How good?", (str(path),)),)) for path in (cut, whole)]
    failure, reply = load_judge("m", judging).ask(requests)
    assert isinstance(reply, Reply) and len(server.bodies) == 1
    assert isinstance(failure, Failure) and failure.reason.startswith(f"image: {cut}: is truncated")


def test_pauses_grow_and_the_server_may_name_its_own(server, judging, at_once):
    answers = {4: (429, {"Retry-After": "7"}, {}), 5: (200, {}, response("8"))}
    server.behave = lambda number, body, headers: answers.get(number, (503, {}, {}))
    load_judge("m", judging).ask([question()])
    # 1 s, 2 s and 4 s, each times a random number from one half to one; then what the server said
    assert [low <= pause <= 2 * low for low, pause in zip([0.5, 1.0, 2.0], at_once[:3], strict=True)] == [True] * 3
    assert at_once[3] == 7.0


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_question_that_a_server_will_never_answer_fails_alone(server, judging, status):
    def behave(number, body, headers):
        long = "long" in body["messages"][0]["content"]
        return (status, {}, {"error": {"message": "context too long"}}) if long else (200, {}, response("8"))

    server.behave = behave
    bad, good = load_judge("m", judging).ask([question("a long one"), question()])
    assert bad == Failure(f"status {status}: context too long") and good.text == "8" and len(server.bodies) == 2


def test_an_image_that_a_model_cannot_see_is_not_asked_again(server, judging):
    server.behave = lambda number, body, headers: (500, {}, {"error": {"message": "image input is not supported"}})
    judge = load_judge("m", judging)
    assert judge.can("images") is False and len(server.bodies) == 1


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_a_refused_key_or_model_stops_the_run_and_shows_no_key(server, judging, tmp_path, status, caplog):
    (tmp_path / "key").write_text(SECRET + "\n")
    server.behave = lambda number, body, headers: (status, {}, {"error": {"message": f"bad key {SECRET}"}})
    judge = load_judge("m", replace(judging, key_file=tmp_path / "key", concurrency=1))
    with caplog.at_level(logging.DEBUG), pytest.raises(InputError, match=f"status {status}") as error:
        judge.ask([question(str(number)) for number in range(20)])
    assert SECRET not in str(error.value) and SECRET not in caplog.text and SECRET not in repr(judge)
    assert len(server.bodies) == 1 and server.headers[0]["Authorization"] == f"Bearer {SECRET}"


def test_a_server_that_is_away_is_said_in_one_line(judging, server):
    server.close()
    with pytest.raises(InputError, match="cannot be reached") as error:
        load_judge("m", judging).ask([question()])
    assert "\n" not in str(error.value)


def test_without_an_endpoint_the_message_says_what_to_pass(tmp_path):
    with pytest.raises(InputError, match=r"m: no server to ask; pass endpoint=\.\.\."):
        load_judge("m", Judging(replies=tmp_path / "r.db")).ask([question()])


@pytest.mark.parametrize("content", [b"<html>", {"choices": []}, {"error": "x"}, [1], b"\xff\xfe", {"choices": [None]}])
def test_garbage_with_status_200_is_a_failure_and_not_stored(server, judging, content):
    server.behave = lambda number, body, headers: (200, {}, content)
    (reply,) = load_judge("m", judging).ask([question()])
    assert isinstance(reply, Failure) and len(ReplyStore(judging.replies)) == 0


def test_concurrency_is_kept(server, judging):
    full = threading.Event()

    def behave(number, body, headers):
        if server.under_way >= 4:
            full.set()
        full.wait(60)  # the first ones, until the fourth is here
        return 200, {}, response("8")

    server.behave = behave
    load_judge("m", replace(judging, concurrency=4)).ask([question(str(number)) for number in range(40)])
    assert server.busiest == 4 and len(server.bodies) == 40


def test_refusals_that_arrive_together_halve_the_concurrency_once_and_success_raises_it(server):
    together, crowd, reached = threading.Barrier(8), threading.Event(), []

    def behave(number, body, headers):
        if number <= 8:
            together.wait(60)  # all eight are under way
            return 429, {"Retry-After": "0"}, {}
        reached.append(server.under_way)
        if server.under_way > 4:
            crowd.set()
        crowd.wait(0.3)  # time for a fifth to come, if it is sent
        return 200, {}, response("8")

    async def ask():
        async with endpoint.Endpoint(server.url, concurrency=8, pause=1e9) as asked:
            await asyncio.gather(*(asked.complete({"number": number}) for number in range(8)))
            return asked.limit

    server.behave = behave
    limit = asyncio.run(ask())
    assert server.busiest == 8 and len(reached) == 8 and max(reached) <= 4
    expected = 8 / 2
    for _ in range(8):  # each reply adds one over the limit: eight of them about 1.7
        expected += 1 / expected
    assert limit == pytest.approx(expected, abs=1e-12)


def test_replay_asks_nothing_new(server, judging):
    load_judge("m", judging).ask([question()])
    again = load_judge("m", replace(judging, replay=True))
    assert again.ask([question()])[0].text == "ok"
    with pytest.raises(InputError, match="has no reply to 1 of 2 questions for m, and replay=True allows no calls"):
        again.ask([question(), question("new")])
    assert len(server.bodies) == 1


def test_a_ceiling_of_tokens_stops_the_run_keeps_the_replies_and_goes_on(server, judging):
    questions = [question(str(number)) for number in range(10)]
    few = replace(judging, most_tokens=45, concurrency=1)  # a call takes 10 + 5 tokens
    with pytest.raises(InputError, match="45 tokens used, the limit is 45; 3 replies are stored"):
        load_judge("m", few).ask(questions)
    assert len(server.bodies) == 3
    judge = load_judge("m", replace(judging, most_tokens=1000))
    assert len(judge.ask(questions)) == 10 and len(server.bodies) == 10 and judge.usage.stored == 3


def test_a_ceiling_of_cost_counts_prompt_and_reply(server, judging):
    priced = replace(judging, prices=(1000.0, 2000.0), most_cost=0.05, concurrency=1)
    with pytest.raises(InputError, match=r"0\.06 spent, the limit is 0\.05"):  # 3 × (10 × 0.001 + 5 × 0.002)
        load_judge("m", priced).ask([question(str(number)) for number in range(10)])
    assert len(server.bodies) == 3


def test_a_reply_that_cannot_be_read_is_asked_for_again_more_freely(server, judging):
    texts = {1: "I think", 2: "it is", 3: "7"}
    server.behave = lambda number, body, headers: (200, {}, response(texts[number]))
    assert ask_and_parse(load_judge("m", judging), [question()], lambda reply: int(reply.text)) == [7]
    assert [body["temperature"] for body in server.bodies] == [0.0, 0.5, 1.0]
    assert len({body["seed"] for body in server.bodies}) == 3


def test_a_reply_that_is_never_readable_is_a_failure_with_its_reason(server, judging):
    server.behave = lambda number, body, headers: (200, {}, response("no idea"))
    (result,) = ask_and_parse(load_judge("m", judging), [question()], lambda reply: int(reply.text))
    assert isinstance(result, Failure) and result.reason.startswith("unreadable reply: invalid literal")
    assert len(server.bodies) == 3


def test_a_refusal_is_not_asked_again(server, judging):
    server.behave = lambda number, body, headers: (200, {}, response("", finish="content_filter"))
    (result,) = ask_and_parse(load_judge("m", judging), [question()], lambda reply: int(reply.text))
    assert result == Failure("the model refused to answer") and len(server.bodies) == 1


def test_abilities_are_what_the_server_does_and_not_what_it_accepts(server, judging):
    judge = load_judge("m", judging)  # this server answers "ok" to everything
    assert (judge.can("logprobs"), judge.can("schema"), judge.can("images")) == (False, False, True)

    def behave(number, body, headers):
        if "response_format" in body:
            return 200, {}, response('{"sure": true}')
        return 200, {}, response("7", logprobs=[("7", {"7": -0.1, "8": -2.0})])

    server.behave = behave
    other = load_judge("n", judging)
    assert (other.can("logprobs"), other.can("schema")) == (True, True)


def test_it_works_where_an_event_loop_runs_already(server, judging):
    async def notebook():
        return load_judge("m", judging).ask([question()])

    assert asyncio.run(notebook())[0].text == "ok"


def test_the_token_of_a_character_is_found_by_bytes():
    logprobs = [("é ", {"é ": 0.0}), ("0.", {"0.": 0.0}), ("8", {"8": -0.5, "7": -1.0})]
    reply = Reply.of(response("é 0.8", logprobs=logprobs))
    token, offset = reply.find_token(4)
    assert (token.text, offset) == (b"8", 0) and reply.find_token(3)[1] == 1
    assert [text for text, _ in token.top] == [b"8", b"7"] and token.top[0][1] == pytest.approx(np.exp(-0.5))
    assert Reply.of(response("other", logprobs=logprobs)).find_token(0) is None


def test_the_store_refuses_change_and_deletion(tmp_path):
    store = ReplyStore(tmp_path / "r.db")
    store.put(ReplyRecord("a", {"model": "m"}, {"choices": 1}, 0.1))
    store.put(ReplyRecord("a", {"model": "m"}, {"choices": 2}, 0.1))
    assert store.get(["a", "b"]) == {"a": {"choices": 1}}
    with sqlite3.connect(tmp_path / "r.db") as other:
        for statement in ("DELETE FROM reply", "UPDATE reply SET model = 'x'"):
            with pytest.raises(sqlite3.IntegrityError, match="never"):
                other.execute(statement)


def test_a_file_that_is_no_store_is_refused_in_one_line(tmp_path):
    (tmp_path / "r.db").write_text("captions" * 100)
    with pytest.raises(InputError, match=r"r\.db: cannot be used as a store of replies"):
        ReplyStore(tmp_path / "r.db")


def test_a_disk_that_is_full_ends_the_run_and_nothing_counts_that_is_not_stored(server, judging):
    judge = load_judge("m", replace(judging, concurrency=4))
    judge.ask([question("first")])
    with sqlite3.connect(judging.replies) as other:
        other.execute("CREATE TRIGGER full BEFORE INSERT ON reply BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    with pytest.raises(InputError, match="disk is full"):
        judge.ask([question(str(number)) for number in range(500)])
    assert judge.usage.calls == 1 == len(judge.store)
    assert len(server.bodies) < 400  # it was noticed long before the end


def test_the_next_question_does_not_wait_for_the_disk_but_the_end_does(server, judging, monkeypatch):
    asked, written = threading.Event(), []
    server.behave = lambda number, body, headers: (number == 4 and asked.set(), (200, {}, response("ok")))[1]
    judge = load_judge("m", replace(judging, concurrency=1))
    put = judge.store.put

    def slow(*records):
        assert asked.wait(60)  # the fourth question was asked, so three replies came, before the first was written
        put(*records)
        written.append(len(records))

    monkeypatch.setattr(judge.store, "put", slow)
    replies = judge.ask([question(str(number)) for number in range(4)])
    assert all(isinstance(reply, Reply) for reply in replies) and len(judge.store) == 4 == judge.usage.calls
    assert sum(written) == 4 and written[0] == 1 and written[1] >= 2  # what came while it was written is one group


@pytest.fixture
def no_collection():
    """No garbage is collected: Ctrl-C while a callback of the collector runs, such as Hypothesis has, would be lost."""
    gc.disable()
    yield
    gc.enable()


def test_an_interrupt_keeps_what_is_under_way_and_asks_nothing_more(server, judging, no_collection):
    told = threading.Event()

    def behave(number, body, headers):
        if number == 2:
            os.kill(os.getpid(), signal.SIGINT)
        assert told.wait(60)
        return 200, {}, response("8")

    server.behave = behave
    judge = load_judge("m", replace(judging, concurrency=2))
    with using(Runtime(log=lambda line: told.set())), pytest.raises(KeyboardInterrupt):
        judge.ask([question(str(number)) for number in range(20)])
    assert len(server.bodies) == 2 and len(ReplyStore(judging.replies)) == 2 and judge.usage.calls == 2


def test_an_interrupt_while_the_asking_begins_is_not_lost(server, judging, monkeypatch):
    start, reached, told, threads = threading.Thread.start, threading.Event(), threading.Event(), []

    def interrupted(thread):
        start(thread)
        if threading.current_thread() is threading.main_thread() and not threads:
            threads.append(thread)
            assert reached.wait(60)
            raise KeyboardInterrupt  # as if Ctrl-C came while the thread starts

    def behave(number, body, headers):
        reached.set()
        assert told.wait(60)
        return 200, {}, response("8")

    server.behave = behave
    judge = load_judge("m", replace(judging, concurrency=1))
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with using(Runtime(log=lambda line: told.set())), pytest.raises(KeyboardInterrupt):
        judge.ask([question(str(number)) for number in range(20)])
    told.set()
    assert len(server.bodies) == len(ReplyStore(judging.replies)) == judge.usage.calls == 1


def test_one_question_that_a_server_cannot_bear_does_not_stop_the_others(server, judging):
    def behave(number, body, headers):
        bad = body["messages"][0]["content"] == "3"
        return (500, {}, {"error": {"message": "assertion failed"}}) if bad else (200, {}, response("8"))

    server.behave = behave
    replies = load_judge("m", judging).ask([question(str(number)) for number in range(9)])
    assert [index for index, reply in enumerate(replies) if isinstance(reply, Failure)] == [3]
    assert replies[3] == Failure(f"status 500 (assertion failed), {endpoint.TRIES} times")


def test_a_parameter_that_a_model_refuses_is_left_out_and_said_in_the_identity(server, judging):
    def behave(number, body, headers):
        if "max_tokens" in body:
            message = "Unsupported parameter: 'max_tokens' is not supported, use 'max_completion_tokens' instead."
            return 400, {}, {"error": {"message": message}}
        if "temperature" in body:
            return 400, {}, {"error": {"message": "Unsupported value: 'temperature' does not support 0.0."}}
        return 200, {}, response("8", model="m")

    server.behave = behave
    judge = load_judge("m", replace(judging, concurrency=1))
    replies = judge.ask([question(str(number)) for number in range(3)])
    assert [reply.text for reply in replies] == ["8"] * 3 and len(server.bodies) == 5
    assert server.bodies[-1]["max_completion_tokens"] == 1024 and judge.identity == "m[no temperature]"
    again = load_judge("m", replace(judging, replay=True))
    assert again.ask([question("0")]) == replies[:1] and again.identity == "m[no temperature]"


def test_money_that_is_spent_stops_the_run_at_once(server, judging):
    message = "You exceeded your current quota, please check your plan and billing details."
    server.behave = lambda number, body, headers: (429, {}, {"error": {"message": message}})
    with pytest.raises(InputError, match="status 429"):
        load_judge("m", replace(judging, concurrency=1)).ask([question()])
    assert len(server.bodies) == 1


def test_a_replay_repeats_failures_too(server, judging):
    server.behave = lambda number, body, headers: (400, {}, {"error": {"message": "too long"}})
    first = load_judge("m", judging).ask([question()])
    assert (
        load_judge("m", replace(judging, replay=True)).ask([question()]) == first == [Failure("status 400: too long")]
    )
    server.behave = lambda number, body, headers: (200, {}, response("8"))
    assert load_judge("m", judging).ask([question()])[0].text == "8"  # any other run asks again
    assert load_judge("m", replace(judging, replay=True)).ask([question()])[0].text == "8"


def test_a_replay_needs_a_store_and_a_dry_run_asks_nothing(server, judging, tmp_path):
    with pytest.raises(InputError, match=r"none\.db: no such file"):
        load_judge("m", replace(judging, replay=True, replies=tmp_path / "none.db"))
    with pytest.raises(InputError, match="and dry_run=True allows no calls"):
        load_judge("m", replace(judging, dry_run=True)).ask([question()])
    assert not server.bodies and not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    "url",
    ["ftp://x", "http://", "http://x:99999/v1", "http://[::1", "127.0.0.1:80", "http://u:p@x/v1", "http://x/?k=1"],
)
def test_an_address_that_is_none_is_said_in_one_line(judging, url):
    with pytest.raises(InputError, match=r"expected an address such as http://127\.0\.0\.1:8080/v1") as error:
        load_judge("m", replace(judging, endpoint=url)).ask([question()])
    assert "u:p" not in str(error.value)


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "sk-ä"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(server, judging, monkeypatch, tmp_path, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    (tmp_path / "key").write_text(key, encoding="utf-8")
    for options in (judging, replace(judging, key_file=tmp_path / "key")):
        with pytest.raises(InputError, match="expected a key, one word on one line") as error:
            load_judge("m", options).ask([question()])
        assert key not in str(error.value)


def test_a_file_that_changes_is_another_image(tmp_path):
    path = tmp_path / "a.png"
    digests, urls = set(), set()
    for number, color in enumerate(("red", "blue")):
        Image.new("RGB", (4, 4), color).save(path)
        os.utime(path, ns=(number, number))
        asked = Request((Turn("user", "Which color?", (str(path),)),))
        digests.add(asked.digest("m"))
        urls.add(asked.build_payload("m")["messages"][0]["content"][0]["image_url"]["url"])
    assert len(digests) == len(urls) == 2


@pytest.mark.parametrize(
    "content",
    [
        {"choices": [{"message": "text"}]},
        {"choices": [{"message": {"content": "8"}, "logprobs": {"content": [{"top_logprobs": [{"token": "8"}]}]}}]},
        {"choices": {"0": "8"}},
    ],
)
def test_a_response_in_another_form_is_a_failure(content):
    with pytest.raises(ValueError, match="not in the form of the OpenAI protocol"):
        Reply.of(content)


@pytest.mark.parametrize("able", [True, False])
def test_several_replies_at_once_and_seeds_are_probed_by_what_comes_back(server, judging, able):
    def behave(number, body, headers):
        if "n" in body:
            answer = response("4")
            answer["choices"] *= body["n"] if able else 1
            return 200, {}, answer
        words = "dog lamp river" if able else f"{number} dogs"
        return 200, {}, response(words[: body["max_tokens"] - 12], finish="length")

    server.behave = behave
    judge = load_judge("m", judging)
    assert judge.can("n") is able and judge.can("seed") is able
    assert judge.abilities == {"n": able, "seed": able} and len(server.bodies) == 3
    assert judge.has_ability("n") is able and not judge.has_ability("schema") and len(server.bodies) == 3
    (probe,) = [body for body in server.bodies if "n" in body]
    assert probe["n"] == 2 and {body["seed"] for body in server.bodies if body is not probe} == {1}


THOUGHTS = '<think>It could be 0.3 or {"score": 1}.</think>\n\n'


def test_thoughts_are_no_part_of_the_answer_and_stay_in_the_record(server, judging):
    tokens = [(token, {token: -0.1}) for token in ("<think>", "hm", "</think>", "\n\n", "0", ".", "8")]
    texts = {"digits": "<think>hm</think>\n\n0.8", "json": f'{THOUGHTS}{{"score": 80}}', "cut": "<think>It may"}
    server.behave = lambda number, body, headers: (
        200, {}, response(texts[body["messages"][0]["content"]], logprobs=tokens if body.get("logprobs") else None)
    )  # fmt: skip
    judge = load_judge("m", judging)
    digits, plain = judge.ask([question("digits", top_logprobs=5), question("json")])
    assert digits.text == "0.8" and digits.thoughts == "hm" and digits.find_token(2)[0].text == b"8"
    assert plain.text == '{"score": 80}' and plain.thoughts.startswith("It could be 0.3")
    (stored,) = judge.store.get([question("json").digest("m")]).values()
    assert stored["choices"][0]["message"]["content"].startswith("<think>")
    (failure,) = ask_and_parse(judge, [question("cut")], lambda reply: int(reply.text))
    assert failure.reason == "unreadable reply: only thoughts in 5 tokens" and failure.reply == "It may"


def test_tokens_of_thoughts_that_a_server_sends_apart_are_left_out():
    tokens = [("hm ", {"hm ": 0.0}), ("7", {"7": -0.3, "8": -1.5})]
    apart = Reply.of(response("7", logprobs=tokens))
    assert [token.text for token in apart.tokens] == [b"7"]
    mixed = Reply.of(response("7", logprobs=[("hm 7", {"hm 7": 0.0})]))
    assert mixed.tokens == ()
