"""Metrics by name, and their written form: ``bleu(n=4),cider(idf=refs)``."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from importlib.metadata import entry_points

from captious import _written
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
    name, parameters = _written.parse(text, "metric", "bleu or cider(idf=refs)")
    if name.startswith("umic-"):  # the name a UMIC of another backbone prints under
        name = "umic"
    return metric_class(name).from_text(parameters)


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
        for part in _written.split(spec):
            for member in FAMILIES.get(part.lower(), (part,)):
                metrics.update(dict.fromkeys(parse(member).members()))
    if not metrics:
        raise InputError("no metric named, expected a list such as bleu,rouge,cider")
    return list(metrics)
