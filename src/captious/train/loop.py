"""Several processes that train one model, started by ``torchrun``; with one process everything here does nothing."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from captious._files import refuse_occupied, whole_file, with_default_modes
from captious.errors import InputError, require
from captious.train.contrast import Batch, Objective
from captious.train.schedule import Plan, Settings, rate

torch = require("torch", "clip")

Tensor = Any


def rank() -> int:
    """Which of the processes this is; 0 writes files and speaks."""
    return int(torch.distributed.get_rank()) if _several() else 0


def world() -> int:
    """How many processes train together."""
    return int(torch.distributed.get_world_size()) if _several() else 1


def first_here() -> bool:
    """Whether this is the first process, also before they have joined."""
    return int(os.environ.get("RANK", "0")) == 0


def device(asked: str) -> str:
    """The device of this process: with ``torchrun`` on GPUs, each process takes its own."""
    local = os.environ.get("LOCAL_RANK")
    if local is None or asked not in ("auto", "cuda") or not torch.cuda.is_available():
        return asked
    return f"cuda:{local}"


@contextmanager
def together(on: str) -> Iterator[None]:
    """Join the processes that ``torchrun`` started, if it did, for the length of the block."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or _several():
        yield
        return
    torch.distributed.init_process_group("nccl" if on.startswith("cuda") else "gloo")
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def gathered(rows: Tensor, wanted: bool = True) -> Tensor:
    """The rows of all processes one below the other, with the gradient finding its way back to each."""
    return _function().apply(rows) if wanted and world() > 1 else rows


def mean(value: Tensor, wanted: bool = True) -> Tensor:
    """The mean over processes of a number without gradient."""
    if not wanted or world() == 1:
        return value
    total = value.clone()
    torch.distributed.all_reduce(total)
    return total / world()


def everyones(value: Any) -> list[Any]:
    """One object of each process, known to all."""
    if world() == 1:
        return [value]
    found: list[Any] = [None] * world()
    torch.distributed.all_gather_object(found, value)
    return found


def anyone(flag: bool, on: str) -> bool:
    """Whether the flag is set in any process."""
    if world() == 1:
        return flag
    raised = torch.tensor(float(flag), device=on)
    torch.distributed.all_reduce(raised)
    return bool(raised.item() > 0)


def wait() -> None:
    """Go on only when all processes are here."""
    if world() > 1:
        torch.distributed.barrier()


def _several() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


_FUNCTION: Any = None


def _function() -> Any:
    """An all-gather whose gradient sums what every process asks of these rows."""
    global _FUNCTION
    if _FUNCTION is None:

        def forward(context: Any, rows: Tensor) -> Tensor:
            parts = [torch.empty_like(rows) for _ in range(world())]
            torch.distributed.all_gather(parts, rows.contiguous())
            context.size = len(rows)
            return torch.cat(parts)

        def backward(context: Any, slope: Tensor) -> Tensor:
            slope = slope.contiguous()
            torch.distributed.all_reduce(slope)
            return slope[rank() * context.size : (rank() + 1) * context.size]

        body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        _FUNCTION = type("Gathered", (torch.autograd.Function,), body)
    return _FUNCTION


FOLDER, FILE = "checkpoints", "last.pt"
FORMAT = 1


def save(folder: Path, contents: dict[str, Any]) -> None:
    """Write the checkpoint of a training; with several processes, called by each, and written by the first."""
    generators = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        generators["cuda"] = torch.cuda.get_rng_state()
    own = {"objective": contents.pop("objective"), "generators": generators}
    everyone = everyones(own)
    if rank() == 0:
        with whole_file(folder / FILE) as draft:
            torch.save({"format": FORMAT, "processes": everyone, **contents}, draft)
    wait()


def load(folder: Path) -> dict[str, Any]:
    """Read the checkpoint of a training, with this process's own part of it in place."""
    refuse_absent(folder)
    path = folder / FILE
    try:
        found: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        everyone = found.pop("processes")
        kind = found.pop("format")
    except Exception as error:  # a damaged file makes the unpickler raise almost anything
        raise InputError(f"{path}: is damaged ({' '.join(str(error).split())[:120]})") from None
    if kind != FORMAT:
        raise InputError(f"{path}: is of format {kind}, expected {FORMAT}")
    if len(everyone) != world():
        raise InputError(f"{path}: was made by {len(everyone)} processes, not {world()}; start as many again")
    own = everyone[rank()]
    return {**found, **own}


def refuse_absent(folder: Path) -> None:
    """Say that there is nothing to resume from, and how to start."""
    if not (folder / FILE).is_file():
        start = "leave --resume out" if not folder.parent.exists() else "give --overwrite in place of --resume"
        raise InputError(f"{folder / FILE}: no checkpoint to resume from; {start} to start")


def restore_generators(generators: dict[str, Any]) -> None:
    """Put torch's random numbers (dropout, where a model has any) back to where they were."""
    torch.set_rng_state(generators["cpu"])
    if "cuda" in generators and torch.cuda.is_available():
        torch.cuda.set_rng_state(generators["cuda"])


LOG_FILE = "log.jsonl"
PENDING = 20
"""Steps whose numbers wait on the device before they are fetched together, so that no step waits for the next."""


class Log:
    """Appends to ``log.jsonl``; a training that resumes cuts off what came after its checkpoint."""

    def __init__(self, folder: Path, step: int, writes: bool = True) -> None:
        self.path = folder / LOG_FILE
        self._pending: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._writes = writes
        self._since, self._samples = time.perf_counter(), 0
        self.last: dict[str, Any] = {}
        if writes:
            kept = [row for row in read(folder) if row["step"] <= step] if step else []
            with whole_file(self.path) as draft:
                draft.write_text("".join(_line(row) for row in kept), encoding="utf-8")

    def step(self, record: dict[str, Any], parts: dict[str, Any], samples: int) -> None:
        """Note a step; the parts may still be on the device."""
        self._pending.append((record, parts))
        self._samples += samples
        if len(self._pending) >= PENDING:
            self.flush()

    def validation(self, step: int, epoch: int, found: dict[str, float]) -> None:
        """Note a validation."""
        self.flush()
        self._append([{"step": step, "epoch": epoch, "validation": found}])

    def flush(self) -> None:
        """Fetch what is pending and write it; stops the training where a loss is not a number."""
        if not self._pending:
            return
        values = [{key: float(value) for key, value in parts.items()} for _, parts in self._pending]
        now = time.perf_counter()
        speed = round(self._samples / max(now - self._since, 1e-9), 1)
        rows = [
            {**record, **_rounded(parts), "samples_per_second": speed}
            for (record, _), parts in zip(self._pending, values, strict=True)
        ]
        self._pending, self._samples, self._since = [], 0, now
        self.last = rows[-1]
        self._append(rows)
        broken = next((row for row in rows if not math.isfinite(row["loss"])), None)
        if broken is not None:
            raise InputError(
                f"step {broken['step']}: the loss is {broken['loss']}; try a smaller --lr, or --precision fp32"
            )

    def pause(self) -> None:
        """Start the clock anew, after something that is not training."""
        self._since = time.perf_counter()

    def _append(self, rows: list[dict[str, Any]]) -> None:
        if self._writes:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(_line(row) for row in rows)


def read(folder: Path) -> list[dict[str, Any]]:
    """The rows of a log; a last line that a kill cut short is left out."""
    path = folder / LOG_FILE
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _rounded(parts: dict[str, float]) -> dict[str, float]:
    return {key: float(f"{value:.6g}") for key, value in parts.items()}


AHEAD = 4
"""Batches that are laid out before they are needed."""


@contextmanager
def ahead(plan: Plan, objective: Objective, done: int, together: int = 1) -> Iterator[Iterator[Batch]]:
    """Batches from a step on, laid out by threads before they are needed, always in the same order."""
    with ThreadPoolExecutor(2, thread_name_prefix="batches") as pool:
        places = (
            (plan.epoch(step), group)
            for step in range(done, plan.steps)
            for group in grouped(plan.batches(step), together)
        )

        def make(place: tuple[int, list[int]]) -> Future[Batch]:
            epoch, group = place
            rows = np.concatenate([plan.rows(epoch, number, rank()) for number in group])
            return pool.submit(objective.batch, rows, epoch, len(group))

        def batches() -> Iterator[Batch]:
            waiting = [make(place) for place in islice(places, AHEAD)]
            while waiting:
                yield waiting.pop(0).result()
                waiting.extend(make(place) for place in islice(places, 1))

        try:
            yield batches()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def grouped(numbers: list[int], together: int) -> list[list[int]]:
    """Neighbors, so many at a time.

    >>> grouped([4, 5, 6], 2)
    [[4, 5], [6]]
    """
    return [numbers[at : at + together] for at in range(0, len(numbers), together)]


def as_module(objective: Objective, encoder: Any) -> Any:
    """The losses of a batch as a module, so that several processes can share its gradients."""

    def forward(self: Any, batch: Batch) -> dict[str, Any]:
        return objective.parts(batch)

    step = type("Step", (torch.nn.Module,), {"forward": forward})()
    step.encoder = encoder.module
    if world() == 1:
        return step
    # Some towers have weights that features do not use (a pooler); CLIP has none.
    unused = getattr(encoder.module.config, "model_type", "") != "clip"
    return torch.nn.parallel.DistributedDataParallel(step, find_unused_parameters=unused)


TOWERS = ("vision_model.", "text_model.")


def precision_of(asked: str, device: str) -> str:
    """``auto`` is bf16 on a GPU and fp32 on a CPU."""
    return asked if asked != "auto" else "bf16" if device == "cuda" else "fp32"


def optimizer(module: Any, settings: Settings, device: str) -> Any:
    """AdamW over what learns, in groups: with and without decay, of towers and of heads with their own rate."""
    named = [(name, one) for name, one in module.named_parameters() if one.requires_grad]
    if not named:
        raise InputError("--lock leaves nothing to learn")
    times = settings.head_lr / settings.lr if settings.head_lr else 1.0
    groups: dict[tuple[float, float], list[Any]] = {}
    for name, one in named:
        factor = 1.0 if name.startswith(TOWERS) else times
        groups.setdefault((factor, 0.0 if _still(name, one) else settings.weight_decay), []).append(one)
    given = [
        {"params": params, "weight_decay": decay, "times": factor}
        for (factor, decay), params in sorted(groups.items(), key=lambda item: (item[0][0], -item[0][1]))
    ]
    return torch.optim.AdamW(given, lr=settings.lr, betas=(0.9, settings.beta2), fused=device == "cuda")


def clipped(trained: list[Any], longest: float) -> Any:
    """The length of the gradient of all parameters; brought down to ``longest``, unless that is 0."""
    if longest:
        return torch.nn.utils.clip_grad_norm_(trained, longest)
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm([one.grad for one in trained])))


def train_mode(module: Any) -> None:
    """Training mode for what learns; a locked tower stays as it is used."""
    module.train()
    for child in module.children():
        parameters = list(child.parameters())
        if parameters and not any(one.requires_grad for one in parameters):
            child.eval()


def held_rows(module: Any, rows: int) -> Callable[[], None]:
    """A function that empties the gradient of the first rows of the text tower's position table."""
    text = getattr(module, "text_model", None)
    embeddings = getattr(getattr(text, "text_model", text), "embeddings", None)
    table = getattr(getattr(embeddings, "position_embedding", None), "weight", None)

    def hold() -> None:
        if rows and table is not None and table.grad is not None:
            table.grad[:rows] = 0

    return hold


def _still(name: str, weights: Any) -> bool:
    return weights.ndim < 2 or "position_embedding" in name


MARKER = "captious-training.json"
LAST = ("config.json", "captious-encoder.json", "captious-umic.json")
"""Files that say what a folder is: they come when all others are there."""


def prepare(out: Path, resume: bool, overwrite: bool) -> None:
    """Refuse at once what cannot be, such as an occupied folder; clear what a new training replaces."""
    there = out.exists() and (not out.is_dir() or any(out.iterdir()))
    if there and not resume and not overwrite and (out / MARKER).exists():
        raise InputError(f"{out}: holds a training already; --resume goes on with it, --overwrite starts again")
    refuse_occupied(out, overwrite or resume, MARKER)
    if resume:
        refuse_absent(out / FOLDER)
    if overwrite and not resume and rank() == 0:
        for name in (FOLDER, "best"):
            shutil.rmtree(out / name, ignore_errors=True)
        (out / LOG_FILE).unlink(missing_ok=True)


def put_model(model: Any, folder: Path) -> None:
    """Save a model into a folder that holds other things: each file whole, the one that says what it is last."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".model.", suffix=".part", dir=folder) as draft:
        model.save(Path(draft))
        with_default_modes(Path(draft))
        for path in sorted(Path(draft).iterdir(), key=lambda path: path.name in LAST):
            target = folder / path.name
            if path.is_dir():
                shutil.rmtree(target, ignore_errors=True)
            path.replace(target)


@dataclass
class Stop:
    """Set by Ctrl-C, SIGTERM or a test; the training ends after the step at work."""

    asked: bool = False


@contextmanager
def signals(stop: Stop) -> Iterator[None]:
    """Ctrl-C and SIGTERM ask to stop; a second one ends at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, frame: Any) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


Report = Callable[[str, int, int], None]
Validate = Callable[[], dict[str, float]]


@dataclass
class Trainer:
    """One training from its checkpoint, or its start, to its end."""

    objective: Objective
    settings: Settings
    plan: Plan
    folder: Path
    report: Report = lambda what, done, total: None
    validate: Validate | None = None
    goal: str = ""
    """The validation figure of which the best is kept."""
    keep_best: Callable[[], None] = lambda: None
    after: Callable[[], None] = lambda: None
    """Called after each epoch and validation, to draw the curves."""
    identity: dict[str, Any] = field(default_factory=dict)
    """What a checkpoint must agree on to be resumed."""
    stop: Stop = field(default_factory=Stop)
    say: Callable[[str], None] = lambda line: None

    def __post_init__(self) -> None:
        self.encoder = self.objective.towers.encoder
        self.device = self.encoder.device
        kind = precision_of(self.settings.precision, self.device.type)
        self.number = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[kind]
        self.optimizer = optimizer(self.encoder.module, self.settings, self.device.type)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=kind == "fp16")
        self.done = 0
        self.best: float | None = None
        self.warmup = min(self.settings.warmup, self.plan.steps // 5)
        usual = self.settings.accumulate if self.device.type == "cuda" else 1
        self.together = (self.settings.together or usual) if self.objective.joins else 1

    def run(self, resume: bool = False) -> bool:
        """Train; False where it was stopped before its end. A checkpoint is there in either case."""
        torch.manual_seed(1000 * self.settings.seed + rank())  # for dropout; a checkpoint has its own state
        if resume:
            self._restore()
        log = Log(self.folder, self.done, writes=rank() == 0)
        train_mode(self.encoder.module)
        model = as_module(self.objective, self.encoder)
        hold = held_rows(self.encoder.module, self.settings.frozen_positions)
        if self.validate is not None and not self.done:
            self._validate(log)
        finished: bool | None = None
        with signals(self.stop):
            while finished is None:
                finished = self._steps(model, log, hold)
        log.flush()
        self.after()
        return finished

    def _steps(self, model: Any, log: Log, hold: Callable[[], None]) -> bool | None:
        """All steps that are left: True at the end, False where stopped, None to try again with less at once."""
        with ahead(self.plan, self.objective, self.done, self.together) as batches:
            while self.done < self.plan.steps:
                before = self.objective.state()
                try:
                    self._step(model, batches, log, hold)
                except (torch.OutOfMemoryError, MemoryError) as error:
                    self._less(before, error)
                    return None
                if self._between(log):
                    return False
        return True

    def _less(self, before: dict[str, Any], error: BaseException) -> None:
        """Undo a step that did not fit into memory and encode half as many batches at once, where that is possible."""
        if self.together == 1 or world() > 1:
            raise InputError(self._too_large()) from error
        self.optimizer.zero_grad(set_to_none=True)
        self.objective.restore(before)
        self.together //= 2
        self.say(
            f"out of memory: from step {self.done + 1} on, {self.together} of a step's batches are encoded at once"
        )
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _step(self, model: Any, batches: Iterator[Batch], log: Log, hold: Callable[[], None]) -> None:
        step, numbers = self.done, self.plan.batches(self.done)
        now = self.settings.lr * rate(step, self.plan.steps, self.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = now * group["times"]
        sums: dict[str, Any] = {}
        for members in grouped(numbers, self.together):
            waits = members[-1] != numbers[-1] and world() > 1
            share = len(members) / len(numbers)
            with model.no_sync() if waits else nullcontext():
                parts = self._backward(model, next(batches), share)
            for key, value in parts.items():
                sums[key] = sums.get(key, 0.0) + value.detach() * share
        hold()
        trained = [one for group in self.optimizer.param_groups for one in group["params"] if one.grad is not None]
        self.scaler.unscale_(self.optimizer)
        norm = clipped(trained, self.settings.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.objective.after_step()
        self.done += 1
        samples = len(numbers) * self.plan.batch * self.plan.processes
        record = {"step": self.done, "epoch": self.plan.epoch(step), "lr": now}
        log.step(record, {**sums, "scale": self.objective.towers.scale.detach(), "norm": norm}, samples)
        self.report("steps", self.done, self.plan.steps)

    def _backward(self, model: Any, batch: Batch, share: float) -> dict[str, Any]:
        try:
            with torch.autocast(self.device.type, dtype=self.number, enabled=self.number is not None):
                parts: dict[str, Any] = model(batch)
            self.scaler.scale(parts["loss"] * share).backward()
            return parts
        except RuntimeError as error:  # a CPU has no class of its own for this
            if "not enough memory" in str(error) or "can't allocate" in str(error):
                raise MemoryError from error
            raise

    def _too_large(self) -> str:
        half, twice = max(1, self.plan.batch // 2), self.settings.accumulate * 2
        return (
            f"out of memory with --batch {self.plan.batch}: try --batch {half} --accumulate {twice}, which sums as "
            f"many examples a step; each is then contrasted with {half - 1} others instead of {self.plan.batch - 1}"
        )

    def _between(self, log: Log) -> bool:
        """What happens between steps: validation, checkpoint, stop. True to stop."""
        ends = self.done % self.plan.steps_in_epoch == 0
        every = self.settings.validate_every
        if self.validate is not None and (ends or (every and self.done % every == 0)):
            self._validate(log)
        stop = anyone(self.stop.asked, self.device) and self.done < self.plan.steps
        if ends or stop or self.done % self.settings.save_every == 0:
            log.flush()
            self._save()
            log.pause()
        if ends:
            self.after()
        return stop

    def _validate(self, log: Log) -> None:
        if rank() == 0 and self.validate is not None:
            self.encoder.module.eval()
            found = self.validate()
            log.validation(self.done, self.plan.epoch(max(self.done - 1, 0)), found)
            if self.done and (self.best is None or found[self.goal] > self.best):
                self.best = found[self.goal]
                self.keep_best()
            self.after()
            train_mode(self.encoder.module)
        wait()
        log.pause()

    def _save(self) -> None:
        contents = {
            "step": self.done,
            "best": self.best,
            "identity": self.identity,
            "objective": self.objective.state(),
            "model": self.encoder.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
        }
        save(self.folder / FOLDER, contents)

    def _restore(self) -> None:
        found = load(self.folder / FOLDER)
        for key, value in self.identity.items():
            was = found["identity"].get(key)
            if was != value:
                raise InputError(f"{self.folder}: cannot resume: {key} was {was!r}, now it is {value!r}")
        self.encoder.module.load_state_dict(found["model"])
        self.optimizer.load_state_dict(found["optimizer"])
        self.scaler.load_state_dict(found["scaler"])
        self.objective.restore(found["objective"])
        restore_generators(found["generators"])
        self.done, self.best = found["step"], found["best"]
