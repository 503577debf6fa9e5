"""Styled captions: the same scene told plainly, romantically, humorously or gloomily."""

from __future__ import annotations

import random
from typing import NamedTuple

from captious.samples.captions import Caption
from captious.samples.sampling import pick
from captious.samples.scenes import Scene
from captious.samples.words import noun_phrase, setting_phrase


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

    >>> from captious.samples.scenes import Thing
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
