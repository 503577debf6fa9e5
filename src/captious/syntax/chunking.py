"""Chunks of a tagged sentence by a staged grammar, as NLTK's ``RegexpParser`` finds them in one pass.

A tag is encoded as one letter, and a chunk as its own letter followed by ``_`` for each further token. So the stages
are regular-expression substitutions that keep the length: many sentences are processed as one string, a sentence a
line, and the start and end of each chunk can be read off the result.

====  ============  ====  =====================
``D`` DT            ``n`` NP
``J`` JJ            ``v`` VP
``j`` JJR, JJS      ``p`` PP
``N`` nouns         ``c`` CLAUSE
``V`` verbs         ``k`` CONJ
``I`` IN            ``o`` a token of another tag
``C`` CC
====  ============  ====  =====================

For example, *a dog runs on green grass .*::

    tags    DT  NN  VBZ  IN  JJ  NN  .        D N V I J N o
    NP      "D?J*N+"                          n _ V I n _ o
    VP      "V(?:[npc]_*)*"                   n _ v I n _ o
    PP      "In_*"                            n _ v p _ _ o
    CLAUSE  "n_*v_*"                          c _ _ p _ _ o
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from captious.errors import InputError, format_suggestion

LABELS = {"n": "NP", "v": "VP", "p": "PP", "c": "CLAUSE", "k": "CONJ"}


# The stages in order: the letter of the chunk that a stage makes, and the pattern that it replaces.
Stages = tuple[tuple[str, re.Pattern[str]], ...]


def _compile_grammar(noun: str, verb: str, joined: str) -> Stages:
    stages = (("n", noun), ("v", verb), ("p", "In_*"), ("c", "n_*v_*"), ("k", joined))
    return tuple((letter, re.compile(pattern, re.MULTILINE)) for letter, pattern in stages)


# The grammar of SPECS's repository, and that of the paper's Appendix A.
GRAMMARS = {
    # VP comes before PP and CLAUSE, so a verb can only take noun phrases; the pattern is that of the original anyway.
    "code": _compile_grammar("D?J*N+", "V(?:[npc]_*)*", "C(?:[nvpc]_*)+"),
    "paper": _compile_grammar("D?[Jj]*N+", "V(?:[npc]_*)+$", "C[nvpc]_*"),
}


class _Letters(dict[str, str]):
    def __missing__(self, tag: str) -> str:
        self[tag] = letter = "V" if tag.startswith("VB") else "o"
        return letter


_LETTERS = _Letters(
    {"DT": "D", "JJ": "J", "JJR": "j", "JJS": "j", "NN": "N", "NNS": "N", "NNP": "N", "NNPS": "N", "IN": "I", "CC": "C"}
)


def outline(tagged: Sequence[Sequence[str]], grammar: str = "code") -> list[str]:
    """Find the outermost chunks of every sentence: a string with a letter or ``_`` for each token.

    >>> outline([["DT", "NN", "VBZ", "IN", "DT", "JJ", "NN", "."]])
    ['c__p___o']
    """
    if not tagged:
        return []
    return _apply_stages(tagged, grammar)[-1].split("\n")


def _apply_stages(tagged: Sequence[Sequence[str]], grammar: str) -> list[str]:
    """Return all sentences as one text, before the first stage and after each."""
    if grammar not in GRAMMARS:
        names = " or ".join(GRAMMARS)
        raise InputError(f"unknown grammar {grammar!r}, expected {names}{format_suggestion(grammar, GRAMMARS)}")
    texts = ["\n".join("".join(map(_LETTERS.__getitem__, tags)) for tags in tagged)]
    for letter, pattern in GRAMMARS[grammar]:

        def chunk(match: re.Match[str], letter: str = letter) -> str:
            return letter + "_" * (match.end() - match.start() - 1)

        texts.append(pattern.sub(chunk, texts[-1]))
    return texts


# A chunk: its label, and the chunks and token indices in it.
Node = tuple[str, tuple["Node | int", ...]]


def build_tree(tags: Sequence[str], grammar: str = "code") -> tuple[Node | int, ...]:
    """Build the tree of chunks of one sentence.

    >>> build_tree(["DT", "NN", "VBZ", "."])
    (('CLAUSE', (('NP', (0, 1)), ('VP', (2,)))), 3)
    """
    nodes: list[Node | int] = list(range(len(tags)))
    starts = list(range(len(tags)))
    before, *after = _apply_stages([tags], grammar)
    for text in after:
        grouped: list[Node | int] = []
        first = [at for at, letter in enumerate(text) if letter != "_"]
        for start, stop in zip(first, [*first[1:], len(text)], strict=True):
            inside = [node for node, at in zip(nodes, starts, strict=True) if start <= at < stop]
            new = text[start] != before[start] and text[start] in LABELS
            grouped.append((LABELS[text[start]], tuple(inside)) if new else inside[0])
        nodes, starts, before = grouped, first, text
    return tuple(nodes)


def format_chunks(words: Sequence[str], tags: Sequence[str], grammar: str = "code") -> str:
    """Format a sentence with its chunks in brackets, for reading.

    >>> format_chunks(["A", "dog", "runs", "."], ["DT", "NN", "VBZ", "."])
    '[CLAUSE [NP A dog] [VP runs]] .'
    """

    def format_node(node: Node | int) -> str:
        if isinstance(node, int):
            return words[node]
        return f"[{node[0]} {' '.join(map(format_node, node[1]))}]"

    return " ".join(map(format_node, build_tree(tags, grammar)))
