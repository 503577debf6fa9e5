"""N-grams of chunks as tries: their keys, and the sums of their counts over all chunks."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from captious.captions import CaptionSet
from captious.text.idf import DocumentFrequency, NgramTrie, sum_counts
from captious.text.ngram_tables import TextTable

WORDS = [f"{letter}{number}" for letter in "abc" for number in range(4)]


def random_items(items, seed=5):
    """Items with one candidate and up to three references each, some of them empty."""
    generator = np.random.default_rng(seed)

    def text():
        return " ".join(generator.choice(WORDS, generator.integers(0, 8)))

    candidates = {str(item): text() for item in range(items)}
    return CaptionSet.of(candidates, {key: [text() for _ in range(generator.integers(0, 4))] for key in candidates})


def counted(captions):
    """Every n-gram with the number of items whose references have it."""
    counts = Counter()
    for texts in captions.references:
        words = [text.split() for text in texts]
        counts.update({tuple(one[i : i + n]) for n in range(1, 5) for one in words for i in range(len(one) - n + 1)})
    return counts


@pytest.mark.parametrize("size", [1, 50, 1 << 18], ids=["a range per node", "several ranges", "one range"])
@pytest.mark.parametrize("bounds", [(0, 40), (0, 13, 14, 14, 40), (0, 0), range(41)])
def test_every_chunk_gets_the_document_frequencies_of_the_whole_set_for_its_own_ngrams(monkeypatch, bounds, size):
    monkeypatch.setattr("captious.text.idf.RANGE", size)
    captions = random_items(40)
    expected = counted(captions.part(bounds[0], bounds[-1]))
    tables = [TextTable.of(captions.part(first, end)) for first, end in pairwise(bounds)]
    for table, sums in zip(tables, sum_counts([NgramTrie.of(table) for table in tables]), strict=True):
        for n, own in enumerate(sums, 1):
            ngrams = [tuple(table.ngram(n, gram).split()) for gram in range(table.ngrams(n).size)]
            assert own.tolist() == [expected[ngram] for ngram in ngrams]


def test_a_trie_has_the_keys_of_its_table_and_counts_only_what_references_have():
    captions = random_items(12)
    table, trie = TextTable.of(captions), NgramTrie.of(TextTable.of(captions))
    keys = np.concatenate([table.hash_ngrams(n) for n in range(1, 5)])
    assert trie.keys.tolist() == keys.tolist()
    names = [tuple(table.ngram(n, gram).split()) for n in range(1, 5) for gram in range(table.ngrams(n).size)]
    expected = counted(captions)
    assert len(expected) < len(names), "some n-grams are only in candidates"
    counts = trie.to_key_counts()
    assert counts.lookup(keys).tolist() == [expected[name] for name in names]
    assert len(counts) == len(expected) and (np.diff(counts.keys.astype(object)) > 0).all()


def test_states_merged_for_their_tables_are_the_state_of_the_whole_set():
    captions = random_items(30)
    chunks = [captions.part(first, first + 7) for first in range(0, 30, 7)]
    states = [DocumentFrequency.of(chunk) for chunk in chunks]
    merged = DocumentFrequency.merge_all(states, [TextTable.of(chunk) for chunk in chunks])
    whole = DocumentFrequency.of(captions)
    assert str(merged) == str(whole)
    assert [array.tolist() for array in merged.counts.arrays] == [array.tolist() for array in whole.counts.arrays]
