"""One self-contained page for a study: the table, a forest plot, scatters, and where metric and people disagree most.

Captions reach the page as JSON and are written to it as text, never as markup; the look is that of the run report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from captious._version import __version__
from captious.render.pictures import thumbnails
from captious.study.design import Rows
from captious.study.disagreement import disagreements
from captious.study.printed import NAMES
from captious.study.study import Study
from captious.study.table import shown, table

DOTS = 3000
"""Items drawn in a scatter; more would only make it slower."""


def page(study: Study, summary: Mapping[str, Any]) -> str:
    """The HTML text of a study."""
    worst = disagreements(study)
    keys = list(dict.fromkeys(key for rows in worst.values() for row in rows for key in row["items"]))
    texts = table(study)
    data = {
        **summary,
        "captious": __version__,
        "clustered": study.problem.clusters,
        "names": {name: NAMES.get(name, name) for name in summary["metrics"][0]["statistics"]},
        "shown": shown(study),
        "table": {"columns": texts.columns, "rows": texts.rows, "notes": texts.notes},
        "scatter": _scatter(study),
        "worst": worst,
        **_items(study, keys),
    }
    parts = {
        "title": escape(f"{study.ratings.name}: metrics and people"),
        "style": (files("captious.report") / "page" / "page.css").read_text(encoding="utf-8") + _asset("study.css"),
        "data": _embedded(data),
        "script": _asset("study.js"),
    }
    text = re.sub(r"<!-- (\w+) -->", lambda match: parts[match[1]], _asset("study.html"))
    return text.encode("utf-8", "replace").decode()


def _scatter(study: Study) -> dict[str, Any]:
    """Mean rating and value of every item, or of a seeded part of them."""
    if not isinstance(study.problem, Rows):
        return {}
    number = study.problem.items
    places = np.arange(number)
    if number > DOTS:
        places = np.sort(np.random.default_rng(0).permutation(number)[:DOTS])
    return {
        "of": number,
        "human": np.round(study.problem.mean[places], 4).tolist(),
        "values": {score.key: np.round(score.values[places], 5).tolist() for score in study.scores},
        "ids": [study.ids[place] for place in places.tolist()],
    }


def _items(study: Study, keys: list[str]) -> dict[str, Any]:
    captions = study.ratings.captions
    if captions is None:
        return {"texts": {}, "images": []}
    found = [captions[key] for key in keys]
    paths = [str(item.fields["image"]) if item.fields.get("image") else None for item in found]
    images, pictures = thumbnails(paths)
    texts = {
        item.id: {"candidate": item.candidate, "references": list(item.references), "picture": picture}
        for item, picture in zip(found, pictures, strict=True)
    }
    return {"texts": texts, "images": images}


def _embedded(data: Any) -> str:
    """JSON that cannot end its script element, whatever captions hold."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _asset(name: str) -> str:
    return (files("captious.study") / "page" / name).read_text(encoding="utf-8")
