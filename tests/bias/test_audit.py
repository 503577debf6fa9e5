from dataclasses import replace

import numpy as np
import pytest

from captious.bias.audit import RunStore, _split_stacks, audit
from captious.bias.classifiers.linear import Linear
from captious.bias.corpus import AuditedCaptioner
from captious.bias.masks import Mask
from captious.bias.protocol import Protocol
from captious.bias.protocol import get_published_seeds as seeds
from captious.errors import InputError
from captious.options import Engine

GENDER = Protocol(Mask.from_name("gender"), seeds=seeds(4))


class Counting(Linear):
    """A linear classifier that remembers what it trained, and can stop in the middle."""

    trained: list
    stop_after = 10**9

    def group_tasks(self, tasks):
        return [[task] for task in tasks]

    def train(self, tasks, progress):
        for task in tasks:
            if len(self.trained) == type(self).stop_after:
                raise KeyboardInterrupt
            self.trained.append((task.seed, task.role))
        return super().train(tasks, progress)


@pytest.fixture
def counting():
    Counting.trained, Counting.stop_after = [], 10**9
    return Counting()


def test_lic_rises_with_the_planted_bias_as_the_closed_form_says(planted):
    # The best possible LIC is 75·(bias − human_bias) points; an n-gram classifier comes near it.
    subjects = [planted(bias, 0.25, items=2500, name=f"b{bias}") for bias in (0.1, 0.5, 0.9)]
    result = [row.lic.lic for row in audit(subjects, GENDER, [Linear()]).rows]
    assert result == sorted(result)
    assert result == pytest.approx([75 * (bias - 0.25) for bias in (0.1, 0.5, 0.9)], abs=8)


def test_alignment_hides_what_the_model_never_says(planted):
    # A model without the telling words: people lose theirs to <unk> and leak no more than it does.
    subject = planted(0.0, 0.5)
    aligned, free = (
        audit([subject], replace(GENDER, vocabulary=choice, seeds=seeds(2)), [Linear()]).rows[0].lic.lic_d
        for choice in ("model", "none")
    )
    assert free > aligned + 10


@pytest.mark.parametrize(("bias", "sample"), [(0.0, 1), (0.3, 2), (0.5, 0)])
def test_zero_is_in_the_interval_where_model_and_people_leak_the_same(planted, bias, sample):
    row = audit([planted(bias, bias, seed=sample)], replace(GENDER, seeds=seeds(8)), [Linear()]).rows[0]
    low, high = row.lic.interval
    assert low < 0 < high and not row.lic.differs


def test_without_planted_bias_leakage_is_near_chance(planted):
    result = audit([planted(0.0, 0.0, items=2500)], GENDER, [Linear(c=0.01)])
    assert result.rows[0].lic.lic_m == pytest.approx(result.chance, abs=6)


def test_unmasked_words_for_the_person_give_the_label_away(planted):
    row = audit([planted(0.0, 0.0)], replace(GENDER, mask=Mask.from_name("none"), seeds=seeds(1)), [Linear()]).rows[0]
    assert row.lic.lic_m > 75


def test_a_stopped_audit_resumes_and_gives_the_same(planted, counting, tmp_path):
    subject = planted(0.5, 0.25, items=400)
    whole = audit([subject], GENDER, [Linear()])
    Counting.stop_after = 9
    with pytest.raises(KeyboardInterrupt):
        audit([subject], GENDER, [counting], work=tmp_path)
    Counting.stop_after = 10**9
    before = len(counting.trained)
    resumed = audit([subject], GENDER, [counting], work=tmp_path)
    assert before == 9 and len(counting.trained) == 4 * 6
    assert counting.trained[:6] == [(0, role) for role in ("model", *(f"human-{index}" for index in range(5)))]
    np.testing.assert_array_equal(resumed.rows[0].lic.human, whole.rows[0].lic.human)


def test_seeds_give_the_same_numbers_whatever_their_batch(planted, tmp_path):
    subject = planted(0.5, 0.25, items=400)
    first = audit([subject], replace(GENDER, seeds=seeds(2)), [Linear()], work=tmp_path).rows[0].lic
    more = audit([subject], GENDER, [Linear()], work=tmp_path).rows[0].lic
    alone = audit([subject], replace(GENDER, seeds=(12,)), [Linear()]).rows[0].lic
    np.testing.assert_array_equal(more.model[:2], first.model)
    assert more.model[1] == alone.model[0]


@pytest.mark.parametrize("engine", [Engine(jobs=2), Engine("processes", jobs=3)])
def test_runs_trained_side_by_side_give_the_same_numbers(planted, tmp_path, engine):
    subject = planted(0.5, 0.25, items=400)
    alone = audit([subject], GENDER, [Linear()]).rows[0].lic
    together = audit([subject], GENDER, [Linear()], work=tmp_path, engine=engine).rows[0].lic
    np.testing.assert_array_equal(together.model, alone.model)
    np.testing.assert_array_equal(together.human, alone.human)
    assert audit([subject], GENDER, [Linear()], work=tmp_path).stored["linear"] == (24, 24)


def test_stacks_are_halved_until_every_worker_has_one():
    assert _split_stacks([["a", "b", "c", "d"], ["e"]], 3) == [["a", "b"], ["c", "d"], ["e"]]
    assert _split_stacks([["a"], ["b"]], 5) == [["a"], ["b"]]
    assert _split_stacks([], 2) == []


def test_human_runs_that_no_vocabulary_changes_are_trained_once(planted, counting):
    subjects = [planted(bias, 0.25, items=400, name=f"b{bias}") for bias in (0.2, 0.8)]
    audit(subjects, replace(GENDER, vocabulary="none", seeds=(0,)), [counting])
    assert len(counting.trained) == 2 + 5


def test_paired_splits_test_the_same_images_and_unpaired_ones_do_not(planted):
    subject = planted(0.5, 0.25, items=400)
    for paired in (True, False):
        runs = audit([subject], replace(GENDER, paired=paired, seeds=(0,)), [Linear()]).rows[0].runs[0]
        assert np.array_equal(runs[0].task.split.test, runs[1].task.split.test) == paired
        assert np.array_equal(runs[1].task.split.test, runs[5].task.split.test)


def test_three_classes():
    rng = np.random.default_rng(0)
    labels = {str(n): "abc"[n % 3] for n in range(240)}
    words = {key: f"{label}word thing" if rng.random() < 0.8 else "thing" for key, label in labels.items()}
    people = {key: ["thing here", "a thing"] for key in labels}
    result = audit(
        [AuditedCaptioner.of("three", labels, words, people)],
        Protocol(Mask.from_name("none"), seeds=seeds(3)),
        [Linear()],
    )
    # A share of .8 is told, the rest is guessed at one in three.
    assert result.chance == pytest.approx(100 / 9)
    assert result.rows[0].lic.lic_m > 60 and result.rows[0].lic.differs
    assert len(result.rows[0].runs[0][0].by_class) == 3


def test_by_class_scores_divide_by_the_captions_of_the_class(planted):
    run = audit([planted(0.5, 0.25, items=400)], replace(GENDER, seeds=(0,)), [Linear()]).rows[0].runs[0][0]
    assert np.mean(run.by_class) == pytest.approx(run.score)


def test_captioners_with_other_labels_are_refused(planted):
    one = planted(0.5, 0.25, items=400)
    other = replace(one, name="other", labels=tuple(label.upper() for label in one.labels))
    with pytest.raises(InputError, match="labels differ"):
        audit([one, other], GENDER, [Linear()])


def test_a_damaged_result_is_trained_again(make_task, tmp_path):
    task, store = make_task(0, "model"), RunStore(tmp_path).of({"classifier": "linear"})
    store.put(task, np.full((6, 2), 0.5))
    assert store.get(task) is not None
    (store.folder / f"{task.digest}.npy").write_bytes(b"half a fi")
    assert store.get(task) is None
    assert RunStore(tmp_path).of({"classifier": "linear", "c": 1}).get(task) is None
