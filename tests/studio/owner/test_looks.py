"""Result so far on the owner's page: the estimate of the export to the last digit, at planned looks."""

import html
import json
import time
from dataclasses import replace

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'captious[studio]'")
from starlette.testclient import TestClient
from tests.studio.studies import OWNER

from captious.data import DEMO
from captious.errors import InputError
from captious.stats.looks import look_boundaries
from captious.studio._study_app import build_app
from captious.studio.access import Limit, Rules
from captious.studio.collect._events import collect_answers
from captious.studio.collect.log import open_study
from captious.studio.collect.study_plan import Looks
from captious.studio.owner import _owner_pages as pages
from captious.studio.owner._looks import LookState, check_auxiliary, compute_look_result, measure_captions, take_answers
from captious.studio.owner.export import export_study
from captious.study import estimate

SYSTEMS = ("parrot", "expert")
PLAN = f"""title = "Dogs"
kind = "KIND"
captions = {json.dumps([str(DEMO / "predictions" / f"{name}.json") for name in SYSTEMS])}
references = {json.dumps(str(DEMO / "references.json"))}
together = 2
overlap = 2
per_rater = 100
items = 30
LOOKS
"""
ASPECT = '[[aspects]]\nname = "overall"\nquestion = "How good?"\n'


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(pages, "PAUSE", 0.0)
    monkeypatch.setattr(pages, "SHARE", 0.0)


@pytest.fixture
def runs(run, tmp_path):
    """Runs of all captions of both systems, as typed."""
    folders = []
    for name in SYSTEMS:
        file, folder = DEMO / "predictions" / f"{name}.json", tmp_path / "runs" / name
        options = ("--references", DEMO / "references.json", "--metrics", "rouge,cider", "--out", folder)
        code, _, error = run("score", file, *options)
        assert code == 0, error
        folders.append(folder)
    return folders


def begin(folder, looks="", kind="ratings"):
    text = PLAN.replace("LOOKS", looks).replace("KIND", kind)
    text = text.replace("together = 2\n", 'question = "Which is better?"\n') if kind == "pairs" else text
    (folder / "study.toml").write_text(text + (ASPECT if kind == "ratings" else ""))
    _, log = open_study(folder / "study.toml")
    log.add_raters(["one", "two", "three"])
    return log


def work(log, pages, rater="r1"):
    """A rater answers some pages; better captions have more words of the references in them, roughly."""
    for _ in range(pages):
        page = log.next_page(rater)
        ratings = {}
        for choice in page.task.choices:
            words = {*choice.text.lower().split()}
            known = {word for text in page.task.references for word in text.lower().split()}
            noise = sum(map(ord, choice.text + rater)) % 3
            ratings[choice.id] = {"overall": max(1, min(5, round(3.4 * len(words & known) / len(words)) + noise))}
        answer = {"ratings": ratings}
        if log.plan().kind == "pairs":
            order = sorted(ratings, key=lambda key: ratings[key]["overall"])
            answer = {"preferred": order[-1]}
        body = {"order": list(page.order), "purpose": page.purpose, "seconds": 9.0, "answer": answer}
        log.record(rater, "answered", f"{rater}/{page.task.id}", page.task.id, body)


def read_card(log, using=()):
    """The part of the owner's page with the result, once metrics are computed."""
    app = build_app(log.plan(), log, Rules(), "http://127.0.0.1", OWNER, Limit(1000, seconds=1), using)
    client = TestClient(app, base_url="http://127.0.0.1:8765")
    client.get(f"/owner?token={OWNER}")
    for _ in range(600):
        text = html.unescape(client.get("/owner").text)
        card = text[text.index('<section id="results"') : text.index('<section id="metrics"')]
        if "Computing" not in card:
            return card
        time.sleep(0.05)
    raise AssertionError("the auxiliary metrics were never computed")


def format_rows(run, folder, runs, *options):
    """The numbers of `study estimate` of an export, as its tables print them, and its JSON."""
    files = [f"{one.name}={one}" for one in runs]
    code, out, error = run("study", "estimate", folder, *files, *options, "--json")
    assert code == 0, error
    data = json.loads(out)
    question = data["questions"][0]
    scale, decimals, unit = (1, 2, "") if question["kind"] == "mean" else (100, 1, "%")
    numbers = []
    for one in question["systems"]:
        for mean in (one["mean"], *([one["ratings_only"]] if data["using"] else [])):
            value, low, high = (f"{scale * mean[part]:.{decimals}f}" for part in ("value", "low", "high"))
            numbers += [f">{value}{unit}<", f"{low}{unit} – {high}{unit}"]
    return numbers, data


def assert_shows(card, numbers, data):
    for number in numbers:
        assert number in card, number
    assert data["answer"] in card
    # The signature names everything that the numbers depend on; only the name of the ratings differs.
    assert data["signature"].partition("|")[2] in card


def test_looks_are_due_at_equal_steps():
    # 300 images in five looks: 60, 120, 180, 240, 300.
    state = LookState.of(Looks(300, 5), 96)
    assert state.times == (60, 120, 180, 240, 300) and state.past == (60,) and not state.is_at_look
    assert state.describe_next() == "look 2 of 5 at 120 images: now 96"
    assert LookState.of(Looks(300, 5), 120).is_at_look and LookState.of(Looks(300, 5), 310).is_at_look
    assert LookState.of(Looks(300, 5), 300).describe_next() == ""
    assert LookState.of(Looks(10, 4), 0).times == (3, 5, 8, 10)
    # Golden values of the boundaries: five equal looks 4.8769 3.3570 …; see tests/stats/test_looks.py.
    assert "± 3.36 standard errors" in state.describe_factor((60,), 120)


@pytest.mark.parametrize("kind", ["ratings", "pairs"])
def test_without_looks_the_card_is_the_estimate_of_the_export(kind, run, runs, tmp_path):
    log = begin(tmp_path, kind=kind)
    work(log, 25)
    work(log, 25, "r2")
    using = ("rouge",) if kind == "pairs" else ("rouge", "cider")  # a slope needs 20 pairs
    card = read_card(log, using)
    export_study(log, tmp_path / "export")
    numbers, data = format_rows(run, tmp_path / "export", runs, "--using", ",".join(using))
    assert data["using"], "the metrics are used"
    assert_shows(card, numbers, data)
    assert "not a result before the study ends" in card and "<details" not in card
    if kind == "ratings":
        assert "rated captions count as" in card
    log.close()


def test_the_numbers_of_the_card_are_exactly_those_of_the_export(runs, tmp_path):
    """Not only the printed digits: every bit of the means, intervals and differences, and of what ratings count as."""
    log = begin(tmp_path, "[looks]\nplanned = 30\nnumber = 3\n")
    work(log, 20)
    using = ("rouge", "cider")
    answers = collect_answers(log.events())
    card = compute_look_result(log.plan(), log.tasks(), answers, measure_captions(log.plan(), using), using).shown
    export_study(log, tmp_path / "export")
    folders = {one.name: one for one in runs}
    verdict = estimate(str(tmp_path / "export"), folders, using=using, planned=30, looked=(10,))
    (ours,), (theirs,) = card.questions, verdict.questions  # the rating; the only aspect is the rating itself
    assert ours.systems == theirs.systems and ours.gain == theirs.gain
    assert [one.difference for one in ours.contests] == [one.difference for one in theirs.contests]
    log.close()


def test_at_a_look_the_card_is_the_estimate_of_the_export(run, runs, tmp_path):
    log = begin(tmp_path, "[looks]\nplanned = 30\nnumber = 3\n")
    work(log, 20)
    card = read_card(log, ("rouge",))
    export_study(log, tmp_path / "export")
    options = ("--using", "rouge", "--planned", 30, "--looked", 10)
    assert_shows(card, *format_rows(run, tmp_path / "export", runs, *options))
    assert "Look 2 of 3, at 20 rated images of 30 planned ones: intervals are ± 2.51 standard errors" in card
    assert "look 3 of 3 at 30 images: now 20" in card and "<details" not in card
    log.close()


def test_between_looks_the_present_numbers_are_hidden(run, runs, tmp_path):
    log = begin(tmp_path, "[looks]\nplanned = 30\nnumber = 3\n")
    work(log, 6)
    card = read_card(log)
    before, _, hidden = card.partition("<details")
    assert "look 1 of 3 at 10 images: now 6" in before and "first look is still ahead" in before
    assert "parrot" not in before and "parrot" in hidden and "count as one more look" in hidden

    work(log, 4)
    export_study(log, tmp_path / "look")
    work(log, 4)
    work(log, 5, "r2")
    card = read_card(log, ("rouge",))
    shown, _, hidden = card.partition("<details")
    first = format_rows(run, tmp_path / "look", runs, "--using", "rouge", "--planned", 30)
    assert_shows(shown, *first)  # the look stays what it was
    export_study(log, tmp_path / "now")
    now = format_rows(run, tmp_path / "now", runs, "--using", "rouge", "--planned", 30, "--looked", 10)
    assert_shows(hidden, *now)
    images = len({log.tasks()[one.task].item for one in collect_answers(log.events())})
    assert first[0] != now[0] and f"look 2 of 3 at 20 images: now {images}" in shown and 10 < images < 20
    assert f"Now, at {images} images" in hidden and f"Now, at {images} images" not in shown
    verdict = estimate(tmp_path / "look", {one.name: one for one in runs}, using="rouge", planned=30)
    width = verdict.forecast(30, look_boundaries([1 / 3, 2 / 3, 1])[-1])
    assert f"At the last look, 30 images, intervals will be about ± {width:.2f} if the same people rate on." in shown
    log.close()


def test_the_present_numbers_are_one_click_away_at_any_width(page, serve, tmp_path):
    log = begin(tmp_path, "[looks]\nplanned = 60\nnumber = 6\n")
    work(log, 14)
    address = serve(build_app(log.plan(), log, Rules(), "http://127.0.0.1", OWNER, Limit(1000, seconds=1)))
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(f"{address}/owner?token={OWNER}")
        card = page.locator("#results")
        assert "Look 1 of 6" in card.inner_text() and "Now, at 14 images" not in card.inner_text()
        assert "60 images are planned, and the study asks about 30" in card.inner_text()
        page.click("#results details summary")
        assert "Now, at 14 images" in card.inner_text() and "count as one more look" in card.inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") == width
    log.close()


def test_the_counts_of_pairs_are_hidden_between_looks(tmp_path):
    log = begin(tmp_path, "[looks]\nplanned = 30\nnumber = 3\n", "pairs")
    work(log, 6)
    assert "Answers so far" not in read_card(log)
    work(log, 4)
    assert "Answers so far" in read_card(log)
    log.close()


def test_beyond_the_planned_end_the_card_warns(run, runs, tmp_path):
    log = begin(tmp_path, "[looks]\nplanned = 20\nnumber = 2\n")
    work(log, 25)
    card = read_card(log, ("rouge",))
    export_study(log, tmp_path / "export")
    options = ("--using", "rouge", "--planned", 20, "--looked", 10)
    assert_shows(card, *format_rows(run, tmp_path / "export", runs, *options))
    assert "25 images are rated, and 20 were planned" in card and "no longer controlled" in card
    log.close()


def test_answers_of_a_look_are_the_first_that_arrived(tmp_path):
    log = begin(tmp_path, "[looks]\nplanned = 30\nnumber = 3\n")
    work(log, 3)
    work(log, 5, "r2")
    answers = collect_answers(log.events())
    images = [log.tasks()[one.task].item for one in sorted(answers, key=lambda one: one.seq)]
    taken = take_answers(log.plan(), log.tasks(), answers, 4)
    number = next(number for number in range(9) if len({*images[:number]}) == 4)
    assert len(taken) == number
    log.exclude("r1", "careless")
    rest = take_answers(log.plan(), log.tasks(), collect_answers(log.events()), 2)
    assert len([one for one in rest if not one.excluded]) == 2
    log.close()


def test_metrics_that_cannot_be_computed_are_refused_before_the_study_is_served(tmp_path):
    log = begin(tmp_path)
    with pytest.raises(InputError, match="rougee"):
        check_auxiliary(log.plan(), ["rougee"])
    with pytest.raises(InputError, match="image"):
        check_auxiliary(log.plan(), ["clipscore"])
    with pytest.raises(InputError, match=r"bleu\(n=4\), expected one of them"):
        check_auxiliary(log.plan(), ["bleu"])
    assert check_auxiliary(log.plan(), ["bleu( n = 4 )", "rouge"]) == ["bleu(n=4)", "rouge"]
    with pytest.raises(InputError, match="labels"):
        check_auxiliary(replace(log.plan(), kind="labels"), ["rouge"])
    log.close()


def test_items_that_were_drawn_carry_their_chance(tmp_path):
    log = begin(tmp_path)
    work(log, 2)
    export_study(log, tmp_path / "export")
    rows = [json.loads(line) for line in (tmp_path / "export" / "ratings.jsonl").read_text().splitlines()]
    total = len(json.loads((DEMO / "predictions" / "parrot.json").read_text()))
    drawn = {(row["probability"], row["stratum"], row["batch"]) for row in rows}
    assert drawn == {(30 / total, "all", 1)}
    log.close()


def test_from_choose_to_estimate(run, runs, tmp_path, monkeypatch):
    """`study choose` → `studio new --ids` → simulated answers → `studio export` → `study estimate`: no warning."""
    monkeypatch.chdir(tmp_path)
    files = [f"{one.name}={one}" for one in runs]
    captions = [DEMO / "predictions" / f"{name}.json" for name in SYSTEMS]
    lines = (
        ("study", "choose", *files, "--using", "rouge", "--next", 40, "--out", "next.jsonl"),
        ("studio", "new", "study.toml", "--kind", "ratings", "--captions", *captions, "--ids", "next.jsonl"),
        ("studio", "simulate", "study.toml", "--raters", 12),
        ("studio", "export", "study.toml", "--out", "export"),
        ("study", "estimate", "export", *files, "--using", "rouge"),
    )
    for line in lines:
        code, out, error = run(*line)
        assert code == 0, (line, error)
    assert "picked by hand" not in out + error and "same chance" not in out
    rows = [json.loads(line) for line in (tmp_path / "export" / "ratings.jsonl").read_text().splitlines()]
    assert all(0 < row["probability"] < 1 and row["stratum"] and row["batch"] == 1 for row in rows)

    # The same items as a list of a person: the estimate warns.
    (tmp_path / "ids.txt").write_text("\n".join({row["item"] for row in rows}))
    new = ("studio", "new", "hand.toml", "--kind", "ratings", "--captions", *captions, "--ids", "ids.txt")
    for line in (
        new,
        ("studio", "simulate", "hand.toml", "--raters", 12),
        ("studio", "export", "hand.toml", "--out", "hand"),
    ):
        assert run(*line)[0] == 0
    code, out, error = run("study", "estimate", "hand", *files, "--using", "rouge")
    assert code == 0 and "picked by hand" in out + error
