"""UMIC: rank the true caption of an image above wrong ones, by a margin, on sigmoid scores.

The trained model is a cross-encoder: a fusion over a frozen encoder, ViLT, BLIP, UNITER, or a model trained before.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious._core.files import load_json
from captious._core.notation import convert_arguments, parse_spec
from captious._core.types import Bools, Ints
from captious.edits.lexicon import CaptionCorpus, Lexicon
from captious.errors import InputError, format_suggestion, require
from captious.models import crossencoders
from captious.models.crossencoders import Backbone, LaidOutImages, Texts
from captious.models.hub import find_local
from captious.train import distributed
from captious.train._data import Example
from captious.train._loop import MARKER
from captious.train._objective import Method, Objective, TrainingBatch, Validation
from captious.train._schedule import Rows
from captious.train.negatives import Negatives, check_kinds, make_negatives
from captious.train.similar_images import SimilarImages, spread_vectors

torch = require("torch", "clip")

Tensor = Any
# Number of captions scored at a time in validation, each with its negatives.
CHUNK = 64
# Default encoder of a fusion: that of CLIPScore.
ENCODER = "openai/clip-vit-base-patch32"
# Files in an encoder's folder that are not part of the encoder.
UNUSED = ("checkpoints", "best", "log.jsonl", "encoder")


@dataclass(frozen=True, eq=False)
class NegativeTable:
    """Captions with their negatives as text numbers, n × (1 + kinds); −1 if a negative could not be made."""

    kinds: tuple[str, ...]
    image: Ints
    """The image of each caption."""
    numbers: Sequence[Ints]
    """One array for each set of negatives."""

    def rows(self, rows: Rows, draw: int) -> tuple[Ints, Bools]:
        """Return the texts of some captions, and which negatives exist; missing ones are replaced by the caption
        itself.
        """
        numbers = self.numbers[draw % len(self.numbers)][rows]
        return np.where(numbers < 0, numbers[:, :1], numbers), numbers[:, 1:] >= 0


@dataclass
class RankingObjective(Objective):
    """The objective that ranks the true caption of an image above its negatives."""

    backbone: Backbone
    pictures: LaidOutImages
    texts: Texts
    table: NegativeTable
    margin: float = 0.2

    @property
    def model(self) -> Backbone:
        """The cross-encoder that is trained."""
        return self.backbone

    @property
    def scale(self) -> Tensor:
        """The factor of the logit."""
        return self.backbone.scale

    def __len__(self) -> int:
        return len(self.table.image)

    def batch(self, rows: Rows, epoch: int, count: int = 1) -> TrainingBatch:
        """Prepare images, each with its caption and that caption's negatives of this epoch."""
        numbers, present = self.table.rows(rows, epoch)
        pictures = self.pictures.take(self.table.image[rows])
        return TrainingBatch(pictures, self.texts.take(numbers), torch.from_numpy(present).to(self.backbone.device))

    def parts(self, batch: TrainingBatch) -> dict[str, Tensor]:
        """Compute the hinge loss, the share of negatives ranked below the caption, and mean scores."""
        scores = torch.sigmoid(self.backbone.logits(batch.images, batch.texts).float())
        return compute_losses(scores, batch.extra, self.margin)

    def calibrate(self) -> None:
        """Fit a new fusion's linear function of the cosine to the first captions and their negatives."""
        rows = np.arange(min(len(self), 2000))
        numbers, _ = self.table.rows(rows, 0)
        parts = []
        for start in range(0, len(rows), 256):
            some = rows[start : start + 256]
            image = self.pictures.take(self.table.image[some])[1]
            text = self.texts.take(numbers[some])[2]
            parts.append((image[:, None] * text).sum(-1).flatten())
        self.backbone.module.calibrate(torch.cat(parts))


def compute_losses(scores: Tensor, there: Tensor, margin: float) -> dict[str, Tensor]:
    """Return the loss of scores n × (1 + kinds), true caption first: mean over negatives of max(0, margin + s⁻ − s⁺).

    >>> scores = torch.tensor([[0.7, 0.4, 0.6], [0.5, 0.9, 0.5]])
    >>> parts = compute_losses(scores, torch.tensor([[True, True], [True, False]]), margin=0.2)
    >>> [round(float(parts[name]), 3) for name in ("loss", "ranked")]  # (0 + .1) / 2 and .6, then their mean
    [0.325, 0.667]
    """
    gaps = scores[:, :1] - scores[:, 1:]
    weights = there.to(scores.dtype)
    each = (torch.relu(margin - gaps) * weights).sum(1) / weights.sum(1).clamp(min=1)
    total = weights.sum().clamp(min=1)
    wrong, ranked = (scores[:, 1:] * weights).sum() / total, ((gaps > 0) * weights).sum() / total
    return {"loss": each.mean(), "ranked": ranked, "right": scores[:, 0].mean(), "wrong": wrong}


@dataclass(frozen=True)
class RankingAccuracy:
    """The percentage of negatives that score strictly below their caption, by kind; ``ranking`` is over all.

    Kinds without any negative are left out.
    """

    backbone: Backbone
    pictures: LaidOutImages
    texts: Texts
    table: NegativeTable
    goal: str = "ranking"

    def __call__(self) -> dict[str, float]:
        """Score every caption of the table with its negatives."""
        right, total = np.zeros(len(self.table.kinds)), np.zeros(len(self.table.kinds))
        with torch.no_grad():
            for start in range(0, len(self.table.image), CHUNK):
                rows = np.arange(start, min(start + CHUNK, len(self.table.image)))
                numbers, present = self.table.rows(rows, 0)
                batch = self.pictures.take(self.table.image[rows]), self.texts.take(numbers)
                logits = self.backbone.logits(*batch).double().cpu().numpy()
                right += ((logits[:, :1] > logits[:, 1:]) & present).sum(axis=0)
                total += present.sum(axis=0)
        shares = {
            kind: _compute_percent(one, of) for kind, one, of in zip(self.table.kinds, right, total, strict=True) if of
        }
        return {"ranking": _compute_percent(right.sum(), total.sum()), **shares}


def _compute_percent(part: float, whole: float) -> float:
    return round(100 * float(part) / float(whole), 4)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A corpus with its negatives: the inputs of a backbone, and the table that refers to them."""

    corpus: CaptionCorpus
    paths: list[str]
    """The image paths in the order of ``corpus.ids``."""
    texts: list[str]
    table: NegativeTable
    notes: list[str]


def sort_examples(examples: Sequence[Example]) -> list[Example]:
    """Sort the examples by id; use the image's path as the id if several images share one."""
    if len({example.id for example in examples}) < len(examples):
        examples = [replace(example, id=str(example.image)) for example in examples]
    return sorted(examples, key=lambda example: example.id)


def prepare_corpus(
    examples: Sequence[Example],
    kinds: Sequence[str],
    draws: int,
    seed: int,
    features: npt.NDArray[Any] | None = None,
    name: str = "captions",
) -> Prepared:
    """Make ``draws`` sets of negatives; ``features`` are image vectors, for finding similar images."""
    corpus = CaptionCorpus.of({example.id: example.captions for example in examples}, name)
    lexicon = Lexicon.of(corpus)
    near = SimilarImages.of(corpus, features) if "hard" in kinds else None
    sets = [
        make_negatives(corpus, kinds, seed=seed + 1000003 * draw, lexicon=lexicon, near=near) for draw in range(draws)
    ]
    numbers: dict[str, int] = {}
    own = np.array([numbers.setdefault(text, len(numbers)) for text in corpus.texts], np.int64)
    tables = [np.concatenate([own[:, None], _number_texts(one, numbers)], axis=1) for one in sets]
    if not any((table[:, 1:] >= 0).any() for table in tables):
        raise InputError(f"{name}: no negative can be made from {len(corpus)} captions of {len(corpus.ids)} images")
    table = NegativeTable(sets[0].kinds, corpus.image, tables)
    return Prepared(corpus, [str(one.image) for one in examples], list(numbers), table, _describe_fallbacks(sets[0]))


def _number_texts(drawn: Negatives, numbers: dict[str, int]) -> Ints:
    """Return the text numbers of captions × kinds, adding new texts; −1 if a negative could not be made."""
    indices = [
        numbers.setdefault(text, len(numbers)) if kind >= 0 else -1
        for text, kind in zip(drawn.texts, drawn.actual.tolist(), strict=True)
    ]
    return np.array(indices, np.int64).reshape(len(drawn.corpus), len(drawn.kinds))


def _describe_fallbacks(drawn: Negatives) -> list[str]:
    """Describe the replacements for kinds that could not be made for every caption."""
    notes = []
    for kind, counts in drawn.counts().items():
        instead = {name: count for name, count in counts.items() if name != kind and count}
        if instead:
            of = f"{sum(instead.values())} of {sum(counts.values())}"
            others = (
                f"nothing for {count}" if name == "none" else f"{count} {name}" for name, count in instead.items()
            )
            notes.append(f"{kind} negatives: {of} could not be made; instead: {', '.join(others)}")
    return notes


def split_held_out(examples: list[Example], share: float, seed: int) -> tuple[list[Example], list[Example]]:
    """Split the examples into training and validation, which gets a share of at most 1,000 images."""
    count = min(1000, int(len(examples) * share))
    if count < 2:
        return examples, []
    chosen = set(np.random.default_rng([seed, 4]).permutation(len(examples))[:count].tolist())
    parts: tuple[list[Example], list[Example]] = ([], [])
    for number, example in enumerate(examples):
        parts[number in chosen].append(example)
    return parts


class UmicMethod(Method):
    """The training of ``captious train umic``."""

    merges = True

    def examples(self) -> tuple[list[Example], list[Example]]:
        """Read the examples by image; without validation rows, hold some out."""
        options = self.job.options
        check_kinds(options.kinds)
        examples, checks = (sort_examples(part) for part in super().examples())
        if self.job.training.validate is None:
            examples, checks = split_held_out(examples, options.hold_out, self.job.settings.seed)
            if checks:
                counts = f"{len(checks)} images are held out for validation, {len(examples)} are used for training"
                self.notes.append(counts)
            elif options.early_stop:
                raise InputError("early_stop=... needs a validation: pass validate=..., or more images to hold out")
        return examples, checks

    def start(self, examples: Sequence[Example]) -> Backbone:
        """Make a new cross-encoder, or load an existing one."""
        options = self.job.options
        return starting_backbone(options.backbone, options.encoder, options.regions, self.job.settings.seed)

    def objective(self, examples: Sequence[Example], model: Any) -> Objective:
        """Make the objective with negatives, drawn anew for each epoch or used in turn."""
        options, settings = self.job.options, self.job.settings
        usable = self._select_usable(examples, model)
        self._warn_about_encoder()
        vectors = self._encode_images(usable, model)
        draws = options.draws or settings.epochs or 1
        data = prepare_corpus(usable, options.kinds, draws, settings.seed, vectors, self.job.data)
        self.notes += data.notes
        ranking = RankingObjective(*_lay_out(model, data), options.margin)
        if options.backbone.startswith("fusion"):
            ranking.calibrate()
        return ranking

    def validation(self, checks: Sequence[Example], model: Any) -> Validation:
        """Make the validation by ranking accuracy."""
        usable = self._select_usable(checks, model, "validation: ")
        seed, name = self.job.settings.seed + 1, self.job.training.validate or self.job.data
        data = prepare_corpus(usable, self.job.options.kinds, 1, seed, self._encode_images(usable, model), name)
        self.notes += [f"validation: {note}" for note in data.notes]
        return RankingAccuracy(*_lay_out(model, data))

    def keep(self, model: Any) -> None:
        """Copy a local encoder into the output folder, because the model needs it."""
        weights, target = getattr(model, "weights", None), Path(self.job.training.out) / "encoder"
        folder = find_local(weights) if weights else None
        if folder is not None and folder.is_dir() and not target.exists():
            shutil.copytree(folder, target, ignore=shutil.ignore_patterns(*UNUSED))

    def _warn_about_encoder(self) -> None:
        """Add a note if the encoder was trained on the same file, according to its record."""
        encoder, data = Path(self.job.options.encoder), Path(self.job.data)
        with suppress(OSError, ValueError, KeyError, TypeError):
            record = load_json(encoder / MARKER)
            if self.job.options.encoder and Path(record["data"]).resolve() == data.resolve():
                self.notes.append(
                    f"{encoder.name} was trained on {data.name} too and knows its images well: other images, or few "
                    "epochs, make a metric that works for new ones"
                )

    def _select_usable(self, examples: Sequence[Example], model: Backbone, prefix: str = "") -> list[Example]:
        """Return the examples with a readable image (or regions); others raise InputError, or are skipped and noted."""
        if distributed.get_rank():  # the first process encodes, the others then read its cache
            distributed.wait()
        faults = model.pictures([str(example.image) for example in examples]).faults
        if not distributed.get_rank():
            distributed.wait()
        if not faults:
            return list(examples)
        first, more = next(iter(faults.values())), f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        if self.job.training.missing != "skip" or len(faults) == len(examples):
            raise InputError(f"{first}{more}; missing='skip' leaves such images out")
        self.notes.append(f"{prefix}{len(faults)} images left out: {first}{more}")
        return [example for number, example in enumerate(examples) if number not in faults]

    def _encode_images(self, examples: Sequence[Example], model: Backbone) -> Any:
        """Compute image vectors for finding similar images, with the fusion's encoder or a given one."""
        if "hard" not in self.job.options.kinds:
            return None
        from captious.models.features import image_features
        from captious.models.loading import load

        name = self.job.options.encoder
        encoder: Any = getattr(model, "encoder", None) or (load(name) if name else None)
        if encoder is None:
            return None
        encoded = image_features(encoder, [example.image for example in examples])
        return spread_vectors(encoded.rows, np.asarray(encoded.index))


def _lay_out(backbone: Backbone, data: Prepared) -> tuple[Backbone, LaidOutImages, Texts, NegativeTable]:
    return backbone, backbone.pictures(data.paths), backbone.texts(data.texts, keep=False), data.table


@dataclass(frozen=True)
class FusionSizes:
    """Parameters of a new fusion, as in ``fusion(width=256,layers=2)``."""

    width: int = 256
    layers: int = 2
    dropout: float = 0.1
    prefix: str = ""


def starting_backbone(written: str, encoder: str = "", regions: str | None = None, seed: int = 0) -> Backbone:
    """Return the initial model: ``fusion(...)``, ``vilt``, ``blip``, or a folder or hub id.

    Raise InputError for options that do not apply to this backbone.
    """
    from captious.models.fusion import make_fusion
    from captious.models.image_text_matching import DEFAULTS, LOADERS
    from captious.models.uniter import load_uniter

    names, folder = ("fusion", *LOADERS), Path(written)
    name, values = (written, {}) if folder.exists() or "/" in written else parse_spec(written, "backbone", "fusion")
    if name in names and regions is not None:
        raise InputError(f"regions={regions}: is for a UNITER, but backbone={name}")
    if name == "fusion":
        sizes = vars(FusionSizes(**convert_arguments(FusionSizes, values, name)))
        return make_fusion(encoder or ENCODER, seed, **sizes)
    if values:
        raise InputError(f"backbone={written}: only a new fusion has parameters")
    if name in LOADERS:
        return LOADERS[name](DEFAULTS[name])
    if (folder / crossencoders.MARKER).is_file():
        return _load_earlier(folder, encoder, regions)
    if regions is not None:
        return load_uniter(folder, regions)
    kind = ""
    with suppress(OSError, ValueError):
        kind = load_json(folder / "config.json").get("model_type", "")
    for model, load in LOADERS.items():
        if kind == model or (not folder.exists() and model in written.lower()):
            return load(written)
    raise InputError(
        f"backbone={written}: expected {', '.join(names)}, or a folder or hub id of a ViLT, a BLIP or an earlier "
        f"training{format_suggestion(written, names)}"
    )


def _load_earlier(folder: Path, encoder: str, regions: str | None) -> Backbone:
    """Load a model from an earlier training; a fusion keeps its own encoder."""
    record = crossencoders.read_marker(folder)
    if encoder and record["backbone"] == "fusion" and encoder != record["encoder"]["weights"]:
        own = record["encoder"]["weights"]
        raise InputError(
            f"encoder={encoder}: {folder} is {crossencoders.get_metric_name('fusion')} and continues with its own, "
            f"{own!r}"
        )
    return crossencoders.open_backbone(folder, regions)
