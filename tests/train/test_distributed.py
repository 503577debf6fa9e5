"""Two real processes by torchrun on the CPU against one with twice the batch; and signals."""

import json
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from captious.options import Runtime
from captious.train import _loop as log
from captious.train.run import train
from captious.train.training_options import ClipOptions, LongClipOptions, Settings, SpecsOptions, Training, UmicOptions

SCRIPT = """
import pickle, sys
import torch
from captious.options import Runtime
from captious.train.run import train
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
runtime = Runtime(device="cpu", workers=1, log=lambda line: print(line, flush=True))
for job in pickle.load(open(sys.argv[1], "rb")):
    done = train(*job, runtime)
    # One write: two processes print into one pipe.
    sys.stdout.write(f"finished {done.finished} {done.steps}\\n")
    sys.stdout.flush()
torch.distributed.destroy_process_group()
"""
CPU = Runtime(device="cpu", workers=1)
OBJECTIVES = {
    "longclip": LongClipOptions(components=3, smoothing=0.1, logit_scale=None),
    "specs": SpecsOptions(),
    "clip": ClipOptions(),
}


def job(objective, out, data, base, batch, **more):
    settings = Settings(1, batch, 2, 1e-3, warmup_steps=1)
    training = Training(out, str(data / "train.jsonl"), str(base), images=data / "images", **more)
    return training, OBJECTIVES[objective], settings


def stopping(out, data, base):
    """A training that gets no better."""
    training = Training(out, str(data / "short.jsonl"), validate=str(data / "short-val.jsonl"), images=data / "images")
    options = UmicOptions("fusion(width=16)", str(base), early_stop=1)
    return training, options, replace(UmicOptions.published, epochs=9, batch_size=20, lr=1e-30)


@pytest.fixture(scope="module")
def both(data, base, tmp_path_factory):
    """The same trainings by one process, and by two with half the batch; and what the two said."""
    folder = tmp_path_factory.mktemp("processes")
    for name in OBJECTIVES:
        train(*job(name, folder / f"one-{name}", data, base, 12), CPU)
    jobs = [job(name, folder / f"two-{name}", data, base, 6) for name in OBJECTIVES]
    jobs.append(stopping(folder / "umic", data, base))
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


def test_early_stopping_is_no_failure_in_any_of_two_processes(both):
    assert both[1].count("no better validation in the last 1: stopped after step 1 of 9") == 1
    assert both[1].count("finished True 1") == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_after_the_step_with_a_checkpoint(data, base, tmp_path, number):
    before = signal.getsignal(number)

    def interrupt(what, done, total):
        if what == "steps" and done == 1:
            os.kill(os.getpid(), number)

    stopped = train(*job("specs", tmp_path / "out", data, base, 6), replace(CPU, progress=interrupt))
    assert (stopped.finished, stopped.steps, stopped.of) == (False, 1, 3)
    assert json.loads((tmp_path / "out" / "checkpoints" / "last" / "training.json").read_text())["step"] == 1
    assert (tmp_path / "out" / "model.safetensors").is_file()
    assert signal.getsignal(number) is before
    assert train(*job("specs", tmp_path / "out", data, base, 6, resume=True), CPU).finished
