"""SIGKILL at seeded moments: what was there stays whole, the next run goes on, and nothing is left behind."""

import json
import os
import random
import signal
import subprocess
import sys
from importlib import import_module

import pytest
from tests.fuzz.cases import SLOTS

SEED, FEW, MANY = 11, 3, 40


def children(task, folder, *arguments):
    """Run a task of this file in a process of its own, from which killed children fork; gives what it prints."""
    environment = {**os.environ, "CAPTIOUS_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.fuzz.test_kills", task, str(folder), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


SCORING = ("pandas", "captious.runs.report", "captious.render.html", "captious.render.terminal", "captious._evaluate")


def load(*modules):
    """Import what the children need once, before they fork."""
    for module in ("captious.cli.app", "rich.progress", *modules):
        import_module(module)


def moments(total, number):
    """Different moments of a run, the same under the same seed."""
    return sorted(random.Random(SEED).sample(range(1, total + 1), min(number, total)))


TASKS = ("out", "store", "runs", "training", "studio", "replies")
FEWER = {"training": 2, "replies": 10}


@pytest.mark.parametrize("task", TASKS)
def test_a_few_kills(task, tmp_path):
    if task == "studio":
        pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed: pip install 'captious[studio]'")
    report = children(task, tmp_path, FEWER.get(task, FEW))
    assert report["killed"] == min(FEWER.get(task, FEW), report["moments"]) and report["faults"] == []


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_many_kills(task, tmp_path):
    report = children(task, tmp_path, 10 if task == "training" else MANY)
    assert report["faults"] == []


def out(folder, number):
    """``score --out --overwrite``: a whole run is there after every kill, and drafts are gone after the next run."""
    load(*SCORING, "captious.metrics.bleu", "captious.metrics.cider", "captious.metrics.rouge")
    from tests.fuzz.kills import leftovers, run_killed

    from captious._core.files import sweep

    place, target = folder / "here", folder / "here" / "run"
    place.mkdir()
    files = [SLOTS[name].right(folder, name) for name in ("predictions", "references")]
    command = ("score", files[0], "--references", files[1], "--samples", 20, "--out", target, "--overwrite")
    code, total = run_killed(command, place, 0)
    assert code == 0
    code, total = run_killed(command, place, 0)  # the second replaces the first
    whole, faults, killed = sorted(path.name for path in target.iterdir()), [], 0
    for moment in moments(total, number):
        code, _ = run_killed(command, place, moment)
        killed += code == -9
        sweep(target)
        names = sorted(path.name for path in target.iterdir()) if target.is_dir() else "nothing"
        if names != whole or not (target / "report.html").read_text().rstrip().endswith("</html>"):
            faults.append(f"moment {moment}: {names}")
    assert run_killed(command, place, 0)[0] == 0
    return {"moments": total, "killed": killed, "faults": faults + leftovers(place)}


def store(folder, number):
    """Features in the cache: after a kill the next run has the same scores, and no file of the cache is damaged."""
    load(*SCORING, "captious.metrics.clip.clipscore", "captious.models.mini", "captious.models.decoding")
    from tests.fuzz.kills import leftovers, run_killed

    from captious.models import store as stores

    stores.SETTLED_SECONDS = -1e9  # images are remembered by their paths in every run, however soon it comes
    images, predictions = SLOTS["images"].right(folder, "images"), SLOTS["predictions"].right(folder, "predictions")
    metric = ("--metrics", "clipscore(weights=captious-mini)", "--samples", 0, "--overwrite")
    command = ("score", predictions, "--images", images, *metric, "--out")
    assert run_killed((*command, folder / "right", "--no-cache"), folder / "home", 0)[0] == 0
    right, faults, killed = _scores(folder / "right"), [], 0
    clear = ("cache", "prune", "--all")
    for before in ((*command, folder / "run"), clear):
        assert run_killed(before, folder / "nowhere", 0)[0] == 0
    total = run_killed((*command, folder / "run"), folder / "home", 0)[1]
    for moment in moments(total, number):
        assert run_killed(clear, folder / "nowhere", 0)[0] == 0
        code, _ = run_killed((*command, folder / "run"), folder / "home", moment)
        killed += code == -9
        code, _ = run_killed((*command, folder / "run"), folder / "home", 0)
        if code != 0 or _scores(folder / "run") != right:
            faults.append(f"moment {moment}: exit code {code}, or other scores")
    from captious.models.store import list_stores

    faults += [f"damaged: {name}" for info in list_stores(folder / "home" / "features", True) for name in info.damaged]
    return {"moments": total, "killed": killed, "faults": faults + leftovers(folder / "run")}


def _scores(run):
    return (run / "items.csv").read_text()


def runs(folder, number):
    """Finished runs of an audit: after a kill the next one takes them up and comes to the same numbers."""
    load("captious.bias.audit", "captious.bias.classifiers.linear", "captious.render.html", "captious.engines.tasks")
    from tests.fuzz.kills import leftovers, run_killed

    labeled, kept = SLOTS["labeled"].right(folder, "labeled"), folder / "kept"
    command = ("bias", "lic", labeled, "--label", "gender", "--seeds", 3, "--overwrite")
    assert run_killed((*command, "--no-cache", "--out", folder / "right"), kept, 0)[0] == 0
    total = run_killed((*command, "--work", folder / "counted", "--out", folder / "run"), folder / "counted", 0)[1]
    faults, killed = [], 0
    for moment in moments(total, number):
        work = folder / f"kept-{moment}"
        resumed = (*command, "--work", work, "--out", folder / "run")
        code, _ = run_killed(resumed, work, moment)
        killed += code == -9
        code, _ = run_killed(resumed, work, 0)
        if code != 0 or _results(folder / "run") != _results(folder / "right"):
            faults.append(f"moment {moment}: exit code {code}, or other numbers")
        faults += leftovers(work)
    return {"moments": total, "killed": killed, "faults": faults}


def studio(folder, number):
    """Answers of a study: two processes store and confirm them, one is killed; what was confirmed is there."""
    load("captious.studio.collect.verify", "numpy.random")
    from tests.studio.logs import make_plan, make_tasks

    from captious.studio.collect.log import StudyLog
    from captious.studio.collect.verify import verify

    database, faults, confirmed = folder / "study.db", [], set()
    log = StudyLog.open(database)
    log.begin(make_plan(folder, overlap=3, per_rater=10_000), make_tasks(2000))
    raters = [rater.id for rater in log.add_raters([str(index) for index in range(2 * number)])]
    log.close()
    for moment in moments(60, number):
        pair = [_answering(database, raters.pop()), _answering(database, raters.pop())]
        lines = [next(pair[0][1]) for _ in range(moment)]
        for pid, stream in pair:  # the second dies while it waits for the first, or the other way round
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            lines += [line for line in stream if line.endswith("\n")]
        confirmed |= {line.strip() for line in lines}
        log = StudyLog.open(database)
        missing = confirmed - {event.key for event in log.events() if event.kind == "answered"}
        faults += [f"moment {moment}: {len(missing)} answers are missing"] if missing else []
        faults += [f"moment {moment}: {problem}" for problem in verify(log).problems]
        log.close()
    return {"moments": 60, "killed": number, "faults": faults}


def _answering(database, rater):
    """A process that answers page after page, and its confirmations, one key a line."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        from tests.studio.logs import answer

        from captious.studio.collect.log import StudyLog

        try:
            log = StudyLog.open(database)
            while page := log.next_page(rater):
                key = f"{rater}/{page.task.id}"
                answer(log, rater, page, key, now=None)
                os.write(writing, f"{key}\n".encode())
        finally:
            os._exit(1)
    os.close(writing)
    return child, os.fdopen(reading)


def replies(folder, number):
    """Replies of chat models: two processes ask and count them, both are killed; what was counted is stored."""
    load("tests.models.chat.stub", "captious.models.chat.judge")
    import sqlite3

    path, faults = folder / "replies.db", []
    for moment in moments(40, number):
        names = [f"{moment}-{side}" for side in range(2)]
        pair = [_asking(path, name) for name in names]
        counts = [[next(stream) for _ in range(moment)] for _, stream in pair]
        for (pid, stream), lines in zip(pair, counts, strict=True):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            lines += [line for line in stream if line.endswith("\n")]
        with sqlite3.connect(path) as store:
            stored = dict(store.execute("SELECT model, count(*) FROM reply GROUP BY model").fetchall())
            (whole,) = store.execute("PRAGMA integrity_check").fetchone()
        store.close()
        faults += [] if whole == "ok" else [f"moment {moment}: {whole}"]
        for name, lines in zip(names, counts, strict=True):
            if stored.get(name, 0) < int(lines[-1]):
                faults.append(f"moment {moment}: {lines[-1].strip()} counted, {stored.get(name, 0)} stored")
    return {"moments": 40, "killed": number, "faults": faults}


def _asking(path, name):
    """A process that asks question after question, and a line with the number of replies whenever it counts more."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        from tests.models.chat.stub import StubModel

        from captious.models.chat.judge import Judge
        from captious.models.chat.messages import Request, Turn
        from captious.models.chat.replies import ReplyStore
        from captious.options import Runtime, using

        def count(what, done, total):
            if done:
                os.write(writing, f"{done}\n".encode())

        try:
            judge = Judge(name, lambda: StubModel(lambda body: "8"), ReplyStore(path))
            with using(Runtime(progress=count)):
                judge.ask([Request((Turn("user", str(index)),)) for index in range(5000)])
        finally:
            os._exit(1)
    os.close(writing)
    return child, os.fdopen(reading)


def _results(run):
    return json.loads((run / "captious-output.json").read_text())["results"]


def training(folder, number):
    """A training: after a kill it resumes from its last checkpoint to the same weights."""
    load("accelerate", "transformers.models.clip.modeling_clip", "captious.train.run", "captious.models.clip")
    from tests.fuzz.kills import leftovers, run_killed

    data, images = SLOTS["training"].right(folder, "training"), SLOTS["images"].right(folder, "images")
    how = ("--epochs", 2, "--batch-size", 4, "--save-every", 1, "--device", "cpu", "--base", "captious-mini")
    command = ("train", "clip", data, "--images", images, *how, "--out")
    assert run_killed((*command, folder / "right"), folder / "nowhere", 0)[0] == 0
    total = run_killed((*command, folder / "counted"), folder / "counted", 0)[1]
    faults, killed = [], 0
    for moment in moments(total, number):
        model = folder / f"model-{moment}"
        code, _ = run_killed((*command, model), model, moment)
        killed += code == -9
        code, _ = run_killed((*command, model, "--resume"), model, 0)
        if code == 2:  # killed before the first checkpoint
            code, _ = run_killed((*command, model, "--overwrite"), model, 0)
        same = [(place / "model.safetensors").read_bytes() for place in (model, folder / "right") if code == 0]
        if code != 0 or same[0] != same[1]:
            faults.append(f"moment {moment}: exit code {code}, or other weights")
        faults += leftovers(model)
    return {"moments": total, "killed": killed, "faults": faults}


if __name__ == "__main__":
    from pathlib import Path

    report = globals()[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(json.dumps(report) + "\n")
