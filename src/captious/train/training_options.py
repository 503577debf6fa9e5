"""Options of a training: its data, its settings, and the options of each objective.

The classes are arguments of :func:`captious.train.train` and options of ``captious train``. This module imports no
model library.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from captious.errors import InputError
from captious.options import Argument as Positional
from captious.options import Missing, Option, Options

# Defaults of a fine-tuning.
START: dict[str, Any] = {"epochs": 10, "batch_size": 256, "lr": 1e-5, "head_lr": 0.0, "augment": 0.0}
# Defaults of a model that is trained from random weights.
NEW = {"lr": 1e-3, "epochs": 20}
# Defaults of new heads on two pretrained towers.
DUAL = {"lr": 1e-4, "head_lr": 1e-3, "epochs": 20, "batch_size": 512, "augment": 0.5}
# The same where the image tower is locked, so that one view of each image is seen.
LOCKED = {"lr": 1e-3, "epochs": 30, "batch_size": 512}
# Settings that may differ when a training resumes: they do not move the data or the schedule.
FREE = frozenset({"save_every", "together"})


@dataclass(frozen=True)
class Settings(Options):
    """How to train. None means the default of the model that the training starts from."""

    title = "Training"

    epochs: Annotated[int | None, Option("Epochs; with --resume, a larger number continues the training.", min=1)] = (
        None
    )
    batch_size: Annotated[int | None, Option("Examples per process and forward pass.", min=1)] = None
    """The contrast is among these."""
    accumulate: Annotated[int, Option("Batches summed in one optimizer step.", min=1, rare=True)] = 1
    lr: Annotated[float | None, Option("Largest learning rate.")] = None
    head_lr: Annotated[float | None, Option("Learning rate of projection heads; 0 for the same.", min=0, rare=True)] = (
        None
    )
    """The learning rate of everything but the towers: projection heads and the logit scale."""
    augment: Annotated[float | None, Option("Share of an image's area that a view of it may lose.", rare=True)] = None
    total_steps: Annotated[
        int | None, Option("Optimizer steps of the whole training, instead of epochs.", min=1, rare=True)
    ] = None
    warmup_steps: Annotated[int, Option("Steps until the largest learning rate.", min=0, rare=True)] = 100
    decay: Annotated[
        Literal["cosine", "linear"], Option("Shape of the learning rate after the warm-up.", rare=True)
    ] = "cosine"
    weight_decay: Annotated[float, Option("Weight decay of matrices.", min=0, rare=True)] = 1e-2
    clip_norm: Annotated[float, Option("Maximum norm of the gradient; 0 for no limit.", min=0, rare=True)] = 0.0
    seed: Annotated[int, Option("Random seed, kept in the result.", min=0, max=2**63 - 1)] = 0
    save_every: Annotated[int, Option("Steps between checkpoints.", min=1, rare=True)] = 200
    validate_every: Annotated[
        int, Option("Steps between validations, besides the ends of epochs.", min=0, rare=True)
    ] = 0
    lock: Annotated[
        tuple[str, ...],
        Option("Towers that do not learn: image, text; image:9 for nine layers.", metavar="TOWERS", rare=True),
    ] = ()
    together: int = 0
    """Batches of a step that are encoded at once, for speed: losses stay those of single batches. 0: all, on a GPU."""
    gather: bool = True
    """Contrast over all processes, or within each."""
    frozen_positions: int = 0
    """Rows of the text tower's position table, from the first, that do not learn."""
    beta2: float = 0.999

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lr is not None and self.lr <= 0:
            raise InputError(f"learning rate lr={self.lr:g}, expected more than 0")
        if self.augment is not None and not 0 <= self.augment < 1:
            raise InputError(f"augment={self.augment:g}: expected 0 or more and less than 1")
        if self.augment and any(side.startswith("image") for side in self.lock):
            raise InputError("augment=... shows a new view of each image each epoch; a locked image tower looks once")

    def fill_defaults(self, start: dict[str, Any]) -> Settings:
        """Return the settings with the defaults of the start in place of None."""
        needed = {**START, **start}
        return replace(self, **{name: value for name, value in needed.items() if getattr(self, name) is None})


@dataclass(frozen=True)
class Training(Options):
    """The training data, and the folder of the model."""

    title = "Data and model"

    out: Annotated[Path, Option("Folder or file to write.", flags=("-o",), metavar="PATH")]
    data: Annotated[
        str | None, Positional("Rows with an id or image, and captions: JSONL, CSV, Parquet.", metavar="DATA")
    ] = None
    """A training that resumes without it takes everything from its folder."""
    base: Annotated[str | None, Option("Model to start from: a folder, a checkpoint file, a hub id.")] = None
    validate: Annotated[str | None, Option("Rows to measure the model on while it learns.", metavar="FILE")] = None
    resume: Annotated[bool, Option("Continue from the checkpoint in --out.")] = False
    image_features: Annotated[
        Path | None, Option("File of image features, instead of the images.", metavar="FILE", rare=True)
    ] = None
    """Features of a locked image tower."""
    images: str | Path | None = None
    missing: Missing = "error"
    overwrite: bool = False


class ObjectiveOptions(Options):
    """Base of the options of an objective: its name, its published settings, and the defaults of its start."""

    name: ClassVar[str]
    published: ClassVar[Settings]
    epochs: ClassVar[int] = START["epochs"]
    """Passes over the data where nobody says how many."""

    def resolve_settings(self, settings: Settings | None) -> Settings:
        """Return the settings without None."""
        return (settings or self.published).fill_defaults({"epochs": self.epochs})

    def count_warmup_steps(self, settings: Settings, steps: int) -> int:
        """Return the number of warm-up steps: at most a fifth of all."""
        return min(settings.warmup_steps, steps // 5)


@dataclass(frozen=True)
class ClipOptions(ObjectiveOptions):
    """Contrast of images and captions, in CLIP's manner."""

    name = "clip"
    published = Settings(warmup_steps=100, weight_decay=0.1, beta2=0.98, clip_norm=1.0)
    new: Annotated[Literal["mini"] | None, Option("Start from random weights, with a small model.")] = None
    towers: Annotated[
        tuple[str, str] | None, Option("New heads on an image and a text model: folders or hub ids.", metavar="MODELS")
    ] = None
    heads: Annotated[Literal["residual", "linear"], Option("Kind of the new heads.")] = "residual"
    captions_per_image: Annotated[int, Option("Captions of an image in one step.", min=1)] = 1
    soften: Annotated[float, Option("Share of targets that follows the similarity of captions.", min=0, max=1)] = 0.0

    def resolve_settings(self, settings: Settings | None) -> Settings:
        """Return the settings without None; new models and new heads need a higher learning rate than fine-tuning."""
        settings = settings or self.published
        if self.towers is not None:
            locked = any(side.startswith("image") for side in settings.lock)
            return settings.fill_defaults(LOCKED if locked else DUAL)
        return settings.fill_defaults(NEW if self.new is not None else {})


@dataclass(frozen=True)
class LongClipOptions(ObjectiveOptions):
    """The LongCLIP stage; settings of the code behind LongCLIP*, the base of SPECS (the paper has 1e-5 and 100 × 4)."""

    name = "longclip"
    published = Settings(None, 200, 2, 1e-6, warmup_steps=200, frozen_positions=20)
    epochs = 6
    components: Annotated[int, Option("Principal components of images, for first sentences.", min=1)] = 32
    smoothing: Annotated[float, Option("Label smoothing.", min=0, max=1)] = 0.1
    logit_scale: float | None = 4.6052
    """Logarithm of the factor on cosines to start with, ln 100 as published; None keeps the model's."""


@dataclass(frozen=True)
class SpecsOptions(ObjectiveOptions):
    """Options of SPECS' specificity objective. Every default is the published code's, except the coin per unit.

    The paper trained 3 epochs, the script 6.
    """

    name = "specs"
    published = Settings(None, 100, 4, 1e-5, warmup_steps=40, gather=False, frozen_positions=20)
    epochs = 3
    loss_weights: Annotated[
        tuple[float, float, float], Option("Weights of contrast, positive and negative hinge.", metavar="NUMBERS")
    ] = (1.0, 8.0, 0.8)
    margin: Annotated[str, Option("code, paper, or a number in the unit of the hinges.")] = "code"
    units: Annotated[
        Literal["logit", "cosine"],
        Option("Unit of the hinges: logit, cosines times the scale, as SPECS's code; cosine, as its paper."),
    ] = "logit"
    shuffle: Annotated[float, Option("Share of negatives whose words are shuffled.", min=0, max=1)] = 0.9
    negatives: Annotated[
        Literal["dataset", "epoch", "batch", "given"],
        Option("Where wrong units come from; epoch: drawn again, given: the rows' wrong_units."),
    ] = "dataset"
    contrast: Annotated[Literal["text-to-image", "both"], Option("Directions of the contrast.")] = "text-to-image"
    grammar: Annotated[
        Literal["code", "paper"], Option("Grammar of detail units: that of SPECS's code, or of its paper.")
    ] = "code"
    shuffle_rows: bool = False
    """Mix the words of the first rows' negatives, as published, instead of tossing a coin."""


# Defaults of UMIC's released trainer (train_metric.py at commit 1f1d434). Its batch of 4,096 is not taken over: the
# help text calls it tokens, the loader takes it for examples.
RELEASED = Settings(
    None,
    64,
    16,
    1e-5,
    total_steps=100_000,
    warmup_steps=4_000,
    decay="linear",
    weight_decay=0.0,
    beta2=0.98,
    clip_norm=0.25,
)


@dataclass(frozen=True)
class UmicOptions(ObjectiveOptions):
    """UMIC: rank true captions above wrong ones. Settings are UNITER's own for matching; those of UMIC's released
    trainer are a preset.
    """

    name = "umic"
    published = Settings(None, 64, weight_decay=0.01, beta2=0.98, clip_norm=2.0)
    backbone: Annotated[
        str, Option('"fusion(width=256,layers=2,dropout=0.1)", vilt, blip, or a model to continue from.')
    ] = "fusion"
    encoder: Annotated[str, Option("Hub id, folder, checkpoint file or captious-mini.", metavar="MODEL")] = ""
    """The encoder of a fusion; for the others it says which images look alike."""
    regions: Annotated[str | None, Option("Folder of region features, for a UNITER.", metavar="FOLDER")] = None
    kinds: Annotated[tuple[str, ...], Option("Kinds of wrong captions.", flags=("-k",), metavar="KINDS")] = (
        *("hard", "random", "substitute", "shuffle", "repeat"),
    )
    margin: Annotated[float, Option("Margin between a true caption's score and a wrong one's.")] = 0.2
    draws: Annotated[
        int, Option("Sets of negatives, used in turn by epochs; 0: new ones in each.", min=0, rare=True)
    ] = 3
    hold_out: Annotated[float, Option("Share of images to validate on, without --validate.", min=0, max=0.9)] = 0.05
    early_stop: Annotated[
        int, Option("Stop after this number of validations without a new best; 0: never.", min=0, rare=True)
    ] = 0
    warmup_share: Annotated[float, Option("Share of all steps until the largest learning rate.", min=0, max=0.2)] = 0.1
    preset: Annotated[
        Literal["captious", "released"],
        Option("Defaults of the settings: ours, or those of UMIC's released trainer (100,000 steps)."),
    ] = "captious"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.margin <= 1:
            raise InputError(f"margin {self.margin:g}: expected more than 0 and at most 1, as scores are")

    def resolve_settings(self, settings: Settings | None) -> Settings:
        """Return the settings without None; a fusion is trained from scratch, so its learning rate is higher.

        Those of the released trainer take the place of settings that are not named.
        """
        if self.preset == "released":
            asked = settings or self.published
            named = {name: value for name, value in vars(asked).items() if value != getattr(self.published, name)}
            if "epochs" in named and "total_steps" not in named:
                named["total_steps"] = None
            return replace(RELEASED, **named).fill_defaults({})
        return (settings or self.published).fill_defaults({"lr": 5e-4 if self.backbone.startswith("fusion") else 5e-5})

    def count_warmup_steps(self, settings: Settings, steps: int) -> int:
        """Return the number of warm-up steps: a share of all, or at most those of the released trainer."""
        if self.preset == "released":
            return min(settings.warmup_steps, round(0.2 * steps))
        return round(self.warmup_share * steps)


OBJECTIVES: dict[str, type[ObjectiveOptions]] = {
    one.name: one for one in (ClipOptions, LongClipOptions, SpecsOptions, UmicOptions)
}


def as_record(options: Any) -> dict[str, Any]:
    """Convert options to plain values for JSON."""
    return {
        name: list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
        for name, value in asdict(options).items()
    }


def from_record(kind: Any, record: dict[str, Any]) -> Any:
    """Restore options from `as_record`."""
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in record.items()}
    return kind(**plain)
