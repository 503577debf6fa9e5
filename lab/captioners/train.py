"""Trains the captioners, several at once, and decodes the test images in both styles.

    python -m lab.captioners.train --data flickrstyle.npz --out DIRECTORY --processes 9

Writes ``captions.jsonl`` (rows of architecture, form, seed, search, id, style and caption; no style where the model is
told none) and ``models.jsonl`` (settings, parameters, seconds, the losses of every epoch), a model at a time, the first
seed of all models first: a run that is cut short leaves whole models. With ``--minutes`` training ends in time, and
what has been learnt is decoded.

UPDOWN and Multi-UPDOWN: cross-entropy, Adam at 5e-4 decaying every five epochs, as the paper has it, and scheduled
sampling for Multi-UPDOWN. SVinVL: masked words, AdamW with a linear decay. The paper fine-tunes VinVL at 3e-5; ours
begins from random weights, so it first learns the factual captions of the training images, and faster. The epoch with
the lowest validation loss is decoded. On a CPU a seed gives the same captions again; on a GPU nearly always.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA starts, for equal sums in every run

import torch

from lab.captioners.data import NO_STYLE, PAD, Data, Pairs
from lab.captioners.decode import BAD_ENDINGS, search
from lab.captioners.models import ARCHITECTURES, FORMS, Captioner, cross_entropy
from lab.captioners.pack import STYLES

# Captions on the beam.
SEARCHES = {"greedy": 1, "beam": 5}


class Job(NamedTuple):
    """One model to train."""

    architecture: str
    form: str
    seed: int


@dataclass(frozen=True)
class Settings:
    """How to train."""

    epochs: int = 40
    patience: int = 6
    """Epochs without a lower validation loss after which training ends."""
    batch: int = 128
    rate: float = 5e-4
    decay: float = 0.8
    """Of the rate, every five epochs; 0 for AdamW with a linear decay to nothing."""
    smoothing: float = 0.0
    """Of labels."""
    sampling: float = 0.0
    """Share of words that are the model's own, more every five epochs, up to a half."""
    pretraining: int = 0
    """Epochs on factual captions before."""
    half: bool = False
    """Train in bfloat16 on a GPU."""
    width: int | None = None
    """Of the models; by default the architecture's own."""


# Of each architecture.
PAPER = {
    "updown": Settings(),
    "multi-updown": Settings(sampling=0.05),
    "svinvl": Settings(epochs=30, patience=30, decay=0.0, smoothing=0.1, pretraining=10, half=True),
}
# Smaller models that two cores train in minutes.
QUICK = {
    name: replace(settings, epochs=6, batch=32, rate=2e-3, width=128, pretraining=0) for name, settings in PAPER.items()
}


class Trained(NamedTuple):
    """A model as it was at its best epoch, and the losses of all epochs."""

    model: Captioner
    losses: list[dict[str, float]]


@torch.inference_mode()
def validate(model: Captioner, pairs: Pairs) -> float:
    """Return the cross-entropy per word over all pairs, each word from the true words before it."""
    model.eval()
    total = torch.zeros((), device=pairs.words.device)
    for inputs, words in pairs.batches(512, torch.arange(len(pairs))):
        total += cross_entropy(model(inputs, words), words) * (words != PAD).sum()
    return float(total) / int(pairs.lengths.sum())


class Epochs:
    """Training of one model, an epoch at a time."""

    def __init__(self, model: Captioner, settings: Settings, pairs: Pairs, epochs: int, seed: int) -> None:
        self.model, self.settings, self.pairs, self.done = model, settings, pairs, 0
        self.shuffle = torch.Generator().manual_seed(seed)
        if settings.decay:
            self.optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), settings.rate)
            self.schedule: torch.optim.lr_scheduler.LRScheduler = torch.optim.lr_scheduler.StepLR(
                self.optimizer, 5, settings.decay
            )
        else:
            self.optimizer = torch.optim.AdamW(model.parameters(), settings.rate)
            self.schedule = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1.0, 0.02, epochs)

    def run(self) -> float:
        """Train one epoch and return its loss."""
        self.model.train()
        sampling = min(0.5, self.settings.sampling * (self.done // 5))
        total = torch.zeros((), device=self.pairs.words.device)
        order = torch.randperm(len(self.pairs), generator=self.shuffle)
        for batch in self.pairs.batches(self.settings.batch, order):
            with torch.autocast(total.device.type, torch.bfloat16, enabled=self.settings.half and total.is_cuda):
                loss = self.model.compute_loss(batch, self.settings.smoothing, sampling)
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            total += loss.detach() * len(batch.words)
        self.schedule.step()
        self.done += 1
        return float(total) / len(self.pairs)


def train(job: Job, data: Data, settings: Settings, deadline: float = float("inf")) -> Trained:
    """Train one model until its validation loss rises, or until a time."""
    torch.manual_seed(job.seed)
    sizes = {"width": settings.width} if settings.width else {}
    model = ARCHITECTURES[job.architecture](
        len(data.vocabulary), *data.regions.shape[1:], data.pooled.shape[1], job.form, **sizes
    ).to(data.device)
    if settings.pretraining:
        before = Epochs(model, settings, data.factual_pairs(), settings.pretraining, job.seed)
        while before.done < settings.pretraining and time.time() < deadline:
            before.run()
    epochs = Epochs(model, settings, data.pairs("train"), settings.epochs, job.seed)
    validation = data.pairs("validation")
    losses: list[dict[str, float]] = []
    best, weights, waited = float("inf"), {}, 0
    while epochs.done < settings.epochs and waited < settings.patience and (not losses or time.time() < deadline):
        losses.append({"train": epochs.run(), "validation": validate(model, validation)})
        waited += 1
        if losses[-1]["validation"] < best:
            best, waited = losses[-1]["validation"], 0
            weights = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(weights)
    return Trained(model.eval(), losses)


def decode(job: Job, model: Captioner, data: Data, size: int = 256) -> Iterator[dict[str, str | int | None]]:
    """Yield captions of the test images under every search and style; a model without style writes one for both."""
    images = torch.tensor(data.images("test"), device=data.device)
    bad = [data.vocabulary.number[word] for word in BAD_ENDINGS if word in data.vocabulary.number]
    styles = dict(zip(STYLES, range(len(STYLES)), strict=True)) if job.form == "style" else {None: NO_STYLE}
    for (name, beam), (style, number) in itertools.product(SEARCHES.items(), styles.items()):
        for chosen in images.split(size):
            inputs = data.read_inputs(chosen, torch.full_like(chosen, number))
            for image, words in zip(chosen.tolist(), search(model, inputs, beam, bad).tolist(), strict=True):
                caption = data.vocabulary.decode(words)
                yield {
                    **job._asdict(),
                    "search": name,
                    "id": data.rows[image]["id"],
                    "style": style,
                    "caption": caption,
                }


def run(job: Job, path: Path, settings: Settings, device: str, deadline: float) -> tuple[str, dict[str, Any]]:
    """Train and decode one model; return its captions as lines, and what is known of the model."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_float32_matmul_precision("high")
    started = time.perf_counter()
    data = Data(path, device)
    model, losses = train(job, data, settings, deadline)
    trained = time.perf_counter()
    lines = [json.dumps(row) + "\n" for row in decode(job, model, data)]
    about = {
        **job._asdict(),
        **asdict(settings),
        "parameters": sum(value.numel() for value in model.parameters()),
        "words": len(data.vocabulary),
        "regions": data.regions.shape[1],
        "training_seconds": round(trained - started, 1),
        "decoding_seconds": round(time.perf_counter() - trained, 1),
        "losses": losses,
    }
    return "".join(lines), about


def run_all(
    path: Path,
    out: Path,
    settings: dict[str, Settings],
    seeds: int,
    processes: int,
    device: str,
    minutes: float = float("inf"),
) -> None:
    """Train and decode all models, a seed at a time, the slowest architecture first."""
    out.mkdir(parents=True, exist_ok=True)
    jobs = [Job(*parts) for seed in range(seeds) for parts in itertools.product(reversed(settings), FORMS, (seed,))]
    started, deadline = time.perf_counter(), time.time() + 60 * minutes
    for name in ("captions", "models"):
        (out / f"{name}.jsonl").write_text("", encoding="utf-8")
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(run, job, path, settings[job.architecture], device, deadline): job for job in jobs}
        for number, done in enumerate(as_completed(running), start=1):
            lines, about = done.result()
            for name, text in (("captions", lines), ("models", json.dumps(about) + "\n")):
                with (out / f"{name}.jsonl").open("a", encoding="utf-8") as file:
                    file.write(text)
            name = " ".join(map(str, running[done]))
            losses = [row["validation"] for row in about["losses"]]
            print(
                f"{time.perf_counter() - started:5.0f} s  {number:2} of {len(jobs)}  {name:24}"
                f"{len(losses):3} epochs, lowest validation loss {min(losses):.3f} in epoch "
                f"{losses.index(min(losses)) + 1}, {about['training_seconds']} s + {about['decoding_seconds']} s",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the file that pack.py writes")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--architectures", nargs="+", choices=PAPER, default=list(PAPER), metavar="NAME")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="at most so many, of every architecture")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="training ends after so many minutes")
    parser.add_argument("--processes", type=int, default=4, help="models trained at once")
    parser.add_argument("--quick", action="store_true", help="smaller models and fewer epochs")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    settings = {name: (QUICK if args.quick else PAPER)[name] for name in args.architectures}
    if args.epochs:
        settings = {name: replace(each, epochs=args.epochs) for name, each in settings.items()}
    run_all(args.data, args.out, settings, args.seeds, args.processes, args.device, args.minutes)


if __name__ == "__main__":
    main()
