"""Chat models on the command line: a plan first, a ceiling, a run that goes on, a replay, and keys that stay secret."""

import json
import re
import sqlite3

import pytest
from lab.toy import make, write
from tests.metrics.judges.answers import clair
from tests.models.chat.stub import StubServer, response

SECRET = "sk-nobody-may-see-this"
CLAIR = ("--metrics", "clair(model=m)", "--samples", 0, "--concurrency", 1)


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write(make(items=12), tmp_path_factory.mktemp("sample") / "s", images=False)


@pytest.fixture
def server():
    pytest.importorskip("aiohttp", reason="aiohttp is not installed: pip install 'captious[judge]'")
    stub = StubServer()
    stub.behave = lambda number, body, headers: (200, {}, response(clair(body), prompt_tokens=90, reply_tokens=10))
    yield stub
    stub.close()


@pytest.fixture
def score(run, server, sample):
    files = (sample / "predictions" / "solid.json", "--references", sample / "references.json")
    return lambda *options: run("score", *files, *CLAIR, "--endpoint", server.url, *options)


def test_a_dry_run_says_calls_tokens_and_cost_and_sends_nothing(score, server):
    code, out, _ = score("--dry-run", "--prices", "0.5,2", "--json")
    (row,) = json.loads(out)["calls"]
    assert code == 0 and not server.bodies and (row["calls"], row["stored"]) == (12, 0)
    assert row["cost"] == pytest.approx((0.5 * row["prompt_tokens"] + 2 * row["reply_tokens"]) / 1e6)
    assert score()[0] == 0
    texts = [body["messages"][0]["content"] for body in server.bodies]
    assert row["prompt_tokens"] == sum((len(text) + 3) // 4 for text in texts)  # four characters per token
    (row,) = json.loads(score("--dry-run", "--json")[1])["calls"]
    assert (row["calls"], row["stored"], row["prompt_tokens"]) == (0, 12, 0)
    code, out, _ = score("--dry-run")
    assert code == 0 and "clair(model=m)" in out and "Nothing was sent." in out and len(server.bodies) == 12


def test_a_dry_run_says_what_would_ask_nothing_and_why(run, server, sample, tmp_path):
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"id": "elsewhere", "question": "A dog?", "choices": ["yes", "no"], "answer": "yes"}')
    unasked = f"captionqa(m,questions={questions})"
    command = ("score", sample / "predictions" / "solid.json", "--endpoint", server.url, "--metrics")
    code, out, err = run(*command, f"vqascore(m),{unasked}", "--dry-run")
    assert code == 0 and "0 calls" in out and not server.bodies
    said = " ".join((out + err).split())
    assert "vqascore(model=m) cannot score" in said and "no image; pass --images" in said
    assert "would ask nothing about" in said
    code, _, err = run(*command, unasked)
    assert code == 2 and f"no questions; {questions} has none of these ids" in err


def test_a_question_that_two_metrics_share_is_planned_once(run, server, tmp_path):
    """Three questions in two captions: precision and F1 ask the same, and so do the two captions that are equal."""
    row = {"caption": "a dog", "questions": [{"question": "Does it mention a dog?"}, {"question": "a cat?"}]}
    given = [{"id": 1, **row}, {"id": 2, **row}, {"id": 3, "caption": "a cat", "questions": [{"question": "a cat?"}]}]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in given))
    server.behave = lambda number, body, headers: (200, {}, response("yes", prompt_tokens=90, reply_tokens=10))
    each = [f"capeval(m,ask=each,value={value})" for value in ("precision", "f1")]
    command = ("score", tmp_path / "captions.jsonl", "-m", ",".join(each), "--endpoint", server.url, "--samples", 0)
    code, out, err = run(*command, "--dry-run", "--prices", "1,1", "--json")
    assert code == 0, err
    plan = json.loads(out)
    assert [one["calls"] for one in plan["calls"]] == [3, 3] and plan["total"]["calls"] == 3
    assert plan["total"]["prompt_tokens"] == plan["calls"][0]["prompt_tokens"]
    assert plan["total"]["cost"] == plan["calls"][1]["cost"] > 0
    code, out, _ = run(*command, "--dry-run")
    assert out.startswith("3 calls") and "counts in each row, and once in all" in " ".join(out.split())
    assert run(*command)[0] == 0 and len(server.bodies) == 3
    plan = json.loads(run(*command, "--dry-run", "--json")[1])
    assert (plan["total"]["calls"], plan["total"]["stored"]) == (0, 3)


def test_a_study_and_a_comparison_are_planned_too(run, server, sample):
    options = ("--references", sample / "references.json", "--endpoint", server.url, "--dry-run", "--json")
    ratings = sample / "ratings.jsonl"
    for command in (
        ("study", "run", ratings, "--metrics", "clair(model=m)"),
        ("study", "lengths", ratings, "--metrics", "rouge,clair(model=m)"),
        ("study", "combine", ratings, "--metrics", "rouge", "--add", "clair(model=m)"),
    ):
        code, out, err = run(*command, *options)
        assert code == 0, err
        assert [row["calls"] for row in json.loads(out)["calls"]] == [48]  # four systems of 12
    systems = [sample / "predictions" / f"{name}.json" for name in ("solid", "sloppy")]
    rows = json.loads(run("compare", *systems, "--metrics", "clair(model=m)", *options)[1])["calls"]
    assert [(row["captions"], row["calls"]) for row in rows] == [("solid", 12), ("sloppy", 12)]
    assert not server.bodies
    code, _, err = run("compare", *systems, "--metrics", "rouge", *options)
    assert code == 2 and "--dry-run: none of these metrics asks a chat model" in err


def test_a_run_stops_at_its_ceiling_and_goes_on_from_there(score, server, tmp_path):
    code, out, err = score("--most-tokens", 450, "--out", tmp_path / "run")  # a call takes 100
    assert code == 2 and not out and not (tmp_path / "run").exists() and len(server.bodies) == 5
    assert err.count("\n") == 1 and "m: 500 tokens used, the limit is 450; 5 replies are stored" in err
    code, out, _ = score("--most-tokens", 2000)
    assert code == 0 and len(server.bodies) == 12
    assert "CLAIR: 7 calls, 5 replies from the store, 630 + 70 tokens, " in out
    server.close()
    first, second = (json.loads(score("--replay", "--json")[1])["metrics"][0] for _ in range(2))
    assert first == second and first["value"] > 0


def test_a_ceiling_of_cost_needs_prices(score, server):
    code, _, err = score("--most-cost", 1)
    assert code == 2 and "--most-cost needs --prices" in err
    code, _, err = score("--most-cost", "0.0003", "--prices", "1,1")  # a call costs 0.0001
    assert code == 2 and len(server.bodies) == 3 and "0.0003 spent, the limit is 0.0003" in err


def test_a_key_is_nowhere_but_in_the_request(score, server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    code, out, err = score("--out", tmp_path / "run", "--replies", tmp_path / "replies.db", "--json")
    assert code == 0 and server.headers[0]["Authorization"] == f"Bearer {SECRET}"
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 3 and not any(SECRET.encode() in content for content in written)
    assert SECRET not in out + err
    server.behave = lambda number, body, headers: (401, {}, {"error": {"message": f"Incorrect key: {SECRET}"}})
    code, out, err = score("--replies", tmp_path / "other.db")
    assert code == 2 and SECRET not in out + err and "status 401 (Incorrect key: …)" in err


def test_an_item_is_explained_by_the_stored_reply(score, server):
    score()
    code, out, _ = score("--explain", "1003", "--replay")
    assert code == 0 and re.search(r"They share \d+ words", out)


def test_the_cache_shows_the_replies(score, run):
    score()
    (facts,) = json.loads(run("cache", "show", "--json")[1])["replies"]
    assert facts["content"] == "12 replies" and facts["bytes"] > 0 and facts["path"].endswith("replies.db")
    with sqlite3.connect(facts["path"]) as store:
        assert store.execute("SELECT count(*) FROM reply").fetchone() == (12,)
    out = run("cache", "show")[1]
    assert "Replies of chat models" in out and "12 replies" in out


@pytest.mark.parametrize(("scores", "warned"), [((0,), True), ((100,), True), ((0, 0, 0, 1), False)])
def test_a_judge_that_gives_one_value_to_all_captions_is_reported(score, server, scores, warned):
    server.behave = lambda number, body, headers: (
        200,
        {},
        response(json.dumps({"score": scores[number % len(scores)], "reason": "none"})),
    )
    code, _, err = score()
    assert code == 0
    assert (f"CLAIR: the judge gave {scores[0] / 100:g} to all 12 captions" in err) == warned
