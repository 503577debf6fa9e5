"""Trains the captioners, several at once, and decodes the test images in both styles.

    python -m lab.captioners.train --data gpu/flickrstyle.npz --out DIRECTORY --processes 4

Writes under DIRECTORY, for each of 2 architectures × 3 forms × seeds, ``NAME.jsonl`` (rows of id, style, search and
caption; no style where the model is told none) and ``NAME.json`` (parameters, seconds, the losses of every epoch).
Teacher forcing with plain cross-entropy, Adam at 5e-4 decaying every five epochs, as the paper has it; the epoch with
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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA starts, for equal sums in every run

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from lab.captioners.data import PAD, Batch, Data, Pairs
from lab.captioners.decode import search
from lab.captioners.models import ARCHITECTURES, FORMS, Captioner
from lab.captioners.pack import STYLES

# Captions on the beam.
SEARCHES = {"greedy": 1, "beam": 5}


class Job(NamedTuple):
    """One model to train."""

    architecture: str
    form: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.architecture}-{self.form}-{self.seed}"


@dataclass(frozen=True)
class Settings:
    """How to train."""

    epochs: int = 40
    patience: int = 4
    """Epochs without a lower validation loss after which training ends."""
    batch: int = 128
    rate: float = 5e-4
    decay: float = 0.8
    """Of the rate, every five epochs."""
    smoothing: float = 0.0
    """Of labels; the paper has none."""
    width: int | None = None
    """Of the models; by default the architecture's own."""


class Trained(NamedTuple):
    """A model as it was at its best epoch, and the losses of all epochs."""

    model: Captioner
    losses: list[dict[str, float]]


def loss_of(model: Captioner, batch: Batch, smoothing: float = 0.0) -> torch.Tensor:
    """Cross-entropy per word."""
    logits = model(batch.features, batch.style, batch.words)
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch.words.flatten(), ignore_index=PAD, label_smoothing=smoothing
    )


@torch.inference_mode()
def validate(model: Captioner, pairs: Pairs) -> float:
    """Cross-entropy per word over all pairs."""
    model.eval()
    total = torch.zeros((), device=pairs.features.device)
    for batch in pairs.batches(512, torch.arange(len(pairs))):
        total += loss_of(model, batch) * (batch.words != PAD).sum()
    return float(total) / int(pairs.lengths.sum())


def train(job: Job, data: Data, settings: Settings) -> Trained:
    """Train one model until its validation loss rises."""
    torch.manual_seed(job.seed)
    shape = (len(data.vocabulary), *data.features.shape[1:])
    sizes = {"width": settings.width} if settings.width else {}
    model = ARCHITECTURES[job.architecture](*shape, job.form, **sizes).to(data.features.device)
    optimizer = torch.optim.Adam(model.parameters(), settings.rate)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5, settings.decay)
    training, validation = data.pairs("train"), data.pairs("validation")
    shuffle = torch.Generator().manual_seed(job.seed)
    losses: list[dict[str, float]] = []
    best, weights, waited = float("inf"), {}, 0
    for _ in range(settings.epochs):
        model.train()
        total = torch.zeros((), device=data.features.device)
        for batch in training.batches(settings.batch, torch.randperm(len(training), generator=shuffle)):
            loss = loss_of(model, batch, settings.smoothing)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.detach() * len(batch.words)
        schedule.step()
        losses.append({"train": float(total) / len(training), "validation": validate(model, validation)})
        waited += 1
        if losses[-1]["validation"] < best:
            best, waited = losses[-1]["validation"], 0
            weights = {name: value.clone() for name, value in model.state_dict().items()}
        if waited == settings.patience:
            break
    model.load_state_dict(weights)
    return Trained(model.eval(), losses)


def decode(job: Job, model: Captioner, data: Data, size: int = 256) -> Iterator[dict[str, str | None]]:
    """Captions of the test images under every search and style; a model without style writes one for both."""
    images = torch.tensor(data.images("test"))
    for name, beam in SEARCHES.items():
        for style, number in ((None, 0),) if job.form == "none" else ((style, STYLES.index(style)) for style in STYLES):
            for chosen in images.split(size):
                features = data.features[chosen.to(data.features.device)].float()
                styles = torch.full((len(chosen),), number, device=features.device)
                for image, words in zip(chosen, search(model, features, styles, beam).tolist(), strict=True):
                    caption = data.vocabulary.decode(words)
                    yield {"id": data.rows[image]["id"], "style": style, "search": name, "caption": caption}


def run(job: Job, path: Path, out: Path, settings: Settings, device: str) -> dict[str, float]:
    """Train, decode and write one model; its seconds, epochs and lowest validation loss."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_float32_matmul_precision("high")
    started = time.perf_counter()
    data = Data(path, device)
    with sdpa_kernel(SDPBackend.MATH):  # the one attention whose gradient is deterministic
        model, losses = train(job, data, settings)
        trained = time.perf_counter()
        lines = [json.dumps(row) + "\n" for row in decode(job, model, data)]
    seconds = {"training": trained - started, "decoding": time.perf_counter() - trained}
    about = {
        **job._asdict(),
        **asdict(settings),
        "parameters": sum(value.numel() for value in model.parameters()),
        "words": len(data.vocabulary),
        "vectors": data.features.shape[1],
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "losses": losses,
    }
    (out / f"{job.name}.jsonl").write_text("".join(lines), encoding="utf-8")
    (out / f"{job.name}.json").write_text(json.dumps(about) + "\n", encoding="utf-8")
    return {**seconds, "epochs": len(losses), "loss": min(row["validation"] for row in losses)}


def run_all(path: Path, out: Path, settings: Settings, seeds: int, processes: int, device: str) -> None:
    """All models, the slower architecture first."""
    out.mkdir(parents=True, exist_ok=True)
    jobs = [Job(*parts) for parts in itertools.product(ARCHITECTURES, FORMS, range(seeds))]
    started = time.perf_counter()
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(run, job, path, out, settings, device): job for job in jobs}
        for number, done in enumerate(as_completed(running), start=1):
            result = done.result()
            print(
                f"{time.perf_counter() - started:5.0f} s  {number:2} of {len(jobs)}  {running[done].name:24}"
                f"{result['epochs']:3} epochs, validation loss {result['loss']:.3f}, "
                f"{result['training']:.0f} s + {result['decoding']:.0f} s",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the file that pack.py writes")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=Settings.epochs)
    parser.add_argument("--batch", type=int, default=Settings.batch)
    parser.add_argument("--processes", type=int, default=4, help="models trained at once")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    settings = Settings(epochs=args.epochs, batch=args.batch)
    run_all(args.data, args.out, settings, args.seeds, args.processes, args.device)


if __name__ == "__main__":
    main()
