"""LIC: stacked training beside one by one.

    python lab/benchmarks/bias.py speed --data DATA     # RELIC's table 3 stacked, and torch.nn.LSTM one by one
    python lab/benchmarks/bias.py cpu --data DATA       # one captioner, one seed
    python lab/benchmarks/bias.py check --data DATA     # on a GPU: the same numbers as on a CPU, alone or together
    python lab/benchmarks/bias.py fill --data DATA --work FOLDER --part 0/4    # a part of the runs, in one process

DATA is the folder of the evaluation data (default: CAPTIOUS_SHARED_DATA). `python -m lab.reproductions relic --work
FOLDER` makes the tables from what ``fill`` trained.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from lab.reproductions.beside import SHARED, Beside
from lab.reproductions.relic import classifiers, protocol, subjects, table_rows

from captious.bias.audit import Audit, RunStore, audit
from captious.bias.classifiers._encoding import draw_batches, encode
from captious.bias.classifiers.lstm import Lstm
from captious.bias.corpus import ClassifierTask, MaskedCorpus
from captious.models.devices import resolve_device
from captious.options import Runtime, get_runtime, using


def clock(device: str) -> float:
    if device == "cuda":
        import torch

        torch.cuda.synchronize()
    return time.perf_counter()


def speed(args: Namespace) -> dict[str, Any]:
    """Table 3's 240 runs stacked; some of them one by one with torch.nn.LSTM, from tensors already on the device."""
    people = subjects(args.data, "3")
    chosen = protocol(args.data, "3", args.seeds)
    config = Lstm(stack=args.stack)
    device = resolve_device(args.device).type
    corpora = [MaskedCorpus.of(subject, chosen) for subject in people]
    tasks = [task for seed in chosen.seeds for corpus in corpora for task in corpus.tasks(seed)]
    one_by_one(replace(config, epochs=1), tasks[0])
    config_short = replace(config, epochs=1)
    if device == "cuda":
        config_short.train(tasks[:2], lambda more: None)
    picked = [tasks[index] for index in np.linspace(0, len(tasks) - 1, args.peers).astype(int)]
    singles = []
    for task in picked:
        start = clock(device)
        one_by_one(config, task)
        singles.append(clock(device) - start)
    start = clock(device)
    found = audit(people, chosen, [config], work=args.work)
    stacked = clock(device) - start
    each, together = float(np.mean(singles)), stacked / len(tasks)
    print(f"\n{len(tasks)} bi-LSTMs of RELIC's table 3 on {device}")
    print(f"one by one with torch.nn.LSTM: {each:.2f} s each ({len(singles)} timed), {each * len(tasks):.0f} s in all")
    print(f"stacked:                       {together:.3f} s each, {stacked:.1f} s in all, reading to table")
    print(f"stacked is {each / together:.1f} times faster", flush=True)
    result = {"runs": len(tasks), "stacked": stacked, "singles": singles, "ratio": each / together}
    result["rows"] = shown(found)
    keep(args, "speed", result)
    return result


def one_by_one(config: Lstm, task: ClassifierTask) -> Any:
    """The peer: the same classifier the usual way, packed sequences through torch.nn.LSTM (cuDNN on a GPU)."""
    import torch
    from torch import nn

    device = resolve_device(get_runtime().device)
    (encoded,) = encode([task], config.words)
    torch.manual_seed(task.seed)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(encoded.size, config.embedding, padding_idx=0)
            self.lstm = nn.LSTM(
                config.embedding, config.hidden, config.layers, bidirectional=True, dropout=config.dropout
            )
            self.out = nn.Linear(2 * config.hidden, 1)
            self.drop = nn.Dropout(config.dropout)

        def forward(self, words: Any, lengths: Any) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(self.drop(self.embedding(words)), lengths)
            _, (hidden, _) = self.lstm(packed)
            return self.out(self.drop(torch.cat([hidden[-2], hidden[-1]], dim=1)))[:, 0]

    net = Net().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=config.rate)
    lengths = encoded.train.lengths[None]
    order = [np.random.default_rng(task.seed)]
    truth = torch.from_numpy(task.train_labels).float().to(device)
    words = torch.from_numpy(encoded.train.words.T.copy()).to(device)
    for epoch in range(config.epochs):
        for batch in draw_batches(lengths, order, epoch, config.batch)[:, 0]:
            chosen = batch[batch >= 0]
            chosen = chosen[np.argsort(-lengths[0, chosen], kind="stable")]
            sizes = torch.from_numpy(lengths[0, chosen])
            picked = torch.from_numpy(chosen).to(device)
            optimizer.zero_grad()
            logits = net(words[: int(sizes.max()), picked], sizes)
            nn.functional.binary_cross_entropy_with_logits(logits, truth[picked]).backward()
            optimizer.step()
    return net


def fill(args: Namespace) -> dict[str, Any]:
    """Train one part of the runs into --work, for several processes at once; ``tables`` then finds them there."""
    part, parts = map(int, args.part.split("/"))
    for table in args.tables.split(","):
        chosen = protocol(args.data, table, args.seeds)
        corpora = [MaskedCorpus.of(subject, chosen) for subject in subjects(args.data, table)]
        tasks = [task for seed in chosen.seeds for corpus in corpora for task in corpus.tasks(seed)]
        for classifier in classifiers(args.classifiers, table):
            store = RunStore(args.work).of(classifier.settings())
            for task in tasks[part::parts]:
                if store.get(task) is None:
                    store.put(task, classifier.train([task], lambda more: None)[0])
    return {}


def cpu(args: Namespace) -> dict[str, Any]:
    people = subjects(args.data, "3")[:1]
    start = time.perf_counter()

    def show(what: str, done: int, total: int) -> None:
        print(f"\r{done} of {total} runs, {time.perf_counter() - start:.0f} s", end="", file=sys.stderr)

    with using(Runtime(device="cpu", progress=show)):
        found = audit(people, protocol(args.data, "3", 1), [Lstm()])
    result = {"seconds": time.perf_counter() - start, "rows": shown(found)}
    print(f"{result['seconds']:.1f} s")
    keep(args, "cpu", result)
    return result


def check(args: Namespace) -> dict[str, Any]:
    """On a GPU: that stacked training gives there what it gives on the CPU, alone or together."""
    chosen = protocol(args.data, "3", 1)
    tasks = MaskedCorpus.of(subjects(args.data, "3")[0], chosen).tasks(0)[:3]
    short = Lstm(epochs=1)
    with using(Runtime(device="cuda")):
        together = short.train(tasks, lambda more: None)
        alone = [short.train([task], lambda more: None)[0] for task in tasks]
    with using(Runtime(device="cpu")):
        there = short.train(tasks, lambda more: None)
    gaps = {
        "together-alone": max(float(np.abs(a - b).max()) for a, b in zip(together, alone, strict=True)),
        "gpu-cpu": max(float(np.abs(a - b).max()) for a, b in zip(together, there, strict=True)),
    }
    print("largest difference of a probability after one epoch:", gaps, flush=True)
    keep(args, "check", gaps)
    return gaps


def shown(found: Audit) -> list[dict[str, Any]]:
    """Print RELIC's table 3 beside ours."""
    rows = list(table_rows(found, "3 age"))
    print(Beside("RELIC, Table 3", rows).markdown(), flush=True)
    return [asdict(row) for row in rows]


def keep(args: Namespace, name: str, result: Any) -> None:
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / f"{name}.json").write_text(json.dumps(result, indent=1), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "cpu", "check", "fill"])
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--tables", default="3,4,1,2")
    parser.add_argument("--classifiers", default="lstm", help='such as "lstm(stack=64),bert-ft(model=FOLDER)"')
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--work", type=Path, default=None, help="folder of finished runs, to resume from")
    parser.add_argument("--out", type=Path, default=None, help="folder for the numbers as JSON")
    parser.add_argument("--stack", type=int, default=0)
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--part", default="0/1")
    args = parser.parse_args(arguments)
    with using(Runtime(device=args.device)):
        {"speed": speed, "cpu": cpu, "check": check, "fill": fill}[args.what](args)


if __name__ == "__main__":
    main()
