"""Pearmut, a peer: a campaign of captions with a list of tasks a rater, rated over HTTP at the same pace."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.postgres import free_port
from lab.studio.browser import Broken, Browser
from lab.studio.raters import Tally
from lab.studio.serving import SECONDS, WORDS

SYSTEMS = [f"system {letter}" for letter in "ABCD"]


def campaign(raters: int, tasks: int) -> dict[str, object]:
    """Four captions a task, one score each; every rater has so many tasks of the own list."""
    rng = random.Random(5)

    def caption() -> str:
        return " ".join(rng.choices(WORDS, k=10))

    lists = [[[{"src": caption(), "tgt": {name: caption() for name in SYSTEMS}}] for _ in range(tasks)]] * raters
    info = {"assignment": "task-based", "protocol": "DA", "users": [f"rater{number}" for number in range(raters)]}
    return {"campaign_id": "load", "info": info, "data": lists}


@contextmanager
def served(folder: Path, python: Path, raters: int, tasks: int) -> Iterator[str]:
    """Add the campaign and serve it on the loopback (its own command listens on every interface)."""
    (folder / "load.json").write_text(json.dumps(campaign(raters, tasks)))
    environment = {**os.environ, "PEARMUT_ROOT": str(folder)}
    environment.pop("PYTHONPATH", None)
    subprocess.run(
        [python.parent / "pearmut", "add", "load.json"], cwd=folder, env=environment, check=True, capture_output=True
    )
    port = free_port()
    command = [str(python), "-m", "uvicorn", "pearmut.app:app", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--log-level", "warning"], cwd=folder, env=environment, stdout=log, stderr=log
        )
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + SECONDS
        while not _answers(address):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((folder / "log").read_text()[-2000:])
            time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        process.wait(SECONDS)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/", timeout=SECONDS):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


async def work(address: str, number: int, tally: Tally, enough: Callable[[], bool], pause: float) -> None:
    """One rater: next item, pause, answer, as the page's script asks and sends."""
    browser, rng = Browser(address), random.Random(number)
    identity = {"campaign_id": "load", "user_id": f"rater{number}"}
    item = 0
    try:
        while not enough():
            following = await browser.send("/get-next-item", identity)
            tally.seconds["next"].append(following.seconds)
            await asyncio.sleep(pause * rng.uniform(0.6, 1.4))
            now = time.time()
            payload = {
                "annotations": [{name: {"score": rng.randrange(100)} for name in SYSTEMS}],
                "actions": [{"time": now - pause, "action": "load"}, {"time": now, "action": "submit"}],
                "item": json.loads(following.body).get("payload"),
            }
            answer = await browser.send("/log-response", {**identity, "item_i": item, "payload": payload})
            tally.seconds["answer"].append(answer.seconds)
            item += 1
            if following.status != 200 or answer.status != 200:
                tally.errors.append(f"{following.status} {answer.status} {answer.text[:200]}")
                return
    except Broken as error:
        tally.errors.append(str(error))
    finally:
        await browser.close()
