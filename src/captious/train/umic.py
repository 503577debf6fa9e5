"""What UMIC learns: the true caption of an image above wrong ones, by a margin, on sigmoid scores."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from captious._files import digest, whole_file
from captious._typing import Bools, Ints
from captious._version import __version__
from captious.errors import InputError, nearest, require
from captious.models.crossencoders import Backbone, Pictures, Texts, called
from captious.models.devices import device_called
from captious.models.hub import local
from captious.options import Runtime, using
from captious.train import curves
from captious.train import loop as log
from captious.train import loop as processes
from captious.train.data import Example, read_examples
from captious.train.lexicon import Corpus, Lexicon
from captious.train.loop import MARKER, Report, Stop, Trainer, prepare, put_model
from captious.train.negatives import KINDS, Alike, Negatives, check, negatives
from captious.train.run import Outcome
from captious.train.schedule import FREE, Plan, Rows, Settings, as_record

torch = require("torch", "clip")

Tensor = Any
CHUNK = 64
"""Captions that validation judges at a time, each with its negatives."""


@dataclass(frozen=True)
class Learner:
    """The backbone where the loop looks for an encoder."""

    encoder: Backbone

    @property
    def scale(self) -> Tensor:
        """One number for the log."""
        return self.encoder.scale


@dataclass(frozen=True, eq=False)
class Table:
    """Captions with their negatives: text numbers, n × (1 + kinds), −1 where a negative could not be made."""

    kinds: tuple[str, ...]
    image: Ints
    """The image of each caption."""
    numbers: Sequence[Ints]
    """One array for each draw of negatives."""

    def rows(self, rows: Rows, draw: int) -> tuple[Ints, Bools]:
        """Texts of some captions and which negatives are there; the caption itself stands in for those that are not."""
        numbers = self.numbers[draw % len(self.numbers)][rows]
        return np.where(numbers < 0, numbers[:, :1], numbers), numbers[:, 1:] >= 0


class Batch(NamedTuple):
    """A batch laid out for the backbone."""

    pictures: Any
    texts: Any
    there: Tensor


@dataclass
class Patience:
    """Stops a training after so many validations without a new best; 0 never does."""

    most: int = 0
    best: float = float("-inf")
    since: int = 0

    def see(self, value: float) -> bool:
        """Note a validation; True when it is enough."""
        self.best, self.since = (value, 0) if value > self.best else (self.best, self.since + 1)
        return bool(self.most) and self.since >= self.most


@dataclass
class Ranking:
    """See :class:`captious.train.contrast.Objective`."""

    backbone: Backbone
    pictures: Pictures
    texts: Texts
    table: Table
    margin: float = 0.2
    patience: Patience = field(default_factory=Patience)
    joins: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.towers = Learner(self.backbone)

    def __len__(self) -> int:
        return len(self.table.image)

    def batch(self, rows: Rows, epoch: int, count: int = 1) -> Batch:
        """Images, each with its caption and that caption's negatives of this epoch."""
        numbers, there = self.table.rows(rows, epoch)
        pictures = self.pictures.take(self.table.image[rows])
        return Batch(pictures, self.texts.take(numbers), torch.from_numpy(there).to(self.backbone.device))

    def parts(self, batch: Batch) -> dict[str, Tensor]:
        """The hinge, the share of negatives that are ranked below, and mean scores."""
        scores = torch.sigmoid(self.backbone.logits(batch.pictures, batch.texts).float())
        return losses(scores, batch.there, self.margin)

    def state(self) -> dict[str, Any]:
        """How long the best validation is past."""
        return {"best": self.patience.best, "since": self.patience.since}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what was carried."""
        self.patience.best, self.patience.since = state["best"], state["since"]

    def after_step(self) -> None:
        """Nothing to mend."""


def losses(scores: Tensor, there: Tensor, margin: float) -> dict[str, Tensor]:
    """Of scores n × (1 + kinds), the true caption first: mean over its negatives of max(0, margin + s⁻ − s⁺).

    >>> scores = torch.tensor([[0.7, 0.4, 0.6], [0.5, 0.9, 0.5]])
    >>> found = losses(scores, torch.tensor([[True, True], [True, False]]), margin=0.2)
    >>> [round(float(found[name]), 3) for name in ("loss", "ranked")]  # (0 + .1) / 2 and .6, then their mean
    [0.325, 0.667]
    """
    gaps = scores[:, :1] - scores[:, 1:]
    known = there.to(scores.dtype)
    each = (torch.relu(margin - gaps) * known).sum(1) / known.sum(1).clamp(min=1)
    wrong = (scores[:, 1:] * known).sum() / known.sum().clamp(min=1)
    ranked = ((gaps > 0) * known).sum() / known.sum().clamp(min=1)
    return {"loss": each.mean(), "ranked": ranked, "right": scores[:, 0].mean(), "wrong": wrong}


@dataclass(frozen=True)
class Accuracy:
    """Share of negatives that score strictly below their caption, in per cent, by kind; ``ranking`` is over all.

    A kind of which there is no negative is left out.
    """

    backbone: Backbone
    pictures: Pictures
    texts: Texts
    table: Table
    goal: str = "ranking"

    def __call__(self) -> dict[str, float]:
        """Judge every caption of the table with its negatives."""
        right, total = np.zeros(len(self.table.kinds)), np.zeros(len(self.table.kinds))
        with torch.no_grad():
            for start in range(0, len(self.table.image), CHUNK):
                rows = np.arange(start, min(start + CHUNK, len(self.table.image)))
                numbers, there = self.table.rows(rows, 0)
                batch = self.pictures.take(self.table.image[rows]), self.texts.take(numbers)
                logits = self.backbone.logits(*batch).double().cpu().numpy()
                right += ((logits[:, :1] > logits[:, 1:]) & there).sum(axis=0)
                total += there.sum(axis=0)
        shares = {kind: _share(one, of) for kind, one, of in zip(self.table.kinds, right, total, strict=True) if of}
        return {"ranking": _share(right.sum(), total.sum()), **shares}


def _share(part: float, whole: float) -> float:
    return round(100 * float(part) / float(whole), 4)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A corpus with its negatives: what a backbone has to lay out, and how the captions refer to it."""

    corpus: Corpus
    paths: list[Path]
    """In the order of ``corpus.ids``."""
    texts: list[str]
    table: Table
    notes: list[str]


def keyed(examples: Sequence[Example]) -> dict[str, Example]:
    """Examples by id, or by the image's path where an id stands for several images; sorted."""
    ids = [example.id for example in examples]
    names = ids if len(set(ids)) == len(ids) else [str(example.image) for example in examples]
    return dict(sorted(zip(names, examples, strict=True)))


def prepared(
    examples: dict[str, Example],
    kinds: Sequence[str],
    draws: int,
    seed: int,
    features: npt.NDArray[Any] | None = None,
    name: str = "captions",
) -> Prepared:
    """Make ``draws`` sets of negatives; ``features`` are vectors of the images, for those that look alike."""
    corpus = Corpus.of({key: example.captions for key, example in examples.items()}, name)
    lexicon = Lexicon.of(corpus)
    near = Alike.of(corpus, features) if "hard" in kinds else None
    sets = [negatives(corpus, kinds, seed=seed + 1000003 * draw, lexicon=lexicon, near=near) for draw in range(draws)]
    numbers: dict[str, int] = {}
    own = np.array([numbers.setdefault(text, len(numbers)) for text in corpus.texts], np.int64)
    tables = [np.concatenate([own[:, None], _numbered(made, numbers)], axis=1) for made in sets]
    if not any((table[:, 1:] >= 0).any() for table in tables):
        raise InputError(f"{name}: no negative can be made from {len(corpus)} captions of {len(corpus.ids)} images")
    table = Table(sets[0].kinds, corpus.image, tables)
    return Prepared(corpus, [one.image for one in examples.values()], list(numbers), table, _notes(sets[0]))


def _numbered(made: Negatives, numbers: dict[str, int]) -> Ints:
    """Captions × kinds: the numbers of texts, new ones added; −1 where none could be made."""
    found = [
        numbers.setdefault(text, len(numbers)) if kind >= 0 else -1
        for text, kind in zip(made.texts, made.made.tolist(), strict=True)
    ]
    return np.array(found, np.int64).reshape(len(made.corpus), len(made.kinds))


def _notes(made: Negatives) -> list[str]:
    """What became of kinds that could not be made for every caption."""
    notes = []
    for kind, counts in made.counts().items():
        instead = {name: number for name, number in counts.items() if name != kind and number}
        if instead:
            total = sum(counts.values())
            told = ", ".join(
                f"nothing for {one}" if name == "none" else f"{one} {name}" for name, one in instead.items()
            )
            notes.append(f"{kind} negatives: {sum(instead.values())} of {total} could not be made; instead: {told}")
    return notes


def held_out(examples: dict[str, Example], share: float, seed: int) -> tuple[dict[str, Example], dict[str, Example]]:
    """Examples to learn from and a share of them, of at most 1,000 images, to validate on."""
    count = min(1000, int(len(examples) * share))
    if count < 2:
        return examples, {}
    chosen = set(np.random.default_rng([seed, 4]).permutation(len(examples))[:count].tolist())
    parts: tuple[dict[str, Example], dict[str, Example]] = ({}, {})
    for number, (key, example) in enumerate(examples.items()):
        parts[number in chosen][key] = example
    return parts


__all__ = ["KINDS", "Prepared", "held_out", "keyed", "prepared"]


SETTINGS = Settings(epochs=10, batch=64, lr=5e-5, weight_decay=0.01, beta2=0.98, clip=2.0)
"""UNITER's own for matching; UMIC's number of epochs and batch are not known."""
ENCODER = "openai/clip-vit-base-patch32"
"""Under a fusion, where none is named: CLIPScore's."""
NEW_RATE = 5e-4
"""Of a fusion, which starts from nothing."""


@dataclass(frozen=True)
class Job:
    """What a user asked for."""

    data: str
    out: Path
    settings: Settings = SETTINGS
    images: Path | None = None
    backbone: str = "fusion"
    """fusion, vilt, blip, or a folder or hub id to start from."""
    encoder: str = ""
    """Of a fusion; for the others, says which images look alike."""
    regions: str | None = None
    kinds: tuple[str, ...] = KINDS
    margin: float = 0.2
    draws: int = 3
    """Sets of negatives, taken in turn by epochs; 0 for new ones in every epoch."""
    warmup: float = 0.1
    """Share of all steps."""
    sizes: dict[str, Any] = field(default_factory=dict)
    prefix: str = ""
    validate: str | None = None
    hold_out: float = 0.05
    early_stop: int = 0
    resume: bool = False
    overwrite: bool = False
    skip_missing: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.margin <= 1:
            raise InputError(f"margin {self.margin:g}: expected more than 0 and at most 1, as scores are")
        if not 0 <= self.warmup <= 0.2:
            raise InputError(f"warm-up {self.warmup:g}: expected a share of all steps, at most 0.2")
        if not 0 <= self.hold_out < 1:
            raise InputError(f"hold-out {self.hold_out:g}: expected a share of the images below 1")


def assembled(
    job: Job, backbone: Backbone, examples: dict[str, Example], checks: dict[str, Example]
) -> tuple[Ranking, Accuracy | None, list[str]]:
    """The objective, the validation where there are examples for it, and what a user should know."""
    draws = job.draws or job.settings.epochs
    seen, notes = _usable(job, backbone, examples)
    notes += _known(job)
    made = prepared(seen, job.kinds, draws, job.settings.seed, _vectors(job, backbone, seen), job.data)
    texts = backbone.texts(made.texts, keep=False)
    pictures = backbone.pictures([str(path) for path in made.paths])
    goal = Ranking(backbone, pictures, texts, made.table, job.margin, Patience(job.early_stop))
    if job.backbone == "fusion":
        _calibrate(goal)
    if not checks:
        return goal, None, [*notes, *made.notes]
    kept, more = _usable(job, backbone, checks)
    held = prepared(kept, job.kinds, 1, job.settings.seed + 1, _vectors(job, backbone, kept), job.validate or job.data)
    judge = Accuracy(
        backbone,
        backbone.pictures([str(path) for path in held.paths]),
        backbone.texts(held.texts, keep=False),
        held.table,
    )
    return goal, judge, [*notes, *made.notes, *(f"validation: {note}" for note in (*more, *held.notes))]


def _known(job: Job) -> list[str]:
    """A word of caution where the encoder was trained on the very same file, as its own record says."""
    try:
        record = json.loads((Path(job.encoder) / MARKER).read_text(encoding="utf-8"))
        same = Path(record["data"]).resolve() == Path(job.data).resolve()
    except (OSError, ValueError, KeyError, TypeError):
        return []
    if not job.encoder or not same:
        return []
    return [
        f"{Path(job.encoder).name} was trained on {Path(job.data).name} too and knows its images well: "
        "other images, or few epochs, make a metric that holds for new ones"
    ]


def _usable(job: Job, backbone: Backbone, examples: dict[str, Example]) -> tuple[dict[str, Example], list[str]]:
    """The examples whose image (or regions) can be read; the rest is an error, or is left out and counted."""
    if processes.rank():  # the first process encodes, the others find what it wrote
        processes.wait()
    faults = backbone.pictures([str(example.image) for example in examples.values()]).faults
    if not processes.rank():
        processes.wait()
    if not faults:
        return examples, []
    first, more = next(iter(faults.values())), f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    if not job.skip_missing or len(faults) == len(examples):
        raise InputError(f"{first}{more}; --missing skip leaves such images out")
    kept = {key: example for number, (key, example) in enumerate(examples.items()) if number not in faults}
    return kept, [f"{len(faults)} images left out: {first}{more}"]


def _vectors(job: Job, backbone: Backbone, examples: dict[str, Example]) -> Any:
    """What tells images that look alike: the fusion's encoder, or one that was named for it."""
    if "hard" not in job.kinds:
        return None
    from captious.models.features import image_features
    from captious.models.load import load

    encoder: Any = getattr(backbone, "encoder", None) or (load(job.encoder) if job.encoder else None)
    if encoder is None:
        return None
    found = image_features(encoder, [example.image for example in examples.values()])
    rows = np.full((len(examples), found.rows.shape[1]), np.nan, np.float32)
    rows[found.index >= 0] = found.rows[found.index[found.index >= 0]]
    return rows


def _calibrate(goal: Ranking) -> None:
    """Set the line through the cosine from the first captions and their negatives."""
    rows = np.arange(min(len(goal), 2000))
    numbers, _ = goal.table.rows(rows, 0)
    backbone: Any = goal.backbone
    parts = []
    for start in range(0, len(rows), 256):
        some = rows[start : start + 256]
        image = goal.pictures.take(goal.table.image[some])[1]
        text = goal.texts.take(numbers[some])[2]
        parts.append((image[:, None] * text).sum(-1).flatten())
    backbone.module.calibrate(require("torch", "clip").cat(parts))


NAMED = ("fusion", "vilt", "blip")


def starting_backbone(job: Job) -> Backbone:
    """What a training starts from; a choice that this backbone has no use for is refused."""
    from captious.models import crossencoders as saving
    from captious.models import matching as blip
    from captious.models import matching as vilt
    from captious.models import uniter

    place = Path(job.backbone)
    if job.backbone in NAMED and job.regions is not None:
        raise InputError(f"--regions {job.regions}: is for a UNITER, but --backbone is {job.backbone}")
    if job.backbone == "fusion":
        from captious.models.fusion import new_fusion

        return new_fusion(job.encoder or ENCODER, job.settings.seed, job.prefix, **job.sizes)
    if job.backbone not in NAMED and (place / saving.MARKER).is_file():
        return _earlier(job, place)
    if job.prefix:
        raise InputError(f"--prefix {job.prefix!r}: is for a new fusion, but --backbone is {job.backbone}")
    if job.backbone in NAMED:
        return vilt.LOADERS[job.backbone](vilt.DEFAULTS[job.backbone])
    kind = ""
    with suppress(OSError, ValueError):
        kind = json.loads((place / "config.json").read_text(encoding="utf-8")).get("model_type", "")
    if job.regions is not None:
        return uniter.load_uniter(place, job.regions)
    if kind == "vilt" or (not place.exists() and "vilt" in job.backbone.lower()):
        return vilt.load_vilt(job.backbone)
    if kind == "blip" or (not place.exists() and "blip" in job.backbone.lower()):
        return blip.load_blip(job.backbone)
    raise InputError(
        f"--backbone {job.backbone}: expected {', '.join(NAMED)}, or a folder or hub id of a ViLT, a BLIP or an "
        f"earlier training{nearest(job.backbone, NAMED)}"
    )


def _earlier(job: Job, place: Path) -> Backbone:
    """A model that was trained here before; a fusion keeps its own encoder and prefix."""
    from captious.models import crossencoders as saving

    record = saving.read_marker(place)
    kept = {"prefix": record.get("prefix", "")}
    if record["backbone"] == "fusion":
        kept["encoder"] = record["encoder"]["weights"]
    for name, own in kept.items():
        given = getattr(job, name)
        if given and given != own:
            raise InputError(
                f"--{name} {given}: {place} is {called(record['backbone'])} and goes on with its own, {own!r}"
            )
    return saving.open_backbone(place, job.regions)


def identity(job: Job, settings: Settings, examples: dict[str, Example], plan: Plan) -> dict[str, Any]:
    """What must be the same for a training to go on."""
    kept = {key: value for key, value in as_record(settings).items() if key not in FREE}
    data = [f"{key}\t{one.image.name}\t{one.captions}".encode() for key, one in examples.items()]
    return {"objective": "umic", **kept, **choices(job), "steps": plan.steps, "data": digest(*data)}


def choices(job: Job) -> dict[str, Any]:
    """What a user chose besides the settings of the loop."""
    names = ("backbone", "encoder", "margin", "draws", "warmup", "sizes", "prefix", "hold_out", "early_stop")
    return {**{name: getattr(job, name) for name in names}, "kinds": list(job.kinds)}


def shown(job: Job, settings: Settings) -> dict[str, Any]:
    """What stands above the curves."""
    told = {**as_record(settings), **choices(job)}
    return {key: value for key, value in told.items() if value not in (0, [], {}, "", "auto")}


def write(job: Job, settings: Settings, plan: Plan, same: dict[str, Any], done: int, finished: bool) -> None:
    """The record in the folder of the model."""
    record = {
        "captious": __version__,
        "objective": "umic",
        "data": job.data,
        "settings": as_record(settings),
        "choices": choices(job),
        "plan": asdict(plan),
        "identity": same,
        "steps": done,
        "of": plan.steps,
        "finished": finished,
    }
    with whole_file(job.out / MARKER) as draft:
        draft.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def ended(out: Path, same: dict[str, Any]) -> int | None:
    """The steps of a training that came to its end, None for one that did not; one of other choices is refused."""
    try:
        record = json.loads((out / MARKER).read_text(encoding="utf-8"))
        if not record.get("finished"):
            return None
        was, steps = record["identity"], int(record["steps"])
    except (OSError, ValueError, KeyError, AttributeError):
        return None
    for key, value in json.loads(json.dumps(same)).items():
        if was.get(key) != value:
            raise InputError(f"{out}: ended already, with {key} {was.get(key)!r}, now it is {value!r}")
    return steps


UNUSED = ("checkpoints", "best", "log.jsonl", "curves.html", "encoder")
"""What of an encoder's folder is not the encoder."""


def train(
    job: Job,
    report: Report = lambda what, done, total: None,
    say: Callable[[str], None] = lambda line: None,
    stop: Stop | None = None,
) -> Outcome:
    """Train, write the folder, and say what came of it."""
    where = processes.device(job.settings.device)
    with processes.together(str(device_called(where))):
        prepare(job.out, job.resume, job.overwrite)
        processes.wait()
        first = processes.rank() == 0
        told = (report, say) if first else (_nothing, _nothing)
        with using(Runtime(device=where, workers=job.settings.workers, progress=told[0], log=told[1])):
            return _train(job, told[0], told[1], stop or Stop())


def _train(job: Job, report: Report, say: Callable[[str], None], stop: Stop) -> Outcome:
    check(job.kinds)
    examples, checks, notes = _examples(job)
    backbone = starting_backbone(job)
    goal, judge, more = assembled(job, backbone, examples, checks)
    batch = min(job.settings.batch, max(1, len(goal) // processes.world()))
    plan = Plan(len(goal), batch, job.settings.accumulate, job.settings.epochs, job.settings.seed, processes.world())
    settings = replace(job.settings, batch=batch, warmup=round(job.warmup * plan.steps))
    for note in (*notes, *more):
        say(note)
    patience = goal.patience
    same = identity(job, settings, examples, plan)

    def validated() -> dict[str, float]:
        assert judge is not None
        found = judge()
        if patience.see(found[judge.goal]):
            stop.asked = True
        return found

    trainer = Trainer(
        cast(Any, goal),
        settings,
        plan,
        job.out,
        report,
        validate=validated if judge is not None else None,
        goal=judge.goal if judge is not None else "",
        keep_best=lambda: put_model(backbone, job.out / "best"),
        after=lambda: curves.write(job.out, f"captious train umic: {job.out.name}", shown(job, settings)),
        identity=same,
        stop=stop,
        say=say,
    )
    if job.resume and (steps := ended(job.out, same)) is not None:
        say("this training ended already; nothing is left to do")
        return _outcome(job, plan, steps, True, len(goal))
    if processes.rank() == 0:
        job.out.mkdir(parents=True, exist_ok=True)
        _keep_encoder(backbone, job.out)
        if not job.resume:  # a resume that is refused must not touch the record of the first start
            write(job, settings, plan, same, 0, False)
    processes.wait()
    finished = trainer.run(job.resume)
    early = not finished and bool(patience.most) and patience.since >= patience.most
    early = processes.anyone(early, str(backbone.device))  # only the first process validates
    if early:
        say(f"no better validation in the last {patience.since}: stopped after step {trainer.done} of {plan.steps}")
    if processes.rank() == 0:
        put_model(backbone, job.out)
        trainer.after()
        write(job, settings, plan, same, trainer.done, finished or early)
    processes.wait()
    return _outcome(job, plan, trainer.done, finished or early, len(goal))


def _examples(job: Job) -> tuple[dict[str, Example], dict[str, Example], list[str]]:
    found, notes = read_examples(job.data, job.images, job.skip_missing, merge=True)
    examples = keyed(found)
    if job.validate is not None:
        rows, more = read_examples(job.validate, job.images, job.skip_missing, merge=True)
        return examples, keyed(rows), [*notes, *(f"validation: {note}" for note in more)]
    examples, checks = held_out(examples, job.hold_out, job.settings.seed)
    if checks:
        notes.append(f"{len(checks)} images are held out for validation, {len(examples)} are learnt from")
    if job.early_stop and not checks:
        raise InputError("--early-stop needs a validation: give --validate FILE, or more images to hold some out")
    return examples, checks, notes


def _keep_encoder(backbone: Any, out: Path) -> None:
    """Copy an encoder that is a folder here beside the model, which is of no use without it."""
    weights = getattr(backbone, "weights", None)
    place = local(weights) if weights else None
    if place is not None and place.is_dir() and not (out / "encoder").exists():
        shutil.copytree(place, out / "encoder", ignore=shutil.ignore_patterns(*UNUSED))


def _outcome(job: Job, plan: Plan, done: int, finished: bool, examples: int) -> Outcome:
    rows = log.read(job.out)
    last: dict[str, Any] = next((row for row in reversed(rows) if "loss" in row), {})
    best = job.out / "best"
    checks = [row for row in rows if "validation" in row]
    return Outcome(finished, done, plan.steps, examples, last, checks, job.out, best if best.is_dir() else None)


def _nothing(*told: Any) -> None:
    """Processes other than the first keep quiet."""
