"""The files of a study, one by one spoiled; and what a study takes."""

import json
import os

import pytest
from click.testing import CliRunner
from PIL import Image

from captious.cli.app import build_app
from captious.errors import InputError
from captious.studio.collect import study_check as module
from captious.studio.collect.rating_tasks import build_tasks
from captious.studio.collect.study_check import check_plan, estimate_effort
from captious.studio.collect.study_plan import parse_plan

ASPECT = '[[aspects]]\nname = "overall"\nquestion = "How good?"\n'
FILES = 'captions = ["a.jsonl", "b.jsonl"]\nreferences = "refs.json"\nimages = "photos"\n'
RATINGS = f'title = "A study"\nkind = "ratings"\n{FILES}together = 2\npay = 12\n'
PAIRS = f'title = "A study"\nkind = "pairs"\n{FILES}'


@pytest.fixture(autouse=True)
def no_simulation(monkeypatch):
    """The power is tested where it is computed."""
    monkeypatch.setattr(module, "simulate_power", lambda *args, **options: Power())


class Power:
    detectable = 0.1


@pytest.fixture
def place(tmp_path):
    (tmp_path / "photos").mkdir()
    for number in range(10):
        Image.new("RGB", (8, 6)).save(tmp_path / "photos" / f"im{number}.jpg")
    captions(tmp_path, "a", {f"im{number}": f"a dog {number}" for number in range(10)})
    captions(tmp_path, "b", {f"im{number}": f"some dog {number}" for number in range(10)})
    (tmp_path / "refs.json").write_text(json.dumps({f"im{number}": ["the dog"] for number in range(10)}))
    return tmp_path


def captions(folder, system, texts):
    rows = [{"id": key, "caption": text} for key, text in texts.items()]
    (folder / f"{system}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def gold(folder, *rows):
    (folder / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def plan_of(folder, text):
    return parse_plan(text, folder / "study.toml")


def messages(folder, text=RATINGS + ASPECT, level=None):
    found = check_plan(plan_of(folder, text)).findings
    return [one.message.replace(f"{folder}{os.sep}", "") for one in found if level in (None, one.level)]


def test_nothing_is_wrong_with_a_good_study(place):
    result = check_plan(plan_of(place, RATINGS + ASPECT))
    assert result.findings == () and result.errors == ()
    assert (result.items, result.systems, result.captions) == (10, ("a", "b"), 20)
    assert result.detectable == pytest.approx(0.1)  # 20 captions are simulated as they are


@pytest.mark.parametrize(
    ("text", "tasks", "gold", "raters", "pages"),
    [
        ("overlap = 3\nper_rater = 40\n", 1000, 0, 75, 40),  # 1000 × 3 / 40
        ("overlap = 3\nper_rater = 40\n", 10, 0, 3, 10),  # nobody sees a task twice
        ("overlap = 2\nper_rater = 7\n", 10, 0, 3, 7),  # 20 / 7, rounded up
        ("overlap = 3\nper_rater = 40\n", 1000, 9, 75, 43),  # a gold task after each 12: 3
        ("overlap = 3\nper_rater = 40\n", 1000, 2, 75, 42),
    ],
)
def test_effort(place, text, tasks, gold, raters, pages):
    plan = plan_of(place, RATINGS + text + ASPECT)
    effort = estimate_effort(plan, tasks, gold)
    assert (effort.raters, effort.pages, effort.answers) == (raters, pages, tasks * plan.overlap)
    assert effort.minutes == pytest.approx(pages * 20 / 60)
    assert effort.cost == pytest.approx(12 * raters * pages * 20 / 3600)


def test_repeated_tasks_take_time_too(place):
    effort = estimate_effort(plan_of(place, RATINGS + ASPECT + "[checks]\nrepeat = 2\n"), 100, 0)
    assert effort.pages == 42


@pytest.mark.parametrize(
    ("tasks", "gold", "options"),
    [
        (10, 0, "per_rater = 10\n[checks]\nrepeat = 8\n"),
        (10, 3, "per_rater = 7\n[checks]\nrepeat = 2\nevery = 2\n"),
        (5, 1, "per_rater = 40\n[checks]\nevery = 3\n"),
    ],
)
def test_the_server_gives_a_rater_the_pages_that_the_check_promises(place, tasks, gold, options):
    pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed: pip install 'captious[studio]'")
    from tests.studio.logs import make_tasks, work_through

    from captious.studio.collect.log import StudyLog

    top, _, checks = options.partition("[checks]")
    plan = plan_of(place, f"{RATINGS}{top}{ASPECT}[checks]{checks}")
    log = StudyLog.open(place / "study.db")
    log.begin(plan, make_tasks(tasks, gold))
    (rater,) = log.add_raters(["a hash"])
    pages = len(work_through(log, rater.id))
    log.close()
    assert estimate_effort(plan, tasks, gold).pages == pages


def test_images_that_cannot_be_shown(place):
    (place / "photos" / "im3.jpg").write_bytes(b"no image")
    (place / "photos" / "im4.jpg").unlink()
    assert messages(place) == [
        "photos: 1 id (im4) without an image, expected one for every item; write missing = 'skip' to leave them out",
        "1 image (id im3): is not an image, or of a kind that Pillow does not read",
    ]
    skipped = RATINGS + 'missing = "skip"\n' + ASPECT
    assert messages(place, skipped) == ["1 image (id im3): is not an image, or of a kind that Pillow does not read"]
    assert check_plan(plan_of(place, skipped)).items == 9


def test_no_image_leads_out_of_the_folder(place):
    Image.new("RGB", (8, 6)).save(place / "secret.jpg")
    (place / "photos" / "im4.jpg").unlink()
    (place / "photos" / "im4.jpg").symlink_to(place / "secret.jpg")
    assert messages(place) == ["photos/im4.jpg: is outside the folder of images; copy it there"]
    with pytest.raises(InputError, match="is outside the folder of images"):
        build_tasks(plan_of(place, RATINGS + ASPECT))
    (place / "photos" / "im4.jpg").unlink()
    rows = [{"id": "x", "image": "../secret.jpg", "caption": "a dog"}]
    (place / "c.jsonl").write_text(json.dumps(rows[0]))
    text = f'title = "x"\nkind = "ratings"\ncaptions = ["c.jsonl"]\nimages = "photos"\n{ASPECT}'
    assert messages(place, text, "error") == ["photos/../secret.jpg: is outside the folder of images; copy it there"]


def test_a_link_inside_the_folder_is_fine(place):
    (place / "photos" / "im4.jpg").unlink()
    (place / "photos" / "im4.jpg").symlink_to(place / "photos" / "im3.jpg")
    assert messages(place, level="error") == []


def test_an_image_may_belong_to_several_items(place):
    rows = [{"id": f"x{number}", "image": "im1.jpg", "caption": f"a dog {number}"} for number in range(3)]
    (place / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = f'title = "x"\nkind = "ratings"\ncaptions = ["c.jsonl"]\nimages = "photos"\n{ASPECT}'
    assert messages(place, text) == ["3 items (id x0, x1, x2) that share an image with another"]


def test_the_same_caption_twice_on_a_page(place):
    captions(place, "b", {f"im{number}": f"A DOG {number}." for number in range(10)})
    same = "10 pages (id im0, im1, im2, im3, im4, …) with the same caption twice, but for case and punctuation"
    assert messages(place, level="warning") == [f"{same}; write distinct = true to leave them out"]
    assert messages(place, PAIRS, "error") == [f"{same}; write distinct = true to leave them out, or ties = true"]
    assert messages(place, PAIRS + "ties = true\n", "error") == []
    left = messages(place, PAIRS + "distinct = true\n", "error")
    assert left == ["study.toml: nothing to ask about is left, expected at least one item"]


def test_a_caption_that_names_its_system(place):
    (place / "a.jsonl").rename(place / "oscar.jsonl")
    texts = {f"im{number}": f"some dog {number}" for number in range(10)}
    captions(place, "oscar", {**texts, "im1": "Oscar: a dog", "im2": "As an AI, I see a dog"})
    text = RATINGS.replace("a.jsonl", "oscar.jsonl") + ASPECT
    captions(place, "b", {f"im{number}": f"a cat {number}" for number in range(10)})
    assert messages(place, text) == ["2 captions (id im1, im2) may tell which system wrote it; raters should not know"]
    captions(place, "b", {f"im{number}": "oscar the dog" for number in range(10)})  # a name in the picture, then
    assert messages(place, text) == ["1 caption (id im2) may tell which system wrote it; raters should not know"]


def test_systems_with_different_ids(place):
    captions(place, "b", {f"im{number}": f"some dog {number}" for number in range(8)})
    lacking = "study.toml: captions: b has no caption for 2 ids (im8, im9) of the others"
    assert messages(place, level="error") == [f"{lacking}; write missing = 'skip' to leave them out"]
    assert messages(place, RATINGS + 'missing = "skip"\n' + ASPECT) == []
    assert messages(place, RATINGS.replace("together = 2", "together = 1") + ASPECT) == []


def test_an_item_twice(place):
    with (place / "a.jsonl").open("a") as file:
        file.write('{"id": "im3", "caption": "again"}\n')
    assert messages(place) == ["a.jsonl: row 4: 2 captions of a for id 'im3', expected one"]


def test_systems_in_a_column(place):
    rows = [
        {"id": f"im{number}/{system}", "image": f"im{number}.jpg", "system": system, "caption": f"{system} {number}"}
        for number in range(3)
        for system in ("sat", "oscar")
    ]
    (place / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = f'title = "x"\nkind = "ratings"\ncaptions = ["c.jsonl"]\nimages = "photos"\ntogether = 2\n{ASPECT}'
    tasks = build_tasks(plan_of(place, text))
    assert [(task.item, [choice.system for choice in task.choices]) for task in tasks] == [
        (f"im{number}.jpg", ["sat", "oscar"]) for number in range(3)
    ]


def test_references_that_are_missing(place):
    (place / "refs.json").write_text(json.dumps({f"im{number}": ["the dog"] for number in range(9)}))
    lacking = "refs.json: 1 id (im9) without references, expected some for every item"
    assert messages(place) == [f"{lacking}; write missing = 'skip' to leave them out"]


def test_long_captions_take_longer_than_said(place):
    captions(place, "b", {f"im{number}": "a dog and " * 200 + str(number) for number in range(10)})
    assert messages(place) == ["the median page has 604 words, 151 s to read; seconds = 20 is short"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "im33", "expected": {"a": 4}}, "gold.jsonl: row 1: no task is about 'im33'; did you mean 'im3'?"),
        ({"id": "im3"}, "gold.jsonl: row 1: no column expected, expected the right answer under that name"),
        ({"id": "im3", "expected": {"c": 4}}, "gold.jsonl: row 1: expected has 'c', known: a, b, overall"),
        (
            {"id": "im3", "expected": {"a": 9}},
            "gold.jsonl: row 1: expected overall is 9, expected a number or a range from 1 to 5",
        ),
        (
            {"id": "im3", "expected": {"a": [5, 4]}},
            "gold.jsonl: row 1: expected overall is [5, 4], expected a number or a range from 1 to 5",
        ),
        (
            {"id": "im3", "expected": 4},
            "gold.jsonl: row 1: expected is 4, expected one for each caption, such as {'sat': 4}",
        ),
        ({"expected": 4}, "gold.jsonl: row 1: no id, expected one of task, image_id, id"),
        (
            {"id": "g", "captions": 7, "expected": 4},
            "gold.jsonl: row 1: captions is a number (7), expected a text, a list",
        ),
    ],
)
def test_gold_that_makes_no_sense(place, row, message):
    gold(place, row)
    found = messages(place, RATINGS + ASPECT + '[checks]\ngold = "gold.jsonl"\n', "error")
    assert len(found) >= 1 and found[0].startswith(message)


def test_a_gold_row_is_there_once(place):
    own = {"id": "g", "image": "im1.jpg", "captions": ["a dog", "qqq"], "expected": [4, 1]}
    for rows in ([own, own], [{"id": "im3", "expected": {"a": 4}}] * 2):
        gold(place, *rows)
        found = messages(place, RATINGS + ASPECT + '[checks]\ngold = "gold.jsonl"\n', "error")
        assert found == [
            f"gold.jsonl: row 2: {rows[0]['id']!r} has an expected answer already, expected one row for each item"
        ]


def test_gold_captions_stay_on_one_page(place):
    gold(place, {"id": "g", "image": "im1.jpg", "captions": ["a dog", "qqq"], "expected": [4, 1]})
    text = RATINGS.replace("together = 2", "together = 1") + ASPECT + '[checks]\ngold = "gold.jsonl"\n'
    (task,) = [task for task in build_tasks(plan_of(place, text)) if task.gold is not None]
    assert [choice.text for choice in task.choices] == ["a dog", "qqq"] and len(task.gold["ratings"]) == 2


def test_a_ranking_of_too_many_systems(place):
    names = [f"s{number}" for number in range(21)]
    for name in names:
        captions(place, name, {"im1": f"a dog of {name}"})
    files = json.dumps([f"{name}.jsonl" for name in names])
    text = f'title = "x"\nkind = "ranking"\ncaptions = {files}\n'
    with pytest.raises(InputError, match="captions of 21 systems to rank, expected at most 20"):
        check_plan(plan_of(place, text))


def test_gold_that_cannot_flag_anybody(place):
    gold(place, {"id": "im3", "expected": {"a": 4}})
    found = messages(place, RATINGS + ASPECT + '[checks]\ngold = "gold.jsonl"\n')
    assert found == ["1 gold task: nobody can fail flag.failed = 2"]


def test_a_design_that_lacks_something(place):
    text = RATINGS + "overlap = 1\nper_rater = 1000\nseconds = 600\n" + ASPECT
    assert messages(place, text + '[panel]\nname = "prolific"\ncompleted = "C"\n') == [
        "overlap = 1: how far raters agree cannot be computed",
        "100 minutes per rater; lower per_rater, because people tire",
        "[panel] has no address full: those who come too late would go without pay",
        "[panel] has no keys: anyone who knows the address may enter under any Prolific id",
    ]
    (place / "keys.json").write_text('{"keys": []}')
    signed = messages(
        place, RATINGS + ASPECT + '[panel]\nname = "prolific"\ncompleted = "C"\nfull = "D"\nkeys = "keys.json"\n'
    )
    assert len(signed) == 1 and "keys.json: contains no key of RSA with 2,048 to 8,192 bits" in signed[0]


def test_the_form_of_a_panel_is_printed_ready_to_copy(place):
    text = RATINGS + "seconds = 60\n" + ASPECT
    text += '[participants]\ncountries = ["Ireland", "Malta"]\napproval = 95\nsubmissions = 1000\ncurrency = "EUR"\n'
    text += '[panel]\nname = "sona"\ncompleted = "https://u.example/c?survey_code={id}"\n'
    result = check_plan(plan_of(place, text))
    minutes = result.effort.pages  # 60 s a page
    assert result.document().data["form"] == {
        "title": result.plan.title,
        "participants": result.effort.raters,
        "minutes": minutes,
        "pay per hour": "12.00 EUR",
        "pay per participant": f"{12 * minutes / 60:.2f} EUR",
        "countries": "Ireland, Malta",
        "approval": "above 95 %",
        "earlier submissions": "more than 1,000",
        "panel": "SONA",
        "add to the address": "?survey_code=%SURVEY_CODE%",
        "raters return to": "https://u.example/c?survey_code={id}",
    }
    assert "[participants] of the study file says nothing about languages" in str(result.document())


def test_a_larger_study_finds_smaller_differences(place):
    captions(place, "a", {f"x{number}": f"a dog {number}" for number in range(4000)})
    text = f'title = "x"\nkind = "ratings"\ncaptions = ["a.jsonl"]\n{ASPECT}'
    assert check_plan(plan_of(place, text)).detectable == pytest.approx(0.05)  # 0.1 × √(1000 / 4000)


def test_the_command_says_it_all(place):
    (place / "study.toml").write_text(RATINGS + ASPECT)
    run = CliRunner().invoke(build_app(), ["studio", "check", str(place / "study.toml"), "--json"])
    assert run.exit_code == 0
    facts = json.loads(run.stdout)
    assert (facts["tasks"], facts["raters"], facts["findings"]) == (10, 3, [])
    (place / "photos" / "im3.jpg").write_bytes(b"no image")
    run = CliRunner().invoke(build_app(), ["studio", "check", str(place / "study.toml")])
    assert run.exit_code == 2 and "error: 1 image (id im3)" in run.stdout


def test_a_caption_of_several_pairs_is_one_caption(place):
    captions(place, "c", {f"im{number}": f"the dog {number}" for number in range(10)})
    files = FILES.replace('"b.jsonl"', '"b.jsonl", "c.jsonl"')
    result = check_plan(parse_plan(f'title = "x"\nkind = "pairs"\n{files}', place / "study.toml"))
    assert (result.effort.tasks, result.captions) == (10 * 3, 10 * 3)


def test_a_file_that_is_listed_twice_is_said(place):
    text = RATINGS.replace('"b.jsonl"', '"a.jsonl"') + ASPECT
    lines = [one.message for one in check_plan(plan_of(place, text)).findings]
    assert (
        "a.jsonl is given twice, as 'a' and 'a-2'; raters would see the same captions as those of two systems" in lines
    )
