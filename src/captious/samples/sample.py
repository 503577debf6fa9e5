"""The sample as one value: its parameters, from which every caption, rating and label follows on demand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from captious.errors import InputError
from captious.samples.bias import label_of, portrait
from captious.samples.captioners import CAPTIONERS, Captioner, Prediction, predict, ratings
from captious.samples.captions import references
from captious.samples.details import long_caption, units
from captious.samples.sampling import scenes, stream
from captious.samples.scenes import Scene
from captious.samples.styles import STYLES, styled


@dataclass(frozen=True)
class Sample:
    """A sample of scenes and all that is derived from them; nothing is stored, so any number of items costs nothing.

    Every part of every item has its own random numbers, so a change to one part leaves the others as they were.
    """

    items: int = 60
    seed: int = 0
    bias: float = 0.5
    human_bias: float = 0.25
    labels: tuple[str, str] = ("female", "male")
    raters: int = 5

    def scenes(self, start: int = 0, stop: int | None = None) -> Iterator[Scene]:
        """Items `start` to `stop` - 1, by default all."""
        return scenes(self.items if stop is None else min(stop, self.items), self.seed, start)

    def references_of(self, scene: Scene, n: int = 5) -> list[str]:
        """What `n` people wrote about the scene."""
        return [caption.text for caption in references(scene, stream(self.seed, scene.id, "references"), n)]

    def references(self, n: int = 5) -> dict[int, list[str]]:
        """The references of every item, by id."""
        return {scene.id: self.references_of(scene, n) for scene in self.scenes()}

    def prediction_of(self, scene: Scene, captioner: Captioner | str) -> Prediction:
        """What a captioner says about the scene, with the facts it states and how many are right."""
        chosen = _captioner(captioner)
        return predict(chosen, scene, stream(self.seed, scene.id, chosen.name))

    def predictions(self, captioner: Captioner | str) -> dict[int, str]:
        """The captions of a captioner for every item, by id."""
        return {scene.id: self.prediction_of(scene, captioner).text for scene in self.scenes()}

    def rated(self, scene: Scene) -> Iterator[dict[str, Any]]:
        """What every captioner wrote about the scene and what the raters gave it."""
        for name in CAPTIONERS:
            said = self.prediction_of(scene, name)
            verdict = said.verdict
            given = ratings(verdict, stream(self.seed, scene.id, f"{name} ratings"), self.seed, self.raters)
            yield {
                "id": scene.id,
                "captioner": name,
                "caption": said.text,
                "ratings": given,
                "share_right": round(verdict.share_right, 4),
                "quality": round(verdict.quality, 4),
            }

    def detailed(self, scene: Scene) -> dict[str, Any]:
        """The long caption of the scene, its detail units, and each unit with one fact changed."""
        made = units(scene, stream(self.seed, scene.id, "details"))
        return {
            "id": scene.id,
            "caption": long_caption(made),
            "units": [unit.text for unit in made],
            "wrong_units": [unit.wrong_text for unit in made],
            "changes": [unit.change._asdict() for unit in made],
        }

    def styled(self, scene: Scene) -> Iterator[dict[str, Any]]:
        """The scene in every style."""
        for style in STYLES:
            caption = styled(scene, style, stream(self.seed, scene.id, f"style {style}"))
            yield {"id": scene.id, "style": style, "caption": caption.text}

    def biased(self, scene: Scene) -> dict[str, Any] | None:
        """Model and human captions of the scene's person, with the label; None where there is no person."""
        if scene.person is None:
            return None
        model = portrait(scene, self.bias, stream(self.seed, scene.id, "model portrait"))
        people = stream(self.seed, scene.id, "human portraits")
        human = [portrait(scene, self.human_bias, people).text for _ in range(5)]
        return {"id": scene.id, "label": label_of(scene, self.labels), "caption": model.text, "references": human}


def make(
    items: int = 60,
    seed: int = 0,
    bias: float = 0.5,
    human_bias: float = 0.25,
    *,
    labels: tuple[str, str] = ("female", "male"),
    raters: int = 5,
) -> Sample:
    """A sample of `items` scenes, the same for the same arguments on every machine.

    `bias` and `human_bias` are the planted shares of label-revealing activity words, in [0, 1].

    >>> sample = make(items=3)
    >>> list(sample.references())
    [1001, 1002, 1003]
    >>> make(items=3, bias=1.5)
    Traceback (most recent call last):
    ...
    captious.errors.InputError: bias is 1.5: expected a number from 0 to 1
    """
    for name, least, number in (("items", 1, items), ("raters", 1, raters)):
        if number < least:
            raise InputError(f"{name} is {number}: expected a whole number of at least {least}")
    for name, share in (("bias", bias), ("human_bias", human_bias)):
        if math.isnan(share) or not 0 <= share <= 1:
            raise InputError(f"{name} is {share}: expected a number from 0 to 1")
    if len(labels) != 2 or labels[0] == labels[1]:
        raise InputError(f"labels are {labels}: expected two different names")
    return Sample(items, seed, bias, human_bias, labels, raters)


def _captioner(captioner: Captioner | str) -> Captioner:
    if isinstance(captioner, Captioner):
        return captioner
    if captioner not in CAPTIONERS:
        raise InputError(f"unknown captioner {captioner!r}: expected one of {', '.join(CAPTIONERS)}")
    return CAPTIONERS[captioner]
