"""Tokens, headers, limits and images: what keeps strangers out, tested against a bare ASGI app."""

import asyncio
import math

import pytest

from captious.errors import InputError
from captious.studio.access import (
    Guard,
    Limit,
    Rules,
    TokenGate,
    find_image_file,
    hash_token,
    is_same_token,
    make_form_token,
    make_token,
    read_owner_token,
)

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


async def echo(scope, receive, send):
    """Answers with the body that it reads."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def call(app, method="GET", path="/", query="", headers=(), chunks=(b"",), client="10.0.0.1"):
    """Status, headers and body of one request; `chunks` are the parts in which the body arrives."""
    headers = {"host": "127.0.0.1:8000", **dict(headers)}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": (client, 5000),
    }
    parts = [
        {"type": "http.request", "body": chunk, "more_body": index + 1 < len(chunks)}
        for index, chunk in enumerate(chunks)
    ]
    sent = []

    async def receive():
        return parts.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    answer = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], answer, b"".join(message["body"] for message in sent[1:]), parts


def test_a_token_has_128_bits_and_only_its_sha256_is_kept():
    tokens = {make_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(token) == math.ceil(128 / 6) for token in tokens)  # 22 characters of 6 bits
    # sha256("abc") is the example of FIPS 180-2.
    assert hash_token("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert is_same_token("é", "é") and not is_same_token("é", "e")
    assert make_form_token("a") != make_form_token("b")


def test_the_owners_token_comes_from_a_file_or_is_new(tmp_path):
    path = tmp_path / "token"
    path.write_text("a-long-token-of-mine\n")
    assert read_owner_token(path) == "a-long-token-of-mine"
    assert read_owner_token(None) != read_owner_token(None)
    path.write_text("short")
    for content in (b"short", b"\xff" * 20, b"a token with spaces in it", "ünprintable-in-a-cookie".encode()):
        path.write_bytes(content)
        with pytest.raises(InputError, match="at least 16 characters"):
            read_owner_token(path)
    with pytest.raises(InputError, match=r"nothing: cannot be read .*expected a token"):
        read_owner_token(tmp_path / "nothing")


def test_every_answer_has_the_security_headers():
    status, headers, _, _ = call(Guard(echo, Rules()))
    assert status == 200
    assert headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200),
        ("localhost", 200),
        ("[::1]:80", 200),
        ("192.168.1.5:8000", 200),
        ("studio.example.org", 200),
        ("STUDIO.example.org:443", 200),
        ("evil.example", 400),
        ("studio.example.org.evil.example", 400),
        ("127.0.0.1.evil.example", 400),
        ("[bad", 400),
        ("", 400),
    ],
)
def test_only_names_of_the_server_are_answered(host, status):
    rules = Rules.of_server("127.0.0.1", "https://studio.example.org")
    assert call(Guard(echo, rules), headers={"host": host})[0] == status


@pytest.mark.parametrize(
    "url",
    [
        "studio.example.org",
        "ftp://a.example",
        "https://",
        "https://a.example/x",
        "https://[",
        "https://a.example:port",
        "https://a,b.example",
        "https://a.example\n=1+1",
        "https://me:secret@a.example",
    ],
)
def test_a_public_address_that_is_none_is_refused(url):
    with pytest.raises(InputError, match="expected an address such as"):
        Rules.of_server("127.0.0.1", url)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin", "origin": "null"}, 200),
        ({"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:8000"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://127.0.0.1:8000"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({}, 200),
    ],
)
def test_a_post_from_a_page_of_another_site_is_refused(headers, status):
    assert call(Guard(echo, Rules()), "POST", headers=headers)[0] == status
    assert call(Guard(echo, Rules()), "GET", headers=headers)[0] == 200


def test_a_proxy_may_call_the_server_by_another_name():
    guard = Guard(echo, Rules.of_server("127.0.0.1", "https://Studio.example.org"))
    assert call(guard, "POST", headers={"origin": "https://studio.example.org"})[0] == 200
    assert call(guard, "POST", headers={"origin": "http://studio.example.org"})[0] == 403


def test_half_a_form_of_a_browser_that_is_gone_reaches_nothing():
    messages = [{"type": "http.request", "body": b"label=ol", "more_body": True}, {"type": "http.disconnect"}]
    reached, sent = [], []

    async def app(scope, receive, send):
        reached.append(await receive())

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/task",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    asyncio.run(Guard(app, Rules())(scope, receive, send))
    assert (reached, sent, messages) == ([], [], [])


def test_a_body_over_the_limit_is_refused_while_it_is_read():
    guard = Guard(echo, Rules())
    status, _, body, _ = call(guard, "POST", chunks=[b"a" * 40_000, b"b" * 25_536])
    assert (status, len(body)) == (200, 65_536)
    status, _, _, unread = call(guard, "POST", chunks=[b"a" * 40_000, b"b" * 25_537, b"c" * 10**6])
    assert status == 413
    assert len(unread) == 1  # the last part was not even asked for


def test_an_error_is_json_for_a_script():
    asked = {"host": "evil.example", "accept": "application/json"}
    status, headers, body, _ = call(Guard(echo, Rules()), headers=asked)
    assert (status, headers["content-type"]) == (400, "application/json")
    assert b"under this name" in body


def test_the_owner_enters_with_the_token_and_then_by_cookie():
    gate = Guard(TokenGate(echo, "right-token", "owner", Rules(secure=True)), Rules())
    assert call(gate, path="/owner")[0] == 403
    status, headers, _, _ = call(gate, path="/owner", query="token=right-token")
    assert (status, headers["location"]) == (303, "/owner")
    assert headers["set-cookie"].endswith("; Path=/; HttpOnly; SameSite=Lax; Secure")
    cookie = headers["set-cookie"].split(";")[0]
    assert call(gate, path="/owner", headers={"cookie": cookie})[0] == 200
    assert call(gate, path="/owner", headers={"cookie": "owner=wrong"})[0] == 403


def test_ten_wrong_tokens_a_minute_close_the_gate_for_that_address():
    time = [0.0]
    gate = TokenGate(echo, "right", "owner", Rules(), Limit(10, seconds=60, clock=lambda: time[0]))
    assert [call(gate, query="token=wrong")[0] for _ in range(11)] == [403] * 10 + [429]
    assert call(gate, query="token=right")[0] == 429
    assert call(gate, query="token=right", client="10.0.0.2")[0] == 303
    assert call(gate, headers={"cookie": "owner=right"})[0] == 200  # who is in stays in
    time[0] = 60.0
    assert call(gate, query="token=right")[0] == 303


def test_a_page_that_was_open_before_a_restart_does_not_close_the_gate():
    gate = TokenGate(echo, "right", "owner", Rules())
    assert {call(gate, headers={"cookie": "owner=before"})[0] for _ in range(50)} == {403}
    assert call(gate, query="token=right")[0] == 303
    guesses = [call(gate, headers={"cookie": f"owner=guess{number}"})[0] for number in range(10)]
    assert guesses == [403] * 9 + [429]


def test_a_limit_forgets_keys_that_are_over():
    time = [0.0]
    limit = Limit(1, seconds=1, clock=lambda: time[0])
    for number in range(10_001):
        limit.add(str(number))
    time[0] = 2.0
    limit.add("last")
    assert len(limit._times) == 1


def test_images_are_found_inside_the_folder_and_nowhere_else(tmp_path):
    folder = tmp_path / "photos"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep/a.png").write_bytes(PNG)
    (folder / "wrong.jpg").write_bytes(PNG)  # the content says what it is, not the name
    (folder / "b.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "page.png").write_text("<!doctype html><script>alert(1)</script>")
    (tmp_path / "secret.png").write_bytes(PNG)
    (folder / "inward.png").symlink_to(folder / "deep/a.png")
    (folder / "outward.png").symlink_to(tmp_path / "secret.png")
    (folder / "outside").symlink_to(tmp_path)
    (folder / "loop.png").symlink_to(folder / "loop.png")

    for name in ("deep/a.png", "inward.png", "wrong.jpg"):
        assert find_image_file(folder, name)[1] == "image/png"
    hostile = ["../secret.png", "outward.png", "outside/secret.png", str(tmp_path / "secret.png"), "b.svg", "page.png"]
    for name in [*hostile, "loop.png", "none.png", "deep", "", "a\0.png", "x" * 5000]:
        with pytest.raises(InputError, match=r"expected an? (image|JPEG)"):
            find_image_file(folder, name)
