"""Context of edits beyond one caption: the objects that an image shows, and the words of the whole set.

An object is present if a reference, the caption itself or the item's column ``objects`` names it, by CHAIR's synonyms.
Every other object of the vocabulary is absent and may be injected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from captious.captions import CaptionSet
from captious.edits._words import SIBLINGS
from captious.edits.lexicon import CaptionCorpus
from captious.io.columns import OBJECT_COLUMN
from captious.io.printed import parse_text_list
from captious.syntax.objects import REPAIRED, Mention, ObjectFinder, open_vocabulary
from captious.syntax.tagging import tag_texts

# CHAIR's objects of COCO with all synonyms matched, so that no synonym of a present object counts as absent.
VOCABULARY = REPAIRED


@dataclass(frozen=True, eq=False)
class Surroundings:
    """A set of captions, one for each item, with the statistics that edits need."""

    captions: CaptionSet
    vocabulary: str = VOCABULARY
    """The vocabulary of objects: a name or a file, as for CHAIR."""

    @cached_property
    def finder(self) -> ObjectFinder:
        """The finder of objects, with CHAIR's table of synonyms."""
        return ObjectFinder(open_vocabulary(self.vocabulary))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The caption of each item."""
        return tuple(own[0] if own else "" for own in self.captions.candidates)

    @cached_property
    def mentions(self) -> list[tuple[Mention, ...]]:
        """The objects that each caption names, with their positions."""
        return [objects.mentions for objects in self.finder.find(self.texts)]

    @cached_property
    def present(self) -> list[frozenset[str]]:
        """The objects of each image, according to its references, its caption and its column ``objects``."""
        references = self.captions.references
        named = [objects.categories for objects in self.finder.find(references.values)]
        columns = self.captions.columns.get(OBJECT_COLUMN, (None,) * len(self.captions))
        objects = self.finder.vocabulary.objects
        present = []
        for index, (id, column) in enumerate(zip(self.captions.ids, columns, strict=True)):
            first, end = references.offsets[index : index + 2]
            listed = [objects.get(word.lower(), word) for word in parse_text_list(column, id, OBJECT_COLUMN) or ()]
            own = {mention.category for mention in self.mentions[index]}
            present.append(frozenset(chain(own, listed, *named[first:end])))
        return present

    def list_absent(self, index: int) -> list[str]:
        """List the objects of the vocabulary that may be injected into a caption, in the order of the vocabulary.

        These are the objects that are not present, except those whose words all occur in the caption or its references.
        """
        own_words = self.own_words[index]
        return [
            category
            for category in self.finder.vocabulary.categories
            if category not in self.present[index] and not own_words.issuperset(category.split())
        ]

    def find_siblings(self, category: str, index: int) -> list[str]:
        """List absent objects of the same COCO supercategory, such as other animals for a dog.

        If an object has no supercategory because the vocabulary is not COCO's, any absent object will do.
        """
        absent = self.list_absent(index)
        if category in SIBLINGS:
            return [other for other in absent if other in SIBLINGS[category]]
        return [] if set(self.finder.vocabulary.categories) <= SIBLINGS.keys() else absent

    @cached_property
    def own_words(self) -> list[frozenset[str]]:
        """The words of each item's caption and references, in lower case, each also without a plural s."""
        own = []
        for text, references in zip(self.texts, self.captions.references, strict=True):
            words = {word.strip(".,!?;:\"'").lower() for one in (text, *references) for word in one.split()}
            own.append(frozenset(words | {word.removesuffix("s") for word in words}))
        return own

    @cached_property
    def corpus(self) -> CaptionCorpus:
        """The captions by id, sorted, to draw captions of other images from."""
        return CaptionCorpus.of(
            {key: [text] for key, text in zip(self.captions.ids, self.texts, strict=True) if text.strip()}
        )

    @cached_property
    def corpus_rows(self) -> dict[str, int]:
        """The row of each id in the corpus."""
        return {key: row for row, key in enumerate(self.corpus.ids)}

    @cached_property
    def images(self) -> tuple[str, ...]:
        """The identity of each image: its path if there is one, otherwise the id."""
        paths = self.captions.images
        return tuple(
            image if isinstance(image, str) else key for image, key in zip(paths, self.captions.ids, strict=True)
        )

    @cached_property
    def _tokens(self) -> list[list[tuple[str, str]]]:
        """The lower-cased words and tags of each sentence in the references, or in the captions if there are none.

        Punctuation is left out.
        """
        texts: Sequence[str] = self.captions.references.values or self.texts
        return [
            [(word.lower(), tag) for word, tag in zip(sentence.tokens, tags, strict=True) if word[0].isalnum()]
            for tagged in tag_texts(texts)
            for sentence, tags in tagged
        ]

    @cached_property
    def frequent_words(self) -> list[str]:
        """The words of the references, the most frequent first."""
        return _sort_by_frequency(Counter(word for sentence in self._tokens for word, _ in sentence))

    @cached_property
    def frequent_phrases(self) -> list[str]:
        """The phrases of three successive words in the references, the most frequent first."""
        phrases: Counter[str] = Counter()
        for sentence in self._tokens:
            words = [word for word, _ in sentence]
            phrases.update(" ".join(words[first : first + 3]) for first in range(len(words) - 2))
        return _sort_by_frequency(phrases)

    @cached_property
    def nouns(self) -> dict[str, dict[str, int]]:
        """The number of occurrences of each noun, by tag: ``NN`` for singular, ``NNS`` for plural."""
        counts: dict[str, Counter[str]] = {"NN": Counter(), "NNS": Counter()}
        for sentence in self._tokens:
            for word, tag in sentence:
                if tag in counts and word.isalpha():
                    counts[tag][word] += 1
        return {tag: dict(sorted(own.items())) for tag, own in counts.items()}

    def find_similar_nouns(self, noun: str, tag: str, index: int) -> list[str]:
        """Find nouns with the same tag and a similar frequency that the item's texts and objects do not include.

        Frequencies are compared by powers of two; only the nouns of the nearest power are returned.
        """
        counts = self.nouns.get(tag, {})
        band = counts.get(noun, 1).bit_length()  # counts of 4 to 7 are one band, 8 to 15 the next
        own, objects, present = self.own_words[index], self.finder.vocabulary.objects, self.present[index]
        others = [
            (abs(count.bit_length() - band), word)
            for word, count in counts.items()
            if word not in own and word.removesuffix("s") not in own and objects.get(word) not in present
        ]
        nearest = min((distance for distance, _ in others), default=0)
        return [word for distance, word in others if distance == nearest]


def _sort_by_frequency(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda text: (-counts[text], text))
