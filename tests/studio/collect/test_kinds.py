"""The five kinds of task: from captions to pages, from a form to an answer, and whether a check was passed."""

import json
from pathlib import Path

import numpy as np
import pytest

from captious._core.records import from_json
from captious.studio.collect.kinds import KINDS, Incomplete, kind_of
from captious.studio.collect.kinds.labels import merge_labels
from captious.studio.collect.kinds.ratings import compute_overall
from captious.studio.collect.rating_tasks import Task, build_tasks
from captious.studio.collect.study_plan import parse_plan

ASPECT = '[[aspects]]\nname = "overall"\nquestion = "How good?"\n'
SYSTEMS = ("sat", "oscar", "aoa", "butd")


@pytest.fixture
def folder(tmp_path):
    """Six items of four systems."""
    for system in SYSTEMS:
        rows = [{"id": f"im{number}", "caption": f"{system[0]} dog {number}"} for number in range(6)]
        (tmp_path / f"{system}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def study(folder, text, systems=SYSTEMS):
    files = json.dumps([f"{system}.jsonl" for system in systems])
    captions = "" if "tasks =" in text else f"captions = {files}\n"
    return parse_plan(f'title = "A study"\n{captions}{text}', Path(folder) / "study.toml")


def table(folder, name, *rows):
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def test_four_captions_of_an_image_share_a_page(folder):
    tasks = build_tasks(study(folder, f'kind = "ratings"\ntogether = 4\n{ASPECT}'))
    assert [task.item for task in tasks] == [f"im{number}" for number in range(6)]
    assert all([choice.system for choice in task.choices] == list(SYSTEMS) for task in tasks)
    assert [choice.text for choice in tasks[2].choices] == ["s dog 2", "o dog 2", "a dog 2", "b dog 2"]


def test_every_caption_is_on_one_page_whatever_fits_on_it(folder):
    for together, pages in ((1, 24), (2, 12), (3, 12), (4, 6), (20, 6)):
        tasks = build_tasks(study(folder, f'kind = "ratings"\ntogether = {together}\n{ASPECT}'))
        shown = [(task.item, choice.system) for task in tasks for choice in task.choices]
        assert len(tasks) == pages and len({*shown}) == len(shown) == 24


def test_neither_the_id_of_a_task_nor_that_of_a_choice_tells_the_system(folder):
    for kind, more in (("ratings", f"together = 2\n{ASPECT}"), ("pairs", ""), ("ranking", "")):
        tasks = build_tasks(study(folder, f'kind = "{kind}"\n{more}'))
        letters = {(choice.system, choice.id) for task in tasks for choice in task.choices}
        assert len({letter for system, letter in letters if system == "sat"}) > 1
        assert [task.id for task in tasks] == [f"t{number}" for number in range(1, len(tasks) + 1)]


def test_pairs_are_every_two_systems(folder):
    tasks = build_tasks(study(folder, 'kind = "pairs"\n'))
    assert len(tasks) == 6 * 6 and all(len(task.choices) == 2 for task in tasks)


def test_the_order_of_a_page_is_drawn(folder):
    plan = study(folder, f'kind = "ratings"\ntogether = 4\n{ASPECT}')
    task, rng = build_tasks(plan)[0], np.random.default_rng(0)
    orders = {kind_of(plan).draw_order(plan, task, rng) for _ in range(300)}
    assert len(orders) == 24 and all(sorted(order) == ["a", "b", "c", "d"] for order in orders)


def test_a_form_of_ratings_is_an_answer_in_ids(folder):
    plan = study(folder, f'kind = "ratings"\ntogether = 2\n{ASPECT}', SYSTEMS[:2])
    task, kind = build_tasks(plan)[0], KINDS["ratings"]
    form = {"rating:0:overall": "4", "rating:1:overall": "2"}
    answer = kind.read(plan, task, ("b", "a"), form)
    assert answer == {"ratings": {"b": {"overall": 4}, "a": {"overall": 2}}}
    assert kind.form(plan, task, ("b", "a"), answer) == form
    assert kind.values(plan, task, answer) == {"overall": {"t1/b": 4, "t1/a": 2}}


def test_what_is_missing_is_named(folder):
    plan = study(folder, f'kind = "ratings"\ntogether = 2\n{ASPECT}', SYSTEMS[:2])
    with pytest.raises(Incomplete) as caught:
        KINDS["ratings"].read(plan, build_tasks(plan)[0], ("b", "a"), {"rating:0:overall": "9"})
    assert [(gap.field, gap.message) for gap in caught.value.gaps] == [
        ("rating:0:overall", "“9” is not one of the choices."),
        ("rating:1:overall", "Caption 2 has no rating."),
    ]


def test_cannot_judge_is_a_choice_only_where_the_plan_has_it(folder):
    text = f'kind = "ratings"\n{{}}{ASPECT}'
    form = {"rating:0:overall": "cannot"}
    plan = study(folder, text.format("cannot_judge = true\n"))
    task = build_tasks(plan)[0]
    answer = KINDS["ratings"].read(plan, task, "a", form)
    assert answer == {"ratings": {"a": {"overall": None}}} and KINDS["ratings"].form(plan, task, "a", answer) == form
    with pytest.raises(Incomplete):
        KINDS["ratings"].read(study(folder, text.format("")), task, "a", form)


def test_the_overall_rating_follows_from_the_aspects(folder):
    aspects = "".join(f'[[aspects]]\nname = "{name}"\nquestion = "?"\nscale = {scale}\n' for name, scale in AXES)
    plan = study(folder, f'kind = "ratings"\noverall = "(P + R) / 2 + fluency"\n{aspects}')
    task, kind = build_tasks(plan)[0], KINDS["ratings"]
    form = {"rating:0:P": "4", "rating:0:R": "3", "rating:0:fluency": "-0.5"}
    answer = kind.read(plan, task, "a", form)
    assert answer["ratings"]["a"] == {"P": 4, "R": 3, "fluency": -0.5}
    assert compute_overall(plan, answer["ratings"]["a"]) == 3.0  # (4 + 3) / 2 - 0.5
    assert kind.values(plan, task, answer)["rating"] == {"t1/a": 3.0}
    assert kind.form(plan, task, "a", answer) == form


AXES = (("P", [1, 5]), ("R", [1, 5]), ("fluency", [-1, -0.5, -0.1, 0]))


@pytest.mark.parametrize(("best", "stored"), [("first", {"a": 3, "b": 2, "c": 1}), ("last", {"a": 1, "b": 2, "c": 3})])
def test_the_best_of_a_ranking_has_the_highest_rank(folder, best, stored):
    plan = study(folder, f'kind = "ranking"\nbest = "{best}"\n', SYSTEMS[:3])
    task, kind = build_tasks(plan)[0], KINDS["ranking"]
    form = {"rank:0": "1", "rank:1": "2", "rank:2": "3"}
    answer = kind.read(plan, task, "abc", form)
    assert answer == {"ranks": stored} and kind.form(plan, task, "abc", answer) == form


def test_a_rank_is_given_once_unless_ties_are_allowed(folder):
    form = {"rank:0": "1", "rank:1": "1", "rank:2": "3"}
    plan = study(folder, 'kind = "ranking"\n', SYSTEMS[:3])
    with pytest.raises(Incomplete, match="Rank 1 occurs twice: caption 2 needs another"):
        KINDS["ranking"].read(plan, build_tasks(plan)[0], "abc", form)
    plan = study(folder, 'kind = "ranking"\nties = true\n', SYSTEMS[:3])
    assert KINDS["ranking"].read(plan, build_tasks(plan)[0], "abc", form) == {"ranks": {"a": 3, "b": 3, "c": 1}}


def test_a_pair_is_one_of_two_or_a_tie(folder):
    plan = study(folder, 'kind = "pairs"\nties = true\nboth_bad = true\n', SYSTEMS[:2])
    task, kind = build_tasks(plan)[0], KINDS["pairs"]
    first = task.choices[0].id
    for form in ({"preferred": "1"}, {"preferred": "tie", "both_bad": "on"}):
        assert kind.form(plan, task, "ba", kind.read(plan, task, "ba", form)) == form
    answer = kind.read(plan, task, "ba", {"preferred": "1"})
    assert answer == {"preferred": "a", "both_bad": False}
    assert kind.values(plan, task, answer) == {"preferred": {"t1": 0.0 if first == "a" else 1.0}}
    with pytest.raises(Incomplete, match="Choose one of the two captions, or that they are equally good"):
        kind.read(plan, task, "ba", {})


def test_the_tasks_of_probe_entities_are_taken_as_they_are(folder):
    row = {"task": "1.png", "painter": "drawn", "id": "1", "text": "a dog on grass", "seed": 0, "picture": "1.png"}
    asked = {"question": "?", "entities": ["dog", "grass"], "rater": None, "seen": {"dog": None, "grass": None}}
    table(folder, "tasks.jsonl", {**row, **asked})
    plan = study(folder, 'kind = "yesno"\ntasks = "tasks.jsonl"\n')
    (task,) = build_tasks(plan)
    assert task.things == ("dog", "grass") and task.heading == "a dog on grass" and task.item == "1.png"
    assert {name: task.fields[name] for name in ("painter", "text", "seed", "picture")} == {
        "painter": "drawn", "text": "a dog on grass", "seed": 0, "picture": "1.png",
    }  # fmt: skip
    form = {"thing:0": "yes", "thing:1": "no"}
    answer = KINDS["yesno"].read(plan, task, task.things, form)
    assert answer == {"seen": {"dog": True, "grass": False}}
    assert KINDS["yesno"].form(plan, task, task.things, answer) == form
    assert KINDS["yesno"].values(plan, task, answer) == {"seen": {"t1/dog": 1.0, "t1/grass": 0.0}}
    with pytest.raises(Incomplete, match="“grass” has no answer"):
        KINDS["yesno"].read(plan, task, task.things, {"thing:0": "yes"})


def test_rows_of_one_caption_are_joined_into_sets(folder):
    rows = [{"style": style, "caption": f"{style} {number}"} for style in ("happy", "calm") for number in range(3)]
    table(folder, "sets.jsonl", *rows)
    tasks = build_tasks(study(folder, 'kind = "ranking"\ntasks = "sets.jsonl"\nbest = "last"\n'))
    assert [(task.heading, len(task.choices)) for task in tasks] == [("happy", 3), ("calm", 3)]
    assert tasks[0].fields == {"style": "happy", "set": "happy"}


LABELS = 'kind = "labels"\ntasks = "images.jsonl"\n{}' + "".join(
    f'[[options]]\nname = "{name}"\nkey = "{name[0]}"\n' for name in ("young", "old", "none")
)


def test_a_label_is_the_name_of_an_option(folder):
    table(folder, "images.jsonl", {"image": "7.jpg", "text": "a man"}, {"image": "8.jpg", "text": "a dog"})
    plan = study(folder, LABELS.format("cannot_judge = true\n"))
    tasks, kind = build_tasks(plan), KINDS["labels"]
    assert [task.item for task in tasks] == ["7.jpg", "8.jpg"]
    for form, label, value in (({"label": "old"}, "old", 1.0), ({"label": "cannot"}, None, None)):
        answer = kind.read(plan, tasks[0], (), form)
        assert answer == {"label": label} and kind.form(plan, tasks[0], (), answer) == form
        assert kind.values(plan, tasks[0], answer) == {"label": {"t1": value}}


@pytest.mark.parametrize(
    ("rule", "votes", "label"),
    [
        ("majority", "old old young", "old"),
        ("majority", "old young", None),
        ("majority", "old none", None),
        ("unanimous", "old old", "old"),
        ("unanimous", "old old young", None),
        ("relic", "old none", "old"),
        ("relic", "old young", None),
        ("relic", "old young none", None),
        ("relic", "none none old", "none"),
        ("relic", "", None),
    ],
)
def test_labels_are_merged_by_the_rule_of_the_plan(folder, rule, votes, label):
    assert merge_labels(study(folder, LABELS.format(f'merge = "{rule}"\n')), votes.split()) == label


def test_a_merged_label_needs_its_votes(folder):
    plan = study(folder, LABELS.format("votes = 2\n"))
    assert merge_labels(plan, ["old", None]) is None and merge_labels(plan, ["old", "old"]) == "old"


GOLD = '[checks]\ngold = "gold.jsonl"\n'


def gold_of(folder, text, *rows):
    table(folder, "gold.jsonl", *rows)
    plan = study(folder, text + GOLD, SYSTEMS[:2])
    return plan, [task for task in build_tasks(plan) if task.gold is not None]


def test_ratings_within_the_expected_range_pass(folder):
    own = {"id": "g1", "captions": ["a dog", "qqq"], "expected": [[4, 5], 1]}
    plan, tasks = gold_of(
        folder, f'kind = "ratings"\ntogether = 2\n{ASPECT}', {"id": "im3", "expected": {"sat": [4, 5]}}, own
    )
    kind = KINDS["ratings"]
    assert [task.item for task in tasks] == ["im3", "g1"] and len(build_tasks(plan)) == 7
    for task, ratings, passes in (
        (tasks[0], (5, 1), True),
        (tasks[0], (3, 1), False),
        (tasks[0], (None, 1), False),
        (tasks[1], (4, 1), True),
        (tasks[1], (4, 2), False),
    ):
        rated = {choice.id: {"overall": rating} for choice, rating in zip(task.choices, ratings, strict=True)}
        assert kind.passes(plan, task, {"ratings": rated}) is passes


@pytest.mark.parametrize("expected", [[[1, 2]], [1, 2], {"overall": [1, 2]}])
def test_gold_of_one_caption_is_a_list_of_one_or_the_range_itself(folder, expected):
    row = {"id": "g1", "captions": ["qqq"], "expected": expected}
    plan, (task,) = gold_of(folder, f'kind = "ratings"\n{ASPECT}', row)
    for rating, passes in ((1, True), (2, True), (3, False)):
        answer = {"ratings": {task.choices[0].id: {"overall": rating}}}
        assert KINDS["ratings"].passes(plan, task, answer) is passes


def test_only_the_page_that_a_gold_row_speaks_of_is_gold(folder):
    _, tasks = gold_of(folder, f'kind = "ratings"\n{ASPECT}', {"id": "im3", "expected": {"sat": 4}})
    assert [[choice.system for choice in task.choices] for task in tasks] == [["sat"]]


def test_gold_of_the_other_kinds(folder):
    plan, (task,) = gold_of(folder, 'kind = "pairs"\n', {"id": "im3", "expected": "oscar"})
    ids = {choice.system: choice.id for choice in task.choices}
    assert KINDS["pairs"].passes(plan, task, {"preferred": ids["oscar"]})
    assert not KINDS["pairs"].passes(plan, task, {"preferred": ids["sat"]})
    plan, (task,) = gold_of(folder, 'kind = "ranking"\n', {"id": "im3", "expected": ["oscar", "sat"]})
    ids = {choice.system: choice.id for choice in task.choices}
    assert KINDS["ranking"].passes(plan, task, {"ranks": {ids["oscar"]: 1, ids["sat"]: 2}})
    assert not KINDS["ranking"].passes(plan, task, {"ranks": {ids["oscar"]: 2, ids["sat"]: 2}})
    table(folder, "images.jsonl", {"image": "7.jpg", "text": "a man"}, {"image": "8.jpg", "text": "a dog"})
    plan, (task,) = gold_of(folder, LABELS.format(""), {"id": "7.jpg", "expected": ["old", "none"]})
    assert KINDS["labels"].passes(plan, task, {"label": "old"})
    assert not KINDS["labels"].passes(plan, task, {"label": None})
    table(folder, "tasks.jsonl", *({"task": f"{n}", "text": "a dog", "entities": ["dog", "cat"]} for n in range(2)))
    plan, (task,) = gold_of(folder, 'kind = "yesno"\ntasks = "tasks.jsonl"\n', {"id": "1", "expected": {"dog": True}})
    assert KINDS["yesno"].passes(plan, task, {"seen": {"dog": True, "cat": False}})
    assert not KINDS["yesno"].passes(plan, task, {"seen": {"dog": None, "cat": True}})


def test_a_task_survives_json(folder):
    for text in (f'kind = "ratings"\ntogether = 4\n{ASPECT}', 'kind = "pairs"\n', 'kind = "ranking"\n'):
        for task in build_tasks(study(folder, text)):
            assert from_json(Task, json.loads(json.dumps(task.to_dict()))) == task
