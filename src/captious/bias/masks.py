"""Masks: words that name an attribute and are hidden before leakage is measured, from three lists or a file."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from captious._core.files import read_regular
from captious.errors import InputError, format_suggestion
from captious.text.tokenizers import tokenize_plain

# Word lists of Hirota et al. (gender, race) and of RELIC, appendix B (age), one file each in the folder `words`.
LISTS = ("gender", "race", "age")

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Mask:
    """Words to hide and the token that replaces them, such as ``genderword``."""

    name: str
    words: frozenset[str] = frozenset()

    @property
    def token(self) -> str:
        """The token that the LSTM and the linear classifier see instead of a hidden word."""
        return f"{self.name}word"

    @classmethod
    def from_name(cls, text: str) -> Mask:
        """Return the mask of a word list, a file with one word per line, several of them joined by commas, or ``none``.

        >>> mask = Mask.from_name("race")
        >>> mask.token, len(mask.words), len(Mask.from_name("gender").words), len(Mask.from_name("age,race").words)
        ('raceword', 11, 50, 44)
        """
        parts = [part.strip() for part in text.split(",") if part.strip() and part.strip() != "none"]
        words = frozenset(word for part in parts for word in read_word_list(part))
        if not parts:
            return cls("none", words)
        is_one_list = len(parts) == 1 and parts[0] in LISTS
        return cls(parts[0] if is_one_list else "mask", words)


def read_word_list(name: str) -> list[str]:
    """Read the words of a list or of a file, one per line; lines that start with # are comments."""
    path = Path(__file__).with_name("words") / f"{name}.txt" if name in LISTS else Path(name)
    if not path.is_file():
        hint = format_suggestion(name, LISTS)
        raise InputError(f"mask {name!r}: no such list or file, expected {', '.join(LISTS)}, none or a file{hint}")
    words = []
    for number, line in enumerate(_read_lines(path, str(path)), 1):
        word = line.strip()
        if word and not word.startswith("#"):
            if not _WORD.fullmatch(word):
                raise InputError(
                    f"{path}: row {number}: {word!r} is not a word, expected letters and digits without spaces"
                )
            words.append(word.lower())
    if not words:
        raise InputError(f"{path}: contains no words, expected one word per line")
    return words


def _read_lines(path: Path, what: str) -> list[str]:
    try:
        return read_regular(path).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{what}: cannot be read as UTF-8 text ({error})") from None


# Places where NLTK's `word_tokenize` splits, in its Treebank style; `_INFIX` is where spaCy splits in addition.
_QUOTES = re.compile(r"([\"“”«»])")
_FINAL_STOP = re.compile(r"(?<!\.)(\.)(?=[\])}>\"' ]*(?:\s|$))")
_SINGLE = re.compile(r"(\.\.\.|--|[;@#$%&?!\[\](){}<>])")
_COMMA = re.compile(r"([:,])(?=\D|$)")
_CLITIC = re.compile(r"(?<=\w)(n't|'(?:s|m|d|ll|re|ve))(?=\W|$)")
_QUOTED = re.compile(r"(?<=\w)'(?=\s|$)")
_INFIX = re.compile(r"(?<=[^\W\d_])(-|/|~|–|—)(?=[^\W\d_])")


def tokenize_treebank(text: str) -> list[str]:
    """Split a text into the lower-cased tokens of NLTK's ``word_tokenize``; hyphens stay.

    >>> tokenize_treebank("A man's t-shirt, isn't it?  Yes.")
    ['a', 'man', "'s", 't-shirt', ',', 'is', "n't", 'it', '?', 'yes', '.']
    """
    text = _QUOTES.sub(r" \1 ", text.lower())
    for pattern in (_SINGLE, _COMMA, _FINAL_STOP, _CLITIC):
        text = pattern.sub(r" \1 ", text)
    return _QUOTED.sub(" ' ", text).split()


def split_like_spacy(tokens: list[str]) -> list[str]:
    """Split tokens as spaCy's English tokenizer does: at hyphens, slashes and angle brackets.

    >>> split_like_spacy(["a", "t-shirt", "<unk>"])
    ['a', 't', '-', 'shirt', '<', 'unk', '>']
    """
    return _INFIX.sub(r" \1 ", " ".join(tokens)).replace("<", " < ").replace(">", " > ").split()


Tokens = tuple[str, ...]
Style = Literal["plain", "treebank"]

# Symbols in masked captions; each classifier represents them in its own way.
MASKED, UNKNOWN = "<mask>", "<unk>"

STYLES: dict[str, Callable[[str], list[str]]] = {"plain": tokenize_plain, "treebank": tokenize_treebank}


def tokenize_captions(captions: Iterable[str], style: Style = "plain") -> list[Tokens]:
    """Split each caption into lower-cased words; masks and vocabularies are compared with these."""
    return [_tokenize(caption, style) for caption in captions]


@lru_cache(maxsize=1 << 16)  # several captioners are audited against the same human captions
def _tokenize(caption: str, style: Style) -> Tokens:
    return tuple(STYLES[style](caption))


def mask_captions(captions: Sequence[Tokens], mask: Mask, allowed: Collection[str] | None = None) -> list[Tokens]:
    """Replace the mask's words by ``<mask>`` and, if ``allowed`` is given, all words outside it by ``<unk>``.

    ``allowed`` is for human captions, which are aligned with a vocabulary (`choose_vocabulary`). A mask word becomes
    ``<mask>`` whether it is allowed or not.

    >>> mask_captions([("a", "woman", "rides", "a", "unicycle")], Mask.from_name("gender"), {"a", "rides"})
    [('a', '<mask>', 'rides', 'a', '<unk>')]
    """

    def hide(word: str) -> str:
        if word in mask.words:
            return MASKED
        return word if allowed is None or word in allowed else UNKNOWN

    return [tuple(map(hide, caption)) for caption in captions]


def as_words(caption: Tokens, token: str, style: Style = "plain") -> list[str]:
    """Convert a masked caption to the words that the LSTM and the linear classifier read.

    With ``treebank`` tokens are split again as by spaCy, like in the original code, where ``<unk>`` becomes three
    ordinary words. With ``plain`` it stays one.

    >>> as_words(("a", "<mask>", "<unk>"), "ageword"), as_words(("a", "<unk>"), "ageword", "treebank")
    (['a', 'ageword', '<unk>'], ['a', '<', 'unk', '>'])
    """
    words = [token if word == MASKED else word for word in caption]
    return split_like_spacy(words) if style == "treebank" else words


def as_text(caption: Tokens, mask: str = "[MASK]", unknown: str = "[UNK]") -> str:
    """Convert a masked caption to the text that a BERT reads.

    >>> as_text(("a", "<mask>", "rides", "a", "<unk>"))
    'a [MASK] rides a [UNK]'
    """
    return " ".join(mask if word == MASKED else unknown if word == UNKNOWN else word for word in caption)


def count_empty(captions: Iterable[Tokens]) -> int:
    """Count the captions without a word: masking and alignment replaced all words by ``<mask>`` or ``<unk>``.

    >>> count_empty([("<mask>",), ("a", "<mask>"), ()])
    2
    """
    return sum(all(word in (MASKED, UNKNOWN) for word in caption) for caption in captions)


def choose_vocabulary(
    choice: str,
    name: str,
    model: Sequence[Tokens],
    human: Sequence[Tokens],
    raw: tuple[Sequence[str], Sequence[str]] | None = None,
) -> frozenset[str] | None:
    """Return the words that stay in human captions when they are aligned with the model's; None if all stay.

    ``model``
        All words of the model's captions, as published. That mask words are among them does not matter, since they are
        hidden first. The original code uses the vocabulary of a model's gender-masked captions for every attribute; to
        reproduce this, pass a file.
    ``human`` or ``human:N``
        The N most common words of the human captions (RELIC, appendix C); without N, as many as the model uses. With
        the ``raw`` captions (of the model, of people), words are split at spaces, as RELIC did: "field." and "field"
        are two words.
    a file
        The words of the file, one per line; ``{model}`` in its path is replaced by ``name``, that of the captioner.
    ``none``
        All words.

    >>> model, human = [("a", "dog")], [("a", "dog", "and", "a", "cat"), ("a", "cat", "sits")]
    >>> sorted(choose_vocabulary("model", "m", model, human)), sorted(choose_vocabulary("human", "m", model, human))
    (['a', 'dog'], ['a', 'cat'])
    """
    if choice == "none":
        return None
    if choice == "model":
        return frozenset(word for caption in model for word in caption)
    if choice == "human" or re.fullmatch(r"human:\d+", choice):
        if raw is not None:
            model, human = ([tuple(text.lower().split()) for text in texts] for texts in raw)
        size = int(choice.partition(":")[2] or len({word for caption in model for word in caption}))
        counts = Counter(word for caption in human for word in caption)
        # Ties are broken alphabetically.
        return frozenset(sorted(counts, key=lambda word: (-counts[word], word))[:size])
    path = Path(choice.replace("{model}", name))
    if not path.is_file():
        raise InputError(f"vocabulary {path}: no such file, expected model, human, human:N, none or a file")
    lines = _read_lines(path, f"vocabulary {path}")
    words = frozenset(word for line in lines for word in line.split())
    if not words:
        raise InputError(f"vocabulary {path}: is empty, expected one word per line")
    if _is_json("\n".join(lines)):
        raise InputError(f"vocabulary {path}: is JSON, expected a text file with one word per line")
    if human and words.isdisjoint(word for caption in human for word in caption):
        raise InputError(
            f"vocabulary {path}: no human caption of {name} has one of its {len(words)} words, such as "
            f"{min(words)[:40]!r}; expected one word per line"
        )
    return words


def _is_json(text: str) -> bool:
    """Return True if a text is a JSON object, list or string; not for a number, which may be the only word of a list.

    >>> _is_json('["a", "dog"]'), _is_json('{"a": 1}'), _is_json("a dog")
    (True, True, False)
    """
    try:
        return isinstance(json.loads(text), (dict, list, str))
    except (ValueError, RecursionError):
        return False


def measure_unknown_share(captions: Sequence[Tokens]) -> float:
    """Return the share of words that alignment replaced by ``<unk>``.

    >>> measure_unknown_share([("a", "<mask>", "rides", "<unk>")])
    0.25
    """
    words = [word for caption in captions for word in caption]
    return words.count(UNKNOWN) / len(words) if words else 0.0
