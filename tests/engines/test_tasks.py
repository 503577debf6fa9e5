"""Tasks and their ends: every executor gives the same."""

from __future__ import annotations

from functools import partial

import pytest
from tests.engines import work
from tests.engines.driver import Driver, ended

from captious.engines.tasks import Finished, run_tasks
from captious.errors import InputError
from captious.options import Engine, Runtime, using


@pytest.fixture(params=["serial", "processes", "ray"])
def engine(request):
    if request.param == "ray":
        request.getfixturevalue("cluster")
    return Engine(request.param, jobs=2)


@pytest.fixture(params=["processes", "ray"])
def address(request):
    """Name and address of an executor whose workers can be killed."""
    return request.param, request.getfixturevalue("cluster").address if request.param == "ray" else ""


def by_index(ends):
    return sorted(ends, key=lambda end: end.index)


def test_an_input_error_ends_its_task_alone(engine):
    assert by_index(run_tasks(work.reciprocals, [4, 0, 2], engine)) == [
        Finished(0, 0.25),
        Finished(1, error="task 0: is zero, expected another number"),
        Finished(2, 0.5),
    ]


def test_a_bug_of_a_task_is_raised(engine):
    with pytest.raises(ZeroDivisionError, match="division by zero") as raised:
        list(run_tasks(work.divisions, [4, 0, 2], engine))
    if engine.engine != "serial":
        assert 'work.py", line' in str(raised.value.__cause__) and "1 / task" in str(raised.value.__cause__)


def test_a_refusal_of_the_setup_ends_the_run(engine):
    with pytest.raises(InputError, match=r"^weights\.npz: is not there, expected a file of weights$"):
        list(run_tasks(work.refused, [1, 2, 3], engine))


def test_a_bug_of_the_setup_is_raised(engine):
    with pytest.raises(LookupError, match="the setup has a bug"):
        list(run_tasks(work.faulty, [1, 2, 3], engine))


def test_no_task_needs_no_setup(engine):
    assert list(run_tasks(work.refused, [], engine)) == []


def test_the_runtime_of_the_caller_holds_for_the_tasks(engine, monkeypatch):
    lines = []
    monkeypatch.setattr("sys.stdin", open("/dev/null", encoding="utf-8"))  # noqa: PTH123, SIM115
    with using(Runtime(batch=7, workers=3, log=lines.append)):
        ends = list(run_tasks(partial(work.settings, "CAPTIOUS_TEST"), range(3), engine))
    assert [end.result for end in ends] == [(7, 3, None)] * 3
    assert sorted(set(lines)) == ["a task says this", "the setup says this"]


def test_the_setup_runs_once_in_every_worker_for_many_tasks(engine, tmp_path):
    ends = by_index(run_tasks(partial(work.recorded, tmp_path, 0), range(200), engine))
    assert [(end.index, end.result[0], end.error) for end in ends] == [(k, k * k, "") for k in range(200)]
    setups = (tmp_path / "setups").read_text().split()
    assert len(set(setups)) == len(setups) <= 2
    assert {str(end.result[1]) for end in ends} <= set(setups)


def test_without_a_name_several_tasks_go_to_processes(tmp_path):
    def pids(tasks, engine):
        ends = run_tasks(partial(work.recorded, tmp_path, 0), range(tasks), engine)
        return {end.result[1] for end in ends}

    here = pids(3, Engine("serial"))
    assert pids(1, Engine(jobs=2)) == here == pids(3, Engine(jobs=1))
    assert not here & pids(3, Engine(jobs=2))


def test_ten_workers_are_killed_in_mid_run_and_every_result_comes_once(address, tmp_path):
    lines = []
    with using(Runtime(log=lines.append)):
        ends = by_index(run_tasks(partial(work.recorded, tmp_path, 1), range(30), Engine(address[0], jobs=2)))
    causes = {"processes": "signal 9; out of memory?", "ray": "killed, crashed or out of memory"}
    assert [len(end.deaths) for end in ends] == [int(k % 3 == 0) for k in range(30)]
    assert lines == [f"10 tasks were begun again, because a worker process died ({causes[address[0]]})"]
    assert [(end.index, end.result[0], end.error) for end in ends] == [(k, k * k, "") for k in range(30)]
    attempts = [len((tmp_path / f"task-{k}").read_text().split()) for k in range(30)]
    assert attempts == [2 if k % 3 == 0 else 1 for k in range(30)]
    assert len(set((tmp_path / "setups").read_text().split())) >= 11  # ten were killed, one is left


def test_a_task_that_kills_three_workers_is_given_up(address, tmp_path):
    ends = sorted(
        run_tasks(partial(work.recorded, tmp_path, 9), [1, 3, 4], Engine(address[0], jobs=2)), key=lambda end: end.index
    )
    assert [end.result and end.result[0] for end in ends] == [1, None, 16]
    causes = {"processes": "signal 9; out of memory?", "ray": "killed, crashed or out of memory"}
    assert ends[1] == Finished(1, error=f"the process that worked on it died 3 times ({causes[address[0]]})")
    assert len((tmp_path / "task-3").read_text().split()) == 3


def test_workers_end_in_mid_task_with_their_parent_and_the_run_goes_on_later(address, tmp_path):
    with Driver(tmp_path, *address) as driver:
        driver.process.kill()
        driver.process.wait()
        assert all(map(ended, driver.workers))
        assert {path.name for path in tmp_path.glob("*.txt")} == {"0.txt", "1.txt", "2.txt"}
    again = driver.again()
    assert sorted(again.stdout.split()) == ["3", "4", "5", "6", "7"], again.stderr
    assert [int((tmp_path / f"{task}.txt").read_text()) for task in range(8)] == [k * k for k in range(8)]
