"""LIC: RELIC's tables beside the published values, and stacked training beside one by one.

    python lab/benchmarks/bias.py tables --data DATA                 # tables 1-4, LSTM columns, ten seeds
    python lab/benchmarks/bias.py speed --data DATA                  # table 3 stacked, and torch.nn.LSTM one by one
    python lab/benchmarks/bias.py tables --data DATA --tables 3 --classifiers bert-ft,bert-pre --bert FOLDER
    python lab/benchmarks/bias.py cpu --data DATA                    # one captioner, one seed

DATA is the folder of the shared evaluation data (default: CAPTIOUS_SHARED_DATA).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bias_published import TABLES

from captious.bias.audit import Audit, Store, audit
from captious.bias.classifiers.bert import Bert
from captious.bias.classifiers.encoding import Encoded, epoch_batches
from captious.bias.classifiers.linear import Linear
from captious.bias.classifiers.lstm import Lstm
from captious.bias.corpus import Classifier, Corpus, Subject, Task, read_subjects
from captious.bias.protocol import preset, seeds

PRESETS = {"1": "relic-gender", "2": "relic-race", "3": "relic-age", "4": "relic-age-human"}


def subjects(data: Path, table: str) -> list[Subject]:
    lic = data / "lic"
    if table in "34":
        columns = list(TABLES["3 age"])
        return read_subjects([lic / "age.jsonl.gz"], None, "label", captions=columns)
    files = sorted((lic / ("gender" if table == "1" else "race")).glob("*.jsonl.gz"))
    return read_subjects(files, data / "coco" / "val2014.jsonl.gz", "label", number=5)


def protocol(data: Path, table: str, number: int) -> Any:
    chosen = replace(preset(PRESETS[table]).protocol, seeds=seeds(number))
    return chosen if table == "4" else replace(chosen, vocabulary=str(data / "lic" / "vocabulary" / "{model}.txt"))


def classifiers(args: argparse.Namespace, table: str) -> list[Classifier]:
    frozen = dict(preset(PRESETS[table]).frozen)
    made: dict[str, Callable[[], Classifier]] = {
        "lstm": lambda: Lstm(device=args.device, stack=args.stack),
        "linear": Linear,
        "bert-ft": lambda: Bert.tuned(model=args.bert, device=args.device),
        "bert-pre": lambda: Bert.pre(model=args.bert, device=args.device, **frozen),
    }
    return [made[name]() for name in args.classifiers.split(",")]


def clock(device: str) -> float:
    if device == "cuda":
        import torch

        torch.cuda.synchronize()
    return time.perf_counter()


def tables(args: argparse.Namespace) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for table in args.tables.split(","):
        name = next(title for title in TABLES if title.startswith(table))
        people = subjects(args.data, table)
        start = time.perf_counter()
        found = audit(people, protocol(args.data, table, args.seeds), classifiers(args, table), work=args.work)
        took = time.perf_counter() - start
        results[name] = {"seconds": took, "rows": beside(found, name)}
        print_table(name, results[name])
        keep(args, "tables", results)
    return results


def beside(found: Audit, name: str) -> list[dict[str, Any]]:
    rows = []
    for row in found.rows:
        lic = row.lic
        published = TABLES[name].get(row.model, {}).get(row.classifier.split("(")[0])
        rows.append(
            {
                "model": row.model,
                "classifier": row.classifier,
                "lic_m": lic.lic_m,
                "sd_m": lic.sd_m,
                "lic_d": lic.lic_d,
                "sd_d": lic.sd_d,
                "lic": lic.lic,
                "interval": lic.interval,
                "accuracy": row.accuracy(),
                "seeds": {"model": lic.model.tolist(), "human": lic.human.tolist()},
                "unknown": row.corpus.unknown,
                "published": published,
            }
        )
    return rows


def print_table(name: str, result: dict[str, Any]) -> None:
    print(f"\nRELIC table {name}: {result['seconds']:.1f} s")
    print(f"{'':32}{'LIC_M':>12}{'published':>14}{'LIC_D':>14}{'published':>14}{'LIC':>7}{'publ.':>7}  within 2 sd")
    for row in result["rows"]:
        ours = (row["lic_m"], row["sd_m"], row["lic_d"], row["sd_d"])
        line = f"{row['model']:14}{row['classifier']:18}"
        theirs = row["published"]
        if theirs is None:
            print(f"{line}{ours[0]:7.1f} ± {ours[1]:3.1f}{'':14}{ours[2]:8.1f} ± {ours[3]:3.1f}")
            continue
        near = [abs(ours[i] - theirs[i]) <= 2 * theirs[i + 1] for i in (0, 2)]
        shown = "".join(
            f"{ours[i]:{8 if i else 6}.1f} ± {ours[i + 1]:3.1f}{theirs[i]:8.1f} ± {theirs[i + 1]:3.1f}" for i in (0, 2)
        )
        print(f"{line}{shown}{row['lic']:7.1f}{theirs[0] - theirs[2]:7.1f}  {near[0]!s:5} {near[1]!s:5}", flush=True)


def speed(args: argparse.Namespace) -> dict[str, Any]:
    """Table 3's 240 runs stacked; some of them one by one with torch.nn.LSTM, from tensors already on the device."""
    people = subjects(args.data, "3")
    chosen = protocol(args.data, "3", args.seeds)
    config = Lstm(device=args.device, stack=args.stack)
    device = config.where()
    corpora = [Corpus.of(subject, chosen) for subject in people]
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
    result["rows"] = beside(found, "3 age")
    print_table("3 age", {"seconds": stacked, "rows": result["rows"]})
    keep(args, "speed", result)
    return result


def one_by_one(config: Lstm, task: Task) -> Any:
    """The peer: the same classifier the usual way, packed sequences through torch.nn.LSTM (cuDNN on a GPU)."""
    import torch
    from torch import nn

    device = config.where()
    encoded = Encoded.of(task, config.words)
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
        for batch in epoch_batches(lengths, order, epoch, config.batch)[:, 0]:
            chosen = batch[batch >= 0]
            chosen = chosen[np.argsort(-lengths[0, chosen], kind="stable")]
            sizes = torch.from_numpy(lengths[0, chosen])
            picked = torch.from_numpy(chosen).to(device)
            optimizer.zero_grad()
            logits = net(words[: int(sizes.max()), picked], sizes)
            nn.functional.binary_cross_entropy_with_logits(logits, truth[picked]).backward()
            optimizer.step()
    return net


def fill(args: argparse.Namespace) -> dict[str, Any]:
    """Train one part of the runs into --work, for several processes at once; ``tables`` then finds them there."""
    part, parts = map(int, args.part.split("/"))
    for table in args.tables.split(","):
        chosen = protocol(args.data, table, args.seeds)
        corpora = [Corpus.of(subject, chosen) for subject in subjects(args.data, table)]
        tasks = [task for seed in chosen.seeds for corpus in corpora for task in corpus.tasks(seed)]
        for classifier in classifiers(args, table):
            store = Store(args.work).of(classifier.settings())
            for task in tasks[part::parts]:
                if store.get(task) is None:
                    store.put(task, classifier.train([task], lambda more: None)[0])
    return {}


def cpu(args: argparse.Namespace) -> dict[str, Any]:
    people = subjects(args.data, "3")[:1]
    start = time.perf_counter()

    def report(what: str, done: float, total: float) -> None:
        print(f"\r{done:.2f} of {total:.0f} runs, {time.perf_counter() - start:.0f} s", end="", file=sys.stderr)

    found = audit(people, protocol(args.data, "3", 1), [Lstm(device="cpu")], report=report)
    result = {"seconds": time.perf_counter() - start, "rows": beside(found, "3 age")}
    print_table("3 age", result)
    keep(args, "cpu", result)
    return result


def check(args: argparse.Namespace) -> dict[str, Any]:
    """On a GPU: that stacked training gives there what it gives on the CPU, alone or together."""
    chosen = protocol(args.data, "3", 1)
    tasks = Corpus.of(subjects(args.data, "3")[0], chosen).tasks(0)[:3]
    short = Lstm(epochs=1, device="cuda")
    together = short.train(tasks, lambda more: None)
    alone = [short.train([task], lambda more: None)[0] for task in tasks]
    there = replace(short, device="cpu").train(tasks, lambda more: None)
    gaps = {
        "together-alone": max(float(np.abs(a - b).max()) for a, b in zip(together, alone, strict=True)),
        "gpu-cpu": max(float(np.abs(a - b).max()) for a, b in zip(together, there, strict=True)),
    }
    print("largest difference of a probability after one epoch:", gaps, flush=True)
    keep(args, "check", gaps)
    return gaps


def keep(args: argparse.Namespace, name: str, result: Any) -> None:
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / f"{name}{args.suffix}.json").write_text(json.dumps(result, indent=1))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tables", "speed", "cpu", "check", "fill"])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("CAPTIOUS_SHARED_DATA", "../shared/data")))
    parser.add_argument("--tables", default="3,4,1,2")
    parser.add_argument("--classifiers", default="lstm")
    parser.add_argument("--bert", default="bert-base-uncased")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--stack", type=int, default=0)
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--work", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--suffix", default="")
    parser.add_argument("--part", default="0/1")
    args = parser.parse_args(arguments)
    {"tables": tables, "speed": speed, "cpu": cpu, "check": check, "fill": fill}[args.what](args)


if __name__ == "__main__":
    main()
