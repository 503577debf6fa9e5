"""The registry of metrics by name, and their written form: ``bleu(n=4),cider(idf=refs)``."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, fields
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from captious._core import plugins
from captious._core.notation import convert_arguments, parse_spec, split_specs
from captious.errors import AmbiguousKey, InputError, UnknownKey, format_choices, format_suggestion
from captious.io.columns import OBJECT_COLUMN

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from captious.captions import CaptionSet
    from captious.metrics.contract import Metric

# The module of each metric; imported when first used.
METRICS = {
    "bleu": "captious.metrics.bleu:Bleu",
    "rouge": "captious.metrics.rouge:Rouge",
    "rouge_n": "captious.metrics.rouge:RougeN",
    "cider": "captious.metrics.cider:Cider",
    "meteor": "captious.metrics.meteor.meteor:Meteor",
    "spice": "captious.metrics.spice.spice:Spice",
    "spice_original": "captious.metrics.spice.original:SpiceOriginal",
    "spider": "captious.metrics.spider:Spider",
    "capture": "captious.metrics.capture.capture:Capture",
    "chair": "captious.metrics.hallucination.chair:Chair",
    "amber": "captious.metrics.hallucination.amber:Amber",
    "aloha": "captious.metrics.hallucination.aloha:Aloha",
    "bertscore": "captious.metrics.bertscore:BertScore",
    "bleurt": "captious.metrics.bleurt:Bleurt",
    "sbert": "captious.metrics.sbert:Sbert",
    "fense": "captious.metrics.fense:Fense",
    "densecap": "captious.metrics.dense.densecap:Densecap",
    "soda": "captious.metrics.dense.soda:Soda",
    "div_n": "captious.metrics.diversity:DivN",
    "repetition": "captious.metrics.diversity:Repetition",
    "diversity": "captious.metrics.diversity:Diversity",
    "rep_diversity": "captious.metrics.diversity:RepDiversity",
    "distinct_n": "captious.metrics.diversity:DistinctN",
    "mbleu": "captious.metrics.diversity:MBleu",
    "selfcider": "captious.metrics.diversity:SelfCider",
    "lsa": "captious.metrics.diversity:Lsa",
    "vocab_size": "captious.metrics.diversity:VocabSize",
    "words": "captious.metrics.diversity:Words",
    "novelty": "captious.metrics.diversity:Novelty",
    "onlystyle": "captious.metrics.style.onlystyle:OnlyStyle",
    "stylecider": "captious.metrics.style.stylecider:StyleCider",
    "clipscore": "captious.metrics.clip.clipscore:ClipScore",
    "refclipscore": "captious.metrics.clip.clipscore:RefClipScore",
    "pacscore": "captious.metrics.clip.pacscore:PacScore",
    "refpacscore": "captious.metrics.clip.pacscore:RefPacScore",
    "longclip": "captious.metrics.clip.longclip:LongClip",
    "specs": "captious.metrics.clip.specs:Specs",
    "specs_routed": "captious.metrics.clip.specs:SpecsRouted",
    "emscore": "captious.metrics.clip.emscore:EmScore",
    "umic": "captious.metrics.umic:Umic",
    "polos": "captious.metrics.polos:Polos",
    "calibrated": "captious.metrics.calibrated:Calibrated",
    "imagine": "captious.metrics.imagine:Imagine",
    "clair": "captious.metrics.judges.clair:Clair",
    "fleur": "captious.metrics.judges.fleur:Fleur",
    "reffleur": "captious.metrics.judges.fleur:RefFleur",
    "gpt4eval": "captious.metrics.judges.gpt4eval:Gpt4Eval",
    "gveval": "captious.metrics.judges.gveval:GVEval",
    "faithscore": "captious.metrics.judges.faithscore:FaithScore",
    "rlaifv": "captious.metrics.judges.rlaifv:RlaifV",
    "dcscore": "captious.metrics.judges.dcscore:DCScore",
    "captionqa": "captious.metrics.judges.captionqa:CaptionQA",
    "capeval": "captious.metrics.judges.capeval:CapEval",
    "vdc": "captious.metrics.judges.vdc:Vdc",
    "autodq": "captious.metrics.judges.autodq:AutoDQ",
    "tifa": "captious.metrics.judges.tifa:Tifa",
    "dsg": "captious.metrics.judges.dsg:Dsg",
    "vqascore": "captious.metrics.judges.vqascore:VqaScore",
}
# Metrics that `captious.metric_from` made in this process.
FUNCTIONS: dict[str, type[Metric]] = {}

# What EMScore compares: the caption X with the video V, with its references X*, or with what there is, such as both.
_EMSCORES = {"x,v": "against=video", "x,x*": "against=references", "x,v,x*": ""}
# Labels of tables and papers, in lower case, and the written forms that they stand for.
LABELS = {
    **{f"amber {value}": f"amber(value={value})" for value in ("chair", "cover", "hal", "cog")},
    **{f"capeval {value}": f"capeval(value={value})" for value in ("coverage", "precision", "f1")},
    **{f"captionqa {value}": f"captionqa(value={value})" for value in ("accuracy", "cannot")},
    **{f"vdc {value}": f"vdc(value={value})" for value in ("accuracy", "score")},
    **{f"chair {value}": f"chair(value={value})" for value in ("recall", "precision", "f1", "words", "tokens")},
    **{f"chair{sign}{value}": f"chair(value={value})" for sign in ("", "_") for value in "si"},
    **{
        f"dense {label}": f"densecap(value={value})"
        for label, value in {
            **{f"bleu-{n}": f"bleu-{n}" for n in (1, 2, 3, 4)},
            "meteor": "meteor",
            "rouge-l": "rouge",
            "cider-d": "cider",
            **{value: value for value in ("precision", "recall", "f")},
        }.items()
    },
    **{f"div-{n} (per word)": f"diversity(n={n})" for n in (1, 2)},
    **{f"r@{n}": f"repetition(n={n})" for n in (1, 2, 3, 4)},
    "soda_c": "soda",
    "soda_d": "soda(score=iou)",
    "cider-d": "cider",
    "ciderd": "cider",
    "clip-s": "clipscore",
    **{f"emscore({pair})": f"emscore({against})" for pair, against in _EMSCORES.items()},
    **{
        f"emscore({pair}) {value}": f"emscore({against and f'{against},'}value={value})"
        for pair, against in _EMSCORES.items()
        for value in ("full_p", "full_r", "fine_f", "fine_p", "fine_r", "coarse")
    },
    "expert": "fleur(preset=expert)",
    "g-veval": "gveval",
    "gpt4-eval": "gpt4eval",
    "ie-image": "imagine",
    "lsa diversity": "lsa",
    "pac-s": "pacscore",
    "pac-s++": "pacscore(plus=yes)",
    "refclip-s": "refclipscore",
    "refpac-s": "refpacscore",
    "refpac-s++": "refpacscore(plus=yes)",
    "rlaif-v": "rlaifv",
    "rouge-l": "rouge",
    "rouge_l": "rouge",
    "rougel": "rouge",
    "self-cider": "selfcider",
    "specs-routed": "specs_routed",
    "spice (original)": "spice_original",
    **{f"spider{sign}fl": "spider(fluency=error_probability)" for sign in "-_"},
    **{f"spider{sign}max": "spider(best=yes)" for sign in "-_"},
    "spice (spacy)": "spice",
    "spider (spacy)": "spider",
}
# Labels that end in a number n, such as BLEU-4, and their metric.
NUMBERED = {"bleu": "bleu", "mbleu": "mbleu", "rouge": "rouge_n", "div": "div_n", "distinct": "distinct_n"}
# Well-known metrics that captious does not have; no other metric is suggested in their place.
ABSENT = (
    "bartscore", "blipscore", "bridge", "chrf", "cider-r", "comet",
    "faier", "fid", "hicescore", "infolm", "leic", "mid",
    "moverscore", "nist", "nubia", "pearl", "perplexity", "pope", "spice-u", "ter",
    "tiger", "vifidel", "vilbertscore", "wmd",
)  # fmt: skip

DEFAULT = "bleu,rouge,cider"
# Metrics that `all` leaves out: they measure a length, not quality.
NOT_IN_ALL = ("words",)
# Metrics that `all` takes only for captions of videos.
OF_VIDEOS = ("repetition", "diversity")
# Stands for every metric that the given captions allow and that needs no model and no download.
ALL = "all"

# Largest number of characters of an unknown name in a message.
LONGEST = 80

_NUMBERED = re.compile(rf"({'|'.join(NUMBERED)})[-_]?(\d+)")


def names() -> list[str]:
    """Return all known metric names, including those of installed packages."""
    return [*METRICS, *(name for name in plugins.find_points(plugins.METRICS) if name not in METRICS)]


def get_metric_class(name: str) -> type[Metric]:
    """Return the class of a metric by its name. Raise InputError if it is unknown."""
    if name in METRICS:
        module, _, attribute = METRICS[name].partition(":")
        metric: type[Metric] = getattr(importlib.import_module(module), attribute)
        return metric
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if point := plugins.find_points(plugins.METRICS).get(name):
        return _load_plugin(point)
    if name in ABSENT:
        raise InputError(f"captious has no {name.upper()} yet; captious metrics lists those that it has")
    raise InputError(f"unknown metric {name[:LONGEST]!r}{format_choices(name, names())}")


def _load_plugin(point: EntryPoint) -> type[Metric]:
    """Load the class of a metric from another package, and check that it is one."""
    from captious.metrics.contract import Metric

    where, kind = plugins.describe_point(point, "metric"), plugins.load_point(point, "metric")
    if not (isinstance(kind, type) and issubclass(kind, Metric)):
        raise InputError(f"{where}: {point.value} is not a metric, expected a subclass of captious.Metric")
    if getattr(kind, "name", None) != point.name:
        raise InputError(f"{where}: {point.value} has another name, expected name = {point.name!r}, as its entry point")
    bare = [field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING]
    if bare:
        raise InputError(f"{where}: its parameter {bare[0]!r} has no default value, expected one")
    return kind


@cache
def get_package_version(kind: type[Metric]) -> Mapping[str, str]:
    """Return name and version of the package of a metric; nothing for metrics of captious and of a script.

    >>> get_package_version(get_metric_class("bleu"))
    {}
    """
    package = kind.__module__.partition(".")[0]
    if package == "captious":
        return {}
    point = plugins.find_points(plugins.METRICS).get(kind.name)
    if point and point.dist and point.module == kind.__module__:
        return {point.dist.name: point.dist.version}
    from importlib.metadata import packages_distributions, version

    return {one: version(one) for one in packages_distributions().get(package, ())[:1]}


def parse(text: str, **parameters: Any) -> Metric:
    """Parse one metric from its written form, or from its label.

    Parameters may be passed by name as well, which is the way for a tokenizer or an encoder of one's own.

    >>> print(parse("cider(idf=coco)"), parse("bleu"), parse("Bleu_2"), parse("clipscore(captious-mini)"))
    cider(idf=coco) bleu(n=4) bleu(n=2) clipscore(weights=captious-mini)
    """
    kind, values = _read(text)
    for name in parameters:
        if name not in (legal := [field.name for field in fields(kind)]):
            raise InputError(f"{kind.name} has no parameter {name!r}, legal ones: {', '.join(legal)}")
        if name in values or ("" in values and kind.main == name):
            raise InputError(f"{text!r} sets {name}, and so does {name}=...; expected it once")
    return _make_metric(kind, values, parameters)


def find_key(name: str, labels: Mapping[str, str], where: str = "") -> str:
    """Find the one metric of a report, a run or a study that a name means.

    ``labels`` maps written forms to labels. The name is a written form, a label, or a short name
    that one metric has. The short name of a metric with variants, such as ``bleu``, means the default variant. A label
    may be written in lower case and with other signs between its words. ``where`` begins the message of an error.

    >>> labels = {str(metric): metric.label for metric in parse_all("bleu,cider(idf=coco)")}
    >>> [find_key(name, labels) for name in ("bleu(n=2)", "BLEU-3", "bleu", "cider")]
    ['bleu(n=2)', 'bleu(n=3)', 'bleu(n=4)', 'cider(idf=coco)']
    """
    return name if name in labels else _find_meant_key(name, tuple(labels.items()), where)


@lru_cache(maxsize=1 << 10)
def _find_meant_key(name: str, pairs: tuple[tuple[str, str], ...], where: str) -> str:
    """Find the key of a name that is no written form. Cached: training loops ask after every batch."""
    labels = dict(pairs)
    exact = [key for key, label in labels.items() if label == name]
    if len(exact) == 1:
        return exact[0]
    written, short = _expand_name(name)
    if written in labels:
        return written
    meant = [
        key
        for key, label in labels.items()
        if (short and key.partition("(")[0] == short)
        or ("=" not in name and _normalize_label(label) == _normalize_label(name) != "")
    ]
    for keys in (meant, [key for key in meant if _is_default_variant(key)]):
        if len(keys) == 1:
            return keys[0]
    begin = f"{where}: " if where else ""
    if several := exact or meant:
        raise AmbiguousKey(f"{begin}{name!r} names {len(several)} metrics, expected one of {', '.join(several)}")
    spellings = dict.fromkeys([*labels, *labels.values(), *(key.partition("(")[0] for key in labels)])
    hint = "" if name.lower() in ABSENT else format_suggestion(name.lower(), spellings)
    raise UnknownKey(f"{begin}no metric {name[:LONGEST]!r}{format_choices(name, labels, hint)}")


def make_short_names(metrics: Iterable[Metric]) -> dict[str, str]:
    """Return short names of metrics for logs, by written form; with parameters only if names would be equal.

    >>> make_short_names(parse_all("bleu(n=4), rouge, cider"))
    {'bleu(n=4)': 'bleu_4', 'rouge': 'rouge', 'cider': 'cider'}
    >>> make_short_names(parse_all("cider, cider(idf=coco)"))
    {'cider': 'cider', 'cider(idf=coco)': 'cider_idf_coco'}
    """
    metrics = list(metrics)
    brief = {str(one): "_".join([one.name, *(str(getattr(one, name)) for name in one.variants)]) for one in metrics}
    numbers = Counter(brief.values())
    named: dict[str, str] = {}
    for key, name in brief.items():
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name if numbers[name] == 1 else key).strip("_")
        repeated = sum(re.sub(r"-\d+$", "", one) == plain for one in named.values())
        named[key] = f"{plain}-{repeated + 1}" if repeated else plain
    return named


def _expand_name(name: str) -> tuple[str, str]:
    """Return the written form that a name stands for, and the short name if it has no parameters."""
    try:
        kind, values = _read(name)
        return str(_make_metric(kind, values)), "" if values else kind.name
    except InputError:
        return name, name.strip().lower()


def _normalize_label(label: str) -> str:
    """Convert a label to lower case, with a hyphen in place of all signs between words.

    >>> _normalize_label("SPICE (spaCy) color"), _normalize_label("IE-text&image")
    ('spice-spacy-color', 'ie-text-image')
    """
    # A plus distinguishes PAC-S++ from PAC-S.
    return re.sub(r"(?:[^\w+]|_)+", "-", label).strip("-").lower()


def _is_default_variant(key: str) -> bool:
    """Return True if the variant parameters of a written form, such as the n of BLEU, have their defaults."""
    try:
        kind, values = _read(key)
    except InputError:
        return False
    defaults = {field.name: str(field.default) for field in fields(kind)}
    return bool(kind.variants) and all(values.get(name, defaults[name]) == defaults[name] for name in kind.variants)


def parse_all(
    specs: str | Metric | Iterable[str | Metric], captions: Collection[CaptionSet] | None = None
) -> list[Metric]:
    """Parse a written list, or any mixture of written forms and metrics; a name with variants gives one metric each.

    ``all`` stands for every metric that needs no model and no download, and that the captions allow: a metric that
    needs references is left out if there are none. Without captions it means metrics of one caption and its references.

    >>> [str(metric) for metric in parse_all("bleu, cider(idf=refs)")]
    ['bleu(n=1)', 'bleu(n=2)', 'bleu(n=3)', 'bleu(n=4)', 'cider']
    """
    from captious.metrics.contract import Metric, refuse_undeclared

    if isinstance(specs, (str, Metric)):
        specs = [specs]
    metrics: dict[Metric, None] = {}
    for spec in specs:
        if isinstance(spec, Metric):
            metrics[spec] = None
            continue
        parts = split_specs(spec)
        for part in [name for one in parts for name in (_list_allowed(captions) if one.lower() == ALL else [one])]:
            kind, values = _read(part)
            for variant in _expand_variants(kind, values):
                metrics[_make_metric(kind, variant)] = None
    for metric in metrics:
        refuse_undeclared(metric)
    if not metrics:
        raise InputError("no metric named, expected a list such as bleu,rouge,cider")
    return list(metrics) if captions is None else choose_inputs(metrics, captions)


def choose_inputs(metrics: Iterable[Metric], captions: Collection[CaptionSet]) -> list[Metric]:
    """Return each metric for what the captions have: references, images or videos."""
    references = any((one.references.counts > 0).any() for one in captions)
    images = any(one.has_videos or any(image is not None for image in one.images) for one in captions)
    return list(dict.fromkeys(metric.choose_inputs(references, images) for metric in metrics))


def _list_allowed(captions: Collection[CaptionSet] | None) -> list[str]:
    """List the names of the metrics that ``all`` stands for."""
    supplied = {"references", "events", "several candidates", "objects"} if captions else {"references"}
    for one in captions or ():
        if one.settings.get("events") == "video":
            supplied -= {"several candidates", "objects"}
        else:
            supplied -= {"events"}
        supplied -= set() if (one.references.counts > 0).any() else {"references"}
        supplied -= set() if (one.candidates.counts > 1).any() else {"several candidates"}
        supplied -= set() if OBJECT_COLUMN in one.columns else {"objects"}
    sets = list(captions or ())
    dense = "events" in supplied
    left_out = {*NOT_IN_ALL, *(() if sets and all("events" in one.settings for one in sets) else OF_VIDEOS)}
    metrics = [get_metric_class(name)() for name in names() if name not in left_out]
    languages = {one.language for one in captions or () if one.language}
    return [
        metric.name
        for metric in metrics
        if supplied.issuperset(metric.needs)
        and (not dense or "events" in metric.needs or not metric.needs)
        and _is_installed(metric)
        and languages <= set(metric.languages or languages)
    ]


def _is_installed(metric: Metric) -> bool:
    from captious.metrics.abilities import HasTables

    return not isinstance(metric, HasTables) or metric.installed


def _read(text: str) -> tuple[type[Metric], dict[str, str]]:
    """Parse a written form into the class and the parameters."""
    text = LABELS.get(text.strip().lower(), text)
    _refuse_missing_commas(text)
    name, values = parse_spec(text, "metric", "bleu or cider(idf=refs)")
    if name in LABELS:
        name, own = parse_spec(LABELS[name], "metric", "bleu")
        values = {**own, **values}
    if (match := _NUMBERED.fullmatch(name)) and name not in METRICS:
        return get_metric_class(NUMBERED[match[1]]), {"n": match[2], **values}
    return get_metric_class(name), values


def _make_metric(kind: type[Metric], values: Mapping[str, str], parameters: Mapping[str, Any] = {}) -> Metric:
    """Make a metric with the parameters of its written form, and with further ones."""
    return kind(**convert_arguments(kind, values, kind.name, main=kind.main), **parameters)


def _refuse_missing_commas(text: str) -> None:
    """Raise InputError if metrics are written without a comma between them."""
    parts = re.split(r"[\s;+|/]+(?![^()]*\))", text.strip())
    if len(parts) > 1 and all(one.partition("(")[0].lower() in {*METRICS, *LABELS, ALL} for one in parts):
        raise InputError(f"cannot read the metric {text!r}; commas stand between metrics: {','.join(parts)}")


def _expand_variants(kind: type[Metric], values: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the parameters of each metric that a written form stands for."""
    variants = [dict(values)]
    for name, choices in kind.variants.items():
        if name not in values and not ("" in values and kind.main == name):
            variants = [{name: str(choice), **variant} for variant in variants for choice in choices]
    return variants
