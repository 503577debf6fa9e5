"""Long captions of the simulated captioners, with their true quality: what SPECS is for, in small."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab.toy import Sample
from lab.toy.captions import Unit, judge, long_caption, units
from lab.toy.sample import CAPTIONERS, SLOPPY, misremembered
from lab.toy.scenes import Scene, stream


def long_captions(sample: Sample) -> list[dict[str, Any]]:
    """For every scene and captioner a long caption and its quality, F½ of truth and coverage."""
    all_scenes = list(sample.scenes())
    rows = []
    for place, scene in enumerate(all_scenes):
        for name in CAPTIONERS:
            said = _said(name, scene, all_scenes[place - 1], sample.seed)
            verdict = judge([fact for unit in said for fact in unit.facts], scene)
            rows.append({"id": scene.id, "captioner": name, "caption": long_caption(said), "quality": verdict.quality})
    return rows


def _said(name: str, scene: Scene, other: Scene, seed: int) -> list[Unit]:
    """The expert tells all, the solid one half of it, the sloppy one errs, the parrot tells of another scene."""
    rng = stream(seed, scene.id, f"{name} long")
    if name == "solid":
        scene = replace(scene, things=scene.things[: (len(scene.things) + 1) // 2])
    elif name == "parrot" and rng.random() < CAPTIONERS[name].stock:
        scene = other
    elif name in ("sloppy", "parrot"):
        scene = misremembered(scene, SLOPPY, rng)
    return units(scene, rng)
