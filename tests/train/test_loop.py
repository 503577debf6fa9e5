"""Training end to end on the CPU: it learns, stops, resumes to the bit, and holds what must not move."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from accelerate.utils import load
from safetensors.torch import load_file

from captious.errors import InputError
from captious.options import Runtime
from captious.train import _loop as log
from captious.train._loop import StopSignal
from captious.train.run import Trained
from captious.train.run import train as run
from captious.train.training_options import ClipOptions, LongClipOptions, Settings, SpecsOptions, Training

QUICK = Settings(2, 4, 3, 1e-3, warmup_steps=2, gather=False, save_every=1000)
CPU = Runtime(device="cpu", workers=1)
OBJECTIVES = {
    "clip": ("short.jsonl", QUICK, ClipOptions()),
    "longclip": ("train.jsonl", replace(QUICK, frozen_positions=4), LongClipOptions(components=3, logit_scale=None)),
    "specs": ("train.jsonl", replace(QUICK, frozen_positions=4), SpecsOptions()),
}


@pytest.fixture
def job(data, base, tmp_path):
    def make(objective="specs", out="out", settings=None, options=None, **more):
        file, usual, own = OBJECTIVES[objective]
        more = {"base": str(base), "images": data / "images", **more}
        return Training(tmp_path / out, str(data / file), **more), options or own, settings or usual

    return make


def train(job, runtime=CPU, stop=None):
    return run(*job, runtime, stop)


def weights(folder):
    return load_file(folder / "model.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


class After(StopSignal):
    """Asks to stop when it has been looked at often enough."""

    def __init__(self, looks):
        self.looks = looks

    @property
    def asked(self):
        self.looks -= 1
        return self.looks < 0

    @asked.setter
    def asked(self, value):
        pass


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_a_stopped_training_resumes_to_the_bit(job, objective):
    # 36 examples in batches of 4 make 9 batches and 3 steps an epoch: step 2 is in the middle of one.
    whole = train(job(objective, "whole"))
    assert whole.finished and whole.steps == whole.of == 6
    stopped = train(job(objective, "parts"), stop=After(1))
    assert not stopped.finished and stopped.steps == 2
    assert not same(weights(stopped.folder), weights(whole.folder))
    again = train(job(objective, "parts", resume=True), stop=After(2))
    assert again.steps == 5
    done = train(job(objective, "parts", resume=True))
    assert done.finished and same(weights(done.folder), weights(whole.folder))
    clock = ("samples_per_second",)
    logs = [
        [{key: value for key, value in row.items() if key not in clock} for row in log.read(folder)]
        for folder in (whole.folder, done.folder)
    ]
    assert logs[0] == logs[1] and len(logs[0]) == 6


def test_a_killed_training_resumes_to_the_bit(job, monkeypatch):
    """A crash in the middle of accumulation loses the steps since the checkpoint, and nothing else."""
    from captious.train._specs import SpecsObjective

    whole = train(job(out="whole"))
    usual, calls = SpecsObjective.parts, []

    def dies(self, batch):
        calls.append(1)
        if len(calls) == 14:  # the second of the three batches of step 5
            raise RuntimeError("killed")
        return usual(self, batch)

    monkeypatch.setattr(SpecsObjective, "parts", dies)
    settings = replace(QUICK, frozen_positions=4, save_every=2)
    with pytest.raises(RuntimeError, match="killed"):
        train(job(out="parts", settings=settings))
    monkeypatch.setattr(SpecsObjective, "parts", usual)
    done = train(job(out="parts", settings=settings, resume=True))
    assert same(weights(done.folder), weights(whole.folder))
    assert [row["step"] for row in log.read(done.folder)] == [1, 2, 3, 4, 5, 6]


def test_the_order_does_not_depend_on_workers(job):
    one = train(job("specs", "one"))
    many = train(job("specs", "many"), replace(CPU, workers=3))
    assert same(weights(one.folder), weights(many.folder))


def test_dropout_draws_from_the_seed_of_the_training(job, base, tmp_path):
    dropping = tmp_path / "dropping"
    shutil.copytree(base, dropping)
    config = json.loads((dropping / "config.json").read_text())
    for tower in ("text_config", "vision_config"):
        config[tower]["attention_dropout"] = 0.3
    (dropping / "config.json").write_text(json.dumps(config))
    found = {}
    for name, before, seed in (("one", 1, 0), ("two", 2, 0), ("other", 1, 5), ("plain", 1, 0)):
        torch.manual_seed(before)
        start = str(base if name == "plain" else dropping)
        train(job("clip", out=name, base=start, settings=replace(QUICK, epochs=1, seed=seed)))
        found[name] = weights(tmp_path / name)
        assert torch.initial_seed() == 1000 * seed  # of the first and only process
    assert same(found["one"], found["two"])
    assert not same(found["one"], found["other"])
    assert not same(found["one"], found["plain"])  # dropout did something


def test_accumulated_hinges_equal_one_large_batch(job):
    """With a fixed margin and no contrast the loss is a mean over examples, so the two must agree.

    Save the biases of keys: softmax does not see them, their gradient is rounding, and Adam steps at any gradient.
    """
    options = SpecsOptions(loss_weights=(0, 8, 0.8), margin="0.3")
    settings = replace(QUICK, epochs=1, batch_size=12, accumulate=3, weight_decay=0.0)
    small = train(job(out="small", settings=settings, options=options))
    large = train(job(out="large", settings=replace(settings, batch_size=36, accumulate=1), options=options))
    expected = weights(large.folder)
    for key, value in weights(small.folder).items():
        assert key.endswith("k_proj.bias") or torch.allclose(value, expected[key], atol=2e-5), key


def test_contrast_is_learnt_and_the_best_is_kept(job, data):
    settings = replace(QUICK, epochs=12, batch_size=18, accumulate=1, lr=3e-3, clip_norm=1.0)
    done = train(job("clip", settings=settings, validate=str(data / "short-val.jsonl")))
    first, last = done.validations[0]["validation"], done.validations[-1]["validation"]
    assert last["text_to_image_r5"] > first["text_to_image_r5"] + 20
    assert (done.best / "model.safetensors").is_file()
    assert str(done.best) in str(done) and "text_to_image_r5" in str(done)


def test_specificity_is_learnt(job, data):
    settings = replace(QUICK, epochs=15, batch_size=18, accumulate=1, lr=3e-3)
    done = train(job(settings=settings, validate=str(data / "val.jsonl")))
    first, last = done.validations[0]["validation"], done.validations[-1]["validation"]
    assert last["sr"] > first["sr"] + 20
    rows = [row for row in log.read(done.folder) if "loss" in row]
    parts = rows[3]
    assert parts["loss"] == pytest.approx(parts["contrast"] + 8 * parts["positive"] + 0.8 * parts["negative"], rel=1e-4)


def test_frozen_positions_do_not_move(job, base):
    done = train(job())
    key = "text_model.embeddings.position_embedding.weight"
    before, after = weights(base)[key], weights(done.folder)[key]
    assert torch.equal(before[:4], after[:4]) and not torch.equal(before[4:12], after[4:12])


@pytest.mark.parametrize("objective", ["clip", "specs"])
def test_locked_towers_do_not_move_and_their_features_are_exact(job, base, objective, monkeypatch):
    locked = replace(OBJECTIVES[objective][1], lock=("image", "text"))
    done = train(job(objective, settings=locked))
    before, after = weights(base), weights(done.folder)
    moved = {key for key in before if not torch.equal(before[key], after[key])}
    assert moved == {"visual_projection.weight", "text_projection.weight", "logit_scale"}
    # Without the memory of features the same training gives the same weights.
    from captious.train._towers import LockedFeatures

    monkeypatch.setattr(LockedFeatures, "__contains__", lambda self, key: False)
    plain = train(job(objective, "plain", settings=locked))
    for key, value in weights(plain.folder).items():
        assert torch.allclose(value, after[key], atol=1e-6), key


def test_weight_decay_spares_vectors_and_positions(job):
    from captious.models.loading import load_trainable
    from captious.train._loop import make_optimizer

    module = load_trainable(job()[0].base, "cpu").module
    decayed, spared = make_optimizer(module, replace(QUICK, weight_decay=0.5), "cpu").param_groups
    names = {id(one): name for name, one in module.named_parameters()}
    assert decayed["weight_decay"] == 0.5 and spared["weight_decay"] == 0
    assert all(one.ndim > 1 for one in decayed["params"])
    assert not any("position" in names[id(one)] or "bias" in names[id(one)] for one in decayed["params"])
    assert "logit_scale" in {names[id(one)] for one in spared["params"]}


def test_mixed_precision_trains(job):
    done = train(job(), replace(CPU, precision="bf16"))
    exact = train(job(out="exact"))
    assert done.last["loss"] == pytest.approx(exact.last["loss"], rel=0.05) and done.last != exact.last


def test_the_saved_folder_is_an_encoder_like_any_other(job, data):
    from captious.models.loading import load

    done = train(job())
    loaded = load(str(done.folder))
    state = weights(done.folder / "checkpoints" / "last")
    assert same(dict(loaded.module.state_dict()), {key: state[f"model.{key}"] for key in loaded.module.state_dict()})
    record = json.loads((done.folder / "captious-training.json").read_text())
    assert record["finished"] and record["objective"] == "specs" and record["steps"] == 6


def test_what_cannot_be_resumed_is_said(job):
    with pytest.raises(InputError, match="no checkpoint to resume from"):
        train(job(out="new", resume=True))
    train(job(), stop=After(1))
    with pytest.raises(InputError, match="contains a training already; resume=True continues it"):
        train(job())
    other = replace(OBJECTIVES["specs"][1], lr=5e-4)
    with pytest.raises(InputError, match=r"cannot resume: lr was 0\.001, now it is 0\.0005"):
        train(job(settings=other, resume=True))
    started = train(job(overwrite=True), stop=After(0))
    assert started.steps == 1 and len(log.read(started.folder)) == 1
    (started.folder / "checkpoints" / "last" / "optimizer.bin").write_bytes(b"no")
    with pytest.raises(InputError, match="is damaged"):
        train(job(resume=True))


def test_a_damaged_random_state_is_said(job):
    """accelerate logs it and goes on, so that the training would be another one than without the stop."""
    started = train(job(), stop=After(1))
    path = started.folder / "checkpoints" / "last" / "random_states_0.pkl"
    states = load(path)
    wrong = ({**states, "torch_manual_seed": states["torch_manual_seed"][:-1]}, {"step": 1}, None)
    for content in wrong:
        torch.save(content, path)
        with pytest.raises(InputError, match=r"checkpoints/last: is damaged \(random state: .+\)$"):
            train(job(resume=True))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=r"is damaged \(random state: .+\)$"):
        train(job(resume=True))
    path.unlink()
    with pytest.raises(InputError, match=r"is damaged \(random state: .+\)$"):
        train(job(resume=True))


def test_a_training_resumes_from_its_folder_alone(job, tmp_path):
    whole = train(job(out="whole"))
    train(job(), stop=After(1))
    alone = Training(tmp_path / "out", resume=True)
    with pytest.raises(InputError, match=r"takes every option but epochs=\.\.\. from the folder"):
        run(alone, SpecsOptions(), replace(QUICK, lr=5e-4), CPU)
    with pytest.raises(InputError, match="is a training of specs, not of clip"):
        run(alone, ClipOptions(), runtime=CPU)
    done = run(alone, SpecsOptions(), runtime=CPU)
    assert done.finished and same(weights(done.folder), weights(whole.folder))
    with pytest.raises(InputError, match="no data to learn from"):
        run(Training(tmp_path / "other"), runtime=CPU)
    with pytest.raises(InputError, match="no training to resume"):
        run(Training(tmp_path / "other", resume=True), runtime=CPU)


def test_a_finished_training_is_lengthened(job, tmp_path):
    """Three epochs after two: the first six steps stay, three follow on the schedule of nine."""
    done = train(job())
    first, said = log.read(done.folder), []
    longer = run(
        Training(tmp_path / "out", resume=True), SpecsOptions(), Settings(epochs=3), replace(CPU, log=said.append)
    )
    assert longer.finished and longer.steps == longer.of == 9
    assert any("lengthened from 6 to 9 steps" in line for line in said)
    rows = log.read(longer.folder)
    assert [row["loss"] for row in rows[:6]] == [row["loss"] for row in first]
    # Steps 6 to 8 of 9, counted from 0, with a warm-up of 9 // 5 = 1 and lr 1e-3: 1e-3 · ½(1 + cos(π (s − 1)/8)).
    expected = [1e-3 * 0.5 * (1 + math.cos(math.pi * (step - 1) / 8)) for step in (6, 7, 8)]
    assert [row["lr"] for row in rows[6:]] == pytest.approx(expected)
    again = run(Training(tmp_path / "out", resume=True), runtime=replace(CPU, log=said.append))
    assert again.steps == 9 and said[-1].startswith("this training ended already")
    with pytest.raises(InputError, match="cannot resume: epochs was 3, now it is 2; a training only gets longer"):
        run(Training(tmp_path / "out", resume=True), SpecsOptions(), Settings(epochs=2), CPU)


def test_a_lengthened_training_that_was_killed_goes_on(job, tmp_path):
    whole = train(job(out="whole"))
    run(Training(tmp_path / "whole", resume=True), settings=Settings(epochs=3), runtime=CPU)
    train(job())
    stopped = run(Training(tmp_path / "out", resume=True), settings=Settings(epochs=3), runtime=CPU, stop=After(1))
    assert not stopped.finished and stopped.steps == 8
    done = run(Training(tmp_path / "out", resume=True), runtime=CPU)
    assert done.finished and done.steps == 9 and same(weights(done.folder), weights(whole.folder))


def test_another_training_is_refused_before_anything_is_loaded(job, monkeypatch):
    from captious.train._specs import SpecsMethod

    train(job(), stop=After(1))
    monkeypatch.setattr(SpecsMethod, "examples", None)
    with pytest.raises(InputError, match="cannot resume: lr was"):
        train(job(settings=replace(OBJECTIVES["specs"][1], lr=5e-4), resume=True))


def validated(*figures, best=True):
    """A training whose validations gave these recalls, at steps 0, 5, 10, …"""
    rows = [{"step": 5 * number, "epoch": 0, "validation": {"recall": value}} for number, value in enumerate(figures)]
    return Trained(True, 10, 10, 40, {}, rows, Path("out"), Path("out/best") if best else None, "recall")


def test_a_best_model_that_is_no_better_than_none_is_said_to_be():
    text = str(validated(93.0, 90.0, 91.5))
    assert "it is of step 10 and no better than before training: recall 91.50, 93.00 at step 0" in " ".join(
        text.split()
    )
    better = " ".join(str(validated(90.0, 93.0, 91.5)).split())
    assert "it is of step 5: recall 93.00, before training 90.00" in better
    assert "before (step 0)" in better and "after (step 10)" in better


def test_a_single_validation_is_not_shown_as_before_and_after():
    text = str(validated(93.0, best=False))
    assert "before (step 0)" in text and "after" not in text


def test_a_foreign_folder_is_left_alone(job, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("x")
    for more in ({}, {"overwrite": True}, {"resume": True}):
        with pytest.raises(InputError, match="was not written by captious"):
            train(job(**more))


def test_a_loss_that_is_not_a_number_stops_the_training(job):
    with pytest.raises(InputError, match=r"the loss is nan; try a smaller lr="):
        train(job(settings=replace(QUICK, lr=1e18, epochs=20)))


@pytest.mark.parametrize("objective", ["longclip", "specs"])
def test_batches_encoded_together_give_what_single_ones_give(job, objective):
    """Also the margin, which goes from batch to batch, and negatives that come from the batch."""
    usual, options = OBJECTIVES[objective][1:]
    options = replace(options, negatives="batch") if objective == "specs" else options
    one = train(job(objective, "one", settings=usual, options=options))
    all_ = train(job(objective, "all", settings=replace(usual, together=3), options=options))
    expected = weights(one.folder)
    for key, value in weights(all_.folder).items():
        assert key.endswith("k_proj.bias") or torch.allclose(value, expected[key], atol=5e-5), key
    for row, other in zip(log.read(one.folder), log.read(all_.folder), strict=True):
        assert row["loss"] == pytest.approx(other["loss"], rel=1e-3)


def test_memory_that_runs_out_halves_what_is_encoded_at_once(job, monkeypatch):
    from captious.train._specs import SpecsObjective

    settings = replace(OBJECTIVES["specs"][1], together=2)
    expected = weights(train(job(out="calm", settings=replace(settings, together=1))).folder)
    usual, said = SpecsObjective.parts, []

    def full(self, batch):
        found = usual(self, batch)  # the margin has moved when memory runs out
        if batch.joined > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return found

    monkeypatch.setattr(SpecsObjective, "parts", full)
    done = train(job(settings=settings), replace(CPU, log=said.append))
    assert "out of memory: from step 1 on, 1 of a step's batches are encoded at once" in said
    assert done.finished and same(weights(done.folder), expected)


def test_memory_that_runs_out_is_one_line(job, monkeypatch):
    from captious.train._contrast import ClipContrast

    def full(self, batch):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    monkeypatch.setattr(ClipContrast, "parts", full)
    with pytest.raises(InputError, match=r"out of memory with batch_size=4: try batch_size=2 accumulate=6") as error:
        train(job("clip"))
    assert "\n" not in str(error.value)
