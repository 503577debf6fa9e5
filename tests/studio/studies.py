"""Small studies of the five kinds, with an image and hostile captions on every page, begun in SQLite."""

from dataclasses import replace
from pathlib import Path

from PIL import Image
from tests.studio.hostile import HOSTILE

from captious.studio._study_app import build_app
from captious.studio.access import Limit, Rules, hash_token, make_token
from captious.studio.collect._panels import RaterPanel, fill_in_preset
from captious.studio.collect.log import StudyLog
from captious.studio.collect.rating_tasks import Choice, Task
from captious.studio.collect.study_plan import Aspect, LabelOption, Plan, Source

OWNER = "the-token-of-the-owner"
KINDS = ("ratings", "ranking", "pairs", "yesno", "labels")
# The name of a system, and part of every file name: it must be on no page.
SECRET = "system-zebra"
ASPECTS = (
    Aspect("correctness", "Is it right?", (1, 5), ("all wrong", "all right"), ("<b>two dogs</b>: there is one",)),
    Aspect("fluency", "Is it good English?", (1, 5), ("bad", "good")),
)
OPTIONS = (LabelOption("young", "y", "Young <i>"), LabelOption("old", "o"), LabelOption("none", "n"))
THINGS = ("dog", "<script>window.hostile=1</script>", "two  cats & a 'bird'")
FIELDS = {
    "ratings": dict,
    "ranking": lambda: {"question": "Which is best?"},
    "pairs": lambda: {"question": "Which is better?", "ties": True, "both_bad": True},
    "yesno": lambda: {"question": "What is there?", "cannot_judge": True},
    "labels": lambda: {"options": OPTIONS, "question": "How old?"},
}


def prolific(completed="C1ABC", full="C2FULL", **values):
    """The panel Prolific with codes."""
    return fill_in_preset(RaterPanel("prolific", completed=completed, full=full, **values))


def make_plan(folder, kind="ratings", **options):
    """A plan of a kind; `options` are its fields."""
    values = {"images": "photos", "instructions": "Look at the image.\n\n- Be <b>quick</b>.", "overlap": 2}
    values |= {"title": "Dogs & <cats>", "show_references": True} | FIELDS[kind]()
    values |= {"aspects": ASPECTS} if kind == "ratings" else {}
    values |= options
    source = values.pop("source", Source())
    return Plan(Path(folder) / "study.toml", kind=kind, source=source, text=repr(options), digest="", **values)


def make_tasks(folder, kind="ratings", number=4, captions=HOSTILE, per_page=2):
    """Tasks with the captions in turn."""
    photos = Path(folder) / "photos"
    photos.mkdir(exist_ok=True)
    tasks = []
    for index in range(number):
        name = f"{SECRET}-{index}.png"
        Image.new("RGB", (320, 240), (40 * index % 256, 120, 160)).save(photos / name)
        texts = [captions[(per_page * index + place) % len(captions)] for place in range(per_page)]
        choices = tuple(Choice("abcdefgh"[place], text, SECRET) for place, text in enumerate(texts))
        tasks.append(
            Task(
                f"t{index + 1}",
                f"{SECRET}/{index}",
                name,
                () if kind in ("yesno", "labels") else choices,
                (captions[index % len(captions)], "a dog"),
                THINGS if kind == "yesno" else (),
                heading=captions[index % len(captions)] if kind in ("yesno", "ranking") else "",
            )
        )
    return tasks


class Study:
    """A study that has begun, with its app."""

    def __init__(
        self,
        folder,
        kind="ratings",
        number=4,
        captions=HOSTILE,
        per_page=2,
        rules=None,
        limit=None,
        database=None,
        gold=(),
        **options,
    ):
        plan = make_plan(folder, kind, **options)
        tasks = make_tasks(folder, kind, number, captions, per_page)
        tasks = [replace(task, gold={"label": ["old"]}) if task.id in gold else task for task in tasks]
        self.log = StudyLog.open(database or Path(folder) / "study.db")
        self.log.begin(plan, tasks)
        self.plan = self.log.plan()
        limit = limit or Limit(1000, seconds=1)
        self.app = build_app(self.plan, self.log, rules or Rules(), "http://127.0.0.1", OWNER, limit)

    def link(self):
        """The path of a new rater's link."""
        token = make_token()
        self.log.add_raters([hash_token(token)])
        return f"/r/{token}"

    def events(self, kind="answered"):
        """Events of a kind."""
        return [event for event in self.log.events() if event.kind == kind]
