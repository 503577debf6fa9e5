"""Tasks on a Ray cluster, by actors of Ray's core.

``ray.data`` is not used: it packs small files into one block, names its output files by the run, and waits silently if
actors leave no CPU for its own tasks.
"""

from __future__ import annotations

import logging
import os
import pickle
import secrets
import socket
import sys
import time
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from captious._version import __version__
from captious.engines._worker import ATTEMPTS, Answer, Log, count_slots, make_portable, pack, refuse_split_gpus
from captious.engines.processes import count_cores
from captious.engines.tasks import Finished, Setup
from captious.errors import InputError, format_one_line, require
from captious.options import Engine, get_runtime

# Seconds without a scheduled actor, after which the run ends with a line that says what the cluster is missing.
PATIENCE = 60.0
# Seconds before the next actor, when several in a row died while they started.
PAUSE = 30.0
# Seconds between two looks at the cluster, which may have grown.
LOOK = 1.0
# Bytes of the object store of a local cluster. Tasks and results are small.
STORE = 100 * 2**20


def run_on_ray(setup: Setup[Any, Any], tasks: Sequence[Any], engine: Engine) -> Generator[Finished[Any], None, None]:
    """Run tasks in ``engine.jobs`` actors; if it is 0, in as many as the cluster can schedule."""
    if not tasks:
        return
    ray, runtime = import_ray(), get_runtime()
    refuse_split_gpus(engine)
    dumps = ray.cloudpickle.dumps
    start, packages = pack(setup, dumps), [pack(task, dumps) for task in tasks]
    with _connect(ray, engine):
        resources = ActorResources(_count_cpus(ray.nodes(), engine.gpus), engine.gpus)
        setup_arguments = (pack(make_portable(runtime, resources.cpus)), start)
        pool = ActorPool(ray, resources, engine.jobs, setup_arguments, packages, Log(runtime.log))
        try:
            yield from pool.finished()
        finally:
            pool.kill_all()


def import_ray() -> Any:
    """Import Ray without its log lines of dead workers, which it prints to standard output, among the results."""
    skipping = "RAY_DEDUP_LOGS_SKIP_REGEX"
    if skipping in os.environ:
        return require("ray", "ray")
    os.environ[skipping] = "."  # Ray reads it when it is imported
    try:
        return require("ray", "ray")
    finally:
        del os.environ[skipping]


@contextmanager
def _connect(ray: Any, engine: Engine) -> Iterator[None]:
    """Connect to the given cluster, or start one on this machine that is shut down at the end of the block."""
    if ray.is_initialized():
        yield
        return
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # tips of some versions
            if engine.address:
                _check_address(engine.address)
                ray.init(engine.address, **quiet)
            else:
                _prepare_environment()
                cpus = engine.jobs or count_cores()
                with _keep_on_this_machine():
                    ray.init("local", num_cpus=cpus, object_store_memory=STORE, include_dashboard=False, **quiet)
    except (OSError, ImportError, RuntimeError, ValueError) as error:
        where = f"address={engine.address}" if engine.address else "a cluster of this machine"
        raise InputError(f"{where}: no connection to Ray ({format_one_line(error)})") from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Raise OSError if nothing listens at the address; Ray itself would retry for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


@contextmanager
def _keep_on_this_machine() -> Iterator[None]:
    """Start a cluster that listens on the loopback address and contacts nothing outside of this machine.

    Ray has no argument for either. By default it finds the address of the machine with a socket to a public name
    server; on Windows and macOS it uses the loopback address, which is enforced here. Its server of usage statistics,
    the only part of the dashboard that runs without ``include_dashboard``, queries the metadata services of three
    clouds, even with ``RAY_USAGE_STATS_ENABLED=0``. A version of Ray without these private names starts as it does by
    default.
    """
    constants, services = (import_module(f"ray._private.{name}") for name in ("ray_constants", "services"))
    with ExitStack() as stack:
        if hasattr(constants, "ENABLE_RAY_CLUSTER"):
            stack.enter_context(_set_attribute(constants, "ENABLE_RAY_CLUSTER", False))
            known = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER" in os.environ
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # the same for Ray's own processes
            if not known:
                stack.callback(os.environ.pop, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", None)
        if hasattr(services, "start_api_server"):  # what it returns where no such server could be started
            stack.enter_context(_set_attribute(services, "start_api_server", lambda *arguments, **named: (None, None)))
        yield


@contextmanager
def _set_attribute(module: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute inside the block."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def _prepare_environment() -> None:
    """Disable the usage statistics of a local cluster, and keep its token in this process instead of a file at home."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    at_home = (Path.home() / ".ray" / "auth_token").exists()
    if not at_home and not {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


@dataclass(frozen=True)
class ActorResources:
    """The CPUs and GPUs that an actor needs."""

    cpus: int
    gpus: float

    def __str__(self) -> str:
        return _format_resources({"CPU": self.cpus, "GPU": self.gpus})


def _format_resources(resources: Mapping[str, float]) -> str:
    """Format CPUs and GPUs for a message.

    >>> _format_resources({"CPU": 4.0, "GPU": 0.5, "memory": 1e9}), _format_resources({"CPU": 1.0})
    ('4 CPUs and 0.5 GPUs', '1 CPU and 0 GPUs')
    """
    numbers = [(resources.get(kind, 0.0), kind) for kind in ("CPU", "GPU")]
    return " and ".join(f"{number:g} {kind}{'' if number == 1 else 's'}" for number, kind in numbers)


def _list_resources(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, float]]:
    return [node["Resources"] for node in nodes if node["Alive"]]


def _count_cpus(nodes: Sequence[Mapping[str, Any]], gpus: float) -> int:
    """Count the CPUs of an actor: one; with a GPU, which decoding must keep busy, an equal share of its node's."""
    if not gpus:
        return 1
    counts = [(int(node.get("CPU", 0)), count_slots(node.get("GPU", 0), gpus)) for node in _list_resources(nodes)]
    return max(1, min((cpus // actors for cpus, actors in counts if actors), default=1))


def _count_actors(nodes: Sequence[Mapping[str, Any]], actor: ActorResources) -> int:
    """Count the actors that a cluster can schedule at a time."""
    by_cpus = [int(node.get("CPU", 0)) // actor.cpus for node in _list_resources(nodes)]
    if not actor.gpus:
        return sum(by_cpus)
    by_gpus = [count_slots(node.get("GPU", 0), actor.gpus) for node in _list_resources(nodes)]
    return sum(map(min, by_cpus, by_gpus))


def _make_actor_class(ray: Any) -> Any:
    """Make the class of the actors.

    It is local, so that it is pickled by value for nodes with no captious, or another version. Messages are bytes, so
    that a Ray client server without captious can pass them on.
    """

    class Actor:
        def connect(self, path: list[str], gpus: float) -> tuple[str, str | None]:
            """Return the node's address and its version of captious."""
            if not gpus:  # in some versions of Ray every actor sees all GPUs
                os.environ["CUDA_VISIBLE_DEVICES"] = ""
            sys.path += [entry for entry in path if entry not in sys.path]
            node = import_module("ray").util.get_node_ip_address()
            try:
                return node, import_module("captious._version").__version__
            except ImportError:
                return node, None

        def start(self, runtime: bytes, setup: bytes) -> bytes:
            self.worker = import_module("captious.engines._worker").Worker(pickle.loads(runtime))
            return pickle.dumps(self.worker.start(setup))

        def run(self, task: bytes) -> bytes:
            return pickle.dumps(self.worker.run(task))

    return ray.remote(Actor)


@dataclass
class PoolActor:
    """The handle of an actor, and the method that was called last."""

    handle: Any
    method: Literal["connect", "start", "run"]
    task: int = -1


class ActorPool:
    """The actors of a run, with the task of each, and the queue of tasks.

    An actor is created, connects (it reports its node and its version of captious), starts (it runs the setup), and
    then runs tasks one after another. The task of an actor that dies is given to another.
    """

    def __init__(
        self,
        ray: Any,
        resources: ActorResources,
        jobs: int,
        setup: tuple[bytes, bytes],
        tasks: Sequence[bytes],
        log: Log,
    ) -> None:
        self.ray, self.resources, self.jobs, self.setup, self.tasks, self.log = ray, resources, jobs, setup, tasks, log
        options = {"num_cpus": resources.cpus, "num_gpus": resources.gpus, "scheduling_strategy": "SPREAD"}
        self.actor_class = _make_actor_class(ray).options(max_restarts=0, max_task_retries=0, **options)
        errors = ray.exceptions
        self.actor_errors = (
            errors.RayActorError,
            errors.WorkerCrashedError,
            errors.OutOfMemoryError,
            errors.NodeDiedError,
            errors.ObjectLostError,  # a large result on a node that is lost
        )
        self.path = [str(Path(entry).resolve()) for entry in sys.path]
        # Actors by the object reference of the result that is awaited.
        self.pending: dict[Any, PoolActor] = {}
        self.idle: list[PoolActor] = []
        self.queue = deque(range(len(tasks)))
        # The reasons for the deaths of actors that had a task.
        self.deaths: dict[int, tuple[str, ...]] = {}
        self.unfinished = len(tasks)
        # Actors that died while they started, since one did start.
        self.failed_starts = 0
        # When an actor was last known to be scheduled.
        self.last_scheduled = time.monotonic()
        self.next_look = self.next_creation = 0.0
        # Actors that the pool should have.
        self.wanted = 0

    def finished(self) -> Iterator[Finished[Any]]:
        """Yield the ends of all tasks."""
        while self.unfinished:
            self._create_actors()
            self._submit_tasks()
            ready = self._wait()
            self._check_scheduled()
            for reference in ready:
                yield from self._handle(self.pending.pop(reference), reference)

    def kill_all(self) -> None:
        """Kill all actors, also during a task."""
        for actor in [*self.pending.values(), *self.idle]:
            self.ray.kill(actor.handle)

    def _create_actors(self) -> None:
        """Create as many actors as there is work for; Ray schedules them when there are resources."""
        now = time.monotonic()
        if now >= self.next_look:
            self.next_look = now + LOOK
            self.wanted = self.jobs or max(1, _count_actors(self.ray.nodes(), self.resources))
        while now >= self.next_creation and len(self.pending) + len(self.idle) < min(self.wanted, self.unfinished):
            handle = self.actor_class.remote()
            self.pending[handle.connect.remote(self.path, self.resources.gpus)] = PoolActor(handle, "connect")

    def _submit_tasks(self) -> None:
        while self.idle and self.queue:
            actor = self.idle.pop()
            actor.method, actor.task = "run", self.queue.popleft()
            self.pending[actor.handle.run.remote(self.tasks[actor.task])] = actor

    def _wait(self) -> list[Any]:
        """Wait up to ``LOOK`` seconds for the next result; return its reference in a list, or an empty list."""
        if not self.pending:  # a pause after deaths
            time.sleep(LOOK)
            return []
        ready: list[Any] = self.ray.wait(list(self.pending), num_returns=1, timeout=LOOK)[0]
        return ready

    def _check_scheduled(self) -> None:
        """Raise InputError if no actor could be scheduled in ``PATIENCE`` seconds."""
        if self.idle or any(actor.method != "connect" for actor in self.pending.values()):
            self.last_scheduled = time.monotonic()
        elif time.monotonic() - self.last_scheduled > PATIENCE:
            raise InputError(
                f"no Ray actor could be scheduled in {PATIENCE:g} s: each needs {self.resources}; the cluster has"
                f" {_format_resources(self.ray.cluster_resources())}, available are "
                f"{_format_resources(self.ray.available_resources())}"
            )

    def _handle(self, actor: PoolActor, reference: Any) -> Iterator[Finished[Any]]:
        """Handle the result of an actor, or the error that it died of."""
        try:
            message = self.ray.get(reference)
        except self.actor_errors as error:
            yield from self._requeue(actor, _describe_death(error))
            return
        if actor.method == "connect":
            self._start(actor, *message)
            return
        answer: Answer = pickle.loads(message)
        self.log.show(answer.log)
        answer.raise_bug()
        self.idle.append(actor)
        if actor.method == "start":
            if answer.error:
                raise InputError(answer.error)
            self.failed_starts = 0
        else:
            self.unfinished -= 1
            yield Finished(actor.task, answer.result, answer.error, self.deaths.get(actor.task, ()))

    def _start(self, actor: PoolActor, node: str, version: str | None) -> None:
        """Start a scheduled actor's setup; raise InputError if its version of captious differs."""
        if version != __version__:
            found = f"has captious {version}" if version else "has no captious"
            raise InputError(f"Ray node {node}: {found}, expected captious {__version__} as here")
        actor.method = "start"
        self.pending[actor.handle.start.remote(*self.setup)] = actor

    def _requeue(self, actor: PoolActor, cause: str) -> Iterator[Finished[Any]]:
        """Put the task of a dead actor back into the queue; after several deaths its outcome is an error."""
        self.ray.kill(actor.handle)  # where it is only out of reach
        if actor.method == "run":
            before = self.deaths.get(actor.task, ())
            self.deaths[actor.task] = (*before, cause)
            if len(before) + 1 < ATTEMPTS:
                self.queue.appendleft(actor.task)
            else:
                self.unfinished -= 1
                yield Finished(actor.task, error=f"the process that worked on it died {ATTEMPTS} times ({cause})")
            return
        self.failed_starts += 1
        if self.failed_starts >= ATTEMPTS:
            if not self.idle and all(other.method != "run" for other in self.pending.values()):
                raise InputError(f"{ATTEMPTS} Ray actors died while they started ({cause})")
            self.next_creation = time.monotonic() + PAUSE


def _describe_death(error: Exception) -> str:
    """Summarize Ray's long message about why an actor died."""
    text = str(error)
    if "low on memory" in text:
        return "out of memory"
    return "its node was lost" if "node has died" in text else "killed, crashed or out of memory"
