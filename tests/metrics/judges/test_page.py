"""The report's page says why judged captions have their scores: reasons, facts, probabilities, unreadable replies."""

import numpy as np
import pytest
from tests.metrics.judges.answers import clair, faithscore, fleur
from tests.models.chat.stub import asked

import captious
from captious.captions import CaptionSet, ImageData
from captious.metrics.judges.clair import Clair
from captious.metrics.judges.judged import LONGEST_REPLY
from captious.options import Judging, Resampling, Runtime, using
from captious.render.html import render_page
from captious.render.items import build_explorer_data

NONSENSE = "I cannot say.\n<b>Perhaps</b> 40?"
RED = ImageData(np.full((8, 8, 3), (255, 0, 0), np.uint8))


def captions():
    return CaptionSet.of(
        {"1": "red cat", "2": "nonsense", "3": "two dogs"},
        {"1": "red dog", "2": "a day", "3": "two dogs"},
        {"image": [RED] * 3},
    )


def answer(body):
    text = asked(body)
    if "Reference captions:" in text:
        return NONSENSE if "nonsense" in text else clair(body)
    return faithscore(body) if any(word in text for word in ("Now label", "Now this one", "Statement")) else fleur(body)


@pytest.fixture
def judged(model, tmp_path):
    """The stand-in for the model, and a report whose replies are in a store of its own."""
    stub = model(answer)
    with using(Runtime(judging=Judging(replies=tmp_path / "own.db"))):
        metrics = ["clair(m)", "fleur(m)", "faithscore(m)", "rouge"]
        return stub, captious.evaluate(captions(), metrics, resampling=Resampling(0))


def items_of(report):
    return next(section for section in report.document().sections if hasattr(section, "explain"))


def test_reasons_facts_and_probabilities_are_on_the_page_and_nothing_is_asked(judged):
    stub, report = judged
    sent = len(stub.bodies)
    explanations = {
        one["metric"]: one["systems"][0] for one in build_explorer_data(items_of(report))[0]["explanations"]
    }
    assert len(stub.bodies) == sent and sorted(explanations) == [0, 1, 2]
    assert all(sorted(own) == ["0", "1", "2"] for own in explanations.values())
    # red of {red, cat, dog}
    assert explanations[0]["0"] == {
        "summary": "They share 1 words.",
        "sections": [{"title": "", "paragraphs": ["They share 1 words."]}],
    }
    digits, *_ = explanations[1]["0"]["sections"]
    assert [row[0] for row in digits["rows"]] == ["0.2", "0.1"]  # two words: 0.2 or, half as likely, 0.1
    assert [column["bars"] for column in digits["columns"]] == [None, [1.0, 0.25], [1.0, 0.5]]
    assert explanations[1]["0"]["summary"] == "the judge wrote 0.2"
    facts, *_ = explanations[2]["0"]["sections"]
    assert explanations[2]["0"]["summary"] == "1 of 2 facts true"
    verdicts = [(row[0], row[2]) for row in facts["rows"]]
    assert verdicts == [("There is a red.", [("true", "good", 1.0)]), ("There is a cat.", [("false", "bad", 1.0)])]


def test_a_reply_that_could_not_be_read_is_shown_whole(judged):
    _, report = judged
    (own,) = build_explorer_data(items_of(report))[0]["explanations"][0]["systems"]
    assert own["1"]["summary"] == f"the judge replied: {NONSENSE}"
    reason, reply = own["1"]["sections"][0]["paragraphs"]
    assert reason.startswith("no value: unreadable reply: no JSON object") and reply.endswith(NONSENSE)
    assert NONSENSE in str(report.explain("2", "clair").document())


def test_a_very_long_reply_is_cut_on_the_page_alone(model):
    model(lambda body: "x" * (2 * LONGEST_REPLY))
    note = Clair("m").explain(captions(), "1").breakdown.notes[0]
    assert len(note) < LONGEST_REPLY + 100 and note.endswith("… (4,000 characters)")


def test_without_the_replies_the_page_has_no_reasons_and_says_so(judged, tmp_path):
    stub, report = judged
    log, sent = [], len(stub.bodies)
    with using(Runtime(judging=Judging(replies=tmp_path / "other.db"), log=log.append)):
        metric, fresh = report["faithscore"].metric, captions()
        assert metric.page_explanations(fresh, [0, 1], metric.prepare(fresh)) == []
    assert len(stub.bodies) == sent
    assert log and log[0].startswith("FaithScore: the page shows no reasons") and "replay" in log[0]


def test_the_browser_draws_reasons_and_marks_when_an_item_is_opened(judged, drawn):
    _, report = judged
    text = render_page(report.document())
    closed = drawn(text)
    assert "They share 1 words." in closed and "There is a cat." not in closed.partition("<script")[0]
    opened = drawn(text, "#item=1").partition("<script")[0]
    assert 'class="tone-bad"' in opened and "There is a cat." in opened and 'class="adds' in opened
    unread = drawn(text, "#item=2").partition("<script")[0]
    assert "has no value" in unread and "&lt;b&gt;Perhaps&lt;/b&gt; 40?" in unread
