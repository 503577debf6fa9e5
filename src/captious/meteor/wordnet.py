"""Which words share a WordNet synset, by METEOR's rules.

A word has its own synsets and those of its base words: where the list of irregular forms knows it, the bases named
there, else the first base that a suffix rule makes and that WordNet knows. Words of one or two letters and words in -ss
are their own base.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from captious.meteor.hashing import UInt64, word_hash
from captious.meteor.tables import Tables

# The detachment rules of WordNet's morphy: nouns, verbs, adjectives, in the order they are tried.
_RULES = (
    ("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y"),
    ("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""),
    ("er", ""), ("est", ""), ("er", "e"), ("est", "e"),
)  # fmt: skip
_ENDINGS = tuple({ending for ending, _ in _RULES})


def synset_groups(words: list[str], tables: Tables) -> Iterable[list[int]]:
    """For each synset that any of the words belongs to, the numbers (positions in the list) of its words."""
    own = _rows(words, tables)
    irregular = tables.forms.find(_hashes(words))
    rows: list[set[int]] = [{row} if row >= 0 else set() for row in own]
    asked: list[tuple[int, str]] = []
    for number, word in enumerate(words):
        if (form := int(irregular[number])) >= 0:
            bases = tables.bases[tables.base_starts[form] : tables.base_starts[form + 1]].tolist()
            rows[number].update(base for base in bases if base >= 0)
        elif len(word) > 2 and word.endswith(_ENDINGS) and not word.endswith("ss"):
            asked += [(number, word[: -len(ending)] + by) for ending, by in _RULES if word.endswith(ending)]
    done: set[int] = set()
    for (number, _), row in zip(asked, _rows([base for _, base in asked], tables), strict=True):
        if row >= 0 and number not in done:
            done.add(number)
            rows[number].add(row)
    groups: dict[int, list[int]] = defaultdict(list)
    starts, synsets = tables.synset_starts, tables.synsets
    for number, found in enumerate(rows):
        members = [set(synsets[starts[row] : starts[row + 1]].tolist()) for row in found]
        for synset in members[0] if len(members) == 1 else set().union(*members):
            groups[synset].append(number)
    return groups.values()


def _rows(words: list[str], tables: Tables) -> list[int]:
    rows: list[int] = tables.words.find(_hashes(words)).tolist()
    return rows


def _hashes(words: list[str]) -> UInt64:
    return np.array([word_hash(word) for word in words], dtype=np.uint64)
