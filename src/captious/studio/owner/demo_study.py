"""A demonstration study: the drawn scenes of the package, rated by twenty simulated people."""

from __future__ import annotations

import json
from pathlib import Path

from captious.data import DEMO
from captious.render.exports import write_jsonl
from captious.studio.collect.log import StudyLog, open_study
from captious.studio.collect.study_plan import Plan
from captious.studio.owner.simulate import simulate_raters
from captious.study.judgments import Ratings, open_ratings
from captious.study.recipes import Layout

# Number of simulated raters and of gold tasks.
RATERS, GOLD = 20, 4
CAPTIONERS = ("parrot", "sloppy", "solid", "expert")
TEXT = """\
title = "Which captioner describes best?"
kind = "ratings"
captions = {captions}
references = {references}
images = {images}
show_references = true
together = 4
overlap = 5
per_rater = 10
instructions = \"\"\"
Rate each of the four captions: how well does it describe the image?

- Look at the image first. The descriptions below it are by other people; they are not always perfect.
- A good caption is fluent, says what matters, and says nothing that is not there.
- Captions are rated independently: two may get the same number.
\"\"\"
consent = \"\"\"
This is a demonstration with drawn scenes. What you answer stays in a file on this computer.
\"\"\"

[[aspects]]
name = "overall"
question = "How good is this caption for the image?"
scale = [1, 5]
ends = ["very bad", "very good"]
faults = ["a plate of food and food: grammatical but odd", "some animals: too general"]

[checks]
gold = "gold.jsonl"
every = 5
repeat = 2
"""


def open_demo_study(folder: Path) -> tuple[Plan, StudyLog]:
    """Create a study with simulated answers in a folder, or open the one that exists."""
    path = folder / "study.toml"
    ratings = read_demo_ratings()
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_jsonl(folder / "gold.jsonl", _select_gold(ratings))
        files: dict[str, object] = {"captions": [str(DEMO / "predictions" / f"{name}.json") for name in CAPTIONERS]}
        files |= {"references": str(DEMO / "references.json"), "images": str(DEMO / "images")}
        path.write_text(
            TEXT.format(**{name: json.dumps(file) for name, file in files.items()}), encoding="utf-8", newline="\n"
        )
    plan, log = open_study(path)
    if not log.raters():
        simulate_raters(plan, log, raters=RATERS, ratings=ratings)
    return plan, log


def read_demo_ratings() -> Ratings:
    """Read the ratings that the simulated people follow."""
    return open_ratings(DEMO / "ratings.jsonl", columns=Layout("ratings.jsonl", system="captioner"))


def _select_gold(ratings: Ratings) -> list[dict[str, object]]:
    """Return gold tasks: images whose ratings clearly prefer the expert to the parrot."""
    means = dict(zip(ratings.ids, ratings.mean.tolist(), strict=True))
    clear = [item for item in dict.fromkeys(ratings.groups) if means[f"{item}/expert"] - means[f"{item}/parrot"] >= 3]
    return [{"id": item, "expected": {"expert": [3, 5], "parrot": [1, 2]}} for item in clear[:GOLD]]
