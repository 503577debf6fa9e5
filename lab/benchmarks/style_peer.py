"""The paper's OnlyStyle and StyleCIDEr as one would first write them: dictionaries of n-grams, loops over captions.

The one shortcut is that of the spec: the mean cosine to all captions of a style is taken from their summed unit
vectors. Without it Table 1 compares 14,000 captions with 14,000 references each, which takes hours.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from math import sqrt

Gram = tuple[str, ...]
Vector = dict[Gram, float]


def words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def grams(text: str, n: int) -> set[Gram]:
    tokens = words(text)
    return {tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)}


class Peer:
    def __init__(self, captions: list[tuple[str, str]]) -> None:
        self.styles = sorted({style for style, _ in captions})
        self.df: list[dict[str, Counter[Gram]]] = [{style: Counter() for style in self.styles} for _ in range(4)]
        for style, text in captions:
            for n in range(4):
                self.df[n][style].update(grams(text, n + 1))
        self.lists = [{style: sorted(self.df[n][style].values()) for style in self.styles} for n in range(4)]
        self.known: dict[tuple[Gram, str], float] = {}

    def ecdf(self, gram: Gram, style: str) -> float:
        n = len(gram) - 1
        values = self.lists[n][style]
        return bisect_right(values, self.df[n][style][gram]) / len(values) if values else 0.0

    def cng(self, gram: Gram, style: str) -> float:
        if (gram, style) not in self.known:
            occur = sum(gram in self.df[len(gram) - 1][other] for other in self.styles)
            own = self.ecdf(gram, style)
            total = sum((own - self.ecdf(gram, q)) / occur for q in self.styles if q != style) if occur else 0.0
            self.known[gram, style] = total / len(self.styles)
        return self.known[gram, style]

    def onlystyle(self, text: str, style: str) -> float:
        total = 0.0
        for n in range(1, 5):
            if found := grams(text, n):
                total += sum(self.cng(gram, style) for gram in found) / len(found)
        return total / 4

    def unit(self, text: str, n: int, style: str) -> Vector:
        vector = {gram: self.cng(gram, style) for gram in grams(text, n)}
        length = sqrt(sum(weight**2 for weight in vector.values()))
        return {gram: weight / length for gram, weight in vector.items()} if length else {}

    def stylecider(self, text: str, reference: str, style: str) -> float:
        total = 0.0
        for n in range(1, 5):
            one, other = self.unit(text, n, style), self.unit(reference, n, style)
            total += sum(weight * other.get(gram, 0.0) for gram, weight in one.items())
        return total / 4


def table_one(peer: Peer, captions: list[tuple[str, str]]) -> tuple[float, float]:
    """The two columns of Table 1: equation 9, and equation 10 with the caption itself left out."""
    number = Counter(style for style, _ in captions)
    only = cider = 0.0
    for p in peer.styles:
        mine = [text for style, text in captions if style == p]
        others = [q for q in peer.styles if q != p]
        same, different = [0.0] * len(mine), {q: [0.0] * len(mine) for q in others}
        for n in range(1, 5):
            sums: dict[str, Vector] = {q: defaultdict(float) for q in peer.styles}
            for style, text in captions:
                for gram, weight in peer.unit(text, n, p).items():
                    sums[style][gram] += weight
            for i, text in enumerate(mine):
                vector = peer.unit(text, n, p)
                own = sum(weight * sums[p][gram] for gram, weight in vector.items()) - bool(vector)
                same[i] += own / max(number[p] - 1, 1)
                for q in others:
                    dot = sum(weight * sums[q].get(gram, 0.0) for gram, weight in vector.items())
                    different[q][i] += dot / number[q]
        for i, text in enumerate(mine):
            score = peer.onlystyle(text, p)
            only += sum(score > peer.onlystyle(text, q) + 1e-13 for q in others) / len(others)
            cider += sum(same[i] > different[q][i] + 4e-13 for q in others) / len(others)
    return only / len(captions), cider / len(captions)
