"""Raters in a real browser: keyboard, phone, no scripts, dead networks, hostile captions."""

import re
import threading
from contextlib import contextmanager

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'captious[studio]'")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from tests.studio.collect.test_around import Around
from tests.studio.hostile import HOSTILE, ran
from tests.studio.studies import KINDS, Study

from captious.studio.access import Limit
from captious.studio.collect.study_plan import Aspect, Source, SurveyQuestion

expect = sync_api.expect
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
PLAIN = ("a dog runs on grass", "a brown dog", "two cats", "a man and his horse")
SHIFTED_CLOCK = """(days) => {
  const now = Date.now;
  Date.now = () => now() + 86400000 * days;
}"""


@contextmanager
def visitor(chromium, **options):
    """A tab with cookies of its own. Script errors, blocked content and requests to elsewhere fail the test."""
    context = chromium.new_context(**options)
    tab = context.new_page()
    wrong = []
    context.on("weberror", lambda error: wrong.append(str(error.error)))
    context.on("console", lambda message: wrong.append(message.text) if "Security Policy" in message.text else None)
    context.on(
        "request",
        lambda request: None if "//127.0.0.1:" in request.url else wrong.append(request.url),
    )
    yield tab
    context.close()
    assert wrong == []


@pytest.fixture
def study(tmp_path, serve):
    """``study(kind, **options)`` begins a study and serves it; its ``address`` is that of the server."""

    def begin(kind="ratings", number=2, captions=PLAIN, **options):
        made = Study(tmp_path, kind, number, captions, **options)
        made.address = serve(made.app)
        return made

    return begin


def enter(tab, study):
    tab.goto(study.address + study.link())


def fill_in(tab, kind):
    """An answer to everything on the page, by keys alone."""
    if kind == "ratings":
        for key in "4251":
            tab.keyboard.press(key)
    elif kind == "ranking":
        tab.keyboard.press("2")
        tab.keyboard.press("1")
    elif kind == "pairs":
        tab.keyboard.press("ArrowRight")
        tab.keyboard.press("b")
    elif kind == "yesno":
        for key in "ynx":
            tab.keyboard.press(key)


def scissors(tab):
    """A function after whose call no answer arrives any more, also while a tab closes; `unroute_all` fixes it.

    It is made before the page is opened: one that is open may still send a request or two past Playwright.
    """
    cut = threading.Event()
    tab.context.route(
        re.compile(r"/task$"),
        lambda route: route.abort() if cut.is_set() and route.request.method == "POST" else route.fallback(),
    )
    return cut.set


def go_offline(tab):
    """The tab has no network, and knows it."""
    tab.context.set_offline(True)
    tab.wait_for_function("() => !navigator.onLine")


def save(tab):
    """Enter, and the page that follows."""
    with tab.expect_navigation():
        tab.keyboard.press("Enter")


EXPECTED = {
    "ratings": lambda first, last: {
        "ratings": {first: {"correctness": 4, "fluency": 2}, last: {"correctness": 5, "fluency": 1}}
    },
    "ranking": lambda first, last: {"ranks": {first: 1, last: 2}},
    "pairs": lambda first, last: {"preferred": last, "both_bad": True},
    "labels": lambda first, last: {"label": "old"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_study_by_keyboard(kind, chromium, study):
    made = study(kind, source=Source(done="C1ABC"))
    with visitor(chromium) as tab:
        enter(tab, made)
        for number in (1, 2):
            assert tab.locator(".progress label").inner_text() == f"Task {number} of 2 · {3 - number} to do"
            tab.wait_for_timeout(100)  # seconds are stored with one decimal, and keys are pressed faster than that
            if kind == "labels":
                with tab.expect_navigation():
                    tab.keyboard.press("o")
            else:
                fill_in(tab, kind)
                save(tab)
        tab.wait_for_url("**/done")
        assert tab.locator(".completion").inner_text() == "C1ABC"
    answers = made.log.answers()
    assert len(answers) == 2
    for answer in answers:
        first, last = (*answer.order, "", "")[:2]
        expected = {"seen": dict(zip(answer.order, (True, False, None), strict=False))}
        assert answer.answer == (expected if kind == "yesno" else EXPECTED[kind](first, last))
        assert 0 < answer.seconds < 3600


@pytest.mark.parametrize("kind", KINDS)
def test_a_phone_shows_everything_and_thumbs_hit_it(kind, chromium, study):
    made = study(kind, captions=("pneumono" * 50, "a dog " * 200))
    with visitor(chromium, **PHONE) as tab:
        enter(tab, made)
        assert tab.evaluate("document.documentElement.scrollWidth") == 360
        small = tab.evaluate(
            """() => [...document.querySelectorAll("button, .button, label:has(input), summary")]
              .map((one) => [one.getBoundingClientRect(), one.textContent.trim()])
              .filter(([box]) => box.height > 0 && (box.height < 44 || box.width < 44)).map(([, text]) => text)"""
        )
        assert small == []
        bar, image = tab.locator(".bar").bounding_box(), tab.locator(".picture img").bounding_box()
        assert bar["y"] + bar["height"] <= 740 and image["width"] <= 360


def test_taps_are_enough(chromium, study):
    made = study("labels")
    with visitor(chromium, **PHONE) as tab:
        enter(tab, made)
        for _ in range(2):
            with tab.expect_navigation():
                tab.locator(".option", has_text="old").tap()
    assert [answer.answer for answer in made.log.answers()] == [{"label": "old"}] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_captions_are_text(kind, chromium, study):
    pages = 5 if kind == "ratings" else 2
    made = study(kind, number=pages, captions=HOSTILE, per_page=8)
    with visitor(chromium) as tab:
        enter(tab, made)
        for _ in range(pages):
            assert not ran(tab)
            assert tab.locator("main").is_visible() and tab.url.startswith(made.address)
            for group in tab.locator("[data-field]").element_handles():
                group.eval_on_selector("input", "one => one.click()")
            if kind == "ranking":
                for index, group in enumerate(tab.locator("[data-field]").element_handles()):
                    group.query_selector_all("input")[index].evaluate("one => one.click()")
            save(tab)
    assert len(made.log.answers()) == pages


def test_a_study_without_scripts(chromium, study):
    made = study()
    with visitor(chromium, java_script_enabled=False) as tab:
        enter(tab, made)
        tab.locator("#save").click()
        assert "Caption 1 has no rating for correctness." in tab.locator("#gaps").inner_text()
        assert tab.locator("#rating-0-correctness").evaluate("one => one === document.activeElement")
        for _ in range(2):
            for group in range(4):
                tab.locator("[data-field]").nth(group).locator("label").nth(2).click()
            save_button(tab)
        assert tab.url.endswith("/done")
    answers = made.log.answers()
    assert [answer.answer["ratings"]["a"] for answer in answers] == [{"correctness": 3, "fluency": 3}] * 2
    assert all(answer.seconds >= 0 for answer in answers)  # by the server's clock


def test_what_is_missing_is_named_and_focused(chromium, study):
    made = study(captions=("a dog " * 150, "a cat " * 150))
    with visitor(chromium, **PHONE) as tab:
        enter(tab, made)
        for group in (0, 1, 2):
            tab.locator("[data-field]").nth(group).locator("label").first.tap()
        tab.locator("#save").tap()
        assert tab.locator("#gaps li").all_inner_texts() == ["Caption 2 has no rating for fluency."]
        missing = tab.locator("#rating-1-fluency")
        assert missing.locator(".lack").inner_text().endswith("Caption 2 has no rating for fluency.")
        assert missing.locator(".point").first.locator("input").evaluate("one => one === document.activeElement")
        tab.wait_for_function(
            """() => { const box = document.getElementById("rating-1-fluency").getBoundingClientRect();
                       return box.top >= 0 && box.bottom <= innerHeight - 60; }"""
        )
        assert made.events() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_no_serious_finding(scheme, chromium, study, tmp_path, serve):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    findings = []

    def examine(tab, name):
        for finding in axe.Axe().run(tab).response["violations"]:
            if finding["impact"] in ("serious", "critical"):
                findings.append((name, finding["id"], finding["nodes"][0]["html"][:120]))

    with visitor(chromium, color_scheme=scheme, reduced_motion="reduce") as tab:
        for kind in KINDS:
            folder = tmp_path / kind
            folder.mkdir()
            made = Study(folder, kind, 1, PLAIN, consent="Read this." if kind == "ratings" else "")
            made.address = serve(made.app)
            enter(tab, made)
            if kind == "ratings":
                examine(tab, "consent")
                with tab.expect_navigation():
                    tab.get_by_text("I agree").click()
                tab.keyboard.press("4")
                tab.keyboard.press("Enter")
                examine(tab, "missing")
                tab.locator("#help-button").click()
            examine(tab, kind)
        tab.goto(f"{made.address}/nothing")
        examine(tab, "error")
    assert findings == []


def test_a_double_click_a_reload_and_the_way_back(chromium, study):
    made = study(number=3)
    with visitor(chromium) as tab:
        enter(tab, made)
        fill_in(tab, "ratings")
        with tab.expect_navigation():
            tab.locator("#save").dblclick()
        assert len(made.events()) == 1
        tab.reload()
        assert "Task 2 of 3" in tab.locator(".progress").inner_text()
        with tab.expect_navigation():
            tab.keyboard.press("u")
        assert tab.locator("input:checked").count() == 4
        chosen = tab.locator("[data-field]").first.locator("input:checked")
        expect(chosen).to_be_focused()
        assert chosen.get_attribute("value") != "1"  # so that it is not just the first of the scale
        tab.keyboard.press("1")
        save(tab)
        assert "Task 2 of 3" in tab.locator(".progress").inner_text()
        tab.go_back()
        assert tab.locator("[data-field]").first.locator("input:checked").get_attribute("value") == "1"
        assert len(made.events()) == 2
        tab.go_forward()
        fill_in(tab, "ratings")
        save(tab)
        assert len(made.log.answers()) == 2
    assert made.log.answers()[0].answer["ratings"][made.log.answers()[0].order[0]]["correctness"] == 1


def test_saved_is_said_on_the_page_that_follows(chromium, study):
    made = study(number=1)
    with visitor(chromium) as tab:
        enter(tab, made)
        assert tab.locator("#status").inner_text() == ""
        fill_in(tab, "ratings")
        save(tab)
        expect(tab.locator("#status")).to_have_text("Saved")
        assert tab.url.endswith("/done") and len(made.events()) == 1
        tab.reload()
        expect(tab.locator("#status")).to_have_text("")  # it is said once


def test_two_tabs(chromium, study):
    made = study()
    with visitor(chromium) as tab:
        enter(tab, made)
        other = tab.context.new_page()
        other.goto(f"{made.address}/task")
        fill_in(tab, "ratings")
        save(tab)
        other.bring_to_front()
        for key in "1111":
            other.keyboard.press(key)
        save(other)
        assert "Task 2 of 2" in other.locator(".progress").inner_text()
    assert len(made.events()) == 2  # both are kept, and the last one counts
    (answer,) = made.log.answers()
    assert answer.answer["ratings"]["a"] == {"correctness": 1, "fluency": 1}


def test_a_dead_network_loses_nothing(chromium, study):
    made = study()
    with visitor(chromium) as tab:
        enter(tab, made)
        go_offline(tab)
        fill_in(tab, "ratings")
        tab.keyboard.press("Enter")
        expect(tab.locator("#status")).to_contain_text("Not saved yet, will retry")
        tab.keyboard.press("Enter")  # impatient
        assert made.events() == []
        with tab.expect_navigation():
            tab.context.set_offline(False)
        assert "Task 2 of 2" in tab.locator(".progress").inner_text()
    assert len(made.events()) == 1


def test_a_tab_that_is_closed_without_network_sends_later(chromium, study):
    made = study()
    with visitor(chromium) as tab:
        cut = scissors(tab)
        enter(tab, made)
        cut()
        fill_in(tab, "ratings")
        tab.keyboard.press("Enter")
        expect(tab.locator("#status")).to_contain_text("Not saved yet")
        other = tab.context.new_page()
        tab.close()
        other.context.unroute_all()
        other.goto(f"{made.address}/task")
        expect(other.locator(".progress")).to_contain_text("Task 2 of 2")
        assert other.evaluate("localStorage.length") == 0
    assert len(made.events()) == 1


def test_an_answer_leaves_from_a_page_without_a_task_too(chromium, study):
    made = study("labels", number=1, overlap=1)
    with visitor(chromium) as tab:
        cut = scissors(tab)
        enter(tab, made)
        cut()
        tab.keyboard.press("o")
        expect(tab.locator("#status")).to_contain_text("Not saved yet")
        other = tab.context.new_page()
        tab.close()
        made.log.release("r1", "too slow")
        made.link()
        assert made.log.next_page("r2") is not None
        other.context.unroute_all()
        other.goto(f"{made.address}/task")
        other.wait_for_url("**/done")
    assert [event.body["late"] for event in made.events()] == [True]


def test_answers_leave_in_their_order(chromium, study):
    made = study(number=3)
    with visitor(chromium) as tab:
        enter(tab, made)
        fill_in(tab, "ratings")
        save(tab)
        other = tab.context.new_page()
        other.goto(f"{made.address}/task")
        with other.expect_navigation():
            other.keyboard.press("u")
        go_offline(tab)
        go_offline(other)
        other.keyboard.press("1")
        other.keyboard.press("Enter")
        expect(other.locator("#status")).to_contain_text("Not saved yet")
        fill_in(tab, "ratings")
        tab.keyboard.press("Enter")
        expect(tab.locator("#status")).to_contain_text("Not saved yet")
        tab.context.set_offline(False)
        expect(tab.locator(".progress")).to_contain_text("Task 3 of 3")
    answers = made.events()
    assert [event.task for event in answers] == [answers[0].task, answers[0].task, answers[2].task]
    assert answers[2].task != answers[0].task and len(answers) == 3


def test_a_server_that_says_no_is_asked_again(chromium, study):
    made = study()
    with visitor(chromium) as tab:
        calls = []

        def away(route):
            calls.append(route)
            if len(calls) == 1:
                route.fulfill(status=503, json={"saved": False, "error": "away"})
            elif len(calls) == 2:
                route.fulfill(status=429, json={"saved": False, "error": "fast"}, headers={"retry-after": "1"})
            elif len(calls) == 3:  # the answer arrives, but its confirmation does not
                route.fetch()
                route.abort()
            else:
                route.fallback()

        tab.route(
            re.compile(r"/task$"), lambda route: away(route) if route.request.method == "POST" else route.fallback()
        )
        enter(tab, made)
        fill_in(tab, "ratings")
        save(tab)
        assert "Task 2 of 2" in tab.locator(".progress").inner_text()
    assert len(calls) == 4 and len(made.events()) == 1


def test_a_reload_keeps_what_was_chosen(chromium, study):
    made = study()
    with visitor(chromium) as tab:
        enter(tab, made)
        tab.keyboard.press("4")
        tab.keyboard.press("2")
        tab.reload()
        assert tab.locator("input:checked").count() == 2
        tab.keyboard.press("5")
        tab.keyboard.press("1")
        save(tab)
    (answer,) = made.log.answers()
    assert answer.answer == EXPECTED["ratings"](*answer.order)


def test_what_is_folded_away_stays_folded(chromium, study):
    made = study()
    with visitor(chromium) as tab:
        enter(tab, made)
        tab.locator(".references summary").click()
        fill_in(tab, "ratings")
        save(tab)
        assert tab.locator(".references").get_attribute("open") is None
        assert not tab.locator(".references li").first.is_visible()


@pytest.mark.parametrize("days", [-1, 1])
def test_the_clock_of_the_browser_does_not_matter(days, chromium, study):
    made = study(number=1)
    with visitor(chromium) as tab:
        tab.add_init_script(f"({SHIFTED_CLOCK})({days})")
        enter(tab, made)
        tab.evaluate("Date.now = () => 0")  # it jumps while the page is open
        fill_in(tab, "ratings")
        save(tab)
        tab.wait_for_url("**/done")
    (answer,) = made.log.answers()
    assert 0 <= answer.seconds < 3600  # not days


def test_captions_are_ranked_by_buttons_keys_and_dragging(chromium, study):
    made = study("ranking", number=3, per_page=4)
    places = (
        "() => [...document.querySelectorAll('.rank')].map(card => card.querySelector('legend').textContent.trim())"
    )
    with visitor(chromium) as tab:
        enter(tab, made)
        tab.get_by_label("Move caption 3 up").click()
        assert tab.evaluate(places) == [f"Caption {number}" for number in (1, 3, 2, 4)]
        tab.keyboard.press("Alt+ArrowUp")
        assert tab.evaluate(places) == [f"Caption {number}" for number in (3, 1, 2, 4)]
        save_button(tab)
        handle, target = tab.locator(".handle").nth(3), tab.locator(".rank").first
        handle.scroll_into_view_if_needed()
        handle.hover()
        tab.mouse.down()
        box = target.bounding_box()
        tab.mouse.move(box["x"] + 20, box["y"] + 4, steps=8)
        tab.mouse.up()
        assert tab.evaluate(places) == [f"Caption {number}" for number in (4, 1, 2, 3)]
        save_button(tab)
        for key in "1232":  # caption 4 takes the place of caption 2, which has no other place yet
            tab.keyboard.press(key)
        tab.keyboard.press("Enter")
        assert tab.locator("#gaps li").all_inner_texts() == ["Caption 2 has no rank."]
        tab.keyboard.press("4")
        save_button(tab)
    by_button, by_drag, by_key = (
        [answer.answer["ranks"][choice] for choice in answer.order] for answer in made.log.answers()
    )
    # The highest rank is the best: caption 3 first, then 1, 2, 4; caption 4 first, then 1, 2, 3; places 1, 4, 3, 2.
    assert (by_button, by_drag, by_key) == ([3, 2, 4, 1], [3, 2, 1, 4], [4, 1, 2, 3])


def save_button(tab):
    with tab.expect_navigation():
        tab.locator("#save").click()


def test_the_help_names_the_keys_and_comments_take_them(chromium, study):
    made = study("labels")
    with visitor(chromium) as tab:
        enter(tab, made)
        tab.keyboard.press("?")
        assert "Young <i>" in tab.locator("#help").inner_text()
        tab.keyboard.press("o")  # no answer while the help is open
        tab.keyboard.press("Escape")
        tab.locator(".comment summary").click()
        tab.locator("#comment").fill("no you")
        tab.keyboard.press("Control+Enter")
        assert tab.locator("#gaps li").all_inner_texts() == ["Choose one of the labels."]
        with tab.expect_navigation():
            tab.keyboard.press("y")
    (answer,) = made.log.answers()
    assert (answer.answer, answer.comment) == ({"label": "young"}, "no you")


def test_fast_raters_are_slowed_down_and_lose_nothing(chromium, study):
    made = study("labels", number=3, limit=Limit(1, seconds=1))
    with visitor(chromium) as tab:
        enter(tab, made)
        for _ in range(3):
            with tab.expect_navigation():
                tab.keyboard.press("n")
        tab.wait_for_url("**/done")
    assert len(made.events()) == 3


ARABIC = ("كلب يركض على العشب", "كلب بني", "قطتان", "a man and his horse")


@pytest.mark.parametrize(("language", "direction", "captions"), [("de", "ltr", PLAIN), ("ar", "rtl", ARABIC)])
def test_a_study_in_another_language(language, direction, captions, chromium, study):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    text = "**Eins**\n\n- zwei\n\n![](system-zebra-1.png)"
    made = study(captions=captions, language=language, instructions=text, consent="x", source=Source(done="C1ABC"))
    say, findings = made.plan.wording, []

    def examine(tab):
        for finding in axe.Axe().run(tab).response["violations"]:
            if finding["impact"] in ("serious", "critical"):
                findings.append((finding["id"], finding["nodes"][0]["html"][:120]))

    with visitor(chromium, **PHONE) as phone:
        enter(phone, made)
        with phone.expect_navigation():
            phone.locator("button[value=yes]").tap()
        assert phone.evaluate("document.documentElement.scrollWidth") == 360
        expect(phone.locator(".prose img")).to_have_js_property("complete", True)
        assert phone.locator(".prose img").evaluate("one => one.naturalWidth") == 320
    with visitor(chromium) as tab:
        cut = scissors(tab)
        enter(tab, made)
        assert tab.evaluate("[document.documentElement.lang, document.dir]") == [language, direction]
        examine(tab)
        with tab.expect_navigation():
            tab.get_by_text(say("agree"), exact=True).click()
        assert tab.locator(".progress label").inner_text().startswith(say("task_of", number=1, total=2))
        examine(tab)
        tab.keyboard.press("4")
        tab.keyboard.press("Enter")
        first = say("caption_no_rating_for", name=1, aspect="fluency")
        assert tab.locator("#gaps li").first.inner_text() == first
        expect(tab.locator("#status")).to_have_text(say("not_saved_missing"))
        for key in "251":
            tab.keyboard.press(key)
        higher = "ArrowLeft" if direction == "rtl" else "ArrowRight"
        tab.keyboard.press(higher)  # 1 becomes 2, towards the end of the line
        cut()
        tab.keyboard.press("Enter")
        expect(tab.locator("#status")).to_have_text(say("will_retry"))
        tab.context.unroute_all()
        with tab.expect_navigation():
            tab.evaluate("dispatchEvent(new Event('online'))")
        fill_in(tab, "ratings")
        save(tab)
        tab.wait_for_url("**/done")
        examine(tab)
        assert tab.locator(".completion").inner_text() == "C1ABC"
    answer = made.log.answers()[0]
    assert answer.answer["ratings"][answer.order[1]] == {"correctness": 5, "fluency": 2}
    assert findings == []


def test_the_arrows_of_a_pair_point_to_the_sides_also_from_right_to_left(chromium, study):
    made = study("pairs", language="ar", captions=ARABIC)
    with visitor(chromium) as tab:
        enter(tab, made)
        for key, place in (("ArrowRight", 0), ("ArrowLeft", 1)):
            tab.keyboard.press(key)
            assert tab.locator("input:checked").get_attribute("value") == str(place)
        boxes = [tab.locator(".side").nth(side).bounding_box()["x"] for side in (0, 1)]
        assert boxes[0] > boxes[1]


def test_questions_and_practice_by_keyboard_and_on_a_phone(chromium, tmp_path, serve):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    questions = (
        SurveyQuestion("age", "How old are you?", "number", low=1, high=120, screen_out=("below 18",)),
        SurveyQuestion("eyes", "Do you see well?", options=("yes", "no")),
        SurveyQuestion("remarks", "Anything else?", "text", "after", optional=True),
    )
    made = Around(tmp_path, "ratings", 1, 1, questions=questions, limit=600.0, source=Source(done="C1ABC"))
    made.link, made.address, findings = lambda: Study.link(made), serve(made.app), []

    def examine(tab):
        assert tab.evaluate("document.documentElement.scrollWidth") == tab.viewport_size["width"]
        for finding in axe.Axe().run(tab).response["violations"]:
            if finding["impact"] in ("serious", "critical"):
                findings.append((tab.url, finding["id"], finding["nodes"][0]["html"][:120]))

    def press(tab, *keys):
        for key in keys:
            tab.keyboard.press(key)

    for options in ({}, PHONE):
        with visitor(chromium, **options) as tab:
            tab.clock.install()
            enter(tab, made)
            examine(tab)
            press(tab, "Tab", "3", "Enter")  # the number alone: the choice is missing
            tab.wait_for_selector(".gaps")
            examine(tab)
            assert tab.locator("input:focus").get_attribute("value") == "yes"
            tab.locator("input[type=number]").fill("30")
            press(tab, "Tab", "Space")
            with tab.expect_navigation():
                press(tab, "Enter")
            assert "Practice 1 of 1" in tab.locator(".progress").inner_text()
            examine(tab)
            for key in "1111":
                tab.locator("[data-field]").nth(0).evaluate("() => 0")
                press(tab, key)
            with tab.expect_navigation():
                press(tab, "Enter")
            assert tab.locator("h1").inner_text() == "That is not what was expected"
            assert "Because 1." in tab.locator("main").inner_text()
            examine(tab)
            with tab.expect_navigation():
                press(tab, "Enter")  # the focus is on the way on
            assert "time" not in tab.locator("#status").inner_text()
            tab.clock.fast_forward(601_000)
            expect(tab.locator("#status")).to_have_text("The time is over. Your answer still counts.")
            for key in "4444":
                press(tab, key)
            with tab.expect_navigation():
                press(tab, "Enter")
            assert tab.locator("h1").inner_text() == "A few last questions"
            press(tab, "Tab", "Tab")
            with tab.expect_navigation():
                press(tab, "Enter")
            assert tab.locator(".completion").inner_text() == "C1ABC"
    assert findings == []
    assert [one.purpose for one in made.log.answers()] == ["practice", "work"] * 2


FIRST = ".points, .rank .answers, .sides .side, .thing .answers, .option"
PLACES = """() => {
  const box = (selector) => document.querySelector(selector).getBoundingClientRect();
  return [box(".picture").bottom, box("FIRST").top, box("FIRST").bottom, box(".bar").top];
}""".replace("FIRST", FIRST)
INSTRUCTIONS = (
    "Read the caption and look at the image. How well does the caption describe it?\n\n- Use the whole scale."
)


@pytest.mark.parametrize("size", [(360, 740), (390, 844)])
def test_a_phone_shows_image_caption_scale_and_save_bar_at_once(size, study, chromium):
    aspect = Aspect("overall", "How good is this caption for the image?", (1, 5), ("very bad", "very good"))
    captions = ("a dog runs on the green grass in front of a large old house",)
    texts = {"instructions": INSTRUCTIONS, "show_references": False}
    made = study("ratings", 2, captions, per_page=1, aspects=(aspect,), **texts)
    with visitor(chromium, **PHONE | {"viewport": dict(zip(("width", "height"), size, strict=True))}) as tab:
        enter(tab, made)
        for number in (1, 2):
            expect(tab.locator(".progress")).to_contain_text(f"Task {number} of 2")
            image, top, bottom, bar = tab.evaluate(PLACES)
            assert image < top < bottom < bar and tab.evaluate("scrollY") == 0
            tab.locator('.point input[value="4"]').tap()
            with tab.expect_navigation():
                tab.locator("#save").tap()


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_phone_nothing_to_tap_is_behind_the_image_or_the_save_bar(kind, study, chromium):
    made = study(kind, instructions=INSTRUCTIONS)
    with visitor(chromium, **PHONE) as tab:
        enter(tab, made)
        tab.locator(FIRST).first.scroll_into_view_if_needed()
        tab.evaluate("selector => document.querySelector(selector).scrollIntoView({block: 'nearest'})", FIRST)
        image, top, bottom, bar = tab.evaluate(PLACES)
        assert image <= top < bottom <= bar
