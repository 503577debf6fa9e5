"""The profile of captions on which evidence about metrics depends: length, language, references, images."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from captious._core.languages import LANGUAGES, MANY, UNSPACED, Scripts
from captious.captions import CaptionSet

# Words of short, middle and long captions. 20 words are a COCO caption twice over; SPECS calls 60 and more long.
BANDS = ((1, 20), (21, 60), (61, 10**9))
# Default subject of captions: almost all evidence is on photographs.
DOMAIN = "photographs"
# Languages that are known by their script.
WRITTEN = {
    "kana": "Japanese",
    "Hangul": "Korean",
    "Han": "Chinese",
    "Thai": "Thai",
    "Greek": "Greek",
    "Hebrew": "Hebrew",
}
ENGLISH = frozenset(["the", "of", "and", "with", "is", "are", "on", "at", "to"])
# The share of these words from which on a text in Latin script is taken for English; French captions have none.
ENGLISH_SHARE = 0.06


@dataclass(frozen=True)
class CaptionProfile:
    """The captions for which advice is requested."""

    systems: tuple[str, ...]
    items: int
    """Items that all systems have captioned."""
    words: float | None
    """The median number of words of a caption; None in a language without spaces between words."""
    characters: float
    references: float
    """The median number of references."""
    images: bool
    language: str
    domain: str
    """The subject of the captions, for the search for evidence."""
    assumed: bool = False
    """Whether nobody said what is described, so that evidence on photographs is taken."""

    @property
    def band(self) -> tuple[int, int] | None:
        """The lengths that evidence for these captions may have."""
        return None if self.words is None else get_band(self.words)

    @property
    def sentence(self) -> str:
        """The captions in a line."""
        systems = f"{len(self.systems)} systems, " if len(self.systems) > 1 else ""
        length = f"{self.characters:.0f} characters" if self.words is None else f"{self.words:.0f} words"
        number = f"{self.references:.0f}" if self.references else "no"
        references = f"{number} reference{'s' * (self.references != 1)}"
        images = "with images" if self.images else "without images"
        about = "" if self.assumed else f", about {self.domain}"
        return f"{systems}{self.items:,} items; captions of {length} in {self.language}{about}; {references}, {images}"

    @property
    def situation(self) -> str:
        """The sort of captions, as a table of situations names it: length, domain, language, references, images."""
        about = "" if self.assumed or self.domain == DOMAIN else f" of {self.domain}"
        captions = f"captions{about}{'' if self.language == LANGUAGES['en'].name else f' in {self.language}'}"
        if self.words is None:
            length = captions.capitalize()
        elif self.words <= BANDS[0][1]:
            length = f"Short {captions} (up to {BANDS[0][1]} words)"
        elif self.words >= BANDS[-1][0]:
            length = f"Long {captions} (more than {BANDS[1][1]} words)"
        else:
            length = f"C{captions[1:]} of {BANDS[1][0]} to {BANDS[1][1]} words"
        if self.references:
            return f"{length} with references"
        return (
            f"{length} without references, with images"
            if self.images
            else f"{length} with neither references nor images"
        )


def get_band(words: float) -> tuple[int, int]:
    """Return the band of a length.

    >>> get_band(11), get_band(180)
    ((1, 20), (61, 1000000000))
    """
    return next((low, high) for low, high in BANDS if words <= high)


def describe_captions(sets: Mapping[str, CaptionSet], domain: str | None) -> CaptionProfile:
    """Describe the captions of one or several systems; their language is guessed if none was named."""
    common = set.intersection(*({*captions.ids} for captions in sets.values()))
    items = [item for captions in sets.values() for item in captions if item.id in common]
    texts = [text for item in items for text in item.candidates]
    code = next(iter(sets.values())).language
    spoken = LANGUAGES[code].name if code else guess_language(texts)
    spaced = Scripts.of(texts).share(UNSPACED) <= MANY
    return CaptionProfile(
        systems=tuple(sets),
        items=len(common),
        words=float(statistics.median(len(text.split()) for text in texts)) if spaced else None,
        characters=float(statistics.median(map(len, texts))),
        references=float(statistics.median(len(item.references) for item in items)),
        images=all(image is not None for captions in sets.values() for image in captions.images),
        language=spoken,
        domain=domain or DOMAIN,
        assumed=domain is None,
    )


def guess_language(texts: Sequence[str]) -> str:
    """Guess the language of captions by their script; in Latin script only English is recognized, by its function
    words.

    >>> guess_language(["A dog runs on the grass.", "Two men sit at a table."])
    'English'
    >>> guess_language(["犬が草の上を走っている。"]), guess_language(["Ein Hund rennt über die Wiese."])
    ('Japanese', 'a language in Latin script')
    """
    scripts = Scripts.of(texts)
    if not scripts.letters:
        return "an unknown language"
    main = "kana" if scripts.main == "Han" and scripts.letters.get("kana") else scripts.main
    if main == "Latin":
        words = [word for text in texts for word in re.findall(r"[^\W\d_]+", text.lower())]
        if sum(word in ENGLISH for word in words) >= ENGLISH_SHARE * len(words):
            return LANGUAGES["en"].name
    return WRITTEN.get(main, f"a language in {main} script")
