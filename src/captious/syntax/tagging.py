"""Part-of-speech taggers: the package's own, and those of spaCy and NLTK by name.

The package's own is a greedy averaged perceptron that processes many sentences in lock step. What a word adds to the
scores of the tags depends only on its form, for each of its five positions in the window, so these sums are computed
once for each form. All sentences of a batch advance from left to right together, so each position costs a few array
operations. Weights are small integers: the tags are the same on every machine.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious._core.files import Kind
from captious.errors import InputError, format_suggestion, require
from captious.syntax.parsing import DEFAULT, open_model
from captious.syntax.sentences import Sentence, split_sentences

KIND = Kind("captious-tagger", 1, "part-of-speech tagger", "python lab/benchmarks/train_tagger.py")
POSITIONS = ("own", "before", "after", "two-before", "two-after")
# Padding before the first and after the last word.
START, END = "\x02", "\x03"

_BATCH = 1 << 14
_MOST_FORMS = 1 << 17
Sentences = Sequence[Sequence[str]]
Small = npt.NDArray[np.int16]


def make_form(word: str, first: bool) -> str:
    """Return the form of a word that features are computed from: a capital means less at the start of a sentence."""
    return "\x01" + word if first and word[:1].isupper() else word


def list_features(form: str) -> dict[str, list[str]]:
    """List the names of the features of a form, for each position in the window.

    >>> list_features("riding")["before"]
    ['bw riding', 'bs ing']
    """
    if form in (START, END):
        return {name: [f"{name[0]}{name[-1] if '-' in name else ''}w {form}"] for name in POSITIONS}
    word = form.lstrip("\x01")
    low = word.lower()
    own = [f"ow {low}", *(f"os{size} {low[-size:]}" for size in (1, 2, 3, 4) if len(low) > size), f"op {low[:2]}", "o"]
    head, hyphen, tail = low.rpartition("-")
    if hyphen and head and tail:
        own += ["ohyphen", f"otail {tail}", f"ohead {head}", f"ots {tail[-2:]}"]
    if any(map(str.isdigit, word)):
        own.append("odigit")
    if word[:1].isupper():
        own.append("ofirst" if form is not word and form[0] == "\x01" else "ocapital")
        if len(word) > 1 and word.isupper():
            own.append("oupper")
    near = {name: [f"{name[0]}w {low}", f"{name[0]}s {low[-3:]}"] for name in ("before", "after")}
    return {"own": own, **near, "two-before": [f"tew {low}"], "two-after": [f"trw {low}"]}


def find_ambiguous(word: str, ambiguous: dict[str, int]) -> int:
    """Return the number of a lower-case word, or else of its last three letters, in ``ambiguous``; 0 if neither is in
    it.

    >>> find_ambiguous("tallest", {"left": 1, "-est": 2})
    2
    """
    return ambiguous.get(word) or ambiguous.get("-" + word[-3:], 0)


@dataclass
class Tagger:
    """The weights of a tagger, with the summed weights of the forms seen so far."""

    tags: tuple[str, ...]
    """The names of the tags; index ``len(tags)`` is the start of the sentence in the tables below."""
    only: dict[str, int]
    """Words that have one tag only, in lower case."""
    rows: dict[str, int]
    weights: npt.NDArray[np.int8]
    """Weights by feature (its row in ``rows``) and tag."""
    history: npt.NDArray[np.int16]
    """Weights by the tag two before, the tag before, and the tag."""
    after_tag: npt.NDArray[np.int8]
    """Weights by ambiguous word or ending (number 0: any other), the tag before, and the tag."""
    ambiguous: dict[str, int]
    facts: dict[str, Any] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict, repr=False)
    _sums: list[Small] = field(default_factory=list, repr=False)
    _forced: npt.NDArray[np.int16] = field(default_factory=lambda: np.empty(0, np.int16), repr=False)
    _word: npt.NDArray[np.int16] = field(default_factory=lambda: np.empty(0, np.int16), repr=False)

    def tag(self, sentences: Sentences) -> list[list[str]]:
        """Tag every sentence. Empty sentences are allowed."""
        result: list[list[str]] = []
        batch: list[Sequence[str]] = []
        size = 0
        for sentence in sentences:
            batch.append(sentence)
            size += len(sentence)
            if size >= _BATCH:
                result += self._tag_batch(batch)
                batch, size = [], 0
        return result + self._tag_batch(batch) if batch else result

    def _tag_batch(self, sentences: Sentences) -> list[list[str]]:
        forms: list[str] = []
        for sentence in sentences:
            forms += (START, START, *sentence, END, END)
            if sentence and sentence[0][:1].isupper():
                forms[-2 - len(sentence)] = "\x01" + sentence[0]
        if len(self._numbers) > _MOST_FORMS:
            self._numbers, self._sums = {}, []
        self._add_forms(dict.fromkeys(forms))
        numbers = np.fromiter(map(self._numbers.__getitem__, forms), np.int64, len(forms))
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        starts = np.cumsum(lengths + 4) - lengths - 2
        # The score of a token adds the sums of its own form and of the four neighboring forms.
        scores = self._sums[0][numbers]
        for sums, shift in zip(self._sums[1:], (-1, 1, -2, 2), strict=True):
            if shift < 0:
                scores[-shift:] += sums[numbers[:shift]]
            else:
                scores[:-shift] += sums[numbers[shift:]]
        chosen = self._forced[numbers]
        # Sentences are sorted by length, longest first, so that those with a token at position `step` are a prefix.
        order = np.argsort(-lengths, kind="stable")
        longest_first = starts[order]
        last = before = np.full(len(lengths), len(self.tags), np.int64)
        prefix_lengths = np.searchsorted(-lengths[order], -np.arange(1, lengths.max(initial=0) + 1), side="right")
        for step, number in enumerate(prefix_lengths.tolist()):
            at = longest_first[:number] + step
            last, before = last[:number], before[:number]
            totals = scores[at]
            totals += self.history[before, last]
            totals += self.after_tag[self._word[numbers[at]], last]
            forced = chosen[at]
            best = np.where(forced >= 0, forced, totals.argmax(1))
            chosen[at] = best
            before, last = last, best
        names = [self.tags[tag] for tag in chosen.tolist()]
        return [names[start : start + len(words)] for start, words in zip(starts.tolist(), sentences, strict=True)]

    def _add_forms(self, forms: Iterable[str]) -> None:
        """Sum the weights of forms that are new."""
        new = [form for form in forms if form not in self._numbers]
        if not new:
            return
        sums = np.zeros((len(POSITIONS), len(new), len(self.tags)), np.int16)
        forced = np.full(len(new), -1, np.int16)
        word = np.zeros(len(new), np.int16)
        for number, form in enumerate(new):
            low = form.lstrip("\x01").lower()
            forced[number] = 0 if form in (START, END) else self.only.get(low, -1)
            word[number] = find_ambiguous(low, self.ambiguous)
            for position, names in enumerate(list_features(form).values()):
                rows = [self.rows[name] for name in names if name in self.rows]
                if rows:
                    sums[position, number] = self.weights[rows].sum(0, dtype=np.int16)
        size = len(self._numbers)
        self._numbers.update((form, size + number) for number, form in enumerate(new))
        self._sums = [np.concatenate(pair) for pair in zip(self._sums, sums, strict=True)] if size else list(sums)
        self._forced = np.concatenate([self._forced[:size], forced])
        self._word = np.concatenate([self._word[:size], word])

    def save(self, path: str | Path) -> None:
        """Write the weights to a compressed file, atomically."""
        names = {"only": self.only, "rows": list(self.rows), "ambiguous": list(self.ambiguous)}
        encoded_names = json.dumps(names, ensure_ascii=False, separators=(",", ":")).encode()
        arrays: list[npt.NDArray[Any]] = [self.weights, self.history, self.after_tag]
        header = {"tags": self.tags, "facts": self.facts, "names": len(encoded_names)}
        KIND.write(
            path, header, zlib.compress(encoded_names + b"".join(array.astype("<i2").tobytes() for array in arrays), 9)
        )


def read_tagger(path: str | Path) -> Tagger:
    """Read a tagger from its file; raise InputError if it is damaged or of another format."""
    header, payload = KIND.read(path)
    content = zlib.decompress(payload)
    names = json.loads(content[: header["names"]])
    tags = tuple(header["tags"])
    size = len(tags)
    flat = np.frombuffer(content, "<i2", offset=header["names"])
    shapes = ((len(names["rows"]), size), (size + 1, size + 1, size), (len(names["ambiguous"]) + 1, size + 1, size))
    edges = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    weights, history, after = (
        flat[a:b].reshape(shape) for a, b, shape in zip(edges[:-1], edges[1:], shapes, strict=True)
    )
    return Tagger(
        tags=tags,
        only=names["only"],
        rows={name: row for row, name in enumerate(names["rows"])},
        weights=weights.astype(np.int8),
        history=history.astype(np.int16),
        after_tag=after.astype(np.int8),
        ambiguous={word: number for number, word in enumerate(names["ambiguous"], 1)},
        facts=header["facts"],
    )


SHIPPED = Path(__file__).parent / "data" / "tagger.captious"
# A function from tokenized sentences to the Penn tags of their words.
Tagging = Callable[[Sentences], list[list[str]]]


@lru_cache(maxsize=1)
def load_tagger() -> Tagger:
    """Return the package's own tagger, loaded once."""
    return read_tagger(SHIPPED)


def tag(sentences: Sentences) -> list[list[str]]:
    """Tag tokenized sentences with Penn tags, by the package's own tagger.

    >>> tag([["A", "dog", "runs", "."], []])
    [['DT', 'NN', 'VBZ', '.'], []]
    """
    return load_tagger().tag(sentences)


# Fixed tags of punctuation, whatever a model predicts.
MARKS = {
    **dict.fromkeys(["(", "[", "{", "<"], "("),
    **dict.fromkeys([")", "]", "}", ">"], ")"),
    **dict.fromkeys([".", "!", "?"], "."),
    **dict.fromkeys([":", ";", "...", "--", "–", "—", "-", "*", "/", "|"], ":"),
    **dict.fromkeys(["``", "“", "‘", "«"], "``"),
    **dict.fromkeys(["''", "”", "»"], "''"),
    ",": ",",
    "$": "$",
    "&": "CC",
    "%": "NN",
}

_OTHER_NAMES = {"-LRB-": "(", "-RRB-": ")", "HYPH": ":", "NFP": ":", "ADD": "NN", "AFX": "JJ", "XX": "FW", "_SP": ":"}


def convert_to_penn(words: Sequence[str], tags: Sequence[str]) -> list[str]:
    """Convert the tags of spaCy's English models to those of the original Penn Treebank.

    Every *to* is TO; a lower-case word is not a name; a hyphenated word before an adjective or noun is an adjective,
    because these models were trained on text in which hyphens are separate tokens.

    >>> convert_to_penn(["a", "close-up", "shot", "to", "show"], ["DT", "NNP", "NN", "IN", "VB"])
    ['DT', 'JJ', 'NN', 'TO', 'VB']
    """
    result = [MARKS.get(word) or _OTHER_NAMES.get(tag, tag) for word, tag in zip(words, tags, strict=True)]
    for number, word in enumerate(words):
        if word.lower() == "to":
            result[number] = "TO"
        elif word.islower() and result[number].startswith("NNP"):
            result[number] = "NN" + result[number][3:]
        if word.islower() and "-" in word[1:-1]:
            following = result[number + 1 : number + 2]
            if following and following[0][:2] in ("JJ", "NN") and result[number][:2] in ("NN", "CD", "VB"):
                result[number] = "JJ"
    return result


@lru_cache(maxsize=1)
def _load_spacy() -> Any:
    model = open_model(DEFAULT, ["parser", "ner", "lemmatizer", "attribute_ruler"], "spacy")
    if model is None:
        raise InputError(f"tagger 'spacy' needs its model {DEFAULT}: python -m spacy download {DEFAULT}")
    return model


def tag_by_spacy(sentences: Sentences) -> list[list[str]]:
    """Tag tokenized sentences by spaCy's ``en_core_web_sm``, which must be installed."""
    model = _load_spacy()
    document = require("spacy.tokens", "spacy").Doc
    full = [words for words in sentences if words]
    tagged = iter(model.pipe(document(model.vocab, words=list(words)) for words in full))
    return [convert_to_penn(words, [token.tag_ for token in next(tagged)]) if words else [] for words in sentences]


def tag_by_nltk(sentences: Sentences) -> list[list[str]]:
    """Tag tokenized sentences by NLTK's tagger, which SPECS's original uses; its data must be downloaded."""
    nltk = require("nltk", "nltk")
    try:
        return [[tag for _, tag in nltk.pos_tag(list(words))] for words in sentences]
    except LookupError:
        raise InputError(
            "tagger 'nltk' needs its data: python -m nltk.downloader averaged_perceptron_tagger_eng"
        ) from None


TAGGERS: dict[str, Tagging] = {"captious": tag, "spacy": tag_by_spacy, "nltk": tag_by_nltk}


def find_tagger(name: str | Tagging) -> Tagging:
    """Return the tagger of a name, or a function as it is; raise InputError with the known names if there is none."""
    if not isinstance(name, str):
        return name
    try:
        return TAGGERS[name]
    except KeyError:
        raise InputError(
            f"unknown tagger {name!r}, expected {' or '.join(TAGGERS)}{format_suggestion(name, TAGGERS)}"
        ) from None


def tag_texts(texts: Sequence[str], tagger: str | Tagging = "captious") -> list[list[tuple[Sentence, list[str]]]]:
    """Split texts into sentences and tag their words with Penn tags; all sentences are tagged at once.

    >>> [(sentence, tags)] = tag_texts(["A dog runs."])[0]
    >>> sentence.tokens, tags
    (('A', 'dog', 'runs', '.'), ['DT', 'NN', 'VBZ', '.'])
    """
    parsed = [split_sentences(text) for text in texts]
    tags = iter(find_tagger(tagger)([sentence.tokens for one in parsed for sentence in one]))
    return [[(sentence, next(tags)) for sentence in one] for one in parsed]
