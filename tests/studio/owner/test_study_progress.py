"""How a study stands: coverage, alpha, time and checks by hand; flags that find the odd raters and no others."""

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import krippendorff as package
import numpy as np
import pytest
from tests.studio.hostile import HOSTILE

from captious.options import Resampling
from captious.stats.rater_agreement import krippendorff, measure_disagreements
from captious.studio.collect._events import Event
from captious.studio.collect.rating_tasks import Choice, Task
from captious.studio.collect.study_plan import Aspect, Checks, LabelOption, Plan, Thresholds
from captious.studio.owner.raters import RaterAgreement
from captious.studio.owner.study_progress import compute_progress

ONCE = Resampling(samples=0)
START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
NAN = np.nan


class Story:
    """Events of a study, written one after another."""

    def __init__(self, plan, tasks):
        self.plan, self.tasks, self.events = plan, {task.id: task for task in tasks}, []

    def add(self, rater, kind, task=None, **body):
        seq = len(self.events) + 1
        n = sum(event.rater == rater for event in self.events) + 1
        self.events.append(Event(seq, f"k{seq}", START + timedelta(seconds=seq), rater, n, kind, task, body))

    def answer(self, rater, task, answer, seconds=10.0, purpose="work", late=False, comment=""):
        shown = self.tasks[task].things or [choice.id for choice in self.tasks[task].choices]
        order = list(shown)
        self.add(rater, "opened", task, purpose=purpose, order=order, place=0)
        body = {"answer": answer, "purpose": purpose, "order": order, "seconds": seconds, "late": late}
        self.add(rater, "answered", task, **body, comment=comment)

    def rate(self, rater, task, *ratings, **options):
        choices = self.tasks[task].choices
        values = {choice.id: {"overall": value} for choice, value in zip(choices, ratings, strict=True)}
        self.answer(rater, task, {"ratings": values}, **options)

    def progress(self, raters=(), resampling=ONCE):
        return compute_progress(self.plan, self.tasks, self.events, raters, resampling=resampling)


def make_plan(kind="ratings", **options):
    aspects = (Aspect("overall", "How good?"),) if kind == "ratings" else ()
    return Plan(Path("study.toml"), "Dogs", kind, **{"aspects": aspects, "overlap": 2, **options})


def make_tasks(number, captions=1, gold=None):
    letters = "abcdefgh"[:captions]
    return [
        Task(f"t{i}", f"im{i}", None, tuple(Choice(letter, f"a dog {i}", letter) for letter in letters), gold=gold)
        for i in range(1, number + 1)
    ]


def rated(matrix, **options):
    """The story of a matrix of ratings, tasks × raters, NaN where a rater did not rate."""
    story = Story(make_plan(overlap=len(matrix[0]), **options), make_tasks(len(matrix)))
    for task, row in enumerate(matrix, 1):
        for rater, value in enumerate(row, 1):
            if value == value:
                story.rate(f"r{rater}", f"t{task}", value)
    return story


MATRIX = [[1, 1, NAN], [2, 3, 3], [5, 4, NAN], [NAN, 3, 3], [4, 4, 4], [2, NAN, NAN], [1, 2, 5]]


def test_coverage_counts_tasks_by_the_answers_that_they_have():
    # Answers of the tasks: 2, 3, 2, 2, 3, 1, 3; 16 of 7 × 3.
    cover = rated(MATRIX).progress().coverage
    assert cover.places == (7, 6, 3)
    assert (cover.answers, cover.target) == (16, 21) and cover.share == 16 / 21


def test_alpha_is_that_of_the_package_krippendorff():
    (question,) = rated(MATRIX).progress().questions
    expected = package.alpha(reliability_data=np.array(MATRIX).T, level_of_measurement="ordinal")
    assert question.alpha.estimate.value == pytest.approx(expected, abs=1e-12)
    assert (question.alpha.units, question.alpha.ratings, question.alpha.raters) == (6, 15, 3)


def test_a_raters_agreement_is_the_part_in_alpha():
    # α = 1 − mean over all pairable ratings of the distance to the others, so the raters' parts average to it.
    progress = rated(MATRIX).progress()
    alpha = progress.questions[0].alpha
    number = {
        rater.id: sum(
            row[int(rater.id[1:]) - 1] == row[int(rater.id[1:]) - 1] and np.sum(~np.isnan(row)) > 1 for row in MATRIX
        )
        for rater in progress.raters
    }
    mean = sum(number[rater.id] * rater.agreement.alpha for rater in progress.raters) / alpha.ratings
    assert mean == pytest.approx(alpha.estimate.value, abs=1e-12)


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval", "ratio"])
def test_distances_average_to_what_alpha_lacks_at_every_level(level):
    values = np.random.default_rng(3).integers(1, 6, (30, 4)).astype(float)
    values[np.random.default_rng(4).random(values.shape) < 0.4] = NAN
    unit, _ = np.nonzero(~np.isnan(values))
    distances = measure_disagreements(unit, values[~np.isnan(values)], level)
    assert 1 - np.nanmean(distances) == pytest.approx(krippendorff(values, level, ONCE).estimate.value, abs=1e-12)


def test_the_error_of_a_part_is_that_of_a_mean_over_tasks():
    # Four tasks with one rating each: the standard error of the mean of 0, 0, 1, 1 is √(1/3) / √4.
    part = RaterAgreement.of(np.array([0.0, 0.0, 1.0, 1.0]), ["a", "b", "c", "d"])
    assert part.alpha == 0.5 and part.error == pytest.approx((1 / 3) ** 0.5 / 2) and part.tasks == 4
    assert RaterAgreement.of(np.array([NAN]), ["a"]).tasks == 0


def test_alpha_says_why_it_is_not_there_yet():
    assert rated([[1, NAN], [NAN, 2]]).progress().headline.reason == "nothing has two answers yet"
    assert rated([[3, 3], [3, 3]]).progress().headline.reason == "all answers are the same so far"
    assert Story(make_plan(), make_tasks(2)).progress().headline.reason == "no answer yet"


def test_an_interval_is_drawn_over_images():
    alpha = rated(MATRIX).progress(resampling=Resampling(samples=200)).headline.alpha.estimate
    assert alpha.low < alpha.value < alpha.high


def test_time_is_the_median_and_the_90th_percentile():
    story = Story(make_plan(), make_tasks(11))
    for number in range(1, 12):
        story.rate("r1", f"t{number}", 3, seconds=float(number))
    progress = story.progress()
    # 1, 2, …, 11: the median is 6, the 90th percentile 1 + 0.9 × 10 = 10, all of it 66 seconds.
    assert (progress.time.median, progress.time.p90) == (6.0, 10.0)
    assert progress.time.hours == pytest.approx(66 / 3600)
    assert progress.raters[0].time == progress.time


def test_excluded_raters_count_nowhere_but_in_their_own_row():
    story = rated(MATRIX)
    story.add("r3", "excluded", reason="answers at random")
    progress = story.progress()
    without = np.array(MATRIX)[:, :2]
    expected = package.alpha(reliability_data=without.T, level_of_measurement="ordinal")
    assert progress.headline.alpha.estimate.value == pytest.approx(expected, abs=1e-12)
    assert progress.coverage.places == (7, 5, 0)
    last = progress.raters[-1]
    assert (last.id, last.state, last.reason, last.tasks) == ("r3", "excluded", "answers at random", 4)
    story.add("r3", "reinstated", reason="they were right", places={})
    assert story.progress().raters == rated(MATRIX).progress().raters


def test_raters_who_have_not_come_are_listed():
    story = rated([[1, 2], [2, 2]])
    story.add("r1", "finished")
    states = {rater.id: rater.state for rater in story.progress(["r1", "r2", "r3"]).raters}
    assert states == {"r1": "done", "r2": "working", "r3": "invited"}


def test_late_answers_and_comments_are_counted_beside_the_target():
    story = Story(make_plan(overlap=1), make_tasks(1))
    story.rate("r1", "t1", 3)
    story.rate("r2", "t1", 4, late=True, comment="blurred")
    progress = story.progress()
    assert progress.coverage.places == (1,) and progress.late == 1
    (comment,) = progress.comments
    assert (comment.rater, comment.item, comment.text) == ("r2", "im1", "blurred")


def names_of(progress):
    return {rater.id: [flag.name for flag in rater.flags] for rater in progress.raters}


def test_failed_checks_are_flagged_from_the_number_that_the_plan_says():
    gold = {"ratings": {"a": {"overall": [4, 5]}}}
    story = Story(make_plan(checks=Checks(flag=Thresholds(failed=2))), make_tasks(3, gold=gold))
    for rater, ratings in (("r1", (5, 4, 1)), ("r2", (1, 4, 2))):
        for task, value in enumerate(ratings, 1):
            story.rate(rater, f"t{task}", value, purpose="gold")
    progress = story.progress()
    assert names_of(progress) == {"r2": ["checks"], "r1": []}
    assert progress.raters[0].flags[0].reason == "failed 2 of 3 checks"
    assert [(rater.passed, rater.failed) for rater in progress.raters] == [(1, 2), (2, 1)]
    assert progress.coverage.tasks == 0


def test_a_median_below_the_seconds_of_the_plan_is_flagged():
    story = Story(make_plan(checks=Checks(flag=Thresholds(seconds=3))), make_tasks(6))
    for number in range(1, 7):
        story.rate("r1", f"t{number}", 1 + number % 5, seconds=2.5 if number < 5 else 60)
        story.rate("r2", f"t{number}", 1 + number % 5, seconds=3.5)
    progress = story.progress()
    assert names_of(progress) == {"r1": ["speed"], "r2": []}
    assert progress.raters[0].flags[0].reason == "median 2.5 s per task, below 3 s"


def test_the_same_click_everywhere_is_flagged_even_where_the_captions_change():
    tasks = make_tasks(8, captions=2)
    story = Story(make_plan("pairs"), tasks)
    for number in range(1, 9):
        story.answer("r1", f"t{number}", {"preferred": "a", "both_bad": False})
        story.answer("r2", f"t{number}", {"preferred": "ab"[number % 2], "both_bad": False})
    assert names_of(story.progress())["r1"] == ["same answer"]
    assert story.progress().raters[0].flags[0].reason == "the same answer on 8 of 8 pages"


def test_an_answer_that_most_people_give_is_no_straight_line():
    options = (LabelOption("young", "y"), LabelOption("none", "n"))
    story = Story(make_plan("labels", options=options), make_tasks(10))
    for rater in ("r1", "r2", "r3"):
        for number in range(1, 11):
            story.answer(rater, f"t{number}", {"label": "none"})
    assert names_of(story.progress()) == {"r1": [], "r2": [], "r3": []}


def test_repeats_that_differ_as_much_as_by_chance_are_flagged():
    story = Story(make_plan(), make_tasks(4))
    for number, value in enumerate((1, 2, 4, 5), 1):
        story.rate("r1", f"t{number}", value)
        story.rate("r2", f"t{number}", value)
    for number, (same, turned) in enumerate(((1, 5), (2, 4), (4, 2), (5, 1)), 1):
        story.rate("r1", f"t{number}", same, purpose="repeat")
        story.rate("r2", f"t{number}", turned, purpose="repeat")
    progress = story.progress()
    assert names_of(progress) == {"r2": ["repeats"], "r1": []}
    assert progress.raters[1].repeats.alpha == 1.0


def crowd(careful, random, tasks=160, seed=5):
    """Every task is answered by three of the raters; the random ones stand at the end."""
    rng = np.random.default_rng(seed)
    quality = rng.integers(1, 6, tasks)
    story = Story(make_plan(overlap=3), make_tasks(tasks))
    for task in range(tasks):
        for rater in rng.permutation(careful + random)[: (careful + random) // 2]:
            value = quality[task] + rng.integers(-1, 2) if rater < careful else rng.integers(1, 6)
            story.rate(f"r{rater + 1}", f"t{task + 1}", float(np.clip(value, 1, 5)))
    return story.progress()


def test_random_raters_agree_with_nobody_and_careful_ones_are_left_alone():
    flags = names_of(crowd(careful=8, random=4))
    assert {rater for rater, names in flags.items() if "agreement" in names} == {"r9", "r10", "r11", "r12"}
    assert names_of(crowd(careful=12, random=0)) == {f"r{number}": [] for number in range(1, 13)}


def test_the_document_has_everything_and_its_json_is_strict():
    progress = crowd(careful=8, random=4)
    document = progress.document()
    assert {"coverage", "agreement", "time", "raters"} <= set(document.tables)
    data = json.loads(progress.to_json())
    assert data["coverage"]["answers"] == progress.coverage.answers
    assert data["agreement"][0]["alpha"]["estimate"]["value"] == pytest.approx(progress.headline.alpha.estimate.value)
    text = " ".join(str(progress).split())
    assert "r9 working" in text and "it rejects nobody" in text


def test_simulated_raters_are_never_overlooked():
    story = Story(make_plan(), make_tasks(2))
    story.add("r1", "joined", simulated="careful")
    story.rate("r1", "t1", 3)
    progress = story.progress()
    assert progress.raters[0].simulated == "careful"
    assert progress.document().warnings == ["1 of 1 raters are simulated: their answers are not a result"]


def test_hostile_comments_cannot_drive_the_terminal():
    story = Story(make_plan(), make_tasks(len(HOSTILE)))
    for number, text in enumerate(HOSTILE, 1):
        story.rate("r1", f"t{number}", 3, comment=text)
    story.add("r1", "excluded", reason=HOSTILE[34])
    printed = str(story.progress())
    assert not {*printed} & {"\x1b", "\x00", "\x07", "\u202e"}
