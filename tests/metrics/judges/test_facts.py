"""What the metrics of atomic facts share: lists in replies, prompts in a folder, the plan of a run."""

from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metrics.judges.answers import faithscore, rlaifv

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.judges import dcscore
from captious.metrics.judges._facts import read_bullets, read_flag, read_json_list, read_numbered
from captious.metrics.judges._yes_no import read_yes_no
from captious.metrics.judges.dcscore import FactLists, MatchedFact
from captious.metrics.judges.faithscore import FaithScore, read_facts, read_labels
from captious.metrics.judges.rlaifv import RlaifV, read_fact_list, read_questions
from captious.models.chat.messages import Reply


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("- a\n- b", ["a", "b"]),
        ("Here they are:\n  * a b\n\n• c", ["a b", "c"]),
        ("1. a\n2) b", ["a", "b"]),
        ("none", []),
        ("- None.", []),
        ("There is a dog.", None),
        ("-", None),
        ("", None),
    ],
)
def test_a_list_is_read_whatever_its_marks(text, lines):
    if lines is None:
        with pytest.raises(ValueError, match="no list"):
            read_bullets(text)
    else:
        assert read_bullets(text) == lines


def test_numbers_must_be_all_there_and_each_once():
    assert read_numbered("Sure:\n2. Is it big?\n**1.** Is it red?", 2) == ["Is it red?", "Is it big?"]
    for text in ("1. Is it red?", "1. a?\n1. b?", "1. a?\n2. b?\n3. c?", ""):
        with pytest.raises(ValueError, match="the numbers 1 to 2, each once"):
            read_numbered(text, 2)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('[{"a": 1}]', [{"a": 1}]),
        ('I took [1] and [2]. ```json\n[{"a": "x [y] ]"},\n {"a": 2}]\n```', [{"a": "x [y] ]"}, {"a": 2}]),
        ('{"facts": [{"a": 1}]}', [{"a": 1}]),
        ("[{'a': None}, {'a': True}]", [{"a": None}, {"a": True}]),
        ("[]", []),
        ("[{'a': 1}", None),
        ("[" * 10_000, None),
        ("a list", None),
        ("[1, 2]", None),
    ],
)
def test_a_json_list_is_read_whatever_stands_around_it(text, value):
    if value is None:
        with pytest.raises(ValueError, match="no JSON list"):
            read_json_list(text)
    else:
        assert read_json_list(text) == value


def test_a_flag_is_one_or_zero():
    assert [read_flag(value, "x") for value in (1, "1", True, "true", 1.0, "Yes")] == [True] * 6
    assert [read_flag(value, "x") for value in (0, "0", False, "no", 0.0)] == [False] * 5
    for value in (2, None, "maybe", []):
        with pytest.raises(ValueError, match="neither 1 nor 0"):
            read_flag(value, "x")


REPLIES = st.lists(
    st.sampled_from(
        ["1", "2", ". ", " D", " A", "\n", "- ", "[", "]", "{", "}", '"fact"', '"true"', '"match"', ": ", ", ", "null",
         "Entities:", "yes", "No", "'", "\\", "\u3002", " ", "1e999", "-"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@given(REPLIES | st.text())
def test_any_reply_is_read_or_refused_in_one_line(text):
    reply, lists = Reply(text), FactLists([MatchedFact("a"), MatchedFact("a")], ["b"])
    for read in (
        read_yes_no,
        partial(read_labels, sentences=["a", "b"]),
        read_facts,
        read_fact_list,
        partial(read_questions, number=2),
        dcscore.read_facts,
        partial(dcscore.read_matches, lists=lists),
        partial(dcscore.read_checks, lists=lists),
    ):
        with suppress(ValueError):
            assert read(reply) is not None
            continue
        with pytest.raises(ValueError) as error:
            read(reply)
        assert str(error.value) and "\n" not in str(error.value)


def test_a_folder_with_one_prompt_replaces_that_one(model, photos, tmp_path):
    captions = CaptionSet.of({"1": "dog cat"}, columns={"image": [str(photos / "red.png")]})
    stub = model(faithscore)
    ours = FaithScore("m").measure(captions)
    (tmp_path / "faithscore_check.txt").write_text("Look. Statement: {statement} So?")
    other = FaithScore("m", prompt=str(tmp_path)).measure(captions)
    assert ours.corpus == other.corpus == 0.5
    assert str(ours.signature) != str(other.signature)
    texts = [body["messages"][-1]["content"] for body in stub.bodies]
    assert sum(text[-1]["text"].endswith("So?") for text in texts if isinstance(text, list)) == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    for path in (empty, tmp_path / "absent", tmp_path / "faithscore_check.txt"):
        with pytest.raises(InputError, match="expected a folder with another prompt, one or more of faithscore_labels"):
            FaithScore("m", prompt=str(path)).measure(captions)
    (tmp_path / "faithscore_check.txt").write_text("Is it true?")
    with pytest.raises(InputError, match=r"has no \{statement\}"):
        FaithScore("m", prompt=str(tmp_path)).measure(captions)


def test_the_plan_counts_what_is_not_stored_and_sends_nothing(model, photos):
    images = [str(photos / "red.png"), str(photos / "green.png")]
    captions = CaptionSet.of({"1": "dog cat ball", "2": "a red red dog runs"}, columns={"image": images})
    stub = model(rlaifv)
    # of 3 and 5 words: 0.3 facts a word, at least one; facts, questions, and an answer to each
    plan = RlaifV("m").plan_scoring(captions)
    assert (plan.calls, plan.stored) == ((1 + 1 + 1) + (1 + 1 + 2), 0) and not stub.bodies
    assert plan.prompt_tokens > 3 * 765 and plan.reply_tokens > 0  # three images
    RlaifV("m").measure(captions.take([0]))
    sent = len(stub.bodies)
    plan = RlaifV("m").plan_scoring(captions)
    # the facts, the questions, the probe of logprobs and three answers are stored
    assert (plan.calls, plan.stored) == (4, 6) and len(stub.bodies) == sent == 6
    RlaifV("m").measure(captions)
    assert RlaifV("m").plan_scoring(captions).calls == 0
