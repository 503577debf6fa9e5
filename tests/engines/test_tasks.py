"""Tasks and their ends: every executor gives the same."""

from __future__ import annotations

from functools import partial

import pytest
from tests.engines import work

from captious.engines.tasks import Finished, run_tasks
from captious.errors import InputError
from captious.options import Engine, Runtime, using


@pytest.fixture(params=["serial", "processes"])
def engine(request):
    return Engine(request.param, jobs=2)


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
    monkeypatch.setenv("CAPTIOUS_TEST", "passed on")
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: PTH123, SIM115
    with using(Runtime(batch=7, workers=3, log=lines.append)):
        ends = list(run_tasks(partial(work.settings, "CAPTIOUS_TEST"), range(3), engine))
    assert [end.result for end in ends] == [(7, 3, "passed on")] * 3
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
