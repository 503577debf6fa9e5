"""The words human captions may keep, so that people's richer vocabulary does not count as leakage."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from captious.bias.masking import Tokens
from captious.errors import InputError


def vocabulary(
    choice: str,
    name: str,
    model: Sequence[Tokens],
    human: Sequence[Tokens],
    raw: tuple[Sequence[str], Sequence[str]] | None = None,
) -> frozenset[str] | None:
    """The words that ``choice`` lets human captions keep; None for all.

    ``model``
        Words of the model's own captions of this run, the published method, mask words aside since they are hidden
        first. The originals reuse one gender-masked vocabulary per model for every attribute; name its file for that.
    ``human`` or ``human:N``
        The N most common words of the human captions, by default as many as the model's captions have (RELIC,
        appendix C). With ``raw`` captions they are counted between spaces, as RELIC did: "field." and "field" are two.
    a file, one word a line; ``{model}`` in its name stands for the captioner
        As given.
    ``none``
        Everything.

    >>> model, human = [("a", "dog")], [("a", "dog", "and", "a", "cat"), ("a", "cat", "sits")]
    >>> sorted(vocabulary("model", "m", model, human)), sorted(vocabulary("human", "m", model, human))
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
        return most_common(human, size)
    return read_vocabulary(choice.replace("{model}", name))


def most_common(captions: Sequence[Tokens], size: int) -> frozenset[str]:
    """The ``size`` most frequent words; of equally frequent ones, the first in the alphabet."""
    counts = Counter(word for caption in captions for word in caption)
    return frozenset(sorted(counts, key=lambda word: (-counts[word], word))[:size])


def read_vocabulary(path: str | Path) -> frozenset[str]:
    """Words of a file, one a line."""
    try:
        words = Path(path).read_text(encoding="utf-8").split()
    except FileNotFoundError:
        raise InputError(f"vocabulary {path}: no such file, expected model, human, human:N, none or a file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"vocabulary {path}: cannot be read as UTF-8 text ({error})") from None
    if not words:
        raise InputError(f"vocabulary {path}: is empty, expected one word a line")
    return frozenset(words)


def unknown_share(captions: Sequence[Tokens], known: Collection[str] | None, hidden: Collection[str]) -> float:
    """Which part of the words alignment hides.

    >>> unknown_share([("a", "man", "rides", "unicycles")], {"a", "rides"}, {"man"})
    0.25
    """
    words = [word for caption in captions for word in caption]
    if known is None or not words:
        return 0.0
    return sum(word not in known and word not in hidden for word in words) / len(words)
