"""A splitter of captions into sentences of word tokens, with case and offsets, by the Treebank conventions.

Tokens are those of NLTK's word tokenizer, which SPECS's pipeline uses: punctuation is separate, ``isn't`` is
``is n't``, double quotes become `` and ''. A period is a separate token only at the end of a sentence. Sentence ends
are found by our own rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple


class Sentence(NamedTuple):
    """The tokens of one sentence, with the start and stop of each in the caption."""

    tokens: tuple[str, ...]
    starts: tuple[int, ...]
    stops: tuple[int, ...]


_ABBREVIATED = """
mr mrs ms dr prof st mt ft jr sr gen col sgt capt lt rev hon no nos vol fig approx ca vs etc e.g i.e inc ltd co corp
dept ave blvd rd jan feb mar apr jun jul aug sep sept oct nov dec
"""
_STARTING = """
A An The There This That These Those It Its He She They We I You His Her Their Our My In On At To From Behind Above
Below Under Beside Next Near Another One Two Some Several Many Both Each All No And But
"""
# Words whose period does not end a sentence; that of *no*, *co*, *st* and *fig* does if a small letter follows.
ABBREVIATIONS = frozenset(_ABBREVIATED.split())
# Words that, after an initial or an abbreviation with inner periods, start a new sentence: *of the U.S. The flag*.
STARTERS = frozenset(_STARTING.split())

_CHUNK = re.compile(r"\S+")
_END = re.compile(r"""^(.*?)([.!?]+)[]"'”’)}»>]*$""", re.DOTALL)
# Words that are two tokens, with the length of the first.
_FUSED = {
    "cannot": 3,
    "gimme": 3,
    "gonna": 3,
    "gotta": 3,
    "lemme": 3,
    "wanna": 3,
    "d'ye": 2,
    "more'n": 4,
    "'tis": 2,
    "'twas": 2,
}

_PIECE = re.compile(
    r"""
    [«“‘„»”’–—] | `+ | '' | " | [;@\#$%&?!*()\[\]{}<>] | \.{2,} | --
    | [,:](?!\d)
    | (?: [^«“‘„»”’–—`"';@\#$%&?!*()\[\]{}<>.,:-] | [,:](?=\d) | \.(?!\.) | -(?!-) | '(?!'|$) )+
    | '
    """,
    re.VERBOSE,
)
_CLITIC = re.compile(r"^(.*[^'])('s|'m|'d|'ll|'re|'ve|n't)$", re.IGNORECASE | re.DOTALL)
_LONE_LETTER = re.compile(r"'(?!re|ve|ll|[mtsdn])(\w)\b", re.IGNORECASE)


def split_sentences(caption: str) -> list[Sentence]:
    """Split a caption into sentences. A blank line ends a sentence too, unless a small letter follows.

    >>> [" ".join(sentence.tokens) for sentence in split_sentences("Mr. Fox isn't here, is he? He's at 3.5 m.")]
    ["Mr. Fox is n't here , is he ?", "He 's at 3.5 m ."]
    """
    chunks = [(match.group(), match.start()) for match in _CHUNK.finditer(caption)]
    return [_build_sentence(part) for part in _split_at_ends(chunks, caption)]


def _split_at_ends(chunks: list[tuple[str, int]], caption: str) -> Iterator[list[tuple[str, int]]]:
    first = 0
    for number, (chunk, start) in enumerate(chunks):
        if number + 1 == len(chunks):
            break
        following, next_start = chunks[number + 1]
        stop = start + len(chunk)
        blank = caption.count("\n", stop, next_start) > 1 and not following[0].islower()
        if blank or (not chunk[-1].isalnum() and _is_sentence_end(chunk, following)):
            yield chunks[first : number + 1]
            first = number + 1
    if chunks:
        yield chunks[first:]


def _is_sentence_end(chunk: str, following: str) -> bool:
    """Return True if a sentence ends after a chunk that does not end in a letter or digit, given the next chunk."""
    match = _END.match(chunk)
    if not match:
        return False
    body, marks = match[1].lstrip("([{<\"'“‘«`"), match[2]
    capital = not following[0].islower()
    if not set("]\"'”’)}»>").isdisjoint(following) and not any(map(str.isalnum, following)):
        return False  # a detached closing quote or bracket still belongs to this sentence
    if not (capital or chunk.endswith(marks)):
        return False  # the quoted text ends, not the sentence: the word "RIOT!" is larger
    if marks != ".":
        return capital or "." not in marks
    if body.lower() in ABBREVIATIONS:
        return body.lower() in ("no", "co", "st", "fig") and not (capital or following[0].isdigit())
    if body.isdigit():
        return capital
    if (len(body) == 1 and body.isupper()) or "." in body.strip("."):
        return following in STARTERS
    return True


def _build_sentence(chunks: list[tuple[str, int]]) -> Sentence:
    tokens: list[str] = []
    starts: list[int] = []
    stops: list[int] = []
    last = len(chunks) - 1
    while last > 0 and not any(map(str.isalnum, chunks[last][0])) and "." not in chunks[last][0]:
        last -= 1
    for number, (chunk, at) in enumerate(chunks):
        if chunk.isalpha() and chunk.lower() not in _FUSED:
            tokens.append(chunk)
            starts.append(at)
            stops.append(at + len(chunk))
            continue
        for token, width in _split_chunk(chunk, number == last):
            tokens.append(token)
            starts.append(at)
            at += width
            stops.append(at)
    return Sentence(tuple(tokens), tuple(starts), tuple(stops))


@lru_cache(maxsize=1 << 16)
def _split_chunk(chunk: str, final: bool) -> tuple[tuple[str, int], ...]:
    """Split a whitespace-delimited chunk into tokens with their widths; ``final`` if it is the last of its sentence."""
    pieces: list[str] = []
    tail: list[str] = []
    body = chunk
    if final:
        stem = chunk.rstrip("])}>\"'»”’")
        if stem.endswith(".") and not stem.endswith("..") and len(stem) > 1:
            body, tail = stem[:-1], [".", *_PIECE.findall(chunk[len(stem) :])]
    for piece in [*_PIECE.findall(body), *tail]:
        pieces += _split_clitics(piece)
    written = []
    for number, piece in enumerate(pieces):
        opens = number == 0 or pieces[number - 1] in ("(", "[", "{", "<")
        written.append(("``" if opens else "''") if piece == '"' else piece)
    return tuple(zip(written, map(len, pieces), strict=True))


def _split_clitics(piece: str) -> list[str]:
    """Split a piece without surrounding punctuation at its clitics: ``dogs'``, ``isn't``, ``'n``."""
    if piece.isalpha() and piece.lower() not in _FUSED:
        return [piece]
    if (cut := _FUSED.get(piece.lower())) is not None:
        return [piece[:cut], piece[cut:]]
    if "'" not in piece or len(piece) == 1:
        return [piece]
    if clitic := _CLITIC.match(piece):
        return [*_split_clitics(clitic[1]), clitic[2]]
    if piece.endswith("'"):
        return [*_split_clitics(piece[:-1]), "'"]
    if (lone := _LONE_LETTER.search(piece)) and lone.start() == 0:
        return ["'", *_split_clitics(piece[1:])]
    return [piece]
