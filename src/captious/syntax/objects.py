"""Object vocabularies: which words of a caption name which object, as CHAIR reads them.

A text is cut into tokens (`captious.syntax.sentences`), which are compared in lower case by their lemmas. Words that
make a phrase of the vocabulary are joined, from left to right. A word or phrase of the vocabulary is a mention of its
category; order and repetitions are kept, and every mention has its place in the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from captious._core.files import digest, read_regular
from captious.errors import InputError, nearest, one_line
from captious.options import LemmaRule
from captious.syntax import parsing
from captious.syntax.lemmas import lemmatize
from captious.syntax.sentences import Sentence, sentences

COCO, REPAIRED = "coco", "coco-repaired"
FILE = Path(__file__).parent / "data" / "coco_objects.json"
_NOT_THINGS = "photo picture image photograph view front top side left right middle pair couple group"
NOT_THINGS = frozenset(_NOT_THINGS.split())
"""Nouns that name no thing in a picture."""
BATCH = 10_000
"""Texts whose tokens are in memory at a time."""
FORMS = "lines of 'category, synonym, synonym', or JSON: {\"objects\": {category: [synonyms]}} or {word: category}"


class Mention(NamedTuple):
    """A place in a text that names an object."""

    category: str
    word: str
    """The word or phrase of the vocabulary."""
    start: int
    """Where it begins in the text, and where it ends, in characters."""
    stop: int
    sentence: int
    """The number of its sentence, from 0 on."""


class Objects(NamedTuple):
    """What a text names."""

    mentions: tuple[Mention, ...]
    tokens: int
    """Tokens with punctuation, a phrase counted once: the length that OPERA's code prints."""

    @property
    def categories(self) -> frozenset[str]:
        """The distinct objects."""
        return frozenset(one.category for one in self.mentions)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Words and phrases by the object that they name."""

    name: str
    objects: Mapping[str, str]
    """The category of each word; a category is a word of its own."""
    phrases: Mapping[str, str] = field(default_factory=dict)
    """What words that stand side by side are read as; where that is no word of ``objects``, they name nothing."""
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Words that are dropped where another word is in the same text: a toilet's seat is no chair."""
    lemmatize_all: bool = False
    """Whether a word of the vocabulary is reduced to its lemma like any other, and *bus* is lost as *bu*."""

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """Every category, in the order of the table."""
        return tuple(dict.fromkeys(self.objects.values()))

    @cached_property
    def known_words(self) -> frozenset[str]:
        """Single words of the vocabulary, and the parts of its phrases."""
        return frozenset(
            part for text in (*self.objects, *self.phrases, *self.hidden.values()) for part in text.split()
        )

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of everything that moves a match."""
        tables = (self.objects, self.phrases, self.hidden)
        content = [*(sorted(table.items()) for table in tables), self.lemmatize_all]
        return digest(json.dumps(content, ensure_ascii=False).encode())

    def __str__(self) -> str:
        return f"{self.name}#{self.fingerprint}"

    def category(self, word: str) -> str:
        """The category of a word, however it is written; an error names the nearest.

        >>> open_vocabulary().category("Sofa")
        'couch'
        """
        known = " ".join(word.lower().split())
        if known not in self.objects:
            raise InputError(
                f"{word!r} is not an object of the vocabulary {self.name}, expected one of its {len(self.categories)} "
                f"categories, such as {self.categories[0]}{nearest(known, self.objects)}"
            )
        return self.objects[known]

    @cached_property
    def _phrases_by_head(self) -> Mapping[str, Sequence[tuple[tuple[str, ...], str]]]:
        """Phrases by their first word, the longest first."""
        heads: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for phrase, meaning in self.phrases.items():
            words = tuple(phrase.split())
            heads.setdefault(words[0], []).append((words, meaning))
        return {head: sorted(phrases, key=lambda one: -len(one[0])) for head, phrases in heads.items()}

    def join_phrases(self, lemmas: Sequence[str]) -> Iterator[tuple[str, int, int]]:
        """Each word of a text after phrases were joined, with its first token and the token behind it.

        >>> [word for word, _, _ in open_vocabulary().join_phrases(["a", "hot", "dog", "stand"])]
        ['a', 'hot dog', 'stand']
        """
        heads, end = self._phrases_by_head, 0
        for index, lemma in enumerate(lemmas):
            if index < end:
                continue
            word, end = lemma, index + 1
            for phrase, meaning in heads.get(lemma, ()):
                if tuple(lemmas[index : index + len(phrase)]) == phrase:
                    word, end = meaning, index + len(phrase)
                    break
            yield word, index, end

    def find(self, lemmas: Sequence[str]) -> tuple[list[tuple[str, int, int]], int]:
        """The words of a text that name objects, each with its tokens as in `join_phrases`; and the number of words."""
        matches, words = [], 0
        for one in self.join_phrases(lemmas):
            words += 1
            if one[0] in self.objects:
                matches.append(one)
        if self.hidden:
            present = {word for word, _, _ in matches}
            matches = [one for one in matches if self.hidden.get(one[0]) not in present]
        return matches, words


@dataclass(frozen=True)
class ObjectFinder:
    """A vocabulary with the rule by which words are reduced to their lemmas."""

    vocabulary: Vocabulary
    lemmas: LemmaRule = "singularize"
    tagger: str = "captious"
    """The tagger of ``lemmas=wordnet``."""
    parser: str = parsing.DEFAULT
    """The spaCy model of ``lemmas=spacy``."""

    @property
    def settings(self) -> dict[str, str]:
        """What moves a match, for signatures."""
        by_rule = {"wordnet": {"tagger": self.tagger}, "spacy": {"lemmatizer": self._parser_version}}
        return {"vocabulary": str(self.vocabulary), **by_rule.get(self.lemmas, {})}

    @property
    def _parser_version(self) -> str:
        return parsing.version(self.parser) if self.lemmas == "spacy" else ""

    def find(self, texts: Sequence[str]) -> list[Objects]:
        """What each text names.

        >>> (objects,) = ObjectFinder(open_vocabulary()).find(["Two hot dogs on a Desk"])
        >>> [(one.category, one.word) for one in objects.mentions]
        [('hot dog', 'hot dog'), ('dining table', 'desk')]
        """
        distinct, objects = list(dict.fromkeys(texts)), dict[str, Objects]()
        for first in range(0, len(distinct), BATCH):
            part = distinct[first : first + BATCH]
            parsed = [sentences(text) for text in part]
            tokens = [[token.lower() for sentence in one for token in sentence.tokens] for one in parsed]
            lemmas = self.lemmatize(tokens, part)
            found = map(self._objects, parsed, lemmas)
            objects |= dict(zip(part, found, strict=True))
        return [objects[text] for text in texts]

    def lemmatize(self, tokens: Sequence[Sequence[str]], texts: Sequence[str]) -> list[list[str]]:
        """The lemmas of the lower-case tokens of texts; a word of the vocabulary stays unless it is told otherwise."""
        whole = self.vocabulary.lemmatize_all
        known = frozenset() if whole else self.vocabulary.known_words
        lemmas = lemmatize(tokens, texts, self.lemmas, self.tagger, self.parser, known)
        if whole:
            return lemmas
        return [
            [word if word in known else lemma for word, lemma in zip(*pair, strict=True)]
            for pair in zip(tokens, lemmas, strict=True)
        ]

    def _objects(self, parsed: Sequence[Sentence], lemmas: Sequence[str]) -> Objects:
        matches, words = self.vocabulary.find(lemmas)
        if not matches:
            return Objects((), words)
        spans = [
            (start, stop, number)
            for number, sentence in enumerate(parsed)
            for start, stop in zip(sentence.starts, sentence.stops, strict=True)
        ]
        return Objects(
            tuple(
                Mention(self.vocabulary.objects[word], word, spans[first][0], spans[end - 1][1], spans[first][2])
                for word, first, end in matches
            ),
            words,
        )


def open_vocabulary(name: str = COCO) -> Vocabulary:
    """A vocabulary by name, or from a file.

    ``coco`` has CHAIR's 80 objects of COCO, as the original matches them. ``coco-repaired`` also finds the four
    synonyms that the original never does, and keeps a word of the list as it is: *bus* and *wine glass* are found.

    >>> [(len(one.categories), len(one.objects)) for one in map(open_vocabulary, ("coco", "coco-repaired"))]
    [(80, 399), (80, 403)]
    """
    if name == COCO:
        return _coco(repaired=False)
    if name == REPAIRED:
        return _coco(repaired=True)
    path = Path(name)
    if not path.is_file():
        raise InputError(
            f"vocabulary {name!r}: no such file, expected {COCO}, {REPAIRED} or a file{nearest(name, (COCO, REPAIRED))}"
        )
    return read_vocabulary(path)


@lru_cache(maxsize=2)
def _coco(repaired: bool) -> Vocabulary:
    table = json.loads(FILE.read_text(encoding="utf-8"))
    if repaired:
        return _vocabulary(REPAIRED, table, "")
    unmatched = table["unmatched"]
    objects = {
        category: [word for word in words if word not in unmatched] for category, words in table["objects"].items()
    }
    whole = _vocabulary(COCO, {**table, "objects": objects}, "", lemmatize_all=True)
    phrases = {
        phrase: word for phrase, word in whole.phrases.items() if phrase not in unmatched or phrase in table["phrases"]
    }
    return replace(whole, phrases=phrases)


def read_vocabulary(path: Path) -> Vocabulary:
    """The vocabulary of a file; a word that stands for two objects, or for one that stands for another, is refused."""
    try:
        text = read_regular(path).decode("utf-8-sig")
        if not text.lstrip().startswith("{"):
            return _vocabulary(path.name, {"objects": _lines(text, path)}, f"{path}: ")
        table = json.loads(text, object_pairs_hook=lambda pairs: _once(pairs, path))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is not a vocabulary ({one_line(error)}), expected {FORMS}") from None
    if "objects" not in table:
        table = {"objects": _by_category(table, path)}
    return _vocabulary(path.name, table, f"{path}: ")


def _once(pairs: Sequence[tuple[str, Any]], path: Path) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise InputError(f"{path}: {key!r} occurs twice, expected each word once")
        table[key] = value
    return table


def _lines(text: str, path: Path) -> dict[str, list[str]]:
    """Categories with their synonyms from lines with commas; blank lines and those that begin with # say nothing."""
    objects: dict[str, list[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        category, *words = [part.strip() for part in line.split(",")]
        if not line.strip() or line.startswith("#"):
            continue
        if not category or not all(words):
            raise InputError(f"{path}: line {number}: an empty word, expected {FORMS}")
        if category in objects:
            raise InputError(f"{path}: line {number}: {category!r} begins an earlier line too, expected each word once")
        objects[category] = words
    return objects


def _by_category(table: Mapping[str, Any], path: Path) -> dict[str, list[str]]:
    """Categories with their words from a category for each word; a category may name itself."""
    objects: dict[str, list[str]] = {}
    for word, category in table.items():
        if not isinstance(category, str):
            raise InputError(f"{path}: {word!r} is {category!r}, expected {FORMS}")
        chain = [word]
        while (following := table.get(chain[-1], chain[-1])) != chain[-1]:
            if following in chain:
                cycle = " → ".join([*chain, following])
                raise InputError(f"{path}: a cycle, {cycle}; expected words, each with its category")
            chain.append(following)
        if len(chain) > 2:
            raise InputError(
                f"{path}: {word!r} stands for {category!r}, which stands for {chain[2]!r}, expected a category"
            )
        objects.setdefault(category, [])
        if word != category:
            objects[category].append(word)
    return objects


def _vocabulary(name: str, table: Mapping[str, Any], where: str, lemmatize_all: bool = False) -> Vocabulary:
    """A vocabulary from its parts, with every word in lower case, once."""
    objects: dict[str, str] = {}
    for category, words in _texts(table, "objects", where, list).items():
        own = _plain(category)
        for word in map(_plain, [category, *words]):
            if word in objects:
                owners = f"{objects[word]!r} and of {own!r}" if objects[word] != own else f"{own!r} twice"
                raise InputError(f"{where}{word!r} is a word of {owners}, expected each word once")
            objects[word] = own
    if not objects:
        raise InputError(f"{where}no objects, expected {FORMS}")
    written = {_plain(phrase): _plain(word) for phrase, word in _texts(table, "phrases", where, str).items()}
    hidden = {_plain(word): _plain(other) for word, other in _texts(table, "hidden", where, str).items()}
    phrases = {**{word: word for word in objects if " " in word}, **written}
    if short := [phrase for phrase in written if " " not in phrase]:
        raise InputError(f"{where}the phrase {short[0]!r} is one word, expected at least two")
    if strange := [word for word in (*hidden, *hidden.values()) if word not in objects]:
        raise InputError(f"{where}hidden has {strange[0]!r}, which is not a word of an object")
    return Vocabulary(name, objects, phrases, hidden, lemmatize_all)


def _texts(table: Mapping[str, Any], key: str, where: str, kind: type) -> Mapping[str, Any]:
    """A part of the table, whose values must be of one kind."""
    part = table.get(key, {})
    if not isinstance(part, dict):
        raise InputError(f"{where}{key} is {type(part).__name__}, expected {FORMS}")
    for word, value in part.items():
        texts: Iterable[Any] = value if isinstance(value, list) else [value]
        if not isinstance(value, kind) or not all(isinstance(text, str) and text.strip() for text in (word, *texts)):
            raise InputError(f"{where}{key}: {word!r} is {value!r}, expected {FORMS}")
    return part


def _plain(word: str) -> str:
    return " ".join(word.lower().split())
