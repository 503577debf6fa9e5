"""Training UMIC: the loss by hand, exact resume, early stopping, what is written, bad input."""

import json
import shutil
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from captious.errors import InputError
from captious.models.crossencoders import open_backbone, score_pairs
from captious.options import Runtime, using
from captious.train._loop import Patience, StopSignal
from captious.train._umic import (
    NegativeTable,
    RankingAccuracy,
    compute_losses,
    prepare_corpus,
    sort_examples,
    split_held_out,
)
from captious.train.run import train as run
from captious.train.training_options import Training, UmicOptions

SETTINGS = replace(UmicOptions.published, epochs=3, batch_size=20, lr=1e-3)
SMALL = "fusion(width=16,layers=1)"
CPU = Runtime(device="cpu")


def a_job(data, base, out, **changes):
    """Training, options and settings, each with what it knows of the changes."""
    parts = (
        Training(out, str(data / "short.jsonl"), validate=str(data / "short-val.jsonl"), images=data / "images"),
        UmicOptions(SMALL, str(base), draws=2),
        SETTINGS,
    )
    known = [{field.name for field in fields(part)} for part in parts]
    assert changes.keys() <= set().union(*known)
    return [
        replace(part, **{name: changes[name] for name in names & changes.keys()})
        for part, names in zip(parts, known, strict=True)
    ]


def train(job, progress=None, log=None, stop=None):
    heard = {name: call for name, call in (("progress", progress), ("log", log)) if call is not None}
    return run(*job, replace(CPU, **heard), stop)


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def test_the_hinge_is_the_mean_over_negatives_that_are_there():
    scores = torch.tensor([[0.9, 0.2, 0.8], [0.4, 0.5, 0.1]])
    found = compute_losses(scores, torch.tensor([[True, True], [True, False]]), margin=0.2)
    # first row: 0 and .2 - .1 = .1, so .05; second row: .2 + .1 = .3 alone
    assert float(found["loss"]) == pytest.approx((0.05 + 0.3) / 2)
    assert float(found["ranked"]) == pytest.approx(2 / 3)
    assert float(found["right"]) == pytest.approx(0.65) and float(found["wrong"]) == pytest.approx(0.5)


def test_accuracy_by_kind_counts_ties_as_wrong():
    class Texts:
        def take(self, rows):
            return rows

    class Backbone:
        def logits(self, pictures, texts):
            return torch.tensor([1.0, 0.5, 1.0, 2.0])[torch.from_numpy(texts)]

    class Pictures:
        def take(self, rows):
            return rows

    # captions 0 and 3; negatives: 1 below 0, 2 ties with 0; 1 below 3, and one that is missing
    table = NegativeTable(("random", "hard"), np.array([0, 1]), [np.array([[0, 1, 2], [3, 1, -1]])])
    found = RankingAccuracy(Backbone(), Pictures(), Texts(), table)()
    assert found == {"ranking": pytest.approx(66.6667), "random": 100.0, "hard": 0.0}
    none = NegativeTable(("random", "hard"), np.array([0, 1]), [np.array([[0, 1, -1], [3, 1, -1]])])
    assert RankingAccuracy(Backbone(), Pictures(), Texts(), none)() == {"ranking": 100.0, "random": 100.0}


def test_training_writes_a_model_that_ranks_better_and_scores(data, base, tmp_path):
    outcome = train(a_job(data, base, tmp_path / "out", epochs=20, lr=5e-3))
    checks = outcome.validations
    assert outcome.finished and outcome.steps == 20 * (72 // 20)
    assert set(checks[0]["validation"]) == {"ranking", "hard", "random", "substitute", "shuffle", "repeat"}
    assert checks[0]["step"] == 0 and checks[-1]["step"] == outcome.steps and len(checks) == 21
    assert checks[-1]["validation"]["ranking"] > checks[0]["validation"]["ranking"]
    record = json.loads((tmp_path / "out" / "captious-training.json").read_text())
    assert record["settings"]["beta2"] == 0.98 and record["settings"]["clip_norm"] == 2.0
    assert record["settings"]["warmup_steps"] == round(0.1 * outcome.steps)
    assert (tmp_path / "out" / "best" / "captious-umic.json").is_file()
    with using(Runtime(device="cpu")):  # the encoder came along: its first home is not needed
        backbone = open_backbone(tmp_path / "out")
        assert backbone.weights == str(tmp_path / "out" / "encoder")
        values = score_pairs(backbone, [str(data / "images" / "0.png")], ["red and green"]).scores
    assert 0 < values[0] < 1


def test_before_training_captions_rank_as_by_the_encoders_clipscore(data, base, tmp_path):
    from captious.captions import CaptionSet
    from captious.metrics.clip.clipscore import ClipScore
    from captious.metrics.umic import Umic

    train(a_job(data, base, tmp_path / "out", epochs=1, lr=1e-30, weight_decay=0.0))
    rows = [json.loads(line) for line in (data / "short-val.jsonl").read_text().splitlines()]
    texts = {str(row["id"]): row["captions"][0] for row in rows}
    paths = [str(data / "images" / f"{key}.png") for key in texts]
    captions = CaptionSet.of(texts, dict.fromkeys(texts, ()), {"image": paths})
    with using(Runtime(device="cpu")):
        ours = Umic(weights=str(tmp_path / "out")).measure(captions).values
        theirs = ClipScore(weights=str(base), value="raw", prefix="", order="rgb-first").measure(captions).values
    logits = np.log(ours / (1 - ours))
    slope, shift = np.polyfit(theirs, logits, 1)
    assert slope > 1.5  # 1.5 over the deviation of cosines, which is below 1: the line was set from the data
    np.testing.assert_allclose(logits, slope * theirs + shift, atol=1e-4)


def test_a_training_that_was_stopped_goes_on_exactly(data, base, tmp_path):
    train(a_job(data, base, tmp_path / "whole"))
    stop, steps = StopSignal(), []

    def report(what, done, total):
        if what == "steps":
            steps.append(done)
            stop.asked = done >= 4

    first = train(a_job(data, base, tmp_path / "parts"), report, stop=stop)
    assert not first.finished and first.steps == 4
    second = train(a_job(data, base, tmp_path / "parts", resume=True))
    assert second.finished
    whole, parts = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(whole[key], parts[key]) for key in whole)
    with pytest.raises(InputError, match=r"cannot resume: margin was 0\.2, now it is 0\.3"):
        (tmp_path / "parts" / "captious-training.json").write_text("{}")
        train(a_job(data, base, tmp_path / "parts", resume=True, margin=0.3))


def test_early_stopping_ends_well(data, base, tmp_path):
    said = []
    outcome = train(a_job(data, base, tmp_path / "out", epochs=9, lr=1e-30, early_stop=2), log=said.append)
    # step 0 sets the best; nothing changes, so the second validation after it is enough
    assert outcome.finished and outcome.steps == 6 < outcome.of
    assert any("no better validation in the last 2" in line for line in said)
    again = train(a_job(data, base, tmp_path / "out", epochs=9, lr=1e-30, early_stop=2, resume=True), log=said.append)
    assert again.finished and again.steps == 6 and "ended already" in said[-1]
    with pytest.raises(InputError, match=r"margin was 0\.2, now it is 0\.3"):
        train(a_job(data, base, tmp_path / "out", epochs=9, lr=1e-30, early_stop=2, resume=True, margin=0.3))
    # More epochs go on with new patience: two more validations without a best are enough again.
    longer = train(a_job(data, base, tmp_path / "out", epochs=10, lr=1e-30, early_stop=2, resume=True), log=said.append)
    assert longer.finished and longer.steps == 12 < longer.of


def test_an_encoder_that_was_trained_on_the_same_file_is_remarked(data, base, tmp_path):
    own = tmp_path / "own"
    shutil.copytree(base, own)
    for trained_on, remarked in (("short.jsonl", True), ("short-val.jsonl", False)):
        (own / "captious-training.json").write_text(json.dumps({"data": str(data / trained_on)}))
        said = []
        train(a_job(data, own, tmp_path / trained_on, epochs=1), log=said.append)
        assert any("own was trained on short.jsonl too" in line for line in said) == remarked


def test_hard_negatives_take_the_encoders_vectors_of_the_images(data, base, tmp_path, monkeypatch):
    given = []

    def noted(examples, kinds, draws, seed, features, name):
        given.append((len(examples), features))
        return prepare_corpus(examples, kinds, draws, seed, features, name)

    monkeypatch.setattr("captious.train._umic.prepare_corpus", noted)
    train(a_job(data, base, tmp_path / "out", epochs=1))
    train(a_job(data, base, tmp_path / "soft", epochs=1, kinds=("random",)))
    assert [None if rows is None else len(rows) == count for count, rows in given] == [True, True, None, None]
    assert np.isfinite(given[0][1]).all()


def test_patience():
    patience = Patience(2)
    assert [patience.update(value) for value in (1, 3, 2, 3, 4, 1, 1)] == [
        False,
        False,
        False,
        True,
        False,
        False,
        True,
    ]
    assert not any(Patience(0).update(value) for value in (3, 2, 1, 0))


def test_draws_differ_and_negatives_are_counted_that_could_not_be_made(data):
    from captious.train._data import read_examples

    examples = sort_examples(read_examples(data / "short.jsonl", data / "images")[0])
    made = prepare_corpus(examples, ("random", "shuffle"), 2, seed=0)
    first, second = made.table.numbers
    assert (first[:, 0] == second[:, 0]).all() and (first[:, 1:] != second[:, 1:]).any()
    for epoch, expected in enumerate((first, second, first)):  # taken in turn
        np.testing.assert_array_equal(made.table.rows(np.arange(72), epoch)[0], expected)
    assert [made.texts[number] for number in first[:, 0]] == list(made.corpus.texts)
    lonely = [replace(examples[0], captions=("dog",)), replace(examples[1], captions=("two cats",))]
    notes = prepare_corpus(lonely, ("shuffle",), 1, seed=0).notes
    assert notes == ["shuffle negatives: 1 of 2 could not be made; instead: 1 random"]
    with pytest.raises(InputError, match="no negative can be made from 1 captions of 1 images"):
        prepare_corpus(lonely[:1], ("shuffle",), 1, seed=0)
    learnt, held = split_held_out(examples, 0.25, seed=0)
    assert (
        len(held) == 9 and not {one.id for one in learnt} & {one.id for one in held} and len(learnt) + len(held) == 36
    )


def test_an_image_that_cannot_be_read_stops_or_is_left_out(data, base, tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    for path in (data / "images").iterdir():
        (images / path.name).write_bytes(path.read_bytes())
    (images / "3.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"3\.png: is not an image.*missing='skip'"):
        train(a_job(data, base, tmp_path / "a", images=images))
    said = []
    outcome = train(a_job(data, base, tmp_path / "b", images=images, missing="skip", epochs=1), log=said.append)
    assert outcome.examples == 70 and any("1 images left out" in line for line in said)


def test_what_is_missing_or_cannot_be_made_in_validation_is_said(data, base, tmp_path):
    rows = [{"id": key, "captions": [text]} for key, text in (("0", "red"), ("1", "two dogs"), ("no", "a dog"))]
    (tmp_path / "val.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = []
    job = a_job(
        data, base, tmp_path / "out", validate=str(tmp_path / "val.jsonl"), missing="skip", epochs=1, kinds=("shuffle",)
    )
    train(job, log=said.append)
    assert "validation: 1 rows left out: their image is missing" in said
    assert "validation: shuffle negatives: 1 of 2 could not be made; instead: 1 random" in said


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"encoder": "nowhere.pt"}, "nowhere.pt"),
        ({"backbone": "fuson"}, "did you mean 'fusion'"),
        ({"margin": 0.0}, "margin 0: expected more than 0"),
        ({"kinds": ("hard", "soft")}, "unknown kind of negative 'soft'"),
        ({"validate": None, "hold_out": 0.0, "early_stop": 1}, "early_stop=... needs a validation"),
        ({"regions": "butd"}, "regions=butd: is for a UNITER, but backbone=fusion"),
        ({"backbone": 'vilt(prefix="A photo of ")'}, "only a new fusion has parameters"),
        ({"backbone": "fusion(depth=3)"}, "fusion has no parameter 'depth'"),
    ],
)
def test_bad_choices_are_one_line(changes, line, data, base, tmp_path):
    with pytest.raises(InputError, match=line):
        train(a_job(data, base, tmp_path / "out", **changes))


def test_a_fusion_goes_on_with_its_own_encoder_and_prefix(data, base, tmp_path):
    fusion = 'fusion(width=16,layers=1,prefix="It shows ")'
    train(a_job(data, base, tmp_path / "one", epochs=1, backbone=fusion))
    going_on = {"backbone": str(tmp_path / "one"), "encoder": "", "epochs": 1}
    train(a_job(data, base, tmp_path / "two", **going_on))
    assert json.loads((tmp_path / "two" / "captious-umic.json").read_text())["prefix"] == "It shows "
    with pytest.raises(InputError, match=r"encoder=captious-mini: .* is umic-fusion and continues with its own"):
        train(a_job(data, base, tmp_path / "three", **{**going_on, "encoder": "captious-mini"}))


def test_the_command(data, base, tmp_path):
    from captious.cli.app import build_app

    given = ["train", "umic", str(data / "short.jsonl"), "--images", str(data / "images"), "--out"]
    sizes = ["--encoder", str(base), "--backbone", SMALL, "--epochs", "1", "--device", "cpu", "--json"]
    done = CliRunner().invoke(build_app(), [*given, str(tmp_path / "out"), *sizes, "--hold-out", "0.2"])
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout[done.stdout.index("{") :])
    assert record["finished"] and record["validations"][0]["step"] == 0
    assert json.loads((tmp_path / "out" / "captious-training.json").read_text())["settings"]["lr"] == 5e-4


def test_the_preset_of_the_released_trainer(data, base, tmp_path):
    from captious.cli.app import build_app

    settings = UmicOptions(preset="released").resolve_settings(UmicOptions.published)
    # train_metric.py of hwanheelee1993/UMIC at commit 1f1d434, its defaults
    assert (settings.lr, settings.weight_decay, settings.beta2, settings.clip_norm) == (1e-5, 0, 0.98, 0.25)
    assert (settings.total_steps, settings.warmup_steps, settings.accumulate) == (100_000, 4_000, 16)
    asked = replace(UmicOptions.published, lr=3e-5, epochs=2)
    named = UmicOptions(preset="released").resolve_settings(asked)
    assert (named.lr, named.epochs, named.total_steps, named.clip_norm) == (3e-5, 2, None, 0.25)

    given = [
        "train",
        "umic",
        str(data / "short.jsonl"),
        "--images",
        str(data / "images"),
        "--out",
        str(tmp_path / "out"),
    ]
    sizes = ["--encoder", str(base), "--backbone", SMALL, "--device", "cpu", "--preset", "released", "--draws", "1"]
    steps = ["--total-steps", "7", "--accumulate", "1", "--batch-size", "8", "--hold-out", "0.2"]
    done = CliRunner().invoke(build_app(), [*given, *sizes, *steps])
    assert done.exit_code == 0, done.output
    log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    rates = [line["lr"] for line in log if "lr" in line]
    # one warm-up step (a fifth of seven), then 1 - k / 6
    assert rates == pytest.approx([1e-5, *(1e-5 * (1 - k / 6) for k in range(6))])
