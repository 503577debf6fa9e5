import pickle
from collections import Counter, defaultdict

import numpy as np
import pytest

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.evaluation import evaluate_shards
from captious.metrics.cider import Cider
from captious.text.idf import DocumentFrequency, find, from_pickle, load, named, named_path
from captious.text.tables import TextTable

REFERENCES = {
    "1": ["a red dog runs on the grass", "a dog is running"],
    "2": ["a cat sits on a mat", "the cat sat"],
    "3": ["two red buses on a street", "red buses"],
}
CANDIDATES = {"1": "a red dog on the street", "2": "a cat sat on the grass", "3": "two red dogs and an emu"}


def whole():
    return CaptionSet.of(CANDIDATES, REFERENCES)


def counted(references):
    """Every n-gram with the number of items whose references have it."""
    counts = Counter()
    for texts in references.values():
        words = [text.split() for text in texts]
        counts.update({tuple(one[i : i + n]) for n in range(1, 5) for one in words for i in range(len(one) - n + 1)})
    return dict(counts)


def written_out(corpus):
    """Every n-gram of `whole` that a corpus has as text with its frequency, and nothing that it has besides."""
    table, result = TextTable.of(whole()), {}
    for n in range(1, 5):
        grams = [tuple(table.ngram(n, gram).split()) for gram in range(table.ngrams(n).size)]
        result |= {
            gram: count for gram, count in zip(grams, corpus.frequencies(table, n).tolist(), strict=True) if count
        }
    assert len(result) == len(corpus.counts)
    return result


def test_frequencies_are_those_of_counting_in_sets():
    assert written_out(DocumentFrequency.of(whole())) == counted(REFERENCES)
    assert counted(REFERENCES)["a",] == 3 and counted(REFERENCES)["on", "a"] == 2


def test_merged_shards_equal_the_whole():
    captions = whole()
    a, b = (DocumentFrequency.of(captions.take(part)) for part in ([0], [1, 2]))
    merged, expected = a.merge(b), DocumentFrequency.of(captions)
    assert written_out(merged) == written_out(expected)
    assert (merged.items, merged.fingerprint) == (expected.items, expected.fingerprint)
    assert str(merged) == str(expected)


def test_a_saved_corpus_gives_the_same_values(tmp_path):
    captions = whole()
    DocumentFrequency.of(captions, name="mine").save(tmp_path / "my.idf")
    assert written_out(load(tmp_path / "my.idf")) == written_out(DocumentFrequency.of(captions))
    own = Cider().measure(captions).values
    from_file = Cider(idf=str(tmp_path / "my.idf")).measure(captions)
    assert np.allclose(from_file.values, own, rtol=0, atol=1e-12)
    assert "idf:mine:3:" in str(from_file.signature)


def test_shards_scored_with_a_kept_corpus_count_it_once(tmp_path):
    captions = whole()
    path = tmp_path / "my.idf"
    DocumentFrequency.of(captions).save(path)
    shards = [captions.take([0]), captions.take([1, 2])]
    merged = evaluate_shards(shards, f"cider(idf={path})")[f"cider(idf={path})"]
    assert np.allclose(merged.values, Cider(idf=str(path)).measure(captions).values, rtol=0, atol=1e-12)
    with pytest.raises(InputError, match="one of them is complete already"):
        load(path).merge(DocumentFrequency.of(captions))


def test_an_ngram_the_corpus_lacks_has_frequency_0(tmp_path):
    captions = whole()
    corpus = DocumentFrequency.of(captions.take([0]))
    table = TextTable.of(captions)
    frequency = dict(zip(table.vocabulary, corpus.frequencies(table, 1)[np.argsort(table.ngrams(1).last)], strict=True))
    assert frequency["dog"] == 1 and frequency["emu"] == 0 and frequency["cat"] == 0


def test_named_corpora_are_found_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTIOUS_HOME", str(tmp_path))
    DocumentFrequency.of(whole(), name="coco").save(named_path("coco"))
    assert named() == ["coco"]
    assert find("coco").items == 3
    with pytest.raises(InputError, match=r"no idf corpus 'cocoa'.*named corpora: coco; did you mean 'coco'"):
        find("cocoa")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:-10], "idf corpus cut short"),
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "damaged idf corpus"),
        (
            lambda content: content.replace(b'"captious-idf": 3', b'"captious-idf": 2'),
            "idf corpus of format 2, expected 3; make it again with: captious make idf",
        ),
        (lambda content: content.replace(b'"items": 3', b'"items": 4'), "damaged idf corpus"),
        (lambda content: b"hello", "is no idf corpus"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused(tmp_path, damage, message):
    path = tmp_path / "my.idf"
    DocumentFrequency.of(whole()).save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=message):
        load(path)


def test_the_pickled_table_of_the_reference_code_is_read(tmp_path):
    """coco-caption's layout: a defaultdict from n-gram tuples to floats, and ref_len."""
    captions = whole()
    table = defaultdict(
        float, {gram: float(count) for gram, count in written_out(DocumentFrequency.of(captions)).items()}
    )
    path = tmp_path / "df.p"
    path.write_bytes(pickle.dumps({"ref_len": 3.0, "document_frequency": table}))
    corpus = from_pickle(path, "theirs")
    assert written_out(corpus) == {gram: int(count) for gram, count in table.items()}
    values = Cider().score_items(captions, corpus).rows
    assert np.allclose(values, Cider().score_items(captions, DocumentFrequency.of(captions)).rows)


def test_a_bare_pickled_table_needs_the_number_of_items(tmp_path):
    path = tmp_path / "df.p"
    path.write_bytes(pickle.dumps(defaultdict(float, {("a",): 2.0})))
    with pytest.raises(InputError, match="a bare table and items="):
        from_pickle(path, "theirs")
    corpus = from_pickle(path, "theirs", items=7)
    assert corpus.items == 7 and written_out(corpus) == {("a",): 2}


def test_a_pickle_that_would_run_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return eval, ("1",)  # not print, which Ray replaces in its process

    path = tmp_path / "df.p"
    path.write_bytes(pickle.dumps({"ref_len": 1, "document_frequency": Evil()}))
    with pytest.raises(InputError, match=r"it would load builtins\.eval"):
        from_pickle(path, "evil")


def test_a_corpus_of_another_tokenizer_is_refused(tmp_path):
    DocumentFrequency.of(whole(), "whitespace").save(tmp_path / "my.idf")
    with pytest.raises(InputError, match=r"tokenized by whitespace\.1, the metric uses ptb\.1"):
        Cider(idf=str(tmp_path / "my.idf")).measure(whole())


def test_an_ngram_that_the_corpus_lacks_has_frequency_0_though_its_words_are_there():
    references = {"1": ["a cat"], "2": ["a cat"], "3": ["the dog"]}
    corpus = DocumentFrequency.of(CaptionSet.of(dict.fromkeys(references, ""), references))
    table = TextTable.of(CaptionSet.of({"1": "a dog", "2": "a bird"}))
    assert dict(zip(table.vocabulary, corpus.frequencies(table, 1).tolist(), strict=True)) == {
        "a": 2,
        "dog": 1,
        "bird": 0,
    }
    assert corpus.frequencies(table, 2).tolist() == [0, 0]
