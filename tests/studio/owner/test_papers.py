"""The protocols of the papers from the first command to the result: a bot fills in every page in a real browser.

It reads what is on the screen and presses keys, as a person does.
"""

import json
import re
from contextlib import contextmanager

import pytest
from PIL import Image

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'captious[studio]'")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from captious.metrics.style.fitting import fit
from captious.metrics.style.model_files import save
from captious.studio.collect.log import open_study
from captious.studio.collect.sessions import invite
from captious.studio.server import StudyServer

ITEMS = 3
WORDS = ["a", "small", "dog", "runs", "over", "green", "grass"]
# Words of the reference that the captions of a system have: ROUGE-L puts the systems into this order.
LENGTHS = {"one": 3, "two": 4, "three": 5, "four": 6}
# A rating for each length; the middle two are the other way round.
ORDERED = {3: 1, 4: 3, 5: 2, 6: 5}


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def files(tmp_path):
    """Captions of four systems, their references and images of different width."""
    (tmp_path / "photos").mkdir()
    for number in range(ITEMS):
        Image.new("RGB", (320 + number, 240), (200, 160, 60 * number)).save(tmp_path / "photos" / f"{number}.png")
    for system, length in LENGTHS.items():
        rows = [{"id": str(number), "caption": caption(length, number)} for number in range(ITEMS)]
        lines(tmp_path / f"{system}.jsonl", rows)
    references = {str(number): [caption(len(WORDS), number)] for number in range(ITEMS)}
    (tmp_path / "refs.json").write_text(json.dumps(references))
    return tmp_path


def caption(length, number):
    return " ".join([*WORDS[:length], str(number)])


@pytest.fixture
def captions(files):
    """Options that name the captions and the references."""
    return ["--captions", *(files / f"{system}.jsonl" for system in LENGTHS), "--references", files / "refs.json"]


@pytest.fixture
def study(tmp_path, run, chromium):
    """``study(template, *words)`` writes, checks and serves a study, and exports it at the end."""

    @contextmanager
    def begin(template, *words):
        path = tmp_path / "study.toml"
        code, _, error = run("studio", "new", path, "--template", template, *words)
        assert code == 0, error
        path.write_text(re.sub(r"<<.*?>>", "a rule of the owner's", path.read_text()))
        code, out, error = run("studio", "check", path)
        assert code == 0, out + error
        server = StudyServer.of(*open_study(path), port=0)
        with server.running() as address:
            yield lambda answer, pages=None: rate(chromium, server, address, answer, pages)
        code, _, error = run("studio", "export", path, "--out", tmp_path / "export")
        assert code == 0, error

    return begin


def rate(chromium, server, address, answer, pages=None):
    """A rater who opens a personal link and answers all pages, or as many as wished; gives their number."""
    ((_, link),) = invite(server.log, 1, address)
    context = chromium.new_context()
    tab = context.new_page()
    tab.goto(link)
    done = 0
    while not tab.url.endswith("/done") and done != pages:
        with tab.expect_navigation(url=lambda url: url.endswith(("/task", "/done"))):
            for key in answer(tab):
                tab.keyboard.press(key)
        done += 1
    context.close()
    return done


def scales(ratings):
    """Keys for all scales of a page: those that ``ratings`` gives for the length of each caption."""

    def keys(tab):
        texts = tab.locator(".card .text").all_inner_texts()
        return [*(str(key) for text in texts for key in ratings(len(text.split()) - 1)), "Enter"]

    return keys


@pytest.fixture
def agreement(tmp_path, run):
    """Kendall's tau-b of ROUGE-L with the exported ratings, by ``study run``."""

    def tau():
        ratings = tmp_path / "export" / "ratings.jsonl"
        code, out, error = run("study", "run", ratings, "-m", "rouge", "--samples", 0, "--json")
        assert code == 0, error
        (metric,) = json.loads(out)["metrics"]
        return metric["statistics"]["tau_b"]["value"]

    return tau


# Two numbers on four levels, three rows on each level. Of the 66 pairs of rows 12 are ties in both numbers. One of the
# six pairs of levels is the other way round: 9 of the other 54 pairs of rows.
TAU = (45 - 9) / 54


def test_capeval1k(files, captions, study, agreement):
    with study("capeval1k", *captions, "--images", files / "photos") as rater:
        for _ in range(2):
            assert rater(scales(lambda length: [ORDERED[length]])) == ITEMS + 1  # one is shown again
    rows = rows_of(files / "export" / "ratings.jsonl")
    assert len(rows) == 2 * 4 * ITEMS
    assert all(row["rating"] == ORDERED[LENGTHS[row["system"]]] for row in rows)
    assert agreement() == pytest.approx(TAU)


def test_imagine_likert(files, captions, study, agreement):
    # The mean of the three is 1, 3, 2 and 4 for the four lengths.
    marks = {3: (1, 1, 1), 4: (5, 3, 1), 5: (1, 2, 3), 6: (5, 4, 3)}
    with study("imagine-likert", *captions) as rater:
        assert rater(scales(marks.get)) == 4 * ITEMS + 2
    rows = rows_of(files / "export" / "ratings.jsonl")
    assert {row["system"]: row["rating"] for row in rows} == {"one": 1, "two": 3, "three": 2, "four": 4}
    assert {row["fluency"] - row["grammar"] for row in rows if row["system"] == "two"} == {2}
    assert agreement() == pytest.approx(TAU)


def test_thumb(files, captions, study, agreement):
    # Places on the scales P and R (1 to 5), then on the three penalties (-1, -0.5, -0.3, -0.1, 0).
    marks = {3: (1, 2, 5, 5, 5), 4: (4, 4, 5, 4, 5), 5: (4, 3, 5, 5, 3), 6: (5, 5, 5, 5, 5)}
    with study("thumb", *captions, "--images", files / "photos") as rater:
        assert rater(scales(marks.get)) == ITEMS + 1
    ratings = {row["system"]: row["rating"] for row in rows_of(files / "export" / "ratings.jsonl")}
    assert ratings == pytest.approx({"one": 1.5, "two": 4 - 0.1, "three": 3.5 - 0.3, "four": 5})
    assert agreement() == pytest.approx(TAU)


def test_imagine_entities(files, study, run):
    rows = [
        {"task": f"{number}.png", "painter": "p", "text": f"a dog and a cat {number}", "seed": 0}
        | {"picture": f"{number}.png", "question": "?", "entities": ["dog", "cat"], "rater": None}
        for number in range(ITEMS)
    ]
    tasks = lines(files / "tasks.jsonl", [{**row, "seen": {"dog": None, "cat": None}} for row in rows])

    def look(tab):
        things = tab.locator(".thing legend").all_inner_texts()
        return [*("y" if thing == "dog" or seen_number(tab) == 0 else "n" for thing in things), "Enter"]

    with study("imagine-entities", "--tasks", tasks, "--images", files / "photos") as rater:
        assert rater(look) == ITEMS + 1
    code, out, error = run("probe", "recall", files / "export" / "answers.jsonl", "--samples", 0, "--json")
    assert code == 0, error
    assert json.loads(out)["recall"]["p"]["value"] == 4 / 6  # the dog in three pictures, the cat in one


def test_onlystyle_ranking(tmp_path, study, run):
    corpus = [
        ("happy", "a fine day"),
        ("happy", "a fine dog"),
        ("gloomy", "the grey dog weeps"),
        ("gloomy", "grey day"),
    ]
    save(fit(corpus, tokenizer="plain", name="moods"), tmp_path / "moods.style")
    # From the least to the most happy, by OnlyStyle too: no word of the style, one, two.
    order = ["the grey dog weeps", "a day", "a fine day"]
    sets = [{"set": f"happy-{number}", "style": "happy", "captions": order} for number in (1, 2)]
    tasks = lines(tmp_path / "sets.jsonl", sets)

    def rank(places):
        return lambda tab: [
            *(places[order.index(text)] for text in tab.locator(".rank .text").all_inner_texts()),
            "Enter",
        ]

    with study("onlystyle-ranking", "--tasks", tasks) as rater:
        for places in ("123", "213", "213"):
            assert rater(rank(places)) == 2
    code, out, error = run(
        "style", "correlate", tmp_path / "moods.style", tmp_path / "export" / "rankings.jsonl", "--json"
    )
    assert code == 0, error
    (style,) = json.loads(out)["styles"]
    # The most common ranking has one neighbouring pair the other way round: 1 - 6 * (1 + 1) / (3 * 8).
    assert style["raters"] == 3 and style["spearman"] == pytest.approx(0.5)


def test_relic_age(tmp_path, study, run):
    number = 24
    (tmp_path / "photos").mkdir()
    for index in range(number):
        Image.new("RGB", (320 + index, 240), (10 * index, 120, 90)).save(tmp_path / "photos" / f"{index}.png")

    def look(tab):
        return "n" if seen_number(tab) == 0 else "yo"[seen_number(tab) % 2]

    with study("relic-age", "--images", tmp_path / "photos") as rater:
        assert rater(look) == number + 2
        assert rater(lambda tab: "n", pages=3) == 3  # a label beats none
    rows = rows_of(tmp_path / "export" / "humans.jsonl")
    ages = {row["id"]: row["age"] for row in rows}
    assert ages == {str(index): ("young", "old")[index % 2] if index else None for index in range(number)}
    preds = [{"id": name, "caption": "somebody", "references": ["a person", "people"]} for name in ages]
    words = ("--label", "age", "--labels", tmp_path / "export" / "humans.jsonl", "--seeds", 1, "--no-cache", "--json")
    code, out, error = run("bias", "lic", lines(tmp_path / "preds.jsonl", preds), *words)
    assert code == 0, error
    audit = json.loads(out)
    assert audit["captioners"]["preds"]["labels"] == {"old": 12, "young": 11}
    # All captions are alike: each of two labels is as likely as the other, and right half of the time.
    assert audit["results"][0]["lic_m"] == audit["results"][0]["lic_d"] == 100 * 0.5 * 0.5


def seen_number(tab):
    """Which image is shown, by its width."""
    return (
        tab.locator(".picture img").evaluate("async (image) => { await image.decode(); return image.naturalWidth }")
        - 320
    )
