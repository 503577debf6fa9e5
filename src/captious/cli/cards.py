"""``captious metrics``: the list of metrics, and the card of each metric."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import click

from captious.cli.params import Only
from captious.cli.session import All, Session
from captious.errors import InputError
from captious.options import Argument, Option, get_choices, strip_none

if TYPE_CHECKING:
    from captious.metrics.contract import Metric
    from captious.render import Document


def metrics(
    session: Annotated[Session, Only("json")],
    name: Annotated[str | None, Argument("Print the card of this metric, or list those that contain a word.")] = None,
    markdown: Annotated[bool, Option("Print the card as Markdown source.")] = False,
    all: All = False,
) -> None:
    """List the metrics, or print one metric's card: formula, parameters, needs, citation.

    Example: captious metrics
    Example: captious metrics cider
    Example: captious metrics objects
    """
    from captious.metrics.registry import get_metric_class, names, parse
    from captious.render import Document
    from captious.render.terminal import make_stdout_console

    if name is None:
        document = _list_metrics([get_metric_class(one) for one in names()])
        if all:
            session.deliver(replace(document, sections=document.sections[1:], notes=[ALL_OF_THEM]))
            return
        hint = "captious metrics NAME prints the card of a metric, captious metrics WORD searches, --all describes each"
        session.deliver_short(document, 1, f"{hint}; {ALL_OF_THEM}")
        return
    try:
        metric = get_metric_class(parse(name).name)
    except InputError:
        if not (matches := _search_metrics(name)):
            raise
        document = _list_metrics(matches)
        session.deliver(replace(document, sections=document.sections[1:]))
        return
    if session.output.json:
        parts = {"facts": dict(list_facts(metric)), "parameters": list_parameters(metric)}
        session.deliver(Document(metric.name, data={"name": metric.name, **parts}))
    elif markdown:
        click.echo(format_card(metric), nl=False)
    else:
        from rich.markdown import Markdown

        make_stdout_console().print(Markdown(format_card(metric)))


def _search_metrics(word: str) -> list[type[Metric]]:
    """Find the metrics whose name or description contains a word."""
    from captious.metrics.registry import get_metric_class, names

    classes = [get_metric_class(one) for one in names()]
    return [one for one in classes if word.lower() in f"{one.name} {inspect.getdoc(one) or ''}".lower()]


ALL_OF_THEM = "--metrics all is every one that needs no model"


def _list_metrics(classes: Sequence[type[Metric]]) -> Document:
    """Return a document of two tables: the names of the metrics by what they need, and a row about each metric."""
    from captious.render import Document, Table

    by_needs: dict[str, list[str]] = {}
    for one in classes:
        by_needs.setdefault(", ".join(one().needs) or "candidates only", []).append(one.name)
    rows = [
        (one.name, _get_headline(one), ", ".join(one().needs) or "—", "higher" if one().higher_is_better else "lower")
        for one in classes
    ]
    short = Table("needs", "Metrics", ("needs", "metrics"), [(key, ", ".join(own)) for key, own in by_needs.items()])
    table = Table("metrics", "Metrics", ("name", "what it is", "needs", "better"), rows)
    data = {"metrics": [{"name": one.name, **dict(list_facts(one))} for one in classes]}
    return Document("Metrics", sections=[short, table], data=data)


def format_card(metric: type[Metric]) -> str:
    """Format a metric's card as Markdown: what it is, what it needs, its parameters, whom to cite."""
    body = (inspect.getdoc(metric) or "").partition("\n")[2]
    lines = [f"# {metric.name}", "", _get_headline(metric), *_format_body(body), "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in list_facts(metric)]
    parameters = list_parameters(metric)
    if parameters:
        lines += ["", "| parameter | default | values |", "|---|---|---|"]
        lines += [f"| `{name}` | `{default}` | {values} |" for name, default, values in parameters]
    return "\n".join(lines) + "\n"


def _format_direction(kind: type[Metric]) -> str:
    """Return whether higher or lower values are better, by variant if the variants differ."""
    variants = [
        (f"{name}={value}", kind(**{name: value})) for name, values in kind.variants.items() for value in values
    ]
    directions: dict[str, list[str]] = {}
    for written, metric in variants:
        directions.setdefault("higher" if metric.higher_is_better else "lower", []).append(f"`{written}`")
    if len(directions) < 2:
        return "higher" if kind().higher_is_better else "lower"
    return "; ".join(f"{direction} for {', '.join(written)}" for direction, written in directions.items())


def list_facts(kind: type[Metric]) -> list[tuple[str, str]]:
    """List the facts on a metric's card as (name, value): needs, range, direction, languages, variants, citation."""
    from captious._core.languages import find_language

    metric = kind()
    low, high = metric.range
    rows = [
        ("needs", ", ".join(metric.needs) or "candidates only"),
        ("range", "no limits" if math.isinf(low) else f"{low:g} to {'no limit' if math.isinf(high) else f'{high:g}'}"),
        ("better", _format_direction(kind)),
    ]
    if metric.languages:
        rows.append(("languages", ", ".join(find_language(code).name for code in metric.languages) + " only"))
    if metric.explains:
        rows.append(("explains single values", "yes, with `captious score --explain ID` and `report.explain(id)`"))
    for name, values in metric.variants.items():
        members = ", ".join(f"`{metric.name}({name}={value})`" for value in values)
        rows.append((f"without {name} it stands for", members))
    if metric.citation:
        rows.append(("cite", metric.citation))
    return rows


def list_parameters(metric: type[Metric]) -> list[tuple[str, str, str]]:
    """List name, default and legal values of each parameter."""
    hints = get_type_hints(metric)
    return [
        (field.name, _format_default(field.default), _format_values(metric.name, field.name, hints[field.name]))
        for field in fields(metric)
    ]


_STYLE = "a file that `captious style fit` wrote"
_PROMPTS = "a folder with other prompts"
_MODEL = "a hub id, a folder, a checkpoint file or `captious-mini`"
# Legal values of text parameters, by `name`, or by `metric.name` if a metric differs.
TEXTS = {
    "tokenizer": (
        "`auto` (that of the language), `ptb`, `13a`, `13a-cased`, `intl`, `intl-cased`, `whitespace`, "
        "`whitespace-lower`, `plain`, `letters`, `mart`, `char`, `char-cased`; `zh`, `zh-cased`, `zh-char`, "
        "`zh-jieba`; `ja-mecab`, `ja-mecab-raw`, `ja-sudachi`; "
        "`ko-mecab`, `ko-mecab-raw`; `th-char`, `th-newmm`, `th-newmm-composed`"
    ),
    "idf": "`refs`, the name of an idf corpus, or its path",
    "emscore.idf": "`none`, `refs`, `candidates`, or the name or path of a corpus of `captious make idf --tokens`",
    "against": "`refs`, or the path of a file of captions",
    "modules": "some of `exact+stem+synonym+paraphrase`",
    "resources": "a folder with METEOR's data, or a compiled file",
    "model": "the name of a chat model at the endpoint, or `local:` and a folder or hub id",
    "onlystyle.model": _STYLE,
    "stylecider.model": _STYLE,
    "prompt": "a text file with another prompt",
    "faithscore.prompt": _PROMPTS,
    "rlaifv.prompt": _PROMPTS,
    "dcscore.prompt": _PROMPTS,
    "vdc.prompt": _PROMPTS,
    "autodq.prompt": _PROMPTS,
    "questions": "a file of questions; without it the column `questions`",
    "autodq.questions": "a file of events; without it the column `events`, or the model",
    "answers": "a file of stored answers, or `column`",
    "category": "a category of questions",
    "style": "the style of all items; without it the column says it",
    "column": "the column of the styles",
    "prefix": "words before every caption",
    "weights": _MODEL,
    "bertscore.weights": "a language model: a hub id or a folder",
    "bleurt.weights": "a BLEURT checkpoint of the PyTorch port: a hub id or a folder",
    "sbert.weights": "a model of sentence-transformers: a hub id or a folder",
    "fense.weights": "a model of sentence-transformers: a hub id or a folder",
    "fluency": "a detector (folder or checkpoint file), a file of probabilities, or `error_probability`, the column",
    "spider.spice": "`spacy`, or a file that the original SPICE wrote",
    "capture.weights": "a model of sentence-transformers: a hub id or a folder",
    "capture.parser": "a model of spaCy, or the folder or hub id of a FACTUAL model",
    "calibrated.file": "a file that `captious study calibrate` wrote",
    "polos.weights": "a folder with `reprod.ckpt` and `hparams.yaml` of the authors",
    "umic.weights": "a folder that `captious train umic` wrote",
    "short": _MODEL,
    "long": _MODEL,
    "regions": "a folder with an `.npz` file of region features for each image",
    "painter": "a folder or hub id of a diffusers pipeline, `guided:` with an image decoder, or `drawn`",
    "scheduler": "a scheduler of diffusers by its class name",
    "guide": "the encoder that guides a painter of `guided:`",
}


def _get_headline(metric: type[Metric]) -> str:
    return (inspect.getdoc(metric) or "").partition("\n")[0]


def _format_default(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    # Quotes make an empty text, or spaces at its ends, visible.
    return f'"{value}"' if value == "" or str(value) != str(value).strip() else str(value)


def _format_values(metric: str, name: str, hint: Any) -> str:
    hint = strip_none(hint)
    if choices := get_choices(hint):
        return ", ".join(f"`{choice}`" for choice in choices)
    numbers = {int: "a whole number", float: "a number", bool: "`yes`, `no`"}
    return numbers.get(hint) or TEXTS.get(f"{metric}.{name}") or TEXTS.get(name, "a text")


def _format_body(text: str) -> list[str]:
    """Convert the lines of a docstring to Markdown: a doctest becomes a code block, and ``::`` a colon."""
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        if line.startswith(">>>") and not fenced:
            lines.append("```python")
            fenced = True
        if fenced and not line.strip():
            lines.append("```")
            fenced = False
        lines.append(line.replace("::", ":") if line.endswith("::") else line)
    return [*lines, "```"] if fenced else lines
