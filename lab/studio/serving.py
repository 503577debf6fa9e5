"""A study on disk and `captious studio serve` processes for it: start, wait until it answers, kill, start again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from lab.postgres import free_port

# How long a start or a stop may take on a busy machine.
SECONDS = 60
WORDS = (
    "dog",
    "cat",
    "man",
    "woman",
    "runs",
    "sits",
    "on",
    "in",
    "park",
    "red",
    "blue",
    "small",
    "grass",
    "ball",
    "near",
)


def write_study(folder: Path, tasks: int, systems: int = 1, **values: object) -> Path:
    """A ``study.toml`` of ratings or pairs with its captions and images; further keys of the plan as arguments."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(5)
    names = [f"im{number:06d}" for number in range(tasks)]
    _write_images(folder / "photos", names)
    for system in range(systems):
        with (folder / f"system{system}.jsonl").open("w") as file:
            for name in names:
                caption = f"{' '.join(rng.choices(WORDS, k=9))} {system}"  # no two systems say the same
                print(json.dumps({"id": name, "image": f"{name}.jpg", "caption": caption}), file=file)
    plan = {
        "title": "Load",
        "kind": "ratings",
        "captions": [f"system{system}.jsonl" for system in range(systems)],
        "images": "photos",
        "overlap": 3,
        "per_rater": tasks,
        **values,
    }
    if plan["kind"] == "ratings":
        plan["together"] = systems
    lines = [f"{name} = {json.dumps(value)}" for name, value in plan.items()]
    if plan["kind"] == "ratings":
        lines += ["[[aspects]]", 'name = "overall"', 'question = "How good is the caption?"', "scale = [1, 5]"]
    path = folder / "study.toml"
    path.write_text("\n".join([*lines, ""]))
    return path


def _write_images(folder: Path, names: Sequence[str]) -> None:
    """Photographs of 60 to 90 KB, as COCO's; a few files under many names."""
    import numpy as np
    from PIL import Image

    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(5)
    for number, name in enumerate(names):
        if number < 8:
            noise = rng.integers(0, 256, (60, 80, 3), dtype=np.uint8)
            Image.fromarray(noise).resize((640, 480)).save(folder / f"{name}.jpg", quality=95)
        else:
            os.link(folder / f"{names[number % 8]}.jpg", folder / f"{name}.jpg")


def captious(*arguments: object) -> str:
    """Run a command to its end; gives what it prints."""
    command = [sys.executable, "-m", "captious", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[2:])} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def invite(study: Path, raters: int, database: str) -> list[str]:
    """Paths of new personal links, ``/r/<token>``; the study has begun."""
    from captious.studio.collect.log import open_study
    from captious.studio.collect.sessions import invite

    _, log = open_study(study, database)
    links = invite(log, raters, "")
    log.close()
    return [link for _, link in links]


class Server:
    """One `captious studio serve` process on a port of the loopback. ``with Server(study, database) as server: ...``"""

    def __init__(self, study: Path, database: str) -> None:
        """Start it; returns when it answers."""
        self.study, self.database, self.port = study, database, free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.log = study.parent / f"server-{self.port}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def __enter__(self) -> Server:
        """This server."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop it."""
        self.stop()

    def start(self) -> float:
        """Start on the port of before; gives the seconds until it answers."""
        started = self.spawn()
        while not self.answers():
            assert self.process is not None
            if self.process.poll() is not None or time.perf_counter() - started > SECONDS:
                raise RuntimeError(f"the server did not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.02)
        return time.perf_counter() - started

    def spawn(self) -> float:
        """Start without waiting; gives the moment."""
        command = ["studio", "serve", self.study, "--port", self.port, "--db", self.database]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "captious", *map(str, command)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return time.perf_counter()

    def answers(self) -> bool:
        """Whether ``/health`` says that answers can be saved."""
        try:
            with urllib.request.urlopen(f"{self.address}/health", timeout=SECONDS) as response:
                return bool(response.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def kill(self) -> None:
        """SIGKILL, as when the machine's memory runs out."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(SECONDS)

    def stop(self) -> None:
        """Stop as Ctrl-C does."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def memory(self) -> float:
        """Resident memory now, in MB."""
        assert self.process is not None
        for line in Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return float("nan")

    def cpu(self) -> float:
        """Seconds of processor time that it has used."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        user, system = fields[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
