"""New studies: templates of six protocols and five kinds, filled in with files, as a person types it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

from captious.cli.app import build_app
from captious.errors import InputError
from captious.studio.collect.kinds.labels import merge_labels
from captious.studio.collect.kinds.ratings import compute_overall
from captious.studio.collect.new import FOLDER, KINDS, list_templates, new_plan
from captious.studio.collect.rating_tasks import build_tasks
from captious.studio.collect.study_check import check_plan
from captious.studio.collect.study_plan import parse_plan, read_plan

SYSTEMS = ("sat", "oscar", "aoa", "butd")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with captions of four systems, references, images, sets of styles and entities."""
    monkeypatch.chdir(tmp_path)
    for name in ("preds", "photos"):
        Path(name).mkdir()
    ids = [f"im{number}" for number in range(6)]
    for system in SYSTEMS:
        lines("preds", f"{system}.jsonl", [{"id": key, "caption": f"{system[0]} dog {key}"} for key in ids])
    Path("refs.json").write_text(json.dumps({key: ["a dog", "the dog"] for key in ids}), encoding="utf-8")
    for key in ids:
        Image.new("RGB", (8, 6)).save(f"photos/{key}.jpg")
    sets = [{"style": style, "set": f"{style}-1", "captions": ["a", "b", "c"]} for style in ("happy", "calm")]
    lines(".", "sets.jsonl", sets)
    row = {"task": "im1.jpg", "painter": "p", "id": "1", "text": "a dog", "seed": 0, "picture": "im1.jpg"}
    lines(".", "tasks.jsonl", [{**row, "question": "?", "entities": ["dog"], "rater": None, "seen": {"dog": None}}])
    return tmp_path


def lines(folder, name, rows):
    (Path(folder) / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def new(*words):
    return CliRunner().invoke(build_app(), ["studio", "new", *words])


PREDS = [f"preds/{system}.jsonl" for system in SYSTEMS]
CAPTIONED = ["--captions", *PREDS, "--references", "refs.json", "--images", "photos/"]


def test_the_line_works_as_a_shell_expands_it(place):
    done = new("study.toml", "--kind", "ratings", *CAPTIONED)
    assert (done.exit_code, done.output) == (
        0,
        "study.toml: 24 tasks; change it as you like, then: captious studio check study.toml\n",
    )
    plan = read_plan("study.toml")
    assert plan.captions == tuple(PREDS) and (plan.references, plan.images) == ("refs.json", "photos")
    assert len(build_tasks(plan)) == 24


def test_a_study_is_not_overwritten(place):
    Path("study.toml").write_text("mine", encoding="utf-8")
    done = new("study.toml", "--kind", "ratings", *CAPTIONED)
    assert isinstance(done.exception, InputError) and "already exists" in str(done.exception)
    assert Path("study.toml").read_text(encoding="utf-8") == "mine"
    assert new("study.toml", "--kind", "ratings", *CAPTIONED, "--overwrite").exit_code == 0


def test_nothing_is_written_where_a_file_is_wrong(place):
    lines("preds", "sat.jsonl", [{"id": "im0", "caption": "a dog"}])
    done = new("study.toml", "--template", "capeval1k", *CAPTIONED)
    assert "sat has no caption for 5 ids (im1, im2, im3, im4, im5) of the others" in str(done.exception)
    assert not Path("study.toml").exists()
    assert new("study.toml", "--template", "capeval1k", *CAPTIONED, "--missing", "skip").exit_code == 0
    assert [task.item for task in build_tasks(read_plan("study.toml"))] == ["im0"]


def test_names_are_relative_to_the_study(place):
    Path("studies").mkdir()
    assert new("studies/one.toml", "--kind", "pairs", *CAPTIONED, "--title", 'A "study"').exit_code == 0
    plan = read_plan("studies/one.toml")
    assert plan.captions[0] == "../preds/sat.jsonl" and plan.images == "../photos" and plan.title == 'A "study"'
    assert len(build_tasks(plan)) == 36


def test_only_some_ids(place):
    Path("ids.txt").write_text("im3\n\nim5\n", encoding="utf-8")
    assert new("one.toml", "--kind", "ranking", *CAPTIONED, "--ids", "ids.txt").exit_code == 0
    assert [task.item for task in build_tasks(read_plan("one.toml"))] == ["im3", "im5"]
    text = new_plan("two.toml", "ranking", captions=PREDS, ids=["im4"])
    assert [task.item for task in build_tasks(parse_plan(text, Path("two.toml")))] == ["im4"]


def test_the_study_stands_before_a_flag_that_takes_all_words(place):
    done = new("--kind", "ratings", "--captions", *PREDS, "study.toml")
    assert done.exit_code == 2 and "no STUDY, expected it before --captions" in done.output


def test_a_long_list_is_written_one_a_line(place):
    names = [f"preds/a-system-with-a-long-name-{number}.jsonl" for number in range(9)]
    text = new_plan("study.toml", "ratings", captions=names)
    assert parse_plan(text, Path("study.toml")).captions == tuple(names)
    assert f'  "{names[3]}",\n' in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no kind=... of task, expected one of ratings, ranking"),
        ({"template": "capeval"}, "template='capeval', expected one of capeval1k, .*; did you mean 'capeval1k'"),
        ({"template": "ratings"}, "template='ratings', expected one of capeval1k"),
        ({"kind": "pairs", "template": "thumb"}, "template='thumb', which is of kind ratings"),
        ({"kind": "ratings"}, "nothing to ask about, expected captions or tasks"),
        ({"kind": "yesno", "captions": ["a.jsonl"]}, "asks about the things of ready tasks, not about captions"),
        ({"kind": "pairs", "captions": ["\udcff.jsonl"]}, "contains half a character"),
        ({"kind": "pairs", "captions": ["a.jsonl"], "tasks": "b.jsonl"}, "both captions and tasks"),
    ],
)
def test_a_study_that_cannot_be(options, message):
    with pytest.raises(InputError, match=message):
        new_plan("study.toml", **options)


def test_a_template_is_a_whole_study():
    assert {path.stem for path in FOLDER.glob("*.toml")} == {*KINDS, *list_templates()}
    for path in FOLDER.glob("*.toml"):
        plan = read_plan(path)
        assert plan.instructions and plan.title and plan.overlap >= 2, path.stem


def filled(template, *words):
    done = new("study.toml", "--template", template, *words)
    assert done.exit_code == 0, done.exception
    plan = read_plan("study.toml")
    return plan, build_tasks(plan)


def test_capeval1k(place):
    plan, tasks = filled("capeval1k", *CAPTIONED)
    assert plan.show_references and plan.distinct and plan.together == 4 and "not always perfect" in plan.details
    assert len(tasks) == 6 and all(len(task.choices) == 4 and task.references and task.image for task in tasks)
    (aspect,) = plan.aspects
    assert aspect.points == (1, 2, 3, 4, 5) and len(aspect.faults) == 3


def test_capeval1k_asks_only_about_images_whose_captions_differ(place):
    lines("preds", "sat.jsonl", [{"id": f"im{number}", "caption": f"O dog IM{number}."} for number in range(2)])
    rest = [{"id": f"im{number}", "caption": f"s dog {number}"} for number in range(2, 6)]
    with Path("preds/sat.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rest)
    _, tasks = filled("capeval1k", *CAPTIONED)
    assert [task.item for task in tasks] == ["im2", "im3", "im4", "im5"]


def test_images_of_a_training_set_are_left_out_and_some_of_the_others_are_drawn(place):
    Path("train.txt").write_text("im0\nim3\n", encoding="utf-8")
    Path("val.txt").write_text("im5\n", encoding="utf-8")
    plan, tasks = filled("capeval1k", *CAPTIONED, "--without", "train.txt", "val.txt", "--items", "2")
    assert plan.without == ("train.txt", "val.txt") and plan.items == 2
    assert len({task.item for task in tasks}) == 2 and not {task.item for task in tasks} & {"im0", "im3", "im5"}


def test_who_may_take_part_is_printed_for_the_panel(place):
    assert new("study.toml", "--template", "capeval1k", *CAPTIONED).exit_code == 0
    form = check_plan(read_plan("study.toml")).document().data["form"]
    wanted = {"countries": "US, GB, CA, NZ, AU", "approval": "above 96 %", "earlier submissions": "more than 5,000"}
    assert {name: form[name] for name in wanted} == wanted


def test_imagine_likert(place):
    plan, tasks = filled("imagine-likert", "--captions", *PREDS, "--references", "refs.json")
    assert [aspect.name for aspect in plan.aspects] == ["fluency", "grammar", "consistency"]
    assert compute_overall(plan, {"fluency": 5, "grammar": 4, "consistency": 3}) == 4.0
    assert plan.show_references and all(task.image is None and task.references for task in tasks)


def test_imagine_entities(place):
    plan, tasks = filled("imagine-entities", "--tasks", "tasks.jsonl", "--images", "photos")
    assert plan.kind == "yesno" and [(task.things, task.image) for task in tasks] == [(("dog",), "im1.jpg")]
    assert tasks[0].fields["painter"] == "p" and not plan.cannot_judge


def test_onlystyle_ranking(place):
    plan, tasks = filled("onlystyle-ranking", "--tasks", "sets.jsonl")
    assert plan.best == "last" and [task.heading for task in tasks] == ["happy", "calm"]
    assert all(len(task.choices) == 3 and task.image is None for task in tasks)


def test_relic_age(place):
    plan, tasks = filled("relic-age", "--images", "photos")
    assert [option.key for option in plan.options] == ["y", "o", "n"] and plan.label == "age" and plan.cannot_judge
    assert len(tasks) == 6 and not any(task.choices for task in tasks)
    assert merge_labels(plan, ["old", "none"]) == "old" and merge_labels(plan, ["old", "young"]) is None


def test_thumb(place):
    plan, tasks = filled("thumb", *CAPTIONED)
    assert len(tasks) == 6
    # A row of the published file: P 5, R 4, Fl -0.1, score 4.4.
    assert compute_overall(plan, {"P": 5, "R": 4, "Fl": -0.1, "Con": 0, "Inc": 0}) == pytest.approx(4.4)
