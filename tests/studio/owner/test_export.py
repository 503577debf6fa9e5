"""Exports: every file, and the command that goes on with it; what is left out, marked and kept apart."""

import csv
import json
import shlex
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from captious.errors import InputError

pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed: pip install 'captious[studio]'")

from hypothesis import given, settings
from hypothesis import strategies as st

from captious.metrics.style.fitting import fit
from captious.metrics.style.model_files import save
from captious.studio.collect._events import Answered
from captious.studio.collect.log import StudyLog
from captious.studio.collect.new import new_plan
from captious.studio.collect.rating_tasks import Choice, Task, build_tasks
from captious.studio.collect.study_plan import Aspect, Plan, read_plan
from captious.studio.owner.export import Export, build_answer_tables, export_study, list_next_commands
from captious.studio.owner.study_progress import study_progress

SECONDS = 7.5


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Study:
    """A study in a folder, answered by raters who each see every task."""

    def __init__(self, folder, toml):
        self.folder = folder
        self.path = folder / "study.toml"
        self.path.write_text(toml)
        self.plan = read_plan(self.path)
        self.log = StudyLog.open(folder / "study.db")
        self.log.begin(self.plan, build_tasks(self.plan))
        self.keys = Counter()

    def join(self, number):
        return [rater.id for rater in self.log.add_raters([f"hash{index}" for index in range(number)])]

    def answer(self, rater, value, page=None, **body):
        """Answer the next page, or a page again; False where there is none."""
        page = page or self.log.next_page(rater)
        if page is None:
            return False
        self.keys[rater] += 1
        body = {"order": list(page.order), "purpose": page.purpose, "seconds": SECONDS, **body}
        body["answer"] = value(rater, page.task)
        self.log.record(rater, "answered", f"{rater}-{self.keys[rater]}", page.task.id, body)
        return True

    def finish(self, number, value):
        raters = self.join(number)
        for rater in raters:
            while self.answer(rater, value):
                pass
        return raters

    def export(self, **options):
        return export_study(self.log, self.folder / "export", **options)


RATINGS = {
    "r1": {"1/ada": 1, "1/bert": 2, "2/ada": 3, "2/bert": 4},
    "r2": {"1/ada": 1, "1/bert": 3, "2/ada": 2, "2/bert": 4},
}


def by_system(task, values):
    return {choice.id: values[f"{task.item}/{choice.system}"] for choice in task.choices}


def overall(rater, task):
    return {"ratings": {choice: {"overall": value} for choice, value in by_system(task, RATINGS[rater]).items()}}


def captions(folder):
    texts = {"ada": "dog {}", "bert": "bert sees dog {} run"}
    for system, text in texts.items():
        lines(folder / f"{system}.jsonl", [{"id": str(n), "caption": text.format(n)} for n in (1, 2)])
    (folder / "refs.json").write_text(json.dumps({str(n): [f"a dog {n}", f"dog {n} runs"] for n in (1, 2)}))


RATED = """
title = "Which is best?"
kind = "ratings"
captions = ["ada.jsonl", "bert.jsonl"]
references = "refs.json"
together = 2
overlap = 3
[[aspects]]
name = "overall"
question = "How good?"
"""


@pytest.fixture
def rated(tmp_path):
    captions(tmp_path)
    return Study(tmp_path, RATED)


def test_ratings_go_into_a_study(rated, run):
    rated.finish(2, overall)
    result = rated.export()
    export = rated.folder / "export"
    assert isinstance(result, Export) and result.rows["ratings.jsonl"] == 8 and result.answers == 4
    first = rows_of(export / "ratings.jsonl")[0]
    assert first == {
        "id": "1/ada",
        "item": "1",
        "system": "ada",
        "caption": "dog 1",
        "references": ["a dog 1", "dog 1 runs"],
        "rater": "r1",
        "rating": 1,
        "overall": 1,
        "seconds": SECONDS,
        "late": False,
    }
    scores = export.parent / "mine.csv"
    scores.write_text("id,mine\n1/ada,1\n1/bert,2\n2/ada,3\n2/bert,4\n")
    for source in (export / "ratings.jsonl", export / "ratings.toml"):
        code, out, error = run("study", "run", source, "--scores", scores, "--samples", 0, "--json")
        assert code == 0, error
        (metric,) = json.loads(out)["metrics"]
        # Rows (value, rating): (1,1) (1,1) (2,2) (2,3) (3,3) (3,2) (4,4) (4,4). Of 28 pairs 4 are tied in the values, 4
        # in the ratings, 2 of them in both; of the other 22 one is discordant: (21 − 1) / √((28 − 4) (28 − 4)).
        assert metric["statistics"]["tau_b"]["value"] == pytest.approx(20 / 24)
    assert run("study", "run", "ratings.toml", "--data", export, "-m", "rouge", "--samples", 0)[0] == 0
    agreement = json.loads(run("study", "agreement", export / "ratings.jsonl", "--samples", 0, "--json")[1])
    # Units (1,1) (2,3) (3,2) (4,4): D_o = (2 · 1 + 2 · 1) / 8; D_e = 4 · 40 / (8 · 7), since 40 is the sum of (c − k)²
    # over ordered pairs of 1, 2, 3, 4.
    assert agreement["alpha"]["estimate"]["value"] == pytest.approx(1 - (4 / 8) / (160 / 56))
    assert [rater["name"] for rater in agreement["raters"]] == ["r1", "r2"]
    recipe = (export / "ratings.toml").read_text()
    assert 'statistic = "tau_b"' in recipe and "scale = [1, 5]" in recipe and 'title = "Which is best?"' in recipe
    assert (export / "study.toml").read_text() == rated.plan.text


def test_the_last_answer_counts_and_all_are_in_the_log(rated):
    (rater,) = rated.join(1)
    page = rated.log.next_page(rater)
    rated.answer(rater, lambda rater, task: {"ratings": {choice.id: {"overall": 5} for choice in task.choices}}, page)
    rated.answer(rater, overall, rated.log.find_task_page(rater, page.task.id, "work"), comment="I was wrong")
    rated.export()
    rows = rows_of(rated.folder / "export" / "ratings.jsonl")
    assert {row["id"]: row["rating"] for row in rows} == {
        key: value for key, value in RATINGS["r1"].items() if key.startswith(page.task.item)
    }
    assert {row["comment"] for row in rows} == {"I was wrong"}
    events = rows_of(rated.folder / "export" / "events.jsonl")
    assert [event["kind"] for event in events if event["kind"] == "answered"] == ["answered"] * 2
    assert [event["seq"] for event in events] == sorted(event["seq"] for event in events)


def test_an_excluded_rater_is_left_out_and_counted(rated, run):
    rated.finish(2, overall)
    rated.log.exclude("r2", "failed 3 of 4 checks")
    result = rated.export()
    export = rated.folder / "export"
    assert {row["rater"] for row in rows_of(export / "ratings.jsonl")} == {"r1"}
    assert (result.answers, result.excluded_raters, result.excluded_answers) == (2, 1, 2)
    assert "left out: 2 answers of 1 excluded rater" in str(result)
    table = {row["rater"]: row for row in csv.DictReader((export / "raters.csv").open())}
    assert (table["r2"]["state"], table["r2"]["excluded"]) == ("excluded", "failed 3 of 4 checks")
    assert table["r1"]["median_seconds"] == str(SECONDS) and table["r1"]["tasks"] == "2"
    assert {event["rater"] for event in rows_of(export / "events.jsonl")} == {"r1", "r2"}
    rated.log.reinstate("r2", "a mistake of mine")
    assert rated.export(overwrite=True).answers == 4


def full_disk(columns, path):
    raise OSError("No space left on device")


def test_an_export_is_written_whole_and_never_over_another(rated, monkeypatch):
    rated.finish(1, overall)
    rated.export()
    with pytest.raises(InputError, match="overwrite"):
        rated.export()
    before = sorted((rated.folder / "export").iterdir())
    monkeypatch.setattr("captious.studio.owner.export.write_csv", full_disk)
    with pytest.raises(OSError, match="No space left"):
        rated.export(overwrite=True)
    assert sorted((rated.folder / "export").iterdir()) == before
    assert not [path for path in rated.folder.iterdir() if path.name.startswith(".")]


def test_the_command_prints_the_files_and_counts_as_json(rated, run, tmp_path):
    rated.finish(2, overall)
    out = tmp_path / "a" / "b"
    code, printed, _ = run("studio", "export", rated.path, "--out", out)
    assert code == 0 and "ratings.jsonl" in printed and "4 answers" in printed
    assert {path.name for path in out.iterdir()} == {
        *("ratings.jsonl", "ratings.toml", "study.toml", "raters.csv", "events.jsonl", "captious-output.json"),
        "participants.json",
    }
    code, printed, _ = run("studio", "export", rated.path, "--out", out, "--overwrite", "--json")
    counts = json.loads(printed)
    assert (counts["answers"], counts["excluded_answers"], counts["late"]) == (4, 0, 0)
    assert counts["rows"]["ratings.jsonl"] == 8 and counts["rows"]["raters.csv"] == 2
    code, _, error = run("studio", "export", rated.path, "--out", out)
    assert code == 2 and error.count("\n") == 1 and "--overwrite" in error


def test_a_study_that_nobody_has_begun_or_answered(tmp_path, run):
    captions(tmp_path)
    (tmp_path / "study.toml").write_text(RATED)
    code, _, error = run("studio", "export", tmp_path / "study.toml", "--out", tmp_path / "export")
    assert code == 2 and "contains no study yet" in error and not (tmp_path / "export").exists()
    Study(tmp_path, RATED)
    assert run("studio", "export", tmp_path / "study.toml", "--out", tmp_path / "export")[0] == 0
    assert (tmp_path / "export" / "ratings.jsonl").read_text() == ""


SEVERAL = (
    RATED.replace('[[aspects]]\nname = "overall"', '[[aspects]]\nname = "fluency"')
    + """
[[aspects]]
name = "detail"
question = "How detailed?"
scale = [0, 10]
"""
)


def aspects(rater, task):
    return {
        "ratings": {key: {"fluency": value, "detail": None} for key, value in by_system(task, RATINGS[rater]).items()}
    }


def test_several_aspects_without_an_overall_one(tmp_path, run):
    captions(tmp_path)
    study = Study(tmp_path, SEVERAL.replace("overlap = 3", "overlap = 3\ncannot_judge = true"))
    study.finish(2, aspects)
    study.export()
    row = rows_of(tmp_path / "export" / "ratings.jsonl")[0]
    assert row["rating"] == row["fluency"] == 1 and row["detail"] is None  # the first aspect stands for the rating
    by_name = run(
        "study", "run", tmp_path / "export" / "ratings.jsonl", "--rating", "fluency", "-m", "rouge", "--samples", 0
    )
    by_recipe = run("study", "run", tmp_path / "export" / "ratings.toml", "-m", "rouge", "--samples", 0)
    assert (by_name[0], by_recipe[0]) == (0, 0)


@pytest.mark.parametrize(
    ("formula", "rating", "scale"),
    [("mean", 3.0, None), ("fluency - detail / 2", 2 - 4 / 2, None)],
)
def test_a_computed_overall_rating(tmp_path, formula, rating, scale):
    captions(tmp_path)
    study = Study(tmp_path, SEVERAL.replace("overlap = 3", f'overlap = 3\noverall = "{formula}"'))
    study.finish(1, lambda rater, task: {"ratings": {one.id: {"fluency": 2, "detail": 4} for one in task.choices}})
    study.export()
    assert {row["rating"] for row in rows_of(tmp_path / "export" / "ratings.jsonl")} == {rating}
    assert "scale" not in (tmp_path / "export" / "ratings.toml").read_text()  # aspects of different scales


def test_a_late_answer_is_there_and_marked(tmp_path):
    captions(tmp_path)
    study = Study(tmp_path, RATED.replace("overlap = 3", 'overlap = 1\nlease = "1 min"'))
    slow, quick = study.join(2)
    begin = datetime(2030, 1, 1, tzinfo=timezone.utc)
    page = study.log.next_page(slow, begin)
    later = begin + timedelta(minutes=5)
    while (other := study.log.next_page(quick, later)) is not None:
        body = {"order": list(other.order), "purpose": "work", "answer": overall("r2", other.task), "seconds": 1.0}
        study.log.record(quick, "answered", f"quick-{other.task.id}", other.task.id, body, later)
    body = {"order": list(page.order), "purpose": "work", "answer": overall("r1", page.task), "seconds": 1.0}
    assert study.log.record(slow, "answered", "slow", page.task.id, body, later).late
    result = study.export()
    rows = rows_of(tmp_path / "export" / "ratings.jsonl")
    assert {row["rater"]: row["late"] for row in rows} == {"r1": True, "r2": False}
    assert result.late == 1 and "3 answers, 1 of them late" in str(result)


def test_checks_and_repeats_are_kept_apart(tmp_path):
    captions(tmp_path)
    lines(tmp_path / "gold.jsonl", [{"id": "9", "captions": ["a dog", "x x x"], "expected": {"2": [1, 2]}}])
    checks = '[checks]\ngold = "gold.jsonl"\nevery = 1\nrepeat = 1\n'
    study = Study(tmp_path, RATED.replace("[[aspects]]", f"{checks}[[aspects]]"))

    def value(rater, task):
        if task.gold is None:
            return overall(rater, task)
        return {"ratings": {choice.id: {"overall": 5} for choice in task.choices}}

    study.finish(1, value)
    study.export()
    export = tmp_path / "export"
    assert {row["item"] for row in rows_of(export / "ratings.jsonl")} == {"1", "2"}
    assert len(rows_of(export / "ratings.jsonl")) == 4
    (check,) = rows_of(export / "gold.jsonl")
    assert (check["item"], check["rater"], check["passed"]) == ("9", "r1", False) and check["expected"]
    repeated = rows_of(export / "repeats.jsonl")
    assert len(repeated) == 2 and {row["rater"] for row in repeated} == {"r1"}
    (rater,) = csv.DictReader((export / "raters.csv").open())
    assert (rater["checks_passed"], rater["checks_failed"], rater["tasks"]) == ("0", "1", "2")


PAIRS = {
    "r1": {"1": "ada", "2": "bert", "3": "ada", "4": None},
    "r2": {"1": "ada", "2": "bert", "3": "bert", "4": None},
}


def test_pairs_go_into_a_study_and_into_agreement(tmp_path, run):
    for system in ("ada", "bert"):
        rows = [{"id": str(n), "caption": f"a dog {n}" if system == "ada" else f"a cat {n}"} for n in range(1, 5)]
        lines(tmp_path / f"{system}.jsonl", rows)
    (tmp_path / "refs.json").write_text(json.dumps({str(n): [f"a dog {n}"] for n in range(1, 5)}))
    study = Study(
        tmp_path,
        'title = "Better?"\nkind = "pairs"\ncaptions = ["ada.jsonl", "bert.jsonl"]\nties = true\n'
        'references = "refs.json"\n',
    )

    def preferred(rater, task):
        system = PAIRS[rater][task.item]
        chosen = next((choice.id for choice in task.choices if choice.system == system), None)
        return {"preferred": chosen, "both_bad": False}

    study.finish(2, preferred)
    study.export()
    export = tmp_path / "export"
    row = rows_of(export / "pairs.jsonl")[0]
    assert row["id"] == "1/ada-bert/r1" and row["captions"] == ["a dog 1", "a cat 1"] and row["preferred"] == 0
    assert (row["category"], row["rater"], row["references"]) == ("ada-bert", "r1", ["a dog 1"])
    for source in ("pairs.jsonl", "pairs.toml"):
        code, out, error = run("study", "run", export / source, "-m", "rouge", "--samples", 0, "--json")
        assert code == 0, error
        # The metric prefers ada always; people do in three of six answers, two more are ties.
        assert json.loads(out)["metrics"][0]["statistics"]["mean"]["value"] == 0.5
        assert json.loads(out)["dropped"] == {"people see no difference": 2}
        code, out, error = run("study", "agreement", export / source, "--samples", 0, "--json")
        assert code == 0, error
        # Coincidences of 0, 1 and tie: 00 2, 11 2, tie-tie 2, 01 and 10 1 each; D_o = 2/8, D_e = 42/56.
        assert json.loads(out)["alpha"]["estimate"]["value"] == pytest.approx(1 - (2 / 8) / (42 / 56))
    (question,) = study_progress(study.log).questions  # what the owner's page shows
    assert question.alpha.estimate.value == pytest.approx(1 - (2 / 8) / (42 / 56))


RANKS = {"r1": (3, 2, 1), "r2": (1, 2, 3), "r3": (3, 2, 1)}


def test_rankings_go_into_style_correlate(tmp_path, run):
    texts = ["a fine day", "a day", "the grey dog weeps"]
    corpus = [
        ("happy", "a fine day"),
        ("happy", "a fine dog"),
        ("gloomy", "the grey dog weeps"),
        ("gloomy", "grey day"),
    ]
    save(fit(corpus, tokenizer="plain", name="moods"), tmp_path / "moods.style")
    sets = [{"id": f"happy-{n}", "style": "happy", "captions": texts} for n in (1, 2)]
    lines(tmp_path / "sets.jsonl", sets)
    study = Study(tmp_path, 'title = "Styles"\nkind = "ranking"\ntasks = "sets.jsonl"\nbest = "last"\n')

    def ranks(rater, task):
        by_text = dict(zip(texts, RANKS[rater], strict=True))
        return {"ranks": {choice.id: by_text[choice.text] for choice in task.choices}}

    study.finish(3, ranks)
    study.export()
    rows = rows_of(tmp_path / "export" / "rankings.jsonl")
    assert len(rows) == 18
    row = next(row for row in rows if row["caption"] == "a fine day")
    assert (row["style"], row["set"], row["rater"], row["rank"]) == ("happy", "happy-1", "r1", 3)
    code, out, error = run(
        "style", "correlate", tmp_path / "moods.style", tmp_path / "export" / "rankings.jsonl", "--json"
    )
    assert code == 0, error
    (style,) = json.loads(out)["styles"]
    # Two of three raters rank 3, 2, 1, and OnlyStyle orders the three captions in the same way in both sets.
    assert [one["set"] for one in style["sets"]] == ["happy-1", "happy-2"] and style["raters"] == 3
    assert style["spearman"] == pytest.approx(1.0)


def test_answers_go_into_entity_recall(tmp_path, run):
    tasks = [
        {"task": f"{n}.png", "painter": "p", "text": f"a dog and a cat {n}", "seed": 0, "picture": f"{n}.png"}
        | {"question": "?", "entities": ["dog", "cat"], "rater": None, "seen": {"dog": None, "cat": None}}
        for n in (1, 2)
    ]
    lines(tmp_path / "tasks.jsonl", tasks)
    study = Study(tmp_path, 'title = "Seen"\nkind = "yesno"\ntasks = "tasks.jsonl"\ncannot_judge = true\n')
    answers = {
        ("r1", "1.png"): (True, True),
        ("r1", "2.png"): (True, False),
        ("r2", "1.png"): (True, None),
        ("r2", "2.png"): (None, None),
    }

    def seen(rater, task):
        return {"seen": dict(zip(("dog", "cat"), answers[rater, task.fields.get("picture") or task.item], strict=True))}

    study.finish(2, seen)
    study.export()
    rows = rows_of(tmp_path / "export" / "answers.jsonl")
    assert [(row["rater"], row["entities"], row["seen"]) for row in rows] == [
        ("r1", ["dog", "cat"], {"dog": True, "cat": True}),
        ("r2", ["dog"], {"dog": True}),
        ("r1", ["dog", "cat"], {"dog": True, "cat": False}),
    ]
    assert (rows[0]["painter"], rows[0]["text"], rows[0]["picture"]) == ("p", "a dog and a cat 1", "1.png")
    code, out, error = run("probe", "recall", tmp_path / "export" / "answers.jsonl", "--samples", 0, "--json")
    assert code == 0, error
    assert json.loads(out)["recall"]["p"]["value"] == 4 / 5  # four of five answers are yes


LABELED = """
title = "Age"
kind = "labels"
tasks = "images.jsonl"
label = "age"
merge = "relic"
votes = 1
[[options]]
name = "young"
key = "y"
[[options]]
name = "old"
key = "o"
[[options]]
name = "none"
key = "n"
"""


def test_labels_go_into_the_bias_audit(tmp_path, run):
    ids = [str(n) for n in range(26)]
    lines(tmp_path / "images.jsonl", [{"id": key, "text": f"picture {key}"} for key in ids])
    study = Study(tmp_path, LABELED)

    def label(rater, task):
        key = int(task.item)
        truth = ("old", "young")[key % 2]
        if key == 24:  # old against young at a tie
            return {"label": "old" if rater == "r1" else "young"}
        if key == 25:  # a label beats none
            return {"label": "young" if rater == "r1" else "none"}
        return {"label": truth}

    study.finish(2, label)
    study.export()
    humans = tmp_path / "export" / "humans.jsonl"
    rows = {row["id"]: row for row in rows_of(humans)}
    assert len(rows) == 26 and rows["0"]["age"] == "old" and rows["0"]["age_votes"] == {"r1": "old", "r2": "old"}
    assert (rows["24"]["age"], rows["25"]["age"]) == (None, "young")
    preds = [
        {"id": key, "caption": f"a person {key}", "references": [f"a {rows[key]['age']} person", "somebody"]}
        for key in ids
    ]
    arguments = (
        lines(tmp_path / "preds.jsonl", preds),
        "--label",
        "age",
        "--labels",
        humans,
        "--seeds",
        1,
        "--no-cache",
    )
    code, out, error = run("bias", "lic", *arguments, "--json")
    assert code == 0, error
    assert "1 image (24) without a label left out" in out


TASKS = ("t1", "t2", "t10")
ANSWERS = st.lists(
    st.tuples(
        st.sampled_from(["r1", "r2", "r3", "r10"]),
        st.sampled_from(TASKS),
        st.sampled_from(["work", "repeat"]),
        st.sampled_from([1, 2, 3, None]),
        st.booleans(),
    ),
    unique_by=lambda one: one[:3],
)


@settings(max_examples=60, deadline=None)
@given(ANSWERS, st.randoms(use_true_random=False))
def test_rows_do_not_depend_on_the_order_of_arrival(tmp_path_factory, drawn, random):
    plan = Plan(tmp_path_factory.getbasetemp() / "s.toml", "T", "ratings", aspects=(Aspect("overall", "?"),))
    tasks = {key: Task(key, f"i{key}", choices=(Choice("a", "x", "s"), Choice("b", "y", "t"))) for key in TASKS}

    def answered(seq, one):
        rater, task, purpose, value, late = one
        answer = {"ratings": {"a": {"overall": value}, "b": {"overall": 1}}}
        at = datetime.fromtimestamp(seq, timezone.utc)
        return Answered(rater, task, purpose, answer, ("a", "b"), 1.0, late, rater == "r3", at, seq)

    shuffled = random.sample(drawn, len(drawn))
    one, other = (
        build_answer_tables(
            plan, dict(random.sample(list(tasks.items()), 3)), [answered(*pair) for pair in enumerate(order)]
        )
        for order in (drawn, shuffled)
    )
    assert json.dumps(one) == json.dumps(other)
    counted = [one for one in drawn if one[0] != "r3" and one[2] == "work"]
    assert len(one["ratings.jsonl"]) == 2 * len(counted)
    assert sum(row["late"] for row in one["ratings.jsonl"]) == 2 * sum(row[4] for row in counted)


@settings(max_examples=4, deadline=None)
@given(st.lists(st.sampled_from([0, 1]), min_size=3, max_size=3))
def test_an_export_does_not_depend_on_who_came_first(tmp_path_factory, turns):
    exports = []
    for first in ([], turns):
        folder = tmp_path_factory.mktemp("study")
        captions(folder)
        study = Study(folder, RATED)
        raters = study.join(2)
        for turn in first:
            study.answer(raters[turn], overall)
        study.finish(2, overall)
        study.export()
        names = ("ratings.jsonl", "ratings.toml", "raters.csv", "study.toml")
        exports.append({name: (folder / "export" / name).read_text() for name in names})
    assert exports[0] == exports[1]


def points(plan, task, number):
    """The number-th point of every scale for the first caption, the next one for the second, and so on."""
    return {
        choice.id: {aspect.name: aspect.points[(number + place) % len(aspect.points)] for aspect in plan.aspects}
        for place, choice in enumerate(sorted(task.choices, key=lambda choice: choice.system))
    }


@pytest.mark.parametrize("template", ["capeval1k", "imagine-likert", "thumb"])
def test_rating_protocols_of_papers_go_into_a_study(tmp_path, run, template):
    from PIL import Image

    words = ["a", "small", "dog", "runs", "over", "green", "grass"]
    (tmp_path / "photos").mkdir()
    for n in range(4):
        Image.new("RGB", (8, 8)).save(tmp_path / "photos" / f"{n}.png")
    for length, system in zip((2, 3, 4, 5, 6), "abcde", strict=True):
        rows = [{"id": str(n), "caption": " ".join(words[:length]) + f" {n}"} for n in range(4)]
        lines(tmp_path / f"{system}.jsonl", rows)
    (tmp_path / "refs.json").write_text(json.dumps({str(n): [" ".join([*words, str(n)])] for n in range(4)}))
    study = Study(
        tmp_path,
        new_plan(
            tmp_path / "study.toml",
            template=template,
            captions=[str(tmp_path / f"{name}.jsonl") for name in ("abcd" if template == "capeval1k" else "abcde")],
            references=tmp_path / "refs.json",
            images=None if template == "imagine-likert" else tmp_path / "photos",
        ),
    )
    study.finish(2, lambda rater, task: {"ratings": points(study.plan, task, int(task.item))})
    study.export()
    export = tmp_path / "export"
    code, out, error = run("study", "run", export / "ratings.toml", "-m", "rouge,cider", "--samples", 0, "--json")
    assert code == 0, error
    assert json.loads(out)["images"] == 4
    assert run("study", "agreement", export / "ratings.jsonl", "--measurement", "ordinal", "--samples", 0)[0] == 0
    first = rows_of(export / "ratings.jsonl")[0]
    if template == "thumb":  # (P + R) / 2 + Fl + Con + Inc, each at its first point
        assert first["rating"] == (1 + 1) / 2 - 1 - 1 - 1 and first["image"] == "0.png"
        assert "scale" not in (export / "ratings.toml").read_text()
    if template == "imagine-likert":
        assert first["rating"] == 1 and "scale = [1, 5]" in (export / "ratings.toml").read_text()


def test_the_protocol_of_relic_goes_into_the_bias_audit(tmp_path, run):
    from PIL import Image

    (tmp_path / "photos").mkdir()
    for n in range(30):
        Image.new("RGB", (8, 8)).save(tmp_path / "photos" / f"{n}.png")
    study = Study(tmp_path, new_plan(tmp_path / "study.toml", template="relic-age", images=tmp_path / "photos"))

    def label(rater, task):
        key = int(task.item)
        return {"label": None if key == 0 else "none" if key == 1 else ("young", "old")[key % 2]}

    study.finish(2, label)
    study.export()
    rows = {row["id"]: row for row in rows_of(tmp_path / "export" / "humans.jsonl")}
    assert (rows["0"]["age"], rows["1"]["age"], rows["2"]["age"]) == (None, None, "young")
    assert rows["0"]["age_votes"] == {"r1": None, "r2": None} and rows["1"]["age_votes"] == {"r1": "none", "r2": "none"}
    preds = [{"id": str(n), "caption": f"somebody {n % 3}", "references": ["a person", "people"]} for n in range(30)]
    arguments = (lines(tmp_path / "preds.jsonl", preds), "--label", "age", "--mask", "age", "--seeds", 1, "--no-cache")
    code, _, error = run("bias", "lic", *arguments, "--labels", tmp_path / "export" / "humans.jsonl")
    assert code == 0, error
    assert "2 images (0, 1) without a label left out" in error


def votes_of(text):
    return {"o": "old", "y": "young", "n": "none"}[text] if text != "-" else None


@pytest.mark.parametrize(
    ("votes", "majority", "unanimous", "relic"),
    [
        ("o", "old", "old", "old"),
        ("n", None, None, None),
        ("on", None, None, "old"),  # a label beats none at a tie
        ("oy", None, None, None),  # old against young at a tie is dropped
        ("oyn", None, None, None),
        ("onn", None, None, None),
        ("oon", "old", None, "old"),
        ("ooy", "old", None, "old"),
        ("oo", "old", "old", "old"),
        ("o--", "old", "old", "old"),  # who cannot judge does not vote
        ("---", None, None, None),
    ],
)
def test_several_labels_become_one(tmp_path, votes, majority, unanimous, relic):
    task = Task("t1", "192")
    answers = [
        Answered(f"r{n}", "t1", "work", {"label": votes_of(vote)}, (), 1.0, False, False, datetime.now(timezone.utc), n)
        for n, vote in enumerate(votes, 1)
    ]
    for rule, expected in (("majority", majority), ("unanimous", unanimous), ("relic", relic)):
        plan = Plan(tmp_path / "s.toml", "T", "labels", label="age", merge=rule)
        assert build_answer_tables(plan, {"t1": task}, answers)["humans.jsonl"][0]["age"] == expected
        strict = build_answer_tables(replace(plan, votes=4), {"t1": task}, answers)
        assert strict["humans.jsonl"][0]["age"] is None  # fewer votes than the plan wants


def three_systems(folder):
    for length, system in enumerate(("ada", "bert", "carl"), 2):
        words = ["a", "small", "dog", "runs", "on", "the", "grass"]
        rows = [{"id": str(n), "caption": " ".join(words[: length + n])} for n in range(3)]
        lines(folder / f"{system}.jsonl", rows)
    return 'captions = ["ada.jsonl", "bert.jsonl", "carl.jsonl"]\n'


def test_rankings_of_captions_go_into_a_study(tmp_path, run):
    study = Study(tmp_path, f'title = "Order"\nkind = "ranking"\n{three_systems(tmp_path)}')
    orders = {
        "0": {"ada": 1, "bert": 2, "carl": 3},
        "1": {"ada": 3, "bert": 2, "carl": 1},
        "2": {"ada": 1, "bert": 3, "carl": 2},
    }

    def ranks(rater, task):
        return {"ranks": {choice.id: orders[task.item][choice.system] for choice in task.choices}}

    study.finish(2, ranks)
    study.export()
    export = tmp_path / "export"
    first = rows_of(export / "rankings.jsonl")[0]
    assert first["id"] == "0/ada" and first["rank"] == 1 and "style" not in first
    scores = tmp_path / "mine.csv"
    values = [f"{item}/{system},{n}\n" for item in "012" for n, system in enumerate(("ada", "bert", "carl"))]
    scores.write_text("id,mine\n" + "".join(values))
    code, out, error = run("study", "run", export / "rankings.toml", "--scores", scores, "--samples", 0, "--json")
    assert code == 0, error
    (metric,) = json.loads(out)["metrics"]
    # The metric orders ada, bert, carl: tau within the items is 1, −1, and (2 − 1) / 3.
    assert metric["statistics"]["sample_tau"]["value"] == pytest.approx((1 - 1 + 1 / 3) / 3)


def test_the_next_command_is_the_one_of_the_kind(tmp_path):
    file, row = tmp_path / "my export" / "humans.jsonl", {"rater": "r1"}
    labels = Plan(tmp_path / "s.toml", "T", "labels", label="age")
    assert list_next_commands(labels, [], [row], file) == (f"captious bias lic CAPTIONS --label age --labels '{file}'",)
    ranking = replace(labels, kind="ranking")
    styled = [Task("t1", fields={"style": "happy"})]
    assert list_next_commands(ranking, styled, [row], Path("e/r.jsonl")) == (
        "captious style correlate MODEL e/r.jsonl",
    )
    yesno = replace(labels, kind="yesno")
    assert list_next_commands(yesno, [], [row], Path("e/a.jsonl")) == ("captious probe recall e/a.jsonl",)
    assert list_next_commands(yesno, [], [], Path("e/a.jsonl")) == (f"captious studio status {tmp_path / 's.toml'}",)


def test_labels_of_captions_have_a_row_for_each_caption(tmp_path):
    options = '[[options]]\nname = "right"\n[[options]]\nname = "wrong"\n'
    study = Study(tmp_path, f'title = "Right?"\nkind = "labels"\nlabel = "truth"\n{three_systems(tmp_path)}{options}')
    study.finish(1, lambda rater, task: {"label": "right" if task.choices[0].system == "ada" else "wrong"})
    study.export()
    rows = rows_of(tmp_path / "export" / "humans.jsonl")
    assert [(row["id"], row["system"], row["truth"]) for row in rows[:2]] == [
        ("0/ada", "ada", "right"),
        ("0/bert", "bert", "wrong"),
    ]
    assert len(rows) == 9


WORDS = ["a", "dog", "cat", "runs", "on", "the", "green", "grass", "near", "big", "house", "with", "red", "ball"]


@pytest.mark.parametrize(
    ("kind", "systems", "references", "raters", "expected"),
    [
        ("ratings", 2, True, 6, ["study systems", "study run"]),
        ("ratings", 2, False, 6, ["study systems"]),
        ("ratings", 1, True, 6, ["study run"]),
        ("ratings", 1, False, 6, ["study agreement"]),
        ("ratings", 1, False, 1, ["studio status"]),
        ("pairs", 2, True, 6, ["study systems", "study run"]),
        ("pairs", 2, False, 1, ["study systems"]),
        ("ranking", 3, True, 6, ["study systems", "study run"]),
        ("ranking", 3, False, 6, ["study systems"]),
    ],
)
def test_the_proposed_commands_fit_the_study_and_succeed(
    kind, systems, references, raters, expected, tmp_path, run, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for system in range(systems):
        texts = [" ".join(WORDS[item * (system + 2) % 9 :][: 4 + (item + system) % 4]) for item in range(12)]
        rows = [json.dumps({"id": str(item), "caption": text}) for item, text in enumerate(texts)]
        Path(f"s{system}.jsonl").write_text("\n".join(rows), encoding="utf-8")
    rows = [json.dumps({"id": str(item), "references": [" ".join(WORDS[item % 9 :][:6])]}) for item in range(12)]
    Path("refs.jsonl").write_text("\n".join(rows), encoding="utf-8")
    files = [*(f"s{system}.jsonl" for system in range(systems)), *(["--references", "refs.jsonl"] * references)]
    assert run("studio", "new", "study.toml", "--kind", kind, "--captions", *files)[0] == 0
    assert run("studio", "simulate", "study.toml", "--raters", raters)[0] == 0
    _, printed, _ = run("studio", "export", "study.toml", "--out", "export", "--json")
    commands = json.loads(printed)["next"]
    assert [" ".join(line.split()[1:3]) for line in commands] == expected
    for line in commands:
        name, *words = shlex.split(line)
        assert name == "captious" and run(*words, "--json")[0] == 0, line
