"""The words of a corpus: captions as tokens, their tags, and candidates to replace each word."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from captious._core.languages import refuse_other_than_english
from captious._core.random import Keys, fork, mix
from captious._core.types import Bools, Floats, Ints, Ints32
from captious.text.ngram_tables import run_indices, tokenize
from captious.text.tokenizers import TOKENIZERS

_CLITICS = frozenset({"'s", "'re", "'ve", "'ll", "'d", "'m"})


@dataclass(frozen=True, eq=False)
class CaptionCorpus:
    """Captions by image, sorted by id; images without captions are left out.

    >>> corpus = CaptionCorpus.of({"b": ["a red dog", "A dog."], "a": ["two cats"]})
    >>> corpus.ids, corpus.texts
    (('a', 'b'), ('two cats', 'a red dog', 'A dog.'))
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    offsets: Ints
    """Image i has the captions ``offsets[i]`` up to ``offsets[i + 1]``."""
    as_given: Ints
    """The indices of the captions in their original order."""
    chunks: list[str]
    """The distinct whitespace tokens."""
    tokens: Ints32
    """The tokens of all captions as indices of chunks, concatenated."""
    lengths: Ints
    """Tokens of each caption."""
    name: str = "captions"

    @classmethod
    def of(cls, captions: Mapping[str, Sequence[str]], name: str = "captions") -> CaptionCorpus:
        """Build a corpus from captions by id."""
        with_captions = [key for key in captions if captions[key]]
        ids = sorted(with_captions)
        counts = np.array([len(captions[key]) for key in ids], dtype=np.int64)
        offsets = np.concatenate(([0], np.cumsum(counts)))
        index = {key: number for number, key in enumerate(ids)}
        order = np.array([index[key] for key in with_captions], dtype=np.int64)
        texts = tuple(text for key in ids for text in captions[key])
        as_given = run_indices(offsets[:-1][order], counts[order])
        return cls(tuple(ids), texts, offsets, as_given, *tokenize(texts, TOKENIZERS["whitespace"]), name)

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def image(self) -> Ints:
        """The image of each caption."""
        return np.repeat(np.arange(len(self.ids)), np.diff(self.offsets))

    @cached_property
    def position(self) -> Ints:
        """The index of each caption among those of its image."""
        return np.arange(len(self.texts)) - self.offsets[self.image]

    @cached_property
    def caption(self) -> Ints:
        """The caption of each token."""
        return np.repeat(np.arange(len(self.texts)), self.lengths)

    @cached_property
    def starts(self) -> Ints:
        """The first token of each caption."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def cores(self) -> list[tuple[str, str, str]]:
        """The word of each chunk with the punctuation before and after it; a chunk without a word is all before."""
        return [split_chunk(chunk) for chunk in self.chunks]

    @cached_property
    def keys(self) -> Ints:
        """The index of each chunk's word in lower case: 0 for a chunk without a word."""
        numbers = {"": 0}
        return np.array([numbers.setdefault(core[1].lower(), len(numbers)) for core in self.cores], dtype=np.int64)

    @cached_property
    def signatures(self) -> Keys:
        """A hash of each caption's words and their order; case and punctuation do not count."""
        return compute_signatures(self.keys[self.tokens], self.lengths)

    def is_own(self, captions: Ints, hashes: Keys) -> Bools:
        """Return a mask of the texts (by signature) that are captions of these captions' images, or contain no word."""
        wanted = mix(hashes + self._salt[self.image[captions]])
        nearest = np.minimum(np.searchsorted(self._own, wanted), len(self._own) - 1)
        own: Bools = (self._own[nearest] == wanted) | (hashes == 0)
        return own

    @cached_property
    def _salt(self) -> Keys:
        return fork(np.arange(len(self.ids), dtype=np.uint64), 0)

    @cached_property
    def _own(self) -> Keys:
        return np.sort(mix(self.signatures + self._salt[self.image]))


def compute_signatures(keys: Ints, lengths: Ints) -> Keys:
    """Hash each run of word numbers; 0 for a run without a word."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    word = np.flatnonzero(keys > 0)
    row = row[word]
    counts = np.bincount(row, minlength=len(lengths))
    position = np.arange(len(word)) - np.repeat(np.cumsum(counts) - counts, counts)
    hashed = mix(fork(keys[word].astype(np.uint64), position))
    total = np.concatenate((np.zeros(1, dtype=np.uint64), np.cumsum(hashed, dtype=np.uint64)))
    ends = np.cumsum(counts)
    hashes: Keys = total[ends] - total[ends - counts]
    return hashes


def split_chunk(chunk: str) -> tuple[str, str, str]:
    """Split a chunk into punctuation before, word, punctuation after.

    >>> split_chunk('"dogs",'), split_chunk("o'clock"), split_chunk("--")
    (('"', 'dogs', '",'), ('', "o'clock", ''), ('--', '', ''))
    >>> split_chunk("'s")  # in text that is tokenized already
    ('', "'s", '')
    """
    if chunk.isalnum() or chunk.lower() in _CLITICS:
        return "", chunk, ""
    first = next((index for index, letter in enumerate(chunk) if letter.isalnum()), len(chunk))
    end = next((index for index in range(len(chunk), first, -1) if chunk[index - 1].isalnum()), first)
    return chunk[:first], chunk[first:end], chunk[end:]


Tagging = Callable[[Sequence[Sequence[str]]], list[list[str]]]

# First letters of the tags of content words.
CONTENT = ("N", "V", "J")


@dataclass(frozen=True, eq=False)
class Lexicon:
    """The tags of all tokens, and the frequency of each (content tag, word)."""

    corpus: CaptionCorpus
    tag: npt.NDArray[np.int16]
    """The tag of each token of the corpus; -1 if it contains no word."""
    content: Bools
    """Whether each token contains a noun, a verb or an adjective."""
    entry: Ints
    """The (tag, word) entry of each token; -1 for all but content words."""
    entry_tag: Ints
    entry_key: Ints
    count: Ints
    surface: list[str]
    """The most frequent spelling of each entry. Entries are (tag, word), sorted by tag, then word."""

    @classmethod
    def of(cls, corpus: CaptionCorpus, tagger: Tagging | None = None) -> Lexicon:
        """Tag a corpus and count its content words, by default with captious's own tagger, which is for English."""
        if tagger is None:
            from captious.syntax.tagging import tag as own_tagger

            refuse_other_than_english(corpus.name, "negatives are made", corpus.texts)
            tagger = own_tagger
        tags, tag = _tag_tokens(corpus, tagger)
        marked = np.array([name.startswith(CONTENT) for name in tags] + [False])
        content: Bools = marked[tag]
        entry = np.full(len(tag), -1, dtype=np.int64)
        where = np.flatnonzero(content)
        width = int(corpus.keys.max(initial=0)) + 1
        codes, inverse, count = np.unique(
            tag[where].astype(np.int64) * width + corpus.keys[corpus.tokens[where]],
            return_inverse=True,
            return_counts=True,
        )
        entry[where] = inverse
        surface = _find_surfaces(corpus, tags, tag[where], where, inverse.astype(np.int64), len(codes))
        return cls(corpus, tag, content, entry, codes // width, codes % width, count, surface)

    @cached_property
    def _before(self) -> Ints:
        """The number of occurrences of all entries before each."""
        return np.concatenate(([0], np.cumsum(self.count)))

    @cached_property
    def _span(self) -> tuple[Ints, Ints]:
        """The number of occurrences before those of each entry's tag, and that of its tag."""
        first = np.searchsorted(self.entry_tag, self.entry_tag)
        end = np.searchsorted(self.entry_tag, self.entry_tag, side="right")
        return self._before[first], self._before[end] - self._before[first]

    @cached_property
    def replaceable(self) -> Bools:
        """Content words whose tag has another word."""
        others = (self._span[1] > self.count)[self.entry] if len(self.count) else np.zeros(len(self.entry), dtype=bool)
        result: Bools = self.content & others
        return result

    def draw(self, entries: Ints, draws: Floats, itself: bool = False) -> Ints:
        """Draw another entry of the same tag for each entry, by frequency; with ``itself``, perhaps the same one."""
        # A random occurrence of the tag; with `itself` false, those of the entry are skipped over.
        first, total = (part[entries] for part in self._span)
        own = 0 if itself else self.count[entries]
        occurrence = first + np.minimum((draws * (total - own)).astype(np.int64), total - own - 1)
        if not itself:
            occurrence += np.where(occurrence >= self._before[entries], own, 0)
        others: Ints = np.searchsorted(self._before, occurrence, side="right") - 1
        return others

    @cached_property
    def _affixes(self) -> tuple[Ints, list[tuple[str, str]]]:
        """The index of each chunk's punctuation, and the distinct punctuations."""
        numbers: dict[tuple[str, str], int] = {}
        index = [numbers.setdefault((before, after), len(numbers)) for before, _, after in self.corpus.cores]
        return np.array(index, dtype=np.int64), list(numbers)

    def encode_replacements(self, tokens: Ints, entries: Ints, opening: Bools) -> Ints:
        """Encode entries that replace tokens as numbers after those of the chunks."""
        # A number after those of the chunks encodes (entry, punctuation, capital).
        affix, affixes = self._affixes
        capital = opening & self._capital[tokens]
        return len(self.corpus.chunks) + (entries * len(affixes) + affix[tokens]) * 2 + capital

    @cached_property
    def _capital(self) -> Bools:
        return np.array([core[:1].isupper() for _, core, _ in self.corpus.cores], dtype=bool)

    def keys(self, tokens: Ints) -> Ints:
        """Return the number of the word in each token, a chunk or a replacement; 0 if it has none."""
        chunks = len(self.corpus.chunks)
        if not (tokens >= chunks).any():
            return self.corpus.keys[tokens]
        entry = np.maximum(tokens - chunks, 0) // (2 * len(self._affixes[1]))
        keys: Ints = np.where(tokens < chunks, self.corpus.keys[np.minimum(tokens, chunks - 1)], self.entry_key[entry])
        return keys

    def write_tokens(self, tokens: Ints) -> tuple[list[str], list[str], Ints]:
        """Return token texts, the words in them, and the tokens as indices into both lists."""
        chunks = len(self.corpus.chunks)
        replaced = np.flatnonzero(tokens >= chunks)
        codes, inverse = np.unique(tokens[replaced] - chunks, return_inverse=True)
        affixes = self._affixes[1]
        words, texts = [], []
        for code in codes.tolist():
            rest, capital = divmod(code, 2)
            entry, affix = divmod(rest, len(affixes))
            word = self.surface[entry]
            word = word[:1].upper() + word[1:] if capital else word
            words.append(word)
            texts.append(affixes[affix][0] + word + affixes[affix][1])
        numbers = tokens.copy()
        numbers[replaced] = chunks + inverse
        chunk_words = [core or before for before, core, _ in self.corpus.cores]
        return [*self.corpus.chunks, *texts], [*chunk_words, *words], numbers


def _tag_tokens(corpus: CaptionCorpus, tagger: Tagging) -> tuple[tuple[str, ...], npt.NDArray[np.int16]]:
    """Tag the word of each token; return the tag names and indices. Punctuation is passed to the tagger as separate
    tokens.
    """
    pieces = [[part for part in split if part] for split in corpus.cores]
    sizes = np.array([len(part) for part in pieces], dtype=np.int64)
    core = np.array([bool(split[0] and split[1]) for split in corpus.cores], dtype=np.int64)
    flat = list(chain.from_iterable(pieces))
    size = sizes[corpus.tokens]
    order = run_indices((np.cumsum(sizes) - sizes)[corpus.tokens], size)
    words = list(map(flat.__getitem__, order.tolist()))
    before = np.concatenate(([0], np.cumsum(size)))
    bounds = before[np.concatenate((corpus.starts, [len(corpus.tokens)]))].tolist()
    tagged = tagger([words[first:end] for first, end in pairwise(bounds)])
    numbers: dict[str, int] = {}
    tags = np.fromiter(
        (numbers.setdefault(name, len(numbers)) for name in chain.from_iterable(tagged)), np.int16, len(words)
    )
    # Names are sorted so that the indices do not depend on the order of captions.
    names = sorted(numbers)
    rank = np.zeros(max(len(names), 1), dtype=np.int16)
    rank[[numbers[name] for name in names]] = np.arange(len(names))
    tag = rank[tags[before[:-1] + core[corpus.tokens]]] if len(words) else np.zeros(0, dtype=np.int16)
    tag[corpus.keys[corpus.tokens] == 0] = -1
    return tuple(names), tag


def _find_surfaces(
    corpus: CaptionCorpus, tags: tuple[str, ...], tag: npt.NDArray[np.int16], where: Ints, entry: Ints, entries: int
) -> list[str]:
    """Find the most frequent spelling of each entry; a capital at the start of a caption counts only for names."""
    spellings: dict[str, int] = {}
    plain, low = [], []
    for _, word, _ in corpus.cores:
        ordinary = word[:1].isupper() and (len(word) == 1 or word[1:].islower())
        plain.append(spellings.setdefault(word, len(spellings)))
        low.append(spellings.setdefault(word.lower() if ordinary else word, len(spellings)))
    proper = np.array([name.startswith("NNP") for name in tags] + [False])[tag]
    opening = np.zeros(len(corpus.tokens), dtype=bool)
    opening[corpus.starts[corpus.lengths > 0]] = True
    chunk = corpus.tokens[where]
    spelling = np.where(opening[where] & ~proper, np.array(low, dtype=np.int64)[chunk], np.array(plain)[chunk])
    codes, count = np.unique(entry * (len(spellings) + 1) + spelling, return_counts=True)
    owner = codes // (len(spellings) + 1)
    order = np.lexsort((codes, -count, owner))
    first = order[np.searchsorted(owner[order], np.arange(entries))]
    names = list(spellings)
    return [names[code] for code in (codes[first] % (len(spellings) + 1)).tolist()]
