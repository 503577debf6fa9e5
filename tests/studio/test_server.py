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
import urllib.request
from contextlib import closing

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'captious[studio]'")
from click.testing import CliRunner

from captious.cli.app import build_app
from captious.errors import InputError
from captious.studio.access import hash_token
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
    assert complaints == "stopped; every answer that was confirmed is stored\n"
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
    assert isinstance(result.exception, InputError) and "expected 'links'" in str(result.exception)
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
    assert [event.kind for event in open_study(toml)[1].events()] == ["joined", "opened"]
