"""Two real processes by torchrun on the CPU against one with twice the batch; and signals."""

import os
import pickle
import signal
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from captious.train import loop as log
from captious.train.run import Choices, Job, train
from captious.train.schedule import Settings

SCRIPT = """
import pickle, sys
import torch
from captious.train import loop as processes
from captious.train.run import train
torch.set_num_threads(1)
with processes.together("cpu"):
    for job in pickle.load(open(sys.argv[1], "rb")):
        train(job, say=lambda line: print(line, flush=True))
"""


def job(objective, out, data, base, batch, **more):
    settings = Settings(epochs=1, batch=batch, accumulate=2, lr=1e-3, warmup=1, gather=True, device="cpu", workers=1)
    return Job(objective, str(data / "train.jsonl"), out, settings, data / "images", str(base), **more)


@pytest.fixture(scope="module")
def both(data, base, tmp_path_factory):
    """The same trainings by one process, and by two with half the batch; and what the two said."""
    folder = tmp_path_factory.mktemp("processes")
    choices = {"longclip": Choices(components=3, smoothing=0.1), "specs": Choices(), "clip": Choices()}
    for name, chosen in choices.items():
        train(job(name, folder / f"one-{name}", data, base, 12, choices=chosen))
    jobs = [job(name, folder / f"two-{name}", data, base, 6, choices=chosen) for name, chosen in choices.items()]
    (folder / "jobs.pickle").write_bytes(pickle.dumps(jobs))
    (folder / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, folder / "train.py", folder / "jobs.pickle"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, done.stdout


@pytest.mark.parametrize("objective", ["clip", "longclip", "specs"])
def test_two_processes_equal_one_with_twice_the_batch(both, objective):
    folder, _ = both
    one, two = (load_file(folder / f"{name}-{objective}" / "model.safetensors") for name in ("one", "two"))
    for key, value in one.items():  # softmax does not see biases of keys: their gradient is rounding
        assert key.endswith("k_proj.bias") or torch.allclose(value, two[key], atol=5e-5), key
    first, second = (log.read(folder / f"{name}-{objective}") for name in ("one", "two"))
    assert [row["step"] for row in first] == [row["step"] for row in second] == [1, 2]
    for row, other in zip(first, second, strict=True):
        assert row["norm"] == pytest.approx(other["norm"], rel=1e-3)


def test_one_process_speaks_for_all(both):
    assert both[1].count("images kept in memory") == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_after_the_step_with_a_checkpoint(data, base, tmp_path, number):
    before = signal.getsignal(number)

    def interrupt(what, done, total):
        if what == "steps" and done == 1:
            os.kill(os.getpid(), number)

    stopped = train(job("specs", tmp_path / "out", data, base, 6), report=interrupt)
    assert (stopped.finished, stopped.steps, stopped.of) == (False, 1, 3)
    assert torch.load(tmp_path / "out" / "checkpoints" / "last.pt", weights_only=True)["step"] == 1
    assert (tmp_path / "out" / "model.safetensors").is_file()
    assert signal.getsignal(number) is before
    assert train(job("specs", tmp_path / "out", data, base, 6, resume=True)).finished
