"""Worker processes: what they get, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial

import pytest
from tests.engines import work
from tests.engines.driver import Driver, ended

from captious.engines import processes
from captious.engines.tasks import run_tasks
from captious.errors import InputError
from captious.options import Engine

TWO = Engine("processes", jobs=2)


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
    monkeypatch.setattr(processes, "count_cores", lambda: 6)
    ends = list(run_tasks(partial(work.settings, "OMP_NUM_THREADS"), range(4), TWO))
    assert [end.result for end in ends] == [(256, 3, "3")] * 4


def test_who_wants_no_more_ends_leaves_no_process(tmp_path):
    ends = run_tasks(partial(work.recorded, tmp_path, 0), range(100), TWO)
    next(ends)
    ends.close()
    assert all(ended(int(pid)) for pid in (tmp_path / "setups").read_text().split())


def test_ctrl_c_ends_all(tmp_path):
    with Driver(tmp_path, "processes") as driver:
        os.killpg(driver.process.pid, signal.SIGINT)  # a terminal sends it to the workers as well
        _, messages = driver.process.communicate()
    assert driver.process.returncode == -signal.SIGINT
    assert messages.count("Traceback") == messages.count("KeyboardInterrupt") == 1
    assert all(map(ended, driver.workers))


@pytest.mark.parametrize(("gpus", "expected"), [(0.5, ["4", "6", "4", "6"]), (1.0, ["4", "6"]), (2.0, ["4,6"])])
def test_workers_share_the_gpus_that_this_process_sees(monkeypatch, gpus, expected):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    assert processes._list_worker_gpus(Engine("processes", gpus=gpus)) == expected


def test_a_worker_sees_its_gpu_alone(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    workers = {end.result for end in run_tasks(work.visible, list(range(20)), Engine("processes", gpus=1))}
    assert len(workers) <= 2 and {gpu for _, gpu in workers} <= {"4", "6"}


def test_more_gpus_than_there_are_are_refused(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(InputError, match=r"^gpus=2: each worker asks for so many, and this machine has 1 GPU$"):
        list(run_tasks(work.visible, [1, 2], Engine("processes", gpus=2)))
    with pytest.raises(InputError, match=r"^gpus=1\.5: expected a part of one GPU"):
        list(run_tasks(work.visible, [1, 2], Engine("processes", gpus=1.5)))
