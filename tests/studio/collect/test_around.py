"""Around the tasks: practice with feedback, questions about the rater, distances of checks, a time limit."""

import json
import re
from collections import Counter
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'captious[studio]'")
from PIL import Image
from starlette.testclient import TestClient
from tests.studio.logs import answer, assert_whole
from tests.studio.studies import KINDS, OWNER, THINGS, make_plan, make_tasks

from captious.errors import InputError
from captious.studio._study_app import build_app
from captious.studio.access import Limit, Rules, hash_token, make_token
from captious.studio.collect._events import RaterHistory, count_gold_due, count_pages, list_due_tasks
from captious.studio.collect._survey import read_survey
from captious.studio.collect.amend import amend_study
from captious.studio.collect.kinds import Incomplete, kind_of
from captious.studio.collect.log import StudyLog, open_study
from captious.studio.collect.rating_tasks import Choice, Task, build_tasks
from captious.studio.collect.study_check import check_plan
from captious.studio.collect.study_plan import Checks, Source, SurveyQuestion, parse_plan
from captious.studio.owner.export import export_study
from captious.studio.owner.simulate import simulate_raters
from captious.studio.owner.study_progress import study_progress

AGE = SurveyQuestion("age", "How old are you?", "number", low=1, high=120, screen_out=("below 18",))
EYES = SurveyQuestion("eyes", "Do you see well?", options=("yes", "no"), screen_out=("no",))
REMARKS = SurveyQuestion("remarks", "Anything else?", "text", "after", optional=True)
GOLD = {
    "ratings": {"ratings": {"a": {"correctness": [4, 5]}}},
    "ranking": {"ranks": {"a": 1, "b": 2}},
    "pairs": {"preferred": "b"},
    "yesno": {"seen": {THINGS[0]: True}},
    "labels": {"label": ["old"]},
}
EXPECTED = {
    "ratings": [("Caption 1 · correctness", "5", "4 – 5", True)],
    "ranking": [("", "Caption 1 > Caption 2", "Caption 2 > Caption 1", False)],
    "pairs": [("", "Equally good", "Caption B", False)],
    "yesno": [(THINGS[0], "No", "Yes", False)],
    "labels": [("", "Young <i>", "old", False)],
}


class Around:
    """A study with practice and questions, and a browser in it."""

    def __init__(self, folder, kind="labels", practice=2, work=2, **options):
        plan = replace(make_plan(folder, kind, **options), text="")
        tasks = make_tasks(folder, kind, practice + work, ("a dog", "a cat"))
        learnt = [
            replace(task, id=f"p{place}", gold=GOLD[kind], explanation=f"Because **{place}**.")
            for place, task in enumerate(tasks[work:], 1)
        ]
        self.log = StudyLog.open(Path(folder) / "study.db")
        self.log.begin(plan, [*tasks[:work], *learnt])
        self.app = build_app(self.log.plan(), self.log, Rules(), "http://127.0.0.1", OWNER, Limit(1000, seconds=1))
        self.enter()

    def enter(self):
        """A new rater with a browser of their own."""
        token = make_token()
        (self.rater,) = self.log.add_raters([hash_token(token)])
        self.browser = TestClient(self.app, base_url="http://127.0.0.1:8765", raise_server_exceptions=False)
        self.page = self.browser.get(f"/r/{token}")

    def send(self, **answer):
        """Send the form of the page."""
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', self.page.text))
        (action,) = re.findall(r'<form[^>]* action="(/\w+)"', self.page.text)
        self.page = self.browser.post(action, data={**hidden, **answer})
        return self.page

    def go(self, path):
        self.page = self.browser.get(path)
        return self.page

    @property
    def path(self):
        return self.page.url.path

    def says(self, text):
        return text in unescape(self.page.text)


def test_a_practice_round_teaches_and_does_not_count(tmp_path):
    study = Around(tmp_path, overlap=1)
    assert study.says("Practice 1 of 2") and study.says("your answer does not count")
    study.send(label="young")
    assert study.path.startswith("/feedback/") and study.says("That is not what was expected")
    assert study.says("Your answer: Young <i>") and study.says("Expected: old")
    assert '<p dir="auto">Because <strong>1</strong>.</p>' in study.page.text
    study.go("/task")
    assert study.says("Practice 2 of 2") and study.send(label="old") and study.says("That is right")
    assert study.says("The practice is over")
    study.go("/task")
    assert study.says("Task 1 of 2") and "/task/" not in study.page.text  # no way back into the practice
    study.send(label="old")
    assert study.says("Task 2 of 2") and study.send(label="none")
    assert study.path == "/done" and study.says("2 answers are saved.")
    assert [one.purpose for one in study.log.answers()] == ["practice", "practice", "work", "work"]
    progress = study_progress(study.log)
    assert progress.coverage.answers == 2 and progress.raters[0].tasks == 2 and progress.time.pages == 2
    assert (progress.raters[0].passed, progress.raters[0].failed) == (0, 0)
    assert_whole(study.log)
    export = export_study(study.log, tmp_path / "export")
    assert export.rows["humans.jsonl"] == 2 and export.rows["practice.jsonl"] == 2 and "gold.jsonl" not in export.rows
    rows = [json.loads(line) for line in (tmp_path / "export" / "practice.jsonl").read_text().splitlines()]
    assert [row["passed"] for row in rows] == [False, True]


def test_nobody_practices_where_nothing_is_left(tmp_path):
    study = Around(tmp_path, practice=1, work=1, overlap=1)
    first = study.rater
    study.send(label="old")
    study.go("/task")
    study.send(label="old")
    study.enter()
    assert study.path == "/full" and study.log.history(study.rater.id) == []
    assert study.log.history(first.id) == [("p1", "practice"), ("t1", "work")]


def test_a_page_of_practice_can_be_corrected(tmp_path):
    study = Around(tmp_path, practice=1)
    study.send(label="young")
    (again,) = re.findall(r'href="(/task/\w+)"', study.page.text)
    study.go(again)
    assert study.says("Practice 1 of 1") and study.send(label="old") and study.says("That is right")
    assert study.browser.get("/feedback/unknown").url.path == "/task"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_what_was_expected(kind, tmp_path):
    plan = make_plan(tmp_path, kind)
    task = replace(make_tasks(tmp_path, kind, 1, ("a dog", "a cat"))[0], gold=GOLD[kind])
    order = THINGS if kind == "yesno" else ("a", "b")
    answers = {
        "ratings": {"ratings": {"a": {"correctness": 5, "fluency": 1}, "b": {"correctness": 1, "fluency": 1}}},
        "ranking": {"ranks": {"a": 2, "b": 1}},
        "pairs": {"preferred": None, "both_bad": False},
        "yesno": {"seen": dict.fromkeys(THINGS, False)},
        "labels": {"label": "young"},
    }
    compared = kind_of(plan).grade_answer(plan, task, order, answers[kind])
    assert [(one.about, one.given, one.expected, one.right) for one in compared] == EXPECTED[kind]


def test_questions_come_first_and_last(tmp_path):
    questions = (AGE, EYES, REMARKS)
    study = Around(tmp_path, practice=0, work=1, questions=questions, consent="Read this.", source=Source(done="C1"))
    assert study.path == "/consent"
    study.send(agree="yes")
    assert study.path == "/questions" and study.says("A few questions first") and not study.says("Anything else?")
    assert study.browser.get("/task").url.path == "/questions"
    study.send(**{"question:age": "200"})
    assert study.page.status_code == 422 and study.says("“How old are you?” needs a number from 1 to 120.")
    assert study.says("“Do you see well?” has no answer.") and 'value="200"' in study.page.text
    study.send(**{"question:age": "18", "question:eyes": "yes"})
    assert study.path == "/task"
    study.send(label="old")
    assert study.path == "/questions" and study.says("A few last questions") and study.says("(optional)")
    study.send(**{"question:remarks": ""})
    assert study.path == "/done" and study.says("C1")
    events = [event.body for event in study.log.events() if event.kind == "surveyed"]
    assert events == [
        {"when": "before", "answers": {"age": 18, "eyes": "yes"}},
        {"when": "after", "answers": {"remarks": None}},
    ]
    assert study.browser.get("/questions").url.path == "/done"
    assert_whole(study.log)
    export_study(study.log, tmp_path / "export")
    (row,) = map(json.loads, (tmp_path / "export" / "questions.jsonl").read_text().splitlines())
    assert row == {"rater": "r1", "age": 18, "eyes": "yes", "remarks": None, "screened": False}


def test_a_rater_who_is_screened_out_has_a_way_of_their_own(tmp_path):
    study = Around(tmp_path, practice=1, questions=(AGE,), source=Source(done="C1", screened="C3OUT"))
    form = study.page
    study.send(**{"question:age": "17"})
    assert study.path == "/screened" and study.says("C3OUT") and not study.says("C1")
    study.page = form  # back, to try another answer
    study.send(**{"question:age": "30"})
    assert study.path == "/screened"
    for path in ("/task", "/done", "/questions", "/full"):
        assert study.go(path).url.path == "/screened"
    assert study.log.next_page("r1") is None and all(slot.rater is None for slot in study.log.slots())
    assert len([event for event in study.log.events() if event.kind == "surveyed"]) == 1
    assert study_progress(study.log).raters[0].state == "screened"
    export_study(study.log, tmp_path / "export")
    assert json.loads((tmp_path / "export" / "questions.jsonl").read_text())["screened"] is True


def test_no_answer_is_taken_before_the_questions(tmp_path):
    study = Around(tmp_path, practice=0, questions=(AGE,))
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', study.page.text))
    assert study.browser.post("/task", data={**hidden, "label": "old"}).status_code == 403


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        (AGE, "18,5", 18.5),
        (AGE, "nan", None),
        (AGE, "1e3", None),
        (EYES, "maybe", None),
        (REMARKS, " a\r\nb ", "a\nb"),
        (replace(REMARKS, optional=False), " ", None),
        (REMARKS, "x" * 2001, None),
    ],
)
def test_answers_to_questions(question, text, answer):
    plan = make_plan(".", questions=(question,))
    form = {f"question:{question.name}": text}
    if answer is None:
        with pytest.raises(Incomplete):
            read_survey(plan, question.when, form)
    else:
        assert read_survey(plan, question.when, form) == ({question.name: answer}, [])


def test_checks_at_chosen_distances():
    plan = make_plan(".", checks=Checks("gold.jsonl", at=(1, 4)), per_rater=6)
    assert [count_gold_due(plan, work) for work in range(7)] == [0, 1, 1, 1, 2, 2, 2]
    assert count_pages(plan, 10, 5) == 8
    history, seen = RaterHistory(), []
    for _ in range(8):
        purpose, _ = next(list_due_tasks(plan, history, 10, ["g1", "g2", "g3"], "r1"))
        history.done[purpose] += 1
        if purpose == "gold":
            history.pages[f"g{history.done['gold']}", "gold"] = None
        seen.append(purpose)
    assert seen == ["work", "gold", "work", "work", "work", "gold", "work", "work"]


def test_a_time_limit_flags_and_rejects_nothing(tmp_path):
    study = Around(tmp_path, practice=0, work=3, limit=30.0, overlap=1)
    assert study.says("Please answer within 30 seconds.") and 'data-limit="30.0"' in study.page.text
    for seconds in ("10", "31", "45"):
        study.send(label="old", seconds=seconds)
    assert study.path == "/done" and study_progress(study.log).coverage.answers == 3
    (rater,) = study_progress(study.log).raters
    assert [flag.reason for flag in rater.flags if flag.name == "time limit"] == [
        "2 of 3 answers took longer than the limit"
    ]


def test_answers_beyond_the_limit_are_marked_in_the_export(tmp_path):
    study = Around(tmp_path, "pairs", practice=0, work=2, limit=30.0, overlap=1)
    for seconds in ("10", "31"):
        study.send(preferred="1", seconds=seconds)
    export_study(study.log, tmp_path / "export")
    rows = map(json.loads, (tmp_path / "export" / "pairs.jsonl").read_text().splitlines())
    assert sorted((row["seconds"], row["over_limit"]) for row in rows) == [(10, False), (31, True)]


# Groups of items


def strata_study(tmp_path, counts, **options):
    groups = [name for name, number in counts.items() for _ in range(number)]
    tasks = [Task(f"t{number}", f"im{number}", fields={"scene": name}) for number, name in enumerate(groups, 1)]
    plan = replace(make_plan(tmp_path, "labels", stratum="scene", **options), text="")
    log = StudyLog.open(tmp_path / "study.db")
    log.begin(plan, tasks)
    return log


@pytest.mark.parametrize("together", [1, 3])
def test_every_rater_sees_the_groups_in_their_proportion(together, tmp_path):
    # 12 tasks of the large group and 6 of each small one: with 8 tasks each, a rater has 4, 2 and 2 of them.
    log = strata_study(tmp_path, {"indoor": 12, "outdoor": 6, "water": 6}, overlap=2, per_rater=8)
    raters = [rater.id for rater in log.add_raters([f"hash{number}" for number in range(6)])]
    for several in [raters[start : start + together] for start in range(0, 6, together)]:
        for _ in range(8):  # several raters at once take turns, which must not give each a group of their own
            for rater in several:
                answer(log, rater, log.next_page(rater))
    tasks = log.tasks()
    for rater in raters:
        seen = Counter(tasks[task].fields["scene"] for task, _ in log.history(rater))
        assert max(abs(seen["indoor"] - 4), abs(seen["outdoor"] - 2), abs(seen["water"] - 2)) <= 1, (rater, seen)
    assert all(slot.done for slot in log.slots())
    assert_whole(log)


def test_quotas_draw_items_of_every_group(place):
    scenes = ["in"] * 4 + ["out"] * 2
    rows = [{"id": f"im{n}", "image": f"im{n}.png", "scene": scene} for n, scene in enumerate(scenes, 1)]
    (place / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    head = 'title = "x"\nkind = "labels"\nimages = "photos"\ntasks = "tasks.jsonl"\nstratum = "scene"\n'
    options = '[[options]]\nname = "a"\n[[options]]\nname = "b"\n'

    def built(quotas):
        return build_tasks(parse_plan(f"{head}quotas = {quotas}\n{options}", place / "study.toml"))

    assert Counter(task.fields["scene"] for task in built("{ in = 3, out = 1 }")) == {"in": 3, "out": 1}
    assert {task.fields["scene"] for task in built("{ out = 2 }")} == {"out"}
    with pytest.raises(InputError, match="quotas: out = 3, expected at most the 2 items there are"):
        built("{ out = 3 }")
    with pytest.raises(InputError, match=r"quotas = .*expected a table of groups and numbers"):
        built("{ out = 0 }")
    findings = check_plan(parse_plan(f"{head}{options}", place / "study.toml")).findings
    assert "tasks of every scene: in 4, out 2" in [finding.message for finding in findings]
    with pytest.raises(InputError, match=r"stratum = 'place': 6 ids .* without a value in that column"):
        build_tasks(parse_plan(head.replace("scene", "place") + options, place / "study.toml"))
    with pytest.raises(InputError, match="quotas without stratum"):
        parse_plan(head.replace('stratum = "scene"', "") + "quotas = { a = 1 }\n" + options, place / "study.toml")


# Files

TEXT = """title = "Ages"
kind = "labels"
images = "photos"
overlap = 2
per_rater = 4
limit = "90 s"
practice = "practice.jsonl"
consent = "Yes?"

[[options]]
name = "old"

[[options]]
name = "young"

[[questions]]
name = "age"
question = "How old are you?"
kind = "number"
low = 1
high = 120
screen_out = ["below 18"]

[[questions]]
name = "device"
question = "What do you use?"
options = ["a phone", "a computer"]
when = "after"

[checks]
gold = "gold.jsonl"
at = [1, 3]
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "extra").mkdir()
    for name in ("im1", "im2", "im3", "im4", "im5", "im6"):
        Image.new("RGB", (8, 6)).save(tmp_path / "photos" / f"{name}.png")
    (tmp_path / "ids.txt").write_text("im1\nim2\nim3\nim4\n")
    (tmp_path / "gold.jsonl").write_text(json.dumps({"id": "g", "image": "im5.png", "expected": "old"}) + "\n")
    rows = [{"id": "p", "image": "im6.png", "expected": "young", "explanation": "Because."}]
    (tmp_path / "practice.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "study.toml").write_text(TEXT.replace("overlap", 'ids = "ids.txt"\noverlap', 1))
    return tmp_path


def test_a_study_with_all_of_it_is_read_checked_and_simulated(place):
    result = check_plan(parse_plan((place / "study.toml").read_text(), place / "study.toml"))
    messages = [finding.message for finding in result.findings]
    assert result.errors == () and messages == [
        "1 gold task, and at = [1, 3] has room for 2 a rater",
        "1 gold task: nobody can fail flag.failed = 2",
    ]
    assert result.effort.pages == 5 and result.effort.minutes == 2.0  # and one page of practice, 20 s each
    plan, log = open_study(place / "study.toml")
    assert log.plan() == plan and plan.limit == 90 and plan.checks.at == (1, 3)
    simulation = simulate_raters(plan, log, raters=3, share={"careful": 1.0})
    assert simulation.progress.coverage.answers == 8
    purposes = {one.purpose for one in log.answers()}
    assert purposes == {"work", "gold", "practice"}
    told = [(event.rater, event.body["when"]) for event in log.events() if event.kind == "surveyed"]
    assert {when for _, when in told} == {"before", "after"} and len(told) == len({*told})
    assert_whole(log)
    export = export_study(log, place / "export")
    assert export.rows["questions.jsonl"] == 3 and export.rows["practice.jsonl"] == 3


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "im1", "expected": "old"}, "'im1' is asked about in the study, expected another for practice"),
        ({"id": "p", "image": "im6.png", "expected": "older"}, "expected is 'older', expected labels: old, young"),
        ({"id": "p", "image": "im6.png"}, "no column expected, expected the right answer under that name"),
        ({"id": "p", "image": "im6.png", "expected": "old", "explanation": 3}, "explanation is 3, expected a text"),
        ({"id": "p", "image": "none.png", "expected": "old"}, "none.png"),
    ],
)
def test_practice_that_makes_no_sense(place, row, message):
    (place / "practice.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match=re.escape(message)):
        build_tasks(parse_plan((place / "study.toml").read_text(), place / "study.toml"))


QUESTION = '[[questions]]\nname = "age"\nquestion = "How old?"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (QUESTION, "[[questions]] 1: options = [], expected at least two that differ"),
        (QUESTION + 'kind = "number"\noptions = ["a", "b"]', "options is for kind choice, and kind is number"),
        (QUESTION + 'kind = "number"\nlow = 5\nhigh = 5', "low = 5 and high = 5, expected a low that is lower"),
        (QUESTION + 'kind = "number"\nscreen_out = ["under 18"]', "screen_out has 'under 18', expected such as"),
        (QUESTION + 'kind = "text"\nscreen_out = ["x"]', "'x', expected such as 'below 18', of a kind number"),
        (QUESTION + 'options = ["a", "b"]\nscreen_out = ["c"]', "screen_out has 'c', expected options: a, b"),
        (QUESTION + 'options = ["a", "b"]\nscreen_out = ["a", "b"]', "screen_out has all options"),
        (QUESTION + 'options = ["a", "b"]\nwhen = "after"\nscreen_out = ["a"]', "expected when = 'before'"),
        (QUESTION.replace("age", "rater") + 'kind = "text"', "which is a column of the export already"),
        (QUESTION + 'kind = "text"\n' + QUESTION + 'kind = "text"', "[[questions]] 2: name = 'age' is taken"),
        ("[checks]\nat = [3, 3]", "at = [3, 3], expected a list of rising numbers, such as [3, 10, 25]"),
        ('[source]\nscreened = "a b"', "screened = 'a b', expected a code of letters"),
    ],
)  # fmt: skip
def test_mistakes_around_the_tasks(text, message):
    header = 'title = "x"\nkind = "labels"\nimages = "photos"\n[[options]]\nname = "a"\n[[options]]\nname = "b"\n'
    with pytest.raises(InputError, match=re.escape(message)):
        parse_plan(header + text, Path("study.toml"))


def test_what_the_design_lacks(place):
    path = place / "study.toml"
    text = path.read_text().replace("at = [1, 3]", "at = [9]").replace('limit = "90 s"', 'limit = "10 s"')
    text += '[panel]\nname = "prolific"\ncompleted = "C1"\n'
    (place / "practice.jsonl").write_text(json.dumps({"id": "p", "image": "im6.png", "expected": "old"}) + "\n")
    messages = [finding.message for finding in check_plan(parse_plan(text, path)).findings]
    for message in (
        "at = [9], and a rater has 4 tasks",
        "limit = 10 s is shorter than the expected seconds = 20",
        "[panel] has no address screened for those whom age screens out",
        "1 practice task (id p) without an explanation",
    ):
        assert message in messages, messages


def test_practice_and_questions_stay_as_they_were_in_an_amendment(place):
    path = place / "study.toml"
    _, log = open_study(path)
    text = path.read_text()
    path.write_text(text.replace("How old are you?", "What is your age?").replace('"90 s"', '"2 min"'))
    amendment, _ = amend_study(log, path, "a clearer question")
    assert [one["key"] for one in amendment.changes] == ["limit", "questions.age.question"]
    assert [task.id for task in log.tasks().values() if task.is_practice] == ["p1"]
    path.write_text(text.replace('["below 18"]', '["below 21"]'))
    with pytest.raises(InputError, match=r"questions\.age\.screen_out was .* which no amendment may change"):
        amend_study(log, path, "older raters")
    path.write_text(text.replace('practice = "practice.jsonl"\n', ""))
    with pytest.raises(InputError, match="raters have practiced other tasks"):
        amend_study(log, path, "no practice")


def test_a_task_of_practice_survives_the_database():
    task = Task("p1", "x", choices=(Choice("a", "a dog"),), gold={"label": ["old"]}, explanation="Because.")
    assert task.is_practice and task.to_dict()["explanation"] == "Because."
    assert not Task("t1").is_practice and not Task("photo").is_practice and "explanation" not in Task("t1").to_dict()
