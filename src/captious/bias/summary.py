"""An audit as plain data, for JSON, tables and the page alike."""

from __future__ import annotations

import math
from typing import Any

from captious._version import __version__
from captious.bias.audit import Audit, Row
from captious.bias.masking import as_text
from captious.bias.telling import Judged, judged, surest, telling


def summarize(audit: Audit) -> dict[str, Any]:
    """Everything: protocol, numbers, per-seed values, leaks, telling n-grams, surest captions."""
    return {
        "captious": __version__,
        "kind": "bias audit",
        "classes": list(audit.corpora[0].classes),
        "chance": round(audit.chance, 6),
        "protocol": dict(audit.protocol.settings()),
        "classifiers": {name: dict(settings) for name, settings in audit.classifiers.items()},
        "captioners": {corpus.subject.name: _captioner(corpus) for corpus in audit.corpora},
        "results": [numbers(row) for row in audit.rows],
        "evidence": [evidence(row) for row in audit.rows],
        "leaks": {
            name: {who: [leak._asdict() for leak in found] for who, found in parts.items()}
            for name, parts in audit.leaks().items()
        },
        "notes": list(audit.notes),
    }


def numbers(row: Row) -> dict[str, Any]:
    """One line of the table, with its seeds."""
    lic, (of_model, of_people) = row.lic, row.accuracy()
    low, high = lic.interval
    per_seed = [
        {
            "seed": runs[0].task.seed,
            "lic_m": runs[0].score,
            "lic_d": sum(run.score for run in runs[1:]) / len(runs[1:]),
            "human": [run.score for run in runs[1:]],
            "accuracy_m": runs[0].accuracy,
            "by_class_m": runs[0].by_class,
        }
        for runs in row.runs
    ]
    split = row.runs[0][0].task.split
    return {
        "model": row.model,
        "classifier": row.classifier,
        "lic_m": lic.lic_m,
        "lic_m_sd": _known(lic.sd_m),
        "lic_d": lic.lic_d,
        "lic_d_sd": _known(lic.sd_d),
        "lic": lic.lic,
        "low": _known(low),
        "high": _known(high),
        "level": lic.level,
        "p": _known(lic.p_value),
        "differs_from_0": lic.differs,
        "interval_over": "seeds" if len(row.runs) > 1 else "tested images",
        "accuracy_m": of_model,
        "accuracy_d": of_people,
        "trained": len(split.train),
        "tested": len(split.test),
        "seeds": per_seed,
    }


def evidence(row: Row) -> dict[str, Any]:
    """Telling n-grams and surest captions, of the model and of people."""
    parts: dict[str, Any] = {"model": row.model, "classifier": row.classifier}
    for who, human in (("model captions", False), ("human captions", True)):
        said = judged(row, human)
        parts[who] = {
            label: {
                "ngrams": [one._asdict() for one in telling(said, number)],
                "surest": [_said(one, row) for one in surest(said, number)],
                "surest_wrong": [_said(one, row) for one in surest(said, number, right=False)],
            }
            for number, label in enumerate(row.corpus.classes)
        }
    return parts


def _captioner(corpus: Any) -> dict[str, Any]:
    counts = {label: corpus.subject.labels.count(label) for label in corpus.classes}
    return {"images": len(corpus.subject.ids), "labels": counts, "human_words_hidden": round(corpus.unknown, 6)}


def _said(one: Judged, row: Row) -> dict[str, Any]:
    token = row.corpus.protocol.mask.token.upper()
    shown = as_text(one.caption, f"[{token}]", "[UNKNOWN]")
    guess = int(one.probabilities.argmax())
    sure = float(one.probabilities[guess])
    return {"id": one.id, "caption": shown, "predicted": row.corpus.classes[guess], "probability": sure}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
