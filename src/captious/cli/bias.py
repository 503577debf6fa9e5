"""``captious bias``: how much more captions leak a protected attribute than people's do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captious.cli import options as o
from captious.options import LEVEL

if TYPE_CHECKING:
    from captious.bias.corpus import Classifier
    from captious.bias.protocol import Preset, Protocol

app = typer.Typer(help="Bias amplification (LIC) for gender, race, age or any label.", no_args_is_help=True)

CLASSIFIERS = ("linear", "lstm", "bert-ft", "bert-pre")


@app.command()
def lic(
    predictions: Annotated[list[str], typer.Argument(help="The captions of one captioner each: JSONL, JSON, CSV, …")],
    label: Annotated[str, typer.Option("--label", "-l", help="Column of the attribute, in either file.")],
    references: o.References = None,
    mask: Annotated[
        str | None, typer.Option("--mask", help="gender, race, age, none, a file of words, or several with commas.")
    ] = None,
    classifier: Annotated[
        str, typer.Option("--classifier", "-c", help="linear, lstm, bert-ft, bert-pre; several with commas.")
    ] = "linear",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Independent runs, each with its own split.")] = 10,
    vocabulary: Annotated[
        str | None,
        typer.Option("--vocabulary", help="Words human captions keep: model, human, human:N, none, or a file."),
    ] = None,
    preset: Annotated[str | None, typer.Option("--preset", help="A published protocol, such as relic-age.")] = None,
    bert: Annotated[str, typer.Option("--bert", help="Folder or hub id of the BERT.")] = "bert-base-uncased",
    device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "auto",
    stack: Annotated[int, typer.Option("--stack", min=0, help="Most LSTMs trained together; 0: what suits.")] = 0,
    human_captions: Annotated[
        int | None, typer.Option("--human-captions", min=1, help="Of each image; images with fewer are left out.")
    ] = None,
    out: o.Out = None,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
    work: Annotated[
        Path | None, typer.Option("--work", help="Folder of finished runs, to resume from; a default is kept.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Train everything again and keep no finished runs.")] = False,
    ddof: Annotated[int, typer.Option("--ddof", min=0, max=1, help="1 for the sample standard deviation.")] = 0,
    level: o.Level = LEVEL,
    id_column: o.IdColumn = None,
    candidate_column: Annotated[
        str | None, typer.Option("--candidate-column", help="Column of the captions; several make several captioners.")
    ] = None,
    references_column: o.ReferencesColumn = None,
) -> None:
    """LIC = LIC_M − LIC_D: what a classifier learns of the label from a model's captions beyond what people's tell.

    Example: captious bias lic preds.jsonl --references humans.jsonl --label gender --mask gender --classifier lstm
    """
    from captious._files import data_folder, refuse_occupied
    from captious.bias import show
    from captious.bias.audit import audit
    from captious.bias.corpus import read_subjects
    from captious.bias.summary import summarize
    from captious.bias.writing import save
    from captious.errors import InputError
    from captious.options import Reading
    from captious.render import terminal
    from captious.render.tables import dumps

    if not 0 < level < 1:
        raise InputError(f"confidence level {level}, expected a number between 0 and 1")
    if out is not None:
        refuse_occupied(out, overwrite)
    chosen = _preset(preset, mask, label)
    protocol, notes = _protocol(chosen, label, mask, vocabulary, seeds, ddof, level)
    kinds = _classifiers(classifier, bert, device, stack, chosen)
    columns = [part.strip() for part in candidate_column.split(",")] if candidate_column else []
    subjects = read_subjects(
        predictions,
        references,
        label,
        Reading(id_column=id_column, references_column=references_column),
        columns,
        human_captions,
    )
    kept = None if fresh else work or data_folder() / "bias"
    with show.progress() as report:
        found = audit(subjects, protocol, kinds, work=kept, report=report)
    summary = summarize(found)
    if out is not None:
        save(summary, out, overwrite)
    terminal.warn([*notes, *found.notes])
    if as_json:
        typer.echo(dumps(summary))
    else:
        terminal.output().print(show.audit_view(summary))
    if out is not None:
        typer.echo(f"written: {out / 'report.html'}", err=True)


@app.command()
def words(
    name: Annotated[str, typer.Argument(help="gender, race, age, or a file of words.")],
    as_json: o.AsJson = False,
) -> None:
    """The words a mask hides, one a line: edit them and give the file to --mask."""
    from captious.bias.masking import LISTS, Mask

    found = LISTS.get(name) or sorted(Mask.named(name).words)
    typer.echo(json.dumps(found, ensure_ascii=False) if as_json else "\n".join(found))


@app.command("preset")
def preset_(
    name: Annotated[str | None, typer.Argument(help="Such as relic-age; all, if not given.")] = None,
    as_json: o.AsJson = False,
) -> None:
    """A published protocol, legacy quirks and all; use it with: captious bias lic … --preset NAME."""
    from captious.bias.protocol import PRESETS
    from captious.bias.protocol import preset as named

    chosen = [named(name)] if name else list(PRESETS.values())
    shown = {one.name: _facts(one) for one in chosen}
    if as_json:
        typer.echo(json.dumps(shown, ensure_ascii=False, indent=2))
        return
    for title, facts in shown.items():
        typer.echo(title)
        for key, value in facts.items():
            typer.echo(f"  {key}: {', '.join(map(str, value)) if isinstance(value, list) else value}")
            if key == "quirks":
                break


def _facts(one: Preset) -> dict[str, Any]:
    from captious.bias.classifiers.bert import Bert
    from captious.bias.classifiers.lstm import Lstm

    lstm, tuned, frozen = Lstm(), Bert.tuned(), Bert.pre(**one.frozen)
    return {
        **{key: value for key, value in one.protocol.settings().items() if key not in ("preset", "level")},
        "lstm": f"{lstm.epochs} epochs at {lstm.rate:g}, batch {lstm.batch}",
        "bert-ft": f"{tuned.epochs} epochs at {tuned.rate:g}",
        "bert-pre": f"{frozen.epochs} epochs at {frozen.rate:g}",
        "quirks": list(one.quirks),
    }


def _preset(name: str | None, mask: str | None, label: str) -> Preset | None:
    from captious.bias.protocol import preset as named

    return None if name is None else named(name, mask or label)


def _protocol(
    chosen: Preset | None, label: str, mask: str | None, vocabulary: str | None, seeds: int, ddof: int, level: float
) -> tuple[Protocol, list[str]]:
    """The preset's protocol or the default one, with what the options say; and what a user should know of it."""
    from dataclasses import replace

    from captious.bias.masking import LISTS, Mask
    from captious.bias.protocol import Protocol
    from captious.bias.protocol import seeds as first

    notes = []
    if chosen is not None:
        protocol = chosen.protocol
        if mask is not None:
            protocol = replace(protocol, mask=Mask.named(mask))
        if vocabulary is None and protocol.vocabulary == "model":
            notes.append(
                f"preset {chosen.name}: the vocabularies are made from this run's captions; the published ones come as "
                "--vocabulary 'FOLDER/{model}.txt'"
            )
    else:
        if mask is None and label not in LISTS:
            notes.append(f"no --mask: words that name the {label} outright are not hidden, and will be found")
        protocol = Protocol(Mask.named(mask or (label if label in LISTS else "none")))
    if vocabulary is not None:
        protocol = replace(protocol, vocabulary=vocabulary)
    return replace(protocol, seeds=first(seeds), ddof=ddof, level=level), notes


def _classifiers(names: str, bert: str, device: str, stack: int, chosen: Preset | None) -> list[Classifier]:
    from captious.bias.classifiers.bert import Bert
    from captious.bias.classifiers.linear import Linear
    from captious.bias.classifiers.lstm import Lstm
    from captious.errors import InputError, nearest

    made: list[Classifier] = []
    for name in dict.fromkeys(part.strip() for part in names.split(",")):
        if name == "linear":
            made.append(Linear())
        elif name == "lstm":
            made.append(Lstm(device=device, stack=stack))
        elif name == "bert-ft":
            made.append(Bert.tuned(model=bert, device=device))
        elif name == "bert-pre":
            made.append(Bert.pre(model=bert, device=device, **(chosen.frozen if chosen else {})))
        else:
            known = ", ".join(CLASSIFIERS)
            raise InputError(f"unknown classifier {name!r}, expected {known}{nearest(name, CLASSIFIERS)}")
    return made
