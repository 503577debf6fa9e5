"""What a server cannot do to the client of judges: send without end, keep it waiting, be believed, show a key."""

import asyncio
import contextlib
import gzip
import json
import logging
import socketserver
import sqlite3
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace

import pytest
from tests.models.chat.stub import POLL, response
from tests.waiting import until

from captious.errors import InputError
from captious.models.chat import _endpoint as endpoint
from captious.models.chat import judge as asking
from captious.models.chat._endpoint import Endpoint, EndpointUnavailable, Unanswered, redact_address, redact_secret
from captious.models.chat.judge import load_judge
from captious.models.chat.messages import Failure, Reply, Request, Turn
from captious.models.chat.replies import ReplyRecord, ReplyStore
from captious.options import Judging, Runtime, using

SECRET = "sk-a-key-that-nobody-may-see"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def question(text="How good?", **options):
    return Request((Turn("user", text),), **options)


@pytest.fixture
def judging(server, tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return Judging(endpoint=server.url, replies=tmp_path / "replies.db")


@pytest.fixture
def raw():
    """``raw(answer)`` is a server that calls ``answer(socket)`` for every request; gives its address."""
    pytest.importorskip("aiohttp", reason="aiohttp is not installed: pip install 'captious[judge]'")
    servers = []

    def start(answer):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                self.request.recv(65536)
                with contextlib.suppress(OSError):
                    answer(self.request)

        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(POLL,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}/v1"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def complete(url, **options):
    """One question to a server, without pauses."""

    async def run():
        async with Endpoint(url, pause=0.0, **options) as one:
            return await one.complete({"model": "m", "messages": []})

    return asyncio.run(run())


def endless(socket):
    socket.sendall(HEAD + b"\r\n")
    while True:
        socket.sendall(b" " * 65536)


def slow(socket):
    socket.sendall(HEAD + b"\r\n")
    while not threading.Event().wait(0.05):
        socket.sendall(b"  ")


def silent(socket):
    threading.Event().wait(60)


def test_a_body_without_end_is_not_read_to_it(raw, monkeypatch):
    monkeypatch.setattr(endpoint, "LONGEST_REPLY", 1_000_000)
    with pytest.raises(Unanswered, match="the reply is longer than 1,000,000 bytes"):
        complete(raw(endless))


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, gzip"])
def test_a_packed_reply_is_unpacked_no_further_than_a_reply_may_be(raw, monkeypatch, encoding):
    bomb = gzip.compress(b" " * 50_000_000)  # 49 KB
    monkeypatch.setattr(endpoint, "LONGEST_REPLY", 1_000_000)
    head = b"%sContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n" % (HEAD, encoding.encode(), len(bomb))
    known = encoding in ("gzip", "deflate")
    with pytest.raises(Unanswered, match="longer than 1,000,000 bytes" if known else "which was not requested"):
        complete(raw(lambda socket: socket.sendall(head + bomb)))


def test_a_packed_reply_of_a_usual_size_is_read(raw):
    packed = gzip.compress(json.dumps(response("8")).encode())
    head = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    assert Reply.of(complete(raw(lambda socket: socket.sendall(head + packed)))).text == "8"
    with pytest.raises(Unanswered, match="compressed reply is damaged"):
        complete(raw(lambda socket: socket.sendall(head + b"x" * len(packed))))


@pytest.mark.parametrize("answer", [slow, silent], ids=["two bytes at a time", "never"])
def test_a_call_has_one_time_for_all_of_it_and_is_tried_once_more(raw, answer):
    calls = []

    def counted(socket):
        calls.append(1)
        answer(socket)

    with pytest.raises(
        EndpointUnavailable, match=r"no complete reply within 0 s, 2 times; all replies received are stored"
    ):
        complete(raw(counted), timeout=0.4)
    until(lambda: len(calls) >= 2, "the second call, which the server counts when it takes it")
    assert len(calls) == 2


def test_a_server_that_asks_for_a_long_wait_ends_the_run(server, judging):
    server.behave = lambda number, body, headers: (429, {"Retry-After": "99999999"}, {"error": "busy"})
    with pytest.raises(
        InputError, match=r"status 429 \(busy\); it asks to wait 1157 days: all replies received are stored"
    ):
        load_judge("m", judging).ask([question()])
    assert len(server.bodies) == 1


def test_all_tries_of_a_question_have_one_time(server, judging, monkeypatch):
    monkeypatch.setattr(endpoint, "TOTAL_TIMEOUT", 0.05)
    server.behave = lambda number, body, headers: (503, {"Retry-After": "1"}, {})
    with pytest.raises(InputError, match=r"status 503 \(\{\}\), 1 times"):
        load_judge("m", judging).ask([question()])


# Keys


@pytest.mark.parametrize("cut", range(100, 165, 5))
def test_no_part_of_a_key_is_shown_where_a_message_is_cut(server, judging, tmp_path, cut):
    (tmp_path / "key").write_text(SECRET)
    words = "x" * cut + SECRET
    server.behave = lambda number, body, headers: (401, {}, {"error": {"message": words}})
    judge = load_judge("m", replace(judging, key_file=tmp_path / "key"))
    with pytest.raises(InputError) as error:
        judge.ask([question()])
    assert SECRET[:8] not in str(error.value) and "x" * 60 in str(error.value)


def test_a_failure_that_names_the_key_is_stored_without_it(server, judging, tmp_path, caplog):
    (tmp_path / "key").write_text(SECRET)
    words = "y" * 150 + SECRET
    server.behave = lambda number, body, headers: (400, {}, {"error": {"message": words}})
    with caplog.at_level(logging.DEBUG):
        (failure,) = load_judge("m", replace(judging, key_file=tmp_path / "key")).ask([question()])
    assert isinstance(failure, Failure) and SECRET[:8] not in failure.reason + caplog.text
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("replies.db*"))
    assert SECRET[:8].encode() not in stored and b"yyyy" in stored


@pytest.mark.parametrize("escaped", [False, True])
def test_a_reply_that_repeats_the_key_is_stored_and_shown_without_it(server, judging, tmp_path, escaped):
    (tmp_path / "key").write_text(SECRET)
    content = json.dumps(response(f"8, says {SECRET}", model=SECRET)).encode()
    if escaped:
        content = content.replace(b"sk-a", b"\\u0073k-a")
    server.behave = lambda number, body, headers: (200, {}, content)
    (reply,) = load_judge("m", replace(judging, key_file=tmp_path / "key")).ask([question()])
    assert (reply.text, reply.model) == ("8, says …", "…")
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("replies.db*"))
    assert b"nobody-may-see" not in stored


SLASHES = "sk-or/v1/nobody+may=see/this9"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (SLASHES.replace("/", "\\/"), "…"),  # JSON may escape a slash, and PHP does
        (SLASHES.replace("/", "\\u002f"), "…"),
        (SLASHES.replace("/", "\\u002F").replace("k", "\\u006b"), "…"),
        (SLASHES.replace("/", "\\\\/"), "…"),  # the text of the reply is JSON itself
        (SLASHES.replace("/", "\\\\u002f"), "…"),
        (SLASHES.replace("/", "%2F").replace("+", "%2b").replace("=", "%3D"), "…"),
        (SLASHES[:-1], "…"),
        (SLASHES[1:], "…"),
        (SLASHES[:-1].replace("/", "\\/") + "*", "…*"),
        (SLASHES[:15] + "***", "…***"),
    ],
)
def test_a_key_is_not_stored_however_a_server_writes_it(server, judging, tmp_path, written, shown):
    """The content is what the server sent, so a backslash in it is an escape of JSON."""
    (tmp_path / "key").write_text(SLASHES)
    content = json.dumps(response("8, says KEY", model="KEY")).replace("KEY", written).encode()
    server.behave = lambda number, body, headers: (200, {}, content)
    (reply,) = load_judge("m", replace(judging, key_file=tmp_path / "key")).ask([question()])
    assert (reply.text, reply.model) == (f"8, says {shown}", shown)
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("replies.db*"))
    assert b"nobody" not in stored and b"8, says" in stored


def test_a_key_that_has_a_backslash_or_a_percent_sign_is_hidden():
    key = "sk%2Fwith\\slash%41see/this9"
    assert redact_secret(f"says {key}", key) == redact_secret(f"says {key.replace('/', '%2F')}", key) == "says …"


def test_a_key_is_not_stored_in_the_tokens_of_a_reply():
    """Servers that give probabilities repeat the reply token by token."""
    tokens = ["8", " ", *(SLASHES[start : start + 3] for start in range(0, len(SLASHES), 3)), "."]
    listed = [{"token": one, "logprob": -0.5, "bytes": list(one.encode()), "top_logprobs": []} for one in tokens]
    cleaned = endpoint._redact_value({"logprobs": {"content": listed}}, SLASHES)["logprobs"]["content"]
    assert [one["token"] for one in cleaned] == ["8", " ", *["…"] * (len(tokens) - 3), "."]
    assert cleaned[0] == listed[0] and cleaned[2] == {"token": "…", "logprob": -0.5}


def test_a_reply_without_the_key_stays_as_it_is():
    """Backslashes, percent signs and the beginning of a key, which all keys of a company share, are kept."""
    said = {"choices": [{"text": "100% \\/ \\u002f sk-or/v1 %2F"}], "a": [1, None, 2.5, True]}
    assert endpoint._redact_value(said, SLASHES) == said


@pytest.mark.parametrize("garbage", [b"", b"X-%s: \0\r\n\r\n", b"%s\r\n\r\n", b"Content-Length: %s\r\n\r\n"])
def test_a_broken_answer_shows_neither_key_nor_address(raw, garbage):
    """The client quotes what it cannot read."""
    head = HEAD + garbage.replace(b"%s", SECRET.encode())
    url = raw(lambda socket: socket.sendall(head)).replace("/v1", f"/{SECRET}/v1")
    with pytest.raises(EndpointUnavailable, match=r"/…/v1: cannot be reached \(\S.*\), 8 times") as error:
        complete(url, key=SECRET)
    assert SECRET[:8] not in str(error.value)


@pytest.mark.parametrize(
    ("variables", "proxy"),
    [
        ({}, None),
        ({"http_proxy": "http://p:3128"}, "http://p:3128"),
        ({"http_proxy": "p:3128"}, "http://p:3128"),
        ({"all_proxy": "http://p:1"}, "http://p:1"),
        ({"https_proxy": "http://p:1"}, None),
        ({"http_proxy": "http://p:1", "no_proxy": "a.example"}, None),
        ({"all_proxy": "socks5://me:secret@p:1"}, InputError),
    ],
)
def test_the_proxy_of_the_environment(monkeypatch, variables, proxy):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if proxy is InputError:
        with pytest.raises(InputError, match=r"^http://a\.example/v1: the environment names a socks5 proxy, expected"):
            endpoint._find_proxy("http://a.example/v1")
    else:
        assert endpoint._find_proxy("http://a.example/v1") == proxy


def test_a_word_that_is_no_secret_stays_in_replies(server, judging, tmp_path):
    (tmp_path / "key").write_text("none")  # as servers of one's own take it
    server.behave = lambda number, body, headers: (200, {}, response("none of them"))
    (reply,) = load_judge("m", replace(judging, key_file=tmp_path / "key")).ask([question()])
    assert reply.text == "none of them"


def test_parts_of_a_key_are_hidden():
    assert redact_secret(f"a {SECRET} b {SECRET[5:20]} c {SECRET[:7]}", SECRET) == f"a … b … c {SECRET[:7]}"
    assert redact_secret("key short", "short") == "key …" and redact_secret("text", "") == "text"


def test_an_address_is_shown_without_what_may_be_a_key(judging):
    judge = load_judge("m", replace(judging, endpoint=f"http://127.0.0.1:9/{SECRET}/v1"))
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:9/…/v1: cannot be reached") as error:
        judge.ask([question()])
    assert SECRET not in str(error.value)
    for url in (
        f"https://me:{SECRET}@a.example/v1",
        f"https://a.example/v1?key={SECRET}",
        f"ftp://{SECRET}@a/{SECRET}",
    ):
        with pytest.raises(InputError, match="expected an address") as error:
            Endpoint(url)
        assert SECRET not in str(error.value)
    assert redact_address("http://127.0.0.1:8080/v1") == "http://127.0.0.1:8080/v1"


# What a server counts


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": -100, "completion_tokens": -5},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": "many", "completion_tokens": 5},
        {"prompt_tokens": 10**30, "completion_tokens": 5},
        {"prompt_tokens": True, "completion_tokens": True},
    ],
)
def test_a_ceiling_holds_where_the_server_does_not_count(server, judging, usage):
    text = "a reply of some length"  # 22 characters: 6 tokens
    server.behave = lambda number, body, headers: (200, {}, {**response(text), "usage": usage})
    said = []
    ceiling = replace(judging, most_tokens=27, concurrency=1)  # a prompt of 9 characters is 3 tokens
    with using(Runtime(judging=ceiling, log=said.append)):
        judge = load_judge("m", ceiling)
        with pytest.raises(InputError, match="27 tokens used, the limit is 27; 3 replies are stored"):
            judge.ask([question(f"How good{number}") for number in range(9)])
    assert said == ["m: the server counts no tokens; the limit applies to an estimate"]
    assert "9 + 18 tokens (estimated for 3: the server counts none)" in judge.usage.line((0, 0))


def test_tokens_that_a_server_counts_are_believed(server, judging):
    judge = load_judge("m", judging)
    judge.ask([question()])
    assert (judge.usage.prompt_tokens, judge.usage.reply_tokens, judge.usage.estimated) == (10, 5, 0)


def test_half_a_character_in_a_reply_is_no_traceback(server, judging):
    content = json.dumps(response("8")).replace('"8"', '"8 \\ud83d"').encode()
    server.behave = lambda number, body, headers: (200, {}, content)
    (reply,) = load_judge("m", judging).ask([question()])
    assert reply.text == "8 ?" and load_judge("m", judging).ask([question()]) == [reply]


# The store


def change(path, **values):
    """Change a stored reply behind the store's back."""
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER reply_unchanged")
        for name, value in values.items():
            connection.execute(f"UPDATE reply SET {name} = ?", (value,))
    connection.close()


@pytest.mark.parametrize(
    "text", [json.dumps({"score": 1}), "", "{", "[]", "5", "null", "[" * 100_000, None, 7, b"\xff\xfe"]
)
def test_a_reply_that_was_changed_is_refused(tmp_path, text):
    path = tmp_path / "replies.db"
    store = ReplyStore(path)
    store.put(ReplyRecord("abcdef012345678", {"model": "m"}, {"score": 85}, 0.1))
    store.close()
    if text is None:
        change(path, digest="0" * 15)  # the reply to another question
    else:
        change(path, response=text)
    with pytest.raises(
        InputError, match=r"replies\.db: reply \w{12} was changed or damaged after it was stored"
    ) as error:
        ReplyStore(path).get(["abcdef012345678", "0" * 15])
    assert "\n" not in str(error.value)


def test_a_store_without_checksums_gets_them(tmp_path, monkeypatch):
    path = tmp_path / "replies.db"
    with sqlite3.connect(path) as connection:  # as format 1 was
        connection.execute(
            "CREATE TABLE reply (digest TEXT PRIMARY KEY, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, "
            "model TEXT NOT NULL, request TEXT NOT NULL, response TEXT NOT NULL, seconds REAL NOT NULL)"
        )
        connection.execute(
            "CREATE TRIGGER reply_unchanged BEFORE UPDATE ON reply "
            "BEGIN SELECT RAISE(ABORT, 'replies are never changed'); END"
        )
        connection.execute("CREATE TABLE failure (digest TEXT PRIMARY KEY, at TEXT, reason TEXT NOT NULL)")
        connection.execute("INSERT INTO reply VALUES ('ab', 'now', 'm', '{}', '{\"score\": 85}', 0.1)")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    with monkeypatch.context() as fixed:
        fixed.setattr("captious.models.chat.replies.os.access", lambda path, mode: False)
        assert ReplyStore(path).get(["ab"]) == {"ab": {"score": 85}}  # it cannot be changed, and is read as it is
    store = ReplyStore(path)
    assert store.get(["ab"]) == {"ab": {"score": 85}}
    store.put(ReplyRecord("cd", {"model": "m"}, {"score": 1}, 0.1))
    store.close()
    again = ReplyStore(path)
    assert len(again) == 2
    again.close()
    change(path, response='{"score": 1}')
    with pytest.raises(InputError, match="reply ab was changed"):
        ReplyStore(path).get(["ab"])


# Several processes


ASK = """
    import sys
    from captious.models.chat.judge import load_judge
    from captious.models.chat.messages import Request, Turn
    from captious.options import Judging

    judge = load_judge("m", Judging(endpoint=sys.argv[1], replies=sys.argv[2], concurrency=4))
    replies = judge.ask([Request((Turn("user", str(number)),)) for number in range(12)])
    assert [reply.text for reply in replies] == [str(number) for number in range(12)]
"""


def test_two_processes_ask_no_question_twice(server, judging):
    def behave(number, body, headers):
        threading.Event().wait(0.05)
        return 200, {}, response(body["messages"][0]["content"])

    server.behave = behave
    command = [sys.executable, "-c", textwrap.dedent(ASK), server.url, str(judging.replies)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=120)[1] for process in processes] == [""] * 3
    asked = [body["messages"][0]["content"] for body in server.bodies]
    assert sorted(asked, key=int) == [str(number) for number in range(12)]


def test_threads_of_one_process_ask_no_question_twice(server, judging):
    server.behave = lambda number, body, headers: (threading.Event().wait(0.05), (200, {}, response("8")))[1]
    results = []
    threads = [
        threading.Thread(
            target=lambda: results.append(load_judge("m", judging).ask([question(str(n)) for n in range(5)]))
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3 and all(isinstance(reply, Reply) for replies in results for reply in replies)
    assert len(server.bodies) == 5


def test_a_question_that_another_process_gave_up_is_asked(server, judging, monkeypatch):
    """A claim ends with its process; one that lasts too long is not waited for."""
    first, second = question("left"), question("stuck")
    program = """
        import sys, time
        from pathlib import Path
        from captious.models.chat.replies import Claims
        claims = Claims(Path(sys.argv[1]))
        print(all([claims.take(digest) for digest in sys.argv[2:]]), flush=True)
        sys.stdin.readline()
    """
    store = ReplyStore(judging.replies)
    command = [sys.executable, "-c", textwrap.dedent(program), str(store.claims.path)]
    both = [first.digest("m"), second.digest("m")]
    holder = subprocess.Popen([*command, *both], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "True\n"
        assert not store.claims.take(both[0]) and not store.claims.take(both[1])
        threading.Timer(0.5, holder.kill).start()
        (reply,) = load_judge("m", judging).ask([first])
        assert reply.text == "ok" and len(server.bodies) == 1
    finally:
        holder.kill()
        holder.communicate()
    holder = subprocess.Popen([*command, both[1]], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "True\n"
        monkeypatch.setattr(asking, "OTHERS", 0.3)
        assert load_judge("m", judging).ask([second])[0].text == "ok"
    finally:
        holder.kill()
        holder.communicate()
    store.close()
