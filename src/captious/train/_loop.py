"""The training loop: steps with a log, validation and checkpoints. A resumed training gives identical results.

``accelerate`` provides mixed precision, several processes and the state of a checkpoint. Order, random draws and
learning rate are functions of the step, so they are not part of a checkpoint.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.files import (
    load_json,
    make_draft_folder,
    refuse_occupied,
    set_default_modes,
    whole_folder,
    write_atomically,
)
from captious.errors import InputError, format_one_line, require
from captious.models.pipeline import map_ahead
from captious.options import Runtime
from captious.train._objective import Objective, TrainingBatch, Validation
from captious.train._schedule import EpochPlan, compute_rate
from captious.train.distributed import get_rank, get_world_size, is_set_anywhere, wait
from captious.train.training_options import Settings

torch = require("torch", "clip")

FOLDER, LAST_CHECKPOINT, STATE = "checkpoints", "last", "training.json"

LOG_FILE = "log.jsonl"
# Number of steps whose losses stay on the device until they are fetched together: fetching waits for the device.
PENDING = 20


class TrainingLog:
    """A writer of ``log.jsonl``; a resumed training removes the rows after its checkpoint."""

    def __init__(self, folder: Path, step: int, writes: bool = True) -> None:
        self.path = folder / LOG_FILE
        self._pending: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._writes = writes
        self._since, self._samples = time.perf_counter(), 0
        if writes:
            before = [row for row in read(folder) if row["step"] <= step] if step else []
            with write_atomically(self.path) as draft:
                draft.write_text("".join(_format_line(row) for row in before), encoding="utf-8", newline="\n")

    def step(self, record: dict[str, Any], parts: dict[str, Any], samples: int) -> None:
        """Record a step; the losses may still be on the device."""
        self._pending.append((record, parts))
        self._samples += samples
        if len(self._pending) >= PENDING:
            self.flush()

    def validation(self, step: int, epoch: int, figures: dict[str, float]) -> None:
        """Record a validation."""
        self.flush()
        self._append([{"step": step, "epoch": epoch, "validation": figures}])

    def flush(self) -> None:
        """Fetch and write the pending steps. Raise InputError if a loss is not finite."""
        if not self._pending:
            return
        values = [{key: float(f"{float(value):.6g}") for key, value in parts.items()} for _, parts in self._pending]
        now = time.perf_counter()
        speed = round(self._samples / max(now - self._since, 1e-9), 1)
        rows = [
            {**record, **parts, "samples_per_second": speed}
            for (record, _), parts in zip(self._pending, values, strict=True)
        ]
        self._pending, self._samples, self._since = [], 0, now
        self._append(rows)
        broken = next((row for row in rows if not math.isfinite(row["loss"])), None)
        if broken is not None:
            raise InputError(
                f"step {broken['step']}: the loss is {broken['loss']}; try a smaller lr=..., or precision='fp32'"
            )

    def pause(self) -> None:
        """Restart the clock after an interruption of the training, such as a validation."""
        self._since = time.perf_counter()

    def _append(self, rows: list[dict[str, Any]]) -> None:
        if self._writes:
            with self.path.open("a", encoding="utf-8", newline="\n") as file:
                file.writelines(_format_line(row) for row in rows)


def read(folder: Path) -> list[dict[str, Any]]:
    """Read the rows of a log; an incomplete last line is ignored."""
    path = folder / LOG_FILE
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def _format_line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


# Number of batches that are prepared before they are needed.
AHEAD = 4


def prepare_batches(
    plan: EpochPlan, objective: Objective, done: int, together: int
) -> Generator[TrainingBatch, None, None]:
    """Yield the batches of the steps from ``done`` on, in a fixed order, prepared ahead by threads.

    Up to ``together`` batches of a step are joined to one, which is encoded at once.
    """

    def prepare_group(group: tuple[int, list[int]]) -> TrainingBatch:
        epoch, numbers = group
        rows = np.concatenate([plan.rows(epoch, number, get_rank()) for number in numbers])
        return objective.batch(rows, epoch, len(numbers))

    groups = (
        (plan.epoch(step), numbers)
        for step in range(done, plan.steps)
        for numbers in group_neighbors(plan.batches(step), together)
    )
    return map_ahead(prepare_group, groups, threads=2, window=AHEAD)


def group_neighbors(numbers: list[int], together: int) -> list[list[int]]:
    """Split numbers into consecutive groups of ``together``.

    >>> group_neighbors([4, 5, 6], 2)
    [[4, 5], [6]]
    """
    return [numbers[at : at + together] for at in range(0, len(numbers), together)]


TOWERS = ("vision_model.", "text_model.")


def make_optimizer(module: Any, settings: Settings, device: str) -> Any:
    """Make an AdamW with parameter groups: with and without decay, towers and heads with their own learning rate."""
    named = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
    if not named:
        raise InputError("lock=... leaves nothing to learn")
    rate = settings.lr or 0.0
    head_factor = settings.head_lr / rate if settings.head_lr else 1.0
    groups: dict[tuple[float, float], list[Any]] = {}
    for name, parameter in named:
        factor = 1.0 if name.startswith(TOWERS) else head_factor
        # No decay for biases, norms and scales, which have fewer than two dimensions, and for the position table.
        without_decay = parameter.ndim < 2 or "position_embedding" in name
        groups.setdefault((factor, 0.0 if without_decay else settings.weight_decay), []).append(parameter)
    parameters = [
        {"params": params, "weight_decay": decay, "times": factor}
        for (factor, decay), params in sorted(groups.items(), key=lambda item: (item[0][0], -item[0][1]))
    ]
    return torch.optim.AdamW(parameters, lr=rate, betas=(0.9, settings.beta2), fused=device == "cuda")


def set_train_mode(module: Any) -> None:
    """Set training mode for trained modules; locked towers stay in evaluation mode."""
    module.train()
    for child in module.children():
        parameters = list(child.parameters())
        if parameters and not any(one.requires_grad for one in parameters):
            child.eval()


def freeze_positions(module: Any, rows: int) -> None:
    """Zero the gradient of the first rows of the text tower's position table."""
    text = getattr(module, "text_model", None)
    embeddings = getattr(getattr(text, "text_model", text), "embeddings", None)
    table = getattr(getattr(embeddings, "position_embedding", None), "weight", None)
    if rows and table is not None and table.grad is not None:
        table.grad[:rows] = 0


MARKER = "captious-training.json"
# Files that identify the kind of a model folder; written last, so that an incomplete folder is not taken for a model.
LAST = ("config.json", "captious-encoder.json", "captious-umic.json")


def prepare(out: Path, resume: bool, overwrite: bool) -> None:
    """Raise InputError if the output folder cannot be used; clear the files that a new training replaces."""
    is_occupied = out.exists() and (not out.is_dir() or any(out.iterdir()))
    if is_occupied and not resume and not overwrite and (out / MARKER).exists():
        raise InputError(f"{out}: contains a training already; resume=True continues it, overwrite=True starts again")
    refuse_occupied(out, overwrite or resume, MARKER)
    if resume and not (out / FOLDER / LAST_CHECKPOINT).is_dir():
        start = "leave resume=True out" if not out.exists() else "pass overwrite=True in place of resume=True"
        raise InputError(f"{out / FOLDER / LAST_CHECKPOINT}: no checkpoint to resume from; {start} to start")
    if overwrite and not resume and get_rank() == 0:
        for name in (FOLDER, "best"):
            shutil.rmtree(out / name, ignore_errors=True)
        (out / LOG_FILE).unlink(missing_ok=True)


def put_model(model: Any, folder: Path) -> None:
    """Save a model into a folder with other files: each file atomically, the one that identifies the model last."""
    folder.mkdir(parents=True, exist_ok=True)
    with make_draft_folder(folder / "model") as draft:
        model.save(draft)
        set_default_modes(draft)
        for path in sorted(draft.iterdir(), key=lambda path: path.name in LAST):
            target = folder / path.name
            if path.is_dir():
                shutil.rmtree(target, ignore_errors=True)
            path.replace(target)


# Settings that may be larger than before when a training is resumed.
GROWING = ("epochs", "steps")


def check_identity(folder: Path, identity: Mapping[str, Any], ended: bool = False) -> None:
    """Raise InputError if the checkpoint is of another training; only the number of epochs may have grown."""
    path = folder / FOLDER / LAST_CHECKPOINT / STATE
    try:
        before = load_json(path)["identity"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path.parent}: is damaged ({format_one_line(error, 120)})") from None
    for key, value in json.loads(json.dumps(identity)).items():
        was = before.get(key)
        if was == value or (key in GROWING and was is not None and value is not None and was < value):
            continue
        if key in GROWING:
            raise InputError(
                f"{folder}: cannot resume: {key} was {was}, now it is {value}; a training only gets longer"
            )
        if ended:
            raise InputError(f"{folder}: ended already, with {key} {was!r}, now it is {value!r}")
        raise InputError(f"{folder}: cannot resume: {key} was {was!r}, now it is {value!r}")


@dataclass
class StopSignal:
    """A flag set by Ctrl-C, SIGTERM or a test; the training ends after the current step."""

    asked: bool = False


@contextmanager
def handle_signals(stop: StopSignal) -> Iterator[None]:
    """Set the flag on Ctrl-C or SIGTERM inside the block; a second signal interrupts at once."""
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


@dataclass
class Patience:
    """Early stopping after ``most`` validations without a new best; 0 disables it."""

    most: int = 0
    best: float = float("-inf")
    since: int = 0

    def update(self, value: float) -> bool:
        """Record a validation; return True if the patience is exhausted."""
        self.best, self.since = (value, 0) if value > self.best else (self.best, self.since + 1)
        return self.exhausted

    @property
    def exhausted(self) -> bool:
        """Whether the patience is exhausted."""
        return bool(self.most) and self.since >= self.most


@dataclass
class Trainer:
    """A training run, from the start or a checkpoint to the end."""

    objective: Objective
    settings: Settings
    plan: EpochPlan
    folder: Path
    accelerator: Any
    """The ``accelerate.Accelerator`` of the training."""
    runtime: Runtime = field(default_factory=Runtime)
    validation: Validation | None = None
    keep_best: Callable[[], None] = lambda: None
    """A function that is called after a validation that is the best so far."""
    patience: Patience = field(default_factory=Patience)
    identity: dict[str, Any] = field(default_factory=dict)
    """Settings that must equal those of a checkpoint for it to be resumed."""
    stop: StopSignal = field(default_factory=StopSignal)

    def __post_init__(self) -> None:
        self.model = self.objective.model
        self.device = self.model.device
        self.step_module = self.accelerator.prepare_model(self._make_module(), device_placement=False)
        adam = make_optimizer(self.model.module, self.settings, self.device.type)
        self.optimizer = self.accelerator.prepare_optimizer(adam, device_placement=False)
        self.done = 0
        self.best: float | None = None
        default = self.settings.accumulate if self.device.type == "cuda" else 1
        self.together = (self.settings.together or default) if self.objective.joins else 1

    def _make_module(self) -> Any:
        """Wrap the losses of a batch in a module, so that several processes can share its gradients."""
        objective = self.objective
        forward = {"forward": lambda module, batch: objective.parts(batch)}
        module = type("Step", (torch.nn.Module,), forward)()
        module.model = self.model.module
        if get_world_size() > 1 and getattr(self.model.module.config, "model_type", "") != "clip":
            # Some towers have weights that features do not use, such as a pooler; CLIP has none.
            handlers = require("accelerate", "clip").DistributedDataParallelKwargs
            self.accelerator.ddp_handler = handlers(find_unused_parameters=True)
        return module

    def run(self, resume: bool = False, ended: bool = False) -> bool:
        """Train to the end, and write a checkpoint; return False if the training was stopped before.

        If the resumed training has ``ended`` already, only its identity is checked.
        """
        torch.manual_seed(1000 * self.settings.seed + get_rank())  # for dropout; a checkpoint has its own state
        if resume:
            self._restore(ended)
        if ended:
            return True
        log = TrainingLog(self.folder, self.done, writes=get_rank() == 0)
        set_train_mode(self.model.module)
        if self.validation is not None and not self.done:
            self._validate(log)
        finished: bool | None = None
        with handle_signals(self.stop):
            while finished is None:
                finished = self._run_steps(log)
        log.flush()
        # Only the first process validates, so only its patience can be exhausted.
        early = not finished and is_set_anywhere(self.patience.exhausted, self.device)
        if early:
            since = self.patience.most
            steps = f"stopped after step {self.done} of {self.plan.steps}"
            self.runtime.log(f"no better validation in the last {since}: {steps}")
        return finished or early

    def _run_steps(self, log: TrainingLog) -> bool | None:
        """Run the remaining steps; return True at the end, False if stopped, None to retry with less memory."""
        with closing(prepare_batches(self.plan, self.objective, self.done, self.together)) as batches:
            while self.done < self.plan.steps:
                before = self.objective.state()
                try:
                    self._step(batches, log)
                except (torch.OutOfMemoryError, MemoryError) as error:
                    self._reduce_batches(before, error)
                    return None
                if self._finish_step(log):
                    return False
        return True

    def _reduce_batches(self, before: dict[str, Any], error: BaseException) -> None:
        """Undo a step that ran out of memory, and halve the number of batches encoded at once, if possible."""
        if self.together == 1 or get_world_size() > 1:
            half, twice = max(1, self.plan.batch // 2), self.settings.accumulate * 2
            raise InputError(
                f"out of memory with batch_size={self.plan.batch}: try batch_size={half} accumulate={twice}, which "
                f"sums as many examples a step; each is then contrasted with {half - 1} others instead of "
                f"{self.plan.batch - 1}"
            ) from error
        self.optimizer.zero_grad()
        self.objective.restore(before)
        self.together //= 2
        which = f"{self.together} of a step's batches are encoded at once"
        self.runtime.log(f"out of memory: from step {self.done + 1} on, {which}")
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _step(self, batches: Iterator[TrainingBatch], log: TrainingLog) -> None:
        step, numbers = self.done, self.plan.batches(self.done)
        rate = (self.settings.lr or 0.0) * compute_rate(
            step, self.plan.steps, self.settings.warmup_steps, self.settings.decay
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["times"]
        sums: dict[str, Any] = {}
        for members in group_neighbors(numbers, self.together):
            share = len(members) / len(numbers)
            parts = self._backward(next(batches), share, last=members[-1] == numbers[-1])
            for key, value in parts.items():
                sums[key] = sums.get(key, 0.0) + value.detach() * share
        freeze_positions(self.model.module, self.settings.frozen_positions)
        trained = [one for group in self.optimizer.param_groups for one in group["params"] if one.grad is not None]
        norm = self.accelerator.clip_grad_norm_(trained, self.settings.clip_norm or math.inf)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.objective.after_step()
        self.done += 1
        samples = len(numbers) * self.plan.batch * self.plan.processes
        record = {"step": self.done, "epoch": self.plan.epoch(step), "lr": rate}
        log.step(record, {**sums, "scale": self.objective.scale.detach(), "norm": norm}, samples)
        self.runtime.progress("steps", self.done, self.plan.steps)

    def _backward(self, batch: TrainingBatch, share: float, last: bool) -> dict[str, Any]:
        """Compute losses and gradients of a batch; processes exchange gradients after the last of a step."""
        try:
            with nullcontext() if last else self.accelerator.no_sync(self.step_module):
                parts: dict[str, Any] = self.step_module(batch)
                self.accelerator.backward(parts["loss"] * share)
                return parts
        except RuntimeError as error:  # on a CPU, torch raises no special class if memory runs out
            if "not enough memory" in str(error) or "can't allocate" in str(error):
                raise MemoryError from error
            raise

    def _finish_step(self, log: TrainingLog) -> bool:
        """Validate, save a checkpoint or stop after a step, if it is time; return True to stop."""
        ends = self.done % self.plan.steps_in_epoch == 0
        every = self.settings.validate_every
        if self.validation is not None and (ends or (every and self.done % every == 0)):
            self._validate(log)
        stop = is_set_anywhere(self.stop.asked, self.device) and self.done < self.plan.steps
        if ends or stop or self.done % self.settings.save_every == 0:
            log.flush()
            self._save()
            log.pause()
        return stop

    def _validate(self, log: TrainingLog) -> None:
        if get_rank() == 0 and self.validation is not None:
            self.model.module.eval()
            figures = self.validation()
            log.validation(self.done, self.plan.epoch(max(self.done - 1, 0)), figures)
            value = figures[self.validation.goal]
            if self.done and (self.best is None or value > self.best):
                self.best = value
                self.keep_best()
            if self.patience.update(value):
                self.stop.asked = True
            set_train_mode(self.model.module)
        wait()
        log.pause()

    def _save(self) -> None:
        """Write the checkpoint: each process writes its part into a draft, which is renamed when complete."""
        target = self.folder / FOLDER / LAST_CHECKPOINT
        draft = target.with_name(".next")
        if get_rank() == 0:
            shutil.rmtree(draft, ignore_errors=True)
        wait()
        self.accelerator.save_state(str(draft))
        torch.save(self.objective.state(), draft / f"objective_{get_rank()}.pt")
        wait()
        if get_rank() == 0:
            state: dict[str, Any] = {"step": self.done, "best": self.best, "processes": get_world_size()}
            state |= {"identity": self.identity, "patience": [self.patience.best, self.patience.since]}
            with whole_folder(target, True, STATE) as folder:
                for path in draft.iterdir():
                    path.replace(folder / path.name)
                (folder / STATE).write_text(json.dumps(state), encoding="utf-8", newline="\n")
            draft.rmdir()
        wait()

    def _restore(self, ended: bool) -> None:
        """Load the last checkpoint; raise InputError if it is damaged or belongs to another training."""
        folder = self.folder / FOLDER / LAST_CHECKPOINT
        try:
            state = load_json(folder / STATE)
            if state["processes"] != get_world_size():
                raise InputError(
                    f"{self.folder}: {state['processes']} processes began it, not {get_world_size()}; start as many"
                )
            check_identity(self.folder, self.identity, ended)
            self.accelerator.load_state(str(folder))
            _restore_random_state(folder)
            self.objective.restore(torch.load(folder / f"objective_{get_rank()}.pt", weights_only=True))
            self.done, self.best = state["step"], state["best"]
            self.patience.best, self.patience.since = state["patience"]
            if self.identity["steps"] > state["identity"]["steps"]:  # a longer training: early stopping starts anew
                self.patience.since = 0
        except InputError:
            raise
        except Exception as error:  # a damaged file makes the unpickler raise almost anything
            raise InputError(f"{folder}: is damaged ({' '.join(str(error).split())[:120]})") from None


def _restore_random_state(folder: Path) -> None:
    """Restore the random state of a checkpoint; ``load_state`` silently ignores a damaged file."""
    utils = require("accelerate", "clip").utils
    try:
        states = utils.load(folder / f"{utils.RNG_STATE_NAME}_{get_rank()}.pkl")
        random.setstate(states["random_state"])
        np.random.set_state(states["numpy_random_seed"])  # noqa: NPY002 - accelerate stored this one
        torch.set_rng_state(states["torch_manual_seed"])
    except Exception as error:
        raise ValueError(f"random state: {format_one_line(error)}") from error
