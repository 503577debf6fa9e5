"""``captious studio serve`` and ``invite`` as a user runs them."""

import csv
import io
import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import closing

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'captious[studio]'")
from click.testing import CliRunner

from captious.cli.app import build_app
from captious.errors import InputError
from captious.studio.access import explain_reach, hash_token
from captious.studio.collect.log import open_study
from captious.studio.collect.sessions import invite
from captious.studio.server import StudyServer

TOML = """title = "Dogs"
kind = "ratings"
captions = ["a.jsonl"]
[[aspects]]
name = "overall"
question = "How good?"
"""


@pytest.fixture
def toml(tmp_path):
    lines = [json.dumps({"id": str(number), "caption": f"a dog {number}"}) for number in range(3)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "study.toml").write_text(TOML)
    return tmp_path / "study.toml"


def run(*words):
    return CliRunner().invoke(build_app(), ["studio", *map(str, words)])


def test_serve_prints_the_owners_link_and_stops_at_ctrl_c(toml):
    command = [sys.executable, "-m", "captious", "studio", "serve", str(toml), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            lines = [server.stdout.readline() for _ in range(5)]
            link = re.search(r"owner +(http://127\.0\.0\.1:\d+/owner\?token=\S{22})\n", lines[1])[1]
            with urllib.request.urlopen(link.replace("/owner?token=", "/health?"), timeout=60) as reply:
                assert json.load(reply) == {"status": "ok"}
            server.send_signal(signal.SIGINT)
            _, complaints = server.communicate(timeout=60)
        finally:
            server.kill()
    assert server.returncode == 0
    warning, stopped = complaints.splitlines()
    assert warning.startswith("captious: only this computer can open 127.0.0.1: for raters elsewhere, serve the study")
    assert stopped == "stopped; every answer that was confirmed is stored"
    assert lines[0] == "Dogs\n" and "studio invite" in lines[2] and str(toml.with_suffix(".db")) in lines[3]


def test_links_are_printed_once_and_only_hashes_are_stored(toml):
    result = run("invite", toml, "--raters", 3, "--public-url", "https://rate.example.org/")
    assert result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row["rater"] for row in rows] == ["r1", "r2", "r3"]
    tokens = [row["link"].removeprefix("https://rate.example.org/r/") for row in rows]
    assert all(len(token) == 22 for token in tokens)
    content = b"".join(path.read_bytes() for path in toml.parent.glob("study.db*"))
    assert not any(token.encode() in content for token in tokens)
    with closing(sqlite3.connect(toml.with_suffix(".db"))) as database:
        assert {hash_token(token) for token in tokens} == {
            hash for (hash,) in database.execute("SELECT token FROM rater WHERE number > 0")
        }


def test_links_are_for_studies_of_links(toml):
    toml.write_text(TOML + '[source]\nname = "open"\n')
    result = run("invite", toml)
    assert isinstance(result.exception, InputError) and "links need [source] name = 'links'" in str(result.exception)
    assert isinstance(run("invite", toml, "--public-url", "rate.example.org").exception, InputError)


def test_a_port_in_use_is_one_line(toml):
    plan, log = open_study(toml)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=f"127.0.0.1:{port} cannot be listened on"):
            StudyServer.of(plan, log, port=port)


def test_captions_that_change_after_the_beginning_change_nothing(toml):
    open_study(toml)[1].close()
    (toml.parent / "a.jsonl").unlink()
    plan, log = open_study(toml)
    assert plan.title == "Dogs" and len(log.tasks()) == 3
    toml.write_text(TOML.replace("Dogs", "Cats"))
    with pytest.raises(InputError, match="was edited after the study began"):
        open_study(toml)


def test_a_server_in_the_background_has_a_clean_end(toml):
    plan, log = open_study(toml)
    server = StudyServer.of(plan, log, port=0)
    ((_, link),) = invite(log, 1, server.address)
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with server.running() as address, opener.open(link, timeout=60) as reply:
        assert reply.url == f"{address}/task"
    port = int(address.rpartition(":")[2])
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    assert [event.kind for event in open_study(toml)[1].events()] == ["served", "joined", "opened"]


def test_links_have_the_address_of_the_server_and_the_line_says_who_can_open_it(toml):
    first = run("invite", toml, "--raters", 1)
    assert "http://127.0.0.1:8765/r/" in first.stdout and "no server has run yet" in first.stderr
    plan, log = open_study(toml)
    with StudyServer.of(plan, log, port=0).running() as address:
        assert not address.endswith(":8765")
        result = run("invite", toml, "--raters", 2)  # another process would: while the server runs
    assert result.stdout.count(f"{address}/r/") == 2 and "only this computer can open 127.0.0.1" in result.stderr
    assert f"{address}/r/" in run("invite", toml, "--raters", 1).stdout  # and after it has stopped
    named = run("invite", toml, "--raters", 1, "--public-url", "https://rate.example.org", "--json")
    assert json.loads(named.stdout)["links"][0]["link"].startswith("https://rate.example.org/r/")
    assert named.stderr == ""


def test_a_restart_under_the_same_address_is_stored_once(toml):
    _, log = open_study(toml)
    for address in ("https://a.example", "https://a.example", "https://b.example"):
        log.store_address(address)
    assert [event.body["address"] for event in log.events()] == ["https://a.example", "https://b.example"]
    assert log.now.history.address == "https://b.example" and log.now.history.paused is None


def test_links_that_nobody_opened_are_listed_and_withdrawn(toml):
    plan, log = open_study(toml)
    server = StudyServer.of(plan, log, port=0)
    links = dict(invite(log, 4, server.address))
    with server.running():
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        opener.open(links["r2"], timeout=60).close()
        listed = run("invite", toml, "--list-links")
        assert "3 of 4 links were never opened" in listed.stdout
        assert json.loads(run("invite", toml, "--list-links", "--json").stdout)["unopened"] == ["r1", "r3", "r4"]
        for raters, message in ((["r1", "r2"], "r2 is opened"), (["r9"], "there is no rater 'r9'")):
            assert message in str(run("invite", toml, "--withdraw", *raters).exception)
        assert run("invite", toml, "--withdraw", "r1").stdout == "withdrawn: r1\n"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(links["r1"], timeout=60)
        assert refused.value.code == 403 and "ask the person who sent it for a new one" in refused.value.read().decode()
        assert run("invite", toml, "--withdraw", "unopened").stdout == "withdrawn: r3, r4\n"
        assert run("invite", toml, "--withdraw", "unopened").stdout == "every link was opened or is withdrawn\n"
        opener.open(links["r2"], timeout=60).close()
    status = json.loads(run("status", toml, "--json").stdout)
    assert {one["id"]: one["state"] for one in status["raters"]} == {
        "r1": "withdrawn",
        "r2": "working",
        "r3": "withdrawn",
        "r4": "withdrawn",
    }
    assert status["forecast"]["text"] == "no answer yet"
    assert run("verify", toml).exit_code == 0


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://127.0.0.1:8765", "only this computer can open 127.0.0.1"),
        ("http://localhost:8765", "only this computer can open localhost"),
        ("http://[::1]:8765", "only this computer can open ::1"),
        ("http://0.0.0.0:8765", "raters cannot open 0.0.0.0"),
        ("http://10.1.2.3:8765", "only people in your own network can open 10.1.2.3"),
        ("https://172.16.0.1", "only people in your own network can open 172.16.0.1"),
        ("http://laptop:8765", "only people in your own network can open laptop"),
        ("http://laptop.local:8765", "only people in your own network can open laptop.local"),
        ("http://rate.example.org", "rate.example.org is reached by plain http"),
        ("https://rate.example.org", ""),
    ],
)
def test_who_can_open_an_address(address, words):
    assert explain_reach(address).startswith(words) and bool(explain_reach(address)) == bool(words)
