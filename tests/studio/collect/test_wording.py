"""The words of the pages: tables of languages, an owner's own, and pages in which no other word is left."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'captious[studio]'")
from starlette.testclient import TestClient
from tests.studio.studies import KINDS, OPTIONS, Study, prolific
from tests.studio.studies import make_plan as small_plan

from captious.errors import InputError
from captious.studio.collect._rendering import SCRIPT
from captious.studio.collect._wording import FOLDER, Wording, find_placeholders, list_languages, read_words
from captious.studio.collect.log import StudyLog
from captious.studio.collect.study_plan import Aspect, parse_plan

ENGLISH = Wording.of("en", {}).texts
# A table of marks: a letter on a page that is not between brackets comes from no table.
MARKED = {
    name: f"⟦{name.upper()}⟧" + "".join(f"{{{one}}}" for one in sorted(find_placeholders(text)))
    for name, text in ENGLISH.items()
}
HEADER = 'title = "Titel"\nkind = "labels"\nimages = "photos"\n'
LABELS = '[[options]]\nname = "a"\n[[options]]\nname = "b"\n'


@pytest.mark.parametrize("language", list_languages())
def test_every_language_has_every_text_with_the_same_names_in_braces(language):
    own = read_words(FOLDER / f"{language}.toml")
    assert list(own) == list(ENGLISH)
    assert {name: find_placeholders(text) for name, text in own.items()} == {
        name: find_placeholders(text) for name, text in ENGLISH.items()
    }


@pytest.mark.parametrize("language", [one for one in list_languages() if one != "en"])
def test_no_text_was_left_in_english(language):
    texts = read_words(FOLDER / f"{language}.toml")
    same = {name for name, text in texts.items() if text == ENGLISH[name]}
    # Words that are the same in both languages.
    assert same <= {"text", "text_name", "no", "nouns_minutes", "style"}


class Shown(HTMLParser):
    """All that a page shows or reads out: text, and the attributes that people are told."""

    def __init__(self, page):
        super().__init__()
        self.texts, self.attributes, self._get_inside_lasso = [], {}, []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag == "html":
            self.attributes = values
        self._get_inside_lasso.append(tag)
        self.texts += [values[name] for name in ("title", "alt", "aria-label", "data-gap") if values.get(name)]

    def handle_endtag(self, tag):
        while self._get_inside_lasso and self._get_inside_lasso.pop() != tag:
            pass

    def handle_data(self, data):
        if "kbd" not in self._get_inside_lasso:
            self.texts.append(data)


def letters(page):
    """What is on a page and comes neither from a table, nor from the study, whose texts are Chinese."""
    rest = (re.sub(r"⟦[^⟧]*⟧", "", text) for text in Shown(page).texts)
    return {word for text in rest for word in re.findall(r"[A-Za-z]{2,}", text)}


CHINESE = {
    "title": "题目",
    "instructions": "看图。\n\n- 快点。",
    "question": "好吗",
    "aspects": (Aspect("质量", "好吗", (1, 5), ("差", "好"), ("错",)), Aspect("风格", "好吗", (0, 100))),
    "options": tuple(type(one)(one.name, one.key, "选项") for one in OPTIONS),
}


@pytest.fixture
def marked(tmp_path):
    """``marked(kind, **options)`` is a browser on a study whose words are marks."""

    def begin(kind, per_page=2, **options):
        texts = {name: value for name, value in CHINESE.items() if name in ("title", "instructions")}
        texts |= {"ratings": {"aspects": CHINESE["aspects"]}, "labels": {"options": CHINESE["options"]}}.get(kind, {})
        texts |= {} if kind == "ratings" else {"question": ""}
        folder = tmp_path / f"{kind}{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        values = texts | {"words": MARKED, "language": "he", "cannot_judge": kind in ("ratings", "yesno", "labels")}
        made = Study(folder, kind, 2, ("一", "二"), per_page, **values | options)
        made.browser = TestClient(made.app, base_url="http://127.0.0.1:8765", raise_server_exceptions=False)
        return made

    return begin


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ties", [True, False])
def test_every_word_of_a_task_comes_from_the_table(kind, ties, marked, monkeypatch):
    monkeypatch.setattr("tests.studio.studies.THINGS", ("狗", "猫"))
    made = marked(kind, **({"ties": ties} if kind in ("pairs", "ranking") else {}))
    page = made.browser.get(made.link())
    assert letters(page.text.replace("a dog", "狗")) == set() and "⟦SAVE⟧" in page.text
    assert Shown(page.text).attributes == {"lang": "he", "dir": "rtl"}
    incomplete = made.browser.post("/task", data=_hidden(page.text))
    assert incomplete.status_code == 422 and letters(incomplete.text.replace("a dog", "狗")) == set()


def _hidden(text):
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', text))


def test_every_word_of_the_other_pages_comes_from_the_table(marked):
    made = marked("labels", panel=prolific("C1", "C2"), consent="请", images="photos")
    door = f"/s/{made.plan.digest[:8]}" if made.plan.digest else f"/s/{made.log.digest[:8]}"
    pages = [made.browser.get("/"), made.browser.get("/nothing"), made.browser.get("/task")]
    pages.append(made.browser.get(door))
    consent = made.browser.get(door, params={"PROLIFIC_PID": "p1"})
    pages.append(consent)
    pages.append(made.browser.post("/consent", data={**_hidden(consent.text), "agree": "no"}))
    task = made.browser.post("/consent", data={**_hidden(consent.text), "agree": "yes"})
    for _ in range(2):
        task = made.browser.post("/task", data={**_hidden(task.text), "label": "old"})
    pages.append(task)
    assert [page.status_code for page in pages] == [200, 404, 403, 403, 200, 200, 200]
    assert task.url.path == "/done" and "⟦YOUR_CODE⟧" in task.text
    names = {"Prolific", "http", "org"}
    for page in pages:
        assert letters(page.text) - names <= {"C1"}, page.url


def test_the_script_of_a_page_has_the_words_that_it_says(marked):
    script = (FOLDER.parent / "rate.js").read_text()
    assert {*re.findall(r'word\("(\w+)"', script)} == {*SCRIPT}
    made = marked("labels")
    (words,) = re.findall(r"data-words='([^']*)'", made.browser.get(made.link()).text)
    assert json.loads(words) == {name: MARKED[name] for name in SCRIPT}


def test_words_of_an_owner_are_frozen_with_the_study(tmp_path):
    (tmp_path / "words.json").write_text(json.dumps({"save": "Weiter damit"}))
    path = tmp_path / "study.toml"
    path.write_text(f'{HEADER}language = "de-AT"\nwords = "words.json"\n{LABELS}')
    plan = parse_plan(path.read_text(), path)
    log = StudyLog.open(tmp_path / "study.db")
    log.begin(plan, [])
    (tmp_path / "words.json").unlink()
    again = StudyLog.open(tmp_path / "study.db").plan()
    assert (again.wording("save"), again.wording("back"), again.wording.language) == ("Weiter damit", "Zurück", "de-AT")
    log.check(parse_plan(path.read_text(), path))  # the study goes on without the file


def test_words_inside_the_study():
    plan = parse_plan(f'{HEADER}language = "sw"\n{LABELS}[words]\nsave = "Hifadhi"\n', Path("study.toml"))
    assert (plan.wording("save"), plan.wording("back")) == ("Hifadhi", "Back")
    assert len(plan.wording.borrowed) == len(ENGLISH) - 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('language = "tlh"', "language = 'tlh', expected one of ar, de, en, es, fr, ja, zh; or words"),
        ('language = "German"', "language = 'German', expected a tag such as \"de\""),
        ("words = 3", "words = 3, expected the name of a file, or a table"),
        ('[words]\nsafe = "x"', "unknown name 'safe' of a text; did you mean 'save'"),
        ('[words]\nsave = ""', "save = '', expected a text, such as 'Save and continue'"),
        ('[words]\ntask_of = "{number}"', "task_of = '{number}', expected {number}, {total} in it"),
        ('[words]\nsave = "{0!r}"', "save = '{0!r}', expected no names in braces in it"),
        ('[words]\nto_do = "{count:>9999999}"', "expected {count} in it"),
    ],
)
def test_words_that_cannot_be(text, message):
    with pytest.raises(InputError, match=re.escape(message)):
        first, _, table = text.partition("[words]")
        parse_plan(f"{HEADER}{first}\n{LABELS}" + (f"[words]{table}" if table else ""), Path("study.toml"))


def test_a_file_of_words_that_cannot_be_read(tmp_path):
    plan = small_plan(tmp_path, words="words.toml")
    with pytest.raises(InputError, match=r"words\.toml: no such table of words"):
        plan.wording("save")
