"""The owner's page: what it shows, what it does, who may see it, and that it keeps up without reloading."""

import csv
import html
import io
import json
import re
import zipfile
from dataclasses import replace
from datetime import datetime, timezone
from urllib.parse import unquote

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'captious[studio]'")
from starlette.testclient import TestClient
from tests.studio.hostile import HOSTILE, ran
from tests.studio.studies import KINDS, OWNER, Study, make_tasks

from captious.studio.access import hash_token
from captious.studio.collect._events import Answered, collect_answers
from captious.studio.collect._rendering import RendererInForce
from captious.studio.collect.study_plan import Checks, Source
from captious.studio.owner import _answers as answers
from captious.studio.owner import _metric_agreement as agreement
from captious.studio.owner import _owner_pages as pages
from captious.studio.owner import _results as results
from captious.studio.owner._answers import build_answer_view
from captious.studio.owner._owner_pages import OwnerPages
from captious.studio.owner.export import export_study
from captious.studio.owner.simulate import simulate_raters
from captious.studio.owner.study_progress import study_progress
from captious.study import systems

PLAIN = tuple(f"{'very ' * number}small dog on the grass number {number}" for number in range(8))
CROWD = {"careful": 4, "lazy": 1}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """No pause between two computations, and a page that asks often."""
    monkeypatch.setattr(pages, "PAUSE", 0.0)
    monkeypatch.setattr(pages, "SHARE", 0.0)
    monkeypatch.setattr(pages, "REFRESH", 0.2)


@pytest.fixture
def study(tmp_path):
    """Six pages, five raters, of whom one clicks the same everywhere."""
    study = Study(tmp_path, captions=PLAIN, number=6, overlap=5, per_rater=6)
    simulate_raters(study.plan, study.log, raters=5, share=CROWD)
    return study


def browser(study):
    client = TestClient(study.app, base_url="http://127.0.0.1:8765", raise_server_exceptions=False)
    assert client.get(f"/owner?token={OWNER}").url == "http://127.0.0.1:8765/owner"
    return client


def csrf_of(text):
    return re.search(r'name="csrf" value="([0-9a-f]+)"', text)[1]


def post(client, path, **fields):
    page = client.get("/owner").text
    return client.post(path, data={"csrf": csrf_of(page), **fields})


def answer(study, rater, rating=3, comment=""):
    """Answer the next page of a rater without going through the pages."""
    page = study.log.next_page(rater)
    ratings = {choice: dict.fromkeys(("correctness", "fluency"), rating) for choice in page.order}
    body = {"answer": {"ratings": ratings}, "order": list(page.order), "purpose": page.purpose, "seconds": 9.0}
    key = f"{rater}/{page.task.id}/{page.purpose}"
    study.log.record(rater, "answered", key, page.task.id, {**body, "comment": comment})


def test_only_the_owner_sees_it(study):
    client = TestClient(study.app, base_url="http://127.0.0.1:8765")
    for path in ("/owner/tasks", "/owner/tasks/t1", "/owner/raters/r1", "/owner/image/t1"):
        assert client.get(path).status_code == 403
    for path in ("/owner", "/owner/live", "/owner/export.zip", "/owner/export/raters.csv", "/owner/owner.css"):
        assert client.get(path).status_code == 403
    for path in ("/owner/raters/r1", "/owner/invite", "/owner/metrics"):
        assert client.post(path, data={"action": "exclude", "reason": "x"}).status_code == 403
    assert study.events("excluded") == []


def test_forms_of_another_page_change_nothing(study):
    client = browser(study)
    page = client.post("/owner/raters/r1", data={"action": "exclude", "reason": "x", "csrf": "0" * 32})
    assert page.status_code == 403 and "not one of this page" in page.text
    headers = {"sec-fetch-site": "cross-site"}
    right = {"action": "exclude", "reason": "x", "csrf": csrf_of(client.get("/owner").text)}
    assert client.post("/owner/raters/r1", data=right, headers=headers).status_code == 403
    assert study.events("excluded") == []


def test_it_shows_coverage_agreement_time_flags_and_what_is_simulated(study):
    text = browser(study).get("/owner").text
    assert "30 of 30 answers" in text and "100 %" in text
    assert "Krippendorff’s α" in text and re.search(r"\[\d\.\d{3}, \d\.\d{3}\]", text)
    assert "the same answer on 6 of 6 pages" in text and "1 flagged" in text
    assert "5 of 5 raters are simulated" in text
    assert text.count('<svg class="chart"') >= 2 and " style=" not in text


def named_systems(folder, kind="ratings", number=6, captions=PLAIN, per_page=2):
    """Tasks as those of `make_tasks`, whose captions are of two systems."""
    tasks = make_tasks(folder, kind, number, captions, per_page)
    return [
        replace(task, choices=tuple(replace(one, system=f"sys-{place}") for place, one in enumerate(task.choices)))
        for task in tasks
    ]


@pytest.fixture
def two_systems(tmp_path, monkeypatch):
    """A study of two systems with answers of five simulated raters."""
    monkeypatch.setattr("tests.studio.studies.make_tasks", named_systems)

    def begin(kind="ratings"):
        study = Study(tmp_path, kind, number=6, captions=PLAIN, overlap=5, per_rater=6)
        simulate_raters(study.plan, study.log, raters=5, share=CROWD)
        return study

    return begin


@pytest.mark.parametrize("kind", ["ratings", "ranking", "pairs"])
def test_the_result_so_far_is_that_of_the_export(two_systems, kind, tmp_path):
    study = two_systems(kind)
    text = browser(study).get("/owner").text
    assert "This is not a result yet" in text and "would have been found with probability" in text
    assert "style=" not in text, "the page refuses styles inside of it"
    export_study(study.log, tmp_path / "export")
    ranking = systems(tmp_path / "export")
    shown = OwnerPages(study.log, OWNER, "", RendererInForce(study.log.plan)).dashboard.people.ranking.data()
    exported = ranking.data()
    names = {"name", "signature"}
    assert {key: value for key, value in shown.items() if key not in names} == {
        key: value for key, value in exported.items() if key not in names
    }
    assert shown["signature"].split("|")[1:] == exported["signature"].split("|")[1:]
    assert ranking.signature.split("|ci:")[1].split("|")[0] in html.unescape(text)


@pytest.mark.parametrize("kind", ["yesno", "labels"])
def test_answers_that_compare_no_systems_are_counted_only(kind, tmp_path):
    study = Study(tmp_path, kind, captions=PLAIN, number=4, overlap=2)
    simulate_raters(study.plan, study.log, raters=2)
    text = browser(study).get("/owner").text
    assert "do not compare systems" in text and "Answers so far" in text
    (counts,) = results.count_answers(study.plan, study.log.tasks(), collect_answers(study.log.events()))
    assert sum(number for _, number in counts.counts) == (8 if kind == "labels" else 8 * 3)  # three things a page


def test_ratings_are_counted_by_hand(tmp_path):
    study = Study(tmp_path, captions=PLAIN, number=2, overlap=2, per_rater=2)
    for rating in (4, 2):
        study.link()
        rater = study.log.list_rater_ids()[-1]
        for _ in range(2):
            answer(study, rater, rating)
    counts = results.count_answers(study.plan, study.log.tasks(), collect_answers(study.log.events()))
    # Two raters, two pages with two captions each: four ratings of 4, four of 2.
    assert [one.question for one in counts] == ["correctness", "fluency"]
    assert counts[0].counts == (("1", 0), ("2", 4), ("3", 0), ("4", 4), ("5", 0)) and counts[0].note == "8 ratings"
    text = browser(study).get("/owner").text
    assert "No result: ratings: one system only" in html.unescape(text)


def test_tasks_and_raters_open_to_what_was_seen_and_answered(two_systems):
    study = two_systems()
    client = browser(study)
    listed = client.get("/owner/tasks").text
    assert listed.count('<th scope="row">') == 6 and 'href="/owner/tasks/t1"' in listed
    one = next(one for one in collect_answers(study.log.events()) if one.task == "t1")
    task = study.log.tasks()["t1"]
    view = build_answer_view(study.plan, task, one)
    assert [line.text for line in view.lines] == [{c.id: c.text for c in task.choices}[key] for key in one.order]
    first = one.answer["ratings"][one.order[0]]
    assert view.lines[0].answer == f"correctness {first['correctness']:g} · fluency {first['fluency']:g}"
    opened = client.get("/owner/tasks/t1").text
    for line in view.lines:
        assert line.text in opened and line.answer in opened and line.system in opened
    assert f"{one.seconds:.1f} s" in opened and f'href="/owner/raters/{one.rater}"' in opened
    rater = client.get(f"/owner/raters/{one.rater}").text
    assert rater.count('class="panel answer') == 6 and 'href="/owner/tasks/t1"' in rater
    image = client.get("/owner/image/t1")
    assert image.headers["content-type"] == "image/png" and image.content.startswith(b"\x89PNG")
    for path in ("/owner/tasks/t99", "/owner/raters/r99", "/owner/image/t99"):
        assert client.get(path).status_code == 404


def test_a_long_list_is_shown_in_parts(two_systems, monkeypatch):
    monkeypatch.setattr(answers, "SHOWN", 4)
    client = browser(two_systems())
    first, second = client.get("/owner/tasks").text, client.get("/owner/tasks?from=4").text
    assert "Tasks 1 to 4 of 6" in first and 'href="/owner/tasks?from=4"' in first and "t5" not in first
    assert "Tasks 5 to 6 of 6" in second and 'href="/owner/tasks?from=0"' in second


def test_a_comment_stands_beside_its_image(tmp_path):
    study = Study(tmp_path, captions=PLAIN, number=1, overlap=1)
    study.link()
    answer(study, "r1", comment="too dark")
    text = browser(study).get("/owner").text
    assert re.search(r'<img class="thumb" src="/owner/image/t1".*too dark', text)


@pytest.mark.parametrize(
    ("kind", "answer", "lines"),
    [
        ("ranking", {"ranks": {"a": 1, "b": 2}}, [("1", "rank 2 of 2"), ("2", "rank 1 of 2")]),
        ("pairs", {"preferred": "a"}, [("A", ""), ("B", "preferred")]),
        ("pairs", {"preferred": None, "both_bad": True}, [("A", ""), ("B", ""), ("", "equally good; both bad")]),
    ],
)
def test_what_was_answered_in_words(tmp_path, kind, answer, lines):
    study = Study(tmp_path, kind, captions=PLAIN)
    task = study.log.tasks()["t1"]
    one = Answered("r1", "t1", "work", answer, ("b", "a"), 3.0, False, False, datetime.now(timezone.utc), 1)
    assert [(line.place, line.answer) for line in build_answer_view(study.plan, task, one).lines] == lines


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_study_has_a_page_before_and_after_the_first_answers(kind, tmp_path):
    study = Study(tmp_path, kind, number=4)
    client = browser(study)
    assert "No answer yet" in client.get("/owner").text and "Nobody has a link yet." in client.get("/owner").text
    simulate_raters(study.plan, study.log, raters=3)
    page = client.get("/owner")
    assert page.status_code == 200 and "No answer yet" not in page.text and "8 of 8 answers" in page.text


def test_an_owner_excludes_and_reinstates_with_a_reason(study):
    client = browser(study)
    page = post(client, "/owner/raters/r1", action="exclude", reason="fast <b>")
    assert "r1 is excluded: fast &lt;b&gt;" in page.text and "24 of 30 answers" in page.text
    assert study.log.raters()[0].excluded and study.events("excluded")[0].body["reason"] == "fast <b>"
    assert "r1 is excluded" not in client.get("/owner").text
    assert "is excluded already" in post(client, "/owner/raters/r1", action="exclude", reason="again").text
    assert "30 of 30 answers" in post(client, "/owner/raters/r1", action="reinstate", reason="a mistake").text
    assert "Give a reason" in post(client, "/owner/raters/r1", action="exclude", reason=" ").text
    assert "there is no rater" in post(client, "/owner/raters/r99", action="exclude", reason="x").text
    assert "has no task open" in post(client, "/owner/raters/r1", action="release", reason="x").text
    assert not study.log.raters()[0].excluded


def test_the_reasons_of_an_excluded_rater_stand_apart(study):
    client = browser(study)
    flagged = next(rater for rater in study_progress(study.log).raters if rater.flags)
    page = post(client, f"/owner/raters/{flagged.id}", action="exclude", reason="too fast").text
    cell = re.search(r'<td class="why">(<span class="quiet">excluded: too fast.*?)</td>', page)[1]
    assert re.sub("<.*?>", "", cell) == "; ".join(["excluded: too fast", *(flag.reason for flag in flagged.flags)])


def test_an_owner_pauses_and_resumes_and_sees_amendments(tmp_path):
    study = Study(tmp_path, captions=PLAIN)
    client = browser(study)
    assert "It has not been changed since it began" in client.get("/owner").text
    page = post(client, "/owner/pause", action="pause", message="Back <soon>.").text
    assert "The study is paused." in page and "Resume the study" in page and study.log.now.history.message
    assert "paused already" in post(client, "/owner/pause", action="pause").text
    assert "The study continues." in post(client, "/owner/pause", action="resume").text
    new = replace(study.log.plan(), title="Cats", overlap=3, digest="")
    changes = [{"key": "title", "from": "Dogs & <cats>", "to": "Cats"}, {"key": "overlap", "from": 2, "to": 3}]
    study.log.amend(new, [], "a <typo>", changes, study.log.digest)
    page = client.get("/owner").text
    assert "<h1>Cats</h1>" in page and "title: Dogs &amp; &lt;cats&gt; → Cats; overlap: 2 → 3" in page
    assert "a &lt;typo&gt;" in page and "0 of 12 answers" in page and "changes.jsonl" in page
    rows = client.get("/owner/export/changes.jsonl").text.splitlines()
    assert [json.loads(row)["kind"] for row in rows] == ["paused", "resumed", "amended"]


def test_an_owner_releases_an_open_task(tmp_path):
    study = Study(tmp_path, captions=PLAIN)
    study.log.add_raters(["a hash"])
    study.log.next_page("r1")
    client = browser(study)
    page = client.get("/owner").text
    assert "1 open now" in page and '<h2>Raters</h2>\n    <p class="big">1</p>' in page
    assert "open now" not in post(client, "/owner/raters/r1", action="release", reason="gone").text
    assert not any(slot.lease for slot in study.log.slots())


def test_links_are_made_on_the_page_and_shown_once(study):
    client = browser(study)
    page = post(client, "/owner/invite", number="3")
    links = re.findall(r"http://127\.0\.0\.1/r/([\w-]+)", page.text)
    assert len(links) == 3 and "3 not started" in page.text
    assert [study.log.find_rater_by_token(hash_token(token)).id for token in links] == ["r6", "r7", "r8"]
    written = re.search(r'href="data:text/csv;charset=utf-8,([^"]+)"', page.text)[1]
    assert list(csv.DictReader(io.StringIO(unquote(written)))) == [
        {"rater": f"r{number}", "link": f"http://127.0.0.1/r/{link}"} for number, link in enumerate(links, 6)
    ]
    assert links[0] not in client.get("/owner").text
    for number in ("0", "501", "-1", "x", "", "9" * 5000):
        assert "Expected a number of links" in post(client, "/owner/invite", number=number).text
    assert len(study.log.raters()) == 8


def test_an_open_study_shows_its_one_link(tmp_path):
    study = Study(tmp_path, source=Source("open"))
    client = browser(study)
    text = client.get("/owner").text
    assert re.search(r"http://127\.0\.0\.1/s/[0-9a-f]+", text) and "/owner/invite" not in text
    assert "no personal ones" in post(client, "/owner/invite", number="3").text and study.log.raters() == []


def test_exports_are_the_files_of_the_export(study):
    client = browser(study)
    archive = client.get("/owner/export.zip")
    names = zipfile.ZipFile(io.BytesIO(archive.content)).namelist()
    assert {"ratings.jsonl", "raters.csv", "events.jsonl", "study.toml"} <= {*names}
    assert archive.headers["content-disposition"] == 'attachment; filename="study-export.zip"'
    rows = client.get("/owner/export/ratings.jsonl")
    assert len(rows.text.splitlines()) == 6 * 2 * 5 and json.loads(rows.text.splitlines()[0])["rater"] == "r1"
    raters = list(csv.DictReader(io.StringIO(client.get("/owner/export/raters.csv").text)))
    assert [row["rater"] for row in raters] == ["r1", "r2", "r3", "r4", "r5"]
    for name in ("nothing.csv", "..%2f..%2fstudy.db", "%2e%2e"):
        assert client.get(f"/owner/export/{name}").status_code == 404


def settled(client, study):
    """The page once no metric is being computed."""
    for _ in range(600):
        text = client.get("/owner").text
        if "Computing…" not in text:
            return text
    raise AssertionError("the metrics are never computed")


def test_metrics_are_held_against_the_answers_so_far(study, monkeypatch):
    computed = []
    measure = agreement.measure

    def counted(people, metrics):
        computed.append((len(people), metrics))
        return measure(people, metrics)

    monkeypatch.setattr(agreement, "measure", counted)
    client = browser(study)
    text = settled(client, study)
    assert "CIDEr" in text and "Kendall" in text and "12 rated captions so far" in text
    study.log.add_raters(["a hash"])
    study.log.exclude("r1", "a new event")
    settled(client, study)
    assert computed == [(12, agreement.USUAL)]  # ratings change, values do not
    post(client, "/owner/metrics", metrics="rouge")
    text = settled(client, study)
    assert "ROUGE-L" in text and "BLEU" not in text and 'value="rouge"' in text
    assert "did you mean" in post(client, "/owner/metrics", metrics="rogue").text
    assert 'value="rouge"' in client.get("/owner").text


def test_metrics_that_fail_say_so_and_the_page_goes_on(study):
    client = browser(study)
    post(client, "/owner/metrics", metrics="onlystyle(nowhere.style,style=calm)")
    text = settled(client, study)
    assert "nowhere.style" in text and "30 of 30 answers" in text


def test_the_live_part_is_sent_only_when_something_changed(tmp_path):
    study = Study(tmp_path, captions=PLAIN, overlap=3)
    study.log.add_raters(["one", "two"])
    client = browser(study)
    text = settled(client, study)
    version = re.search(r'data-version="([^"]+)"', text)[1]
    assert client.get(f"/owner/live?version={version}").status_code == 204
    answer(study, "r1", comment="<i>blurred</i>")
    live = client.get(f"/owner/live?version={version}")
    assert live.status_code == 200 and live.headers["x-version"] != version
    assert "1 of 12 answers" in live.text and "&lt;i&gt;blurred&lt;/i&gt;" in live.text
    assert "<html" not in live.text


def test_many_raters_are_listed_on_demand(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "RATERS", 3)
    study = Study(tmp_path)
    study.log.add_raters([f"hash {number}" for number in range(5)])
    client = browser(study)
    assert "Show all 5 raters" in client.get("/owner").text and ">r5<" not in client.get("/owner").text
    assert ">r5<" in client.get("/owner?all=1").text


def open_page(page, address):
    page.goto(f"{address}/owner?token={OWNER}")
    page.wait_for_selector("#raters")


def test_the_page_keeps_up_without_reloading_and_spares_what_is_being_typed(tmp_path, serve, page):
    study = Study(tmp_path, captions=PLAIN, number=6, overlap=3, checks=Checks())
    study.log.add_raters(["one", "two"])
    answer(study, "r1")
    open_page(page, serve(study.app))
    page.evaluate("window.same = true")
    page.get_by_text("1 of 18 answers").wait_for()
    answer(study, "r2", comment="a comment while you look")
    page.get_by_text("2 of 18 answers").wait_for()
    page.get_by_text("a comment while you look").wait_for()
    page.locator("#raters summary").first.click()
    page.locator("#raters input[name=reason]").first.fill("typed by me")
    answer(study, "r2")
    page.get_by_text("3 of 18 answers").wait_for()
    assert page.locator("#raters input[name=reason]").first.input_value() == "typed by me"
    assert page.evaluate("window.same") is True
    page.locator("#raters button.danger").first.click()
    page.locator(".notice").wait_for()
    assert study.events("excluded")[0].body["reason"] == "typed by me"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "light"), (1280, "dark")])
def test_no_serious_finding_of_axe(study, serve, chromium, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab = context.new_page()
    open_page(tab, serve(study.app))
    tab.locator("#raters summary").first.click()
    found = axe.Axe().run(tab).response["violations"]
    wide = tab.evaluate("document.documentElement.scrollWidth")
    context.close()
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
    assert wide <= width


@pytest.mark.parametrize(("width", "scheme"), [(1200, "dark"), (360, "light")])
def test_axe_finds_nothing_in_results_and_opened_answers(two_systems, serve, chromium, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab, address = context.new_page(), serve(two_systems().app)
    open_page(tab, address)
    for path in ("/owner", "/owner/tasks", "/owner/tasks/t1", "/owner/raters/r1"):
        tab.goto(address + path)
        found = axe.Axe().run(tab).response["violations"]
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == [], path
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, path
    context.close()


def test_new_links_are_copied_with_their_raters(study, serve, chromium):
    context = chromium.new_context(permissions=["clipboard-read", "clipboard-write"])
    tab = context.new_page()
    open_page(tab, serve(study.app))
    tab.fill("#number", "2")
    tab.get_by_role("button", name="Make links").click()
    tab.get_by_role("button", name="Copy all").click()
    tab.get_by_role("button", name="Copied").wait_for()
    copied = tab.evaluate("navigator.clipboard.readText()").splitlines()
    assert [line.split()[0] for line in copied] == ["r6", "r7"] and all("/r/" in line for line in copied)
    context.close()


def test_without_scripts_everything_is_there(study, serve, chromium):
    context = chromium.new_context(java_script_enabled=False)
    tab = context.new_page()
    open_page(tab, serve(study.app))
    tab.locator("#raters summary").first.click()
    with tab.expect_navigation():
        tab.locator("#raters button.danger").first.click()
    assert "is excluded" in tab.locator(".notice").inner_text()
    with tab.expect_navigation():
        tab.get_by_role("link", name="Reload").click()
    assert tab.locator(".notice").count() == 0
    context.close()


def test_hostile_captions_comments_and_reasons_are_text(tmp_path, serve, page):
    study = Study(tmp_path, number=40, per_page=1, overlap=3, per_rater=40)
    study.log.add_raters(["one", "two"])
    for number, text in enumerate(HOSTILE):
        answer(study, "r1", rating=1 + number % 5, comment=text)
        answer(study, "r2", rating=1 + number % 4)
    study.log.exclude("r2", HOSTILE[0])
    open_page(page, serve(study.app))
    page.wait_for_selector(".comments li")
    assert not ran(page) and page.locator(".comments li").count() == pages.COMMENTS
    assert "<script>window.hostile=1</script>" in page.locator("#raters").inner_text()


def test_the_page_says_when_the_study_will_be_complete_and_who_can_open_its_links(tmp_path):
    study = Study(tmp_path)
    page = browser(study).get("/owner").text
    assert '<p class="note forecast">No answer yet</p>' in page
    assert "Only this computer can open 127.0.0.1" in page
