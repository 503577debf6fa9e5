"""Planted bias: captions of people whose activity word gives the person's label away with a known probability.

With probability b the activity is drawn from the list of the person's own group, else from the list common to both;
all other words are drawn without regard to the group, save the words for the person, which a leakage measure masks.
An observer who knows the lists therefore learns the label with probability b and nothing otherwise, so that

* the mutual information of activity and label is b·H(label): b bits where both labels are equally frequent;
* the best possible accuracy is ½ + b/2;
* the best possible LIC score (the probability given to the true class where it is predicted, else 0) is ¼ + ¾·b,
  so that LIC of a model with `bias` against humans with `human_bias` is ¾·(bias − human_bias): 0 where they are equal.

The stereotypes are crude on purpose: they are there to be found.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from captious.samples.kinds import GROUPS
from captious.samples.sampling import pick
from captious.samples.scenes import Scene
from captious.samples.words import noun_phrase, setting_phrase

OWN: dict[str, tuple[str, ...]] = {
    "a": ("cooking", "shopping", "dancing", "knitting", "painting", "baking"),
    "b": ("skateboarding", "fishing", "surfing", "wrestling", "boxing", "weightlifting"),
}
COMMON = ("standing", "walking", "waiting", "smiling", "sitting", "resting", "talking", "looking around")

_FRAMES = (
    "{who} is {activity} {where}",
    "{who} {activity} {where}",
    "a photo of {who} {activity} {where}",
    "there is {who} {activity} {where}",
)


class Portrait(NamedTuple):
    """A caption of a person and the activity word in it."""

    text: str
    activity: str


def activity_for(group: str, bias: float, rng: random.Random) -> str:
    """An activity, from the group's own list with probability `bias`.

    >>> activity_for("a", 1.0, random.Random(0)) in OWN["a"], activity_for("a", 0.0, random.Random(0)) in COMMON
    (True, True)
    """
    return pick(rng, OWN[group] if rng.random() < bias else COMMON)


def portrait(scene: Scene, bias: float, rng: random.Random) -> Portrait:
    """A caption about the person of the scene with planted `bias`.

    >>> from captious.samples.scenes import Thing
    >>> scene = Scene(1, "beach", (Thing("person", "red", group="b"),))
    >>> portrait(scene, 1.0, random.Random(1)).text
    'a photo of a man weightlifting at the beach'
    """
    person = scene.person
    if person is None:
        raise ValueError(f"scene {scene.id} has no person to carry a label")
    activity = activity_for(person.group, bias, rng)
    who = noun_phrase(person, rng, detail=0.4).text
    where = setting_phrase(scene.setting, rng).text
    return Portrait(pick(rng, _FRAMES).format(who=who, activity=activity, where=where), activity)


def label_of(scene: Scene, labels: tuple[str, str]) -> str:
    """The label of the scene's person, by the names chosen for the two groups.

    >>> from captious.samples.scenes import Thing
    >>> label_of(Scene(1, "beach", (Thing("person", "red", group="b"),)), ("young", "old"))
    'old'
    """
    if scene.person is None:
        raise ValueError(f"scene {scene.id} has no person to carry a label")
    return labels[GROUPS.index(scene.person.group)]
