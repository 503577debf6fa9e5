"""captious: judge image captions, judge the judges, and collect the judgments.

Public names are imported when first used, so that ``import captious`` stays instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from captious._version import __version__

if TYPE_CHECKING:
    from captious.bias.audit import Audit, audit
    from captious.captions import CaptionSet, Item
    from captious.comparison import Comparison, compare
    from captious.errors import InputError
    from captious.evaluation import Report, evaluate, evaluate_shards
    from captious.io.check import Check, check
    from captious.io.read import read
    from captious.metrics.contract import Measurement, Metric, Signature
    from captious.metrics.registry import parse as metric
    from captious.options import Output, Reading, Resampling, Runtime
    from captious.study.study import Study, correlate

_HOMES = {
    "Audit": "captious.bias.audit",
    "CaptionSet": "captious.captions",
    "Check": "captious.io.check",
    "Comparison": "captious.comparison",
    "InputError": "captious.errors",
    "Item": "captious.captions",
    "Measurement": "captious.metrics.contract",
    "Metric": "captious.metrics.contract",
    "Output": "captious.options",
    "Reading": "captious.options",
    "Report": "captious.evaluation",
    "Resampling": "captious.options",
    "Runtime": "captious.options",
    "Signature": "captious.metrics.contract",
    "Study": "captious.study.study",
    "audit": "captious.bias.audit",
    "check": "captious.io.check",
    "compare": "captious.comparison",
    "correlate": "captious.study.study",
    "evaluate": "captious.evaluation",
    "evaluate_shards": "captious.evaluation",
    "metric": "captious.metrics.registry:parse",
    "read": "captious.io.read",
}

__all__ = [
    "Audit",
    "CaptionSet",
    "Check",
    "Comparison",
    "InputError",
    "Item",
    "Measurement",
    "Metric",
    "Output",
    "Reading",
    "Report",
    "Resampling",
    "Runtime",
    "Signature",
    "Study",
    "__version__",
    "audit",
    "check",
    "compare",
    "correlate",
    "evaluate",
    "evaluate_shards",
    "metric",
    "read",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'captious' has no attribute {name!r}")
    import importlib

    module, _, attribute = _HOMES[name].partition(":")
    value = getattr(importlib.import_module(module), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
