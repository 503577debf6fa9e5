"""The store under several processes, a kill at any moment, and a full disk."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from captious.models.segments import FeatureSpace, as_keys, hash_content
from captious.models.store import Store, list_stores

SPACE = FeatureSpace("tiny", "0123456789ab", "texts", (4,))


def keys(*names):
    return as_keys(hash_content(str(name).encode()) for name in names)


def rows(*names):
    """What `WRITER` puts under the names."""
    row = [np.frombuffer(hash_content(b"row" + str(name).encode()), np.uint8)[:4] for name in names]
    return np.stack(row).astype(np.float32)


def opened(root, **options):
    store = Store(SPACE, root, **options)
    store.refresh()
    return store


WRITER = """
import sys, time
from pathlib import Path
import numpy as np
from captious.models import store as stores
from captious.models.store import Store
from captious.models.segments import FeatureSpace, as_keys, hash_content
stores.FLUSH_BYTES = 1
space = FeatureSpace("tiny", "0123456789ab", "texts", (4,))
store = Store(space, Path(sys.argv[1]))
store.refresh()
for name in range(int(sys.argv[2]), int(sys.argv[3])):
    key, row = hash_content(str(name).encode()), np.frombuffer(hash_content(b"row" + str(name).encode()), np.uint8)[:4]
    store.put(as_keys([key]), row[None].astype(np.float32), np.array([len(str(name))], np.int32))
    print(name, flush=True)
    if name % 10 == 9:
        store.settle()
store.settle()
"""


def writer(root, start, stop, **options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", WRITER, str(root), str(start), str(stop)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **options)


def test_two_processes_write_and_merge_at_once_while_a_third_reads(tmp_path):
    processes = [writer(tmp_path, 0, 120), writer(tmp_path, 60, 180)]
    reader = Store(SPACE, tmp_path, log=lambda line: pytest.fail(line))
    seen = 0
    while any(process.poll() is None for process in processes):
        reader.refresh()
        found, _, here = reader.gather(keys(*range(180)))
        assert (found[here] == rows(*range(180))[here]).all()
        assert here.sum() >= seen  # nothing that was there goes missing while segments are merged
        seen = here.sum()
        time.sleep(0.01)
    assert [process.returncode for process in processes] == [0, 0]
    assert opened(tmp_path).gather(keys(*range(180)))[2].all()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_kill_at_any_moment_damages_nothing(tmp_path):
    chance = random.Random(7)
    for _ in range(3):
        process = writer(tmp_path, 0, 10_000)
        assert process.stdout.readline() == "0\n"
        time.sleep(chance.uniform(0, 0.15))
        process.kill()
        promised = [0, *map(int, process.stdout.read().splitlines()[:-1])]
        process.wait()
        store = opened(tmp_path, log=lambda line: pytest.fail(line))
        found, _, here = store.gather(keys(*range(10_000)))
        assert here[promised].all()  # what a process was told is written, is
        assert (found[here] == rows(*range(10_000))[here]).all()
    (info,) = list_stores(tmp_path, check=True)
    assert info.rows > 1 and not info.damaged


FULL = """
import resource, sys
from pathlib import Path
import numpy as np
from captious.models.store import Store
from captious.models.segments import FeatureSpace, as_keys, hash_content
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
lines = []
store = Store(FeatureSpace("tiny", "0123456789ab", "texts", (4,)), Path(sys.argv[1]), lines.append)
keys = as_keys(hash_content(str(name).encode()) for name in range(5000))
store.put(keys, np.ones((5000, 4), np.float32))
store.settle()
assert store.gather(keys)[2].all()
print(lines[0])
"""


def test_a_full_disk_is_said_and_leaves_nothing_behind(tmp_path):
    pytest.importorskip("resource")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "going on without it" in done.stdout
    assert not [path for path in Path(tmp_path).rglob("*") if path.is_file()]
