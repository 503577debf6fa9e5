"""``captious bias``: how much more models' captions leak a protected attribute than human captions do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from captious.cli.commands import CommandGroup, command
from captious.cli.params import Only
from captious.cli.session import Classifiers, Label, Seeds, Session
from captious.errors import InputError
from captious.options import Argument, Engine, Option

if TYPE_CHECKING:
    from captious.bias.protocol import Protocol

READING = (
    *("references", "format", "id_column", "references_id_column", "candidate_column", "references_column"),
    "unpack_limit",
)

app = CommandGroup("bias")


@command(app)
def lic(
    predictions: Annotated[
        tuple[str, ...], Argument("Files of captions, one per captioner, or a folder of them; NAME=FILE names it.")
    ],
    label: Label,
    session: Annotated[Session, Only(*READING, "device", "cache", "level", "out", "overwrite", "json", "latex", "csv")],
    engine: Annotated[Engine, Only("engine", "jobs", "address", "gpus")],
    labels: Annotated[
        str | None,
        Option("File of labels by id, if captions and references have none.", metavar="FILE"),
    ] = None,
    mask: Annotated[
        str | None,
        Option("gender, race, age, none, a file of words, or several with commas.", metavar="WORDS"),
    ] = None,
    classifier: Classifiers = ("linear",),
    seeds: Seeds = 10,
    vocabulary: Annotated[
        str | None, Option("Vocabulary of human captions: model, human, human:N, none, or a file.", metavar="WORDS")
    ] = None,
    preset: Annotated[str | None, Option("A published protocol, such as relic-age.", metavar="NAME")] = None,
    human_captions: Annotated[
        int | None, Option("Human captions per image; images with fewer are left out.", min=1)
    ] = None,
    work: Annotated[
        Path | None, Option("Folder of finished runs to resume from, instead of the default one.", metavar="FOLDER")
    ] = None,
) -> None:
    """LIC = LIC_M − LIC_D: how much more a classifier learns about a label from a model's captions than from people's.

    Several columns in --candidate-column, separated by commas, are several captioners.

    --jobs 4 trains in four processes; --engine ray --gpus 1 on all GPUs of a cluster. The numbers do not change.

    Example: captious bias lic preds.jsonl --references humans.jsonl --label gender --mask gender --classifier lstm
    Example: captious bias lic captioners/ --references humans.jsonl --label gender --preset relic-gender
    """
    from captious._core.files import get_data_folder
    from captious.bias.audit import audit
    from captious.bias.classifiers import make_classifier
    from captious.bias.corpus import list_captioner_files, read_subjects
    from captious.bias.protocol import protocol_for
    from captious.io.formats import name_files

    if work is not None and not session.runtime.cache:
        raise InputError("--work keeps finished runs and --no-cache keeps none; leave one of them out")
    level = session.resampling.level
    protocol = protocol_for(label, mask=mask, vocabulary=vocabulary, preset=preset, seeds=seeds, level=level)
    classifiers = [make_classifier(text, protocol.frozen) for text in dict.fromkeys(classifier)]
    stored = (work or get_data_folder() / "bias") if session.runtime.cache else None
    try:
        with session.working() as step:
            subjects = read_subjects(
                name_files(list_captioner_files(predictions)), label, session.reading, human_captions, labels
            )
            step("training classifiers")
            result = audit(subjects, protocol, classifiers, work=stored, engine=engine)
    except KeyboardInterrupt:
        if stored is not None:
            click.echo("stopped; finished runs are stored, and the same command resumes from there", err=True)
        raise
    session.deliver(result)


@command(app)
def words(
    name: Annotated[str, Argument("gender, race, age, or a file of words.")],
    session: Annotated[Session, Only("json")],
) -> None:
    """Print the words that a mask hides, one per line: edit them and pass the file to --mask."""
    from captious.bias.masks import LISTS, Mask, read_word_list

    hidden = read_word_list(name) if name in LISTS else sorted(Mask.from_name(name).words)
    click.echo(json.dumps(hidden, ensure_ascii=False) if session.output.json else "\n".join(hidden))


@command(app)
def presets(
    session: Annotated[Session, Only("json")],
    name: Annotated[str | None, Argument("Name, such as relic-age; all by default.")] = None,
) -> None:
    """Print a published protocol, including its quirks; use it with: captious bias lic … --preset NAME."""
    from captious.bias.protocol import PRESETS, find_preset
    from captious.render import Document, Text

    facts = {one.preset: _collect_facts(one) for one in ([find_preset(name)] if name else PRESETS.values())}
    sections = [
        Text([f"{key}: {_format_value(value)}" for key, value in one.items()], title, bullets=True)
        for title, one in facts.items()
    ]
    session.deliver(Document("Published protocols", sections=sections, data=facts))


def _format_value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _collect_facts(protocol: Protocol) -> dict[str, Any]:
    from captious.bias.classifiers.bert import Bert
    from captious.bias.classifiers.lstm import Lstm

    lstm, tuned, frozen = Lstm(), Bert(), Bert.pre(**protocol.frozen)
    return {
        **{key: value for key, value in protocol.settings().items() if key not in ("preset", "level")},
        "lstm": f"{lstm.epochs} epochs at {lstm.rate:g}, batch {lstm.batch}",
        "bert-ft": f"{tuned.epochs} epochs at {tuned.rate:g}",
        "bert-pre": f"{frozen.epochs} epochs at {frozen.rate:g}",
        "quirks": list(protocol.quirks),
    }
