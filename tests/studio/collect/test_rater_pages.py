"""The way of a rater through a study, request by request; no browser."""

import base64
import logging
import re
from html import unescape
from html.parser import HTMLParser

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'captious[studio]'")
from starlette.testclient import TestClient
from tests.studio.hostile import HOSTILE
from tests.studio.studies import KINDS, OWNER, SECRET, Study, make_tasks, prolific

from captious.studio.access import Limit, Rules
from captious.studio.collect._database import DatabaseAway
from captious.studio.collect._events import Page
from captious.studio.collect._rendering import PageRenderer
from captious.studio.collect.sessions import get_study_name
from captious.studio.collect.study_plan import Aspect, Checks, Source

JSON = {"accept": "application/json"}
# What `filled` chooses where a field has no other rule.
CHOICES = {"preferred": "1", "label": "old"}


class Fields(HTMLParser):
    """The form fields of a page: hidden ones with their values, and the values of each choice."""

    def __init__(self, text):
        super().__init__()
        self.hidden, self.choices, self.checked, self.tags = {}, {}, {}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append((tag, values))
        if tag == "input" and values["type"] == "hidden":
            self.hidden[values["name"]] = values["value"]
        elif tag == "input":
            self.choices.setdefault(values["name"], []).append(values.get("value", ""))
            if "checked" in values:
                self.checked[values["name"]] = values["value"]


def browser(study, client=("10.0.0.1", 5000), scheme="http"):
    return TestClient(study.app, base_url=f"{scheme}://127.0.0.1:8765", client=client, raise_server_exceptions=False)


def filled(text, **changes):
    """The fields of a page with an answer to everything: the last choice; ranks from 1 on."""
    fields = Fields(text)
    answer = {name: CHOICES.get(name, values[-1]) for name, values in fields.choices.items() if name != "both_bad"}
    ranks = [name for name in answer if name.startswith("rank:")]
    answer |= {name: str(rank) for rank, name in enumerate(ranks, 1)}
    return {**fields.hidden, **answer, **changes}


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_rater_goes_from_the_link_to_the_code(kind, tmp_path):
    study = Study(tmp_path, kind, source=Source(done="C1ABCDEF"))
    client = browser(study)
    page = client.get(study.link())
    assert page.url.path == "/task" and page.status_code == 200
    for number in range(1, 5):
        assert f"Task {number} of 4" in page.text and f"{5 - number} to do" in page.text
        page = client.post("/task", data=filled(page.text, seconds="12.5"))
        assert page.status_code == 200
    assert page.url.path == "/done" and "C1ABCDEF" in page.text
    answers = study.log.answers()
    assert len(answers) == 4 and {answer.seconds for answer in answers} == {12.5}
    assert len(study.events("finished")) == 1
    expected = {
        "ratings": {"ratings": {"a": {"correctness": 5, "fluency": 5}, "b": {"correctness": 5, "fluency": 5}}},
        "yesno": {"seen": dict.fromkeys(study.log.task("t1").things)},
        "labels": {"label": "old"},
    }
    for answer in answers:
        first, last = (*answer.order, "", "")[:2]
        shown = {"ranking": {"ranks": {first: 2, last: 1}}, "pairs": {"preferred": last, "both_bad": False}}
        assert answer.answer == (expected | shown)[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_captions_are_text_and_systems_and_files_are_nowhere(kind, tmp_path):
    study = Study(tmp_path, kind, number=20)
    client = browser(study)
    page = client.get(study.link())
    for _ in range(20):
        assert SECRET not in page.text
        tags = {tag for tag, _ in Fields(page.text).tags}
        assert not tags & {"iframe", "svg", "style", "base"}
        scripts = [values for tag, values in Fields(page.text).tags if tag == "script"]
        assert [set(values) for values in scripts] == [{"type", "src"}]
        assert not [name for _, values in Fields(page.text).tags for name in values if name.startswith("on")]
        page = client.post("/task", data=filled(page.text))


def test_every_caption_is_shown_as_it_is(tmp_path):
    study = Study(tmp_path, number=20)
    client = browser(study)
    page, texts = client.get(study.link()), []
    for _ in range(20):
        texts += re.findall(r'<p class="text" dir="auto">(.*?)</p>', page.text, re.DOTALL)
        page = client.post("/task", data=filled(page.text))
    shown = sorted(unescape(text) for text in texts)
    assert shown == sorted(HOSTILE)


def test_the_link_becomes_a_cookie_and_a_clean_address(study):
    answer = browser(study).get(study.link(), follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/task")
    assert "HttpOnly; SameSite=Lax" in answer.headers["set-cookie"] and "Secure" not in answer.headers["set-cookie"]
    assert answer.headers["referrer-policy"] == "no-referrer" and answer.headers["cache-control"] == "no-store"


def test_cookies_are_for_https_alone_where_the_study_is(tmp_path):
    rules = Rules.of_server("127.0.0.1", "https://rate.example.org")
    study = Study(tmp_path, rules=rules)
    answer = browser(study).get(study.link(), follow_redirects=False)
    assert answer.headers["set-cookie"].endswith("; Secure")


def test_a_wrong_link_is_refused_and_ten_a_minute_close_the_door(study):
    guesser, other, link = browser(study), browser(study, ("10.0.0.2", 1)), study.link()
    inside = browser(study)
    assert inside.get(link).status_code == 200
    assert [guesser.get(f"/r/guess{number}").status_code for number in range(11)] == [403] * 10 + [429]
    assert guesser.get(study.link()).status_code == 429
    assert guesser.get("/task", headers={"cookie": f"captious_{get_study_name(study.plan)}=x"}).status_code == 429
    assert inside.get("/task").status_code == 200  # somebody who is in, at the same address
    assert other.get(link).status_code == 200


def test_the_same_form_twice_is_one_answer_and_a_change_is_another(study):
    client = browser(study)
    form = filled(client.get(study.link()).text)
    for _ in range(3):
        assert client.post("/task", data=form).status_code == 200
    assert len(study.events()) == 1
    changed = {name: "1" if name.startswith("rating:") else value for name, value in form.items()}
    client.post("/task", data=changed)
    assert len(study.events()) == 2
    (answer,) = study.log.answers()
    assert answer.answer["ratings"]["a"] == {"correctness": 1, "fluency": 1}


def test_a_key_of_one_rater_is_no_key_of_another(study):
    first, second = browser(study), browser(study)
    form = filled(first.get(study.link()).text, key="same")
    other = filled(second.get(study.link()).text, key="same")
    first.post("/task", data=form)
    second.post("/task", data=other)
    assert len(study.events()) == 2


def test_what_is_missing_is_named_and_nothing_is_stored(study):
    client = browser(study)
    form = filled(client.get(study.link()).text, comment="hello <b>")
    del form["rating:1:fluency"]
    page = client.post("/task", data=form)
    assert page.status_code == 422
    message = "Caption 2 has no rating for fluency."
    assert f'<a href="#rating-1-fluency">{message}</a>' in page.text
    groups = [values for tag, values in Fields(page.text).tags if tag == "fieldset"]
    assert [values["id"] for values in groups if "autofocus" in values] == ["rating-1-fluency"]
    assert Fields(page.text).checked == {name: value for name, value in form.items() if name.startswith("rating:")}
    assert "hello &lt;b&gt;</textarea>" in page.text
    assert study.events() == []
    reply = client.post("/task", data=form, headers=JSON)
    assert reply.json() == {"saved": False, "gaps": [{"field": "rating:1:fluency", "message": message}]}
    assert client.post("/task", data=filled(page.text)).status_code == 200
    assert len(study.events()) == 1


def test_a_script_is_told_when_the_answer_is_saved(study):
    client = browser(study)
    form = filled(client.get(study.link()).text)
    replies = [client.post("/task", data=form, headers=JSON).json() for _ in range(2)]
    assert replies[0] == replies[1] == {"saved": True, "seq": study.events()[0].seq, "next": "/task"}


def test_back_shows_the_answer_and_a_change_replaces_it(study):
    client = browser(study)
    first = client.get(study.link())
    second = client.post("/task", data=filled(first.text, comment="a remark"))
    back = re.search(r'id="back" href="([^"]+)"', second.text)[1]
    again = client.get(back)
    assert "a remark</textarea>" in again.text
    assert Fields(again.text).checked["rating:0:fluency"] == "5"
    assert Fields(again.text).hidden["key"] != Fields(first.text).hidden["key"]
    on = client.post("/task", data={**filled(again.text, comment="a remark"), "rating:0:fluency": "2"})
    assert "Task 2 of 4" in on.text
    (answer,) = study.log.answers()
    assert answer.answer["ratings"][answer.order[0]]["fluency"] == 2 and answer.comment == "a remark"
    assert Fields(on.text).hidden["page"] == Fields(second.text).hidden["page"]


def test_two_devices_have_the_same_page(study):
    link = study.link()
    pages = [Fields(browser(study).get(link).text).hidden["page"] for _ in range(2)]
    assert pages[0] == pages[1] and len(study.events("joined")) == 1


def test_a_long_scale_takes_a_number(tmp_path):
    study = Study(tmp_path, aspects=(Aspect("quality", "How good?", (0, 100), ("bad", "good")),), cannot_judge=True)
    client = browser(study)
    page = client.get(study.link())
    assert 'type="number" name="rating:0:quality" min="0" max="100"' in page.text
    form = {**Fields(page.text).hidden, "rating:0:quality": "101", "rating:1:quality": "x"}
    assert [gap["field"] for gap in client.post("/task", data=form, headers=JSON).json()["gaps"]] == [
        "rating:0:quality",
        "rating:1:quality",
    ]
    client.post("/task", data={**form, "rating:0:quality": "55", "rating:1:quality": "cannot"})
    (answer,) = study.log.answers()
    assert [answer.answer["ratings"][choice]["quality"] for choice in answer.order] == [55, None]


def test_a_study_on_postgresql(tmp_path, postgres):
    study = Study(tmp_path, "labels", database=postgres)
    client = browser(study)
    page = client.get(study.link())
    while page.url.path == "/task":
        page = client.post("/task", data=filled(page.text, comment=HOSTILE[-6]))
    assert page.url.path == "/done" and len(study.log.answers()) == 4
    study.log.close()


def test_two_tabs_have_the_same_page(study):
    client = browser(study)
    client.get(study.link())
    pages = [Fields(client.get("/task").text).hidden for _ in range(2)]
    assert pages[0]["page"] == pages[1]["page"] and pages[0]["key"] != pages[1]["key"]
    assert len(study.events("opened")) == 1


def test_a_form_needs_its_token_and_a_page_of_ones_own(study):
    client, other = browser(study), browser(study)
    form = filled(client.get(study.link()).text)
    foreign = filled(other.get(study.link()).text)
    assert client.post("/task", data={**form, "csrf": ""}).status_code == 403
    assert client.post("/task", data={**form, "csrf": foreign["csrf"]}).status_code == 403
    assert client.post("/task", data=form, headers={"origin": "https://evil.example"}).status_code == 403
    assert client.post("/task", data=form, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert client.post("/task", data={**form, "page": foreign["page"]}).status_code == 404
    assert client.post("/task", data={**form, "key": ""}).status_code == 200
    assert browser(study).post("/task", data=form).status_code == 403
    assert len(study.events()) == 1


def test_limits_of_a_body_a_comment_and_the_speed(tmp_path):
    time = [0.0]
    study = Study(tmp_path, limit=Limit(5, seconds=1, clock=lambda: time[0]))
    client = browser(study)
    form = filled(client.get(study.link()).text)
    assert client.post("/task", data={**form, "comment": "x" * 70_000}).status_code == 413
    page = client.post("/task", data={**form, "comment": "x" * 2001})
    assert page.status_code == 422 and "2,001 characters" in page.text
    lines = "x\r\n" * 1000  # 2,000 characters in the browser
    assert client.post("/task", data={**form, "comment": lines}).status_code == 200
    time[0] = 10.0
    replies = [client.post("/task", data={**form, "rating:0:fluency": str(n % 5 + 1)}) for n in range(6)]
    assert [reply.status_code for reply in replies] == [200] * 5 + [429]
    assert replies[-1].headers["retry-after"] == "1"
    time[0] = 11.0
    assert client.post("/task", data=form).status_code == 200
    assert client.post("/task", content=b"\xff\xfe=1").status_code == 400


def test_images_come_by_task_and_number_to_those_who_have_the_task(study):
    client = browser(study)
    page = client.get(study.link())
    address = re.search(r'<img src="([^"]+)"', page.text)[1]
    name = Fields(page.text).hidden["page"]
    assert address == f"/image/{name}/0"
    image = client.get(address)
    assert image.headers["content-type"] == "image/png" and image.content.startswith(b"\x89PNG")
    assert image.headers["x-content-type-options"] == "nosniff"
    foreign = Fields(browser(study).get(study.link()).text).hidden["page"]
    wrong = [f"/image/{other}/0" for other in ("t1", "t2", "t3", "t4", foreign)]
    wrong += [f"/image/{name}/1", "/image/..%2f..%2fstudy.toml/0", "/image/%2e%2e/0", f"/image/{name}/0/../../study.db"]
    assert {client.get(path).status_code for path in wrong} == {404}
    assert browser(study).get(address).status_code == 403


def test_an_image_that_became_a_link_out_of_the_folder_is_not_sent(study, tmp_path):
    client = browser(study)
    page = client.get(study.link())
    (tmp_path / "outside.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(9))
    for path in (tmp_path / "photos").iterdir():
        path.unlink()
        path.symlink_to(tmp_path / "outside.png")
    assert client.get(re.search(r'<img src="([^"]+)"', page.text)[1]).status_code == 404


def test_consent_comes_first_and_is_kept(tmp_path):
    study = Study(tmp_path, consent="We keep <b>no</b> names.\n- You may stop.")
    client = browser(study)
    page = client.get(study.link())
    assert page.url.path == "/consent" and "We keep &lt;b&gt;no&lt;/b&gt; names." in page.text
    token = Fields(page.text).hidden["csrf"]
    assert client.get("/task").url.path == "/consent"
    assert study.events("opened") == []
    assert client.post("/consent", data={"agree": "yes"}).status_code == 403
    no = client.post("/consent", data={"agree": "no", "csrf": token})
    assert "You did not agree" in no.text
    assert [event.kind for event in study.log.events()] == ["joined", "declined"]
    for _ in range(2):
        assert client.post("/consent", data={"agree": "yes", "csrf": token}).url.path == "/task"
    assert len(study.events("consented")) == 1


def test_nobody_answers_without_consent(tmp_path):
    study = Study(tmp_path, consent="Read this.")
    client = browser(study)
    token = Fields(client.get(study.link()).text).hidden["csrf"]
    assert client.post("/task", data={"csrf": token, "task": "t1", "key": "k"}).status_code == 403


def test_prolific_sends_people_and_gets_them_back(tmp_path):
    study = Study(tmp_path, "labels", number=1, overlap=1, panel=prolific())
    door = f"/s/{get_study_name(study.plan)}"
    client = browser(study)
    assert client.get(door).status_code == 403
    page = client.get(f"{door}?PROLIFIC_PID=5f&STUDY_ID=s&SESSION_ID=q1")
    assert page.url.path == "/task" and not page.url.query
    done = client.post("/task", data=filled(page.text))
    assert 'href="https://app.prolific.com/submissions/complete?cc=C1ABC"' in done.text
    # The same person again, on another device: not a new rater, and what waited there may still be sent.
    again = browser(study)
    assert again.get(f"{door}?PROLIFIC_PID=5f&STUDY_ID=s&SESSION_ID=q2").url.path == "/done"
    assert again.post("/task", data=filled(page.text), headers=JSON).json()["saved"]
    assert len(study.log.raters()) == len(study.events()) == 1
    late = browser(study).get(f"{door}?PROLIFIC_PID=60")
    assert late.url.path == "/full"
    assert 'href="https://app.prolific.com/submissions/complete?cc=C2FULL"' in late.text
    assert browser(study).get("/s/other?PROLIFIC_PID=5f").status_code == 404
    assert browser(study).get(f"{door}?PROLIFIC_PID={'x' * 201}").status_code == 403


def test_forged_people_of_a_platform_take_nothing_from_real_ones(tmp_path):
    study = Study(tmp_path, "labels", number=5, overlap=2, panel=prolific())
    door = f"/s/{get_study_name(study.plan)}?PROLIFIC_PID="
    forged = [browser(study).get(f"{door}forged{number}").status_code for number in range(30)]
    assert forged == [200] * 12 + [429] * 18  # from one address in a minute
    for number in range(10):
        assert browser(study, (f"10.0.1.{number}", 1)).get(f"{door}more{number}").url.path == "/task"
    assert all(slot.rater for slot in study.log.slots())  # 22 of them hold all ten
    real = browser(study, ("10.0.0.2", 1))
    page, done = real.get(f"{door}5f"), 0
    while page.url.path == "/task":
        page, done = real.post("/task", data=filled(page.text)), done + 1
    assert page.url.path == "/done" and done == 5
    assert [answer.late for answer in study.log.answers()] == [False] * 5


def test_a_reload_of_the_platforms_address_is_no_new_visit(tmp_path):
    study = Study(tmp_path, "labels", panel=prolific(full=None))
    client, door = browser(study), f"/s/{get_study_name(study.plan)}?PROLIFIC_PID=5f&SESSION_ID="
    assert {client.get(f"{door}1").url.path for _ in range(20)} == {"/task"}
    assert len(study.events("joined")) == 1


def test_neither_cookie_nor_form_of_a_platforms_rater_follows_from_the_ids(tmp_path):
    fields = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        study = Study(tmp_path / name, "labels", panel=prolific(full=None))
        client = browser(study)
        page = client.get(f"/s/{get_study_name(study.plan)}?PROLIFIC_PID=5f&STUDY_ID=s&SESSION_ID=q1")
        (cookie,) = client.cookies.values()
        fields += [cookie, Fields(page.text).hidden["csrf"], Fields(page.text).hidden["page"]]
        stored = b"".join(path.read_bytes() for path in (tmp_path / name).glob("study.db*"))
        assert cookie.encode() not in stored  # a copy of the database opens no session
        decoded = base64.urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4))
        assert len(decoded) == 16 and b"5f" not in decoded
    assert len({*fields}) == 6


def test_a_session_that_was_made_of_ids_opens_nothing(tmp_path):
    study = Study(tmp_path, "labels", panel=prolific(full=None))
    ids = base64.urlsafe_b64encode(b'{"PROLIFIC_PID": "5f"}').decode()
    brackets = base64.urlsafe_b64encode(b"[" * 30_000).decode()
    for value in (f"i.{ids}", f"i.{brackets}"):
        answer = browser(study).get("/task", headers={"cookie": f"captious_{get_study_name(study.plan)}={value}"})
        assert answer.status_code == 403
    assert study.log.raters() == []


def test_an_open_study_makes_a_rater_of_who_begins_and_not_of_who_looks(tmp_path):
    study = Study(tmp_path, "labels", source=Source("open"))
    client = browser(study)
    page = client.get("/")
    assert page.url.path == f"/s/{get_study_name(study.plan)}" and study.log.raters() == []
    assert client.post(page.url.path).url.path == "/task"
    assert client.get(page.url.path).url.path == "/task"  # the same person
    assert len(study.log.raters()) == 1
    assert client.post(page.url.path, headers={"sec-fetch-site": "cross-site"}).status_code == 403


def test_personal_links_have_no_open_door(study):
    assert browser(study).get(f"/s/{get_study_name(study.plan)}").status_code == 404
    assert "open the link that you were sent" in browser(study).get("/").text


def test_who_waits_for_others_is_told_so(tmp_path):
    study = Study(tmp_path, "labels", number=1, overlap=1)
    browser(study).get(study.link())
    page = browser(study).get(study.link()).text
    assert "Nothing to do right now" in page and "Try again" in page and "completion code" not in page


@pytest.mark.parametrize("text", ["", "Please write to us."])
def test_an_excluded_rater_is_told_so_without_the_code_of_finished_work(text, tmp_path):
    panel = prolific(excluded=text)
    study = Study(tmp_path, "labels", number=2, overlap=1, panel=panel)
    client = browser(study)
    page = client.get(f"/s/{get_study_name(study.plan)}?PROLIFIC_PID=5f&SESSION_ID=q").text
    client.post("/task", data=filled(page))
    study.log.exclude("r1", "failed 2 of 2 checks")
    for path in ("/task", "/done", "/full"):
        shown = client.get(path).text
        assert "Your part in this study has ended" in shown and "C1ABC" not in shown and "C2FULL" not in shown
        assert "You have done all your tasks" not in shown and "failed" not in shown
        assert (text or "return the task on the platform") in shown
    study.log.reinstate("r1", "a mistake")
    assert "Your part in this study has ended" not in client.get("/task").text


def test_raters_read_a_polite_page_during_a_pause_and_open_pages_are_saved(tmp_path):
    study = Study(tmp_path, "labels", consent="Do you agree?")
    client, newcomer = browser(study), browser(study)
    client.get(study.link())
    consent = Fields(client.get("/consent").text).hidden
    page = client.post("/consent", data={**consent, "agree": "yes"}).text
    study.log.pause("lunch", "We are <back> at two.")
    shown = client.post("/task", data=filled(page)).text  # the page was open, so its answer is stored
    assert "The study is paused" in shown and "We are &lt;back&gt; at two." in shown and "Try again" in shown
    assert len(study.events()) == 1
    assert "The study is paused" in newcomer.get(study.link()).text  # before the page of consent
    study.log.resume()
    study.log.pause("dinner")
    assert "Everything that you have saved is kept" in client.get("/task").text
    study.log.resume()
    assert "Task 2 of 4" in client.get("/task").text and newcomer.get("/task").url.path == "/consent"


def test_gold_and_repeats_look_like_any_other_page(tmp_path):
    study = Study(tmp_path, "labels", gold=["t4"], checks=Checks(gold="gold.jsonl", every=1, repeat=1))
    client = browser(study)
    page = client.get(study.link())
    shapes, back = set(), []
    while page.url.path == "/task":
        fields = Fields(page.text)
        assert set(fields.hidden) == {"key", "csrf", "page", "seconds"}
        assert "gold" not in page.text and "repeat" not in page.text
        tags = [(tag, *values.items()) for tag, values in fields.tags]
        shapes.add(re.sub(r"[0-9a-f]{32}", "…", re.sub(r"Task \d of \d|[\"'](t?\d)[\"']", "", str(tags))))
        back += re.findall(r'id="back" href="(/task/[0-9a-f]{32})"', page.text)
        page = client.post("/task", data=filled(page.text))
    assert sorted(answer.purpose for answer in study.log.answers()) == ["gold", "repeat", "work", "work", "work"]
    assert len(shapes) == 2  # the first page has no way back and opens the instructions, all others are alike
    assert len({*back}) == 4 and {client.get(path).status_code for path in back} == {200}


def test_a_database_that_is_away_is_503_and_one_line(study, monkeypatch, caplog):
    client = browser(study)
    form = filled(client.get(study.link()).text)

    def away(*_, **__):
        raise DatabaseAway(5, "disk full", "study.db")

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(study.log, "record", away)
        replies = [client.post("/task", data=form, headers=JSON) for _ in range(3)]
        assert [reply.status_code for reply in replies] == [503] * 3
        assert replies[0].json()["saved"] is False
        assert "Nothing that you entered is confirmed" in client.post("/task", data=form).text
    assert len(caplog.records) == 1
    study_again = client.post("/task", data=form, headers=JSON)
    assert study_again.json()["saved"] and len(study.events()) == 1


def test_a_mistake_in_the_program_is_a_page_too(study, monkeypatch):
    client = browser(study)
    monkeypatch.setattr(study.log, "find_rater_by_token", lambda hash: 1 / 0)
    page = client.get(study.link())
    assert page.status_code == 500 and "Something went wrong on the server" in page.text
    assert "ZeroDivision" not in page.text


@pytest.mark.parametrize("path", ["/nothing", "/static/base.html", "/static/..%2fapp.py", "/task/t1/x", "/r/"])
def test_what_is_not_there_is_a_404_in_the_style_of_the_study(study, path):
    page = browser(study).get(path)
    assert page.status_code == 404 and "There is no such page" in page.text and "rate.css" in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")


def test_the_owner_needs_the_token_on_localhost_too(study):
    client = browser(study)
    assert client.get("/owner").status_code == 403
    assert client.get("/owner/live").status_code == 403
    assert client.get("/owner?token=wrong").status_code == 403
    entered = client.get(f"/owner?token={OWNER}", follow_redirects=False)
    assert (entered.status_code, entered.headers["location"]) == (303, "/owner")


def test_health_says_whether_the_database_answers(study):
    assert browser(study).get("/health").json() == {"status": "ok"}


def test_styles_and_scripts_are_kept_by_browsers_until_they_change(study):
    client = browser(study)
    page = client.get(study.link())
    address = re.search(r'href="(/static/rate.css\?v=\w+)"', page.text)[1]
    style = client.get(address)
    assert style.headers["content-type"].startswith("text/css") and "immutable" in style.headers["cache-control"]
    assert not re.search(r"url\(|@import|https?:", style.text + client.get("/static/rate.js").text)


def test_scales_are_called_by_the_words_before_the_colon(tmp_path):
    aspects = (Aspect("P", "Precision: is it right?"), Aspect("Fl", "Fluency: points off", (-1, -0.5, 0)))
    study = Study(tmp_path, "ratings", aspects=aspects)
    page = browser(study).get(study.link()).text
    assert "<dt>Precision</dt><dd>Is it right?</dd>" in page and "Caption 1 has no rating for Fluency." in page
    assert 'value="-0.5" data-key="2"><span>−0.5</span>' in page


@pytest.mark.parametrize(("image", "title"), [("/image/t1/0", "How 2 people described this image"), ("", "References")])
def test_references_of_a_text_are_not_said_to_describe_an_image(image, title, tmp_path, study):
    (task,) = make_tasks(tmp_path, number=1)
    page = Page(task, "work", ("a", "b"), 1, 1)
    nothing = dict.fromkeys(("key", "csrf", "session", "owner", "back", "forward", "status"), "")
    text = PageRenderer(study.plan).render_task(page, {}, image=image, **nothing)
    assert f"<summary>{title}</summary>" in text and ("not always perfect" in text) == bool(image)


def test_who_is_paid_by_a_code_need_not_wait_for_others(tmp_path):
    study = Study(tmp_path, number=3, overlap=1, per_rater=3, panel=prolific("DONE1", "FULL1"))
    door = f"/s/{get_study_name(study.plan)}?PROLIFIC_PID="
    first, second, third = browser(study), browser(study), browser(study)
    form = filled(first.get(f"{door}1").text)
    second.post("/task", data=filled(second.get(f"{door}2").text))  # who has answered once keeps the next task
    waiting = first.post("/task", data=form).text  # the third task is open elsewhere
    assert "Nothing to do right now" in waiting and "cc=DONE1" in waiting and "1 answer is saved" in waiting
    late = third.get(f"{door}3").text
    assert "Nothing to do right now" in late and "cc=FULL1" in late and "DONE1" not in late


def test_owners_of_two_studies_on_one_machine_have_two_cookies(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    cookies = [
        browser(Study(tmp_path / name, title=name))
        .get(f"/owner?token={OWNER}", follow_redirects=False)
        .headers["set-cookie"]
        for name in ("one", "two")
    ]
    assert len({cookie.split("=")[0] for cookie in cookies}) == 2
