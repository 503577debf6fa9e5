"""Object vocabularies: the words of a caption that name objects, as CHAIR matches them.

A text is split into tokens (`captious.syntax.sentences`), which are compared in lower case by their lemmas. Words that
form a phrase of the vocabulary are joined, from left to right. A word or phrase of the vocabulary is a mention of its
category; order and repetitions are kept, and every mention has its position in the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from captious._core.files import digest, read_regular
from captious.errors import InputError, format_one_line, format_suggestion
from captious.options import LemmaRule
from captious.syntax import parsing
from captious.syntax.lemmas import lemmatize
from captious.syntax.sentences import Sentence, split_sentences

COCO, REPAIRED = "coco", "coco-repaired"
FILE = Path(__file__).parent / "data" / "coco_objects.json"
_NOT_THINGS = "photo picture image photograph view front top side left right middle pair couple group"
# Nouns that do not name an object in a picture.
NOT_THINGS = frozenset(_NOT_THINGS.split())
# Texts that are processed at a time, to limit the tokens in memory.
BATCH = 10_000
FORMS = "lines of 'category, synonym, synonym', or JSON: {\"objects\": {category: [synonyms]}} or {word: category}"


class Mention(NamedTuple):
    """A span of a text that names an object."""

    category: str
    word: str
    """The word or phrase of the vocabulary."""
    start: int
    """Its start and stop in the text, in characters."""
    stop: int
    sentence: int
    """The index of its sentence."""


class Objects(NamedTuple):
    """The objects that a text names."""

    mentions: tuple[Mention, ...]
    tokens: int
    """Tokens with punctuation, a phrase counted once: the length that OPERA's code prints."""

    @property
    def categories(self) -> frozenset[str]:
        """The distinct objects."""
        return frozenset(one.category for one in self.mentions)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Words and phrases with the object that each names."""

    name: str
    objects: Mapping[str, str]
    """The category of each word; a category is also a word."""
    phrases: Mapping[str, str] = field(default_factory=dict)
    """The word that a phrase is replaced by; if that is not in ``objects``, the phrase names nothing."""
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Words that are ignored if another word is in the same text: a toilet's seat is not a chair."""
    lemmatize_all: bool = False
    """Whether words of the vocabulary are lemmatized too, so that *bus* is missed as *bu*."""

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """Every category, in the order of the table."""
        return tuple(dict.fromkeys(self.objects.values()))

    @cached_property
    def known_words(self) -> frozenset[str]:
        """The single words of the vocabulary, and the parts of its phrases."""
        return frozenset(
            part for text in (*self.objects, *self.phrases, *self.hidden.values()) for part in text.split()
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that affects matches."""
        tables = (self.objects, self.phrases, self.hidden)
        content = [*(sorted(table.items()) for table in tables), self.lemmatize_all]
        return digest(json.dumps(content, ensure_ascii=False).encode())

    def __str__(self) -> str:
        return f"{self.name}#{self.fingerprint}"

    def category(self, word: str) -> str:
        """Return the category of a word, ignoring case and extra spaces; raise InputError with a suggestion if it
        has none.

        >>> open_vocabulary().category("Sofa")
        'couch'
        """
        normalized = " ".join(word.lower().split())
        if normalized not in self.objects:
            raise InputError(
                f"{word!r} is not an object of the vocabulary {self.name}, expected one of its {len(self.categories)} "
                f"categories, such as {self.categories[0]}{format_suggestion(normalized, self.objects)}"
            )
        return self.objects[normalized]

    @cached_property
    def _phrases_by_head(self) -> Mapping[str, Sequence[tuple[tuple[str, ...], str]]]:
        """Phrases by their first word, the longest first."""
        heads: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for phrase, meaning in self.phrases.items():
            words = tuple(phrase.split())
            heads.setdefault(words[0], []).append((words, meaning))
        return {head: sorted(phrases, key=lambda one: -len(one[0])) for head, phrases in heads.items()}

    def join_phrases(self, lemmas: Sequence[str]) -> Iterator[tuple[str, int, int]]:
        """Yield each word of a text after joining phrases, with its first token and one past its last.

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
        """Find the words of a text that name objects, with their tokens as in `join_phrases`; also return the number of
        words.
        """
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
    """A vocabulary with the rule that reduces words to lemmas."""

    vocabulary: Vocabulary
    lemmas: LemmaRule = "singularize"
    tagger: str = "captious"
    """The tagger of ``lemmas=wordnet``."""
    parser: str = parsing.DEFAULT
    """The spaCy model of ``lemmas=spacy``."""

    @property
    def settings(self) -> dict[str, str]:
        """The settings that affect matches, for signatures."""
        by_rule = {"wordnet": {"tagger": self.tagger}, "spacy": {"lemmatizer": self._parser_version}}
        return {"vocabulary": str(self.vocabulary), **by_rule.get(self.lemmas, {})}

    @property
    def _parser_version(self) -> str:
        return parsing.get_version(self.parser) if self.lemmas == "spacy" else ""

    def find(self, texts: Sequence[str]) -> list[Objects]:
        """Find the objects that each text names.

        >>> (objects,) = ObjectFinder(open_vocabulary()).find(["Two hot dogs on a Desk"])
        >>> [(one.category, one.word) for one in objects.mentions]
        [('hot dog', 'hot dog'), ('dining table', 'desk')]
        """
        distinct, objects = list(dict.fromkeys(texts)), dict[str, Objects]()
        for first in range(0, len(distinct), BATCH):
            part = distinct[first : first + BATCH]
            parsed = [split_sentences(text) for text in part]
            tokens = [[token.lower() for sentence in one for token in sentence.tokens] for one in parsed]
            lemmas = self.lemmatize(tokens, part)
            objects_of_part = map(self._find_objects, parsed, lemmas)
            objects |= dict(zip(part, objects_of_part, strict=True))
        return [objects[text] for text in texts]

    def lemmatize(self, tokens: Sequence[Sequence[str]], texts: Sequence[str]) -> list[list[str]]:
        """Lemmatize the lower-case tokens of texts; words of the vocabulary are kept unless ``lemmatize_all``."""
        lemmatize_all = self.vocabulary.lemmatize_all
        known = frozenset() if lemmatize_all else self.vocabulary.known_words
        lemmas = lemmatize(tokens, texts, self.lemmas, self.tagger, self.parser, known)
        if lemmatize_all:
            return lemmas
        return [
            [word if word in known else lemma for word, lemma in zip(*pair, strict=True)]
            for pair in zip(tokens, lemmas, strict=True)
        ]

    def _find_objects(self, parsed: Sequence[Sentence], lemmas: Sequence[str]) -> Objects:
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
    """Return a vocabulary by name, or from a file.

    ``coco`` has CHAIR's 80 objects of COCO, as the original matches them. ``coco-repaired`` also finds the four
    synonyms that the original never does, and keeps a word of the list as it is: *bus* and *wine glass* are found.

    >>> [(len(one.categories), len(one.objects)) for one in map(open_vocabulary, ("coco", "coco-repaired"))]
    [(80, 399), (80, 403)]
    """
    if name == COCO:
        return _load_coco(repaired=False)
    if name == REPAIRED:
        return _load_coco(repaired=True)
    path = Path(name)
    if not path.is_file():
        raise InputError(
            f"vocabulary {name!r}: no such file, expected {COCO}, {REPAIRED} or a file"
            f"{format_suggestion(name, (COCO, REPAIRED))}"
        )
    return read_vocabulary(path)


@lru_cache(maxsize=2)
def _load_coco(repaired: bool) -> Vocabulary:
    table = json.loads(FILE.read_text(encoding="utf-8"))
    if repaired:
        return _build_vocabulary(REPAIRED, table, "")
    unmatched = table["unmatched"]
    objects = {
        category: [word for word in words if word not in unmatched] for category, words in table["objects"].items()
    }
    vocabulary = _build_vocabulary(COCO, {**table, "objects": objects}, "", lemmatize_all=True)
    phrases = {
        phrase: word
        for phrase, word in vocabulary.phrases.items()
        if phrase not in unmatched or phrase in table["phrases"]
    }
    return replace(vocabulary, phrases=phrases)


def read_vocabulary(path: Path) -> Vocabulary:
    """Read a vocabulary from a file; raise InputError if a word belongs to two objects, or categories are chained."""
    try:
        text = read_regular(path).decode("utf-8-sig")
        if not text.lstrip().startswith("{"):
            return _build_vocabulary(path.name, {"objects": _parse_lines(text, path)}, f"{path}: ")
        table = json.loads(text, object_pairs_hook=lambda pairs: _make_unique_dict(pairs, path))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is not a vocabulary ({format_one_line(error)}), expected {FORMS}") from None
    if "objects" not in table:
        table = {"objects": _group_by_category(table, path)}
    return _build_vocabulary(path.name, table, f"{path}: ")


def _make_unique_dict(pairs: Sequence[tuple[str, Any]], path: Path) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise InputError(f"{path}: {key!r} occurs twice, expected each word once")
        table[key] = value
    return table


def _parse_lines(text: str, path: Path) -> dict[str, list[str]]:
    """Parse lines of a category and its synonyms, separated by commas; skip blank lines and comments (#)."""
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


def _group_by_category(table: Mapping[str, Any], path: Path) -> dict[str, list[str]]:
    """Group words by category, from a table of word to category; a category may map to itself."""
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


def _build_vocabulary(name: str, table: Mapping[str, Any], where: str, lemmatize_all: bool = False) -> Vocabulary:
    """Build a vocabulary from its tables, with every word in lower case; raise InputError if one occurs twice."""
    objects: dict[str, str] = {}
    for category, words in _get_part(table, "objects", where, list).items():
        own = _normalize(category)
        for word in map(_normalize, [category, *words]):
            if word in objects:
                owners = f"{objects[word]!r} and of {own!r}" if objects[word] != own else f"{own!r} twice"
                raise InputError(f"{where}{word!r} is a word of {owners}, expected each word once")
            objects[word] = own
    if not objects:
        raise InputError(f"{where}no objects, expected {FORMS}")
    written = {_normalize(phrase): _normalize(word) for phrase, word in _get_part(table, "phrases", where, str).items()}
    hidden = {_normalize(word): _normalize(other) for word, other in _get_part(table, "hidden", where, str).items()}
    phrases = {**{word: word for word in objects if " " in word}, **written}
    if short := [phrase for phrase in written if " " not in phrase]:
        raise InputError(f"{where}the phrase {short[0]!r} is one word, expected at least two")
    if strange := [word for word in (*hidden, *hidden.values()) if word not in objects]:
        raise InputError(f"{where}hidden has {strange[0]!r}, which is not a word of an object")
    return Vocabulary(name, objects, phrases, hidden, lemmatize_all)


def _get_part(table: Mapping[str, Any], key: str, where: str, kind: type) -> Mapping[str, Any]:
    """Return a part of the table; raise InputError if its values are not of type ``kind``."""
    part = table.get(key, {})
    if not isinstance(part, dict):
        raise InputError(f"{where}{key} is {type(part).__name__}, expected {FORMS}")
    for word, value in part.items():
        texts: Iterable[Any] = value if isinstance(value, list) else [value]
        if not isinstance(value, kind) or not all(isinstance(text, str) and text.strip() for text in (word, *texts)):
            raise InputError(f"{where}{key}: {word!r} is {value!r}, expected {FORMS}")
    return part


def _normalize(word: str) -> str:
    return " ".join(word.lower().split())
