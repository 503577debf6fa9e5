"""Simulated raters answer as their kind of task allows and are marked as what they are; flags find the odd ones."""

import json

import numpy as np
import pytest

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'captious[studio]'")
from tests.studio.studies import KINDS, Study

from captious.errors import InputError
from captious.studio.collect._events import Page
from captious.studio.collect.rating_tasks import Choice, Task
from captious.studio.collect.study_plan import Checks
from captious.studio.owner.simulate import BotAnswers, compute_qualities, read_share, simulate_raters

BOTS = {"careful": 1, "noisy": 1, "random": 1, "lazy": 1, "leaving": 1}
PLAIN = tuple(f"{'very ' * number}small dog on the grass number {number}" for number in range(8))


def answers_of(log):
    return [(one.rater, one.task, one.purpose, one.answer, one.seconds) for one in log.answers()]


@pytest.mark.parametrize("kind", KINDS)
def test_bots_of_every_kind_fill_in_tasks_of_every_kind(kind, tmp_path):
    study = Study(tmp_path, kind, number=6, overlap=4, per_rater=4, consent="Do you agree?")
    simulation = simulate_raters(study.plan, study.log, raters=5, share=BOTS)
    bots = {rater.id: rater for rater in simulation.progress.raters}
    assert {bot: bots[rater].state for rater, bot in simulation.bots.items()} == {
        **dict.fromkeys(BOTS, "done"),
        "leaving": "working",
    }
    assert all(bots[rater].tasks == 4 for rater, bot in simulation.bots.items() if bot != "leaving")
    assert len(study.events("consented")) == 5 and len(study.events("finished")) == 4


def test_simulated_raters_are_marked_as_such(tmp_path):
    study = Study(tmp_path, captions=PLAIN)
    simulation = simulate_raters(study.plan, study.log, raters=3, share=BOTS)
    assert {rater.id: rater.simulated for rater in simulation.progress.raters} == simulation.bots
    assert simulation.document().warnings == ["3 of 3 raters are simulated: their answers are not a result"]
    assert json.loads(simulation.to_json())["raters"][0]["simulated"]


def test_the_same_seed_gives_the_same_answers(tmp_path):
    runs = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        study = Study(tmp_path / name, captions=PLAIN, number=3)
        simulate_raters(study.plan, study.log, raters=3, share=BOTS, seed=seed)
        runs.append(answers_of(study.log))
    assert runs[0] == runs[1] != runs[2]


def test_a_study_that_a_person_has_answered_is_refused(tmp_path):
    study = Study(tmp_path, captions=PLAIN)
    simulate_raters(study.plan, study.log, raters=1)
    (person,) = study.log.add_raters(["a hash"])
    page = study.log.next_page(person.id)
    answer = {"ratings": {choice: dict.fromkeys(("correctness", "fluency"), 3) for choice in page.order}}
    study.log.record(person.id, "answered", "key", page.task.id, {"answer": answer, "order": list(page.order)})
    with pytest.raises(InputError, match=r"rater r2 has answered this study, expected one without answers of people"):
        simulate_raters(study.plan, study.log, raters=1)


def test_flags_find_random_and_lazy_raters_and_leave_careful_ones_alone(tmp_path):
    study = Study(tmp_path, captions=PLAIN, number=20, per_page=4, overlap=5, per_rater=10, checks=Checks(repeat=2))
    simulation = simulate_raters(study.plan, study.log, raters=10, share={"careful": 7, "random": 2, "lazy": 1})
    flagged = {simulation.bots[rater.id] for rater in simulation.progress.flagged}
    careful = [rater for rater in simulation.progress.raters if rater.simulated == "careful"]
    assert flagged == {"random", "lazy"} and not any(rater.flags for rater in careful)
    lazy = [rater for rater in simulation.progress.raters if rater.simulated == "lazy"]
    assert all({"speed", "same answer"} <= {flag.name for flag in rater.flags} for rater in lazy)
    rows = {row["bot"]: row for row in simulation._build_rows()}
    assert (rows["random"]["flagged"], rows["lazy"]["flagged"], rows["careful"]["flagged"]) == (2, 1, 0)


def test_careful_raters_pass_checks_and_random_ones_do_not(tmp_path):
    study = Study(tmp_path, "labels", number=6, overlap=8, per_rater=6)
    gold = {f"g{number}": Task(f"g{number}", "x", None, gold={"label": "none"}) for number in range(6)}
    bots, rng = BotAnswers(study.plan, {}, 1), np.random.default_rng(0)
    labels = {
        bot: [
            bots.make_answer(bot, Page(task, "gold", (), 1, 1), rng)["label"]
            for task in gold.values()
            for _ in range(20)
        ]
        for bot in ("careful", "random", "lazy")
    }
    assert labels["careful"].count("none") > 110 and 20 < labels["random"].count("none") < 60
    assert {*labels["lazy"]} == {"young"}


def test_quality_follows_known_ratings_else_cider_else_length(tmp_path):
    study = Study(tmp_path, captions=PLAIN)
    choices = tuple(
        Choice(letter, text, letter) for letter, text in zip("abc", ("a dog", "a big dog", "cats"), strict=True)
    )
    tasks = {"t1": Task("t1", "im1", None, choices)}
    # Lengths 2, 3, 1 give the ranks 1, 2, 0 of 2.
    assert compute_qualities(study.plan, tasks) == {"t1/a": 0.5, "t1/b": 1.0, "t1/c": 0.0}
    known = {"im1/a": 5, "im1/b": 1, "im1/c": 3}
    assert compute_qualities(study.plan, tasks, known) == {"t1/a": 1.0, "t1/b": 0.0, "t1/c": 0.5}
    with pytest.raises(InputError, match="no rating of 1 captions of the study, such as 'im1/c'"):
        compute_qualities(study.plan, tasks, {"im1/a": 5, "im1/b": 1})
    referenced = {
        "t1": Task("t1", "im1", None, choices, ("cats",)),
        "t2": Task("t2", "im2", None, choices[:1], ("a cow",)),
    }
    assert max(values := compute_qualities(study.plan, referenced), key=lambda caption: values[caption]) == "t1/c"


def test_shares_are_checked():
    assert read_share(["careful=0.5", "random=0.5"]) == {"careful": 0.5, "random": 0.5}
    with pytest.raises(InputError, match="share=careful: expected a kind and its share"):
        read_share(["careful"])


@pytest.mark.parametrize(
    ("share", "message"),
    [
        ({"carefull": 1}, "'carefull', expected careful, .* did you mean 'careful'"),
        ({"careful": -1}, "careful=-1, expected a number"),
        ({"careful": 0}, "expected at least one rater"),
    ],
)
def test_a_crowd_that_makes_no_sense_is_refused_before_anything_is_stored(share, message, tmp_path):
    study = Study(tmp_path, captions=PLAIN)
    with pytest.raises(InputError, match=message):
        simulate_raters(study.plan, study.log, raters=3, share=share)
    assert study.log.raters() == []
