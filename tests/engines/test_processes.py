"""Worker processes under fire: they die, their parent dies, a person presses Ctrl-C."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from functools import partial

import pytest
from tests.engines import work

from captious.engines import processes
from captious.engines.tasks import Finished, run_tasks
from captious.errors import InputError
from captious.options import Engine

TWO = Engine("processes", jobs=2)
DRIVER = """
import sys
from functools import partial
from pathlib import Path
from captious.engines.tasks import run_tasks
from captious.options import Engine
from tests.engines import work

folder = Path(sys.argv[1])
tasks = [task for task in range(8) if not (folder / f"{task}.txt").exists()]
for end in run_tasks(partial(work.written, folder), tasks, Engine(sys.argv[2], jobs=2)):
    print(tasks[end.index], end.error)
"""
"""A user's script, without a guard against being imported again."""


def ended(pid):
    """Wait until a process has ended; it need not be a child of this one."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 60)[0])
    finally:
        os.close(descriptor)


@pytest.fixture
def driver(tmp_path):
    """A script that has come to tasks that wait; gives the process and the pids of its two workers."""
    script = tmp_path / "script.py"
    script.write_text(DRIVER)
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, script, tmp_path, "processes"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        pids = set()
        while len(pids) < 2:
            pids |= set(map(int, (tmp_path / "pipe").read_text().split()))
        yield process, pids
        process.kill()


def test_ten_workers_are_killed_in_mid_run_and_every_result_comes_once(tmp_path):
    ends = sorted(
        run_tasks(partial(work.recorded, tmp_path, 1), range(30), TWO),
        key=lambda end: end.index,
    )
    assert [(end.index, end.result[0], end.error) for end in ends] == [(k, k * k, "") for k in range(30)]
    attempts = [len((tmp_path / f"task-{k}").read_text().split()) for k in range(30)]
    assert attempts == [2 if k % 3 == 0 else 1 for k in range(30)]
    assert len(set((tmp_path / "setups").read_text().split())) == 12  # two, and one for each that was killed


def test_a_task_that_kills_three_workers_is_given_up(tmp_path):
    ends = sorted(run_tasks(partial(work.recorded, tmp_path, 9), [1, 3, 4], TWO), key=lambda end: end.index)
    assert [end.result and end.result[0] for end in ends] == [1, None, 16]
    assert ends[1] == Finished(1, error="the process that worked on it died 3 times (signal 9; out of memory?)")
    assert len((tmp_path / "task-3").read_text().split()) == 3


def test_workers_that_die_while_they_start_end_the_run():
    with pytest.raises(InputError, match=r"^3 worker processes died while they started \(signal 9; out of memory\?\)$"):
        list(run_tasks(work.deadly, [1, 2, 3], TWO))


def test_what_cannot_be_pickled_is_named():
    with pytest.raises(InputError, match=r"lambda.*engine=\"serial\""):
        list(run_tasks(lambda: abs, [1, 2], TWO))
    with pytest.raises(RuntimeError, match=r"a result cannot be pickled: .*lambda"):
        list(run_tasks(work.unpicklable_results, [1, 2], TWO))
    with pytest.raises(RuntimeError, match=r"Unpicklable: bug in task \d"):
        list(run_tasks(work.unpicklable_bugs, [1, 2], TWO))


def test_a_function_of_the_main_script_is_refused_with_a_remedy(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from captious.engines.tasks import run_tasks\n"
        "from captious.options import Engine\n"
        "def setup():\n"
        "    return abs\n"
        "list(run_tasks(setup, [1, 2], Engine('processes', jobs=2)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert "'setup'" in run.stderr and "define it at the top of a module that can be imported" in run.stderr


def test_cores_are_shared_by_the_workers(monkeypatch):
    monkeypatch.setattr(processes, "cores", lambda: 6)
    ends = list(run_tasks(partial(work.settings, "OMP_NUM_THREADS"), range(4), TWO))
    assert [end.result for end in ends] == [(256, 3, "3")] * 4


def test_who_wants_no_more_ends_leaves_no_process(tmp_path):
    ends = run_tasks(partial(work.recorded, tmp_path, 0), range(100), TWO)
    next(ends)
    ends.close()
    assert all(ended(int(pid)) for pid in (tmp_path / "setups").read_text().split())


def test_workers_end_in_mid_task_with_their_parent_and_the_run_goes_on_later(driver, tmp_path):
    process, pids = driver
    process.kill()
    process.wait()
    assert all(map(ended, pids))
    assert {path.name for path in tmp_path.glob("*.txt")} == {"0.txt", "1.txt", "2.txt"}

    (tmp_path / "pipe").unlink()
    again = subprocess.run(
        process.args, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True
    )
    assert sorted(again.stdout.split()) == ["3", "4", "5", "6", "7"], again.stderr
    assert [int((tmp_path / f"{task}.txt").read_text()) for task in range(8)] == [k * k for k in range(8)]


def test_ctrl_c_ends_all(driver):
    process, pids = driver
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the workers as well
    _, messages = process.communicate()
    assert process.returncode == -signal.SIGINT
    assert messages.count("Traceback") == messages.count("KeyboardInterrupt") == 1
    assert all(map(ended, pids))
