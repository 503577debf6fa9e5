"""A reward has the value of `Scorer`, whatever form the completions have and however a batch is split."""

import asyncio
import inspect
import math
import pickle
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest
from tests.models.chat.stub import StubServer, response

import captious
from captious import InputError, Judging, Runtime, Scorer

REFERENCES = {
    "1": ["a black dog runs on the grass", "the dog is running"],
    "2": ["two cats sleep on a sofa", "cats asleep on the couch", "a pair of sleeping cats"],
    "3": ["a man rides a wave on a surfboard"],
}
IDS = ["2", "1", "2", "3"]
CAPTIONS = ["two cats sleep", "a dog runs on grass", "a cat on the sofa, asleep", "zebras"]
METRICS = "cider, rouge, bleu(n=2)"


@pytest.fixture
def server():
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    stub = StubServer()
    yield stub
    stub.close()


def _chat(text):
    return [{"role": "assistant", "content": text}]


def _parts(text):
    return [{"role": "assistant", "content": [{"type": "text", "text": text}]}]


def _with_tools(text):
    return [
        {"role": "assistant", "content": "let me look"},
        {"role": "tool", "content": "a picture"},
        {"role": "assistant", "content": text},
    ]


@pytest.mark.parametrize("form", [str, _chat, _parts, _with_tools])
def test_a_reward_is_the_scorers_value_in_every_form_and_split(form):
    expected = Scorer(METRICS, references=REFERENCES)(IDS, CAPTIONS)
    rewards = captious.rewards(METRICS, references=REFERENCES)
    completions = [form(text) for text in CAPTIONS]
    for reward in rewards:
        wanted = expected[str(reward.metric)].tolist()
        assert (
            reward(prompts=["describe"] * 4, completions=completions, image_id=IDS, completion_ids=[[1]] * 4) == wanted
        )
        split = [reward(completions=[one], image_id=[key])[0] for one, key in zip(completions, IDS, strict=True)]
        assert split == wanted
        assert reward(completions=completions[::-1], image_id=IDS[::-1]) == wanted[::-1]


def test_names_are_distinct_and_fit_trackers():
    rewards = captious.rewards("cider, bleu, bleu(n=1), rouge, rouge_n(n=1), rouge_n(n=2)", references=REFERENCES)
    names = [one.__name__ for one in rewards]
    assert names[:3] == ["captious/cider", "captious/bleu_4", "captious/bleu_1"]
    assert len(set(names)) == len(names) == 6
    assert all(re.fullmatch(r"[\w./ -]+", name) for name in names)  # what MLflow allows


def test_weights_come_in_order_or_by_name():
    assert captious.rewards("cider, rouge", references=REFERENCES, weights=[2, 1]).weights == [2.0, 1.0]
    assert captious.rewards("cider, rouge", references=REFERENCES, weights={"ROUGE-L": 0.3}).weights == [1.0, 0.3]
    assert isinstance(captious.rewards("cider", references=REFERENCES), list)  # TRL puts anything else into one
    with pytest.raises(InputError, match="weights: 1 for 2 metrics"):
        captious.rewards("cider, rouge", references=REFERENCES, weights=[1])
    with pytest.raises(InputError, match=r"^weights: no metric 'meteor'"):
        captious.rewards("cider, rouge", references=REFERENCES, weights={"meteor": 1})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": {"cider": "x"}}, "weights: 'x' for cider, expected a number of at least 0"),
        ({"weights": [1, math.nan]}, "weights: nan for chair"),
        ({"weights": [1, None]}, "weights: None for chair"),
        ({"weights": [1, -0.5]}, r"weights: -0.5 for chair\(value=s\).*is negated already"),
        ({"weights": "12"}, "weights: '12', expected a list of numbers"),
        ({"weights": 2}, "weights: 2, expected a list of numbers"),
        ({"floors": {"rouge": 0}}, "^floors: no metric 'rouge'"),
        ({"floors": {"cider": "low"}}, "floors: 'low' for cider, expected a number"),
        ({"floors": {"cider": math.nan}}, "floors: nan for cider"),
        ({"extract": 3}, "extract 3, expected a tag"),
    ],
)
def test_weights_floors_and_extraction_that_cannot_be_meant_are_refused(arguments, message):
    """A negative weight of CHAIR, whose reward is negated already, would pay for invented objects."""
    with pytest.raises(InputError, match=message):
        captious.rewards("cider, chair", references=REFERENCES, **arguments)


def test_an_empty_caption_gets_the_floor_also_where_its_value_would_be_good():
    """CHAIR of an empty caption is 0, the best value: a policy would learn to be silent."""
    rows = [{"id": 1, "caption": "", "references": ["a dog"], "objects": ["dog"]}]
    rewards = captious.rewards("rouge, chair", extract="caption")
    texts = ["<caption>a dog and a cat</caption>", "<caption> </caption>", "<caption>a dog", ""]
    columns = {"references": [rows[0]["references"]] * 4, "objects": [["dog"]] * 4}
    values = {one.__name__: one(completions=texts, **columns) for one in rewards}
    assert Scorer("chair", references=captious.read([{**rows[0], "caption": "x"}]))(["1"], [""])["chair"][0] == 0
    assert values["captious/chair_s"] == [-1.0, -1.0, -1.0, -1.0]  # the first one names a cat that is not there
    assert values["captious/rouge"][0] > 0 and values["captious/rouge"][1:] == [0.0, 0.0, 0.0]
    good = ["<caption>a dog</caption>"]
    assert rewards[1](completions=good, references=[["a dog"]], objects=[["dog"]]) == [0.0]  # -0.0 == 0.0


def test_a_caption_is_extracted_from_a_completion():
    rewards = captious.rewards("rouge", references=REFERENCES, extract="</think>")
    assert rewards[0](completions=["<think>a cat?</think> the dog is running"], id=["1"]) == [1.0]
    rewards = captious.rewards("rouge", references=REFERENCES, extract=r"Caption: (.*)")
    assert rewards[0](completions=["Caption: the dog is running", "the dog is running"], id=["1", "1"]) == [1.0, 0.0]
    with pytest.raises(InputError, match="extract '\\(': "):
        captious.rewards("rouge", references=REFERENCES, extract="(")


def test_a_long_completion_without_its_tags_is_read_once():
    """From every place anew, a million characters would take minutes: a policy that never closes its tag is common."""
    for extract, tag in (("caption", "<caption>"), ("</think>", "<think>")):
        rewards = captious.rewards("rouge", references=REFERENCES, extract=extract)
        assert rewards[0](completions=[tag * 120_000, "well " * 200_000], id=["1", "1"]) == [0.0, 0.0]


@pytest.mark.parametrize(
    "completion",
    [
        "<caption>a cat</caption> or rather <caption>the dog is running</caption>",
        "in <caption> I write <caption>the dog is running</caption>",
        "<caption>\nthe dog\nis running</caption></caption>",
    ],
)
def test_the_last_and_innermost_tag_has_the_caption(completion):
    assert captious.rewards("rouge", references=REFERENCES, extract="caption")[0](
        completions=[completion], id=["1"]
    ) == [1.0]


def test_references_from_a_column_as_text_list_or_printed_list():
    rewards = captious.rewards("rouge, bleu(n=1)")
    people = ["the dog is running", ["a cat", "the dog is running"], "['a cat', 'the dog is running']"]
    assert rewards[0](completions=["the dog is running"] * 3, references=people) == [1.0] * 3
    with pytest.raises(InputError, match=r"no references, expected references=.* by id, or a column 'references'"):
        rewards[0](completions=["a dog"], prompts=["x"])


def test_a_row_without_references_is_a_gap_and_a_batch_of_them_an_error():
    rewards = captious.rewards("rouge")
    with pytest.warns(RuntimeWarning, match="no references"):
        assert rewards[0](completions=["a dog"] * 3, references=["a dog", [3], "['a dog', nan]"]) == [1.0, None, None]
    with pytest.raises(InputError, match=r"column .references., row 0: references are"):
        rewards[0](completions=["a dog"], references=[[3]])


def test_a_batch_of_empty_captions_has_the_floor():
    for rewards in (captious.rewards("rouge"), captious.rewards("rouge, cider", references=REFERENCES)):
        assert rewards[0](completions=["", " "], references=["a dog"] * 2, id=["1", "2"]) == [0.0, 0.0]


def test_cider_without_all_references_is_refused_and_with_an_idf_is_not(tmp_path):
    from captious.text.idf import DocumentFrequency

    with pytest.raises(InputError, match=r"cider must know all references .* cider\(idf=NAME\)"):
        captious.rewards("cider")
    corpus = tmp_path / "corpus.idf"
    DocumentFrequency.of(captious.CaptionSet.of(dict.fromkeys(REFERENCES, ()), REFERENCES)).save(corpus)
    rewards = captious.rewards(f"cider(idf={corpus})")
    values = rewards[0](completions=CAPTIONS, references=[REFERENCES[key] for key in IDS])
    assert values == Scorer("cider", references=REFERENCES)(IDS, CAPTIONS)["cider"].tolist()
    assert values[0] > 0  # one item alone has no document frequencies: cider would be 0


def test_images_come_from_a_folder_by_id_or_from_a_column():
    from PIL import Image

    demo = captious.demo()
    keys = list(demo.systems["solid"].ids[:6])
    captions = [demo.systems["solid"][key].candidate for key in keys]
    metric = "clipscore(captious-mini)"
    by_id = captious.rewards(f"{metric}, rouge", references=demo.references, images=demo.images)
    expected = by_id[0](completions=captions, id=keys)
    pictures = [Image.open(demo.images / f"{key}.png") for key in keys]
    folder_alone = captious.rewards(metric, images=demo.images)
    assert folder_alone[0](completions=captions, id=keys) == pytest.approx(expected)
    with pytest.raises(InputError, match="no such folder of images"):
        captious.rewards(metric, images="nowhere")
    by_column = captious.rewards(metric)
    assert by_column[0](completions=captions, image=pictures) == pytest.approx(expected)
    assert by_column[0](completions=captions, images=[[one] for one in pictures]) == pytest.approx(expected)
    mixed = captious.rewards(f"{metric}, cider", references=demo.references)
    assert mixed[0](completions=captions, id=keys, image=pictures) == pytest.approx(expected)
    assert (
        mixed[1](completions=captions, id=keys, image=pictures)
        == Scorer("cider", references=demo.references)(keys, captions)["cider"].tolist()
    )


def test_a_broken_image_is_a_gap_in_all_metrics_and_is_said_once(tmp_path):
    (tmp_path / "1.png").write_bytes(b"no image")
    demo = captious.demo()
    (tmp_path / "2.png").write_bytes((demo.images / "1001.png").read_bytes())
    references = {"1": ["a dog"], "2": ["a dog"]}
    rewards = captious.rewards("rouge, clipscore(captious-mini)", references=references, images=tmp_path)
    logged, extra = {}, {}
    columns = {"id": ["1", "2", "2"], "log_metric": logged.__setitem__, "log_extra": extra.__setitem__}
    with pytest.warns(RuntimeWarning, match="1 captions of a batch have no reward .*image") as said:
        values = [one(completions=["a dog", "a dog", ""], **columns) for one in rewards]
        rewards[0](completions=["a dog", "a cat", ""], **columns)
    assert len([one for one in said if "no reward" in str(one.message)]) == 1
    assert [value[0] for value in values] == [None, None]
    assert all(math.isfinite(value) for column in values for value in column[1:])
    assert logged == {"captious/missing": 1 / 3, "captious/floored": 1 / 3}
    assert extra == {"id": ["1", "2", "2"]}


def test_a_server_that_is_down_gives_none_in_all_metrics(tmp_path):
    judging = Judging(endpoint="http://127.0.0.1:9/v1", most_tokens=1000, replies=tmp_path / "replies.db")
    rewards = captious.rewards("rouge, clair(model=m)", references=REFERENCES, runtime=Runtime(judging=judging))
    with pytest.warns(RuntimeWarning, match="have no reward"):
        assert rewards[0](completions=CAPTIONS[:2], id=IDS[:2]) == [None, None]
    assert rewards[1](completions=CAPTIONS[:2], id=IDS[:2]) == [None, None]


def test_two_judges_are_asked_at_the_same_time(server, tmp_path):
    """The server answers none before it has a question of each: one after the other they would wait forever."""
    both = threading.Barrier(2, timeout=60)

    def behave(number, body, headers):
        both.wait()
        return 200, {}, response('{"score": 80, "reason": "x"}')

    server.behave = behave
    judging = Judging(endpoint=server.url, most_tokens=10_000, replies=tmp_path / "replies.db")
    rewards = captious.rewards(
        "clair(model=a), rouge, clair(model=b)", references=REFERENCES, runtime=Runtime(judging=judging)
    )
    values = [one(completions=CAPTIONS[:1], id=IDS[:1]) for one in rewards]
    assert values[0] == values[2] == [0.8]
    assert values[1] == Scorer("rouge", references=REFERENCES)(IDS[:1], CAPTIONS[:1])["rouge"].tolist()
    assert len(server.bodies) == 2


def test_judges_that_are_asked_at_once_stop_at_one_ceiling(server, tmp_path):
    """100 tokens a call and a limit of 1,000: ten calls of both together, and what is under way."""

    def behave(number, body, headers):
        time.sleep(0.02)
        return 200, {}, response('{"score": 80, "reason": "x"}', prompt_tokens=90, reply_tokens=10)

    server.behave = behave
    judging = Judging(endpoint=server.url, most_tokens=1000, concurrency=1, replies=tmp_path / "replies.db")
    rewards = captious.rewards(
        "clair(model=a), clair(model=b)", references=REFERENCES, runtime=Runtime(judging=judging)
    )
    with pytest.warns(RuntimeWarning, match="the limit is 1,000"):
        rewards[0](completions=[f"a dog {number}" for number in range(20)], id=["1"] * 20)
    assert 10 <= len(server.bodies) <= 12
    sent = len(server.bodies)
    assert rewards[0](completions=["a cat"], id=["2"]) == [None] and len(server.bodies) == sent


def test_asynchronous_rewards_score_a_batch_once_while_others_run(monkeypatch):
    calls, others = [], []
    begun = threading.Event()
    real = Scorer.explain_values_at

    def waiting(self, *given):
        calls.append(1)
        assert begun.wait(60)  # until another function of the trainer has run
        return real(self, *given)

    monkeypatch.setattr(Scorer, "explain_values_at", waiting)
    rewards = captious.rewards(METRICS, references=REFERENCES, weights=[1, 2, 3]).asynchronous
    assert all(inspect.iscoroutinefunction(one.__call__) for one in rewards)  # what TRL looks at
    assert [one.__name__ for one in rewards] == [
        one.__name__ for one in captious.rewards(METRICS, references=REFERENCES)
    ]
    assert rewards.weights == [1, 2, 3]

    async def another():
        await asyncio.sleep(0)
        others.append(1)
        begun.set()

    async def trainer():
        return await asyncio.gather(*(one(completions=CAPTIONS, id=IDS) for one in rewards), another())

    values = asyncio.run(trainer())[:-1]
    monkeypatch.undo()
    assert values == [one(completions=CAPTIONS, id=IDS) for one in captious.rewards(METRICS, references=REFERENCES)]
    assert len(calls) == 1 and others == [1]


def test_threads_that_ask_for_one_batch_have_it_scored_once(monkeypatch):
    calls = []
    real = Scorer.explain_values_at
    monkeypatch.setattr(
        Scorer, "explain_values_at", lambda self, *given: calls.append(1) or time.sleep(0.2) or real(self, *given)
    )
    rewards = captious.rewards(METRICS, references=REFERENCES)
    with ThreadPoolExecutor(3) as pool:
        values = list(pool.map(lambda one: one(completions=CAPTIONS, id=IDS), rewards))
    assert len(calls) == 1 and len({tuple(one) for one in values}) == 3


def test_judges_need_a_ceiling_which_ranks_share(monkeypatch):
    with pytest.raises(InputError, match="a judge as a reward needs a limit"):
        captious.rewards("clair(model=m)", references=REFERENCES)
    monkeypatch.setenv("WORLD_SIZE", "4")
    runtime = Runtime(judging=Judging(most_tokens=1000, most_cost=2.0, prices=(1.0, 1.0)))
    panel = captious.rewards("clair(model=m)", references=REFERENCES, runtime=runtime).panel
    assert (panel.runtime.judging.most_tokens, panel.runtime.judging.most_cost) == (250, 0.5)


def test_a_metric_without_a_worst_value_needs_one():
    with pytest.raises(InputError, match="bleurt has no worst value: pass one for empty captions, floors="):
        captious.rewards("bleurt", references=REFERENCES)


def test_unknown_ids_are_gaps_unless_none_is_known():
    rewards = captious.rewards("rouge", references=REFERENCES)
    with pytest.raises(InputError, match="no column of the data set has ids"):
        rewards[0](completions=["a dog"], image_id=["77"])
    with pytest.warns(RuntimeWarning, match="its id is not among"):
        assert rewards[0](completions=["a dog", "a dog is running"], image_id=["77", "1"])[0] is None
    assert rewards[0](completions=["a dog"], image_id=["77"]) == [None]  # in the middle of a training
    named = captious.rewards("rouge", references=REFERENCES, id_column="photo")
    with pytest.raises(InputError, match="column 'photo': no id, such as '77', is one of the references"):
        named[0](completions=["a dog"], photo=["77"])
    assert named[0](completions=["the dog is running"], photo=[1], id=["2"]) == [1.0]


def test_no_caption_raises_or_is_infinite():
    hostile = [
        "",
        " ",
        "\x00",
        "\ud800",
        "a" * 20_000,
        "\u202e",
        "'; drop",
        "🐕" * 50,
        "a\n" * 500,
        "</caption>",
        "NaN",
    ]
    rewards = captious.rewards("cider, rouge, bleu", references=REFERENCES)
    for reward in rewards:
        values = reward(completions=hostile, id=["1"] * len(hostile))
        assert len(values) == len(hostile)
        assert all(value is None or math.isfinite(value) for value in values)


def test_a_half_of_a_surrogate_pair_is_the_fault_of_the_caption():
    """It is scored with U+FFFD in its place; a technical gap would be None, which a policy could learn."""
    strict = captious.metric_from(lambda candidate, references: float(len(candidate.encode())), "bytes", range=(0, 99))
    (reward,) = captious.rewards([strict], references={"1": ["a dog runs"]})
    texts = ["a dog \ud83d", "a dog \ud83d\udc15"]
    assert reward(completions=texts, id=["1", "1"]) == [len("a dog \ufffd".encode()), len("a dog 🐕".encode())]


def test_objects_come_with_the_references_or_from_a_column():
    rewards = captious.rewards("rouge, chair", references=REFERENCES)
    columns = {"completions": ["a black dog", "a cat", ""], "id": ["1", "1", "2"]}
    with pytest.raises(InputError, match=r"chair\(value=s\) needs objects; give a column 'objects'"):
        rewards[1](**columns)
    objects = [["dog"], ["dog"], ["cat"]]
    assert rewards[1](**columns, objects=objects) == [0.0, -1.0, -1.0]
    assert (
        rewards[0](**columns, objects=objects)
        == Scorer("rouge", references=REFERENCES)(columns["id"], columns["completions"])["rouge"].tolist()
    )
    known = captious.CaptionSet.of({"1": ""}, {"1": REFERENCES["1"]}, {"objects": [["dog"]]})
    assert captious.rewards("chair", references=known)[0](completions=["a dog", "a cat"], id=["1", "1"]) == [0.0, -1.0]


def test_a_metric_that_cannot_be_prepared_says_why():
    """Not that the items have no captions, which come with the batches."""
    with pytest.raises(InputError, match="no idf corpus 'nowhere'"):
        captious.rewards("cider(idf=nowhere)", references=REFERENCES)


def _fragile(candidate, references):
    if candidate == "bad":
        raise RuntimeError("no such word")
    return 1.0


def test_one_caption_that_a_metric_cannot_take_spoils_no_other():
    rewards = captious.rewards(
        ["rouge", captious.metric_from(_fragile, "fragile", range=(0, 1))], references=REFERENCES
    )
    with pytest.warns(RuntimeWarning, match="no such word"):
        assert rewards[1](completions=["a dog", "bad", "a cat"], id=["1", "1", "2"]) == [1.0, None, 1.0]
    assert rewards[0](completions=["a dog", "bad", "a cat"], id=["1", "1", "2"])[1] is None


def test_a_batch_is_scored_once_for_all_metrics(monkeypatch):
    calls = []
    real = Scorer.explain_values_at
    monkeypatch.setattr(Scorer, "explain_values_at", lambda self, *given: calls.append(1) or real(self, *given))
    rewards = captious.rewards(METRICS, references=REFERENCES)
    logged = []
    columns = {"id": IDS, "log_metric": lambda name, value: logged.append(name)}
    for _ in range(2):
        for reward in rewards:
            reward(completions=CAPTIONS, **columns)
    assert len(calls) == 1  # the second batch has equal captions
    assert logged.count("captious/missing") == 2  # and is a batch of its own


def _scores(rewards):
    return [one(completions=CAPTIONS, id=IDS) for one in rewards]


def test_rewards_pickle_into_a_spawned_process_and_threads_agree():
    demo = captious.demo()
    rewards = captious.rewards(METRICS, references=REFERENCES)
    expected = _scores(rewards)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(_scores, rewards).result() == expected
    with ThreadPoolExecutor(8) as pool:
        singles = list(
            pool.map(
                lambda pair: rewards[0](completions=[pair[0]], id=[pair[1]])[0],
                list(zip(CAPTIONS, IDS, strict=True)) * 16,
            )
        )
    assert singles == expected[0] * 16
    looking = captious.rewards("clipscore(captious-mini)", references=demo.references, images=demo.images)
    before = looking[0](completions=["two cats"], id=["1001"])
    assert len(pickle.dumps(looking)) < 200_000  # no model in it
    assert pickle.loads(pickle.dumps(looking))[0](completions=["two cats"], id=["1001"]) == before


def test_importing_captious_imports_neither_torch_nor_trl():
    code = "import sys, captious; captious.rewards; print({'torch', 'trl', 'datasets'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_a_weighted_sum_and_verls_call():
    """As verl's naive manager calls it: keywords, in a thread, with what it adds to extra_info."""
    one = captious.rewards("0.7*rouge + 0.3*bleu(n=1)", references=REFERENCES).sum
    expected = Scorer("rouge, bleu(n=1)", references=REFERENCES)(IDS, CAPTIONS)
    sums = [0.7 * a + 0.3 * b for a, b in zip(expected["rouge"], expected["bleu"], strict=True)]
    assert one(completions=CAPTIONS, id=IDS) == pytest.approx(sums, rel=1e-12)
    compute_score = pickle.loads(pickle.dumps(one.compute_score))

    def call(text, key):
        info = {"index": 0, "id": key, "num_turns": 2, "rollout_reward_scores": {}}
        return compute_score(data_source="coco", solution_str=text, ground_truth="", extra_info=info)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(call, CAPTIONS, IDS))
    assert [result["score"] for result in results] == pytest.approx(sums, rel=1e-12)
    keys = ["score", "captious/rouge", "captious/bleu_1", "captious/missing"]
    assert all(list(result) == keys and all(type(value) is float for value in result.values()) for result in results)
    with pytest.warns(RuntimeWarning, match="its id is not among"):
        gap = one.compute_score(data_source="coco", solution_str="a dog", ground_truth="", extra_info={"id": "77"})
    assert gap == {"score": 0.0, "captious/rouge": 0.0, "captious/bleu_1": 0.0, "captious/missing": 1.0}


def test_verl_finds_references_in_the_ground_truth():
    one = captious.rewards("rouge").sum
    assert one.compute_score("coco", "a dog", ground_truth=["a cat", "a dog"], extra_info={})["score"] == 1.0


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("0.7*", "cannot read '0.7\\*'"),
        ("cider + ", "cannot read"),
        ("cider + cider", "occurs twice"),
        ("0.5*chair_i", "lower is better for chair\\(value=i\\); subtract it"),
        ("cidr", "cider"),
        ("cider+rouge", "cannot read 'cider\\+rouge', .*spaces around"),
        ("cider, rouge + bleu", "expected a sum such as"),
        ("cider * 0.5", "expected a sum such as"),
    ],
)
def test_a_sum_that_cannot_be_meant_is_refused(expression, message):
    with pytest.raises(InputError, match=message):
        captious.rewards(expression, references=REFERENCES)


def test_ms_swifts_plug_ins_as_its_trainer_makes_and_calls_them():
    """swift/rlhf_trainers/grpo_trainer.py: orms[name](args=args), named by its class; completions and columns in."""
    orms = captious.rewards("rouge, bleu(n=1)", references=REFERENCES).orms
    assert list(orms) == ["captious/rouge", "captious/bleu_1"]
    made = [orms[name](args=object) for name in orms]
    assert [one.__class__.__name__ for one in made] == list(orms)
    columns = {
        "messages": [[{"role": "user", "content": "describe"}]] * 4,
        "images": [[{"bytes": None, "path": "x"}]] * 4,
    }
    values = made[0](CAPTIONS, **columns, id=IDS, trainer_state=object())
    assert values == Scorer("rouge", references=REFERENCES)(IDS, CAPTIONS)["rouge"].tolist()
    copy = pickle.loads(pickle.dumps(orms["captious/rouge"](args=None)))
    assert copy(CAPTIONS, id=IDS) == values and type(copy).__name__ == "captious/rouge"
    with pytest.warns(RuntimeWarning):
        assert made[0](["a dog", "the dog is running"], id=["77", "1"]) == [0.0, 1.0]  # it would train on a missing one
    awaited = captious.rewards("rouge", references=REFERENCES).asynchronous.orms["captious/rouge"](args=None)
    assert inspect.iscoroutinefunction(type(awaited).__call__)
    assert asyncio.run(awaited(CAPTIONS, id=IDS)) == values
