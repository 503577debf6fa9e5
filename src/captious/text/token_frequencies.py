"""Document frequencies of a model's tokens: of the texts at hand, of merged shards, or of a corpus in a file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np

from captious._core.files import digest, get_data_folder
from captious._core.types import Floats, Ints
from captious.errors import InputError, format_suggestion
from captious.text.counts import CountsKind, CountsState, KeyCounts

SUFFIX = ".tokens"
F = TypeVar("F", bound="TokenFrequency")


@dataclass(frozen=True, eq=False)
class TokenFrequency(CountsState):
    """The number of texts in which each token id of a model occurs; the counts of shards add up."""

    model: str
    """The model or tokenizer that the ids belong to; frequencies of different ones cannot be merged."""
    documents: int = 0
    """The number of texts."""

    kind: ClassVar[CountsKind] = CountsKind("captious-token-weights", 1, "token idf", "captious make idf --tokens")

    @classmethod
    def of(cls: type[F], model: str, ids: Ints, counts: Ints) -> F:
        """Count the texts that have each token id, from the ids of all texts, concatenated, and their numbers.

        >>> frequency = TokenFrequency.of("tiny", np.array([8, 1, 2, 9, 8, 1, 9]), np.array([4, 3]))
        >>> frequency.compute_idf(np.array([1, 2, 3])).round(4).tolist()  # ln(3/3), ln(3/2), ln(3/1)
        [0.0, 0.4055, 1.0986]
        """
        owners = np.repeat(np.arange(len(counts)), counts)
        pairs = np.unique(np.stack([owners, ids], axis=1), axis=0) if len(ids) else np.zeros((0, 2), np.int64)
        return cls(KeyCounts.of(pairs[:, 1].astype(np.uint64), np.ones(len(pairs))), model, len(counts))

    def __str__(self) -> str:
        return f"{self.documents}:{digest(self.counts.keys.tobytes(), self.counts.counts.tobytes())[:8]}"

    def merge(self: F, other: F) -> F:
        """Add the counts of two shards. Raise InputError if they used different models."""
        if self.model != other.model:
            raise InputError(f"cannot merge shards scored by {self.model} and {other.model}")
        counts = KeyCounts.sum([self.counts, other.counts])
        return replace(self, counts=counts, documents=self.documents + other.documents)

    def compute_idf(self, ids: Ints) -> Floats:
        """Return the idf of each token id, ln((N + 1) / (df + 1)); that of an unseen one is ln(N + 1)."""
        idf: Floats = np.log((self.documents + 1) / (self.counts.lookup(ids.astype(np.uint64)) + 1))
        return idf


def get_named_path(name: str) -> Path:
    """Return the path of a named corpus of this user."""
    return get_data_folder() / "idf" / f"{name}{SUFFIX}"


def find_frequency(where: str, model: str, metric: str) -> TokenFrequency:
    """Open the corpus of a path or name; raise InputError if there is none, or it has tokens of another model."""
    path = Path(where) if Path(where).is_file() else get_named_path(where)
    if not path.is_file():
        names = sorted(one.stem for one in (get_data_folder() / "idf").glob(f"*{SUFFIX}"))
        known = f"named corpora: {', '.join(names)}" if names else "no corpus is named yet"
        raise InputError(
            f"{metric}: no idf corpus {where!r} of tokens: expected none, refs, candidates, a file or a name ({known}"
            f"{format_suggestion(where, names)}); make one with: captious make idf captions.jsonl --tokens WEIGHTS "
            f"--name {path.stem}"
        )
    corpus = _open(path, path.stat().st_mtime_ns)
    if corpus.model != model:
        raise InputError(
            f"{metric}: the idf corpus {where!r} has tokens of {corpus.model}, these weights have those of {model}; "
            "make it with the same weights: captious make idf captions.jsonl --tokens WEIGHTS"
        )
    return corpus


@lru_cache(maxsize=4)
def _open(path: Path, changed: int) -> TokenFrequency:
    return TokenFrequency.load(path)
