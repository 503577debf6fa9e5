"""SPIDEr: the mean of CIDEr-D and SPICE, of every caption or of the best of an item, with or without fluency."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from captious._core.languages import AUTO
from captious._core.types import Bools, Floats
from captious.captions import CaptionSet
from captious.metrics._fluency_penalty import (
    ABSENT,
    HINT,
    PENALTY,
    THRESHOLD,
    compute_penalty_factors,
    describe_source,
    find_missing_probabilities,
    get_error_probabilities,
    refuse_settings,
)
from captious.metrics.cider import Cider
from captious.metrics.contract import CandidateMetric, MeanMetric, Metric, Need
from captious.metrics.explanation import Breakdown, Contribution
from captious.metrics.spice.original import ABSENT as UNKNOWN_ID
from captious.metrics.spice.original import SpiceOriginal
from captious.metrics.spice.spice import Spice
from captious.metrics.statistic_rows import Scored
from captious.render import Column
from captious.text.idf import DocumentFrequency
from captious.text.tokenizers import Tokenizer

SPACY = "spacy"
SEVERAL = "several candidates, and the file of SPICE has one value for each item"
NAMES = {"cider": "CIDEr-D", "spice": "SPICE"}


@dataclass(frozen=True)
class Spider(CandidateMetric, MeanMetric):
    """SPIDEr: (CIDEr-D + SPICE) / 2, the headline of audio captioning.

    The value of an item with several candidates is their mean. ``best=yes`` is SPIDEr-max: the candidate with the
    largest value counts; ``value=cider`` and ``value=spice`` are the two parts of that candidate, and not the
    largest CIDEr-D or SPICE of any.

    ``fluency`` makes it SPIDEr-FL: a caption whose probability of a fluency error is above ``threshold`` keeps
    1 − ``penalty`` of its SPIDEr. It is FENSE's detector (a folder with the checkpoint and the vocab.txt of its BERT),
    the file of a table with an id and ``error_probability``, or the word ``error_probability`` for that column of the
    captions. The two parts have no penalty.

    Published values have the original SPICE. ``spice=spacy`` reads spaCy's parses, so its values are close but not
    equal, which the label says; ``spice=FILE`` reads what the Java program wrote, one value for each item.

    >>> Spider(best=True).label, Spider(spice="spice.json", fluency="detector").label
    ('SPIDEr-max (spaCy)', 'SPIDEr-FL (original SPICE)')
    """

    value: Literal["spider", "cider", "spice"] = "spider"
    best: bool = False
    fluency: str = ""
    spice: str = SPACY
    idf: str = "refs"
    threshold: float = THRESHOLD
    penalty: float = PENALTY
    tokenizer: str | Tokenizer = AUTO
    resources: str | None = None
    """METEOR's data or a folder of WordNet 3.0, for the synsets of SPICE."""

    name: ClassVar[str] = "spider"
    languages: ClassVar[tuple[str, ...]] = ("en",)
    main: ClassVar[str] = "value"
    citation: ClassVar[str] = (
        "Liu, Zhu, Ye, Guadarrama, Murphy. Improved image captioning via policy gradient optimization of SPIDEr. ICCV "
        "2017. SPIDEr-max: Labbé, Pellegrini, Pinquier. DCASE 2022. SPIDEr-FL: DCASE 2023."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_settings(self.name, self.threshold, self.penalty)

    @property
    def needs(self) -> tuple[Need, ...]:
        """References, and the parser of SPICE unless its values are read from a file."""
        return ("references", "model") if self.spice == SPACY else ("references",)

    @property
    def range(self) -> tuple[float, float]:
        """The range of the mean of CIDEr-D and SPICE, or of the part."""
        return (0.0, {"spider": 5.5, "cider": 10.0, "spice": 1.0}[self.value])

    @property
    def label(self) -> str:
        """SPIDEr, SPIDEr-max or SPIDEr-FL with the source of SPICE; or the part of the chosen candidate."""
        title = f"SPIDEr{'-FL' * bool(self.fluency)}{'-max' * self.best}"
        if self.value != "spider":
            title = f"{NAMES[self.value]} of {title}"
        return f"{title} (spaCy)" if self.spice == SPACY else f"{title} (original SPICE)"

    @property
    def _cider(self) -> Cider:
        return Cider(self.idf, tokenizer=self.tokenizer)

    @property
    def _spice(self) -> Spice | SpiceOriginal:
        return Spice(resources=self.resources) if self.spice == SPACY else SpiceOriginal(self.spice)

    @property
    def corpus_state(self) -> type[DocumentFrequency] | None:
        """The document frequencies of CIDEr-D."""
        return self._cider.corpus_state

    def prepare(self, captions: CaptionSet) -> DocumentFrequency:
        """Return the document frequencies of CIDEr-D; SPICE needs nothing from the corpus."""
        self._spice.prepare(captions)  # raises errors about a missing parser or file before anything is scored
        return self._cider.prepare(captions)

    def settings(self, state: DocumentFrequency) -> Mapping[str, str]:
        """Return the settings of CIDEr-D and of SPICE, and the source of the error probabilities."""
        spice: Metric = self._spice
        settings = {**self._cider.settings(state), **spice.settings(spice.prepare(CaptionSet.of({})))}
        return {**settings, "fluency": describe_source(self.fluency)} if self.fluency else settings

    def text_warnings(self, captions: CaptionSet) -> list[str]:
        """Warn also about the length penalty of CIDEr-D."""
        return [*super().text_warnings(captions), *self._cider.length_warnings(captions)]

    def score_candidates(self, captions: CaptionSet, state: DocumentFrequency) -> Scored:
        """Return rows with the value and 1, or zeros for a candidate that does not count."""
        scored = self._cider.score_candidates(captions, state)
        cider = np.asarray(scored.rows)[:, 0]
        spice, factors, reasons = self._score_parts(captions)
        spider = (cider + spice) / 2 * factors
        value = {"spider": spider, "cider": cider, "spice": spice}[self.value]
        rows = np.stack([value, np.ones(len(value))], axis=1)
        if self.best:
            rows[~_mark_largest(spider, captions)] = 0
        return Scored(rows, reasons, warnings=scored.warnings)

    def _score_parts(self, captions: CaptionSet) -> tuple[Floats, Floats, Mapping[int, str]]:
        """Return SPICE and the penalty factor of each candidate, and the reasons of items without a value."""
        spice, reasons = self._score_spice(captions)
        if not self.fluency:
            return spice, np.ones(len(spice)), reasons
        probabilities = get_error_probabilities(self.fluency, captions)
        reasons = {**find_missing_probabilities(probabilities, captions), **reasons}
        return spice, compute_penalty_factors(probabilities, self.threshold, self.penalty), reasons

    def _score_spice(self, captions: CaptionSet) -> tuple[Floats, dict[int, str]]:
        spice = self._spice
        if isinstance(spice, Spice):
            return spice.candidate_scores(captions, spice.prepare(captions))[:, 0], {}
        scored = spice.score_items(captions, spice.prepare(captions))
        several = np.flatnonzero(captions.candidates.counts > 1).tolist()
        values = np.asarray(scored.rows)[captions.candidates.owners, 0]
        return values, {**scored.reasons, **dict.fromkeys(several, SEVERAL)}

    def break_down(self, item: CaptionSet, state: DocumentFrequency) -> Breakdown:
        """List half of CIDEr-D, half of SPICE, and what a fluency error takes off, for each candidate that counts."""
        cider = np.asarray(self._cider.score_candidates(item, state).rows)[:, 0]
        spice, factors, _ = self._score_parts(item)
        counted = (
            _mark_largest((cider + spice) / 2 * factors, item) if self.best else np.ones(len(cider), dtype=np.bool_)
        )
        parts = []
        for rank in np.flatnonzero(counted).tolist():
            share = 1 / int(counted.sum())
            values = {"cider": float(cider[rank]), "spice": float(spice[rank])}
            if self.value != "spider":
                value = values[self.value]
                parts.append(Contribution(NAMES[self.value], value * share, rank, {"value": value}))
                continue
            parts += [
                Contribution(f"{NAMES[name]} / 2", value / 2 * share, rank, {"value": value})
                for name, value in values.items()
            ]
            if factors[rank] < 1:
                lost = (factors[rank] - 1) * (cider[rank] + spice[rank]) / 2 * share
                parts.append(Contribution("fluency error", float(lost), rank))
        chosen = "; only the candidate with the largest value counts" if self.best else ""
        formula = "(CIDEr-D + SPICE) / 2" + (f" · (1 − {self.penalty:g} · error)" if self.fluency else "")
        return Breakdown(
            parts, unit="part", columns=[Column("value")], formula=f"{self.label} = {formula}{chosen}", ordered=True
        )

    def hint(self, reason: str) -> str:
        """Return how to supply probabilities or SPICE values that belong to these captions."""
        helps = {ABSENT: HINT, UNKNOWN_ID: f"; {self.spice} must be of these captions, with their ids"}
        return helps.get(reason, super().hint(reason))


def _mark_largest(values: Floats, captions: CaptionSet) -> Bools:
    """Return True for the candidate of each item with the largest value, the first of equals; NaN is the smallest."""
    owners = captions.candidates.owners
    order = np.lexsort((np.arange(len(values)), -np.nan_to_num(values, nan=-np.inf), owners))
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = owners[order][1:] != owners[order][:-1]
    best = np.zeros(len(values), dtype=np.bool_)
    best[order[first]] = True
    return best
