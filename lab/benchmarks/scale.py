"""Shards: throughput of the executors, kills in mid-run, and CLIPScore from tars on a GPU.

    python lab/benchmarks/scale.py throughput [--items 1000000] [--shards 20]
    python lab/benchmarks/scale.py kills [--times 10]             # of an actor, of a node, of the driver
    python lab/benchmarks/scale.py tars [--items 20000]           # on a GPU; makes its own tars

Captions are made: ten words each whose frequencies follow Zipf's law, with a reference that shares half of them.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from encoder_parts import captions as made_captions
from encoder_parts import make_picture, model, tokenizer
from measure import table

import captious
from captious.options import Engine, Resampling, Runtime
from captious.runs import Run
from captious.runs.shards.scoring import score_shards

METRICS = "bleu,cider"


def write_captions(folder: Path, items: int, shards: int) -> str:
    """Parquet shards of generated captions; gives the pattern."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(1)
    letters = [*"abcdefghijklmnopqrstuvwxyz"]
    words = np.array([f"{a}{b}{c}{d}" for a in "bcdfgkmnprst" for b in "aeiou" for c in letters for d in letters])[
        :30_000
    ]
    share = 1 / np.arange(10, len(words) + 10)
    share /= share.sum()
    for shard, part in enumerate(np.array_split(np.arange(items), shards)):
        ours = words[chance.choice(len(words), (len(part), 10), p=share)]
        other = words[chance.choice(len(words), (len(part), 10), p=share)]
        theirs = np.where(chance.random(ours.shape) < 0.5, ours, other)
        columns = {
            "id": [str(key) for key in part],
            "caption": [" ".join(row) for row in ours],
            "references": [[" ".join(row)] for row in theirs],
        }
        pq.write_table(pa.table(columns), folder / f"{shard:03d}.parquet")
    return str(folder / f"{{000..{shards - 1:03d}}}.parquet")


def throughput(args: argparse.Namespace) -> None:
    """Seconds and items per second of each executor, both passes and the report included."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = write_captions(folder / "in", args.items, args.shards)
        rows = [["executor", "seconds", "items/s", "of serial", "the same values"]]
        first: dict[str, Any] = {}
        for executor in args.executors.split(","):
            out = folder / executor
            start = time.perf_counter()
            score_shards(source, METRICS, out=out, resampling=Resampling(0), engine=Engine(executor, jobs=args.jobs))
            seconds = time.perf_counter() - start
            content = values_of(out)
            first = first or {"seconds": seconds, "content": content}
            ratio, same = first["seconds"] / seconds, "yes" if content == first["content"] else "NO"
            rows.append([executor, f"{seconds:.1f}", f"{args.items / seconds:,.0f}", f"{ratio:.2f} ×", same])
            print(rows[-1], flush=True)
        print(f"\n{args.items:,} captions in {args.shards} shards, {METRICS} (two passes), {args.jobs} workers\n")
        print(table(rows))


def values_of(folder: Path) -> tuple[int, ...]:
    """Of every shard a hash of all ids and values; the sums of the metrics come with it."""
    hashes = []
    for path in sorted((folder / "items").glob("*.parquet")):
        content = pq.read_table(path)
        columns = [column.combine_chunks().buffers() for column in content.drop_columns(["candidates"]).itercolumns()]
        hashes.append(hash(tuple(part.to_pybytes() for buffers in columns for part in buffers if part is not None)))
    sums = [one.sums for summary in Run.at(folder).summaries() for one in summary.metrics]
    return (*hashes, hash(tuple(sums)))


@contextmanager
def cluster_of(nodes: int) -> Iterator[Any]:
    """A Ray cluster of this machine that notices a lost node within a second."""
    from captious.engines.ray import import_ray

    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    ray = import_ray()
    from ray.cluster_utils import Cluster

    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 200, "health_check_failure_threshold": 3}
    node = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "_system_config": quick})
    try:
        for _ in range(nodes - 1):
            cluster.add_node(**node)
        cluster.wait_for_nodes()
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def kills(args: argparse.Namespace) -> None:
    """What is left in the folder after a kill at a random moment, and after the same run again where that is needed."""
    chance = random.Random(args.seed)
    rows = [["killed", "times", "in mid-run", "rows complete", "none twice", "values as undisturbed", "no file left"]]
    with tempfile.TemporaryDirectory() as name, cluster_of(2) as cluster:
        folder = Path(name)
        source = write_captions(folder / "in", args.items, args.shards)
        out = folder / "undisturbed"
        run_on_ray(source, out)
        start = time.perf_counter()
        run_on_ray(source, folder / "again")  # actors start faster the second time
        length = time.perf_counter() - start
        expected = values_of(out)
        events: dict[str, Callable[[Path, float], bool]] = {
            "an actor": lambda out, moment: kill_actor(cluster, source, out, moment),
            "a node": lambda out, moment: kill_node(cluster, source, out, moment),
            "the driver": lambda out, moment: kill_driver(cluster, source, out, moment),
        }
        print(f"an undisturbed run takes {length:.1f} s", flush=True)
        for what, event in events.items():
            ends = []
            for number in range(args.times):
                out = folder / f"{what}-{number}".replace(" ", "-")
                struck = event(out, chance.uniform(0.05, 0.9) * length)
                ids = [
                    key for path in (out / "items").glob("*.parquet") for key in pq.read_table(path)["id"].to_pylist()
                ]
                left = [path for path in out.rglob(".*") if path.is_file()]
                ends.append(
                    (struck, len(set(ids)) == args.items, len(ids) == args.items, values_of(out) == expected, not left)
                )
                print(what, number, ends[-1], flush=True)
            rows.append([what, str(args.times), *(str(sum(column)) for column in zip(*ends, strict=True))])
    print(f"\n{args.items:,} captions in {args.shards} shards, {METRICS} on two Ray nodes; numbers count runs\n")
    print(table(rows))


def run_on_ray(source: str, out: Path) -> None:
    score_shards(source, METRICS, out=out, resampling=Resampling(0), engine=Engine("ray"))


def meanwhile(source: str, out: Path, moment: float, strike: Callable[[], bool]) -> bool:
    """Strike at a moment of a run; says whether the run was still at work then."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            run_on_ray(source, out)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(moment)
    struck = thread.is_alive() and strike()
    thread.join()
    if failures:
        raise failures[0]
    return struck


def kill_actor(cluster: Any, source: str, out: Path, moment: float) -> bool:
    """SIGKILL of one actor's process."""

    def strike() -> bool:
        raylets = {node.all_processes["raylet"][0].process.pid for node in cluster.list_all_nodes()}
        actors = [pid for pid, parent, name in processes() if parent in raylets and name.startswith("ray::Actor")]
        if actors:
            os.kill(random.choice(actors), signal.SIGKILL)
        return bool(actors)

    return meanwhile(source, out, moment, strike)


def processes() -> Iterator[tuple[int, int, str]]:
    """Process id, parent and command line of all processes."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            yield int(path.name), parent, (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (OSError, ValueError):
            continue


def kill_node(cluster: Any, source: str, out: Path, moment: float) -> bool:
    """The second node is lost with all its processes, and another joins after the run."""
    (node,) = cluster.worker_nodes

    def strike() -> bool:
        cluster.remove_node(node, allow_graceful=False)
        return True

    struck = meanwhile(source, out, moment, strike)
    if struck:
        cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20, include_dashboard=False)
        cluster.wait_for_nodes()
    return struck


DRIVER = """
import sys
from captious.options import Engine, Resampling
from captious.runs.shards.scoring import score_shards
source, out, metrics, address = sys.argv[1:]
score_shards(source, metrics, out=out, resampling=Resampling(0), engine=Engine("ray", address=address))
"""


def kill_driver(cluster: Any, source: str, out: Path, moment: float) -> bool:
    """SIGKILL of the process that drives the run, then the same run again."""
    command = [sys.executable, "-c", DRIVER, source, str(out), METRICS, cluster.address]
    driver = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while not out.exists() and driver.poll() is None:
        time.sleep(0.01)
    try:
        driver.wait(moment)
    except subprocess.TimeoutExpired:
        driver.kill()
    struck = driver.wait() == -signal.SIGKILL
    run_on_ray(source, out)
    return struck


def write_tars(folder: Path, items: int, shards: int) -> str:
    """Tars of JPEG files and captions; gives the pattern."""
    (folder / "jpg").mkdir(parents=True)
    texts = made_captions(items)
    with ProcessPoolExecutor() as pool:
        paths = list(pool.map(make_picture, [(n, f"{folder}/jpg/{n}.jpg") for n in range(items)], chunksize=50))
    (folder / "tars").mkdir()
    for shard, part in enumerate(np.array_split(np.arange(items), shards)):
        with tarfile.open(folder / "tars" / f"{shard:03d}.tar", "w") as tar:
            for number in part.tolist():
                tar.add(paths[number], f"{number:08d}.jpg")
                info, content = tarfile.TarInfo(f"{number:08d}.txt"), texts[number].encode()
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return str(folder / "tars" / "*.tar")


def write_model(folder: Path, tiny: bool) -> str:
    """ViT-B/32 with random weights, as a folder that the metric loads."""
    model(tiny).save_pretrained(folder)
    tokenizer().backend.save(str(folder / "tokenizer.json"))
    special = {"bos_token": "<start>", "eos_token": "<end>", "pad_token": "<end>", "model_max_length": 77}
    (folder / "tokenizer_config.json").write_text(json.dumps(special))
    (folder / "preprocessor_config.json").write_text('{"size": {"shortest_edge": 224}, "crop_size": 224}')
    return f"clipscore(weights={folder})"


def tars(args: argparse.Namespace) -> None:
    """Images per second of the metric on files in one process, and on tars by the executors."""
    runtime = Runtime(cache=False, batch=args.batch)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = write_tars(folder, args.items, args.shards)
        metric = write_model(folder / "model", args.tiny)
        paths = [str(folder / "jpg" / f"{number}.jpg") for number in range(args.items)]
        texts = made_captions(args.items)
        some = slice(2 * args.batch)
        # This first call warms the device up.
        captious.evaluate(texts[some], metric, resampling=Resampling(0), runtime=runtime, images=paths[some])
        start = time.perf_counter()
        captious.evaluate(texts, metric, resampling=Resampling(0), runtime=runtime, images=paths)
        alone = args.items / (time.perf_counter() - start)
        rows = [["way", "images/s", "of one process", "images/s with the start"]]
        rows.append(["files, one process, no shards", f"{alone:,.0f}", "1.00", ""])
        print(rows[-1], flush=True)
        for way in args.ways.split(","):
            executor, _, jobs = way.partition(":")
            out = folder / way.replace(":", "-")
            engine = Engine(executor, jobs=int(jobs or 1), gpus=1 / int(jobs or 1) if executor == "ray" else 0)
            start = time.perf_counter()
            score_shards(source, metric, out=out, resampling=Resampling(0), runtime=runtime, engine=engine)
            seconds = time.perf_counter() - start
            each = [sum(one.seconds.values()) for one in Run.at(out).summaries()]
            rate = (
                args.items / args.shards / float(np.median(each)) * int(jobs or 1)
            )  # a worker's first shard warms it up
            rows.append([f"tars, {way}", f"{rate:,.0f}", f"{rate / alone:.2f}", f"{args.items / seconds:,.0f}"])
            print(rows[-1], flush=True)
        print(f"\n{args.items:,} JPEG files in {args.shards} tars, ViT-B/32, batches of {args.batch}\n")
        print(table(rows))


def main() -> None:
    """One of the three tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("throughput")
    one.add_argument("--items", type=int, default=1_000_000)
    one.add_argument("--shards", type=int, default=20)
    one.add_argument("--jobs", type=int, default=2)
    one.add_argument("--executors", default="serial,processes,ray")
    one.set_defaults(run=throughput)
    two = commands.add_parser("kills")
    two.add_argument("--times", type=int, default=10)
    two.add_argument("--items", type=int, default=60_000)
    two.add_argument("--shards", type=int, default=12)
    two.add_argument("--seed", type=int, default=1)
    two.set_defaults(run=kills)
    three = commands.add_parser("tars")
    three.add_argument("--items", type=int, default=20_000)
    three.add_argument("--shards", type=int, default=20)
    three.add_argument("--batch", type=int, default=256)
    three.add_argument(
        "--ways", default="processes:1,processes:2", help="in processes of their own, such as processes:2,ray:4"
    )
    three.add_argument("--tiny", action="store_true", help="a model of one layer, for a try on a CPU")
    three.set_defaults(run=tars)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
