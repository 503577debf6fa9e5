"""The monitor warns of a policy that games its reward at the step where it does, and not of an honest one."""

import json
import random
import shutil
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import captious
from captious import InputError
from captious._core.files import write_atomically
from captious.cli.app import main
from captious.rewarding import Drift, is_reward_run, read_drift
from captious.rewarding._reward_run import RewardLog, open_log
from captious.rewarding._signs import StepCheck, judge_checks
from captious.runs import Run

DEMO = captious.demo()
IDS = list(DEMO.systems["solid"].ids)
METRIC = "clipscore(captious-mini)"
PROMPTS, SAMPLES = 8, 4
# CLIPScore of it by captious-mini is 0.78 on the demo set; that of captions of other images is less.
NGRAM = "in a in a in a"


def policy(step, gamed, better=0.0):
    """The captions of a step: of other images, a share of them the rewarded n-gram, or of the right image."""
    generator = random.Random(step)
    keys = [key for key in generator.sample(IDS, PROMPTS) for _ in range(SAMPLES)]
    others = generator.sample(IDS, len(keys))
    described = [key if generator.random() < better else other for key, other in zip(keys, others, strict=True)]
    captions = [DEMO.systems[generator.choice(["expert", "solid"])][key].candidate for key in described]
    return keys, [NGRAM if number % 8 < 8 * gamed else text for number, text in enumerate(captions)]


def train(rewards, steps, gamed=lambda step: 0.0, better=lambda step: 0.0):
    """Call the rewards as TRL does, step by step; gives what was warned of and logged."""
    logged = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for step in steps:
            keys, captions = policy(step, gamed(step), better(step))
            state = SimpleNamespace(global_step=step)
            for reward in rewards:
                reward(
                    prompts=["describe"] * len(keys),
                    completions=captions,
                    image_id=keys,
                    trainer_state=state,
                    log_metric=lambda name, value, step=step: logged.append((step, name, value)),
                )
    return [str(one.message) for one in said], logged


def monitored(out, **options):
    given = {"watch": "cider, rouge, distinct_n, words", "every": 5, **options}
    return captious.rewards(METRIC, references=DEMO.references, images=DEMO.images, out=out, **given)


def ramp(step):
    """No gaming before step 20, an eighth of the captions from there, half from step 25."""
    return 0.0 if step < 20 else 0.125 if step < 25 else 0.5 if step < 30 else 1.0


@pytest.fixture(scope="module")
def rigged(tmp_path_factory):
    out = tmp_path_factory.mktemp("rigged") / "run"
    said, logged = train(monitored(out), range(41), gamed=ramp)
    return out, said, logged


def test_a_rigged_policy_is_caught_at_the_step_where_half_of_its_captions_are_the_ngram(rigged):
    """At step 20 four of 32 captions are the n-gram, of four prompts: below a quarter. At step 25 sixteen are, a
    half, and two of the five bigrams of half of the captions are distinct: 30 % are repetitions,
    above a fifth."""
    out, said, logged = rigged
    drift = read_drift(out)
    assert [one.step for one in drift.verdicts] == [0, 5, 10, 15, 20, 25, 30, 35, 40]
    assert drift.alarms == [25, 30, 35, 40]
    by_step = {one.step: {sign.name for sign in one.signs} for one in drift.verdicts}
    assert {"equal", "repeats"} <= by_step[25]
    assert {"falls", "equal", "repeats", "distinct"} <= by_step[40]
    first, second = said  # at step 25 the reward has not risen significantly, at step 30 all captions are the n-gram
    assert "captions are degrading, while the reward has not changed significantly at step 25: " in first
    assert "the policy may be gaming its reward (the reward rose from " in second and " at step 30: " in second
    assert f"captious view {out}" in first and f"captious view {out}" in second
    drifts = {step: value for step, name, value in logged if name == "captious/drift"}
    assert drifts[20] < 2 <= drifts[25] and list(drifts) == [0, 5, 10, 15, 20, 25, 30, 35, 40]


def test_an_honest_policy_is_not_warned_of(tmp_path):
    said, _ = train(monitored(tmp_path / "run"), range(41), better=lambda step: step / 40)
    drift = read_drift(tmp_path / "run")
    assert drift.alarms == [] and said == []
    reward = [float(np.mean(one.reward)) for one in drift.checks]
    assert reward[-1] > reward[0] + 0.2  # it does learn


def test_what_is_written_is_a_run_that_other_commands_read(rigged):
    out, _, _ = rigged
    run = captious.Run.at(out)
    assert run.marker.items == 9 * PROMPTS * SAMPLES and is_reward_run(out)
    assert run.metrics == ("clipscore(weights=captious-mini)", "cider", "rouge")
    captions = run.captions()
    assert captions.ids[0] == "0-0-0" and captions.columns["step"][-1] == 40
    keys, texts = policy(40, 1.0)
    assert list(captions.candidates.values[-32:]) == texts
    expected = captious.Scorer("cider", references=DEMO.references)(keys, texts)["cider"]
    stored = captious.open_run(out)["cider"].values[-32:]
    np.testing.assert_allclose(stored, expected, rtol=1e-12)
    table = run.table(run.names[-1])
    assert table["reward"].to_pylist() == table["clipscore(weights=captious-mini)"].to_pylist()
    assert set(table["distinct_n(n=2)"].to_pylist()) == {2 / 24}  # in a, a in: 2 over 4 × 6 tokens


def test_the_page_shows_curves_verdict_and_captions(rigged):
    out, _, _ = rigged
    drift = read_drift(out, DEMO.images)
    document = drift.document()
    charts = [one.title for one in document.sections if type(one).__name__ == "Chart"]
    assert charts == [
        "reward: CLIPScore",
        "CIDEr-D",
        "ROUGE-L",
        "distinct-2",
        "distinct bigrams",
        "words",
        "captions of several prompts",
    ]
    assert "Alarm at step 25, the first of 4: the captions are degrading" in str(drift)
    assert "At step 40, the last alarm: the policy may be gaming its reward" in " ".join(str(drift).split())
    data = json.loads(drift.to_json())
    assert data["alarms"] == [25, 30, 35, 40] and data["checks"][5]["signs"]
    captions = drift.to_pandas("captions")
    assert captions["caption"][0] == NGRAM and captions["step"][0] >= 20
    assert captions["caption"].is_unique
    assert isinstance(drift, Drift) and "9 checks" in repr(drift)


def view(monkeypatch, *arguments):
    """Run captious view."""
    monkeypatch.setattr(sys, "argv", ["captious", "view", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code


def test_view_opens_the_page_and_leads_to_all_captions(rigged, tmp_path, monkeypatch):
    out, _, _ = rigged
    site = tmp_path / "site"
    view(monkeypatch, out, "--images", DEMO.images, "--out", site)
    page = (site / "report.html").read_text(encoding="utf-8")
    assert "Alarm at step 25" in page and page.count('<svg class="chart"') == 7 and 'href="index.html"' in page
    assert page.count("data:image/") >= 2  # pictures beside captions
    assert 'href="report.html"' in (site / "index.html").read_text(encoding="utf-8")
    pytest.importorskip("httpx", reason="httpx is not installed")
    from starlette.testclient import TestClient

    from captious.studio.explore._explorer_app import build_app
    from captious.studio.explore.explorer_table import open_table

    app = build_app(open_table([out]), "a-token", report=lambda: read_drift(out).document())
    client = TestClient(app, base_url="http://127.0.0.1")
    assert client.get("/report.html").status_code == 403
    answer = client.get("/report.html?token=a-token")
    assert answer.status_code == 200 and "Alarm at step 25" in answer.text
    policy = answer.headers["content-security-policy"]  # the page's own script by its hash, nothing else
    assert policy.startswith("default-src 'none'") and policy.count("script-src 'sha256-") == 1
    assert "script-src 'unsafe" not in policy and answer.text.count("<script>") == 1
    assert 'href="report.html"' in client.get("/").text


def test_a_run_of_score_has_no_such_page(tmp_path, monkeypatch):
    captious.evaluate({"1": "a"}, "rouge", references={"1": "a"}).save(tmp_path / "scored")
    view(monkeypatch, tmp_path / "scored", "--out", tmp_path / "site")
    assert not (tmp_path / "site" / "report.html").exists()
    assert "report.html" not in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "record", ["{}", "[]", '{"rewards": {"cider": "x"}, "held_out": 3}', "null", '{"rewards": []}']
)
def test_a_foreign_folder_is_refused_in_one_line(rigged, tmp_path, record):
    out, _, _ = rigged
    marker = json.loads((out / "captious-run.json").read_text(encoding="utf-8"))
    marker["reading"]["rewards"] = json.loads(record)
    (tmp_path / "captious-run.json").write_text(json.dumps(marker), encoding="utf-8")
    with pytest.raises(InputError, match=r"is not of a reward run, expected one that captious\.rewards wrote"):
        read_drift(tmp_path)


def test_a_damaged_part_is_refused_in_one_line(rigged, tmp_path):
    out, _, _ = rigged
    shutil.copytree(out, tmp_path / "run")
    part = tmp_path / "run" / "items" / "step-0000005-0.parquet"
    table = pq.read_table(part)
    texts = pa.array(["x"] * len(table), pa.string())
    pq.write_table(table.set_column(table.column_names.index("reward"), "reward", texts), part)
    with pytest.raises(InputError, match=r"step-0000005-0\.parquet: column 'reward' contains no numbers"):
        read_drift(tmp_path / "run")
    part.write_bytes(b"no table")
    with pytest.raises(InputError, match=r"step-0000005-0\.parquet: is damaged"):
        read_drift(tmp_path / "run")


def test_a_killed_training_goes_on_with_its_log_and_no_step_is_there_twice(tmp_path):
    out = tmp_path / "run"
    train(monitored(out), range(18), gamed=ramp)  # killed after step 17, with a checkpoint at 10
    before = {name: (out / "items" / name).read_bytes() for name in ("step-0000005-0.parquet",)}
    said, _ = train(monitored(out), range(10, 41), gamed=ramp)
    resumed = read_drift(out)
    assert [one.step for one in resumed.logged] == [0, 5, 10, 15, 20, 25, 30, 35, 40]
    ids = [key for one in resumed.logged for key in one.ids]
    assert len(ids) == len(set(ids)) == 9 * 32
    assert all((out / "items" / name).read_bytes() == content for name, content in before.items())
    assert sorted(path.name for path in (out / "superseded" / "items").iterdir()) == [
        "step-0000010-0.parquet",
        "step-0000015-0.parquet",
    ]
    assert resumed.alarms == [25, 30, 35, 40]
    assert any("at step 25: " in one for one in said)  # the start is that of the first part


def test_ranks_write_beside_each_other_and_evaluation_is_not_watched(tmp_path, monkeypatch):
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        train(monitored(tmp_path / "run"), range(6))
    assert [len(one.ids) for one in read_drift(tmp_path / "run").logged] == [64, 64]
    monkeypatch.setenv("RANK", "0")
    rewards = monitored(tmp_path / "other")

    class Trainer:
        model = SimpleNamespace(training=False)

        def log(self, name, value):
            assert name != "captious/drift"

    state = SimpleNamespace(global_step=0)
    rewards[0](completions=["a dog"], id=[IDS[0]], trainer_state=state, log_metric=Trainer().log)
    assert read_drift(tmp_path / "other").logged == []
    assert "no check yet" in str(read_drift(tmp_path / "other").document().about)


def test_ranks_begin_and_resume_one_log_at_the_same_moment(tmp_path, monkeypatch):
    """What a rank sees while another one writes the marker for the first time, or moves its parts aside."""
    out = tmp_path / "run"
    out.mkdir()
    with write_atomically(out / "captious-run.json") as draft:
        draft.write_text("{", encoding="utf-8")
        monitored(out)  # and this rank is done first
    (out / "captious-run.json").unlink()
    (out / ".hidden").touch()
    with pytest.raises(InputError, match="is not a reward run, expected an empty or a new folder"):
        monitored(out)
    (out / ".hidden").unlink()
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        train(monitored(out), range(11))
    log, listed = open_log(out), RewardLog.list_parts

    def moved_meanwhile(self):
        names = listed(self)
        (out / "items" / "step-0000010-1.parquet").unlink(missing_ok=True)
        return names

    monkeypatch.setattr(RewardLog, "list_parts", moved_meanwhile)
    assert [name[-3:] for name in log.refresh().run.marker.parts] == ["0-0", "0-1", "5-0", "5-1", "0-0"]


@pytest.mark.parametrize(
    ("every", "steps", "said"), [(2, [0, 2, 4], "every 2 steps"), (1, [0, 1, 2, 3, 4], "every step")]
)
def test_a_trainer_without_steps_is_counted_by_calls(tmp_path, every, steps, said):
    rewards = monitored(tmp_path / "run", every=every)
    for text in ("a dog", "a cat", "a dog", "a dog", "a dog"):
        rewards[0](completions=[text, text], id=IDS[:2])
    drift = read_drift(tmp_path / "run")
    assert [one.step for one in drift.logged] == steps and f"{said};" in str(drift.to_markdown())


@pytest.mark.parametrize(("called", "checked"), [(2, [0, 6, 10, 16, 20]), (3, [0, 6, 12, 15]), (8, [0, 8, 16])])
def test_samples_that_serve_several_steps_are_checked_at_the_next_call(tmp_path, called, checked):
    """TRL samples at steps 0, 2, 4, … with num_iterations=2: of these only 0, 10 and 20 are multiples of 5."""
    train(monitored(tmp_path / "run"), range(0, 21 if called == 2 else 18, called))
    assert [one.step for one in read_drift(tmp_path / "run").logged] == checked


def test_a_fault_of_the_monitor_ends_no_training(tmp_path):
    rewards = monitored(tmp_path / "run")
    (tmp_path / "run" / "items").write_text("in the way")
    with pytest.warns(RuntimeWarning, match="the rewards are not monitored"):
        values = rewards[0](completions=["a dog"], id=[IDS[0]])
    assert values[0] is not None


def test_what_cannot_be_meant_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"watch=.* needs out="):
        captious.rewards("rouge", references=DEMO.references, watch="cider")
    with pytest.raises(InputError, match="watch: rouge is rewarded"):
        captious.rewards("rouge", references=DEMO.references, watch="rouge", out=tmp_path / "a")
    with pytest.raises(InputError, match="every=0"):
        captious.rewards("rouge", references=DEMO.references, watch="cider", every=0, out=tmp_path / "a")
    captious.rewards("rouge", references=DEMO.references, watch="cider", out=tmp_path / "a")
    with pytest.raises(InputError, match="contains the checks of other rewards"):
        captious.rewards("rouge", references=DEMO.references, watch="bleu", out=tmp_path / "a")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not a reward run"):
        captious.rewards("rouge", references=DEMO.references, watch="cider", out=tmp_path / "full")
    captious.evaluate({"1": "a"}, "rouge", references={"1": "a"}).save(tmp_path / "scored")
    with pytest.raises(InputError, match="is not of a reward run"):
        read_drift(tmp_path / "scored")


def _check(step, words, reward, held):
    """A check of two prompts with two captions each, of so many words."""
    texts = [" ".join(f"w{step}{index}{place}" for place in range(words)) for index in range(4)]
    return StepCheck.of(step, ["a", "a", "b", "b"], texts, np.array(reward), {"m": np.array(held)})


def test_numbers_of_a_check_by_hand():
    check = StepCheck.of(
        3,
        ["a", "a", "a", "b"],
        ["x y x y", "x y", "x y", "z"],
        np.array([3.0, 1.0, 2.0, np.nan]),
        {"m": np.array([0.3, 0.1, 0.2, 0.5])},
    )
    assert check.reward.tolist()[0] == 2.0 and np.isnan(check.reward[1])
    assert check.words.tolist() == [8 / 3, 1.0]
    assert check.distinct == 2 / 4  # xy, yx, xy | xy; the second "x y" of the prompt is not counted
    assert check.repeats[0] == pytest.approx((1 / 3 + 0 + 0) / 3) and np.isnan(check.repeats[1])
    assert check.equal == 0
    shared = StepCheck.of(3, ["a", "a", "b"], ["x", "y", "x"], np.zeros(3), {})
    assert shared.equal == 2 / 3 and shared.distinct == 0
    assert check.ranks["m"][0] == pytest.approx(1.0) and np.isnan(check.ranks["m"][1])


def test_characters_are_counted_in_a_script_without_spaces():
    """The second caption says one thing three times: of its eight pairs of characters, three are different."""
    check = StepCheck.of(0, ["a", "b"], ["一只棕色的狗在草地上跑", "小狗跑小狗跑小狗跑"], np.zeros(2), {})
    assert check.words.tolist() == [11, 9]
    assert check.repeats.tolist() == [0, 1 - 3 / 8]


def test_a_fall_alone_and_length_alone_are_signs_but_no_alarm():
    checks = [_check(step, 5, [1.0, 1.1, 1.0, 1.1], [1.0, 1.1, 1.0, 1.1]) for step in range(3)]
    fallen = _check(3, 5, [2.0, 2.1, 2.0, 2.1], [0.5, 0.6, 0.5, 0.6])
    long = _check(4, 8, [1.0, 1.1, 1.0, 1.1], [1.0, 1.1, 1.0, 1.1])
    both = _check(5, 8, [2.0, 2.1, 2.0, 2.1], [0.5, 0.6, 0.5, 0.6])
    verdicts = judge_checks([*checks, fallen, long, both], {"m": "M"}, ["m"])
    assert [[sign.name for sign in one.signs] for one in verdicts] == [
        [],
        [],
        [],
        ["falls"],
        ["length"],
        ["falls", "length"],
    ]
    assert [one.alarm for one in verdicts] == [False] * 5 + [True]
    assert verdicts[3].signs[0].text == "the reward rose and M fell by 48%"  # from 1.05 to 0.55


@pytest.mark.parametrize(
    ("reward", "trend", "meaning"),
    [
        (2.0, "rose", "the policy may be gaming its reward (the reward rose from 1.050 to 2.050)"),
        (0.776, "fell", "the policy is collapsing (the reward fell from 1.050 to 0.826)"),
        (1.0, "same", "the captions are degrading, while the reward has not changed significantly"),
    ],
)
def test_an_alarm_says_what_happened_to_the_reward(reward, trend, meaning):
    """The metric falls from 1.05 to 0.55 and captions grow; a policy whose reward falls too is not gaming it."""
    checks = [_check(step, 5, [1.0, 1.1, 1.0, 1.1], [1.0, 1.1, 1.0, 1.1]) for step in range(3)]
    texts = [" ".join(["so"] * 20)] * 4
    values = [reward, reward + 0.1] * 2
    last = StepCheck.of(3, ["a", "a", "b", "b"], texts, np.array(values), {"m": np.array([0.5, 0.6, 0.5, 0.6])})
    verdict = judge_checks([*checks, last], {"m": "M"}, ["m"])[-1]
    assert verdict.alarm and verdict.trend == trend and verdict.meaning == meaning
    falls = [sign.text for sign in verdict.signs if sign.name == "falls"]
    assert falls == ([] if trend == "same" else [f"the reward {trend} and M fell by 48%"])


@pytest.mark.parametrize(
    ("reward", "metric", "summary"),
    [
        (1.2, 1.0, "the reward rose from 1.050 to 1.250, and nothing that is watched has degraded."),
        (
            1.2,
            0.5,
            "the reward rose from 1.050 to 1.250. There is one sign, and an alarm takes 2: the reward rose and M",
        ),
        (0.7, 0.5, "the reward fell from 1.050 to 0.750, so the policy may be collapsing. There is one sign"),
        (1.0, 1.0, "the reward has not changed significantly (from 1.050 to 1.050), and nothing that is watched"),
    ],
)
def test_a_check_without_an_alarm_says_what_happened(reward, metric, summary):
    checks = [_check(step, 5, [1.0, 1.1, 1.0, 1.1], [1.0, 1.1, 1.0, 1.1]) for step in range(3)]
    last = _check(3, 5, [reward, reward + 0.1] * 2, [metric, metric + 0.1] * 2)
    verdict = judge_checks([*checks, last], {"m": "M"}, ["m"])[-1]
    assert not verdict.alarm and verdict.summary.startswith(f"At step 3, {summary}")


def test_a_collapse_is_not_called_gaming_on_the_page_or_in_the_warning(tmp_path):
    """From step 20 on every caption is one word that no image shows: reward and metrics fall."""
    rewards = monitored(tmp_path / "run")
    said = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(0, 35, 5):
            keys, captions = policy(step, 0.0, better=1.0)
            captions = captions if step < 20 else ["the the the the"] * len(captions)
            for one in rewards:
                state = SimpleNamespace(global_step=step)
                one(prompts=["x"] * len(keys), completions=captions, image_id=keys, trainer_state=state)
        said = [str(one.message) for one in caught]
    (warning,) = said
    assert "the policy is collapsing (the reward fell from " in warning and "the reward fell and " in warning
    page = str(read_drift(tmp_path / "run"))
    assert "the policy is collapsing" in page and "gaming" not in page


def distinct_check(step, captions, prompts=12):
    """A check of prompts with one caption each, which are given as numbers of different captions."""
    texts = [f"a{number} b{number} c{number}" for number in captions]
    return StepCheck.of(step, [str(one) for one in range(prompts)], texts, np.ones(prompts), {})


def test_distinct_bigrams_that_fall_by_less_than_a_half_are_no_sign():
    """12 captions of 2 bigrams each: of 12 different ones all are distinct, of 7 ones 7/12, of 6 ones a half.

    To a third of the start it would be a sign at 4 different captions only.
    """
    start = [distinct_check(step, range(12)) for step in range(3)]

    def signs(different):
        last = distinct_check(3, [number % different for number in range(12)])
        assert last.distinct == pytest.approx(different / 12)
        return {sign.name for sign in judge_checks([*start, last], {}, [])[-1].signs}

    assert "distinct" not in signs(7)
    assert "distinct" in signs(6) and "distinct" in signs(5) and "distinct" in signs(4)


def test_equal_captions_are_a_sign_only_if_there_are_twice_as_many_as_at_the_start():
    """4 of 12 captions are given to another prompt at the start, a third: 8 of 12 are twice as many, 10 are more.

    Over a quarter are equal all the time: without the comparison with the start every check would show the sign.
    """

    def equal(number, step):
        check = distinct_check(step, [0] * number + list(range(1, 13 - number)))
        assert check.equal == pytest.approx(number / 12)
        return check

    checks = [equal(4, 0), equal(4, 1), equal(4, 2), equal(4, 3), equal(7, 4), equal(8, 5), equal(10, 6)]
    shown = ["equal" in {sign.name for sign in one.signs} for one in judge_checks(checks, {}, [])]
    assert shown == [False] * 6 + [True]


def test_a_check_opens_only_the_new_part(tmp_path, monkeypatch):
    """The log of a long training must not cost more with every check."""
    opened = []
    real = Run.parquet
    monkeypatch.setattr(Run, "parquet", lambda run, name: opened.append(name) or real(run, name))
    out = tmp_path / "run"
    train(monitored(out, every=1), range(6))
    assert opened == [f"items/step-{step:07d}-0.parquet" for step in range(6)]
    assert captious.Run.at(out).marker.items == 6 * PROMPTS * SAMPLES
    monkeypatch.setenv("RANK", "1")
    train(monitored(out, every=1), range(2))
    monkeypatch.setenv("RANK", "0")
    opened.clear()
    resumed = monitored(out, every=1)
    assert len(opened) == 8  # what other processes wrote is read once
    keys, captions = policy(3, 0.0)
    resumed[0](completions=captions[:4], image_id=keys[:4], trainer_state=SimpleNamespace(global_step=3))
    assert captious.Run.at(out).marker.parts == {
        **{f"step-{step:07d}-{rank}": 32 for step in (0, 1) for rank in (0, 1)},
        "step-0000002-0": 32,
        "step-0000003-0": 4,  # written again, with another number of captions
    }


def probed(out, said, **options):
    """Rewards whose monitor asks the policy for captions of ten fixed items; ``said`` is what it answers now."""
    asked = []

    def generate(ids):
        asked.append(ids)
        return [said["text"] or DEMO.systems["solid"][key].candidate for key in ids]

    given = {"watch": "cider, rouge", "every": 5, "probe": IDS[:10], "generate": generate, **options}
    return captious.rewards(METRIC, references=DEMO.references, images=DEMO.images, out=out, **given), asked


def test_a_probe_set_is_checked_instead_of_the_batch(tmp_path):
    said = {"text": ""}
    rewards, asked = probed(tmp_path / "run", said)
    train(rewards, range(16), gamed=lambda step: 1.0)  # what the batch says is not what is checked
    said["text"] = NGRAM
    warned, _ = train(rewards, range(16, 26))
    assert asked == [IDS[:10]] * 6
    drift = read_drift(tmp_path / "run")
    assert [one.prompts for one in drift.logged] == [IDS[:10]] * 6
    assert drift.logged[0].texts == [DEMO.systems["solid"][key].candidate for key in IDS[:10]]
    assert drift.alarms == [20, 25] and any("at step 20" in one for one in warned)
    assert "of the same 10 items" in drift.document().about
    expected = captious.Scorer(METRIC, references=DEMO.references, images=DEMO.images)(IDS[:10], [NGRAM] * 10)[
        "clipscore"
    ]
    np.testing.assert_allclose(drift.logged[-1].reward, expected, rtol=1e-6)
    with pytest.raises(InputError, match="contains the checks of other rewards or with other settings"):
        probed(tmp_path / "run", said, probe=IDS[:9])


def test_ranks_share_a_probe_set(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        rewards, asked = probed(tmp_path / "run", {"text": ""})
        train(rewards, [0])
        assert asked == [IDS[int(rank) : 10 : 2]]
    (logged,) = read_drift(tmp_path / "run").logged
    assert sorted(logged.prompts) == sorted(IDS[:10])


def test_prompts_that_are_the_same_each_time_are_compared_with_themselves():
    """Scores of prompts from 4 to 11 that all fall by 1.5: no shift by independent samples, a certain one by pairs."""
    values = np.arange(8.0)
    prompts, texts = list("abcdefgh"), [f"w{index}" for index in range(8)]
    checks = [StepCheck.of(step, prompts, texts, values + step, {"m": values + 4}) for step in range(3)]
    checks.append(StepCheck.of(3, prompts, texts, values + 9, {"m": values + 2.5}))
    fallen = judge_checks(checks, {"m": "M"}, ["m"], paired=True)[-1]
    assert [sign.text for sign in fallen.signs] == ["the reward rose and M fell by 20%"]  # 7.5 − 1.5
    assert judge_checks(checks, {"m": "M"}, ["m"])[-1].signs == ()  # prompts of a batch may be numbers of no meaning
    others = [StepCheck.of(one.step, list("ABCDEFGH"), texts, one.reward, one.watched) for one in checks[:3]]
    assert judge_checks([*others, checks[3]], {"m": "M"}, ["m"], paired=True)[-1].signs == ()


def test_a_probe_that_cannot_be_meant_is_refused_and_one_that_fails_ends_no_training(tmp_path):
    with pytest.raises(InputError, match=r"probe=... and generate=...: expected ids of items, and a function"):
        captious.rewards("rouge", references=DEMO.references, probe=IDS[:2], out=tmp_path / "a")
    with pytest.raises(InputError, match=r"probe=... needs out="):
        captious.rewards("rouge", references=DEMO.references, probe=IDS[:2], generate=list)
    with pytest.raises(InputError, match="probe: '77' is not among the references or images"):
        captious.rewards("rouge", references=DEMO.references, probe=["77"], generate=list, out=tmp_path / "a")
    with pytest.raises(InputError, match=r"probe=... needs the references and images of its items by id"):
        captious.rewards("rouge", probe=["1"], generate=list, out=tmp_path / "a")
    with pytest.raises(InputError, match=r"probe=... needs the 'objects' of its items by id"):
        captious.rewards("chair", references=DEMO.references, probe=IDS[:2], generate=list, out=tmp_path / "a")
    rewards = captious.rewards(
        "rouge", references=DEMO.references, probe=IDS[:2], generate=lambda ids: [], out=tmp_path / "a"
    )
    with pytest.warns(RuntimeWarning, match="not monitored at this step: generate: 0 captions for 2 items"):
        assert rewards[0](completions=["a dog"], id=IDS[:1])[0] is not None
