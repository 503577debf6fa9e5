"""CapArena-Auto: random verdicts against a plain second implementation, assigned baselines, one order, online Elo."""

import json
import random
import re
from itertools import product

import numpy as np
import pytest
from tests.models.chat.stub import asked
from tests.test_arena import Referee, reply

import captious
from captious.errors import InputError
from captious.options import Judging, Resampling, Runtime
from captious.stats.pairwise import name_elo, update_elo_online

pytest.importorskip("aiohttp")
ITEMS = 12
IDS = [str(number) for number in range(ITEMS)]
REFERENCES = {key: ["a dog runs"] for key in IDS}
BASELINES = ("gpt4o", "cogvlm", "minicpm")
SYSTEMS = ("ours", "theirs")


@pytest.fixture
def runtime(tmp_path):
    return Runtime(judging=Judging(replies=tmp_path / "replies.db"))


def captions(name):
    """Captions that name their system and item, so that a verdict can be looked up from a question."""
    return [
        {"id": key, "caption": f"{name} of {key}{' very' * (len(name) - 4)}", "ref_model": assigned(key)} for key in IDS
    ]


def assigned(key):
    return BASELINES[int(key) % 3]


def shown(body):
    """The systems of the first and the second caption of a question, and its item."""
    first, second = re.findall(r'^"(\w+) of (\d+)', asked(body), re.MULTILINE)
    assert first[1] == second[1]
    return first[0], second[0], first[1]


def verdicts(seed):
    """A random verdict for every item and every two systems in each order."""
    generator = random.Random(seed)
    names = (*SYSTEMS, *BASELINES)
    return {one: generator.choice(["first", "second", "tie"]) for one in product(names, names, IDS)}


def plain_scores(table, rows, orders):
    """+1, 0 and −1 added up for each baseline over its images, per 100 of them, and the mean over the baselines."""
    scores = {}
    for system in SYSTEMS:
        thirds = []
        for baseline in BASELINES:
            points = []
            for key, first_shown in rows[system, baseline]:
                said = []
                for own_first in (True, False) if orders == "both" else (first_shown,):
                    word = table[(system, baseline, key) if own_first else (baseline, system, key)]
                    said.append(0 if word == "tie" else (1 if (word == "first") == own_first else -1))
                points.append(said[0] if len(set(said)) == 1 else 0)
            thirds.append(100 * sum(points) / len(points))
        scores[system] = (sum(thirds) / 3, dict(zip(BASELINES, thirds, strict=True)))
    return scores


@pytest.mark.parametrize("orders", ["both", "one"])
@pytest.mark.parametrize("assign", ["ref_model", None])
@pytest.mark.parametrize("seed", range(3))
def test_random_verdicts_equal_a_plain_second_implementation(monkeypatch, runtime, orders, assign, seed):
    table = verdicts(seed)
    model = Referee(lambda body: reply(table[shown(body)])).install(monkeypatch)
    result = captious.arena(
        {name: captions(name) for name in SYSTEMS},
        "m",
        resampling=Resampling(20, seed=seed),
        runtime=runtime,
        references=REFERENCES,
        baselines={name: captions(name) for name in BASELINES},
        assign=assign,
        orders=orders,
    )
    rows = {}
    for match in result.matches:
        rows.setdefault(match.systems, []).append((match.id, match.orders[0] == "own"))
    each = ITEMS // 3 if assign else ITEMS
    assert {pair: len(keys) for pair, keys in rows.items()} == dict.fromkeys(product(SYSTEMS, BASELINES), each)
    if assign:
        assert all(assigned(key) == pair[1] for pair, keys in rows.items() for key, _ in keys)
    if orders == "one":
        first = [one for keys in rows.values() for _, one in keys]
        assert 0 < sum(first) < len(first), "both orders are drawn"
    assert len(model.bodies) == len(result.matches) * (2 if orders == "both" else 1)
    for name, (score, against) in plain_scores(table, rows, orders).items():
        own = result.data()["baselines"][name]
        assert own["score"]["value"] == pytest.approx(score)
        assert {other: one["value"] for other, one in own["against"].items()} == pytest.approx(against)
    assert f"orders:{'both' if orders == 'both' else f'one(seed={seed})'}" in result.signature


def test_halves_of_two_hundred_images_are_the_scores_of_the_original(monkeypatch, runtime):
    """The original adds +1 and −1 over 200 images of a baseline and halves the sum."""
    outcome = ["first"] * 120 + ["tie"] * 71 + ["second"] * 9
    Referee(lambda body: reply(outcome[int(re.search(r"item (\d+)", asked(body))[1])])).install(monkeypatch)
    ids = [str(number) for number in range(200)]
    result = captious.arena(
        {"ours": {key: f"ours of item {key}" for key in ids}},
        "m",
        resampling=Resampling(0),
        runtime=runtime,
        references={key: ["a dog"] for key in ids},
        baselines={"cogvlm": {key: f"cogvlm of item {key}" for key in ids}},
        orders="one",
    )
    # What is shown first wins; a match that is shown swapped turns the verdict around.
    signs = [
        {"first": 1, "tie": 0, "second": -1}[outcome[int(match.id)]] * (1 if match.orders == ("own",) else -1)
        for match in result.matches
    ]
    assert result.data()["baselines"]["ours"]["score"]["value"] == pytest.approx(sum(signs) / 2)


def test_a_baseline_counts_nothing_against_itself(monkeypatch, runtime):
    """As GPT-4o of the original: (0 + 55.5 + 76.5) / 3 = 44.00. Here it wins every comparison with the others."""
    Referee(lambda body: reply("first" if shown(body)[0] == "gpt4o" else "second")).install(monkeypatch)
    files = {name: captions(name) for name in BASELINES}
    result = captious.arena(
        {"gpt4o": files["gpt4o"]},
        "m",
        resampling=Resampling(0),
        runtime=runtime,
        references=REFERENCES,
        baselines=files,
    )
    data = result.data()["baselines"]["gpt4o"]
    assert data["score"]["value"] == pytest.approx((0 + 100 + 100) / 3)
    table = next(section for section in result.document().sections if getattr(section, "key", "") == "baselines")
    assert table.rows[0][2] is None and "against gpt4o" in str(result)


def test_the_table_has_the_length_and_only_pairs_that_met(monkeypatch, runtime):
    Referee(lambda body: reply("tie")).install(monkeypatch)
    result = captious.arena(
        {name: captions(name) for name in SYSTEMS}, "m",
        resampling=Resampling(20), runtime=runtime, references=REFERENCES,
        baselines={name: captions(name) for name in BASELINES},
    )  # fmt: skip
    tables = {getattr(section, "key", ""): section for section in result.document().sections}
    # "theirs of 3 very very" has five words, "ours of 3" three.
    assert {row[0]: row[-1] for row in tables["baselines"].rows} == {"ours": 3.0, "theirs": 5.0}
    assert {tuple(row[:2]) for row in tables["pairs"].rows} == set(product(SYSTEMS, BASELINES))


@pytest.mark.parametrize("orders", ["both", "one"])
def test_a_row_of_the_verdicts_has_a_cell_for_every_column(monkeypatch, runtime, orders):
    Referee(lambda body: reply("first", "It is full.")).install(monkeypatch)
    same = dict.fromkeys(IDS[:2], "the same")
    result = captious.arena(
        {"ours": {**{key: f"ours of {key}" for key in IDS[2:]}, **same}}, "m",
        resampling=Resampling(0), runtime=runtime,
        references=REFERENCES, baselines={"gpt4o": {**{key: f"gpt4o of {key}" for key in IDS[2:]}, **same}},
        orders=orders,
    )  # fmt: skip
    (table,) = (section for section in result.document().sections if getattr(section, "key", "") == "verdicts")
    for row in table.rows:
        cells = dict(zip([column.name for column in table.heads], row, strict=True))
        own = "the same" if row[0] in same else f"ours of {row[0]}"
        reasons = 0 if row[0] in same else 2 if orders == "both" else 1
        assert cells["caption of the first"] == own
        assert (cells["reason"] + cells["reason, swapped"]).count("It is full.") == reasons


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"baselines": {"ours": captions("gpt4o")}}, "ours: a system and a baseline of this name differ"),
        ({"assign": "ref_model"}, r"assign=\.\.\. names the baseline of each item, and there are none"),
        ({"baselines": {"b": captions("gpt4o")}, "assign": "x"}, "assign='x': no system has this column"),
        (
            {"baselines": {"b": captions("gpt4o")}, "assign": "ref_model"},
            "ref_model of item 0 is 'gpt4o', expected the name of a baseline: b",
        ),
        ({"baselines": {}}, "baselines: none, expected at least one"),
        ({"orders": "three"}, "orders='three', expected both or one"),
        ({"elo": "chess"}, "elo='chess', expected bradley-terry or online"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_asked(monkeypatch, runtime, options, message):
    model = Referee(lambda body: reply("tie")).install(monkeypatch)
    with pytest.raises(InputError, match=message):
        captious.arena(
            {name: captions(name) for name in SYSTEMS}, "m", runtime=runtime, references=REFERENCES, **options
        )
    assert not model.bodies


def plain_elo(battles):
    """Elo points as Chatbot Arena computes them: K = 4, 400 points are odds of ten to one, from 1000 on."""
    points = {}
    for one, other, score in battles:
        first, second = points.setdefault(one, 1000.0), points.setdefault(other, 1000.0)
        expected = 1 / (1 + 10 ** ((second - first) / 400))
        points[one] += 4 * (score - expected)
        points[other] += 4 * ((1 - score) - (1 - expected))
    return points


def test_online_elo_equals_a_plain_loop_on_resampled_battles():
    generator = np.random.default_rng(3)
    first = generator.integers(0, 3, 60)
    second = (first + generator.integers(1, 3, 60)) % 3
    score = generator.choice([0.0, 0.5, 1.0], 60)
    battles = list(zip(first.tolist(), second.tolist(), score.tolist(), strict=True))
    (plain,) = update_elo_online(first, second, score, 3, 0, 0)
    expected = plain_elo(battles)
    assert plain.tolist() == pytest.approx([expected[system] for system in range(3)])
    np.random.seed(42)  # noqa: NPY002  # as the original seeds what pandas draws from
    drawn = [plain_elo([battles[index] for index in np.random.choice(60, 60, replace=True)]) for _ in range(5)]  # noqa: NPY002
    rows = update_elo_online(first, second, score, 3, 5, 42)
    assert rows == pytest.approx(np.array([[one[system] for system in range(3)] for one in drawn]))


def test_online_elo_in_the_arena_and_of_people(monkeypatch, runtime):
    Referee(
        lambda body: reply("first" if shown(body)[0] == "ours" else "second" if shown(body)[1] == "ours" else "tie")
    ).install(monkeypatch)
    files = {name: captions(name) for name in ("ours", "gpt4o")}
    result = captious.arena(files, "m", resampling=Resampling(0), runtime=runtime, references=REFERENCES, elo="online")
    expected = plain_elo([("ours", "gpt4o", 1.0)] * ITEMS)
    assert result.estimates[name_elo("ours")].value == pytest.approx(expected["ours"])
    assert "Elo: updated comparison by comparison" in str(result) and "|elo:online|" in result.signature
    rows = [
        {"image": str(number), "captions": ["a", "b"], "preferred": 0, "systems": ["ours", "gpt4o"]}
        for number in range(ITEMS)
    ]
    ranking = captious.study.systems(rows, resampling=Resampling(0), elo="online")
    assert ranking.tournament.estimates[name_elo("gpt4o")].value == pytest.approx(expected["gpt4o"])


def test_the_command(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    for name in ("ours", *BASELINES):
        (tmp_path / f"{name}.json").write_text(json.dumps(captions(name)))
    (tmp_path / "refs.json").write_text(json.dumps(REFERENCES))
    Referee(lambda body: reply("first" if shown(body)[0] == "ours" else "second")).install(monkeypatch)
    arguments = ["ours.json", "--baselines", "gpt4o.json,cogvlm.json,minicpm.json", "--assign", "ref_model"]
    options = ["--references", "refs.json", "--model", "m", "--samples", "20", "--replies", "replies.db", "--json"]
    code, out, err = run("arena", *arguments, *options)
    assert code == 0, err
    data = json.loads(out)
    assert data["baselines"]["ours"]["score"]["value"] == 100 and data["comparisons"] == ITEMS
