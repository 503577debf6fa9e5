"""Metrics of dense captions, once for each file of references and once for their mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.contract import Metric
from captious.metrics.dense._event_pairs import count_files
from captious.metrics.dense.densecap import Densecap
from captious.metrics.dense.soda import Soda


def split_by_file(metrics: Sequence[str | Metric], captions: CaptionSet) -> list[str | Metric]:
    """Replace each metric of dense captions by one metric per file of references, and one for the mean of all files.

    Metrics that name their files stay as they are.
    """
    number = count_files(captions)
    if captions.settings.get("events") != "video" or number < 2:
        raise InputError(
            f"{captions.name}: by_file=True is for dense captions with several files of references, such as "
            "references=... for each annotator"
        )
    split: list[str | Metric] = []
    for metric in metrics:
        if isinstance(metric, (Densecap, Soda)) and metric.files == type(metric).files:
            split += [replace(metric, files=str(file)) for file in range(1, number + 1)]
            split.append(replace(metric, files="each"))
        else:
            split.append(metric)
    return list(dict.fromkeys(split))
