"""The reply store: rows are only added, files of others are left alone, processes share it."""

import json
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from captious.errors import InputError
from captious.models.chat.replies import ReplyRecord, ReplyStore


def test_a_reply_is_kept_as_it_came_and_never_changes(tmp_path):
    store = ReplyStore(tmp_path / "replies.db")
    store.put(ReplyRecord("a", {"model": "m"}, {"text": "é", "score": 0.1}, 1.5))
    store.put(ReplyRecord("a", {"model": "m"}, {"text": "other"}, 1.5))
    assert store.get(["a", "b"]) == {"a": {"text": "é", "score": 0.1}} and store.has(["a", "b"]) == {"a"}
    store.close()
    with sqlite3.connect(tmp_path / "replies.db") as connection:
        for statement in ("DELETE FROM reply", "UPDATE reply SET response = '{}'"):
            with pytest.raises(sqlite3.IntegrityError, match="replies are never"):
                connection.execute(statement)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes of files")
def test_replies_are_for_their_owner_alone(tmp_path):
    """They hold what was asked and said, and were paid for."""
    store = ReplyStore(tmp_path / "replies.db")
    store.put(ReplyRecord("a", {"model": "m"}, {"text": "8"}, 0.1))
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("replies.db*")} == {0o600}
    store.close()


@pytest.mark.parametrize("content", ["text", "table", "version"])
def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "other.db"
    if content == "text":
        path.write_text("caption,score\n" * 100)
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE answer (id)" if content == "table" else "PRAGMA user_version = 7")
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"other\.db: ") as error:
        ReplyStore(path)
    assert path.read_bytes() == before and "\n" not in str(error.value)


def test_a_store_that_cannot_be_written_is_read(tmp_path, monkeypatch):
    path = tmp_path / "replies.db"
    store = ReplyStore(path)
    store.put(ReplyRecord("a", {"model": "m"}, {"text": "8"}, 0.1))
    store.close()
    monkeypatch.setattr("captious.models.chat.replies.os.access", lambda path, mode: False)
    fixed = ReplyStore(path)
    assert fixed.get(["a"]) == {"a": {"text": "8"}}
    with pytest.raises(InputError, match="readonly"):
        fixed.put(ReplyRecord("b", {"model": "m"}, {"text": "8"}, 0.1))


WRITE = """
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from captious.models.chat.replies import ReplyRecord, ReplyStore
store = ReplyStore(Path(sys.argv[1]))
for number in range(40):
    store.put(ReplyRecord(f"{number % 30}-{number % 2 or sys.argv[2]}", {"model": "m"}, {"by": sys.argv[2]}, 0.0))
"""


def test_processes_that_begin_together_share_a_store(tmp_path):
    for round in range(3):
        path = tmp_path / f"{round}.db"
        command = [sys.executable, "-c", WRITE, str(path)]
        running = [subprocess.Popen([*command, name], stderr=subprocess.PIPE) for name in ("x", "y", "z")]
        assert [(process.communicate()[1], process.returncode) for process in running] == [(b"", 0)] * 3
        with sqlite3.connect(path) as connection:
            rows = connection.execute("SELECT digest, response FROM reply").fetchall()
        # 15 odd numbers that all three write, and 15 even ones of each
        assert len(rows) == 15 + 3 * 15 and all(json.loads(response)["by"] in "xyz" for _, response in rows)


def test_a_group_is_stored_whole_or_not_at_all(tmp_path):
    store = ReplyStore(tmp_path / "replies.db")
    records = [ReplyRecord(str(number), {"model": "m"}, {"text": number}, 0.0) for number in range(200)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda start: store.put(*records[start : start + 5]), range(0, 200, 5)))
    assert store.get([one.digest for one in records]) == {one.digest: one.response for one in records}
    with sqlite3.connect(tmp_path / "replies.db") as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON reply WHEN new.digest = 'x3' "
            "BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        )
    with pytest.raises(InputError, match="disk is full"):
        store.put(*(ReplyRecord(f"x{number}", {"model": "m"}, {}, 0.0) for number in range(6)))
    assert len(store) == 200
    store.put(ReplyRecord("x1", {"model": "m"}, {}, 0.0))
    assert len(store) == 201


def test_a_store_that_another_process_is_making_is_waited_for(tmp_path):
    path = tmp_path / "replies.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.3, lambda: other.execute("COMMIT")).start()
    assert len(ReplyStore(path)) == 0
    other.close()
