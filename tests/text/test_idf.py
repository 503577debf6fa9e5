import math
import pickle
from collections import Counter, defaultdict

import numpy as np
import pytest
from tests.merging import measure_parts

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.cider import Cider
from captious.text.idf import DocumentFrequency, find, from_pickle, get_named_path, list_names, load
from captious.text.ngram_tables import TextTable

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
    merged = measure_parts(shards, f"cider(idf={path})")
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
    DocumentFrequency.of(whole(), name="coco").save(get_named_path("coco"))
    assert list_names() == ["coco"]
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


def reference_cider(candidate, references, frequencies, items):
    """CIDEr-D of one caption by the formula, over the words between spaces, as the reference code has it."""

    def vectors(text):
        words = text.split()
        counts = [Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1)) for n in range(1, 5)]
        weights = [
            {
                gram: count * (math.log(items) - math.log(max(1.0, frequencies.get(gram, 0.0))))
                for gram, count in one.items()
            }
            for one in counts
        ]
        return weights, sum(counts[1].values())

    (ours, length), total = vectors(candidate), 0.0
    for reference in references:
        theirs, other = vectors(reference)
        for mine, yours in zip(ours, theirs, strict=True):
            product = sum(min(weight, yours.get(gram, 0.0)) * yours.get(gram, 0.0) for gram, weight in mine.items())
            norms = [math.sqrt(sum(weight**2 for weight in one.values())) for one in (mine, yours)]
            if all(norms):
                total += product / math.prod(norms) * math.exp(-((length - other) ** 2) / (2 * 6.0**2)) / 4
    return 10 * total / len(references)


WORDS = {
    "1": ["a UNK dog runs <eos>", "a dog 's ball <eos>"],
    "2": ["the UNK sat , and sat <eos>", "a cat <eos>"],
    "3": ["two red buses <eos>", "red UNK buses <eos>"],
}
SAMPLES = {"1": "a UNK dog 's ball <eos>", "2": "the cat sat , <eos>", "3": "two UNK buses <eos>"}


@pytest.mark.parametrize("tokenizer", [None, "whitespace"])
def test_words_of_self_critical_training_are_looked_up_as_they_are(tmp_path, tokenizer):
    """Its tables hold UNK for rare words, and an end; the tokenizer of COCO would lower and cut them."""
    path = tmp_path / "coco-train-words.p"
    path.write_bytes(pickle.dumps({"ref_len": 3, "document_frequency": defaultdict(float, counted(WORDS))}))
    from_pickle(path, "words", tokenizer=tokenizer).save(tmp_path / "words.idf")
    captions = CaptionSet.of(SAMPLES, WORDS)
    values = Cider(idf=str(tmp_path / "words.idf"), tokenizer="whitespace").measure(captions).values
    expected = [reference_cider(SAMPLES[key], WORDS[key], counted(WORDS), 3) for key in SAMPLES]
    assert min(expected) > 0.5 and values.tolist() == pytest.approx(expected, abs=1e-12)
    with pytest.raises(InputError, match=r"has tokens of whitespace\.1, the metric uses those of ptb\.1; write cider"):
        Cider(idf=str(tmp_path / "words.idf")).measure(captions)


@pytest.mark.parametrize("tokenizer", [None, "whitespace"])
def test_token_ids_are_words_of_both_tokenizers(tmp_path, tokenizer):
    ids = {
        word: str(i) for i, word in enumerate(sorted({w for texts in WORDS.values() for t in texts for w in t.split()}))
    }
    numbers = {key: [" ".join(ids[w] for w in text.split()) for text in texts] for key, texts in WORDS.items()}
    samples = {key: " ".join(ids[w] for w in text.split()) for key, text in SAMPLES.items()}
    path = tmp_path / "coco-train-idxs.p"
    path.write_bytes(pickle.dumps({"ref_len": 3, "document_frequency": defaultdict(float, counted(numbers))}))
    from_pickle(path, "ids", tokenizer=tokenizer).save(tmp_path / "ids.idf")
    metric = Cider(idf=str(tmp_path / "ids.idf"), tokenizer=tokenizer or "ptb")
    expected = [reference_cider(samples[key], numbers[key], counted(numbers), 3) for key in samples]
    assert metric.measure(CaptionSet.of(samples, numbers)).values.tolist() == pytest.approx(expected, abs=1e-12)


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
    with pytest.raises(InputError, match=r"has tokens of whitespace\.1, the metric uses those of ptb\.1"):
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"ref_len": 0, "document_frequency": {("a",): 1}}, "an idf table of 0 items"),
        ({"ref_len": -5, "document_frequency": {("a",): 1}}, "an idf table of -5 items"),
        ({"ref_len": 1e40, "document_frequency": {("a",): 1}}, "expected from 1 to 1,000,000,000,000"),
        ({"ref_len": 2, "document_frequency": {("a",): 3}}, "'a' is in 3 of 2 items, expected from 1 to all"),
        ({"ref_len": 2, "document_frequency": {("a", "b"): -1}}, "'a b' is in -1 of 2 items"),
        ({"ref_len": 2, "document_frequency": {("a",): float("nan")}}, "'a' is in nan of 2 items"),
        ({"ref_len": 2, "document_frequency": {("a",): "1"}}, "'a' is in 1 of 2 items"),
        ({"ref_len": 2, "document_frequency": {("a",): 10**30}}, "of 2 items"),
        ({"ref_len": 2, "document_frequency": {"a": 1}}, "with 'a', expected n-grams as tuples of words"),
        ({"ref_len": 2, "document_frequency": {(): 1}}, "expected n-grams as tuples of words"),
        ({"ref_len": 2, "document_frequency": {(1, 2): 1}}, "expected n-grams as tuples of words"),
        ({"ref_len": 2, "document_frequency": [("a", 1)]}, "not a pickled idf table"),
        ({"ref_len": float("nan"), "document_frequency": {}}, "not a pickled idf table"),
        ({"ref_len": "many", "document_frequency": {}}, "not a pickled idf table"),
        ({"ref_len": float("inf"), "document_frequency": {}}, "not a pickled idf table"),
        ([], "not a pickled idf table"),
        (5, "not a pickled idf table"),
        (None, "not a pickled idf table"),
    ],
)
def test_an_impossible_pickled_table_is_refused_in_a_line(tmp_path, content, message):
    path = tmp_path / "table.p"
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(InputError, match=message) as error:
        from_pickle(path, "own")
    assert str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value)


def test_a_damaged_pickle_is_refused_in_a_line(tmp_path):
    path = tmp_path / "table.p"
    whole = pickle.dumps({"ref_len": 3, "document_frequency": {("a", "dog"): 2, ("a",): 3}})
    refused = 0
    for index in range(len(whole)):
        for content in (whole[:index], whole[:index] + bytes([whole[index] ^ 0x15]) + whole[index + 1 :]):
            path.write_bytes(content)
            try:
                from_pickle(path, "own")
            except InputError as error:
                refused += 1
                assert str(error).startswith(f"{path}: ")
    assert refused > len(whole)  # all that are cut, and most that are changed
