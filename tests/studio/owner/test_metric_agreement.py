"""What the owner's page says of metrics and raters is what a study of the export says, to the last digit."""

import numpy as np
import pytest

pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed: pip install 'captious[studio]'")

from captious.errors import InputError
from captious.options import Reading, Resampling
from captious.studio.collect.log import StudyLog
from captious.studio.collect.rating_tasks import Choice, Task
from captious.studio.collect.study_plan import Aspect, Plan
from captious.studio.owner.export import FILES, export_study
from captious.studio.owner.study_progress import study_progress
from captious.study import correlate, rater_agreement
from captious.study.load import load_ratings
from captious.study.study_options import StudyInput

METRICS = ["bleu(n=1)", "rouge", "cider"]
SAMPLES = Resampling(samples=200)
TEXT = "a dog , a cat , a man and a woman run , sit or jump on the red grass near two small balls with water"
OPTIONS = {
    "ratings": {"aspects": (Aspect("overall", "How good?"),)},
    "ranking": {"ties": True},
    "pairs": {"ties": True},
}


def make_tasks(rng):
    """Two items of each of twelve images, with two captions each: an image is no item."""
    tasks = []
    for image in range(12):
        references = tuple(" ".join(rng.choice(TEXT.split(), 8)) for _ in range(3))
        for part in "xy":
            texts = [" ".join(rng.permutation([*references[0].split()[: rng.integers(2, 8)], "a"])) for _ in range(2)]
            choices = tuple(Choice("ab"[n], text, ("ada", "bert")[n]) for n, text in enumerate(texts))
            tasks.append(Task(f"t{len(tasks) + 1}", f"{image}{part}", f"photo{image}.png", choices, references))
    return tasks


def answer(kind, task, rng):
    if kind == "pairs":
        return {"preferred": [None, "a", "b", "b"][rng.integers(4)]}
    if kind == "ranking":
        return {"ranks": {"a": int(rng.integers(1, 3)), "b": int(rng.integers(1, 3))}}
    return {"ratings": {choice.id: {"overall": int(rng.integers(1, 6))} for choice in task.choices}}


@pytest.fixture(params=["ratings", "ranking", "pairs"])
def study(request, tmp_path):
    """A study of 24 tasks that nobody has answered."""
    plan = Plan(tmp_path / "study.toml", "Dogs", request.param, overlap=2, **OPTIONS[request.param])
    log = StudyLog.open(tmp_path / "study.db")
    log.begin(plan, make_tasks(np.random.default_rng(3)))
    yield log
    log.close()


def work(log, raters, pages):
    """New raters answer so many pages each."""
    rng, kind = np.random.default_rng(len(log.list_rater_ids())), log.plan().kind
    for rater in log.add_raters([f"{rng} {number}" for number in range(raters)]):
        for page in range(pages):
            shown = log.next_page(rater.id)
            body = {"order": list(shown.order), "purpose": "work", "seconds": 5.0}
            body["answer"] = answer(kind, shown.task, rng)
            log.record(rater.id, "answered", f"{rater.id}-{page}", shown.task.id, body)


def both(log, folder):
    """The progress that an owner sees, and a study of what the owner downloads."""
    progress = study_progress(log, METRICS, SAMPLES)
    export_study(log, folder)
    recipe = (folder / FILES[progress.kind]).with_suffix(".toml")
    ratings, recipe = load_ratings(StudyInput(str(recipe)), Reading())
    return progress, ratings, correlate(ratings, METRICS, recipe=recipe, resampling=SAMPLES)


def assert_same(agreement, study):
    expected = {study.labels[key]: values[study.statistic] for key, values in study.estimates.items()}
    assert agreement.estimates == expected and agreement.statistic == study.statistic
    assert len(expected) == 3 and all(one.low < one.value < one.high for one in expected.values())


def test_the_owner_reads_what_a_study_of_the_export_prints(study, tmp_path):
    work(study, raters=2, pages=10)
    progress, _, result = both(study, tmp_path / "early")
    assert progress.coverage.places == (20, 0)  # captions without a rating are no part of CIDEr's corpus
    assert_same(progress.metrics, result)

    work(study, raters=4, pages=7)
    progress, ratings, result = both(study, tmp_path / "late")
    assert progress.coverage.places == (24, 24)
    assert len({*ratings.groups}) == (24 if progress.kind == "ranking" else 12)  # items, or images
    assert_same(progress.metrics, result)
    (question,) = progress.questions
    agreement = rater_agreement(ratings, question.measurement, SAMPLES)
    assert question.alpha.estimate == agreement.alpha.estimate


def test_a_metric_that_nobody_knows_is_refused_before_anyone_answers(study):
    with pytest.raises(InputError, match="cannot read the metric 'bleu;rouge'"):
        study_progress(study, ["bleu;rouge"], SAMPLES)


def test_a_metric_whose_file_is_not_there_is_a_warning(study):
    work(study, raters=2, pages=10)
    progress = study_progress(study, ["cider(idf=nowhere.json)"], SAMPLES)
    assert any("nowhere.json" in warning for warning in progress.document().warnings)
