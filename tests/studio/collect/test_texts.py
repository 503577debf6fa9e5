"""What raters read: Markdown of the owner's, templates that follow the study, and texts held against the plan."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

pytest.importorskip("jinja2", reason="jinja2 is not installed: pip install 'captious[studio]'")
from tests.studio.studies import make_plan

from captious.cli.app import build_app
from captious.errors import InputError
from captious.studio.collect._safe_markdown import list_example_images, render_prose
from captious.studio.collect._texts import PageText, check_texts
from captious.studio.collect.log import open_study
from captious.studio.collect.new import new_plan
from captious.studio.collect.rating_tasks import Choice, Task
from captious.studio.collect.study_plan import LabelOption, parse_plan


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a **bold** and *leaning* word", '<p dir="auto">a <strong>bold</strong> and <em>leaning</em> word</p>\n'),
        ("word_choice of 2 * 3 * 4", '<p dir="auto">word_choice of 2 * 3 * 4</p>\n'),
        ("one\ntwo", '<p dir="auto">one\ntwo</p>\n'),
        ("1. a\n2. b", '<ol>\n<li dir="auto">a</li>\n<li dir="auto">b</li>\n</ol>\n'),
        ("<script>x</script> & <b>", '<p dir="auto">&lt;script&gt;x&lt;/script&gt; &amp; &lt;b&gt;</p>\n'),
        ("[a](http://x.org) <http://x.org>", '<p dir="auto">[a](http://x.org) &lt;http://x.org&gt;</p>\n'),
        ("# no heading\n\n> no quote", '<p dir="auto"># no heading</p>\n<p dir="auto">&gt; no quote</p>\n'),
        ("![a <dog>](my%20dog.jpg)", '<p><img src="/example/0" alt="a &lt;dog&gt;"></p>\n'),
        ("![](im1.jpg)", '<p><img src="/example/1" alt="Beispiel"></p>\n'),
        ("![x](javascript:alert)", '<p dir="auto">![x](javascript:alert)</p>\n'),
        ("![x](../secret.jpg)", '<p><img src="" alt="x"></p>\n'),
    ],
)  # fmt: skip
def test_a_safe_part_of_markdown(text, html):
    assert str(render_prose(text, {"my dog.jpg": "/example/0", "im1.jpg": "/example/1"}, "Beispiel")) == html


def test_images_of_examples_are_found_once():
    plan = make_plan("here", instructions="![a](a.jpg)\n\n- ![b](b%20c.png)", consent="![a](a.jpg) and `![x](x.jpg)`")
    assert list_example_images(plan) == ["a.jpg", "b c.png", "x.jpg"]


# Templates


def captions_of(folder, systems, items=4):
    (folder / "preds").mkdir()
    (folder / "refs.json").write_text(json.dumps({f"im{item}": ["a dog"] for item in range(items)}))
    for system in systems:
        rows = [{"id": f"im{item}", "caption": f"{system} dog {item}"} for item in range(items)]
        (folder / "preds" / f"{system}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [str(folder / "preds" / f"{system}.jsonl") for system in systems]


@pytest.mark.parametrize(
    ("number", "title", "sentence", "together"),
    [
        (1, "Rate a caption of an image", "Score the caption from 1 to 5 by", 1),
        (3, "Rate three captions of an image", "Score each of the three captions from 1 to 5 by", 3),
        (5, "Rate five captions of an image", "Score each of the five captions from 1 to 5 by", 5),
        (9, "Rate three captions of an image", "Score each of the three captions from 1 to 5 by", 4),  # 3 pages of 3
        (10, "Rate captions of an image", "Score each of the captions from 1 to 5 by", 4),  # pages of 4, 3 and 3
    ],
)
def test_a_template_says_how_many_captions_a_page_has(number, title, sentence, together, tmp_path):
    files = captions_of(tmp_path, [f"s{one}" for one in range(number)])
    path, references = tmp_path / "study.toml", str(tmp_path / "refs.json")
    plan = parse_plan(new_plan(path, template="capeval1k", captions=files, references=references), path)
    assert (plan.title, plan.together) == (title, together) and plan.instructions.startswith(sentence)
    assert ("shown together" in plan.instructions) == (number > 1) and "{" not in plan.instructions


def test_a_template_without_files_names_no_number():
    plan = parse_plan(new_plan("study.toml", template="onlystyle-ranking", tasks="sets.jsonl"), Path("study.toml"))
    assert "a style and captions." in plan.instructions and "the highest number for the closest" in plan.instructions


def test_a_ranking_of_four_is_told_so(tmp_path):
    row = {"style": "happy", "set": "happy-1", "captions": ["a", "b", "c", "d"]}
    (tmp_path / "sets.jsonl").write_text(json.dumps(row) + "\n")
    text = new_plan(tmp_path / "study.toml", template="onlystyle-ranking", tasks=str(tmp_path / "sets.jsonl"))
    assert "a style and four captions." in text and "4 for the closest" in text


def test_a_rule_that_is_left_to_the_owner_must_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    Image.new("RGB", (8, 6)).save("photos/im1.jpg")
    Path("study.toml").write_text(new_plan("study.toml", template="relic-age", images="photos"), encoding="utf-8")
    run = CliRunner().invoke(build_app(), ["studio", "check", "study.toml"])
    assert run.exit_code == 2 and run.output.count("is left for you to write") == 2
    with pytest.raises(
        InputError, match=r"instructions: <<write your rule here, such as: a child.*left for you to write"
    ):
        open_study(Path("study.toml"))
    assert not Path("study.db").exists()
    text = Path("study.toml").read_text(encoding="utf-8")
    while "<<" in text:
        text = text[: text.index("<<")] + "under 30" + text[text.index(">>") + 2 :]
    Path("study.toml").write_text(text, encoding="utf-8")
    run = CliRunner().invoke(build_app(), ["studio", "check", "study.toml"])
    assert run.exit_code == 0 and "- Young: under 30" in run.output


# Texts against the plan


def findings(text, kind="ratings", captions=3, image="im.jpg", references=("a dog",), minutes=10.0, **options):
    plan = make_plan(".", kind, instructions=text, images=None, **options)
    choices = () if kind == "labels" else tuple(Choice("abcdef"[one], "a dog") for one in range(captions))
    tasks = [Task(f"t{number}", f"im{number}", image, choices, references) for number in range(12)]
    return [finding.message for finding in check_texts(plan, tasks, minutes)]


@pytest.mark.parametrize(
    ("text", "options", "found"),
    [
        ("Rate each of the three captions.", {}, []),
        ("Rate the 3 captions.", {}, []),
        ("Rate each of the four captions.", {}, ["instructions: 'four captions', and a page has 3"]),
        ("Read 4 short captions.", {}, ["instructions: '4 short captions', and a page has 3"]),
        ("You read 36 captions in all.", {}, []),  # 12 tasks of 3
        ("Rate them on two scales from 1 to 5.", {}, []),
        ("Rate them on three scales.", {}, ["instructions: 'three scales', and the study has 2"]),
        ("Rate from 1 to 7.", {}, ["instructions: '1 to 7', and a scale goes from 1 to 5"]),
        ("It takes 8 to 10 minutes and has 12 tasks.", {}, []),
        ("It takes 30 minutes.", {}, ["instructions: '30 minutes', and seconds and per_rater make 10"]),
        ("There are 40 tasks.", {}, ["instructions: '40 tasks', and a rater has 12"]),
        ("Compare it with the references.", {}, []),
        ("Compare it with the references.", {"show_references": False},
         ["instructions: 'references', and raters see no references (show_references)"]),
        ("Look at the image.", {"image": None}, ["instructions: 'image', and no task has an image (images)"]),
        ("Choose “cannot judge” then.", {}, ["instructions: 'cannot judge', and that is no answer (cannot_judge)"]),
        ("Choose “cannot judge” then.", {"cannot_judge": True}, []),
        ("They may be equally good.", {"kind": "pairs", "captions": 2}, []),
        ("They may be equally good.", {"kind": "pairs", "captions": 2, "ties": False},
         ["instructions: 'equally good', and that is no answer (ties)"]),
        ("The keys y, o and n choose one of three labels.", {"kind": "labels"}, []),
        ("The keys a and b choose.", {"kind": "labels", "options": (LabelOption("x", "a"), LabelOption("z", "c"))},
         ["instructions: 'keys a and b', and the keys of the labels are a, c"]),
        ("Ordnen Sie die vier Bildunterschriften.", {"language": "de"},
         ["instructions: 'vier Bildunterschriften', and a page has 3"]),
        ("Rate the four captions.", {"language": "de"}, ["instructions: 'four captions', and a page has 3"]),
        ("Bewerten Sie von 1 bis 7.", {"language": "de"}, ["instructions: '1 bis 7', and a scale goes from 1 to 5"]),
        ("请给四个描述打分。", {"language": "zh"}, ["instructions: '四个描述', and a page has 3"]),
        ("请看图片。", {"language": "zh", "image": None}, ["instructions: '图片', and no task has an image (images)"]),
        ("![x](im1.jpg)", {}, ["the texts show the image 'im1.jpg', and there is no images, a folder to find it in"]),
    ],
)  # fmt: skip
def test_texts_are_held_against_the_study(text, options, found):
    assert findings(text, **options) == found


def test_an_example_must_be_an_image_of_the_folder(tmp_path):
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (8, 6)).save(tmp_path / "photos" / "good.jpg")
    (tmp_path / "secret.jpg").write_text("x")
    plan = make_plan(tmp_path, instructions="![](good.jpg) ![](bad.jpg) ![](../secret.jpg)")
    messages = [finding.message for finding in check_texts(plan, [], 1.0)]
    assert len(messages) == 2 and "'bad.jpg': cannot be read" in messages[0] and "is outside" in messages[1]


def test_words_that_an_owner_leaves_in_english_are_told():
    (message,) = findings("x", language="sw", words={"save": "Hifadhi"})
    assert message.startswith("words: ") and "texts of the pages are missing and appear in English (task_of" in message


def test_the_text_of_a_page():
    page = """<head><title>no</title></head><p>One <b>two</b></p><ul><li>three</li></ul><p hidden>no</p>
    <fieldset><legend>Four<span class="unseen"> no</span></legend><p class="lack"></p><div class="points">
    <label class="point"><input type="radio"><span>1<i>bad</i></span></label>
    <label class="point"><input type="radio"><span>2</span></label></div></fieldset>
    <img src="x" alt="A dog"><dialog><p>no</p></dialog><p>five &amp; six</p>"""
    assert PageText(page).lines == ["One two", "- three", "Four", "1 bad 2", "[A dog]", "five & six"]
