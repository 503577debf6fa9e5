"""The metric ``calibrated(FILE)``: values, intervals, warnings, and the commands that use it."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from tests.contract.fixtures import line, ridge

import captious
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.calibrated import Calibration
from captious.metrics.registry import parse


@pytest.fixture
def captions():
    texts = ["a dog runs", "a dog sits on a mat", "two cats", "a red ball"]
    references = ["a dog runs fast", "a dog sits on the mat", "three cats sleep", "a blue car"]
    ids = [*map(str, range(4))]
    return CaptionSet.of(
        dict(zip(ids, texts, strict=True)), {key: [text] for key, text in zip(ids, references, strict=True)}
    )


def test_values_are_those_of_the_line(captions, tmp_path):
    metric = parse(f"calibrated({line(tmp_path)})")
    rouge = parse("rouge").measure(captions).values
    measured = metric.measure(captions)
    assert measured.values == pytest.approx(1.5 + 3 * rouge, abs=1e-12)
    assert measured.corpus == pytest.approx(measured.values.mean())
    low, high = (
        parse(f"calibrated({tmp_path / 'file.cal'},value={end})").measure(captions).values for end in ("low", "high")
    )
    assert low == pytest.approx(np.maximum(measured.values - 0.8, 1), abs=1e-12)
    assert high == pytest.approx(np.minimum(measured.values + 0.8, 5), abs=1e-12)
    assert metric.range == (1, 5) and metric.decimals == 2 and metric.label == "calibrated rouge"
    assert any("captious study estimate" in note for note in measured.notes)


def test_an_item_with_several_candidates_has_their_mean(captions, tmp_path):
    metric = parse(f"calibrated({line(tmp_path)})")
    both = CaptionSet.of({"0": ["a dog runs", "two cats"]}, {"0": ["a dog runs fast"]})
    single = [
        metric.measure(CaptionSet.of({"0": text}, {"0": ["a dog runs fast"]})).corpus
        for text in ("a dog runs", "two cats")
    ]
    assert metric.measure(both).corpus == pytest.approx(sum(single) / 2)


def test_a_column_that_is_missing_is_the_reason(captions, tmp_path):
    metric = parse(f"calibrated({ridge(tmp_path)})")
    with pytest.raises(InputError, match="no number; it was calibrated with values computed elsewhere"):
        captious.evaluate(captions, metrics=[metric])


def test_values_outside_the_range_count_as_its_ends_and_are_counted(captions, tmp_path):
    path = line(tmp_path)
    one = Calibration.load(path)
    narrow = replace(one, inputs=(replace(one.inputs[0], low=0.3, high=0.5, lower_decile=0.31, upper_decile=0.4),))
    narrow.save(path)
    measured = parse(f"calibrated({path})").measure(captions)
    rouge = parse("rouge").measure(captions).values
    assert measured.values == pytest.approx(1.5 + 3 * np.clip(rouge, 0.3, 0.5))
    outside = int(((rouge < 0.3) | (rouge > 0.5)).sum())
    assert any(f"{outside} of 4 captions are outside 0.3 to 0.5" in line for line in measured.warnings)
    assert f"|outside:{outside}|" in str(measured.signature)
    assert any("of the highest tenth of the rated captions" in line for line in measured.warnings)


def test_other_settings_of_the_metric_are_reported(captions, tmp_path):
    path = line(tmp_path)
    one = Calibration.load(path)
    known = [
        part for part in str(parse("rouge").measure(captions).signature).split("|")[1:] if not part.startswith("items")
    ]
    settings = tuple(known[: known.index(next(part for part in known if part.startswith("refs")))])
    replace(one, inputs=(replace(one.inputs[0], settings=settings),)).save(path)
    assert not any("was calibrated with" in line for line in parse(f"calibrated({path})").measure(captions).warnings)
    replace(one, inputs=(replace(one.inputs[0], settings=("tok:13a.1",)),)).save(path)
    assert any(
        "rouge was calibrated with tok:13a.1" in line
        for line in parse(f"calibrated({path})").measure(captions).warnings
    )


def test_systems_that_were_not_rated_are_noted(captions, tmp_path):
    path = line(tmp_path)
    replace(Calibration.load(path), systems=("a", "b")).save(path)
    mixed = replace(captions, columns={"system": ("a", "b", "c", "c")})
    assert "no caption of c was rated for the calibration" in parse(f"calibrated({path})").measure(mixed).notes


def test_the_ends_of_an_interval_need_one(captions, tmp_path):
    path = line(tmp_path)
    replace(Calibration.load(path), half_width=math.inf, images=12).save(path)
    with pytest.raises(InputError, match="no prediction interval: the calibration has 12 images"):
        parse(f"calibrated({path},value=low)").measure(captions)


def test_a_missing_or_damaged_file_is_one_line(captions, tmp_path):
    for text, message in (
        ("calibrated", "needs a file that captious study calibrate wrote"),
        (f"calibrated({tmp_path}/x.cal)", "cannot be read"),
    ):
        with pytest.raises(InputError, match=message):
            captious.evaluate(captions, metrics=text)


def test_an_explanation_adds_up(tmp_path):
    metric = parse(f"calibrated({ridge(tmp_path)})")
    captions = CaptionSet.of(
        {"0": "a dog runs", "1": "two cats sit"}, {"0": ["a dog runs fast"], "1": ["cats sit"]}, {"number": [1, 2]}
    )
    explanation = metric.explain(captions, "0")
    assert sum(part.adds for part in explanation.breakdown.parts) == pytest.approx(explanation.value)
    assert [part.name for part in explanation.breakdown.parts][:3] == ["mean rating", "cider", "bleu(n=2)"]


def test_score_keep_view_and_rewards_take_it(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from captious.cli.app import build_app

    monkeypatch.chdir(tmp_path)
    line(tmp_path)
    demo = captious.demo()
    report = captious.evaluate(demo.systems["solid"], metrics="calibrated(file.cal), rouge")
    report.save("run")
    values = report["calibrated"].values
    assert captious.keep("run", "calibrated > 3").kept == int((values > 3).sum()) > 0
    done = CliRunner().invoke(build_app(), ["view", "run", "--out", "page"])
    assert done.exit_code == 0, done.output
    assert "calibrated rouge" in "".join(path.read_text() for path in (tmp_path / "page").rglob("*.html"))
    references = {"7": ["a dog runs fast"]}
    (reward,) = captious.rewards("calibrated(file.cal)", references=references)
    expected = 1.5 + 3 * parse("rouge").measure(CaptionSet.of({"7": "a dog runs"}, references)).corpus
    assert reward(["a dog runs"], image_id=["7"]) == pytest.approx([expected])


def test_shards_have_the_values_of_the_whole_set(tmp_path, monkeypatch):
    """A metric with a corpus state inside: its states are stored, merged and read back."""
    monkeypatch.chdir(tmp_path)
    ridge(tmp_path)
    demo = captious.demo()
    whole = demo.systems["solid"]
    rows = [
        {"id": key, "caption": whole[key].candidate, "references": list(whole[key].references), "number": index % 3}
        for index, key in enumerate(whole.ids)
    ]
    (tmp_path / "shards").mkdir()
    for number in range(3):
        part = "".join(json.dumps(row) + "\n" for row in rows[20 * number : 20 * number + 20])
        (tmp_path / "shards" / f"{number}.jsonl").write_text(part)
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    metric = "calibrated(file.cal)"
    one = captious.evaluate("all.jsonl", metrics=metric)
    captious.score_shards("shards/*.jsonl", metric, out="run")
    stored = captious.open_run("run")
    assert stored.measurements["calibrated(file=file.cal)"].corpus == pytest.approx(one["calibrated"].corpus, abs=1e-12)
