"""Entries that Prolific signed: the signature, the time and the name of the server are checked."""

import base64
import hashlib
import hmac
import json
import sys
import time

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'captious[studio]'")
pytest.importorskip("jwt", reason="PyJWT is not installed: pip install 'captious[studio]'")
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.studio.collect.test_rater_pages import browser
from tests.studio.studies import Study, prolific

from captious.errors import InputError, MissingExtra
from captious.studio.access import Rules
from captious.studio.collect._signed import SignedEntries, read_keys
from captious.studio.collect.sessions import get_study_name

# The key, the message and its signature of RFC 7515, appendix A.2.
N = (
    "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgN"
    "MsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xs"
    "mtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"
)
D = (
    "Eq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyWPEAeP88vLNO97IjlA7_GQ5sLKMgvfTeXZx9SE-7YwVol2NXOoAJe46sui395IW_GO-pWJ1"
    "O0BkTGoVEn2bKVRUCgu-GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzjkn439X0M_V51gfpRLI9JYanrC4D4qAdGcopV_0ZHHzQlBjudU2QvXt4e"
    "hNYTCBr6XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl_x_jTj3ccPDVZFD9pIuhLhBOneufuBiB4cS98l2SR_RQyGWSeWjnczT0QU91p1DhOVRuOopznQ"
)
MESSAGE = (
    b"eyJhbGciOiJSUzI1NiJ9."
    b"eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
)
SIGNATURE = (
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1d"
    "nZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwu"
    "sC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
)
KEY = {"kty": "RSA", "kid": "k1", "alg": "RS256", "n": N, "e": "AQAB", "use": "sig"}
# A private key that is not that of the public one.
OTHER_D = D[:-4] + "AAAB"
HOST = "rate.example.org"


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encoded(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def number(text):
    return int.from_bytes(decoded(text), "big")


def token(header=None, signature=None, key=D, **claims):
    """A token as Prolific makes it, signed with the private key of the RFC."""
    prolific = {"PROLIFIC_PID": "5f", "STUDY_ID": "s", "SESSION_ID": "q", "workspace_id": "w"}
    claims = {"exp": time.time() + 60, "aud": f"https://{HOST}/s/1?PROLIFIC_PID=5f", "prolific": prolific} | claims
    parts = [{"alg": "RS256", "kid": "k1"} | (header or {}), claims]
    message = ".".join(encoded(json.dumps(part).encode()) for part in parts)
    ending = bytes.fromhex("3031300d060960864801650304020105000420") + hashlib.sha256(message.encode()).digest()
    padded = b"\0\1" + b"\xff" * (256 - 3 - len(ending)) + b"\0" + ending
    signed = pow(int.from_bytes(padded, "big"), number(key), number(N)).to_bytes(256, "big")
    return f"{message}.{encoded(signed) if signature is None else signature}"


def confused(keys):
    """A token with the public key, which everybody has, as the secret of HS256."""
    public = next(iter(read_keys(keys).values())).key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head, body, _ = token({"alg": "HS256"}).split(".")
    return f"{head}.{body}.{encoded(hmac.digest(public, f'{head}.{body}'.encode(), 'sha256'))}"


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [KEY, {"kty": "EC", "kid": "other"}]}))
    return path


def test_the_signature_of_the_rfc_is_right_and_no_other(keys):
    (key,) = read_keys(keys).values()
    assert key.Algorithm.verify(MESSAGE, key.key, decoded(SIGNATURE))
    assert not key.Algorithm.verify(MESSAGE + b" ", key.key, decoded(SIGNATURE))
    for wrong in (b"", bytes(256), decoded(SIGNATURE)[:-1], decoded(SIGNATURE)[::-1], b"\xff" * 256):
        assert not key.Algorithm.verify(MESSAGE, key.key, wrong)


def test_a_token_names_the_person_for_this_server_and_for_now(keys):
    entries = SignedEntries(keys, {HOST})
    assert entries.read_parameters(token())["PROLIFIC_PID"] == "5f"
    assert entries.read_parameters(token(aud=[f"https://other.example/{HOST}", HOST])) is not None
    wrong = [
        token(exp=time.time() - 3600),
        token(exp=None),
        token(exp=True),
        token(aud="https://evil.example/"),
        token(aud=None),
        token(prolific="5f"),
        token({"alg": "none"}, signature=""),
        token({"alg": "HS256"}),
        confused(keys),
        token({"alg": "RS512"}),
        token({"kid": None}),
        token({"kid": ["k1"]}),
        token(key=OTHER_D),
        token(exp="soon"),
        token(exp=float("inf")),
        token(nbf=time.time() + 3600),
        token(iat=time.time() + 3600),
        token(prolific=None),
        token(aud=[]),
        token(aud="https://[broken"),
        token(aud=f"https://{HOST}.evil.example/"),
        token({"kid": "k2"}),
        token(signature=SIGNATURE),
        token().replace(".", "!", 1),
        "",
        "a.b.c",
        encoded(b"[" * 5000) + ".e30.e30",
        "é.é.é",
        token() + "x" * 9000,
    ]
    assert [entries.read_parameters(one) for one in wrong] == [None] * len(wrong)
    slow = {"exp": time.time() - 30, "iat": time.time() + 30}  # clocks that differ by half a minute
    assert entries.read_parameters(token(**slow)) is not None
    head, body, signature = token().split(".")
    other = json.loads(decoded(body)) | {"prolific": {"PROLIFIC_PID": "60"}}
    assert entries.read_parameters(f"{head}.{encoded(json.dumps(other).encode())}.{signature}") is None


def test_a_study_with_keys_takes_signed_entries_alone(tmp_path, keys):
    study = Study(
        tmp_path, "labels", panel=prolific(keys=keys.name), rules=Rules.of_server("127.0.0.1", f"https://{HOST}")
    )
    door = f"/s/{get_study_name(study.plan)}"
    client = browser(study, scheme="https")
    refused = client.get(f"{door}?PROLIFIC_PID=5f&STUDY_ID=s&SESSION_ID=q")
    assert refused.status_code == 403 and "its signature is wrong" in refused.text
    assert client.get(f"{door}?prolific_token={token(exp=0)}&PROLIFIC_PID=5f").status_code == 403
    assert client.get(f"{door}?prolific_token={token()}&PROLIFIC_PID=60").url.path == "/task"
    assert study.log.identities() == {"r1": {"PROLIFIC_PID": "5f", "STUDY_ID": "s", "SESSION_ID": "q"}}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"keys": [1]}',
        '{"keys": [{"kty": "RSA", "kid": "k", "n": "AQAB", "e": "AQAB"}]}',
        '{"keys": 5}',
        "[" * 9999,
        json.dumps({"keys": [KEY | {"alg": "RS512"}]}),
        json.dumps({"keys": [KEY | {"n": "!"}]}),
        json.dumps({"keys": [KEY | {"e": "AA"}]}),
    ],
)
def test_a_file_without_keys_is_one_line(tmp_path, content):
    path = tmp_path / "keys.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"keys\.json: contains no key"):
        read_keys(path)
    with pytest.raises(InputError, match=r"nothing\.json: cannot be read"):
        read_keys(tmp_path / "nothing.json")


def test_new_keys_are_found_in_the_file(keys, monkeypatch):
    entries = SignedEntries(keys, {HOST})
    renamed = token({"kid": "k2"})
    assert entries.read_parameters(renamed) is None
    keys.write_text(json.dumps({"keys": [{**KEY, "kid": "k2"}]}))
    assert entries.read_parameters(renamed) is None  # it was read less than a minute ago
    now = time.monotonic()
    monkeypatch.setattr("captious.studio.collect._signed.time.monotonic", lambda: now + 61)
    assert entries.read_parameters(renamed)["PROLIFIC_PID"] == "5f"


def test_a_missing_claim_is_refused_on_a_server_without_a_name_too(keys):
    entries = SignedEntries(keys)
    assert entries.read_parameters(token(aud="https://any.example/")) is not None
    for name in ("exp", "aud", "prolific"):
        assert entries.read_parameters(token(**{name: None})) is None


def test_without_pyjwt_the_extra_is_named(keys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(MissingExtra, match=r"needs jwt.*captious\[studio\]"):
        read_keys(keys)
