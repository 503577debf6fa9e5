"""Probes: what an encoder, a painter or a metric can and cannot tell apart. Names are imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captious.probes.classification import Classification, probe_classification, read_labeled, read_templates
    from captious.probes.compositionality import Compositionality, probe_compositionality, read_contests
    from captious.probes.entities import EntityRecall, read_answers, recall, tasks
    from captious.probes.hubness import Hubness, probe_hubness
    from captious.probes.masking import Masking, probe_masking
    from captious.probes.pictures import Pictures, paint
    from captious.probes.probe import Probe
    from captious.probes.retrieval import Retrieval, probe_retrieval
    from captious.probes.specificity import Specificity, probe_specificity, read_details

_HOMES = {
    "Classification": "classification",
    "Compositionality": "compositionality",
    "EntityRecall": "entities",
    "Hubness": "hubness",
    "Masking": "masking",
    "Pictures": "pictures",
    "Probe": "probe",
    "Retrieval": "retrieval",
    "Specificity": "specificity",
    "paint": "pictures",
    "probe_classification": "classification",
    "probe_compositionality": "compositionality",
    "probe_hubness": "hubness",
    "probe_masking": "masking",
    "probe_retrieval": "retrieval",
    "probe_specificity": "specificity",
    "read_answers": "entities",
    "read_contests": "compositionality",
    "read_details": "specificity",
    "read_labeled": "classification",
    "read_templates": "classification",
    "recall": "entities",
    "tasks": "entities",
}

__all__ = [
    "Classification",
    "Compositionality",
    "EntityRecall",
    "Hubness",
    "Masking",
    "Pictures",
    "Probe",
    "Retrieval",
    "Specificity",
    "paint",
    "probe_classification",
    "probe_compositionality",
    "probe_hubness",
    "probe_masking",
    "probe_retrieval",
    "probe_specificity",
    "read_answers",
    "read_contests",
    "read_details",
    "read_labeled",
    "read_templates",
    "recall",
    "tasks",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
