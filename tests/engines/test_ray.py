"""Ray: nodes that are lost, clusters without room, a cluster of this machine alone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import pytest
from tests.engines import work
from tests.engines.driver import announced, ended

from captious.engines import ray as engine
from captious.engines.ray import ActorResources, _count_actors, _count_cpus
from captious.engines.tasks import run_tasks
from captious.errors import InputError
from captious.options import Engine

TWO = Engine("ray", jobs=2)
# With functions of its own, which Ray can send.
SCRIPT = """
import os, signal, sys
from pathlib import Path
from captious.engines.tasks import run_tasks
from captious.options import Engine

killed = Path(sys.argv[1])

def setup():
    return work

def work(task):
    if task == 2 and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return task * task, os.getpid(), os.getppid()

for end in run_tasks(setup, range(5), Engine("ray", jobs=2)):
    print(*end.result)
"""


def node(alive=True, **resources):
    return {"Alive": alive, "Resources": resources}


def test_a_node_that_is_lost_costs_its_tasks_another_attempt(cluster, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    other = cluster.add_node(num_cpus=2, object_store_memory=100 * 2**20)
    with ThreadPoolExecutor() as pool:

        def lose_node():
            workers = announced(tmp_path / "pipe", 2)  # both actors of the other node
            cluster.remove_node(other, allow_graceful=False)
            (tmp_path / "lost").touch()
            return workers

        workers = pool.submit(lose_node)
        ends = list(run_tasks(partial(work.on_nodes, tmp_path, other.node_id), range(12), Engine("ray")))
    results = [end.result for end in ends]
    assert sorted(task for task, _ in results) == list(range(12))
    assert {place for _, place in results} == {cluster.head_node.node_id}
    assert all(map(ended, workers.result()))


def test_a_run_without_room_ends_with_a_line(cluster, monkeypatch):
    import ray

    monkeypatch.setattr(engine, "PATIENCE", 2.0)
    taken = ray.remote(num_cpus=2)(work.Idler).remote()
    ray.get(taken.here.remote())
    line = (
        "no Ray actor could be scheduled in 2 s: each needs 1 CPU and 0 GPUs;"
        " the cluster has 2 CPUs and 0 GPUs, available are 0 CPUs and 0 GPUs"
    )
    with pytest.raises(InputError, match=f"^{line}$"):
        list(run_tasks(work.reciprocals, [1, 2, 3], TWO))
    ray.kill(taken)


def test_a_run_that_asks_for_more_than_there_is_ends_with_a_line(cluster, monkeypatch):
    monkeypatch.setattr(engine, "PATIENCE", 1.0)
    with pytest.raises(InputError, match=r"each needs 1 CPU and 0\.5 GPUs; the cluster has 2 CPUs and 0 GPUs"):
        list(run_tasks(work.reciprocals, [1, 2, 3], Engine("ray", gpus=0.5)))
    with pytest.raises(InputError, match=r"gpus=1\.5: expected a part of one GPU"):
        list(run_tasks(work.reciprocals, [1, 2, 3], Engine("ray", gpus=1.5)))


def test_actors_that_find_a_place_do_the_work_of_those_that_do_not(cluster):
    ends = list(run_tasks(work.reciprocals, [1, 2, 4, 5, 8, 10], Engine("ray", jobs=5)))
    assert sorted(end.result for end in ends) == [0.1, 0.125, 0.2, 0.25, 0.5, 1]


def test_actors_that_die_while_they_start_end_the_run(cluster):
    with pytest.raises(
        InputError, match=r"^3 Ray actors died while they started \(killed, crashed or out of memory\)$"
    ):
        list(run_tasks(work.deadly, [1, 2, 3], TWO))


def test_nodes_must_have_the_same_version(cluster, monkeypatch):
    monkeypatch.setattr(engine, "__version__", "9.9")
    with pytest.raises(InputError, match=r"^Ray node [\d.]+: has captious \S+, expected captious 9\.9 as here$"):
        list(run_tasks(work.reciprocals, [1, 2], TWO))


def test_a_cluster_of_this_machine_alone_leaves_nothing_and_prints_nothing(tmp_path):
    pytest.importorskip("ray")
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, tmp_path / "script.py", tmp_path / "killed"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(tmp_path)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    lines = [list(map(int, line.split())) for line in run.stdout.splitlines()]
    assert sorted(line[0] for line in lines) == [0, 1, 4, 9, 16], run.stderr
    assert run.stderr == ""
    assert (tmp_path / "killed").exists()
    assert not (tmp_path / ".ray").exists()
    assert all(ended(pid) for line in lines for pid in line[1:])


LOCAL = """
import json, psutil
from captious.engines.ray import _connect, import_ray
from captious.options import Engine

ray = import_ray()
with _connect(ray, Engine("ray", jobs=1)):
    nodes = [node["NodeManagerAddress"] for node in ray.nodes()]
    children = psutil.Process().children(recursive=True)
    commands = [" ".join(child.cmdline()) for child in children]
    sockets = [one for process in (psutil.Process(), *children) for one in process.net_connections("inet")]
    addresses = {end.ip for one in sockets for end in (one.laddr, one.raddr) if end}
print(json.dumps({"nodes": nodes, "commands": commands, "addresses": sorted(addresses)}))
"""


def test_a_cluster_of_this_machine_stays_within_it(tmp_path):
    """It listens on the loopback address alone, and no server of usage statistics asks clouds where it is."""
    pytest.importorskip("ray", reason="ray is not installed: pip install 'captious[ray]'")
    pytest.importorskip("psutil", reason="psutil is not installed")
    (tmp_path / "script.py").write_text(LOCAL)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(tmp_path)}
    run = subprocess.run([sys.executable, tmp_path / "script.py"], env=environment, capture_output=True, text=True)
    found = json.loads(run.stdout)
    assert found["nodes"] == ["127.0.0.1"], run.stderr
    assert any("gcs_server" in command for command in found["commands"])
    assert not any("dashboard.py" in command for command in found["commands"])
    assert {address.removeprefix("::ffff:") for address in found["addresses"]} <= {"127.0.0.1", "::1"}


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nothing_listens_is_named_at_once(scheme):
    patient = SimpleNamespace(is_initialized=lambda: False, init=lambda *address, **options: pytest.fail("asked Ray"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # and does not listen
        address = f"{scheme}127.0.0.1:{free.getsockname()[1]}"
        with (
            pytest.raises(InputError, match=rf"^address={address}: no connection to Ray \(.*refused\)$"),
            engine._connect(patient, Engine("ray", address=address)),
        ):
            pytest.fail("connected")


def test_actors_take_what_the_nodes_have():
    nodes = [node(CPU=16, GPU=2), node(CPU=6, GPU=1), node(CPU=64), node(alive=False, CPU=1, GPU=8), node()]
    assert _count_cpus(nodes, 0) == 1
    assert _count_cpus(nodes, 1) == 6  # 16 / 2 and 6 / 1
    assert _count_cpus(nodes, 0.5) == 3  # 16 / 4 and 6 / 2
    assert _count_cpus([node(CPU=2, GPU=4)], 0.25) == 1
    assert _count_actors(nodes, ActorResources(1, 0)) == 16 + 6 + 64
    assert _count_actors(nodes, ActorResources(3, 0.5)) == 4 + 2
    assert _count_actors(nodes, ActorResources(8, 1)) == 2 + 0
