"""Metrics by name, and their written form: ``bleu(n=4),cider(idf=refs)``."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from importlib.metadata import entry_points

from captious.errors import InputError, nearest
from captious.metrics.contract import Metric

METRICS = {
    "bleu": "captious.metrics.bleu:Bleu",
    "rouge": "captious.metrics.rouge:Rouge",
    "rouge_n": "captious.metrics.rouge:RougeN",
    "cider": "captious.metrics.cider:Cider",
    "meteor": "captious.metrics.meteor.metric:Meteor",
    "bertscore": "captious.metrics.bertscore:BertScore",
    "div": "captious.metrics.diversity:Div",
    "diversity": "captious.metrics.diversity:Diversity",
    "distinct": "captious.metrics.diversity:Distinct",
    "mbleu": "captious.metrics.diversity:MBleu",
    "selfcider": "captious.metrics.diversity:SelfCider",
    "lsa": "captious.metrics.diversity:Lsa",
    "vocabulary": "captious.metrics.diversity:Vocabulary",
    "novelty": "captious.metrics.diversity:Novelty",
    "onlystyle": "captious.metrics.style.onlystyle:OnlyStyle",
    "stylecider": "captious.metrics.style.stylecider:StyleCider",
    "clipscore": "captious.metrics.clip.clipscore:ClipScore",
    "refclipscore": "captious.metrics.clip.clipscore:RefClipScore",
    "pacscore": "captious.metrics.clip.pacscore:PacScore",
    "refpacscore": "captious.metrics.clip.pacscore:RefPacScore",
    "longclip": "captious.metrics.clip.longclip:LongClip",
    "specs": "captious.metrics.clip.specs:Specs",
    "routed": "captious.metrics.clip.specs:Routed",
    "umic": "captious.metrics.umic:Umic",
    "imagine": "captious.metrics.imagine:Imagine",
}
"""Where each metric lives; imported when first used. Packages add theirs under the entry point ``captious.metrics``."""

FAMILIES = {"bleu": ("bleu(n=1)", "bleu(n=2)", "bleu(n=3)", "bleu(n=4)")}
"""A bare name that people use for several numbers at once."""

DEFAULT = "bleu,rouge,cider"

_SPEC = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_PARAMETER = re.compile(r"""\s*(\w+)\s*=\s*("[^"]*"|'[^']*'|[^,"']*?)\s*(?:,|$)""")


def names() -> list[str]:
    """All known metric names, those of installed packages included."""
    return [*METRICS, *(point.name for point in entry_points(group="captious.metrics") if point.name not in METRICS)]


def metric_class(name: str) -> type[Metric]:
    """The class behind a name."""
    if name in METRICS:
        module, _, attribute = METRICS[name].partition(":")
        found: type[Metric] = getattr(importlib.import_module(module), attribute)
        return found
    for point in entry_points(group="captious.metrics", name=name):
        plugin: type[Metric] = point.load()
        return plugin
    known = names()
    raise InputError(f"unknown metric {name!r}, known: {', '.join(known)}{nearest(name, known)}")


def parse(text: str) -> Metric:
    """One metric from its written form.

    >>> print(parse("cider(idf=coco)"), parse("bleu"))
    cider(idf=coco) bleu(n=4)
    """
    match = _SPEC.fullmatch(text)
    if not match:
        raise InputError(f"cannot read the metric {text!r}, expected a name such as bleu or cider(idf=refs)")
    name, inside = match[1].lower(), match[2]
    if name.startswith("umic-"):  # the name a UMIC of another backbone prints under
        name = "umic"
    return metric_class(name).from_text(_parameters(inside, text) if inside else {})


def parse_all(specs: str | Metric | Iterable[str | Metric]) -> list[Metric]:
    """Metrics from a written list or from any mixture of written forms and metrics; bare families are spread out.

    >>> [str(metric) for metric in parse_all("bleu, cider(idf=refs)")]
    ['bleu(n=1)', 'bleu(n=2)', 'bleu(n=3)', 'bleu(n=4)', 'cider']
    """
    if isinstance(specs, (str, Metric)):
        specs = [specs]
    metrics: dict[Metric, None] = {}
    for spec in specs:
        if isinstance(spec, Metric):
            metrics.update(dict.fromkeys(spec.members()))
            continue
        for part in _split(spec):
            for member in FAMILIES.get(part.lower(), (part,)):
                metrics.update(dict.fromkeys(parse(member).members()))
    if not metrics:
        raise InputError("no metric named, expected a list such as bleu,rouge,cider")
    return list(metrics)


def _split(text: str) -> list[str]:
    parts, depth, quote, start = [], 0, "", 0
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "()":
            depth += 1 if character == "(" else -1
        elif character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def _parameters(inside: str, whole: str) -> dict[str, str]:
    values: dict[str, str] = {}
    position = 0
    while inside[position:].strip():
        match = _PARAMETER.match(inside, position)
        if not match:
            raise InputError(f"cannot read the parameters of {whole!r}, expected name(key=value,key=value)")
        if match[1] in values:
            raise InputError(f"{whole!r} sets {match[1]} twice")
        values[match[1]] = match[2].strip("\"'")
        position = match.end()
    return values
