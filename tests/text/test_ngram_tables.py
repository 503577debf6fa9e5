import gc
import itertools
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captious.captions import CaptionSet, Ragged
from captious.text.ngram_tables import TextTable, _sort_by_keys, _split_chunks, _split_chunks_by_arrow, tokenize
from captious.text.tokenizers import TOKENIZERS

WORDS = st.lists(st.sampled_from(["a", "dog", "cat", "the", "runs", "red"]), max_size=9).map(" ".join)
ITEMS = st.lists(
    st.tuples(st.lists(WORDS, min_size=0, max_size=3), st.lists(WORDS, min_size=0, max_size=4)), min_size=1, max_size=6
)


def caption_set(items):
    return CaptionSet.of(
        {str(i): candidates for i, (candidates, _) in enumerate(items)},
        {str(i): references for i, (_, references) in enumerate(items)},
    )


@given(ITEMS)
def test_captions_stand_item_by_item_candidates_first(items):
    table = TextTable.of(caption_set(items), "whitespace")
    expected = [text for candidates, references in items for text in (*candidates, *references)]
    assert [" ".join(table.words(caption)) for caption in range(len(expected))] == expected
    kinds = [kind for c, r in items for kind in [True] * len(c) + [False] * len(r)]
    assert table.is_candidate.tolist() == kinds


@given(ITEMS, st.integers(1, 4))
def test_ngram_rows_are_the_counts_of_each_caption(items, n):
    table = TextTable.of(caption_set(items), "whitespace")
    grams = table.ngrams(n)
    written = {}
    for start, gram in enumerate(grams.at.tolist()):
        if gram >= 0:
            written[gram] = tuple(table.vocabulary[token] for token in table.tokens[start : start + n])
    rows = {
        (caption, written[gram]): count
        for caption, gram, count in zip(grams.caption.tolist(), grams.gram.tolist(), grams.count.tolist(), strict=True)
    }
    expected = {}
    for caption in range(len(table.lengths)):
        words = table.words(caption)
        for gram, count in Counter(zip(*(words[i:] for i in range(n)), strict=False)).items():
            expected[caption, gram] = count
    assert rows == expected


@given(ITEMS, st.integers(1, 4))
def test_compact_rows_are_the_same_rows_in_fewer_bytes(items, n):
    table = TextTable.of(caption_set(items), "whitespace")
    whole, again = table.ngrams(n), table.compact().get_ngram_rows(n)
    for name in ("gram", "caption", "count", "group", "heads", "candidate_rows", "ends", "reference_max"):
        assert getattr(again, name).tolist() == getattr(whole, name).tolist(), name
    assert again.size == whole.size and again.document_frequency.tolist() == whole.document_frequency.tolist()
    assert [one.tolist() for one in again.matches] == [one.tolist() for one in whole.matches]
    assert table.compact().compact_rows[n - 1].nbytes <= 3.25 * len(whole.gram) + 2 * len(whole.matches.rows) + 2


@given(ITEMS, st.integers(1, 4))
def test_matches_are_the_rows_of_candidates_with_a_reference_in_their_group(items, n):
    grams = TextTable.of(caption_set(items), "whitespace").ngrams(n)
    group, is_reference = grams.group.tolist(), grams.reference_row.tolist()
    expected = []
    for row in range(len(group)):
        references = [other for other in range(len(group)) if group[other] == group[row] and is_reference[other]]
        if not is_reference[row] and references:
            expected.append((row, references[0], len(references)))
    assert list(zip(*map(np.ndarray.tolist, grams.matches), strict=True)) == expected


@given(ITEMS, st.integers(1, 4))
def test_document_frequency_counts_items_whose_references_hold_the_ngram(items, n):
    table = TextTable.of(caption_set(items), "whitespace")
    grams = table.ngrams(n)
    expected = Counter()
    for _, references in items:
        expected.update({g for text in references for g in zip(*(text.split()[i:] for i in range(n)), strict=False)})
    for gram, frequency in enumerate(grams.document_frequency.tolist()):
        start = int(np.flatnonzero(grams.at == gram)[0])
        assert frequency == expected[tuple(table.vocabulary[t] for t in table.tokens[start : start + n])]


@given(ITEMS)
def test_pairs_are_each_candidate_with_each_reference_or_candidate_of_its_item(items):
    table = TextTable.of(caption_set(items), "whitespace")
    texts = [" ".join(table.words(caption)) for caption in range(len(table.lengths))]
    with_references = [(c, r) for candidates, references in items for c in candidates for r in references]
    with_candidates = [(c, d) for candidates, _ in items for c in candidates for d in candidates]
    for pairs, expected in ((table.pairs, with_references), (table.candidate_pairs, with_candidates)):
        assert [(texts[a], texts[b]) for a, b in zip(pairs.left, pairs.right, strict=True)] == expected
        assert (pairs.shift[pairs.left] + pairs.right).tolist() == list(range(len(expected)))


@given(st.lists(st.integers(0, 200_000), max_size=50))
def test_the_radix_sort_is_a_stable_sort(keys):
    values = np.array(keys, dtype=np.int32)
    order = _sort_by_keys(values, 200_001, np.arange(len(values), dtype=np.int32))
    assert order.tolist() == np.argsort(values, kind="stable").tolist()


REAL = [
    "A dog's ball.",
    "No. 5 is red",
    "it costs 1 1/2 dollars",
    "a  b",
    "",
    "tab\there",
    "U.S. flag",
    "x\x1ey",
    "a\xa0b",
]


@given(st.lists(st.sampled_from(REAL), max_size=8))
def test_chunkwise_tokenizing_gives_the_tokens_of_the_whole_text(texts):
    vocabulary, tokens, lengths = tokenize(texts, TOKENIZERS["ptb"])
    ends = np.cumsum(lengths)
    for text, end, length in zip(texts, ends, lengths, strict=True):
        found = [vocabulary[token] for token in tokens[end - length : end]]
        # A token may hold a no-break space (a mixed fraction); the tables cut it there, as coco-caption's scorers do.
        assert found == " ".join(TOKENIZERS["ptb"].tokenize(text.replace("\x1e", " "))).split()


@given(st.lists(st.sampled_from([*REAL, " ", "é 狗", "half a \ud800 character"]), min_size=1, max_size=8))
def test_arrow_cuts_at_the_same_spaces(texts):
    expected = [text.replace("\x1e", " ").split(" ") for text in texts]
    for cut in (_split_chunks, _split_chunks_by_arrow):
        if cut is _split_chunks_by_arrow and any("\ud800" in text for text in texts):
            with pytest.raises(UnicodeEncodeError):
                cut(texts)
            continue
        chunks, chunk, bounds = cut(texts)
        words = [chunks[number] for number in chunk]
        assert [words[first:end] for first, end in itertools.pairwise(bounds)] == expected


def test_arrow_cuts_without_pandas():
    cut = (
        "import sys; from captious.text.ngram_tables import _split_chunks_by_arrow; "
        "_split_chunks_by_arrow(['a dog', 'a cat'])"
    )
    program = f"{cut}; print('pyarrow' in sys.modules, 'pandas' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True", "False"]


def test_a_process_that_tokenizes_much_gets_the_same_tokens(monkeypatch):
    before = tokenize([*REAL, "half a \ud800 character"], TOKENIZERS["ptb"]), tokenize(REAL, TOKENIZERS["ptb"])
    monkeypatch.setattr("captious.text.ngram_tables._WORTH_ARROW", 0)
    monkeypatch.setattr("captious.text.ngram_tables._number_chunks", None)  # which would be called without Arrow
    after = tokenize(REAL, TOKENIZERS["ptb"])
    assert after[0] == before[1][0]
    assert all((one == other).all() for one, other in zip(after[1:], before[1][1:], strict=True))
    monkeypatch.undo()
    monkeypatch.setattr("captious.text.ngram_tables._WORTH_ARROW", 0)
    assert tokenize([*REAL, "half a \ud800 character"], TOKENIZERS["ptb"])[0] == before[0][0]


@given(st.lists(st.sampled_from([*REAL, "a red ball", "Red dogs.", "new words"]), max_size=8))
def test_candidates_beside_tokenized_references_have_the_same_tokens(texts):
    references = TextTable.of(CaptionSet.of({"1": ()}, {"1": ["a ball is red", "it costs ten dollars"]}))
    table = references.with_candidates(Ragged.of([texts]), np.array([0]))
    vocabulary, tokens, lengths = tokenize(texts, TOKENIZERS["ptb"])
    ends = np.cumsum(lengths)
    expected = [[vocabulary[token] for token in tokens[a:b]] for a, b in zip(ends - lengths, ends, strict=True)]
    assert [table.words(caption) for caption in table.candidates] == expected
    assert table.vocabulary[len(references.vocabulary) :] == sorted(set(vocabulary) - set(references.vocabulary))


def test_tokenizing_leaves_nothing_for_the_garbage_collector():
    """Vocabularies of shard after shard would stay in memory until it runs, which it seldom does."""
    texts = [f"a dog and {number} cats" for number in range(50)]
    gc.collect()
    gc.disable()
    try:
        tokenize(texts, TOKENIZERS["ptb"])
        assert gc.collect() == 0
    finally:
        gc.enable()
