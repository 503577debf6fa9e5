"""The sample generator turned around: captions of its grammar are parsed, and what they say is drawn.

What a caption leaves open (places, colours, sizes, the setting) is chosen by seed and kind, not by text: as with the
same noise for two texts, equal seeds fill two captions alike, and different seeds fill one caption differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from captious.files import digest
from captious.imagine.arranging import arranged
from captious.imagine.painters import NOTHING, Painted, Wish
from captious.samples.drawing import draw
from captious.samples.facts import Fact
from captious.samples.kinds import KINDS, PERSON_WORDS, SETTINGS, SIZES
from captious.samples.parsing import facts_in
from captious.samples.scenes import Scene
from captious.samples.words import NUMBERS, VAGUE

SIZE, BATCH = 160, 64
_PLURAL = {many for kind in KINDS.values() for _, many in kind.words}
_NOUNS = {word for kind in KINDS.values() for pair in kind.words for word in pair}
_NOUNS |= {word for words in PERSON_WORDS.values() for word in words}
_COLOURS = {colour for kind in KINDS.values() for colour in kind.colours}
_SMALL_WORDS = {"in", "a", "on", "the", "at", "by", "under", "late", "inside", "sky", "ground", "day", "living"}
_SETTING_WORDS = {
    word: name
    for name, setting in SETTINGS.items()
    for phrase in setting.phrases
    for word in phrase.split()
    if word not in _SMALL_WORDS
}


def _any(words: set[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_COUNTS = {"a", "an", "the", *VAGUE, *(words for phrases in NUMBERS.values() for words in phrases)}
_COUNTED = re.compile(rf"\b({_any(_COUNTS)})$")
_THING = re.compile(
    rf"\b(?:(?:{_any({word for words in SIZES.values() for word in words})}) )?(?:(?:{_any(_COLOURS)}) )?"
    rf"({_any(_NOUNS)})\b"
)


@dataclass(frozen=True)
class Drawn:
    """Draws captions of the sample's grammar, ``size`` pixels square, offline.

    >>> painter = Drawn.of(32)
    >>> next(painter.paint([Wish("a red ball in the snow", 0), Wish("to be or not to be", 0)])).codes.tolist()
    [0, 3]
    """

    size: int
    fingerprint: str
    name: str = "drawn"
    kept: bool = False
    """A picture is drawn sooner than it is read from a disk."""

    @classmethod
    def of(cls, size: int | None = None) -> Drawn:
        """The painter of a size."""
        side = size or SIZE
        return cls(side, digest(_sources(), str(side).encode()))

    @property
    def settings(self) -> str:
        """Its size."""
        return f"size={self.size}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Square."""
        return (self.size, self.size, 3)

    def cut(self, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
        """None: a caption is read whole."""
        return np.zeros(len(texts), np.bool_)

    def paint(self, wishes: Sequence[Wish]) -> Iterator[Painted]:
        """Draw scenes; a text of which nothing is understood has none."""
        for start in range(0, len(wishes), BATCH):
            part = wishes[start : start + BATCH]
            pixels = np.zeros((len(part), *self.shape), np.uint8)
            codes = np.zeros(len(part), np.int32)
            for place, wish in enumerate(part):
                scene = scene_of(wish.text, wish.seed)
                if scene is None:
                    codes[place] = NOTHING
                else:
                    pixels[place] = np.asarray(draw(scene, self.size))
            yield Painted(list(range(start, start + len(part))), pixels, codes)


def scene_of(text: str, seed: int = 0) -> Scene | None:
    """A scene in which everything holds that a caption states; None where it states nothing.

    A caption of a setting alone is that setting without things. Where statements exclude each other, such as a kite
    above and below the same tree, most of them hold.

    >>> scene_of("two red balls to the left of a tree").things[0].count
    2
    >>> scene_of("to be or not to be") is None
    True
    """
    facts = stated(text)
    return arranged(facts, seed) if facts else None


@lru_cache(maxsize=4096)
def stated(text: str) -> frozenset[Fact]:
    """The facts of a caption, read more freely than the grammar: a noun needs no article, a setting may be one word.

    >>> sorted(fact.value for fact in stated("red ball left of dog, street") if fact.value)
    ['1', '1', 'left of', 'red', 'street']
    """
    facts = facts_in(_with_articles(" ".join(text.lower().split())))
    if not any(fact.aspect == "setting" for fact in facts):
        known = (_SETTING_WORDS.get(word) for word in re.findall(r"[a-z]+", text.lower()))
        facts |= {Fact("setting", "", name) for name in list(filter(None, known))[:1]}
    return facts


def _with_articles(text: str) -> str:
    """Every noun counted: "red ball" to "a red ball", "dogs" to "some dogs".

    >>> _with_articles("red ball near two dogs and birds")
    'a red ball near two dogs and some birds'
    """

    def counted(match: re.Match[str]) -> str:
        if _COUNTED.search(text[: match.start()].rstrip()):
            return match[0]
        return f"{'some' if match[1] in _PLURAL else 'a'} {match[0]}"

    return _THING.sub(counted, text)


@lru_cache(maxsize=1)
def _sources() -> bytes:
    """The code that draws: when it changes, pictures do."""
    import PIL

    from captious import samples

    folder = Path(samples.__file__).parent
    drawing = ("brush", "creatures", "drawing", "facts", "kinds", "layout", "objects", "parsing", "scenes", "words")
    paths = [*(folder / f"{name}.py" for name in drawing), Path(__file__), Path(__file__).with_name("arranging.py")]
    return PIL.__version__.encode() + b"".join(path.read_bytes() for path in paths)
