"""Base forms of words: the singular by spelling, and WordNet's lemma by part of speech.

`singularize` follows the rules of pattern.en (De Smedt and Daelemans, 2012), which CHAIR was published with. They look
at the ends of words, without a dictionary, so *bus* becomes *bu* and *glass* becomes *glas*; numbers in the literature
depend on that. `find_wordnet_lemma` reads a table of the forms that matter to known vocabularies, which
``lab/lemmas.py`` makes from WordNet 3.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

from captious.options import LemmaRule
from captious.syntax import parsing
from captious.syntax.tagging import Tagging, find_tagger

WORDNET_LEMMAS = Path(__file__).parent / "data" / "wordnet_lemmas.json"

_UNINFLECTED = """
bison bream breeches britches carp chassis christmas clippers cod contretemps corps debris diabetes djinn eland elk
flounder gallows georgia graffiti headquarters herpes high-jinks homework innings jackanapes mackerel measles mews mumps
news pincers pliers proceedings rabies salmon scissors series shears species swine swiss trout tuna whiting wildebeest
advice bread butter cheese electricity equipment fruit furniture garbage gravel happiness information ketchup knowledge
love luggage mathematics mayonnaise meat mustard progress research rice sand software understanding water
"""
_IE_NOUNS = """
alergie auntie beanie birdie bogie bombie collie cookie cutie doggie eyrie freebie goonie groupie hankie hippie hoagie
hottie indie junkie laddie laramie lingerie meanie newbie nightie oldie pixie quickie reverie rookie softie sortie
stoolie sweetie techie toughie valkyrie veggie weenie yuppie zombie
"""
_PREPOSITIONS = """
about above across after among around at athwart before behind below beneath beside besides between betwixt beyond but
by during except for from in into near of off on onto out over since till to under until unto upon with
"""
# Irregular plurals, also as endings: *firemen* becomes *fireman*.
IRREGULAR = {
    "atlantes": "atlas", "atlases": "atlas", "axes": "axe", "beeves": "beef", "brethren": "brother",
    "children": "child", "corpora": "corpus", "corpuses": "corpus", "ephemerides": "ephemeris", "feet": "foot",
    "ganglia": "ganglion", "geese": "goose", "genera": "genus", "genii": "genie", "graffiti": "graffito",
    "helves": "helve", "kine": "cow", "leaves": "leaf", "loaves": "loaf", "men": "man", "mongooses": "mongoose",
    "monies": "money", "moves": "move", "mythoi": "mythos", "numena": "numen", "occipita": "occiput",
    "octopodes": "octopus", "opera": "opus", "opuses": "opus", "our": "my", "oxen": "ox", "penes": "penis",
    "penises": "penis", "people": "person", "sexes": "sex", "soliloquies": "soliloquy", "teeth": "tooth",
    "testes": "testis", "trilbys": "trilby", "turves": "turf", "zoa": "zoon",
}  # fmt: skip
# Words after a hyphen that end the noun: *mothers-in-law*.
PREPOSITIONS = frozenset(_PREPOSITIONS.split())
# Words without a plural, and all their endings: *is*, *as* and *on* are unchanged because *debris* and *salmon* are.
# That endings count is an error of the original, on which published numbers depend.
UNCHANGED = frozenset(word[at:] for word in _UNINFLECTED.split() for at in range(len(word)))
_IE_PLURALS = tuple(f"{word}s" for word in _IE_NOUNS.split())
_IRREGULAR = re.compile(f"({'|'.join(IRREGULAR)})$")
# Endings with their singular; the first that matches is used.
_RULES = tuple(
    (re.compile(pattern), singular)
    for pattern, singular in (
        (r"(.)ae$", r"\1a"),
        (r"(.)itis$", r"\1itis"),
        (r"(.)eaux$", r"\1eau"),
        (r"quizzes$", "quiz"),
        (r"matrices$", "matrix"),
        (r"(ap|vert|ind)ices$", r"\1ex"),
        (r"^oxen", "ox"),
        (r"(alias|status)es$", r"\1"),
        (r"([cioprtv|])i$", r"\1us"),
        (r"(cris|ax|test)es$", r"\1is"),
        (r"shoes$", "shoe"),
        (r"oes$", "o"),
        (r"buses$", "bus"),
        (r"([lm|])ice$", r"\1ouse"),
        (r"(x|ch|ss|sh)es$", r"\1"),
        (r"movies$", "movie"),
        (r"(.)ombies$", r"\1ombie"),
        (r"series$", "series"),
        (r"([^aeiouy]|qu)ies$", r"\1y"),
        (r"([aeo]l)ves$", r"\1f"),
        (r"([^d]ea)ves$", r"\1f"),
        (r"arves$", "arf"),
        (r"erves$", "erve"),
        (r"([lnw]i)ves$", r"\1fe"),
        (r"([lr])ves$", r"\1f"),
        (r"([aeo])ves$", r"\1ve"),
        (r"(si|ti|hi)ves$", r"\1ve"),
        (r"([^f])ves$", r"\1fe"),
        (r"^analyses$", "analysis"),
        (r"analyses$", "analyasis"),
        (r"(ba|diagno|parenthe|progno|synop|the)ses$", r"\1sis"),
        (r"(.)opses$", r"\1opsis"),
        (r"(.)yses$", r"\1ysis"),
        (r"(h|d|r|o|n|b|cl|p)oses$", r"\1ose"),
        (r"(fruct|gluc|galact|lact|ket|malt|rib|sacchar|cellul)ose$", r"\1ose"),
        (r"(.)oses$", r"\1osis"),
        (r"([it])a$", r"\1um"),
        (r"news$", "news"),
        (r"s$", ""),
    )
)

# WordNet's rules by part of speech: the ending of a form, and that of its base.
DETACHMENTS = {
    "n": (
        *(("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z")),
        *(("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y")),
    ),
    "v": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
}
# WordNet's part of speech by the first letter of a Penn tag; every other tag is looked up as a noun.
PARTS = {"J": "a", "V": "v", "N": "n", "R": "r"}


@lru_cache(maxsize=1 << 17)
def singularize(word: str) -> str:
    """Return the singular of a lower-case word, by its spelling.

    >>> [singularize(word) for word in ("dogs", "people", "knives", "bus", "cookies", "mothers-in-law", "is")]
    ['dog', 'person', 'knife', 'bu', 'cookies', 'mother-in-law', 'is']
    """
    head, hyphen, tail = word.partition("-")
    if hyphen and tail.partition("-")[0] in PREPOSITIONS:
        return f"{singularize(head)}-{tail}"
    if word.endswith("'"):
        return f"{singularize(word[:-1])}'s"
    if word in UNCHANGED or word.endswith(_IE_PLURALS):
        return word
    if irregular := _IRREGULAR.search(word):
        return word[: irregular.start()] + IRREGULAR[irregular[1]]
    for pattern, singular in _RULES:
        if pattern.search(word):
            return pattern.sub(singular, word)
    return word


@cache
def _read_wordnet_lemmas() -> Mapping[str, Mapping[str, str]]:
    lemmas: dict[str, dict[str, str]] = json.loads(WORDNET_LEMMAS.read_text(encoding="utf-8"))["lemmas"]
    return lemmas


def find_wordnet_lemma(word: str, part: str = "n", known: Collection[str] = ()) -> str:
    """Return WordNet's shortest lemma of a word as a noun (n), verb (v), adjective (a) or adverb (r).

    The table has every form that matters to the vocabularies of CHAIR and AMBER. For another vocabulary pass its words
    as ``known``: a form that is not in the table is then reduced to the shortest of them that WordNet's rules derive.

    >>> find_wordnet_lemma("seated", "v"), find_wordnet_lemma("men"), find_wordnet_lemma("yurts", known=["yurt"])
    ('seat', 'men', 'yurt')
    """
    lemma = _read_wordnet_lemmas().get(part, {}).get(word)
    if lemma is not None or not known or word in known:
        return lemma or word
    bases = [word[: len(word) - len(end)] + base for end, base in DETACHMENTS.get(part, ()) if word.endswith(end)]
    return min((base for base in bases if base in known), key=len, default=word)


def lemmatize(
    tokens: Sequence[Sequence[str]],
    texts: Sequence[str],
    rule: LemmaRule,
    tagger: str | Tagging = "captious",
    parser: str = parsing.DEFAULT,
    known: Collection[str] = (),
) -> list[list[str]]:
    """Lemmatize the lower-case tokens of texts.

    ``wordnet`` tags the tokens of a text as one sequence, as OPERA's code does. ``spacy`` reads the texts themselves,
    which must be tokenized by `captious.syntax.sentences`. ``known`` is as in `find_wordnet_lemma`.
    """
    if rule == "singularize":
        return [list(map(singularize, one)) for one in tokens]
    if rule == "spacy":
        parses = parsing.parse(texts, parser)
        return [[word.lemma.lower() for sentence in one for word in sentence] for one in parses]
    tagged = find_tagger(tagger)(tokens)
    return [
        [find_wordnet_lemma(word, PARTS.get(tag[:1], "n"), known) for word, tag in zip(words, tags, strict=True)]
        for words, tags in zip(tokens, tagged, strict=True)
    ]
