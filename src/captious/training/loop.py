"""The loop that trains any objective: AdamW, warm-up and cosine, accumulation, mixed precision, several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.extras import require
from captious.training import checkpoints, processes
from captious.training.batches import ahead, as_module, grouped
from captious.training.log import Log
from captious.training.objectives import Batch, Objective
from captious.training.optimiser import clipped, held_rows, optimiser, precision_of, train_mode
from captious.training.schedule import Plan, rate
from captious.training.settings import Settings
from captious.training.stopping import Stop, signals

torch = require("torch", "clip")

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
        self.optimiser = optimiser(self.encoder.module, self.settings, self.device.type)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=kind == "fp16")
        self.done = 0
        self.best: float | None = None
        self.warmup = min(self.settings.warmup, self.plan.steps // 5)
        usual = self.settings.accumulate if self.device.type == "cuda" else 1
        self.together = (self.settings.together or usual) if self.objective.joins else 1

    def run(self, resume: bool = False) -> bool:
        """Train; False where it was stopped before its end. A checkpoint is there in either case."""
        torch.manual_seed(1000 * self.settings.seed + processes.rank())  # for dropout; a checkpoint has its own state
        if resume:
            self._restore()
        log = Log(self.folder, self.done, writes=processes.rank() == 0)
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
        if self.together == 1 or processes.world() > 1:
            raise InputError(self._too_large()) from error
        self.optimiser.zero_grad(set_to_none=True)
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
        for group in self.optimiser.param_groups:
            group["lr"] = now * group["times"]
        sums: dict[str, Any] = {}
        for members in grouped(numbers, self.together):
            waits = members[-1] != numbers[-1] and processes.world() > 1
            share = len(members) / len(numbers)
            with model.no_sync() if waits else nullcontext():
                parts = self._backward(model, next(batches), share)
            for key, value in parts.items():
                sums[key] = sums.get(key, 0.0) + value.detach() * share
        hold()
        trained = [one for group in self.optimiser.param_groups for one in group["params"] if one.grad is not None]
        self.scaler.unscale_(self.optimiser)
        norm = clipped(trained, self.settings.clip)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.optimiser.zero_grad(set_to_none=True)
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
        stop = processes.anyone(self.stop.asked, self.device) and self.done < self.plan.steps
        if ends or stop or self.done % self.settings.save_every == 0:
            log.flush()
            self._save()
            log.pause()
        if ends:
            self.after()
        return stop

    def _validate(self, log: Log) -> None:
        if processes.rank() == 0 and self.validate is not None:
            self.encoder.module.eval()
            found = self.validate()
            log.validation(self.done, self.plan.epoch(max(self.done - 1, 0)), found)
            if self.done and (self.best is None or found[self.goal] > self.best):
                self.best = found[self.goal]
                self.keep_best()
            self.after()
            train_mode(self.encoder.module)
        processes.wait()
        log.pause()

    def _save(self) -> None:
        contents = {
            "step": self.done,
            "best": self.best,
            "identity": self.identity,
            "objective": self.objective.state(),
            "model": self.encoder.module.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "scaler": self.scaler.state_dict(),
        }
        checkpoints.save(self.folder / checkpoints.FOLDER, contents)

    def _restore(self) -> None:
        found = checkpoints.load(self.folder / checkpoints.FOLDER)
        for key, value in self.identity.items():
            was = found["identity"].get(key)
            if was != value:
                raise InputError(f"{self.folder}: cannot resume: {key} was {was!r}, now it is {value!r}")
        self.encoder.module.load_state_dict(found["model"])
        self.optimiser.load_state_dict(found["optimiser"])
        self.scaler.load_state_dict(found["scaler"])
        self.objective.restore(found["objective"])
        checkpoints.restore_generators(found["generators"])
        self.done, self.best = found["step"], found["best"]
