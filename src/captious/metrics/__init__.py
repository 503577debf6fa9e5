"""Metrics: their contract, the registry, a file per metric, and a folder per family.

Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captious.metrics.contract import MeanMetric, Measurement, Metric, Scored, Shared, Signature, TypeSets
    from captious.metrics.registry import names, parse, parse_all
    from captious.metrics.tokenized import TokenMetric

_HOMES = {
    "MeanMetric": "contract",
    "Measurement": "contract",
    "Metric": "contract",
    "Scored": "contract",
    "Shared": "contract",
    "Signature": "contract",
    "TokenMetric": "tokenized",
    "TypeSets": "contract",
    "names": "registry",
    "parse": "registry",
    "parse_all": "registry",
}

__all__ = [
    "MeanMetric",
    "Measurement",
    "Metric",
    "Scored",
    "Shared",
    "Signature",
    "TokenMetric",
    "TypeSets",
    "names",
    "parse",
    "parse_all",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
