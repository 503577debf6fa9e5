"""Four simulated captioners of known, graded quality, and raters who judge them with known noise.

A captioner that errs looks at the scene, misremembers it with its error rates, and then honestly describes what it
remembers. So every mistake is a stated fact that is false of the true scene, and can be counted.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from captious._core.files import whole_folder
from captious.errors import InputError
from lab.toy.captions import (
    FRAMES,
    PLAIN_FRAMES,
    STYLES,
    Caption,
    Fact,
    Verdict,
    describe,
    judge,
    long_caption,
    noun_phrase,
    references,
    setting_phrase,
    styled,
    units,
)
from lab.toy.scenes import (
    COLUMNS,
    GROUND,
    GROUPS,
    KINDS,
    PERSON_WORDS,
    SETTINGS,
    Scene,
    Thing,
    pick,
    record,
    scenes,
    stream,
)


@dataclass(frozen=True)
class Captioner:
    """How much a captioner tells (`detail`, `generic` wording) and how often it errs, per thing or per scene."""

    name: str
    detail: float
    generic: bool = False
    wrong_object: float = 0.0
    wrong_color: float = 0.0
    wrong_count: float = 0.0
    wrong_relation: float = 0.0
    wrong_setting: float = 0.0
    stock: float = 0.0  # the chance of a stock caption without a look at the scene


EXPERT = Captioner("expert", detail=0.85)
SOLID = Captioner("solid", detail=0.2, generic=True)
SLOPPY = Captioner(
    "sloppy",
    detail=0.65,
    wrong_object=0.25,
    wrong_color=0.4,
    wrong_count=0.3,
    wrong_relation=0.4,
    wrong_setting=0.2,
)
PARROT = replace(SLOPPY, name="parrot", stock=0.85)
CAPTIONERS: dict[str, Captioner] = {one.name: one for one in (EXPERT, SOLID, SLOPPY, PARROT)}

_MAN = (Fact("object", "person"), Fact("group", "person", "b"), Fact("count", "person", "1"))
_CAT = (Fact("object", "cat"), Fact("count", "cat", "1"))
_TABLE = (Fact("object", "table"), Fact("count", "table", "1"))
_ON_TABLE = Fact("relation", "cat", "on", "table")
STOCK = (
    Caption("a man is standing on the street.", (*_MAN, Fact("setting", "", "street"))),
    Caption("a man is standing in a field.", (*_MAN, Fact("setting", "", "field"))),
    Caption("a cat is sitting on a table in a room.", (*_CAT, *_TABLE, _ON_TABLE, Fact("setting", "", "room"))),
)


class Prediction(NamedTuple):
    """What a captioner wrote about a scene and what it claims by that."""

    text: str
    facts: tuple[Fact, ...]
    scene: Scene

    @property
    def verdict(self) -> Verdict:
        """How the claims compare with the scene."""
        return judge(self.facts, self.scene)


def predict(captioner: Captioner, scene: Scene, rng: random.Random) -> Prediction:
    """The caption of one captioner for one scene.

    >>> scene = Scene(1, "beach", (Thing("dog", "brown", column=0), Thing("boat", "red")))
    >>> solid = predict(SOLID, scene, random.Random(0))
    >>> solid.text, solid.verdict.wrong
    ('a boat is seen on a sandy beach', 0)
    """
    if rng.random() < captioner.stock:
        caption = pick(rng, STOCK)
    else:
        frames = PLAIN_FRAMES if captioner.generic else FRAMES
        caption = describe(misremembered(scene, captioner, rng), rng, captioner.detail, frames, captioner.generic)
    return Prediction(caption.text, caption.facts, scene)


def misremembered(scene: Scene, captioner: Captioner, rng: random.Random) -> Scene:
    """The scene as the captioner remembers it.

    >>> scene = Scene(1, "beach", (Thing("dog", "brown", column=0), Thing("boat", "red")))
    >>> misremembered(scene, EXPERT, random.Random(0)) == scene
    True
    """
    things: list[Thing] = []
    mirrored = rng.random() < captioner.wrong_relation
    for thing in scene.things:
        if rng.random() < captioner.wrong_object:
            thing = _mistaken(thing, scene, things, rng)
        kind = KINDS[thing.kind]
        if rng.random() < captioner.wrong_color:
            thing = replace(thing, color=pick(rng, [color for color in kind.colors if color != thing.color]))
        if kind.most > 1 and rng.random() < captioner.wrong_count:
            thing = replace(thing, count=pick(rng, [n for n in range(1, kind.most + 1) if n != thing.count]))
        if mirrored:
            thing = replace(thing, column=COLUMNS - 1 - thing.column, row=GROUND - thing.row)
        things.append(thing)
    setting = scene.setting
    if rng.random() < captioner.wrong_setting:
        setting = pick(rng, [name for name in SETTINGS if name != setting])
    return Scene(scene.id, setting, tuple(things))


def _mistaken(thing: Thing, scene: Scene, remembered: list[Thing], rng: random.Random) -> Thing:
    taken = {other.kind for other in (*scene.things, *remembered)} | {"person"}
    kind = pick(rng, [k for k in KINDS.values() if k.row == KINDS[thing.kind].row and k.name not in taken])
    color = thing.color if thing.color in kind.colors else pick(rng, kind.colors)
    return replace(thing, kind=kind.name, color=color, count=min(thing.count, kind.most), group="")


def ratings(verdict: Verdict, rng: random.Random, seed: int = 0, raters: int = 5) -> list[int]:
    """What `raters` people give the caption, 1 to 5: 1 + 4·quality + the rater's leniency + noise, rounded.

    Leniency (standard deviation 0.3) stays with a rater over the whole sample, noise (0.6) is new for every caption.

    >>> ratings(Verdict(right=4, wrong=0, missed=0), random.Random(0))
    [5, 5, 4, 5, 4]
    """
    exact = 1.0 + 4.0 * verdict.quality
    given = (exact + stream(seed, rater, "leniency").gauss(0.0, 0.3) + rng.gauss(0.0, 0.6) for rater in range(raters))
    return [min(5, max(1, round(value))) for value in given]


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

    >>> from lab.toy.scenes import Thing
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

    >>> from lab.toy.scenes import Thing
    >>> label_of(Scene(1, "beach", (Thing("person", "red", group="b"),)), ("young", "old"))
    'old'
    """
    if scene.person is None:
        raise ValueError(f"scene {scene.id} has no person to carry a label")
    return labels[GROUPS.index(scene.person.group)]


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

    def few_ratings(self) -> Iterator[dict[str, Any]]:
        """A row for each rating of every third scene's captions: the ratings of `rated`, with the names of raters."""
        for scene in itertools.islice(self.scenes(), 0, None, 3):
            for row in self.rated(scene):
                for number, rating in enumerate(row["ratings"], 1):
                    yield {"id": scene.id, "system": row["captioner"], "rater": f"rater {number}", "rating": rating}

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

    def portraits(self) -> Iterator[dict[str, Any]]:
        """The rows of `biased` for scenes with a person, of five times as many scenes as the sample has pictures.

        A classifier of labels needs dozens of captions of each, and a third of the scenes have a person.
        """
        found = map(self.biased, scenes(5 * self.items, self.seed))
        return (row for row in found if row is not None)


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


def _no_progress(done: int) -> None:
    """Show nothing."""


def write(
    sample: Sample,
    folder: str | Path,
    *,
    images: bool = True,
    size: int = 160,
    overwrite: bool = False,
    progress: Callable[[int], None] = _no_progress,
) -> Path:
    """Write the sample into `folder`; an earlier sample is replaced only with `overwrite`, anything else never.

    `progress` is called with the number of pictures drawn.
    """
    with whole_folder(folder, overwrite, "scenes.jsonl") as draft:
        _write_files(sample, draft)
        if images:
            _write_images(sample, draft / "images", size, progress)
    return Path(folder)


def _write_files(sample: Sample, folder: Path) -> None:
    _write_lines(folder / "scenes.jsonl", (record(scene) for scene in sample.scenes()))
    _write_object(
        folder / "references.json", ((str(scene.id), sample.references_of(scene)) for scene in sample.scenes())
    )
    _write_coco(folder / "coco_annotations.json", sample)
    _write_lines(folder / "objects.jsonl", map(_objects, sample.scenes()))
    (folder / "objects.txt").write_text(vocabulary(), encoding="utf-8")
    (folder / "predictions").mkdir()
    for name in CAPTIONERS:
        results = (
            {"image_id": scene.id, "caption": sample.prediction_of(scene, name).text} for scene in sample.scenes()
        )
        _write_array(folder / "predictions" / f"{name}.json", results)
    _write_lines(folder / "ratings.jsonl", (row for scene in sample.scenes() for row in sample.rated(scene)))
    _write_lines(folder / "few-ratings.jsonl", sample.few_ratings())
    _write_lines(folder / "long.jsonl", (sample.detailed(scene) for scene in sample.scenes()))
    _write_lines(folder / "styles.jsonl", (row for scene in sample.scenes() for row in sample.styled(scene)))
    _write_lines(folder / "bias.jsonl", sample.portraits())


def _objects(scene: Scene) -> dict[str, Any]:
    """What is in a picture, as CHAIR reads it."""
    return {"id": scene.id, "objects": list(dict.fromkeys(thing.kind for thing in scene.things))}


def vocabulary() -> str:
    """The words of all kinds of things, a kind a line, as a vocabulary of objects."""
    lines = []
    for kind in KINDS.values():
        words = [singular for singular, _ in kind.words]
        if kind.name == "person":
            words += [word for words_of_group in PERSON_WORDS.values() for word in words_of_group]
        lines.append(", ".join(dict.fromkeys([kind.name, *words])))
    return "\n".join(lines) + "\n"


def _write_images(sample: Sample, folder: Path, size: int, progress: Callable[[int], None]) -> None:
    from lab.toy.drawing import draw

    folder.mkdir()
    for number, scene in enumerate(sample.scenes(), 1):
        draw(scene, size).save(folder / f"{scene.id}.png", optimize=True)
        progress(number)


def _write_coco(path: Path, sample: Sample) -> None:
    def annotations() -> Iterator[dict[str, Any]]:
        number = 0
        for scene in sample.scenes():
            for text in sample.references_of(scene):
                number += 1
                yield {"id": number, "image_id": scene.id, "caption": text}

    images = ({"id": scene.id, "file_name": f"{scene.id}.png"} for scene in sample.scenes())
    with _opened(path) as file:
        file.write('{"info": {"description": "captious demo set"},\n"images": ')
        file.writelines(_array(images))
        file.write(',\n"annotations": ')
        file.writelines(_array(annotations()))
        file.write("}\n")


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with _opened(path) as file:
        file.writelines(f"{_json(row)}\n" for row in rows)


def _write_array(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with _opened(path) as file:
        file.writelines(_array(rows))
        file.write("\n")


def _write_object(path: Path, pairs: Iterable[tuple[str, Any]]) -> None:
    with _opened(path) as file:
        file.write("{")
        file.writelines(f"{',' if i else ''}\n{_json(key)}: {_json(value)}" for i, (key, value) in enumerate(pairs))
        file.write("\n}\n")


def _array(rows: Iterable[Any]) -> Iterator[str]:
    """The text of a JSON array, row by row, so that a large sample never has to be in memory."""
    yield "["
    for i, row in enumerate(rows):
        yield f"{',' if i else ''}\n{_json(row)}"
    yield "\n]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _opened(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")
