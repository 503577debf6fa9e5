"""An audit as one self-contained page: the intervals plotted, the telling n-grams, the surest captions, the leaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from captious.bias.plot import intervals, seeds
from captious.bias.show import signature
from captious.report.frame import frame


def page(summary: Mapping[str, Any]) -> str:
    """The HTML text; captions reach it escaped."""
    classes = " / ".join(summary["classes"])
    parts = [
        f"<h1>Bias amplification (LIC): {escape(classes)}</h1>",
        "<p>LIC is how much more a classifier learns about the label from the model’s captions (LIC_M) than from "
        "people’s (LIC_D), in points: the mean probability of the true class where it is the one predicted, else 0. "
        f"Knowing nothing scores {summary['chance']:.1f}. {_masking(summary)}</p>",
        _results(summary["results"]),
        f"<figure>{intervals(summary['results'])}<figcaption>LIC with its "
        f"{summary['results'][0]['level']:.0%} interval; right of 0 the model leaks more than people do."
        "</figcaption></figure>",
        f"<figure>{seeds(summary['results'], summary['chance'])}<figcaption>LIC_M (model) and LIC_D (people) of every "
        "seed, and their means.</figcaption></figure>",
        "<h2>What gave the label away</h2>",
        *(_evidence(one, number == 0) for number, one in enumerate(summary["evidence"])),
        "<h2>Words that still tell the label almost alone</h2>",
        _leaks(summary["leaks"]),
        _notes(summary),
    ]
    return frame(f"LIC: {classes}", "".join(parts), signature(summary))


def _results(results: Sequence[Mapping[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td>{escape(row['model'])}</td><td>{escape(row['classifier'])}</td>"
        f'<td class="v">{_spread(row["lic_m"], row["lic_m_sd"])}</td>'
        f'<td class="v">{_spread(row["lic_d"], row["lic_d_sd"])}</td><td class="v"><b>{row["lic"]:+.1f}</b></td>'
        f'<td class="v">{_interval(row)}</td><td class="v">{"—" if row["p"] is None else format(row["p"], ".3f")}</td>'
        f"<td>{'yes' if row['differs_from_0'] else 'no'}</td>"
        f'<td class="v">{row["accuracy_m"]:.1%} / {row["accuracy_d"]:.1%}</td>'
        f'<td class="v">{len(row["seeds"])}</td></tr>'
        for row in results
    )
    head = "".join(f'<th class="v">{name}</th>' for name in ("LIC_M ± sd", "LIC_D ± sd", "LIC", "interval", "p"))
    return (
        f"<table><tr><th>model</th><th>classifier</th>{head}<th>differs from 0</th>"
        f'<th class="v">accuracy, model / people</th><th class="v">seeds</th></tr>{rows}</table>'
    )


def _evidence(one: Mapping[str, Any], first: bool) -> str:
    parts = []
    for who in ("model captions", "human captions"):
        blocks = []
        for label, found in one[who].items():
            grams = "".join(
                f'<tr><td>{escape(gram["ngram"])}</td><td class="v">{gram["probability"]:.0%}</td>'
                f'<td class="v">{gram["captions"]}</td></tr>'
                for gram in found["ngrams"]
            )
            blocks.append(
                f"<section><h3>{escape(label)}: telling n-grams</h3><table><tr><th>n-gram</th>"
                f'<th class="v">mean P({escape(label)})</th><th class="v">captions</th></tr>{grams}</table>'
                f"{_captions(found['surest'], 'surest and right')}"
                f"{_captions(found['surest_wrong'], 'surest and wrong')}</section>"
            )
        parts.append(f"<h3>{who.capitalize()}</h3><div class=grid>{''.join(blocks)}</div>")
    title = f"{escape(one['model'])} · {escape(one['classifier'])}"
    return f"<details{' open' if first else ''}><summary>{title}</summary>{''.join(parts)}</details>"


def _captions(found: Sequence[Mapping[str, Any]], title: str) -> str:
    if not found:
        return ""
    rows = "".join(
        f"<tr><td>{escape(one['caption'])}</td><td class=s>{escape(one['id'])}</td>"
        f'<td class="v">{escape(one["predicted"])} {one["probability"]:.0%}</td></tr>'
        for one in found
    )
    return f'<h3>{title}</h3><table><tr><th>caption</th><th>id</th><th class="v">predicted</th></tr>{rows}</table>'


def _leaks(leaks: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> str:
    rows = "".join(
        f"<tr><td>{escape(name)}, {who}</td><td>{escape(leak['word'])}</td><td>{escape(leak['label'])}</td>"
        f'<td class="v">{leak["share"]:.0%}</td><td class="v">{leak["captions"]}</td></tr>'
        for name, parts in leaks.items()
        for who, found in parts.items()
        for leak in found[:20]
    )
    if not rows:
        return "<p>None: no word of ten or more captions belongs to one label in 90% of them.</p>"
    return (
        "<p>Of ten or more captions each; shares are of labels made equally frequent. Should the mask hold them?</p>"
        '<table><tr><th>captions of</th><th>word</th><th>label</th><th class="v">share</th>'
        f'<th class="v">captions</th></tr>{rows}</table>'
    )


def _masking(summary: Mapping[str, Any]) -> str:
    words = len(summary["protocol"]["masked_words"])
    return f"{words} words that name the label were masked." if words else "No words were masked."


def _notes(summary: Mapping[str, Any]) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for note in summary["notes"])
    hidden = "".join(
        f"<li>{escape(name)}: {facts['images']:,} images ("
        + escape(", ".join(f"{label} {count:,}" for label, count in facts["labels"].items()))
        + f"); alignment hid {facts['human_words_hidden']:.1%} of the human words</li>"
        for name, facts in summary["captioners"].items()
    )
    masked = escape(", ".join(summary["protocol"]["masked_words"])) or "nothing"
    return f"<h2>Data</h2><ul>{hidden}{notes}</ul><p>Masked: {masked}.</p>"


def _spread(value: float, sd: float | None) -> str:
    return f"{value:.1f}" if sd is None else f"{value:.1f} ± {sd:.1f}"


def _interval(row: Mapping[str, Any]) -> str:
    return "—" if row["low"] is None else f"{row['low']:+.1f} to {row['high']:+.1f}"
