"""A page to look at: texts, their pictures by seed, those of the reference, how alike they are, what people said."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from captious._files import whole_folder
from captious._typing import Floats, Ints
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.imagine import likeness
from captious.models.encoder import Encoder, Pixels
from captious.models.painters import FAULTS, Imagined, Painter, Wish, imagine, picture_list
from captious.options import Resampling
from captious.probes.finding import Figure, Finding, Grid, between, per_cent, plain_name
from captious.report.frame import STYLE, frame
from captious.report.plot import Mark, intervals
from captious.stats.bootstrap import Estimate
from captious.stats.correlation import standing
from captious.stats.shares import shares
from captious.syntax.sentences import sentences
from captious.syntax.tagging import tagger_named

MARKER = "gallery.json"
SIDE = 192
"""Of a picture inside the page; the file beside it has the painter's own size."""
LOOK = """
article{border-top:1px solid var(--line);padding:1.1rem 0}.pair{display:grid;grid-template-columns:9rem 1fr;
gap:.35rem 1rem;align-items:center}.pair q{quotes:none;font-weight:600;grid-column:2}.pair small{color:var(--soft);
grid-column:1;text-align:right}.strip{grid-column:2;display:flex;gap:.4rem;flex-wrap:wrap}
.strip a,.strip i{width:8.6rem;height:8.6rem;display:block;border-radius:6px;overflow:hidden;background:var(--band)}
.strip img{width:100%;height:100%;
object-fit:cover;display:block}.strip i{padding:.7rem;font-size:.78rem;color:var(--soft);box-sizing:border-box}
.facts{margin:.5rem 0 0 10rem;display:flex;gap:.5rem;flex-wrap:wrap;font-variant-numeric:tabular-nums}
.facts span{background:var(--band);border-radius:99px;padding:.1rem .7rem;font-size:.86rem}
.facts .gap{background:none;border:1px solid var(--model);color:var(--model)}
.legend{display:flex;gap:.4rem;margin-left:10rem;color:var(--soft);font-size:.78rem}.legend b{width:8.6rem;
font-weight:400;text-align:center}@media(max-width:46rem){.pair{grid-template-columns:1fr}.pair q,.pair small,.strip{
grid-column:1;text-align:left}.facts,.legend{margin-left:0}}
"""


@dataclass(frozen=True)
class Entry:
    """One text, the reference nearest to it, and how alike their pictures are."""

    id: str
    text: str
    reference: str = ""
    image: float = float("nan")
    cross: float = float("nan")
    human: float = float("nan")
    gap: float = float("nan")
    """Standing by the likeness of pictures less standing by people, as shares of all texts."""


def entries(
    captions: CaptionSet,
    painter: Painter,
    encoder: Encoder | None,
    seeds: Sequence[int],
    human: Floats | None = None,
    most: int = 100,
) -> list[Entry]:
    """What to show: where people rated, the greatest disagreements first; with references, the least alike first."""
    texts = [captions.candidates[place][0] if captions.candidates[place] else "" for place in range(len(captions))]
    if encoder is None or not captions.references.counts.any():
        shown = [Entry(key, text) for key, text in zip(captions.ids, texts, strict=True) if text.strip()]
        return shown[:most]
    pair = (tuple(seeds), tuple(seeds))
    single = CaptionSet.of(dict(zip(captions.ids, texts, strict=True)), name=captions.name)
    image, cross = (
        likeness(single, captions.references, painter, encoder, kind, pair).values.mean(axis=1)
        for kind in ("image", "text&image")
    )
    rated = human if human is not None else np.full(len(texts), np.nan)
    both = ~np.isnan(rated) & ~np.isnan(image)
    gap = np.full(len(texts), np.nan)
    gap[both] = standing(image[both]) - standing(rated[both])
    key = -np.abs(gap) if both.any() else image
    order = [place for place in np.argsort(key, kind="stable").tolist() if texts[place].strip()][:most]
    nearest = _nearest(captions, texts, order, painter, encoder, pair)
    return [
        Entry(
            captions.ids[place],
            texts[place],
            nearest[place],
            *(float(part[place]) for part in (image, cross, rated, gap)),
        )
        for place in order
    ]


def _nearest(
    captions: CaptionSet,
    texts: Sequence[str],
    order: Sequence[int],
    painter: Painter,
    encoder: Encoder,
    pair: tuple[tuple[int, ...], tuple[int, ...]],
) -> dict[int, str]:
    """The reference whose pictures are most like those of the text, of each item that is shown."""
    rows = [(place, one) for place in order for one in captions.references[place] if one.strip()]
    each = CaptionSet.of({str(number): texts[place] for number, (place, _) in enumerate(rows)})
    against = type(captions.references).of([[one] for _, one in rows])
    values = np.nan_to_num(likeness(each, against, painter, encoder, "image", pair).values.mean(axis=1), nan=-np.inf)
    found: dict[int, str] = dict.fromkeys(order, "")
    best: dict[int, float] = {}
    for (place, one), value in zip(rows, values.tolist(), strict=True):
        if place not in best or value > best[place]:
            best[place], found[place] = value, one
    return found


def save(
    shown: Sequence[Entry],
    painter: Painter,
    seeds: Sequence[int],
    folder: str | Path,
    title: str,
    signature: str,
    overwrite: bool = False,
) -> int:
    """Write the page, the pictures beside it, and ``gallery.json``; returns how many could not be painted."""
    texts = list(dict.fromkeys(text for one in shown for text in (one.text, one.reference) if text))
    wishes = [Wish(text, seed) for text in texts for seed in seeds]
    pixels, codes = picture_list(painter, wishes)
    strips: dict[str, list[str]] = {text: [] for text in texts}
    listed: list[dict[str, Any]] = []
    with whole_folder(folder, overwrite, MARKER) as draft:
        (draft / "pictures").mkdir()
        for number, (wish, picture, code) in enumerate(zip(wishes, pixels, codes, strict=True)):
            if code:
                strips[wish.text].append(f"<i>{escape(FAULTS[code])}</i>")
                continue
            name = f"pictures/{number:05d}.png"
            _picture(picture).save(draft / name)
            strips[wish.text].append(
                f'<a href="{name}"><img alt="seed {wish.seed}" title="seed {wish.seed}" src="{_embedded(picture)}"></a>'
            )
            listed.append({"text": wish.text, "seed": wish.seed, "picture": name})
        facts = {
            "painter": painter.name,
            "fingerprint": painter.fingerprint,
            "settings": painter.settings,
            "seeds": list(seeds),
            "entries": [{name: _plain(value) for name, value in vars(one).items()} for one in shown],
            "pictures": listed,
        }
        (draft / MARKER).write_text(json.dumps(facts, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        (draft / "index.html").write_text(_page(shown, strips, seeds, title, signature), encoding="utf-8")
    return sum(code > 0 for code in codes)


def _page(
    shown: Sequence[Entry], strips: dict[str, list[str]], seeds: Sequence[int], title: str, signature: str
) -> str:
    rated = any(one.gap == one.gap for one in shown)
    how = "where people and pictures disagree most first" if rated else "the least alike first"
    about = how if any(one.reference for one in shown) else "in the order of the file"
    legend = "".join(f"<b>seed {seed}</b>" for seed in seeds)
    parts = [f"<h1>{escape(title)}</h1><p>{len(shown):,} texts, {about}.</p>", f'<div class="legend">{legend}</div>']
    for one in shown:
        pairs = [(one.id, one.text), *([("nearest reference", one.reference)] if one.reference else [])]
        strip = "".join(
            f'<small>{escape(name)}</small><q>{escape(text)}</q><div class="strip">{"".join(strips[text])}</div>'
            for name, text in pairs
        )
        facts = [
            f"<span>{name} {value:.3f}</span>"
            for name, value in (("IE-image", one.image), ("IE-text&amp;image", one.cross), ("people", one.human))
            if value == value
        ]
        if one.gap == one.gap:
            side = "pictures like it better" if one.gap > 0 else "people like it better"
            facts.append(f'<span class="gap">{side}: {100 * abs(one.gap):.0f} % of the texts between</span>')
        parts.append(f'<article><div class="pair">{strip}</div><div class="facts">{"".join(facts)}</div></article>')
    text = frame(title, "".join(parts), signature, STYLE + LOOK)
    allowed = text.replace("style-src 'unsafe-inline'", "style-src 'unsafe-inline'; img-src data:", 1)
    return allowed.encode("utf-8", "replace").decode()


def _picture(pixels: Pixels) -> Any:
    from PIL import Image

    return Image.fromarray(pixels)


def _embedded(pixels: Pixels) -> str:
    picture, buffer = _picture(pixels), BytesIO()
    picture.thumbnail((SIDE, SIDE))
    picture.save(buffer, "webp", quality=85)
    return f"data:image/webp;base64,{b64encode(buffer.getvalue()).decode()}"


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value


UNIVERSAL = {
    **dict.fromkeys(("NN", "NNS"), "NOUN"),
    **dict.fromkeys(("NNP", "NNPS"), "PROPN"),
    **dict.fromkeys(("JJ", "JJR", "JJS"), "ADJ"),
    **dict.fromkeys(("RB", "RBR", "RBS", "WRB"), "ADV"),
    **dict.fromkeys(("VB", "VBD", "VBG", "VBN", "VBP", "VBZ"), "VERB"),
    **dict.fromkeys(("DT", "PDT", "WDT"), "DET"),
    **dict.fromkeys(("PRP", "PRP$", "WP", "WP$", "EX"), "PRON"),
    **dict.fromkeys(("IN", "RP"), "ADP"),
    **dict.fromkeys(("TO", "POS"), "PART"),
    "MD": "AUX",
    "CC": "CCONJ",
    "CD": "NUM",
    "UH": "INTJ",
}
"""Penn tags as Universal ones, which the paper reports; marks and what is unknown are left alone."""
_AUXILIARIES = "am is are was were be been being has have had having do does did 's 're"
AUXILIARIES = frozenset(_AUXILIARIES.split())
Grouping = Callable[[str, str], str]
"""A token and its Penn tag to the name it is counted under; empty to leave it alone."""


class Masked(NamedTuple):
    """A text without one of its tokens."""

    text: int
    """Which text."""
    group: str
    token: str
    rest: str


def universal(token: str, tag: str) -> str:
    """The Universal tag of a token.

    >>> universal("dog", "NN"), universal("is", "VBZ"), universal("runs", "VBZ"), universal(".", ".")
    ('NOUN', 'AUX', 'VERB', '')
    """
    return "AUX" if token.lower() in AUXILIARIES and tag.startswith("VB") else UNIVERSAL.get(tag, "")


def masked(texts: Sequence[str], grouping: Grouping = universal, tagger: str = "captious") -> list[Masked]:
    """Every text without each of its tokens, one at a time.

    >>> [(one.group, one.rest) for one in masked(["A dog runs."])]
    [('DET', 'dog runs.'), ('NOUN', 'A runs.'), ('VERB', 'A dog.')]
    """
    cut = [(number, one) for number, text in enumerate(texts) for one in sentences(text)]
    tags = tagger_named(tagger)([list(one.tokens) for _, one in cut])
    found = []
    for (number, one), marks in zip(cut, tags, strict=True):
        for token, tag, start, stop in zip(one.tokens, marks, one.starts, one.stops, strict=True):
            group = grouping(token, tag)
            before, after = texts[number][:start].rstrip(), texts[number][stop:].lstrip()
            gap = " " if before and after[:1].isalnum() else ""
            if group and (rest := before + gap + after).strip(" .,!?"):
                found.append(Masked(number, group, token, rest))
    return found


class Influence(NamedTuple):
    """What taking out tokens of one group does."""

    group: str
    tokens: int
    frequency: float
    """Of all tokens that were taken out."""
    decrease: Estimate
    """(baseline − masked) / baseline, over the tokens of the group, with an interval over texts."""
    common: tuple[str, ...]
    """The most frequent tokens."""


def influences(
    texts: Sequence[str],
    painter: Painter,
    encoder: Encoder,
    seeds: int = 5,
    grouping: Grouping = universal,
    tagger: str = "captious",
    how: Resampling | None = None,
) -> tuple[list[Influence], Floats, int]:
    """The influence of each group, the largest first; the baseline of each text; texts that could not be painted.

    The baseline is the mean cosine of two pictures of one text from different seeds. What is left of a text is compared
    with the whole text from different seeds too, so that a token that does not matter has the decrease 0.
    """
    if seeds < 2:
        raise InputError(f"--seeds {seeds}: the baseline compares pictures of different seeds, expected at least 2")
    made = masked(texts, grouping, tagger)
    if not made:
        raise InputError("no word to take out: expected texts of more than one word")
    seen = imagine(painter, encoder, [*texts, *(one.rest for one in made)], range(seeds))
    whole = np.array([one.text for one in made])
    base = _across(seen, np.arange(len(texts)), np.arange(len(texts)))
    after = _across(seen, whole, len(texts) + np.arange(len(made)))
    known = ~np.isnan(base[whole]) & ~np.isnan(after)
    if not known.any():
        faults = filter(None, map(seen.fault, range(len(seen.index))))
        raise InputError(f"nothing to compare: {next(faults, 'no text was painted with and without a word')}")
    counts = Counter(one.group for one in made)
    names = list(counts)
    drop, trials = (np.zeros((len(made), len(names))) for _ in range(2))
    for place, one in enumerate(made):
        if known[place]:
            column = names.index(one.group)
            drop[place, column] = base[whole[place]] - after[place]
            trials[place, column] = base[whole[place]]
    estimates = shares(drop, trials, whole, how or Resampling()).estimates()
    found = [
        Influence(name, counts[name], counts[name] / len(made), estimate, _common(made, name))
        for name, estimate in zip(names, estimates, strict=True)
    ]
    return sorted(found, key=lambda one: -np.nan_to_num(one.decrease.value, nan=-np.inf)), base, int((~known).sum())


def influence_finding(
    name: str, found: Sequence[Influence], base: Floats, unpainted: int, signature: str, how: Resampling, most: int = 10
) -> Finding:
    """The table and the two figures, frequency above, decrease below."""
    shown = found[:most]
    about = (
        "Each word is taken out of its text, what is left painted again. The decrease is of the cosine between "
        "pictures of the text and pictures of what is left, relative to pictures of the text alone, seeds always apart."
    )
    rows = tuple(
        (
            one.group,
            ", ".join(one.common),
            f"{one.tokens:,}",
            per_cent(one.frequency),
            per_cent(one.decrease.value),
            between(one.decrease),
        )
        for one in shown
    )
    columns = ("tag", "frequent words", "words", "% of words", "decrease %", f"{how.level:.0%} interval")
    frequency = [Mark(one.group, 100 * one.frequency) for one in shown]
    decrease = [
        Mark(one.group, 100 * one.decrease.value, 100 * one.decrease.low, 100 * one.decrease.high) for one in shown
    ]
    notes = [
        f"baseline: mean cosine {np.nanmean(base):.4f} of pictures of one text, over {(~np.isnan(base)).sum():,} texts"
    ]
    if unpainted:
        notes.append(f"{unpainted:,} texts without a word could not be painted, or the text itself could not")
    return Finding(
        f"{plain_name(name)}: what the pictures depend on",
        about,
        (Grid("Influence of parts of speech", columns, rows, words=2),),
        (
            Figure(intervals({"frequency": frequency}, "frequency"), "How many of all words, per cent."),
            Figure(intervals({"decrease": decrease}, "decrease"), "Relative decrease in similarity, per cent."),
        ),
        tuple(notes),
        (signature, f"ci:{how.signature('images')}"),
        {"influences": [_facts(one) for one in found], "baseline": float(np.nanmean(base)), "unpainted": unpainted},
    )


def _facts(one: Influence) -> dict[str, Any]:
    return {**one._asdict(), "decrease": asdict(one.decrease)}


def _across(seen: Imagined, one: Ints, two: Ints) -> Floats:
    """Mean cosine of the pictures of two texts over all pairs of different seeds; NaN where one is missing."""
    rows = np.concatenate([seen.rows, np.full((1, seen.rows.shape[1]), np.nan, np.float32)])
    sums = rows[seen.index].astype(np.float64)  # texts × seeds × d; −1 is the row of NaN
    number = sums.shape[1]
    every = np.einsum("ij,ij->i", sums.sum(axis=1)[one], sums.sum(axis=1)[two])
    same = np.einsum("isj,isj->i", sums[one], sums[two])
    result: Floats = (every - same) / (number * (number - 1))
    return result


def _common(made: Sequence[Masked], group: str, number: int = 5) -> tuple[str, ...]:
    counted = Counter(one.token.lower() for one in made if one.group == group)
    return tuple(token for token, _ in counted.most_common(number))
