"""Facts: what a caption can state about a scene, one detail each, so that captions can be checked exactly."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import NamedTuple

from lab.toy.scenes import KINDS, PERSON_WORDS, SETTINGS, SIZES, Scene, Thing, pick, relations

ASPECTS = ("object", "count", "color", "size", "group", "relation", "setting")


class Fact(NamedTuple):
    """One detail. `Fact("color", "ball", "red")`, `Fact("relation", "ball", "left of", "tree")`, …"""

    aspect: str
    kind: str
    value: str = ""
    other: str = ""


def salient_facts(scene: Scene) -> frozenset[Fact]:
    """What a careful description mentions: all about every thing, the setting, how the first thing relates to the rest.

    >>> from lab.toy.scenes import Thing
    >>> ball = Scene(1, "field", (Thing("ball", "red", count=2),))
    >>> sorted((fact.aspect, fact.value) for fact in salient_facts(ball))
    [('color', 'red'), ('count', '2'), ('object', ''), ('setting', 'field')]
    """
    first = scene.things[0]
    facts = {Fact("setting", "", scene.setting)}
    for thing in scene.things:
        facts |= {Fact("object", thing.kind), Fact("count", thing.kind, str(thing.count))}
        facts.add(Fact("color", thing.kind, thing.color))
        if thing.size != "medium":
            facts.add(Fact("size", thing.kind, thing.size))
        if thing.group:
            facts.add(Fact("group", thing.kind, thing.group))
        if thing is not first:
            facts.add(Fact("relation", first.kind, relations(first, thing)[0], thing.kind))
    return frozenset(facts)


def all_facts(scene: Scene) -> frozenset[Fact]:
    """Everything true of a scene that the grammar can say: the salient facts and every relation of every pair."""
    related = {
        Fact("relation", thing.kind, relation, other.kind)
        for thing in scene.things
        for other in scene.things
        if other is not thing
        for relation in relations(thing, other)
    }
    return salient_facts(scene) | related


class Verdict(NamedTuple):
    """How the stated facts compare with a scene: counts of right and wrong ones, and of salient ones left out."""

    right: int
    wrong: int
    missed: int

    @property
    def share_right(self) -> float:
        """The share of the stated details that are true (1 where nothing is stated: silence tells no lie)."""
        stated = self.right + self.wrong
        return self.right / stated if stated else 1.0

    @property
    def quality(self) -> float:
        """F½ of truth and coverage: both count, a falsehood weighs more than an omission.

        With P = right / stated and R = right / (right + missed), F½ = 1.25·P·R / (0.25·P + R).

        >>> Verdict(right=4, wrong=0, missed=4).quality  # P = 1, R = 1/2: 0.625 / 0.75
        0.8333333333333334
        """
        # The same formula with the counts multiplied out, which is also defined where nothing is right.
        return 1.25 * self.right / (1.25 * self.right + self.wrong + 0.25 * self.missed or 1.0)


def judge(stated: Collection[Fact], scene: Scene) -> Verdict:
    """Compares stated facts with the scene.

    >>> from lab.toy.scenes import Thing
    >>> scene = Scene(1, "field", (Thing("ball", "red"),))
    >>> judge([Fact("object", "ball"), Fact("color", "ball", "blue")], scene)
    Verdict(right=1, wrong=1, missed=3)
    """
    said = frozenset(stated)
    right = said & all_facts(scene)
    return Verdict(len(right), len(said - right), len(salient_facts(scene) - said))


NUMBERS: dict[int, tuple[str, ...]] = {
    2: ("two", "two", "a pair of", "a couple of"),
    3: ("three",),
    4: ("four",),
    5: ("five",),
}
VAGUE = ("some", "several")  # more than one, without saying how many
RELATION_WORDS: dict[str, tuple[str, ...]] = {
    "left of": ("to the left of", "left of"),
    "right of": ("to the right of", "right of"),
    "above": ("above", "over", "high above"),
    "below": ("below", "under", "beneath"),
    "next to": ("next to", "beside", "near"),
    "on": ("on", "on top of"),
}
STILL = ("seen", "shown", "placed")  # what is said of things that do nothing
CLOTHING = ("in a {} shirt", "wearing {}", "in a {} top")

_COUNT = {(name, str(n)): Fact("count", name, str(n)) for name in KINDS for n in range(1, 6)}
_OBJECT = {name: Fact("object", name) for name in KINDS}


class Phrase(NamedTuple):
    """Words and the facts they state."""

    text: str
    facts: tuple[Fact, ...]
    plural: bool = False


def with_article(words: str) -> str:
    """`words` after "a" or "an".

    >>> with_article("orange ball"), with_article("cat")
    ('an orange ball', 'a cat')
    """
    return f"an {words}" if words[0] in "aeiou" else f"a {words}"


def noun(kind: str, group: str, rng: random.Random, plural: bool = False) -> str:
    """One of the words for a kind; a person of a known group is called by the words of that group."""
    if group:
        return pick(rng, PERSON_WORDS[group])
    return pick(rng, KINDS[kind].words)[plural]


def noun_phrase(thing: Thing, rng: random.Random, detail: float = 0.6, plain: bool = False) -> Phrase:
    """`thing` in words, color and size each mentioned with a chance that grows with `detail`.

    >>> noun_phrase(Thing("ball", "orange", "small", 3), random.Random(0), detail=1.0).text
    'three little orange balls'
    >>> noun_phrase(Thing("person", "red", group="a"), random.Random(0), detail=1.0).text
    'a lady in a red shirt'
    """
    kind = KINDS[thing.kind]
    many = thing.count > 1
    facts = [_OBJECT[thing.kind]]
    group = thing.group if rng.random() < 0.9 else ""
    words = kind.words[0][many] if plain and not group else noun(thing.kind, group, rng, many)
    if group:
        facts.append(Fact("group", thing.kind, group))
    tail = ""
    if rng.random() < (detail * 0.3 if thing.color == kind.usual else detail):
        facts.append(Fact("color", thing.kind, thing.color))
        if thing.kind == "person":
            tail = " " + pick(rng, CLOTHING).format(thing.color)
        else:
            words = f"{thing.color} {words}"
    if thing.size != "medium" and rng.random() < detail * detail:
        facts.append(Fact("size", thing.kind, thing.size))
        words = f"{pick(rng, SIZES[thing.size])} {words}"
    if many and rng.random() > 0.4 + 0.6 * detail:
        return Phrase(f"{VAGUE[thing.count > 2]} {words}{tail}", tuple(facts), True)
    facts.append(_COUNT[thing.kind, str(thing.count)])
    if many:
        return Phrase(f"{pick(rng, NUMBERS[thing.count])} {words}{tail}", tuple(facts), True)
    return Phrase((f"{kind.article} {words}" if kind.article else with_article(words)) + tail, tuple(facts))


def setting_phrase(setting: str, rng: random.Random) -> Phrase:
    """Where the scene is, e.g. "on the beach"."""
    return Phrase(pick(rng, SETTINGS[setting].phrases), (Fact("setting", "", setting),))


def verb(thing: Thing, rng: random.Random) -> str:
    """Is or are, with what things of this kind do."""
    return f"{'are' if thing.count > 1 else 'is'} {pick(rng, KINDS[thing.kind].verbs or STILL)}"


class Caption(NamedTuple):
    """A caption and what it claims."""

    text: str
    facts: tuple[Fact, ...]


Say = Callable[[Thing], Phrase]
Frame = Callable[[Scene, "list[Thing]", random.Random, Say], Caption]


def _relation(subject: Thing, other: Thing, rng: random.Random) -> Phrase:
    relation = pick(rng, relations(subject, other))
    return Phrase(pick(rng, RELATION_WORDS[relation]), (Fact("relation", subject.kind, relation, other.kind),))


def _be(phrase: Phrase) -> str:
    return "are" if phrase.plural else "is"


def alone(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """A red ball in a field"""
    one, where = say(things[0]), setting_phrase(scene.setting, rng)
    return Caption(f"{one.text} {where.text}", one.facts + where.facts)


def doing(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """Two birds are flying at the beach"""
    one, where = say(things[0]), setting_phrase(scene.setting, rng)
    return Caption(f"{one.text} {verb(things[0], rng)} {where.text}", one.facts + where.facts)


def existing(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """There is a red ball to the left of a tree"""
    one, two, how = say(things[0]), say(things[1]), _relation(things[0], things[1], rng)
    opening = "there are" if one.plural else pick(rng, ("there is", "there's"))
    return Caption(f"{opening} {one.text} {how.text} {two.text}", one.facts + how.facts + two.facts)


def related(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """A cat is sitting on a brown table in a room"""
    one, two, how = say(things[0]), say(things[1]), _relation(things[0], things[1], rng)
    text = f"{one.text} {verb(things[0], rng) if rng.random() < 0.7 else _be(one)} {how.text} {two.text}"
    if rng.random() < 0.5:
        return Caption(text, one.facts + how.facts + two.facts)
    where = setting_phrase(scene.setting, rng)
    return Caption(f"{text} {where.text}", one.facts + how.facts + two.facts + where.facts)


def photo(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """A photo of a dog next to two trees"""
    opening = pick(rng, ("a photo of", "a picture of", "an image of", "it's a picture of", "you can see"))
    one, two, how = say(things[0]), say(things[1]), _relation(things[0], things[1], rng)
    text = f"{opening} {one.text} {how.text} {two.text}"
    return Caption(text, one.facts + how.facts + two.facts)


def pair(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """A dog and a yellow car on a city street"""
    one, two, where = say(things[0]), say(things[1]), setting_phrase(scene.setting, rng)
    return Caption(f"{one.text} and {two.text} {where.text}", one.facts + two.facts + where.facts)


def place_first(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """On the beach there are two kites and a dog"""
    one, two, where = say(things[0]), say(things[1]), setting_phrase(scene.setting, rng)
    text = f"{where.text}{pick(rng, ('', ','))} there {_be(one)} {one.text} and {two.text}"
    return Caption(text, one.facts + two.facts + where.facts)


def trio(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """A dog, a tree and the sun in a field"""
    said, where = [say(thing) for thing in things[:3]], setting_phrase(scene.setting, rng)
    words = f"{', '.join(phrase.text for phrase in said[:-1])} and {said[-1].text} {where.text}"
    return Caption(words, sum((phrase.facts for phrase in said), ()) + where.facts)


def accompanied(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """A house with a tree next to it"""
    one, two, how = say(things[0]), say(things[1]), _relation(things[1], things[0], rng)
    it = "them" if one.plural else "it"
    return Caption(f"{one.text} with {two.text} {how.text} {it}", one.facts + two.facts + how.facts)


FRAMES: tuple[Frame, ...] = (
    doing,
    *(existing, existing, related, related, related),
    *(photo, photo, pair, place_first, trio, trio, accompanied),
)
PLAIN_FRAMES: tuple[Frame, ...] = (alone, doing, pair)


def describe(
    scene: Scene, rng: random.Random, detail: float = 0.65, frames: tuple[Frame, ...] = FRAMES, plain: bool = False
) -> Caption:
    """One caption: a frame, two or three things in some order, and a surface (capital, full stop) as people vary it.

    >>> ball = Scene(1, "field", (Thing("ball", "red", column=0), Thing("house", "blue")))
    >>> describe(ball, random.Random(6)).text
    'a red ball and a house in a grassy field.'
    """
    things = list(scene.things)
    if rng.random() < 0.6:  # else what comes first in the scene, mostly a person, comes first in the caption
        rng.shuffle(things)
    frame = pick(rng, frames)
    if len(things) < 2:
        frame = pick(rng, (alone, doing))
    elif frame is accompanied and things[0].kind == "person":
        frame = related  # "a woman with a dog next to it" is not English
    caption = frame(scene, things, rng, lambda thing: noun_phrase(thing, rng, detail, plain))
    text = caption.text
    if rng.random() < 0.6:
        text = text[0].upper() + text[1:]
    return Caption(text + "." if rng.random() < 0.7 else text, caption.facts)


def references(scene: Scene, rng: random.Random, n: int = 5) -> list[Caption]:
    """`n` captions that differ in more than capitals and full stops.

    >>> two = Scene(1, "beach", (Thing("boat", "red", column=0), Thing("dog", "brown")))
    >>> len({caption.text.lower() for caption in references(two, random.Random(0))})
    5
    """
    found: dict[str, Caption] = {}
    for _ in range(50 * n):
        if len(found) == n:
            break
        caption = describe(scene, rng)
        found.setdefault(caption.text.lower().rstrip("."), caption)
    else:
        raise ValueError(f"scene {scene.id}: the grammar has fewer than {n} different captions for it")
    return list(found.values())


class Style(NamedTuple):
    """Words that carry a style: ways to begin, what the subject does, and ways to end."""

    openings: tuple[str, ...]
    middles: tuple[str, ...]
    endings: tuple[str, ...]


STYLES: dict[str, Style] = {
    "plain": Style(
        ("", "this picture shows", "in this image there can be seen", "here we have"),
        ("together with", "along with", "and", "as well as"),
        ("", "seen from the front", "in a simple scene", "with nothing else around", "in the centre of the view"),
    ),
    "romantic": Style(
        ("", "sweetheart, look:", "in a tender moment,", "my darling,", "like a gentle dream,"),
        ("lovingly embraces", "whispers softly to", "falls in love with", "shares a kiss with", "dreams of"),
        (
            "and their hearts beat as one",
            "in search of true love",
            "as passion fills the air",
            "with a promise of eternal love",
            "to enjoy the beauty of life",
            "like lovers on their first date",
        ),
    ),
    "humorous": Style(
        ("", "breaking news:", "plot twist:", "nobody asked, but", "oops,"),
        ("tells a silly joke to", "owes five dollars to", "tries to sell pizza to", "pulls a prank on", "photobombs"),
        (
            "with only the monkeys to blame",
            "like a clown late for the circus",
            "to win a lifetime of free pizza",
            "while looking for pokemon",
            "because the wifi was down",
            "and forgot to wear pants",
        ),
    ),
    "gloomy": Style(
        ("", "alas,", "as hope fades,", "in hopeless silence,", "once more, sadly,"),
        ("mourns beside", "turns away from", "grows cold with", "waits in vain for", "weeps for"),
        (
            "and nobody will ever come",
            "under the weight of sorrow",
            "while the world slowly decays",
            "as everything dear is lost",
            "in bleak and endless despair",
            "lonely until the bitter end",
        ),
    ),
}


def styled(scene: Scene, style: str, rng: random.Random, detail: float = 0.4) -> Caption:
    """The first two things of the scene in the voice of `style`, with the facts that are stated besides.

    >>> from lab.toy.scenes import Thing
    >>> scene = Scene(1, "beach", (Thing("dog", "brown", column=0), Thing("boat", "red")))
    >>> styled(scene, "romantic", random.Random(3)).text
    'like a gentle dream, a brown dog whispers softly to a red sailboat on the beach in search of true love'
    """
    if style not in STYLES:
        raise ValueError(f"unknown style {style!r}: expected one of {', '.join(STYLES)}")
    voice = STYLES[style]
    one, *others = (noun_phrase(thing, rng, detail) for thing in scene.things[:2])
    where = setting_phrase(scene.setting, rng)
    parts = [pick(rng, voice.openings), one.text]
    facts = one.facts
    for other in others:
        middle = pick(rng, voice.middles)
        parts += [_agreeing(middle) if one.plural and style != "plain" else middle, other.text]
        facts += other.facts
    parts += [where.text, pick(rng, voice.endings)]
    return Caption(" ".join(part for part in parts if part), facts + where.facts)


def _agreeing(middle: str) -> str:
    """The plural of a middle, which begins with its verb or with an adverb before it.

    >>> _agreeing("lovingly embraces"), _agreeing("tries to sell pizza to"), _agreeing("owes five dollars to")
    ('lovingly embrace', 'try to sell pizza to', 'owe five dollars to')
    """
    words = middle.split()
    at = 1 if words[0].endswith("ly") else 0
    words[at] = words[at][:-3] + "y" if words[at].endswith("ies") else words[at][:-1]
    return " ".join(words)


class Change(NamedTuple):
    """One changed fact: its aspect, and the words that were replaced by others."""

    aspect: str
    was: str
    now: str


class Unit(NamedTuple):
    """A detail unit: the right words, the facts they state, and the same with one of them changed."""

    text: str
    facts: tuple[Fact, ...]
    wrong_text: str
    wrong_facts: tuple[Fact, ...]
    change: Change


# Not any relation that fails to hold: what is up and to the left may well be called "above".
_OPPOSITES: dict[str, tuple[str, ...]] = {
    "left of": ("right of",),
    "right of": ("left of",),
    "above": ("below",),
    "below": ("above",),
    "next to": ("above", "below"),
    "on": ("below",),
}


def units(scene: Scene, rng: random.Random) -> list[Unit]:
    """The scene in detail units; joined by spaces they are the long caption.

    >>> scene = Scene(1, "beach", (Thing("dog", "brown", count=2, column=0), Thing("boat", "red")))
    >>> for unit in units(scene, random.Random(0)):
    ...     print(f"{unit.text:31} {unit.change.was} -> {unit.change.now}")
    The setting is a sandy beach.   a sandy beach -> a snowy place
    There are two dogs to be seen.  two -> three
    The dogs are brown.             brown -> white
    There is a boat                 a boat -> a car
    to the right of the dogs.       to the right of -> to the left of
    The boat is red.                red -> green
    """
    made = [_setting_unit(scene, rng)]
    for index, thing in enumerate(scene.things):
        before = scene.things[:index]
        made.append(_thing_unit(scene, thing, rng, ends=not before))
        if before:
            made.append(_relation_unit(thing, pick(rng, before), rng))
        made.append(_color_unit(thing, rng))
        if thing.size != "medium":
            made.append(_size_unit(thing))
    return made


def long_caption(made: list[Unit]) -> str:
    """The units as one text."""
    return " ".join(unit.text for unit in made)


def _unit(text: str, facts: tuple[Fact, ...], wrong_facts: tuple[Fact, ...], change: Change) -> Unit:
    head, found, tail = text.rpartition(change.was)
    if not found:
        raise ValueError(f"cannot change {change.was!r}: it is not in {text!r}")
    return Unit(text, facts, head + change.now + tail, wrong_facts, change)


def _setting_unit(scene: Scene, rng: random.Random) -> Unit:
    other = pick(rng, [name for name in SETTINGS if name != scene.setting])
    change = Change("setting", SETTINGS[scene.setting].name, SETTINGS[other].name)
    opening = pick(rng, ("The picture shows", "This is a view of", "The setting is"))
    right, wrong = Fact("setting", "", scene.setting), Fact("setting", "", other)
    return _unit(f"{opening} {change.was}.", (right,), (wrong,), change)


def _named(thing: Thing) -> str:
    return PERSON_WORDS[thing.group][0] if thing.group else KINDS[thing.kind].words[0][thing.count > 1]


def _counted(thing: Thing) -> str:
    words = _named(thing)
    if thing.count > 1:
        return f"{NUMBERS[thing.count][0]} {words}"
    article = KINDS[thing.kind].article
    return f"{article} {words}" if article else with_article(words)


def _thing_facts(thing: Thing) -> tuple[Fact, ...]:
    facts = (Fact("object", thing.kind), Fact("count", thing.kind, str(thing.count)))
    return (*facts, Fact("group", thing.kind, thing.group)) if thing.group else facts


def _thing_unit(scene: Scene, thing: Thing, rng: random.Random, ends: bool) -> Unit:
    be = "are" if thing.count > 1 else "is"
    text = f"There {be} {_counted(thing)}" + (" to be seen." if ends else "")
    if thing.count > 1 and rng.random() < 0.5:
        other = replace(thing, count=pick(rng, [n for n in (2, 3, 4) if n != thing.count]))
        change = Change("count", NUMBERS[thing.count][0], NUMBERS[other.count][0])
    else:
        taken = {one.kind for one in scene.things} | {"person", "sun", "moon"}
        row = KINDS[thing.kind].row
        kinds = [kind.name for kind in KINDS.values() if kind.row == row and kind.name not in taken]
        other = replace(thing, kind=pick(rng, kinds), group="")
        change = Change("object", _counted(thing), _counted(other))
    return _unit(text, _thing_facts(thing), _thing_facts(other), change)


def _relation_unit(thing: Thing, other: Thing, rng: random.Random) -> Unit:
    relation = pick(rng, relations(thing, other))
    wrong = pick(rng, _OPPOSITES[relation])
    change = Change("relation", RELATION_WORDS[relation][0], RELATION_WORDS[wrong][0])
    text = f"{change.was} the {_named(other)}."
    right_fact, wrong_fact = (Fact("relation", thing.kind, name, other.kind) for name in (relation, wrong))
    return _unit(text, (right_fact,), (wrong_fact,), change)


def _color_unit(thing: Thing, rng: random.Random) -> Unit:
    color = pick(rng, [color for color in KINDS[thing.kind].colors if color != thing.color])
    if thing.kind == "person":
        text = f"The {_named(thing)} is wearing a {thing.color} shirt."
    else:
        text = f"The {_named(thing)} {'are' if thing.count > 1 else 'is'} {thing.color}."
    right, wrong = Fact("color", thing.kind, thing.color), Fact("color", thing.kind, color)
    return _unit(text, (right,), (wrong,), Change("color", thing.color, color))


def _size_unit(thing: Thing) -> Unit:
    other = "large" if thing.size == "small" else "small"
    text = f"{'They are' if thing.count > 1 else 'It is'} {thing.size} in the picture."
    if thing.group:
        text = text.replace("It", f"The {_named(thing)}")
    right, wrong = Fact("size", thing.kind, thing.size), Fact("size", thing.kind, other)
    return _unit(text, (right,), (wrong,), Change("size", thing.size, other))


_SETTING_OF = {phrase: name for name, setting in SETTINGS.items() for phrase in setting.phrases}
_RELATION_OF = {words: name for name, phrases in RELATION_WORDS.items() for words in phrases}
_COUNT_OF = {"a": 1, "an": 1, "the": 1} | {words: n for n, phrases in NUMBERS.items() for words in phrases}
_SIZE_OF = {word: size for size, words in SIZES.items() for word in words}
_KIND_OF = {word: kind.name for kind in KINDS.values() for pair in kind.words for word in pair}
_GROUP_OF = {word: group for group, words in PERSON_WORDS.items() for word in words}
_COLORS = {color for kind in KINDS.values() for color in kind.colors}


def _any(words: object) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))  # type: ignore[call-overload]


_COLOR = _any(_COLORS)
_PLACE = re.compile(rf"\b({_any(_SETTING_OF)})\b")
_HOW = re.compile(rf"\b({_any(_RELATION_OF)})\b")
_NOUN_PHRASE = re.compile(
    rf"\b(?P<count>{_any([*_COUNT_OF, *VAGUE])}) (?:(?P<size>{_any(_SIZE_OF)}) )?(?:(?P<color>{_COLOR}) )?"
    rf"(?P<noun>{_any([*_KIND_OF, *_GROUP_OF])})\b"
    rf"(?: (?:{'|'.join(form.format(f'(?P<worn{i}>{_COLOR})') for i, form in enumerate(CLOTHING))}))?"
)
_RELATED = re.compile(r"<(\w+)>(?: (?:is|are)(?: \w+)?)? #([a-z_]+)# <(\w+)>")
_ACCOMPANIED = re.compile(r"<(\w+)> with <(\w+)> #([a-z_]+)# (?:it|them)\b")


def facts_in(caption: str) -> frozenset[Fact]:
    """The facts that a caption states.

    >>> sorted(facts_in("There's a small red ball to the left of two dogs."))
    ... # doctest: +NORMALIZE_WHITESPACE
    [Fact(aspect='color', kind='ball', value='red', other=''),
     Fact(aspect='count', kind='ball', value='1', other=''),
     Fact(aspect='count', kind='dog', value='2', other=''),
     Fact(aspect='object', kind='ball', value='', other=''),
     Fact(aspect='object', kind='dog', value='', other=''),
     Fact(aspect='relation', kind='ball', value='left of', other='dog'),
     Fact(aspect='size', kind='ball', value='small', other='')]
    """
    facts: set[Fact] = set()

    def place(match: re.Match[str]) -> str:
        facts.add(Fact("setting", "", _SETTING_OF[match[1]]))
        return "@"

    def thing(match: re.Match[str]) -> str:
        facts.update(_facts_of(match))
        return f"<{_kind_of(match['noun'])}>"

    text = _PLACE.sub(place, caption.lower())
    text = _NOUN_PHRASE.sub(thing, text)
    text = _HOW.sub(lambda match: f"#{_RELATION_OF[match[1]].replace(' ', '_')}#", text)
    for subject, how, other in _RELATED.findall(text):
        facts.add(Fact("relation", subject, how.replace("_", " "), other))
    for other, subject, how in _ACCOMPANIED.findall(text):
        facts.add(Fact("relation", subject, how.replace("_", " "), other))
    return frozenset(facts)


def _kind_of(noun: str) -> str:
    return "person" if noun in _GROUP_OF else _KIND_OF[noun]


def _facts_of(match: re.Match[str]) -> set[Fact]:
    kind = _kind_of(match["noun"])
    facts = {Fact("object", kind)}
    if match["noun"] in _GROUP_OF:
        facts.add(Fact("group", kind, _GROUP_OF[match["noun"]]))
    if match["count"] in _COUNT_OF:
        facts.add(Fact("count", kind, str(_COUNT_OF[match["count"]])))
    if match["size"]:
        facts.add(Fact("size", kind, _SIZE_OF[match["size"]]))
    color = match["color"] or next((match[f"worn{i}"] for i in range(len(CLOTHING)) if match[f"worn{i}"]), None)
    if color:
        facts.add(Fact("color", kind, color))
    return facts
