"""A BERT with a small head as classifier, fine-tuned or frozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from captious.bias.lstm import device_named
from captious.bias.tasks import Progress, Task
from captious.errors import InputError
from captious.extras import require
from captious.files import digest
from captious.measurement import Floats

BERT = "bert-base-uncased"


@dataclass(frozen=True)
class Bert:
    """[CLS] of the last layer, BatchNorm, Linear, BatchNorm, LeakyReLU, Linear; AdamW with weight decay.

    Fine-tuned: 5 epochs at 1e-5. Frozen: 20 epochs at 5e-5, as the original's README has it; RELIC's scripts froze the
    encoder without setting these (5 epochs, 1e-5), which the preset ``relic`` repeats. As in the originals a frozen
    encoder's own dropout stays on while the head trains; ``frozen_dropout`` turns that off.

    Captions are padded to the longest of their batch, not to ``length``: with attention masked the numbers are the
    same. Runs are trained one after another, each with its own seed.
    """

    model: str = BERT
    frozen: bool = False
    epochs: int = 5
    rate: float = 1e-5
    batch: int = 64
    length: int = 64
    hidden: int = 256
    decay: float = 0.1
    frozen_dropout: bool = True
    device: str = "auto"

    @property
    def name(self) -> str:
        """``bert-ft`` or ``bert-pre``, with the model's name where it is not BERT base."""
        kind = "bert-pre" if self.frozen else "bert-ft"
        return kind if self.model == BERT else f"{kind}({Path(self.model).name})"

    @classmethod
    def tuned(cls, **changed: Any) -> Bert:
        """The fine-tuned classifier."""
        return cls(**changed)

    @classmethod
    def pre(cls, **changed: Any) -> Bert:
        """The frozen classifier."""
        return cls(**{"frozen": True, "epochs": 20, "rate": 5e-5, **changed})

    def settings(self) -> Mapping[str, Any]:
        """Everything that can move its numbers; of a local model, its weights and not its place."""
        kept = {key: value for key, value in asdict(self).items() if key != "device"}
        products = "tf32" if device_named(self.device) == "cuda" else "float32"
        versions = {name: require(name, "bias").__version__ for name in ("torch", "transformers")}
        return {"classifier": self.name, **kept, "model": _identity(self.model), "products": products, **versions}

    def stacks(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """One at a time."""
        return [[task] for task in tasks]

    def train(self, tasks: Sequence[Task], progress: Progress) -> list[Floats]:
        """Train each task on a fresh copy of the encoder."""
        from captious.bias import tuning

        return [tuning.train(self, task, progress) for task in tasks]


@cache
def _identity(model: str) -> str:
    """The name of a hub model, or the content of a local one."""
    folder = Path(model)
    if not folder.is_dir():
        return model
    weights = sorted((*folder.glob("*.safetensors"), *folder.glob("*.bin")))
    return f"{folder.name}:{digest(*(path.read_bytes() for path in weights))}"


@cache
def loaded(model: str) -> tuple[Any, Any]:
    """Tokeniser and encoder of a local folder or a hub id."""
    transformers = require("transformers", "bias")
    try:
        return transformers.AutoTokenizer.from_pretrained(model), transformers.AutoModel.from_pretrained(model).float()
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:160]
        raise InputError(f"BERT {model!r}: cannot be loaded, expected a local folder or a hub id ({reason})") from None
