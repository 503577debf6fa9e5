"""METEOR 1.5 for English and five other languages, without Java."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, ClassVar, Literal, get_args, get_type_hints

import numpy as np

from captious._core.languages import AUTO, ENGLISH
from captious._core.types import Floats
from captious.captions import CaptionSet
from captious.errors import InputError, format_suggestion
from captious.metrics.contract import CandidateMetric
from captious.metrics.explanation import Breakdown, Contribution, MarkedText, label_candidates
from captious.metrics.meteor import resources
from captious.metrics.meteor._compiled_tables import Tables
from captious.metrics.meteor._stem import STEMMERS
from captious.metrics.meteor.engine import (
    MODULES,
    Aligned,
    align_best,
    clean,
    count,
    get_parameters,
    list_modules,
    score,
    weigh_match,
)
from captious.metrics.statistic_rows import Scored
from captious.render import Column
from captious.text.tokenizers import Tokenizer


@dataclass(frozen=True)
class Meteor(CandidateMetric):
    """METEOR 1.5: matched words, recall weighted over precision, minus a penalty for broken order.

    Candidate and reference are aligned by exact words, stems, WordNet synonyms and paraphrases. With w the weight of a
    match's module, δ and 1 − δ the weights of content and function words, and a chunk a run of matches that is
    contiguous on both sides::

        P = Σ w·δ matched in the candidate / Σ δ of the candidate,  R is the same for the reference
        F = 1 / ((1 − α)/P + α/R)
        METEOR = F · (1 − γ·(chunks / matched words)^β)

    The best reference counts. The corpus value comes from counts summed over items; it is not the mean of the items'
    values. ``task=rank`` is what caption evaluation reports: α .85, β .2, γ .6, δ .75, w 1, .6, .8, .6; ``adq``,
    ``hter`` and ``li`` are METEOR's other tunings. As in coco-caption, the tokens of the PTB tokenizer then pass
    through METEOR's own normalizer. Values equal those of the Java original, including its mistakes in the alignment.
    If ``modules`` leaves one out, the others keep their weights; with ``-m`` alone the original would move them down
    the list.

    ``language=fr``, ``es``, ``de``, ``ru`` and ``cs`` have the original's parameters and stems (Czech only exact words)
    but no paraphrases: their tables are not available. Values are therefore lower than the original's with paraphrases,
    and the label says so. The original uses English function words in every language, unless it is called with ``-s``;
    ``function_words=own`` uses those of the language.

    METEOR's tables are not part of captious; :mod:`captious.metrics.meteor.resources` says where they are looked for.

    >>> counts = np.zeros(23); counts[[0, 1, 4, 5, 21, 22]] = 4; counts[20] = 2  # 4 words, all exact, in 2 chunks
    >>> round(float(Meteor().aggregate(counts)), 6)  # P = R = F = 1, and 1 - 0.6 * (2/4)^0.2
    0.47767
    """

    task: Literal["rank", "adq", "hter", "li"] = "rank"
    modules: str = "+".join(MODULES)
    language: Literal["en", "cs", "de", "es", "fr", "ru"] = "en"
    function_words: Literal["english", "own"] = "english"
    tokenizer: str | Tokenizer = AUTO
    resources: str | None = None
    """A folder with METEOR's data, or a compiled file; without it the usual places are searched."""

    name: ClassVar[str] = "meteor"
    main: ClassVar[str] = "task"
    citation: ClassVar[str] = (
        "Denkowski, Lavie. Meteor Universal: language specific translation evaluation for any target language. "
        "WMT 2014."
    )

    @property
    def languages(self) -> tuple[str, ...]:
        """The language of the parameters and tables."""
        return (self.language,)

    @property
    def label(self) -> str:
        """METEOR; for other languages than English with a note on missing paraphrases."""
        return "METEOR" if self.language == ENGLISH else f"METEOR ({self.language}, without paraphrases)"

    def refuse_language(self, language: str) -> None:
        """Raise InputError for another language, and name the parameter if METEOR supports it."""
        try:
            super().refuse_language(language)
        except InputError as error:
            if language not in get_args(get_type_hints(type(self))["language"]):
                raise
            raise InputError(f"{str(error).partition(';')[0]}; write meteor(language={language})") from None

    @property
    def installed(self) -> bool:
        """Whether METEOR's tables, or the files they are compiled from, are installed."""
        return resources.has_tables(self.resources)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.language != ENGLISH and self.task not in ("rank", "li"):
            raise InputError(f"meteor(language={self.language},task={self.task}): this tuning is for English only")
        chosen = self.modules.split("+")
        for module in chosen:
            if module not in MODULES:
                hint = format_suggestion(module, MODULES)
                raise InputError(
                    f"meteor(modules={self.modules}): no module {module!r}; known: {', '.join(MODULES)}{hint}"
                )
        if "exact" not in chosen:
            raise InputError(f"meteor(modules={self.modules}): the module exact cannot be left out")
        object.__setattr__(self, "modules", "+".join(module for module in MODULES if module in chosen))

    def score_candidates(self, captions: CaptionSet, state: Any) -> Scored:
        """Return rows with METEOR's counts of each candidate and its best reference."""
        candidates, references = self._join_tokens(captions)
        counts = count(
            candidates, references, self._load_tables(), get_parameters(self.task, self.language), self._modules
        )
        cleaned = sum(clean(text)[1] for side in (captions.candidates, captions.references) for text in side.values)
        what = "line breaks, tabs, control characters or '|||'"
        warnings = [f"METEOR: read as spaces in {cleaned} of the captions: {what}"] if cleaned else []
        return Scored(counts.table, warnings=warnings)

    def aggregate(self, rows: Floats) -> Floats:
        """Compute METEOR of each row; a row of NaN, an item without value, stays NaN."""
        values = score(rows, get_parameters(self.task, self.language))
        return np.where(np.isnan(rows).any(axis=-1), np.nan, values)

    def _join_tokens(self, captions: CaptionSet) -> tuple[list[str], list[list[str]]]:
        """Return the tokens of each candidate joined by spaces, and a list of such texts of its references."""
        table = self.table(captions)
        texts = [" ".join(table.words(caption)) for caption in range(len(table.lengths))]
        # The captions of an item follow each other in the table: first its candidates, then its references.
        bounds, candidate_counts = table.first_caption, captions.candidates.counts
        references = [texts[bounds[item] + candidate_counts[item] : bounds[item + 1]] for item in range(table.items)]
        return [texts[one] for one in table.candidates], [references[one] for one in table.item[table.candidates]]

    def break_down(self, item: CaptionSet, state: Any) -> Breakdown:
        """List each match with what it adds to F, and the penalty for the chunks."""
        tuning, tables = get_parameters(self.task, self.language), self._load_tables()
        pairs = [
            align_best(candidate, references, tables, tuning, self._modules)
            for candidate, references in zip(*self._join_tokens(item), strict=True)
        ]
        counts = np.sum([pair.row for pair in pairs], axis=0)  # see engine.COLUMNS
        # Columns 0 and 1 are the lengths of candidates and references, 2 and 3 their function words. Reference first,
        # as in `weigh_match`; content words weigh δ, function words 1 − δ.
        delta = tuning.delta
        lengths = delta * (counts[[1, 0]] - counts[[3, 2]]) + (1 - delta) * counts[[3, 2]]
        match_weights = [np.array([weigh_match(match, one.function, tuning) for match in one.matches]) for one in pairs]
        labels = label_candidates(len(pairs))
        texts = [text for label, pair in zip(labels, pairs, strict=True) for text in _mark_chunks(label, pair)]
        if not any(map(len, match_weights)):
            return Breakdown([], "match", texts=texts, formula="METEOR is 0 where no word matches")
        recall, precision = (np.concatenate([one for one in match_weights if len(one)]).sum(axis=0) / lengths).tolist()
        f_mean = 1 / ((1 - tuning.alpha) / precision + tuning.alpha / recall)
        # What a match adds to F: its weights in R and P times ∂F/∂R and ∂F/∂P. F is homogeneous of degree 1 in R and P,
        # so these add up to F.
        slopes = (
            np.array([tuning.alpha * (f_mean / recall) ** 2, (1 - tuning.alpha) * (f_mean / precision) ** 2]) / lengths
        )
        parts = []
        for rank, (pair, pair_weights) in enumerate(zip(pairs, match_weights, strict=True)):
            for match, weights in zip(pair.matches, pair_weights, strict=True):
                start, end, other, other_end, module = match
                details = {"reference": " ".join(pair.reference[start:end]), "module": MODULES[module]}
                name = " ".join(pair.words[other:other_end])
                parts.append(Contribution(name, float(weights @ slopes), rank, details))
        chunks, words = int(counts[20]), float(counts[21] + counts[22]) / 2
        penalty = tuning.gamma * (chunks / words) ** tuning.beta
        name = f"penalty for {chunks} chunk{'' if chunks == 1 else 's'}"
        penalties = [Contribution(name, -f_mean * penalty, None, {"reference": "", "module": ""})] if chunks else []
        return Breakdown(
            parts,
            unit="match",
            heading="caption",
            columns=[Column("reference", "text"), Column("module", "text")],
            texts=texts,
            formula=f"METEOR = F · (1 − penalty) = {f_mean:.4f} · (1 − {penalty:.4f}); "
            f"P = {precision:.4f}, R = {recall:.4f}, F = 1 / ({1 - tuning.alpha:.4g}/P + {tuning.alpha:.4g}/R), "
            f"penalty = {tuning.gamma:g} · ({chunks} chunk{'s' * (chunks != 1)} / {words:g} words)^{tuning.beta:g}",
            factors={"precision": precision, "recall": recall, "f": f_mean, "chunks": chunks, "penalty": penalty},
            penalties=penalties,
        )

    def settings(self, state: Any) -> Mapping[str, str]:
        """Return version, language, normalizer, modules, parameters, and the tables by content."""
        tuning = get_parameters(self.task, self.language)
        weights = [
            str(weight) for module, weight in zip(MODULES, tuning.weights, strict=True) if module in self._modules
        ]
        tables = self._load_tables()
        stemmer = self.language != ENGLISH and "stem" in self._modules
        return {
            **super().settings(state),
            "version": "1.5",
            "lang": self.language,
            "norm": "yes",
            "modules": "+".join(self._modules),
            "weights": "/".join(weights),
            "abgd": f"{tuning.alpha}/{tuning.beta}/{tuning.gamma}/{tuning.delta}",
            "tables": tables.hash(self._modules),
            **({"stemmer": f"{STEMMERS}-{version(STEMMERS)}"} if stemmer else {}),
        }

    @property
    def _modules(self) -> Sequence[str]:
        return [module for module in self.modules.split("+") if module in list_modules(self.language)]

    def _load_tables(self) -> Tables:
        if self.language != ENGLISH:
            return resources.load_words(self.resources, self.language, self.function_words == "own")
        return resources.load(self.resources, self._modules)


def _mark_chunks(label: str, pair: Aligned) -> list[MarkedText]:
    """Mark both texts of an alignment; words of the same chunk get the same number."""
    candidate_chunks, reference_chunks = [0] * len(pair.words), [0] * len(pair.reference)
    chunk, end_of_last = 0, (-1, -1)
    for start, end, other, other_end, _ in pair.matches:
        chunk += (start, other) != end_of_last  # a gap on either side begins a new chunk
        end_of_last = (end, other_end)
        candidate_chunks[other:other_end] = [chunk] * (other_end - other)
        reference_chunks[start:end] = [chunk] * (end - start)
    return [
        MarkedText(label, pair.words, candidate_chunks, numbered=True),
        MarkedText(f"reference {pair.best + 1}", pair.reference, reference_chunks, numbered=True),
    ]
