"""The explorer in a real browser: questions, filters in the address, lasso, one item in full, keys, accessibility."""

import json
import re
import threading
from datetime import datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.studio.explore.conftest import write_run
from tests.studio.hostile import HOSTILE, ran
from tests.waiting import until

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'captious[studio]'")

from captious.studio.explore._explorer_app import build_app
from captious.studio.explore.explorer_table import open_table
from captious.studio.explore.site import export_site

TOKEN = "a-token-of-the-owner"


@pytest.fixture
def explore(page, serve):
    """``explore(table, view)`` opens the explorer of a table; gives the page."""

    def opened(table, view="", settle=True):
        address = serve(build_app(table, TOKEN))
        page.request.get(f"{address}/?token={TOKEN}")  # a cookie of the owner, without a page that is left at once
        page.goto(f"{address}/#{view}")
        page.wait_for_selector("[data-item]")
        if settle:
            settled(page)
        return page

    return opened


@pytest.fixture
def held(runs, ratings, images):
    """The runs joined with the ratings, in memory: for what the page does, whoever answers it."""
    return open_table(runs, ratings, images)


def settled(page):
    """Every part of the page shows what it asked for; nothing moves any more."""
    page.wait_for_function("() => !document.querySelector('[aria-busy=true]')")


def ids(page):
    return page.eval_on_selector_all("[data-item]", "cards => cards.map((card) => card.dataset.id)")


def waits_for(page, expected):
    """The list shows these items, in this order."""
    page.wait_for_function(
        "wanted => [...document.querySelectorAll('[data-item]')].map((card) => card.dataset.id).join() === wanted",
        arg=",".join(expected),
    )


def test_questions_are_one_click_each_and_stay_in_the_address(explore, table):
    page = explore(table, "sort=rouge")
    page.click("text=One right, one wrong")
    waits_for(page, "1342")  # sat − oscar in ROUGE-L: 1 and 3 are sat's own references, 2 is oscar's
    assert "order=between" in page.url and page.locator(".sides").count() == 4
    page.click("text=Raters disagree")
    waits_for(page, "1234")
    page.click("text=Metric against people")
    page.wait_for_function("() => location.hash.includes('order=disagree')")
    page.wait_for_function("() => document.querySelector('#scatter h3')?.textContent === 'Metric against human rating'")


def test_a_filter_is_applied_shared_by_its_address_and_a_mistake_says_where(explore, table):
    page = explore(table, "sort=rouge&order=given")
    page.fill("#where", 'style == "happy" and rouge@sat > 0.9')
    page.press("#where", "Enter")
    waits_for(page, "13")
    address = page.url
    page.fill("#where", "rouge <")
    page.press("#where", "Enter")
    page.wait_for_selector("#where-trouble:not([hidden])")
    assert page.inner_text("#where-trouble").startswith("filter, character 8: expected a column")
    seen = "box => box.getBoundingClientRect().top >= 0 && box.getBoundingClientRect().bottom <= innerHeight"
    assert page.eval_on_selector("#where-trouble", seen) and page.get_attribute("#where", "aria-invalid") == "true"
    page.wait_for_selector("#item-list >> text=Nothing is listed: the filter cannot be read.")
    page.goto("about:blank")
    page.goto(address)
    waits_for(page, "13")
    assert page.input_value("#where") == 'style == "happy" and rouge@sat > 0.9'
    page.click("text=Clear filters")
    waits_for(page, "1234")


def test_back_and_forward_walk_through_what_was_clicked(explore, held):
    page = explore(held, "sort=rouge&order=given")
    page.fill("#where", 'style == "happy"')
    page.press("#where", "Enter")
    waits_for(page, "13")
    page.click("text=Best captions")
    waits_for(page, "31")  # of item 1 oscar saw a cat, of item 3 two women
    page.locator("[aria-label='Open the item']").first.click()
    page.wait_for_selector("#full[open] >> text=1 of 2")
    page.keyboard.press("j")  # a step inside of the dialog is no step of the history
    page.wait_for_selector("#full[open] >> text=2 of 2")
    page.go_back()
    page.wait_for_selector("#full:not([open])", state="attached")
    assert "order=best" in page.url and "item=" not in page.url
    page.go_back()
    page.wait_for_function("() => location.hash.includes('order=given') && location.hash.includes('happy')")
    page.go_back()
    waits_for(page, "1234")
    assert page.input_value("#where") == ""
    for _ in range(3):
        page.go_forward()
    page.wait_for_selector("#full[open] >> text=2 of 2")
    assert "item=1" in page.url and page.input_value("#where") == 'style == "happy"'


def test_all_that_is_typed_into_the_search_is_one_step_back(explore, held):
    page = explore(held, "sort=rouge&order=given")
    page.locator("#search").press_sequentially("tr", delay=5)
    waits_for(page, "4")
    page.locator("#search").press_sequentially("ain", delay=400)
    page.wait_for_function("() => location.hash.includes('q=train')")
    page.go_back()
    waits_for(page, "1234")


def test_charts_and_numbers_follow_the_captions_that_pass(explore, held):
    page = explore(held, "sort=rouge&order=given")
    page.wait_for_selector("#scatter >> text=Lower right: good by the metric, bad by people; upper left: the other way")
    page.wait_for_selector("#scatter >> text=Human rating (better →)")
    assert "drawn as dots" not in page.inner_text("#scatter")  # all captions that people rated are
    page.fill("#where", 'caption has "dog"')
    page.press("#where", "Enter")
    page.wait_for_selector("#summary[aria-busy=false] >> text=2 of 4 items with filter caption has")
    text = page.inner_text("#summary")
    # Of sat's two captions with a dog one is its own reference; "a dog" against "a cat sits on a red chair" shares a.
    assert "captions that pass: sat 2, oscar 0" in text and "not tested" in text
    page.wait_for_selector("#scatter .faint")
    assert page.locator("#distribution .behind").count() == 1  # oscar has no dog to compare with all of its captions
    page.wait_for_selector("#distribution >> text=Faint: all items, scaled to as many as pass")


def test_an_empty_selection_has_empty_charts_that_say_why(explore, held):
    page = explore(held, "sort=rouge&order=given")
    page.fill("#search", "zebra")
    for part in ("#distribution", "#scatter", "#item-list", "#summary[aria-busy=false]"):
        page.wait_for_selector(f"{part} >> text=No caption passes: search “zebra”.")
    assert page.locator("#distribution .step").count() == 0 and page.locator("#distribution .behind").count() == 2


def test_ticked_items_are_in_the_address(explore, held):
    page = explore(held, "sort=rouge&order=given")
    page.check("[aria-label='Select 2']")
    assert page.url.endswith("pick=2")
    page.reload()
    page.wait_for_selector("#item-actions >> text=1 item selected")
    assert page.is_checked("[aria-label='Select 2']")


# The dot of oscar's item 2 is that of the best rating and the best ROUGE-L: the upper right corner.
CORNERS = ((1, 0), (1, 35), (0.8, 35), (0.8, 2))
OF_DOTS = "sort=rouge&order=given&x=rouge&y=rating"


def draw_lasso(page, corners, down=True, up=True):
    """Moves the pointer over the corners: shares of the chart's width, pixels from its top."""
    box = page.locator("#scatter svg").bounding_box()
    places = [(box["x"] + box["width"] * share, box["y"] + pixels) for share, pixels in corners]
    if down:
        page.mouse.move(box["x"] + box["width"] * 0.8, box["y"])
        page.mouse.down()
    for x, y in places:
        page.mouse.move(x, y, steps=4)
    if up:
        page.mouse.up()


def test_a_lasso_around_dots_lists_their_items(explore, table):
    page = explore(table, OF_DOTS)
    draw_lasso(page, CORNERS)
    waits_for(page, "2")
    assert "lasso=" in page.url and not page.locator("#full[open]").count()
    page.reload()
    waits_for(page, "2")


def withheld(page, requests):
    """The requests of this pattern that the page makes; each waits until it is continued.

    It is called before the page is opened: one that is open may still send a request or two past Playwright.
    """
    waiting = []
    page.route(requests, lambda route: waiting.append(route))
    return waiting


def handed_over(page, waiting, number):
    """So many requests wait; Playwright hands them over while the page does something else."""
    until(lambda: page.wait_for_timeout(10) or len(waiting) == number, f"{number} requests")


@pytest.fixture
def late_dots(explore, held, page):
    """The page while it waits for the dots that pass a search, and a function with which they arrive."""
    waiting = withheld(page, "**/api/points?*q=*")
    explore(held, OF_DOTS)
    page.fill("#search", "a")
    page.wait_for_selector("#scatter[aria-busy=true]")
    handed_over(page, waiting, 1)

    def arrive():
        with page.expect_response("**/api/points?*q=*") as response:
            waiting.pop().continue_()
        response.value.finished()
        page.evaluate("() => new Promise((done) => setTimeout(done, 50))")  # a chart that is not held is drawn by then

    return page, arrive


def test_a_chart_is_not_replaced_while_someone_draws_on_it(late_dots):
    page, arrive = late_dots
    draw_lasso(page, CORNERS[:2], up=False)
    arrive()
    draw_lasso(page, CORNERS[2:], down=False)
    waits_for(page, "2")
    assert "q=a" in page.url and "lasso=" in page.url


def test_what_came_while_someone_drew_is_shown_when_the_pointer_is_lifted(late_dots):
    page, arrive = late_dots
    draw_lasso(page, [], up=False)
    arrive()
    assert page.locator("#scatter .faint").count() == 0
    draw_lasso(page, [], down=False)
    page.wait_for_selector("#scatter[aria-busy=false] .faint", state="attached")


def test_the_charts_stay_in_place_when_what_is_above_them_comes_late(explore, held, page):
    late = withheld(page, re.compile("api/(summary|views)"))
    explore(held, OF_DOTS, settle=False)
    page.wait_for_selector("#scatter[aria-busy=false] svg")
    handed_over(page, late, 2)
    before = page.locator("#scatter svg").bounding_box()
    for route in late:
        route.continue_()
    settled(page)
    assert page.inner_text("#summary") and page.inner_text("#views")
    assert page.locator("#scatter svg").bounding_box() == before


def test_the_chart_against_people_follows_the_metric(explore, held):
    page = explore(held)
    page.click("#lens >> text=ROUGE-L")
    page.wait_for_function("() => document.querySelector('#scatter [aria-label=\"x axis\"]').selectedIndex === 0")
    page.click("#lens >> text=Human rating")  # people are not set against themselves
    page.wait_for_function("() => document.querySelector('#lens [aria-pressed=true]').textContent === 'Human rating'")
    assert page.eval_on_selector("#scatter [aria-label='x axis']", "select => select.selectedIndex") == 0


def test_captions_that_pass_a_filter_stand_out_and_the_sorting_number_is_shown(explore, table):
    page = explore(table, 'order=raters&where=caption has "dog"')
    waits_for(page, "12")
    assert page.locator(".said.other").all_inner_texts() != [] and page.locator(".said:not(.other)").count() == 2
    assert page.locator("[data-id='1'] header").inner_text().count("raters differ by 3") == 1
    page.click("text=Grid")
    page.wait_for_selector(".tile")
    assert page.locator(".tile .line").count() == 2  # sat's captions alone
    page.click("text=Cards")
    page.click(".card .shot >> nth=0")
    page.wait_for_selector("#full[open] .system")


def test_on_a_phone_a_question_brings_its_answer_into_sight(explore, held):
    page = explore(held)
    page.set_viewport_size({"width": 390, "height": 700})
    page.click("text=Best captions")
    page.wait_for_function("() => document.getElementById('items').getBoundingClientRect().top < innerHeight / 2")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_help_lists_filters_columns_and_keys(explore, held):
    page = explore(held)
    page.keyboard.press("?")
    text = page.inner_text("#help[open]")
    assert (
        "spice is missing" in text
        and "rouge, bleu-1, rating" in text
        and "whole item" in text
        and "[object" not in text
    )


def test_keys_work_in_an_open_item_too(explore, held):
    page = explore(held, "order=given&item=1")
    page.wait_for_selector("#full[open] >> text=1 of 4")
    page.keyboard.press("Escape")
    page.wait_for_selector("#full:not([open])", state="attached")
    for key, item in (("o", "1"), ("j", "2"), ("j", "3"), ("k", "2")):
        page.keyboard.press(key)
        page.wait_for_function("id => document.querySelector('#full[open] h2')?.textContent === id", arg=item)
    page.keyboard.press("x")
    page.wait_for_selector("#item-actions >> text=1 item selected", state="attached")


def test_an_item_opened_before_the_close_event_of_another_is_still_the_open_one(explore, held):
    page = explore(held, "order=given&item=1")
    page.wait_for_selector("#full[open] >> text=1 of 4")
    page.evaluate("""() => {
        document.getElementById("full").close();  // its event comes later
        dispatchEvent(new KeyboardEvent("keydown", { key: "o" }));
    }""")
    page.wait_for_selector("#full[open] >> text=1 of 4")
    page.keyboard.press("j")
    page.wait_for_selector("#full[open] >> text=2 of 4")


def test_brushing_the_histogram_keeps_a_range(explore, table):
    page = explore(table, "sort=rouge&order=given&system=sat")
    chart = page.locator("#distribution svg")
    chart.locator(".bar").first.wait_for()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + 80, steps=5)
    page.mouse.up()
    waits_for(page, "13")
    assert "min=" in page.url and "max=1" in page.url


def test_one_item_in_full_has_captions_scores_ratings_and_why(explore, table):
    page = explore(table, "sort=rouge&order=given")
    page.keyboard.press("j")
    page.keyboard.press("o")
    page.wait_for_selector("#full[open]")
    text = page.inner_text("#full")
    assert "a brown dog runs on the grass" in text and "better than 50 %" in text and "2 ratings" in text
    assert "<b>no</b>" in text and "happy" in text
    page.wait_for_function("() => document.querySelector('#full .left img').naturalWidth === 401")
    page.locator("#full .whybar button", has_text="ROUGE-L").first.click()
    page.wait_for_selector("#full .because p, #full .because table")
    page.wait_for_function("() => document.querySelector('#full .because').textContent.includes('1.0000')")
    page.keyboard.press("j")
    page.wait_for_function("() => document.querySelector('#full h2').textContent === '2'")
    assert "item=2" in page.url
    page.keyboard.press("Escape")
    page.wait_for_selector("#full[open]", state="detached")
    page.wait_for_function("() => !location.hash.includes('item=')")  # the dialog's close event comes after that


def test_a_link_opens_its_item(explore, table):
    page = explore(table, "sort=rouge&item=3")
    page.wait_for_selector("#full[open]")
    assert page.inner_text("#full h2") == "3"


def test_a_selection_is_downloaded_and_becomes_a_study(explore, table, runs):
    page = explore(table, "sort=rouge&order=given&layout=grid")
    page.check("[aria-label='Select 2']")
    page.check("[aria-label='Select 4']")
    with page.expect_download() as download:
        page.click("text=Ids of the selection")
    assert download.value.path().read_text() == "2\n4\n"
    page.click("text=Ask people…")
    page.fill("#study-name", "hard ones")
    page.click("text=Write the study")
    page.wait_for_selector("#study pre")
    study = runs[0].parent / "hard-ones" / "study.toml"
    assert f"captious studio serve {study}" in page.inner_text("#study pre") and study.is_file()


def test_a_view_is_saved_under_a_name_and_opened_again(explore, table, runs):
    page = explore(table, "sort=rouge&order=best&q=dog")
    page.click("#views summary")
    page.fill("#views input", "dogs <b>")
    page.click("text=Save this view")
    page.wait_for_selector("#views li a")
    assert json.loads((runs[0].parent / "sat.views.json").read_text())["dogs <b>"].startswith(
        "sort=rouge&order=best&q=dog"
    )
    page.click("text=Clear filters")
    page.wait_for_function("() => !location.hash.includes('q=') && document.querySelector('#search').value === ''")
    settled(page)
    page.click("#views li a")
    page.wait_for_function("() => document.querySelector('#search').value === 'dog'")
    assert "sort=rouge&order=best&q=dog" in page.url


def test_pages_follow_each_other_also_by_key(explore, tmp_path):
    captions = {f"i{number:03}": f"a dog number {number}" for number in range(120)}
    run = write_run(tmp_path / "run", captions, {key: ["a dog"] for key in captions}, metrics="rouge")
    page = explore(open_table([run]), "order=given&page=3")
    waits_for(page, [f"i{number:03}" for number in range(100, 120)])
    page.keyboard.press("j")
    page.keyboard.press("k")
    waits_for(page, [f"i{number:03}" for number in range(50, 100)])
    page.wait_for_selector(".current[data-id='i099']")
    assert "item=" not in page.url  # only an item that is open is in the address


def test_hostile_captions_run_nothing_and_are_shown_as_they_are(explore, tmp_path):
    captions = {f"<b>{number}": text for number, text in enumerate(HOSTILE)}
    run = write_run(tmp_path / "run", captions, {key: [text] for key, text in captions.items()}, metrics="rouge")
    page = explore(open_table([run]), "order=given")
    assert page.locator("[data-item]").count() == len(HOSTILE)
    assert page.locator(".candidate").first.text_content() == HOSTILE[0]
    for layout in ("grid", "cards"):
        page.keyboard.press("g")
        page.wait_for_selector(f"#item-list.as-{layout}")
    page.keyboard.press("o")
    page.wait_for_selector("#full[open]")
    assert not ran(page)


def serious(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    found = axe.Axe().run(page).response["violations"]
    return [
        (one["id"], [node["target"] for node in one["nodes"]][:3])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("view", ["layout=cards", "layout=grid", "order=between&layout=pair", "item=1"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(explore, held, page, view, scheme):
    page.emulate_media(color_scheme=scheme)
    page = explore(held, f"sort=rouge&{view}")
    page.locator("#scatter .dots").first.wait_for(state="attached")
    if "item" in view:
        page.wait_for_selector("#full[open]")
    assert serious(page) == []


class Quiet(SimpleHTTPRequestHandler):
    """A web server of files that says nothing."""

    def log_message(self, *given):
        """Nothing."""


def test_the_folder_works_on_any_web_server(page, table, tmp_path):
    export_site(table, tmp_path / "site")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "site"))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        page.goto(f"http://127.0.0.1:{server.server_port}/#sort=rouge&order=between&better=oscar&worse=sat&layout=pair")
        page.wait_for_selector("[data-item]")
        assert ids(page)[0] == "2"
        page.click("text=Raters disagree")
        waits_for(page, "1234")
        page.locator("[aria-label='Open the item']").first.click()
        page.wait_for_selector("#full[open]")
        assert "2 ratings" in page.inner_text("#full")
        page.wait_for_function("() => document.querySelector('#full .left img').naturalWidth === 401")
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        assert "whole item" in page.inner_text("#help[open]") and "null" not in page.inner_text("#help")
        page.goto("about:blank")
        page.goto(f"http://127.0.0.1:{server.server_port}/#sort=rouge&order=given&q=dog")
        page.wait_for_selector("#summary >> text=2 of 4 items with search “dog”")
        # ROUGE-L of sat is 1 for item 1; oscar's is 1 for item 2. p of two differences is never below one half.
        text = page.inner_text("#summary")
        assert "no significant difference between sat and oscar" in text and "Means over items" in text
        assert page.locator("#scatter .faint").count() == 2
        page.fill("#search", "zebra")
        page.wait_for_selector("#distribution >> text=No caption passes: search “zebra”.")
        page.go_back()
        waits_for(page, "12")
        page.goto("about:blank")
        page.goto(f"http://127.0.0.1:{server.server_port}/#where=rouge < 0.3")
        page.wait_for_selector("#trouble >> text=needs the explorer's server")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_search_is_asked_once_when_the_typing_pauses(explore, held, page):
    page.clock.install()
    page = explore(held, "sort=rouge&order=given")
    page.clock.pause_at(datetime.now() + timedelta(days=1))  # however slow the typing is, no time passes
    asked = []
    page.on("request", lambda request: "api/list" in request.url and asked.append(request.url))
    page.locator("#search").press_sequentially("train")
    page.clock.run_for(1000)
    waits_for(page, "4")
    assert len(asked) == 1 and "q=train" in asked[0]
    assert page.input_value("#search") == "train" and "q=train" in page.url
