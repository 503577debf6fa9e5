"""The model a training starts from: one that exists, one that exists with more positions, or a new small one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from captious._files import digest, whole_file
from captious._typing import Ints
from captious._version import __version__
from captious.errors import InputError, require
from captious.models.devices import device_called
from captious.options import Runtime, using
from captious.train import curves
from captious.train import loop as log
from captious.train import loop as processes
from captious.train.contrast import Contrast, LongShort, Margin, Objective
from captious.train.data import Album, Example, TokenLists, read_examples, tokenized
from captious.train.loop import MARKER, Stop, Trainer, prepare, put_model
from captious.train.loop import Report as loop_Report
from captious.train.schedule import FREE, Plan, Settings, as_record
from captious.train.specs import Negatives, Source, Specificity, chains
from captious.train.towers import Towers, lock
from captious.train.validation import Rates, Recall

NEW = ("mini",)


def starting_model(
    base: str | None,
    new: str | None,
    texts: Iterable[str],
    device: str,
    seed: int,
    towers: tuple[str | None, str | None] = (None, None),
    heads: str = "residual",
) -> Any:
    """A fresh encoder in fp32 that may be changed: ``base`` loaded, a ``new`` one, or new heads on two ``towers``."""
    vision, text = towers
    if [base is not None, new is not None, vision is not None or text is not None].count(True) != 1:
        raise InputError("give one of --base (a folder, file or hub id), --new mini, or --vision with --text")
    if vision is not None and text is not None:
        from captious.models.dual import Shape, new_dual

        return new_dual(vision, text, Shape(heads=heads), seed=seed, device=device)
    if base is None and new is None:
        raise InputError("--vision and --text go together: a folder or hub id of a pretrained model each")
    with using(Runtime(device=device, precision="fp32")):
        if base is not None:
            from captious.models.load import load_trainable

            return load_trainable(base, device)
        if new not in NEW:
            raise InputError(f"--new {new}: expected {', '.join(NEW)}")
        from captious.models.mini import new_mini

        return new_mini(texts, device=device, seed=seed)


def stretched(encoder: Any) -> Any:
    """The encoder with room for 248 tokens instead of 77; one that has as much already is left alone."""
    from captious.models.checkpoints import stretch
    from captious.models.clip import wrap

    torch = require("torch", "clip")
    config = encoder.module.config
    if getattr(config, "model_type", "") != "clip":
        raise InputError(f"{encoder.name}: is not a CLIP model, whose table of positions could be stretched")
    if encoder.limit >= 248:
        return encoder
    module = encoder.module
    tower = getattr(module.text_model, "text_model", module.text_model)
    old = tower.embeddings.position_embedding.weight.detach().cpu().numpy()
    table = torch.from_numpy(stretch(old).astype(np.float32))
    tower.embeddings.position_embedding = torch.nn.Embedding.from_pretrained(table, freeze=False)
    tower.embeddings.register_buffer("position_ids", torch.arange(len(table)).expand((1, -1)), persistent=False)
    config.text_config.max_position_embeddings = tower.config.max_position_embeddings = len(table)
    tokenizer = replace(encoder.tokenizer, limit=len(table))
    return wrap(module, tokenizer, encoder.preparation, encoder.name, str(encoder.device), "fp32")


Name = Literal["clip", "longclip", "specs"]
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Choices:
    """What only some objectives ask for; every default is the published code's, except the coin per unit."""

    weights: tuple[float, float, float] = (1.0, 8.0, 0.8)
    margin: str = "code"
    negatives: Source = "dataset"
    shuffle: float = 0.9
    shuffle_rows: bool = False
    contrast: str = "text-to-image"
    grammar: str = "code"
    components: int = 32
    smoothing: float = 0.1
    per_image: int = 1
    """Captions of an image that ``clip`` takes in one step."""
    soften: float = 0.0
    """Share of its target that follows how near captions are to each other."""
    image_features: str | None = None
    """A file with the features of a locked image tower."""
    scale: float | None = None
    """Logarithm of the factor on cosines to start with; None keeps the model's."""


def objective(
    name: Name,
    examples: Sequence[Example],
    encoder: Any,
    settings: Settings,
    choices: Choices,
    report: Report | None = None,
) -> tuple[Objective, list[str]]:
    """What to learn from the examples, and what a user should know."""
    notes: list[str] = []
    if name == "specs":
        return _specificity(examples, encoder, settings, choices, report)
    towers, images = _towers(examples, encoder, settings, report, notes, choices.image_features)
    made: Objective
    if name == "clip":
        captions, first = _captions(examples, encoder)
        made = Contrast(towers, captions, first, images, settings.seed, settings.gather)
        if choices.per_image > 1 or choices.soften:
            from captious.train.contrast import SoftContrast

            made = SoftContrast(
                *(towers, captions, first, images, settings.seed, settings.gather),
                per_image=choices.per_image,
                soften=choices.soften,
            )
        return made, [*notes, *_cut(captions, encoder)]
    long = tokenized(encoder, [example.captions[0] for example in examples])
    short = tokenized(encoder, [first_sentence(example.captions[0]) for example in examples])
    made = LongShort(towers, long, short, images, settings.gather, choices.components, choices.smoothing)
    return made, [*notes, *_cut(long, encoder)]


def _specificity(
    examples: Sequence[Example], encoder: Any, settings: Settings, choices: Choices, report: Report | None
) -> tuple[Objective, list[str]]:
    if choices.contrast not in ("text-to-image", "both"):
        raise InputError(f"contrast {choices.contrast!r}, expected text-to-image or both")
    negatives = Negatives(choices.negatives, choices.shuffle, choices.shuffle_rows, settings.seed)
    whole = with_units(examples, choices.grammar)
    found, rows = chains(whole, _numbered(whole)[1], negatives, encoder)
    kept = [whole[row] for row in rows]
    notes = []
    if len(kept) < len(whole):
        notes.append(f"{len(whole) - len(kept)} of {len(whole)} captions have no two detail units that fit: left out")
    if choices.negatives != "given" and any(example.wrong_units for example in whole):
        notes.append("the data have wrong_units; --negatives given would use them")
    towers, images = _towers(kept, encoder, settings, report, notes, choices.image_features)
    full = tokenized(encoder, [example.captions[0] for example in kept])
    made = Specificity(
        towers,
        full,
        replace(found, images=images),
        choices.weights,
        Margin.named(choices.margin),
        choices.contrast == "both",
        settings.gather,
    )
    return made, [*notes, *_cut(full, encoder)]


def validation(
    name: Name, examples: Sequence[Example], encoder: Any, settings: Settings, choices: Choices
) -> Recall | Rates:
    """How to tell how good the model is: Specificity Rate for ``specs``, retrieval for the others."""
    if name != "specs":
        towers, images = _towers(examples, encoder, settings, None, [], choices.image_features)
        captions, first = _captions(examples, encoder, only_first=name == "longclip")
        return Recall(towers, captions, first, images)
    source: Source = "given" if choices.negatives == "given" else "dataset"
    whole = with_units(examples, choices.grammar)
    found, rows = chains(whole, _numbered(whole)[1], Negatives(source, shuffle=0, seed=settings.seed), encoder)
    towers, images = _towers([whole[row] for row in rows], encoder, settings, None, [], choices.image_features)
    return Rates(towers, replace(found, images=images))


def with_units(examples: Sequence[Example], grammar: str = "code") -> list[Example]:
    """The examples with detail units: their own, or those the segmentation finds in their long caption."""
    bare = [number for number, example in enumerate(examples) if not example.units]
    made = list(examples)
    if bare:
        from captious.syntax.units import units

        found = units([examples[number].captions[0] for number in bare], grammar=grammar)
        for number, parts in zip(bare, found, strict=True):
            made[number] = replace(examples[number], units=tuple(parts))
    return made


def first_sentence(caption: str) -> str:
    """The caption up to its first full stop and space, as LongCLIP cuts it.

    >>> first_sentence("A dog runs. It is brown.")
    'A dog runs'
    """
    return caption.split(". ", 1)[0]


def _numbered(examples: Sequence[Example]) -> tuple[list[Any], Ints]:
    """The distinct images, and which of them each example has."""
    numbers: dict[Any, int] = {}
    images = [numbers.setdefault(example.image, len(numbers)) for example in examples]
    return list(numbers), np.array(images, dtype=np.int64)


def _towers(
    examples: Sequence[Example],
    encoder: Any,
    settings: Settings,
    report: Report | None,
    notes: list[str],
    features: str | None = None,
) -> tuple[Towers, Ints]:
    paths, images = _numbered(examples)
    album = Album(paths, encoder, settings.workers, keep=False if features else None, report=report)
    towers = Towers(encoder, album, settings.lock, augment=settings.augment, seed=settings.seed)
    if features:
        from captious.train.data import learn_features

        notes.append(learn_features(towers, features))
    elif album.kept:
        notes.append(f"{len(album)} images kept in memory ({album.nbytes / 2**30:.2g} GiB)")
    else:
        notes.append(f"{len(album)} images do not fit into memory: each is opened when its turn comes")
    return towers, images


def _captions(examples: Sequence[Example], encoder: Any, only_first: bool = False) -> tuple[TokenLists, Ints]:
    lists = [example.captions[:1] if only_first else example.captions for example in examples]
    first = np.concatenate([[0], np.cumsum([len(texts) for texts in lists])]).astype(np.int64)
    return tokenized(encoder, [text for texts in lists for text in texts]), first


def _cut(texts: TokenLists, encoder: Any) -> list[str]:
    """A remark on texts that are longer than the encoder reads."""
    kept = np.diff(texts.offsets)
    cut = int((texts.lengths > kept).sum())
    return [f"{cut} of {len(texts)} captions are longer than {encoder.limit} tokens and are cut"] if cut else []


@dataclass(frozen=True)
class Job:
    """What a user asked for."""

    objective: Name
    data: str
    out: Path
    settings: Settings
    images: Path | None = None
    base: str | None = None
    new: str | None = None
    towers: tuple[str | None, str | None] = (None, None)
    """A vision and a text model to put new heads on."""
    heads: str = "residual"
    choices: Choices = field(default_factory=Choices)
    validate: str | None = None
    resume: bool = False
    overwrite: bool = False
    skip_missing: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    finished: bool
    steps: int
    of: int
    examples: int
    last: dict[str, Any]
    validations: list[dict[str, Any]]
    folder: Path
    best: Path | None


def train(
    job: Job,
    report: loop_Report = lambda what, done, total: None,
    say: Callable[[str], None] = lambda line: None,
    stop: Stop | None = None,
) -> Outcome:
    """Train, write the folder, and say what came of it."""
    where = processes.device(job.settings.device)
    with processes.together(str(device_called(where))):
        prepare(job.out, job.resume, job.overwrite)
        processes.wait()
        first = processes.rank() == 0
        return _train(job, where, report if first else _nothing, say if first else _nothing, stop or Stop())


def _train(job: Job, where: str, report: loop_Report, say: Callable[[str], None], stop: Stop) -> Outcome:
    merge = job.objective == "clip"
    examples, notes = read_examples(job.data, job.images, job.skip_missing, merge)
    checks = read_examples(job.validate, job.images, job.skip_missing, merge)[0] if job.validate else []
    encoder = starting_model(job.base, job.new, _texts(examples), where, job.settings.seed, job.towers, job.heads)
    if job.objective == "longclip":
        encoder = stretched(encoder)
    if job.choices.scale is not None:
        encoder.logit_scale.data.fill_(job.choices.scale)
    lock(encoder, job.settings.lock)
    goal, more = objective(job.objective, examples, encoder, job.settings, job.choices, report)
    judge = validation(job.objective, checks, encoder, job.settings, job.choices) if checks else None
    plan, remarks = _plan(len(goal), job.settings)
    for note in (*notes, *more, *remarks):
        say(note)
    trainer = Trainer(
        goal,
        job.settings,
        plan,
        job.out,
        report,
        validate=judge,
        goal=judge.goal if judge is not None else "",
        keep_best=lambda: put_model(encoder, job.out / "best"),
        after=lambda: _draw(job),
        identity=_identity(job, examples, plan),
        stop=stop,
        say=say,
    )
    if processes.rank() == 0 and not job.resume:  # a resumed one is marked already, and may yet be refused
        job.out.mkdir(parents=True, exist_ok=True)
        _mark(job, plan, 0, False)
    processes.wait()
    finished = trainer.run(job.resume)
    if processes.rank() == 0:
        put_model(encoder, job.out)
        _draw(job)
        _mark(job, plan, trainer.done, finished)
    processes.wait()
    rows = log.read(job.out)
    return Outcome(
        finished,
        trainer.done,
        plan.steps,
        len(goal),
        next((row for row in reversed(rows) if "loss" in row), {}),
        [row for row in rows if "validation" in row],
        job.out,
        job.out / "best" if trainer.best is not None else None,
    )


def _plan(examples: int, settings: Settings) -> tuple[Plan, list[str]]:
    batch, notes = settings.batch, []
    most = examples // processes.world()
    if batch > most:
        batch = most
        notes.append(f"--batch {settings.batch} is more than the {examples} examples allow: it is {batch}")
    if batch < 2:
        raise InputError(f"{examples} examples are too few to train on: each is told from the others of its batch")
    plan = Plan(examples, batch, settings.accumulate, settings.epochs, settings.seed, processes.world())
    if settings.warmup > plan.steps // 5:
        notes.append(f"--warmup {settings.warmup} is over a fifth of the {plan.steps} steps: it is {plan.steps // 5}")
    return plan, notes


def _identity(job: Job, examples: list[Example], plan: Plan) -> dict[str, Any]:
    """What must be the same for a training to go on."""
    settings = {key: value for key, value in as_record(job.settings).items() if key not in FREE}
    data = [f"{one.id}\t{one.image.name}\t{one.captions}\t{one.units}\t{one.wrong_units}".encode() for one in examples]
    start = {"base": job.base, "new": job.new, "towers": list(job.towers), "heads": job.heads}
    return {
        "objective": job.objective,
        **settings,
        **asdict(job.choices),
        **start,
        "steps": plan.steps,
        "data": digest(*data),
    }


def _texts(examples: list[Example]) -> list[str]:
    """Every text there is, for a tokenizer that is made from them."""
    return [text for one in examples for text in (*one.captions, *one.units, *one.wrong_units)]


def _mark(job: Job, plan: Plan, done: int, finished: bool) -> None:
    record = {
        "captious": __version__,
        "objective": job.objective,
        "data": job.data,
        "base": job.base,
        "new": job.new,
        "towers": list(job.towers),
        "settings": as_record(job.settings),
        "choices": asdict(job.choices),
        "examples": plan.examples,
        "processes": plan.processes,
        "steps": done,
        "of": plan.steps,
        "finished": finished,
    }
    with whole_file(job.out / MARKER) as draft:
        draft.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _draw(job: Job) -> None:
    shown = {key: value for key, value in as_record(replace(job.settings)).items() if value not in (0, [], "auto")}
    curves.write(job.out, f"captious train {job.objective}: {job.out.name}", shown)


def _nothing(*told: Any) -> None:
    """Processes other than the first keep quiet."""
