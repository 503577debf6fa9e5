"""The animated terminal of the README shows what the commands print today, in one file without scripts."""

import re
from xml.etree import ElementTree

import pytest
from lab.site.terminal import PICTURE, draw, record


@pytest.fixture(scope="module")
def scenes():
    return record()


def test_the_picture_shows_what_the_commands_print(scenes):
    stored = PICTURE.read_text(encoding="utf-8")
    assert stored == draw(scenes), "python -m lab.site.terminal draws it again"


def test_every_line_is_in_the_picture_with_its_command(scenes):
    root = ElementTree.fromstring(draw(scenes))
    drawn = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    for scene in scenes:
        assert scene.command in drawn
        assert all(line.plain in drawn for line in scene.lines if line.plain.strip())


def test_the_picture_is_one_file_and_can_stand_still():
    stored = PICTURE.read_text(encoding="utf-8")
    assert "<script" not in stored and "href" not in stored
    assert set(re.findall(r"https?://[^\"]*", stored)) == {"http://www.w3.org/2000/svg"}
    assert "prefers-reduced-motion: reduce" in stored


def test_a_browser_shows_one_scene_at_a_time(chromium):
    context = chromium.new_context(reduced_motion="reduce")
    still = context.new_page()
    still.goto(PICTURE.as_uri())
    assert visible(still) == ["scene-2"]
    context.close()
    moving = chromium.new_page()
    moving.goto(PICTURE.as_uri())
    for number in range(3):
        moving.evaluate(PAUSED_AT, (number + 0.5) / 3)
        assert visible(moving) == [f"scene-{number}"]
    moving.close()


PAUSED_AT = """share => document.getAnimations().forEach(one => {
  one.pause();
  one.currentTime = share * one.effect.getTiming().duration;
})"""


def visible(tab):
    return tab.evaluate(
        "[...document.querySelectorAll('.scene')].filter(e => getComputedStyle(e).opacity === '1').map(e => e.id)"
    )
